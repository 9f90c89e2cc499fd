/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: loader/elf.h and loader/script.h on arbitrary bytes. What holds for every plan is
 *asserted, so a wrong plan is found as a crash is.
 *
 *	make m=fuzz fuzz-build && build/fuzz/fuzz/fuzz_elf tests/fuzz/corpus/elf
 */
#include <stdlib.h>
#include <string.h>
#include "base/err.h"
#include "base/lx.h"
#include "loader/elf.h"
#include "loader/script.h"

#define MIN_ADDR ((uint64_t)0x10000)
#define LIMIT ((uint64_t)0x7ffff0000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
	const uint8_t *p;
	size_t size;
};

static ssize_t read_bytes(void *ctx, void *buf, size_t size, uint64_t offset)
{
	const struct bytes *b = ctx;

	if (offset >= b->size)
		return 0;
	size = MIN(size, b->size - (size_t)offset);
	memcpy(buf, b->p + offset, size);
	return (ssize_t)size;
}

static void check_segment(const struct elf_segment *s, uint64_t at)
{
	BUG_ON((s->addr | s->file_size | s->file_offset | s->anon_addr | s->anon_size) %
	       MOAT_PAGE_SIZE);
	BUG_ON(s->addr < at || s->anon_addr != s->addr + s->file_size);
	BUG_ON(s->anon_addr + s->anon_size > LIMIT || s->file_offset > (uint64_t)INT64_MAX);
	BUG_ON(s->zero_size && (s->zero_addr < s->addr || s->zero_size >= MOAT_PAGE_SIZE ||
				s->zero_addr + s->zero_size > s->anon_addr));
	BUG_ON(s->prot & ~(LX_PROT_READ | LX_PROT_WRITE | LX_PROT_EXEC));
}

static void try_elf(const struct elf_source *src)
{
	static char interp[LX_PATH_MAX];
	struct elf_image img;
	uint64_t at;

	if (elf_parse(src, MIN_ADDR, LIMIT, &img) != 0) {
		BUG_ON(img.segments != NULL);
		return;
	}
	at = img.dyn ? 0 : MIN_ADDR;
	for (unsigned i = 0; i < img.segment_count; i++) {
		check_segment(&img.segments[i], at);
		at = img.segments[i].anon_addr + img.segments[i].anon_size;
	}
	BUG_ON(at != img.high || img.low > img.high || img.entry >= LIMIT);
	BUG_ON(img.align < MOAT_PAGE_SIZE || (img.align & (img.align - 1)));
	if (img.interp_size && elf_read_interp(src, &img, interp) == 0)
		BUG_ON(strlen(interp) >= img.interp_size);
	elf_image_free(&img);
}

static void try_script(const uint8_t *data, size_t size)
{
	char head[SCRIPT_HEAD_SIZE] = {0};
	struct script_line l;

	memcpy(head, data, MIN(size, sizeof(head)));
	if (!script_is(head) || script_parse(head, &l) != 0)
		return;
	BUG_ON(strlen(l.interp) >= sizeof(l.interp) || strlen(l.arg) >= sizeof(l.arg));
	BUG_ON(strchr(l.interp, '\n') || strchr(l.interp, ' ') || strchr(l.interp, '\t'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes b = {data, size};
	struct elf_source src = {read_bytes, &b};

	try_elf(&src);
	try_script(data, size);
	return 0;
}
