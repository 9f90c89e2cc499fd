/* SPDX-License-Identifier: Apache-2.0 */

/* open and openat2: flags, O_PATH, O_TMPFILE, RESOLVE_*, permissions; links, rename, symlink loops.
 */
#include "guest.h"
#include <linux/openat2.h>
#include <sys/vfs.h>

static long openat2(int dir, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve)
{
	struct open_how how = {.flags = flags, .mode = mode, .resolve = resolve};
	return syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

static void flags(void)
{
	char text[16];
	struct stat st;
	int fd;

	P("open");
	V(open("none", O_RDONLY));
	OK(fd = open("f", O_RDWR | O_CREAT | O_EXCL, 0640));
	V(fstat(fd, &st));
	printf("mode %o size %ld nlink %lu\n", st.st_mode, (long)st.st_size,
	       (unsigned long)st.st_nlink);
	V(open("f", O_RDWR | O_CREAT | O_EXCL, 0640));
	V(write(fd, "hello", 5));
	V(close(fd));
	OK(fd = open("f", O_WRONLY | O_APPEND));
	V(lseek(fd, 0, SEEK_SET));
	V(write(fd, "+", 1));
	V(lseek(fd, 0, SEEK_CUR));
	V(read(fd, text, 1));
	V(pwrite(fd, "!", 1, 0));
	V(fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	V(close(fd));
	OK(fd = open("f", O_RDONLY | O_TRUNC));
	V(lseek(fd, 0, SEEK_END));
	V(write(fd, "x", 1));
	V(close(fd));
	V(open("f", O_RDONLY | O_DIRECTORY));
	V(open("f/", O_RDONLY));
	V(open("f/x", O_RDONLY));
	V(open("f/.", O_RDONLY));
	V(open("", O_RDONLY));
	V(open(".", O_WRONLY));
	V(open(".", O_RDWR | O_CREAT, 0600));
	V(open("new/", O_RDWR | O_CREAT, 0600));
	V(open("no/such", O_RDWR | O_CREAT, 0600));
	OK(fd = open("f", 3));
	V(read(fd, text, 1));
	V(write(fd, "x", 1));
	V(open((char *)8, O_RDONLY));
	V(openat(999, "f", O_RDONLY));
	V(openat(999, "/etc/passwd", O_RDONLY) >= 0);
	V(openat(fd, "f", O_RDONLY));
	char longname[5000];

	memset(longname, 'a', sizeof(longname));
	longname[255] = 0;
	OK(fd = open(longname, O_CREAT | O_RDWR, 0600));
	V(unlink(longname));
	longname[255] = 'a';
	longname[256] = 0;
	V(open(longname, O_CREAT | O_RDWR, 0600));
	longname[256] = 'a';
	longname[4999] = 0;
	V(open(longname, O_RDONLY));
	umask(077);
	OK(fd = open("masked", O_CREAT | O_RDWR, 0777));
	V(fstat(fd, &st));
	printf("mode %o\n", st.st_mode);
	umask(022);
	OK(fd = open("suid", O_CREAT | O_RDWR, 07777));
	V(fstat(fd, &st));
	printf("mode %o\n", st.st_mode);
	OK(fd = open("ro", O_CREAT | O_RDWR, 0));
	V(write(fd, "made with no mode", 4));
	V(fcntl(fd, F_GETFD));
	V(close(fd));
	fd = open("f", O_RDONLY | O_CLOEXEC);
	V(fcntl(fd, F_GETFD));
	V(ioctl(fd, 0x12345678, 0));
	V(ftruncate(fd, 0));
	V(close(fd));
	V(close(fd));
}

static void paths(void)
{
	char text[16];
	struct stat st;
	struct statfs sf;
	int p, d;

	P("O_PATH");
	guest_file("g", "content");
	V(symlink("g", "link"));
	OK(p = open("g", O_PATH));
	V(read(p, text, 1));
	V(write(p, "x", 1));
	V(fchmod(p, 0600));
	V(fchown(p, 0, 0));
	V(ftruncate(p, 0));
	V(lseek(p, 0, SEEK_SET));
	V(ioctl(p, FIONREAD, text));
	V((long)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, p, 0));
	V(fstat(p, &st));
	V(fstatfs(p, &sf));
	V(fcntl(p, F_GETFL) == (O_PATH | 0100000) || fcntl(p, F_GETFL) == O_PATH);
	V(fcntl(p, F_SETFL, O_NONBLOCK));
	V(dup(p) >= 0);
	V(getxattr("g", "user.x", NULL, 0) < 0);
	OK(p = open("link", O_PATH | O_NOFOLLOW));
	V(fstat(p, &st));
	T(S_ISLNK(st.st_mode));
	V(readlinkat(p, "", text, 10));
	V(open("link", O_RDONLY | O_NOFOLLOW));
	V(open("link", O_RDONLY | O_CREAT | O_EXCL, 0600));
	V(mkdir("d", 0755));
	guest_file("d/in", "x");
	OK(d = open("d", O_PATH | O_DIRECTORY));
	OK(openat(d, "in", O_RDONLY));
	V(fchdir(d));
	V(access("in", R_OK));
	V(chdir(".."));
	V(fstatat(d, "", &st, AT_EMPTY_PATH));
	V(fstatat(d, "", &st, 0));
	V(fstatat(d, "in", &st, 0x80000000));
	V(linkat(p, "", AT_FDCWD, "newlink", AT_EMPTY_PATH));
	V(faccessat(d, "in", R_OK, 0));
	V(faccessat(d, "in", 77, 0));
	V(syscall(SYS_faccessat2, d, "in", R_OK, 0x10));
}

static void tmpfile_tests(void)
{
	struct stat st;
	char path[64];
	int fd;

	P("O_TMPFILE");
	OK(fd = open(".", O_TMPFILE | O_RDWR, 0600));
	V(fstat(fd, &st));
	printf("nlink %lu mode %o\n", (unsigned long)st.st_nlink, st.st_mode);
	V(write(fd, "temp", 4));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	V(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
	V(fstat(fd, &st));
	printf("nlink %lu\n", (unsigned long)st.st_nlink);
	V(access("named", R_OK));
	OK(fd = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600));
	V(linkat(fd, "", AT_FDCWD, "never", AT_EMPTY_PATH));
	V(open(".", O_TMPFILE | O_RDONLY, 0600));
	V(open("g", O_TMPFILE | O_RDWR, 0600));
	V(open("none", O_TMPFILE | O_RDWR, 0600));
}

static void resolve(void)
{
	struct open_how how = {0};
	struct {
		struct open_how how;
		uint64_t more;
	} big = {0};
	int d;

	P("openat2");
	V(mkdir("jail", 0755));
	V(mkdir("jail/sub", 0755));
	guest_file("jail/sub/file", "x");
	V(symlink("sub/file", "jail/rel"));
	V(symlink("/sub/file", "jail/abs"));
	V(symlink("../g", "jail/up"));
	V(symlink("/", "jail/root"));
	OK(d = open("jail", O_PATH));
	static const struct {
		const char *name;
		uint64_t flag;
	} kinds[] = {{"none", 0},
		     {"BENEATH", RESOLVE_BENEATH},
		     {"IN_ROOT", RESOLVE_IN_ROOT},
		     {"NO_SYMLINKS", RESOLVE_NO_SYMLINKS},
		     {"NO_MAGICLINKS", RESOLVE_NO_MAGICLINKS},
		     {"NO_XDEV", RESOLVE_NO_XDEV}};
	static const char *const names[] = {
		"sub/file",   "rel",         "abs",         "up",
		"sub/../rel", "..",          "../g",        "root/etc/passwd",
		".",          "sub/../../g", "/etc/passwd", "/",
		"/sub/file",  "root"};
	for (size_t k = 0; k < GUEST_COUNT(kinds); k++)
		for (size_t i = 0; i < GUEST_COUNT(names); i++) {
			long fd = openat2(d, names[i], O_RDONLY, 0, kinds[k].flag);

			printf("%s %s: %s\n", kinds[k].name, names[i],
			       fd < 0 ? guest_errno(errno) : "open");
			if (fd >= 0)
				close((int)fd);
		}
	V(openat2(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0, RESOLVE_NO_MAGICLINKS));
	V(openat2(AT_FDCWD, "/proc/self/fd/0", O_RDONLY, 0, RESOLVE_NO_SYMLINKS));
	V(openat2(AT_FDCWD, "/proc/self", O_RDONLY, 0, RESOLVE_NO_XDEV));
	V(openat2(d, "sub/file", O_RDONLY, 0600, 0));
	V(openat2(d, "sub/file", O_RDONLY | (1ull << 40), 0, 0));
	V(openat2(d, "sub/file", O_RDONLY, 0, 1 << 20));
	V(openat2(d, "sub/file", O_RDONLY, 0, RESOLVE_BENEATH | RESOLVE_IN_ROOT));
	V(openat2(d, "made", O_CREAT | O_RDWR, 0100777, 0));
	V(openat2(d, "sub/file", O_PATH | O_RDWR | O_CREAT, 0600, 0));
	V(syscall(SYS_openat2, d, "sub/file", &how, 8));
	V(syscall(SYS_openat2, d, "sub/file", &how, 0));
	V(syscall(SYS_openat2, d, "sub/file", &big, sizeof(big)) >= 0);
	big.more = 1;
	V(syscall(SYS_openat2, d, "sub/file", &big, sizeof(big)));
	V(syscall(SYS_openat2, d, "sub/file", &how, 8192));
	V(syscall(SYS_openat2, d, "sub/file", NULL, sizeof(how)));
}

static void links(void)
{
	char text[64];
	struct stat st, st2;
	ssize_t n;

	P("links");
	guest_file("a", "a");
	V(link("a", "b"));
	stat("a", &st);
	stat("b", &st2);
	T(st.st_ino == st2.st_ino && st.st_dev == st2.st_dev);
	printf("nlink %lu\n", (unsigned long)st.st_nlink);
	V(link("a", "b"));
	V(link("none", "c"));
	V(link("jail", "c"));
	V(link("a", "no/c"));
	V(unlink("a"));
	V(stat("b", &st));
	printf("nlink %lu\n", (unsigned long)st.st_nlink);
	V(symlink("target", "s"));
	V(symlink("target", "s"));
	V(symlink("", "s2"));
	n = readlink("s", text, sizeof(text));
	printf("readlink %zd %.*s\n", n, (int)n, text);
	V(readlink("s", text, 3));
	V(readlink("b", text, 3));
	V(readlink("s", text, 0));
	V(readlink("none", text, 3));
	V(lstat("s", &st));
	printf("size %ld mode %o\n", (long)st.st_size, st.st_mode);
	V(stat("s", &st));
	V(open("s", O_WRONLY | O_CREAT, 0600) >= 0);
	V(access("target", F_OK));
	V(link("s", "hardsym"));
	lstat("hardsym", &st);
	T(S_ISLNK(st.st_mode));
	V(linkat(AT_FDCWD, "s", AT_FDCWD, "hardfile", AT_SYMLINK_FOLLOW));
	lstat("hardfile", &st);
	T(S_ISREG(st.st_mode));
	V(symlink("loop2", "loop1"));
	V(symlink("loop1", "loop2"));
	V(open("loop1", O_RDONLY));
	V(stat("loop1/x", &st));
	V(lstat("loop1", &st));
	V(lstat("loop1/", &st));
	/* A chain of 40 is followed, one of 41 is not. */
	guest_file("end", "x");
	V(symlink("end", "c0"));
	for (int i = 1; i < 45; i++) {
		char name[8], to[8];

		snprintf(name, sizeof(name), "c%d", i);
		snprintf(to, sizeof(to), "c%d", i - 1);
		if (symlink(to, name))
			P("symlink failed");
	}
	V(access("c39", F_OK));
	V(access("c40", F_OK));
	V(rmdir("s"));
	V(unlink("s/"));
	V(unlink("jail"));
	V(rmdir("jail"));
	V(rmdir("b"));
	V(rmdir("."));
	V(rmdir("jail/sub/.."));
	V(rmdir(".."));
	V(rmdir("/"));
	V(unlink("."));
	V(mkdir(".", 0700));
	V(mkdir("/", 0700));
	V(mkdir("b", 0700));
	V(mkdir("slash/", 0700));
	V(rmdir("slash/"));
	V(unlinkat(AT_FDCWD, "jail/sub", 0));
	V(unlinkat(AT_FDCWD, "jail/sub", 77));
	V(unlinkat(AT_FDCWD, "jail/sub", AT_REMOVEDIR));
	V(mknod("fifo", S_IFIFO | 0600, 0));
	V(mknod("reg", S_IFREG | 0600, 0));
	V(mknod("dir", S_IFDIR | 0600, 0));
	V(mknod("bad", 0770000, 0));
	V(mknod("sock", S_IFSOCK | 0600, 0));
	V(open("sock", O_RDWR));
}

static long renameat2_(const char *a, const char *b, unsigned flags)
{
	return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags);
}

static void renames(void)
{
	struct stat st;

	P("rename");
	guest_file("x", "x");
	guest_file("y", "yy");
	V(mkdir("d1", 0755));
	V(mkdir("d2", 0755));
	guest_file("d2/in", "x");
	V(rename("x", "y"));
	stat("y", &st);
	printf("size %ld\n", (long)st.st_size);
	V(rename("x", "z"));
	V(rename("y", "d1"));
	V(rename("d1", "y"));
	V(rename("d1", "d2"));
	V(rename("d2", "d1"));
	V(access("d1/in", F_OK));
	V(rename("d1", "d1/sub"));
	V(rename("d1/in", "d1"));
	V(rename("y", "no/y"));
	V(rename("y", "y/"));
	V(rename("y", "new/"));
	V(mkdir("d3", 0755));
	V(rename("d3", "d4/"));
	V(rename(".", "d5"));
	V(rename("d4", "."));
	V(rename("d4", ".."));
	V(link("y", "y2"));
	V(rename("y", "y2"));
	V(access("y", F_OK));
	V(renameat2_("y", "y2", RENAME_NOREPLACE));
	V(renameat2_("y", "y3", RENAME_NOREPLACE));
	guest_file("p", "p");
	V(renameat2_("p", "d4", RENAME_EXCHANGE));
	stat("p", &st);
	T(S_ISDIR(st.st_mode));
	V(renameat2_("p", "none", RENAME_EXCHANGE));
	V(renameat2_("p", "d4", RENAME_EXCHANGE | RENAME_NOREPLACE));
	V(renameat2_("p", "d4", 1 << 10));
	V(renameat2_("p", "p/below", RENAME_EXCHANGE));
	V(symlink("y3", "sl"));
	V(rename("sl", "sl2"));
	V(lstat("sl2", &st));
	T(S_ISLNK(st.st_mode));
	/* An open file, a working directory and a removed directory. */
	int fd = open("y3", O_RDONLY), d;

	V(unlink("y3"));
	V(fstat(fd, &st));
	printf("nlink of an open removed file %lu\n", (unsigned long)st.st_nlink);
	V(mkdir("gone", 0755));
	OK(d = open("gone", O_RDONLY));
	V(rmdir("gone"));
	V(openat(d, "x", O_CREAT | O_RDWR, 0600));
	V(mkdirat(d, "x", 0700));
	V(fstat(d, &st));
	printf("nlink of a removed directory %lu\n", (unsigned long)st.st_nlink);
	V(mkdir("wd", 0755));
	V(chdir("wd"));
	V(rmdir("../wd"));
	char text[PATH_MAX];

	V((long)getcwd(text, sizeof(text)));
	V(syscall(SYS_getcwd, text, sizeof(text)));
	V(access("..", F_OK));
	V(access(".", F_OK));
	V(open("x", O_CREAT | O_RDWR, 0600));
}

int main(void)
{
	guest_begin();
	flags();
	paths();
	tmpfile_tests();
	resolve();
	links();
	renames();
	return 0;
}
