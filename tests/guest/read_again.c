/* SPDX-License-Identifier: Apache-2.0 */

/* A file of the root that is read again and again: the same bytes each time, wherever they go. */
#include "read_again.h"

/* What is read into lies next to what else the call is given. */
static void vectors(void)
{
	struct {
		struct iovec v[3];
		unsigned char room[3 * 4096];
	} *m = malloc(sizeof(*m));
	long wrong = 0;

	P("vectors");
	for (unsigned i = 0; i < AGAIN; i++) {
		m->v[0] = (struct iovec){m->room, 4096};
		m->v[1] = (struct iovec){m->room + 4096, i % 2 ? 4096 : 1};
		m->v[2] = (struct iovec){m->room + 8192, 4096};
		wrong += preadv(fd, m->v, 1, 4096) != 4096 ||
			 memcmp(m->room, want + 4096, 4096) != 0;
		wrong += preadv(fd, m->v, 3, 0) != (i % 2 ? 3 : 2) * 4096 + (i % 2 ? 0 : 1) ||
			 memcmp(m->room, want, 4096) != 0;
	}
	V(wrong);
	free(m);
}

static volatile sig_atomic_t ticks;

static void on_tick(int sig GUEST_UNUSED)
{
	ticks++;
}

/* Signals that are taken when a read is done. */
static void signals(void)
{
	const struct sigaction sa = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	const struct itimerval on = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
	long wrong = 0;

	P("signals");
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &on, NULL);
	while (ticks < 50)
		wrong += reads(30, (unsigned)ticks + 1);
	setitimer(ITIMER_REAL, &off, NULL);
	V(wrong);
}

int main(void)
{
	struct stat st;
	pthread_t t[3];
	void *wrong;
	int status;

	guest_begin();
	fd = open("/usr/bin/bash", O_RDONLY);
	fstat(fd, &st);
	size = (size_t)st.st_size;
	want = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	V(want != MAP_FAILED && size > 4 * PIECE);
	V(reads(3 * AGAIN, 1));
	for (unsigned i = 0; i < 4; i++) {
		V(whole(4096));
		V(whole(PIECE));
	}
	bad_memory();
	vectors();
	signals();
	P("a child, with the parent's and its own");
	if (fork() == 0) {
		const long bad = reads(AGAIN, 2) + whole(PIECE);

		_exit(bad != 0);
	}
	wait(&status);
	V(status);
	P("threads");
	for (unsigned i = 0; i < GUEST_COUNT(t); i++)
		pthread_create(&t[i], NULL, reader, (void *)(uintptr_t)(i + 3));
	for (unsigned i = 0; i < GUEST_COUNT(t); i++) {
		pthread_join(t[i], &wrong);
		V((long)wrong);
	}
	V(reads(AGAIN, 9));
	return 0;
}
