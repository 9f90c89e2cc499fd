/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The initial stack.
 *
 * From the top downwards: a word of zeros, the file name, the environment's strings, the arguments'
 * strings (ascending, so that argv[0] is lowest and /proc/PID/cmdline one piece), some random room,
 * the platform's name and 16 random bytes, then, at sp and ascending: argc, argv, NULL, envp, NULL,
 * the auxiliary vector.
 */
#include "loader/stack.h"
#include "base/alloc.h"
#include "base/err.h"

#include <errno.h>
#include <string.h>

static const char platform_name[] = "x86_64";

void stack_add_aux(struct stack_spec *s, uint64_t type, uint64_t value)
{
	BUG_ON(s->aux_count == STACK_AUX_MAX);
	s->aux[s->aux_count].type = type;
	s->aux[s->aux_count].value = value;
	s->aux_count++;
}

int stack_check_size(uint64_t argc, uint64_t envc, uint64_t bytes, uint64_t stack_rlimit)
{
	uint64_t limit = MIN((uint64_t)6 << 20, stack_rlimit / 4);
	uint64_t pointers = (MAX(argc, (uint64_t)1) + envc) * sizeof(uint64_t);

	limit = MAX(limit, (uint64_t)131072);
	if (limit <= pointers || bytes > limit - pointers)
		return -E2BIG;
	return 0;
}

/* The image while it is written: @at goes down from the top; bytes[] is the end of the stack. */
struct writer {
	struct stack_image *img;
	uint64_t top, at;
};

static void put(struct writer *w, uint64_t addr, const void *data, size_t size)
{
	memcpy(w->img->bytes + (addr - w->img->sp), data, size);
}

static uint64_t push(struct writer *w, const void *data, size_t size)
{
	w->at -= size;
	put(w, w->at, data, size);
	return w->at;
}

static void put_word(struct writer *w, uint64_t *at, uint64_t value)
{
	put(w, *at, &value, sizeof(value));
	*at += sizeof(value);
}

static uint64_t strings_size(const char *const *v, unsigned n)
{
	uint64_t size = 0;

	for (unsigned i = 0; i < n; i++)
		size += strlen(v[i]) + 1;
	return size;
}

/* Strings ascending from @addr, and their addresses as a NULL-terminated array at *table. */
static void put_strings(struct writer *w, uint64_t addr, const char *const *v, unsigned n,
			uint64_t *table)
{
	for (unsigned i = 0; i < n; i++) {
		size_t size = strlen(v[i]) + 1;

		put(w, addr, v[i], size);
		put_word(w, table, addr);
		addr += size;
	}
	put_word(w, table, 0);
}

static void add_auxv(struct stack_image *img, uint64_t type, uint64_t value)
{
	img->auxv[img->auxv_count++] = type;
	img->auxv[img->auxv_count++] = value;
}

int stack_build(const struct stack_spec *s, struct stack_image *out)
{
	uint64_t args = strings_size(s->argv, s->argc), envs = strings_size(s->envp, s->envc);
	uint64_t execfn_size = strlen(s->execfn) + 1, words, low, table, execfn, platform, random;
	struct writer w = {.img = out, .top = s->top};

	memset(out, 0, sizeof(*out));
	execfn = s->top - sizeof(uint64_t) - execfn_size;
	out->env_end = execfn;
	out->env_start = out->arg_end = out->env_end - envs;
	out->arg_start = out->arg_end - args;
	/* The lower part: platform, random bytes, then the tables, sp aligned. */
	low = (out->arg_start - s->shift) & ~(uint64_t)15;
	words = 1 + s->argc + 1 + s->envc + 1 + 2 * ((uint64_t)s->aux_count + 4);
	out->sp = (low - sizeof(platform_name) - sizeof(s->random) - words * sizeof(uint64_t)) &
		  ~(uint64_t)15;
	out->size = s->top - out->sp;
	out->bytes = mem_zalloc(out->size);
	if (!out->bytes)
		return -ENOMEM;

	put(&w, execfn, s->execfn, execfn_size);
	w.at = low;
	platform = push(&w, platform_name, sizeof(platform_name));
	random = push(&w, s->random, sizeof(s->random));
	for (unsigned i = 0; i < s->aux_count; i++)
		add_auxv(out, s->aux[i].type, s->aux[i].value);
	add_auxv(out, LX_AT_RANDOM, random);
	add_auxv(out, LX_AT_EXECFN, execfn);
	add_auxv(out, LX_AT_PLATFORM, platform);
	add_auxv(out, LX_AT_NULL, 0);

	table = out->sp;
	put_word(&w, &table, s->argc);
	put_strings(&w, out->arg_start, s->argv, s->argc, &table);
	put_strings(&w, out->env_start, s->envp, s->envc, &table);
	put(&w, table, out->auxv, out->auxv_count * sizeof(uint64_t));
	return 0;
}
