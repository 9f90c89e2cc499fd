/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the time of the guest's calls goes. See sentry/call_profile.h.
 *
 * Theory of operation: on a call's way stand time stamps of the processor's counter. The sentry
 * takes its own; those of the stub come with the request, if the platform has a stub that takes
 * them (struct platform, stamps); and a program that is made for it (bench/micro_profile.c) hands
 * in what it has read before a call and after the last one, in the registers of the fifth and sixth
 * argument, which no measured call uses. What the stub does after the reply is told with the next
 * request, so a call is complete when the next one traps. A sample is the call's phases, each the
 * difference of two stamps. The first SAMPLES_MAX are kept.
 *
 * All stamps but the sentry's are the guest's to forge. Of what is not in order of time nothing is
 * kept; a forged figure spoils this report and nothing else.
 */
#include "sentry/call_profile.h"

#include <inttypes.h>
#include <stdlib.h>
#include "base/alloc.h"
#include "platform/platform.h"
#include "sentry/process.h"
#include "sentry/syscall.h"

#define SAMPLES_MAX (1u << 17)
#define UNKNOWN UINT32_MAX
/* No phase that takes longer is a phase of a call: some seconds. */
#define CYCLES_MAX (UINT64_C(1) << 32)

enum phase {
	PHASE_TRAP,    /* from the guest's code to the stub; without stamps of a stub: the sentry */
	PHASE_COPY_IN, /* the stub takes along what arguments point to */
	PHASE_OVER,    /* from the stub to the fiber that serves it */
	PHASE_DISPATCH, /* until the handler begins */
	PHASE_HANDLER,
	PHASE_REPLY,    /* signals, what is published; until the stub may see the answer */
	PHASE_BACK,     /* until the stub has seen it, and has done what it asks for */
	PHASE_COPY_OUT, /* the stub puts results where arguments point to */
	PHASE_RETURN,   /* to the guest's code */
	PHASES,
};

static const char *const g_phases[PHASES] = {"trap",  "copy in", "over",     "dispatch", "handler",
					     "reply", "back",    "copy out", "return"};
static const char *const g_ways[] = {"host", "signal", "rewritten"};

struct sample {
	uint16_t nr;
	uint8_t way; /* enum pf_way */
	uint32_t phase[PHASES];
};

struct call_profile {
	bool pending;
	unsigned nr;
	uint64_t before;     /* what the guest says */
	struct pf_stamps in; /* with the request */
	uint64_t begun, done, resumed;
};

bool g_call_profile;
static struct sample *g_samples;
static _Atomic uint32_t g_count; /* samples that there would be with room for all */

static uint64_t now(void)
{
	return __builtin_ia32_rdtsc();
}

void call_profile_start(void)
{
	g_samples = mem_calloc(SAMPLES_MAX, sizeof(*g_samples));
	g_call_profile = g_pf_stamps = g_samples != NULL;
}

/* Fails where @to is not after @from. */
static bool between(uint64_t from, uint64_t to, uint32_t *cycles)
{
	if (to < from || to - from >= CYCLES_MAX - 1)
		return false;
	*cycles = (uint32_t)(to - from);
	return true;
}

static void guess(uint64_t from, uint64_t to, uint32_t *cycles)
{
	if (!between(from, to, cycles))
		*cycles = UNKNOWN;
}

/* The call before is over: @out came with the request after it, @after from the guest. */
static void complete(const struct call_profile *p, const struct pf_stamps *out, uint64_t after)
{
	const bool stub = p->in.way != PF_WAY_HOST;
	const uint64_t replied = stub ? out->replied : p->resumed;
	uint32_t at;
	struct sample s = {.nr = (uint16_t)p->nr, .way = (uint8_t)p->in.way};

	if (stub && !(between(p->in.entered, p->in.posted, &s.phase[PHASE_COPY_IN]) &&
		      between(p->in.posted, p->in.seen, &s.phase[PHASE_OVER]) &&
		      between(replied, out->back, &s.phase[PHASE_BACK]) &&
		      between(out->back, out->left, &s.phase[PHASE_COPY_OUT])))
		return;
	if (!stub)
		s.phase[PHASE_COPY_IN] = s.phase[PHASE_OVER] = s.phase[PHASE_BACK] =
			s.phase[PHASE_COPY_OUT] = UNKNOWN;
	if (!between(p->in.seen, p->begun, &s.phase[PHASE_DISPATCH]) ||
	    !between(p->begun, p->done, &s.phase[PHASE_HANDLER]) ||
	    !between(p->done, replied, &s.phase[PHASE_REPLY]))
		return;
	guess(p->before, stub ? p->in.entered : p->in.seen, &s.phase[PHASE_TRAP]);
	guess(stub ? out->left : replied, after, &s.phase[PHASE_RETURN]);
	at = atomic_fetch_add_explicit(&g_count, 1, memory_order_relaxed);
	if (at < SAMPLES_MAX)
		g_samples[at] = s;
	else
		atomic_store_explicit(&g_count, SAMPLES_MAX, memory_order_relaxed);
}

void call_profile_trap(struct task *t, const struct pf_trap *trap)
{
	struct pf_stamps in = {.seen = now(), .way = PF_WAY_HOST};
	struct call_profile *p = t->profile;
	const unsigned nr = (uint32_t)t->regs.orig_rax;

	if (!p)
		p = t->profile = mem_zalloc(sizeof(*p));
	if (!p)
		return;
	if (g_pf->stamps)
		g_pf->stamps(t->pt, &in);
	if (p->pending && trap->kind == TRAP_SYSCALL)
		complete(p, &in, t->regs.r8);
	/* What rewrites its site is no call like others. */
	p->pending = trap->kind == TRAP_SYSCALL && !trap->i386 && !trap->hot && nr < SYSCALL_MAX;
	p->nr = nr;
	p->before = t->regs.r9;
	p->in = in;
	p->begun = p->done = 0;
}

void call_profile_begin(struct task *t)
{
	if (t->profile)
		t->profile->begun = now();
}

void call_profile_done(struct task *t)
{
	if (t->profile)
		t->profile->done = now();
}

void call_profile_resume(struct task *t)
{
	if (t->profile)
		t->profile->resumed = now();
}

void call_profile_end(struct task *t)
{
	mem_free(t->profile);
	t->profile = NULL;
}

void call_profile_write(FILE *out)
{
	const uint32_t count = MIN(atomic_load(&g_count), SAMPLES_MAX);

	fputs("call\tway", out);
	for (unsigned i = 0; i < PHASES; i++)
		fprintf(out, "\t%s", g_phases[i]);
	fputc('\n', out);
	for (uint32_t n = 0; n < count; n++) {
		const struct sample *s = &g_samples[n];
		const char *name = syscall_name(s->nr);

		fprintf(out, "%s\t%s", name ? name : "-", g_ways[s->way]);
		for (unsigned i = 0; i < PHASES; i++) {
			if (s->phase[i] == UNKNOWN)
				fputs("\t-", out);
			else
				fprintf(out, "\t%" PRIu32, s->phase[i]);
		}
		fputc('\n', out);
	}
	mem_free(g_samples);
	g_samples = NULL;
}
