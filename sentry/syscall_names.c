/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of flags and values in syscall arguments, for the decoder. Sets are named by the kinds of
 * sentry/argkinds.h. An entry with a mask is a value in a field of several bits.
 */
#include <errno.h>
#include <string.h>
#include "sentry/syscall_table.h"

/* clang-format off */

#define END {0}
#define F(name, value) {name, value, 0}
#define FIELD(name, value, mask) {name, value, mask}

static const struct name_value g_none[] = {END};

static const struct name_value fs_access[] = {F("R_OK", 4), F("W_OK", 2), F("X_OK", 1), END};
static const struct name_value fs_at[] = {
	F("AT_SYMLINK_NOFOLLOW", 0x100), F("AT_REMOVEDIR", 0x200), F("AT_SYMLINK_FOLLOW", 0x400),
	F("AT_NO_AUTOMOUNT", 0x800), F("AT_EMPTY_PATH", 0x1000), F("AT_STATX_FORCE_SYNC", 0x2000),
	F("AT_STATX_DONT_SYNC", 0x4000), F("AT_RECURSIVE", 0x8000), END};
static const struct name_value fs_faccess[] = {
	F("AT_SYMLINK_NOFOLLOW", 0x100), F("AT_EACCESS", 0x200), F("AT_EMPTY_PATH", 0x1000), END};
static const struct name_value fs_unlinkat[] = {F("AT_REMOVEDIR", 0x200), END};
static const struct name_value fs_clone[] = {
	F("CLONE_NEWTIME", 0x80), F("CLONE_VM", 0x100), F("CLONE_FS", 0x200), F("CLONE_FILES", 0x400),
	F("CLONE_SIGHAND", 0x800), F("CLONE_PIDFD", 0x1000), F("CLONE_PTRACE", 0x2000),
	F("CLONE_VFORK", 0x4000), F("CLONE_PARENT", 0x8000), F("CLONE_THREAD", 0x10000),
	F("CLONE_NEWNS", 0x20000), F("CLONE_SYSVSEM", 0x40000), F("CLONE_SETTLS", 0x80000),
	F("CLONE_PARENT_SETTID", 0x100000), F("CLONE_CHILD_CLEARTID", 0x200000),
	F("CLONE_DETACHED", 0x400000), F("CLONE_UNTRACED", 0x800000), F("CLONE_CHILD_SETTID", 0x1000000),
	F("CLONE_NEWCGROUP", 0x2000000), F("CLONE_NEWUTS", 0x4000000), F("CLONE_NEWIPC", 0x8000000),
	F("CLONE_NEWUSER", 0x10000000), F("CLONE_NEWPID", 0x20000000), F("CLONE_NEWNET", 0x40000000),
	F("CLONE_IO", 0x80000000), F("CLONE_CLEAR_SIGHAND", 0x100000000), F("CLONE_INTO_CGROUP", 0x200000000), END};
static const struct name_value fs_close_range[] = {F("CLOSE_RANGE_UNSHARE", 2), F("CLOSE_RANGE_CLOEXEC", 4), END};
static const struct name_value fs_eventfd[] = {F("EFD_SEMAPHORE", 1), F("EFD_NONBLOCK", 04000), F("EFD_CLOEXEC", 02000000), END};
static const struct name_value fs_fallocate[] = {
	F("FALLOC_FL_KEEP_SIZE", 1), F("FALLOC_FL_PUNCH_HOLE", 2), F("FALLOC_FL_NO_HIDE_STALE", 4),
	F("FALLOC_FL_COLLAPSE_RANGE", 8), F("FALLOC_FL_ZERO_RANGE", 16), F("FALLOC_FL_INSERT_RANGE", 32),
	F("FALLOC_FL_UNSHARE_RANGE", 64), END};
static const struct name_value fs_fdnew[] = {F("O_DIRECT", 040000), F("O_NONBLOCK", 04000), F("O_CLOEXEC", 02000000), END};
static const struct name_value fs_flock[] = {F("LOCK_SH", 1), F("LOCK_EX", 2), F("LOCK_NB", 4), F("LOCK_UN", 8), F("LOCK_MAND", 32), END};
static const struct name_value fs_futex2[] = {
	FIELD("FUTEX2_SIZE_U8", 0, 3), FIELD("FUTEX2_SIZE_U16", 1, 3), FIELD("FUTEX2_SIZE_U32", 2, 3),
	FIELD("FUTEX2_SIZE_U64", 3, 3), F("FUTEX2_NUMA", 4), F("FUTEX2_PRIVATE", 128), END};
static const struct name_value fs_getrandom[] = {F("GRND_NONBLOCK", 1), F("GRND_RANDOM", 2), F("GRND_INSECURE", 4), END};
static const struct name_value fs_inotify[] = {
	F("IN_ACCESS", 1), F("IN_MODIFY", 2), F("IN_ATTRIB", 4), F("IN_CLOSE_WRITE", 8), F("IN_CLOSE_NOWRITE", 0x10),
	F("IN_OPEN", 0x20), F("IN_MOVED_FROM", 0x40), F("IN_MOVED_TO", 0x80), F("IN_CREATE", 0x100),
	F("IN_DELETE", 0x200), F("IN_DELETE_SELF", 0x400), F("IN_MOVE_SELF", 0x800), F("IN_ONLYDIR", 0x1000000),
	F("IN_DONT_FOLLOW", 0x2000000), F("IN_EXCL_UNLINK", 0x4000000), F("IN_MASK_CREATE", 0x10000000),
	F("IN_MASK_ADD", 0x20000000), F("IN_ISDIR", 0x40000000), F("IN_ONESHOT", 0x80000000), END};
static const struct name_value fs_ipcget[] = {F("IPC_CREAT", 01000), F("IPC_EXCL", 02000), F("IPC_NOWAIT", 04000), F("MSG_NOERROR", 010000), F("MSG_EXCEPT", 020000), F("MSG_COPY", 040000), END};
static const struct name_value fs_memfd[] = {
	F("MFD_CLOEXEC", 1), F("MFD_ALLOW_SEALING", 2), F("MFD_HUGETLB", 4), F("MFD_NOEXEC_SEAL", 8), F("MFD_EXEC", 16), END};
static const struct name_value fs_mlock2[] = {F("MLOCK_ONFAULT", 1), END};
static const struct name_value fs_mlockall[] = {F("MCL_CURRENT", 1), F("MCL_FUTURE", 2), F("MCL_ONFAULT", 4), END};
static const struct name_value fs_mmap[] = {
	FIELD("MAP_SHARED", 1, 0xf), FIELD("MAP_PRIVATE", 2, 0xf), FIELD("MAP_SHARED_VALIDATE", 3, 0xf),
	F("MAP_FIXED", 0x10), F("MAP_ANONYMOUS", 0x20), F("MAP_32BIT", 0x40), F("MAP_GROWSDOWN", 0x100),
	F("MAP_DENYWRITE", 0x800), F("MAP_EXECUTABLE", 0x1000), F("MAP_LOCKED", 0x2000), F("MAP_NORESERVE", 0x4000),
	F("MAP_POPULATE", 0x8000), F("MAP_NONBLOCK", 0x10000), F("MAP_STACK", 0x20000), F("MAP_HUGETLB", 0x40000),
	F("MAP_SYNC", 0x80000), F("MAP_FIXED_NOREPLACE", 0x100000), END};
static const struct name_value fs_mount[] = {
	FIELD("MS_MGC_VAL", 0xc0ed0000, 0xffff0000), F("MS_RDONLY", 1), F("MS_NOSUID", 2), F("MS_NODEV", 4),
	F("MS_NOEXEC", 8), F("MS_SYNCHRONOUS", 16), F("MS_REMOUNT", 32), F("MS_MANDLOCK", 64), F("MS_DIRSYNC", 128),
	F("MS_NOSYMFOLLOW", 256), F("MS_NOATIME", 1024), F("MS_NODIRATIME", 2048), F("MS_BIND", 4096),
	F("MS_MOVE", 8192), F("MS_REC", 16384), F("MS_SILENT", 32768), F("MS_POSIXACL", 1 << 16),
	F("MS_UNBINDABLE", 1 << 17), F("MS_PRIVATE", 1 << 18), F("MS_SLAVE", 1 << 19), F("MS_SHARED", 1 << 20),
	F("MS_RELATIME", 1 << 21), F("MS_STRICTATIME", 1 << 24), F("MS_LAZYTIME", 1 << 25), END};
static const struct name_value fs_mremap[] = {F("MREMAP_MAYMOVE", 1), F("MREMAP_FIXED", 2), F("MREMAP_DONTUNMAP", 4), END};
static const struct name_value fs_msg[] = {
	F("MSG_OOB", 1), F("MSG_PEEK", 2), F("MSG_DONTROUTE", 4), F("MSG_CTRUNC", 8), F("MSG_TRUNC", 0x20),
	F("MSG_DONTWAIT", 0x40), F("MSG_EOR", 0x80), F("MSG_WAITALL", 0x100), F("MSG_CONFIRM", 0x800),
	F("MSG_ERRQUEUE", 0x2000), F("MSG_NOSIGNAL", 0x4000), F("MSG_MORE", 0x8000), F("MSG_WAITFORONE", 0x10000),
	F("MSG_ZEROCOPY", 0x4000000), F("MSG_FASTOPEN", 0x20000000), F("MSG_CMSG_CLOEXEC", 0x40000000), END};
static const struct name_value fs_msync[] = {F("MS_ASYNC", 1), F("MS_INVALIDATE", 2), F("MS_SYNC", 4), END};
static const struct name_value fs_open[] = {
	FIELD("O_RDONLY", 0, 3), FIELD("O_WRONLY", 1, 3), FIELD("O_RDWR", 2, 3), FIELD("O_ACCMODE", 3, 3),
	FIELD("O_TMPFILE", 020200000, 020200000), F("O_CREAT", 0100), F("O_EXCL", 0200), F("O_NOCTTY", 0400), F("O_TRUNC", 01000),
	F("O_APPEND", 02000), F("O_NONBLOCK", 04000), FIELD("O_SYNC", 04010000, 04010000), F("O_DSYNC", 010000),
	F("O_ASYNC", 020000), F("O_DIRECT", 040000), F("O_LARGEFILE", 0100000), F("O_DIRECTORY", 0200000),
	F("O_NOFOLLOW", 0400000), F("O_NOATIME", 01000000), F("O_CLOEXEC", 02000000), F("O_PATH", 010000000), END};
static const struct name_value fs_personality[] = {
	FIELD("PER_LINUX", 0, 0xff), F("UNAME26", 0x20000), F("ADDR_NO_RANDOMIZE", 0x40000), F("FDPIC_FUNCPTRS", 0x80000),
	F("MMAP_PAGE_ZERO", 0x100000), F("ADDR_COMPAT_LAYOUT", 0x200000), F("READ_IMPLIES_EXEC", 0x400000),
	F("ADDR_LIMIT_32BIT", 0x800000), F("SHORT_INODE", 0x1000000), F("WHOLE_SECONDS", 0x2000000),
	F("STICKY_TIMEOUTS", 0x4000000), F("ADDR_LIMIT_3GB", 0x8000000), END};
static const struct name_value fs_poll[] = {
	F("POLLIN", 1), F("POLLPRI", 2), F("POLLOUT", 4), F("POLLERR", 8), F("POLLHUP", 0x10), F("POLLNVAL", 0x20),
	F("POLLRDNORM", 0x40), F("POLLRDBAND", 0x80), F("POLLWRNORM", 0x100), F("POLLWRBAND", 0x200), F("POLLMSG", 0x400),
	F("POLLRDHUP", 0x2000), F("EPOLLEXCLUSIVE", 1u << 28), F("EPOLLWAKEUP", 1u << 29), F("EPOLLONESHOT", 1u << 30),
	F("EPOLLET", 1u << 31), END};
static const struct name_value fs_prot[] = {
	F("PROT_READ", 1), F("PROT_WRITE", 2), F("PROT_EXEC", 4), F("PROT_SEM", 8), F("PROT_GROWSDOWN", 0x1000000),
	F("PROT_GROWSUP", 0x2000000), END};
static const struct name_value fs_rename[] = {F("RENAME_NOREPLACE", 1), F("RENAME_EXCHANGE", 2), F("RENAME_WHITEOUT", 4), END};
static const struct name_value fs_resolve[] = {
	F("RESOLVE_NO_XDEV", 1), F("RESOLVE_NO_MAGICLINKS", 2), F("RESOLVE_NO_SYMLINKS", 4), F("RESOLVE_BENEATH", 8),
	F("RESOLVE_IN_ROOT", 16), F("RESOLVE_CACHED", 32), END};
static const struct name_value fs_rseq[] = {F("RSEQ_FLAG_UNREGISTER", 1), END};
static const struct name_value fs_rwf[] = {
	F("RWF_HIPRI", 1), F("RWF_DSYNC", 2), F("RWF_SYNC", 4), F("RWF_NOWAIT", 8), F("RWF_APPEND", 16), F("RWF_NOAPPEND", 32),
	F("RWF_ATOMIC", 64), F("RWF_DONTCACHE", 128), END};
static const struct name_value fs_sa[] = {
	F("SA_NOCLDSTOP", 1), F("SA_NOCLDWAIT", 2), F("SA_SIGINFO", 4), F("SA_RESTORER", 0x4000000), F("SA_ONSTACK", 0x8000000),
	F("SA_RESTART", 0x10000000), F("SA_NODEFER", 0x40000000), F("SA_RESETHAND", 0x80000000), END};
static const struct name_value fs_shmat[] = {F("SHM_RDONLY", 010000), F("SHM_RND", 020000), F("SHM_REMAP", 040000), F("SHM_EXEC", 0100000), END};
static const struct name_value fs_sockflags[] = {F("SOCK_NONBLOCK", 04000), F("SOCK_CLOEXEC", 02000000), END};
static const struct name_value fs_socktype[] = {
	FIELD("SOCK_STREAM", 1, 0xf), FIELD("SOCK_DGRAM", 2, 0xf), FIELD("SOCK_RAW", 3, 0xf), FIELD("SOCK_RDM", 4, 0xf),
	FIELD("SOCK_SEQPACKET", 5, 0xf), FIELD("SOCK_DCCP", 6, 0xf), FIELD("SOCK_PACKET", 10, 0xf),
	F("SOCK_NONBLOCK", 04000), F("SOCK_CLOEXEC", 02000000), END};
static const struct name_value fs_splice[] = {F("SPLICE_F_MOVE", 1), F("SPLICE_F_NONBLOCK", 2), F("SPLICE_F_MORE", 4), F("SPLICE_F_GIFT", 8), END};
static const struct name_value fs_ss[] = {F("SS_ONSTACK", 1), F("SS_DISABLE", 2), F("SS_AUTODISARM", 0x80000000), END};
static const struct name_value fs_statx[] = {
	FIELD("STATX_ALL", 0xfff, 0xfff), FIELD("STATX_BASIC_STATS", 0x7ff, 0x7ff), F("STATX_TYPE", 1), F("STATX_MODE", 2), F("STATX_NLINK", 4),
	F("STATX_UID", 8), F("STATX_GID", 0x10), F("STATX_ATIME", 0x20), F("STATX_MTIME", 0x40), F("STATX_CTIME", 0x80),
	F("STATX_INO", 0x100), F("STATX_SIZE", 0x200), F("STATX_BLOCKS", 0x400), F("STATX_BTIME", 0x800), F("STATX_MNT_ID", 0x1000), END};
static const struct name_value fs_sync_file_range[] = {
	F("SYNC_FILE_RANGE_WAIT_BEFORE", 1), F("SYNC_FILE_RANGE_WRITE", 2), F("SYNC_FILE_RANGE_WAIT_AFTER", 4), END};
static const struct name_value fs_tfd[] = {F("TFD_TIMER_ABSTIME", 1), F("TFD_TIMER_CANCEL_ON_SET", 2), END};
static const struct name_value fs_timer[] = {F("TIMER_ABSTIME", 1), END};
static const struct name_value fs_umount[] = {F("MNT_FORCE", 1), F("MNT_DETACH", 2), F("MNT_EXPIRE", 4), F("UMOUNT_NOFOLLOW", 8), END};
static const struct name_value fs_wait[] = {
	F("WNOHANG", 1), F("WSTOPPED", 2), F("WEXITED", 4), F("WCONTINUED", 8), F("WNOWAIT", 0x1000000), F("__WNOTHREAD", 0x20000000),
	F("__WALL", 0x40000000), F("__WCLONE", 0x80000000), END};
static const struct name_value fs_xattr[] = {F("XATTR_CREATE", 1), F("XATTR_REPLACE", 2), END};

static const struct name_value *const g_flagsets[] = {
	[FS_none] = g_none,
#define X(name) [FS_##name] = fs_##name,
	ARG_FLAGSETS(X)
#undef X
};

static const struct name_value en_af[] = {
	F("AF_UNSPEC", 0), F("AF_UNIX", 1), F("AF_INET", 2), F("AF_INET6", 10), F("AF_NETLINK", 16), F("AF_PACKET", 17), F("AF_ALG", 38),
	F("AF_VSOCK", 40), END};
static const struct name_value en_arch_prctl[] = {
	F("ARCH_SET_GS", 0x1001), F("ARCH_SET_FS", 0x1002), F("ARCH_GET_FS", 0x1003), F("ARCH_GET_GS", 0x1004), F("ARCH_GET_CPUID", 0x1011),
	F("ARCH_SET_CPUID", 0x1012), F("ARCH_GET_XCOMP_SUPP", 0x1021), F("ARCH_GET_XCOMP_PERM", 0x1022), F("ARCH_REQ_XCOMP_PERM", 0x1023),
	F("ARCH_CET_STATUS", 0x3001), END};
static const struct name_value en_clockid[] = {
	F("CLOCK_REALTIME", 0), F("CLOCK_MONOTONIC", 1), F("CLOCK_PROCESS_CPUTIME_ID", 2), F("CLOCK_THREAD_CPUTIME_ID", 3),
	F("CLOCK_MONOTONIC_RAW", 4), F("CLOCK_REALTIME_COARSE", 5), F("CLOCK_MONOTONIC_COARSE", 6), F("CLOCK_BOOTTIME", 7),
	F("CLOCK_REALTIME_ALARM", 8), F("CLOCK_BOOTTIME_ALARM", 9), F("CLOCK_TAI", 11), END};
static const struct name_value en_epoll_ctl[] = {F("EPOLL_CTL_ADD", 1), F("EPOLL_CTL_DEL", 2), F("EPOLL_CTL_MOD", 3), END};
static const struct name_value en_fadvise[] = {
	F("POSIX_FADV_NORMAL", 0), F("POSIX_FADV_RANDOM", 1), F("POSIX_FADV_SEQUENTIAL", 2), F("POSIX_FADV_WILLNEED", 3),
	F("POSIX_FADV_DONTNEED", 4), F("POSIX_FADV_NOREUSE", 5), END};
static const struct name_value en_fcntl[] = {
	F("F_DUPFD", 0), F("F_GETFD", 1), F("F_SETFD", 2), F("F_GETFL", 3), F("F_SETFL", 4), F("F_GETLK", 5), F("F_SETLK", 6), F("F_SETLKW", 7),
	F("F_SETOWN", 8), F("F_GETOWN", 9), F("F_SETSIG", 10), F("F_GETSIG", 11), F("F_SETOWN_EX", 15), F("F_GETOWN_EX", 16),
	F("F_GETOWNER_UIDS", 17), F("F_OFD_GETLK", 36), F("F_OFD_SETLK", 37), F("F_OFD_SETLKW", 38), F("F_SETLEASE", 1024),
	F("F_GETLEASE", 1025), F("F_NOTIFY", 1026), F("F_DUPFD_QUERY", 1027), F("F_CREATED_QUERY", 1028), F("F_DUPFD_CLOEXEC", 1030),
	F("F_SETPIPE_SZ", 1031), F("F_GETPIPE_SZ", 1032), F("F_ADD_SEALS", 1033), F("F_GET_SEALS", 1034), F("F_GET_RW_HINT", 1035),
	F("F_SET_RW_HINT", 1036), F("F_GET_FILE_RW_HINT", 1037), F("F_SET_FILE_RW_HINT", 1038), END};
static const struct name_value en_futexop[] = {
	F("FUTEX_WAIT", 0), F("FUTEX_WAKE", 1), F("FUTEX_FD", 2), F("FUTEX_REQUEUE", 3), F("FUTEX_CMP_REQUEUE", 4), F("FUTEX_WAKE_OP", 5),
	F("FUTEX_LOCK_PI", 6), F("FUTEX_UNLOCK_PI", 7), F("FUTEX_TRYLOCK_PI", 8), F("FUTEX_WAIT_BITSET", 9), F("FUTEX_WAKE_BITSET", 10),
	F("FUTEX_WAIT_REQUEUE_PI", 11), F("FUTEX_CMP_REQUEUE_PI", 12), F("FUTEX_LOCK_PI2", 13), END};
static const struct name_value en_idtype[] = {F("P_ALL", 0), F("P_PID", 1), F("P_PGID", 2), F("P_PIDFD", 3), END};
static const struct name_value en_ioctl[] = {
	F("PROCMAP_QUERY", 0xc0686611), F("NS_GET_USERNS", 0xb701), F("NS_GET_PARENT", 0xb702), F("NS_GET_NSTYPE", 0xb703), F("NS_GET_OWNER_UID", 0xb704),
	F("TCGETS", 0x5401), F("TCSETS", 0x5402), F("TCSETSW", 0x5403), F("TCSETSF", 0x5404), F("TCGETA", 0x5405), F("TCSETA", 0x5406),
	F("TCSBRK", 0x5409), F("TCXONC", 0x540a), F("TCFLSH", 0x540b), F("TIOCEXCL", 0x540c), F("TIOCNXCL", 0x540d), F("TIOCSCTTY", 0x540e),
	F("TIOCGPGRP", 0x540f), F("TIOCSPGRP", 0x5410), F("TIOCOUTQ", 0x5411), F("TIOCSTI", 0x5412), F("TIOCGWINSZ", 0x5413),
	F("TIOCSWINSZ", 0x5414), F("FIONREAD", 0x541b), F("TIOCPKT", 0x5420), F("FIONBIO", 0x5421), F("TIOCNOTTY", 0x5422),
	F("TCSBRKP", 0x5425), F("TIOCGSID", 0x5429), F("TCGETS2", 0x802c542a), F("TCSETS2", 0x402c542b), F("TIOCGPTN", 0x80045430),
	F("TIOCSPTLCK", 0x40045431), F("TIOCGPTPEER", 0x5441), F("FIONCLEX", 0x5450), F("FIOCLEX", 0x5451), F("FIOASYNC", 0x5452),
	F("FIOQSIZE", 0x5460), F("SIOCGPGRP", 0x8904), F("SIOCSPGRP", 0x8902), F("SIOCATMARK", 0x8905), F("SIOCGIFCONF", 0x8912),
	F("SIOCGIFFLAGS", 0x8913), F("SIOCGIFADDR", 0x8915), F("SIOCGIFINDEX", 0x8933), F("FICLONE", 0x40049409),
	F("FICLONERANGE", 0x4020940d), F("FIDEDUPERANGE", 0xc0189436), F("FS_IOC_GETFLAGS", 0x80086601), F("FS_IOC_SETFLAGS", 0x40086602),
	F("FS_IOC_FIEMAP", 0xc020660b), F("FS_IOC_FSGETXATTR", 0x801c581f), END};
static const struct name_value en_ipcctl[] = {
	F("IPC_RMID", 0), F("IPC_SET", 1), F("IPC_STAT", 2), F("IPC_INFO", 3), F("SHM_LOCK", 11), F("SHM_UNLOCK", 12), F("GETPID", 11),
	F("GETVAL", 12), F("GETALL", 13), F("GETNCNT", 14), F("GETZCNT", 15), F("SETVAL", 16), F("SETALL", 17), END};
static const struct name_value en_itimer[] = {F("ITIMER_REAL", 0), F("ITIMER_VIRTUAL", 1), F("ITIMER_PROF", 2), END};
static const struct name_value en_kcmp[] = {
	F("KCMP_FILE", 0), F("KCMP_VM", 1), F("KCMP_FILES", 2), F("KCMP_FS", 3), F("KCMP_SIGHAND", 4), F("KCMP_IO", 5), F("KCMP_SYSVSEM", 6),
	F("KCMP_EPOLL_TFD", 7), END};
static const struct name_value en_madvise[] = {
	F("MADV_NORMAL", 0), F("MADV_RANDOM", 1), F("MADV_SEQUENTIAL", 2), F("MADV_WILLNEED", 3), F("MADV_DONTNEED", 4), F("MADV_FREE", 8),
	F("MADV_REMOVE", 9), F("MADV_DONTFORK", 10), F("MADV_DOFORK", 11), F("MADV_MERGEABLE", 12), F("MADV_UNMERGEABLE", 13),
	F("MADV_HUGEPAGE", 14), F("MADV_NOHUGEPAGE", 15), F("MADV_DONTDUMP", 16), F("MADV_DODUMP", 17), F("MADV_WIPEONFORK", 18),
	F("MADV_KEEPONFORK", 19), F("MADV_COLD", 20), F("MADV_PAGEOUT", 21), F("MADV_POPULATE_READ", 22), F("MADV_POPULATE_WRITE", 23),
	F("MADV_DONTNEED_LOCKED", 24), F("MADV_COLLAPSE", 25), F("MADV_GUARD_INSTALL", 102), F("MADV_GUARD_REMOVE", 103), END};
static const struct name_value en_membarrier[] = {
	F("MEMBARRIER_CMD_QUERY", 0), F("MEMBARRIER_CMD_GLOBAL", 1), F("MEMBARRIER_CMD_GLOBAL_EXPEDITED", 2),
	F("MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED", 4), F("MEMBARRIER_CMD_PRIVATE_EXPEDITED", 8),
	F("MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED", 16), F("MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE", 32),
	F("MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE", 64), F("MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ", 128),
	F("MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ", 256), END};
static const struct name_value en_mpol[] = {
	F("MPOL_DEFAULT", 0), F("MPOL_PREFERRED", 1), F("MPOL_BIND", 2), F("MPOL_INTERLEAVE", 3), F("MPOL_LOCAL", 4), END};
static const struct name_value en_prctl[] = {
	F("PR_SET_PDEATHSIG", 1), F("PR_GET_PDEATHSIG", 2), F("PR_GET_DUMPABLE", 3), F("PR_SET_DUMPABLE", 4), F("PR_GET_KEEPCAPS", 7),
	F("PR_SET_KEEPCAPS", 8), F("PR_SET_NAME", 15), F("PR_GET_NAME", 16), F("PR_GET_SECCOMP", 21), F("PR_SET_SECCOMP", 22),
	F("PR_CAPBSET_READ", 23), F("PR_CAPBSET_DROP", 24), F("PR_GET_TSC", 25), F("PR_SET_TSC", 26), F("PR_GET_SECUREBITS", 27),
	F("PR_SET_SECUREBITS", 28), F("PR_SET_TIMERSLACK", 29), F("PR_GET_TIMERSLACK", 30), F("PR_MCE_KILL", 33), F("PR_SET_MM", 35),
	F("PR_SET_CHILD_SUBREAPER", 36), F("PR_GET_CHILD_SUBREAPER", 37), F("PR_SET_NO_NEW_PRIVS", 38), F("PR_GET_NO_NEW_PRIVS", 39),
	F("PR_GET_TID_ADDRESS", 40), F("PR_SET_THP_DISABLE", 41), F("PR_GET_THP_DISABLE", 42), F("PR_CAP_AMBIENT", 47),
	F("PR_GET_SPECULATION_CTRL", 52), F("PR_SET_SPECULATION_CTRL", 53), F("PR_SET_VMA", 0x53564d41), F("PR_SET_PTRACER", 0x59616d61), END};
static const struct name_value en_prio[] = {F("PRIO_PROCESS", 0), F("PRIO_PGRP", 1), F("PRIO_USER", 2), END};
static const struct name_value en_ptrace[] = {
	F("PTRACE_TRACEME", 0), F("PTRACE_PEEKTEXT", 1), F("PTRACE_PEEKDATA", 2), F("PTRACE_PEEKUSER", 3), F("PTRACE_POKETEXT", 4),
	F("PTRACE_POKEDATA", 5), F("PTRACE_POKEUSER", 6), F("PTRACE_CONT", 7), F("PTRACE_KILL", 8), F("PTRACE_SINGLESTEP", 9),
	F("PTRACE_ATTACH", 16), F("PTRACE_DETACH", 17), F("PTRACE_SYSCALL", 24), F("PTRACE_SEIZE", 0x4206), END};
static const struct name_value en_rlimit[] = {
	F("RLIMIT_CPU", 0), F("RLIMIT_FSIZE", 1), F("RLIMIT_DATA", 2), F("RLIMIT_STACK", 3), F("RLIMIT_CORE", 4), F("RLIMIT_RSS", 5),
	F("RLIMIT_NPROC", 6), F("RLIMIT_NOFILE", 7), F("RLIMIT_MEMLOCK", 8), F("RLIMIT_AS", 9), F("RLIMIT_LOCKS", 10),
	F("RLIMIT_SIGPENDING", 11), F("RLIMIT_MSGQUEUE", 12), F("RLIMIT_NICE", 13), F("RLIMIT_RTPRIO", 14), F("RLIMIT_RTTIME", 15), END};
static const struct name_value en_rusage[] = {F("RUSAGE_SELF", 0), F("RUSAGE_CHILDREN", 0xffffffff), F("RUSAGE_THREAD", 1), END};
static const struct name_value en_sched[] = {
	F("SCHED_OTHER", 0), F("SCHED_FIFO", 1), F("SCHED_RR", 2), F("SCHED_BATCH", 3), F("SCHED_IDLE", 5), F("SCHED_DEADLINE", 6), END};
static const struct name_value en_seccomp[] = {
	F("SECCOMP_SET_MODE_STRICT", 0), F("SECCOMP_SET_MODE_FILTER", 1), F("SECCOMP_GET_ACTION_AVAIL", 2), F("SECCOMP_GET_NOTIF_SIZES", 3), END};
static const struct name_value en_shutdown[] = {F("SHUT_RD", 0), F("SHUT_WR", 1), F("SHUT_RDWR", 2), END};
static const struct name_value en_sigprocmask[] = {F("SIG_BLOCK", 0), F("SIG_UNBLOCK", 1), F("SIG_SETMASK", 2), END};
static const struct name_value en_socktype[] = {
	F("SOCK_STREAM", 1), F("SOCK_DGRAM", 2), F("SOCK_RAW", 3), F("SOCK_RDM", 4), F("SOCK_SEQPACKET", 5), END};
static const struct name_value en_sol[] = {
	F("SOL_IP", 0), F("SOL_SOCKET", 1), F("SOL_TCP", 6), F("SOL_UDP", 17), F("SOL_IPV6", 41), F("SOL_RAW", 255), F("SOL_PACKET", 263),
	F("SOL_NETLINK", 270), END};
static const struct name_value en_so[] = {
	F("SO_DEBUG", 1), F("SO_REUSEADDR", 2), F("SO_TYPE", 3), F("SO_ERROR", 4), F("SO_DONTROUTE", 5), F("SO_BROADCAST", 6), F("SO_SNDBUF", 7),
	F("SO_RCVBUF", 8), F("SO_KEEPALIVE", 9), F("SO_OOBINLINE", 10), F("SO_NO_CHECK", 11), F("SO_PRIORITY", 12), F("SO_LINGER", 13),
	F("SO_BSDCOMPAT", 14), F("SO_REUSEPORT", 15), F("SO_PASSCRED", 16), F("SO_PEERCRED", 17), F("SO_RCVLOWAT", 18), F("SO_SNDLOWAT", 19),
	F("SO_RCVTIMEO", 20), F("SO_SNDTIMEO", 21), F("SO_BINDTODEVICE", 25), F("SO_ATTACH_FILTER", 26), F("SO_DETACH_FILTER", 27),
	F("SO_PEERNAME", 28), F("SO_TIMESTAMP", 29), F("SO_ACCEPTCONN", 30), F("SO_PEERSEC", 31), F("SO_SNDBUFFORCE", 32),
	F("SO_RCVBUFFORCE", 33), F("SO_PASSSEC", 34), F("SO_TIMESTAMPNS", 35), F("SO_MARK", 36), F("SO_PROTOCOL", 38), F("SO_DOMAIN", 39),
	F("SO_PEEK_OFF", 42), F("SO_BUSY_POLL", 46), F("SO_COOKIE", 57), F("SO_PEERGROUPS", 59), F("SO_ZEROCOPY", 60),
	F("SO_PASSPIDFD", 76), F("SO_PEERPIDFD", 77), END};
static const struct name_value en_whence[] = {F("SEEK_SET", 0), F("SEEK_CUR", 1), F("SEEK_END", 2), F("SEEK_DATA", 3), F("SEEK_HOLE", 4), END};

static const struct name_value *const g_enums[] = {
	[EN_none] = g_none,
#define X(name) [EN_##name] = en_##name,
	ARG_ENUMS(X)
#undef X
};

/* clang-format on */

const struct name_value *flagset_names(enum arg_flagset set)
{
	return (size_t)set < ARRAY_SIZE(g_flagsets) && g_flagsets[set] ? g_flagsets[set] : g_none;
}

const struct name_value *enum_names(enum arg_enum set)
{
	return (size_t)set < ARRAY_SIZE(g_enums) && g_enums[set] ? g_enums[set] : g_none;
}

const char *enum_name(enum arg_enum set, uint64_t value)
{
	for (const struct name_value *n = enum_names(set); n->name; n++)
		if (n->value == value)
			return n->name;
	return NULL;
}

const char *errno_name(int errnum)
{
	return strerrorname_np(errnum);
}
