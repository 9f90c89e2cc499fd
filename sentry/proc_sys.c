/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/sys: the settings that programs ask for. All are fixed properties of this kernel, so
 * writing is refused; but for the names of the host, which are uname's.
 */
#include "sentry/aio.h"
#include "sentry/proc.h"

#include "base/hash.h"
#include "sentry/syscall.h"
#include "sentry/uts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A node whose text is its data. */
static int show_text(struct vfs_ctx *c UNUSED, struct inode *i, void *obj UNUSED,
		     struct textbuf *out)
{
	text_printf(out, "%s\n", (const char *)pnode_of(i)->data);
	return 0;
}

static const struct pnode_ops g_text_ops = {.show = show_text};
#define TEXT(n, text)                                                                      \
	{                                                                                  \
		.name = (n), .mode = LX_S_IFREG | 0444, .ops = &g_text_ops, .data = (text) \
	}

static int show_hostname(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			 struct textbuf *out)
{
	mutex_lock(&g_kernel.uts);
	text_printf(out, "%s\n", g_kernel.hostname);
	mutex_unlock(&g_kernel.uts);
	return 0;
}

static int show_domainname(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			   struct textbuf *out)
{
	mutex_lock(&g_kernel.uts);
	text_printf(out, "%s\n", g_kernel.domainname);
	mutex_unlock(&g_kernel.uts);
	return 0;
}

static int show_pid_max(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	text_printf(out, "%d\n", g_kernel.pid_max);
	return 0;
}

static void uuid_text(const uint8_t b[16], struct textbuf *out)
{
	text_printf(out, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n",
		    b[0], b[1], b[2], b[3], b[4], b[5], (b[6] & 0x0f) | 0x40, b[7],
		    (b[8] & 0x3f) | 0x80, b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static int show_uuid(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
		     struct textbuf *out)
{
	uint8_t b[16];

	guest_random_bytes(GUEST_RANDOM_DATA, b, sizeof(b));
	uuid_text(b, out);
	return 0;
}

/* One for the life of the sandbox. */
static int show_boot_id(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	static uint8_t id[16];
	static struct mutex lock = MUTEX_INIT(RANK_MISC);
	static const uint8_t none[16];

	mutex_lock(&lock);
	if (memcmp(id, none, sizeof(id)) == 0)
		guest_random_bytes(GUEST_RANDOM_BOOT, id, sizeof(id));
	mutex_unlock(&lock);
	uuid_text(id, out);
	return 0;
}

static int show_aio_nr(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
		       struct textbuf *out)
{
	text_printf(out, "%lu\n", aio_events_asked());
	return 0;
}

static int show_file_nr(struct vfs_ctx *c UNUSED, struct inode *i UNUSED, void *obj UNUSED,
			struct textbuf *out)
{
	text_printf(out, "0\t0\t9223372036854775807\n");
	return 0;
}

#define SHOW(fn) (&(const struct pnode_ops){.show = (fn)})

static const struct pnode g_random[] = {
	FILE_NODE("boot_id", 0444, SHOW(show_boot_id)),
	FILE_NODE("uuid", 0444, SHOW(show_uuid)),
	TEXT("entropy_avail", "256"),
	TEXT("poolsize", "256"),
	{.name = NULL},
};

static const struct pnode g_kernel_dir[] = {
	FILE_NODE("hostname", 0444, SHOW(show_hostname)),
	FILE_NODE("domainname", 0444, SHOW(show_domainname)),
	FILE_NODE("pid_max", 0444, SHOW(show_pid_max)),
	TEXT("auto_msgmni", "0"),
	TEXT("cap_last_cap", "40"),
	TEXT("core_pattern", "core"),
	TEXT("core_uses_pid", "0"),
	TEXT("dmesg_restrict", "1"),
	TEXT("kptr_restrict", "1"),
	TEXT("msgmax", "8192"),
	TEXT("msgmnb", "16384"),
	TEXT("msgmni", "32000"),
	TEXT("ngroups_max", "65536"),
	TEXT("osrelease", UTS_RELEASE),
	TEXT("ostype", "Linux"),
	TEXT("overflowgid", "65534"),
	TEXT("overflowuid", "65534"),
	TEXT("panic", "0"),
	TEXT("perf_event_paranoid", "4"),
	TEXT("printk", "4\t4\t1\t7"),
	DIR_NODE("random", 0555, NULL, g_random),
	TEXT("randomize_va_space", "2"),
	TEXT("sched_rr_timeslice_ms", "100"),
	TEXT("sched_rt_period_us", "1000000"),
	TEXT("sched_rt_runtime_us", "950000"),
	TEXT("sched_child_runs_first", "0"),
	TEXT("sem", "32000\t1024000000\t500\t32000"),
	TEXT("shm_rmid_forced", "0"),
	TEXT("shmall", "18446744073692774399"),
	TEXT("shmmax", "18446744073692774399"),
	TEXT("shmmni", "4096"),
	TEXT("tainted", "0"),
	TEXT("threads-max", "30000"),
	TEXT("unprivileged_bpf_disabled", "2"),
	TEXT("version", UTS_VERSION),
	{.name = NULL},
};

static const struct pnode g_inotify[] = {
	TEXT("max_queued_events", "16384"),
	TEXT("max_user_instances", "128"),
	TEXT("max_user_watches", "65536"),
	{.name = NULL},
};

static const struct pnode g_epoll[] = {
	TEXT("max_user_watches", "4000000"),
	{.name = NULL},
};

static const struct pnode g_mqueue[] = {
	TEXT("msg_default", "10"),   TEXT("msg_max", "10"),     TEXT("msgsize_default", "8192"),
	TEXT("msgsize_max", "8192"), TEXT("queues_max", "256"), {.name = NULL},
};

static const struct pnode g_fs[] = {
	TEXT("aio-max-nr", "65536"),
	FILE_NODE("aio-nr", 0444, SHOW(show_aio_nr)),
	DIR_NODE("epoll", 0555, NULL, g_epoll),
	TEXT("file-max", "9223372036854775807"),
	FILE_NODE("file-nr", 0444, SHOW(show_file_nr)),
	DIR_NODE("inotify", 0555, NULL, g_inotify),
	TEXT("lease-break-time", "45"),
	TEXT("leases-enable", "0"),
	TEXT("mount-max", "100000"),
	DIR_NODE("mqueue", 0555, NULL, g_mqueue),
	TEXT("nr_open", "1048576"),
	TEXT("overflowgid", "65534"),
	TEXT("overflowuid", "65534"),
	TEXT("pipe-max-size", "1048576"),
	TEXT("pipe-user-pages-hard", "0"),
	TEXT("pipe-user-pages-soft", "16384"),
	TEXT("protected_fifos", "0"),
	TEXT("protected_hardlinks", "0"),
	TEXT("protected_regular", "0"),
	TEXT("protected_symlinks", "0"),
	TEXT("suid_dumpable", "0"),
	{.name = NULL},
};

static const struct pnode g_vm[] = {
	TEXT("drop_caches", "0"),
	TEXT("max_map_count", "65530"),
	TEXT("min_free_kbytes", "67584"),
	TEXT("mmap_min_addr", "65536"),
	TEXT("nr_hugepages", "0"),
	TEXT("overcommit_kbytes", "0"),
	TEXT("overcommit_memory", "0"),
	TEXT("overcommit_ratio", "50"),
	TEXT("panic_on_oom", "0"),
	TEXT("swappiness", "60"),
	{.name = NULL},
};

static const struct pnode g_net_core[] = {
	TEXT("somaxconn", "4096"),
	TEXT("rmem_default", "212992"),
	TEXT("rmem_max", "212992"),
	TEXT("wmem_default", "212992"),
	TEXT("wmem_max", "212992"),
	TEXT("optmem_max", "131072"),
	{.name = NULL},
};

static const struct pnode g_net_unix[] = {
	TEXT("max_dgram_qlen", "512"),
	{.name = NULL},
};

static const struct pnode g_net[] = {
	DIR_NODE("core", 0555, NULL, g_net_core),
	DIR_NODE("unix", 0555, NULL, g_net_unix),
	{.name = NULL},
};

static const struct pnode g_user[] = {
	TEXT("max_user_namespaces", "0"),
	{.name = NULL},
};

const struct pnode g_proc_sys_children[] = {
	DIR_NODE("fs", 0555, NULL, g_fs),   DIR_NODE("kernel", 0555, NULL, g_kernel_dir),
	DIR_NODE("net", 0555, NULL, g_net), DIR_NODE("user", 0555, NULL, g_user),
	DIR_NODE("vm", 0555, NULL, g_vm),   {.name = NULL},
};
