/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of --load, --save and --keep-on-fail. See runtime/archive.h.
 */
#include "runtime/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "runtime/landlock.h"
#include "runtime/monitor_lock.h"
#include "runtime/run.h"

static struct {
	char *temp;       /* its path until then; NULL: there is none */
	const char *name; /* the last component of that, in it */
	const char *final;
	int dir;
	int told; /* a byte comes when it is complete */
	mode_t mode;
} g_archive = {.dir = -1, .told = -1};

static const char *last_component(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void archive_give_up(void)
{
	if (g_archive.temp)
		(void)HOST(unlinkat_archive, unlinkat(g_archive.dir, g_archive.name, 0));
	free(g_archive.temp);
	g_archive.temp = NULL;
}

/* The directory in which @path is, or is to be. */
static int open_dir(const char *path)
{
	const char *name = last_component(path);
	char *dir = name == path ? strdup(".") : strndup(path, (size_t)(name - path));
	int fd = -1;

	if (dir)
		fd = HOST(openat_monitor, open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC));
	free(dir);
	return fd;
}

static bool make(struct run_config *cfg)
{
	mode_t mask;
	int told[2];

	g_archive.dir = open_dir(cfg->save);
	if (g_archive.dir < 0)
		return false;
	if (asprintf(&g_archive.temp, "%s.XXXXXX", cfg->save) < 0) {
		g_archive.temp = NULL;
		errno = ENOMEM;
		return false;
	}
	cfg->save_fd = HOST(openat_monitor, mkostemp(g_archive.temp, O_CLOEXEC));
	if (cfg->save_fd < 0) {
		free(g_archive.temp);
		g_archive.temp = NULL;
		return false;
	}
	g_archive.name = last_component(g_archive.temp);
	g_archive.final = last_component(cfg->save);
	if (HOST(pipe2_monitor, pipe2(told, O_CLOEXEC | O_NONBLOCK)) != 0)
		return false;
	g_archive.told = told[0];
	cfg->saved_fd = told[1];
	mask = HOST(umask_monitor, umask(022));
	(void)HOST(umask_monitor, umask(mask));
	g_archive.mode = 0666 & ~mask;
	return true;
}

static const char *option_name(const struct run_config *cfg)
{
	return cfg->save_failed ? "--keep-on-fail" : "--save";
}

bool archive_open(struct run_config *cfg)
{
	const char *option = option_name(cfg);
	struct stat st;

	if (cfg->load) {
		cfg->load_fd = HOST(openat_monitor, open(cfg->load, O_RDONLY | O_CLOEXEC));
		if (cfg->load_fd < 0 || HOST(newfstatat_monitor, fstat(cfg->load_fd, &st)) < 0 ||
		    S_ISDIR(st.st_mode)) {
			fprintf(stderr,
				"moat run: --load %s: %s; name an archive that --save has "
				"written\n",
				cfg->load, strerror(cfg->load_fd < 0 ? errno : EISDIR));
			return false;
		}
	}
	if (!cfg->save)
		return true;
	/* The archive takes the place of what has its name: of a file, but not of /dev/null. */
	if (HOST(newfstatat_monitor, stat(cfg->save, &st)) == 0 && !S_ISREG(st.st_mode)) {
		fprintf(stderr, "moat run: %s %s: %s\n", option, cfg->save,
			S_ISDIR(st.st_mode) ? "it is a directory; name a file in it"
					    : "it is no regular file; name one, or a new one");
		return false;
	}
	if (!make(cfg)) {
		fprintf(stderr,
			"moat run: %s %s: %s; name a file in a directory that can be "
			"written\n",
			option, cfg->save, strerror(errno));
		archive_give_up();
		return false;
	}
	return true;
}

void archive_lock(const struct run_config *cfg, struct monitor_lock *l)
{
	if (!g_archive.temp)
		return;
	l->variant |= MONITOR_SAVE;
	l->slots[MONITOR_ARCHIVE] = cfg->save_fd;
	l->slots[MONITOR_ARCHIVE_DIR] = g_archive.dir;
	l->slots[MONITOR_ARCHIVE_PIPE] = g_archive.told;
	monitor_lock_path(l, g_archive.dir, LL_MAKE_REG | LL_REMOVE_FILE, true);
}

void archive_finish(const struct run_config *cfg, bool killed)
{
	char b;

	if (!g_archive.temp)
		return;
	if (HOST(read_saved, read(g_archive.told, &b, 1)) == 1) {
		/* mkostemp's mode is for secrets; a file of --save is one like any other. */
		if (HOST(fchmod_monitor, fchmod(cfg->save_fd, g_archive.mode)) == 0 &&
		    HOST(renameat_archive, renameat(g_archive.dir, g_archive.name, g_archive.dir,
						    g_archive.final)) == 0) {
			free(g_archive.temp);
			g_archive.temp = NULL;
			return;
		}
		fprintf(stderr, "moat run: %s: %s\n", cfg->save, strerror(errno));
	} else if (killed) {
		fprintf(stderr,
			"moat run: %s %s: nothing is kept, for the sandbox was killed before it "
			"could write it\n",
			option_name(cfg), cfg->save);
	}
	archive_give_up();
}
