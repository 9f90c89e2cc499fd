/* SPDX-License-Identifier: Apache-2.0 */

/* flock, POSIX and open-file-description locks, leases, and how each is lost. */
#include "guest.h"
#include <sys/file.h>

static int fd;

static const char *lock(int f, int cmd, short type, off_t start, off_t len)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

	errno = 0;
	return fcntl(f, cmd, &l) ? guest_errno(errno) : "ok";
}

static void query(const char *what, int f, int cmd, off_t start, off_t len)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = len};

	if (fcntl(f, cmd, &l)) {
		printf("%s: %s\n", what, guest_errno(errno));
		return;
	}
	printf("%s: %s %ld+%ld pid %s\n", what,
	       l.l_type == F_UNLCK   ? "free"
	       : l.l_type == F_RDLCK ? "read"
				     : "write",
	       (long)l.l_start, (long)l.l_len,
	       l.l_type == F_UNLCK    ? "-"
	       : l.l_pid == -1        ? "-1"
	       : l.l_pid == getppid() ? "parent"
				      : "other");
}

#define CHILD(...)                         \
	do {                               \
		pid_t pid_ = guest_fork(); \
		if (!pid_) {               \
			__VA_ARGS__;       \
			_exit(0);          \
		}                          \
		waitpid(pid_, NULL, 0);    \
	} while (0)

#define S(x) printf("%s: %s\n", #x, x)

static void posix_locks(void)
{
	int other;
	pid_t pid;
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_END, .l_start = -10, .l_len = 5};

	P("POSIX locks");
	S(lock(fd, F_SETLK, F_WRLCK, 0, 10));
	CHILD(query("a child asks", fd, F_GETLK, 0, 0); S(lock(fd, F_SETLK, F_RDLCK, 5, 1));
	      S(lock(fd, F_SETLK, F_WRLCK, 10, 10)));
	S(lock(fd, F_SETLK, F_WRLCK, 10, 10));
	CHILD(query("joined", fd, F_GETLK, 0, 0));
	S(lock(fd, F_SETLK, F_UNLCK, 5, 5));
	CHILD(query("hole", fd, F_GETLK, 5, 5); query("before", fd, F_GETLK, 0, 5);
	      query("after", fd, F_GETLK, 7, 0));
	S(lock(fd, F_SETLK, F_RDLCK, 0, 0));
	CHILD(query("to the end", fd, F_GETLK, 1000, 0); S(lock(fd, F_SETLK, F_RDLCK, 0, 0)));
	S(lock(fd, F_SETLK, F_UNLCK, 0, 0));
	V(fcntl(fd, F_SETLK, &l));
	CHILD(query("from the end", fd, F_GETLK, 0, 0));
	l.l_start = -1000;
	V(fcntl(fd, F_SETLK, &l));
	l.l_whence = 77;
	V(fcntl(fd, F_SETLK, &l));
	S(lock(fd, F_SETLK, 77, 0, 0));
	S(lock(fd, F_SETLK, F_WRLCK, 100, -50));
	CHILD(query("negative length", fd, F_GETLK, 60, 0));
	S(lock(fd, F_SETLK, F_WRLCK, 10, -50));
	S(lock(999, F_SETLK, F_WRLCK, 0, 0));
	S(lock(open("f", O_RDONLY), F_SETLK, F_WRLCK, 0, 0));
	S(lock(open("f", O_WRONLY), F_SETLK, F_RDLCK, 0, 0));
	/* Closing any descriptor of the file loses them. */
	S(lock(fd, F_SETLK, F_WRLCK, 0, 10));
	other = open("f", O_RDONLY);
	close(other);
	CHILD(query("after a close", fd, F_GETLK, 0, 0));
	/* The owner is the process; a fork has none. */
	S(lock(fd, F_SETLK, F_WRLCK, 0, 10));
	other = open("f", O_RDWR);
	S(lock(other, F_SETLK, F_WRLCK, 0, 10));
	CHILD(S(lock(fd, F_SETLK, F_UNLCK, 0, 0)); query("child cannot unlock", fd, F_GETLK, 0, 0));
	S(lock(fd, F_SETLK, F_UNLCK, 0, 0));
	P("waiting and deadlock");
	int go[2];

	V(pipe(go));
	S(lock(fd, F_SETLK, F_WRLCK, 0, 1));
	pid = guest_fork();
	if (!pid) {
		char c = 'x';

		lock(fd, F_SETLK, F_WRLCK, 1, 1);
		if (write(go[1], &c, 1) != 1)
			_exit(1);
		S(lock(fd, F_SETLKW, F_WRLCK, 0, 1));
		_exit(0);
	}
	char c;

	V(read(go[0], &c, 1));
	guest_until_asleep(pid);
	S(lock(fd, F_SETLKW, F_WRLCK, 1, 1));
	/* What the waiter prints comes in between, so ours waits. */
	const char *unlocked = lock(fd, F_SETLK, F_UNLCK, 0, 1);

	guest_wait("waiter", pid);
	S(unlocked);
	S(lock(fd, F_SETLKW, F_WRLCK, 1, 1));
	S(lock(fd, F_SETLK, F_UNLCK, 0, 0));
}

static void ofd_locks(void)
{
	int a = open("f", O_RDWR), b = open("f", O_RDWR), d;
	struct flock l = {.l_type = F_WRLCK, .l_pid = 5};

	P("OFD locks");
	S(lock(a, F_OFD_SETLK, F_WRLCK, 0, 10));
	S(lock(b, F_OFD_SETLK, F_WRLCK, 0, 10));
	query("the other description asks", b, F_OFD_GETLK, 0, 0);
	S(lock(fd, F_SETLK, F_WRLCK, 5, 1));
	query("POSIX asks", fd, F_GETLK, 0, 0);
	d = dup(a);
	S(lock(d, F_OFD_SETLK, F_RDLCK, 0, 10));
	close(a);
	query("still held by the duplicate", b, F_OFD_GETLK, 0, 0);
	CHILD(S(lock(d, F_OFD_SETLK, F_WRLCK, 0, 10)));
	query("the child's upgrade is ours", b, F_OFD_GETLK, 0, 0);
	close(d);
	query("gone", b, F_OFD_GETLK, 0, 0);
	V(fcntl(b, F_OFD_SETLK, &l));
	close(b);
}

static void flocks(void)
{
	int a = open("f", O_RDWR), b = open("f", O_RDONLY), d;
	pid_t pid;

	P("flock");
	V(flock(a, LOCK_EX));
	V(flock(b, LOCK_EX | LOCK_NB));
	V(flock(b, LOCK_SH | LOCK_NB));
	V(flock(a, LOCK_SH));
	V(flock(b, LOCK_SH | LOCK_NB));
	V(flock(a, LOCK_EX | LOCK_NB));
	V(flock(a, LOCK_UN));
	V(flock(b, LOCK_EX | LOCK_NB));
	V(flock(b, LOCK_UN));
	V(flock(a, 0));
	V(flock(a, 77));
	V(flock(999, LOCK_EX));
	S(lock(fd, F_SETLK, F_WRLCK, 0, 0));
	V(flock(a, LOCK_EX | LOCK_NB));
	d = dup(a);
	close(a);
	V(flock(b, LOCK_EX | LOCK_NB));
	pid = guest_fork();
	if (!pid) {
		V(flock(d, LOCK_UN));
		_exit(0);
	}
	guest_wait("child unlocks the shared description", pid);
	V(flock(b, LOCK_EX | LOCK_NB));
	pid = guest_fork();
	if (!pid) {
		V(flock(d, LOCK_EX));
		_exit(0);
	}
	guest_until_asleep(pid);
	int unlocked = flock(b, LOCK_UN);

	guest_wait("waiter", pid);
	V(unlocked);
	V(flock(open(".", O_RDONLY), LOCK_EX | LOCK_NB));
}

int main(void)
{
	guest_begin();
	guest_file("f", "0123456789012345678901234567890123456789");
	fd = open("f", O_RDWR);
	posix_locks();
	ofd_locks();
	flocks();
	return 0;
}
