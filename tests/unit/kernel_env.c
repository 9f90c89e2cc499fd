/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What guest code of tests on the mock platform uses. See kernel_env.h.
 */
#include <criterion/criterion.h>
#include <string.h>
#include "base/lx_fcntl.h"
#include "tests/unit/kernel_env.h"

void make_file(struct mock_thread *mt, const char *path, const char *content)
{
	uint64_t name = GUEST_DATA + GUEST_DATA_SIZE - 8192, data = name + 4096;
	long fd;

	put_str(mt, name, path);
	put_str(mt, data, content);
	fd = SYS(mt, open, name, LX_O_CREAT | LX_O_TRUNC | LX_O_WRONLY, 0644);
	cr_expect_geq(fd, 0, "%s: %ld", path, fd);
	cr_expect_eq(SYS(mt, write, fd, data, strlen(content)), (long)strlen(content));
	cr_expect_eq(SYS(mt, close, fd), 0);
}
