/* SPDX-License-Identifier: Apache-2.0 */
/* A small reverse-Polish calculator with names and strings. */
#include "machine.h"
#include "text.h"

int main(void)
{
	struct machine m = {.out = stdout};
	int result = machine_run(&m, stdin);

	machine_clear(&m);
	if (text_live)
		fprintf(stderr, "rpl: %d strings left\n", text_live);
	return result;
}
