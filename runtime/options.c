/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of `moat run`.
 */
#include "runtime/run.h"

#include "platform/platform.h"

#include <argp.h>
#include <stdarg.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
	OPT_PLATFORM,
	OPT_STRACE,
	OPT_STATS,
	OPT_PROFILE_CALLS,
	OPT_TTY,
	OPT_VERBOSE,
	OPT_DEBUG,
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
	{"tty", OPT_TTY, "auto|on|off", 0,
	 "give the guest a terminal of its own; default: if stdin and stdout are one", 0},
	{"verbose", OPT_VERBOSE, NULL, 0, "say what a guest died of, with its stack", 0},
	{"debug", OPT_DEBUG, NULL, 0, "log what moat itself does", 0},
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

static char *xstrdup(const char *s)
{
	char *p = strdup(s);

	if (!p)
		usage_die("out of memory");
	return p;
}

/* The host's path, made absolute and free of symlinks, so that what is granted is what was checked.
 */
static char *host_path(const char *opt, const char *path)
{
	char *p = HOST(readlink_monitor, realpath(path, NULL));

	if (!p)
		usage_die("%s %s: %s; name a directory or file that exists", opt, path,
			  strerror(errno));
	return p;
}

static void add_grant(struct run_config *cfg, const char *opt, const char *arg, bool writable)
{
	struct grant_dir *g;
	char *spec = xstrdup(arg), *colon = strrchr(spec, ':');
	const char *target = NULL;

	/* A colon may be part of the name: then the whole exists. */
	if (colon && HOST(access_monitor, access(spec, F_OK)) != 0 && colon[1] == '/') {
		*colon = '\0';
		target = colon + 1;
	}
	if (cfg->grant_count == GRANTS_MAX)
		usage_die("%s %s: more than %d directories are granted; grant a common parent", opt,
			  arg, GRANTS_MAX);
	g = &cfg->grants[cfg->grant_count++];
	g->host = host_path(opt, spec);
	g->writable = writable;
	g->fd = -1;
	if (!target)
		target = spec[0] == '/' ? spec : g->host;
	g->target = xstrdup(target);
	free(spec);
}

static void add_env(struct run_config *cfg, const char *arg)
{
	const char *eq = strchr(arg, '=');
	size_t name_len = eq ? (size_t)(eq - arg) : strlen(arg);
	char *entry = NULL;

	if (name_len == 0)
		usage_die("--env %s: a variable needs a name: NAME=VALUE", arg);
	if (eq) {
		entry = xstrdup(arg);
	} else {
		const char *v = getenv(arg);

		if (!v)
			return; /* not set here: not set there */
		if (asprintf(&entry, "%s=%s", arg, v) < 0)
			usage_die("out of memory");
	}
	for (unsigned i = 0; i < cfg->env_count; i++) {
		if (strncmp(cfg->env[i], entry, name_len + 1) == 0) {
			free(cfg->env[i]);
			cfg->env[i] = entry;
			return;
		}
	}
	if (cfg->env_count == ENV_MAX)
		usage_die("--env %s: more than %d variables", arg, ENV_MAX);
	cfg->env[cfg->env_count++] = entry;
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

static void parse_user(struct run_config *cfg, const char *arg)
{
	const char *end;

	cfg->uid = parse_id(arg, arg, &end);
	cfg->gid = cfg->uid;
	if (*end == ':')
		cfg->gid = parse_id(arg, end + 1, &end);
	if (*end)
		usage_die("--user %s: a user is a number, with a group: UID[:GID]", arg);
	cfg->user_given = true;
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

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
	struct run_config *cfg = state->input;

	switch (key) {
	case OPT_ROOT:
		cfg->root = host_path("--root", arg);
		break;
	case OPT_RW:
		add_grant(cfg, "--rw", arg, true);
		break;
	case OPT_RO:
		add_grant(cfg, "--ro", arg, false);
		break;
	case OPT_ENV:
		add_env(cfg, arg);
		break;
	case OPT_CWD:
		if (arg[0] != '/')
			usage_die("--cwd %s: it is a directory of the guest and begins with /",
				  arg);
		cfg->cwd = arg;
		cfg->cwd_given = true;
		break;
	case OPT_HOSTNAME:
		if (!arg[0] || strlen(arg) > 64)
			usage_die("--hostname %s: a host name has 1 to 64 bytes", arg);
		cfg->hostname = arg;
		break;
	case OPT_USER:
		parse_user(cfg, arg);
		break;
	case OPT_PLATFORM:
		check_platform(arg);
		cfg->platform = arg;
		break;
	case OPT_STRACE:
		cfg->strace = arg ? arg : "";
		break;
	case OPT_STATS:
		cfg->stats = arg ? arg : "";
		break;
	case OPT_PROFILE_CALLS:
		if (strcmp(arg, "--") == 0)
			usage_die("--profile-calls: a file is missing; say --profile-calls=FILE");
		cfg->profile = arg;
		break;
	case OPT_TTY:
		parse_tty(cfg, arg);
		break;
	case OPT_VERBOSE:
		cfg->verbose = true;
		break;
	case OPT_DEBUG:
		cfg->debug = true;
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

static unsigned host_cpus(void)
{
	cpu_set_t set;

	if (HOST(sched_getaffinity_monitor, sched_getaffinity(0, sizeof(set), &set)) == 0)
		return (unsigned)CPU_COUNT(&set);
	return 1;
}

/* What a program needs to start; nothing else of the caller's environment is passed on. */
static void default_env(struct run_config *cfg)
{
	static const char *const pass[] = {"TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "COLORTERM"};
	char home[64];

	add_env(cfg, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	snprintf(home, sizeof(home), cfg->uid == 0 ? "HOME=/root" : "HOME=/home/user");
	add_env(cfg, home);
	add_env(cfg, cfg->uid == 0 ? "USER=root" : "USER=user");
	for (size_t i = 0; i < ARRAY_SIZE(pass); i++)
		add_env(cfg, pass[i]);
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
	struct run_config given = {.tty = TTY_AUTO};
	static char name[] = "moat run";
	struct sysinfo si;

	given.uid = HOST(getuid_monitor, getuid());
	given.gid = HOST(getgid_monitor, getgid());
	given.cpus = host_cpus();
	given.memory_bytes = (uint64_t)1 << 30;
	if (HOST(sysinfo_monitor, sysinfo(&si)) == 0)
		given.memory_bytes = (uint64_t)si.totalram * si.mem_unit;
	given.hostname = "moat";
	given.strace_fd = given.stats_fd = given.profile_fd = -1;
	argv[0] = name;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &given);

	/* Defaults first, so that --env wins. */
	*cfg = given;
	memset(cfg->env, 0, sizeof(cfg->env));
	cfg->env_count = 0;
	default_env(cfg);
	for (unsigned i = 0; i < given.env_count; i++)
		add_env(cfg, given.env[i]);
	if (!cfg->cwd) {
		char *here = HOST(getcwd_monitor, getcwd(NULL, 0));

		cfg->cwd = here && here[0] == '/' ? here : "/";
	}
	cfg->use_tty = cfg->tty == TTY_ON || (cfg->tty == TTY_AUTO && on_terminal());
}
