/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies out of a mapping whose file is cut short.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"

static unsigned char *mapped(int *fd, size_t size)
{
	unsigned char *p;

	*fd = memfd_create("fault", 0);
	cr_assert_eq(ftruncate(*fd, (off_t)size), 0);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	return p;
}

Test(fault, copies)
{
	static unsigned char buf[4 * 4096];
	unsigned char *p;
	int fd;

	fault_init();
	p = mapped(&fd, sizeof(buf));
	memset(p, 'x', sizeof(buf));
	cr_expect_eq(fault_copy(buf, p, sizeof(buf)), 0);
	cr_expect_eq(memcmp(buf, p, sizeof(buf)), 0);
	cr_expect_eq(fault_copy(buf, p, 0), 0);
	cr_assert_eq(ftruncate(fd, 2 * 4096), 0);
	for (unsigned i = 0; i < 3; i++) {
		memset(buf, 0, sizeof(buf));
		cr_expect_eq(fault_copy(buf, p + 10, sizeof(buf) - 10), 2 * 4096);
		cr_expect_eq(buf[0], 'x');
		cr_expect_eq(buf[2 * 4096 - 11], 'x');
		cr_expect_eq(buf[2 * 4096 - 10], 0);
	}
	cr_expect_eq(fault_copy(buf, p + 3 * 4096, 1), 1);
	cr_expect_eq(fault_copy(p + 3 * 4096, buf, 5), 5);
}

/* Anybody else's SIGBUS still ends the process. */
Test(fault, others_die, .signal = SIGBUS)
{
	volatile unsigned char *p;
	int fd;

	fault_init();
	p = mapped(&fd, 4096);
	cr_assert_eq(ftruncate(fd, 0), 0);
	(void)*p;
}
