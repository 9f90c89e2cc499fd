/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the host told of files, kept as long as the host says that nothing has changed.
 *
 * Theory of operation: where a guest asks for the same again and again, the host is asked to report
 * changes (fanotify, the kind without privilege) of the directories that are looked in and of the
 * files that are looked at. A report is in the queue before the call returns that made the change,
 * so before its maker can tell a guest of it. Nothing of a report is looked at: any, whatever it
 * is, ends the *generation*, and all that was told in it. So all that is to be asked is whether the
 * queue is empty, and that only where a sight would have ended (vfs/host_calls.h): after other news
 * of the host, after some microseconds, with each call while others' memory is mapped.
 *
 * What was told may be kept in a generation if the generation was read (host_watch_now) after the
 * marks were placed and before the host was asked.
 *
 * A change shows a moment before it is reported, while its call runs. Of two things that change by
 * one call a guest could then see one as it is and one as it was. So whoever is told other than
 * what was known ends the generation, too (host_watch_differs).
 *
 * What is not reported: who writes by a mapping, until it is gone; who reached a file by a handle
 * and without a name (an NFS server may); blocks allocated late; others' reads (atime). For all of
 * these nothing is kept longer than about a second. Mounts do not come after the start, since our
 * name space is private.
 *
 * It costs: 2 us for each mark, and if there is any some 10 ms at our end, when the host closes the
 * queue. So there are none before the host was asked in vain (it told what was known) some ten
 * thousand times. Where changes come so often that watching gains nothing it is given up for good.
 * A host that refuses the queue or a mark is asked as without.
 *
 * Locking: none; counters. Nothing here sleeps.
 */
#ifndef MOAT_VFS_HOST_WATCH_H
#define MOAT_VFS_HOST_WATCH_H

#include "base/types.h"

/* The generation, having seen that nothing has changed; 0: something has, or nothing is watched.
 */
uint64_t host_watch_now(void);
/* The one that has not ended yet, for all that is known. */
uint64_t host_watch_generation(void);
/* As host_watch_now(), whatever is known already. */
uint64_t host_watch_look(void);
/* Does what was told at @told (by the TSC) in @generation (0: none) still hold? Makes no host
 * call: false where host_watch_now() is due. */
bool host_watch_holds(uint64_t generation, uint64_t told);
/* The host told other than what was known. */
void host_watch_differs(void);
/* The host told what was known already. True: marks may be placed. */
bool host_watch_vain(void);
/* Makes the queue, if there is none; before anybody may change the root or be locked up. */
void host_watch_open_queue(void);
/* Marks a directory, or the file @name below it (host_watch_mark). 0 or -errno. */
int host_watch_add(int dir, const char *name, bool directory) MUST_USE;
/* Takes the mark of the open @fd away. */
void host_watch_remove(int fd, bool directory);
/* For tests: after so many times in vain. */
void host_watch_set_start(unsigned asked);

#endif
