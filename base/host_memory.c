/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the host has left.
 *
 * Theory of operation: sysinfo(2) would be one more call that the sentry may make when it is locked
 * down; a descriptor of /proc/meminfo is read by one that it makes anyway.
 */
#include "base/host_memory.h"
#include "base/hostcall.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static int g_meminfo = -1;

void host_memory_open(void)
{
	if (g_meminfo < 0)
		g_meminfo = HOST(openat_memory, open("/proc/meminfo", O_RDONLY | O_CLOEXEC));
}

/* In bytes; 0 if there is no such line. */
static uint64_t line(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

uint64_t host_memory_free(void)
{
	/* What is wanted stands in the first lines. */
	char text[512];
	const struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
	const ssize_t n = HOST(preadv2_memory, preadv2(g_meminfo, &iov, 1, 0, 0));

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return line(text, "MemFree:") + line(text, "Buffers:");
}
