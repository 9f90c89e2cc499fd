/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RPL_TOKEN_H
#define RPL_TOKEN_H
#include <stdio.h>

enum token_kind { TOKEN_END, TOKEN_NUMBER, TOKEN_STRING, TOKEN_WORD, TOKEN_BAD };

struct token {
	enum token_kind kind;
	double number;
	char text[128];
	size_t size;
};

enum token_kind token_next(FILE *f, struct token *t);

#endif
