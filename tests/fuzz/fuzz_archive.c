/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: archives of --load, and overlay trees: an archive is put into a fresh overlay, what
 * that changed is saved, and put into another fresh overlay, which must then differ from its lower
 * tree in the same names. Nothing may ever reach the host's tree below.
 *
 *	make m=fuzz fuzz-build && build/fuzz/fuzz/fuzz_archive -max_len=16384
 *tests/fuzz/corpus/archive
 *
 * An input is a list of entries: a byte chooses the kind, two its name and the name that it leads
 * to, one its mode, and a piece of content; or, if it begins with "RAW", the archive's own bytes.
 */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "platform/mock.h"
#include "runtime/changes.h"
#include "vfs/hostfs.h"
#include "vfs/overlay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static const char *const g_names[] = {
	"a",
	"b",
	"dir",
	"dir/f",
	"dir/sub",
	"dir/sub/g",
	"link",
	"new",
	"new/x",
	"new/y/z",
	"tmp/a",
	"tmp/l",
	"tmp/l/in",
	"./a",
	"/b",
	"..",
	"../a",
	"dir/..",
	"dir//f",
	"",
	"/",
	"./",
	"deep/a/b/c/d",
	".wh.a",
	"dir/.wh.f",
	"dir/.wh..wh..opq",
	".wh..wh..opq",
	"new/.wh..wh..opq",
	"tmp/.wh..wh..opq",
	".wh.dir",
	".wh.",
	"link/x",
	"dir/.wh.sub",
};

static char g_lower[] = "/tmp/moat-fuzz-XXXXXX";
static int g_archive = -1, g_again = -1; /* memfds */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static la_ssize_t put_bytes(struct archive *a UNUSED, void *arg UNUSED, const void *buf,
			    size_t size)
{
	return write(g_archive, buf, size);
}

static void make_archive(const uint8_t *data, size_t size)
{
	static const unsigned kinds[] = {AE_IFREG, AE_IFDIR, AE_IFLNK,
					 AE_IFIFO, AE_IFCHR, AE_IFREG};
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();

	(void)archive_write_set_format_gnutar(a);
	(void)archive_write_open(a, NULL, NULL, put_bytes, NULL);
	for (size_t at = 0; at + 5 <= size;) {
		const uint8_t *p = data + at;
		const size_t n = MIN((size_t)p[4], size - at - 5);
		const unsigned kind = kinds[p[0] % ARRAY_SIZE(kinds)];

		archive_entry_clear(e);
		archive_entry_set_pathname(e, g_names[p[1] % ARRAY_SIZE(g_names)]);
		archive_entry_set_filetype(e, kind);
		archive_entry_set_perm(e, (p[3] << 4) & 07777);
		archive_entry_set_uid(e, p[3] & 3);
		archive_entry_set_mtime(e, p[3], 0);
		archive_entry_set_size(e, kind == AE_IFREG ? (la_int64_t)n : 0);
		if (kind == AE_IFLNK)
			archive_entry_set_symlink(e, g_names[p[2] % ARRAY_SIZE(g_names)]);
		if (p[0] % ARRAY_SIZE(kinds) == 5) {
			archive_entry_set_hardlink(e, g_names[p[2] % ARRAY_SIZE(g_names)]);
			archive_entry_set_size(e, 0);
		}
		if (archive_write_header(a, e) == ARCHIVE_OK && archive_entry_size(e) > 0)
			(void)archive_write_data(a, p + 5, n);
		at += 5 + n;
	}
	(void)archive_write_close(a);
	(void)archive_write_free(a);
	archive_entry_free(e);
}

struct world {
	struct vfs_ctx c;
	struct path root;
};

static void world_up(struct world *w)
{
	struct hostfs_opts ho = {.immutable = true};
	struct tmpfs_opts to = TMPFS_OPTS_DEFAULT;
	struct super *lower, *root, *tmp;
	struct path at;
	int fd = open(g_lower, O_PATH | O_DIRECTORY | O_CLOEXEC);

	memset(w, 0, sizeof(*w));
	BUG_ON(fd < 0 || hostfs_new(fd, &ho, &lower) != 0);
	close(fd);
	BUG_ON(overlay_new(lower, &to, &root) != 0);
	super_put(lower);
	w->c.fsize_limit = UINT64_MAX;
	w->c.cred = cred_new(0, 0, LX_CAP_ALL);
	w->c.ns = mount_ns_new(root, 0);
	BUG_ON(!w->c.cred || !w->c.ns);
	w->root = (struct path){.mnt = w->c.ns->root, .dentry = w->c.ns->root->root};
	w->c.fs = fs_new(&w->root, &w->root, 0);
	BUG_ON(!w->c.fs || tmpfs_new(&to, &tmp) != 0 || vfs_mkdir(&w->c, NULL, "/tmp", 0755) != 0 ||
	       changes_own("/tmp") != 0);
	BUG_ON(path_lookup(&w->c, NULL, "/tmp", 0, &at) != 0);
	BUG_ON(mount_attach(w->c.ns, &at, tmp, NULL, 0, "tmp", NULL) != 0);
	path_put(&at);
	changes_watch(root, tmp);
	super_put(root);
	super_put(tmp);
	BUG_ON(changes_begin() != 0);
}

static void world_down(struct world *w)
{
	changes_end();
	fs_put(w->c.fs);
	mount_ns_put(w->c.ns);
	cred_put(w->c.cred);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The changes, a line each, sorted. */
static char *told(void)
{
	char *text = NULL, **line, *out;
	size_t size = 0, count = 0, k = 0;
	FILE *f = open_memstream(&text, &size);

	BUG_ON(!f || changes_print(f, "\n") != 0 || fclose(f) != 0);
	for (char *p = text; *p; p++)
		count += *p == '\n';
	line = calloc(count + 1, sizeof(*line));
	out = calloc(1, size + 1);
	BUG_ON(!line || !out);
	for (char *p = strtok(text, "\n"); p; p = strtok(NULL, "\n"))
		line[k++] = p;
	qsort(line, k, sizeof(*line), by_text);
	for (size_t i = 0, at = 0; i < k; i++)
		at += (size_t)sprintf(out + at, "%s\n", line[i]);
	free(line);
	free(text);
	return out;
}

static void on_fiber(void *arg UNUSED)
{
	struct world *w = malloc(sizeof(*w));
	struct err e = {{0}};
	char *first, *second;
	uint64_t skipped;
	int r;

	BUG_ON(!w);
	world_up(w);
	r = changes_load(&w->c, g_archive, &e);
	BUG_ON(r != 0 && !e.text[0]);
	/* What an archive that fails has done by then is a tree like any other. */
	first = told();
	r = changes_save(g_again, &skipped, &e);
	BUG_ON(r != 0 || skipped != 0);
	world_down(w);

	world_up(w);
	BUG_ON(lseek(g_again, 0, SEEK_SET) != 0);
	r = changes_load(&w->c, g_again, &e);
	if (r)
		panic("what was saved cannot be loaded: %s", e.text);
	second = told();
	if (strcmp(first, second) != 0)
		panic("saved and loaded, it is another tree:\n%s--\n%s", first, second);
	world_down(w);
	free(first);
	free(second);
	free(w);
	pthread_mutex_lock(&g.lock);
	g.done = true;
	pthread_cond_signal(&g.changed);
	pthread_mutex_unlock(&g.lock);
}

static void lower_make(void)
{
	char cmd[512];

	BUG_ON(!mkdtemp(g_lower));
	snprintf(cmd, sizeof(cmd),
		 "cd %s && mkdir -p dir/sub && echo 1 >a && echo 2 >b && echo 3 >dir/f && echo 4 "
		 ">dir/sub/g && "
		 "ln -s dir link",
		 g_lower);
	BUG_ON(system(cmd) != 0);
}

static void lower_remove(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", g_lower);
	(void)!system(cmd);
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
	g_pf = &platform_mock;
	BUG_ON(clock_start(CLOCK_KIND_HOST, 0) != 0);
	vfs_init();
	BUG_ON(workers_start(1, g_pf->worker_ops()) != 0);
	lower_make();
	atexit(lower_remove);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	g_archive = memfd_create("archive", MFD_CLOEXEC);
	g_again = memfd_create("again", MFD_CLOEXEC);
	BUG_ON(g_archive < 0 || g_again < 0);
	if (size >= 3 && memcmp(data, "RAW", 3) == 0)
		BUG_ON(write(g_archive, data + 3, size - 3) != (ssize_t)(size - 3));
	else
		make_archive(data, size);
	BUG_ON(lseek(g_archive, 0, SEEK_SET) != 0);
	g.done = false;
	fiber_start(fiber_new(on_fiber, NULL, NULL, "archive"));
	pthread_mutex_lock(&g.lock);
	while (!g.done)
		pthread_cond_wait(&g.changed, &g.lock);
	pthread_mutex_unlock(&g.lock);
	close(g_archive);
	close(g_again);
	return 0;
}
