/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp programs of the trap platform's stub processes.
 *
 * Theory of operation: three programs, which stack up: the keeper's, for all; the agents', for all
 * processes that run guest code; the guest threads'. Each first looks at where the call comes from:
 * not from the stub's own stretches of code means SECCOMP_RET_TRAP at once, which is what every
 * syscall of the guest gets. A call from the stub must be one of those listed, with arguments in
 * bounds, or it is trapped too (and so kills an agent, which blocks SIGSYS).
 *
 * What guest threads may call at their one instruction stands in the agents' program, too; their
 * own adds that they may call from nowhere else. Each would have to be compiled for each thread and
 * each fork, at 110 microseconds (measured); so where the host has it, Syscall User Dispatch says
 * the same: without a selector all calls of a thread but those from a range are SIGSYS, from
 * whatever entry into the kernel; only prctl changes that, which guest threads may not make, and
 * clone drops it, which they may make only at the stub's gate, also in the range, and only so that
 * what they make is the agent (stub_trap/entry.S). With a program of their own, which what they
 * made would inherit, they may not. (The page of vsyscalls dispatch leaves to the programs.)
 *
 * On notify the keeper's program makes user notifications of the guest's calls, but for those whose
 * service takes a signal frame anyway, and the other two let them pass: of what the programs say
 * the strictest holds, and notifications go to the listener of the program that asked for them.
 *
 * The rules are tables (platform/trap_rules.c). libseccomp cannot test the instruction pointer, so
 * the programs are assembled here. A rule is a chain of tests, each of which on failure goes on to
 * the next rule.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/syscall.h>
#include "platform/filter_rule.h"
#include "platform/trap.h"

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif

#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define TRAP BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)
#define OFF(member) ((uint32_t)offsetof(struct seccomp_data, member))
#define ARG_LO(n) (OFF(args) + 8 * (uint32_t)(n))
#define ARG_HI(n) (ARG_LO(n) + 4)

#define INSNS_MAX 640

struct program {
	struct sock_filter insn[INSNS_MAX];
	size_t count;
	size_t rule; /* where the present rule began */
	bool overflow;
};

/* Jump offsets that mean "to the next rule", until end_rule knows where that is. */
#define NEXT_RULE 255

static void emit(struct program *p, struct sock_filter f)
{
	if (p->count < INSNS_MAX)
		p->insn[p->count++] = f;
	else
		p->overflow = true;
}

static void load(struct program *p, uint32_t offset)
{
	emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

/* The loaded word must be @k. */
static void need(struct program *p, uint32_t k)
{
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, 0, NEXT_RULE));
}

static void begin_rule(struct program *p, uint32_t nr)
{
	p->rule = p->count;
	load(p, OFF(nr));
	need(p, nr);
}

static void end_rule(struct program *p)
{
	emit(p, (struct sock_filter)ALLOW);
	for (size_t i = p->rule; i < p->count; i++) {
		struct sock_filter *f = &p->insn[i];
		const size_t dist = p->count - i - 1;

		if (BPF_CLASS(f->code) != BPF_JMP)
			continue;
		if (dist >= NEXT_RULE)
			p->overflow = true;
		if (f->jt == NEXT_RULE)
			f->jt = (uint8_t)dist;
		if (f->jf == NEXT_RULE)
			f->jf = (uint8_t)dist;
	}
}

static void arg_is(struct program *p, unsigned n, uint64_t value)
{
	load(p, ARG_HI(n));
	need(p, (uint32_t)(value >> 32));
	load(p, ARG_LO(n));
	need(p, (uint32_t)value);
}

/* The argument, as the 32-bit number that the call takes it for. */
static void arg_is32(struct program *p, unsigned n, uint32_t value)
{
	load(p, ARG_LO(n));
	need(p, value);
}

/* @mask'ed, the argument is @value. */
static void arg_bits(struct program *p, unsigned n, uint64_t mask, uint64_t value)
{
	load(p, ARG_HI(n));
	emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (uint32_t)(mask >> 32)));
	need(p, (uint32_t)(value >> 32));
	load(p, ARG_LO(n));
	emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, (uint32_t)mask));
	need(p, (uint32_t)value);
}

/* The argument is below @limit. */
static void arg_below(struct program *p, unsigned n, uint64_t limit)
{
	const uint32_t hi = (uint32_t)(limit >> 32), lo = (uint32_t)limit;

	load(p, ARG_HI(n));
	/* Above: fail. Equal: look at the low half. Below: done. */
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, hi, NEXT_RULE, 0));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, hi, 0, 2));
	load(p, ARG_LO(n));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, lo, NEXT_RULE, 0));
}

/* The argument is in [@first, @end), which have the same high half. */
static void arg_range(struct program *p, unsigned n, uint64_t first, uint64_t end)
{
	if (first >> 32 != end >> 32)
		p->overflow = true;
	load(p, ARG_HI(n));
	need(p, (uint32_t)(first >> 32));
	load(p, ARG_LO(n));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)first, 0,
					     NEXT_RULE));
	emit(p,
	     (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)end, NEXT_RULE, 0));
}

/* All that is not a 64-bit call from the text's offsets [@first, @last] is trapped. */
static void head(struct program *p, uint32_t first, uint32_t last)
{
	const uint32_t text = (uint32_t)TS_TEXT;

	load(p, OFF(arch));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	emit(p, (struct sock_filter)TRAP);
	load(p, OFF(instruction_pointer) + 4);
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(TS_TEXT >> 32),
					     1, 0));
	emit(p, (struct sock_filter)TRAP);
	load(p, OFF(instruction_pointer));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, text + first, 1, 0));
	emit(p, (struct sock_filter)TRAP);
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, text + last, 0, 1));
	emit(p, (struct sock_filter)TRAP);
}

/* --- notify --- */

/* Calls that change registers, end the thread, or wait for a signal's handler to run. */
static const uint32_t g_framed[] = {
	SYS_rt_sigreturn, SYS_clone, SYS_fork,       SYS_vfork,       SYS_execve, SYS_execveat,
	SYS_clone3,       SYS_exit,  SYS_arch_prctl, SYS_sigaltstack, SYS_pause,  SYS_rt_sigsuspend,
};

/* What stands between outside_begin and outside_end is for calls that come from outside of the
 * stub's text; the others go on behind it. 32-bit calls are trapped. */
static size_t outside_begin(struct program *p)
{
	const uint32_t text = (uint32_t)TS_TEXT;

	load(p, OFF(arch));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	emit(p, (struct sock_filter)TRAP);
	load(p, OFF(instruction_pointer) + 4);
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(TS_TEXT >> 32),
					     0, 3));
	load(p, OFF(instruction_pointer));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, text, 0, 1));
	/* Its other way is set by outside_end. */
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, text + TS_TEXT_SIZE, 0, 0));
	return p->count - 1;
}

static void outside_end(struct program *p, size_t jump)
{
	const size_t dist = p->count - jump - 1;

	if (p->overflow || dist >= NEXT_RULE)
		p->overflow = true;
	else
		p->insn[jump].jf = (uint8_t)dist;
}

/* Calls from outside of the stub's text are not this program's to judge. */
static void pass_outside(struct program *p)
{
	const size_t jump = outside_begin(p);

	emit(p, (struct sock_filter)ALLOW);
	outside_end(p, jump);
}

/* Calls from outside of the stub's text become notifications, in the keeper's program, which is the
 * one with the listener. */
static void notify_outside(struct program *p)
{
	const size_t jump = outside_begin(p);

	/* The vsyscall page: a call from there cannot be restarted. */
	load(p, OFF(instruction_pointer) + 4);
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x80000000u, 0, 1));
	emit(p, (struct sock_filter)TRAP);
	/* x32, and numbers that no table has. */
	load(p, OFF(nr));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1));
	emit(p, (struct sock_filter)TRAP);
	for (size_t i = 0; i < ARRAY_SIZE(g_framed); i++) {
		emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, g_framed[i], 0, 1));
		emit(p, (struct sock_filter)TRAP);
	}
	emit(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
	outside_end(p, jump);
}

static void test(struct program *p, const struct filter_test *t)
{
	switch (t->kind) {
	case FILTER_IS:
		arg_is(p, t->arg, t->value);
		break;
	case FILTER_IS32:
		arg_is32(p, t->arg, (uint32_t)t->value);
		break;
	case FILTER_BELOW:
		arg_below(p, t->arg, t->value);
		break;
	case FILTER_BITS:
		arg_bits(p, t->arg, t->mask, t->value);
		break;
	case FILTER_RANGE:
		arg_range(p, t->arg, t->value, t->mask);
		break;
	case FILTER_ONE_OF:
	case FILTER_PID:
		panic("a test that is not for stubs");
	}
}

static void rules(struct program *p, const struct filter_rule *r)
{
	for (; r->name; r++) {
		begin_rule(p, r->nr);
		for (unsigned i = 0; i < FILTER_TESTS_MAX && r->test[i].text; i++)
			test(p, &r->test[i]);
		end_rule(p);
	}
}

static int store(struct program *p, struct ts_config *config, size_t *used, struct ts_fprog *prog)
{
	const size_t size = p->count * sizeof(p->insn[0]);

	if (p->overflow || *used + size > sizeof(config->insns))
		return -E2BIG;
	memcpy(config->insns + *used, p->insn, size);
	prog->count = (uint16_t)p->count;
	prog->insns = TS_CONFIG + offsetof(struct ts_config, insns) + *used;
	*used += size;
	return 0;
}

int tr_filter_build(struct ts_config *config, uint64_t listener_flags, struct err *e)
{
	struct program *p = mem_zalloc(sizeof(*p));
	size_t used = 0, over;
	int r;

	if (!p)
		return err_set(e, ENOMEM, "no memory for the stub's filter");
	/* Guest code runs in processes of its own; the host's mitigation against speculation within
	 * one process would cost it much and protect nothing. */
	config->seccomp_flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;

	config->keeper_flags = config->seccomp_flags | listener_flags;
	config->trap_tsc = g_pf_trap_tsc;

	if (listener_flags)
		notify_outside(p);
	head(p, 0, TS_TEXT_SIZE - 1);
	/* Below is what the agents' program decides about. */
	load(p, OFF(instruction_pointer));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
					     (uint32_t)TS_TEXT + TS_AGENT_END, 1, 0));
	emit(p, (struct sock_filter)ALLOW);
	rules(p, g_trap_keeper_rules);
	emit(p, (struct sock_filter)TRAP);
	r = store(p, config, &used, &config->keeper);

	memset(p, 0, sizeof(*p));
	if (listener_flags)
		pass_outside(p);
	head(p, TS_GUEST_IP, TS_GUEST_IP);
	rules(p, g_trap_guest_rules);
	emit(p, (struct sock_filter)TRAP);
	if (r == 0)
		r = store(p, config, &used, &config->guest);

	memset(p, 0, sizeof(*p));
	if (listener_flags)
		pass_outside(p);
	head(p, TS_GUEST_IP, TS_AGENT_END - 1);
	load(p, OFF(instruction_pointer));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
					     (uint32_t)TS_TEXT + TS_GUEST_IP, 1, 0));
	over = p->count;
	emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	rules(p, g_trap_guest_rules);
	emit(p, (struct sock_filter)TRAP);
	p->insn[over].k = (uint32_t)(p->count - over - 1);
	load(p, OFF(instruction_pointer));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
					     (uint32_t)TS_TEXT + TS_AGENT, 0, 1));
	over = p->count;
	emit(p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
					     (uint32_t)TS_TEXT + TS_GATE_IP, 1, 0));
	emit(p, (struct sock_filter)TRAP);
	rules(p, g_trap_gate_rules);
	emit(p, (struct sock_filter)TRAP);
	p->insn[over].k = (uint32_t)(p->count - over - 1);
	rules(p, g_trap_agent_rules);
	emit(p, (struct sock_filter)TRAP);
	if (r == 0)
		r = store(p, config, &used, &config->agent);
	mem_free(p);
	if (r < 0)
		return err_set(e, -r, "the stub's filters do not fit: %s", err_text(-r));
	return 0;
}
