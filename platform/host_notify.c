/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls of the notify platform. See platform/host_notify.h.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "platform/host_notify.h"

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1UL << 0)
#endif

/* Values of rax that are errors. */
#define ERROR_FIRST ((uint64_t)-4095)

/* Without a filter the host refuses flags that it does not know before it looks for the filter. */
static bool knows_flags(uint64_t flags)
{
	return HOST(seccomp_probe, syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, NULL)) <
		       0 &&
	       errno == EFAULT;
}

bool pf_host_notify_is_killable(void)
{
	return knows_flags(SECCOMP_FILTER_FLAG_NEW_LISTENER |
			   SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
}

uint64_t pf_host_notify_flags(void)
{
	return SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_NEW_LISTENER |
	       (pf_host_notify_is_killable() ? SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV : 0);
}

int pf_host_probe_notify(struct err *e)
{
	const uint32_t action = SECCOMP_RET_USER_NOTIF;
	struct seccomp_notif_sizes sizes = {0};

	if (HOST(seccomp_probe, syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action)) < 0 ||
	    !knows_flags(SECCOMP_FILTER_FLAG_NEW_LISTENER))
		return err_set(e, ENOSYS,
			       "seccomp user notification is missing (CONFIG_SECCOMP_FILTER, Linux "
			       "5.0 or later)");
	if (HOST(seccomp_probe, syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes)) < 0 ||
	    sizes.seccomp_notif > sizeof(union pf_host_notice) ||
	    sizes.seccomp_notif < sizeof(struct seccomp_notif) ||
	    sizes.seccomp_notif_resp != sizeof(struct seccomp_notif_resp))
		return err_set(e, ENOSYS,
			       "seccomp's notifications are not as this moat knows them");
	return 0;
}

void pf_host_notify_sync(int listener)
{
	(void)HOST(ioctl_notify, ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS,
				       SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP));
}

int pf_host_notify_wait(int listener, int stop)
{
	struct pollfd p[2] = {{.fd = listener, .events = POLLIN}, {.fd = stop, .events = POLLIN}};

	while (HOST(poll_notify, poll(p, 2, -1)) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	if (p[1].revents != 0)
		return 0;
	return p[0].revents & POLLIN ? 1 : -ESRCH;
}

int pf_host_notify_recv(int listener, union pf_host_notice *notice)
{
	memset(notice, 0, sizeof(*notice));
	return HOST(ioctl_notify, ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, notice)) < 0 ? -errno
											 : 0;
}

bool pf_host_notify_valid(int listener, uint64_t id)
{
	return HOST(ioctl_notify, ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id)) == 0;
}

int pf_host_notify_answer(int listener, uint64_t id, uint64_t value)
{
	/* Never CONTINUE: the guest could change what the host would then read. */
	struct seccomp_notif_resp resp = {.id = id};

	if (value >= ERROR_FIRST)
		resp.error = (int32_t)(int64_t)value;
	else
		resp.val = (int64_t)value;
	return HOST(ioctl_notify, ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp)) < 0 ? -errno
											: 0;
}

int pf_host_notify_event(void)
{
	const int fd = HOST(eventfd2_notify, eventfd(0, EFD_CLOEXEC));

	return fd < 0 ? -errno : fd;
}

void pf_host_notify_event_set(int fd)
{
	const uint64_t one = 1;

	(void)!HOST(write_notify, write(fd, &one, sizeof(one)));
}
