/* SPDX-License-Identifier: Apache-2.0 */

/* Pipes and FIFOs: capacity, atomicity, EPIPE, readiness, splice, tee, vmsplice. */
#include "guest.h"
#include <sys/socket.h>

static volatile sig_atomic_t pipes;

static void on_pipe(int sig)
{
	(void)sig;
	pipes++;
}

static short ready(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};

	poll(&p, 1, 0);
	return p.revents;
}

static long fill(int fd)
{
	static char block[4096];
	long total = 0, n;
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while ((n = write(fd, block, sizeof(block))) > 0)
		total += n;
	fcntl(fd, F_SETFL, flags);
	return total;
}

static void basics(void)
{
	int p[2], n;
	char text[8192];
	struct stat st;

	P("pipe");
	V(pipe2(p, 0x1234567));
	V(pipe((int *)8));
	V(pipe2(p, O_NONBLOCK | O_CLOEXEC));
	V(fcntl(p[0], F_GETFL) & O_NONBLOCK ? 1 : 0);
	V(fcntl(p[0], F_GETFD));
	V(read(p[0], text, 1));
	V(read(p[1], text, 1));
	V(write(p[0], text, 1));
	V(write(p[1], text, 0));
	printf("empty: %#x %#x\n", (unsigned)ready(p[0]), (unsigned)ready(p[1]));
	V(write(p[1], "hello", 5));
	V(ioctl(p[0], FIONREAD, &n));
	printf("FIONREAD %d\n", n);
	printf("some: %#x %#x\n", (unsigned)ready(p[0]), (unsigned)ready(p[1]));
	V(read(p[0], text, 3));
	V(read(p[0], text, 3));
	V(lseek(p[0], 0, SEEK_SET));
	V(pread(p[0], text, 1, 0));
	V(fstat(p[0], &st));
	printf("mode %o size %ld\n", st.st_mode, (long)st.st_size);
	V(ftruncate(p[1], 0));
	V(fsync(p[1]));
	P("capacity");
	V(fcntl(p[0], F_GETPIPE_SZ));
	V(fill(p[1]));
	printf("full: %#x\n", (unsigned)ready(p[1]));
	V(write(p[1], "x", 1));
	V(read(p[0], text, 100));
	printf("100 read: %#x\n", (unsigned)ready(p[1]));
	V(write(p[1], "x", 1));
	V(read(p[0], text, 4096));
	printf("a page read: %#x\n", (unsigned)ready(p[1]));
	V(fcntl(p[0], F_SETPIPE_SZ, 4096));
	V(fcntl(p[0], F_SETPIPE_SZ, 131072));
	V(fcntl(p[0], F_GETPIPE_SZ));
	while (read(p[0], text, sizeof(text)) > 0)
		;
	V(fcntl(p[0], F_SETPIPE_SZ, 5000));
	V(fcntl(p[0], F_SETPIPE_SZ, 1));
	V(fcntl(p[0], F_SETPIPE_SZ, 0));
	V(fcntl(p[0], F_SETPIPE_SZ, -1));
	V(fcntl(p[0], F_GETPIPE_SZ));
	V(fill(p[1]));
	P("all or nothing up to PIPE_BUF");
	V(read(p[0], text, 4000));
	V(write(p[1], text, 4096));
	V(write(p[1], text, 8192));
	V(fcntl(open("/dev/null", O_RDWR), F_GETPIPE_SZ));
	close(p[1]);
	while (read(p[0], text, sizeof(text)) > 0)
		;
	V(read(p[0], text, 1));
	printf("writer gone: %#x\n", (unsigned)ready(p[0]));
	close(p[0]);
	V(pipe(p));
	close(p[0]);
	guest_handle(SIGPIPE, on_pipe, 0);
	V(write(p[1], "x", 1));
	printf("SIGPIPE %d\n", pipes);
	signal(SIGPIPE, SIG_IGN);
	V(write(p[1], "x", 1));
	V(write(p[1], "x", 0));
	printf("reader gone: %#x\n", (unsigned)ready(p[1]));
	close(p[1]);
	signal(SIGPIPE, SIG_DFL);
	pid_t pid = guest_fork();
	if (!pid) {
		V(pipe(p));
		close(p[0]);
		V(write(p[1], "x", 1));
		_exit(0);
	}
	guest_wait("writer", pid);
}

static void packets(void)
{
	int p[2];
	char text[100];

	P("O_DIRECT packets");
	V(pipe2(p, O_DIRECT | O_NONBLOCK));
	V(write(p[1], "one", 3));
	V(write(p[1], "twotwo", 6));
	V(read(p[0], text, 100));
	V(read(p[0], text, 2));
	V(read(p[0], text, 100));
}

static void atomicity(void)
{
	int p[2], torn = 0, total = 0;
	char block[1000];
	ssize_t n;

	P("writers do not mix");
	V(pipe(p));
	fflush(stdout);
	for (int i = 0; i < 4; i++)
		if (!fork()) {
			memset(block, 'a' + i, sizeof(block));
			for (int k = 0; k < 500; k++)
				if (write(p[1], block, sizeof(block)) != (ssize_t)sizeof(block))
					_exit(1);
			_exit(0);
		}
	close(p[1]);
	size_t got = 0;

	while ((n = read(p[0], block + got, sizeof(block) - got)) > 0) {
		got += (size_t)n;
		if (got < sizeof(block))
			continue;
		for (size_t i = 1; i < sizeof(block); i++)
			torn += block[i] != block[0];
		total++;
		got = 0;
	}
	printf("%d blocks, %d torn, rest %zu\n", total, torn, got);
	close(p[0]);
	while (wait(NULL) > 0)
		;
}

static void fifos(void)
{
	int r, w;
	char text[10];
	pid_t pid;

	P("FIFO");
	V(mkfifo("fifo", 0600));
	V(mkfifo("fifo", 0600));
	V(open("fifo", O_WRONLY | O_NONBLOCK));
	OK(r = open("fifo", O_RDONLY | O_NONBLOCK));
	V(read(r, text, 10));
	printf("no writer yet: %#x\n", (unsigned)ready(r));
	OK(w = open("fifo", O_WRONLY | O_NONBLOCK));
	V(read(r, text, 10));
	V(write(w, "abc", 3));
	printf("data: %#x\n", (unsigned)ready(r));
	close(w);
	printf("data, writer gone: %#x\n", (unsigned)ready(r));
	V(read(r, text, 10));
	V(read(r, text, 10));
	printf("writer gone: %#x\n", (unsigned)ready(r));
	OK(w = open("fifo", O_WRONLY));
	printf("writer back: %#x\n", (unsigned)ready(r));
	close(r);
	signal(SIGPIPE, SIG_IGN);
	V(write(w, "x", 1));
	close(w);
	OK(r = open("fifo", O_RDWR));
	V(write(r, "self", 4));
	V(read(r, text, 10));
	close(r);
	pid = guest_fork();
	if (!pid) {
		w = open("fifo", O_WRONLY);
		if (write(w, "rendezvous", 10) != 10)
			_exit(1);
		_exit(0);
	}
	OK(r = open("fifo", O_RDONLY));
	V(read(r, text, 10));
	V(read(r, text, 10));
	guest_wait("writer", pid);
	V(ftruncate(r, 0));
	V(truncate("fifo", 0));
	V(lseek(r, 0, SEEK_CUR));
}

static void splices(void)
{
	int a[2], b[2], file = open("f", O_RDWR | O_CREAT, 0600),
			out = open("g", O_RDWR | O_CREAT, 0600);
	char text[64] = "";
	struct iovec v = {(void *)(uintptr_t) "vmspliced", 9};
	off_t off = 3;

	P("splice, tee, vmsplice");
	V(write(file, "0123456789", 10));
	V(pipe(a));
	V(pipe(b));
	V(splice(file, &off, a[1], NULL, 5, 0));
	printf("offset %ld\n", (long)off);
	V(tee(a[0], b[1], 100, 0));
	V(read(b[0], text, 10));
	printf("tee %s\n", text);
	V(splice(a[0], NULL, out, NULL, 100, 0));
	memset(text, 0, sizeof(text));
	V(pread(out, text, 10, 0));
	printf("file %s\n", text);
	V(vmsplice(a[1], &v, 1, 0));
	V(splice(a[0], NULL, b[1], NULL, 4, 0));
	memset(text, 0, sizeof(text));
	V(read(b[0], text, 10));
	printf("moved %s\n", text);
	memset(text, 0, sizeof(text));
	V(read(a[0], text, 10));
	printf("left %s\n", text);
	V(splice(a[0], NULL, b[1], NULL, 4, SPLICE_F_NONBLOCK));
	V(tee(a[0], b[1], 4, SPLICE_F_NONBLOCK));
	V(splice(file, NULL, out, NULL, 4, 0));
	V(splice(a[0], &off, b[1], NULL, 4, 0));
	V(splice(a[0], NULL, a[1], NULL, 4, 0));
	V(tee(a[0], a[1], 4, 0));
	V(tee(file, a[1], 4, 0));
	V(splice(999, NULL, a[1], NULL, 4, 0));
	V(splice(file, NULL, a[1], NULL, 4, 0x100));
	V(splice(file, NULL, a[1], NULL, 0, 0));
	off = -1;
	V(splice(file, &off, a[1], NULL, 4, 0));
	off = 100;
	V(splice(file, &off, a[1], NULL, 4, 0));
	V(vmsplice(file, &v, 1, 0));
	V(vmsplice(a[1], &v, 1025, 0));
	int app = open("g", O_WRONLY | O_APPEND);

	V(write(a[1], "x", 1));
	V(splice(a[0], NULL, app, NULL, 1, 0));
	V(splice(a[0], NULL, open("f", O_RDONLY), NULL, 1, 0));
	close(a[1]);
	V(read(a[0], text, 10));
	V(splice(a[0], NULL, out, NULL, 10, 0));
}

/* A fault in the caller's memory: a buffer goes through whole, or stays. */
static void faults(void)
{
	char *edge = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0) +
		     4096;
	static char big[3 * 4096];
	struct iovec v[2] = {{edge - 4, 4}, {(void *)16, 4}}, half = {edge - 4, 8};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
	int p[2], queued = 0;

	P("faults");
	mprotect(edge, 4096, PROT_NONE);
	memcpy(edge - 8, "01234567", 8);
	V(pipe2(p, O_NONBLOCK));
	V(write(p[1], edge - 4, 8));
	V(read(p[0], big, 8));
	V(write(p[1], "in the pipe", 11));
	V(write(p[1], edge - 4, 8));
	V(read(p[0], edge - 4, 8));
	V(readv(p[0], v, 2));
	V(vmsplice(p[1], &half, 1, 0));
	V(ioctl(p[0], FIONREAD, &queued));
	printf("queued %d\n", queued);
	V(read(p[0], big, sizeof(big)));
	/* Several pages: those that are whole count. */
	V(write(p[1], big, sizeof(big)));
	V(read(p[0], edge - 4096, sizeof(big)));
	V(ioctl(p[0], FIONREAD, &queued));
	printf("queued %d\n", queued);
	V(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p));
	V(write(p[1], "in the socket", 13));
	V(read(p[0], edge - 4, 8));
	V(recvmsg(p[0], &m, 0));
	V(recvmsg(p[0], &m, MSG_PEEK));
	V(write(p[1], edge - 4, 8));
	V(read(p[0], big, sizeof(big)));
}

int main(void)
{
	guest_begin();
	basics();
	packets();
	atomicity();
	fifos();
	splices();
	faults();
	return 0;
}
