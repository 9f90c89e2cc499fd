/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first line of #! scripts.
 *
 * The rules, as Linux has them: blanks are spaces and tabs; the line ends at the newline, or at the
 * end of the first 256 bytes; blanks around the interpreter's name and at the end of the line do
 * not count; what is left after the name is one argument, inner blanks and all. A line that is
 * longer than the 256 bytes may be cut within the argument, but not within the name.
 */
#include "loader/script.h"

#include <errno.h>
#include <string.h>

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool script_is(const char head[SCRIPT_HEAD_SIZE])
{
	return head[0] == '#' && head[1] == '!';
}

int script_parse(const char head[SCRIPT_HEAD_SIZE], struct script_line *out)
{
	const char *p = head + 2, *last = head + SCRIPT_HEAD_SIZE - 1, *end, *name, *name_end;
	size_t text = strnlen(head, SCRIPT_HEAD_SIZE);

	end = memchr(head, '\n', text);
	if (!end) {
		/* No end of line: the name at least must end within what we have. */
		for (name = p; name < last && is_blank(*name); name++)
			;
		if (name == last)
			return -ENOEXEC;
		if (!*name) {
			/* A file of "#!" alone: Linux goes on with an empty name. */
			memset(out, 0, sizeof(*out));
			return 0;
		}
		for (name_end = name; name_end < last && *name_end && !is_blank(*name_end);
		     name_end++)
			;
		if (name_end == last && *last && !is_blank(*last))
			return -ENOEXEC;
		end = last;
	}
	while (end > p && is_blank(end[-1]))
		end--;
	for (name = p; name < end && is_blank(*name); name++)
		;
	for (name_end = name; name_end < end && *name_end && !is_blank(*name_end); name_end++)
		;
	if (name == name_end)
		return -ENOEXEC;
	memset(out, 0, sizeof(*out));
	memcpy(out->interp, name, (size_t)(name_end - name));
	/* A NUL in the line ends it. */
	if (name_end < end && *name_end) {
		for (p = name_end; p < end && is_blank(*p); p++)
			;
		memcpy(out->arg, p, strnlen(p, (size_t)(end - p)));
		out->has_arg = p < end;
	}
	return 0;
}
