/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to people, logging, and panic. See base/err.h.
 *
 * Theory of operation: a log line is formatted into a buffer on the stack and goes out in one
 * write(2), so that lines of different threads do not mix and nothing is lost at a panic. The
 * buffer is small, because fibers run on small stacks.
 *
 * What a message tells of a guest (its name, its paths) may be an attack on the terminal that shows
 * it, so nothing that controls a terminal leaves this file, nor a line break within a line.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/err.h"
#include "base/hostcall.h"

/* What the moat command exits with when the sandbox itself failed; see runtime/. */
#define EXIT_SANDBOX_FAILED 125
#define LOG_LINE_SIZE 1024

static _Atomic int g_log_fd = STDERR_FILENO;
static _Atomic int g_log_level = LOG_WARN;

/* The size of the UTF-8 sequence at @s that stands for something visible; 0 if it does not. */
static size_t visible(const unsigned char *s)
{
	size_t size = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (size == 1)
		return s[0] >= ' ' && s[0] != 0x7f;
	if (s[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < size; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* U+0080 to U+009F control terminals as the first 32 do; U+2028 on and U+202A to U+202E
	 * break and turn lines. */
	if (size == 2 && s[0] == 0xc2 && s[1] < 0xa0)
		return 0;
	if (size == 3 && s[0] == 0xe2 && s[1] == 0x80 && s[2] >= 0xa8 && s[2] <= 0xae)
		return 0;
	return size;
}

void err_make_visible(char *text)
{
	unsigned char *s = (unsigned char *)text;

	while (*s) {
		size_t size = visible(s);

		if (!size)
			*s = '?';
		s += size ? size : 1;
	}
}

int err_set(struct err *e, int errnum, const char *fmt, ...)
{
	if (e) {
		va_list ap;

		va_start(ap, fmt);
		vsnprintf(e->text, sizeof(e->text), fmt, ap);
		va_end(ap);
		err_make_visible(e->text);
	}
	return -errnum;
}

const char *err_text(int errnum)
{
	/* strerror() is not thread-safe; strerrordesc_np() returns constant text, or NULL. */
	const char *s = strerrordesc_np(errnum);

	return s ? s : "Unknown error";
}

void log_open(int fd, enum log_level level)
{
	atomic_store_explicit(&g_log_fd, fd, memory_order_relaxed);
	atomic_store_explicit(&g_log_level, (int)level, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&g_log_level, memory_order_relaxed);
}

static PRINTF_LIKE(2, 0) void log_line(enum log_level level, const char *fmt, va_list ap)
{
	static const char *const names[] = {"error: ", "warning: ", "", "debug: "};
	char line[LOG_LINE_SIZE];
	/* Room for the newline is kept back. */
	const size_t room = sizeof(line) - 1;
	int n = snprintf(line, room, "moat: %s", names[level]);
	size_t size = (size_t)n;

	n = vsnprintf(line + size, room - size, fmt, ap);
	if (n > 0)
		size += MIN((size_t)n, room - size - 1);
	line[size] = '\0';
	err_make_visible(line);
	line[size++] = '\n';

	/* A log that cannot be written is no reason to stop. */
	ssize_t unused =
		HOST(write_log,
		     write(atomic_load_explicit(&g_log_fd, memory_order_relaxed), line, size));

	(void)unused;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	if (!log_enabled(level))
		return;

	/* Callers log between a failed call and the use of its errno. */
	int saved = errno;
	va_list ap;

	va_start(ap, fmt);
	log_line(level, fmt, ap);
	va_end(ap);
	errno = saved;
}

void panic(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_ERROR, fmt, ap);
	va_end(ap);
#ifdef MOAT_DEBUG
	/* Tests and fuzzers want a core, a stack and a failing status. */
	HOST(tgkill_panic, abort());
#else
	/* No destructors: the state is broken. The stubs die with the process. */
	HOST(exit_group_panic, _exit(EXIT_SANDBOX_FAILED));
#endif
}
