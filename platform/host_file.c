/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls on files, for the mock platform's file mappings. See platform/host_file.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "platform/host_file.h"

int pf_host_file_dup(int fd)
{
	int r = fail_now(FAIL_HOST) ? (errno = EMFILE, -1)
				    : fcntl(fd, F_DUPFD_CLOEXEC, 3); /* host: fcntl */

	return r < 0 ? -errno : r;
}

int pf_host_file_anonymous(uint64_t size)
{
	int fd = fail_now(FAIL_HOST)
			 ? (errno = EMFILE, -1)
			 : memfd_create("moat-mock", MFD_CLOEXEC); /* host: memfd_create */

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) < 0) { /* host: ftruncate */
		const int r = -errno;

		pf_host_file_close(fd);
		return r;
	}
	return fd;
}

void pf_host_file_close(int fd)
{
	close(fd); /* host: close */
}

int64_t pf_host_file_size(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? -errno : st.st_size; /* host: fstat */
}

ssize_t pf_host_file_read(int fd, void *buf, size_t size, uint64_t off)
{
	ssize_t n = pread(fd, buf, size, (off_t)off); /* host: pread64 */

	return n < 0 ? -errno : n;
}

ssize_t pf_host_file_write(int fd, const void *buf, size_t size, uint64_t off)
{
	ssize_t n = pwrite(fd, buf, size, (off_t)off); /* host: pwrite64 */

	return n < 0 ? -errno : n;
}
