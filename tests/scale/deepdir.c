/* SPDX-License-Identifier: Apache-2.0 */

/* A directory tree 10,000 deep: built, walked back up by "..", its getcwd refused, removed. */
#include "scale.h"

#define DEPTH 10000

int main(void)
{
	scale_begin();
	for (int round = 0; round < 2; round++) {
		char small[64], *cwd;
		struct stat top, st;
		int up = 0, removed = 0;

		if (mkdir("deep", 0755) || chdir("deep") || stat(".", &top))
			scale_fail("deep");
		for (int i = 0; i < DEPTH; i++)
			if (mkdir("level", 0755) || chdir("level"))
				scale_fail("level");
		cwd = getcwd(small, sizeof(small));
		printf("getcwd into 64 bytes: %s\n", cwd ? cwd : strerror(errno));
		for (up = 0; up <= DEPTH; up++) {
			if (stat(".", &st))
				scale_fail("stat");
			if (st.st_ino == top.st_ino)
				break;
			if (chdir(".."))
				scale_fail("..");
			if (rmdir("level") == 0)
				removed++;
		}
		printf("%d levels up, %d removed\n", up, removed);
		if (chdir("..") || rmdir("deep"))
			scale_fail("deep");
		scale_ready();
	}
	return 0;
}
