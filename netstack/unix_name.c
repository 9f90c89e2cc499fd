/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of AF_UNIX sockets: paths, abstract names, names of the kernel's choice.
 *
 * Theory of operation: an abstract name is an entry of a table keyed by its bytes and the socket's
 * type. A path is an inode whose ->sock points to the socket for as long as that lives; the pointer
 * is no reference, and is followed and cleared under inode->meta.
 *
 * Locking: g_unix for the table and the sockets' names.
 *
 * References: unix(7).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/err.h"
#include "netstack/unix.h"

#define PATH_OFF offsetof(struct lx_sockaddr_un, sun_path)
#define AUTOBIND_NAMES 0x100000u

static struct htable g_names; /* [g_unix] struct unix_sock */
static uint32_t g_next_auto;  /* [g_unix] */

struct unix_addr *unix_addr_get(struct unix_addr *a)
{
	if (a)
		ref_get(&a->ref);
	return a;
}

void unix_addr_put(struct unix_addr *a)
{
	if (a && ref_put(&a->ref))
		mem_free(a);
}

int unix_check_addr(const void *addr, size_t size)
{
	uint16_t family;

	if (size <= PATH_OFF || size > sizeof(struct lx_sockaddr_un))
		return -EINVAL;
	memcpy(&family, addr, sizeof(family));
	return family == LX_AF_UNIX ? 0 : -EINVAL;
}

/* A name from what the user gave, which was checked. A path loses what is behind its end. */
static struct unix_addr *addr_new(const void *addr, size_t size, int type)
{
	struct unix_addr *a = mem_zalloc(sizeof(*a));

	if (!a)
		return NULL;
	ref_init(&a->ref);
	a->type = type;
	memcpy(&a->un, addr, size);
	if (a->un.sun_path[0]) {
		/* As Linux: with the NUL, even if the user's array had no room for it. */
		size = PATH_OFF + strnlen(a->un.sun_path, sizeof(a->un.sun_path)) + 1;
	}
	a->size = (uint16_t)size;
	return a;
}

static bool is_abstract(const struct unix_addr *a)
{
	return a->un.sun_path[0] == '\0';
}

/* ---- the table of abstract names ---- */

static uint64_t addr_hash(const struct unix_addr *a)
{
	return hash_bytes(&a->un, a->size, (uint64_t)a->type);
}

static bool addr_equal(const void *entry, const void *key)
{
	const struct unix_addr *a = ((const struct unix_sock *)entry)->addr, *b = key;

	return a->type == b->type && a->size == b->size && memcmp(&a->un, &b->un, a->size) == 0;
}

static struct unix_sock *find_abstract_locked(const struct unix_addr *a) REQUIRES(g_unix)
{
	return htable_find(&g_names, addr_hash(a), addr_equal, a);
}

/* Gives @u the abstract name, unless another has it. Takes the reference on success. */
static int name_abstract_locked(struct unix_sock *u, struct unix_addr *a) REQUIRES(g_unix)
{
	int r;

	if (find_abstract_locked(a))
		return -EADDRINUSE;
	u->addr = a;
	r = htable_insert(&g_names, addr_hash(a), u);
	if (r) {
		u->addr = NULL;
		return r;
	}
	a->in_table = true;
	return 0;
}

void unix_unname_locked(struct unix_sock *u)
{
	/* A socket from accept has its listener's name but is not in the table by it. */
	if (u->addr && u->addr->in_table && find_abstract_locked(u->addr) == u) {
		u->addr->in_table = false;
		if (!htable_remove(&g_names, addr_hash(u->addr), u))
			panic("unix: a name that is not in the table");
	}
}

/* ---- binding ---- */

/* One binds at a time; a name is for life. */
static int begin_binding(struct unix_sock *u)
{
	int r = 0;

	mutex_lock(&g_unix);
	if (u->addr || u->binding)
		r = -EINVAL;
	else
		u->binding = true;
	mutex_unlock(&g_unix);
	return r;
}

static int bind_path(struct vfs_ctx *c, struct unix_sock *u, struct unix_addr *a)
{
	struct path p;
	int r = begin_binding(u);

	if (r)
		return r;
	r = vfs_mksock(c, a->un.sun_path, 0777, u, &p);
	mutex_lock(&g_unix);
	if (r == 0) {
		u->path = p;
		u->addr = a;
	}
	u->binding = false;
	mutex_unlock(&g_unix);
	return r == -EEXIST ? -EADDRINUSE : r;
}

static int bind_abstract(struct unix_sock *u, struct unix_addr *a)
{
	int r = begin_binding(u);

	if (r)
		return r;
	mutex_lock(&g_unix);
	r = name_abstract_locked(u, a);
	u->binding = false;
	mutex_unlock(&g_unix);
	return r;
}

int unix_autobind(struct unix_sock *u)
{
	struct unix_addr *a;
	int r;

	a = mem_zalloc(sizeof(*a));
	if (!a)
		return -ENOMEM;
	ref_init(&a->ref);
	a->type = u->s->type;
	a->un.sun_family = LX_AF_UNIX;
	a->size = PATH_OFF + 6;
	mutex_lock(&g_unix);
	if (u->addr || u->binding) {
		r = u->addr ? 0 : -EINVAL;
		goto out;
	}
	if (g_next_auto == 0)
		guest_random_bytes(GUEST_RANDOM_BOOT, &g_next_auto, sizeof(g_next_auto));
	r = -ENOSPC;
	for (uint32_t i = 0; i < AUTOBIND_NAMES; i++) {
		snprintf(a->un.sun_path + 1, 6, "%05x", g_next_auto++ % AUTOBIND_NAMES);
		r = name_abstract_locked(u, a);
		if (r != -EADDRINUSE)
			break;
		r = -ENOSPC;
	}
	if (r == 0)
		a = NULL;
out:
	mutex_unlock(&g_unix);
	unix_addr_put(a);
	return r;
}

int unix_bind(struct vfs_ctx *c, struct socket *s, const void *addr, size_t size)
{
	struct unix_sock *u = unix_of(s);
	struct unix_addr *a;
	uint16_t family;
	int r;

	if (size == PATH_OFF) {
		memcpy(&family, addr, sizeof(family));
		if (family == LX_AF_UNIX)
			return unix_autobind(u);
	}
	r = unix_check_addr(addr, size);
	if (r)
		return r;
	a = addr_new(addr, size, s->type);
	if (!a)
		return -ENOMEM;
	r = is_abstract(a) ? bind_abstract(u, a) : bind_path(c, u, a);
	if (r)
		unix_addr_put(a);
	return r;
}

/* ---- finding ---- */

static int find_path(struct vfs_ctx *c, const struct unix_addr *a, struct unix_sock **out)
{
	struct unix_sock *u = NULL;
	struct inode *i;
	struct path p;
	int r = path_lookup(c, NULL, a->un.sun_path, WALK_FOLLOW, &p);

	if (r)
		return r;
	i = p.dentry->inode;
	r = inode_permission(c, i, MAY_WRITE);
	if (r == 0 && !LX_S_ISSOCK(i->mode))
		r = -ECONNREFUSED;
	if (r == 0) {
		mutex_lock(&i->meta);
		u = i->sock;
		if (u && !ref_get_unless_zero(&u->s->ref))
			u = NULL;
		mutex_unlock(&i->meta);
		if (!u)
			r = -ECONNREFUSED;
	}
	path_put(&p);
	if (r)
		return r;
	if (u->s->type != a->type) {
		socket_put(u->s);
		return -EPROTOTYPE;
	}
	*out = u;
	return 0;
}

int unix_find(struct vfs_ctx *c, const void *addr, size_t size, int type, struct unix_sock **out)
{
	struct unix_addr *a;
	int r = unix_check_addr(addr, size);

	if (r)
		return r;
	a = addr_new(addr, size, type);
	if (!a)
		return -ENOMEM;
	if (is_abstract(a)) {
		mutex_lock(&g_unix);
		*out = find_abstract_locked(a);
		/* In the table it is not released yet, so its file still has a reference. */
		if (*out)
			socket_get((*out)->s);
		else
			r = -ECONNREFUSED;
		mutex_unlock(&g_unix);
	} else {
		r = find_path(c, a, out);
	}
	unix_addr_put(a);
	return r;
}
