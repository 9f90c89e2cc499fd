/* SPDX-License-Identifier: Apache-2.0 */

/* Hot call sites and many threads: sites that become hot in all of them at once, beside code that
 * is rewritten, beside forks; bases of GS; raw clones; more sites than anybody remembers. */
#include "call_sites.h"
#include <asm/prctl.h>

#define THREADS 6

static void put_site(struct code *c, unsigned kind, uint32_t nr, const uint8_t **next)
{
	if (kind == 0) {
		PUT(c, "\xb8");
		put32(c, nr);
		PUT(c, "\x0f\x05");
		*next = c->at;
	} else {
		PUT(c, "\x48\xc7\xc0");
		put32(c, nr);
		PUT(c, "\x0f\x05");
		*next = c->at;
		if (kind == 1)
			PUT(c, "\x0f\x1f\x40\x00");
	}
	put_exit(c);
}

/* --- One site, all threads --- */

static pthread_barrier_t g_barrier;
static uint8_t *g_sites[24];
static const uint8_t *g_nexts[24];

static void *calls_all(void *arg)
{
	long wrong = 0;

	(void)arg;
	for (size_t s = 0; s < GUEST_COUNT(g_sites); s++) {
		pthread_barrier_wait(&g_barrier);
		for (int i = 0; i < 60; i++) {
			site_fill();
			site_call(g_sites[s]);
			wrong += site_wrong(g_nexts[s], EBADF_RAX);
		}
	}
	return (void *)wrong;
}

static void make_sites(void)
{
	for (size_t s = 0; s < GUEST_COUNT(g_sites); s++) {
		struct code c = code_new(PAGE);

		put_site(&c, s % 3, NR_CLOSE, &g_nexts[s]);
		code_done(c.start, PAGE);
		g_sites[s] = c.start;
	}
}

static void together(void)
{
	pthread_t t[THREADS];
	long wrong = 0;
	void *r;

	make_sites();
	pthread_barrier_init(&g_barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, calls_all, NULL);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(t[i], &r);
		wrong += (long)r;
	}
	printf("all at once: wrong %ld\n", wrong);
}

/* --- Beside a compiler --- */

static volatile bool g_stop;

static void *calls_on(void *arg)
{
	const size_t s = (size_t)arg;
	long wrong = 0;

	do {
		site_fill();
		site_call(g_sites[s]);
		wrong += site_wrong(g_nexts[s], EBADF_RAX);
	} while (!g_stop);
	return (void *)wrong;
}

static void *flips(void *arg)
{
	struct code c = code_new(PAGE);
	const uint8_t *next;
	long wrong = 0;

	(void)arg;
	for (int i = 0; i < 40; i++) {
		mprotect(c.start, PAGE, PROT_READ | PROT_WRITE);
		c.at = c.start;
		put_site(&c, (unsigned)i % 2, i % 4 < 2 ? NR_CLOSE : 1000, &next);
		mprotect(c.start, PAGE, PROT_READ | PROT_EXEC);
		for (int k = 0; k < 40; k++) {
			site_fill();
			site_call(c.start);
			wrong += site_wrong(next, i % 4 < 2 ? EBADF_RAX : (uint64_t)-38);
		}
	}
	return (void *)wrong;
}

static void beside(void)
{
	pthread_t t[4];
	long wrong = 0;
	void *r;

	make_sites();
	g_stop = false;
	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, i < 2 ? calls_on : flips, (void *)i);
	for (int i = 3; i >= 0; i--) {
		if (i == 1)
			g_stop = true;
		pthread_join(t[i], &r);
		wrong += (long)r;
	}
	printf("beside a compiler: wrong %ld\n", wrong);
}

/* --- Forks meanwhile --- */

static void *heats(void *arg)
{
	const size_t first = (size_t)arg;
	long wrong = 0;

	for (unsigned n = 0; !g_stop; n++) {
		const size_t s = (first + n / 40) % GUEST_COUNT(g_sites);

		site_fill();
		site_call(g_sites[s]);
		wrong += site_wrong(g_nexts[s], EBADF_RAX);
	}
	return (void *)wrong;
}

static void forking(void)
{
	pthread_t t[3];
	long wrong = 0;
	int status;
	void *r;

	for (int round = 0; round < 3; round++) {
		make_sites();
		g_stop = false;
		for (long i = 0; i < 3; i++)
			pthread_create(&t[i], NULL, heats, (void *)(i * 8));
		for (int i = 0; i < 8; i++) {
			pid_t pid = fork();

			if (pid == 0) {
				int bad = 0;

				for (int k = 0; k < 30; k++) {
					for (size_t s = 0; s < GUEST_COUNT(g_sites); s += 5) {
						site_fill();
						site_call(g_sites[s]);
						bad += site_wrong(g_nexts[s], EBADF_RAX);
					}
				}
				_exit(bad != 0);
			}
			wrong += waitpid(pid, &status, 0) != pid || status != 0;
		}
		g_stop = true;
		for (int i = 0; i < 3; i++) {
			pthread_join(t[i], &r);
			wrong += (long)r;
		}
	}
	printf("forks meanwhile: wrong %ld\n", wrong);
}

/* --- GS --- */

static uint64_t gs_word(void)
{
	uint64_t v;

	__asm__ volatile("mov %%gs:8, %0" : "=r"(v));
	return v;
}

static int heat(size_t s, uint64_t flags)
{
	int wrong = 0;

	for (int i = 0; i < 60; i++) {
		site_fill();
		site_in[FLAGS] = flags;
		site_call(g_sites[s]);
		wrong += site_wrong(g_nexts[s], EBADF_RAX);
		wrong += syscall(SYS_close, -1) != -1 || errno != EBADF;
	}
	return wrong;
}

/* arch_prctl from a site that may be hot: 0 and 1. */
static const uint8_t *g_prctl[2];

static long set_gs(unsigned kind, uint64_t base)
{
	if (kind == 2)
		return syscall(SYS_arch_prctl, ARCH_SET_GS, base);
	site_fill();
	site_in[RDI] = ARCH_SET_GS;
	site_in[RSI] = base;
	site_call(g_prctl[kind]);
	return (long)site_out[RAX];
}

static void *with_gs(void *arg)
{
	/* Nearly as long as an area, whatever lies where somebody may look. */
	uint64_t *mine = map(NULL, 32 * PAGE, PROT_READ | PROT_WRITE), v;
	char *none = map(NULL, 16 * PAGE, PROT_NONE);
	int fd = open("short", O_RDWR | O_CREAT, 0600);
	char *past = mmap(NULL, 16 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	unsigned long now;
	long wrong = 0;

	for (unsigned k = 0; k < 3; k++) {
		const size_t s = k;

		for (size_t i = 0; i < 32 * PAGE / 8; i++)
			mine[i] = (uint64_t)arg + i;
		wrong += heat(s, 0x202);
		for (int i = 0; i < HOT; i++)
			wrong += set_gs(k, 0) != 0;
		wrong += set_gs(k, (uint64_t)mine) != 0;
		wrong += gs_word() != mine[1];
		wrong += heat(s, 0x202) + (gs_word() != mine[1]);
		/* Unaligned, with alignment checked. */
		wrong += set_gs(k, (uint64_t)mine + 3) != 0;
		wrong += heat(s, 0x40202);
		wrong += set_gs(k, (uint64_t)none) != 0;
		wrong += heat(s, 0x202);
		wrong += set_gs(k, (uint64_t)past) != 0;
		wrong += heat(s, 0x202);
		wrong += set_gs(k, 0x10000) != 0;
		wrong += heat(s, 0x202);
		wrong += syscall(SYS_arch_prctl, ARCH_GET_GS, &now) != 0 || now != 0x10000;
		wrong += set_gs(k, (uint64_t)mine) != 0 || gs_word() != mine[1];
		wrong += set_gs(k, 0) != 0;
		wrong += heat(s, 0x202);
		wrong += syscall(SYS_arch_prctl, ARCH_GET_GS, &now) != 0 || now != 0;
		/* There and back. */
		for (int i = 0; i < 40; i++) {
			wrong += set_gs(k, (uint64_t)mine) != 0;
			wrong += gs_word() != mine[1];
			v = gs_word();
			wrong += syscall(SYS_close, -1) != -1 || v != gs_word();
			wrong += set_gs(k, 0) != 0;
			wrong += syscall(SYS_close, -1) != -1;
		}
	}
	/* What lies there is as it was. */
	for (size_t i = 0; i < 32 * PAGE / 8; i++)
		wrong += mine[i] != (uint64_t)arg + i;
	close(fd);
	return (void *)wrong;
}

static void bases(void)
{
	struct code c = code_new(PAGE);
	const uint8_t *next;
	pthread_t t[4];
	long wrong = 0;
	void *r;

	for (unsigned k = 0; k < 2; k++) {
		g_prctl[k] = c.at;
		put_site(&c, k, SYS_arch_prctl, &next);
	}
	code_done(c.start, PAGE);
	make_sites();
	printf("gs: wrong %ld\n", (long)with_gs((void *)1));
	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, with_gs, (void *)(i * 1000));
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &r);
		wrong += (long)r;
	}
	printf("gs of threads: wrong %ld\n", wrong);
}

/* --- clone, without a stack of its own for the child --- */

static void clones(void)
{
	static volatile uint32_t born;
	const uint64_t flags =
		CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;

	for (unsigned k = 0; k < 2; k++) {
		struct code c = code_new(PAGE);
		const uint8_t *next;
		uint8_t *skip;
		int wrong = 0;

		if (k == 0)
			PUT(&c, "\xb8\x38\x00\x00\x00\x0f\x05");
		else
			PUT(&c, "\x48\xc7\xc0\x38\x00\x00\x00\x0f\x05");
		next = c.at;
		PUT(&c, "\x48\x85\xc0\x75"); /* test; jnz */
		skip = c.at++;
		PUT(&c, "\xf0\x41\xff\x04\x24");                 /* lock incl (%r12) */
		PUT(&c, "\x31\xff\xb8\x3c\x00\x00\x00\x0f\x05"); /* exit(0) */
		*skip = (uint8_t)(c.at - skip - 1);
		put_exit(&c);
		code_done(c.start, PAGE);
		born = 0;
		for (uint32_t i = 0; i < 60; i++) {
			site_fill();
			site_in[RDI] = flags;
			site_in[RSI] = site_in[RDX] = site_in[R10] = site_in[R8] = 0;
			site_in[R12] = (uint64_t)&born;
			site_call(c.start);
			wrong += (long)site_out[RAX] <= 0 || site_out[RCX] != (uint64_t)next;
			while (born != i + 1)
				sched_yield();
		}
		printf("clones %u: %u, wrong %d\n", k, born, wrong);
	}
}

/* --- More than anybody remembers --- */

#define MANY 5000

static void many(void)
{
	struct code c = code_new(64 * PAGE);
	const uint8_t *starts[MANY];
	int wrong = 0;
	long r;

	for (unsigned i = 0; i < MANY; i++) {
		starts[i] = c.at;
		PUT(&c, "\xb8");
		put32(&c, i & 1 ? NR_CLOSE : 1000);
		PUT(&c, "\x0f\x05\xc3\x90\x90\x90");
	}
	code_done(c.start, 64 * PAGE);
	for (unsigned i = 0; i < MANY; i++) {
		for (int k = 0; k < 26; k++) {
			__asm__ volatile("call *%1"
					 : "=a"(r)
					 : "r"(starts[i]), "D"(-1L)
					 : "rcx", "r11", "memory", "cc");
			wrong += r != (i & 1 ? -9 : -38);
		}
	}
	for (unsigned i = 0; i < MANY; i += 7) {
		__asm__ volatile("call *%1"
				 : "=a"(r)
				 : "r"(starts[i]), "D"(-1L)
				 : "rcx", "r11", "memory", "cc");
		wrong += r != (i & 1 ? -9 : -38);
	}
	printf("many sites: wrong %d\n", wrong);
}

int main(void)
{
	guest_begin();
	together();
	beside();
	forking();
	bases();
	clones();
	many();
	return 0;
}
