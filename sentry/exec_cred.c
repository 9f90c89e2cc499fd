/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials across execve: set-user-ID, set-group-ID, file capabilities, ambient capabilities.
 *
 * The names below are those of capabilities(7), "Transformation of capabilities during execve()": P
 * is the process, F the file.
 *
 * References: capabilities(7), credentials(7), execve(2), prctl(2) PR_SET_NO_NEW_PRIVS.
 */
#include "sentry/exec_image.h"

#include <errno.h>
#include <string.h>

#define SECBIT_NOROOT (1u << 0)
#define SECBIT_NO_SETUID_FIXUP (1u << 2)
#define SECBIT_KEEP_CAPS (1u << 4)

#define VFS_CAP_REVISION_MASK 0xff000000u
#define VFS_CAP_FLAGS_EFFECTIVE 1u
#define VFS_CAP_REVISION_1 0x01000000u
#define VFS_CAP_REVISION_2 0x02000000u
#define VFS_CAP_REVISION_3 0x03000000u

struct file_caps {
	bool present, effective;
	uint64_t permitted, inheritable;
};

static uint32_t le32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The security.capability attribute. A malformed one is -EINVAL, none is no error. */
static int get_file_caps(struct file *f, struct file_caps *out)
{
	uint8_t b[24];
	uint32_t magic, words;
	ssize_t n;

	memset(out, 0, sizeof(*out));
	if (!f->inode->ops || !f->inode->ops->getxattr)
		return 0;
	n = f->inode->ops->getxattr(f->inode, "security.capability", b, sizeof(b));
	if (n < 4)
		return 0;
	magic = le32(b);
	switch (magic & VFS_CAP_REVISION_MASK) {
	case VFS_CAP_REVISION_1:
		if (n != 12)
			return -EINVAL;
		words = 1;
		break;
	case VFS_CAP_REVISION_2:
		if (n != 20)
			return -EINVAL;
		words = 2;
		break;
	case VFS_CAP_REVISION_3:
		if (n != 24)
			return -EINVAL;
		/* Given by root of another user name space: not for us. */
		if (le32(b + 20) != 0)
			return 0;
		words = 2;
		break;
	default:
		return -EINVAL;
	}
	out->present = true;
	out->effective = magic & VFS_CAP_FLAGS_EFFECTIVE;
	for (uint32_t i = 0; i < words; i++) {
		out->permitted |= (uint64_t)le32(b + 4 + 8 * i) << (32 * i);
		out->inheritable |= (uint64_t)le32(b + 8 + 8 * i) << (32 * i);
	}
	out->permitted &= LX_CAP_ALL;
	out->inheritable &= LX_CAP_ALL;
	return 0;
}

static void set_id_bits(struct file *f, struct cred *c)
{
	struct inode *i = f->inode;
	uint32_t mode, uid, gid;

	mutex_lock(&i->meta);
	mode = i->mode;
	uid = i->uid;
	gid = i->gid;
	mutex_unlock(&i->meta);
	if (mode & LX_S_ISUID)
		c->euid = uid;
	/* Set-group-ID without group execution means mandatory locking, of old. */
	if ((mode & (LX_S_ISGID | 0010)) == (LX_S_ISGID | 0010))
		c->egid = gid;
}

/* P'(permitted) of the file's capabilities, and what root gets without any. */
static int gain_caps(const struct cred *old, const struct file_caps *fc, struct cred *c,
		     bool *effective)
{
	bool root_is_special = !(c->securebits & SECBIT_NOROOT);

	c->cap_permitted = 0;
	*effective = fc->effective;
	if (fc->present) {
		c->cap_permitted =
			(c->cap_bset & fc->permitted) | (c->cap_inheritable & fc->inheritable);
		/* A file that needs all of its capabilities is not run with fewer. */
		if (fc->effective && (fc->permitted & ~c->cap_permitted))
			return -EPERM;
	}
	if (!root_is_special)
		return 0;
	/* A set-user-ID-root file with capabilities of its own has just those. */
	if (fc->present && c->uid != 0 && c->euid == 0)
		return 0;
	if (c->euid == 0 || c->uid == 0)
		c->cap_permitted = c->cap_bset | old->cap_inheritable;
	if (c->euid == 0)
		*effective = true;
	return 0;
}

int exec_cred(struct task *t, struct file *f, struct cred **out, bool *secure,
	      uint32_t *clear_personality)
{
	const struct cred *old = t->vctx.cred;
	bool may_gain = !t->no_new_privs && !(f->path.mnt->flags & MOUNT_NOSUID);
	struct file_caps fc = {0};
	struct cred *c = cred_dup(old);
	bool effective = false, is_setid, gained;
	int r = 0;

	if (!c)
		return -ENOMEM;
	*clear_personality = 0;
	if (may_gain) {
		set_id_bits(f, c);
		r = get_file_caps(f, &fc);
	}
	if (r == 0)
		r = gain_caps(old, &fc, c, &effective);
	if (r) {
		cred_put(c);
		return r;
	}
	gained = c->cap_permitted & ~old->cap_permitted;
	is_setid = c->euid != old->uid || c->egid != old->gid;
	if (gained || c->euid != old->euid || c->egid != old->egid)
		*clear_personality = LX_PER_CLEAR_ON_SETID;
	if (t->no_new_privs && gained)
		c->cap_permitted &= old->cap_permitted;

	c->suid = c->fsuid = c->euid;
	c->sgid = c->fsgid = c->egid;
	if (fc.present || is_setid)
		c->cap_ambient = 0;
	c->cap_permitted |= c->cap_ambient;
	c->cap_effective = effective ? c->cap_permitted : c->cap_ambient;
	c->securebits &= ~SECBIT_KEEP_CAPS;
	/* Privileged in a way that being root does not explain. */
	*secure = is_setid || (c->uid != 0 && (effective || (c->cap_permitted & ~c->cap_ambient)));
	*out = c;
	return 0;
}
