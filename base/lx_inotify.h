/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest ABI of inotify.
 *
 * Source: inotify(7).
 */
#ifndef MOAT_BASE_LX_INOTIFY_H
#define MOAT_BASE_LX_INOTIFY_H

#include "base/lx.h"

#define LX_IN_ACCESS 0x00000001u
#define LX_IN_MODIFY 0x00000002u
#define LX_IN_ATTRIB 0x00000004u
#define LX_IN_CLOSE_WRITE 0x00000008u
#define LX_IN_CLOSE_NOWRITE 0x00000010u
#define LX_IN_OPEN 0x00000020u
#define LX_IN_MOVED_FROM 0x00000040u
#define LX_IN_MOVED_TO 0x00000080u
#define LX_IN_CREATE 0x00000100u
#define LX_IN_DELETE 0x00000200u
#define LX_IN_DELETE_SELF 0x00000400u
#define LX_IN_MOVE_SELF 0x00000800u
#define LX_IN_ALL_EVENTS 0x00000fffu
#define LX_IN_UNMOUNT 0x00002000u
#define LX_IN_Q_OVERFLOW 0x00004000u
#define LX_IN_IGNORED 0x00008000u
#define LX_IN_ONLYDIR 0x01000000u
#define LX_IN_DONT_FOLLOW 0x02000000u
#define LX_IN_EXCL_UNLINK 0x04000000u
#define LX_IN_MASK_CREATE 0x10000000u
#define LX_IN_MASK_ADD 0x20000000u
#define LX_IN_ISDIR 0x40000000u
#define LX_IN_ONESHOT 0x80000000u
#define LX_IN_NONBLOCK LX_O_NONBLOCK
#define LX_IN_CLOEXEC LX_O_CLOEXEC

struct lx_inotify_event {
	int32_t wd;
	uint32_t mask;
	uint32_t cookie;
	uint32_t len; /* of the name that follows, NULs and padding included */
};
_Static_assert(sizeof(struct lx_inotify_event) == 16, "inotify_event");

#endif
