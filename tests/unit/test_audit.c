/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "sentry/audit_internal.h"

static void quotes(const char *bytes, size_t size, const char *want)
{
	char out[256];
	bool cut;

	cr_assert_eq(audit_quote(out, sizeof(out), bytes, size, &cut), strlen(want));
	cr_assert_str_eq(out, want);
	cr_assert(!cut);
}

#define QUOTES(bytes, want) quotes(bytes, sizeof(bytes) - 1, want)

Test(audit_text, quote)
{
	QUOTES("", "");
	QUOTES("plain /name-1.txt", "plain /name-1.txt");
	QUOTES("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	QUOTES("a\\b", "a\\\\b");
	QUOTES("a\nb\tc\rd\0e", "a\\nb\\tc\\x0dd\\x00e");
	QUOTES("\x1b[31m\x7f", "\\x1b[31m\\x7f");
	/* C1 controls, well formed; overrides of direction; what is not seen. */
	QUOTES("\xc2\x9b", "\\xc2\\x9b");
	QUOTES("\xe2\x80\xae\xe2\x81\xa6\xef\xbb\xbf\xc2\xad",
	       "\\xe2\\x80\\xae\\xe2\\x81\\xa6\\xef\\xbb\\xbf\\xc2\\xad");
	/* Not UTF-8: a lone byte, overlong, surrogate, too large, cut short. */
	QUOTES("\xff\x80", "\\xff\\x80");
	QUOTES("\xc0\xaf\xe0\x80\xaf", "\\xc0\\xaf\\xe0\\x80\\xaf");
	QUOTES("\xed\xa0\x80", "\\xed\\xa0\\x80");
	QUOTES("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
	QUOTES("\xe2\x82", "\\xe2\\x82");
	QUOTES("\xef\xbf\xbf", "\\xef\\xbf\\xbf");
}

Test(audit_text, quote_cut)
{
	char out[8];
	bool cut;

	/* Between characters, and never without the NUL. */
	cr_assert_eq(audit_quote(out, sizeof(out), "abcdef\xe2\x82\xac", 9, &cut), 6u);
	cr_assert_str_eq(out, "abcdef");
	cr_assert(cut);
	cr_assert_eq(audit_quote(out, 1, "a", 1, &cut), 0u);
	cr_assert(cut && !out[0]);
	for (size_t room = 1; room < 8; room++) {
		memset(out, 'x', sizeof(out));
		cr_assert(audit_quote(out, room, "\xff\xff\xff", 3, &cut) < room);
		cr_assert(memchr(out, '\0', room) != NULL);
	}
}

Test(audit_text, clean)
{
	char out[64];
	size_t took;

	audit_clean(out, sizeof(out), "a\\x1b\x1b\n", 7, &took);
	cr_assert_str_eq(out, "a\\x1b\\x1b\\n");
	cr_assert_eq(took, 7u);
}

Test(audit_text, times)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} rows[] = {
		{0, "1970-01-01T00:00:00.000000Z"},
		{951782400ull * NSEC_PER_SEC + 999999999, "2000-02-29T00:00:00.999999Z"},
		{1709251199ull * NSEC_PER_SEC, "2024-02-29T23:59:59.000000Z"},
		{1709251200ull * NSEC_PER_SEC, "2024-03-01T00:00:00.000000Z"},
		{4102444799ull * NSEC_PER_SEC, "2099-12-31T23:59:59.000000Z"},
	};
	char text[AUDIT_TIME_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		audit_time_text(text, rows[i].ns);
		cr_assert_str_eq(text, rows[i].text);
	}
}

/* What an event looks like, whatever it is made of. */
Test(audit_event, line)
{
	char line[4096], name[257];
	struct json_object *o, *back, *v;
	int ends[2];
	ssize_t n;

	for (unsigned i = 0; i < 256; i++)
		name[i] = (char)(255 - i);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(audit_out_start(ends[1]), 0);
	o = audit_object("test", NULL);
	audit_add_bytes(o, "name", name, 256);
	audit_add_uint(o, "most", UINT64_MAX);
	audit_add_int(o, "least", INT64_MIN);
	audit_add_seconds(o, "seconds", 1234567891);
	cr_assert(audit_send(o, RATE_note));
	n = read(ends[0], line, sizeof(line) - 1);
	cr_assert(n > 0 && line[n - 1] == '\n');
	line[n] = '\0';
	cr_assert_eq(strncmp(line, "{\"by\":\"sentry\",\"event\":\"test\",\"time\":\"20", 40), 0);
	for (ssize_t i = 0; i < n - 1; i++)
		cr_assert(line[i] >= ' ' && line[i] <= '~');
	back = json_tokener_parse(line);
	cr_assert(json_object_object_get_ex(back, "most", &v));
	cr_assert_eq(json_object_get_uint64(v), UINT64_MAX);
	cr_assert(json_object_object_get_ex(back, "least", &v));
	cr_assert_eq(json_object_get_int64(v), INT64_MIN);
	cr_assert(strstr(line, "\"seconds\":1.234567") != NULL);
	json_object_put(back);
	/* Without memory for an object nothing breaks, and it is counted. */
	audit_add(NULL, "key", "text");
	audit_add_object(NULL, "key", json_object_new_string("text"));
	cr_assert(!audit_send(NULL, RATE_note));
}

/* Of a flood a part is there, and the rest is counted, to the last one. */
Test(audit_rate, adds_up)
{
	enum { FLOOD = 3000 };
	unsigned admitted = 0, told = 0, dropped = 0;
	char *text = mem_zalloc(2 << 20);
	size_t used = 0;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(audit_out_start(ends[1]), 0);
	for (unsigned i = 0; i < FLOOD; i++) {
		if (!audit_admit(RATE_denied))
			continue;
		admitted++;
		cr_assert(audit_send(audit_object("denied", NULL), RATE_denied));
	}
	cr_assert(admitted >= 100 && admitted < FLOOD);
	audit_out_stop();
	close(ends[1]);
	for (ssize_t n; (n = read(ends[0], text + used, (2 << 20) - 1 - used)) > 0;)
		used += (size_t)n;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		const char *count = strstr(line, "\"kind\":\"denied\",\"count\":");

		told += strstr(line, "\"event\":\"denied\"") != NULL;
		if (count)
			dropped += (unsigned)strtoul(strchr(count + 15, ':') + 1, NULL, 10);
	}
	cr_assert_eq(told, admitted);
	cr_assert_eq(told + dropped, FLOOD);
	mem_free(text);
}

/* A monitor that does not read: the queue takes what it can, nobody waits, the rest is counted. */
Test(audit_rate, nobody_reads)
{
	unsigned sent = 0, i;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(audit_out_start(ends[1]), 0);
	for (i = 0; i < 40000; i++)
		sent += audit_send(audit_object("note", NULL), RATE_note);
	cr_assert(sent > 1000 && sent < i);
	close(ends[0]);
}
