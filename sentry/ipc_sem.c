/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System V semaphores. None can exist yet (semget is not built), so there is nothing to undo or to
 * share.
 */
#include "sentry/process.h"

void sem_exit(struct task *t UNUSED)
{
}

int sem_clone(struct task *parent UNUSED, struct task *child UNUSED, bool share UNUSED)
{
	return 0;
}
