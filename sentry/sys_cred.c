/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User and group ids, supplementary groups, capabilities.
 *
 * Credentials are immutable once published: each call edits a copy and swaps it in. There is one
 * user name space; all ids map to themselves. References: credentials(7), capabilities(7),
 * setuid(2), setreuid(2), setresuid(2), setfsuid(2), capget(2).
 */
#include "sentry/process.h"
#include "sentry/syscall.h"

#include <errno.h>

#define NO_ID UINT32_MAX
#define SECBIT_NO_SETUID_FIXUP 4u
#define CAPS_FS                                                                           \
	(1ull << LX_CAP_CHOWN | 1ull << LX_CAP_MKNOD | 1ull << LX_CAP_DAC_OVERRIDE |      \
	 1ull << LX_CAP_DAC_READ_SEARCH | 1ull << LX_CAP_FOWNER | 1ull << LX_CAP_FSETID | \
	 1ull << LX_CAP_LINUX_IMMUTABLE | 1ull << LX_CAP_MAC_OVERRIDE)

long sys_getuid(struct task *t)
{
	return t->vctx.cred->uid;
}

long sys_geteuid(struct task *t)
{
	return t->vctx.cred->euid;
}

long sys_getgid(struct task *t)
{
	return t->vctx.cred->gid;
}

long sys_getegid(struct task *t)
{
	return t->vctx.cred->egid;
}

/* The four ids of one kind, the user's or the group's: the calls that set them differ in that only.
 */
struct ids {
	uint32_t real, effective, saved, fs;
};

static struct ids ids_of(const struct cred *c, bool user)
{
	if (user)
		return (struct ids){c->uid, c->euid, c->suid, c->fsuid};
	return (struct ids){c->gid, c->egid, c->sgid, c->fsgid};
}

static long get_three(struct task *t, const struct ids *ids, gaddr_t real, gaddr_t effective,
		      gaddr_t saved)
{
	if (copy_out(t, real, &ids->real, 4) || copy_out(t, effective, &ids->effective, 4) ||
	    copy_out(t, saved, &ids->saved, 4))
		return -EFAULT;
	return 0;
}

long sys_getresuid(struct task *t, gaddr_t ruid, gaddr_t euid, gaddr_t suid)
{
	const struct ids ids = ids_of(t->vctx.cred, true);

	return get_three(t, &ids, ruid, euid, suid);
}

long sys_getresgid(struct task *t, gaddr_t rgid, gaddr_t egid, gaddr_t sgid)
{
	const struct ids ids = ids_of(t->vctx.cred, false);

	return get_three(t, &ids, rgid, egid, sgid);
}

/* capabilities(7) "Effect of user ID changes on capabilities". */
static void fix_caps(struct task *t, const struct cred *old, struct cred *c)
{
	bool had_root = old->uid == 0 || old->euid == 0 || old->suid == 0;
	bool has_root = c->uid == 0 || c->euid == 0 || c->suid == 0;

	if (old->securebits & SECBIT_NO_SETUID_FIXUP)
		return;
	if (had_root && !has_root) {
		if (!t->keep_caps && !(old->securebits & 0x10u)) {
			c->cap_permitted = 0;
			c->cap_effective = 0;
		}
		c->cap_ambient = 0;
	}
	if (old->euid == 0 && c->euid != 0)
		c->cap_effective = 0;
	if (old->euid != 0 && c->euid == 0)
		c->cap_effective = c->cap_permitted;
}

static void fix_fscaps(const struct cred *old, struct cred *c)
{
	if (old->securebits & SECBIT_NO_SETUID_FIXUP)
		return;
	if (old->fsuid == 0 && c->fsuid != 0)
		c->cap_effective &= ~CAPS_FS;
	if (old->fsuid != 0 && c->fsuid == 0)
		c->cap_effective |= c->cap_permitted & CAPS_FS;
}

/* Publishes @c: a change of identity makes the process undumpable for others, and drops the
 * parent-death signal. */
static long publish(struct task *t, struct cred *c, bool user)
{
	const struct cred *old = t->vctx.cred;

	if (old->euid != c->euid || old->egid != c->egid || old->fsuid != c->fsuid ||
	    old->fsgid != c->fsgid) {
		t->tg->dumpable = 0;
		mutex_lock(&g_kernel.tasklist);
		t->pdeath_signal = 0;
		mutex_unlock(&g_kernel.tasklist);
	}
	if (user)
		fix_caps(t, old, c);
	task_set_cred(t, c);
	return 0;
}

static bool may_set(const struct cred *c, bool user)
{
	return cred_capable(c, user ? LX_CAP_SETUID : LX_CAP_SETGID);
}

/* A copy of @t's credentials with these ids; NULL: no memory. */
static struct cred *with_ids(struct task *t, const struct ids *ids, bool user)
{
	struct cred *c = cred_dup(t->vctx.cred);

	if (c && user) {
		c->uid = ids->real;
		c->euid = ids->effective;
		c->suid = ids->saved;
		c->fsuid = ids->fs;
	} else if (c) {
		c->gid = ids->real;
		c->egid = ids->effective;
		c->sgid = ids->saved;
		c->fsgid = ids->fs;
	}
	return c;
}

static long publish_ids(struct task *t, struct ids *ids, bool user)
{
	struct cred *c;

	ids->fs = ids->effective;
	c = with_ids(t, ids, user);
	return c ? publish(t, c, user) : -ENOMEM;
}

static long set_id(struct task *t, uint32_t id, bool user)
{
	const struct ids old = ids_of(t->vctx.cred, user);
	struct ids ids = old;

	if (id == NO_ID)
		return -EINVAL;
	if (may_set(t->vctx.cred, user))
		ids.real = ids.saved = id;
	else if (id != old.real && id != old.saved)
		return -EPERM;
	ids.effective = id;
	return publish_ids(t, &ids, user);
}

long sys_setuid(struct task *t, uint32_t uid)
{
	return set_id(t, uid, true);
}

long sys_setgid(struct task *t, uint32_t gid)
{
	return set_id(t, gid, false);
}

static bool one_of(uint32_t v, uint32_t a, uint32_t b, uint32_t d)
{
	return v == NO_ID || v == a || v == b || v == d;
}

static long set_two(struct task *t, uint32_t real, uint32_t effective, bool user)
{
	const struct ids old = ids_of(t->vctx.cred, user);
	struct ids ids = old;

	if (!may_set(t->vctx.cred, user) &&
	    (!one_of(real, old.real, old.effective, old.real) ||
	     !one_of(effective, old.real, old.effective, old.saved)))
		return -EPERM;
	if (real != NO_ID)
		ids.real = real;
	if (effective != NO_ID)
		ids.effective = effective;
	if (real != NO_ID || (effective != NO_ID && effective != old.real))
		ids.saved = ids.effective;
	return publish_ids(t, &ids, user);
}

long sys_setreuid(struct task *t, uint32_t ruid, uint32_t euid)
{
	return set_two(t, ruid, euid, true);
}

long sys_setregid(struct task *t, uint32_t rgid, uint32_t egid)
{
	return set_two(t, rgid, egid, false);
}

static long set_three(struct task *t, uint32_t real, uint32_t effective, uint32_t saved, bool user)
{
	const struct ids old = ids_of(t->vctx.cred, user);
	struct ids ids = old;

	if (!may_set(t->vctx.cred, user) &&
	    (!one_of(real, old.real, old.effective, old.saved) ||
	     !one_of(effective, old.real, old.effective, old.saved) ||
	     !one_of(saved, old.real, old.effective, old.saved)))
		return -EPERM;
	if (real != NO_ID)
		ids.real = real;
	if (effective != NO_ID)
		ids.effective = effective;
	if (saved != NO_ID)
		ids.saved = saved;
	return publish_ids(t, &ids, user);
}

long sys_setresuid(struct task *t, uint32_t ruid, uint32_t euid, uint32_t suid)
{
	return set_three(t, ruid, euid, suid, true);
}

long sys_setresgid(struct task *t, uint32_t rgid, uint32_t egid, uint32_t sgid)
{
	return set_three(t, rgid, egid, sgid, false);
}

/* Answers with what it was, whether it was set or not. */
static long set_fs_id(struct task *t, uint32_t id, bool user)
{
	const struct cred *old = t->vctx.cred;
	struct ids ids = ids_of(old, user);
	const uint32_t was = ids.fs;
	struct cred *c;

	if (id == NO_ID || id == was)
		return was;
	if (id != ids.real && id != ids.effective && id != ids.saved && !may_set(old, user))
		return was;
	ids.fs = id;
	c = with_ids(t, &ids, user);
	if (!c)
		return was;
	if (user)
		fix_fscaps(old, c);
	(void)publish(t, c, false);
	return was;
}

long sys_setfsuid(struct task *t, uint32_t uid)
{
	return set_fs_id(t, uid, true);
}

long sys_setfsgid(struct task *t, uint32_t gid)
{
	return set_fs_id(t, gid, false);
}

long sys_getgroups(struct task *t, int size, gaddr_t list)
{
	const struct cred_groups *g = t->vctx.cred->groups;

	if (size < 0)
		return -EINVAL;
	if (size == 0)
		return g->count;
	if ((uint32_t)size < g->count)
		return -EINVAL;
	if (g->count && copy_out(t, list, g->gid, g->count * sizeof(g->gid[0])))
		return -EFAULT;
	return g->count;
}

long sys_setgroups(struct task *t, int size, gaddr_t list)
{
	struct cred_groups *g;
	struct cred *c;

	if (!cred_capable(t->vctx.cred, LX_CAP_SETGID))
		return -EPERM;
	if (size < 0 || size > LX_NGROUPS_MAX)
		return -EINVAL;
	g = cred_groups_new((uint32_t)size);
	if (!g)
		return -ENOMEM;
	if (size && copy_in(t, g->gid, list, (size_t)size * sizeof(g->gid[0]))) {
		mem_free(g);
		return -EFAULT;
	}
	c = cred_dup(t->vctx.cred);
	if (!c) {
		mem_free(g);
		return -ENOMEM;
	}
	cred_set_groups(c, g);
	task_set_cred(t, c);
	return 0;
}

/* ---- capabilities ---- */

#define CAP_V1 0x19980330u
#define CAP_V2 0x20071026u
#define CAP_V3 0x20080522u

struct cap_header {
	uint32_t version;
	int32_t pid;
};
struct cap_data {
	uint32_t effective, permitted, inheritable;
};

/* The number of cap_data structs of this version; 0: unknown, and the header then says what is
 * known. */
static int cap_version(struct task *t, gaddr_t hdrp, struct cap_header *h)
{
	uint32_t best = CAP_V3;

	if (copy_in(t, h, hdrp, sizeof(*h)))
		return -EFAULT;
	if (h->version == CAP_V1)
		return 1;
	if (h->version == CAP_V2 || h->version == CAP_V3)
		return 2;
	if (copy_out(t, hdrp, &best, sizeof(best)))
		return -EFAULT;
	return 0;
}

long sys_capget(struct task *t, gaddr_t hdrp, gaddr_t datap)
{
	struct cap_header h;
	struct cap_data d[2];
	struct cred *c;
	int n = cap_version(t, hdrp, &h);

	if (n < 0)
		return n;
	if (n == 0)
		return datap.a ? -EINVAL : 0;
	if (h.pid < 0)
		return -EINVAL;
	if (h.pid && h.pid != t->tid) {
		struct task *o = task_find(h.pid);

		if (!o)
			return -ESRCH;
		c = task_get_cred(o);
		task_put(o);
	} else {
		c = cred_get(t->vctx.cred);
	}
	for (int i = 0; i < 2; i++) {
		d[i].effective = (uint32_t)(c->cap_effective >> (32 * i));
		d[i].permitted = (uint32_t)(c->cap_permitted >> (32 * i));
		d[i].inheritable = (uint32_t)(c->cap_inheritable >> (32 * i));
	}
	cred_put(c);
	if (!datap.a)
		return 0;
	return copy_out(t, datap, d, (size_t)n * sizeof(d[0]));
}

long sys_capset(struct task *t, gaddr_t hdrp, gaddr_t datap)
{
	const struct cred *old = t->vctx.cred;
	struct cap_header h;
	struct cap_data d[2] = {{0}};
	uint64_t eff = 0, perm = 0, inh = 0;
	struct cred *c;
	int n = cap_version(t, hdrp, &h);

	if (n <= 0)
		return n ? n : -EINVAL;
	if (h.pid && h.pid != t->tid)
		return -EPERM;
	if (copy_in(t, d, datap, (size_t)n * sizeof(d[0])))
		return -EFAULT;
	for (int i = 0; i < n; i++) {
		eff |= (uint64_t)d[i].effective << (32 * i);
		perm |= (uint64_t)d[i].permitted << (32 * i);
		inh |= (uint64_t)d[i].inheritable << (32 * i);
	}
	eff &= LX_CAP_ALL;
	perm &= LX_CAP_ALL;
	inh &= LX_CAP_ALL;
	if (!cred_capable(old, LX_CAP_SETPCAP) &&
	    (inh & ~(old->cap_inheritable | old->cap_permitted)))
		return -EPERM;
	if (inh & ~(old->cap_inheritable | old->cap_bset))
		return -EPERM;
	if ((perm & ~old->cap_permitted) || (eff & ~perm))
		return -EPERM;
	c = cred_dup(old);
	if (!c)
		return -ENOMEM;
	c->cap_effective = eff;
	c->cap_permitted = perm;
	c->cap_inheritable = inh;
	c->cap_ambient &= perm & inh;
	task_set_cred(t, c);
	return 0;
}
