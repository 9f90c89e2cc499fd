/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder: calls of a guest on the mock platform, and the lines that are printed for them.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/lx_fcntl.h"
#include "base/lx_sock.h"
#include "tests/unit/kernel_env.h"

#define A GUEST_DATA
#define B (GUEST_DATA + 0x1000)
#define C (GUEST_DATA + 0x3000)
#define D (GUEST_DATA + 0x5000)

/* Runs @guest traced and compares its lines, without the pid, with @want; "…" in one stands for
 * anything. */
static void expect_lines(mock_fn *guest, const char *const *want)
{
	int fd = memfd_create("trace", 0);
	char *text = calloc(1, 1 << 20), *line, *save = NULL;

	cr_assert_geq(fd, 0);
	cr_assert_not_null(text);
	syscall_trace_open(fd);
	cr_expect_eq(kernel_env_run(guest, NULL), 0);
	cr_assert_gt(pread(fd, text, (1 << 20) - 1, 0), 0);
	line = strtok_r(text, "\n", &save);
	for (; *want && line; want++, line = strtok_r(NULL, "\n", &save)) {
		const char *dots = strstr(*want, "…"), *got;

		cr_assert_gt(strlen(line), 6);
		cr_expect_eq(line[5], ' ', "no pid in %s", line);
		got = line + 6;
		if (!dots) {
			cr_expect_str_eq(got, *want);
			continue;
		}
		size_t head = (size_t)(dots - *want), tail = strlen(dots + strlen("…"));
		cr_expect(strlen(got) >= head + tail && strncmp(got, *want, head) == 0 &&
				  strcmp(got + strlen(got) - tail, dots + strlen("…")) == 0,
			  "got  %s\nwant %s", got, *want);
	}
	cr_expect_null(*want, "missing: %s", *want);
	cr_expect(line && strncmp(line + 6, "exit_group(", 11) == 0, "too much: %s", line);
	free(text);
	close(fd);
}

static int files_guest(struct mock_thread *mt, void *arg UNUSED)
{
	const char bytes[] = "a\"b\\\n\t\r\1\0017\377 and so on, for more than is shown";
	const struct lx_iovec v[2] = {{B, 2}, {B + 3, 4}};
	const struct lx_timespec ts[2] = {{1, 2}, {0, 0x3ffffffe}};
	const struct lx_flock fl = {.l_type = LX_F_WRLCK, .l_whence = 1, .l_start = 3, .l_len = -1};
	const uint64_t how[3] = {LX_O_RDWR | LX_O_CREAT, 0600, 8};

	SYS(mt, openat, -100, put_str(mt, A, "/tmp/f"), LX_O_CREAT | LX_O_RDWR | LX_O_CLOEXEC,
	    0640);
	SYS(mt, open, A, LX_O_RDONLY, 12345);
	SYS(mt, open, put_str(mt, C, "/none"), LX_O_WRONLY | 0x40000000);
	SYS(mt, open, GUEST_BAD, 0);
	SYS(mt, write, 0, put_mem(mt, B, bytes, sizeof(bytes)), sizeof(bytes) - 1);
	SYS(mt, pread64, 0, C, 100, 1);
	SYS(mt, read, 77, C, 100);
	SYS(mt, readv, 0, 0, 0);
	SYS(mt, writev, 0, put_mem(mt, C, v, sizeof(v)), 2);
	SYS(mt, preadv, 0, C, 2, 0, 0);
	SYS(mt, lseek, 0, -1, 2);
	SYS(mt, fstat, 0, C);
	SYS(mt, fcntl, 0, LX_F_GETFL, 12345);
	SYS(mt, fcntl, 0, LX_F_SETFD, 1);
	SYS(mt, fcntl, 0, LX_F_SETFL, LX_O_APPEND | LX_O_NONBLOCK);
	SYS(mt, fcntl, 0, LX_F_SETLK, put_mem(mt, C, &fl, sizeof(fl)));
	SYS(mt, fcntl, 0, 4711, 5);
	SYS(mt, openat2, -100, A, put_mem(mt, C, how, sizeof(how)), sizeof(how));
	SYS(mt, pipe2, C, LX_O_CLOEXEC);
	SYS(mt, utimensat, -100, A, put_mem(mt, C, ts, sizeof(ts)), LX_AT_SYMLINK_NOFOLLOW);
	SYS(mt, mknod, put_str(mt, C, "/tmp/n"), LX_S_IFCHR | 0600, 0x103);
	SYS(mt, unlinkat, -100, C, 0);
	SYS(mt, chown, A, 5, -1);
	SYS(mt, umask, 077);
	SYS(mt, faccessat2, -100, A, 6, LX_AT_EACCESS);
	SYS(mt, ioctl, 0, 0x5401, 0x1234);
	SYS(mt, ioctl, 0, 0xabcd, 0);
	return 0;
}

Test(syscall_trace, files)
{
	static const char *const want[] = {
		"openat(AT_FDCWD, \"/tmp/f\", O_RDWR|O_CREAT|O_CLOEXEC, 0640) = 0",
		"open(\"/tmp/f\", O_RDONLY) = 1",
		"open(\"/none\", O_WRONLY|0x40000000) = -1 ENOENT (No such file or directory)",
		"open(0x666000, O_RDONLY) = -1 EFAULT (Bad address)",
		"write(0, \"a\\\"b\\\\\\n\\t\\r\\1\\0017\\377 and so on, for more \"..., 45) = 45",
		"pread64(0, \"\\\"b\\\\\\n\\t\\r\\1\\0017\\377 and so on, for more t\"..., 100, 1) "
		"= 44",
		"read(77, 0x10003000, 100) = -1 EBADF (Bad file descriptor)",
		"readv(0, NULL, 0) = 0",
		"writev(0, [{iov_base=\"a\\\"\", iov_len=2}, {iov_base=\"\\\\\\n\\t\\r\", "
		"iov_len=4}], 2) = 6",
		"preadv(0, [{iov_base=\"a\\\"\", iov_len=2}, {iov_base=\"b\\\\\\n\\t\", "
		"iov_len=4}], 2, 0, 0) = 6",
		"lseek(0, -1, SEEK_END) = 50",
		"fstat(0, {st_mode=S_IFREG|0640, st_size=51, ...}) = 0",
		"fcntl(0, F_GETFL) = 32770",
		"fcntl(0, F_SETFD, FD_CLOEXEC) = 0",
		"fcntl(0, F_SETFL, O_RDONLY|O_APPEND|O_NONBLOCK) = 0",
		"fcntl(0, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_CUR, l_start=3, l_len=-1}) = 0",
		"fcntl(0, 4711, 5) = -1 EINVAL (Invalid argument)",
		"openat2(AT_FDCWD, \"/tmp/f\", {flags=O_RDWR|O_CREAT, mode=0600, "
		"resolve=RESOLVE_BENEATH}, 24) = -1 EXDEV (Invalid cross-device link)",
		"pipe2([2, 3], O_CLOEXEC) = 0",
		"utimensat(AT_FDCWD, \"/tmp/f\", [{tv_sec=1, tv_nsec=2}, {tv_sec=0, "
		"tv_nsec=UTIME_OMIT}], AT_SYMLINK_NOFOLLOW) = 0",
		"mknod(\"/tmp/n\", S_IFCHR|0600, makedev(0x1, 0x3)) = 0",
		"unlinkat(AT_FDCWD, \"/tmp/n\", 0) = 0",
		"chown(\"/tmp/f\", 5, -1) = 0",
		"umask(077) = 022",
		"faccessat2(AT_FDCWD, \"/tmp/f\", R_OK|W_OK, AT_EACCESS) = 0",
		"ioctl(0, TCGETS, 0x1234) = -1 ENOTTY (Inappropriate ioctl for device)",
		"ioctl(0, 0xabcd, NULL) = -1 ENOTTY (Inappropriate ioctl for device)",
		NULL,
	};

	expect_lines(files_guest, want);
}

static int others_guest(struct mock_thread *mt, void *arg UNUSED)
{
	const struct lx_sigaction sa = {.handler = 1,
					.flags = LX_SA_RESTART,
					.mask = sigbit(LX_SIGINT) | sigbit(LX_SIGHUP)};
	const struct {
		int32_t fd;
		int16_t events, revents;
	} pfd[2] = {{0, LX_POLLIN, 0}, {1, LX_POLLOUT, 0}};
	const struct lx_sockaddr_un un = {LX_AF_UNIX, "/tmp/sock"};
	const uint64_t limit[2] = {64, UINT64_MAX}, set = 3;
	const struct lx_iovec v = {B, 5};
	struct lx_msghdr mh = {.msg_iov = D, .msg_iovlen = 1};

	SYS(mt, mmap, 0, 8192, 3, 0x22, -1, 0);
	SYS(mt, mprotect, 0x1000, 4096, 0);
	SYS(mt, rt_sigaction, LX_SIGUSR1, put_mem(mt, C, &sa, sizeof(sa)), D, 8);
	SYS(mt, rt_sigprocmask, 2, put_mem(mt, C, &(uint64_t){~(uint64_t)0}, 8), 0, 8);
	SYS(mt, rt_sigprocmask, 2, put_mem(mt, C, &(uint64_t){0}, 8), 0, 8);
	SYS(mt, kill, 4000000, LX_SIGTERM);
	SYS(mt, pipe, C);
	SYS(mt, poll, put_mem(mt, C, pfd, sizeof(pfd)), 2, 0);
	SYS(mt, select, 2, put_mem(mt, C, &set, 8), put_mem(mt, D, &set, 8), 0, 0);
	SYS(mt, setrlimit, LX_RLIMIT_NOFILE, put_mem(mt, C, limit, sizeof(limit)));
	SYS(mt, socket, 1, 1 | LX_O_CLOEXEC, 0);
	SYS(mt, bind, 2, put_mem(mt, C, &un, sizeof(un)), 12);
	SYS(mt, getsockname, 2, B, put_mem(mt, D, &(uint32_t){110}, 4));
	SYS(mt, setsockopt, 2, 1, 7, put_mem(mt, C, &(uint32_t){4096}, 4), 4);
	SYS(mt, socketpair, 1, 1, 0, C);
	put_str(mt, B, "hello");
	put_mem(mt, D, &v, sizeof(v));
	SYS(mt, sendmsg, 3, put_mem(mt, C, &mh, sizeof(mh)), LX_MSG_NOSIGNAL);
	SYS(mt, recvmsg, 4, C, LX_MSG_DONTWAIT);
	SYS(mt, futex, A, 1 | 128, 5);
	SYS(mt, clock_gettime, 77, C);
	SYS(mt, wait4, -1, C, 1, 0);
	SYS(mt, epoll_create1, LX_O_CLOEXEC);
	SYS(mt, reboot, 0xfee1dead, 0, 0, 0);
	mock_syscall(mt, 400, 1, 2, 0, 0, 0, 0);
	SYS(mt, getpid);
	return 0;
}

Test(syscall_trace, others)
{
	static const char *const want[] = {
		"mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x…",
		"mprotect(0x1000, 4096, 0) = -1 ENOMEM (Cannot allocate memory)",
		"rt_sigaction(SIGUSR1, {sa_handler=SIG_IGN, sa_mask=[HUP INT], "
		"sa_flags=SA_RESTART}, "
		"{sa_handler=SIG_DFL, sa_mask=[], sa_flags=0}, 8) = 0",
		"rt_sigprocmask(SIG_SETMASK, ~[], NULL, 8) = 0",
		"rt_sigprocmask(SIG_SETMASK, [], NULL, 8) = 0",
		"kill(4000000, SIGTERM) = -1 ESRCH (No such process)",
		"pipe([0, 1]) = 0",
		"poll([{fd=0, events=POLLIN}, {fd=1, events=POLLOUT}] => [{fd=0, events=POLLIN}, "
		"{fd=1, events=POLLOUT, revents=POLLOUT}], 2, 0) = 1",
		"select(2, [0 1] => [], [0 1] => [1], NULL, NULL) = 1",
		"setrlimit(RLIMIT_NOFILE, {rlim_cur=64, rlim_max=RLIM64_INFINITY}) = …",
		"socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0) = 2",
		"bind(2, {sa_family=AF_UNIX, sun_path=\"/tmp/sock\"}, 12) = 0",
		"getsockname(2, {sa_family=AF_UNIX, sun_path=\"/tmp/sock\"}, [110] => [12]) = 0",
		"setsockopt(2, SOL_SOCKET, SO_SNDBUF, \"\\0\\20\\0\\0\", 4) = 0",
		"socketpair(AF_UNIX, SOCK_STREAM, 0, [3, 4]) = 0",
		"sendmsg(3, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base=\"hello\", "
		"iov_len=5}], "
		"msg_iovlen=1, msg_controllen=0, msg_flags=0}, MSG_NOSIGNAL) = 5",
		"recvmsg(4, {msg_name=NULL, msg_namelen=0, msg_iov=[{iov_base=\"hello\", "
		"iov_len=5}], "
		"msg_iovlen=1, msg_controllen=0, msg_flags=0}, MSG_DONTWAIT) = 5",
		"futex(0x10000000, FUTEX_WAKE|FUTEX_PRIVATE_FLAG, 0x5, 0, NULL, 0) = 0",
		"clock_gettime(77, 0x10003000) = -1 EINVAL (Invalid argument)",
		"wait4(-1, 0x10003000, WNOHANG, NULL) = -1 ECHILD (No child processes)",
		"epoll_create1(O_CLOEXEC) = 5",
		"reboot(0xfee1dead, 0, 0, NULL) = -1 EPERM (Operation not permitted)",
		"syscall_0x190(0x1, 0x2, 0, 0, 0, 0) = -1 ENOSYS (Function not implemented)",
		"getpid() = …",
		NULL,
	};

	expect_lines(others_guest, want);
}

/* Nothing that a guest passes may hurt the decoder: all numbers, with pointers of all sorts. */
static int hostile_guest(struct mock_thread *mt, void *arg UNUSED)
{
	static const uint64_t values[] = {0,
					  1,
					  GUEST_BAD,
					  GUEST_DATA + GUEST_DATA_SIZE - 3,
					  ~(uint64_t)0,
					  (uint64_t)1 << 63,
					  0x7fffffff,
					  GUEST_DATA};
	/* Those that end the program or sleep. */
	static const unsigned not [] = {NR_exit,
					NR_exit_group,
					NR_pause,
					NR_rt_sigreturn,
					NR_vfork,
					NR_fork,
					NR_clone,
					NR_clone3,
					NR_execve,
					NR_execveat,
					NR_kill,
					NR_tkill,
					NR_tgkill,
					NR_rt_sigsuspend,
					NR_rt_sigtimedwait,
					NR_alarm,
					NR_setitimer,
					NR_nanosleep,
					NR_clock_nanosleep,
					NR_poll,
					NR_ppoll,
					NR_select,
					NR_pselect6,
					NR_munmap,
					NR_mprotect,
					NR_mremap,
					NR_mmap,
					NR_brk,
					NR_setrlimit,
					NR_prlimit64,
					NR_timer_settime,
					NR_timer_create,
					NR_rt_sigqueueinfo,
					NR_rt_tgsigqueueinfo,
					NR_pidfd_send_signal,
					NR_futex,
					NR_futex_wait,
					NR_futex_waitv,
					NR_sigaltstack,
					NR_madvise,
					NR_pkey_mprotect,
					NR_shmat,
					NR_mseal,
					NR_remap_file_pages};

	for (unsigned i = 0; i < GUEST_DATA_SIZE; i += 4096)
		put_mem(mt, GUEST_DATA + i, "\1\2\3\4", 4);
	for (unsigned nr = 0; nr < SYSCALL_MAX; nr++) {
		bool skip = false;

		for (size_t i = 0; i < ARRAY_SIZE(not ); i++)
			skip |= not [i] == nr;
		for (size_t i = 0; !skip && i < ARRAY_SIZE(values); i++)
			mock_syscall(mt, nr, values[i], values[(i + 1) % 8], values[(i + 3) % 8],
				     values[(i + 5) % 8], values[(i + 6) % 8], values[(i + 7) % 8]);
	}
	return 0;
}

Test(syscall_trace, hostile_arguments)
{
	int fd = memfd_create("trace", 0);

	syscall_trace_open(fd);
	cr_expect_eq(kernel_env_run(hostile_guest, NULL), 0);
	cr_expect_gt(lseek(fd, 0, SEEK_END), 100000);
	close(fd);
}
