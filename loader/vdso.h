/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vDSO: a small shared object of moat's own that answers clock reads inside the guest.
 *
 * Theory of operation: the image (loader/vdso/) is built with moat and embedded in it. Every new
 * program gets two mappings, one behind the other: the clock's parameters (one read-only page,
 * shared with base/clock.h's writer), and the image, private and executable. The code finds the
 * page just below itself. Whenever the parameters are not valid, or the call is none that they can
 * answer, it makes the real system call.
 */
#ifndef MOAT_LOADER_VDSO_H
#define MOAT_LOADER_VDSO_H

#include "base/types.h"

/* Once, from a fiber or at start, after vfs_init() and clock_start(). Without it (or if it fails)
 * programs get no vDSO. 0 or -errno. */
int vdso_init(void) MUST_USE;
bool vdso_available(void);
/* Sizes in whole pages; host descriptors, borrowed; platform file keys. */
uint64_t vdso_text_size(void);
uint64_t vdso_vvar_size(void);
int vdso_text_fd(void);
int vdso_vvar_fd(void);
uint64_t vdso_text_key(void);
uint64_t vdso_vvar_key(void);

#endif
