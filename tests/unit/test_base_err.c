/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/err.h: messages and the log.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include "base/err.h"

Test(err, set)
{
	struct err e;

	cr_assert_eq(err_set(&e, ENOENT, "%s: %s", "/x", err_text(ENOENT)), -ENOENT);
	cr_assert_str_eq(e.text, "/x: No such file or directory");
	cr_assert_eq(err_set(NULL, EPERM, "nobody listens"), -EPERM);
	cr_assert_eq(err_set(&e, EPERM, "%0600d", 1), -EPERM);
	cr_assert_eq(strlen(e.text), sizeof(e.text) - 1, "cut, not overrun");
	cr_assert_str_eq(err_text(99999), "Unknown error");
}

Test(err, log)
{
	int fds[2];
	char buf[4096];

	cr_assert_eq(pipe(fds), 0);
	log_open(fds[1], LOG_INFO);
	errno = ENOTTY;
	log_debug("not %d", 1);
	log_info("seen %d", 2);
	cr_assert_eq(errno, ENOTTY);
	log_error("%02000d", 3);

	ssize_t n = read(fds[0], buf, sizeof(buf));

	cr_assert(n > 0 && n < 2000);
	cr_assert_arr_eq(buf, "moat: seen 2\nmoat: error: 000", 29);
	cr_assert_eq(buf[n - 1], '\n', "a line that is cut is still a line");
	cr_assert(log_enabled(LOG_INFO) && !log_enabled(LOG_DEBUG));
	/* A log that nobody reads any more. */
	log_open(-1, LOG_INFO);
	log_info("gone");
	close(fds[0]);
	close(fds[1]);
}

Test(err, nothing_controls_a_terminal)
{
	static const char *const rows[][2] = {
		{"plain ~", "plain ~"},
		{"\033]0;evil\a", "?]0;evil?"},
		{"a\r\nb\tc\x7f", "a??b?c?"},
		{"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
		 "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"\x9b"
		 "2J",
		 "?2J"}, /* CSI, one byte */
		{"\xc2\x9b"
		 "2J",
		 "??2J"}, /* CSI, in UTF-8 */
		{"\xe2\x80\xae"
		 "txt",
		 "???txt"},    /* turned round */
		{"\xc3", "?"}, /* cut off */
		{"\xe2\x82", "??"},
		{"\xc0\x9b", "??"}, /* overlong */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct err e;

		cr_assert_eq(err_set(&e, EPERM, "%s", rows[i][0]), -EPERM);
		cr_assert_str_eq(e.text, rows[i][1], "row %zu: %s", i, e.text);
	}
}

#ifdef MOAT_DEBUG
Test(err, panic_aborts, .signal = SIGABRT)
#else
Test(err, panic_exits, .exit_code = 125)
#endif
{
	panic("on purpose");
}
