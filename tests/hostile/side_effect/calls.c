/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a row of the syscall table that side_effect makes: with good arguments, and with
 * each argument bad in each of the ways that its kind has.
 */
#include "side_effect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

bool is_pointer(const struct argdesc *d)
{
	switch (d->kind) {
	case AK_PTR:
		return d->dir != DIR_VALUE;
	case AK_PATH:
	case AK_STR:
	case AK_STRV:
	case AK_ENVV:
	case AK_BUF:
	case AK_STRUCT:
	case AK_ARRAY:
	case AK_IOV:
	case AK_IOV_REMOTE:
	case AK_SOCKADDR:
	case AK_MSGHDR:
	case AK_FDSET:
	case AK_DIRENTS:
	case AK_CPUMASK:
	case AK_WSTATUS:
	case AK_CLONEARGS:
	case AK_OPENHOW:
	case AK_IOCTLARG:
	case AK_FCNTLARG:
	case AK_FUTEXTIME:
		return true;
	default:
		return false;
	}
}

/* Is path argument @arg the name of what is to be made? */
static bool makes_a_name(const struct row *r, int arg)
{
	static const char *const only[] = {"mkdir", "mkdirat", "mknod", "mknodat", "creat", NULL};
	static const char *const second[] = {"link",   "linkat",   "symlink",   "symlinkat",
					     "rename", "renameat", "renameat2", NULL};
	bool another = false;

	for (int i = 0; i < arg; i++)
		another |= r->args[i].kind == AK_PATH;
	return among(only, r->name) || (another && among(second, r->name));
}

/* A message of 8 bytes; its parts are in the second half of the page. */
static void message(void *mem)
{
	struct iovec *iov = (struct iovec *)(g_page + 3072);

	*iov = (struct iovec){g_page + 2048, 8};
	*(struct msghdr *)mem = (struct msghdr){.msg_iov = iov, .msg_iovlen = 1};
}

/* The kind of descriptor that a row is for. */
static int natural_fd(const struct row *r)
{
	static const struct {
		const char *part;
		int fd;
	} kinds[] = {
		{"accept", FD_LISTEN},    {"listen", FD_LISTEN},    {"getsockname", FD_LISTEN},
		{"getpeername", FD_SOCK}, {"recv", FD_SOCK},        {"send", FD_SOCK},
		{"sockopt", FD_SOCK},     {"shutdown", FD_SOCK},    {"connect", FD_DGRAM},
		{"epoll_", FD_EPOLL},     {"inotify_", FD_INOTIFY}, {"timerfd_", FD_TIMER},
		{"mq_", FD_MQ},           {"pidfd_", FD_PIDFD},     {"process_m", FD_PIDFD},
		{"signalfd", -1},         {"getdents", FD_DIR},     {"fchdir", FD_DIR},
	};

	if (strcmp(r->name, "sendfile") == 0)
		return FD_FILE;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strstr(r->name, kinds[i].part))
			return kinds[i].fd;
	return FD_FILE;
}

/* Words of the memory that a row's arguments lead to, or arguments (@word < 0), that are not as the
 * kinds say. */
static void good_words(const struct row *r, uint64_t a[6])
{
	static const struct {
		const char *row;
		int arg, word;
		uint64_t value;
	} words[] = {
		{"timer_create", 1, 1, UINT64_C(1) << 32}, /* SIGEV_NONE */
		{"openat2", 3, -1, 24},
		{"getxattrat", 5, -1, 16},
		{"setxattrat", 5, -1, 16},
		{"inotify_add_watch", 2, -1, 0x100},
		{"flock", 1, -1, 1},
		{"set_robust_list", 1, -1, 24},
		{"rt_sigtimedwait", 0, 0, 1 << (SIGUSR2 - 1)},
		{"wait4", 0, -1, UINT64_MAX},
		{"wait4", 2, -1, 1},
		{"waitid", 3, -1, 5},
		{"mq_timedreceive", 2, -1, 64},
		{"msgrcv", 2, -1, 64},
		{"msgrcv", 4, -1, 04000},
		{"msgsnd", 3, -1, 04000},
		{"msgsnd", 1, 0, 1},
		{"sched_getattr", 2, -1, 48},
		{"sched_setattr", 1, 0, 48},
		{"futex_wait", 2, -1, UINT32_MAX},
		{"futex_wait", 3, -1, 2},
		{"futex_wait", 5, -1, 1},
		{"futex_wake", 1, -1, UINT32_MAX},
		{"futex_wake", 3, -1, 2},
		{"futex_waitv", 0, 2, 2},
		{"futex_waitv", 4, -1, 1},
		{"futex_requeue", 0, 2, 2},
		{"futex_requeue", 0, 5, 2},
		{"clone3", 1, -1, 64},
		{"capget", 0, 0, 0x20080522},
		{"capset", 0, 0, 0x20080522},
		{"getcwd", 1, -1, 256},
		{"getdents", 2, -1, 200},
		{"getdents64", 2, -1, 200},
		{"mq_notify", 1, 1, UINT64_C(1) << 32}, /* SIGEV_NONE */
		{"sigaltstack", 0, 1, 2},               /* SS_DISABLE */
		{"getsockopt", 4, 0, 16},
		{"socket", 1, -1, SOCK_STREAM},
		{"socketpair", 1, -1, SOCK_STREAM},
		{"getgroups", 0, -1, 16},
		{"setgroups", 0, -1, 2},
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].row, r->name) == 0) {
			if (words[i].word < 0)
				a[words[i].arg] = words[i].value;
			else
				((uint64_t *)(g_page + words[i].arg * 256))[words[i].word] =
					words[i].value;
		}
	if (strcmp(r->name, "ustat") == 0) {
		struct stat st = {0};

		stat(".", &st);
		a[0] = (uint32_t)st.st_dev;
	} else if (strcmp(r->name, "futex_waitv") == 0 || strcmp(r->name, "futex_requeue") == 0) {
		((uint64_t *)g_page)[1] = ((uint64_t *)g_page)[4] =
			(uint64_t)(uintptr_t)(g_page + 2048);
	} else if (strcmp(r->name, "getxattrat") == 0 || strcmp(r->name, "setxattrat") == 0) {
		((uint64_t *)(g_page + 4 * 256))[0] = (uint64_t)(uintptr_t)(g_page + 2048);
		((uint64_t *)(g_page + 4 * 256))[1] = 8;
	}
}

/* The good arguments. Each pointer has 256 bytes of its own. */
static void good(const struct row *r, uint64_t a[6])
{
	memset(g_page, 0, 4096);
	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];
		char *mem = g_page + i * 256;

		switch (d->kind) {
		case AK_FD:
			a[i] = (uint64_t)(int64_t)natural_fd(r);
			break;
		case AK_DIRFD:
			a[i] = (uint64_t)AT_FDCWD;
			break;
		case AK_PID:
			a[i] = (uint64_t)getpid();
			break;
		case AK_MODE:
		case AK_OMODE:
		case AK_FMODE:
			a[i] = 0644;
			break;
		case AK_SIG:
			a[i] = strstr(r->name, "sigaction") ? SIGUSR1 : 0;
			break;
		case AK_FLAGS:
			a[i] = strcmp(r->names[i], "prot") == 0 ? 1 : 0;
			break;
		case AK_CLONEFLAGS:
			a[i] = SIGCHLD | 0x00100000 | 0x01000000;
			break;
		case AK_INT:
		case AK_UINT:
		case AK_LONG:
		case AK_ULONG:
			a[i] = strcmp(r->names[i], "flags") == 0     ? 0
			       : strcmp(r->names[i], "shmid") == 0   ? (uint64_t)g_ipc[0]
			       : strcmp(r->names[i], "semid") == 0   ? (uint64_t)g_ipc[1]
			       : strcmp(r->names[i], "msqid") == 0   ? (uint64_t)g_ipc[2]
			       : strcmp(r->names[i], "timerid") == 0 ? 0
								     : 1;
			break;
		case AK_UID:
			a[i] = 0;
			break;
		case AK_STR:
			strcpy(mem, strstr(r->name, "xattr") ? "user.some"
				    : strstr(r->name, "mq_") ? "side_effect"
							     : "name");
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		case AK_MSGHDR:
		case AK_ARRAY:
			if (d->kind == AK_MSGHDR || d->set == ST_mmsghdr)
				message(mem);
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		case AK_PATH:
			strcpy(mem, makes_a_name(r, i)                     ? "new"
				    : strncmp(r->name, "exec", 4) == 0     ? "/proc/self/exe"
				    : strncmp(r->name, "readlink", 8) == 0 ? "link"
									   : "file");
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		case AK_STRV:
		case AK_ENVV:
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		case AK_SOCKADDR:
			*(sa_family_t *)mem = AF_UNIX;
			strcpy(mem + 2, "new_socket");
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		case AK_IOV:
		case AK_IOV_REMOTE:
			((uint64_t *)mem)[0] = (uint64_t)(uintptr_t)(g_page + 2048);
			((uint64_t *)mem)[1] = 8;
			a[i] = (uint64_t)(uintptr_t)mem;
			break;
		default:
			a[i] = is_pointer(d) ? (uint64_t)(uintptr_t)mem : 0;
			break;
		}
	}
	/* Sizes of what is pointed to. */
	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];

		if ((d->bytes == SZ_ARG || d->bytes == SZ_RET) && d->link < r->nargs)
			a[d->link] = d->size > 1 ? 1 : d->kind == AK_SOCKADDR ? 13 : 16;
		if (d->kind == AK_FDSET)
			a[0] = 64;
		if (strcmp(r->names[i], "sigsetsize") == 0 || strcmp(r->names[i], "sizemask") == 0)
			a[i] = 8;
		if (d->kind == AK_SOCKADDR && d->dir == DIR_OUT)
			*(int *)(g_page + d->link * 256) = 16;
	}
	good_words(r, a);
}

/* Makes a call with the word at @word, which an argument of it leads to, bad in each way. */
static void bad_words(const struct row *r, const uint64_t a[6], int arg, uint64_t *word,
		      const char *what, const char *name)
{
	const uint64_t was = *word;
	const struct {
		const char *name;
		uint64_t value;
	} bad[] = {
		{"nowhere", 0x10},
		{"half", (uint64_t)(uintptr_t)(g_edge - 4)},
		{"read-only", (uint64_t)(uintptr_t)g_readonly},
		{"kernel", UINT64_C(0xffff800000000000)},
		{"huge", UINT64_MAX},
	};
	char text[160];

	for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
		*word = bad[b].value;
		snprintf(text, sizeof(text), "%s %s: %s=%s", what, r->names[arg], name,
			 bad[b].name);
		step(r, a, W_INSIDE, arg, text);
		*word = was;
	}
}

/* Messages: each of their pointers and sizes. */
static void bad_messages(const struct row *r, const uint64_t base[6], int arg, const char *what)
{
	struct msghdr *m = (struct msghdr *)(g_page + arg * 256);
	struct cmsghdr *c = (struct cmsghdr *)(g_page + 3200);
	uint64_t a[6];
	char text[160];

	memcpy(a, base, sizeof(a));
	for (int second = 0; second <= (r->args[arg].kind == AK_ARRAY); second++) {
		if (second) {
			/* The first is good, and has been dealt with when the second is looked at.
			 */
			message(m);
			m = (struct msghdr *)(g_page + arg * 256 + r->args[arg].size);
			a[r->args[arg].link] = 2;
			what = "the second";
		}
		message(m);
		m->msg_control = g_page + 3200;
		m->msg_controllen = 64;
		memset(c, 0, 64);
		*c = (struct cmsghdr){CMSG_LEN(4), SOL_SOCKET, SCM_RIGHTS};
		*(int *)CMSG_DATA(c) = FD_NULL;
		m->msg_name = g_page + 3328;
		m->msg_namelen = 100;
		bad_words(r, a, arg, (uint64_t *)&m->msg_control, what, "control");
		bad_words(r, a, arg, (uint64_t *)&m->msg_controllen, what, "controllen");
		bad_words(r, a, arg, (uint64_t *)&m->msg_name, what, "name");
		bad_words(r, a, arg, (uint64_t *)&m->msg_iov, what, "iov");
		bad_words(r, a, arg, (uint64_t *)&m->msg_iovlen, what, "iovlen");
		bad_words(r, a, arg, (uint64_t *)&m->msg_iov->iov_base, what, "buffer");
		bad_words(r, a, arg, (uint64_t *)&m->msg_iov->iov_len, what, "length");
		*(int *)CMSG_DATA(c) = FD_CLOSED;
		snprintf(text, sizeof(text), "%s %s: a closed descriptor is sent", what,
			 r->names[arg]);
		step(r, a, W_INSIDE, arg, text);
		c->cmsg_len = 1000;
		snprintf(text, sizeof(text), "%s %s: too long a control message", what,
			 r->names[arg]);
		step(r, a, W_INSIDE, arg, text);
	}
}

/* Pointers behind pointers. */
static void bad_inside(const struct row *r, const uint64_t base[6], const char *what)
{
	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];
		uint64_t a[6], *mem = (uint64_t *)(g_page + i * 256);
		char text[160];

		memcpy(a, base, sizeof(a));
		switch (d->kind) {
		case AK_IOV:
		case AK_IOV_REMOTE:
			mem[0] = (uint64_t)(uintptr_t)(g_edge - 4);
			mem[1] = 8;
			snprintf(text, sizeof(text), "%s %s: buffer half", what, r->names[i]);
			step(r, a, W_INSIDE, i, text);
			mem[0] = 0x10;
			snprintf(text, sizeof(text), "%s %s: buffer nowhere", what, r->names[i]);
			step(r, a, W_INSIDE, i, text);
			a[d->link] = 2;
			mem[0] = (uint64_t)(uintptr_t)(g_page + 2048);
			mem[1] = 4;
			mem[2] = 0x10;
			mem[3] = 4;
			snprintf(text, sizeof(text), "%s %s: second buffer nowhere", what,
				 r->names[i]);
			step(r, a, W_INSIDE, i, text);
			mem[3] = UINT64_MAX;
			snprintf(text, sizeof(text), "%s %s: second length", what, r->names[i]);
			step(r, a, W_INSIDE, i, text);
			a[d->link] = 1025;
			snprintf(text, sizeof(text), "%s %s: too many", what, r->names[i]);
			step(r, a, W_INSIDE, i, text);
			break;
		case AK_STRV:
		case AK_ENVV:
			for (int k = 0; k < r->nargs; k++)
				if (r->args[k].kind == AK_PATH)
					strcpy(g_page + k * 256, "/proc/self/exe");
			mem[0] = (uint64_t)(uintptr_t)g_page;
			bad_words(r, a, i, &mem[1], what, "second string");
			break;
		case AK_MSGHDR:
			if (a[0] == FD_SOCK || a[0] == FD_DGRAM || a[0] == FD_SCM)
				bad_messages(r, a, i, what);
			break;
		case AK_ARRAY:
			if (d->set == ST_mmsghdr &&
			    (a[0] == FD_SOCK || a[0] == FD_DGRAM || a[0] == FD_SCM))
				bad_messages(r, a, i, what);
			if (d->set == ST_futex_waitv)
				bad_words(r, a, i, &mem[1], what, "address");
			break;
		case AK_STRUCT:
			if (d->set == ST_sigset_arg) {
				mem[0] = (uint64_t)(uintptr_t)(g_page + 2048);
				mem[1] = 8;
				bad_words(r, a, i, &mem[0], what, "set");
				bad_words(r, a, i, &mem[1], what, "size");
			} else if (d->set == ST_xattr_args) {
				mem[0] = (uint64_t)(uintptr_t)(g_page + 2048);
				mem[1] = 8;
				a[i + 1] = 16;
				bad_words(r, a, i, &mem[0], what, "value");
				bad_words(r, a, i, &mem[1], what, "size and flags");
			}
			break;
		case AK_CLONEARGS:
			/* CLONE_PIDFD, CLONE_PARENT_SETTID, CLONE_CHILD_SETTID; pidfd, child_tid,
			 * parent_tid */
			mem[0] = 0x00001000 | 0x00100000 | 0x01000000;
			mem[1] = (uint64_t)(uintptr_t)(g_page + 2048);
			mem[2] = mem[1] + 8;
			mem[3] = mem[1] + 16;
			mem[4] = SIGCHLD;
			a[i + 1] = 88;
			for (int k = 0; k < 11; k++) {
				snprintf(text, sizeof(text), "word %d", k);
				bad_words(r, a, i, &mem[k], what, text);
			}
			break;
		case AK_OPENHOW:
			a[i + 1] = 24;
			for (int k = 0; k < 3; k++) {
				snprintf(text, sizeof(text), "word %d", k);
				bad_words(r, a, i, &mem[k], what, text);
			}
			a[i + 1] = 32;
			mem[3] = 1;
			step(r, a, W_INSIDE, i, "how: more than is known");
			break;
		default:
			break;
		}
	}
}

static void bad_pointers(const struct row *r, const uint64_t base[6], const char *what, bool all)
{
	uint64_t ignored[6];

	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];
		uint64_t a[6];
		char text[160];
		unsigned size = d->size > 1 ? d->size : 16;

		if (!is_pointer(d))
			continue;
		const struct {
			const char *name;
			uint64_t value;
		} bad[] = {
			{"nowhere", 0x10},
			{"half", (uint64_t)(uintptr_t)(g_edge - size / 2)},
			{"read-only", (uint64_t)(uintptr_t)g_readonly + (uint64_t)i * 256},
			{"kernel", UINT64_C(0xffff800000000000)},
			{"beyond", UINT64_C(0x7ffffffff000)},
			{"first byte", (uint64_t)(uintptr_t)(g_edge - 1)},
		};
		for (size_t b = 0; b < (all ? sizeof(bad) / sizeof(bad[0]) : 3); b++) {
			memcpy(a, base, sizeof(a));
			good(r, ignored);
			memcpy(g_edge - 256, g_page + i * 256, 256);
			if (b == 1)
				memcpy(g_edge - size / 2, g_page + i * 256, size / 2);
			a[i] = bad[b].value;
			snprintf(text, sizeof(text), "%s %s=%s", what, r->names[i], bad[b].name);
			step(r, a, W_POINTER, i, text);
		}
	}
}

static void bad_paths(const struct row *r, const uint64_t base[6], int arg,
		      const char *const *paths)
{
	uint64_t a[6];
	char text[160];

	for (int k = 0; paths[k]; k++) {
		memcpy(a, base, sizeof(a));
		a[arg] = (uint64_t)(uintptr_t)paths[k];
		snprintf(text, sizeof(text), "%s=path%d", r->names[arg], k);
		step(r, a, W_PATH, arg, text);
	}
}

static void bad_values(const struct row *r, const uint64_t base[6])
{
	static const int fds[] = {-1, FD_CLOSED, FD_OPATH, 1 << 30};
	static const uint64_t bits[] = {1u << 30, 1u << 27, 0x80000000u, UINT32_MAX};
	static const uint64_t words[] = {UINT64_MAX, UINT64_C(1) << 63, 99999, UINT64_C(1) << 40};
	static const uint64_t ids[] = {UINT32_MAX, UINT32_MAX - 1, 70000, 1u << 31};
	static const uint64_t addresses[] = {1, UINT64_C(0xffff800000000000),
					     UINT64_C(0x7ffffffff000), ~UINT64_C(4095)};
	char ro_file[PATH_MAX], ro_new[PATH_MAX], far[5000], name[300];

	snprintf(ro_file, sizeof(ro_file), "%s/public", g_ro);
	snprintf(ro_new, sizeof(ro_new), "%s/new", g_ro);
	memset(far, 'a', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	const char *const paths[] = {ro_file, ro_new,  far,      "",     "nodir/x", "file/x",
				     "dir",   "link/", "dir/x/", "loop", "loop/x",  "/proc/self/x",
				     "/",     ".",     name,     g_ro,   NULL};

	for (int i = 0; i < r->nargs; i++) {
		const struct argdesc *d = &r->args[i];
		uint64_t a[6];
		char text[160];

		for (int k = 0; k < 4; k++) {
			enum wrong wrong = W_VALUE;

			memcpy(a, base, sizeof(a));
			if (d->kind == AK_FD || d->kind == AK_DIRFD) {
				wrong = k == 2 ? W_VALUE : W_FD;
				a[i] = (uint64_t)(int64_t)fds[k];
				/* An absolute name would need none. */
				if (strcmp(r->name, "execveat") == 0)
					strcpy(g_page + 256, "file");
			} else if (d->kind == AK_FLAGS || d->kind == AK_INT || d->kind == AK_UINT ||
				   d->kind == AK_ENUM || d->kind == AK_FMODE ||
				   d->kind == AK_HEX32) {
				wrong = d->kind == AK_FLAGS ? W_FLAGS : W_VALUE;
				a[i] = bits[k];
			} else if (d->kind == AK_ULONG || d->kind == AK_LONG || d->kind == AK_SIG ||
				   d->kind == AK_PID || d->kind == AK_CLOCKID || d->kind == AK_HEX)
				a[i] = words[k];
			else if (d->kind == AK_UID)
				a[i] = ids[k];
			else if (d->kind == AK_PTR && d->dir == DIR_VALUE)
				a[i] = addresses[k];
			else
				continue;
			snprintf(text, sizeof(text), "%s=bad%d", r->names[i], k);
			step(r, a, wrong, i, text);
		}
		if (d->kind == AK_IPCKEY) {
			memcpy(a, base, sizeof(a));
			a[i] = 0x5eed;
			step(r, a, W_VALUE, i, "no such key");
		} else if (d->kind == AK_PATH) {
			bad_paths(r, base, i, paths);
			if (r->args[(i + 1) % 6].kind == AK_FLAGS &&
			    r->args[(i + 1) % 6].set == FS_open)
				for (int k = 0; k < 2; k++) {
					memcpy(a, base, sizeof(a));
					a[i] = (uint64_t)(uintptr_t)paths[k];
					a[i + 1] = O_WRONLY | O_CREAT;
					step(r, a, W_PATH, i,
					     k ? "to be made in what is read-only"
					       : "read-only for writing");
				}
			if (r->args[(i + 1) % 6].kind == AK_OPENHOW) {
				memcpy(a, base, sizeof(a));
				a[i] = (uint64_t)(uintptr_t)ro_file;
				*(uint64_t *)(g_page + (i + 1) * 256) = O_WRONLY;
				step(r, a, W_PATH, i, "read-only for writing");
			}
			/* Both names in what is read-only. */
			for (int k = i + 1; k < r->nargs; k++)
				if (r->args[k].kind == AK_PATH) {
					memcpy(a, base, sizeof(a));
					a[i] = (uint64_t)(uintptr_t)ro_file;
					a[k] = (uint64_t)(uintptr_t)ro_new;
					step(r, a, W_PATH, i, "both in what is read-only");
				}
		} else if (d->kind == AK_SOCKADDR && d->dir == DIR_IN && d->link < r->nargs) {
			char *mem = g_page + i * 256;
			const char *const names[] = {ro_new, "nodir/x", "file/x",
						     "dir",  "file",    "loop"};

			for (size_t k = 0; k < 6 + 4; k++) {
				static const uint64_t sizes[] = {0, 2, 111, UINT32_MAX};

				memcpy(a, base, sizeof(a));
				if (k < 6) {
					snprintf(mem + 2, 106, "%s", names[k]);
					a[d->link] = 2 + strlen(mem + 2) + 1;
				} else {
					a[d->link] = sizes[k - 6];
				}
				for (int fd = FD_SOCK2; fd <= FD_LISTEN; fd++) {
					a[0] = (uint64_t)fd;
					snprintf(text, sizeof(text), "fd %d %s=address%zu", fd,
						 r->names[i], k);
					step(r, a, W_VALUE, i, text);
				}
			}
			*(sa_family_t *)mem = 77;
			step(r, base, W_VALUE, i, "another family");
		}
	}
}

void row_calls(const struct row *r, enum mode mode)
{
	static const unsigned ioctls[] = {0x5421 /* FIONBIO */,
					  0x5452 /* FIOASYNC */,
					  0x541b,
					  0x5411,
					  0x5402,
					  0x5414,
					  0x5410,
					  0x540e,
					  0x5412,
					  0x5450,
					  0x5451,
					  0x80045430,
					  0x40045431,
					  0x40049409,
					  0x4020940d};
	static const char *const locked[] = {"locked/in", "locked/new", "closed_to_others", "new",
					     NULL};
	uint64_t a[6] = {0}, b[6] = {0}, ignored[6];
	int fd_arg = -1, enum_arg = -1, fd_arg2 = -1, option = -1;

	for (int i = r->nargs - 1; i >= 0; i--) {
		if (r->args[i].kind == AK_FD) {
			fd_arg2 = fd_arg;
			fd_arg = i;
		}
		if (r->args[i].kind == AK_ENUM || r->args[i].kind == AK_IOCTL ||
		    r->args[i].kind == AK_FUTEXOP)
			enum_arg = i;
		if (r->args[i].kind == AK_SOCKOPT)
			option = i;
	}
	good(r, a);
	step(r, a, W_NOTHING, -1, "good");
	if (mode == MODE_ROOT && !g_padding)
		bad_values(r, a);
	if (mode == MODE_USER)
		for (int i = 0; i < r->nargs; i++)
			if (r->args[i].kind == AK_PATH)
				bad_paths(r, a, i, locked);
	if (option >= 0 && !g_padding)
		for (unsigned v = 0; v < 80; v++) {
			char text[64];

			good(r, b);
			b[0] = FD_SOCK;
			b[option - 1] = SOL_SOCKET;
			b[option] = v;
			snprintf(text, sizeof(text), "option %u", v);
			step(r, b, W_NOTHING, -1, text);
			if (mode == MODE_ROOT && (v == SO_RCVTIMEO || v == SO_PEERCRED ||
						  v == SO_LINGER || v == SO_TYPE || v == SO_SNDBUF))
				bad_pointers(r, b, text, true);
		}
	/* AT_EMPTY_PATH and kin aside, each kind of descriptor and each value of an enumeration. */
	for (int fd = fd_arg < 0 ? FD_ALL - 1 : FD_FILE; fd < FD_ALL; fd++) {
		unsigned values = enum_arg < 0 ? 1
				  : r->args[enum_arg].kind == AK_IOCTL
					  ? sizeof(ioctls) / sizeof(ioctls[0])
					  : 40;

		/* Both together would be many; what differs by descriptor does so for the first
		 * values. */
		if (fd_arg >= 0 && fd != FD_FILE && fd != FD_SOCK && values > 4)
			values = 4;
		for (unsigned v = 0; v < values; v++) {
			char text[64];

			memcpy(b, a, sizeof(b));
			if (fd_arg >= 0)
				b[fd_arg] = (uint64_t)fd;
			if (fd_arg2 >= 0)
				b[fd_arg2] = fd == FD_FILE ? FD_PIPE_R : FD_FILE;
			if (enum_arg >= 0)
				b[enum_arg] = r->args[enum_arg].kind == AK_IOCTL ? ioctls[v] : v;
			snprintf(text, sizeof(text), "fd %d value %u", fd_arg < 0 ? -1 : fd, v);
			good(r, ignored); /* what the last call wrote */
			if (g_padding || mode != MODE_ROOT) {
				step(r, b, W_NOTHING, -1, text);
			} else {
				bad_pointers(r, b, text, v < 2);
				if (v < 2) {
					good(r, ignored);
					bad_inside(r, b, text);
				}
			}
		}
	}
	for (int i = 0; mode == MODE_ROOT && i < r->nargs; i++)
		if (r->args[i].kind == AK_CLONEFLAGS) {
			good(r, a);
			a[i] |= 0x00001000; /* CLONE_PIDFD: to parent_tid */
			a[i] &= ~UINT64_C(0x00100000);
			bad_pointers(r, a, "pidfd", true);
		}
}
