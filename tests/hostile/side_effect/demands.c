/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must have been seen of each row of the syscall table that is served, so that none is
 * forgotten: by the kinds of its arguments an error for each that is bad (a pointer: EFAULT, a
 * descriptor: EBADF, flags that nobody knows: EINVAL; a path: ENOENT, ENAMETOOLONG, EACCES, EROFS),
 * EMFILE where a descriptor is made, and of each row at least one call that fails. What cannot be
 * seen has its reason here; a reason that is not needed is as wrong as one that is missing.
 */
#include "side_effect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void seen_failure(struct seen *s, int error, enum wrong wrong, int arg)
{
	s->calls++;
	if (error > 0 && error < 192)
		s->errors[error / 64] |= UINT64_C(1) << error % 64;
	if (wrong == W_POINTER && error == EFAULT)
		s->efault |= (uint8_t)(1 << arg);
	if (wrong == W_FD && error == EBADF)
		s->ebadf |= (uint8_t)(1 << arg);
	if (wrong == W_FLAGS && (error == EINVAL || error == EOPNOTSUPP))
		s->flags |= (uint8_t)(1 << arg);
}

/* Words of "ROW", "ROW ERROR" or "ROW ERROR ARGUMENT". */
static const struct {
	const char *reason;
	const char *const *what;
} g_excused[] = {
#include "excused.def"
};

static unsigned g_missing;

static void demand(const char *row, const char *error, const char *arg, bool seen)
{
	char what[128];
	const char *reason = NULL;

	snprintf(what, sizeof(what), "%s%s%s%s%s", row, *error ? " " : "", error, *arg ? " " : "",
		 arg);
	for (size_t i = 0; i < sizeof(g_excused) / sizeof(g_excused[0]); i++)
		if (among(g_excused[i].what, what))
			reason = g_excused[i].reason;
	if (seen == !reason)
		return;
	g_missing++;
	if (seen)
		printf("demand: %s: has been seen, so that this is no reason: %s\n", what, reason);
	else
		printf("demand: %s: has not been seen, and there is no reason\n", what);
}

static bool seen_error(const struct seen *s, int error)
{
	return s->errors[error / 64] >> error % 64 & 1;
}

unsigned demands(const struct seen *seen, bool (*made)(const struct row *r))
{
	for (int i = 0; i < g_row_count; i++) {
		const struct row *r = &g_rows[i];
		const struct seen *s = &seen[i];
		bool path = false;

		if (!made(r) || (r->status[0] != SYS_FULL && r->status[0] != SYS_PARTIAL))
			continue;
		demand(r->name, "", "", s->calls > 0);
		if (s->calls == 0)
			continue;
		for (int k = 0; k < r->nargs; k++) {
			const struct argdesc *d = &r->args[k];

			if (is_pointer(d))
				demand(r->name, "EFAULT", r->names[k], s->efault >> k & 1);
			if (d->kind == AK_FD || d->kind == AK_DIRFD)
				demand(r->name, "EBADF", r->names[k], s->ebadf >> k & 1);
			if (d->kind == AK_FLAGS)
				demand(r->name, "EINVAL", r->names[k], s->flags >> k & 1);
			path |= d->kind == AK_PATH;
		}
		if (path) {
			demand(r->name, "ENOENT", "", seen_error(s, ENOENT));
			demand(r->name, "ENAMETOOLONG", "", seen_error(s, ENAMETOOLONG));
			demand(r->name, "EACCES", "", seen_error(s, EACCES));
			demand(r->name, "EROFS", "", seen_error(s, EROFS));
		}
		if (r->ret == RET_FD)
			demand(r->name, "EMFILE", "", seen_error(s, EMFILE));
	}
	return g_missing;
}
