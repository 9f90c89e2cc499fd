/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Denials: what was asked for, which rule refused it, and what would allow it.
 *
 * Theory of operation: a call has failed, and the question is whether the sandbox has refused it or
 * whether Linux would have, too. A note of the file system's says so if the error is the one that
 * goes with it; some calls say so by their number and error alone; and a name that is not found is
 * refused if a rule hides it. Anything else is no denial: programs look for files that do not exist
 * all day long.
 *
 * The path is walked once more to find out what it leads to. The guest may have changed it
 * meanwhile, so what stands in the event is what its call looks like now, as with strace.
 *
 * The rule that would allow a call is the smallest one: the file itself, or the directory that a
 * name was to be made in.
 */
#include "sentry/audit_internal.h"

#include "base/alloc.h"
#include "base/lx_sock.h"
#include "sentry/advice.h"
#include "sentry/file_args.h"
#include "sentry/learn.h"
#include "sentry/syscall_table.h"
#include "sentry/unwind.h"
#include "vfs/hostfs.h"
#include "vfs/mount.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define QUOTED_PATH ADVICE_SCRATCH
#define CALL_TEXT 2048u

static const struct {
	const char *name, *text;
	int errnum[2]; /* with which a note of it counts */
} g_whys[AUDIT_WHYS] = {
	[AUDIT_HIDDEN] = {"hidden", "hidden", {ENOENT, 0}},
	[AUDIT_READ_ONLY] = {"read-only", "may only be read", {EROFS, 0}},
	[AUDIT_PRIVATE] = {"private", "not every user of the host may read it", {EACCES, 0}},
	[AUDIT_NO_EXEC] = {"no-exec", "may not be executed", {EACCES, EPERM}},
	[AUDIT_NO_DEVICE] = {"no-device", "no such device in the sandbox", {ENXIO, EACCES}},
	[AUDIT_NO_NETWORK] = {"no-network", "the sandbox has no network", {EAFNOSUPPORT, 0}},
	[AUDIT_NO_MOUNT] = {"no-mount",
			    "file systems of that kind cannot be mounted",
			    {EPERM, ENODEV}},
	[AUDIT_NO_SPACES] = {"no-spaces", "the sandbox has no new name spaces", {EPERM, 0}},
	[AUDIT_REFUSED] = {"refused", "refused to every program", {0, 0}},
	[AUDIT_NOT_SERVED] = {"not-served", "moat does not have this call", {ENOSYS, 0}},
};

struct denial {
	struct task *t;
	const struct syscall_row *row; /* NULL: an unknown number */
	uint64_t r[6];
	long ret;
	enum audit_why why;
	const struct grant_path *rule;
	bool has_path, is_dir, exists;
	char path[LX_PATH_MAX];   /* in the guest */
	char mount[LX_PATH_MAX];  /* that of the note, or "" */
	char place[LX_PATH_MAX];  /* what a rule would have to name */
	char quoted[QUOTED_PATH]; /* room for one of them */
	char allow[2 * QUOTED_PATH + 32];
	char policy[2 * LX_PATH_MAX * 2 + 64];
	char line[3 * QUOTED_PATH + 512];
};

/* ---- which path ---- */

/* An absolute path without "." and "..", in place. */
static void normalise(char *p)
{
	char *to = p, *at = p;

	while (*at) {
		size_t n;

		at += strspn(at, "/");
		n = strcspn(at, "/");
		if (n == 2 && memcmp(at, "..", 2) == 0) {
			while (to > p && *--to != '/')
				;
		} else if (n && !(n == 1 && *at == '.')) {
			*to++ = '/';
			memmove(to, at, n);
			to += n;
		}
		at += n;
	}
	if (to == p)
		*to++ = '/';
	*to = '\0';
}

/* dir/name into d->path; names that do not fit are cut. */
static void join(struct denial *d, const char *dir, const char *name, size_t len)
{
	if (dir != d->path)
		snprintf(d->path, sizeof(d->path), "%s", dir);

	size_t used = strlen(d->path);

	if (used && d->path[used - 1] == '/')
		used--;
	snprintf(d->path + used, sizeof(d->path) - used, "/%.*s", (int)len, name);
}

/* What the path in argument @i leads to, or would. False: it cannot be read. */
static bool argument_path(struct denial *d, unsigned i)
{
	const bool has_dir = i > 0 && d->row->args[i - 1].kind == AK_DIRFD;
	struct vfs_ctx *c = &d->t->vctx;
	struct at_path at = {0};
	struct walk_last last;
	struct path p, cwd;

	if (at_path_get(d->t, has_dir ? (int)d->r[i - 1] : LX_AT_FDCWD, GADDR(d->r[i]),
			AT_EMPTY_NULL, &at) != 0) {
		at_path_put(&at);
		return false;
	}
	if (!d->t->audit.mnt && d->ret == -ENOENT) {
		/* As written: what is hidden leads nowhere. */
		if (at.name[0] != '/') {
			fs_get_cwd(c->fs, &cwd);
			if (path_text(at.dir ? &at.dir->path : &cwd, NULL, d->path,
				      sizeof(d->path)) < 0)
				d->path[0] = '\0';
			path_put(&cwd);
			join(d, d->path, at.name, strlen(at.name));
		} else {
			snprintf(d->path, sizeof(d->path), "%s", at.name);
		}
		normalise(d->path);
		d->has_path = true;
	} else if (path_lookup(c, at_path_start(&at), at.name, WALK_FOLLOW | WALK_EMPTY, &p) == 0) {
		d->has_path = path_text(&p, NULL, d->path, sizeof(d->path)) >= 0;
		d->is_dir = LX_S_ISDIR(p.dentry->inode->mode);
		d->exists = true;
		path_put(&p);
	} else if (path_lookup_parent(c, at_path_start(&at), at.name, 0, &p, &last) == 0) {
		if (path_text(&p, NULL, d->path, sizeof(d->path)) >= 0) {
			join(d, d->path, last.name, last.len);
			d->has_path = true;
		}
		path_put(&p);
	} else {
		snprintf(d->path, sizeof(d->path), "%s", at.name);
		d->has_path = true;
	}
	at_path_put(&at);
	return d->has_path;
}

static bool descriptor_path(struct denial *d, unsigned i)
{
	struct file *f = fd_get(d->t->files, (int)d->r[i]);

	if (!f)
		return false;
	d->has_path = path_text(&f->path, NULL, d->path, sizeof(d->path)) >= 0;
	d->exists = true;
	d->is_dir = LX_S_ISDIR(f->inode->mode);
	file_put(f);
	return d->has_path;
}

/* @path is @top or below it. */
static bool is_below(const char *path, const char *top)
{
	size_t n = strlen(top);

	if (n == 1 && top[0] == '/')
		return path[0] == '/';
	return strncmp(path, top, n) == 0 && (path[n] == '/' || !path[n]);
}

static void find_path(struct denial *d)
{
	if (!d->row || !d->t->files || !d->t->vctx.fs)
		return;
	if (d->t->audit.mnt) {
		struct path at = {d->t->audit.mnt, d->t->audit.mnt->root};

		if (path_text(&at, NULL, d->mount, sizeof(d->mount)) < 0)
			d->mount[0] = '\0';
	}
	/* Of two paths the one on the mount that has refused, else the first; of mount(2) the
	 * place: what is to be there need not be a path. */
	for (unsigned i = (uint32_t)d->t->regs.orig_rax == NR_mount; i < d->row->nargs; i++) {
		if (d->row->args[i].kind == AK_PATH && argument_path(d, i) &&
		    (!d->mount[0] || is_below(d->path, d->mount)))
			return;
	}
	if (d->has_path)
		return;
	for (unsigned i = 0; i < d->row->nargs; i++) {
		if (d->row->args[i].kind == AK_FD && descriptor_path(d, i))
			return;
	}
}

/* ---- which rule ---- */

/* The deepest rule that speaks of @path. */
static const struct grant_path *rule_for(const char *path, bool hidden)
{
	const struct grant_path *best = NULL;

	for (uint32_t i = 0; g_grant && i < g_grant->path_count; i++) {
		const struct grant_path *g = &g_grant->paths[i];

		if ((g->access == GRANT_HIDDEN) != hidden || !g->target ||
		    !is_below(path, g->target))
			continue;
		if (!best || strlen(g->target) >= strlen(best->target))
			best = g;
	}
	return best;
}

static bool has_hidden(void)
{
	for (uint32_t i = 0; g_grant && i < g_grant->path_count; i++) {
		if (g_grant->paths[i].access == GRANT_HIDDEN)
			return true;
	}
	return g_grant && g_grant->hidden_count > 0;
}

/* Is a component of the path hidden without a rule of the policy's, as the secrets in home
 * directories are? Then d->place is what is hidden. */
static bool is_secret(struct denial *d)
{
	for (char *at = d->path; at && *at; at = strchr(at, '/')) {
		const size_t n = strcspn(++at, "/"), head = (size_t)(at - d->path);
		struct path dir;
		bool named = false, hidden;

		for (uint32_t i = 0; i < g_grant->hidden_count && !named; i++)
			named = strlen(g_grant->hidden[i].name) == n &&
				memcmp(g_grant->hidden[i].name, at, n) == 0;
		if (!named)
			continue;
		snprintf(d->place, sizeof(d->place), "%.*s", (int)head, d->path);
		if (path_lookup(&d->t->vctx, NULL, d->place, WALK_FOLLOW, &dir) != 0)
			return false;
		hidden = hostfs_hides(dir.dentry->inode, at, n);
		path_put(&dir);
		snprintf(d->place, sizeof(d->place), "%.*s", (int)(head + n), d->path);
		if (hidden)
			return true;
	}
	return false;
}

static bool is_name_call(const struct denial *d)
{
	switch (d->t->regs.orig_rax) {
	case NR_mount:
	case NR_umount2:
	case NR_pivot_root:
		return false;
	default:
		return true;
	}
}

static enum audit_why by_number(const struct denial *d)
{
	const unsigned nr = (uint32_t)d->t->regs.orig_rax;

	if (!d->row || !syscall_served(d->row))
		return d->ret == -ENOSYS ? AUDIT_NOT_SERVED : AUDIT_REFUSED;
	switch (nr) {
	case NR_socket:
	case NR_socketpair:
		return d->ret == -EAFNOSUPPORT ? AUDIT_NO_NETWORK : AUDIT_NONE;
	case NR_mount:
	case NR_umount2:
	case NR_pivot_root:
		/* Who has no such right is refused by Linux, too. */
		return d->ret == -EPERM && cred_capable(d->t->vctx.cred, LX_CAP_SYS_ADMIN)
			       ? AUDIT_NO_MOUNT
			       : AUDIT_NONE;
	case NR_mknod:
	case NR_mknodat: {
		const uint32_t mode = (uint32_t)d->r[nr == NR_mknod ? 1 : 2];

		return d->ret == -EPERM && (LX_S_ISCHR(mode) || LX_S_ISBLK(mode)) ? AUDIT_NO_DEVICE
										  : AUDIT_NONE;
	}
	default:
		return AUDIT_NONE;
	}
}

/* Libraries try what moat does not have in each process: once for each number is enough. */
static bool is_first(unsigned nr)
{
	static _Atomic uint64_t seen[SYSCALL_MAX / 64 + 1];
	const unsigned at = MIN(nr, (unsigned)SYSCALL_MAX);
	const uint64_t bit = (uint64_t)1 << at % 64;

	return !(atomic_fetch_or(&seen[at / 64], bit) & bit);
}

/* Is it a denial at all? Without looking at paths. */
static bool classify(struct denial *d)
{
	const enum audit_why noted = (enum audit_why)d->t->audit.why;

	if (noted && (-d->ret == g_whys[noted].errnum[0] || -d->ret == g_whys[noted].errnum[1])) {
		d->why = noted;
		d->rule = d->t->audit.rule;
		return true;
	}
	d->why = by_number(d);
	if (d->why == AUDIT_NOT_SERVED && !is_first((uint32_t)d->t->regs.orig_rax))
		return false;
	if (!d->why && d->ret == -ENOENT && is_name_call(d) && has_hidden())
		d->why = AUDIT_HIDDEN;
	return d->why != AUDIT_NONE;
}

/* What a rule would have to name: what is there if its contents were asked for, else the directory
 * that holds the name. */
static void find_place(struct denial *d)
{
	char *slash;

	/* What is hidden has been found already. */
	if (d->why == AUDIT_HIDDEN)
		return;
	snprintf(d->place, sizeof(d->place), "%s", d->path);
	if (d->why != AUDIT_READ_ONLY)
		return;
	switch (d->t->regs.orig_rax) {
	case NR_unlink:
	case NR_unlinkat:
	case NR_rmdir:
	case NR_rename:
	case NR_renameat:
	case NR_renameat2:
	case NR_link:
	case NR_linkat:
		break;
	default:
		if (d->exists)
			return;
	}
	slash = strrchr(d->place, '/');
	if (slash && slash != d->place && strlen(d->place) > strlen(d->mount))
		*slash = '\0';
}

/* ---- what would allow it ---- */

/* The host's path of what the guest sees at @path. */
static void host_path(const struct grant_path *rule, const char *path, char *out, size_t room)
{
	if (rule && rule->host && is_below(path, rule->target))
		snprintf(out, room, "%s%s", rule->host, path + strlen(rule->target));
	else
		snprintf(out, room, "%s%s", g_grant && g_grant->root ? g_grant->root : "", path);
}

static void find_allow(struct denial *d)
{
	const char *option = d->why == AUDIT_READ_ONLY ? "--rw " : "--ro ";
	char *host = d->line; /* not used yet */

	d->allow[0] = '\0';
	if (d->why != AUDIT_READ_ONLY && d->why != AUDIT_HIDDEN && d->why != AUDIT_PRIVATE &&
	    d->why != AUDIT_NO_EXEC)
		return;
	if (d->why == AUDIT_PRIVATE && !g_advice_private)
		return;
	/* A mount of the sandbox's own. */
	if (d->why == AUDIT_READ_ONLY && !d->rule)
		return;
	/* Whoever wrote a rule that hides it has to take it out. */
	if (d->why == AUDIT_HIDDEN && d->rule)
		return;
	host_path(d->why == AUDIT_HIDDEN ? NULL : d->rule, d->place, host, LX_PATH_MAX);
	snprintf(d->allow, sizeof(d->allow), "%s", option);
	advice_word(d->allow, sizeof(d->allow), host, d->quoted);
	if (strcmp(host, d->place) != 0) {
		strncat(d->allow, ":", sizeof(d->allow) - strlen(d->allow) - 1);
		advice_word(d->allow, sizeof(d->allow), d->place, d->quoted);
	}
	advice_policy(d->policy, sizeof(d->policy), d->place, host, d->why == AUDIT_READ_ONLY,
		      d->why == AUDIT_NO_EXEC, d->quoted);
}

static void rule_text(const struct denial *d, char *out, size_t room)
{
	const struct grant_origin *o = d->rule ? &d->rule->origin : NULL;

	if (!o || !o->file)
		snprintf(out, room, d->why == AUDIT_HIDDEN ? "built in: secrets" : "built in");
	else if (o->line)
		snprintf(out, room, "%s:%u:%u", o->file, o->line, o->column);
	else
		snprintf(out, room, "%s", o->file);
}

/* ---- the event ---- */

void audit_add_call(struct json_object *o, struct task *t, long ret)
{
	const unsigned nr = (uint32_t)t->regs.orig_rax;
	char *text = mem_zalloc(CALL_TEXT);
	uint64_t r[6];

	if (!text)
		return;
	syscall_args(t, r);
	syscall_describe(t, syscall_row(nr), r, ret, text, CALL_TEXT);
	/* The decoder's own quoting has left nothing else. */
	for (char *p = text; *p; p++) {
		if (*p < ' ' || *p > '~')
			*p = '?';
	}
	audit_add_quoted(o, "call", text);
	mem_free(text);
}

struct json_object *audit_stack(struct task *t)
{
	struct unwind_stack *s = unwind_take(t, true);
	struct json_object *list = s ? json_object_new_array() : NULL;

	for (unsigned i = 0; list && i < s->frame_count; i++) {
		const struct unwind_frame *f = &s->frames[i];
		struct json_object *o = json_object_new_object();
		char ip[24];

		snprintf(ip, sizeof(ip), "0x%lx", f->ip);
		audit_add_quoted(o, "ip", ip);
		if (f->module >= 0) {
			audit_add(o, "module", s->modules[f->module].name);
			audit_add_uint(o, "offset", f->offset);
		}
		if (f->symbol) {
			audit_add(o, "symbol", f->symbol);
			audit_add_uint(o, "symbol_offset", f->symbol_offset);
		}
		json_object_array_add(list, o);
	}
	unwind_free(s);
	return list;
}

static void send_event(struct denial *d)
{
	struct json_object *o;
	char rule[256];

	if (!audit_admit(RATE_denied))
		return;
	o = audit_object("denied", d->t);
	audit_add_quoted(o, "why", g_whys[d->why].name);
	audit_add_quoted(o, "reason", g_whys[d->why].text);
	if (d->row && (d->why == AUDIT_REFUSED || d->why == AUDIT_NOT_SERVED))
		audit_add(o, "note", syscall_note(d->row));
	if (d->has_path)
		audit_add(o, "path", d->path);
	rule_text(d, rule, sizeof(rule));
	audit_add(o, "rule", rule);
	if (d->allow[0])
		audit_add_quoted(o, "allow", d->allow);
	if (d->policy[0])
		audit_add_quoted(o, "allow_policy", d->policy);
	audit_add_call(o, d->t, d->ret);
	audit_add_object(o, "stack", audit_stack(d->t));
	(void)audit_send(o, RATE_denied);
}

/* Is a socket of that family for a network? Others are tried by libraries that have another way, as
 * are those for events of devices and for the audit of Linux. */
static bool is_of_network(uint32_t family, uint32_t protocol)
{
	switch (family) {
	case LX_AF_INET:
	case LX_AF_INET6:
	case LX_AF_PACKET:
		return true;
	case LX_AF_NETLINK:
		return protocol != LX_NETLINK_SELINUX && protocol != LX_NETLINK_AUDIT &&
		       protocol != LX_NETLINK_KOBJECT_UEVENT;
	default:
		return false;
	}
}

/* What a program asks to find out, and goes on without. */
static bool is_probe(const struct denial *d)
{
	switch (d->t->regs.orig_rax) {
	case NR_access:
	case NR_faccessat:
	case NR_faccessat2:
		return true;
	case NR_socket:
	case NR_socketpair:
		return !is_of_network((uint32_t)d->r[0], (uint32_t)d->r[2]);
	default:
		return d->why == AUDIT_NOT_SERVED;
	}
}

/* Notes that the process was refused what programs only try, if it is such a thing. */
static enum summary_asked note_asked(const struct denial *d)
{
	enum summary_asked asked;

	if (d->why == AUDIT_NO_NETWORK)
		asked = SUMMARY_ASKED_NETWORK;
	else if (d->why == AUDIT_NO_SPACES)
		asked = SUMMARY_ASKED_SPACES;
	else
		return SUMMARY_ASKED_NOTHING;
	if (!(atomic_fetch_or(&d->t->tg->asked, 1u << asked) & 1u << asked))
		summary_asked(asked);
	return asked;
}

static void tell(struct denial *d)
{
	const char *name = d->row ? d->row->name : "a system call without a name";
	char rule[256], by[300];
	size_t used;

	if (is_probe(d))
		return;
	rule_text(d, rule, sizeof(rule));
	audit_quote(by, sizeof(by), rule, strlen(rule), NULL);
	used = (size_t)snprintf(d->line, sizeof(d->line), "denied: %s", name);
	if (d->has_path) {
		audit_quote(d->quoted, sizeof(d->quoted), d->path, strlen(d->path), NULL);
		used += (size_t)snprintf(d->line + used, sizeof(d->line) - used, " %s", d->quoted);
	}
	used += (size_t)snprintf(d->line + used, sizeof(d->line) - used, " (%s",
				 g_whys[d->why].text);
	if (d->has_path)
		used += (size_t)snprintf(d->line + used, sizeof(d->line) - used, "; %s", by);
	used += (size_t)snprintf(d->line + used, sizeof(d->line) - used, ")");
	if (d->allow[0])
		snprintf(d->line + used, sizeof(d->line) - used, "; allow it with: %s", d->allow);
	audit_line(d->allow[0] ? d->allow : d->line, d->line, note_asked(d));
}

/* What a policy's comment names: the path, or the call that is refused whatever it is given. */
static const char *learnt_text(const struct denial *d)
{
	if (d->has_path)
		return d->path;
	return d->why == AUDIT_REFUSED && d->row ? d->row->name : "";
}

void audit_denied_event(struct task *t, long ret)
{
	const unsigned nr = (uint32_t)t->regs.orig_rax;
	struct denial *d;

	/* Most failed calls are no denials: no allocation for them. */
	if (!t->audit.why && ret != -ENOENT && ret != -EPERM && ret != -EAFNOSUPPORT &&
	    syscall_row(nr) && syscall_served(syscall_row(nr)))
		return;
	if (!t->audit.why && ret == -ENOENT && (!has_hidden() || !g_audit))
		return;
	d = mem_zalloc(sizeof(*d));
	if (!d) {
		audit_count_dropped(RATE_denied);
		return;
	}
	d->t = t;
	d->ret = ret;
	d->row = syscall_row(nr);
	syscall_args(t, d->r);
	if (!classify(d))
		goto out;
	find_path(d);
	if (d->why == AUDIT_HIDDEN) {
		d->rule = d->has_path ? rule_for(d->path, true) : NULL;
		if (!d->rule && (!d->has_path || !is_secret(d)))
			goto out;
	} else if (!d->rule && d->has_path) {
		d->rule = rule_for(d->mount[0] ? d->mount : d->path, false);
		if (d->rule && d->mount[0] && strcmp(d->rule->target, d->mount) != 0)
			d->rule = NULL;
	}
	if (d->has_path) {
		find_place(d);
		find_allow(d);
	}
	if (g_learning)
		learn_denied(g_whys[d->why].name, learnt_text(d));
	send_event(d);
	tell(d);
out:
	mem_free(d);
}

void audit_first_refused(struct task *t, const char *name, struct err *e)
{
	const struct grant_path *rule = NULL;
	char mount[LX_PATH_MAX];
	struct path at;

	if (t->audit.why != AUDIT_NO_EXEC || !t->audit.mnt || e->text[0])
		return;
	at = (struct path){t->audit.mnt, t->audit.mnt->root};
	if (path_text(&at, NULL, mount, sizeof(mount)) >= 0)
		rule = rule_for(mount, false);
	if (rule && rule->origin.line)
		err_set(e, EACCES, "%s: may not be executed: %s:%u:%u lacks exec = true", name,
			rule->origin.file, rule->origin.line, rule->origin.column);
}

/* ---- limits ---- */

void audit_limit_event(struct task *t, enum meter which)
{
	char key[64], line[320], allowed[METER_TEXT_SIZE];
	struct json_object *o;

	snprintf(key, sizeof(key), "limit %s", meter_name(which));
	meter_text(which, meter_limit(which), allowed);
	snprintf(line, sizeof(line),
		 "limit: %s (%s): %s allowed, more refused; allow more with: --limit %s=%s",
		 meter_name(which), meter_what(which), allowed, meter_name(which),
		 meter_placeholder(which));
	audit_line(key, line, SUMMARY_ASKED_NOTHING);
	if (!audit_admit(RATE_limit))
		return;
	o = audit_object("limit", t);
	audit_add(o, "limit", meter_name(which));
	audit_add(o, "what", meter_what(which));
	if (meter_limit(which) != METER_NO_LIMIT)
		audit_add_uint(o, "allowed", meter_limit(which));
	audit_add_uint(o, "used", meter_current(which));
	if (t) {
		audit_add_call(o, t, (long)t->regs.rax);
		audit_add_object(o, "stack", audit_stack(t));
	}
	(void)audit_send(o, RATE_limit);
}
