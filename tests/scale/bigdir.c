/* SPDX-License-Identifier: Apache-2.0 */

/* A directory of 100,000 entries: listed whole, each entry once, then emptied. */
#include "scale.h"

#define COUNT 100000

int main(void)
{
	static char seen[COUNT];
	char path[64];

	scale_begin();
	for (int round = 0; round < 2; round++) {
		int once = 0, other = 0;
		struct dirent *e;
		DIR *d;

		memset(seen, 0, sizeof(seen));
		if (mkdir("big", 0755))
			scale_fail("mkdir");
		for (int i = 0; i < COUNT; i++) {
			snprintf(path, sizeof(path), "big/entry-%06d", i);
			if (mknod(path, S_IFREG | 0600, 0))
				scale_fail(path);
		}
		d = opendir("big");
		if (!d)
			scale_fail("opendir");
		while ((e = readdir(d))) {
			int i;

			if (sscanf(e->d_name, "entry-%d", &i) == 1 && i >= 0 && i < COUNT)
				seen[i]++;
			else
				other++;
		}
		closedir(d);
		for (int i = 0; i < COUNT; i++)
			once += seen[i] == 1;
		for (int i = 0; i < COUNT; i++) {
			snprintf(path, sizeof(path), "big/entry-%06d", i);
			if (unlink(path))
				scale_fail(path);
		}
		if (rmdir("big"))
			scale_fail("rmdir");
		printf("%d entries once, %d others\n", once, other);
		scale_ready();
	}
	return 0;
}
