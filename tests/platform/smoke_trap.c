/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Smoke tests: what only trap and notify have, which share a stub.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "platform/trap.h"
#include "tests/platform/smoke.h"

BLOB(code_loop_trap, "1: mov $39, %eax\n syscall\n jmp 1b\n");

static pid_t trap_pid(const struct guest *g)
{
	return g->as->pid;
}

static bool trap_has_mapping(uint64_t from, const char *prot)
{
	switch (from) {
	case TS_TEXT:
		return strcmp(prot, "r-xp") == 0;
	case TS_CONFIG:
	case TS_TIME:
	case TS_ORDERS:
		return strcmp(prot, "r--s") == 0;
	default:
		return from >= TS_AREAS &&
		       from < TS_AREAS + (uint64_t)TS_AREAS_MAX * TS_AREA_SIZE &&
		       strcmp(prot, "rw-s") == 0;
	}
}

/* Each system call instruction of the stub's text, reached by a guest thread with the arguments of
 * calls that others may make there, or that nobody may: SIGSYS, which the sentry sees as a call. */
static void test_filter(void)
{
	static const struct {
		uint64_t nr, arg[6];
	} refused[] = {
		{SYS_getpid, {0}},
		{SYS_execve, {0}},
		{SYS_getppid, {0}},
		{SYS_exit_group, {0}},
		{SYS_kill, {1, 0}},
		{SYS_clone, {TS_CLONE_FORK}},
		{SYS_clone, {TS_CLONE_THREAD, 0, 0, TS_AREAS + TS_A_TID}},
		{SYS_mmap, {0x700000, 4096, 7, 0x32, (uint64_t)-1}},
		{SYS_mmap, {0x700000, 4096, 3, 0x31, (uint64_t)-1}},
		{SYS_mmap, {0x700000, 0x101000, 3, 0x32, (uint64_t)-1}},
		{SYS_mmap, {PF_GUEST_LIMIT - 4096, 4096, 3, 0x32, (uint64_t)-1}},
		{SYS_mmap, {TS_AREAS, 4096, 3, 0x32, (uint64_t)-1}},
		{SYS_mmap, {TS_ORDERS, TS_ORDERS_SIZE, 1, 0x11, TS_FD_ORDERS}},
		{SYS_mprotect, {DATA, 4096, 5}},
		{SYS_mprotect, {DATA, 0x101000, 3}},
		{SYS_mprotect, {TS_AREAS, 4096, 3}},
		{SYS_mprotect, {PF_GUEST_LIMIT - 4096, 4096, 3}},
		{SYS_munmap, {DATA, 0x101000}},
		{SYS_munmap, {TS_TEXT, 4096}},
		{SYS_munmap, {PF_GUEST_LIMIT - 4096, 4096}},
		{SYS_madvise, {DATA, 4096, 4}},
		{SYS_lseek, {TS_FD_ORDERS, 0, 0}},
		{SYS_seccomp, {1, 0, TS_CONFIG}},
		{SYS_prctl, {1, 0}},
		{SYS_recvmsg, {TS_FD_SOCKET}},
		{SYS_close, {TS_FD_SOCKET}},
		{SYS_futex, {DATA, 0}}, /* FUTEX_WAIT: the same for others who map the same file */
		{SYS_futex, {DATA, 1}}, /* FUTEX_WAKE */
		{SYS_futex, {DATA, 5}}, /* FUTEX_WAKE_OP */
		{SYS_arch_prctl, {0x1003, DATA}},
		{SYS_rt_sigaction, {15, 0, 0, 8}},
		{SYS_getpid | 0x40000000, {0}},
	};
	uint8_t text[TS_TEXT_SIZE];
	ssize_t size;
	unsigned sites = 0;
	char path[64];
	struct guest g;
	int fd;

	if (!GUEST(&g, code_loop_trap))
		return;
	snprintf(path, sizeof(path), "/proc/%d/mem", trap_pid(&g));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Its last pages may be empty. */
	size = pread(fd, text, sizeof(text), TS_TEXT);
	close(fd);
	for (ssize_t at = 0; at + 1 < size && g_failures < 5; at++) {
		if (text[at] != 0x0f || text[at + 1] != 0x05)
			continue;
		sites++;
		for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
			g.regs.rip = TS_TEXT + (uint64_t)at;
			g.regs.rsp = STACK_TOP;
			g.regs.rax = refused[i].nr;
			g.regs.rdi = refused[i].arg[0];
			g.regs.rsi = refused[i].arg[1];
			g.regs.rdx = refused[i].arg[2];
			g.regs.r10 = refused[i].arg[3];
			g.regs.r8 = refused[i].arg[4];
			g.regs.r9 = refused[i].arg[5];
			guest_expect(&g, refused[i].nr);
			CHECK_EQ(g.regs.rip, TS_TEXT + (uint64_t)at + 2);
			if (g.trap.kind == TRAP_DEAD) {
				printf("    call %d at text + %#zx\n", (int)refused[i].nr, at);
				break;
			}
		}
	}
	/* The guest threads' own, the agent's, the keeper's. */
	CHECK(sites > 10);
	g.regs.rip = CODE;
	guest_expect(&g, 39);
	guest_free(&g);
}

/* Its host thread has ended while an order is carried out on its behalf: then its process has, too,
 * or a later one that wakes the agent would have it map an area that is another process's by then.
 */
static void test_gone(void)
{
	struct guest g, child;
	struct pf_thread *t;

	if (!GUEST(&g, code_loop_trap))
		return;
	guest_expect(&g, 39);
	child = g;
	CHECK_EQ(g_pf->as_fork(g.thread, &child.as, &child.thread), 0);
	guest_expect(&child, 39);
	/* As it is told whoever interrupts it. */
	atomic_store(&child.thread->gone, true);
	if (g_pf->thread_new(child.thread, &t) == 0)
		g_pf->thread_free(t);
	else
		CHECK(atomic_load(&child.as->dead));
	guest_free(&child);
	guest_expect(&g, 39);
	guest_free(&g);
}

/* Areas of guest threads that the host has mapped in @g. */
static unsigned areas_mapped(const struct guest *g)
{
	char path[64], line[256], prot[8];
	uint64_t from, to, size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", trap_pid(g));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, prot) == 3 &&
		    from >= TS_AREAS && from < TS_VIEWS)
			size += to - from;
	}
	if (f)
		fclose(f);
	return (unsigned)(size / TS_AREA_SIZE);
}

/* The host makes no thread more: the area that is mapped for it then is nobody else's. */
static void test_no_thread(void)
{
	const struct rlimit none = {1, 1};
	struct pf_thread *t;
	struct guest g;

	if (!GUEST(&g, code_loop_trap))
		return;
	guest_expect(&g, 39);
	CHECK_EQ(prlimit(trap_pid(&g), RLIMIT_NPROC, &none, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		CHECK(g_pf->thread_new(g.thread, &t) < 0);
	CHECK_EQ(areas_mapped(&g), g.as->area_count);
	guest_expect(&g, 39);
	guest_free(&g);
}

static const struct smoke_test tests[] = {
	{"filter", test_filter},
	{"gone", test_gone},
	{"no-thread", test_no_thread, .not_root = "nobody limits its threads; see --user"},
	{0},
};

const struct smoke_stub g_smoke_trap = {
	.pid = trap_pid,
	.has_mapping = trap_has_mapping,
	.tests = tests,
	.keeps_fds = true,
	.tells_time_only = true,
	.defers = true,
	.fork_needs_keeper = true,
};
