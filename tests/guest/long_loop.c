/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A call that takes minutes: others go on meanwhile, and can kill who makes it.
 *
 * Theory of operation: sendfile() from a file to itself, three bytes behind its end, never meets
 * the end. The parent's own calls must be served meanwhile, whatever thread of moat's they are
 * served by: several children at once leave it none that is free.
 */
#include "guest.h"
#include <sys/sendfile.h>

#define CHILDREN 6

static void chase(const char *name)
{
	int fd = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
	off_t off = 0;

	if (write(fd, "0123456789", 10) != 10 || lseek(fd, 3, SEEK_SET) != 3)
		_exit(80);
	sendfile(fd, fd, &off, (size_t)1 << 40);
}

int main(void)
{
	pid_t pids[CHILDREN];
	int ready[2], status;
	char c;

	guest_begin();
	if (pipe(ready))
		return 1;
	for (int i = 0; i < CHILDREN; i++) {
		char name[16];

		snprintf(name, sizeof(name), "file%d", i);
		pids[i] = guest_fork();
		if (!pids[i]) {
			if (write(ready[1], "x", 1) != 1)
				_exit(81);
			chase(name);
			_exit(0);
		}
	}
	for (int i = 0; i < CHILDREN; i++)
		if (read(ready[0], &c, 1) != 1)
			return 1;
	for (int i = 0; i < CHILDREN; i++) {
		kill(pids[i], SIGKILL);
		if (waitpid(pids[i], &status, 0) != pids[i])
			return 1;
		printf("child: %s\n",
		       WIFSIGNALED(status) ? guest_signal(WTERMSIG(status)) : "ended by itself");
	}
	return 0;
}
