/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mock platform: memory, running C as guest code, fork, threads, signals.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "platform/mock.h"

static const struct platform *const pf = &platform_mock;

#define RW (PROT_READ | PROT_WRITE)
#define AT ((uint64_t)0x100000)
#define PAGE 4096ul
#define ENTRY ((uint64_t)0x400000)

/* --- Each test's body runs on a fiber --- */

static void run_body(void *arg)
{
	((void (*)(void))(uintptr_t)arg)();
}

static void on_fiber(void (*body)(void))
{
	struct fiber *f;

	cr_assert_eq(clock_start(CLOCK_KIND_HOST, 0), 0);
	cr_assert_eq(workers_start(2, pf->worker_ops()), 0);
	cr_assert_eq(pf->start(NULL), 0);
	f = fiber_new(run_body, (void *)(uintptr_t)body, NULL, "test");
	cr_assert_not_null(f);
	fiber_start(f);
	workers_stop();
	pf->stop();
	mock_reset();
	clock_stop();
}

#define FIBER_TEST(suite, name)                  \
	static void suite##_##name##_body(void); \
	Test(suite, name)                        \
	{                                        \
		on_fiber(suite##_##name##_body); \
	}                                        \
	static void suite##_##name##_body(void)

static struct pf_as *g_as;
static struct pf_thread *g_thread;

static void new_guest(void)
{
	cr_assert_eq(pf->as_new(NULL, &g_as, &g_thread), 0);
}

static int op1(struct map_op op)
{
	int r = pf->map(g_thread, &op, 1);

	cr_assert_eq(r, op.result);
	return r;
}

static int anon(uint64_t addr, uint64_t size, uint32_t prot)
{
	return op1((struct map_op){.kind = MAP_OP_ANON, .addr = addr, .size = size, .prot = prot});
}

static int64_t get(struct pf_as *as, uint64_t addr)
{
	int64_t v = 0;

	return pf->copy_in(as, &v, GADDR(addr), sizeof(v)) == sizeof(v) ? v : -EFAULT;
}

static void put(struct pf_as *as, uint64_t addr, int64_t v)
{
	cr_assert_eq(pf->copy_out(as, GADDR(addr), &v, sizeof(v)), sizeof(v));
}

/* --- Memory --- */

FIBER_TEST(mock_memory, ops)
{
	new_guest();
	cr_assert_eq(anon(AT, 8 * PAGE, RW), 0);
	cr_assert_eq(get(g_as, AT), 0);
	put(g_as, AT + 2 * PAGE - 4, 0x1122334455667788); /* over a border */
	cr_assert_eq(get(g_as, AT + 2 * PAGE - 4), 0x1122334455667788);
	/* A hole, and short copies at it. */
	cr_assert_eq(
		op1((struct map_op){.kind = MAP_OP_UNMAP, .addr = AT + 4 * PAGE, .size = PAGE}), 0);
	char buf[3 * PAGE];
	cr_assert_eq(pf->copy_in(g_as, buf, GADDR(AT + 3 * PAGE + 100), sizeof(buf)), PAGE - 100);
	cr_assert_eq(pf->copy_in(g_as, buf, GADDR(AT + 4 * PAGE), 1), -EFAULT);
	cr_assert_eq(pf->copy_in(g_as, buf, GADDR(AT + 4 * PAGE), 0), 0);
	cr_assert_eq(pf->copy_in(g_as, buf, GADDR(~0ull - 3), 8), -EFAULT);
	/* Protection: in the middle of an area, and over the hole. */
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_PROTECT,
					 .addr = AT + PAGE,
					 .size = PAGE,
					 .prot = PROT_READ}),
		     0);
	cr_assert_eq(pf->copy_out(g_as, GADDR(AT), buf, 2 * PAGE), PAGE);
	cr_assert_eq(pf->copy_force(g_as, GADDR(AT + PAGE), buf, 8, true), 8);
	cr_assert_eq(op1((struct map_op){
			     .kind = MAP_OP_PROTECT, .addr = AT, .size = 8 * PAGE, .prot = RW}),
		     -ENOMEM);
	cr_assert_eq(op1((struct map_op){
			     .kind = MAP_OP_PROTECT, .addr = AT, .size = PAGE, .prot = PROT_NONE}),
		     0);
	cr_assert_eq(get(g_as, AT), -EFAULT);
	/* Advice. */
	put(g_as, AT + 5 * PAGE, 5);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_ADVISE,
					 .addr = AT + 5 * PAGE,
					 .size = PAGE,
					 .advice = MADV_DONTNEED}),
		     0);
	cr_assert_eq(get(g_as, AT + 5 * PAGE), 0);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_SYNC, .addr = AT + 5 * PAGE, .size = PAGE}),
		     0);
	/* What is refused. */
	cr_assert_eq(anon(AT + 1, PAGE, RW), -EINVAL);
	cr_assert_eq(anon(AT, 0, RW), -EINVAL);
	cr_assert_eq(anon(0, PAGE, RW), -EPERM);
	cr_assert_eq(anon(PF_GUEST_LIMIT, PAGE, RW), -EINVAL);
	cr_assert_eq(anon(PF_GUEST_LIMIT - PAGE, 2 * PAGE, RW), -EINVAL);
	cr_assert_eq(anon(PF_GUEST_LIMIT - PAGE, PAGE, RW), 0);
	put(g_as, PF_GUEST_LIMIT - 8, 1);
	/* A reservation of most of it costs nothing. */
	cr_assert_eq(anon(1ull << 40, 1ull << 45, PROT_NONE), 0);
	struct pf_mem_stats st;
	pf->mem_stats(g_as, &st);
	cr_assert_leq(st.rss_bytes, 8 * PAGE);
	uint8_t vec[3];
	cr_assert_eq(pf->resident(g_as, AT + PAGE, 3, vec), 0);
	cr_assert_eq(vec[0], 1);
	cr_assert_eq(vec[2], 0);
	pf->thread_free(g_thread);
}

FIBER_TEST(mock_memory, remap)
{
	new_guest();
	cr_assert_eq(anon(AT, 4 * PAGE, RW), 0);
	put(g_as, AT + PAGE, 11);
	put(g_as, AT + 3 * PAGE, 33);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT,
					 .size = 4 * PAGE,
					 .new_addr = AT + 64 * PAGE,
					 .new_size = 8 * PAGE}),
		     0);
	cr_assert_eq(get(g_as, AT + PAGE), -EFAULT);
	cr_assert_eq(get(g_as, AT + 65 * PAGE), 11);
	cr_assert_eq(get(g_as, AT + 67 * PAGE), 33);
	cr_assert_eq(get(g_as, AT + 71 * PAGE), 0);
	/* In place: shrink, then grow: what was cut off is gone. */
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT + 64 * PAGE,
					 .size = 8 * PAGE,
					 .new_addr = AT + 64 * PAGE,
					 .new_size = 2 * PAGE}),
		     0);
	cr_assert_eq(get(g_as, AT + 67 * PAGE), -EFAULT);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT + 64 * PAGE,
					 .size = 2 * PAGE,
					 .new_addr = AT + 64 * PAGE,
					 .new_size = 4 * PAGE}),
		     0);
	cr_assert_eq(get(g_as, AT + 67 * PAGE), 0);
	cr_assert_eq(anon(AT + 68 * PAGE, PAGE, RW), 0);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT + 64 * PAGE,
					 .size = 4 * PAGE,
					 .new_addr = AT + 64 * PAGE,
					 .new_size = 5 * PAGE}),
		     -ENOMEM);
	/* Part of an area moves; the old range stays with DONTUNMAP. */
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_REMAP,
					 .flags = MAP_OPF_DONTUNMAP,
					 .addr = AT + 65 * PAGE,
					 .size = PAGE,
					 .new_addr = AT,
					 .new_size = PAGE}),
		     0);
	cr_assert_eq(get(g_as, AT), 11);
	cr_assert_eq(get(g_as, AT + 65 * PAGE), 0);
	/* Refused. */
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT + 8 * PAGE,
					 .size = PAGE,
					 .new_addr = AT,
					 .new_size = PAGE}),
		     -EFAULT);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT + 64 * PAGE,
					 .size = 2 * PAGE,
					 .new_addr = AT + 65 * PAGE,
					 .new_size = 2 * PAGE}),
		     -EINVAL);
	pf->thread_free(g_thread);
}

FIBER_TEST(mock_memory, files)
{
	const int fd = memfd_create("test", MFD_CLOEXEC);
	int64_t v;

	new_guest();
	v = 7;
	cr_assert_eq(pwrite(fd, &v, 8, PAGE), 8);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_FILE,
					 .host_fd = fd,
					 .addr = AT,
					 .size = 4 * PAGE,
					 .prot = RW}),
		     0);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_FILE,
					 .flags = MAP_OPF_SHARED,
					 .host_fd = fd,
					 .addr = AT + 8 * PAGE,
					 .size = 4 * PAGE,
					 .prot = RW}),
		     0);
	cr_assert_eq(get(g_as, AT + PAGE), 7);
	cr_assert_eq(get(g_as, AT + 9 * PAGE), 7);
	cr_assert_eq(get(g_as, AT + 2 * PAGE), -EFAULT); /* behind the end */
	put(g_as, AT + PAGE, 8);
	cr_assert_eq(pread(fd, &v, 8, PAGE), 8);
	cr_assert_eq(v, 7);
	put(g_as, AT + 8 * PAGE, 9);
	cr_assert_eq(pread(fd, &v, 8, 0), 8);
	cr_assert_eq(v, 9);
	/* The private page that was not written follows the file; the other does not. */
	cr_assert_eq(get(g_as, AT), 9);
	cr_assert_eq(get(g_as, AT + PAGE), 8);
	/* Splitting keeps offsets. */
	cr_assert_eq(
		op1((struct map_op){.kind = MAP_OP_UNMAP, .addr = AT + 8 * PAGE, .size = PAGE}), 0);
	cr_assert_eq(get(g_as, AT + 9 * PAGE), 7);
	cr_assert_eq(
		op1((struct map_op){.kind = MAP_OP_FILE, .host_fd = -1, .addr = AT, .size = PAGE}),
		-EBADF);
	close(fd);
	cr_assert_eq(get(g_as, AT + 9 * PAGE), 7);
	pf->thread_free(g_thread);
}

FIBER_TEST(mock_memory, fork_and_sharing)
{
	struct pf_as *child;
	struct pf_thread *ct;

	new_guest();
	cr_assert_eq(anon(AT, 4 * PAGE, RW), 0);
	cr_assert_eq(op1((struct map_op){.kind = MAP_OP_ANON,
					 .flags = MAP_OPF_SHARED,
					 .addr = AT + 8 * PAGE,
					 .size = PAGE,
					 .prot = RW}),
		     0);
	put(g_as, AT, 1);
	put(g_as, AT + 8 * PAGE, 2);
	cr_assert_eq(pf->as_fork(g_thread, &child, &ct), 0);
	cr_assert_eq(get(child, AT), 1);
	put(child, AT, 3);
	put(child, AT + PAGE, 4);
	cr_assert_eq(get(g_as, AT), 1);
	cr_assert_eq(get(g_as, AT + PAGE), 0);
	put(g_as, AT, 5);
	cr_assert_eq(get(child, AT), 3);
	put(child, AT + 8 * PAGE, 6);
	cr_assert_eq(get(g_as, AT + 8 * PAGE), 6);
	pf->thread_free(g_thread);
	cr_assert_eq(get(child, AT), 3);
	pf->thread_free(ct);
}

FIBER_TEST(mock_memory, atomics)
{
	uint32_t old;

	new_guest();
	cr_assert_eq(anon(AT, PAGE, RW), 0);
	cr_assert_eq(anon(AT + PAGE, PAGE, PROT_READ), 0);
	put(g_as, AT, 5);
	cr_assert_eq(pf->atomic32(g_thread, GADDR(AT), ATOMIC_CMPXCHG, 9, 4, &old), 0);
	cr_assert_eq(old, 5u);
	cr_assert_eq(get(g_as, AT), 5);
	cr_assert_eq(pf->atomic32(g_thread, GADDR(AT), ATOMIC_CMPXCHG, 9, 5, &old), 0);
	cr_assert_eq(pf->atomic32(g_thread, GADDR(AT), ATOMIC_XCHG, 0xf0, 0, &old), 0);
	cr_assert_eq(old, 9u);
	cr_assert_eq(pf->atomic32(g_thread, GADDR(AT), ATOMIC_ADD, 0x10, 0, &old), 0);
	cr_assert_eq(pf->atomic32(g_thread, GADDR(AT), ATOMIC_OR, 1, 0, &old), 0);
	cr_assert_eq(pf->atomic32(g_thread, GADDR(AT), ATOMIC_ANDN, 0x100, 0, &old), 0);
	cr_assert_eq(old, 0x101u);
	cr_assert_eq(pf->atomic32(g_thread, GADDR(AT), ATOMIC_XOR, 3, 0, &old), 0);
	cr_assert_eq(get(g_as, AT), 2);
	for (int op = ATOMIC_CMPXCHG; op <= ATOMIC_XOR; op++) {
		cr_assert_eq(pf->atomic32(g_thread, GADDR(AT + PAGE), op, 1, 0, &old), -EFAULT);
		cr_assert_eq(pf->atomic32(g_thread, GADDR(AT + 2 * PAGE), op, 1, 0, &old), -EFAULT);
		cr_assert_eq(pf->atomic32(g_thread, GADDR(AT + 2), op, 1, 0, &old), -EFAULT);
	}
	pf->thread_free(g_thread);
}

/* Every allocation and host call in turn made to fail: an error, no leak, and the old state. */
FIBER_TEST(mock_memory, failures)
{
	for (int kind = FAIL_ALLOC; kind <= FAIL_HOST; kind++) {
		for (unsigned n = 1; n < 60; n++) {
			struct map_op ops[] = {
				{.kind = MAP_OP_ANON, .addr = AT, .size = 4 * PAGE, .prot = RW},
				{.kind = MAP_OP_ANON,
				 .flags = MAP_OPF_SHARED,
				 .addr = AT + 8 * PAGE,
				 .size = PAGE,
				 .prot = RW},
				{.kind = MAP_OP_UNMAP, .addr = AT + PAGE, .size = PAGE},
				{.kind = MAP_OP_REMAP,
				 .addr = AT + 2 * PAGE,
				 .size = PAGE,
				 .new_addr = AT + 32 * PAGE,
				 .new_size = PAGE},
			};
			struct pf_as *child;
			struct pf_thread *ct;
			int64_t v = 1;

			fail_set(kind, n);
			if (pf->as_new(NULL, &g_as, &g_thread) < 0)
				continue;
			if (pf->map(g_thread, ops, ARRAY_SIZE(ops)) == 0) {
				(void)pf->copy_out(g_as, GADDR(AT), &v, 8);
				(void)pf->copy_out(g_as, GADDR(AT + 8 * PAGE), &v, 8);
				if (pf->as_fork(g_thread, &child, &ct) == 0)
					pf->thread_free(ct);
			}
			pf->thread_free(g_thread);
			fail_set(kind, 0);
		}
	}
}

/* --- Running --- */

static int simple_guest(struct mock_thread *mt, void *arg)
{
	long r = mock_syscall(mt, 39, 1, 2, 3, 4, 5, 6);
	int64_t v = r * 2;

	cr_assert_eq(arg, (void *)77);
	mock_store(mt, AT, &v, sizeof(v));
	v = 0;
	mock_load(mt, &v, AT, sizeof(v));
	(void)mock_syscall(mt, 40, (uint64_t)v, 0, 0, 0, 0, 0);
	return 3;
}

FIBER_TEST(mock_run, syscalls_and_exit)
{
	struct pf_regs regs = {.rip = ENTRY, .rsp = AT + PAGE};
	struct pf_trap trap;

	mock_register(ENTRY, simple_guest, (void *)77);
	new_guest();
	cr_assert_eq(anon(AT, PAGE, RW), 0);
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(trap.kind, TRAP_SYSCALL);
	cr_assert_eq(regs.orig_rax, 39u);
	cr_assert_eq(regs.rax, (uint64_t)-ENOSYS);
	cr_assert_eq(regs.rdi, 1u);
	cr_assert_eq(regs.r9, 6u);
	regs.rax = 21;
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 40u);
	cr_assert_eq(regs.rdi, 42u);
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 231u);
	cr_assert_eq(regs.rdi, 3u);
	pf->thread_free(g_thread);
}

static int faulting_guest(struct mock_thread *mt, void *arg)
{
	int64_t v = 5;

	(void)arg;
	mock_store(mt, AT, &v, sizeof(v)); /* not mapped the first time */
	mock_fault(mt, SIGFPE, FPE_INTDIV, 0);
	mock_spin(mt);
	return 0;
}

FIBER_TEST(mock_run, faults_and_interrupts)
{
	struct pf_regs regs = {.rip = ENTRY};
	struct pf_trap trap;

	new_guest();
	/* Nothing is registered. */
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(trap.kind, TRAP_FAULT);
	cr_assert_eq(trap.signo, SIGSEGV);
	cr_assert_eq(trap.addr, ENTRY);
	mock_set_program(faulting_guest, NULL);
	pf->interrupt(g_thread);
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(trap.kind, TRAP_INTERRUPT);
	cr_assert_eq(regs.rip, ENTRY);
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(trap.kind, TRAP_FAULT);
	cr_assert_eq(trap.signo, SIGSEGV);
	cr_assert_eq(trap.code, SEGV_MAPERR);
	cr_assert_eq(trap.addr, AT);
	cr_assert_eq(anon(AT, PAGE, RW), 0);
	pf->run(g_thread, &regs, &trap); /* the store is tried again */
	cr_assert_eq(trap.signo, SIGFPE);
	cr_assert_eq(get(g_as, AT), 5);
	/* From another host thread. */
	struct interrupter {
		struct pf_thread *t;
	};
	pthread_t th;
	cr_assert_eq(
		pthread_create(&th, NULL, (void *(*)(void *))(uintptr_t)pf->interrupt, g_thread),
		0);
	pf->run(g_thread, &regs, &trap);
	pthread_join(th, NULL);
	cr_assert_eq(trap.kind, TRAP_INTERRUPT);
	pf->thread_free(g_thread); /* suspended in the middle: goes away */
}

static int handler(struct mock_thread *mt, void *arg)
{
	(void)arg;
	(void)mock_syscall(mt, 500 + (long)mock_regs(mt)->rdi, 0, 0, 0, 0, 0, 0);
	return 0;
}

static int main_of_signals(struct mock_thread *mt, void *arg)
{
	long r = mock_syscall(mt, 1, 0, 0, 0, 0, 0, 0);

	(void)arg;
	return (int)r;
}

FIBER_TEST(mock_run, signal_handlers)
{
	const uint64_t hand = ENTRY + 0x1000, stack = AT + PAGE;
	struct pf_regs regs = {.rip = ENTRY, .rsp = stack}, saved;
	struct pf_trap trap;

	mock_register(ENTRY, main_of_signals, NULL);
	mock_register(hand, handler, NULL);
	new_guest();
	cr_assert_eq(anon(AT, PAGE, RW), 0);
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 1u);
	/* What the kernel does to deliver a signal. */
	saved = regs;
	put(g_as, stack - 8, (int64_t)MOCK_RESTORER);
	regs.rip = hand;
	regs.rsp = stack - 8;
	regs.rdi = 10;
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 510u);
	/* A second one on top of it. */
	struct pf_regs in_handler = regs;
	put(g_as, stack - 64, (int64_t)MOCK_RESTORER);
	regs.rip = hand;
	regs.rsp = stack - 64;
	regs.rdi = 11;
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 511u);
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 15u); /* rt_sigreturn */
	cr_assert_eq(regs.rsp, stack - 56);
	regs = in_handler;
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 15u);
	cr_assert_eq(regs.rsp, stack);
	regs = saved;
	regs.rax = 9;
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 231u);
	cr_assert_eq(regs.rdi, 9u);
	/* A handler whose stack holds no return address faults. */
	regs.rip = hand;
	regs.rsp = 0x10;
	pf->run(g_thread, &regs, &trap);
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(trap.kind, TRAP_FAULT);
	cr_assert_eq(trap.addr, 0x10u);
	pf->thread_free(g_thread);
}

static int child_main(struct mock_thread *mt, void *arg)
{
	mock_store(mt, AT, &(int64_t){(intptr_t)arg}, 8);
	return 4;
}

static int parent_main(struct mock_thread *mt, void *arg)
{
	long a = mock_fork(mt, child_main, (void *)100);
	long b = mock_clone(mt, 0x100, AT + PAGE, 0, 0, 0, child_main, (void *)200);

	(void)arg;
	return (int)(a + b);
}

FIBER_TEST(mock_run, fork_and_threads)
{
	struct pf_regs regs = {.rip = ENTRY}, cregs;
	struct pf_trap trap;
	struct pf_as *child;
	struct pf_thread *ct, *second;

	mock_register(ENTRY, parent_main, NULL);
	new_guest();
	cr_assert_eq(anon(AT, PAGE, RW), 0);
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 57u);
	cr_assert_eq(pf->as_fork(g_thread, &child, &ct), 0);
	cregs = regs;
	cregs.rax = 0;
	pf->run(ct, &cregs, &trap);
	cr_assert_eq(cregs.orig_rax, 231u);
	cr_assert_eq(cregs.rdi, 4u);
	cr_assert_eq(get(child, AT), 100);
	cr_assert_eq(get(g_as, AT), 0);
	pf->thread_free(ct);
	regs.rax = 5;
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.orig_rax, 56u);
	cr_assert_eq(regs.rdi, 0x100u);
	cr_assert_eq(pf->thread_new(g_thread, &second), 0);
	cr_assert_eq(pf->thread_as(second), g_as);
	cregs = regs;
	cregs.rax = 0;
	pf->run(second, &cregs, &trap);
	cr_assert_eq(get(g_as, AT), 200);
	pf->as_get(g_as);
	pf->thread_free(second);
	regs.rax = 6;
	pf->run(g_thread, &regs, &trap);
	cr_assert_eq(regs.rdi, 11u);
	pf->thread_free(g_thread);
	cr_assert_eq(get(g_as, AT), 200);
	pf->as_put(g_as);
}

FIBER_TEST(mock_run, xstate)
{
	static uint8_t area[PF_XSTATE_MAX], copy[PF_XSTATE_MAX];
	int n;

	new_guest();
	n = pf->xstate_get(g_thread, area);
	cr_assert_geq(n, 576);
	area[170] = 1;
	cr_assert_eq(pf->xstate_set(g_thread, area, (size_t)n), 0);
	memcpy(copy, area, sizeof(copy));
	copy[512 + 20] = 1;
	cr_assert_eq(pf->xstate_set(g_thread, copy, (size_t)n), -EINVAL);
	memcpy(copy, area, sizeof(copy));
	copy[27] = 1;
	cr_assert_eq(pf->xstate_set(g_thread, copy, (size_t)n), -EINVAL);
	cr_assert_eq(pf->xstate_set(g_thread, area, 100), -EINVAL);
	cr_assert_eq(pf->xstate_set(g_thread, area, 600), -EINVAL);
	cr_assert_eq(pf->xstate_get(g_thread, copy), n);
	cr_assert_eq(memcmp(area, copy, (size_t)n), 0);
	cr_assert_eq(pf->xstate_reset(g_thread), 0);
	cr_assert_eq(pf->xstate_get(g_thread, copy), n);
	cr_assert_eq(copy[170], 0);
	pf->thread_free(g_thread);
}
