/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seccomp programs against their tables. See tests/unit/filter_model.h.
 */
#include "tests/unit/filter_model.h"

#include <criterion/criterion.h>
#include <linux/filter.h>
#include <string.h>

uint32_t filter_run(const void *insns, size_t count, const struct seccomp_data *data)
{
	uint32_t acc = 0;

	for (size_t pc = 0; pc < count; pc++) {
		struct sock_filter f;

		memcpy(&f, (const char *)insns + pc * sizeof(f), sizeof(f));
		switch (f.code) {
		case BPF_LD | BPF_W | BPF_ABS:
			cr_assert(f.k + 4 <= sizeof(*data) && f.k % 4 == 0);
			memcpy(&acc, (const char *)data + f.k, 4);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			acc &= f.k;
			break;
		case BPF_JMP | BPF_JA:
			pc += f.k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += acc == f.k ? f.jt : f.jf;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			pc += acc > f.k ? f.jt : f.jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += acc >= f.k ? f.jt : f.jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += acc & f.k ? f.jt : f.jf;
			break;
		case BPF_RET | BPF_K:
			return f.k;
		default:
			cr_assert_fail("instruction %zu has code %x", pc, f.code);
		}
	}
	cr_assert_fail("the program has no end");
	return 0;
}

static unsigned test_count(const struct filter_rule *r)
{
	unsigned n = 0;

	while (n < FILTER_TESTS_MAX && r->test[n].text)
		n++;
	return n;
}

bool filter_says(const struct filter_rule *const tables[], uint32_t nr, const uint64_t arg[6])
{
	for (; *tables; tables++) {
		for (const struct filter_rule *r = *tables; r->name; r++) {
			bool all = r->nr == nr;

			for (unsigned i = 0; all && i < test_count(r); i++)
				all = filter_test_holds(&r->test[i], arg[r->test[i].arg]);
			if (all)
				return true;
		}
	}
	return false;
}

/* A value that the test lets pass: the first, or the last. */
static uint64_t sample(const struct filter_test *t, bool last)
{
	switch (t->kind) {
	case FILTER_IS:
		return t->value;
	case FILTER_IS32:
		return last ? t->value | 0xdeadbeef00000000 : t->value;
	case FILTER_BELOW:
		return last ? t->value - 1 : 0;
	case FILTER_BITS:
		return last ? t->value | ~t->mask : t->value;
	case FILTER_RANGE:
		return last ? t->mask - 1 : t->value;
	case FILTER_ONE_OF:
		return last ? t->set[t->count - 1] | ~t->mask : t->set[0];
	case FILTER_PID:
		return last ? FILTER_PID_END - 1 : 1;
	}
	return 0;
}

static void expect(const struct filter_rule *const tables[],
		   bool (*passes)(uint32_t nr, const uint64_t arg[6]), uint32_t nr,
		   const uint64_t arg[6])
{
	const bool want = filter_says(tables, nr, arg);

	cr_expect_eq(passes(nr, arg), want, "call %u (%lx, %lx, %lx, %lx, %lx, %lx): %s", nr,
		     arg[0], arg[1], arg[2], arg[3], arg[4], arg[5],
		     want ? "is refused" : "is let pass");
}

/* Moves the argument of @t; says whether some of what comes of it is to be refused. */
static bool check_near(const struct filter_rule *const tables[],
		       bool (*passes)(uint32_t nr, const uint64_t arg[6]),
		       const struct filter_rule *r, const struct filter_test *t,
		       const uint64_t good[6])
{
	const uint64_t edge[] = {0,
				 1,
				 t->value - 1,
				 t->value,
				 t->value + 1,
				 t->mask - 1,
				 t->mask,
				 t->mask + 1,
				 UINT32_MAX,
				 1ull << 32,
				 FILTER_PID_END - 1,
				 FILTER_PID_END,
				 1ull << 63,
				 UINT64_MAX};
	bool refused = false;
	uint64_t arg[6];

	memcpy(arg, good, sizeof(arg));
	for (unsigned i = 0; i < 64 + ARRAY_SIZE(edge); i++) {
		arg[t->arg] = i < 64 ? good[t->arg] ^ 1ull << i : edge[i - 64];
		expect(tables, passes, r->nr, arg);
		refused |= !filter_says(tables, r->nr, arg);
	}
	for (unsigned i = 0; i < 3 * t->count; i++) {
		arg[t->arg] = t->set[i / 3] + i % 3 - 1;
		expect(tables, passes, r->nr, arg);
		refused |= !filter_says(tables, r->nr, arg);
	}
	return refused;
}

static void check_rule(const struct filter_rule *const tables[],
		       bool (*passes)(uint32_t nr, const uint64_t arg[6]),
		       const struct filter_rule *r, bool last)
{
	/* What no test looks at may be anything. */
	uint64_t arg[6] = {0xa0a0a0a0a0a0a0a0, 0, UINT64_MAX, 0x7fff12345678, 5, 1ull << 40};

	for (unsigned i = 0; i < test_count(r); i++)
		arg[r->test[i].arg] = sample(&r->test[i], last);
	cr_expect(filter_says(tables, r->nr, arg));
	cr_expect(passes(r->nr, arg), "%s: a call that its own rule describes is refused", r->name);
	for (unsigned i = 0; i < test_count(r); i++)
		cr_expect(check_near(tables, passes, r, &r->test[i], arg),
			  "%s: nothing depends on the test \"%s\"", r->name, r->test[i].text);
	for (uint32_t nr = 0; nr < 600; nr++) {
		expect(tables, passes, nr, arg);
		expect(tables, passes, nr | 0x40000000, arg); /* x32 */
	}
	expect(tables, passes, UINT32_MAX, arg);
}

void filter_check(const struct filter_rule *const tables[],
		  bool (*passes)(uint32_t nr, const uint64_t arg[6]))
{
	for (unsigned i = 0; tables[i]; i++) {
		for (const struct filter_rule *r = tables[i]; r->name; r++) {
			check_rule(tables, passes, r, false);
			check_rule(tables, passes, r, true);
		}
	}
}
