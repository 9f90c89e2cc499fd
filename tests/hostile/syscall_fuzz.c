/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls with random arguments from many processes and threads. The sandbox must survive. */
#include "hostile.h"
#include <sys/time.h>

#define ARENA_PAGES 64
#define SECONDS 4
#define PROCESSES 4

static const char *const paths[] = {
	"/tmp/a",
	"/tmp/b",
	"/tmp/d/e",
	"/tmp/d",
	"/tmp/l",
	"/proc/self/maps",
	"/proc/self/fd/3",
	"/proc/1/status",
	"/dev/null",
	"/dev/zero",
	"/dev/ptmx",
	"/dev/pts/0",
	"/dev/full",
	"/",
	"..",
	".",
	"",
	"/proc/self/exe",
	"/proc/self/mem",
	"/etc/passwd",
	"/bin/true",
	"/proc/sys/kernel/pid_max",
	"/dev/shm/x",
	"/proc/self/task",
	"/sys/kernel",
	"user.x",
	"trusted.y",
	"tmpfs",
	"proc",
	"overlay",
	"/dev/tty",
	"/proc/self/comm",
	"/proc/self/ns/mnt",
};
static char *arena, *edge; /* edge: nothing is mapped 4096 bytes on */

static uint64_t a_path(void)
{
	return (uint64_t)paths[rnd_below(HOSTILE_COUNT(paths))];
}

static uint64_t a_buffer(void)
{
	switch (rnd_below(8)) {
	case 0:
		return 0;
	case 1:
		return (uint64_t)(edge + 4096 - rnd_below(64));
	case 2:
		return rnd_value();
	default:
		return (uint64_t)(arena + rnd_below(ARENA_PAGES) * 4096 +
				  (rnd_below(2) ? 0 : rnd_below(4096)));
	}
}

static uint64_t an_fd(void)
{
	switch (rnd_below(12)) {
	case 0:
		return (uint64_t)AT_FDCWD;
	case 1:
		return rnd_value();
	default:
		return 3 + rnd_below(40);
	}
}

static uint64_t an_argument(void)
{
	switch (rnd_below(6)) {
	case 0:
		return an_fd();
	case 1:
		return a_buffer();
	case 2:
		return a_path();
	case 3:
		return rnd_below(16);
	case 4:
		return rnd_below(4096);
	default:
		return rnd_value();
	}
}

static void scramble(void)
{
	uint64_t *p = (uint64_t *)(arena + rnd_below(ARENA_PAGES) * 4096);

	for (uint64_t n = rnd_below(64); n > 0; n--)
		p[n] = rnd_below(3) ? an_argument() : rnd_below(8) | rnd_below(8) << 32;
}

static long a_number(void)
{
	for (;;) {
		long nr = (long)rnd_below(470);

		switch (nr) {
		case SYS_pause:
		case SYS_vfork:
		case SYS_clone3:
		case SYS_mlockall:
			continue;
		case SYS_exit:
		case SYS_exit_group:
		case SYS_fork:
		case SYS_clone:
		case SYS_munmap:
			if (rnd_below(30))
				continue;
			break;
		default:
			break;
		}
		return rnd_below(1000) ? nr : nr | 0x40000000;
	}
}

static void one_call(void)
{
	long nr = a_number(), r;
	uint64_t a[6];

	for (int i = 0; i < 6; i++)
		a[i] = an_argument();
	if (rnd_below(2))
		a[0] = an_fd();
	if (rnd_below(2))
		a[1] = a_buffer();
	if (rnd_below(4) == 0)
		scramble();
	switch (nr) {
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
		a[0] = (uint64_t)getpid();
		break;
	case SYS_clone:
		a[0] &= ~(uint64_t)(CLONE_VM | CLONE_VFORK);
		a[1] = 0;
		break;
	/* Sizes that memory is really spent on. */
	case SYS_fallocate:
		a[2] &= 0xffffff;
		a[3] &= 0xffffff;
		break;
	case SYS_mmap:
		a[3] &= ~(uint64_t)MAP_POPULATE;
		break;
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_madvise:
		a[1] &= 0xffffff;
		break;
	default:
		break;
	}
	r = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if ((nr == SYS_fork || nr == SYS_clone) && r == 0)
		_exit(0);
}

static void *many_calls(void *arg)
{
	hostile_seed = (uint64_t)arg | 1;
	for (;;)
		one_call();
	return NULL;
}

static void ignore(int sig)
{
	(void)sig;
}

static void child(uint64_t seed)
{
	const struct itimerval it = {{0, 20000}, {0, 20000}};
	int p[2], null = open("/dev/null", O_RDWR);

	hostile_seed = seed | 1;
	setsid();
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	arena = mmap(NULL, ARENA_PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(edge + 4096, 4096);
	for (int i = 0; i < ARENA_PAGES; i++)
		strcpy(arena + i * 4096, paths[(size_t)i % HOSTILE_COUNT(paths)]);
	for (int s = 1; s < 32; s++) {
		const struct sigaction sa = {.sa_handler = ignore, .sa_flags = SA_NODEFER};

		if (s != SIGSEGV && s != SIGBUS && s != SIGILL && s != SIGFPE && s != SIGTRAP &&
		    s != SIGSYS)
			sigaction(s, &sa, NULL);
	}
	setitimer(ITIMER_REAL, &it, NULL);
	(void)!pipe(p);
	syscall(SYS_socketpair, 1, 1 + rnd_below(2), 0, p);
	open("/tmp/a", O_RDWR | O_CREAT, 0666);
	open("/tmp/d", O_RDONLY);
	open("/proc/self/maps", O_RDONLY);
	syscall(SYS_epoll_create1, 0);
	syscall(SYS_eventfd2, 0, O_NONBLOCK);
	syscall(SYS_timerfd_create, 1, O_NONBLOCK);
	syscall(SYS_inotify_init1, O_NONBLOCK);
	syscall(SYS_memfd_create, "x", 3);
	open("/dev/ptmx", O_RDWR | O_NOCTTY);
	syscall(SYS_pidfd_open, getpid(), 0);
	syscall(SYS_signalfd4, -1, arena, 8, O_NONBLOCK);
	open("/etc/passwd", O_RDONLY);
	syscall(SYS_socket, 1, 1, 0);
	for (int i = 0; i < 2; i++) {
		pthread_t t;

		pthread_create(&t, NULL, many_calls, (void *)(uintptr_t)rnd());
	}
	for (int n = 2000; n > 0; n--)
		one_call();
	_exit(0);
}

int main(void)
{
	const time_t end = time(NULL) + SECONDS;
	int alive = 0;
	uint64_t n = 0;

	hostile_begin();
	mkdir("/tmp/d", 0777);
	/* A child may send anything to anybody: this process is safe as a leader that dies last. */
	while (time(NULL) < end) {
		if (alive < PROCESSES) {
			pid_t pid = fork();

			if (pid == 0)
				child(++n * UINT64_C(0x9e3779b97f4a7c15));
			n++;
			alive += pid > 0;
		} else if (waitpid(-1, NULL, WNOHANG) > 0) {
			alive--;
		} else {
			usleep(5000);
			if (n % 64 == 0) {
				kill(-1, SIGKILL); /* those that sleep for good */
				n++;
			}
		}
	}
	kill(-1, SIGKILL);
	puts("ok");
	return 0;
}
