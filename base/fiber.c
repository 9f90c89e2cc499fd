/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers on worker threads. See base/fiber.h for what they promise.
 *
 * Theory of operation
 *
 * A worker is a host thread with a stack of its own, on which it looks for a ready fiber, switches
 * to it, and comes back when that fiber sleeps, yields, moves or ends. What must happen once a
 * fiber is off its stack (free it, give it to another worker) the worker does on its own stack.
 *
 * Run queue. Each worker has a list of ready fibers that only it touches, and an inbox: a stack of
 * fibers that others pushed, with one compare-and-swap, and that the worker takes as a whole. No
 * locks, so a wake-up is allowed from anywhere.
 *
 * Sleeping. All is in one atomic word, fiber.state. A waker sets TOKEN; then, if ASLEEP is set, the
 * one who manages to clear it puts the fiber into its home's queue. The sleeper sets ASLEEP with a
 * compare-and-swap that fails when TOKEN or TIMEOUT is set. So either the sleeper sees the token or
 * the waker sees the sleeper. The sleeper is still on its stack then, but it can be run only by its
 * home, and that is the thread which is about to leave the stack.
 *
 * Idling. A worker sets idling, then looks at its inbox once more, then calls idle(). Who pushes
 * into an inbox looks at idling afterwards, and kicks if he is the one to clear it. One of the two
 * sees the other, and a kick that comes before idle() is kept by it: no wake-up is lost.
 *
 * Deadlines. A fiber has one timer, which is armed seldom: wait_deadline says when the present wait
 * ends, and the timer may fire earlier than that, from an older wait; then its callback arms it
 * anew. It must only never be later. `armed` is a time by which the callback will surely run (or
 * none); it is stored before the timer is armed, and cleared by the callback before that looks at
 * wait_deadline; the fiber stores wait_deadline before it looks at `armed`. So a loop that waits a
 * thousand times with a far deadline arms the timer once. Where time is injected, an old timer
 * would make virtual time jump to no one's deadline, so there it is cancelled after each wait.
 *
 * Thread-local variables. The worker of a running fiber is found in one. A fiber may come back from
 * a switch on another thread (fiber_migrate), and compilers keep the address of a thread-local
 * variable across calls; so it is read only through worker_self(), which is never inlined, and so
 * is each thread-local variable of other files by functions that are not (OWN_TLS): moat is
 * optimised as a whole when it is linked (errno: base/own_errno.h).
 *
 * Off the workers, fiber_wait() and all that is built on it work too: a stand-in fiber in the
 * thread's own storage sleeps on a futex. Start-up code and tests need no fibers then.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/clock_internal.h"
#include "base/err.h"
#include "base/fiber_internal.h"
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "base/thread.h"

#if MOAT_ASAN
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#if MOAT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* The sanitizers' frames are several times as large. */
#define STACK_SIZE ((size_t)(MOAT_ASAN || MOAT_TSAN ? 512 : 64) << 10)
/* Stacks kept for the next fibers: 8 MiB of address space, of which little is touched. */
#define STACK_POOL_MAX 128
/* So many fibers run between two polls of the platform. */
#define RUNS_PER_POLL 16

/* What the worker does with the fiber that just left its stack. */
enum after_switch { AFTER_NOTHING, AFTER_EXIT, AFTER_MIGRATE };

struct worker {
	_Alignas(128) _Atomic(struct fiber *) inbox;
	_Atomic uint32_t idling;
	_Atomic uint32_t kicked; /* the built-in idle's futex */
	_Atomic unsigned fibers; /* that have their home here */

	/* All else is touched by the worker's own thread only. */
	_Alignas(128) struct fiber_list ready;
	void (*later)(void); /* worker_later(); NULL: nothing */
	struct fiber *current;
	void *sp;
	enum after_switch after;
	struct worker *migrate_to;
	unsigned runs;
	uint64_t moments; /* that were begun here */
	bool slept;       /* with accounting: idle() made a host call, and no fiber ran since */
	void *data;
	pthread_t thread;

	void *asan_fake_stack;
	const void *asan_stack;
	size_t asan_stack_size;
	void *tsan_fiber;
};

void fiber_switch_stack(void **save_sp, void *to_sp);
void fiber_entry(void);
void fiber_main(struct fiber *f) NORETURN;

/* Workers live in static memory: who pushed the last fiber into an inbox may still look at idling
 * when that fiber has ended and workers_stop() is through. */
static struct worker g_workers[WORKERS_MAX];
static _Atomic unsigned g_worker_count; /* read by any thread, also while they end */
static const struct worker_ops *g_ops;
static _Atomic bool g_stopping;

static struct mutex g_fibers_lock = MUTEX_INIT(RANK_LEAF);
static struct cond g_fibers_cond;
static unsigned g_fibers;          /* that exist. [g_fibers_lock] */
static unsigned g_workers_started; /* [g_fibers_lock] */

static _Atomic int g_running;

static _Thread_local struct worker *t_worker;
static _Thread_local struct fiber t_thread_fiber;

/* --- Thread-local accessors: see the head of the file --- */

OWN_TLS struct worker *worker_self(void)
{
	/* Opaque, so that no compiler finds that two calls must give the same. */
	__asm__ volatile("" ::: "memory");
	return t_worker;
}

OWN_TLS int *own_errno(void)
{
	__asm__ volatile("" ::: "memory");
	return __errno_location();
}

static void thread_fiber_timer(struct timer *t);

static OWN_TLS struct fiber *thread_fiber(void)
{
	struct fiber *f = &t_thread_fiber;

	__asm__ volatile("" ::: "memory");
	if (!f->is_thread) {
		f->is_thread = true;
		atomic_init(&f->wait_deadline, DEADLINE_NONE);
		atomic_init(&f->armed, DEADLINE_NONE);
		timer_init(&f->timer, thread_fiber_timer);
	}
	return f;
}

struct fiber *fiber_self(void)
{
	struct worker *w = worker_self();

	return w ? w->current : NULL;
}

/* A number that no other fiber has or had. */
static void moment_begin(struct worker *w, struct fiber *f)
{
	f->moment = (uint64_t)(w - g_workers) << 56 | ++w->moments;
}

uint64_t fiber_moment(void)
{
	const struct fiber *f = fiber_self();

	return f ? f->moment : 0;
}

void fiber_moment_begin(void)
{
	struct worker *w = worker_self();

	if (w && w->current)
		moment_begin(w, w->current);
}

struct fiber *fiber_current(void)
{
	struct fiber *f = fiber_self();

	return f ? f : thread_fiber();
}

/* --- Who runs --- */

static void running_add(void)
{
	atomic_fetch_add(&g_running, 1);
}

static void running_sub(void)
{
	if (atomic_fetch_sub(&g_running, 1) == 1)
		clock_all_asleep();
}

unsigned fibers_running(void)
{
	int n = atomic_load(&g_running);

	return n > 0 ? (unsigned)n : 0;
}

void fiber_activity_begin(void)
{
	fiber_turn_keep();
	running_add();
}

void fiber_activity_end(void)
{
	fiber_turn_unkeep();
	running_sub();
}

/* --- Stacks --- */

struct free_stack {
	SLIST_ENTRY(free_stack) link;
};

static struct mutex g_stacks_lock = MUTEX_INIT(RANK_LEAF);
static SLIST_HEAD(, free_stack) g_stacks = SLIST_HEAD_INITIALIZER(g_stacks);
static unsigned g_stack_count;        /* [g_stacks_lock] */
static struct san_kept g_stacks_kept; /* [g_stacks_lock] */

/* The lowest usable byte of STACK_SIZE, above a guard page. NULL: no memory. */
static void *stack_new(void)
{
	if (fail_now(FAIL_ALLOC))
		return NULL;

	mutex_lock(&g_stacks_lock);
	struct free_stack *s = SLIST_FIRST(&g_stacks);

	if (s) {
		SLIST_REMOVE_HEAD(&g_stacks, link);
		g_stack_count--;
	}
	mutex_unlock(&g_stacks_lock);
	if (s)
		return (char *)s + sizeof(*s) - STACK_SIZE;

	char *p = HOST(mmap_anon,
		       mmap(NULL, STACK_SIZE + MOAT_PAGE_SIZE, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0));

	if (p == MAP_FAILED)
		return NULL;
	if (HOST(mprotect_stack,
		 mprotect(p + MOAT_PAGE_SIZE, STACK_SIZE, PROT_READ | PROT_WRITE)) != 0) {
		HOST(munmap_own, munmap(p, STACK_SIZE + MOAT_PAGE_SIZE));
		return NULL;
	}
	p += MOAT_PAGE_SIZE;
#if MOAT_ASAN
	/* What only a sleeping fiber points to is no leak. */
	__lsan_register_root_region(p, STACK_SIZE);
#endif
	return p;
}

static void stack_unmap(void *stack)
{
#if MOAT_ASAN
	__lsan_unregister_root_region(stack, STACK_SIZE);
#endif
	HOST(munmap_own, munmap((char *)stack - MOAT_PAGE_SIZE, STACK_SIZE + MOAT_PAGE_SIZE));
}

#ifdef MOAT_DEBUG
static _Atomic unsigned g_stack_peak_pages;

/* Stacks are only ever touched from the top down; the pages that are there tell how far. */
static void stack_note_peak(void *stack)
{
	unsigned char resident[STACK_SIZE / MOAT_PAGE_SIZE];
	unsigned pages = 0;

	if (HOST(mincore_stack, mincore(stack, STACK_SIZE, resident)) != 0)
		return;
	for (size_t i = 0; i < sizeof(resident); i++)
		pages += resident[i] & 1;
	if (pages > atomic_load(&g_stack_peak_pages))
		atomic_store(&g_stack_peak_pages, pages);
}

static void stack_log_peak(void)
{
	log_debug("fiber stacks: %u of %zu KiB touched at most",
		  (unsigned)(atomic_load(&g_stack_peak_pages) * MOAT_PAGE_SIZE / 1024),
		  STACK_SIZE / 1024);
}
#else
static void stack_note_peak(void *stack)
{
	(void)stack;
}
static void stack_log_peak(void)
{
}
#endif

static void stack_free(void *stack)
{
	stack_note_peak(stack);
	mutex_lock(&g_stacks_lock);
	/* With it go the red zones of frames that never returned. */
	san_hide(stack, STACK_SIZE);
	stack = san_keep(&g_stacks_kept, stack);
	if (stack)
		san_show(stack, STACK_SIZE);
	if (stack && g_stack_count < STACK_POOL_MAX) {
		/* At the top, in a page that is touched anyway. */
		struct free_stack *s = (struct free_stack *)((char *)stack + STACK_SIZE -
							     sizeof(struct free_stack));

		SLIST_INSERT_HEAD(&g_stacks, s, link);
		g_stack_count++;
		stack = NULL;
	}
	mutex_unlock(&g_stacks_lock);
	if (stack)
		stack_unmap(stack);
}

static void stacks_drop_pool(void)
{
	void *kept;

	mutex_lock(&g_stacks_lock);
	while ((kept = san_keep(&g_stacks_kept, NULL))) {
		san_show(kept, STACK_SIZE);
		stack_unmap(kept);
	}
	while (!SLIST_EMPTY(&g_stacks)) {
		struct free_stack *s = SLIST_FIRST(&g_stacks);

		SLIST_REMOVE_HEAD(&g_stacks, link);
		stack_unmap((char *)s + sizeof(*s) - STACK_SIZE);
	}
	g_stack_count = 0;
	mutex_unlock(&g_stacks_lock);
}

/* --- The switch --- */

/* From the worker's stack to the fiber's; returns when the fiber switches back. */
static void switch_to_fiber(struct worker *w, struct fiber *f)
{
#if MOAT_ASAN
	__sanitizer_start_switch_fiber(&w->asan_fake_stack, f->stack, f->stack_size);
#endif
#if MOAT_TSAN
	__tsan_switch_to_fiber(f->tsan_fiber, 0);
#endif
	fiber_switch_stack(&w->sp, f->sp);
#if MOAT_ASAN
	__sanitizer_finish_switch_fiber(w->asan_fake_stack, NULL, NULL);
#endif
}

/* From the running fiber's stack to its worker's. May return on another thread. */
static void switch_to_worker(struct fiber *f, enum after_switch after)
{
	struct worker *w = worker_self();

	w->after = after;
#if MOAT_ASAN
	/* NULL: the fake stack of a fiber that ends is freed. */
	__sanitizer_start_switch_fiber(after == AFTER_EXIT ? NULL : &f->asan_fake_stack,
				       w->asan_stack, w->asan_stack_size);
#endif
#if MOAT_TSAN
	__tsan_switch_to_fiber(w->tsan_fiber, 0);
#endif
	fiber_switch_stack(&f->sp, w->sp);
#if MOAT_ASAN
	w = worker_self();
	__sanitizer_finish_switch_fiber(f->asan_fake_stack, &w->asan_stack, &w->asan_stack_size);
#endif
}

void fiber_main(struct fiber *f)
{
#if MOAT_ASAN
	struct worker *w = worker_self();

	__sanitizer_finish_switch_fiber(NULL, &w->asan_stack, &w->asan_stack_size);
#endif
	f->fn(f->arg);
	lock_check_none_held();
	switch_to_worker(f, AFTER_EXIT);
	panic("an ended fiber was run");
}

/* --- Run queues --- */

/* Makes a fiber ready that is in no queue and does not run. Any thread. */
static void fiber_enqueue(struct fiber *f)
{
	struct worker *w = atomic_load_explicit(&f->home, memory_order_relaxed);

	if (w == worker_self()) {
		STAILQ_INSERT_TAIL(&w->ready, f, link);
		return;
	}

	struct fiber *head = atomic_load_explicit(&w->inbox, memory_order_relaxed);

	do {
		f->next_inbox = head;
	} while (!atomic_compare_exchange_weak(&w->inbox, &head, f));
	/* From here on the fiber may run, and be gone. */
	if (atomic_load(&w->idling) && atomic_exchange(&w->idling, 0))
		g_ops->kick(w);
}

static void worker_take_inbox(struct worker *w)
{
	if (!atomic_load_explicit(&w->inbox, memory_order_relaxed))
		return;

	struct fiber *f = atomic_exchange_explicit(&w->inbox, NULL, memory_order_acquire);
	struct fiber *oldest = NULL;

	/* The last pushed is first: turn it round. */
	while (f) {
		struct fiber *next = f->next_inbox;

		f->next_inbox = oldest;
		oldest = f;
		f = next;
	}
	while (oldest) {
		struct fiber *next = oldest->next_inbox;

		STAILQ_INSERT_TAIL(&w->ready, oldest, link);
		oldest = next;
	}
}

/* --- Workers --- */

static void fiber_free(struct fiber *f)
{
	struct worker *home = atomic_load_explicit(&f->home, memory_order_relaxed);

	/* The timer may be armed for a wait that is long over, or fire right now. */
	if (f->timer_used)
		timer_cancel_sync(&f->timer);
#if MOAT_TSAN
	__tsan_destroy_fiber(f->tsan_fiber);
#endif
	stack_free(f->stack); /* and with it the struct */
	atomic_fetch_sub_explicit(&home->fibers, 1, memory_order_relaxed);

	mutex_lock(&g_fibers_lock);
	if (--g_fibers == 0)
		cond_tell_all(&g_fibers_cond, &g_fibers_lock);
	mutex_unlock(&g_fibers_lock);
}

static void worker_run(struct worker *w, struct fiber *f)
{
	w->current = f;
	w->after = AFTER_NOTHING;
	moment_begin(w, f);
	if (unlikely(g_host_accounting)) {
		(void)host_settle(HOST_FOR_WORKERS);
		f->span.worker_slept |= w->slept;
		w->slept = false;
	}
	switch_to_fiber(w, f);
	w->current = NULL;
	if (unlikely(g_host_accounting))
		f->span.host_calls += host_settle(f->account);

	switch (w->after) {
	case AFTER_NOTHING:
		break;
	case AFTER_EXIT:
		if (unlikely(g_fiber_turns))
			turn_give(f);
		fiber_free(f);
		running_sub();
		break;
	case AFTER_MIGRATE:
		atomic_fetch_sub_explicit(&w->fibers, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&w->migrate_to->fibers, 1, memory_order_relaxed);
		atomic_store_explicit(&f->home, w->migrate_to, memory_order_relaxed);
		fiber_enqueue(f);
		break;
	}
}

static void worker_idle(struct worker *w)
{
	if (unlikely(g_host_accounting))
		(void)host_settle(HOST_FOR_WORKERS);
	atomic_store(&w->idling, 1);
	if (!atomic_load(&w->inbox) && !atomic_load(&g_stopping))
		g_ops->idle(w);
	atomic_store(&w->idling, 0);
	if (unlikely(g_host_accounting) && host_settle(HOST_FOR_WORKERS) > 0)
		w->slept = true;
}

struct fiber_span fiber_account(unsigned account)
{
	struct fiber *f = fiber_self();
	struct fiber_span span = {0};

	if (!f)
		return span;
	span = f->span;
	span.host_calls += host_settle(f->account);
	f->span = (struct fiber_span){0};
	f->account = account;
	return span;
}

void worker_later(void (*work)(void))
{
	struct worker *w = worker_self();

	if (!w || g_host_accounting || (w->later && w->later != work))
		work();
	else
		w->later = work;
}

static void do_later(struct worker *w)
{
	void (*work)(void) = w->later;

	if (likely(!work))
		return;
	w->later = NULL;
	work();
}

void worker_do_later(void)
{
	struct worker *w = worker_self();

	if (w)
		do_later(w);
}

static OWN_TLS void worker_enter(struct worker *w)
{
	t_worker = w;
}

static struct fiber *worker_next(struct worker *w)
{
	struct fiber *f;

	if (unlikely(g_fiber_turns))
		return turn_pick(&w->ready);
	f = STAILQ_FIRST(&w->ready);
	if (f)
		STAILQ_REMOVE_HEAD(&w->ready, link);
	return f;
}

bool worker_has_ready(void)
{
	return !STAILQ_EMPTY(&worker_self()->ready);
}

bool worker_wanted(void)
{
	const struct worker *w = worker_self();

	return !STAILQ_EMPTY(&w->ready) ||
	       atomic_load_explicit(&w->inbox, memory_order_relaxed) != NULL;
}

bool worker_is_quiet(void)
{
	struct worker *w = worker_self();

	return w && !g_fiber_turns && STAILQ_EMPTY(&w->ready) &&
	       !atomic_load_explicit(&w->inbox, memory_order_relaxed) && g_ops->quiet &&
	       g_ops->quiet(w);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	worker_enter(w);
#if MOAT_TSAN
	w->tsan_fiber = __tsan_get_current_fiber();
#endif
	if (g_ops->start)
		g_ops->start(w, worker_index(w));
	mutex_lock(&g_fibers_lock);
	g_workers_started++;
	cond_tell_all(&g_fibers_cond, &g_fibers_lock);
	mutex_unlock(&g_fibers_lock);

	for (;;) {
		worker_take_inbox(w);

		struct fiber *f = worker_next(w);

		if (f) {
			worker_run(w, f);
			do_later(w);
			if (++w->runs >= RUNS_PER_POLL) {
				w->runs = 0;
				if (g_ops->poll)
					g_ops->poll(w);
			}
			continue;
		}
		if (atomic_load(&g_stopping))
			break;
		w->runs = 0;
		if (unlikely(g_fiber_turns) && turn_idle(&w->ready))
			continue;
		worker_idle(w);
	}
	return NULL;
}

static void futex_idle(struct worker *w)
{
	while (!atomic_exchange(&w->kicked, 0))
		HOST(futex_worker,
		     syscall(SYS_futex, &w->kicked, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
}

static void futex_kick(struct worker *w)
{
	atomic_store(&w->kicked, 1);
	HOST(futex_worker, syscall(SYS_futex, &w->kicked, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
}

static bool futex_quiet(struct worker *w)
{
	(void)w;
	return true; /* there is no platform */
}

int workers_start(unsigned count, const struct worker_ops *ops)
{
	static const struct worker_ops futex_ops = {
		.idle = futex_idle, .kick = futex_kick, .quiet = futex_quiet};

	BUG_ON(g_worker_count != 0);
	if (count < 1)
		count = 1;
	if (count > WORKERS_MAX)
		count = WORKERS_MAX;
	g_ops = ops ? ops : &futex_ops;
	atomic_store(&g_stopping, false);

	int r = 0;

	BUG_ON(g_fiber_turns && count != 1);

	for (unsigned i = 0; i < count; i++) {
		struct worker *w = &g_workers[i];

		atomic_store(&w->inbox, NULL);
		atomic_store(&w->idling, 0);
		atomic_store(&w->kicked, 0);
		atomic_store(&w->fibers, 0);
		STAILQ_INIT(&w->ready);
		w->runs = 0;
		w->later = NULL;
		w->data = NULL;
		r = thread_start(&w->thread, worker_main, w, "moat-worker");
		if (r)
			break;
		g_worker_count++;
	}
	if (r) {
		workers_stop();
		return r;
	}
	/* Only now: a fiber's first wake-up must find a platform that can be kicked. */
	mutex_lock(&g_fibers_lock);
	while (g_workers_started < count)
		cond_wait(&g_fibers_cond, &g_fibers_lock);
	mutex_unlock(&g_fibers_lock);
	if (g_fiber_turns) {
		r = turns_begin(&g_workers[0], g_ops->kick);
		if (r) {
			g_fiber_turns = false;
			workers_stop();
		}
	}
	return r;
}

void workers_stop(void)
{
	BUG_ON(worker_self());
	mutex_lock(&g_fibers_lock);
	while (g_fibers != 0 || g_workers_started < g_worker_count)
		cond_wait(&g_fibers_cond, &g_fibers_lock);
	mutex_unlock(&g_fibers_lock);

	if (g_fiber_turns && g_worker_count != 0)
		turns_end();
	atomic_store(&g_stopping, true);
	for (unsigned i = 0; i < g_worker_count; i++)
		g_ops->kick(&g_workers[i]);
	for (unsigned i = 0; i < g_worker_count; i++)
		pthread_join(g_workers[i].thread, NULL);
	g_worker_count = 0;
	g_workers_started = 0;
	blocking_stop();
	stacks_drop_pool();
	stack_log_peak();
}

unsigned worker_count(void)
{
	return g_worker_count;
}

struct worker *worker_at(unsigned index)
{
	/* Not against the count: who was told of it may ask when they have ended. */
	BUG_ON(index >= WORKERS_MAX);
	return &g_workers[index];
}

unsigned worker_index(const struct worker *w)
{
	return (unsigned)(w - g_workers);
}

void **worker_data(struct worker *w)
{
	return &w->data;
}

/* --- Fibers --- */

static struct worker *worker_least_loaded(void)
{
	struct worker *best = &g_workers[0];

	for (unsigned i = 1; i < g_worker_count; i++) {
		if (atomic_load_explicit(&g_workers[i].fibers, memory_order_relaxed) <
		    atomic_load_explicit(&best->fibers, memory_order_relaxed))
			best = &g_workers[i];
	}
	return best;
}

static void fiber_timer(struct timer *t);

struct fiber *fiber_new(void (*fn)(void *), void *arg, struct worker *home, const char *name)
{
	BUG_ON(g_worker_count == 0);
	char *stack = stack_new();

	if (!stack)
		return NULL;
	if (!home)
		home = worker_least_loaded();

	/* The struct is at the top of the stack, out of an overflow's way. */
	struct fiber *f =
		(struct fiber *)(((uintptr_t)stack + STACK_SIZE - sizeof(*f)) & ~(uintptr_t)63);

	memset(f, 0, sizeof(*f));
	f->fn = fn;
	f->arg = arg;
	f->stack = stack;
	f->stack_size = STACK_SIZE;
	atomic_init(&f->home, home);
	f->account = HOST_FOR_FIBERS;
	atomic_init(&f->wait_deadline, DEADLINE_NONE);
	atomic_init(&f->armed, DEADLINE_NONE);
	atomic_init(&f->host_deadline_ns, DEADLINE_NONE);
	timer_init(&f->timer, fiber_timer);
	strncpy(f->name, name ? name : "", sizeof(f->name) - 1);
#if MOAT_TSAN
	f->tsan_fiber = __tsan_create_fiber(0);
	__tsan_set_fiber_name(f->tsan_fiber, f->name);
#endif

	/* The frame that fiber_switch_stack pops: control words, r15 r14 r13 r12 rbx rbp, return
	 * address; above it a zero return address, and the stack aligned as at a call. */
	uint64_t *frame = (uint64_t *)(void *)f - 10;

	memset(frame, 0, 10 * sizeof(*frame));
	frame[0] = 0x1f80 | (UINT64_C(0x037f) << 32); /* the ABI's: all exceptions masked */
	frame[5] = (uint64_t)(uintptr_t)f;
	frame[7] = (uint64_t)(uintptr_t)fiber_entry;
	f->sp = frame;

	atomic_fetch_add_explicit(&home->fibers, 1, memory_order_relaxed);
	mutex_lock(&g_fibers_lock);
	g_fibers++;
	mutex_unlock(&g_fibers_lock);
	return f;
}

void fiber_start(struct fiber *f)
{
	running_add();
	fiber_enqueue(f);
}

void fiber_discard(struct fiber *f)
{
	fiber_free(f);
}

void fiber_set_data(struct fiber *f, void *data)
{
	f->data = data;
}

void *fiber_data(const struct fiber *f)
{
	return f->data;
}

void fiber_set_local(struct fiber *f, void *local)
{
	f->local = local;
}

void *fiber_local(const struct fiber *f)
{
	return f->local;
}

const char *fiber_name(const struct fiber *f)
{
	return f->name;
}

struct worker *fiber_home(const struct fiber *f)
{
	return atomic_load_explicit(&f->home, memory_order_relaxed);
}

void fiber_migrate(struct worker *to)
{
	struct worker *w = worker_self();
	struct fiber *f = fiber_self();

	BUG_ON(!f);
	if (w == to)
		return;
	lock_check_none_held();
	w->migrate_to = to;
	switch_to_worker(f, AFTER_MIGRATE);
}

void fiber_yield(void)
{
	struct fiber *f = fiber_self();

	BUG_ON(!f);
	lock_check_none_held();
	if (unlikely(g_fiber_turns))
		turn_give(f);
	STAILQ_INSERT_TAIL(&worker_self()->ready, f, link);
	switch_to_worker(f, AFTER_NOTHING);
}

/* --- Sleeping and waking --- */

/* Sets @bits and makes the fiber ready if it sleeps. */
static void fiber_unpark(struct fiber *f, uint32_t bits)
{
	uint32_t s = atomic_fetch_or(&f->state, bits) | bits;

	/* Without the bits: others woke it meanwhile, it has seen ours too, and sleeps again. */
	while ((s & FIBER_ASLEEP) && (s & bits)) {
		if (!atomic_compare_exchange_weak(&f->state, &s, s & ~(uint32_t)FIBER_ASLEEP))
			continue;
		if (f->is_thread) {
			HOST(futex_worker,
			     syscall(SYS_futex, &f->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
		} else {
			running_add();
			fiber_enqueue(f);
		}
		break;
	}
}

/* Sleeps until the state has TOKEN or TIMEOUT. */
static void fiber_park(struct fiber *f)
{
	uint32_t s = atomic_load(&f->state);

	do {
		if (s & (FIBER_TOKEN | FIBER_TIMEOUT))
			return;
	} while (!atomic_compare_exchange_weak(&f->state, &s, s | FIBER_ASLEEP));

	if (f->is_thread) {
		while ((s = atomic_load(&f->state)) & FIBER_ASLEEP)
			HOST(futex_worker,
			     syscall(SYS_futex, &f->state, FUTEX_WAIT_PRIVATE, s, NULL, NULL, 0));
		return;
	}
	f->span.parked = true;
	if (unlikely(g_fiber_turns))
		turn_give(f);
	running_sub();
	switch_to_worker(f, AFTER_NOTHING);
}

/* The deadline timer fired, maybe for a wait that is over. */
static void fiber_timer(struct timer *t)
{
	struct fiber *f = container_of(t, struct fiber, timer);

	atomic_store(&f->armed, DEADLINE_NONE);

	uint64_t deadline = atomic_load(&f->wait_deadline);

	if (deadline == DEADLINE_NONE)
		return;
	if (clock_mono_ns() >= deadline) {
		fiber_unpark(f, FIBER_TIMEOUT);
	} else {
		atomic_store(&f->armed, deadline);
		timer_arm_earlier(t, deadline);
	}
}

static void thread_fiber_timer(struct timer *t)
{
	fiber_timer(t);
}

static void fiber_arm_deadline(struct fiber *f, uint64_t deadline_ns)
{
	atomic_store(&f->wait_deadline, deadline_ns);
	if (atomic_load(&f->armed) <= deadline_ns)
		return;
	f->timer_used = true;
	atomic_store(&f->armed, deadline_ns);
	timer_arm_earlier(&f->timer, deadline_ns);
}

static void fiber_end_deadline(struct fiber *f)
{
	atomic_store_explicit(&f->wait_deadline, DEADLINE_NONE, memory_order_relaxed);
	if (f->is_thread) {
		/* The thread may end any time, and its storage with it. */
		timer_cancel_sync(&f->timer);
	} else if (clock_get_kind() == CLOCK_KIND_VIRTUAL ||
		   clock_get_kind() == CLOCK_KIND_MANUAL) {
		timer_cancel(&f->timer);
	} else {
		return;
	}
	atomic_store(&f->armed, DEADLINE_NONE);
}

static bool fiber_must_return(uint32_t state, enum wait_flags flags)
{
	return (flags == WAIT_INTR && (state & (FIBER_INTR | FIBER_KILL))) ||
	       (flags == WAIT_KILL && (state & FIBER_KILL));
}

void fiber_time_out(struct fiber *f)
{
	fiber_unpark(f, FIBER_TIMEOUT);
}

/* A deadline of who waits for the host with its turn kept: time stands still for it. */
static uint64_t host_deadline(uint64_t deadline_ns)
{
	const uint64_t now = clock_mono_ns();

	return deadline_ns == DEADLINE_NONE
		       ? DEADLINE_NONE
		       : host_clock_ns(CLOCK_MONOTONIC) + deadline_ns - MIN(deadline_ns, now);
}

static int fiber_wait_kept(struct fiber *f, uint64_t deadline_ns, enum wait_flags flags)
{
	const uint64_t deadline = host_deadline(deadline_ns);
	int r = 1;

	atomic_store(&f->host_deadline_ns, deadline);
	while (r > 0) {
		uint32_t s = atomic_fetch_and(&f->state, ~(uint32_t)(FIBER_TOKEN | FIBER_TIMEOUT));

		if (s & FIBER_TOKEN)
			r = 0;
		else if (fiber_must_return(s, flags))
			r = -ERESTARTSYS;
		else if (deadline != DEADLINE_NONE && host_clock_ns(CLOCK_MONOTONIC) >= deadline)
			r = -ETIMEDOUT;
		else
			fiber_park(f);
	}
	atomic_store(&f->host_deadline_ns, DEADLINE_NONE);
	return r;
}

int fiber_wait(uint64_t deadline_ns, enum wait_flags flags)
{
	struct fiber *f = fiber_current();
	bool armed = false;
	int result;

	/* The stand-in of a worker's thread would put all its fibers to sleep. */
	BUG_ON(f->is_thread && worker_self());
	lock_check_none_held();
	if (unlikely(f->turn_kept))
		return fiber_wait_kept(f, deadline_ns, flags);
	for (;;) {
		uint32_t s = atomic_load_explicit(&f->state, memory_order_acquire);

		/* Acquire: what the waker did before is seen. */
		if (s & (FIBER_TOKEN | FIBER_TIMEOUT))
			s = atomic_fetch_and(&f->state, ~(uint32_t)(FIBER_TOKEN | FIBER_TIMEOUT));
		if (s & FIBER_TOKEN) {
			result = 0;
			break;
		}
		if (fiber_must_return(s, flags)) {
			result = -ERESTARTSYS;
			break;
		}
		if (deadline_ns != DEADLINE_NONE) {
			if (clock_mono_ns() >= deadline_ns) {
				result = -ETIMEDOUT;
				break;
			}
			fiber_arm_deadline(f, deadline_ns);
			armed = true;
		}
		fiber_park(f);
	}
	if (armed)
		fiber_end_deadline(f);
	return result;
}

void fiber_wake(struct fiber *f)
{
	fiber_unpark(f, FIBER_TOKEN);
}

int fiber_sleep_until(uint64_t deadline_ns, enum wait_flags flags)
{
	int r;

	do {
		r = fiber_wait(deadline_ns, flags);
	} while (r == 0);
	return r == -ETIMEDOUT ? 0 : r;
}

void fiber_interrupt(struct fiber *f)
{
	/* With a token: the wait that it hits returns 0, so that the owner looks at its condition
	 * first; the next one returns -ERESTARTSYS. */
	fiber_unpark(f, FIBER_INTR | FIBER_TOKEN);
}

void fiber_clear_interrupt(struct fiber *f)
{
	atomic_fetch_and(&f->state, ~(uint32_t)FIBER_INTR);
}

bool fiber_interrupted(const struct fiber *f)
{
	return atomic_load(&f->state) & FIBER_INTR;
}

void fiber_kill(struct fiber *f)
{
	fiber_unpark(f, FIBER_KILL | FIBER_TOKEN);
}

bool fiber_killed(const struct fiber *f)
{
	return atomic_load(&f->state) & FIBER_KILL;
}
