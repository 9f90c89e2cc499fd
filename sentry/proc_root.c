/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root of procfs.
 */
#include "sentry/proc.h"

#include "sentry/ipc.h"
#include "sentry/syscall.h"
#include "sentry/uts.h"
#include "vfs/chrdev.h"
#include "vfs/flock.h"

#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROC_MAGIC 0x9fa0u
#define USER_HZ_NS ((uint64_t)NSEC_PER_SEC / 100)

static int show_version(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	text_printf(out, "Linux version %s (moat@moat) (gcc, ld) %s\n", UTS_RELEASE, UTS_VERSION);
	return 0;
}

static int show_uptime(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
		       struct textbuf *out)
{
	uint64_t up = (clock_mono_ns() - g_kernel.boot_mono_ns) / 10000000;

	text_printf(out, "%lu.%02lu %lu.%02lu\n", up / 100, up % 100, up / 100, up % 100);
	return 0;
}

static unsigned tasks_running(void)
{
	struct tgroup *init = g_kernel.init;
	unsigned n = 0;

	mutex_lock(&g_kernel.tasklist);
	for (struct tgroup *tg = tgroup_walk_locked(init, NULL); tg;
	     tg = tgroup_walk_locked(init, tg)) {
		struct task *t;

		tgroup_foreach_task (t, tg) {
			n += atomic_load(&t->in_guest);
		}
	}
	mutex_unlock(&g_kernel.tasklist);
	return n + 1; /* and the reader */
}

static int show_loadavg(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	unsigned running = tasks_running(), tasks;

	mutex_lock(&g_kernel.tasklist);
	tasks = g_kernel.tasks;
	mutex_unlock(&g_kernel.tasklist);
	text_printf(out, "0.00 0.00 0.00 %u/%u %d\n", running, tasks,
		    (int)g_kernel.total_forks + 2);
	return 0;
}

static int show_meminfo(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	uint64_t total = g_kernel.memory_bytes / 1024;
	uint64_t avail = kernel_memory_free() / 1024;
	static const char *const zero[] = {
		"SwapCached",   "Active",         "Inactive",    "Active(anon)", "Inactive(anon)",
		"Active(file)", "Inactive(file)", "Unevictable", "Mlocked",
	};
	static const char *const zero2[] = {
		"Dirty",        "Writeback",     "AnonPages",    "Mapped",     "Shmem",
		"KReclaimable", "Slab",          "SReclaimable", "SUnreclaim", "KernelStack",
		"PageTables",   "SecPageTables", "NFS_Unstable", "Bounce",     "WritebackTmp",
	};

	text_printf(out,
		    "MemTotal:       %8lu kB\nMemFree:        %8lu kB\nMemAvailable:   %8lu kB\n",
		    total, avail, avail);
	text_printf(out, "Buffers:        %8d kB\nCached:         %8d kB\n", 0, 0);
	for (size_t k = 0; k < ARRAY_SIZE(zero); k++)
		text_printf(out, "%s:%*s%8d kB\n", zero[k], (int)(15 - strlen(zero[k])), "", 0);
	text_printf(out, "SwapTotal:      %8d kB\nSwapFree:       %8d kB\n", 0, 0);
	for (size_t k = 0; k < ARRAY_SIZE(zero2); k++)
		text_printf(out, "%s:%*s%8d kB\n", zero2[k], (int)(15 - strlen(zero2[k])), "", 0);
	text_printf(
		out,
		"CommitLimit:    %8lu kB\nCommitted_AS:   %8d kB\nVmallocTotal:   34359738367 kB\n"
		"VmallocUsed:    %8d kB\nVmallocChunk:   %8d kB\nPercpu:         %8d kB\n"
		"HardwareCorrupted: %5d kB\nAnonHugePages:  %8d kB\nHugePages_Total:   "
		"%5d\nHugePages_Free:    %5d\n"
		"HugePages_Rsvd:    %5d\nHugePages_Surp:    %5d\nHugepagesize:       2048 "
		"kB\nHugetlb:        %8d kB\n",
		total / 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	return 0;
}

static int show_stat(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
		     struct textbuf *out)
{
	uint64_t up = (clock_mono_ns() - g_kernel.boot_mono_ns) / USER_HZ_NS;
	uint64_t boot =
		(clock_real_ns() - (clock_mono_ns() - g_kernel.boot_mono_ns)) / NSEC_PER_SEC;
	struct tgroup *init = g_kernel.init;
	uint64_t user = 0, sys = 0;

	mutex_lock(&g_kernel.tasklist);
	for (struct tgroup *tg = tgroup_walk_locked(init, NULL); tg;
	     tg = tgroup_walk_locked(init, tg)) {
		struct rusage_sum s;

		tgroup_rusage_locked(tg, &s);
		user += s.user_ns + tg->reaped.user_ns;
		sys += s.sys_ns + tg->reaped.sys_ns;
	}
	mutex_unlock(&g_kernel.tasklist);
	user /= USER_HZ_NS;
	sys /= USER_HZ_NS;
	uint64_t all = up * g_kernel.cpus;
	uint64_t idle = all > user + sys ? all - user - sys : 0;

	text_printf(out, "cpu  %lu 0 %lu %lu 0 0 0 0 0 0\n", user, sys, idle);
	for (unsigned k = 0; k < g_kernel.cpus; k++)
		text_printf(out, "cpu%u %lu 0 %lu %lu 0 0 0 0 0 0\n", k, user / g_kernel.cpus,
			    sys / g_kernel.cpus, idle / g_kernel.cpus);
	text_printf(out,
		    "intr 0\nctxt 0\nbtime %lu\nprocesses %lu\nprocs_running %u\nprocs_blocked "
		    "0\nsoftirq 0\n",
		    boot, g_kernel.total_forks + 1, tasks_running());
	return 0;
}

/* What CPUID says, by leaf, register and bit, under the names that Linux prints. */
static const struct {
	uint32_t leaf, sub;
	uint8_t reg, bit; /* reg: 0 eax … 3 edx */
	const char *name;
} g_cpu_flags[] = {
	{1, 0, 3, 0, "fpu"},
	{1, 0, 3, 4, "tsc"},
	{1, 0, 3, 8, "cx8"},
	{1, 0, 3, 15, "cmov"},
	{1, 0, 3, 19, "clflush"},
	{1, 0, 3, 23, "mmx"},
	{1, 0, 3, 24, "fxsr"},
	{1, 0, 3, 25, "sse"},
	{1, 0, 3, 26, "sse2"},
	{1, 0, 3, 28, "ht"},
	{0x80000001u, 0, 3, 11, "syscall"},
	{0x80000001u, 0, 3, 20, "nx"},
	{0x80000001u, 0, 3, 27, "rdtscp"},
	{0x80000001u, 0, 3, 29, "lm"},
	{1, 0, 2, 0, "pni"},
	{1, 0, 2, 1, "pclmulqdq"},
	{1, 0, 2, 9, "ssse3"},
	{1, 0, 2, 12, "fma"},
	{1, 0, 2, 13, "cx16"},
	{1, 0, 2, 19, "sse4_1"},
	{1, 0, 2, 20, "sse4_2"},
	{1, 0, 2, 22, "movbe"},
	{1, 0, 2, 23, "popcnt"},
	{1, 0, 2, 25, "aes"},
	{1, 0, 2, 26, "xsave"},
	{1, 0, 2, 28, "avx"},
	{1, 0, 2, 29, "f16c"},
	{1, 0, 2, 30, "rdrand"},
	{0x80000001u, 0, 2, 0, "lahf_lm"},
	{0x80000001u, 0, 2, 5, "abm"},
	{0x80000001u, 0, 2, 6, "sse4a"},
	{7, 0, 1, 3, "bmi1"},
	{7, 0, 1, 5, "avx2"},
	{7, 0, 1, 8, "bmi2"},
	{7, 0, 1, 9, "erms"},
	{7, 0, 1, 16, "avx512f"},
	{7, 0, 1, 17, "avx512dq"},
	{7, 0, 1, 18, "rdseed"},
	{7, 0, 1, 19, "adx"},
	{7, 0, 1, 21, "avx512ifma"},
	{7, 0, 1, 23, "clflushopt"},
	{7, 0, 1, 24, "clwb"},
	{7, 0, 1, 28, "avx512cd"},
	{7, 0, 1, 29, "sha_ni"},
	{7, 0, 1, 30, "avx512bw"},
	{7, 0, 1, 31, "avx512vl"},
	{7, 0, 2, 1, "avx512vbmi"},
	{7, 0, 2, 8, "gfni"},
	{7, 0, 2, 9, "vaes"},
	{7, 0, 2, 10, "vpclmulqdq"},
	{7, 0, 2, 14, "avx512_vpopcntdq"},
	{0xd, 1, 0, 0, "xsaveopt"},
	{0xd, 1, 0, 1, "xsavec"},
};

static bool cpu_has(size_t k)
{
	uint32_t r[4];

	if (!__get_cpuid_count(g_cpu_flags[k].leaf, g_cpu_flags[k].sub, &r[0], &r[1], &r[2], &r[3]))
		return false;
	return r[g_cpu_flags[k].reg] >> g_cpu_flags[k].bit & 1;
}

static void cpu_names(char vendor[13], char model[49])
{
	uint32_t r[4];

	memset(vendor, 0, 13);
	memset(model, 0, 49);
	if (__get_cpuid(0, &r[0], &r[1], &r[2], &r[3])) {
		memcpy(vendor, &r[1], 4);
		memcpy(vendor + 4, &r[3], 4);
		memcpy(vendor + 8, &r[2], 4);
	}
	for (unsigned k = 0; k < 3; k++) {
		if (__get_cpuid(0x80000002u + k, &r[0], &r[1], &r[2], &r[3]))
			memcpy(model + 16 * k, r, 16);
	}
}

static int show_cpuinfo(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	uint32_t eax = 0, ebx, ecx, edx;
	char vendor[13], model[49];
	unsigned family, number;

	cpu_names(vendor, model);
	(void)__get_cpuid(1, &eax, &ebx, &ecx, &edx);
	family = (eax >> 8 & 15) + ((eax >> 8 & 15) == 15 ? eax >> 20 & 255 : 0);
	number = (eax >> 4 & 15) | (eax >> 12 & 0xf0);
	for (unsigned cpu = 0; cpu < g_kernel.cpus; cpu++) {
		text_printf(out,
			    "processor\t: %u\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: "
			    "%u\nmodel name\t: %s\n"
			    "stepping\t: %u\nmicrocode\t: 0x0\ncpu MHz\t\t: 2000.000\ncache "
			    "size\t: 512 KB\n"
			    "physical id\t: 0\nsiblings\t: %u\ncore id\t\t: %u\ncpu cores\t: "
			    "%u\napicid\t\t: %u\n"
			    "initial apicid\t: %u\nfpu\t\t: yes\nfpu_exception\t: yes\ncpuid "
			    "level\t: 13\nwp\t\t: yes\n"
			    "flags\t\t:",
			    cpu, vendor, family, number, model, eax & 15, g_kernel.cpus, cpu,
			    g_kernel.cpus, cpu, cpu);
		for (size_t k = 0; k < ARRAY_SIZE(g_cpu_flags); k++) {
			if (cpu_has(k))
				text_printf(out, " %s", g_cpu_flags[k].name);
		}
		text_printf(out, "\nbugs\t\t:\nbogomips\t: 4000.00\nclflush size\t: "
				 "64\ncache_alignment\t: 64\n"
				 "address sizes\t: 48 bits physical, 48 bits virtual\npower "
				 "management:\n\n");
	}
	return 0;
}

static int show_filesystems(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			    struct textbuf *out)
{
	const struct fs_type *t;

	for (unsigned k = 0; (t = fs_type_at(k)); k++)
		text_printf(out, "%s\t%s\n", t->nodev ? "nodev" : "", t->name);
	return 0;
}

static int show_devices(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	const struct chrdev *dev;
	uint32_t major, last = UINT32_MAX;

	text_printf(out, "Character devices:\n");
	for (unsigned k = 0; chrdev_at(k, &major, &dev); k++) {
		if (major == last)
			continue;
		last = major;
		text_printf(out, "%3u %s\n", major, major == 1 ? "mem" : dev->name);
	}
	text_printf(out, "\nBlock devices:\n");
	return 0;
}

static int show_cmdline(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	text_printf(out, "moat\n");
	return 0;
}

static int show_swaps(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
		      struct textbuf *out)
{
	text_printf(out, "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n");
	return 0;
}

static int show_partitions(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			   struct textbuf *out)
{
	text_printf(out, "major minor  #blocks  name\n\n");
	return 0;
}

static int show_vmstat(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
		       struct textbuf *out)
{
	static const char *const names[] = {"nr_free_pages", "nr_dirty", "nr_writeback", "pgpgin",
					    "pgpgout",       "pswpin",   "pswpout",      "pgfault",
					    "pgmajfault",    "oom_kill"};

	for (size_t k = 0; k < ARRAY_SIZE(names); k++)
		text_printf(out, "%s %lu\n", names[k],
			    k == 0 ? kernel_memory_free() / MOAT_PAGE_SIZE : 0ul);
	return 0;
}

static void show_lock(struct textbuf *out, unsigned nr, const struct lock_info *l)
{
	static const char *const kinds[] = {[LOCK_INFO_POSIX] = "POSIX ",
					    [LOCK_INFO_OFD] = "OFDLCK",
					    [LOCK_INFO_FLOCK] = "FLOCK "};

	text_printf(out, "%u: %s%s ADVISORY  %s %d %02x:%02x:%lu %ld ", nr, l->blocked ? "-> " : "",
		    kinds[l->kind], l->write ? "WRITE" : "READ ", l->pid, lx_dev_major(l->dev),
		    lx_dev_minor(l->dev), l->ino, l->start);
	if (l->end == INT64_MAX)
		text_printf(out, "EOF\n");
	else
		text_printf(out, "%ld\n", l->end);
}

static int show_locks(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
		      struct textbuf *out)
{
	size_t max = locks_list(NULL, 0) + 16, n;
	struct lock_info *l = mem_calloc(max, sizeof(*l));
	unsigned nr = 0;

	if (!l)
		return -ENOMEM;
	n = MIN(locks_list(l, max), max);
	for (size_t k = 0; k < n; k++) {
		nr += !l[k].blocked;
		show_lock(out, nr, &l[k]);
	}
	mem_free(l);
	return 0;
}

static int show_empty(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
		      struct textbuf *out UNUSED)
{
	return 0;
}

/* "self" and "thread-self" */
static ssize_t self_readlink(struct inode *i UNUSED, void *obj UNUSED, char *buf, size_t size)
{
	struct task *t = current_task();
	char text[32];
	int n;

	if (!t)
		return -ENOENT;
	n = snprintf(text, sizeof(text), "%d", t->tg->tgid);
	memcpy(buf, text, MIN((size_t)n, size));
	return (ssize_t)MIN((size_t)n, size);
}

static ssize_t thread_self_readlink(struct inode *i UNUSED, void *obj UNUSED, char *buf,
				    size_t size)
{
	struct task *t = current_task();
	char text[64];
	int n;

	if (!t)
		return -ENOENT;
	n = snprintf(text, sizeof(text), "%d/task/%d", t->tg->tgid, t->tid);
	memcpy(buf, text, MIN((size_t)n, size));
	return (ssize_t)MIN((size_t)n, size);
}

/* A process or thread by its number. */
static int root_lookup(struct inode *dir UNUSED, void *obj UNUSED, const char *name, size_t len,
		       const struct pnode **child, void **child_obj, uint64_t *ino)
{
	int32_t nr = 0;
	struct pid *p;
	bool live;

	if (len == 0 || len > 7 || name[0] == '0')
		return -ENOENT;
	for (size_t k = 0; k < len; k++) {
		if (name[k] < '0' || name[k] > '9')
			return -ENOENT;
		nr = nr * 10 + (name[k] - '0');
	}
	p = pid_find(nr);
	if (!p)
		return -ENOENT;
	mutex_lock(&g_kernel.tasklist);
	live = p->task != NULL;
	mutex_unlock(&g_kernel.tasklist);
	if (!live) {
		pid_put(p);
		return -ENOENT;
	}
	*child = &g_proc_pid_node;
	*child_obj = p;
	*ino = 0;
	return 0;
}

static int root_iterate(struct inode *dir UNUSED, void *obj UNUSED, struct dir_ctx *ctx,
			int64_t *off)
{
	struct tgroup *tg;

	/* The offset is the number of the next process to show. */
	while ((tg = tgroup_next((int32_t)*off))) {
		char name[16];
		int32_t nr = tg->tgid;
		int n = snprintf(name, sizeof(name), "%d", nr);
		bool more = ctx->emit(ctx, name, (size_t)n, 0x100000u + (uint64_t)nr, LX_DT_DIR,
				      nr + 1);

		tgroup_put(tg);
		if (!more)
			return 0;
		*off = nr + 1;
	}
	return 0;
}

#define SHOW(fn) (&(const struct pnode_ops){.show = (fn)})

static ssize_t mounts_readlink(struct inode *i UNUSED, void *obj UNUSED, char *buf, size_t size)
{
	memcpy(buf, "self/mounts", MIN(size, (size_t)11));
	return (ssize_t)MIN(size, (size_t)11);
}

static ssize_t net_readlink(struct inode *i UNUSED, void *obj UNUSED, char *buf, size_t size)
{
	memcpy(buf, "self/net", MIN(size, (size_t)8));
	return (ssize_t)MIN(size, (size_t)8);
}

static const struct pnode g_empty_children[] = {{.name = NULL}};

static int show_sysvipc(struct vfs_ctx *c UNUSED, struct inode *i, void *obj UNUSED,
			struct textbuf *out)
{
	const char *name = pnode_of(i)->name;

	if (strcmp(name, "shm") == 0)
		ipc_shm_show(out);
	else if (strcmp(name, "sem") == 0)
		ipc_sem_show(out);
	else
		ipc_msg_show(out);
	return 0;
}

static const struct pnode g_sysvipc_children[] = {
	FILE_NODE("msg", 0444, SHOW(show_sysvipc)),
	FILE_NODE("sem", 0444, SHOW(show_sysvipc)),
	FILE_NODE("shm", 0444, SHOW(show_sysvipc)),
	{.name = NULL},
};

static const struct pnode g_root_children[] = {
	LINK_NODE("self", (&(const struct pnode_ops){.readlink = self_readlink})),
	LINK_NODE("thread-self", (&(const struct pnode_ops){.readlink = thread_self_readlink})),
	LINK_NODE("mounts", (&(const struct pnode_ops){.readlink = mounts_readlink})),
	LINK_NODE("net", (&(const struct pnode_ops){.readlink = net_readlink})),
	FILE_NODE("cmdline", 0444, SHOW(show_cmdline)),
	FILE_NODE("cpuinfo", 0444, SHOW(show_cpuinfo)),
	FILE_NODE("crypto", 0444, SHOW(show_empty)),
	FILE_NODE("devices", 0444, SHOW(show_devices)),
	FILE_NODE("diskstats", 0444, SHOW(show_empty)),
	FILE_NODE("filesystems", 0444, SHOW(show_filesystems)),
	FILE_NODE("interrupts", 0444, SHOW(show_empty)),
	FILE_NODE("loadavg", 0444, SHOW(show_loadavg)),
	FILE_NODE("locks", 0444, SHOW(show_locks)),
	FILE_NODE("meminfo", 0444, SHOW(show_meminfo)),
	FILE_NODE("modules", 0444, SHOW(show_empty)),
	FILE_NODE("partitions", 0444, SHOW(show_partitions)),
	FILE_NODE("stat", 0444, SHOW(show_stat)),
	FILE_NODE("swaps", 0444, SHOW(show_swaps)),
	FILE_NODE("uptime", 0444, SHOW(show_uptime)),
	FILE_NODE("version", 0444, SHOW(show_version)),
	FILE_NODE("vmstat", 0444, SHOW(show_vmstat)),
	DIR_NODE("bus", 0555, NULL, g_empty_children),
	DIR_NODE("driver", 0555, NULL, g_empty_children),
	DIR_NODE("sys", 0555, NULL, g_proc_sys_children),
	DIR_NODE("sysvipc", 0555, NULL, g_sysvipc_children),
	{.name = NULL},
};

static void root_attr(struct inode *i UNUSED, void *obj UNUSED, struct kstat *st)
{
	mutex_lock(&g_kernel.tasklist);
	st->nlink += g_kernel.tgroups;
	mutex_unlock(&g_kernel.tasklist);
}

static const struct pnode_ops g_root_ops = {
	.lookup = root_lookup, .iterate = root_iterate, .attr = root_attr};
static const struct pnode g_root = {.name = "",
				    .mode = LX_S_IFDIR | 0555,
				    .ops = &g_root_ops,
				    .children = g_root_children,
				    .ino = 1};

static const struct fs_type g_proc_type;

static int proc_mount(const struct fs_type *type, struct vfs_ctx *c UNUSED,
		      const char *source UNUSED, const char *data UNUSED, unsigned flags UNUSED,
		      struct super **out)
{
	int r = pseudofs_new(type, &g_root, PROC_MAGIC, out);

	if (r == 0)
		(*out)->flags |= SUPER_HARD_ENOENT;
	return r;
}

struct pid *proc_dir_pid(const struct inode *i)
{
	if (i->super->type != &g_proc_type || pnode_of(i) != &g_proc_pid_node)
		return NULL;
	return pnode_obj(i);
}

static const struct fs_type g_proc_type = {
	.name = "proc", .mount = proc_mount, .user_mountable = true, .nodev = true};

void proc_register(void)
{
	fs_type_register(&g_proc_type);
}
