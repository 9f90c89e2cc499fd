/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that the platform may give in the guest; see sentry/answers.c.
 */
#ifndef MOAT_SENTRY_ANSWERS_H
#define MOAT_SENTRY_ANSWERS_H

#include "sentry/process.h"

/* Before @t's thread runs, by its fiber. No lock held. */
void answers_publish(struct task *t);
/* After a change of what answers_publish tells of whatever task: ids, parents, groups, sessions,
 * credentials, umask, limits, names of the system, the processor mask. Any thread, any lock. */
void answers_stale(void);
/* There is one task more: who was told to be alone is so no longer. */
void answers_not_alone_locked(void) REQUIRES(g_kernel.tasklist);

/* What the platform has answered alone and @t has to take over, after run(). The head of the list
 * of robust futexes of whatever task, as it is now. */
void answers_take(struct task *t, const struct pf_trap *trap);
uint64_t answers_robust_list(struct task *t);

/* What @t has read so far, from whatever descriptor: calls, bytes. */
void answers_reads(struct task *t, uint64_t *calls, uint64_t *bytes);
/* @t has read @f, its descriptor @fd, at @pos: the next time it may not have to ask. */
void answers_read(struct task *t, int fd, struct file *f, int64_t pos);

/* The signal mask of a task that runs is the one in its answers, since the guest may change it
 * there. Around the platform's run(): give, before in_guest is set; given, after that; take, before
 * it is cleared. */
void answers_mask_give(struct task *t);
void answers_mask_given(struct task *t);
void answers_mask_take(struct task *t);
/* The mask of whatever task, as it is now; and @sig was queued for it: then look at its mask
 * (anew). */
lx_sigset_t answers_blocked(struct task *t) REQUIRES(g_kernel.tasklist);
void answers_mark_pending(struct task *t, int sig) REQUIRES(g_kernel.tasklist);
/* @sig of a timer was ignored (tg->timers_held has it): who stops ignoring it is to say so. */
void answers_mark_held_locked(struct tgroup *tg, int sig) REQUIRES(g_kernel.tasklist);

/* Likewise the signal actions of a thread that shares them with nobody: give, before it runs;
 * answers_take takes them. When they are to be shared, by its own fiber: share. The handler for
 * @sig of whatever task, as it is now; what PF_ACTION_KEPT says of it stands in t->sighand. */
void answers_actions_give(struct task *t);
void answers_actions_share(struct task *t);
uint64_t answers_handler_locked(struct task *t, int sig) REQUIRES(g_kernel.tasklist);

#endif
