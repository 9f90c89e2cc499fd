/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials: what a task is for permission checks. Immutable once shared: a change makes a copy
 * (cred_dup), edits it, and swaps it in; so readers need no lock.
 *
 * Source: credentials(7), capabilities(7).
 */
#ifndef MOAT_VFS_CRED_H
#define MOAT_VFS_CRED_H

#include "base/alloc.h"
#include "base/types.h"

#define LX_CAP_CHOWN 0
#define LX_CAP_DAC_OVERRIDE 1
#define LX_CAP_DAC_READ_SEARCH 2
#define LX_CAP_FOWNER 3
#define LX_CAP_FSETID 4
#define LX_CAP_KILL 5
#define LX_CAP_SETGID 6
#define LX_CAP_SETUID 7
#define LX_CAP_SETPCAP 8
#define LX_CAP_LINUX_IMMUTABLE 9
#define LX_CAP_NET_BIND_SERVICE 10
#define LX_CAP_NET_BROADCAST 11
#define LX_CAP_NET_ADMIN 12
#define LX_CAP_NET_RAW 13
#define LX_CAP_IPC_LOCK 14
#define LX_CAP_IPC_OWNER 15
#define LX_CAP_SYS_MODULE 16
#define LX_CAP_SYS_RAWIO 17
#define LX_CAP_SYS_CHROOT 18
#define LX_CAP_SYS_PTRACE 19
#define LX_CAP_SYS_PACCT 20
#define LX_CAP_SYS_ADMIN 21
#define LX_CAP_SYS_BOOT 22
#define LX_CAP_SYS_NICE 23
#define LX_CAP_SYS_RESOURCE 24
#define LX_CAP_SYS_TIME 25
#define LX_CAP_SYS_TTY_CONFIG 26
#define LX_CAP_MKNOD 27
#define LX_CAP_LEASE 28
#define LX_CAP_AUDIT_WRITE 29
#define LX_CAP_AUDIT_CONTROL 30
#define LX_CAP_SETFCAP 31
#define LX_CAP_MAC_OVERRIDE 32
#define LX_CAP_MAC_ADMIN 33
#define LX_CAP_SYSLOG 34
#define LX_CAP_WAKE_ALARM 35
#define LX_CAP_BLOCK_SUSPEND 36
#define LX_CAP_AUDIT_READ 37
#define LX_CAP_PERFMON 38
#define LX_CAP_BPF 39
#define LX_CAP_CHECKPOINT_RESTORE 40
#define LX_CAP_LAST 40
#define LX_CAP_ALL ((1ull << (LX_CAP_LAST + 1)) - 1)

#define LX_NGROUPS_MAX 65536

struct cred_groups {
	struct ref ref;
	uint32_t count;
	uint32_t gid[]; /* sorted */
};

struct cred {
	struct ref ref;
	uint32_t uid, gid, euid, egid, suid, sgid, fsuid, fsgid;
	uint64_t cap_inheritable, cap_permitted, cap_effective, cap_bset, cap_ambient;
	uint32_t securebits;
	struct cred_groups *groups; /* never NULL */
};

/* The first credentials of a sandbox. With uid 0: capabilities @caps in permitted, effective,
 * bounding. */
struct cred *cred_new(uint32_t uid, uint32_t gid, uint64_t caps) MUST_USE;
struct cred *
cred_dup(const struct cred *c) MUST_USE; /* a private copy, to edit before it is shared */
struct cred *cred_get(struct cred *c);
void cred_put(struct cred *c);
bool cred_capable(const struct cred *c, int cap);        /* effective */
bool cred_in_group(const struct cred *c, uint32_t gid);  /* fsgid or supplementary */
bool cred_in_egroup(const struct cred *c, uint32_t gid); /* egid or supplementary */
struct cred_groups *cred_groups_new(uint32_t count) MUST_USE;
/* Sorts; takes the reference. */
void cred_set_groups(struct cred *c, struct cred_groups *g);

#endif
