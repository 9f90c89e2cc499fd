/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders: host calls that a stub makes for the sentry, and how a map operation becomes one. For
 * the ptrace platform's batches and the trap platform's agents.
 */
#ifndef MOAT_PLATFORM_ORDER_H
#define MOAT_PLATFORM_ORDER_H

#include "platform/platform.h"
#include "platform/stub/order.h"

struct pt_file;

/* Whole pages of guest memory, and some? */
bool order_range_ok(uint64_t addr, uint64_t size);
void order_set(struct stub_order *o, uint64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
	       uint64_t e, uint64_t f);
/* Turns @op into a host call. *file: what it holds until the call is done, or NULL. 0 or -errno. */
int order_from_op(struct stub_order *o, const struct map_op *op, struct pt_file **file) MUST_USE;

#endif
