/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether something is there, by the answers of every call that takes a path.
 *
 * Theory of operation: sentry/syscalls.def is included, so a new call is asked as soon as it has a
 * row. Each path of each call is in turn one that is there and one that is not, both of them not
 * granted, or hidden by a rule; with each of some values of all flags. The two must be answered
 * alike. Each call is made by a child of its own, since some succeed natively.
 */
#include "attack.h"

#define MOAT_BASE_TYPES_H /* the argument kinds need no more than these */
#include "sentry/argkinds.h"

struct row {
	int nr;
	const char *name;
	int status[2], nargs;
	struct argdesc args[6];
};

#define UNWRAP(...) __VA_ARGS__
static const struct row g_rows[] = {
#define ROW(nr_, name_, has, status_, ret_, waits_, nargs_, params_, descs, passed, note_) \
	{nr_, #name_, {UNWRAP status_}, nargs_, UNWRAP descs},
#include "sentry/syscall_rows.h"
};

/* Natively these are the host's. */
static const char *const g_not_natively[] = {"swapon", "swapoff", "acct",      "quotactl",
					     "uselib", "mount",   "pivot_root"};
static const long g_flags[] = {0, 1, 2, 0x40, 0x100, 0x200, 0x1000, 0x2000, 0x10000, 0x200000};

struct answer {
	volatile long ret;
	volatile int err;
};
static struct answer *g_answer;
static char *g_memory; /* zeros, 64 KiB */

static long argument(const struct argdesc *d, const char *path, long flags)
{
	static char *vector[] = {"x", NULL};

	switch (d->kind) {
	case AK_PATH:
		return (long)path;
	case AK_DIRFD:
		return AT_FDCWD;
	case AK_FD:
		return 20; /* an inotify descriptor */
	case AK_STR:
		return (long)"user.x";
	case AK_STRV:
	case AK_ENVV:
		return (long)vector;
	case AK_FLAGS:
	case AK_ENUM:
	case AK_HEX:
	case AK_HEX32:
		return flags;
	case AK_MODE:
	case AK_OMODE:
		return 0600;
	case AK_FMODE:
		return S_IFREG | 0600;
	default:
		break;
	}
	if (d->dir != DIR_VALUE || d->kind >= AK_PTR)
		return (long)g_memory;
	/* Sizes. */
	return d->kind == AK_INT || d->kind == AK_ULONG || d->kind == AK_UINT ? 24 : 0;
}

static struct answer ask(const struct row *r, int place, const char *path, long flags)
{
	struct answer a;
	pid_t pid;

	/* What exec leaves. */
	*g_answer = (struct answer){0, 0};
	pid = fork();
	if (pid == 0) {
		long v[6] = {0}, ret;

		alarm(5);
		for (int i = 0; i < r->nargs; i++)
			v[i] = argument(&r->args[i], i == place ? path : "inside", flags);
		errno = 0;
		ret = syscall(r->nr, v[0], v[1], v[2], v[3], v[4], v[5]);
		g_answer->err = ret < 0 ? errno : 0;
		g_answer->ret = ret < 0 ? -1 : 0;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	a = *g_answer;
	return a;
}

static bool has_flags(const struct row *r)
{
	for (int i = 0; i < r->nargs; i++)
		switch (r->args[i].kind) {
		case AK_FLAGS:
		case AK_ENUM:
		case AK_HEX:
		case AK_HEX32:
			return true;
		default:
			break;
		}
	return false;
}

static bool natively_only(const char *name)
{
	for (size_t i = 0; i < sizeof(g_not_natively) / sizeof(g_not_natively[0]); i++)
		if (!getenv("BOXED") && strcmp(g_not_natively[i], name) == 0)
			return true;
	return false;
}

/* How many calls tell @there from @absent. */
static unsigned compare(const char *there, const char *absent, unsigned *asked)
{
	unsigned told = 0;

	for (size_t i = 0; i < sizeof(g_rows) / sizeof(g_rows[0]); i++) {
		const struct row *r = &g_rows[i];

		if (natively_only(r->name))
			continue;
		for (int place = 0; place < r->nargs; place++) {
			const size_t count =
				has_flags(r) ? sizeof(g_flags) / sizeof(g_flags[0]) : 1;
			bool said = false;

			if (r->args[place].kind != AK_PATH)
				continue;
			for (size_t f = 0; f < count; f++) {
				const struct answer a = ask(r, place, there, g_flags[f]);
				const struct answer b = ask(r, place, absent, g_flags[f]);

				(*asked)++;
				if (a.ret == b.ret && a.err == b.err)
					continue;
				told++;
				if (!said)
					tried("%s, argument %d, flags %#lx: %s is %s, %s is %s",
					      r->name, place, g_flags[f], there, strerror(a.err),
					      absent, strerror(b.err));
				said = true;
			}
		}
	}
	return told;
}

static int answers_of(const char *const names[][2], size_t count)
{
	unsigned told = 0, asked = 0;

	g_answer = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	g_memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	dup2((int)syscall(SYS_inotify_init1, 0), 20);
	for (size_t i = 0; i < count; i++)
		told += compare(in("%s", names[i][0]), in("%s", names[i][1]), &asked);
	tried("%u pairs of calls, %u of them tell", asked, told);
	return told ? HARM : asked < 500 ? 2 : 0;
}

static int answers(void)
{
	static const char *const names[][2] = {{"out/secret", "out/nothing"},
					       {"out/dir", "out/dirr"},
					       {"out/dir/", "out/dirr/"},
					       {"out/secret/x", "out/nothing/x"},
					       {"workshop/secret", "workshap/secret"}};

	return answers_of(names, sizeof(names) / sizeof(names[0]));
}

static int answers_hidden(void)
{
	static const char *const names[][2] = {{"ro/hidden", "ro/missing"},
					       {"ro/hidden_dir", "ro/missing"},
					       {"ro/hidden_dir/", "ro/missing/"},
					       {"ro/hidden_dir/secret", "ro/missing/secret"}};

	return answers_of(names, sizeof(names) / sizeof(names[0]));
}

static void answers_scene(void)
{
	mkdir(in("out/dir"), 0755);
	put_file(in("ro/hidden"), "x", 0644);
	mkdir(in("ro/hidden_dir"), 0755);
	put_file(in("ro/hidden_dir/secret"), "x", 0644);
}

const struct attack g_answers[] = {
	{"answers", "leak", answers, .scene = answers_scene},
	{"answers_hidden", "leak", answers_hidden, .scene = answers_scene, .flags = "hides"},
	{0},
};
