/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of tmpfs files at random against a plain array, as heap pages and as memfds, with a
 * "guest" that maps them; seals and shared memory.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lx_fcntl.h"
#include "tests/unit/fs_model.h"
#include "vfs/memfd.h"
#include "vfs/tmpfs.h"
#include "vfs/tmpfs_pages.h"

#define MAX_SIZE (1u << 20)

static unsigned g_seed;

static unsigned rnd(unsigned n)
{
	g_seed = g_seed * 1103515245u + 12345u;
	return (g_seed >> 7) % n;
}

struct model {
	uint8_t *byte; /* beyond size: zero */
	size_t size;
};

static void check(struct fsenv *e, struct file *f, const struct model *m, const char *when,
		  unsigned step)
{
	static uint8_t buf[MAX_SIZE + 4096];
	struct kstat st;
	ssize_t n = fsm_pread(e, f, buf, sizeof(buf), 0);

	cr_assert_eq(n, (ssize_t)m->size, "step %u, %s: %zd bytes, not %zu", step, when, n,
		     m->size);
	for (size_t i = 0; i < m->size; i++)
		cr_assert_eq(buf[i], m->byte[i], "step %u, %s: byte %zu of %zu is %u, not %u", step,
			     when, i, m->size, buf[i], m->byte[i]);
	cr_assert_eq(inode_getattr(f->inode, &st), 0);
	cr_assert_eq(st.size, m->size);
	/* SEEK_DATA and SEEK_HOLE agree with what is there: no byte that is not zero in a hole. */
	int64_t at = 0;

	while (at < (int64_t)m->size) {
		int64_t data = vfs_lseek(f, at, LX_SEEK_DATA);
		int64_t end = data == -ENXIO ? (int64_t)m->size : data;

		cr_assert(data == -ENXIO || data >= at);
		for (int64_t i = at; i < end; i++)
			cr_assert_eq(m->byte[i], 0, "step %u, %s: byte %ld is in a hole", step,
				     when, i);
		if (data == -ENXIO)
			break;
		at = vfs_lseek(f, data, LX_SEEK_HOLE);
		cr_assert(at > data, "step %u: hole %ld after data %ld", step, at, data);
	}
}

static void write_some(struct fsenv *e, struct file *f, struct model *m, unsigned max)
{
	size_t off = rnd(max), len = 1 + rnd(rnd(4) ? 5000 : 100000);
	uint8_t *data = malloc(len);

	len = MIN(len, MAX_SIZE - off);
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(1 + rnd(255));
	cr_assert_eq(fsm_pwrite(e, f, data, len, (int64_t)off), (ssize_t)len);
	memcpy(m->byte + off, data, len);
	m->size = MAX(m->size, off + len);
	free(data);
}

static void set_size(struct fsenv *e, struct file *f, struct model *m, size_t size)
{
	cr_assert_eq(vfs_ftruncate(&e->ctx, f, (int64_t)size), 0);
	if (size < m->size)
		memset(m->byte + size, 0, m->size - size);
	m->size = size;
}

static void fallocate_some(struct fsenv *e, struct file *f, struct model *m, unsigned max)
{
	size_t off = rnd(max), len = 1 + rnd(60000), end;
	size_t poff = off & ~4095ul, plen = (len & ~4095ul) + 4096;

	switch (rnd(5)) {
	case 0:
		cr_assert_eq(vfs_fallocate(&e->ctx, f, 0, (int64_t)off, (int64_t)len), 0);
		m->size = MAX(m->size, off + len);
		break;
	case 1:
		cr_assert_eq(vfs_fallocate(&e->ctx, f,
					   LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_KEEP_SIZE,
					   (int64_t)off, (int64_t)len),
			     0);
		end = MIN(off + len, m->size);
		if (off < end)
			memset(m->byte + off, 0, end - off);
		break;
	case 2: {
		int keep = rnd(2) ? LX_FALLOC_FL_KEEP_SIZE : 0;

		cr_assert_eq(vfs_fallocate(&e->ctx, f, LX_FALLOC_FL_ZERO_RANGE | keep, (int64_t)off,
					   (int64_t)len),
			     0);
		if (!keep)
			m->size = MAX(m->size, off + len);
		end = MIN(off + len, m->size);
		if (off < end)
			memset(m->byte + off, 0, end - off);
		break;
	}
	case 3: {
		int r = vfs_fallocate(&e->ctx, f, LX_FALLOC_FL_COLLAPSE_RANGE, (int64_t)poff,
				      (int64_t)plen);

		if (poff + plen >= m->size) {
			cr_assert_eq(r, -EINVAL);
			break;
		}
		cr_assert_eq(r, 0);
		memmove(m->byte + poff, m->byte + poff + plen, m->size - poff - plen);
		memset(m->byte + m->size - plen, 0, plen);
		m->size -= plen;
		break;
	}
	default: {
		if (m->size + plen > MAX_SIZE)
			break;
		int r = vfs_fallocate(&e->ctx, f, LX_FALLOC_FL_INSERT_RANGE, (int64_t)poff,
				      (int64_t)plen);

		if (poff >= m->size) {
			cr_assert_eq(r, -EINVAL);
			break;
		}
		cr_assert_eq(r, 0);
		memmove(m->byte + poff + plen, m->byte + poff, m->size - poff);
		memset(m->byte + poff, 0, plen);
		m->size += plen;
		break;
	}
	}
}

/* A guest maps the file and writes a byte within it, and beyond its end within the last page. */
static void map_and_write(struct file *f, struct model *m)
{
	struct file_map fm = {.size = 4096, .prot = LX_PROT_READ | LX_PROT_WRITE, .shared = true};

	if (!m->size)
		return;
	size_t at = rnd((unsigned)m->size), page = at & ~4095ul;

	fm.offset = page;
	cr_assert_eq(f->ops->mmap(f, &fm), 0);
	cr_assert_neq(fm.key, 0);
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fm.host_fd,
			  (off_t)fm.host_offset);

	cr_assert_neq(p, MAP_FAILED);
	cr_assert_eq(p[at - page], m->byte[at]);
	p[at - page] = m->byte[at] = (uint8_t)(1 + rnd(255));
	if (m->size - page < 4096)
		p[4095] = 99; /* must not show when the file grows */
	munmap(p, 4096);
}

static void random_run(unsigned seed, unsigned max, unsigned steps, unsigned map_one_in)
{
	struct model m = {.byte = calloc(1, MAX_SIZE + (1 << 18))};
	struct fsenv e;
	struct file *f;

	g_seed = seed;
	fsenv_up_tmpfs(&e, "");
	cr_assert_eq(fsm_open(&e, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &f), 0);
	for (unsigned i = 0; i < steps; i++) {
		unsigned op = rnd(10);

		if (map_one_in && rnd(map_one_in) == 0)
			map_and_write(f, &m);
		if (op < 5)
			write_some(&e, f, &m, max);
		else if (op < 7)
			set_size(&e, f, &m, rnd(rnd(8) ? max : 2));
		else
			fallocate_some(&e, f, &m, max);
		check(&e, f, &m, "after", i);
	}
	file_put(f);
	cr_expect_eq(vfs_unlink(&e.ctx, NULL, "/f"), 0);
	struct path root;
	struct kstatfs st;

	cr_assert_eq(path_lookup(&e.ctx, NULL, "/", 0, &root), 0);
	cr_assert_eq(vfs_statfs(&root, &st), 0);
	cr_expect_eq(st.bfree, st.blocks, "%lu blocks are lost", st.blocks - st.bfree);
	path_put(&root);
	fsenv_down(&e);
	free(m.byte);
	cr_expect_eq(tmpfs_pages_in_use(), 0);
}

Test(tmpfs_data, small_files)
{
	for (unsigned seed = 1; seed <= 20; seed++)
		random_run(seed, 60000, 150, 0);
}

Test(tmpfs_data, big_files)
{
	for (unsigned seed = 1; seed <= 6; seed++)
		random_run(seed, 900000, 120, 0);
}

Test(tmpfs_data, mapped_files)
{
	for (unsigned seed = 1; seed <= 12; seed++)
		random_run(seed, seed % 2 ? 60000 : 900000, 120, 4);
}

Test(tmpfs_data, sparse)
{
	struct fsenv e;
	struct file *f;
	struct kstat st;
	char buf[8];

	fsenv_up_tmpfs(&e, "");
	cr_assert_eq(fsm_open(&e, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &f), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "end", 3, (int64_t)1 << 40), 3);
	cr_expect_eq(inode_getattr(f->inode, &st), 0);
	cr_expect_eq(st.blocks, 8);
	cr_expect_eq(vfs_lseek(f, 0, LX_SEEK_DATA), (int64_t)1 << 40);
	cr_expect_eq(vfs_lseek(f, (int64_t)1 << 40, LX_SEEK_HOLE), ((int64_t)1 << 40) + 3);
	cr_expect_eq(fsm_pread(&e, f, buf, 8, ((int64_t)1 << 40) - 2), 5);
	cr_expect_eq(memcmp(buf, "\0\0end", 5), 0);
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, INT64_MAX), -EFBIG);
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, (int64_t)1 << 50), 0);
	/* Mapped, it is no bigger. */
	struct file_map m = {.size = 4096, .prot = LX_PROT_READ, .shared = true};

	cr_assert_eq(f->ops->mmap(f, &m), 0);
	cr_expect_eq(inode_getattr(f->inode, &st), 0);
	cr_expect_eq(st.blocks, 8);
	cr_expect_eq(fsm_pread(&e, f, buf, 8, (int64_t)1 << 40), 8);
	cr_expect_eq(memcmp(buf, "end\0\0", 5), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "x", 1, (int64_t)1 << 41), 1);
	file_put(f);
	fsenv_down(&e);
}

static void read_much(struct file *f)
{
	static char buf[65536];

	g_fsm_given.take = false;
	for (unsigned i = 0; i < 9; i++)
		cr_assert_gt(fsm_pread_given(f, buf, sizeof(buf), 0), 0);
}

/* A file that was read much can be had without a copy: what lies in it and in one part. */
Test(tmpfs_data, views)
{
	static char buf[65536], data[3 << 20];
	struct fsenv e;
	struct file *f;
	struct stat st;
	uint64_t first;
	char *p;

	fsenv_up_tmpfs(&e, "");
	cr_assert_eq(fsm_open(&e, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &f), 0);
	memset(data, 'd', sizeof(data));
	cr_assert_eq(fsm_pwrite(&e, f, data, 70000, 0), 70000);
	cr_expect_eq(fsm_pread_given(f, buf, 65536, 0), 65536);
	cr_expect_eq(g_fsm_given.count, 0, "after one read");
	read_much(f);
	g_fsm_given.take = true;
	memset(buf, 'e', sizeof(buf));
	cr_expect_eq(fsm_pread_given(f, buf, 4096, 100), 4096);
	cr_expect_eq(g_fsm_given.count, 1);
	cr_expect_eq(buf[0], 'e', "nobody has copied");
	cr_expect_eq(g_fsm_given.pos, 100);
	cr_expect_eq(g_fsm_given.size, 4096);
	cr_expect_eq(g_fsm_given.file.start, 0);
	cr_expect_eq(g_fsm_given.file.size, 1 << 20);
	first = g_fsm_given.file.id;
	p = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, g_fsm_given.file.host_fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	cr_expect_eq(p[69999], 'd');
	/* What is too small, across the end, and behind it. */
	cr_expect_eq(fsm_pread_given(f, buf, 100, 0), 100);
	cr_expect_eq(g_fsm_given.count, 0);
	cr_expect_eq(fsm_pread_given(f, buf, 65536, 60000), 10000);
	cr_expect_eq(g_fsm_given.size, 10000);
	cr_expect_eq(fsm_pread_given(f, buf, 65536, 69990), 10);
	cr_expect_eq(g_fsm_given.count, 0);
	cr_expect_eq(fsm_pread_given(f, buf, 65536, 70000), 0);
	g_fsm_given.take = false;
	cr_expect_eq(fsm_pread_given(f, buf, 4096, 0), 4096);
	cr_expect_eq(g_fsm_given.count, 1);
	cr_expect_eq(buf[4095], 'd', "who does not take it has a copy");
	/* It grows: the same, and other parts. */
	g_fsm_given.take = true;
	cr_assert_eq(fsm_pwrite(&e, f, data, sizeof(data), 0), sizeof(data));
	cr_expect_eq(fsm_pread_given(f, buf, 4096, (1 << 20) - 4096), 4096);
	cr_expect_eq(g_fsm_given.file.id, first);
	cr_expect_eq(p[(1 << 20) - 1], 'd');
	cr_expect_eq(fsm_pread_given(f, buf, 4096, (1 << 20) - 4095), 4096);
	cr_expect_eq(g_fsm_given.count, 0, "in two parts");
	cr_expect_eq(fsm_pread_given(f, buf, 4096, 2 << 20), 4096);
	cr_expect(g_fsm_given.file.id != first);
	cr_expect_eq(g_fsm_given.file.start, 2 << 20);
	/* With a hole, which a look would fill. */
	cr_assert_eq(vfs_ftruncate(&e.ctx, f, 4 << 20), 0);
	cr_expect_eq(fsm_pread_given(f, buf, 4096, 0), 4096);
	cr_expect_eq(g_fsm_given.count, 0);
	/* Emptied, it is another, and what was seen is gone. */
	cr_assert_eq(vfs_ftruncate(&e.ctx, f, 0), 0);
	cr_expect_eq(fstat(g_fsm_given.file.host_fd, &st), -1);
	munmap(p, 1 << 20);
	cr_assert_eq(fsm_pwrite(&e, f, data, 70000, 0), 70000);
	read_much(f);
	g_fsm_given.take = true;
	cr_expect_eq(fsm_pread_given(f, buf, 4096, 0), 4096);
	cr_expect_eq(g_fsm_given.count, 1);
	cr_expect(g_fsm_given.file.id != first);
	/* So when the file goes. */
	const int fd = dup(g_fsm_given.file.host_fd);

	file_put(f);
	cr_assert_eq(vfs_unlink(&e.ctx, NULL, "/f"), 0);
	cr_expect_eq(fstat(fd, &st), 0);
	cr_expect_eq(st.st_size, 0);
	close(fd);
	fsenv_down(&e);
}

/* Of few descriptors files take a part: the others are copied as ever. */
Test(tmpfs_data, few_descriptors)
{
	static char data[70000], buf[4096];
	struct file *f[3];
	struct fsenv e;

	fsenv_up_tmpfs(&e, "");
	tmpfs_set_descriptors(10);
	for (unsigned i = 0; i < ARRAY_SIZE(f); i++) {
		char name[] = {'/', (char)('a' + i), 0};

		cr_assert_eq(fsm_open(&e, name, LX_O_CREAT | LX_O_RDWR, 0600, &f[i]), 0);
		cr_assert_eq(fsm_pwrite(&e, f[i], data, sizeof(data), 0), sizeof(data));
		read_much(f[i]);
		g_fsm_given.take = true;
		cr_expect_eq(fsm_pread_given(f[i], buf, sizeof(buf), 0), sizeof(buf));
		cr_expect_eq(g_fsm_given.count, i < 2, "file %u", i);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(f); i++)
		file_put(f[i]);
	tmpfs_set_descriptors(UINT64_MAX);
	fsenv_down(&e);
}

/* What guests make by touching a mapping is found and counted. */
Test(tmpfs_data, charge_of_mappings)
{
	struct fsenv e;
	struct file *f;
	struct kstat st;
	struct file_map m = {.size = 1 << 20, .prot = LX_PROT_READ | LX_PROT_WRITE, .shared = true};

	fsenv_up_tmpfs(&e, "size=64k");
	cr_assert_eq(fsm_open(&e, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &f), 0);
	cr_assert_eq(vfs_ftruncate(&e.ctx, f, 1 << 20), 0);
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, m.host_fd, 0);

	cr_assert_neq(p, MAP_FAILED);
	for (unsigned i = 0; i < 32; i++)
		p[i * 4096] = 1;
	cr_expect_eq(inode_getattr(f->inode, &st), 0);
	cr_expect_eq(st.blocks, 32 * 8);
	cr_expect_eq(fsm_put(&e, "/g", "x"), -ENOSPC);
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, 0), 0);
	cr_expect_eq(fsm_put(&e, "/g", "x"), 0);
	munmap(p, 1 << 20);
	file_put(f);
	fsenv_down(&e);
}

/* A source that faults midway: what was copied counts, nothing else changes. */
static ssize_t faulty_in(void *ctx, uint64_t base, void *buf, size_t size)
{
	uint64_t good = *(uint64_t *)ctx;
	size_t n = base >= good ? 0 : MIN(size, good - base);

	memset(buf, 'g', n);
	return n ? (ssize_t)n : -EFAULT;
}

Test(tmpfs_data, faults)
{
	static const struct uio_ops ops = {.copy_in = faulty_in};

	for (unsigned big = 0; big < 2; big++) {
		struct fsenv e;
		struct file *f;
		struct kstat st;
		char buf[16];
		uint64_t good = 5000;
		struct uio_seg seg = {0, 400000};
		struct uio u;
		int64_t pos = 0;

		fsenv_up_tmpfs(&e, "");
		cr_assert_eq(fsm_open(&e, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &f), 0);
		if (!big)
			seg.size = 20000;
		uio_init(&u, &ops, &good, &seg, 1, seg.size);
		cr_expect_eq(vfs_write(&e.ctx, f, &u, &pos), 5000);
		good = 0;
		pos = 8192;
		uio_init(&u, &ops, &good, &seg, 1, seg.size);
		cr_expect_eq(vfs_write(&e.ctx, f, &u, &pos), -EFAULT);
		cr_expect_eq(inode_getattr(f->inode, &st), 0);
		cr_expect_eq(st.size, 5000);
		cr_expect_eq(st.blocks, 16, "%lu", st.blocks);
		cr_expect_eq(vfs_ftruncate(&e.ctx, f, 9000), 0);
		cr_expect_eq(fsm_pread(&e, f, buf, 16, 4990), 16);
		cr_expect_eq(memcmp(buf, "gggggggggg\0\0\0\0\0", 16), 0);
		file_put(f);
		fsenv_down(&e);
	}
}

/* ---- memfd ---- */

static struct file *memfd(struct fsenv *e, unsigned flags)
{
	struct file *f;
	int r = memfd_create_file(&e->ctx, "name", flags, &f);

	cr_assert_eq(r, 0, "%d", r);
	return f;
}

Test(memfd, flags)
{
	static const char long_name[] =
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"aaaaaaaaaaaaaaaa";
	struct fsenv e;
	struct file *f;
	struct kstat st;
	char buf[64];

	fsenv_up_tmpfs(&e, "");
	cr_expect_eq(memfd_create_file(&e.ctx, "x", 0x100, &f), -EINVAL);
	cr_expect_eq(memfd_create_file(&e.ctx, "x", LX_MFD_EXEC | LX_MFD_NOEXEC_SEAL, &f), -EINVAL);
	cr_expect_eq(memfd_create_file(&e.ctx, "x", LX_MFD_HUGETLB, &f), -ENOSYS);
	cr_expect_eq(strlen(long_name), 250);
	cr_expect_eq(memfd_create_file(&e.ctx, long_name, 0, &f), -EINVAL);
	cr_assert_eq(memfd_create_file(&e.ctx, long_name + 1, 0, &f), 0);
	cr_expect_eq(memfd_get_seals(f), LX_F_SEAL_SEAL);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_WRITE), -EPERM);
	cr_expect_eq(inode_getattr(f->inode, &st), 0);
	cr_expect_eq(st.mode, LX_S_IFREG | 0777);
	cr_expect_eq(st.nlink, 0);
	file_put(f);
	f = memfd(&e, LX_MFD_NOEXEC_SEAL);
	cr_expect_eq(memfd_get_seals(f), LX_F_SEAL_EXEC);
	struct iattr attr = {.valid = ATTR_MODE, .mode = 0777};

	cr_expect_eq(vfs_setattr(&e.ctx, &f->path, &attr), -EPERM);
	attr.mode = 0600;
	cr_expect_eq(vfs_setattr(&e.ctx, &f->path, &attr), 0);
	struct path root;

	fs_get_root(e.fs, &root);
	ssize_t n = path_text(&f->path, &root, buf, sizeof(buf) - 1);

	path_put(&root);
	cr_assert(n > 0);
	buf[n] = '\0';
	cr_expect_str_eq(buf, "/memfd:name (deleted)");
	file_put(f);
	fsenv_down(&e);
}

Test(memfd, seals)
{
	struct file_map m = {.size = 4096, .prot = LX_PROT_READ | LX_PROT_WRITE, .shared = true};
	struct fsenv e;
	struct file *f;

	fsenv_up_tmpfs(&e, "");
	f = memfd(&e, LX_MFD_ALLOW_SEALING);
	cr_expect_eq(memfd_get_seals(f), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "0123456789", 10, 0), 10);
	cr_expect_eq(memfd_add_seals(f, 0x100), -EINVAL);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_GROW), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "0123456789", 10, 5), -EPERM);
	cr_expect_eq(fsm_pwrite(&e, f, "abc", 3, 7), 3);
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, 11), -EPERM);
	cr_expect_eq(vfs_fallocate(&e.ctx, f, 0, 0, 11), -EPERM);
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, 8), 0);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_SHRINK), 0);
	cr_expect_eq(vfs_ftruncate(&e.ctx, f, 7), -EPERM);
	/* Mapped writably: busy. */
	cr_expect_eq(f->ops->mmap(f, &m), 0);
	cr_expect_eq(memfd_map_write_get(f), 0);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_WRITE), -EBUSY);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_FUTURE_WRITE), 0);
	cr_expect_eq(f->ops->mmap(f, &m), -EPERM);
	m.prot = LX_PROT_READ;
	cr_expect_eq(f->ops->mmap(f, &m), 0);
	cr_expect(!(m.max_prot & LX_PROT_WRITE));
	m.shared = false;
	m.prot = LX_PROT_READ | LX_PROT_WRITE;
	cr_expect_eq(f->ops->mmap(f, &m), 0);
	cr_expect_eq(fsm_pwrite(&e, f, "x", 1, 0), -EPERM);
	cr_expect_eq(
		vfs_fallocate(&e.ctx, f, LX_FALLOC_FL_PUNCH_HOLE | LX_FALLOC_FL_KEEP_SIZE, 0, 4),
		-EPERM);
	memfd_map_write_put(f);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_WRITE), 0);
	cr_expect_eq(memfd_map_write_get(f), -EPERM);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_WRITE), 0);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_SEAL), 0);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_WRITE), -EPERM);
	cr_expect_eq(memfd_get_seals(f), LX_F_SEAL_SEAL | LX_F_SEAL_SHRINK | LX_F_SEAL_GROW |
						 LX_F_SEAL_WRITE | LX_F_SEAL_FUTURE_WRITE);
	file_put(f);
	/* Files with a name. */
	cr_assert_eq(fsm_open(&e, "/f", LX_O_CREAT | LX_O_RDWR, 0600, &f), 0);
	cr_expect_eq(memfd_get_seals(f), LX_F_SEAL_SEAL);
	cr_expect_eq(memfd_add_seals(f, LX_F_SEAL_WRITE), -EPERM);
	file_put(f);
	fsenv_down(&e);
	cr_expect_eq(tmpfs_pages_in_use(), 0);
}

static uint64_t g_gone;

static void note_gone(uint64_t key)
{
	g_gone = key;
}

Test(memfd, shared_memory)
{
	struct file_map m = {.size = 8192, .prot = LX_PROT_READ | LX_PROT_WRITE, .shared = true};
	struct fsenv e;
	struct file *f;
	char buf[4];

	fsenv_up_tmpfs(&e, "");
	g_vfs_file_gone = note_gone;
	cr_assert_eq(shmem_new(5000, "/dev/zero (deleted)", &f), 0);
	cr_assert_eq(f->ops->mmap(f, &m), 0);
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, m.host_fd,
		       (off_t)m.host_offset);

	cr_assert_neq(p, MAP_FAILED);
	p[8191] = 'z';
	cr_expect_eq(fsm_pread(&e, f, buf, 4, 8188), 4);
	cr_expect_eq(buf[3], 'z');
	munmap(p, 8192);
	file_put(f);
	cr_expect_eq(g_gone, m.key);
	g_vfs_file_gone = NULL;
	cr_expect_eq(shmem_new(UINT64_MAX - 4095, "x", &f), -ENOMEM);
	fsenv_down(&e);
}
