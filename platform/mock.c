/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mock platform: threads, running, the interface's table. See platform/mock.h.
 *
 * Theory of operation: each started guest function is a context (struct mock_ctx): a fiber, and a
 * token by which registers name it. run() and the fiber pass control between them: mock_ctx.turn
 * says whose it is, and both sleep on mock_ctx.q until it is theirs. A context that nobody will
 * resume (its thread is freed, an older context goes on) is told to end: its next return from the
 * hand-over is a longjmp to its start, and its fiber frees it.
 *
 * A context is freed by whichever is later: its fiber, or who told it to end (and may still be
 * waking it).
 *
 * Locking: a thread and its contexts belong to whoever calls run(); turn and q are the meeting
 * point. g_registry.lock guards the registry.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include "base/alloc.h"
#include "base/waitq.h"
#include "platform/mock.h"
#include "platform/mock_memory.h"

#define NR_RT_SIGRETURN 15
#define NR_CLONE 56
#define NR_FORK 57
#define NR_EXIT_GROUP 231

/* Tokens lie above all guest memory, so that no mapping has their addresses. */
#define TOKEN_BASE ((uint64_t)0x7fffd0000000)
#define TOKEN_STEP 16u

#define XSTATE_SIZE 832 /* x87, SSE, AVX */
#define XS_SW 464
#define XS_HEADER 512
#define XS_FEATURES 7ull
#define MXCSR_MASK 0xffffu

enum turn { TURN_KERNEL, TURN_GUEST };

struct mock_ctx {
	struct ref ref;         /* its fiber's and its thread's */
	struct mock_thread *mt; /* valid while it runs */
	mock_fn *fn;
	void *arg;
	uint64_t token;
	struct waitq q;
	_Atomic int turn;  /* enum turn */
	_Atomic bool drop; /* end instead of going on */
	jmp_buf start;
	SLIST_ENTRY(mock_ctx) link; /* mock_thread.contexts, the youngest first */
};

struct pf_as {
	struct ref ref;
	struct mock_mem mem;
};

struct mock_thread {
	struct pf_as *as; /* a reference */
	struct pf_regs regs;
	struct pf_trap trap;
	SLIST_HEAD(, mock_ctx) contexts;
	struct mock_ctx *current;
	_Atomic bool interrupt;
	struct waitq spin; /* who sleeps in mock_spin */
	/* A fork or clone child: where the parent stood, and what the child runs instead. */
	uint64_t child_token;
	mock_fn *child_fn;
	void *child_arg;
	/* What the next fork or clone of this thread gives its child. */
	mock_fn *next_fn;
	void *next_arg;
	_Alignas(64) uint8_t xstate[XSTATE_SIZE];
};

struct pf_thread {
	struct mock_thread mt;
};

/* --- The registry --- */

struct entry {
	uint64_t rip;
	mock_fn *fn;
	void *arg;
};

static struct {
	struct mutex lock;
	struct entry *entries; /* [lock] */
	size_t count;          /* [lock] */
	struct entry any;      /* [lock] */
} g_registry = {.lock = MUTEX_INIT(RANK_LEAF)};

static _Atomic uint64_t g_tokens;

void mock_register(uint64_t rip, mock_fn *fn, void *arg)
{
	struct entry *p;

	mutex_lock(&g_registry.lock);
	p = mem_realloc(g_registry.entries, (g_registry.count + 1) * sizeof(*p));
	if (p) {
		g_registry.entries = p;
		p[g_registry.count++] = (struct entry){rip, fn, arg};
	}
	mutex_unlock(&g_registry.lock);
	if (!p)
		panic("mock: no memory for a registered function");
}

void mock_set_program(mock_fn *fn, void *arg)
{
	mutex_lock(&g_registry.lock);
	g_registry.any = (struct entry){0, fn, arg};
	mutex_unlock(&g_registry.lock);
}

void mock_reset(void)
{
	mutex_lock(&g_registry.lock);
	mem_free(g_registry.entries);
	g_registry.entries = NULL;
	g_registry.count = 0;
	g_registry.any = (struct entry){0};
	mutex_unlock(&g_registry.lock);
}

/* The latest registration of @rip wins. */
static struct entry registry_find(uint64_t rip)
{
	struct entry e;

	mutex_lock(&g_registry.lock);
	e = g_registry.any;
	for (size_t i = 0; i < g_registry.count; i++) {
		if (g_registry.entries[i].rip == rip)
			e = g_registry.entries[i];
	}
	mutex_unlock(&g_registry.lock);
	return e;
}

/* --- The hand-over --- */

static void hand_over(struct mock_ctx *c, enum turn to)
{
	atomic_store(&c->turn, (int)to);
	waitq_wake(&c->q, 0);
}

/* The guest's side: gives control to run(), and comes back when run() gives it back. */
static void trap_out(struct mock_thread *mt)
{
	struct mock_ctx *c = mt->current;

	mt->regs.rip = c->token;
	hand_over(c, TURN_KERNEL);
	(void)wait_event(&c->q, atomic_load(&c->turn) == TURN_GUEST, DEADLINE_NONE, WAIT_UNINTR);
	if (atomic_load(&c->drop))
		longjmp(c->start, 1);
}

static void tell_fault(struct mock_thread *mt, int signo, int code, uint64_t addr)
{
	mt->trap = (struct pf_trap){.kind = TRAP_FAULT, .signo = signo, .code = code, .addr = addr};
	mt->regs.orig_rax = (uint64_t)-1;
}

static int restorer(struct mock_thread *mt, void *arg)
{
	(void)arg;
	(void)mock_syscall(mt, NR_RT_SIGRETURN, 0, 0, 0, 0, 0, 0);
	return 0;
}

/* What stands at @rip? fn == NULL: nothing. */
static struct entry code_at(uint64_t rip)
{
	if (rip == MOCK_RESTORER)
		return (struct entry){rip, restorer, NULL};
	return registry_find(rip);
}

/* A function that is not the thread's first has returned: `ret`, in the same context. */
static void return_to(struct mock_thread *mt, struct mock_ctx *c)
{
	for (;;) {
		struct entry e;
		uint64_t rip;

		mock_load(mt, &rip, mt->regs.rsp, sizeof(rip));
		mt->regs.rsp += sizeof(rip);
		for (;;) {
			e = code_at(rip);
			if (e.fn)
				break;
			tell_fault(mt, SIGSEGV, SEGV_MAPERR, rip);
			trap_out(mt);
		}
		c->fn = e.fn;
		c->arg = e.arg;
		(void)e.fn(mt, e.arg);
	}
}

static void ctx_put(struct mock_ctx *c)
{
	if (ref_put(&c->ref)) {
		waitq_fini(&c->q);
		mem_free(c);
	}
}

static void ctx_main(void *arg)
{
	struct mock_ctx *c = arg;

	(void)wait_event(&c->q, atomic_load(&c->turn) == TURN_GUEST, DEADLINE_NONE, WAIT_UNINTR);
	if (!atomic_load(&c->drop) && setjmp(c->start) == 0) {
		struct mock_thread *mt = c->mt;
		const bool first = SLIST_NEXT(c, link) == NULL;
		const int status = c->fn(mt, c->arg);

		if (!first)
			return_to(mt, c);
		for (;;)
			(void)mock_syscall(mt, NR_EXIT_GROUP, (uint64_t)(unsigned)status, 0, 0, 0,
					   0, 0);
	}
	ctx_put(c);
}

/* Ends @c, which is suspended, and forgets it. Does not wait for that. */
static void ctx_drop(struct mock_ctx *c)
{
	atomic_store(&c->drop, true);
	hand_over(c, TURN_GUEST);
	ctx_put(c);
}

static struct mock_ctx *ctx_new(struct mock_thread *mt, mock_fn *fn, void *arg)
{
	struct mock_ctx *c = mem_zalloc(sizeof(*c));
	struct fiber *f;

	if (!c)
		return NULL;
	ref_init(&c->ref);
	c->mt = mt;
	c->fn = fn;
	c->arg = arg;
	c->token = TOKEN_BASE + TOKEN_STEP * atomic_fetch_add(&g_tokens, 1);
	waitq_init(&c->q);
	f = fiber_new(ctx_main, c, worker_self(), "mock-guest");
	if (!f) {
		waitq_fini(&c->q);
		mem_free(c);
		return NULL;
	}
	ref_get(&c->ref);
	SLIST_INSERT_HEAD(&mt->contexts, c, link);
	fiber_start(f);
	return c;
}

/* The context that goes on at @rip; those that are younger are dropped. NULL: none. */
static struct mock_ctx *ctx_resume(struct mock_thread *mt, uint64_t rip)
{
	struct mock_ctx *c;

	SLIST_FOREACH (c, &mt->contexts, link) {
		if (c->token == rip)
			break;
	}
	while (c && SLIST_FIRST(&mt->contexts) != c) {
		struct mock_ctx *young = SLIST_FIRST(&mt->contexts);

		SLIST_REMOVE_HEAD(&mt->contexts, link);
		ctx_drop(young);
	}
	return c;
}

static void mock_run(struct pf_thread *t, struct pf_regs *regs, struct pf_trap *trap)
{
	struct mock_thread *mt = &t->mt;
	struct mock_ctx *c;

	memset(trap, 0, sizeof(*trap));
	if (atomic_exchange(&mt->interrupt, false)) {
		trap->kind = TRAP_INTERRUPT;
		return;
	}
	c = ctx_resume(mt, regs->rip);
	if (!c) {
		struct entry e = code_at(regs->rip);

		if (mt->child_fn && regs->rip == mt->child_token)
			e = (struct entry){regs->rip, mt->child_fn, mt->child_arg};
		if (!e.fn) {
			*trap = (struct pf_trap){.kind = TRAP_FAULT,
						 .signo = SIGSEGV,
						 .code = SEGV_MAPERR,
						 .addr = regs->rip};
			return;
		}
		c = ctx_new(mt, e.fn, e.arg);
		if (!c) {
			trap->kind = TRAP_DEAD;
			return;
		}
	}
	mt->regs = *regs;
	mt->current = c;
	memset(&mt->trap, 0, sizeof(mt->trap));
	hand_over(c, TURN_GUEST);
	(void)wait_event(&c->q, atomic_load(&c->turn) == TURN_KERNEL, DEADLINE_NONE, WAIT_UNINTR);
	*regs = mt->regs;
	*trap = mt->trap;
}

static void mock_interrupt(struct pf_thread *t)
{
	atomic_store(&t->mt.interrupt, true);
	waitq_wake(&t->mt.spin, 0);
}

/* --- For guest code --- */

struct pf_regs *mock_regs(struct mock_thread *mt)
{
	return &mt->regs;
}

long mock_syscall(struct mock_thread *mt, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
		  uint64_t e, uint64_t f)
{
	struct pf_regs *r = &mt->regs;

	r->rdi = a;
	r->rsi = b;
	r->rdx = c;
	r->r10 = d;
	r->r8 = e;
	r->r9 = f;
	r->orig_rax = (uint64_t)nr;
	r->rax = (uint64_t)-ENOSYS;
	r->rcx = mt->current->token;
	r->r11 = r->eflags;
	mt->trap = (struct pf_trap){.kind = TRAP_SYSCALL};
	trap_out(mt);
	return (long)r->rax;
}

static void guest_access(struct mock_thread *mt, uint64_t addr, void *buf, size_t size,
			 enum mock_access how)
{
	struct mock_memfault f;
	size_t done = 0;

	for (;;) {
		done += mock_mem_access(&mt->as->mem, addr + done, (uint8_t *)buf + done,
					size - done, how, &f);
		if (done == size)
			return;
		mock_fault(mt, f.signo, f.code, f.addr);
	}
}

void mock_load(struct mock_thread *mt, void *dst, uint64_t addr, size_t size)
{
	guest_access(mt, addr, dst, size, MOCK_READ);
}

void mock_store(struct mock_thread *mt, uint64_t addr, const void *src, size_t size)
{
	guest_access(mt, addr, (void *)(uintptr_t)src, size, MOCK_WRITE);
}

uint32_t mock_cmpxchg(struct mock_thread *mt, uint64_t addr, uint32_t expected, uint32_t value)
{
	struct mock_memfault f;
	uint32_t old;

	while (mock_mem_atomic32(&mt->as->mem, addr, ATOMIC_CMPXCHG, value, expected, &old, &f) < 0)
		mock_fault(mt, f.signo, f.code, f.addr);
	return old;
}

void mock_fault(struct mock_thread *mt, int signo, int code, uint64_t addr)
{
	tell_fault(mt, signo, code, addr);
	trap_out(mt);
}

void mock_spin(struct mock_thread *mt)
{
	(void)wait_event(&mt->spin, atomic_load(&mt->interrupt), DEADLINE_NONE, WAIT_UNINTR);
	atomic_store(&mt->interrupt, false);
	mt->trap = (struct pf_trap){.kind = TRAP_INTERRUPT};
	mt->regs.orig_rax = (uint64_t)-1;
	trap_out(mt);
}

long mock_fork(struct mock_thread *mt, mock_fn *fn, void *arg)
{
	mt->next_fn = fn;
	mt->next_arg = arg;
	return mock_syscall(mt, NR_FORK, 0, 0, 0, 0, 0, 0);
}

long mock_clone(struct mock_thread *mt, uint64_t flags, uint64_t stack, uint64_t parent_tid,
		uint64_t child_tid, uint64_t tls, mock_fn *fn, void *arg)
{
	mt->next_fn = fn;
	mt->next_arg = arg;
	return mock_syscall(mt, NR_CLONE, flags, stack, parent_tid, child_tid, tls, 0);
}

/* --- Address spaces and threads --- */

static void xstate_init(uint8_t *p)
{
	const uint64_t features = XS_FEATURES;
	const uint16_t fcw = 0x37f;
	const uint32_t mxcsr[2] = {0x1f80, MXCSR_MASK};

	memset(p, 0, XSTATE_SIZE);
	memcpy(p, &fcw, sizeof(fcw));
	memcpy(p + 24, mxcsr, sizeof(mxcsr));
	memcpy(p + XS_SW, &features, sizeof(features));
	memcpy(p + XS_HEADER, &features, sizeof(features));
}

static void as_get(struct pf_as *as)
{
	ref_get(&as->ref);
}

static void as_put(struct pf_as *as)
{
	if (ref_put(&as->ref)) {
		mock_mem_fini(&as->mem);
		mem_free(as);
	}
}

/* Takes the reference of @as, also on failure. */
static int thread_make(struct pf_as *as, struct pf_thread *from, struct pf_thread **out)
{
	struct pf_thread *t = mem_zalloc(sizeof(*t));

	if (!t) {
		as_put(as);
		return -ENOMEM;
	}
	t->mt.as = as;
	SLIST_INIT(&t->mt.contexts);
	waitq_init(&t->mt.spin);
	if (from) {
		/* The caller sits in the trap of its current context. */
		t->mt.child_token = from->mt.current ? from->mt.current->token : 0;
		t->mt.child_fn = from->mt.next_fn;
		t->mt.child_arg = from->mt.next_arg;
		memcpy(t->mt.xstate, from->mt.xstate, XSTATE_SIZE);
	} else {
		xstate_init(t->mt.xstate);
	}
	*out = t;
	return 0;
}

static struct pf_as *as_make(void)
{
	struct pf_as *as = mem_zalloc(sizeof(*as));

	if (as) {
		ref_init(&as->ref);
		mock_mem_init(&as->mem);
	}
	return as;
}

static int mock_as_new(struct pf_thread *leaves, struct pf_as **as, struct pf_thread **thread)
{
	(void)leaves;
	*as = as_make();
	return *as ? thread_make(*as, NULL, thread) : -ENOMEM;
}

static int mock_as_fork(struct pf_thread *from, struct pf_as **as, struct pf_thread **thread)
{
	int r;

	*as = as_make();
	if (!*as)
		return -ENOMEM;
	r = mock_mem_copy(&from->mt.as->mem, &(*as)->mem);
	if (r < 0) {
		as_put(*as);
		return r;
	}
	return thread_make(*as, from, thread);
}

static int mock_thread_new(struct pf_thread *from, struct pf_thread **thread)
{
	as_get(from->mt.as);
	return thread_make(from->mt.as, from, thread);
}

static void mock_thread_free(struct pf_thread *t)
{
	struct mock_ctx *c;

	while ((c = SLIST_FIRST(&t->mt.contexts)) != NULL) {
		SLIST_REMOVE_HEAD(&t->mt.contexts, link);
		ctx_drop(c);
	}
	as_put(t->mt.as);
	waitq_fini(&t->mt.spin);
	mem_free(t);
}

static struct pf_as *mock_thread_as(struct pf_thread *t)
{
	return t->mt.as;
}

static struct worker *mock_as_home(struct pf_as *as)
{
	(void)as;
	return NULL;
}

/* --- Vector state --- */

static int mock_xstate_get(struct pf_thread *t, void *buf)
{
	memcpy(buf, t->mt.xstate, XSTATE_SIZE);
	return XSTATE_SIZE;
}

static int mock_xstate_set(struct pf_thread *t, const void *buf, size_t size)
{
	const uint8_t *p = buf;
	uint64_t bv;
	uint32_t mxcsr;

	if (size < XS_HEADER + 64)
		return -EINVAL;
	memcpy(&bv, p + XS_HEADER, sizeof(bv));
	memcpy(&mxcsr, p + 24, sizeof(mxcsr));
	if ((bv & ~XS_FEATURES) != 0 || (mxcsr & ~MXCSR_MASK) != 0 ||
	    (size < XSTATE_SIZE && (bv & 4) != 0))
		return -EINVAL;
	for (size_t i = 8; i < 64; i++) {
		if (p[XS_HEADER + i] != 0)
			return -EINVAL;
	}
	memcpy(t->mt.xstate, p, MIN(size, (size_t)XSTATE_SIZE));
	return 0;
}

static int mock_xstate_reset(struct pf_thread *t)
{
	xstate_init(t->mt.xstate);
	return 0;
}

/* --- Memory --- */

static bool range_ok(uint64_t addr, uint64_t size)
{
	return ((addr | size) & ~PAGE_MASK_DOWN) == 0 && size != 0 && size <= PF_GUEST_LIMIT &&
	       addr <= PF_GUEST_LIMIT - size;
}

static int map_one(struct pf_thread *t, const struct map_op *op)
{
	if (fail_now(FAIL_HOST))
		return -ENOMEM;
	if (!range_ok(op->addr,
		      op->kind == MAP_OP_REMAP && op->size == 0 ? MOAT_PAGE_SIZE : op->size))
		return -EINVAL;
	if (op->kind == MAP_OP_REMAP && !range_ok(op->new_addr, op->new_size))
		return -EINVAL;
	if ((op->kind == MAP_OP_ANON || op->kind == MAP_OP_FILE) && op->addr < PF_GUEST_MIN)
		return -EPERM;
	return mock_mem_op(&t->mt.as->mem, op);
}

static int mock_map(struct pf_thread *t, struct map_op *ops, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count; i++) {
		ops[i].result = -ECANCELED;
		if (r == 0) {
			r = map_one(t, &ops[i]);
			ops[i].result = r;
		}
	}
	return r;
}

static void mock_forget_file(uint64_t key)
{
	(void)key;
}

static ssize_t copy(struct pf_as *as, uint64_t addr, void *buf, size_t size, enum mock_access how)
{
	size_t n;

	if (size == 0)
		return 0;
	if (fail_now(FAIL_COPY))
		return -EFAULT;
	n = mock_mem_access(&as->mem, addr, buf, size, how, NULL);
	return n ? (ssize_t)n : -EFAULT;
}

static ssize_t mock_copy_in(struct pf_as *as, void *dst, gaddr_t src, size_t size)
{
	return copy(as, src.a, dst, size, MOCK_READ);
}

static ssize_t mock_copy_out(struct pf_as *as, gaddr_t dst, const void *src, size_t size)
{
	return copy(as, dst.a, (void *)(uintptr_t)src, size, MOCK_WRITE);
}

static ssize_t mock_copy_force(struct pf_as *as, gaddr_t addr, void *buf, size_t size, bool write)
{
	return copy(as, addr.a, buf, size, MOCK_FORCE | (write ? MOCK_WRITE : MOCK_READ));
}

static int mock_atomic32(struct pf_thread *t, gaddr_t addr, enum atomic_op op, uint32_t arg,
			 uint32_t cmp, uint32_t *old)
{
	if (addr.a % sizeof(uint32_t) != 0)
		return -EFAULT;
	return mock_mem_atomic32(&t->mt.as->mem, addr.a, op, arg, cmp, old, NULL);
}

static int mock_resident(struct pf_as *as, uint64_t addr, size_t pages, uint8_t *vec)
{
	mock_mem_resident(&as->mem, addr, pages, vec);
	return 0;
}

static void mock_usage(struct pf_as *as, unsigned what UNUSED, struct pf_usage *out)
{
	struct pf_mem_stats ms;

	mock_mem_stats(&as->mem, &ms);
	*out = (struct pf_usage){.anon_bytes = ms.rss_bytes};
}

static void mock_mem_stats_of(struct pf_as *as, struct pf_mem_stats *out)
{
	mock_mem_stats(&as->mem, out);
}

static void mock_cpu_times(struct pf_thread *t, struct pf_cpu_times *out)
{
	(void)t;
	memset(out, 0, sizeof(*out));
}

static int mock_probe(struct err *e)
{
	(void)e;
	return 0;
}

static const struct worker_ops *mock_worker_ops(void)
{
	return NULL;
}

static int mock_start(struct err *e)
{
	(void)e;
	return 0;
}

static void mock_stop(void)
{
}

const struct platform platform_mock = {
	.name = "mock",
	.summary = "no process at all: C functions as guests, for tests",
	.probe = mock_probe,
	.worker_ops = mock_worker_ops,
	.start = mock_start,
	.stop = mock_stop,
	.as_new = mock_as_new,
	.as_fork = mock_as_fork,
	.thread_new = mock_thread_new,
	.thread_free = mock_thread_free,
	.as_get = as_get,
	.as_put = as_put,
	.thread_as = mock_thread_as,
	.as_home = mock_as_home,
	.run = mock_run,
	.interrupt = mock_interrupt,
	.xstate_get = mock_xstate_get,
	.xstate_set = mock_xstate_set,
	.xstate_reset = mock_xstate_reset,
	.map = mock_map,
	.forget_file = mock_forget_file,
	.copy_in = mock_copy_in,
	.copy_out = mock_copy_out,
	.copy_force = mock_copy_force,
	.atomic32 = mock_atomic32,
	.resident = mock_resident,
	.mem_stats = mock_mem_stats_of,
	.usage = mock_usage,
	.cpu_times = mock_cpu_times,
};
