/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a guest died of, with its stack (sentry/unwind.h), as lines for people. Everything read is
 * the guest's word and only ever printed: escaped names, a bounded number of frames.
 */
#include "sentry/crash.h"
#include "sentry/audit_text.h"
#include "sentry/task.h"
#include "sentry/unwind.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/hostcall.h"

static int g_crash_fd = -1;

void crash_report_enable(int fd)
{
	g_crash_fd = fd;
	(void)unwind_load();
}

static void print_line(const char *line, int len, size_t room)
{
	if (len > 0)
		(void)!HOST(write_log, write(g_crash_fd, line, MIN((size_t)len, room - 1)));
}

static void print_frame(const struct unwind_stack *s, unsigned n)
{
	const struct unwind_frame *f = &s->frames[n];
	char line[900], name[AUDIT_QUOTED * 64 + 1], symbol[300] = "";
	int len;

	if (f->symbol) {
		char quoted[200];

		audit_quote(quoted, sizeof(quoted), f->symbol, strlen(f->symbol), NULL);
		snprintf(symbol, sizeof(symbol), " %s+0x%lx", quoted, f->symbol_offset);
	}
	if (f->module >= 0) {
		const char *path = s->modules[f->module].name;

		audit_quote(name, sizeof(name), path, strlen(path), NULL);
		len = snprintf(line, sizeof(line), "moat:   #%-2u 0x%012lx %s+0x%lx%s\n", n, f->ip,
			       name, f->offset, symbol);
	} else {
		len = snprintf(line, sizeof(line), "moat:   #%-2u 0x%012lx ?\n", n, f->ip);
	}
	print_line(line, len, sizeof(line));
}

void crash_report(struct task *t, int sig, const struct lx_siginfo *info)
{
	char line[200], comm[AUDIT_QUOTED * sizeof(t->comm)];
	struct unwind_stack *s;
	int len;

	if (g_crash_fd < 0 || !t->mm)
		return;
	audit_quote(comm, sizeof(comm), t->comm, strnlen(t->comm, sizeof(t->comm)), NULL);
	len = snprintf(line, sizeof(line), "moat: process %d (%s) died of %s, ", t->tg->tgid, comm,
		       signal_name(sig));
	/* What kill(2), sigqueue(3) and tgkill(2) have sent has no address. */
	if (info->si_code == LX_SI_USER || info->si_code == LX_SI_QUEUE ||
	    info->si_code == LX_SI_TKILL)
		len += snprintf(line + len, sizeof(line) - (size_t)len, "sent by process %d\n",
				info->u.rt.pid);
	else
		len += snprintf(line + len, sizeof(line) - (size_t)len, "code %d, address 0x%lx\n",
				info->si_code, info->u.fault.addr);
	print_line(line, len, sizeof(line));
	s = unwind_take(t, true);
	for (unsigned n = 0; s && n < s->frame_count; n++)
		print_frame(s, n);
	unwind_free(s);
}
