/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile-part-of: meters.sh
 *
 * One attack on one resource: takes as much as it gets, tells with which errno that ended and how
 * many there were, keeps all of it until standard input ends, and then ends itself. Run with small
 * limits, or it is the host that it hurts.
 */
#include "host_calls.h"
#include <limits.h>
#include <stdbool.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/xattr.h>

#define MANY 1000000l
#define MIB ((size_t)1 << 20)

/* What an attack returns: how many it got; errno says why there are no more. */

static void *parked(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static long attack_fork(void)
{
	long n;

	for (n = 0; n < MANY; n++) {
		pid_t p = fork();

		if (p < 0)
			break;
		if (p == 0) {
			if (n % 2)
				_exit(0); /* a zombie counts, too */
			parked(NULL);
		}
	}
	return n;
}

static long attack_thread(void)
{
	pthread_attr_t a;
	long n;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN);
	for (n = 0; n < MANY; n++) {
		pthread_t t;
		int r = pthread_create(&t, &a, parked, NULL);

		if (r) {
			errno = r;
			break;
		}
	}
	return n;
}

static long attack_mmap(void)
{
	long n;

	for (n = 0; n < MANY; n++) {
		char *p =
			mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			break;
		memset(p, 1, MIB);
	}
	return n;
}

static long attack_brk(void)
{
	char *at = sbrk(0);
	long n;

	for (n = 0; n < MANY; n++) {
		if (sbrk((intptr_t)MIB) == (void *)-1)
			break;
		memset(at + (size_t)n * MIB, 1, MIB);
	}
	return n;
}

static long attack_huge(void)
{
	return mmap(NULL, (size_t)1 << 40, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0) != MAP_FAILED;
}

/* More than there may be, promised in pieces that may be, then touched by a child: it is killed. */
static long touch_in_child(int flags)
{
	int status;
	pid_t p = fork();

	if (p == 0) {
		char *m[8];

		for (int i = 0; i < 8; i++)
			m[i] = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE,
				    flags | MAP_NORESERVE | MAP_ANONYMOUS, -1, 0);
		for (size_t at = 0; at < 16 * MIB; at += 4096)
			for (int i = 0; i < 8; i++)
				if (m[i] != MAP_FAILED)
					m[i][at] = 1;
		pause();
		_exit(0);
	}
	waitpid(p, &status, 0);
	errno = 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static long attack_touch(void)
{
	return touch_in_child(MAP_PRIVATE);
}

static long attack_touch_shared(void)
{
	return touch_in_child(MAP_SHARED);
}

/* One of the stub's own calls to the host: is it done? */
static bool host_maps(uint64_t addr, uint64_t size)
{
	return host_call(SYS_mmap, (uint64_t[6]){addr, size, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
						 UINT64_MAX}) == (long)addr;
}

/* All that a process can map unasked, or as much for the asking. */
static void map_all(bool unasked)
{
	const size_t size = 24 * MIB;
	char *m = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!unasked)
		(void)!mprotect(m, size, PROT_READ | PROT_WRITE);
	munmap(m, unasked ? size : 0);
	for (size_t at = 0; at < size; at += MIB)
		if (!unasked || host_maps((uint64_t)m + at, MIB))
			memset(m + at, 1, MIB);
}

/* Memory that the sentry has unmapped, as it thinks. */
static void hide(bool unasked)
{
	const size_t size = 60 * MIB;
	char *m = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *hidden = (char *)0x200000000000;

	for (size_t at = 0; unasked && at < size; at += MIB)
		host_munmap((uint64_t)m + at, MIB);
	for (size_t at = 0; at < size; at += MIB) {
		if (!unasked)
			memset(m + at, 1, MIB);
		else if (host_maps((uint64_t)hidden + at, MIB))
			memset(hidden + at, 1, MIB);
	}
	munmap(m, unasked ? size : 0);
}

/* Pages that take two more for their tables. */
static void scatter(bool unasked)
{
	const uint64_t first = 0x200000000000, step = UINT64_C(1) << 30;

	for (uint64_t at = first; at < first + 4000 * step; at += step) {
		if (unasked ? host_maps(at, 4096)
			    : mmap((void *)at, 4096, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
			*(volatile char *)at = 1;
	}
}

/* What a view shows (stub_views.c) of files whose contents were taken away meanwhile. */
static void look_into_holes(bool unasked)
{
	static char buf[64 << 10];

	memset(buf, 1, sizeof(buf));
	for (uint64_t n = 0; n < 200; n++) {
		char *view = (char *)0x7fffff000000 + n % 15 * MIB;
		int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);

		(void)!write(fd, buf, sizeof(buf));
		for (int i = 0; i < 40; i++)
			(void)!pread(fd, buf, sizeof(buf), 0);
		(void)!ftruncate(fd, MIB);
		if (!unasked)
			view = mmap(NULL, MIB, PROT_READ, MAP_SHARED, fd, 0);
		for (uint64_t at = 0; at < MIB; at += 4096)
			(void)*(volatile char *)(view + at);
	}
}

static void (*g_take)(bool unasked);
static int g_taken;

static void take(int sig)
{
	for (int s = SIGILL; s <= SIGSEGV; s++)
		signal(s, take);
	signal(SIGSYS, take);
	/* By a signal: there is no such call, or it is not where it is on trap. */
	g_take(!sig);
	(void)!write(g_taken, "", 1);
	for (;;)
		pause();
}

static long taken_by(int processes, void (*how)(bool unasked))
{
	int status;

	g_take = how;
	/* One after the other: what each lets be seen meanwhile is gone when the next begins. */
	for (int i = 0; i < processes; i++) {
		int p[2];
		char byte;

		if (pipe(p))
			return -1;
		g_taken = p[1];
		if (fork() == 0) {
			close(p[0]);
			take(0);
		}
		close(p[1]);
		(void)!read(p[0], &byte, 1);
		close(p[0]);
	}
	wait(&status);
	errno = 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static long attack_own_maps(void)
{
	return taken_by(16, map_all);
}

static long attack_hidden_maps(void)
{
	return taken_by(8, hide);
}

static long attack_scattered_maps(void)
{
	return taken_by(8, scatter);
}

static long attack_view_holes(void)
{
	return taken_by(1, look_into_holes);
}

static void grow_stack(void)
{
	volatile char a[65536];

	for (size_t i = 0; i < sizeof(a); i += 4096)
		a[i] = 1;
	grow_stack();
	a[0] = 2;
}

static long attack_stack(void)
{
	struct rlimit rl = {RLIM_INFINITY, RLIM_INFINITY};
	int status;
	pid_t p;

	setrlimit(RLIMIT_STACK, &rl);
	p = fork();
	if (p == 0)
		grow_stack();
	waitpid(p, &status, 0);
	errno = 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

/* One byte in each 2 MiB: a page and a table of pages for each. */
static long attack_tables(void)
{
	int status;
	pid_t p = fork();

	if (p == 0) {
		const size_t size = (size_t)1 << 41, step = 2 * MIB;
		volatile char *m = mmap(NULL, size, PROT_READ,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		for (size_t at = 0; m != MAP_FAILED && at < size; at += step)
			(void)m[at];
		pause();
	}
	waitpid(p, &status, 0);
	errno = 0;
	return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

static long attack_mlock(void)
{
	long n;

	for (n = 0; n < MANY; n++) {
		char *p =
			mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED || mlock(p, MIB))
			break;
	}
	return n;
}

/* Promised memory, and all of it at once. */
static long attack_populate(void)
{
	const size_t size = 1024 * MIB;
	char *m = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE, -1, 0);
	unsigned char there[256];

	if (m == MAP_FAILED || mincore(m, sizeof(there) * 4096, there) || there[0] & 1)
		return -1;
	if (mlock(m, size) == 0 || errno != ENOMEM || munlock(m, size))
		return -2;
	return madvise(m, size, 23 /* MADV_POPULATE_WRITE */) == 0;
}

static long attack_shm(void)
{
	long n;

	for (n = 0; n < MANY; n++) {
		int id = shmget(IPC_PRIVATE, MIB, 0600);
		char *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

		if (p == (void *)-1)
			break;
		memset(p, 1, MIB);
	}
	return n;
}

static long fill(int fd)
{
	static char block[65536];
	long n = 0;
	ssize_t r;

	memset(block, 1, sizeof(block));
	while (n < MANY && (r = write(fd, block, sizeof(block))) > 0)
		n += r / 4096;
	return n;
}

static long attack_memfd(void)
{
	return fill(memfd_create("a", 0));
}

static long attack_tmpfs(void)
{
	return fill(open("/tmp/a", O_CREAT | O_WRONLY, 0600));
}

static long attack_disk(void)
{
	return fill(open("/rw/a", O_CREAT | O_WRONLY, 0600));
}

/* Holes cost nothing, whatever their size and however often they are made … */
static long attack_holes(void)
{
	const int fd = open("/rw/a", O_CREAT | O_RDWR, 0600);
	struct stat st;

	for (int i = 0; i < 100; i++)
		if (ftruncate(fd, INT64_C(1) << 40) || ftruncate(fd, 0) ||
		    pwrite(fd, "x", 1, INT64_C(1) << 40) != 1 || ftruncate(fd, 0))
			return -1;
	if (ftruncate(fd, INT64_C(1) << 40))
		return -1;
	return fstat(fd, &st) == 0 ? st.st_size >> 40 : -1;
}

/* … but what fills them: blocks of the host's disk that @fd has in the end. */
static long blocks_of(int fd)
{
	const int e = errno;
	struct stat st;

	if (fstat(fd, &st))
		return -1;
	errno = e;
	return st.st_blocks / 8;
}

static void store(char *p, size_t size)
{
	if (p != MAP_FAILED)
		for (size_t i = 0; i < size; i += 4096)
			p[i] = 1;
}

static char *map_rw(int fd, size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

#define HOLE ((size_t)16 << 20)

static long hole_stored(bool by_truncate)
{
	const int fd = open("/rw/a", O_CREAT | O_RDWR, 0600);

	if (by_truncate ? ftruncate(fd, HOLE) : pwrite(fd, "x", 1, HOLE - 1) != 1)
		return -1;
	store(map_rw(fd, HOLE), HOLE);
	return blocks_of(fd);
}

static long attack_hole_truncate(void)
{
	return hole_stored(true);
}

static long attack_hole_write(void)
{
	return hole_stored(false);
}

/* A mapping that is there before the file has so much. */
static long mapped_first(int (*grow)(int fd))
{
	const int fd = open("/rw/a", O_CREAT | O_RDWR, 0600);
	char *p = map_rw(fd, HOLE);

	if (p != MAP_FAILED && grow(fd) == 0)
		store(p, HOLE);
	return blocks_of(fd);
}

static int grow_truncate(int fd)
{
	return ftruncate(fd, HOLE);
}

static int grow_write(int fd)
{
	return pwrite(fd, "x", 1, HOLE - 1) == 1 ? 0 : -1;
}

static int grow_fallocate(int fd)
{
	return fallocate(fd, 0, HOLE - 1, 1);
}

static long attack_mapped_truncate(void)
{
	return mapped_first(grow_truncate);
}

static long attack_mapped_write(void)
{
	return mapped_first(grow_write);
}

static long attack_mapped_fallocate(void)
{
	return mapped_first(grow_fallocate);
}

/* Holes that are there already. */
static long attack_old_store(void)
{
	const int fd = open("/rw/a", O_RDWR);

	store(map_rw(fd, HOLE), HOLE);
	return blocks_of(fd);
}

/* A byte for each block. */
static long bytes(int fd, size_t from)
{
	for (size_t i = from; i < HOLE && pwrite(fd, "x", 1, (off_t)i) == 1; i += 4096)
		;
	return blocks_of(fd);
}

static long attack_old_bytes(void)
{
	return bytes(open("/rw/a", O_RDWR), 0);
}

static long attack_hole_bytes(void)
{
	const int fd = open("/rw/a", O_CREAT | O_RDWR, 0600);

	return ftruncate(fd, HOLE) ? -1 : bytes(fd, 0);
}

static long attack_hole_far_bytes(void)
{
	return bytes(open("/rw/a", O_CREAT | O_RDWR, 0600), 4096);
}

static long attack_hole_appends(void)
{
	const int fd = open("/rw/a", O_CREAT | O_RDWR | O_APPEND, 0600);

	for (size_t i = 4096; i < HOLE && ftruncate(fd, (off_t)i) == 0 && write(fd, "x", 1) == 1;
	     i += 8192)
		;
	return blocks_of(fd);
}

static long attack_hole_fallocate(void)
{
	const int fd = open("/rw/a", O_CREAT | O_RDWR, 0600);

	for (size_t i = 0; i < HOLE && fallocate(fd, 0, (off_t)i, 1) == 0; i += 4096)
		;
	return blocks_of(fd);
}

static long attack_maps(void)
{
	long n;

	for (n = 0; n < MANY; n++)
		if (mmap(NULL, 4096, n % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0) == MAP_FAILED)
			break;
	return n;
}

/* In several processes, since each may have only so many. */
static long attack_files(void)
{
	struct rlimit rl;
	long n;

	getrlimit(RLIMIT_NOFILE, &rl);
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);
	for (n = 0; n < MANY; n++)
		if (open("/dev/null", O_RDONLY) < 0)
			break;
	return n;
}

static long attack_epoll(void)
{
	int last = eventfd(0, 0);
	long n;

	for (n = 0; n < MANY; n++) {
		struct epoll_event ev = {.events = EPOLLIN};
		int e = epoll_create1(0);

		if (e < 0 || epoll_ctl(e, EPOLL_CTL_ADD, n % 4 ? last : 0, &ev))
			break;
		last = e;
	}
	return n;
}

static long attack_watches(void)
{
	int p[2];
	long n, fds[64];

	for (n = 0; n < 64; n++)
		fds[n] = dup(pipe(p) ? -1 : p[0]);
	for (n = 0; n < MANY; n++) {
		struct epoll_event ev = {.events = EPOLLIN};
		static int e;

		if (n % 64 == 0)
			e = epoll_create1(0);
		if (e < 0 || epoll_ctl(e, EPOLL_CTL_ADD, (int)fds[n % 64], &ev))
			break;
	}
	return n;
}

static long attack_inotify(void)
{
	int in = inotify_init();
	char name[32];
	long n;

	for (n = 0; n < MANY; n++) {
		snprintf(name, sizeof(name), "/tmp/w%ld", n);
		mkdir(name, 0700);
		if (inotify_add_watch(in, name, IN_ALL_EVENTS) < 0)
			break;
	}
	return n;
}

static long attack_inodes(void)
{
	char name[32];
	long n;

	for (n = 0; n < MANY; n++) {
		snprintf(name, sizeof(name), "/tmp/i%ld", n);
		if (mknod(name, S_IFREG | 0600, 0))
			break;
	}
	return n;
}

static long attack_deep(void)
{
	long n;

	chdir("/tmp");
	for (n = 0; n < MANY; n++)
		if (mkdir("d", 0700) || chdir("d"))
			break;
	return n;
}

static long attack_xattrs(void)
{
	static char value[60000];
	char name[32];
	long n;

	for (n = 0; n < MANY; n++) {
		snprintf(name, sizeof(name), "/tmp/x%ld", n);
		if (mknod(name, S_IFREG | 0600, 0) ||
		    setxattr(name, "user.a", value, sizeof(value), 0))
			break;
	}
	return n;
}

static long attack_pipes(void)
{
	static char block[65536];
	long n;

	for (n = 0; n < MANY; n++) {
		int p[2];

		if (pipe2(p, O_NONBLOCK) || write(p[1], block, sizeof(block)) < 0)
			break;
	}
	return n;
}

static long attack_pipe_size(void)
{
	long n;

	for (n = 0; n < MANY; n++) {
		int p[2];

		if (pipe2(p, O_NONBLOCK) || write(p[1], "a", 1) < 0 ||
		    fcntl(p[1], F_SETPIPE_SZ, 1 << 20) < 0)
			break;
	}
	return n;
}

static long attack_sockets(void)
{
	static char block[16384];
	long n;

	for (n = 0; n < MANY; n++) {
		int s[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s))
			break;
		while (write(s[0], block, sizeof(block)) > 0)
			;
		if (errno != EAGAIN)
			break;
	}
	return n;
}

static long attack_flight(void)
{
	long n;

	for (n = 0; n < MANY; n++) {
		static int s[2];

		if (n % 32 == 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, s))
			break;
		if (send_fd(s[0], s[1], 0) < 0 && errno != EAGAIN)
			break;
	}
	return n;
}

static long attack_messages(void)
{
	static struct {
		long type;
		char text[8000];
	} m = {.type = 1};
	long n;

	for (n = 0; n < MANY; n++) {
		static int q;

		if (n % 2 == 0)
			q = msgget(IPC_PRIVATE, 0600);
		if (q < 0 || msgsnd(q, &m, sizeof(m.text), IPC_NOWAIT))
			break;
	}
	return n;
}

static long attack_timers(void)
{
	struct sigevent none = {.sigev_notify = SIGEV_NONE};
	timer_t t;
	long n;

	for (n = 0; n < MANY; n++)
		if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &none, &t))
			break;
	return n;
}

static long attack_timerfds(void)
{
	long n;

	for (n = 0; n < MANY; n++)
		if (timerfd_create(CLOCK_MONOTONIC, 0) < 0)
			break;
	return n;
}

static long attack_signals(void)
{
	union sigval v = {0};
	sigset_t all;
	long n;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (n = 0; n < MANY; n++)
		if (sigqueue(getpid(), SIGRTMIN, v))
			break;
	return n;
}

static void *futex_waiter(void *arg)
{
	syscall(SYS_futex, arg, FUTEX_WAIT, 0, NULL, NULL, 0);
	return NULL;
}

/* A waiter is a thread, so their number is that of threads. */
static long attack_futexes(void)
{
	static int words[100000];
	pthread_attr_t a;
	long n;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, PTHREAD_STACK_MIN);
	for (n = 0; n < 100000; n++) {
		pthread_t t;
		int r = pthread_create(&t, &a, futex_waiter, &words[n]);

		if (r) {
			errno = r;
			break;
		}
	}
	return n;
}

static long attack_locks(void)
{
	int fd = open("/tmp/l", O_CREAT | O_RDWR, 0600);
	long n;

	for (n = 0; n < MANY; n++) {
		struct flock fl = {.l_type = F_WRLCK, .l_start = n * 2, .l_len = 1};

		if (fcntl(fd, F_SETLK, &fl))
			break;
	}
	return n;
}

/* One lock cut into many by what is unlocked. */
static long attack_unlocks(void)
{
	int fd = open("/tmp/l", O_CREAT | O_RDWR, 0600);
	struct flock all = {.l_type = F_WRLCK, .l_len = MANY * 2 + 1};
	long n;

	fcntl(fd, F_SETLK, &all);
	for (n = 0; n < MANY; n++) {
		struct flock fl = {.l_type = F_UNLCK, .l_start = n * 2 + 1, .l_len = 1};

		if (fcntl(fd, F_SETLK, &fl))
			break;
	}
	return n;
}

/* Many at once, each with what execve allows; all that is copied before the program is looked at.
 */
static void *exec_much(void *arg)
{
	char **argv = arg;

	execve("/none", argv, argv);
	return NULL;
}

static long attack_argv(void)
{
	static char text[100000], *argv[16];
	pthread_t t[16];

	memset(text, 'a', sizeof(text) - 1);
	for (int i = 0; i < 15; i++)
		argv[i] = text;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 16; i++)
			pthread_create(&t[i], NULL, exec_much, argv);
		for (int i = 0; i < 16; i++)
			pthread_join(t[i], NULL);
	}
	errno = 0;
	return 0;
}

static long attack_semaphores(void)
{
	long n;

	for (n = 0; n < MANY; n++)
		if (semget(IPC_PRIVATE, 32000, 0600) < 0)
			break;
	return n;
}

static long attack_log(void)
{
	for (int i = 0; i < 20000; i++)
		open("/etc/hostname", O_WRONLY);
	errno = 0;
	return 0;
}

static long attack_spin(void)
{
	sigset_t all;

	sigfillset(&all);
	for (int i = 0; i < 3; i++)
		if (fork() == 0)
			break;
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (int i = 1; i < 65; i++)
		signal(i, SIG_IGN);
	for (;;)
		;
	return 0;
}

static const struct {
	const char *name;
	long (*fn)(void);
} g_attacks[] = {
#define A(name)                      \
	{                            \
#name, attack_##name \
	}
	A(fork),
	A(thread),
	A(mmap),
	A(brk),
	A(huge),
	A(touch),
	A(stack),
	A(tables),
	A(mlock),
	A(populate),
	A(shm),
	A(memfd),
	A(tmpfs),
	A(disk),
	A(maps),
	A(files),
	A(epoll),
	A(watches),
	A(inotify),
	A(inodes),
	A(deep),
	A(xattrs),
	A(pipes),
	A(pipe_size),
	A(sockets),
	A(flight),
	A(messages),
	A(timers),
	A(timerfds),
	A(signals),
	A(futexes),
	A(locks),
	A(unlocks),
	A(argv),
	A(semaphores),
	A(log),
	A(spin),
	A(touch_shared),
	A(own_maps),
	A(hidden_maps),
	A(scattered_maps),
	A(view_holes),
	A(holes),
	A(hole_truncate),
	A(hole_write),
	A(mapped_truncate),
	A(mapped_write),
	A(mapped_fallocate),
	A(hole_bytes),
	A(hole_far_bytes),
	A(hole_appends),
	A(old_store),
	A(old_bytes),
	A(hole_fallocate),
};

int main(int argc, char **argv)
{
	hostile_begin();
	for (size_t i = 0; i < HOSTILE_COUNT(g_attacks); i++) {
		char byte;
		long n;

		if (argc != 2 || strcmp(argv[1], g_attacks[i].name) != 0)
			continue;
		errno = 0;
		n = g_attacks[i].fn();
		printf("%s %ld\n", errno ? strerrorname_np(errno) : "0", n);
		while (read(0, &byte, 1) > 0)
			;
		kill(-1, SIGKILL);
		_exit(0);
	}
	return 2;
}
