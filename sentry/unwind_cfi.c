/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information: read, checked, written anew. See sentry/unwind_cfi.h.
 *
 * Theory of operation: the CIE and the FDE are each copied once, whole. What compilers emit on
 * x86-64 is understood (32-bit lengths, versions 1 and 3, augmentations z, R, P, L, S, pointers
 * absolute or relative to their place); anything else is refused. Programs are kept as they are if
 * every instruction is on the list and has operands that no unwinder can stumble over: registers
 * that exist, expressions without branches, divisions and registers as results, whose stack never
 * runs over or under. As neither kind of program has a backward jump, their length bounds the work.
 *
 * A rule for the frame must be there before the first place to which a rule applies, since an
 * unwinder may stop at any.
 *
 * References: DWARF 5, 2.5 and 6.4; the LSB's description of .eh_frame; GDB's for 'S'.
 */
#include "sentry/unwind_cfi.h"

#include <string.h>

#include "base/alloc.h"

#define CIE_SIZE_MAX (CFI_PROGRAM_MAX + CFI_HEAD_MAX)
/* rax to r15, and the return address. */
#define REGISTERS 17u
#define RETURN_COLUMN 16u
#define EXPR_STACK_MAX 32u

/* Pointer encodings. */
#define PE_FORMAT 0x0fu
#define PE_APPL 0x70u
#define PE_PCREL 0x10u
#define PE_INDIRECT 0x80u
#define PE_OMIT 0xffu
#define PE_UDATA8 0x04u

struct bytes {
	const uint8_t *at, *end;
	uint64_t addr; /* of the guest's, of what is at end */
	bool bad;
};

struct cie {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool sized, signal_frame;
	const uint8_t *program;
	size_t program_size;
};

struct fde {
	uint64_t start, size;
	const uint8_t *program;
	size_t program_size;
};

/* ---- reading ---- */

static const uint8_t *take(struct bytes *b, uint64_t size)
{
	const uint8_t *p = b->at;

	if (b->bad || size > (uint64_t)(b->end - b->at)) {
		b->bad = true;
		return NULL;
	}
	b->at += size;
	return p;
}

static uint8_t u8(struct bytes *b)
{
	const uint8_t *p = take(b, 1);

	return p ? *p : 0;
}

static uint64_t fixed(struct bytes *b, unsigned size, bool is_signed)
{
	const uint8_t *p = take(b, size);
	uint64_t v = 0;

	if (!p)
		return 0;
	memcpy(&v, p, size);
	if (is_signed && size < 8 && p[size - 1] & 0x80)
		v |= ~(uint64_t)0 << (8 * size);
	return v;
}

static uint64_t leb(struct bytes *b, bool is_signed)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = u8(b);
		if (shift >= 64)
			b->bad = true;
		else
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !b->bad);
	if (is_signed && shift < 64 && byte & 0x40)
		v |= ~(uint64_t)0 << shift;
	return v;
}

static uint64_t uleb(struct bytes *b)
{
	return leb(b, false);
}

/* A pointer's number, without what it is relative to. */
static uint64_t encoded(struct bytes *b, uint8_t encoding)
{
	switch (encoding & PE_FORMAT) {
	case 0x00:
	case 0x04:
	case 0x0c:
		return fixed(b, 8, false);
	case 0x02:
		return fixed(b, 2, false);
	case 0x03:
		return fixed(b, 4, false);
	case 0x0a:
		return fixed(b, 2, true);
	case 0x0b:
		return fixed(b, 4, true);
	default:
		b->bad = true;
		return 0;
	}
}

/* ---- expressions ---- */

/* What an operation takes off the stack, what it puts on it, its operands: one character each,
 * 1 2 4 8 that many bytes, u a ULEB, s an SLEB, r a register. */
struct expr_op {
	uint8_t pops, pushes;
	const char *operands;
	bool known;
};

static const struct expr_op g_expr_ops[256] = {
	[0x03] = {0, 1, "8", true},          /* addr */
	[0x06] = {1, 1, "", true},           /* deref */
	[0x08 ... 0x09] = {0, 1, "1", true}, /* const1u const1s */
	[0x0a ... 0x0b] = {0, 1, "2", true}, /* const2 */
	[0x0c ... 0x0d] = {0, 1, "4", true}, /* const4 */
	[0x0e ... 0x0f] = {0, 1, "8", true}, /* const8 */
	[0x10] = {0, 1, "u", true},          /* constu */
	[0x11] = {0, 1, "s", true},          /* consts */
	[0x12] = {1, 2, "", true},           /* dup */
	[0x13] = {1, 0, "", true},           /* drop */
	[0x14] = {2, 3, "", true},           /* over */
	[0x16] = {2, 2, "", true},           /* swap */
	[0x17] = {3, 3, "", true},           /* rot */
	[0x19] = {1, 1, "", true},           /* abs */
	[0x1a] = {2, 1, "", true},           /* and */
	[0x1c] = {2, 1, "", true},           /* minus */
	[0x1e] = {2, 1, "", true},           /* mul */
	[0x1f ... 0x20] = {1, 1, "", true},  /* neg not */
	[0x21 ... 0x22] = {2, 1, "", true},  /* or plus */
	[0x23] = {1, 1, "u", true},          /* plus_uconst */
	[0x24 ... 0x27] = {2, 1, "", true},  /* shl shr shra xor */
	[0x29 ... 0x2e] = {2, 1, "", true},  /* eq ge gt le lt ne */
	[0x30 ... 0x4f] = {0, 1, "", true},  /* lit */
	[0x70 ... 0x80] = {0, 1, "s", true}, /* breg0 to breg16 */
	[0x92] = {0, 1, "rs", true},         /* bregx */
	[0x96] = {0, 0, "", true},           /* nop */
};

static void expr_operand(struct bytes *b, char kind)
{
	if (kind == 'r') {
		if (uleb(b) >= REGISTERS)
			b->bad = true;
	} else if (kind == 'u' || kind == 's') {
		(void)leb(b, kind == 's');
	} else {
		(void)take(b, (uint64_t)(kind - '0'));
	}
}

/* A block: its length, and an expression that begins with one value on its stack. */
static void check_expr(struct bytes *b)
{
	const uint64_t size = uleb(b);
	const uint8_t *p = take(b, size);
	struct bytes e = {.at = p, .end = p ? p + size : NULL};
	unsigned depth = 1;

	while (!b->bad && e.at < e.end) {
		const struct expr_op *op = &g_expr_ops[u8(&e)];

		for (const char *k = op->operands; k && *k; k++)
			expr_operand(&e, *k);
		if (!op->known || e.bad || depth < op->pops ||
		    depth - op->pops + op->pushes > EXPR_STACK_MAX)
			b->bad = true;
		else
			depth = depth - op->pops + op->pushes;
	}
	if (depth == 0)
		b->bad = true;
}

/* ---- programs ---- */

struct program_state {
	bool frame; /* has a rule */
	unsigned remembered;
};

static void check_register(struct bytes *b)
{
	if (uleb(b) >= REGISTERS)
		b->bad = true;
}

static void check_place(struct bytes *b, const struct program_state *s)
{
	if (!s->frame)
		b->bad = true;
}

static void check_instruction(struct bytes *b, struct program_state *s)
{
	const uint8_t op = u8(b);

	switch (op & 0xc0) {
	case 0x40: /* advance_loc */
		check_place(b, s);
		return;
	case 0x80: /* offset */
		(void)uleb(b);
		__attribute__((fallthrough));
	case 0xc0: /* restore */
		if ((op & 0x3f) >= REGISTERS)
			b->bad = true;
		return;
	default:
		break;
	}
	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x02: /* advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		check_place(b, s);
		(void)take(b, (uint64_t)1 << (op - 0x02));
		break;
	case 0x05: /* offset_extended */
	case 0x11: /* offset_extended_sf */
	case 0x2f: /* GNU_negative_offset_extended */
		check_register(b);
		(void)uleb(b);
		break;
	case 0x06: /* restore_extended */
	case 0x07: /* undefined */
	case 0x08: /* same_value */
		check_register(b);
		break;
	case 0x09: /* register */
		check_register(b);
		check_register(b);
		break;
	case 0x0a: /* remember_state */
		check_place(b, s);
		if (++s->remembered > CFI_REMEMBER_MAX)
			b->bad = true;
		break;
	case 0x0b: /* restore_state */
		if (s->remembered-- == 0)
			b->bad = true;
		break;
	case 0x0c: /* def_cfa */
	case 0x12: /* def_cfa_sf */
		check_register(b);
		(void)uleb(b);
		s->frame = true;
		break;
	case 0x0d: /* def_cfa_register */
		check_place(b, s);
		check_register(b);
		break;
	case 0x0e: /* def_cfa_offset */
	case 0x13: /* def_cfa_offset_sf */
		check_place(b, s);
		(void)uleb(b);
		break;
	case 0x0f: /* def_cfa_expression */
		check_expr(b);
		s->frame = true;
		break;
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		check_register(b);
		check_expr(b);
		break;
	case 0x2e: /* GNU_args_size */
		(void)uleb(b);
		break;
	default:
		b->bad = true;
	}
}

static bool check_program(const uint8_t *p, size_t size, struct program_state *s)
{
	struct bytes b = {.at = p, .end = p + size};

	s->remembered = 0;
	while (!b.bad && b.at < b.end)
		check_instruction(&b, s);
	return !b.bad;
}

/* ---- entries ---- */

/* Reads the entry at @addr, but for its length and what comes next, which says what it is. */
static bool read_entry(const struct cfi_source *src, uint64_t addr, uint8_t *buf, size_t room,
		       struct bytes *b, uint32_t *id)
{
	uint32_t head[2];

	if (!src->read(src->ctx, head, addr, sizeof(head)) || head[0] < sizeof(head[1]))
		return false;
	head[0] -= (uint32_t)sizeof(head[1]);
	if (head[0] > room || !src->read(src->ctx, buf, addr + sizeof(head), head[0]))
		return false;
	*b = (struct bytes){.at = buf, .end = buf + head[0], .addr = addr + sizeof(head) + head[0]};
	*id = head[1];
	return true;
}

static bool parse_cie(struct bytes *b, struct cie *c)
{
	const uint8_t version = u8(b);
	const char *aug = (const char *)b->at;
	const uint8_t *end;
	uint64_t size;

	*c = (struct cie){.encoding = 0};
	while (u8(b) && !b->bad)
		;
	if (b->bad || (version != 1 && version != 3))
		return false;
	c->code_align = uleb(b);
	c->data_align = (int64_t)leb(b, true);
	if ((version == 1 ? u8(b) : uleb(b)) != RETURN_COLUMN)
		return false;
	c->sized = *aug == 'z';
	if (!c->sized && *aug)
		return false;
	if (c->sized) {
		size = uleb(b);
		end = b->at;
		if (!take(b, size))
			return false;
		b->at = end;
		end += size;
		for (aug++; *aug; aug++) {
			if (*aug == 'R') {
				c->encoding = u8(b);
			} else if (*aug == 'L') {
				(void)u8(b);
			} else if (*aug == 'P') {
				const uint8_t e = u8(b);

				if (e != PE_OMIT)
					(void)encoded(b, e);
			} else if (*aug == 'S') {
				c->signal_frame = true;
			} else {
				return false;
			}
		}
		if (b->bad || b->at > end)
			return false;
		b->at = end;
	}
	c->program = b->at;
	c->program_size = (size_t)(b->end - b->at);
	return !b->bad && c->program_size <= CFI_PROGRAM_MAX &&
	       ((c->encoding & PE_APPL) == 0 || (c->encoding & PE_APPL) == PE_PCREL) &&
	       !(c->encoding & PE_INDIRECT);
}

static bool parse_fde(struct bytes *b, const struct cie *c, struct fde *f)
{
	const uint64_t at = b->addr - (uint64_t)(b->end - b->at);

	f->start = encoded(b, c->encoding);
	/* Zero is zero. */
	if (f->start && c->encoding & PE_PCREL)
		f->start += at;
	f->size = encoded(b, c->encoding & PE_FORMAT);
	if (c->sized)
		(void)take(b, uleb(b));
	f->program = b->at;
	f->program_size = (size_t)(b->end - b->at);
	return !b->bad && f->program_size <= CFI_PROGRAM_MAX && f->start + f->size >= f->start;
}

/* The FDE at @addr and its CIE; @cie_buf and @fde_buf hold their bytes. */
static bool read_pair(const struct cfi_source *src, uint64_t addr, uint8_t *cie_buf,
		      uint8_t *fde_buf, struct cie *c, struct fde *f)
{
	struct bytes b, cb;
	uint32_t back, id;

	return read_entry(src, addr, fde_buf, CIE_SIZE_MAX, &b, &back) && back != 0 &&
	       read_entry(src, addr + 4 - back, cie_buf, CIE_SIZE_MAX, &cb, &id) && id == 0 &&
	       parse_cie(&cb, c) && parse_fde(&b, c, f);
}

/* ---- writing ---- */

static void put(struct cfi_own *own, const void *p, size_t size)
{
	memcpy(own->bytes + own->size, p, size);
	own->size += (uint32_t)size;
}

static void put_leb(struct cfi_own *own, uint64_t v, bool is_signed)
{
	bool more = true;

	while (more) {
		uint8_t byte = v & 0x7f;
		const uint64_t rest = is_signed ? (uint64_t)((int64_t)v >> 7) : v >> 7;

		more = is_signed ? rest != (byte & 0x40 ? ~(uint64_t)0 : 0) : rest != 0;
		if (more)
			byte |= 0x80;
		put(own, &byte, 1);
		v = rest;
	}
}

/* The length of the entry that begins at @at. */
static void put_length(struct cfi_own *own, uint32_t at)
{
	const uint32_t size = own->size - at - (uint32_t)sizeof(size);

	memcpy(own->bytes + at, &size, sizeof(size));
}

static void write_pair(struct cfi_own *own, const struct cie *c, const struct fde *f)
{
	static const uint8_t zero[8];
	const char *aug = c->signal_frame ? "zRS" : "zR";
	uint32_t back;

	own->size = 0;
	put(own, zero, 8); /* length, id */
	put(own, (const uint8_t[]){1}, 1);
	put(own, aug, strlen(aug) + 1);
	put_leb(own, c->code_align, false);
	put_leb(own, (uint64_t)c->data_align, true);
	put(own, (const uint8_t[]){RETURN_COLUMN, 1, PE_UDATA8}, 3);
	put(own, c->program, c->program_size);
	put_length(own, 0);

	own->fde = own->size;
	back = own->size + 4;
	put(own, zero, 4);
	put(own, &back, sizeof(back));
	put(own, &f->start, sizeof(f->start));
	put(own, &f->size, sizeof(f->size));
	put(own, zero, 1);
	put(own, f->program, f->program_size);
	put_length(own, own->fde);
	/* Whoever reads words, or a marker behind the program, finds zeros. */
	memset(own->bytes + own->size, 0, MIN((size_t)16, sizeof(own->bytes) - own->size));
}

/* ---- for others ---- */

uint8_t cfi_encoding(const struct cfi_source *src, uint64_t addr)
{
	uint8_t buf[256];
	struct bytes b;
	struct cie c;
	uint32_t id;

	return read_entry(src, addr, buf, sizeof(buf), &b, &id) && id == 0 && parse_cie(&b, &c)
		       ? c.encoding
		       : PE_OMIT;
}

bool cfi_take(const struct cfi_source *src, uint64_t addr, uint64_t ip, struct cfi_own *own)
{
	struct program_state s = {.frame = false};
	uint8_t *buf = mem_zalloc(2 * (size_t)CIE_SIZE_MAX);
	struct cie c;
	struct fde f;
	bool ok;

	ok = buf && read_pair(src, addr, buf, buf + CIE_SIZE_MAX, &c, &f) && ip >= f.start &&
	     ip - f.start < f.size && check_program(c.program, c.program_size, &s) &&
	     check_program(f.program, f.program_size, &s) && s.frame;
	if (ok)
		write_pair(own, &c, &f);
	mem_free(buf);
	return ok;
}
