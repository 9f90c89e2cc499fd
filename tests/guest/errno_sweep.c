/* SPDX-License-Identifier: Apache-2.0 */

/*
 * guest-flags: -static
 * guest-native: confined
 *
 * Every syscall number from 0 to 470 with no (all zero), bad and good arguments.
 *
 * Theory of operation: each call runs in a forked child of its own with a fresh
 * working directory, standard descriptors on /dev/null and a pipe to report
 * through, so that nothing it does is seen by the next. One line says number,
 * name, kind of arguments and what came of it: the errno, "ok" (any result that
 * is not an error), "value N" where the result is part of the contract,
 * "killed", "exit", or "blocks" for a call that does not return.
 *
 * skips[] lists what would harm the host when run natively as root, or whose
 * result is the host's policy; each with its reason. tests/guest/errno_sweep.expect-diff
 * lists the accepted differences.
 */
#include "guest.h"
#include <dirent.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/un.h>
#include <sys/utsname.h>

#define LAST 470

static const char *const names[LAST + 1] = {
#include "errno_sweep_names.h"
};

enum { NONE = 1, BAD = 2, GOOD = 4, ALL = 7 };

static const struct {
	int nr, kinds;
	const char *why;
} skips[] = {
	{SYS_reboot, ALL, "reboots or disarms the host's Ctrl-Alt-Del"},
	{SYS_kexec_load, ALL, "unloads or loads a crash kernel"},
	{SYS_kexec_file_load, ALL, "the same"},
	{SYS_init_module, ALL, "loads into the host's kernel"},
	{SYS_finit_module, ALL, "the same"},
	{SYS_delete_module, ALL, "unloads from the host's kernel"},
	{SYS_swapon, ALL, "changes the host's swap"},
	{SYS_swapoff, ALL, "the same"},
	{SYS_settimeofday, ALL, "sets the host's clock or time zone"},
	{SYS_clock_settime, ALL, "sets the host's clock"},
	{SYS_adjtimex, ALL, "reads and sets the host's clock discipline"},
	{SYS_clock_adjtime, ALL, "the same"},
	{SYS_sethostname, ALL, "renames the host"},
	{SYS_setdomainname, ALL, "the same"},
	{SYS_umount2, ALL, "unmounts the host's file systems"},
	{SYS_mount, ALL, "changes the host's mounts"},
	{SYS_pivot_root, ALL, "the same"},
	{SYS_move_mount, ALL, "the same"},
	{SYS_open_tree, ALL, "the host's policy on new mount calls"},
	{SYS_fsopen, ALL, "the same"},
	{SYS_fsconfig, ALL, "the same"},
	{SYS_fsmount, ALL, "the same"},
	{SYS_fspick, ALL, "the same"},
	{SYS_mount_setattr, ALL, "the same"},
	{SYS_acct, ALL, "switches the host's accounting"},
	{SYS_quotactl, ALL, "the host's disks"},
	{SYS_quotactl_fd, ALL, "the same"},
	{SYS_syslog, ALL, "the host's log"},
	{SYS_vhangup, ALL, "hangs up the terminal of the test"},
	{SYS_iopl, ALL, "gives a test the host's ports"},
	{SYS_ioperm, ALL, "the same"},
	{SYS_bpf, ALL, "host policy (kernel.unprivileged_bpf_disabled)"},
	{SYS_perf_event_open, ALL, "host policy (kernel.perf_event_paranoid)"},
	{SYS_userfaultfd, ALL, "host policy (vm.unprivileged_userfaultfd)"},
	{SYS_lookup_dcookie, ALL, "gone from newer kernels"},
	{SYS_io_uring_setup, ALL, "host policy (kernel.io_uring_disabled)"},
	{SYS_io_uring_enter, ALL, "the same"},
	{SYS_io_uring_register, ALL, "the same"},
	{SYS_exit, ALL, "does not return; tested in fork_wait"},
	{SYS_exit_group, ALL, "the same"},
	{SYS_rt_sigreturn, ALL, "takes its frame from the stack; tested in faults"},
	{SYS_restart_syscall, GOOD, "has no arguments"},
	{SYS_fork, ALL, "returns twice; tested in fork_wait"},
	{SYS_vfork, ALL, "the same; tested in clone_flags"},
	{SYS_clone, ALL, "the same"},
	{SYS_sync, ALL, "flushes the host's disks"},
	{SYS_kill, ALL,
	 "the numbers may be those of real groups: group 2 is the first program's in a sandbox"},
	{SYS_add_key, ALL, "the host's key rings"},
	{SYS_request_key, ALL, "the same"},
	{SYS_keyctl, ALL, "the same"},
	{SYS_nfsservctl, ALL, "never did anything on x86-64"},
	{SYS_sysfs, ALL, "numbers the host's file systems"},
	{SYS_ustat, ALL, "device 0 is the host's"},
	{SYS_fanotify_init, ALL, "host policy"},
	{SYS_fanotify_mark, ALL, "the same"},
	{SYS_landlock_create_ruleset, ALL, "host policy (which LSMs run)"},
	{SYS_landlock_add_rule, ALL, "the same"},
	{SYS_landlock_restrict_self, ALL, "the same"},
	{SYS_name_to_handle_at, ALL, "depends on the file system behind the path"},
	{SYS_open_by_handle_at, ALL, "the same"},
	{SYS_mbind, ALL, "depends on the host's NUMA"},
	{SYS_set_mempolicy, ALL, "the same"},
	{SYS_get_mempolicy, ALL, "the same"},
	{SYS_migrate_pages, ALL, "the same"},
	{SYS_move_pages, ALL, "the same"},
	{SYS_set_mempolicy_home_node, ALL, "the same"},
	{SYS_pkey_mprotect, ALL, "depends on the processor"},
	{SYS_pkey_alloc, ALL, "the same"},
	{SYS_pkey_free, ALL, "the same"},
	{SYS_modify_ldt, ALL, "host policy (CONFIG_MODIFY_LDT_SYSCALL)"},
	{SYS_semget, BAD, "leaves an object in the host's IPC name space"},
	{SYS_shmget, BAD, "the same"},
	{SYS_msgget, BAD, "the same"},
	{335, ALL, "uretprobe: only for the kernel's own trampolines"},
	{336, ALL, "uprobe: the same"},
	{SYS_unshare, GOOD, "the host's policy on namespaces"},
	{SYS_setns, GOOD, "the same"},
	{SYS_sched_setattr, BAD, "the kernel writes its size back into a bad pointer's page"},
	{453, ALL, "map_shadow_stack depends on the processor"},
};

struct arg {
	long v[6];
};

/* Objects that good arguments may name; made afresh in each child. */
static struct {
	int file, dir, pipe[2], sock[2], epoll, event;
	char *buf;
	char path[16], dirpath[16], newpath[16];
	struct timespec zero;
	struct iovec iov;
	sigset_t set;
} o;

static void objects(void)
{
	o.buf = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(o.path, "file");
	strcpy(o.dirpath, "dir");
	strcpy(o.newpath, "new");
	guest_file("file", "some text in a file\n");
	if (mkdir("dir", 0755))
		_exit(80);
	o.file = open("file", O_RDWR);
	o.dir = open("dir", O_RDONLY | O_DIRECTORY);
	if (pipe2(o.pipe, O_NONBLOCK) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, o.sock))
		_exit(81);
	o.epoll = epoll_create1(0);
	o.event = (int)syscall(SYS_eventfd2, 0, O_NONBLOCK);
	o.iov = (struct iovec){o.buf, 16};
	if (write(o.pipe[1], "pipe", 4) != 4 || write(o.sock[1], "sock", 4) != 4)
		_exit(82);
}

#define A(...) ((struct arg){{__VA_ARGS__}})
#define L(x) ((long)(x))

/* Good arguments; returns false where there are none. *value asks for the result to be printed. */
static bool good(int nr, struct arg *a, bool *value)
{
	long b = L(o.buf), f = o.file, at = AT_FDCWD;

	*value = false;
	switch (nr) {
	case SYS_read:
		*a = A(f, b, 5);
		*value = true;
		return true;
	case SYS_write:
		*a = A(f, b, 5);
		*value = true;
		return true;
	case SYS_open:
		*a = A(L(o.path), O_RDONLY);
		return true;
	case SYS_close:
		*a = A(f);
		*value = true;
		return true;
	case SYS_stat:
	case SYS_lstat:
		*a = A(L(o.path), b);
		*value = true;
		return true;
	case SYS_fstat:
		*a = A(f, b);
		*value = true;
		return true;
	case SYS_poll:
		*a = A(b, 0, 0);
		*value = true;
		return true;
	case SYS_lseek:
		*a = A(f, 3, SEEK_SET);
		*value = true;
		return true;
	case SYS_mmap:
		*a = A(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return true;
	case SYS_mprotect:
		*a = A(b, 4096, PROT_READ);
		*value = true;
		return true;
	case SYS_munmap:
		*a = A(b, 4096);
		*value = true;
		return true;
	case SYS_brk:
		*a = A(0);
		return true;
	case SYS_rt_sigaction:
		*a = A(SIGUSR1, 0, b, 8);
		*value = true;
		return true;
	case SYS_rt_sigprocmask:
		*a = A(SIG_BLOCK, 0, b, 8);
		*value = true;
		return true;
	case SYS_ioctl:
		*a = A(o.pipe[0], FIONREAD, b);
		*value = true;
		return true;
	case SYS_pread64:
	case SYS_pwrite64:
		*a = A(f, b, 5, 2);
		*value = true;
		return true;
	case SYS_readv:
	case SYS_writev:
		*a = A(f, L(&o.iov), 1);
		*value = true;
		return true;
	case SYS_access:
		*a = A(L(o.path), R_OK);
		*value = true;
		return true;
	case SYS_pipe:
		*a = A(b);
		*value = true;
		return true;
	case SYS_select:
		*a = A(0, 0, 0, 0, b);
		*value = true;
		return true;
	case SYS_sched_yield:
		*a = A(0);
		*value = true;
		return true;
	case SYS_mremap:
		*a = A(b, 65536, 4096, 0);
		return true;
	case SYS_msync:
		*a = A(b, 4096, MS_SYNC);
		*value = true;
		return true;
	case SYS_mincore:
		*a = A(b, 4096, b + 8192);
		*value = true;
		return true;
	case SYS_madvise:
		*a = A(b, 4096, MADV_DONTNEED);
		*value = true;
		return true;
	case SYS_shmget:
		*a = A(0, 4096, 0600);
		return true;
	case SYS_dup:
		*a = A(f);
		return true;
	case SYS_dup2:
		*a = A(f, 100);
		*value = true;
		return true;
	case SYS_dup3:
		*a = A(f, 100, O_CLOEXEC);
		*value = true;
		return true;
	case SYS_nanosleep:
		*a = A(L(&o.zero), 0);
		*value = true;
		return true;
	case SYS_getitimer:
		*a = A(ITIMER_REAL, b);
		*value = true;
		return true;
	case SYS_alarm:
		*a = A(100);
		*value = true;
		return true;
	case SYS_setitimer:
		*a = A(ITIMER_REAL, b, 0);
		*value = true;
		return true;
	case SYS_getpid:
	case SYS_gettid:
	case SYS_getppid:
	case SYS_getpgrp:
		*a = A(0);
		return true;
	case SYS_getuid:
	case SYS_getgid:
	case SYS_geteuid:
	case SYS_getegid:
		*a = A(0);
		*value = true;
		return true;
	case SYS_sendfile:
		*a = A(o.sock[0], f, 0, 5);
		*value = true;
		return true;
	case SYS_socket:
		*a = A(AF_UNIX, SOCK_STREAM, 0);
		return true;
	case SYS_socketpair:
		*a = A(AF_UNIX, SOCK_STREAM, 0, b);
		*value = true;
		return true;
	case SYS_sendto:
		*a = A(o.sock[0], b, 5, 0, 0, 0);
		*value = true;
		return true;
	case SYS_recvfrom:
		*a = A(o.sock[0], b, 5, 0, 0, 0);
		*value = true;
		return true;
	case SYS_shutdown:
		*a = A(o.sock[0], SHUT_WR);
		*value = true;
		return true;
	case SYS_getsockname:
	case SYS_getpeername:
		*(int *)(o.buf + 128) = 100;
		*a = A(o.sock[0], b, b + 128);
		*value = true;
		return true;
	case SYS_getsockopt:
		*(int *)(o.buf + 128) = 4;
		*a = A(o.sock[0], SOL_SOCKET, SO_TYPE, b, b + 128);
		*value = true;
		return true;
	case SYS_setsockopt:
		*a = A(o.sock[0], SOL_SOCKET, SO_PASSCRED, b, 4);
		*value = true;
		return true;
	case SYS_wait4:
	case SYS_waitid:
		*a = A(-1, 0, WNOHANG, 0);
		return true;
	case SYS_uname:
		*a = A(b);
		*value = true;
		return true;
	case SYS_semget:
		*a = A(0, 1, 0600);
		return true;
	case SYS_msgget:
		*a = A(0, 0600);
		return true;
	case SYS_fcntl:
		*a = A(f, F_GETFD);
		*value = true;
		return true;
	case SYS_flock:
		*a = A(f, 2);
		*value = true;
		return true;
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_syncfs:
		*a = A(f);
		*value = true;
		return true;
	case SYS_truncate:
		*a = A(L(o.path), 5);
		*value = true;
		return true;
	case SYS_ftruncate:
		*a = A(f, 5);
		*value = true;
		return true;
	case SYS_getdents:
	case SYS_getdents64:
		*a = A(o.dir, b, 4096);
		return true;
	case SYS_getcwd:
		*a = A(b, 4096);
		return true;
	case SYS_chdir:
		*a = A(L(o.dirpath));
		*value = true;
		return true;
	case SYS_fchdir:
		*a = A(o.dir);
		*value = true;
		return true;
	case SYS_rename:
	case SYS_link:
	case SYS_symlink:
		*a = A(L(o.path), L(o.newpath));
		*value = true;
		return true;
	case SYS_mkdir:
		*a = A(L(o.newpath), 0700);
		*value = true;
		return true;
	case SYS_rmdir:
		*a = A(L(o.dirpath));
		*value = true;
		return true;
	case SYS_creat:
		*a = A(L(o.newpath), 0600);
		return true;
	case SYS_unlink:
		*a = A(L(o.path));
		*value = true;
		return true;
	case SYS_readlink:
		*a = A(L("/proc/self/exe"), b, 100);
		return true;
	case SYS_chmod:
		*a = A(L(o.path), 0600);
		*value = true;
		return true;
	case SYS_fchmod:
		*a = A(f, 0600);
		*value = true;
		return true;
	case SYS_chown:
	case SYS_lchown:
		*a = A(L(o.path), 1, 1);
		*value = true;
		return true;
	case SYS_fchown:
		*a = A(f, 1, 1);
		*value = true;
		return true;
	case SYS_umask:
		*a = A(077);
		*value = true;
		return true;
	case SYS_gettimeofday:
	case SYS_time:
		*a = A(b, 0);
		return true;
	case SYS_getrlimit:
		*a = A(RLIMIT_NOFILE, b);
		*value = true;
		return true;
	case SYS_setrlimit:
		*a = A(RLIMIT_CORE, b);
		*value = true;
		return true;
	case SYS_prlimit64:
		*a = A(0, RLIMIT_NOFILE, 0, b);
		*value = true;
		return true;
	case SYS_getrusage:
		*a = A(RUSAGE_SELF, b);
		*value = true;
		return true;
	case SYS_sysinfo:
		*a = A(b);
		*value = true;
		return true;
	case SYS_times:
		*a = A(b);
		return true;
	case SYS_setuid:
	case SYS_setgid:
		*a = A(0);
		*value = true;
		return true;
	case SYS_setreuid:
	case SYS_setregid:
		*a = A(-1, -1);
		*value = true;
		return true;
	case SYS_setresuid:
	case SYS_setresgid:
		*a = A(-1, -1, -1);
		*value = true;
		return true;
	case SYS_getresuid:
	case SYS_getresgid:
		*a = A(b, b + 8, b + 16);
		*value = true;
		return true;
	case SYS_getgroups:
		*a = A(0, 0);
		return true;
	case SYS_setgroups:
		*a = A(0, 0);
		*value = true;
		return true;
	case SYS_setpgid:
		*a = A(0, 0);
		*value = true;
		return true;
	case SYS_setsid:
		*a = A(0);
		return true;
	case SYS_getpgid:
	case SYS_getsid:
		*a = A(0);
		return true;
	case SYS_rt_sigpending:
		*a = A(b, 8);
		*value = true;
		return true;
	case SYS_rt_sigtimedwait:
		*a = A(L(&o.set), b, L(&o.zero), 8);
		*value = true;
		return true;
	case SYS_sigaltstack:
		*a = A(0, b);
		*value = true;
		return true;
	case SYS_utime:
	case SYS_utimes:
		*a = A(L(o.path), 0);
		*value = true;
		return true;
	case SYS_mknod:
		*a = A(L(o.newpath), S_IFIFO | 0600, 0);
		*value = true;
		return true;
	case SYS_personality:
		*a = A(0xffffffff);
		*value = true;
		return true;
	case SYS_statfs:
		*a = A(L(o.path), b);
		*value = true;
		return true;
	case SYS_fstatfs:
		*a = A(f, b);
		*value = true;
		return true;
	case SYS_getpriority:
		*a = A(PRIO_PROCESS, 0);
		*value = true;
		return true;
	case SYS_setpriority:
		*a = A(PRIO_PROCESS, 0, 5);
		*value = true;
		return true;
	case SYS_sched_getparam:
		*a = A(0, b);
		*value = true;
		return true;
	case SYS_sched_setparam:
		*a = A(0, b);
		*value = true;
		return true;
	case SYS_sched_getscheduler:
		*a = A(0);
		*value = true;
		return true;
	case SYS_sched_setscheduler:
		*a = A(0, SCHED_BATCH, b);
		*value = true;
		return true;
	case SYS_sched_get_priority_max:
	case SYS_sched_get_priority_min:
		*a = A(SCHED_FIFO);
		*value = true;
		return true;
	case SYS_sched_rr_get_interval:
		*a = A(0, b);
		*value = true;
		return true;
	case SYS_sched_getaffinity:
		*a = A(0, 4096, b);
		return true;
	case SYS_sched_getattr:
		*a = A(0, b, 48, 0);
		*value = true;
		return true;
	case SYS_mlock:
		*a = A(b, 4096);
		*value = true;
		return true;
	case SYS_mlock2:
		*a = A(b, 4096, 0);
		*value = true;
		return true;
	case SYS_munlock:
		*a = A(b, 4096);
		*value = true;
		return true;
	case SYS_munlockall:
		*a = A(0);
		*value = true;
		return true;
	case SYS_prctl:
		*a = A(PR_GET_DUMPABLE);
		*value = true;
		return true;
	case SYS_arch_prctl:
		*a = A(0x1003, b);
		*value = true;
		return true;
	case SYS_chroot:
		*a = A(L(o.dirpath));
		*value = true;
		return true;
	case SYS_readahead:
		*a = A(f, 0, 4096);
		*value = true;
		return true;
	case SYS_setxattr:
	case SYS_lsetxattr:
		*a = A(L(o.path), L("user.a"), b, 5, 0);
		*value = true;
		return true;
	case SYS_fsetxattr:
		*a = A(f, L("user.a"), b, 5, 0);
		*value = true;
		return true;
	case SYS_getxattr:
	case SYS_lgetxattr:
		*a = A(L(o.path), L("user.a"), b, 5);
		*value = true;
		return true;
	case SYS_fgetxattr:
		*a = A(f, L("user.a"), b, 5);
		*value = true;
		return true;
	case SYS_removexattr:
	case SYS_lremovexattr:
		*a = A(L(o.path), L("user.a"));
		*value = true;
		return true;
	case SYS_fremovexattr:
		*a = A(f, L("user.a"));
		*value = true;
		return true;
	case SYS_tkill:
		*a = A(syscall(SYS_gettid), 0);
		*value = true;
		return true;
	case SYS_tgkill:
		*a = A(getpid(), syscall(SYS_gettid), 0);
		*value = true;
		return true;
	case SYS_futex:
		*a = A(b, FUTEX_WAKE, 1);
		*value = true;
		return true;
	case SYS_sched_setaffinity:
		*a = A(0, 128, (memset(o.buf, 255, 128), b));
		*value = true;
		return true;
	case SYS_epoll_create:
		*a = A(1);
		return true;
	case SYS_epoll_create1:
		*a = A(0);
		return true;
	case SYS_epoll_ctl:
		*a = A(o.epoll, EPOLL_CTL_ADD, o.pipe[0], b);
		*value = true;
		return true;
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		*a = A(o.epoll, b, 1, 0, 0, 8);
		*value = true;
		return true;
	case SYS_epoll_pwait2:
		*a = A(o.epoll, b, 1, L(&o.zero), 0, 8);
		*value = true;
		return true;
	case SYS_set_tid_address:
		*a = A(b);
		return true;
	case SYS_semtimedop:
		return false;
	case SYS_fadvise64:
		*a = A(f, 0, 0, 0);
		*value = true;
		return true;
	case SYS_timer_create:
		*a = A(CLOCK_MONOTONIC, 0, b);
		*value = true;
		return true;
	case SYS_clock_gettime:
	case SYS_clock_getres:
		*a = A(CLOCK_MONOTONIC, b);
		*value = true;
		return true;
	case SYS_clock_nanosleep:
		*a = A(CLOCK_MONOTONIC, 0, L(&o.zero), 0);
		*value = true;
		return true;
	case SYS_mq_open:
		*a = A(L("errno_sweep_none"), O_RDONLY, 0, 0);
		*value = true;
		return true;
	case SYS_inotify_init:
		*a = A(0);
		return true;
	case SYS_inotify_init1:
		*a = A(O_CLOEXEC);
		return true;
	case SYS_openat:
		*a = A(at, L(o.path), O_RDONLY);
		return true;
	case SYS_mkdirat:
		*a = A(at, L(o.newpath), 0700);
		*value = true;
		return true;
	case SYS_mknodat:
		*a = A(at, L(o.newpath), S_IFIFO | 0600, 0);
		*value = true;
		return true;
	case SYS_fchownat:
		*a = A(at, L(o.path), 1, 1, 0);
		*value = true;
		return true;
	case SYS_futimesat:
		*a = A(at, L(o.path), 0);
		*value = true;
		return true;
	case SYS_newfstatat:
		*a = A(at, L(o.path), b, 0);
		*value = true;
		return true;
	case SYS_unlinkat:
		*a = A(at, L(o.path), 0);
		*value = true;
		return true;
	case SYS_renameat:
	case SYS_renameat2:
	case SYS_linkat:
		*a = A(at, L(o.path), at, L(o.newpath), 0);
		*value = true;
		return true;
	case SYS_symlinkat:
		*a = A(L(o.path), at, L(o.newpath));
		*value = true;
		return true;
	case SYS_readlinkat:
		*a = A(at, L("/proc/self/exe"), b, 100);
		return true;
	case SYS_fchmodat:
		*a = A(at, L(o.path), 0600);
		*value = true;
		return true;
	case 452:
		*a = A(at, L(o.path), 0600, 0);
		*value = true;
		return true;
	case SYS_faccessat:
	case SYS_faccessat2:
		*a = A(at, L(o.path), R_OK, 0);
		*value = true;
		return true;
	case SYS_pselect6:
		*a = A(0, 0, 0, 0, L(&o.zero), 0);
		*value = true;
		return true;
	case SYS_ppoll:
		*a = A(0, 0, L(&o.zero), 0, 8);
		*value = true;
		return true;
	case SYS_unshare:
		return false;
	case SYS_set_robust_list:
		*a = A(b, 24);
		*value = true;
		return true;
	case SYS_get_robust_list:
		*a = A(0, b, b + 8);
		*value = true;
		return true;
	case SYS_splice:
		*a = A(o.pipe[0], 0, f, 0, 4, 0);
		*value = true;
		return true;
	case SYS_vmsplice:
		*a = A(o.pipe[1], L(&o.iov), 1, 0);
		*value = true;
		return true;
	case SYS_sync_file_range:
		*a = A(f, 0, 4096, 0);
		*value = true;
		return true;
	case SYS_utimensat:
		*a = A(at, L(o.path), 0, 0);
		*value = true;
		return true;
	case SYS_signalfd:
		*a = A(-1, L(&o.set), 8);
		return true;
	case SYS_signalfd4:
		*a = A(-1, L(&o.set), 8, 0);
		return true;
	case SYS_timerfd_create:
		*a = A(CLOCK_MONOTONIC, 0);
		return true;
	case SYS_eventfd:
	case SYS_eventfd2:
		*a = A(1, 0);
		return true;
	case SYS_fallocate:
		*a = A(f, 0, 0, 100);
		*value = true;
		return true;
	case SYS_pipe2:
		*a = A(b, O_CLOEXEC);
		*value = true;
		return true;
	case SYS_preadv:
	case SYS_pwritev:
	case SYS_preadv2:
	case SYS_pwritev2:
		*a = A(f, L(&o.iov), 1, 0, 0, 0);
		*value = true;
		return true;
	case SYS_sendmmsg:
		*a = A(o.sock[0], b, 0, 0);
		*value = true;
		return true;
	case SYS_process_vm_readv:
	case SYS_process_vm_writev:
		*a = A(getpid(), L(&o.iov), 1, L(&o.iov), 1, 0);
		*value = true;
		return true;
	case SYS_kcmp:
		*a = A(getpid(), getpid(), 0, f, f);
		return true;
	case SYS_getrandom:
		*a = A(b, 16, 0);
		*value = true;
		return true;
	case SYS_memfd_create:
		*a = A(L("name"), 0);
		return true;
	case SYS_membarrier:
		*a = A(0);
		return true;
	case SYS_copy_file_range:
		*a = A(f, 0, f, 0, 0, 0);
		*value = true;
		return true;
	case SYS_statx:
		*a = A(at, L(o.path), 0, 0x7ff, b);
		*value = true;
		return true;
	case SYS_pidfd_open:
		*a = A(getpid(), 0);
		return true;
	case SYS_close_range:
		*a = A(500, 600, 0);
		*value = true;
		return true;
	case SYS_openat2:
		*a = A(at, L(o.path), b, sizeof(struct open_how));
		return true;
	case SYS_capget:
		((uint32_t *)o.buf)[0] = 0x20080522;
		*a = A(b, b + 64);
		*value = true;
		return true;
	case SYS_ioprio_get:
		*a = A(1, 0);
		return true;
	case SYS_tee:
		*a = A(o.pipe[0], o.pipe[1], 0, 0);
		*value = true;
		return true;
	case SYS_getcpu:
		*a = A(b, b + 8, 0);
		*value = true;
		return true;
	case SYS_io_setup:
		*a = A(8, b);
		*value = true;
		return true;
	default:
		return false;
	}
}

static const char *kind_name(int kind)
{
	return kind == NONE ? "none" : kind == BAD ? "bad" : "good";
}

static int skipped(int nr)
{
	int kinds = 0;

	for (size_t i = 0; i < GUEST_COUNT(skips); i++)
		if (skips[i].nr == nr)
			kinds |= skips[i].kinds;
	return kinds;
}

/* The call itself, in a child. */
static void child(int nr, int kind, int report)
{
	struct arg a = {{0}};
	bool value = false;
	struct {
		long r;
		int e, value;
	} msg;

	if (kind == BAD)
		a = A(-2, 0x10, -3, 0x11, -4, 0x13);
	else if (kind == GOOD)
		good(nr, &a, &value);
	errno = 0;
	msg.r = syscall(nr, a.v[0], a.v[1], a.v[2], a.v[3], a.v[4], a.v[5]);
	msg.e = msg.r == -1 ? errno : 0;
	msg.value = value;
	/* The call may have closed or moved what libc relies on: report with one bare call. */
	syscall(SYS_write, report, &msg, sizeof(msg));
	syscall(SYS_exit_group, 0);
}

static void one(int nr, int kind)
{
	struct {
		long r;
		int e, value;
	} msg;
	char dir[32];
	int link[2], status;
	pid_t pid;
	ssize_t n;
	int answers;
	struct arg dummy;
	bool value;

	if (kind == GOOD && !good(nr, &dummy, &value))
		return;
	if (pipe(link))
		exit(1);
	snprintf(dir, sizeof(dir), "%d%s", nr, kind_name(kind));
	if (mkdir(dir, 0755))
		exit(1);
	pid = guest_fork();
	if (!pid) {
		/* Calls with all-zero arguments act on descriptor 0: on /dev/null, fchmod(0, 0) by
		 * root would take that from the whole host. So it is a file of our own. */
		int null = open("sweep-stdin", O_RDWR | O_CREAT, 0600);

		setsid();
		if (chdir(dir))
			_exit(83);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		if (dup2(link[1], 250) != 250)
			_exit(84);
		close(link[0]);
		close(link[1]);
		if (kind == GOOD)
			objects();
		child(nr, kind, 250);
	}
	close(link[1]);
	struct pollfd p = {.fd = link[0], .events = POLLIN};

	n = 0;
	/* It blocks if it sleeps: it may not have come to run yet. */
	for (int asleep = 0, i = 0;
	     (answers = poll(&p, 1, i ? 50 : 500)) == 0 && asleep < 4 && i < 1200; i++)
		asleep = guest_state(pid, pid) == 'S' ? asleep + 1 : 0;
	if (answers == 1)
		n = read(link[0], &msg, sizeof(msg));
	else
		n = -1;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(link[0]);
	printf("%d %s %s: ", nr, names[nr] ? names[nr] : "?", kind_name(kind));
	if (n < 0)
		printf("blocks\n");
	else if (n != (ssize_t)sizeof(msg) && WIFSIGNALED(status))
		printf("killed by %s\n", guest_signal(WTERMSIG(status)));
	else if (n != (ssize_t)sizeof(msg))
		printf("exit %d\n", WEXITSTATUS(status));
	else if (msg.e)
		printf("%s\n", guest_errno(msg.e));
	else if (msg.value)
		printf("value %ld\n", msg.r);
	else
		printf("ok\n");
}

int main(int argc, char **argv)
{
	int from = argc > 1 ? atoi(argv[1]) : 0, to = argc > 1 ? from : LAST;

	guest_begin();
	/* Where that is allowed, leave nothing in the host's IPC name space. */
	unshare(CLONE_NEWIPC);
	/* Only so that good() has somewhere to write in this process too. */
	o.buf = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int nr = from; nr <= to; nr++) {
		int skip = skipped(nr);

		for (int kind = NONE; kind <= GOOD; kind <<= 1)
			if (!(skip & kind))
				one(nr, kind);
	}
	return 0;
}
