/* SPDX-License-Identifier: Apache-2.0 */
/* guest-flags: -static */
/* guest-native: confined */

/* Vectors that want to harm: of buffers (too many, lengths that overflow, places in the kernel, in
 * nothing, over the end, over one another and over the vector itself) for every call that takes
 * one, and of arguments and environments for exec. */
#include "guest.h"
#include <sys/resource.h>
#include <sys/socket.h>

#define ROOM 8192

static char *g_buf, *g_edge, *g_readonly; /* 8 KiB; 16 bytes before nothing; not to be written */
static struct iovec *g_at_edge;           /* one vector before nothing */

/* ---- buffers ---- */

struct vec {
	const char *name;
	struct iovec v[4];
	long count;
	const void *at; /* instead of v */
};

#define KERNEL ((void *)0xffff888000000000)
#define HOLE ((void *)0x8000000000000000)
#define TOP ((void *)0x7ffffffff000)
#define STUB ((void *)0x7ffff0000000) /* nothing is there natively */

static struct vec g_vecs[40];
static unsigned g_vec_count;

static void add(const char *name, long count, const void *at, struct iovec a, struct iovec b)
{
	g_vecs[g_vec_count++] = (struct vec){name, {a, b}, count, at};
}

static void make_vecs(void)
{
	static struct iovec many[1100];
	const struct iovec none = {0}, good = {g_buf, 10};

	for (size_t i = 0; i < GUEST_COUNT(many); i++)
		many[i] = (struct iovec){g_buf + i, 1};
	add("none", 0, NULL, good, none);
	add("none, at NULL", 0, (void *)1, none, none);
	add("one at NULL", 1, (void *)8, none, none);
	add("IOV_MAX", 1024, many, none, none);
	add("IOV_MAX+1", 1025, many, none, none);
	add("-1", -1, many, none, none);
	add("INT_MAX", INT_MAX, many, none, none);
	add("2^32", (long)1 << 32, many, none, none);
	add("2^32+1", ((long)1 << 32) + 1, many, none, none);
	add("2^60", (long)1 << 60, many, none, none);
	add("vector in the kernel", 1, KERNEL, none, none);
	add("vector in the hole", 1, HOLE, none, none);
	add("vector at the top", 1, TOP, none, none);
	add("vector at the stub's", 1, STUB, none, none);
	add("vector over the edge", 2, g_at_edge, none, none);
	add("vector that is odd", 1, (char *)many + 1, none, none);
	add("base NULL, 0 bytes", 2, NULL, (struct iovec){NULL, 0}, good);
	add("base NULL", 2, NULL, (struct iovec){NULL, 8}, good);
	add("base NULL, last", 2, NULL, good, (struct iovec){NULL, 8});
	add("base in the kernel", 1, NULL, (struct iovec){KERNEL, 8}, none);
	add("base in the kernel, last", 2, NULL, good, (struct iovec){KERNEL, 8});
	add("base in the hole", 1, NULL, (struct iovec){HOLE, 8}, none);
	add("base at the top", 1, NULL, (struct iovec){TOP, 8}, none);
	add("base at the stub's", 1, NULL, (struct iovec){STUB, 8}, none);
	add("base at the stub's, last", 2, NULL, good, (struct iovec){STUB, 8});
	add("base that wraps", 1, NULL, (struct iovec){(void *)-8, 16}, none);
	add("over the edge", 1, NULL, (struct iovec){g_edge, 32}, none);
	add("over the edge, last", 2, NULL, good, (struct iovec){g_edge, 32});
	add("not to be written", 1, NULL, (struct iovec){g_readonly, 8}, none);
	add("not to be written, last", 2, NULL, good, (struct iovec){g_readonly, 8});
	add("length SSIZE_MAX+1", 1, NULL, (struct iovec){g_buf, (size_t)SSIZE_MAX + 1}, none);
	add("length -1", 1, NULL, (struct iovec){g_buf, SIZE_MAX}, none);
	add("length -1, last", 2, NULL, good, (struct iovec){g_buf, SIZE_MAX});
	add("twice SSIZE_MAX", 2, NULL, (struct iovec){g_buf, SSIZE_MAX},
	    (struct iovec){g_buf, SSIZE_MAX});
	add("sum 2^64", 2, NULL, (struct iovec){g_buf, (size_t)1 << 63},
	    (struct iovec){g_buf, (size_t)1 << 63});
	add("over one another", 2, NULL, (struct iovec){g_buf, 20}, (struct iovec){g_buf + 5, 20});
}

/* The vector as the call gets it, fresh, since some lie over themselves. */
static struct iovec *vec_of(const struct vec *v, struct iovec *room)
{
	if (v->at == (void *)1 || v->at == (void *)8)
		return NULL;
	if (v->at)
		return (struct iovec *)v->at;
	memcpy(room, v->v, sizeof(v->v));
	return room;
}

static unsigned sum(void)
{
	unsigned s = 0;

	for (int i = 0; i < ROOM; i++)
		s = s * 31 + (unsigned char)g_buf[i];
	return s;
}

enum { FILE_FD, PIPE, SOCKET, NULL_FD, ZERO, KINDS };
static const char *const g_kinds[] = {"file", "pipe", "socket", "null", "zero"};

static int open_kind(int kind, int *other)
{
	static const char text[4096] =
		"text that is to be read, of some length: 0123456789 abcdefg";
	int p[2] = {-1, -1};

	*other = -1;
	switch (kind) {
	case FILE_FD:
		p[0] = open("file", O_CREAT | O_TRUNC | O_RDWR, 0600);
		(void)!write(p[0], text, sizeof(text));
		lseek(p[0], 0, SEEK_SET);
		break;
	case PIPE:
		pipe2(p, O_NONBLOCK);
		(void)!write(p[1], text, sizeof(text));
		break;
	case SOCKET:
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
		(void)!write(p[1], text, sizeof(text));
		break;
	case NULL_FD:
		p[0] = open("/dev/null", O_RDWR);
		break;
	default:
		p[0] = open("/dev/zero", O_RDWR);
	}
	*other = p[1];
	return p[0];
}

enum {
	READV,
	WRITEV,
	PREADV,
	PWRITEV,
	PREADV2,
	PWRITEV2,
	SENDMSG,
	RECVMSG,
	VMSPLICE,
	VM_READ_LOCAL,
	VM_READ_REMOTE,
	VM_WRITE_LOCAL,
	VM_WRITE_REMOTE,
	CALLS
};
static const char *const g_calls[] = {"readv",
				      "writev",
				      "preadv",
				      "pwritev",
				      "preadv2",
				      "pwritev2",
				      "sendmsg",
				      "recvmsg",
				      "vmsplice",
				      "process_vm_readv, local",
				      "process_vm_readv, remote",
				      "process_vm_writev, local",
				      "process_vm_writev, remote"};

static long call(int nr, int fd, int other, struct iovec *v, long n)
{
	struct iovec good = {g_buf + 4096, 64};
	struct msghdr m = {.msg_iov = v, .msg_iovlen = (size_t)n};
	const pid_t me = getpid();

	switch (nr) {
	case READV:
		return syscall(SYS_readv, fd, v, n);
	case WRITEV:
		return syscall(SYS_writev, other >= 0 ? other : fd, v, n);
	case PREADV:
		return syscall(SYS_preadv, fd, v, n, 3, 0);
	case PWRITEV:
		return syscall(SYS_pwritev, other >= 0 ? other : fd, v, n, 3, 0);
	case PREADV2:
		return syscall(SYS_preadv2, fd, v, n, -1, -1, 0);
	case PWRITEV2:
		return syscall(SYS_pwritev2, other >= 0 ? other : fd, v, n, -1, -1, 0);
	case SENDMSG:
		return syscall(SYS_sendmsg, fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	case RECVMSG:
		return syscall(SYS_recvmsg, fd, &m, MSG_DONTWAIT);
	case VMSPLICE:
		return syscall(SYS_vmsplice, other, v, n, SPLICE_F_NONBLOCK);
	case VM_READ_LOCAL:
		return syscall(SYS_process_vm_readv, me, v, n, &good, 1, 0);
	case VM_READ_REMOTE:
		return syscall(SYS_process_vm_readv, me, &good, 1, v, n, 0);
	case VM_WRITE_LOCAL:
		return syscall(SYS_process_vm_writev, me, v, n, &good, 1, 0);
	default:
		return syscall(SYS_process_vm_writev, me, &good, 1, v, n, 0);
	}
}

static bool fits(int nr, int kind)
{
	if (nr == SENDMSG || nr == RECVMSG)
		return kind == SOCKET || kind == FILE_FD;
	if (nr == VMSPLICE)
		return kind == PIPE;
	return nr < VM_READ_LOCAL || kind == NULL_FD;
}

static void buffers(void)
{
	struct iovec room[4];

	for (int nr = 0; nr < CALLS; nr++) {
		for (int kind = 0; kind < KINDS; kind++) {
			for (unsigned i = 0; fits(nr, kind) && i < g_vec_count; i++) {
				int other, fd = open_kind(kind, &other);
				long r;

				for (int k = 0; k < ROOM; k++)
					g_buf[k] = (char)k;
				memset(g_edge, 'e', 16);
				if (g_vecs[i].at == g_at_edge)
					*g_at_edge = (struct iovec){g_buf, 4};
				errno = 0;
				r = call(nr, fd, other, vec_of(&g_vecs[i], room), g_vecs[i].count);
				printf("%s of a %s, %s: %ld %s, %08x, at %ld\n", g_calls[nr],
				       g_kinds[kind], g_vecs[i].name, r,
				       r < 0 ? guest_errno(errno) : "", sum(),
				       kind == FILE_FD ? (long)lseek(fd, 0, SEEK_CUR) : 0L);
				close(fd);
				close(other);
			}
		}
	}
}

/* Data that is read into the vector that says where it goes: the vector was read before. */
static void over_itself(void)
{
	struct iovec *v = (struct iovec *)g_buf;
	struct iovec want[3];
	int p[2];

	pipe2(p, O_NONBLOCK);
	for (int i = 0; i < 3; i++)
		v[i] = (struct iovec){g_buf + 16 * i, 16};
	for (int i = 0; i < 3; i++)
		want[i] = (struct iovec){KERNEL, 1 << 20};
	(void)!write(p[1], want, sizeof(want));
	printf("readv over its vector: %zd, %d\n", readv(p[0], v, 3),
	       memcmp(v, want, sizeof(want)) == 0);
	for (int i = 0; i < 3; i++)
		v[i] = (struct iovec){g_buf + 16 * i, 16};
	printf("writev of its vector: %zd\n", writev(p[1], v, 3));
	printf("process_vm_readv over its vector: %zd\n",
	       process_vm_readv(getpid(), v, 2, &(struct iovec){g_buf + 4096, 32}, 1, 0));
}

/* ---- arguments of exec ---- */

static void exec_one(const char *what, char **argv, char **envp)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		syscall(SYS_execve, "/proc/self/exe", argv, envp);
		printf("exec, %s: %s\n", what, guest_errno(errno));
		fflush(stdout);
		_exit(3);
	}
	waitpid(pid, &status, 0);
	printf("exec, %s: status %x\n", what, status);
}

static void exec_vectors(void)
{
	static char *empty[] = {NULL};
	char *name = "guest", **many = malloc(sizeof(char *) << 20), *text = malloc(3 << 20);
	char *two[3] = {name, NULL, NULL};
	struct rlimit lim = {8 << 20, RLIM_INFINITY};

	setrlimit(RLIMIT_STACK, &lim);
	memset(text, 'x', 3 << 20);
	exec_one("argv NULL", NULL, empty);
	exec_one("argv in the kernel", KERNEL, empty);
	exec_one("argv in the hole", HOLE, empty);
	exec_one("argv at the stub's", STUB, empty);
	exec_one("argv over the edge", (char **)(g_edge + 8), empty);
	exec_one("argv over the edge, odd", (char **)(g_edge + 11), empty);
	exec_one("envp in the kernel", two, KERNEL);
	exec_one("envp at the stub's", two, STUB);
	two[1] = KERNEL;
	exec_one("an argument in the kernel", two, empty);
	two[1] = STUB;
	exec_one("an argument at the stub's", two, empty);
	memset(g_edge, 'e', 16);
	two[1] = g_edge;
	exec_one("an argument over the edge", two, empty);
	two[1] = text;
	text[131071] = '\0';
	exec_one("the longest argument", two, empty);
	text[131071] = 'x';
	text[131072] = '\0';
	exec_one("an argument too long", two, empty);
	text[131072] = 'x';
	text[(3 << 20) - 1] = '\0';
	exec_one("an argument of 3 MiB", two, empty);
	exec_one("an environment of 3 MiB", empty, two);
	two[1] = NULL;
	for (int i = 0; i < 1 << 20; i++)
		many[i] = name;
	many[(1 << 20) - 1] = NULL;
	exec_one("a million arguments", many, empty);
	exec_one("a million in the environment", two, many);
	many[20000] = NULL;
	exec_one("20000 arguments", many, empty);
	/* Sixteen of 100 KiB are too many for a quarter of a small stack. */
	text[100 << 10] = '\0';
	for (int i = 0; i < 30; i++)
		many[i] = text;
	many[30] = NULL;
	exec_one("thirty long ones", many, empty);
	many[15] = NULL;
	exec_one("fifteen long ones", many, empty);
	lim.rlim_cur = 1 << 20;
	setrlimit(RLIMIT_STACK, &lim);
	exec_one("fifteen long ones, a small stack", many, empty);
	lim.rlim_cur = 8192;
	setrlimit(RLIMIT_STACK, &lim);
	exec_one("fifteen long ones, hardly a stack", many, empty);
	many[1] = NULL;
	exec_one("one long one, hardly a stack", many, empty);
}

int main(int argc, char **argv)
{
	(void)argv;
	/* What exec has started; natively the first argument may be missing, or be one empty one.
	 */
	if (argc != 1 || !argv[0] || strcmp(argv[0], "guest") == 0 || !argv[0][0] ||
	    argv[0][0] == 'x')
		_exit(argc > 100 ? 100 : argc);
	guest_begin();
	g_buf = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	g_edge = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(g_edge + 4096, 4096, PROT_NONE);
	g_edge += 4096 - 16;
	memset(g_edge, 'e', 16);
	g_at_edge = (struct iovec *)g_edge;
	g_readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	make_vecs();
	buffers();
	over_itself();
	exec_vectors();
	return 0;
}
