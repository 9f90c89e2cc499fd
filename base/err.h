/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to people, logging, and panic.
 */
#ifndef MOAT_BASE_ERR_H
#define MOAT_BASE_ERR_H

#include "base/types.h"

/* One line for a person: what, which, why, and the mend. Functions that talk to people fill one. */
struct err {
	char text[512];
};

/* Formats into @e (may be NULL) and returns -@errnum. @errnum: a positive errno. */
int err_set(struct err *e, int errnum, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* What would control a terminal, break the line, or is no UTF-8, becomes '?'. err_set and log_msg
 * do it. */
void err_make_visible(char *text);

/* The English text of a positive errno ("No such file or directory"); never NULL; thread-safe. */
const char *err_text(int errnum);

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* The level up to which log_* prints; default LOG_WARN. Goes to the descriptor given to log_open.
 */
void log_open(int fd, enum log_level level);
bool log_enabled(enum log_level level);
void log_msg(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_msg(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                   \
	do {                                             \
		if (log_enabled(LOG_DEBUG))              \
			log_msg(LOG_DEBUG, __VA_ARGS__); \
	} while (0)

/* Ends the sandbox, closed, with exit status 125. Only for our own broken invariants; never for a
 * value that the guest controls. */
void panic(const char *fmt, ...) PRINTF_LIKE(1, 2) NORETURN;

#define BUG_ON(cond)                                                   \
	do {                                                           \
		if (unlikely(cond))                                    \
			panic("%s:%d: %s", __FILE__, __LINE__, #cond); \
	} while (0)

#endif
