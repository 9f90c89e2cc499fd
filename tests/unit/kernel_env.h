/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole kernel on the mock platform, for tests of syscalls: a root file system in memory, and
 * guest programs that are C functions.
 */
#ifndef MOAT_TESTS_KERNEL_ENV_H
#define MOAT_TESTS_KERNEL_ENV_H

#include "platform/mock.h"
#include "sentry/syscall.h"

/* Boots, runs @guest as the first process (root, umask 022, no descriptors, cwd /), and returns its
 * wait status when no task is left. Once a process: the kernel is not taken down to start again. */
int kernel_env_run(mock_fn *guest, void *arg);

/* ---- for guest code ---- */

/* 1 MiB of memory that the program has from the start. */
#define GUEST_DATA ((uint64_t)0x10000000)
#define GUEST_DATA_SIZE ((uint64_t)1 << 20)
/* An address with nothing behind it. */
#define GUEST_BAD ((uint64_t)0x666000)

#define SYS(mt, name, ...) SYS_(mt, NR_##name, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define SYS_(mt, nr, a, b, c, d, e, f, ...)                                              \
	mock_syscall(mt, nr, (uint64_t)(a), (uint64_t)(b), (uint64_t)(c), (uint64_t)(d), \
		     (uint64_t)(e), (uint64_t)(f))

/* What a call gives; in files that include Criterion. */
#define IS(call, want)                                                                             \
	do {                                                                                       \
		long is_got_ = (long)(call), is_want_ = (long)(want);                              \
		cr_expect_eq(is_got_, is_want_, "line %d: %s gives %ld, not %ld", __LINE__, #call, \
			     is_got_, is_want_);                                                   \
	} while (0)

/* A test whose body is what the first process does; it returns the process's exit status. */
#define GUEST_TEST(suite, name)                                     \
	static int name##_guest(struct mock_thread *mt, void *arg); \
	Test(suite, name)                                           \
	{                                                           \
		int status = kernel_env_run(name##_guest, NULL);    \
		cr_expect_eq(status, 0, "wait status %#x", status); \
	}                                                           \
	static int name##_guest(struct mock_thread *mt, void *arg UNUSED)

/* Puts a string at @at of the guest's memory; returns @at. */
uint64_t put_str(struct mock_thread *mt, uint64_t at, const char *s);
/* Puts bytes there; returns @at. */
uint64_t put_mem(struct mock_thread *mt, uint64_t at, const void *p, size_t size);
uint32_t get_u32(struct mock_thread *mt, uint64_t at);
uint64_t get_u64(struct mock_thread *mt, uint64_t at);
/* Are the bytes at @at those of @p? */
bool same_mem(struct mock_thread *mt, uint64_t at, const void *p, size_t size);
/* Creates (or truncates) a file of this content. */
void make_file(struct mock_thread *mt, const char *path, const char *content);

#endif
