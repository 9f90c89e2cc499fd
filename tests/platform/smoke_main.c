/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The platform's smoke tests on a real host: the program. It uses a platform directly, without a
 * sentry.
 *
 *	platform_smoke PLATFORM [NAME…]	   the tests whose names contain NAME; all
 *	platform_smoke PLATFORM --user	   as an ordinary user (from root); may precede the others
 *	platform_smoke PLATFORM --bench	   costs
 *	platform_smoke PLATFORM --victim   used by a test: makes address spaces, says so, waits to
 *be killed platform_smoke PLATFORM --keeper   what remains when the keeper is killed
 *
 * PLATFORM is ptrace, trap or notify. Ends with "N passed, N failed, N skipped"; one that the host
 * does not allow is skipped, with the reason.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "tests/platform/smoke.h"

int g_failures;
const struct smoke_stub *g_smoke;
void bench(void);

static int g_argc;
static char **g_argv;
static unsigned g_passed, g_failed, g_skipped;

/* --- Guests --- */

void guest_map(struct guest *g, uint64_t addr, uint64_t size, uint32_t prot)
{
	struct map_op op = {.kind = MAP_OP_ANON, .addr = addr, .size = size, .prot = prot};

	CHECK_EQ(g_pf->map(g->thread, &op, 1), 0);
}

bool guest_new(struct guest *g, const char *code, const char *code_end)
{
	const size_t size = (size_t)(code_end - code);
	struct map_op op = {
		.kind = MAP_OP_PROTECT, .addr = CODE, .size = 4096, .prot = PROT_READ | PROT_EXEC};
	const int before = g_failures;
	int r;

	memset(g, 0, sizeof(*g));
	r = g_pf->as_new(NULL, &g->as, &g->thread);
	CHECK_EQ(r, 0);
	if (r != 0)
		return false;
	/* Who uses its threads lives there. */
	if (g_pf->as_home(g->as) && g_pf->as_home(g->as) != worker_self())
		fiber_migrate(g_pf->as_home(g->as));
	guest_map(g, CODE, 4096, PROT_READ | PROT_WRITE);
	guest_map(g, DATA, DATA_SIZE, PROT_READ | PROT_WRITE);
	CHECK_EQ(g_pf->copy_out(g->as, GADDR(CODE), code, size), size);
	CHECK_EQ(g_pf->map(g->thread, &op, 1), 0);
	g->regs.rip = CODE;
	g->regs.rsp = STACK_TOP;
	return g_failures == before;
}

void guest_free(struct guest *g)
{
	g_pf->thread_free(g->thread);
	g->thread = NULL;
}

void guest_run(struct guest *g)
{
	g_pf->run(g->thread, &g->regs, &g->trap);
	/* The tests look at all registers. Of a thread that is about to be dead nobody knows them.
	 */
	while (g->trap.kind == TRAP_SYSCALL && g_pf->regs_get &&
	       g_pf->regs_get(g->thread, &g->regs) < 0)
		g_pf->run(g->thread, &g->regs, &g->trap);
}

void guest_expect(struct guest *g, uint64_t nr)
{
	do {
		guest_run(g);
	} while (g->trap.kind == TRAP_INTERRUPT);
	CHECK_EQ(g->trap.kind, TRAP_SYSCALL);
	CHECK_EQ(g->regs.orig_rax, nr);
	CHECK_EQ(g->regs.rax, -ENOSYS);
}

uint64_t guest_word(struct guest *g, uint64_t addr)
{
	uint64_t v = 0;

	CHECK_EQ(g_pf->copy_in(g->as, &v, GADDR(addr), sizeof(v)), sizeof(v));
	return v;
}

void guest_set_word(struct guest *g, uint64_t addr, uint64_t value)
{
	CHECK_EQ(g_pf->copy_out(g->as, GADDR(addr), &value, sizeof(value)), sizeof(value));
}

pid_t guest_pid(const struct guest *g)
{
	return g_smoke->pid(g);
}

/* --- Fibers, processes --- */

void spawn(void (*fn)(void *), void *arg, struct worker *home)
{
	struct fiber *f = fiber_new(fn, arg, home, "test");

	if (!f)
		panic("no memory for a fiber");
	fiber_start(f);
}

void sleep_ms(unsigned ms)
{
	(void)fiber_sleep_until(clock_mono_ns() + ms * NSEC_PER_MSEC, WAIT_UNINTR);
}

void wait_count(const _Atomic unsigned *flag, unsigned value)
{
	for (unsigned ms = 0; atomic_load(flag) < value; ms++) {
		if (ms > PATIENCE_MS) {
			printf("    waited too long\n");
			g_failures++;
			return;
		}
		sleep_ms(1);
	}
}

char process_state(pid_t pid)
{
	char path[64], text[512];
	const char *p;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	p = strrchr(text, ')');
	return p ? p[2] : 0;
}

void wait_for_end(pid_t pid)
{
	char state = 0;

	for (int i = 0; i < PATIENCE_MS; i++) {
		state = process_state(pid);
		if (state == 0 || state == 'Z' || state == 'X')
			return;
		sleep_ms(1);
	}
	printf("    process %d does not end: %c\n", pid, state);
	g_failures++;
}

unsigned children_of(pid_t parent, pid_t *pids, unsigned max)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)) != NULL && n < max) {
		char path[300], text[512];
		const char *p;
		int fd, ppid = 0;
		ssize_t size;

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		size = read(fd, text, sizeof(text) - 1);
		close(fd);
		if (size <= 0)
			continue;
		text[size] = '\0';
		p = strrchr(text, ')');
		if (p && sscanf(p + 3, "%d", &ppid) == 1 && ppid == parent)
			pids[n++] = (pid_t)atoi(e->d_name);
	}
	if (d)
		closedir(d);
	return n;
}

/* --- Running tests --- */

static bool selected(const char *name)
{
	for (int i = 1; i < g_argc; i++) {
		if (strstr(name, g_argv[i]))
			return true;
	}
	return g_argc <= 1;
}

static unsigned open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* What remains of the platform when no guest exists: the keeper, and a zygote (ptrace: for each
 * worker that had one). */
static unsigned wait_for_quiet(unsigned want)
{
	pid_t pids[4096];
	unsigned n = 0;

	for (int i = 0; i < PATIENCE_MS / 10; i++) {
		n = children_of(getpid(), pids, ARRAY_SIZE(pids));
		if (n <= want)
			break;
		sleep_ms(10);
	}
	return n;
}

static void run_list(const struct smoke_test *list)
{
	for (; list->name; list++) {
		unsigned fds;

		if (!selected(list->name))
			continue;
		if (list->lacks && strcmp(list->lacks, g_pf->name) == 0) {
			printf("  %s: skipped: %s\n", list->name, list->why);
			g_skipped++;
			continue;
		}
		if (list->not_root && getuid() == 0) {
			printf("  %s: skipped: as root: %s\n", list->name, list->not_root);
			g_skipped++;
			continue;
		}
		printf("  %s\n", list->name);
		fds = open_fds();
		g_failures = 0;
		list->fn();
		if (!g_smoke->keeps_fds)
			CHECK_EQ(open_fds(), fds);
		CHECK(wait_for_quiet(1 + worker_count()) <= 1 + worker_count());
		g_failures == 0 ? g_passed++ : g_failed++;
	}
}

static void main_fiber(void *arg)
{
	(void)arg;
	run_list(g_tests_run);
	run_list(g_tests_memory);
	run_list(g_tests_life);
	run_list(g_smoke->tests);
}

BLOB(loop_code, "1: mov $39, %eax\n syscall\n jmp 1b\n");
BLOB(victim_code, "1: jmp 1b");

#define VICTIMS 5

/* Whoever comes last says that all are there. */
static void victim_fiber(void *arg)
{
	static _Atomic unsigned made;
	struct guest g;

	(void)arg;
	if (GUEST(&g, victim_code)) {
		if (atomic_fetch_add(&made, 1) + 1 == VICTIMS)
			CHECK_EQ(write(STDOUT_FILENO, "ready\n", 6), 6);
		guest_run(&g);
	}
}

static void victim_main(void *arg)
{
	(void)arg;
	for (int i = 0; i < VICTIMS; i++)
		spawn(victim_fiber, NULL, NULL);
}

/* With the keeper killed files cannot be mapped; all else goes on. */
static void keeper_fiber(void *arg)
{
	pid_t pids[8];
	struct guest g, child;
	const unsigned n = children_of(getpid(), pids, ARRAY_SIZE(pids));
	const int fd = memfd_create("test", MFD_CLOEXEC);
	struct map_op op = {.kind = MAP_OP_FILE,
			    .host_fd = fd,
			    .addr = 0x700000,
			    .size = 4096,
			    .prot = PROT_READ};
	int r;

	(void)arg;
	/* The keeper is the oldest; others may have been made. */
	CHECK(n >= 1);
	if (GUEST(&g, loop_code)) {
		kill(pids[0], SIGKILL);
		wait_for_end(pids[0]);
		CHECK_EQ(g_pf->map(g.thread, &op, 1), -ENOMEM);
		guest_map(&g, 0x700000, 4096, PROT_READ);
		guest_expect(&g, 39);
		child = g;
		r = g_pf->as_fork(g.thread, &child.as, &child.thread);
		CHECK_EQ(r, g_smoke->fork_needs_keeper ? -ENOMEM : 0);
		if (r == 0) {
			guest_expect(&child, 39);
			guest_free(&child);
		}
		guest_expect(&g, 39);
		guest_free(&g);
	}
	close(fd);
	g_failures == 0 ? g_passed++ : g_failed++;
}

static void bench_main(void *arg)
{
	(void)arg;
	bench();
}

static bool choose(const char *name)
{
	for (unsigned i = 0; g_platforms[i]; i++) {
		if (strcmp(g_platforms[i]->name, name) == 0 && g_platforms[i] != &platform_mock)
			g_pf = g_platforms[i];
	}
	g_smoke = g_pf == &platform_ptrace ? &g_smoke_ptrace : &g_smoke_trap;
	return g_pf != NULL;
}

int main(int argc, char **argv)
{
	void (*fn)(void *) = main_fiber;
	unsigned workers = 2, fds;
	struct err e;
	int r;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2 || !choose(argv[1])) {
		fprintf(stderr, "platform_smoke: which platform: ptrace, trap or notify?\n");
		return 2;
	}
	argc--, argv++;
	if (argc > 1 && strcmp(argv[1], "--user") == 0) {
		if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0) {
			perror("--user");
			return 2;
		}
		argc--, argv++;
	}
	if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
		fn = bench_main;
		argc--, argv++;
		workers = 1;
	} else if (argc > 1 && strcmp(argv[1], "--victim") == 0) {
		fn = victim_main;
		argc--, argv++;
	} else if (argc > 1 && strcmp(argv[1], "--keeper") == 0) {
		fn = keeper_fiber;
		argc--, argv++;
	}
	g_argc = argc;
	g_argv = argv;
	if (clock_start(CLOCK_KIND_HOST, 0) < 0)
		return 2;
	r = g_pf->probe(&e);
	if (r < 0) {
		printf("skipped: this host does not allow %s: %s\n", g_pf->name, e.text);
		printf("0 passed, 0 failed, 1 skipped\n");
		return 0;
	}
	fds = open_fds();
	r = workers_start(workers, g_pf->worker_ops());
	if (r == 0)
		r = g_pf->start(&e);
	if (r < 0) {
		printf("cannot start: %s\n", e.text);
		return 2;
	}
	spawn(fn, NULL, worker_at(0));
	workers_stop();
	g_pf->stop();
	{
		pid_t pids[16];

		g_failures = 0;
		/* A process that was killed may take a moment to be gone on a busy machine. */
		for (int i = 0;
		     i < PATIENCE_MS / 10 && children_of(getpid(), pids, ARRAY_SIZE(pids)) > 0; i++)
			usleep(10000);
		CHECK_EQ(children_of(getpid(), pids, ARRAY_SIZE(pids)), 0);
		CHECK_EQ(open_fds(), fds);
		g_failed += g_failures != 0;
	}
	clock_stop();
	printf("%u passed, %u failed, %u skipped\n", g_passed, g_failed, g_skipped);
	return g_failed != 0;
}
