/* SPDX-License-Identifier: Apache-2.0 */

/* io_setup, io_submit, io_getevents and the like: operations, what is refused, the ring. */
#include "guest.h"

#include <linux/aio_abi.h>
#include <sys/eventfd.h>

struct ring {
	unsigned id, nr, head, tail, magic, compat, incompat, header;
	struct io_event events[];
};

static long setup(unsigned nr, aio_context_t *ctx)
{
	return syscall(SYS_io_setup, nr, ctx);
}

static long destroy(aio_context_t ctx)
{
	return syscall(SYS_io_destroy, ctx);
}

static long submit(aio_context_t ctx, long nr, struct iocb **cbs)
{
	return syscall(SYS_io_submit, ctx, nr, cbs);
}

static long submit_1(aio_context_t ctx, struct iocb *cb)
{
	return submit(ctx, 1, &cb);
}

static long getevents(aio_context_t ctx, long min, long nr, struct io_event *ev,
		      struct timespec *ts)
{
	return syscall(SYS_io_getevents, ctx, min, nr, ev, ts);
}

static struct iocb op(int opcode, int fd, void *buf, size_t size, off_t at)
{
	return (struct iocb){.aio_data = 0x1234567800000000 | (unsigned)opcode,
			     .aio_lio_opcode = (unsigned short)opcode,
			     .aio_fildes = (unsigned)fd,
			     .aio_buf = (uintptr_t)buf,
			     .aio_nbytes = size,
			     .aio_offset = at};
}

/* Submits one operation and says what its event says. */
static void run_op(const char *what, aio_context_t ctx, struct iocb cb)
{
	struct io_event ev;

	cb.aio_key = 77;
	errno = 0;
	if (guest_value(what, submit_1(ctx, &cb)) != 1)
		return;
	memset(&ev, 0xee, sizeof(ev));
	V(getevents(ctx, 1, 1, &ev, NULL));
	printf("    key %u, data %llx, its own %d, res %lld, res2 %lld\n", cb.aio_key, ev.data,
	       ev.obj == (uintptr_t)&cb, ev.res, ev.res2);
}

#define RUN(...) run_op(#__VA_ARGS__, ctx, __VA_ARGS__)

static struct iocb flagged(struct iocb cb, int rw_flags)
{
	cb.aio_rw_flags = rw_flags;
	return cb;
}

static void operations(void)
{
	char a[32] = "one two three", b[32] = {0};
	struct iovec v[2] = {{b, 4}, {b + 8, 5}};
	aio_context_t ctx = 0;
	int fd = open("f", O_RDWR | O_CREAT, 0600), app = open("f", O_WRONLY | O_APPEND), p[2];

	P("operations");
	OK(setup(4, &ctx));
	RUN(op(IOCB_CMD_PWRITE, fd, a, 13, 2));
	RUN(op(IOCB_CMD_PREAD, fd, b, 32, 6));
	printf("read: %s\n", b);
	RUN(op(IOCB_CMD_PREADV, fd, v, 2, 2));
	printf("read: %.4s %.5s\n", b, b + 8);
	RUN(op(IOCB_CMD_PWRITEV, fd, v, 2, 20));
	RUN(op(IOCB_CMD_FSYNC, fd, NULL, 0, 0));
	RUN(op(IOCB_CMD_FDSYNC, fd, NULL, 0, 0));
	RUN(op(IOCB_CMD_PWRITE, app, a, 3, 0));
	V(lseek(fd, 0, SEEK_END));
	V(lseek(fd, 0, SEEK_SET));
	RUN(op(IOCB_CMD_PREAD, fd, b, 4, 1000));
	RUN(op(IOCB_CMD_PREAD, fd, b, 0, 0));
	RUN(flagged(op(IOCB_CMD_PWRITE, fd, a, 4, 0), RWF_DSYNC));
	V(lseek(fd, 0, SEEK_CUR));

	P("pipes");
	V(pipe2(p, O_NONBLOCK));
	RUN(op(IOCB_CMD_PREAD, p[0], b, 4, 0));
	RUN(op(IOCB_CMD_PWRITE, p[1], a, 4, 100));
	RUN(op(IOCB_CMD_PREAD, p[0], b, 4, 100));
	signal(SIGPIPE, SIG_IGN);
	close(p[0]);
	RUN(op(IOCB_CMD_PWRITE, p[1], a, 4, 0));
	OK(destroy(ctx));
}

static struct iocb reserved(struct iocb cb)
{
	cb.aio_reserved2 = 1;
	return cb;
}

static struct iocb resfd(struct iocb cb, int fd)
{
	cb.aio_flags = IOCB_FLAG_RESFD;
	cb.aio_resfd = (unsigned)fd;
	return cb;
}

static void refused(void)
{
	char b[8] = "x";
	struct iovec bad = {(void *)8, 4}, huge = {(void *)-4096L, 4};
	aio_context_t ctx = 0, none = 0, used = 1;
	struct io_event ev[4];
	struct timespec now = {0};
	int fd = open("f", O_RDWR | O_CREAT, 0600), rd = open("f", O_RDONLY),
	    wr = open("f", O_WRONLY);
	int dir = open(".", O_RDONLY | O_DIRECTORY), path = open("f", O_PATH), p[2],
	    efd = eventfd(0, 0);
	struct iocb good = op(IOCB_CMD_PWRITE, fd, b, 1, 0), wrong = op(99, fd, b, 1, 0);
	struct iocb *list[4] = {&good, &good, &wrong, &good}, *gone[2] = {&good, (struct iocb *)8};

	P("io_setup refuses");
	V(setup(4, NULL));
	V(setup(4, (void *)8));
	V(setup(4, &used));
	V(setup(0, &none));
	V(setup(-1u, &none));
	V(setup(4194305, &none));
	V(setup(4194304, &none));
	V(setup(10000000, &none));
	T(none == 0);

	P("a context refuses");
	OK(setup(4, &ctx));
	V(pipe(p));
	RUN(op(IOCB_CMD_PREAD, -1, b, 1, 0));
	RUN(op(IOCB_CMD_PREAD, path, b, 1, 0));
	RUN(op(IOCB_CMD_PREAD, wr, b, 1, 0));
	RUN(op(IOCB_CMD_PWRITE, rd, b, 1, 0));
	RUN(op(IOCB_CMD_PREAD, dir, b, 1, 0));
	RUN(op(IOCB_CMD_PREAD, fd, b, 1, -1));
	RUN(op(IOCB_CMD_PREAD, fd, b, -1ul, 0));
	RUN(op(IOCB_CMD_PREAD, fd, (void *)-4096L, 1, 0));
	RUN(op(IOCB_CMD_PREAD, fd, (void *)8, 1, 0));
	RUN(op(IOCB_CMD_PREADV, fd, (void *)8, 1, 0));
	RUN(op(IOCB_CMD_PREADV, fd, &huge, 1, 0));
	RUN(op(IOCB_CMD_PREADV, fd, &bad, 1, 0));
	RUN(op(IOCB_CMD_PREADV, fd, &bad, 1025, 0));
	RUN(flagged(op(IOCB_CMD_PREAD, fd, b, 1, 0), 0x40000000));
	RUN(op(IOCB_CMD_FSYNC, fd, b, 0, 0));
	RUN(op(IOCB_CMD_FSYNC, fd, NULL, 1, 0));
	RUN(op(IOCB_CMD_FSYNC, p[0], NULL, 0, 0));
	RUN(op(IOCB_CMD_NOOP, fd, NULL, 0, 0));
	RUN(op(4, fd, NULL, 0, 0));
	RUN(op(99, fd, NULL, 0, 0));
	RUN(reserved(op(IOCB_CMD_PREAD, fd, b, 1, 0)));
	RUN(resfd(op(IOCB_CMD_PREAD, fd, b, 1, 0), -1));
	RUN(resfd(op(IOCB_CMD_PREAD, fd, b, 1, 0), fd));
	RUN(resfd(op(IOCB_CMD_PREAD, fd, b, 1, 0), efd));

	P("lists");
	V(submit(ctx, -1, list));
	V(submit(ctx, 0, list));
	V(submit(ctx, 1, (struct iocb **)8));
	V(submit(ctx, 1, gone + 1));
	V(submit(ctx, 2, gone));
	V(submit(ctx, 4, list));
	V(submit(0, 1, list));
	V(submit(ctx + 4096, 1, list));
	V(getevents(ctx, 3, 4, ev, &now));

	P("io_getevents refuses");
	V(getevents(ctx, 2, 1, ev, &now));
	V(getevents(ctx, -1, 1, ev, &now));
	V(getevents(ctx, 0, 0, ev, NULL));
	V(getevents(ctx, 0, 4, ev, NULL));
	V(getevents(ctx, 1, 4, ev, &now));
	V(getevents(ctx, 1, 4, ev, (void *)8));
	V(getevents(0, 1, 4, ev, &now));
	V(submit(ctx, 1, list));
	V(getevents(ctx, 1, 1, (void *)8, NULL));
	V(getevents(ctx, 1, 1, ev, NULL));

	P("io_cancel, io_destroy");
	V(syscall(SYS_io_cancel, ctx, 8, ev));
	good.aio_key = 1;
	V(syscall(SYS_io_cancel, ctx, &good, ev));
	good.aio_key = 0;
	V(syscall(SYS_io_cancel, ctx, &good, ev));
	V(syscall(SYS_io_cancel, 0, &good, ev));
	OK(destroy(ctx));
	V(destroy(ctx));
	V(destroy(0));
	V(submit(ctx, 1, list));
	V(getevents(ctx, 0, 4, ev, &now));
}

/* What is in the ring can be taken without a call. */
static void ring(void)
{
	char b[8] = "x";
	aio_context_t ctx = 0;
	struct io_event ev[4];
	struct timespec now = {0};
	int fd = open("f", O_RDWR | O_CREAT, 0600), ok = 0;
	struct iocb cb = op(IOCB_CMD_PWRITE, fd, b, 3, 0), *list[3] = {&cb, &cb, &cb};
	volatile struct ring *r;
	unsigned nr;

	P("the ring");
	OK(setup(3, &ctx));
	r = (volatile struct ring *)ctx;
	nr = r->nr;
	printf("magic %x, features %u %u, header %u, enough %d\n", r->magic, r->compat, r->incompat,
	       r->header, nr > 3);
	printf("head %u, tail %u\n", r->head, r->tail);
	V(submit(ctx, 3, list));
	printf("head %u, tail %u, data %llx, res %lld\n", r->head, r->tail, r->events[2].data,
	       r->events[2].res);
	V(getevents(ctx, 1, 1, ev, NULL));
	printf("head %u, tail %u\n", r->head, r->tail);
	r->head = 3;
	V(getevents(ctx, 0, 4, ev, &now));

	P("around it");
	for (unsigned i = 0; i < 3 * nr; i++) {
		cb.aio_data = i;
		ok += submit(ctx, 1, list) == 1 && getevents(ctx, 1, 4, ev, NULL) == 1 &&
		      ev[0].data == i;
	}
	T(ok == (int)(3 * nr));
	T(r->head == r->tail && r->head < nr);

	P("full");
	while (submit(ctx, 1, list) == 1)
		;
	T(errno == EAGAIN);
	T((r->tail + nr - r->head) % nr >= 3);
	V(getevents(ctx, 3, 3, ev, NULL));
	while (getevents(ctx, 0, 4, ev, &now) > 0)
		;
	V(submit(ctx, 1, list));
	V(getevents(ctx, 1, 4, ev, NULL));

	P("nonsense in it");
	r->head = 0xfffffff0;
	r->tail = 0xffffffff;
	T(getevents(ctx, 0, 4, ev, &now) >= 0);
	OK(destroy(ctx));
	V(mincore((void *)ctx, 4096, (unsigned char *)b));
}

static aio_context_t shared;
static volatile int told;

static void *one_write(void *arg)
{
	struct iocb cb = op(IOCB_CMD_PWRITE, *(int *)arg, "thread", 6, 0);

	return (void *)submit_1(shared, &cb);
}

static void *wait_for_one(void *arg)
{
	struct io_event ev;

	(void)arg;
	return (void *)(getevents(shared, 1, 1, &ev, NULL) < 0 ? -(long)errno : 1);
}

static void on_usr1(int sig)
{
	(void)sig;
}

static void *interrupt(void *arg)
{
	while (!told) {
		pthread_kill(*(pthread_t *)arg, SIGUSR1);
		sched_yield();
	}
	return NULL;
}

static void waiting(void)
{
	struct sigaction sa = {.sa_handler = on_usr1, .sa_flags = SA_RESTART};
	struct timespec soon = {0, 1000000};
	struct {
		sigset_t *set;
		size_t size;
	} mask = {NULL, 0};
	int fd = open("f", O_RDWR | O_CREAT, 0600), efd = eventfd(0, EFD_NONBLOCK);
	pthread_t thread, self = pthread_self();
	sigset_t all;
	struct io_event ev;
	uint64_t count = 0;
	void *res;
	int status;
	pid_t pid;

	P("waiting");
	OK(setup(8, &shared));
	V(getevents(shared, 1, 1, &ev, &soon));
	pthread_create(&thread, NULL, one_write, &fd);
	V(getevents(shared, 1, 1, &ev, NULL));
	printf("res %lld\n", ev.res);
	pthread_join(thread, &res);
	printf("submitted %ld\n", (long)res);

	P("signals");
	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&thread, NULL, interrupt, &self);
	V(getevents(shared, 1, 1, &ev, NULL));
	told = 1;
	pthread_join(thread, NULL);
	sigfillset(&all);
	mask.set = &all;
	mask.size = 8;
	V(syscall(SYS_io_pgetevents, shared, 1, 1, &ev, &soon, &mask));
	V(syscall(SYS_io_pgetevents, shared, 1, 1, &ev, &soon, NULL));
	mask.size = 7;
	V(syscall(SYS_io_pgetevents, shared, 1, 1, &ev, &soon, &mask));
	mask.size = 8;
	mask.set = (void *)8;
	V(syscall(SYS_io_pgetevents, shared, 1, 1, &ev, &soon, &mask));
	V(syscall(SYS_io_pgetevents, shared, 1, 1, &ev, &soon, (void *)8));

	P("eventfd");
	for (int i = 0; i < 3; i++) {
		struct iocb cb = resfd(op(IOCB_CMD_PWRITE, fd, "x", 1, i), efd);

		V(submit_1(shared, &cb));
	}
	V(read(efd, &count, 8));
	printf("count %lu\n", count);

	P("fork");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		V(getevents(shared, 0, 1, &ev, &soon));
		V(destroy(shared));
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	guest_status("child", status);
	V(getevents(shared, 1, 1, &ev, NULL));
	V(getevents(shared, 2, 2, (struct io_event[2]){{0}}, NULL));

	P("destroyed while somebody waits");
	pthread_create(&thread, NULL, wait_for_one, NULL);
	OK(destroy(shared));
	pthread_join(thread, &res);
	guest_code("io_getevents", (int)-(long)res);
}

int main(void)
{
	guest_begin();
	operations();
	refused();
	ring();
	waiting();
	return 0;
}
