/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BSD lists and trees, from libbsd.
 */
#ifndef MOAT_BASE_QUEUE_H
#define MOAT_BASE_QUEUE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#endif
