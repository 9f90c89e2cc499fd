/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets in each other's queues: circles that nobody can receive, and a chain of thousands that
 * falls apart with one close. Each end once looked at all the rest: minutes that no signal ended.
 */
#include "hostile.h"

static int put_fd(int socket, int fd)
{
	return send_fd(socket, fd, MSG_DONTWAIT) == 1 ? 0 : -1;
}

int main(void)
{
	const struct rlimit files = {40000, 40000};
	int p[2], last = -1;

	hostile_begin();
	setrlimit(RLIMIT_NOFILE, &files);
	for (int i = 0; i < 10000; i++) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, p) < 0 || put_fd(p[0], p[1]) < 0 ||
		    put_fd(p[1], p[0]) < 0)
			return perror("circle"), 1;
		close(p[0]);
		close(p[1]);
	}
	for (int i = 0; i < 20000; i++) {
		if (socketpair(AF_UNIX, SOCK_DGRAM, 0, p) < 0)
			return perror("socketpair"), 1;
		if (last >= 0) {
			if (put_fd(p[0], last) < 0)
				return perror("chain"), 1;
			close(last);
		}
		close(p[0]);
		last = p[1];
	}
	close(last);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, p) < 0)
		return perror("after"), 1;
	puts("ok");
	return 0;
}
