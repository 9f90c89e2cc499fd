/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boots the kernel on the mock platform, and the guest's memory there, for unit tests and fuzzers.
 * See kernel_env.h.
 */
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include "base/clock.h"
#include "base/err.h"
#include "base/hostpoll.h"
#include "netstack/socket.h"
#include "sentry/mqueue.h"
#include "sentry/nsfs.h"
#include "sentry/vfs_glue.h"
#include "tests/unit/kernel_env.h"
#include "vfs/tmpfs.h"

#define ENTRY ((uint64_t)0x400000)

/* The smallest program: headers, and a segment of memory. What it does is the mock's program. */
struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
};

static const struct image g_image = {
	.eh = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	       .e_type = ET_EXEC,
	       .e_machine = EM_X86_64,
	       .e_version = EV_CURRENT,
	       .e_entry = ENTRY,
	       .e_phoff = offsetof(struct image, ph),
	       .e_ehsize = sizeof(Elf64_Ehdr),
	       .e_phentsize = sizeof(Elf64_Phdr),
	       .e_phnum = 2},
	.ph = {{.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_vaddr = ENTRY,
		.p_filesz = sizeof(struct image),
		.p_memsz = sizeof(struct image),
		.p_align = 4096},
	       {.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_vaddr = GUEST_DATA,
		.p_memsz = GUEST_DATA_SIZE,
		.p_align = 4096}},
};

static struct init_spec g_spec;
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t g_cond = PTHREAD_COND_INITIALIZER;
static bool g_ready;

/* On a fiber, as file systems sleep. */
static void build_root(void *unused UNUSED)
{
	struct tmpfs_opts o = TMPFS_OPTS_DEFAULT;
	struct open_how how = {.flags = LX_O_CREAT | LX_O_WRONLY, .mode = 0755};
	struct super *super;
	struct mount_ns *ns;
	struct vfs_ctx c = {.fsize_limit = UINT64_MAX};
	struct path root;
	struct uio_seg seg;
	struct file *f;
	struct uio u;

	BUG_ON(mqueue_start() != 0 || nsfs_start() != 0);
	o.mode = 0755;
	BUG_ON(tmpfs_new(&o, &super) != 0);
	ns = mount_ns_new(super, 0);
	BUG_ON(!ns);
	super_put(super);
	root = (struct path){ns->root, ns->root->root};
	g_spec.ns = ns;
	g_spec.fs = fs_new(&root, &root, 022);
	g_spec.cred = cred_new(0, 0, LX_CAP_ALL);
	g_spec.files = fdtable_new();
	BUG_ON(!g_spec.fs || !g_spec.cred || !g_spec.files);
	c.cred = g_spec.cred;
	c.fs = g_spec.fs;
	c.ns = g_spec.ns;
	BUG_ON(vfs_open(&c, NULL, "/prog", &how, &f) != 0);
	uio_init_kernel(&u, &seg, (void *)(uintptr_t)&g_image, sizeof(g_image));
	BUG_ON(vfs_write(&c, f, &u, NULL) != (ssize_t)sizeof(g_image));
	file_put(f);
	BUG_ON(vfs_mkdir(&c, NULL, "/tmp", 01777) != 0);
	pthread_mutex_lock(&g_lock);
	g_ready = true;
	pthread_cond_signal(&g_cond);
	pthread_mutex_unlock(&g_lock);
}

int kernel_env_run(mock_fn *guest, void *arg)
{
	static const char *const argv[] = {"/prog", NULL}, *const envp[] = {NULL};
	struct err e = {{0}};
	int status = -1, r;

	g_pf = &platform_mock;
	BUG_ON(clock_start(CLOCK_KIND_HOST, 0) != 0);
	BUG_ON(hostpoll_start() != 0);
	tmpfs_set_memory((uint64_t)1 << 30);
	vfs_init();
	kernel_init();
	vfs_glue_init();
	netstack_init();
	g_vfs_file_gone = g_pf->forget_file;
	g_kernel.cpus = 2;
	g_kernel.memory_bytes = (uint64_t)1 << 30;
	BUG_ON(workers_start(2, g_pf->worker_ops()) != 0);
	BUG_ON(g_pf->start(&e) != 0);
	mock_set_program(guest, arg);
	fiber_start(fiber_new(build_root, NULL, NULL, "setup"));
	pthread_mutex_lock(&g_lock);
	while (!g_ready)
		pthread_cond_wait(&g_cond, &g_lock);
	pthread_mutex_unlock(&g_lock);
	g_spec.argv = argv;
	g_spec.envp = envp;
	g_spec.path = "/prog";
	g_spec.cpu_limit = (struct lx_rlimit64){LX_RLIM_INFINITY, LX_RLIM_INFINITY};
	r = kernel_run_init(&g_spec, &status, &e);
	if (r)
		panic("the program does not start: %d %s", r, e.text);
	return status;
}

uint64_t put_mem(struct mock_thread *mt, uint64_t at, const void *p, size_t size)
{
	mock_store(mt, at, p, size);
	return at;
}

uint64_t put_str(struct mock_thread *mt, uint64_t at, const char *s)
{
	return put_mem(mt, at, s, strlen(s) + 1);
}

uint32_t get_u32(struct mock_thread *mt, uint64_t at)
{
	uint32_t v;

	mock_load(mt, &v, at, sizeof(v));
	return v;
}

uint64_t get_u64(struct mock_thread *mt, uint64_t at)
{
	uint64_t v;

	mock_load(mt, &v, at, sizeof(v));
	return v;
}

bool same_mem(struct mock_thread *mt, uint64_t at, const void *p, size_t size)
{
	char buf[512];

	BUG_ON(size > sizeof(buf));
	mock_load(mt, buf, at, size);
	return memcmp(buf, p, size) == 0;
}
