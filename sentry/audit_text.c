/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See sentry/audit_text.h.
 *
 * References: RFC 3629 (UTF-8); the Unicode Standard, 3.9, table 3-7 (well-formed byte sequences);
 * RFC 3339.
 */
#include "sentry/audit_text.h"

#include <stdio.h>
#include <string.h>

/* The length of the well-formed sequence at @p and its character, or 0. */
static size_t utf8_sequence(const uint8_t *p, size_t size, uint32_t *out)
{
	uint32_t c = p[0];
	size_t n;

	if (c < 0x80) {
		*out = c;
		return 1;
	}
	if (c < 0xc2 || c > 0xf4)
		return 0;
	n = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	if (size < n)
		return 0;
	c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if ((n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	if (c >= 0xd800 && c < 0xe000)
		return 0;
	*out = c;
	return n;
}

/* What a reader sees, and no terminal or browser obeys. */
static bool is_plain(uint32_t c)
{
	if (c < 0x20 || (c >= 0x7f && c < 0xa0))
		return false;
	/* Marks and overrides of direction, invisible characters, line separators, non-characters,
	 * tags. */
	if ((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	    (c >= 0x2060 && c <= 0x206f) || c == 0x061c || c == 0x00ad || c == 0xfeff)
		return false;
	if ((c >= 0xfdd0 && c < 0xfdf0) || (c & 0xfffe) == 0xfffe || (c >= 0xe0000 && c < 0xe1000))
		return false;
	return true;
}

static char escape_letter(uint32_t c)
{
	return c == '\\' ? '\\' : c == '\n' ? 'n' : c == '\t' ? 't' : '\0';
}

/* One character, or one byte that is part of none, quoted: its bytes, 0 if there is no room. @n: of
 * the input that it took. */
static size_t quote_one(char *out, size_t room, const uint8_t *p, size_t size, bool backslash,
			size_t *n)
{
	static const char hex[] = "0123456789abcdef";
	uint32_t c = 0;
	const size_t length = utf8_sequence(p, size, &c);
	const bool plain = length && is_plain(c);
	const char letter = length && (c != '\\' || backslash) ? escape_letter(c) : '\0';
	size_t need;

	*n = MAX(length, (size_t)1);
	need = letter ? 2 : plain ? length : AUDIT_QUOTED * *n;
	if (need >= room)
		return 0;
	if (letter) {
		out[0] = '\\';
		out[1] = letter;
	} else if (plain) {
		memcpy(out, p, length);
	} else {
		for (size_t i = 0; i < *n; i++) {
			char *o = out + i * AUDIT_QUOTED;

			o[0] = '\\';
			o[1] = 'x';
			o[2] = hex[p[i] >> 4];
			o[3] = hex[p[i] & 15];
		}
	}
	return need;
}

static size_t quote(char *out, size_t room, const char *text, size_t size, bool backslash,
		    size_t *took)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t used = 0, at = 0;

	while (at < size) {
		size_t n,
			put = quote_one(out + used, room - used, p + at, size - at, backslash, &n);

		if (!put)
			break;
		used += put;
		at += n;
	}
	out[used] = '\0';
	*took = at;
	return used;
}

size_t audit_quote(char *out, size_t room, const char *bytes, size_t size, bool *cut)
{
	size_t took, used = quote(out, room, bytes, size, true, &took);

	if (cut)
		*cut = took < size;
	return used;
}

size_t audit_clean(char *out, size_t room, const char *text, size_t size, size_t *took)
{
	return quote(out, room, text, size, false, took);
}

/* Howard Hinnant's civil_from_days. gmtime_r would read files of time zones first. */
void audit_time_text(char out[AUDIT_TIME_SIZE], uint64_t ns)
{
	const uint64_t second = ns / 1000000000, z = second / 86400 + 719468;
	const uint64_t era = z / 146097, doe = z % 146097;
	const uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	const uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	const unsigned month = (unsigned)(mp < 10 ? mp + 3 : mp - 9), of_day = second % 86400;

	snprintf(out, AUDIT_TIME_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ",
		 (unsigned)((yoe + era * 400 + (month <= 2)) % 10000), month % 100,
		 (unsigned)(doy - (153 * mp + 2) / 5 + 1) % 100, of_day / 3600, of_day / 60 % 60,
		 of_day % 60, (unsigned)(ns % 1000000000 / 1000));
}
