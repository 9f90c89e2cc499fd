/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would allow something, as text: a word of a command line, a rule of a policy file.
 */
#ifndef MOAT_SENTRY_ADVICE_H
#define MOAT_SENTRY_ADVICE_H

#include "base/lx.h"
#include "base/types.h"
#include "sentry/audit_text.h"

/* Room for a quoted path. */
#define ADVICE_SCRATCH (AUDIT_QUOTED * LX_PATH_MAX + 64)

/* May the caller read what not everybody of the host may? If not, to grant it by name is no mend.
 */
extern bool g_advice_private;

/* Appends to @out, a string in @room bytes, a word that a shell reads back as @text. @scratch: of
 * ADVICE_SCRATCH bytes. */
void advice_word(char *out, size_t room, const char *text, char *scratch);
/* A rule that lets the guest see the host's @host at @target; "" if no policy can say it. */
void advice_policy(char *out, size_t room, const char *target, const char *host, bool write,
		   bool exec, char *scratch);

#endif
