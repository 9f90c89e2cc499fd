/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Egress rules as texts.
 */
#include "runtime/egress.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Digits only, no more than @max; -1 else. */
static long parse_number(const char *s, long max)
{
	char *end;
	long v;

	if (!isdigit((unsigned char)s[0]) || strlen(s) > 5)
		return -1;
	v = strtol(s, &end, 10);
	return *end || v > max ? -1 : v;
}

/* Labels of letters, digits and hyphens; the last is no number, so that no form of an address is
 * taken for a name. */
static bool parse_name(const char *s, char *out, size_t size)
{
	size_t label = 0, n = strlen(s);
	bool digits = true;

	if (n == 0 || n >= size || n > 253)
		return false;
	for (size_t i = 0; i <= n; i++) {
		const char c = (char)tolower((unsigned char)s[i]);

		if (c == '.' || c == '\0') {
			if (label == 0 || label > 63 || s[i - 1] == '-')
				return false;
			if (c == '\0')
				break;
			label = 0;
			digits = true;
		} else {
			if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') &&
			    (c != '-' || label == 0))
				return false;
			digits = digits && c >= '0' && c <= '9';
			label++;
		}
		out[i] = c;
	}
	out[n] = '\0';
	return !digits && strncmp(strrchr(out, '.') ? strrchr(out, '.') + 1 : out, "0x", 2) != 0;
}

static bool bits_clear(const uint8_t *a, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++)
		if (a[i / 8] & (0x80u >> (i % 8)))
			return false;
	return true;
}

/* "ADDRESS" or "ADDRESS/PREFIX". 0: it is none. */
static int parse_range(char *s, struct egress_rule *out, struct err *e)
{
	char *slash = strchr(s, '/');
	unsigned bits;
	long prefix;

	if (slash)
		*slash = '\0';
	out->v6 = strchr(s, ':') != NULL;
	if (inet_pton(out->v6 ? AF_INET6 : AF_INET, s, out->addr) != 1)
		return slash || out->v6 ? err_set(e, EINVAL, "%s is no address", s) : 0;
	bits = out->v6 ? 128 : 32;
	prefix = slash ? parse_number(slash + 1, bits) : (long)bits;
	if (prefix < 0)
		return err_set(e, EINVAL, "a prefix is a number from 0 to %u", bits);
	if (!bits_clear(out->addr, (unsigned)prefix, bits))
		return err_set(e, EINVAL,
			       "bits of the address behind the prefix of %ld are set; which range "
			       "is meant?",
			       prefix);
	out->kind = EGRESS_RANGE;
	out->prefix = (unsigned)prefix;
	return 1;
}

static int parse_host(char *s, struct egress_rule *out, struct err *e)
{
	int r = parse_range(s, out, e);

	if (r)
		return MIN(r, 0);
	out->kind = strncmp(s, "*.", 2) == 0 ? EGRESS_SUFFIX : EGRESS_NAME;
	if (!parse_name(s + (out->kind == EGRESS_SUFFIX ? 2 : 0), out->name, sizeof(out->name)))
		return err_set(e, EINVAL,
			       "it is HOST, *.SUFFIX or ADDRESS/PREFIX, with a port: "
			       "example.org:443, *.example.org, 192.0.2.0/24, "
			       "[2001:db8::/32]:443");
	return 0;
}

int egress_parse(const char *text, struct egress_rule *out, struct err *e)
{
	char copy[300], *host = copy, *port = NULL;

	memset(out, 0, sizeof(*out));
	if (strlen(text) >= sizeof(copy))
		return err_set(e, EINVAL, "a name has no more than 253 bytes");
	strcpy(copy, text);
	if (copy[0] == '[') {
		char *end = strchr(copy, ']');

		if (!end || (end[1] && end[1] != ':'))
			return err_set(e, EINVAL,
				       "a bracket is closed, and a port follows: "
				       "[2001:db8::/32]:443");
		host++;
		*end = '\0';
		port = end[1] ? end + 2 : NULL;
	} else {
		char *colon = strchr(copy, ':');

		/* More than one: an address of IPv6. */
		if (colon && !strchr(colon + 1, ':')) {
			*colon = '\0';
			port = colon + 1;
		}
	}
	if (port) {
		const long v = parse_number(port, 65535);

		if (v < 1)
			return err_set(e, EINVAL, "a port is a number from 1 to 65535");
		out->port = (uint16_t)v;
	}
	return parse_host(host, out, e);
}

static bool ends_with(const char *name, const char *suffix)
{
	const size_t n = strlen(name), m = strlen(suffix);

	return n > m && name[n - m - 1] == '.' && strcmp(name + n - m, suffix) == 0;
}

bool egress_covers(const struct egress_rule *a, const struct egress_rule *b)
{
	if (a->port && a->port != b->port)
		return false;
	switch (a->kind) {
	case EGRESS_NAME:
		return b->kind == EGRESS_NAME && strcmp(a->name, b->name) == 0;
	case EGRESS_SUFFIX:
		if (b->kind == EGRESS_SUFFIX && strcmp(a->name, b->name) == 0)
			return true;
		return b->kind != EGRESS_RANGE && ends_with(b->name, a->name);
	case EGRESS_RANGE:
		break;
	}
	if (b->kind != EGRESS_RANGE || a->v6 != b->v6 || a->prefix > b->prefix)
		return false;
	for (unsigned i = 0; i < a->prefix; i++)
		if ((a->addr[i / 8] ^ b->addr[i / 8]) & (0x80u >> (i % 8)))
			return false;
	return true;
}
