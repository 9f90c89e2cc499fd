/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a walk over a guest's stack needs to know of the guest (sentry/unwind.h), apart from tasks,
 * so that a test can be the guest.
 */
#ifndef MOAT_SENTRY_UNWIND_WALK_H
#define MOAT_SENTRY_UNWIND_WALK_H

#include "platform/platform.h"
#include "sentry/unwind.h"

struct unwind_source {
	struct pf_regs regs;
	void *ctx;
	/* Copies the page at @addr. */
	bool (*page)(void *ctx, uint8_t *to, uint64_t addr);
	/* The module that holds @addr, an index into the stack's modules, to which it may be added;
	 * or -1. */
	int (*module)(void *ctx, uint64_t addr);
	/* Where the module's .eh_frame is mapped. @ip is in the module. */
	bool (*eh_frame)(void *ctx, int module, uint64_t ip, uint64_t *addr, uint64_t *size);
};

/* Fills in *s, which is empty, but for symbols. Nothing that the source says is believed. False: no
 * memory. */
bool unwind_walk(const struct unwind_source *src, struct unwind_stack *s) MUST_USE;

#endif
