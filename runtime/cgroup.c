/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup behind the meters. See runtime/cgroup.h.
 */
#include "runtime/cgroup.h"

#include "sentry/summary.h"

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
#include "runtime/landlock.h"
#include "runtime/monitor_lock.h"
#include "sentry/grant.h"

/* What neither meter of memory counts: stacks, areas shared with stubs, the copy of moat. */
#define UNCOUNTED_BYTES ((uint64_t)64 << 20)
/* What guests can use between two looks of the sentry's, and until who was killed is gone: 8 MiB in
 * a millisecond (sentry/meter_watch.c), for some 30. The host's kernel is to kill nobody as long as
 * the sentry does: it is no good at it while the sentry writes the pages, as it then finds that a
 * process that it has killed gives nothing back, and kills another. */
#define OVERSHOOT_BYTES ((uint64_t)256 << 20)
/* The sentry's own threads. */
#define SENTRY_PIDS 256
/* The kernel's PID_MAX_LIMIT. */
#define PIDS_MOST ((uint64_t)1 << 22)
#define PERIOD_US 100000

#define PREFIX "moat-"
#define INNER "box"
#define PATH_SIZE 1024
/* The kernel takes a moment to see off the last one. */
#define REMOVE_ROUNDS 500

enum controller { MEMORY, PIDS, CPU, CONTROLLERS };

static const char *const g_names[CONTROLLERS] = {"memory", "pids", "cpu"};

struct place {
	char path[PATH_SIZE]; /* the caller's own cgroup */
	size_t mount;         /* so much of it is where the hierarchy is mounted */
	bool v2;
};

static struct {
	int parent; /* where it was made; -1: none was */
	int fd;     /* the one made, locked */
	int box;    /* where the sandbox is put: that one, or in v2 INNER below it */
	bool v2;
	bool shared; /* the same as an earlier controller's */
	char name[48];
} g_made[CONTROLLERS] = {{.parent = -1}, {.parent = -1}, {.parent = -1}};

/* What the cgroups between the caller's and the one made are limited to; v2. */
static uint64_t g_over[CONTROLLERS] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
static int g_oom = -1; /* where the host counts whom it has killed */

/* ---- files ---- */

static int read_text(int dir, const char *name, char *text, size_t size)
{
	const int fd = HOST(openat_monitor, openat(dir, name, O_RDONLY | O_CLOEXEC));
	size_t used = 0;
	ssize_t n = 0;

	text[0] = '\0';
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
	p->mount = strlen(word[4]);
	return (size_t)snprintf(p->path, sizeof(p->path), "%s%s", word[4],
				strcmp(below, "/") == 0 ? "" : below) < sizeof(p->path);
}

/* ---- where in cgroup v2 ---- */

/* A limit as these files have it, with "max" as none; cpu.max: per PERIOD_US. */
static uint64_t read_limit(int dir, enum controller c)
{
	static const char *const files[CONTROLLERS] = {"memory.max", "pids.max", "cpu.max"};
	char text[64], *end;
	uint64_t value, period;

	if (read_text(dir, files[c], text, sizeof(text)) || text[0] == 'm')
		return UINT64_MAX;
	value = strtoull(text, &end, 10);
	period = c == CPU ? strtoull(end, NULL, 10) : 0;
	return period ? value * PERIOD_US / period : value;
}

/* Could what is made below it be limited? Not while processes are in it, but for the hierarchy's
 * root, which alone has no type. (It would take cpu and pids even then, and become a threaded one,
 * where no process has a place of its own.) */
static bool is_inner(int dir)
{
	char text[64];
	int r = read_text(dir, "cgroup.type", text, sizeof(text));

	if (r == -ENOENT)
		return true;
	if (r < 0 || strcmp(text, "domain\n") != 0)
		return false;
	r = read_text(dir, "cgroup.procs", text, sizeof(text));
	return r == 0 && !text[0];
}

static int switch_on(int dir, const char *controller)
{
	char plus[32];

	snprintf(plus, sizeof(plus), "+%s", controller);
	return write_text(dir, "cgroup.subtree_control", plus);
}

/* Gives the controller to what is below @dir. -errno; -EBUSY or -ENOENT: perhaps further up. */
static int give_v2(int dir, const char *controller)
{
	char text[1024];
	int r = read_text(dir, "cgroup.controllers", text, sizeof(text));

	if (r < 0)
		return r;
	if (!has_word(text, controller, " \n"))
		return -ENOENT;
	if (!is_inner(dir))
		return -EBUSY;
	/* Moving into what is below it needs this. */
	if (HOST(faccessat_monitor, faccessat(dir, "cgroup.procs", W_OK, 0)) != 0)
		return -errno;
	r = read_text(dir, "cgroup.subtree_control", text, sizeof(text));
	return r < 0 || has_word(text, controller, " \n") ? r : switch_on(dir, controller);
}

/* The caller's own cgroup, or the nearest above it that gives the controller on. What those that
 * are stepped over are limited to goes to @over, since it holds no longer. */
static int open_v2(struct place *p, enum controller c, uint64_t over[CONTROLLERS])
{
	int found = -ENOENT;

	for (;;) {
		const int fd =
			HOST(openat_monitor, open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		const int r = fd < 0 ? -errno : give_v2(fd, g_names[c]);

		if (r == 0)
			return fd;
		if (r != -ENOENT)
			found = r;
		for (unsigned o = 0; fd >= 0 && o < CONTROLLERS; o++)
			over[o] = MIN(over[o], read_limit(fd, (enum controller)o));
		if (fd >= 0)
			HOST(close_monitor, close(fd));
		if ((r != -ENOENT && r != -EBUSY) || strlen(p->path) <= p->mount)
			return found;
		*strrchr(p->path, '/') = '\0';
	}
}

/* Where a cgroup of @c can be made, opened; -errno. */
static int open_parent(enum controller c, bool *v2, uint64_t over[CONTROLLERS])
{
	static char text[65536];
	char *save, *line;
	int found = -ENOENT;

	if (read_text(AT_FDCWD, "/proc/self/mountinfo", text, sizeof(text)))
		return -ENOENT;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct place p;
		int r;

		if (!is_mounted(line, g_names[c], &p))
			continue;
		*v2 = p.v2;
		for (unsigned o = 0; o < CONTROLLERS; o++)
			over[o] = UINT64_MAX;
		if (p.v2) {
			r = open_v2(&p, c, over);
		} else {
			r = HOST(openat_monitor, open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
			r = r < 0 ? -errno : r;
		}
		if (r >= 0)
			return r;
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
		return "in cgroup v2 nothing below a cgroup with processes can be limited, and "
		       "no other is to be seen above the caller's; move those processes into one "
		       "below it";
	default:
		return "start moat as root, or have the caller's cgroup delegated: systemd-run "
		       "--user --scope moat ..., or chown the directory, its cgroup.procs and "
		       "cgroup.subtree_control";
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
		if (HOST(flock_monitor, flock(fd, LOCK_EX | LOCK_NB)) == 0) {
			(void)HOST(unlinkat_monitor, unlinkat(fd, INNER, AT_REMOVEDIR));
			(void)HOST(unlinkat_monitor, unlinkat(parent, d->d_name, AT_REMOVEDIR));
		}
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
		if (g_made[c].v2)
			(void)HOST(unlinkat_monitor, unlinkat(g_made[c].fd, INNER, AT_REMOVEDIR));
		if (HOST(unlinkat_monitor,
			 unlinkat(g_made[c].parent, g_made[c].name, AT_REMOVEDIR)) == 0 ||
		    errno != EBUSY)
			break;
		(void)HOST(poll_monitor, poll(NULL, 0, 2));
	}
	if (g_made[c].box >= 0)
		HOST(close_monitor, close(g_made[c].box));
	HOST(close_monitor, close(g_made[c].fd));
	HOST(close_monitor, close(g_made[c].parent));
	g_made[c].parent = -1;
}

/* In v2 others, as systemd, may take a controller back from where it was given, and the limit would
 * be gone without a word; but not while it is on further down. So the sandbox is one further down.
 */
static int pin_v2(enum controller c)
{
	const int fd = g_made[c].fd;
	const int r = switch_on(fd, g_names[c]);

	if (r < 0)
		return r;
	if (HOST(mkdirat_monitor, mkdirat(fd, INNER, 0755)) != 0 && errno != EEXIST)
		return -errno;
	g_made[c].box = HOST(openat_monitor, openat(fd, INNER, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	return g_made[c].box < 0 ? -errno : 0;
}

/* In v2, the directory of another controller, if there is one. 1: there is none. -errno. */
static int share_v2(enum controller c)
{
	for (unsigned o = 0; o < CONTROLLERS; o++) {
		int r;

		if (g_made[o].parent < 0 || !g_made[o].v2)
			continue;
		r = give_v2(g_made[o].parent, g_names[c]);
		if (r < 0)
			return r;
		g_made[c] = g_made[o];
		g_made[c].shared = true;
		g_made[c].box = -1;
		g_made[c].parent = HOST(fcntl_monitor, fcntl(g_made[o].parent, F_DUPFD_CLOEXEC, 3));
		g_made[c].fd = HOST(fcntl_monitor, fcntl(g_made[o].fd, F_DUPFD_CLOEXEC, 3));
		return 0;
	}
	return 1;
}

/* A directory of its own. -errno. */
static int make_new(enum controller c, bool shareable)
{
	uint64_t over[CONTROLLERS];
	bool v2;
	int parent = open_parent(c, &v2, over), fd;

	if (parent < 0)
		return parent;
	/* A process has one place in v2. */
	if (v2 && !shareable) {
		HOST(close_monitor, close(parent));
		return -EBUSY;
	}
	sweep(parent);
	fd = make_locked(parent, g_made[c].name, sizeof(g_made[c].name));
	if (fd < 0) {
		HOST(close_monitor, close(parent));
		return fd;
	}
	g_made[c].parent = parent;
	g_made[c].fd = fd;
	g_made[c].box = -1;
	g_made[c].v2 = v2;
	g_made[c].shared = false;
	if (v2)
		memcpy(g_over, over, sizeof(over));
	return 0;
}

/* Its own directory, or in v2 that of another controller. -errno. */
static int make(enum controller c)
{
	int r = share_v2(c);

	if (r != 0)
		r = make_new(c, r > 0);
	if (r < 0 || !g_made[c].v2)
		return r;
	r = pin_v2(c);
	if (r < 0)
		remove_one(c);
	return r;
}

static int make_and_set(enum controller c, uint64_t value)
{
	char text[64];
	int r = make(c);

	if (r < 0)
		return r;

	const bool v2 = g_made[c].v2;
	const int fd = g_made[c].fd;

	if (v2)
		value = MIN(value, g_over[c]);
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
	/* What is swapped out is used, too. A host without swap, or that does not account for it,
	 * has no such file. */
	if (c == MEMORY && r == 0)
		(void)write_text(fd, v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes",
				 v2 ? "0" : text);
	if (r < 0)
		remove_one(c);
	return r;
}

static void remove_all(void)
{
	for (unsigned c = CONTROLLERS; c-- > 0;)
		remove_one((enum controller)c);
}

/* What held the caller holds the sandbox, or there is no cgroup for it. */
static int set_over(void)
{
	bool v2 = false;
	int r = 0;

	for (unsigned c = 0; c < CONTROLLERS; c++)
		v2 = v2 || (g_made[c].parent >= 0 && g_made[c].v2);
	for (unsigned c = 0; v2 && r == 0 && c < CONTROLLERS; c++)
		if (g_over[c] != UINT64_MAX && g_made[c].parent < 0)
			r = make_and_set((enum controller)c, g_over[c]);
	if (r < 0)
		remove_all();
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
	const bool part = !cpu_share_is_whole(share);
	uint64_t v;
	int r = 0, s;

	if (part)
		r = make_and_set(CPU, share * (PERIOD_US / 100));
	/* The meters hold these without it. */
	if ((is_named(GRANT_LIMIT_memory) || is_named(GRANT_LIMIT_sentry_memory)) &&
	    sum(GRANT_LIMIT_memory, GRANT_LIMIT_sentry_memory, UNCOUNTED_BYTES + OVERSHOOT_BYTES,
		&v))
		(void)make_and_set(MEMORY, v);
	/* A thread of the guest's takes one or two of the host's; a process that is not reaped,
	 * one. */
	if (is_named(GRANT_LIMIT_threads) &&
	    sum(GRANT_LIMIT_threads, GRANT_LIMIT_threads, SENTRY_PIDS, &v) && v < PIDS_MOST)
		(void)make_and_set(PIDS, v);
	s = set_over();
	r = r < 0 ? r : s;
	if (!part || r == 0)
		return 0;
	remove_all();
	return err_set(e, -r,
		       "cpu_share: part of a processor needs the host's cgroup: %s: %s; or name a "
		       "multiple of 100%%",
		       err_text(-r), mend(-r));
}

int cgroup_take(pid_t child)
{
	const bool part = !cpu_share_is_whole(g_grant->limits[GRANT_LIMIT_cpu_share]);
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", child);
	for (unsigned c = 0; c < CONTROLLERS; c++) {
		if (g_made[c].parent < 0 || g_made[c].shared)
			continue;

		const int at = g_made[c].v2 ? g_made[c].box : g_made[c].fd;
		const int r = write_text(at, "cgroup.procs", pid);

		if (r < 0 && part)
			return r;
		/* The meters hold the rest without it. */
		for (unsigned o = 0; r < 0 && o < CONTROLLERS; o++)
			if (o == c || (g_made[c].v2 && g_made[o].shared))
				remove_one((enum controller)o);
	}
	return 0;
}

void cgroup_lock(struct monitor_lock *l)
{
	for (unsigned c = 0; c < CONTROLLERS; c++) {
		if (g_made[c].parent < 0)
			continue;
		l->variant |= MONITOR_CGROUP;
		if (g_made[c].shared)
			continue;
		l->slots[MONITOR_PARENT + c] = g_made[c].parent;
		if (g_made[c].v2)
			l->slots[MONITOR_PARENT + CONTROLLERS] = g_made[c].fd;
		monitor_lock_path(l, g_made[c].parent, LL_REMOVE_DIR, false);
	}
	if (g_made[MEMORY].parent >= 0)
		g_oom = HOST(openat_monitor,
			     openat(g_made[MEMORY].fd,
				    g_made[MEMORY].v2 ? "memory.events" : "memory.oom_control",
				    O_RDONLY | O_CLOEXEC));
	l->slots[MONITOR_OOM] = g_oom;
}

/* How many the host's kernel has killed since there was no more memory. */
static unsigned long killed(void)
{
	char text[4096];
	const char *at;
	ssize_t n;

	if (g_oom < 0)
		return 0;
	n = HOST(pread64_monitor, pread(g_oom, text, sizeof(text) - 1, 0));
	text[MAX(n, (ssize_t)0)] = '\0';
	at = strstr(text, "oom_kill ");
	return at ? strtoul(at + strlen("oom_kill "), NULL, 10) : 0;
}

void cgroup_end(void)
{
	const unsigned long n = killed();

	if (n) {
		fprintf(stderr,
			"moat: limit: memory: the sandbox passed it faster than moat's own kernel "
			"looked, and the host killed %lu of its processes; allow more with: "
			"--limit memory=SIZE (and sentry_memory=SIZE)\n",
			n);
		summary_told(METER_memory);
	}
	remove_all();
}

void cgroup_describe(FILE *f)
{
	char have[64] = "", lack[64] = "";
	int why = 0;

	for (unsigned c = 0; c < CONTROLLERS; c++) {
		const int r = make((enum controller)c);
		char *list = r == 0 ? have : lack;

		remove_all();
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
}
