/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that the stub answers: it does, until what it was told of the file no longer holds; and
 * whoever rewrites that, or what the stub has counted, has himself to blame. Only trap has it.
 */
#include "host_calls.h"
#include "platform/platform.h"
#include <stdbool.h>
#include <sys/inotify.h>
#include <sys/mount.h>

#define PAGE 4096
#define SIZE (16 * PAGE)
#define WARM 400

static int g_bad;

static void expect(bool good, const char *what)
{
	if (!good) {
		printf("not so: %s\n", what);
		g_bad = 1;
	}
}

static volatile struct ts_read *slot_of(int fd)
{
	return (struct ts_read *)(STUB_AREA + TS_A_READS) + ts_read_index(fd, 0);
}

static long read_at(int fd, void *buf, size_t size, long pos)
{
	return syscall(SYS_pread64, fd, buf, size, pos);
}

/* Does the stub answer the next read of a byte? */
static bool answers(int fd)
{
	const uint32_t before = slot_of(fd)->answered;
	char byte;

	read_at(fd, &byte, 1, 0);
	return slot_of(fd)->view != 0 && slot_of(fd)->fd == fd &&
	       slot_of(fd)->answered == before + 1;
}

/* As often as the sentry wants to see it; the time of access of what was written just now moves
 * until the next tick. */
static bool warm(int fd)
{
	static char buf[PAGE];

	for (int tries = 0; tries < 100; tries++) {
		for (int i = 0; i < WARM; i++)
			read_at(fd, buf, sizeof(buf), 0);
		if (answers(fd))
			return true;
		usleep(2000);
	}
	return false;
}

static int make(const char *name, char what)
{
	static char buf[SIZE];
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	memset(buf, what, sizeof(buf));
	if (fd < 0 || write(fd, buf, sizeof(buf)) != sizeof(buf))
		exit(3);
	return fd;
}

/* After each of these the sentry is asked again, and after a while no longer. */
static void ends(int fd, bool good, const char *what)
{
	char text[100];

	snprintf(text, sizeof(text), "it works: %s", what);
	expect(good, text);
	snprintf(text, sizeof(text), "asked after: %s", what);
	expect(!answers(fd), text);
	snprintf(text, sizeof(text), "answered long after: %s", what);
	expect(warm(fd), text);
}

static int in_child(int (*f)(int), int fd)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(f(fd));
	waitpid(pid, &status, 0);
	return status;
}

static int writes(int fd)
{
	return pwrite(fd, "x", 1, 5) != 1;
}

static int looks(int fd)
{
	/* Nothing of the parent's is the child's; nor does it take anything from the parent. */
	return slot_of(fd)->view != 0 || !warm(fd);
}

static void descriptors(int fd)
{
	const int other = make("/tmp/other", 'o');
	int copy;

	copy = dup(fd);
	expect(answers(fd), "a copy is made of it");
	expect(warm(copy), "a copy is answered, too");
	close(copy);
	expect(!answers(copy), "closed");
	expect(warm(fd), "the other is not");
	copy = dup2(fd, 200);
	expect(warm(copy), "another copy");
	dup2(other, copy);
	expect(!answers(copy), "replaced");
	expect(warm(fd) && warm(copy), "both");
	syscall(SYS_close_range, 200, ~0u, 0);
	expect(!answers(copy), "closed among others");
	expect(warm(fd), "the file has others");
	expect(in_child(looks, fd) == 0, "a child begins anew");
	close(other);
}

static void contents(int fd)
{
	struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 2}};
	int in = inotify_init1(IN_NONBLOCK), wd;

	expect(warm(fd), "as long as nothing happens");
	ends(fd, pwrite(fd, "x", 1, 5) == 1, "a write");
	ends(fd, in_child(writes, fd) == 0, "a write of a child's");
	ends(fd, pwrite(fd, "x", 1, SIZE) == 1, "a longer file");
	ends(fd, ftruncate(fd, SIZE) == 0, "a shorter one");
	ends(fd, truncate("/tmp/first", SIZE - 1) == 0, "by its name");
	ends(fd, fchmod(fd, 0640) == 0, "another mode");
	ends(fd, futimens(fd, times) == 0, "other times");
	ends(fd, rename("/tmp/first", "/tmp/second") == 0, "another name");
	ends(fd, link("/tmp/second", "/tmp/first") == 0, "one more name");
	ends(fd, unlink("/tmp/second") == 0, "one less");
	wd = inotify_add_watch(in, "/tmp/first", IN_ACCESS);
	expect(wd > 0 && !answers(fd), "watched");
	for (int i = 0; i < WARM; i++)
		expect(!answers(fd), "as long as it is watched");
	inotify_rm_watch(in, wd);
	expect(warm(fd), "no more");
	wd = inotify_add_watch(in, "/tmp", IN_ACCESS);
	expect(wd > 0 && !answers(fd), "its directory is watched");
	close(in);
	expect(warm(fd), "no more");
	ends(fd,
	     mount(NULL, "/tmp", NULL, MS_REMOUNT | MS_BIND | MS_NOATIME, NULL) == 0 ||
		     mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_NOATIME, NULL) == 0,
	     "another mount");
	expect(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0 &&
		       !answers(fd),
	       "a hole");
}

/* Another open file of the system's, whose contents become our own when it is written. */
static void copied_up(void)
{
	char name[] = "/bin/ls";
	int fd = open(name, O_RDONLY), other;

	expect(fd >= 0 && warm(fd), "a file of the system's");
	other = open(name, O_WRONLY);
	expect(pwrite(other, "x", 1, 3) == 1 && !answers(fd), "written, so copied");
	close(other);
	close(fd);
}

/* More files than there are views: none is answered out of another's. */
static void many(void)
{
	enum { COUNT = 20 };
	char name[32], byte;
	int fd[COUNT];

	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "/tmp/many%d", i);
		fd[i] = make(name, (char)(i + 1));
	}
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < COUNT; i++) {
			expect(warm(fd[i]), "one of many");
			for (int k = 0; k < COUNT; k++)
				expect(read_at(fd[k], &byte, 1, 0) == 1 && byte == k + 1,
				       "each its own");
		}
	}
	for (int i = 0; i < COUNT; i++)
		close(fd[i]);
}

static _Atomic bool g_over;

static void *rewrites(void *arg)
{
	const uint64_t places[] = {STUB_REGION,
				   STUB_REGION + 0x10000,
				   TS_SHARED,
				   TS_ORDERS,
				   TS_AREAS,
				   TS_VIEWS,
				   TS_VIEWS_END - PAGE,
				   PAGE,
				   (uint64_t)(uintptr_t)arg,
				   UINT64_MAX};

	/* All areas that there are. */
	while (!g_over) {
		char *area = (char *)TS_AREAS + rnd_below(2) * TS_AREA_SIZE;
		volatile struct ts_read *s =
			(struct ts_read *)(area + TS_A_READS) + rnd_below(TS_READS);
		volatile struct ts_told *told = (struct ts_told *)(area + TS_A_TOLD);

		s->fd = (int)rnd_below(8);
		s->view = places[rnd_below(HOSTILE_COUNT(places))];
		s->start = rnd_below(2) ? 0 : rnd_value();
		s->size = rnd_value();
		s->whole = (uint32_t)rnd_below(2);
		s->mark = (uint32_t)rnd_value();
		s->value = rnd_below(4);
		s->answered = (uint32_t)rnd_value();
		told->reads = rnd_value();
		told->read_bytes = rnd_value();
		told->flags |= TS_TOLD_READS;
	}
	return NULL;
}

static void counts(void)
{
	char text[512];
	int fd = open("/proc/self/io", O_RDONLY);

	expect(fd >= 0 && read(fd, text, sizeof(text)) > 0, "there are counts");
	close(fd);
}

static void hostile(int fd)
{
	/* What is read too far faults: libc's own data is none of it. */
	char *buf =
		mmap(NULL, SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t to[] = {
		(uint64_t)(uintptr_t)buf, STUB_REGION, TS_SHARED, TS_ORDERS, TS_AREAS,
		TS_A_READS + TS_AREAS,    TS_VIEWS,    PAGE};
	pthread_t t;

	munmap(buf + SIZE, PAGE);
	warm(fd);
	for (unsigned i = 1; i < HOSTILE_COUNT(to); i++) {
		errno = 0;
		expect(read_at(fd, (void *)(uintptr_t)to[i], 8, 0) == -1 && errno == EFAULT,
		       "nothing is read into the stub");
	}
	expect(answers(fd), "nor is anything else changed");
	g_over = false;
	pthread_create(&t, NULL, rewrites, buf);
	for (int i = 0; i < 30000; i++) {
		read_at((int)rnd_below(8), (void *)(uintptr_t)to[rnd_below(2) ? 0 : rnd_below(8)],
			rnd_below(2) ? rnd_below(SIZE) : rnd_value(), (long)rnd_below(SIZE));
		if (i % 1000 == 0)
			counts();
	}
	g_over = true;
	pthread_join(t, NULL);
}

/* What one has written where it should not he loses; all others have what they had. */
static int attack(int fd)
{
	alarm(60);
	hostile(fd);
	return g_bad;
}

int main(void)
{
	int fd;

	hostile_begin();
	fd = make("/tmp/first", 'a');
	for (int i = 0; i < WARM; i++) {
		char c;

		read_at(fd, &c, 1, 0);
	}
	if (!has_trampolines()) {
		puts("ok: nothing is answered");
		return 0;
	}
	descriptors(fd);
	contents(fd);
	copied_up();
	many();
	close(fd);
	fd = make("/tmp/third", 'c');
	expect(warm(fd), "before the attack");
	(void)in_child(attack, fd);
	expect(warm(fd), "and after it");
	counts();
	puts(g_bad ? "bad" : "ok");
	return g_bad;
}
