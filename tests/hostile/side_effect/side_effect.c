/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No side effect on denial: every call of the syscall table is made with arguments that must fail,
 * and what can be seen of the world before and after must be the same.
 *
 * Theory of operation: sentry/syscalls.def is included, so that a new row is tested as soon as it
 * is there: the kinds of its arguments say what good ones are and which bad ones there are for
 * each (calls.c): pointers that lead nowhere, to the kernel, over the end of a mapping (a copy that
 * faults half way) or to memory that cannot be written; pointers inside of what is pointed to;
 * descriptors that are closed, O_PATH or of another kind; unknown flags; huge sizes; paths that are
 * read-only, missing, too long or through a file. Each is combined with each kind of descriptor and
 * each value of an enumeration. The good ones are made again in modes in which they must fail: no
 * permission, no room for descriptors, in files, or within other limits.
 *
 * A child with objects of its own makes one call after the other, through all rows of a mode. To
 * look at the world (world.c) costs more than hundreds of calls, so it is looked at where a
 * *segment* ends: after so many calls that failed, or before and after one that succeeded. If it
 * has changed in a segment of failures, that is gone through again by children that look after
 * each call. A call that succeeds and changes something ends its child, and so does one that kills
 * it; the next child, whose objects are new, makes the failures of the segment once more, looks,
 * and goes on behind that call. So each call is made in the same world, whatever came before it. A
 * call that sleeps is ended by a signal.
 *
 * Output: a line "NAME WHAT: KEY…" for each call that failed and changed something, and "NAME
 * WHAT = RESULT…" for each with a bad pointer that succeeded, in part perhaps, with what it left of
 * its descriptors. The runner (no_side_effect.sh) runs it natively, too: only what Linux itself
 * leaves may be left. What must have been seen of each row, say demands.c. Natively it runs below
 * confine (tests/confine.c), where no call can reach the host; those that the host's root alone may
 * make, or that are its policy, are not made there, and must leave nothing.
 */
#include "side_effect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNWRAP(...) __VA_ARGS__
struct row g_rows[] = {
#define ROW(nr_, name_, has, status_, ret_, waits_, nargs_, params_, descs, passed, note_) \
	{nr_, #name_, {UNWRAP status_}, ret_, nargs_, UNWRAP descs, #params_, {{0}}},
#include "sentry/syscall_rows.h"
};
const int g_row_count = sizeof(g_rows) / sizeof(g_rows[0]);

/* The names of the arguments: the last word of each parameter behind the task. */
static void name_arguments(void)
{
	for (int i = 0; i < g_row_count; i++) {
		int depth = 0, arg = -1;
		const char *word = g_rows[i].params;

		for (const char *p = word; *p; p++) {
			depth += (*p == '(') - (*p == ')');
			if ((*p == ',' && depth == 1) || depth == 0) {
				if (arg >= 0 && arg < g_rows[i].nargs)
					snprintf(g_rows[i].names[arg], sizeof(g_rows[i].names[arg]),
						 "%.*s", (int)(p - word), word);
				arg++;
			}
			if (*p == ' ' && depth == 1)
				word = p + 1;
		}
	}
}

/* Never made: they do not return, or return twice. */
static const char *const g_never[] = {"exit", "exit_group", "rt_sigreturn", "fork", "vfork", NULL};
/* Not made natively: they are for the host's root, or its policy. */
static const char *const g_not_natively[] = {"reboot",
					     "kexec_load",
					     "kexec_file_load",
					     "init_module",
					     "finit_module",
					     "delete_module",
					     "swapon",
					     "swapoff",
					     "settimeofday",
					     "clock_settime",
					     "adjtimex",
					     "clock_adjtime",
					     "umount2",
					     "mount",
					     "pivot_root",
					     "move_mount",
					     "open_tree",
					     "fsopen",
					     "fsconfig",
					     "fsmount",
					     "fspick",
					     "mount_setattr",
					     "acct",
					     "quotactl",
					     "quotactl_fd",
					     "syslog",
					     "vhangup",
					     "iopl",
					     "ioperm",
					     "bpf",
					     "perf_event_open",
					     "userfaultfd",
					     "add_key",
					     "request_key",
					     "keyctl",
					     "nfsservctl",
					     "sync",
					     "io_uring_setup",
					     "io_uring_enter",
					     "io_uring_register",
					     "fanotify_init",
					     "fanotify_mark",
					     "uselib",
					     "_sysctl",
					     "create_module",
					     "migrate_pages",
					     "move_pages",
					     "ptrace",
					     "seccomp",
					     "setns",
					     "unshare",
					     "sched_setattr",
					     "open_tree_attr",
					     "uretprobe",
					     "uprobe",
					     "map_shadow_stack",
					     NULL};

bool among(const char *const *list, const char *name)
{
	for (; *list; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

/* How many calls that fail are made between two looks. */
#define SEGMENT 64

struct place {
	int row, index;
};

static struct {
	volatile unsigned beat; /* the child is alive */
	volatile bool in_call;  /* it is in the call at @at */
	struct place from;      /* of the calls before it, all has been looked at */
	struct place until;     /* those from @from up to here have been made before */
	bool skip;              /* the one at @until is left out: it ends a child */
	bool singly;            /* the calls up to @until are looked at one by one */
	struct place at;        /* the call that is being made */
	bool unexplained;       /* what has changed over a segment has not been told of yet */
	char together[256];     /* what has changed over the segment */
	char pending[512];      /* to be told if the world was as ever before the call at @until */
	unsigned failed, succeeded, changed, children, looks;
	int without[600]; /* by row: calls that succeeded and changed nothing */
	struct seen seen[600];
} * g_shared;

static int g_row, g_index;
static bool g_all_rows = true, g_native;
static enum mode g_mode;
static struct world g_before, g_light; /* g_light: by looks that are not thorough */
static bool g_undo;
static unsigned g_segment; /* calls made in this one */
bool g_padding;

enum { END_OF_MODE, END_CHANGED, END_SEGMENT, END_BROKEN };

static const char *const g_modes[MODE_COUNT] = {"", "user ", "nofile ", "fsize ", "limits "};
/* In MODE_NOFILE and on: what is at its limit during the call. */
static const struct {
	enum mode mode;
	int resource;
} g_limits[] = {
	{MODE_NOFILE, RLIMIT_NOFILE},  {MODE_FSIZE, RLIMIT_FSIZE},
	{MODE_LIMITS, RLIMIT_NPROC},   {MODE_LIMITS, RLIMIT_AS},
	{MODE_LIMITS, RLIMIT_MEMLOCK}, {MODE_LIMITS, RLIMIT_SIGPENDING},
	{MODE_LIMITS, RLIMIT_DATA},    {MODE_LIMITS, RLIMIT_MSGQUEUE},
};

static void limits(bool low)
{
	struct rlimit lim;

	for (size_t i = 0; i < sizeof(g_limits) / sizeof(g_limits[0]); i++)
		if (g_limits[i].mode == g_mode) {
			static struct rlimit was[sizeof(g_limits) / sizeof(g_limits[0])];

			if (low) {
				getrlimit(g_limits[i].resource, &was[i]);
				lim = (struct rlimit){0, was[i].rlim_max};
				setrlimit(g_limits[i].resource, &lim);
			} else {
				setrlimit(g_limits[i].resource, &was[i]);
			}
		}
}

static bool before(struct place a, struct place b)
{
	return a.row < b.row || (a.row == b.row && a.index < b.index);
}

static void say(const char *line)
{
	(void)!write(FD_REPORT, line, strlen(line));
}

/* The keys that differ, each behind a space. */
static const char *difference(const struct world *before, const struct world *w)
{
	static char text[256];
	size_t n = 0;

	text[0] = '\0';
	for (int k = 0; k < K_COUNT; k++)
		if (before->key[k] != w->key[k])
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", g_keys[k]);
	return text;
}

/* Has nothing changed? Then the segment ends before @next. */
static bool same_as(const struct world *before, bool thorough, struct place next)
{
	struct world now;

	look(&now, thorough);
	g_shared->looks++;
	if (memcmp(before, &now, sizeof(now)) != 0) {
		snprintf(g_shared->together, sizeof(g_shared->together), "%s",
			 difference(before, &now));
		if (!g_undo || !undo(before, &now))
			return false;
		look(&now, thorough);
		g_shared->looks++;
		if (memcmp(before, &now, sizeof(now)) != 0)
			return false;
	}
	/* What only a thorough look sees may have been changed before. */
	if (!thorough)
		return true;
	g_shared->from = next;
	g_segment = 0;
	return true;
}

static bool same(struct place next)
{
	return same_as(&g_before, true, next);
}

/* Whether a call that succeeded has changed nothing, or what could be put back. */
static bool harmless(const struct row *r, bool thorough, struct place next)
{
	bool unchanged;

	/* Rows that change what only a thorough look sees: their names say so. */
	static const char *const deep[] = {"sig", "wait",  "rlimit", "timer", "shm",   "sem",
					   "msg", "mount", "clone",  "kill",  "pivot", NULL};

	for (int i = 0; deep[i]; i++)
		thorough |= strstr(r->name, deep[i]) != NULL;
	g_undo = true;
	unchanged = thorough ? same_as(&g_before, true, next) : same_as(&g_light, false, next);
	g_undo = false;
	return unchanged;
}

/* How much rows that move bytes move before a bad pointer is to be as in Linux. Not: which extended
 * attributes there are. */
static bool told(const struct row *r, const uint64_t a[6])
{
	/* An eventfd takes more than eight bytes, or does not, by the version of the kernel. */
	if (strcmp(r->name, "write") == 0 && a[0] == FD_EVENT)
		return false;
	return (r->ret == RET_BYTES || strstr(r->name, "mmsg")) && !strstr(r->name, "xattr");
}

/* What a call with a bad pointer did that did not fail. */
static void tell_success(const struct row *r, const uint64_t a[6], long ret, const char *what)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%s %s%s = ", r->name, g_modes[g_mode], what);

	n += snprintf(line + n, sizeof(line) - (size_t)n, "%ld", ret);
	for (int i = 0; i < r->nargs; i++)
		if (r->args[i].kind == AK_FD) {
			int fd = (int)a[i], queued = -1;
			struct stat st = {0};
			off_t off = lseek(fd, 0, SEEK_CUR);

			fstat(fd, &st);
			if (off < 0)
				ioctl(fd, FIONREAD, &queued);
			n += snprintf(line + n, sizeof(line) - (size_t)n,
				      ", %s: offset %ld size %ld queued %d", r->names[i], (long)off,
				      S_ISREG(st.st_mode) ? (long)st.st_size : 0L, queued);
		}
	snprintf(g_shared->pending, sizeof(g_shared->pending), "%s\n", line);
}

static void tell_pending(void)
{
	say(g_shared->pending);
	g_shared->pending[0] = '\0';
}

/* In a build whose uninitialised variables hold POISON (full-padding.sh): does any of it come out?
 */
#define POISON 0xfe

static void find_poison(const char *name, const char *what, const void *mem, size_t size)
{
	const unsigned char *p = mem;
	char line[256];
	size_t run = 0;

	for (size_t i = 0; i < size; i++) {
		run = p[i] == POISON ? run + 1 : 0;
		if (run == 3) {
			int n = snprintf(line, sizeof(line), "%s %s: poison at %zu\n", name, what,
					 i - 2);

			(void)!write(FD_REPORT, line, (size_t)n);
			g_shared->changed++;
			return;
		}
	}
}

static void handler(int sig, siginfo_t *info, void *context)
{
	char *here = (char *)((uintptr_t)context & ~UINT64_C(63));

	(void)info;
	find_poison("signal frame", sig == SIGSEGV ? "of a fault" : "of kill", here, 3000);
	if (sig == SIGSEGV)
		_exit(0);
}

/* What the kernel hands over without a call: the stack at the start, frames of signals. */
static void poison_elsewhere(char **argv)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	find_poison("exec", "stack", argv, 2048);
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	raise(SIGUSR1);
	if (fork() == 0) {
		*(volatile char *)16 = 1;
		_exit(0);
	}
	wait(NULL);
}

/* A row of padding's is through with a call that did not kill. */
static void step_padding(const struct row *r, const uint64_t a[6], const char *what)
{
	pid_t me = getpid();

	g_shared->in_call = true;
	errno = 0;
	if (syscall(r->nr, a[0], a[1], a[2], a[3], a[4], a[5]) < 0)
		g_shared->failed++;
	else
		g_shared->succeeded++;
	if (getpid() != me)
		_exit(0);
	g_shared->in_call = false;
	find_poison(r->name, what, g_page, 4096);
}

void step(const struct row *r, const uint64_t a[6], enum wrong wrong, int arg, const char *what)
{
	struct place here = {g_row, g_index++}, next = {g_row, g_index};
	bool again = before(here, g_shared->until), singly, partial = false;
	pid_t me = getpid();
	long ret;
	int n;

	if (before(here, g_shared->from))
		return;
	if (g_shared->skip && here.row == g_shared->until.row &&
	    here.index == g_shared->until.index) {
		if (before(g_shared->from, here) && !g_padding && !same(next))
			_exit(END_SEGMENT);
		tell_pending();
		g_shared->from = next;
		g_shared->skip = false;
		return;
	}
	singly = again && g_shared->singly;
	g_shared->at = here;
	g_shared->beat++;
	if (g_padding) {
		step_padding(r, a, what);
		g_shared->from = next;
		return;
	}
	limits(true);
	g_shared->in_call = true;
	errno = 0;
	ret = syscall(r->nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	n = errno;
	if (getpid() != me)
		_exit(0); /* clone did */
	g_shared->in_call = false;
	limits(false);
	g_segment++;
	if (ret == -1 && n != 0) {
		if (!again || singly) {
			g_shared->failed += !singly;
			seen_failure(&g_shared->seen[g_row], n, wrong, arg);
		}
		if (singly) {
			struct world now;
			char line[512];

			look(&now, true);
			g_shared->from = next;
			if (memcmp(&g_before, &now, sizeof(now)) == 0)
				return;
			g_shared->changed++;
			g_shared->unexplained = false;
			snprintf(line, sizeof(line), "%s %s%s:%s\n", r->name, g_modes[g_mode], what,
				 difference(&g_before, &now));
			say(line);
			_exit(END_CHANGED);
		}
		if (!again && g_segment >= SEGMENT && !same(next))
			_exit(END_SEGMENT);
		return;
	}
	if (!again)
		g_shared->succeeded++;
	/* It may have changed what is seen only now that the clock has moved on (a time of a file).
	 */
	g_shared->unexplained &= !singly;
	if (!again || singly)
		partial = told(r, a) && (wrong == W_POINTER || wrong == W_INSIDE) &&
			  g_mode == MODE_ROOT;
	if (partial)
		tell_success(r, a, ret, what);
	if (partial && singly)
		tell_pending();
	/* A row whose calls have succeeded without a change is not looked at each time. */
	if ((again && !singly) || (!again && !told(r, a) && g_shared->without[g_row] >= 3))
		return;
	g_shared->together[0] = '\0';
	if (!harmless(r, singly, next)) {
		g_shared->without[g_row] = -1000000;
		_exit(END_CHANGED);
	}
	tell_pending();
	if (g_shared->together[0])
		g_shared->without[g_row] = -1000000;
	else
		g_shared->without[g_row]++;
}

/* Is row @r made at all? */
static char **g_only;
static int g_part, g_parts;

static bool made(const struct row *r)
{
	return !among(g_never, r->name) && !(g_native && among(g_not_natively, r->name)) &&
	       (g_parts ? (r - g_rows) % g_parts == g_part
			: g_all_rows || among((const char *const *)g_only, r->name));
}

static void waited(int sig)
{
	(void)sig;
}

/* The world from here on. */
static void begin(void)
{
	look(&g_before, true);
	look(&g_light, false);
	save();
}

static void child(void)
{
	struct sigaction sa = {.sa_handler = waited};
	char dir[64];

	snprintf(dir, sizeof(dir), "w%d", getpid());
	mkdir(dir, 0777);
	if (chdir(dir) != 0)
		_exit(END_BROKEN);
	objects();
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(16, SIG_IGN); /* of a clone with a bad one */
	sigaction(SIGURG, &sa, NULL);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){1024, 4096});
	/* A file that is copied to its own end stops growing. */
	setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20});
	if (g_mode == MODE_USER || g_mode == MODE_LIMITS) {
		chmod(".", 0755);
		(void)!chmod("file", 0600);
		if (setresgid(1000, 1000, 1000) || setresuid(1000, 1000, 1000))
			_exit(END_BROKEN);
	}
	if (!g_padding)
		begin();
	for (g_row = g_shared->from.row; g_row < g_row_count; g_row++) {
		const struct row *r = &g_rows[g_row];

		if (!made(r))
			continue;
		/* Only for these: a process that can be waited for. */
		if (!g_padding && strncmp(r->name, "wait", 4) == 0) {
			siginfo_t info;

			if (before(g_shared->from, (struct place){g_row, 0}) &&
			    !same((struct place){g_row, 0}))
				_exit(END_SEGMENT);
			if (fork() == 0)
				_exit(7);
			waitid(P_ALL, 0, &info, WEXITED | WNOWAIT);
			begin();
		}
		g_index = 0;
		row_calls(r, g_mode);
		if (g_padding) {
			g_shared->from = (struct place){g_row + 1, 0};
			_exit(END_CHANGED);
		}
	}
	if (before(g_shared->from, (struct place){g_row, 0}) && !same((struct place){g_row, 0}))
		_exit(END_SEGMENT);
	_exit(END_OF_MODE);
}

/* Removes what is below directory @dir. */
static void remove_below(int dir)
{
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    unlinkat(dir, e->d_name, 0) == 0)
			continue;
		fchmodat(dir, e->d_name, 0700, 0);
		remove_below(
			openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
		unlinkat(dir, e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
}

/* The working directory is the test's own: there is no shell where the calls are made natively. */
static void clean(void)
{
	remove_below(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* Does @pid sleep? */
static bool sleeps(pid_t pid)
{
	char path[64], text[512] = "";
	const char *state;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	(void)!read(fd, text, sizeof(text) - 1);
	close(fd);
	state = strrchr(text, ')');
	return state && state[1] == ' ' && (state[2] == 'S' || state[2] == 'T');
}

static unsigned g_killed, g_waited;
static char g_unexplained[256];

/* Waits for the end of a child; one that sleeps in its call is woken, and killed if that does not
 * help. */
static int wait_for(pid_t pid, const sigset_t *chld)
{
	const struct timespec limit = {.tv_nsec = 10000000};
	unsigned asleep = 0, busy = 0, woken = 0, seen = 0;
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		bool still;

		if (sigtimedwait(chld, NULL, &limit) >= 0)
			continue;
		still = g_shared->in_call && g_shared->beat == seen;
		if (!still)
			woken = busy = asleep = 0;
		seen = g_shared->beat;
		if (still && sleeps(pid))
			asleep++;
		else
			busy++;
		/* One that is only slow is not harmed by a signal either. */
		if (asleep < 2 && busy < 100)
			continue;
		asleep = busy = 0;
		if (woken++ == 0) {
			g_waited++;
			if (getenv("VERBOSE"))
				fprintf(stderr, "%s: call %d waits\n",
					g_rows[g_shared->at.row].name, g_shared->at.index);
		}
		kill(pid, woken < 20 ? SIGURG : SIGKILL);
	}
	/* Nobody is left who could be seen by the next. */
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	return status;
}

static void run_mode(const sigset_t *chld)
{
	struct place end = {g_row_count, 0};

	g_shared->from = g_shared->until = (struct place){0, 0};
	g_shared->skip = g_shared->singly = false;
	while (before(g_shared->from, end)) {
		int status, at;
		pid_t pid;

		g_shared->in_call = false;
		g_shared->at = g_shared->from;
		fflush(stdout);
		g_shared->children++;
		pid = fork();
		if (pid == 0) {
			sigprocmask(SIG_UNBLOCK, chld, NULL);
			child();
		}
		status = wait_for(pid, chld);
		clean();
		at = g_shared->at.row;
		if (g_shared->singly && !before(g_shared->from, g_shared->until)) {
			if (g_shared->unexplained)
				printf("%s%s: several calls together:%s\n", g_modes[g_mode],
				       g_rows[g_shared->until.row].name, g_unexplained);
			g_shared->changed += g_shared->unexplained;
			g_shared->singly = g_shared->unexplained = false;
		}
		if (WIFEXITED(status) && WEXITSTATUS(status) == END_OF_MODE)
			return;
		if (WIFEXITED(status) && WEXITSTATUS(status) == END_BROKEN) {
			printf("%s%s: the child did not start\n", g_modes[g_mode], g_rows[at].name);
			return;
		}
		if (g_padding && WIFEXITED(status) && !g_shared->in_call)
			continue;
		if (WIFSIGNALED(status) && !g_shared->in_call) {
			/* A limit of processor time that a call has set may take a moment. */
			if (WTERMSIG(status) != SIGKILL)
				printf("%s%s: call %d: the child ended between calls: %d\n",
				       g_modes[g_mode], g_rows[at].name, g_shared->at.index,
				       WTERMSIG(status));
			g_shared->in_call = true;
		}
		if (WIFSIGNALED(status))
			g_killed++;
		if (WIFEXITED(status) && WEXITSTATUS(status) == END_SEGMENT && !g_shared->in_call) {
			g_shared->pending[0] = '\0';
			memcpy(g_unexplained, g_shared->together, sizeof(g_unexplained));
			g_shared->until = (struct place){g_shared->at.row, g_shared->at.index + 1};
			g_shared->singly = g_shared->unexplained = true;
			g_shared->skip = false;
			continue;
		}
		/* The call at @at ended it, or has been told of: go on behind it. */
		if (g_shared->singly && before(g_shared->at, g_shared->until)) {
			g_shared->from = (struct place){g_shared->at.row, g_shared->at.index + 1};
			continue;
		}
		g_shared->singly = false;
		g_shared->until = g_shared->at;
		g_shared->skip = true;
	}
}

int main(int argc, char **argv)
{
	unsigned rows = 0, missing;
	struct world ignored;
	sigset_t chld;

	name_arguments();
	g_native = argc > 1 && strcmp(argv[1], "native") == 0;
	g_padding = argc > 1 && strcmp(argv[1], "padding") == 0;
	g_all_rows = argc < 3;
	g_only = argv + 2;
	if (argc > 2 && sscanf(argv[2], "%d/%d", &g_part, &g_parts) != 2)
		g_parts = 0;
	if (argc == 2 && strcmp(argv[1], "rows") == 0) {
		for (int i = 0; i < g_row_count; i++)
			puts(g_rows[i].name);
		return 0;
	}
	g_ro = getenv("RO");
	if (!g_ro || !getenv("SIDE_EFFECT_DIR") || chdir(getenv("SIDE_EFFECT_DIR")) != 0) {
		fprintf(stderr, "runs only from tests/run-no-side-effect.sh\n");
		return 2;
	}
	/* Natively: only where nothing of the host's can be named, and nobody is to be killed. */
	if (g_native &&
	    (strcmp(getenv("SIDE_EFFECT_DIR"), "/work") != 0 || access("/program", X_OK) != 0 ||
	     access("/etc", F_OK) == 0 || access("/usr", F_OK) == 0)) {
		fprintf(stderr, "natively it runs only below tests/confine.c\n");
		return 2;
	}
	umask(022);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	dup2(1, FD_REPORT);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	g_shared = mmap(NULL, sizeof(*g_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	g_beat = &g_shared->beat;
	/* Nothing is behind it that a call with too large a size could write to. */
	g_page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(g_page + 4096, 4096, PROT_NONE);
	g_readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	g_edge = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0) +
		 4096;
	mprotect(g_edge, 4096, PROT_NONE);
	g_inotify = fcntl(inotify_init1(IN_NONBLOCK), F_DUPFD, 92);
	if (g_padding)
		poison_elsewhere(argv);
	else
		look(&ignored, true); /* the stack has grown, the heap is there */
	for (int i = 0; i < g_row_count; i++)
		rows += made(&g_rows[i]);
	for (int mode = 0; mode < (g_padding ? 1 : MODE_COUNT); mode++) {
		struct timespec a, b;

		g_mode = (enum mode)mode;
		clock_gettime(CLOCK_MONOTONIC, &a);
		run_mode(&chld);
		clock_gettime(CLOCK_MONOTONIC, &b);
		if (getenv("VERBOSE"))
			fprintf(stderr, "mode %d: %.1f s; %u children, %u looks\n", mode,
				(double)(b.tv_sec - a.tv_sec) +
					(double)(b.tv_nsec - a.tv_nsec) / 1e9,
				g_shared->children, g_shared->looks);
	}
	missing = g_padding || g_native ? 0 : demands(g_shared->seen, made);
	printf("# %u rows: %u calls failed, %u of them changed something; %u succeeded, %u were "
	       "killed, %u woken; %u demands not met\n",
	       rows, g_shared->failed, g_shared->changed, g_shared->succeeded, g_killed, g_waited,
	       missing);
	return 0;
}
