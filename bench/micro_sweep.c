/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sweeps: the cost of operations while something else grows. A line is SWEEP/COUNT/NAME ns.
 *
 *   threads    sleeping threads beside the one that measures
 *   busy       threads that all do lseek at once; wall time by operations of all together
 *   files      files in one directory of a tmpfs: stat of the last, a listing (per entry)
 *   mounts     tmpfs mounts: stat inside the last, stat of a file outside of all
 *   processes  sleeping child processes beside the one that measures
 */
#include "bench/micro.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_prefix(char *buf, size_t size, const char *sweep, long count)
{
	snprintf(buf, size, "%s/%ld/", sweep, count);
}

/* --- Threads ---------------------------------------------------------------------------------- */

/* A pipe that holds back the crowd: it sleeps until the pipe's other end is closed. */
static int g_gate[2];

static void *thread_sleep(void *arg)
{
	char c;

	if (read(g_gate[0], &c, 1) < 0)
		return arg;
	return NULL;
}

static void sweep_threads(struct bench *b, long count)
{
	static const char *const ops[] = {"lseek", "mmap_touch_4k", "futex_threads", "thread"};
	pthread_t *crowd = calloc((size_t)count, sizeof(*crowd));
	pthread_attr_t attr;
	char prefix[64];
	long made = 0;
	int err = 0;

	set_prefix(prefix, sizeof(prefix), "threads", count);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * KIB);
	if (!crowd || pipe(g_gate) != 0) {
		micro_print(prefix, "all", -1);
		free(crowd);
		return;
	}
	while (made < count - 1 && !err) {
		err = pthread_create(&crowd[made], &attr, thread_sleep, NULL);
		made += !err;
	}
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]) && !err; i++)
		micro_measure_named(b, ops[i], prefix);
	if (err) {
		errno = err;
		micro_print(prefix, "all", -1);
	}
	close(g_gate[1]);
	while (made > 0)
		pthread_join(crowd[--made], NULL);
	close(g_gate[0]);
	pthread_attr_destroy(&attr);
	free(crowd);
}

struct worker {
	pthread_t thread;
	pthread_barrier_t *start;
	uint64_t n;
	bool failed;
};

static void *thread_work(void *arg)
{
	struct worker *w = arg;
	int fd = open("/dev/null", O_RDWR), twin = dup(fd);

	pthread_barrier_wait(w->start);
	w->failed = fd < 0 || twin < 0;
	for (uint64_t i = 0; i < w->n && !w->failed; i++)
		w->failed = lseek(fd, 0, SEEK_SET) != 0;
	close(fd);
	close(twin);
	return NULL;
}

/* Wall time of @count threads that do @n calls each, in ns; -1 if one failed. */
static double busy_batch(struct worker *w, long count, uint64_t n)
{
	pthread_barrier_t start;
	uint64_t began;
	long made = 0;
	bool failed = false;
	int err = 0;

	pthread_barrier_init(&start, NULL, (unsigned)count + 1);
	for (; made < count && !err; made += !err) {
		w[made] = (struct worker){.start = &start, .n = n};
		err = pthread_create(&w[made].thread, NULL, thread_work, &w[made]);
	}
	/* Those that exist would wait at the barrier for ever. */
	if (err) {
		errno = err;
		micro_print("busy/", "all", -1);
		exit(1);
	}
	pthread_barrier_wait(&start);
	began = micro_now_ns();
	for (long i = 0; i < count; i++) {
		pthread_join(w[i].thread, NULL);
		failed |= w[i].failed;
	}
	pthread_barrier_destroy(&start);
	return failed ? -1 : (double)(micro_now_ns() - began);
}

static void sweep_busy(struct bench *b, long count)
{
	struct worker *w = calloc((size_t)count, sizeof(*w));
	uint64_t n = 20;
	double t = 0;
	char prefix[64];

	(void)b;
	set_prefix(prefix, sizeof(prefix), "busy", count);
	/* Ten milliseconds are enough for a scheduler to show itself. */
	while (w && t >= 0 && t < 1e7 && n < 4000000) {
		n *= 2;
		t = busy_batch(w, count, n);
	}
	micro_print(prefix, "lseek", w && t >= 0 ? t / ((double)n * (double)count) : -1);
	free(w);
}

/* --- Files ------------------------------------------------------------------------------------ */

static int run_stat_path(struct bench *b, const struct op *op, uint64_t n)
{
	struct stat st;

	(void)op;
	while (n-- > 0)
		if (stat(b->path, &st) != 0)
			return -1;
	return 0;
}

static const struct op g_stat_last = {.name = "stat", .run = run_stat_path};

static double list_all(const char *dir, char *buf, long count)
{
	uint64_t began = micro_now_ns();
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	long got = fd < 0 ? -1 : 0;

	while (fd >= 0 && (got = syscall(SYS_getdents64, fd, buf, 32 * KIB)) > 0)
		;
	if (fd >= 0)
		close(fd);
	return got < 0 ? -1 : (double)(micro_now_ns() - began) / (double)count;
}

static void sweep_files(struct bench *b, long count)
{
	char dir[300], prefix[64];
	double best = -1;

	set_prefix(prefix, sizeof(prefix), "files", count);
	snprintf(dir, sizeof(dir), "%s/files", b->dir);
	if (files_make(dir, count) != 0) {
		micro_print(prefix, "stat", -1);
	} else {
		snprintf(b->path, sizeof(b->path), "%s/%ld", dir, count - 1);
		micro_measure(b, &g_stat_last, prefix);
		for (int i = 0; i < 5; i++) {
			double t = list_all(dir, b->buf, count);

			best = i == 0 || t < best ? t : best;
		}
		micro_print(prefix, "getdents", best);
	}
	if (files_remove(dir, count) != 0)
		fprintf(stderr, "micro: %s: %s\n", dir, strerror(errno));
}

/* --- Mounts ----------------------------------------------------------------------------------- */

/* A name space of our own, so that nothing is left behind; or none where one cannot be had. */
static int own_mounts(struct bench *b)
{
	if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return b->mount_here ? 0 : -1;
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static void sweep_mounts_here(struct bench *b, long count)
{
	char dir[300], prefix[64];
	long made = 0;
	bool ok = own_mounts(b) == 0;

	set_prefix(prefix, sizeof(prefix), "mounts", count);
	for (; ok && made < count; made++) {
		snprintf(dir, sizeof(dir), "%s/m%ld", b->dir, made);
		ok = (mkdir(dir, 0700) == 0 || errno == EEXIST) &&
		     mount("none", dir, "tmpfs", 0, NULL) == 0;
	}
	if (ok) {
		snprintf(b->path, sizeof(b->path), "%s", dir);
		micro_measure(b, &g_stat_last, prefix);
		micro_measure_named(b, "stat_rootfs", prefix);
	} else {
		micro_print(prefix, "stat", -1);
	}
	while (made-- > 0) {
		snprintf(dir, sizeof(dir), "%s/m%ld", b->dir, made);
		umount2(dir, MNT_DETACH);
		rmdir(dir);
	}
}

/* In a child, which takes its name space with it. */
static void sweep_mounts(struct bench *b, long count)
{
	pid_t pid = fork();

	if (pid == 0) {
		sweep_mounts_here(b, count);
		exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
	for (long i = 0; i < count; i++) {
		char dir[300];

		snprintf(dir, sizeof(dir), "%s/m%ld", b->dir, i);
		rmdir(dir);
	}
}

/* --- Processes -------------------------------------------------------------------------------- */

static void sweep_processes(struct bench *b, long count)
{
	static const char *const ops[] = {"lseek", "fork_wait", "pipe_processes"};
	pid_t *crowd = calloc((size_t)count, sizeof(*crowd));
	char prefix[64];
	long made = 0;
	bool ok = crowd && pipe(g_gate) == 0;

	set_prefix(prefix, sizeof(prefix), "processes", count);
	for (; ok && made < count - 1; made++) {
		crowd[made] = fork();
		if (crowd[made] == 0) {
			close(g_gate[1]);
			thread_sleep(NULL);
			_exit(0);
		}
		if (crowd[made] < 0) {
			ok = false;
			break;
		}
	}
	if (ok) {
		for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
			micro_measure_named(b, ops[i], prefix);
	} else {
		micro_print(prefix, "all", -1);
	}
	for (long i = 0; i < made; i++)
		kill(crowd[i], SIGKILL);
	for (long i = 0; i < made; i++)
		waitpid(crowd[i], NULL, 0);
	close(g_gate[0]);
	close(g_gate[1]);
	free(crowd);
}

/* --- All -------------------------------------------------------------------------------------- */

static const struct sweep {
	const char *name;
	void (*run)(struct bench *b, long count);
	long points[8];
} g_sweeps[] = {
	{"threads", sweep_threads, {1, 4, 16, 64, 256, 1000}},
	{"busy", sweep_busy, {1, 2, 4, 8, 16}},
	{"files", sweep_files, {10, 100, 1000, 10000}},
	{"mounts", sweep_mounts, {1, 4, 16, 64, 256}},
	{"processes", sweep_processes, {1, 4, 16, 64, 256}},
};

int sweep_run(struct bench *b, const char *name, long max)
{
	bool any = false;

	for (size_t s = 0; s < sizeof(g_sweeps) / sizeof(g_sweeps[0]); s++) {
		if (strcmp(name, "all") != 0 && strcmp(name, g_sweeps[s].name) != 0)
			continue;
		any = true;
		for (const long *p = g_sweeps[s].points; *p && *p <= max; p++)
			g_sweeps[s].run(b, *p);
	}
	return any ? 0 : -1;
}
