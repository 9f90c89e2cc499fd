/* SPDX-License-Identifier: Apache-2.0 */

/* System V shared memory, semaphores and message queues; POSIX message queues and shared memory. */
#include "guest.h"
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

union semun {
	int val;
	struct semid_ds *buf;
	unsigned short *array;
};

static void shared_memory(void)
{
	struct shmid_ds ds;
	char *p, *q;
	int id, key = 0x6d6f6174;
	pid_t pid;

	P("shm");
	V(shmget(key, 4096, 0600));
	OK(id = shmget(key, 5000, IPC_CREAT | IPC_EXCL | 0600));
	V(shmget(key, 5000, IPC_CREAT | IPC_EXCL | 0600));
	V(shmget(key, 5000, 0600) == id);
	V(shmget(key, 9000, 0600));
	V(shmget(IPC_PRIVATE, 0, 0600));
	p = shmat(id, NULL, 0);
	q = shmat(id, NULL, SHM_RDONLY);
	T(p != (void *)-1 && q != (void *)-1 && p != q);
	strcpy(p, "shared");
	printf("%s\n", q);
	V(shmctl(id, IPC_STAT, &ds));
	printf("size %zu attached %lu mode %o cpid ours %d lpid ours %d\n", ds.shm_segsz,
	       (unsigned long)ds.shm_nattch, ds.shm_perm.mode, ds.shm_cpid == getpid(),
	       ds.shm_lpid == getpid());
	pid = guest_fork();
	if (!pid) {
		shmctl(id, IPC_STAT, &ds);
		printf("attached after fork %lu\n", (unsigned long)ds.shm_nattch);
		strcpy(p, "child");
		_exit(0);
	}
	guest_wait("child", pid);
	printf("%s\n", p);
	V(shmdt(q));
	V(shmdt(q));
	V(shmdt(p + 4096));
	V((long)shmat(id, p, 0));
	V((long)shmat(id, (void *)1, 0));
	V((long)shmat(id, p, SHM_REMAP) == (long)p);
	V((long)shmat(99999, NULL, 0));
	ds.shm_perm.mode = 0640;
	V(shmctl(id, IPC_SET, &ds));
	V(shmctl(id, IPC_STAT, &ds));
	printf("mode %o\n", ds.shm_perm.mode);
	V(shmctl(id, IPC_RMID, NULL));
	V(shmget(key, 4096, 0600));
	strcpy(p, "still there");
	printf("%s\n", p);
	V(shmctl(id, IPC_STAT, &ds));
	printf("destroyed mark %o\n", ds.shm_perm.mode & 01000);
	V(shmdt(p));
	V(shmctl(id, IPC_STAT, &ds));
	V(shmctl(id, 99, &ds));
}

static void semaphores(void)
{
	struct sembuf ops[2];
	unsigned short values[3];
	struct timespec brief = {0, 20000000};
	struct semid_ds ds;
	union semun u;
	int id;
	long r;
	pid_t pid;

	P("sem");
	OK(id = semget(IPC_PRIVATE, 3, 0600));
	u.array = (unsigned short[]){1, 2, 3};
	V(semctl(id, 0, SETALL, u));
	u.array = values;
	V(semctl(id, 0, GETALL, u));
	printf("%u %u %u\n", values[0], values[1], values[2]);
	u.val = 7;
	V(semctl(id, 1, SETVAL, u));
	V(semctl(id, 1, GETVAL));
	u.val = 40000;
	V(semctl(id, 1, SETVAL, u));
	V(semctl(id, 5, GETVAL));
	V(semctl(id, 1, GETPID) == getpid());
	u.buf = &ds;
	V(semctl(id, 0, IPC_STAT, u));
	printf("nsems %lu\n", (unsigned long)ds.sem_nsems);
	ops[0] = (struct sembuf){0, -1, IPC_NOWAIT};
	ops[1] = (struct sembuf){1, -8, IPC_NOWAIT};
	V(semop(id, ops, 2));
	V(semctl(id, 0, GETVAL));
	ops[1].sem_op = -7;
	V(semop(id, ops, 2));
	V(semop(id, ops, 1));
	ops[0] = (struct sembuf){0, 0, 0};
	V(semop(id, ops, 1));
	ops[0] = (struct sembuf){9, 1, 0};
	V(semop(id, ops, 1));
	V(semop(id, ops, 0));
	V(semop(id, ops, 100000));
	ops[0] = (struct sembuf){0, -1, 0};
	V(semtimedop(id, ops, 1, &brief));
	ops[0] = (struct sembuf){2, 32767, 0};
	V(semop(id, ops, 1));
	P("undo and waiting");
	pid = guest_fork();
	if (!pid) {
		ops[0] = (struct sembuf){0, 5, SEM_UNDO};
		semop(id, ops, 1);
		V(semctl(id, 0, GETVAL));
		_exit(0);
	}
	guest_wait("undoer", pid);
	V(semctl(id, 0, GETVAL));
	pid = guest_fork();
	if (!pid) {
		ops[0] = (struct sembuf){0, -2, 0};
		V(semop(id, ops, 1));
		V(semop(id, ops, 1));
		_exit(0);
	}
	guest_until_asleep(pid);
	V(semctl(id, 0, GETNCNT));
	ops[0] = (struct sembuf){0, 2, 0};
	/* What the waiter prints comes in between, so ours waits. */
	r = semop(id, ops, 1);
	guest_sleep_ms(20);
	V(r);
	V(semctl(id, 0, GETNCNT));
	r = semctl(id, 0, IPC_RMID);
	guest_wait("waiter", pid);
	V(r);
	V(semctl(id, 0, IPC_RMID));
	V(semget(IPC_PRIVATE, 0, 0600));
	V(semget(IPC_PRIVATE, -1, 0600));
}

static void messages(void)
{
	struct {
		long type;
		char text[64];
	} m;
	struct msqid_ds ds;
	int id;
	long r;
	pid_t pid;

	P("msg");
	OK(id = msgget(IPC_PRIVATE, 0600));
	for (long t = 3; t >= 1; t--) {
		m.type = t;
		snprintf(m.text, sizeof(m.text), "type %ld", t);
		V(msgsnd(id, &m, 7, 0));
	}
	V(msgctl(id, IPC_STAT, &ds));
	printf("messages %lu bytes %lu lspid ours %d\n", (unsigned long)ds.msg_qnum,
	       (unsigned long)ds.__msg_cbytes, ds.msg_lspid == getpid());
	V(msgrcv(id, &m, 64, 2, 0));
	printf("%s\n", m.text);
	V(msgrcv(id, &m, 64, -2, 0));
	printf("%s\n", m.text);
	V(msgrcv(id, &m, 64, 9, IPC_NOWAIT));
	V(msgrcv(id, &m, 3, 0, 0));
	V(msgrcv(id, &m, 3, 0, MSG_NOERROR));
	V(msgrcv(id, &m, 64, 0, IPC_NOWAIT));
	m.type = 0;
	V(msgsnd(id, &m, 7, 0));
	m.type = 1;
	V(msgsnd(id, &m, 1 << 20, 0));
	V(msgsnd(99999, &m, 1, 0));
	V(msgsnd(id, &m, 0, 0));
	V(msgrcv(id, &m, 64, 0, MSG_EXCEPT));
	m.type = 5;
	V(msgsnd(id, &m, 1, 0));
	V(msgrcv(id, &m, 64, 5, MSG_EXCEPT | IPC_NOWAIT));
	V(msgrcv(id, &m, 64, 1, MSG_EXCEPT | IPC_NOWAIT));
	ds.msg_qbytes = 100;
	V(msgctl(id, IPC_SET, &ds));
	while (msgsnd(id, &m, 30, IPC_NOWAIT) == 0)
		;
	printf("full %s\n", guest_errno(errno));
	pid = guest_fork();
	if (!pid) {
		V(msgsnd(id, &m, 30, 0));
		V(msgsnd(id, &m, 30, 0));
		_exit(0);
	}
	guest_until_asleep(pid);
	r = msgrcv(id, &m, 64, 0, 0);
	guest_sleep_ms(20);
	V(r);
	r = msgctl(id, IPC_RMID, NULL);
	guest_wait("sender", pid);
	V(r);
}

static volatile sig_atomic_t notified;

static void on_notify(int sig, siginfo_t *si, void *ctx)
{
	(void)sig;
	(void)ctx;
	notified = si->si_code == SI_MESGQ ? si->si_value.sival_int : -1;
}

static void posix_queues(void)
{
	struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 32}, got;
	struct sigevent ev = {
		.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_int = 66};
	struct sigaction sa = {.sa_sigaction = on_notify, .sa_flags = SA_SIGINFO};
	struct timespec past = {1, 0};
	char text[64];
	unsigned prio;
	mqd_t q, ro;
	pid_t pid;

	P("mq");
	mq_unlink("/moat-test");
	V(mq_open("/moat-test", O_RDWR));
	V(mq_open("bad", O_RDWR | O_CREAT, 0600, &attr));
	V(mq_open("/a/b", O_RDWR | O_CREAT, 0600, &attr));
	OK(q = mq_open("/moat-test", O_RDWR | O_CREAT | O_EXCL, 0600, &attr));
	V(mq_open("/moat-test", O_RDWR | O_CREAT | O_EXCL, 0600, &attr));
	V(mq_getattr(q, &got));
	printf("%ld %ld %ld\n", got.mq_maxmsg, got.mq_msgsize, got.mq_curmsgs);
	V(mq_send(q, "low", 3, 1));
	V(mq_send(q, "high", 4, 9));
	V(mq_send(q, "low2", 4, 1));
	V(mq_receive(q, text, 10, &prio));
	V(mq_receive(q, text, 64, &prio));
	printf("%u %.4s\n", prio, text);
	V(mq_receive(q, text, 64, &prio));
	printf("%u %.3s\n", prio, text);
	V(mq_receive(q, text, 64, NULL));
	V(mq_timedreceive(q, text, 64, NULL, &past));
	V(mq_send(q, text, 33, 0));
	V(mq_send(q, text, 1, 40000));
	struct mq_attr nb = {.mq_flags = O_NONBLOCK};
	V(mq_setattr(q, &nb, &got));
	V(mq_receive(q, text, 64, NULL));
	for (int i = 0; i < 5; i++)
		V(mq_send(q, "x", 1, 0));
	struct pollfd p = {.fd = q, .events = POLLIN | POLLOUT};
	V(poll(&p, 1, 0));
	printf("%#x\n", (unsigned)p.revents);
	while (mq_receive(q, text, 64, NULL) >= 0)
		;
	sigaction(SIGUSR1, &sa, NULL);
	V(mq_notify(q, &ev));
	V(mq_notify(q, &ev));
	V(mq_send(q, "x", 1, 0));
	guest_sleep_ms(5);
	printf("notified %d\n", notified);
	V(mq_notify(q, &ev));
	V(mq_notify(q, NULL));
	OK(ro = mq_open("/moat-test", O_RDONLY));
	V(mq_send(ro, "x", 1, 0));
	mq_receive(q, text, 64, NULL);
	pid = guest_fork();
	if (!pid) {
		V(mq_receive(ro, text, 64, &prio));
		printf("%.2s %u\n", text, prio);
		_exit(0);
	}
	guest_until_asleep(pid);
	int sent = mq_send(q, "hi", 2, 3);
	guest_wait("receiver", pid);
	V(sent);
	V(mq_unlink("/moat-test"));
	V(mq_unlink("/moat-test"));
	V(mq_send(q, "x", 1, 0));
	V(mq_close(q));
	V(mq_close(q));
	attr.mq_maxmsg = 0;
	V(mq_open("/moat-test", O_RDWR | O_CREAT, 0600, &attr));
	P("shm_open");
	shm_unlink("/moat-test");
	int fd;
	OK(fd = shm_open("/moat-test", O_RDWR | O_CREAT | O_EXCL, 0600));
	V(ftruncate(fd, 4096));
	V(shm_open("/moat-test", O_RDWR | O_CREAT | O_EXCL, 0600));
	V(shm_unlink("/moat-test"));
	V(shm_open("/moat-test", O_RDWR, 0600));
}

int main(void)
{
	guest_begin();
	/* Where it is allowed, stay out of the host's IPC name space. */
	unshare(CLONE_NEWIPC);
	shared_memory();
	semaphores();
	messages();
	posix_queues();
	return 0;
}
