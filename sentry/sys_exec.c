/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execve and execveat: their arguments.
 *
 * Theory of operation: the strings are copied into one growing block, then the vectors of pointers
 * into it are made. A copy stops as soon as execve's limit is passed, so a guest cannot make the
 * sentry copy without end. Most strings lie one behind the other, so they are read through a window
 * of guest memory, not each by a copy of its own.
 *
 * References: execve(2), execveat(2), "Limits on size of arguments and environment".
 */
#include "sentry/exec_image.h"
#include "loader/stack.h"
#include "sentry/file_args.h"
#include "sentry/syscall.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LX_AT_EXECVE_CHECK 0x10000
#define POINTER_CHUNK 256

/* A piece of guest memory that was read. */
struct window {
	uint64_t addr, size;
	char bytes[MOAT_PAGE_SIZE];
};

struct strings {
	char *block;
	size_t used, room;
	size_t *offsets; /* of each string in block */
	unsigned count, offset_room;
	uint64_t argc;        /* of them */
	uint64_t stack_limit; /* RLIMIT_STACK */
	struct window *win;
};

/* Makes the window cover @addr. 0 or -EFAULT. */
static int window_at(struct task *t, struct window *w, uint64_t addr)
{
	uint64_t want = MOAT_PAGE_SIZE - addr % MOAT_PAGE_SIZE;

	if (addr >= w->addr && addr - w->addr < w->size)
		return 0;
	if (copy_in(t, w->bytes, GADDR(addr), want))
		return -EFAULT;
	w->addr = addr;
	w->size = want;
	return 0;
}

static int grow_block(struct strings *s, size_t more)
{
	size_t room = MAX(s->room * 2, (size_t)16384);
	char *p;

	if (s->room - s->used >= more)
		return 0;
	while (room - s->used < more)
		room *= 2;
	p = mem_realloc(s->block, room);
	if (!p)
		return -ENOMEM;
	s->block = p;
	s->room = room;
	return 0;
}

static int note_offset(struct strings *s)
{
	if (s->count == s->offset_room) {
		unsigned room = MAX(s->offset_room * 2, 256u);
		size_t *p = mem_realloc(s->offsets, room * sizeof(*p));

		if (!p)
			return -ENOMEM;
		s->offsets = p;
		s->offset_room = room;
	}
	s->offsets[s->count++] = s->used;
	return 0;
}

/* Copies the string at @addr. -EFAULT, -E2BIG, -ENOMEM. */
static int copy_string(struct task *t, struct strings *s, uint64_t addr)
{
	uint64_t length = 0;
	int r = note_offset(s);

	if (r)
		return r;
	for (;;) {
		size_t at, n;
		const char *nul;

		r = window_at(t, s->win, addr);
		if (r)
			return r;
		at = addr - s->win->addr;
		n = s->win->size - at;
		nul = memchr(s->win->bytes + at, 0, n);
		if (nul)
			n = (size_t)(nul - (s->win->bytes + at)) + 1;
		length += n;
		if (length > STACK_MAX_STRING)
			return -E2BIG;
		r = grow_block(s, n);
		if (r)
			return r;
		memcpy(s->block + s->used, s->win->bytes + at, n);
		s->used += n;
		if (nul)
			return stack_check_size(s->argc ? s->argc : s->count,
						s->argc ? s->count - s->argc : 0, s->used,
						s->stack_limit);
		addr += n;
	}
}

/* Copies a vector of strings. A NULL vector is an empty one. */
static int copy_vector(struct task *t, struct strings *s, gaddr_t vec)
{
	uint64_t pointers[POINTER_CHUNK];

	if (!vec.a)
		return 0;
	for (;;) {
		/* No further than the page: what follows the NULL need not be there. */
		uint64_t n =
			MIN((MOAT_PAGE_SIZE - vec.a % MOAT_PAGE_SIZE) / 8, (uint64_t)POINTER_CHUNK);

		n = MAX(n, (uint64_t)1);
		if (copy_in(t, pointers, vec, n * 8))
			return -EFAULT;
		for (uint64_t i = 0; i < n; i++) {
			int r;

			if (!pointers[i])
				return 0;
			r = copy_string(t, s, pointers[i]);
			if (r)
				return r;
		}
		vec.a += n * 8;
	}
}

static void strings_free(struct strings *s)
{
	mem_free(s->block);
	mem_free(s->offsets);
	mem_free(s->win);
}

/* argv and envp as kernel vectors: *vec is one array for both, argv first. */
static int make_vectors(const struct strings *s, char ***vec)
{
	char **v = mem_calloc((size_t)s->count + 2, sizeof(*v));
	unsigned n = 0;

	if (!v)
		return -ENOMEM;
	for (unsigned i = 0; i < s->count; i++) {
		if (i == s->argc)
			n++; /* the NULL between them */
		v[n++] = s->block + s->offsets[i];
	}
	*vec = v;
	return 0;
}

static int copy_arguments(struct task *t, struct strings *s, gaddr_t argv, gaddr_t envp)
{
	int r;

	s->stack_limit = rlimit_get(t->tg, LX_RLIMIT_STACK);
	s->win = mem_zalloc(sizeof(*s->win));
	if (!s->win)
		return -ENOMEM;
	r = copy_vector(t, s, argv);
	s->argc = s->count;
	return r ? r : copy_vector(t, s, envp);
}

static long do_exec(struct task *t, struct file *file, const char *path, bool path_closes,
		    gaddr_t argv, gaddr_t envp, bool check_only)
{
	struct strings s = {0};
	char **vec = NULL;
	int r;

	r = copy_arguments(t, &s, argv, envp);
	if (r == 0)
		r = make_vectors(&s, &vec);
	if (r == 0 && !check_only) {
		struct exec_request req = {.file = file,
					   .path = path,
					   .argv = vec,
					   .envp = vec + s.argc + 1,
					   .argc = (unsigned)s.argc,
					   .envc = s.count - (unsigned)s.argc,
					   .path_closes = path_closes};

		r = task_exec(t, &req, false, NULL);
	}
	mem_free(vec);
	strings_free(&s);
	return r;
}

/* The name that the program is told it was run by. */
static int exec_name(int dirfd, const struct at_path *p, char *buf)
{
	int n;

	if (!p->dir)
		n = snprintf(buf, LX_PATH_MAX, "%s", p->name);
	else if (!*p->name)
		n = snprintf(buf, LX_PATH_MAX, "/dev/fd/%d", dirfd);
	else
		n = snprintf(buf, LX_PATH_MAX, "/dev/fd/%d/%s", dirfd, p->name);
	return n < LX_PATH_MAX ? 0 : -ENAMETOOLONG;
}

long sys_execveat(struct task *t, int dirfd, gaddr_t filename, gaddr_t argv, gaddr_t envp,
		  int flags)
{
	struct at_path p = {0};
	struct file *file = NULL;
	char *name = mem_zalloc(LX_PATH_MAX);
	bool closes;
	long r;

	if (!name)
		return -ENOMEM;
	r = at_path_get(t, dirfd, filename, flags & LX_AT_EMPTY_PATH ? AT_EMPTY_OK : AT_EMPTY_NO,
			&p);
	if (r == 0 && (flags & ~(LX_AT_EMPTY_PATH | LX_AT_SYMLINK_NOFOLLOW | LX_AT_EXECVE_CHECK)))
		r = -EINVAL;
	if (r == 0)
		r = exec_open(t, at_path_start(&p), p.name, (unsigned)flags, &file);
	if (r == 0)
		r = exec_name(dirfd, &p, name);
	if (r == 0) {
		closes = p.dir && (fd_get_flags(t->files, dirfd) & (int)FD_CLOEXEC_FLAG);
		r = do_exec(t, file, name, closes, argv, envp, flags & LX_AT_EXECVE_CHECK);
	}
	if (file)
		file_put(file);
	at_path_put(&p);
	mem_free(name);
	return r;
}

long sys_execve(struct task *t, gaddr_t filename, gaddr_t argv, gaddr_t envp)
{
	return sys_execveat(t, LX_AT_FDCWD, filename, argv, envp, 0);
}
