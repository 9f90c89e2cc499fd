/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector state in the standard XSAVE format, which both platforms take from the host and give to
 * the sentry: 512 bytes of FXSAVE, a header of 64, then the features.
 *
 * Features above PF_XSTATE_MAX (AMX's tile data) are hidden: a guest cannot ask the host for
 * permission to use them, so they are always in their initial state.
 *
 * Source: Intel SDM 1, 13.4; sigreturn(2).
 */
#ifndef MOAT_PLATFORM_XSTATE_H
#define MOAT_PLATFORM_XSTATE_H

#include <string.h>
#include "base/types.h"

#define XS_MXCSR 24
#define XS_MXCSR_MASK 28
#define XS_SW 464 /* software-reserved: the host puts the mask of features here */
#define XS_HEADER 512
#define XS_MIN 576
/* x87, SSE, AVX, the bits of AVX-512, PKRU. */
#define XS_FEATURES 0x2e7ull
/* Of processors that do not tell theirs. */
#define XS_MXCSR_MASK_DEFAULT 0xffbfu

static inline uint64_t xs_load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void xs_store64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* What is not zero in the first XS_MIN bytes of the initial state, into zeros. */
static inline void xs_put_initial(uint8_t *p)
{
	const uint16_t fcw = 0x37f;
	const uint32_t mxcsr = 0x1f80;

	/* xstate_bv = 0 means "initial" for all but MXCSR, which is always taken. */
	memcpy(p, &fcw, sizeof(fcw));
	memcpy(p + XS_MXCSR, &mxcsr, sizeof(mxcsr));
}

/* Is @p, of @size bytes, an area that a host with these would load? @full: the size of an area with
 * all its features. */
static inline bool xs_valid(const uint8_t *p, size_t size, uint64_t features, uint32_t mxcsr_mask,
			    size_t full)
{
	const uint64_t bv = xs_load64(p + XS_HEADER);
	uint32_t mxcsr;

	memcpy(&mxcsr, p + XS_MXCSR, sizeof(mxcsr));
	if ((mxcsr & ~mxcsr_mask) != 0 || (bv & ~features) != 0)
		return false;
	/* xcomp_bv: the compacted format; and the reserved rest of the header. */
	for (size_t i = 8; i < XS_MIN - XS_HEADER; i++) {
		if (p[XS_HEADER + i] != 0)
			return false;
	}
	/* A short area may only name features that it holds; where the others lie differs by
	 * processor. */
	return size >= full || (size >= 832 && (bv & ~7ull) == 0) || (bv & ~3ull) == 0;
}

#endif
