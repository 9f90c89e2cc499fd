/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of /proc/PID that show memory.
 *
 * Deviations from Linux: PROCMAP_QUERY finds no build id in any file.
 */
#include "sentry/file_args.h"
#include "sentry/proc.h"

#include "vfs/chrdev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A reference to the memory of the object's process; NULL with *r (-ESRCH; 0: it has none any
 * more). */
static struct mm *mm_of(void *obj, int *r, bool guarded)
{
	struct task *t = guarded ? proc_task_access(obj, r) : proc_task(obj);
	struct mm *mm;

	if (!t) {
		if (!guarded)
			*r = -ESRCH;
		return NULL;
	}
	mm = task_get_mm(t);
	task_put(t);
	*r = 0;
	return mm;
}

void proc_mem_counts(struct mm *mm, struct mem_counts *out)
{
	struct pf_mem_stats ms = {0};
	struct vma *v;

	memset(out, 0, sizeof(*out));
	fmutex_lock(&mm->lock);
	vma_foreach (v, mm) {
		uint64_t size = v->end - v->start;
		bool exec = v->prot & LX_PROT_EXEC;

		out->size += size;
		if (v->flags & VMA_STACK)
			out->stack += size;
		else if ((v->prot & LX_PROT_WRITE) && !(v->flags & VMA_SHARED))
			out->data += size;
		if (v->flags & VMA_LOCKED)
			out->locked += size;
		if (exec && v->start >= page_down(mm->start_code) && v->start < mm->end_code)
			out->exec += size;
		else if (exec)
			out->lib += size;
	}
	out->text = page_up(mm->end_code) - page_down(mm->start_code);
	fmutex_unlock(&mm->lock);
	g_pf->mem_stats(mm->as, &ms);
	out->rss = ms.rss_bytes;
	out->shared = MIN(ms.shared_bytes, ms.rss_bytes);
	out->peak_rss = MAX(ms.peak_rss_bytes, ms.rss_bytes);
}

/* Which file a mapping is of. Those of one file stand beside each other, and the host is asked
 * once. */
struct file_id {
	struct inode *inode; /* only compared */
	uint64_t dev, ino;
};

static struct file_id file_id(const struct vma *v, struct file_id *last)
{
	struct kstat st;

	if (!v->file)
		return (struct file_id){0};
	if (last->inode != v->file->inode) {
		*last = (struct file_id){.inode = v->file->inode};
		if (inode_getattr(v->file->inode, &st) == 0) {
			last->dev = st.dev;
			last->ino = st.ino;
		}
	}
	return *last;
}

/* What stands behind a mapping's line, in @buf or not; NULL: nothing. */
static const char *vma_name(struct mm *mm, struct vma *v, const struct path *root,
			    char buf[LX_PATH_MAX]) REQUIRES(mm->lock)
{
	const char *name = mm_vma_name(mm, v, buf, VMA_NAME_MAX);

	if (name || !v->file)
		return name;
	return path_text(&v->file->path, root, buf, LX_PATH_MAX) > 0 ? buf : NULL;
}

static void vma_line(struct textbuf *out, struct mm *mm, struct vma *v, const struct path *root,
		     struct file_id *last) REQUIRES(mm->lock)
{
	char name_buf[LX_PATH_MAX];
	const char *name = vma_name(mm, v, root, name_buf);
	const struct file_id id = file_id(v, last);
	size_t start = out->size;

	text_printf(out, "%08lx-%08lx %c%c%c%c %08lx %02x:%02x %lu ", v->start, v->end,
		    v->prot & LX_PROT_READ ? 'r' : '-', v->prot & LX_PROT_WRITE ? 'w' : '-',
		    v->prot & LX_PROT_EXEC ? 'x' : '-', v->flags & VMA_SHARED ? 's' : 'p',
		    v->file ? v->offset : 0ul, lx_dev_major(id.dev), lx_dev_minor(id.dev), id.ino);
	if (name) {
		size_t used = out->size - start;

		text_printf(out, "%*s", used < 73 ? (int)(73 - used) : 0, "");
		for (const char *p = name; *p; p++) {
			if (*p == '\n')
				text_printf(out, "\\012");
			else
				text_append(out, p, 1);
		}
	}
	text_printf(out, "\n");
}

/* Pages that are asked for at once, and at least: a process of many small mappings would cost a
 * look at the host for each, with the memory locked meanwhile. */
#define RESIDENT_CHUNK 4096
#define RESIDENT_AHEAD 512

/* What is known of the pages from start to end. */
struct resident {
	uint64_t start, end;
	uint8_t *vec; /* RESIDENT_CHUNK */
};

/* Bytes of the mapping which are there. */
static uint64_t vma_resident(struct mm *mm, struct resident *known, const struct vma *v)
{
	uint64_t n = 0;

	for (uint64_t at = v->start; known->vec && at < v->end; at += MOAT_PAGE_SIZE) {
		if (at < known->start || at >= known->end) {
			uint64_t pages =
				MAX((v->end - at) / MOAT_PAGE_SIZE, (uint64_t)RESIDENT_AHEAD);

			pages = MIN(pages, (uint64_t)RESIDENT_CHUNK);
			pages = MIN(pages, (PF_GUEST_LIMIT - at) / MOAT_PAGE_SIZE);
			if (g_pf->resident(mm->as, at, pages, known->vec))
				break;
			known->start = at;
			known->end = at + pages * MOAT_PAGE_SIZE;
		}
		n += known->vec[(at - known->start) / MOAT_PAGE_SIZE] & PF_PAGE_THERE;
	}
	return n * MOAT_PAGE_SIZE;
}

static void smaps_counts(struct textbuf *out, uint64_t size, uint64_t rss, bool anon, bool shared,
			 uint64_t locked)
{
	uint64_t kb = rss / 1024;

	if (size)
		text_printf(
			out,
			"Size:           %8lu kB\nKernelPageSize: %8d kB\nMMUPageSize:    %8d kB\n",
			size / 1024, 4, 4);
	text_printf(out,
		    "Rss:            %8lu kB\nPss:            %8lu kB\nPss_Dirty:      %8lu "
		    "kB\nShared_Clean:   %8lu kB\n"
		    "Shared_Dirty:   %8d kB\nPrivate_Clean:  %8d kB\nPrivate_Dirty:  %8lu "
		    "kB\nReferenced:     %8lu kB\n"
		    "Anonymous:      %8lu kB\nKSM:            %8d kB\nLazyFree:       %8d "
		    "kB\nAnonHugePages:  %8d kB\n"
		    "ShmemPmdMapped: %8d kB\nFilePmdMapped:  %8d kB\nShared_Hugetlb: %8d "
		    "kB\nPrivate_Hugetlb: %7d kB\n"
		    "Swap:           %8d kB\nSwapPss:        %8d kB\nLocked:         %8lu kB\n",
		    kb, kb, anon ? kb : 0, shared || !anon ? kb : 0, 0, 0, anon ? kb : 0, kb,
		    anon ? kb : 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, locked / 1024);
}

/* Whoever asked, it or we: the host gives a huge page where one fits. */
static bool thp_eligible(const struct mm *mm, const struct vma *v)
{
	return (v->flags & (VMA_HUGE | VMA_AUTOHUGE)) && !v->file && !mm->thp_off &&
	       mm_holds_huge(v->start, v->end);
}

static void vma_counts(struct textbuf *out, struct mm *mm, struct vma *v, struct resident *known)
	REQUIRES(mm->lock)
{
	uint64_t rss = vma_resident(mm, known, v);

	smaps_counts(out, v->end - v->start, rss, !v->file, v->flags & VMA_SHARED,
		     v->flags & VMA_LOCKED ? rss : 0);
	text_printf(out, "THPeligible:    %8d\nVmFlags:%s%s%s%s mr mw me%s%s%s%s%s%s\n",
		    thp_eligible(mm, v), v->prot & LX_PROT_READ ? " rd" : "",
		    v->prot & LX_PROT_WRITE ? " wr" : "", v->prot & LX_PROT_EXEC ? " ex" : "",
		    v->flags & VMA_SHARED ? " sh" : "", v->flags & VMA_GROWSDOWN ? " gd" : "",
		    v->flags & VMA_LOCKED ? " lo" : "", v->flags & VMA_DONTFORK ? " dc" : "",
		    v->flags & VMA_DONTDUMP ? " dd" : "", v->flags & VMA_HUGE ? " hg" : "",
		    v->flags & VMA_NOHUGE ? " nh" : "");
}

static int show_vmas(void *obj, struct textbuf *out, bool counts)
{
	struct resident known = {0};
	struct file_id last = {0};
	struct path root;
	struct vma *v;
	int r;
	struct mm *mm = mm_of(obj, &r, true);

	if (!mm)
		return r;
	if (counts)
		known.vec = mem_zalloc(RESIDENT_CHUNK);
	fs_get_root(current_task()->vctx.fs, &root);
	fmutex_lock(&mm->lock);
	vma_foreach (v, mm) {
		vma_line(out, mm, v, &root, &last);
		if (counts)
			vma_counts(out, mm, v, &known);
	}
	fmutex_unlock(&mm->lock);
	path_put(&root);
	mem_free(known.vec);
	mm_put(mm);
	return 0;
}

static int show_maps(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
		     struct textbuf *out)
{
	return show_vmas(obj, out, false);
}

/* ---- one mapping by its address: ioctl(PROCMAP_QUERY) of maps ---- */

#define PROCMAP_QUERY_ 0xc0686611u
#define QUERY_READABLE 1u
#define QUERY_WRITABLE 2u
#define QUERY_EXECUTABLE 4u
#define QUERY_SHARED 8u
#define QUERY_IS (QUERY_READABLE | QUERY_WRITABLE | QUERY_EXECUTABLE | QUERY_SHARED)
#define QUERY_OR_NEXT 0x10u
#define QUERY_FILE 0x20u

struct lx_procmap_query {
	uint64_t size, query_flags, query_addr; /* in */
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t vma_name_size, build_id_size; /* in: room; out: bytes, with the NUL */
	uint64_t vma_name_addr, build_id_addr; /* in */
};
_Static_assert(sizeof(struct lx_procmap_query) == 104, "procmap_query");

static uint64_t query_is(const struct vma *v)
{
	return (v->prot & LX_PROT_READ ? QUERY_READABLE : 0u) |
	       (v->prot & LX_PROT_WRITE ? QUERY_WRITABLE : 0u) |
	       (v->prot & LX_PROT_EXEC ? QUERY_EXECUTABLE : 0u) |
	       (v->flags & VMA_SHARED ? QUERY_SHARED : 0u);
}

/* The mapping that is asked for; NULL: there is none. */
static struct vma *query_find(struct mm *mm, const struct lx_procmap_query *q) REQUIRES(mm->lock)
{
	const bool or_next = q->query_flags & QUERY_OR_NEXT;
	struct vma *v = mm_find(mm, q->query_addr);

	if (v && v->start > q->query_addr && !or_next)
		return NULL;
	for (; v; v = or_next ? mm_next(v) : NULL) {
		if (((q->query_flags & QUERY_FILE) && !v->file) ||
		    (q->query_flags & QUERY_IS & ~query_is(v)))
			continue;
		return v;
	}
	return NULL;
}

/* Fills what is told of it, and *name (in @buf or not; NULL: none, or it was not asked for). */
static int query_answer(struct mm *mm, struct lx_procmap_query *q, const struct path *root,
			char buf[LX_PATH_MAX], const char **name) REQUIRES(mm->lock)
{
	const size_t room = MIN((size_t)q->vma_name_size, (size_t)LX_PATH_MAX);
	struct vma *v = query_find(mm, q);
	struct file_id last = {0}, id;

	if (!v)
		return -ENOENT;
	id = file_id(v, &last);
	q->vma_start = v->start;
	q->vma_end = v->end;
	q->vma_flags = query_is(v);
	q->vma_page_size = MOAT_PAGE_SIZE;
	q->vma_offset = v->file ? v->offset : 0;
	q->inode = id.ino;
	q->dev_major = lx_dev_major(id.dev);
	q->dev_minor = lx_dev_minor(id.dev);
	q->build_id_size = 0;
	*name = room ? vma_name(mm, v, root, buf) : NULL;
	q->vma_name_size = *name ? (uint32_t)strlen(*name) + 1 : 0;
	return q->vma_name_size > room ? -ENAMETOOLONG : 0;
}

static int query_read(struct task *t, gaddr_t uarg, struct lx_procmap_query *q, uint64_t *size)
{
	int r;

	if (copy_in(t, size, uarg, sizeof(*size)))
		return -EFAULT;
	if (*size > MOAT_PAGE_SIZE)
		return -E2BIG;
	if (*size < offsetof(struct lx_procmap_query, vma_start))
		return -EINVAL;
	r = copy_in_struct(t, q, sizeof(*q), uarg, *size);
	if (r)
		return r;
	if (q->query_flags & ~(uint64_t)(QUERY_IS | QUERY_OR_NEXT | QUERY_FILE))
		return -EINVAL;
	if (!q->vma_name_size != !q->vma_name_addr || !q->build_id_size != !q->build_id_addr)
		return -EINVAL;
	return 0;
}

static long maps_ioctl(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj, unsigned cmd,
		       uint64_t arg, const struct umem *um UNUSED)
{
	struct task *t = current_task();
	struct lx_procmap_query q;
	char buf[LX_PATH_MAX];
	const char *name = NULL;
	struct path root;
	uint64_t size;
	struct mm *mm;
	int r;

	if (cmd != PROCMAP_QUERY_)
		return -ENOTTY;
	r = query_read(t, GADDR(arg), &q, &size);
	if (r)
		return r;
	mm = mm_of(obj, &r, true);
	if (!mm)
		return r ? r : -ESRCH;
	fs_get_root(t->vctx.fs, &root);
	fmutex_lock(&mm->lock);
	r = query_answer(mm, &q, &root, buf, &name);
	fmutex_unlock(&mm->lock);
	path_put(&root);
	mm_put(mm);
	if (r)
		return r;
	if (name && copy_out(t, GADDR(q.vma_name_addr), name, q.vma_name_size))
		return -EFAULT;
	return copy_out(t, GADDR(arg), &q, MIN(sizeof(q), (size_t)size)) ? -EFAULT : 0;
}

static int show_smaps(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
		      struct textbuf *out)
{
	return show_vmas(obj, out, true);
}

static int show_smaps_rollup(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			     struct textbuf *out)
{
	struct mem_counts m;
	struct vma *v;
	uint64_t start = 0, end = 0;
	int r;
	struct mm *mm = mm_of(obj, &r, true);

	if (!mm)
		return r ? r : -ESRCH;
	fmutex_lock(&mm->lock);
	vma_foreach (v, mm) {
		if (!start)
			start = v->start;
		end = v->end;
	}
	fmutex_unlock(&mm->lock);
	proc_mem_counts(mm, &m);
	text_printf(out, "%08lx-%08lx ---p 00000000 00:00 0                          [rollup]\n",
		    start, end);
	smaps_counts(out, 0, m.rss, true, false, m.locked);
	mm_put(mm);
	return 0;
}

static int show_statm(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
		      struct textbuf *out)
{
	struct mem_counts m = {0};
	int r;
	struct mm *mm = mm_of(obj, &r, false);

	if (!mm && r)
		return r;
	if (mm) {
		proc_mem_counts(mm, &m);
		mm_put(mm);
	}
	text_printf(out, "%lu %lu %lu %lu 0 %lu 0\n", m.size / MOAT_PAGE_SIZE,
		    m.rss / MOAT_PAGE_SIZE, m.shared / MOAT_PAGE_SIZE, m.text / MOAT_PAGE_SIZE,
		    (m.data + m.stack) / MOAT_PAGE_SIZE);
	return 0;
}

#define ARGS_MAX ((uint64_t)4 << 20)

/* Appends guest memory [start, end), as far as it can be read. */
static void append_memory(struct mm *mm, uint64_t start, uint64_t end, struct textbuf *out)
{
	char buf[4096];

	if (end < start || end - start > ARGS_MAX)
		return;
	while (start < end) {
		ssize_t n =
			copy_in_mm(mm, buf, GADDR(start), MIN(end - start, (uint64_t)sizeof(buf)));

		if (n <= 0)
			return;
		text_append(out, buf, (size_t)n);
		start += (uint64_t)n;
	}
}

static int show_cmdline(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			struct textbuf *out)
{
	int r;
	struct mm *mm = mm_of(obj, &r, false);

	if (!mm)
		return r;
	append_memory(mm, mm->arg_start, mm->arg_end, out);
	/* setproctitle(3): a title that overwrote the last NUL runs on into the environment. */
	if (out->size && out->data[out->size - 1]) {
		size_t before = out->size;

		append_memory(mm, mm->env_start, mm->env_end, out);
		for (size_t k = before; k < out->size; k++) {
			if (!out->data[k])
				out->size = k;
		}
	}
	mm_put(mm);
	return 0;
}

static int show_environ(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
			struct textbuf *out)
{
	int r;
	struct mm *mm = mm_of(obj, &r, true);

	if (!mm)
		return r;
	append_memory(mm, mm->env_start, mm->env_end, out);
	mm_put(mm);
	return 0;
}

static int show_auxv(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
		     struct textbuf *out)
{
	int r;
	struct mm *mm = mm_of(obj, &r, true);

	if (!mm)
		return r;
	text_append(out, mm->auxv, mm->auxv_count * sizeof(mm->auxv[0]));
	mm_put(mm);
	return 0;
}

/* ---- mem: the process's memory as a file ---- */

static ssize_t mem_move(struct file *f, struct uio *u, int64_t *pos, bool write)
{
	unsigned char buf[4096];
	ssize_t done = 0;
	int r;
	struct mm *mm = mm_of(pnode_obj(f->inode), &r, true);

	if (!mm)
		return r;
	while (u->resid) {
		size_t want = MIN(u->resid, sizeof(buf) - ((uint64_t)*pos & (sizeof(buf) - 1)));
		ssize_t n;

		if (write) {
			n = uio_peek(u, buf, want);
			if (n > 0)
				n = g_pf->copy_force(mm->as, GADDR(*pos), buf, (size_t)n, true);
			if (n > 0)
				uio_skip(u, (size_t)n);
		} else {
			n = g_pf->copy_force(mm->as, GADDR(*pos), buf, want, false);
			if (n > 0)
				n = uio_put(u, buf, (size_t)n);
			else if (n < 0)
				n = -EIO;
		}
		if (n <= 0) {
			if (!done)
				done = n < 0 ? (n == -EFAULT && write ? -EIO : n) : 0;
			break;
		}
		done += n;
		*pos += n;
	}
	mm_put(mm);
	return done;
}

static ssize_t mem_read(struct file *f, struct uio *u, int64_t *pos)
{
	return mem_move(f, u, pos, false);
}

static ssize_t mem_write(struct vfs_ctx *c UNUSED, struct file *f, struct uio *u, int64_t *pos)
{
	return mem_move(f, u, pos, true);
}

static int64_t mem_lseek(struct file *f, int64_t off, int whence)
{
	/* Any address is an offset, negative ones too. */
	if (whence == 0)
		f->pos = off;
	else if (whence == 1)
		f->pos = (int64_t)((uint64_t)f->pos + (uint64_t)off);
	else
		return -EINVAL;
	return f->pos;
}

static const struct file_ops g_mem_fops = {
	.read = mem_read, .write = mem_write, .lseek = mem_lseek};

/* ---- pagemap: a 64-bit word for each page ---- */

#define PM_PRESENT ((uint64_t)1 << 63)
#define PM_FILE ((uint64_t)1 << 61) /* of a file, or shared anonymous */

/* The words of @n pages from @addr. Page frame numbers are 0, as for readers without CAP_SYS_ADMIN.
 */
static int pagemap_words(struct mm *mm, uint64_t addr, size_t n, uint64_t *words)
{
	uint8_t there[64];
	int r;

	BUG_ON(n > sizeof(there));
	fmutex_lock(&mm->lock);
	r = g_pf->resident(mm->as, addr, n, there);
	for (size_t i = 0; r == 0 && i < n; i++) {
		uint64_t at = addr + i * MOAT_PAGE_SIZE;
		struct vma *v = mm_find(mm, at);

		words[i] = 0;
		if (v && v->start <= at && (there[i] & PF_PAGE_THERE))
			words[i] = PM_PRESENT | (there[i] & PF_PAGE_FILE ? PM_FILE : 0);
	}
	fmutex_unlock(&mm->lock);
	return r;
}

static ssize_t pagemap_read(struct file *f, struct uio *u, int64_t *pos)
{
	const uint64_t pages = PF_GUEST_LIMIT >> PAGE_SHIFT;
	ssize_t done = 0;
	struct mm *mm;
	int r;

	if (*pos % 8 || u->resid % 8)
		return -EINVAL;
	mm = mm_of(pnode_obj(f->inode), &r, true);
	if (!mm)
		return r;
	while (u->resid && (uint64_t)*pos / 8 < pages) {
		uint64_t words[64], first = (uint64_t)*pos / 8;
		size_t n = MIN(MIN(u->resid / 8, pages - first), (uint64_t)ARRAY_SIZE(words));
		ssize_t moved;

		r = pagemap_words(mm, first << PAGE_SHIFT, n, words);
		moved = r ? r : uio_put(u, words, n * 8);
		if (moved <= 0) {
			done = done ? done : moved;
			break;
		}
		done += moved;
		*pos += moved;
	}
	mm_put(mm);
	return done;
}

static const struct file_ops g_pagemap_fops = {.read = pagemap_read, .lseek = mem_lseek};

static int show_coredump_filter(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
				struct textbuf *out)
{
	int r;
	struct mm *mm = mm_of(obj, &r, false);

	if (!mm)
		return r;
	text_printf(out, "%08x\n", atomic_load(&mm->dump_filter));
	mm_put(mm);
	return 0;
}

int proc_parse_number(const char *data, int base, uint64_t *v)
{
	char *end;

	data += *data == '+';
	errno = 0;
	*v = strtoull(data, &end, base);
	end += *end == '\n';
	if (*data < '0' || *data > '9' || *end)
		return -EINVAL;
	return errno == ERANGE ? -ERANGE : 0;
}

static ssize_t store_coredump_filter(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj,
				     const char *data, size_t size)
{
	struct mm *mm;
	uint64_t v;
	int r = proc_parse_number(data, 0, &v);

	if (r < 0)
		return r;
	if (v > UINT32_MAX)
		return -ERANGE;
	mm = mm_of(obj, &r, false);
	if (!mm)
		return r ? r : -ESRCH;
	atomic_store(&mm->dump_filter, v & DUMP_ALL);
	mm_put(mm);
	return (ssize_t)size;
}

/* Opening the memory needs the right to look, not only the mode bits. */
static int guarded_permission(struct vfs_ctx *c, struct inode *i, void *obj, unsigned mask)
{
	int r = generic_permission(c, i, mask);
	struct task *t;

	if (r)
		return r;
	t = proc_task_access(obj, &r);
	if (!t)
		return r;
	task_put(t);
	return 0;
}

const struct pnode_ops g_proc_maps_ops = {.show = show_maps, .ioctl = maps_ioctl, PROC_PID_OBJ};
const struct pnode_ops g_proc_smaps_ops = {.show = show_smaps, PROC_PID_OBJ};
const struct pnode_ops g_proc_smaps_rollup_ops = {.show = show_smaps_rollup, PROC_PID_OBJ};
const struct pnode_ops g_proc_statm_ops = {.show = show_statm, PROC_PID_OBJ};
const struct pnode_ops g_proc_cmdline_ops = {.show = show_cmdline, PROC_PID_OBJ};
const struct pnode_ops g_proc_environ_ops = {
	.show = show_environ, .permission = guarded_permission, PROC_PID_OBJ};
const struct pnode_ops g_proc_auxv_ops = {
	.show = show_auxv, .permission = guarded_permission, PROC_PID_OBJ};
const struct pnode_ops g_proc_mem_ops = {
	.fops = &g_mem_fops, .permission = guarded_permission, PROC_PID_OBJ};
const struct pnode_ops g_proc_coredump_filter_ops = {
	.show = show_coredump_filter, .store = store_coredump_filter, PROC_PID_OBJ};
const struct pnode_ops g_proc_pagemap_ops = {
	.fops = &g_pagemap_fops, .permission = guarded_permission, PROC_PID_OBJ};
