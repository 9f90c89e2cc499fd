/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guests write to files of the host, counted: the meter write_bytes.
 *
 * Theory of operation: bytes written are charged and never given back. What a file gains otherwise,
 * and what is written by mappings, is charged by vfs/room.h.
 */
#ifndef MOAT_VFS_WRITE_METER_H
#define MOAT_VFS_WRITE_METER_H

#include "base/uio.h"

/* Charges for u->resid, which it cuts to what is left. 0 or -EDQUOT. */
int write_charge(struct uio *u) MUST_USE;
/* Gives back what was charged and not written. */
void write_uncharge(uint64_t charged, ssize_t written);

#endif
