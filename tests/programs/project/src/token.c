/* SPDX-License-Identifier: Apache-2.0 */
#include "token.h"
#include <ctype.h>
#include <stdlib.h>

enum token_kind token_next(FILE *f, struct token *t)
{
	int c;
	char *end;

	do {
		c = getc(f);
		if (c == '#')
			while (c != '\n' && c != EOF)
				c = getc(f);
	} while (c != EOF && isspace(c));
	t->size = 0;
	if (c == EOF)
		return t->kind = TOKEN_END;
	if (c == '"') {
		while ((c = getc(f)) != '"') {
			if (c == EOF || t->size + 1 >= sizeof(t->text))
				return t->kind = TOKEN_BAD;
			t->text[t->size++] = (char)c;
		}
		t->text[t->size] = 0;
		return t->kind = TOKEN_STRING;
	}
	while (c != EOF && !isspace(c)) {
		if (t->size + 1 >= sizeof(t->text))
			return t->kind = TOKEN_BAD;
		t->text[t->size++] = (char)c;
		c = getc(f);
	}
	t->text[t->size] = 0;
	t->number = strtod(t->text, &end);
	return t->kind = *end ? TOKEN_WORD : TOKEN_NUMBER;
}
