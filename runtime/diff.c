/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `moat diff ARCHIVE`: what a saved archive changes, one line each.
 *
 * Theory of operation: an archive does not tell what was there before; the tree below (the host's
 * root, or --root) does.
 */
#include "runtime/changes.h"
#include "runtime/run.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hostcall.h"

struct diff_input {
	int fd;
	char buf[65536];
};

static la_ssize_t get_bytes(struct archive *a, void *arg, const void **out)
{
	struct diff_input *in = arg;
	const ssize_t n = HOST(read_monitor, read(in->fd, in->buf, sizeof(in->buf)));

	if (n < 0)
		archive_set_error(a, errno, "%s", err_text(errno));
	*out = in->buf;
	return n;
}

static bool is_below(int root, const char *path)
{
	struct stat st;

	return HOST(newfstatat_monitor, fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW)) == 0;
}

static void print_entry(int root, const char *path)
{
	const char *name = strrchr(path, '/');

	while (*path == '/' || (path[0] == '.' && path[1] == '/'))
		path += *path == '/' ? 1 : 2;
	name = name ? name + 1 : path;
	if (strcmp(name, ".wh..wh..opq") == 0 || !*path)
		return;
	if (strncmp(name, ".wh.", 4) == 0) {
		char gone[LX_PATH_MAX];

		snprintf(gone, sizeof(gone), "/%.*s%s", (int)(name - path), path, name + 4);
		fputs("D ", stdout);
		changes_print_path(stdout, gone);
	} else {
		char plain[LX_PATH_MAX];
		size_t len = strlen(path);

		while (len > 0 && path[len - 1] == '/')
			len--;
		snprintf(plain, sizeof(plain), "%.*s", (int)len, path);
		path = plain;
		fputs(strncmp(path, "tmp/", 4) != 0 && is_below(root, path) ? "C /" : "A /",
		      stdout);
		changes_print_path(stdout, path);
	}
	fputs("\n", stdout);
}

int diff_main(int argc, char **argv)
{
	static struct diff_input in;
	const char *dir = "/", *file;
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	int root, r;

	if (argc == 4 && strcmp(argv[1], "--root") == 0)
		dir = argv[2];
	else if (argc != 2)
		dir = "";
	if (!dir[0] || !argv[argc - 1][0]) {
		fprintf(stderr, "moat diff: name one archive: moat diff [--root DIR] FILE.tar\n");
		return EXIT_USAGE;
	}
	file = argv[argc - 1];
	root = HOST(openat_monitor, open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (root < 0) {
		fprintf(stderr, "moat diff: --root %s: %s\n", dir, strerror(errno));
		return EXIT_USAGE;
	}
	in.fd = HOST(openat_monitor, open(file, O_RDONLY | O_CLOEXEC));
	if (in.fd < 0) {
		fprintf(stderr, "moat diff: %s: %s; name a file that --save has written\n", file,
			strerror(errno));
		return EXIT_USAGE;
	}
	if (!a) {
		fprintf(stderr, "moat diff: out of memory\n");
		return 1;
	}
	(void)archive_read_support_format_tar(a);
	(void)archive_read_support_format_empty(a);
	r = archive_read_open(a, &in, NULL, get_bytes, NULL);
	while (r == ARCHIVE_OK) {
		r = archive_read_next_header(a, &e);
		if (r == ARCHIVE_WARN)
			r = ARCHIVE_OK;
		if (r == ARCHIVE_OK && archive_entry_pathname(e))
			print_entry(root, archive_entry_pathname(e));
	}
	if (r != ARCHIVE_EOF)
		fprintf(stderr,
			"moat diff: %s: no archive of --save, or damaged: %s; name another\n", file,
			archive_error_string(a));
	(void)archive_read_free(a);
	return r == ARCHIVE_EOF ? 0 : 1;
}
