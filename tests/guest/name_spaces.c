/* SPDX-License-Identifier: Apache-2.0 */

/* The name spaces as files: what /proc/PID/ns leads to, the ioctls of it, setns by such a file and
 * by a pidfd. */
#include "guest.h"
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <sys/statfs.h>

static const char *const names[] = {
	"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children",
	"user",   "uts"};

static long setns_raw(int fd, int kind)
{
	return syscall(SYS_setns, fd, kind);
}

static bool may(unsigned cap)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0}};

	return syscall(SYS_capget, &h, d) == 0 && (d[0].effective & 1u << cap);
}

/* "as it may": done if the caller has the capability, else refused for lack of it. */
static void as_may(const char *what, long r, bool can)
{
	const bool right = can ? r == 0 : r == -1 && errno == EPERM;

	printf("%s: %s\n", what, right ? "as it may" : r == 0 ? "done" : guest_errno(errno));
}

static void the_file(const char *name)
{
	char path[64], text[64] = "", link[64], again[64] = "";
	struct stat st, other;
	struct statfs sf;
	unsigned long nr = 0;
	char byte = 0;
	int fd, reopened;

	printf("-- %s\n", name);
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	V(lstat(path, &st));
	printf("%o %ld\n", st.st_mode, (long)st.st_size);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	V(fstat(fd, &st));
	printf("%o %ld %d %d %ld\n", st.st_mode, (long)st.st_nlink, (int)st.st_uid, (int)st.st_gid,
	       (long)st.st_size);
	T(readlink(path, text, sizeof(text) - 1) > 0);
	T(strchr(text, '[') && sscanf(strchr(text, '['), "[%lu]", &nr) == 1 && nr == st.st_ino);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	T(readlink(link, again, sizeof(again) - 1) > 0 && !strcmp(text, again));
	*strchr(text, ':') = 0;
	printf("kind %s\n", text);
	reopened = open(link, O_RDONLY);
	T(fstat(reopened, &other) == 0 && other.st_ino == st.st_ino && other.st_dev == st.st_dev);
	snprintf(path, sizeof(path), "/proc/thread-self/ns/%s", name);
	T(stat(path, &other) == 0 && other.st_ino == st.st_ino && other.st_dev == st.st_dev);
	V(fstatfs(fd, &sf));
	printf("type %lx\n", (unsigned long)sf.f_type);
	V(open(path, O_RDWR));
	V(open(path, O_RDONLY | O_TRUNC));
	V(open(path, O_RDONLY | O_DIRECTORY));
	V(access(path, R_OK));
	V(access(path, W_OK));
	V(access(path, X_OK));
	V(read(fd, &byte, 1));
	V(write(fd, &byte, 1));
	V(lseek(fd, 0, SEEK_CUR));
	T(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == ENODEV);
	V(fchmod(fd, 0600));
	V(ftruncate(fd, 0));
	V(unlink(path));
	close(reopened);
	close(fd);
}

static void asked(const char *name)
{
	char path[64];
	struct stat st, user;
	uid_t uid;
	int fd, owner, left = -1;

	printf("-- %s\n", name);
	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	printf("kind %x\n", (unsigned)ioctl(fd, NS_GET_NSTYPE));
	V(ioctl(fd, NS_GET_PARENT));
	V(ioctl(fd, NS_GET_OWNER_UID, &uid));
	V(ioctl(fd, NS_GET_OWNER_UID, NULL));
	V(ioctl(fd, _IO(0xb7, 0xff)));
	V(ioctl(fd, FIONREAD, &left));
	printf("%d bytes\n", left);
	owner = ioctl(fd, NS_GET_USERNS);
	if (owner < 0) {
		printf("owner %s\n", guest_errno(errno));
	} else {
		printf("owner %x, descriptor flags %x\n", (unsigned)ioctl(owner, NS_GET_NSTYPE),
		       (unsigned)fcntl(owner, F_GETFD));
		T(fstat(owner, &st) == 0 && stat("/proc/self/ns/user", &user) == 0 &&
		  st.st_ino == user.st_ino && st.st_dev == user.st_dev);
		close(owner);
	}
	close(fd);
}

static void entered(void)
{
	static const struct {
		const char *name;
		int kind, other;
	} kinds[] = {{"cgroup", CLONE_NEWCGROUP, CLONE_NEWUTS},
		     {"ipc", CLONE_NEWIPC, CLONE_NEWUTS},
		     {"net", CLONE_NEWNET, CLONE_NEWUTS},
		     {"pid", CLONE_NEWPID, CLONE_NEWUTS},
		     {"time", 0x80, CLONE_NEWUTS},
		     {"uts", CLONE_NEWUTS, CLONE_NEWIPC}};
	const bool admin = may(CAP_SYS_ADMIN);
	char path[64];
	int fd;

	P("setns by a file");
	for (size_t i = 0; i < GUEST_COUNT(kinds); i++) {
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i].name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		printf("%s\n", kinds[i].name);
		as_may("any kind", setns_raw(fd, 0), admin);
		as_may("its kind", setns_raw(fd, kinds[i].kind), admin);
		V(setns_raw(fd, kinds[i].other));
		V(setns_raw(fd, kinds[i].kind | kinds[i].other));
		V(setns_raw(fd, 1));
		close(fd);
	}
	fd = open("/proc/self/ns/user", O_RDONLY);
	V(setns_raw(fd, 0));
	V(setns_raw(fd, CLONE_NEWUSER));
	close(fd);
	fd = open("/proc/self/ns/uts", O_PATH);
	V(setns_raw(fd, 0));
	close(fd);
	fd = open("/proc/self/status", O_RDONLY);
	V(setns_raw(fd, 0));
	V(setns_raw(fd, CLONE_NEWUTS));
	close(fd);
	V(setns_raw(-1, 0));
}

static void entered_by_pidfd(void)
{
	const bool admin = may(CAP_SYS_ADMIN);
	int fd, ended;
	pid_t pid;

	P("setns by a pidfd");
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	V(setns_raw(fd, 0));
	V(setns_raw(fd, 1));
	V(setns_raw(fd, CLONE_NEWUTS | CLONE_FS));
	V(setns_raw(fd, CLONE_NEWUSER));
	V(setns_raw(fd, CLONE_NEWUTS | CLONE_NEWUSER));
	as_may("one", setns_raw(fd, CLONE_NEWUTS), admin);
	as_may("some", setns_raw(fd, CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID),
	       admin);
	close(fd);
	pid = guest_fork();
	if (!pid)
		_exit(0);
	ended = (int)syscall(SYS_pidfd_open, pid, 0);
	guest_wait("ended", pid);
	V(setns_raw(ended, CLONE_NEWUTS));
	close(ended);
}

/* Entering the mounts leads to their root. */
static void mounts_entered(void)
{
	const bool can = may(CAP_SYS_ADMIN) && may(CAP_SYS_CHROOT);
	char cwd[PATH_MAX] = "";
	pid_t pid;
	int fd;

	P("the mounts");
	V(mkdir("below", 0755));
	pid = guest_fork();
	if (!pid) {
		fd = open("/proc/self/ns/mnt", O_RDONLY);
		if (may(CAP_SYS_CHROOT)) {
			T(chroot("below") == 0 && access("/proc", F_OK) == -1);
		} else {
			T(chdir("below") == 0);
		}
		as_may("mounts", setns_raw(fd, CLONE_NEWNS), can);
		T(!can || (getcwd(cwd, sizeof(cwd)) && !strcmp(cwd, "/")));
		T(!can || access("/proc", F_OK) == 0);
		exit(0);
	}
	guest_wait("entered", pid);
}

/* Where others share the directories, or there are other threads. */
static void *in_thread(void *arg)
{
	const int *fds = arg;
	const bool can = may(CAP_SYS_ADMIN) && may(CAP_SYS_CHROOT);
	long r = setns_raw(fds[0], 0);

	printf("mounts: %s\n", (r == -1 && errno == (can ? EINVAL : EPERM)) ? "refused" : "DONE");
	V(setns_raw(fds[1], 0));
	as_may("uts", setns_raw(fds[2], 0), may(CAP_SYS_ADMIN));
	return NULL;
}

static void not_alone(void)
{
	int fds[] = {open("/proc/self/ns/mnt", O_RDONLY), open("/proc/self/ns/time", O_RDONLY),
		     open("/proc/self/ns/uts", O_RDONLY)};
	pthread_t thread;

	P("in a thread");
	T(pthread_create(&thread, NULL, in_thread, fds) == 0);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < GUEST_COUNT(fds); i++)
		close(fds[i]);
}

/* Without capabilities. */
static void not_root(void)
{
	pid_t pid = guest_fork();

	if (!pid) {
		int fd = open("/proc/self/ns/uts", O_RDONLY);
		int user = open("/proc/self/ns/user", O_RDONLY);

		P("without capabilities");
		if (geteuid() == 0)
			T(setresuid(65534, 65534, 65534) == 0);
		V(setns_raw(fd, 0));
		V(setns_raw(fd, CLONE_NEWIPC));
		V(setns_raw(user, 0));
		exit(0);
	}
	guest_wait("without", pid);
}

/* A child is where its parent is. */
static void of_others(void)
{
	char path[64];
	struct stat a, b;
	pid_t pid;
	int go;

	P("of a child");
	pid = guest_fork_idle(&go);
	for (size_t i = 0; i < GUEST_COUNT(names); i++) {
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, names[i]);
		T(stat(path, &a) == 0);
		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		T(stat(path, &b) == 0 && a.st_ino == b.st_ino && a.st_dev == b.st_dev);
	}
	close(go);
	guest_wait("child", pid);
	snprintf(path, sizeof(path), "/proc/%d/ns/uts", (int)pid);
	V(open(path, O_RDONLY));
	V(open("/proc/self/ns/none", O_RDONLY));
}

int main(void)
{
	guest_begin();
	P("the files");
	for (size_t i = 0; i < GUEST_COUNT(names); i++)
		the_file(names[i]);
	P("the ioctls");
	for (size_t i = 0; i < GUEST_COUNT(names); i++)
		asked(names[i]);
	entered();
	entered_by_pidfd();
	mounts_entered();
	not_alone();
	not_root();
	of_others();
	return 0;
}
