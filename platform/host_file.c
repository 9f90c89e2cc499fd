/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls on files, for the mock platform's file mappings. See platform/host_file.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/hostcall.h"
#include "platform/host_file.h"

int pf_host_file_dup(int fd)
{
	int r = fail_now(FAIL_HOST) ? (errno = EMFILE, -1)
				    : HOST(fcntl_dup, fcntl(fd, F_DUPFD_CLOEXEC, 3));

	return r < 0 ? -errno : r;
}

int pf_host_file_anonymous(uint64_t size)
{
	int fd = fail_now(FAIL_HOST)
			 ? (errno = EMFILE, -1)
			 : HOST(memfd_create_file, memfd_create("moat-mock", MFD_CLOEXEC));

	if (fd < 0)
		return -errno;
	if (HOST(ftruncate_file, ftruncate(fd, (off_t)size)) < 0) {
		const int r = -errno;

		pf_host_file_close(fd);
		return r;
	}
	return fd;
}

void pf_host_file_close(int fd)
{
	HOST(close_fd, close(fd));
}

int64_t pf_host_file_size(int fd)
{
	struct stat st;

	return HOST(newfstatat_file, fstat(fd, &st)) < 0 ? -errno : st.st_size;
}

ssize_t pf_host_file_read(int fd, void *buf, size_t size, uint64_t off)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = size};
	ssize_t n = HOST(preadv2_file, preadv2(fd, &iov, 1, (off_t)off, 0));

	return n < 0 ? -errno : n;
}

ssize_t pf_host_file_write(int fd, const void *buf, size_t size, uint64_t off)
{
	const struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = size};
	ssize_t n = HOST(pwritev2_file, pwritev2(fd, &iov, 1, (off_t)off, 0));

	return n < 0 ? -errno : n;
}
