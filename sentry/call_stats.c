/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each guest call cost. See sentry/call_stats.h.
 *
 * Theory of operation: host calls are counted by thread and moved to accounts (base/hostcall.h);
 * the accounts here are one for each guest call, one for page faults, one for rewriting call sites
 * and one for handing over to guests and waiting for them. A fiber's account changes when its guest
 * traps and when it goes on, so what other fibers do while it sleeps is theirs.
 *
 * Tiers: 0, the stub answered alone (the platform knows). 1, the request came while the sentry was
 * awake and the answer found the guest awake: no host call took it or gave it back, and the
 * handler did not sleep. 2, somebody slept: the worker before the request, the handler, or the
 * guest until the answer woke it. The last is seen when the guest is resumed; so a call's tier is
 * noted at the next trap.
 */
#include "sentry/call_stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/meter.h"
#include "base/alloc.h"
#include "base/hostcall.h"
#include "platform/platform.h"
#include "sentry/syscall.h"

enum {
	FOR_FAULTS = HOST_FOR_OWNER,
	FOR_RUN,
	FOR_REWRITE,
	FOR_CALL, /* plus the number */
};
_Static_assert(FOR_CALL + SYSCALL_MAX + 1 <= HOST_ACCOUNTS, "an account for each number");
_Static_assert(PF_STATS_CALLS == SYSCALL_MAX, "the platform counts them all");

/* The last: numbers out of range. */
static _Atomic uint64_t g_tier[SYSCALL_MAX + 1][3];

static void note_tier(struct task *t, bool slept)
{
	if (t->stats.pending)
		atomic_fetch_add_explicit(&g_tier[t->stats.nr][slept || t->stats.slept ? 2 : 1], 1,
					  memory_order_relaxed);
	t->stats.pending = false;
}

void call_stats_resume(struct task *t)
{
	t->stats.slept |= fiber_account(FOR_RUN).parked;
}

void call_stats_trap(struct task *t, const struct pf_trap *trap)
{
	const unsigned nr = (uint32_t)t->regs.orig_rax;
	struct fiber_span span;

	if (trap->kind == TRAP_SYSCALL && !trap->i386) {
		span = fiber_account(FOR_CALL + MIN(nr, (unsigned)SYSCALL_MAX));
		note_tier(t, span.host_calls > 0);
		t->stats.pending = true;
		t->stats.nr = MIN(nr, (unsigned)SYSCALL_MAX);
		t->stats.slept = span.worker_slept;
		return;
	}
	span = fiber_account(trap->kind == TRAP_FAULT ? FOR_FAULTS : FOR_RUN);
	note_tier(t, span.host_calls > 0);
}

void call_stats_rewrite_begin(void)
{
	if (unlikely(g_host_accounting))
		(void)fiber_account(FOR_REWRITE);
}

void call_stats_rewrite_end(struct task *t)
{
	if (unlikely(g_host_accounting))
		(void)fiber_account(FOR_CALL + t->stats.nr);
}

void call_stats_end(struct task *t)
{
	note_tier(t, fiber_account(HOST_FOR_FIBERS).parked);
}

/* --- The report --- */

struct row {
	unsigned nr;
	uint64_t calls, errors, tier[3];
};

struct named {
	const char *name;
	uint64_t count;
};

struct report {
	FILE *out;
	const char *eol;
	bool table; /* for programs: tabs between fields */
	bool tier0; /* the platform answers calls alone, and counts them */
	struct named names[HOST_TAGS];
};

static int by_count(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->name, y->name);
}

static int by_calls(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->calls != y->calls ? (x->calls < y->calls ? 1 : -1) : (int)x->nr - (int)y->nr;
}

/* Adds up the accounts [@first, @last] by the names of the calls into r->names, ended by a count of
 * 0. Returns the sum. */
static uint64_t host_calls_of(struct report *r, unsigned first, unsigned last)
{
	uint64_t sum = 0;
	unsigned n = 0, i;

	for (enum host_tag tag = 0; tag < HOST_TAGS; tag++) {
		const char *name = host_tag_call(tag);
		uint64_t count = 0;

		for (unsigned account = first; account <= last; account++)
			count += host_accounted(account, tag);
		if (count == 0)
			continue;
		sum += count;
		for (i = 0; i < n && strcmp(r->names[i].name, name) != 0; i++)
			continue;
		if (i == n)
			r->names[n++] = (struct named){.name = name};
		r->names[i].count += count;
	}
	qsort(r->names, n, sizeof(r->names[0]), by_count);
	if (n < HOST_TAGS)
		r->names[n].count = 0;
	return sum;
}

/* The last column, and where it ends for people: many go on in lines of their own below it. */
#define NAMES_AT 94
#define WIDTH 150

/* @used: of the line. */
static void print_names(const struct report *r, int used)
{
	if (r->table)
		fputc('\t', r->out);
	for (unsigned i = 0; i < HOST_TAGS && r->names[i].count; i++) {
		char text[64];
		const int n = snprintf(text, sizeof(text), "%s %" PRIu64, r->names[i].name,
				       r->names[i].count);

		if (i)
			used += fprintf(r->out, r->table ? ", " : ",");
		if (!r->table && i && used + 2 + n > WIDTH) {
			fputs(r->eol, r->out);
			used = 0;
		}
		if (!r->table)
			used += fprintf(r->out, "%*s", MAX(NAMES_AT - used, i ? 1 : 3), "");
		used += fprintf(r->out, "%s", text);
	}
	fputs(r->eol, r->out);
}

static void print_row(struct report *r, const char *name, const struct row *row, uint64_t host)
{
	char tier0[24] = "-";
	int used;

	if (r->tier0)
		snprintf(tier0, sizeof(tier0), "%" PRIu64, row->tier[0]);
	if (r->table) {
		fprintf(r->out,
			"%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64,
			name, row->calls, row->errors, tier0, row->tier[1], row->tier[2], host);
		print_names(r, 0);
		return;
	}
	used = fprintf(r->out,
		       "%-24s %9" PRIu64 " %7" PRIu64 " %9s %9" PRIu64 " %9" PRIu64 " %9" PRIu64
		       " %8.2f",
		       name, row->calls, row->errors, tier0, row->tier[1], row->tier[2], host,
		       row->calls ? (double)host / (double)row->calls : 0);
	print_names(r, used);
}

static void print_outside(struct report *r, const char *what, unsigned first, unsigned last)
{
	const uint64_t host = host_calls_of(r, first, last);
	const int used = fprintf(
		r->out, r->table ? "%s\t-\t-\t-\t-\t-\t%" PRIu64 : "%-72s %9" PRIu64, what, host);

	print_names(r, used);
}

static void row_of(unsigned nr, const struct pf_stats *pf, struct row *row)
{
	struct syscall_stats s;

	syscall_stats(nr, &s);
	row->nr = nr;
	row->tier[0] = nr < SYSCALL_MAX ? pf->answered[nr] : 0;
	row->tier[1] = atomic_load(&g_tier[nr][1]);
	row->tier[2] = atomic_load(&g_tier[nr][2]);
	row->calls = row->tier[0] + s.calls;
	row->errors = s.errors;
}

static void print_calls(struct report *r, const struct pf_stats *pf, struct row *rows)
{
	struct row sum = {0};
	unsigned n = 0;

	for (unsigned nr = 0; nr <= SYSCALL_MAX; nr++) {
		row_of(nr, pf, &rows[n]);
		if (rows[n].calls == 0)
			continue;
		sum.calls += rows[n].calls;
		sum.errors += rows[n].errors;
		for (unsigned i = 0; i < 3; i++)
			sum.tier[i] += rows[n].tier[i];
		n++;
	}
	qsort(rows, n, sizeof(rows[0]), by_calls);
	if (r->table)
		fputs("row\tcalls\terrors\ttier0\ttier1\ttier2\thost\tnames\n", r->out);
	else
		fprintf(r->out, "%-24s %9s %7s %9s %9s %9s %9s %8s%s", "guest call", "calls",
			"errors", "tier 0", "tier 1", "tier 2", "host", "per call", r->eol);
	for (unsigned i = 0; i < n; i++) {
		const unsigned account = FOR_CALL + rows[i].nr;
		const char *name = syscall_name(rows[i].nr);
		char number[24];

		snprintf(number, sizeof(number), "number %u", rows[i].nr);
		print_row(r,
			  rows[i].nr == SYSCALL_MAX ? "no such number"
			  : name                    ? name
						    : number,
			  &rows[i], host_calls_of(r, account, account));
	}
	print_row(r, "all guest calls", &sum, host_calls_of(r, FOR_CALL, HOST_ACCOUNTS - 1));
}

/* "12 MiB", "3.4 s", "17". */
static const char *amount(char *buf, size_t size, enum meter_unit unit, uint64_t v)
{
	if (v == METER_NO_LIMIT)
		snprintf(buf, size, "none");
	else if (unit == METER_UNIT_BYTES && v >= 1 << 20)
		snprintf(buf, size, "%.1f MiB", (double)v / (1 << 20));
	else if (unit == METER_UNIT_TIME)
		snprintf(buf, size, "%.3f s", (double)v / (double)NSEC_PER_SEC);
	else
		snprintf(buf, size, "%llu%s", (unsigned long long)v,
			 unit == METER_UNIT_PERCENT ? "%" : "");
	return buf;
}

static void print_meters(struct report *r)
{
	if (r->table)
		fputs("meter\tcurrent\tpeak\tlimit\trefused\n", r->out);
	else
		fprintf(r->out, "%-24s %12s %12s %12s %9s%s", "meter", "at the end", "peak",
			"limit", "refused", r->eol);
	for (unsigned i = 0; i < METER_COUNT; i++) {
		const struct meter_state *m = &g_meters[i];
		const enum meter_unit unit = meter_unit_of((enum meter)i);
		const uint64_t now = meter_current((enum meter)i), refused = m->refused;
		char a[32], b[32], c[32];

		if (r->table)
			fprintf(r->out, "%s\t%llu\t%llu\t%llu\t%llu\n", meter_name((enum meter)i),
				(unsigned long long)now, (unsigned long long)m->peak,
				(unsigned long long)m->limit, (unsigned long long)refused);
		else if (m->peak || refused || m->limit != METER_NO_LIMIT)
			fprintf(r->out, "%-24s %12s %12s %12s %9llu%s", meter_name((enum meter)i),
				amount(a, sizeof(a), unit, now),
				amount(b, sizeof(b), unit, m->peak),
				amount(c, sizeof(c), unit, m->limit), (unsigned long long)refused,
				r->eol);
	}
}

static void report(FILE *out, const char *eol, bool table)
{
	struct report *r = mem_zalloc(sizeof(*r));
	struct pf_stats *pf = mem_zalloc(sizeof(*pf));
	struct row *rows = mem_zalloc((SYSCALL_MAX + 1) * sizeof(*rows));

	if (r && pf && rows) {
		r->out = out;
		r->eol = eol;
		r->table = table;
		r->tier0 = g_pf->stats != NULL;
		if (g_pf->stats)
			g_pf->stats(pf);
		host_accounting_collect();
		print_calls(r, pf, rows);
		print_outside(r, "handing over to guests and waiting for them", FOR_RUN, FOR_RUN);
		print_outside(r, "rewriting call sites", FOR_REWRITE, FOR_REWRITE);
		print_outside(r, "page faults and other faults", FOR_FAULTS, FOR_FAULTS);
		print_outside(r, "workers: sleeping, events", HOST_FOR_WORKERS, HOST_FOR_WORKERS);
		print_outside(r, "fibers: set-up, the first program", HOST_FOR_FIBERS,
			      HOST_FOR_FIBERS);
		print_outside(r, "other threads, set-up, end", HOST_FOR_NOBODY, HOST_FOR_NOBODY);
		print_outside(r, "all host calls", 0, HOST_ACCOUNTS - 1);
		print_meters(r);
		for (enum host_tag tag = 0; table && tag < HOST_TAGS; tag++) {
			if (host_accounted_since(tag))
				fprintf(out,
					"after the lock-down: %s\t-\t-\t-\t-\t-\t%" PRIu64 "\t\n",
					host_tag_name(tag), host_accounted_since(tag));
		}
	}
	mem_free(rows);
	mem_free(pf);
	mem_free(r);
}

void call_stats_print(FILE *out, const char *eol)
{
	report(out, eol, false);
}

void call_stats_write(FILE *out)
{
	report(out, "\n", true);
}
