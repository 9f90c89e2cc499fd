/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages of AF_UNIX, the sender's side.
 *
 * References: unix(7), cmsg(3).
 */
#include <errno.h>
#include <string.h>
#include "netstack/scm.h"
#include "netstack/unix.h"

static int parse_rights(struct vfs_ctx *c, const char *data, size_t size, struct scm *out)
{
	size_t n = size / sizeof(int32_t);
	struct scm_files *fp = out->files;

	if (n == 0)
		return 0;
	if (n > LX_SCM_MAX_FD)
		return -EINVAL;
	if (!fp) {
		fp = mem_zalloc(sizeof(*fp));
		if (!fp)
			return -ENOMEM;
		out->files = fp;
	}
	if (fp->count + n > LX_SCM_MAX_FD)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		struct file *f;
		int32_t fd;

		memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
		f = fd >= 0 && c->files ? fd_get(c->files, fd) : NULL;
		if (!f)
			return -EBADF;
		fp->file[fp->count++] = f;
	}
	return 0;
}

static int parse_credentials(struct vfs_ctx *c, const char *data, size_t size, struct scm *out)
{
	const struct cred *cr = c->cred;
	struct lx_ucred u;

	if (size != sizeof(u))
		return -EINVAL;
	memcpy(&u, data, sizeof(u));
	if (u.pid != c->tgid && !cred_capable(cr, LX_CAP_SYS_ADMIN))
		return -EPERM;
	if (u.uid != cr->uid && u.uid != cr->euid && u.uid != cr->suid &&
	    !cred_capable(cr, LX_CAP_SETUID))
		return -EPERM;
	if (u.gid != cr->gid && u.gid != cr->egid && u.gid != cr->sgid &&
	    !cred_capable(cr, LX_CAP_SETGID))
		return -EPERM;
	out->cred = u;
	out->explicit_cred = true;
	return 0;
}

static int parse(struct vfs_ctx *c, const struct sock_msg *m, struct scm *out)
{
	const char *at = m->control;
	size_t left = m->control_size;

	while (left >= sizeof(struct lx_cmsghdr)) {
		struct lx_cmsghdr h;
		const char *data = at + sizeof(h);
		size_t size, step;
		int r = 0;

		memcpy(&h, at, sizeof(h));
		if (h.cmsg_len < sizeof(h) || h.cmsg_len > left)
			return -EINVAL;
		size = (size_t)h.cmsg_len - sizeof(h);
		if (h.cmsg_level == LX_SOL_SOCKET) {
			if (h.cmsg_type == LX_SCM_RIGHTS)
				r = parse_rights(c, data, size, out);
			else if (h.cmsg_type == LX_SCM_CREDENTIALS)
				r = parse_credentials(c, data, size, out);
			else
				r = -EINVAL;
		}
		if (r)
			return r;
		step = (size_t)LX_CMSG_ALIGN(h.cmsg_len);
		if (step >= left)
			break;
		at += step;
		left -= step;
	}
	return 0;
}

int scm_parse(struct vfs_ctx *c, const struct sock_msg *m, struct scm *out)
{
	int r;

	*out = (struct scm){.cred = unix_own_cred(c)};
	if (!m->control || m->control_size == 0)
		return 0;
	r = parse(c, m, out);
	if (r == 0 && out->files)
		r = unix_count_files(c, out->files);
	if (r)
		scm_fini(out);
	return r;
}

void scm_fini(struct scm *scm)
{
	if (scm->files)
		unix_drop_files(scm->files);
	scm->files = NULL;
}
