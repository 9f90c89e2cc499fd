/* SPDX-License-Identifier: Apache-2.0 */

/* eventfd, timerfd, memfd with seals, inotify, pidfd. */
#include "guest.h"
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>

static short ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};

	poll(&p, 1, 0);
	return p.revents;
}

static void eventfds(void)
{
	int e;
	uint64_t v = 0;
	char small[4];

	P("eventfd");
	OK(e = eventfd(3, EFD_NONBLOCK));
	printf("%#x\n", (unsigned)ready(e));
	V(read(e, &v, 8));
	printf("%llu\n", (unsigned long long)v);
	V(read(e, &v, 8));
	V(read(e, small, 4));
	V(write(e, small, 4));
	v = 0;
	V(write(e, &v, 8));
	printf("%#x\n", (unsigned)ready(e));
	v = UINT64_MAX;
	V(write(e, &v, 8));
	v = UINT64_MAX - 1;
	V(write(e, &v, 8));
	printf("%#x\n", (unsigned)ready(e));
	v = 1;
	V(write(e, &v, 8));
	V(read(e, &v, 8));
	T(v == UINT64_MAX - 1);
	V(lseek(e, 0, SEEK_SET));
	V(pread(e, &v, 8, 0));
	/* Each buffer of a list is a write of its own. */
	V(writev(e, (struct iovec[]){{&v, 4}, {(char *)&v + 4, 4}}, 2));
	V(writev(e, (struct iovec[]){{&v, 0}, {&v, 8}}, 2));
	v = 1;
	V(writev(e, (struct iovec[]){{&v, 8}, {&v, 8}}, 2));
	V(writev(e, (struct iovec[]){{&v, 8}, {&v, 4}}, 2));
	V(writev(e, (struct iovec[]){{&v, 8}, {NULL, 8}}, 2));
	V(readv(e, (struct iovec[]){{&v, 4}, {(char *)&v + 4, 4}}, 2));
	printf("%llu\n", (unsigned long long)v);
	close(e);
	OK(e = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK));
	V(read(e, &v, 8));
	printf("%llu\n", (unsigned long long)v);
	V(read(e, &v, 8));
	V(read(e, &v, 8));
	V(eventfd(0, 77));
	close(e);
	e = eventfd(0, 0);
	pid_t pid = guest_fork();
	if (!pid) {
		v = 41;
		if (write(e, &v, 8) != 8)
			_exit(1);
		_exit(0);
	}
	V(read(e, &v, 8));
	printf("%llu\n", (unsigned long long)v);
	guest_wait("writer", pid);
}

static void timerfds(void)
{
	struct itimerspec its = {.it_value = {0, 20000000}}, old;
	uint64_t v;
	int t;
	struct timespec now;

	P("timerfd");
	OK(t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	V(read(t, &v, 8));
	V(timerfd_gettime(t, &old));
	printf("%ld %ld\n", (long)old.it_value.tv_sec, old.it_value.tv_nsec);
	V(timerfd_settime(t, 0, &its, &old));
	V(read(t, &v, 8));
	V(timerfd_gettime(t, &old));
	T(old.it_value.tv_nsec > 0 && old.it_value.tv_nsec <= 20000000);
	guest_sleep_ms(30);
	printf("%#x\n", (unsigned)ready(t));
	V(read(t, &v, 8));
	printf("expired %llu\n", (unsigned long long)v);
	V(read(t, &v, 8));
	its.it_interval.tv_nsec = 10000000;
	V(timerfd_settime(t, 0, &its, NULL));
	guest_sleep_ms(100);
	V(read(t, &v, 8));
	T(v >= 7);
	V(read(t, &v, 4));
	its.it_value.tv_nsec = 0;
	V(timerfd_settime(t, 0, &its, NULL));
	guest_sleep_ms(15);
	V(read(t, &v, 8));
	clock_gettime(CLOCK_MONOTONIC, &now);
	its = (struct itimerspec){.it_value = now};
	V(timerfd_settime(t, TFD_TIMER_ABSTIME, &its, NULL));
	V(read(t, &v, 8));
	its.it_value = (struct timespec){1, 0};
	V(timerfd_settime(t, TFD_TIMER_ABSTIME, &its, NULL));
	V(read(t, &v, 8));
	printf("past: expired %llu\n", (unsigned long long)v);
	its.it_value.tv_nsec = 1000000000;
	V(timerfd_settime(t, 0, &its, NULL));
	its.it_value.tv_nsec = 0;
	V(timerfd_settime(t, 77, &its, NULL));
	V(timerfd_settime(0, 0, &its, NULL));
	V(timerfd_settime(999, 0, &its, NULL));
	V(timerfd_create(77, 0));
	V(timerfd_create(CLOCK_MONOTONIC, 77));
	V(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0));
	V(timerfd_create(CLOCK_BOOTTIME, 0) >= 0);
	V(timerfd_create(CLOCK_REALTIME, 0) >= 0);
	V(write(t, &v, 8));
	close(t);
	t = timerfd_create(CLOCK_MONOTONIC, 0);
	its = (struct itimerspec){.it_value = {0, 10000000}};
	timerfd_settime(t, 0, &its, NULL);
	V(read(t, &v, 8));
}

static void memfds(void)
{
	int m;
	char text[8];

	P("memfd");
	OK(m = memfd_create("name", MFD_ALLOW_SEALING | MFD_CLOEXEC));
	V(fcntl(m, F_GET_SEALS));
	V(write(m, "hello", 5));
	V(ftruncate(m, 8192));
	V(fcntl(m, F_ADD_SEALS, F_SEAL_SHRINK));
	V(ftruncate(m, 100));
	V(ftruncate(m, 16384));
	V(fcntl(m, F_ADD_SEALS, F_SEAL_GROW));
	V(ftruncate(m, 20000));
	V(pwrite(m, "x", 1, 16384));
	V(fallocate(m, 0, 16384, 10));
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m, 0);
	V(fcntl(m, F_ADD_SEALS, F_SEAL_WRITE));
	V(fcntl(m, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	p[0] = 'j';
	V(pwrite(m, "x", 1, 0));
	V((long)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m, 0));
	char *ro = mmap(NULL, 4096, PROT_READ, MAP_SHARED, m, 0);
	printf("%c\n", ro[0]);
	V(mprotect(ro, 4096, PROT_READ | PROT_WRITE));
	munmap(ro, 4096);
	munmap(p, 4096);
	V(fcntl(m, F_ADD_SEALS, F_SEAL_WRITE));
	V(fallocate(m, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	V(fcntl(m, F_ADD_SEALS, F_SEAL_SEAL));
	V(fcntl(m, F_ADD_SEALS, F_SEAL_WRITE));
	V(fcntl(m, F_GET_SEALS));
	V(pread(m, text, 5, 0));
	OK(m = memfd_create("", 0));
	V(fcntl(m, F_GET_SEALS));
	V(fcntl(m, F_ADD_SEALS, F_SEAL_WRITE));
	V(memfd_create("x", 0x1000));
	V(memfd_create((char *)8, 0));
	char name[300];

	memset(name, 'n', sizeof(name));
	name[250] = 0;
	V(memfd_create(name, 0));
	name[249] = 0;
	V(memfd_create(name, 0) >= 0);
	V(fcntl(0, F_GET_SEALS));
	char link[64], target[64] = "";

	m = memfd_create("seen", 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", m);
	V(readlink(link, target, sizeof(target) - 1));
	printf("%s\n", target);
	OK(open(link, O_RDWR));
	struct stat st;

	V(fstat(m, &st));
	printf("%o %lu\n", st.st_mode, (unsigned long)st.st_nlink);
}

static int in;

static void events(const char *what)
{
	char buf[4096] __attribute__((aligned(8)));
	ssize_t n = read(in, buf, sizeof(buf));

	printf("%s:", what);
	if (n < 0)
		printf(" %s", guest_errno(errno));
	for (ssize_t i = 0; i < n;) {
		struct inotify_event *e = (struct inotify_event *)(buf + i);

		printf(" %d/%#x%s%s%s", e->wd, e->mask, e->len ? "/" : "", e->len ? e->name : "",
		       e->cookie ? "*" : "");
		i += (ssize_t)(sizeof(*e) + e->len);
	}
	printf("\n");
}

static void inotifies(void)
{
	int wd, wf, fd, n;
	char small[4];

	P("inotify");
	V(inotify_init1(77));
	OK(in = inotify_init1(IN_NONBLOCK));
	V(mkdir("d", 0755));
	guest_file("d/f", "x");
	V(wd = inotify_add_watch(in, "d", IN_ALL_EVENTS));
	V(wf = inotify_add_watch(in, "d/f", IN_ALL_EVENTS));
	V(inotify_add_watch(in, "none", IN_ALL_EVENTS));
	V(inotify_add_watch(in, "d", 0));
	V(inotify_add_watch(in, "d/f", IN_ALL_EVENTS | IN_ONLYDIR));
	V(inotify_add_watch(0, "d", IN_ALL_EVENTS));
	V(inotify_add_watch(in, "d", IN_ALL_EVENTS | IN_MASK_CREATE));
	events("nothing");
	fd = open("d/f", O_RDWR);
	events("open");
	V(read(fd, small, 1));
	events("read");
	V(write(fd, "y", 1));
	events("write");
	V(ftruncate(fd, 0));
	events("truncate");
	V(fchmod(fd, 0600));
	events("chmod");
	V(close(fd));
	events("close");
	fd = open("d/new", O_CREAT | O_WRONLY, 0600);
	events("create");
	close(fd);
	events("close");
	V(mkdir("d/sub", 0700));
	events("mkdir");
	V(rmdir("d/sub"));
	events("rmdir");
	V(rename("d/new", "d/newer"));
	events("rename");
	V(rename("d/newer", "out"));
	events("moved out");
	V(rename("out", "d/in"));
	events("moved in");
	V(link("d/in", "d/hard"));
	events("link");
	V(symlink("x", "d/sym"));
	events("symlink");
	V(unlink("d/hard"));
	events("unlink one of two");
	V(unlink("d/in"));
	events("unlink");
	V(utimensat(AT_FDCWD, "d/f", NULL, 0));
	events("utimes");
	for (int i = 0; i < 3; i++)
		V(chmod("d/f", 0644));
	V(ioctl(in, FIONREAD, &n));
	printf("FIONREAD %d\n", n);
	V(read(in, small, 4));
	events("same events merge");
	V(inotify_rm_watch(in, wf));
	events("removed watch");
	V(inotify_rm_watch(in, wf));
	V(unlink("d/f"));
	V(unlink("d/sym"));
	events("deleted");
	V(rmdir("d"));
	events("the directory itself");
	guest_file("once", "");
	V(inotify_add_watch(in, "once", IN_OPEN | IN_ONESHOT) > 0);
	close(open("once", O_RDONLY));
	close(open("once", O_RDONLY));
	events("one shot");
	V(inotify_add_watch(in, "once", IN_OPEN) > 0);
	V(inotify_add_watch(in, "once", IN_ATTRIB | IN_MASK_ADD) > 0);
	V(chmod("once", 0600));
	close(open("once", O_RDONLY));
	events("mask added");
	fd = open("once", O_RDONLY);
	V(unlink("once"));
	events("unlinked while open");
	close(fd);
	events("then closed");
	printf("poll %#x\n", (unsigned)ready(in));
}

#define FATES (IN_ALL_EVENTS & ~(IN_OPEN | IN_CLOSE | IN_ACCESS))

static void watched_file(const char *path)
{
	guest_file(path, "");
	V(inotify_add_watch(in, path, FATES) > 0);
}

static void watched_directory(const char *path)
{
	V(mkdir(path, 0755));
	V(inotify_add_watch(in, path, FATES) > 0);
}

/* Who watches a file and its directory hears of the file's end in this order. */
static void watched_both(void)
{
	char buf[4096] __attribute__((aligned(8)));
	uint32_t cookies[4] = {0};
	struct stat st;

	P("inotify of files and their directory");
	in = inotify_init1(IN_NONBLOCK);
	watched_directory("w");
	watched_directory("w/s");
	V(stat("w/s/none", &st));
	V(rmdir("w/s"));
	events("directory removed");
	watched_file("w/f");
	V(unlink("w/f"));
	events("file removed");
	watched_file("w/g");
	V(link("w/g", "w/h"));
	V(unlink("w/g"));
	events("one of two names removed");
	V(unlink("w/h"));
	events("the other, too");
	watched_file("w/from");
	watched_file("w/over");
	V(rename("w/from", "w/over"));
	events("renamed over");
	watched_directory("w/d");
	watched_directory("w/e");
	V(rename("w/d", "w/e"));
	events("directory renamed over");
	V(syscall(SYS_renameat2, AT_FDCWD, "w/over", AT_FDCWD, "w/e", RENAME_EXCHANGE));

	ssize_t n = read(in, buf, sizeof(buf));

	for (ssize_t i = 0; i < n;) {
		struct inotify_event *e = (struct inotify_event *)(buf + i);

		if (e->mask & (IN_MOVED_FROM | IN_MOVED_TO))
			cookies[(e->mask & IN_MOVED_FROM ? 0 : 2) + (e->mask & IN_ISDIR ? 1 : 0)] =
				e->cookie;
		i += (ssize_t)(sizeof(*e) + e->len);
	}
	T(cookies[0] && cookies[0] == cookies[2]);
	T(cookies[1] && cookies[1] == cookies[3]);
	T(cookies[0] != cookies[1]);
	V(rmdir("w/over"));
	V(unlink("w/e"));
	V(rmdir("w"));
	close(in);
}

static void pidfds(void)
{
	siginfo_t si;
	int fd, p[2];
	pid_t pid;
	char c;

	P("pidfd");
	V(pipe(p));
	pid = guest_fork();
	if (!pid) {
		close(p[1]);
		_exit(read(p[0], &c, 1) ? 1 : 7);
	}
	OK(fd = (int)syscall(SYS_pidfd_open, pid, 0));
	V(fcntl(fd, F_GETFD));
	printf("alive %#x\n", (unsigned)ready(fd));
	V(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
	V(syscall(SYS_pidfd_send_signal, fd, 99, NULL, 0));
	V(syscall(SYS_pidfd_send_signal, 0, 0, NULL, 0));
	V(syscall(SYS_pidfd_open, 1 << 22, 0));
	V(syscall(SYS_pidfd_open, 0, 0));
	V(syscall(SYS_pidfd_open, pid, 1 << 20));
	V(read(fd, &c, 1));
	int got;
	OK(got = (int)syscall(SYS_pidfd_getfd, fd, p[0], 0));
	V(syscall(SYS_pidfd_getfd, fd, 999, 0));
	V(fcntl(got, F_GETFD));
	close(got);
	close(p[1]);
	struct pollfd q = {.fd = fd, .events = POLLIN};
	V(poll(&q, 1, 5000));
	printf("dead %#x\n", (unsigned)q.revents);
	V(waitid(P_PIDFD, (id_t)fd, &si, WEXITED | WNOWAIT));
	T(si.si_pid == pid);
	V(waitid(P_PIDFD, (id_t)fd, &si, WEXITED));
	V(syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0));
	V(waitid(P_PIDFD, (id_t)fd, &si, WEXITED));
}

int main(void)
{
	guest_begin();
	eventfds();
	timerfds();
	memfds();
	inotifies();
	watched_both();
	pidfds();
	return 0;
}
