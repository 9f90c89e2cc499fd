/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what: the permission matrix, owners, set-id bits, sticky directories, xattrs.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include "tests/unit/vfs_names_env.h"

#define R 4
#define W 2
#define X 1
#define KEEP UINT32_MAX

Test(vfs_names_perm, matrix)
{
	static const struct step t[] = {
		STEP(OP_CREATE, ROOT, "/f", NULL, 0000, 0, 0),
		STEP(OP_CHOWN, ROOT, "/f", NULL, USER_ID, SHARED_GID, 0),
		/* the owner's bits only */
		STEP(OP_CHMOD, ROOT, "/f", NULL, 0477, 0, 0),
		STEP(OP_ACCESS, USER, "/f", NULL, R, 0, 0),
		STEP(OP_ACCESS, USER, "/f", NULL, W, 0, -EACCES),
		STEP(OP_ACCESS, USER, "/f", NULL, R | X, 0, -EACCES),
		STEP(OP_ACCESS, OTHER, "/f", NULL, R | W | X, 0, 0),
		/* root reads and writes all; runs what anybody may run */
		STEP(OP_CHMOD, ROOT, "/f", NULL, 0000, 0, 0),
		STEP(OP_ACCESS, ROOT, "/f", NULL, R | W, 0, 0),
		STEP(OP_ACCESS, ROOT, "/f", NULL, X, 0, -EACCES),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 0010, 0, 0),
		STEP(OP_ACCESS, ROOT, "/f", NULL, R | W | X, 0, 0),
		STEP(OP_ACCESS, USER, "/f", NULL, X, 0, -EACCES),
		/* a supplementary group */
		STEP(OP_CHOWN, ROOT, "/f", NULL, 0, KEEP, 0),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 0640, 0, 0),
		STEP(OP_ACCESS, USER, "/f", NULL, R, 0, 0),
		STEP(OP_ACCESS, USER, "/f", NULL, W, 0, -EACCES),
		STEP(OP_ACCESS, OTHER, "/f", NULL, R, 0, -EACCES),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 0604, 0, 0),
		STEP(OP_ACCESS, USER, "/f", NULL, R, 0, -EACCES),
		STEP(OP_ACCESS, OTHER, "/f", NULL, R, 0, 0),
		/* directories */
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0700, 0, 0),
		STEP(OP_CREATE, ROOT, "/d/f", NULL, 0666, 0, 0),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0000, 0, 0),
		STEP(OP_ACCESS, ROOT, "/d", NULL, R | W | X, 0, 0),
		STEP(OP_STAT, ROOT, "/d/f", NULL, 0, 0, 0),
		STEP(OP_STAT, USER, "/d/f", NULL, 0, 0, -EACCES),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0711, 0, 0),
		STEP(OP_STAT, USER, "/d/f", NULL, 0, 0, 0),
		STEP(OP_OPEN, USER, "/d", NULL, LX_O_RDONLY, 0, -EACCES),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0744, 0, 0),
		STEP(OP_OPEN, USER, "/d", NULL, LX_O_RDONLY, 0, 0),
		STEP(OP_STAT, USER, "/d/f", NULL, 0, 0, -EACCES),
		/* making and removing want w and x; protected_hardlinks wants /f to be the user's
		   own */
		STEP(OP_CHOWN, ROOT, "/f", NULL, USER_ID, KEEP, 0),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0755, 0, 0),
		STEP(OP_MKDIR, USER, "/d/x", NULL, 0755, 0, -EACCES),
		STEP(OP_MKDIR, USER, "/d/f", NULL, 0755, 0, -EEXIST),
		STEP(OP_UNLINK, USER, "/d/f", NULL, 0, 0, -EACCES),
		STEP(OP_UNLINK, USER, "/d/n", NULL, 0, 0, -ENOENT),
		STEP(OP_RMDIR, USER, "/d/f", NULL, 0, 0, -EACCES),
		STEP(OP_RENAME, USER, "/d/f", "/d/g", 0, 0, -EACCES),
		STEP(OP_LINK, USER, "/f", "/d/g", 0, 0, -EACCES),
		STEP(OP_SYMLINK, USER, "x", "/d/g", 0, 0, -EACCES),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0772, 0, 0),
		STEP(OP_MKDIR, USER, "/d/x", NULL, 0755, 0, -EACCES),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 0773, 0, 0),
		STEP(OP_MKDIR, USER, "/d/x", NULL, 0755, 0, 0),
		STEP(OP_UNLINK, USER, "/d/f", NULL, 0, 0, 0),
	};

	RUN(t);
}

Test(vfs_names_perm, sticky)
{
	static const struct step t[] = {
		STEP(OP_MKDIR, ROOT, "/t", NULL, 0777, 0, 0),
		STEP(OP_CHMOD, ROOT, "/t", NULL, 01777, 0, 0),
		STEP(OP_CREATE, USER, "/t/u", NULL, 0666, 0, 0),
		STEP(OP_CREATE, OTHER, "/t/o", NULL, 0666, 0, 0),
		STEP(OP_MKDIR, OTHER, "/t/od", NULL, 0777, 0, 0),
		STEP(OP_UNLINK, USER, "/t/o", NULL, 0, 0, -EPERM),
		STEP(OP_RMDIR, USER, "/t/od", NULL, 0, 0, -EPERM),
		STEP(OP_UNLINK, USER, "/t/od", NULL, 0, 0, -EPERM),
		STEP(OP_RENAME, USER, "/t/o", "/t/x", 0, 0, -EPERM),
		STEP(OP_RENAME, USER, "/t/u", "/t/o", 0, 0, -EPERM),
		STEP(OP_RENAME, USER, "/t/u", "/t/o", LX_RENAME_EXCHANGE, 0, -EPERM),
		STEP(OP_RENAME, USER, "/t/u", "/t/v", 0, 0, 0),
		STEP(OP_UNLINK, USER, "/t/v", NULL, 0, 0, 0),
		STEP(OP_UNLINK, ROOT, "/t/o", NULL, 0, 0, 0),
		/* the directory's owner may */
		STEP(OP_CHOWN, ROOT, "/t", NULL, USER_ID, KEEP, 0),
		STEP(OP_RMDIR, USER, "/t/od", NULL, 0, 0, 0),
	};

	RUN(t);
}

Test(vfs_names_perm, owners)
{
	static const struct step t[] = {
		STEP(OP_CREATE, ROOT, "/f", NULL, 0644, 0, 0),
		STEP(OP_CHMOD, USER, "/f", NULL, 0600, 0, -EPERM),
		STEP(OP_CHOWN, USER, "/f", NULL, USER_ID, KEEP, -EPERM),
		STEP(OP_UTIME, USER, "/f", NULL, 0, 0, -EPERM),
		STEP(OP_TOUCH, USER, "/f", NULL, 0, 0, -EACCES),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 0646, 0, 0),
		STEP(OP_TOUCH, USER, "/f", NULL, 0, 0, 0),
		STEP(OP_UTIME, USER, "/f", NULL, 0, 0, -EPERM),
		STEP(OP_TRUNCATE, USER, "/f", NULL, 5, 0, 0),
		STEP(OP_CHOWN, ROOT, "/f", NULL, USER_ID, USER_ID, 0),
		STEP(OP_CHMOD, USER, "/f", NULL, 0600, 0, 0),
		STEP(OP_UTIME, USER, "/f", NULL, 0, 0, 0),
		STEP(OP_TRUNCATE, OTHER, "/f", NULL, 0, 0, -EACCES),
		/* to a group one is in, to nobody else */
		STEP(OP_CHOWN, USER, "/f", NULL, KEEP, SHARED_GID, 0),
		STEP(OP_GID, ROOT, "/f", NULL, 0, 0, SHARED_GID),
		STEP(OP_CHOWN, USER, "/f", NULL, KEEP, OTHER_ID, -EPERM),
		STEP(OP_CHOWN, USER, "/f", NULL, USER_ID, KEEP, 0),
		STEP(OP_CHOWN, USER, "/f", NULL, OTHER_ID, KEEP, -EPERM),
		STEP(OP_CHOWN, USER, "/f", NULL, KEEP, KEEP, 0),
		/* set-id bits */
		STEP(OP_CHMOD, USER, "/f", NULL, 06755, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 06755),
		STEP(OP_CHOWN, USER, "/f", NULL, KEEP, KEEP, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 0755),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 06755, 0, 0),
		STEP(OP_CHOWN, ROOT, "/f", NULL, 0, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 0755),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 02745, 0, 0),
		STEP(OP_CHOWN, ROOT, "/f", NULL, 0, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 02745),
		STEP(OP_CHOWN, ROOT, "/f", NULL, USER_ID, OTHER_ID, 0),
		/* setgid for a group one is not in */
		STEP(OP_CHMOD, USER, "/f", NULL, 02755, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 0755),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 06777, 0, 0),
		STEP(OP_WRITE, OTHER, "/f", NULL, 0, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 0777),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 06777, 0, 0),
		STEP(OP_WRITE, ROOT, "/f", NULL, 0, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 06777),
		STEP(OP_TRUNCATE, OTHER, "/f", NULL, 1, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 0777),
		STEP(OP_CHMOD, ROOT, "/f", NULL, 06777, 0, 0),
		STEP(OP_OPEN, OTHER, "/f", NULL, LX_O_WRONLY | LX_O_TRUNC, 0, 0),
		STEP(OP_MODE, ROOT, "/f", NULL, 0, 0, 0777),
		/* a directory keeps its bits */
		STEP(OP_MKDIR, ROOT, "/d", NULL, 0777, 0, 0),
		STEP(OP_CHMOD, ROOT, "/d", NULL, 06777, 0, 0),
		STEP(OP_CHOWN, ROOT, "/d", NULL, 0, SHARED_GID, 0),
		STEP(OP_MODE, ROOT, "/d", NULL, 0, 0, 06777),
		/* files in a setgid directory */
		STEP(OP_CREATE, OTHER, "/d/f", NULL, 02775, 0, 0),
		STEP(OP_GID, ROOT, "/d/f", NULL, 0, 0, SHARED_GID),
		STEP(OP_MODE, ROOT, "/d/f", NULL, 0, 0, 0755),
		STEP(OP_CREATE, USER, "/d/g", NULL, 02775, 0, 0),
		STEP(OP_MODE, ROOT, "/d/g", NULL, 0, 0, 02755),
		STEP(OP_MKDIR, OTHER, "/d/e", NULL, 0755, 0, 0),
		STEP(OP_MODE, ROOT, "/d/e", NULL, 0, 0, 02755),
		STEP(OP_GID, ROOT, "/d/e", NULL, 0, 0, SHARED_GID),
		STEP(OP_CREATE, USER, "/plain", NULL, 0644, 0, -EACCES),
		STEP(OP_TRUNCATE, ROOT, "/d", NULL, 0, 0, -EISDIR),
		STEP(OP_MKNOD, ROOT, "/p", NULL, LX_S_IFIFO | 0666, 0, 0),
		STEP(OP_TRUNCATE, ROOT, "/p", NULL, 0, 0, -EINVAL),
	};

	RUN(t);
}

Test(vfs_names_perm, xattrs)
{
	static const struct step t[] = {
		STEP(OP_CREATE, ROOT, "/f", NULL, 0644, 0, 0),
		STEP(OP_SETXATTR, ROOT, "/f", "user.a", 0, 0, 0),
		STEP(OP_GETXATTR, USER, "/f", "user.a", 0, 0, 1),
		STEP(OP_GETXATTR, USER, "/f", "user.b", 0, 0, -ENODATA),
		STEP(OP_SETXATTR, USER, "/f", "user.a", 0, 0, -EACCES),
		STEP(OP_SETXATTR, ROOT, "/f", "user.a", LX_XATTR_CREATE, 0, -EEXIST),
		STEP(OP_SETXATTR, ROOT, "/f", "user.b", LX_XATTR_REPLACE, 0, -ENODATA),
		STEP(OP_SETXATTR, ROOT, "/f", "user.b", 4, 0, -EINVAL),
		STEP(OP_SETXATTR, ROOT, "/f", "", 0, 0, -ERANGE),
		STEP(OP_SETXATTR, ROOT, "/f", "user.", 0, 0, -EINVAL),
		STEP(OP_SETXATTR, ROOT, "/f", "nonsense", 0, 0, -EOPNOTSUPP),
		STEP(OP_SETXATTR, ROOT, "/f", "trusted.a", 0, 0, 0),
		STEP(OP_GETXATTR, USER, "/f", "trusted.a", 0, 0, -ENODATA),
		STEP(OP_GETXATTR, ROOT, "/f", "trusted.a", 0, 0, 1),
		STEP(OP_SETXATTR, USER, "/f", "trusted.a", 0, 0, -EPERM),
		STEP(OP_SETXATTR, USER, "/f", "security.a", 0, 0, -EPERM),
		STEP(OP_SETXATTR, ROOT, "/f", "security.a", 0, 0, 0),
		STEP(OP_REMOVEXATTR, ROOT, "/f", "user.a", 0, 0, 0),
		STEP(OP_REMOVEXATTR, ROOT, "/f", "user.a", 0, 0, -ENODATA),
		STEP(OP_MKNOD, ROOT, "/p", NULL, LX_S_IFIFO | 0666, 0, 0),
		STEP(OP_SETXATTR, ROOT, "/p", "user.a", 0, 0, -EPERM),
		STEP(OP_GETXATTR, ROOT, "/p", "user.a", 0, 0, -ENODATA),
		STEP(OP_MKDIR, ROOT, "/t", NULL, 0777, 0, 0),
		STEP(OP_CHMOD, ROOT, "/t", NULL, 01777, 0, 0),
		STEP(OP_SETXATTR, USER, "/t", "user.a", 0, 0, -EPERM),
	};

	RUN(t);
}
