/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grant: all that a sandbox may touch and use, compiled once before the first guest
 * instruction.
 *
 * Theory of operation: the launcher draws up a struct grant from its defaults, a preset, a policy
 * file and the command line, and grant_freeze() copies it, with all that it leads to, into pages of
 * its own that are then read-only, and sealed where the host can (mseal). From there on g_grant is
 * the only authority; nothing changes it, and what leaves it (a descriptor closed, a right dropped)
 * is gone. Each rule remembers where it was written, so that a denial can name it.
 *
 * Locking: none; g_grant is constant once it is set.
 */
#ifndef MOAT_SENTRY_GRANT_H
#define MOAT_SENTRY_GRANT_H

#include "base/clock.h"
#include "base/err.h"
#include "base/meter.h"
#include "base/types.h"
#include "vfs/hostfs.h"

#define GRANT_HASH_SIZE 32 /* SHA-256 */

enum grant_access {
	GRANT_HIDDEN, /* does not exist for the guest, whatever is granted above it */
	GRANT_READ,
	GRANT_WRITE, /* and read */
};

/* Where a rule was written. */
struct grant_origin {
	const char *file; /* the policy's name, "--rw", "preset default", "built in" */
	uint32_t line;    /* 0: none */
	uint32_t column;
};

/* A directory or file of the host that the guest sees at @target. */
struct grant_path {
	const char *host; /* absolute, canonical; NULL: nothing of the host's (hidden) */
	const char *target;
	enum grant_access access;
	bool exec;     /* may be executed or mapped executable */
	bool optional; /* may be missing */
	bool implied;  /* the caller's directory, which nobody named */
	int fd;        /* O_PATH; opened before anything of the guest's runs. -1: missing */
	int parent_fd; /* O_PATH, of a file's directory; else -1 */
	struct grant_origin origin;
};

/* Who may be reached; parsed and checked, enforced with the network (and refused until then). */
struct grant_egress {
	const char *rule; /* host[:port], *.suffix[:port], CIDR[:port] */
	struct grant_origin origin;
};

/*
 * Limits. Each is a count, bytes, a share or nanoseconds as its unit says; GRANT_NO_LIMIT where
 * there is none. X(name in C and in policy files, unit, what it is). The list is that of the meters
 * that enforce them, base/meter.h.
 */
#define GRANT_LIMITS(X) METERS(X)
#define GRANT_NO_LIMIT METER_NO_LIMIT

enum grant_limit {
#define X(name, unit, what) GRANT_LIMIT_##name = METER_##name,
	GRANT_LIMITS(X)
#undef X
		GRANT_LIMIT_COUNT = METER_COUNT
};

struct grant {
	const char *name; /* preset or policy, for people */
	bool strict;      /* what the host lacks of the second wall is refused, not warned of */

	const char *root;         /* NULL: the host's system directories, read-only */
	struct grant_path *paths; /* parents before children */
	uint32_t path_count;
	/* What the hidden paths are on the host, for hostfs_hide(); no part of the hash. */
	struct hostfs_hidden *hidden;
	struct hostfs_id *hidden_files, *pins;
	uint32_t hidden_count, hidden_file_count, pin_count;
	const char **masks; /* the host's paths of what is hidden and there, for the second wall */
	uint32_t mask_count;
	char **env; /* NULL-terminated */
	uint32_t env_count;
	const char **devices; /* names below /dev that exist */
	uint32_t device_count;
	struct grant_egress *egress;
	uint32_t egress_count;

	const char *cwd; /* in the guest */
	const char *hostname;
	uint32_t uid, gid;
	uint32_t cpus;

	uint64_t limits[GRANT_LIMIT_COUNT];
	struct grant_origin limit_origin[GRANT_LIMIT_COUNT];

	enum clock_kind clock;
	int64_t clock_arg_ns; /* offset, or the fixed time since 1970 */
	bool seeded;
	uint64_t seed;

	uint8_t hash[GRANT_HASH_SIZE]; /* of the authority in canonical form: grant_hash() */
};

/* NULL before grant_freeze(). */
extern const struct grant *g_grant;

/* The SHA-256 of what @g allows. Neither the name nor where rules were written nor descriptors are
 * part of it. */
void grant_hash(const struct grant *g, uint8_t out[GRANT_HASH_SIZE]);

/* Copies @draft into read-only, sealed pages, computes its hash and sets g_grant. Once. 0, or
 * -errno and *e. */
int grant_freeze(const struct grant *draft, struct err *e) MUST_USE;
/* Could the host seal them (Linux 6.10)? */
bool grant_is_sealed(void);

/* The limit, or GRANT_NO_LIMIT (as before grant_freeze, in unit tests). */
static inline uint64_t grant_limit(enum grant_limit which)
{
	return g_grant ? g_grant->limits[which] : GRANT_NO_LIMIT;
}

#endif
