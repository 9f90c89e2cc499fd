/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has the host a path that somebody hostile may have chosen? See runtime/summary.h.
 *
 * Theory of operation: to look a name up can have effects: an automounter mounts, and asks name
 * servers on the way; a file server is told the name; a mount that is dead hangs who asks. So only
 * paths are looked up that lie on a file system of the host's own, by the table of mounts, in which
 * the last entry that is above a path decides, and whose components are no symlinks, each asked for
 * by itself. For others the answer is no, and a hint is lost.
 *
 * The table is opened before the monitor's lock-down, and read when it is wanted.
 *
 * References: proc_pid_mountinfo(5); autofs(5).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hostcall.h"
#include "runtime/summary.h"

/* More mounts than these are not looked through. */
#define TABLE_SIZE (1u << 20)

static int g_mounts = -1;
static char *g_table; /* lines; NULL: not read, or not to be read */
static bool g_table_read;

void summary_host_open(void)
{
	g_mounts = HOST(openat_monitor, open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
}

int summary_host_fd(void)
{
	return g_mounts;
}

static void table_read(void)
{
	size_t used = 0;
	ssize_t n = 0;
	char *table;

	if (g_table_read || g_mounts < 0)
		return;
	g_table_read = true;
	table = malloc(TABLE_SIZE);
	while (table && used < TABLE_SIZE - 1 &&
	       (n = HOST(read_mounts, read(g_mounts, table + used, TABLE_SIZE - 1 - used))) > 0)
		used += (size_t)n;
	/* All of it, or nothing: what comes last decides. */
	if (!table || n != 0) {
		free(table);
		return;
	}
	table[used] = '\0';
	g_table = table;
}

/* The @n-th word (from 1) of a line. */
static const char *word(const char *line, unsigned n)
{
	while (--n > 0 && *line && *line != '\n') {
		line += strcspn(line, " \n");
		line += *line == ' ';
	}
	return line;
}

/* Is @path the mount point @at, or below it? Its white space and backslashes are \ooo. */
static bool is_at(const char *path, const char *at)
{
	const char *start = path;

	while (*at && *at != ' ' && *at != '\n') {
		char c = *at++;

		if (c == '\\' && at[0] && at[1] && at[2]) {
			c = (char)((at[0] - '0') << 6 | (at[1] - '0') << 3 | (at[2] - '0'));
			at += 3;
		}
		if (!c || *path != c)
			return false;
		path++;
	}
	return path == start + 1 || *path == '/' || *path == '\0';
}

/* Of the host's own disks and memory, without a server or a program behind it. */
static bool is_local_type(const char *type)
{
	static const char *const local[] = {"ext2",    "ext3",     "ext4",  "xfs",     "btrfs",
					    "f2fs",    "tmpfs",    "ramfs", "zfs",     "bcachefs",
					    "overlay", "squashfs", "erofs", "iso9660", "vfat",
					    "exfat",   "rootfs"};
	const size_t n = strcspn(type, " \n");

	for (size_t i = 0; i < ARRAY_SIZE(local); i++) {
		if (strlen(local[i]) == n && strncmp(local[i], type, n) == 0)
			return true;
	}
	return false;
}

static bool is_local(const char *path)
{
	bool local = false;

	for (const char *line = g_table; *line;
	     line += strcspn(line, "\n"), line += *line == '\n') {
		const char *end = line + strcspn(line, "\n");
		const char *dash = strstr(line, " - ");

		if (dash && dash < end && is_at(path, word(line, 5)))
			local = is_local_type(dash + 3);
	}
	return local;
}

static bool look(const char *path, struct stat *st)
{
	return HOST(newfstatat_summary,
		    fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT)) == 0;
}

/* @path without "//", "." and "..", which would hide from the table where it leads. (".." of what
 * is no symlink is what stands before.) False: too long, or not absolute. */
static bool normalise(const char *path, char *out, size_t room)
{
	size_t used = 0;

	if (path[0] != '/' || strlen(path) >= room)
		return false;
	while (*path) {
		size_t n;

		while (*path == '/')
			path++;
		n = strcspn(path, "/");
		if (n == 2 && path[0] == '.' && path[1] == '.') {
			while (used > 0 && out[--used] != '/')
				;
		} else if (n > 0 && !(n == 1 && path[0] == '.')) {
			out[used++] = '/';
			memcpy(out + used, path, n);
			used += n;
		}
		path += n;
	}
	if (used == 0)
		out[used++] = '/';
	out[used] = '\0';
	return true;
}

bool summary_host_has(const char *path)
{
	char plain[4096];
	struct stat st;

	table_read();
	if (!g_table || !normalise(path, plain, sizeof(plain)) || !is_local(plain))
		return false;
	for (size_t i = 1; plain[i]; i++) {
		bool is_dir;

		if (plain[i] != '/')
			continue;
		plain[i] = '\0';
		is_dir = look(plain, &st) && S_ISDIR(st.st_mode);
		plain[i] = '/';
		if (!is_dir)
			return false;
	}
	return look(plain, &st) &&
	       (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode));
}
