/* SPDX-License-Identifier: Apache-2.0 */
/* What a process has left in the area of its thread that the next one gets: nothing of its
 * registers, whatever kind of calls it made. On platforms without areas there is nothing to look
 * at. */
#include "hostile.h"
#include "platform/stub_trap/layout.h"

#define SECRET UINT64_C(0x5ec2e7aaaaaa)
#define FOUND 2
#define ROUNDS 12

/* Calls that carry no memory along, from one site, with secrets in what calls preserve. */
static void keep_secrets(void)
{
	__asm__ volatile("movabs $0x5ec2e7aaaaaa0012, %%r12\n\t"
			 "movabs $0x5ec2e7aaaaaa0013, %%r13\n\t"
			 "movabs $0x5ec2e7aaaaaa0014, %%r14\n\t"
			 "movabs $0x5ec2e7aaaaaa0015, %%r15\n\t"
			 "movabs $0x5ec2e7aaaaaa00bb, %%rbx\n\t"
			 "mov $500, %%r10\n"
			 "1:\txor %%edi, %%edi\n\t"
			 "xor %%esi, %%esi\n\t"
			 "mov $1, %%edx\n\t"
			 "mov $8, %%eax\n\t" /* lseek */
			 "syscall\n\t"
			 "dec %%r10\n\t"
			 "jnz 1b\n\t"
			 "xor %%edi, %%edi\n\t"
			 "mov $231, %%eax\n\t" /* exit_group */
			 "syscall"
			 :
			 :
			 : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r10", "r11", "r12", "r13",
			   "r14", "r15", "memory");
}

static void nothing_there(int sig)
{
	_exit(sig == SIGSEGV ? 0 : 1);
}

static int look(void)
{
	signal(SIGSEGV, nothing_there);
	for (unsigned at = 0; at < TS_AREA_SIZE; at += 8) {
		if (*(volatile uint64_t *)(TS_AREAS + at) >> 16 == SECRET)
			return FOUND;
	}
	return 0;
}

/* In a new process and program, as another user. */
static int run(const char *self, const char *what, uid_t uid)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (setgid(uid) == 0 && setuid(uid) == 0)
			execl(self, self, what, NULL);
		_exit(9);
	}
	waitpid(pid, &status, 0);
	return status;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "keep") == 0)
		keep_secrets();
	if (argc > 1)
		return look();
	hostile_begin();
	for (unsigned i = 0; i < ROUNDS; i++) {
		if (run(argv[0], "keep", 1000) != 0) {
			puts("nobody kept a secret");
			return 1;
		}
		for (unsigned k = 0; k < 3; k++) {
			const int status = run(argv[0], "look", 2000);

			if (status != 0) {
				printf("round %u: status %x\n", i, status);
				return 1;
			}
		}
	}
	puts("ok");
	return 0;
}
