/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in for Criterion's newer assertions: cr_assert(eq(int, a, b)). See ../criterion.h.
 */
#ifndef MOAT_TESTS_PLAIN_CRITERION_NEW_ASSERT_H
#define MOAT_TESTS_PLAIN_CRITERION_NEW_ASSERT_H

#include "../criterion.h"

#define eq(type, a, b) PLAIN_EQ_##type(a, b)
#define ne(type, a, b) (!PLAIN_EQ_##type(a, b))
#define lt(type, a, b) ((a) < (b))
#define le(type, a, b) ((a) <= (b))
#define zero(type, a) PLAIN_ZERO_##type(a)
#define not(a) (!(a))

#define PLAIN_EQ_str(a, b) (strcmp((a), (b)) == 0)
#define PLAIN_EQ_i8(a, b) ((a) == (b))
#define PLAIN_EQ_i16(a, b) ((a) == (b))
#define PLAIN_EQ_i32(a, b) ((a) == (b))
#define PLAIN_EQ_i64(a, b) ((a) == (b))
#define PLAIN_EQ_u8(a, b) ((a) == (b))
#define PLAIN_EQ_u16(a, b) ((a) == (b))
#define PLAIN_EQ_u32(a, b) ((a) == (b))
#define PLAIN_EQ_u64(a, b) ((a) == (b))
#define PLAIN_EQ_sz(a, b) ((a) == (b))
#define PLAIN_EQ_ptr(a, b) ((const void *)(a) == (const void *)(b))
#define PLAIN_EQ_iptr(a, b) ((a) == (b))
#define PLAIN_EQ_uptr(a, b) ((a) == (b))
#define PLAIN_EQ_chr(a, b) ((a) == (b))
#define PLAIN_EQ_int(a, b) ((a) == (b))
#define PLAIN_EQ_uint(a, b) ((a) == (b))
#define PLAIN_EQ_long(a, b) ((a) == (b))
#define PLAIN_EQ_ulong(a, b) ((a) == (b))
#define PLAIN_EQ_llong(a, b) ((a) == (b))
#define PLAIN_EQ_ullong(a, b) ((a) == (b))

#define PLAIN_ZERO_str(a) (*(a) == 0)
#define PLAIN_ZERO_i32(a) ((a) == 0)
#define PLAIN_ZERO_i64(a) ((a) == 0)
#define PLAIN_ZERO_u32(a) ((a) == 0)
#define PLAIN_ZERO_u64(a) ((a) == 0)
#define PLAIN_ZERO_sz(a) ((a) == 0)
#define PLAIN_ZERO_ptr(a) ((a) == NULL)
#define PLAIN_ZERO_int(a) ((a) == 0)
#define PLAIN_ZERO_uint(a) ((a) == 0)
#define PLAIN_ZERO_long(a) ((a) == 0)
#define PLAIN_ZERO_ulong(a) ((a) == 0)

#endif
