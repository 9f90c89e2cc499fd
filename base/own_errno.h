/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errno, looked for anew at each use. The Makefile includes this into every file of moat's.
 *
 * The C library tells compilers that the address of errno never changes, so they keep it across
 * calls; but a fiber may come back from one on another thread (base/fiber.c), and would then read
 * what that other thread's last host call said.
 */
#ifndef MOAT_BASE_OWN_ERRNO_H
#define MOAT_BASE_OWN_ERRNO_H

#ifndef __ASSEMBLER__
#include <errno.h>

/* The calling thread's errno. */
int *own_errno(void);

#undef errno
#define errno (*own_errno())
#endif

#endif
