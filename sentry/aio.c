/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io_setup(2), io_submit(2), io_getevents(2) and their relatives: what libaio is made of.
 *
 * Theory of operation: an operation is carried out within io_submit, as Linux does it for files
 * that are not opened with O_DIRECT, and its event is ready when the call returns. Events stand in
 * a ring in memory of the guest's, in Linux's form: programs look into it without a call, and its
 * address is the context's name. The ring says nothing that the kernel relies on: of what the guest
 * may have written only the head is read, once, and taken modulo the ring's length; a guest that
 * writes nonsense loses its own events. A context belongs to the memory it was made in and goes
 * with it; a child of fork has the ring's bytes, but no context.
 *
 * An operation has its place in the ring before it begins (@busy), so that no event is lost for
 * want of room: without a place the call is EAGAIN.
 *
 * Locking: g_lock guards the lists of contexts. aio_ctx->lock (fmutex) is held while the ring is
 * read or written, which may fault, as a file's pos_lock is; no operation runs under it.
 *
 * Deviations from Linux: IOCB_CMD_POLL is EINVAL, as it was before 4.18. What waits (a read of an
 * empty pipe) waits within io_submit; io_destroy does not wait for it, and its event is dropped.
 * The ring is anonymous memory, and a context whose ring is moved (mremap) is lost. A ring that the
 * guest made unwritable loses events. A ring is no longer than was asked for, rounded up to a page.
 *
 * References: io_setup(2), io_submit(2), io_getevents(2), io_cancel(2), io_destroy(2), libaio.h.
 */
#include "sentry/aio.h"
#include "sentry/file_args.h"
#include "sentry/guest_time.h"
#include "sentry/mm_ops.h"

#include <errno.h>
#include <stddef.h>
#include "base/clock.h"
#include "vfs/eventfd.h"

#define RING_MAGIC 0xa10a10a1u
#define EVENTS_SENSIBLE (0x10000000u / 32 / 2) /* more is EINVAL, not EAGAIN */

enum { CMD_PREAD, CMD_PWRITE, CMD_FSYNC, CMD_FDSYNC, CMD_PREADV = 7, CMD_PWRITEV };
#define IOCB_FLAG_RESFD 1u

struct lx_iocb {
	uint64_t data;
	uint32_t key;
	int32_t rw_flags;
	uint16_t opcode;
	int16_t reqprio;
	uint32_t fd;
	uint64_t buf, nbytes;
	int64_t offset;
	uint64_t reserved2;
	uint32_t flags, resfd;
};
_Static_assert(sizeof(struct lx_iocb) == 64, "struct iocb");

struct lx_io_event {
	uint64_t data, obj;
	int64_t res, res2;
};
_Static_assert(sizeof(struct lx_io_event) == 32, "struct io_event");

struct lx_aio_ring {
	uint32_t id, nr, head, tail, magic, compat_features, incompat_features, header_length;
};
_Static_assert(sizeof(struct lx_aio_ring) == 32, "struct aio_ring");

struct aio_ctx {
	struct ref ref;
	struct aio_ctx *next; /* in mm->aio. [g_lock] */
	uint64_t ring, size;  /* where the ring is, in bytes */
	uint32_t asked, nr;   /* for how many events it was asked; how long the ring is */
	struct fmutex lock;
	uint32_t tail, busy;     /* [lock] */
	_Atomic uint64_t events; /* how many there ever were */
	_Atomic bool dead;       /* written under lock */
	struct waitq wait;
};

static struct mutex g_lock = MUTEX_INIT(RANK_MISC);
static _Atomic uint64_t g_asked;

uint64_t aio_events_asked(void)
{
	return atomic_load(&g_asked);
}

/* ---- contexts ---- */

static void ctx_put(struct aio_ctx *c)
{
	if (!ref_put(&c->ref))
		return;
	atomic_fetch_sub(&g_asked, c->asked);
	waitq_fini(&c->wait);
	fmutex_fini(&c->lock);
	meter_free(METER_buffers, c, sizeof(*c));
}

/* A reference, or NULL. */
static struct aio_ctx *ctx_get(struct task *t, uint64_t name)
{
	struct aio_ctx *c;

	mutex_lock(&g_lock);
	for (c = t->mm->aio; c && c->ring != name; c = c->next)
		;
	if (c)
		ref_get(&c->ref);
	mutex_unlock(&g_lock);
	return c;
}

/* Takes it off its list: the list's reference. NULL: somebody else did, or it never was. */
static struct aio_ctx *ctx_unlink(struct mm *mm, uint64_t name)
{
	struct aio_ctx **at, *c;

	mutex_lock(&g_lock);
	for (at = &mm->aio; *at && (*at)->ring != name; at = &(*at)->next)
		;
	c = *at;
	if (c)
		*at = c->next;
	mutex_unlock(&g_lock);
	return c;
}

void aio_end(struct mm *mm)
{
	struct aio_ctx *c;

	while ((c = mm->aio)) {
		mm->aio = c->next;
		ctx_put(c);
	}
}

/* Counts @n events as asked for, unless that were too many. */
static bool events_charge(uint32_t n)
{
	if (atomic_fetch_add(&g_asked, n) + n <= AIO_EVENTS_MAX)
		return true;
	atomic_fetch_sub(&g_asked, n);
	return false;
}

static struct aio_ctx *ctx_new(uint32_t asked)
{
	struct aio_ctx *c;

	if (!events_charge(asked))
		return NULL;
	c = meter_zalloc(METER_buffers, sizeof(*c));
	if (!c) {
		atomic_fetch_sub(&g_asked, asked);
		return NULL;
	}
	ref_init(&c->ref);
	fmutex_init(&c->lock);
	waitq_init(&c->wait);
	c->asked = asked;
	/* One place stays empty, so that a full ring is no empty one. */
	c->size = page_up(sizeof(struct lx_aio_ring) +
			  ((uint64_t)asked + 1) * sizeof(struct lx_io_event));
	c->nr = (uint32_t)((c->size - sizeof(struct lx_aio_ring)) / sizeof(struct lx_io_event));
	return c;
}

/* Ends a context that is on no list, and its ring: one that the guest has cut up is no error. */
static void ctx_kill(struct task *t, struct aio_ctx *c)
{
	fmutex_lock(&c->lock);
	atomic_store(&c->dead, true);
	fmutex_unlock(&c->lock);
	waitq_wake_all(&c->wait, 0);
	if (c->ring)
		(void)!mm_munmap(t, c->ring, c->size);
	ctx_put(c);
}

/* Makes the ring of a new context. */
static int ring_make(struct task *t, struct aio_ctx *c)
{
	const struct lx_aio_ring head = {.nr = c->nr,
					 .magic = RING_MAGIC,
					 .compat_features = 1,
					 .header_length = sizeof(head)};
	const long at = mm_mmap(t, 0, c->size, LX_PROT_READ | LX_PROT_WRITE,
				LX_MAP_PRIVATE | LX_MAP_ANONYMOUS, NULL, 0);

	if (at < 0)
		return (int)at;
	c->ring = (uint64_t)at;
	return copy_out(t, GADDR(c->ring), &head, sizeof(head)) ? -EAGAIN : 0;
}

long sys_io_setup(struct task *t, unsigned nr_events, gaddr_t ctxp)
{
	struct aio_ctx *c;
	uint64_t name;
	int r;

	if (copy_in(t, &name, ctxp, sizeof(name)))
		return -EFAULT;
	if (name || nr_events == 0 || nr_events > EVENTS_SENSIBLE)
		return -EINVAL;
	c = ctx_new(nr_events);
	if (!c)
		return -EAGAIN;
	r = ring_make(t, c);
	if (r) {
		ctx_kill(t, c);
		return r;
	}
	name = c->ring;
	mutex_lock(&g_lock);
	c->next = t->mm->aio;
	t->mm->aio = c;
	mutex_unlock(&g_lock);
	if (copy_out(t, ctxp, &name, sizeof(name)) == 0)
		return 0;
	/* Another thread may have guessed the name, and destroyed it. */
	c = ctx_unlink(t->mm, name);
	if (c)
		ctx_kill(t, c);
	return -EFAULT;
}

long sys_io_destroy(struct task *t, uint64_t ctx)
{
	struct aio_ctx *c = ctx_unlink(t->mm, ctx);

	if (!c)
		return -EINVAL;
	ctx_kill(t, c);
	return 0;
}

/* ---- the ring ---- */

static gaddr_t ring_field(const struct aio_ctx *c, size_t offset)
{
	return GADDR(c->ring + offset);
}

static gaddr_t ring_event(const struct aio_ctx *c, uint32_t i)
{
	return ring_field(c, sizeof(struct lx_aio_ring) + (uint64_t)i * sizeof(struct lx_io_event));
}

/* How many events stand in the ring, from *head on. -EINVAL: it is gone. -EFAULT. */
static int ring_ready(struct task *t, struct aio_ctx *c, uint32_t *head) REQUIRES(c->lock)
{
	/* Its memory may be another's by now. */
	if (atomic_load(&c->dead))
		return -EINVAL;
	if (copy_in(t, head, ring_field(c, offsetof(struct lx_aio_ring, head)), sizeof(*head)))
		return -EFAULT;
	*head %= c->nr;
	return (int)((c->tail + c->nr - *head) % c->nr);
}

/* A place for an event to come: 0, -EAGAIN, or as ring_ready. */
static int place_take(struct task *t, struct aio_ctx *c)
{
	uint32_t head;
	int r;

	fmutex_lock(&c->lock);
	r = ring_ready(t, c, &head);
	if (r >= 0) {
		const bool room = (uint32_t)r + c->busy < c->nr - 1;

		c->busy += room;
		r = room ? 0 : -EAGAIN;
	}
	fmutex_unlock(&c->lock);
	return r;
}

static void place_give(struct aio_ctx *c)
{
	fmutex_lock(&c->lock);
	c->busy--;
	fmutex_unlock(&c->lock);
}

/* Puts an event where a place was taken for it. */
static void ring_put(struct task *t, struct aio_ctx *c, const struct lx_io_event *ev)
{
	fmutex_lock(&c->lock);
	c->busy--;
	if (!atomic_load(&c->dead) && copy_out(t, ring_event(c, c->tail), ev, sizeof(*ev)) == 0) {
		const uint32_t tail = (c->tail + 1) % c->nr;

		if (copy_out(t, ring_field(c, offsetof(struct lx_aio_ring, tail)), &tail,
			     sizeof(tail)) == 0)
			c->tail = tail;
	}
	fmutex_unlock(&c->lock);
	atomic_fetch_add(&c->events, 1);
	waitq_wake_all(&c->wait, 0);
}

/* Moves what is ready, @max at most, to @to: how many, or as ring_ready. */
static long ring_take(struct task *t, struct aio_ctx *c, uint64_t to, long max)
{
	struct lx_io_event ev[16];
	long done = 0, r = 0;
	uint32_t head;

	fmutex_lock(&c->lock);
	r = ring_ready(t, c, &head);
	max = MIN(max, r);
	while (done < max) {
		const uint32_t n =
			MIN(MIN((uint32_t)ARRAY_SIZE(ev), (uint32_t)(max - done)), c->nr - head);
		const size_t bytes = n * sizeof(ev[0]);

		if (copy_in(t, ev, ring_event(c, head), bytes) ||
		    copy_out(t, GADDR(to + (uint64_t)done * sizeof(ev[0])), ev, bytes)) {
			r = -EFAULT;
			break;
		}
		head = (head + n) % c->nr;
		done += n;
	}
	/* What could not be given stays there, all of it. */
	if (r > 0 &&
	    copy_out(t, ring_field(c, offsetof(struct lx_aio_ring, head)), &head, sizeof(head)))
		r = -EFAULT;
	fmutex_unlock(&c->lock);
	return r < 0 ? r : done;
}

/* ---- io_submit, io_cancel ---- */

/* A read or a write: 0 with *res, or -errno if it could not begin. */
static int submit_rw(struct task *t, struct file *f, const struct lx_iocb *cb, int64_t *res)
{
	const bool write = cb->opcode == CMD_PWRITE || cb->opcode == CMD_PWRITEV;
	const bool vector = cb->opcode == CMD_PREADV || cb->opcode == CMD_PWRITEV;
	int64_t pos = cb->offset, *at = f->ops->stream ? NULL : &pos;
	struct user_iov v;
	struct uio u;
	int r;

	if (cb->rw_flags & ~(write ? RWF_WRITE_OK : RWF_READ_OK))
		return -EOPNOTSUPP;
	if (!(f->fmode & (write ? FMODE_WRITE : FMODE_READ)))
		return -EBADF;
	if (!(write ? f->ops->write != NULL : f->ops->read != NULL))
		return -EINVAL;
	r = vector ? uio_from_iovec(t, &u, &v, GADDR(cb->buf), cb->nbytes)
		   : uio_from_buf(t, &u, &v, GADDR(cb->buf), cb->nbytes);
	if (r < 0)
		return r;
	if (at && pos < 0) {
		user_iov_free(&v);
		return -EINVAL;
	}
	*res = write ? file_write_flags(t, f, &u, at, cb->rw_flags)
		     : file_read_flags(t, f, &u, at, cb->rw_flags);
	user_iov_free(&v);
	/* There is no going on with it later. */
	if (*res == -ERESTARTSYS)
		*res = -EINTR;
	return 0;
}

static int submit_fsync(struct file *f, const struct lx_iocb *cb, int64_t *res)
{
	if (cb->buf || cb->offset || cb->nbytes || cb->rw_flags)
		return -EINVAL;
	*res = vfs_fsync(f, cb->opcode == CMD_FDSYNC);
	/* That a file cannot be synced is known before. */
	return *res == -EINVAL ? -EINVAL : 0;
}

static int submit_op(struct task *t, struct file *f, const struct lx_iocb *cb, int64_t *res)
{
	switch (cb->opcode) {
	case CMD_PREAD:
	case CMD_PWRITE:
	case CMD_PREADV:
	case CMD_PWRITEV:
		return submit_rw(t, f, cb, res);
	case CMD_FSYNC:
	case CMD_FDSYNC:
		return submit_fsync(f, cb, res);
	default:
		return -EINVAL;
	}
}

/* The eventfd that is to hear of it: *out NULL if none is asked for. */
static int get_resfd(struct task *t, const struct lx_iocb *cb, struct file **out)
{
	*out = NULL;
	if (!(cb->flags & IOCB_FLAG_RESFD))
		return 0;
	*out = fd_get_nopath(t->files, (int)cb->resfd);
	if (!*out)
		return -EBADF;
	if (file_is_eventfd(*out))
		return 0;
	file_put(*out);
	*out = NULL;
	return -EINVAL;
}

/* One operation, for which there is a place: 0 if its event was put there. */
static int submit_placed(struct task *t, struct aio_ctx *c, const struct lx_iocb *cb, uint64_t obj)
{
	struct lx_io_event ev = {.data = cb->data, .obj = obj};
	struct file *f = fd_get_nopath(t->files, (int)cb->fd), *tell = NULL;
	const uint32_t key = 0;
	int r;

	if (!f)
		return -EBADF;
	r = get_resfd(t, cb, &tell);
	if (r == 0 && copy_out(t, GADDR(obj + offsetof(struct lx_iocb, key)), &key, sizeof(key)))
		r = -EFAULT;
	if (r == 0)
		r = submit_op(t, f, cb, &ev.res);
	if (r == 0) {
		ring_put(t, c, &ev);
		if (tell)
			(void)eventfd_signal(tell, 1);
	}
	if (tell)
		file_put(tell);
	file_put(f);
	return r;
}

static int submit_one(struct task *t, struct aio_ctx *c, uint64_t obj)
{
	struct lx_iocb cb;
	int r;

	if (copy_in(t, &cb, GADDR(obj), sizeof(cb)))
		return -EFAULT;
	if (cb.reserved2 || (int64_t)cb.nbytes < 0)
		return -EINVAL;
	r = place_take(t, c);
	if (r)
		return r;
	r = submit_placed(t, c, &cb, obj);
	if (r)
		place_give(c);
	return r;
}

long sys_io_submit(struct task *t, uint64_t ctx, long nr, gaddr_t iocbpp)
{
	struct aio_ctx *c;
	long done = 0, r = 0;

	if (nr < 0)
		return -EINVAL;
	c = ctx_get(t, ctx);
	if (!c)
		return -EINVAL;
	for (nr = MIN(nr, (long)c->nr); done < nr; done++) {
		uint64_t obj;

		/* Each may take long: who is killed begins no other. */
		if (done && fiber_killed(fiber_self()))
			break;
		r = -EFAULT;
		if (copy_in(t, &obj, GADDR(iocbpp.a + (uint64_t)done * sizeof(obj)), sizeof(obj)))
			break;
		r = submit_one(t, c, obj);
		if (r)
			break;
	}
	ctx_put(c);
	return done ? done : r;
}

/* All was carried out when io_submit came back: there never is anything to cancel. */
long sys_io_cancel(struct task *t, uint64_t ctx UNUSED, gaddr_t iocb, gaddr_t result UNUSED)
{
	uint32_t key;

	if (copy_in(t, &key, GADDR(iocb.a + offsetof(struct lx_iocb, key)), sizeof(key)))
		return -EFAULT;
	return -EINVAL;
}

/* ---- io_getevents ---- */

/* Waits until @min of them are there, a signal comes or the time is over. */
static long get_events(struct task *t, struct aio_ctx *c, long min, long max, gaddr_t to,
		       uint64_t deadline)
{
	long got = 0;

	for (;;) {
		const uint64_t seen = atomic_load(&c->events);
		const long n = ring_take(t, c, to.a + (uint64_t)got * sizeof(struct lx_io_event),
					 max - got);
		int r;

		if (n < 0)
			return got ? got : n;
		got += n;
		if (got >= min || deadline == 0)
			return got;
		r = wait_event(&c->wait, atomic_load(&c->events) != seen || atomic_load(&c->dead),
			       deadline, WAIT_INTR);
		if (r == -ETIMEDOUT)
			return got;
		if (r)
			return got ? got : -EINTR;
	}
}

/* As Linux: what is no proper time is not an error here, and what is over is over. */
static int copy_in_wait(struct task *t, gaddr_t timeout, uint64_t *deadline)
{
	struct lx_timespec ts;
	uint64_t ns;

	*deadline = DEADLINE_NONE;
	if (!timeout.a)
		return 0;
	if (copy_in(t, &ts, timeout, sizeof(ts)))
		return -EFAULT;
	if (!timespec_to_ns(&ts, &ns) || ns == 0)
		*deadline = 0;
	else
		*deadline = deadline_after(clock_mono_ns(), ns);
	return 0;
}

static long do_getevents(struct task *t, uint64_t ctx, long min_nr, long nr, gaddr_t events,
			 uint64_t deadline)
{
	struct aio_ctx *c = ctx_get(t, ctx);
	long r;

	if (!c)
		return -EINVAL;
	r = min_nr > nr || min_nr < 0 ? -EINVAL : get_events(t, c, min_nr, nr, events, deadline);
	ctx_put(c);
	return r;
}

long sys_io_getevents(struct task *t, uint64_t ctx, long min_nr, long nr, gaddr_t events,
		      gaddr_t timeout)
{
	uint64_t deadline;

	if (copy_in_wait(t, timeout, &deadline))
		return -EFAULT;
	return do_getevents(t, ctx, min_nr, nr, events, deadline);
}

long sys_io_pgetevents(struct task *t, uint64_t ctx, long min_nr, long nr, gaddr_t events,
		       gaddr_t timeout, gaddr_t sig)
{
	struct lx_sigset_arg arg = {0};
	uint64_t deadline;
	long r;

	if (copy_in_wait(t, timeout, &deadline) || (sig.a && copy_in(t, &arg, sig, sizeof(arg))))
		return -EFAULT;
	r = take_temp_mask(t, GADDR(arg.set), arg.size);
	if (r < 0)
		return r;
	r = do_getevents(t, ctx, min_nr, nr, events, deadline);
	if (r == -EINTR)
		r = -ERESTARTNOHAND;
	else if (arg.set)
		signal_restore_temp_mask(t);
	return r;
}
