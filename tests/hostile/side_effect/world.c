/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that side_effect's calls are made on, and the world that they must not change: the
 * trees (names, inodes, modes, owners, sizes, times, contents), descriptors with their flags,
 * offsets and contents, signal state, credentials, limits, timers, mappings, processes, IPC and
 * names of sockets, mounts, names.
 */
#include "side_effect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

char *g_page, *g_readonly, *g_edge;
const char *g_ro;
int g_inotify = -1, g_ipc[3] = {-1, -1, -1};
volatile unsigned *g_beat;

static void at(int fd, int number)
{
	if (fd < 0)
		return;
	dup2(fd, number);
	if (fd != number)
		close(fd);
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);

	(void)!write(fd, text, strlen(text));
	fchmod(fd, mode);
	close(fd);
}

/* They are everybody's, so that a call that succeeded may have changed those of the child before.
 */
static void ipc_objects(void)
{
	struct {
		long type;
		char text[8];
	} message = {1, "message"};

	struct shmid_ds shm;
	struct semid_ds sem;
	struct msqid_ds msg;

	struct shm_info shms = {0};
	struct seminfo sems = {0};
	struct msginfo msgs = {0};
	int max = shmctl(0, SHM_INFO, (struct shmid_ds *)&shms);

	for (int i = 0; i <= max && shms.used_ids > 0; i++)
		shms.used_ids -= shmctl(shmctl(i, SHM_STAT, &shm), IPC_RMID, NULL) == 0;
	max = semctl(0, 0, SEM_INFO, &sems);
	for (int i = 0; i <= max && sems.semusz > 0; i++)
		sems.semusz -= semctl(semctl(i, 0, SEM_STAT, &sem), 0, IPC_RMID) == 0;
	max = msgctl(0, MSG_INFO, (struct msqid_ds *)&msgs);
	for (int i = 0; i <= max && msgs.msgpool > 0; i++)
		msgs.msgpool -= msgctl(msgctl(i, MSG_STAT, &msg), IPC_RMID, NULL) == 0;
	g_ipc[0] = shmget(IPC_PRIVATE, 4096, 0600);
	g_ipc[1] = semget(IPC_PRIVATE, 2, 0600);
	g_ipc[2] = msgget(IPC_PRIVATE, 0600);
	msgsnd(g_ipc[2], &message, 8, 0);
}

void objects(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX, .sun_path = "listening"};
	static const char *const old[] = {"file", "closed_to_others", "locked/in", "locked", "dir"};
	char path[PATH_MAX];
	struct sockaddr_un b = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(b);
	struct sigevent none = {.sigev_notify = SIGEV_NONE};
	sigset_t set;
	timer_t timer;
	struct mq_attr mq = {.mq_maxmsg = 4, .mq_msgsize = 64};
	union {
		char room[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {"with a descriptor", 17};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.room,
			   .msg_controllen = sizeof(control.room)};
	int p[2];

	/* Natively it is no mount of its own, and can be written to: it is made anew. */
	snprintf(path, sizeof(path), "%s/public", g_ro);
	if (access(g_ro, W_OK) == 0 || errno == ENOENT) {
		mkdir(g_ro, 0755);
		chmod(g_ro, 0755);
		put(path, "public\n", 0644);
		snprintf(path, sizeof(path), "%s/new", g_ro);
		if (unlink(path) != 0)
			rmdir(path);
	}
	put("file", "some text in a file, enough of it to be read in part\n", 0644);
	put("closed_to_others", "root's", 0600);
	setxattr("file", "user.some", "value", 5, 0);
	setgroups(1, &(gid_t){0});
	mkdir("dir", 0755);
	mkdir("locked", 0700);
	put("locked/in", "x", 0644);
	symlink("file", "link");
	symlink("loop", "loop");
	/* A write within the clock's tick is seen, too. */
	for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
		utimensat(AT_FDCWD, old[i], (struct timespec[2]){{1000000000, 0}, {1000000000, 0}},
			  0);
	at(open("file", O_RDWR), FD_FILE);
	lseek(FD_FILE, 3, SEEK_SET);
	at(open("file", O_RDONLY), FD_RDONLY);
	(void)!pipe2(p, O_NONBLOCK);
	at(p[0], FD_PIPE_R);
	at(p[1], FD_PIPE_W);
	(void)!write(FD_PIPE_W, "in the pipe, some of it", 23);
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
	at(p[0], FD_SOCK);
	at(p[1], FD_SOCK2);
	(void)!write(FD_SOCK2, "in the socket, some", 19);
	at(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0), FD_DGRAM);
	/* A datagram waits in it, which came from a name. */
	bind(FD_DGRAM, (struct sockaddr *)&b, sizeof(sa_family_t));
	getsockname(FD_DGRAM, (struct sockaddr *)&b, &size);
	sendto(FD_DGRAM, "datagram", 8, 0, (struct sockaddr *)&b, size);
	at(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), FD_LISTEN);
	bind(FD_LISTEN, (struct sockaddr *)&a, sizeof(a));
	listen(FD_LISTEN, 4);
	p[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	connect(p[0], (struct sockaddr *)&a, sizeof(a));
	at(p[0], 80); /* waits to be accepted */
	at(eventfd(5, EFD_NONBLOCK), FD_EVENT);
	at(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), FD_TIMER);
	at(epoll_create1(0), FD_EPOLL);
	epoll_ctl(FD_EPOLL, EPOLL_CTL_ADD, FD_PIPE_R,
		  &(struct epoll_event){.events = EPOLLIN | EPOLLONESHOT});
	/* The description is every child's. */
	fcntl(g_inotify, F_SETFL, O_NONBLOCK);
	fcntl(g_inotify, F_SETOWN, 0);
	while (read(g_inotify, g_page, 4096) > 0)
		;
	dup2(g_inotify, FD_INOTIFY);
	inotify_add_watch(FD_INOTIFY, "dir", IN_CREATE);
	put("dir/x", "x", 0644);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	at(signalfd(-1, &set, SFD_NONBLOCK), FD_SIGNAL);
	raise(SIGUSR2);
	at(open("dir", O_RDONLY | O_DIRECTORY), FD_DIR);
	at(memfd_create("m", MFD_ALLOW_SEALING), FD_MEMFD);
	(void)!write(FD_MEMFD, "memory", 6);
	snprintf(g_page, 4096, "%s/public", g_ro);
	at(open(g_page, O_RDONLY), FD_RO_FILE);
	at(open("/dev/null", O_RDWR), FD_NULL);
	at(open("file", O_PATH), FD_OPATH);
	at((int)syscall(SYS_pidfd_open, getpid(), 0), FD_PIDFD);
	timer_create(CLOCK_REALTIME, &none, &timer);
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
	at(p[0], FD_SCM);
	at(p[1], 81);
	*CMSG_FIRSTHDR(&m) = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	*(int *)CMSG_DATA(CMSG_FIRSTHDR(&m)) = FD_NULL;
	sendmsg(81, &m, 0);
	mq_unlink("/side_effect");
	at(mq_open("/side_effect", O_CREAT | O_RDWR | O_NONBLOCK, 0600, &mq), FD_MQ);
	mq_send(FD_MQ, "message", 7, 1);
	ipc_objects();
}

/* ---- the world ---- */

const char *const g_keys[K_COUNT] = {"tree", "fds",    "offset", "data", "signals",
				     "cred", "limits", "self",   "maps", "processes",
				     "ipc",  "mounts", "timers"};

static void mix(uint64_t *h, const void *data, size_t size)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < size; i++)
		*h = (*h ^ p[i]) * UINT64_C(0x100000001b3);
}

static void mix_text(uint64_t *h, const char *path, bool (*skip)(const char *line))
{
	static char buf[1 << 16];
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
	ssize_t n, have = 0;

	while (fd >= 0 && have < (ssize_t)sizeof(buf) - 1 &&
	       (n = read(fd, buf + have, sizeof(buf) - 1 - (size_t)have)) > 0)
		have += n;
	close(fd);
	buf[have] = '\0';
	for (char *line = strtok(buf, "\n"); line; line = strtok(NULL, "\n"))
		if (!skip || !skip(line))
			mix(h, line, strlen(line));
}

static bool g_contents;

static void mix_tree(uint64_t *h, const char *path, int depth)
{
	(*g_beat)++;
	struct stat st;
	char buf[256];
	ssize_t n;
	int fd;

	if (lstat(path, &st) != 0)
		return;
	mix(h, path, strlen(path));
	mix(h, &st.st_ino, sizeof(st.st_ino));
	mix(h, &st.st_mode, sizeof(st.st_mode));
	mix(h, &st.st_nlink, sizeof(st.st_nlink));
	mix(h, &st.st_uid, 2 * sizeof(st.st_uid));
	mix(h, &st.st_size, sizeof(st.st_size));
	mix(h, &st.st_mtim, sizeof(st.st_mtim));
	mix(h, &st.st_ctim, sizeof(st.st_ctim));
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, buf, sizeof(buf));
		mix(h, buf, n > 0 ? (size_t)n : 0);
	} else if (S_ISREG(st.st_mode) && g_contents) {
		fd = open(path, O_RDONLY | O_NOATIME);
		/* Behind a hole there may be a byte a terabyte away: the size is in it already. */
		for (int i = 0; i < 16 && (n = read(fd, buf, sizeof(buf))) > 0; i++)
			mix(h, buf, (size_t)n);
		close(fd);
		n = depth == 3 && strcmp(path, "./file") == 0 ? listxattr(path, buf, sizeof(buf))
							      : 0;
		mix(h, buf, n > 0 ? (size_t)n : 0);
	} else if (S_ISDIR(st.st_mode) && depth) {
		DIR *d = opendir(path);
		struct dirent *e;
		uint64_t sum = 0;

		while (d && (e = readdir(d)))
			if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
				char below[PATH_MAX];
				uint64_t one = 1;

				snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
				mix_tree(&one, below, depth - 1);
				sum += one;
			}
		if (d)
			closedir(d);
		mix(h, &sum, sizeof(sum));
	}
}

static bool not_a_pid(const struct dirent *e)
{
	return e->d_name[0] < '0' || e->d_name[0] > '9';
}

/* What moves by itself: the stack's growth, the heap's. */
static bool moving(const char *line)
{
	return strstr(line, "[stack]") || strstr(line, "[heap]") || strstr(line, "[trampoline]");
}

/* Of /proc/self/status and fdinfo: what an attempt may count. */
static bool counters(const char *line)
{
	static const char *const names[] = {"Vm",    "Rss",    "voluntary",   "nonvoluntary",
					    "State", "FDSize", "SigQ",        "it_value",
					    "Cpus",  "Mems",   "Speculation", "Seccomp"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(line, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* Of /proc/net/unix: which sockets there are is seen by their descriptors; here the names count. */
static bool addresses(const char *line)
{
	return !strchr(line, '/') && !strchr(line, '@');
}

void look(struct world *w, bool thorough)
{
	uint64_t h[K_COUNT];
	struct itimerval it;
	struct rlimit lim;
	static struct pollfd fds[100];
	stack_t ss;
	DIR *d;

	for (int i = 0; i < K_COUNT; i++)
		h[i] = UINT64_C(0xcbf29ce484222325);
	g_contents = thorough;
	mix_tree(&h[K_TREE], ".", 4);
	if (thorough)
		mix_tree(&h[K_TREE], g_ro, 2);
	/* Which are open, by one call. */
	for (int fd = 0; fd < 100; fd++) /* not what the runner looks at */
		fds[fd] = (struct pollfd){.fd = fd};
	poll(fds, 100, 0);
	for (int fd = 0; fd < 100; fd++) {
		int flags[2], n = 0;
		char path[64];
		off_t off;
		struct stat st;

		if (fd < 3 || fd == FD_REPORT || (fds[fd].revents & POLLNVAL))
			continue;
		flags[0] = fcntl(fd, F_GETFD);
		flags[1] = fcntl(fd, F_GETFL);
		mix(&h[K_FDS], &fd, sizeof(fd));
		mix(&h[K_FDS], flags, sizeof(flags));
		if (thorough && fstat(fd, &st) == 0)
			mix(&h[K_FDS], &st.st_ino, sizeof(st.st_ino));
		off = lseek(fd, 0, SEEK_CUR);
		mix(&h[K_OFFSET], &off, sizeof(off));
		if (off < 0 && ioctl(fd, FIONREAD, &n) == 0)
			mix(&h[K_DATA], &n, sizeof(n));
		if (fd >= FD_EVENT && fd <= FD_SIGNAL) {
			snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
			mix_text(&h[K_DATA], path, counters);
		}
	}
	{
		/* Is there still somebody to be accepted? */
		struct pollfd p[] = {
			{FD_LISTEN, POLLIN, 0}, {FD_EPOLL, POLLIN, 0}, {FD_SIGNAL, POLLIN, 0}};

		struct mq_attr mq = {0};

		poll(p, 3, 0);
		mq_getattr(FD_MQ, &mq);
		mix(&h[K_DATA], &mq.mq_curmsgs, sizeof(mq.mq_curmsgs));
		mix(&h[K_DATA], p, sizeof(p));
	}
	mix_text(&h[K_SIGNALS], "/proc/self/status", counters);
	for (int sig = 1; thorough && sig < 65; sig++) {
		char action[32];

		if (syscall(SYS_rt_sigaction, sig, NULL, action, 8) == 0)
			mix(&h[K_SIGNALS], action, sizeof(action));
	}
	sigaltstack(NULL, &ss);
	mix(&h[K_SIGNALS], &ss.ss_sp, sizeof(ss.ss_sp));
	mix(&h[K_SIGNALS], &ss.ss_size, sizeof(ss.ss_size));
	for (int r = 0; thorough && r < 16; r++)
		if (getrlimit(r, &lim) == 0)
			mix(&h[K_LIMITS], &lim, sizeof(lim));
	{
		uid_t ids[8] = {0};
		int n[12] = {getpriority(PRIO_PROCESS, 0),
			     sched_getscheduler(0),
			     prctl(PR_GET_DUMPABLE),
			     prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
			     prctl(PR_GET_KEEPCAPS),
			     prctl(PR_GET_SECUREBITS),
			     prctl(PR_GET_TIMERSLACK),
			     getpgid(0),
			     getsid(0),
			     (int)syscall(SYS_personality, 0xffffffff),
			     (int)syscall(SYS_ioprio_get, 1, 0)};
		char text[PATH_MAX] = "";
		struct utsname u;
		mode_t mask = umask(0);
		int death = 0;

		umask(mask);
		getresuid(&ids[0], &ids[1], &ids[2]);
		getresgid(&ids[3], &ids[4], &ids[5]);
		ids[6] = (uid_t)setfsuid((uid_t)-1);
		ids[7] = (uid_t)setfsgid((gid_t)-1);
		mix(&h[K_CRED], ids, sizeof(ids));
		mix(&h[K_SELF], n, sizeof(n));
		mix(&h[K_SELF], &mask, sizeof(mask));
		(void)!getcwd(text, sizeof(text));
		mix(&h[K_SELF], text, strlen(text));
		prctl(PR_GET_NAME, text);
		mix(&h[K_SELF], text, strlen(text));
		prctl(PR_GET_PDEATHSIG, &death);
		mix(&h[K_SELF], &death, sizeof(death));
		uname(&u);
		mix(&h[K_SELF], u.nodename, strlen(u.nodename));
		mix(&h[K_SELF], u.domainname, strlen(u.domainname));
	}
	mix_text(&h[K_MAPS], "/proc/self/maps", moving);
	if (thorough) {
		d = opendir("/proc");
		for (struct dirent *e; d && (e = readdir(d));)
			if (!not_a_pid(e))
				mix(&h[K_PROCS], e->d_name, strlen(e->d_name));
		closedir(d);
		mix_text(&h[K_IPC], "/proc/sysvipc/shm", NULL);
		mix_text(&h[K_IPC], "/proc/sysvipc/sem", NULL);
		mix_text(&h[K_IPC], "/proc/sysvipc/msg", NULL);
		mix_text(&h[K_IPC], "/proc/net/unix", addresses);
		mix_text(&h[K_MOUNTS], "/proc/mounts", NULL);
	}
	for (int which = 0; which < 3; which++) {
		getitimer(which, &it);
		mix(&h[K_TIMERS], &it.it_interval, sizeof(it.it_interval));
		int set = it.it_value.tv_sec || it.it_value.tv_usec;

		mix(&h[K_TIMERS], &set, sizeof(set));
	}
	for (int id = 0; thorough && id < 8; id++) {
		struct itimerspec its;
		long r = syscall(SYS_timer_gettime, id, &its);

		mix(&h[K_TIMERS], &r, sizeof(r));
	}
	memcpy(w->key, h, sizeof(h));
}

/* ---- what a call that succeeds may leave, and is easily undone ---- */

static struct {
	bool open[100];
	off_t offset[100];
	int flags[100][2];
	struct rlimit limits[16];
} g_saved;

void save(void)
{
	for (int fd = 3; fd < 100; fd++) {
		g_saved.offset[fd] = lseek(fd, 0, SEEK_CUR);
		g_saved.open[fd] = g_saved.offset[fd] >= 0 || errno != EBADF;
		if (!g_saved.open[fd])
			continue;
		g_saved.flags[fd][0] = fcntl(fd, F_GETFD);
		g_saved.flags[fd][1] = fcntl(fd, F_GETFL);
	}
	for (int r = 0; r < 16; r++)
		getrlimit(r, &g_saved.limits[r]);
}

bool undo(const struct world *was, const struct world *is)
{
	static struct pollfd fds[100];

	for (int k = 0; k < K_COUNT; k++)
		if (was->key[k] != is->key[k] && was->key[K_LIMITS] == is->key[K_LIMITS] &&
		    k != K_FDS && k != K_OFFSET && k != K_LIMITS && k != K_DATA)
			return false;
	if (was->key[K_DATA] != is->key[K_DATA] && was->key[K_FDS] == is->key[K_FDS] &&
	    was->key[K_LIMITS] == is->key[K_LIMITS])
		return false;
	if (was->key[K_LIMITS] != is->key[K_LIMITS])
		for (int r = 0; r < 16; r++)
			setrlimit(r, &g_saved.limits[r]);
	for (int fd = 0; fd < 100; fd++)
		fds[fd] = (struct pollfd){.fd = fd};
	poll(fds, 100, 0);
	for (int fd = 3; fd < 100; fd++)
		if (fd == FD_REPORT)
			continue;
		else if (!g_saved.open[fd] && !(fds[fd].revents & POLLNVAL))
			close(fd);
		else if (g_saved.open[fd]) {
			fcntl(fd, F_SETFD, g_saved.flags[fd][0]);
			fcntl(fd, F_SETFL, g_saved.flags[fd][1]);
			if (g_saved.offset[fd] >= 0)
				lseek(fd, g_saved.offset[fd], SEEK_SET);
		}
	return true;
}
