/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: the stub process that runs no guest code.
 *
 * Theory of operation: it is the one that execve made. It removes all that the host kernel mapped
 * into it, so that its children (the zygotes, and through them every stub) begin with the stub's
 * text alone. All of them share its descriptor table. The sentry sends it descriptors over a
 * socket; it answers the number under which it holds each, and stubs map files by that number. It
 * ends when the sentry's end of the socket is closed, that is: when the sentry dies.
 *
 * It is freestanding: no libc, no vector registers, a stack of its own in STUB_DATA. Its only input
 * comes from the sentry.
 */
#include "platform/stub/keeper.h"

__attribute__((aligned(4096), section(".bss.keeper"))) uint8_t keeper_stack[STUB_DATA_SIZE];
extern const uint8_t stub_park[];
void keeper_main(void) __attribute__((noreturn));

/* A child that waits, in the text alone and without a stack, until a worker has attached to it. */
static long zygote_clone(void)
{
	long ret;

	__asm__ volatile("xorl %%r8d, %%r8d\n\t"
			 "xorl %%r10d, %%r10d\n\t"
			 "syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jz stub_park"
			 : "=a"(ret)
			 : "0"((long)NR_CLONE), "D"((long)STUB_CLONE_ZYGOTE), "S"(0L), "d"(0L)
			 : "rcx", "r11", "r8", "r10", "memory");
	return ret;
}

void keeper_main(void)
{
	const struct stub_config *config = (const struct stub_config *)STUB_CONFIG;

	unmap_host(STUB_TEXT, STUB_TEXT_SIZE, STUB_DATA, STUB_DATA_SIZE, STUB_REGION_END);
	map_config(STUB_CONFIG, STUB_CONFIG_SIZE, 0x12, STUB_FD_CONFIG);
	if (config->trap_tsc)
		trap_tsc();
	if (config->keeper.count != 0 &&
	    call6(NR_SECCOMP, 1, config->seccomp_flags, (uint64_t)&config->keeper, 0, 0, 0) != 0)
		die(3);
	send_reply(0);

	for (;;) {
		struct keeper_request req = {0};
		int fd, full;

		keeper_receive(&req, &fd, &full);
		switch (req.op) {
		case KEEPER_STORE:
			send_reply(full ? -EMFILE_ : fd);
			break;
		case KEEPER_CLOSE:
			call6(NR_CLOSE, (uint64_t)req.arg, 0, 0, 0, 0, 0);
			break;
		case KEEPER_ZYGOTE:
			send_reply(zygote_clone());
			break;
		default:
			send_reply(-ENOTSUP_);
		}
	}
}
