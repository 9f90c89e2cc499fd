/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program looks for, does not find, and might be on the host.
 *
 * Theory of operation: the walk says so (vfs/missed.c), under whatever locks it holds: the path
 * goes into the summary (sentry/summary.h), not ready yet. At the end of the system call it is
 * known whether the call has failed because of that; then it is ready, and with an audit log the
 * event is made, as for other denials. What becomes of it is the monitor's to say, when the sandbox
 * is gone: here nobody knows whether the host has such a file.
 */
#include "sentry/audit_internal.h"

#include "sentry/summary.h"
#include "sentry/syscall_table.h"
#include "sentry/task.h"
#include "vfs/namei.h"

#include <string.h>

static enum summary_use use_of_flags(uint64_t flags)
{
	if (flags & LX_O_CREAT)
		return SUMMARY_CREATE;
	return (flags & LX_O_ACCMODE) == LX_O_RDONLY ? SUMMARY_READ : SUMMARY_WRITE;
}

static enum summary_use use_of(const struct task *t, unsigned nr)
{
	uint64_t r[6];

	syscall_args(t, r);
	switch (nr) {
	case NR_open:
		return use_of_flags(r[1]);
	case NR_openat:
		return use_of_flags(r[2]);
	case NR_creat:
		return SUMMARY_CREATE;
	case NR_truncate:
	case NR_chmod:
	case NR_fchmodat:
	case NR_chown:
	case NR_lchown:
	case NR_fchownat:
	case NR_utime:
	case NR_utimes:
	case NR_futimesat:
	case NR_utimensat:
		return SUMMARY_WRITE;
	case NR_mkdir:
	case NR_mkdirat:
	case NR_mknod:
	case NR_mknodat:
	case NR_symlink:
	case NR_symlinkat:
	case NR_link:
	case NR_linkat:
	case NR_rename:
	case NR_renameat:
	case NR_renameat2:
	case NR_bind:
		return SUMMARY_NAME;
	case NR_unlink:
	case NR_unlinkat:
	case NR_rmdir:
		return SUMMARY_REMOVE;
	case NR_execve:
	case NR_execveat:
		return SUMMARY_EXEC;
	default:
		return SUMMARY_READ;
	}
}

void audit_missed(const struct walk *w, struct dentry *d, uint64_t key, bool hidden)
{
	struct task *t = current_task();
	struct summary_path *p;
	int at;

	/* The first of a call counts; what the audit itself looks for does not. */
	if (!t || !g_summary || t->audit.missed)
		return;
	at = summary_path_take(key);
	if (at < 0)
		return;
	p = summary_path_at((unsigned)at);
	/* The first program is executed by no call. */
	p->nr = t->in_syscall ? (uint16_t)t->regs.orig_rax : NR_execve;
	p->use = (uint8_t)use_of(t, p->nr);
	p->hidden = hidden;
	p->event[0] = '\0';
	if (!walk_missed_text(w, d, p->path, sizeof(p->path))) {
		summary_path_drop((unsigned)at, key);
		return;
	}
	t->audit.missed = (uint8_t)(at + 1);
	t->audit.missed_key = key;
	t->audit.any = true;
}

/* The event, with @stack (taken). False: it is too long. */
static bool put_event(struct task *t, struct summary_path *p, long ret, struct json_object *stack)
{
	struct json_object *o = audit_object("denied", t);
	const char *text = NULL;
	size_t size = 0;
	bool fits;

	audit_add_quoted(o, "why", "not-granted");
	audit_add_quoted(o, "reason", "not granted");
	audit_add(o, "path", p->path);
	audit_add_quoted(o, "rule", "none");
	audit_add_call(o, t, ret);
	audit_add_object(o, "stack", stack);
	if (o)
		text = json_object_to_json_string_length(
			o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &size);
	fits = text && size <= SUMMARY_EVENT_SIZE;
	if (fits) {
		/* But for the brace. */
		memcpy(p->event, text, size - 1);
		p->event[size - 1] = '\0';
	}
	if (o)
		json_object_put(o);
	return fits;
}

static void make_event(struct task *t, struct summary_path *p, long ret)
{
	/* A rule that hides something has an event of its own, and the first program no call. */
	if (p->hidden || !t->in_syscall || !audit_admit(RATE_lookup))
		return;
	if (!put_event(t, p, ret, audit_stack(t)) && !put_event(t, p, ret, json_object_new_array()))
		audit_count_dropped(RATE_lookup);
}

void audit_missed_end(struct task *t, long ret)
{
	const unsigned at = t->audit.missed - 1u;
	struct summary_path *p = summary_path_at(at);

	/* To write to a device that is not there may make a file. */
	if (ret >= 0 && p->use != SUMMARY_CREATE) {
		summary_path_drop(at, t->audit.missed_key);
		return;
	}
	if (g_audit)
		make_event(t, p, ret);
	summary_path_done(at, t->audit.missed_key);
}
