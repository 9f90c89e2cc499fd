/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run changed in its in-memory files: told (--diff), kept (--save), put back (--load).
 *
 * An archive is a tar file as container layers are: what was made or changed with all its parents'
 * attributes as they were, `.wh.NAME` for a name that is gone, `.wh..wh..opq` in a directory that
 * hides all of the one below. It holds the root (the overlay's upper half) and /tmp, not granted
 * directories, nor /dev, /proc, /sys.
 */
#ifndef MOAT_RUNTIME_CHANGES_H
#define MOAT_RUNTIME_CHANGES_H

#include <stdio.h>
#include "base/err.h"
#include "vfs/vfs.h"

/* From here on the two are looked at; own references. @tmp may be NULL. From set-up. */
void changes_watch(struct super *root, struct super *tmp);
/* The launcher itself made @path (absolute): no change of the run's unless its attributes are. */
int changes_own(const char *path) MUST_USE;
/* Takes the attributes of what the launcher has made since the last time: before an archive is
 * loaded, and when set-up is complete. On a fiber. */
int changes_begin(void) MUST_USE;

/* One line for each change, "A", "C" or "D" and the path, control bytes escaped. The guest is dead.
 * On a fiber. -errno. */
int changes_print(FILE *f, const char *newline) MUST_USE;
/* Writes the archive to @fd. On a fiber. -errno and *e. *skipped: names that no archive can hold
 * (sockets, `.wh.…`, over-long paths). */
int changes_save(int fd, uint64_t *skipped, struct err *e) MUST_USE;
/* Puts an archive into the root and /tmp, which are all that is mounted yet. The archive is
 * hostile: nothing but names below the root is touched, no link is followed. On a fiber. */
int changes_load(struct vfs_ctx *c, int fd, struct err *e) MUST_USE;

void changes_end(void);

/* `moat diff ARCHIVE` */
int diff_main(int argc, char **argv);

/* Writes @path with backslashes and control bytes as \ooo, so that it stays one line. */
void changes_print_path(FILE *f, const char *path);

#endif
