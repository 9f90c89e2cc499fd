/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host system calls of the vfs.
 *
 * Theory of operation: a wrapper is the call, the injected failure, the retry after EINTR and the
 * errno filter. The tag of each call is its row in base/hostcall.def. Nothing here decides anything
 * but this: a name that would leave its directory ('/' in it, or "..") is refused, whatever the
 * caller thought it had checked, and the host is asked to hold to that as well (openat2 with
 * RESOLVE_BENEATH and no links of any kind), where it can.
 *
 * Sights are numbers of one counter, which every word from the host raises, after the call. So two
 * things that were told with the same number were told with nothing in between. A file's attributes
 * end no sight if this guest call has asked for the last ones: they raise the number within the
 * sight (host_sight_last). Nor do they if they are old: if they last
 * changed, by the file's ctime and atime, before the time at which the sight began, then they were
 * as they are when the first of the sight was told, and are no news beside it. That is so where the
 * host keeps the times itself, by its clock, and gives one to a file that is renamed
 * (host_sight_trust); unless its clock is set back by seconds in those microseconds. What is asked
 * when a sight ends belongs to none, or raises the number once more.
 */
#include "vfs/host_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fiber.h"
#include "base/host_watch_events.h"
#include "base/hostcall.h"
#include "base/lock.h"
#include "base/lx_fcntl.h"
#include "vfs/vfs.h"

void (*g_vfs_file_gone)(uint64_t key);

/* Our duplicates and tables are invisible to the guest: what goes wrong with them is not its doing.
 */
int host_errno(int e)
{
	switch (e) {
	case EPERM:
	case ENOENT:
	case EINTR:
	case EIO:
	case ENXIO:
	case EAGAIN:
	case ENOMEM:
	case EACCES:
	case EBUSY:
	case EEXIST:
	case EXDEV:
	case ENODEV:
	case ENOTDIR:
	case EISDIR:
	case EINVAL:
	case ENOTTY:
	case ETXTBSY:
	case EFBIG:
	case ENOSPC:
	case ESPIPE:
	case EROFS:
	case EMLINK:
	case EPIPE:
	case ERANGE:
	case ENAMETOOLONG:
	case ENOTEMPTY:
	case ELOOP:
	case ENODATA:
	case EOVERFLOW:
	case EOPNOTSUPP:
	case ECONNRESET:
	case ESTALE:
	case EDQUOT:
	case ENOLCK:
		return e;
	case EMFILE:
	case ENFILE:
		return ENFILE;
	default:
		return EIO;
	}
}

/* Cycles, some 100 us: how old a sight may be. Nothing needs a bound, but for who compares clocks.
 */
#define SIGHT_CYCLES 250000u

/* What is below this in a number counts within a sight. One that has had so much is another. */
#define SIGHT_STEP ((uint64_t)1 << 16)

static struct {
	_Alignas(128) _Atomic uint64_t number;
	_Atomic uint64_t begin; /* by the TSC, */
	_Atomic int64_t wall;   /* and by the clock of the host's file systems */
	_Atomic int mapped;
} g_sight = {.number = SIGHT_STEP};

/* The last that this thread began, and in which fiber_moment(). Fibers wander between threads, so
 * these are for functions that do not sleep. */
static _Thread_local struct {
	uint64_t moment, sight;
} t_sight;

void host_news(void)
{
	atomic_fetch_add(&g_sight.number, SIGHT_STEP);
}

void host_sight_mapped(int change)
{
	atomic_fetch_add(&g_sight.mapped, change);
	host_news();
}

bool host_sight_same(uint64_t a, uint64_t b)
{
	return a / SIGHT_STEP == b / SIGHT_STEP;
}

static bool holds_at(uint64_t number)
{
	return host_sight_same(number, atomic_load(&g_sight.number)) &&
	       atomic_load_explicit(&g_sight.mapped, memory_order_relaxed) == 0 &&
	       __builtin_ia32_rdtsc() - atomic_load(&g_sight.begin) < SIGHT_CYCLES;
}

bool host_sight_holds(uint64_t sight)
{
	return sight != 0 && holds_at(sight);
}

bool host_sight_last(uint64_t sight)
{
	return sight != 0 && sight == atomic_load(&g_sight.number) && holds_at(sight);
}

struct host_sight host_sight_take(void)
{
	/* In this order: what ends the sight comes after the number was read. */
	const uint64_t number = atomic_load(&g_sight.number);

	return (struct host_sight){number, __builtin_ia32_rdtsc()};
}

bool host_sight_current(const struct host_sight *s)
{
	return s->number == atomic_load(&g_sight.number) &&
	       atomic_load_explicit(&g_sight.mapped, memory_order_relaxed) == 0 &&
	       __builtin_ia32_rdtsc() - s->begin < SIGHT_CYCLES;
}

/* What is older than that had changed before the sight began, whatever the file system keeps of a
 * time and however far the clock lags by which it does. */
#define OLD_NS 2000000000
#define TRUSTED_MAX 16

static struct {
	_Atomic int64_t old_ns;
	_Atomic unsigned count;
	_Atomic uint64_t dev[TRUSTED_MAX];
} g_trusted = {.old_ns = OLD_NS};

void host_sight_trust(uint64_t dev)
{
	static struct mutex lock = MUTEX_INIT(RANK_LEAF);

	mutex_lock(&lock);

	const unsigned count = atomic_load(&g_trusted.count);
	unsigned i = 0;

	while (i < count && atomic_load(&g_trusted.dev[i]) != dev)
		i++;
	if (i == count && count < TRUSTED_MAX) {
		atomic_store(&g_trusted.dev[i], dev);
		atomic_store(&g_trusted.count, count + 1);
	}
	mutex_unlock(&lock);
}

void host_sight_set_old(int64_t ns)
{
	atomic_store(&g_trusted.old_ns, ns);
}

static bool is_trusted(uint64_t dev)
{
	const unsigned count = atomic_load_explicit(&g_trusted.count, memory_order_acquire);

	for (unsigned i = 0; i < count; i++)
		if (atomic_load_explicit(&g_trusted.dev[i], memory_order_relaxed) == dev)
			return true;
	return false;
}

/* Was all of it so already at @wall? */
static bool is_old(const struct host_stat *st, int64_t wall)
{
	return MAX(st->ctime, st->atime) < wall - atomic_load(&g_trusted.old_ns) &&
	       is_trusted(st->dev);
}

/* A question for attributes: what was so before it was asked. */
struct question {
	uint64_t number, tsc;
	int64_t wall;
	bool joins; /* the sight is not too old */
};

static struct question sight_ask(void)
{
	struct question q = {.number = atomic_load(&g_sight.number)};
	struct timespec now;

	q.tsc = __builtin_ia32_rdtsc();
	q.joins = q.tsc - atomic_load(&g_sight.begin) < SIGHT_CYCLES;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	q.wall = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	return q;
}

/* One more was told in the sight of @number, unless that has ended meanwhile. */
static uint64_t sight_goes_on(uint64_t number, bool old)
{
	uint64_t now = atomic_load(&g_sight.number);

	do {
		if (!host_sight_same(now, number)) {
			host_news();
			return number;
		}
	} while (!old && !atomic_compare_exchange_weak(&g_sight.number, &now, now + 1));
	return old ? number : now + 1;
}

/* It was answered with @st, or (NULL) not. The sight of that. */
static OWN_TLS uint64_t sight_told(const struct question *q, const struct host_stat *st)
{
	const uint64_t moment = fiber_moment();
	const bool old = q->joins && st && is_old(st, atomic_load(&g_sight.wall));
	uint64_t number = q->number;

	if (old ||
	    (moment != 0 && t_sight.moment == moment && host_sight_same(t_sight.sight, number)))
		return sight_goes_on(number, old);
	if (!atomic_compare_exchange_strong(&g_sight.number, &number, number + SIGHT_STEP)) {
		host_news();
		return 0;
	}
	/* Who reads the new number and older times believes less. */
	atomic_store(&g_sight.begin, q->tsc);
	atomic_store(&g_sight.wall, q->wall);
	t_sight.moment = moment;
	t_sight.sight = q->number + SIGHT_STEP;
	return t_sight.sight;
}

static long filtered(long r)
{
	return r < 0 ? -host_errno(errno) : r;
}

/* What tells of files only what was known, or what its caller calls a sight. */
#define HOST_CALL_SIGHT(tag, call)                             \
	({                                                     \
		long hc_r_ = -EIO;                             \
		if (!fail_now(FAIL_HOST)) {                    \
			do                                     \
				hc_r_ = (long)HOST(tag, call); \
			while (hc_r_ < 0 && errno == EINTR);   \
			hc_r_ = filtered(hc_r_);               \
		}                                              \
		hc_r_;                                         \
	})

#define HOST_CALL(tag, call)                             \
	({                                               \
		long hn_r_ = HOST_CALL_SIGHT(tag, call); \
		host_news();                             \
		hn_r_;                                   \
	})

static bool one_component(const char *name)
{
	return name[0] && !strchr(name, '/') && strcmp(name, "..") != 0;
}

/* ---- watches ---- */

int host_watch_open(void)
{
	return (int)HOST_CALL_SIGHT(fanotify_init_watch,
				    syscall(SYS_fanotify_init, HOST_WATCH_KIND, HOST_WATCH_FLAGS));
}

static int mark(int queue, unsigned flags, int dir, const char *name, bool directory)
{
	const uint64_t events = directory ? HOST_WATCH_DIR : HOST_WATCH_FILE;

	if (name && !one_component(name))
		return -EINVAL;
	flags |= FAN_MARK_DONT_FOLLOW;
	return (int)HOST_CALL_SIGHT(fanotify_mark_watch,
				    syscall(SYS_fanotify_mark, queue, flags, events, dir, name));
}

int host_watch_mark(int queue, int dir, const char *name, bool directory)
{
	return mark(queue, FAN_MARK_ADD, dir, name, directory);
}

int host_watch_unmark(int queue, int dir, const char *name, bool directory)
{
	return mark(queue, FAN_MARK_REMOVE, dir, name, directory);
}

void host_watch_unmark_all(int queue)
{
	(void)HOST_CALL_SIGHT(fanotify_flush_watch,
			      syscall(SYS_fanotify_mark, queue, FAN_MARK_FLUSH, 0, queue, NULL));
}

bool host_watch_pending(int queue)
{
	int size = 0;

	return HOST_CALL_SIGHT(ioctl_watch, ioctl(queue, FIONREAD, &size)) < 0 || size != 0;
}

void host_watch_drain(int queue)
{
	_Alignas(8) char buf[4096];
	const struct iovec iov = {.iov_base = buf, .iov_len = sizeof(buf)};

	/* One that never ends is drained again by the next who looks. */
	for (unsigned i = 0; i < 64; i++)
		if (HOST_CALL_SIGHT(preadv2_watch, preadv2(queue, &iov, 1, -1, 0)) <= 0)
			return;
}

static int64_t ns_of(struct statx_timestamp t)
{
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

static int stat_any(int dir, const char *name, int flags, struct host_stat *out)
{
	struct statx s;
	const struct question q = sight_ask();
	long r = HOST_CALL_SIGHT(statx_file,
				 statx(dir, name, flags | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
				       STATX_BASIC_STATS | STATX_BTIME, &s));

	if (r < 0) {
		(void)sight_told(&q, NULL);
		return (int)r;
	}
	*out = (struct host_stat){
		.dev = lx_makedev(s.stx_dev_major, s.stx_dev_minor),
		.ino = s.stx_ino,
		.rdev = lx_makedev(s.stx_rdev_major, s.stx_rdev_minor),
		.size = s.stx_size,
		.blocks = s.stx_blocks,
		.mode = s.stx_mode,
		.nlink = s.stx_nlink,
		.uid = s.stx_uid,
		.gid = s.stx_gid,
		.blksize = s.stx_blksize,
		.atime = ns_of(s.stx_atime),
		.mtime = ns_of(s.stx_mtime),
		.ctime = ns_of(s.stx_ctime),
		.btime = (s.stx_mask & STATX_BTIME) ? ns_of(s.stx_btime) : 0,
		/* A kernel that cannot tell: perhaps, so look. */
		.mount_root = !(s.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) ||
			      (s.stx_attributes & STATX_ATTR_MOUNT_ROOT),
	};
	out->sight = sight_told(&q, out);
	return 0;
}

int host_stat_at(int dir, const char *name, struct host_stat *out)
{
	return one_component(name) ? stat_any(dir, name, 0, out) : -EINVAL;
}

int host_stat_fd(int fd, struct host_stat *out)
{
	return stat_any(fd, "", AT_EMPTY_PATH, out);
}

/* Does the host know openat2? Decided by the first open. */
static _Atomic enum { OPENAT2_UNKNOWN, OPENAT2_THERE, OPENAT2_LACKING } g_openat2;

/* What an openat2 that failed with @e says of the host. A filter around us may say EPERM for calls
 * that it does not know; the kernel itself finds fault with a struct of no size first. */
static void openat2_judge(int e)
{
	if (e == EPERM && HOST(openat2_file, syscall(SYS_openat2, -1, "", NULL, 0)) < 0)
		e = errno == EINVAL ? 0 : ENOSYS;
	atomic_store_explicit(&g_openat2, e == ENOSYS ? OPENAT2_LACKING : OPENAT2_THERE,
			      memory_order_relaxed);
}

int host_open_at(int dir, const char *name, int flags, uint32_t mode)
{
	struct host_open_how how;
	long r;

	if (!one_component(name))
		return -EINVAL;
	/* O_NONBLOCK: if the name turns into a FIFO between check and open, we do not hang. */
	flags |= O_CLOEXEC | O_NOFOLLOW | ((flags & O_PATH) ? 0 : O_NOCTTY | O_NONBLOCK);
	if (atomic_load_explicit(&g_openat2, memory_order_relaxed) == OPENAT2_LACKING)
		return (int)HOST_CALL(openat_file, openat(dir, name, flags, mode));
	how = (struct host_open_how){.flags = (unsigned)flags,
				     .mode = mode,
				     .resolve =
					     HOST_BENEATH | HOST_NO_SYMLINKS | HOST_NO_MAGICLINKS};
	r = HOST_CALL_SIGHT(openat2_file, syscall(SYS_openat2, dir, name, &how, sizeof(how)));
	/* That it is there still is nothing new; but see whether it is the same. */
	if (r < 0 || (flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE)
		host_news();
	if (atomic_load_explicit(&g_openat2, memory_order_relaxed) == OPENAT2_UNKNOWN) {
		openat2_judge(r < 0 ? errno : 0);
		if (atomic_load_explicit(&g_openat2, memory_order_relaxed) == OPENAT2_LACKING)
			return (int)HOST_CALL(openat_file, openat(dir, name, flags, mode));
	}
	return (int)r;
}

int host_mkdir_at(int dir, const char *name, uint32_t mode)
{
	if (!one_component(name))
		return -EINVAL;
	return (int)HOST_CALL(mkdirat_file, mkdirat(dir, name, mode));
}

int host_mknod_at(int dir, const char *name, uint32_t mode)
{
	if (!one_component(name) || (!S_ISFIFO(mode) && !S_ISSOCK(mode)))
		return -EPERM;
	return (int)HOST_CALL(mknodat_file, mknodat(dir, name, mode, 0));
}

int host_symlink_at(int dir, const char *name, const char *target)
{
	if (!one_component(name))
		return -EINVAL;
	return (int)HOST_CALL(symlinkat_file, symlinkat(target, dir, name));
}

int host_link_at(int old_dir, const char *old_name, int new_dir, const char *new_name)
{
	if (!one_component(old_name) || !one_component(new_name))
		return -EINVAL;
	return (int)HOST_CALL(linkat_file, linkat(old_dir, old_name, new_dir, new_name, 0));
}

int host_link_fd(int fd, int new_dir, const char *new_name)
{
	if (!one_component(new_name))
		return -EINVAL;
	return (int)HOST_CALL(linkat_file, linkat(fd, "", new_dir, new_name, AT_EMPTY_PATH));
}

int host_unlink_at(int dir, const char *name, bool directory)
{
	if (!one_component(name))
		return -EINVAL;
	return (int)HOST_CALL(unlinkat_file, unlinkat(dir, name, directory ? AT_REMOVEDIR : 0));
}

int host_rename_at(int old_dir, const char *old_name, int new_dir, const char *new_name,
		   unsigned flags)
{
	if (!one_component(old_name) || !one_component(new_name))
		return -EINVAL;
	/* The C library would call renameat where there are no flags. */
	return (int)HOST_CALL(renameat2_file,
			      syscall(SYS_renameat2, old_dir, old_name, new_dir, new_name, flags));
}

ssize_t host_readlink_at(int dir, const char *name, char *buf, size_t size)
{
	if (!one_component(name))
		return -EINVAL;
	return HOST_CALL(readlinkat_file, readlinkat(dir, name, buf, size));
}

#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

static struct timespec utime_of(int64_t ns)
{
	struct timespec t = {.tv_nsec = UTIME_OMIT};

	if (ns != INT64_MIN) {
		t.tv_sec = ns / 1000000000;
		t.tv_nsec = ns % 1000000000;
		if (t.tv_nsec < 0) {
			t.tv_nsec += 1000000000;
			t.tv_sec--;
		}
	}
	return t;
}

int host_utimes_fd(int fd, int64_t atime, int64_t mtime)
{
	struct timespec ts[2] = {utime_of(atime), utime_of(mtime)};

	return (int)HOST_CALL(utimensat_file, utimensat(fd, "", ts, AT_EMPTY_PATH));
}

int host_dup(int fd)
{
	if (fail_now(FAIL_HOST))
		return -EIO;
	int r = HOST(fcntl_dup, fcntl(fd, F_DUPFD_CLOEXEC, 3));

	/* Whoever gave us @fd wants to know. */
	return r >= 0 ? r : errno == EBADF ? -EBADF : -host_errno(errno);
}

uint32_t host_own_uid(void)
{
	return HOST(getuid_setup, getuid());
}

int host_get_flags(int fd)
{
	return (int)HOST_CALL(fcntl_getfl, fcntl(fd, F_GETFL));
}

void host_close(int fd)
{
	if (fd >= 0)
		HOST(close_fd, close(fd));
}

int host_truncate(int fd, uint64_t size)
{
	return (int)HOST_CALL(ftruncate_file, ftruncate(fd, (off_t)size));
}

int host_chown_fd(int fd, uint32_t uid, uint32_t gid)
{
	return (int)HOST_CALL(fchownat_file, fchownat(fd, "", uid, gid, AT_EMPTY_PATH));
}

/* It finds fault with the descriptor only if it is there; with one that our filter lets through. */
bool host_lacks_fchmodat2(void)
{
	return HOST(fchmodat2_file, syscall(SYS_fchmodat2, INT32_MAX, "", 0, AT_EMPTY_PATH)) == 0 ||
	       errno != EBADF;
}

int host_chmod_fd(int fd, uint32_t mode)
{
	int r = (int)HOST_CALL(fchmodat2_file, syscall(SYS_fchmodat2, fd, "", mode, AT_EMPTY_PATH));

	/* EIO: ENOSYS, filtered; EPERM: a filter around us that does not know the call. Where there
	 * is the call, the sentry's own filter forbids the other. */
	if ((r != -EIO && r != -EPERM) || !host_lacks_fchmodat2())
		return r;
	r = (int)HOST_CALL(fchmod_file, fchmod(fd, mode));
	return r == -EIO ? -EOPNOTSUPP : r; /* EIO: EBADF, for O_PATH */
}

int host_fallocate(int fd, int mode, int64_t off, int64_t size)
{
	return (int)HOST_CALL(fallocate_file, fallocate(fd, mode, off, size));
}

struct wait_args {
	int fd, mode;
	void *buf;
	size_t size;
	int64_t off, len;
};

static long do_fallocate(void *arg)
{
	struct wait_args *a = arg;

	return host_fallocate(a->fd, a->mode, a->off, a->len);
}

int host_fallocate_wait(int fd, int mode, int64_t off, int64_t size)
{
	struct wait_args a = {.fd = fd, .mode = mode, .off = off, .len = size};

	return (int)blocking_call_brief(do_fallocate, &a);
}

static long do_fsync(void *arg)
{
	struct wait_args *a = arg;

	if (a->mode)
		return HOST_CALL(fdatasync_file, fdatasync(a->fd));
	return HOST_CALL(fsync_file, fsync(a->fd));
}

int host_fsync_wait(int fd, bool data_only)
{
	struct wait_args a = {.fd = fd, .mode = data_only};

	return (int)blocking_call_brief(do_fsync, &a);
}

static long do_syncfs(void *arg)
{
	const int *fd = arg;

	return HOST_CALL(syncfs_file, syncfs(*fd));
}

int host_syncfs_wait(int fd)
{
	return (int)blocking_call(do_syncfs, &fd);
}

/* ---- locks ---- */

_Static_assert(F_RDLCK == LX_F_RDLCK && F_WRLCK == LX_F_WRLCK && F_UNLCK == LX_F_UNLCK, "LX_F_*");

int host_record_lock(int fd, int type, int64_t start, int64_t end)
{
	struct flock fl = {
		.l_type = (short)type,
		.l_whence = SEEK_SET,
		.l_start = start,
		.l_len = end == INT64_MAX ? 0 : end - start + 1,
	};

	/* That one is let go of tells nothing. */
	if (type == LX_F_UNLCK)
		return (int)HOST_CALL_SIGHT(fcntl_lock, fcntl(fd, F_OFD_SETLK, &fl));
	return (int)HOST_CALL(fcntl_lock, fcntl(fd, F_OFD_SETLK, &fl));
}

int host_record_test(int fd, struct lx_flock *fl)
{
	struct flock host = {
		.l_type = fl->l_type,
		.l_whence = SEEK_SET,
		.l_start = fl->l_start,
		.l_len = fl->l_len,
	};
	const int r = (int)HOST_CALL(fcntl_lock, fcntl(fd, F_OFD_GETLK, &host));

	if (r == 0) {
		fl->l_type = host.l_type;
		fl->l_start = host.l_start;
		fl->l_len = host.l_len;
		fl->l_pid = host.l_pid;
	}
	return r;
}

int host_flock(int fd, int type)
{
	if (type == LX_F_UNLCK)
		return (int)HOST_CALL_SIGHT(flock_file, flock(fd, LOCK_UN));
	return (int)HOST_CALL(flock_file,
			      flock(fd, (type == LX_F_WRLCK ? LOCK_EX : LOCK_SH) | LOCK_NB));
}

static long do_pause(void *arg)
{
	const int *ms = arg;

	return HOST_CALL_SIGHT(poll_pause, poll(NULL, 0, *ms));
}

void host_pause_wait(uint64_t ns)
{
	int ms = (int)(ns / NSEC_PER_MSEC);

	(void)!blocking_call(do_pause, &ms);
}

int64_t host_lseek(int fd, int64_t off, int whence)
{
	return HOST_CALL(lseek_file, lseek(fd, off, whence));
}

ssize_t host_getdents(int fd, void *buf, size_t size)
{
	return HOST_CALL(getdents64_dir, getdents64(fd, buf, size));
}

int host_statfs(int fd, uint64_t out[8])
{
	struct statfs s;
	long r = HOST_CALL(fstatfs_file, fstatfs(fd, &s));

	if (r < 0)
		return (int)r;
	out[0] = (uint64_t)s.f_type;
	out[1] = (uint64_t)s.f_bsize;
	out[2] = s.f_blocks;
	out[3] = s.f_bfree;
	out[4] = s.f_bavail;
	out[5] = s.f_files;
	out[6] = s.f_ffree;
	out[7] = (uint64_t)s.f_namelen;
	return 0;
}

ssize_t host_getxattr(int fd, const char *name, void *buf, size_t size)
{
	return HOST_CALL(fgetxattr_file, fgetxattr(fd, name, buf, size));
}

int host_setxattr(int fd, const char *name, const void *value, size_t size, int flags)
{
	return (int)HOST_CALL(fsetxattr_file, fsetxattr(fd, name, value, size, flags));
}

int host_removexattr(int fd, const char *name)
{
	return (int)HOST_CALL(fremovexattr_file, fremovexattr(fd, name));
}

ssize_t host_listxattr(int fd, char *buf, size_t size)
{
	return HOST_CALL(flistxattr_file, flistxattr(fd, buf, size));
}

static long do_pread(void *arg)
{
	struct wait_args *a = arg;

	const struct iovec iov = {.iov_base = a->buf, .iov_len = a->size};

	return HOST_CALL(preadv2_file, preadv2(a->fd, &iov, 1, a->off, 0));
}

ssize_t host_pread(int fd, void *buf, size_t size, int64_t off, uint64_t end,
		   _Atomic bool *no_nowait)
{
	struct wait_args a = {.fd = fd, .buf = buf, .size = size, .off = off};
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct host_stat st;
	size_t got = 0;
	long r;

	if (!no_nowait || atomic_load_explicit(no_nowait, memory_order_relaxed))
		return do_pread(&a);
	r = HOST_CALL(preadv2_nowait, preadv2(fd, &iov, 1, off, RWF_NOWAIT));
	if (r == (long)size || r == 0)
		return r;
	if (r == -EOPNOTSUPP) {
		atomic_store_explicit(no_nowait, true, memory_order_relaxed);
		return do_pread(&a);
	}
	if (r < 0 && r != -EAGAIN)
		return r;
	/* The part that was in the cache, or all there is up to the end of the file? */
	if (r > 0) {
		got = (size_t)r;
		a.buf = (char *)buf + got;
		a.size -= got;
		a.off += r;
		if ((uint64_t)a.off == end)
			return r;
		if (host_stat_fd(fd, &st) == 0 && (uint64_t)a.off >= st.size)
			return r;
	}
	r = blocking_call(do_pread, &a);
	if (r < 0)
		return got ? (ssize_t)got : r;
	return (ssize_t)got + r;
}

/* struct iovec has no const. */
static struct iovec iov_of(const void *buf, size_t size)
{
	union {
		const void *in;
		void *out;
	} b = {.in = buf};

	return (struct iovec){.iov_base = b.out, .iov_len = size};
}

ssize_t host_pwrite(int fd, const void *buf, size_t size, int64_t off)
{
	const struct iovec iov = iov_of(buf, size);

	return HOST_CALL(pwritev2_file, pwritev2(fd, &iov, 1, off, 0));
}

ssize_t host_append(int fd, const void *buf, size_t size, bool move)
{
	struct iovec iov = iov_of(buf, size);

	return HOST_CALL(pwritev2_file, pwritev2(fd, &iov, 1, move ? -1 : 0, RWF_APPEND));
}

ssize_t host_read_nowait(int fd, void *buf, size_t size, bool socket)
{
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (socket)
		return HOST_CALL(recvmsg_file, recvmsg(fd, &msg, MSG_DONTWAIT));
	return HOST_CALL(preadv2_nowait, preadv2(fd, &iov, 1, -1, RWF_NOWAIT));
}

ssize_t host_write_nowait(int fd, const void *buf, size_t size, bool socket)
{
	struct iovec iov = iov_of(buf, size);
	const struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (socket)
		return HOST_CALL(sendmsg_file, sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL));
	return HOST_CALL(pwritev2_file, pwritev2(fd, &iov, 1, -1, RWF_NOWAIT));
}

static long do_read(void *arg)
{
	struct wait_args *a = arg;

	const struct iovec iov = {.iov_base = a->buf, .iov_len = a->size};

	return HOST_CALL(preadv2_nowait, preadv2(a->fd, &iov, 1, -1, 0));
}

ssize_t host_read_wait(int fd, void *buf, size_t size)
{
	struct wait_args a = {.fd = fd, .buf = buf, .size = size};

	return blocking_call(do_read, &a);
}

ssize_t host_write(int fd, const void *buf, size_t size)
{
	return HOST_CALL(write_file, write(fd, buf, size));
}

static long do_write(void *arg)
{
	struct wait_args *a = arg;

	return host_write(a->fd, a->buf, a->size);
}

ssize_t host_write_wait(int fd, const void *buf, size_t size)
{
	struct iovec iov = iov_of(buf, size);
	struct wait_args a = {.fd = fd, .buf = iov.iov_base, .size = size};

	return blocking_call(do_write, &a);
}

uint32_t host_poll(int fd, uint32_t events)
{
	struct pollfd p = {.fd = fd, .events = (short)events};
	long r = HOST_CALL(poll_file, poll(&p, 1, 0));

	return r > 0 ? (uint32_t)(unsigned short)p.revents : 0;
}

int host_ioctl(int fd, unsigned cmd, void *arg)
{
	return (int)HOST_CALL(ioctl_tty, ioctl(fd, cmd, arg));
}

static long do_ioctl(void *arg)
{
	struct wait_args *a = arg;

	return host_ioctl(a->fd, (unsigned)a->size, a->buf);
}

int host_ioctl_wait(int fd, unsigned cmd, void *arg)
{
	struct wait_args a = {.fd = fd, .buf = arg, .size = cmd};

	return (int)blocking_call(do_ioctl, &a);
}

int host_memfd(const char *name)
{
	return (int)HOST_CALL(memfd_create_file,
			      memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

void *host_map(int fd, size_t size, bool writable)
{
	if (fail_now(FAIL_HOST))
		return NULL;
	void *p = HOST(mmap_file, mmap(NULL, size, PROT_READ | (writable ? PROT_WRITE : 0),
				       MAP_SHARED, fd, 0));

	return p == MAP_FAILED ? NULL : p;
}

void *host_map_part(int fd, uint64_t offset, size_t size)
{
	if (fail_now(FAIL_HOST))
		return NULL;
	void *p = HOST(mmap_file, mmap(NULL, size, PROT_READ, MAP_SHARED, fd, (off_t)offset));

	return p == MAP_FAILED ? NULL : p;
}

void host_unmap(void *p, size_t size)
{
	HOST(munmap_own, munmap(p, size));
}

void *host_map_anon(size_t size)
{
	if (fail_now(FAIL_ALLOC))
		return NULL;
	void *p = HOST(mmap_anon, mmap(NULL, size, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

	return p == MAP_FAILED ? NULL : p;
}

void host_drop_pages(void *p, size_t size)
{
	HOST(madvise_drop, madvise(p, size, MADV_DONTNEED));
}

int host_resident(int fd, uint64_t offset, size_t pages, uint8_t *vec)
{
	/* A byte of what is not in the cache, or can never come there, cannot be had at once. */
	for (size_t i = 0; i < pages; i++) {
		char c;
		const struct iovec iov = {.iov_base = &c, .iov_len = 1};
		const off_t off = (off_t)(offset + i * MOAT_PAGE_SIZE);
		const ssize_t n = HOST(preadv2_nowait, preadv2(fd, &iov, 1, off, RWF_NOWAIT));

		if (n < 0 && errno != EAGAIN)
			return -errno;
		vec[i] = n > 0;
	}
	return 0;
}

int host_resident_memory(int fd, uint64_t offset, size_t pages, uint8_t *vec)
{
	/* Its cache is all that there is of it, so what is missing there is a hole. */
	const uint64_t end = offset + pages * MOAT_PAGE_SIZE;

	memset(vec, 0, pages);
	for (uint64_t at = offset; at < end;) {
		const int64_t data = host_lseek(fd, (int64_t)at, SEEK_DATA);

		if (data == -ENXIO || data >= (int64_t)end)
			break;
		const int64_t hole = data < 0 ? data : host_lseek(fd, data, SEEK_HOLE);

		if (hole < 0 && hole != -ENXIO)
			return (int)hole;
		at = page_down(data);
		do {
			vec[(at - offset) / MOAT_PAGE_SIZE] = 1;
			at += MOAT_PAGE_SIZE;
		} while (at < end && (int64_t)at < hole);
	}
	return 0;
}

uint64_t host_map_key_new(void)
{
	static _Atomic uint64_t next = 1;

	return atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
}

void host_map_key_gone(uint64_t key)
{
	if (key && g_vfs_file_gone)
		g_vfs_file_gone(key);
}
