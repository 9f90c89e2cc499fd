/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platforms of this build, the best first.
 */
#include "platform/platform.h"

const struct platform *const g_platforms[] = {
	&platform_trap, &platform_ptrace, &platform_notify, &platform_mock, NULL,
};

const struct pf_marshal *g_pf_marshal;
const uint8_t *g_pf_argc;
bool g_pf_answers, g_pf_stamps, g_pf_trap_tsc;
_Atomic bool g_pf_killed;
const struct platform *g_pf;
