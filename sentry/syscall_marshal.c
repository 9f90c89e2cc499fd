/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table by which a platform carries arguments with a request, made from the syscall table.
 *
 * Left out, and so left to copy_in and copy_out: sizes that only memory tells, structs with
 * pointers inside, and calls whose memory others must see change while the call lasts.
 */
#include "base/lx_fcntl.h"
#include "sentry/syscall_table.h"

static struct pf_marshal g_table[PF_MARSHAL_CALLS];
static uint8_t g_argc[PF_MARSHAL_CALLS];
_Static_assert(PF_MARSHAL_CALLS == SYSCALL_MAX, "by number");

static uint8_t kind_of(const struct argdesc *d)
{
	const bool in = d->dir == DIR_IN, inout = d->dir == DIR_INOUT;

	if (d->kind == AK_FCNTLARG)
		return PF_M_IN_LOCK;
	if (d->dir == DIR_VALUE)
		return PF_M_NONE;
	switch (d->bytes) {
	case SZ_STRING:
		return in ? PF_M_STRING : PF_M_NONE;
	case SZ_FIXED:
		return in ? PF_M_IN : inout ? PF_M_INOUT : PF_M_OUT;
	case SZ_ARG:
		return in ? PF_M_IN_ARG : inout ? PF_M_INOUT_ARG : PF_M_OUT_ARG;
	case SZ_RET:
		return PF_M_OUT_ARG;
	default:
		return PF_M_NONE;
	}
}

void syscall_marshal_init(void)
{
	for (unsigned nr = 0; nr < SYSCALL_MAX; nr++) {
		const struct syscall_row *row = &g_syscalls[nr];
		unsigned n = 0;

		g_argc[nr] = row->name[0] ? row->nargs : 6;
		if (!row->name[0] || !syscall_served(row))
			continue;
		for (unsigned i = 0; i < row->nargs && n < PF_MARSHAL_ARGS; i++) {
			const struct argdesc *d = &row->args[i];
			const uint8_t kind = kind_of(d);

			if (kind == PF_M_NONE)
				continue;
			g_table[nr].arg[n].kind = kind;
			g_table[nr].arg[n].arg_link = (uint8_t)(i | (unsigned)d->link << 4);
			g_table[nr].arg[n].size =
				kind == PF_M_IN_LOCK ? sizeof(struct lx_flock) : d->size;
			n++;
		}
	}
	g_pf_marshal = g_table;
	g_pf_argc = g_argc;
}
