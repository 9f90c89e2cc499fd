/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages of AF_UNIX: descriptors and credentials that travel with data.
 */
#ifndef MOAT_NETSTACK_SCM_H
#define MOAT_NETSTACK_SCM_H

#include "netstack/socket.h"

/* Files under way; each is a reference. */
struct scm_files {
	unsigned count;
	bool counted;           /* in the accounts of netstack/unix_gc.c */
	struct scm_files *next; /* in the list of those to be dropped */
	struct file *file[LX_SCM_MAX_FD];
};

struct scm {
	struct scm_files *files; /* NULL: none */
	bool explicit_cred;
	struct lx_ucred cred;
};

/* Reads what the sender gave. Fills the sender's own credentials if it gave none. -EINVAL, -EBADF,
 * -EPERM, -ETOOMANYREFS, -ENOMEM. */
int scm_parse(struct vfs_ctx *c, const struct sock_msg *m, struct scm *out) MUST_USE;
/* Drops what the message did not take over. */
void scm_fini(struct scm *scm);

#endif
