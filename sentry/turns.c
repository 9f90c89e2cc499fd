/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that repeat: turns of tasks, what a step costs them, and the time stamp counter.
 *
 * Theory of operation: with --clock=virtual one task runs at a time (base/fiber_turn.c). A system
 * call is a step: it costs TURN_STEP_NS of virtual time and of the caller's CPU time (as system
 * time), so that a loop that asks for the time ends. What a guest computes in between costs
 * nothing.
 *
 * A thread that makes no call while others are ready, or timers armed, is interrupted when it has
 * used OVERDUE_NS of the processor (LONE_OVERDUE_NS if only timers wait): it may be waiting for
 * them in memory. From there on the run need not repeat, and a line says so, once.
 *
 * Reading the time stamp counter faults (PR_SET_TSC, which the keeper has set for all stubs) and is
 * answered here: a counter of virtual nanoseconds. It is a step, too.
 */
#include "sentry/turns.h"

#include "base/clock.h"
#include "base/fiber.h"
#include "platform/platform.h"
#include "sentry/process.h"

#define OVERDUE_NS NSEC_PER_SEC
#define LONE_OVERDUE_NS TURN_OVERDUE_NS
#define SI_KERNEL_ 0x80

static uint64_t processor_time(struct task *t)
{
	struct pf_cpu_times c = {0};

	g_pf->cpu_times(t->pt, &c);
	return c.user_ns + c.system_ns;
}

static bool overdue(void *data, unsigned ticks, bool others)
{
	/* The worker's: the time at the first tick of this task's run. */
	static uint64_t since;
	static bool told;
	struct task *t = data;

	if (!t->pt || !atomic_load(&t->in_guest))
		return false;
	if (ticks == 1)
		since = processor_time(t);
	if (ticks * TURN_TICK_NS < (others ? OVERDUE_NS : LONE_OVERDUE_NS) ||
	    processor_time(t) - since < (others ? OVERDUE_NS : LONE_OVERDUE_NS))
		return false;
	if (!told)
		log_warn("--clock=virtual: %s (pid %d) computes for long without a system call "
			 "while "
			 "others wait; it gives way now, at a moment of chance: this run need not "
			 "repeat",
			 t->comm, t->tg->tgid);
	told = true;
	g_pf->interrupt(t->pt);
	return true;
}

void turns_setup(const uint64_t *seed)
{
	const struct fiber_turns turns = {
		.seeded = seed != NULL, .seed = seed ? *seed : 0, .overdue = overdue};

	fiber_turns_start(&turns);
	g_pf_trap_tsc = true;
}

void turns_after(struct task *t, const struct pf_trap *trap)
{
	if (trap->kind == TRAP_SYSCALL) {
		t->sys_ns += TURN_STEP_NS;
		fiber_turn_step();
	} else if (trap->kind == TRAP_INTERRUPT) {
		fiber_turn_interrupted();
	}
}

bool turns_read_counter(struct task *t, const struct pf_trap *trap)
{
	uint8_t insn[3] = {0};
	size_t size = 2;

	if (trap->signo != LX_SIGSEGV || trap->code != SI_KERNEL_ || t->tsc_faults)
		return false;
	if (copy_in(t, insn, GADDR(t->regs.rip), 3) && copy_in(t, insn, GADDR(t->regs.rip), 2))
		return false;
	if (insn[0] == 0x0f && insn[1] == 0x01 && insn[2] == 0xf9) {
		t->regs.rcx = 0; /* rdtscp: the only processor, of the only node */
		size = 3;
	} else if (insn[0] != 0x0f || insn[1] != 0x31) {
		return false;
	}

	const uint64_t now = clock_mono_ns();

	t->regs.rax = (uint32_t)now;
	t->regs.rdx = now >> 32;
	t->regs.rip += size;
	t->sys_ns += TURN_STEP_NS;
	fiber_turn_step();
	return true;
}
