/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOL_SOCKET options that all families share.
 *
 * References: socket(7), getsockopt(2).
 */
#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "base/lx_time.h"
#include "netstack/socket.h"

#define BUF_MAX 212992u /* net.core.{r,w}mem_max */
#define SNDBUF_MIN 4608u
#define RCVBUF_MIN 2304u
#define HZ (NSEC_PER_SEC / LX_TICK_NS)

/* Options that are one bit, read and written as an int. */
static const struct {
	int name;
	enum sock_flag flag;
} g_flag_options[] = {
	{LX_SO_REUSEADDR, SKF_REUSEADDR}, {LX_SO_REUSEPORT, SKF_REUSEPORT},
	{LX_SO_KEEPALIVE, SKF_KEEPALIVE}, {LX_SO_BROADCAST, SKF_BROADCAST},
	{LX_SO_OOBINLINE, SKF_OOBINLINE}, {LX_SO_DONTROUTE, SKF_DONTROUTE},
	{LX_SO_PASSCRED, SKF_PASSCRED},   {LX_SO_PASSSEC, SKF_PASSSEC},
	{LX_SO_TIMESTAMP, SKF_TIMESTAMP}, {LX_SO_TIMESTAMPNS, SKF_TIMESTAMPNS},
	{LX_SO_RXQ_OVFL, SKF_RXQ_OVFL},
};

static void set_flag(struct socket *s, enum sock_flag flag, bool on)
{
	if (on)
		atomic_fetch_or(&s->flags, flag);
	else
		atomic_fetch_and(&s->flags, ~(uint32_t)flag);
}

static bool flag_option(int name, enum sock_flag *flag)
{
	for (unsigned i = 0; i < ARRAY_SIZE(g_flag_options); i++) {
		if (g_flag_options[i].name == name) {
			*flag = g_flag_options[i].flag;
			return true;
		}
	}
	return false;
}

/* Rounded up to ticks, which getsockopt shows, as on Linux. */
static int set_timeout(_Atomic uint64_t *timeo, const void *val, size_t size)
{
	struct lx_timeval tv;

	if (size < sizeof(tv))
		return -EINVAL;
	memcpy(&tv, val, sizeof(tv));
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000)
		return -EDOM;
	if (tv.tv_sec < 0)
		atomic_store(timeo, SOCK_TIMEO_NOW);
	else if ((uint64_t)tv.tv_sec >= INT64_MAX / HZ - 1)
		atomic_store(timeo, 0);
	else
		atomic_store(timeo, (uint64_t)tv.tv_sec * HZ +
					    ((uint64_t)tv.tv_usec * NSEC_PER_USEC + LX_TICK_NS -
					     1) / LX_TICK_NS);
	return 0;
}

static int set_linger(struct socket *s, const void *val, size_t size)
{
	struct lx_linger l;

	if (size < sizeof(l))
		return -EINVAL;
	memcpy(&l, val, sizeof(l));
	if (l.l_onoff)
		atomic_store(&s->linger, l.l_linger);
	set_flag(s, SKF_LINGER, l.l_onoff != 0);
	return 0;
}

/* The kernel's own need doubles what is asked. */
static void set_buffer(_Atomic uint32_t *buf, int32_t val, uint32_t max, uint32_t min)
{
	uint64_t want = val < 0 ? (uint64_t)max : MIN((uint64_t)val, (uint64_t)max);

	atomic_store(buf, (uint32_t)MAX(want * 2, (uint64_t)min));
}

int sock_set_common(struct vfs_ctx *c, struct socket *s, int name, const void *val, size_t size)
{
	bool admin = cred_capable(c->cred, LX_CAP_NET_ADMIN);
	enum sock_flag flag;
	int32_t v;

	if (size < sizeof(v))
		return -EINVAL;
	memcpy(&v, val, sizeof(v));
	if (flag_option(name, &flag)) {
		set_flag(s, flag, v != 0);
		if (flag == SKF_TIMESTAMP && v)
			set_flag(s, SKF_TIMESTAMPNS, false);
		if (flag == SKF_TIMESTAMPNS && v)
			set_flag(s, SKF_TIMESTAMP, false);
		return 0;
	}
	switch (name) {
	case LX_SO_DEBUG:
		if (v && !admin)
			return -EACCES;
		set_flag(s, SKF_DEBUG, v != 0);
		return 0;
	case LX_SO_SNDBUFFORCE:
		if (!admin)
			return -EPERM;
		set_buffer(&s->sndbuf, v < 0 ? 0 : v, INT32_MAX / 2, SNDBUF_MIN);
		return 0;
	case LX_SO_SNDBUF:
		set_buffer(&s->sndbuf, v, BUF_MAX, SNDBUF_MIN);
		/* Who waits for room may have it now. */
		waitq_wake(&s->wq, LX_POLLOUT | LX_POLLWRNORM);
		return 0;
	case LX_SO_RCVBUFFORCE:
		if (!admin)
			return -EPERM;
		set_buffer(&s->rcvbuf, v < 0 ? 0 : v, INT32_MAX / 2, RCVBUF_MIN);
		return 0;
	case LX_SO_RCVBUF:
		set_buffer(&s->rcvbuf, v, BUF_MAX, RCVBUF_MIN);
		return 0;
	case LX_SO_PRIORITY:
		if ((v < 0 || v > 6) && !admin && !cred_capable(c->cred, LX_CAP_NET_RAW))
			return -EPERM;
		atomic_store(&s->priority, v);
		return 0;
	case LX_SO_MARK:
		if (!admin && !cred_capable(c->cred, LX_CAP_NET_RAW))
			return -EPERM;
		atomic_store(&s->mark, v);
		return 0;
	case LX_SO_RCVLOWAT:
		atomic_store(&s->rcvlowat, v < 0 ? INT32_MAX : (v ? v : 1));
		return 0;
	case LX_SO_LINGER:
		return set_linger(s, val, size);
	case LX_SO_RCVTIMEO:
	case LX_SO_RCVTIMEO_NEW:
		return set_timeout(&s->rcvtimeo, val, size);
	case LX_SO_SNDTIMEO:
	case LX_SO_SNDTIMEO_NEW:
		return set_timeout(&s->sndtimeo, val, size);
	case LX_SO_NO_CHECK:
	case LX_SO_BSDCOMPAT:
	case LX_SO_SELECT_ERR_QUEUE:
		return 0;
	case LX_SO_DETACH_FILTER:
		return -ENOENT;
	default:
		return -ENOPROTOOPT;
	}
}

static int put_value(void *val, size_t *size, const void *v, size_t n)
{
	*size = MIN(*size, n);
	memcpy(val, v, *size);
	return 0;
}

static int put_int(void *val, size_t *size, int32_t v)
{
	return put_value(val, size, &v, sizeof(v));
}

static int put_timeout(void *val, size_t *size, uint64_t ticks)
{
	struct lx_timeval tv = {0};

	if (ticks != SOCK_TIMEO_NOW) {
		tv.tv_sec = (int64_t)(ticks / HZ);
		tv.tv_usec = (int64_t)(ticks % HZ * LX_TICK_NS / NSEC_PER_USEC);
	}
	return put_value(val, size, &tv, sizeof(tv));
}

int sock_get_common(struct socket *s, int name, void *val, size_t *size)
{
	uint32_t flags = atomic_load(&s->flags);
	enum sock_flag flag;

	if (flag_option(name, &flag))
		return put_int(val, size, (flags & flag) != 0);
	switch (name) {
	case LX_SO_DEBUG:
		return put_int(val, size, (flags & SKF_DEBUG) != 0);
	case LX_SO_SNDBUF:
		return put_int(val, size, (int32_t)atomic_load(&s->sndbuf));
	case LX_SO_RCVBUF:
		return put_int(val, size, (int32_t)atomic_load(&s->rcvbuf));
	case LX_SO_TYPE:
		return put_int(val, size, s->type);
	case LX_SO_PROTOCOL:
		return put_int(val, size, s->protocol);
	case LX_SO_DOMAIN:
		return put_int(val, size, s->family->family);
	case LX_SO_ERROR:
		return put_int(val, size, -sock_error(s));
	case LX_SO_PRIORITY:
		return put_int(val, size, atomic_load(&s->priority));
	case LX_SO_MARK:
		return put_int(val, size, atomic_load(&s->mark));
	case LX_SO_LINGER: {
		struct lx_linger l = {.l_onoff = (flags & SKF_LINGER) != 0,
				      .l_linger = atomic_load(&s->linger)};

		return put_value(val, size, &l, sizeof(l));
	}
	case LX_SO_RCVTIMEO:
	case LX_SO_RCVTIMEO_NEW:
		return put_timeout(val, size, atomic_load(&s->rcvtimeo));
	case LX_SO_SNDTIMEO:
	case LX_SO_SNDTIMEO_NEW:
		return put_timeout(val, size, atomic_load(&s->sndtimeo));
	case LX_SO_RCVLOWAT:
		return put_int(val, size, atomic_load(&s->rcvlowat));
	case LX_SO_SNDLOWAT:
		return put_int(val, size, 1);
	case LX_SO_ACCEPTCONN:
		return put_int(val, size, (flags & SKF_ACCEPTCONN) != 0);
	case LX_SO_COOKIE: {
		uint64_t cookie = s->cookie;

		if (*size < sizeof(cookie))
			return -EINVAL;
		return put_value(val, size, &cookie, sizeof(cookie));
	}
	case LX_SO_NO_CHECK:
	case LX_SO_BSDCOMPAT:
	case LX_SO_SELECT_ERR_QUEUE:
		return put_int(val, size, 0);
	default:
		return -ENOPROTOOPT;
	}
}
