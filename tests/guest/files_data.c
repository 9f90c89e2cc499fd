/* SPDX-License-Identifier: Apache-2.0 */

/* File contents: offsets, vectors, truncation, allocation, holes, copies, sync, limits. */
#include "guest.h"
#include <linux/falloc.h>
#include <sys/resource.h>
#include <sys/sendfile.h>

static int fd;

static void show(const char *what)
{
	struct stat st;
	char text[64];
	ssize_t n;

	fstat(fd, &st);
	n = pread(fd, text, sizeof(text) - 1, 0);
	printf("%s: size %ld '", what, (long)st.st_size);
	for (ssize_t i = 0; i < n; i++)
		putchar(text[i] >= ' ' ? text[i] : '.');
	printf("'\n");
}

static void offsets(void)
{
	char a[4], b[8];
	struct iovec v[3] = {{a, 3}, {b, 5}, {NULL, 0}};

	P("offsets and vectors");
	V(write(fd, "0123456789", 10));
	V(lseek(fd, -3, SEEK_END));
	V(read(fd, a, 4));
	V(read(fd, a, 4));
	V(lseek(fd, -1, SEEK_SET));
	V(lseek(fd, 0, 77));
	V(lseek(fd, LONG_MAX, SEEK_SET) == LONG_MAX || errno == EINVAL);
	V(lseek(fd, 100, SEEK_SET));
	V(read(fd, a, 1));
	V(write(fd, "x", 1));
	show("gap");
	V(pread(fd, a, 4, -1));
	V(pwrite(fd, a, 4, -1));
	V(pread(fd, a, 4, 1000));
	V(lseek(fd, 2, SEEK_SET));
	V(readv(fd, v, 3));
	printf("%.3s %.5s\n", a, b);
	V(readv(fd, v, 0));
	V(readv(fd, v, -1));
	V(readv(fd, v, 1025));
	V(readv(fd, (struct iovec *)8, 1));
	v[1].iov_len = (size_t)-1;
	V(readv(fd, v, 2));
	v[1].iov_len = 5;
	v[1].iov_base = (void *)8;
	V(preadv(fd, v, 2, 0));
	V(pwritev(fd, v, 1, 0));
	V(preadv(fd, v, 1, -1));
	V(preadv2(fd, v, 1, 0, RWF_HIPRI | 0x40000000));
	V(preadv2(fd, v, 1, -1, 0));
	V(pwritev2(fd, v, 1, 0, RWF_APPEND));
	V(lseek(fd, 0, SEEK_END));
	V(pwritev2(fd, v, 1, 0, RWF_DSYNC));
	V(preadv2(fd, v, 1, 0, RWF_NOWAIT) == 3 || errno == EAGAIN || errno == EOPNOTSUPP);
	V(read(fd, (void *)8, 1));
	V(read(fd, (void *)8, 0));
	V(write(fd, (void *)8, 1));
	V(write(fd, (void *)8, 0));
	V(read(fd, a, SIZE_MAX));
	V(read(999, a, 1));
	V(read(open(".", O_RDONLY), a, 1));
	V(pread(open(".", O_RDONLY), a, 1, 0));
}

static void truncation(void)
{
	int ro = open("f", O_RDONLY);

	P("truncate");
	V(ftruncate(fd, 5));
	show("cut");
	V(ftruncate(fd, 12));
	show("grown");
	V(ftruncate(fd, -1));
	V(ftruncate(ro, 1));
	V(ftruncate(999, 1));
	V(truncate("f", 3));
	show("by name");
	V(truncate("none", 3));
	V(truncate(".", 3));
	V(truncate("f", -3));
	V(truncate("f", 1l << 40));
	V(lseek(fd, 0, SEEK_END));
	V(pwrite(fd, "end", 3, (1l << 40) - 3));
	V(truncate("f", 0));
	struct stat st;

	V(fstat(fd, &st));
	printf("blocks %ld\n", (long)st.st_blocks);
	mode_t m[2];

	V(fchmod(fd, 06755));
	fstat(fd, &st);
	m[0] = st.st_mode;
	V(write(fd, "x", 1));
	fstat(fd, &st);
	m[1] = st.st_mode;
	printf("mode %o, after a write as root %o\n", m[0], m[1]);
	V(fchmod(fd, 0644));
}

static void allocation(void)
{
	struct stat st;
	char block[4096];
	off_t p;

	P("fallocate and holes");
	memset(block, 'd', sizeof(block));
	V(ftruncate(fd, 0));
	V(fallocate(fd, 0, 0, 16384));
	V(fstat(fd, &st));
	printf("size %ld allocated %d\n", (long)st.st_size, st.st_blocks >= 32);
	V(fallocate(fd, FALLOC_FL_KEEP_SIZE, 16384, 16384));
	V(fstat(fd, &st));
	printf("size %ld\n", (long)st.st_size);
	V(fallocate(fd, 0, -1, 10));
	V(fallocate(fd, 0, 0, 0));
	V(fallocate(fd, 0, 0, -1));
	V(fallocate(fd, 0x4000, 0, 10));
	V(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10));
	V(fallocate(999, 0, 0, 10));
	V(fallocate(open("f", O_RDONLY), 0, 0, 10));
	V(ftruncate(fd, 0));
	for (int i = 0; i < 8; i++)
		if (pwrite(fd, block, 4096, i * 4096) != 4096)
			P("short");
	V(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 8192));
	V(pread(fd, block, 4096, 8192));
	printf("%d\n", block[0]);
	V(lseek(fd, 0, SEEK_HOLE));
	V(lseek(fd, 8192, SEEK_DATA));
	V(lseek(fd, 9000, SEEK_DATA));
	V(lseek(fd, 100, SEEK_DATA));
	V(lseek(fd, 20000, SEEK_HOLE));
	V(lseek(fd, 32768, SEEK_HOLE));
	V(lseek(fd, 32768, SEEK_DATA));
	V(lseek(fd, -1, SEEK_DATA));
	V(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 200));
	V(pread(fd, block, 400, 0));
	printf("%c %d %d %c\n", block[99], block[100], block[299], block[300]);
	V(ftruncate(fd, 1 << 20));
	p = lseek(fd, 40000, SEEK_DATA);
	printf("no data at the end: %ld %s\n", (long)p, guest_errno(errno));
	V(posix_fallocate(fd, 0, 2 << 20));
	V(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	V(posix_fadvise(fd, 0, 0, 77));
	V(posix_fadvise(fd, 0, -1, POSIX_FADV_NORMAL));
	V(posix_fadvise(999, 0, 0, POSIX_FADV_NORMAL));
	V(readahead(fd, 0, 4096));
	V(readahead(999, 0, 4096));
	V(fsync(fd));
	V(fdatasync(fd));
	V(sync_file_range(fd, 0, 4096, SYNC_FILE_RANGE_WRITE));
	V(sync_file_range(fd, -1, 4096, SYNC_FILE_RANGE_WRITE));
	V(syncfs(fd));
	V(fsync(999));
}

static void copies(void)
{
	int out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0600), app, p[2];
	char text[32] = "";
	off_t in_off = 2, out_off = 1;

	P("copy_file_range and sendfile");
	V(ftruncate(fd, 0));
	V(pwrite(fd, "0123456789", 10, 0));
	V(lseek(fd, 0, SEEK_SET));
	V(copy_file_range(fd, NULL, out, NULL, 4, 0));
	V(lseek(fd, 0, SEEK_CUR));
	V(copy_file_range(fd, &in_off, out, &out_off, 100, 0));
	printf("offsets %ld %ld\n", (long)in_off, (long)out_off);
	V(pread(out, text, 31, 0));
	printf("%s\n", text);
	V(copy_file_range(fd, &in_off, out, &out_off, 100, 0));
	V(copy_file_range(fd, NULL, out, NULL, 4, 1));
	in_off = out_off = 0;
	V(copy_file_range(fd, &in_off, fd, &out_off, 4, 0));
	out_off = 20;
	V(copy_file_range(fd, &in_off, fd, &out_off, 4, 0));
	V(copy_file_range(999, NULL, out, NULL, 4, 0));
	V(copy_file_range(open("f", O_WRONLY), NULL, out, NULL, 4, 0));
	V(copy_file_range(out, NULL, open("f", O_RDONLY), NULL, 4, 0));
	app = open("out", O_WRONLY | O_APPEND);
	V(copy_file_range(fd, NULL, app, NULL, 4, 0));
	V(pipe(p));
	V(copy_file_range(fd, NULL, p[1], NULL, 4, 0));
	V(copy_file_range(open(".", O_RDONLY), NULL, out, NULL, 4, 0));
	in_off = 3;
	V(sendfile(p[1], fd, &in_off, 5));
	V(read(p[0], text, 31));
	printf("%.5s %ld\n", text, (long)in_off);
	V(lseek(fd, 0, SEEK_SET));
	V(sendfile(out, fd, NULL, 100));
	V(sendfile(out, fd, NULL, 100));
	V(sendfile(out, p[0], NULL, 1));
	V(sendfile(999, fd, NULL, 1));
	V(sendfile(out, 999, NULL, 1));
	V(sendfile(app, fd, &in_off, 1));
	in_off = -1;
	V(sendfile(out, fd, &in_off, 1));
	V(sendfile(out, fd, (off_t *)8, 1));
}

/* Where offsets and counts lead nowhere, and which of several errors it is. */
static void far_copies(void)
{
	static const off_t at[] = {-100, -1, 3, INT64_MAX};
	static const size_t counts[] = {0, 5, INT64_MAX, SIZE_MAX};
	int out = open("out", O_RDWR), reads = open("out", O_RDONLY), p[2];

	P("copies from and to far away");
	V(pipe2(p, O_NONBLOCK));
	for (unsigned i = 0; i < sizeof(at) / sizeof(*at) * 4; i++) {
		const size_t count = counts[i % 4];
		off_t off = at[i / 4], zero = 0;

		printf("at %ld for %zu\n", (long)off, count);
		V(copy_file_range(fd, &off, out, &zero, count, 0));
		zero = 0;
		off = at[i / 4];
		V(copy_file_range(fd, &zero, fd, &off, count, 0));
		off = at[i / 4];
		V(splice(p[0], NULL, out, &off, count, SPLICE_F_NONBLOCK));
		V(splice(fd, &off, p[1], NULL, count, SPLICE_F_NONBLOCK));
		V(read(p[0], &(char[64]){0}, 64));
		off = at[i / 4];
		if (off < 0 || count > 5)
			V(sendfile(reads, fd, &off, count));
	}
}

static void limits(void)
{
	struct rlimit lim = {8192, 8192};
	pid_t pid;

	P("RLIMIT_FSIZE");
	pid = guest_fork();
	if (!pid) {
		V(setrlimit(RLIMIT_FSIZE, &lim));
		V(ftruncate(fd, 0));
		V(pwrite(fd, "0123456789", 10, 8190));
		signal(SIGXFSZ, SIG_IGN);
		V(pwrite(fd, "x", 1, 8192));
		V(ftruncate(fd, 8193));
		V(fallocate(fd, 0, 0, 10000));
		signal(SIGXFSZ, SIG_DFL);
		V(pwrite(fd, "x", 1, 10000));
		_exit(0);
	}
	guest_wait("limited", pid);
}

static void written_by_four(int fd)
{
	fflush(stdout);
	for (int i = 0; i < 4; i++)
		if (!fork()) {
			for (int k = 0; k < 500; k++)
				if (write(fd, "0123456789abcdef", 16) != 16)
					_exit(1);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
}

static void descriptions(void)
{
	int a, b;
	pid_t pid;

	P("shared offsets");
	V(ftruncate(fd, 0));
	V(pwrite(fd, "abcdefghij", 10, 0));
	a = open("f", O_RDWR);
	b = dup(a);
	char c = 0;

	V(lseek(a, 3, SEEK_SET));
	V(lseek(b, 0, SEEK_CUR));
	pid = guest_fork();
	if (!pid) {
		lseek(a, 7, SEEK_SET);
		_exit(0);
	}
	guest_wait("child seeks", pid);
	V(read(b, &c, 1));
	printf("%c\n", c);
	/* O_APPEND writers in several processes lose nothing. */
	int app = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);

	written_by_four(app);
	V(lseek(app, 0, SEEK_END));
	/* And so with one shared description and no O_APPEND. */
	app = open("log2", O_WRONLY | O_CREAT, 0600);
	written_by_four(app);
	V(lseek(app, 0, SEEK_CUR));
}

int main(void)
{
	guest_begin();
	fd = open("f", O_RDWR | O_CREAT, 0644);
	offsets();
	truncation();
	allocation();
	copies();
	far_copies();
	limits();
	descriptions();
	return 0;
}
