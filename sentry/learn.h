/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run uses of what it was granted (moat policy learn).
 *
 * Theory of operation: while learning, name look-ups, opens, changes and executable maps note the
 * path that they led to and the way in which it is used. A table holds each path once, with all its
 * ways, and is written at the end to a descriptor of the monitor's, as records of NUL-terminated
 * text. The monitor (runtime/learn.c) makes a policy of it and takes nothing on trust: what the
 * records ask for beyond the run's own grant is not learnt.
 *
 * Locking: the table's lock is a leaf. learn_used may be called with fibers' locks held, no short
 * one.
 */
#ifndef MOAT_SENTRY_LEARN_H
#define MOAT_SENTRY_LEARN_H

#include <stdio.h>
#include "base/types.h"

struct path;

/* Constant once the first guest runs. */
extern bool g_learning;

/* The ways of vfs/vfs.h (VFS_USE_*), and what the path is. */
enum { LEARN_DIRECTORY = 0x100, LEARN_LINK = 0x200 };

/* Before the first guest runs. */
void learn_start(void);
void learn_used(const struct path *p, unsigned how);
/* A denial: @why a fixed word, @path quoted text or "". */
void learn_denied(const char *why, const char *path);
/* After the last guest: "u HEX PATH", "d WHY PATH", "m NAME PEAK", and at the end ".", each with a
 * NUL. */
void learn_write(FILE *f);

#endif
