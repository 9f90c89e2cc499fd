/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One host call that the sentry has authorised: what stands on an order page. Freestanding.
 */
#ifndef MOAT_PLATFORM_STUB_ORDER_H
#define MOAT_PLATFORM_STUB_ORDER_H

#include <stdint.h>

struct stub_order {
	uint64_t nr;
	uint64_t arg[6];
	uint64_t pad;
};
_Static_assert(sizeof(struct stub_order) == 64, "stubs step by 64");

#endif
