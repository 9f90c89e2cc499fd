/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guest's console: a terminal of the sandbox whose screen and keyboard are the host's terminal.
 */
#ifndef MOAT_RUNTIME_CONSOLE_H
#define MOAT_RUNTIME_CONSOLE_H

#include "base/err.h"
#include "base/types.h"

struct tty;

/* Makes it on duplicates of the host's descriptors 0 and 1, which are not read or written yet, and
 * makes it what /dev/console is. Once, after vfs_init(). *out: borrowed, lives for ever. */
int console_new(struct tty **out, struct err *e) MUST_USE;
/* Starts the threads that read and write the host's terminal. */
int console_start(struct err *e) MUST_USE;
/* What is typed is read from now on: sooner a control character would find no program. */
void console_listen(void);
/* The host's terminal has another size. Nothing happens without a console. */
void console_resized(void);
/* Waits until all that the guest has written is written, or cannot be. The console's host threads
 * must not be needed any more: output after it may be lost. */
void console_finish(void);
/* Waits until what was written is shown, but no longer than a moment: the user may have held the
 * output. Not on a worker. */
void console_settle(void);
/* Has a key sent @sig to the foreground group? */
bool console_typed(int sig);

#endif
