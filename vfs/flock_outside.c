/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advisory locks: what of them stands outside of the sandbox as well, for programs of the host and
 * other sandboxes.
 *
 * Theory of operation: see vfs/flock_internal.h. A lock that a guest sets is one call, since no
 * other guest has any that conflicts: for its range the union is what it asks for. What it gives
 * back is let go of but for what other guests hold of the range; when none is left, all at once.
 *
 * Record locks stand on one description, since two would be in each other's way: on that open for
 * writing, if there is one when the first lock comes. If it comes later and a guest wants to write,
 * the locks move there: so far they are all shared, so they are set there first, then given back
 * where they were, and at no moment is anything free that a guest holds.
 *
 * Who waits for somebody outside asks again and again, at first after 10 ms, then up to 100 ms: the
 * host's own waiting call could not be interrupted, and would take a thread for each who waits.
 * Where time is virtual as much of the host's time goes by first, else the guest's would fly.
 *
 * Deviations from Linux: no deadlock is found that goes through somebody outside; who waits for him
 * is not in the queue of those who wait there.
 */
#include <errno.h>
#include "base/clock.h"
#include "vfs/flock_internal.h"
#include "vfs/host_calls.h"

#define DELAY_FIRST_NS (10 * NSEC_PER_MSEC)
#define DELAY_MAX_NS (100 * NSEC_PER_MSEC)

/* The better description for a first lock of @type. */
static bool by_writing(struct file_locks *l, int type)
{
	return l->outside->can(l->inode, true, type) ||
	       !l->outside->can(l->inode, false, LX_F_RDLCK);
}

/* ---- record locks ---- */

static int set(struct file_locks *l, bool writing, int type, int64_t start, int64_t end)
{
	return l->outside->record(l->inode, writing, type, start, end);
}

/* All that the description holds. */
static int let_go(struct file_locks *l, bool writing)
{
	const int r = l->held.records[writing] ? set(l, writing, LX_F_UNLCK, 0, END_OF_FILE) : 0;

	l->held.records[writing] = r != 0;
	l->held.stale |= r != 0;
	return r;
}

/* To the description that is open for writing. All are shared: nobody could write. */
static int move_to_writing(struct file_locks *l)
{
	const struct lock *at;
	int r = 0;

	l->held.records[true] = true;
	TAILQ_FOREACH (at, &l->records, link) {
		r = set(l, true, LX_F_RDLCK, at->start, at->end);
		if (r)
			break;
	}
	if (r == 0)
		r = let_go(l, false);
	if (r)
		(void)!let_go(l, true);
	else
		l->held.writing = true;
	return r;
}

int outside_take(struct file_locks *l, const struct lock *want)
{
	int r = 0;

	if (!l->held.records[l->held.writing]) {
		l->held.writing = by_writing(l, want->type);
		r = let_go(l, !l->held.writing);
	} else if (!l->held.writing && want->type == LX_F_WRLCK) {
		r = move_to_writing(l);
	}
	if (r == 0)
		r = set(l, l->held.writing, want->type, want->start, want->end);
	if (r == 0)
		l->held.records[l->held.writing] = true;
	return r;
}

/* The first part of *start … @end that no guest holds, into *start and *last. */
static bool next_free(const struct file_locks *l, int64_t *start, int64_t end, int64_t *last)
{
	const struct lock *at;
	bool moved = true;

	while (moved) {
		moved = false;
		TAILQ_FOREACH (at, &l->records, link) {
			if (at->start > *start || at->end < *start)
				continue;
			if (at->end >= end)
				return false;
			*start = at->end + 1;
			moved = true;
		}
	}
	*last = end;
	TAILQ_FOREACH (at, &l->records, link) {
		if (at->start > *start && at->start <= *last)
			*last = at->start - 1;
	}
	return true;
}

void outside_trim(struct file_locks *l, int64_t start, int64_t end)
{
	int64_t last;

	/* What was not let go of is tried again. */
	if (l->held.stale) {
		start = 0;
		end = END_OF_FILE;
		l->held.stale = false;
	}
	if (TAILQ_EMPTY(&l->records)) {
		(void)!let_go(l, false);
		(void)!let_go(l, true);
		return;
	}
	(void)!let_go(l, !l->held.writing);
	while (next_free(l, &start, end, &last)) {
		if (set(l, l->held.writing, LX_F_UNLCK, start, last))
			l->held.stale = true;
		if (last == end)
			break;
		start = last + 1;
	}
}

int outside_test(struct file_locks *l, const struct lock *want, struct lx_flock *fl)
{
	const bool writing =
		l->held.records[l->held.writing] ? l->held.writing : by_writing(l, LX_F_RDLCK);
	struct lx_flock found = {
		.l_type = (int16_t)want->type,
		.l_whence = LX_SEEK_SET,
		.l_start = want->start,
		.l_len = want->end == END_OF_FILE ? 0 : want->end - want->start + 1,
	};
	const int r = l->outside->test(l->inode, writing, &found);

	if (r == 0 && found.l_type != LX_F_UNLCK) {
		*fl = found;
		/* Whose it is has a number outside only. */
		fl->l_pid = found.l_pid == -1 ? -1 : 0;
	}
	return r;
}

/* ---- flock ---- */

int outside_flock(struct file_locks *l, int type)
{
	int r;

	if (l->held.flock == type)
		return 0;
	if (l->held.flock == LX_F_UNLCK)
		l->held.flock_writing = by_writing(l, type);
	r = l->outside->flock(l->inode, l->held.flock_writing, type);
	if (r == 0)
		l->held.flock = type;
	return r;
}

void outside_flock_settle(struct file_locks *l)
{
	if (TAILQ_EMPTY(&l->flocks))
		(void)!outside_flock(l, LX_F_UNLCK);
}

/* ---- waiting ---- */

int outside_wait(struct file_locks *l, unsigned seen, uint64_t *delay_ns)
{
	uint64_t deadline_ns;
	int r;

	*delay_ns = *delay_ns ? MIN(2 * *delay_ns, DELAY_MAX_NS) : DELAY_FIRST_NS;
	if (clock_get_kind() == CLOCK_KIND_VIRTUAL)
		host_pause_wait(*delay_ns);
	deadline_ns = clock_mono_ns() + *delay_ns;
	r = wait_event(&l->wq, atomic_load(&l->changes) != seen, deadline_ns, WAIT_INTR);
	return r == -ETIMEDOUT ? 0 : r;
}
