/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile-part-of: takeover.sh
 *
 * Makes the sentry of a debug build make host calls (sentry/takeover.h), and says what they reached.
 *
 *   sweep            every number 0 to 500 and x32's, with arguments of several kinds: "allowed NR"
 *   refused          calls by name that no argument may make possible: "reached WHAT" if one is
 *   fds              the sentry's descriptors: "fd N MODE DEV INO"
 *   open PATH...     by every way that there is, with ".." from each directory: "opened PATH how", or "empty" if it is
 *   process PID ADDR its memory, signals, processors: "reached WHAT"
 *   memory           "reached WHAT"
 *   wait             nothing, until there is a line to read
 */
#include "takeover.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/sysmacros.h>

static long host(unsigned in_buf, uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
		 uint64_t f)
{
	host_call(in_buf, nr, a, b, c, d, e, f);
	return q.result;
}

static void put(unsigned at, const void *p, size_t size)
{
	memcpy(q.buf + at, p, size);
}

/* --- sweep --- */

/* They would end the sentry, or its thread, or leave it in the middle of nothing; no filter is asked for the last
 * two (uretprobe, uprobe), and the first of those is SIGILL. */
static int deadly(unsigned nr)
{
	return nr == SYS_exit || nr == SYS_exit_group || nr == SYS_rt_sigreturn || nr == 335 || nr == 336;
}

static void sweep(void)
{
	static const struct {
		unsigned in_buf;
		uint64_t a[6];
	} kinds[] = {
		{0, {-1, -1, -1, -1, -1, -1}},
		{0, {-1, 0, 0, 0, 0, 0}},
		{B(1) | B(2) | B(3), {-1, 0, 64, 128, 0, 0}},
		{B(1), {AT_FDCWD, 0, 0, 0, 0, 0}},
		{B(0), {0, 0, 0, 0, 0, 0}},
		{B(0) | B(1) | B(2), {0, 512, 1024, 0, 0, 0}},
		{0, {0x7ffffff0, 1, 2, 3, 4, 5}},
	};

	put(0, "/etc/shadow", 12);
	for (unsigned nr = 0; nr <= 500; nr++) {
		int allowed = 0;

		if (deadly(nr)) {
			printf("skipped %u\n", nr);
			continue;
		}
		for (unsigned i = 0; i < HOSTILE_COUNT(kinds); i++) {
			host(kinds[i].in_buf, nr, kinds[i].a[0], kinds[i].a[1], kinds[i].a[2], kinds[i].a[3],
			     kinds[i].a[4], kinds[i].a[5]);
			allowed |= !q.refused && q.result != -ENOSYS;
			host(kinds[i].in_buf, nr | 0x40000000, kinds[i].a[0], kinds[i].a[1], kinds[i].a[2],
			     kinds[i].a[3], kinds[i].a[4], kinds[i].a[5]);
			if (!q.refused)
				printf("reached x32 %u\n", nr);
		}
		if (allowed)
			printf("allowed %u\n", nr);
	}
}

/* --- refused --- */

static void want_refused(const char *what)
{
	if (!q.refused)
		printf("reached %s: %ld\n", what, (long)q.result);
}

#define NEVER(what, ...)            \
	do {                        \
		host(__VA_ARGS__);  \
		want_refused(what); \
	} while (0)

static void refused(void)
{
	static const uint64_t clones[] = {CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWIPC,
					  CLONE_NEWUTS, CLONE_NEWCGROUP, SIGCHLD, CLONE_VM | SIGCHLD,
					  CLONE_VM | CLONE_VFORK | SIGCHLD, CLONE_PARENT | SIGCHLD,
					  CLONE_PTRACE | SIGCHLD, 0};
	static const unsigned tty[] = {0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */, 0x540e /* TIOCSCTTY */,
				       0x5414 /* TIOCSWINSZ */, 0x5410 /* TIOCSPGRP */, 0x5423 /* TIOCSETD */,
				       0x5422 /* TIOCNOTTY */, 0x80045430 /* TIOCGPTN */, 0x5441 /* TIOCGPTPEER */,
				       0x8933 /* SIOCGIFINDEX */, 0x40049409 /* FICLONE */, 0x1269 /* BLKRRPART */,
				       0xb701 /* NS_GET_USERNS */, 0x40086602 /* FS_IOC_SETFLAGS */,
				       0xc0502100 + 0 /* SECCOMP_IOCTL_NOTIF_RECV, no struct of ours */ ^ 1,
				       0xc0182103 /* SECCOMP_IOCTL_NOTIF_ADDFD */};
	static const unsigned cmds[] = {F_DUPFD, F_SETFD, F_SETFL, F_SETLK, F_SETLKW, F_SETOWN, F_SETSIG, F_SETLEASE,
					F_NOTIFY, F_SETPIPE_SZ, F_GET_SEALS};
	char name[64];

	put(0, "/bin/sh", 8);
	for (int family = 0; family < 48; family++) {
		for (int type = 1; type <= 10; type++) {
			snprintf(name, sizeof(name), "socket of family %d, type %d", family, type);
			NEVER(name, 0, SYS_socket, family, type, 0, 0, 0, 0);
		}
		NEVER("socketpair", B(3), SYS_socketpair, family, 1, 0, 64, 0, 0);
	}
	for (int fd = -1; fd < 64; fd++) {
		NEVER("connect", B(1), SYS_connect, fd, 128, 16, 0, 0, 0);
		NEVER("bind", B(1), SYS_bind, fd, 128, 16, 0, 0, 0);
		NEVER("listen", 0, SYS_listen, fd, 1, 0, 0, 0, 0);
		NEVER("accept4", 0, SYS_accept4, fd, 0, 0, 0, 0, 0);
		NEVER("sendto", B(1) | B(4), SYS_sendto, fd, 0, 1, 0, 128, 16);
		NEVER("fchdir", 0, SYS_fchdir, fd, 0, 0, 0, 0, 0);
		NEVER("setns", 0, SYS_setns, fd, 0, 0, 0, 0, 0);
		NEVER("execveat", B(1) | B(2) | B(3), SYS_execveat, fd, 200, 256, 256, AT_EMPTY_PATH, 0);
		NEVER("fexecve of a path", B(1) | B(2) | B(3), SYS_execveat, fd, 0, 256, 256, 0, 0);
		NEVER("dup", 0, SYS_dup, fd, 0, 0, 0, 0, 0);
		NEVER("dup2", 0, SYS_dup2, fd, 100, 0, 0, 0, 0);
		NEVER("mmap for execution", 0, SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
		NEVER("mmap for execution, shared", 0, SYS_mmap, 0, 4096, PROT_EXEC, MAP_SHARED, fd, 0);
		for (unsigned i = 0; i < HOSTILE_COUNT(tty); i++) {
			snprintf(name, sizeof(name), "ioctl %#x", tty[i]);
			NEVER(name, B(2), SYS_ioctl, fd, tty[i], 512, 0, 0, 0);
		}
		for (unsigned i = 0; i < HOSTILE_COUNT(cmds); i++) {
			snprintf(name, sizeof(name), "fcntl %u", cmds[i]);
			NEVER(name, 0, SYS_fcntl, fd, cmds[i], 0, 0, 0, 0);
		}
	}
	for (unsigned i = 0; i < HOSTILE_COUNT(clones); i++) {
		NEVER("clone", 0, SYS_clone, clones[i], 0, 0, 0, 0, 0);
		NEVER("unshare", 0, SYS_unshare, clones[i], 0, 0, 0, 0, 0);
	}
	NEVER("fork", 0, SYS_fork, 0, 0, 0, 0, 0, 0);
	NEVER("vfork", 0, SYS_vfork, 0, 0, 0, 0, 0, 0);
	NEVER("execve", B(0), SYS_execve, 0, 0, 0, 0, 0, 0);
	NEVER("mount", B(0) | B(1), SYS_mount, 0, 0, 0, 0x1000, 0, 0);
	NEVER("pivot_root", B(0) | B(1), SYS_pivot_root, 0, 0, 0, 0, 0, 0);
	NEVER("chroot", B(0), SYS_chroot, 0, 0, 0, 0, 0, 0);
	NEVER("chdir", B(0), SYS_chdir, 0, 0, 0, 0, 0, 0);
	NEVER("open", B(0), SYS_open, 0, 0, 0, 0, 0, 0);
	NEVER("openat, an absolute name", B(1), SYS_openat, AT_FDCWD, 0, O_RDWR, 0, 0, 0);
	NEVER("openat2 from the working directory", B(1) | B(2), SYS_openat2, AT_FDCWD, 0, 512, 24, 0, 0);
	NEVER("unlink", B(0), SYS_unlink, 0, 0, 0, 0, 0, 0);
	NEVER("unlinkat from the working directory", B(1), SYS_unlinkat, AT_FDCWD, 200, 0, 0, 0, 0);
	NEVER("statx from the working directory", B(1) | B(4), SYS_statx, AT_FDCWD, 0, AT_SYMLINK_NOFOLLOW, 0x7ff, 512,
	      0);
	NEVER("statx of a link's target", B(1) | B(4), SYS_statx, 3, 0, 0, 0x7ff, 512, 0);
	NEVER("open_by_handle_at", B(1), SYS_open_by_handle_at, 3, 0, 0, 0, 0, 0);
	NEVER("ptrace ATTACH", 0, SYS_ptrace, PTRACE_ATTACH, 1, 0, 0, 0, 0);
	NEVER("ptrace TRACEME", 0, SYS_ptrace, PTRACE_TRACEME, 0, 0, 0, 0, 0);
	NEVER("kill of a group", 0, SYS_kill, 0, SIGKILL, 0, 0, 0, 0);
	NEVER("kill of all", 0, SYS_kill, -1, SIGKILL, 0, 0, 0, 0);
	NEVER("kill of group 1", 0, SYS_kill, -1000000, SIGKILL, 0, 0, 0, 0);
	NEVER("SIGSTOP", 0, SYS_kill, 1, SIGSTOP, 0, 0, 0, 0);
	NEVER("tgkill SIGKILL", 0, SYS_tgkill, 1, 1, SIGKILL, 0, 0, 0);
	NEVER("pidfd_open", 0, SYS_pidfd_open, 1, 0, 0, 0, 0, 0);
	NEVER("pidfd_getfd", 0, SYS_pidfd_getfd, 3, 0, 0, 0, 0, 0);
	NEVER("bpf", B(1), SYS_bpf, 0, 0, 64, 0, 0, 0);
	NEVER("perf_event_open", B(0), SYS_perf_event_open, 0, 0, -1, -1, 0, 0);
	NEVER("io_uring_setup", B(1), SYS_io_uring_setup, 8, 512, 0, 0, 0, 0);
	NEVER("userfaultfd", 0, SYS_userfaultfd, 0, 0, 0, 0, 0, 0);
	NEVER("keyctl", 0, SYS_keyctl, 0, -1, 0, 0, 0, 0);
	NEVER("add_key", B(0) | B(1), SYS_add_key, 0, 0, 0, 0, -1, 0);
	NEVER("shmget", 0, SYS_shmget, 0, 4096, 01600, 0, 0, 0);
	NEVER("msgget", 0, SYS_msgget, 1, 01600, 0, 0, 0, 0);
	NEVER("semget", 0, SYS_semget, 1, 1, 01600, 0, 0, 0);
	NEVER("mq_open", B(0), SYS_mq_open, 0, O_CREAT | O_RDWR, 0600, 0, 0, 0);
	NEVER("inotify_init1", 0, SYS_inotify_init1, 0, 0, 0, 0, 0, 0);
	NEVER("fanotify_init", 0, SYS_fanotify_init, 0, 0, 0, 0, 0, 0);
	NEVER("prctl PR_SET_DUMPABLE", 0, SYS_prctl, 4, 1, 0, 0, 0, 0);
	NEVER("prctl PR_SET_MM", 0, SYS_prctl, 35, 0, 0, 0, 0, 0);
	NEVER("prctl PR_SET_PDEATHSIG", 0, SYS_prctl, 1, 0, 0, 0, 0, 0);
	NEVER("prctl PR_SET_PTRACER", 0, SYS_prctl, 0x59616d61, -1, 0, 0, 0, 0);
	NEVER("seccomp", B(2), SYS_seccomp, 1, 0, 512, 0, 0, 0);
	NEVER("prlimit64", B(2), SYS_prlimit64, 0, 7, 512, 0, 0, 0);
	NEVER("setuid", 0, SYS_setuid, 0, 0, 0, 0, 0, 0);
	NEVER("capset", B(0) | B(1), SYS_capset, 0, 64, 0, 0, 0, 0);
	NEVER("personality", 0, SYS_personality, 0x0400000, 0, 0, 0, 0, 0);
	NEVER("arch_prctl", 0, SYS_arch_prctl, 0x1011, 0, 0, 0, 0, 0);
	NEVER("modify_ldt", B(1), SYS_modify_ldt, 1, 0, 16, 0, 0, 0);
	NEVER("iopl", 0, SYS_iopl, 3, 0, 0, 0, 0, 0);
	NEVER("rt_sigaction", B(1), SYS_rt_sigaction, SIGSYS, 512, 0, 8, 0, 0);
	NEVER("rt_sigqueueinfo", B(2), SYS_rt_sigqueueinfo, 1, 9, 512, 0, 0, 0);
	NEVER("sync", 0, SYS_sync, 0, 0, 0, 0, 0, 0);
	NEVER("reboot", 0, SYS_reboot, 0xfee1dead, 672274793, 0, 0, 0, 0);
	NEVER("swapoff", B(0), SYS_swapoff, 0, 0, 0, 0, 0, 0);
	NEVER("sethostname", B(0), SYS_sethostname, 0, 4, 0, 0, 0, 0);
	NEVER("settimeofday", B(0), SYS_settimeofday, 0, 0, 0, 0, 0, 0);
	NEVER("futex FUTEX_LOCK_PI", B(0), SYS_futex, 512, FUTEX_LOCK_PI, 0, 0, 0, 0);
	NEVER("futex FUTEX_CMP_REQUEUE_PI", B(0), SYS_futex, 512, FUTEX_CMP_REQUEUE_PI, 0, 0, 512, 0);
	NEVER("splice", 0, SYS_splice, 0, 0, 1, 0, 1, 0);
	NEVER("sendfile", 0, SYS_sendfile, 1, 0, 0, 1, 0, 0);
	NEVER("memfd_secret", 0, SYS_memfd_secret, 0, 0, 0, 0, 0, 0);
	NEVER("memfd_create with huge pages", B(0), SYS_memfd_create, 0, 4, 0, 0, 0, 0);
	NEVER("landlock_create_ruleset", B(0), SYS_landlock_create_ruleset, 512, 8, 0, 0, 0, 0);
}

/* --- fds --- */

/* The mode of descriptor @fd, or of @name below it; 0: there is none. Fills the rest. */
static unsigned stat_of(int fd, unsigned name, unsigned flags, uint64_t *dev, uint64_t *ino)
{
	uint16_t mode;
	uint32_t major, minor;

	if (host(B(1) | B(4), SYS_statx, fd, name, flags | AT_SYMLINK_NOFOLLOW, 0x7ff, 4096, 0) != 0)
		return 0;
	memcpy(&mode, q.buf + 4096 + 28, 2);
	memcpy(ino, q.buf + 4096 + 32, 8);
	memcpy(&major, q.buf + 4096 + 136, 4);
	memcpy(&minor, q.buf + 4096 + 140, 4);
	*dev = (uint64_t)makedev(major, minor);
	return mode;
}

static void fds(void)
{
	uint64_t dev, ino;

	q.buf[0] = 0;
	for (int fd = 0; fd < 4096; fd++) {
		const unsigned mode = stat_of(fd, 0, AT_EMPTY_PATH, &dev, &ino);

		if (mode)
			printf("fd %d %o %lu %lu\n", fd, mode, (unsigned long)dev, (unsigned long)ino);
	}
}

/* --- open --- */

static long try_open(int dir, const char *path, uint64_t flags)
{
	const uint64_t how[3] = {flags | O_CLOEXEC, 0, 0};

	put(0, path, strlen(path) + 1);
	put(6000, how, sizeof(how));
	return host(B(1) | B(2), SYS_openat2, dir, 0, 6000, sizeof(how), 0, 0);
}

static void opened(const char *path, const char *how, long fd)
{
	uint64_t dev, ino, size = 1;

	if (q.refused || fd < 0)
		return;
	/* What lies over a secret has nothing in it. */
	q.buf[0] = 0;
	if (S_ISREG(stat_of((int)fd, 0, AT_EMPTY_PATH, &dev, &ino)))
		memcpy(&size, q.buf + 4096 + 40, sizeof(size));
	printf("%s %s %s\n", size ? "opened" : "empty", path, how);
	host(0, SYS_close, fd, 0, 0, 0, 0, 0);
}

static void open_one(const char *path)
{
	static const struct {
		const char *how;
		uint64_t flags;
	} ways[] = {{"to read", O_RDONLY | O_NONBLOCK}, {"to write", O_WRONLY | O_NONBLOCK}, {"as a path", O_PATH}};
	uint64_t dev, ino;
	char text[4096];

	for (unsigned w = 0; w < HOSTILE_COUNT(ways); w++) {
		/* From any descriptor an absolute name is the same. */
		opened(path, ways[w].how, try_open(3, path, ways[w].flags));
		for (int fd = 0; fd < 256; fd++) {
			char up[512] = "";

			q.buf[0] = 0;
			if (!S_ISDIR(stat_of(fd, 0, AT_EMPTY_PATH, &dev, &ino)))
				continue;
			for (unsigned n = 0; n < 24; n++)
				strcat(up, "../");
			snprintf(text, sizeof(text), "%s%s", up, path + 1);
			opened(path, ways[w].how, try_open(fd, text, ways[w].flags));
			/* By the magic links of /proc, if there is one. */
			snprintf(text, sizeof(text), "self/root%s", path);
			opened(path, ways[w].how, try_open(fd, text, ways[w].flags));
			snprintf(text, sizeof(text), "1/root%s", path);
			opened(path, ways[w].how, try_open(fd, text, ways[w].flags));
		}
	}
}

/* --- process --- */

static void reached(const char *what)
{
	if (!q.refused && q.result >= 0)
		printf("reached %s: %ld\n", what, (long)q.result);
}

static void process(uint64_t pid, uint64_t addr)
{
	uint64_t iov[4] = {0, 16, addr, 16};

	host(0, SYS_close, -1, 0, 0, 0, 0, 0);
	iov[0] = q.here + 2048;
	put(1024, iov, sizeof(iov));
	host(B(1) | B(3), SYS_process_vm_readv, pid, 1024, 1, 1024 + 16, 1, 0);
	reached("its memory, to read");
	host(B(1) | B(3), SYS_process_vm_writev, pid, 1024, 1, 1024 + 16, 1, 0);
	reached("its memory, to write");
	host(0, SYS_tgkill, pid, pid, 0, 0, 0, 0);
	reached("its threads, by tgkill");
	host(B(2), SYS_sched_setaffinity, pid, 8, 2048, 0, 0, 0);
	reached("its processors");
	host(0, SYS_ptrace, PTRACE_SEIZE, pid, 0, 0, 0, 0);
	reached("it, by ptrace");
	host(0, SYS_kill, pid, SIGKILL, 0, 0, 0, 0);
	reached("its life");
}

/* --- memory --- */

static void memory(void)
{
	for (unsigned prot = 0; prot < 8; prot++) {
		if (!(prot & PROT_EXEC))
			continue;
		NEVER("mmap for execution", 0, SYS_mmap, 0, 4096, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		NEVER("mprotect for execution", B(0), SYS_mprotect, 4096, 4096, prot, 0, 0, 0);
		q.in_text = B(0);
		NEVER("mprotect of the sentry's text", 0, SYS_mprotect, 0, 4096, prot, 0, 0, 0);
		NEVER("pkey_mprotect of the sentry's text", 0, SYS_pkey_mprotect, 0, 4096, prot, -1, 0, 0);
		q.in_text = 0;
	}
	q.in_text = B(0);
	NEVER("a mapping over the sentry's text", 0, SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE,
	      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	NEVER("remap_file_pages", 0, SYS_remap_file_pages, 0, 4096, 0, 0, 0, 0);
	NEVER("mseal", 0, 462, 0, 4096, 0, 0, 0, 0);
	NEVER("munlockall", 0, SYS_munlockall, 0, 0, 0, 0, 0, 0);
	q.in_text = 0;
}

int main(int argc, char **argv)
{
	hostile_begin();
	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "sweep"))
		sweep();
	else if (!strcmp(argv[1], "refused"))
		refused();
	else if (!strcmp(argv[1], "fds"))
		fds();
	else if (!strcmp(argv[1], "memory"))
		memory();
	else if (!strcmp(argv[1], "wait")) {
		puts("waits");
		getchar();
	} else if (!strcmp(argv[1], "process") && argc == 4)
		process(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 16));
	else if (!strcmp(argv[1], "open"))
		for (int i = 2; i < argc; i++)
			open_one(argv[i]);
	else
		return 2;
	puts("done");
	return 0;
}
