/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: system calls, on the mock platform: the whole kernel in one process.
 *
 *	make m=fuzz fuzz-build && build/fuzz/fuzz/fuzz_syscall -max_len=1024
 *tests/fuzz/corpus/syscall
 *
 * The kernel is booted once; its first process takes one input after the other, forks a child in a
 * fresh tmpfs for each, and kills all that is left of it after the child ends, or does not end
 *soon. An input is a list of calls: two bytes choose the call (of those that are built), then each
 * argument is one byte that says what to take, by the kind that the syscall table gives, and what
 * that needs. Descriptors and addresses that earlier calls returned can be named.
 *
 * Found are broken invariants (panic), what the sanitizers see, and a kernel that cannot get rid of
 * a process.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lx_fcntl.h"
#include "base/lx_signal.h"
#include "sentry/syscall_table.h"
#include "tests/unit/kernel_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define CALLS_MAX 64
#define WNOHANG_ 1
/* Where the input itself lies in the guest's memory, and where results go. */
#define SHOW GUEST_DATA
#define SHOW_MAX 4096u
#define ROOM (GUEST_DATA + 65536)
#define NAMES (GUEST_DATA + 131072)
#define NAME_STEP 64u

static const char *const g_names[] = {
	"a",
	"b",
	"dir",
	"dir/a",
	".",
	"..",
	"/",
	"link",
	"../x",
	"",
	"/tmp/a",
	"fifo",
	"/proc/self",
	"/proc/self/fd",
	"/dev",
	"a/b",
	"dir/..",
	"/proc/self/fd/0",
	"/proc/self/maps",
	"/proc/self/mem",
	"./dir",
	"/prog",
	"tmpfs",
	"user.x",
	"proc",
	"sysfs",
	"mqueue",
	"/q",
	"devpts",
	"dir/dir",
	"/proc/self/oom_score_adj",
	"/sys",
	"size=4k",
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const uint8_t *data; /* the input at hand; NULL: none */
	size_t size;
} g_input = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static uint16_t g_calls[SYSCALL_MAX];
static unsigned g_call_count;

/* ---- one input, in the child ---- */

struct reader {
	const uint8_t *at, *end;
	uint64_t result[8];
	unsigned results;
};

static uint64_t take(struct reader *r, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes && r->at < r->end; i++)
		v |= (uint64_t)*r->at++ << (8 * i);
	return v;
}

static uint64_t pointer(struct reader *r, uint8_t how)
{
	switch (how & 7) {
	case 0:
		return 0;
	case 1:
		return GUEST_BAD;
	case 2: /* the last bytes of what there is */
		return GUEST_DATA + GUEST_DATA_SIZE - take(r, 1) % 64;
	case 3:
		return r->result[take(r, 1) % ARRAY_SIZE(r->result)];
	case 4:
		return UINT64_MAX - take(r, 1);
	case 5:
		return ROOM + take(r, 1) * 8;
	default:
		return SHOW + take(r, 2) % SHOW_MAX;
	}
}

static uint64_t number(struct reader *r, uint8_t how)
{
	static const uint64_t odd[] = {
		0,          1,          2,         8,          4095,       4096,     65536,
		INT32_MAX,  UINT32_MAX, INT64_MAX, UINT64_MAX, 1ull << 32, 1u << 31, PF_GUEST_LIMIT,
		1ull << 47, 0x1000000,
	};

	switch (how & 3) {
	case 0:
		return take(r, 1);
	case 1:
		return odd[take(r, 1) % ARRAY_SIZE(odd)];
	case 2:
		return take(r, 4);
	default:
		return take(r, 8);
	}
}

static uint64_t argument(struct reader *r, const struct argdesc *d)
{
	const uint8_t how = (uint8_t)take(r, 1);

	/* Now and then what does not fit. */
	if (how >= 0xf0)
		return number(r, how);
	switch ((enum arg_kind)d->kind) {
	case AK_FD:
	case AK_DIRFD:
		return how < 0x40   ? (uint64_t)how % 12
		       : how < 0x80 ? r->result[how % ARRAY_SIZE(r->result)]
		       : how < 0xc0 ? (uint64_t)-100
				    : (uint64_t)how;
	case AK_PATH:
	case AK_STR:
		return how < 0xe0 ? NAMES + how % ARRAY_SIZE(g_names) * NAME_STEP : pointer(r, how);
	case AK_PID:
		/* Itself, a child, its group: never the process that feeds it. */
		return how < 0x80 ? 0 : r->result[how % ARRAY_SIZE(r->result)];
	case AK_FLAGS:
		return flagset_names((enum arg_flagset)d->set)[0].name ? ({
			const struct name_value *n = flagset_names((enum arg_flagset)d->set);
			uint64_t bits = take(r, 4), v = 0;

			for (unsigned i = 0; n[i].name && i < 32; i++)
				if (bits >> i & 1)
					v |= n[i].value;
			v;
		})
								       : number(r, how);
	case AK_ENUM: {
		const struct name_value *n = enum_names((enum arg_enum)d->set);
		unsigned count = 0;

		while (n[count].name)
			count++;
		return count ? n[how % count].value : number(r, how);
	}
	case AK_INT:
	case AK_UINT:
	case AK_LONG:
	case AK_ULONG:
	case AK_HEX:
	case AK_HEX32:
	case AK_MODE:
	case AK_OMODE:
	case AK_FMODE:
	case AK_SIG:
	case AK_UID:
	case AK_DEV:
	case AK_CLOCKID:
	case AK_IPCKEY:
		return number(r, how);
	default:
		return d->dir == DIR_VALUE && how < 0x60 ? number(r, how) : pointer(r, how);
	}
}

/* Calls that would end the child at once, or that C code of the mock cannot make. */
static bool left_out(unsigned nr)
{
	return nr == NR_exit || nr == NR_exit_group || nr == NR_rt_sigreturn;
}

static int grandchild(struct mock_thread *mt, void *arg UNUSED)
{
	(void)SYS(mt, sched_yield);
	return 3;
}

/* All rights of root's, but those to end or change the process that feeds it, or the root that it
 * lives in. */
static void be_another_user(struct mock_thread *mt)
{
	const uint64_t caps =
		LX_CAP_ALL &
		~(1ull << LX_CAP_KILL | 1ull << LX_CAP_SYS_PTRACE | 1ull << LX_CAP_SYS_RESOURCE |
		  1ull << LX_CAP_SETUID | 1ull << LX_CAP_SYS_NICE | 1ull << LX_CAP_SYS_ADMIN |
		  1ull << LX_CAP_DAC_OVERRIDE | 1ull << LX_CAP_FOWNER | 1ull << LX_CAP_CHOWN);
	const uint32_t head[2] = {0x20080522, 0};
	const uint32_t sets[6] = {(uint32_t)caps, (uint32_t)caps, 0, caps >> 32, caps >> 32, 0};

	BUG_ON(SYS(mt, setsid) < 0);
	BUG_ON(SYS(mt, prctl, 8 /* PR_SET_KEEPCAPS */, 1, 0, 0, 0) != 0);
	BUG_ON(SYS(mt, setresuid, 1000, 1000, 1000) != 0);
	put_mem(mt, ROOM, head, sizeof(head));
	put_mem(mt, ROOM + 64, sets, sizeof(sets));
	BUG_ON(SYS(mt, capset, ROOM, ROOM + 64) != 0);
}

static int run_input(struct mock_thread *mt, void *arg)
{
	struct reader r = *(struct reader *)arg;

	be_another_user(mt);

	put_mem(mt, SHOW, r.at, MIN((size_t)(r.end - r.at), (size_t)SHOW_MAX));
	for (unsigned i = 0; i < ARRAY_SIZE(g_names); i++)
		put_str(mt, NAMES + i * NAME_STEP, g_names[i]);
	for (unsigned n = 0; n < CALLS_MAX && r.at < r.end; n++) {
		const unsigned nr = g_calls[take(&r, 2) % g_call_count];
		const struct syscall_row *row = &g_syscalls[nr];
		uint64_t a[6] = {0};
		long v;

		for (unsigned i = 0; i < row->nargs; i++)
			a[i] = argument(&r, &row->args[i]);
		if (left_out(nr))
			continue;
		if (nr == NR_fork)
			v = mock_fork(mt, grandchild, NULL);
		else
			v = mock_syscall(mt, nr, a[0], a[1], a[2], a[3], a[4], a[5]);
		if (v > 0)
			r.result[r.results++ % ARRAY_SIZE(r.result)] = (uint64_t)v;
	}
	return 0;
}

/* ---- the process that feeds it ---- */

static void pause_us(struct mock_thread *mt, uint64_t us)
{
	const int64_t ts[2] = {0, (int64_t)us * 1000};

	put_mem(mt, ROOM, ts, sizeof(ts));
	(void)SYS(mt, nanosleep, ROOM, 0);
}

static int feeder(struct mock_thread *mt, void *arg UNUSED)
{
	static bool begun;

	/* What an input executes, or jumps to, is this program, too. */
	if (__atomic_exchange_n(&begun, true, __ATOMIC_ACQ_REL))
		return 4;
	for (;;) {
		struct reader r;
		long child, ended = 0;

		pthread_mutex_lock(&g_input.lock);
		while (!g_input.data)
			pthread_cond_wait(&g_input.changed, &g_input.lock);
		r = (struct reader){.at = g_input.data, .end = g_input.data + g_input.size};
		pthread_mutex_unlock(&g_input.lock);

		put_str(mt, NAMES, "/tmp");
		put_str(mt, NAMES + 64, "tmpfs");
		BUG_ON(SYS(mt, mount, NAMES + 64, NAMES, NAMES + 64, 0, 0) != 0);
		BUG_ON(SYS(mt, chdir, NAMES) != 0);
		child = mock_fork(mt, run_input, &r);
		BUG_ON(child <= 0);
		for (unsigned i = 0; i < 50 && ended == 0; i++) {
			ended = SYS(mt, wait4, child, 0, WNOHANG_, 0);
			if (ended == 0)
				pause_us(mt, 100);
		}
		put_str(mt, NAMES, "/");
		put_str(mt, NAMES + 64, "/tmp");
		BUG_ON(SYS(mt, chdir, NAMES) != 0);
		/* Whatever it has made: -1 is everybody but the caller and moat-init. */
		do {
			(void)SYS(mt, kill, -1, 9);
			ended = SYS(mt, wait4, -1, 0, 0, 0);
		} while (ended >= 0 || ended == -EINTR);
		while (SYS(mt, umount2, NAMES + 64, 2 /* MNT_DETACH */) == 0)
			continue;

		pthread_mutex_lock(&g_input.lock);
		g_input.data = NULL;
		pthread_cond_broadcast(&g_input.changed);
		pthread_mutex_unlock(&g_input.lock);
	}
	return 0;
}

static void *boot(void *arg UNUSED)
{
	(void)kernel_env_run(feeder, NULL);
	/* The first process never ends by itself. */
	panic("the feeder has ended");
	return NULL;
}

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
	pthread_t t;

	for (unsigned nr = 0; nr < SYSCALL_MAX; nr++) {
		if (syscall_row(nr) && syscall_served(&g_syscalls[nr]))
			g_calls[g_call_count++] = (uint16_t)nr;
	}
	BUG_ON(pthread_create(&t, NULL, boot, NULL) != 0);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of its own, since an over-long read shall be found here. */
	pthread_mutex_lock(&g_input.lock);
	g_input.data = data;
	g_input.size = size;
	pthread_cond_broadcast(&g_input.changed);
	while (g_input.data)
		pthread_cond_wait(&g_input.changed, &g_input.lock);
	pthread_mutex_unlock(&g_input.lock);
	return 0;
}
