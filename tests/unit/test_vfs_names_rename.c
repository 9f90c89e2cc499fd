/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rename: what onto what, flags, trees, permissions.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include "tests/unit/vfs_names_env.h"

#define MV(a, b, flags, want) STEP(OP_RENAME, ROOT, a, b, flags, 0, want)
#define IS(a) STEP(OP_LSTAT, ROOT, a, NULL, 0, 0, 0)
#define NOT(a) STEP(OP_LSTAT, ROOT, a, NULL, 0, 0, -ENOENT)

#define TREE                                                        \
	STEP(OP_MKDIR, ROOT, "/d", NULL, 0755, 0, 0),               \
		STEP(OP_MKDIR, ROOT, "/e", NULL, 0755, 0, 0),       \
		STEP(OP_MKDIR, ROOT, "/d/sub", NULL, 0755, 0, 0),   \
		STEP(OP_MKDIR, ROOT, "/full", NULL, 0755, 0, 0),    \
		STEP(OP_CREATE, ROOT, "/full/x", NULL, 0644, 0, 0), \
		STEP(OP_CREATE, ROOT, "/f", NULL, 0644, 0, 0),      \
		STEP(OP_CREATE, ROOT, "/g", NULL, 0644, 0, 0),      \
		STEP(OP_SYMLINK, ROOT, "d", "/ld", 0, 0, 0),        \
		STEP(OP_SYMLINK, ROOT, "f", "/lf", 0, 0, 0)

Test(vfs_names_rename, matrix)
{
	static const struct step t[] = {
		TREE,
		MV("/n", "/x", 0, -ENOENT),
		MV("/f", "/n/x", 0, -ENOENT),
		MV("/f", "/g/x", 0, -ENOTDIR),
		MV("/f", "/d", 0, -EISDIR),
		MV("/d", "/f", 0, -ENOTDIR),
		MV("/e", "/full", 0, -ENOTEMPTY),
		MV("/d", "/d/sub/x", 0, -EINVAL),
		MV("/d", "/d/x", 0, -EINVAL),
		MV("/d", "/d/sub", 0, -EINVAL),
		MV("/d/sub", "/d", 0, -ENOTEMPTY),
		MV("/f", "/", 0, -EBUSY),
		MV("/", "/x", 0, -EBUSY),
		MV("/d/.", "/x", 0, -EBUSY),
		MV("/d/..", "/x", 0, -EBUSY),
		MV("/d", "/e/.", 0, -EBUSY),
		MV("/f/", "/x", 0, -ENOTDIR),
		MV("/f", "/x/", 0, -ENOTDIR),
		MV("/d/", "/d2/", 0, 0),
		MV("/d2", "/d", 0, 0),
		MV("/f", "/f", 0, 0),
		MV("/d", "/d", 0, 0),
		/* links themselves, not what they lead to */
		MV("/ld", "/ld2", 0, 0),
		STEP(OP_READLINK, ROOT, "/ld2", NULL, 0, 0, 1),
		MV("/ld2/", "/x", 0, -ENOTDIR),
		MV("/d", "/ld2", 0, -ENOTDIR),
		MV("/f", "/lf", 0, 0),
		NOT("/f"),
		STEP(OP_READLINK, ROOT, "/lf", NULL, 0, 0, -EINVAL),
		MV("/lf", "/f", 0, 0),
		/* onto others */
		MV("/f", "/g", 0, 0),
		NOT("/f"),
		IS("/g"),
		MV("/full", "/e", 0, 0),
		NOT("/full"),
		IS("/e/x"),
		MV("/e/x", "/d/y", 0, 0),
		IS("/d/y"),
		MV("/e", "/d/sub/e", 0, 0),
		IS("/d/sub/e"),
		STEP(OP_NLINK, ROOT, "/d/sub", NULL, 0, 0, 3),
		IS("/d/sub/e/../../y"),
		/* two names of one file */
		STEP(OP_LINK, ROOT, "/g", "/h", 0, 0, 0),
		MV("/g", "/h", 0, 0),
		IS("/g"),
		IS("/h"),
	};

	RUN(t);
}

Test(vfs_names_rename, flags)
{
	static const struct step t[] = {
		TREE,
		MV("/f", "/g", 8, -EINVAL),
		MV("/f", "/g", LX_RENAME_NOREPLACE | LX_RENAME_EXCHANGE, -EINVAL),
		MV("/f", "/g", LX_RENAME_WHITEOUT | LX_RENAME_EXCHANGE, -EINVAL),
		MV("/f", "/g", LX_RENAME_NOREPLACE, -EEXIST),
		MV("/f", "/f", LX_RENAME_NOREPLACE, -EEXIST),
		MV("/n", "/g", LX_RENAME_NOREPLACE, -ENOENT),
		MV("/f", "/", LX_RENAME_NOREPLACE, -EEXIST),
		MV("/f", "/h", LX_RENAME_NOREPLACE, 0),
		MV("/h", "/f", LX_RENAME_NOREPLACE, 0),
		MV("/f", "/n", LX_RENAME_EXCHANGE, -ENOENT),
		MV("/f", "/d", LX_RENAME_EXCHANGE, 0),
		IS("/f/sub"),
		STEP(OP_OPEN, ROOT, "/d", NULL, LX_O_DIRECTORY, 0, -ENOTDIR),
		MV("/f", "/d", LX_RENAME_EXCHANGE, 0),
		MV("/d", "/d/sub", LX_RENAME_EXCHANGE, -EINVAL),
		MV("/d/sub", "/d", LX_RENAME_EXCHANGE, -EINVAL),
		MV("/d/sub", "/full", LX_RENAME_EXCHANGE, 0),
		IS("/d/sub/x"),
		IS("/d/sub/../../d/sub/x"),
		NOT("/full/x"),
		MV("/f", "/g/", LX_RENAME_EXCHANGE, -ENOTDIR),
		STEP(OP_NLINK, ROOT, "/d", NULL, 0, 0, 3),
		MV("/d/sub", "/f", LX_RENAME_EXCHANGE, 0),
		STEP(OP_NLINK, ROOT, "/d", NULL, 0, 0, 2),
		IS("/f/x"),
	};

	RUN(t);
}

Test(vfs_names_rename, permissions)
{
	static const struct step t[] = {
		STEP(OP_MKDIR, ROOT, "/w", NULL, 0777, 0, 0),
		STEP(OP_CHMOD, ROOT, "/w", NULL, 0777, 0, 0),
		STEP(OP_MKDIR, ROOT, "/w/in", NULL, 0777, 0, 0),
		STEP(OP_CHMOD, ROOT, "/w/in", NULL, 0777, 0, 0),
		STEP(OP_MKDIR, ROOT, "/w/rootdir", NULL, 0755, 0, 0),
		STEP(OP_CREATE, ROOT, "/w/rootfile", NULL, 0644, 0, 0),
		/* a directory that one cannot write may be renamed, but gets no other parent */
		STEP(OP_RENAME, USER, "/w/rootdir", "/w/x", 0, 0, 0),
		STEP(OP_RENAME, USER, "/w/x", "/w/in/x", 0, 0, -EACCES),
		STEP(OP_RENAME, USER, "/w/rootfile", "/w/in/x", 0, 0, 0),
		STEP(OP_RENAME, USER, "/w/in/x", "/x", 0, 0, -EACCES),
		STEP(OP_RENAME, USER, "/w/in/x", "/w", 0, 0, -ENOTEMPTY),
		STEP(OP_RENAME, USER, "/w/n", "/x", 0, 0, -ENOENT),
	};

	RUN(t);
}
