/* SPDX-License-Identifier: Apache-2.0 */
/* What of the host could be read or told apart without a way to a file. */
#include "attack.h"
#include "tests/hostile/hostile.h"

#include <dirent.h>
#include <sys/auxv.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>

/* ---- descriptors ---- */

static int inherited(void)
{
	show(dup(7), "descriptor 7");
	show(openat(8, "secret", O_RDONLY), "below descriptor 8");
	show(open("/proc/self/fd/7", O_RDONLY), "/proc/self/fd/7");
	tried("mkdirat: %d", mkdirat(8, "made", 0700));
	for (int fd = 3; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			char path[64];

			snprintf(path, sizeof(path), "descriptor %d", fd);
			show(dup(fd), path);
			show(openat(fd, "secret", O_RDONLY), path);
		}
	return 0;
}

/* Standard input is a directory that nobody granted. */
static int stdin_dir(void)
{
	show(openat(0, "secret", O_RDONLY), "below standard input");
	show(open("/proc/self/fd/0/secret", O_RDONLY), "below /proc/self/fd/0");
	show(open("/dev/stdin/secret", O_RDONLY), "below /dev/stdin");
	if (fchdir(0) == 0)
		show(open("secret", O_RDONLY), "after fchdir(0)");
	tried("mkdirat: %d", mkdirat(0, "made", 0700));
	return 0;
}

/* Standard input is a file, open for reading: its contents may be seen, nothing else. */
static int stdin_file(void)
{
	void *m;

	tried("fchmod: %d", fchmod(0, 0777));
	tried("fchown: %d", fchown(0, 12345, 12345));
	tried("futimens: %d", futimens(0, (struct timespec[2]){{1, 1}, {1, 1}}));
	tried("fsetxattr: %d", fsetxattr(0, "user.x", "y", 1, 0));
	tried("ftruncate: %d", ftruncate(0, 0));
	tried("truncate: %d", truncate("/proc/self/fd/0", 0));
	tried("fallocate: %d", fallocate(0, 0, 0, 100000));
	tried("write: %zd", write(open("/proc/self/fd/0", O_RDWR), "overwritten", 11));
	tried("write: %zd", write(open("/dev/stdin", O_WRONLY | O_TRUNC), "overwritten", 11));
	m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, 0, 0);
	tried("a shared map, writable: %s", m == MAP_FAILED ? strerror(errno) : "there");
	m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, 0, 0);
	tried("mprotect: %d", mprotect(m, 4096, PROT_READ | PROT_WRITE));
	tried("link: %d", linkat(0, "", AT_FDCWD, "hard", AT_EMPTY_PATH));
	tried("link: %d",
	      linkat(AT_FDCWD, "/proc/self/fd/0", AT_FDCWD, "hard2", AT_SYMLINK_FOLLOW));
	tried("FS_IOC_SETFLAGS: %d", ioctl(0, 0x40086602, &(long){0x40 /* no dump */}));
	return 0;
}

static int receive(int s)
{
	char byte, control[CMSG_SPACE(16 * sizeof(int))];
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c;

	if (recvmsg(s, &m, 0) < 0)
		return -1;
	c = CMSG_FIRSTHDR(&m);
	errno = ENOMSG;
	return c && c->cmsg_type == SCM_RIGHTS ? *(int *)CMSG_DATA(c) : -1;
}

static struct sockaddr_un address(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	return a;
}

/* The ally listens in the granted directory and hands the secret to who connects; and connects to
 * what we listen on. */
static void socket_ally(void)
{
	struct sockaddr_un a, b;
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c, fd = open(in("out/secret"), O_RDONLY);

	chdir(in("work"));
	a = address("host.sock");
	b = address("guest.sock");
	bind(s, (struct sockaddr *)&a, sizeof(a));
	chmod("host.sock", 0777);
	listen(s, 8);
	fcntl(s, F_SETFL, O_NONBLOCK);
	for (;;) {
		c = accept(s, NULL, NULL);
		if (c >= 0)
			send_fd(c, fd, 0);
		c = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(c, (struct sockaddr *)&b, sizeof(b)) == 0)
			send_fd(c, fd, 0);
		else
			close(c);
		usleep(1000);
	}
}

static int sockets(void)
{
	struct sockaddr_un a = address("host.sock"), b = address("guest.sock");
	int s = socket(AF_UNIX, SOCK_STREAM, 0), mine = socket(AF_UNIX, SOCK_STREAM, 0);
	struct timeval tv = {.tv_sec = 1};

	for (int i = 0; i < 5000 && access("host.sock", F_OK) != 0; i++)
		usleep(1000);
	usleep(20000);
	if (connect(s, (struct sockaddr *)&a, sizeof(a)) == 0)
		show(receive(s), "from the host's socket");
	else
		tried("connect: %s", strerror(errno));
	bind(mine, (struct sockaddr *)&b, sizeof(b));
	listen(mine, 8);
	setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	s = accept(mine, NULL, NULL);
	tried("accept: %s", s < 0 ? strerror(errno) : "somebody");
	if (s >= 0)
		show(receive(s), "from who connected");
	return 0;
}

/* A FIFO in the granted directory, at whose other end the ally sits. */
static void fifo_ally(void)
{
	char text[256];
	int fd = open(in("out/secret"), O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text));

	mkfifo(in("work/host.fifo"), 0666);
	for (;;) {
		fd = open(in("work/host.fifo"), O_WRONLY);
		write(fd, text, (size_t)n);
		close(fd);
		usleep(1000);
	}
}

static int fifos(void)
{
	for (int i = 0; i < 5000 && access("host.fifo", F_OK) != 0; i++)
		usleep(1000);
	usleep(20000);
	for (int i = 0; i < 20; i++) {
		if (show(open("host.fifo", O_RDONLY | O_NONBLOCK), "the host's FIFO"))
			return 0;
		usleep(1000);
	}
	tried("open to write: %d", open("host.fifo", O_WRONLY | O_NONBLOCK));
	tried("open both ways: %d", open("host.fifo", O_RDWR | O_NONBLOCK));
	return 0;
}

/* ---- is it there? ---- */

/* The same errno whether a path that is not granted exists or not. */
static int oracle(void)
{
	static const char *const names[][2] = {{"out/secret", "out/nothing"},
					       {"workshop", "workshap"},
					       {"out/dir/", "out/dirr/"},
					       {"out/secret/x", "out/nothing/x"}};
	bool told = false;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int e[2][16];

		for (int k = 0; k < 2; k++) {
			const char *p = in("%s", names[i][k]);
			struct stat st;
			struct statfs sf;
			char buf[64];
			int n = 0;

#define ASK(call) (errno = 0, (void)(call), e[k][n++] = errno)
			ASK(open(p, O_RDONLY));
			ASK(open(p, O_WRONLY));
			ASK(open(p, O_PATH));
			ASK(stat(p, &st));
			ASK(lstat(p, &st));
			ASK(access(p, F_OK));
			ASK(readlink(p, buf, sizeof(buf)));
			ASK(getxattr(p, "user.x", buf, sizeof(buf)));
			ASK(chdir(p));
			ASK(statfs(p, &sf));
			ASK(execl(p, p, (char *)NULL));
			ASK(unlink(p));
			ASK(rmdir(p));
			ASK(rename(p, in("work/stolen")));
			ASK(link(p, "hard"));
			ASK(truncate(p, 0));
#undef ASK
		}
		if (memcmp(e[0], e[1], sizeof(e[0])) != 0) {
			tried("%s and %s can be told apart", names[i][0], names[i][1]);
			told = true;
		} else {
			tried("%s and %s: the same %d errors", names[i][0], names[i][1], 16);
		}
	}
	return told ? HARM : 0;
}

static void oracle_scene(void)
{
	mkdir(in("out/dir"), 0755);
}

/* ---- what the host is ---- */

static void dump(const char *path, int depth)
{
	static char buf[1 << 16];
	struct stat st;
	ssize_t n;
	int fd;

	if (lstat(path, &st) != 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, buf, sizeof(buf) - 1);
		printf("%s -> %.*s\n", path, n > 0 ? (int)n : 0, buf);
		return;
	}
	if (S_ISDIR(st.st_mode)) {
		DIR *d = depth > 0 ? opendir(path) : NULL;
		struct dirent *e;

		while (d && (e = readdir(d)))
			if (e->d_name[0] != '.') {
				char below[PATH_MAX];

				snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
				dump(below, depth - 1);
			}
		if (d)
			closedir(d);
		return;
	}
	if (!S_ISREG(st.st_mode) || strstr(path, "/mem") || strstr(path, "pagemap") ||
	    strstr(path, "kmsg") || strstr(path, "trace") || strstr(path, "clear_refs") ||
	    strstr(path, "kcore") || strstr(path, "page_idle"))
		return;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));
	printf("%s: %.*s\n", path, n > 0 ? (int)n : 0, buf);
	close(fd);
}

/* Everything that says who and where the host is; the runner compares. */
static int identity(void)
{
	struct utsname u;
	struct sysinfo si;

	uname(&u);
	sysinfo(&si);
	printf("uname %s %s %s %s %s\n", u.sysname, u.nodename, u.release, u.version, u.machine);
	printf("sysinfo %ld %lu %lu %u\n", si.uptime, si.totalram, si.freeram, si.procs);
	printf("execfn %s\n", (const char *)getauxval(AT_EXECFN));
	dump("/proc/version", 1);
	dump("/proc/cmdline", 1);
	dump("/proc/mounts", 1);
	dump("/proc/sys/kernel", 3);
	dump("/proc/self", 2);
	dump("/proc/1", 1);
	dump("/proc/net", 3);
	dump("/proc/partitions", 1);
	dump("/proc/diskstats", 1);
	dump("/proc/modules", 1);
	dump("/proc/devices", 1);
	dump("/proc/bus", 3);
	dump("/proc/driver", 3);
	dump("/sys/class", 2);
	dump("/sys/block", 2);
	dump("/sys/kernel", 2);
	return 0;
}

const struct attack g_leaks[] = {
	{"inherited", "leak", inherited, .flags = "inherit"},
	{"stdin_dir", "leak", stdin_dir, .flags = "stdin-dir,refused"},
	{"stdin_file", "leak", stdin_file, .flags = "stdin-file"},
	{"sockets", "leak", sockets, .ally = socket_ally},
	{"fifos", "leak", fifos, .ally = fifo_ally},
	{"oracle", "leak", oracle, .scene = oracle_scene},
	{"identity", "leak", identity, .flags = "identity"},
	{0},
};
