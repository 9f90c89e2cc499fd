/* SPDX-License-Identifier: Apache-2.0 */
/* hostile-part-of: grants.sh. Walks names below /rw that the host swaps meanwhile. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
	static const char *const names[] = {"/rw/d/secret", "/rw/g", "/rw/d/../d/secret",
					    "/rw/e/../../out/secret", "/rw/e/../out/secret"};
	char buf[32];

	for (int round = 0; round < 4000; round++) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			struct stat st;
			int fd = open(names[i], O_RDONLY | O_NONBLOCK);
			ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));

			close(fd);
			if (n >= 9 && memcmp(buf, "topsecret", 9) == 0) {
				printf("%s led out\n", names[i]);
				return 1;
			}
			(void)!stat(names[i], &st);
			fd = open(names[i], O_WRONLY | O_NONBLOCK | O_TRUNC);
			(void)!write(fd, "mine", 4);
			close(fd);
		}
	}
	return 0;
}
