/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process numbers.
 *
 * Theory of operation: a two-level table from number to struct pid. A number stays taken while
 * anybody holds the struct: a thread, a process, a process group, a session, a pidfd. Numbers are
 * given out cyclically, as Linux does, so that a number is not used again soon.
 *
 * Locking: g_pidmap_lock guards the table; the fields of struct pid are guarded by tasklist.
 */
#include "sentry/process.h"

#include <errno.h>

#define PID_PAGE 1024

static struct mutex g_pidmap_lock = MUTEX_INIT(RANK_MISC);
static struct pid **g_pidmap[PID_MAX_LIMIT / PID_PAGE];
static int32_t g_last_pid;

static struct pid **pid_slot(int32_t nr, bool make)
{
	struct pid ***page = &g_pidmap[nr / PID_PAGE];

	if (!*page) {
		if (!make)
			return NULL;
		*page = mem_calloc(PID_PAGE, sizeof(struct pid *));
		if (!*page)
			return NULL;
	}
	return &(*page)[nr % PID_PAGE];
}

static struct pid *pid_make(int32_t nr, struct pid **slot)
{
	struct pid *p = mem_zalloc(sizeof(*p));

	if (!p)
		return NULL;
	ref_init(&p->ref);
	p->nr = nr;
	TAILQ_INIT(&p->pgrp_members);
	TAILQ_INIT(&p->session_members);
	waitq_init(&p->exit_wait);
	*slot = p;
	return p;
}

struct pid *pid_new(void)
{
	struct pid *p = NULL;

	mutex_lock(&g_pidmap_lock);
	for (int32_t tries = 0; tries < g_kernel.pid_max; tries++) {
		/* After a wrap Linux skips the low numbers, which daemons of the boot have. */
		g_last_pid = g_last_pid + 1 < g_kernel.pid_max ? g_last_pid + 1 : 300;
		struct pid **slot = pid_slot(g_last_pid, true);

		if (!slot)
			break;
		if (!*slot) {
			p = pid_make(g_last_pid, slot);
			break;
		}
	}
	mutex_unlock(&g_pidmap_lock);
	return p;
}

struct pid *pid_new_exact(int32_t nr)
{
	struct pid *p = NULL;

	if (nr <= 0 || nr >= g_kernel.pid_max)
		return NULL;
	mutex_lock(&g_pidmap_lock);
	struct pid **slot = pid_slot(nr, true);

	if (slot && !*slot)
		p = pid_make(nr, slot);
	mutex_unlock(&g_pidmap_lock);
	return p;
}

struct pid *pid_get(struct pid *p)
{
	ref_get(&p->ref);
	return p;
}

void pid_put(struct pid *p)
{
	if (!p || !ref_put(&p->ref))
		return;
	mutex_lock(&g_pidmap_lock);
	struct pid **slot = pid_slot(p->nr, false);

	BUG_ON(!slot || *slot != p);
	*slot = NULL;
	mutex_unlock(&g_pidmap_lock);
	waitq_fini(&p->exit_wait);
	mem_free(p);
}

struct pid *pid_find(int32_t nr)
{
	struct pid *p = NULL;

	if (nr <= 0 || nr >= PID_MAX_LIMIT)
		return NULL;
	mutex_lock(&g_pidmap_lock);
	struct pid **slot = pid_slot(nr, false);

	if (slot && *slot && ref_get_unless_zero(&(*slot)->ref))
		p = *slot;
	mutex_unlock(&g_pidmap_lock);
	return p;
}

/* The first number >= @from that is in use, with a reference. */
static struct pid *pid_next(int32_t from)
{
	struct pid *p = NULL;

	mutex_lock(&g_pidmap_lock);
	for (int32_t nr = MAX(from, 1); nr < g_kernel.pid_max && !p; nr++) {
		struct pid **slot = pid_slot(nr, false);

		if (!slot) {
			nr |= PID_PAGE - 1;
			continue;
		}
		if (*slot && ref_get_unless_zero(&(*slot)->ref))
			p = *slot;
	}
	mutex_unlock(&g_pidmap_lock);
	return p;
}

struct task *task_find(int32_t tid)
{
	struct pid *p = pid_find(tid);
	struct task *t = NULL;

	if (!p)
		return NULL;
	mutex_lock(&g_kernel.tasklist);
	if (p->task)
		t = task_get(p->task);
	mutex_unlock(&g_kernel.tasklist);
	pid_put(p);
	return t;
}

struct tgroup *tgroup_find(int32_t tgid)
{
	struct pid *p = pid_find(tgid);
	struct tgroup *tg = NULL;

	if (!p)
		return NULL;
	mutex_lock(&g_kernel.tasklist);
	if (p->tg)
		tg = tgroup_get(p->tg);
	mutex_unlock(&g_kernel.tasklist);
	pid_put(p);
	return tg;
}

struct tgroup *tgroup_next(int32_t from)
{
	struct tgroup *tg = NULL;
	struct pid *p;

	while (!tg && (p = pid_next(from))) {
		mutex_lock(&g_kernel.tasklist);
		if (p->tg)
			tg = tgroup_get(p->tg);
		mutex_unlock(&g_kernel.tasklist);
		from = p->nr + 1;
		pid_put(p);
	}
	return tg;
}

struct task *tgroup_next_task(struct tgroup *tg, int32_t from)
{
	struct task *t, *best = NULL;

	mutex_lock(&g_kernel.tasklist);
	tgroup_foreach_task (t, tg) {
		if (t->tid >= from && (!best || t->tid < best->tid))
			best = t;
	}
	if (best)
		task_get(best);
	mutex_unlock(&g_kernel.tasklist);
	return best;
}
