/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first process. It starts the sentry as its child and stays small: it keeps the terminal's
 * state, passes signals on, and turns the end of the sentry into an exit status. It runs no guest
 * code and parses nothing of the guest's.
 *
 * Theory of operation: the control channel is a pipe to the sentry; its end of file tells the
 * sentry that the monitor is gone (and PR_SET_PDEATHSIG does so faster). The sentry's exit status
 * is the guest's; a sentry that dies by a signal is our own failure and gives EXIT_SENTRY. Of the
 * signal that the program has died of the monitor dies itself, last of all: shells, make and xargs
 * end a loop only if what they ran has died of control-C, and say what a crash was. It is not
 * dumpable, so no core of moat's is left.
 *
 * The stubs die with the sentry, and their remains fall to us as the nearest reaper: when moat
 * returns there is no process left, not even for an init that reaps nobody.
 */
#include "runtime/archive.h"
#include "runtime/cgroup.h"
#include "runtime/cpu_share.h"
#include "runtime/monitor_lock.h"
#include "runtime/run.h"
#include "runtime/start_why.h"
#include "runtime/wall_time.h"
#include "runtime/audit_log.h"
#include "runtime/summary.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include "base/coverage.h"
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "platform/platform.h"
#include "runtime/wall.h"
#include "sentry/summary.h"

static const int g_forwarded[] = {SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
				  SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP};

/* How often it is looked whether the shell has brought a job that it continued in the background to
 * the foreground: nothing tells of that. */
#define BACKGROUND_NS (200 * 1000000ull)

static struct termios g_saved_tty;
static bool g_uses_tty, g_tty_is_raw;
/* The terminal that this session has, if a standard file is it: somebody sits there who sees that
 * we stop, and can continue us. */
static int g_tty = -1;
static pid_t g_self, g_pgrp;
/* What the program died of, as the sentry says, or 0. */
static int g_died_of;
static bool g_died_of_key;
/* Seconds of processor time that the host lets each of moat's processes have; and that the sentry
 * has had at its end. */
static rlim_t g_cpu_limit = RLIM_INFINITY, g_sentry_seconds;
/* The sentry has been told that another group has it. */
static bool g_is_behind;
/* From the sentry: a byte when the program was stopped, the signal. */
static int g_stopped = -1;

static void tty_raw(void)
{
	struct termios raw;

	if (HOST(ioctl_monitor_mode, tcgetattr(0, &g_saved_tty)) != 0)
		return;
	raw = g_saved_tty;
	cfmakeraw(&raw);
	if (HOST(ioctl_monitor_mode, tcsetattr(0, TCSADRAIN, &raw)) == 0)
		g_tty_is_raw = true;
}

static void tty_restore(void)
{
	if (g_tty_is_raw) {
		/* A sentry that was taken over can have stopped the output, which then nothing that
		 * the user types makes go on; to wait for it, and the terminal after us, would
		 * hang. */
		(void)HOST(ioctl_monitor_go_on, ioctl(0, TCXONC, TCOON));
		(void)HOST(ioctl_monitor_mode, tcsetattr(0, TCSADRAIN, &g_saved_tty));
	}
	g_tty_is_raw = false;
}

/* A terminal signals all of its foreground group, of which we stand for the guest; kill(2) means
 * the program alone. */
static void pass_signal(int ctl, int sig, bool from_tty)
{
	unsigned char msg[2] = {from_tty ? CTL_TTY_SIGNAL : CTL_SIGNAL, (unsigned char)sig};
	size_t size = 2;

	if (sig == SIGWINCH) {
		msg[0] = CTL_WINCH;
		size = 1;
	}
	(void)!HOST(write_control, write(ctl, msg, size));
}

static bool in_front(void)
{
	return HOST(ioctl_monitor_mode, tcgetpgrp(g_tty)) == g_pgrp;
}

/* The sentry's terminal is the host's own: it is told when that is another's. */
static void tell_place(int ctl)
{
	g_is_behind = !g_uses_tty && g_tty >= 0 && !in_front();
	if (!g_uses_tty && g_tty >= 0)
		(void)!HOST(write_control,
			    write(ctl, (char[]){g_is_behind ? CTL_BEHIND : CTL_FRONT}, 1));
}

/* Is there somebody who could continue us? */
static void find_tty(void)
{
	static const int standard[] = {0, 2, 1};

	g_uses_tty = g_tty_is_raw;
	g_pgrp = HOST(getpgrp_monitor, getpgrp());
	for (size_t i = 0; i < ARRAY_SIZE(standard) && g_tty < 0; i++) {
		if (g_uses_tty || HOST(ioctl_monitor, tcgetpgrp(standard[i])) != -1)
			g_tty = standard[i];
	}
}

/* A pipe of which a byte is told by SIGIO: the monitor waits for signals. */
static void stop_pipe(struct run_config *cfg)
{
	int ends[2];

	if (HOST(pipe2_monitor, pipe2(ends, O_CLOEXEC | O_NONBLOCK)) != 0)
		return;
	if (HOST(fcntl_monitor, fcntl(ends[0], F_SETOWN, g_self)) == 0 &&
	    HOST(fcntl_monitor, fcntl(ends[0], F_SETFL, O_NONBLOCK | O_ASYNC)) == 0) {
		g_stopped = ends[0];
		cfg->stop_fd = ends[1];
	}
}

/* In the foreground the terminal is ours again, which the shell has used meanwhile. */
static void take_tty(int ctl)
{
	if (g_uses_tty && in_front()) {
		if (!g_tty_is_raw)
			tty_raw();
		pass_signal(ctl, SIGWINCH, false);
	}
}

/* We are continued: so is the program. */
static void go_on(int ctl)
{
	take_tty(ctl);
	tell_place(ctl);
	pass_signal(ctl, SIGCONT, true);
}

/* Stops by @sig, as the program has, with whoever shares the terminal's foreground with us. If
 * nobody could continue us the host does not stop us. */
static void stop(int ctl, int sig)
{
	const struct timespec now = {0};
	sigset_t stopping, cont, old;

	sigemptyset(&stopping);
	sigaddset(&stopping, sig);
	sigemptyset(&cont);
	sigaddset(&cont, SIGCONT);
	tty_restore();
	(void)HOST(kill_stop, kill(0, sig));
	HOST(rt_sigprocmask_monitor, sigprocmask(SIG_UNBLOCK, &stopping, &old));
	HOST(rt_sigprocmask_monitor, sigprocmask(SIG_SETMASK, &old, NULL));
	(void)HOST(rt_sigtimedwait_monitor, sigtimedwait(&cont, NULL, &now));
	go_on(ctl);
}

/* The sentry tells that the program was stopped. */
static void program_stopped(int ctl)
{
	const bool was_behind = g_is_behind;
	unsigned char b, sig = 0;

	while (g_stopped >= 0 && HOST(read_stop, read(g_stopped, &b, 1)) == 1)
		sig = b;
	if (!sig)
		return;
	tell_place(ctl);
	/* Only where somebody sits at a terminal that is this session's, who can continue us: the
	 * sentry's word alone shall not stop a script and what watches over it. Nothing tells of a
	 * job that its shell has brought to the foreground, and which may read now. */
	if (HOST(ioctl_monitor_mode, tcgetpgrp(g_tty)) == -1 ||
	    (sig == SIGTTIN && was_behind && !g_is_behind))
		pass_signal(ctl, SIGCONT, true);
	else
		/* SIGSTOP would stop us where nobody can continue us, too. */
		stop(ctl, sig == SIGTTIN || sig == SIGTTOU ? sig : SIGTSTP);
}

/* Waits for the sentry's end, passing signals on. Returns its wait status. */
static int attend(pid_t sentry, int ctl, const sigset_t *set)
{
	int status;

	for (;;) {
		siginfo_t si;
		const bool behind = g_uses_tty && !g_tty_is_raw;
		int sig = wall_time_wait(set, &si, sentry, behind ? BACKGROUND_NS : UINT64_MAX);

		if (sig < 0) {
			if (behind)
				take_tty(ctl);
			continue;
		}
		if (sig == SIGCHLD) {
			struct rusage used;
			pid_t r = HOST(wait4_monitor, wait4(sentry, &status, WNOHANG, &used));

			if (r == sentry) {
				g_sentry_seconds =
					(rlim_t)used.ru_utime.tv_sec +
					(rlim_t)used.ru_stime.tv_sec +
					(used.ru_utime.tv_usec + used.ru_stime.tv_usec >= 1000000);
				return status;
			}
			continue;
		}
		switch (sig) {
		case SIGIO:
			program_stopped(ctl);
			break;
		case SIGCONT:
			/* Of a SIGSTOP: the terminal may be in another state. */
			g_tty_is_raw = false;
			go_on(ctl);
			break;
		default:
			pass_signal(ctl, sig, si.si_code == SI_KERNEL);
			/* Where we are told of it the program says whether it stops. */
			if (sig == SIGTSTP && si.si_code == SI_KERNEL && g_stopped < 0)
				stop(ctl, SIGTSTP);
			break;
		}
	}
}

/* The stubs have been killed; takes their ends. */
static void reap_all(void)
{
	const struct timespec patience = {.tv_sec = 2};
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		pid_t r = HOST(wait4_monitor, waitpid(-1, NULL, WNOHANG));

		if (r < 0 || (r == 0 && HOST(rt_sigtimedwait_monitor,
					     sigtimedwait(&chld, NULL, &patience)) < 0))
			return;
	}
}

/* A file that the user named for a report; said so if it cannot be. */
static int open_report(const char *option, const char *path)
{
	int fd = HOST(openat_monitor, open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));

	if (fd < 0)
		fprintf(stderr, "moat run: %s=%s: %s; name a file that can be written\n", option,
			path, strerror(errno));
	return fd;
}

static bool open_reports(struct run_config *cfg)
{
	if (cfg->strace && cfg->strace[0]) {
		cfg->strace_fd = open_report("--strace", cfg->strace);
		if (cfg->strace_fd < 0)
			return false;
	} else if (cfg->strace) {
		cfg->strace_fd = HOST(fcntl_monitor, fcntl(2, F_DUPFD_CLOEXEC, 3));
		if (cfg->strace_fd < 0) {
			fprintf(stderr, "moat run: --strace: %s\n", strerror(errno));
			return false;
		}
	}
	if (cfg->stats && cfg->stats[0]) {
		cfg->stats_fd = open_report("--stats", cfg->stats);
		if (cfg->stats_fd < 0)
			return false;
	}
	if (cfg->profile) {
		cfg->profile_fd = open_report("--profile-calls", cfg->profile);
		if (cfg->profile_fd < 0)
			return false;
	}
	if (cfg->diff_file) {
		cfg->diff_fd = open_report("--diff", cfg->diff_file);
		if (cfg->diff_fd < 0)
			return false;
	}
	if (cfg->audit) {
		struct err e = {{0}};

		if (audit_log_open(cfg->audit, &cfg->audit_fd, &e)) {
			fprintf(stderr, "moat run: %s\n", e.text);
			return false;
		}
	}
	if (cfg->learn) {
		struct err e = {{0}};

		if (learn_open(cfg, &e)) {
			fprintf(stderr, "moat policy: learn: %s\n", e.text);
			return false;
		}
	}
	return archive_open(cfg);
}

static void report_death(int sig)
{
	/* The filter kills, or the sentry's handler of a debug build does so itself. */
	if (sig == SIGSYS)
		start_why_killed(stderr);
	/* Nothing of moat's kills it. */
	else if (sig == SIGKILL && g_sentry_seconds >= g_cpu_limit)
		fprintf(stderr,
			"moat: the host has killed the sandbox, as the processor time of moat's "
			"own "
			"kernel reached %llu s (ulimit -Ht); allow more, and limit the program "
			"with: --limit cpu_time=TIME\n",
			(unsigned long long)g_cpu_limit);
	else if (sig == SIGKILL)
		fprintf(stderr, "moat: the sandbox was killed from outside, by somebody or by a "
				"host that is "
				"out of memory (dmesg says so then)\n");
	else
		fprintf(stderr,
			"moat: the sentry died of signal %d (%s); the sandbox is gone with it. "
			"This is a fault of moat: please report it\n",
			sig, sigdescr_np(sig) ? sigdescr_np(sig) : "of no name");
}

/* What the sentry writes reports to, and reads. */
static void keep_reports(const struct run_config *cfg)
{
	const int fds[] = {cfg->strace_fd, cfg->stats_fd, cfg->profile_fd, cfg->diff_fd,
			   cfg->load_fd,   cfg->save_fd,  cfg->saved_fd,   cfg->audit_fd,
			   cfg->learn_fd,  cfg->stop_fd};

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		wall_keep(fds[i]);
}

/* A limit of the caller's on the size of files is the guest's EFBIG, not our end: moat's own memory
 * files are files, too. What a hard limit leaves is what there is; SIGXFSZ is ignored
 * (monitor_run). */
static void raise_file_size(void)
{
	struct rlimit rl;

	if (HOST(prlimit64_monitor, getrlimit(RLIMIT_FSIZE, &rl)) == 0) {
		rl.rlim_cur = rl.rlim_max;
		(void)HOST(prlimit64_monitor, setrlimit(RLIMIT_FSIZE, &rl));
	}
}

/* A limit of the caller's on processor time is each guest process's own, by the guest's clocks, and
 * not moat's, which works for all of them. Only root can lift a hard one; ours is in g_cpu_limit.
 */
static int take_cpu_limit(struct run_config *cfg)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
	struct rlimit rl;

	cfg->cpu_soft = cfg->cpu_hard = g_cpu_limit = RLIM_INFINITY;
	if (HOST(prlimit64_monitor, getrlimit(RLIMIT_CPU, &rl)) != 0 ||
	    rl.rlim_cur == RLIM_INFINITY)
		return 0;
	cfg->cpu_soft = rl.rlim_cur;
	cfg->cpu_hard = rl.rlim_max;
	if (HOST(prlimit64_monitor, setrlimit(RLIMIT_CPU, &none)) == 0)
		return 0;
	g_cpu_limit = rl.rlim_cur = rl.rlim_max;
	cfg->cpu_held = g_cpu_limit != RLIM_INFINITY;
	(void)HOST(prlimit64_monitor, setrlimit(RLIMIT_CPU, &rl));
	if (g_cpu_limit != 0)
		return 0;
	/* The host kills at the next tick. */
	fprintf(stderr, "moat run: moat may use no processor time (ulimit -Ht 0); allow some\n");
	return EXIT_SENTRY;
}

/* Where the hard limit is 0 nobody but we, if we are root, can make it what the sentry and its
 * stubs need (PF_CORE_LIMIT). Otherwise they do that themselves. */
static void allow_core_limit(void)
{
	struct rlimit rl;

	if (HOST(prlimit64_monitor, getrlimit(RLIMIT_CORE, &rl)) == 0 &&
	    rl.rlim_max < PF_CORE_LIMIT) {
		rl.rlim_max = PF_CORE_LIMIT;
		(void)HOST(prlimit64_monitor, setrlimit(RLIMIT_CORE, &rl));
	}
}

/* Descriptors 0 to 2 are taken for what they are called: a grant that is opened must not become
 * one. */
static void fill_stdio(struct run_config *cfg)
{
	for (int fd = 0; fd < 3; fd++) {
		if (HOST(fcntl_monitor, fcntl(fd, F_GETFD)) >= 0)
			continue;
		cfg->stdio_closed[fd] = true;
		(void)!HOST(openat_monitor, open("/dev/null", O_RDWR));
	}
}

/* The sentry runs: the monitor keeps what it needs for the end, and no more. -errno and *e: the
 * sandbox must not run. */
static int lock_down(const struct run_config *cfg, pid_t sentry, int ctl, struct err *e)
{
	static struct monitor_lock l;
	int r;

	start_why_look();
	monitor_lock_init(&l);
	l.slots[MONITOR_SENTRY] = sentry;
	l.slots[MONITOR_SELF] = g_self;
	l.slots[MONITOR_CONTROL] = ctl;
	l.slots[MONITOR_TTY] = g_tty;
	l.slots[MONITOR_STOPPED] = g_stopped;
	l.slots[MONITOR_MOUNTS] = summary_host_fd();
	l.slots[MONITOR_STATS] = cfg->stats && cfg->stats[0] ? cfg->stats_fd : -1;
	archive_lock(cfg, &l);
	cgroup_lock(&l);
	audit_log_lock(&l);
	if (cfg->learn)
		learn_lock(&l);
	/* The guest's standard files are the sentry's now: a pipe must close when the guest closes
	 * it. Messages go to standard error; what is learnt may go to the output. */
	if (g_tty != 0)
		HOST(close_monitor, close(0));
	if (g_tty != 1 && !cfg->learn)
		HOST(close_monitor, close(1));
	monitor_give_up(&l);
	if (cfg->stats)
		host_accounting_start();
	r = audit_log_start(e);
	if (r == 0)
		r = monitor_lock(&l, e);
	if (cfg->stats)
		host_accounting_mark();
	return r;
}

/* After the sentry's report: that each call that the filter allows is needed is tested by it. */
static void add_stats(const struct run_config *cfg)
{
	char line[128];

	if (!cfg->stats || !cfg->stats[0])
		return;
	host_accounting_collect();
	for (enum host_tag tag = 0; tag < HOST_TAGS; tag++) {
		const uint64_t n = host_accounted_since(tag);
		const int size =
			n ? snprintf(line, sizeof(line),
				     "the monitor, after its lock-down: %s\t-\t-\t-\t-\t-\t%lu\t\n",
				     host_tag_name(tag), n)
			  : 0;

		if (size > 0)
			(void)!HOST(write_monitor_stats, write(cfg->stats_fd, line, (size_t)size));
	}
}

/* What the caller ignores, as nohup(1) does, a program that is executed goes on to ignore. Nothing
 * that is blocked is discarded by the host, so it is passed on, and the program decides. Asked of
 * those that callers ignore: a call for each of all 64 is half a percent of a start. */
static void note_ignored(struct run_config *cfg)
{
	static const int others[] = {SIGALRM, SIGTTIN, SIGTTOU};

	for (size_t i = 0; i < ARRAY_SIZE(g_forwarded) + ARRAY_SIZE(others); i++) {
		const int sig = i < ARRAY_SIZE(g_forwarded) ? g_forwarded[i]
							    : others[i - ARRAY_SIZE(g_forwarded)];
		struct sigaction sa;

		if (HOST(rt_sigaction_monitor, sigaction(sig, NULL, &sa)) == 0 &&
		    sa.sa_handler == SIG_IGN)
			cfg->ignored |= (uint64_t)1 << (sig - 1);
	}
}

/* The monitor's own way with @sig, which is not the caller's. */
static void set_own(struct run_config *cfg, int sig, sighandler_t how)
{
	if (HOST(rt_sigaction_monitor, signal(sig, how)) == SIG_IGN)
		cfg->ignored |= (uint64_t)1 << (sig - 1);
}

int monitor_run(struct run_config *cfg)
{
	struct err e = {{0}};
	int ctl[2], status, result, r;
	sigset_t set, old;
	pid_t sentry;
	bool reaper = false, refused;

	r = take_cpu_limit(cfg);
	if (r != 0)
		return r;
	fill_stdio(cfg);
	if (rootfs_open_grants(&cfg->draft, &e) || grant_freeze(&cfg->draft.g, &e)) {
		fprintf(stderr, "moat run: %s\n", e.text);
		return EXIT_USAGE;
	}
	if (cfg->wall_off && g_grant->strict) {
		fprintf(stderr,
			"moat run: --wall=off: the grant is strict; leave one of them out\n");
		return EXIT_USAGE;
	}
	raise_file_size();
	allow_core_limit();
	if (!open_reports(cfg))
		return EXIT_USAGE;
	if (cpu_share_apply(&e)) {
		archive_give_up();
		fprintf(stderr, "moat run: %s\n", e.text);
		return EXIT_SENTRY;
	}
	if (cgroup_make(&e)) {
		archive_give_up();
		fprintf(stderr, "moat run: %s\n", e.text);
		return EXIT_SENTRY;
	}
	if (HOST(pipe2_monitor, pipe2(ctl, O_CLOEXEC | O_NONBLOCK)) != 0) {
		archive_give_up();
		cgroup_end();
		fprintf(stderr, "moat run: no pipe for the sentry: %s\n", strerror(errno));
		return EXIT_SENTRY;
	}
	g_self = HOST(getpid_monitor, getpid());
	sigemptyset(&set);
	note_ignored(cfg);
	for (size_t i = 0; i < ARRAY_SIZE(g_forwarded); i++)
		sigaddset(&set, g_forwarded[i]);
	sigaddset(&set, SIGIO);
	sigaddset(&set, SIGCHLD);
	HOST(rt_sigprocmask_monitor, sigprocmask(SIG_BLOCK, &set, &old));
	_Static_assert(sizeof(old) >= sizeof(cfg->blocked), "a bit for each signal");
	memcpy(&cfg->blocked, &old, sizeof(cfg->blocked));
	/* Ignored, as some callers leave it, it would tell us of no end. */
	set_own(cfg, SIGCHLD, SIG_DFL);
	/* A signal to pass on to a sentry that has just ended, a reader of ours that is gone, a
	 * file that may not grow: errors, and no end before the terminal is as it was. The sentry
	 * ignores both, and the guest's are its own. */
	set_own(cfg, SIGPIPE, SIG_IGN);
	set_own(cfg, SIGXFSZ, SIG_IGN);
	if (cfg->use_tty)
		tty_raw();
	find_tty();
	if (g_tty >= 0)
		stop_pipe(cfg);

	/* Who was given children by the program that it replaced leaves them alone. */
	if (HOST(waitid_monitor, waitid(P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT)) < 0 &&
	    errno == ECHILD)
		reaper = HOST(prctl_monitor, prctl(PR_SET_CHILD_SUBREAPER, 1)) == 0;
	g_wall.off = cfg->wall_off;
	keep_reports(cfg);
	summary_make(cfg->audit != NULL);
	sentry = wall_clone(&g_wall);
	if (sentry < 0) {
		archive_give_up();
		cgroup_end();
		tty_restore();
		fprintf(stderr, "moat run: cannot start the sentry: %s: %s\n", strerror(-sentry),
			start_why_no_process(-sentry));
		return EXIT_SENTRY;
	}
	if (sentry == 0) {
		audit_log_forget();
		const int end = sandbox_main(cfg, ctl[0]);

		coverage_write();
		HOST(exit_group_end, _exit(end));
	}
	HOST(close_monitor, close(ctl[0]));
	/* A sandbox that was to be watched and is not shall not run. On a host that knows or allows
	 * no filters at all the sentry is about to say so, and better. */
	r = lock_down(cfg, sentry, ctl[1], &e);
	refused = r != 0 && r != -ENOSYS && r != -EPERM;
	if (refused) {
		(void)HOST(kill_monitor, kill(sentry, SIGKILL));
		fprintf(stderr, "moat run: %s\n", e.text);
	}
	tell_place(ctl[1]);
	wall_time_start(cfg->save || cfg->diff ? ctl[1] : -1);
	status = attend(sentry, ctl[1], &set);
	tty_restore();
	archive_finish(cfg, !WIFEXITED(status));
	if (reaper)
		reap_all();
	cgroup_end();
	HOST(rt_sigprocmask_monitor, sigprocmask(SIG_SETMASK, &old, NULL));
	result = wall_time_is_up()   ? EXIT_TIME_UP
		 : WIFEXITED(status) ? WEXITSTATUS(status)
				     : EXIT_SENTRY;
	/* Who succeeds and is not asked says nothing. */
	if (result != 0 || cfg->verbose || cfg->audit)
		summary_ask(!cfg->draft.cwd_given);
	audit_log_end(status, result);
	if (result != 0 || cfg->verbose)
		summary_print(stderr, cfg->policy != NULL);
	if (r != 0 && !refused && result != EXIT_SENTRY) {
		fprintf(stderr, "moat run: %s\n", e.text);
		result = EXIT_SENTRY;
	}
	if (wall_time_is_up())
		fputs("moat: limit: wall_time: the sandbox has had its time and was killed; allow "
		      "more with: --limit wall_time=TIME\n",
		      stderr);
	else if (!WIFEXITED(status) && !refused)
		report_death(WTERMSIG(status));
	if (cfg->learn && !refused)
		result = wall_time_is_up() || !WIFEXITED(status) ? learn_no_end(result)
								 : learn_finish(cfg, result);
	if (WIFEXITED(status) && !refused && g_summary) {
		g_died_of = atomic_load(&g_summary->died_of);
		g_died_of_key = atomic_load(&g_summary->died_of_key);
	}
	add_stats(cfg);
	return result;
}

void monitor_die(int status)
{
	/* Of no other signal has moat died, so that whoever sees SIGKILL knows that it was killed
	 * itself; and the sentry's word does not stop it. */
	static const int never[] = {0, SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU};
	const int sig = g_died_of;
	sigset_t set;

	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		if (sig == never[i])
			return;
	}
	if (sig >= NSIG || status != 128 + sig)
		return;
	coverage_write();
	san_leaks();
	sigemptyset(&set);
	sigaddset(&set, sig);
	(void)HOST(rt_sigaction_end, signal(sig, SIG_DFL));
	HOST(rt_sigprocmask_monitor, sigprocmask(SIG_UNBLOCK, &set, NULL));
	/* A key's is for all of the terminal's foreground, as which the program has it alone while
	 * the terminal is raw: a script around moat would go on. */
	if (g_died_of_key && g_uses_tty && (sig == SIGINT || sig == SIGQUIT) && in_front())
		(void)HOST(kill_key, kill(0, sig));
	(void)HOST(kill_self, kill(g_self, sig));
}
