/* SPDX-License-Identifier: Apache-2.0 */

/* Timers and timeouts as far as time goes (KTIME_MAX, 2262), beyond, and what is no time. */
#include "guest.h"
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>

static const int64_t g_far[] = {0,          1,          -1,         4611686018,  4611686019,
				9223372035, 9223372036, 9223372037, 18446744074, INT64_MAX / 2,
				INT64_MAX,  INT64_MIN};

/* What is left of @set, of which little has passed. */
static void left(const char *what, long r, int64_t sec, int64_t at, int64_t nsec)
{
	printf("%s = %ld: left about %ld, interval %ld.%09ld\n", what, r,
	       (long)((sec + 50000) / 100000), (long)at, (long)nsec);
}

static void far_timers(void)
{
	static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME,
					   CLOCK_PROCESS_CPUTIME_ID};
	struct sigevent none = {.sigev_notify = SIGEV_NONE};
	const struct itimerval off = {0};

	P("far timers");
	for (size_t i = 0; i < GUEST_COUNT(g_far); i++)
		for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
			struct itimerval it = {{g_far[i], 7}, {g_far[i], 999999}}, o = {0};
			long r;

			/* Of processor time Linux reads what is beyond 2262 as negative. */
			if (which != ITIMER_REAL && g_far[i] >= 9223372036)
				continue;
			if (g_far[i] == 0)
				it.it_value.tv_usec = 999999;
			r = setitimer(which, &it, NULL);
			getitimer(which, &o);
			setitimer(which, &off, NULL);
			left("setitimer", r, o.it_value.tv_sec, o.it_interval.tv_sec,
			     o.it_interval.tv_usec);
		}
	for (size_t i = 0; i < GUEST_COUNT(g_far); i++)
		for (size_t c = 0; c < GUEST_COUNT(clocks); c++) {
			struct itimerspec it = {{g_far[i], 7}, {g_far[i], 999999999}}, o = {0};
			timer_t t;
			long r;
			int fd;

			timer_create(clocks[c], &none, &t);
			r = timer_settime(t, 0, &it, NULL);
			timer_gettime(t, &o);
			left("timer_settime", r, o.it_value.tv_sec, o.it_interval.tv_sec,
			     o.it_interval.tv_nsec);
			timer_delete(t);
			fd = timerfd_create(clocks[c], TFD_NONBLOCK);
			if (fd < 0)
				continue;
			o = (struct itimerspec){0};
			r = timerfd_settime(fd, 0, &it, NULL);
			timerfd_gettime(fd, &o);
			left("timerfd_settime", r, o.it_value.tv_sec, o.it_interval.tv_sec,
			     o.it_interval.tv_nsec);
			/* Soon, and then as late as can be. */
			it.it_interval.tv_sec = INT64_MAX;
			it.it_value = (struct timespec){.tv_nsec = 1};
			r = timerfd_settime(fd, 0, &it, NULL);
			poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
			timerfd_gettime(fd, &o);
			left("timerfd_settime", r, o.it_value.tv_sec, o.it_interval.tv_sec,
			     o.it_interval.tv_nsec);
			close(fd);
		}
}

static volatile int g_ticks;

static void tick(int sig)
{
	(void)sig;
	g_ticks++;
}

/* A wait that ends by an error or by the signal that comes every 5 ms. */
#define WAIT(expr)                                  \
	do {                                        \
		setitimer(ITIMER_REAL, &on, NULL);  \
		long r = (expr);                    \
		int e = errno;                      \
		setitimer(ITIMER_REAL, &off, NULL); \
		errno = e;                          \
		guest_value(#expr, r);              \
	} while (0)

static void far_waits(void)
{
	static const int64_t nsec[] = {0, 999999999, 1000000000, -1, INT64_MIN};
	const struct itimerval on = {{0, 5000}, {0, 5000}}, off = {0};
	struct sigaction sa = {.sa_handler = tick};
	int ep = epoll_create1(0);
	struct epoll_event ev;
	uint32_t word = 0;
	sigset_t usr1;

	P("far waits");
	sigaction(SIGALRM, &sa, NULL);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	for (size_t i = 2; i < GUEST_COUNT(g_far); i++)
		for (size_t j = 0; j < GUEST_COUNT(nsec); j++) {
			const struct timespec ts = {g_far[i], nsec[j]};
			struct timespec copy = ts;
			struct timeval tv = {g_far[i], nsec[j]};

			printf("%ld.%ld\n", (long)g_far[i], (long)nsec[j]);
			WAIT(nanosleep(&ts, &copy));
			WAIT(-clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL));
			WAIT(-clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &ts, NULL));
			copy = ts;
			WAIT(syscall(SYS_ppoll, NULL, 0, &copy, NULL, 8));
			copy = ts;
			WAIT(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &copy, NULL));
			WAIT(syscall(SYS_select, 0, NULL, NULL, NULL, &tv));
			WAIT(syscall(441, ep, &ev, 1, &ts, NULL, 8));
			WAIT(syscall(441, ep, &ev, 0, &ts, NULL, 8));
			WAIT(syscall(SYS_futex, &word, 0, 0, &ts, NULL, 0));
			WAIT(syscall(SYS_futex, &word, 9, 0, &ts, NULL, -1));
			WAIT(syscall(SYS_futex, &word, 9 | 256, 0, &ts, NULL, -1));
			WAIT(syscall(SYS_rt_sigtimedwait, &usr1, NULL, &ts, 8));
		}
	for (int ms = -1; ms != 0; ms = ms == -1 ? INT_MIN : ms == INT_MIN ? INT_MAX : 0) {
		WAIT(poll(NULL, 0, ms));
		WAIT(epoll_wait(ep, &ev, 1, ms));
		WAIT(epoll_wait(ep, &ev, 0, ms));
		WAIT(epoll_pwait(ep, &ev, -1, ms, NULL));
		WAIT(epoll_pwait(ep, &ev, INT_MAX, ms, NULL));
		WAIT(syscall(SYS_epoll_pwait, ep, &ev, 1, ms, &usr1, 7));
		WAIT(syscall(SYS_epoll_pwait, ep, &ev, 1, ms, (void *)8, 8));
	}
	close(ep);
	alarm(UINT_MAX);
	V(alarm(INT_MAX));
	V(alarm(0));
}

int main(void)
{
	guest_begin();
	far_timers();
	far_waits();
	return 0;
}
