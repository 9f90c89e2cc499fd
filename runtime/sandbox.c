/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry's process: builds the kernel, runs the program, tells how it ended.
 */
#include "runtime/run.h"
#include "runtime/start_why.h"
#include "sentry/summary.h"
#include "runtime/changes.h"
#include "runtime/console.h"
#include "runtime/wall.h"

#include "base/clock.h"
#include "base/coverage.h"
#include "base/hash.h"
#include "base/host_memory.h"
#include "base/hostcall.h"
#include "base/hostpoll.h"
#include "base/sanitizer.h"
#include "netstack/socket.h"
#include "platform/host_proc.h"
#include "platform/lease.h"
#include "platform/platform.h"
#include "platform/sentry_filter.h"
#include "sentry/audit.h"
#include "sentry/learn.h"
#include "sentry/call_profile.h"
#include "sentry/call_stats.h"
#include "sentry/crash.h"
#include "sentry/meter_watch.h"
#include "sentry/mqueue.h"
#include "sentry/nsfs.h"
#include "sentry/proc.h"
#include "sentry/syscall.h"
#include "sentry/turns.h"
#include "sentry/unwind.h"
#include "sentry/vfs_glue.h"
#include "vfs/host_calls.h"
#include "vfs/hostfd.h"
#include "vfs/memdev.h"
#include "vfs/shown.h"
#include "vfs/sysfs.h"
#include "vfs/tmpfs.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* What root of the guest may do: all that the sentry itself answers for; not what would be the
 * host's. */
#define GUEST_ROOT_CAPS                                                                       \
	(LX_CAP_ALL &                                                                         \
	 ~(1ull << LX_CAP_SYS_MODULE | 1ull << LX_CAP_SYS_RAWIO | 1ull << LX_CAP_SYS_BOOT |   \
	   1ull << LX_CAP_SYS_TIME | 1ull << LX_CAP_SYS_RESOURCE | 1ull << LX_CAP_MAC_ADMIN | \
	   1ull << LX_CAP_MAC_OVERRIDE | 1ull << LX_CAP_BPF | 1ull << LX_CAP_PERFMON |        \
	   1ull << LX_CAP_SYSLOG | 1ull << LX_CAP_WAKE_ALARM | 1ull << LX_CAP_BLOCK_SUSPEND))

/* The caller's, which is the first program's; who only asks has none. */
static uint32_t g_umask = 022;

struct setup {
	struct run_config *cfg;
	struct cred *cred;
	struct mount_ns *ns;
	struct fs_struct *fs;
	struct fdtable *files;
	struct tty *console; /* NULL: none */
	struct err err;
	bool usage;  /* the command line was wrong */
	bool failed; /* the program */
	int result;
	int (*then)(struct vfs_ctx *c, void *arg); /* sandbox_ask */
	void *then_arg;
	_Atomic bool done;
};

/* With a console it takes the place of what is a terminal, or of all that was asked to be one. A
 * redirected output stays what it is. */
static int open_stdio(struct setup *s, struct vfs_ctx *c, int fd, struct file **out)
{
	const struct open_how how = {.flags = LX_O_RDWR | LX_O_NOCTTY};

	if (s->console && (s->cfg->tty == TTY_ON || HOST(ioctl_console, isatty(fd))))
		return vfs_open(c, NULL, "/dev/console", &how, out);
	return hostfd_new(c, fd, NULL, out);
}

static int setup_stdio(struct setup *s, struct vfs_ctx *c)
{
	static const char *const names[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};

	for (int fd = 0; fd < 3; fd++) {
		struct file *f;
		int r;

		if (s->cfg->stdio_closed[fd])
			continue;
		r = open_stdio(s, c, fd, &f);
		if (r)
			return err_set(&s->err, -r, "cannot pass %s to the guest: %s", names[fd],
				       err_text(-r));
		r = fd_install(s->files, f, 0, fd, (uint64_t)fd + 1);
		if (r < 0) {
			file_put(f);
			return err_set(&s->err, -r, "cannot pass %s to the guest: %s", names[fd],
				       err_text(-r));
		}
	}
	return 0;
}

static int setup_cwd(struct setup *s, struct vfs_ctx *c)
{
	const struct draft *d = &s->cfg->draft;
	char at[256];
	struct path p;
	int r = path_lookup(c, NULL, g_grant->cwd, WALK_FOLLOW | WALK_DIRECTORY, &p);

	/* The caller's own directory need not exist in the guest; one that was named must. */
	if (r && !d->cwd_given)
		return 0;
	s->usage = r != 0;
	if (r)
		return err_set(&s->err, -r, "%s%s %s: %s; name a directory that the guest can see",
			       draft_origin_text(&d->cwd_origin, at, sizeof(at)),
			       d->cwd_origin.line ? ": cwd:" : "", g_grant->cwd, err_text(-r));
	fs_set_cwd(s->fs, &p);
	path_put(&p);
	return 0;
}

static int setup_all(struct setup *s)
{
	struct cred *maker = cred_new(0, 0, LX_CAP_ALL);
	struct vfs_ctx c = {.fsize_limit = UINT64_MAX};
	struct path root;
	int r;

	s->cred = cred_new(g_grant->uid, g_grant->gid, GUEST_ROOT_CAPS);
	s->files = fdtable_new();
	if (!maker || !s->cred || !s->files || mqueue_start() || nsfs_start())
		return err_set(&s->err, ENOMEM, "out of memory");
	r = rootfs_build(&s->ns, &s->err);
	if (r) {
		s->usage = r == -ENOTDIR || r == -ENOENT || r == -EACCES;
		return r;
	}
	root = (struct path){.mnt = s->ns->root, .dentry = s->ns->root->root};
	s->fs = fs_new(&root, &root, 0);
	if (!s->fs)
		return err_set(&s->err, ENOMEM, "out of memory");
	c.cred = maker;
	c.fs = s->fs;
	c.ns = s->ns;
	c.files = s->files;
	r = rootfs_populate(s->cfg, &c, &s->err);
	s->usage = r == -EBADMSG; /* an archive that cannot be loaded */
	if (r == 0)
		r = setup_cwd(s, &c);
	if (r == 0)
		r = setup_stdio(s, &c);
	s->fs->umask = g_umask;
	cred_put(maker);
	return r;
}

static void setup_main(void *arg)
{
	struct setup *s = arg;
	int r = setup_all(s);

	if (r == 0 && s->then) {
		struct vfs_ctx c = {.cred = s->cred,
				    .fs = s->fs,
				    .ns = s->ns,
				    .files = s->files,
				    .fsize_limit = UINT64_MAX};

		r = s->then(&c, s->then_arg);
	}
	s->result = r;
	atomic_store(&s->done, true);
	clock_tell();
}

static bool is_done(void *arg)
{
	const struct setup *s = arg;

	return atomic_load(&s->done);
}

/* Runs @fn, which sets s->result, on a fiber. */
static int on_fiber(struct setup *s, void (*fn)(void *), const char *name)
{
	struct fiber *f = fiber_new(fn, s, NULL, name);

	if (!f)
		return err_set(&s->err, ENOMEM, "out of memory");
	atomic_store(&s->done, false);
	fiber_start(f);
	clock_wait(is_done, s);
	return s->result;
}

static bool control_byte(int fd, unsigned char *b)
{
	const struct iovec iov = {.iov_base = b, .iov_len = 1};

	return HOST(preadv2_control, preadv2(fd, &iov, 1, -1, 0)) == 1;
}

static void pass_signal(bool from_tty, int sig)
{
	struct tgroup *tg = kernel_main_group();
	struct lx_siginfo info;

	if (!tg)
		return;
	siginfo_kernel(&info, sig);
	host_news();
	/* Whoever sends it continues the program, too: the monitor. */
	if (sig == SIGTSTP)
		atomic_store(&g_kernel.stoppable, true);
	if (from_tty) {
		mutex_lock(&g_kernel.tasklist);
		(void)signal_send_pgrp_locked(tg->pgrp, &info);
		mutex_unlock(&g_kernel.tasklist);
	} else {
		info.si_code = LX_SI_USER;
		(void)signal_send_group(tg, &info);
	}
	tgroup_put(tg);
}

/* Signals that came before the program was there: a control-C while the sandbox starts. A bit for
 * each, by whether a terminal sent it. */
static struct {
	struct mutex lock;
	bool ready;
	uint64_t sent[2];
} g_early = {.lock = MUTEX_INIT(RANK_LEAF)};

#define SIGNAL_BIT(sig) ((uint64_t)1 << ((sig)-1))
#define SIGNALS_STOP (SIGNAL_BIT(SIGTSTP) | SIGNAL_BIT(SIGTTIN) | SIGNAL_BIT(SIGTTOU))

static bool signal_is_early(bool from_tty, int sig)
{
	uint64_t undone = 0;
	bool early;

	/* As if they were pending: of one that stops and one that continues the last counts. */
	if (sig == SIGCONT)
		undone = SIGNALS_STOP;
	else if (SIGNALS_STOP & SIGNAL_BIT(sig))
		undone = SIGNAL_BIT(SIGCONT);
	mutex_lock(&g_early.lock);
	early = !g_early.ready;
	if (early) {
		g_early.sent[0] &= ~undone;
		g_early.sent[1] &= ~undone;
		g_early.sent[from_tty] |= SIGNAL_BIT(sig);
	}
	mutex_unlock(&g_early.lock);
	return early;
}

/* What has come; nothing: from now on it comes to the program at once. */
static bool early_take(uint64_t sent[2])
{
	mutex_lock(&g_early.lock);
	memcpy(sent, g_early.sent, sizeof(g_early.sent));
	memset(g_early.sent, 0, sizeof(g_early.sent));
	g_early.ready = (sent[0] | sent[1]) == 0;
	mutex_unlock(&g_early.lock);
	return (sent[0] | sent[1]) != 0;
}

/* A program that runs for longer than that is no longer at its start. */
#define START_NS (5 * NSEC_PER_MSEC)

static void start_is_over(struct timer *t UNUSED)
{
	leases_settle();
}

/* The program is there, and gets what came for it meanwhile, and what was typed. */
static void program_ready(void)
{
	static struct timer over;
	uint64_t sent[2];

	/* With a virtual clock a timer of ours would be one of the guest's. */
	if (clock_get_kind() == CLOCK_KIND_VIRTUAL) {
		leases_settle();
	} else {
		timer_init(&over, start_is_over);
		timer_arm(&over, clock_mono_ns() + START_NS);
	}
	while (early_take(sent)) {
		for (int sig = 1; sig <= LX_NSIG; sig++) {
			for (int from_tty = 0; from_tty < 2; from_tty++) {
				if (sent[from_tty] & SIGNAL_BIT(sig))
					pass_signal(from_tty, sig);
			}
		}
	}
	console_listen();
}

/* Reads the monitor's messages; on the poll thread. */
static void control_read(struct hostwatch *w, uint32_t events UNUSED)
{
	unsigned char b[2];

	while (control_byte(w->fd, b)) {
		if (b[0] == CTL_WINCH)
			console_resized();
		if (b[0] == CTL_FRONT || b[0] == CTL_BEHIND)
			hostfd_tty_behind(b[0] == CTL_BEHIND);
		if (b[0] != CTL_SIGNAL && b[0] != CTL_TTY_SIGNAL)
			continue;
		if (!control_byte(w->fd, b + 1))
			break;
		if (b[1] >= 1 && b[1] <= LX_NSIG && !signal_is_early(b[0] == CTL_TTY_SIGNAL, b[1]))
			pass_signal(b[0] == CTL_TTY_SIGNAL, b[1]);
	}
}

/* Begins what needs no more of the platform than prepare(). */
static int try_platform(const struct platform *p, struct err *why)
{
	const int r = p->prepare_probes ? 0 : p->probe(why);

	return r || !p->prepare ? r : p->prepare(why);
}

/* The platforms that were tried in vain, and why. Told when another has started. */
static char g_platform_lacks[sizeof(((struct err *)NULL)->text)];

static int choose_platform(const struct run_config *cfg, struct err *e)
{
	/* All that were tried in vain, and why. */
	char lacks[sizeof(e->text)] = "";
	size_t used = 0;
	int error = ENOSYS;

	for (unsigned i = 0; g_platforms[i]; i++) {
		const struct platform *p = g_platforms[i];
		struct err why = {{0}};
		int r;

		if (cfg->platform ? strcmp(p->name, cfg->platform) != 0
				  : strcmp(p->name, "mock") == 0)
			continue;
		r = try_platform(p, &why);
		if (r == 0) {
			strcpy(g_platform_lacks, lacks);
			g_pf = p;
			return 0;
		}
		if (r == -EPIPE) /* no other would fare better */
			return err_set(e, EPIPE, "%s", why.text);
		if (cfg->platform)
			return err_set(e, -r, "--platform %s: this host does not allow it: %s",
				       cfg->platform, why.text);
		if (r == -EAGAIN || r == -ENOMEM)
			error = -r;
		if (used < sizeof(lacks))
			used += (size_t)snprintf(lacks + used, sizeof(lacks) - used, "%s%s (%s)",
						 used ? ", " : "", p->name, why.text);
	}
	return err_set(e, error, "no platform works on this host: %s", lacks);
}

static void raise_descriptors(void)
{
	struct rlimit rl;

	if (HOST(prlimit64_get, getrlimit(RLIMIT_NOFILE, &rl)) == 0) {
		rl.rlim_cur = rl.rlim_max;
		(void)HOST(prlimit64_set, setrlimit(RLIMIT_NOFILE, &rl));
		tmpfs_set_descriptors(rl.rlim_max);
	}
}

/* If memory runs out, a sandbox goes before its neighbours, and in it the guest's processes before
 * the sentry: stubs have what it has when the first of them is made. */
static int g_oom_fd = -1;

/* As many descriptors as hostfs keeps open, and some. */
#define TABLE_SIZE 4096

/* The host's table of our descriptors doubles when it is full, and waits then until all CPUs have
 * gone through their scheduler, if there are several threads: 10 ms in the middle of a guest's
 * open(). So it becomes large while there is one. It does not shrink. */
static void widen_table(void)
{
	struct rlimit rl = {.rlim_cur = TABLE_SIZE};

	(void)HOST(prlimit64_get, getrlimit(RLIMIT_NOFILE, &rl));

	const int last = (int)MIN(rl.rlim_cur, (rlim_t)TABLE_SIZE) - 1;
	const int fd = HOST(fcntl_dup, fcntl(g_oom_fd, F_DUPFD_CLOEXEC, last));

	if (fd >= 0)
		HOST(close_fd, close(fd));
}

static void oom_score(const char *text)
{
	if (g_oom_fd >= 0)
		(void)!HOST(write_setup, write(g_oom_fd, text, strlen(text)));
}

static void oom_settle(void)
{
	oom_score("500");
	if (g_oom_fd >= 0)
		HOST(close_fd, close(g_oom_fd));
	g_oom_fd = -1;
}

static void process_setup(void)
{
	static const int own[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
				  SIGTRAP, SIGABRT, SIGSYS, SIGXCPU};
	sigset_t set;

	/* Signals for the guest come through the monitor; what is sent to the whole process group
	 * is not for us. Workers unblock what they use. */
	sigfillset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		sigdelset(&set, own[i]);
	HOST(rt_sigprocmask_own, pthread_sigmask(SIG_BLOCK, &set, NULL));
	/* A limit of the caller's on the size of files is the guest's EFBIG, not our end. */
	HOST(rt_sigaction_own, signal(SIGXFSZ, SIG_IGN));
	HOST(rt_sigaction_own, signal(SIGPIPE, SIG_IGN));
	HOST(rt_sigaction_own, signal(SIGTTIN, SIG_IGN));
	HOST(rt_sigaction_own, signal(SIGTTOU, SIG_IGN));
	g_umask = HOST(umask_setup, umask(0));
	g_oom_fd = HOST(openat_setup, open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
	oom_score("1000");
	(void)HOST(prctl_name, prctl(PR_SET_NAME, "moat-sentry"));
	raise_descriptors();
	widen_table();
	/* The heap of a thread of its own grows by a page and an mprotect at a time, which costs
	 * more than a few workers that wait for each other. */
	mallopt(M_ARENA_MAX, 1);
	/* A buffer for one call, or a few nodes at the heap's end, shall not be given to the host
	 * and asked for again at every call. Larger tables are mapped, and need not be zeroed. */
	mallopt(M_TRIM_THRESHOLD, 4 << 20);
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
}

/* A task takes one or two pids of the host, of which a fork bomb must leave enough to others. */
static unsigned tasks_max(void)
{
	const int64_t pid_max = pf_sysctl(PF_PID_MAX);

	return (unsigned)MIN(MAX((pid_max > 0 ? pid_max : 32768) / 4, 1000), (int64_t)TASKS_MAX);
}

static int by_nothing(const void *a UNUSED, const void *b UNUSED)
{
	return 0;
}

/* The C library's qsort asks once how much memory there is, when it is given more than 1 KiB: then
 * it shall be before the lock-down. */
static void qsort_settle(void)
{
	static char some[2048];

	qsort(some, sizeof(some) / 16, 16, by_nothing);
}

/* What is asked of the host by path, while it can be. */
static void look_around(const struct run_config *cfg)
{
	qsort_settle();
	pf_sysctls_read();
	host_memory_open();
	clock_look();
	/* Two libraries are brought for stacks. */
	if (cfg->verbose)
		crash_report_enable(2);
	if (cfg->verbose || cfg->audit)
		(void)unwind_load();
}

static int start_layers(struct run_config *cfg, struct err *e)
{
	/* A run that repeats has one of each. */
	const bool turns = g_grant->clock == CLOCK_KIND_VIRTUAL;
	const unsigned cpus = turns ? 1 : g_grant->cpus;
	unsigned workers = turns ? 1 : cfg->workers ? cfg->workers : MIN(MAX(cpus, 1u), 4u);
	struct sysfs_params sp = {.cpus = cpus, .threads_per_core = 1};
	int r;

	meters_start(g_grant->limits);
	/* What a guest may not use it need not see. */
	cfg->memory_bytes = MIN(cfg->memory_bytes, meter_limit(METER_memory));
	sp.mem_total = cfg->memory_bytes;
	sp.mem_free = kernel_memory_free;
	if (g_grant->seeded)
		guest_random_seed(g_grant->seed);
	if (turns)
		turns_setup(g_grant->seeded ? &g_grant->seed : NULL);
	r = clock_start_served(g_grant->clock, g_grant->clock_arg_ns);
	if (r == 0)
		r = hostpoll_start();
	if (r)
		return err_set(e, -r, "cannot start a thread: %s%s", err_text(-r),
			       r == -EPERM ? ": a seccomp filter around moat forbids clone3; start "
					     "moat outside of it, or have it answer ENOSYS"
					   : "");
	syscall_marshal_init();
	/* A trace shows every call, and with turns each is a step. */
	g_pf_answers = !cfg->strace && !cfg->learn && !turns;
	r = choose_platform(cfg, e);
	if (r)
		return r;
	tmpfs_set_memory(cfg->memory_bytes);
	sysfs_configure(&sp);
	vfs_init();
	netstack_init();
	memdev_register();
	proc_register();
	kernel_init();
	vfs_glue_init();
	g_vfs_file_gone = g_pf->forget_file;
	g_kernel.cpus = cpus;
	g_kernel.memory_bytes = cfg->memory_bytes;
	g_kernel.tasks_max = tasks_max();
	strncpy(g_kernel.hostname, g_grant->hostname, sizeof(g_kernel.hostname) - 1);
	r = workers_start(workers, g_pf->worker_ops());
	if (r)
		return err_set(e, -r, "cannot start %u worker threads: %s", workers, err_text(-r));
	r = g_pf->start(e);
	if (r == 0 && g_pf->read_marks)
		shown_start(g_pf->read_marks(), PF_READ_MARKS);
	return r;
}

static int exit_status(const struct run_config *cfg, int r, int status, const struct err *e)
{
	const int sig = status & 0x7f;

	if (r == 0 && sig && g_summary) {
		atomic_store(&g_summary->died_of, (uint8_t)sig);
		atomic_store(&g_summary->died_of_key, console_typed(sig));
	}
	if (r == 0)
		return sig ? 128 + sig : (status >> 8) & 0xff;
	/* The guest cannot do that: somebody has ended a process of ours. */
	if ((r == -EPIPE || ((r == -EIO || r == -ESRCH || r == -ENOMEM) && g_pf_killed)) &&
	    !e->text[0]) {
		fputs("moat run: " PF_KILLED "\n", stderr);
		return EXIT_SENTRY;
	}
	if (e->text[0])
		fprintf(stderr, "moat run: %s\n", e->text);
	else if (r == -ENOENT)
		fprintf(stderr,
			"moat run: %s: not found in the guest; name a program that the guest can "
			"see\n",
			cfg->argv[0]);
	else
		fprintf(stderr, "moat run: %s: cannot be executed: %s%s\n", cfg->argv[0],
			err_text(-r),
			r == -EACCES ? "; name a file that the guest's user may execute" : "");
	return r == -ENOENT || r == -ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

/* With a buffer of our own: the C library would ask the host what the file is. */
static char g_report_buf[1 << 16];

static FILE *report_file(int fd)
{
	FILE *f = fdopen(fd, "w");

	if (f)
		setvbuf(f, g_report_buf, _IOFBF, sizeof(g_report_buf));
	return f;
}

/* Something that was asked for is not there, or not whole; that has been said. */
static bool g_unreported;

static void report_lost(const char *option, const char *file, int error)
{
	g_unreported = true;
	fprintf(stderr, "moat run: %s%s%s: %s; it is not whole: make room, or name another file\n",
		option, file && file[0] ? "=" : "", file ? file : "",
		err_text(error ? error : EIO));
}

/* What @f, a report_file(), was given is written; it is no more. */
static void report_end(FILE *f, const char *option, const char *file)
{
	const bool bad = !f || ferror(f);

	if ((f && fclose(f)) || bad)
		report_lost(option, file, errno);
}

static void print_stats(const struct run_config *cfg)
{
	/* A terminal that the monitor has made raw wants both. */
	const bool raw = cfg->use_tty && HOST(ioctl_console, isatty(2));

	if (cfg->stats[0]) {
		FILE *f = report_file(cfg->stats_fd);

		if (f)
			call_stats_write(f);
		report_end(f, "--stats", cfg->stats);
		return;
	}
	fflush(stderr);
	setvbuf(stderr, g_report_buf, _IOFBF, sizeof(g_report_buf));
	call_stats_print(stderr, raw ? "\r\n" : "\n");
	if (fflush(stderr) || ferror(stderr))
		report_lost("--stats", NULL, errno);
	setvbuf(stderr, NULL, _IONBF, 0);
}

/* What the run changed, told and kept. On a fiber. */
static void report_changes(void *arg)
{
	struct setup *s = arg;
	const struct run_config *cfg = s->cfg;
	const bool raw = !cfg->diff_file && cfg->use_tty && HOST(ioctl_console, isatty(2));
	FILE *f = cfg->diff_file ? report_file(cfg->diff_fd) : stderr;
	uint64_t skipped = 0;
	int r = 0;

	if (cfg->diff && f) {
		r = changes_print(f, raw ? "\r\n" : "\n");
		if (fflush(f) || ferror(f))
			r = errno ? -errno : -EIO;
	}
	if (cfg->diff && (r || !f))
		report_lost("--diff", cfg->diff_file, f ? -r : ENOMEM);
	if (cfg->save && (!cfg->save_failed || s->failed)) {
		r = changes_save(cfg->save_fd, &skipped, &s->err);
		if (r == 0 && HOST(write_archive, write(cfg->saved_fd, "", 1)) != 1)
			r = -errno;
		if (r)
			fprintf(stderr, "moat run: %s %s: %s; nothing is kept\n",
				cfg->save_failed ? "--keep-on-fail" : "--save", cfg->save,
				s->err.text[0] ? s->err.text : err_text(-r));
		else if (skipped)
			fprintf(stderr,
				"moat run: --save %s: %llu names are left out: sockets, and what "
				"no archive can name\n",
				cfg->save, (unsigned long long)skipped);
	}
	changes_end();
	s->result = r;
	atomic_store(&s->done, true);
	clock_tell();
}

static void write_profile(const struct run_config *cfg)
{
	FILE *f = report_file(cfg->profile_fd);

	if (f)
		call_profile_write(f);
	report_end(f, "--profile-calls", cfg->profile);
}

/* A file without its last record is no ground for a policy. */
static void write_uses(const struct run_config *cfg)
{
	FILE *f = report_file(cfg->learn_fd);

	if (!f)
		return;
	learn_write(f);
	fclose(f);
}

static int start_audit(const struct run_config *cfg, struct err *e)
{
	const char *walls[WALL_LAYERS + 1];
	unsigned n = 0;
	const struct audit_spec spec = {
		.fd = cfg->audit_fd,
		.verbose = cfg->verbose,
		.raw_tty = cfg->use_tty && HOST(ioctl_console, isatty(2)),
		.argv = (const char *const *)cfg->argv,
		.platform = g_pf->name,
		.cwd = g_grant->cwd,
		.walls = walls,
	};

	for (unsigned l = 0; l < WALL_LAYERS; l++) {
		if (!g_wall.off && !g_wall.lacking[l])
			walls[n++] = wall_layer_name((enum wall_layer)l);
	}
	walls[n] = NULL;
	return audit_start(&spec, e);
}

static void tell_walls(void)
{
	char text[256] = "";
	size_t used = 0;

	for (unsigned l = 0; l < WALL_LAYERS && used < sizeof(text); l++) {
		if (!g_wall.off && !g_wall.lacking[l])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? ", " : "",
						 wall_layer_name((enum wall_layer)l));
	}
	log_info("walls around moat's kernel: %s", used ? text : "none");
}

static void tell_paths(void)
{
	unsigned hidden = 0;
	char at[256];

	log_info("root: %s", g_grant->root ? g_grant->root : "the host's system directories");
	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		const struct grant_path *p = &g_grant->paths[i];

		if (p->access == GRANT_HIDDEN)
			hidden++;
		else
			log_info("%s: %s%s%s%s%s (%s)", p->access == GRANT_WRITE ? "rw" : "ro",
				 p->host, strcmp(p->host, p->target) ? " as " : "",
				 strcmp(p->host, p->target) ? p->target : "",
				 p->exec ? "" : ", not to be executed",
				 p->fd < 0 ? ", which is not there" : "",
				 p->implied ? "the caller's directory"
					    : draft_origin_text(&p->origin, at, sizeof(at)));
	}
	if (hidden)
		log_info("hidden: %u path%s", hidden, hidden == 1 ? "" : "s");
}

/* For --debug: what was made of the options, and of the host. */
static void tell_start(void)
{
	char text[METER_TEXT_SIZE];

	if (!log_enabled(LOG_INFO))
		return;
	log_info("platform %s, %u worker thread%s", g_pf->name, worker_count(),
		 worker_count() == 1 ? "" : "s");
	tell_walls();
	tell_paths();
	log_info("user %u, group %u, in %s", g_grant->uid, g_grant->gid, g_grant->cwd);
	for (unsigned m = 0; m < GRANT_LIMIT_COUNT; m++) {
		const uint64_t limit = grant_limit((enum grant_limit)m);

		if (limit == GRANT_NO_LIMIT)
			continue;
		meter_text((enum meter)m, limit, text);
		log_info("limit %s: %s", meter_name((enum meter)m), text);
	}
}

/* Is anything of the host's granted for writing? */
static bool grant_writes(void)
{
	bool writes = false;

	for (uint32_t i = 0; i < g_grant->path_count; i++)
		writes |= g_grant->paths[i].access == GRANT_WRITE;
	return writes;
}

/* Nobody is to be told anything of the run but its status. Its pid name space ends with the sentry:
 * the kernel reaps the stubs sooner than we would, and kills those that are left; nobody reads what
 * the threads have counted. */
static bool only_status_counts(const struct run_config *cfg)
{
	return g_wall.spaces && !cfg->stats && !cfg->profile && !cfg->learn && !cfg->audit &&
	       !cfg->verbose && !(MOAT_ASAN | MOAT_TSAN);
}

/* As soon as it is known: to wake the first thread for that would take as long as what it does. */
static void end_at_once(int status)
{
	const struct err none = {{0}};
	const int end = exit_status(NULL, 0, status, &none);

	coverage_write();
	/* They die beside us; else the kernel would kill one after the other once we are gone, and
	 * wait for each. */
	if (g_pf->end)
		g_pf->end();
	HOST(exit_group_end, _exit(end));
}

static int g_stop_fd = -1;

static long settle(void *unused UNUSED)
{
	console_settle();
	return 0;
}

static void main_stops(void)
{
	(void)blocking_call(settle, NULL);
}

static void main_stopped(int sig)
{
	const unsigned char b = (unsigned char)sig;

	/* A pipe that is full tells as much. */
	(void)!HOST(write_stop, write(g_stop_fd, &b, 1));
}

int sandbox_main(struct run_config *cfg, int ctl)
{
	static struct setup s;
	struct init_spec spec;
	static struct hostwatch control = {.fn = control_read};
	bool unsaved = false;
	int status = 0, r;

	if (cfg->stats)
		host_accounting_start();
	if (cfg->profile)
		call_profile_start();
	if (!wall_begin(&g_wall, ctl))
		return EXIT_SENTRY; /* nobody is there to be told */
	process_setup();
	wall_net_begin(&g_wall);
	log_open(2, cfg->debug ? LOG_DEBUG : LOG_WARN);
	s.cfg = cfg;
	look_around(cfg);
	r = wall_enter(&g_wall, &s.err);
	if (r == 0)
		r = start_why_few_files(&s.err);
	if (r == 0) {
		if (g_wall.spaces)
			pf_host_proc_use(g_wall.proc);
		r = start_layers(cfg, &s.err);
	}
	oom_settle();
	if (r == 0 && cfg->strace)
		syscall_trace_open(cfg->strace_fd);
	if (cfg->learn)
		learn_start();
	if (r == 0)
		r = start_audit(cfg, &s.err);
	if (r == 0 && cfg->use_tty)
		r = console_new(&s.console, &s.err);
	if (r == 0)
		r = on_fiber(&s, setup_main, "setup");
	g_vfs_set_up = true;
	if (r == 0 && s.console)
		r = console_start(&s.err);
	if (r) {
		if (!s.usage)
			start_why_limits(r, &s.err);
		fprintf(stderr, "moat run: %s\n", s.err.text);
		return s.usage ? EXIT_USAGE : EXIT_SENTRY;
	}
	if (g_platform_lacks[0])
		log_warn("using the platform %s; this host does not allow %s", g_pf->name,
			 g_platform_lacks);
	wall_warn(&g_wall);
	tell_start();
	control.fd = ctl;
	r = hostwatch_add(&control, POLLIN);
	if (r) {
		fprintf(stderr, "moat run: cannot listen to the monitor: %s\n", err_text(-r));
		return EXIT_SENTRY;
	}
	/* The guest's files hold duplicates; ours would keep a pipe open that the guest closed. */
	for (int fd = 0; fd < 2; fd++)
		HOST(close_fd, close(fd));
	spec = (struct init_spec){
		.argv = (const char *const *)cfg->argv,
		.envp = (const char *const *)g_grant->env,
		.path = cfg->argv[0],
		.search_path = true,
		.cred = s.cred,
		.fs = s.fs,
		.ns = s.ns,
		.files = s.files,
		.nice = HOST(getpriority_setup, getpriority(PRIO_PROCESS, 0)),
		.cpu_limit = {.cur = cfg->cpu_soft, .max = cfg->cpu_hard},
		.tty = s.console,
		.ready = program_ready,
		.over = only_status_counts(cfg) && g_grant->clock != CLOCK_KIND_VIRTUAL &&
					!cfg->use_tty && !cfg->strace && !cfg->diff && !cfg->save
				? end_at_once
				: NULL,
		.ignored = cfg->ignored,
		.blocked = cfg->blocked,
	};
	g_kernel.host_limits_cpu = cfg->cpu_held;
	g_stop_fd = cfg->stop_fd;
	g_kernel.main_stopped = cfg->stop_fd >= 0 ? main_stopped : NULL;
	g_kernel.main_stops = cfg->stop_fd >= 0 ? main_stops : NULL;
	atomic_store(&g_kernel.stoppable, cfg->stop_fd >= 0);
	if (cfg->stats)
		host_accounting_mark();
	r = sentry_lock_down(g_pf->name, grant_writes(), &s.err);
	if (r) {
		fprintf(stderr, "moat run: %s\n", s.err.text);
		return EXIT_SENTRY;
	}
	if (g_summary)
		atomic_store(&g_summary->locked, true);
	/* Not before: a thread that is about to name itself must not meet the filter. */
	r = meter_watch_start();
	if (r) {
		fprintf(stderr, "moat run: cannot watch the limits: %s\n", err_text(-r));
		return EXIT_SENTRY;
	}
	leases_begin_early();
	r = kernel_run_init(&spec, &status, &s.err);
	console_finish();
	if (syscall_trace_error())
		report_lost("--strace", cfg->strace, syscall_trace_error());
	if (cfg->diff || cfg->save) {
		struct err before = s.err;

		s.err = (struct err){{0}};
		s.failed = r != 0 || status != 0;
		unsaved = on_fiber(&s, report_changes, "changes") != 0;
		s.err = before;
	}
	if (only_status_counts(cfg)) {
		status = exit_status(cfg, r, status, &s.err);
		return status == 0 && (unsaved || g_unreported) ? EXIT_SENTRY : status;
	}
	/* No stub outlives us, not even as a zombie for whoever adopts orphans. */
	meter_watch_stop();
	workers_stop();
	shown_start(NULL, 0);
	g_pf->stop();
	audit_stop();
	if (cfg->stats)
		print_stats(cfg);
	if (cfg->profile)
		write_profile(cfg);
	if (cfg->learn)
		write_uses(cfg);
	status = exit_status(cfg, r, status, &s.err);
	return status == 0 && (unsaved || g_unreported) ? EXIT_SENTRY : status;
}

int sandbox_ask(struct run_config *cfg, int (*fn)(struct vfs_ctx *c, void *arg), void *arg,
		struct err *e)
{
	static struct setup s;
	int r;

	process_setup();
	log_open(2, LOG_WARN);
	s.cfg = cfg;
	s.then = fn;
	s.then_arg = arg;
	cfg->platform = "mock";
	r = start_layers(cfg, &s.err);
	oom_settle();
	if (r == 0)
		r = on_fiber(&s, setup_main, "ask");
	*e = s.err;
	return r;
}
