/* SPDX-License-Identifier: Apache-2.0 */
/* The pages that the trap platform shares with guest threads, rewritten from another thread during
 * calls: words of the protocol, registers, windows, frames; and the signal actions of a process
 * that has no other thread, by a child that shares its memory. On other platforms nothing is there,
 * and the writer ends at once. */
#include "hostile.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include "platform/platform.h"
#include "platform/stub_trap/layout.h"

#define AREAS (STUB_REGION + 0x1000000)
#define AREA_SIZE UINT64_C(0x10000)
#define FAST TS_A_FAST
#define WINDOWS (FAST + (unsigned)offsetof(struct ts_fast, window_count))
#define AT(field) ((unsigned)offsetof(struct ts_area, field))
#define ROUNDS 56
#define WAY_COUNT 14

static volatile uint8_t *area(void)
{
	return (volatile uint8_t *)(AREAS + rnd_below(5) * AREA_SIZE);
}

static void set32(unsigned offset, uint32_t v)
{
	*(volatile uint32_t *)(area() + offset) = v;
}

static void set64(unsigned offset, uint64_t v)
{
	*(volatile uint64_t *)(area() + offset) = v;
}

static void flip(uint64_t way)
{
	static const uint32_t kinds[] = {0,  5,     7,       11,      17,      23,
					 31, 0x100, 0x10100, 0x20100, 0x40101, 0xffff0100};

	switch (way) {
	case 0: /* anything */
		set32((unsigned)rnd_below(TS_A_WINDOW) & ~3u, (uint32_t)rnd_value());
		break;
	case 1: /* the state */
		set32(AT(state), (uint32_t)rnd_below(5));
		break;
	case 2: /* what was posted */
		set32(AT(kind), kinds[rnd_below(HOSTILE_COUNT(kinds))]);
		break;
	case 3: /* where the frame is */
		set32(AT(frame), (uint32_t)rnd_value());
		set32(AT(frame), (uint32_t)rnd_below(AREA_SIZE));
		break;
	case 4: { /* windows: what goes over, what comes back, and the stub's own list */
		const unsigned w =
			WINDOWS + 8 + (unsigned)rnd_below(4) * (unsigned)sizeof(struct ts_window);

		set32(AT(travels) + (unsigned)rnd_below(4) * 4,
		      rnd_below(2) ? (uint32_t)rnd_value()
				   : (uint32_t)(rnd_below(0x8000) | rnd_below(8) << 16 |
						rnd_below(7) << TS_TRAVELS_ARG_SHIFT));
		set64(AT(written) + (unsigned)rnd_below(4) * 8, rnd_value());
		set32(WINDOWS, (uint32_t)rnd_below(7));
		set64(w, rnd_value());
		set32(w + 8, (uint32_t)rnd_value());
		set32(w + 12, rnd_below(2) ? (uint32_t)rnd_value() : (uint32_t)rnd_below(65536));
		break;
	}
	case 5: /* registers */
		set64(FAST + 64 + (unsigned)rnd_below(17) * 8, rnd_value());
		break;
	case 6: /* signal frames */
		set64(0xe000 + (unsigned)rnd_below(0x2000 / 8) * 8, rnd_value());
		break;
	case 7: /* what the reply asks for */
		set32(AT(atomic_addr), (uint32_t)rnd_value());
		set32(AT(cmd), (uint32_t)rnd_below(2 * TS_CMD_SAVE));
		set32(AT(hop), (uint32_t)rnd_below(4));
		break;
	case 8: /* where to go on, and the cookie */
		set64(FAST + (unsigned)rnd_below(8) * 8, rnd_value());
		break;
	case 9: /* the stack of calls, and what windows hold */
		set64(0x8f00 + (unsigned)rnd_below(32) * 8, rnd_value());
		set32(0x1000 + (unsigned)rnd_below(0x400) * 4, (uint32_t)rnd());
		break;
	case 10: /* who the thread is, and the agent's bell */
		set32(AT(tid), (uint32_t)rnd_value());
		set32(AT(agent), (uint32_t)rnd_below(5));
		break;
	case 11: /* a call from a rewritten site, in its one line: which, how many windows,
		    arguments */
		set32(AT(kind),
		      TS_KIND_FAST | (uint32_t)rnd_below(TS_WINDOWS + 2) << TS_KIND_WINDOWS_SHIFT |
			      (uint32_t)rnd_below(512) << TS_KIND_NUMBER_SHIFT);
		set64(AT(arg) + (unsigned)rnd_below(4) * 8, rnd_value());
		break;
	case 12: { /* reads that the stub may answer, and what it tells of them */
		const unsigned slot = TS_A_READS + (unsigned)rnd_below(TS_READS) *
							   (unsigned)sizeof(struct ts_read);

		set32(slot, (uint32_t)rnd_below(16));
		set64(slot + 8 + (unsigned)rnd_below(5) * 8, rnd_value());
		set64(TS_A_TOLD + (unsigned)rnd_below(sizeof(struct ts_told) / 8) * 8, rnd_value());
		break;
	}
	default:
		flip(rnd_below(WAY_COUNT - 1));
	}
}

static uint64_t g_way;

static void *flips(void *arg)
{
	hostile_seed = (uint64_t)(uintptr_t)arg | 1;
	usleep(2000);
	for (;;) {
		flip(g_way);
		for (volatile uint64_t i = rnd_below(300); i > 0; i--)
			;
	}
	return arg;
}

static void on_signal(int sig)
{
	(void)sig;
}

static void *calls(void *arg)
{
	static char buf[4][16384];
	char *mine = buf[(uintptr_t)arg & 3];
	int fd[2], null = open("/dev/zero", O_RDONLY);
	struct stat st;

	hostile_seed = (uint64_t)(uintptr_t)arg * 77777 + 1;
	(void)!pipe2(fd, O_NONBLOCK);
	for (;;) {
		switch (rnd_below(13)) {
		case 0:
			(void)!read(null, mine, rnd_below(16384));
			break;
		case 1:
			(void)!write(fd[1], mine, rnd_below(4096));
			break;
		case 2:
			(void)!read(fd[0], mine, rnd_below(4096));
			break;
		case 3:
			stat("/etc/passwd", &st);
			break;
		case 4: {
			char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			mprotect(p, 4096, PROT_READ);
			munmap(p, 65536);
			break;
		}
		case 5:
			raise(SIGUSR1);
			break;
		case 6:
			getppid();
			break;
		case 7: {
			struct iovec v[3] = {{mine, 10}, {mine + 5, 100}, {mine + 200, 3}};

			(void)!readv(null, v, 3);
			break;
		}
		case 8:
			sched_yield();
			break;
		case 9:
			syscall(SYS_futex, mine, 1, 1, NULL, NULL, 0);
			break;
		case 10:
			if (rnd_below(8) == 0 && fork() == 0)
				_exit(0);
			break;
		case 11:
			signal(SIGUSR1, rnd_below(2) ? SIG_IGN : on_signal);
			signal(SIGCHLD, rnd_below(2) ? SIG_IGN : SIG_DFL);
			break;
		default:
			syscall(SYS_getcwd, mine, rnd_below(4096));
		}
	}
	return arg;
}

static void round_of(unsigned i)
{
	const int null = open("/dev/null", O_RDWR);
	pthread_t t;

	for (int k = 0; k < 3; k++)
		dup2(null, k);
	g_way = i % WAY_COUNT;
	signal(SIGUSR1, on_signal);
	signal(SIGCHLD, SIG_IGN);
	for (uintptr_t k = 1; k < 4; k++)
		pthread_create(&t, NULL, calls, (void *)(k + i * 4));
	pthread_create(&t, NULL, flips, (void *)(uintptr_t)(rnd() + i));
	for (unsigned k = 0; k < 2000; k++)
		syscall(SYS_close, -1);
	usleep(60000);
	_exit(0);
}

/* Of the first area: nobody has told the sentry of these. */
static int flips_actions(void *arg)
{
	volatile uint8_t *a = (volatile uint8_t *)(AREAS + TS_A_ACTIONS);
	const uint64_t values[] = {0, 1, (uint64_t)(uintptr_t)on_signal};

	(void)arg;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		const unsigned at = offsetof(struct pf_actions, action) +
				    (unsigned)rnd_below(PF_ACTIONS * 4) * 8;

		*(volatile uint64_t *)(a + at) = rnd_below(3) ? values[rnd_below(3)] : rnd_value();
		*(volatile uint64_t *)(a + offsetof(struct pf_actions, told)) = rnd();
		*(volatile uint32_t *)a = (uint32_t)rnd_below(2);
	}
	return 0;
}

static void round_of_actions(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	const int signals[] = {SIGUSR1, SIGCHLD, SIGWINCH, SIGCONT, SIGURG, SIGHUP};
	struct sigaction sa = {.sa_handler = on_signal}, old;

	for (unsigned i = 0; i < HOSTILE_COUNT(signals); i++)
		sigaction(signals[i], &sa, NULL);
	for (unsigned i = 0; i < 64; i++)
		sigaction(SIGUSR1, NULL, &old);
	clone(flips_actions, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
	for (;;) {
		const int sig = signals[rnd_below(HOSTILE_COUNT(signals))];

		sa.sa_flags = rnd_below(2) ? SA_NOCLDWAIT : 0;
		sa.sa_handler = rnd_below(2) ? on_signal : SIG_IGN;
		sigaction(sig, &sa, &old);
		kill(getpid(), sig);
		if (rnd_below(16) == 0 && fork() == 0)
			_exit(0);
		(void)waitpid(-1, NULL, WNOHANG);
	}
}

/* From outside: who sends looks at what has not been told, and so does who reads its status. */
static void attack_actions(unsigned i)
{
	const pid_t pid = fork();
	char path[64], text[4096];

	if (pid == 0) {
		hostile_seed = (i + 1) * 0x9e3779b97f4a7c15u;
		round_of_actions();
	}
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	for (unsigned k = 0; k < 100; k++) {
		const int fd = open(path, O_RDONLY);

		(void)!read(fd, text, sizeof(text));
		close(fd);
		kill(pid, SIGWINCH);
		usleep(300);
	}
	kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* What the sandbox is still good for. */
static void still_alive(void)
{
	int fd[2], status;
	char x = 0;
	pid_t pid;

	if (pipe(fd) != 0)
		exit(3);
	pid = fork();
	if (pid == 0)
		_exit(write(fd[1], "x", 1) == 1 ? 7 : 8);
	if (waitpid(pid, &status, 0) != pid || status != 7 << 8 || read(fd[0], &x, 1) != 1 ||
	    x != 'x') {
		printf("not alive any more: status %#x\n", status);
		exit(4);
	}
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	pid_t pids[4] = {0};

	hostile_begin();
	for (unsigned i = 0; i < ROUNDS; i++) {
		pid_t *slot = &pids[i % 4];

		/* What is deaf takes a while to die: not waited for yet. */
		if (*slot > 0)
			kill(*slot, SIGKILL);
		*slot = fork();
		if (*slot == 0) {
			hostile_seed = (i + 1) * 0x9e3779b97f4a7c15u;
			round_of(i);
		}
		usleep(40000);
		if (i % 8 == 7)
			still_alive();
	}
	for (unsigned i = 0; i < 8; i++) {
		attack_actions(i);
		still_alive();
	}
	kill(-1, SIGKILL);
	while (wait(NULL) > 0)
		;
	still_alive();
	puts("ok");
	return 0;
}
