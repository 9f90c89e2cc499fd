/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and their terminals. There are no terminals yet, so none can be a session's.
 */
#include "sentry/process.h"

void tty_leader_exit(struct tty *tty UNUSED, struct pid *session UNUSED)
{
}

void tty_session_set(struct tty *tty UNUSED, struct tgroup *leader UNUSED)
{
}

void session_tty_ids_locked(struct pid *session UNUSED, int32_t *tty_nr, int32_t *tpgid)
{
	*tty_nr = 0;
	*tpgid = -1;
}
