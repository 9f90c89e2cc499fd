/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vfs/flock.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/fiber.h"
#include "tests/unit/vfs_file_env.h"
#include "vfs/flock.h"

TestSuite(flock);

/* Two processes are two descriptor tables. */
struct procs {
	struct fenv e;
	struct vfs_ctx a, b;
	struct fdtable *ta, *tb;
	struct file *f, *g; /* the same file, opened twice */
};

static void up(struct procs *p)
{
	fenv_up(&p->e);
	p->ta = fdtable_new();
	p->tb = fdtable_new();
	p->a = p->b = *p->e.c;
	p->a.files = p->ta;
	p->a.tgid = 1;
	p->b.files = p->tb;
	p->b.tgid = 2;
	p->f = fenv_open(&p->e, "/f", LX_O_RDWR | LX_O_CREAT);
	p->g = fenv_open(&p->e, "/f", LX_O_RDWR);
}

static void down(struct procs *p)
{
	locks_close_posix(p->f, p->ta);
	locks_close_posix(p->g, p->tb);
	file_put(p->f);
	file_put(p->g);
	fdtable_put(p->ta, &p->a);
	fdtable_put(p->tb, &p->b);
	fenv_down(&p->e);
}

static int set(struct vfs_ctx *c, struct file *f, int cmd, int type, int64_t start, int64_t len)
{
	struct lx_flock fl = {.l_type = (int16_t)type, .l_start = start, .l_len = len};

	return lock_set(c, f, cmd, &fl);
}

static const char *all(void)
{
	static char text[4096];
	struct lock_info li[64];
	size_t n = locks_list(li, ARRAY_SIZE(li)), used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c%c%d:%ld-%ld ",
					 li[i].blocked ? "->" : "", "POF"[li[i].kind],
					 li[i].write ? 'w' : 'r', li[i].pid, (long)li[i].start,
					 li[i].end == INT64_MAX ? -1L : (long)li[i].end);
	return text;
}

#define EXPECT_LOCKS(want)                                      \
	do {                                                    \
		const char *got_ = all();                       \
		cr_expect_str_eq(got_, (want), "got %s", got_); \
	} while (0)

Test(flock, split_and_merge)
{
	struct procs p;

	up(&p);
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_WRLCK, 0, 100), 0);
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_UNLCK, 40, 20), 0);
	EXPECT_LOCKS("Pw1:0-39 Pw1:60-99 ");
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_WRLCK, 40, 20), 0);
	EXPECT_LOCKS("Pw1:0-99 ");
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_RDLCK, 50, 10), 0);
	EXPECT_LOCKS("Pw1:0-49 Pr1:50-59 Pw1:60-99 ");
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_RDLCK, 40, 30), 0);
	EXPECT_LOCKS("Pw1:0-39 Pr1:40-69 Pw1:70-99 ");
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_WRLCK, 100, 0), 0);
	EXPECT_LOCKS("Pw1:0-39 Pr1:40-69 Pw1:70--1 ");
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_RDLCK, 0, 0), 0);
	EXPECT_LOCKS("Pr1:0--1 ");
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_UNLCK, 0, 0), 0);
	EXPECT_LOCKS("");
	down(&p);
}

Test(flock, conflicts_and_getlk)
{
	struct lx_flock fl = {.l_type = LX_F_WRLCK, .l_len = 0};
	struct procs p;

	up(&p);
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_RDLCK, 10, 10), 0);
	cr_expect_eq(set(&p.b, p.g, LX_F_SETLK, LX_F_RDLCK, 15, 10), 0, "readers share");
	cr_expect_eq(set(&p.b, p.g, LX_F_SETLK, LX_F_WRLCK, 19, 1), -EAGAIN);
	cr_expect_eq(set(&p.b, p.g, LX_F_SETLK, LX_F_WRLCK, 20, 1), 0);
	cr_expect_eq(lock_get(&p.b, p.g, LX_F_GETLK, &fl), 0);
	cr_expect(fl.l_type == LX_F_RDLCK && fl.l_start == 10 && fl.l_len == 10 && fl.l_pid == 1);
	fl = (struct lx_flock){.l_type = LX_F_RDLCK, .l_start = 0, .l_len = 0, .l_pid = 99};
	cr_expect_eq(lock_get(&p.b, p.g, LX_F_GETLK, &fl), 0);
	cr_expect(fl.l_type == LX_F_UNLCK && fl.l_pid == 99);
	fl.l_type = LX_F_UNLCK;
	cr_expect_eq(lock_get(&p.b, p.g, LX_F_GETLK, &fl), -EINVAL);
	/* Any close of the inode by the owner drops its locks. */
	locks_close_posix(p.g, p.ta);
	EXPECT_LOCKS("Pr2:15-19 Pw2:20-20 Pr2:21-24 ");
	/* Open files are owners of their own, and conflict with POSIX locks of the same process. */
	cr_expect_eq(set(&p.b, p.f, LX_F_OFD_SETLK, LX_F_WRLCK, 0, 5), 0);
	cr_expect_eq(set(&p.b, p.g, LX_F_OFD_SETLK, LX_F_WRLCK, 0, 5), -EAGAIN);
	cr_expect_eq(set(&p.b, p.g, LX_F_OFD_SETLK, LX_F_RDLCK, 20, 1), -EAGAIN);
	fl = (struct lx_flock){.l_type = LX_F_RDLCK, .l_len = 5};
	cr_expect_eq(lock_get(&p.a, p.g, LX_F_GETLK, &fl), 0);
	cr_expect_eq(fl.l_pid, -1);
	fl = (struct lx_flock){.l_type = LX_F_RDLCK, .l_pid = 1};
	cr_expect_eq(lock_set(&p.b, p.g, LX_F_OFD_SETLK, &fl), -EINVAL);
	down(&p);
}

Test(flock, ranges)
{
	static const struct {
		int16_t type, whence;
		int64_t start, len;
		int want;
	} cases[] = {
		{LX_F_RDLCK, 9, 0, 0, -EINVAL},
		{9, LX_SEEK_SET, 0, 0, -EINVAL},
		{LX_F_RDLCK, LX_SEEK_SET, -1, 0, -EINVAL},
		{LX_F_RDLCK, LX_SEEK_SET, 5, -6, -EINVAL},
		{LX_F_RDLCK, LX_SEEK_SET, 5, -5, 0},
		{LX_F_RDLCK, LX_SEEK_END, 1, INT64_MAX, -EOVERFLOW},
		{LX_F_RDLCK, LX_SEEK_CUR, INT64_MAX, 0, -EOVERFLOW},
		{LX_F_RDLCK, LX_SEEK_END, -2, 1, 0},
		{LX_F_UNLCK, LX_SEEK_SET, INT64_MAX, 1, 0},
	};
	struct file *r, *w;
	struct procs p;

	up(&p);
	cr_expect_eq(fenv_write(&p.e, p.f, "12345", 5), 5);
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct lx_flock fl = {.l_type = cases[i].type,
				      .l_whence = cases[i].whence,
				      .l_start = cases[i].start,
				      .l_len = cases[i].len};

		cr_expect_eq(lock_set(&p.a, p.f, LX_F_SETLK, &fl), cases[i].want, "case %u", i);
	}
	EXPECT_LOCKS("Pr1:0-4 ");
	r = fenv_open(&p.e, "/f", LX_O_RDONLY);
	w = fenv_open(&p.e, "/f", LX_O_WRONLY);
	cr_expect_eq(set(&p.a, r, LX_F_SETLK, LX_F_WRLCK, 0, 0), -EBADF);
	cr_expect_eq(set(&p.a, w, LX_F_SETLK, LX_F_RDLCK, 0, 0), -EBADF);
	cr_expect_eq(lease_set(r, LX_F_RDLCK), -EAGAIN);
	cr_expect_eq(lease_set(r, 7), -EINVAL);
	cr_expect_eq(lease_get(r), LX_F_UNLCK);
	file_put(r);
	file_put(w);
	down(&p);
}

struct lock_job {
	struct vfs_ctx *c;
	struct file *f;
	int type;
	int64_t start;
	int result;
};

static void lock_job(void *arg)
{
	struct lock_job *j = arg;

	j->result = set(j->c, j->f, LX_F_SETLKW, j->type, j->start, 1);
}

Test(flock, waiting_and_deadlock)
{
	struct procs p;
	struct lock_job j;
	struct fiber *fb;

	up(&p);
	cr_assert_eq(workers_start(1, NULL), 0);
	cr_expect_eq(set(&p.a, p.f, LX_F_SETLK, LX_F_WRLCK, 0, 1), 0);
	cr_expect_eq(set(&p.b, p.g, LX_F_SETLK, LX_F_WRLCK, 1, 1), 0);
	j = (struct lock_job){&p.a, p.f, LX_F_WRLCK, 1, 1};
	fenv_go(lock_job, &j);
	fenv_settle();
	cr_expect_eq(j.result, 1);
	EXPECT_LOCKS("Pw1:0-0 Pw2:1-1 ->Pw1:1-1 ");
	cr_expect_eq(set(&p.b, p.g, LX_F_SETLKW, LX_F_WRLCK, 0, 1), -EDEADLK);
	cr_expect_eq(set(&p.b, p.g, LX_F_SETLK, LX_F_UNLCK, 1, 1), 0);
	fenv_settle();
	cr_expect_eq(j.result, 0);
	EXPECT_LOCKS("Pw1:0-1 ");
	j = (struct lock_job){&p.b, p.g, LX_F_RDLCK, 0, 1};
	fb = fenv_go(lock_job, &j);
	fenv_settle();
	fiber_interrupt(fb);
	workers_stop();
	cr_expect_eq(j.result, -ERESTARTSYS);
	EXPECT_LOCKS("Pw1:0-1 ");
	down(&p);
}

static void flock_job(void *arg)
{
	struct lock_job *j = arg;

	j->result = flock_apply(j->c, j->f, (unsigned)j->type);
}

Test(flock, flock)
{
	struct procs p;
	struct lock_job j;

	up(&p);
	cr_assert_eq(workers_start(1, NULL), 0);
	cr_expect_eq(flock_apply(&p.a, p.f, 0), -EINVAL);
	cr_expect_eq(flock_apply(&p.a, p.f, LX_LOCK_SH | LX_LOCK_EX), -EINVAL);
	cr_expect_eq(flock_apply(&p.a, p.f, LX_LOCK_SH), 0);
	cr_expect_eq(flock_apply(&p.a, p.g, LX_LOCK_SH | LX_LOCK_NB), 0);
	cr_expect_eq(flock_apply(&p.a, p.g, LX_LOCK_EX | LX_LOCK_NB), -EWOULDBLOCK);
	EXPECT_LOCKS("Fr1:0--1 ");
	cr_expect_eq(flock_apply(&p.a, p.f, LX_LOCK_EX | LX_LOCK_NB), 0);
	j = (struct lock_job){&p.b, p.g, LX_LOCK_SH, 0, 1};
	fenv_go(flock_job, &j);
	fenv_settle();
	cr_expect_eq(j.result, 1);
	file_put(p.f);
	workers_stop();
	cr_expect_eq(j.result, 0, "the lock went with its file");
	EXPECT_LOCKS("Fr2:0--1 ");
	cr_expect_eq(flock_apply(&p.b, p.g, LX_LOCK_UN), 0);
	p.f = fenv_open(&p.e, "/f", LX_O_RDWR);
	down(&p);
}
