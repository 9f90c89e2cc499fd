/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies to and from guest memory, and statistics of the trap platform.
 *
 * Theory of operation: as the ptrace platform's (ptrace_copy.c): process_vm_readv/writev on the
 * agent's pid, from any host thread; the host checks page protections as for the guest's own
 * access. What must pass a protection goes through /proc/PID/mem. The pid cannot become a
 * stranger's meanwhile: tr_as_enter().
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "platform/host_proc.h"
#include "platform/host_ptrace.h"
#include "platform/proc_text.h"
#include "platform/trap.h"
#include "platform/trap_site.h"

ssize_t tr_copy_in(struct pf_as *as, void *dst, gaddr_t src, size_t size)
{
	ssize_t n;

	if (size == 0)
		return 0;
	size = pf_guest_part(src.a, size);
	if (size == 0 || fail_now(FAIL_COPY))
		return -EFAULT;
	if (tr_window_in(as, dst, src.a, size))
		return (ssize_t)size;
	tr_flush(as);
	if (!tr_as_enter(as))
		return -EFAULT;
	n = pf_host_copy_in(as->pid, dst, src.a, size);
	tr_as_leave(as);
	if (n > 0)
		tr_site_show_original(as, src.a, dst, (size_t)n);
	return n > 0 ? n : -EFAULT;
}

ssize_t tr_copy_out(struct pf_as *as, gaddr_t dst, const void *src, size_t size)
{
	ssize_t n;

	if (size == 0)
		return 0;
	size = pf_guest_part(dst.a, size);
	if (size == 0 || fail_now(FAIL_COPY))
		return -EFAULT;
	if (tr_window_out(as, dst.a, src, size))
		return (ssize_t)size;
	tr_flush(as);
	if (!tr_as_enter(as))
		return -EFAULT;
	n = pf_host_copy_out(as->pid, dst.a, src, size);
	tr_as_leave(as);
	return n > 0 ? n : -EFAULT;
}

ssize_t tr_copy_force(struct pf_as *as, gaddr_t addr, void *buf, size_t size, bool write)
{
	ssize_t n;

	if (size == 0)
		return 0;
	tr_flush(as);
	size = pf_guest_part(addr.a, size);
	if (size == 0 || !tr_as_enter(as))
		return -EFAULT;
	if (write)
		tr_rewrite_before_write(as, addr.a, size);
	n = pf_host_proc_rw(as->pid, "mem", addr.a, buf, size, write);
	tr_as_leave(as);
	if (n > 0 && !write)
		tr_site_show_original(as, addr.a, buf, (size_t)n);
	return n > 0 ? n : -EFAULT;
}

int tr_resident(struct pf_as *as, uint64_t addr, size_t pages, uint8_t *vec)
{
	int r;

	tr_flush(as);
	if (!tr_as_enter(as))
		return -ENOMEM;
	r = pf_host_resident(as->pid, addr, pages, vec);
	tr_as_leave(as);
	return r;
}

size_t tr_map_count(struct pf_as *as)
{
	size_t count;

	if (!tr_as_enter(as))
		return SIZE_MAX;
	count = pf_host_map_count(as->pid);
	tr_as_leave(as);
	return count;
}

static pid_t enter(struct pf_as *as)
{
	return tr_as_enter(as) ? as->pid : 0;
}

static const struct pf_text_ops g_text_ops = {.enter = enter, .leave = tr_as_leave};

void tr_usage(struct pf_as *as, unsigned what, struct pf_usage *out)
{
	pf_text_usage(&g_text_ops, as, what, out);
}

void tr_mem_stats(struct pf_as *as, struct pf_mem_stats *out)
{
	pf_text_mem_stats(&g_text_ops, as, out);
}

/* --- Processor time --- */

/* Of a thread that has run for less than this, what we measured ourselves will do: to ask the host
 * costs as much as such a thread. */
#define LONG_LIFE_NS 1000000

static struct {
	uint64_t tsc, ns;
} g_begin;

void tr_copy_start(void)
{
	g_begin.tsc = __builtin_ia32_rdtsc();
	g_begin.ns = clock_mono_ns();
}

static uint64_t cycles_to_ns(uint64_t cycles)
{
	const uint64_t tsc = __builtin_ia32_rdtsc() - g_begin.tsc;
	const uint64_t ns = clock_mono_ns() - g_begin.ns;

	return tsc ? (uint64_t)((double)cycles * (double)ns / (double)tsc) : 0;
}

/* What the host thread of @t has used since its birth. */
static void times_of_host(struct pf_thread *t, struct pf_cpu_times *out)
{
	char sched[128], text[4096];

	memset(out, 0, sizeof(*out));
	if (t->tid == 0)
		return;
	(void)pf_text_of_thread(&g_text_ops, t->as, t->tid, "schedstat", sched, sizeof(sched));
	(void)pf_text_of_thread(&g_text_ops, t->as, t->tid, "stat", text, sizeof(text));
	pf_text_cpu_times(sched, text, out);
	if (pf_text_of_thread(&g_text_ops, t->as, t->tid, "status", text, sizeof(text))) {
		out->involuntary_switches = pf_text_field(text, "\nnonvoluntary_ctxt_switches:");
		out->voluntary_switches = pf_text_field(text, "\nvoluntary_ctxt_switches:");
	}
}

char tr_host_state(struct pf_thread *t, uint64_t *ticks)
{
	char text[512], *at;
	char state;

	if (!pf_text_of_thread(&g_text_ops, t->as, t->tid, "stat", text, sizeof(text)))
		return 0;
	/* ") S ppid …": the times are the 12th and 13th behind the state. */
	at = strrchr(text, ')');
	if (!at || at[1] != ' ' || at[2] == '\0')
		return 0;
	state = at[2];
	at += 3;
	*ticks = 0;
	for (unsigned i = 1; i <= 12; i++) {
		const uint64_t v = strtoul(at, &at, 10);

		if (i >= 11)
			*ticks += v;
	}
	return state;
}

void tr_times_used(struct pf_thread *t, bool exact, struct pf_cpu_times *out)
{
	const uint64_t ns = cycles_to_ns(t->ran_cycles);

	/* While it runs nobody knows for how long. */
	if (exact || ns > LONG_LIFE_NS || atomic_load(&t->state) == TR_RUNNING) {
		times_of_host(t, out);
		return;
	}
	*out = t->times_before;
	out->user_ns += ns;
}

static void less(uint64_t *v, uint64_t before)
{
	*v = *v > before ? *v - before : 0;
}

void tr_cpu_times(struct pf_thread *t, struct pf_cpu_times *out)
{
	const struct pf_cpu_times *b = &t->times_before;
	uint64_t told = atomic_load(&t->told_ns), sum;

	tr_times_used(t, false, out);
	less(&out->user_ns, b->user_ns);
	less(&out->system_ns, b->system_ns);
	less(&out->voluntary_switches, b->voluntary_switches);
	less(&out->involuntary_switches, b->involuntary_switches);
	less(&out->minor_faults, b->minor_faults);
	less(&out->major_faults, b->major_faults);
	/* Our own measure and the host's differ, but time does not run backwards. */
	sum = out->user_ns + out->system_ns;
	while (told < sum && !atomic_compare_exchange_weak(&t->told_ns, &told, sum))
		continue;
	out->user_ns += told > sum ? told - sum : 0;
}
