/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single calls that tell when they were made: the guest's side of `moat run --profile-calls`.
 *
 * Theory of operation: each call hands in the processor's time stamp from just before it as its
 * sixth argument, and the one from just after the call before it as its fifth; the calls here have
 * at most four, so nobody else looks at these. Each is made at two sites: the C library's, which
 * may be rewritten, and an instruction in a page that is writable, which may not, as whoever wrote
 * it may do so again. Here only the whole is known, and printed: the median, as NAME/SITE.
 */
#include "bench/micro.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WARM 100u

typedef long (*call_fn)(long nr, long a, long b, long c, long d, uint64_t last, uint64_t now);

/* What libc's syscall() does, but for errno. */
static const uint8_t g_writable_site[] = {
	0x48, 0x89, 0xf8,             /* mov %rdi,%rax */
	0x48, 0x89, 0xf7,             /* mov %rsi,%rdi */
	0x48, 0x89, 0xd6,             /* mov %rdx,%rsi */
	0x48, 0x89, 0xca,             /* mov %rcx,%rdx */
	0x4d, 0x89, 0xc2,             /* mov %r8,%r10 */
	0x4d, 0x89, 0xc8,             /* mov %r9,%r8 */
	0x4c, 0x8b, 0x4c, 0x24, 0x08, /* mov 8(%rsp),%r9 */
	0x0f, 0x05,                   /* syscall */
	0xc3,                         /* ret */
};

static long by_libc(long nr, long a, long b, long c, long d, uint64_t last, uint64_t now)
{
	return syscall(nr, a, b, c, d, last, now);
}

static call_fn writable_site(void)
{
	void *page = mmap(NULL, 4 * KIB, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	call_fn fn;

	if (page == MAP_FAILED)
		return NULL;
	memcpy(page, g_writable_site, sizeof(g_writable_site));
	memcpy(&fn, &page, sizeof(fn));
	return fn;
}

/* What the calls work with. */
static struct {
	int tmpfs, null, zero;
	char *page;
	char stat[256];
	char buf[4096];
} g_on;

static struct profiled {
	const char *name;
	long nr, arg[4];
} g_calls[] = {
	{.name = "lseek", .nr = SYS_lseek, .arg = {0, 0, SEEK_CUR}},
	{.name = "fstat", .nr = SYS_fstat},
	{.name = "stat", .nr = SYS_stat},
	{.name = "read_4k", .nr = SYS_read},
	{.name = "write_4k", .nr = SYS_write},
	{.name = "mprotect", .nr = SYS_mprotect},
};

static int open_all(struct bench *b)
{
	static char path[600];

	snprintf(path, sizeof(path), "%s/profiled", b->dir);
	g_on.tmpfs = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	g_on.null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	g_on.zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	g_on.page = mmap(NULL, 4 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (g_on.tmpfs < 0 || g_on.null < 0 || g_on.zero < 0 || g_on.page == MAP_FAILED ||
	    write(g_on.tmpfs, b->buf, sizeof(g_on.buf)) != (ssize_t)sizeof(g_on.buf))
		return -1;
	g_on.page[0] = 1;
	for (size_t i = 0; i < sizeof(g_calls) / sizeof(g_calls[0]); i++) {
		struct profiled *c = &g_calls[i];
		const long stat = (long)g_on.stat, buf = (long)g_on.buf;

		switch (c->nr) {
		case SYS_lseek:
			c->arg[0] = g_on.tmpfs;
			break;
		case SYS_fstat:
			c->arg[0] = g_on.tmpfs;
			c->arg[1] = stat;
			break;
		case SYS_stat:
			c->arg[0] = (long)path;
			c->arg[1] = stat;
			break;
		/* Not pread64 of a file, which the stub answers. */
		case SYS_read:
			c->arg[0] = g_on.zero;
			c->arg[1] = buf;
			c->arg[2] = sizeof(g_on.buf);
			break;
		case SYS_write:
			c->arg[0] = g_on.null;
			c->arg[1] = buf;
			c->arg[2] = sizeof(g_on.buf);
			break;
		default:
			c->arg[0] = (long)g_on.page;
			c->arg[1] = 4 * KIB;
			break;
		}
	}
	return 0;
}

static uint64_t cycles(void)
{
	return __builtin_ia32_rdtsc();
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The median in cycles, or -1. */
static double profile_one(const struct profiled *c, call_fn fn, uint64_t *took, unsigned count)
{
	uint64_t last = 0;
	long arg[4];

	memcpy(arg, c->arg, sizeof(arg));
	for (unsigned i = 0; i < WARM + count; i++) {
		uint64_t now, end;
		long ret;

		if (c->nr == SYS_mprotect)
			arg[2] = i & 1 ? PROT_READ | PROT_WRITE : PROT_READ;
		now = cycles();
		ret = fn(c->nr, arg[0], arg[1], arg[2], arg[3], last, now);
		end = cycles();
		if (ret < 0)
			return -1;
		last = end;
		if (i >= WARM)
			took[i - WARM] = end - now;
	}
	/* The last call is told of by one more. */
	(void)fn(c->nr, arg[0], arg[1], arg[2], arg[3], last, cycles());
	qsort(took, count, sizeof(*took), by_value);
	return (double)took[count / 2];
}

int profile_run(struct bench *b, unsigned count)
{
	const uint64_t start_ns = micro_now_ns(), start = cycles();
	uint64_t *took = calloc(count, sizeof(*took));
	call_fn apart = writable_site();
	double per_us, t;

	if (!took || !apart || open_all(b) != 0)
		return -1;
	/* Long enough to tell how fast the counter is. */
	while (micro_now_ns() - start_ns < 20000000)
		continue;
	per_us = (double)(cycles() - start) * 1000 / (double)(micro_now_ns() - start_ns);
	printf("cycles_per_us %.3f\n", per_us);
	for (size_t i = 0; i < sizeof(g_calls) / sizeof(g_calls[0]); i++) {
		t = profile_one(&g_calls[i], by_libc, took, count);
		micro_print(g_calls[i].name, "/libc", t < 0 ? t : t * 1000 / per_us);
		t = profile_one(&g_calls[i], apart, took, count);
		micro_print(g_calls[i].name, "/writable", t < 0 ? t : t * 1000 / per_us);
	}
	free(took);
	return unlink((const char *)g_calls[2].arg[0]);
}
