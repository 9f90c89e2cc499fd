/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `moat doctor`: what this host can run, and what it lacks.
 */
#include "platform/platform.h"
#include "runtime/cgroup.h"
#include "runtime/run.h"
#include "runtime/wall.h"
#include "vfs/host_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
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

/* In a child that is set up like a sentry, with the default grant. Both share @w. */
static int wall_child(struct wall *w, int ctl)
{
	struct err e;

	if (!wall_begin(w, ctl))
		return 1;
	wall_net_begin(w);
	return wall_enter(w, &e) == 0 ? 0 : 1;
}

void wall_describe(FILE *f)
{
	static struct draft draft;
	struct err e = {{0}};
	struct wall *w = HOST(mmap_monitor, mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
						 MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	int ctl[2], status = 1;
	pid_t child;

	draft_init(&draft);
	if (w == MAP_FAILED || draft_finish(&draft, &e) || grant_freeze(&draft.g, &e) ||
	    HOST(pipe2_monitor, pipe2(ctl, O_CLOEXEC)) != 0) {
		fprintf(f, "  cannot be tried: %s\n", e.text[0] ? e.text : strerror(errno));
		return;
	}
	*w = g_wall;
	fflush(NULL);
	child = wall_clone(w);
	if (child == 0)
		HOST(exit_group_end, _exit(wall_child(w, ctl[0])));
	while (child > 0 && HOST(wait4_monitor_start, waitpid(child, &status, 0)) < 0 &&
	       errno == EINTR)
		continue;
	HOST(close_monitor, close(ctl[0]));
	HOST(close_monitor, close(ctl[1]));
	if (child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(f, "  cannot be tried: the sentry's process ends\n");
		return;
	}
	for (unsigned l = 0; l < WALL_LAYERS; l++) {
		const char *name = wall_layer_name((enum wall_layer)l);

		if (w->lacking[l])
			fprintf(f, "  %-16s does not work here: %s\n", name, w->why[l].text);
		else
			fprintf(f, "  %-16s works: %s\n", name,
				wall_layer_summary(w, (enum wall_layer)l));
	}
}

/* On trap and notify a guest can have its stub die of a signal that dumps (platform/platform.h). */
static const char *core_describe(void)
{
	char buf[128];
	const char *pattern = read_word("/proc/sys/kernel/core_pattern", buf, sizeof(buf), "");
	const struct rlimit one = {PF_CORE_LIMIT, PF_CORE_LIMIT};

	if (*pattern == '@')
		return "go to the socket in kernel.core_pattern, and no limit keeps a guest from "
		       "causing one; use a file or a program (|) there";
	if (*pattern == '|' && HOST(prlimit64_monitor, setrlimit(RLIMIT_CORE, &one)) != 0)
		return "go to the program in kernel.core_pattern: raise the hard limit of core "
		       "files from 0, so that moat can set it to 1, which alone forbids that";
	return "are not made";
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
	printf("core files of moat's processes: %s\n", core_describe());
	printf("virtual clock: the time stamp counter %s; cpuid, rdrand and rdpid are the host's\n",
	       HOST(prctl_monitor_tsc, prctl(PR_SET_TSC, PR_TSC_ENABLE)) == 0
		       ? "follows it"
		       : "is the host's, too: it does not know PR_SET_TSC, so what reads it does "
			 "not repeat");
	puts("platforms:");
	any = platforms_describe(stdout);
	puts("second wall, around moat's own kernel:");
	wall_describe(stdout);
	puts("cgroup, behind the meters:");
	cgroup_describe(stdout);
	printf("grant: read-only%s\n", grant_is_sealed()
					       ? " and sealed"
					       : ", but not sealed: Linux 6.10 or later has mseal");
	if (host_lacks_fchmodat2())
		puts("chmod below --rw: not of FIFOs, nor of files that you may not read: Linux "
		     "6.6 or later has fchmodat2");
	if (!any) {
		puts("no platform works on this host: moat cannot run anything here");
		return 1;
	}
	return 0;
}
