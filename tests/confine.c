/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine PROGRAM [ARG...]: runs a static program that makes odd system calls natively, so that
 * none of them can change anything of the host's, whatever the call is. Needs root; 77: this host
 * lacks what it takes.
 *
 * Theory of operation: a test that compares moat with Linux makes its calls natively, as root, and
 * a list of the calls that are too dangerous for that is never complete (chmod of "/" is a call
 * like any other). Here it is by construction that nothing of the host's can be named: the root is
 * a tmpfs with a copy of the program, /work, /ro/public, /tmp, a /dev/null, zero and random of its
 * own, and a read-only /proc of its own pids; the host's root is unmounted. All name spaces are its
 * own, the user name space too, in which its root is an id that owns nothing on the host (BASE):
 * what is left to be named, such as the rows of /proc, is not its own, and no capability counts
 * outside. Its output goes through a pipe, so that it holds no descriptor of the host's. It ends
 * with this process.
 *
 * The environment is that of the caller, with RO=/ro, SIDE_EFFECT_DIR=/work and TMPDIR=/tmp; the
 * working directory is /work.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASE 1879048192u /* far from what /etc/passwd and /etc/subuid give away */
#define IDS 65536u
#define LAST 4294967293u /* the last two ids are also there: tests try them */

enum { LACKING = 77, BROKEN = 125 };

static void need(int ok, const char *what)
{
	if (ok)
		return;
	dprintf(2, "confine: this host lacks %s: %s\n", what, strerror(errno));
	_exit(LACKING);
}

static void sure(int ok, const char *what)
{
	if (ok)
		return;
	dprintf(2, "confine: %s: %s\n", what, strerror(errno));
	_exit(BROKEN);
}

static void copy(int from, const char *to)
{
	char buf[65536];
	ssize_t n;
	int fd = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);

	sure(fd >= 0, to);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		sure(write(fd, buf, (size_t)n) == n, to);
	sure(n == 0 && close(fd) == 0, to);
}

/* The tree is made on /tmp, of which the caller's stays as it is: the mount is in a name space of
 * our own. */
static void make_root(int program)
{
	static const char *const dirs[] = {"dev", "proc", "work", "ro", "tmp"};
	static const struct {
		const char *name;
		unsigned minor;
	} devices[] = {{"dev/null", 3}, {"dev/zero", 5}, {"dev/random", 8}, {"dev/urandom", 9}};
	char options[128];
	int fd;

	umask(0);
	need(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0,
	     "mounts of its own");
	snprintf(options, sizeof(options), "size=64m,nr_inodes=20000,mode=755,uid=%u,gid=%u", BASE,
		 BASE);
	need(mount("confined", "/tmp", "tmpfs", MS_NOSUID, options) == 0 && chdir("/tmp") == 0,
	     "a tmpfs");
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		sure(mkdir(dirs[i], strcmp(dirs[i], "tmp") == 0 ? 01777 : 0755) == 0 &&
			     chown(dirs[i], BASE, BASE) == 0,
		     dirs[i]);
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		need(mknod(devices[i].name, S_IFCHR | 0666, makedev(1, devices[i].minor)) == 0 &&
			     chown(devices[i].name, BASE, BASE) == 0,
		     "devices of its own");
	copy(program, "program");
	fd = open("ro/public", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	sure(fd >= 0 && write(fd, "public\n", 7) == 7 && close(fd) == 0, "ro/public");
	sure(chown("program", BASE, BASE) == 0 && chown("ro/public", BASE, BASE) == 0, "chown");
	need(mount("proc", "proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0,
	     "a /proc of its own");
	need(syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
		     chdir("/") == 0,
	     "a root of its own");
	umask(022);
}

/* All that must hold before an odd call is made. */
static void look_again(void)
{
	struct statfs fs;
	struct stat st;
	char map[256] = "";
	unsigned in[2], out[2], count[2];
	DIR *d = opendir("/");
	struct dirent *e;
	int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);

	sure(fd >= 0 && read(fd, map, sizeof(map) - 1) > 0 &&
		     sscanf(map, "%u %u %u %u %u %u", &in[0], &out[0], &count[0], &in[1], &out[1],
			    &count[1]) == 6 &&
		     in[0] == 0 && out[0] == BASE && count[0] == IDS && in[1] == LAST &&
		     out[1] == BASE + IDS && count[1] == 2,
	     "the ids are not its own");
	close(fd);
	sure(statfs("/", &fs) == 0 && fs.f_type == 0x01021994 /* TMPFS_MAGIC */,
	     "the root is not its own");
	for (errno = EEXIST; d && (e = readdir(d)); errno = EEXIST)
		sure(strstr(" . .. dev proc work ro tmp program ", e->d_name) != NULL, e->d_name);
	sure(d != NULL && closedir(d) == 0, "/");
	sure(stat("/", &st) == 0 && st.st_uid == 0, "the root is not owned by its own root");
	for (int i = 0; i < 3; i++)
		sure(fstat(i, &st) == 0 && (S_ISFIFO(st.st_mode) || st.st_uid == 0),
		     "a descriptor of the host's");
	for (int i = 3; i < 1024; i++)
		sure(fcntl(i, F_GETFD) < 0, "a descriptor of the host's");
}

static void confined(int program, int ready, int go, char **argv)
{
	char byte = 0;
	int status = 0, null;
	pid_t pid, ended;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid();
	syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
	make_root(program);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sure(null >= 0 && dup2(null, 0) == 0, "/dev/null");
	need(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
		     CLONE_NEWCGROUP) == 0,
	     "name spaces of its own");
	sure(write(ready, "u", 1) == 1 && read(go, &byte, 1) == 1 && byte == 'm', "no map of ids");
	sure(setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0,
	     "root of its own");
	syscall(SYS_close_range, 3, ~0u, 0);
	sure(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
	look_again();
	/* Dying by a signal of a parent outside is over with the change of ids. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pid = fork();
	sure(pid >= 0, "fork");
	if (pid == 0) {
		setsid();
		sure(chdir("/work") == 0 && setenv("RO", "/ro", 1) == 0 &&
			     setenv("SIDE_EFFECT_DIR", "/work", 1) == 0 &&
			     setenv("TMPDIR", "/tmp", 1) == 0,
		     "/work");
		execv("/program", argv);
		sure(0, "the program");
	}
	/* Also for those that the program leaves. */
	while ((ended = wait(&status)) != pid)
		sure(ended > 0 || errno == EINTR, "wait");
	/* With this, the first of its pids, all the others end. */
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static int put_map(pid_t pid, const char *what)
{
	char path[64], text[64];
	int fd, n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	n = snprintf(text, sizeof(text), "0 %u %u\n%u %u 2\n", BASE, IDS, LAST, BASE + IDS);
	n = fd >= 0 && write(fd, text, (size_t)n) == n;
	close(fd);
	return n;
}

int main(int argc, char **argv)
{
	int out[2], ready[2], go[2], program, status = 0;
	char buf[65536];
	ssize_t n;
	pid_t pid;

	if (argc < 2) {
		fprintf(stderr, "usage: confine PROGRAM [ARG...]\n");
		return 2;
	}
	need(geteuid() == 0, "root, as whom alone the map of ids can be written");
	program = open(argv[1], O_RDONLY | O_CLOEXEC);
	sure(program >= 0, argv[1]);
	sure(pipe2(out, O_CLOEXEC) == 0 && pipe2(ready, O_CLOEXEC) == 0 &&
		     pipe2(go, O_CLOEXEC) == 0,
	     "pipe");
	need(unshare(CLONE_NEWPID) == 0, "pids of its own");
	pid = fork();
	sure(pid >= 0, "fork");
	if (pid == 0) {
		sure(dup2(out[1], 1) == 1 && dup2(out[1], 2) == 2, "dup2");
		close(out[0]);
		close(ready[0]);
		close(go[1]);
		confined(program, ready[1], go[0], argv + 1);
	}
	close(out[1]);
	close(ready[1]);
	close(go[0]);
	if (read(ready[0], buf, 1) == 1 && put_map(pid, "uid_map") && put_map(pid, "gid_map"))
		(void)!write(go[1], "m", 1);
	close(go[1]);
	while ((n = read(out[0], buf, sizeof(buf))) > 0)
		for (ssize_t at = 0, w; at < n; at += w)
			if ((w = write(1, buf + at, (size_t)(n - at))) <= 0)
				return BROKEN;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
