/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader/script.h: the first line of scripts. The expected results are Linux's (fs/binfmt_script's
 * behaviour as execve(2) shows it), cut-off lines included.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include "loader/script.h"

static int parse(const char *text, size_t size, struct script_line *out)
{
	char head[SCRIPT_HEAD_SIZE] = {0};

	memcpy(head, text, MIN(size, sizeof(head)));
	cr_assert(script_is(head));
	return script_parse(head, out);
}

Test(loader_script, lines)
{
	static const struct {
		const char *text, *interp, *arg;
	} cases[] = {
		{"#!/bin/sh\n", "/bin/sh", NULL},
		{"#!/bin/sh\necho hi\n", "/bin/sh", NULL},
		{"#! /bin/sh\n", "/bin/sh", NULL},
		{"#!\t \t/bin/sh \t \n", "/bin/sh", NULL},
		{"#!/bin/sh -e\n", "/bin/sh", "-e"},
		{"#!/bin/sh -e -x\n", "/bin/sh", "-e -x"},
		{"#!/bin/sh  \t-e  -x \t\n", "/bin/sh", "-e  -x"},
		{"#!/usr/bin/env -S perl -w\r\n", "/usr/bin/env", "-S perl -w\r"},
		{"#!sh\n", "sh", NULL},
		/* No newline at all. */
		{"#!/bin/sh", "/bin/sh", NULL},
		{"#!/bin/sh -e", "/bin/sh", "-e"},
		{"#!/bin/sh ", "/bin/sh", ""},
		{"#!", "", NULL},
		{"#!  ", "", NULL},
		/* No name. */
		{"#!\n", NULL, NULL},
		{"#!   \t\n", NULL, NULL},
		{"#!\n/bin/sh\n", NULL, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct script_line l;
		int r = parse(cases[i].text, strlen(cases[i].text), &l);

		cr_expect_eq(r, cases[i].interp ? 0 : -ENOEXEC, "\"%s\": %d", cases[i].text, r);
		if (r || !cases[i].interp)
			continue;
		cr_expect_str_eq(l.interp, cases[i].interp, "\"%s\": %s", cases[i].text, l.interp);
		cr_expect_eq(l.has_arg, cases[i].arg != NULL, "\"%s\"", cases[i].text);
		if (l.has_arg && cases[i].arg)
			cr_expect_str_eq(l.arg, cases[i].arg, "\"%s\": %s", cases[i].text, l.arg);
	}
}

Test(loader_script, cut_off)
{
	char text[400];
	struct script_line l;

	/* The name does not end within the first 256 bytes. */
	memset(text, 'a', sizeof(text));
	memcpy(text, "#!/", 3);
	cr_expect_eq(parse(text, sizeof(text), &l), -ENOEXEC);
	/* It ends just there. */
	text[255] = '\n';
	cr_expect_eq(parse(text, sizeof(text), &l), 0);
	cr_expect_eq(strlen(l.interp), 253);
	text[255] = ' ';
	cr_expect_eq(parse(text, sizeof(text), &l), 0);
	cr_expect_eq(strlen(l.interp), 253);
	cr_expect(!l.has_arg);
	/* The argument may be cut. */
	text[255] = 'a';
	text[100] = ' ';
	cr_expect_eq(parse(text, sizeof(text), &l), 0);
	cr_expect_eq(strlen(l.interp), 98);
	cr_expect_eq(strlen(l.arg), 154);
	/* Nothing but blanks. */
	memset(text + 2, ' ', sizeof(text) - 2);
	cr_expect_eq(parse(text, sizeof(text), &l), -ENOEXEC);
	/* A NUL ends the line. */
	cr_expect_eq(parse("#!/bin/sh\0 -e\n", 14, &l), 0);
	cr_expect_str_eq(l.interp, "/bin/sh");
	cr_expect(!l.has_arg);
	cr_expect_eq(parse("#!/bin/sh -e\0x\n", 15, &l), 0);
	cr_expect_str_eq(l.arg, "-e");
}
