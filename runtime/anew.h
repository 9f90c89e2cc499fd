/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moat without what the caller's environment says to the C library.
 */
#ifndef MOAT_RUNTIME_ANEW_H
#define MOAT_RUNTIME_ANEW_H

/* In main(), after wall_arguments() and before all else: executes moat anew with @argv if the
 * environment has such variables, which are as the caller has set them when it returns. */
void anew_without(char **argv);

#endif
