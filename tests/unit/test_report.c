/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/report.h"

static struct report *read_lines(const char *const *lines)
{
	struct report *r = report_new();

	cr_assert_not_null(r);
	for (; *lines; lines++)
		report_line(r, *lines, strlen(*lines));
	return r;
}

static char *__attribute__((noinline)) page_of(struct report *r)
{
	char *page = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&page, &size);

	report_finish(r);
	report_write(r, f, "a<b>.log");
	fclose(f);
	return page;
}

#define SENTRY "{\"by\":\"sentry\",\"event\":"

Test(report, events)
{
	static const char *const lines[] = {
		SENTRY "\"start\",\"at\":0,\"argv\":[\"sh\",\"-c\",\"a "
		       "b\"],\"platform\":\"trap\",\"limits\":{\"processes\":9}}",
		SENTRY "\"exec\",\"at\":0.1,\"pid\":2,\"comm\":\"sh\",\"parent\":1,\"path\":\"/bin/"
		       "sh\",\"argv\":[\"sh\"]}",
		SENTRY "\"fork\",\"at\":0.2,\"pid\":2,\"comm\":\"sh\",\"child\":3}",
		SENTRY "\"exit\",\"at\":0.3,\"pid\":3,\"comm\":\"sh\",\"parent\":2,\"signal\":"
		       "\"SIGKILL\",\"lived\":0.1}",
		SENTRY "\"open\",\"at\":0.3,\"pid\":2,\"path\":\"/a/b\",\"for\":\"read\"}",
		SENTRY "\"open\",\"at\":0.4,\"pid\":2,\"path\":\"/a/b\",\"for\":\"write\"}",
		SENTRY "\"denied\",\"at\":0.5,\"pid\":2,\"why\":\"read-only\",\"path\":\"/"
		       "x\",\"call\":\"open(1)\",\"stack\":[{\"ip\":\"0x1\",\"symbol\":\"f\"}]}",
		SENTRY "\"denied\",\"at\":0.6,\"pid\":2,\"why\":\"read-only\",\"path\":\"/"
		       "x\",\"call\":\"open(1)\"}",
		SENTRY "\"meters\",\"at\":0.6,\"used\":{\"processes\":2}}",
		SENTRY "\"dropped\",\"at\":0.7,\"kind\":\"file\",\"count\":4}",
		SENTRY "\"dropped\",\"at\":0.7,\"kind\":\"file\",\"count\":5}",
		SENTRY "\"exit\",\"at\":0.8,\"pid\":2,\"parent\":1,\"status\":3,\"user\":0.25}",
		"{\"by\":\"monitor\",\"event\":\"end\",\"at\":1.5,\"status\":3,\"sentry\":"
		"\"exited\",\"cut\":false}",
		NULL,
	};
	struct report *r = read_lines(lines);
	char *page = page_of(r);

	cr_assert_str_eq(r->command, "sh -c 'a b'");
	cr_assert_eq(r->process_count, 2u);
	cr_assert_eq(r->processes[0].status, 3);
	cr_assert_str_eq(r->processes[1].signal, "SIGKILL");
	cr_assert_eq(r->processes[0].first_child, 2u);
	cr_assert_eq(r->file_count, 1u);
	cr_assert_eq(r->files[0].ways, (unsigned)(FILE_READ | FILE_WRITE));
	cr_assert_eq(r->denial_count, 1u);
	cr_assert_eq(r->denials[0].count, 2u);
	cr_assert_str_eq(r->denials[0].frames[0].symbol, "f");
	cr_assert_eq(r->dropped[0].count, 9u);
	cr_assert_eq(r->limits[METER_processes], 9u);
	cr_assert_eq(r->bad_lines + r->unknown_lines, 0u);
	cr_assert(r->ended && r->status == 3);
	cr_assert(strstr(page, "ended with status 3") != NULL);
	cr_assert(strstr(page, "cut off") == NULL);
	free(page);
	report_free(r);
}

/* Nothing of a log is markup, and only the monitor tells the end. */
Test(report, hostile)
{
	static const char *const lines[] = {
		SENTRY "\"start\",\"at\":0,\"argv\":[\"</title><script>x()</"
		       "script>\"],\"platform\":\"\\\"'><img src=x>\"}",
		SENTRY "\"end\",\"at\":1,\"status\":0}",
		SENTRY "\"exec\",\"at\":0.1,\"pid\":2,\"comm\":\"</"
		       "td>\",\"argv\":[\"<b>\\u001b[31m\\u202e\\u0000x\"]}",
		SENTRY "\"open\",\"at\":0.3,\"pid\":2,\"path\":\"/<i>/&amp;\",\"for\":\"read\"}",
		SENTRY "\"denied\",\"at\":0.5,\"pid\":2,\"why\":\"<u>\",\"reason\":\"<u>\","
		       "\"path\":\"<u>\",\"rule\":\"<u>\",\"allow\":\"<u>\","
		       "\"allow_policy\":\"<u>\",\"call\":\"<u>(\",\"note\":\"<u>\",\"stack\":[{"
		       "\"ip\":\"<u>\",\"module\":\"<u>\",\"symbol\":\"<u>\"}, 5]}",
		SENTRY "\"change\",\"at\":0.5,\"what\":\"<u>\",\"path\":\"<u>\",\"comm\":\"<u>\"}",
		SENTRY "\"dropped\",\"kind\":\"<u>\",\"count\":1}",
		SENTRY "\"<u>\",\"text\":\"<u>\"}",
		NULL,
	};
	struct report *r = read_lines(lines);
	char *page = page_of(r), *script;

	cr_assert(!r->ended);
	cr_assert(strstr(page, "cut off") != NULL);
	script = strstr(page, "<script>");
	cr_assert(script && !strstr(script + 1, "<script>"));
	cr_assert_null(strstr(page, "<img"));
	cr_assert_null(strstr(page, "<u>"));
	cr_assert_null(strstr(page, "<i>"));
	cr_assert_null(strstr(page, "'><"));
	cr_assert_null(strchr(page, '\033'));
	cr_assert_null(strstr(page, "\xe2\x80\xae"));
	cr_assert(strstr(page, "&lt;/title&gt;&lt;script&gt;") != NULL);
	free(page);
	report_free(r);
}

/* Members of the wrong kind, rings, damage. */
Test(report, nonsense)
{
	static const char *const lines[] = {
		"",
		"{",
		"[]",
		"null",
		"{\"event\":\"start\"} x",
		"{\"event\":'start'}",
		"{\"by\":\"sentry\",\"event\":{\"a\":{\"b\":{\"c\":{\"d\":{\"e\":{\"f\":{\"g\":1}}}"
		"}}}}}",
		SENTRY "\"start\",\"argv\":5,\"limits\":[1]}",
		SENTRY "\"fork\",\"at\":-1,\"pid\":7,\"child\":7}",
		SENTRY "\"fork\",\"at\":1e300,\"pid\":8,\"child\":9}",
		SENTRY "\"fork\",\"at\":0.1,\"pid\":9,\"child\":8}",
		SENTRY "\"exec\",\"pid\":\"2\"}",
		SENTRY "\"exec\",\"pid\":8,\"parent\":9}",
		SENTRY "\"exit\",\"pid\":1000000000000,\"lived\":1e308}",
		SENTRY "\"open\",\"pid\":2,\"path\":[],\"for\":{}}",
		SENTRY "\"open\",\"pid\":2,\"path\":\"\",\"for\":\"sideways\"}",
		SENTRY "\"denied\"}",
		SENTRY "\"meters\",\"used\":{\"processes\":99999999999999999999}}",
		SENTRY "\"meters\",\"used\":7}",
		SENTRY "\"dropped\",\"kind\":\"x\",\"count\":-5}",
		"{\"by\":\"monitor\",\"event\":\"end\",\"at\":null,\"status\":\"x\"}",
		NULL,
	};
	struct report *r = read_lines(lines);
	char *page = page_of(r);

	cr_assert_eq(r->bad_lines, 7u);
	cr_assert(r->ended && r->status == -1);
	free(page);
	report_free(r);
}
