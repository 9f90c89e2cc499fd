/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's half of the second wall, and what both halves share. See runtime/wall.h.
 *
 * Theory of operation: one clone makes the sentry in name spaces of its own. It is pid 1 there, so
 * the host's kernel kills every stub when it ends. The monitor writes the id maps from outside: for
 * root all ids as they are, so that owners of files look as ever; for others their own ids alone,
 * with setgroups denied. Meanwhile the child waits at the gate, a pipe. If that closes, the monitor
 * is gone.
 *
 * Where the host refuses the name spaces, root tries without the user name space; else the sentry
 * is an ordinary child.
 */
#include "runtime/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "runtime/cgroup.h"
#include "sentry/grant.h"

/* But the net name space, which takes longer than all of these together (wall_net.c). */
#define OTHER_SPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)

struct wall g_wall = {.new_root = -1, .proc = -1, .root_fd = -1, .exe_mount = -1, .gate = {-1, -1}};

const char *wall_layer_name(enum wall_layer l)
{
	static const char *const names[WALL_LAYERS] = {
		[WALL_NAMESPACES] = "name spaces",   [WALL_ROOT] = "root of its own",
		[WALL_PROC] = "/proc of its own",    [WALL_FILE] = "file of its own",
		[WALL_PRIVILEGES] = "no privileges", [WALL_LANDLOCK] = "Landlock",
	};

	return names[l];
}

/* What the rest of it would hold, other layers hold as well; so it does not count as missing. */
static const char *landlock_summary(int version)
{
	if (version >= 6)
		return "files, TCP, signals, abstract sockets";
	if (version >= 4)
		return "files, TCP; Linux 6.12 adds signals and abstract sockets, which the name "
		       "spaces hold";
	return "files; Linux 6.12 adds TCP, signals and abstract sockets, which the name spaces "
	       "hold";
}

const char *wall_layer_summary(const struct wall *w, enum wall_layer l)
{
	static const char *const what[WALL_LAYERS] = {
		[WALL_NAMESPACES] = "user, mount, pid, net, ipc, uts, cgroup",
		[WALL_ROOT] = "only what is granted is mounted",
		[WALL_PROC] = "shows the sandbox's processes alone",
		[WALL_FILE] = "nothing leads to the host's file of moat but a read-only mount",
		[WALL_PRIVILEGES] = "no capabilities, no new privileges, no inherited descriptors",
	};

	return l == WALL_LANDLOCK ? landlock_summary(w->landlock) : what[l];
}

void wall_lacks(struct wall *w, enum wall_layer l, const char *fmt, ...)
{
	va_list ap;

	if (w->lacking[l])
		return; /* the first reason is the cause */
	w->lacking[l] = true;
	va_start(ap, fmt);
	vsnprintf(w->why[l].text, sizeof(w->why[l].text), fmt, ap);
	va_end(ap);
}

/* ---- the monitor ---- */

static int write_file(const char *path, const char *text)
{
	const int fd = HOST(openat_monitor, open(path, O_WRONLY | O_CLOEXEC));
	int r = 0;

	if (fd < 0)
		return -errno;
	if (HOST(write_monitor, write(fd, text, strlen(text))) < 0)
		r = -errno;
	HOST(close_monitor, close(fd));
	return r;
}

static int read_number(const char *path)
{
	char text[16] = "";
	const int fd = HOST(openat_monitor, open(path, O_RDONLY | O_CLOEXEC));
	int value = -1;

	if (fd < 0)
		return -1;
	if (HOST(read_monitor, read(fd, text, sizeof(text) - 1)) > 0)
		value = (int)strtol(text, NULL, 10);
	HOST(close_monitor, close(fd));
	return value;
}

/* In a user name space that does not know all ids, those that it knows: the left column of our own
 * map, onto itself. */
static int map_known(const char *path, const char *own)
{
	char text[4096], lines[4096], *line = text;
	const int fd = HOST(openat_monitor, open(own, O_RDONLY | O_CLOEXEC));
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = HOST(read_monitor, read(fd, text, sizeof(text) - 1));
	HOST(close_monitor, close(fd));
	if (n <= 0)
		return -EIO;
	text[n] = '\0';
	while (*line) {
		char *end;
		const unsigned long first = strtoul(line, &end, 10);

		(void)strtoul(end, &end, 10);
		const unsigned long count = strtoul(end, &end, 10);

		used += (size_t)snprintf(lines + used, sizeof(lines) - used, "%lu %lu %lu\n", first,
					 first, count);
		if (used >= sizeof(lines) || *end != '\n')
			return -EIO;
		line = end + 1;
	}
	return write_file(path, lines);
}

static int map_ids(pid_t child, const char *which, unsigned long own, bool all)
{
	char path[64], text[64], known[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/%s_map", child, which);
	if (all) {
		r = write_file(path, "0 0 4294967295");
		if (r != -EPERM)
			return r;
		snprintf(known, sizeof(known), "/proc/self/%s_map", which);
		return map_known(path, known);
	}
	snprintf(text, sizeof(text), "%lu %lu 1", own, own);
	return write_file(path, text);
}

/* Does @link of /proc lead to @text? */
static bool proc_link_is(const char *link, const char *text)
{
	char target[64];
	const ssize_t n = HOST(readlink_monitor, readlink(link, target, sizeof(target) - 1));

	target[MAX(n, (ssize_t)0)] = '\0';
	return strcmp(target, text) == 0;
}

/* Is /proc that of our pid name space? In another one a process of our number is a stranger. 0,
 * -ESTALE; -ENOENT: there is none. */
static int find_proc(void)
{
	char own[16];

	snprintf(own, sizeof(own), "%d", (int)HOST(getpid_monitor, getpid()));
	if (proc_link_is("/proc/self", own))
		return 0;
	return HOST(access_monitor, access("/proc/stat", F_OK)) == 0 ? -ESTALE : -ENOENT;
}

/* Have our children been sent to another pid name space than we are in (unshare(2))? */
static bool children_elsewhere(void)
{
	char ours[64];
	const ssize_t n =
		HOST(readlink_monitor, readlink("/proc/self/ns/pid", ours, sizeof(ours) - 1));

	if (n <= 0)
		return false;
	ours[n] = '\0';
	return !proc_link_is("/proc/self/ns/pid_for_children", ours);
}

/* Are no ids mapped in the user name space that we are in? */
static bool has_no_ids(void)
{
	return read_number("/proc/self/uid_map") < 0 &&
	       HOST(access_monitor, access("/proc/self/uid_map", R_OK)) == 0;
}

static int set_ids(struct wall *w, pid_t child)
{
	const uid_t uid = HOST(getuid_monitor, getuid());
	char path[64];
	int r = find_proc();

	if (r == 0 && w->own_ids) {
		snprintf(path, sizeof(path), "/proc/%d/setgroups", child);
		r = write_file(path, "deny");
	}
	if (r == 0)
		r = map_ids(child, "uid", uid, !w->own_ids);
	if (r == 0)
		r = map_ids(child, "gid", HOST(getgid_monitor, getgid()), !w->own_ids);
	return r;
}

static void spaces_lack(struct wall *w, int error)
{
	const char *mend = "a seccomp filter, a security module or a chroot around moat forbids "
			   "them; start moat outside of it";

	if (error == ESTALE)
		mend = "/proc is another pid name space's, and ids are set there; mount it anew "
		       "(unshare: --mount-proc)";
	else if (error == EINVAL && children_elsewhere())
		mend = "what moat starts is to be in another pid name space than moat; start moat "
		       "in it, too (unshare: --fork)";
	else if (error == EPERM && has_no_ids())
		mend = "moat was started in a user name space that knows no ids; map them "
		       "(unshare: --map-root-user, --map-current-user)";
	else if (error == EPERM && w->ids_refused && HOST(getuid_monitor, getuid()) == 0)
		mend = "root has no right to set their ids; leave it CAP_SETUID, CAP_SETGID and "
		       "CAP_SETFCAP, or start moat as another user";
	else if (error == ENOSPC || read_number("/proc/sys/user/max_user_namespaces") == 0)
		mend = "set user.max_user_namespaces (and its siblings) to more";
	else if (error == ENOENT)
		mend = "mount /proc, where their ids are set";
	else if (error == EINVAL)
		mend = "this kernel is built without some of them";
	else if (error == EUSERS)
		mend = "they are nested too deep; start moat further out";
	else if (read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0)
		mend = "set kernel.unprivileged_userns_clone to 1";
	wall_lacks(w, WALL_NAMESPACES, "%s%s%s", error == ESTALE ? "" : err_text(error),
		   error == ESTALE ? "" : ": ", mend);
}

/* As fork(), but in new name spaces. */
static pid_t clone_into(unsigned long flags)
{
	/* TSan knows no other fork than the C library's. */
	if (MOAT_TSAN || flags == 0)
		return HOST(clone_monitor, fork());
	return (pid_t)HOST(clone_monitor, syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, 0));
}

static void give_up(pid_t child)
{
	(void)HOST(kill_monitor, kill(child, SIGKILL));
	while (HOST(wait4_monitor_start, waitpid(child, NULL, 0)) < 0 && errno == EINTR)
		continue;
}

/* One attempt, with these name spaces. */
static pid_t try_clone(struct wall *w, unsigned long flags)
{
	pid_t child;
	int r = 0;

	w->user_ns = flags & CLONE_NEWUSER;
	w->own_ids = w->user_ns && HOST(getuid_monitor, getuid()) != 0;
	w->spaces = flags != 0;
	child = clone_into(flags);
	if (child < 0)
		return -errno;
	if (child == 0)
		return 0;
	if (w->user_ns)
		r = set_ids(w, child);
	w->ids_refused = r == -EPERM;
	if (r == 0)
		r = cgroup_take(child);
	if (r < 0) {
		give_up(child);
		return r;
	}
	(void)!HOST(write_monitor, write(w->gate[1], "", 1));
	/* The host leaves a new process where the one is that made it, more often than not, and
	 * what we have left to do can be done when it waits. */
	(void)HOST(sched_yield_monitor, sched_yield());
	return child;
}

pid_t wall_clone(struct wall *w)
{
	const bool root = HOST(getuid_monitor, getuid()) == 0;
	pid_t child = -EPERM;

	if (HOST(pipe2_monitor, pipe2(w->gate, O_CLOEXEC)) != 0)
		return -errno;
	if (!w->off && g_grant && g_grant->root)
		w->root_fd =
			HOST(openat_monitor, open(g_grant->root, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (!w->off && !MOAT_TSAN) {
		child = try_clone(w, CLONE_NEWUSER | OTHER_SPACES);
		if (child < 0)
			spaces_lack(w, -child);
		if (child < 0 && root)
			child = try_clone(w, OTHER_SPACES);
	}
	if (child < 0)
		child = try_clone(w, 0);
	if (child <= 0)
		return child;
	HOST(close_monitor, close(w->gate[0]));
	HOST(close_monitor, close(w->gate[1]));
	return child;
}

/* ---- the sentry ---- */

/* Ends if the monitor is gone. */
static void gate_wait(const struct wall *w)
{
	char c;
	ssize_t n;

	do {
		n = HOST(read_wall, read(w->gate[0], &c, 1));
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		HOST(exit_group_end, _exit(125));
}

bool wall_begin(struct wall *w, int ctl)
{
	struct pollfd p = {.fd = ctl};

	(void)HOST(prctl_pdeathsig, prctl(PR_SET_PDEATHSIG, SIGKILL));
	wall_keep(ctl);
	wall_close_others(w);
	/* In a pid name space of its own it has no parent to ask for. The other end of the pipe is
	 * the monitor's alone now: if it died before we could be told, it has no writer. */
	return HOST(poll_wall, poll(&p, 1, 0)) == 0;
}

int wall_enter(struct wall *w, struct err *e)
{
	int r;

	gate_wait(w);
	HOST(close_fd, close(w->gate[0]));
	/* What is left to do with files of the host stands before the pivot, what needs privileges
	 * before they are dropped. */
	if (!w->off) {
		wall_root_build(w);
		wall_exe_enter(w);
	}
	r = wall_net_enter(w);
	if (r < 0)
		spaces_lack(w, -r);
	if (w->off)
		return 0;
	wall_exe_settle(w);
	r = wall_root_pivot(w, e);
	if (r < 0)
		return r;
	wall_landlock(w);
	wall_limits();
	wall_drop_privileges(w);
	for (unsigned l = 0; g_grant->strict && l < WALL_LAYERS; l++) {
		if (w->lacking[l])
			return err_set(e, EPERM, "strict: this host does not allow %s: %s",
				       wall_layer_name(l), w->why[l].text);
	}
	return 0;
}

void wall_warn(const struct wall *w)
{
	char text[1024] = "";
	size_t used = 0;

	/* An instrumented build never has all of it, and what it prints is compared. */
	if (MOAT_ASAN | MOAT_TSAN)
		return;
	for (unsigned l = 0; l < WALL_LAYERS && used < sizeof(text); l++) {
		if (w->lacking[l])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s (%s)",
						 used ? ", " : "", wall_layer_name(l),
						 w->why[l].text);
	}
	if (w->off)
		log_warn("--wall=off: moat's own kernel is not confined; for measuring and "
			 "debugging only");
	else if (used)
		log_warn("this host does not allow all of the second wall: without %s", text);
}
