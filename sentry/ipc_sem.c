/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System V semaphores.
 *
 * Theory of operation: a set has an array of values. semop tries all of its operations on a copy;
 * only if all can be done is the copy made real. Else the caller sleeps on the set and tries again
 * whenever the set changed. Who sleeps for which semaphore is kept in a list, for GETNCNT and
 * GETZCNT. SEM_UNDO keeps, per undo list and set, what to add back at exit; lists are shared by
 * CLONE_SYSVSEM (all threads of a process).
 *
 * Locking: g_sem.lock guards all sets and undo lists. A set that is removed is unlinked at once and
 * freed when its last sleeper has seen that.
 *
 * References: semget(2), semop(2), semctl(2), svipc(7).
 */
#include "sentry/guest_time.h"
#include "sentry/ipc.h"
#include "sentry/process.h"
#include "sentry/syscall.h"
#include "vfs/pseudofs.h"

#include <errno.h>
#include <string.h>

#define GETPID_ 11
#define GETVAL_ 12
#define GETALL_ 13
#define GETNCNT_ 14
#define GETZCNT_ 15
#define SETVAL_ 16
#define SETALL_ 17
#define SEM_STAT_ 18
#define SEM_INFO_ 19
#define SEM_STAT_ANY_ 20

#define SEM_UNDO_ 0x1000
#define IPC_NOWAIT_ 04000

#define SEMMNI 32000
#define SEMMSL 32000
#define SEMMNS 1024000000
#define SEMOPM 500
#define SEMVMX 32767
#define SEMAEM SEMVMX

struct sem {
	int value;
	int32_t pid; /* of the last operation */
};

struct sem_waiter {
	LIST_ENTRY(sem_waiter) link;
	unsigned num; /* the semaphore that holds it up */
	bool zero;    /* waits for zero, else for an increase */
};

struct sem_set {
	struct ipc_perm perm; /* first: the table holds pointers to it */
	struct ref ref;       /* the table and every sleeper */
	bool removed;
	unsigned count;
	int64_t otime, ctime; /* seconds */
	struct waitq wait;
	uint64_t changes; /* grows with each change that may let a sleeper go on */
	LIST_HEAD(, sem_waiter) waiters;
	LIST_HEAD(, sem_undo) undos; /* of all undo lists */
	struct sem sems[];
};

struct sem_undo {
	LIST_ENTRY(sem_undo) link;     /* in its undo list */
	LIST_ENTRY(sem_undo) set_link; /* in set->undos */
	struct sem_set *set;           /* a reference */
	int16_t adj[];
};

struct sem_undo_list {
	struct ref ref;
	LIST_HEAD(, sem_undo) undos;
};

static struct ipc_ids g_sem = IPC_IDS_INIT(SEMMNI);
static unsigned g_sem_total; /* semaphores in all sets. [g_sem.lock] */

struct lx_sembuf {
	uint16_t num;
	int16_t op;
	int16_t flags;
};
_Static_assert(sizeof(struct lx_sembuf) == 6, "struct sembuf");

struct lx_semid_ds {
	struct lx_ipc_perm perm;
	int64_t otime, unused1, ctime, unused2;
	uint64_t nsems, unused3, unused4;
};
_Static_assert(sizeof(struct lx_semid_ds) == 104, "struct semid64_ds");

struct lx_seminfo {
	int32_t semmap, semmni, semmns, semmnu, semmsl, semopm, semume, semusz, semvmx, semaem;
};

static int64_t now_seconds(void)
{
	return (int64_t)(clock_real_ns() / NSEC_PER_SEC);
}

static struct sem_set *set_of(struct ipc_perm *p)
{
	return (struct sem_set *)p;
}

static void set_put(struct sem_set *s)
{
	if (!ref_put(&s->ref))
		return;
	waitq_fini(&s->wait);
	mem_free(s);
}

static void set_changed(struct sem_set *s)
{
	s->changes++;
	waitq_wake_all(&s->wait, 0);
}

/* ---- semget ---- */

static int use_existing(struct task *t, struct ipc_perm *p, int nsems, int flags)
	REQUIRES(g_sem.lock)
{
	int r;

	if ((flags & LX_IPC_CREAT) && (flags & LX_IPC_EXCL))
		return -EEXIST;
	r = ipc_check(t, p, (uint32_t)flags & 0777);
	if (r)
		return r;
	return (unsigned)nsems > set_of(p)->count ? -EINVAL : p->id;
}

long sys_semget(struct task *t, int key, int nsems, int flags)
{
	struct ipc_perm *p = NULL;
	struct sem_set *s;
	long r;

	if (nsems < 0 || nsems > SEMMSL)
		return -EINVAL;
	s = mem_zalloc(sizeof(*s) + (size_t)nsems * sizeof(s->sems[0]));
	if (!s)
		return -ENOMEM;
	ref_init(&s->ref);
	waitq_init(&s->wait);
	LIST_INIT(&s->waiters);
	LIST_INIT(&s->undos);
	s->count = (unsigned)nsems;
	s->perm.key = key;
	s->perm.mode = (uint32_t)flags & 0777;
	s->ctime = now_seconds();

	mutex_lock(&g_sem.lock);
	if (key != LX_IPC_PRIVATE)
		p = ipc_find_key_locked(&g_sem, key);
	if (p) {
		r = use_existing(t, p, nsems, flags);
	} else if (key != LX_IPC_PRIVATE && !(flags & LX_IPC_CREAT)) {
		r = -ENOENT;
	} else if (nsems == 0) {
		r = -EINVAL;
	} else if (g_sem_total + (unsigned)nsems > SEMMNS) {
		r = -ENOSPC;
	} else {
		r = ipc_add_locked(&g_sem, &s->perm, t);
		if (r >= 0) {
			g_sem_total += (unsigned)nsems;
			s = NULL;
		}
	}
	mutex_unlock(&g_sem.lock);
	if (s)
		set_put(s);
	return r;
}

/* ---- semop ---- */

static struct sem_undo *undo_find(struct sem_undo_list *l, struct sem_set *s)
{
	struct sem_undo *u;

	LIST_FOREACH (u, &l->undos, link) {
		if (u->set == s)
			return u;
	}
	return NULL;
}

/* The caller's undo record for @s; made if need be. NULL: no memory. */
static struct sem_undo *undo_get(struct task *t, struct sem_set *s) REQUIRES(g_sem.lock)
{
	struct sem_undo *u;

	if (!t->sem_undo) {
		t->sem_undo = mem_zalloc(sizeof(*t->sem_undo));
		if (!t->sem_undo)
			return NULL;
		ref_init(&t->sem_undo->ref);
		LIST_INIT(&t->sem_undo->undos);
	}
	u = undo_find(t->sem_undo, s);
	if (u)
		return u;
	u = mem_zalloc(sizeof(*u) + s->count * sizeof(u->adj[0]));
	if (!u)
		return NULL;
	ref_get(&s->ref);
	u->set = s;
	LIST_INSERT_HEAD(&t->sem_undo->undos, u, link);
	LIST_INSERT_HEAD(&s->undos, u, set_link);
	return u;
}

/* Does all operations or none. 1: done; 0: *hold says what is in the way; -errno. */
static int try_ops(struct task *t, struct sem_set *s, const struct lx_sembuf *ops, unsigned n,
		   struct sem_undo *u, const struct lx_sembuf **hold) REQUIRES(g_sem.lock)
{
	unsigned i;
	int r = 1;

	for (i = 0; i < n; i++) {
		struct sem *sem = &s->sems[ops[i].num];
		int v = sem->value + ops[i].op;

		if ((ops[i].op == 0 && sem->value != 0) || v < 0) {
			*hold = &ops[i];
			r = 0;
			break;
		}
		if (v > SEMVMX) {
			r = -ERANGE;
			break;
		}
		if (u && (ops[i].flags & SEM_UNDO_)) {
			int adj = u->adj[ops[i].num] - ops[i].op;

			if (adj < -SEMAEM - 1 || adj > SEMAEM) {
				r = -ERANGE;
				break;
			}
			u->adj[ops[i].num] = (int16_t)adj;
		}
		sem->value = v;
	}
	if (r == 1) {
		bool changed = false;

		for (unsigned k = 0; k < n; k++) {
			s->sems[ops[k].num].pid = t->tg->tgid;
			changed = changed || ops[k].op;
		}
		s->otime = now_seconds();
		if (changed)
			set_changed(s);
		return 1;
	}
	while (i-- > 0) {
		s->sems[ops[i].num].value -= ops[i].op;
		if (u && (ops[i].flags & SEM_UNDO_))
			u->adj[ops[i].num] = (int16_t)(u->adj[ops[i].num] + ops[i].op);
	}
	return r;
}

static bool set_moved_on(struct sem_set *s, uint64_t seen)
{
	bool moved;

	mutex_lock(&g_sem.lock);
	moved = s->changes != seen || s->removed;
	mutex_unlock(&g_sem.lock);
	return moved;
}

/* Tries until it works; g_sem.lock is held at entry and at return, not while it sleeps. */
static int do_ops(struct task *t, struct sem_set *s, const struct lx_sembuf *ops, unsigned n,
		  bool undo, uint64_t deadline) REQUIRES(g_sem.lock)
{
	struct sem_undo *u = NULL;

	if (undo && !(u = undo_get(t, s)))
		return -ENOMEM;
	for (;;) {
		const struct lx_sembuf *hold;
		int r = try_ops(t, s, ops, n, u, &hold);

		if (r)
			return r < 0 ? r : 0;
		if (hold->flags & IPC_NOWAIT_)
			return -EAGAIN;
		struct sem_waiter w = {.num = hold->num, .zero = hold->op == 0};
		uint64_t seen = s->changes;

		LIST_INSERT_HEAD(&s->waiters, &w, link);
		mutex_unlock(&g_sem.lock);
		r = wait_event(&s->wait, set_moved_on(s, seen), deadline, WAIT_INTR);
		mutex_lock(&g_sem.lock);
		LIST_REMOVE(&w, link);
		if (s->removed)
			return -EIDRM;
		if (r)
			return r == -ETIMEDOUT ? -EAGAIN : -EINTR;
	}
}

static long semop_common(struct task *t, int semid, gaddr_t usops, unsigned n, uint64_t deadline)
{
	struct lx_sembuf fast[16], *ops = fast;
	struct ipc_perm *p;
	struct sem_set *s = NULL;
	bool undo = false, alter = false;
	unsigned max = 0;
	long r;

	if (n > SEMOPM)
		return -E2BIG;
	if (n < 1 || semid < 0)
		return -EINVAL;
	if (n > ARRAY_SIZE(fast)) {
		ops = mem_calloc(n, sizeof(*ops));
		if (!ops)
			return -ENOMEM;
	}
	r = -EFAULT;
	if (copy_in(t, ops, usops, n * sizeof(*ops)))
		goto out;
	for (unsigned i = 0; i < n; i++) {
		max = MAX(max, (unsigned)ops[i].num);
		undo = undo || (ops[i].op && (ops[i].flags & SEM_UNDO_));
		alter = alter || ops[i].op;
	}
	mutex_lock(&g_sem.lock);
	r = ipc_find_locked(&g_sem, semid, &p);
	if (r == 0) {
		s = set_of(p);
		r = max >= s->count ? -EFBIG : ipc_check(t, p, alter ? 0222 : 0444);
	}
	if (r == 0) {
		ref_get(&s->ref);
		r = do_ops(t, s, ops, n, undo, deadline);
		mutex_unlock(&g_sem.lock);
		set_put(s);
	} else {
		mutex_unlock(&g_sem.lock);
	}
out:
	if (ops != fast)
		mem_free(ops);
	return r;
}

long sys_semop(struct task *t, int semid, gaddr_t sops, unsigned nsops)
{
	return semop_common(t, semid, sops, nsops, DEADLINE_NONE);
}

long sys_semtimedop(struct task *t, int semid, gaddr_t sops, unsigned nsops, gaddr_t timeout)
{
	uint64_t deadline = DEADLINE_NONE, ns;
	struct lx_timespec ts;

	if (timeout.a) {
		if (copy_in(t, &ts, timeout, sizeof(ts)))
			return -EFAULT;
		if (!timespec_to_ns(&ts, &ns))
			return -EINVAL;
		deadline = clock_mono_ns() + ns;
	}
	return semop_common(t, semid, sops, nsops, deadline);
}

/* ---- undo ---- */

static void undo_apply(struct task *t, struct sem_undo *u) REQUIRES(g_sem.lock)
{
	struct sem_set *s = u->set;

	if (s->removed)
		return;
	for (unsigned i = 0; i < s->count; i++) {
		int v = s->sems[i].value + u->adj[i];

		if (!u->adj[i])
			continue;
		s->sems[i].value = MAX(0, MIN(v, SEMVMX));
		s->sems[i].pid = t->tg->tgid;
	}
	s->otime = now_seconds();
	set_changed(s);
}

void sem_exit(struct task *t)
{
	struct sem_undo_list *l = t->sem_undo;
	struct sem_undo *u;

	if (!l)
		return;
	t->sem_undo = NULL;
	if (!ref_put(&l->ref))
		return;
	while ((u = LIST_FIRST(&l->undos))) {
		mutex_lock(&g_sem.lock);
		LIST_REMOVE(u, link);
		LIST_REMOVE(u, set_link);
		undo_apply(t, u);
		mutex_unlock(&g_sem.lock);
		set_put(u->set);
		mem_free(u);
	}
	mem_free(l);
}

int sem_clone(struct task *parent, struct task *child, bool share)
{
	if (!share)
		return 0;
	/* The list exists from the first clone on, so that both add to the same. */
	if (!parent->sem_undo) {
		parent->sem_undo = mem_zalloc(sizeof(*parent->sem_undo));
		if (!parent->sem_undo)
			return -ENOMEM;
		ref_init(&parent->sem_undo->ref);
		LIST_INIT(&parent->sem_undo->undos);
	}
	ref_get(&parent->sem_undo->ref);
	child->sem_undo = parent->sem_undo;
	return 0;
}

/* What was to be undone on @s is void: its values were set. @num < 0: all of them. */
static void undo_forget(struct sem_set *s, int num) REQUIRES(g_sem.lock)
{
	struct sem_undo *u;

	LIST_FOREACH (u, &s->undos, set_link) {
		for (unsigned i = 0; i < s->count; i++) {
			if (num < 0 || i == (unsigned)num)
				u->adj[i] = 0;
		}
	}
}

/* ---- semctl ---- */

static void fill_ds(const struct sem_set *s, struct lx_semid_ds *d)
{
	memset(d, 0, sizeof(*d));
	ipc_perm_to_lx(&s->perm, &d->perm);
	d->otime = s->otime;
	d->ctime = s->ctime;
	d->nsems = s->count;
}

static long ctl_stat(struct task *t, int semid, int cmd, gaddr_t buf)
{
	struct lx_semid_ds d;
	struct ipc_perm *p;
	long r = 0;

	mutex_lock(&g_sem.lock);
	if (cmd == LX_IPC_STAT) {
		r = ipc_find_locked(&g_sem, semid, &p);
	} else {
		p = ipc_at_locked(&g_sem, (unsigned)semid & ((1u << IPC_INDEX_BITS) - 1));
		r = p ? p->id : -EINVAL;
	}
	if (r >= 0 && cmd != SEM_STAT_ANY_) {
		int err = ipc_check(t, p, 0444);

		r = err ? err : r;
	}
	if (r >= 0)
		fill_ds(set_of(p), &d);
	mutex_unlock(&g_sem.lock);
	if (r >= 0 && copy_out(t, buf, &d, sizeof(d)))
		return -EFAULT;
	return r;
}

static long ctl_info(struct task *t, int cmd, gaddr_t buf)
{
	struct lx_seminfo i = {.semmap = SEMMNS,
			       .semmni = SEMMNI,
			       .semmns = SEMMNS,
			       .semmnu = SEMMNS,
			       .semmsl = SEMMSL,
			       .semopm = SEMOPM,
			       .semume = SEMOPM,
			       .semusz = 20,
			       .semvmx = SEMVMX,
			       .semaem = SEMAEM};
	int highest;

	mutex_lock(&g_sem.lock);
	if (cmd == SEM_INFO_) {
		i.semusz = (int32_t)g_sem.used;
		i.semaem = (int32_t)g_sem_total;
	}
	highest = ipc_highest_locked(&g_sem);
	mutex_unlock(&g_sem.lock);
	if (copy_out(t, buf, &i, sizeof(i)))
		return -EFAULT;
	return MAX(highest, 0);
}

static long ctl_change(struct task *t, int semid, int cmd, gaddr_t buf)
{
	struct lx_semid_ds d;
	struct sem_set *gone = NULL;
	struct ipc_perm *p;
	int r;

	if (cmd == LX_IPC_SET && copy_in(t, &d, buf, sizeof(d)))
		return -EFAULT;
	mutex_lock(&g_sem.lock);
	r = ipc_find_locked(&g_sem, semid, &p);
	if (r == 0)
		r = ipc_check_owner(t, p);
	if (r == 0 && cmd == LX_IPC_SET) {
		r = ipc_perm_set(p, &d.perm);
		if (r == 0)
			set_of(p)->ctime = now_seconds();
	} else if (r == 0) {
		gone = set_of(p);
		ipc_remove_locked(&g_sem, p);
		g_sem_total -= gone->count;
		gone->removed = true;
		set_changed(gone);
	}
	mutex_unlock(&g_sem.lock);
	if (gone)
		set_put(gone);
	return r;
}

static int count_waiters(struct sem_set *s, unsigned num, bool zero)
{
	struct sem_waiter *w;
	int n = 0;

	LIST_FOREACH (w, &s->waiters, link) {
		n += w->num == num && w->zero == zero;
	}
	return n;
}

static long one_value(struct task *t, struct sem_set *s, int num, int cmd, int value)
	REQUIRES(g_sem.lock)
{
	struct sem *sem;

	if (num < 0 || (unsigned)num >= s->count)
		return -EINVAL;
	sem = &s->sems[num];
	switch (cmd) {
	case GETVAL_:
		return sem->value;
	case GETPID_:
		return sem->pid;
	case GETNCNT_:
		return count_waiters(s, (unsigned)num, false);
	case GETZCNT_:
		return count_waiters(s, (unsigned)num, true);
	default:
		break;
	}
	undo_forget(s, num);
	sem->value = value;
	sem->pid = t->tg->tgid;
	s->ctime = now_seconds();
	set_changed(s);
	return 0;
}

static long ctl_one(struct task *t, int semid, int num, int cmd, uint64_t arg)
{
	int value = (int)arg;
	struct ipc_perm *p;
	long r;

	if (cmd == SETVAL_ && (value < 0 || value > SEMVMX))
		return -ERANGE;
	mutex_lock(&g_sem.lock);
	r = ipc_find_locked(&g_sem, semid, &p);
	if (r == 0)
		r = ipc_check(t, p, cmd == SETVAL_ ? 0222 : 0444);
	if (r == 0)
		r = one_value(t, set_of(p), num, cmd, value);
	mutex_unlock(&g_sem.lock);
	return r;
}

/* The number of semaphores, after the checks of GETALL and SETALL. */
static long all_count(struct task *t, int semid, int cmd)
{
	struct ipc_perm *p;
	long r;

	mutex_lock(&g_sem.lock);
	r = ipc_find_locked(&g_sem, semid, &p);
	if (r == 0)
		r = ipc_check(t, p, cmd == SETALL_ ? 0222 : 0444);
	if (r == 0)
		r = set_of(p)->count;
	mutex_unlock(&g_sem.lock);
	return r;
}

static long ctl_all(struct task *t, int semid, int cmd, gaddr_t buf)
{
	long n = all_count(t, semid, cmd), r;
	struct ipc_perm *p;
	struct sem_set *s;
	uint16_t *v;

	if (n <= 0)
		return n;
	v = mem_calloc((size_t)n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	r = -EFAULT;
	if (cmd == SETALL_ && copy_in(t, v, buf, (size_t)n * sizeof(*v)))
		goto out;
	r = -ERANGE;
	for (long i = 0; cmd == SETALL_ && i < n; i++) {
		if (v[i] > SEMVMX)
			goto out;
	}
	mutex_lock(&g_sem.lock);
	r = ipc_find_locked(&g_sem, semid, &p);
	s = r == 0 ? set_of(p) : NULL;
	if (!s) {
		/* r says why */
	} else if (s->count != n) {
		r = -EIDRM;
	} else if (cmd == SETALL_) {
		undo_forget(s, -1);
		for (long i = 0; i < n; i++) {
			s->sems[i].value = v[i];
			s->sems[i].pid = t->tg->tgid;
		}
		s->ctime = now_seconds();
		set_changed(s);
	} else {
		for (long i = 0; i < n; i++)
			v[i] = (uint16_t)s->sems[i].value;
	}
	mutex_unlock(&g_sem.lock);
	if (r == 0 && cmd == GETALL_ && copy_out(t, buf, v, (size_t)n * sizeof(*v)))
		r = -EFAULT;
out:
	mem_free(v);
	return r;
}

long sys_semctl(struct task *t, int semid, int semnum, int cmd, uint64_t arg)
{
	if (semid < 0)
		return -EINVAL;
	switch (cmd) {
	case LX_IPC_INFO:
	case SEM_INFO_:
		return ctl_info(t, cmd, GADDR(arg));
	case LX_IPC_STAT:
	case SEM_STAT_:
	case SEM_STAT_ANY_:
		return ctl_stat(t, semid, cmd, GADDR(arg));
	case LX_IPC_SET:
	case LX_IPC_RMID:
		return ctl_change(t, semid, cmd, GADDR(arg));
	case GETALL_:
	case SETALL_:
		return ctl_all(t, semid, cmd, GADDR(arg));
	case GETVAL_:
	case GETPID_:
	case GETNCNT_:
	case GETZCNT_:
	case SETVAL_:
		return ctl_one(t, semid, semnum, cmd, arg);
	default:
		return -EINVAL;
	}
}

void ipc_sem_show(struct textbuf *out)
{
	text_printf(out, "       key      semid perms      nsems   uid   gid  cuid  cgid      "
			 "otime      ctime\n");
	mutex_lock(&g_sem.lock);
	for (int i = 0; i <= ipc_highest_locked(&g_sem); i++) {
		struct ipc_perm *p = ipc_at_locked(&g_sem, (unsigned)i);

		if (!p)
			continue;
		text_printf(out, "%10d %10d  %4o %10u %5u %5u %5u %5u %10lu %10lu\n", p->key, p->id,
			    p->mode & 0777, set_of(p)->count, p->uid, p->gid, p->cuid, p->cgid,
			    set_of(p)->otime, set_of(p)->ctime);
	}
	mutex_unlock(&g_sem.lock);
}
