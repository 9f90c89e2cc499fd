/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System V semaphores and message queues, POSIX message queues: life and death, permissions' and
 * arguments' errors, what undo does; every allocation and copy made to fail in turn.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/lx_fcntl.h"
#include "base/lx_signal.h"
#include "base/lx_time.h"
#include "tests/unit/kernel_env.h"

#define A GUEST_DATA
#define B (GUEST_DATA + 0x1000)
#define C (GUEST_DATA + 0x2000)

#define RUN(name) GUEST_TEST(syscall_ipc, name)

enum { CREAT = 01000, EXCL = 02000, NOWAIT = 04000, UNDO = 0x1000, NOERROR = 010000 };
enum { RMID = 0, SET = 1, STAT = 2, GETVAL = 12, GETALL = 13, SETVAL = 16, SETALL = 17 };

struct sembuf_ {
	uint16_t num;
	int16_t op, flags;
};

static long semop(struct mock_thread *mt, long id, unsigned num, int op, int flags)
{
	const struct sembuf_ s = {(uint16_t)num, (int16_t)op, (int16_t)flags};

	return SYS(mt, semop, id, put_mem(mt, C, &s, sizeof(s)), 1);
}

static int takes_with_undo(struct mock_thread *mt, void *arg)
{
	return semop(mt, (intptr_t)arg, 0, -1, UNDO | NOWAIT) != 0;
}

static int waits_for_it(struct mock_thread *mt, void *arg)
{
	const struct sembuf_ s = {0, -5, 0};

	return SYS(mt, semop, (intptr_t)arg, put_mem(mt, B, &s, sizeof(s)), 1) == -EIDRM ? 0 : 9;
}

RUN(semaphores)
{
	const uint16_t values[3] = {1, 2, 3};
	long id = SYS(mt, semget, 0x77, 3, CREAT | EXCL | 0600), pid;

	IS(SYS(mt, semget, 0x77, 3, CREAT | EXCL | 0600), -EEXIST);
	IS(SYS(mt, semget, 0x77, 4, 0), -EINVAL);
	IS(SYS(mt, semget, 0x78, 1, 0), -ENOENT);
	IS(SYS(mt, semget, 0, 0, CREAT), -EINVAL);
	IS(SYS(mt, semget, 0, 40000, CREAT), -EINVAL);
	IS(SYS(mt, semget, 0, -1, CREAT), -EINVAL);
	IS(SYS(mt, semctl, id, 0, SETALL, put_mem(mt, A, values, 6)), 0);
	IS(SYS(mt, semctl, id, 0, GETALL, B), 0);
	cr_expect(same_mem(mt, B, values, 6));
	IS(SYS(mt, semctl, id, 0, GETALL, GUEST_BAD), -EFAULT);
	IS(SYS(mt, semctl, id, 0, SETALL, GUEST_BAD), -EFAULT);
	IS(SYS(mt, semctl, id, 3, GETVAL, 0), -EINVAL);
	IS(SYS(mt, semctl, id, -1, GETVAL, 0), -EINVAL);
	IS(SYS(mt, semctl, id, 0, SETVAL, 32768), -ERANGE);
	IS(SYS(mt, semctl, id, 0, SETVAL, -1), -ERANGE);
	IS(SYS(mt, semctl, id, 0, STAT, GUEST_BAD), -EFAULT);
	IS(SYS(mt, semctl, id, 0, 99, 0), -EINVAL);
	IS(SYS(mt, semctl, id + 1, 0, STAT, B), -EINVAL);
	IS(semop(mt, id, 0, -2, NOWAIT), -EAGAIN);
	IS(semop(mt, id, 1, -2, 0), 0);
	IS(semop(mt, id, 1, 0, 0), 0);
	IS(semop(mt, id, 0, 0, NOWAIT), -EAGAIN);
	IS(semop(mt, id, 3, 1, 0), -EFBIG);
	IS(semop(mt, id, 2, 32767, 0), -ERANGE);
	IS(SYS(mt, semop, id, GUEST_BAD, 1), -EFAULT);
	IS(SYS(mt, semop, id, C, 0), -EINVAL);
	IS(SYS(mt, semop, id, C, 501), -E2BIG);
	IS(SYS(mt, semop, -1, C, 1), -EINVAL);
	/* What a process took with undo comes back when it ends. */
	pid = mock_fork(mt, takes_with_undo, (void *)id);
	IS(SYS(mt, wait4, pid, A, 0, 0), pid);
	IS(get_u32(mt, A), 0);
	IS(SYS(mt, semctl, id, 0, GETVAL, 0), 1);
	/* Removal wakes those who wait. */
	pid = mock_fork(mt, waits_for_it, (void *)id);
	while (SYS(mt, semctl, id, 0, 14 /* GETNCNT */, 0) == 0)
		SYS(mt, sched_yield);
	IS(SYS(mt, semctl, id, 0, RMID, 0), 0);
	IS(SYS(mt, wait4, pid, A, 0, 0), pid);
	IS(get_u32(mt, A), 0);
	IS(SYS(mt, semctl, id, 0, RMID, 0), -EINVAL);
	return 0;
}

struct msg_ {
	int64_t type;
	char text[8];
};

static long msgsnd(struct mock_thread *mt, long id, int64_t type, const char *text)
{
	struct msg_ m = {.type = type};

	snprintf(m.text, sizeof(m.text), "%s", text);
	return SYS(mt, msgsnd, id, put_mem(mt, C, &m, sizeof(m)), 8, NOWAIT);
}

RUN(messages)
{
	long id = SYS(mt, msgget, 0x55, CREAT | 0600);

	IS(SYS(mt, msgget, 0x55, CREAT | EXCL), -EEXIST);
	IS(SYS(mt, msgget, 0x56, 0), -ENOENT);
	IS(msgsnd(mt, id, 0, "x"), -EINVAL);
	IS(msgsnd(mt, id, 3, "three"), 0);
	IS(msgsnd(mt, id, 1, "one"), 0);
	IS(msgsnd(mt, id, 2, "two"), 0);
	IS(SYS(mt, msgrcv, id, B, 8, 1, NOWAIT), 8);
	cr_expect(same_mem(mt, B + 8, "one", 4));
	IS(SYS(mt, msgrcv, id, B, 8, -2, NOWAIT), 8);
	cr_expect(same_mem(mt, B + 8, "two", 4));
	IS(SYS(mt, msgrcv, id, B, 7, 0, NOWAIT), -E2BIG);
	IS(SYS(mt, msgrcv, id, B, 4, 0, NOWAIT | NOERROR), 4);
	IS(SYS(mt, msgrcv, id, B, 8, 0, NOWAIT), -ENOMSG);
	IS(SYS(mt, msgrcv, id, B, -1, 0, NOWAIT), -EINVAL);
	IS(SYS(mt, msgsnd, id, GUEST_BAD, 8, NOWAIT), -EFAULT);
	IS(SYS(mt, msgsnd, id, C, 1 << 20, NOWAIT), -EINVAL);
	IS(SYS(mt, msgctl, id, STAT, GUEST_BAD), -EFAULT);
	IS(SYS(mt, msgctl, id, SET, GUEST_BAD), -EFAULT);
	IS(SYS(mt, msgctl, id, 77, 0), -EINVAL);
	/* Full: 16384 bytes. */
	for (int i = 0; i < 2048; i++)
		IS(msgsnd(mt, id, 1, "fill"), 0);
	IS(msgsnd(mt, id, 1, "more"), -EAGAIN);
	IS(SYS(mt, msgctl, id, RMID, 0), 0);
	IS(msgsnd(mt, id, 1, "gone"), -EINVAL);
	return 0;
}

struct mq_attr_ {
	int64_t flags, maxmsg, msgsize, curmsgs, reserved[4];
};

RUN(message_queues)
{
	struct mq_attr_ a = {.maxmsg = 2, .msgsize = 8};
	struct lx_timespec past = {1, 0};
	long q;

	put_str(mt, A, "q");
	q = SYS(mt, mq_open, A, LX_O_CREAT | LX_O_RDWR | LX_O_NONBLOCK, 0600,
		put_mem(mt, C, &a, sizeof(a)));
	IS(q, 0);
	IS(SYS(mt, mq_open, A, LX_O_CREAT | LX_O_EXCL | LX_O_RDWR, 0600, 0), -EEXIST);
	IS(SYS(mt, mq_open, put_str(mt, B, "none"), LX_O_RDWR, 0, 0), -ENOENT);
	IS(SYS(mt, mq_open, put_str(mt, B, "a/b"), LX_O_CREAT, 0600, 0), -EACCES);
	IS(SYS(mt, mq_open, GUEST_BAD, LX_O_RDWR, 0, 0), -EFAULT);
	IS(SYS(mt, mq_open, put_str(mt, B, "z"), LX_O_CREAT, 0600, GUEST_BAD), -EFAULT);
	a.maxmsg = 0;
	IS(SYS(mt, mq_open, B, LX_O_CREAT, 0600, put_mem(mt, C, &a, sizeof(a))), -EINVAL);
	put_str(mt, C, "low");
	IS(SYS(mt, mq_timedsend, q, C, 4, 1, 0), 0);
	put_str(mt, C, "high");
	IS(SYS(mt, mq_timedsend, q, C, 5, 9, 0), 0);
	IS(SYS(mt, mq_timedsend, q, C, 5, 9, 0), -EAGAIN);
	IS(SYS(mt, mq_timedsend, q, C, 9, 9, 0), -EMSGSIZE);
	IS(SYS(mt, mq_timedsend, q, C, 5, 32768, 0), -EINVAL);
	IS(SYS(mt, mq_timedsend, q, GUEST_BAD, 5, 1, 0), -EFAULT);
	IS(SYS(mt, mq_timedsend, 99, C, 5, 1, 0), -EBADF);
	IS(SYS(mt, mq_timedreceive, q, B, 7, C, 0), -EMSGSIZE);
	IS(SYS(mt, mq_timedreceive, q, B, 8, C, 0), 5);
	IS(get_u32(mt, C), 9);
	cr_expect(same_mem(mt, B, "high", 5));
	IS(SYS(mt, mq_timedreceive, q, B, 8, 0, GUEST_BAD), -EFAULT);
	IS(SYS(mt, mq_timedreceive, q, B, 8, 0, 0), 4);
	IS(SYS(mt, mq_timedreceive, q, B, 8, 0, 0), -EAGAIN);
	IS(SYS(mt, mq_getsetattr, q, put_mem(mt, C, &(struct mq_attr_){0}, 64), B), 0);
	IS(SYS(mt, mq_timedreceive, q, B, 8, 0, put_mem(mt, C, &past, 16)), -ETIMEDOUT);
	IS(SYS(mt, mq_getsetattr, q, 0, GUEST_BAD), -EFAULT);
	IS(SYS(mt, mq_notify, q, GUEST_BAD), -EFAULT);
	IS(SYS(mt, mq_unlink, A), 0);
	IS(SYS(mt, mq_unlink, A), -ENOENT);
	IS(SYS(mt, close, q), 0);
	return 0;
}

/* One round of calls; what they return does not matter here. */
static void use_everything(struct mock_thread *mt)
{
	long id, pid;

	id = SYS(mt, semget, 0, 2, CREAT | 0600);
	SYS(mt, semctl, id, 0, SETALL, put_mem(mt, A, "\1\0\1\0", 4));
	SYS(mt, semctl, id, 0, GETALL, A);
	semop(mt, id, 0, -1, UNDO | NOWAIT);
	semop(mt, id, 0, 1, UNDO);
	pid = mock_fork(mt, takes_with_undo, (void *)id);
	if (pid > 0)
		SYS(mt, wait4, pid, 0, 0, 0);
	SYS(mt, semctl, id, 0, STAT, A);
	SYS(mt, semctl, id, 0, RMID, 0);
	id = SYS(mt, msgget, 0, CREAT | 0600);
	msgsnd(mt, id, 1, "text");
	SYS(mt, msgrcv, id, B, 8, 0, NOWAIT);
	msgsnd(mt, id, 1, "left");
	SYS(mt, msgctl, id, RMID, 0);
	id = SYS(mt, mq_open, put_str(mt, A, "f"), LX_O_CREAT | LX_O_RDWR | LX_O_NONBLOCK, 0600, 0);
	SYS(mt, mq_timedsend, id, A, 4, 1, 0);
	SYS(mt, mq_timedsend, id, A, 4, 1, 0);
	SYS(mt, mq_timedreceive, id, B, 8192, C, 0);
	SYS(mt, mq_getsetattr, id, 0, B);
	SYS(mt, close_range, 0, ~0u, 0);
	SYS(mt, mq_unlink, A);
}

/* The n-th allocation fails, then the n-th copy: no call may do worse than return an error, and
 * nothing is left behind. */
RUN(failing_steps)
{
	for (uint64_t at = A; at < C + 0x1000; at += 0x1000)
		put_mem(mt, at, "x", 1);
	for (int kind = 0; kind < 2; kind++) {
		for (unsigned n = 1; n < 120; n++) {
			fail_set(kind ? FAIL_COPY : FAIL_ALLOC, n);
			use_everything(mt);
		}
		fail_set(kind ? FAIL_COPY : FAIL_ALLOC, 0);
	}
	/* The highest index in use, of an array that would be there still. */
	IS(SYS(mt, semctl, 0, 0, 3 /* IPC_INFO */, A), 0);
	IS(SYS(mt, msgctl, 0, 3, A), 0);
	IS(SYS(mt, wait4, -1, A, 0, 0), -ECHILD);
	return 0;
}
