/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stub and the sentry agree on: addresses, descriptors, entry points, messages.
 *
 * The stub's region is [PF_GUEST_LIMIT, 0x7ffffffff000). Every stub process has the text there and,
 * once it has run its first batch, an order page; the keeper also has its data. Nothing else is
 * mapped.
 *
 * Read by C, by the assembler and by the linker script: only #defines outside of __ASSEMBLER__
 * guards.
 */
#ifndef MOAT_PLATFORM_STUB_LAYOUT_H
#define MOAT_PLATFORM_STUB_LAYOUT_H

#define STUB_REGION 0x7ffff0000000
#define STUB_REGION_END 0x7ffffffff000

#define STUB_TEXT 0x7ffff0010000
#define STUB_TEXT_SIZE 0x2000
#define STUB_DATA 0x7ffff0020000 /* keeper only: its stack and its message */
#define STUB_DATA_SIZE 0x4000
#define STUB_CONFIG 0x7ffff0030000 /* keeper and unfinished zygotes: the seccomp programs */
#define STUB_CONFIG_SIZE 0x4000
#define STUB_ORDERS 0x7ffff0040000 /* the order page, read-only */
#define STUB_ORDERS_SIZE 0x1000

/* Descriptors of the shared table that exist from the start. */
#define STUB_FD_SOCKET 3
#define STUB_FD_ORDERS 4
#define STUB_FD_CONFIG 5

/* Entry points, as offsets into the text; each has a slot of 64 bytes. */
#define STUB_E_START 0x000   /* where execve enters */
#define STUB_E_BATCH 0x040   /* runs orders */
#define STUB_E_ATTACH 0x080  /* maps the order page, then as E_BATCH */
#define STUB_E_FINISH 0x100  /* turns a child of the keeper into a zygote */
#define STUB_E_FORK 0x180    /* clone a process; again at each resume */
#define STUB_E_THREAD 0x1c0  /* clone a thread */
#define STUB_E_EXIT 0x200    /* end this thread */
#define STUB_E_CMPXCHG 0x240 /* atomics: address in rdi, argument in esi, old value in eax */
#define STUB_E_XCHG 0x280
#define STUB_E_ADD 0x2c0
#define STUB_E_OR 0x300
#define STUB_E_ANDN 0x340
#define STUB_E_XOR 0x380
#define STUB_E_CALL 0x3c0 /* one host call, all in registers */
#define STUB_E_PARK 0x400 /* where a child of the keeper waits for its tracer */
#define STUB_E_END 0x440

/* clone flags: exactly these two values pass the stubs' filter.
 * fork: CLONE_FILES|CLONE_PTRACE|CLONE_PARENT|SIGCHLD; thread: CLONE_VM|CLONE_FS|CLONE_FILES|
 * CLONE_SIGHAND|CLONE_THREAD|CLONE_SYSVSEM|CLONE_PTRACE. CLONE_PTRACE attaches the child to the
 * tracer of the caller, without a stop of the caller for the event. */
#define STUB_CLONE_FORK 0x0000a411
#define STUB_CLONE_THREAD 0x00052f00
/* The keeper's own: CLONE_FILES|CLONE_PARENT|SIGCHLD. */
#define STUB_CLONE_ZYGOTE 0x00008411

#define STUB_ORDERS_MAX 64 /* in one batch */

#ifndef __ASSEMBLER__
#include <stdint.h>
#include "platform/stub/order.h"

_Static_assert(sizeof(struct stub_order) * STUB_ORDERS_MAX <= STUB_ORDERS_SIZE, "one page");

/* The config page: two seccomp programs, as struct sock_fprog with addresses in the stub. */
struct stub_fprog {
	uint16_t count;
	uint16_t pad[3];
	uint64_t insns; /* address in the stub */
};

struct stub_config {
	struct stub_fprog keeper; /* may be empty: count 0 */
	struct stub_fprog guest;
	uint64_t seccomp_flags;
	uint64_t trap_tsc; /* reading the TSC faults */
	uint8_t insns[STUB_CONFIG_SIZE - 48];
};
_Static_assert(sizeof(struct stub_config) == STUB_CONFIG_SIZE, "E_FINISH knows the offsets");

enum keeper_op {
	KEEPER_STORE = 1, /* with one descriptor; answers the number it got */
	KEEPER_CLOSE,     /* no answer */
	KEEPER_ZYGOTE,    /* answers the pid; on trap with KEEPER_SLOTS */
	KEEPER_TIME, /* with one descriptor: maps the clock page from it; answers 0 (trap only) */
	KEEPER_PROGRAM, /* as KEEPER_ZYGOTE: a child with a guest thread (trap only) */
};

/* Of the order page and of the first area, each less than 65536. */
#define KEEPER_SLOTS(orders, area) ((uint32_t)(area) << 16 | (uint32_t)(orders))

struct keeper_request {
	uint32_t op;
	int32_t arg;
};

struct keeper_reply {
	int64_t value; /* or -errno */
};
#endif

#endif
