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
#include <stddef.h>
#include <stdint.h>
#include "platform/stub/layout.h"

/* Host call numbers; the stub includes no header of libc's. */
enum {
	NR_MMAP = 9,
	NR_MUNMAP = 11,
	NR_CLOSE = 3,
	NR_SENDTO = 44,
	NR_RECVMSG = 47,
	NR_CLONE = 56,
	NR_PRCTL = 157,
	NR_EXIT_GROUP = 231,
	NR_SECCOMP = 317,
};

#define EINTR_ 4
#define EMFILE_ 24
#define ENOTSUP_ 95
#define MSG_CTRUNC_ 8
#define MSG_NOSIGNAL_ 0x4000
#define PR_SET_NAME_ 15

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

__attribute__((aligned(4096), section(".bss.keeper"))) uint8_t keeper_stack[STUB_DATA_SIZE];
extern const uint8_t stub_park[];
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

static void send_reply(int64_t value)
{
	struct keeper_reply reply = {.value = value};
	long ret;

	do {
		ret = call6(NR_SENDTO, STUB_FD_SOCKET, (uint64_t)&reply, sizeof(reply),
			    MSG_NOSIGNAL_, 0, 0);
	} while (ret == -EINTR_);
	if (ret < 0)
		die(1);
}

static void unmap(uint64_t from, uint64_t to)
{
	call6(NR_MUNMAP, from, to - from, 0, 0, 0, 0);
}

void keeper_main(void)
{
	static const char name[16] = "moat-stub";
	struct stub_config *config;

	/* Everything but this image. A host that seals its vDSO refuses a range with it inside:
	 * then what lies on both sides of it goes page by page, and the vDSO stays, above
	 * PF_GUEST_LIMIT. */
	unmap(0, STUB_TEXT);
	unmap(STUB_TEXT + STUB_TEXT_SIZE, STUB_DATA);
	if (call6(NR_MUNMAP, STUB_DATA + STUB_DATA_SIZE,
		  STUB_REGION_END - STUB_DATA - STUB_DATA_SIZE, 0, 0, 0, 0) != 0) {
		for (uint64_t p = STUB_DATA + STUB_DATA_SIZE; p < STUB_REGION_END; p += 4096)
			unmap(p, p + 4096);
	}

	call6(NR_PRCTL, PR_SET_NAME_, (uint64_t)name, 0, 0, 0, 0);
	config = (struct stub_config *)call6(NR_MMAP, STUB_CONFIG, STUB_CONFIG_SIZE, 1, 0x12,
					     STUB_FD_CONFIG, 0);
	if ((uint64_t)config != STUB_CONFIG)
		die(2);
	call6(NR_CLOSE, STUB_FD_CONFIG, 0, 0, 0, 0, 0);
	if (config->keeper.count != 0 &&
	    call6(NR_SECCOMP, 1, config->seccomp_flags, (uint64_t)&config->keeper, 0, 0, 0) != 0)
		die(3);
	send_reply(0);

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
		long n = call6(NR_RECVMSG, STUB_FD_SOCKET, (uint64_t)&msg, 0, 0, 0, 0);

		if (n == -EINTR_)
			continue;
		if (n <= 0)
			die(0);
		if (n != sizeof(req))
			die(4);
		switch (req.op) {
		case KEEPER_STORE:
			/* With no room in the table the kernel drops the descriptor and says so. */
			if ((msg.flags & MSG_CTRUNC_) || msg.control_size < sizeof(cmsg) - 4)
				send_reply(-EMFILE_);
			else
				send_reply(cmsg.fd);
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
