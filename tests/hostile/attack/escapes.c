/* SPDX-License-Identifier: Apache-2.0 */
/* Ways out of the granted directory by name, link, mount, root, handle and descriptor. */
#include "attack.h"

#include <linux/openat2.h>

/* ---- names ---- */

static int sibling(void)
{
	show_path(in("workshop/secret"));
	show_path(in("work/../workshop/secret"));
	show_path("../workshop/secret");
	return 0;
}

static int dots(void)
{
	static const char *const forms[] = {
		"..//out/secret",
		"./../out/secret",
		"sub/../../out/secret",
		"sub/deep/../../../out/secret",
		"../work/../out/secret",
		"../out/../out/secret",
		"sub/./.././../out/./secret",
		"link_to_sub/../../out/secret",
		"link_to_sub/../../../out/secret",
		"../../../../../../../../../../../../../../../../etc/../../../../..",
	};
	char far[PATH_MAX] = "";
	int dir;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		show_path(forms[i]);
	for (int i = 0; i < 200; i++)
		strcat(far, "../");
	strcat(far, in("out/secret") + 1);
	show_path(far);
	dir = open("sub/deep", O_PATH | O_DIRECTORY);
	show(openat(dir, "../../../out/secret", O_RDONLY), "from a descriptor of sub/deep");
	if (chdir("sub/deep") == 0 && chdir("..") == 0 && chdir("..") == 0 && chdir("..") == 0)
		show(open("out/secret", O_RDONLY), "after four chdir");
	if (fchdir(dir) == 0)
		show(open("../../../out/secret", O_RDONLY), "after fchdir");
	return 0;
}

static int symlinks(void)
{
	symlink(in("out/secret"), "absolute");
	symlink("../out/secret", "relative");
	symlink("../out", "dir");
	symlink("dir/secret", "chain");
	symlink("/proc/self/root/", "root");
	symlink("/proc/self/cwd/../out", "by_proc");
	show_path("absolute");
	show_path("relative");
	show_path("dir/secret");
	show_path("chain");
	show_path("by_proc/secret");
	show_path(in("work/root%s/out/secret", g_case));
	show_path("host_absolute");
	show_path("host_dir/secret");
	show_path(in("ro/host_dir/secret"));
	return 0;
}

static void symlinks_scene(void)
{
	symlink(in("out/secret"), in("work/host_absolute"));
	symlink(in("out"), in("work/host_dir"));
	symlink("../out", in("ro/host_dir"));
}

/* Writing through links, and names made where nothing is granted. */
static int make_outside(void)
{
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	symlink("../out", "to_out");
	symlink("../out/by_dangling", "dangling");
	tried("mkdir: %d", mkdir("to_out/made_dir", 0700));
	tried("creat: %d", open("to_out/made_file", O_CREAT | O_WRONLY, 0600));
	tried("creat by a dangling link: %d", open("dangling", O_CREAT | O_WRONLY, 0600));
	tried("symlink: %d", symlink("x", "to_out/made_link"));
	tried("mkfifo: %d", mkfifo("to_out/made_fifo", 0600));
	put_file("mine", "mine", 0600);
	tried("link: %d", link("mine", "to_out/made_hard"));
	tried("rename: %d", rename("mine", "to_out/made_by_rename"));
	snprintf(a.sun_path, sizeof(a.sun_path), "to_out/made_socket");
	tried("bind: %d", bind(s, (struct sockaddr *)&a, sizeof(a)));
	return 0;
}

static int harm_outside(void)
{
	symlink("../out", "to_out");
	tried("truncate: %d", truncate("to_out/victim", 1));
	tried("chmod: %d", chmod("to_out/victim", 0777));
	tried("chown: %d", chown("to_out/victim", 12345, 12345));
	tried("setxattr: %d", setxattr("to_out/victim", "user.x", "y", 1, 0));
	tried("utimes: %d", utimes("to_out/victim", (struct timeval[2]){{1, 1}, {1, 1}}));
	tried("unlink: %d", unlink("to_out/victim2"));
	tried("rmdir: %d", rmdir("to_out/victim_dir"));
	tried("rename over: %d", rename("inside", "to_out/victim3"));
	tried("rename away: %d", rename("to_out/victim4", "stolen"));
	return 0;
}

static void harm_scene(void)
{
	put_file(in("out/victim"), "victim", 0600);
	put_file(in("out/victim2"), "victim", 0600);
	put_file(in("out/victim3"), "victim", 0600);
	put_file(in("out/victim4"), "victim", 0600);
	mkdir(in("out/victim_dir"), 0700);
}

static int write_ro(void)
{
	const char *f = in("ro/public");
	int fd = open(f, O_RDONLY);
	char self[64];
	void *m;

	tried("open for writing: %d", open(f, O_WRONLY | O_TRUNC));
	tried("append: %d", open(f, O_WRONLY | O_APPEND));
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	tried("reopen: %d", open(self, O_RDWR | O_TRUNC));
	tried("truncate: %d", truncate(f, 0));
	tried("ftruncate: %d", ftruncate(fd, 0));
	tried("fallocate: %d", fallocate(fd, 0, 0, 100000));
	tried("fchmod: %d", fchmod(fd, 0777));
	tried("fchown: %d", fchown(fd, 12345, 12345));
	tried("futimens: %d", futimens(fd, (struct timespec[2]){{1, 1}, {1, 1}}));
	tried("fsetxattr: %d", fsetxattr(fd, "user.x", "y", 1, 0));
	tried("unlink: %d", unlink(in("ro/public2")));
	tried("rename: %d", rename(in("ro/public3"), in("ro/renamed")));
	tried("creat: %d", open(in("ro/new"), O_CREAT | O_RDWR, 0600));
	tried("tmpfile: %d", open(in("ro"), O_TMPFILE | O_RDWR, 0600));
	tried("link: %d", link(f, in("ro/hard")));
	tried("link out of it: %d", link(f, "hard"));
	tried("mount -o remount,rw: %d", mount(NULL, in("ro"), NULL, MS_REMOUNT | MS_BIND, NULL));
	tried("open again: %d", open(f, O_WRONLY | O_TRUNC));
	m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	tried("a shared map, writable: %s", m == MAP_FAILED ? strerror(errno) : "there");
	m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	tried("mprotect of a shared map: %d", mprotect(m, 4096, PROT_READ | PROT_WRITE));
	tried("mremap: %d", mprotect(mremap(m, 4096, 4096, MREMAP_MAYMOVE), 4096, PROT_WRITE));
	return 0;
}

static void write_ro_scene(void)
{
	put_file(in("ro/public2"), "public", 0644);
	put_file(in("ro/public3"), "public", 0644);
}

static int hard_links(void)
{
	int fd = open(in("out/secret"), O_PATH);
	char self[64];

	tried("link: %d", link(in("out/secret"), "hard"));
	show_path("hard");
	tried("link by ..: %d", link("../out/secret", "hard2"));
	show_path("hard2");
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	tried("linkat by /proc/self/fd: %d",
	      linkat(AT_FDCWD, self, AT_FDCWD, "hard3", AT_SYMLINK_FOLLOW));
	show_path("hard3");
	tried("linkat by descriptor: %d", linkat(fd, "", AT_FDCWD, "hard4", AT_EMPTY_PATH));
	show_path("hard4");
	return 0;
}

static int magic_links(void)
{
	char path[PATH_MAX];
	static const char *const roots[] = {
		"/proc/self/root",         "/proc/thread-self/root", "/proc/1/root",
		"/proc/self/task/%d/root", "/proc/self/cwd/..",      "/proc/self/exe/..",
		"/proc/self/fd/99",        "/proc/2/root",
	};

	dup2(open("/", O_PATH | O_DIRECTORY), 99);
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		snprintf(path, sizeof(path), roots[i], getpid());
		if (strstr(path, "cwd"))
			snprintf(path + strlen(path), 64, "/out/secret");
		else
			snprintf(path + strlen(path), PATH_MAX - 64, "%s/out/secret", g_case);
		show_path(path);
	}
	snprintf(path, sizeof(path), "/proc/%d/root%s/out/secret", getppid(), g_case);
	show_path(path);
	return 0;
}

/* A file that is mapped for reading, opened for writing by the map. */
static int map_files(void)
{
	const int fd = open(in("ro/public"), O_RDONLY);
	const uintptr_t at = (uintptr_t)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	char path[128];

	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", at, at + 4096);
	tried("open for writing: %zd", write(open(path, O_WRONLY), "changed", 7));
	tried("truncate: %d", truncate(path, 0));
	tried("chmod: %d", chmod(path, 0777));
	tried("link: %d", linkat(AT_FDCWD, path, AT_FDCWD, in("ro/made"), AT_SYMLINK_FOLLOW));
	return 0;
}

/* By numbers that file systems serve on a descriptor that is open for reading. */
static int ioctl_ro(void)
{
	static const struct {
		const char *name;
		unsigned long nr;
	} calls[] = {{"FS_IOC_SETFLAGS", 0x40086602},
		     {"FS_IOC_FSSETXATTR", 0x401c5820},
		     {"FS_IOC_SETVERSION", 0x40087602},
		     {"FS_IOC_SETFSLABEL", 0x41009432},
		     {"FIFREEZE", 0xc0045877},
		     {"FITRIM", 0xc0185879},
		     {"FS_IOC_RESVSP", 0x40305828},
		     {"FS_IOC_ZERO_RANGE", 0x40305839},
		     {"FICLONE", 0x40049409},
		     {"FIDEDUPERANGE", 0xc0189436},
		     {"EXT4_IOC_MOVE_EXT", 0xc028660f},
		     {"FS_IOC_ENABLE_VERITY", 0x40806685},
		     {"FS_IOC_SET_ENCRYPTION_POLICY", 0x800c6613}};
	const char *const paths[] = {in("ro/public"), in("ro")};

	for (size_t k = 0; k < 2; k++) {
		const int fd = open(paths[k], O_RDONLY);

		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
			/* The machine's file systems are nobody's to try this on. */
			if (!getenv("BOXED") &&
			    (calls[i].nr == 0xc0045877 || calls[i].nr == 0xc0185879 ||
			     calls[i].nr == 0x41009432))
				continue;
			/* No dump, no time of access. */
			tried("%s: %d", calls[i].name, ioctl(fd, calls[i].nr, (long[32]){0xc0}));
		}
	}
	return 0;
}

/* ---- openat2 ---- */

static int openat2_flags(void)
{
	static const char *const paths[] = {"../out/secret", "to_out/secret", "to_secret",
					    "sub/../../out/secret", "/proc/self/cwd/../out/secret"};
	int dir = open(".", O_PATH | O_DIRECTORY);

	symlink("../out", "to_out");
	symlink(in("out/secret"), "to_secret");
	for (uint64_t resolve = 0; resolve < 0x40; resolve++)
		for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
			struct open_how how = {.flags = O_RDONLY, .resolve = resolve};
			char text[64];

			snprintf(text, sizeof(text), "%s with resolve %#llx", paths[i],
				 (unsigned long long)resolve);
			show((int)syscall(SYS_openat2, dir, paths[i], &how, sizeof(how)), text);
		}
	return 0;
}

/* ---- roots and mounts ---- */

/* Natively the chroot is the wall. */
static int double_chroot(void)
{
	int out;

	mkdir("jail", 0700);
	if (chroot(".") != 0)
		tried("chroot: %s", strerror(errno));
	out = open("/", O_RDONLY | O_DIRECTORY);
	tried("chroot below it: %d", chroot("jail"));
	if (fchdir(out) == 0)
		for (int i = 0; i < 100; i++)
			chdir("..");
	tried("chroot to .: %d", chroot("."));
	show_path(in("out/secret"));
	return 0;
}

static int pivot(void)
{
	int old;

	tried("unshare: %d", unshare(CLONE_NEWNS));
	old = open("/", O_PATH | O_DIRECTORY);
	tried("bind: %d", mount(".", ".", NULL, MS_BIND | MS_REC, NULL));
	if (chdir(in("work")) == 0)
		tried("pivot_root: %ld", syscall(SYS_pivot_root, ".", "."));
	fchdir(old);
	show(open(in("out/secret") + 1, O_RDONLY), "relative to the old root");
	chdir("/");
	tried("umount of the new: %d", umount2(".", MNT_DETACH));
	show_path(in("out/secret"));
	return 0;
}

static int mounts(void)
{
	mkdir("mnt", 0700);
	tried("bind: %d", mount(in("out"), "mnt", NULL, MS_BIND, NULL));
	show_path("mnt/secret");
	tried("move: %d", mount("mnt", "sub", NULL, MS_MOVE, NULL));
	show_path("sub/secret");
	tried("proc: %d", mount("proc", "mnt", "proc", 0, NULL));
	show_path(in("work/mnt/1/root%s/out/secret", g_case));
	tried("overlay: %d",
	      mount("overlay", "mnt", "overlay", 0, in("out") ? "lowerdir=../out:sub" : ""));
	show_path("mnt/secret");
	tried("hostfs: %d", mount(in("out"), "mnt", "hostfs", 0, NULL));
	show_path("mnt/secret");
	return 0;
}

static int new_mounts(void)
{
	int fd, fs;

	mkdir("mnt", 0700);
	fd = (int)syscall(SYS_open_tree, AT_FDCWD, in("out"), 1 /* OPEN_TREE_CLONE */);
	tried("open_tree: %d", fd);
	show(openat(fd, "secret", O_RDONLY), "below it");
	tried("move_mount: %ld", syscall(SYS_move_mount, fd, "", AT_FDCWD, "mnt", 4));
	show_path("mnt/secret");
	fs = (int)syscall(SYS_fsopen, "proc", 0);
	tried("fsopen: %d", fs);
	tried("fsconfig: %ld", syscall(SYS_fsconfig, fs, 6, NULL, NULL, 0));
	fd = (int)syscall(SYS_fsmount, fs, 0, 0);
	tried("fsmount: %d", fd);
	show(openat(fd, in("1/root") + strlen(g_case) + 1, O_RDONLY), "proc");
	return 0;
}

/* ---- handles ---- */

struct handle {
	struct file_handle h;
	unsigned char bytes[MAX_HANDLE_SZ];
};

/* The ally tells the handle by a file in work/. */
static void handle_scene(void)
{
	struct handle h = {.h.handle_bytes = MAX_HANDLE_SZ};
	int id, fd;

	if (name_to_handle_at(AT_FDCWD, in("out/secret"), &h.h, &id, 0) != 0)
		return;
	fd = open(in("work/handle"), O_CREAT | O_WRONLY, 0644);
	write(fd, &h, sizeof(h));
	close(fd);
}

static int handles(void)
{
	struct handle h, mine = {.h.handle_bytes = MAX_HANDLE_SZ};
	int fd = open("handle", O_RDONLY), dir = open(".", O_RDONLY | O_DIRECTORY), id;

	tried("name_to_handle_at of the secret: %d",
	      name_to_handle_at(AT_FDCWD, in("out/secret"), &mine.h, &id, 0));
	mine.h.handle_bytes = MAX_HANDLE_SZ;
	tried("name_to_handle_at of my own: %d",
	      name_to_handle_at(AT_FDCWD, "inside", &mine.h, &id, 0));
	if (read(fd, &h, sizeof(h)) != sizeof(h))
		tried("no handle: the file system has none");
	show(open_by_handle_at(dir, &h.h, O_RDONLY), "open_by_handle_at");
	show(open_by_handle_at(AT_FDCWD, &h.h, O_RDONLY), "open_by_handle_at, from here");
	return 0;
}

/* ---- what is moved while it is used ---- */

/* Our directory is moved out of the grant while we are in it: ".." must lead where it led. */
static int moved_away(void)
{
	char buf[64];

	if (chdir("sub/deep") != 0)
		return 2;
	put_file(in("work/ready"), "x", 0600);
	while (access(in("work/moved"), F_OK) != 0)
		usleep(1000);
	show_path("../secret");
	show_path("../../out/secret");
	show_path("../../workshop/secret");
	show(open("..", O_PATH), "..");
	show(openat(open("..", O_PATH | O_DIRECTORY), "secret", O_RDONLY), "secret below ..");
	tried("getcwd: %s", getcwd(buf, sizeof(buf)) ? "a path" : strerror(errno));
	tried("mkdir above: %d", mkdir("../made", 0700));
	return 0;
}

/* away/ is the ally's own. */
static void moved_away_scene(void)
{
	char text[256] = "";
	int fd = open(in("out/secret"), O_RDONLY);

	read(fd, text, sizeof(text) - 1);
	close(fd);
	mkdir(in("away"), 0755);
	put_file(in("away/secret"), text, 0644);
}

static void moved_away_ally(void)
{
	while (access(in("work/ready"), F_OK) != 0)
		usleep(1000);
	rename(in("work/sub/deep"), in("away/deep"));
	put_file(in("work/moved"), "x", 0666);
	pause();
}

/* ---- races with an ally outside, who swaps a directory for a link ---- */

static void swap_ally(void)
{
	mkdir(in("work/real"), 0777);
	put_file(in("work/real/secret"), "fine", 0666);
	put_file(in("work/real/victim"), "fine", 0666);
	symlink("../out", in("work/evil"));
	symlink("../out/secret", in("work/evil_file"));
	mkdir(in("work/swap"), 0777);
	put_file(in("work/swap_file"), "fine", 0666);
	/* Exchanged in one step, so that the name is always there. */
	for (;;) {
		syscall(SYS_renameat2, AT_FDCWD, in("work/swap"), AT_FDCWD, in("work/evil"), 2);
		syscall(SYS_renameat2, AT_FDCWD, in("work/swap_file"), AT_FDCWD,
			in("work/evil_file"), 2);
	}
}

static void swap_scene(void)
{
	harm_scene();
}

static void wait_for_ally(void)
{
	for (int i = 0; i < 5000 && access("swap_file", F_OK) != 0; i++)
		usleep(1000);
}

static bool leaked(int fd)
{
	char buf[64];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	bool found = false;

	if (n > 6 && memcmp(buf, "secret", 6) == 0) {
		buf[n] = '\0';
		tried("a race, and won: %s", buf);
		found = true;
	}
	if (fd >= 0)
		close(fd);
	return found;
}

static int race_open(void)
{
	wait_for_ally();
	for (unsigned i = 0; again(i, rounds()); i++) {
		if (leaked(open("swap/secret", O_RDONLY | O_NONBLOCK)) ||
		    leaked(open("swap_file", O_RDONLY | O_NONBLOCK)))
			return 0;
	}
	tried("%u rounds of open", rounds());
	return 0;
}

static int race_make(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	wait_for_ally();
	for (unsigned i = 0; again(i, rounds()); i++) {
		int s = socket(AF_UNIX, SOCK_STREAM, 0);

		snprintf(a.sun_path, sizeof(a.sun_path), "swap/s%u", i);
		bind(s, (struct sockaddr *)&a, sizeof(a));
		close(s);
		unlink(a.sun_path);
		mkdir(in("work/swap/d%u", i), 0700);
		rmdir(in("work/swap/d%u", i));
		close(open(in("work/swap/f%u", i), O_CREAT | O_EXCL | O_WRONLY, 0600));
		unlink(in("work/swap/f%u", i));
	}
	tried("%u rounds of bind, mkdir, creat", rounds());
	return 0;
}

static int race_rename(void)
{
	put_file("moving", "mine", 0600);
	wait_for_ally();
	for (unsigned i = 0; again(i, rounds()); i++) {
		if (rename("moving", "swap/victim3") == 0)
			rename("swap/victim3", "moving");
		if (access("moving", F_OK) != 0)
			put_file("moving", "mine", 0600);
	}
	tried("%u rounds of rename", rounds());
	return 0;
}

static int race_unlink(void)
{
	wait_for_ally();
	for (unsigned i = 0; again(i, rounds()); i++) {
		unlink("swap/victim2");
		rmdir("swap/victim_dir");
		chmod("swap/victim", 0777);
		truncate("swap/victim", 1);
		setxattr("swap/victim", "user.x", "y", 1, 0);
	}
	tried("%u rounds of unlink, rmdir, chmod, truncate, setxattr", rounds());
	return 0;
}

/* The same with a racer in the sandbox: another thread of ours. */
static void *swap_thread(void *arg)
{
	(void)arg;
	swap_ally();
	return NULL;
}

static int race_inside(void)
{
	pthread_t t;

	pthread_create(&t, NULL, swap_thread, NULL);
	wait_for_ally();
	race_make();
	race_rename();
	race_unlink();
	race_open();
	return 0;
}

/* A directory that is renamed while another thread walks up and down in it. */
static void *move_thread(void *arg)
{
	(void)arg;
	for (;;) {
		rename("sub/deep", "deep");
		rename("deep", "sub/deep");
	}
	return NULL;
}

static int race_dots(void)
{
	pthread_t t;

	pthread_create(&t, NULL, move_thread, NULL);
	for (unsigned i = 0; again(i, rounds()); i++) {
		if (leaked(open("sub/deep/../../out/secret", O_RDONLY)) ||
		    leaked(open("sub/deep/../../../out/secret", O_RDONLY)) ||
		    leaked(open("deep/../../out/secret", O_RDONLY)))
			return 0;
	}
	tried("%u rounds of walking", rounds());
	return 0;
}

/* ---- programs ---- */

static int run_program(const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl(path, path, (char *)NULL);
		tried("exec %s: %s", path, strerror(errno));
		_exit(1);
	}
	waitpid(pid, &status, 0);
	return status;
}

static int exec_outside(void)
{
	put_file("script", in("out/tool\n"), 0755);
	put_file("script", "", 0755);
	{
		char line[PATH_MAX];

		snprintf(line, sizeof(line), "#!%s\n", in("out/tool"));
		put_file("script", line, 0755);
	}
	run_program("./script");
	run_program(in("out/tool"));
	symlink("../out/tool", "tool");
	run_program("./tool");
	return 0;
}

static void exec_scene(void)
{
	char text[PATH_MAX + 64];

	snprintf(text, sizeof(text), "#!/bin/sh\ncat %s\n", in("out/secret"));
	put_file(in("out/tool"), text, 0755);
	put_file(in("work/prog"), "#!/bin/sh\nexit 0\n", 0755);
	symlink("../out/tool", in("work/evil_prog"));
}

static void exec_ally(void)
{
	for (;;)
		syscall(SYS_renameat2, AT_FDCWD, in("work/prog"), AT_FDCWD, in("work/evil_prog"),
			2);
}

static int exec_replaced(void)
{
	unsigned n = rounds() / 10;

	for (unsigned i = 0; i < n; i++)
		run_program("./prog");
	tried("%u rounds of exec", n);
	return 0;
}

const struct attack g_escapes[] = {
	{"sibling", "escape", sibling},
	{"dots", "escape", dots},
	{"symlinks", "escape", symlinks, .scene = symlinks_scene},
	{"make_outside", "escape", make_outside},
	{"harm_outside", "escape", harm_outside, .scene = harm_scene},
	{"write_ro", "escape", write_ro, .scene = write_ro_scene},
	{"hard_links", "escape", hard_links},
	{"magic_links", "escape", magic_links},
	{"map_files", "escape", map_files, .flags = "root"},
	{"ioctl_ro", "escape", ioctl_ro, .flags = "root,attributes"},
	{"openat2_flags", "escape", openat2_flags},
	{"double_chroot", "escape", double_chroot, .flags = "root"},
	{"pivot", "escape", pivot, .flags = "root"},
	{"mounts", "escape", mounts, .flags = "root"},
	{"new_mounts", "escape", new_mounts, .flags = "root"},
	{"handles", "escape", handles, .scene = handle_scene, .flags = "root"},
	{"moved_away", "escape", moved_away, .ally = moved_away_ally, .scene = moved_away_scene},
	{"race_open", "escape", race_open, .ally = swap_ally, .scene = swap_scene},
	{"race_make", "escape", race_make, .ally = swap_ally, .scene = swap_scene},
	{"race_rename", "escape", race_rename, .ally = swap_ally, .scene = swap_scene},
	{"race_unlink", "escape", race_unlink, .ally = swap_ally, .scene = swap_scene},
	{"race_inside", "escape", race_inside, .scene = swap_scene},
	{"race_dots", "escape", race_dots},
	{"exec_outside", "escape", exec_outside, .scene = exec_scene},
	{"exec_replaced", "escape", exec_replaced, .ally = exec_ally, .scene = exec_scene},
	{0},
};
