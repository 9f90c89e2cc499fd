/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentry has nothing that leads to the host's file of moat with a right to change it. (Root's
 * sentry owns it: through a /proc/PID/exe of its it could be written to, or made set-user-id, for
 * whoever starts moat next. CVE-2019-5736 was such a way.)
 *
 * Theory of operation: the sentry maps its own text and constants anew, from another open file,
 * over those that exec has mapped; makes anonymous memory of what relocation and initialisation
 * have written (.data, .got); and, when nothing of the old file is mapped any more, has the kernel
 * take the new one for the file that it runs from (PR_SET_MM_MAP). A second exec would cost a
 * millisecond. No other thread may write to .data meanwhile: there is none but the one that makes
 * the net name space, which has pages of its own (wall_net.c).
 *
 * That file is the host's, but through a copy of its mount which is read-only and mounted nowhere:
 * no write, no change of its mode, owner or attributes goes through it, and to make it writable
 * again takes CAP_SYS_ADMIN, which the sentry gives up. Its pages are the page cache's, so
 * sandboxes share them. Under strict it is a sealed memfd, which shares no page with any file:
 * should the host's kernel let page cache be written to that can only be read (CVE-2022-0847),
 * moat's is not among it. So too where mounts cannot be copied. The memfd costs 0.8 ms and 1.5 MB
 * for each run.
 *
 * References: open_tree(2), mount_setattr(2), memfd_create(2), prctl(2) PR_SET_MM_MAP; elf(5).
 */
#include "runtime/wall.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/mount.h>
#include <linux/prctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/sanitizer.h"
#include "sentry/grant.h"

/* <sys/mount.h> and <linux/mount.h> exclude each other. */
#ifndef MS_PRIVATE
#define MS_PRIVATE (1 << 18)
#endif
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
	/* A variable that has moved does not lie behind the others (GLIBC_TUNABLES, of which the
	 * dynamic loader makes a copy). */
	for (; env && *env; env++) {
		if ((uintptr_t)*env >= g_args.env_end && (uintptr_t)*env < getauxval(AT_EXECFN))
			g_args.env_end = text_end(*env);
	}
}

/* ---- the segments ---- */

struct segment {
	uintptr_t start, end; /* whole pages that are mapped from the file */
	uint64_t offset;      /* in the file, and so in a copy */
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

/* ---- the new file ---- */

/* As long as the host's root is still there. A descriptor, or -errno. */
static int open_read_only(struct wall *w)
{
	struct mount_attr a = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
			       .propagation = MS_PRIVATE};
	struct stat running, st;
	char path[4096];
	const ssize_t n = HOST(readlinkat_wall,
			       readlinkat(AT_FDCWD, "/proc/self/exe", path, sizeof(path) - 1));
	int tree, fd, r;

	if (n < 0 || HOST(newfstatat_wall, stat("/proc/self/exe", &running)) < 0)
		return -errno;
	path[n] = '\0';
	tree = (int)HOST(open_tree_wall, syscall(SYS_open_tree, AT_FDCWD, path,
						 OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
	if (tree < 0)
		return -errno;
	r = HOST(mount_setattr_wall,
		 syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &a, sizeof(a))) < 0
		    ? -errno
		    : 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", tree);
	fd = r < 0 ? r : HOST(openat_wall, open(path, O_RDONLY | O_CLOEXEC));
	if (r == 0 && fd < 0)
		fd = -errno;
	w->exe_mount = tree;
	if (fd < 0)
		return fd;
	if (HOST(newfstatat_wall, fstat(fd, &st)) < 0 || st.st_dev != running.st_dev ||
	    st.st_ino != running.st_ino) {
		HOST(close_fd, close(fd));
		return -ENOENT; /* the name is another file's by now */
	}
	return fd;
}

static bool write_all(int fd, uintptr_t from, size_t size, uint64_t offset)
{
	for (size_t done = 0; done < size;) {
		const ssize_t n = HOST(pwrite64_wall, pwrite(fd, (const char *)from + done,
							     size - done, (off_t)(offset + done)));

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static bool fill(int fd)
{
	struct segment s[SEGMENTS_MAX];
	const unsigned n = find_segments(s);
	bool ok = n > 0;

	for (unsigned i = 0; ok && i < n; i++) {
		if (is_constant(s, i, n))
			ok = write_all(fd, s[i].start, s[i].end - s[i].start, s[i].offset);
	}
	if (ok)
		ok = HOST(fcntl_wall,
			  fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK)) == 0;
	/* Since Linux 6.3. */
	if (ok)
		(void)HOST(fcntl_wall, fcntl(fd, F_ADD_SEALS, F_SEAL_EXEC));
	return ok && HOST(fcntl_wall, fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL)) == 0;
}

/* A descriptor, or -1 and @w knows why. */
static int open_copy(struct wall *w)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = HOST(memfd_create_wall, memfd_create("moat", flags | MFD_EXEC)), image;
	char path[32];

	if (fd < 0 && errno == EINVAL) /* a host before Linux 6.3 */
		fd = HOST(memfd_create_wall, memfd_create("moat", flags));
	if (fd < 0) {
		wall_lacks(w, WALL_FILE, "memfd_create: %s; allow it for moat", err_text(errno));
		return -1;
	}
	if (!fill(fd)) {
		wall_lacks(w, WALL_FILE, "the copy cannot be made; free some memory");
		HOST(close_fd, close(fd));
		return -1;
	}
	/* The kernel runs nothing that somebody has open for writing. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	image = HOST(openat_wall, open(path, O_RDONLY | O_CLOEXEC));
	if (image < 0)
		wall_lacks(w, WALL_FILE, "%s: %s; mount /proc", path, err_text(errno));
	HOST(close_fd, close(fd));
	return image;
}

/* Nothing may write to the range meanwhile: no other thread does, no signals come, and this is all
 * that this one does. */
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

void wall_exe_enter(struct wall *w)
{
	int image = -1, r;

	if (!CAN_MOVE) {
		wall_lacks(w, WALL_FILE, "this build is instrumented");
		return;
	}
	if (!g_grant || !g_grant->strict)
		image = open_read_only(w);
	if (image < 0)
		image = open_copy(w);
	if (image < 0)
		return;
	r = replace_all(image);
	if (r == 0)
		r = set_exe(image);
	HOST(close_fd, close(image));
	if (r < 0)
		wall_lacks(w, WALL_FILE,
			   "%s: the kernel must be built with CONFIG_CHECKPOINT_RESTORE, and moat "
			   "needs a user name space or CAP_SYS_ADMIN",
			   err_text(-r));
}

void wall_exe_settle(struct wall *w)
{
	if (w->exe_mount >= 0)
		HOST(close_fd, close(w->exe_mount));
	w->exe_mount = -1;
}
