/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guests write to files of the host, counted: the meter write_bytes.
 *
 * Theory of operation: bytes written are charged and never given back, and so is the room that a
 * file gains otherwise (truncate, fallocate): a mapping writes only to room that a file has, so
 * that what a guest can add to a host's disk is bounded without a look at its mappings.
 */
#ifndef MOAT_VFS_WRITE_METER_H
#define MOAT_VFS_WRITE_METER_H

#include "base/uio.h"

/* Charges for u->resid, which it cuts to what is left. 0 or -EDQUOT. */
int write_charge(struct uio *u) MUST_USE;
/* Gives back what was charged and not written. */
void write_uncharge(uint64_t charged, ssize_t written);
/* A file of @old bytes becomes one of @size. 0 or -EDQUOT. */
int write_charge_growth(uint64_t old, uint64_t size) MUST_USE;
/* fallocate(2) of @size bytes; @mode as the host has it. 0 or -EDQUOT. */
int write_charge_fallocate(int mode, int64_t size) MUST_USE;

#endif
