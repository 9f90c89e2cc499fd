/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest can do with the host's mmap, munmap and mprotect, which the trap stub's instruction
 * makes for it: only what is meant, nowhere but in its own memory, and no more of it than the
 * sentry lets be mapped, whatever it moves, hides or keeps; and what it may not write stays so.
 * Elsewhere most of that finds nothing. */
#include "host_calls.h"
#include <stdbool.h>
#include <sys/shm.h>

#define PAGE 4096u
#define MIB (UINT64_C(1) << 20)
#define OWN_MAX MIB
#define RW (PROT_READ | PROT_WRITE)
#define OWN_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)
/* More than any of the programs here may have mapped. */
#define BOUND (64 * MIB)

static int g_pipe[2];

static long host_mmap(uint64_t addr, uint64_t size, uint64_t prot, uint64_t flags, uint64_t fd)
{
	return host_call(SYS_mmap, (uint64_t[6]){addr, size, prot, flags, fd});
}

static long own(uint64_t addr, uint64_t size)
{
	return host_mmap(addr, size, RW, OWN_FLAGS, UINT64_MAX);
}

/* Is something there that the host lets be read? */
static bool is_there(uint64_t addr)
{
	char c;

	return write(g_pipe[1], (void *)addr, 1) == 1 && read(g_pipe[0], &c, 1) == 1;
}

/* Does the sentry know of it, and that it may be used for @letter (of maps; 0: for nothing)? */
static bool is_known_for(uint64_t addr, char letter)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512], prot[5];
	bool known = false;

	while (f && fgets(line, sizeof(line), f))
		known |= sscanf(line, "%lx-%lx %4s", &from, &to, prot) == 3 && addr >= from &&
			 addr < to && (letter == 0 || strchr(prot, letter));
	if (f)
		fclose(f);
	return known;
}

static bool is_known(uint64_t addr)
{
	return is_known_for(addr, 0);
}

/* The host has mapped it by the guest's own call. */
static bool is_hidden(uint64_t addr)
{
	return is_there(addr) && !is_known(addr);
}

/* @size bytes of addresses where nothing is. */
static uint64_t free_place(uint64_t size)
{
	char *p = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	munmap(p, size);
	return (uint64_t)p;
}

/* No platform but trap and notify has such an instruction; then nothing is to be tested. */
static bool can_map(void)
{
	const uint64_t p = free_place(PAGE);

	(void)own(p, PAGE);
	return is_hidden(p);
}

static int shapes(void)
{
	static const uint64_t flags[] = {
		MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
		OWN_FLAGS | MAP_SHARED,      MAP_PRIVATE | MAP_FIXED,
		MAP_SHARED | MAP_FIXED,      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		OWN_FLAGS | MAP_POPULATE,    OWN_FLAGS | MAP_LOCKED,
		OWN_FLAGS | MAP_GROWSDOWN,   OWN_FLAGS | MAP_HUGETLB,
		OWN_FLAGS | MAP_NORESERVE,   OWN_FLAGS | MAP_STACK,
		OWN_FLAGS | MAP_32BIT,       OWN_FLAGS | UINT64_C(1) << 32,
	};
	static const uint64_t prots[] = {0,
					 PROT_READ,
					 PROT_WRITE,
					 PROT_EXEC,
					 RW | PROT_EXEC,
					 PROT_READ | PROT_EXEC,
					 RW | PROT_GROWSDOWN,
					 RW | UINT64_C(1) << 32};
	const uint64_t p = free_place(4 * OWN_MAX);
	unsigned wrong = 0;

	for (unsigned i = 0; i < HOSTILE_COUNT(flags); i++) {
		/* The descriptors of the stubs, too. */
		for (uint64_t fd = 0; fd < 40; fd++) {
			(void)host_mmap(p, PAGE, RW, flags[i], fd);
			wrong += is_hidden(p);
			munmap((void *)p, PAGE);
		}
	}
	for (unsigned i = 0; i < HOSTILE_COUNT(prots); i++) {
		(void)host_mmap(p, PAGE, prots[i], OWN_FLAGS, UINT64_MAX);
		wrong += is_hidden(p);
		munmap((void *)p, PAGE);
	}
	(void)host_mmap(p, OWN_MAX + 1, RW, OWN_FLAGS, UINT64_MAX);
	wrong += is_hidden(p);
	(void)host_mmap(p, UINT64_MAX, RW, OWN_FLAGS, UINT64_MAX);
	wrong += is_hidden(p);
	(void)host_mmap(p, (UINT64_C(1) << 32) + PAGE, RW, OWN_FLAGS, UINT64_MAX);
	wrong += is_hidden(p);
	(void)host_call(SYS_mprotect, (uint64_t[6]){p, PAGE, PROT_EXEC});
	(void)host_call(SYS_mremap, (uint64_t[6]){p, PAGE, PAGE, 3, p + PAGE});
	wrong += is_hidden(p) || is_hidden(p + PAGE);
	if (wrong != 0)
		printf("shapes: %u\n", wrong);
	return wrong != 0;
}

/* The stub goes on, so what is its own has not been touched. */
static int over_the_stub(void)
{
	uint64_t at;

	for (at = STUB_REGION; at < STUB_REGION + STUB_REGION_SIZE;
	     at += at < STUB_REGION + 0x60000 || (at & 0xffffff) < 0x20000 ? PAGE : 0x10000) {
		(void)own(at, PAGE);
		(void)own(at, OWN_MAX);
	}
	/* From below, over the edge; from above, around the end. */
	for (at = STUB_REGION - 2 * OWN_MAX; at < STUB_REGION; at += 16 * PAGE) {
		(void)own(at, OWN_MAX);
		(void)own(at, STUB_REGION + STUB_REGION_SIZE - at);
	}
	(void)own(-UINT64_C(0x10000), OWN_MAX);
	(void)own(0xffffffffff600000u, PAGE);
	(void)own(UINT64_C(1) << 63, PAGE);
	/* As low as any process of the host may go. */
	for (at = 0; at < 0x20000; at += PAGE)
		(void)own(at, PAGE);
	return is_there(0);
}

/* What has been mapped can be mapped; the others see none of it. */
static int over_files(void)
{
	const int fd = memfd_create("over", 0);
	volatile char *p, *q;
	const char *text = (const char *)((uint64_t)over_files & ~UINT64_C(4095));

	if (fd < 0 || ftruncate(fd, PAGE) != 0)
		return 1;
	p = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
	q = mmap(NULL, PAGE, RW, MAP_SHARED, fd, 0);
	p[0] = 'a';
	(void)own((uint64_t)p, PAGE);
	p[0] = 'b';
	if (q[0] != 'a')
		return 1;
	/* Rewritten text, and what the sentry writes to later. */
	for (int i = 0; i < 100; i++)
		syscall(SYS_close, -1);
	if (fork() == 0) {
		(void)own((uint64_t)text - 256 * PAGE, OWN_MAX);
		_exit(0);
	}
	wait(NULL);
	return 0;
}

static void ends(int sig)
{
	(void)sig;
	_exit(0);
}

/* Where nobody looks at the area, or the host has refused what the stub was to do. */
static void end_quietly(void)
{
	signal(SIGSEGV, ends);
	signal(SIGBUS, ends);
	signal(SIGILL, ends);
	signal(SIGTRAP, ends);
	signal(SIGALRM, ends);
	alarm(5);
}

static long protect(uint64_t addr, uint64_t size, uint64_t prot)
{
	return host_call(SYS_mprotect, (uint64_t[6]){addr, size, prot});
}

/* What the filter does not let pass is the guest's own call: then the sentry knows of it. */
static bool protected_unknown(uint64_t addr, uint64_t size, uint64_t prot)
{
	return protect(addr, size, prot) == 0 && !is_known_for(addr, prot & PROT_EXEC ? 'x' : 'w');
}

/* Nothing becomes executable by it, nor does the stub's own change. */
static int protections(void)
{
	static const uint64_t prots[] = {PROT_EXEC, RW | PROT_EXEC, PROT_READ | PROT_EXEC,
					 RW | PROT_GROWSDOWN, RW | UINT64_C(1) << 32};
	char *p = mmap(NULL, 2 * OWN_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned wrong = 0;

	for (unsigned i = 0; i < HOSTILE_COUNT(prots); i++)
		wrong += protected_unknown((uint64_t)p, PAGE, prots[i]);
	wrong += protected_unknown((uint64_t)p, OWN_MAX + PAGE, RW);
	wrong += protected_unknown((uint64_t)p + PAGE, (UINT64_C(1) << 32) + PAGE, RW);
	for (uint64_t at = STUB_REGION; at < STUB_REGION + 0x60000; at += PAGE) {
		wrong += protect(at, PAGE, RW) == 0;
		wrong += protect(at, PAGE, PROT_NONE) == 0;
	}
	wrong += protect(STUB_REGION - OWN_MAX / 2, OWN_MAX, RW) == 0;
	wrong += protect(0x7fffff000000u, PAGE, RW) == 0; /* a view's place */
	if (wrong != 0)
		printf("protections: %u\n", wrong);
	return wrong != 0;
}

/* Can what is mapped shared at @p, and may not be written, be made writable? */
static int wrote(const char *what, void *p)
{
	int status;

	if (p == MAP_FAILED) {
		printf("%s: cannot be mapped: %s\n", what, strerror(errno));
		return 1;
	}
	if (fork() == 0) {
		end_quietly();
		(void)protect((uint64_t)p, PAGE, RW);
		*(volatile char *)p = 'x';
		_exit(1);
	}
	wait(&status);
	if (status != 0)
		printf("%s: it was written\n", what);
	return status != 0;
}

static int read_only_files(void)
{
	const int rw = open("/tmp/ro", O_RDWR | O_CREAT, 0600), ro = open("/tmp/ro", O_RDONLY);
	const int sealed = memfd_create("sealed", MFD_ALLOW_SEALING);
	const int shm = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
	char *p, *q;
	int bad;

	if (ftruncate(rw, PAGE) != 0 || ftruncate(sealed, PAGE) != 0)
		return 1;
	/* The same file may be written by who has opened it so: first, that is in the stubs' table.
	 */
	p = mmap(NULL, PAGE, RW, MAP_SHARED, rw, 0);
	p[0] = 'a';
	q = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0);
	bad = wrote("a file", q);
	bad += wrote("a file, moved", mremap(q, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
					     (void *)free_place(PAGE)));
	q = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, ro, 0);
	bad += wrote("a file, twice", mremap(q, 0, PAGE, MREMAP_MAYMOVE));
	bad += p[0] != 'a';
	if (fcntl(sealed, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0)
		return 1;
	bad += wrote("a sealed file", mmap(NULL, PAGE, PROT_READ, MAP_SHARED, sealed, 0));
	bad += wrote("shared memory", shmat(shm, NULL, SHM_RDONLY));
	shmctl(shm, IPC_RMID, NULL);
	return bad != 0;
}

/* How much can be mapped at @at and above, until the host says no. */
static uint64_t fill(uint64_t at, uint64_t most)
{
	uint64_t n = 0;

	while (n < most && own(at + n, OWN_MAX) == (long)(at + n)) {
		*(volatile char *)(at + n) = 1;
		n += OWN_MAX;
	}
	return n;
}

static int limited(void)
{
	const uint64_t at = free_place(4 * BOUND);

	return fill(at, 2 * BOUND) >= BOUND;
}

/* What the guest asks for and does not use for that, it can use elsewhere, and no more: reserves,
 * protections that hide what was written, memory that is given back. */
static int limited_after_games(void)
{
	const uint64_t big = 8 * BOUND, at = free_place(4 * BOUND);
	char *p = mmap(NULL, big, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)fill((uint64_t)p, 2 * BOUND);
	(void)!mprotect(p, big, PROT_READ);
	(void)!mprotect(p, BOUND, RW);
	(void)fill((uint64_t)p + 2 * BOUND, BOUND);
	(void)!mprotect(p, big, PROT_NONE);
	munmap(p, big);
	for (int i = 0; i < 40; i++) {
		p = mmap(NULL, MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			break;
		host_munmap((uint64_t)p, MIB);
		munmap(p, MIB);
	}
	return fill(at, 2 * BOUND) >= BOUND;
}

/* Keeps what it is told to unmap. */
static int kept(void)
{
	const uint64_t at = free_place(4 * BOUND);

	for (uint64_t n = 0; n < BOUND; n += MIB) {
		char *p = mmap((void *)(at + n), MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return 0;
		memset(p, 1, MIB);
		call_by_hand(SYS_munmap, (uint64_t[6]){(uint64_t)p, MIB});
		if (!is_there((uint64_t)p))
			return 0;
	}
	return 1;
}

/* The memory of a file that is gone is given back: no mapping of it can be kept. */
static int kept_file(void)
{
	const int fd = open("/tmp/kept", O_RDWR | O_CREAT, 0600);
	char *p, c = 1;

	for (uint64_t at = 0; at < MIB; at += PAGE)
		if (pwrite(fd, &c, 1, (off_t)at) != 1)
			return 1;
	p = mmap(NULL, PAGE, RW, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED || !is_there((uint64_t)p))
		return 1;
	unlink("/tmp/kept");
	close(fd);
	call_by_hand(SYS_munmap, (uint64_t[6]){(uint64_t)p, PAGE});
	return is_there((uint64_t)p);
}

/* Runs @f in a child, in which the host is asked, if it can be. */
static void must(const char *what, int (*f)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		for (int i = 0; i < 60; i++)
			syscall(SYS_close, -1);
		end_quietly();
		if (!can_map())
			_exit(0);
		if (f == shapes || f == over_the_stub || f == over_files || f == protections) {
			/* Only looks, which may take their time. */
			alarm(0);
			for (int sig = 1; sig < 32; sig++)
				signal(sig, SIG_DFL);
		}
		_exit(f() != 0);
	}
	waitpid(pid, &status, 0);
	/* What the host refuses to do for the sentry ends the process: by the agent's hand, or by
	 * the stub's in the thread itself. */
	if (status != 0 && !(f == kept && WIFSIGNALED(status))) {
		printf("%s: status %#x\n", what, status);
		exit(1);
	}
}

int main(void)
{
	hostile_begin();
	if (pipe(g_pipe) != 0)
		return 1;
	must("shapes", shapes);
	must("over the stub", over_the_stub);
	must("over files", over_files);
	must("protections", protections);
	must("read-only files", read_only_files);
	must("limited", limited);
	must("limited after games", limited_after_games);
	must("kept", kept);
	must("kept file", kept_file);
	puts("ok");
	return 0;
}
