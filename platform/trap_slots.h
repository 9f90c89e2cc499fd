/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of a file that the sentry and the stubs share: numbers below a maximum, each with one user
 * at a time. For trap_as.c.
 */
#ifndef MOAT_PLATFORM_TRAP_SLOTS_H
#define MOAT_PLATFORM_TRAP_SLOTS_H

#include <errno.h>

#include "base/alloc.h"
#include "base/lock.h"

struct tr_slots {
	struct mutex lock;
	uint32_t *free; /* stack of those that were used and freed */
	uint32_t free_count, used, max;
};

/* -ENOMEM; tr_slots_fini() may be called all the same. */
static inline int tr_slots_init(struct tr_slots *s, uint32_t max)
{
	mutex_init(&s->lock, RANK_LEAF);
	s->free_count = s->used = 0;
	s->max = max;
	s->free = mem_calloc(max, sizeof(*s->free));
	return s->free ? 0 : -ENOMEM;
}

static inline void tr_slots_fini(struct tr_slots *s)
{
	mem_free(s->free);
	s->free = NULL;
}

/* 0 or -EAGAIN. */
static inline int tr_slot_get(struct tr_slots *s, uint32_t *slot)
{
	int r = 0;

	mutex_lock(&s->lock);
	if (s->free_count != 0)
		*slot = s->free[--s->free_count];
	else if (s->used < s->max)
		*slot = s->used++;
	else
		r = -EAGAIN;
	mutex_unlock(&s->lock);
	return r;
}

static inline void tr_slot_put(struct tr_slots *s, uint32_t slot)
{
	mutex_lock(&s->lock);
	s->free[s->free_count++] = slot;
	mutex_unlock(&s->lock);
}

#endif
