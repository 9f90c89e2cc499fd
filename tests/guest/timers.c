/* SPDX-License-Identifier: Apache-2.0 */

/* Clocks, sleeps, interval timers, POSIX timers. */
#include "guest.h"
#include <sys/timerfd.h>

static volatile sig_atomic_t fired;
static volatile int last_value, last_code, last_overrun;

static void handler(int sig, siginfo_t *si, void *ctx)
{
	(void)sig;
	(void)ctx;
	fired++;
	last_value = si->si_value.sival_int;
	last_code = si->si_code;
	last_overrun = si->si_overrun;
}

static void wait_fired(int n)
{
	for (int i = 0; i < 2000 && fired < n; i++)
		guest_sleep_ms(1);
}

static void clocks(void)
{
	static const clockid_t ids[] = {CLOCK_REALTIME,
					CLOCK_MONOTONIC,
					CLOCK_PROCESS_CPUTIME_ID,
					CLOCK_THREAD_CPUTIME_ID,
					CLOCK_MONOTONIC_RAW,
					CLOCK_REALTIME_COARSE,
					CLOCK_MONOTONIC_COARSE,
					CLOCK_BOOTTIME,
					CLOCK_REALTIME_ALARM,
					CLOCK_TAI,
					12,
					77,
					-1};
	struct timespec a, b;
	struct timeval tv;

	P("clocks");
	for (size_t i = 0; i < GUEST_COUNT(ids); i++) {
		printf("clock %d: %s", ids[i],
		       clock_gettime(ids[i], &a) ? guest_errno(errno) : "reads");
		printf(", %s", clock_getres(ids[i], &b) ? guest_errno(errno)
			       : b.tv_nsec == 1         ? "1 ns"
							: "coarse");
		if (!clock_gettime(ids[i], &a) && !clock_gettime(ids[i], &b))
			printf(", monotone %d", b.tv_sec > a.tv_sec || (b.tv_sec == a.tv_sec &&
									b.tv_nsec >= a.tv_nsec));
		printf("\n");
	}
	V(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, 8));
	V(syscall(SYS_clock_getres, CLOCK_MONOTONIC, 0));
	gettimeofday(&tv, NULL);
	clock_gettime(CLOCK_REALTIME, &a);
	T(labs(a.tv_sec - tv.tv_sec) <= 1 && labs(a.tv_sec - time(NULL)) <= 1);
	V(syscall(SYS_gettimeofday, 8, 0));
	V(syscall(SYS_time, 8));
	clockid_t other;

	V(clock_getcpuclockid(getpid(), &other));
	V(clock_gettime(other, &a));
	V(clock_getcpuclockid(1 << 22, &other) != 0);
	/* The vDSO and the system call agree. */
	clock_gettime(CLOCK_MONOTONIC, &a);
	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &b);
	T((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec >= 0);
	T((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec < 500000000);
}

static void sleeps(void)
{
	struct timespec t = {0, 20000000}, bad = {0, 1000000000}, neg = {-1, 0}, now, left = {7, 7};
	int64_t t0 = guest_now_ms();

	P("sleeps");
	V(nanosleep(&t, &left));
	T(guest_now_ms() - t0 >= 20);
	printf("left untouched %ld\n", (long)left.tv_sec);
	V(nanosleep(&bad, NULL));
	V(nanosleep(&neg, NULL));
	V(nanosleep((void *)8, NULL));
	E(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL));
	E(clock_nanosleep(77, 0, &t, NULL));
	E(clock_nanosleep(CLOCK_MONOTONIC_COARSE, 0, &t, NULL));
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_nsec += 20000000;
	if (now.tv_nsec >= 1000000000) {
		now.tv_sec++;
		now.tv_nsec -= 1000000000;
	}
	t0 = guest_now_ms();
	E(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &now, NULL));
	T(guest_now_ms() - t0 >= 15);
	now.tv_sec = 1;
	E(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &now, NULL));
	E(clock_nanosleep(CLOCK_BOOTTIME, 0, &t, NULL));
}

static void itimers(void)
{
	struct itimerval it = {.it_value = {0, 20000}}, old;
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
	pid_t pid;

	P("interval timers");
	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGVTALRM, &sa, NULL);
	sigaction(SIGPROF, &sa, NULL);
	fired = 0;
	V(setitimer(ITIMER_REAL, &it, NULL));
	wait_fired(1);
	printf("fired %d code %d\n", fired, last_code);
	V(getitimer(ITIMER_REAL, &old));
	printf("%ld %ld\n", (long)old.it_value.tv_sec, (long)old.it_value.tv_usec);
	it.it_interval.tv_usec = 5000;
	fired = 0;
	V(setitimer(ITIMER_REAL, &it, NULL));
	wait_fired(5);
	T(fired >= 5);
	it.it_value.tv_usec = 0;
	V(setitimer(ITIMER_REAL, &it, &old));
	printf("interval was %ld\n", (long)old.it_interval.tv_usec);
	it = (struct itimerval){.it_value = {0, 1000000}};
	V(setitimer(ITIMER_REAL, &it, NULL));
	V(setitimer(77, &it, NULL));
	V(getitimer(77, &old));
	V(setitimer(ITIMER_REAL, (void *)8, NULL));
	V(alarm(100));
	V(alarm(0));
	V(getitimer(ITIMER_REAL, &old));
	for (int which = ITIMER_VIRTUAL; which <= ITIMER_PROF; which++) {
		it = (struct itimerval){.it_value = {0, 20000}};
		fired = 0;
		setitimer(which, &it, NULL);
		guest_sleep_ms(40);
		printf("cpu timer %d after sleeping: %d\n", which, fired);
		int64_t t0 = guest_now_ms();
		while (!fired && guest_now_ms() - t0 < 5000)
			;
		printf("after working: %d\n", fired);
	}
	alarm(100);
	pid = guest_fork();
	if (!pid) {
		V(alarm(0));
		_exit(0);
	}
	guest_wait("a fork has no timers", pid);
	T(alarm(0) > 90);
	pid = guest_fork();
	if (!pid) {
		signal(SIGALRM, SIG_DFL);
		it = (struct itimerval){.it_value = {0, 10000}};
		setitimer(ITIMER_REAL, &it, NULL);
		for (;;)
			pause();
	}
	guest_wait("default action", pid);
}

static volatile int told_worker, told_others;
static __thread volatile bool is_worker;

static void on_cpu_timer(int sig)
{
	(void)sig;
	if (is_worker)
		told_worker++;
	else
		told_others++;
}

static void *work(void *arg)
{
	(void)arg;
	is_worker = true;
	while (told_worker + told_others < 20)
		;
	return NULL;
}

static void *doze(void *arg)
{
	while (!*(volatile bool *)arg)
		guest_sleep_ms(50);
	return NULL;
}

/* Profilers go by it: who hears of a CPU timer is who runs, not the main thread. */
static void who_works_is_told(void)
{
	static const int sigs[] = {[ITIMER_VIRTUAL] = SIGVTALRM, [ITIMER_PROF] = SIGPROF};

	for (int which = ITIMER_VIRTUAL; which <= ITIMER_PROF; which++) {
		struct itimerval it = {{0, 10000}, {0, 10000}};
		struct sigaction sa = {.sa_handler = on_cpu_timer, .sa_flags = SA_RESTART};
		bool end = false;
		pthread_t worker, dozer;

		told_worker = told_others = 0;
		sigaction(sigs[which], &sa, NULL);
		pthread_create(&dozer, NULL, doze, &end);
		pthread_create(&worker, NULL, work, NULL);
		V(setitimer(which, &it, NULL));
		pthread_join(worker, NULL);
		it = (struct itimerval){0};
		V(setitimer(which, &it, NULL));
		end = true;
		pthread_join(dozer, NULL);
		printf("timer %d tells the thread that works: %d\n", which,
		       told_worker > told_others);
	}
}

static void posix_timers(void)
{
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL,
			      .sigev_signo = SIGRTMIN + 1,
			      .sigev_value.sival_int = 1234};
	struct itimerspec it = {.it_value = {0, 10000000}}, old;
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
	timer_t t, t2;
	sigset_t set;

	P("POSIX timers");
	sigaction(SIGRTMIN + 1, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	V(timer_create(CLOCK_MONOTONIC, &ev, &t));
	fired = 0;
	V(timer_settime(t, 0, &it, &old));
	wait_fired(1);
	printf("fired %d value %d code %d overrun %d\n", fired, last_value, last_code,
	       last_overrun);
	V(timer_gettime(t, &old));
	printf("%ld %ld\n", (long)old.it_value.tv_sec, old.it_value.tv_nsec);
	V(timer_getoverrun(t));
	P("overruns");
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	it.it_value.tv_nsec = it.it_interval.tv_nsec = 2000000;
	V(timer_settime(t, 0, &it, NULL));
	guest_sleep_ms(40);
	fired = 0;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	T(fired >= 1);
	T(timer_getoverrun(t) >= 0);
	T(last_overrun >= 0);
	memset(&it, 0, sizeof(it));
	V(timer_settime(t, 0, &it, NULL));
	V(timer_delete(t));
	V(syscall(SYS_timer_delete, 9999));
	V(syscall(SYS_timer_gettime, 9999, &old));
	V(timer_create(77, &ev, &t));
	ev.sigev_signo = 99;
	V(timer_create(CLOCK_MONOTONIC, &ev, &t));
	ev.sigev_notify = 77;
	V(timer_create(CLOCK_MONOTONIC, &ev, &t));
	ev.sigev_notify = SIGEV_NONE;
	V(timer_create(CLOCK_REALTIME, &ev, &t));
	it.it_value.tv_sec = 100;
	V(timer_settime(t, 0, &it, NULL));
	V(timer_gettime(t, &old));
	T(old.it_value.tv_sec >= 98);
	it.it_value.tv_nsec = -1;
	V(timer_settime(t, 0, &it, NULL));
	V(timer_create(CLOCK_MONOTONIC, NULL, &t2));
	it = (struct itimerspec){.it_value = {0, 5000000}};
	fired = 0;
	V(timer_settime(t2, 0, &it, NULL));
	wait_fired(1);
	printf("default event: fired %d\n", fired);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	it.it_value = now;
	fired = 0;
	V(timer_settime(t2, TIMER_ABSTIME, &it, NULL));
	wait_fired(1);
	printf("past absolute: fired %d\n", fired);
	ev = (struct sigevent){.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 1};
	ev._sigev_un._tid = gettid();
	V(timer_create(CLOCK_MONOTONIC, &ev, &t));
	it = (struct itimerspec){.it_value = {0, 5000000}};
	fired = 0;
	V(timer_settime(t, 0, &it, NULL));
	wait_fired(1);
	printf("to this thread: fired %d\n", fired);
	ev._sigev_un._tid = 1 << 22;
	V(timer_create(CLOCK_MONOTONIC, &ev, &t));
	ev = (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
	V(timer_create(CLOCK_PROCESS_CPUTIME_ID, &ev, &t));
	it = (struct itimerspec){.it_value = {0, 20000000}};
	fired = 0;
	V(timer_settime(t, 0, &it, NULL));
	int64_t t0 = guest_now_ms();
	while (!fired && guest_now_ms() - t0 < 5000)
		;
	printf("cpu time: fired %d\n", fired);
}

static int64_t ns_of(const struct timespec *ts)
{
	return ts->tv_sec * 1000000000 + ts->tv_nsec;
}

static int64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ns_of(&ts);
}

/* Of a timer that was to expire at @first and then each @period: how often it did since, if that
 * was at a time from @before to now, and what is left to the next time (a second more or less). */
static void in_phase(const char *what, clockid_t clock, int64_t first, int64_t period,
		     int64_t before, uint64_t times, const struct timespec *left)
{
	const int64_t after = now_ns(clock), second = 1000000000;
	const int64_t least = period - (after - first) % period - second;
	const int64_t most = period - (before - first) % period;

	printf("%s: count %s, left %s\n", what,
	       times >= (uint64_t)((before - first) / period + 1) &&
			       times <= (uint64_t)((after - first) / period + 1)
		       ? "right"
		       : "wrong",
	       ns_of(left) >= least && ns_of(left) - second <= most ? "right" : "wrong");
}

/* A first time @ago (0: as early as can be): all periods since count, and the next keep in step. */
static void past(clockid_t clock, int64_t ago, int64_t period)
{
	const int64_t before = now_ns(clock), first = ago ? before - ago : 1;
	const struct itimerspec it = {{period / 1000000000, period % 1000000000},
				      {first / 1000000000, first % 1000000000}};
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec o = {0};
	uint64_t ticks = 0;
	siginfo_t si = {0};
	sigset_t set;
	timer_t t;
	int fd;

	printf("clock %d, ago %ld, period %ld\n", clock, (long)ago, (long)period);
	fd = timerfd_create(clock, TFD_NONBLOCK);
	V(timerfd_settime(fd, TFD_TIMER_ABSTIME, &it, NULL));
	V(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1));
	V(timerfd_gettime(fd, &o));
	V(read(fd, &ticks, 8));
	in_phase("timerfd", clock, first, period, before, ticks, &o.it_value);
	close(fd);

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	V(timer_create(clock, &ev, &t));
	V(timer_settime(t, TIMER_ABSTIME, &it, NULL));
	T(sigwaitinfo(&set, &si) == SIGUSR1);
	V(timer_gettime(t, &o));
	T(si.si_overrun == timer_getoverrun(t));
	/* Overruns end at INT_MAX. */
	if (si.si_overrun == INT_MAX)
		ticks = (uint64_t)(now_ns(clock) - first) / (uint64_t)period + 1;
	else
		ticks = (uint64_t)si.si_overrun + 1;
	in_phase("timer", clock, first, period, before, ticks, &o.it_value);
	V(timer_delete(t));

	ev.sigev_notify = SIGEV_NONE;
	V(timer_create(clock, &ev, &t));
	V(timer_settime(t, TIMER_ABSTIME, &it, NULL));
	V(timer_gettime(t, &o));
	V(timer_getoverrun(t));
	ticks = (uint64_t)(now_ns(clock) - first) / (uint64_t)period + 1;
	in_phase("timer without signals", clock, first, period, before, ticks, &o.it_value);
	V(timer_delete(t));
}

static void past_timers(void)
{
	const int64_t second = 1000000000;

	P("first times that are past");
	past(CLOCK_REALTIME, 10500 * second, 1000 * second);
	past(CLOCK_REALTIME, 10500 * second, 1000000 * second);
	past(CLOCK_REALTIME, 0, 3000000000 * second);
	past(CLOCK_REALTIME, 0, INT64_MAX);
	past(CLOCK_REALTIME, 0, 1);
	past(CLOCK_MONOTONIC, 0, 1000000000 * second);
	past(CLOCK_MONOTONIC, 500000000, 1000);
	past(CLOCK_MONOTONIC, 500000000, 500 * second);
	past(CLOCK_BOOTTIME, 0, 1000000000 * second);
}

/* Once in 1000 s, and first 10500 s ago: it expires when it is set, for the 11th time. */
static void set_past(timer_t t, bool once)
{
	const int64_t first = now_ns(CLOCK_REALTIME) - 10500 * (int64_t)1000000000;
	const struct itimerspec it = {{once ? 0 : 1000, 0},
				      {first / 1000000000, first % 1000000000}};

	fired = last_overrun = 0;
	V(timer_settime(t, TIMER_ABSTIME, &it, NULL));
}

static void left_of(timer_t t)
{
	struct itimerspec o = {{7, 7}, {7, 7}};

	V(timer_gettime(t, &o));
	printf("period %ld, left %d\n", (long)o.it_interval.tv_sec,
	       o.it_value.tv_sec > 400 && o.it_value.tv_sec <= 500);
}

/* How often it has come by now, and that it stands for. */
static void heard(const char *what, timer_t t)
{
	printf("%s: fired %d, overrun %d %d\n", what, fired, last_overrun, timer_getoverrun(t));
}

static void is_pending(int sig)
{
	sigset_t set;

	sigpending(&set);
	printf("pending %d\n", sigismember(&set, sig));
}

/* What a timer of an ignored signal has missed is told when it is ignored no more: Linux 6.13. */
static void ignored_by(int sig, int notify)
{
	const struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigevent ev = {.sigev_notify = notify, .sigev_signo = sig};
	struct itimerspec off = {{5, 0}, {0, 0}};
	sigset_t set;
	timer_t t;

	ev._sigev_un._tid = gettid();
	sigemptyset(&set);
	sigaddset(&set, sig);
	V(timer_create(CLOCK_REALTIME, &ev, &t));

	sigaction(sig, &ignore, NULL);
	set_past(t, false);
	left_of(t);
	heard("ignored", t);
	sigaction(sig, &sa, NULL);
	heard("heard", t);
	left_of(t);

	sigaction(sig, &ignore, NULL);
	set_past(t, true);
	sigaction(sig, &sa, NULL);
	heard("ignored once", t);

	sigprocmask(SIG_BLOCK, &set, NULL);
	set_past(t, false);
	is_pending(sig);
	sigaction(sig, &ignore, NULL);
	is_pending(sig);
	left_of(t);
	sigaction(sig, &sa, NULL);
	is_pending(sig);
	heard("blocked", t);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	heard("unblocked", t);

	sigaction(sig, &ignore, NULL);
	set_past(t, false);
	sigprocmask(SIG_BLOCK, &set, NULL);
	is_pending(sig);
	sigaction(sig, &sa, NULL);
	is_pending(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	heard("ignored, then blocked", t);

	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(sig, &ignore, NULL);
	set_past(t, false);
	is_pending(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	heard("blocked and ignored", t);
	sigaction(sig, &sa, NULL);
	heard("taken by then", t);

	sigaction(sig, &ignore, NULL);
	set_past(t, false);
	V(timer_settime(t, 0, &off, NULL));
	left_of(t);
	sigaction(sig, &sa, NULL);
	heard("off", t);

	sigaction(sig, &ignore, NULL);
	set_past(t, false);
	V(timer_delete(t));
	sigaction(sig, &sa, NULL);
	printf("deleted: fired %d\n", fired);
}

static void ignored_timers(void)
{
	P("timers of ignored signals");
	ignored_by(SIGUSR1, SIGEV_SIGNAL);
	ignored_by(SIGRTMIN + 3, SIGEV_SIGNAL);
	ignored_by(SIGUSR2, SIGEV_THREAD_ID);
}

int main(void)
{
	guest_begin();
	clocks();
	sleeps();
	itimers();
	who_works_is_told();
	posix_timers();
	past_timers();
	ignored_timers();
	return 0;
}
