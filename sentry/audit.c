/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit: notes of what is refused, and the life of processes as events. See sentry/audit.h.
 *
 * A meter's refusal that no task is to blame for (a timer's, a helper thread's) is noted in a
 * global set, which the next task that leaves a note, or the end, makes events of.
 */
#include "sentry/audit_internal.h"

#include "sentry/process.h"
#include "sentry/summary.h"
#include "sentry/syscall_table.h"
#include "sentry/unwind.h"
#include "vfs/mount.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ARGS_SHOWN 64u
#define ARG_SHOWN 512u
#define NOTE_TEXT 512u
/* Beyond are the restart codes. */
#define LX_ERRNO_MAX 511

bool g_audit;
static _Atomic uint32_t g_limits_of_nobody;

_Static_assert(METER_COUNT <= 32, "a bit for each");

/* ---- notes ---- */

void audit_denied(enum audit_why why, struct mount *mnt, const struct grant_path *rule)
{
	struct task *t = current_task();

	if (!t || t->audit.why)
		return;
	t->audit.why = (uint8_t)why;
	t->audit.mnt = mnt ? mount_get(mnt) : NULL;
	t->audit.rule = rule;
	t->audit.any = true;
}

void audit_limit(enum meter which)
{
	struct task *t = current_task();

	summary_refused(which);
	if (!g_audit)
		return;
	if (!t) {
		atomic_fetch_or_explicit(&g_limits_of_nobody, 1u << which, memory_order_relaxed);
		return;
	}
	t->audit.limits |= 1u << which;
	t->audit.any = true;
}

static void limits_of_nobody(void)
{
	uint32_t set = atomic_exchange_explicit(&g_limits_of_nobody, 0, memory_order_relaxed);

	for (unsigned m = 0; set && m < METER_COUNT; m++) {
		if (set & 1u << m)
			audit_limit_event(NULL, (enum meter)m);
	}
}

static void forget_denied(struct task *t)
{
	t->audit.missed = 0;
	if (t->audit.mnt)
		mount_put_quiet(t->audit.mnt);
	t->audit.mnt = NULL;
	t->audit.rule = NULL;
	t->audit.why = AUDIT_NONE;
}

/* Is a failed call worth a look for the summary's sake? What moat does not have it knows already.
 */
static bool summary_wants(const struct task *t)
{
	switch ((uint32_t)t->regs.orig_rax) {
	case NR_socket:
	case NR_mount:
	case NR_umount2:
	case NR_pivot_root:
	case NR_mknod:
	case NR_mknodat:
		return summary_admit();
	default:
		return t->audit.why && summary_admit();
	}
}

void audit_served(struct task *t, long ret)
{
	if (t->audit.missed)
		audit_missed_end(t, ret);
	if (ret < 0 && ret >= -LX_ERRNO_MAX && (g_audit || summary_wants(t)))
		audit_denied_event(t, ret);
	forget_denied(t);
}

void audit_flush(struct task *t)
{
	uint32_t limits = t->audit.limits;

	for (unsigned m = 0; limits && m < METER_COUNT; m++) {
		if (limits & 1u << m)
			audit_limit_event(t, (enum meter)m);
	}
	limits_of_nobody();
	forget_denied(t);
	t->audit.limits = 0;
	t->audit.any = false;
}

/* ---- limits ---- */

static void add_meter(struct json_object *o, enum meter which)
{
	audit_add(o, "limit", meter_name(which));
	audit_add(o, "what", meter_what(which));
	if (meter_limit(which) != METER_NO_LIMIT)
		audit_add_uint(o, "allowed", meter_limit(which));
	audit_add_uint(o, "used", meter_current(which));
}

void audit_killed(enum meter which, int32_t tgid, uint64_t used)
{
	struct json_object *o;

	if (!g_audit || !audit_admit(RATE_limit))
		return;
	o = audit_object("kill", NULL);
	add_meter(o, which);
	audit_add_uint(o, "asked", used);
	if (tgid)
		audit_add_int(o, "pid", tgid);
	(void)audit_send(o, RATE_limit);
}

void audit_event(const char *event, const char *fmt, ...)
{
	char text[NOTE_TEXT];
	struct json_object *o;
	va_list ap;

	if (!g_audit || !audit_admit(RATE_note))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	o = audit_object(event, current_task());
	audit_add(o, "text", text);
	(void)audit_send(o, RATE_note);
}

/* ---- processes ---- */

void audit_forked(struct task *parent, struct task *child)
{
	struct json_object *o;

	if (!audit_admit(RATE_process))
		return;
	o = audit_object("fork", parent);
	audit_add_int(o, "child", child->tg->tgid);
	(void)audit_send(o, RATE_process);
}

static struct json_object *arguments(const char *const *argv, unsigned argc)
{
	struct json_object *list = json_object_new_array();
	char text[ARG_SHOWN];

	for (unsigned i = 0; list && i < MIN(argc, ARGS_SHOWN); i++) {
		bool cut;
		size_t n = audit_quote(text, sizeof(text) - 3, argv[i], strlen(argv[i]), &cut);

		if (cut)
			strcpy(text + n, "…"); /* three bytes */
		json_object_array_add(list, json_object_new_string(text));
	}
	return list;
}

/* The process's parent, for who reads only this event. */
static int32_t parent_of(struct tgroup *tg)
{
	int32_t nr;

	mutex_lock(&g_kernel.tasklist);
	nr = tg->parent ? tg->parent->tgid : 0;
	mutex_unlock(&g_kernel.tasklist);
	return nr;
}

void audit_exec(struct task *t, const char *path, const char *const *argv, unsigned argc)
{
	struct json_object *o;

	if (!audit_admit(RATE_process))
		return;
	o = audit_object("exec", t);
	audit_add_int(o, "parent", parent_of(t->tg));
	audit_add(o, "path", path);
	audit_add_object(o, "argv", arguments(argv, argc));
	audit_add_uint(o, "argc", argc);
	(void)audit_send(o, RATE_process);
}

void audit_exited(struct task *t, int status)
{
	int sig = status & 0x7f;
	struct json_object *o;
	struct rusage_sum used;

	if (!audit_admit(RATE_process))
		return;
	tgroup_rusage(t->tg, &used);
	o = audit_object("exit", t);
	audit_add_int(o, "parent", parent_of(t->tg));
	if (sig)
		audit_add(o, "signal", signal_name(sig));
	else
		audit_add_int(o, "status", status >> 8 & 0xff);
	audit_add_seconds(o, "lived", clock_mono_ns() - t->tg->start_mono_ns);
	audit_add_seconds(o, "user", used.user_ns);
	audit_add_seconds(o, "system", used.sys_ns);
	audit_add_uint(o, "memory_peak", used.max_rss_kb * 1024);
	(void)audit_send(o, RATE_process);
}

/* ---- start and end ---- */

static void started(const struct audit_spec *spec)
{
	struct json_object *o = audit_object("start", NULL), *walls = json_object_new_array();
	struct json_object *limits = json_object_new_object();
	unsigned argc = 0;

	audit_add_int(o, "version", AUDIT_LOG_VERSION);
	while (spec->argv[argc])
		argc++;
	audit_add_object(o, "argv", arguments(spec->argv, argc));
	audit_add(o, "cwd", spec->cwd);
	audit_add(o, "platform", spec->platform);
	if (g_grant && g_grant->name)
		audit_add(o, "policy", g_grant->name);
	for (unsigned i = 0; walls && spec->walls && spec->walls[i]; i++)
		json_object_array_add(walls, json_object_new_string(spec->walls[i]));
	audit_add_object(o, "walls", walls);
	for (unsigned m = 0; m < METER_COUNT; m++) {
		if (meter_limit((enum meter)m) != METER_NO_LIMIT)
			audit_add_uint(limits, meter_name((enum meter)m),
				       meter_limit((enum meter)m));
	}
	audit_add_object(o, "limits", limits);
	(void)audit_send(o, RATE_note);
}

int audit_start(const struct audit_spec *spec, struct err *e)
{
	int r = audit_out_start(spec->fd);

	audit_line_start(spec->raw_tty);
	g_meter_on_refusal = audit_limit;
	if (spec->fd < 0 && !spec->verbose)
		return 0;
	(void)unwind_load();

	if (r)
		return err_set(e, -r, "cannot start the audit: %s", err_text(-r));
	g_audit = spec->fd >= 0 || spec->verbose;
	if (spec->fd >= 0)
		started(spec);
	r = audit_out_run();
	if (r)
		return err_set(e, -r, "cannot start the audit: %s", err_text(-r));
	return 0;
}

void audit_stop(void)
{
	if (!g_audit)
		return;
	limits_of_nobody();
	audit_out_stop();
}
