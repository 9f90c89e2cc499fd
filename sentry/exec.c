/* SPDX-License-Identifier: Apache-2.0 */
/*
 * execve: another program in place of the calling one.
 *
 * Theory of operation: first everything that can fail, with nothing changed: scripts are followed
 * to a program, its headers and its interpreter's are read, credentials are computed, and a
 * complete new address space is built beside the old one (sentry/exec_image.c). Then the other
 * threads of the process are ended, which can still fail (another exec, a fatal signal) and is the
 * point of no return. Then the task switches: memory, registers, credentials, signal handlers,
 * descriptors.
 *
 * Where calls are made from: the platform may bind an address space to a worker. The fiber
 * therefore moves to the new one's worker when it makes it, back to the old one's to say good-bye
 * to the old memory (robust futexes), and to the new one's for good.
 *
 * Deviations from Linux: what Linux finds out after its point of no return, and kills for, is an
 * error of the call here.
 *
 * Locking: tasklist for what others see of the task; no lock otherwise.
 *
 * References: execve(2), execveat(2).
 */
#include "sentry/exec_image.h"
#include "base/hash.h"
#include "loader/script.h"
#include "loader/stack.h"
#include "loader/vdso.h"
#include "sentry/audit.h"
#include "sentry/process.h"

#include <errno.h>
#include <string.h>

#define DEFAULT_STACK_LIMIT ((uint64_t)8 << 20)

int exec_open(struct task *t, const struct path *start, const char *name, unsigned at_flags,
	      struct file **out)
{
	unsigned walk = at_flags & LX_AT_SYMLINK_NOFOLLOW ? 0 : WALK_FOLLOW;
	struct path p;
	int r;

	if (at_flags & LX_AT_EMPTY_PATH)
		walk |= WALK_EMPTY;
	r = path_lookup(&t->vctx, start, name, walk, &p);
	if (r)
		return r;
	if (!p.dentry->inode)
		r = -ENOENT;
	else if (LX_S_ISLNK(p.dentry->inode->mode))
		r = -ELOOP;
	else
		r = vfs_open_exec(&t->vctx, &p, out);
	path_put(&p);
	return r;
}

/* ---- scripts ---- */

/* The chain from what was asked for to an ELF file, with the arguments that it collects on its way.
 */
struct chain {
	struct exec_program prog;
	const char **argv; /* owned array; strings are borrowed or in @owned */
	unsigned argc, argv_max;
	char *owned[2 * (SCRIPT_MAX_DEPTH + 1)];
	unsigned owned_count;
	const char *interp; /* what is executed, as named: the script's own argument for its
			       interpreter */
};

static void chain_free(struct chain *c)
{
	exec_program_close(&c->prog);
	for (unsigned i = 0; i < c->owned_count; i++)
		mem_free(c->owned[i]);
	mem_free(c->argv);
}

static char *chain_own(struct chain *c, const char *s)
{
	char *copy = mem_strdup(s);

	if (copy)
		c->owned[c->owned_count++] = copy;
	return copy;
}

/* Puts @s in front. There is room: chain_start made it. */
static void chain_push(struct chain *c, const char *s)
{
	BUG_ON(c->argc == c->argv_max);
	memmove(c->argv + 1, c->argv, (c->argc + 1) * sizeof(c->argv[0]));
	c->argv[0] = s;
	c->argc++;
}

static int chain_start(struct chain *c, const struct exec_request *req)
{
	memset(c, 0, sizeof(*c));
	c->argv_max = req->argc + 2 * (SCRIPT_MAX_DEPTH + 1) + 1;
	c->argv = mem_calloc(c->argv_max + 1, sizeof(c->argv[0]));
	if (!c->argv)
		return -ENOMEM;
	c->argc = req->argc;
	memcpy(c->argv, req->argv, req->argc * sizeof(c->argv[0]));
	/* Linux never starts a program without argv[0]. */
	if (c->argc == 0)
		chain_push(c, "");
	c->interp = req->path;
	return exec_program_use(req->file, &c->prog);
}

/* One script: argv[0] makes way for interpreter, argument, and the script's name. */
static int chain_script(struct task *t, struct chain *c, const char *head, struct err *e)
{
	struct script_line line;
	char *interp, *arg = NULL;
	int r = script_parse(head, &line);

	if (r)
		return err_set(e, -r, "%s: its first line names no interpreter", c->interp);
	interp = chain_own(c, line.interp);
	if (line.has_arg)
		arg = chain_own(c, line.arg);
	if (!interp || (line.has_arg && !arg))
		return -ENOMEM;
	c->argv[0] = c->interp;
	if (arg)
		chain_push(c, arg);
	chain_push(c, interp);
	exec_program_close(&c->prog);
	r = exec_program_open(t, interp, &c->prog);
	if (r)
		return err_set(e, -r, "%s: its interpreter %s: %s", c->interp, interp,
			       err_text(-r));
	c->interp = interp;
	return 0;
}

static int chain_follow(struct task *t, struct chain *c, bool path_closes, struct err *e)
{
	for (unsigned depth = 0;; depth++) {
		char head[SCRIPT_HEAD_SIZE] = {0};
		ssize_t n;
		int r;

		if (depth > SCRIPT_MAX_DEPTH)
			return err_set(e, ELOOP, "%s: scripts that interpret each other",
				       c->interp);
		n = vfs_read_kernel(c->prog.file, head, sizeof(head), 0);
		if (n < 0)
			return (int)n;
		if (!script_is(head))
			return 0;
		/* The interpreter could not open it. */
		if (depth == 0 && path_closes)
			return -ENOENT;
		r = chain_script(t, c, head, e);
		if (r)
			return r;
	}
}

/* execve's limit counts what the scripts added, too. */
static int check_strings(struct task *t, const struct chain *c, const struct exec_request *req)
{
	uint64_t bytes = strlen(req->path) + 1;

	for (unsigned i = 0; i < c->argc; i++)
		bytes += strlen(c->argv[i]) + 1;
	for (unsigned i = 0; i < req->envc; i++)
		bytes += strlen(req->envp[i]) + 1;
	return stack_check_size(c->argc, req->envc, bytes, rlimit_get(t->tg, LX_RLIMIT_STACK));
}

/* ---- the switch ---- */

/* What the commit needs, allocated before it. */
struct spare {
	struct sighand *sighand; /* NULL: the task's own is not shared */
	struct fdtable *files;   /* likewise */
	struct cred *cred;
	bool secure;
	uint32_t clear_personality;
};

static int spare_make(struct task *t, struct spare *s)
{
	if (ref_read(&t->sighand->ref) > 1) {
		s->sighand = sighand_dup(t->sighand);
		if (!s->sighand)
			return -ENOMEM;
	}
	if (fdtable_shared(t->files)) {
		s->files = fdtable_dup(t->files);
		if (!s->files)
			return -ENOMEM;
	}
	return 0;
}

static void spare_free(struct task *t, struct spare *s)
{
	if (s->sighand)
		sighand_put(s->sighand);
	if (s->files)
		fdtable_put(s->files, &t->vctx);
	if (s->cred)
		cred_put(s->cred);
}

static void go_home(struct pf_as *as)
{
	struct worker *w = g_pf->as_home(as);

	if (w && w != worker_self())
		fiber_migrate(w);
}

/* The last things that the old memory is told. */
static void leave_memory(struct task *t)
{
	uint32_t zero = 0;

	if (!t->mm)
		return;
	futex_exit_robust(t);
	t->robust_list = GADDR(0);
	if (t->clear_child_tid.a && ref_read(&t->mm->users) > 1 &&
	    copy_out(t, t->clear_child_tid, &zero, sizeof(zero)) == 0)
		(void)futex_wake(t, t->clear_child_tid, 1, true);
	t->clear_child_tid = GADDR(0);
}

static void switch_memory(struct task *t, struct exec_image *x)
{
	struct pf_thread *old_pt = t->pt;
	struct mm *old_mm = t->mm;
	const struct inode *exe = x->prog.file->inode;

	x->mm->exe = file_get(x->prog.file);
	BUG_ON(inode_deny_write(x->prog.file->inode) != 0);
	mutex_lock(&g_kernel.tasklist);
	/* The old host thread takes its times along: the process keeps them. */
	if (old_pt)
		usage_before_exec_locked(t);
	t->tg->did_exec = true;
	t->tg->program = hash_u64((uint64_t)(uintptr_t)exe ^ exe->ino) | 1;
	t->pt = x->pt;
	t->masks = NULL;
	t->actions = NULL;
	t->mm = x->mm;
	mutex_unlock(&g_kernel.tasklist);
	x->pt = NULL;
	x->mm = NULL;
	memset(&t->regs, 0, sizeof(t->regs));
	t->regs.rip = x->entry;
	t->regs.rsp = x->sp;
	t->regs.eflags = 0x202;
	t->regs.cs = 0x33;
	t->regs.ss = 0x2b;
	t->regs.orig_rax = (uint64_t)-1;
	if (old_pt)
		g_pf->thread_free(old_pt);
	mm_put(old_mm);
	vfork_release(t);
}

static void switch_signals(struct task *t, struct spare *s)
{
	struct sighand *old = NULL;

	if (s->sighand) {
		mutex_lock(&g_kernel.tasklist);
		old = t->sighand;
		t->sighand = s->sighand;
		mutex_unlock(&g_kernel.tasklist);
		s->sighand = NULL;
		sighand_put(old);
	}
	signal_reset_handlers(t);
	t->altstack = (struct lx_stack){.ss_flags = LX_SS_DISABLE};
	t->restore_mask = false;
	t->restart.fn = NULL;
}

static void switch_files(struct task *t, struct spare *s)
{
	struct fdtable *old = t->files;

	if (s->files) {
		mutex_lock(&g_kernel.tasklist);
		t->files = s->files;
		t->vctx.files = s->files;
		mutex_unlock(&g_kernel.tasklist);
		s->files = NULL;
		fdtable_put(old, &t->vctx);
	}
	fdtable_close_on_exec(&t->vctx, t->files);
}

/* May others look into the process (PR_GET_DUMPABLE)? */
static int dumpable_after(struct task *t, const struct exec_image *x)
{
	const struct cred *c = x->cred;

	if (c->euid != c->uid || c->egid != c->gid)
		return 0;
	/* Who may execute but not read a program, shall not read it from memory either. */
	if (inode_permission(&t->vctx, x->prog.file->inode, MAY_READ) != 0)
		return 0;
	return 1;
}

static void set_name(struct task *t, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;

	memset(t->comm, 0, sizeof(t->comm));
	memcpy(t->comm, name, strnlen(name, sizeof(t->comm) - 1));
}

/* Nothing below can fail. */
static void commit(struct task *t, const struct exec_request *req, struct exec_image *x,
		   struct spare *s)
{
	struct tgroup *tg = t->tg;
	int dumpable = dumpable_after(t, x);

	if (t->mm)
		go_home(t->mm->as);
	leave_memory(t);
	go_home(x->mm->as);
	posix_timers_exec(tg);
	switch_signals(t, s);
	switch_files(t, s);
	task_set_cred(t, s->cred);
	s->cred = NULL;
	t->personality = x->personality;
	t->keep_caps = false;
	t->in_syscall = false;

	mutex_lock(&g_kernel.tasklist);
	set_name(t, req->path);
	if (s->secure)
		t->pdeath_signal = 0;
	tg->dumpable = dumpable;
	tg->exit_signal = tg->exit_signal ? LX_SIGCHLD : 0;
	mutex_unlock(&g_kernel.tasklist);
	if (s->secure) {
		/* A privileged program does not inherit a stack limit that was chosen to surprise
		 * it. */
		mutex_lock(&tg->rlim_lock);
		tg->rlim[LX_RLIMIT_STACK].cur =
			MIN(tg->rlim[LX_RLIMIT_STACK].cur, DEFAULT_STACK_LIMIT);
		mutex_unlock(&tg->rlim_lock);
	}
	switch_memory(t, x);
}

static void committed(struct task *t, const struct exec_request *req, struct exec_image *x,
		      struct spare *s)
{
	commit(t, req, x, s);
	if (unlikely(g_audit))
		audit_exec(t, x->execfn, x->argv, x->argc);
}

int task_exec(struct task *t, const struct exec_request *req, bool first, struct err *e)
{
	struct pf_as *old_as = t->mm ? t->mm->as : NULL;
	struct exec_image x = {0};
	struct spare s = {0};
	struct chain c;
	int r;

	if (first && !vdso_available() && vdso_init() != 0)
		log_info("no vDSO: programs read the clock by system calls");
	r = chain_start(&c, req);
	if (r == -ETXTBSY)
		err_set(e, ETXTBSY, "%s: it is open for writing", req->path);
	if (r == 0)
		r = chain_follow(t, &c, req->path_closes, e);
	if (r == 0)
		r = check_strings(t, &c, req);
	if (r)
		goto out;
	x.prog = c.prog;
	c.prog.file = NULL;
	x.execfn = req->path;
	x.argv = c.argv;
	x.argc = c.argc;
	x.envp = (const char *const *)req->envp;
	x.envc = req->envc;
	r = exec_image_read(t, &x, e);
	if (r == 0)
		r = exec_cred(t, x.prog.file, &s.cred, &s.secure, &s.clear_personality);
	if (r == 0)
		r = spare_make(t, &s);
	if (r)
		goto out;
	x.cred = s.cred;
	x.secure = s.secure;
	x.personality = t->personality & ~s.clear_personality;
	r = exec_image_map(t, &x);
	if (r == 0 && !first)
		r = task_dethread(t);
	if (r == 0)
		committed(t, req, &x, &s);
	else if (old_as)
		go_home(old_as);
out:
	exec_image_discard(&x);
	exec_program_close(&x.prog);
	exec_program_close(&x.ld);
	spare_free(t, &s);
	chain_free(&c);
	return r;
}
