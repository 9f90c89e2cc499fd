/* SPDX-License-Identifier: Apache-2.0 */
/* Every ioctl number, on every kind of descriptor that there is, with arguments that lead to
 * memory, to its edge, to nothing, into the kernel and the stub: whatever the number's type,
 * direction and size say. The sentry lives, the guest does, and what lies around the argument is as
 * it was. */
#include "hostile.h"

#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

/* The largest size that a number can have. */
#define SIZE_MAX_OF 16384u

static unsigned char *g_area; /* three times that; the argument is in the middle */
static unsigned char *g_edge; /* eight bytes before nothing */

struct kind {
	const char *name;
	int fd;
};

static struct kind g_kinds[64];
static unsigned g_count;

static void add(const char *name, int fd)
{
	if (fd >= 0)
		g_kinds[g_count++] = (struct kind){name, fd};
	else
		printf("no %s: %s\n", name, strerror(errno));
}

static void add_pair(const char *name, const int p[2])
{
	add(name, p[0]);
	add(name, p[1]);
}

static void open_all(void)
{
	static const char *const paths[] = {"/dev/null",
					    "/dev/zero",
					    "/dev/full",
					    "/dev/random",
					    "/dev/urandom",
					    "/dev/tty",
					    "/proc/self/maps",
					    "/proc/self/status",
					    "/proc/self/mem",
					    "/proc/self",
					    "/proc/self/fd",
					    "/sys",
					    "/etc/passwd",
					    "/etc",
					    "/",
					    "/dev",
					    "/dev/pts",
					    "/proc/self/exe"};
	static const int domains[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};
	static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET};
	sigset_t set;
	int p[2], master;

	for (size_t i = 0; i < HOSTILE_COUNT(paths); i++)
		add(paths[i], open(paths[i], O_RDONLY | O_NONBLOCK));
	add("/dev/null to write", open("/dev/null", O_RDWR));
	add("a path", open("/etc/passwd", O_PATH));
	add("a file of tmpfs", open("/tmp/f", O_CREAT | O_RDWR, 0600));
	add("a directory of tmpfs", open("/tmp", O_RDONLY | O_DIRECTORY));
	add("a file without a name", open("/tmp", O_TMPFILE | O_RDWR, 0600));
	add("a file of the overlay", open("/etc/new", O_CREAT | O_RDWR, 0600));
	if (pipe2(p, O_NONBLOCK) == 0)
		add_pair("a pipe", p);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) == 0)
		add_pair("a pair", p);
	for (size_t d = 0; d < HOSTILE_COUNT(domains); d++)
		for (size_t t = 0; t < HOSTILE_COUNT(types); t++)
			if ((p[0] = socket(domains[d], types[t] | SOCK_NONBLOCK, 0)) >= 0)
				add("a socket", p[0]);
	master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
	add("a terminal's master", master);
	if (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0)
		add("a terminal", open(ptsname(master), O_RDWR | O_NOCTTY | O_NONBLOCK));
	add("an eventfd", eventfd(1, EFD_NONBLOCK));
	add("a timerfd", timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
	sigemptyset(&set);
	add("a signalfd", signalfd(-1, &set, SFD_NONBLOCK));
	add("an epoll", epoll_create1(0));
	add("an inotify", inotify_init1(IN_NONBLOCK));
	add("a memfd", memfd_create("m", MFD_ALLOW_SEALING));
	add("a pidfd", (int)syscall(SYS_pidfd_open, getpid(), 0));
	add("a queue", (int)mq_open("/q", O_CREAT | O_RDWR | O_NONBLOCK, 0600, NULL));
	add("standard input", dup(0));
	add("standard output", dup(1));
	add("nothing", 900);
}

static unsigned long argument(unsigned which)
{
	switch (which % 6) {
	case 0:
	case 1:
		return (unsigned long)(g_area + SIZE_MAX_OF);
	case 2:
		return (unsigned long)g_edge;
	case 3:
		return 0xffff888000000000ul;
	case 4:
		return STUB_REGION + 0x10000;
	default:
		return which % 7;
	}
}

static int intact(const char *name, unsigned long nr)
{
	for (unsigned i = 0; i < SIZE_MAX_OF; i++)
		if (g_area[i] != 0xa5 || g_area[2 * SIZE_MAX_OF + i] != 0xa5) {
			printf("%s, %#lx: what is beside the argument was changed\n", name, nr);
			return 0;
		}
	return 1;
}

int main(void)
{
	static const unsigned char types[] = {'f', 'X',  'v',  'T', 't', 'E',  'V',
					      'B', 0x12, 0x94, 'H', 'w', 0x89, 0x00};
	static const unsigned sizes[] = {1, 4, 8, 24, 4096, 16383};
	unsigned long made = 0, well = 0;
	int bad = 0;

	hostile_begin();
	for (int sig = 1; sig < _NSIG; sig++)
		if (sig != SIGSEGV && sig != SIGBUS && sig != SIGABRT && sig != SIGCHLD)
			signal(sig, SIG_IGN);
	setsid();
	g_area = mmap(NULL, 3 * SIZE_MAX_OF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	memset(g_area, 0xa5, 3 * SIZE_MAX_OF);
	g_edge = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(g_edge + 4096, 4096, PROT_NONE);
	g_edge += 4088;
	open_all();
	for (unsigned k = 0; k < g_count; k++) {
		const struct kind *d = &g_kinds[k];

		/* All types and numbers, without direction and size: a sixth of them each. */
		for (unsigned long nr = k % 6; nr < 0x10000; nr += 6) {
			made++;
			well += ioctl(d->fd, nr, argument(nr % 256 + nr / 256 + k)) >= 0;
			if (nr % 0x4000 < 6 && !intact(d->name, nr))
				return 1;
		}
		/* Those that anybody knows, with all directions and some sizes. */
		for (size_t t = 0; t < sizeof(types); t++)
			for (unsigned long low = 0; low < 256; low++)
				for (unsigned long s = low % 6; s < 3 * HOSTILE_COUNT(sizes);
				     s += 6 + low % 2) {
					const unsigned long nr = (s % 3 + 1) << 30 |
								 (unsigned long)sizes[s / 3] << 16 |
								 (unsigned long)types[t] << 8 | low;

					made++;
					well += ioctl(d->fd, nr, argument((unsigned)(low + s))) >=
						0;
				}
		bad |= !intact(d->name, 0);
		/* Numbers are 32 bits wide. */
		made++;
		well += syscall(SYS_ioctl, d->fd, rnd() | 1ul << 40, argument(0)) >= 0;
	}
	printf("%lu calls, %lu of them well, on %u descriptors\n", made, well, g_count);
	return bad || g_count < 40;
}
