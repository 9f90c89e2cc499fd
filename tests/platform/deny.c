/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that forbids some calls: deny CALL=ERRNO… -- COMMAND… runs COMMAND under a seccomp filter
 * that answers each CALL with ERRNO, or with KILL kills who makes it, with TRAP by a signal. CALL
 * is a name, as below; "seccomp-filter" is seccomp() when it sets a filter, "seccomp-listener" when
 * it wants a listener with that. Everything else passes.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OFF(member) ((uint32_t)offsetof(struct seccomp_data, member))

static const struct {
	const char *name;
	uint32_t nr;
	unsigned arg;
	uint32_t value, mask; /* of the argument; mask 0: any */
} g_calls[] = {
	{"ptrace", SYS_ptrace, 0, 0, 0},
	{"futex_waitv", 449, 0, 0, 0},
	{"process_vm_readv", SYS_process_vm_readv, 0, 0, 0},
	{"execveat", SYS_execveat, 0, 0, 0},
	{"clone-user", SYS_clone, 0, CLONE_NEWUSER, CLONE_NEWUSER},
	{"clone", SYS_clone, 0, 0, 0},
	{"clone3", SYS_clone3, 0, 0, 0},
	{"setns", SYS_setns, 0, 0, 0},
	{"unshare", SYS_unshare, 0, 0, 0},
	{"fsopen", SYS_fsopen, 0, 0, 0},
	{"move_mount", SYS_move_mount, 0, 0, 0},
	{"mount_setattr", SYS_mount_setattr, 0, 0, 0},
	{"openat2", SYS_openat2, 0, 0, 0},
	{"fchmodat2", 452, 0, 0, 0},
	{"landlock", SYS_landlock_create_ruleset, 0, 0, 0},
	{"prctl-mm", SYS_prctl, 0, PR_SET_MM, UINT32_MAX},
	{"memfd_create", SYS_memfd_create, 0, 0, 0},
	{"seccomp", SYS_seccomp, 0, 0, 0},
	{"seccomp-filter", SYS_seccomp, 0, SECCOMP_SET_MODE_FILTER, UINT32_MAX},
	{"seccomp-listener", SYS_seccomp, 1, SECCOMP_FILTER_FLAG_NEW_LISTENER,
	 SECCOMP_FILTER_FLAG_NEW_LISTENER},
};

static struct sock_filter g_insns[64];
static unsigned short g_count;

static void emit(struct sock_filter f)
{
	if (g_count == sizeof(g_insns) / sizeof(g_insns[0]))
		abort();
	g_insns[g_count++] = f;
}

static void deny(size_t i, uint32_t no)
{
	emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OFF(nr)));
	emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, g_calls[i].nr, 0, 4));
	emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					  OFF(args) + 8 * (uint32_t)g_calls[i].arg));
	emit((struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, g_calls[i].mask));
	emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, g_calls[i].value, 0, 1));
	emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, no));
}

static uint32_t action(const char *name)
{
	if (strcmp(name, "EPERM") == 0)
		return SECCOMP_RET_ERRNO | EPERM;
	if (strcmp(name, "ENOSYS") == 0)
		return SECCOMP_RET_ERRNO | ENOSYS;
	if (strcmp(name, "KILL") == 0)
		return SECCOMP_RET_KILL_PROCESS;
	if (strcmp(name, "TRAP") == 0)
		return SECCOMP_RET_TRAP;
	fprintf(stderr, "deny: %s: EPERM, ENOSYS, KILL or TRAP\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	struct sock_fprog prog = {.filter = g_insns};
	int a = 1;

	emit((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, OFF(arch)));
	emit((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	for (; a < argc && strcmp(argv[a], "--") != 0; a++) {
		char *equals = strchr(argv[a], '=');
		size_t i = 0;

		if (equals)
			*equals = '\0';
		while (i < sizeof(g_calls) / sizeof(g_calls[0]) &&
		       strcmp(g_calls[i].name, argv[a]) != 0)
			i++;
		if (!equals || i == sizeof(g_calls) / sizeof(g_calls[0])) {
			fprintf(stderr, "deny: %s: no such call\n", argv[a]);
			return 2;
		}
		deny(i, action(equals + 1));
	}
	emit((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	prog.len = g_count;
	if (a + 1 >= argc) {
		fprintf(stderr, "usage: deny CALL=ERRNO... -- COMMAND...\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0) {
		perror("deny: seccomp");
		return 77;
	}
	execvp(argv[a + 1], argv + a + 1);
	perror(argv[a + 1]);
	return 127;
}
