/* SPDX-License-Identifier: Apache-2.0 */

/* 50,000 files made, read back and removed. */
#include "scale.h"

#define COUNT 50000

int main(void)
{
	char path[64], text[32];

	scale_begin();
	for (int round = 0; round < 2; round++) {
		int right = 0, gone = 0;

		if (mkdir("files", 0755))
			scale_fail("mkdir");
		for (int i = 0; i < COUNT; i++) {
			int fd, n;

			snprintf(path, sizeof(path), "files/f%d", i);
			n = snprintf(text, sizeof(text), "file %d\n", i);
			fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);
			if (fd < 0 || write(fd, text, (size_t)n) != n)
				scale_fail(path);
			close(fd);
		}
		for (int i = 0; i < COUNT; i++) {
			char want[32];
			int fd;
			ssize_t n;

			snprintf(path, sizeof(path), "files/f%d", i);
			snprintf(want, sizeof(want), "file %d\n", i);
			fd = open(path, O_RDONLY);
			n = read(fd, text, sizeof(text));
			close(fd);
			right += n == (ssize_t)strlen(want) && !memcmp(text, want, (size_t)n);
			gone += unlink(path) == 0;
		}
		if (rmdir("files"))
			scale_fail("rmdir");
		printf("%d read back, %d removed\n", right, gone);
		scale_ready();
	}
	return 0;
}
