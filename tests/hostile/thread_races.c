/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of one process against each other: exec, exit, fork, vfork, kill, unmap, /proc/self/mem,
 * contexts of asynchronous input and output. */
#include "hostile.h"
#include <linux/aio_abi.h>
#include <sched.h>
#include <sys/uio.h>

#define ROUNDS 24
#define AREA 8192

extern char **environ;
static char *area;

static void *unmaps(void *arg)
{
	for (;;) {
		char *m = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		memset(m, 1, 1 << 16);
		munmap(m, 1 << 16);
	}
	return arg;
}

static void *flips(void *arg)
{
	for (;;) {
		munmap(area, AREA);
		mmap(area, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		     -1, 0);
		mprotect(area, 4096, PROT_NONE);
	}
	return arg;
}

static void *copies(void *arg)
{
	int p[2];

	(void)!pipe2(p, O_NONBLOCK);
	for (;;) {
		(void)!write(p[1], area, AREA);
		(void)!read(p[0], area, AREA);
		syscall(SYS_stat, area, area + 4000);
	}
	return arg;
}

static void *forks(void *arg)
{
	for (;;) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(0);
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	return arg;
}

static void exec_self(void)
{
	char *const args[] = {"thread_races", "again", NULL};

	execve("/proc/self/exe", args, environ);
}

static void *execs(void *arg)
{
	usleep((useconds_t)rnd_below(3000));
	exec_self();
	return arg;
}

static void *vforks(void *arg)
{
	for (;;) {
		pid_t pid = vfork();

		if (pid == 0) {
			exec_self();
			_exit(1);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	return arg;
}

static void *ends(void *arg)
{
	usleep((useconds_t)rnd_below(4000));
	switch (rnd_below(3)) {
	case 0:
		kill(getpid(), SIGKILL);
		break;
	case 1:
		_exit(3);
		break;
	default:
		raise(SIGSEGV);
		break;
	}
	return arg;
}

static void *nothing(void *arg)
{
	return arg;
}

static void *creates(void *arg)
{
	for (;;) {
		pthread_t t;

		if (pthread_create(&t, NULL, nothing, NULL) == 0)
			pthread_detach(t);
	}
	return arg;
}

static void *sends(void *arg)
{
	for (;;)
		kill(getpid(), SIGUSR1);
	return arg;
}

static void *reads_others(void *arg)
{
	static char buf[AREA];

	for (;;) {
		struct iovec mine = {buf, AREA}, its = {area, AREA};

		(void)!process_vm_readv(getpid(), &mine, 1, &its, 1, 0);
		(void)!process_vm_writev(getppid(), &mine, 1, &its, 1, 0);
	}
	return arg;
}

static void *reads_proc(void *arg)
{
	static char buf[4096];

	for (;;) {
		int fd = open("/proc/self/maps", O_RDONLY);

		while (read(fd, buf, sizeof(buf)) > 0)
			;
		close(fd);
		fd = open("/proc/self/mem", O_RDWR);
		(void)!pread(fd, buf, sizeof(buf), (off_t)(uintptr_t)area);
		(void)!pwrite(fd, buf, sizeof(buf), (off_t)(uintptr_t)area);
		close(fd);
	}
	return arg;
}

static volatile aio_context_t context;

static void *makes_contexts(void *arg)
{
	for (;;) {
		aio_context_t made = 0;

		if (syscall(SYS_io_setup, 1 + rnd_below(200), &made) != 0)
			continue;
		context = made;
		sched_yield();
		if (rnd_below(2))
			munmap((void *)made, 4096);
		syscall(SYS_io_destroy, made);
	}
	return arg;
}

static void *uses_contexts(void *arg)
{
	struct timespec wait = {0, 100000};
	struct io_event events[4];
	uint32_t ring[4];
	int p[2];

	(void)!pipe2(p, O_NONBLOCK);
	for (;;) {
		struct iovec mine = {ring, sizeof(ring)}, its = {(void *)context, sizeof(ring)};
		struct iocb cbs[2] = {
			{.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (uint32_t)p[1]},
			{.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (uint32_t)p[0]},
		};
		struct iocb *list[3] = {&cbs[0], &cbs[1], (struct iocb *)context};

		cbs[0].aio_buf = cbs[1].aio_buf = (uintptr_t)area;
		cbs[0].aio_nbytes = cbs[1].aio_nbytes = AREA;
		syscall(SYS_io_submit, context, 3, list);
		for (size_t i = 0; i < HOSTILE_COUNT(ring); i++)
			ring[i] = (uint32_t)rnd();
		(void)!process_vm_writev(getpid(), &mine, 1, &its, 1, 0);
		syscall(SYS_io_getevents, context, 1, 4, rnd_below(2) ? (void *)area : events,
			&wait);
	}
	return arg;
}

static void *(*const bodies[])(void *) = {unmaps,         flips,         copies,       forks,
					  execs,          vforks,        ends,         creates,
					  sends,          ends,          reads_others, reads_proc,
					  makes_contexts, uses_contexts, uses_contexts};

static void ignore(int sig)
{
	(void)sig;
}

static void round_of(uint64_t seed)
{
	hostile_seed = seed | 1;
	area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGUSR1, ignore);
	setpgid(0, 0);
	for (uint64_t n = 2 + rnd_below(6); n > 0; n--) {
		pthread_t t;

		pthread_create(&t, NULL, bodies[rnd_below(HOSTILE_COUNT(bodies))], NULL);
	}
	usleep((useconds_t)rnd_below(20000));
	if (rnd_below(2))
		exec_self();
	if (rnd_below(2))
		pthread_exit(NULL);
	_exit(5);
}

int main(int argc, char **argv)
{
	hostile_begin();
	if (argc > 1 || !argv[0])
		return 0;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t seed = rnd();
		pid_t pid = fork();

		if (pid == 0)
			round_of(seed);
		end_of(pid, 300);
		kill(-pid, SIGKILL);
	}
	puts("ok");
	return 0;
}
