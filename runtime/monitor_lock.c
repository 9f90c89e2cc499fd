/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's privileges. See runtime/monitor_lock.h.
 */
#include "runtime/monitor_lock.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "runtime/landlock.h"

/* Counters, leaks and reports are written at the end, by calls that only those builds make. */
#if defined(MOAT_COVERAGE) || defined(MOAT_FUZZ)
#define CAN_LOCK false
#else
#define CAN_LOCK (!(MOAT_ASAN | MOAT_TSAN))
#endif

void monitor_lock_init(struct monitor_lock *l)
{
	*l = (struct monitor_lock){0};
	for (unsigned i = 0; i < MONITOR_SLOTS; i++)
		l->slots[i] = -1;
}

void monitor_lock_path(struct monitor_lock *l, int fd, uint64_t rights, bool sticky)
{
	struct stat st;

	BUG_ON(l->path_count == MONITOR_PATHS_MAX);
	l->paths[l->path_count].fd = fd;
	l->paths[l->path_count++].rights = rights;
	if (HOST(getuid_monitor, getuid()) != 0)
		return;
	if (HOST(newfstatat_monitor, fstat(fd, &st)) != 0 || st.st_uid != 0 ||
	    (st.st_mode & 0300) != 0300)
		l->caps |= 1ull << CAP_DAC_OVERRIDE;
	if (sticky)
		l->caps |= 1ull << CAP_FOWNER;
}

static void drop_caps(uint64_t caps)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = (uint32_t)caps, .permitted = (uint32_t)caps}};
	const struct __user_cap_data_struct none[2] = {{0}};

	/* Who does not have these has none. */
	if (HOST(capset_monitor, syscall(SYS_capset, &head, data)) < 0)
		(void)HOST(capset_monitor, syscall(SYS_capset, &head, none));
}

static void restrict_paths(const struct monitor_lock *l)
{
	const long abi = landlock_version();
	uint64_t all;
	int set;

	if (abi < 2)
		return;
	/* The sentry has a set of its own: a scope of ours for signals would spare it. */
	set = landlock_new(abi, false, &all);
	for (unsigned i = 0; set >= 0 && i < l->path_count; i++)
		(void)landlock_allow(set, l->paths[i].rights & all, l->paths[i].fd);
	if (set >= 0)
		(void)landlock_enter(set);
}

void monitor_give_up(const struct monitor_lock *l)
{
	if (!CAN_LOCK)
		return;
	(void)HOST(prctl_monitor_lock, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	drop_caps(l->caps);
	/* After that: the kernel sets it anew with other privileges. */
	(void)HOST(prctl_monitor_lock, prctl(PR_SET_DUMPABLE, 0));
	/* Without names the filter is stricter. */
	if (l->path_count > 0)
		restrict_paths(l);
}

int monitor_lock(const struct monitor_lock *l, struct err *e)
{
	/* To -1 a signal would reach everybody. */
	BUG_ON(l->slots[MONITOR_SENTRY] <= 1 || l->slots[MONITOR_SELF] <= 0);
	return CAN_LOCK ? monitor_lock_down(l->variant, l->slots, e) : 0;
}
