/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/hostpoll.h: host descriptors wake fibers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/fiber.h"
#include "base/hostpoll.h"
#include "base/waitq.h"

struct watched {
	struct hostwatch watch;
	struct waitq q;
	_Atomic unsigned calls;
	_Atomic uint32_t events;
};

static void on_event(struct hostwatch *w, uint32_t events)
{
	struct watched *x = container_of(w, struct watched, watch);

	x->calls++;
	x->events |= events;
	waitq_wake(&x->q, 0);
}

Test(hostpoll, pipe)
{
	struct watched x = {.watch = {.fn = on_event}};
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(hostpoll_start(), 0);
	waitq_init(&x.q);
	x.watch.fd = fds[0];
	cr_assert_eq(hostwatch_add(&x.watch, POLLIN), 0);
	cr_assert_eq(write(fds[1], "a", 1), 1);
	cr_assert_eq(wait_event(&x.q, x.events & POLLIN, DEADLINE_NONE, WAIT_UNINTR), 0);

	/* Changing what is watched for reports it again, though nothing new came. */
	unsigned before = x.calls;

	cr_assert_eq(hostwatch_set(&x.watch, POLLIN), 0);
	cr_assert_eq(wait_event(&x.q, x.calls > before, DEADLINE_NONE, WAIT_UNINTR), 0);
	close(fds[1]);
	cr_assert_eq(wait_event(&x.q, x.events & POLLHUP, DEADLINE_NONE, WAIT_UNINTR), 0);
	hostwatch_del(&x.watch);
	hostwatch_del(&x.watch);
	close(fds[0]);
	hostpoll_stop();
	waitq_fini(&x.q);
}

Test(hostpoll, regular_file)
{
	struct watched x = {.watch = {.fn = on_event}};

	x.watch.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	cr_assert_eq(hostpoll_start(), 0);
	cr_assert_eq(hostwatch_add(&x.watch, POLLIN), -EPERM);
	hostwatch_del(&x.watch);
	close(x.watch.fd);
	x.watch.fd = -1;
	cr_assert_eq(hostwatch_add(&x.watch, POLLIN), -EBADF);
	hostpoll_stop();
	hostpoll_stop();
}

static struct hostwatch *g_self;
static _Atomic bool g_deleted;

static void delete_self(struct hostwatch *w, uint32_t events)
{
	(void)events;
	hostwatch_del(w);
	free(w);
	g_deleted = true;
}

Test(hostpoll, callback_deletes_its_own)
{
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(hostpoll_start(), 0);
	g_self = malloc(sizeof(*g_self));
	*g_self = (struct hostwatch){.fd = fds[1], .fn = delete_self};
	cr_assert_eq(hostwatch_add(g_self, POLLOUT), 0);
	while (!g_deleted)
		sched_yield();
	hostpoll_stop();
	close(fds[0]);
	close(fds[1]);
}
