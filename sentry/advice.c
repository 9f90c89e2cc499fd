/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would allow something, as text. See sentry/advice.h.
 */
#include "sentry/advice.h"

#include <stdio.h>
#include <string.h>

bool g_advice_private = true;

static bool is_plain_word(const char *s)
{
	for (; *s; s++) {
		if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') &&
		    !(*s >= '0' && *s <= '9') && !strchr("/._-+:@%,=", *s))
			return false;
	}
	return true;
}

/* bash's $'…' has our \xNN. */
void advice_word(char *out, size_t room, const char *text, char *scratch)
{
	size_t used = strlen(out);

	if (is_plain_word(text)) {
		snprintf(out + used, room - used, "%s", text);
		return;
	}
	audit_quote(scratch, ADVICE_SCRATCH, text, strlen(text), NULL);
	used += (size_t)snprintf(out + used, room - used, "$'");
	for (const char *p = scratch; *p && used + 4 < room; p++) {
		if (*p == '\'')
			out[used++] = '\\';
		out[used++] = *p;
	}
	snprintf(out + used, room - used, "'");
}

static size_t count_char(const char *s, char c)
{
	size_t n = 0;

	for (; *s; s++)
		n += *s == c;
	return n;
}

/* Can a string of a policy, which has no way to write bytes, hold @text? */
static bool fits_policy(const char *text, char *scratch)
{
	const size_t n = audit_quote(scratch, ADVICE_SCRATCH, text, strlen(text), NULL);

	/* Quoting may have doubled backslashes, which is what a policy wants, and nothing else. */
	return n == strlen(text) + count_char(text, '\\') && !strpbrk(text, "\n\t");
}

void advice_policy(char *out, size_t room, const char *target, const char *host, bool write,
		   bool exec, char *scratch)
{
	const char *texts[] = {target, strcmp(host, target) != 0 ? host : NULL};
	size_t used;

	out[0] = '\0';
	if (!fits_policy(target, scratch) || !fits_policy(host, scratch))
		return;
	used = (size_t)snprintf(out, room, "path ");
	for (unsigned i = 0; i < ARRAY_SIZE(texts) && texts[i]; i++) {
		if (i)
			used += (size_t)snprintf(out + used, room - used, " { host = ");
		out[used++] = '"';
		for (const char *p = texts[i]; *p && used + 64 < room; p++) {
			if (*p == '"' || *p == '\\')
				out[used++] = '\\';
			out[used++] = *p;
		}
		out[used++] = '"';
		out[used] = '\0';
	}
	snprintf(out + used, room - used, "%saccess = %s%s }", texts[1] ? " " : " { ",
		 write ? "rw" : "ro", exec ? " exec = true" : "");
}
