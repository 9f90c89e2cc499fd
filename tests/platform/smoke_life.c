/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Smoke tests: fork, threads, many address spaces, death.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "tests/platform/smoke.h"

#define RW (PROT_READ | PROT_WRITE)

BLOB(code_loop3, "1: mov $39, %eax\n syscall\n jmp 1b\n");
BLOB(code_fork,
     "movq %rdi, %xmm5\n mov $57, %eax\n syscall\n movq %xmm5, %rdi\n mov $39, %eax\n syscall\n"
     "incq 0x500000\n mov 0x500000, %rsi\n mov $40, %eax\n syscall\n");

static void test_fork(void)
{
	struct guest parent, child, grandchild;

	if (!GUEST(&parent, code_fork))
		return;
	parent.regs.rdi = 0x123456789;
	guest_expect(&parent, 57);
	guest_set_word(&parent, DATA, 100);
	child = parent;
	CHECK_EQ(g_pf->as_fork(parent.thread, &child.as, &child.thread), 0);
	CHECK(child.as != parent.as);
	CHECK(g_pf->as_home(child.as) == g_pf->as_home(parent.as));
	CHECK(g_pf->thread_as(child.thread) == child.as);
	/* Memory and vector state are copies. */
	guest_expect(&child, 39);
	CHECK_EQ(child.regs.rdi, 0x123456789);
	guest_expect(&child, 40);
	CHECK_EQ(child.regs.rsi, 101);
	CHECK_EQ(guest_word(&parent, DATA), 100);
	CHECK_EQ(guest_word(&child, DATA), 101);
	/* The child's maps are its own, with an order page of its own. */
	guest_map(&child, 0x700000, 4096, RW);
	guest_set_word(&child, 0x700000, 3);
	CHECK_EQ(g_pf->copy_in(parent.as, &(uint64_t){0}, GADDR(0x700000), 8), -EFAULT);
	guest_map(&parent, 0x800000, 4096, RW);
	CHECK_EQ(g_pf->copy_in(child.as, &(uint64_t){0}, GADDR(0x800000), 8), -EFAULT);
	grandchild = child;
	CHECK_EQ(g_pf->as_fork(child.thread, &grandchild.as, &grandchild.thread), 0);
	guest_free(&child);
	CHECK_EQ(guest_word(&grandchild, 0x700000), 3);
	guest_map(&grandchild, 0x900000, 4096, RW);
	guest_expect(&parent, 39);
	guest_expect(&parent, 40);
	CHECK_EQ(parent.regs.rsi, 101);
	guest_free(&parent);
	grandchild.regs.rip = CODE + 12;
	guest_expect(&grandchild, 39);
	guest_free(&grandchild);
}

/* --- Threads --- */

BLOB(code_inc, "1: lock incq 0x500000\n dec %rcx\n jnz 1b\n mov $39, %eax\n syscall\n");

struct runner {
	struct guest g;
	_Atomic unsigned *done;
};

static void run_incs(void *arg)
{
	struct runner *r = arg;

	r->g.regs.rip = CODE;
	r->g.regs.rcx = 200000;
	guest_expect(&r->g, 39);
	g_pf->thread_free(r->g.thread);
	atomic_fetch_add(r->done, 1);
}

static void test_threads(void)
{
	enum { N = 20 };
	static struct runner runners[N];
	_Atomic unsigned done = 0;
	struct guest g;
	uint64_t sum = 0;

	if (!GUEST(&g, code_inc))
		return;
	for (int i = 0; i < N; i++) {
		runners[i].g = g;
		runners[i].done = &done;
		CHECK_EQ(g_pf->thread_new(g.thread, &runners[i].g.thread), 0);
		CHECK(g_pf->thread_as(runners[i].g.thread) == g.as);
	}
	g_pf->as_get(g.as);
	for (int i = 0; i < N; i++)
		spawn(run_incs, &runners[i], g_pf->as_home(g.as));
	/* The leader's thread may go first: the address space stays. */
	guest_free(&g);
	wait_count(&done, N);
	CHECK_EQ(g_pf->copy_in(g.as, &sum, GADDR(DATA), 8), 8);
	CHECK_EQ(sum, N * 200000);
	g_pf->as_put(g.as);
}

static void free_thread(void *arg)
{
	struct runner *r = arg;

	g_pf->thread_free(r->g.thread);
	atomic_fetch_add(r->done, 1);
}

/* Threads and address spaces freed from another worker. */
static void test_free_from_afar(void)
{
	struct runner r[3];
	_Atomic unsigned done = 0;
	struct worker *other;
	struct guest g;

	if (!GUEST(&g, code_loop3))
		return;
	other = worker_at((worker_index(g_pf->as_home(g.as)) + 1) % worker_count());
	for (int i = 0; i < 2; i++) {
		r[i].g = g;
		r[i].done = &done;
		CHECK_EQ(g_pf->thread_new(g.thread, &r[i].g.thread), 0);
	}
	r[2].g = g;
	r[2].done = &done;
	guest_expect(&r[0].g, 39);
	spawn(free_thread, &r[2], other);
	spawn(free_thread, &r[0], other);
	wait_count(&done, 2);
	guest_expect(&r[1].g, 39);
	spawn(free_thread, &r[1], other);
	wait_count(&done, 3);
}

static void test_fork_from_thread(void)
{
	struct guest g, second, child;

	if (!GUEST(&g, code_loop3))
		return;
	second = g;
	CHECK_EQ(g_pf->thread_new(g.thread, &second.thread), 0);
	guest_expect(&second, 39);
	child = second;
	CHECK_EQ(g_pf->as_fork(second.thread, &child.as, &child.thread), 0);
	guest_expect(&child, 39);
	guest_expect(&second, 39);
	guest_free(&second);
	guest_free(&g);
	guest_expect(&child, 39);
	guest_free(&child);
}

/* --- Many --- */

struct crowd {
	_Atomic unsigned done, stop;
};

static void crowd_member(void *arg)
{
	struct crowd *c = arg;
	struct guest g;

	if (GUEST(&g, code_loop3)) {
		for (int i = 0; i < 20; i++)
			guest_expect(&g, 39);
		atomic_fetch_add(&c->done, 1);
		wait_count(&c->stop, 1);
		guest_expect(&g, 39);
		guest_free(&g);
	}
	atomic_fetch_add(&c->done, 1);
}

static void test_200(void)
{
	enum { N = 200 };
	struct crowd c = {0};

	for (int i = 0; i < N; i++)
		spawn(crowd_member, &c, worker_at((unsigned)i % worker_count()));
	wait_count(&c.done, N);
	atomic_store(&c.stop, 1);
	wait_count(&c.done, 2 * N);
}

static void test_1000_threads(void)
{
	enum { N = 1000 };
	static struct guest t[N];
	struct guest g;

	if (!GUEST(&g, code_loop3))
		return;
	for (int i = 0; i < N; i++) {
		t[i] = g;
		CHECK_EQ(g_pf->thread_new(g.thread, &t[i].thread), 0);
	}
	for (int i = 0; i < N; i++)
		guest_expect(&t[i], 39);
	for (int i = 0; i < N; i++)
		guest_free(&t[i]);
	guest_expect(&g, 39);
	guest_free(&g);
}

static void test_churn(void)
{
	struct guest g, child;

	if (!GUEST(&g, code_loop3))
		return;
	for (int i = 0; i < 500; i++) {
		child = g;
		CHECK_EQ(g_pf->as_fork(g.thread, &child.as, &child.thread), 0);
		guest_expect(&child, 39);
		guest_free(&child);
	}
	guest_free(&g);
}

/* --- Signals and death from outside --- */

static _Atomic bool g_bomb_stop;

static void *bomb(void *arg)
{
	static const int signals[] = {SIGTERM, SIGSTOP, SIGCONT, SIGUSR1, SIGTRAP, SIGSEGV, SIGINT,
				      SIGURG,  SIGSYS,  SIGBUS,  SIGILL,  SIGTSTP, SIGCHLD, 40};
	const pid_t pid = *(pid_t *)arg;

	for (unsigned i = 0; !atomic_load(&g_bomb_stop); i++) {
		kill(pid, signals[i % ARRAY_SIZE(signals)]);
		usleep(100);
	}
	return NULL;
}

static void test_stray_signals(void)
{
	struct guest g, second;
	pthread_t th;
	pid_t pid;
	uint32_t old;

	if (!GUEST(&g, code_loop3))
		return;
	second = g;
	CHECK_EQ(g_pf->thread_new(g.thread, &second.thread), 0);
	pid = guest_pid(&g);
	atomic_store(&g_bomb_stop, false);
	CHECK_EQ(pthread_create(&th, NULL, bomb, &pid), 0);
	for (int i = 0; i < 5000 && g_failures < 5; i++) {
		guest_expect(i & 1 ? &g : &second, 39);
		if (i % 8 == 0)
			guest_map(&g, 0x700000, 4096, RW);
		if (i % 8 == 4)
			CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA), ATOMIC_ADD, 1, 0, &old), 0);
		if (i % 50 == 0) {
			struct guest child = g;

			CHECK_EQ(g_pf->as_fork(g.thread, &child.as, &child.thread), 0);
			guest_expect(&child, 39);
			guest_free(&child);
		}
		if (i % 50 == 25) {
			struct guest third = g;

			CHECK_EQ(g_pf->thread_new(g.thread, &third.thread), 0);
			guest_expect(&third, 39);
			guest_free(&third);
		}
	}
	atomic_store(&g_bomb_stop, true);
	pthread_join(th, NULL);
	guest_free(&g);
	guest_free(&second);
}

BLOB(code_spin3, "1: jmp 1b\n");

static void *kill_later(void *arg)
{
	usleep(20000);
	kill(*(pid_t *)arg, SIGKILL);
	return NULL;
}

static void expect_dead(struct guest *g)
{
	uint64_t word;
	uint32_t old;
	struct map_op op = {.kind = MAP_OP_ANON, .addr = 0x700000, .size = 4096, .prot = RW};
	struct guest child = *g;

	CHECK(g_pf->map(g->thread, &op, 1) < 0 || g_smoke->defers);
	CHECK(g_pf->as_fork(g->thread, &child.as, &child.thread) < 0);
	CHECK_EQ(g_pf->atomic32(g->thread, GADDR(DATA), ATOMIC_ADD, 1, 0, &old), -EFAULT);
	guest_run(g);
	CHECK_EQ(g->trap.kind, TRAP_DEAD);
	guest_run(g);
	CHECK_EQ(g->trap.kind, TRAP_DEAD);
	CHECK_EQ(g_pf->copy_in(g->as, &word, GADDR(DATA), 8), -EFAULT);
	CHECK_EQ(g_pf->copy_force(g->as, GADDR(DATA), &word, 8, false), -EFAULT);
	g_pf->interrupt(g->thread);
}

static void test_killed(void)
{
	struct guest g, second;
	pthread_t th;
	pid_t pid;

	/* While it runs. */
	if (!GUEST(&g, code_spin3))
		return;
	pid = guest_pid(&g);
	CHECK_EQ(pthread_create(&th, NULL, kill_later, &pid), 0);
	guest_run(&g);
	CHECK_EQ(g.trap.kind, TRAP_DEAD);
	pthread_join(th, NULL);
	expect_dead(&g);
	guest_free(&g);

	/* While it is stopped. */
	if (!GUEST(&g, code_loop3))
		return;
	guest_expect(&g, 39);
	kill(guest_pid(&g), SIGKILL);
	expect_dead(&g);
	guest_free(&g);

	/* The leader runs, another thread is stopped. */
	if (!GUEST(&g, code_spin3))
		return;
	second = g;
	CHECK_EQ(g_pf->thread_new(g.thread, &second.thread), 0);
	pid = guest_pid(&g);
	CHECK_EQ(pthread_create(&th, NULL, kill_later, &pid), 0);
	guest_run(&g);
	CHECK_EQ(g.trap.kind, TRAP_DEAD);
	pthread_join(th, NULL);
	expect_dead(&second);
	guest_free(&second);
	guest_free(&g);

	/* The other one runs, the leader is stopped. */
	if (!GUEST(&g, code_spin3))
		return;
	second = g;
	CHECK_EQ(g_pf->thread_new(g.thread, &second.thread), 0);
	pid = guest_pid(&g);
	CHECK_EQ(pthread_create(&th, NULL, kill_later, &pid), 0);
	guest_run(&second);
	CHECK_EQ(second.trap.kind, TRAP_DEAD);
	pthread_join(th, NULL);
	expect_dead(&g);
	guest_free(&g);
	guest_free(&second);
}

/* Killed at random moments of its life. */
static void test_killed_anytime(void)
{
	for (int i = 0; i < 150; i++) {
		struct guest g, second, child;
		pthread_t th;
		pid_t pid;
		uint32_t old;
		bool alive = true;

		if (!GUEST(&g, code_loop3))
			return;
		pid = guest_pid(&g);
		second = child = g;
		CHECK_EQ(g_pf->thread_new(g.thread, &second.thread), 0);
		CHECK_EQ(pthread_create(&th, NULL, kill_later, &pid), 0);
		while (alive) {
			struct map_op op = {
				.kind = MAP_OP_ANON, .addr = 0x700000, .size = 4096, .prot = RW};
			struct guest *who = i & 1 ? &g : &second;

			guest_run(who);
			alive = who->trap.kind != TRAP_DEAD;
			if (i % 5 == 1)
				alive = g_pf->map(who->thread, &op, 1) == 0 && alive;
			if (i % 5 == 2)
				alive = g_pf->atomic32(who->thread, GADDR(DATA), ATOMIC_ADD, 1, 0,
						       &old) == 0 &&
					alive;
			if (i % 5 == 3 && g_pf->as_fork(who->thread, &child.as, &child.thread) == 0)
				guest_free(&child);
			if (i % 5 == 4 && g_pf->thread_new(who->thread, &child.thread) == 0)
				guest_free(&child);
		}
		pthread_join(th, NULL);
		guest_free(&g);
		guest_free(&second);
	}
}

/* kill -9 of the sentry leaves nothing. */
static void test_sentry_killed(void)
{
	int pipe_fd[2];
	char line[16];
	pid_t pid, pids[64];
	unsigned n = 0, left = 99;

	CHECK_EQ(pipe2(pipe_fd, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		dup2(pipe_fd[1], STDOUT_FILENO);
		execl("/proc/self/exe", "platform_smoke", g_pf->name, "--victim", NULL);
		_exit(1);
	}
	close(pipe_fd[1]);
	CHECK_EQ(read(pipe_fd[0], line, sizeof(line)), 6);
	close(pipe_fd[0]);
	n = children_of(pid, pids, ARRAY_SIZE(pids));
	/* The keeper, one or two zygotes, five address spaces. */
	CHECK(n >= 7);
	kill(pid, SIGKILL);
	for (int i = 0; i < PATIENCE_MS / 10 && left != 0; i++) {
		left = 0;
		for (unsigned k = 0; k < n; k++) {
			const char state = process_state(pids[k]);

			/* A zombie waits for init to take it. */
			left += state != 0 && state != 'Z' && state != 'X';
		}
		usleep(10000);
	}
	CHECK_EQ(left, 0);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
}

const struct smoke_test g_tests_life[] = {
	{"fork", test_fork},
	{"threads", test_threads},
	{"free-from-afar", test_free_from_afar},
	{"fork-from-thread", test_fork_from_thread},
	{"200-address-spaces", test_200},
	{"1000-threads", test_1000_threads},
	{"churn", test_churn},
	{"stray-signals", test_stray_signals},
	{"killed", test_killed},
	{"killed-anytime", test_killed_anytime},
	{"sentry-killed", test_sentry_killed},
	{0},
};
