/* SPDX-License-Identifier: Apache-2.0 */

/* chroot and ".." at a root, fchdir out of one, getcwd outside, mounts of tmpfs and bind mounts,
 * pivot_root. */
#include "guest.h"
#include <sys/mount.h>
#include <sys/statfs.h>

static void chroots(void)
{
	pid_t pid;

	P("chroot");
	V(mkdir("jail", 0755));
	V(mkdir("jail/sub", 0755));
	V(mkdir("outside", 0755));
	guest_file("jail/in", "x");
	V(symlink("/in", "jail/sub/abs"));
	V(symlink("../../../../in", "jail/sub/up"));
	V(chroot("none"));
	V(chroot("jail/in"));
	pid = guest_fork();
	if (!pid) {
		char text[PATH_MAX];
		struct stat a, b;
		int out = open("outside", O_RDONLY);

		V(chroot("jail"));
		V(access("/in", F_OK));
		V(access("/sub/abs", F_OK));
		V(access("/sub/up", F_OK));
		V(access("/etc/passwd", F_OK));
		V(stat("/", &a));
		V(stat("/..", &b));
		T(a.st_ino == b.st_ino);
		/* The working directory is still outside. */
		V(access("outside", F_OK));
		V(syscall(SYS_getcwd, text, sizeof(text)) > 0);
		T(!strncmp(text, "(unreachable)", 13));
		V(chdir("/sub"));
		V(syscall(SYS_getcwd, text, sizeof(text)));
		printf("%s\n", text);
		V(chdir("../../.."));
		V(syscall(SYS_getcwd, text, sizeof(text)));
		printf("%s\n", text);
		V(fchdir(out));
		V(access("../jail", F_OK));
		V(open("/proc/self/root", O_RDONLY));
		_exit(0);
	}
	guest_wait("jailed", pid);
}

static void mounts(void)
{
	struct statfs sf;
	struct stat a, b;
	char text[8] = "";
	int fd;

	P("mounts");
	if (unshare(CLONE_NEWNS) == 0)
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	V(mkdir("m", 0755));
	V(mkdir("n", 0755));
	guest_file("m/under", "x");
	V(mount("tmpfs", "m", "tmpfs", 0, "size=1m,mode=0700"));
	V(access("m/under", F_OK));
	V(stat("m", &a));
	V(stat(".", &b));
	T(a.st_dev != b.st_dev);
	printf("mode %o\n", a.st_mode);
	V(statfs("m", &sf));
	printf("type %lx blocks %ld\n", (unsigned long)sf.f_type, (long)sf.f_blocks * sf.f_bsize);
	guest_file("m/on", "text");
	V(rename("m/on", "n/off"));
	V(link("m/on", "n/off"));
	V(rmdir("m"));
	V(rename("m", "m2"));
	V(mount("m", "n", NULL, MS_BIND, NULL));
	V(access("n/on", F_OK));
	fd = open("n/on", O_RDONLY);
	V(read(fd, text, 4));
	V(umount2("n", 0));
	close(fd);
	V(umount2("n", 0));
	V(access("n/on", F_OK));
	V(mount(NULL, "m", NULL, MS_REMOUNT | MS_RDONLY, NULL));
	V(open("m/new", O_CREAT | O_RDWR, 0600));
	V(mkdir("m/d", 0700));
	V(unlink("m/on"));
	V(open("m/on", O_WRONLY));
	V(access("m/on", W_OK));
	V(chmod("m/on", 0600));
	V(mount(NULL, "m", NULL, MS_REMOUNT, NULL));
	V(open("m/new", O_CREAT | O_RDWR, 0600) >= 0);
	V(mount("none", "nowhere", "tmpfs", 0, NULL));
	V(mount("none", "m", "nosuchfs", 0, NULL));
	V(mount("none", "m/on", "tmpfs", 0, NULL));
	V(umount2("jail", 0));
	V(umount2("m", 77 << 8));
	fd = open("m/on", O_WRONLY);
	V(ftruncate(fd, 0));
	char *big = calloc(1, 2 << 20);
	long n = write(fd, big, 2 << 20);
	printf("a full file system: %s\n", n > 0 && n <= 1 << 20 ? "short"
					   : n < 0               ? guest_errno(errno)
								 : "all");
	V(write(fd, "x", 1));
	V(umount2("m", MNT_DETACH));
	V(access("m/under", F_OK));
	V(access("m/on", F_OK));
	V(lseek(fd, 0, SEEK_SET));
	V(mount("proc", "n", "proc", 0, NULL));
	V(access("n/self/stat", F_OK));
	V(umount2("n", 0));
	P("bind of a file, move");
	guest_file("target", "target");
	guest_file("source", "source");
	V(mount("source", "target", NULL, MS_BIND, NULL));
	fd = open("target", O_RDONLY);
	V(read(fd, text, 6));
	printf("%.6s\n", text);
	close(fd);
	V(unlink("target"));
	V(umount2("target", 0));
	V(unlink("target"));
}

static void pivot(void)
{
	pid_t pid;

	P("pivot_root");
	pid = guest_fork();
	if (!pid) {
		V(mkdir("newroot", 0755));
		V(syscall(SYS_pivot_root, "newroot", "newroot"));
		V(mount("tmpfs", "newroot", "tmpfs", 0, NULL));
		V(mkdir("newroot/old", 0755));
		guest_file("newroot/marker", "x");
		V(syscall(SYS_pivot_root, "newroot", "newroot/old"));
		V(chdir("/"));
		V(access("/marker", F_OK));
		V(access("/old/etc", F_OK));
		V(umount2("/old", MNT_DETACH));
		V(access("/old/etc", F_OK));
		V(access("/etc", F_OK));
		_exit(0);
	}
	guest_wait("pivoted", pid);
}

int main(void)
{
	guest_begin();
	chroots();
	mounts();
	pivot();
	return 0;
}
