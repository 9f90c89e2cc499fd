/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of extended attributes, and a name. Source: <linux/limits.h> as xattr(7) tells it.
 */
#ifndef MOAT_VFS_XATTR_H
#define MOAT_VFS_XATTR_H

/* What sockets have: the name of their protocol. */
#define XATTR_SOCKPROTONAME "system.sockprotoname"

#define LX_XATTR_NAME_MAX 255
#define LX_XATTR_SIZE_MAX 65536u
#define LX_XATTR_LIST_MAX 65536u

#endif
