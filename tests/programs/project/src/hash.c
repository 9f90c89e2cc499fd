/* SPDX-License-Identifier: Apache-2.0 */
#include "hash.h"

size_t hash_string(const char *s)
{
	size_t h = 5381;

	while (*s)
		h = h * 33 + (unsigned char)*s++;
	return h ^ (h >> 16);
}
