/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the files of the audit; see sentry/audit.h.
 */
#ifndef MOAT_SENTRY_AUDIT_INTERNAL_H
#define MOAT_SENTRY_AUDIT_INTERNAL_H

#include <json-c/json_object.h>
#include "sentry/audit.h"
#include "sentry/audit_text.h"
#include "sentry/summary.h"

struct lx_siginfo;
struct path;

/* Each has a token bucket of its own, and a count of what did not pass. X(name, events at once,
 * events a second) */
#define AUDIT_RATES(X)        \
	X(denied, 100, 20)    \
	X(lookup, 100, 20)    \
	X(limit, 50, 10)      \
	X(process, 4000, 500) \
	X(file, 20000, 2000)  \
	X(change, 4000, 500)  \
	X(note, 200, 20)

enum audit_rate {
#define X(name, burst, rate) RATE_##name,
	AUDIT_RATES(X)
#undef X
		AUDIT_RATE_COUNT
};

/* May another event of the kind be made? If not it is counted. */
bool audit_admit(enum audit_rate rate) MUST_USE;
/* Nanoseconds since audit_start, by the host's clock. */
uint64_t audit_now(void);

/* A new event with who and when; @t may be NULL. NULL: no memory (the other functions accept it).
 */
struct json_object *audit_object(const char *event, const struct task *t);
void audit_add(struct json_object *o, const char *key, const char *text);
void audit_add_bytes(struct json_object *o, const char *key, const char *bytes, size_t size);
void audit_add_int(struct json_object *o, const char *key, int64_t v);
void audit_add_uint(struct json_object *o, const char *key, uint64_t v);
void audit_add_seconds(struct json_object *o, const char *key, uint64_t ns);
void audit_add_object(struct json_object *o, const char *key, struct json_object *v);
/* Takes the event (may be NULL) and puts it into the queue. False: that failed, and is counted with
 * @rate. */
bool audit_send(struct json_object *o, enum audit_rate rate);

/* audit_out.c */
int audit_out_start(int fd) MUST_USE;
/* Begins to look at the meters. */
int audit_out_run(void) MUST_USE;
void audit_out_stop(void);
/* Appends a whole line with its newline. False: there is no room. */
bool audit_out_line(const char *line, size_t size);
void audit_count_dropped(enum audit_rate rate);

/* An object's member whose text is quoted already, and ours but for that. */
void audit_add_quoted(struct json_object *o, const char *key, const char *text);

/* audit_denied.c */
void audit_denied_event(struct task *t, long ret);
void audit_limit_event(struct task *t, enum meter which);
/* The call that @t makes, as text. */
void audit_add_call(struct json_object *o, struct task *t, long ret);
/* audit_line.c: one line for people, once for each @key. @quoted: safe text. @asked: what was
 * refused that some programs only try. */
void audit_line_start(bool raw_tty);
void audit_line(const char *key, const char *quoted, enum summary_asked asked);
/* The stack of @t's process as an array. */
struct json_object *audit_stack(struct task *t);

#endif
