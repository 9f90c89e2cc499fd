/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One event of the audit: who, when, and a line of JSON.
 *
 * Theory of operation: an event is a json-c object that begins with the same members always. "by"
 * is the first: the monitor passes on only lines that begin with {"by":"sentry", so that a sentry
 * that was taken over cannot speak in its name (runtime/audit_log.c). Text goes through
 * audit_quote() without exception, so json-c sees nothing but printable UTF-8.
 *
 * An object costs some microseconds and a dozen allocations; what happens often is held back by
 * its token bucket before one is made.
 */
#include "sentry/audit_internal.h"

#include "base/alloc.h"
#include "sentry/task.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* No line is longer: the monitor's buffer. */
#define LINE_MAX_ (60u << 10)
#define TEXT_MAX 1024u

static void add(struct json_object *o, const char *key, struct json_object *v)
{
	/* The keys are ours and constant. */
	if (o && v &&
	    json_object_object_add_ex(o, key, v,
				      JSON_C_OBJECT_ADD_KEY_IS_NEW | JSON_C_OBJECT_KEY_IS_CONSTANT))
		json_object_put(v);
	else if (!o && v)
		json_object_put(v);
}

void audit_add_object(struct json_object *o, const char *key, struct json_object *v)
{
	add(o, key, v);
}

void audit_add_bytes(struct json_object *o, const char *key, const char *bytes, size_t size)
{
	char small[256], *text = small;
	size_t room = sizeof(small), n;

	if (size * AUDIT_QUOTED >= sizeof(small)) {
		room = size * AUDIT_QUOTED + 1;
		text = mem_zalloc(room);
		if (!text)
			return;
	}
	n = audit_quote(text, room, bytes, size, NULL);
	add(o, key, json_object_new_string_len(text, (int)n));
	if (text != small)
		mem_free(text);
}

void audit_add_quoted(struct json_object *o, const char *key, const char *text)
{
	add(o, key, json_object_new_string(text));
}

void audit_add(struct json_object *o, const char *key, const char *text)
{
	audit_add_bytes(o, key, text, strlen(text));
}

void audit_add_int(struct json_object *o, const char *key, int64_t v)
{
	add(o, key, json_object_new_int64(v));
}

void audit_add_uint(struct json_object *o, const char *key, uint64_t v)
{
	add(o, key, json_object_new_uint64(v));
}

void audit_add_seconds(struct json_object *o, const char *key, uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%lu.%06u", (unsigned long)(ns / NSEC_PER_SEC),
		 (unsigned)(ns % NSEC_PER_SEC / 1000));
	add(o, key, json_object_new_double_s((double)ns / 1e9, text));
}

static void add_hash(struct json_object *o)
{
	static const char hex[] = "0123456789abcdef";
	char text[2 * GRANT_HASH_SIZE];

	if (!g_grant)
		return;
	for (unsigned i = 0; i < GRANT_HASH_SIZE; i++) {
		text[2 * i] = hex[g_grant->hash[i] >> 4];
		text[2 * i + 1] = hex[g_grant->hash[i] & 15];
	}
	add(o, "grant", json_object_new_string_len(text, sizeof(text)));
}

struct json_object *audit_object(const char *event, const struct task *t)
{
	struct json_object *o = json_object_new_object();
	char when[AUDIT_TIME_SIZE];
	struct timespec now = {0};

	if (!o)
		return NULL;
	clock_gettime(CLOCK_REALTIME, &now);
	audit_time_text(when, (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec);
	add(o, "by", json_object_new_string("sentry"));
	add(o, "event", json_object_new_string(event));
	add(o, "time", json_object_new_string(when));
	audit_add_seconds(o, "at", audit_now());
	add_hash(o);
	if (t) {
		audit_add_int(o, "pid", t->tg->tgid);
		audit_add_int(o, "tid", t->tid);
		audit_add_bytes(o, "comm", t->comm, strnlen(t->comm, sizeof(t->comm)));
	}
	return o;
}

bool audit_send(struct json_object *o, enum audit_rate rate)
{
	const char *text = NULL;
	char *line = NULL;
	size_t size = 0;
	bool sent = false;

	if (o)
		text = json_object_to_json_string_length(
			o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &size);
	if (text && size < LINE_MAX_)
		line = mem_zalloc(size + 1);
	if (line) {
		memcpy(line, text, size);
		line[size] = '\n';
		sent = audit_out_line(line, size + 1);
		mem_free(line);
	}
	if (!sent)
		audit_count_dropped(rate);
	if (o)
		json_object_put(o);
	return sent;
}
