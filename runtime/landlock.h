/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock, as moat uses it: a set of rules by what descriptors lead to, and from its taking on no
 * other file by any path, no TCP, no abstract socket of others. Descriptors that were opened before
 * stay what they are.
 *
 * References: landlock(7).
 */
#ifndef MOAT_RUNTIME_LANDLOCK_H
#define MOAT_RUNTIME_LANDLOCK_H

#include "base/types.h"

/* Rights of Linux 5.13 (the first 13 bits), and of later ones by the version of the interface. */
#define LL_EXECUTE (1ull << 0)
#define LL_WRITE_FILE (1ull << 1)
#define LL_READ_FILE (1ull << 2)
#define LL_READ_DIR (1ull << 3)
#define LL_REMOVE_DIR (1ull << 4)
#define LL_REMOVE_FILE (1ull << 5)
#define LL_MAKE_CHAR (1ull << 6)
#define LL_MAKE_REG (1ull << 8)
#define LL_MAKE_BLOCK (1ull << 11)
#define LL_REFER (1ull << 13)
#define LL_TRUNCATE (1ull << 14)
#define LL_IOCTL_DEV (1ull << 15)
#define LL_READ (LL_READ_FILE | LL_READ_DIR)
#define LL_FILE_RIGHTS (LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE)

/* The version that this host has; below 1: none, errno says why. Below 2 no renames. */
long landlock_version(void);
/* A set without rules, for version @abi, at least 2; *all: the rights that it knows. With @signals
 * none to processes outside either. A descriptor, or -1 and errno. */
int landlock_new(long abi, bool signals, uint64_t *all);
/* What descriptor @fd leads to has those @rights. */
bool landlock_allow(int set, uint64_t rights, int fd);
/* It holds for this thread, what it starts, and for ever; @set is closed in any case. The thread
 * has no_new_privs. */
bool landlock_enter(int set);

#endif
