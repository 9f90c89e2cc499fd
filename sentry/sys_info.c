/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the system is: uname, sysinfo, host name; random bytes; the small per-thread settings of
 * arch_prctl and personality.
 */
#include "sentry/answers.h"
#include "sentry/process.h"
#include "sentry/syscall.h"
#include "sentry/uts.h"

#include "base/hash.h"

#include <errno.h>
#include <string.h>

struct lx_utsname {
	char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65];
};
_Static_assert(sizeof(struct lx_utsname) == 390, "struct new_utsname");

#define PER_LINUX32_ 0x0008u
#define PER_MASK_ 0x00ffu
#define UNAME26_ 0x0020000u

void task_uname(struct task *t, void *out)
{
	struct lx_utsname *u = out;

	memset(u, 0, sizeof(*u));
	strcpy(u->sysname, "Linux");
	strcpy(u->release, UTS_RELEASE);
	strcpy(u->version, UTS_VERSION);
	strcpy(u->machine, (t->personality & PER_MASK_) == PER_LINUX32_ ? "i686" : "x86_64");
	mutex_lock(&g_kernel.uts);
	memcpy(u->nodename, g_kernel.hostname, sizeof(u->nodename));
	memcpy(u->domainname, g_kernel.domainname, sizeof(u->domainname));
	mutex_unlock(&g_kernel.uts);
	if (t->personality & UNAME26_)
		strcpy(u->release, "2.6.46");
}

long sys_uname(struct task *t, gaddr_t name)
{
	struct lx_utsname u;

	task_uname(t, &u);
	return copy_out(t, name, &u, sizeof(u));
}

static long set_name(struct task *t, gaddr_t name, int len, char *dst)
{
	char buf[65] = {0};

	if (!cred_capable(t->vctx.cred, LX_CAP_SYS_ADMIN))
		return -EPERM;
	if (len < 0 || len > 64)
		return -EINVAL;
	if (copy_in(t, buf, name, (size_t)len))
		return -EFAULT;
	mutex_lock(&g_kernel.uts);
	memcpy(dst, buf, sizeof(buf));
	mutex_unlock(&g_kernel.uts);
	answers_stale();
	return 0;
}

long sys_sethostname(struct task *t, gaddr_t name, int len)
{
	return set_name(t, name, len, g_kernel.hostname);
}

long sys_setdomainname(struct task *t, gaddr_t name, int len)
{
	return set_name(t, name, len, g_kernel.domainname);
}

struct lx_sysinfo {
	int64_t uptime;
	uint64_t loads[3];
	uint64_t totalram, freeram, sharedram, bufferram, totalswap, freeswap;
	uint16_t procs, pad;
	uint64_t totalhigh, freehigh;
	uint32_t mem_unit;
};
_Static_assert(sizeof(struct lx_sysinfo) == 112, "struct sysinfo");

long sys_sysinfo(struct task *t, gaddr_t info)
{
	struct lx_sysinfo s = {
		.uptime = (int64_t)((clock_mono_ns() - g_kernel.boot_mono_ns) / NSEC_PER_SEC),
		.totalram = g_kernel.memory_bytes,
		.freeram = kernel_memory_free(),
		.mem_unit = 1,
	};

	mutex_lock(&g_kernel.tasklist);
	s.procs = (uint16_t)MIN(g_kernel.tasks, 65535u);
	mutex_unlock(&g_kernel.tasklist);
	return copy_out(t, info, &s, sizeof(s));
}

#define GRND_NONBLOCK_ 1u
#define GRND_RANDOM_ 2u
#define GRND_INSECURE_ 4u

long sys_getrandom(struct task *t, gaddr_t buf, uint64_t count, unsigned flags)
{
	unsigned char chunk[4096];
	uint64_t done = 0;

	if (flags & ~(GRND_NONBLOCK_ | GRND_RANDOM_ | GRND_INSECURE_))
		return -EINVAL;
	if ((flags & (GRND_RANDOM_ | GRND_INSECURE_)) == (GRND_RANDOM_ | GRND_INSECURE_))
		return -EINVAL;
	count = MIN(count, UIO_MAX_COUNT);
	while (done < count) {
		size_t n = MIN(count - done, (uint64_t)sizeof(chunk));
		ssize_t r;

		guest_random_bytes(GUEST_RANDOM_DATA, chunk, n);
		r = copy_out_partial(t, GADDR(buf.a + done), chunk, n);
		if (r <= 0)
			return done ? (long)done : -EFAULT;
		done += (uint64_t)r;
		if ((size_t)r < n)
			break;
		if (done >= sizeof(chunk) && signal_pending(t))
			break;
	}
	memset(chunk, 0, sizeof(chunk));
	return (long)done;
}

long sys_personality(struct task *t, unsigned persona)
{
	uint32_t old = t->personality;

	if (persona != 0xffffffffu) {
		t->personality = persona;
		answers_stale();
	}
	return old;
}

#define ARCH_SET_GS_ 0x1001
#define ARCH_SET_FS_ 0x1002
#define ARCH_GET_FS_ 0x1003
#define ARCH_GET_GS_ 0x1004
#define ARCH_GET_CPUID_ 0x1011
#define ARCH_SET_CPUID_ 0x1012

long sys_arch_prctl(struct task *t, int option, uint64_t addr)
{
	uint64_t v;

	/* A guest can have changed them without a call. */
	if (option >= ARCH_SET_GS_ && option <= ARCH_GET_GS_ && task_need_regs(t) < 0)
		return -ESRCH;
	switch (option) {
	case ARCH_SET_FS_:
	case ARCH_SET_GS_:
		if (addr >= PF_GUEST_LIMIT)
			return -EPERM;
		if (option == ARCH_SET_FS_)
			t->regs.fs_base = addr;
		else
			t->regs.gs_base = addr;
		return 0;
	case ARCH_GET_FS_:
	case ARCH_GET_GS_:
		v = option == ARCH_GET_FS_ ? t->regs.fs_base : t->regs.gs_base;
		return copy_out(t, GADDR(addr), &v, sizeof(v));
	case ARCH_GET_CPUID_:
		return 1;
	case ARCH_SET_CPUID_:
		return -ENODEV; /* no CPUID faulting */
	default:
		return -EINVAL;
	}
}
