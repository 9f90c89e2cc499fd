/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "hash.h"
#include "text.h"
#include <stdlib.h>
#include <string.h>

static int failed;

static void expect(const char *program, const char *want)
{
	char *got = 0;
	size_t size;
	FILE *in = fmemopen((void *)program, strlen(program), "r");
	FILE *out = open_memstream(&got, &size);
	struct machine m = {.out = out};

	machine_run(&m, in);
	machine_clear(&m);
	fclose(in);
	fclose(out);
	if (strcmp(got, want)) {
		printf("%s: got %s, want %s\n", program, got, want);
		failed++;
	}
	free(got);
}

int main(void)
{
	struct table t = {0};
	struct value v;
	char name[20];

	expect("1 2 + print", "3\n");
	expect("2 10 ^ 7 % print", "2\n");
	expect("\"a\" \"b\" join dup join print", "abab\n");
	expect("5 =x x x * print", "25\n");
	expect("+", "error at +\n");
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "name%d", i);
		table_set(&t, name, value_number(i));
	}
	if (table_find(&t, "name9999", &v) || v.number != 9999)
		failed++;
	if (!table_find(&t, "none", &v))
		failed++;
	table_clear(&t);
	if (text_live)
		failed++;
	printf("selftest: %d failed, hash %zx\n", failed, hash_string("moat"));
	return failed != 0;
}
