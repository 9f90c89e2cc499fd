/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls that start the stub processes and speak with the keeper. See platform/host_spawn.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/memfd.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/capability.h>
#include <unistd.h>
#include "base/alloc.h"
#include "platform/host_ptrace.h"
#include "platform/host_spawn.h"
#include "platform/stub/layout.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int pf_host_memfd(const char *name, const void *data, size_t size, bool seal)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd, r = 0;

	if (fail_now(FAIL_HOST))
		return -EMFILE;
	fd = memfd_create(name, flags | MFD_EXEC); /* host: memfd_create */
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	/* a host before Linux 6.3 */ /* host: memfd_create */
	if (fd < 0)
		return -errno;
	if (!data && size != 0 && ftruncate(fd, (off_t)size) < 0) /* host: ftruncate */
		r = -errno;
	for (size_t done = 0; data && done < size && r == 0;) {
		ssize_t n = write(fd, (const char *)data + done, size - done); /* host: write */

		if (n < 0 && errno != EINTR)
			r = -errno;
		else if (n > 0)
			done += (size_t)n;
	}
	if (r == 0 && seal &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		r = -errno; /* host: fcntl */
	if (r < 0) {
		pf_host_close(fd);
		return r;
	}
	return fd;
}

int pf_host_seal_future_writes(int fd)
{
	if (fcntl(fd, F_ADD_SEALS,
		  F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -errno; /* host: fcntl */
	return 0;
}

void *pf_host_map_shared(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); /* host: mmap */

	return p == MAP_FAILED ? NULL : p;
}

void pf_host_unmap(void *p, size_t size)
{
	munmap(p, size); /* host: munmap */
}

ssize_t pf_host_pread(int fd, void *buf, size_t size, off_t off)
{
	ssize_t n = pread(fd, buf, size, off); /* host: pread64 */

	return n < 0 ? -errno : n;
}

void pf_host_close(int fd)
{
	close(fd); /* host: close */
}

/* Puts the three descriptors where the stub expects them, without one overwriting another. */
static int place_fds(int image_fd, const int from[3], int *image_out)
{
	static const int to[3] = {STUB_FD_SOCKET, STUB_FD_ORDERS, STUB_FD_CONFIG};
	int high[4];

	for (int i = 0; i < 4; i++) {
		high[i] = fcntl(i < 3 ? from[i] : image_fd, F_DUPFD_CLOEXEC, 16);
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++) {
		if (dup2(high[i], to[i]) < 0)
			return -errno;
	}
	*image_out = high[3];
	return 0;
}

static void set_limit(__rlimit_resource_t which, rlim_t soft, rlim_t hard)
{
	struct rlimit r;

	if (getrlimit(which, &r) == 0) {
		r.rlim_max = MIN(hard, r.rlim_max);
		r.rlim_cur = MIN(soft, r.rlim_max);
		setrlimit(which, &r);
	}
}

static void drop_privileges(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {{0}};

	/* For root, without SECBIT_NOROOT an exec would give all back. No privilege, no effect, no
	 * harm. */
	prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
					 SECBIT_NO_SETUID_FIXUP_LOCKED);
	for (int cap = 0; prctl(PR_CAPBSET_DROP, cap) == 0; cap++)
		continue;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	syscall(SYS_capset, &head, caps);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* In the child, between fork and exec: only async-signal-safe calls, no allocation. These calls are
 * the future stub's, not the sentry's; the sentry's filter has no part in them. */
static void NORETURN child_exec(int image_fd, const int fds[3], pid_t parent)
{
	char *const argv[] = {(char *)(uintptr_t) "moat-stub", NULL};
	char *const envp[] = {NULL};
	sigset_t keep;
	int image = -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* Out of the terminal's reach: its signals are for moat, which passes them to the guest. */
	setsid();
	sigfillset(&keep);
	sigdelset(&keep, SIGSEGV);
	sigdelset(&keep, SIGBUS);
	sigdelset(&keep, SIGILL);
	sigdelset(&keep, SIGFPE);
	sigdelset(&keep, SIGTRAP);
	sigdelset(&keep, SIGSYS);
	sigdelset(&keep, SIGURG); /* the platform's interrupt */
	sigprocmask(SIG_SETMASK, &keep, NULL);
	for (int sig = 1; sig < NSIG; sig++) /* SIG_IGN would outlive the exec */
		signal(sig, SIG_DFL);

	set_limit(RLIMIT_CORE, 0, 0);
	set_limit(RLIMIT_STACK, 8 << 20,
		  RLIM_INFINITY); /* places the host's mappings; see stub.lds */
	set_limit(RLIMIT_AS, RLIM_INFINITY, RLIM_INFINITY);
	set_limit(RLIMIT_DATA, RLIM_INFINITY, RLIM_INFINITY);
	set_limit(RLIMIT_NOFILE, RLIM_INFINITY, RLIM_INFINITY);
	/* Without randomisation the host's stack and vDSO cannot fall on the stub's fixed place.
	 * The guest's own layout is random by the loader's choice. */
	personality(ADDR_NO_RANDOMIZE);
	if (place_fds(image_fd, fds, &image) < 0)
		_exit(1);
	/* 0, 1 and 2 too: the stub holds nothing of the sentry's. */
	syscall(SYS_close_range, 0, STUB_FD_SOCKET - 1, 0);
	syscall(SYS_close_range, STUB_FD_CONFIG + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	drop_privileges();
	syscall(SYS_execveat, image, "", argv, envp, AT_EMPTY_PATH);
	_exit(1);
}

pid_t pf_host_spawn_stub(int image_fd, int socket, int orders, int config)
{
	const int fds[3] = {socket, orders, config};
	const pid_t self = getpid();
	sigset_t all, old;
	pid_t pid;

	if (fail_now(FAIL_HOST))
		return -EAGAIN;
	/* No handler of the sentry's may run in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); /* host: rt_sigprocmask */
	pid = fork();                             /* host: clone */
	if (pid == 0)
		child_exec(image_fd, fds, self);
	if (pid < 0)
		pid = -errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL); /* host: rt_sigprocmask */
	return pid;
}

/* A number in a file of /proc/sys, or -1. */
static int sysctl_number(const char *path)
{
	char text[16] = "";
	const int fd = open(path, O_RDONLY | O_CLOEXEC); /* host: openat */
	int value = -1;

	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) > 0) /* host: read */
		value = (int)strtol(text, NULL, 10);
	pf_host_close(fd);
	return value;
}

int pf_host_probe_trace(struct err *e)
{
	const uint32_t action = SECCOMP_RET_TRAP;
	int status, r;
	pid_t pid;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0) /* host: seccomp */
		return err_set(e, ENOSYS,
			       "seccomp filters are missing (CONFIG_SECCOMP_FILTER, Linux 4.14)");
	if (sysctl_number("/proc/sys/vm/memfd_noexec") >= 2)
		return err_set(e, EACCES,
			       "vm.memfd_noexec is 2: the stub cannot be started from memory; set "
			       "it to 0 or 1");
	pid = fork(); /* host: clone */
	if (pid < 0)
		return err_set(e, errno, "cannot make a process: %s", err_text(errno));
	if (pid == 0) {
		/* As the stub will be after its exec, even if the sentry is not. */
		prctl(PR_SET_DUMPABLE, 1);
		for (;;)
			raise(SIGSTOP);
	}
	while (waitpid(pid, &status, WUNTRACED) < 0 && errno == EINTR) /* host: wait4 */
		continue;
	r = pf_host_seize(pid);
	(void)pf_host_kill(pid, SIGKILL);
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR) /* host: wait4 */
		continue;
	if (r == 0)
		return 0;
	if (sysctl_number("/proc/sys/kernel/yama/ptrace_scope") >= 2)
		return err_set(e, -r,
			       "kernel.yama.ptrace_scope forbids to trace one's own children; set "
			       "it to 0 or 1");
	return err_set(e, -r,
		       "a child cannot be traced: %s (does a seccomp filter or a security module "
		       "forbid ptrace?)",
		       err_text(-r));
}

void pf_host_reap(pid_t pid)
{
	while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) /* host: wait4 */
		continue;
}

int pf_host_socketpair(int fd[2])
{
	const struct timeval second = {.tv_sec = 1};

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0) /* host: socketpair */
		return -errno;
	(void)setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &second,
			 sizeof(second)); /* host: setsockopt */
	return 0;
}

bool pf_host_has_ended(pid_t pid)
{
	siginfo_t si = {.si_pid = 0};

	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) < 0 || /* host: waitid */
	       si.si_pid != 0;
}

int pf_host_send_fd(int socket, const void *msg, size_t size, int fd)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)msg, .iov_len = size};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (fail_now(FAIL_HOST))
		return -EMFILE;
	if (fd >= 0) {
		m.msg_control = control.space;
		m.msg_controllen = sizeof(control.space);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(int));
	}
	do {
		n = sendmsg(socket, &m, MSG_NOSIGNAL); /* host: sendmsg */
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EIO;
}

ssize_t pf_host_recv(int socket, void *msg, size_t size)
{
	ssize_t n;

	do {
		n = recv(socket, msg, size, 0); /* host: recvfrom */
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

uint64_t pf_host_nofile_limit(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_NOFILE, &r) == 0 ? r.rlim_max : 1024; /* host: prlimit64 */
}
