/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a guest's as text that is safe to print and to put into JSON.
 */
#ifndef MOAT_SENTRY_AUDIT_TEXT_H
#define MOAT_SENTRY_AUDIT_TEXT_H

#include "base/types.h"

/* Room for a quoted byte. */
#define AUDIT_QUOTED 4u

/*
 * Quotes @size bytes into @out (with a NUL; @room > 0) and returns the length. Printable UTF-8
 * stays as it is; a backslash is doubled; newlines and tabs become \n and \t; each byte of anything
 * else (controls, C1 controls, marks that change the direction of text, what is not UTF-8) becomes
 * \xNN. So no two names look alike, and no terminal obeys one. What does not fit is cut between
 * characters, and *cut (may be NULL) says so.
 */
size_t audit_quote(char *out, size_t room, const char *bytes, size_t size, bool *cut);

/* The same for text that is quoted already, or should be: backslashes stay. *took: how many bytes
 * of
 * @text were used. */
size_t audit_clean(char *out, size_t room, const char *text, size_t size, size_t *took);

/* A point in time as 2026-11-29T21:30:00.123456Z, 28 bytes with the NUL. */
#define AUDIT_TIME_SIZE 32u
void audit_time_text(char out[AUDIT_TIME_SIZE], uint64_t ns_since_1970);

#endif
