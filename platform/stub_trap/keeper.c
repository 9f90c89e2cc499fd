/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper of the trap platform: the stub process that runs no guest code.
 *
 * Theory of operation: as platform/stub/keeper.c, whose messages it understands. It is the one that
 * execve made; it removes all that the host mapped into it, sets what its children inherit (signal
 * handlers, the filters' page), and then hands out numbers for descriptors and makes zygotes. The
 * first descriptor that it is sent is the file of the areas.
 */
#include "platform/stub/layout.h"
#include "platform/stub_trap/layout.h"

enum {
	NR_MMAP = 9,
	NR_MUNMAP = 11,
	NR_CLOSE = 3,
	NR_RT_SIGACTION = 13,
	NR_RT_SIGPROCMASK = 14,
	NR_SENDTO = 44,
	NR_SENDMSG = 46,
	NR_RECVMSG = 47,
	NR_CLONE = 56,
	NR_PRCTL = 157,
	NR_ARCH_PRCTL = 158,
	NR_EXIT_GROUP = 231,
	NR_SECCOMP = 317,
};

#define EINTR_ 4
#define EMFILE_ 24
#define ENOTSUP_ 95
#define MSG_CTRUNC_ 8
#define MSG_NOSIGNAL_ 0x4000
#define SOL_SOCKET_ 1
#define SCM_RIGHTS_ 1
#define SECCOMP_NEW_LISTENER_ 8ul
#define PR_SET_NAME_ 15

#define SA_SIGINFO_ 4ul
#define SA_RESTORER_ 0x04000000ul
#define SA_ONSTACK_ 0x08000000ul
#define SA_RESTART_ 0x10000000ul
#define SIG_BIT(n) (1ull << ((n)-1))

struct iovec_ {
	void *base;
	size_t size;
};

struct msghdr_ {
	void *name;
	uint32_t name_size, pad0;
	struct iovec_ *iov;
	size_t iov_count;
	void *control;
	size_t control_size;
	int flags, pad1;
};

/* A control message with room for one descriptor. */
struct cmsg_ {
	size_t size;
	int level, type;
	int fd, pad;
};

struct sigaction_ {
	uint64_t handler, flags, restorer, mask;
};

__attribute__((aligned(4096), section(".bss.keeper"))) uint8_t keeper_stack[TS_DATA_SIZE];
void keeper_main(void) __attribute__((noreturn));

static long call6(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static void die(int status) __attribute__((noreturn));
static void die(int status)
{
	for (;;)
		call6(NR_EXIT_GROUP, (uint64_t)status, 0, 0, 0, 0, 0);
}

static long zygote_clone(int areas_fd)
{
	register uint64_t r12 __asm__("r12") = (uint64_t)areas_fd;
	long ret;

	__asm__ volatile("xorl %%r8d, %%r8d\n\t"
			 "xorl %%r10d, %%r10d\n\t"
			 "syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jz ts_zygote"
			 : "=a"(ret)
			 : "0"((long)NR_CLONE), "D"((long)TS_CLONE_FORK), "S"(0L), "d"(0L), "r"(r12)
			 : "rcx", "r11", "r8", "r10", "memory");
	return ret;
}

static void send_reply(int64_t value)
{
	struct keeper_reply reply = {.value = value};
	long ret;

	do {
		ret = call6(NR_SENDTO, TS_FD_SOCKET, (uint64_t)&reply, sizeof(reply), MSG_NOSIGNAL_,
			    0, 0);
	} while (ret == -EINTR_);
	if (ret < 0)
		die(1);
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

static void unmap(uint64_t from, uint64_t to)
{
	call6(NR_MUNMAP, from, to - from, 0, 0, 0, 0);
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
	static const char name[16] = "moat-stub";
	struct ts_config *config;
	int areas_fd = -1, listener = -1;
	long ret;

	/* Everything but this image; see platform/stub/keeper.c. */
	unmap(0, TS_TEXT);
	unmap(TS_TEXT + TS_TEXT_SIZE, TS_DATA);
	if (call6(NR_MUNMAP, TS_DATA + TS_DATA_SIZE, TS_REGION_END - TS_DATA - TS_DATA_SIZE, 0, 0,
		  0, 0) != 0) {
		for (uint64_t p = TS_DATA + TS_DATA_SIZE; p < TS_REGION_END; p += 4096)
			unmap(p, p + 4096);
	}

	call6(NR_PRCTL, PR_SET_NAME_, (uint64_t)name, 0, 0, 0, 0);
	set_signals();
	/* All agents have it from here, and so all first guest threads: GS points to their area. */
	if (call6(NR_ARCH_PRCTL, 0x1001, TS_AREAS, 0, 0, 0, 0) != 0)
		die(6);
	config = (struct ts_config *)call6(NR_MMAP, TS_CONFIG, TS_CONFIG_SIZE, 1, 0x11,
					   TS_FD_CONFIG, 0);
	if ((uint64_t)config != TS_CONFIG)
		die(2);
	call6(NR_CLOSE, TS_FD_CONFIG, 0, 0, 0, 0, 0);
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
		struct cmsg_ cmsg = {.fd = -1};
		struct iovec_ iov = {&req, sizeof(req)};
		struct msghdr_ msg = {
			.iov = &iov,
			.iov_count = 1,
			.control = &cmsg,
			.control_size = sizeof(cmsg),
		};
		long n = call6(NR_RECVMSG, TS_FD_SOCKET, (uint64_t)&msg, 0, 0, 0, 0);

		if (n == -EINTR_)
			continue;
		if (n <= 0)
			die(0);
		if (n != sizeof(req))
			die(4);
		switch (req.op) {
		case KEEPER_STORE:
			/* With no room in the table the kernel drops the descriptor and says so. */
			if ((msg.flags & MSG_CTRUNC_) || msg.control_size < sizeof(cmsg) - 4) {
				send_reply(-EMFILE_);
				break;
			}
			if (areas_fd < 0)
				areas_fd = cmsg.fd;
			send_reply(cmsg.fd);
			break;
		case KEEPER_CLOSE:
			call6(NR_CLOSE, (uint64_t)req.arg, 0, 0, 0, 0, 0);
			break;
		case KEEPER_TIME:
			/* Before the first zygote, which inherits it. */
			send_reply(call6(NR_MMAP, TS_TIME, 4096, 1, 0x11, (uint64_t)cmsg.fd, 0) ==
						   TS_TIME
					   ? 0
					   : -ENOTSUP_);
			call6(NR_CLOSE, (uint64_t)cmsg.fd, 0, 0, 0, 0, 0);
			break;
		case KEEPER_ZYGOTE:
			send_reply(zygote_clone(areas_fd));
			break;
		default:
			send_reply(-ENOTSUP_);
		}
	}
}
