/* SPDX-License-Identifier: Apache-2.0 */

/* futex(2): the operations, on memory of all kinds, and robust lists. */
#include "guest.h"
#include <linux/futex.h>

static uint32_t *word;

static long futex(uint32_t *a, int op, uint32_t v, const void *t, uint32_t *b, uint32_t v3)
{
	return syscall(SYS_futex, a, op, v, t, b, v3);
}

struct sleeper {
	pthread_t thread;
	volatile pid_t tid;
	uint32_t *word;
	uint32_t bits, expect;
	volatile int woken;
	long result;
	int error;
};

static void *sleeper_main(void *arg)
{
	struct sleeper *s = arg;

	s->tid = gettid();
	errno = 0;
	s->result = futex(s->word, FUTEX_WAIT_BITSET_PRIVATE, s->expect, NULL, NULL, s->bits);
	s->error = errno;
	s->woken = 1;
	return NULL;
}

static void start(struct sleeper *s, uint32_t *w, uint32_t bits)
{
	*s = (struct sleeper){.word = w, .bits = bits, .expect = *w};
	pthread_create(&s->thread, NULL, sleeper_main, s);
	while (!s->tid)
		sched_yield();
	guest_until(getpid(), s->tid, 'S');
}

/* How many have woken, once at least the expected number have, or a second has passed. */
static int woken(struct sleeper *s, int n, int expected)
{
	int count = 0;

	for (int tries = 0; tries < 1000; tries++) {
		count = 0;
		for (int i = 0; i < n; i++)
			count += s[i].woken;
		if (count >= expected)
			break;
		guest_sleep_ms(1);
	}
	guest_sleep_ms(5);
	count = 0;
	for (int i = 0; i < n; i++)
		count += s[i].woken;
	return count;
}

static void basics(void)
{
	struct timespec brief = {0, 10000000}, bad = {0, 1000000000}, negative = {-1, 0}, now;
	int64_t t0;

	P("wait and wake");
	*word = 1;
	V(futex(word, FUTEX_WAIT, 0, NULL, NULL, 0));
	t0 = guest_now_ms();
	V(futex(word, FUTEX_WAIT, 1, &brief, NULL, 0));
	T(guest_now_ms() - t0 >= 9);
	V(futex(word, FUTEX_WAIT, 1, &bad, NULL, 0));
	V(futex(word, FUTEX_WAIT, 1, &negative, NULL, 0));
	V(futex(word, FUTEX_WAIT, 0, &bad, NULL, 0));
	V(futex(word, FUTEX_WAIT, 1, (void *)8, NULL, 0));
	V(futex((uint32_t *)((char *)word + 1), FUTEX_WAIT, 1, NULL, NULL, 0));
	V(futex((uint32_t *)8, FUTEX_WAIT, 1, NULL, NULL, 0));
	V(futex((uint32_t *)8, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0));
	V(futex(NULL, FUTEX_WAKE, 1, NULL, NULL, 0));
	V(futex(NULL, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
	V(futex((uint32_t *)((char *)word + 2), FUTEX_WAKE, 1, NULL, NULL, 0));
	V(futex(word, FUTEX_WAKE, 1, NULL, NULL, 0));
	V(futex(word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 0));
	V(futex(word, FUTEX_WAIT_BITSET, 1, NULL, NULL, 0));
	V(futex(word, 77, 1, NULL, NULL, 0));
	V(futex(word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, NULL, NULL, 0));
	V(futex(word, FUTEX_FD, 1, NULL, NULL, 0));
	clock_gettime(CLOCK_MONOTONIC, &now);
	V(futex(word, FUTEX_WAIT_BITSET, 1, &now, NULL, 1));
	clock_gettime(CLOCK_REALTIME, &now);
	V(futex(word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 1, &now, NULL, 1));
	now.tv_sec = 1;
	V(futex(word, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 1, &now, NULL, ~0u));
}

static void sets(void)
{
	struct sleeper s[4];

	P("bit sets");
	*word = 5;
	for (int i = 0; i < 4; i++)
		start(&s[i], word, 1u << i);
	V(futex(word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 16));
	printf("woken %d\n", woken(s, 4, 0));
	V(futex(word, FUTEX_WAKE_BITSET_PRIVATE, 10, NULL, NULL, 2 | 8));
	woken(s, 4, 2);
	printf("woken %d %d %d %d\n", s[0].woken, s[1].woken, s[2].woken, s[3].woken);
	V(futex(word, FUTEX_WAKE, 10, NULL, NULL, 0));
	V(futex(word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
	printf("woken %d\n", woken(s, 4, 3));
	V(futex(word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0));
	for (int i = 0; i < 4; i++) {
		pthread_join(s[i].thread, NULL);
		printf("result %ld %d\n", s[i].result, s[i].error);
	}
}

static void requeue(void)
{
	struct sleeper s[6];
	uint32_t *other = word + 16;

	P("requeue");
	*word = 1;
	*other = 2;
	for (int i = 0; i < 6; i++)
		start(&s[i], word, ~0u);
	V(futex(word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)2, other, 99));
	V(futex(word, FUTEX_CMP_REQUEUE_PRIVATE, (uint32_t)-1, (void *)2, other, 1));
	V(futex(word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)2, other, 1));
	printf("woken %d\n", woken(s, 6, 1));
	V(futex(other, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
	printf("woken %d\n", woken(s, 6, 3));
	V(futex(word, FUTEX_REQUEUE_PRIVATE, 0, (void *)10, other, 0));
	printf("woken %d\n", woken(s, 6, 3));
	V(futex(word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
	V(futex(other, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
	for (int i = 0; i < 6; i++)
		pthread_join(s[i].thread, NULL);
	V(futex(word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (void *)1, (uint32_t *)8, 1));
}

/* Where moat puts jumps in place of calls that are made often it stops all threads for a moment:
 * who sleeps then looks at its word anew, which a wake_op may have changed. So the calls between
 * are made often enough before. */
static void warm_up(void)
{
	for (int i = 0; i < 40; i++) {
		struct timespec none = {0};

		if (clock_nanosleep(CLOCK_MONOTONIC, 0, &none, NULL) != 0 || write(1, "", 0) != 0)
			printf("cannot sleep or write\n");
	}
}

static void wake_op(void)
{
	struct sleeper s[4];
	uint32_t *other = word + 16;
	static const struct {
		int op, arg, cmp, cmparg;
		uint32_t start;
	} ops[] = {
		{FUTEX_OP_SET, 7, FUTEX_OP_CMP_EQ, 1, 1},
		{FUTEX_OP_ADD, 7, FUTEX_OP_CMP_NE, 1, 1},
		{FUTEX_OP_ADD, -1 & 0xfff, FUTEX_OP_CMP_LT, 5, 1},
		{FUTEX_OP_OR, 6, FUTEX_OP_CMP_LE, 1, 1},
		{FUTEX_OP_ANDN, 3, FUTEX_OP_CMP_GT, 5, 7},
		{FUTEX_OP_XOR, 5, FUTEX_OP_CMP_GE, 8, 7},
		{FUTEX_OP_SET | FUTEX_OP_OPARG_SHIFT, 9, FUTEX_OP_CMP_EQ, 0, 0},
	};

	P("wake_op");
	warm_up();
	for (size_t i = 0; i < GUEST_COUNT(ops); i++) {
		*word = 1;
		*other = ops[i].start;
		start(&s[0], word, ~0u);
		start(&s[1], other, ~0u);
		printf("op %d: ", ops[i].op);
		long r =
			futex(word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, other,
			      (uint32_t)FUTEX_OP(ops[i].op, ops[i].arg, ops[i].cmp, ops[i].cmparg));

		V(r);
		woken(s, 2, (int)r);
		printf("value %u woken %d %d\n", *other, s[0].woken, s[1].woken);
		futex(word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
		futex(other, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0);
		pthread_join(s[0].thread, NULL);
		pthread_join(s[1].thread, NULL);
	}
	V(futex(word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, other, 0x70000000));
	V(futex(word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, (uint32_t *)8, 0));
}

static void shared(void)
{
	pid_t pid;
	int fd;
	uint32_t *a, *b;

	P("shared between processes");
	*word = 0;
	pid = guest_fork();
	if (!pid) {
		long r = futex(word, FUTEX_WAIT, 0, NULL, NULL, 0);

		_exit(r == 0 ? 4 : 5);
	}
	guest_until_asleep(pid);
	V(futex(word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
	V(futex(word, FUTEX_WAKE, 10, NULL, NULL, 0));
	guest_wait("sleeper", pid);
	/* One file mapped twice is one futex. */
	fd = open("word", O_RDWR | O_CREAT, 0600);
	V(ftruncate(fd, 8192));
	a = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pid = guest_fork();
	if (!pid) {
		b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
		_exit(futex(b + 3, FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 6 : 7);
	}
	guest_until_asleep(pid);
	V(futex(a + 3, FUTEX_WAKE, 10, NULL, NULL, 0));
	V(futex(a + 1024 + 3, FUTEX_WAKE, 10, NULL, NULL, 0));
	guest_wait("sleeper", pid);
	/* What cannot be read cannot be shared. */
	V(ftruncate(fd, 4096));
	V(futex(a, FUTEX_WAKE, 1, NULL, NULL, 0));
	V(futex(a + 1024, FUTEX_WAKE, 1, NULL, NULL, 0));
	V(futex(a + 1024, FUTEX_WAIT, 0, NULL, NULL, 0));
	V(mprotect(a, 8192, PROT_NONE));
	V(futex(a, FUTEX_WAKE, 1, NULL, NULL, 0));
	V(mprotect(a, 4096, PROT_READ));
	V(futex(a, FUTEX_WAKE, 1, NULL, NULL, 0));
	V(munmap(a, 8192));
	V(futex(a, FUTEX_WAKE, 1, NULL, NULL, 0));
	/* A private mapping is not shared even after a fork. */
	b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid = guest_fork();
	if (!pid) {
		struct timespec brief = {0, 50000000};

		_exit(futex(b, FUTEX_WAIT, 0, &brief, NULL, 0) && errno == ETIMEDOUT ? 8 : 9);
	}
	guest_until_asleep(pid);
	V(futex(b, FUTEX_WAKE, 10, NULL, NULL, 0));
	guest_wait("sleeper", pid);
	/* Nor is there one where it cannot be written, but for who says himself that it is private.
	 */
	V(mprotect(b, 4096, PROT_READ));
	V(futex(b, FUTEX_WAKE, 1, NULL, NULL, 0));
	V(futex(b, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
	V(futex(b, FUTEX_WAIT, 0, NULL, NULL, 0));
	V(futex(b, FUTEX_WAIT_PRIVATE, 7, NULL, NULL, 0));
	V(futex(b, FUTEX_REQUEUE, 1, (void *)1, b, 0));
	V(futex(b, FUTEX_CMP_REQUEUE, 1, (void *)1, b, 0));
	V(munmap(b, 4096));
}

/* ---- words that may not be written ---- */

/* Every operation on @p, which holds @value; those that write, as another operation's second word
 * too. */
static void on_word(const char *what, uint32_t *p, uint32_t value)
{
	static uint32_t other;
	struct timespec brief = {0, 1000};

	for (int private = 0; private <= FUTEX_PRIVATE_FLAG; private += FUTEX_PRIVATE_FLAG) {
		printf("%s, %s\n", what, private ? "private" : "shared");
		V(futex(p, FUTEX_WAIT | private, value, &brief, NULL, 0));
		V(futex(p, FUTEX_WAIT | private, value + 1, NULL, NULL, 0));
		V(futex(p, FUTEX_WAKE | private, 1, NULL, NULL, 0));
		V(futex(p, FUTEX_WAKE_OP | private, 1, (void *)1, &other, 0));
		V(futex(&other, FUTEX_WAKE_OP | private, 1, (void *)1, p, 0));
		V(futex(p, FUTEX_REQUEUE | private, 1, (void *)1, &other, 0));
		V(futex(&other, FUTEX_REQUEUE | private, 1, (void *)1, p, 0));
		V(futex(&other, FUTEX_CMP_REQUEUE | private, 1, (void *)1, p, other));
		V(futex(p, FUTEX_LOCK_PI | private, 0, NULL, NULL, 0));
		V(futex(p, FUTEX_TRYLOCK_PI | private, 0, NULL, NULL, 0));
		V(futex(p, FUTEX_UNLOCK_PI | private, 0, NULL, NULL, 0));
	}
}

/* Whose a page is, by /proc: a file's, or the process's own. */
static void whose(const void *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t word = 0;

	pread(fd, &word, sizeof(word), (off_t)((uintptr_t)p / 4096 * sizeof(word)));
	close(fd);
	printf("there %d, a file's %d\n", (int)(word >> 63), (int)(word >> 61 & 1));
}

static void read_only(void)
{
	const uint32_t values[] = {0, (uint32_t)gettid(), 0x3ffffff};
	int fd = open("words", O_RDWR | O_CREAT, 0600);
	uint32_t *p, *q;
	pid_t pid;

	P("read-only words: free, the caller's, of a thread that is gone");
	V(ftruncate(fd, 8192));
	for (size_t i = 0; i < GUEST_COUNT(values); i++) {
		printf("value %zu\n", i);
		pwrite(fd, &values[i], 4, 0);
		pwrite(fd, &values[i], 4, 4096);
		p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		*(volatile uint32_t *)p = values[i];
		V(mprotect(p, 8192, PROT_READ));
		on_word("a written page of a private file", p, values[i]);
		on_word("one beside it", p + 1024, values[i]);
		whose(p);
		whose(p + 1024);
		munmap(p, 8192);
		p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		on_word("a shared file", p, values[i]);
		whose(p);
		munmap(p, 4096);
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		*p = values[i];
		V(mprotect(p, 4096, PROT_READ));
		on_word("shared memory", p, values[i]);
		whose(p);
		munmap(p, 4096);
		p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*p = values[i];
		V(mprotect(p, 4096, PROT_READ));
		on_word("private memory", p, values[i]);
		whose(p);
		munmap(p, 4096);
	}
	/* Whoever maps a file's page, however, has the file's futex. */
	P("a file's word, mapped for reading only");
	p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	q = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*q = 0;
	pid = guest_fork();
	if (!pid)
		_exit(futex(q, FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 6 : 7);
	guest_until_asleep(pid);
	V(futex(p, FUTEX_WAKE, 10, NULL, NULL, 0));
	guest_wait("sleeper", pid);
	pid = guest_fork();
	if (!pid)
		_exit(futex(p, FUTEX_WAIT, 0, NULL, NULL, 0) == 0 ? 6 : 7);
	guest_until_asleep(pid);
	V(futex(q, FUTEX_WAKE, 10, NULL, NULL, 0));
	guest_wait("sleeper", pid);
	munmap(p, 4096);
	munmap(q, 4096);
	close(fd);
}

/* ---- priority inheritance ---- */

static void owned(void)
{
	uint32_t self = (uint32_t)gettid();
	int to[2], from[2];
	pid_t pid;

	P("PI words of others");
	*word = 0x3ffffff;
	V(futex(word, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	printf("word %#x\n", *word);
	*word = 0x3ffffff;
	V(futex(word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	printf("word %#x\n", *word);
	*word = 0;
	pipe(to);
	pipe(from);
	pid = guest_fork();
	if (!pid) {
		char c = (char)futex(word, FUTEX_LOCK_PI, 0, NULL, NULL, 0);

		write(from[1], &c, 1);
		read(to[0], &c, 1);
		_exit(futex(word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0) == 0 ? 8 : 9);
	}
	read(from[0], &(char){0}, 1);
	V(futex(word, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	printf("owner %d waiters %d\n", (pid_t)(*word & FUTEX_TID_MASK) == pid,
	       !!(*word & FUTEX_WAITERS));
	V(futex(word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
	write(to[1], "", 1);
	V(futex(word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	printf("owner %d\n", (*word & FUTEX_TID_MASK) == self);
	guest_wait("owner before", pid);
	V(futex(word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
	V(futex(word, FUTEX_TRYLOCK_PI, 0, NULL, NULL, 0));
	V(futex(word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
	printf("word %u\n", *word);
	for (int i = 0; i < 2; i++) {
		close(to[i]);
		close(from[i]);
	}
}

static void *robust_main(void *arg)
{
	pthread_mutex_lock(arg);
	return NULL;
}

static void robust(void)
{
	struct robust_list_head head = {.list = {&head.list}}, *got = NULL;
	struct {
		struct robust_list next;
		uint32_t lock;
	} *entry = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attr;
	pthread_mutex_t m;
	pthread_t t;
	size_t size = 0;
	pid_t pid;

	P("robust lists");
	V(syscall(SYS_set_robust_list, &head, 5));
	V(syscall(SYS_get_robust_list, 0, &got, &size));
	printf("there %d size %zu\n", got != NULL, size);
	V(syscall(SYS_get_robust_list, 1 << 22, &got, &size));
	V(syscall(SYS_get_robust_list, 0, NULL, &size));
	pid = guest_fork();
	if (!pid) {
		head.list.next = &entry->next;
		entry->next.next = &head.list;
		head.futex_offset = (char *)&entry->lock - (char *)&entry->next;
		head.list_op_pending = NULL;
		syscall(SYS_set_robust_list, &head, sizeof(head));
		entry->lock = (uint32_t)gettid() | FUTEX_WAITERS;
		_exit(0);
	}
	guest_wait("owner", pid);
	printf("lock word: owner died %d waiters %d tid %u\n", !!(entry->lock & FUTEX_OWNER_DIED),
	       !!(entry->lock & FUTEX_WAITERS), entry->lock & FUTEX_TID_MASK);
	pid = guest_fork();
	if (!pid) {
		head.list.next = &entry->next;
		entry->next.next = &head.list;
		syscall(SYS_set_robust_list, &head, sizeof(head));
		entry->lock = 12345;
		kill(getpid(), SIGKILL);
	}
	guest_wait("not the owner", pid);
	printf("lock word %u\n", entry->lock);
	pthread_mutexattr_init(&attr);
	E(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
	pthread_mutex_init(&m, &attr);
	pthread_create(&t, NULL, robust_main, &m);
	pthread_join(t, NULL);
	E(pthread_mutex_lock(&m));
	E(pthread_mutex_consistent(&m));
	E(pthread_mutex_unlock(&m));
	pthread_create(&t, NULL, robust_main, &m);
	pthread_join(t, NULL);
	E(pthread_mutex_lock(&m));
	E(pthread_mutex_unlock(&m));
	E(pthread_mutex_lock(&m));
}

static void many(void)
{
	struct sleeper *s = calloc(100, sizeof(*s));

	P("a hundred sleepers");
	*word = 1;
	for (int i = 0; i < 100; i++)
		start(&s[i], word, ~0u);
	V(futex(word, FUTEX_WAKE_PRIVATE, 30, NULL, NULL, 0));
	printf("woken %d\n", woken(s, 100, 30));
	V(futex(word, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0));
	for (int i = 0; i < 100; i++)
		pthread_join(s[i].thread, NULL);
	V(futex(word, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0));
	free(s);
}

int main(void)
{
	guest_begin();
	word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* Private operations on a shared mapping key by address: right within one process. */
	basics();
	sets();
	requeue();
	wake_op();
	shared();
	read_only();
	owned();
	robust();
	many();
	return 0;
}
