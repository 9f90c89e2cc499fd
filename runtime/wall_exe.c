/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry runs from a sealed copy of moat, so that no /proc/PID/exe of its leads to the host's
 * file (which root's sentry would own: it could be made writable, or set-user-id, for whoever
 * starts moat next).
 *
 * Theory of operation: to exec a copy would cost a second start, a millisecond. Instead the monitor
 * writes its own text and constants to a sealed memfd while the sentry mounts its root; the sentry
 * maps that over them, makes anonymous memory of what relocation and initialisation have written
 * (.data, .got), and, when nothing of the old file is mapped any more, has the kernel take the
 * memfd for the file that it runs from (PR_SET_MM_MAP). Only for a process with one thread.
 *
 * References: prctl(2) PR_SET_MM_MAP; elf(5).
 */
#include "runtime/wall.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/sanitizer.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

/* Not where instrumentation keeps account of mappings or reads its own file. */
#ifdef MOAT_COVERAGE
#define CAN_MOVE false
#else
#define CAN_MOVE (!(MOAT_ASAN | MOAT_TSAN))
#endif

static struct {
	uintptr_t arg_start, arg_end, env_start, env_end;
} g_args;

static uintptr_t text_end(const char *s)
{
	return (uintptr_t)s + strlen(s) + 1;
}

void wall_arguments(int argc, char **argv)
{
	char **env = environ;

	if (argc < 1)
		return;
	g_args.arg_start = (uintptr_t)argv[0];
	g_args.arg_end = text_end(argv[argc - 1]);
	g_args.env_start = g_args.env_end = g_args.arg_end;
	while (env && *env)
		g_args.env_end = text_end(*env++);
}

/* ---- the segments ---- */

struct segment {
	uintptr_t start, end; /* whole pages that are mapped from the file */
	uint64_t offset;      /* in the file, and so in the copy */
	int prot;
};

static uintptr_t page_floor(uintptr_t a)
{
	return a & ~(uintptr_t)(MOAT_PAGE_SIZE - 1);
}

static uintptr_t page_ceil(uintptr_t a)
{
	return page_floor(a + MOAT_PAGE_SIZE - 1);
}

#define SEGMENTS_MAX 8

/* The program's mappings of its file, as the kernel and the dynamic loader have left them. */
static unsigned find_segments(struct segment s[SEGMENTS_MAX])
{
	const Elf64_Phdr *ph = (const Elf64_Phdr *)getauxval(AT_PHDR), *relro = NULL;
	const size_t count = getauxval(AT_PHNUM);
	uintptr_t base = 0;
	unsigned n = 0;

	for (size_t i = 0; i < count; i++) {
		if (ph[i].p_type == PT_PHDR)
			base = (uintptr_t)ph - ph[i].p_vaddr;
		else if (ph[i].p_type == PT_GNU_RELRO)
			relro = &ph[i];
	}
	for (size_t i = 0; i < count; i++) {
		const Elf64_Phdr *p = &ph[i];
		const uintptr_t start = page_floor(base + p->p_vaddr);
		const uintptr_t end = page_ceil(base + p->p_vaddr + p->p_filesz);
		const uintptr_t split =
			relro ? page_floor(base + relro->p_vaddr + relro->p_memsz) : 0;

		if (p->p_type != PT_LOAD)
			continue;
		if (n + 2 > SEGMENTS_MAX || base == 0)
			return 0;
		s[n] = (struct segment){.start = start,
					.end = end,
					.offset = page_floor(p->p_offset),
					.prot = (p->p_flags & PF_R ? PROT_READ : 0) |
						(p->p_flags & PF_W ? PROT_WRITE : 0) |
						(p->p_flags & PF_X ? PROT_EXEC : 0)};
		n++;
		if ((p->p_flags & PF_W) && split > start && split < end) {
			s[n] = s[n - 1];
			s[n - 1].end = s[n].start = split;
			s[n - 1].prot = PROT_READ;
			/* Both are copied, and not from the file. */
			n++;
		}
	}
	return n;
}

/* Is it as the file has it? (Relocation has written to the others, even if they are read-only.) */
static bool is_constant(const struct segment *s, unsigned i, unsigned n)
{
	/* The part that relocation has written to lies before the writable one. */
	return !(s[i].prot & PROT_WRITE) &&
	       !(i + 1 < n && (s[i + 1].prot & PROT_WRITE) && s[i + 1].start == s[i].end);
}

/* ---- the monitor ---- */

void wall_exe_new(struct wall *w)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;

	if (!CAN_MOVE) {
		wall_lacks(w, WALL_SEALED, "this build is instrumented");
		return;
	}
	w->image = HOST(memfd_create_monitor, memfd_create("moat", flags | MFD_EXEC));
	if (w->image < 0 && errno == EINVAL) /* a host before Linux 6.3 */
		w->image = HOST(memfd_create_monitor, memfd_create("moat", flags));
	if (w->image < 0)
		wall_lacks(w, WALL_SEALED, "memfd_create: %s; allow it for moat", err_text(errno));
}

static bool write_all(int fd, uintptr_t from, size_t size, uint64_t offset)
{
	for (size_t done = 0; done < size;) {
		const ssize_t n =
			HOST(pwrite64_monitor, pwrite(fd, (const char *)from + done, size - done,
						      (off_t)(offset + done)));

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

bool wall_exe_fill(struct wall *w)
{
	struct segment s[SEGMENTS_MAX];
	const unsigned n = find_segments(s);
	bool ok = w->image >= 0 && n > 0;

	for (unsigned i = 0; ok && i < n; i++) {
		if (is_constant(s, i, n))
			ok = write_all(w->image, s[i].start, s[i].end - s[i].start, s[i].offset);
	}
	if (ok)
		ok = HOST(fcntl_monitor, fcntl(w->image, F_ADD_SEALS,
					       F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)) == 0;
	/* Since Linux 6.3. */
	if (ok)
		(void)HOST(fcntl_monitor, fcntl(w->image, F_ADD_SEALS, F_SEAL_EXEC));
	ok = ok && HOST(fcntl_monitor, fcntl(w->image, F_ADD_SEALS, F_SEAL_SEAL)) == 0;
	if (w->image >= 0)
		HOST(close_monitor, close(w->image));
	return ok;
}

/* ---- the sentry ---- */

/* Nothing may write to the range meanwhile: one thread, no signals, and this is all it does. */
static int replace_by_copy(const struct segment *s)
{
	const size_t size = s->end - s->start;
	void *p = HOST(mmap_wall, mmap(NULL, size, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));

	if (p == MAP_FAILED)
		return -errno;
	memcpy(p, (const void *)s->start, size);
	if (!(s->prot & PROT_WRITE) && HOST(mprotect_wall, mprotect(p, size, PROT_READ)) < 0)
		return -errno;
	if (HOST(mremap_wall, mremap(p, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
				     (void *)s->start)) == MAP_FAILED)
		return -errno;
	return 0;
}

static int replace_all(int image)
{
	struct segment s[SEGMENTS_MAX];
	const unsigned n = find_segments(s);
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n; i++) {
		if (!is_constant(s, i, n))
			r = replace_by_copy(&s[i]);
		else if (HOST(mmap_wall, mmap((void *)s[i].start, s[i].end - s[i].start, s[i].prot,
					      MAP_PRIVATE | MAP_FIXED, image,
					      (off_t)s[i].offset)) == MAP_FAILED)
			r = -errno;
	}
	return r;
}

static int set_exe(int image)
{
	struct segment s[SEGMENTS_MAX];
	const unsigned n = find_segments(s);
	const uintptr_t end = (uintptr_t)HOST(brk_wall, sbrk(0));
	struct prctl_mm_map m = {
		.start_code = s[0].start,
		.end_code = s[n - 1].start,
		.start_data = s[n - 1].start,
		.end_data = s[n - 1].end,
		.start_brk = end,
		.brk = end,
		.start_stack = g_args.arg_start,
		.arg_start = g_args.arg_start,
		.arg_end = g_args.arg_end,
		.env_start = g_args.env_start,
		.env_end = g_args.env_end,
		.exe_fd = (uint32_t)image,
	};

	return HOST(prctl_wall, prctl(PR_SET_MM, PR_SET_MM_MAP, &m, sizeof(m), 0)) < 0 ? -errno : 0;
}

void wall_exe_enter(struct wall *w, bool filled)
{
	char path[32];
	int image, r;

	if (w->image < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", w->image);
	/* The kernel runs nothing that somebody has open for writing. */
	image = filled ? HOST(openat_wall, open(path, O_RDONLY | O_CLOEXEC)) : -1;
	r = image < 0 ? -errno : 0;
	HOST(close_fd, close(w->image));
	w->image = -1;
	if (!filled)
		wall_lacks(w, WALL_SEALED, "the copy cannot be made; free some memory");
	else if (image < 0)
		wall_lacks(w, WALL_SEALED, "%s: %s; mount /proc", path, err_text(-r));
	if (image < 0)
		return;
	r = replace_all(image);
	if (r == 0)
		r = set_exe(image);
	HOST(close_fd, close(image));
	if (r < 0)
		wall_lacks(w, WALL_SEALED,
			   "%s: the kernel must be built with CONFIG_CHECKPOINT_RESTORE, and moat "
			   "needs a user name space or CAP_SYS_ADMIN",
			   err_text(-r));
}
