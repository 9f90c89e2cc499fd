/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of the trap platform: the stub process that runs no guest code.
 *
 * Theory of operation: as platform/stub/keeper.c, whose messages it understands. It is the one that
 * execve made; it removes all that the host mapped into it, sets what its children inherit (signal
 * handlers, the filters' page), and then hands out numbers for descriptors and makes zygotes. The
 * first descriptor that it is sent is the file of the areas. The first address spaces are its
 * children.
 */
#include "platform/stub/keeper.h"
#include "platform/stub_trap/layout.h"

#define SOL_SOCKET_ 1
#define SCM_RIGHTS_ 1
#define SECCOMP_NEW_LISTENER_ 8ul

#define SA_SIGINFO_ 4ul
#define SA_RESTORER_ 0x04000000ul
#define SA_ONSTACK_ 0x08000000ul
#define SA_RESTART_ 0x10000000ul
#define SIG_BIT(n) (1ull << ((n)-1))

struct sigaction_ {
	uint64_t handler, flags, restorer, mask;
};

__attribute__((aligned(4096), section(".bss.keeper"))) uint8_t keeper_stack[TS_DATA_SIZE];
void keeper_main(void) __attribute__((noreturn));

/* @program: with a first guest thread; see ts_keeper_child. */
static long child_clone(int areas_fd, uint32_t slots, int program)
{
	register uint64_t r12 __asm__("r12") = (uint64_t)areas_fd;
	register uint64_t r14 __asm__("r14") = slots;
	register uint64_t r15 __asm__("r15") = (uint64_t)program;
	long ret;

	__asm__ volatile("xorl %%r8d, %%r8d\n\t"
			 "xorl %%r10d, %%r10d\n\t"
			 "syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jz ts_keeper_child"
			 : "=a"(ret)
			 : "0"((long)NR_CLONE), "D"((long)TS_CLONE_FORK), "S"(0L), "d"(0L),
			   "r"(r12), "r"(r14), "r"(r15)
			 : "rcx", "r11", "r8", "r10", "memory");
	return ret;
}

/* The first word: that the keeper stands; with the listener of notifications, if there is one. */
static void send_first(int listener)
{
	struct keeper_reply reply = {.value = 0};
	struct iovec_ iov = {&reply, sizeof(reply)};
	struct cmsg_ cmsg = {
		.size = sizeof(cmsg) - 4,
		.level = SOL_SOCKET_,
		.type = SCM_RIGHTS_,
		.fd = listener,
	};
	struct msghdr_ msg = {
		.iov = &iov,
		.iov_count = 1,
		.control = &cmsg,
		.control_size = sizeof(cmsg),
	};
	long ret;

	if (listener < 0) {
		send_reply(0);
		return;
	}
	do {
		ret = call6(NR_SENDMSG, TS_FD_SOCKET, (uint64_t)&msg, MSG_NOSIGNAL_, 0, 0, 0);
	} while (ret == -EINTR_);
	if (ret < 0)
		die(1);
	call6(NR_CLOSE, (uint64_t)listener, 0, 0, 0, 0, 0);
}

static void set_signals(void)
{
	static const uint8_t handled[] = {4, 5, 7, 8, 11, TS_INTERRUPT_SIGNAL, 31};
	/* In a handler, SIGSEGV and SIGBUS still come: see guest.c. */
	const struct sigaction_ sa = {
		.handler = TS_TEXT + TS_E_SIGNAL,
		.flags = SA_SIGINFO_ | SA_RESTORER_ | SA_ONSTACK_ | SA_RESTART_,
		.restorer = TS_TEXT + TS_E_START,
		.mask = ~(SIG_BIT(7) | SIG_BIT(11)),
	};
	struct sigaction_ sa_nested = sa;
	const uint64_t all = ~0ull;

	sa_nested.flags |= 0x40000000ul; /* SA_NODEFER: for these two themselves */
	for (unsigned i = 0; i < sizeof(handled); i++) {
		const int nested = handled[i] == 7 || handled[i] == 11;

		if (call6(NR_RT_SIGACTION, handled[i], (uint64_t)(nested ? &sa_nested : &sa), 0, 8,
			  0, 0) != 0)
			die(5);
	}
	call6(NR_RT_SIGPROCMASK, 2, (uint64_t)&all, 0, 8, 0, 0);
}

void keeper_main(void)
{
	const struct ts_config *config = (const struct ts_config *)TS_CONFIG;
	int areas_fd = -1, listener = -1;
	long ret;

	unmap_host(TS_TEXT, TS_TEXT_SIZE, TS_DATA, TS_DATA_SIZE, TS_REGION_END);
	set_signals();
	/* All agents have it from here, and so all first guest threads: GS points to their area. */
	if (call6(NR_ARCH_PRCTL, 0x1001, TS_AREAS, 0, 0, 0, 0) != 0)
		die(6);
	map_config(TS_CONFIG, TS_CONFIG_SIZE, 0x11, TS_FD_CONFIG);
	if (config->trap_tsc)
		trap_tsc();
	ret = call6(NR_SECCOMP, 1, config->keeper_flags, (uint64_t)&config->keeper, 0, 0, 0);
	if (ret < 0)
		die(3);
	if (config->keeper_flags & SECCOMP_NEW_LISTENER_)
		listener = (int)ret;
	else if (ret != 0)
		die(3);
	send_first(listener);

	for (;;) {
		struct keeper_request req = {0};
		int fd, full;

		keeper_receive(&req, &fd, &full);
		switch (req.op) {
		case KEEPER_STORE:
			if (areas_fd < 0 && !full)
				areas_fd = fd;
			send_reply(full ? -EMFILE_ : fd);
			break;
		case KEEPER_CLOSE:
			call6(NR_CLOSE, (uint64_t)req.arg, 0, 0, 0, 0, 0);
			break;
		case KEEPER_TIME:
			/* Before the first zygote, which inherits it. */
			send_reply(call6(NR_MMAP, TS_TIME, 4096, 1, 0x11, (uint64_t)fd, 0) ==
						   TS_TIME
					   ? 0
					   : -ENOTSUP_);
			call6(NR_CLOSE, (uint64_t)fd, 0, 0, 0, 0, 0);
			break;
		case KEEPER_ZYGOTE:
		case KEEPER_PROGRAM:
			send_reply(
				child_clone(areas_fd, (uint32_t)req.arg, req.op == KEEPER_PROGRAM));
			break;
		default:
			send_reply(-ENOTSUP_);
		}
	}
}
