/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vDSO's image and the clock page, ready to be mapped.
 */
#include "loader/vdso.h"

#include <errno.h>

int vdso_init(void)
{
	return -ENOSYS;
}

bool vdso_available(void)
{
	return false;
}

uint64_t vdso_text_size(void)
{
	return 0;
}

uint64_t vdso_vvar_size(void)
{
	return MOAT_PAGE_SIZE;
}

int vdso_text_fd(void)
{
	return -1;
}

int vdso_vvar_fd(void)
{
	return -1;
}

uint64_t vdso_text_key(void)
{
	return 0;
}

uint64_t vdso_vvar_key(void)
{
	return 0;
}
