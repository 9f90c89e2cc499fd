/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name space that the guest of `moat run` sees.
 *
 * Theory of operation: the root is an overlay: the host's tree, read-only, below, and memory above,
 * so that every write works and vanishes. Without --root only the system directories of the host
 * are there; the rest of a usual tree (/tmp, /home, /var, /dev, /proc, /sys) is made fresh. Each
 * --ro and --rw directory is a mount of its own on the directory descriptor that was opened before
 * the sentry started; a single file is bound to a file of that name.
 */
#include "runtime/changes.h"
#include "runtime/run.h"
#include "sentry/advice.h"

#include "vfs/host_calls.h"
#include "vfs/chrdev.h"
#include "vfs/hostfs.h"
#include "vfs/mount.h"
#include "vfs/overlay.h"
#include "vfs/tmpfs.h"
#include "vfs/vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "runtime/wall.h"

/* Does @fd lead to a file system through which one reaches processes or the kernel of the host? The
 * files of a process there are those of whoever opens them: of the sentry. */
static bool is_host_interface(int fd)
{
	struct statfs s;

	/* What cannot be asked is not granted. */
	if (HOST(fstatfs_monitor, fstatfs(fd, &s)) < 0)
		return true;
	return hostfs_is_pseudo_magic((uint64_t)s.f_type);
}

/* Opens @path, which is canonical: whoever makes one of its directories a symlink just now gets an
 * ELOOP, and not what he likes granted. */
static int open_canonical(const char *path, int flags)
{
	struct host_open_how how = {.flags = (unsigned)(flags | O_PATH | O_CLOEXEC),
				    .resolve = HOST_NO_SYMLINKS | HOST_NO_MAGICLINKS};
	long fd = HOST(openat2_monitor, syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how)));

	/* EPERM: a filter around us that does not know the call. */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = HOST(openat_monitor, openat(AT_FDCWD, path, flags | O_PATH | O_CLOEXEC));
	return (int)fd;
}

/* A file is shown by its name in its directory, so that it is the file of that name then, too, when
 * somebody puts a new one in its place. */
static int open_parent(struct grant_path *g, struct err *e)
{
	char *copy;
	struct stat st;

	g->parent_fd = -1;
	if (HOST(newfstatat_monitor, fstat(g->fd, &st)) == 0 && S_ISDIR(st.st_mode))
		return 0;
	copy = strdup(g->host);
	if (!copy)
		return err_set(e, ENOMEM, "out of memory");
	g->parent_fd = open_canonical(dirname(copy), O_DIRECTORY);
	free(copy);
	return g->parent_fd >= 0 ? 0
				 : err_set(e, errno,
					   "cannot open the directory of %s: %s; grant the "
					   "directory",
					   g->host, err_text(errno));
}

static int open_grant(struct grant_path *g, struct err *e)
{
	g->fd = open_canonical(g->host, 0);
	g->parent_fd = -1;
	if (g->fd < 0 && g->optional && errno == ENOENT)
		return 0;
	if (g->fd < 0 && g->implied)
		return err_set(e, errno,
			       "cannot show the caller's directory %s: %s; start moat in one that "
			       "you may read, or name one of the guest with --cwd",
			       g->host, err_text(errno));
	if (g->fd < 0)
		return err_set(e, errno, "cannot open %s: %s; grant a directory that you may read",
			       g->host, err_text(errno));
	if (is_host_interface(g->fd))
		return err_set(e, EPERM,
			       "%s shows the host's processes or kernel and is never granted; the "
			       "guest has "
			       "a /proc, a /sys and a /dev of its own",
			       g->host);
	if (strcmp(g->target, "/") == 0)
		return err_set(e, EINVAL, "%s cannot be shown at /; --root %s makes it the root",
			       g->host, g->host);
	return open_parent(g, e);
}

int rootfs_open_grants(struct draft *d, struct err *e)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < d->g.path_count; i++)
		if (d->paths[i].access != GRANT_HIDDEN)
			r = open_grant(&d->paths[i], e);
	return r;
}

#define HOST_NOBODY 65534 /* kernel.overflowuid */

/* Ids: root sees the host's numbers as they are; for an ordinary user, his own files are the guest
 * user's, and those of the host's root are root's. */
static void set_idmaps(struct hostfs_opts *o)
{
	if (HOST(getuid_setup, getuid()) == 0)
		return;
	g_advice_private = false;
	o->uid_map[0] = (struct hostfs_idmap){
		.host = HOST(getuid_setup, getuid()), .guest = g_grant->uid, .count = 1};
	o->gid_map[0] = (struct hostfs_idmap){
		.host = HOST(getgid_setup, getgid()), .guest = g_grant->gid, .count = 1};
	/* In a user name space that maps his ids alone, all others show as 65534, root's among
	 * them; and nothing can be given to them. */
	o->uid_map[1] = (struct hostfs_idmap){
		.host = g_wall.own_ids ? HOST_NOBODY : 0, .count = 1, .shown_only = g_wall.own_ids};
	o->gid_map[1] = o->uid_map[1];
}

int rootfs_build(struct mount_ns **out, struct err *e)
{
	const char *dir = g_grant->root ? g_grant->root : "the system directories";
	struct hostfs_opts o = {
		.immutable = true,
		.cross_mounts = true,
		.public_only = !g_grant->root,
		.only = g_grant->root ? NULL : g_system_dirs,
		/* In the sentry's own root, links and the directory itself are the sentry's. */
		.root_is_made = g_wall.root && !g_grant->root,
		.source = "rootfs",
	};
	/* No limits of its own: tmpfs's defaults, of the memory shown. */
	struct tmpfs_opts upper = {.mode = 0755};
	struct super *lower, *root;
	int fd, r;

	hostfs_hide(g_grant->hidden, g_grant->hidden_count, g_grant->hidden_files,
		    g_grant->hidden_file_count, g_grant->pins, g_grant->pin_count);
	fd = wall_open_root();
	if (fd < 0)
		return err_set(e, -fd,
			       "cannot open the root %s: %s; name a directory that you may read",
			       dir, err_text(-fd));
	set_idmaps(&o);
	r = hostfs_new(fd, &o, &lower);
	HOST(close_fd, close(fd));
	if (r)
		return err_set(e, -r, "cannot use %s as a root: %s", dir, err_text(-r));
	r = overlay_new(lower, &upper, &root);
	super_put(lower);
	if (r)
		return err_set(e, -r, "cannot lay memory over %s: %s", dir, err_text(-r));
	*out = mount_ns_new(root, 0);
	super_put(root);
	return *out ? 0 : err_set(e, ENOMEM, "out of memory for the root mount");
}

static int make_dir(struct vfs_ctx *c, const char *path, uint32_t mode)
{
	int r = vfs_mkdir(c, NULL, path, mode);

	if (r == 0)
		return changes_own(path);
	return r == -EEXIST ? 0 : r;
}

/* All directories above and with @path. */
static int make_dirs(struct vfs_ctx *c, const char *path)
{
	char buf[LX_PATH_MAX];

	if (strlen(path) >= sizeof(buf))
		return -ENAMETOOLONG;
	strcpy(buf, path);
	for (char *p = buf + 1; *p; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		int r = make_dir(c, buf, 0755);

		*p = '/';
		if (r)
			return r;
	}
	return make_dir(c, buf, 0755);
}

static int mount_at(struct vfs_ctx *c, const char *target, struct super *s, struct dentry *root,
		    unsigned flags, const char *source)
{
	struct path p;
	int r = path_lookup(c, NULL, target, WALK_FOLLOW, &p);

	if (r)
		return r;
	r = mount_attach(c->ns, &p, s, root, flags, source, NULL);
	path_put(&p);
	return r;
}

static int mount_new_tmpfs(struct vfs_ctx *c, const char *target, uint32_t mode)
{
	struct tmpfs_opts o = {.mode = mode};
	struct super *s;
	int r = make_dir(c, target, 0755);

	if (r == 0)
		r = tmpfs_new(&o, &s);
	if (r)
		return r;
	r = mount_at(c, target, s, NULL, MOUNT_NOSUID | MOUNT_NODEV, "tmpfs");
	super_put(s);
	return r;
}

/* A file system of ours by its name, if this build has it. */
static int mount_type(struct vfs_ctx *c, const char *type, const char *target, unsigned flags,
		      const char *data)
{
	const struct fs_type *t = fs_type_find(type);
	struct super *s;
	int r;

	if (!t)
		return 0;
	r = make_dir(c, target, 0555);
	if (r == 0)
		r = t->mount(t, c, type, data, 0, &s);
	if (r)
		return r;
	r = mount_at(c, target, s, NULL, flags, type);
	super_put(s);
	return r;
}

static const struct {
	const char *name;
	uint32_t major, minor;
} g_nodes[] = {
	{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
	{"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static bool has_device(const char *name)
{
	for (uint32_t i = 0; i < g_grant->device_count; i++)
		if (strcmp(g_grant->devices[i], name) == 0)
			return true;
	return false;
}

/* Root of the guest can make the node of any device; those that are not granted serve nobody. */
static void forget_devices(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(g_nodes); i++)
		if (!has_device(g_nodes[i].name))
			chrdev_forget(g_nodes[i].major, g_nodes[i].minor);
	if (!has_device("ptmx"))
		chrdev_forget(5, 2);
}

static int populate_dev(struct vfs_ctx *c)
{
	static const struct {
		const char *name, *target;
	} links[] = {
		{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"ptmx", "pts/ptmx"},
	};
	struct tmpfs_opts o = {.mode = 0755};
	struct super *s;
	char path[32];
	int r = make_dir(c, "/dev", 0755);

	if (r == 0)
		r = tmpfs_new(&o, &s);
	if (r)
		return r;
	s->flags |= SUPER_DEVICES;
	r = mount_at(c, "/dev", s, NULL, MOUNT_NOSUID, "dev");
	super_put(s);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(g_nodes); i++) {
		snprintf(path, sizeof(path), "/dev/%s", g_nodes[i].name);
		if (has_device(g_nodes[i].name))
			r = vfs_mknod(c, NULL, path, LX_S_IFCHR | 0666,
				      lx_makedev(g_nodes[i].major, g_nodes[i].minor));
	}
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(links); i++) {
		snprintf(path, sizeof(path), "/dev/%s", links[i].name);
		if (has_device(links[i].name))
			r = vfs_symlink(c, links[i].target, NULL, path);
	}
	if (r == 0 && has_device("shm"))
		r = mount_new_tmpfs(c, "/dev/shm", 01777);
	if (r == 0 && has_device("ptmx"))
		r = mount_type(c, "devpts", "/dev/pts", MOUNT_NOSUID | MOUNT_NOEXEC,
			       "mode=620,gid=5,ptmxmode=666");
	if (r == 0 && has_device("mqueue"))
		r = mount_type(c, "mqueue", "/dev/mqueue",
			       MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, NULL);
	forget_devices();
	return r;
}

/* The inode of one name in the directory that holds a granted file. */
static int file_super(const struct grant_path *g, struct super **s, struct dentry **d)
{
	const char *slash = strrchr(g->host, '/');
	const char *only[2] = {slash ? slash + 1 : g->host, NULL};
	/* Behind the wall it is mounted there alone. */
	struct hostfs_opts o = {.writable = g->access == GRANT_WRITE,
				.cross_mounts = g_wall.root,
				.only = only,
				.source = g->host};
	const int fd = wall_open_above((uint32_t)(g - g_grant->paths));
	int r = MIN(fd, 0);

	set_idmaps(&o);
	if (r == 0)
		r = hostfs_new(fd, &o, s);
	if (fd >= 0)
		HOST(close_fd, close(fd));
	if (r == 0) {
		r = dentry_lookup((*s)->root, only[0], strlen(only[0]), d);
		if (r == 0 && !(*d)->inode) {
			dentry_put(*d);
			r = -ENOENT;
		}
		if (r)
			super_put(*s);
	}
	return r;
}

static int mount_file(struct vfs_ctx *c, const struct grant_path *g, unsigned flags)
{
	struct open_how how = {.flags = LX_O_CREAT | LX_O_WRONLY, .mode = 0644};
	char dir[LX_PATH_MAX];
	struct path there;
	struct dentry *d;
	struct super *s;
	struct file *f;
	int r;

	if (strlen(g->target) >= sizeof(dir))
		return -ENAMETOOLONG;
	strcpy(dir, g->target);
	/* What is there already, in a read-only tree perhaps, is not touched. */
	r = path_lookup(c, NULL, g->target, WALK_FOLLOW, &there);
	if (r == 0) {
		path_put(&there);
	} else {
		r = make_dirs(c, dirname(dir));
		if (r == 0)
			r = vfs_open(c, NULL, g->target, &how, &f);
		if (r)
			return r;
		file_put(f);
	}
	r = changes_own(g->target);
	if (r)
		return r;
	r = file_super(g, &s, &d);
	if (r)
		return r;
	r = mount_at(c, g->target, s, d, flags, g->target);
	dentry_put(d);
	super_put(s);
	return r;
}

static int mount_grant(struct vfs_ctx *c, const struct grant_path *g)
{
	struct hostfs_opts o = {.writable = g->access == GRANT_WRITE,
				.cross_mounts = true,
				.watch = g_wall.root, /* there, mounts are our own */
				.source = g->target};
	unsigned flags = MOUNT_NOSUID | MOUNT_NODEV |
			 (g->access == GRANT_WRITE ? 0 : MOUNT_RDONLY) |
			 (g->exec ? 0 : MOUNT_NOEXEC);
	struct super *s;
	struct stat st;
	int r;

	if (HOST(newfstatat_file, fstat(g->fd, &st)) != 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return mount_file(c, g, flags);
	set_idmaps(&o);
	r = make_dirs(c, g->target);
	if (r == 0)
		r = hostfs_new(g->fd, &o, &s);
	if (r)
		return r;
	r = mount_at(c, g->target, s, NULL, flags, g->target);
	super_put(s);
	return r;
}

static int own_dir(struct vfs_ctx *c, const char *path, uint32_t uid, uint32_t gid)
{
	struct iattr a = {.valid = ATTR_UID | ATTR_GID, .uid = uid, .gid = gid};
	struct path p;
	int r = path_lookup(c, NULL, path, WALK_FOLLOW, &p);

	if (r)
		return r;
	r = vfs_setattr(c, &p, &a);
	path_put(&p);
	return r;
}

/* Is anybody going to ask what the run changed? */
static bool watch_changes(const struct run_config *cfg)
{
	return cfg->diff || cfg->load || cfg->save;
}

static int watch(struct vfs_ctx *c)
{
	struct path tmp;
	int r = path_lookup(c, NULL, "/tmp", WALK_FOLLOW | WALK_DIRECTORY, &tmp);

	if (r)
		return r;
	changes_watch(c->ns->root->super, tmp.mnt->super);
	path_put(&tmp);
	return changes_begin();
}

int rootfs_populate(const struct run_config *cfg, struct vfs_ctx *c, struct err *e)
{
	static const char *const fresh[] = {"/home",      "/root",    "/var", "/var/lib",
					    "/var/cache", "/var/log", "/run", "/run/lock",
					    "/mnt",       "/opt",     "/srv"};
	struct err why = {{0}};
	int r = 0;

	for (size_t i = 0; r == 0 && !g_grant->root && i < ARRAY_SIZE(fresh); i++)
		r = make_dir(c, fresh[i], strcmp(fresh[i], "/root") == 0 ? 0700 : 0755);
	if (r == 0)
		r = mount_new_tmpfs(c, "/tmp", 01777);
	if (r == 0 && !g_grant->root)
		r = make_dir(c, "/var/tmp", 01777);
	if (r == 0 && g_grant->uid != 0 && !g_grant->root) {
		r = make_dir(c, "/home/user", 0755);
		if (r == 0)
			r = own_dir(c, "/home/user", g_grant->uid, g_grant->gid);
	}
	if (r == 0 && watch_changes(cfg)) {
		r = watch(c);
		if (r == 0 && cfg->load && changes_load(c, cfg->load_fd, &why))
			return err_set(e, EBADMSG,
				       "--load %s: %s; name an archive that --save has completed",
				       cfg->load, why.text);
	}
	if (r == 0)
		r = populate_dev(c);
	if (r == 0 && cfg->use_tty) {
		r = vfs_mknod(c, NULL, "/dev/console", LX_S_IFCHR | 0620, lx_makedev(5, 1));
		if (r == 0)
			r = own_dir(c, "/dev/console", g_grant->uid, g_grant->gid);
	}
	if (r == 0)
		r = mount_type(c, "proc", "/proc", MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC, NULL);
	if (r == 0)
		r = mount_type(c, "sysfs", "/sys",
			       MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC | MOUNT_RDONLY, NULL);
	if (r == -ENOSPC)
		return err_set(e, -r,
			       "cannot build the guest's file system: its limits are too low for "
			       "an empty one; allow more memory, file_bytes or file_inodes");
	if (r)
		return err_set(e, -r, "cannot build the guest's file system: %s", err_text(-r));
	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		if (g_grant->paths[i].fd < 0)
			continue; /* hidden, or optional and missing */
		r = mount_grant(c, &g_grant->paths[i]);
		if (r)
			return err_set(e, -r, "cannot show %s at %s: %s", g_grant->paths[i].host,
				       g_grant->paths[i].target, err_text(-r));
	}
	r = watch_changes(cfg) ? changes_begin() : 0;
	return r ? err_set(e, -r, "cannot list what set-up made: %s", err_text(-r)) : 0;
}
