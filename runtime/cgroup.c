/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup behind the meters. See runtime/cgroup.h.
 */
#include "runtime/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hostcall.h"
#include "runtime/cpu_share.h"
#include "sentry/grant.h"

/* What neither meter of memory counts: stacks, areas shared with stubs, the copy of moat. */
#define UNCOUNTED_BYTES ((uint64_t)64 << 20)
/* The sentry's own threads. */
#define SENTRY_PIDS 256
/* The kernel's PID_MAX_LIMIT. */
#define PIDS_MOST ((uint64_t)1 << 22)
#define PERIOD_US 100000

#define PREFIX "moat-"
#define PATH_SIZE 1024
/* The kernel takes a moment to see off the last one. */
#define REMOVE_ROUNDS 500

enum controller { MEMORY, PIDS, CPU, CONTROLLERS };

static const char *const g_names[CONTROLLERS] = {"memory", "pids", "cpu"};

struct place {
	char path[PATH_SIZE]; /* the caller's own cgroup */
	bool v2;
};

static struct {
	int parent; /* the caller's own cgroup; -1: none was made */
	int fd;     /* the one made, locked */
	bool v2;
	bool shared; /* the same as an earlier controller's */
	char name[48];
} g_made[CONTROLLERS] = {{.parent = -1}, {.parent = -1}, {.parent = -1}};

/* ---- files ---- */

static int read_text(int dir, const char *name, char *text, size_t size)
{
	const int fd = HOST(openat_monitor, openat(dir, name, O_RDONLY | O_CLOEXEC));
	size_t used = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (used < size - 1 &&
	       (n = HOST(read_monitor, read(fd, text + used, size - 1 - used))) > 0)
		used += (size_t)n;
	text[used] = '\0';
	HOST(close_monitor, close(fd));
	/* What does not fit is not half believed. */
	return n < 0 ? -EIO : used == size - 1 ? -E2BIG : 0;
}

static int write_text(int dir, const char *name, const char *text)
{
	const int fd = HOST(openat_monitor, openat(dir, name, O_WRONLY | O_CLOEXEC));
	int r = 0;

	if (fd < 0)
		return -errno;
	if (HOST(write_monitor, write(fd, text, strlen(text))) < 0)
		r = -errno;
	HOST(close_monitor, close(fd));
	return r;
}

/* Is @word in @list, between @separator or at its ends? */
static bool has_word(const char *list, const char *word, const char *separators)
{
	const size_t n = strlen(word);

	while (*list) {
		const size_t len = strcspn(list, separators);

		if (len == n && memcmp(list, word, n) == 0)
			return true;
		list += len;
		list += strspn(list, separators);
	}
	return false;
}

/* ---- where ---- */

/* The caller's cgroup, as /proc/self/cgroup has it: N:controller,controller:PATH; v2: 0::PATH. */
static bool own_path(const char *controller, char *path, size_t size)
{
	static char text[16384];
	char *save, *line;

	if (read_text(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)))
		return false;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *list = strchr(line, ':'), *own = list ? strchr(list + 1, ':') : NULL;

		if (!own)
			continue;
		*own++ = '\0';
		if (controller ? has_word(list + 1, controller, ",") : !list[1]) {
			snprintf(path, size, "%s", own);
			return strlen(own) < size;
		}
	}
	return false;
}

/* One line of mountinfo: the hierarchy with @controller in v1, or v2? */
static bool is_mounted(char *line, const char *controller, struct place *p)
{
	char own[PATH_SIZE], *dash = strstr(line, " - "), *word[5], *fs[3], *save;
	const char *below = own;
	size_t root;

	if (!dash)
		return false;
	*dash = '\0';
	word[0] = strtok_r(line, " ", &save);
	for (unsigned i = 1; i < ARRAY_SIZE(word); i++)
		word[i] = strtok_r(NULL, " ", &save);
	fs[0] = strtok_r(dash + 3, " ", &save);
	for (unsigned i = 1; i < ARRAY_SIZE(fs); i++)
		fs[i] = strtok_r(NULL, " ", &save);
	/* No name of ours or systemd's has what is written as \ooo. */
	if (!word[4] || !fs[2] || strchr(word[3], '\\') || strchr(word[4], '\\'))
		return false;
	p->v2 = strcmp(fs[0], "cgroup2") == 0;
	if (!p->v2 && (strcmp(fs[0], "cgroup") != 0 || !has_word(fs[2], controller, ",")))
		return false;
	if (!own_path(p->v2 ? NULL : controller, own, sizeof(own)) || strstr(own, "/.."))
		return false;
	/* A mount may show a part of the hierarchy alone. */
	root = strcmp(word[3], "/") == 0 ? 0 : strlen(word[3]);
	if (strncmp(own, word[3], root) != 0 || (root && own[root] && own[root] != '/'))
		return false;
	below += root;
	return (size_t)snprintf(p->path, sizeof(p->path), "%s%s", word[4],
				strcmp(below, "/") == 0 ? "" : below) < sizeof(p->path);
}

/* Gives it to what is below the caller's own cgroup, if it is to be had there. */
static int enable_v2(int parent, const char *controller)
{
	char text[1024], plus[32];
	int r = read_text(parent, "cgroup.controllers", text, sizeof(text));

	if (r < 0)
		return r;
	if (!has_word(text, controller, " \n"))
		return -ENOENT;
	r = read_text(parent, "cgroup.subtree_control", text, sizeof(text));
	if (r < 0 || has_word(text, controller, " \n"))
		return r;
	snprintf(plus, sizeof(plus), "+%s", controller);
	return write_text(parent, "cgroup.subtree_control", plus);
}

/* The caller's own cgroup of @controller, opened; -errno. */
static int open_parent(const char *controller, bool *v2)
{
	static char text[65536];
	char *save, *line;
	int found = -ENOENT;

	if (read_text(AT_FDCWD, "/proc/self/mountinfo", text, sizeof(text)))
		return -ENOENT;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct place p;
		int fd, r;

		if (!is_mounted(line, controller, &p))
			continue;
		fd = HOST(openat_monitor, open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		r = fd < 0 ? -errno : p.v2 ? enable_v2(fd, controller) : 0;
		*v2 = p.v2;
		if (r == 0)
			return fd;
		if (fd >= 0)
			HOST(close_monitor, close(fd));
		if (r != -ENOENT)
			found = r;
	}
	return found;
}

static const char *mend(int error)
{
	switch (error) {
	case ENOENT:
		return "no hierarchy with it is mounted where moat is; mount one below "
		       "/sys/fs/cgroup";
	case EBUSY:
		return "in cgroup v2 only the root gives it on while processes are in it; start "
		       "moat "
		       "from there";
	default:
		return "start moat as root, or let the owner of the caller's cgroup delegate it "
		       "(chown of the directory and its cgroup.procs)";
	}
}

/* ---- making ---- */

/* Directories that monitors left which were killed. */
static void sweep(int parent)
{
	char path[64];
	struct dirent *d;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", parent);
	dir = HOST(openat_monitor, opendir(path));
	if (!dir)
		return;
	while ((d = HOST(getdents64_monitor, readdir(dir)))) {
		int fd;

		if (strncmp(d->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		fd = HOST(openat_monitor, openat(parent, d->d_name,
						 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
		if (fd < 0)
			continue;
		if (HOST(flock_monitor, flock(fd, LOCK_EX | LOCK_NB)) == 0)
			(void)HOST(unlinkat_monitor, unlinkat(parent, d->d_name, AT_REMOVEDIR));
		HOST(close_monitor, close(fd));
	}
	HOST(close_monitor, closedir(dir));
}

static int make_locked(int parent, char *name, size_t size)
{
	int r = -EAGAIN;

	/* Who sweeps may have been faster than our lock. */
	for (unsigned i = 0; i < 8; i++) {
		struct timespec now;
		int fd;

		clock_gettime(CLOCK_MONOTONIC, &now);
		snprintf(name, size, PREFIX "%d-%09ld", HOST(getpid_monitor, getpid()),
			 now.tv_nsec);
		if (HOST(mkdirat_monitor, mkdirat(parent, name, 0755)) != 0) {
			r = -errno;
			if (r != -EEXIST)
				return r;
			continue;
		}
		fd = HOST(openat_monitor, openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		if (fd >= 0 && HOST(flock_monitor, flock(fd, LOCK_EX | LOCK_NB)) == 0 &&
		    HOST(faccessat_monitor, faccessat(fd, "cgroup.procs", W_OK, 0)) == 0)
			return fd;
		r = -errno;
		if (fd >= 0)
			HOST(close_monitor, close(fd));
		(void)HOST(unlinkat_monitor, unlinkat(parent, name, AT_REMOVEDIR));
	}
	return r;
}

static void remove_one(enum controller c)
{
	if (g_made[c].parent < 0)
		return;
	for (unsigned i = 0; i < REMOVE_ROUNDS && !g_made[c].shared; i++) {
		if (HOST(unlinkat_monitor,
			 unlinkat(g_made[c].parent, g_made[c].name, AT_REMOVEDIR)) == 0 ||
		    errno != EBUSY)
			break;
		(void)HOST(poll_monitor, poll(NULL, 0, 2));
	}
	HOST(close_monitor, close(g_made[c].fd));
	HOST(close_monitor, close(g_made[c].parent));
	g_made[c].parent = -1;
}

/* Its own directory, or in v2 that of another controller. -errno. */
static int make(enum controller c)
{
	bool v2;
	int parent = open_parent(g_names[c], &v2), fd;

	if (parent < 0)
		return parent;
	for (unsigned o = 0; v2 && o < CONTROLLERS; o++) {
		if (g_made[o].parent < 0 || !g_made[o].v2)
			continue;
		fd = HOST(fcntl_monitor, fcntl(g_made[o].fd, F_DUPFD_CLOEXEC, 3));
		g_made[c] = g_made[o];
		g_made[c].shared = true;
		g_made[c].parent = parent;
		g_made[c].fd = fd;
		return 0;
	}
	sweep(parent);
	fd = make_locked(parent, g_made[c].name, sizeof(g_made[c].name));
	if (fd < 0) {
		HOST(close_monitor, close(parent));
		return fd;
	}
	g_made[c].parent = parent;
	g_made[c].fd = fd;
	g_made[c].v2 = v2;
	g_made[c].shared = false;
	return 0;
}

static int make_and_set(enum controller c, uint64_t value)
{
	char text[64];
	int r = make(c);

	if (r < 0)
		return r;

	const bool v2 = g_made[c].v2;
	const int fd = g_made[c].fd;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	if (c == MEMORY)
		r = write_text(fd, v2 ? "memory.max" : "memory.limit_in_bytes", text);
	else if (c == PIDS)
		r = write_text(fd, "pids.max", text);
	else if (!v2)
		r = write_text(fd, "cpu.cfs_quota_us", text);
	else {
		snprintf(text, sizeof(text), "%llu %d", (unsigned long long)value, PERIOD_US);
		r = write_text(fd, "cpu.max", text);
	}
	if (r < 0)
		remove_one(c);
	return r;
}

/* ---- what the grant asks for ---- */

/* Somebody named it; those of the preset default are far above what a program uses. */
static bool is_named(enum grant_limit l)
{
	const char *file = g_grant->limit_origin[l].file;

	return g_grant->limits[l] != GRANT_NO_LIMIT && file && strcmp(file, "preset default") != 0;
}

/* The sum of both, and @more; false: one of them is without limit. */
static bool sum(enum grant_limit a, enum grant_limit b, uint64_t more, uint64_t *out)
{
	return g_grant->limits[a] != GRANT_NO_LIMIT && g_grant->limits[b] != GRANT_NO_LIMIT &&
	       !__builtin_add_overflow(g_grant->limits[a], g_grant->limits[b], out) &&
	       !__builtin_add_overflow(*out, more, out) && *out <= INT64_MAX;
}

int cgroup_make(struct err *e)
{
	const uint64_t share = g_grant->limits[GRANT_LIMIT_cpu_share];
	uint64_t v;
	int r;

	if (!cpu_share_is_whole(share)) {
		r = make_and_set(CPU, share * (PERIOD_US / 100));
		if (r < 0)
			return err_set(e, -r,
				       "cpu_share: part of a processor needs the host's cgroup: "
				       "%s: %s; or name a multiple of 100%%",
				       err_text(-r), mend(-r));
	}
	/* The meters hold these without it. */
	if ((is_named(GRANT_LIMIT_memory) || is_named(GRANT_LIMIT_sentry_memory)) &&
	    sum(GRANT_LIMIT_memory, GRANT_LIMIT_sentry_memory, UNCOUNTED_BYTES, &v))
		(void)make_and_set(MEMORY, v);
	/* A thread of the guest's takes one or two of the host's; a process that is not reaped,
	 * one. */
	if (is_named(GRANT_LIMIT_threads) &&
	    sum(GRANT_LIMIT_threads, GRANT_LIMIT_threads, SENTRY_PIDS, &v) && v < PIDS_MOST)
		(void)make_and_set(PIDS, v);
	return 0;
}

int cgroup_take(pid_t child)
{
	char pid[16];
	int r = 0;

	snprintf(pid, sizeof(pid), "%d", child);
	for (unsigned c = 0; r == 0 && c < CONTROLLERS; c++)
		if (g_made[c].parent >= 0 && !g_made[c].shared)
			r = write_text(g_made[c].fd, "cgroup.procs", pid);
	return r;
}

/* How many the host's kernel has killed since there was no more memory. */
static unsigned long killed(void)
{
	char text[4096];
	const char *at;

	if (g_made[MEMORY].parent < 0 ||
	    read_text(g_made[MEMORY].fd, g_made[MEMORY].v2 ? "memory.events" : "memory.oom_control",
		      text, sizeof(text)))
		return 0;
	at = strstr(text, "oom_kill ");
	return at ? strtoul(at + strlen("oom_kill "), NULL, 10) : 0;
}

void cgroup_end(void)
{
	const unsigned long n = killed();

	if (n)
		fprintf(stderr,
			"moat: memory: the sandbox passed its limit faster than moat's own kernel "
			"looked, and the host killed %lu of its processes (--limit memory=SIZE and "
			"sentry_memory=SIZE allow more)\n",
			n);
	for (unsigned c = CONTROLLERS; c-- > 0;)
		remove_one((enum controller)c);
}

void cgroup_describe(FILE *f)
{
	char have[64] = "", lack[64] = "";
	int why = 0;

	for (unsigned c = 0; c < CONTROLLERS; c++) {
		const int r = make((enum controller)c);
		char *list = r == 0 ? have : lack;

		why = r ? r : why;
		if (list[0])
			strcat(list, ", ");
		strcat(list, g_names[c]);
	}
	if (have[0])
		fprintf(f, "  %-16s works: for limits that are named\n", have);
	if (lack[0])
		fprintf(f, "  %-16s does not work here: %s: %s\n", lack, err_text(-why),
			mend(-why));
	cgroup_end();
}
