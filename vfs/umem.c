/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User memory for handlers below the sentry. See struct umem in vfs/vfs.h.
 */
#include <errno.h>
#include <string.h>
#include "vfs/vfs.h"

int umem_copy_in(const struct umem *m, void *dst, gaddr_t src, size_t size)
{
	if (size == 0)
		return 0;
	if (!m->ops) {
		memcpy(dst, (const void *)(uintptr_t)src.a, size);
		return 0;
	}
	return m->ops->copy_in(m->ctx, src.a, dst, size) == (ssize_t)size ? 0 : -EFAULT;
}

int umem_copy_out(const struct umem *m, gaddr_t dst, const void *src, size_t size)
{
	if (size == 0)
		return 0;
	if (!m->ops) {
		memcpy((void *)(uintptr_t)dst.a, src, size);
		return 0;
	}
	return m->ops->copy_out(m->ctx, dst.a, src, size) == (ssize_t)size ? 0 : -EFAULT;
}
