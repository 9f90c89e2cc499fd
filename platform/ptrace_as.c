/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address spaces and threads of the ptrace platform: birth and death.
 *
 * Theory of operation. The keeper (platform/stub/keeper.c) is exec'ed once. A worker's zygote is a
 * child of it: the worker seizes it, and lets it run E_FINISH, which leaves it with the stub's text
 * alone and the stubs' filter. It stays stopped for good; each new address space is a clone of it,
 * made by E_FORK. A guest's fork is the same routine run on the guest's own thread: the host copies
 * the memory, and the vector state goes with it. The order page is not inherited (MADV_DONTFORK);
 * the child maps its own with its first batch.
 *
 * clone is given CLONE_PTRACE, so the child is attached to the same tracer before it runs and
 * without a stop of the parent for the event; its first stop is PTRACE_EVENT_STOP. It may be seen
 * before the parent tells its tid: see pt_orphan.
 *
 * The leader of a host process never exits before the process: its pid is the name for copies. When
 * the sentry frees its thread earlier, it stays stopped. All other threads run E_EXIT. With the
 * last reference the whole process is killed; the worker takes the ends of its threads in
 * collect(), and what is left of the structures goes then.
 */
#include <errno.h>
#include <sys/ptrace.h>
#include "platform/host_spawn.h"
#include "platform/ptrace.h"

/* A child of a clone call whose caller was killed in it shows up soon, or not at all. */
#define LOST_SWEEPS 100

/* Slots of the orders file, one per address space. */
#define ORDERS_SLOTS 65536u
#define ORDERS_SIZE ((size_t)ORDERS_SLOTS * STUB_ORDERS_SIZE)

static struct {
	struct mutex lock;
	int fd;
	char *base;                /* the sentry's view of the file */
	uint32_t *free;            /* stack of slots that were used and freed. [lock] */
	uint32_t free_count, used; /* used: slots ever used. [lock] */
} g_orders = {.lock = MUTEX_INIT(RANK_LEAF), .fd = -1};

int pt_orders_start(struct err *e)
{
	int r;

	g_orders.fd = pf_host_memfd("moat-orders", NULL, ORDERS_SIZE, false);
	if (g_orders.fd < 0)
		return err_set(e, -g_orders.fd, "cannot make the orders file: %s",
			       err_text(-g_orders.fd));
	g_orders.base = pf_host_map_shared(g_orders.fd, ORDERS_SIZE);
	g_orders.free = mem_calloc(ORDERS_SLOTS, sizeof(*g_orders.free));
	if (!g_orders.base || !g_orders.free)
		return err_set(e, ENOMEM, "no memory for the orders file");
	/* From here on it can be mapped only to be read. */
	r = pf_host_seal_future_writes(g_orders.fd);
	if (r < 0)
		return err_set(e, -r,
			       "cannot seal the orders file: %s (Linux 5.1 or later is needed)",
			       err_text(-r));
	g_orders.free_count = g_orders.used = 0;
	return 0;
}

void pt_orders_stop(void)
{
	if (g_orders.base)
		pf_host_unmap(g_orders.base, ORDERS_SIZE);
	if (g_orders.fd >= 0)
		pf_host_close(g_orders.fd);
	mem_free(g_orders.free);
	g_orders.base = NULL;
	g_orders.free = NULL;
	g_orders.fd = -1;
}

int pt_orders_fd(void)
{
	return g_orders.fd;
}

static int orders_alloc(struct pf_as *as)
{
	int r = 0;

	mutex_lock(&g_orders.lock);
	if (g_orders.free_count != 0)
		as->orders_slot = g_orders.free[--g_orders.free_count];
	else if (g_orders.used < ORDERS_SLOTS)
		as->orders_slot = g_orders.used++;
	else
		r = -EAGAIN;
	mutex_unlock(&g_orders.lock);
	if (r == 0)
		as->orders = (struct stub_order *)(g_orders.base +
						   (size_t)as->orders_slot * STUB_ORDERS_SIZE);
	return r;
}

static void orders_free(struct pf_as *as)
{
	if (!as->orders)
		return;
	mutex_lock(&g_orders.lock);
	g_orders.free[g_orders.free_count++] = as->orders_slot;
	mutex_unlock(&g_orders.lock);
}

/* --- Structures --- */

static void as_free(struct pf_as *as)
{
	orders_free(as);
	if (!as->is_zygote)
		atomic_fetch_sub(&as->worker->as_count, 1);
	fmutex_fini(&as->orders_lock);
	mem_free(as);
}

/* An address space without a process yet, with one thread in it that holds the only reference. */
static struct pf_thread *as_alloc(struct ptworker *pw)
{
	struct pf_as *as = mem_zalloc(sizeof(*as));
	struct pf_thread *t = mem_zalloc(sizeof(*t));

	if (!as || !t || orders_alloc(as) < 0) {
		mem_free(as);
		mem_free(t);
		return NULL;
	}
	ref_init(&as->ref);
	as->worker = pw;
	LIST_INIT(&as->threads);
	fmutex_init(&as->orders_lock);
	atomic_fetch_add(&pw->as_count, 1);
	t->as = as;
	t->worker = pw;
	t->bound_cpu = -1;
	return t;
}

static void as_discard(struct pf_thread *t)
{
	as_free(t->as);
	mem_free(t);
}

/* @t, a new host thread @tid of its address space, is ours: waits for its first stop. Cannot fail:
 * a thread that could not be entered into the table would never be heard of again. */
static void adopt(struct pf_thread *t, pid_t tid)
{
	t->tid = tid;
	if (t->as->pid == 0)
		t->as->pid = tid;
	LIST_INSERT_HEAD(&t->as->threads, t, as_link);
	t->as->thread_count++;
	if (pt_table_add(t) < 0)
		panic("ptrace: no memory for the table of threads");
	if (pt_claim_orphan(t->worker, t)) {
		atomic_store(&t->state, PT_STOPPED);
	} else {
		pt_set_out(t, PT_STUB);
		pt_await(t, false);
	}
}

/* --- Zygotes --- */

static int zygote_finish(struct pf_thread *t)
{
	struct pf_regs r = {0};
	int ret = pt_inject(t, STUB_E_FINISH, &r, false);

	if (ret == 0 && r.rax != 0)
		ret = (int)r.rax;
	return ret;
}

static int zygote_new(struct ptworker *pw)
{
	struct pf_thread *t = as_alloc(pw);
	pid_t pid;
	int r;

	if (!t)
		return -ENOMEM;
	pid = pt_keeper_zygote();
	if (pid < 0) {
		as_discard(t);
		return pid;
	}
	r = pf_host_seize(pid);
	if (r == 0)
		r = pf_host_ptrace_interrupt(pid);
	if (r < 0) {
		(void)pf_host_kill(pid, SIGKILL);
		as_discard(t);
		log_error("ptrace: cannot attach to a stub: %s", err_text(-r));
		return r;
	}
	adopt(t, pid);
	t->as->is_zygote = true;
	atomic_fetch_sub(&pw->as_count, 1);
	r = zygote_finish(t);
	if (r < 0) {
		log_error("ptrace: a zygote cannot be finished: %s", err_text(-r));
		if (r == -ESRCH)
			atomic_store(&g_pf_killed, true);
		pt_thread_free(t);
		return r;
	}
	pw->zygote = t;
	return 0;
}

/* Runs the clone routine @entry on @from. The child's tid or -errno. The caller must adopt the
 * child and then do cloning--. */
static pid_t clone_child(struct pf_thread *from, unsigned entry, bool park)
{
	struct pf_regs r = {0};
	int ret;

	if (fail_now(FAIL_HOST))
		return -EAGAIN;
	from->worker->cloning++;
	from->as->cloning_thread = from->as->cloning_thread || entry == STUB_E_THREAD;
	ret = pt_inject(from, entry, &r, park);
	if (ret == 0)
		from->as->cloning_thread = false;
	if (ret == 0 && (int64_t)r.rax > 0)
		return (pid_t)r.rax;
	if (--from->worker->cloning == 0)
		pt_kill_orphans(from->worker);
	if (ret < 0)
		from->worker->sweeps = LOST_SWEEPS;
	/* A process that died in the call is not a reason that a guest knows. */
	return ret == 0 ? (pid_t)r.rax : -EAGAIN;
}

static int clone_as(struct pf_thread *from, bool park, struct pf_as **as, struct pf_thread **thread)
{
	struct pf_thread *t = as_alloc(from->worker);
	pid_t pid;

	if (!t)
		return -ENOMEM;
	pid = clone_child(from, STUB_E_FORK, park);
	if (pid < 0) {
		as_discard(t);
		return pid;
	}
	adopt(t, pid);
	t->bound_cpu = from->bound_cpu;
	from->worker->cloning--;
	*as = t->as;
	*thread = t;
	return 0;
}

int pt_as_new(struct pf_thread *leaves, struct pf_as **as, struct pf_thread **thread)
{
	struct ptworker *pw = pt_least_loaded();
	int r;

	(void)leaves;
	if (pw != pt_self())
		fiber_migrate(pw->worker);
	/* One that somebody has killed may be found out only when it is used. */
	for (int tries = 0;; tries++) {
		if (pw->zygote && atomic_load(&pw->zygote->state) == PT_DEAD) {
			pt_thread_free(pw->zygote);
			pw->zygote = NULL;
		}
		if (!pw->zygote) {
			r = zygote_new(pw);
			if (r < 0)
				return r;
		}
		r = clone_as(pw->zygote, false, as, thread);
		if (r == 0 || tries != 0 || atomic_load(&pw->zygote->state) != PT_DEAD)
			return r;
	}
}

int pt_as_fork(struct pf_thread *from, struct pf_as **as, struct pf_thread **thread)
{
	return clone_as(from, true, as, thread);
}

int pt_thread_new(struct pf_thread *from, struct pf_thread **thread)
{
	struct pf_thread *t = mem_zalloc(sizeof(*t));
	pid_t tid;

	if (!t)
		return -ENOMEM;
	t->as = from->as;
	t->worker = from->worker;
	tid = clone_child(from, STUB_E_THREAD, false);
	if (tid < 0) {
		mem_free(t);
		return tid;
	}
	ref_get(&t->as->ref);
	adopt(t, tid);
	t->bound_cpu = from->bound_cpu;
	from->worker->cloning--;
	*thread = t;
	return 0;
}

/* --- Death --- */

bool pt_as_enter(struct pf_as *as)
{
	atomic_fetch_add(&as->users, 1);
	if (likely(!atomic_load(&as->dead)))
		return true;
	atomic_fetch_sub(&as->users, 1);
	return false;
}

void pt_as_leave(struct pf_as *as)
{
	atomic_fetch_sub(&as->users, 1);
}

void pt_thread_ended(struct pf_thread *t)
{
	struct pf_as *as = t->as;
	bool last;

	if (t->tid == as->pid) {
		atomic_store(&as->dead, true);
		while (atomic_load(&as->users) != 0)
			pf_host_yield();
	}
	pf_host_wait_consume(t->tid);
	if (t->dying)
		t->worker->dying--;
	t->dying = false;
	LIST_REMOVE(t, as_link);
	last = --as->thread_count == 0;
	if (t->freed)
		mem_free(t);
	if (last && as->destroyed)
		as_free(as);
}

static void await_end(struct pf_thread *t)
{
	if (!t->dying) {
		t->dying = true;
		t->worker->dying++;
	}
}

void pt_as_destroy_here(struct pf_as *as)
{
	struct pf_thread *t;

	as->destroyed = true;
	if (as->thread_count == 0) {
		as_free(as);
		return;
	}
	/* The leader's end is the last to be reported: with a thread left the pid is ours. */
	(void)pf_host_kill(as->pid, SIGKILL);
	LIST_FOREACH (t, &as->threads, as_link) {
		await_end(t);
	}
}

void pt_as_get(struct pf_as *as)
{
	ref_get(&as->ref);
}

void pt_as_put(struct pf_as *as)
{
	if (!ref_put(&as->ref))
		return;
	if (worker_self() == as->worker->worker) {
		pt_as_destroy_here(as);
		return;
	}
	/* Its memory can go at once; the rest is for its worker. */
	if (pt_as_enter(as)) {
		(void)pf_host_kill(as->pid, SIGKILL);
		pt_as_leave(as);
	}
	pt_post(as->worker, &as->post, PT_POST_DESTROY_AS);
}

void pt_thread_free_here(struct pf_thread *t)
{
	struct pf_as *as = t->as;

	if (atomic_load(&t->state) == PT_DEAD) {
		mem_free(t);
	} else {
		t->freed = true;
		/* The leader stays; and who will be killed with the process at once need not exit.
		 */
		if (t->tid != as->pid && ref_read(&as->ref) != 1) {
			await_end(t);
			pt_inject_exit(t);
		}
	}
	pt_as_put(as);
}

void pt_thread_free(struct pf_thread *t)
{
	if (worker_self() == t->worker->worker)
		pt_thread_free_here(t);
	else
		pt_post(t->worker, &t->post, PT_POST_FREE_THREAD);
}
