/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock. See runtime/landlock.h.
 */
#include "runtime/landlock.h"

#include <errno.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/hostcall.h"

#define LL_NET_TCP 3ull /* bind, connect */
#define LL_SCOPE_ABSTRACT 1ull
#define LL_SCOPE_SIGNAL 2ull

struct ll_attr {
	uint64_t fs, net, scoped;
};

long landlock_version(void)
{
	return HOST(landlock_create_ruleset_wall,
		    syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

int landlock_new(long abi, bool signals, uint64_t *all)
{
	struct ll_attr a = {.fs = (1ull << 13) - 1};
	size_t size = sizeof(a.fs);

	a.fs |= LL_REFER | (abi >= 3 ? LL_TRUNCATE : 0) | (abi >= 5 ? LL_IOCTL_DEV : 0);
	if (abi >= 4) {
		a.net = LL_NET_TCP;
		size += sizeof(a.net);
	}
	if (abi >= 6) {
		a.scoped = LL_SCOPE_ABSTRACT | (signals ? LL_SCOPE_SIGNAL : 0);
		size += sizeof(a.scoped);
	}
	*all = a.fs;
	return (int)HOST(landlock_create_ruleset_wall,
			 syscall(SYS_landlock_create_ruleset, &a, size, 0));
}

bool landlock_allow(int set, uint64_t rights, int fd)
{
	struct landlock_path_beneath_attr a = {.allowed_access = rights, .parent_fd = fd};

	return HOST(landlock_add_rule_wall,
		    syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &a, 0)) == 0;
}

bool landlock_enter(int set)
{
	const bool ok =
		HOST(landlock_restrict_self_wall, syscall(SYS_landlock_restrict_self, set, 0)) == 0;
	const int error = errno;

	HOST(close_fd, close(set));
	errno = error;
	return ok;
}
