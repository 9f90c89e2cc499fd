/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of names share: a sandbox of one tmpfs with root and an ordinary user, and tables
 * of steps that run on it. With MOAT_NATIVE=1 and as root the same tables also run on the host, in
 * a chroot, so that what they expect is what Linux says.
 */
#ifndef MOAT_TESTS_VFS_NAMES_ENV_H
#define MOAT_TESTS_VFS_NAMES_ENV_H

#include "vfs/vfs.h"

struct env {
	struct super *super;
	struct mount_ns *ns;
	struct fs_struct *fs;
	struct vfs_ctx ctx[3]; /* by enum who */
};

enum who { ROOT, USER, OTHER };
#define USER_ID 1000u
#define OTHER_ID 2000u
#define SHARED_GID 3000u /* a supplementary group of USER */

void env_up(struct env *e);
/* Ends it, and checks that no dentry is left. */
void env_down(struct env *e);

enum op {
	OP_MKDIR, /* a, n: mode */
	OP_RMDIR,
	OP_UNLINK,
	OP_CREATE,  /* a, n: mode: O_CREAT|O_EXCL|O_WRONLY */
	OP_OPEN,    /* a, n: flags, m: mode */
	OP_OPENAT2, /* a, n: flags, m: RESOLVE_* */
	OP_SYMLINK, /* a: text, b: name */
	OP_LINK,    /* a, b, n: AT_* */
	OP_RENAME,  /* a, b, n: RENAME_* */
	OP_STAT,
	OP_LSTAT,
	OP_CHMOD,    /* a, n */
	OP_CHOWN,    /* a, n: uid, m: gid */
	OP_TRUNCATE, /* a, n: size */
	OP_ACCESS,   /* a, n: R_OK … */
	OP_MKNOD,    /* a, n: mode, m: dev */
	OP_READLINK,
	OP_CHDIR,
	OP_TOUCH,    /* a: utimes(NULL) */
	OP_UTIME,    /* a: times given */
	OP_SETXATTR, /* a, b: name, n: flags, value "v" */
	OP_GETXATTR, /* a, b: name: the size */
	OP_REMOVEXATTR,
	OP_UMASK, /* n */
	OP_WRITE, /* a: opens O_WRONLY, writes a byte, closes */
	/* These give a number to compare with. */
	OP_MODE, /* a: permission bits */
	OP_UID,
	OP_GID,
	OP_NLINK,
};

struct step {
	int line;
	enum op op;
	enum who who;
	const char *a, *b;
	unsigned n, m;
	int want; /* 0, a number, or -errno */
};
#define STEP(op, who, a, b, n, m, want)             \
	{                                           \
		__LINE__, op, who, a, b, n, m, want \
	}

int run_step(struct env *e, const struct step *s);
/* Runs all, with cr_expect for each; natively too if asked for. Fresh trees each. */
void run_steps(const struct step *steps, size_t count);
#define RUN(t) run_steps(t, ARRAY_SIZE(t))

/* For tests that make the calls themselves; in files that include Criterion. */
#define WANT(want, call)                                                                   \
	do {                                                                               \
		int got_ = (int)(call);                                                    \
		cr_expect_eq(got_, (want), "line %d: got %d, expected %d", __LINE__, got_, \
			     (want));                                                      \
	} while (0)

/* RESOLVE_* of openat2(2). */
#define R_NO_XDEV 0x01u
#define R_NO_MAGICLINKS 0x02u
#define R_NO_SYMLINKS 0x04u
#define R_BENEATH 0x08u
#define R_IN_ROOT 0x10u
#define R_CACHED 0x20u
unsigned walk_of_resolve(unsigned resolve);

#endif
