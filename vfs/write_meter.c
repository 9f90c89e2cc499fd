/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guests write to files of the host, counted. See vfs/write_meter.h.
 */
#include "vfs/write_meter.h"

#include <errno.h>
#include "base/meter.h"

int write_charge(struct uio *u)
{
	while (!meter_charge(METER_write_bytes, u->resid)) {
		const uint64_t used = meter_current(METER_write_bytes);
		const uint64_t limit = meter_limit(METER_write_bytes);

		if (used >= limit)
			return -EDQUOT;
		u->resid = MIN(u->resid, limit - used);
	}
	return 0;
}

void write_uncharge(uint64_t charged, ssize_t written)
{
	const uint64_t n = written > 0 ? (uint64_t)written : 0;

	if (n < charged)
		meter_uncharge(METER_write_bytes, charged - n);
}
