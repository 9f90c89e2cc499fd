/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: what the guest was refused and what it did, for people and programs (moat run
 * --audit=FILE, moat report).
 *
 *   audit.c         what is noted where, and the events that are made of it
 *   audit_denied.c  denials: which path, which rule, what would allow it, the line on stderr
 *   audit_missed.c  what is looked for in vain, and is not granted
 *   audit_files.c   which files were read and written
 *   audit_event.c   one event as a line of JSON; names of the guest's, quoted
 *   audit_out.c     rates, the queue, the way to the monitor, samples of the meters
 *
 * Theory of operation: where something is refused, whoever refuses it leaves a note in the calling
 * task (audit_denied, audit_limit), under whatever locks it holds. At the end of the system call,
 * with no lock held, the task's fiber makes an event of it: there the call can be decoded, its path
 * walked and its stack unwound. What no task is to blame for becomes an event at once.
 *
 * An event goes through its kind's token bucket and into a queue, from which it is written to a
 * pipe without ever waiting. The monitor holds the other end and the file (runtime/audit_log.c).
 * What a bucket or the queue did not let pass is counted, and the counts are events, too.
 *
 * Trust: all text of the guest's (names, arguments, decoded calls) is quoted so that the bytes are
 * printable UTF-8 and cannot end the string that they stand in (audit_quote).
 *
 * Locking: the note is the task's own. The queue's lock is a leaf; nothing waits under it. The
 * functions here may be called with any lock but a leaf held, unless they say otherwise.
 * audit_limit takes none.
 */
#ifndef MOAT_SENTRY_AUDIT_H
#define MOAT_SENTRY_AUDIT_H

#include "base/err.h"
#include "base/meter.h"
#include "base/types.h"
#include "sentry/grant.h"

struct dentry;
struct file;
struct mount;
struct task;
struct tgroup;
struct walk;

/* Does anybody want to know (--audit, --verbose)? Constant once the first guest runs. */
extern bool g_audit;

enum audit_why {
	AUDIT_NONE,
	AUDIT_HIDDEN,     /* a rule hides the path */
	AUDIT_READ_ONLY,  /* the path may be read only */
	AUDIT_PRIVATE,    /* not everybody of the host may read it */
	AUDIT_NO_EXEC,    /* nothing of there may be executed */
	AUDIT_NO_DEVICE,  /* device nodes mean nothing there, or there is no such device */
	AUDIT_NO_NETWORK, /* a socket that would lead out of the sandbox */
	AUDIT_NO_MOUNT,   /* mount, umount, pivot_root */
	AUDIT_NO_SPACES,  /* new name spaces */
	AUDIT_REFUSED,    /* a system call that is refused by its number */
	AUDIT_NOT_SERVED, /* a system call that moat does not have */
	AUDIT_WHYS
};

/* The calling task's system call is being refused because of @why. @mnt: the mount that decides,
 * or NULL; @rule: the rule of the grant, or NULL: found by the mount. Only what is followed by an
 * error of the call becomes a denial; the first note of a call counts. Outside of a task: nothing.
 */
void audit_denied(enum audit_why why, struct mount *mnt, const struct grant_path *rule);
/* The first program @name, which no call executes, was refused: says which rule lacks what in @e,
 * if that is why. */
void audit_first_refused(struct task *t, const char *name, struct err *e);

/* A meter refused something to the calling task, or to nobody. What base/meter.h refuses is noted
 * by itself (g_meter_on_refusal); this is for what others decide. Neither blocks nor allocates. */
void audit_limit(enum meter which);
/* Says on standard error that somebody was killed because of a limit, which is @fmt. */
void audit_say_killed(enum meter which, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A process is killed, or with tgid 0 all of them, because of a limit: @used is what was used. */
void audit_killed(enum meter which, int32_t tgid, uint64_t used);
/* Anything else that is worth a line: @event is a fixed word, the rest a sentence. */
void audit_event(const char *event, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- by the loop and the process model ---- */

/* At the end of each system call of @t's, which will return @ret: makes the event of a denial. Own
 * fiber, no lock. */
void audit_served(struct task *t, long ret);
/* struct vfs_hooks, missed. */
void audit_missed(const struct walk *w, struct dentry *d, uint64_t key, bool hidden);
/* @t's call, which returns @ret, has looked for t->audit.missed. Own fiber, no lock. */
void audit_missed_end(struct task *t, long ret);
/* At the end of each trap of @t's if t->audit.any: makes the events of its notes. Own fiber, no
 * lock. */
void audit_flush(struct task *t);
/* @f has been opened. Any fiber; fibers' locks may be held. */
void audit_opened(struct file *f);
/* struct vfs_hooks, changed. */
void audit_changed(struct dentry *d, uint32_t mask, uint32_t cookie);
void audit_forked(struct task *parent, struct task *child);
/* @t has become another program: @path, and its arguments. */
void audit_exec(struct task *t, const char *path, const char *const *argv, unsigned argc);
/* The last thread of its process, @t, ends; @status: the process's, in wait's form. Own fiber. */
void audit_exited(struct task *t, int status);

/* ---- by the launcher ---- */

struct audit_spec {
	int fd;       /* the pipe to the monitor; -1: no log */
	bool verbose; /* denials on stderr, at once, even without a log */
	bool raw_tty; /* lines on stderr end with \r\n */
	const char *const *argv;
	const char *platform;
	const char *cwd;
	const char *const *walls; /* what of the second wall is active; NULL-terminated, or NULL */
};
/* The log is of this form. */
#define AUDIT_LOG_VERSION 1

/* Before the first guest runs and before the sentry confines itself. */
int audit_start(const struct audit_spec *spec, struct err *e) MUST_USE;
/* After the last guest: the last counts, and all that is queued. */
void audit_stop(void);

#endif
