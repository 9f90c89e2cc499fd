/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `moat policy explain': would a policy allow this, and by which rule?
 *
 * Theory of operation: the answer is the sentry's own. The name space of a run is built in this
 * process, with nobody in it, and asked as a guest's system call would ask it, but for what would
 * change something; then the rule is looked for that made it so: that of the mount on which the
 * walk ended, or of what is hidden where it stopped.
 */
#include "runtime/egress.h"
#include "runtime/policy.h"
#include "runtime/run.h"

#include "vfs/dcache.h"
#include "vfs/hostfs.h"
#include "vfs/inode.h"
#include "vfs/namei.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum verb { VERB_READ, VERB_WRITE, VERB_EXEC };

struct question {
	struct draft *d;
	enum verb verb;
	const char *path;
	bool allowed;
	char why[512];
};

/* Where a walk ended: a place, or a directory and the name that is not in it. */
struct end {
	struct path at;
	char missing[LX_NAME_MAX + 1];
};

static void end_put(struct end *end)
{
	path_put(&end->at);
}

/* Of a walk that stopped in front of the component before w->cur.rest. */
static void missing_component(const struct walk *w, const char *begin, char *out)
{
	const char *const first = w->cur.buf ? w->cur.buf : begin, *s = w->cur.rest;
	const char *to;

	while (s > first && s[-1] == '/')
		s--;
	to = s;
	while (s > first && s[-1] != '/')
		s--;
	snprintf(out, LX_NAME_MAX + 1, "%.*s", (int)(to - s), s);
}

/* As path_lookup, which tells less. */
static int look(struct vfs_ctx *c, const char *path, struct end *end)
{
	struct walk w;
	int r = walk_init(&w, c, NULL, path, WALK_FOLLOW);

	memset(end, 0, sizeof(*end));
	while (r == 0) {
		struct dentry *d;

		r = walk_parent(&w, true);
		if (r == -ENOENT)
			missing_component(&w, path, end->missing);
		if (r)
			break;
		if (w.last_type != LAST_NORM) {
			r = walk_last_dots(&w);
			break;
		}
		snprintf(end->missing, sizeof(end->missing), "%.*s",
			 (int)MIN(w.last_len, (size_t)LX_NAME_MAX), w.last);
		r = walk_last_lookup(&w, &d);
		if (r == 0)
			r = walk_last_step(&w, d);
		if (r <= 0)
			break;
		r = 0;
	}
	if (r == 0)
		r = walk_complete(&w);
	if (r == 0)
		end->missing[0] = '\0';
	end->at = w.path;
	w.path = (struct path){NULL, NULL};
	walk_fini(&w);
	return r;
}

/* The rule of the mount that @p stands on; NULL: one of moat's own. */
static const struct grant_path *rule_of(const struct path *p)
{
	for (uint32_t i = 0; p->mnt && i < g_grant->path_count; i++)
		if (g_grant->paths[i].fd >= 0 && hostfs_is(p->mnt->super) &&
		    strcmp(g_grant->paths[i].target, p->mnt->source) == 0)
			return &g_grant->paths[i];
	return NULL;
}

static const char *where(const struct grant_origin *o)
{
	static char at[256];

	return draft_origin_text(o, at, sizeof(at));
}

static void PRINTF_LIKE(3, 4) answer(struct question *q, bool allowed, const char *fmt, ...)
{
	va_list ap;

	q->allowed = allowed;
	va_start(ap, fmt);
	vsnprintf(q->why, sizeof(q->why), fmt, ap);
	va_end(ap);
}

static const char *access_text(const struct grant_path *g)
{
	return g->access == GRANT_WRITE ? "rw" : "ro";
}

static const char *access_for(enum verb verb)
{
	return verb == VERB_WRITE ? "rw" : verb == VERB_EXEC ? "ro exec = true" : "ro";
}

/* The walk ended at a place, or at where a file would be made: yes. */
static void say_yes(struct question *q, const struct path *p)
{
	const struct grant_path *g = rule_of(p);

	if (g)
		answer(q, true, "%s: path \"%s\" (%s%s)", where(&g->origin), g->target,
		       access_text(g), g->exec ? ", exec" : "");
	else if (q->verb == VERB_WRITE)
		answer(q, true, "built in: in memory, gone at the end");
	else if (p->mnt->parent)
		answer(q, true, "built in: %s of moat's own", p->mnt->source);
	else
		answer(q, true, "built in: %s",
		       g_grant->root ? g_grant->root : "system directories");
}

static void say_no(struct question *q, const struct path *p, int r)
{
	const struct grant_path *g = rule_of(p);

	if (g && r == -EROFS)
		answer(q, false, "%s: path \"%s\" is ro; access = rw would allow it",
		       where(&g->origin), g->target);
	else if (g && q->verb == VERB_EXEC && !g->exec)
		answer(q, false, "%s: path \"%s\" has no exec; exec = true would allow it",
		       where(&g->origin), g->target);
	else if (r == -EACCES || r == -EPERM)
		answer(q, false, "the file's mode and owner do not let user %u do that%s%s",
		       g_grant->uid, g ? "; it is shown by " : "", g ? where(&g->origin) : "");
	else
		answer(q, false, "%s%s%s", err_text(-r), g ? "; below " : "",
		       g ? where(&g->origin) : "");
}

/* A rule for @path or what is above it, whose tree the host has not. */
static const struct grant_path *missing_rule(const char *path)
{
	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		const struct grant_path *g = &g_grant->paths[i];
		const size_t n = strlen(g->target);

		if (g->fd < 0 && g->access != GRANT_HIDDEN && strncmp(path, g->target, n) == 0 &&
		    (path[n] == '/' || !path[n]))
			return g;
	}
	return NULL;
}

/* Nothing of that name is there. */
static void say_missing(struct question *q, const struct end *end)
{
	const struct grant_path *g = rule_of(&end->at);
	const int hidden =
		end->missing[0] ? hostfs_hidden_index(end->at.dentry->inode, end->missing) : -1;

	if (hidden >= 0 && q->d->hidden_by[hidden] >= 0) {
		g = &g_grant->paths[q->d->hidden_by[hidden]];
		answer(q, false, "%s: path \"%s\" is hidden", where(&g->origin), g->target);
	} else if (hidden >= 0) {
		answer(q, false,
		       "built in: secrets in home directories and moat's own files are "
		       "hidden; a rule that names one shows it");
	} else if (g) {
		answer(q, false, "%s: it would show it, but it is not there", where(&g->origin));
	} else if (end->at.mnt && strcmp(end->at.mnt->source, "proc") == 0) {
		answer(q, q->verb == VERB_READ,
		       "built in: proc of moat's own, as far as such a process is there");
	} else if (missing_rule(q->path)) {
		answer(q, false, "%s: it is optional, and the host has none",
		       where(&missing_rule(q->path)->origin));
	} else {
		answer(q, false, "no rule shows it; path \"%s\" { access = %s } would", q->path,
		       access_for(q->verb));
	}
}

/* A file is to be made where @end stopped. */
static void ask_create(struct vfs_ctx *c, struct question *q, struct end *end)
{
	const size_t n = strlen(q->path), m = strlen(end->missing);
	int r;

	/* Only the last component may be missing, and it has to be a name that can be made. */
	if (m == 0 || n < m || strcmp(q->path + n - m, end->missing) != 0 ||
	    hostfs_hidden_index(end->at.dentry->inode, end->missing) >= 0) {
		say_missing(q, end);
		return;
	}
	r = vfs_access(c, &end->at, MAY_WRITE | MAY_EXEC);
	if (r)
		say_no(q, &end->at, r);
	else
		say_yes(q, &end->at);
}

/* Can it be opened (to be copied up, if it is to be written)? What moat's user may read, and not
 * everybody of the host, is not given away below the system directories; the file system says so
 * only then. */
static bool opens(struct vfs_ctx *c, const struct question *q, const struct path *p)
{
	struct file *f;
	int r;

	if (rule_of(p) || !LX_S_ISREG(inode_mode(p->dentry->inode)))
		return true;
	r = q->verb == VERB_EXEC ? vfs_open_exec(c, p, &f) : vfs_open_path(c, p, LX_O_RDONLY, &f);
	if (r)
		return false;
	file_put(f);
	return true;
}

static int ask(struct vfs_ctx *c, void *arg)
{
	static const unsigned masks[] = {
		[VERB_READ] = MAY_READ, [VERB_WRITE] = MAY_WRITE, [VERB_EXEC] = MAY_EXEC};
	struct question *q = arg;
	struct end end;
	int r = look(c, q->path, &end);

	if (r == -ENOENT && q->verb == VERB_WRITE) {
		ask_create(c, q, &end);
	} else if (r == -ENOENT) {
		say_missing(q, &end);
	} else {
		const uint32_t mode = r == 0 ? inode_mode(end.at.dentry->inode) : 0;

		if (r == 0 && q->verb == VERB_WRITE && LX_S_ISDIR(mode))
			r = -EISDIR;
		if (r == 0 && q->verb == VERB_EXEC && !LX_S_ISREG(mode))
			r = -EACCES;
		if (r == 0)
			r = vfs_access(c, &end.at, masks[q->verb]);
		if (r)
			say_no(q, &end.at, r);
		else if (!opens(c, q, &end.at))
			answer(q, false,
			       "built in: not every user of the host may read it; path \"%s\" { "
			       "access = %s } would allow it",
			       q->path, access_for(q->verb));
		else
			say_yes(q, &end.at);
	}
	end_put(&end);
	return 0;
}

static int ask_connect(const struct draft *d, const char *what)
{
	struct egress_rule to, rule;
	struct err e = {{0}};

	if (egress_parse(what, &to, &e) || to.kind == EGRESS_SUFFIX || !to.port ||
	    (to.kind == EGRESS_RANGE && to.prefix != (to.v6 ? 128u : 32u))) {
		fprintf(stderr, "moat policy: explain: connect %s: it is HOST:PORT\n", what);
		return EXIT_USAGE;
	}
	for (uint32_t i = 0; i < d->g.egress_count; i++) {
		if (egress_parse(d->g.egress[i].rule, &rule, &e) == 0 &&
		    egress_covers(&rule, &to)) {
			printf("allowed: connect %s: %s: egress \"%s\"; but there is no network "
			       "yet, and "
			       "a run with this policy is refused\n",
			       what, where(&d->g.egress[i].origin), d->g.egress[i].rule);
			return 0;
		}
	}
	printf("denied: connect %s: no rule allows it, and there is no network yet; egress = { "
	       "\"%s\" } would say so, and a run with it is refused\n",
	       what, what);
	return 1;
}

static int usage(void)
{
	fputs("moat policy: explain: what is asked is one of: -- open PATH [read|write], -- exec "
	      "PATH, -- connect HOST:PORT\n",
	      stderr);
	return EXIT_USAGE;
}

int policy_explain(struct draft *d, int argc, char **argv)
{
	static struct run_config cfg;
	struct question q = {.d = d};
	struct err e = {{0}};

	cfg.strace_fd = cfg.stats_fd = cfg.profile_fd = -1;
	if (argc < 3 || strcmp(argv[0], "--") != 0)
		return usage();
	q.path = argv[2];
	if (strcmp(argv[1], "connect") == 0 && argc == 3)
		return ask_connect(d, argv[2]);
	if (strcmp(argv[1], "exec") == 0 && argc == 3)
		q.verb = VERB_EXEC;
	else if (strcmp(argv[1], "open") == 0 &&
		 (argc == 3 || (argc == 4 && strcmp(argv[3], "read") == 0)))
		q.verb = VERB_READ;
	else if (strcmp(argv[1], "open") == 0 && argc == 4 && strcmp(argv[3], "write") == 0)
		q.verb = VERB_WRITE;
	else
		return usage();
	if (q.path[0] != '/') {
		fprintf(stderr,
			"moat policy: explain: %s: no absolute path; say it as the guest would, "
			"from /\n",
			q.path);
		return EXIT_USAGE;
	}
	cfg.memory_bytes = (uint64_t)1 << 30;
	cfg.workers = 1;
	if (rootfs_open_grants(d, &e) || grant_freeze(&d->g, &e) ||
	    sandbox_ask(&cfg, ask, &q, &e)) {
		fprintf(stderr, "moat policy: %s\n", e.text);
		return EXIT_SENTRY;
	}
	printf("%s: %s %s%s: %s\n", q.allowed ? "allowed" : "denied", argv[1], q.path,
	       q.verb == VERB_EXEC   ? ""
	       : q.verb == VERB_READ ? " read"
				     : " write",
	       q.why);
	return q.allowed ? 0 : 1;
}
