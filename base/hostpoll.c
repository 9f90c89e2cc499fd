/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readiness of host descriptors. See base/hostpoll.h.
 *
 * Theory of operation: one thread sleeps in epoll_wait. An event that it has fetched may be for a
 * watch that was deleted, and freed, since; so it looks the pointer up in the table of live
 * watches, and names it in g_calling, under one lock, before it touches it. hostwatch_del() takes
 * it out of the epoll set and the table, and waits while it is the one being called. A new watch at
 * an old one's address may get an event too many: callbacks look at the descriptor, so that does no
 * harm.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/err.h"
#include "base/hash.h"
#include "base/hostcall.h"
#include "base/hostpoll.h"
#include "base/lock.h"
#include "base/thread.h"

#define BATCH 64

static struct mutex g_poll_lock = MUTEX_INIT(RANK_LEAF);
static struct cond g_poll_cond; /* a callback ended */
static int g_epoll_fd = -1;
static int g_wake_fd = -1;
static pthread_t g_poll_thread;
static _Atomic bool g_poll_stop;
/* All [g_poll_lock]. */
static struct htable g_watches;
static struct hostwatch *g_calling;

static uint64_t watch_hash(const struct hostwatch *w)
{
	return hash_u64((uint64_t)(uintptr_t)w);
}

static bool watch_is(const void *entry, const void *key)
{
	return entry == key;
}

static void poll_call(struct hostwatch *w, uint32_t events)
{
	mutex_lock(&g_poll_lock);
	if (htable_find(&g_watches, watch_hash(w), watch_is, w)) {
		g_calling = w;
		mutex_unlock(&g_poll_lock);
		/* EPOLL* and POLL* are the same bits. */
		w->fn(w, events);
		mutex_lock(&g_poll_lock);
		g_calling = NULL;
		cond_tell_all(&g_poll_cond, &g_poll_lock);
	}
	mutex_unlock(&g_poll_lock);
}

static void *poll_main(void *arg)
{
	(void)arg;
	while (!atomic_load(&g_poll_stop)) {
		struct epoll_event events[BATCH];
		int n = HOST(epoll_wait_poll, epoll_wait(g_epoll_fd, events, BATCH, -1));

		if (n < 0 && errno != EINTR)
			panic("epoll_wait: %s", err_text(errno));
		for (int i = 0; i < n; i++) {
			/* NULL: the wake-up descriptor. */
			if (events[i].data.ptr)
				poll_call(events[i].data.ptr, events[i].events);
		}
	}
	return NULL;
}

int hostpoll_start(void)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int r;

	BUG_ON(g_epoll_fd >= 0);
	g_epoll_fd = HOST(epoll_create1_poll, epoll_create1(EPOLL_CLOEXEC));
	g_wake_fd = HOST(eventfd2_poll, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (g_epoll_fd < 0 || g_wake_fd < 0 ||
	    HOST(epoll_ctl_poll, epoll_ctl(g_epoll_fd, EPOLL_CTL_ADD, g_wake_fd, &ev)) != 0) {
		r = -errno;
		goto fail;
	}
	atomic_store(&g_poll_stop, false);
	r = thread_start(&g_poll_thread, poll_main, NULL, "moat-poll");
	if (r)
		goto fail;
	return 0;
fail:
	if (g_epoll_fd >= 0)
		HOST(close_fd, close(g_epoll_fd));
	if (g_wake_fd >= 0)
		HOST(close_fd, close(g_wake_fd));
	g_epoll_fd = g_wake_fd = -1;
	return r;
}

void hostpoll_stop(void)
{
	uint64_t one = 1;

	if (g_epoll_fd < 0)
		return;
	atomic_store(&g_poll_stop, true);
	if (HOST(write_poll, write(g_wake_fd, &one, sizeof(one))) != sizeof(one))
		panic("eventfd: %s", err_text(errno));
	pthread_join(g_poll_thread, NULL);
	HOST(close_fd, close(g_epoll_fd));
	HOST(close_fd, close(g_wake_fd));
	g_epoll_fd = g_wake_fd = -1;
	mutex_lock(&g_poll_lock);
	htable_fini(&g_watches);
	mutex_unlock(&g_poll_lock);
}

int hostwatch_add(struct hostwatch *w, uint32_t poll_events)
{
	struct epoll_event ev = {.events = poll_events | EPOLLET, .data.ptr = w};
	int r;

	BUG_ON(g_epoll_fd < 0);
	mutex_lock(&g_poll_lock);
	r = htable_insert(&g_watches, watch_hash(w), w);
	if (r == 0 && HOST(epoll_ctl_poll, epoll_ctl(g_epoll_fd, EPOLL_CTL_ADD, w->fd, &ev)) != 0) {
		r = -errno;
		htable_remove(&g_watches, watch_hash(w), w);
	}
	mutex_unlock(&g_poll_lock);
	return r;
}

int hostwatch_set(struct hostwatch *w, uint32_t poll_events)
{
	struct epoll_event ev = {.events = poll_events | EPOLLET, .data.ptr = w};

	BUG_ON(g_epoll_fd < 0);
	return HOST(epoll_ctl_poll, epoll_ctl(g_epoll_fd, EPOLL_CTL_MOD, w->fd, &ev)) == 0 ? 0
											   : -errno;
}

void hostwatch_del(struct hostwatch *w)
{
	mutex_lock(&g_poll_lock);
	if (htable_remove(&g_watches, watch_hash(w), w)) {
		/* The descriptor may be closed already: then it is out of the set. */
		HOST(epoll_ctl_poll, epoll_ctl(g_epoll_fd, EPOLL_CTL_DEL, w->fd, NULL));
		/* A callback may delete its own watch. */
		while (g_calling == w && !pthread_equal(g_poll_thread, pthread_self()))
			cond_wait(&g_poll_cond, &g_poll_lock);
	}
	mutex_unlock(&g_poll_lock);
}
