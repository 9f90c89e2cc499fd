/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The character devices of major 1: null, zero, full, random, urandom.
 */
#ifndef MOAT_VFS_MEMDEV_H
#define MOAT_VFS_MEMDEV_H

#include "vfs/vfs.h"

extern const struct file_ops g_memdev_null;

/* At start, before the first open. */
void memdev_register(void);

#endif
