/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /dev/tty (the caller's controlling terminal) and /dev/console (the sandbox's, if it has one).
 *
 * References: tty(4), console(4).
 */
#include "vfs/chrdev.h"
#include "vfs/tty_internal.h"

#include "base/err.h"

#include <errno.h>

static struct tty *g_console; /* written at start only */

void tty_set_console(struct tty *t)
{
	g_console = t;
}

static int current_open(struct vfs_ctx *c, struct inode *i UNUSED, struct file *f)
{
	struct tty *t = g_tty_hooks->current();
	int r;

	if (!t)
		return -ENXIO;
	r = tty_open(c, t, f, true);
	tty_put(t);
	return r;
}

static int console_open(struct vfs_ctx *c, struct inode *i UNUSED, struct file *f)
{
	/* It never becomes a controlling terminal by being opened. */
	return g_console ? tty_open(c, g_console, f, true) : -ENXIO;
}

static const struct chrdev g_tty_dev = {.name = "/dev/tty", .open = current_open};
static const struct chrdev g_console_dev = {.name = "/dev/console", .open = console_open};

void tty_register(void)
{
	int r = chrdev_register(5, 0, &g_tty_dev);

	BUG_ON(r);
	r = chrdev_register(5, 1, &g_console_dev);
	BUG_ON(r);
	pty_register();
}
