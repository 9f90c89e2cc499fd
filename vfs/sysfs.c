/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sysfs: processors, memory nodes, huge pages, the loopback interface. See vfs/sysfs.h.
 *
 * Theory of operation: tables of struct pnode. A file's data says which function makes its text and
 * with which argument; the object of cpuN and all below it is N + 1, as a pointer, so that 0 is "no
 * object".
 *
 * One package, one node; CPUs that share a core have neighbouring numbers.
 *
 * References: Linux's Documentation/ABI/testing/sysfs-devices-system-cpu, sysfs-class-net, numa(7).
 */
#include <errno.h>
#include <string.h>
#include "vfs/pseudofs.h"
#include "vfs/sysfs.h"

#define SYSFS_MAGIC 0x62656572u

#define DIR_MODE (LX_S_IFDIR | 0755)
#define FILE_MODE (LX_S_IFREG | 0444)
#define LINK_MODE (LX_S_IFLNK | 0777)

static struct sysfs_params g_params = {
	.cpus = 1, .threads_per_core = 1, .mem_total = (uint64_t)1 << 30};

void sysfs_configure(const struct sysfs_params *p)
{
	g_params = *p;
	g_params.cpus = MIN(MAX(p->cpus, 1u), SYSFS_CPUS_MAX);
	g_params.threads_per_core = MIN(MAX(p->threads_per_core, 1u), g_params.cpus);
	if (!p->cache_line)
		g_params.cache_line = 64;
	if (!p->l1d)
		g_params.l1d = 32 << 10;
	if (!p->l1i)
		g_params.l1i = 32 << 10;
	if (!p->l2)
		g_params.l2 = 1 << 20;
	if (!p->l3)
		g_params.l3 = 32 << 20;
}

/* ---- files ---- */

struct sysfs_attr {
	/* @cpu: whose directory the file stands in; 0 outside of those. */
	void (*fn)(unsigned cpu, unsigned arg, struct textbuf *out);
	unsigned arg;
	const char *text; /* with fn NULL: the content */
};

static int show_attr(struct vfs_ctx *c, struct inode *i, void *obj, struct textbuf *out)
{
	const struct sysfs_attr *a = pnode_of(i)->data;
	unsigned cpu = obj ? (unsigned)(uintptr_t)obj - 1 : 0;

	(void)c;
	if (a->fn)
		a->fn(cpu, a->arg, out);
	else
		text_append(out, a->text, strlen(a->text));
	return 0;
}

static const struct pnode_ops g_attr_ops = {.show = show_attr};

#define FILE_FN(n, f, a)                                            \
	{                                                           \
		.name = (n), .mode = FILE_MODE, .ops = &g_attr_ops, \
		.data = &(const struct sysfs_attr)                  \
		{                                                   \
			(f), (a), NULL                              \
		}                                                   \
	}
#define FILE_TEXT(n, t)                                             \
	{                                                           \
		.name = (n), .mode = FILE_MODE, .ops = &g_attr_ops, \
		.data = &(const struct sysfs_attr)                  \
		{                                                   \
			NULL, 0, (t)                                \
		}                                                   \
	}
#define DIR_NODE(n, c)                                         \
	{                                                      \
		.name = (n), .mode = DIR_MODE, .children = (c) \
	}
#define LINK_NODE(n, t)                                     \
	{                                                   \
		.name = (n), .mode = LINK_MODE, .data = (t) \
	}
#define END_NODE             \
	{                    \
		.name = NULL \
	}

static const struct pnode g_empty[] = {END_NODE};

/* ---- sets of CPUs ---- */

struct cpu_range {
	unsigned first, last;
};

static void put_list(struct textbuf *out, struct cpu_range r)
{
	if (r.first == r.last)
		text_printf(out, "%u\n", r.first);
	else
		text_printf(out, "%u-%u\n", r.first, r.last);
}

/* Groups of 32 bits, the highest first, as many digits as there are CPUs for. */
static void put_mask(struct textbuf *out, struct cpu_range r)
{
	unsigned bits = g_params.cpus, groups = (bits + 31) / 32;

	for (unsigned g = groups; g-- > 0;) {
		unsigned width = g == groups - 1 && bits % 32 ? (bits % 32 + 3) / 4 : 8;
		uint32_t mask = 0;

		for (unsigned b = 0; b < 32; b++) {
			unsigned cpu = g * 32 + b;

			if (cpu >= r.first && cpu <= r.last)
				mask |= (uint32_t)1 << b;
		}
		text_printf(out, "%0*x%s", (int)width, mask, g ? "," : "\n");
	}
}

static struct cpu_range all_cpus(void)
{
	return (struct cpu_range){0, g_params.cpus - 1};
}

static struct cpu_range core_cpus(unsigned cpu)
{
	unsigned n = g_params.threads_per_core, first = cpu - cpu % n;

	return (struct cpu_range){first, MIN(first + n, g_params.cpus) - 1};
}

static void show_all_list(unsigned cpu, unsigned arg, struct textbuf *out)
{
	(void)cpu;
	(void)arg;
	put_list(out, all_cpus());
}

static void show_all_mask(unsigned cpu, unsigned arg, struct textbuf *out)
{
	(void)cpu;
	(void)arg;
	put_mask(out, all_cpus());
}

static void show_core_list(unsigned cpu, unsigned arg, struct textbuf *out)
{
	(void)arg;
	put_list(out, core_cpus(cpu));
}

static void show_core_mask(unsigned cpu, unsigned arg, struct textbuf *out)
{
	(void)arg;
	put_mask(out, core_cpus(cpu));
}

static void show_core_id(unsigned cpu, unsigned arg, struct textbuf *out)
{
	(void)arg;
	text_printf(out, "%u\n", cpu / g_params.threads_per_core);
}

static void show_kernel_max(unsigned cpu, unsigned arg, struct textbuf *out)
{
	(void)cpu;
	(void)arg;
	text_printf(out, "%u\n", SYSFS_CPUS_MAX - 1);
}

static void show_smt(unsigned cpu, unsigned arg, struct textbuf *out)
{
	bool on = g_params.threads_per_core > 1;

	(void)cpu;
	text_printf(out, "%s\n", arg ? (on ? "on" : "notsupported") : (on ? "1" : "0"));
}

/* ---- caches ---- */

struct cache {
	unsigned level;
	const char *type;
	unsigned ways;
};
static const struct cache g_caches[] = {
	{1, "Data", 8}, {1, "Instruction", 8}, {2, "Unified", 16}, {3, "Unified", 16}};

enum cache_file {
	CF_LEVEL,
	CF_TYPE,
	CF_SIZE,
	CF_LINE,
	CF_SETS,
	CF_WAYS,
	CF_LIST,
	CF_MAP,
	CF_ID,
	CF_PARTITION
};

static void show_cache(unsigned cpu, unsigned arg, struct textbuf *out)
{
	const uint32_t sizes[] = {g_params.l1d, g_params.l1i, g_params.l2, g_params.l3};
	unsigned k = arg >> 8;
	const struct cache *c = &g_caches[k];
	uint32_t size = sizes[k], line = MAX(g_params.cache_line, 1u);
	struct cpu_range shared = c->level == 3 ? all_cpus() : core_cpus(cpu);

	switch ((enum cache_file)(arg & 0xff)) {
	case CF_LEVEL:
		text_printf(out, "%u\n", c->level);
		break;
	case CF_TYPE:
		text_printf(out, "%s\n", c->type);
		break;
	case CF_SIZE:
		text_printf(out, "%uK\n", size >> 10);
		break;
	case CF_LINE:
		text_printf(out, "%u\n", line);
		break;
	case CF_SETS:
		text_printf(out, "%u\n", size / (line * c->ways));
		break;
	case CF_WAYS:
		text_printf(out, "%u\n", c->ways);
		break;
	case CF_LIST:
		put_list(out, shared);
		break;
	case CF_MAP:
		put_mask(out, shared);
		break;
	case CF_ID:
		text_printf(out, "%u\n", c->level == 3 ? 0 : cpu / g_params.threads_per_core);
		break;
	case CF_PARTITION:
		text_printf(out, "1\n");
		break;
	}
}

#define CACHE_NODES(k)                                                                   \
	static const struct pnode g_cache##k[] = {                                       \
		FILE_FN("coherency_line_size", show_cache, (k) << 8 | CF_LINE),          \
		FILE_FN("id", show_cache, (k) << 8 | CF_ID),                             \
		FILE_FN("level", show_cache, (k) << 8 | CF_LEVEL),                       \
		FILE_FN("number_of_sets", show_cache, (k) << 8 | CF_SETS),               \
		FILE_FN("physical_line_partition", show_cache, (k) << 8 | CF_PARTITION), \
		FILE_FN("shared_cpu_list", show_cache, (k) << 8 | CF_LIST),              \
		FILE_FN("shared_cpu_map", show_cache, (k) << 8 | CF_MAP),                \
		FILE_FN("size", show_cache, (k) << 8 | CF_SIZE),                         \
		FILE_FN("type", show_cache, (k) << 8 | CF_TYPE),                         \
		FILE_FN("ways_of_associativity", show_cache, (k) << 8 | CF_WAYS),        \
		END_NODE,                                                                \
	}
CACHE_NODES(0);
CACHE_NODES(1);
CACHE_NODES(2);
CACHE_NODES(3);

/* ---- /sys/devices/system/cpu ---- */

static const struct pnode g_topology[] = {
	FILE_FN("core_cpus", show_core_mask, 0),
	FILE_FN("core_cpus_list", show_core_list, 0),
	FILE_FN("core_id", show_core_id, 0),
	FILE_FN("core_siblings", show_all_mask, 0),
	FILE_FN("core_siblings_list", show_all_list, 0),
	FILE_FN("die_cpus", show_all_mask, 0),
	FILE_FN("die_cpus_list", show_all_list, 0),
	FILE_TEXT("die_id", "0\n"),
	FILE_FN("package_cpus", show_all_mask, 0),
	FILE_FN("package_cpus_list", show_all_list, 0),
	FILE_TEXT("physical_package_id", "0\n"),
	FILE_FN("thread_siblings", show_core_mask, 0),
	FILE_FN("thread_siblings_list", show_core_list, 0),
	END_NODE,
};

static const struct pnode g_cache_dir[] = {
	DIR_NODE("index0", g_cache0),
	DIR_NODE("index1", g_cache1),
	DIR_NODE("index2", g_cache2),
	DIR_NODE("index3", g_cache3),
	END_NODE,
};

/* The first CPU cannot be switched off, so it has no file that says whether it is. */
static const struct pnode g_cpu0_files[] = {
	DIR_NODE("cache", g_cache_dir),
	DIR_NODE("topology", g_topology),
	LINK_NODE("node0", "../../node/node0"),
	LINK_NODE("subsystem", "../../../../bus/cpu"),
	END_NODE,
};
static const struct pnode g_cpu_files[] = {
	DIR_NODE("cache", g_cache_dir),
	FILE_TEXT("online", "1\n"),
	DIR_NODE("topology", g_topology),
	LINK_NODE("node0", "../../node/node0"),
	LINK_NODE("subsystem", "../../../../bus/cpu"),
	END_NODE,
};
static const struct pnode g_cpu0_dir = DIR_NODE("cpu", g_cpu0_files);
static const struct pnode g_cpu_dir = DIR_NODE("cpu", g_cpu_files);

#define CPU_INO_BASE ((uint64_t)1 << 20)

/* N of "cpuN", without leading zeros; -1 if it is none. */
static int parse_cpu(const char *name, size_t len)
{
	unsigned n = 0;

	if (len < 4 || len > 7 || memcmp(name, "cpu", 3) != 0 || (name[3] == '0' && len > 4))
		return -1;
	for (size_t k = 3; k < len; k++) {
		if (name[k] < '0' || name[k] > '9')
			return -1;
		n = n * 10 + (unsigned)(name[k] - '0');
	}
	return n < g_params.cpus ? (int)n : -1;
}

static int emit_cpus(struct dir_ctx *ctx, int64_t *off, uint64_t ino_base, unsigned dtype)
{
	while (*off < (int64_t)g_params.cpus) {
		char name[16] = "cpu";
		size_t len = 3;
		unsigned div = 1;
		unsigned n = (unsigned)*off;

		while (n / div >= 10)
			div *= 10;
		for (; div > 0; div /= 10)
			name[len++] = (char)('0' + n / div % 10);
		if (!ctx->emit(ctx, name, len, ino_base + n, dtype, *off + 1))
			return 0;
		++*off;
	}
	return 0;
}

/* The number of the processor of that name, which is the child's object and tells its inode. */
static int find_cpu(const char *name, size_t len, uint64_t ino_base, void **child_obj,
		    uint64_t *ino)
{
	int n = parse_cpu(name, len);

	if (n < 0)
		return -ENOENT;
	*child_obj = (void *)(uintptr_t)((unsigned)n + 1);
	*ino = ino_base + (unsigned)n;
	return n;
}

static int cpus_lookup(struct inode *dir UNUSED, void *obj UNUSED, const char *name, size_t len,
		       const struct pnode **child, void **child_obj, uint64_t *ino)
{
	int n = find_cpu(name, len, CPU_INO_BASE, child_obj, ino);

	if (n < 0)
		return n;
	*child = n ? &g_cpu_dir : &g_cpu0_dir;
	return 0;
}

static int cpus_iterate(struct inode *dir, void *obj, struct dir_ctx *ctx, int64_t *off)
{
	(void)dir;
	(void)obj;
	return emit_cpus(ctx, off, CPU_INO_BASE, LX_DT_DIR);
}

static void cpus_attr(struct inode *i UNUSED, void *obj UNUSED, struct kstat *st)
{
	st->nlink += g_params.cpus;
}

static const struct pnode_ops g_cpus_ops = {
	.lookup = cpus_lookup, .iterate = cpus_iterate, .attr = cpus_attr};

static const struct pnode g_smt[] = {
	FILE_FN("active", show_smt, 0),
	FILE_FN("control", show_smt, 1),
	END_NODE,
};

static const struct pnode g_cpus[] = {
	FILE_TEXT("isolated", "\n"),
	FILE_FN("kernel_max", show_kernel_max, 0),
	FILE_TEXT("offline", "\n"),
	FILE_FN("online", show_all_list, 0),
	FILE_FN("possible", show_all_list, 0),
	FILE_FN("present", show_all_list, 0),
	DIR_NODE("smt", g_smt),
	END_NODE,
};

/* ---- /sys/devices/system/node ---- */

#define NODE_CPU_INO_BASE ((uint64_t)1 << 21)

static uint64_t mem_free_now(void)
{
	uint64_t n = g_params.mem_free ? g_params.mem_free() : g_params.mem_total / 2;

	return MIN(n, g_params.mem_total);
}

static void show_node_meminfo(unsigned cpu, unsigned arg, struct textbuf *out)
{
	uint64_t total = g_params.mem_total >> 10, unused = mem_free_now() >> 10;

	(void)cpu;
	(void)arg;
	text_printf(out, "Node 0 MemTotal:       %8llu kB\n", (unsigned long long)total);
	text_printf(out, "Node 0 MemFree:        %8llu kB\n", (unsigned long long)unused);
	text_printf(out, "Node 0 MemUsed:        %8llu kB\n", (unsigned long long)(total - unused));
	text_printf(out, "Node 0 HugePages_Total: %5u\n", 0);
	text_printf(out, "Node 0 HugePages_Free:  %5u\n", 0);
	text_printf(out, "Node 0 HugePages_Surp:  %5u\n", 0);
}

static int node_iterate(struct inode *dir, void *obj, struct dir_ctx *ctx, int64_t *off)
{
	(void)dir;
	(void)obj;
	return emit_cpus(ctx, off, NODE_CPU_INO_BASE, LX_DT_LNK);
}

static ssize_t node_cpu_readlink(struct inode *i, void *obj, char *buf, size_t size)
{
	struct textbuf t;
	size_t n;

	(void)i;
	text_init(&t);
	text_printf(&t, "../../cpu/cpu%u", (unsigned)(uintptr_t)obj - 1);
	n = MIN(t.size, size);
	if (n)
		memcpy(buf, t.data, n);
	text_fini(&t);
	return n ? (ssize_t)n : -ENOMEM;
}

static const struct pnode_ops g_node_cpu_ops = {.readlink = node_cpu_readlink};
static const struct pnode g_node_cpu = {.name = "cpu", .mode = LINK_MODE, .ops = &g_node_cpu_ops};

static int node_lookup(struct inode *dir UNUSED, void *obj UNUSED, const char *name, size_t len,
		       const struct pnode **child, void **child_obj, uint64_t *ino)
{
	int n = find_cpu(name, len, NODE_CPU_INO_BASE, child_obj, ino);

	if (n < 0)
		return n;
	*child = &g_node_cpu;
	return 0;
}

static const struct pnode_ops g_node_ops = {.lookup = node_lookup, .iterate = node_iterate};

static const struct pnode g_huge_2m[] = {
	FILE_TEXT("free_hugepages", "0\n"),
	FILE_TEXT("nr_hugepages", "0\n"),
	FILE_TEXT("nr_hugepages_mempolicy", "0\n"),
	FILE_TEXT("nr_overcommit_hugepages", "0\n"),
	FILE_TEXT("resv_hugepages", "0\n"),
	FILE_TEXT("surplus_hugepages", "0\n"),
	END_NODE,
};
static const struct pnode g_hugepages[] = {
	DIR_NODE("hugepages-2048kB", g_huge_2m),
	END_NODE,
};

static const struct pnode g_node0[] = {
	FILE_FN("cpulist", show_all_list, 0),
	FILE_FN("cpumap", show_all_mask, 0),
	FILE_TEXT("distance", "10\n"),
	DIR_NODE("hugepages", g_hugepages),
	FILE_FN("meminfo", show_node_meminfo, 0),
	FILE_TEXT("numastat", "numa_hit 0\nnuma_miss 0\nnuma_foreign 0\ninterleave_hit 0\n"
			      "local_node 0\nother_node 0\n"),
	END_NODE,
};

static const struct pnode g_node[] = {
	FILE_TEXT("has_cpu", "0\n"),
	FILE_TEXT("has_memory", "0\n"),
	FILE_TEXT("has_normal_memory", "0\n"),
	{.name = "node0", .mode = DIR_MODE, .ops = &g_node_ops, .children = g_node0},
	FILE_TEXT("online", "0\n"),
	FILE_TEXT("possible", "0\n"),
	END_NODE,
};

static const struct pnode g_system[] = {
	{.name = "cpu", .mode = DIR_MODE, .ops = &g_cpus_ops, .children = g_cpus},
	DIR_NODE("node", g_node),
	END_NODE,
};

/* ---- the loopback interface ---- */

static const struct pnode g_lo_stats[] = {
	FILE_TEXT("collisions", "0\n"),
	FILE_TEXT("multicast", "0\n"),
	FILE_TEXT("rx_bytes", "0\n"),
	FILE_TEXT("rx_dropped", "0\n"),
	FILE_TEXT("rx_errors", "0\n"),
	FILE_TEXT("rx_packets", "0\n"),
	FILE_TEXT("tx_bytes", "0\n"),
	FILE_TEXT("tx_dropped", "0\n"),
	FILE_TEXT("tx_errors", "0\n"),
	FILE_TEXT("tx_packets", "0\n"),
	END_NODE,
};

static const struct pnode g_lo[] = {
	FILE_TEXT("addr_assign_type", "0\n"),
	FILE_TEXT("addr_len", "6\n"),
	FILE_TEXT("address", "00:00:00:00:00:00\n"),
	FILE_TEXT("broadcast", "00:00:00:00:00:00\n"),
	FILE_TEXT("carrier", "1\n"),
	FILE_TEXT("dev_id", "0x0\n"),
	FILE_TEXT("dev_port", "0\n"),
	FILE_TEXT("dormant", "0\n"),
	FILE_TEXT("flags", "0x9\n"),
	FILE_TEXT("ifalias", "\n"),
	FILE_TEXT("ifindex", "1\n"),
	FILE_TEXT("iflink", "1\n"),
	FILE_TEXT("link_mode", "0\n"),
	FILE_TEXT("mtu", "65536\n"),
	FILE_TEXT("operstate", "unknown\n"),
	DIR_NODE("statistics", g_lo_stats),
	LINK_NODE("subsystem", "../../../../class/net"),
	FILE_TEXT("tx_queue_len", "1000\n"),
	FILE_TEXT("type", "772\n"),
	FILE_TEXT("uevent", "INTERFACE=lo\nIFINDEX=1\n"),
	END_NODE,
};

static const struct pnode g_virtual_net[] = {DIR_NODE("lo", g_lo), END_NODE};
static const struct pnode g_virtual[] = {DIR_NODE("net", g_virtual_net), END_NODE};
static const struct pnode g_class_net[] = {LINK_NODE("lo", "../../devices/virtual/net/lo"),
					   END_NODE};

/* ---- /sys/kernel/mm ---- */

static void show_thp(unsigned cpu, unsigned arg, struct textbuf *out)
{
	static const char *const modes[] = {"always", "madvise", "never"};
	const char *now = g_params.thp ? g_params.thp : "madvise";

	(void)cpu;
	(void)arg;
	for (size_t k = 0; k < ARRAY_SIZE(modes); k++) {
		bool on = strcmp(modes[k], now) == 0;

		text_printf(out, "%s%s%s%s", k ? " " : "", on ? "[" : "", modes[k], on ? "]" : "");
	}
	text_printf(out, "\n");
}

static const struct pnode g_thp[] = {
	FILE_TEXT("defrag", "always defer defer+madvise [madvise] never\n"),
	FILE_FN("enabled", show_thp, 0),
	FILE_TEXT("hpage_pmd_size", "2097152\n"),
	FILE_TEXT("shmem_enabled", "always within_size advise [never] deny force\n"),
	FILE_TEXT("use_zero_page", "1\n"),
	END_NODE,
};

static const struct pnode g_mm[] = {
	DIR_NODE("hugepages", g_hugepages),
	DIR_NODE("transparent_hugepage", g_thp),
	END_NODE,
};

/* ---- the root ---- */

static const struct pnode g_kernel[] = {
	DIR_NODE("debug", g_empty),
	DIR_NODE("mm", g_mm),
	DIR_NODE("security", g_empty),
	END_NODE,
};
static const struct pnode g_devices[] = {
	DIR_NODE("system", g_system),
	DIR_NODE("virtual", g_virtual),
	END_NODE,
};
static const struct pnode g_bus[] = {DIR_NODE("cpu", g_empty), DIR_NODE("node", g_empty), END_NODE};
static const struct pnode g_class[] = {
	DIR_NODE("block", g_empty),
	DIR_NODE("net", g_class_net),
	DIR_NODE("tty", g_empty),
	END_NODE,
};
static const struct pnode g_dev[] = {DIR_NODE("block", g_empty), DIR_NODE("char", g_empty),
				     END_NODE};
static const struct pnode g_fs[] = {DIR_NODE("cgroup", g_empty), END_NODE};

static const struct pnode g_root_children[] = {
	DIR_NODE("block", g_empty),
	DIR_NODE("bus", g_bus),
	DIR_NODE("class", g_class),
	DIR_NODE("dev", g_dev),
	DIR_NODE("devices", g_devices),
	DIR_NODE("firmware", g_empty),
	DIR_NODE("fs", g_fs),
	DIR_NODE("kernel", g_kernel),
	DIR_NODE("module", g_empty),
	DIR_NODE("power", g_empty),
	END_NODE,
};
static const struct pnode g_root = DIR_NODE("/", g_root_children);

static int sysfs_mount(const struct fs_type *type, struct vfs_ctx *c, const char *source,
		       const char *data, unsigned flags, struct super **out)
{
	(void)c;
	(void)source;
	(void)data;
	(void)flags;
	return pseudofs_new(type, &g_root, SYSFS_MAGIC, out);
}

const struct fs_type g_sysfs_type = {
	.name = "sysfs", .mount = sysfs_mount, .user_mountable = true, .nodev = true};
