/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that a platform may answer in the guest: each is what the kernel would have answered, and
 * has done what it would have done, before and after something changes. See answers.c for "hot" and
 * "cold".
 */
#include "hot_cold.h"
#include <limits.h>
#include <stdatomic.h>
#include <sys/inotify.h>
#include <sys/uio.h>

#define PAGE 4096
#define SIZE (40 * PAGE + 100)
#define WARM 700

static char g_dir[64], g_name[96], g_other[96];
static unsigned char *g_buf; /* two pages, a third that may only be read, nothing */

static long hot_read(int fd, void *buf, size_t size, long pos)
{
	return hot(SYS_pread64, fd, (long)buf, (long)size, pos, 0, 0);
}

static long cold_read(int fd, void *buf, size_t size, long pos)
{
	return g_cold(SYS_pread64, fd, (long)buf, (long)size, pos, 0, 0);
}

static unsigned char byte_of(size_t at)
{
	return (unsigned char)(at / 97 + at);
}

static int make(const char *name, int add)
{
	static unsigned char all[SIZE];
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	for (size_t i = 0; i < SIZE; i++)
		all[i] = (unsigned char)(byte_of(i) + add);
	if (fd < 0 || write(fd, all, SIZE) != SIZE)
		exit(1);
	/* Times of files are those of the last tick. */
	usleep(10000);
	return fd;
}

/* As often as it takes until nobody asks any more. */
static void warm(int fd, long pos)
{
	unsigned char buf[PAGE];

	for (int i = 0; i < WARM; i++)
		hot_read(fd, buf, sizeof(buf), pos);
}

/* The same by both: what is told, and what is there. */
static void same_at(const char *name, int fd, long at, size_t size, long pos)
{
	static unsigned char was[3 * PAGE];
	unsigned char *to = g_buf + at;
	const size_t shown = at < 0 ? 0 : (size_t)(2 * PAGE - at);
	long want, got;

	memset(g_buf, 0x55, 2 * PAGE);
	want = cold_read(fd, to, size, pos);
	memcpy(was, g_buf, 2 * PAGE);
	for (int i = 0; i < 3; i++) {
		memset(g_buf, 0x55, 2 * PAGE);
		got = hot_read(fd, to, size, pos);
		if (got != want || memcmp(was, g_buf, 2 * PAGE))
			break;
	}
	(void)shown;
	if (got == want && !memcmp(was, g_buf, 2 * PAGE))
		printf("%s: same, %ld\n", name, want);
	else
		printf("%s: DIFFERENT, %ld for %ld\n", name, got, want);
}

static void same(const char *name, int fd, size_t size, long pos)
{
	same_at(name, fd, 0, size, pos);
}

static void arguments(const char *what, int fd, long end)
{
	printf("-- %s\n", what);
	warm(fd, 0);
	same("a page", fd, PAGE, 0);
	same("a byte", fd, 1, 17);
	same("odd", fd, 777, 4093);
	same_at("to an odd place", fd, 13, 1234, 1);
	same("nothing", fd, 0, 0);
	same("nothing, nowhere", -1, 0, 0);
	same("before the start", fd, 10, -1);
	same("as far before it as can be", fd, 10, LONG_MIN);
	same("as far behind it", fd, 10, LONG_MAX);
	same("the last bytes", fd, 100, end - 100);
	same("across the end", fd, 5000, end - 100);
	same("across the end, all that can be asked for", fd, 0x7ffff000, end - 100);
	same("and more", fd, LONG_MAX, end - 100);
	same("and more than that", fd, ULONG_MAX, end - 100);
	same("at the end", fd, 10, end);
	same("behind the end", fd, 10, end + 1);
	same_at("up to what may only be read", fd, PAGE, PAGE, 0);
	same_at("into what may only be read", fd, 2 * PAGE - 10, 100, 0);
	same_at("where one may only read", fd, 2 * PAGE, 100, 0);
	same_at("where nothing is", fd, 3 * PAGE, 100, 0);
	same_at("of no size there", fd, 3 * PAGE, 0, 0);
	same_at("to the zero page", fd, -(long)g_buf, 100, 0);
	same_at("to the kernel", fd, -(long)g_buf - PAGE, 100, 0);
	same_at("to the end of all", fd, 0x7ffffffff000 - (long)g_buf - 10, 100, 0);
	/* Of an open file that is read from 2 on: the next part. */
	same("another part", fd, PAGE, 1l << 20);
}

static void descriptors(void)
{
	int fd = make(g_name, 0), other = make(g_other, 1), high, p[2];

	P("descriptors");
	warm(fd, 0);
	high = fcntl(fd, F_DUPFD, 100);
	same("a copy", high, 100, 50);
	warm(high, 0);
	close(fd);
	same("closed", fd, 100, 50);
	same("its copy is not", high, 100, 50);
	fd = dup2(other, high);
	same("another in its place", high, 100, 50);
	warm(high, 0);
	fd = dup3(open(g_name, O_RDONLY), high, O_CLOEXEC);
	same("and the first", fd, 100, 50);
	warm(fd, 0);
	syscall(SYS_close_range, 100, 1000, 0);
	same("all are closed", high, 100, 50);
	fd = open(g_name, O_RDONLY);
	warm(fd, 0);
	syscall(SYS_close_range, fd, fd, 4 /* CLOEXEC */);
	same("a mark that says so", fd, 100, 50);
	close(fd);
	fd = open(g_name, O_WRONLY);
	same("for writing", fd, 100, 50);
	close(fd);
	fd = open(g_name, O_RDWR | O_APPEND);
	warm(fd, 0);
	same("for appending", fd, 100, 50);
	close(fd);
	fd = open(g_name, O_PATH);
	same("a path", fd, 100, 50);
	close(fd);
	fd = open(g_dir, O_RDONLY);
	same("a directory", fd, 100, 0);
	close(fd);
	fd = open("/dev/zero", O_RDONLY);
	warm(fd, 0);
	same("zeros", fd, 3000, 50);
	close(fd);
	if (pipe(p))
		exit(1);
	same("a pipe", p[0], 100, 0);
	close(p[0]);
	close(p[1]);
	same("no number", 1 << 30, 100, 0);
	/* Of a number only the lower half counts. */
	warm(other, 0);
	printf("high bits: %ld\n", hot(SYS_pread64, other | 1l << 40, (long)g_buf, 100, 50, 0, 0));
	close(other);
}

static void in_child(const char *what, void (*f)(int), int fd)
{
	int status;
	pid_t pid = guest_fork();

	if (!pid) {
		f(fd);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	guest_status(what, status);
}

static void child_closes(int fd)
{
	same("a child has it", fd, 100, 50);
	warm(fd, 0);
	close(fd);
	same("and closes it", fd, 100, 50);
}

static void child_cuts(int fd)
{
	if (ftruncate(fd, 30))
		_exit(1);
}

static void child_grows(int fd)
{
	if (pwrite(fd, "end", 3, PAGE) != 3)
		_exit(1);
}

static void contents(void)
{
	int fd = make(g_name, 0), other = open(g_name, O_RDWR), cut;
	unsigned char *map;

	P("contents");
	warm(fd, 0);
	if (pwrite(other, "written", 7, 20) != 7)
		exit(1);
	same("written by another descriptor", fd, 100, 0);
	printf("%.7s\n", g_buf + 20);
	warm(fd, 0);
	map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
	memcpy(map + 40, "mapped", 6);
	same("written by a mapping", fd, 100, 0);
	printf("%.6s\n", g_buf + 40);
	usleep(10000);
	warm(fd, 0);
	in_child("a child", child_closes, fd);
	same("a child's close is not ours", fd, 100, 0);
	warm(fd, 0);
	in_child("a child", child_cuts, fd);
	same("cut short", fd, 100, 0);
	same("behind that", fd, 100, 30);
	usleep(10000);
	warm(fd, 0);
	in_child("a child", child_grows, fd);
	same("longer, by a hole", fd, PAGE, 10);
	same("its end", fd, 100, PAGE - 10);
	usleep(10000);
	warm(fd, 0);
	if (ftruncate(other, 0))
		exit(1);
	same("empty", fd, 100, 0);
	if (ftruncate(other, 100))
		exit(1);
	same("zeros", fd, 200, 0);
	close(fd);

	fd = make(g_name, 2);
	warm(fd, 0);
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0)
		same("a hole", fd, 2 * PAGE, 0);
	cut = make(g_other, 3);
	warm(cut, 0);
	close(open(g_other, O_WRONLY | O_TRUNC));
	same("cut by who opens it", cut, 100, 0);
	close(cut);
	cut = make(g_other, 3);
	warm(cut, 0);
	if (truncate(g_other, 77))
		exit(1);
	same("cut by its name", cut, 100, 0);
	close(cut);
	/* It is the same file, whatever it is called. */
	warm(fd, 0);
	rename(g_name, g_other);
	same("renamed", fd, 100, 0);
	unlink(g_other);
	same("unlinked", fd, 100, 0);
	munmap(map, PAGE);
	close(other);
	close(fd);
}

/* Does a read, hot or cold, move the time of access of a file that has these times? */
static int moves(int fd, long atime, long mtime, long (*reader)(int, void *, size_t, long))
{
	struct timespec t[2] = {{.tv_sec = atime}, {.tv_sec = mtime}};
	struct stat st;

	futimens(fd, t);
	reader(fd, g_buf, 100, 0);
	fstat(fd, &st);
	return st.st_atim.tv_sec != atime;
}

static void times(void)
{
	static const struct {
		const char *what;
		long atime, mtime;
	} rows[] = {{"older than its contents", -7200, -3600},
		    {"as old", -3600, -3600},
		    {"of long ago", -90000, -95000},
		    {"of today", -60, -3600},
		    {"of tomorrow", 90000, -3600}};
	int fd = make(g_name, 0);

	P("time of access");
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const long now = time(NULL);
		int want, got;

		warm(fd, 0);
		want = moves(fd, now + rows[i].atime, now + rows[i].mtime, cold_read);
		warm(fd, 0);
		got = moves(fd, now + rows[i].atime, now + rows[i].mtime, hot_read);
		printf("%s: %s\n", rows[i].what, got == want ? "same" : "DIFFERENT");
	}
	close(fd);
}

static int events(int in)
{
	char buf[4096] __attribute__((aligned(8)));
	ssize_t n;
	int count = 0;

	while ((n = read(in, buf, sizeof(buf))) > 0) {
		for (char *p = buf; p < buf + n;
		     p += sizeof(struct inotify_event) + ((struct inotify_event *)p)->len) {
			const struct inotify_event *e = (struct inotify_event *)p;

			count += (e->mask & IN_ACCESS) != 0;
		}
	}
	return count;
}

static void watches(void)
{
	char sub[128], moved[160];
	int fd = make(g_name, 0), in = inotify_init1(IN_NONBLOCK), wd;

	P("watches");
	snprintf(sub, sizeof(sub), "%s/sub", g_dir);
	snprintf(moved, sizeof(moved), "%s/moved", sub);
	mkdir(sub, 0700);
	warm(fd, 0);
	wd = inotify_add_watch(in, g_name, IN_ACCESS);
	hot_read(fd, g_buf, 100, 0);
	printf("of the file: %d\n", events(in));
	inotify_rm_watch(in, wd);
	hot_read(fd, g_buf, 100, 0);
	printf("no more: %d\n", events(in));
	warm(fd, 0);
	wd = inotify_add_watch(in, g_dir, IN_ACCESS);
	hot_read(fd, g_buf, 100, 0);
	printf("of its directory: %d\n", events(in));
	inotify_rm_watch(in, wd);
	inotify_add_watch(in, sub, IN_ACCESS);
	events(in);
	usleep(10000);
	warm(fd, 0);
	hot_read(fd, g_buf, 100, 0);
	printf("of another: %d\n", events(in));
	rename(g_name, moved);
	hot_read(fd, g_buf, 100, 0);
	printf("to which it is moved: %d\n", events(in));
	rename(moved, g_name);
	events(in);
	hot_read(fd, g_buf, 100, 0);
	printf("and back: %d\n", events(in));
	close(in);
	warm(fd, 0);
	rmdir(sub);
	close(fd);
}

static void io(long *chars, long *calls)
{
	char text[512];
	int fd = open("/proc/self/io", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	sscanf(text, "rchar: %ld\nwchar: %*d\nsyscr: %ld", chars, calls);
	close(fd);
}

/* What is counted for so many reads, but for those of the counts themselves. */
static void counted(int fd, long (*reader)(int, void *, size_t, long), long *chars, long *calls)
{
	long c[3], n[3];

	io(&c[0], &n[0]);
	io(&c[1], &n[1]);
	for (int i = 0; i < 1000; i++)
		reader(fd, g_buf, 100, 50);
	io(&c[2], &n[2]);
	*chars = (c[2] - c[1]) / 1000;
	*calls = n[2] - n[1];
}

static void executes(int fd)
{
	for (int i = 0; i < 1000; i++)
		hot_read(fd, g_buf, 100, 50);
	execl("/proc/self/exe", "answers_read", "counts", NULL);
}

static void counts(void)
{
	int fd = make(g_name, 0);
	long chars, calls;

	P("counts");
	warm(fd, 0);
	counted(fd, cold_read, &chars, &calls);
	printf("cold: %ld bytes, %ld calls\n", chars, calls);
	counted(fd, hot_read, &chars, &calls);
	printf("hot: %ld bytes, %ld calls\n", chars, calls);
	fflush(stdout);
	in_child("another program", executes, fd);
	close(fd);
}

static atomic_long g_now;
static atomic_int g_over;
static int g_target, g_files[16];

static void *replaces(void *arg)
{
	(void)arg;
	for (long k = 1; k < 20000; k++) {
		dup2(g_files[k % 16], g_target);
		g_now = k;
		/* Now and then long enough for the reader to have no need to ask. */
		if (k % 500 == 0)
			usleep(3000);
	}
	g_over = 1;
	return NULL;
}

/* What a descriptor was before the call it is no longer. */
static void races_of_descriptors(void)
{
	pthread_t t;
	long wrong = 0;

	for (int i = 0; i < 16; i++) {
		char c[PAGE];

		memset(c, i, sizeof(c));
		snprintf(g_name, sizeof(g_name), "%s/%d", g_dir, i);
		g_files[i] = open(g_name, O_RDWR | O_CREAT, 0600);
		if (write(g_files[i], c, sizeof(c)) != sizeof(c))
			exit(1);
		unlink(g_name);
	}
	usleep(10000);
	for (int i = 0; i < 16; i++)
		warm(g_files[i], 0);
	g_target = dup(g_files[0]);
	g_now = 0;
	g_over = 0;
	pthread_create(&t, NULL, replaces, NULL);
	while (!g_over) {
		const long before = g_now;
		unsigned char buf[8];
		long r = hot_read(g_target, buf, sizeof(buf), 0), after = g_now + 1;

		wrong += r != 8;
		wrong += after - before < 15 &&
			 (buf[0] - before) % 16 + (buf[0] < before % 16 ? 16 : 0) > after - before;
	}
	pthread_join(t, NULL);
	printf("descriptors of before: %ld\n", wrong);
	for (int i = 0; i < 16; i++)
		close(g_files[i]);
	close(g_target);
}

static void *grows(void *arg)
{
	const int fd = *(int *)arg;

	for (long k = 1; k < 4000; k++) {
		if (pwrite(fd, "0123456789abcdef", 16, PAGE + k * 16) != 16)
			exit(1);
		g_now = k;
		if (k % 200 == 0)
			usleep(8000);
	}
	g_over = 1;
	return NULL;
}

/* A size of before the call is none of after it. */
static void races_of_sizes(void)
{
	static char buf[70000];
	pthread_t t;
	long wrong = 0;
	int fd = make(g_other, 0);

	if (ftruncate(fd, PAGE + 16))
		exit(1);
	g_now = 0;
	g_over = 0;
	pthread_create(&t, NULL, grows, &fd);
	while (!g_over) {
		const long before = g_now;
		const long r = hot_read(fd, buf, sizeof(buf), PAGE), after = g_now + 1;

		wrong += r < (before + 1) * 16 || r > (after + 1) * 16;
	}
	pthread_join(t, NULL);
	printf("sizes of before: %ld\n", wrong);
	close(fd);
}

static volatile sig_atomic_t g_signals;

static void on_alarm(int sig)
{
	(void)sig;
	g_signals = g_signals + 1;
}

static void interrupted(void)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	int fd = make(g_other, 0);
	long wrong = 0;
	static unsigned char buf[SIZE], want[SIZE];

	cold_read(fd, want, SIZE, 0);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (g_signals < 200) {
		memset(buf, 0, 100);
		wrong += hot_read(fd, buf, SIZE, 0) != SIZE || memcmp(buf, want, SIZE) != 0;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("wrong under signals: %ld\n", wrong);
	close(fd);
}

/* What was counted is still there when another program runs. */
static void counted_before(void)
{
	long chars, calls;

	io(&chars, &calls);
	printf("counted before: %d %d\n", chars >= 1000 * 100, calls >= 1000);
}

int main(int argc, char **argv)
{
	int fd;

	if (argc > 1 && !strcmp(argv[1], "counts")) {
		counted_before();
		return 0;
	}
	make_cold();
	snprintf(g_dir, sizeof(g_dir), "/tmp/answers_read.%d", (int)getpid());
	mkdir(g_dir, 0700);
	snprintf(g_name, sizeof(g_name), "%s/file", g_dir);
	snprintf(g_other, sizeof(g_other), "%s/other", g_dir);
	g_buf = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(g_buf + 2 * PAGE, PAGE, PROT_READ);
	munmap(g_buf + 3 * PAGE, PAGE);

	/* The first calls of a thread may be answered from wherever they come. */
	fd = make(g_name, 0);
	for (int i = 0; i < 40; i++)
		cold_read(fd, g_buf, 1, 0);
	arguments("a file of our own", fd, SIZE);
	close(fd);
	fd = open("/bin/sh", O_RDONLY);
	arguments("a file of the system's", fd, lseek(fd, 0, SEEK_END));
	close(fd);
	fd = memfd_create("memory", 0);
	if (write(fd, g_buf, PAGE) != PAGE || ftruncate(fd, 2 * PAGE))
		exit(1);
	usleep(10000);
	arguments("a file without a name", fd, 2 * PAGE);
	close(fd);
	descriptors();
	contents();
	times();
	watches();
	counts();
	races_of_descriptors();
	races_of_sizes();
	interrupted();
	unlink(g_other);
	snprintf(g_name, sizeof(g_name), "%s/file", g_dir);
	unlink(g_name);
	rmdir(g_dir);
	return 0;
}
