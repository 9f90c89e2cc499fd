/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous input and output in Linux's own way (io_setup and its family), as far as others see
 * it.
 */
#ifndef MOAT_SENTRY_AIO_H
#define MOAT_SENTRY_AIO_H

#include "sentry/mm.h"

/* Gives the contexts of @mm back: nobody uses the memory any more. */
void aio_end(struct mm *mm);
/* How many events all contexts of the sandbox were made for (/proc/sys/fs/aio-nr), and may be. */
uint64_t aio_events_asked(void);
#define AIO_EVENTS_MAX 65536u

#endif
