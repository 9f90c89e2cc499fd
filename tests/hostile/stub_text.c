/* SPDX-License-Identifier: Apache-2.0 */
/* Jumps to every byte of the trap stub's text, with registers that are likely to hurt. On other
 * platforms something else, or nothing, is there. */
#include "hostile.h"
#include <setjmp.h>
#include <sys/sysinfo.h>
#include <ucontext.h>

#define TEXT (STUB_REGION + 0x10000)
#define TEXT_SIZE 0x4000
#define PARTS 4
#define SECONDS 20

static sigjmp_buf g_back;
static struct progress {
	volatile uint32_t next;
} * g_progress;

static void on_signal(int sig)
{
	(void)sig;
	siglongjmp(g_back, 1);
}

/* Host calls that guest threads may make, calls of theirs that the filter traps, areas, the like.
 */
static uint64_t value(void)
{
	static uint64_t scratch[512];
	static const uint64_t nrs[] = {15, 60, 158, 202, 0x3f001, 9, 56, 231, 8, 317};

	switch (rnd_below(6)) {
	case 0:
		return nrs[rnd_below(HOSTILE_COUNT(nrs))];
	case 1:
		return STUB_REGION + 0x1000000 + rnd_below(4) * 0x10000 + rnd_below(0x2000) * 8;
	case 2:
		return (uint64_t)scratch + rnd_below(512) * 8;
	default:
		return rnd_value();
	}
}

static void jump(uint64_t to)
{
	uint64_t v[16];

	for (unsigned i = 0; i < HOSTILE_COUNT(v); i++)
		v[i] = value();
	/* Half of the time there is a stack. */
	if (rnd_below(2))
		v[7] = (uint64_t)__builtin_frame_address(0) - 4096;
	v[15] = to;
	__asm__ volatile("mov %0, %%rax\n\t"
			 "mov 8(%%rax), %%rbx\n\tmov 16(%%rax), %%rcx\n\tmov 24(%%rax), %%rdx\n\t"
			 "mov 32(%%rax), %%rsi\n\tmov 40(%%rax), %%rdi\n\tmov 48(%%rax), %%rbp\n\t"
			 "mov 64(%%rax), %%r8\n\tmov 72(%%rax), %%r9\n\tmov 80(%%rax), %%r10\n\t"
			 "mov 88(%%rax), %%r11\n\tmov 96(%%rax), %%r12\n\tmov 104(%%rax), %%r13\n\t"
			 "mov 112(%%rax), %%r14\n\tmov 120(%%rax), %%r15\n\t"
			 "mov 56(%%rax), %%rsp\n\tmov (%%rax), %%rax\n\tjmp *%%r15"
			 :
			 : "r"(v)
			 : "memory");
}

static void child(unsigned part)
{
	static uint8_t stack[65536];
	const struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
	const stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};
	const uint32_t end = (part + 1) * (TEXT_SIZE / PARTS);
	struct progress *p = &g_progress[part];

	sigaltstack(&ss, NULL);
	for (int s = 1; s < 32; s++)
		sigaction(s, &sa, NULL);
	(void)sigsetjmp(g_back, 1);
	while (p->next < end) {
		const uint32_t at = p->next++;

		hostile_seed = 0x9e3779b97f4a7c15u * (at + 1);
		/* In an order that has been everywhere early on: on a busy machine time may run
		 * out. */
		jump(TEXT + part * (TEXT_SIZE / PARTS) + at * 1021 % (TEXT_SIZE / PARTS));
	}
	_exit(0);
}

/* Children may have made others by accident, and those more. */
static void kill_all(void)
{
	kill(-1, SIGKILL);
	while (wait(NULL) > 0)
		;
}

int main(void)
{
	struct sysinfo si;
	unsigned left = PARTS, stuck[PARTS] = {0};
	uint32_t last[PARTS] = {0};
	pid_t pid[PARTS] = {0};
	const time_t until = time(NULL) + SECONDS;

	hostile_begin();
	g_progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < PARTS; i++)
		g_progress[i].next = last[i] = i * (TEXT_SIZE / PARTS);
	while (left > 0 && time(NULL) < until) {
		left = 0;
		for (unsigned i = 0; i < PARTS; i++) {
			struct progress *p = &g_progress[i];

			if (pid[i] > 0 && waitpid(pid[i], NULL, WNOHANG) == pid[i])
				pid[i] = 0;
			if (pid[i] > 0 && p->next == last[i] && ++stuck[i] > 8) {
				/* It waits for ever, or its thread is gone. It must die in the end,
				 * but need not at once. */
				kill(pid[i], SIGKILL);
				pid[i] = 0;
			}
			if (p->next != last[i])
				stuck[i] = 0;
			last[i] = p->next;
			if (p->next >= (i + 1) * (TEXT_SIZE / PARTS) && pid[i] == 0)
				continue;
			left++;
			if (pid[i] == 0) {
				stuck[i] = 0;
				pid[i] = fork();
				if (pid[i] == 0) {
					const int null = open("/dev/null", O_RDWR);

					/* It may well write. */
					for (int k = 0; k < 3; k++)
						dup2(null, k);
					child(i);
				}
			}
		}
		/* Thousands would take minutes to end on a busy machine. */
		if (sysinfo(&si) == 0 && si.procs > 100) {
			kill_all();
			memset(pid, 0, sizeof(pid));
		}
		usleep(1000);
	}
	kill_all();
	puts("ok");
	return 0;
}
