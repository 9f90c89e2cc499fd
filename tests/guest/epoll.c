/* SPDX-License-Identifier: Apache-2.0 */

/* epoll, poll and select: level, edge, one-shot, exclusive, nested; what closing and forking do. */
#include "guest.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>

static int ep;

static void show(const char *what, int fd, int ms)
{
	struct epoll_event ev[8];
	int n = epoll_wait(fd, ev, 8, ms);

	printf("%s: %d", what, n);
	for (int i = 0; i < n; i++)
		printf(" [%llu %#x]", (unsigned long long)ev[i].data.u64, ev[i].events);
	printf("\n");
}

static int ctl(int e, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = {.events = events, .data.u64 = data};
	return epoll_ctl(e, op, fd, &ev);
}

static void errors(void)
{
	struct epoll_event ev;
	int p[2], file = open("f", O_RDWR | O_CREAT, 0600), chain[8];

	P("errors");
	V(epoll_create(0));
	V(epoll_create1(1));
	V(ctl(ep, EPOLL_CTL_ADD, file, EPOLLIN, 0));
	V(ctl(ep, EPOLL_CTL_ADD, open(".", O_RDONLY), EPOLLIN, 0));
	V(ctl(ep, EPOLL_CTL_ADD, 999, EPOLLIN, 0));
	V(ctl(999, EPOLL_CTL_ADD, 0, EPOLLIN, 0));
	V(ctl(file, EPOLL_CTL_ADD, ep, EPOLLIN, 0));
	V(ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN, 0));
	V(pipe(p));
	V(ctl(ep, 77, p[0], EPOLLIN, 0));
	V(ctl(ep, EPOLL_CTL_MOD, p[0], EPOLLIN, 0));
	V(ctl(ep, EPOLL_CTL_DEL, p[0], EPOLLIN, 0));
	V(ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN, 0));
	V(ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN, 0));
	V(epoll_ctl(ep, EPOLL_CTL_MOD, p[0], NULL));
	V(epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL));
	V(ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 0));
	V(ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN | EPOLLEXCLUSIVE, 0));
	V(ctl(ep, EPOLL_CTL_MOD, p[0], EPOLLIN, 0));
	V(epoll_ctl(ep, EPOLL_CTL_DEL, p[0], NULL));
	V(epoll_wait(ep, &ev, 0, 0));
	V(epoll_wait(ep, &ev, -1, 0));
	V(epoll_wait(file, &ev, 1, 0));
	V(epoll_wait(999, &ev, 1, 0));
	V(epoll_wait(ep, (void *)8, 1, 0));
	for (int i = 0; i < 8; i++) {
		chain[i] = epoll_create1(0);
		if (i)
			printf("nest %d: %s\n", i,
			       ctl(chain[i], EPOLL_CTL_ADD, chain[i - 1], EPOLLIN, 0)
				       ? guest_errno(errno)
				       : "ok");
	}
	V(ctl(chain[0], EPOLL_CTL_ADD, chain[3], EPOLLIN, 0));
	for (int i = 0; i < 8; i++)
		close(chain[i]);
	close(p[0]);
	close(p[1]);
	close(file);
}

static void triggers(void)
{
	int p[2];
	char c[4];

	P("level");
	V(pipe(p));
	ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN, 1);
	ctl(ep, EPOLL_CTL_ADD, p[1], EPOLLOUT, 2);
	show("writable", ep, 0);
	ctl(ep, EPOLL_CTL_DEL, p[1], 0, 0);
	show("nothing", ep, 0);
	V(write(p[1], "ab", 2));
	show("readable", ep, 0);
	show("still", ep, 0);
	V(read(p[0], c, 1));
	show("still", ep, 0);
	V(read(p[0], c, 1));
	show("drained", ep, 0);
	P("edge");
	ctl(ep, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLET, 3);
	V(write(p[1], "a", 1));
	show("edge", ep, 0);
	show("no more", ep, 0);
	V(write(p[1], "b", 1));
	show("another write", ep, 0);
	V(read(p[0], c, 1));
	show("after a partial read", ep, 0);
	ctl(ep, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLET, 4);
	show("after MOD", ep, 0);
	P("one shot");
	ctl(ep, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLONESHOT, 5);
	show("once", ep, 0);
	V(write(p[1], "c", 1));
	show("disabled", ep, 0);
	ctl(ep, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLONESHOT, 6);
	show("rearmed", ep, 0);
	P("hang-up is always reported");
	ctl(ep, EPOLL_CTL_MOD, p[0], 0, 7);
	show("no events asked", ep, 0);
	close(p[1]);
	show("writer gone", ep, 0);
	close(p[0]);
	show("closed", ep, 0);
}

static void lifetime(void)
{
	int p[2], d;

	P("an entry lives as long as the description");
	V(pipe(p));
	V(write(p[1], "x", 1));
	ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN, 1);
	d = dup(p[0]);
	close(p[0]);
	show("duplicate keeps it", ep, 0);
	V(ctl(ep, EPOLL_CTL_DEL, d, 0, 0));
	close(d);
	show("gone", ep, 0);
	close(p[1]);
	V(pipe(p));
	d = dup(p[0]);
	V(ctl(ep, EPOLL_CTL_ADD, p[0], EPOLLIN, 1));
	V(ctl(ep, EPOLL_CTL_ADD, d, EPOLLIN, 2));
	V(write(p[1], "x", 1));
	show("two entries", ep, 0);
	close(p[0]);
	close(d);
	close(p[1]);
	/* Ready entries come round robin. */
	int e[5];
	for (int i = 0; i < 5; i++) {
		e[i] = eventfd(1, 0);
		ctl(ep, EPOLL_CTL_ADD, e[i], EPOLLIN, (uint64_t)i);
	}
	for (int i = 0; i < 4; i++) {
		struct epoll_event ev[2];
		int n = epoll_wait(ep, ev, 2, 0);

		printf("%d: %llu %llu\n", n, (unsigned long long)ev[0].data.u64,
		       (unsigned long long)ev[1].data.u64);
	}
	for (int i = 0; i < 5; i++)
		close(e[i]);
}

static void nested(void)
{
	int inner = epoll_create1(0), ev = eventfd(0, EFD_NONBLOCK);
	struct pollfd p = {.fd = inner, .events = POLLIN};
	uint64_t one = 1;

	P("nested");
	ctl(inner, EPOLL_CTL_ADD, ev, EPOLLIN, 10);
	ctl(ep, EPOLL_CTL_ADD, inner, EPOLLIN, 20);
	show("outer idle", ep, 0);
	V(write(ev, &one, 8));
	show("outer", ep, 0);
	V(poll(&p, 1, 0));
	show("inner", inner, 0);
	show("outer still", ep, 0);
	V(read(ev, &one, 8));
	show("outer after drain", ep, 0);
	close(inner);
	close(ev);
}

#define RELEASE 99

struct waiter {
	pthread_t t;
	int ep;
	_Atomic pid_t tid;
};

/* 1: woken by what is waited for, 0: let go. */
static void *waiter(void *arg)
{
	struct waiter *w = arg;
	struct epoll_event ev = {0};

	w->tid = gettid();
	return (void *)(intptr_t)(epoll_wait(w->ep, &ev, 1, -1) == 1 && ev.data.u64 != RELEASE);
}

static void start(struct waiter *w, int n, int on)
{
	for (int i = 0; i < n; i++) {
		w[i].ep = on >= 0 ? on : w[i].ep;
		w[i].tid = 0;
		pthread_create(&w[i].t, NULL, waiter, &w[i]);
	}
	for (int i = 0; i < n; i++) {
		while (!w[i].tid)
			guest_sleep_ms(1);
		guest_until(getpid(), w[i].tid, 'S');
	}
	/* What else a thread may have slept for on its way. */
	guest_sleep_ms(20);
}

/* How many were woken; the others are let go. */
static int finish(struct waiter *w, int n)
{
	int woken = 0, out = eventfd(1, 0);
	void *r;

	guest_sleep_ms(100);
	for (int i = 0; i < n; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u64 = RELEASE};

		epoll_ctl(w[i].ep, EPOLL_CTL_ADD, out, &e);
	}
	for (int i = 0; i < n; i++) {
		pthread_join(w[i].t, &r);
		woken += (int)(intptr_t)r;
	}
	for (int i = 0; i < n; i++)
		epoll_ctl(w[i].ep, EPOLL_CTL_DEL, out, NULL);
	close(out);
	return woken;
}

static void concurrency(void)
{
	struct waiter w[4];
	int ev = eventfd(0, EFD_NONBLOCK), woken;
	uint64_t one = 1;

	P("several waiters");
	/* One epoll, one edge: one thread gets it. */
	ctl(ep, EPOLL_CTL_ADD, ev, EPOLLIN | EPOLLET, 1);
	start(w, 4, ep);
	V(write(ev, &one, 8));
	printf("edge woke %d\n", finish(w, 4));
	ctl(ep, EPOLL_CTL_DEL, ev, 0, 0);
	V(read(ev, &one, 8));
	/* Without EPOLLEXCLUSIVE all wake, with it at least one. */
	for (int excl = 0; excl < 2; excl++) {
		for (int i = 0; i < 4; i++) {
			w[i].ep = epoll_create1(0);
			ctl(w[i].ep, EPOLL_CTL_ADD, ev, EPOLLIN | (excl ? EPOLLEXCLUSIVE : 0u), 1);
		}
		start(w, 4, -1);
		one = 1;
		V(write(ev, &one, 8));
		woken = finish(w, 4);
		for (int i = 0; i < 4; i++)
			close(w[i].ep);
		printf("%s: %s\n", excl ? "exclusive" : "shared",
		       woken == 4 ? "all"
		       : woken    ? "some"
				  : "none");
		V(read(ev, &one, 8));
		if (excl)
			break;
	}
	close(ev);
	/* A descriptor added while another thread waits. */
	ev = eventfd(1, 0);
	start(w, 1, ep);
	ctl(ep, EPOLL_CTL_ADD, ev, EPOLLIN, 1);
	printf("added while waiting: %d\n", finish(w, 1));
	close(ev);
}

/* An array over two pages: all results are there, old ones go, what may not be written is EFAULT.
 */
static void poll_array(void)
{
	size_t page = 4096, count = 1000;
	char *mem =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* One entry lies across the border. */
	struct pollfd *f = (struct pollfd *)(mem + 4);
	int ev = eventfd(1, 0), idle = eventfd(0, 0), wrong = 0;

	P("poll: a long array");
	for (size_t i = 0; i < count; i++) {
		f[i] = (struct pollfd){.fd = i % 3 == 0   ? idle
					     : i % 3 == 1 ? ev
							  : -1,
				       .events = POLLIN,
				       .revents = i % 2 ? 0x55 : 0};
	}
	V(poll(f, count, 0));
	for (size_t i = 0; i < count; i++)
		wrong += f[i].revents != (i % 3 == 1 ? POLLIN : 0) || f[i].events != POLLIN;
	printf("wrong %d\n", wrong);
	V(poll(f, count, -1));
	for (size_t i = 0; i < count; i++)
		wrong += f[i].revents != (i % 3 == 1 ? POLLIN : 0) || f[i].events != POLLIN;
	printf("wrong %d\n", wrong);
	f[1].revents = 0x55;
	V(mprotect(mem + page, page, PROT_READ));
	V(poll(f, count, 0));
	printf("before the fault %#x\n", (unsigned)f[1].revents);
	V(mprotect(mem, page, PROT_READ));
	V(poll(f, 1, 0));
	V(munmap(mem, 3 * page));
	close(ev);
	close(idle);
}

static void polls(void)
{
	int p[2], s[2];
	struct pollfd f[3];
	fd_set r, w, x;
	struct timeval tv;
	struct timespec ts = {0, 0};
	int64_t t0;

	P("poll and select");
	V(pipe(p));
	V(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	f[0] = (struct pollfd){.fd = p[0], .events = POLLIN};
	f[1] = (struct pollfd){.fd = -1, .events = POLLIN, .revents = 77};
	f[2] = (struct pollfd){.fd = 999, .events = POLLIN};
	V(poll(f, 3, 0));
	printf("%#x %#x %#x\n", (unsigned)f[0].revents, (unsigned)f[1].revents,
	       (unsigned)f[2].revents);
	t0 = guest_now_ms();
	V(poll(f, 1, 30));
	T(guest_now_ms() - t0 >= 29);
	V(poll(NULL, 0, 1));
	V(poll((void *)8, 1, 0));
	V(poll(f, 1u << 30, 0));
	ts.tv_nsec = 2000000000;
	V(ppoll(f, 1, &ts, NULL));
	f[0] = (struct pollfd){.fd = open("f", O_RDWR), .events = POLLIN | POLLOUT | POLLPRI};
	V(poll(f, 1, 0));
	printf("file %#x\n", (unsigned)f[0].revents);
	f[0] = (struct pollfd){.fd = s[0], .events = POLLIN | POLLOUT | POLLRDHUP};
	V(poll(f, 1, 0));
	printf("socket %#x\n", (unsigned)f[0].revents);
	V(shutdown(s[1], SHUT_WR));
	V(poll(f, 1, 0));
	printf("half closed %#x\n", (unsigned)f[0].revents);
	close(s[1]);
	V(poll(f, 1, 0));
	printf("closed %#x\n", (unsigned)f[0].revents);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&x);
	FD_SET(p[0], &r);
	FD_SET(p[1], &w);
	tv = (struct timeval){0, 0};
	V(select(p[1] + 1, &r, &w, &x, &tv));
	printf("%d %d\n", FD_ISSET(p[0], &r), FD_ISSET(p[1], &w));
	FD_ZERO(&r);
	FD_SET(500, &r);
	V(select(501, &r, NULL, NULL, &tv));
	V(select(-1, NULL, NULL, NULL, &tv));
	tv.tv_usec = -1;
	V(select(0, NULL, NULL, NULL, &tv));
	tv = (struct timeval){0, 20000};
	V(select(0, NULL, NULL, NULL, &tv));
	printf("time left %ld %ld\n", (long)tv.tv_sec, (long)tv.tv_usec);
	close(p[1]);
	FD_ZERO(&r);
	FD_SET(p[0], &r);
	tv = (struct timeval){1, 0};
	V(select(p[0] + 1, &r, NULL, NULL, &tv));
	f[0] = (struct pollfd){.fd = open("/dev/null", O_RDWR), .events = POLLIN | POLLOUT};
	V(poll(f, 1, 0));
	printf("/dev/null %#x\n", (unsigned)f[0].revents);
}

int main(void)
{
	guest_begin();
	ep = epoll_create1(EPOLL_CLOEXEC);
	errors();
	close(ep);
	ep = epoll_create1(0);
	triggers();
	lifetime();
	nested();
	concurrency();
	polls();
	poll_array();
	return 0;
}
