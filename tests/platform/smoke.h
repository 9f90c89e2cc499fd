/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the platform's smoke tests share: a guest with a page of code, and checks.
 */
#ifndef MOAT_TESTS_PLATFORM_SMOKE_H
#define MOAT_TESTS_PLATFORM_SMOKE_H

#include <stdio.h>
#include "platform/platform.h"

#define CODE ((uint64_t)0x400000)
#define DATA ((uint64_t)0x500000)
#define DATA_SIZE ((uint64_t)0x10000)
#define STACK_TOP (DATA + DATA_SIZE)

struct guest {
	struct pf_as *as;
	struct pf_thread *thread;
	struct pf_regs regs;
	struct pf_trap trap;
};

/* A piece of guest code: position-independent, copied to CODE. */
#define BLOB(name, text)                                                                      \
	__asm__(".pushsection .rodata\n.globl " #name "\n" #name ":\n" text "\n.globl " #name \
		"_end\n" #name "_end:\n.popsection");                                         \
	extern const char name[], name##_end[]

extern int g_failures; /* of the test that runs */

#define CHECK(cond)                                                                   \
	do {                                                                          \
		if (!(cond)) {                                                        \
			printf("    %s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			g_failures++;                                                 \
		}                                                                     \
	} while (0)

#define CHECK_EQ(a, b)                                                                     \
	do {                                                                               \
		const long long a_ = (long long)(a), b_ = (long long)(b);                  \
		if (a_ != b_) {                                                            \
			printf("    %s:%d: %s is %lld (0x%llx), not %s = %lld (0x%llx)\n", \
			       __FILE__, __LINE__, #a, a_, (unsigned long long)a_, #b, b_, \
			       (unsigned long long)b_);                                    \
			g_failures++;                                                      \
		}                                                                          \
	} while (0)

/* A new address space with @code at CODE (read, execute), data and stack; registers at its start.
 * False: it failed, and that was said. */
bool guest_new(struct guest *g, const char *code, const char *code_end);
#define GUEST(g, blob) guest_new(g, blob, blob##_end)
void guest_free(struct guest *g);
/* Runs until the next trap. */
void guest_run(struct guest *g);
/* Runs and checks that it stops with syscall @nr. */
void guest_expect(struct guest *g, uint64_t nr);
void guest_map(struct guest *g, uint64_t addr, uint64_t size, uint32_t prot);
uint64_t guest_word(struct guest *g, uint64_t addr);
void guest_set_word(struct guest *g, uint64_t addr, uint64_t value);

/* Runs fn(arg) on a new fiber of @home. */
void spawn(void (*fn)(void *), void *arg, struct worker *home);
/* Lets others run until *flag is at least @value. */
void wait_count(const _Atomic unsigned *flag, unsigned value);
void sleep_ms(unsigned ms);
/* For what a busy machine may delay: longer only means a hang. */
#define PATIENCE_MS 60000

/* Processes of the host whose parent is @parent; up to @max pids. Number. */
unsigned children_of(pid_t parent, pid_t *pids, unsigned max);
/* The state letter in /proc/PID/stat; 0: no such process. */
char process_state(pid_t pid);
/* Waits until it has ended, perhaps as a zombie: who is killed may take a moment. */
void wait_for_end(pid_t pid);
/* The host process of @g. */
pid_t guest_pid(const struct guest *g);

struct smoke_test {
	const char *name;
	void (*fn)(void);
	const char *lacks; /* a platform that cannot pass it… */
	const char *why;
	const char *not_root; /* why root cannot see it, or NULL */
};

/* What tests must know of a platform's insides. */
struct smoke_stub {
	pid_t (*pid)(const struct guest *g);
	/* Does a stub have such a mapping above the guest's memory? */
	bool (*has_mapping)(uint64_t from, const char *prot);
	const struct smoke_test *tests;
	/* It keeps descriptors of what has ended for what will come. */
	bool keeps_fds;
	/* cpu_times is measured by the platform itself: time alone. */
	bool tells_time_only;
	/* An order that cannot fail is given with the next reply, and so to a process that has
	 * been killed. */
	bool defers;
	/* Each process takes a new descriptor of the keeper's. */
	bool fork_needs_keeper;
};
extern const struct smoke_stub g_smoke_ptrace, g_smoke_trap;
extern const struct smoke_stub *g_smoke; /* of g_pf */
/* Lists that end with name == NULL. */
extern const struct smoke_test g_tests_run[], g_tests_memory[], g_tests_life[];

#endif
