/* SPDX-License-Identifier: Apache-2.0 */

/* mmap, munmap, mprotect, msync, mincore, madvise, mlock, mremap, brk. */
#include "guest.h"
#include <sys/resource.h>

#define PAGE 4096ul

static const char *outcome(void *p)
{
	return p == MAP_FAILED ? guest_errno(errno) : "mapped";
}

#define M(...) printf("mmap(%s): %s\n", #__VA_ARGS__, outcome(mmap(__VA_ARGS__)))

/* Does one access of this kind fault? */
static int touch(volatile char *p, int write_too)
{
	pid_t pid = guest_fork();
	int status;

	if (!pid) {
		struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		if (write_too)
			*p = 1;
		else
			(void)*p;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static const char *access_of(void *p)
{
	static char text[32];
	int r = touch(p, 0), w = touch(p, 1);

	snprintf(text, sizeof(text), "%s/%s", r ? guest_signal(r) : "r", w ? guest_signal(w) : "w");
	return text;
}

static void errors(int fd, int ro, int wo)
{
	char *p = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	P("errors");
	M(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	M(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0);
	M(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0);
	M(NULL, PAGE, PROT_READ, MAP_PRIVATE, 999, 0);
	M(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 1);
	M(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0);
	M(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, ro, 0);
	M(NULL, PAGE, PROT_READ, MAP_SHARED, wo, 0);
	M(NULL, PAGE, PROT_WRITE, MAP_SHARED, wo, 0);
	M((void *)1, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	M((void *)-PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	M(NULL, -PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	M(NULL, SIZE_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	M(NULL, PAGE, PROT_READ, MAP_SHARED_VALIDATE | MAP_SYNC, fd, 0);
	M(NULL, PAGE, PROT_READ, MAP_PRIVATE, open(".", O_RDONLY), 0);
	M(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	M(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, (off_t)PAGE * (1l << 50));
	V(munmap(p + 1, PAGE));
	V(munmap(p, 0));
	V(munmap(p, SIZE_MAX));
	V(munmap((void *)(1ul << 47), PAGE));
	V(munmap(p + PAGE, PAGE));
	V(munmap(p + PAGE, PAGE));
	V(munmap(p, 4 * PAGE));
	V(mprotect(p, PAGE, PROT_READ));
	V(mprotect(p + 1, PAGE, PROT_READ));
	V(mprotect(NULL, 0, PROT_READ));
	V(mprotect(p, PAGE, 0x1000000));
	V(mprotect((void *)PAGE, SIZE_MAX & ~(PAGE - 1), PROT_READ));
}

static void placement(void)
{
	char *p, *q;

	P("placement");
	p = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(p, 16 * PAGE);
	q = mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T(q == p);
	q = mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T(q != p && q != MAP_FAILED);
	munmap(q, PAGE);
	q = mmap(p + 2 * PAGE + 123, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T(q == p + 2 * PAGE || q == p + 3 * PAGE);
	q = mmap(p, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	T(q == p);
	q = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	T((uintptr_t)q < 1ul << 32);
	/* A hint counts with it too, unless the mapping would end above 2 GiB: SBCL's heap needs it. */
	q = mmap((void *)0x51234000, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	T(q == (char *)0x51234000);
	q = mmap((void *)0x51234000, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	T(q != MAP_FAILED && q != (char *)0x51234000 && (uintptr_t)q < 1ul << 31);
	q = mmap((void *)0x20000000, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	T(q == (char *)0x20000000);
	q = mmap((void *)0x7ffff000, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	T(q != MAP_FAILED && q != (char *)0x7ffff000 && (uintptr_t)q < 1ul << 31);
	q = mmap(NULL, 100, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	q[PAGE - 1] = 1;
	V(munmap(q, 100));
	printf("after munmap of 100 bytes: %s\n", access_of(q));
	/* Neighbouring maps come down from the top, next to each other. */
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	q = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T((uintptr_t)p % PAGE == 0 && (uintptr_t)q % PAGE == 0 && p != q);
	q = mmap(NULL, 1ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	printf("a terabyte of nothing: %s\n", outcome(q));
	munmap(q, 1ul << 40);
}

static void protection(void)
{
	static const int prots[] = {PROT_NONE,  PROT_READ,
				    PROT_WRITE, PROT_READ | PROT_WRITE,
				    PROT_EXEC,  PROT_READ | PROT_EXEC};
	char *p;

	P("protection");
	for (size_t i = 0; i < GUEST_COUNT(prots); i++) {
		p = mmap(NULL, PAGE, prots[i], MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		printf("prot %d: %s", prots[i], access_of(p));
		mprotect(p, PAGE, PROT_READ | PROT_WRITE);
		printf(", then %s\n", access_of(p));
		munmap(p, PAGE);
	}
	p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(p, 7, 3 * PAGE);
	V(mprotect(p + PAGE, PAGE, PROT_NONE));
	printf("split: %s %s %s\n", touch(p, 1) ? "fault" : "ok",
	       touch(p + PAGE, 0) ? "fault" : "ok", touch(p + 2 * PAGE, 1) ? "fault" : "ok");
	V(mprotect(p, 3 * PAGE, PROT_READ));
	T(p[0] == 7 && p[PAGE] == 7 && p[3 * PAGE - 1] == 7);
	V(munmap(p + PAGE, PAGE));
	V(mprotect(p, 3 * PAGE, PROT_READ | PROT_WRITE));
	printf("before the hole %s\n", access_of(p));
	/* The kernel may not write where the program may not. */
	int fds[2];

	V(pipe(fds));
	V(write(fds[1], "abc", 3));
	mprotect(p, PAGE, PROT_READ);
	V(read(fds[0], p, 3));
	V(write(fds[1], p + 3 * PAGE, 3));
	mprotect(p, PAGE, PROT_NONE);
	V(write(fds[1], p, 3));
	V(read(fds[0], fds, 0));
}

static void files(int fd, int ro)
{
	char *s, *p, text[16] = "";

	P("file mappings");
	V(ftruncate(fd, 0));
	V(pwrite(fd, "hello", 5, 0));
	s = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, ro, 0);
	printf("%.5s %.5s\n", s, p);
	memcpy(s, "HELLO", 5);
	V(pread(fd, text, 5, 0));
	printf("read sees %s, private sees %.5s\n", text, p);
	memcpy(p, "priv.", 5);
	V(pread(fd, text, 5, 0));
	printf("read sees %s, shared sees %.5s\n", text, s);
	V(pwrite(fd, "world", 5, 0));
	printf("shared sees %.5s, private sees %.5s\n", s, p);
	T(s[100] == 0 && s[PAGE - 1] == 0);
	printf("beyond the end: %s\n", access_of(s + PAGE));
	V(ftruncate(fd, (off_t)PAGE + 1));
	s[PAGE] = 9;
	printf("grown: %s\n", access_of(s + PAGE));
	V(ftruncate(fd, 3));
	printf("shrunk: %s, %.3s, %d\n", access_of(s + PAGE), s, s[3]);
	V(ftruncate(fd, 2 * (off_t)PAGE));
	printf("zeros %d %d\n", s[3], s[PAGE]);
	V(msync(s, PAGE, MS_SYNC));
	V(msync(s, 2 * PAGE, MS_ASYNC));
	V(msync(s, PAGE, MS_SYNC | MS_ASYNC));
	V(msync(s, PAGE, 77));
	V(msync(s + 1, PAGE, MS_SYNC));
	V(msync(s, 1, MS_INVALIDATE));
	V(munmap(s + PAGE, PAGE));
	V(msync(s, 2 * PAGE, MS_SYNC));
	/* A mapping outlives its descriptor and its name. */
	int other = open("gone", O_RDWR | O_CREAT, 0600);

	V(ftruncate(other, PAGE));
	char *g = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0);
	V(unlink("gone"));
	V(close(other));
	g[0] = 'x';
	T(g[0] == 'x');
	/* Protection of a shared mapping cannot exceed the descriptor's mode. */
	s = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0);
	V(mprotect(s, PAGE, PROT_READ | PROT_WRITE));
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, ro, 0);
	V(mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	/* Shared and private anonymous memory across a fork. */
	s = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t pid = guest_fork();
	if (!pid) {
		s[0] = 1;
		p[0] = 1;
		_exit(0);
	}
	guest_wait("child", pid);
	printf("shared %d private %d\n", s[0], p[0]);
	char *z =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, open("/dev/zero", O_RDWR), 0);
	z[0] = 3;
	T(z[0] == 3 && z[1] == 0);
}

static void remap(int fd)
{
	char *p, *q, *r;

	P("mremap");
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < 4; i++)
		p[i * PAGE] = (char)(i + 1);
	q = mremap(p, 4 * PAGE, 2 * PAGE, 0);
	T(q == p);
	printf("cut off: %s\n", access_of(p + 3 * PAGE));
	q = mremap(p, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	T(q != MAP_FAILED && q[0] == 1 && q[PAGE] == 2 && q[2 * PAGE] == 0);
	r = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p = mremap(q, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, r + 8 * PAGE);
	T(p == r + 8 * PAGE && p[0] == 1);
	printf("old place: %s\n", access_of(q));
	V((long)mremap(p, 8 * PAGE, 16 * PAGE, 0) == (long)p);
	V((long)mremap(p + 1, PAGE, PAGE, 0) == -1);
	V((long)mremap(p, PAGE, 0, 0) == -1);
	V((long)mremap(p, PAGE, PAGE, MREMAP_FIXED, p) == -1);
	V((long)mremap(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p + PAGE) == -1);
	V((long)mremap(p, PAGE, PAGE, 77) == -1);
	munmap(r, 64 * PAGE);
	V((long)mremap(r, PAGE, 2 * PAGE, MREMAP_MAYMOVE));
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p[0] = 5;
	q = mremap(p, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	printf("MREMAP_DONTUNMAP: %s\n", outcome(q));
	T(q != MAP_FAILED && q != p && q[0] == 5);
	T(p[0] == 0);
	V(ftruncate(fd, 4 * (off_t)PAGE));
	V(pwrite(fd, "third", 5, 2 * (off_t)PAGE));
	p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	q = mremap(p, PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	printf("grown over the file: %.5s\n", q == MAP_FAILED ? "?" : q + 2 * PAGE);
	/* An old size of 0 makes a second mapping of shared memory. */
	r = mremap(q, 0, PAGE, MREMAP_MAYMOVE);
	if (r != MAP_FAILED) {
		r[0] = 'R';
		printf("second mapping: %c\n", q[0]);
	}
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	V((long)mremap(p, 0, PAGE, MREMAP_MAYMOVE));
}

/* What another process brought into the memory of a file. */
static void brought_by_others(void)
{
	int fd = memfd_create("brought", 0);
	unsigned char vec[4] = {0};
	char *p, *q;
	pid_t pid;

	P("mincore of what others brought");
	V(ftruncate(fd, 4 * PAGE));
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	V(mincore(p, 4 * PAGE, vec));
	printf("none %d %d %d %d\n", vec[0] & 1, vec[1] & 1, vec[2] & 1, vec[3] & 1);
	V(pwrite(fd, "x", 1, PAGE + 5));
	pid = guest_fork();
	if (!pid) {
		q = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 3 * PAGE);
		*q = 1;
		_exit(0);
	}
	guest_wait("brought", pid);
	V(mincore(p, 4 * PAGE, vec));
	printf("some %d %d %d %d\n", vec[0] & 1, vec[1] & 1, vec[2] & 1, vec[3] & 1);
	V(mincore(p + 2 * PAGE, 2 * PAGE, vec));
	printf("the last %d %d\n", vec[0] & 1, vec[1] & 1);
	V(munmap(p, 4 * PAGE));
	close(fd);
}

static void advice(int fd)
{
	unsigned char vec[8];
	char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     *s;
	struct rlimit lim = {PAGE * 16, PAGE * 16};

	P("madvise, mincore, mlock");
	memset(p, 1, 4 * PAGE);
	V(mincore(p, 4 * PAGE, vec));
	printf("resident %d %d %d %d\n", vec[0] & 1, vec[1] & 1, vec[2] & 1, vec[3] & 1);
	V(mincore(p + 1, PAGE, vec));
	V(mincore(p, 4 * PAGE, (unsigned char *)8));
	V(mincore((void *)PAGE, PAGE, vec));
	V(madvise(p + PAGE, PAGE, MADV_DONTNEED));
	printf("%d %d %d\n", p[0], p[PAGE], p[2 * PAGE]);
	V(madvise(p, 4 * PAGE, MADV_NORMAL));
	V(madvise(p, 4 * PAGE, MADV_RANDOM));
	V(madvise(p, 4 * PAGE, MADV_SEQUENTIAL));
	V(madvise(p, 4 * PAGE, MADV_WILLNEED));
	V(madvise(p, 4 * PAGE, MADV_FREE));
	V(madvise(p, 4 * PAGE, MADV_DONTDUMP));
	V(madvise(p, 4 * PAGE, 777));
	V(madvise(p + 1, PAGE, MADV_DONTNEED));
	V(madvise(p, 0, MADV_DONTNEED));
	V(madvise((void *)PAGE, PAGE, MADV_DONTNEED));
	V(madvise(p, SIZE_MAX - 10, MADV_DONTNEED));
	memset(p, 2, 4 * PAGE);
	V(madvise(p, PAGE, MADV_DONTFORK));
	V(madvise(p + PAGE, PAGE, MADV_WIPEONFORK));
	pid_t pid = guest_fork();
	if (!pid) {
		printf("child: %d %d\n", p[PAGE], p[2 * PAGE]);
		(void)*(volatile char *)p;
		_exit(0);
	}
	guest_wait("reads what was not to be forked", pid);
	s = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	s[0] = 'k';
	V(madvise(s, PAGE, MADV_DONTNEED));
	printf("shared file keeps %c\n", s[0]);
	V(madvise(s, PAGE, MADV_REMOVE));
	printf("after MADV_REMOVE %d\n", s[0]);
	V(madvise(s, PAGE, MADV_FREE));
	V(madvise(p, PAGE, MADV_REMOVE));
	V(madvise(s, PAGE, MADV_WIPEONFORK));
	V(madvise(p, 4 * PAGE, MADV_POPULATE_READ));
	V(madvise(p, 4 * PAGE, MADV_POPULATE_WRITE));
	V(setrlimit(RLIMIT_MEMLOCK, &lim));
	V(mlock(p, 4 * PAGE));
	V(munlock(p, 4 * PAGE));
	V(mlock((void *)PAGE, PAGE));
	V(mlock2(p, PAGE, MLOCK_ONFAULT));
	V(mlock2(p, PAGE, 77));
	V(mlockall(0));
	V(mlockall(77));
	V(munlockall());
}

static void breaks(void)
{
	char *b = sbrk(0), *c;

	P("brk");
	T((char *)syscall(SYS_brk, 0) == b);
	T((char *)syscall(SYS_brk, 8) == b);
	T((char *)syscall(SYS_brk, b + 10 * PAGE) == b + 10 * PAGE);
	b[10 * PAGE - 1] = 7;
	T((char *)syscall(SYS_brk, b + 5 * PAGE + 3) == b + 5 * PAGE + 3);
	T((char *)syscall(SYS_brk, b + 10 * PAGE) == b + 10 * PAGE);
	T(b[10 * PAGE - 1] == 0);
	T((char *)syscall(SYS_brk, -1l) == b + 10 * PAGE);
	c = mmap(b + 32 * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		 -1, 0);
	T(c == b + 32 * PAGE);
	T((char *)syscall(SYS_brk, b + 64 * PAGE) == b + 10 * PAGE);
	munmap(c, PAGE);
	pid_t pid = guest_fork();
	if (!pid) {
		struct rlimit lim = {PAGE, PAGE};

		setrlimit(RLIMIT_DATA, &lim);
		T((char *)syscall(SYS_brk, b + 64 * PAGE) == b + 10 * PAGE);
		M(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		lim.rlim_cur = lim.rlim_max = 1 << 20;
		setrlimit(RLIMIT_AS, &lim);
		M(NULL, 64 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		_exit(0);
	}
	guest_wait("limited", pid);
	T((char *)syscall(SYS_brk, b) == b);
}

static __attribute__((noinline)) int recurse(int n)
{
	volatile char frame[4096];

	frame[0] = (char)n;
	return n ? recurse(n - 1) + frame[0] - (char)n : 0;
}

static void growth(void)
{
	char *p;
	pid_t pid;

	P("stack growth");
	printf("1 MB deep: %d\n", recurse(256));
	pid = guest_fork();
	if (!pid) {
		struct rlimit lim = {1 << 20, 1 << 20}, none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		setrlimit(RLIMIT_STACK, &lim);
		recurse(1024);
		_exit(0);
	}
	guest_wait("4 MB deep with a limit of 1 MB", pid);
	p = mmap(NULL, 300 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(p, 300 * PAGE);
	p = mmap(p + 299 * PAGE, PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
	p[0] = 1;
	p[-1] = 2;
	p[-(long)PAGE - 1] = 3;
	T(p[-1] == 2);
}

/* Regions that are large enough for huge pages behave as others do. */
static void large(void)
{
	const size_t mb = 1 << 20, size = 9 * mb + PAGE;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *q;
	char *b = sbrk(0);
	int wrong = 0;
	pid_t pid;

	P("large regions");
	for (size_t at = 0; at < size; at += PAGE)
		wrong += p[at] != 0, p[at] = (char)(at >> 12);
	printf("not zero %d\n", wrong);
	pid = guest_fork();
	if (!pid) {
		for (size_t at = 0; at < size; at += 3 * PAGE)
			p[at] = 77;
		_exit(p[PAGE] == 1 ? 0 : 1);
	}
	guest_wait("child writes", pid);
	for (size_t at = 0; at < size; at += PAGE)
		wrong += p[at] != (char)(at >> 12);
	printf("changed %d\n", wrong);
	V(mprotect(p + 3 * mb, mb, PROT_READ));
	V(madvise(p + 5 * mb, mb, MADV_DONTNEED));
	V(madvise(p, 2 * mb, MADV_NOHUGEPAGE));
	V(madvise(p, 2 * mb, MADV_HUGEPAGE));
	V(munmap(p + 7 * mb, PAGE));
	printf("%d %d %d\n", p[4 * mb], p[5 * mb], p[6 * mb]);
	q = mremap(p + 7 * mb + PAGE, mb, 6 * mb, MREMAP_MAYMOVE);
	T(q != MAP_FAILED && q[0] == (char)(7 * 256 + 1) && q[2 * mb] == 0);
	V(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	q = mmap(NULL, 4 * mb, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		 -1, 0);
	T(q[4 * mb - 1] == 0);
	V(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	pid = guest_fork();
	if (!pid)
		_exit((int)prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	guest_wait("inherited", pid);
	V(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0));
	T((char *)syscall(SYS_brk, b + 6 * mb) == b + 6 * mb);
	b[5 * mb] = 5;
	T((char *)syscall(SYS_brk, b + 7 * mb) == b + 7 * mb);
	b[7 * mb - 1] = 7;
	T((char *)syscall(SYS_brk, b + 4 * mb) == b + 4 * mb);
	T((char *)syscall(SYS_brk, b + 6 * mb) == b + 6 * mb);
	printf("%d\n", b[5 * mb]);
	T((char *)syscall(SYS_brk, b) == b);
}

int main(void)
{
	int fd, ro, wo;

	guest_begin();
	fd = open("file", O_RDWR | O_CREAT, 0600);
	V(ftruncate(fd, 8192));
	ro = open("file", O_RDONLY);
	wo = open("file", O_WRONLY);
	errors(fd, ro, wo);
	placement();
	protection();
	files(fd, ro);
	remap(fd);
	brought_by_others();
	advice(fd);
	breaks();
	growth();
	large();
	return 0;
}
