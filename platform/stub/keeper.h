/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keepers of both stubs are made of. Freestanding: no libc, no vector registers; to be
 * included by stub/keeper.c and stub_trap/keeper.c only.
 */
#ifndef MOAT_PLATFORM_STUB_KEEPER_H
#define MOAT_PLATFORM_STUB_KEEPER_H

#include <stddef.h>
#include <stdint.h>
#include "platform/stub/layout.h"

/* Host call numbers; the stub includes no header of libc's. */
enum {
	NR_CLOSE = 3,
	NR_MMAP = 9,
	NR_MUNMAP = 11,
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
#define PR_SET_NAME_ 15
#define PR_SET_TSC_ 26
#define PR_TSC_SIGSEGV_ 2

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

static inline long call6(long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
			 uint64_t f)
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
static inline void die(int status)
{
	for (;;)
		call6(NR_EXIT_GROUP, (uint64_t)status, 0, 0, 0, 0, 0);
}

static inline void send_reply(int64_t value)
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

/* A request, with the descriptor that came with it in cmsg->fd; -1: none, or the table is full:
 * then *full. Ends with the sentry. */
static inline void keeper_receive(struct keeper_request *req, int *fd, int *full)
{
	struct cmsg_ cmsg = {.fd = -1};
	struct iovec_ iov = {req, sizeof(*req)};
	struct msghdr_ msg = {
		.iov = &iov,
		.iov_count = 1,
		.control = &cmsg,
		.control_size = sizeof(cmsg),
	};
	long n;

	do {
		n = call6(NR_RECVMSG, STUB_FD_SOCKET, (uint64_t)&msg, 0, 0, 0, 0);
	} while (n == -EINTR_);
	if (n <= 0)
		die(0);
	if (n != sizeof(*req))
		die(4);
	/* With no room in the table the kernel drops the descriptor and says so. */
	*full = (msg.flags & MSG_CTRUNC_) || msg.control_size < sizeof(cmsg) - 4;
	*fd = cmsg.fd;
}

static inline void unmap(uint64_t from, uint64_t to)
{
	call6(NR_MUNMAP, from, to - from, 0, 0, 0, 0);
}

/* All that the host has mapped beside the image, which is text of @text_size and data of
 * @data_size. A host that seals its vDSO refuses a range with it inside: then what lies on both
 * sides of it goes page by page, and the vDSO stays, above PF_GUEST_LIMIT. */
static inline void unmap_host(uint64_t text, uint64_t text_size, uint64_t data, uint64_t data_size,
			      uint64_t end)
{
	static const char name[16] = "moat-stub";

	unmap(0, text);
	unmap(text + text_size, data);
	if (call6(NR_MUNMAP, data + data_size, end - data - data_size, 0, 0, 0, 0) != 0) {
		for (uint64_t p = data + data_size; p < end; p += 4096)
			unmap(p, p + 4096);
	}
	call6(NR_PRCTL, PR_SET_NAME_, (uint64_t)name, 0, 0, 0, 0);
}

/* The page of filters, at @at from here on; @flags of mmap. */
static inline void map_config(uint64_t at, uint64_t size, uint64_t flags, uint64_t fd)
{
	if ((uint64_t)call6(NR_MMAP, at, size, 1, flags, fd, 0) != at)
		die(2);
	call6(NR_CLOSE, fd, 0, 0, 0, 0, 0);
}

/* All children have it from here. A host that cannot do it has said so in `moat doctor'. */
static inline void trap_tsc(void)
{
	call6(NR_PRCTL, PR_SET_TSC_, PR_TSC_SIGSEGV_, 0, 0, 0, 0);
}

#endif
