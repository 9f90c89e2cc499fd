/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host calls on files, for the mock platform's file mappings.
 */
#ifndef MOAT_PLATFORM_HOST_FILE_H
#define MOAT_PLATFORM_HOST_FILE_H

#include "base/types.h"

int pf_host_file_dup(int fd);              /* close-on-exec; or -errno */
int pf_host_file_anonymous(uint64_t size); /* an anonymous file; or -errno */
void pf_host_file_close(int fd);
int64_t pf_host_file_size(int fd); /* or -errno */
ssize_t pf_host_file_read(int fd, void *buf, size_t size, uint64_t off);
ssize_t pf_host_file_write(int fd, const void *buf, size_t size, uint64_t off);

#endif
