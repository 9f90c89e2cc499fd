/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `moat run`.
 */
#include "runtime/run.h"
#include "runtime/policy.h"

#include "platform/platform.h"

#include <argp.h>
#include <stdarg.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include "base/hostcall.h"

enum opt_key {
	OPT_ROOT = 0x100,
	OPT_RW,
	OPT_RO,
	OPT_ENV,
	OPT_CWD,
	OPT_HOSTNAME,
	OPT_USER,
	OPT_POLICY,
	OPT_PRESET,
	OPT_LIMIT,
	OPT_CLOCK,
	OPT_SEED,
	OPT_PLATFORM,
	OPT_STRACE,
	OPT_STATS,
	OPT_PROFILE_CALLS,
	OPT_DIFF,
	OPT_SAVE,
	OPT_KEEP_ON_FAIL,
	OPT_LOAD,
	OPT_AUDIT,
	OPT_TTY,
	OPT_VERBOSE,
	OPT_DEBUG,
	OPT_WALL,
	OPT_WORKERS,
};

static const struct argp_option g_options[] = {
	{"root", OPT_ROOT, "DIR", 0,
	 "use DIR as the root (read-only below, writes vanish); default: the host's system "
	 "directories",
	 0},
	{"rw", OPT_RW, "DIR[:TARGET]", 0,
	 "let the guest read and write the host's DIR, seen as TARGET", 0},
	{"ro", OPT_RO, "DIR[:TARGET]", 0, "let the guest read the host's DIR, seen as TARGET", 0},
	{"env", OPT_ENV, "NAME[=VALUE]", 0, "set a variable, or pass the caller's on", 0},
	{"cwd", OPT_CWD, "DIR", 0,
	 "start in DIR (in the guest); default: the caller's, visible read-only", 0},
	{"hostname", OPT_HOSTNAME, "NAME", 0, "the guest's host name; default: moat", 0},
	{"user", OPT_USER, "UID[:GID]", 0,
	 "run as this user of the guest; default: the caller's number", 0},
	{"policy", OPT_POLICY, "FILE", 0,
	 "grant what the policy FILE says; options add to it (man moat-policy)", 0},
	{"preset", OPT_PRESET, "NAME", 0,
	 "grant what the policy of that name says: strict, default, agent-python, agent-node, "
	 "build; `moat policy show NAME' prints it",
	 0},
	{"limit", OPT_LIMIT, "NAME=VALUE", 0,
	 "let the sandbox use no more than VALUE (512M, 10s, 50%, none)", 0},
	{"clock", OPT_CLOCK, "host|offset:TIME|fixed:WHEN|virtual", 0,
	 "the time that the guest sees; default: the host's", 0},
	{"seed", OPT_SEED, "N", 0, "make the guest's random numbers of N", 0},
	{"platform", OPT_PLATFORM, "NAME", 0,
	 "how guest code is run; default: the first that `moat doctor' says works", 0},
	{"strace", OPT_STRACE, "FILE", OPTION_ARG_OPTIONAL,
	 "print each system call to stderr or FILE", 0},
	{"stats", OPT_STATS, "FILE", OPTION_ARG_OPTIONAL,
	 "at the end print how many calls of each kind the guest made, and what host calls they "
	 "cost: to stderr, or to FILE for programs to read",
	 0},
	{"profile-calls", OPT_PROFILE_CALLS, "FILE", 0,
	 "at the end write to FILE where the time of the guest's calls went", 0},
	{"diff", OPT_DIFF, "FILE", OPTION_ARG_OPTIONAL,
	 "at the end list what the run changed in its in-memory files: to stderr or FILE", 0},
	{"save", OPT_SAVE, "FILE", 0,
	 "at the end keep what the run changed in its in-memory files, as a tar archive", 0},
	{"keep-on-fail", OPT_KEEP_ON_FAIL, "FILE", 0, "as --save, but only if the program fails",
	 0},
	{"load", OPT_LOAD, "FILE", 0, "begin with what an earlier run's --save has kept", 0},
	{"audit", OPT_AUDIT, "FILE", 0,
	 "write to FILE what the program was refused and what it did, an event a line; `moat "
	 "report' makes a page of it",
	 0},
	{"tty", OPT_TTY, "auto|on|off", 0,
	 "give the guest a terminal of its own; default: if stdin and stdout are one", 0},
	{"verbose", OPT_VERBOSE, NULL, 0,
	 "say what a guest died of, with its stack, and what it was refused", 0},
	{"wall", OPT_WALL, "on|off", OPTION_HIDDEN,
	 "off: do not confine moat's own kernel; for measuring and debugging", 0},
	{NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0},
	{"debug", OPT_DEBUG, NULL, 0,
	 "say what is made of the options and the host: platform, grants, limits, walls", 0},
	{"workers", OPT_WORKERS, "N", 0,
	 "host threads that run the kernel; default: one per processor, at most 4", 0},
	{0},
};

static void NORETURN PRINTF_LIKE(1, 2) usage_die(const char *fmt, ...)
{
	va_list ap;

	fputs("moat run: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\n", stderr);
	exit(EXIT_USAGE);
}

/* What the user said of the grant, in his order; it is put together when all has been read, for a
 * policy comes first wherever it is named. */
struct given {
	int key;
	const char *arg;
};

struct parse {
	struct run_config *cfg;
	struct given *given;
	unsigned given_count;
	const char *policy; /* its file; NULL: none */
	uint64_t seen;      /* keys of options that can be said once */
};

/* Of two files one would be forgotten. */
static void once(struct parse *p, int key, const char *opt)
{
	const uint64_t bit = (uint64_t)1 << (key - OPT_ROOT);

	if (p->seen & bit)
		usage_die("%s: it can be said once; leave one out", opt);
	p->seen |= bit;
}

/* The host's path, made absolute and free of symlinks, so that what is granted is what was checked.
 */
static const char *host_path(struct draft *d, const char *opt, const char *path)
{
	char *p = HOST(readlink_monitor, realpath(path, NULL));
	const char *copy;

	if (!p)
		usage_die("%s %s: %s; name a directory or file that %s", opt, path, strerror(errno),
			  errno == EACCES ? "you may reach" : "exists");
	copy = draft_text(d, p);
	free(p);
	return copy;
}

static void add_path(struct draft *d, const char *opt, const char *arg, enum grant_access how)
{
	struct grant_path p = {.access = how, .exec = true, .origin = {.file = opt}};
	char *spec = draft_text(d, arg), *colon = strrchr(spec, ':');
	const char *target = NULL;
	struct err e;

	/* A colon may be part of the name: then the whole exists. */
	if (colon && HOST(access_monitor, access(spec, F_OK)) != 0) {
		*colon = '\0';
		target = colon + 1;
		if (target[0] != '/' && HOST(access_monitor, access(spec, F_OK)) == 0)
			usage_die("%s %s: what the guest calls it begins with /: %s:/%s", opt, arg,
				  spec, target);
		if (target[0] != '/') {
			*colon = ':';
			target = NULL;
		}
	}
	p.host = host_path(d, opt, spec);
	if (!target)
		target = spec[0] == '/' ? spec : p.host;
	p.target = draft_canonical(d, target);
	if (draft_check_host(p.host, &e) || draft_check_target(p.target, &e) ||
	    draft_replace_path(d, &p, &e))
		usage_die("%s %s: %s", opt, arg, e.text);
}

static void add_env(struct draft *d, const char *arg)
{
	struct err e;

	if (draft_add_env(d, arg, &e))
		usage_die("--env %s: %s", arg, e.text);
}

static uint32_t parse_id(const char *arg, const char *s, const char **end)
{
	char *e;
	unsigned long v;

	errno = 0;
	v = strtoul(s, &e, 10);
	if (e == s || errno || v >= UINT32_MAX)
		usage_die("--user %s: a user is a number, with a group: UID[:GID]", arg);
	*end = e;
	return (uint32_t)v;
}

static void parse_user(struct draft *d, const char *arg)
{
	const char *end;

	d->g.uid = parse_id(arg, arg, &end);
	d->g.gid = d->g.uid;
	if (*end == ':')
		d->g.gid = parse_id(arg, end + 1, &end);
	if (*end)
		usage_die("--user %s: a user is a number, with a group: UID[:GID]", arg);
}

/* Started by hand: both ways are a terminal, and it is ours. In a pipeline or in the background,
 * taking the terminal over would take it from somebody else. */
static bool on_terminal(void)
{
	return HOST(ioctl_monitor, isatty(0)) && HOST(ioctl_monitor, isatty(1)) &&
	       HOST(ioctl_monitor, tcgetpgrp(0)) == HOST(getpgrp_monitor, getpgrp());
}

static void parse_tty(struct run_config *cfg, const char *arg)
{
	if (strcmp(arg, "auto") == 0)
		cfg->tty = TTY_AUTO;
	else if (strcmp(arg, "on") == 0)
		cfg->tty = TTY_ON;
	else if (strcmp(arg, "off") == 0)
		cfg->tty = TTY_OFF;
	else
		usage_die("--tty %s: it is one of auto, on, off", arg);
}

static void check_platform(const char *name)
{
	for (unsigned i = 0; g_platforms[i]; i++) {
		/* The mock is for tests only. */
		if (strcmp(g_platforms[i]->name, name) == 0 && strcmp(name, "mock") != 0)
			return;
	}
	fprintf(stderr, "moat run: --platform %s: no such platform; there are:\n", name);
	platforms_describe(stderr);
	exit(EXIT_USAGE);
}

/* "--save -- PROG" would write to a file of that name; an unset variable leaves nothing. */
static void check_given(int key, const char *arg)
{
	const struct argp_option *o = g_options;

	if (arg[0] && strcmp(arg, "--") != 0)
		return;
	while (o->key && o->key != key)
		o++;
	if (o->name)
		usage_die("--%s: its value is missing; say --%s=%s", o->name, o->name, o->arg);
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
	struct parse *p = state->input;
	struct run_config *cfg = p->cfg;

	if (key >= OPT_ROOT && arg)
		check_given(key, arg);
	switch (key) {
	case OPT_ROOT:
		once(p, key, "--root");
		__attribute__((fallthrough));
	case OPT_RW:
	case OPT_RO:
	case OPT_ENV:
	case OPT_CWD:
	case OPT_HOSTNAME:
	case OPT_USER:
	case OPT_POLICY:
	case OPT_PRESET:
	case OPT_LIMIT:
	case OPT_CLOCK:
	case OPT_SEED:
		p->given[p->given_count++] = (struct given){key, arg};
		break;
	case OPT_PLATFORM:
		check_platform(arg);
		cfg->platform = arg;
		break;
	case OPT_STRACE:
		once(p, key, "--strace");
		cfg->strace = arg ? arg : "";
		break;
	case OPT_STATS:
		once(p, key, "--stats");
		cfg->stats = arg ? arg : "";
		break;
	case OPT_PROFILE_CALLS:
		once(p, key, "--profile-calls");
		cfg->profile = arg;
		break;
	case OPT_DIFF:
		once(p, key, "--diff");
		cfg->diff = true;
		cfg->diff_file = arg;
		break;
	case OPT_SAVE:
	case OPT_KEEP_ON_FAIL:
		if (cfg->save)
			usage_die("--save, --keep-on-fail: one archive is kept; name it once");
		cfg->save = arg;
		cfg->save_failed = key == OPT_KEEP_ON_FAIL;
		break;
	case OPT_LOAD:
		once(p, key, "--load");
		cfg->load = arg;
		break;
	case OPT_AUDIT:
		once(p, key, "--audit");
		cfg->audit = arg;
		break;
	case OPT_TTY:
		parse_tty(cfg, arg);
		break;
	case OPT_VERBOSE:
		cfg->verbose = true;
		break;
	case OPT_WALL:
		if (strcmp(arg, "on") != 0 && strcmp(arg, "off") != 0)
			usage_die("--wall %s: it is one of on, off", arg);
		cfg->wall_off = strcmp(arg, "off") == 0;
		break;
	case OPT_DEBUG:
		cfg->debug = true;
		break;
	case 'h':
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		break;
	case OPT_WORKERS: {
		char *end;
		long n = strtol(arg, &end, 10);

		if (*end || n < 1 || n > 64)
			usage_die("--workers %s: a number from 1 to 64", arg);
		cfg->workers = (unsigned)n;
		break;
	}
	case ARGP_KEY_ARG:
		/* The program: all that follows is its own. */
		if (!arg[0])
			usage_die("'': a program's name is missing: moat run [OPTION…] -- PROG "
				  "[ARG…]");
		cfg->argv = &state->argv[state->next - 1];
		state->next = state->argc;
		break;
	case ARGP_KEY_NO_ARGS:
		usage_die("no program given: moat run [OPTION…] -- PROG [ARG…]");
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static void set_limit(struct draft *d, const char *arg)
{
	const struct grant_origin origin = {.file = "--limit"};
	char *name = draft_text(d, arg), *eq = strchr(name, '=');
	struct err e;

	if (!eq)
		usage_die("--limit %s: a limit has a value: NAME=VALUE", arg);
	*eq = '\0';
	if (draft_set_limit(d, name, eq + 1, &origin, &e))
		usage_die("--limit %s: %s", arg, e.text);
}

static void apply_given(struct draft *d, const struct given *g)
{
	const struct grant_origin clock = {.file = "--clock"}, seed = {.file = "--seed"};
	struct err e;

	switch (g->key) {
	case OPT_ROOT:
		d->g.root = host_path(d, "--root", g->arg);
		if (draft_check_host(d->g.root, &e))
			usage_die("--root %s: %s", g->arg, e.text);
		break;
	case OPT_RW:
		add_path(d, "--rw", g->arg, GRANT_WRITE);
		break;
	case OPT_RO:
		add_path(d, "--ro", g->arg, GRANT_READ);
		break;
	case OPT_ENV:
		add_env(d, g->arg);
		break;
	case OPT_CWD:
		if (g->arg[0] != '/')
			usage_die("--cwd %s: it is a directory of the guest and begins with /",
				  g->arg);
		d->g.cwd = g->arg;
		d->cwd_given = true;
		d->cwd_origin = (struct grant_origin){.file = "--cwd"};
		break;
	case OPT_HOSTNAME:
		if (strlen(g->arg) > 64)
			usage_die("--hostname %s: a host name has 1 to 64 bytes", g->arg);
		d->g.hostname = g->arg;
		break;
	case OPT_LIMIT:
		set_limit(d, g->arg);
		break;
	case OPT_CLOCK:
		if (draft_set_clock(d, g->arg, &clock, &e))
			usage_die("--clock %s: %s", g->arg, e.text);
		break;
	case OPT_SEED:
		if (draft_set_seed(d, g->arg, &seed, &e))
			usage_die("--seed %s: %s", g->arg, e.text);
		break;
	default:
		break; /* OPT_USER was first */
	}
}

/* What the other options add to. */
static void draw_base(struct parse *p)
{
	struct draft *d = &p->cfg->draft;
	const struct given *base = NULL;
	struct err e;
	int r;

	for (unsigned i = 0; i < p->given_count; i++) {
		const struct given *g = &p->given[i];

		if (g->key != OPT_POLICY && g->key != OPT_PRESET)
			continue;
		if (base)
			usage_die("--policy, --preset: one policy rules; name it once");
		base = g;
	}
	if (!base) {
		draft_default(d);
		return;
	}
	r = base->key == OPT_POLICY ? policy_load(base->arg, d, &e)
				    : policy_load_preset(base->arg, d, &e);
	if (r && base->key == OPT_PRESET && !policy_preset(base->arg))
		usage_die("--preset %s: %s", base->arg, e.text);
	if (r)
		usage_die("%s", e.text);
	if (base->key == OPT_POLICY)
		p->policy = p->cfg->policy = base->arg;
}

/* Users first: the environment depends on them. */
static void draw_up(struct parse *p)
{
	struct draft *d = &p->cfg->draft;
	struct err e;

	draft_init(d);
	draw_base(p);
	for (unsigned i = 0; i < p->given_count; i++)
		if (p->given[i].key == OPT_USER)
			parse_user(d, p->given[i].arg);
	for (unsigned i = 0; i < p->given_count; i++)
		apply_given(d, &p->given[i]);
	if (draft_finish(d, &e) || draft_check_built(d, &e) ||
	    (p->policy && draft_protect(d, p->policy, &e)) ||
	    (p->cfg->audit && draft_protect(d, p->cfg->audit, &e)))
		usage_die("%s", e.text);
	if (d->shows_secret)
		log_warn("the program can read the caller's directory %s, which usually holds "
			 "secrets; start moat in another, or say --cwd / if it shall not, or "
			 "--ro %s if it shall",
			 d->g.cwd, d->g.cwd);
}

void run_parse(int argc, char **argv, struct run_config *cfg)
{
	static const struct argp parser = {
		.options = g_options,
		.parser = parse_one,
		.args_doc = "-- PROG [ARG...]",
		.doc = "Run PROG in a sandbox: every system call of it is answered by moat, and "
		       "what is not granted does "
		       "not exist.",
	};
	struct parse p = {.cfg = cfg, .given = calloc((size_t)argc, sizeof(*p.given))};
	static char name[] = "moat run";
	struct sysinfo si;

	if (!p.given)
		usage_die("out of memory");
	cfg->learn_fd = -1;
	cfg->tty = TTY_AUTO;
	cfg->memory_bytes = (uint64_t)1 << 30;
	if (HOST(sysinfo_monitor, sysinfo(&si)) == 0)
		cfg->memory_bytes = (uint64_t)si.totalram * si.mem_unit;
	cfg->diff_fd = cfg->load_fd = cfg->save_fd = cfg->saved_fd = -1;
	cfg->strace_fd = cfg->stats_fd = cfg->profile_fd = cfg->audit_fd = cfg->stop_fd = -1;
	argv[0] = name;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &p);
	draw_up(&p);
	free(p.given);
	if (cfg->draft.g.clock == CLOCK_KIND_VIRTUAL && cfg->workers > 1)
		usage_die(
			"--workers %u: with a virtual clock one thing runs at a time; leave it out",
			cfg->workers);
	if (cfg->draft.g.clock == CLOCK_KIND_VIRTUAL && cfg->profile)
		usage_die("--profile-calls: a virtual clock cannot tell where time went; leave out "
			  "one of both");
	cfg->use_tty = cfg->tty == TTY_ON || (cfg->tty == TTY_AUTO && on_terminal());
}
