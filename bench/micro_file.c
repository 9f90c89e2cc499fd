/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro-operations: who am I, what time is it, and everything about files.
 */
#include "bench/micro.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* --- Identity and time ------------------------------------------------------------------------ */

/* kind is the system call's number; it takes no argument. */
static int run_plain(struct bench *b, const struct op *op, uint64_t n)
{
	(void)b;
	while (n-- > 0)
		if (syscall(op->kind) < 0)
			return -1;
	return 0;
}

static int run_clock(struct bench *b, const struct op *op, uint64_t n)
{
	struct timespec ts;

	(void)b, (void)op;
	while (n-- > 0)
		if (clock_gettime(CLOCK_MONOTONIC, &ts) != 0)
			return -1;
	return 0;
}

static int run_clock_raw(struct bench *b, const struct op *op, uint64_t n)
{
	struct timespec ts;

	(void)b, (void)op;
	while (n-- > 0)
		if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts) != 0)
			return -1;
	return 0;
}

const struct op g_identity_ops[] = {
	{.name = "getpid", .run = run_plain, .kind = SYS_getpid},
	{.name = "gettid", .run = run_plain, .kind = SYS_gettid},
	{.name = "clock_vdso", .run = run_clock},
	{.name = "clock_raw", .run = run_clock_raw},
	{.name = NULL},
};

/* --- Reading and writing ---------------------------------------------------------------------- */

enum file_kind { FILE_NULL, FILE_ZERO, FILE_TMPFS, FILE_ROOTFS };

static const char *work_path(struct bench *b, const char *name)
{
	snprintf(b->path, sizeof(b->path), "%s/%s", b->dir, name);
	return b->path;
}

/* A file of BUF_SIZE bytes on the tmpfs, at b->path. */
static int tmpfs_file(struct bench *b)
{
	int fd = open(work_path(b, "file"), O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd >= 0 && write(fd, b->buf, BUF_SIZE) != BUF_SIZE) {
		close(fd);
		return -1;
	}
	return fd;
}

static int prepare_file(struct bench *b, const struct op *op)
{
	b->path[0] = '\0';
	switch ((enum file_kind)op->kind) {
	case FILE_NULL:
		b->fd[0] = open("/dev/null", O_RDWR);
		break;
	case FILE_ZERO:
		b->fd[0] = open("/dev/zero", O_RDWR);
		break;
	case FILE_TMPFS:
		b->fd[0] = tmpfs_file(b);
		break;
	case FILE_ROOTFS:
		b->fd[0] = open(b->rootfs, O_RDONLY);
		break;
	}
	return b->fd[0] < 0 ? -1 : 0;
}

static int cleanup_file(struct bench *b, const struct op *op)
{
	if (b->fd[0] < 0)
		return -1;
	close(b->fd[0]);
	return op->kind == FILE_TMPFS ? unlink(b->path) : 0;
}

/* A call that moved fewer bytes than asked for measured something else. */
static int moved(ssize_t got, ssize_t wanted)
{
	if (got == wanted)
		return 0;
	if (got >= 0)
		errno = EIO;
	return -1;
}

static int run_read(struct bench *b, const struct op *op, uint64_t n)
{
	ssize_t wanted = op->kind == FILE_NULL ? 0 : op->size;

	while (n-- > 0)
		if (moved(read(b->fd[0], b->buf, (size_t)op->size), wanted) != 0)
			return -1;
	return 0;
}

static int run_write(struct bench *b, const struct op *op, uint64_t n)
{
	while (n-- > 0)
		if (moved(write(b->fd[0], b->buf, (size_t)op->size), op->size) != 0)
			return -1;
	return 0;
}

static int run_pread(struct bench *b, const struct op *op, uint64_t n)
{
	while (n-- > 0)
		if (moved(pread(b->fd[0], b->buf, (size_t)op->size, 0), op->size) != 0)
			return -1;
	return 0;
}

static int run_pwrite(struct bench *b, const struct op *op, uint64_t n)
{
	while (n-- > 0)
		if (moved(pwrite(b->fd[0], b->buf, (size_t)op->size, 0), op->size) != 0)
			return -1;
	return 0;
}

static int prepare_sendfile(struct bench *b, const struct op *op)
{
	b->fd[1] = open("/dev/null", O_WRONLY);
	if (b->fd[1] < 0)
		return -1;
	return prepare_file(b, op);
}

static int run_sendfile(struct bench *b, const struct op *op, uint64_t n)
{
	while (n-- > 0) {
		off_t at = 0;

		if (moved(sendfile(b->fd[1], b->fd[0], &at, (size_t)op->size), op->size) != 0)
			return -1;
	}
	return 0;
}

static int cleanup_sendfile(struct bench *b, const struct op *op)
{
	close(b->fd[1]);
	return cleanup_file(b, op);
}

/* --- Descriptors ------------------------------------------------------------------------------ */

static int prepare_lseek(struct bench *b, const struct op *op)
{
	if (prepare_file(b, op) != 0)
		return -1;
	/* Two descriptors of one description: no short cut for one that nobody shares. */
	b->fd[1] = dup(b->fd[0]);
	return b->fd[1] < 0 ? -1 : 0;
}

static int run_lseek(struct bench *b, const struct op *op, uint64_t n)
{
	(void)op;
	while (n-- > 0)
		if (lseek(b->fd[1], 0, SEEK_SET) != 0)
			return -1;
	return 0;
}

static int cleanup_lseek(struct bench *b, const struct op *op)
{
	close(b->fd[1]);
	return cleanup_file(b, op);
}

static int run_dup(struct bench *b, const struct op *op, uint64_t n)
{
	(void)op;
	while (n-- > 0) {
		int fd = dup(b->fd[0]);

		if (fd < 0 || close(fd) != 0)
			return -1;
	}
	return 0;
}

/* --- Names ------------------------------------------------------------------------------------ */

static const char *named_file(struct bench *b, const struct op *op)
{
	return op->kind == FILE_TMPFS ? b->path : b->rootfs;
}

static int run_open(struct bench *b, const struct op *op, uint64_t n)
{
	const char *path = named_file(b, op);

	while (n-- > 0) {
		int fd = open(path, O_RDONLY);

		if (fd < 0 || close(fd) != 0)
			return -1;
	}
	return 0;
}

static int run_stat(struct bench *b, const struct op *op, uint64_t n)
{
	const char *path = named_file(b, op);
	struct stat st;

	while (n-- > 0)
		if (stat(path, &st) != 0)
			return -1;
	return 0;
}

static int run_fstat(struct bench *b, const struct op *op, uint64_t n)
{
	struct stat st;

	(void)op;
	while (n-- > 0)
		if (fstat(b->fd[0], &st) != 0)
			return -1;
	return 0;
}

static int prepare_create(struct bench *b, const struct op *op)
{
	(void)op;
	work_path(b, "new");
	return 0;
}

static int run_create(struct bench *b, const struct op *op, uint64_t n)
{
	(void)op;
	while (n-- > 0) {
		int fd = open(b->path, O_RDWR | O_CREAT | O_EXCL, 0600);

		if (fd < 0 || close(fd) != 0 || unlink(b->path) != 0)
			return -1;
	}
	return 0;
}

/* --- Directories ------------------------------------------------------------------------------ */

int files_make(const char *dir, long count)
{
	char path[600];

	if (mkdir(dir, 0700) != 0)
		return -1;
	for (long i = 0; i < count; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%ld", dir, i);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0 || close(fd) != 0)
			return -1;
	}
	return 0;
}

int files_remove(const char *dir, long count)
{
	char path[600];

	for (long i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%ld", dir, i);
		if (unlink(path) != 0 && errno != ENOENT)
			return -1;
	}
	return rmdir(dir);
}

static int prepare_dir(struct bench *b, const struct op *op)
{
	if (files_make(work_path(b, "many"), op->size) != 0)
		return -1;
	b->fd[0] = open(b->path, O_RDONLY | O_DIRECTORY);
	return b->fd[0] < 0 ? -1 : 0;
}

/* One operation is one whole listing. */
static int run_getdents(struct bench *b, const struct op *op, uint64_t n)
{
	(void)op;
	while (n-- > 0) {
		long got;

		if (lseek(b->fd[0], 0, SEEK_SET) != 0)
			return -1;
		do {
			got = syscall(SYS_getdents64, b->fd[0], b->buf, 32 * KIB);
		} while (got > 0);
		if (got < 0)
			return -1;
	}
	return 0;
}

static int cleanup_dir(struct bench *b, const struct op *op)
{
	close(b->fd[0]);
	return files_remove(b->path, op->size);
}

#define FILE_OP(what, fn, file, bytes)                                                     \
	{                                                                                  \
		.name = what, .prepare = prepare_file, .run = fn, .cleanup = cleanup_file, \
		.kind = file, .size = bytes                                                \
	}
#define FILE_OPS(what, fn, file)                                                 \
	FILE_OP(what "_1", fn, file, 1), FILE_OP(what "_4k", fn, file, 4 * KIB), \
		FILE_OP(what "_64k", fn, file, 64 * KIB)

const struct op g_file_ops[] = {
	FILE_OPS("read_null", run_read, FILE_NULL),
	FILE_OPS("write_null", run_write, FILE_NULL),
	FILE_OPS("read_zero", run_read, FILE_ZERO),
	FILE_OPS("write_zero", run_write, FILE_ZERO),
	FILE_OPS("pread_tmpfs", run_pread, FILE_TMPFS),
	FILE_OPS("pwrite_tmpfs", run_pwrite, FILE_TMPFS),
	FILE_OPS("pread_rootfs", run_pread, FILE_ROOTFS),
	{.name = "sendfile_4k",
	 .prepare = prepare_sendfile,
	 .run = run_sendfile,
	 .cleanup = cleanup_sendfile,
	 .kind = FILE_ROOTFS,
	 .size = 4 * KIB},
	{.name = "sendfile_64k",
	 .prepare = prepare_sendfile,
	 .run = run_sendfile,
	 .cleanup = cleanup_sendfile,
	 .kind = FILE_ROOTFS,
	 .size = 64 * KIB},
	{.name = "lseek",
	 .prepare = prepare_lseek,
	 .run = run_lseek,
	 .cleanup = cleanup_lseek,
	 .kind = FILE_TMPFS},
	FILE_OP("dup_close", run_dup, FILE_NULL, 0),
	FILE_OP("open_close_rootfs", run_open, FILE_ROOTFS, 0),
	FILE_OP("open_close_tmpfs", run_open, FILE_TMPFS, 0),
	FILE_OP("stat_rootfs", run_stat, FILE_ROOTFS, 0),
	FILE_OP("stat_tmpfs", run_stat, FILE_TMPFS, 0),
	FILE_OP("fstat", run_fstat, FILE_TMPFS, 0),
	{.name = "getdents_1000",
	 .prepare = prepare_dir,
	 .run = run_getdents,
	 .cleanup = cleanup_dir,
	 .size = 1000},
	{.name = "create_unlink", .prepare = prepare_create, .run = run_create},
	{.name = NULL},
};
