/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors in flight in AF_UNIX messages.
 *
 * Theory of operation. A message holds references to the files that travel in it. If the only
 * references to a socket are in messages, and those can only be received through such sockets,
 * nobody will ever receive them: a circle that reference counts alone keep for ever. So each socket
 * counts how many references to its file are in messages (inflight). Collection:
 *   1. Candidates are sockets whose file has no reference but those.
 *   2. Each reference that stands in the queue of a candidate (or of an embryo that waits in its
 * list) is taken off a copy of the count. Who has some left is referenced from a queue that is not
 * a candidate's, or from a message that somebody is just receiving: alive.
 *   3. What is in the queue of a live one is alive too, and so on.
 *   4. Messages with files in the queues of the rest are dropped; that frees the sockets.
 * While it looks, g_unix is held, which every step of a file into or out of a message needs, so
 * that counts stand still; a reference taken through a descriptor table meanwhile means that a
 * table has it, so it was no candidate.
 *
 * It runs when a socket ends while any is in flight, as in Linux, and when a sender finds that
 * there are many more in flight than the last one left. With many in flight it waits until a good
 * part as many sockets have ended: a long chain that falls apart must not look at its rest at each
 * link.
 *
 * Dropping a file may release a socket, whose queue holds further files, and so on without bound.
 * Therefore files are not put where they are dropped: they go to a list, and whoever finds nobody
 * working on the list does so.
 *
 * Locking: g_unix for counts and marks; queues are read under their rq_lock; g_drop_lock for the
 * list.
 */
#include <errno.h>
#include <string.h>
#include "netstack/unix.h"
#include "base/meter.h"

#define COLLECT_STEP 256u
/* With more in flight than COLLECT_STEP, this many are looked at for each socket that ended. */
#define COLLECT_PER_END 16u

static TAILQ_HEAD(, unix_sock) g_inflight = TAILQ_HEAD_INITIALIZER(g_inflight); /* [g_unix] */
static _Atomic unsigned g_inflight_sockets;                                     /* on that list */
static _Atomic unsigned g_collect_at = COLLECT_STEP; /* so many sockets in flight: time to look */

static _Atomic unsigned g_ended; /* sockets, since the last collection */

static struct mutex g_drop_lock = MUTEX_INIT(RANK_MISC);
static struct scm_files *g_drop_list; /* [g_drop_lock] */
static bool g_dropping;               /* [g_drop_lock] somebody works on the list */

/* The AF_UNIX socket behind a file, or NULL. */
static struct unix_sock *unix_of_file(const struct file *f)
{
	struct socket *s = sock_of_file(f);

	return s && s->family == &g_unix_family ? unix_of(s) : NULL;
}

static void collect(void);

int unix_count_files(struct vfs_ctx *c, struct scm_files *fp)
{
	if (c->nofile_limit && meter_current(METER_in_flight) > c->nofile_limit &&
	    !cred_capable(c->cred, LX_CAP_SYS_RESOURCE) && !cred_capable(c->cred, LX_CAP_SYS_ADMIN))
		return -ETOOMANYREFS;
	if (unlikely(atomic_load(&g_inflight_sockets) >= atomic_load(&g_collect_at))) {
		collect();
		atomic_store(&g_collect_at, 2 * atomic_load(&g_inflight_sockets) + COLLECT_STEP);
	}
	if (!meter_charge(METER_in_flight, fp->count))
		return -ETOOMANYREFS;
	mutex_lock(&g_unix);
	for (unsigned i = 0; i < fp->count; i++) {
		struct unix_sock *u = unix_of_file(fp->file[i]);

		if (u && u->inflight++ == 0) {
			TAILQ_INSERT_TAIL(&g_inflight, u, inflight_link);
			atomic_fetch_add(&g_inflight_sockets, 1);
		}
	}
	fp->counted = true;
	mutex_unlock(&g_unix);
	return 0;
}

void unix_uncount_files(struct scm_files *fp)
{
	if (!fp->counted)
		return;
	mutex_lock(&g_unix);
	for (unsigned i = 0; i < fp->count; i++) {
		struct unix_sock *u = unix_of_file(fp->file[i]);

		if (u && --u->inflight == 0) {
			TAILQ_REMOVE(&g_inflight, u, inflight_link);
			atomic_fetch_sub(&g_inflight_sockets, 1);
		}
	}
	meter_uncharge(METER_in_flight, fp->count);
	fp->counted = false;
	mutex_unlock(&g_unix);
}

struct scm_files *unix_dup_files(const struct scm_files *fp)
{
	struct scm_files *n = mem_zalloc(sizeof(*n));

	if (!n)
		return NULL;
	/* Under g_unix, so that a collection does not overlook the new references. */
	mutex_lock(&g_unix);
	n->count = fp->count;
	for (unsigned i = 0; i < fp->count; i++)
		n->file[i] = file_get(fp->file[i]);
	mutex_unlock(&g_unix);
	return n;
}

void unix_drop_files(struct scm_files *fp)
{
	unix_uncount_files(fp);
	mutex_lock(&g_drop_lock);
	fp->next = g_drop_list;
	g_drop_list = fp;
	if (g_dropping) {
		mutex_unlock(&g_drop_lock);
		return;
	}
	g_dropping = true;
	while ((fp = g_drop_list) != NULL) {
		g_drop_list = fp->next;
		mutex_unlock(&g_drop_lock);
		for (unsigned i = 0; i < fp->count; i++)
			file_put(fp->file[i]);
		mem_free(fp);
		mutex_lock(&g_drop_lock);
	}
	g_dropping = false;
	mutex_unlock(&g_drop_lock);
}

/* ---- collection ---- */

/* Calls @fn for each socket that a message in @u's queue refers to. */
static void for_each_in_queue(struct unix_sock *u, void (*fn)(struct unix_sock *, void *),
			      void *arg) REQUIRES(g_unix)
{
	struct unix_msg *m;

	mutex_lock(&u->rq_lock);
	TAILQ_FOREACH (m, &u->rq, link) {
		for (unsigned i = 0; m->files && i < m->files->count; i++) {
			struct unix_sock *t = unix_of_file(m->files->file[i]);

			if (t)
				fn(t, arg);
		}
	}
	mutex_unlock(&u->rq_lock);
}

/* The same for all that can be received through @u: a listener gives its embryos' data too. */
static void for_each_reachable(struct unix_sock *u, void (*fn)(struct unix_sock *, void *),
			       void *arg) REQUIRES(g_unix)
{
	struct unix_sock *e;

	for_each_in_queue(u, fn, arg);
	TAILQ_FOREACH (e, &u->embryos, embryo)
		for_each_in_queue(e, fn, arg);
}

static void take_off(struct unix_sock *t, void *arg)
{
	(void)arg;
	if (t->gc_state == GC_CANDIDATE && t->gc_count > 0)
		t->gc_count--;
}

static void mark_live(struct unix_sock *t, void *arg)
{
	struct unix_list *live = arg;

	if (t->gc_state != GC_CANDIDATE)
		return;
	t->gc_state = GC_LIVE;
	TAILQ_INSERT_TAIL(live, t, gc_link);
}

/* Moves the messages with files out of the queue. */
static void take_messages(struct unix_sock *u, struct unix_queue *out) REQUIRES(g_unix)
{
	struct unix_msg *m, *next;

	mutex_lock(&u->rq_lock);
	TAILQ_FOREACH_SAFE (m, &u->rq, link, next) {
		if (!m->files)
			continue;
		TAILQ_REMOVE(&u->rq, m, link);
		atomic_fetch_sub(&u->rq_count, 1);
		u->rq_bytes -= m->size - m->off;
		TAILQ_INSERT_TAIL(out, m, link);
	}
	mutex_unlock(&u->rq_lock);
}

static void collect(void)
{
	struct unix_list live = TAILQ_HEAD_INITIALIZER(live);
	struct unix_queue dead = TAILQ_HEAD_INITIALIZER(dead);
	struct unix_sock *u, *e;
	struct unix_msg *m;
	bool any = false;

	mutex_lock(&g_unix);
	TAILQ_FOREACH (u, &g_inflight, inflight_link) {
		/* Between the last put of a file and its release the count is 0; then it is none
		 * either. */
		bool candidate = u->s->file && ref_read(&u->s->file->ref) == u->inflight;

		u->gc_state = candidate ? GC_CANDIDATE : GC_NONE;
		u->gc_count = u->inflight;
		any |= candidate;
	}
	if (!any)
		goto out;
	TAILQ_FOREACH (u, &g_inflight, inflight_link) {
		if (u->gc_state == GC_CANDIDATE)
			for_each_reachable(u, take_off, NULL);
	}
	TAILQ_FOREACH (u, &g_inflight, inflight_link) {
		if (u->gc_count > 0)
			mark_live(u, &live);
	}
	while ((u = TAILQ_FIRST(&live)) != NULL) {
		TAILQ_REMOVE(&live, u, gc_link);
		for_each_reachable(u, mark_live, &live);
	}
	TAILQ_FOREACH (u, &g_inflight, inflight_link) {
		if (u->gc_state != GC_CANDIDATE)
			continue;
		take_messages(u, &dead);
		TAILQ_FOREACH (e, &u->embryos, embryo)
			take_messages(e, &dead);
	}
out:
	TAILQ_FOREACH (u, &g_inflight, inflight_link)
		u->gc_state = GC_NONE;
	mutex_unlock(&g_unix);
	while ((m = TAILQ_FIRST(&dead)) != NULL) {
		TAILQ_REMOVE(&dead, m, link);
		unix_msg_free(m);
	}
}

void unix_collect(void)
{
	unsigned n = atomic_load(&g_inflight_sockets);

	if (likely(n == 0))
		return;
	if (n > COLLECT_STEP && atomic_fetch_add(&g_ended, 1) < n / COLLECT_PER_END)
		return;
	atomic_store(&g_ended, 0);
	collect();
}
