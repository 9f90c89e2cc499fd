/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads that the stub answers: pread64 out of a view, without the sentry.
 *
 * Theory of operation: when a thread has read the same part of the same descriptor a few times, and
 * that lies in a view of its address space, the sentry publishes in its area what the stub needs to
 * copy it itself the next time (struct ts_read): descriptor, offset, size, where it is in the view,
 * and what a word of the shared page must be for that to hold (struct pf_read). Whoever changes
 * anything about it raises that word, which the stub can only read, so the next read comes here
 * again. Publishing takes some looking (sentry/answers.c), which a file that is written between
 * two reads would never pay for: the less the stub has had of the last one, the more reads come
 * here before the next.
 *
 * A place of a view is given to another file only while there is one thread; then what was
 * published of it for that goes.
 *
 * What the stub has read it counts in the area, for /proc/PID/io. That and how often it answered
 * are the guest's word for its own deeds: taken for statistics and for when to publish.
 *
 * Locking: as views. The counts are read by anybody.
 */
#include "platform/trap.h"

/* So many reads come here before the first time, and at most before another. */
#define READS_FIRST 3u
#define READS_MAX 63u
/* So many that the stub has answered pay for the next. */
#define READS_PAID 8u
/* More calls than a thread can have made. */
#define CALLS_MAX ((uint64_t)1 << 40)

_Static_assert(TS_A_ANSWERS + sizeof(struct pf_answers) <= TS_A_READS, "one after the other");
_Static_assert(TS_A_READS + TS_READS * sizeof(struct ts_read) <= TS_A_COUNTS, "and the next");
_Static_assert(sizeof(((struct ts_shared *)0)->marks) == PF_READ_MARKS * sizeof(uint64_t), "all");

static struct ts_read *slot_of(struct pf_thread *t, unsigned index)
{
	return (struct ts_read *)((char *)t->area + TS_A_READS) + index;
}

static uint32_t answered(const struct ts_read *slot)
{
	return __atomic_load_n(&slot->answered, __ATOMIC_RELAXED);
}

bool tr_read_due(struct pf_thread *t, int fd, uint64_t pos)
{
	struct tr_read *r = &t->read[ts_read_index(fd, pos)];
	const uint64_t part = pos / TS_VIEW_SIZE;

	if (!t->fast || !t->as->views || !tr_answers_on())
		return false;
	if (r->fd != fd || r->part != part) {
		r->fd = fd;
		r->part = part;
		r->left = r->wait = READS_FIRST;
		r->published = false;
		return false;
	}
	if (r->left > 0) {
		r->left--;
		return false;
	}
	r->left = r->wait;
	return true;
}

void tr_read_publish(struct pf_thread *t, const struct pf_read *what)
{
	const unsigned index = ts_read_index(what->fd, what->start);
	const uint64_t view = tr_view_find(t->as, what->id);
	struct ts_read *slot = slot_of(t, index);
	struct tr_read *r = &t->read[index];
	const bool paid = answered(slot) >= READS_PAID;

	if (view == 0)
		return;
	BUG_ON(what->mark >= PF_READ_MARKS || what->start % TS_VIEW_SIZE != 0 ||
	       what->end <= what->start || what->end - what->start > TS_VIEW_SIZE);
	r->wait = r->published && !paid ? (uint8_t)MIN(2u * r->wait + 1, READS_MAX)
					: (uint8_t)READS_FIRST;
	r->published = true;
	r->view = view;
	r->seen = 0;
	*slot = (struct ts_read){.fd = what->fd,
				 .mark = what->mark,
				 .value = what->value,
				 .start = what->start,
				 .size = what->end - what->start,
				 .view = view,
				 .whole = what->whole};
}

void tr_reads_init(struct pf_thread *t)
{
	for (unsigned i = 0; i < TS_READS; i++)
		t->read[i] = (struct tr_read){.fd = -1};
}

void tr_reads_forget_view(struct pf_thread *t, uint64_t view)
{
	for (unsigned i = 0; i < TS_READS; i++) {
		if (t->read[i].view == view) {
			*slot_of(t, i) = (struct ts_read){0};
			t->read[i] = (struct tr_read){.fd = -1};
		}
	}
}

bool tr_reads_used(struct pf_thread *t, uint64_t view)
{
	bool used = false;

	for (unsigned i = 0; i < TS_READS; i++) {
		const uint32_t now = answered(slot_of(t, i));

		if (t->read[i].view == view && t->read[i].seen != now) {
			t->read[i].seen = now;
			used = true;
		}
	}
	return used;
}

void tr_told_reads(struct pf_thread *t, bool take, uint64_t *calls, uint64_t *bytes)
{
	struct ts_told *told = (struct ts_told *)((char *)t->area + TS_A_TOLD);

	*calls = MIN(__atomic_load_n(&told->reads, __ATOMIC_RELAXED), CALLS_MAX);
	/* No read has more. */
	*bytes = MIN(__atomic_load_n(&told->read_bytes, __ATOMIC_RELAXED), *calls * TS_VIEW_SIZE);
	if (take) {
		__atomic_store_n(&told->reads, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&told->read_bytes, 0, __ATOMIC_RELAXED);
	}
}
