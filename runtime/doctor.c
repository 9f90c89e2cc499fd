/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `moat doctor`: what this host can run, and what it lacks.
 */
#include "platform/platform.h"
#include "runtime/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/hostcall.h"

/* The first word of a small file, or @otherwise. */
static const char *read_word(const char *path, char *buf, size_t size, const char *otherwise)
{
	int fd = HOST(openat_monitor, open(path, O_RDONLY | O_CLOEXEC));
	ssize_t n = fd >= 0 ? HOST(read_monitor, read(fd, buf, size - 1)) : -1;

	if (fd >= 0)
		HOST(close_monitor, close(fd));
	if (n <= 0)
		return otherwise;
	buf[n] = '\0';
	buf[strcspn(buf, " \n")] = '\0';
	return buf;
}

bool platforms_describe(FILE *f)
{
	bool any = false;

	for (unsigned i = 0; g_platforms[i]; i++) {
		const struct platform *p = g_platforms[i];
		struct err e = {{0}};
		int r;

		if (strcmp(p->name, "mock") == 0)
			continue; /* for tests only */
		r = p->probe(&e);
		if (r == 0)
			fprintf(f, "  %-8s works: %s\n", p->name, p->summary);
		else
			fprintf(f, "  %-8s does not work here: %s\n", p->name,
				e.text[0] ? e.text : strerror(-r));
		any = any || r == 0;
	}
	return any;
}

int doctor_main(int argc UNUSED, char **argv UNUSED)
{
	struct utsname u;
	char buf[128];
	bool any;

	if (HOST(uname_monitor, uname(&u)) == 0)
		printf("host: %s %s %s\n", u.sysname, u.release, u.machine);
	printf("user: %s\n", HOST(getuid_monitor, getuid()) == 0 ? "root" : "ordinary");
	printf("clock source: %s\n",
	       read_word("/sys/devices/system/clocksource/clocksource0/current_clocksource", buf,
			 sizeof(buf), "unknown"));
	printf("yama ptrace_scope: %s\n", read_word("/proc/sys/kernel/yama/ptrace_scope", buf,
						    sizeof(buf), "absent (no restriction)"));
	puts("platforms:");
	any = platforms_describe(stdout);
	if (!any) {
		puts("no platform works on this host: moat cannot run anything here");
		return 1;
	}
	return 0;
}
