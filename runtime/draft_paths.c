/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path rules of a draft: what may be named, how rules go together, and what stays hidden.
 *
 * Theory of operation: a rule is checked by itself when it is added, and against all others at the
 * end. Paths are compared by component, the host's after realpath(), so that what is granted is
 * what was checked. A rule that changes nothing is refused as one that contradicts another is:
 * whoever wrote it meant something by it.
 *
 * What is hidden is turned into the numbers of directories and files here, before any guest runs
 * (vfs/hostfs_hidden.c). Secrets that people have in their home directories are hidden wherever a
 * grant would show them, unless a rule names them; so is what moat itself reads and writes, where a
 * guest could change it.
 */
#include "runtime/draft.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/lx.h"

/* Below a home directory. */
static const char *const g_secrets[] = {
	".ssh",
	".gnupg",
	".aws",
	".azure",
	".kube",
	".config/gcloud",
	".config/gh",
	".config/hub",
	".config/op",
	".config/rclone",
	".config/git/credentials",
	".config/containers/auth.json",
	".docker/config.json",
	".git-credentials",
	".netrc",
	".npmrc",
	".yarnrc.yml",
	".pypirc",
	".config/pip/pip.conf",
	".cargo/credentials",
	".cargo/credentials.toml",
	".gem/credentials",
	".terraform.d/credentials.tfrc.json",
	".vault-token",
	".boto",
	".s3cfg",
	".pgpass",
	".my.cnf",
	".password-store",
	".local/share/keyrings",
	".local/share/kwalletd",
	".claude/.credentials.json",
	".codex/auth.json",
	".mozilla",
	".thunderbird",
	".config/google-chrome",
	".config/chromium",
	".config/BraveSoftware",
	".config/microsoft-edge",
	".Xauthority",
	".ICEauthority",
	".bash_history",
	".zsh_history",
	".local/share/fish/fish_history",
	".python_history",
	".node_repl_history",
	".psql_history",
	".mysql_history",
	".sqlite_history",
	".lesshst",
	".viminfo",
};

/* ---- paths as texts ---- */

/* @path is @top or below it. Both absolute and canonical. */
static bool is_below(const char *path, const char *top)
{
	const size_t n = strlen(top);

	if (n == 1)
		return true; /* the root */
	return strncmp(path, top, n) == 0 && (path[n] == '/' || !path[n]);
}

/* What of @path is below @top, with its slash; "": nothing. */
static const char *rest_below(const char *path, const char *top)
{
	return path + (top[1] ? strlen(top) : 0);
}

static bool is_canonical(const char *path)
{
	if (path[0] != '/' || strlen(path) >= LX_PATH_MAX)
		return false;
	if (!path[1])
		return true;
	for (const char *p = path; *p;) {
		const char *const name = p + 1;
		const size_t n = strcspn(name, "/");

		if (*p != '/' || n == 0 || (n == 1 && name[0] == '.') ||
		    (n == 2 && name[0] == '.' && name[1] == '.'))
			return false;
		p = name + n;
	}
	return true;
}

static const char *in_own_tree(const char *path)
{
	static const char *const own[] = {"/proc", "/sys", "/dev"};

	/* What people put into shared memory are files like others. */
	if (is_below(path, "/dev/shm") && path[8])
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (is_below(path, own[i]))
			return own[i];
	return NULL;
}

int draft_check_target(const char *target, struct err *e)
{
	const char *own;

	if (!is_canonical(target))
		return err_set(e, EINVAL,
			       "it is an absolute path of the guest without ., .. or a second /");
	if (!target[1])
		return err_set(e, EINVAL,
			       "the root is no grant; --root DIR, or root = \"DIR\" in a policy, "
			       "makes another one");
	own = in_own_tree(target);
	if (own)
		return err_set(e, EPERM, "the guest has a %s of its own, and nothing else is there",
			       own);
	return 0;
}

int draft_resolve_host(struct draft *d, const char *path, bool optional, const char *mend,
		       const char **out, struct err *e)
{
	char *p;

	*out = NULL;
	if (!is_canonical(path))
		return err_set(e, EINVAL,
			       "it is an absolute path of the host without ., .. or a second /");
	p = HOST(readlink_monitor, realpath(path, NULL));
	if (!p && optional && (errno == ENOENT || errno == ENOTDIR)) {
		*out = draft_text(d, path);
		return 0;
	}
	if (!p)
		return err_set(e, errno, "%s: %s on the host; %s", path, err_text(errno), mend);
	*out = draft_text(d, p);
	free(p);
	return draft_check_host(*out, e);
}

int draft_check_host(const char *host, struct err *e)
{
	const char *own;

	if (!host[1])
		return err_set(e, EPERM,
			       "the whole host is never granted; name the directories that the "
			       "program needs");
	own = in_own_tree(host);
	if (own)
		return err_set(e, EPERM,
			       "%s shows the host's processes, kernel or devices and is never "
			       "granted; the guest has one of its own",
			       own);
	return 0;
}

/* ---- the caller's directory ---- */

/* Of the host's root directory, only these are shown. */
const char *const g_system_dirs[] = {"bin",    "sbin", "lib", "lib32", "lib64",
				     "libx32", "usr",  "etc", NULL};

static bool in_system_dir(const char *path)
{
	for (unsigned i = 0; g_system_dirs[i]; i++) {
		const size_t n = strlen(g_system_dirs[i]);

		if (strncmp(path + 1, g_system_dirs[i], n) == 0 &&
		    (path[n + 1] == '/' || !path[n + 1]))
			return true;
	}
	return false;
}

/* The rule with the longest target that shows @target; NULL: none. */
static const struct grant_path *shown_by(const struct draft *d, const char *target)
{
	const struct grant_path *best = NULL;

	for (uint32_t i = 0; i < d->g.path_count; i++) {
		const struct grant_path *p = &d->paths[i];

		if (p->access != GRANT_HIDDEN && is_below(target, p->target) &&
		    (!best || strlen(p->target) > strlen(best->target)))
			best = p;
	}
	return best;
}

static bool is_pseudo_dir(const char *path)
{
	struct statfs s;

	/* What cannot be asked cannot be opened either, which is said then. */
	return HOST(statfs_monitor, statfs(path, &s)) == 0 &&
	       hostfs_is_pseudo_magic((uint64_t)s.f_type);
}

/* Where the program starts, and whether that is shown though nobody said so. */
static int settle_cwd(struct draft *d, struct err *e)
{
	const struct grant_path rule = {
		.access = d->show_cwd == DRAFT_CWD_WRITE ? GRANT_WRITE : GRANT_READ,
		.exec = true,
		.implied = true,
		.origin = d->cwd_origin,
	};
	const char *home = getenv("HOME");
	struct grant_path p = rule;
	char *here;

	if (d->g.cwd)
		return 0;
	here = HOST(getcwd_monitor, getcwd(NULL, 0));
	d->g.cwd = here && here[0] == '/' ? draft_text(d, here) : "/";
	free(here);
	if (!d->g.cwd[1])
		return 0;
	if (shown_by(d, d->g.cwd) || (!d->g.root && in_system_dir(d->g.cwd)))
		return 0;
	/* With a root of his own the user has named all that there is. */
	if (d->show_cwd == DRAFT_CWD_NONE || d->g.root || in_own_tree(d->g.cwd) ||
	    is_pseudo_dir(d->g.cwd)) {
		if (!d->g.root)
			d->g.cwd = "/";
		return 0;
	}
	if (d->show_cwd == DRAFT_CWD_WRITE &&
	    ((home && strcmp(home, d->g.cwd) == 0) || !strchr(d->g.cwd + 1, '/')))
		return err_set(e, EPERM,
			       "the caller's directory is %s, which is too much to let a program "
			       "write to; start moat in the directory of the work",
			       d->g.cwd);
	p.host = p.target = d->g.cwd;
	d->shows_secret = draft_is_secret(d->g.cwd);
	return draft_add_path(d, &p, e);
}

/* ---- what is hidden ---- */

static int add_id(struct draft_ids *ids, uint64_t dev, uint64_t ino, struct err *e)
{
	for (uint32_t i = 0; i < ids->count; i++)
		if (ids->id[i].dev == dev && ids->id[i].ino == ino)
			return 0;
	if (ids->count == ARRAY_SIZE(ids->id))
		return err_set(e, E2BIG, "too much is to be hidden; grant less above it");
	ids->id[ids->count++] = (struct hostfs_id){dev, ino};
	return 0;
}

/* As hostfs has it of statx. */
static uint64_t dev_of(const struct stat *st)
{
	return lx_makedev((uint32_t)major(st->st_dev), (uint32_t)minor(st->st_dev));
}

/* @path, whose directory is free of links, is hidden, and nobody moves what is above it. 1: there
 * is no such directory. */
static int hide_name(struct draft *d, const char *path, int by, struct err *e)
{
	char dir[LX_PATH_MAX], *slash;
	struct stat st, up;
	int r;

	if (strlen(path) >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "%s", err_text(ENAMETOOLONG));
	strcpy(dir, path);
	slash = strrchr(dir, '/');
	*slash = '\0';
	if (HOST(newfstatat_monitor, stat(slash == dir ? "/" : dir, &up)) != 0)
		return 1;
	if (d->hidden_count == ARRAY_SIZE(d->hidden))
		return err_set(e, E2BIG, "too much is to be hidden; grant less above it");
	d->hidden_by[d->hidden_count] = (int16_t)by;
	d->hidden[d->hidden_count++] = (struct hostfs_hidden){.dir = {dev_of(&up), up.st_ino},
							      .name = draft_text(d, slash + 1)};
	r = 0;
	if (HOST(newfstatat_monitor, lstat(path, &st)) == 0) {
		/* Each is in hidden, so there is room. */
		d->masks[d->g.mask_count++] = draft_text(d, path);
		r = add_id(&d->hidden_files, dev_of(&st), st.st_ino, e);
	}
	while (r == 0 && slash != dir) {
		r = add_id(&d->pins, dev_of(&up), up.st_ino, e);
		slash = strrchr(dir, '/');
		*slash = '\0';
		if (slash != dir && HOST(newfstatat_monitor, stat(dir, &up)) != 0)
			break;
	}
	return r;
}

/* @path of the host, and what it leads to if it is a link. 1: there is no such directory. */
static int hide_host(struct draft *d, const char *path, int by, struct err *e)
{
	char dir[LX_PATH_MAX], *real, *whole;
	const char *slash = strrchr(path, '/');
	int r;

	if (strlen(path) >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "%s", err_text(ENAMETOOLONG));
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	real = HOST(readlink_monitor, realpath(slash == path ? "/" : dir, NULL));
	if (!real)
		return 1;
	r = asprintf(&whole, "%s%s", real[1] ? real : "", slash);
	free(real);
	if (r < 0)
		return err_set(e, ENOMEM, "out of memory");
	r = hide_name(d, whole, by, e);
	real = r == 0 ? HOST(readlink_monitor, realpath(whole, NULL)) : NULL;
	if (real && strcmp(real, whole) != 0 && real[1])
		r = hide_name(d, real, by, e);
	free(real);
	free(whole);
	return r;
}

static int draft_err(const struct grant_origin *o, const char *what, struct err *e)
{
	char at[256], text[sizeof(e->text)];

	strcpy(text, e->text);
	return err_set(e, EINVAL, "%s: %s: %s", draft_origin_text(o, at, sizeof(at)), what, text);
}

static int settle_hidden(struct draft *d, struct grant_path *p, struct err *e)
{
	const struct grant_path *by = shown_by(d, p->target);
	const char *base, *rest;
	char *host;
	int r;

	if (by && by->host) {
		base = by->host;
		rest = rest_below(p->target, by->target);
	} else if (d->g.root || in_system_dir(p->target)) {
		base = d->g.root ? d->g.root : "/";
		rest = p->target;
	} else {
		return err_set(e, EINVAL,
			       "no rule shows it, so there is nothing to hide; leave it out");
	}
	if (!*rest)
		return err_set(e, EINVAL, "it is granted by %s and hidden; choose one",
			       by->origin.file);
	r = asprintf(&host, "%s%s", base[1] ? base : "", rest);
	if (r < 0)
		return err_set(e, ENOMEM, "out of memory");
	r = HOST(access_monitor, access(host, F_OK));
	if (r != 0 && !p->optional)
		r = err_set(e, ENOENT,
			    "%s is not there; say optional = true to hide it if it comes", host);
	else
		r = hide_host(d, host, (int)(p - d->paths), e);
	free(host);
	return MIN(r, 0);
}

/* Does a rule show @host of the host, and does none name it or what is in it? */
static bool is_shown_unasked(const struct draft *d, const char *host, bool writable)
{
	bool shown = d->g.root && is_below(host, d->g.root) && !writable;

	for (uint32_t i = 0; i < d->g.path_count; i++) {
		const struct grant_path *p = &d->paths[i];

		if (p->access == GRANT_HIDDEN || !p->host)
			continue;
		if (is_below(p->host, host))
			return false;
		if (is_below(host, p->host) && (!writable || p->access == GRANT_WRITE))
			shown = true;
	}
	return shown;
}

static int hide_secrets_of(struct draft *d, const char *home, struct err *e)
{
	bool near = d->g.root && is_below(home, d->g.root);
	char path[LX_PATH_MAX];
	int r = 0;

	for (uint32_t i = 0; !near && i < d->g.path_count; i++) {
		const char *host = d->paths[i].host;

		near = host && (is_below(home, host) || is_below(host, home));
	}
	for (size_t i = 0; near && r >= 0 && i < ARRAY_SIZE(g_secrets); i++) {
		if ((size_t)snprintf(path, sizeof(path), "%s/%s", home, g_secrets[i]) >=
		    sizeof(path))
			continue;
		if (is_shown_unasked(d, path, false))
			r = hide_host(d, path, -1, e);
	}
	return MIN(r, 0);
}

/* All of /home only where all of it is shown. */
static int hide_secrets_of_all(struct draft *d, struct err *e)
{
	struct dirent *entry;
	bool shown = d->g.root && is_below("/home", d->g.root);
	DIR *dir;
	int r = 0;

	for (uint32_t i = 0; !shown && i < d->g.path_count; i++)
		shown = d->paths[i].host && is_below(d->paths[i].host, "/home");
	dir = shown ? HOST(openat_monitor, opendir("/home")) : NULL;
	if (!dir)
		return 0;
	while (r == 0 && (entry = HOST(getdents64_monitor, readdir(dir)))) {
		char home[LX_PATH_MAX];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(home, sizeof(home), "/home/%s", entry->d_name);
		r = hide_secrets_of(d, home, e);
	}
	HOST(close_monitor, closedir(dir));
	return r;
}

static int hide_secrets(struct draft *d, struct err *e)
{
	const char *env = getenv("HOME");
	char *home = NULL;
	int r = 0;

	if (env && env[0] == '/' && strcmp(env, "/root") != 0)
		home = HOST(readlink_monitor, realpath(env, NULL));
	if (home && home[1])
		r = hide_secrets_of(d, home, e);
	free(home);
	if (r == 0)
		r = hide_secrets_of(d, "/root", e);
	return r ? r : hide_secrets_of_all(d, e);
}

static int compare_ids(const void *a, const void *b)
{
	return hostfs_id_compare(a, b);
}

static void sort_hidden(struct draft *d)
{
	qsort(d->hidden_files.id, d->hidden_files.count, sizeof(d->hidden_files.id[0]),
	      compare_ids);
	qsort(d->pins.id, d->pins.count, sizeof(d->pins.id[0]), compare_ids);
	d->g.hidden = d->hidden;
	d->g.hidden_count = d->hidden_count;
	d->g.hidden_files = d->hidden_files.id;
	d->g.hidden_file_count = d->hidden_files.count;
	d->g.pins = d->pins.id;
	d->g.pin_count = d->pins.count;
}

int draft_protect(struct draft *d, const char *path, struct err *e)
{
	char *real = HOST(readlink_monitor, realpath(path, NULL));
	int r = 0;

	if (real && is_shown_unasked(d, real, true)) {
		r = hide_host(d, real, -1, e);
		sort_hidden(d);
	}
	free(real);
	return MIN(r, 0);
}

/* ---- rules against each other ---- */

static bool same_rights(const struct grant_path *a, const struct grant_path *b)
{
	return a->access == b->access && a->exec == b->exec;
}

static const char *access_name(const struct grant_path *p)
{
	return p->access == GRANT_HIDDEN ? "hidden" : p->access == GRANT_READ ? "ro" : "rw";
}

/* @a comes before @b in order of depth, so @b is never above @a. */
static int check_pair(const struct grant_path *a, const struct grant_path *b, struct err *e)
{
	char at[256];

	draft_origin_text(&a->origin, at, sizeof(at));
	if (strcmp(a->target, b->target) == 0)
		return same_rights(a, b)
			       ? err_set(e, EEXIST, "granted already: %s", at)
			       : err_set(e, EEXIST, "it is %s here and %s by %s; choose one",
					 access_name(b), access_name(a), at);
	if (a->access == GRANT_HIDDEN && is_below(b->target, a->target))
		return err_set(e, EINVAL, "%s is hidden by %s, with all that is below it",
			       a->target, at);
	if (!a->host || !b->host)
		return 0;
	/* That the caller's directory is shown where it is, too, nobody said. */
	if (strcmp(a->host, b->host) == 0 && a->access != b->access && !a->implied && !b->implied)
		return err_set(e, EINVAL, "%s is %s here and %s by %s; choose one", b->host,
			       access_name(b), access_name(a), at);
	return 0;
}

bool draft_is_secret(const char *host)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_secrets); i++) {
		const size_t n = strlen(g_secrets[i]);

		for (const char *s = host; (s = strstr(s, g_secrets[i])); s++)
			if (s > host && s[-1] == '/' && (s[n] == '/' || !s[n]))
				return true;
	}
	return false;
}

/* Rules that change nothing: what is granted or hidden above says the same. */
static int check_use(const struct draft *d, uint32_t n, struct err *e)
{
	const struct grant_path *p = &d->paths[n], *above = NULL;
	char at[256];

	for (uint32_t i = 0; i < n; i++)
		if (is_below(p->target, d->paths[i].target))
			above = &d->paths[i];
	/* One that names a secret shows it. What an option has made of a rule of the policy is not
	 * the policy's mistake. */
	if (!above || above->implied || (p->host && draft_is_secret(p->host)) ||
	    (p->origin.line == 0) != (above->origin.line == 0))
		return 0;
	draft_origin_text(&above->origin, at, sizeof(at));
	if (p->access != GRANT_HIDDEN && above->host && p->host && same_rights(p, above) &&
	    is_below(p->host, above->host) &&
	    strcmp(rest_below(p->host, above->host), rest_below(p->target, above->target)) == 0)
		return err_set(e, EEXIST, "%s grants that already; leave it out", at);
	return 0;
}

static void find_moat(struct draft *d)
{
	char path[LX_PATH_MAX];
	const ssize_t n =
		HOST(readlink_monitor, readlink("/proc/self/exe", path, sizeof(path) - 1));

	if (n <= 0)
		return;
	path[n] = '\0';
	d->moat = draft_text(d, path);
}

static int check_moat(struct draft *d, const struct grant_path *p, struct err *e)
{
	if (p->access != GRANT_WRITE)
		return 0;
	if (!d->moat)
		find_moat(d);
	if (!d->moat || !is_below(d->moat, p->host))
		return 0;
	return err_set(e, EPERM,
		       "moat itself is there (%s), and the program could replace it; grant a "
		       "directory beside it",
		       d->moat);
}

/* Nobody moves away what is above a rule of its own in a writable tree, to make another in its
 * place. */
static int pin_rule(struct draft *d, const struct grant_path *p, struct err *e)
{
	char dir[LX_PATH_MAX];
	const struct grant_path *above = NULL;
	struct stat st;
	int r = 0;

	for (uint32_t i = 0; i < d->g.path_count; i++) {
		const struct grant_path *a = &d->paths[i];

		if (a != p && a->access == GRANT_WRITE && a->host && p->host &&
		    strlen(p->host) > strlen(a->host) && is_below(p->host, a->host))
			above = a;
	}
	if (!above || strlen(p->host) >= sizeof(dir))
		return 0;
	strcpy(dir, p->host);
	while (r == 0 && strlen(dir) > strlen(above->host)) {
		if (HOST(newfstatat_monitor, stat(dir, &st)) == 0)
			r = add_id(&d->pins, dev_of(&st), st.st_ino, e);
		*strrchr(dir, '/') = '\0';
	}
	return r;
}

int draft_settle_paths(struct draft *d, struct err *e)
{
	int r = settle_cwd(d, e);

	if (r)
		return draft_err(&d->cwd_origin, "cwd", e);
	draft_sort_paths(d);
	for (uint32_t i = 0; r == 0 && i < d->g.path_count; i++) {
		struct grant_path *p = &d->paths[i];

		for (uint32_t k = 0; r == 0 && k < i; k++)
			r = check_pair(&d->paths[k], p, e);
		if (r == 0)
			r = check_use(d, i, e);
		if (r == 0)
			r = check_moat(d, p, e);
		if (r == 0)
			r = p->access == GRANT_HIDDEN ? settle_hidden(d, p, e) : pin_rule(d, p, e);
		if (r)
			return draft_err(&p->origin, p->target, e);
	}
	r = hide_secrets(d, e);
	sort_hidden(d);
	return r;
}
