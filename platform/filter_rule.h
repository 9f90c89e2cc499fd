/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the seccomp programs of stub processes let pass, as tables: from them the programs are made
 * (platform/stub_filter.c by libseccomp, platform/trap_filter.c by hand), the lists of
 * docs/SECURITY.md (platform/gen/host_doc.c), and the tests of the programs
 * (tests/unit/filter_model.c).
 *
 * A call passes if a rule with its number has all its tests true. A filter can look at the start of
 * a range only, not at its end; the sentry keeps ranges below PF_GUEST_LIMIT.
 */
#ifndef MOAT_PLATFORM_FILTER_RULE_H
#define MOAT_PLATFORM_FILTER_RULE_H

#include "base/types.h"

enum filter_kind {
	FILTER_IS,    /* the argument is @value */
	FILTER_IS32,  /* its low half is: for calls that take a 32-bit number */
	FILTER_BELOW, /* it is less than @value */
	FILTER_BITS,  /* masked by @mask it is @value */
	FILTER_RANGE, /* it is in [value, mask), which have the same high half: by trap alone */
	/* By the sentry alone: */
	FILTER_ONE_OF, /* masked by @mask it is one of @set */
	FILTER_PID,    /* it is in [1, FILTER_PID_END): one process, none of the groups that 0 and
			* less than 0 stand for */
};

struct filter_test {
	enum filter_kind kind;
	unsigned arg;
	uint64_t value, mask;
	const char *text; /* as in a document; NULL: no test */
	const uint64_t *set;
	unsigned count; /* of @set */
};

/* No process of the host's has a higher number (the host's PID_MAX_LIMIT). */
#define FILTER_PID_END (1u << 22)

/* Is the test true of the argument? For what compares programs with their tables. */
static inline bool filter_test_holds(const struct filter_test *t, uint64_t arg)
{
	switch (t->kind) {
	case FILTER_IS:
		return arg == t->value;
	case FILTER_IS32:
		return (uint32_t)arg == t->value;
	case FILTER_BELOW:
		return arg < t->value;
	case FILTER_BITS:
		return (arg & t->mask) == t->value;
	case FILTER_RANGE:
		return arg >= t->value && arg < t->mask;
	case FILTER_ONE_OF:
		for (unsigned i = 0; i < t->count; i++) {
			if ((arg & t->mask) == t->set[i])
				return true;
		}
		return false;
	case FILTER_PID:
		return (uint32_t)arg > 0 && (uint32_t)arg < FILTER_PID_END;
	}
	return false;
}

#define FILTER_TESTS_MAX 5
struct filter_rule {
	uint32_t nr;
	const char *name; /* of the call; NULL ends a table */
	const char *purpose;
	struct filter_test test[FILTER_TESTS_MAX];
};

#define RULE(call, purpose_, ...)                                                               \
	{                                                                                       \
		.nr = SYS_##call, .name = #call, .purpose = (purpose_), .test = { __VA_ARGS__ } \
	}
#define RULES_END \
	{         \
		0 \
	}

/* The value's own text is what a document shows. */
#define ARG_IS(n, label, v)                                      \
	{                                                        \
		FILTER_IS, (n), (uint64_t)(v), 0, label " = " #v \
	}
#define ARG_IS32(n, label, v)                                      \
	{                                                          \
		FILTER_IS32, (n), (uint32_t)(v), 0, label " = " #v \
	}
#define ARG_BELOW(n, label, v)                            \
	{                                                 \
		FILTER_BELOW, (n), (v), 0, label " < " #v \
	}
#define ARG_BITS(n, m, v, text_)                                      \
	{                                                             \
		FILTER_BITS, (n), (uint64_t)(v), (uint64_t)(m), text_ \
	}
#define ARG_ONE_OF(n, label, m, ...)                                                    \
	{                                                                               \
		FILTER_ONE_OF, (n), 0, (uint64_t)(m), label " is one of " #__VA_ARGS__, \
			(const uint64_t[]){__VA_ARGS__},                                \
			sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)      \
	}
#define ARG_PID(n, label)                                                          \
	{                                                                          \
		FILTER_PID, (n), 0, 0, label " > 0, as a 32-bit number: a process" \
	}
#define ARG_RANGE(n, first, end, text_)                  \
	{                                                \
		FILTER_RANGE, (n), (first), (end), text_ \
	}

/* What several rules have in common. */
#define BELOW_STUB(n, label) ARG_BELOW(n, label, PF_GUEST_LIMIT)
#define PROT_ONLY_RWX(n) \
	ARG_BITS(n, ~(uint64_t)(PROT_READ | PROT_WRITE | PROT_EXEC), 0, "prot: only R, W, X")
#define MAP_FLAGS_MAY (MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE)
#define MAP_FIXED_AND_PLAIN(n)                           \
	ARG_BITS(n, ~(uint64_t)MAP_FLAGS_MAY, MAP_FIXED, \
		 "flags: MAP_FIXED, and only SHARED, PRIVATE, ANONYMOUS, NORESERVE, POPULATE")

/* ptrace: processes that run guest code; the keeper and zygotes may make these as well. */
extern const struct filter_rule g_stub_guest_rules[];
extern const struct filter_rule g_stub_keeper_rules[];
/* Both: what the keeper does before it takes its filter; only for the document. */
extern const struct filter_rule g_stub_start_rules[];
/* trap: at the guest threads' one instruction; at the agent's; in the rest of the text. */
extern const struct filter_rule g_trap_guest_rules[];
extern const struct filter_rule g_trap_gate_rules[];
extern const struct filter_rule g_trap_agent_rules[];
extern const struct filter_rule g_trap_keeper_rules[];
/* What passes whatever the programs say: not for a filter. */
extern const struct filter_rule g_trap_unasked_rules[];
/* What a child of the keeper does there before it takes the agents' filter; not for a filter. */
extern const struct filter_rule g_trap_zygote_rules[];

#endif
