/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An empty root for the sentry, in which only what is granted is mounted.
 *
 * Theory of operation: the new root is a small tmpfs, stacked on the old one for a moment. Each
 * grant is a private copy of its mounts (open_tree), whose flags are set before anybody can reach
 * it: nosuid and nodev, read-only unless granted for writing, noexec unless granted for execution,
 * all of it for the mounts below, too. Then the roots change places, and the old one is detached.
 *
 *     /usr, /etc …     without --root: the host's system directories; its symlinks (/bin …) anew
 *     /root            --root
 *     /grants/N        a granted directory; N is its number in the grant
 *     /grants/N/NAME   a granted file, bound alone
 *
 * A descriptor that was opened before leads to the old mounts. So each granted path is opened again
 * in the new root, compared with the monitor's descriptor, and takes that one's number; if the host
 * shows something else there by now, the sandbox ends.
 *
 * What the sentry needs of /proc (memory and times of stubs) it gets from an instance of its own
 * pid name space that shows processes only and is mounted nowhere.
 *
 * References: mount_setattr(2), open_tree(2), pivot_root(2) ("pivot_root(".", ".")"),
 * mount_namespaces(7) (locked mounts, which is why copies are always recursive).
 */
#include "runtime/wall.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/lx.h"
#include "runtime/run.h"
#include "sentry/grant.h"

/* <sys/mount.h> does not go with <linux/mount.h>. */
#define DETACH 2

#define FILE_MODE 0755

/* Counters are written to files below the build's folder, at the end. */
#ifdef MOAT_COVERAGE
#define OWN_ROOT false
#else
#define OWN_ROOT true
#endif

static int mount_fs(const char *type, unsigned attr, const char *const options[][2])
{
	const int fs = (int)HOST(fsopen_wall, syscall(SYS_fsopen, type, FSOPEN_CLOEXEC));
	int r = 0;

	if (fs < 0)
		return -errno;
	for (unsigned i = 0; r == 0 && options[i][0]; i++) {
		if (HOST(fsconfig_wall, syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING,
						options[i][0], options[i][1], 0)) < 0)
			r = -errno;
	}
	if (r == 0 &&
	    HOST(fsconfig_wall, syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0)) < 0)
		r = -errno;
	if (r == 0) {
		r = (int)HOST(fsmount_wall, syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attr));
		if (r < 0)
			r = -errno;
	}
	HOST(close_fd, close(fs));
	return r;
}

static int make_dir(int root, const char *path, mode_t mode)
{
	if (HOST(mkdirat_wall, mkdirat(root, path, mode)) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

static int make_file(int root, const char *path, mode_t mode)
{
	const int fd = HOST(openat_wall, openat(root, path, O_CREAT | O_WRONLY | O_CLOEXEC, mode));

	if (fd < 0)
		return -errno;
	HOST(close_fd, close(fd));
	return 0;
}

/* @from below @at as @to below the new root. */
static int bind_at(int root, int at, const char *from, const char *to, uint64_t attr)
{
	struct mount_attr a = {.attr_set = attr, .propagation = 1 << 18 /* MS_PRIVATE */};
	const int tree = (int)HOST(open_tree_wall,
				   syscall(SYS_open_tree, at, from,
					   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
	int r = 0;

	if (tree < 0)
		return -errno;
	if (HOST(mount_setattr_wall, syscall(SYS_mount_setattr, tree, "",
					     AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a))) < 0 ||
	    HOST(move_mount_wall,
		 syscall(SYS_move_mount, tree, "", root, to, MOVE_MOUNT_F_EMPTY_PATH)) < 0)
		r = -errno;
	HOST(close_fd, close(tree));
	return r;
}

/* The host's @from as @to below the new root. */
static int bind_tree(int root, const char *from, const char *to, uint64_t attr)
{
	return bind_at(root, AT_FDCWD, from, to, attr);
}

/* What the system's directories hold that is root's alone, where hosts usually have it. The guest
 * is shown no file there that not everybody may read, whatever its name (hostfs's public_only);
 * this is for a sentry that is root and was taken over. */
static const char *const g_system_secrets[] = {
	"etc/shadow",
	"etc/shadow-",
	"etc/gshadow",
	"etc/gshadow-",
	"etc/sudoers",
	"etc/sudoers.d",
	"etc/ssl/private",
	"etc/security/opasswd",
	"etc/krb5.keytab",
	"etc/wireguard",
	"etc/ppp/chap-secrets",
	"etc/ppp/pap-secrets",
	"etc/polkit-1",
	"etc/docker",
	"etc/NetworkManager/system-connections",
	"etc/ssh/ssh_host_rsa_key",
	"etc/ssh/ssh_host_ecdsa_key",
	"etc/ssh/ssh_host_ed25519_key",
};

/* Covers those by what is as little readable, so that the guest sees no difference. */
static int cover_secrets(int root)
{
	const uint64_t attr =
		MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

	for (unsigned i = 0; i < ARRAY_SIZE(g_system_secrets); i++) {
		const char *to = g_system_secrets[i], *cover;
		struct stat st = {0};
		bool dir;
		int r;

		if (HOST(newfstatat_wall, fstatat(root, to, &st, AT_SYMLINK_NOFOLLOW)) < 0 ||
		    (st.st_mode & S_IROTH))
			continue;
		dir = S_ISDIR(st.st_mode);
		if (!dir && !S_ISREG(st.st_mode))
			continue;
		cover = dir ? "secrets" : "secret";
		r = dir ? make_dir(root, cover, 0700) : make_file(root, cover, 0600);
		if (r == 0)
			r = bind_at(root, root, cover, to, attr);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The host's system directories, under their names. Where a host has links for them, links. */
static int add_system(int root)
{
	for (unsigned i = 0; g_system_dirs[i]; i++) {
		char path[16], target[LX_PATH_MAX];
		struct stat st = {0};
		ssize_t n;
		int r;

		snprintf(path, sizeof(path), "/%s", g_system_dirs[i]);
		n = HOST(readlinkat_wall, readlinkat(AT_FDCWD, path, target, sizeof(target) - 1));
		if (n >= 0) {
			target[n] = '\0';
			if (HOST(symlinkat_wall, symlinkat(target, root, path + 1)) < 0)
				return -errno;
			continue;
		}
		if (HOST(newfstatat_wall, fstatat(AT_FDCWD, path, &st, 0)) < 0)
			continue; /* not every host has all of them */
		r = make_dir(root, path + 1, FILE_MODE);
		if (r == 0)
			r = bind_tree(root, path, path + 1,
				      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
		if (r < 0)
			return r;
	}
	return HOST(getuid_setup, getuid()) == 0 ? cover_secrets(root) : 0;
}

/* Where granted path @index is found below the new root, and its holder if it is a file. */
static void place_of(uint32_t index, char *dir, size_t dir_size)
{
	snprintf(dir, dir_size, "grants/%u", index);
}

static int name_of(const struct grant_path *p, const char **name)
{
	const char *slash = strrchr(p->host, '/');

	*name = slash ? slash + 1 : p->host;
	return **name ? 0 : -EINVAL;
}

/* What is hidden below the host's @top, which stands at @dir of the new root, is covered: a
 * taken-over sentry finds what a guest does. A link is not, but what it leads to is. */
static int cover_hidden(int root, const char *top, const char *dir)
{
	const uint64_t attr =
		MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	const size_t n = strlen(top);

	for (uint32_t i = 0; i < g_grant->mask_count; i++) {
		const char *mask = g_grant->masks[i];
		char to[LX_PATH_MAX + 32];
		struct stat st = {0};
		int r;

		if (strncmp(mask, top, n) != 0 || mask[n] != '/')
			continue;
		snprintf(to, sizeof(to), "%s%s", dir, mask + n);
		/* It may have gone meanwhile; then its name is all that is hidden. */
		if (HOST(newfstatat_wall, fstatat(root, to, &st, AT_SYMLINK_NOFOLLOW)) < 0 ||
		    S_ISLNK(st.st_mode))
			continue;
		r = S_ISDIR(st.st_mode) ? make_dir(root, "covered", FILE_MODE)
					: make_file(root, "cover", FILE_MODE);
		if (r == 0)
			r = bind_at(root, root, S_ISDIR(st.st_mode) ? "covered" : "cover", to,
				    attr);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_path(int root, uint32_t index)
{
	const struct grant_path *p = &g_grant->paths[index];
	uint64_t attr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
	char dir[32], path[LX_PATH_MAX];
	const char *name;
	struct stat st = {0};
	int r;

	if (!p->host || p->fd < 0)
		return 0;
	if (p->access != GRANT_WRITE)
		attr |= MOUNT_ATTR_RDONLY;
	if (!p->exec)
		attr |= MOUNT_ATTR_NOEXEC;
	place_of(index, dir, sizeof(dir));
	r = make_dir(root, dir, FILE_MODE);
	if (r == 0 && HOST(newfstatat_wall, fstat(p->fd, &st)) < 0)
		r = -errno;
	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		r = bind_tree(root, p->host, dir, attr);
	if (r < 0 || S_ISDIR(st.st_mode))
		return r < 0 ? r : cover_hidden(root, p->host, dir);
	r = name_of(p, &name);
	if (r == 0 && snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		r = -ENAMETOOLONG;
	if (r == 0)
		r = make_file(root, path, FILE_MODE);
	return r == 0 ? bind_tree(root, p->host, path, attr) : r;
}

static int add_all(int root)
{
	int r;

	if (g_grant->root) {
		r = make_dir(root, "root", FILE_MODE);
		if (r == 0)
			r = bind_tree(root, g_grant->root, "root",
				      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
		if (r == 0)
			r = cover_hidden(root, g_grant->root, "root");
	} else {
		r = add_system(root);
	}
	if (r == 0 && g_grant->path_count)
		r = make_dir(root, "grants", FILE_MODE);
	for (uint32_t i = 0; r == 0 && i < g_grant->path_count; i++)
		r = add_path(root, i);
	return r;
}

static int build(struct wall *w)
{
	static const char *const options[][2] = {{"mode", "755"}, {"size", "256k"}, {NULL, NULL}};
	struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
	const int root = mount_fs("tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
				  options);
	int r;

	if (root < 0)
		return root;
	if (HOST(move_mount_wall,
		 syscall(SYS_move_mount, root, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH)) < 0) {
		r = -errno;
		HOST(close_fd, close(root));
		return r;
	}
	w->new_root = root;
	r = add_all(root);
	if (r == 0 && HOST(mount_setattr_wall, syscall(SYS_mount_setattr, root, "", AT_EMPTY_PATH,
						       &ro, sizeof(ro))) < 0)
		r = -errno;
	return r;
}

/* Takes the new root away again; what it was stacked on is the root as before. */
static void unbuild(struct wall *w)
{
	if (w->new_root < 0)
		return;
	if (HOST(fchdir_wall, fchdir(w->new_root)) == 0)
		(void)HOST(umount2_wall, syscall(SYS_umount2, ".", DETACH));
	(void)!HOST(chdir_wall, chdir("/"));
	HOST(close_fd, close(w->new_root));
	w->new_root = -1;
}

static void root_lacks(struct wall *w, int error)
{
	const char *mend = "a security module or a seccomp filter forbids to mount; allow it for "
			   "moat (AppArmor: kernel.apparmor_restrict_unprivileged_userns=0, or a "
			   "profile)";

	if (error == ENOSYS)
		mend = "Linux 5.12 is needed, and no filter that hides mount_setattr";
	else if (error == EINVAL)
		mend = "the caller's root is no mount point (a chroot or an initramfs); start moat "
		       "outside of it";
	wall_lacks(w, WALL_ROOT, "%s: %s", err_text(error), mend);
}

void wall_root_build(struct wall *w)
{
	static const char *const own[][2] = {{"subset", "pid"}, {NULL, NULL}};
	int r;

	if (!w->spaces) {
		wall_lacks(w, WALL_ROOT, "it needs name spaces");
		wall_lacks(w, WALL_PROC, "it needs name spaces");
		return;
	}
	/* Before the old root goes: who may not see all of the host's /proc gets none. */
	r = mount_fs("proc", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, own);
	w->proc = MAX(r, -1);
	if (r < 0)
		wall_lacks(w, WALL_PROC,
			   "%s: statistics will be missing; start moat where all of /proc is "
			   "visible, on Linux 5.8 or later",
			   err_text(-r));
	if (!OWN_ROOT) {
		wall_lacks(w, WALL_ROOT, "this build measures coverage");
		return;
	}
	r = build(w);
	if (r < 0) {
		unbuild(w);
		root_lacks(w, -r);
	}
}

/* The file at @path of the new root is the one that was opened before as @fd, whose place it takes.
 */
static int open_again(const char *path, int fd)
{
	struct stat old = {0}, new = {0};
	int again = HOST(openat_wall, open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW)), r = 0;

	if (again < 0)
		return -errno;
	if (HOST(newfstatat_wall, fstat(fd, &old)) < 0 ||
	    HOST(newfstatat_wall, fstat(again, &new)) < 0)
		r = -errno;
	else if (old.st_dev != new.st_dev || old.st_ino != new.st_ino ||
		 (old.st_mode & S_IFMT) != (new.st_mode &S_IFMT))
		r = -ESTALE;
	else if (HOST(dup3_wall, dup3(again, fd, O_CLOEXEC)) < 0)
		r = -errno;
	HOST(close_fd, close(again));
	return r;
}

static int open_all_again(struct wall *w, struct err *e)
{
	int r = w->root_fd >= 0 ? open_again("/root", w->root_fd) : 0;

	if (r < 0)
		return err_set(e, -r, "--root %s is not what it was a moment ago: %s",
			       g_grant->root, err_text(-r));
	for (uint32_t i = 0; i < g_grant->path_count; i++) {
		const struct grant_path *p = &g_grant->paths[i];
		char path[LX_PATH_MAX + 32] = "/";
		const char *name = "";
		struct stat st = {0};

		if (!p->host || p->fd < 0)
			continue;
		place_of(i, path + 1, sizeof(path) - 1);
		r = HOST(newfstatat_wall, fstat(p->fd, &st)) < 0 ? -errno : name_of(p, &name);
		if (r == 0 && !S_ISDIR(st.st_mode)) {
			const size_t n = strlen(path);

			snprintf(path + n, sizeof(path) - n, "/%s", name);
		}
		if (r == 0)
			r = open_again(path, p->fd);
		if (r < 0)
			return err_set(e, -r, "%s is not what it was a moment ago: %s", p->host,
				       err_text(-r));
	}
	return 0;
}

int wall_root_pivot(struct wall *w, struct err *e)
{
	if (w->new_root < 0)
		return 0;
	if (HOST(fchdir_wall, fchdir(w->new_root)) < 0 ||
	    HOST(pivot_root_wall, syscall(SYS_pivot_root, ".", ".")) < 0) {
		const int r = errno;

		unbuild(w);
		root_lacks(w, r);
		return 0;
	}
	/* The old root lies on the new one, where "." leads to it. From here on there is no way
	 * back. */
	if (HOST(umount2_wall, syscall(SYS_umount2, ".", DETACH)) < 0)
		return err_set(e, errno, "cannot let go of the host's root: %s", err_text(errno));
	if (HOST(chdir_wall, chdir("/")) < 0)
		return err_set(e, errno, "cannot enter the sentry's root: %s", err_text(errno));
	HOST(close_fd, close(w->new_root));
	w->new_root = -1;
	w->root = true;
	return open_all_again(w, e);
}

int wall_open_root(void)
{
	const char *dir = g_grant->root ? g_grant->root : "/";
	int fd;

	if (g_wall.root && g_grant->root)
		dir = "/root";
	fd = HOST(openat_wall, open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
	return fd < 0 ? -errno : fd;
}

int wall_open_above(uint32_t index)
{
	const struct grant_path *p = &g_grant->paths[index];
	char dir[LX_PATH_MAX];
	int fd;

	if (g_wall.root) {
		dir[0] = '/';
		place_of(index, dir + 1, sizeof(dir) - 1);
	} else {
		if (strlen(p->host) >= sizeof(dir))
			return -ENAMETOOLONG;
		strcpy(dir, p->host);
		(void)dirname(dir);
	}
	fd = HOST(openat_wall, open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
	return fd < 0 ? -errno : fd;
}
