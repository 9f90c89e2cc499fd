/* SPDX-License-Identifier: Apache-2.0 */

/* Metadata: stat, statx, chmod, chown, times, access as another user, xattrs, getdents. */
#include "guest.h"
#include <dirent.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

static void stats(void)
{
	struct stat st, st2;
	struct statx sx;
	struct statfs sf;

	P("stat");
	guest_file("f", "12345");
	V(stat("f", &st));
	printf("mode %o nlink %lu size %ld blksize %ld uid %u gid %u\n", st.st_mode,
	       (unsigned long)st.st_nlink, (long)st.st_size, (long)st.st_blksize, st.st_uid,
	       st.st_gid);
	T(st.st_ino != 0 && st.st_dev != 0);
	V(stat(".", &st2));
	T(S_ISDIR(st2.st_mode) && st2.st_dev == st.st_dev);
	V(mkdir("d", 0750));
	V(mkdir("d/e", 0755));
	V(stat("d", &st));
	printf("directory mode %o nlink %lu\n", st.st_mode, (unsigned long)st.st_nlink);
	V(stat("/dev/null", &st));
	printf("null %o %lx\n", st.st_mode, (unsigned long)st.st_rdev);
	V(stat((char *)8, &st));
	V(stat("f", (struct stat *)8));
	V(stat("", &st));
	V(fstat(999, &st));
	V(syscall(SYS_newfstatat, AT_FDCWD, "f", &st, 0x8000));
	P("statx");
	V(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &sx));
	printf("mask basic %d mode %o size %llu nlink %u\n",
	       (sx.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS, sx.stx_mode,
	       (unsigned long long)sx.stx_size, sx.stx_nlink);
	T(makedev(sx.stx_dev_major, sx.stx_dev_minor) == st2.st_dev);
	V(statx(AT_FDCWD, "f", 0, 1u << 31, &sx));
	V(statx(AT_FDCWD, "f", 0x10, 0, &sx));
	V(statx(AT_FDCWD, "f", AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC, 0, &sx));
	V(statx(AT_FDCWD, "f", AT_STATX_DONT_SYNC, 0, &sx));
	V(statx(AT_FDCWD, "none", 0, 0, &sx));
	V(statx(AT_FDCWD, "", AT_EMPTY_PATH, STATX_TYPE, &sx));
	V(syscall(SYS_statx, AT_FDCWD, NULL, 0, 0, &sx));
	V(statx(AT_FDCWD, "f", 0, STATX_ALL, (struct statx *)8));
	P("statfs");
	V(statfs(".", &sf));
	printf("bsize %ld namelen %ld\n", (long)sf.f_bsize, (long)sf.f_namelen);
	T(sf.f_blocks >= sf.f_bfree);
	V(statfs("/proc", &sf));
	printf("proc %lx\n", (unsigned long)sf.f_type);
	V(statfs("none", &sf));
	V(fstatfs(999, &sf));
}

static void modes(void)
{
	struct stat st;
	int fd;

	P("chmod, chown");
	V(chmod("f", 07777));
	stat("f", &st);
	printf("%o\n", st.st_mode);
	V(chown("f", 12, 34));
	stat("f", &st);
	printf("%o %u %u\n", st.st_mode, st.st_uid, st.st_gid);
	V(chown("f", (uid_t)-1, 56));
	stat("f", &st);
	printf("%u %u\n", st.st_uid, st.st_gid);
	V(symlink("f", "s"));
	V(lchown("s", 7, 8));
	lstat("s", &st);
	printf("%u %u\n", st.st_uid, st.st_gid);
	V(fchmodat(AT_FDCWD, "s", 0600, AT_SYMLINK_NOFOLLOW));
	V(fchmodat(AT_FDCWD, "f", 0600, 0));
	V(chmod("none", 0));
	fd = open("f", O_RDONLY);
	V(fchmod(fd, 0604));
	V(fchown(fd, 0, 0));
	V(fchownat(fd, "", 1, 2, AT_EMPTY_PATH));
	fstat(fd, &st);
	printf("%o %u %u\n", st.st_mode, st.st_uid, st.st_gid);
	V(fchownat(AT_FDCWD, "f", 0, 0, 0x7777));
	V(mkdir("sg", 0755));
	V(chown("sg", 0, 77));
	V(chmod("sg", 02775));
	V(mkdir("sg/sub", 0755));
	stat("sg/sub", &st);
	printf("below a set-gid directory %o %u\n", st.st_mode, st.st_gid);
	guest_file("sg/file", "");
	stat("sg/file", &st);
	printf("%o %u\n", st.st_mode, st.st_gid);
}

static void times(void)
{
	struct timespec ts[2] = {{1000, 5}, {2000, 7}};
	struct stat st, st2;

	P("times");
	V(utimensat(AT_FDCWD, "f", ts, 0));
	stat("f", &st);
	printf("%ld.%ld %ld.%ld\n", (long)st.st_atime, st.st_atim.tv_nsec, (long)st.st_mtime,
	       st.st_mtim.tv_nsec);
	ts[0].tv_nsec = UTIME_OMIT;
	ts[1].tv_nsec = UTIME_NOW;
	V(utimensat(AT_FDCWD, "f", ts, 0));
	stat("f", &st);
	printf("%ld %d\n", (long)st.st_atime, labs(st.st_mtime - time(NULL)) < 100);
	ts[1].tv_nsec = 1000000000;
	V(utimensat(AT_FDCWD, "f", ts, 0));
	V(utimensat(AT_FDCWD, "none", NULL, 0));
	V(utimensat(AT_FDCWD, "f", NULL, 77));
	ts[0] = ts[1] = (struct timespec){-5, 0};
	V(utimensat(AT_FDCWD, "f", ts, 0));
	stat("f", &st);
	printf("%ld\n", (long)st.st_mtime);
	ts[0] = ts[1] = (struct timespec){3000, 0};
	V(utimensat(AT_FDCWD, "s", ts, AT_SYMLINK_NOFOLLOW));
	lstat("s", &st);
	printf("link %ld\n", (long)st.st_mtime);
	V(futimens(open("f", O_RDONLY), ts));
	V(syscall(SYS_utime, "f", NULL));
	V(syscall(SYS_utimes, "f", NULL));
	V(syscall(SYS_futimesat, AT_FDCWD, "f", NULL));
	V(syscall(SYS_utimensat, AT_FDCWD, NULL, NULL, 0));
	/* Which call moves which time. */
	ts[0] = ts[1] = (struct timespec){1000, 0};
	utimensat(AT_FDCWD, "f", ts, 0);
	utimensat(AT_FDCWD, "d", ts, 0);
	guest_file("d/new", "");
	stat("d", &st);
	T(st.st_mtime != 1000);
	utimensat(AT_FDCWD, "d", ts, 0);
	stat("d", &st);
	guest_sleep_ms(20);
	V(rename("d/new", "d/newer"));
	stat("d", &st2);
	T(st2.st_mtime != 1000);
	utimensat(AT_FDCWD, "d", ts, 0);
	V(unlink("d/newer"));
	stat("d", &st);
	T(st.st_mtime != 1000);
	stat("f", &st);
	guest_sleep_ms(20);
	V(chmod("f", 0644));
	stat("f", &st2);
	T(st2.st_mtime == 1000);
	T(st2.st_ctim.tv_nsec != st.st_ctim.tv_nsec || st2.st_ctime != st.st_ctime);
	V(truncate("f", 5));
	stat("f", &st);
	T(st.st_mtime != 1000);
}

static void as_user(void)
{
	pid_t pid;
	struct stat st;

	P("as another user");
	guest_file("secret", "x");
	chmod("secret", 0600);
	guest_file("shared", "x");
	chmod("shared", 0644);
	guest_file("group", "x");
	chown("group", 0, 2000);
	chmod("group", 0060);
	mkdir("closed", 0700);
	guest_file("closed/in", "x");
	mkdir("sticky", 0777);
	chmod("sticky", 01777);
	guest_file("sticky/roots", "x");
	mkdir("open", 0777);
	chmod("open", 0777);
	chmod(".", 0755);
	guest_file("suid", "x");
	chmod("suid", 04755);
	pid = guest_fork();
	if (!pid) {
		gid_t groups[1] = {2000};

		V(syscall(SYS_setgroups, 1, groups));
		V(syscall(SYS_setresgid, 1000, 1000, 1000));
		V(syscall(SYS_setresuid, 1000, 1000, 1000));
		V(open("secret", O_RDONLY));
		V(open("shared", O_RDONLY) >= 0);
		V(open("shared", O_WRONLY));
		V(open("group", O_RDWR) >= 0);
		V(access("group", X_OK));
		V(open("closed/in", O_RDONLY));
		V(stat("closed/in", &st));
		V(stat("closed", &st));
		V(chdir("closed"));
		V(open("new", O_CREAT | O_RDWR, 0600));
		V(unlink("shared"));
		V(open("sticky/mine", O_CREAT | O_RDWR, 0600) >= 0);
		V(unlink("sticky/roots"));
		V(rename("sticky/roots", "sticky/other"));
		V(unlink("sticky/mine"));
		V(open("open/mine", O_CREAT | O_RDWR, 0600) >= 0);
		stat("open/mine", &st);
		printf("%u %u\n", st.st_uid, st.st_gid);
		V(chmod("shared", 0777));
		V(chown("open/mine", 0, (gid_t)-1));
		V(chown("open/mine", (uid_t)-1, 2000));
		V(chown("open/mine", (uid_t)-1, 3000));
		V(chmod("open/mine", 02777));
		stat("open/mine", &st);
		printf("%o\n", st.st_mode);
		V(utimensat(AT_FDCWD, "shared", NULL, 0));
		V(truncate("shared", 0));
		V(mknod("open/dev", S_IFCHR | 0600, 0x103));
		V(mknod("open/fifo", S_IFIFO | 0600, 0));
		V(chroot("."));
		V(setxattr("shared", "user.a", "b", 1, 0));
		V(link("secret", "open/link") == 0 || errno == EPERM);
		V(kill(1, 0));
		V(setuid(0));
		V(mkdir("open/md", 0700));
		V(chmod("open/md", 0));
		V(open("open/md", O_RDONLY));
		V(open("open/md/x", O_CREAT | O_RDWR, 0600));
		_exit(0);
	}
	guest_wait("user", pid);
	P("real and effective ids");
	pid = guest_fork();
	if (!pid) {
		V(syscall(SYS_setresuid, 1000, 0, 0));
		V(access("secret", R_OK));
		V(faccessat(AT_FDCWD, "secret", R_OK, AT_EACCESS));
		V(open("secret", O_RDONLY) >= 0);
		V(syscall(SYS_setfsuid, 1000));
		V(syscall(SYS_setfsuid, -1));
		V(open("secret", O_RDONLY));
		_exit(0);
	}
	guest_wait("mixed", pid);
}

static void xattrs(void)
{
	char list[256], value[16];
	ssize_t n;
	int fd = open("f", O_RDWR);

	P("xattrs");
	V(setxattr("f", "user.one", "1", 1, 0));
	V(setxattr("f", "user.one", "22", 2, XATTR_CREATE));
	V(setxattr("f", "user.one", "22", 2, XATTR_REPLACE));
	V(setxattr("f", "user.two", "22", 2, XATTR_REPLACE));
	V(setxattr("f", "user.two", "", 0, 0));
	V(getxattr("f", "user.one", value, sizeof(value)));
	printf("%.2s\n", value);
	V(getxattr("f", "user.one", NULL, 0));
	V(getxattr("f", "user.one", value, 1));
	V(getxattr("f", "user.none", value, 1));
	V(getxattr("f", "nonsense", value, 1));
	V(getxattr("f", "bogus.x", value, 1));
	V(getxattr("f", "user.", value, 1));
	V(setxattr("f", "bogus.x", value, 1, 0));
	V(setxattr("f", "user.x", value, 1, 77));
	V(setxattr("f", "user.x", (void *)8, 1, 0));
	V(setxattr("f", "", value, 1, 0));
	V(setxattr("s", "user.x", "via link", 8, 0));
	V(lsetxattr("s", "user.x", "on link", 7, 0));
	V(fsetxattr(fd, "user.fd", "x", 1, 0));
	V(fgetxattr(fd, "user.fd", value, 4));
	n = listxattr("f", list, sizeof(list));
	int found = 0;
	for (char *p = list; p < list + n; p += strlen(p) + 1)
		found += !strncmp(p, "user.", 5);
	printf("listed %d\n", found);
	V(listxattr("f", NULL, 0) > 0);
	V(listxattr("f", list, 1));
	V(removexattr("f", "user.one"));
	V(removexattr("f", "user.one"));
	V(fremovexattr(fd, "user.fd"));
	V(getxattr("none", "user.x", value, 1));
	V(setxattr("d", "user.dir", "x", 1, 0));
	V(getxattr("d", "user.dir", value, 4));
	V(setxattr("f", "trusted.x", "t", 1, 0));
	V(getxattr("f", "trusted.x", value, 4));
	char big[300];

	memset(big, 'n', sizeof(big));
	memcpy(big, "user.", 5);
	big[256] = 0;
	V(setxattr("f", big, "x", 1, 0));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void directories(void)
{
	char buf[4096], *names[64];
	int fd, count = 0, calls = 0, types = 0, offsets = 1;
	long n;
	DIR *d;

	P("getdents");
	V(mkdir("list", 0755));
	for (int i = 0; i < 30; i++) {
		char path[32];

		snprintf(path, sizeof(path), "list/name%02d", i);
		guest_file(path, "");
	}
	V(mkdir("list/dir", 0755));
	V(symlink("x", "list/link"));
	fd = open("list", O_RDONLY | O_DIRECTORY);
	while ((n = syscall(SYS_getdents64, fd, buf, 256)) > 0) {
		calls++;
		for (long p = 0; p < n;) {
			struct dirent64 *e = (struct dirent64 *)(buf + p);

			names[count++] = strdup(e->d_name);
			types += e->d_type == DT_REG   ? 1
				 : e->d_type == DT_DIR ? 100
				 : e->d_type == DT_LNK ? 10000
						       : 0;
			offsets &= e->d_reclen % 8 == 0 && e->d_ino != 0;
			p += e->d_reclen;
		}
	}
	qsort(names, (size_t)count, sizeof(names[0]), by_name);
	printf("%d names, first %s, last %s, types %d, well formed %d, several calls %d\n", count,
	       names[0], names[count - 1], types, offsets, calls > 3);
	V(syscall(SYS_getdents64, fd, buf, 256));
	V(lseek(fd, 0, SEEK_SET));
	V(syscall(SYS_getdents64, fd, buf, 10));
	V(syscall(SYS_getdents64, fd, buf, 256) > 0);
	V(syscall(SYS_getdents64, fd, (void *)8, 256));
	V(syscall(SYS_getdents64, open("f", O_RDONLY), buf, 256));
	V(syscall(SYS_getdents64, 999, buf, 256));
	V(syscall(SYS_getdents, fd, buf, 4096) > 0);
	/* telldir and seekdir, and removal while reading. */
	d = opendir("list");
	for (int i = 0; i < 10; i++)
		readdir(d);
	long pos = telldir(d);
	char next[64];

	snprintf(next, sizeof(next), "%s", readdir(d)->d_name);
	seekdir(d, pos);
	T(!strcmp(next, readdir(d)->d_name));
	rewinddir(d);
	count = 0;
	for (struct dirent *e; (e = readdir(d));) {
		char path[300];

		count++;
		snprintf(path, sizeof(path), "list/%s", e->d_name);
		unlink(path);
	}
	printf("%d seen while removing\n", count);
	closedir(d);
	V(rmdir("list/dir"));
	V(rmdir("list"));
	V(syscall(SYS_getdents64, fd, buf, 256));
}

int main(void)
{
	guest_begin();
	stats();
	modes();
	times();
	as_user();
	xattrs();
	directories();
	return 0;
}
