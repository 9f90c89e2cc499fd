/* SPDX-License-Identifier: Apache-2.0 */

/* Descriptor tables: dup and its kin, flags, close_range, limits, ioctls that every file has,
 * devices. */
#include "guest.h"
#include <sys/resource.h>
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#define CLOSE_RANGE_CLOEXEC 4
#endif

/* An owner that has been waited for is nobody, a zombie still somebody. */
static void owner_gone(int fd)
{
	struct f_owner_ex own = {0};
	int to_child[2];
	char byte;
	pid_t pid;

	for (int group = 0; group < 2; group++) {
		V(pipe(to_child));
		pid = guest_fork();
		if (!pid) {
			close(to_child[1]);
			_exit((int)read(to_child[0], &byte, 1));
		}
		close(to_child[0]);
		if (group)
			V(setpgid(pid, pid));
		V(fcntl(fd, F_SETOWN, group ? -pid : pid));
		T(fcntl(fd, F_GETOWN) == (group ? -pid : pid));
		close(to_child[1]);
		V(waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT));
		T(fcntl(fd, F_GETOWN) == (group ? -pid : pid));
		guest_wait("owner", pid);
		V(fcntl(fd, F_GETOWN));
		V(fcntl(fd, F_GETOWN_EX, &own));
		printf("type %d pid %d\n", own.type, own.pid);
	}
	V(fcntl(fd, F_SETOWN, pid));
}

static void dups(void)
{
	int fd = open("f", O_RDWR | O_CREAT, 0600);

	P("dup");
	V(dup2(fd, 50));
	V(dup2(fd, fd) == fd);
	V(dup2(999, 50));
	V(dup2(999, 999));
	V(dup2(fd, -1));
	V(dup2(fd, 1 << 30));
	V(dup3(fd, fd, 0));
	V(dup3(fd, 51, O_CLOEXEC));
	V(dup3(fd, 52, O_NONBLOCK));
	V(dup(999));
	V(fcntl(50, F_GETFD));
	V(fcntl(51, F_GETFD));
	V(fcntl(fd, F_DUPFD, 60));
	V(fcntl(fd, F_DUPFD, 60));
	V(fcntl(fd, F_DUPFD_CLOEXEC, 70));
	V(fcntl(70, F_GETFD));
	V(fcntl(fd, F_DUPFD, -1));
	V(fcntl(fd, F_DUPFD, 1 << 30));
	V(fcntl(50, F_SETFD, FD_CLOEXEC));
	V(fcntl(50, F_GETFD));
	V(fcntl(fd, F_GETFD));
	P("status flags are the description's");
	V(fcntl(50, F_SETFL, O_APPEND | O_NONBLOCK));
	V(fcntl(fd, F_GETFL) & (O_APPEND | O_NONBLOCK | O_ACCMODE));
	V(fcntl(50, F_SETFL, 0));
	V(fcntl(50, F_SETFL, O_RDONLY | O_CREAT | O_TRUNC));
	V(fcntl(fd, F_GETFL) & O_ACCMODE);
	V(ioctl(fd, FIONBIO, &(int){1}));
	V(fcntl(50, F_GETFL) & O_NONBLOCK);
	V(ioctl(fd, FIONBIO, &(int){0}));
	V(ioctl(fd, FIOCLEX));
	V(fcntl(fd, F_GETFD));
	V(ioctl(fd, FIONCLEX));
	V(fcntl(fd, F_GETFD));
	V(ioctl(fd, FIONREAD, &(int){0}));
	V(fcntl(fd, 9999, 0));
	V(fcntl(999, F_GETFL));
	V(fcntl(fd, F_SETOWN, getpid()));
	V(fcntl(fd, F_GETOWN) == getpid());
	V(fcntl(fd, F_GETSIG));
	V(fcntl(fd, F_SETSIG, 99));
	owner_gone(fd);
	P("close_range");
	V(syscall(SYS_close_range, 60, 61, 0));
	V(fcntl(60, F_GETFD));
	V(syscall(SYS_close_range, 10, 5, 0));
	V(syscall(SYS_close_range, 50, 100, CLOSE_RANGE_CLOEXEC));
	V(fcntl(51, F_GETFD));
	V(syscall(SYS_close_range, 50, ~0u, CLOSE_RANGE_UNSHARE));
	V(fcntl(51, F_GETFD));
	V(syscall(SYS_close_range, 50, ~0u, 77));
	P("the lowest free one");
	int a = dup(fd), b = dup(fd);
	close(a);
	T(dup(fd) == a);
	close(b);
	P("RLIMIT_NOFILE");
	pid_t pid = guest_fork();
	if (!pid) {
		struct rlimit lim = {40, 40};
		int p[2];

		V(setrlimit(RLIMIT_NOFILE, &lim));
		while (dup(fd) >= 0)
			;
		printf("%s\n", guest_errno(errno));
		V(fcntl(39, F_GETFD));
		V(open("f", O_RDONLY));
		V(pipe(p));
		V(close(39));
		V(pipe(p));
		V(open("f", O_RDONLY));
		V(dup2(fd, 40));
		V(fcntl(fd, F_DUPFD, 40));
		_exit(0);
	}
	guest_wait("limited", pid);
}

static void devices(void)
{
	char text[64];
	int fd, zeros = 1;

	P("devices");
	fd = open("/dev/null", O_RDWR);
	V(write(fd, "x", 100));
	V(read(fd, text, 10));
	V(lseek(fd, 100, SEEK_SET));
	V(ftruncate(fd, 0));
	V(isatty(fd));
	fd = open("/dev/zero", O_RDWR);
	memset(text, 1, sizeof(text));
	V(read(fd, text, 64));
	for (int i = 0; i < 64; i++)
		zeros &= !text[i];
	T(zeros);
	V(write(fd, text, 64));
	V(lseek(fd, 10, SEEK_END));
	fd = open("/dev/full", O_RDWR);
	V(read(fd, text, 10));
	V(write(fd, text, 10));
	V(write(fd, text, 0));
	fd = open("/dev/urandom", O_RDWR);
	V(read(fd, text, 32));
	V(write(fd, text, 32));
	fd = open("/dev/random", O_RDONLY);
	V(read(fd, text, 16));
	V(open("/dev/none", O_RDWR));
	V(access("/dev/shm", W_OK));
	V(access("/dev/pts", X_OK));
	V(access("/dev/ptmx", R_OK));
	V(access("/dev/stdin", F_OK));
	V(readlink("/dev/fd", text, 64));
	V(open("/dev/fd/0", O_RDONLY) >= 0);
	V(syscall(SYS_getrandom, text, 16, 1));
	V(syscall(SYS_getrandom, text, 16, 77));
	V(syscall(SYS_getrandom, 8, 16, 0));
	V(syscall(SYS_getrandom, text, 0, 0));
	V(syscall(SYS_getrandom, text, 16, 6));
}

int main(void)
{
	guest_begin();
	dups();
	devices();
	return 0;
}
