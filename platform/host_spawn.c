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
#include <sys/uio.h>
#include <sys/wait.h>
#include <linux/capability.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "platform/host_ptrace.h"
#include "platform/host_spawn.h"
#include "platform/host_proc.h"
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
	fd = HOST(memfd_create_stub, memfd_create(name, flags | MFD_EXEC));
	if (fd < 0 && errno == EINVAL) /* a host before Linux 6.3 */
		fd = HOST(memfd_create_stub, memfd_create(name, flags));
	if (fd < 0)
		return -errno;
	if (!data && size != 0 && HOST(ftruncate_file, ftruncate(fd, (off_t)size)) < 0)
		r = -errno;
	for (size_t done = 0; data && done < size && r == 0;) {
		ssize_t n = HOST(write_stub, write(fd, (const char *)data + done, size - done));

		if (n < 0 && errno != EINTR)
			r = -errno;
		else if (n > 0)
			done += (size_t)n;
	}
	if (r == 0 && seal &&
	    HOST(fcntl_seal, fcntl(fd, F_ADD_SEALS,
				   F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) < 0)
		r = -errno;
	if (r < 0) {
		pf_host_close(fd);
		return r;
	}
	return fd;
}

int pf_host_seal_future_writes(int fd)
{
	if (HOST(fcntl_seal,
		 fcntl(fd, F_ADD_SEALS,
		       F_SEAL_FUTURE_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) < 0)
		return -errno;
	return 0;
}

void *pf_host_map_shared(int fd, size_t size)
{
	void *p = HOST(mmap_stub, mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));

	return p == MAP_FAILED ? NULL : p;
}

void pf_host_unmap(void *p, size_t size)
{
	HOST(munmap_own, munmap(p, size));
}

ssize_t pf_host_pread(int fd, void *buf, size_t size, off_t off)
{
	ssize_t n = HOST(pread64_filter, pread(fd, buf, size, off));

	return n < 0 ? -errno : n;
}

void pf_host_close(int fd)
{
	HOST(close_fd, close(fd));
}

/* Puts the three descriptors where the stub expects them, without one overwriting another. */
static int place_fds(int image_fd, const int from[3], int *image_out)
{
	static const int to[3] = {STUB_FD_SOCKET, STUB_FD_ORDERS, STUB_FD_CONFIG};
	int high[4];

	for (int i = 0; i < 4; i++) {
		high[i] = HOST(fcntl_start, fcntl(i < 3 ? from[i] : image_fd, F_DUPFD_CLOEXEC, 16));
		if (high[i] < 0)
			return -errno;
	}
	for (int i = 0; i < 3; i++) {
		if (HOST(dup2_start, dup2(high[i], to[i])) < 0)
			return -errno;
	}
	*image_out = high[3];
	return 0;
}

static void set_limit(__rlimit_resource_t which, rlim_t soft, rlim_t hard)
{
	struct rlimit r;

	if (HOST(prlimit64_start, getrlimit(which, &r)) == 0) {
		r.rlim_max = MIN(hard, r.rlim_max);
		r.rlim_cur = MIN(soft, r.rlim_max);
		HOST(prlimit64_start, setrlimit(which, &r));
	}
}

static void drop_privileges(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2] = {{0}};

	/* For root, without SECBIT_NOROOT an exec would give all back. No privilege, no effect, no
	 * harm. */
	HOST(prctl_start, prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
							   SECBIT_NO_SETUID_FIXUP |
							   SECBIT_NO_SETUID_FIXUP_LOCKED));
	for (int cap = 0; HOST(prctl_start, prctl(PR_CAPBSET_DROP, cap)) == 0; cap++)
		continue;
	HOST(prctl_start, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
	HOST(capset_start, syscall(SYS_capset, &head, caps));
	HOST(prctl_start, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

/* In the child, between vfork and exec, in the sentry's memory: only async-signal-safe calls, no
 * allocation, nothing written but locals, errno and the counters of HOST. These calls are the
 * future stub's, not the sentry's; the sentry's filter has no part in them. */
static void NORETURN child_exec(int image_fd, const int fds[3], pid_t parent, uint64_t space)
{
	static const int unblocked[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE,
					SIGTRAP, SIGSYS, SIGURG /* the platform's interrupt */};
	char *const argv[] = {(char *)(uintptr_t) "moat-stub", NULL};
	char *const envp[] = {NULL};
	sigset_t keep;
	int image = -1;

	HOST(prctl_start, prctl(PR_SET_PDEATHSIG, SIGKILL));
	if (HOST(getppid_start, getppid()) != parent)
		HOST(exit_group_start, _exit(1));
	/* Out of the terminal's reach: its signals are for moat, which passes them to the guest. */
	HOST(setsid_start, setsid());
	sigfillset(&keep);
	for (size_t i = 0; i < ARRAY_SIZE(unblocked); i++)
		sigdelset(&keep, unblocked[i]);
	HOST(rt_sigprocmask_start, sigprocmask(SIG_SETMASK, &keep, NULL));
	/* SIG_IGN would outlive the exec. The others are blocked, so nothing is done by them. */
	for (size_t i = 0; i < ARRAY_SIZE(unblocked); i++)
		HOST(rt_sigaction_start, signal(unblocked[i], SIG_DFL));
	/* If it were ignored, the host would reap the keeper's children. */
	HOST(rt_sigaction_start, signal(SIGCHLD, SIG_DFL));

	set_limit(RLIMIT_CORE, PF_CORE_LIMIT, PF_CORE_LIMIT);
	set_limit(RLIMIT_STACK, 8 << 20,
		  RLIM_INFINITY); /* places the host's mappings; see stub.lds */
	set_limit(RLIMIT_AS, space, RLIM_INFINITY);
	set_limit(RLIMIT_DATA, RLIM_INFINITY, RLIM_INFINITY);
	set_limit(RLIMIT_NOFILE, RLIM_INFINITY, RLIM_INFINITY);
	/* Without randomisation the host's stack and vDSO cannot fall on the stub's fixed place.
	 * The guest's own layout is random by the loader's choice. */
	HOST(personality_start, personality(ADDR_NO_RANDOMIZE));
	if (place_fds(image_fd, fds, &image) < 0)
		HOST(exit_group_start, _exit(1));
	/* 0, 1 and 2 too: the stub holds nothing of the sentry's. */
	HOST(close_range_start, syscall(SYS_close_range, 0, STUB_FD_SOCKET - 1, 0));
	HOST(close_range_start,
	     syscall(SYS_close_range, STUB_FD_CONFIG + 1, ~0U, CLOSE_RANGE_CLOEXEC));
	drop_privileges();
	HOST(execveat_start, syscall(SYS_execveat, image, "", argv, envp, AT_EMPTY_PATH));
	HOST(exit_group_start, _exit(1));
}

pid_t pf_host_spawn_stub(int image_fd, int socket, int orders, int config, uint64_t space)
{
	const int fds[3] = {socket, orders, config};
	const pid_t self = HOST(getpid_stub, getpid());
	uint64_t counts[HOST_TAGS];
	sigset_t all, old;
	pid_t pid;

	if (fail_now(FAIL_HOST))
		return -EAGAIN;
	/* No handler of the sentry's may run in the child. */
	sigfillset(&all);
	HOST(rt_sigprocmask_own, pthread_sigmask(SIG_SETMASK, &all, &old));
	/* The sanitizers know no child that runs in its parent's memory. To copy that, and then
	 * each page again at the first write, takes longer than to wait for the exec. */
	host_counts_keep(counts);
	/* What the child does until exec it does to its own stack frames and registers.
	 * NOLINTBEGIN(clang-analyzer-unix.Vfork,clang-analyzer-security.insecureAPI.vfork) */
	pid = MOAT_ASAN | MOAT_TSAN ? HOST(clone_stub, fork()) : HOST(vfork_stub, vfork());
	if (pid == 0)
		child_exec(image_fd, fds, self, space);
	if (pid < 0)
		pid = -errno;
	/* NOLINTEND(clang-analyzer-unix.Vfork,clang-analyzer-security.insecureAPI.vfork) */
	host_counts_put_back(counts);
	host_count(MOAT_ASAN | MOAT_TSAN ? HOST_clone_stub : HOST_vfork_stub);
	HOST(rt_sigprocmask_own, pthread_sigmask(SIG_SETMASK, &old, NULL));
	return pid;
}

int pf_host_probe_filters(struct err *e)
{
	const uint32_t action = SECCOMP_RET_TRAP;

	if (HOST(seccomp_probe, syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action)) < 0)
		return err_set(e, errno,
			       "seccomp filters are missing (CONFIG_SECCOMP_FILTER, Linux 4.14) or "
			       "forbidden: %s",
			       err_text(errno));
	/* Who may set filters is told that there is none at NULL. */
	if (HOST(seccomp_probe, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL)) == 0 ||
	    errno != EFAULT)
		return err_set(e, errno, "this host forbids to set seccomp filters: %s",
			       err_text(errno));
	return 0;
}

static int was_killed(struct err *e)
{
	atomic_store(&g_pf_killed, true);
	return err_set(e, EPIPE, "%s", PF_KILLED);
}

int pf_host_no_start(pid_t pid, struct err *e)
{
	siginfo_t si = {.si_pid = 0};

	while (HOST(waitid_stub, waitid(P_PID, (id_t)pid, &si, WEXITED | __WALL | WNOWAIT)) < 0 &&
	       errno == EINTR)
		continue;
	return si.si_code == CLD_KILLED && si.si_status == SIGKILL
		       ? was_killed(e)
		       : err_set(e, ENOEXEC, "%s", PF_HOST_NO_START);
}

int pf_host_probe_reach(pid_t pid, uint64_t addr, struct err *e)
{
	char c;
	const struct iovec local = {.iov_base = &c, .iov_len = 1};
	const struct iovec remote = {.iov_base = (void *)(uintptr_t)addr, .iov_len = 1};

	/* EFAULT: it may be reached, but has not come to its exec yet. */
	if (HOST(process_vm_readv_guest, process_vm_readv(pid, &local, 1, &remote, 1, 0)) == 1 ||
	    errno == EFAULT)
		return 0;
	if (errno == ESRCH)
		return pf_host_no_start(pid, e);
	return err_set(e, errno,
		       "this host does not let a process reach its children's memory "
		       "(process_vm_readv): %s",
		       err_text(errno));
}

int pf_host_probe_child(int *seized, struct err *e)
{
	const char c = 0;
	int status = 0, r;
	const pid_t pid = HOST(clone_stub, fork());

	if (pid < 0)
		return err_set(e, errno, "cannot make a process: %s", err_text(errno));
	if (pid == 0) {
		/* As the stub will be after its exec, even if the sentry is not. */
		HOST(prctl_start, prctl(PR_SET_DUMPABLE, 1));
		for (;;)
			HOST(tgkill_start, raise(SIGSTOP));
	}
	while (HOST(wait4_stub, waitpid(pid, &status, WUNTRACED)) < 0 && errno == EINTR)
		continue;
	if (WIFSIGNALED(status)) {
		if (seized)
			*seized = -ESRCH;
		return was_killed(e);
	}
	if (seized)
		*seized = pf_host_seize(pid);
	r = pf_host_probe_reach(pid, (uint64_t)(uintptr_t)&c, e);
	(void)pf_host_kill(pid, SIGKILL);
	while (HOST(wait4_stub, waitpid(pid, NULL, __WALL)) < 0 && errno == EINTR)
		continue;
	return r;
}

int pf_host_probe_trace(struct err *e)
{
	int reach, r = pf_host_probe_filters(e);

	if (r < 0)
		return r;
	if (pf_sysctl(PF_MEMFD_EXEC) >= 2)
		return err_set(e, EACCES,
			       "vm.memfd_noexec is 2: the stub cannot be started from memory; set "
			       "it to 0 or 1");
	reach = pf_host_probe_child(&r, e);
	if (r == 0 || (r == -ESRCH && reach < 0))
		return reach;
	if (pf_sysctl(PF_YAMA) >= 2)
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
	siginfo_t si;

	while (HOST(waitid_stub, syscall(SYS_waitid, P_PID, pid, &si, WEXITED | __WALL, NULL)) <
		       0 &&
	       errno == EINTR)
		continue;
}

int pf_host_socketpair(int fd[2])
{
	const struct timeval second = {.tv_sec = 1};

	if (HOST(socketpair_stub, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd)) < 0)
		return -errno;
	(void)HOST(setsockopt_stub,
		   setsockopt(fd[0], SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)));
	return 0;
}

bool pf_host_has_ended(pid_t pid)
{
	siginfo_t si = {.si_pid = 0};

	return HOST(waitid_stub, waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT)) < 0 ||
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
		n = HOST(sendmsg_stub, sendmsg(socket, &m, MSG_NOSIGNAL));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EIO;
}

ssize_t pf_host_recv_fd(int socket, void *msg, size_t size, int *fd)
{
	struct iovec iov = {.iov_base = msg, .iov_len = size};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (fd) {
		m.msg_control = control.space;
		m.msg_controllen = sizeof(control.space);
	}
	do {
		n = HOST(recvmsg_stub, recvmsg(socket, &m, MSG_CMSG_CLOEXEC));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (fd && CMSG_FIRSTHDR(&m) && control.head.cmsg_level == SOL_SOCKET &&
	    control.head.cmsg_type == SCM_RIGHTS && control.head.cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(&control.head), sizeof(int));
	return n;
}

uint64_t pf_host_fsize_limit(void)
{
	struct rlimit r;

	return HOST(prlimit64_get, getrlimit(RLIMIT_FSIZE, &r)) == 0 ? r.rlim_cur : UINT64_MAX;
}

uint64_t pf_host_nofile_limit(void)
{
	struct rlimit r;

	return HOST(prlimit64_get, getrlimit(RLIMIT_NOFILE, &r)) == 0 ? r.rlim_max : 1024;
}
