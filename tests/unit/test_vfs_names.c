/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names on moat as on Linux: tables of steps, each with the errno that Linux gives. MOAT_NATIVE=1
 * as root checks the tables themselves against the host.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/vfs_names_env.h"

#define NAME_250                                                                                   \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
	"aaaaaaaaaaaa"                                                                             \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" \
	"aaaaaaaaaaaa"                                                                             \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME_255 NAME_250 "bbbbb"
#define NAME_256 NAME_250 "bbbbbb"

Test(vfs_names, walk_errors)
{
	static const struct step t[] = {
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0755, 0, 0),
		STEP(OP_CREATE, ROOT, "/d/f", NULL, 0644, 0, 0),
		STEP(OP_STAT, ROOT, "", NULL, 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "/", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "////", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, ".", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/..", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/../../d/./f", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "//d///f", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/d/f/", NULL, 0, 0, -ENOTDIR),
		STEP(OP_STAT, ROOT, "/d/f/.", NULL, 0, 0, -ENOTDIR),
		STEP(OP_STAT, ROOT, "/d/f/..", NULL, 0, 0, -ENOTDIR),
		STEP(OP_STAT, ROOT, "/d/f/x", NULL, 0, 0, -ENOTDIR),
		STEP(OP_STAT, ROOT, "/d/", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/n", NULL, 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "/n/", NULL, 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "/n/x", NULL, 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "/n/../d", NULL, 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "/d/../d/../d/f", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/" NAME_255, NULL, 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "/" NAME_256, NULL, 0, 0, -ENAMETOOLONG),
		STEP(OP_STAT, ROOT, "/" NAME_256 "/x", NULL, 0, 0, -ENAMETOOLONG),
		STEP(OP_MKDIR, ROOT, "/" NAME_256, NULL, 0755, 0, -ENAMETOOLONG),
		STEP(OP_CREATE, ROOT, "/" NAME_255, NULL, 0644, 0, 0),
		STEP(OP_RENAME, ROOT, "/" NAME_255, "/short", 0, 0, 0),
		STEP(OP_RENAME, ROOT, "/short", "/" NAME_255, 0, 0, 0),
		STEP(OP_RENAME, ROOT, "/" NAME_255, "/" NAME_256, 0, 0, -ENAMETOOLONG),
		STEP(OP_UNLINK, ROOT, "/" NAME_255, NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/" NAME_255, NULL, 0, 0, -ENOENT),
		/* search permission comes before the length */
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0600, 0, 0),
		STEP(OP_STAT, USER, "/d/f", NULL, 0, 0, -EACCES),
		STEP(OP_STAT, USER, "/d/n", NULL, 0, 0, -EACCES),
		STEP(OP_STAT, USER, "/d/.", NULL, 0, 0, -EACCES),
		STEP(OP_STAT, USER, "/d/..", NULL, 0, 0, -EACCES),
		STEP(OP_STAT, USER, "/d/", NULL, 0, 0, 0),
		STEP(OP_STAT, USER, "/d/" NAME_256, NULL, 0, 0, -EACCES),
		STEP(OP_CHDIR, USER, "/d", NULL, 0, 0, -EACCES),
		STEP(OP_CHDIR, ROOT, "/d", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "f", NULL, 0, 0, 0),
		STEP(OP_STAT, USER, "f", NULL, 0, 0, -EACCES),
		STEP(OP_STAT, USER, ".", NULL, 0, 0, -EACCES),
		STEP(OP_STAT, ROOT, "../d/f", NULL, 0, 0, 0),
		STEP(OP_CHDIR, ROOT, "f", NULL, 0, 0, -ENOTDIR),
		/* a removed working directory */
		STEP(OP_UNLINK, ROOT, "f", NULL, 0, 0, 0),
		STEP(OP_RMDIR, ROOT, "/d", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, ".", NULL, 0, 0, 0),
		STEP(OP_CREATE, ROOT, "x", NULL, 0644, 0, -ENOENT),
		STEP(OP_MKDIR, ROOT, "x", NULL, 0755, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "x", NULL, 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "..", NULL, 0, 0, 0),
	};

	RUN(t);
}

Test(vfs_names, symlinks)
{
	static const struct step t[] = {
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0755, 0, 0),
		STEP(OP_MKDIR, ROOT, "/d/e", NULL, 0755, 0, 0),
		STEP(OP_CREATE, ROOT, "/d/f", NULL, 0644, 0, 0),
		STEP(OP_SYMLINK, ROOT, "d", "/rel", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "/d", "/abs", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "d/f", "/lf", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "nowhere", "/dangling", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "loop", "/loop", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "b", "/a", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "a", "/b", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "d/", "/slash", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "d/f/", "/fslash", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "rel/../abs/e", "/nested", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "..", "/d/up", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "", "/empty", 0, 0, -ENOENT),
		STEP(OP_SYMLINK, ROOT, "x", "/rel", 0, 0, -EEXIST),
		STEP(OP_SYMLINK, ROOT, "x", "/new/", 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "/rel/f", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/abs/f", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/abs/", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/lf", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/lf/", NULL, 0, 0, -ENOTDIR),
		STEP(OP_STAT, ROOT, "/dangling", NULL, 0, 0, -ENOENT),
		STEP(OP_LSTAT, ROOT, "/dangling", NULL, 0, 0, 0),
		STEP(OP_LSTAT, ROOT, "/dangling/", NULL, 0, 0, -ENOENT),
		STEP(OP_STAT, ROOT, "/loop", NULL, 0, 0, -ELOOP),
		STEP(OP_LSTAT, ROOT, "/loop", NULL, 0, 0, 0),
		STEP(OP_LSTAT, ROOT, "/loop/", NULL, 0, 0, -ELOOP),
		STEP(OP_STAT, ROOT, "/a/x", NULL, 0, 0, -ELOOP),
		STEP(OP_STAT, ROOT, "/slash", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/slash/f", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/fslash", NULL, 0, 0, -ENOTDIR),
		STEP(OP_STAT, ROOT, "/nested", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/nested/../f", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/d/up/d/up/d/f", NULL, 0, 0, 0),
		STEP(OP_READLINK, ROOT, "/lf", NULL, 0, 0, 3),
		STEP(OP_READLINK, ROOT, "/d", NULL, 0, 0, -EINVAL),
		STEP(OP_READLINK, ROOT, "/lf/", NULL, 0, 0, -ENOTDIR),
		STEP(OP_READLINK, ROOT, "/rel/", NULL, 0, 0, -EINVAL),
		STEP(OP_UNLINK, ROOT, "/rel/", NULL, 0, 0, -ENOTDIR),
		STEP(OP_RMDIR, ROOT, "/rel", NULL, 0, 0, -ENOTDIR),
		STEP(OP_RMDIR, ROOT, "/rel/", NULL, 0, 0, -ENOTDIR),
		STEP(OP_MKDIR, ROOT, "/dangling", NULL, 0755, 0, -EEXIST),
		STEP(OP_MKDIR, ROOT, "/dangling/", NULL, 0755, 0, -EEXIST),
		STEP(OP_CREATE, ROOT, "/dangling", NULL, 0644, 0, -EEXIST),
		/* creates through the link */
		STEP(OP_OPEN, ROOT, "/dangling", NULL, LX_O_CREAT | LX_O_WRONLY, 0644, 0),
		STEP(OP_STAT, ROOT, "/nowhere", NULL, 0, 0, 0),
		STEP(OP_OPEN, ROOT, "/loop", NULL, LX_O_CREAT | LX_O_WRONLY, 0644, -ELOOP),
		STEP(OP_OPEN, ROOT, "/lf", NULL, LX_O_NOFOLLOW, 0, -ELOOP),
		STEP(OP_OPEN, ROOT, "/lf", NULL, LX_O_NOFOLLOW | LX_O_PATH, 0, 0),
		STEP(OP_OPEN, ROOT, "/rel", NULL, LX_O_NOFOLLOW | LX_O_DIRECTORY, 0, -ENOTDIR),
		STEP(OP_OPEN, ROOT, "/rel/", NULL, LX_O_NOFOLLOW | LX_O_DIRECTORY, 0, 0),
		STEP(OP_OPEN, ROOT, "/rel/f", NULL, LX_O_NOFOLLOW, 0, 0),
		STEP(OP_UNLINK, ROOT, "/rel", NULL, 0, 0, 0),
		STEP(OP_STAT, ROOT, "/d/f", NULL, 0, 0, 0),
	};

	RUN(t);
}

/* Exactly 40 links may be followed. */
Test(vfs_names, forty_links)
{
	static struct step t[64];
	static char names[64][24], texts[64][24];
	size_t n = 0;

	t[n++] = (struct step)STEP(OP_CREATE, ROOT, "/l0", NULL, 0644, 0, 0);
	for (int i = 1; i <= 41; i++) {
		snprintf(names[i], sizeof(names[i]), "/l%d", i);
		snprintf(texts[i], sizeof(texts[i]), "l%d", i - 1);
		t[n++] = (struct step)STEP(OP_SYMLINK, ROOT, texts[i], names[i], 0, 0, 0);
	}
	t[n++] = (struct step)STEP(OP_STAT, ROOT, "/l40", NULL, 0, 0, 0);
	t[n++] = (struct step)STEP(OP_STAT, ROOT, "/l41", NULL, 0, 0, -ELOOP);
	t[n++] = (struct step)STEP(OP_LSTAT, ROOT, "/l41", NULL, 0, 0, 0);
	run_steps(t, n);
}

Test(vfs_names, make_and_remove)
{
	static const struct step t[] = {
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0777, 0, 0),
		STEP(OP_MODE, ROOT, "/d", NULL, 0, 0, 0755),
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0777, 0, -EEXIST),
		STEP(OP_MKDIR, ROOT, "/", NULL, 0777, 0, -EEXIST),
		STEP(OP_MKDIR, ROOT, ".", NULL, 0777, 0, -EEXIST),
		STEP(OP_MKDIR, ROOT, "/d/..", NULL, 0777, 0, -EEXIST),
		STEP(OP_MKDIR, ROOT, "/d/e/", NULL, 07777, 0, 0),
		STEP(OP_MODE, ROOT, "/d/e", NULL, 0, 0, 01755),
		STEP(OP_NLINK, ROOT, "/d", NULL, 0, 0, 3),
		STEP(OP_MKDIR, ROOT, "/n/x", NULL, 0777, 0, -ENOENT),
		STEP(OP_CREATE, ROOT, "/f", NULL, 04777, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 04755),
		STEP(OP_MKDIR, ROOT, "/f/x", NULL, 0777, 0, -ENOTDIR),
		STEP(OP_MKDIR, ROOT, "/f", NULL, 0777, 0, -EEXIST),
		STEP(OP_MKDIR, ROOT, "/f/", NULL, 0777, 0, -EEXIST),
		STEP(OP_RMDIR, ROOT, "/d", NULL, 0, 0, -ENOTEMPTY),
		STEP(OP_RMDIR, ROOT, "/d/.", NULL, 0, 0, -EINVAL),
		STEP(OP_RMDIR, ROOT, "/d/e/..", NULL, 0, 0, -ENOTEMPTY),
		STEP(OP_RMDIR, ROOT, "/", NULL, 0, 0, -EBUSY),
		STEP(OP_RMDIR, ROOT, "/f", NULL, 0, 0, -ENOTDIR),
		STEP(OP_RMDIR, ROOT, "/n", NULL, 0, 0, -ENOENT),
		STEP(OP_UNLINK, ROOT, "/d", NULL, 0, 0, -EISDIR),
		STEP(OP_UNLINK, ROOT, "/d/", NULL, 0, 0, -EISDIR),
		STEP(OP_UNLINK, ROOT, "/f/", NULL, 0, 0, -ENOTDIR),
		STEP(OP_UNLINK, ROOT, "/n/", NULL, 0, 0, -ENOENT),
		STEP(OP_UNLINK, ROOT, "/d/.", NULL, 0, 0, -EISDIR),
		STEP(OP_UNLINK, ROOT, "/d/..", NULL, 0, 0, -EISDIR),
		STEP(OP_UNLINK, ROOT, "/", NULL, 0, 0, -EISDIR),
		STEP(OP_UNLINK, ROOT, "/n", NULL, 0, 0, -ENOENT),
		STEP(OP_RMDIR, ROOT, "/d/e/", NULL, 0, 0, 0),
		STEP(OP_NLINK, ROOT, "/d", NULL, 0, 0, 2),
		STEP(OP_RMDIR, ROOT, "/d", NULL, 0, 0, 0),
		/* links */
		STEP(OP_LINK, ROOT, "/f", "/g", 0, 0, 0),
		STEP(OP_NLINK, ROOT, "/f", NULL, 0, 0, 2),
		STEP(OP_LINK, ROOT, "/f", "/g", 0, 0, -EEXIST),
		STEP(OP_LINK, ROOT, "/f", "/h/", 0, 0, -ENOENT),
		STEP(OP_LINK, ROOT, "/f/", "/h", 0, 0, -ENOTDIR),
		STEP(OP_LINK, ROOT, "/n", "/h", 0, 0, -ENOENT),
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0755, 0, 0),
		STEP(OP_LINK, ROOT, "/d", "/h", 0, 0, -EPERM),
		STEP(OP_LINK, ROOT, "/f", "/d/.", 0, 0, -EEXIST),
		STEP(OP_LINK, ROOT, "/f", "/h", 0x10000, 0, -EINVAL),
		STEP(OP_SYMLINK, ROOT, "f", "/s", 0, 0, 0),
		STEP(OP_LINK, ROOT, "/s", "/s2", 0, 0, 0),
		STEP(OP_READLINK, ROOT, "/s2", NULL, 0, 0, 1),
		STEP(OP_LINK, ROOT, "/s", "/s3", LX_AT_SYMLINK_FOLLOW, 0, 0),
		STEP(OP_READLINK, ROOT, "/s3", NULL, 0, 0, -EINVAL),
		STEP(OP_NLINK, ROOT, "/f", NULL, 0, 0, 3),
		STEP(OP_UNLINK, ROOT, "/f", NULL, 0, 0, 0),
		STEP(OP_NLINK, ROOT, "/g", NULL, 0, 0, 2),
		STEP(OP_STAT, ROOT, "/f", NULL, 0, 0, -ENOENT),
		/* nodes */
		STEP(OP_MKNOD, ROOT, "/p", NULL, LX_S_IFIFO | 0666, 0, 0),
		STEP(OP_MODE, ROOT, "/p", NULL, 0, 0, 0644),
		STEP(OP_MKNOD, ROOT, "/r", NULL, 0600, 0, 0),
		STEP(OP_MKNOD, ROOT, "/x", NULL, LX_S_IFDIR | 0666, 0, -EPERM),
		STEP(OP_MKNOD, ROOT, "/x", NULL, LX_S_IFLNK | 0666, 0, -EINVAL),
		STEP(OP_MKNOD, ROOT, "/p", NULL, LX_S_IFIFO | 0666, 0, -EEXIST),
		STEP(OP_CHMOD, ROOT, "/", NULL, 0777, 0, 0),
		STEP(OP_MKNOD, USER, "/u", NULL, LX_S_IFSOCK | 0666, 0, 0),
		STEP(OP_MKNOD, USER, "/c", NULL, LX_S_IFCHR | 0666, 0x103, -EPERM),
		STEP(OP_MKNOD, USER, "/w", NULL, LX_S_IFCHR | 0666, 0, 0),
		STEP(OP_OPEN, USER, "/u", NULL, LX_O_RDWR, 0, -ENXIO),
		STEP(OP_UID, ROOT, "/u", NULL, 0, 0, USER_ID),
		STEP(OP_UMASK, ROOT, NULL, NULL, 077, 0, 0),
		STEP(OP_CREATE, USER, "/m", NULL, 0777, 0, 0),
		STEP(OP_MODE, ROOT, "/m", NULL, 0, 0, 0700),
	};

	RUN(t);
}

Test(vfs_names, open_flags)
{
	static const struct step t[] = {
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0777, 0, 0),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0777, 0, 0),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_RDONLY, 0, 0),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_WRONLY, 0, -EISDIR),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_RDWR, 0, -EISDIR),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_TRUNC, 0, -EISDIR),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_CREAT, 0644, -EISDIR),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_CREAT | LX_O_EXCL, 0644, -EEXIST),
		STEP(OP_OPEN, ROOT, "/d/.", NULL, LX_O_CREAT, 0644, -EISDIR),
		STEP(OP_OPEN, ROOT, "/d/..", NULL, LX_O_CREAT | LX_O_EXCL, 0644, -EEXIST),
		STEP(OP_OPEN, ROOT, "/", NULL, LX_O_CREAT, 0644, -EISDIR),
		STEP(OP_OPEN, ROOT, "/d/x/", NULL, LX_O_CREAT, 0644, -EISDIR),
		STEP(OP_OPEN, ROOT, "/d/", NULL, LX_O_CREAT, 0644, -EISDIR),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_DIRECTORY | LX_O_CREAT, 0644, -EINVAL),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_CREAT, 0644, 0),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_CREAT, 0644, 0),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_CREAT | LX_O_EXCL, 0644, -EEXIST),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_EXCL, 0644, 0),
		STEP(OP_OPEN, ROOT, "/d/f/", NULL, LX_O_RDONLY, 0, -ENOTDIR),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_DIRECTORY, 0, -ENOTDIR),
		STEP(OP_OPEN, ROOT, "/d/f/x", NULL, LX_O_CREAT, 0644, -ENOTDIR),
		STEP(OP_OPEN, ROOT, "/n", NULL, LX_O_RDONLY, 0, -ENOENT),
		STEP(OP_OPEN, ROOT, "/n/x", NULL, LX_O_CREAT, 0644, -ENOENT),
		STEP(OP_OPEN, ROOT, "", NULL, LX_O_CREAT, 0644, -ENOENT),
		/* access to what is there */
		STEP(OP_CHMOD, ROOT, "/d/f", NULL, 0600, 0, 0),
		STEP(OP_OPEN, USER, "/d/f", NULL, LX_O_RDONLY, 0, -EACCES),
		STEP(OP_OPEN, USER, "/d/f", NULL, LX_O_CREAT | LX_O_WRONLY, 0644, -EACCES),
		STEP(OP_OPEN, USER, "/d/f", NULL, LX_O_PATH, 0, 0),
		STEP(OP_OPEN, USER, "/d/f", NULL, 3, 0, -EACCES),
		STEP(OP_CHMOD, ROOT, "/d/f", NULL, 0644, 0, 0),
		STEP(OP_OPEN, USER, "/d/f", NULL, LX_O_RDONLY, 0, 0),
		STEP(OP_OPEN, USER, "/d/f", NULL, LX_O_RDONLY | LX_O_TRUNC, 0, -EACCES),
		STEP(OP_OPEN, USER, "/d/f", NULL, LX_O_RDONLY | LX_O_NOATIME, 0, -EPERM),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_RDONLY | LX_O_NOATIME, 0, 0),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_RDONLY | LX_O_TRUNC, 0, 0),
		/* whoever makes a file may write it */
		STEP(OP_OPEN, USER, "/d/mine", NULL, LX_O_CREAT | LX_O_RDWR, 0400, 0),
		STEP(OP_OPEN, USER, "/d/mine", NULL, LX_O_RDWR, 0, -EACCES),
		STEP(OP_OPEN, USER, "/d/mine", NULL, LX_O_RDONLY | LX_O_NOATIME, 0, 0),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0755, 0, 0),
		STEP(OP_OPEN, USER, "/d/other", NULL, LX_O_CREAT | LX_O_RDWR, 0600, -EACCES),
		STEP(OP_OPEN, USER, "/d/other", NULL, LX_O_RDWR, 0600, -ENOENT),
		/* O_TMPFILE */
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_TMPFILE | LX_O_RDWR, 0600, 0),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_TMPFILE | LX_O_RDONLY, 0600, -EINVAL),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_TMPFILE_BIT | LX_O_RDWR, 0600, -EINVAL),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_TMPFILE | LX_O_CREAT | LX_O_RDWR, 0600,
		     -EINVAL),
		STEP(OP_OPEN, USER, "/d", NULL, LX_O_TMPFILE | LX_O_RDWR, 0600, -EACCES),
		STEP(OP_OPEN, ROOT, "/d/f", NULL, LX_O_TMPFILE | LX_O_RDWR, 0600, -ENOTDIR),
		STEP(OP_OPEN, ROOT, "/n", NULL, LX_O_TMPFILE | LX_O_RDWR, 0600, -ENOENT),
	};

	RUN(t);
}

Test(vfs_names, resolve)
{
	static const struct step t[] = {
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0755, 0, 0),
		STEP(OP_MKDIR, ROOT, "/d/e", NULL, 0755, 0, 0),
		STEP(OP_CREATE, ROOT, "/d/f", NULL, 0644, 0, 0),
		STEP(OP_CREATE, ROOT, "/top", NULL, 0644, 0, 0),
		STEP(OP_SYMLINK, ROOT, "f", "/d/rel", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "/d/f", "/d/abs", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "/f", "/d/absf", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "../top", "/d/esc", 0, 0, 0),
		STEP(OP_SYMLINK, ROOT, "e/../f", "/d/in", 0, 0, 0),
		STEP(OP_CHDIR, ROOT, "/d", NULL, 0, 0, 0),
		STEP(OP_OPENAT2, ROOT, "f", NULL, 0, R_BENEATH, 0),
		STEP(OP_OPENAT2, ROOT, "rel", NULL, 0, R_BENEATH, 0),
		STEP(OP_OPENAT2, ROOT, "abs", NULL, 0, R_BENEATH, -EXDEV),
		STEP(OP_OPENAT2, ROOT, "esc", NULL, 0, R_BENEATH, -EXDEV),
		STEP(OP_OPENAT2, ROOT, "in", NULL, 0, R_BENEATH, 0),
		STEP(OP_OPENAT2, ROOT, "../top", NULL, 0, R_BENEATH, -EXDEV),
		STEP(OP_OPENAT2, ROOT, "..", NULL, 0, R_BENEATH, -EXDEV),
		STEP(OP_OPENAT2, ROOT, "e/..", NULL, 0, R_BENEATH, 0),
		STEP(OP_OPENAT2, ROOT, "/d/f", NULL, 0, R_BENEATH, -EXDEV),
		STEP(OP_OPENAT2, ROOT, "f", NULL, 0, R_IN_ROOT, 0),
		STEP(OP_OPENAT2, ROOT, "/f", NULL, 0, R_IN_ROOT, 0),
		STEP(OP_OPENAT2, ROOT, "/../../f", NULL, 0, R_IN_ROOT, 0),
		STEP(OP_OPENAT2, ROOT, "absf", NULL, 0, R_IN_ROOT, 0),
		STEP(OP_OPENAT2, ROOT, "abs", NULL, 0, R_IN_ROOT, -ENOENT),
		STEP(OP_OPENAT2, ROOT, "esc", NULL, 0, R_IN_ROOT, -ENOENT),
		STEP(OP_OPENAT2, ROOT, "rel", NULL, 0, R_NO_SYMLINKS, -ELOOP),
		STEP(OP_OPENAT2, ROOT, "rel", NULL, LX_O_PATH | LX_O_NOFOLLOW, R_NO_SYMLINKS, 0),
		STEP(OP_OPENAT2, ROOT, "f", NULL, 0, R_NO_SYMLINKS, 0),
		STEP(OP_OPENAT2, ROOT, "rel", NULL, 0, R_NO_MAGICLINKS, 0),
		STEP(OP_OPENAT2, ROOT, "/d/f", NULL, 0, R_NO_XDEV, 0),
		STEP(OP_OPENAT2, ROOT, "abs", NULL, 0, R_NO_XDEV, -EXDEV),
		STEP(OP_OPENAT2, ROOT, "../top", NULL, 0, R_NO_XDEV, 0),
		STEP(OP_OPENAT2, ROOT, "f", NULL, 0, R_CACHED, 0),
		STEP(OP_OPENAT2, ROOT, "f", NULL, LX_O_TRUNC | LX_O_WRONLY, R_CACHED, -EAGAIN),
		STEP(OP_OPENAT2, ROOT, "f", NULL, LX_O_TMPFILE | LX_O_WRONLY, R_CACHED, -EAGAIN),
	};

	RUN(t);
}
