/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one form in which the host's fanotify is asked for anything (vfs/host_watch.h): for who makes
 * the calls, and for who lets no others pass (platform/sentry_rules.h).
 */
#ifndef MOAT_BASE_HOST_WATCH_EVENTS_H
#define MOAT_BASE_HOST_WATCH_EVENTS_H

#include <fcntl.h>
#include <linux/fanotify.h>

/* The kind that needs no privilege: it only tells, by the numbers of files, and opens none. */
#define HOST_WATCH_KIND (FAN_CLASS_NOTIF | FAN_REPORT_FID | FAN_NONBLOCK | FAN_CLOEXEC)
#define HOST_WATCH_FLAGS (O_RDONLY | O_CLOEXEC)
/* A directory: its names, its own attributes. A file: attributes (its other names are one) and
 * content, and the end of writing by a mapping. */
#define HOST_WATCH_DIR \
	(FAN_CREATE | FAN_DELETE | FAN_MOVED_FROM | FAN_MOVED_TO | FAN_ATTRIB | FAN_ONDIR)
#define HOST_WATCH_FILE (FAN_MODIFY | FAN_ATTRIB | FAN_CLOSE_WRITE)

#endif
