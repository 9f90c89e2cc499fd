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
 * libseccomp cannot test the instruction pointer, so the programs are assembled here. A rule is a
 * chain of tests, each of which on failure goes on to the next rule.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "platform/trap.h"

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define TRAP BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)
#define OFF(member) ((uint32_t)offsetof(struct seccomp_data, member))
#define ARG_LO(n) (OFF(args) + 8 * (uint32_t)(n))
#define ARG_HI(n) (ARG_LO(n) + 4)

#define PROT_ALL (PROT_READ | PROT_WRITE | PROT_EXEC)
#define MAP_ALLOWED \
	(MAP_SHARED | MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE)

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

/* An area: the high half is the same for all of them. */
static void arg_area(struct program *p, unsigned n)
{
	const uint32_t first = (uint32_t)TS_AREAS;
	const uint32_t end = first + (uint32_t)TS_AREAS_MAX * TS_AREA_SIZE;

	load(p, ARG_HI(n));
	need(p, (uint32_t)(TS_AREAS >> 32));
	load(p, ARG_LO(n));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, NEXT_RULE));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, end, NEXT_RULE, 0));
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

static void guest_rules(struct program *p)
{
	begin_rule(p, SYS_futex);
	arg_is32(p, 1, 0); /* FUTEX_WAIT */
	end_rule(p);
	begin_rule(p, SYS_futex);
	arg_is32(p, 1, 1); /* FUTEX_WAKE */
	end_rule(p);
	begin_rule(p, SYS_rt_sigreturn);
	end_rule(p);
	begin_rule(p, SYS_arch_prctl);
	arg_is32(p, 0, 0x1002); /* ARCH_SET_FS */
	end_rule(p);
	begin_rule(p, SYS_arch_prctl);
	arg_is32(p, 0, 0x1001); /* ARCH_SET_GS */
	end_rule(p);
	begin_rule(p, SYS_exit);
	end_rule(p);
}

static void agent_rules(struct program *p)
{
	/* Always at a place that the sentry chose: MAP_FIXED. */
	begin_rule(p, SYS_mmap);
	arg_below(p, 0, PF_GUEST_LIMIT);
	arg_bits(p, 2, ~(uint64_t)PROT_ALL, 0);
	arg_bits(p, 3, ~(uint64_t)(MAP_ALLOWED & ~MAP_FIXED), MAP_FIXED);
	end_rule(p);
	begin_rule(p, SYS_mmap);
	arg_is(p, 0, TS_ORDERS);
	arg_is(p, 1, TS_ORDERS_SIZE);
	arg_is(p, 2, PROT_READ);
	arg_is(p, 3, MAP_SHARED | MAP_FIXED);
	arg_is(p, 4, TS_FD_ORDERS);
	end_rule(p);
	begin_rule(p, SYS_mmap);
	arg_area(p, 0);
	arg_is(p, 1, TS_AREA_SIZE);
	arg_is(p, 2, PROT_READ | PROT_WRITE);
	arg_is(p, 3, MAP_SHARED | MAP_FIXED);
	end_rule(p);
	begin_rule(p, SYS_munmap);
	arg_below(p, 0, PF_GUEST_LIMIT);
	end_rule(p);
	begin_rule(p, SYS_mprotect);
	arg_below(p, 0, PF_GUEST_LIMIT);
	arg_bits(p, 2, ~(uint64_t)PROT_ALL, 0);
	end_rule(p);
	begin_rule(p, SYS_mremap);
	arg_below(p, 0, PF_GUEST_LIMIT);
	arg_is(p, 3, 0);
	end_rule(p);
	begin_rule(p, SYS_mremap);
	arg_below(p, 0, PF_GUEST_LIMIT);
	arg_below(p, 4, PF_GUEST_LIMIT);
	arg_is(p, 3, MREMAP_MAYMOVE | MREMAP_FIXED);
	end_rule(p);
	begin_rule(p, SYS_mremap);
	arg_below(p, 0, PF_GUEST_LIMIT);
	arg_below(p, 4, PF_GUEST_LIMIT);
	arg_is(p, 3, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP);
	end_rule(p);
	begin_rule(p, SYS_madvise);
	arg_below(p, 0, PF_GUEST_LIMIT);
	end_rule(p);
	begin_rule(p, SYS_madvise);
	arg_is(p, 0, TS_ORDERS);
	arg_is(p, 1, TS_ORDERS_SIZE);
	arg_is(p, 2, MADV_DONTFORK);
	end_rule(p);
	begin_rule(p, SYS_madvise);
	arg_area(p, 0);
	arg_is(p, 1, TS_AREA_SIZE);
	arg_is(p, 2, MADV_DONTFORK);
	end_rule(p);
	begin_rule(p, SYS_msync);
	arg_below(p, 0, PF_GUEST_LIMIT);
	end_rule(p);
	begin_rule(p, SYS_clone);
	arg_is(p, 0, TS_CLONE_FORK);
	arg_is(p, 1, 0);
	end_rule(p);
	begin_rule(p, SYS_clone);
	arg_is(p, 0, TS_CLONE_THREAD);
	arg_is(p, 1, 0);
	arg_area(p, 3);
	end_rule(p);
	begin_rule(p, SYS_futex);
	arg_is32(p, 1, 0);
	end_rule(p);
	begin_rule(p, SYS_futex);
	arg_is32(p, 1, 1);
	end_rule(p);
	begin_rule(p, SYS_lseek);
	arg_is32(p, 2, 0); /* SEEK_SET */
	end_rule(p);
	begin_rule(p, SYS_prctl);
	arg_is32(p, 0, PR_SET_PDEATHSIG);
	end_rule(p);
	begin_rule(p, SYS_getppid);
	end_rule(p);
	begin_rule(p, SYS_seccomp);
	arg_is32(p, 0, SECCOMP_SET_MODE_FILTER);
	end_rule(p);
	begin_rule(p, SYS_exit_group);
	end_rule(p);
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

int tr_filter_build(struct ts_config *config, struct err *e)
{
	struct program *p = mem_zalloc(sizeof(*p));
	size_t used = 0;
	int r;

	if (!p)
		return err_set(e, ENOMEM, "no memory for the stub's filter");
	/* Guest code runs in processes of its own; the host's mitigation against speculation within
	 * one process would cost it much and protect nothing. */
	config->seccomp_flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW;

	head(p, 0, TS_TEXT_SIZE - 1);
	emit(p, (struct sock_filter)ALLOW);
	r = store(p, config, &used, &config->keeper);

	/* The guest threads' program also stands behind the agents': from TS_GUEST_IP it decides.
	 */
	memset(p, 0, sizeof(*p));
	head(p, TS_GUEST_IP, TS_GUEST_IP);
	guest_rules(p);
	emit(p, (struct sock_filter)TRAP);
	if (r == 0)
		r = store(p, config, &used, &config->guest);

	memset(p, 0, sizeof(*p));
	head(p, TS_GUEST_IP, TS_AGENT_END - 1);
	load(p, OFF(instruction_pointer));
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
					     (uint32_t)TS_TEXT + TS_GUEST_IP, 0, 1));
	emit(p, (struct sock_filter)ALLOW);
	emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
					     (uint32_t)TS_TEXT + TS_AGENT, 1, 0));
	emit(p, (struct sock_filter)TRAP);
	agent_rules(p);
	emit(p, (struct sock_filter)TRAP);
	if (r == 0)
		r = store(p, config, &used, &config->agent);
	mem_free(p);
	if (r < 0)
		return err_set(e, -r, "the stub's filters do not fit: %s", err_text(-r));
	return 0;
}
