/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Micro-operations: passing a byte, a word or an event there and back.
 *
 * A ping-pong has an echo on the other side, a thread or a process, made by prepare. One operation
 * is a whole round: there and back. The echo ends when its input does.
 */
#include "bench/micro.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum pass_kind { PASS_THREAD, PASS_PROCESS };

/* --- The other side --------------------------------------------------------------------------- */

static int echo_start(struct bench *b, const struct op *op, void *(*echo)(void *))
{
	int err;

	if (op->kind == PASS_THREAD) {
		err = pthread_create(&b->thread, NULL, echo, b);
		if (err)
			errno = err;
		b->child = err ? -1 : 0;
		return err ? -1 : 0;
	}
	b->child = fork();
	if (b->child == 0) {
		b->apart = true;
		echo(b);
		_exit(0);
	}
	return b->child < 0 ? -1 : 0;
}

static int echo_end(struct bench *b, const struct op *op)
{
	if (b->child < 0)
		return -1;
	if (op->kind == PASS_THREAD)
		return pthread_join(b->thread, NULL) == 0 ? 0 : -1;
	return waitpid(b->child, NULL, 0) == b->child ? 0 : -1;
}

/* --- Bytes ------------------------------------------------------------------------------------ */

/* fd[0], fd[1]: our ends to read and write; fd[2], fd[3]: the echo's. */
static void *byte_echo(void *arg)
{
	struct bench *b = arg;
	char c;

	/* A process must let go of our ends, or it never sees the end of its input. */
	if (b->apart) {
		close(b->fd[0]);
		if (b->fd[1] != b->fd[0])
			close(b->fd[1]);
	}
	while (read(b->fd[2], &c, 1) == 1)
		if (write(b->fd[3], &c, 1) != 1)
			break;
	return NULL;
}

static int run_bytes(struct bench *b, const struct op *op, uint64_t n)
{
	char c = 'x';

	(void)op;
	while (n-- > 0)
		if (write(b->fd[1], &c, 1) != 1 || read(b->fd[0], &c, 1) != 1)
			return -1;
	return 0;
}

static int byte_start(struct bench *b, const struct op *op)
{
	if (echo_start(b, op, byte_echo) != 0)
		return -1;
	if (op->kind == PASS_PROCESS) {
		close(b->fd[2]);
		if (b->fd[3] != b->fd[2])
			close(b->fd[3]);
	}
	return 0;
}

static int prepare_pipe(struct bench *b, const struct op *op)
{
	int there[2], back[2];

	b->child = -1;
	if (pipe(there) != 0 || pipe(back) != 0)
		return -1;
	b->fd[0] = back[0];
	b->fd[1] = there[1];
	b->fd[2] = there[0];
	b->fd[3] = back[1];
	return byte_start(b, op);
}

static int prepare_unix(struct bench *b, const struct op *op)
{
	int s[2];

	b->child = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) != 0)
		return -1;
	b->fd[0] = b->fd[1] = s[0];
	b->fd[2] = b->fd[3] = s[1];
	return byte_start(b, op);
}

static int cleanup_bytes(struct bench *b, const struct op *op)
{
	int ret;

	if (b->child < 0)
		return -1;
	close(b->fd[1]);
	ret = echo_end(b, op);
	if (b->fd[0] != b->fd[1])
		close(b->fd[0]);
	if (op->kind == PASS_THREAD) {
		close(b->fd[2]);
		if (b->fd[3] != b->fd[2])
			close(b->fd[3]);
	}
	return ret;
}

/* --- Words ------------------------------------------------------------------------------------ */

enum turn { TURN_OURS, TURN_ECHO, TURN_END };

static void word_set(uint32_t *word, enum turn turn, int flag)
{
	__atomic_store_n(word, turn, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, word, FUTEX_WAKE | flag, 1, NULL, NULL, 0);
}

/* Waits until the word is no longer @turn, and returns it. */
static uint32_t word_wait(uint32_t *word, enum turn turn, int flag)
{
	uint32_t now;

	while ((now = __atomic_load_n(word, __ATOMIC_SEQ_CST)) == turn)
		syscall(SYS_futex, word, FUTEX_WAIT | flag, turn, NULL, NULL, 0);
	return now;
}

static void *word_echo(void *arg)
{
	struct bench *b = arg;
	/* The second word says whether they are private. */
	int flag = (int)b->word[1];

	while (word_wait(b->word, TURN_OURS, flag) == TURN_ECHO)
		word_set(b->word, TURN_OURS, flag);
	return NULL;
}

static int word_start(struct bench *b, const struct op *op, void *(*echo)(void *))
{
	b->child = -1;
	b->word = mmap(NULL, 4 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b->word == MAP_FAILED)
		return -1;
	b->word[0] = TURN_OURS;
	b->word[1] = op->kind == PASS_THREAD ? FUTEX_PRIVATE_FLAG : 0;
	return echo_start(b, op, echo);
}

static int prepare_word(struct bench *b, const struct op *op)
{
	return word_start(b, op, word_echo);
}

static int run_word(struct bench *b, const struct op *op, uint64_t n)
{
	int flag = (int)b->word[1];

	(void)op;
	while (n-- > 0) {
		word_set(b->word, TURN_ECHO, flag);
		word_wait(b->word, TURN_ECHO, flag);
	}
	return 0;
}

static int cleanup_word(struct bench *b, const struct op *op)
{
	int ret;

	if (b->child < 0)
		return -1;
	word_set(b->word, TURN_END, (int)b->word[1]);
	ret = echo_end(b, op);
	munmap(b->word, 4 * KIB);
	return ret;
}

/* --- A line of the cache ---------------------------------------------------------------------- */

static cpu_set_t g_line_cpus; /* where this thread might run before */

/* Moves this thread to the processor that is the @n-th of those. */
static int line_move(int n)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &g_line_cpus) || n-- > 0)
			continue;
		CPU_SET(cpu, &one);
		return sched_setaffinity(0, sizeof(one), &one);
	}
	errno = ENODEV;
	return -1;
}

static uint32_t line_wait(const uint32_t *word, enum turn turn)
{
	uint32_t now;

	while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) == turn)
		;
	return now;
}

static void *line_echo(void *arg)
{
	const struct bench *b = arg;

	while (line_wait(b->word, TURN_OURS) == TURN_ECHO)
		__atomic_store_n(b->word, TURN_OURS, __ATOMIC_RELEASE);
	return NULL;
}

static int prepare_line(struct bench *b, const struct op *op)
{
	b->child = -1;
	if (sched_getaffinity(0, sizeof(g_line_cpus), &g_line_cpus) != 0)
		return -1;
	if (CPU_COUNT(&g_line_cpus) < 2) {
		errno = ENODEV;
		return -1;
	}
	/* The echo is where it was made. A sandbox needs a moment to see that it computes. */
	if (line_move(1) != 0 || word_start(b, op, line_echo) != 0 || line_move(0) != 0)
		return -1;
	return usleep(100000);
}

static int run_line(struct bench *b, const struct op *op, uint64_t n)
{
	(void)op;
	while (n-- > 0) {
		__atomic_store_n(b->word, TURN_ECHO, __ATOMIC_RELEASE);
		line_wait(b->word, TURN_ECHO);
	}
	return 0;
}

static int cleanup_line(struct bench *b, const struct op *op)
{
	const int ret = cleanup_word(b, op);

	return sched_setaffinity(0, sizeof(g_line_cpus), &g_line_cpus) == 0 ? ret : -1;
}

/* --- Events ----------------------------------------------------------------------------------- */

static int prepare_epoll(struct bench *b, const struct op *op)
{
	struct epoll_event ev = {.events = EPOLLIN};

	(void)op;
	b->fd[0] = epoll_create1(0);
	b->fd[1] = eventfd(0, EFD_NONBLOCK);
	if (b->fd[0] < 0 || b->fd[1] < 0)
		return -1;
	return epoll_ctl(b->fd[0], EPOLL_CTL_ADD, b->fd[1], &ev);
}

/* One operation: three calls, write, epoll_wait, read. */
static int run_epoll(struct bench *b, const struct op *op, uint64_t n)
{
	struct epoll_event ev;
	uint64_t value = 1;

	(void)op;
	while (n-- > 0)
		if (write(b->fd[1], &value, 8) != 8 || epoll_wait(b->fd[0], &ev, 1, -1) != 1 ||
		    read(b->fd[1], &value, 8) != 8)
			return -1;
	return 0;
}

static int cleanup_epoll(struct bench *b, const struct op *op)
{
	(void)op;
	close(b->fd[0]);
	close(b->fd[1]);
	return 0;
}

#define POLL_MAX 100

static int g_polled[POLL_MAX];

/* size eventfds, of which the last is ready. */
static int prepare_poll(struct bench *b, const struct op *op)
{
	(void)b;
	for (long i = 0; i < op->size; i++) {
		g_polled[i] = eventfd(i == op->size - 1, 0);
		if (g_polled[i] < 0)
			return -1;
	}
	return 0;
}

static int run_poll(struct bench *b, const struct op *op, uint64_t n)
{
	struct pollfd p[POLL_MAX];

	(void)b;
	for (long i = 0; i < op->size; i++)
		p[i] = (struct pollfd){.fd = g_polled[i], .events = POLLIN};
	while (n-- > 0)
		if (poll(p, (nfds_t)op->size, -1) != 1)
			return -1;
	return 0;
}

static int cleanup_poll(struct bench *b, const struct op *op)
{
	(void)b;
	for (long i = 0; i < op->size; i++)
		close(g_polled[i]);
	return 0;
}

#define BYTES(what, start, side)                                                            \
	{                                                                                   \
		.name = what, .prepare = start, .run = run_bytes, .cleanup = cleanup_bytes, \
		.kind = side                                                                \
	}
#define WORDS(what, side)                                                                        \
	{                                                                                        \
		.name = what, .prepare = prepare_word, .run = run_word, .cleanup = cleanup_word, \
		.kind = side                                                                     \
	}
#define POLLS(what, count)                                                                       \
	{                                                                                        \
		.name = what, .prepare = prepare_poll, .run = run_poll, .cleanup = cleanup_poll, \
		.size = count                                                                    \
	}

const struct op g_pass_ops[] = {
	BYTES("pipe_threads", prepare_pipe, PASS_THREAD),
	BYTES("pipe_processes", prepare_pipe, PASS_PROCESS),
	BYTES("unix_threads", prepare_unix, PASS_THREAD),
	BYTES("unix_processes", prepare_unix, PASS_PROCESS),
	{.name = "line_threads",
	 .prepare = prepare_line,
	 .run = run_line,
	 .cleanup = cleanup_line,
	 .kind = PASS_THREAD},
	WORDS("futex_threads", PASS_THREAD),
	WORDS("futex_processes", PASS_PROCESS),
	{.name = "epoll_eventfd",
	 .prepare = prepare_epoll,
	 .run = run_epoll,
	 .cleanup = cleanup_epoll},
	POLLS("poll_1", 1),
	POLLS("poll_100", POLL_MAX),
	{.name = NULL},
};
