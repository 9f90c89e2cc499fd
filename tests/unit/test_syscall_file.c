/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File syscalls of a guest on the mock platform: what they do, what they refuse, and which error
 * comes first.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include "base/lx_fcntl.h"
#include "base/lx_sock.h"
#include "tests/unit/kernel_env.h"

#define A GUEST_DATA            /* names */
#define B (GUEST_DATA + 0x1000) /* buffers */
#define C (GUEST_DATA + 0x3000) /* structs */
#define D (GUEST_DATA + 0x5000)

#define RUN(name) GUEST_TEST(syscall_file, name)

RUN(unknown_and_refused)
{
	struct syscall_stats before, after, reboot_before, reboot_after;

	syscall_stats(SYSCALL_MAX, &before);
	syscall_stats(169, &reboot_before);
	IS(mock_syscall(mt, 100000, 0, 0, 0, 0, 0, 0), -ENOSYS);
	IS(mock_syscall(mt, 0x40000000, 0, 0, 0, 0, 0, 0), -ENOSYS); /* x32's read */
	IS(mock_syscall(mt, 400, 0, 0, 0, 0, 0, 0), -ENOSYS);
	syscall_stats(SYSCALL_MAX, &after);
	cr_expect_eq(after.calls, before.calls + 2);
	cr_expect_eq(after.nosys, before.nosys + 2);
	IS(SYS(mt, reboot, 0xfee1dead, 672274793, 0x1234567), -EPERM);
	syscall_stats(169, &reboot_after);
	cr_expect_eq(reboot_after.nosys, reboot_before.nosys + 1);
	IS(SYS(mt, _sysctl), -ENOSYS);
	/* Only the low half of rax is the number. */
	IS(mock_syscall(mt, (long)(0xffff00000000ull | NR_getpid), 0, 0, 0, 0, 0, 0),
	   SYS(mt, getpid));
	return 0;
}

RUN(read_and_write)
{
	long fd;

	put_str(mt, A, "/tmp/f");
	fd = SYS(mt, open, A, LX_O_CREAT | LX_O_RDWR | LX_O_EXCL, 0640);
	IS(fd, 0);
	IS(SYS(mt, open, A, LX_O_CREAT | LX_O_EXCL, 0640), -EEXIST);
	put_str(mt, B, "hello, world");
	IS(SYS(mt, write, fd, B, 12), 12);
	IS(SYS(mt, lseek, fd, 0, 0), 0);
	IS(SYS(mt, read, fd, C, 100), 12);
	cr_expect(same_mem(mt, C, "hello, world", 12));
	IS(SYS(mt, read, fd, C, 100), 0);
	IS(SYS(mt, pread64, fd, C, 5, 7), 5);
	cr_expect(same_mem(mt, C, "world", 5));
	IS(SYS(mt, pwrite64, fd, B, 2, 20), 2);
	IS(SYS(mt, lseek, fd, 0, 2), 22);
	IS(SYS(mt, pread64, fd, C, 1, -1), -EINVAL);
	IS(SYS(mt, pread64, 99, C, 1, -1), -EINVAL); /* the offset is looked at first */
	IS(SYS(mt, lseek, fd, -1, 0), -EINVAL);
	IS(SYS(mt, lseek, fd, 0, 9), -EINVAL);
	/* Bad memory. */
	IS(SYS(mt, write, fd, GUEST_BAD, 1), -EFAULT);
	IS(SYS(mt, pread64, fd, GUEST_BAD, 1, 0), -EFAULT);
	IS(SYS(mt, write, fd, GUEST_BAD, 0), 0);
	IS(SYS(mt, read, 99, GUEST_BAD, 1), -EBADF);
	IS(SYS(mt, write, fd, (uint64_t)-4096, 1), -EFAULT);
	IS(SYS(mt, write, fd, B, UINT64_MAX), -EFAULT);
	IS(SYS(mt, write, fd, GUEST_DATA + GUEST_DATA_SIZE - 2, 10), 2);
	IS(SYS(mt, close, fd), 0);
	IS(SYS(mt, close, fd), -EBADF);
	/* Modes. */
	fd = SYS(mt, open, A, LX_O_WRONLY);
	IS(SYS(mt, read, fd, B, 1), -EBADF);
	IS(SYS(mt, read, fd, (uint64_t)-4096, 1), -EBADF);
	fd = SYS(mt, open, A, LX_O_PATH);
	IS(SYS(mt, read, fd, B, 1), -EBADF);
	IS(SYS(mt, lseek, fd, 0, 0), -EBADF);
	put_str(mt, A, "/tmp");
	fd = SYS(mt, open, A, LX_O_RDONLY);
	IS(SYS(mt, read, fd, B, 1), -EISDIR);
	IS(SYS(mt, open, A, LX_O_RDWR), -EISDIR);
	return 0;
}

RUN(vectors)
{
	const struct lx_iovec v[3] = {{B, 3}, {B + 100, 0}, {B + 200, 4}};
	const struct lx_iovec faults[2] = {{B, 3}, {GUEST_BAD, 4}}, huge = {B, UINT64_MAX};
	long fd;

	make_file(mt, "/tmp/f", "abcdefghij");
	fd = SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_RDWR);
	put_mem(mt, C, v, sizeof(v));
	IS(SYS(mt, readv, fd, C, 3), 7);
	cr_expect(same_mem(mt, B, "abc", 3) && same_mem(mt, B + 200, "defg", 4));
	IS(SYS(mt, preadv, fd, C, 3, 8, 0), 2);
	IS(SYS(mt, preadv, fd, C, 3, -1, 0), -EINVAL);
	IS(SYS(mt, preadv2, fd, C, 3, -1, 0, 0), 3); /* -1: the file's offset */
	IS(SYS(mt, preadv2, fd, C, 3, 0, 0, 0x4000), -EOPNOTSUPP);
	IS(SYS(mt, pwritev2, fd, C, 3, 0, 0, 16), 7); /* RWF_APPEND */
	IS(SYS(mt, lseek, fd, 0, 2), 17);
	IS(SYS(mt, readv, fd, C, 1025), -EINVAL);
	IS(SYS(mt, readv, fd, C, (uint64_t)-1), -EINVAL);
	IS(SYS(mt, readv, fd, GUEST_BAD, 1), -EFAULT);
	IS(SYS(mt, readv, fd, GUEST_BAD, 0), 0);
	put_mem(mt, C, faults, sizeof(faults));
	IS(SYS(mt, preadv, fd, C, 2, 0, 0), 3); /* what could be moved */
	put_mem(mt, C, &huge, sizeof(huge));
	IS(SYS(mt, writev, fd, C, 1), -EINVAL);
	return 0;
}

RUN(opening)
{
	struct {
		uint64_t flags, mode, resolve, more;
	} how = {LX_O_RDONLY, 0, 0, 0};
	long dir;

	make_file(mt, "/tmp/f", "x");
	put_str(mt, A, "/tmp/f");
	IS(SYS(mt, open, 0, 0), -EFAULT);
	IS(SYS(mt, open, GUEST_BAD, 0), -EFAULT);
	IS(SYS(mt, open, put_str(mt, B, ""), 0), -ENOENT);
	IS(SYS(mt, openat, 77, B, 0), -ENOENT); /* the name is looked at first */
	IS(SYS(mt, openat, 77, A, 0), 0);       /* absolute: the descriptor is not */
	IS(SYS(mt, openat, 77, A + 1, 0), -EBADF);
	IS(SYS(mt, openat, 0, A + 1, 0), -ENOTDIR);
	IS(SYS(mt, openat, -100, A + 1, 0), 1);
	/* A name without its end. */
	for (unsigned i = 0; i < 5000; i++)
		put_mem(mt, D + i, "a", 1);
	IS(SYS(mt, open, D, 0), -ENAMETOOLONG);
	put_mem(mt, GUEST_DATA + GUEST_DATA_SIZE - 3, "aaa", 3);
	IS(SYS(mt, open, GUEST_DATA + GUEST_DATA_SIZE - 3, 0), -EFAULT);
	/* What open ignores and openat2 does not. */
	IS(SYS(mt, open, A, 0x40000000), 2);
	put_mem(mt, C, &how, sizeof(how));
	IS(SYS(mt, openat2, -100, A, C, 24), 3);
	IS(SYS(mt, openat2, -100, A, C, 32), 4);
	IS(SYS(mt, openat2, -100, A, C, 23), -EINVAL);
	IS(SYS(mt, openat2, -100, A, C, 4097), -E2BIG);
	IS(SYS(mt, openat2, -100, A, GUEST_BAD, 24), -EFAULT);
	how.more = 1;
	put_mem(mt, C, &how, sizeof(how));
	IS(SYS(mt, openat2, -100, A, C, 32), -E2BIG);
	how.flags = 0x40000000;
	put_mem(mt, C, &how, sizeof(how));
	IS(SYS(mt, openat2, -100, A, C, 24), -EINVAL);
	how.flags = 0;
	how.mode = 0600;
	put_mem(mt, C, &how, sizeof(how));
	IS(SYS(mt, openat2, -100, A, C, 24), -EINVAL);
	how.mode = 0;
	how.resolve = 8 | 16;
	put_mem(mt, C, &how, sizeof(how));
	IS(SYS(mt, openat2, -100, A, C, 24), -EINVAL);
	how.resolve = 16; /* RESOLVE_IN_ROOT */
	put_mem(mt, C, &how, sizeof(how));
	dir = SYS(mt, open, put_str(mt, B, "/tmp"), LX_O_PATH);
	IS(SYS(mt, openat2, dir, put_str(mt, B, "/f"), C, 24), dir + 1);
	IS(SYS(mt, open, put_str(mt, B, "/tmp"), LX_O_DIRECTORY | LX_O_CREAT, 0600), -EINVAL);
	IS(SYS(mt, open, B, LX_O_TMPFILE, 0600), -EINVAL); /* not for writing */
	IS(SYS(mt, open, B, LX_O_TMPFILE | LX_O_RDWR, 0600), dir + 2);
	IS(SYS(mt, fcntl, 0, LX_F_GETFL), LX_O_LARGEFILE);
	IS(SYS(mt, fcntl, dir, LX_F_GETFL), LX_O_PATH);
	return 0;
}

RUN(no_descriptor_is_lost)
{
	struct lx_rlimit64 one = {1, 1};

	put_str(mt, A, "/tmp/none");
	IS(SYS(mt, open, A, 0), -ENOENT);
	IS(SYS(mt, pipe2, GUEST_BAD, 0), -EFAULT);
	IS(SYS(mt, pipe2, C, 1), -EINVAL);
	IS(SYS(mt, open, put_str(mt, A, "/tmp"), 0), 0);
	IS(SYS(mt, close, 0), 0);
	put_mem(mt, C, &one, sizeof(one));
	IS(SYS(mt, setrlimit, LX_RLIMIT_NOFILE, C), 0);
	IS(SYS(mt, pipe, D), -EMFILE);
	IS(SYS(mt, open, A, 0), 0); /* the pipe gave its first back */
	IS(SYS(mt, open, A, 0), -EMFILE);
	IS(SYS(mt, open, put_str(mt, A, "/none"), 0), -EMFILE); /* before the name is walked */
	IS(SYS(mt, open, GUEST_BAD, 0), -EFAULT);               /* but not before it is read */
	IS(SYS(mt, dup, 0), -EMFILE);
	IS(SYS(mt, dup2, 0, 1), -EBADF);
	IS(SYS(mt, fcntl, 0, LX_F_DUPFD, 1), -EINVAL);
	return 0;
}

RUN(duplicates)
{
	long fd;

	make_file(mt, "/tmp/f", "0123456789");
	fd = SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_RDONLY | LX_O_CLOEXEC);
	IS(SYS(mt, dup, fd), 1);
	IS(SYS(mt, fcntl, fd, LX_F_GETFD), 1);
	IS(SYS(mt, fcntl, 1, LX_F_GETFD), 0);
	IS(SYS(mt, lseek, fd, 5, 0), 5);
	IS(SYS(mt, lseek, 1, 0, 1), 5); /* one description */
	IS(SYS(mt, dup2, fd, fd), fd);
	IS(SYS(mt, fcntl, fd, LX_F_GETFD), 1); /* untouched */
	IS(SYS(mt, dup2, 50, 50), -EBADF);
	IS(SYS(mt, dup3, fd, fd, 0), -EINVAL);
	IS(SYS(mt, dup3, fd, 7, 1), -EINVAL);
	IS(SYS(mt, dup3, fd, 7, LX_O_CLOEXEC), 7);
	IS(SYS(mt, fcntl, 7, LX_F_GETFD), 1);
	IS(SYS(mt, fcntl, fd, LX_F_DUPFD, 20), 20);
	IS(SYS(mt, fcntl, fd, LX_F_DUPFD_CLOEXEC, 20), 21);
	IS(SYS(mt, fcntl, fd, LX_F_DUPFD, (uint64_t)-1), -EINVAL);
	IS(SYS(mt, fcntl, fd, LX_F_DUPFD_QUERY, 20), 1);
	IS(SYS(mt, fcntl, fd, LX_F_DUPFD_QUERY, 99), -EBADF);
	IS(SYS(mt, close_range, 20, 19, 0), -EINVAL);
	IS(SYS(mt, close_range, 20, 21, 1), -EINVAL);
	IS(SYS(mt, close_range, 1, ~0u, 4), 0); /* CLOEXEC */
	IS(SYS(mt, fcntl, 20, LX_F_GETFD), 1);
	IS(SYS(mt, close_range, 7, ~0u, 2), 0); /* UNSHARE */
	IS(SYS(mt, fcntl, 20, LX_F_GETFD), -EBADF);
	IS(SYS(mt, fcntl, 1, LX_F_GETFD), 1);
	return 0;
}

RUN(fcntl_commands)
{
	struct lx_flock fl = {.l_type = LX_F_WRLCK};
	struct {
		int32_t type, pid;
	} own = {2, 0};
	long fd, path, pid = SYS(mt, getpid), pgrp = SYS(mt, getpgrp);

	fd = SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_CREAT | LX_O_RDWR, 0644);
	path = SYS(mt, open, A, LX_O_PATH);
	IS(SYS(mt, fcntl, fd, 4711), -EINVAL);
	IS(SYS(mt, fcntl, 99, 4711), -EBADF);
	IS(SYS(mt, fcntl, path, 4711), -EBADF);
	IS(SYS(mt, fcntl, path, LX_F_GETFD), 0);
	IS(SYS(mt, fcntl, fd, LX_F_SETFL, LX_O_APPEND | LX_O_NONBLOCK | LX_O_TRUNC | LX_O_WRONLY),
	   0);
	IS(SYS(mt, fcntl, fd, LX_F_GETFL),
	   LX_O_APPEND | LX_O_NONBLOCK | LX_O_RDWR | LX_O_LARGEFILE);
	IS(SYS(mt, fcntl, fd, LX_F_SETFL, 0), 0);
	/* Owners of signals. */
	IS(SYS(mt, fcntl, fd, LX_F_GETOWN), 0);
	IS(SYS(mt, fcntl, fd, LX_F_SETOWN, 4000000), -ESRCH);
	IS(SYS(mt, fcntl, fd, LX_F_SETOWN, 0x80000000u), -EINVAL);
	IS(SYS(mt, fcntl, fd, LX_F_SETOWN, pid), 0);
	IS(SYS(mt, fcntl, fd, LX_F_GETOWN), pid);
	IS(SYS(mt, fcntl, fd, LX_F_SETOWN, -pgrp), 0);
	IS((int)SYS(mt, fcntl, fd, LX_F_GETOWN), -pgrp);
	IS(SYS(mt, fcntl, fd, LX_F_GETOWN_EX, C), 0);
	IS(get_u32(mt, C), 2);
	IS(SYS(mt, fcntl, fd, LX_F_SETOWN_EX, put_mem(mt, C, &own, sizeof(own))), 0);
	own.type = 3;
	IS(SYS(mt, fcntl, fd, LX_F_SETOWN_EX, put_mem(mt, C, &own, sizeof(own))), -EINVAL);
	IS(SYS(mt, fcntl, fd, LX_F_SETSIG, 65), -EINVAL);
	IS(SYS(mt, fcntl, fd, LX_F_SETSIG, 40), 0);
	IS(SYS(mt, fcntl, fd, LX_F_GETSIG), 40);
	/* Locks, pipes' sizes, seals, hints. */
	IS(SYS(mt, fcntl, fd, LX_F_SETLK, GUEST_BAD), -EFAULT);
	IS(SYS(mt, fcntl, fd, LX_F_SETLK, put_mem(mt, C, &fl, sizeof(fl))), 0);
	fl.l_type = 9;
	IS(SYS(mt, fcntl, fd, LX_F_SETLK, put_mem(mt, C, &fl, sizeof(fl))), -EINVAL);
	IS(SYS(mt, fcntl, fd, LX_F_GETPIPE_SZ), -EBADF);
	IS(SYS(mt, fcntl, fd, LX_F_GETLEASE), 2);
	IS(SYS(mt, fcntl, fd, LX_F_SETLEASE, LX_F_RDLCK), -EAGAIN);
	IS(SYS(mt, fcntl, fd, LX_F_NOTIFY, 1), -ENOTDIR);
	IS(SYS(mt, fcntl, fd, LX_F_GET_RW_HINT, C), 0);
	put_mem(mt, C, &(uint64_t){6}, 8);
	IS(SYS(mt, fcntl, fd, LX_F_SET_RW_HINT, C), -EINVAL);
	IS(SYS(mt, flock, fd, 0), -EINVAL);
	IS(SYS(mt, flock, 99, 0), -EINVAL);
	IS(SYS(mt, flock, 99, LX_LOCK_SH), -EBADF);
	IS(SYS(mt, flock, fd, LX_LOCK_EX | LX_LOCK_NB), 0);
	IS(SYS(mt, pipe2, C, LX_O_CLOEXEC), 0);
	IS(SYS(mt, fcntl, get_u32(mt, C), LX_F_GETPIPE_SZ), 65536);
	IS(SYS(mt, fcntl, get_u32(mt, C), LX_F_SETPIPE_SZ, 5000), 8192);
	IS(SYS(mt, memfd_create, put_str(mt, B, "m"), 0x800), -EINVAL);
	fd = SYS(mt, memfd_create, B, 3);
	IS(SYS(mt, fcntl, fd, LX_F_ADD_SEALS, 2), 0);
	IS(SYS(mt, fcntl, fd, LX_F_GET_SEALS), 2);
	return 0;
}

RUN(ioctls)
{
	uint32_t one = 1;
	long fd;

	make_file(mt, "/tmp/f", "0123456789");
	fd = SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_RDONLY);
	IS(SYS(mt, ioctl, 99, LX_FIOCLEX), -EBADF);
	IS(SYS(mt, ioctl, fd, LX_FIOCLEX), 0);
	IS(SYS(mt, fcntl, fd, LX_F_GETFD), 1);
	IS(SYS(mt, ioctl, fd, LX_FIONCLEX), 0);
	IS(SYS(mt, fcntl, fd, LX_F_GETFD), 0);
	IS(SYS(mt, lseek, fd, 3, 0), 3);
	IS(SYS(mt, ioctl, fd, LX_FIONREAD, C), 0);
	IS(get_u32(mt, C), 7);
	IS(SYS(mt, ioctl, fd, LX_FIOQSIZE, C), 0);
	IS(get_u64(mt, C), 10);
	IS(SYS(mt, ioctl, fd, LX_FIONBIO, GUEST_BAD), -EFAULT);
	IS(SYS(mt, ioctl, fd, LX_FIONBIO, put_mem(mt, C, &one, 4)), 0);
	IS(SYS(mt, fcntl, fd, LX_F_GETFL), LX_O_NONBLOCK | LX_O_LARGEFILE);
	IS(SYS(mt, ioctl, fd, LX_FIOASYNC, C), -ENOTTY);
	IS(SYS(mt, ioctl, fd, 0x5401, C), -ENOTTY); /* TCGETS */
	fd = SYS(mt, open, put_str(mt, A, "/tmp"), LX_O_RDONLY);
	IS(SYS(mt, ioctl, fd, LX_FIONREAD, C), -ENOTTY);
	return 0;
}

/* Behind the name of the entry at @at, @len bytes of zeros: nothing of the sentry's. */
static void expect_no_rest(struct mock_thread *mt, uint64_t at, size_t len)
{
	char entry[64];
	size_t end;

	cr_assert_leq(len, sizeof(entry));
	mock_load(mt, entry, at, len);
	end = 19 + strnlen(entry + 19, len - 19);
	cr_expect_lt(end, len);
	for (; end < len; end++)
		cr_expect_eq(entry[end], 0);
}

RUN(directories)
{
	uint64_t seen = 0, at;
	char name[32];
	long fd, n;

	IS(SYS(mt, mkdir, put_str(mt, A, "/tmp/d"), 0755), 0);
	IS(SYS(mt, mkdir, A, 0755), -EEXIST);
	IS(SYS(mt, mkdirat, 99, put_str(mt, B, "x"), 0755), -EBADF);
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "/tmp/d/f%02d", i);
		make_file(mt, name, "");
	}
	fd = SYS(mt, open, A, LX_O_RDONLY | LX_O_DIRECTORY);
	IS(SYS(mt, getdents64, fd, B, 10), -EINVAL);
	IS(SYS(mt, getdents64, 99, B, 10), -EBADF);
	IS(SYS(mt, getdents64, fd, GUEST_BAD, 4096), -EFAULT);
	mallopt(M_PERTURB, 0x5a); /* fresh memory is full of something */
	while ((n = SYS(mt, getdents64, fd, B, 200)) > 0) {
		for (at = B; at < B + (uint64_t)n;) {
			uint16_t len;
			uint8_t type;

			mock_load(mt, &len, at + 16, sizeof(len));
			mock_load(mt, &type, at + 18, sizeof(type));
			mock_load(mt, name, at + 19, 8);
			cr_expect_eq(len % 8, 0);
			expect_no_rest(mt, at, len);
			if (name[0] == 'f') {
				cr_expect_eq(type, LX_DT_REG);
				seen |= (uint64_t)1 << ((name[1] - '0') * 10 + name[2] - '0');
			}
			at += len;
		}
	}
	mallopt(M_PERTURB, 0);
	IS(n, 0);
	cr_expect_eq(seen, ((uint64_t)1 << 40) - 1, "%lx", (unsigned long)seen);
	/* The old form: the type comes last. */
	IS(SYS(mt, lseek, fd, 0, 0), 0);
	n = SYS(mt, getdents, fd, B, 200);
	cr_expect_gt(n, 0);
	uint16_t len;
	uint8_t type;
	mock_load(mt, &len, B + 16, sizeof(len));
	mock_load(mt, &type, B + len - 1, sizeof(type));
	IS(type, LX_DT_DIR);
	fd = SYS(mt, open, put_str(mt, B, "/tmp/d/f00"), LX_O_RDONLY);
	IS(SYS(mt, getdents64, fd, B, 200), -ENOTDIR);
	IS(SYS(mt, rmdir, A), -ENOTEMPTY);
	IS(SYS(mt, unlink, A), -EISDIR);
	IS(SYS(mt, unlinkat, -100, A, 1), -EINVAL);
	IS(SYS(mt, rmdir, put_str(mt, B, "/tmp/d/f00")), -ENOTDIR);
	/* Where one is. */
	IS(SYS(mt, chdir, B), -ENOTDIR);
	IS(SYS(mt, chdir, A), 0);
	IS(SYS(mt, getcwd, C, 4096), 7);
	cr_expect(same_mem(mt, C, "/tmp/d", 7));
	IS(SYS(mt, getcwd, C, 6), -ERANGE);
	IS(SYS(mt, getcwd, GUEST_BAD, 4096), -EFAULT);
	IS(SYS(mt, fchdir, fd), -ENOTDIR);
	IS(SYS(mt, fchdir, 99), -EBADF);
	IS(SYS(mt, umask, 0777), 022);
	IS(SYS(mt, umask, 0xfffff), 0777);
	IS(SYS(mt, umask, 022), 0777);
	return 0;
}

RUN(names)
{
	IS(SYS(mt, symlink, put_str(mt, A, ""), put_str(mt, B, "/tmp/s")), -ENOENT);
	IS(SYS(mt, symlink, put_str(mt, A, "target"), B), 0);
	IS(SYS(mt, symlink, A, B), -EEXIST);
	IS(SYS(mt, readlink, B, C, 0), -EINVAL);
	IS(SYS(mt, readlink, GUEST_BAD, C, -1), -EINVAL);
	IS(SYS(mt, readlink, B, C, 100), 6);
	cr_expect(same_mem(mt, C, "target", 6));
	IS(SYS(mt, readlink, B, C, 3), 3);
	IS(SYS(mt, readlink, B, GUEST_BAD, 3), -EFAULT);
	IS(SYS(mt, readlink, put_str(mt, A, "/tmp"), C, 3), -EINVAL);
	/* An O_PATH descriptor of the link itself, read by an empty name. */
	long link = SYS(mt, open, B, LX_O_PATH | LX_O_NOFOLLOW);
	IS(SYS(mt, readlinkat, link, put_str(mt, A, ""), C, 100), 6);
	long dir = SYS(mt, open, put_str(mt, D, "/tmp"), LX_O_PATH);
	IS(SYS(mt, readlinkat, dir, A, C, 100), -ENOENT);
	/* Links and renames. */
	make_file(mt, "/tmp/f", "x");
	put_str(mt, A, "/tmp/f");
	IS(SYS(mt, link, A, put_str(mt, B, "/tmp/g")), 0);
	IS(SYS(mt, linkat, -100, A, -100, B, 1), -EINVAL);
	IS(SYS(mt, link, A, B), -EEXIST);
	IS(SYS(mt, rename, A, put_str(mt, B, "/tmp/h")), 0);
	IS(SYS(mt, renameat2, -100, B, -100, A, 8), -EINVAL);
	IS(SYS(mt, renameat2, -100, B, -100, A, 3), -EINVAL);
	IS(SYS(mt, renameat2, -100, GUEST_BAD, -100, A, 8), -EINVAL);
	IS(SYS(mt, renameat2, -100, B, -100, put_str(mt, A, "/tmp/g"), 1), -EEXIST);
	IS(SYS(mt, rename, GUEST_BAD, A), -EFAULT);
	IS(SYS(mt, renameat, 99, put_str(mt, C, "x"), -100, A), -EBADF);
	/* Nodes. */
	IS(SYS(mt, mknod, put_str(mt, A, "/tmp/n"), LX_S_IFDIR | 0755, 0), -EPERM);
	IS(SYS(mt, mknod, A, LX_S_IFLNK | 0755, 0), -EINVAL);
	IS(SYS(mt, mknod, A, 0644, 0), 0);
	IS(SYS(mt, mknod, put_str(mt, A, "/tmp/c"), LX_S_IFCHR | 0644, 0x103), 0);
	IS(SYS(mt, stat, A, C), 0);
	IS(get_u64(mt, C + offsetof(struct lx_stat, st_rdev)), lx_makedev(1, 3));
	return 0;
}

RUN(attributes)
{
	const struct lx_timespec omit[2] = {{0, 0x3ffffffe}, {0, 0x3ffffffe}}, bad = {0, -5};
	struct lx_timespec ts[2] = {{1000, 500}, {2000, 0}};
	struct lx_stat st;
	long fd, path;

	make_file(mt, "/tmp/f", "12345");
	put_str(mt, A, "/tmp/f");
	fd = SYS(mt, open, A, LX_O_RDWR);
	IS(SYS(mt, fstat, fd, C), 0);
	mock_load(mt, &st, C, sizeof(st));
	IS(st.st_size, 5);
	IS(st.st_mode, LX_S_IFREG | 0644);
	IS(SYS(mt, fstat, fd, GUEST_BAD), -EFAULT);
	IS(SYS(mt, newfstatat, fd, put_str(mt, B, ""), C, LX_AT_EMPTY_PATH), 0);
	IS(SYS(mt, newfstatat, fd, 0, C, LX_AT_EMPTY_PATH), 0);
	IS(SYS(mt, newfstatat, fd, B, C, 0), -ENOENT);
	IS(SYS(mt, newfstatat, fd, B, C, 0x10000), -EINVAL);
	IS(SYS(mt, newfstatat, 99, B, C, LX_AT_EMPTY_PATH), -EBADF);
	IS(SYS(mt, statx, fd, B, LX_AT_EMPTY_PATH, 0x7ff, C), 0);
	IS(get_u64(mt, C + 40), 5);
	IS(SYS(mt, statx, fd, B, LX_AT_EMPTY_PATH, 0x80000000u, C), -EINVAL);
	IS(SYS(mt, statx, fd, B, 0x6000, 0, C), -EINVAL);
	IS(SYS(mt, chmod, A, 0106755), 0);
	IS(SYS(mt, stat, A, C), 0);
	mock_load(mt, &st, C, sizeof(st));
	IS(st.st_mode, LX_S_IFREG | 06755);
	IS(SYS(mt, fchmodat2, -100, A, 0600, 1), -EINVAL);
	IS(SYS(mt, symlink, A, put_str(mt, B, "/tmp/s")), 0);
	IS(SYS(mt, fchmodat2, -100, B, 0600, LX_AT_SYMLINK_NOFOLLOW), -EOPNOTSUPP);
	path = SYS(mt, open, A, LX_O_PATH);
	IS(SYS(mt, fchmod, path, 0600), -EBADF);
	IS(SYS(mt, chown, A, 10, -1), 0);
	IS(SYS(mt, fchownat, -100, A, 10, 10, 1), -EINVAL);
	IS(SYS(mt, access, A, 8), -EINVAL);
	IS(SYS(mt, access, A, 6), 0);
	IS(SYS(mt, faccessat2, -100, A, 0, 0x1), -EINVAL);
	/* Times. */
	IS(SYS(mt, utimensat, -100, A, put_mem(mt, C, ts, sizeof(ts)), 0), 0);
	IS(SYS(mt, stat, A, D), 0);
	mock_load(mt, &st, D, sizeof(st));
	IS(st.st_atim.tv_sec, 1000);
	IS(st.st_atim.tv_nsec, 500);
	IS(st.st_mtim.tv_sec, 2000);
	IS(SYS(mt, utimensat, 99, GUEST_BAD, put_mem(mt, C, omit, sizeof(omit)), 0x7777), 0);
	ts[0] = bad;
	IS(SYS(mt, utimensat, -100, A, put_mem(mt, C, ts, sizeof(ts)), 0), -EINVAL);
	IS(SYS(mt, utimensat, -100, 0, 0, 0), -EFAULT);
	IS(SYS(mt, utimensat, fd, 0, 0, 0), 0);
	IS(SYS(mt, utimensat, fd, 0, 0, 0x100), -EINVAL);
	IS(SYS(mt, utimensat, 99, 0, 0, 0), -EBADF);
	IS(SYS(mt, futimesat, -100, A, put_mem(mt, C, &(int64_t[4]){0, 1000000, 0, 0}, 32)),
	   -EINVAL);
	/* Size. */
	IS(SYS(mt, truncate, A, -1), -EINVAL);
	IS(SYS(mt, truncate, A, 3), 0);
	IS(SYS(mt, ftruncate, fd, 1000), 0);
	IS(SYS(mt, ftruncate, 99, -1), -EINVAL);
	IS(SYS(mt, truncate, put_str(mt, B, "/tmp"), 3), -EISDIR);
	IS(SYS(mt, statfs, A, C), 0);
	IS(get_u64(mt, C), 0x01021994);
	IS(SYS(mt, ustat, 0, C), -EINVAL);
	return 0;
}

RUN(extended_attributes)
{
	struct {
		uint64_t value;
		uint32_t size, flags;
	} args = {B, 5, 0};

	make_file(mt, "/tmp/f", "x");
	put_str(mt, A, "/tmp/f");
	put_str(mt, B, "value");
	put_str(mt, D, "user.x");
	IS(SYS(mt, setxattr, A, D, B, 5, 4), -EINVAL);
	IS(SYS(mt, setxattr, A, put_str(mt, C, ""), B, 5, 0), -ERANGE);
	IS(SYS(mt, setxattr, A, D, B, 65537, 0), -E2BIG);
	IS(SYS(mt, setxattr, A, D, GUEST_BAD, 5, 0), -EFAULT);
	IS(SYS(mt, setxattr, A, D, B, 5, LX_XATTR_REPLACE), -ENODATA);
	IS(SYS(mt, setxattr, A, D, B, 5, LX_XATTR_CREATE), 0);
	IS(SYS(mt, setxattr, A, D, B, 5, LX_XATTR_CREATE), -EEXIST);
	IS(SYS(mt, getxattr, A, D, 0, 0), 5);
	IS(SYS(mt, getxattr, A, D, C, 4), -ERANGE);
	IS(SYS(mt, getxattr, A, D, C, 100), 5);
	cr_expect(same_mem(mt, C, "value", 5));
	IS(SYS(mt, getxattr, A, D, GUEST_BAD, 100), -EFAULT);
	IS(SYS(mt, listxattr, A, C, 100), 7);
	IS(SYS(mt, getxattrat, -100, A, 0, D, put_mem(mt, C, &args, sizeof(args)), 16), 5);
	IS(SYS(mt, getxattrat, -100, A, 1, D, C, 16), -EINVAL);
	IS(SYS(mt, getxattrat, -100, A, 0, D, C, 15), -EINVAL);
	IS(SYS(mt, setxattrat, -100, A, 0, D, C, 16), 0);
	IS(SYS(mt, listxattrat, -100, A, 0, C, 100), 7);
	IS(SYS(mt, removexattrat, -100, A, 0, D), 0);
	IS(SYS(mt, removexattr, A, D), -ENODATA);
	IS(SYS(mt, fremovexattr, 99, D), -EBADF);
	return 0;
}
