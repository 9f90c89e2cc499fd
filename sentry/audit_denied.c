/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Denials: what was asked for, which rule refused it, and what would allow it.
 */
#include "sentry/audit_internal.h"

#include "sentry/process.h"
#include "sentry/syscall_table.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name, *text;
} g_whys[AUDIT_WHYS] = {
	[AUDIT_HIDDEN] = {"hidden", "hidden"},
	[AUDIT_READ_ONLY] = {"read-only", "may be read only"},
	[AUDIT_NO_EXEC] = {"no-exec", "nothing of there may be executed"},
	[AUDIT_NO_DEVICE] = {"no-device", "there is no such device in the sandbox"},
	[AUDIT_NO_NETWORK] = {"no-network", "the sandbox has no network"},
	[AUDIT_NO_MOUNT] = {"no-mount", "mounts of the sandbox are fixed"},
	[AUDIT_REFUSED] = {"refused", "a system call that is not served"},
};

void audit_denied_event(struct task *t)
{
	long ret = (long)t->regs.rax;
	struct json_object *o;

	if (ret >= 0 || !audit_admit(RATE_denied))
		return;
	o = audit_object("denied", t);
	audit_add(o, "why", g_whys[t->audit.why].name);
	(void)audit_send(o, RATE_denied);
}

void audit_limit_event(struct task *t, enum meter which)
{
	struct json_object *o;

	if (!audit_admit(RATE_limit))
		return;
	o = audit_object("limit", t);
	audit_add(o, "limit", meter_name(which));
	(void)audit_send(o, RATE_limit);
}
