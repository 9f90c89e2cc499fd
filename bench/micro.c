/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The micro-operations: options, timing and printing; see micro.h.
 *
 * A line is printed in two parts, the name before the operation runs and the figure after it, so
 * that who reads the output knows which operation hangs or kills the program.
 */
#include "bench/micro.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct op *const g_tables[] = {g_identity_ops, g_file_ops, g_memory_ops, g_pass_ops,
					    g_task_ops};

#define BATCHES 5

/* Not 0: make each operation so often, and time nothing. */
static uint64_t g_repeat;

/* How long all batches of one measurement shall take together. */
static double g_target_ns = 4e6;

uint64_t micro_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void print_name(const char *prefix, const char *name)
{
	printf("%s%s ", prefix, name);
	fflush(stdout);
}

static void print_figure(double ns)
{
	if (ns >= 0)
		printf("%.2f\n", ns);
	else
		printf("- %s\n", strerror(errno));
	fflush(stdout);
}

void micro_print(const char *prefix, const char *name, double ns)
{
	int saved = errno;

	print_name(prefix, name);
	errno = saved;
	print_figure(ns);
}

/* One timed batch: its nanoseconds, or -1. */
static double batch(struct bench *b, const struct op *op, uint64_t n)
{
	uint64_t start = micro_now_ns();

	if (op->run(b, op, n) != 0)
		return -1;
	/* A virtual clock may stand still for a moment. */
	return (double)(micro_now_ns() - start) + 1;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Nanoseconds per operation, or -1. The first operation warms up and tells how many are due; one
 * that takes very long by itself is taken as it is. Then the median of a few batches, each shorter
 * than a scheduler's slice, so that one preemption spoils one batch and not the figure.
 */
static double measure(struct bench *b, const struct op *op)
{
	double target = g_target_ns / BATCHES, t, per_op[BATCHES];
	uint64_t n = 1;

	if (g_repeat)
		return op->run(b, op, g_repeat) == 0 ? (double)g_repeat : -1;
	t = batch(b, op, 1);
	if (t < 0 || t > 10 * g_target_ns)
		return t;
	for (int tries = 0; tries < 12; tries++) {
		double factor = 1.2 * target / t;

		if (tries > 0 && t >= target * 0.6)
			break;
		n = (uint64_t)((double)n * (factor > 100 ? 100 : factor)) + 1;
		t = batch(b, op, n);
		if (t < 0)
			return -1;
	}
	for (int i = 0; i < BATCHES; i++) {
		t = batch(b, op, n);
		if (t < 0)
			return -1;
		per_op[i] = t / (double)n;
	}
	qsort(per_op, BATCHES, sizeof(per_op[0]), by_size);
	return per_op[BATCHES / 2];
}

void micro_measure(struct bench *b, const struct op *op, const char *prefix)
{
	double ns = -1;
	int saved = 0;

	print_name(prefix, op->name);
	if (!op->prepare || op->prepare(b, op) == 0)
		ns = measure(b, op);
	saved = errno;
	if (op->cleanup && op->cleanup(b, op) != 0 && ns >= 0) {
		saved = errno;
		ns = -1;
	}
	errno = saved;
	print_figure(ns);
}

void micro_measure_named(struct bench *b, const char *name, const char *prefix)
{
	for (size_t t = 0; t < sizeof(g_tables) / sizeof(g_tables[0]); t++)
		for (const struct op *op = g_tables[t]; op->name; op++)
			if (strcmp(op->name, name) == 0)
				micro_measure(b, op, prefix);
}

/* Is @name in the comma-separated @list? An entry that ends with * stands for all that begin so. */
static bool in_list(const char *list, const char *name)
{
	size_t len;

	for (const char *p = list; *p; p += len + (p[len] == ',')) {
		len = strcspn(p, ",");
		if (len > 0 && p[len - 1] == '*'
			    ? strncmp(p, name, len - 1) == 0
			    : strlen(name) == len && strncmp(p, name, len) == 0)
			return true;
	}
	return false;
}

/* Times one run of a command: how the real programs are measured without the sandbox's start. */
static int time_command(char **argv)
{
	uint64_t start = micro_now_ns();
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0) {
		printf("time - %s\n", strerror(errno));
		return 1;
	}
	if (status != 0) {
		printf("time - %s %d\n", WIFSIGNALED(status) ? "signal" : "status",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		return 1;
	}
	printf("time %.2f\n", (double)(micro_now_ns() - start));
	return 0;
}

static const char g_usage[] =
	"Usage: micro [OPTION...]\n"
	"       micro --time -- PROG [ARG...]   time one run of a program\n"
	"Times operations and prints a line for each: NAME NANOSECONDS, or NAME - REASON.\n\n"
	"  --only LIST      only these, comma-separated; NAME* is a prefix\n"
	"  --skip LIST      all but these\n"
	"  --scale X        take X times as long (default 1: some 4 ms for each)\n"
	"  --repeat N       make each N times, and print N: for who counts what they cost\n"
	"  --profile N      a few calls instead, N times each with time stamps in them\n"
	"  --sweep NAME     a sweep instead: threads, busy, files, mounts, processes, all\n"
	"  --max N          let a sweep grow up to N (default 1000)\n"
	"  --dir DIR        make files in DIR, a tmpfs (default /tmp)\n"
	"  --rootfs FILE    read FILE, 64 KiB or more, of the root (default /usr/bin/bash)\n"
	"  --self PATH      this program, for exec\n"
	"  --mount-here     the sweep over mounts may mount in this name space\n"
	"  --sleep          say so, then sleep for ever\n"
	"  --list           print the names\n";

enum {
	OPT_ONLY = 1,
	OPT_SKIP,
	OPT_SCALE,
	OPT_REPEAT,
	OPT_PROFILE,
	OPT_SWEEP,
	OPT_MAX,
	OPT_DIR,
	OPT_ROOTFS,
	OPT_SELF,
	OPT_MOUNT_HERE,
	OPT_LIST,
	OPT_TIME,
	OPT_SLEEP
};

static const struct option g_options[] = {
	{"only", required_argument, NULL, OPT_ONLY},
	{"skip", required_argument, NULL, OPT_SKIP},
	{"scale", required_argument, NULL, OPT_SCALE},
	{"repeat", required_argument, NULL, OPT_REPEAT},
	{"profile", required_argument, NULL, OPT_PROFILE},
	{"sweep", required_argument, NULL, OPT_SWEEP},
	{"max", required_argument, NULL, OPT_MAX},
	{"dir", required_argument, NULL, OPT_DIR},
	{"rootfs", required_argument, NULL, OPT_ROOTFS},
	{"self", required_argument, NULL, OPT_SELF},
	{"mount-here", no_argument, NULL, OPT_MOUNT_HERE},
	{"list", no_argument, NULL, OPT_LIST},
	{"time", no_argument, NULL, OPT_TIME},
	{"sleep", no_argument, NULL, OPT_SLEEP},
	{NULL, 0, NULL, 0},
};

static void leave(int home, const char *work)
{
	if (fchdir(home) == 0)
		rmdir(work);
}

int main(int argc, char **argv)
{
	static char buf[BUF_SIZE] __attribute__((aligned(4096)));
	struct bench b = {.self = argv[0], .dir = "/tmp", .rootfs = "/usr/bin/bash", .buf = buf};
	const char *only = NULL, *skip = "", *sweep = NULL;
	char *work = NULL, *self;
	int home = -1;
	long max = 1000, profile = 0;
	bool list = false;
	int c;

	/* What fork_exec_wait runs. */
	if (argc == 2 && strcmp(argv[1], "--exit") == 0)
		return 0;
	while ((c = getopt_long(argc, argv, "", g_options, NULL)) != -1) {
		switch (c) {
		case OPT_ONLY:
			only = optarg;
			break;
		case OPT_SKIP:
			skip = optarg;
			break;
		case OPT_SCALE:
			g_target_ns *= strtod(optarg, NULL);
			break;
		case OPT_REPEAT:
			g_repeat = strtoul(optarg, NULL, 10);
			break;
		case OPT_PROFILE:
			profile = strtol(optarg, NULL, 10);
			break;
		case OPT_SWEEP:
			sweep = optarg;
			break;
		case OPT_MAX:
			max = strtol(optarg, NULL, 10);
			break;
		case OPT_DIR:
			b.dir = optarg;
			break;
		case OPT_ROOTFS:
			b.rootfs = optarg;
			break;
		case OPT_SELF:
			b.self = optarg;
			break;
		case OPT_MOUNT_HERE:
			b.mount_here = true;
			break;
		case OPT_LIST:
			list = true;
			break;
		case OPT_TIME:
			optind += optind < argc && strcmp(argv[optind], "--") == 0;
			if (optind < argc)
				return time_command(argv + optind);
			fputs(g_usage, stderr);
			return 2;
		case OPT_SLEEP:
			puts("asleep");
			fflush(stdout);
			for (;;)
				pause();
		default:
			fputs(g_usage, stderr);
			return 2;
		}
	}
	if (optind < argc || !(g_target_ns > 0) || profile < 0 || profile > 1000000) {
		fputs(g_usage, stderr);
		return 2;
	}
	memset(buf, 'x', sizeof(buf));
	if (!list) {
		if (asprintf(&work, "%s/micro-%d", b.dir, (int)getpid()) < 0 ||
		    mkdir(work, 0700) != 0) {
			fprintf(stderr, "micro: %s: %s\n", b.dir, strerror(errno));
			return 1;
		}
		/* Names are relative: where DIR lies must not make one target slower than another.
		 */
		home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		self = realpath(b.self, NULL);
		if (home < 0 || chdir(work) != 0 || !self) {
			fprintf(stderr, "micro: %s: %s\n", work, strerror(errno));
			return 1;
		}
		b.dir = ".";
		b.self = self;
	}
	if (sweep) {
		c = sweep_run(&b, sweep, max);
		if (c != 0)
			fputs(g_usage, stderr);
		leave(home, work);
		return c == 0 ? 0 : 2;
	}
	if (profile) {
		c = profile_run(&b, (unsigned)profile);
		if (c != 0)
			fprintf(stderr, "micro: --profile: %s\n", strerror(errno));
		leave(home, work);
		return c == 0 ? 0 : 1;
	}
	for (size_t t = 0; t < sizeof(g_tables) / sizeof(g_tables[0]); t++) {
		for (const struct op *op = g_tables[t]; op->name; op++) {
			if ((only && !in_list(only, op->name)) || in_list(skip, op->name))
				continue;
			if (list)
				puts(op->name);
			else
				micro_measure(&b, op, "");
		}
	}
	if (work)
		leave(home, work);
	return 0;
}
