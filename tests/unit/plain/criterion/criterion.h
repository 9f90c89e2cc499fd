/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for Criterion where that cannot run: under TSan, which forbids threads after a fork of a
 * process with threads. The same tests compile against either; plain/main.c runs each in a process of
 * its own. It has what our tests use of Criterion, no more.
 */
#ifndef MOAT_TESTS_PLAIN_CRITERION_H
#define MOAT_TESTS_PLAIN_CRITERION_H

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plain_data {
	void (*init)(void);
	void (*fini)(void);
	int signal;
	int exit_code;
	bool disabled;
	double timeout;
	const char *description;
};

struct plain_test {
	const char *suite, *name;
	void (*fn)(void); /* NULL: the options of a suite */
	struct plain_data data;
	struct plain_test *next;
};

void plain_register(struct plain_test *t);
void plain_failed(const char *file, int line, const char *what, bool fatal, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void plain_skip(void) __attribute__((noreturn));

#define Test(S, N, ...)                                                                            \
	static void plain_fn_##S##_##N(void);                                                      \
	static struct plain_test plain_test_##S##_##N = {                                          \
		.suite = #S, .name = #N, .fn = plain_fn_##S##_##N, .data = {__VA_ARGS__}};         \
	static __attribute__((constructor)) void plain_reg_##S##_##N(void)                         \
	{                                                                                          \
		plain_register(&plain_test_##S##_##N);                                             \
	}                                                                                          \
	static void plain_fn_##S##_##N(void)

#define TestSuite(S, ...)                                                                          \
	static struct plain_test plain_suite_##S = {.suite = #S, .data = {__VA_ARGS__}};           \
	static __attribute__((constructor)) void plain_reg_##S(void)                               \
	{                                                                                          \
		plain_register(&plain_suite_##S);                                                  \
	}                                                                                          \
	struct plain_test

/* The arguments after the condition are a printf format of a message, and may be missing. */
#define PLAIN_CHECK_(fatal, cond, what, ...)                                                       \
	do {                                                                                       \
		if (!(cond))                                                                       \
			plain_failed(__FILE__, __LINE__, what, fatal, "" __VA_ARGS__);             \
	} while (0)
#define PLAIN_OP_(fatal, a, op, b, ...) PLAIN_CHECK_(fatal, (a)op(b), #a " " #op " " #b, __VA_ARGS__)

#define cr_assert(cond, ...) PLAIN_CHECK_(true, cond, #cond, __VA_ARGS__)
#define cr_assert_not(cond, ...) PLAIN_CHECK_(true, !(cond), "not " #cond, __VA_ARGS__)
#define cr_assert_fail(...) PLAIN_CHECK_(true, false, "fail", __VA_ARGS__)
#define cr_fatal cr_assert_fail
#define cr_fail(...) PLAIN_CHECK_(false, false, "fail", __VA_ARGS__)
#define cr_assert_eq(a, b, ...) PLAIN_OP_(true, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) PLAIN_OP_(true, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) PLAIN_OP_(true, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) PLAIN_OP_(true, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) PLAIN_OP_(true, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) PLAIN_OP_(true, a, >=, b, __VA_ARGS__)
#define cr_assert_null(a, ...) PLAIN_OP_(true, a, ==, NULL, __VA_ARGS__)
#define cr_assert_not_null(a, ...) PLAIN_OP_(true, a, !=, NULL, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...)                                                           \
	PLAIN_CHECK_(true, fabs((a) - (b)) <= (e), #a " near " #b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)                                                                \
	PLAIN_CHECK_(true, strcmp((a), (b)) == 0, #a " is string " #b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)                                                               \
	PLAIN_CHECK_(true, strcmp((a), (b)) != 0, #a " is not string " #b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...) PLAIN_CHECK_(true, *(a) == 0, #a " is empty", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, size, ...)                                                          \
	PLAIN_CHECK_(true, memcmp((a), (b), (size)) == 0, #a " has the bytes of " #b, __VA_ARGS__)
#define cr_assert_arr_neq(a, b, size, ...)                                                         \
	PLAIN_CHECK_(true, memcmp((a), (b), (size)) != 0, #a " differs from " #b, __VA_ARGS__)

#define cr_expect(cond, ...) PLAIN_CHECK_(false, cond, #cond, __VA_ARGS__)
#define cr_expect_not(cond, ...) PLAIN_CHECK_(false, !(cond), "not " #cond, __VA_ARGS__)
#define cr_expect_fail cr_fail
#define cr_expect_eq(a, b, ...) PLAIN_OP_(false, a, ==, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) PLAIN_OP_(false, a, !=, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) PLAIN_OP_(false, a, <, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) PLAIN_OP_(false, a, <=, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) PLAIN_OP_(false, a, >, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) PLAIN_OP_(false, a, >=, b, __VA_ARGS__)
#define cr_expect_null(a, ...) PLAIN_OP_(false, a, ==, NULL, __VA_ARGS__)
#define cr_expect_not_null(a, ...) PLAIN_OP_(false, a, !=, NULL, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)                                                                \
	PLAIN_CHECK_(false, strcmp((a), (b)) == 0, #a " is string " #b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)                                                               \
	PLAIN_CHECK_(false, strcmp((a), (b)) != 0, #a " is not string " #b, __VA_ARGS__)
#define cr_expect_str_empty(a, ...)                                                                 \
	PLAIN_CHECK_(false, (a)[0] == 0, #a " is empty", __VA_ARGS__)
#define cr_expect_arr_eq(a, b, size, ...)                                                          \
	PLAIN_CHECK_(false, memcmp((a), (b), (size)) == 0, #a " has the bytes of " #b, __VA_ARGS__)

#define cr_skip_test(...) plain_skip()
#define cr_skip(...) plain_skip()
#define cr_log_info(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))
#define cr_log_warn cr_log_info
#define cr_log_error cr_log_info

#endif
