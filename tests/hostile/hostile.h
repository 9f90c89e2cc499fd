/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the hostile programs share. They attack moat from inside and would hurt a host, so each
 * begins with hostile_begin(), which goes no further outside of a sandbox of the runner's.
 */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOSTILE_UNUSED __attribute__((unused))
#define HOSTILE_COUNT(a) (sizeof(a) / sizeof((a)[0]))

static HOSTILE_UNUSED void hostile_begin(void)
{
	struct utsname u;

	if (uname(&u) != 0 || strcmp(u.nodename, "moat-hostile") != 0) {
		fprintf(stderr, "runs only in a sandbox: tests/run-hostile.sh\n");
		exit(2);
	}
	setvbuf(stdout, NULL, _IONBF, 0);
}

/* The same numbers in each run: xorshift64*. */
static HOSTILE_UNUSED __thread uint64_t hostile_seed = 88172645463325252u;

static HOSTILE_UNUSED uint64_t rnd(void)
{
	hostile_seed ^= hostile_seed << 13;
	hostile_seed ^= hostile_seed >> 7;
	hostile_seed ^= hostile_seed << 17;
	return hostile_seed * UINT64_C(0x2545F4914F6CDD1D);
}

static HOSTILE_UNUSED uint64_t rnd_below(uint64_t n)
{
	return rnd() % n;
}

/* Where the stubs live in every address space. */
#define STUB_REGION UINT64_C(0x7ffff0000000)
#define STUB_REGION_SIZE UINT64_C(0xffff000)

/* A number that is likely to hurt: an address at an edge, a bit, a mask, a small one. */
static HOSTILE_UNUSED uint64_t rnd_value(void)
{
	switch (rnd_below(11)) {
	case 0:
		return rnd();
	case 1:
		return UINT64_C(1) << rnd_below(64);
	case 2:
		return (UINT64_C(1) << rnd_below(64)) - 1;
	case 3:
		return STUB_REGION + rnd_below(STUB_REGION_SIZE);
	case 4:
		return STUB_REGION + rnd_below(64) * 4096 + rnd_below(4) * 16;
	case 5:
		return UINT64_C(0x800000000000) - rnd_below(8192);
	case 6:
		return UINT64_C(0xffffffffff600000) + rnd_below(3) * 1024;
	case 7:
		return UINT64_C(0xffff800000000000) + rnd_below(4096);
	case 8:
		return -rnd_below(64);
	case 9:
		return rnd_below(65536) * 4096;
	default:
		return rnd_below(65536);
	}
}

/* The end of @pid, which is killed if it takes longer than @ms. Its wait status. */
static HOSTILE_UNUSED int end_of(pid_t pid, int ms)
{
	const struct timespec tick = {.tv_nsec = 1000000};
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		nanosleep(&tick, NULL);
		if (--ms == 0)
			kill(pid, SIGKILL);
	}
	return status;
}

/* Sends @fd with a byte; what sendmsg gives. */
static HOSTILE_UNUSED ssize_t send_fd(int socket, int fd, int flags)
{
	char byte = 0, control[CMSG_SPACE(sizeof(int))];
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(socket, &m, flags);
}

#endif
