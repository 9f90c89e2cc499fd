/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of the memory map on the mock platform: errors in Linux's order, the choice of
 * addresses, limits, heap, stacks, fork, files, System V segments.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "base/meter.h"
#include "sentry/mm_ops.h"
#include "tests/unit/kernel_env.h"
#include "vfs/memfd.h"

#define A GUEST_DATA
#define B (GUEST_DATA + 0x1000)
#define PAGE MOAT_PAGE_SIZE
#define HOLE ((uint64_t)0x30000000)
#define PR LX_PROT_READ
#define PW LX_PROT_WRITE
#define PX LX_PROT_EXEC
#define ANON (LX_MAP_PRIVATE | LX_MAP_ANONYMOUS)
#define SHANON (LX_MAP_SHARED | LX_MAP_ANONYMOUS)
#define FIX LX_MAP_FIXED

#define RUN(name) GUEST_TEST(mm_calls, name)

static long map(struct mock_thread *mt, uint64_t addr, uint64_t size, uint64_t prot, uint64_t flags)
{
	return SYS(mt, mmap, addr, size, prot, flags, -1, 0);
}

RUN(mmap_errors)
{
	long fd;

	IS(map(mt, 0, 0, PR, ANON), -EINVAL);
	IS(map(mt, 0, UINT64_MAX, PR, ANON), -ENOMEM);
	IS(map(mt, 0, LX_TASK_SIZE, PR, ANON), -ENOMEM);
	IS(map(mt, 0, PAGE, PR, LX_MAP_ANONYMOUS), -EINVAL);
	IS(map(mt, 0, PAGE, PR, LX_MAP_ANONYMOUS | LX_MAP_SHARED_VALIDATE), -EINVAL);
	IS(map(mt, HOLE + 1, PAGE, PR, ANON | FIX), -EINVAL);
	IS(map(mt, 0, PAGE, PR, ANON | FIX), -EPERM);
	IS(map(mt, PF_GUEST_LIMIT, PAGE, PR, ANON | FIX), -ENOMEM);
	IS(map(mt, PF_GUEST_LIMIT - PAGE, 2 * PAGE, PR, ANON | FIX), -ENOMEM);
	IS(map(mt, A, PAGE, PR, ANON | LX_MAP_FIXED_NOREPLACE), -EEXIST);
	IS(map(mt, 0, PAGE, PR, ANON | LX_MAP_HUGETLB), -ENOMEM);
	IS(map(mt, 0, PAGE, PR, ANON | LX_MAP_HUGETLB | 13u << 26), -EINVAL);
	IS(map(mt, 0, PAGE, PR, SHANON | LX_MAP_GROWSDOWN), -EINVAL);
	IS(SYS(mt, mmap, 0, PAGE, PR, LX_MAP_PRIVATE, 99, 0), -EBADF);
	IS(SYS(mt, mmap, 0, PAGE, PR, LX_MAP_PRIVATE, 99, 1), -EINVAL);

	make_file(mt, "/tmp/f", "0123456789");
	fd = SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_RDONLY);
	IS(SYS(mt, mmap, 0, PAGE, PR, LX_MAP_PRIVATE | LX_MAP_HUGETLB, fd, 0), -EINVAL);
	IS(SYS(mt, mmap, 0, PAGE, PW, LX_MAP_SHARED, fd, 0), -EACCES);
	IS(SYS(mt, mmap, 0, PAGE, PR, LX_MAP_SHARED_VALIDATE | LX_MAP_SYNC, fd, 0), -EOPNOTSUPP);
	IS(SYS(mt, mmap, 0, PAGE, PR, LX_MAP_PRIVATE | LX_MAP_GROWSDOWN, fd, 0), -EINVAL);
	IS(SYS(mt, mmap, 0, PAGE, PR, 0, fd, 0), -EINVAL);
	IS(SYS(mt, mmap, 0, 2 * PAGE, PR, LX_MAP_PRIVATE, fd, UINT64_MAX - PAGE + 1), -EOVERFLOW);
	IS(SYS(mt, mmap, 0, PAGE, PR, LX_MAP_PRIVATE, fd, INT64_MAX - PAGE + 1), -EOVERFLOW);
	fd = SYS(mt, open, A, LX_O_WRONLY);
	IS(SYS(mt, mmap, 0, PAGE, PW, LX_MAP_PRIVATE, fd, 0), -EACCES);
	IS(SYS(mt, mmap, 0, PAGE, PW, LX_MAP_SHARED, fd, 0), -EACCES);
	fd = SYS(mt, open, A, LX_O_PATH);
	IS(SYS(mt, mmap, 0, PAGE, PR, LX_MAP_PRIVATE, fd, 0), -EBADF);
	fd = SYS(mt, open, put_str(mt, A, "/tmp"), LX_O_RDONLY);
	IS(SYS(mt, mmap, 0, PAGE, PR, LX_MAP_PRIVATE, fd, 0), -ENODEV);
	return 0;
}

RUN(files)
{
	long fd, m, s, r;

	make_file(mt, "/tmp/f", "0123456789");
	fd = SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_RDWR);
	m = SYS(mt, mmap, 0, PAGE, PR | PW, LX_MAP_PRIVATE, fd, 0);
	s = SYS(mt, mmap, 0, PAGE, PR | PW, LX_MAP_SHARED, fd, 0);
	cr_assert(m > 0 && s > 0);
	cr_expect(same_mem(mt, (uint64_t)m, "0123456789\0", 11));
	/* Private stores stay private, shared ones are the file's. */
	put_mem(mt, (uint64_t)m, "P", 1);
	put_mem(mt, (uint64_t)s + 1, "S", 1);
	IS(SYS(mt, pread64, fd, B, 10, 0), 10);
	cr_expect(same_mem(mt, B, "0S23456789", 10));
	IS(SYS(mt, pwrite64, fd, put_str(mt, B, "W"), 1, 2), 1);
	cr_expect(same_mem(mt, (uint64_t)s, "0SW3456789", 10));
	cr_expect(same_mem(mt, (uint64_t)m, "P", 1));
	/* The file may be closed. */
	IS(SYS(mt, close, fd), 0);
	cr_expect(same_mem(mt, (uint64_t)s, "0SW3456789", 10));
	IS(SYS(mt, msync, s, PAGE, 4), 0);
	/* Opened for reading only: never writable if shared. */
	fd = SYS(mt, open, put_str(mt, A, "/tmp/f"), LX_O_RDONLY);
	r = SYS(mt, mmap, 0, PAGE, PR, LX_MAP_SHARED, fd, 0);
	IS(SYS(mt, mprotect, r, PAGE, PR | PW), -EACCES);
	IS(SYS(mt, mprotect, m, PAGE, PR | PW | PX), 0);
	/* A part in the middle keeps its place in the file. */
	fd = SYS(mt, open, put_str(mt, A, "/tmp/big"), LX_O_CREAT | LX_O_RDWR, 0600);
	for (uint64_t i = 0; i < 4; i++)
		IS(SYS(mt, pwrite64, fd, put_mem(mt, B, &i, 8), 8, (long)(i * PAGE)), 8);
	m = SYS(mt, mmap, 0, 4 * PAGE, PR, LX_MAP_PRIVATE, fd, 0);
	IS(SYS(mt, munmap, m, PAGE), 0);
	IS(SYS(mt, mprotect, m + (long)(2 * PAGE), PAGE, PR | PW), 0);
	for (uint64_t i = 1; i < 4; i++)
		IS(get_u64(mt, (uint64_t)m + i * PAGE), i);
	IS(SYS(mt, remap_file_pages, m + (long)PAGE, PAGE, 0, 3, 0), -EINVAL);
	s = SYS(mt, mmap, 0, 2 * PAGE, PR | PW, LX_MAP_SHARED, fd, 0);
	IS(SYS(mt, remap_file_pages, s, PAGE, 0, 3, 0), 0);
	IS(get_u64(mt, (uint64_t)s), 3);
	IS(get_u64(mt, (uint64_t)s + PAGE), 1);
	return 0;
}

RUN(shared_memory_and_sealing)
{
	long fd, m, s;

	/* Shared anonymous memory is shared with a copy of the mapping. */
	s = map(mt, 0, 2 * PAGE, PR | PW, SHANON);
	put_mem(mt, (uint64_t)s, "shared", 6);
	m = SYS(mt, mremap, s, 0, PAGE, LX_MREMAP_MAYMOVE);
	cr_assert(m > 0 && m != s);
	cr_expect(same_mem(mt, (uint64_t)m, "shared", 6));
	/* A memfd that is mapped for writing cannot be sealed against it. */
	fd = SYS(mt, memfd_create, put_str(mt, A, "x"), 2);
	IS(SYS(mt, ftruncate, fd, PAGE), 0);
	m = SYS(mt, mmap, 0, PAGE, PR | PW, LX_MAP_SHARED, fd, 0);
	cr_assert(m > 0);
	IS(SYS(mt, fcntl, fd, 1033, 8), -EBUSY);
	IS(SYS(mt, munmap, m, PAGE), 0);
	IS(SYS(mt, fcntl, fd, 1033, 8), 0);
	IS(SYS(mt, mmap, 0, PAGE, PR | PW, LX_MAP_SHARED, fd, 0), -EPERM);
	m = SYS(mt, mmap, 0, PAGE, PR, LX_MAP_SHARED, fd, 0);
	cr_expect(m > 0);
	IS(SYS(mt, mprotect, m, PAGE, PR | PW), -EACCES);
	return 0;
}

static struct file *g_mapped;
static int g_sealed_at_put = 1;

/* When the platform is told that a process ends, its memory still counts as mapped. */
static void spying_as_put(struct pf_as *as)
{
	if (g_sealed_at_put == 1)
		g_sealed_at_put = memfd_add_seals(g_mapped, LX_F_SEAL_WRITE);
	platform_mock.as_put(as);
}

static int maps_and_ends(struct mock_thread *mt, void *arg)
{
	cr_expect(SYS(mt, mmap, 0, PAGE, PR | PW, LX_MAP_SHARED, arg, 0) > 0);
	return 0;
}

RUN(sealing_after_an_end)
{
	static struct platform spy;
	const long fd = SYS(mt, memfd_create, put_str(mt, A, "x"), 2);
	struct task *t = task_find((int32_t)SYS(mt, gettid));
	long pid;

	IS(SYS(mt, ftruncate, fd, PAGE), 0);
	g_mapped = fd_get(t->files, (int)fd);
	spy = *g_pf;
	spy.as_put = spying_as_put;
	g_pf = &spy;
	pid = mock_fork(mt, maps_and_ends, (void *)fd);
	IS(SYS(mt, wait4, pid, 0, 0, 0), pid);
	IS(g_sealed_at_put, -EBUSY);
	IS(SYS(mt, fcntl, fd, 1033, 8), 0);
	file_put(g_mapped);
	task_put(t);
	return 0;
}

/* What guests use of memory, all together. */
static uint64_t g_used;

static void spying_usage(struct pf_as *as UNUSED, unsigned what UNUSED, struct pf_usage *out)
{
	*out = (struct pf_usage){.anon_bytes = g_used};
}

static void limit_memory(uint64_t bytes)
{
	static struct platform spy;

	spy = *g_pf;
	spy.usage = spying_usage;
	g_pf = &spy;
	g_meters[METER_memory].limit = bytes;
}

#define MIB ((uint64_t)1 << 20)

RUN(memory_that_was_allowed_counts_before_the_next_look)
{
	const uint64_t size = 40 * MIB;
	const long brk = SYS(mt, brk, 0);

	limit_memory(64 * MIB);
	/* The first is below the limit whatever is used; for the second there is a look. */
	cr_assert(map(mt, 0, size, PR | PW, ANON) > 0);
	cr_assert(map(mt, 0, size, PR | PW, ANON) > 0);
	g_used = size;
	IS(map(mt, 0, size, PR | PW, ANON), -ENOMEM);
	IS(SYS(mt, brk, brk + (long)size), brk);
	return 0;
}

RUN(memory_that_was_allowed_and_not_used_does_not_count)
{
	const uint64_t size = 40 * MIB;
	long a;

	limit_memory(64 * MIB);
	for (int i = 0; i < 3; i++) {
		a = map(mt, 0, size, PR | PW, ANON);
		cr_assert(a > 0);
		IS(SYS(mt, munmap, a, size), 0);
	}
	return 0;
}

RUN(memory_is_asked_for_before_pages_are_filled_in)
{
	const uint64_t size = 128 * MIB;
	long a, m;

	limit_memory(64 * MIB);
	a = map(mt, 0, size, PR | PW, ANON | LX_MAP_NORESERVE);
	cr_assert(a > 0);
	IS(SYS(mt, mlock, a, size), -ENOMEM);
	IS(SYS(mt, munlock, a, size), 0);
	IS(SYS(mt, madvise, a, size, 23), -ENOMEM); /* POPULATE_WRITE */
	IS(SYS(mt, madvise, a, size, 25), -ENOMEM); /* COLLAPSE */
	IS(SYS(mt, madvise, a, size, 22), 0);       /* POPULATE_READ: no memory */
	IS(SYS(mt, madvise, a, 40 * MIB, 23), 0);
	g_used = 40 * MIB;
	IS(SYS(mt, madvise, a + (long)(40 * MIB), 40 * MIB, 23), -ENOMEM);
	IS(SYS(mt, mlock, a + (long)(40 * MIB), 40 * MIB), -ENOMEM);
	IS(SYS(mt, mlock, a, 4 * PAGE), 0);
	/* Of a file in memory, too. */
	m = SYS(mt, memfd_create, put_str(mt, A, "x"), 0);
	IS(SYS(mt, ftruncate, m, size), 0);
	m = SYS(mt, mmap, 0, size, PR | PW, LX_MAP_SHARED, m, 0);
	cr_assert(m > 0);
	IS(SYS(mt, madvise, m, 40 * MIB, 23), -ENOMEM);
	/* Such a mapping is there, if not filled. */
	cr_expect(map(mt, 0, size, PR | PW, ANON | LX_MAP_NORESERVE | LX_MAP_POPULATE) > 0);
	return 0;
}

RUN(addresses)
{
	long a, b, c;

	/* From the top down, one below the other. */
	a = map(mt, 0, PAGE, PR, ANON);
	b = map(mt, 0, PAGE, PW, ANON);
	cr_expect(a > 0 && b > 0);
	IS(b, a - (long)PAGE);
	/* A hole is filled again. */
	c = map(mt, 0, PAGE, PX, ANON);
	IS(SYS(mt, munmap, b, PAGE), 0);
	IS(map(mt, 0, PAGE, PW, ANON), b);
	IS(c, b - (long)PAGE);
	/* Hints: taken if free, else ignored; rounded down; not below the minimum. */
	IS(map(mt, HOLE, PAGE, PR, ANON), HOLE);
	cr_expect(map(mt, HOLE, PAGE, PR, ANON) != (long)HOLE);
	IS(map(mt, HOLE + 3 * PAGE + 5, PAGE, PR, ANON), HOLE + 3 * PAGE);
	IS(map(mt, 1, PAGE, PR, ANON) > 0, 1);
	IS(map(mt, PAGE, PAGE, PR, ANON), PF_GUEST_MIN);
	/* The low 2 GiB. */
	a = map(mt, 0, PAGE, PR, ANON | LX_MAP_32BIT);
	cr_expect(a >= 0x40000000 && a < 0x80000000l, "%#lx", a);
	/* Whole huge pages are aligned to be such. */
	a = map(mt, 0, 4 * MM_HUGE_SIZE, PR | PW, ANON);
	IS((uint64_t)a % MM_HUGE_SIZE, 0);
	IS(SYS(mt, munmap, a, 4 * MM_HUGE_SIZE), 0);
	/* Replacing splits what was there. */
	a = map(mt, 0, 5 * PAGE, PR | PW, ANON);
	put_mem(mt, (uint64_t)a, "first", 5);
	put_mem(mt, (uint64_t)a + 4 * PAGE, "last", 4);
	IS(map(mt, (uint64_t)a + PAGE, 3 * PAGE, PR, ANON | FIX), a + (long)PAGE);
	cr_expect(same_mem(mt, (uint64_t)a, "first", 5));
	cr_expect(same_mem(mt, (uint64_t)a + 4 * PAGE, "last", 4));
	return 0;
}

/* Of the vma at @addr of the first program; 0 without one. */
static uint32_t flags_at(uint64_t addr)
{
	struct tgroup *tg = tgroup_next(2);
	struct mm *mm = tg->leader->mm;
	struct vma *v;
	uint32_t flags;

	fmutex_lock(&mm->lock);
	v = mm_find(mm, addr);
	flags = v && v->start <= addr ? v->flags : 0;
	fmutex_unlock(&mm->lock);
	tgroup_put(tg);
	return flags & (VMA_AUTOHUGE | VMA_HUGE | VMA_NOHUGE);
}

#define HUGE MM_HUGE_SIZE

RUN(huge_pages)
{
	uint64_t brk = (uint64_t)SYS(mt, brk, 0), heap;
	long a, b;

	/* Those that hold one, can be written and do not only reserve. */
	a = map(mt, 0, HUGE + PAGE, PR | PW, ANON);
	IS((uint64_t)a % HUGE, 0);
	IS(flags_at((uint64_t)a), VMA_AUTOHUGE);
	put_mem(mt, (uint64_t)a + HUGE, "end", 3);
	IS(flags_at((uint64_t)map(mt, 0, HUGE - PAGE, PR | PW, ANON)), 0);
	IS(flags_at((uint64_t)map(mt, 0, 2 * HUGE, PR, ANON)), 0);
	IS(flags_at((uint64_t)map(mt, 0, 2 * HUGE, 0, ANON)), 0);
	IS(flags_at((uint64_t)map(mt, 0, 2 * HUGE, PR | PW, ANON | LX_MAP_STACK)), 0);
	IS(flags_at((uint64_t)map(mt, 0, 2 * HUGE, PR | PW, ANON | LX_MAP_NORESERVE)), 0);
	IS(flags_at((uint64_t)map(mt, 0, 2 * HUGE, PR | PW, SHANON)), 0);
	IS(flags_at((uint64_t)map(mt, 0, 2 * HUGE, PR | PW, ANON | LX_MAP_POPULATE)), VMA_AUTOHUGE);
	/* A part of such a mapping keeps it; what the guest says is what counts. */
	IS(SYS(mt, mprotect, a, PAGE, PR), 0);
	IS(flags_at((uint64_t)a), VMA_AUTOHUGE);
	IS(SYS(mt, madvise, a, HUGE, 15), 0);
	IS(flags_at((uint64_t)a), VMA_NOHUGE);
	IS(flags_at((uint64_t)a + HUGE), VMA_AUTOHUGE);
	IS(SYS(mt, madvise, a, HUGE + PAGE, 14), 0);
	IS(flags_at((uint64_t)a + HUGE), VMA_HUGE);
	/* Growing. */
	a = map(mt, HOLE, PAGE, PR | PW, ANON);
	IS(a, HOLE);
	IS(SYS(mt, mremap, a, PAGE, 2 * HUGE, 0), a);
	IS(flags_at((uint64_t)a), VMA_AUTOHUGE);
	b = map(mt, 0, PAGE, PR | PW, ANON);
	put_mem(mt, (uint64_t)b, "moved", 5);
	b = SYS(mt, mremap, b, PAGE, 2 * HUGE, 1);
	IS(flags_at((uint64_t)b), VMA_AUTOHUGE);
	cr_expect(same_mem(mt, (uint64_t)b, "moved", 5));
	/* The heap has them as a whole. */
	heap = page_up(brk);
	IS(SYS(mt, brk, heap + 5 * PAGE), heap + 5 * PAGE);
	put_mem(mt, heap, "heap", 4);
	IS(flags_at(heap), 0);
	IS(SYS(mt, brk, heap + 3 * HUGE), heap + 3 * HUGE);
	IS(flags_at(heap), VMA_AUTOHUGE);
	IS(flags_at(heap + 2 * HUGE), VMA_AUTOHUGE);
	IS(SYS(mt, brk, heap + 3 * HUGE + PAGE), heap + 3 * HUGE + PAGE);
	IS(flags_at(heap + 3 * HUGE), VMA_AUTOHUGE);
	cr_expect(same_mem(mt, heap, "heap", 4));
	/* None for who does not want any. */
	IS(SYS(mt, prctl, 41, 1, 0, 0, 0), 0);
	IS(SYS(mt, prctl, 42, 0, 0, 0, 0), 1);
	IS(flags_at((uint64_t)map(mt, 0, 2 * HUGE, PR | PW, ANON)), 0);
	IS(SYS(mt, brk, heap + 8 * HUGE), heap + 8 * HUGE);
	IS(flags_at(heap + 5 * HUGE), 0);
	IS(SYS(mt, prctl, 41, 0, 0, 0, 0), 0);
	IS(SYS(mt, prctl, 42, 0, 0, 0, 0), 0);
	IS(flags_at((uint64_t)map(mt, 0, 2 * HUGE, PR | PW, ANON)), VMA_AUTOHUGE);
	return 0;
}

RUN(unmap_and_protect_errors)
{
	IS(SYS(mt, munmap, HOLE + 1, PAGE), -EINVAL);
	IS(SYS(mt, munmap, HOLE, 0), -EINVAL);
	IS(SYS(mt, munmap, HOLE, PAGE), 0);
	IS(SYS(mt, munmap, LX_TASK_SIZE, PAGE), -EINVAL);
	IS(SYS(mt, munmap, PF_GUEST_LIMIT, PAGE),
	   0); /* the stub's: nothing there, and nothing done */
	IS(SYS(mt, munmap, PF_GUEST_LIMIT - PAGE, 3 * PAGE), 0);
	IS(SYS(mt, mprotect, HOLE + 1, PAGE, PR), -EINVAL);
	IS(SYS(mt, mprotect, HOLE, 0, PR), 0);
	IS(SYS(mt, mprotect, HOLE, PAGE, PR), -ENOMEM);
	IS(SYS(mt, mprotect, HOLE, UINT64_MAX, PR), -ENOMEM);
	IS(SYS(mt, mprotect, HOLE, PAGE, 64), -EINVAL);
	IS(SYS(mt, mprotect, A, PAGE, PR | LX_PROT_GROWSDOWN | LX_PROT_GROWSUP), -EINVAL);
	IS(SYS(mt, mprotect, A, PAGE, PR | LX_PROT_GROWSUP), -EINVAL);
	IS(SYS(mt, mprotect, A, PAGE, PR | LX_PROT_GROWSDOWN), -EINVAL);
	/* Up to the hole it is done. */
	IS(map(mt, HOLE, 2 * PAGE, PR, ANON | FIX), HOLE);
	IS(SYS(mt, mprotect, HOLE, 3 * PAGE, PR | PW), -ENOMEM);
	put_mem(mt, HOLE + PAGE, "x", 1);
	return 0;
}

RUN(mremap)
{
	long a, b;

	a = map(mt, 0, 4 * PAGE, PR | PW, ANON);
	put_mem(mt, (uint64_t)a, "one", 3);
	put_mem(mt, (uint64_t)a + PAGE, "two", 3);
	IS(SYS(mt, mremap, a, PAGE, PAGE, 8, 0), -EINVAL);
	IS(SYS(mt, mremap, a, PAGE, PAGE, LX_MREMAP_FIXED, HOLE), -EINVAL);
	IS(SYS(mt, mremap, a, PAGE, 2 * PAGE, LX_MREMAP_MAYMOVE | LX_MREMAP_DONTUNMAP, 0), -EINVAL);
	IS(SYS(mt, mremap, a + 1, PAGE, PAGE, 0, 0), -EINVAL);
	IS(SYS(mt, mremap, a, PAGE, 0, 0, 0), -EINVAL);
	IS(SYS(mt, mremap, HOLE, PAGE, PAGE, 0, 0), -EFAULT);
	IS(SYS(mt, mremap, a, 5 * PAGE, 6 * PAGE, LX_MREMAP_MAYMOVE, 0), -EFAULT);
	IS(SYS(mt, mremap, a, 0, PAGE, LX_MREMAP_MAYMOVE, 0), -EINVAL); /* not of private memory */
	IS(SYS(mt, mremap, a, PAGE, PAGE, 3, HOLE + 1), -EINVAL);
	IS(SYS(mt, mremap, a, PAGE, PAGE, 3, LX_TASK_SIZE), -EINVAL);
	IS(SYS(mt, mremap, a, 2 * PAGE, 2 * PAGE, 3, a + (long)PAGE), -EINVAL);
	/* Shrink, grow in place, grow by moving. */
	IS(SYS(mt, mremap, a, 4 * PAGE, 2 * PAGE, 0, 0), a);
	IS(SYS(mt, mremap, a, 2 * PAGE, 4 * PAGE, 0, 0), a);
	b = map(mt, (uint64_t)a + 4 * PAGE, PAGE, PR, ANON | FIX);
	IS(SYS(mt, mremap, a, 4 * PAGE, 8 * PAGE, 0, 0), -ENOMEM);
	b = SYS(mt, mremap, a, 4 * PAGE, 8 * PAGE, LX_MREMAP_MAYMOVE, 0);
	cr_assert(b > 0 && b != a);
	cr_expect(same_mem(mt, (uint64_t)b, "one", 3) &&
		  same_mem(mt, (uint64_t)b + PAGE, "two", 3));
	IS(SYS(mt, mprotect, a, PAGE, PR), -ENOMEM);
	/* To a place, over what was there; leaving the old one empty. */
	IS(map(mt, HOLE, 4 * PAGE, PR, ANON | FIX), HOLE);
	IS(SYS(mt, mremap, b, 2 * PAGE, 2 * PAGE, 7, HOLE + PAGE), HOLE + PAGE);
	cr_expect(same_mem(mt, HOLE + PAGE, "one", 3));
	IS(get_u32(mt, (uint64_t)b), 0);
	return 0;
}

RUN(heap)
{
	long start = SYS(mt, brk, 0), end;

	IS(SYS(mt, brk, start - 1), start);
	end = start + (long)(3 * PAGE) + 5;
	IS(SYS(mt, brk, end), end);
	put_mem(mt, (uint64_t)start, "heap", 4);
	IS(SYS(mt, brk, end + 10), end + 10);
	IS(SYS(mt, brk, LX_TASK_SIZE + PAGE), end + 10);
	/* Shrinking gives pages back; growing again finds zeros. */
	IS(SYS(mt, brk, start), start);
	IS(SYS(mt, brk, end), end);
	IS(get_u32(mt, (uint64_t)start), 0);
	/* Another mapping is in the way, with a page between. */
	IS(map(mt, page_up((uint64_t)end) + 2 * PAGE, PAGE, PR, ANON | FIX),
	   page_up((uint64_t)end) + 2 * PAGE);
	IS(SYS(mt, brk, end + (long)PAGE), end + (long)PAGE);
	IS(SYS(mt, brk, end + (long)(2 * PAGE)), end + (long)PAGE);
	return 0;
}

struct lim {
	uint64_t cur, max;
};

static void limit(struct mock_thread *mt, int what, uint64_t cur)
{
	/* The hard limit of locked memory goes along: without capabilities it cannot be raised
	 * again. */
	struct lim l = {cur, what == LX_RLIMIT_MEMLOCK ? cur : UINT64_MAX};

	IS(SYS(mt, setrlimit, what, put_mem(mt, B, &l, sizeof(l))), 0);
}

/* Root has CAP_IPC_LOCK: give it up, so that limits count. */
static void drop_caps(struct mock_thread *mt)
{
	uint32_t hdr[2] = {0x20080522, 0}, data[6] = {0};

	put_mem(mt, B, hdr, sizeof(hdr));
	IS(SYS(mt, capset, B, put_mem(mt, B + 64, data, sizeof(data))), 0);
}

RUN(limits)
{
	uint64_t big = (uint64_t)1 << 30;
	long start = SYS(mt, brk, 0), a;

	limit(mt, LX_RLIMIT_AS, big);
	IS(map(mt, 0, big, PR, ANON), -ENOMEM);
	a = map(mt, 0, big / 2, PR, ANON);
	cr_expect(a > 0);
	IS(SYS(mt, mremap, a, big / 2, big, LX_MREMAP_MAYMOVE, 0), -ENOMEM);
	/* What is replaced is not counted twice. */
	IS(map(mt, (uint64_t)a, big / 2, PR, ANON | FIX), a);
	IS(SYS(mt, munmap, a, big / 2), 0);
	limit(mt, LX_RLIMIT_AS, UINT64_MAX);
	limit(mt, LX_RLIMIT_DATA, 8 << 20);
	IS(map(mt, 0, 16 << 20, PR | PW, ANON), -ENOMEM);
	a = map(mt, 0, 16 << 20, PR, ANON);
	cr_expect(a > 0, "reading is no data");
	IS(SYS(mt, mprotect, a, 16 << 20, PR | PW), -ENOMEM);
	cr_expect(map(mt, 0, 16 << 20, PR | PW, SHANON) > 0);
	IS(SYS(mt, brk, start + (16 << 20)), start);
	limit(mt, LX_RLIMIT_DATA, UINT64_MAX);

	drop_caps(mt);
	limit(mt, LX_RLIMIT_MEMLOCK, 4 * PAGE);
	a = map(mt, 0, 8 * PAGE, PR | PW, ANON);
	IS(SYS(mt, mlock, a, 5 * PAGE), -ENOMEM);
	IS(SYS(mt, mlock, a, 4 * PAGE), 0);
	IS(SYS(mt, mlock, a, 4 * PAGE), 0);
	IS(SYS(mt, mlock, a + (long)(4 * PAGE), PAGE), -ENOMEM);
	IS(map(mt, 0, PAGE, PR, ANON | LX_MAP_LOCKED), -EAGAIN);
	IS(SYS(mt, madvise, a, PAGE, 4), -EINVAL); /* DONTNEED of locked memory */
	IS(SYS(mt, msync, a, PAGE, 2), -EBUSY);
	IS(SYS(mt, munlock, a, PAGE), 0);
	cr_expect(map(mt, 0, PAGE, PR, ANON | LX_MAP_LOCKED) > 0);
	IS(SYS(mt, mlockall, 1), -ENOMEM);
	IS(SYS(mt, mlockall, 2), 0);
	IS(map(mt, 0, PAGE, PR, ANON), -EAGAIN);
	IS(SYS(mt, munlockall), 0);
	cr_expect(map(mt, 0, PAGE, PR, ANON) > 0);
	limit(mt, LX_RLIMIT_MEMLOCK, 0);
	IS(SYS(mt, mlock, a, PAGE), -EPERM);
	IS(SYS(mt, mlockall, 1), -EPERM);
	IS(map(mt, 0, PAGE, PR, ANON | LX_MAP_LOCKED), -EPERM);
	return 0;
}

RUN(advice_errors)
{
	long a = map(mt, 0, 4 * PAGE, PR | PW, ANON);

	IS(SYS(mt, madvise, a, PAGE, 5), -EINVAL);
	IS(SYS(mt, madvise, a, PAGE, 99), -EINVAL);
	IS(SYS(mt, madvise, a + 1, PAGE, 4), -EINVAL);
	IS(SYS(mt, madvise, a, UINT64_MAX, 4), -EINVAL);
	IS(SYS(mt, madvise, a, 0, 4), 0);
	IS(SYS(mt, madvise, HOLE, PAGE, 4), -ENOMEM);
	IS(SYS(mt, madvise, a, PAGE, 100), -EPERM);
	IS(SYS(mt, madvise, a, PAGE, 9), -EINVAL); /* REMOVE: no file */
	IS(SYS(mt, munmap, a + (long)PAGE, PAGE), 0);
	put_mem(mt, (uint64_t)a + 2 * PAGE, "x", 1);
	IS(SYS(mt, madvise, a, 4 * PAGE, 4), -ENOMEM);
	IS(get_u32(mt, (uint64_t)a + 2 * PAGE), 0); /* but what is there is done */
	IS(SYS(mt, mincore, a + 1, PAGE, B), -EINVAL);
	IS(SYS(mt, mincore, HOLE, PAGE, B), -ENOMEM);
	IS(SYS(mt, mincore, a, PAGE, GUEST_BAD), -EFAULT);
	put_mem(mt, (uint64_t)a, "y", 1);
	IS(SYS(mt, mincore, a, PAGE, B), 0);
	IS(SYS(mt, msync, a, PAGE, 8), -EINVAL);
	IS(SYS(mt, msync, a, PAGE, 5), -EINVAL);
	IS(SYS(mt, msync, a + 1, PAGE, 4), -EINVAL);
	IS(SYS(mt, msync, HOLE, PAGE, 4), -ENOMEM);
	IS(SYS(mt, mlock2, a, PAGE, 2), -EINVAL);
	IS(SYS(mt, mlock2, a, PAGE, 1), 0);
	IS(SYS(mt, mlock, HOLE, PAGE), -ENOMEM);
	IS(SYS(mt, mlockall, 0), -EINVAL);
	IS(SYS(mt, mlockall, 4), -EINVAL);
	IS(SYS(mt, mlockall, 8), -EINVAL);
	return 0;
}

RUN(seals)
{
	long a = map(mt, 0, 3 * PAGE, PR | PW, ANON);

	IS(SYS(mt, mseal, a, PAGE, 1), -EINVAL);
	IS(SYS(mt, mseal, a + 1, PAGE, 0), -EINVAL);
	IS(SYS(mt, mseal, a, 4 * PAGE, 0), SYS(mt, mprotect, a, 4 * PAGE, PR | PW));
	IS(SYS(mt, mseal, a + (long)PAGE, PAGE, 0), 0);
	IS(SYS(mt, munmap, a, 3 * PAGE), -EPERM);
	IS(SYS(mt, munmap, a, PAGE), 0);
	IS(SYS(mt, mprotect, a + (long)PAGE, PAGE, PR), -EPERM);
	IS(SYS(mt, mremap, a + (long)PAGE, PAGE, 2 * PAGE, 1, 0), -EPERM);
	IS(map(mt, (uint64_t)a + PAGE, PAGE, PR, ANON | FIX), -EPERM);
	put_mem(mt, (uint64_t)a + PAGE, "still writable", 14);
	return 0;
}

RUN(growth)
{
	struct pf_regs *regs = mock_regs(mt);
	uint64_t stack = page_down(regs->rsp), low = stack - ((uint64_t)1 << 20);
	long a;

	/* The stack grows by a fault, and by a copy of the kernel's. */
	put_mem(mt, low, "grown", 5);
	cr_expect(same_mem(mt, low, "grown", 5));
	IS(SYS(mt, uname, low - ((uint64_t)1 << 20)), 0);
	/* Not beyond its limit. */
	IS(SYS(mt, uname, stack - ((uint64_t)9 << 20)), -EFAULT);
	limit(mt, LX_RLIMIT_STACK, (uint64_t)16 << 20);
	IS(SYS(mt, uname, stack - ((uint64_t)9 << 20)), 0);
	/* A mapping of that kind of our own, with something close below it. */
	a = map(mt, HOLE, PAGE, PR | PW, ANON | FIX | LX_MAP_GROWSDOWN);
	IS(a, HOLE);
	IS(SYS(mt, uname, HOLE - 8 * PAGE), 0);
	IS(map(mt, HOLE - 400 * PAGE, PAGE, PR, ANON | FIX), HOLE - 400 * PAGE);
	IS(SYS(mt, uname, HOLE - 100 * PAGE), 0);
	IS(SYS(mt, uname, HOLE - 200 * PAGE), -EFAULT); /* within the guard gap */
	/* Nothing is given out in that gap either. */
	IS(map(mt, HOLE - 120 * PAGE, PAGE, PR, ANON) != (long)(HOLE - 120 * PAGE), 1);
	/* PROT_GROWSDOWN reaches the start. */
	IS(SYS(mt, mprotect, HOLE, PAGE, PR | LX_PROT_GROWSDOWN), 0);
	IS(SYS(mt, uname, HOLE - 50 * PAGE), -EFAULT);
	return 0;
}

static int child_guest(struct mock_thread *mt, void *arg)
{
	uint64_t a = (uint64_t)(uintptr_t)arg;

	cr_expect(same_mem(mt, a, "kept", 4));
	cr_expect(same_mem(mt, a + PAGE, "\0\0\0\0", 4), "WIPEONFORK");
	IS(SYS(mt, mprotect, a + 2 * PAGE, PAGE, PR), -ENOMEM);
	put_mem(mt, a, "mine", 4);
	return 7;
}

RUN(fork)
{
	long a = map(mt, 0, 3 * PAGE, PR | PW, ANON), pid;
	uint32_t status;

	put_mem(mt, (uint64_t)a, "kept", 4);
	put_mem(mt, (uint64_t)a + PAGE, "wiped", 5);
	put_mem(mt, (uint64_t)a + 2 * PAGE, "hidden", 6);
	IS(SYS(mt, madvise, a + (long)PAGE, PAGE, 18), 0);
	IS(SYS(mt, madvise, a + (long)(2 * PAGE), PAGE, 10), 0);
	pid = mock_fork(mt, child_guest, (void *)(uintptr_t)a);
	cr_assert_gt(pid, 0);
	IS(SYS(mt, wait4, pid, B, 0, 0), pid);
	status = get_u32(mt, B);
	IS(status, 7 << 8);
	cr_expect(same_mem(mt, (uint64_t)a, "kept", 4));
	cr_expect(same_mem(mt, (uint64_t)a + PAGE, "wiped", 5));
	cr_expect(same_mem(mt, (uint64_t)a + 2 * PAGE, "hidden", 6));
	return 0;
}

struct ds {
	int32_t key;
	uint32_t uid, gid, cuid, cgid, mode;
	uint16_t seq, pad;
	uint64_t unused[2], segsz;
	int64_t atime, dtime, ctime;
	int32_t cpid, lpid;
	uint64_t nattch, more[2];
};

static uint64_t attaches(struct mock_thread *mt, long id)
{
	struct ds d;

	IS(SYS(mt, shmctl, id, 2, B), 0);
	mock_load(mt, &d, B, sizeof(d));
	return d.nattch;
}

static int shm_child(struct mock_thread *mt, void *arg)
{
	uint64_t *p = arg;

	IS(attaches(mt, (long)p[1]), 3);
	put_mem(mt, p[0], "child", 5);
	return 0;
}

RUN(segments)
{
	uint64_t args[2];
	long id, a, b, pid;

	IS(SYS(mt, shmget, 1234, 0, 01600), -EINVAL);
	IS(SYS(mt, shmget, 1234, PAGE, 0600), -ENOENT);
	id = SYS(mt, shmget, 1234, 2 * PAGE, 01600);
	cr_assert_geq(id, 0);
	IS(SYS(mt, shmget, 1234, PAGE, 0600), id);
	IS(SYS(mt, shmget, 1234, 3 * PAGE, 0600), -EINVAL);
	IS(SYS(mt, shmget, 1234, PAGE, 03600), -EEXIST);
	IS(SYS(mt, shmat, id, 1, 0), -EINVAL);
	IS(SYS(mt, shmat, id, 0, 040000), -EINVAL);
	IS(SYS(mt, shmat, id + 1, 0, 0), -EINVAL);
	a = SYS(mt, shmat, id, 0, 0);
	b = SYS(mt, shmat, id, HOLE + 5, 020000 | 010000); /* rounded, read-only */
	IS(b, HOLE);
	IS(SYS(mt, shmat, id, HOLE, 0), -EINVAL);
	put_mem(mt, (uint64_t)a, "parent", 6);
	cr_expect(same_mem(mt, HOLE, "parent", 6));
	IS(SYS(mt, mprotect, HOLE, PAGE, PR | PW), -EACCES);
	IS(attaches(mt, id), 2);
	IS(SYS(mt, shmdt, HOLE), 0);
	IS(SYS(mt, shmdt, HOLE), -EINVAL);
	IS(SYS(mt, shmdt, HOLE + 1), -EINVAL);
	/* Each piece of a split mapping counts. */
	IS(SYS(mt, mprotect, a, PAGE, PR), 0);
	IS(attaches(mt, id), 2);
	IS(SYS(mt, mprotect, a, PAGE, PR | PW), 0);
	IS(attaches(mt, id), 1);
	IS(SYS(mt, munmap, a, PAGE), 0);
	IS(attaches(mt, id), 1);
	/* shmdt takes what is left of it, by the address where it began. */
	IS(SYS(mt, shmdt, a), 0);
	IS(attaches(mt, id), 0);
	/* A fork counts once more, but for what it does not get; the child's exit undoes it. */
	a = SYS(mt, shmat, id, 0, 0);
	b = SYS(mt, shmat, id, 0, 0);
	IS(SYS(mt, madvise, a, 2 * PAGE, 10), 0); /* DONTFORK */
	args[0] = (uint64_t)b;
	args[1] = (uint64_t)id;
	pid = mock_fork(mt, shm_child, args);
	IS(SYS(mt, wait4, pid, B, 0, 0), pid);
	IS(get_u32(mt, B), 0);
	cr_expect(same_mem(mt, args[0], "child", 5));
	IS(attaches(mt, id), 2);
	/* Removed while attached: it loses its key, and goes with the last. */
	IS(SYS(mt, shmctl, id, 0, 0), 0);
	IS(SYS(mt, shmget, 1234, PAGE, 0600), -ENOENT);
	IS(attaches(mt, id), 2);
	IS(SYS(mt, shmdt, a), 0);
	IS(SYS(mt, shmdt, b), 0);
	IS(SYS(mt, shmctl, id, 2, B), -EINVAL);
	IS(SYS(mt, shmctl, -1, 2, B), -EINVAL);
	IS(SYS(mt, shmctl, 0, 99, B), -EINVAL);
	IS(SYS(mt, shmctl, 0, 3, GUEST_BAD), -EFAULT);
	IS(SYS(mt, shmctl, 0, 3, B), 0);
	return 0;
}

RUN(names)
{
	long a = map(mt, 0, 3 * PAGE, PR | PW, ANON);
	struct task *t = task_find((int32_t)SYS(mt, gettid));
	struct mm *mm = task_get_mm(t);
	char buf[VMA_NAME_MAX];
	const char *name;

	IS(SYS(mt, prctl, 0x53564d41, 0, a + (long)PAGE, PAGE, put_str(mt, A, "my memory")), 0);
	IS(SYS(mt, prctl, 0x53564d41, 0, a, PAGE, put_str(mt, A, "bad[")), -EINVAL);
	IS(SYS(mt, prctl, 0x53564d41, 0, a + 1, PAGE, put_str(mt, A, "x")), -EINVAL);
	IS(SYS(mt, prctl, 0x53564d41, 0, HOLE, PAGE, A), -ENOMEM);
	IS(SYS(mt, prctl, 0x53564d41, 1, a, PAGE, A), -EINVAL);
	fmutex_lock(&mm->lock);
	name = mm_vma_name(mm, mm_find(mm, (uint64_t)a + PAGE), buf, sizeof(buf));
	cr_expect_str_eq(name, "[anon:my memory]");
	cr_expect_null(mm_vma_name(mm, mm_find(mm, (uint64_t)a), buf, sizeof(buf)));
	name = mm_vma_name(mm, mm_find(mm, mock_regs(mt)->rsp), buf, sizeof(buf));
	cr_expect_str_eq(name, "[stack]");
	fmutex_unlock(&mm->lock);
	/* Without it the three are one again. */
	IS(SYS(mt, prctl, 0x53564d41, 0, a, 3 * PAGE, 0), 0);
	fmutex_lock(&mm->lock);
	cr_expect_eq(mm_find(mm, (uint64_t)a)->end, (uint64_t)a + 3 * PAGE);
	fmutex_unlock(&mm->lock);
	mm_put(mm);
	task_put(t);
	return 0;
}

RUN(remote_memory)
{
	long pid = SYS(mt, getpid), a = map(mt, 0, 2 * PAGE, PR | PW, ANON);
	uint64_t local[2] = {B + 512, 10}, remote[4] = {(uint64_t)a, 4, (uint64_t)a + PAGE, 6};
	uint64_t hole[4] = {(uint64_t)a, 4, GUEST_BAD, 6};

	put_mem(mt, (uint64_t)a, "abcd", 4);
	put_mem(mt, (uint64_t)a + PAGE, "efghij", 6);
	put_mem(mt, B, local, sizeof(local));
	put_mem(mt, B + 64, remote, sizeof(remote));
	IS(SYS(mt, process_vm_readv, pid, B, 1, B + 64, 2, 0), 10);
	cr_expect(same_mem(mt, B + 512, "abcdefghij", 10));
	put_mem(mt, B + 512, "0123456789", 10);
	IS(SYS(mt, process_vm_writev, pid, B, 1, B + 64, 2, 0), 10);
	cr_expect(same_mem(mt, (uint64_t)a + PAGE, "456789", 6));
	put_mem(mt, B + 64, hole, sizeof(hole));
	IS(SYS(mt, process_vm_readv, pid, B, 1, B + 64, 2, 0), 4);
	IS(SYS(mt, process_vm_readv, pid, B, 1, B + 80, 1, 0), -EFAULT);
	IS(SYS(mt, process_vm_readv, pid, B, 1, B + 64, 2, 1), -EINVAL);
	IS(SYS(mt, process_vm_readv, 9999, B, 1, B + 64, 2, 0), -ESRCH);
	IS(SYS(mt, process_vm_readv, 9999, B, 0, B + 64, 2, 0), 0);
	IS(SYS(mt, process_vm_readv, pid, B, 1025, B + 64, 2, 0), -EINVAL);
	IS(SYS(mt, membarrier, 0, 0) > 0, 1);
	IS(SYS(mt, membarrier, 8, 0), -EPERM);
	IS(SYS(mt, membarrier, 16, 0), 0);
	IS(SYS(mt, membarrier, 8, 0), 0);
	IS(SYS(mt, membarrier, 0, 1), -EINVAL);
	return 0;
}
