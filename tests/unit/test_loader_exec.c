/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execve on the mock platform. Every program is the same C function here: which step it is, it sees
 * from its arguments, and it reports through variables of the test, since the mock's guests live in
 * one process.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "loader/stack.h"
#include "sentry/mm_ops.h"
#include "tests/unit/kernel_env.h"

#define A GUEST_DATA
#define B (GUEST_DATA + 0x2000)
#define V (GUEST_DATA + 0x4000) /* vectors of pointers */
#define X (GUEST_DATA + 0x6000)
#define DONE 42

/* What the last program found. */
static struct {
	char argv[4096]; /* joined by '|' */
	char env[256];
	char execfn[256];
	uint64_t secure, uid, euid, entry, phdr;
	char comm[16];
	long tid, pid;
	uint64_t handler;
	uint32_t caps[6]; /* as capget gives them: effective, permitted, inheritable; then the upper
			     halves */
} g_found;

static uint64_t load_str(struct mock_thread *mt, uint64_t at, char *buf, size_t size)
{
	size_t n = 0;

	do {
		mock_load(mt, buf + n, at + n, 1);
	} while (buf[n] && ++n < size - 1);
	buf[n] = 0;
	return at;
}

static void join(struct mock_thread *mt, uint64_t *table, char *buf, size_t size)
{
	size_t used = 0;
	uint64_t p;

	buf[0] = 0;
	for (; (p = get_u64(mt, *table)); *table += 8) {
		if (used)
			buf[used++] = '|';
		load_str(mt, p, buf + used, size - used);
		used += strlen(buf + used);
	}
	*table += 8;
}

/* Reads the initial stack into g_found; true for a program that a test executed. */
static bool look(struct mock_thread *mt)
{
	uint64_t at = mock_regs(mt)->rsp, argc = get_u64(mt, at), type;

	fail_set(FAIL_ALLOC, 0);
	fail_set(FAIL_HOST, 0);
	IS(at % 16, 0);
	at += 8;
	memset(&g_found, 0, sizeof(g_found));
	join(mt, &at, g_found.argv, sizeof(g_found.argv));
	join(mt, &at, g_found.env, sizeof(g_found.env));
	for (; (type = get_u64(mt, at)) != LX_AT_NULL; at += 16) {
		uint64_t value = get_u64(mt, at + 8);

		if (type == LX_AT_EXECFN)
			load_str(mt, value, g_found.execfn, sizeof(g_found.execfn));
		if (type == LX_AT_SECURE)
			g_found.secure = value;
		if (type == LX_AT_UID)
			g_found.uid = value;
		if (type == LX_AT_EUID)
			g_found.euid = value;
		if (type == LX_AT_ENTRY)
			g_found.entry = value;
		if (type == LX_AT_PHDR)
			g_found.phdr = value;
	}
	if (argc == 1 && strcmp(g_found.argv, "/prog") == 0)
		return false;
	IS(SYS(mt, prctl, 16, B), 0);
	mock_load(mt, g_found.comm, B, sizeof(g_found.comm));
	g_found.tid = SYS(mt, gettid);
	g_found.pid = SYS(mt, getpid);
	IS(SYS(mt, rt_sigaction, 10, 0, B, 8), 0);
	g_found.handler = get_u64(mt, B);
	put_mem(mt, B, (uint32_t[]){0x20080522, 0}, 8);
	IS(SYS(mt, capget, B, B + 64), 0);
	mock_load(mt, g_found.caps, B + 64, sizeof(g_found.caps));
	return true;
}

#define RUN(name)                                                        \
	static void name##_guest(struct mock_thread *mt);                \
	static int name##_main(struct mock_thread *mt, void *arg UNUSED) \
	{                                                                \
		if (look(mt))                                            \
			return DONE;                                     \
		name##_guest(mt);                                        \
		return 0;                                                \
	}                                                                \
	Test(loader_exec, name)                                          \
	{                                                                \
		int status = kernel_env_run(name##_main, NULL);          \
		cr_expect_eq(status, 0, "wait status %#x", status);      \
	}                                                                \
	static void name##_guest(struct mock_thread *mt)

/* argv or envp at @at from strings separated by '|'. */
static uint64_t vector(struct mock_thread *mt, uint64_t at, const char *strings)
{
	char buf[1024], *p = buf, *s;
	uint64_t table = at, text = at + 0x400, zero = 0;

	snprintf(buf, sizeof(buf), "%s", strings);
	while (*strings && (s = strsep(&p, "|"))) {
		put_str(mt, text, s);
		put_mem(mt, table, &text, 8);
		table += 8;
		text += strlen(s) + 1;
	}
	put_mem(mt, table, &zero, 8);
	return at;
}

struct exec_args {
	const char *path, *argv, *envp;
	int dirfd, flags;
	long error;
	uint32_t uid; /* who executes */
};

static int exec_child(struct mock_thread *mt, void *arg)
{
	struct exec_args *e = arg;

	if (e->uid)
		IS(SYS(mt, setresuid, e->uid, e->uid, e->uid), 0);
	e->error = SYS(mt, execveat, e->dirfd, put_str(mt, A, e->path), vector(mt, V, e->argv),
		       vector(mt, V + 0x1000, e->envp), e->flags);
	return 1;
}

/* Executes in a child: 0 if the program ran, else the error. */
static long run_args(struct mock_thread *mt, struct exec_args e)
{
	long pid = mock_fork(mt, exec_child, &e);

	cr_assert_gt(pid, 0);
	IS(SYS(mt, wait4, pid, X, 0, 0), pid);
	if (e.error)
		return e.error;
	IS(get_u32(mt, X), DONE << 8);
	return 0;
}

static long run(struct mock_thread *mt, int dirfd, const char *path, const char *argv,
		const char *envp, int flags)
{
	return run_args(mt, (struct exec_args){path, argv, envp, dirfd, flags, 0, 0});
}

static void make(struct mock_thread *mt, const char *path, const char *text, uint32_t mode)
{
	make_file(mt, path, text);
	IS(SYS(mt, chmod, put_str(mt, A, path), mode), 0);
}

/* A copy of /prog. */
static void copy_prog(struct mock_thread *mt, const char *to, uint32_t mode)
{
	long in = SYS(mt, open, put_str(mt, A, "/prog"), LX_O_RDONLY), out, n;

	out = SYS(mt, open, put_str(mt, A, to), LX_O_CREAT | LX_O_TRUNC | LX_O_WRONLY, 0755);
	cr_assert(in >= 0 && out >= 0);
	n = SYS(mt, read, in, B, 4096);
	IS(SYS(mt, write, out, B, n), n);
	SYS(mt, close, in);
	SYS(mt, close, out);
	IS(SYS(mt, chmod, put_str(mt, A, to), mode), 0);
}

RUN(programs)
{
	IS(run(mt, LX_AT_FDCWD, "/prog", "a|b c||d", "X=1|Y=2", 0), 0);
	cr_expect_str_eq(g_found.argv, "a|b c||d");
	cr_expect_str_eq(g_found.env, "X=1|Y=2");
	cr_expect_str_eq(g_found.execfn, "/prog");
	cr_expect_str_eq(g_found.comm, "prog");
	cr_expect(g_found.entry && g_found.phdr && !g_found.secure);
	IS(g_found.tid, g_found.pid);
	IS(run(mt, LX_AT_FDCWD, "prog", "x", "", 0), 0);
	/* Without arguments there is an empty one. */
	IS(run(mt, LX_AT_FDCWD, "/prog", "", "", 0), 0);
	cr_expect_str_eq(g_found.argv, "");
}

RUN(refused)
{
	static char long_name[5000];
	long fd;

	make(mt, "/tmp/text", "hello", 0755);
	make(mt, "/tmp/empty", "", 0755);
	make(mt, "/tmp/noexec", "#!/prog\n", 0644);
	IS(run(mt, LX_AT_FDCWD, "/nothing", "x", "", 0), -ENOENT);
	IS(run(mt, LX_AT_FDCWD, "", "x", "", 0), -ENOENT);
	IS(run(mt, LX_AT_FDCWD, "/tmp", "x", "", 0), -EACCES);
	IS(run(mt, LX_AT_FDCWD, "/prog/x", "x", "", 0), -ENOTDIR);
	IS(run(mt, LX_AT_FDCWD, "/tmp/text", "x", "", 0), -ENOEXEC);
	IS(run(mt, LX_AT_FDCWD, "/tmp/empty", "x", "", 0), -ENOEXEC);
	IS(run(mt, LX_AT_FDCWD, "/tmp/noexec", "x", "", 0), -EACCES);
	memset(long_name, 'a', sizeof(long_name) - 1);
	IS(SYS(mt, execve, put_str(mt, A, long_name), 0, 0), -ENAMETOOLONG);
	put_str(mt, A, "/prog");
	IS(SYS(mt, execve, GUEST_BAD, V, 0), -EFAULT);
	IS(SYS(mt, execve, A, GUEST_BAD, 0), -EFAULT);
	vector(mt, V, "a");
	put_mem(mt, V, &(uint64_t){GUEST_BAD}, 8);
	IS(SYS(mt, execve, A, V, 0), -EFAULT);
	IS(SYS(mt, execveat, LX_AT_FDCWD, A, V, 0, 0x8000), -EINVAL);
	IS(SYS(mt, execveat, 77, put_str(mt, A, "prog"), V, 0, 0), -EBADF);
	/* Open for writing. */
	copy_prog(mt, "/tmp/busy", 0755);
	fd = SYS(mt, open, put_str(mt, A, "/tmp/busy"), LX_O_WRONLY);
	IS(run(mt, LX_AT_FDCWD, "/tmp/busy", "x", "", 0), -ETXTBSY);
	IS(SYS(mt, close, fd), 0);
	IS(run(mt, LX_AT_FDCWD, "/tmp/busy", "x", "", 0), 0);
	/* What runs cannot be written to. */
	IS(SYS(mt, open, put_str(mt, A, "/prog"), LX_O_WRONLY), -ETXTBSY);
	fd = SYS(mt, open, put_str(mt, A, "/tmp/busy"), LX_O_WRONLY);
	cr_expect_geq(fd, 0, "the child has ended");
	/* Only checking. */
	vector(mt, V, "a");
	IS(SYS(mt, execveat, LX_AT_FDCWD, put_str(mt, A, "/prog"), V, 0, 0x10000), 0);
	IS(SYS(mt, execveat, LX_AT_FDCWD, put_str(mt, A, "/tmp/noexec"), V, 0, 0x10000), -EACCES);
}

RUN(arguments_too_long)
{
	uint64_t big = (uint64_t)SYS(mt, mmap, 0, 1 << 20, 3, 0x22, -1, 0), p[40];
	char zero = 0;

	/* One string of 128 KiB, with its NUL, is too long; a byte less is not. */
	for (uint64_t i = 0; i < 140000; i += 1000) {
		static const char fill[1000] = {[0 ... 999] = 'x'};

		put_mem(mt, big + i, fill, sizeof(fill));
	}
	put_str(mt, A, "/prog");
	p[0] = big;
	p[1] = 0;
	put_mem(mt, V, p, 16);
	put_mem(mt, big + 131072, &zero, 1);
	IS(SYS(mt, execve, A, V, 0), -E2BIG);
	put_mem(mt, big + 131071, &zero, 1);
	IS(SYS(mt, execveat, LX_AT_FDCWD, A, V, 0, 0x10000), 0);
	/* All of them: 2 MiB with 8 MiB of stack. */
	for (unsigned i = 0; i < 39; i++)
		p[i] = big;
	p[39] = 0;
	put_mem(mt, V, p, sizeof(p));
	IS(SYS(mt, execveat, LX_AT_FDCWD, A, V, 0, 0x10000), -E2BIG);
	IS(SYS(mt, execveat, LX_AT_FDCWD, A, 0, V, 0x10000), -E2BIG);
	p[14] = 0;
	put_mem(mt, V, p, sizeof(p));
	IS(SYS(mt, execveat, LX_AT_FDCWD, A, V, 0, 0x10000), 0);
	/* A vector that runs into nothing. */
	p[0] = big;
	put_mem(mt, GUEST_DATA + GUEST_DATA_SIZE - 8, p, 8);
	IS(SYS(mt, execve, A, GUEST_DATA + GUEST_DATA_SIZE - 8, 0), -EFAULT);
}

RUN(scripts)
{
	char name[32], text[64];
	long fd;

	make(mt, "/tmp/s", "#!/prog -x  y \nrest\n", 0755);
	IS(run(mt, LX_AT_FDCWD, "/tmp/s", "s|1|2", "E=1", 0), 0);
	cr_expect_str_eq(g_found.argv, "/prog|-x  y|/tmp/s|1|2");
	cr_expect_str_eq(g_found.execfn, "/tmp/s");
	cr_expect_str_eq(g_found.comm, "s");
	make(mt, "/tmp/s2", "#! /tmp/s", 0755);
	IS(run(mt, LX_AT_FDCWD, "/tmp/s2", "", "", 0), 0);
	cr_expect_str_eq(g_found.argv, "/prog|-x  y|/tmp/s|/tmp/s2");
	/* Up to five of them. */
	make(mt, "/tmp/n0", "#!/prog\n", 0755);
	for (int i = 1; i < 7; i++) {
		snprintf(name, sizeof(name), "/tmp/n%d", i);
		snprintf(text, sizeof(text), "#!/tmp/n%d\n", i - 1);
		make(mt, name, text, 0755);
	}
	IS(run(mt, LX_AT_FDCWD, "/tmp/n4", "x", "", 0), 0);
	cr_expect_str_eq(g_found.argv, "/prog|/tmp/n0|/tmp/n1|/tmp/n2|/tmp/n3|/tmp/n4");
	IS(run(mt, LX_AT_FDCWD, "/tmp/n5", "x", "", 0), -ELOOP);
	make(mt, "/tmp/self", "#!/tmp/self\n", 0755);
	IS(run(mt, LX_AT_FDCWD, "/tmp/self", "x", "", 0), -ELOOP);
	make(mt, "/tmp/gone", "#!/not/there\n", 0755);
	IS(run(mt, LX_AT_FDCWD, "/tmp/gone", "x", "", 0), -ENOENT);
	make(mt, "/tmp/noline", "#!\n", 0755);
	IS(run(mt, LX_AT_FDCWD, "/tmp/noline", "x", "", 0), -ENOEXEC);
	/* By descriptor: the interpreter opens it by its name there. */
	fd = SYS(mt, open, put_str(mt, A, "/tmp/s"), LX_O_RDONLY);
	IS(run(mt, (int)fd, "", "x", "", LX_AT_EMPTY_PATH), 0);
	snprintf(text, sizeof(text), "/prog|-x  y|/dev/fd/%ld", fd);
	cr_expect_str_eq(g_found.argv, text);
	IS(SYS(mt, fcntl, fd, 2, 1), 0);
	IS(run(mt, (int)fd, "", "x", "", LX_AT_EMPTY_PATH), -ENOENT);
}

RUN(by_descriptor)
{
	long fd = SYS(mt, open, put_str(mt, A, "/prog"), LX_O_PATH), dir;
	char text[64];

	IS(run(mt, (int)fd, "", "x|y", "", 0), -ENOENT);
	IS(run(mt, (int)fd, "", "x|y", "", LX_AT_EMPTY_PATH), 0);
	cr_expect_str_eq(g_found.argv, "x|y");
	snprintf(text, sizeof(text), "/dev/fd/%ld", fd);
	cr_expect_str_eq(g_found.execfn, text);
	dir = SYS(mt, open, put_str(mt, A, "/"), LX_O_RDONLY);
	IS(run(mt, (int)dir, "prog", "x", "", 0), 0);
	snprintf(text, sizeof(text), "/dev/fd/%ld/prog", dir);
	cr_expect_str_eq(g_found.execfn, text);
	IS(SYS(mt, symlink, put_str(mt, A, "/prog"), put_str(mt, B, "/tmp/link")), 0);
	IS(run(mt, LX_AT_FDCWD, "/tmp/link", "x", "", 0), 0);
	IS(run(mt, LX_AT_FDCWD, "/tmp/link", "x", "", LX_AT_SYMLINK_NOFOLLOW), -ELOOP);
}

/* An ELF with an interpreter: /prog's bytes with a third header. */
static void make_dynamic(struct mock_thread *mt, const char *path, const char *interp)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph[2];
		char interp[64];
	} f = {0};
	long fd;

	memcpy(f.eh.e_ident, ELFMAG, SELFMAG);
	f.eh.e_type = ET_DYN;
	f.eh.e_machine = EM_X86_64;
	f.eh.e_phoff = sizeof(f.eh);
	f.eh.e_phentsize = sizeof(Elf64_Phdr);
	f.eh.e_phnum = 2;
	f.eh.e_entry = 0x10;
	f.ph[0] = (Elf64_Phdr){.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_filesz = sizeof(f),
			       .p_memsz = sizeof(f)};
	f.ph[1] = (Elf64_Phdr){.p_type = PT_INTERP,
			       .p_offset = offsetof(__typeof__(f), interp),
			       .p_filesz = strlen(interp) + 1};
	strcpy(f.interp, interp);
	fd = SYS(mt, open, put_str(mt, A, path), LX_O_CREAT | LX_O_WRONLY, 0755);
	IS(SYS(mt, write, fd, put_mem(mt, B, &f, sizeof(f)), sizeof(f)), sizeof(f));
	SYS(mt, close, fd);
}

RUN(interpreters)
{
	make_dynamic(mt, "/tmp/dyn", "/prog");
	IS(run(mt, LX_AT_FDCWD, "/tmp/dyn", "x", "", 0), 0);
	cr_expect_eq(g_found.entry & 0xfff, 0x10, "AT_ENTRY is the program's");
	make(mt, "/tmp/text", "hello", 0755);
	make_dynamic(mt, "/tmp/dyn2", "/tmp/text");
	IS(run(mt, LX_AT_FDCWD, "/tmp/dyn2", "x", "", 0), -ELIBBAD);
	make_dynamic(mt, "/tmp/dyn3", "/not/there");
	IS(run(mt, LX_AT_FDCWD, "/tmp/dyn3", "x", "", 0), -ENOENT);
	make_dynamic(mt, "/tmp/dyn4", "/tmp");
	IS(run(mt, LX_AT_FDCWD, "/tmp/dyn4", "x", "", 0), -EACCES);
}

RUN(what_is_kept)
{
	uint64_t act[4] = {0x400100, 0x04000000, MOCK_RESTORER, 0};
	long fd = SYS(mt, open, put_str(mt, A, "/prog"), LX_O_RDONLY | LX_O_CLOEXEC), keep;

	keep = SYS(mt, open, put_str(mt, A, "/prog"), LX_O_RDONLY);
	/* A handler becomes the default, what is ignored stays so. */
	IS(SYS(mt, rt_sigaction, 10, put_mem(mt, B, act, sizeof(act)), 0, 8), 0);
	IS(run(mt, LX_AT_FDCWD, "/prog", "x", "", 0), 0);
	IS(g_found.handler, LX_SIG_DFL);
	act[0] = LX_SIG_IGN;
	IS(SYS(mt, rt_sigaction, 10, put_mem(mt, B, act, sizeof(act)), 0, 8), 0);
	IS(run(mt, LX_AT_FDCWD, "/prog", "x", "", 0), 0);
	IS(g_found.handler, LX_SIG_IGN);
	/* Set-user-ID, and the switches that turn it off. */
	copy_prog(mt, "/tmp/suid", 04755);
	IS(SYS(mt, chown, put_str(mt, A, "/tmp/suid"), 1234, 0), 0);
	IS(SYS(mt, chmod, A, 04755), 0);
	IS(run(mt, LX_AT_FDCWD, "/tmp/suid", "x", "", 0), 0);
	IS(g_found.euid, 1234);
	IS(g_found.uid, 0);
	IS(g_found.secure, 1);
	IS(SYS(mt, prctl, 38, 1, 0, 0, 0), 0);
	IS(run(mt, LX_AT_FDCWD, "/tmp/suid", "x", "", 0), 0);
	IS(g_found.euid, 0);
	IS(g_found.secure, 0);
	IS(SYS(mt, close, fd), 0);
	IS(SYS(mt, close, keep), 0);
}

/* Sets the file's capabilities: version 2, or any other bytes. */
static void set_caps(struct mock_thread *mt, const char *path, const void *value, size_t size)
{
	IS(SYS(mt, setxattr, put_str(mt, A, path), put_str(mt, A + 256, "security.capability"),
	       put_mem(mt, B, value, size), size, 0),
	   0);
}

RUN(file_capabilities)
{
	/* Permitted and effective: NET_RAW (13) and CHECKPOINT_RESTORE (40). */
	const uint32_t v2[5] = {0x02000001, 1u << 13, 0, 1u << 8, 0};
	const uint32_t not_effective[5] = {0x02000000, 1u << 13, 0, 0, 0};
	const uint32_t v3[6] = {0x03000001, 1u << 13, 0, 0, 0, 0};
	struct exec_args e = {"/tmp/cap", "x", "", LX_AT_FDCWD, 0, 0, 1000};

	copy_prog(mt, "/tmp/cap", 0755);
	IS(run_args(mt, e), 0);
	IS(g_found.caps[0] | g_found.caps[1] | g_found.caps[3] | g_found.caps[4], 0);
	IS(g_found.secure, 0);
	set_caps(mt, "/tmp/cap", v2, sizeof(v2));
	IS(run_args(mt, e), 0);
	IS(g_found.caps[0], 1u << 13);
	IS(g_found.caps[1], 1u << 13);
	IS(g_found.caps[4], 1u << 8);
	IS(g_found.secure, 1);
	IS(g_found.euid, 1000);
	set_caps(mt, "/tmp/cap", not_effective, sizeof(not_effective));
	IS(run_args(mt, e), 0);
	IS(g_found.caps[0], 0);
	IS(g_found.caps[1], 1u << 13);
	set_caps(mt, "/tmp/cap", v3, sizeof(v3));
	IS(run_args(mt, e), 0);
	IS(g_found.caps[0], 1u << 13);
	/* Root has all in any case; a file that needs more than the bounding set gives is not run.
	 */
	IS(SYS(mt, prctl, 24, 13, 0, 0, 0), 0);
	IS(run_args(mt, e), -EPERM);
	e.uid = 0;
	IS(run_args(mt, e), -EPERM);
	/* Nothing is gained without the right to. */
	IS(SYS(mt, prctl, 38, 1, 0, 0, 0), 0);
	e.uid = 1000;
	IS(run_args(mt, e), 0);
	IS(g_found.caps[0] | g_found.caps[1], 0);
}

/* ---- exec by a thread that is not the first ---- */

static int sleeper(struct mock_thread *mt, void *arg UNUSED)
{
	uint32_t word = 0;

	put_mem(mt, X, &word, 4);
	for (;;)
		SYS(mt, futex, X, 0, 0, 0, 0, 0);
	return 0;
}

static int spinner(struct mock_thread *mt, void *arg UNUSED)
{
	for (;;)
		mock_spin(mt);
	return 0;
}

static int execer(struct mock_thread *mt, void *arg UNUSED)
{
	SYS(mt, execve, put_str(mt, A, "/prog"), vector(mt, V, "from|thread"), 0);
	return 1;
}

static int threads_child(struct mock_thread *mt, void *arg UNUSED)
{
	const uint64_t flags = 0x10f00;

	for (uint64_t i = 0; i < 4; i++)
		cr_assert_gt(mock_clone(mt, flags, GUEST_DATA + 0x10000 + i * 0x1000, 0, 0, 0,
					i % 2 ? sleeper : spinner, NULL),
			     0);
	cr_assert_gt(mock_clone(mt, flags, GUEST_DATA + 0x20000, 0, 0, 0, execer, NULL), 0);
	return sleeper(mt, NULL);
}

RUN(threads)
{
	for (int i = 0; i < 20; i++) {
		long pid = mock_fork(mt, threads_child, NULL);

		IS(SYS(mt, wait4, pid, X + 64, 0, 0), pid);
		IS(get_u32(mt, X + 64), DONE << 8);
		cr_expect_str_eq(g_found.argv, "from|thread");
		IS(g_found.pid, pid);
		IS(g_found.tid, pid);
	}
}

/* The n-th allocation or host operation of the child's exec fails, for each n until none is left:
 * an error, and the child goes on to say so. */
struct failing {
	enum fail_kind kind;
	unsigned n;
	long error;
};

static int failing_child(struct mock_thread *mt, void *arg)
{
	struct failing *f = arg;

	put_str(mt, A, "/tmp/s");
	vector(mt, V, "a|b");
	fail_set(f->kind, f->n);
	f->error = SYS(mt, execve, A, V, V);
	fail_set(f->kind, 0);
	return 1;
}

RUN(failing_steps)
{
	static const enum fail_kind kinds[] = {FAIL_ALLOC, FAIL_HOST};

	make(mt, "/tmp/s", "#!/prog -x\n", 0755);
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct failing f = {kinds[k], 0, 0};
		uint32_t status = 0;

		while (status != DONE << 8 && f.n < 500) {
			long pid;

			f.n++;
			f.error = 0;
			pid = mock_fork(mt, failing_child, &f);
			cr_assert_gt(pid, 0);
			IS(SYS(mt, wait4, pid, X, 0, 0), pid);
			fail_set(kinds[k], 0);
			status = get_u32(mt, X);
			/* Once exec has succeeded, the platform may fail to start the program. */
			cr_expect(f.error ? status == 1 << 8
					  : status == DONE << 8 || status == LX_SIGKILL,
				  "step %u: error %ld, status %#x", f.n, f.error, status);
		}
		cr_expect(f.n > 3 && f.n < 500, "%u steps", f.n);
	}
}
