/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `moat policy learn': a run that is observed, and the smallest policy under which it passes.
 *
 * Theory of operation: the run has the grant that its options give, and the sentry notes what of it
 * is used (sentry/learn.c). When the sentry is dead the monitor reads the notes and reduces them:
 *
 *   - a file that was found, read, written or executed becomes a rule with just these rights;
 *   - a directory that was listed, or in which names were made or removed, or which holds a
 *     symbolic link that was followed, becomes a rule; one that was only looked at does if nothing
 *     below it does, since directories above rules are there anyhow;
 *   - what a run makes itself cannot be named before it runs: its directory takes its rights;
 *   - many files of a directory with the same rights become a rule for the directory;
 *   - what a rule above grants already is left out.
 *
 * Trust: the notes come from the sentry. What they say of a path beyond the run's own rights is not
 * believed, so that a policy is never wider than the grant that it was learnt under: rights are cut
 * to those of the rule that showed the path, and rules of the grant that narrow one above them are
 * kept. Secrets are not learnt even where they were granted.
 */
#include "runtime/learn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/lx.h"
#include "runtime/audit_log.h"
#include "runtime/landlock.h"
#include "runtime/monitor_lock.h"
#include "runtime/policy.h"
#include "runtime/run.h"
#include "sentry/learn.h"
#include "vfs/vfs.h"

/* So many files of a directory are one rule. */
#define MANY 8u
/* Of DRAFT_PATHS_MAX: some room for who goes on writing. */
#define RULES_MAX 200u
/* Of what the sentry notes, some 100 bytes a file: one that was taken over could fill our memory.
 */
#define NOTES_MAX (64 << 20)

bool learn_is_below(const char *path, const char *top)
{
	const size_t n = strlen(top);

	return strncmp(path, top, n) == 0 && (path[n] == '/' || !path[n]);
}

/* ---- what was used ---- */

/* The rule of the run's grant that showed @path. */
static const struct grant_path *shown_by(const char *path)
{
	const struct grant_path *best = NULL;

	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		const struct grant_path *g = &g_grant->paths[i];

		if (learn_is_below(path, g->target) &&
		    (!best || strlen(g->target) > strlen(best->target)))
			best = g;
	}
	return best && best->access != GRANT_HIDDEN ? best : NULL;
}

static void *grow(void *array, size_t count, size_t size)
{
	if (count & (count - 1) || (count > 0 && count < 16))
		return array;
	array = realloc(array, MAX(count * 2, (size_t)16) * size);
	if (!array) {
		fputs("moat policy: learn: out of memory\n", stderr);
		exit(EXIT_SENTRY);
	}
	return array;
}

static void add_need(struct learnt *l, const char *path, unsigned rights, unsigned flags)
{
	const struct grant_path *g = shown_by(path);
	struct learn_need *n;

	if (!g)
		return;
	if (g->access != GRANT_WRITE)
		rights &= ~(unsigned)LEARN_RW;
	if (!g->exec)
		rights &= ~(unsigned)LEARN_X;
	l->needs = grow(l->needs, l->count, sizeof(*l->needs));
	n = &l->needs[l->count++];
	*n = (struct learn_need){
		.path = strdup(path), .grant = g, .rights = rights, .flags = flags};
	if (!n->path) {
		fputs("moat policy: learn: out of memory\n", stderr);
		exit(EXIT_SENTRY);
	}
}

/* The directory of @path, if the same rule shows it. */
static bool parent_of(const char *path, char out[LX_PATH_MAX])
{
	const struct grant_path *g = shown_by(path);
	const char *slash = strrchr(path, '/');

	if (!g || strcmp(path, g->target) == 0 || slash == path ||
	    (size_t)(slash - path) >= LX_PATH_MAX)
		return false;
	memcpy(out, path, (size_t)(slash - path));
	out[slash - path] = '\0';
	return true;
}

static void add_comment(struct learnt *l, const char *path, const char *why)
{
	for (size_t i = 0; i < l->refused_count; i++)
		if (strcmp(l->refused[i].path, path) == 0 && strcmp(l->refused[i].why, why) == 0)
			return;
	if (l->refused_count == LEARN_REFUSED_MAX) {
		l->refused_more = true;
		return;
	}
	l->refused[l->refused_count++] = (struct learn_refused){path, why};
}

static void take_device(struct learnt *l, const char *path)
{
	const size_t n = strcspn(path + 5, "/");

	for (uint32_t i = 0; i < g_grant->device_count; i++) {
		const char *name = g_grant->devices[i];

		if ((strlen(name) == n && memcmp(name, path + 5, n) == 0) ||
		    (strcmp(name, "ptmx") == 0 && learn_is_below(path, "/dev/pts")))
			l->devices |= 1u << i;
	}
}
_Static_assert(DRAFT_DEVICES_MAX <= 32, "learnt.devices has a bit for each");

static void host_of(const struct grant_path *g, const char *path, char *out, size_t size)
{
	snprintf(out, size, "%s%s", g->host, path + strlen(g->target));
}

static void take_use(struct learnt *l, const char *path, unsigned how)
{
	const struct grant_path *g = shown_by(path);
	char up[LX_PATH_MAX], host[2 * LX_PATH_MAX];
	unsigned rights = 0;

	if (strlen(path) >= LX_PATH_MAX)
		return;
	if (!g) {
		if (strncmp(path, "/dev/", 5) == 0)
			take_device(l, path);
		return;
	}
	host_of(g, path, host, sizeof(host));
	if (draft_is_secret(host)) {
		add_comment(l, path, "a secret; who means it writes the rule himself");
		return;
	}
	if (how & (VFS_USE_WRITE | VFS_USE_NAMES))
		rights |= LEARN_RW;
	if (how & VFS_USE_EXEC)
		rights |= LEARN_X;
	/* A rule follows a link when it is read: the directory shows it as one. So it does with a
	 * name that cannot be written down. */
	if ((how & LEARN_LINK) || !learn_can_write(path)) {
		if (parent_of(path, up))
			add_need(l, up, rights, LEARN_DIR);
		return;
	}
	/* The directory in which it was made may be written, and has a rule for that. */
	if (how & VFS_USE_MADE) {
		if ((rights & LEARN_X) && parent_of(path, up))
			add_need(l, up, LEARN_X, LEARN_DIR);
		return;
	}
	add_need(l, path, rights,
		 !(how & LEARN_DIRECTORY)                               ? 0
		 : how & (VFS_USE_READ | VFS_USE_WRITE | VFS_USE_NAMES) ? LEARN_DIR
									: LEARN_DIR | LEARN_LOOK);
}

static void take_denied(struct learnt *l, const char *record)
{
	static const struct {
		const char *word, *why;
	} whys[] = {
		{"hidden ", "hidden: a secret, or by a rule"},
		{"read-only ", "was to be written and might not; learn with --rw to allow it"},
		{"private ", "not every user of the host may read it"},
		{"no-exec ", "was to be executed and might not"},
		{"no-device ", "no such device in the sandbox"},
		{"no-network ", "a network, which is not there; addresses of a cloud's metadata "
				"(169.254.169.254 and the like) are never learnt"},
		{"no-spaces ", "new name spaces, which no policy allows"},
		{"no-mount ", "was to be mounted, unmounted or made the root, which no policy "
			      "allows; its contents can be granted as a path"},
		{"refused ", "a call that is refused to every program"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(whys); i++) {
		const size_t n = strlen(whys[i].word);

		if (strncmp(record, whys[i].word, n) == 0)
			add_comment(l, record + n, whys[i].why);
	}
}

static void take_meter(struct learnt *l, const char *record)
{
	const size_t n = strcspn(record, " ");

	for (unsigned m = 0; m < METER_COUNT; m++) {
		const char *name = meter_name((enum meter)m);

		if (strlen(name) == n && memcmp(name, record, n) == 0 && record[n])
			l->peaks[m] = strtoull(record + n + 1, NULL, 10);
	}
}

/* @text ends with a NUL. True: the notes are whole. */
static bool take_notes(struct learnt *l, const char *text, size_t size)
{
	for (const char *p = text, *next; p < text + size; p = next) {
		char *end;
		unsigned long how;

		next = p + strlen(p) + 1;
		if (strcmp(p, ".") == 0)
			return true;
		if (strncmp(p, "u ", 2) == 0) {
			how = strtoul(p + 2, &end, 16);
			if (end[0] == ' ' && end[1] == '/')
				take_use(l, end + 1, (unsigned)how);
		} else if (strncmp(p, "d ", 2) == 0) {
			take_denied(l, p + 2);
		} else if (strncmp(p, "m ", 2) == 0) {
			take_meter(l, p + 2);
		}
	}
	return false;
}

/* ---- fewer rules ---- */

/* Parents right before what is below them. */
static int compare(const void *a, const void *b)
{
	const struct learn_need *m = a, *n = b;
	const unsigned char *x = (const unsigned char *)m->path;
	const unsigned char *y = (const unsigned char *)n->path;

	while (*x && *x == *y) {
		x++;
		y++;
	}
	return (*x == '/' ? 1 : *x ? *x + 1 : 0) - (*y == '/' ? 1 : *y ? *y + 1 : 0);
}

static void sort(struct learnt *l)
{
	size_t kept = 0;

	if (l->count == 0)
		return;
	qsort(l->needs, l->count, sizeof(*l->needs), compare);
	for (size_t i = 0; i < l->count; i++) {
		struct learn_need *n = &l->needs[i], *to = kept ? &l->needs[kept - 1] : NULL;

		if (to && strcmp(to->path, n->path) == 0) {
			/* Only looked at if always so. */
			const unsigned look = to->flags & n->flags & LEARN_LOOK;

			to->rights |= n->rights;
			to->flags = ((to->flags | n->flags) & ~(unsigned)LEARN_LOOK) | look;
			free(n->path);
		} else {
			l->needs[kept++] = *n;
		}
	}
	l->count = kept;
}

/* Does the rule for @above show for @n what @n's own would? */
static bool same_place(const struct learn_need *above, const struct learn_need *n)
{
	char x[2 * LX_PATH_MAX], y[2 * LX_PATH_MAX];

	if (above->grant == n->grant)
		return true;
	host_of(above->grant, n->path, x, sizeof(x));
	host_of(n->grant, n->path, y, sizeof(y));
	return strcmp(x, y) == 0;
}

/* Marks what becomes a rule; how many are they? */
static size_t choose(struct learnt *l)
{
	const struct learn_need *above[LX_PATH_MAX / 2];
	size_t depth = 0, rules = 0;

	for (size_t i = 0; i < l->count; i++) {
		struct learn_need *n = &l->needs[i];

		while (depth && !learn_is_below(n->path, above[depth - 1]->path))
			depth--;
		n->chosen = false;
		if (depth && same_place(above[depth - 1], n) &&
		    (n->rights & ~above[depth - 1]->rights) == 0)
			continue;
		if ((n->flags & LEARN_LOOK) && i + 1 < l->count &&
		    learn_is_below(l->needs[i + 1].path, n->path))
			continue;
		n->chosen = true;
		above[depth++] = n;
		rules++;
	}
	return rules;
}

/* The rights of at least @many rules of one directory that have the same become the directory's. */
static bool collapse(struct learnt *l, size_t many, bool directories)
{
	const size_t count = l->count;
	char up[LX_PATH_MAX], other[LX_PATH_MAX];
	bool any = false;

	for (size_t i = 0; i < count; i++) {
		const struct learn_need first = l->needs[i];
		size_t same = 0, k;

		if (!first.chosen || (!directories && (first.flags & LEARN_DIR)) ||
		    !parent_of(first.path, up))
			continue;
		for (k = i; k < count && learn_is_below(l->needs[k].path, up); k++) {
			const struct learn_need *n = &l->needs[k];

			same += n->chosen && n->rights == first.rights &&
				(directories || !(n->flags & LEARN_DIR)) &&
				parent_of(n->path, other) && strcmp(up, other) == 0;
		}
		if (same < many)
			continue;
		add_need(l, up, first.rights, LEARN_DIR);
		any = true;
		i = k - 1;
	}
	if (any)
		sort(l);
	return any;
}

/* What is gone since was in a directory that may be written, or is no loss. */
static void drop_gone(struct learnt *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->count; i++) {
		struct learn_need *n = &l->needs[i];
		char host[2 * LX_PATH_MAX];
		struct stat st;

		host_of(n->grant, n->path, host, sizeof(host));
		if (HOST(newfstatat_monitor, lstat(host, &st)) == 0)
			l->needs[kept++] = *n;
		else
			free(n->path);
	}
	l->count = kept;
}

static void reduce(struct learnt *l)
{
	drop_gone(l);
	sort(l);
	choose(l);
	collapse(l, MANY, false);
	for (size_t many = MANY; choose(l) > RULES_MAX && many > 0;)
		if (!collapse(l, many, true))
			many /= 2;
	l->rules = choose(l);
}

/* ---- the command ---- */

static int g_policy = -1; /* the file; truncated when there is something to be written */

int learn_open(struct run_config *cfg, struct err *e)
{
	if (audit_log_is_guests(cfg->learn))
		return err_set(e, EPERM,
			       "%s: the program may write there, and could change what it is to "
			       "be granted; name a file elsewhere",
			       cfg->learn);
	g_policy = HOST(openat_monitor, open(cfg->learn, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
	if (g_policy < 0)
		return err_set(e, errno, "%s: %s; name a file that can be written", cfg->learn,
			       err_text(errno));
	cfg->learn_fd = HOST(memfd_create_monitor, memfd_create("moat-learn", MFD_CLOEXEC));
	return cfg->learn_fd < 0
		       ? err_set(e, errno, "memfd_create: %s; allow it for moat", err_text(errno))
		       : 0;
}

/* Anything may be read, which is what a policy is about; of what may be written there is a
 * descriptor.
 */
void learn_lock(struct monitor_lock *l)
{
	const int root = HOST(openat_monitor, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));

	l->variant |= MONITOR_LEARN;
	if (root >= 0)
		monitor_lock_path(l, root, LL_READ, false);
	l->slots[MONITOR_POLICY] = g_policy;
	/* Directories can be others'. */
	if (HOST(getuid_monitor, getuid()) == 0)
		l->caps |= 1ull << CAP_DAC_READ_SEARCH;
}

/* A copy: what it holds does not change while it is read. The window ends with the monitor. */
static char *read_notes(int fd, size_t *size)
{
	struct stat st;
	char *copy = NULL;
	void *p;

	if (HOST(newfstatat_monitor, fstat(fd, &st)) != 0 || st.st_size <= 0 ||
	    st.st_size > NOTES_MAX)
		return NULL;
	p = HOST(mmap_monitor, mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0));
	if (p == MAP_FAILED)
		return NULL;
	copy = malloc((size_t)st.st_size + 1);
	if (copy) {
		memcpy(copy, p, (size_t)st.st_size);
		copy[st.st_size] = '\0';
		*size = (size_t)st.st_size;
	}
	return copy;
}

int learn_no_end(int status)
{
	fputs("moat policy: learn: the run did not come to an end that can be learnt from; no "
	      "policy is written\n",
	      stderr);
	return status ? status : EXIT_SENTRY;
}

/* As learn_finish; @text, of @size bytes, is what the sentry has noted, or NULL. */
static int write_policy(struct run_config *cfg, int status, char *text, size_t size)
{
	/* With a buffer of our own: the C library would ask the host what the file is. */
	static char buf[1 << 16];
	static struct learnt l;
	struct err e = {{0}};
	struct stat st;
	FILE *f;
	bool bad;

	if (!text || !take_notes(&l, text, size))
		return learn_no_end(status);
	reduce(&l);
	if (HOST(newfstatat_monitor, fstat(g_policy, &st)) != 0 ||
	    (S_ISREG(st.st_mode) && HOST(ftruncate_monitor, ftruncate(g_policy, 0)) != 0))
		f = NULL;
	else
		f = fdopen(g_policy, "w");
	if (!f) {
		fprintf(stderr, "moat policy: learn: %s: %s\n", cfg->learn, strerror(errno));
		return EXIT_SENTRY;
	}
	setvbuf(f, buf, _IOFBF, sizeof(buf));
	learn_print(&l, cfg, status, f);
	bad = ferror(f) | fflush(f);
	if (fclose(f) != 0 || bad) {
		fprintf(stderr, "moat policy: learn: %s: cannot be written\n", cfg->learn);
		return EXIT_SENTRY;
	}
	/* What went to a terminal or a pipe is gone. */
	if (S_ISREG(st.st_mode) && policy_check(cfg->learn, &e)) {
		fprintf(stderr,
			"moat policy: learn: what was learnt is no good policy, which is a fault "
			"of moat: %s\n",
			e.text);
		return EXIT_SENTRY;
	}
	if (status)
		fprintf(stderr,
			"moat policy: learn: the program ended with status %d; the policy lets it "
			"do so again\n",
			status);
	return status;
}

int learn_finish(struct run_config *cfg, int status)
{
	size_t size = 0;
	char *text = read_notes(cfg->learn_fd, &size);

	status = write_policy(cfg, status, text, size);
	free(text);
	return status;
}

int learn_main(int argc, char **argv)
{
	static struct run_config cfg;
	const char *file;

	if (argc < 4 || strcmp(argv[1], "-o") != 0 || !argv[2][0]) {
		fputs("moat policy: learn: say moat policy learn -o FILE [OPTION…] -- PROG "
		      "[ARG…]; the options are those of moat run, and nothing beyond what they "
		      "grant is learnt\n",
		      stderr);
		return EXIT_USAGE;
	}
	/* run_parse has a name of its own for what stands before its options. */
	file = argv[2];
	run_parse(argc - 2, argv + 2, &cfg);
	cfg.learn = file;
	cfg.verbose = true;
	return monitor_run(&cfg);
}
