/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder behind `moat run --strace`: one line per call, in the manner of strace.
 *
 * Theory of operation: everything is driven by the kinds of the row's arguments
 * (sentry/argkinds.h); there is no code for a single syscall. What goes in is rendered before the
 * handler runs, as execve or a read into the same memory would change it; what comes out, after. An
 * argument that goes both ways is shown as "before => after" if it changed. A line leaves by one
 * write, so that lines of different tasks do not mix.
 *
 * The tracer reads guest memory on its own, so it may see other bytes than the handler did if
 * another thread of the guest changes them meanwhile: it is a view, not a record.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/hostcall.h"
#include "base/lx_fcntl.h"
#include "base/lx_sock.h"
#include "base/lx_time.h"
#include "sentry/syscall_table.h"
#include "vfs/epoll.h"

#define STR_SHOWN 32u   /* bytes of a buffer */
#define PATH_SHOWN 256u /* of a path */
#define ELEMS_SHOWN 16u /* of an array */
#define ARG_TEXT 768u
#define LINE_TEXT (6 * ARG_TEXT + 256)

bool g_syscall_trace;
static int g_trace_fd = -1;
static _Atomic int g_trace_error;

void syscall_trace_open(int fd)
{
	g_trace_fd = fd;
	g_syscall_trace = fd >= 0;
}

/* Text in a fixed buffer; what does not fit is cut. */
struct text {
	char *data;
	size_t size, used;
};

static void put(struct text *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(struct text *o, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(o->data + o->used, o->size - o->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		o->used = MIN(o->used + (size_t)n, o->size - 1);
}

struct trace_call {
	const struct syscall_row *row;
	unsigned nr;
	uint64_t r[6];
	char arg[6][ARG_TEXT];
};

/* Where a renderer stands. */
struct show {
	struct text *o;
	struct task *t;
	const struct trace_call *tc;
	const struct argdesc *d;
	uint64_t v; /* the argument */
	long ret;   /* after the call; before it 0 */
	bool after;
};

/* ---- numbers and names ---- */

static void put_ptr(struct text *o, uint64_t v)
{
	if (v)
		put(o, "%#" PRIx64, v);
	else
		put(o, "NULL");
}

static void put_flags(struct text *o, enum arg_flagset set, uint64_t v)
{
	const char *sep = "";
	uint64_t left = v;

	for (const struct name_value *n = flagset_names(set); n->name; n++) {
		uint64_t mask = n->mask ? n->mask : n->value;

		if ((n->mask ? (v & mask) != n->value : !(left & mask)) ||
		    (n->value && !(left & mask)))
			continue;
		/* The value 0 of a field only says something if there is nothing else to say it. */
		if (n->value == 0 && set != FS_open)
			continue;
		put(o, "%s%s", sep, n->name);
		sep = "|";
		left &= ~mask;
	}
	if (left || !*sep)
		put(o, left ? "%s%#" PRIx64 : "%s%" PRIu64, sep, left);
}

static void put_enum(struct text *o, enum arg_enum set, uint64_t v)
{
	const char *name = enum_name(set, v);

	if (name)
		put(o, "%s", name);
	else
		put(o, "%" PRId64, (int64_t)v);
}

static void put_sig(struct text *o, int sig)
{
	const char *name = sig > 0 && sig <= LX_NSIG ? signal_name(sig) : NULL;

	if (name)
		put(o, "%s", name);
	else
		put(o, "%d", sig);
}

static void put_sigset(struct text *o, lx_sigset_t set)
{
	const char *sep = "";
	bool inverse = __builtin_popcountll(set) > 40;

	if (inverse) {
		set = ~set;
		put(o, "~");
	}
	put(o, "[");
	for (int sig = 1; sig <= LX_NSIG; sig++) {
		const char *name = set & sigbit(sig) ? signal_name(sig) : NULL;

		if (!name)
			continue;
		put(o, "%s%s", sep, strncmp(name, "SIG", 3) == 0 ? name + 3 : name);
		sep = " ";
	}
	put(o, "]");
}

static void put_mode(struct text *o, uint32_t mode)
{
	static const struct {
		uint32_t type;
		const char *name;
	} types[] = {{LX_S_IFREG, "S_IFREG"},  {LX_S_IFDIR, "S_IFDIR"}, {LX_S_IFLNK, "S_IFLNK"},
		     {LX_S_IFCHR, "S_IFCHR"},  {LX_S_IFBLK, "S_IFBLK"}, {LX_S_IFIFO, "S_IFIFO"},
		     {LX_S_IFSOCK, "S_IFSOCK"}};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if ((mode & LX_S_IFMT) == types[i].type)
			put(o, "%s|", types[i].name);
	put(o, "%#03o", mode & 07777);
}

/* CPU-time clocks of processes are negative numbers. */
static void put_clockid(struct text *o, int clockid)
{
	put_enum(o, EN_clockid, (uint64_t)(int64_t)clockid);
}

/* ---- strings ---- */

static void put_bytes(struct text *o, const char *p, size_t n, bool more)
{
	put(o, "\"");
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		switch (c) {
		case '\n':
			put(o, "\\n");
			break;
		case '\t':
			put(o, "\\t");
			break;
		case '\r':
			put(o, "\\r");
			break;
		case '"':
		case '\\':
			put(o, "\\%c", c);
			break;
		default:
			/* A digit after a short octal escape would belong to it. */
			if (c >= ' ' && c < 0x7f)
				put(o, "%c", c);
			else if (i + 1 < n && p[i + 1] >= '0' && p[i + 1] <= '7')
				put(o, "\\%03o", c);
			else
				put(o, "\\%o", c);
		}
	}
	put(o, more ? "\"..." : "\"");
}

static void put_buf(const struct show *s, uint64_t addr, uint64_t size)
{
	char buf[STR_SHOWN];
	ssize_t n = 0;

	if (!addr) {
		put(s->o, "NULL");
		return;
	}
	if (size)
		n = copy_in_partial(s->t, buf, GADDR(addr), MIN(size, (uint64_t)STR_SHOWN));
	if (n < 0)
		put_ptr(s->o, addr);
	else
		put_bytes(s->o, buf, (size_t)n, size > (uint64_t)n);
}

static void put_str(const struct show *s, uint64_t addr, size_t shown)
{
	char buf[PATH_SHOWN + 1];
	ssize_t n;

	if (!addr) {
		put(s->o, "NULL");
		return;
	}
	n = copy_in_str(s->t, buf, GADDR(addr), shown + 1);
	if (n == -ENAMETOOLONG)
		put_bytes(s->o, buf, shown, true);
	else if (n < 0)
		put_ptr(s->o, addr);
	else
		put_bytes(s->o, buf, (size_t)n, false);
}

static void put_strv(const struct show *s, bool count_only)
{
	uint64_t p;
	unsigned i;

	if (!s->v) {
		put(s->o, "NULL");
		return;
	}
	if (!count_only)
		put(s->o, "[");
	for (i = 0; i < 4096; i++) {
		if (copy_in(s->t, &p, GADDR(s->v + i * sizeof(p)), sizeof(p)) < 0 || !p)
			break;
		if (count_only)
			continue;
		if (i == ELEMS_SHOWN) {
			put(s->o, ", ...");
			break;
		}
		if (i)
			put(s->o, ", ");
		put_str(s, p, STR_SHOWN);
	}
	if (count_only)
		put(s->o, "%#" PRIx64 " /* %u vars */", s->v, i);
	else
		put(s->o, "]");
}

/* ---- structs ---- */

/* A struct timespec or timeval: @unit is the name of its second member. */
static void put_time(struct text *o, const char *unit, const int64_t t[2])
{
	const bool nanoseconds = strcmp(unit, "tv_nsec") == 0;

	put(o, "{tv_sec=%" PRId64 ", %s=", t[0], unit);
	if (nanoseconds && t[1] == 0x3fffffff)
		put(o, "UTIME_NOW}");
	else if (nanoseconds && t[1] == 0x3ffffffe)
		put(o, "UTIME_OMIT}");
	else
		put(o, "%" PRId64 "}", t[1]);
}

/* Two of them, and what stands around them. */
static void put_times(struct text *o, const char *unit, const int64_t t[4], const char *before,
		      const char *between, const char *after)
{
	put(o, "%s", before);
	put_time(o, unit, t);
	put(o, "%s", between);
	put_time(o, unit, t + 2);
	put(o, "%s", after);
}

static void put_stat(struct text *o, const struct lx_stat *st)
{
	put(o, "{st_mode=");
	put_mode(o, st->st_mode);
	if (LX_S_ISCHR(st->st_mode) || LX_S_ISBLK(st->st_mode))
		put(o, ", st_rdev=%#" PRIx64, st->st_rdev);
	else
		put(o, ", st_size=%" PRId64, st->st_size);
	put(o, ", ...}");
}

/* Of struct statx: mode at 28, size at 40. */
static void put_statx(struct text *o, const uint8_t *x)
{
	uint32_t mask;
	uint16_t mode;
	uint64_t size;

	memcpy(&mask, x, sizeof(mask));
	memcpy(&mode, x + 28, sizeof(mode));
	memcpy(&size, x + 40, sizeof(size));
	put(o, "{stx_mask=");
	put_flags(o, FS_statx, mask);
	put(o, ", stx_mode=");
	put_mode(o, mode);
	put(o, ", stx_size=%" PRIu64 ", ...}", size);
}

static void put_sigaction(struct text *o, const struct lx_sigaction *sa)
{
	put(o, "{sa_handler=");
	if (sa->handler == LX_SIG_DFL)
		put(o, "SIG_DFL");
	else if (sa->handler == LX_SIG_IGN)
		put(o, "SIG_IGN");
	else
		put_ptr(o, sa->handler);
	put(o, ", sa_mask=");
	put_sigset(o, sa->mask);
	put(o, ", sa_flags=");
	put_flags(o, FS_sa, sa->flags);
	put(o, "}");
}

static void put_siginfo(struct text *o, const struct lx_siginfo *i)
{
	put(o, "{si_signo=");
	put_sig(o, i->si_signo);
	put(o, ", si_code=%d", i->si_code);
	if (i->si_signo == LX_SIGCHLD && i->si_code > 0)
		put(o, ", si_pid=%d, si_uid=%u, si_status=%d", i->u.chld.pid, i->u.chld.uid,
		    i->u.chld.status);
	else if (i->si_code <= 0)
		put(o, ", si_pid=%d, si_uid=%u", i->u.rt.pid, i->u.rt.uid);
	else
		put(o, ", si_addr=%#" PRIx64, i->u.fault.addr);
	put(o, "}");
}

static void put_pollfd(struct text *o, const uint8_t *p, bool after)
{
	int32_t fd;
	uint16_t events, revents;

	memcpy(&fd, p, sizeof(fd));
	memcpy(&events, p + 4, sizeof(events));
	memcpy(&revents, p + 6, sizeof(revents));
	put(o, "{fd=%d, events=", fd);
	put_flags(o, FS_poll, events);
	if (after && revents) {
		put(o, ", revents=");
		put_flags(o, FS_poll, revents);
	}
	put(o, "}");
}

/* One struct that has been copied in, by its name. */
static void put_struct(struct text *o, enum arg_struct st, const uint8_t *p, bool after)
{
	/* All of them, so that each is aligned. */
	union {
		struct lx_stat stat;
		struct lx_sigaction sa;
		struct lx_siginfo info;
		struct lx_stack stack;
		struct lx_epoll_event ev;
		struct lx_rlimit64 rlim;
		uint64_t u64[2];
		int64_t s64[4];
		int32_t s32[2];
		uint32_t u32;
		int16_t s16[3];
		char bytes[390];
	} u;

	memset(&u, 0, sizeof(u));
	switch (st) {
	case ST_pollfd:
		put_pollfd(o, p, after);
		return;
	case ST_statx:
		put_statx(o, p);
		return;
	case ST_timespec:
		memcpy(&u, p, 16);
		put_time(o, "tv_nsec", u.s64);
		return;
	case ST_timeval:
		memcpy(&u, p, 16);
		put_time(o, "tv_usec", u.s64);
		return;
	case ST_timespec2:
		memcpy(&u, p, 32);
		put_times(o, "tv_nsec", u.s64, "[", ", ", "]");
		return;
	case ST_timeval2:
		memcpy(&u, p, 32);
		put_times(o, "tv_usec", u.s64, "[", ", ", "]");
		return;
	case ST_itimerspec:
		memcpy(&u, p, 32);
		put_times(o, "tv_nsec", u.s64, "{it_interval=", ", it_value=", "}");
		return;
	case ST_itimerval:
		memcpy(&u, p, 32);
		put_times(o, "tv_usec", u.s64, "{it_interval=", ", it_value=", "}");
		return;
	case ST_stat:
		memcpy(&u, p, sizeof(u.stat));
		put_stat(o, &u.stat);
		return;
	case ST_sigaction:
		memcpy(&u, p, sizeof(u.sa));
		put_sigaction(o, &u.sa);
		return;
	case ST_siginfo:
		memcpy(&u, p, sizeof(u.info));
		put_siginfo(o, &u.info);
		return;
	case ST_sigset:
		memcpy(&u, p, 8);
		put_sigset(o, u.u64[0]);
		return;
	case ST_stack:
		memcpy(&u, p, sizeof(u.stack));
		put(o, "{ss_sp=");
		put_ptr(o, u.stack.ss_sp);
		put(o, ", ss_flags=");
		put_flags(o, FS_ss, (uint32_t)u.stack.ss_flags);
		put(o, ", ss_size=%" PRIu64 "}", u.stack.ss_size);
		return;
	case ST_epoll_event:
		memcpy(&u, p, sizeof(u.ev));
		put(o, "{events=");
		put_flags(o, FS_poll, u.ev.events);
		put(o, ", data=%#" PRIx64 "}", u.ev.data);
		return;
	case ST_rlimit:
		memcpy(&u, p, 16);
		put(o, "{rlim_cur=");
		put(o, u.u64[0] == UINT64_MAX ? "RLIM64_INFINITY" : "%" PRIu64, u.u64[0]);
		put(o, ", rlim_max=");
		put(o, u.u64[1] == UINT64_MAX ? "RLIM64_INFINITY" : "%" PRIu64, u.u64[1]);
		put(o, "}");
		return;
	case ST_int:
		memcpy(&u, p, 4);
		put(o, "[%d]", u.s32[0]);
		return;
	case ST_uid:
		memcpy(&u, p, 4);
		put(o, "[%u]", u.u32);
		return;
	case ST_off:
		memcpy(&u, p, 8);
		put(o, "[%" PRId64 "]", u.s64[0]);
		return;
	case ST_ulong:
		memcpy(&u, p, 8);
		put(o, "[%#" PRIx64 "]", u.u64[0]);
		return;
	case ST_fdpair:
		memcpy(&u, p, 8);
		put(o, "[%d, %d]", u.s32[0], u.s32[1]);
		return;
	case ST_sembuf:
		memcpy(&u, p, 6);
		put(o, "{%u, %d, %#x}", (uint16_t)u.s16[0], u.s16[1], (uint16_t)u.s16[2]);
		return;
	case ST_utsname:
		memcpy(&u, p, 390);
		u.bytes[389] = '\0';
		put(o, "{sysname=\"%.64s\", nodename=\"%.64s\", ...}", u.bytes, u.bytes + 65);
		return;
	default:
		put(o, "{...}");
	}
}

static const uint16_t g_struct_size[] = {
#define X(name, bytes) [ST_##name] = (bytes),
	ARG_STRUCTS(X)
#undef X
};

/* @count structs from @addr; @single: without brackets. */
static void put_structs(const struct show *s, uint64_t addr, uint64_t count, bool single)
{
	uint8_t buf[ST_SIZE_utsname];
	enum arg_struct st = (enum arg_struct)s->d->set;
	size_t size = g_struct_size[st];

	if (!addr || size > sizeof(buf)) {
		put_ptr(s->o, addr);
		return;
	}
	if (!single)
		put(s->o, "[");
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			put(s->o, ", ");
		if (i == ELEMS_SHOWN) {
			put(s->o, "...");
			break;
		}
		if (copy_in(s->t, buf, GADDR(addr + i * size), size) < 0) {
			put_ptr(s->o, addr + i * size);
			break;
		}
		put_struct(s->o, st, buf, s->after);
	}
	if (!single)
		put(s->o, "]");
}

/* ---- pointers to other things ---- */

/* The 32-bit number behind the pointer in argument @i; @other if it cannot be read. */
static int32_t linked_int(const struct show *s, unsigned i, int32_t other)
{
	int32_t v;

	return copy_in(s->t, &v, GADDR(s->tc->r[i]), sizeof(v)) < 0 ? other : v;
}

static void put_sockaddr_bytes(struct text *o, const uint8_t *a, size_t size)
{
	char text[INET6_ADDRSTRLEN];
	uint16_t family, port = 0;

	if (size < sizeof(family)) {
		put_bytes(o, (const char *)a, size, false);
		return;
	}
	memcpy(&family, a, sizeof(family));
	put(o, "{sa_family=");
	put_enum(o, EN_af, family);
	if (size >= 4)
		memcpy(&port, a + 2, sizeof(port));
	if (family == LX_AF_UNIX && size > 2) {
		bool abstract = a[2] == '\0';
		size_t n = abstract ? size - 3 : strnlen((const char *)a + 2, size - 2);

		put(o, ", sun_path=%s", abstract ? "@" : "");
		put_bytes(o, (const char *)a + (abstract ? 3 : 2), n, false);
	} else if (family == LX_AF_INET && size >= 16) {
		inet_ntop(AF_INET, a + 4, text, sizeof(text));
		put(o, ", sin_port=htons(%u), sin_addr=inet_addr(\"%s\")", ntohs(port), text);
	} else if (family == LX_AF_INET6 && size >= 28) {
		inet_ntop(AF_INET6, a + 8, text, sizeof(text));
		put(o, ", sin6_port=htons(%u), sin6_addr=inet_pton(\"%s\")", ntohs(port), text);
	} else if (size > 2) {
		put(o, ", ...");
	}
	put(o, "}");
}

static void put_sockaddr(const struct show *s, uint64_t addr, int64_t size)
{
	uint8_t buf[LX_SOCKADDR_MAX];
	size_t n = size < 0 ? 0 : MIN((size_t)size, sizeof(buf));

	if (!addr || !n || copy_in(s->t, buf, GADDR(addr), n) < 0)
		put_ptr(s->o, addr);
	else
		put_sockaddr_bytes(s->o, buf, n);
}

/* @bytes: how many of the buffers' bytes mean something. */
static void put_iov(const struct show *s, uint64_t addr, uint64_t count, uint64_t bytes,
		    bool remote)
{
	struct lx_iovec v;

	if (!addr) {
		put(s->o, "NULL");
		return;
	}
	put(s->o, "[");
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			put(s->o, ", ");
		if (i == ELEMS_SHOWN) {
			put(s->o, "...");
			break;
		}
		if (copy_in(s->t, &v, GADDR(addr + i * sizeof(v)), sizeof(v)) < 0) {
			put_ptr(s->o, addr + i * sizeof(v));
			break;
		}
		put(s->o, "{iov_base=");
		if (remote)
			put_ptr(s->o, v.iov_base);
		else
			put_buf(s, v.iov_base, MIN(v.iov_len, bytes));
		put(s->o, ", iov_len=%" PRIu64 "}", v.iov_len);
		bytes -= MIN(v.iov_len, bytes);
	}
	put(s->o, "]");
}

static void put_msghdr(const struct show *s, bool out)
{
	struct lx_msghdr h;

	if (!s->v || copy_in(s->t, &h, GADDR(s->v), sizeof(h)) < 0) {
		put_ptr(s->o, s->v);
		return;
	}
	put(s->o, "{msg_name=");
	put_sockaddr(s, h.msg_name, h.msg_namelen);
	put(s->o, ", msg_namelen=%d, msg_iov=", h.msg_namelen);
	put_iov(s, h.msg_iov, MIN(h.msg_iovlen, (uint64_t)1024),
		out ? (uint64_t)s->ret : UINT64_MAX, false);
	put(s->o, ", msg_iovlen=%" PRIu64 ", msg_controllen=%" PRIu64 ", msg_flags=", h.msg_iovlen,
	    h.msg_controllen);
	put_flags(s->o, FS_msg, h.msg_flags);
	put(s->o, "}");
}

static void put_fdset(const struct show *s)
{
	uint64_t bits[1024 / 64] = {0};
	uint64_t n = MIN(s->tc->r[s->d->link], (uint64_t)1024);
	const char *sep = "";

	if (!s->v || copy_in(s->t, bits, GADDR(s->v), (n + 63) / 64 * 8) < 0) {
		put_ptr(s->o, s->v);
		return;
	}
	put(s->o, "[");
	for (unsigned i = 0; i < n; i++) {
		if (!(bits[i / 64] >> (i % 64) & 1))
			continue;
		put(s->o, "%s%u", sep, i);
		sep = " ";
	}
	put(s->o, "]");
}

static void put_cpumask(const struct show *s, uint64_t size)
{
	uint64_t mask = 0;

	if (!s->v || copy_in(s->t, &mask, GADDR(s->v), MIN(size, sizeof(mask))) < 0)
		put_ptr(s->o, s->v);
	else
		put(s->o, "[%#" PRIx64 "]", mask);
}

static void put_wstatus(const struct show *s)
{
	int32_t w;

	if (!s->v || s->ret <= 0 || copy_in(s->t, &w, GADDR(s->v), sizeof(w)) < 0) {
		put_ptr(s->o, s->v);
		return;
	}
	if (w == 0xffff) {
		put(s->o, "[{WIFCONTINUED(s)}]");
	} else if ((w & 0xff) == 0x7f) {
		put(s->o, "[{WIFSTOPPED(s) && WSTOPSIG(s) == ");
		put_sig(s->o, w >> 8 & 0xff);
		put(s->o, "}]");
	} else if (w & 0x7f) {
		put(s->o, "[{WIFSIGNALED(s) && WTERMSIG(s) == ");
		put_sig(s->o, w & 0x7f);
		put(s->o, w & 0x80 ? " && WCOREDUMP(s)}]" : "}]");
	} else {
		put(s->o, "[{WIFEXITED(s) && WEXITSTATUS(s) == %d}]", w >> 8 & 0xff);
	}
}

static void put_clone_flags(struct text *o, uint64_t v, uint64_t sig)
{
	put_flags(o, FS_clone, v);
	if (sig) {
		put(o, "|");
		put_sig(o, (int)sig);
	}
}

static void put_clone_args(const struct show *s)
{
	uint64_t a[8] = {
		0}; /* flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls */

	if (!s->v || copy_in(s->t, a, GADDR(s->v), MIN(s->tc->r[s->d->link], sizeof(a))) < 0) {
		put_ptr(s->o, s->v);
		return;
	}
	put(s->o, "{flags=");
	put_clone_flags(s->o, a[0], 0);
	put(s->o, ", exit_signal=");
	put_sig(s->o, (int)a[4]);
	put(s->o, ", stack=%#" PRIx64 ", stack_size=%#" PRIx64 "}", a[5], a[6]);
}

static void put_open_how(const struct show *s)
{
	uint64_t h[3] = {0};

	if (!s->v || copy_in(s->t, h, GADDR(s->v), MIN(s->tc->r[s->d->link], sizeof(h))) < 0) {
		put_ptr(s->o, s->v);
		return;
	}
	put(s->o, "{flags=");
	put_flags(s->o, FS_open, h[0]);
	put(s->o, ", mode=%#03" PRIo64 ", resolve=", h[1]);
	put_flags(s->o, FS_resolve, h[2]);
	put(s->o, "}");
}

static void put_flock(const struct show *s)
{
	static const char *const types[] = {"F_RDLCK", "F_WRLCK", "F_UNLCK"};
	struct lx_flock fl;

	if (copy_in(s->t, &fl, GADDR(s->v), sizeof(fl)) < 0) {
		put_ptr(s->o, s->v);
		return;
	}
	put(s->o, "{l_type=");
	if (fl.l_type >= 0 && (size_t)fl.l_type < ARRAY_SIZE(types))
		put(s->o, "%s", types[fl.l_type]);
	else
		put(s->o, "%d", fl.l_type);
	put(s->o, ", l_whence=");
	put_enum(s->o, EN_whence, (uint64_t)fl.l_whence);
	put(s->o, ", l_start=%" PRId64 ", l_len=%" PRId64 "}", fl.l_start, fl.l_len);
}

static void put_fcntl_arg(const struct show *s)
{
	switch ((unsigned)s->tc->r[s->d->link]) {
	case LX_F_SETFD:
		put(s->o, s->v & 1 ? "FD_CLOEXEC" : "0");
		break;
	case LX_F_SETFL:
		put_flags(s->o, FS_open, (uint32_t)s->v);
		break;
	case LX_F_GETLK:
	case LX_F_SETLK:
	case LX_F_SETLKW:
	case LX_F_OFD_GETLK:
	case LX_F_OFD_SETLK:
	case LX_F_OFD_SETLKW:
		put_flock(s);
		break;
	case LX_F_SETSIG:
		put_sig(s->o, (int)s->v);
		break;
	default:
		put(s->o, s->v > 4096 ? "%#" PRIx64 : "%" PRIu64, s->v);
	}
}

static void put_futex_op(struct text *o, int op)
{
	put_enum(o, EN_futexop, (uint64_t)(op & 127));
	if (op & 128)
		put(o, "|FUTEX_PRIVATE_FLAG");
	if (op & 256)
		put(o, "|FUTEX_CLOCK_REALTIME");
}

/* The operations whose fourth argument is a time and not a count. */
static bool futex_has_time(uint64_t op)
{
	switch (op & 127) {
	case 0:  /* WAIT */
	case 6:  /* LOCK_PI */
	case 9:  /* WAIT_BITSET */
	case 11: /* WAIT_REQUEUE_PI */
	case 13: /* LOCK_PI2 */
		return true;
	default:
		return false;
	}
}

static void put_futex_time(const struct show *s)
{
	int64_t ts[2];

	if (!futex_has_time(s->tc->r[s->d->link]))
		put(s->o, "%u", (uint32_t)s->v);
	else if (!s->v || copy_in(s->t, ts, GADDR(s->v), sizeof(ts)) < 0)
		put_ptr(s->o, s->v);
	else
		put_time(s->o, "tv_nsec", ts);
}

/* ---- one argument ---- */

static void put_arg(const struct show *s)
{
	const struct argdesc *d = s->d;
	struct text *o = s->o;
	uint64_t linked = s->tc->r[d->link];
	/* Of a buffer that is filled by the call only what the result counts is there. */
	uint64_t used = d->bytes == SZ_RET ? (uint64_t)MAX(s->ret, 0L) : linked;

	switch ((enum arg_kind)d->kind) {
	case AK_INT:
		put(o, "%d", (int)s->v);
		break;
	case AK_UINT:
		put(o, "%u", (unsigned)s->v);
		break;
	case AK_LONG:
		put(o, "%" PRId64, (int64_t)s->v);
		break;
	case AK_ULONG:
		put(o, "%" PRIu64, s->v);
		break;
	case AK_HEX:
		put(o, "%#" PRIx64, s->v);
		break;
	case AK_HEX32:
		put(o, "%#x", (uint32_t)s->v);
		break;
	case AK_MODE:
	case AK_OMODE:
		put(o, "%#03o", (uint32_t)s->v);
		break;
	case AK_FMODE:
		put_mode(o, (uint32_t)s->v);
		break;
	case AK_FD:
		put(o, "%d", (int)s->v);
		break;
	case AK_DIRFD:
		if ((int)s->v == LX_AT_FDCWD)
			put(o, "AT_FDCWD");
		else
			put(o, "%d", (int)s->v);
		break;
	case AK_PID:
		put(o, "%d", (int)s->v);
		break;
	case AK_SIG:
		put_sig(o, (int)s->v);
		break;
	case AK_UID:
		put(o, (uint32_t)s->v == UINT32_MAX ? "-1" : "%u", (uint32_t)s->v);
		break;
	case AK_DEV:
		put(o, "makedev(%#x, %#x)", (uint32_t)(s->v >> 8 & 0xfff),
		    (uint32_t)((s->v & 0xff) | (s->v >> 12 & 0xfff00)));
		break;
	case AK_CLOCKID:
		put_clockid(o, (int)s->v);
		break;
	case AK_IPCKEY:
		put(o, (uint32_t)s->v ? "%#x" : "IPC_PRIVATE", (uint32_t)s->v);
		break;
	case AK_FLAGS:
		/* The upper half of a 32-bit parameter's register means nothing. */
		put_flags(o, (enum arg_flagset)d->set, d->size == 8 ? s->v : (uint32_t)s->v);
		break;
	case AK_ENUM:
		put_enum(o, (enum arg_enum)d->set, (uint32_t)s->v);
		break;
	case AK_CLONEFLAGS:
		put_clone_flags(o, s->v & ~(uint64_t)0xff, s->v & 0xff);
		break;
	case AK_IOCTL: {
		const char *name = enum_name(EN_ioctl, (uint32_t)s->v);

		if (name)
			put(o, "%s", name);
		else
			put(o, "%#x", (uint32_t)s->v);
		break;
	}
	case AK_FUTEXOP:
		put_futex_op(o, (int)s->v);
		break;
	case AK_SOCKOPT:
		put_enum(o, linked == LX_SOL_SOCKET ? EN_so : EN_none, (uint32_t)s->v);
		break;
	case AK_FCNTLARG:
		put_fcntl_arg(s);
		break;
	case AK_FUTEXTIME:
		put_futex_time(s);
		break;
	case AK_IOCTLARG:
	case AK_PTR:
	case AK_DIRENTS:
		put_ptr(o, s->v);
		break;
	case AK_PATH:
		put_str(s, s->v, PATH_SHOWN);
		break;
	case AK_STR:
		put_str(s, s->v, STR_SHOWN);
		break;
	case AK_STRV:
		put_strv(s, false);
		break;
	case AK_ENVV:
		put_strv(s, true);
		break;
	case AK_BUF:
		if (d->bytes == SZ_PTR)
			used = (uint64_t)MAX(linked_int(s, d->link, 0), 0);
		put_buf(s, s->v, used);
		break;
	case AK_STRUCT:
		put_structs(s, s->v, 1, true);
		break;
	case AK_ARRAY:
		put_structs(s, s->v, (uint32_t)used, false);
		break;
	case AK_IOV:
		put_iov(s, s->v, MIN(linked, (uint64_t)1024),
			d->dir == DIR_OUT ? (uint64_t)MAX(s->ret, 0L) : UINT64_MAX, false);
		break;
	case AK_IOV_REMOTE:
		put_iov(s, s->v, MIN(linked, (uint64_t)1024), 0, true);
		break;
	case AK_SOCKADDR:
		put_sockaddr(s, s->v, d->bytes == SZ_PTR ? linked_int(s, d->link, 0) : (int)linked);
		break;
	case AK_MSGHDR:
		put_msghdr(s, d->dir != DIR_IN);
		break;
	case AK_FDSET:
		put_fdset(s);
		break;
	case AK_CPUMASK:
		put_cpumask(s, used);
		break;
	case AK_WSTATUS:
		put_wstatus(s);
		break;
	case AK_CLONEARGS:
		put_clone_args(s);
		break;
	case AK_OPENHOW:
		put_open_how(s);
		break;
	}
}

static bool fcntl_has_arg(uint64_t cmd)
{
	switch ((unsigned)cmd) {
	case LX_F_GETFD:
	case LX_F_GETFL:
	case LX_F_GETOWN:
	case LX_F_GETSIG:
	case LX_F_GETLEASE:
	case LX_F_GETPIPE_SZ:
	case LX_F_GET_SEALS:
		return false;
	default:
		return true;
	}
}

/* Is the argument there at all? A creation mode only counts with flags that create. */
static bool is_shown(const struct trace_call *tc, unsigned i)
{
	const struct argdesc *d = &tc->row->args[i];

	switch (d->kind) {
	case AK_OMODE:
		return tc->r[d->link] & (LX_O_CREAT | LX_O_TMPFILE_BIT);
	case AK_FCNTLARG:
		return fcntl_has_arg(tc->r[d->link]);
	default:
		return true;
	}
}

/* Does only the call fill it? A message header goes both ways, but says nothing before. */
static bool known_after(const struct argdesc *d)
{
	return d->dir == DIR_OUT || (d->dir == DIR_INOUT && d->kind == AK_MSGHDR);
}

static void render(struct task *t, struct trace_call *tc, unsigned i, long ret, bool after)
{
	const struct argdesc *d = &tc->row->args[i];
	char text[ARG_TEXT] = "";
	struct text o = {text, sizeof(text), 0};
	struct show s = {&o, t, tc, d, tc->r[i], ret, after};
	struct text old = {tc->arg[i], sizeof(tc->arg[i]), strlen(tc->arg[i])};

	if (after && ret < 0)
		put_ptr(&o, tc->r[i]);
	else
		put_arg(&s);
	if (!after || known_after(d))
		memcpy(tc->arg[i], text, sizeof(text));
	else if (strcmp(text, tc->arg[i]) != 0)
		put(&old, " => %s", text);
}

/* ---- the line ---- */

struct trace_call *syscall_trace_enter(struct task *t, const struct syscall_row *row, unsigned nr,
				       const uint64_t r[6])
{
	struct trace_call *tc = mem_zalloc(sizeof(*tc));

	if (!tc)
		return NULL;
	tc->row = row;
	tc->nr = nr;
	memcpy(tc->r, r, sizeof(tc->r));
	for (unsigned i = 0; row && i < row->nargs; i++)
		if (!known_after(&row->args[i]))
			render(t, tc, i, 0, false);
	return tc;
}

static void put_result(struct text *o, const struct syscall_row *row, long ret)
{
	static const struct {
		long code;
		const char *name, *why;
	} restarts[] = {
		{-ERESTARTSYS, "ERESTARTSYS", "To be restarted if SA_RESTART is set"},
		{-ERESTARTNOINTR, "ERESTARTNOINTR", "To be restarted"},
		{-ERESTARTNOHAND, "ERESTARTNOHAND", "To be restarted if no handler"},
		{-ERESTART_RESTARTBLOCK, "ERESTART_RESTARTBLOCK", "Interrupted by signal"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(restarts); i++) {
		if (ret == restarts[i].code) {
			put(o, "? %s (%s)", restarts[i].name, restarts[i].why);
			return;
		}
	}
	if (ret < 0 && ret >= -4095) {
		const char *name = errno_name((int)-ret);

		if (name)
			put(o, "-1 %s (%s)", name, err_text((int)-ret));
		else
			put(o, "-1 (errno %ld)", -ret);
		return;
	}
	switch (row ? row->ret : RET_INT) {
	case RET_ADDR:
	case RET_HEX:
		put(o, "%#lx", ret);
		break;
	case RET_MODE:
		put(o, "%#03lo", ret);
		break;
	case RET_NONE:
		put(o, "?");
		break;
	default:
		put(o, "%ld", ret);
	}
}

static void write_line(const char *line, size_t size)
{
	ssize_t n = 0;

	while (size > 0) {
		n = HOST(write_log, write(g_trace_fd, line, size));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* a trace that nobody can read is no reason to stop */
		line += n;
		size -= (size_t)n;
	}
	if (size > 0) {
		int none = 0;

		(void)atomic_compare_exchange_strong(&g_trace_error, &none, n < 0 ? errno : EIO);
	}
}

int syscall_trace_error(void)
{
	return atomic_load(&g_trace_error);
}

/* The call and its result. */
static void put_call(struct text *o, struct task *t, struct trace_call *tc, long ret)
{
	const struct syscall_row *row = tc->row;

	if (row) {
		put(o, "%s(", row->name);
		for (unsigned i = 0; i < row->nargs; i++) {
			const struct argdesc *d = &row->args[i];

			/* A struct that goes both ways is not looked at again after a failure. */
			if (known_after(d) ||
			    (d->dir == DIR_INOUT && d->kind != AK_PTR && ret >= 0))
				render(t, tc, i, ret, true);
			if (is_shown(tc, i))
				put(o, "%s%s", i ? ", " : "", tc->arg[i]);
		}
	} else {
		put(o,
		    "syscall_%#x(%#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64
		    ", %#" PRIx64,
		    tc->nr, tc->r[0], tc->r[1], tc->r[2], tc->r[3], tc->r[4], tc->r[5]);
	}
	put(o, ") = ");
	put_result(o, row, ret);
}

void syscall_describe(struct task *t, const struct syscall_row *row, const uint64_t r[6], long ret,
		      char *buf, size_t size)
{
	struct trace_call *tc = syscall_trace_enter(t, row, (unsigned)t->regs.orig_rax, r);
	struct text o = {buf, size, 0};

	buf[0] = '\0';
	if (tc)
		put_call(&o, t, tc, ret);
	mem_free(tc);
}

void syscall_trace_exit(struct task *t, struct trace_call *tc, long ret)
{
	char *line = tc ? mem_zalloc(LINE_TEXT) : NULL;
	struct text o;

	if (!line) {
		mem_free(tc);
		return;
	}
	/* The last byte is kept for the end of the line. */
	o = (struct text){line, LINE_TEXT - 1, 0};
	put(&o, "%-5d ", t->tid);
	put_call(&o, t, tc, ret);
	o.data[o.used++] = '\n';
	write_line(line, o.used);
	mem_free(line);
	mem_free(tc);
}
