/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Smoke tests: map operations, copies, atomics.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tests/platform/smoke.h"

#define RW (PROT_READ | PROT_WRITE)
#define AT ((uint64_t)0x700000)
#define PAGE 4096ul

BLOB(code_loop2, "1: mov $39, %eax\n syscall\n jmp 1b\n");

static int one(struct guest *g, struct map_op op)
{
	int r = g_pf->map(g->thread, &op, 1);

	CHECK_EQ(r, op.result);
	return r;
}

static void test_map_ops(void)
{
	struct guest g;

	if (!GUEST(&g, code_loop2))
		return;
	CHECK_EQ(
		one(&g,
		    (struct map_op){.kind = MAP_OP_ANON, .addr = AT, .size = 4 * PAGE, .prot = RW}),
		0);
	guest_set_word(&g, AT + 2 * PAGE, 7);
	/* Replaces. */
	CHECK_EQ(one(&g,
		     (struct map_op){
			     .kind = MAP_OP_ANON, .addr = AT + 2 * PAGE, .size = PAGE, .prot = RW}),
		 0);
	CHECK_EQ(guest_word(&g, AT + 2 * PAGE), 0);
	guest_set_word(&g, AT, 8);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_ADVISE,
					 .addr = AT,
					 .size = PAGE,
					 .advice = MADV_DONTNEED}),
		 0);
	CHECK_EQ(guest_word(&g, AT), 0);
	/* Grows and shrinks in place, moves, moves and leaves the old range. */
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT,
					 .size = 4 * PAGE,
					 .new_addr = AT,
					 .new_size = 2 * PAGE}),
		 0);
	CHECK_EQ(g_pf->copy_in(g.as, &(uint64_t){0}, GADDR(AT + 2 * PAGE), 8), -EFAULT);
	guest_set_word(&g, AT, 9);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT,
					 .size = 2 * PAGE,
					 .new_addr = AT + 16 * PAGE,
					 .new_size = 4 * PAGE}),
		 0);
	CHECK_EQ(guest_word(&g, AT + 16 * PAGE), 9);
	CHECK_EQ(g_pf->copy_in(g.as, &(uint64_t){0}, GADDR(AT), 8), -EFAULT);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_REMAP,
					 .flags = MAP_OPF_DONTUNMAP,
					 .addr = AT + 16 * PAGE,
					 .size = 4 * PAGE,
					 .new_addr = AT,
					 .new_size = 4 * PAGE}),
		 0);
	CHECK_EQ(guest_word(&g, AT), 9);
	CHECK_EQ(guest_word(&g, AT + 16 * PAGE), 0);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_UNMAP, .addr = AT, .size = 4 * PAGE}), 0);
	CHECK_EQ(g_pf->copy_in(g.as, &(uint64_t){0}, GADDR(AT), 8), -EFAULT);
	/* Refused before the host hears of it. */
	CHECK_EQ(
		one(&g,
		    (struct map_op){.kind = MAP_OP_ANON, .addr = AT + 1, .size = PAGE, .prot = RW}),
		-EINVAL);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_ANON,
					 .addr = PF_GUEST_LIMIT,
					 .size = PAGE,
					 .prot = RW}),
		 -EINVAL);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_UNMAP,
					 .addr = PF_GUEST_LIMIT - PAGE,
					 .size = 2 * PAGE}),
		 -EINVAL);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_UNMAP, .addr = 0, .size = ~0xfffull}),
		 -EINVAL);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_REMAP,
					 .addr = AT + 16 * PAGE,
					 .size = PAGE,
					 .new_addr = PF_GUEST_LIMIT + 0x10000,
					 .new_size = PAGE}),
		 -EINVAL);
	CHECK_EQ(one(&g,
		     (struct map_op){
			     .kind = MAP_OP_PROTECT, .addr = 0x10000000, .size = PAGE, .prot = RW}),
		 -ENOMEM);
	/* On x86 what may be written or executed may be read. */
	guest_map(&g, AT, PAGE, PROT_WRITE);
	CHECK_EQ(guest_word(&g, AT), 0);
	guest_map(&g, AT, PAGE, PROT_EXEC);
	CHECK_EQ(guest_word(&g, AT), 0);
	/* The last page below the limit is the guest's. */
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_ANON,
					 .addr = PF_GUEST_LIMIT - PAGE,
					 .size = PAGE,
					 .prot = RW}),
		 0);
	guest_set_word(&g, PF_GUEST_LIMIT - 8, 5);
	CHECK_EQ(guest_word(&g, PF_GUEST_LIMIT - 8), 5);
	guest_expect(&g, 39);
	guest_free(&g);
}

static void test_map_batch(void)
{
	struct map_op ops[200];
	struct guest g;

	if (!GUEST(&g, code_loop2))
		return;
	memset(ops, 0, sizeof(ops));
	for (size_t i = 0; i < 200; i++)
		ops[i] = (struct map_op){
			.kind = MAP_OP_ANON, .addr = AT + i * 2 * PAGE, .size = PAGE, .prot = RW};
	CHECK_EQ(g_pf->map(g.thread, ops, 200), 0);
	for (size_t i = 0; i < 200; i++) {
		CHECK_EQ(ops[i].result, 0);
		guest_set_word(&g, AT + i * 2 * PAGE, i);
	}
	/* A failure in the second page of orders: what is before is done, what is after is not. */
	for (size_t i = 0; i < 200; i++)
		ops[i].kind = MAP_OP_UNMAP;
	ops[100] = (struct map_op){
		.kind = MAP_OP_PROTECT, .addr = 0x20000000, .size = PAGE, .prot = RW};
	CHECK_EQ(g_pf->map(g.thread, ops, 200), -ENOMEM);
	CHECK_EQ(ops[99].result, 0);
	CHECK_EQ(ops[100].result, -ENOMEM);
	CHECK_EQ(ops[101].result, -ECANCELED);
	CHECK_EQ(g_pf->copy_in(g.as, &(uint64_t){0}, GADDR(AT + 99 * 2 * PAGE), 8), -EFAULT);
	CHECK_EQ(guest_word(&g, AT + 101 * 2 * PAGE), 101);
	/* One that we refuse ourselves in the middle. */
	memset(ops, 0, sizeof(ops));
	for (size_t i = 0; i < 3; i++)
		ops[i] = (struct map_op){
			.kind = MAP_OP_ANON, .addr = AT + i * PAGE, .size = PAGE, .prot = RW};
	ops[1].addr++;
	CHECK_EQ(g_pf->map(g.thread, ops, 3), -EINVAL);
	CHECK_EQ(ops[0].result, 0);
	CHECK_EQ(ops[1].result, -EINVAL);
	CHECK_EQ(ops[2].result, -ECANCELED);
	CHECK_EQ(g_pf->map(g.thread, ops, 0), 0);
	guest_free(&g);
}

static unsigned keeper_fds(void)
{
	pid_t pids[64];
	unsigned n = children_of(getpid(), pids, 64), fds = 0;

	/* All stubs share one table: any of them tells. */
	for (unsigned i = 0; i < n && i < 1; i++) {
		for (int fd = 0; fd < 4096; fd++) {
			char path[64], target[64];

			snprintf(path, sizeof(path), "/proc/%d/fd/%d", pids[i], fd);
			fds += readlink(path, target, sizeof(target)) >= 0;
		}
	}
	return fds;
}

/* The keeper closes when it gets to it. */
static void wait_for_fds(unsigned fds)
{
	for (int i = 0; i < PATIENCE_MS && keeper_fds() != fds; i++)
		sleep_ms(1);
	CHECK_EQ(keeper_fds(), fds);
}

static void test_map_file(void)
{
	const int fd = memfd_create("test", MFD_CLOEXEC);
	char page[PAGE];
	struct guest g;
	unsigned fds;

	memset(page, 'a', sizeof(page));
	CHECK_EQ(pwrite(fd, page, sizeof(page), 0), sizeof(page));
	CHECK_EQ(pwrite(fd, page, sizeof(page), PAGE), sizeof(page));
	if (!GUEST(&g, code_loop2))
		return;
	fds = keeper_fds();
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_FILE,
					 .host_fd = fd,
					 .addr = AT,
					 .size = PAGE,
					 .prot = RW}),
		 0);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_FILE,
					 .flags = MAP_OPF_SHARED,
					 .host_fd = fd,
					 .offset = PAGE,
					 .addr = AT + PAGE,
					 .size = PAGE,
					 .prot = RW}),
		 0);
	wait_for_fds(fds); /* key 0: nothing stays */
	CHECK_EQ(g_pf->copy_in(g.as, page, GADDR(AT), 4), 4);
	CHECK(memcmp(page, "aaaa", 4) == 0);
	guest_set_word(&g, AT, 1);
	guest_set_word(&g, AT + PAGE, 0x6262626262626262);
	CHECK_EQ(pread(fd, page, 8, 0), 8);
	CHECK(memcmp(page, "aaaaaaaa", 8) == 0);
	CHECK_EQ(pread(fd, page, 8, PAGE), 8);
	CHECK(memcmp(page, "bbbbbbbb", 8) == 0);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_SYNC, .addr = AT + PAGE, .size = PAGE}), 0);
	/* With a key one descriptor stays until it is forgotten; the mapping lives on. */
	for (int i = 0; i < 5; i++)
		CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_FILE,
						 .host_fd = fd,
						 .file_key = 42,
						 .addr = AT,
						 .size = PAGE,
						 .prot = PROT_READ}),
			 0);
	CHECK_EQ(keeper_fds(), fds + 1);
	g_pf->forget_file(42);
	g_pf->forget_file(43);
	wait_for_fds(fds);
	CHECK_EQ(g_pf->copy_in(g.as, page, GADDR(AT), 4), 4);
	/* Errors of the host's. */
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_FILE,
					 .host_fd = -1,
					 .addr = AT,
					 .size = PAGE,
					 .prot = RW}),
		 -EBADF);
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_FILE,
					 .host_fd = 9999,
					 .addr = AT,
					 .size = PAGE,
					 .prot = RW}),
		 -EBADF);
	/* Past the end: SIGBUS for the guest, EFAULT for copies. */
	CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_FILE,
					 .host_fd = fd,
					 .offset = 4 * PAGE,
					 .addr = AT,
					 .size = PAGE,
					 .prot = RW}),
		 0);
	CHECK_EQ(g_pf->copy_in(g.as, page, GADDR(AT), 4), -EFAULT);
	guest_free(&g);
	close(fd);
}

static void test_map_many_files(void)
{
	struct guest g;
	unsigned fds;

	if (!GUEST(&g, code_loop2))
		return;
	fds = keeper_fds();
	/* More than the cache holds. */
	for (uint64_t key = 1; key <= 1500; key++) {
		const int fd = memfd_create("test", MFD_CLOEXEC);

		CHECK_EQ(pwrite(fd, &key, 8, 0), 8);
		CHECK_EQ(one(&g, (struct map_op){.kind = MAP_OP_FILE,
						 .host_fd = fd,
						 .file_key = key,
						 .addr = AT,
						 .size = PAGE,
						 .prot = PROT_READ}),
			 0);
		CHECK_EQ(guest_word(&g, AT), key);
		close(fd);
	}
	for (int i = 0; i < PATIENCE_MS && keeper_fds() > fds + 1024; i++)
		sleep_ms(1);
	CHECK(keeper_fds() <= fds + 1024);
	for (uint64_t key = 1; key <= 1500; key++)
		g_pf->forget_file(key);
	wait_for_fds(fds);
	guest_free(&g);
}

static void test_copies(void)
{
	static char buf[64 * PAGE];
	struct guest g;
	uint64_t v = 1;

	if (!GUEST(&g, code_loop2))
		return;
	/* Short at the first page that is not there. */
	CHECK_EQ(g_pf->copy_out(g.as, GADDR(STACK_TOP - 100), buf, 4096), 100);
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(STACK_TOP - 5000), 8192), 5000);
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(STACK_TOP), 1), -EFAULT);
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(0), 1), -EFAULT);
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(0), 0), 0);
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(~0ull), 8), -EFAULT);
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(0xffffffffff600000), 8), -EFAULT);
	/* The stub's region is nobody's. */
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(PF_GUEST_LIMIT + 0x10000), 8), -EFAULT);
	CHECK_EQ(g_pf->copy_out(g.as, GADDR(PF_GUEST_LIMIT + 0x40000), buf, 8), -EFAULT);
	guest_map(&g, PF_GUEST_LIMIT - PAGE, PAGE, RW);
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(PF_GUEST_LIMIT - 8), 16), 8);
	/* Protections count; copy_force passes them. */
	CHECK_EQ(g_pf->copy_out(g.as, GADDR(CODE), &v, 8), -EFAULT);
	guest_map(&g, AT, PAGE, PROT_NONE);
	CHECK_EQ(g_pf->copy_in(g.as, &v, GADDR(AT), 8), -EFAULT);
	v = 77;
	CHECK_EQ(g_pf->copy_force(g.as, GADDR(CODE + 64), &v, 8, true), 8);
	v = 0;
	CHECK_EQ(g_pf->copy_force(g.as, GADDR(CODE + 64), &v, 8, false), 8);
	CHECK_EQ(v, 77);
	CHECK_EQ(g_pf->copy_force(g.as, GADDR(PF_GUEST_LIMIT + 0x10000), &v, 8, true), -EFAULT);
	CHECK_EQ(g_pf->copy_force(g.as, GADDR(0x30000000), &v, 8, false), -EFAULT);
	/* Over many pages. */
	guest_map(&g, AT, sizeof(buf), RW);
	for (size_t i = 0; i < sizeof(buf); i++)
		buf[i] = (char)(i * 7 / 4096);
	CHECK_EQ(g_pf->copy_out(g.as, GADDR(AT), buf, sizeof(buf)), sizeof(buf));
	memset(buf, 0, sizeof(buf));
	CHECK_EQ(g_pf->copy_in(g.as, buf, GADDR(AT), sizeof(buf)), sizeof(buf));
	for (size_t i = 0; i < sizeof(buf); i++) {
		if (buf[i] != (char)(i * 7 / 4096)) {
			CHECK_EQ(i, -1);
			break;
		}
	}
	guest_free(&g);
}

static void test_atomics(void)
{
	struct guest g;
	uint32_t old;

	if (!GUEST(&g, code_loop2))
		return;
	guest_set_word(&g, DATA, 5);
	CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA), ATOMIC_CMPXCHG, 9, 4, &old), 0);
	CHECK_EQ(old, 5);
	CHECK_EQ(guest_word(&g, DATA), 5);
	CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA), ATOMIC_CMPXCHG, 9, 5, &old), 0);
	CHECK_EQ(old, 5);
	CHECK_EQ(guest_word(&g, DATA), 9);
	CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA), ATOMIC_XCHG, 0xf0, 0, &old), 0);
	CHECK_EQ(old, 9);
	CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA), ATOMIC_ADD, 0xffffffff, 0, &old), 0);
	CHECK_EQ(old, 0xf0);
	CHECK_EQ(guest_word(&g, DATA), 0xef);
	CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA), ATOMIC_OR, 0x110, 0, &old), 0);
	CHECK_EQ(old, 0xef);
	CHECK_EQ(guest_word(&g, DATA), 0x1ff);
	CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA), ATOMIC_ANDN, 0x0f, 0, &old), 0);
	CHECK_EQ(old, 0x1ff);
	CHECK_EQ(guest_word(&g, DATA), 0x1f0);
	CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA), ATOMIC_XOR, 0x1ff, 0, &old), 0);
	CHECK_EQ(old, 0x1f0);
	CHECK_EQ(guest_word(&g, DATA), 0x0f);
	for (int op = ATOMIC_CMPXCHG; op <= ATOMIC_XOR; op++) {
		CHECK_EQ(g_pf->atomic32(g.thread, GADDR(AT), op, 1, 0, &old), -EFAULT);
		CHECK_EQ(g_pf->atomic32(g.thread, GADDR(CODE), op, 1, 0, &old), -EFAULT);
		CHECK_EQ(g_pf->atomic32(g.thread, GADDR(DATA + 2), op, 1, 0, &old), -EFAULT);
		CHECK_EQ(g_pf->atomic32(g.thread, GADDR(PF_GUEST_LIMIT + 0x40000), op, 1, 0, &old),
			 -EFAULT);
		CHECK_EQ(g_pf->atomic32(g.thread, GADDR(~3ull), op, 1, 0, &old), -EFAULT);
	}
	guest_expect(&g, 39);
	guest_free(&g);
}

static void test_statistics(void)
{
	struct pf_mem_stats mem;
	struct pf_cpu_times times;
	uint8_t vec[16];
	struct guest g;

	if (!GUEST(&g, code_loop2))
		return;
	guest_expect(&g, 39);
	guest_map(&g, AT, 16 * PAGE, RW);
	guest_set_word(&g, AT + 3 * PAGE, 1);
	CHECK_EQ(g_pf->resident(g.as, AT, 16, vec), 0);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(vec[i], i == 3);
	g_pf->mem_stats(g.as, &mem);
	CHECK(mem.rss_bytes >= PAGE && mem.rss_bytes < 4 << 20);
	CHECK(mem.peak_rss_bytes >= mem.rss_bytes);
	g_pf->cpu_times(g.thread, &times);
	CHECK(times.user_ns + times.system_ns > 0);
	if (!g_smoke->tells_time_only) {
		CHECK(times.minor_faults > 0);
		CHECK(times.voluntary_switches > 0);
	}
	guest_free(&g);
}

/* What a guest could find in its own process: nothing of the host's. */
static void test_layout(void)
{
	char path[64], line[256];
	struct guest g;
	FILE *f;

	if (!GUEST(&g, code_loop2))
		return;
	snprintf(path, sizeof(path), "/proc/%d/maps", guest_pid(&g));
	f = fopen(path, "re");
	CHECK(f != NULL);
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long from = 0, to = 0;
		char prot[8] = "";

		CHECK_EQ(sscanf(line, "%lx-%lx %7s", &from, &to, prot), 3);
		if (from == 0xffffffffff600000 || (from >= CODE && to <= STACK_TOP))
			continue;
		if (!g_smoke->has_mapping(from, prot) && !strstr(line, "[vdso]") &&
		    !strstr(line, "[vvar")) /* hosts that seal them */
			printf("    unexpected: %s", line), g_failures++;
		CHECK(from >= PF_GUEST_LIMIT);
	}
	if (f)
		fclose(f);
	guest_free(&g);
}

const struct smoke_test g_tests_memory[] = {
	{"map-ops", test_map_ops},
	{"map-batch", test_map_batch},
	{"map-file", test_map_file},
	{"map-many-files", test_map_many_files},
	{"copies", test_copies},
	{"atomics", test_atomics},
	{"statistics", test_statistics},
	{"layout", test_layout},
	{0},
};
