/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of the trap platform: waiting for requests of guest threads and reports of agents.
 *
 * Theory of operation: each worker has a list of those for whom its fibers wait. Idle, it looks at
 * their words, again and again for a while if that is likely to pay (spin), and then sleeps on all
 * the words at once (futex_waitv) and on its own word, by which it is kicked. Before it sleeps it
 * turns each word from TS_GUEST into TS_BELL; who posts into a word with TS_BELL wakes the sleeper.
 * A word that was posted before no longer has TS_GUEST, and one that is posted after makes the host
 * refuse to sleep: no post is lost, whatever other guests do with their own words.
 *
 * Spinning: at most one worker at a time, only while there is a core for it beside those that run
 * guest code, and only if what is waited for has lately come soon (tr_wait.soon). Spins in vain
 * (the machine is busy) switch it off for a while. The same goes for guest threads
 * (tr_guest_spin), which are told with each reply.
 *
 * Where nobody else is waited for and no fiber is ready, a thread's fiber spins itself, for a
 * little while, before it leaves the CPU to the worker (await_here): of a thread that makes one
 * call after the other no call costs a switch, a wake-up or a look at the lists.
 *
 * A crowd, many threads that make calls often, shares the other CPUs while the worker spins: who
 * spins for its reply there waits for as long as the call takes, as it would natively. If they
 * slept, the worker would do little else than wake them.
 */
#include <errno.h>
#include <sched.h>
#include "base/sanitizer.h"
#include "platform/host_ptrace.h"
#include "platform/host_trap.h"
#include "platform/notify.h"
#include "platform/trap.h"

/* Cycles; at 2.6 GHz 200 microseconds for the worker (as long as KVM spins before it halts) and 23
 * for a guest thread; when others want the CPUs, 25 and 10. */
#define SPIN 520000u
#define GUEST_SPIN 60000u
#define BUSY_SPIN 65000u
#define BUSY_GUEST_SPIN 26000u
/* So many threads that make calls often are a crowd. */
#define CROWD 4
/* As many times as long, and once, spins a thread that has others in front of it in the queue. */
#define CROWD_SPIN 7u
/* Who spins and finds much time gone between two looks (TS_GAP) was preempted: others want the CPU.
 * So it is taken to be for 60 milliseconds to a second. */
#define BUSY_MIN UINT64_C(160000000)
#define BUSY_MAX UINT64_C(2600000000)
/* Who waits alone spins so long before it is put on the worker's list: 10 microseconds. */
#define HERE_SPIN 26000u
/* And first so many looks, half a microsecond, of which nobody is told: a thread that makes one
 * call after the other has mostly made it by then. */
#define HERE_LOOKS 256u
/* Lines at the start of the windows' room: a name of usual length, and a struct stat. */
#define ROOM_LINES 4u
/* So often one looks between two pauses, each of which may take as long as a request's way. */
#define LOOKS 64u
/* After so many spins in vain, only one of 16 idle phases spins. */
#define FAILS_MAX 4

/* More words than the host takes in one call: those beyond are looked at this often. */
#define CROWD_NS 1000000

static struct {
	_Atomic unsigned cpus; /* workers may run before it is known */
	_Atomic int guests;    /* threads that run guest code */
	_Atomic int direct; /* those of them that were last seen asleep on a futex of the guest's */
	_Atomic bool spinning;
	_Atomic uint64_t busy_until,
		busy_length; /* by the TSC: who spins spins briefly until then */
	_Atomic bool busy;   /* it may not be over; spares reading the counter */
} g_place;

void tr_workers_init(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	g_place.cpus = pf_host_affinity_get(0, &set) < 0 ? 1 : (unsigned)CPU_COUNT(&set);
}

/* The guest thread of @area shall not spin for its reply any longer. If it is another's area by
 * now, or nobody's, that costs a wake-up and no more. */
static SAN_ANY_MEMORY void let_sleep(struct ts_area *area)
{
	uint32_t expect = TS_POSTED;

	(void)atomic_compare_exchange_strong(&area->state, &expect, TS_WAITS);
}

/* The same for the one whose request was taken last: its fiber sleeps, or the worker would not have
 * nothing to do. */
static void let_taken_sleep(struct trworker *tw)
{
	if (tw->taken) {
		let_sleep(tw->taken);
		tw->taken = NULL;
	}
}

static struct trworker *self(void)
{
	return *worker_data(worker_self());
}

/* Who executes a program leaves an address space that is nobody else's, and so no load any more:
 * the child of a fork is no more reason to go elsewhere than a vfork's is. */
static bool leaves_own(const struct pf_thread *t)
{
	return t && t->as->home == worker_self() &&
	       atomic_load_explicit(&t->as->threads, memory_order_relaxed) == 1;
}

struct worker *tr_least_loaded(const struct pf_thread *leaves)
{
	struct worker *me = worker_self();
	struct worker *best = me;
	uint32_t best_load, free;

	if (!me)
		return worker_at(0);
	/* Staying is free, and what belongs together stays together: others must be better by two.
	 */
	best_load = atomic_load_explicit(&self()->as_count, memory_order_relaxed);
	free = 1 + leaves_own(leaves);
	best_load = best_load > free ? best_load - free : 0;
	for (unsigned i = 0; i < worker_count(); i++) {
		struct trworker *tw = *worker_data(worker_at(i));
		uint32_t load;

		if (!tw || tw->worker == me)
			continue;
		load = atomic_load_explicit(&tw->as_count, memory_order_relaxed);
		if (load < best_load) {
			best = tw->worker;
			best_load = load;
		}
	}
	return best;
}

void tr_load(struct worker *home, int change)
{
	struct trworker *tw = *worker_data(home);

	if (change > 0)
		atomic_fetch_add(&tw->as_count, 1);
	else
		atomic_fetch_sub(&tw->as_count, 1);
}

/* Who is waited for by one that does nothing else shall not be sent to another worker for that: to
 * wake a worker on another CPU for it, and its parent's when it ends, costs as much as a fork. */
void tr_parent_waits(struct pf_thread *t)
{
	if (t->as->home && atomic_load_explicit(&t->as->threads, memory_order_relaxed) == 1) {
		t->parent = true;
		tr_load(t->as->home, -1);
	}
}

void tr_parent_back(struct pf_thread *t)
{
	if (t->parent)
		tr_load(t->as->home, 1);
	t->parent = false;
}

/* --- Whether others want the CPUs --- */

static void note_preempted(void)
{
	const uint64_t now = __builtin_ia32_rdtsc();
	const uint64_t until = atomic_load_explicit(&g_place.busy_until, memory_order_relaxed);
	uint64_t length = atomic_load_explicit(&g_place.busy_length, memory_order_relaxed);

	atomic_store_explicit(&g_place.busy, true, memory_order_relaxed);
	if (now < until)
		return;
	/* Longer each time, unless the last time is long ago. */
	length = now - until > 8 * BUSY_MAX ? BUSY_MIN : MIN(2 * length, BUSY_MAX);
	atomic_store_explicit(&g_place.busy_length, MAX(length, BUSY_MIN), memory_order_relaxed);
	atomic_store_explicit(&g_place.busy_until, now + MAX(length, BUSY_MIN),
			      memory_order_relaxed);
}

static bool busy(void)
{
	if (likely(!atomic_load_explicit(&g_place.busy, memory_order_relaxed)))
		return false;
	if (__builtin_ia32_rdtsc() <
	    atomic_load_explicit(&g_place.busy_until, memory_order_relaxed))
		return true;
	atomic_store_explicit(&g_place.busy, false, memory_order_relaxed);
	return false;
}

/* Guest threads that use a CPU. */
static int awake(void)
{
	return atomic_load_explicit(&g_place.guests, memory_order_relaxed) -
	       atomic_load_explicit(&g_place.direct, memory_order_relaxed);
}

static bool crowd(const struct trworker *tw)
{
	return tw->soon_count + tw->queued >= CROWD;
}

/* Is there a CPU for one more guest thread, and one for the worker that serves it? */
static bool room(const struct trworker *tw)
{
	return awake() + 2 <= (int)g_place.cpus || crowd(tw);
}

void tr_note_guest_preempted(void)
{
	/* In a crowd by one of its own. */
	if (!crowd(self()))
		note_preempted();
}

bool tr_crowded(bool *queue)
{
	*queue = self()->queued != 0;
	return crowd(self());
}

bool tr_apart(void)
{
	return tr_place_spreads(self());
}

uint32_t tr_guest_spin(void)
{
	const struct trworker *tw = self();

	/* A stub that spins reads the TSC. */
	if (!room(tw) || !tr_place_spreads(tw) || g_pf_trap_tsc)
		return 0;
	/* Once all sleep, each must be woken, and meanwhile the rest falls asleep again: so the
	 * spin outlasts the queue. */
	return (busy() ? BUSY_GUEST_SPIN : GUEST_SPIN) * (1 + MIN(tw->queued / 2, CROWD_SPIN));
}

/* --- Waiting --- */

static uint64_t cycles(void)
{
	return __builtin_ia32_rdtsc();
}

/* Is there a CPU to spin on beside those that run guest code? */
static bool may_spin(const struct trworker *tw)
{
	return g_place.cpus >= 2 && tr_place_spreads(tw) &&
	       (awake() < (int)g_place.cpus || crowd(tw));
}

/* The same before the guest thread that is waited for is counted; and nobody else spins. */
static bool may_look(const struct trworker *tw)
{
	return g_place.cpus >= 2 && tr_place_spreads(tw) && room(tw) &&
	       !atomic_load_explicit(&g_place.spinning, memory_order_relaxed);
}

static bool has_come(const struct tr_wait *w)
{
	const uint32_t s = atomic_load_explicit(w->word, memory_order_acquire);

	return (s != TS_GUEST && s != TS_BELL) ||
	       atomic_load_explicit(w->dead, memory_order_relaxed) ||
	       (w->gone && atomic_load_explicit(w->gone, memory_order_relaxed)) ||
	       (w->note && atomic_load_explicit(w->note, memory_order_acquire));
}

/* Of a guest thread: is it asleep on a futex of its own? The word is in the same line. */
static bool asleep_directly(const struct tr_wait *w)
{
	return atomic_load_explicit(&((const struct ts_area *)w->word)->direct,
				    memory_order_relaxed) != 0;
}

static void take(struct trworker *tw, struct tr_wait *w)
{
	LIST_REMOVE(w, link);
	tw->wait_count--;
	tw->soon_count -= w->soon;
	if (w->guest) {
		tw->guest_count--;
		tw->queued++;
		atomic_fetch_sub_explicit(&g_place.guests, 1, memory_order_relaxed);
	}
	atomic_store_explicit(&w->fired, true, memory_order_release);
}

/* The lines of a request that has come, beside that with the word: on their way at once, all
 * together, since each takes as long as a short call. Those of the windows' room are most likely
 * written. */
static void fetch_request(const struct tr_wait *w)
{
	const char *area = (const char *)w->word;

	if (!w->guest ||
	    !(__atomic_load_n(&((const struct ts_area *)w->word)->kind, __ATOMIC_RELAXED) >>
		      TS_KIND_WINDOWS_SHIFT &
	      TS_KIND_WINDOWS_MASK))
		return;
	for (unsigned i = 0; i < ROOM_LINES; i++)
		__asm__ volatile("prefetchw %0" : : "m"(area[TS_A_WINDOW + i * 64]));
}

static bool collect(struct trworker *tw)
{
	struct tr_wait *w, *next;
	bool any = false;
	int direct = 0;

	for (w = LIST_FIRST(&tw->waits); w; w = next) {
		next = LIST_NEXT(w, link);
		if (!has_come(w)) {
			direct += w->guest && asleep_directly(w);
			continue;
		}
		fetch_request(w);
		take(tw, w);
		fiber_wake(w->fiber);
		any = true;
	}
	if (unlikely(direct != tw->direct)) {
		atomic_fetch_add_explicit(&g_place.direct, direct - tw->direct,
					  memory_order_relaxed);
		tw->direct = direct;
	}
	return any;
}

/* The only guest thread that anybody waits for here makes calls often: its fiber spins itself, for
 * a while, which saves two switches and what goes with them. False: it had better sleep. */
static bool await_here(struct trworker *tw, struct tr_wait *w)
{
	uint64_t start, last, now;
	bool come = false;

	if (tw->fails != 0 || g_fiber_turns || g_nt_on || worker_wanted())
		return false;
	let_taken_sleep(tw);
	if (may_look(tw)) {
		for (unsigned i = 0; i < HERE_LOOKS; i++) {
			if (has_come(w)) {
				fetch_request(w);
				tr_place_note_spin(tw, true);
				return true;
			}
		}
	}
	atomic_fetch_add_explicit(&g_place.guests, 1, memory_order_relaxed);
	if (may_spin(tw) && !atomic_exchange(&g_place.spinning, true)) {
		start = last = cycles();
		for (;;) {
			for (unsigned i = 0; i < LOOKS && !come; i++)
				come = has_come(w);
			if (come || worker_wanted() ||
			    atomic_load_explicit(&tw->kicked, memory_order_relaxed) != 0 ||
			    /* Asleep on a futex of its own. */
			    asleep_directly(w))
				break;
			now = cycles();
			if (now - last > TS_GAP)
				note_preempted();
			last = now;
			if (now - start >= HERE_SPIN)
				break;
			__builtin_ia32_pause();
		}
		if (come)
			fetch_request(w);
		atomic_store_explicit(&g_place.spinning, false, memory_order_release);
		if (come)
			tr_place_note_spin(tw, true);
	}
	atomic_fetch_sub_explicit(&g_place.guests, 1, memory_order_relaxed);
	return come;
}

int tr_await(struct tr_wait *w, uint64_t deadline_ns)
{
	struct trworker *tw = self();
	int r = 0;

	if (w->guest && w->soon && tw->wait_count == 0 && deadline_ns == DEADLINE_NONE &&
	    await_here(tw, w))
		return 0;
	w->fiber = fiber_self();
	atomic_store_explicit(&w->fired, false, memory_order_relaxed);
	LIST_INSERT_HEAD(&tw->waits, w, link);
	tw->wait_count++;
	tw->soon_count += w->soon;
	if (w->guest) {
		tw->guest_count++;
		atomic_fetch_add_explicit(&g_place.guests, 1, memory_order_relaxed);
	}
	fiber_turn_keep();
	while (!atomic_load_explicit(&w->fired, memory_order_acquire)) {
		r = fiber_wait(deadline_ns, WAIT_UNINTR);
		if (r < 0 && !atomic_load_explicit(&w->fired, memory_order_acquire)) {
			take(tw, w);
			break;
		}
		r = 0;
	}
	fiber_turn_unkeep();
	tw->queued -= w->guest;
	return r;
}

/* --- Threads that await their reply --- */

void tr_taken(struct pf_thread *t)
{
	struct trworker *tw = self();

	if (tw->taken && tw->taken != t->area)
		let_sleep(tw->taken);
	tw->taken = t->area;
}

void tr_replied(struct pf_thread *t)
{
	struct trworker *tw = self();

	tr_place_note_reply(tw, tw->taken == t->area && room(tw));
	if (tw->taken == t->area)
		tw->taken = NULL;
}

void tr_before_run(struct pf_thread *t)
{
	tr_place_before_run(self(), t);
}

/* --- What workers call --- */

static bool worth_spinning(struct trworker *tw)
{
	if (tw->wait_count == 0 || tw->soon_count == 0 || !may_spin(tw))
		return false;
	if (tw->fails >= FAILS_MAX && (++tw->fails & 15) != 0)
		return false;
	return !atomic_exchange(&g_place.spinning, true);
}

static bool collect_soon(struct trworker *tw)
{
	/* The more wait, the longer is one look. */
	unsigned looks = LOOKS / tw->wait_count;

	do {
		if (collect(tw))
			return true;
	} while (looks-- > 1);
	return false;
}

static bool spin(struct trworker *tw)
{
	const uint64_t start = cycles();
	const uint64_t budget = busy() ? BUSY_SPIN : SPIN;
	uint64_t last = start, now;
	bool any = false;

	while (!(any = collect_soon(tw)) &&
	       atomic_load_explicit(&tw->kicked, memory_order_relaxed) == 0) {
		now = cycles();
		if (now - last > TS_GAP)
			note_preempted();
		last = now;
		if (now - start >= budget)
			break;
		__builtin_ia32_pause();
	}
	atomic_store_explicit(&g_place.spinning, false, memory_order_release);
	tw->fails = any ? 0 : tw->fails + 1;
	tr_place_note_spin(tw, any);
	return any;
}

static void sleep_on_all(struct trworker *tw)
{
	struct pf_host_word words[PF_HOST_WAIT_MAX];
	struct tr_wait *w;
	unsigned n = 0;
	bool crowd = false;

	words[n++] = (struct pf_host_word){.word = &tw->kicked, .value = 0};
	LIST_FOREACH (w, &tw->waits, link) {
		uint32_t expect = TS_GUEST;

		if (w->patient && atomic_load(w->patient))
			continue;
		if (n == PF_HOST_WAIT_MAX) {
			crowd = true;
			break;
		}
		atomic_compare_exchange_strong(w->word, &expect, TS_BELL);
		words[n++] =
			(struct pf_host_word){.word = w->word, .value = TS_BELL, .shared = true};
	}
	atomic_store(&tw->asleep, true);
	/* After that: who kicks sets kicked first, and then looks at asleep. */
	if (atomic_load(&tw->kicked) == 0) {
		if (n == 1)
			pf_host_futex_wait(&tw->kicked, 0);
		else
			pf_host_futex_wait_many(words, n, crowd ? CROWD_NS : 0);
	}
	atomic_store(&tw->asleep, false);
	/* Nobody need ring while we are awake. */
	n = 0;
	LIST_FOREACH (w, &tw->waits, link) {
		uint32_t expect = TS_BELL;

		if (++n > 8)
			break;
		atomic_compare_exchange_strong(w->word, &expect, TS_GUEST);
	}
}

static void worker_idle(struct worker *w)
{
	struct trworker *tw = *worker_data(w);

	tr_place_tick(tw);
	let_taken_sleep(tw);
	if (!collect(tw) && atomic_load(&tw->kicked) == 0) {
		if (!worth_spinning(tw) || (!spin(tw) && atomic_load(&tw->kicked) == 0)) {
			sleep_on_all(tw);
			(void)collect(tw);
		}
	}
	/* Seldom: the barrier is spared. */
	if (atomic_load_explicit(&tw->kicked, memory_order_relaxed) != 0)
		atomic_store(&tw->kicked, 0);
}

static void worker_poll(struct worker *w)
{
	struct trworker *tw = *worker_data(w);

	tr_place_tick(tw);
	(void)collect(tw);
}

static void worker_kick(struct worker *w)
{
	struct trworker *tw = *worker_data(w);

	if (!tw)
		return; /* it has not begun: before it sleeps it looks at everything */
	if (atomic_exchange(&tw->kicked, 1) == 0 && atomic_load(&tw->asleep))
		pf_host_futex_wake(&tw->kicked);
}

void tr_kick_if_asleep(struct trworker *tw)
{
	if (atomic_load(&tw->asleep))
		worker_kick(tw->worker);
}

void tr_kick(struct worker *w)
{
	worker_kick(w);
}

void tr_kick_all(void)
{
	for (unsigned i = 0; i < worker_count(); i++)
		worker_kick(worker_at(i));
}

static bool worker_quiet(struct worker *w)
{
	const struct trworker *tw = *worker_data(w);

	return tw->wait_count == 0;
}

static void worker_start(struct worker *w, unsigned index)
{
	struct trworker *tw = mem_zalloc(sizeof(*tw));

	(void)index;
	if (!tw)
		panic("trap: no memory for a worker");
	tw->worker = w;
	LIST_INIT(&tw->waits);
	tr_place_worker_init(tw);
	*worker_data(w) = tw;
}

const struct worker_ops g_tr_worker_ops = {
	.start = worker_start,
	.idle = worker_idle,
	.poll = worker_poll,
	.kick = worker_kick,
	.quiet = worker_quiet,
};
