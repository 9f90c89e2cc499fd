/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: moat report on arbitrary bytes, from lines to the page. No markup may come from a
 *log: the page has one script, and no tag that only a log could have brought.
 *
 *	make m=fuzz fuzz-build && build/fuzz/fuzz/fuzz_report tests/fuzz/corpus/report
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size;
	struct report *r = report_new();
	char *page = NULL;
	size_t page_size = 0;
	FILE *f;

	if (!r)
		return 0;
	while (at < end) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		size_t n = nl ? (size_t)(nl - at) : (size_t)(end - at);

		report_line(r, at, n);
		at += n + 1;
	}
	report_finish(r);
	f = open_memstream(&page, &page_size);
	if (f) {
		report_write(r, f, "log");
		fclose(f);
		BUG_ON(strlen(page) != page_size);
		BUG_ON(count(page, "<script") != 1 || count(page, "</html>") != 1);
		BUG_ON(count(page, "<img") || count(page, "<u>") ||
		       count(page, "onerror=alert(1)>"));
	}
	free(page);
	report_free(r);
	return 0;
}
