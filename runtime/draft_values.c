/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a draft that are numbers with units: limits, times, the seed.
 */
#include "runtime/draft.h"

#include "base/meter.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>
#include "base/hostcall.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit g_bytes[] = {{"", 1},           {"K", 1ull << 10}, {"M", 1ull << 20},
				      {"G", 1ull << 30}, {"T", 1ull << 40}, {NULL, 0}};
static const struct unit g_times[] = {{"ms", NSEC_PER_MSEC},       {"s", NSEC_PER_SEC},
				      {"m", 60 * NSEC_PER_SEC},    {"h", 3600 * NSEC_PER_SEC},
				      {"d", 86400 * NSEC_PER_SEC}, {NULL, 0}};
static const struct unit g_counts[] = {{"", 1}, {NULL, 0}};
static const struct unit g_percents[] = {{"%", 1}, {NULL, 0}};

static const struct {
	const struct unit *units;
	const char *example;
} g_units[] = {
	[METER_UNIT_COUNT] = {g_counts, "a number from 1, such as 100"},
	[METER_UNIT_BYTES] = {g_bytes, "bytes from 1, such as 512M (K, M, G, T), or a share of the "
				       "host's memory, such as 25%"},
	[METER_UNIT_TIME] = {g_times, "a time above 0, such as 10s (ms, s, m, h, d)"},
	[METER_UNIT_PERCENT] = {g_percents,
				"a percentage above 0, such as 50% (100% is one processor)"},
};

unsigned draft_host_cpus(void)
{
	cpu_set_t set;

	if (HOST(sched_getaffinity_monitor, sched_getaffinity(0, sizeof(set), &set)) == 0)
		return (unsigned)CPU_COUNT(&set);
	return 1;
}

/* Digits and one of @units; false if it is anything else or does not fit. */
static bool parse_amount(const char *s, const struct unit *units, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (!isdigit((unsigned char)s[0]))
		return false;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno)
		return false;
	for (const struct unit *u = units; u->name; u++)
		if (strcmp(end, u->name) == 0)
			return !__builtin_mul_overflow(v, u->factor, out);
	return false;
}

static int find_limit(const char *name)
{
	for (int i = 0; i < METER_COUNT; i++)
		if (strcmp(meter_name((enum meter)i), name) == 0)
			return i;
	return -1;
}

static uint64_t host_memory(void)
{
	static uint64_t bytes;
	struct sysinfo si;

	if (bytes == 0) /* one value for all limits */
		bytes = HOST(sysinfo_monitor, sysinfo(&si)) == 0
				? (uint64_t)si.totalram * si.mem_unit
				: UINT64_MAX;
	return bytes;
}

/* In whole MiB, as people write them. */
static uint64_t share_of_memory(uint64_t percent)
{
	const uint64_t bytes = host_memory() / 100 * percent, rest = bytes % ((uint64_t)1 << 20);

	return bytes > rest ? bytes - rest : bytes;
}

/* What the host has of it; UINT64_MAX: no such bound. */
static uint64_t host_bound(enum meter m, const char **what)
{
	switch (m) {
	case METER_memory:
	case METER_sentry_memory:
	case METER_file_bytes:
	case METER_buffers:
		*what = "bytes of memory";
		return host_memory();
	case METER_cpu_share:
		*what = "percent of processors";
		return 100ull * draft_host_cpus();
	case METER_processes:
	case METER_threads:
		*what = "pids at most";
		return 1ull << 22; /* PID_MAX_LIMIT */
	default:
		return UINT64_MAX;
	}
}

int draft_set_limit(struct draft *d, const char *name, const char *value,
		    const struct grant_origin *origin, struct err *e)
{
	const int i = find_limit(name);
	const char *what = "";
	uint64_t v = GRANT_NO_LIMIT, bound;

	if (i < 0) {
		char all[400] = "";

		for (int k = 0; k < METER_COUNT; k++) {
			strncat(all, k ? ", " : "", sizeof(all) - strlen(all) - 1);
			strncat(all, meter_name((enum meter)k), sizeof(all) - strlen(all) - 1);
		}
		return err_set(e, EINVAL, "no such limit; there are %s", all);
	}
	if (strcmp(value, "none") != 0) {
		const enum meter_unit unit = meter_unit_of((enum meter)i);

		if (unit == METER_UNIT_BYTES && parse_amount(value, g_percents, &v) && v <= 100)
			v = share_of_memory(v);
		else if (!parse_amount(value, g_units[unit].units, &v))
			v = 0;
		if (v == 0 || v == GRANT_NO_LIMIT)
			return err_set(e, EINVAL, "it is %s, or none", g_units[unit].example);
		bound = host_bound((enum meter)i, &what);
		if (v > bound)
			return err_set(e, ERANGE, "this host has %llu %s; name no more",
				       (unsigned long long)bound, what);
	}
	d->g.limits[i] = v;
	d->g.limit_origin[i] = *origin;
	return 0;
}

/* ---- clock and chance ---- */

/* A fraction of a second, if there is one. The rest, or NULL: it is wrong. */
static const char *parse_fraction(const char *s, int64_t *ns)
{
	int64_t digit = (int64_t)NSEC_PER_SEC / 10;

	*ns = 0;
	if (*s != '.')
		return s;
	if (!isdigit((unsigned char)*++s))
		return NULL;
	for (; isdigit((unsigned char)*s); s++, digit /= 10)
		*ns += (*s - '0') * digit;
	return s;
}

/* Two digits. -1: they are not. */
static int two_digits(const char *s)
{
	if (!isdigit((unsigned char)s[0]) || !isdigit((unsigned char)s[1]))
		return -1;
	return (s[0] - '0') * 10 + (s[1] - '0');
}

/* Z, or the distance from UTC as +02:00. Seconds. */
static bool parse_zone(const char *s, int64_t *seconds)
{
	int hours, minutes;

	*seconds = 0;
	if (strcmp(s, "Z") == 0)
		return true;
	if ((*s != '+' && *s != '-') || strlen(s) != 6 || s[3] != ':')
		return false;
	hours = two_digits(s + 1);
	minutes = two_digits(s + 4);
	if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
		return false;
	*seconds = (hours * 60 + minutes) * (*s == '-' ? -60 : 60);
	return true;
}

/* RFC 3339. */
static bool parse_date(const char *s, int64_t *seconds, int64_t *ns)
{
	struct tm tm = {0}, back;
	int64_t zone;
	time_t t;

	s = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
	s = s ? parse_fraction(s, ns) : NULL;
	if (!s || !parse_zone(s, &zone))
		return false;
	back = tm;
	t = timegm(&back);
	*seconds = (int64_t)t - zone;
	/* No 30th of February. */
	return back.tm_mday == tm.tm_mday && back.tm_mon == tm.tm_mon;
}

/* [@]seconds since 1970, or a date and time. */
static bool parse_moment(const char *s, int64_t *ns)
{
	int64_t seconds, fraction;

	if (!parse_date(s, &seconds, &fraction)) {
		char *end;

		s += *s == '@';
		errno = 0;
		seconds = strtoll(s, &end, 10);
		if (errno || !isdigit((unsigned char)*s))
			return false;
		s = parse_fraction(end, &fraction);
		if (!s || *s)
			return false;
	}
	return seconds >= 0 && !__builtin_mul_overflow(seconds, (int64_t)NSEC_PER_SEC, ns) &&
	       !__builtin_add_overflow(*ns, fraction, ns);
}

/* Would the guest's time be one that 64 bits of nanoseconds since 1970 hold, for long enough? */
static bool offset_fits(int64_t ns)
{
	struct timespec now;
	int64_t then;

	clock_gettime(CLOCK_REALTIME, &now);
	return !__builtin_add_overflow((int64_t)now.tv_sec * (int64_t)NSEC_PER_SEC, ns, &then) &&
	       then >= 0 && then < INT64_MAX - INT64_MAX / 100;
}

int draft_set_clock(struct draft *d, const char *value, const struct grant_origin *origin,
		    struct err *e)
{
	/* A virtual clock must begin somewhere that is not today. */
	int64_t ns = 1767225600 * (int64_t)NSEC_PER_SEC; /* 2026-01-01 */
	enum clock_kind kind;
	uint64_t v;
	bool ok = true;

	if (strcmp(value, "host") == 0) {
		kind = CLOCK_KIND_HOST;
		ns = 0;
	} else if (strncmp(value, "offset:", 7) == 0) {
		const bool minus = value[7] == '-';

		kind = CLOCK_KIND_OFFSET;
		ok = parse_amount(value + 7 + (minus || value[7] == '+'), g_times, &v) &&
		     v <= INT64_MAX;
		ns = ok ? (minus ? -(int64_t)v : (int64_t)v) : 0;
	} else if (strncmp(value, "fixed:", 6) == 0) {
		kind = CLOCK_KIND_FIXED;
		ok = parse_moment(value + 6, &ns);
	} else if (strncmp(value, "virtual:", 8) == 0) {
		kind = CLOCK_KIND_VIRTUAL;
		ok = parse_moment(value + 8, &ns);
	} else {
		kind = CLOCK_KIND_VIRTUAL;
		ok = strcmp(value, "virtual") == 0;
	}
	if (!ok)
		return err_set(e, EINVAL,
			       "it is one of host, offset:[-]TIME (10s, 3h, 7d), fixed:WHEN, "
			       "virtual[:WHEN]; WHEN is seconds since 1970 or "
			       "2026-01-01T00:00:00Z, up to 2262");
	if (kind == CLOCK_KIND_OFFSET && !offset_fits(ns))
		return err_set(
			e, ERANGE,
			"the guest's time would be before 1970 or after 2259; name a smaller "
			"offset");
	d->g.clock = kind;
	d->g.clock_arg_ns = ns;
	d->clock_origin = *origin;
	return 0;
}

int draft_set_seed(struct draft *d, const char *value, const struct grant_origin *origin,
		   struct err *e)
{
	uint64_t v;

	if (!parse_amount(value, g_counts, &v))
		return err_set(e, EINVAL, "it is a number from 0 to 18446744073709551615");
	d->g.seeded = true;
	d->g.seed = v;
	d->seed_origin = *origin;
	return 0;
}

/* ---- what this build can hold ---- */

const char *draft_origin_text(const struct grant_origin *o, char *buf, size_t size)
{
	if (o->line)
		snprintf(buf, size, "%s:%u:%u", o->file, o->line, o->column);
	else
		snprintf(buf, size, "%s", o->file);
	return buf;
}

int draft_check_built(const struct draft *d, struct err *e)
{
	char at[128];

	if (d->g.egress_count)
		return err_set(e, ENOSYS,
			       "%s: %s: moat has no network yet; leave out what connects",
			       draft_origin_text(&d->g.egress[0].origin, at, sizeof(at)),
			       d->g.egress[0].rule);
	return 0;
}
