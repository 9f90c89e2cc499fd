/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the platforms read of the host's /proc. See platform/host_proc.h.
 *
 * Theory of operation: the sentry loses sight of the host's /proc before it starts a platform. So
 * the launcher has the sysctls read first; whoever did not (tests, `moat doctor`) reads when asked.
 * For stubs it hands over a /proc of their pid name space.
 */
#include "platform/host_proc.h"
#include "platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/hostcall.h"

static int64_t g_values[PF_SYSCTLS];
static bool g_read;

static int64_t read_one(const char *path)
{
	char text[32];
	const int fd = HOST(openat_sysctl, open(path, O_RDONLY | O_CLOEXEC));
	ssize_t n;

	if (fd < 0)
		return -1;
	n = HOST(read_sysctl, read(fd, text, sizeof(text) - 1));
	HOST(close_fd, close(fd));
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return strtoll(text, NULL, 10);
}

static int64_t read_sysctl(enum pf_sysctl which)
{
	static const char *const paths[PF_SYSCTLS] = {
		[PF_MAP_COUNT] = "/proc/sys/vm/max_map_count",
		[PF_OVERCOMMIT] = "/proc/sys/vm/overcommit_memory",
		[PF_MEMFD_EXEC] = "/proc/sys/vm/memfd_noexec",
		[PF_YAMA] = "/proc/sys/kernel/yama/ptrace_scope",
		[PF_PID_MAX] = "/proc/sys/kernel/pid_max",
	};

	return read_one(paths[which]);
}

int64_t pf_sysctl(enum pf_sysctl which)
{
	return g_read ? g_values[which] : read_sysctl(which);
}

void pf_sysctls_read(void)
{
	for (unsigned i = 0; i < PF_SYSCTLS; i++)
		g_values[i] = read_sysctl((enum pf_sysctl)i);
	g_read = true;
}

static int g_proc_fd = -1;
static bool g_openat2_lacks;

static bool g_proc_given;

void pf_host_proc_use(int fd)
{
	g_proc_fd = fd;
	g_proc_given = true;
}

int pf_host_proc_open(void)
{
	if (g_proc_fd < 0 && !g_proc_given)
		g_proc_fd = HOST(openat_proc, open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (g_proc_fd < 0)
		return -ENOENT;
	/* It finds fault with the size of nothing. */
	g_openat2_lacks =
		HOST(openat2_proc, syscall(SYS_openat2, -1, "", NULL, 0)) == 0 || errno != EINVAL;
	return 0;
}

void pf_host_proc_close(void)
{
	if (g_proc_given)
		return;
	if (g_proc_fd >= 0)
		HOST(close_fd, close(g_proc_fd));
	g_proc_fd = -1;
}

/* The host's struct open_how. */
struct how {
	uint64_t flags, mode, resolve;
};
/* RESOLVE_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH */
#define PROC_RESOLVE 0x0f

static int proc_open(const char *path, int flags)
{
	const struct how how = {.flags = (unsigned)flags, .resolve = PROC_RESOLVE};
	int fd = (int)HOST(openat2_proc, syscall(SYS_openat2, g_proc_fd, path, &how, sizeof(how)));

	if (fd < 0 && g_openat2_lacks) /* before Linux 5.6 */
		fd = HOST(openat_proc_old, openat(g_proc_fd, path, flags));
	return fd;
}

int pf_host_reopen_read(int fd)
{
	const struct how how = {.flags = O_RDONLY | O_CLOEXEC};
	const int flags = HOST(fcntl_getfl, fcntl(fd, F_GETFL));
	char path[32];
	int r;

	if (flags < 0)
		return -errno;
	/* Then there is ptrace only (pf_host_probe_calls), where a guest makes no call of the host
	 * at all. */
	if ((flags & O_ACCMODE) == O_RDONLY || g_openat2_lacks)
		return fd;
	snprintf(path, sizeof(path), "self/fd/%d", fd);
	r = (int)HOST(openat2_reopen, syscall(SYS_openat2, g_proc_fd, path, &how, sizeof(how)));
	return r < 0 ? -errno : r;
}

ssize_t pf_host_proc_rw(pid_t pid, const char *name, uint64_t off, void *buf, size_t size,
			bool write)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = size};
	char path[64];
	ssize_t n;
	int fd;

	if (g_proc_fd < 0)
		return -ENOENT;
	snprintf(path, sizeof(path), "%d/%s", pid, name);
	fd = proc_open(path, (write ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = write ? HOST(pwritev2_proc, pwritev2(fd, &iov, 1, (off_t)off, 0))
		  : HOST(preadv2_proc, preadv2(fd, &iov, 1, (off_t)off, 0));
	if (n < 0)
		n = -errno;
	HOST(close_fd, close(fd));
	return n;
}

int pf_host_mem_open(pid_t pid)
{
	char path[64];
	int fd;

	if (g_proc_fd < 0)
		return -ENOENT;
	snprintf(path, sizeof(path), "%d/mem", pid);
	fd = proc_open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int pf_host_mem_write(int mem, uint64_t addr, const void *buf, size_t size)
{
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = size};
	const ssize_t n = HOST(pwritev2_proc, pwritev2(mem, &iov, 1, (off_t)addr, 0));

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EIO;
}

/* By one descriptor: from elsewhere than where the last read ended the host would begin at the top
 * again, which for 60,000 maps takes seconds. */
size_t pf_host_map_count(pid_t pid)
{
	char path[64], buf[4096];
	const struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};
	size_t count = 0;
	uint64_t pos = 0;
	ssize_t n;
	int fd;

	if (g_proc_fd < 0)
		return SIZE_MAX;
	snprintf(path, sizeof(path), "%d/maps", pid);
	fd = proc_open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return SIZE_MAX;
	while ((n = HOST(preadv2_proc, preadv2(fd, &iov, 1, (off_t)pos, 0))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			count += buf[i] == '\n';
		pos += (uint64_t)n;
	}
	HOST(close_fd, close(fd));
	return n < 0 ? SIZE_MAX : count;
}

int pf_host_resident(pid_t pid, uint64_t addr, size_t pages, uint8_t *vec)
{
	uint64_t entries[256] = {0};

	for (size_t done = 0; done < pages;) {
		const size_t want = MIN(pages - done, ARRAY_SIZE(entries));
		const ssize_t n =
			pf_host_proc_rw(pid, "pagemap", (addr / MOAT_PAGE_SIZE + done) * 8, entries,
					want * 8, false);

		if (n <= 0 || n % 8 != 0)
			return n < 0 ? (int)n : -EIO;
		/* Bit 63: present; 61: of a file, or shared. */
		for (size_t i = 0; i < (size_t)n / 8; i++)
			vec[done + i] = (entries[i] >> 63 ? PF_PAGE_THERE : 0) |
					(entries[i] >> 61 & 1 ? PF_PAGE_FILE : 0);
		done += (size_t)n / 8;
	}
	return 0;
}

bool pf_host_thread_text(pid_t pid, pid_t tid, const char *name, char *buf, size_t size)
{
	char path[48];
	ssize_t n;

	snprintf(path, sizeof(path), "task/%d/%s", tid, name);
	n = pf_host_proc_rw(pid, path, 0, buf, size - 1, false);
	buf[MAX(n, (ssize_t)0)] = '\0';
	return n > 0;
}
