/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides of foreign.sh: "host DIR STEPS [CHANNEL]" changes a small tree, and after each change
 * asks the other side, "guest", in a sandbox to which the tree was granted, what it sees; that must
 * be what the host sees. So a change that was made before a guest's call began is seen by the call,
 * whatever the sentry remembers. They talk over pipes, or, with CHANNEL, a file of one page that
 * both have mapped: then the sentry does not notice that they talk. "guest" looks at all names
 * again and again besides: at first until the sentry has the host watch them, then after each
 * answer, so that all is known when the next change is made. "again PATH PATH" looks at two so.
 *
 * "order STEPS" and "order DIR STEPS" are the guest and the host of something else: the host has
 * two directories, in which all is old, change places, and then files grow. Nobody tells the guest:
 * it looks at everything in turn, and when it sees the second change it must see the first.
 *
 * "within STEPS" and "within DIR STEPS" likewise, where one call of the guest's may come between: a
 * directory changes and then a file in it, and the guest, which looks at the file by way of the
 * directory, never sees an older directory after that.
 *
 * hostile-part-of: foreign
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE 1024
#define HELD 4

static int g_held[HELD] = {-1, -1, -1, -1};

static uint64_t mix(uint64_t h, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
	return h;
}

static void put_stat(char *out, int r, const struct stat *st)
{
	if (r != 0)
		sprintf(out, "error %d", errno);
	else if (S_ISDIR(st->st_mode))
		sprintf(out, "dir %o %ld %ld.%09ld", st->st_mode, (long)st->st_nlink,
			(long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	else
		sprintf(out, "%o %ld %ld %ld.%09ld", st->st_mode, (long)st->st_size,
			(long)st->st_nlink, (long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

static void put_content(char *out, int fd)
{
	char buf[4096];
	uint64_t h = 0;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		h = mix(h, buf, (size_t)n);
		at += n;
	}
	sprintf(out + strlen(out), " content %ld %lx", (long)at, (unsigned long)h);
}

/* What there is to be seen of @path, by @how: 's'tat alone, 'o'pen and read, 'l'ist and each entry.
 */
static void describe(char how, const char *path, char *out)
{
	struct stat st;
	char text[256];
	ssize_t n;

	if (how == 's' || how == 'l') {
		put_stat(out, lstat(path, &st), &st);
		if ((n = readlink(path, text, sizeof(text))) >= 0)
			sprintf(out + strlen(out), " -> %.*s", (int)n, text);
	}
	if (how == 'o') {
		int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);

		if (fd < 0) {
			sprintf(out, "open error %d", errno);
			return;
		}
		put_stat(out, fstat(fd, &st), &st);
		if (S_ISREG(st.st_mode))
			put_content(out, fd);
		close(fd);
	}
	if (how == 'l') {
		DIR *d = opendir(path);
		uint64_t sum = 0;
		struct dirent *e;

		while (d && (e = readdir(d))) {
			char one[LINE];

			if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
				continue;
			put_stat(one, fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW), &st);
			/* In whatever order. */
			sum += mix(mix(1, e->d_name, strlen(e->d_name)), one, strlen(one));
		}
		if (d)
			closedir(d);
		sprintf(out + strlen(out), " list %lx", (unsigned long)sum);
	}
}

/* A question: HOW PATH; 'hN' opens PATH as the held file N, 'fN' looks at it. */
static void answer(const char *question, char *out)
{
	struct stat st;

	*out = '\0';
	if (question[0] == 'h') {
		int *fd = &g_held[question[1] - '0'];

		if (*fd >= 0)
			close(*fd);
		*fd = open(question + 3, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
		sprintf(out, "held %d", *fd >= 0 ? 0 : errno);
	} else if (question[0] == 'f') {
		int fd = g_held[question[1] - '0'];

		put_stat(out, fstat(fd, &st), &st);
		if (fd >= 0 && S_ISREG(st.st_mode))
			put_content(out, fd);
	} else {
		describe(question[0], question + 2, out);
	}
}

/* How often a guest must ask in vain for the host to be asked for watches, and some. */
#define IN_VAIN 25000

static const char *const g_dirs[] = {"a", "a/b", "a/b/c", "d", "."};

static void look_around(unsigned times)
{
	char path[64];
	struct stat st;

	while (times-- > 0)
		for (unsigned dir = 0; dir < 5; dir++) {
			(void)!lstat(g_dirs[dir], &st);
			for (unsigned n = 0; n < 3; n++) {
				sprintf(path, "%s/f%u", g_dirs[dir], n);
				(void)!lstat(path, &st);
			}
		}
}

static void answer_known(const char *question, char *out)
{
	static bool begun;

	answer(question, out);
	look_around(begun ? 3 : IN_VAIN / 20);
	begun = true;
}

/* Odd: a question; even: its answer; the last question is empty. */
static struct channel {
	_Atomic unsigned turn;
	char text[4096 - sizeof(unsigned)];
} * g_channel;

static int channel_open(const char *path)
{
	const int fd = open(path, O_RDWR);

	g_channel = mmap(NULL, sizeof(*g_channel), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || g_channel == MAP_FAILED) {
		perror(path);
		return -1;
	}
	close(fd);
	return 0;
}

static void channel_await(unsigned odd)
{
	for (unsigned n = 0; atomic_load(&g_channel->turn) % 2 != odd; n++)
		if (n % 2000 == 1999)
			sched_yield();
}

static int guest_mapped(void)
{
	char question[LINE], out[4 * LINE];

	for (;;) {
		channel_await(1);
		snprintf(question, sizeof(question), "%s", g_channel->text);
		if (!*question)
			return 0;
		answer_known(question, out);
		snprintf(g_channel->text, sizeof(g_channel->text), "%s", out);
		atomic_fetch_add(&g_channel->turn, 1);
	}
}

static int guest(void)
{
	char line[LINE], out[4 * LINE];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		answer_known(line, out);
		puts(out);
		fflush(stdout);
	}
	return 0;
}

/* --- The host's side --- */

static uint64_t g_seed = 88172645463325252u;

static unsigned draw(unsigned n)
{
	g_seed ^= g_seed << 13;
	g_seed ^= g_seed >> 7;
	g_seed ^= g_seed << 17;
	return (unsigned)(g_seed >> 33) % n;
}

static void ask(FILE *in, const char *change, const char *question)
{
	char mine[4 * LINE], theirs[4 * LINE] = "";

	if (g_channel) {
		snprintf(g_channel->text, sizeof(g_channel->text), "%s", question);
		atomic_fetch_add(&g_channel->turn, 1);
		channel_await(0);
		snprintf(theirs, sizeof(theirs), "%s", g_channel->text);
	} else {
		printf("%s\n", question);
		fflush(stdout);
		if (!fgets(theirs, sizeof(theirs), in)) {
			fprintf(stderr, "no answer to %s\n", question);
			exit(1);
		}
		theirs[strcspn(theirs, "\n")] = '\0';
	}
	answer(question, mine);
	if (strcmp(mine, theirs) != 0) {
		fprintf(stderr, "after %s, asked %s\nhost:  %s\nguest: %s\n", change, question,
			mine, theirs);
		exit(1);
	}
}

static void make_path(char *out)
{
	const unsigned n = draw(12);

	if (n < 4)
		strcpy(out, g_dirs[n]);
	else
		sprintf(out, "%s/f%u", g_dirs[draw(5)], draw(3));
}

static void write_file(const char *path, int flags)
{
	char text[9000];
	const size_t n = draw(sizeof(text));
	const int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | flags, 0644);

	memset(text, 'a' + (int)draw(26), n);
	if (fd >= 0) {
		(void)!write(fd, text, n);
		close(fd);
	}
}

static void write_mapped(const char *path)
{
	struct stat st;
	const int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
	char *p;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		p = mmap(NULL, (size_t)st.st_size, PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			p[draw((unsigned)st.st_size)] = (char)('A' + draw(26));
			munmap(p, (size_t)st.st_size);
		}
	}
	if (fd >= 0)
		close(fd);
}

/* One change, or none where it fails. Says in @what which. */
static void change(char *what)
{
	char a[64], b[64];
	const unsigned op = draw(15);

	make_path(a);
	make_path(b);
	sprintf(what, "change %u of %s and %s", op, a, b);
	switch (op) {
	case 0:
	case 1:
		write_file(a, O_TRUNC);
		break;
	case 2:
		write_file(a, O_APPEND);
		break;
	case 3:
		write_file(a, 0);
		break;
	case 4:
		write_mapped(a);
		break;
	case 5:
		(void)!truncate(a, draw(20000));
		break;
	case 6:
		(void)!chmod(a, draw(2) ? 0755 : 0700);
		break;
	case 7:
	case 8:
		(void)!rename(a, b);
		break;
	case 9:
		(void)!renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
		break;
	case 10:
		(void)!(unlink(a) && rmdir(a));
		break;
	case 11:
		(void)!mkdir(a, 0755);
		break;
	case 12:
		(void)!symlink("f1", a);
		break;
	case 13:
		(void)!link(a, b);
		break;
	default: {
		const struct timespec t[2] = {{1000000 + draw(1000000), draw(1000)},
					      {1000000 + draw(1000000), draw(1000)}};

		(void)!utimensat(AT_FDCWD, a, t, AT_SYMLINK_NOFOLLOW);
	}
	}
}

static int host(const char *dir, unsigned steps)
{
	char what[256], path[64], question[128];

	if (chdir(dir) != 0)
		return 2;
	(void)!(mkdir("a", 0755) || mkdir("a/b", 0755) || mkdir("a/b/c", 0755) || mkdir("d", 0755));
	for (unsigned i = 0; i < steps; i++) {
		/* Sometimes nothing happens in between: then what is remembered is right. */
		strcpy(what, "nothing");
		if (draw(4) != 0)
			change(what);
		for (unsigned n = draw(4); n > 0; n--) {
			make_path(path);
			if (draw(6) == 0)
				sprintf(question, "h%u %s", draw(HELD), path);
			else if (draw(5) == 0)
				sprintf(question, "f%u", draw(HELD));
			else
				sprintf(question, "%c %s", "sol"[draw(3)], path);
			ask(stdin, what, question);
		}
	}
	if (g_channel) {
		g_channel->text[0] = '\0';
		atomic_fetch_add(&g_channel->turn, 1);
	}
	return 0;
}

/* --- Two changes, one after the other --- */

static bool has_size(const char *path, off_t size)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_size == size;
}

static void make_sized(const char *path, off_t size)
{
	const int fd = open(path, O_WRONLY | O_CREAT, 0644);

	(void)!ftruncate(fd, size);
	close(fd);
}

/* What step @k changes: two directories change places; then many files grow, so that there is one
 * at any time at which the guest has not looked for a while. */
#define ORDER_FILES 64u

static bool order_first_seen(unsigned k)
{
	return has_size("d0/f", 1 + k % 2);
}

static bool order_second_seen(unsigned k)
{
	static unsigned n;
	char name[32];

	sprintf(name, "z%u", n++ % ORDER_FILES);
	return has_size(name, k);
}

static bool order_change(unsigned k)
{
	bool done = renameat2(AT_FDCWD, "d0", AT_FDCWD, "d1", RENAME_EXCHANGE) == 0;
	char name[32];

	for (unsigned n = 0; n < ORDER_FILES; n++) {
		sprintf(name, "z%u", n);
		done = done && truncate(name, k) == 0;
	}
	return done;
}

static int order_host(const char *dir, unsigned steps)
{
	char name[32];

	if (chdir(dir) != 0 || mkdir("d0", 0755) || mkdir("d1", 0755))
		return 2;
	make_sized("d0/f", 1);
	make_sized("d1/f", 2);
	for (unsigned n = 0; n < ORDER_FILES; n++) {
		sprintf(name, "z%u", n);
		make_sized(name, 0);
	}
	/* So that all is old. */
	sleep(3);
	puts("go");
	fflush(stdout);
	for (unsigned k = 1; k <= steps; k++) {
		if (!order_change(k)) {
			perror("change");
			return 2;
		}
		if (getchar() != 'y') {
			fprintf(stderr, "order: not seen in step %u\n", k);
			return 1;
		}
	}
	return 0;
}

static int order_guest(unsigned steps)
{
	(void)getchar();
	for (unsigned k = 1; k <= steps; k++) {
		do
			(void)order_first_seen(k);
		while (!order_second_seen(k));
		putchar(order_first_seen(k) ? 'y' : 'n');
		fflush(stdout);
	}
	return 0;
}

/* --- Two changes in the middle of a call --- */

static bool set_mtime(const char *path, long to)
{
	const struct timespec t[2] = {{to, 0}, {to, 0}};

	return utimensat(AT_FDCWD, path, t, 0) == 0;
}

static long mtime_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 ? (long)st.st_mtim.tv_sec : -1;
}

static int within_host(const char *dir, unsigned steps)
{
	if (chdir(dir) != 0 || mkdir("x", 0755) != 0)
		return 2;
	make_sized("x/y", 1);
	for (unsigned k = 0; k <= steps; k++) {
		if (!set_mtime("x", k) || !set_mtime("x/y", k)) {
			perror("change");
			return 2;
		}
		if (k == 0) {
			puts("go");
			fflush(stdout);
		}
	}
	if (getchar() != 'y') {
		fprintf(stderr, "within: an older directory was seen\n");
		return 1;
	}
	return 0;
}

static int within_guest(unsigned steps)
{
	char told = 'y';
	long second;

	(void)getchar();
	do {
		second = mtime_of("x/y");
		if (mtime_of("x") < second)
			told = 'n';
	} while (second >= 0 && second != (long)steps);
	putchar(told);
	return second < 0;
}

int main(int argc, char **argv)
{
	const int is_host = argc >= 4 && strcmp(argv[1], "host") == 0;
	const char *channel = argc == 3 || argc == 5 ? argv[argc - 1] : NULL;

	umask(022);
	if (argc == 4 && strcmp(argv[1], "order") == 0)
		return order_host(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
	if (argc == 3 && strcmp(argv[1], "order") == 0)
		return order_guest((unsigned)strtoul(argv[2], NULL, 10));
	if (argc == 4 && strcmp(argv[1], "within") == 0)
		return within_host(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
	if (argc == 3 && strcmp(argv[1], "within") == 0)
		return within_guest((unsigned)strtoul(argv[2], NULL, 10));
	if (argc == 4 && strcmp(argv[1], "again") == 0) {
		struct stat st;

		for (unsigned n = 0; n < 3 * IN_VAIN; n++)
			if (lstat(argv[2 + n % 2], &st) != 0)
				return 1;
		return 0;
	}
	if (channel && channel_open(channel) != 0)
		return 2;
	if (is_host)
		return host(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
	return channel ? guest_mapped() : guest();
}
