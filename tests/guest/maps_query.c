/* SPDX-License-Identifier: Apache-2.0 */

/* ioctl(PROCMAP_QUERY): one mapping of /proc/PID/maps by its address. A kernel before 6.11 does not
 * know it; natively on one, what a newer one says is printed. */
#include "guest.h"
#include <sys/utsname.h>

#define QUERY 0xc0686611u
#define READABLE 1u
#define WRITABLE 2u
#define EXECUTABLE 4u
#define SHARED 8u
#define OR_NEXT 0x10u
#define OF_FILE 0x20u

struct query {
	uint64_t size, flags, addr;
	uint64_t start, end, is, page, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};

struct entry {
	unsigned long start, end, offset, inode;
	unsigned major, minor, is;
	char name[512];
};

static bool too_old;
static int maps_fd;
static struct entry entries[256];
static size_t entry_count;
static char text[1 << 16];

#define YES(expr) printf("%s: %s\n", #expr, too_old || (expr) ? "yes" : "no")

/* Asks with @q, of which @size bytes are given. */
static int ask_sized(struct query *q, unsigned long addr, unsigned flags, uint64_t size)
{
	q->size = size;
	q->addr = addr;
	q->flags = flags;
	return ioctl(maps_fd, QUERY, q) == 0 ? 0 : errno;
}

static int ask(struct query *q, unsigned long addr, unsigned flags)
{
	memset(q, 0, sizeof(*q));
	return ask_sized(q, addr, flags, sizeof(*q));
}

static void read_entries(void)
{
	size_t size = 0;
	ssize_t n;
	char *save;

	lseek(maps_fd, 0, SEEK_SET);
	while ((n = read(maps_fd, text + size, sizeof(text) - 1 - size)) > 0)
		size += (size_t)n;
	text[size] = 0;
	entry_count = 0;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		struct entry *e = &entries[entry_count];
		char perms[8];

		memset(e, 0, sizeof(*e));
		/* The last is no mapping on Linux. */
		if (sscanf(l, "%lx-%lx %7s %lx %x:%x %lu %511[^\n]", &e->start, &e->end, perms,
			   &e->offset, &e->major, &e->minor, &e->inode, e->name) < 7 ||
		    strstr(e->name, "[vsyscall]"))
			continue;
		e->is = (perms[0] == 'r' ? READABLE : 0) | (perms[1] == 'w' ? WRITABLE : 0) |
			(perms[2] == 'x' ? EXECUTABLE : 0) | (perms[3] == 's' ? SHARED : 0);
		if (entry_count + 1 < GUEST_COUNT(entries))
			entry_count++;
	}
}

static bool agrees(const struct query *q, const struct entry *e)
{
	return q->start == e->start && q->end == e->end && q->is == e->is && q->page == 4096 &&
	       q->offset == e->offset && q->inode == e->inode && q->major == e->major &&
	       q->minor == e->minor;
}

struct agreed {
	size_t plain, last_byte, named, walked, files, of_file;
	bool walk_ends, files_end;
};

static struct agreed compare(void)
{
	struct agreed a = {0};
	unsigned long at = 0;
	struct query q;

	for (size_t i = 0; i < entry_count; i++) {
		const struct entry *e = &entries[i];
		char name[512] = "";

		a.plain += ask(&q, e->start, 0) == 0 && agrees(&q, e) && q.name_size == 0;
		a.last_byte += ask(&q, e->end - 1, e->is) == 0 && agrees(&q, e);
		memset(&q, 0, sizeof(q));
		q.name = (uintptr_t)name;
		q.name_size = sizeof(name);
		a.named += ask_sized(&q, e->start, 0, sizeof(q)) == 0 && !strcmp(name, e->name) &&
			   q.name_size == (*name ? strlen(name) + 1 : 0);
		a.files += e->inode != 0;
	}
	while (a.walked < entry_count && ask(&q, at, OR_NEXT) == 0 &&
	       agrees(&q, &entries[a.walked])) {
		at = q.end;
		a.walked++;
	}
	a.walk_ends = ask(&q, at, OR_NEXT) == ENOENT;
	for (at = 0; a.of_file < a.files && ask(&q, at, OR_NEXT | OF_FILE) == 0 && q.inode;
	     at = q.end)
		a.of_file++;
	a.files_end = ask(&q, at, OR_NEXT | OF_FILE) == ENOENT;
	return a;
}

/* What maps shows is what is told. Once more if there is another mapping afterwards: a kernel may
 * keep something of its own beside code that is executed often. */
static void each(void)
{
	struct agreed a;
	size_t before;

	P("each mapping");
	read_entries();
	do {
		before = entry_count;
		a = compare();
		read_entries();
	} while (entry_count != before);
	YES(entry_count > 10 && a.plain == entry_count);
	YES(a.last_byte == entry_count);
	YES(a.named == entry_count);
	YES(a.walked == entry_count && a.walk_ends);
	YES(a.files > 3 && a.of_file == a.files && a.files_end);
}

static void gaps(void)
{
	char *p = mmap(NULL, 5 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long at = (uintptr_t)p;
	struct query q;

	P("gaps and filters");
	mprotect(p, 4096, PROT_READ | PROT_EXEC);
	munmap(p + 4096, 4096);
	mprotect(p + 3 * 4096, 4096, PROT_READ | PROT_WRITE);
	YES(ask(&q, at + 4096, 0) == ENOENT);
	YES(ask(&q, at + 4096, OR_NEXT) == 0 && q.start == at + 2 * 4096 && q.is == READABLE);
	YES(ask(&q, at, EXECUTABLE | READABLE) == 0 && q.end == at + 4096);
	YES(ask(&q, at, WRITABLE) == ENOENT);
	YES(ask(&q, at, OF_FILE) == ENOENT);
	YES(ask(&q, at, SHARED) == ENOENT);
	YES(ask(&q, at, WRITABLE | OR_NEXT) == 0 && q.start == at + 3 * 4096);
	YES(ask(&q, 0, 0) == ENOENT);
	YES(ask(&q, UINT64_MAX, OR_NEXT) == ENOENT);
	munmap(p, 5 * 4096);
}

static void refused(void)
{
	struct {
		struct query q;
		uint64_t more;
	} big = {.more = 0};
	struct query q = {.start = 77};
	const unsigned long here = (uintptr_t)&maps_fd;
	char name[8] = "untold";

	P("refused");
	YES(ask_sized(&q, here, 0, 23) == EINVAL);
	YES(ask_sized(&q, here, 0, 24) == 0 && q.start == 77);
	YES(ask_sized(&q, here, 0, 32) == 0 && q.start != 77 && q.end == 0);
	YES(ask_sized(&q, here, 0, 4097) == E2BIG);
	YES(ask_sized(&big.q, here, 0, sizeof(big)) == 0 && big.q.start <= here);
	memset(&big, 0, sizeof(big));
	big.more = 1;
	YES(ask_sized(&big.q, here, 0, sizeof(big)) == E2BIG);
	YES(ask(&q, here, 0x40) == EINVAL);
	q = (struct query){.name = (uintptr_t)name};
	YES(ask_sized(&q, here, 0, sizeof(q)) == EINVAL);
	q = (struct query){.name_size = 8};
	YES(ask_sized(&q, here, 0, sizeof(q)) == EINVAL);
	q = (struct query){.build_id = (uintptr_t)name};
	YES(ask_sized(&q, here, 0, sizeof(q)) == EINVAL);
	q = (struct query){.build_id_size = 8};
	YES(ask_sized(&q, here, 0, sizeof(q)) == EINVAL);
	q = (struct query){.name = (uintptr_t)name, .name_size = sizeof(name)};
	YES(ask_sized(&q, (uintptr_t)&refused, 0, sizeof(q)) == ENAMETOOLONG && *name == 'u');
	q = (struct query){.name = 8, .name_size = 4096};
	YES(ask_sized(&q, (uintptr_t)&refused, 0, sizeof(q)) == EFAULT);
	YES(ioctl(maps_fd, QUERY, NULL) == -1 && errno == EFAULT);
	YES(ioctl(maps_fd, QUERY + 1, &q) == -1 && errno == ENOTTY);
	close(maps_fd);
	maps_fd = open("/proc/self/smaps", O_RDONLY);
	YES(ask(&q, here, 0) == ENOTTY);
	close(maps_fd);
}

static void of_others(void)
{
	char path[64];
	struct query q;
	pid_t pid;
	int go;
	char *p;

	P("of a child");
	p = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid = guest_fork_idle(&go);
	munmap(p, 3 * 4096);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps_fd = open(path, O_RDONLY);
	YES(ask(&q, (uintptr_t)p + 4096, READABLE) == 0 && q.start <= (uintptr_t)p);
	close(go);
	guest_wait("child", pid);
	YES(ask(&q, (uintptr_t)p + 4096, READABLE) == ESRCH);
	close(maps_fd);
}

int main(void)
{
	struct utsname u;
	unsigned major = 0, minor = 0;
	struct query q;

	guest_begin();
	maps_fd = open("/proc/self/maps", O_RDONLY);
	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	too_old = (major < 6 || (major == 6 && minor < 11)) && ask(&q, 0, 0) == ENOTTY;
	each();
	gaps();
	refused();
	of_others();
	return 0;
}
