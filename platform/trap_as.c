/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address spaces and threads of the trap platform: birth and death.
 *
 * Theory of operation. The keeper makes the first two address spaces, and, when there shall be
 * more, the zygote: a process with an agent and no guest thread, of which every later one is a
 * fork, which costs less; a guest's fork is the same order to the guest's own agent. The child maps
 * its own order page and first area (none is inherited); meanwhile the sentry goes on, and lets its
 * first thread run. The keeper's and the zygote's child is an agent, which makes the first guest
 * thread and reports that thread's tid (as->settled); the guest's is the guest thread, and there is
 * no agent before there is an order (as->alone; trap_agent.c).
 *
 * A program that executes others waits for none of this: from the first fork on there is one to
 * spare, made by a fiber of its own while others run.
 *
 * Order pages and areas are slots of two files. A slot of an order page keeps its result
 * descriptor for the next user. An area stays with its address space until that ends, and serves
 * the next thread; its words and frames are wiped when the slot goes to another address space.
 *
 * A new thread begins as if it had posted a request: the sentry writes a signal frame into its area
 * and the first reply makes it go there.
 *
 * A guest thread that ends leaves its host thread behind (parked): it waits in its area as if for a
 * reply, and the next guest thread gets it, with all registers set anew; so a program that makes
 * and ends threads all the time costs no clone, no filter, no page of stack.
 *
 * Death. The reaper thread waits for children without consuming them; see trap.h. The process of an
 * address space without references is killed; the structures go when both it is dead and nobody
 * refers to it.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "base/clock.h"
#include "base/sanitizer.h"
#include "base/thread.h"
#include "platform/host_proc.h"
#include "platform/host_ptrace.h"
#include "platform/host_spawn.h"
#include "platform/host_trap.h"
#include "platform/notify.h"
#include "platform/stub_files.h"
#include "platform/order.h"
#include "platform/trap.h"
#include "platform/trap_site.h"
#include "platform/trap_slots.h"

_Static_assert(sizeof(struct ts_marshal) == sizeof(struct pf_marshal) &&
		       TS_WINDOWS == PF_MARSHAL_ARGS,
	       "the stub reads what the sentry writes");

#define ZYGOTE_TRIES 3 /* somebody may kill them, but not for ever */
/* So many address spaces are made without a zygote: who executes one program has no use for it. */
#define BY_KEEPER 2

#define SLOTS_MAX 65536u
#define SLOTS_MIN 64u
#define ORDERS_SIZE ((size_t)g_trap.slots * TS_ORDERS_SIZE)
#define AREAS_SIZE ((size_t)g_trap.slots * TS_AREA_SIZE)
/* Host threads of one address space that are kept for the next guest threads. */
#define PARKED_MAX 8
/* Of so many guest threads on one host thread, one is measured by the host. */
#define EXACT_EVERY 32
/* UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS; and of the host's frames, UC_FP_XSTATE. */
#define UC_FLAGS 6u
#define UC_FP_XSTATE 1u

static struct {
	struct mutex lock;
	int orders_fd, areas_fd, config_fd;
	char *orders, *areas;
	struct ts_config *config;
	struct tr_slots order_slots, area_slots;
	uint32_t slots; /* of each file */
	struct result {
		int fd, stub_fd;
		struct pt_file *file;
	} * results; /* by slot of the order page */
	struct pt_file *areas_file;
	int areas_stub_fd;
	struct htable by_pid; /* [lock] */
	unsigned forking;     /* [lock] children may exist that are not in the table */
	bool stopping;        /* [lock] */
	struct fmutex zygote_lock;
	struct pf_as *zygote; /* [zygote_lock] */
	/* [zygote_lock] The thread of an address space to spare, or NULL; a fiber makes one. */
	struct pf_thread *spare;
	bool spare_wanted;
	/* The spare one is made for later: somebody will ring for it. Whoever wants it clears this,
	 * and kicks the worker whose fiber makes it (NULL: none does). */
	_Atomic bool spare_patient;
	_Atomic(struct worker *) spare_worker;
	_Atomic unsigned lively; /* address spaces with guest threads */
	unsigned by_keeper;      /* [zygote_lock] made so */
	unsigned made;           /* [zygote_lock] */
	_Atomic bool has_forked;
	pthread_t reaper;
	bool reaper_runs;
	bool prepared; /* the keeper has been spawned, but not waited for */
} g_trap = {.lock = MUTEX_INIT(RANK_LEAF), .orders_fd = -1, .areas_fd = -1, .config_fd = -1};

extern const uint8_t g_trap_stub_image[], g_trap_stub_image_end[];

uint64_t tr_areas_fd(void)
{
	return (uint64_t)g_trap.areas_stub_fd;
}

struct ts_area *tr_area(uint32_t slot)
{
	return (struct ts_area *)(g_trap.areas + (size_t)slot * TS_AREA_SIZE);
}

/* --- Slots --- */

static int area_slot_get(uint32_t *slot)
{
	int r = tr_slot_get(&g_trap.area_slots, slot);

	if (r == 0)
		san_show(tr_area(*slot), TS_AREA_SIZE);
	return r;
}

static void area_slot_put(uint32_t slot)
{
	san_hide(tr_area(slot), TS_AREA_SIZE);
	tr_slot_put(&g_trap.area_slots, slot);
}

/* @fast_calls: calls may have come from rewritten sites. */
static void area_wipe(uint32_t slot, bool fast_calls)
{
	/* What the stub and the host wrote: the head, frames. The next user is another process. */
	char *p = (char *)tr_area(slot);
	const struct ts_fast *fast = (const struct ts_fast *)(p + TS_A_FAST);
	const uint32_t high = __atomic_load_n(&fast->high, __ATOMIC_RELAXED);
	const uint32_t end = MIN(high, (uint32_t)TS_A_WINDOW_END);

	/* Arguments, and the stack of calls, on which the stub saves registers of the guest's.
	 * Unused pages are not made. */
	if (end > TS_A_WINDOW)
		memset(p + TS_A_WINDOW, 0, end - TS_A_WINDOW);
	if (fast_calls)
		memset(p + TS_A_WINDOW_END, 0, TS_A_FAST_TOP - TS_A_WINDOW_END);
	tr_answers_wipe((struct pf_actions *)(p + TS_A_ACTIONS));
	memset(p, 0, TS_ORDERS_SIZE);
	memset(p + TS_A_STACK, 0, TS_AREA_SIZE - TS_A_STACK);
}

/* The result descriptor of an order page's slot. 0 or -errno. */
static int result_get(uint32_t slot)
{
	struct result *r = &g_trap.results[slot];
	int fd;

	if (r->file) {
		pf_host_offset_set(r->fd, TR_NO_REPORT);
		return 0;
	}
	r->fd = pf_host_memfd("moat-report", NULL, 0, false);
	if (r->fd < 0)
		return -EAGAIN;
	fd = pt_file_get(r->fd, 0, false, &r->file);
	if (fd < 0) {
		r->file = NULL;
		pf_host_close(r->fd);
		return -EAGAIN;
	}
	r->stub_fd = fd;
	pf_host_offset_set(r->fd, TR_NO_REPORT);
	return 0;
}

/* The first descriptors, at one waking of the keeper: of the areas, and the result of the first
 * address space. 0 or -errno. */
static int files_first(void)
{
	struct pt_file *files[2];
	const int result = pf_host_memfd("moat-report", NULL, 0, false);
	const int fds[2] = {g_trap.areas_fd, result};
	const int r = result < 0 ? result : pt_files_get(fds, 2, files);

	if (r < 0) {
		if (result >= 0)
			pf_host_close(result);
		return r;
	}
	g_trap.results[0] = (struct result){
		.fd = result, .stub_fd = pt_file_number(files[1]), .file = files[1]};
	g_trap.areas_file = files[0];
	g_trap.areas_stub_fd = pt_file_number(files[0]);
	return 0;
}

/* --- Structures --- */

static void as_free(struct pf_as *as)
{
	bool stopping;

	mutex_lock(&g_trap.lock);
	stopping = g_trap.stopping;
	mutex_unlock(&g_trap.lock);
	for (unsigned i = 0; i < as->area_count && !as->lost; i++) {
		/* There will be no next user. */
		if (!stopping)
			area_wipe(as->areas[i].slot, tr_sites_have_rooms(as->sites));
		area_slot_put(as->areas[i].slot);
	}
	if (!as->lost)
		tr_slot_put(&g_trap.order_slots, as->orders_slot);
	fmutex_fini(&as->orders_lock);
	waitq_fini(&as->held);
	tr_sites_free(as->sites);
	tr_views_free(as->views);
	mem_free(as->areas);
	mem_free(as);
}

/* The spare one is wanted now, or never more. */
static void spare_hurry(void)
{
	struct worker *w = atomic_load(&g_trap.spare_worker);

	if (w && atomic_exchange(&g_trap.spare_patient, false)) {
		tr_order_ring();
		tr_kick(w);
	}
}

/* Who serves the guest threads of @as; NULL: it has none any more. */
static void home_set(struct pf_as *as, struct worker *home)
{
	if (home) {
		tr_load(home, 1);
		atomic_fetch_add(&g_trap.lively, 1);
	} else {
		tr_load(as->home, -1);
		/* The end does not wait for those who have time. */
		if (atomic_fetch_sub(&g_trap.lively, 1) == 1)
			spare_hurry();
	}
	as->home = home;
}

/* An address space without a process yet. */
static struct pf_as *as_alloc(struct worker *home, bool zygote)
{
	struct pf_as *as = mem_zalloc(sizeof(*as));
	uint32_t slot;

	if (!as)
		return NULL;
	as->areas = mem_calloc(1, sizeof(*as->areas));
	if (!as->areas || tr_slot_get(&g_trap.order_slots, &as->orders_slot) < 0)
		goto fail;
	if (area_slot_get(&slot) < 0 || result_get(as->orders_slot) < 0) {
		/* A slot without a descriptor is as good as new. */
		tr_slot_put(&g_trap.order_slots, as->orders_slot);
		goto fail;
	}
	as->areas[0].slot = slot;
	as->area_count = 1;
	tr_space_init(as, NULL);
	ref_init(&as->ref);
	fmutex_init(&as->orders_lock);
	mutex_init(&as->threads_lock, RANK_LEAF);
	LIST_INIT(&as->thread_list);
	waitq_init(&as->held);
	as->result_fd = g_trap.results[as->orders_slot].fd;
	as->orders = (struct ts_orders *)(g_trap.orders + (size_t)as->orders_slot * TS_ORDERS_SIZE);
	atomic_store(&as->orders->seq, 0);
	memset(as->orders->futex_waiters, 0, sizeof(as->orders->futex_waiters));
	as->orders->result_fd = (uint32_t)g_trap.results[as->orders_slot].stub_fd;
	as->orders->areas_fd = tr_areas_fd();
	as->orders->release = 0;
	/* The sentry goes on without having heard of the first guest thread; a zygote has none. */
	as->orders->flags = zygote ? 0 : TS_OF_SURE;
	as->orders->alone = 0;
	if (home)
		home_set(as, home);
	return as;
fail:
	mem_free(as->areas);
	mem_free(as);
	return NULL;
}

static void thread_list_add(struct pf_thread *t)
{
	mutex_lock(&t->as->threads_lock);
	LIST_INSERT_HEAD(&t->as->thread_list, t, link);
	mutex_unlock(&t->as->threads_lock);
}

/* A thread for area @index, which asks to be let run. */
static struct pf_thread *thread_alloc(struct pf_as *as, unsigned index)
{
	struct pf_thread *t = mem_zalloc(sizeof(*t));
	struct ts_frame *f;
	struct ts_fast *fast;
	uint32_t high;

	if (!t)
		return NULL;
	tr_watch_init(t);
	t->as = as;
	t->index = index;
	t->area = tr_area(as->areas[index].slot);
	t->area_addr = TS_AREAS + (uint64_t)index * TS_AREA_SIZE;
	t->frame = TS_A_NEW_FRAME;
	t->fp_initial = true;
	t->begins = index == 0;
	as->areas[index].used = true;

	memset((char *)t->area + TS_A_TID, 0, sizeof(*t->area) - TS_A_TID);
	atomic_store(&t->area->state, TS_POSTED);
	atomic_store(&t->area->tid, 1);
	t->area->frame = t->frame;
	f = tr_frame(t);
	memset(f, 0, sizeof(*f));
	f->uc_flags = UC_FLAGS;
	f->stack_sp = t->area_addr + TS_A_STACK;
	f->stack_size = TS_AREA_SIZE - TS_A_STACK;
	f->sigmask = TS_GUEST_SIGMASK;
	fast = (struct ts_fast *)((char *)t->area + TS_A_FAST);
	high = fast->high;
	memset(fast, 0, sizeof(*fast));
	fast->high = high;
	fast->cookie = TS_COOKIE;
	fast->self = t->area_addr;
	fast->top = t->area_addr + TS_A_FAST_TOP;
	tr_answers_thread_init(t);
	thread_list_add(t);
	return t;
}

static void thread_discard(struct pf_thread *t)
{
	if (!t)
		return;
	tr_answers_thread_end(t);
	mutex_lock(&t->as->threads_lock);
	LIST_REMOVE(t, link);
	mutex_unlock(&t->as->threads_lock);
	if (unlikely(t->listed))
		nt_thread_del(t);
	timer_cancel_sync(&t->watch);
	mem_free(t);
}

/* --- Processes --- */

static bool pid_eq(const void *entry, const void *key)
{
	return ((const struct pf_as *)entry)->pid == *(const pid_t *)key;
}

static void fork_begin(void)
{
	mutex_lock(&g_trap.lock);
	g_trap.forking++;
	mutex_unlock(&g_trap.lock);
}

/* @pid: of the child, or <= 0: there is none. */
static void fork_end(struct pf_as *as, pid_t pid)
{
	mutex_lock(&g_trap.lock);
	g_trap.forking--;
	if (pid > 0) {
		as->pid = pid;
		if (htable_insert(&g_trap.by_pid, hash_u64((uint64_t)pid), as) < 0)
			panic("trap: no memory for the table of processes");
		as->in_table = true;
	}
	mutex_unlock(&g_trap.lock);
}

static void on_end(pid_t pid)
{
	struct pf_as *as;
	bool ours, wait_for_parent;

	mutex_lock(&g_trap.lock);
	as = htable_find(&g_trap.by_pid, hash_u64((uint64_t)pid), pid_eq, &pid);
	wait_for_parent = !as && g_trap.forking != 0;
	mutex_unlock(&g_trap.lock);
	if (wait_for_parent) {
		pf_host_sleep_ms(1); /* the report of its birth is on its way */
		return;
	}
	if (as) {
		atomic_store(&as->dead, true);
		while (atomic_load(&as->users) != 0)
			pf_host_yield();
	}
	pf_host_child_reap(pid);
	if (!as)
		return;
	mutex_lock(&g_trap.lock);
	(void)htable_remove(&g_trap.by_pid, hash_u64((uint64_t)pid), as);
	as->reaped = true;
	ours = as->destroyed;
	mutex_unlock(&g_trap.lock);
	if (ours)
		as_free(as);
	else
		tr_kick_all();
}

static void *reaper_main(void *arg)
{
	(void)arg;
	for (;;) {
		const pid_t pid = pf_host_child_ended();
		bool stopping;

		mutex_lock(&g_trap.lock);
		stopping = g_trap.stopping;
		mutex_unlock(&g_trap.lock);
		if (pid > 0)
			on_end(pid);
		else if (stopping)
			return NULL;
		else
			pf_host_sleep_ms(100);
		/* Here, and so beside those who wait: to wake a CPU takes as long as many calls. */
		tr_order_ring();
	}
}

bool tr_as_enter(struct pf_as *as)
{
	atomic_fetch_add(&as->users, 1);
	if (likely(!atomic_load(&as->dead)))
		return true;
	atomic_fetch_sub(&as->users, 1);
	return false;
}

void tr_as_leave(struct pf_as *as)
{
	atomic_fetch_sub(&as->users, 1);
}

void tr_as_kill(struct pf_as *as)
{
	if (tr_as_enter(as)) {
		(void)pf_host_kill(as->pid, SIGKILL);
		tr_as_leave(as);
	}
}

void tr_as_get(struct pf_as *as)
{
	ref_get(&as->ref);
}

void tr_as_put(struct pf_as *as)
{
	bool free_now;

	if (!ref_put(&as->ref))
		return;
	if (as->home)
		home_set(as, NULL);
	tr_as_kill(as);
	mutex_lock(&g_trap.lock);
	as->destroyed = true;
	free_now = as->reaped || !as->in_table;
	mutex_unlock(&g_trap.lock);
	if (free_now)
		as_free(as);
}

/* --- Births --- */

/* The keeper's child: @program, an address space with a guest thread, or the zygote. 0 or -errno.
 */
static int keeper_fork(struct pf_as *as, bool program)
{
	pid_t pid;

	fork_begin();
	pid = pt_keeper_fork(program, as->orders_slot, as->areas[0].slot);
	fork_end(as, pid);
	if (pid < 0) {
		/* The keeper died before it answered: there may be a child that nobody knows, and
		 * that has mapped what others would get. */
		as->lost = pid == -EIO;
		return pid;
	}
	as->has_agent = true;
	as->agent_tid = pid;
	return 0;
}

static int zygote_get_locked(struct pf_as **zygote)
{
	struct pf_as *as = g_trap.zygote;
	int r;

	if (as && !atomic_load(&as->dead)) {
		*zygote = as;
		return 0;
	}
	if (as)
		tr_as_put(as);
	g_trap.zygote = NULL;
	as = as_alloc(NULL, true);
	if (!as)
		return -EAGAIN;
	r = keeper_fork(as, false);
	if (r < 0) {
		tr_as_put(as);
		return r;
	}
	g_trap.zygote = as;
	*zygote = as;
	return 0;
}

/* @as was to be forked from a process that has died and said nothing. There may be a child that
 * nobody knows: its agent does not let the guest run, and finds an order to exit; or @t finds one
 * before it has run. What such a child may have mapped is used by nobody else any more. */
static void as_abandon(struct pf_as *as, struct pf_thread *t)
{
	struct ts_orders *o = as->orders;

	t->area->cmd = TS_CMD_EXIT;
	atomic_store(&t->area->state, TS_GUEST);
	pf_host_futex_wake_shared(&t->area->state);
	log_info("trap: a process has died while it forked");
	order_set(&o->list[0], SYS_exit_group, 1, 0, 0, 0, 0, 0);
	o->op = TS_OP_BATCH;
	o->size = sizeof(o->list[0]);
	atomic_store(&o->seq, 1);
	pf_host_futex_wake_shared(&o->seq);
	as->lost = true;
}

/* @as has no agent: @t is its first thread, and is on its way. */
static void alone_begin(struct pf_as *as, struct pf_thread *t)
{
	t->tid = as->pid;
	as->first = NULL;
	as->settled = true;
	/* Nobody has set them yet. */
	t->fs_base = t->gs_base = UINT64_MAX;
}

/* Forks @from, of which @by is a stopped thread or NULL, into @as, whose first area is set up for
 * @t. @patient: NULL, or it has time: see tr_order_later_locked. */
static int fork_into(struct pf_as *from, struct pf_thread *by, struct pf_as *as,
		     struct pf_thread *t, const _Atomic bool *patient)
{
	const uint64_t orders = (uint64_t)as->orders_slot * TS_ORDERS_SIZE;
	const uint64_t area = (uint64_t)as->areas[0].slot * TS_AREA_SIZE;
	struct tr_report report = {0};
	bool given = true;
	int r;

	if (fail_now(FAIL_HOST))
		return -EAGAIN;
	as->first = t;
	as->alone = by && g_trap.config->shared.dispatch;
	as->has_agent = !as->alone;
	as->orders->alone = as->alone ? TS_ALONE : 0;
	as->orders->arg1 = t->fs_base;
	fmutex_lock(&from->orders_lock);
	as->map_bound = from->map_bound;
	tr_space_init(as, from);
	as->sites = tr_sites_copy(from->sites);
	if (from->sites && !as->sites) {
		fmutex_unlock(&from->orders_lock);
		return -ENOMEM;
	}
	fork_begin();
	r = tr_orders_begin_locked(from);
	if (r < 0)
		given = false;
	else if (patient)
		r = tr_order_later_locked(from, TS_OP_FORK, orders, area, patient, &report);
	else
		r = tr_order_locked(from, by, TS_OP_FORK, 0, orders, area, &report);
	fork_end(as, r == 0 && report.done == TS_REPORT_PID ? (pid_t)report.value : 0);
	if (r < 0 && given)
		as_abandon(as, t);
	fmutex_unlock(&from->orders_lock);
	if (r < 0)
		return -EAGAIN;
	if (report.done != TS_REPORT_PID)
		return -(int)report.value;
	if (as->alone)
		alone_begin(as, t);
	else
		as->agent_tid = as->pid;
	return 0;
}

/* The keeper's child. As fork_into. */
static int keeper_into(struct pf_as *as, struct pf_thread *t)
{
	if (fail_now(FAIL_HOST))
		return -EAGAIN;
	as->first = t;
	as->orders->arg1 = t->fs_base;
	return keeper_fork(as, true);
}

/* @from: NULL: the keeper. */
static int as_make(struct pf_as *from, struct pf_thread *parent, struct worker *home,
		   const _Atomic bool *patient, struct pf_as **out, struct pf_thread **thread)
{
	struct pf_as *as = as_alloc(home, false);
	struct pf_thread *t;
	int r;

	if (!as)
		return -ENOMEM;
	t = thread_alloc(as, 0);
	r = t ? 0 : -ENOMEM;
	if (r == 0 && parent) {
		t->fs_base = parent->fs_base;
		tr_xstate_copy(parent, t);
		t->run_cycles = parent->run_cycles;
		t->bound = as->bound = from->bound;
	}
	if (r == 0)
		r = from ? fork_into(from, parent, as, t, patient) : keeper_into(as, t);
	if (r < 0) {
		thread_discard(t);
		tr_as_put(as);
		return r;
	}
	atomic_store(&as->threads, 1);
	*out = as;
	*thread = t;
	return 0;
}

/* --- Stubs made before they are asked for --- */

static int make_from_zygote_once(struct worker *home, const _Atomic bool *patient,
				 struct pf_as **as, struct pf_thread **thread)
	REQUIRES(g_trap.zygote_lock)
{
	struct pf_as *zygote = NULL;
	const bool by_keeper = g_trap.by_keeper < BY_KEEPER;
	int r = by_keeper ? 0 : zygote_get_locked(&zygote);

	if (r == 0)
		r = as_make(zygote, NULL, home, patient, as, thread);
	if (r == 0)
		g_trap.by_keeper += by_keeper;
	return r;
}

/* A zygote that somebody has killed is found out when it is used; then there is another. */
static int make_from_zygote(struct worker *home, const _Atomic bool *patient, struct pf_as **as,
			    struct pf_thread **thread) REQUIRES(g_trap.zygote_lock)
{
	int r, tries = 0;

	do {
		r = make_from_zygote_once(home, patient, as, thread);
	} while (r == -EAGAIN && ++tries != ZYGOTE_TRIES && g_trap.zygote &&
		 atomic_load(&g_trap.zygote->dead));
	return r;
}

static void spare_main(void *arg)
{
	struct pf_as *as;
	struct pf_thread *t;

	(void)arg;
	fmutex_lock(&g_trap.zygote_lock);
	if (!g_trap.spare && make_from_zygote(NULL, &g_trap.spare_patient, &as, &t) == 0)
		g_trap.spare = t;
	g_trap.spare_wanted = false;
	atomic_store(&g_trap.spare_worker, NULL);
	fmutex_unlock(&g_trap.zygote_lock);
}

/* @later: nobody waits for it yet. */
static void spare_want(struct worker *w, bool later) REQUIRES(g_trap.zygote_lock)
{
	struct fiber *f = fiber_new(spare_main, NULL, w, "spare stub");

	if (f) {
		g_trap.spare_wanted = true;
		atomic_store(&g_trap.spare_patient, later);
		atomic_store(&g_trap.spare_worker, w);
		fiber_start(f);
	}
}

/* The spare one, or NULL. Who takes it for the second time wants another soon. */
static struct pf_thread *spare_take(void) REQUIRES(g_trap.zygote_lock)
{
	struct pf_thread *t = g_trap.spare;

	g_trap.spare = NULL;
	if (t && atomic_load(&t->as->dead)) {
		tr_thread_free(t);
		t = NULL;
	}
	if (g_trap.made++ != 0 && !g_trap.spare_wanted && worker_self())
		spare_want(worker_self(), !g_fiber_turns);
	return t;
}

int tr_as_new(struct pf_thread *leaves, struct pf_as **as, struct pf_thread **thread)
{
	struct worker *home = tr_least_loaded(leaves);
	struct pf_thread *t;
	int r = 0;

	tr_place_executes();
	spare_hurry();
	fmutex_lock(&g_trap.zygote_lock);
	t = spare_take();
	if (t && fail_now(FAIL_HOST)) {
		tr_thread_free(t);
		r = -EAGAIN;
	} else if (t) {
		*thread = t;
		*as = t->as;
		home_set(*as, home);
		if (home == worker_self())
			tr_place_agent_here(*as);
	} else {
		r = make_from_zygote(home, NULL, as, thread);
	}
	fmutex_unlock(&g_trap.zygote_lock);
	return r;
}

void tr_will_execute(struct pf_thread *t)
{
	struct worker *home = t->as->home, *w = worker_at(worker_count() - 1);

	if (likely(atomic_load(&g_trap.has_forked)) || atomic_exchange(&g_trap.has_forked, true))
		return;
	if (w == home)
		w = worker_at(0);
	fmutex_lock(&g_trap.zygote_lock);
	if (w != home && !g_trap.spare && !g_trap.spare_wanted)
		spare_want(w, true);
	fmutex_unlock(&g_trap.zygote_lock);
}

int tr_as_fork(struct pf_thread *from, struct pf_as **as, struct pf_thread **thread)
{
	tr_place_forks();
	return as_make(from->as, from, from->as->home, NULL, as, thread);
}

/* An area of @as without a thread. Its index; or -errno. *@orders: how many orders will map it. */
static int area_get_locked(struct pf_as *as, size_t *orders) REQUIRES(as->orders_lock)
{
	struct tr_slot *more;
	unsigned i;
	uint64_t addr;
	size_t n;

	*orders = 0;
	for (i = 0; i < as->area_count; i++) {
		/* The host clears tid when the thread has ended. */
		if (!as->areas[i].used && !as->areas[i].parked &&
		    atomic_load(&tr_area(as->areas[i].slot)->tid) == 0)
			return (int)i;
	}
	if (i == TS_AREAS_MAX)
		return -EAGAIN;
	more = mem_realloc(as->areas, (i + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	as->areas = more;
	if (area_slot_get(&more[i].slot) < 0)
		return -EAGAIN;
	more[i].used = true;
	more[i].parked = false;
	more[i].uses = 0;
	addr = TS_AREAS + (uint64_t)i * TS_AREA_SIZE;
	n = tr_space_order(as, as->space, i + 1, &as->orders->list[0]);
	order_set(&as->orders->list[n], SYS_mmap, addr, TS_AREA_SIZE, PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_FIXED, tr_areas_fd(), (uint64_t)more[i].slot * TS_AREA_SIZE);
	order_set(&as->orders->list[n + 1], SYS_madvise, addr, TS_AREA_SIZE, MADV_DONTFORK, 0, 0,
		  0);
	*orders = n + 2;
	return (int)i;
}

/* A thread on a host thread that waits for one, or NULL. */
static struct pf_thread *thread_unpark_locked(struct pf_as *as) REQUIRES(as->orders_lock)
{
	struct tr_slot *s = as->areas;
	struct pf_thread *t;

	while (!s->parked)
		s++;
	t = mem_zalloc(sizeof(*t));
	if (!t)
		return NULL;
	s->parked = false;
	as->parked--;
	s->used = true;
	tr_watch_init(t);
	t->as = as;
	t->index = (unsigned)(s - as->areas);
	t->area = tr_area(s->slot);
	t->area_addr = TS_AREAS + (uint64_t)t->index * TS_AREA_SIZE;
	t->frame = s->frame;
	t->tid = s->tid;
	t->has_run = true;
	t->run_seq = 1;
	t->fast = s->fast;
	t->fs_base = s->fs_base;
	t->gs_base = s->gs_base;
	t->times_before = s->times;
	t->bound = s->bound;
	tr_answers_thread_init(t);
	thread_list_add(t);
	return t;
}

/* Makes @t, whose host thread had another guest thread before, as if it were new. 0 or -EAGAIN. */
static int thread_renew(struct pf_thread *t, struct pf_thread *from)
{
	struct ts_frame *f;

	if (tr_need_frame(t) < 0)
		return -EAGAIN;
	f = tr_frame(t);
	t->fp_initial = f->fpstate == 0;
	f->uc_flags = UC_FLAGS | (f->uc_flags & UC_FP_XSTATE);
	f->stack_sp = t->area_addr + TS_A_STACK;
	f->stack_size = TS_AREA_SIZE - TS_A_STACK;
	f->stack_flags = 0;
	f->sigmask = TS_GUEST_SIGMASK;
	t->run_cycles = from->run_cycles;
	tr_xstate_copy(from, t);
	return 0;
}

/* @t has ended; its host thread shall serve the next one. False: it can not. */
static bool thread_park_locked(struct pf_as *as, struct pf_thread *t) REQUIRES(as->orders_lock)
{
	struct tr_slot *s = &as->areas[t->index];

	if ((as->parked >= PARKED_MAX && t->tid != as->pid) || !t->has_run || t->tid == 0 ||
	    atomic_load(&t->state) != TR_STOPPED || atomic_load(&t->area->tid) == 0)
		return false;
	s->parked = true;
	as->parked++;
	s->tid = t->tid;
	s->frame = t->frame;
	s->fs_base = t->fs_base;
	s->gs_base = t->gs_base;
	s->bound = t->bound;
	s->fast = t->fast;
	tr_times_used(t, ++s->uses % EXACT_EVERY == 0, &s->times);
	return true;
}

int tr_thread_new(struct pf_thread *from, struct pf_thread **thread)
{
	struct pf_as *as = from->as;
	struct tr_report report = {0};
	struct pf_thread *t = NULL;
	size_t orders;
	int64_t back = -1;
	int r = 0, index;

	if (fail_now(FAIL_HOST))
		return -EAGAIN;
	fmutex_lock(&as->orders_lock);
	if (as->parked != 0) {
		t = thread_unpark_locked(as);
		fmutex_unlock(&as->orders_lock);
		r = t ? thread_renew(t, from) : -ENOMEM;
		if (r < 0)
			goto fail;
		goto made;
	}
	r = tr_orders_begin_locked(as);
	if (r < 0)
		goto out;
	r = index = area_get_locked(as, &orders);
	if (index < 0)
		goto out;
	r = -ENOMEM;
	t = thread_alloc(as, (unsigned)index);
	if (t) {
		t->fs_base = from->fs_base;
		t->gs_base = 0;
		t->bound = as->bound;
		t->run_cycles = from->run_cycles;
		tr_xstate_copy(from, t);
		r = tr_order_locked(as, from, TS_OP_THREAD, orders, t->area_addr, t->fs_base,
				    &report);
	}
	if (r == 0 && report.done != TS_REPORT_PID)
		r = -(int)report.value;
	if (report.done < orders)
		as->limit = 0; /* whatever it is, it is set anew */
	/* An area that is new stays with the address space if it is mapped, which the last order
	 * but one does: its next user is another process. */
	if (r < 0 && report.done + 1 < orders) {
		back = as->areas[index].slot;
	} else {
		if (orders != 0)
			as->area_count++;
		if (r < 0) {
			as->areas[index].used = false;
			atomic_store(&tr_area(as->areas[index].slot)->tid, 0);
		}
		if (report.done + 1 == orders)
			tr_as_kill(as); /* a child would inherit it */
	}
out:
	fmutex_unlock(&as->orders_lock);
	if (r < 0)
		goto fail;
	t->tid = (pid_t)report.value;
made:
	ref_get(&as->ref);
	atomic_fetch_add(&as->threads, 1);
	*thread = t;
	return 0;
fail:
	thread_discard(t);
	if (back >= 0)
		area_slot_put((uint32_t)back);
	return r == -ESRCH ? -EAGAIN : r;
}

void tr_thread_free(struct pf_thread *t)
{
	struct pf_as *as = t->as;
	bool parked;

	if (fiber_self() && fiber_local(fiber_self()) == t)
		fiber_set_local(fiber_self(), NULL);
	tr_parent_back(t);
	/* To be told to end it must be in the stub; the last one is not told. */
	if (t->noted && atomic_load(&as->threads) > 1 && tr_need_frame(t) < 0)
		t->noted = false;
	fmutex_lock(&as->orders_lock);
	/* The last one stays as it is: its process will be killed, mostly at once. */
	if (atomic_fetch_sub(&as->threads, 1) != 1) {
		/* If this is a vfork's child that has executed, nobody dies whose reaper would. */
		tr_order_ring();
		/* It may not be there yet; then it will find the reply. */
		if (as->first == t && tr_settle_locked(as) < 0)
			as->first = NULL;
		if (atomic_load(&as->deferred) == t && tr_orders_begin_locked(as) < 0)
			atomic_store(&as->deferred, NULL);
		/* A process whose first thread has ended is beyond reach for much that names it by
		 * its number: that one waits for the process's end. */
		parked = thread_park_locked(as, t);
		if (!parked && t->tid != as->pid)
			tr_reply(t, TS_CMD_EXIT);
		if (parked || t->tid != as->pid)
			as->areas[t->index].used = false;
	} else {
		if (as->first == t)
			as->first = NULL;
		if (atomic_load(&as->deferred) == t)
			atomic_store(&as->deferred, NULL);
		/* Its end shall not keep the worker's CPU from those who wait for it. The host's
		 * scheduler would leave it there: a virtual CPU that is idle looks busy to it. */
		tr_place_away(t);
	}
	fmutex_unlock(&as->orders_lock);
	thread_discard(t);
	tr_as_put(as);
}

/* --- Start and stop --- */

static int files_start(struct err *e)
{
	struct ts_config *config = mem_zalloc(sizeof(*config));
	int r;

	if (!config)
		return err_set(e, ENOMEM, "no memory for the stub's filter");
	r = tr_filter_build(config, nt_filter_flags(), e);
	if (r < 0)
		goto out;
	if (g_pf_marshal)
		memcpy(config->marshal, g_pf_marshal, sizeof(config->marshal));
	/* Files may be limited in size; then there are fewer threads and processes. */
	g_trap.slots = (uint32_t)MIN(pf_host_fsize_limit() / TS_AREA_SIZE, (uint64_t)SLOTS_MAX);
	if (g_trap.slots < SLOTS_MIN) {
		r = err_set(e, EFBIG,
			    "the limit on the size of files is too low for what stubs share: allow "
			    "4 MiB (ulimit -f)");
		goto out;
	}
	g_trap.config_fd = pf_host_memfd("moat-config", config, sizeof(*config), false);
	g_trap.orders_fd = pf_host_memfd("moat-orders", NULL, ORDERS_SIZE, false);
	g_trap.areas_fd = pf_host_memfd("moat-areas", NULL, AREAS_SIZE, false);
	if (g_trap.config_fd < 0 || g_trap.orders_fd < 0 || g_trap.areas_fd < 0) {
		r = err_set(e, EMFILE, "cannot make the files that the stubs share");
		goto out;
	}
	g_trap.orders = pf_host_map_shared(g_trap.orders_fd, ORDERS_SIZE);
	g_trap.areas = pf_host_map_shared(g_trap.areas_fd, AREAS_SIZE);
	r = tr_slots_init(&g_trap.order_slots, g_trap.slots);
	if (r == 0)
		r = tr_slots_init(&g_trap.area_slots, g_trap.slots);
	g_trap.results = mem_calloc(g_trap.slots, sizeof(*g_trap.results));
	g_trap.config = pf_host_map_shared(g_trap.config_fd, sizeof(*config));
	if (r < 0 || !g_trap.orders || !g_trap.areas || !g_trap.results || !g_trap.config) {
		r = err_set(e, ENOMEM,
			    "no memory for the files that the stubs share; allow more "
			    "sentry_memory, or ulimit -v");
		goto out;
	}
	tr_answers_start(&g_trap.config->shared);
	/* From here on they can be mapped only to be read. */
	r = pf_host_seal_future_writes(g_trap.orders_fd);
	if (r == 0)
		r = pf_host_seal_future_writes(g_trap.config_fd);
	if (r < 0)
		(void)err_set(e, -r,
			      "cannot seal the orders file: %s (Linux 5.1 or later is needed)",
			      err_text(-r));
out:
	mem_free(config);
	return r;
}

static void files_stop(void)
{
	tr_answers_stop();
	if (g_trap.config)
		pf_host_unmap(g_trap.config, sizeof(*g_trap.config));
	g_trap.config = NULL;
	if (g_trap.orders)
		pf_host_unmap(g_trap.orders, ORDERS_SIZE);
	if (g_trap.areas) {
		san_show(g_trap.areas, (size_t)g_trap.area_slots.used * TS_AREA_SIZE);
		pf_host_unmap(g_trap.areas, AREAS_SIZE);
	}
	if (g_trap.config_fd >= 0)
		pf_host_close(g_trap.config_fd);
	if (g_trap.orders_fd >= 0)
		pf_host_close(g_trap.orders_fd);
	if (g_trap.areas_fd >= 0)
		pf_host_close(g_trap.areas_fd);
	for (uint32_t i = 0; g_trap.results && i < MAX(g_trap.order_slots.used, 1u); i++) {
		if (!g_trap.results[i].file)
			continue;
		pt_file_put(g_trap.results[i].file);
		pf_host_close(g_trap.results[i].fd);
	}
	tr_slots_fini(&g_trap.order_slots);
	tr_slots_fini(&g_trap.area_slots);
	mem_free(g_trap.results);
	g_trap.results = NULL;
	g_trap.orders = g_trap.areas = NULL;
	g_trap.config_fd = g_trap.orders_fd = g_trap.areas_fd = -1;
}

int tr_prepare(struct err *e)
{
	int r = pf_host_probe_calls(e);

	if (r < 0)
		return r;
	r = pf_host_sigchld_init();
	if (r < 0)
		return err_set(e, -r, "cannot set SIGCHLD: %s", err_text(-r));
	if (pf_host_proc_open() < 0)
		log_info("trap: no /proc: statistics and copy_force will not work");
	tr_parts_start();
	htable_init_sure(&g_trap.by_pid);
	fmutex_init(&g_trap.zygote_lock);
	g_trap.stopping = false;
	r = files_start(e);
	if (r == 0)
		r = stub_keeper_spawn(g_trap_stub_image,
				      (size_t)(g_trap_stub_image_end - g_trap_stub_image),
				      g_trap.orders_fd, g_trap.config_fd, tr_space_first(), e);
	if (r == 0) {
		r = pf_host_probe_reach(stub_keeper_pid(), TS_TEXT, e);
		if (r < 0)
			pt_keeper_stop();
	}
	if (r < 0) {
		files_stop();
		pf_host_proc_close();
	}
	g_trap.prepared = r == 0;
	return r;
}

int tr_start(struct err *e)
{
	int listener = -1, r = g_trap.prepared ? 0 : tr_prepare(e);

	if (r < 0)
		return r;
	g_trap.prepared = false;
	r = stub_keeper_wait(g_nt_on ? &listener : NULL, e);
	if (r == 0 && g_nt_on)
		nt_listener_set(listener);
	if (r < 0) {
		files_stop();
		pf_host_proc_close();
		return r;
	}
	r = files_first();
	if (r < 0 && g_pf_killed)
		r = err_set(e, EPIPE, "%s", PF_KILLED);
	else if (r < 0)
		(void)err_set(e, -r, "cannot give the stubs their areas: %s", err_text(-r));
	if (r == 0) {
		tr_answers_clocks();
		r = thread_start(&g_trap.reaper, reaper_main, NULL, "moat-reaper");
		g_trap.reaper_runs = r == 0;
		if (r < 0)
			(void)err_set(e, -r, "cannot start a thread: %s", err_text(-r));
	}
	if (r < 0) {
		tr_stop();
		return r;
	}
	tr_place_start();
	if (worker_count() > 1) {
		/* The first program's, while others set up what it will see. */
		fmutex_lock(&g_trap.zygote_lock);
		spare_want(worker_at(worker_count() - 1), false);
		fmutex_unlock(&g_trap.zygote_lock);
	}
	return r;
}

void tr_end(void)
{
	struct pf_as *as;
	size_t pos = 0;

	mutex_lock(&g_trap.lock);
	g_trap.stopping = true;
	while ((as = htable_next(&g_trap.by_pid, &pos)) != NULL)
		(void)pf_host_kill(as->pid, SIGKILL);
	mutex_unlock(&g_trap.lock);
	stub_keeper_kill(); /* after those whom it serves, who shall not meet one that is gone */
}

void tr_stop(void)
{
	tr_end(); /* beside what follows */
	tr_place_stop();
	if (g_trap.areas_file)
		pt_file_put(g_trap.areas_file);
	g_trap.areas_file = NULL;
	if (g_trap.spare)
		tr_thread_free(g_trap.spare);
	g_trap.spare = NULL;
	g_trap.spare_wanted = false;
	g_trap.made = 0;
	g_trap.by_keeper = 0;
	atomic_store(&g_trap.has_forked, false);
	pt_keeper_stop();
	if (g_trap.reaper_runs)
		pthread_join(g_trap.reaper, NULL);
	g_trap.reaper_runs = false;
	if (g_trap.zygote)
		tr_as_put(g_trap.zygote);
	g_trap.zygote = NULL;
	htable_fini(&g_trap.by_pid);
	tr_known_stop();
	fmutex_fini(&g_trap.zygote_lock);
	files_stop();
	pf_host_proc_close();
}
