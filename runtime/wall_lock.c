/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sentry gives up when its root stands: descriptors, limits, capabilities, and what
 * Landlock takes.
 *
 * Theory of operation: an ordinary user's sentry keeps no capability. Root's keeps none either,
 * unless the caller granted paths beyond the system directories: guest root over such a directory
 * needs CAP_DAC_READ_SEARCH, and if it may write there CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER and
 * CAP_FSETID. They are capabilities in the sentry's own user name space, good for files alone, and
 * the sentry reaches no file but the granted ones; never under strict. The bounding set is the
 * same, so that nothing gives more back; root as such means nothing any more (SECBIT_NOROOT,
 * locked).
 *
 * References: capabilities(7), landlock(7).
 */
#include "runtime/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "platform/platform.h"
#include "runtime/landlock.h"
#include "runtime/run.h"
#include "sentry/grant.h"

/* ---- descriptors ---- */

#define KEEP_MAX 32

static int g_keep[KEEP_MAX];
static unsigned g_keep_count;

void wall_keep(int fd)
{
	if (fd < 3)
		return;
	BUG_ON(g_keep_count == KEEP_MAX);
	g_keep[g_keep_count++] = fd;
}

/* qsort would ask the host how much memory it has. */
static void sort(int *fds, unsigned count)
{
	for (unsigned i = 1; i < count; i++) {
		const int fd = fds[i];
		unsigned k = i;

		for (; k > 0 && fds[k - 1] > fd; k--)
			fds[k] = fds[k - 1];
		fds[k] = fd;
	}
}

void wall_close_others(struct wall *w)
{
	const int own[] = {w->gate[0], w->root_fd};
	const uint32_t paths = g_grant ? g_grant->path_count : 0;
	int *keep = malloc((g_keep_count + ARRAY_SIZE(own) + paths) * sizeof(int));
	unsigned next = 3, n = g_keep_count;
	long r = 0;

	if (!keep)
		panic("no memory for the list of descriptors");
	memcpy(keep, g_keep, n * sizeof(int));
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		keep[n++] = own[i];
	for (uint32_t i = 0; i < paths; i++)
		keep[n++] = g_grant->paths[i].fd;
	sort(keep, n);
	for (unsigned i = 0; i < n; i++) {
		if (keep[i] < (int)next)
			continue;
		if (keep[i] > (int)next)
			r |= HOST(close_range_wall,
				  syscall(SYS_close_range, next, (unsigned)keep[i] - 1, 0));
		next = (unsigned)keep[i] + 1;
	}
	r |= HOST(close_range_wall, syscall(SYS_close_range, next, ~0U, 0));
	if (r != 0)
		wall_lacks(
			w, WALL_PRIVILEGES,
			"close_range: %s: the caller's descriptors stay open; Linux 5.9 is needed",
			err_text(errno));
	free(keep);
}

/* ---- limits ---- */

void wall_limits(void)
{
	static const int none[] = {RLIMIT_MSGQUEUE, RLIMIT_RTPRIO, RLIMIT_NICE};
	const struct rlimit zero = {0, 0}, core = {PF_CORE_LIMIT, PF_CORE_LIMIT};

	(void)HOST(prlimit64_wall, setrlimit(RLIMIT_CORE, &core));
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		(void)HOST(prlimit64_wall, setrlimit((__rlimit_resource_t)none[i], &zero));
	/* Neither a core nor a debugger of the same user. The child that becomes the keeper shares
	 * our memory only until exec; but not in builds whose fork copies it. */
	if (!(MOAT_ASAN | MOAT_TSAN))
		(void)HOST(prctl_wall, prctl(PR_SET_DUMPABLE, 0));
}

/* ---- capabilities ---- */

static uint64_t caps_needed(void)
{
	const uint64_t read = 1ull << CAP_DAC_READ_SEARCH;
	const uint64_t write = 1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER |
			       1ull << CAP_FSETID;
	uint64_t caps = g_grant->root ? read : 0;

	if (HOST(getuid_setup, getuid()) != 0 || g_grant->strict)
		return 0;
	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		if (g_grant->paths[i].access != GRANT_HIDDEN)
			caps |= read;
		if (g_grant->paths[i].access == GRANT_WRITE)
			caps |= write;
	}
	return caps;
}

void wall_drop_privileges(struct wall *w)
{
	const unsigned bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
			      SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
			      SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct now[2] = {{0}}, data[2] = {{0}};
	uint64_t caps = caps_needed();

	if (HOST(capget_wall, syscall(SYS_capget, &head, now)) < 0)
		caps = 0;
	caps &= now[0].permitted | (uint64_t)now[1].permitted << 32;
	/* Who may not set them has none to lose. */
	(void)HOST(prctl_wall, prctl(PR_SET_SECUREBITS, bits));
	for (int cap = 0; cap < 64; cap++) {
		if (!(caps >> cap & 1) && HOST(prctl_wall, prctl(PR_CAPBSET_DROP, cap)) < 0 &&
		    errno == EINVAL)
			break;
	}
	(void)HOST(prctl_wall, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0));
	for (unsigned i = 0; i < 2; i++)
		data[i].effective = data[i].permitted = (uint32_t)(caps >> (32 * i));
	if (HOST(capset_wall, syscall(SYS_capset, &head, data)) < 0)
		wall_lacks(w, WALL_PRIVILEGES,
			   "capset: %s; a seccomp filter or a security module forbids to give "
			   "capabilities up",
			   err_text(errno));
	if (HOST(prctl_wall, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) < 0)
		wall_lacks(w, WALL_PRIVILEGES, "no_new_privs: %s; allow prctl for moat",
			   err_text(errno));
	w->caps = caps;
}

/* ---- Landlock ---- */

/* Counters are written to files below the build's folder, at the end. */
#ifdef MOAT_COVERAGE
#define CAN_RESTRICT false
#else
#define CAN_RESTRICT true
#endif

static bool allow_path(int ruleset, const struct grant_path *p, uint64_t all)
{
	uint64_t rights =
		p->access == GRANT_WRITE
			? all & ~(LL_EXECUTE | LL_MAKE_CHAR | LL_MAKE_BLOCK | LL_IOCTL_DEV)
			: LL_READ;
	struct stat st = {0};

	if (!p->host || p->fd < 0)
		return true;
	if (HOST(newfstatat_wall, fstat(p->fd, &st)) < 0)
		return false;
	return landlock_allow(ruleset, S_ISDIR(st.st_mode) ? rights : rights & LL_FILE_RIGHTS,
			      p->fd);
}

/* A directory that a host need not have. */
static bool allow_dir(int ruleset, uint64_t rights, const char *path)
{
	const int fd = HOST(openat_wall, open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
	bool ok;

	if (fd < 0)
		return true;
	ok = landlock_allow(ruleset, rights, fd);
	HOST(close_fd, close(fd));
	return ok;
}

/* All that is reached by paths; descriptors that were opened before stay what they are. */
static bool allow_all(const struct wall *w, int ruleset, uint64_t all)
{
	/* Which names there are, the directories above grants included. Without a root of our own
	 * that tells names of the host's; the warning says so. */
	bool ok = allow_dir(ruleset, LL_READ_DIR, "/");

	/* Without a root of our own, of the system directories only; what lies beside is closed. */
	for (unsigned i = 0; ok && !g_grant->root && g_system_dirs[i]; i++) {
		char path[16];

		snprintf(path, sizeof(path), "/%s", g_system_dirs[i]);
		ok = allow_dir(ruleset, LL_READ, path);
	}
	if (g_grant->root)
		ok = w->root_fd >= 0 && landlock_allow(ruleset, LL_READ, w->root_fd);
	for (uint32_t i = 0; ok && i < g_grant->path_count; i++)
		ok = allow_path(ruleset, &g_grant->paths[i], all);
	if (ok && w->proc >= 0)
		ok = landlock_allow(ruleset, LL_READ_FILE | LL_WRITE_FILE, w->proc);
	if (ok && !w->spaces)
		ok = allow_dir(ruleset, LL_READ_FILE | LL_WRITE_FILE, "/proc");
	return ok;
}

static void landlock_lacks(struct wall *w)
{
	wall_lacks(w, WALL_LANDLOCK, "%s: a seccomp filter forbids it, or it is nested too deep",
		   err_text(errno));
}

void wall_landlock(struct wall *w)
{
	const long abi = landlock_version();
	uint64_t all;
	int ruleset;

	if (!CAN_RESTRICT) {
		wall_lacks(w, WALL_LANDLOCK, "this build measures coverage");
		return;
	}
	if (abi < 2) {
		wall_lacks(w, WALL_LANDLOCK, "%s",
			   abi == 1 ? "renames need Linux 5.19; take a newer kernel"
				    : "it is not built into this kernel, not in its boot option "
				      "lsm=, or a filter hides it; Linux 5.19 or later with "
				      "lsm=landlock,... has it");
		return;
	}
	w->landlock = (int)abi;
	ruleset = landlock_new(abi, true, &all);
	if (ruleset < 0 || !allow_all(w, ruleset, all) ||
	    HOST(prctl_wall, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) < 0) {
		landlock_lacks(w);
		if (ruleset >= 0)
			HOST(close_fd, close(ruleset));
	} else if (!landlock_enter(ruleset)) {
		landlock_lacks(w);
	}
}
