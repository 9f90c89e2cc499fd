/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readiness of host descriptors: one thread with an epoll that turns host events into wake-ups.
 */
#ifndef MOAT_BASE_HOSTPOLL_H
#define MOAT_BASE_HOSTPOLL_H

#include "base/types.h"

/* One watched descriptor. The callback runs on the poll thread, edge-triggered, with poll(2) bits;
 * it takes short locks only, and may be called once too often. */
struct hostwatch {
	int fd;
	void (*fn)(struct hostwatch *w, uint32_t poll_events);
};

int hostpoll_start(void) MUST_USE;
void hostpoll_stop(void);
/* Watches w->fd for @poll_events (POLLIN|POLLOUT|…). -EPERM for descriptors that epoll cannot watch
 * (regular files: always ready). */
int hostwatch_add(struct hostwatch *w, uint32_t poll_events) MUST_USE;
/* Watches for other events from now on; an event that holds already is reported again. */
int hostwatch_set(struct hostwatch *w, uint32_t poll_events) MUST_USE;
/* After it returns fn does not run any more (or it is fn that calls it). Nothing happens if it was
 * not added. The caller holds no lock that fn takes. Before the descriptor is closed. */
void hostwatch_del(struct hostwatch *w);

#endif
