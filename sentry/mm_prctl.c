/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prctl's operations on memory: names of anonymous mappings (PR_SET_VMA), the layout that /proc
 * shows (PR_SET_MM).
 *
 * Deviations from Linux: PR_SET_MM_MAP, _AUXV and _EXE_FILE are EINVAL, as without
 * CONFIG_CHECKPOINT_RESTORE.
 *
 * References: prctl(2), PR_SET_VMA(2const), PR_SET_MM(2const).
 */
#include "sentry/mm_ops.h"

#include <errno.h>
#include <string.h>

#define PR_SET_VMA_ANON_NAME_ 0
/* The longest name with its NUL. */
#define ANON_NAME_MAX 80

enum {
	MM_START_CODE = 1,
	MM_END_CODE,
	MM_START_DATA,
	MM_END_DATA,
	MM_START_STACK,
	MM_START_BRK,
	MM_BRK,
	MM_ARG_START,
	MM_ARG_END,
	MM_ENV_START,
	MM_ENV_END,
};

static bool name_ok(const char *s)
{
	for (; *s; s++)
		if (*s < ' ' || *s > '~' || strchr("\\`$[]", *s))
			return false;
	return true;
}

/* Anonymous for the guest: no file that it could name. */
static bool may_be_named(const struct vma *v)
{
	return !v->file || (v->flags & VMA_SHARED && !v->sysv && v->file->inode->nlink == 0);
}

static int name_one(struct mm *mm, struct vma *v, uint64_t start, uint64_t end, const char *name)
	REQUIRES(mm->lock)
{
	char *copy = NULL;
	int r;

	if (!may_be_named(v))
		return -EBADF;
	if (name) {
		copy = mem_strdup(name);
		if (!copy)
			return -ENOMEM;
	}
	r = mm_split_range(mm, start, end);
	if (r) {
		mem_free(copy);
		return r;
	}
	v = mm_find(mm, start);
	mem_free(v->name);
	v->name = copy;
	return 0;
}

int mm_set_vma_name(struct task *t, uint64_t addr, uint64_t size, const char *name)
{
	struct mm *mm = t->mm;
	struct vma_list dead = {0};
	uint64_t end = addr + page_up(size), at = addr;
	int r = 0, hole = 0;

	if (addr % MOAT_PAGE_SIZE || (size && !page_up(size)) || end < addr)
		return -EINVAL;
	if (end == addr)
		return 0;
	fmutex_lock(&mm->lock);
	while (at < end && r == 0) {
		struct vma *v = mm_find(mm, at);

		if (!v || v->start >= end) {
			r = -ENOMEM;
			break;
		}
		if (v->start > at) {
			hole = -ENOMEM;
			at = v->start;
		}
		size = MIN(v->end, end);
		r = name_one(mm, v, at, size, name);
		at = size;
	}
	mm_merge(mm, addr, end, &dead);
	fmutex_unlock(&mm->lock);
	vma_list_free(&dead);
	return r ? r : hole;
}

long mm_prctl_set_vma(struct task *t, uint64_t what, uint64_t addr, uint64_t size, uint64_t name)
{
	char buf[ANON_NAME_MAX];
	ssize_t n;

	if (what != PR_SET_VMA_ANON_NAME_)
		return -EINVAL;
	if (!name)
		return mm_set_vma_name(t, addr, size, NULL);
	n = copy_in_str(t, buf, GADDR(name), sizeof(buf));
	if (n < 0)
		return n == -ENAMETOOLONG ? -EINVAL : n;
	if (!name_ok(buf))
		return -EINVAL;
	return mm_set_vma_name(t, addr, size, buf);
}

static uint64_t *layout_field(struct mm *mm, uint64_t what)
{
	switch (what) {
	case MM_START_CODE:
		return &mm->start_code;
	case MM_END_CODE:
		return &mm->end_code;
	case MM_START_DATA:
		return &mm->start_data;
	case MM_END_DATA:
		return &mm->end_data;
	case MM_START_STACK:
		return &mm->stack_top;
	case MM_START_BRK:
		return &mm->start_brk;
	case MM_BRK:
		return &mm->brk;
	case MM_ARG_START:
		return &mm->arg_start;
	case MM_ARG_END:
		return &mm->arg_end;
	case MM_ENV_START:
		return &mm->env_start;
	case MM_ENV_END:
		return &mm->env_end;
	default:
		return NULL;
	}
}

/* Would the layout make sense with @p set to @value? The pairs must be in order, and a heap above
 * its data. */
static bool layout_ok(struct mm *mm, uint64_t *p, uint64_t value)
{
	uint64_t old = *p;
	bool ok;

	*p = value;
	ok = mm->start_code < mm->end_code && mm->start_data <= mm->end_data &&
	     mm->start_brk <= mm->brk && mm->arg_start <= mm->arg_end &&
	     mm->env_start <= mm->env_end;
	*p = old;
	return ok;
}

long mm_prctl_set_mm(struct task *t, uint64_t what, uint64_t addr, uint64_t a4, uint64_t a5)
{
	struct mm *mm = t->mm;
	uint64_t *p;
	int r = 0;

	if (a4 || a5)
		return -EINVAL;
	if (!cred_capable(t->vctx.cred, LX_CAP_SYS_RESOURCE))
		return -EPERM;
	if (addr >= LX_TASK_SIZE || addr < PF_GUEST_MIN)
		return -EINVAL;
	fmutex_lock(&mm->lock);
	p = layout_field(mm, what);
	if (!p || !layout_ok(mm, p, addr)) {
		r = -EINVAL;
	} else if (what == MM_START_STACK || what >= MM_ARG_START) {
		struct vma *v = mm_find(mm, addr);

		if (!v || v->start > addr)
			r = -EFAULT;
	}
	if (r == 0)
		*p = addr;
	fmutex_unlock(&mm->lock);
	return r;
}
