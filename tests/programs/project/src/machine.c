/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "text.h"
#include "token.h"
#include "words.h"

static int word(struct machine *m, const char *name)
{
	word_fn *fn = words_find(name);
	struct value v;

	if (fn)
		return fn(m);
	if (name[0] == '=') {
		if (stack_pop(&m->stack, &v))
			return -1;
		table_set(&m->names, name + 1, v);
		return 0;
	}
	if (table_find(&m->names, name, &v))
		return -1;
	stack_push(&m->stack, v);
	return 0;
}

int machine_run(struct machine *m, FILE *in)
{
	struct token t;

	for (;;) {
		switch (token_next(in, &t)) {
		case TOKEN_END:
			return 0;
		case TOKEN_NUMBER:
			stack_push(&m->stack, value_number(t.number));
			break;
		case TOKEN_STRING:
			stack_push(&m->stack, value_string(text_new(t.text, t.size)));
			break;
		case TOKEN_WORD:
			if (!word(m, t.text))
				break;
			fprintf(m->out, "error at %s\n", t.text);
			return 1;
		case TOKEN_BAD:
			fputs("bad token\n", m->out);
			return 1;
		}
	}
}

void machine_clear(struct machine *m)
{
	stack_clear(&m->stack);
	table_clear(&m->names);
}
