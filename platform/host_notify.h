/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls of the notify platform: seccomp's user notification.
 */
#ifndef MOAT_PLATFORM_HOST_NOTIFY_H
#define MOAT_PLATFORM_HOST_NOTIFY_H

#include <linux/seccomp.h>
#include "base/err.h"
#include "base/types.h"

/* The host may write more than the fields that we know. */
union pf_host_notice {
	struct seccomp_notif n;
	uint8_t room[256];
};

/* Can this host notify? 0, or -errno with the reason in @e. */
int pf_host_probe_notify(struct err *e);
/* The flags with which the filter is to be installed so that there is a listener. */
uint64_t pf_host_notify_flags(void);
/* Does a thread whose notification was received sleep through signals that do not kill it? */
bool pf_host_notify_is_killable(void);
/* Who notifies and who is notified are to run on one processor. Where the host has no such thing
 * nothing happens. */
void pf_host_notify_sync(int listener);

/* Sleeps until @listener has a notification (1), or @stop can be read (0), or no process is left
 * that could notify (-ESRCH). */
int pf_host_notify_wait(int listener, int stop);
/* 0; -ENOENT: it was taken back; -EINTR. */
int pf_host_notify_recv(int listener, union pf_host_notice *notice);
/* Does the thread that sent notification @id still wait for its answer? */
bool pf_host_notify_valid(int listener, uint64_t id);
/* The call returns @value. 0; -ENOENT: nobody waits for it. */
int pf_host_notify_answer(int listener, uint64_t id, uint64_t value);

/* An eventfd, or -errno; and its event. */
int pf_host_notify_event(void);
void pf_host_notify_event_set(int fd);

#endif
