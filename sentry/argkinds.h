/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of syscall arguments and results: what a row of sentry/syscalls.def may say.
 *
 * A kind is two macros: C_KIND, the C type of the handler's parameter, and D_KIND, the members of
 * struct argdesc that say how the argument is shown, and for a pointer which way data goes and how
 * many bytes. Kinds may have a parameter: the index (from 0) of the argument that holds a size, a
 * set of flag names, or a struct.
 *
 * The decoder (sentry/syscall_trace.c), the shared-page platform's marshalling and docs/SYSCALLS.md
 * all read struct argdesc and nothing else. This header needs no other of the sentry's, so that
 * generators and the freestanding stub can include it too.
 */
#ifndef MOAT_SENTRY_ARGKINDS_H
#define MOAT_SENTRY_ARGKINDS_H

#include "base/types.h"

/* How an argument is shown. */
enum arg_kind {
	AK_INT,
	AK_UINT,
	AK_LONG,
	AK_ULONG,
	AK_HEX,
	AK_HEX32,
	AK_MODE,  /* permission bits, octal */
	AK_OMODE, /* the same, shown only if the open flags in @link create */
	AK_FMODE, /* with the file type */
	AK_FD,
	AK_DIRFD, /* AT_FDCWD by name */
	AK_PID,
	AK_SIG,
	AK_UID,
	AK_DEV,
	AK_CLOCKID,
	AK_IPCKEY,
	AK_FLAGS,      /* a set of bits, names in @set */
	AK_ENUM,       /* one of the names in @set */
	AK_CLONEFLAGS, /* flags and an exit signal in the low byte */
	AK_IOCTL,
	AK_FUTEXOP,
	AK_SOCKOPT,  /* meaning depends on the level in @link */
	AK_IOCTLARG, /* meaning depends on the command in @link */
	AK_FCNTLARG,
	AK_FUTEXTIME, /* a timespec or a number, by the operation in @link */
	AK_PTR,       /* shown as an address */
	AK_PATH,
	AK_STR,
	AK_STRV, /* a vector of strings */
	AK_ENVV, /* the same, shown as a count */
	AK_BUF,
	AK_STRUCT, /* which: @set */
	AK_ARRAY,  /* of structs: @set */
	AK_IOV,
	AK_IOV_REMOTE, /* the ranges lie in another process */
	AK_SOCKADDR,
	AK_MSGHDR,
	AK_FDSET,
	AK_DIRENTS,
	AK_CPUMASK,
	AK_WSTATUS,
	AK_CLONEARGS,
	AK_OPENHOW,
};

/* Which way data behind a pointer goes. */
enum arg_dir { DIR_VALUE, DIR_IN, DIR_OUT, DIR_INOUT };

/* How many bytes. */
enum arg_size {
	SZ_NONE,   /* not marshalled: no pointer, or not known beforehand */
	SZ_FIXED,  /* @size */
	SZ_STRING, /* to the NUL */
	SZ_ARG,    /* argument @link times @size */
	SZ_RET,    /* room: argument @link times @size; used: the result times @size */
	SZ_PTR,    /* the 32-bit number that the pointer in argument @link leads to */
	SZ_BITS,   /* argument @link bits, in whole 64-bit words */
	SZ_DEEP,   /* has pointers inside: @link elements (or one struct) of @size, each followed */
};

/* Structs by name with their size on x86-64: ST_name, for kinds SIN SOUT SIO AIN AOUT AIO. */
#define ARG_STRUCTS(X)      \
	X(none, 0)          \
	X(capdata, 24)      \
	X(caphdr, 8)        \
	X(epoll_event, 12)  \
	X(fdpair, 8)        \
	X(futex_waitv, 24)  \
	X(futex_waitv2, 48) \
	X(int, 4)           \
	X(itimerspec, 32)   \
	X(itimerval, 32)    \
	X(mmsghdr, 64)      \
	X(mq_attr, 64)      \
	X(off, 8)           \
	X(pollfd, 8)        \
	X(rlimit, 16)       \
	X(rusage, 144)      \
	X(sembuf, 6)        \
	X(sigaction, 32)    \
	X(sigevent, 64)     \
	X(siginfo, 128)     \
	X(sigset, 8)        \
	X(sigset_arg, 16)   \
	X(stack, 24)        \
	X(stat, 144)        \
	X(statfs, 120)      \
	X(statx, 256)       \
	X(sysinfo, 112)     \
	X(timespec, 16)     \
	X(timespec2, 32)    \
	X(timeval, 16)      \
	X(timeval2, 32)     \
	X(timex, 208)       \
	X(timezone, 8)      \
	X(tms, 32)          \
	X(uid, 4)           \
	X(ulong, 8)         \
	X(ustat, 32)        \
	X(utimbuf, 16)      \
	X(utsname, 390)     \
	X(xattr_args, 16)

enum arg_struct {
#define X(name, size) ST_##name,
	ARG_STRUCTS(X)
#undef X
};

enum {
#define X(name, bytes) ST_SIZE_##name = (bytes),
	ARG_STRUCTS(X)
#undef X
};

/* Sets of flag names, for IFLAGS UFLAGS LFLAGS. The names: sentry/syscall_names.c. */
#define ARG_FLAGSETS(X)    \
	X(access)          \
	X(at)              \
	X(clone)           \
	X(close_range)     \
	X(eventfd)         \
	X(faccess)         \
	X(fallocate)       \
	X(fdnew)           \
	X(flock)           \
	X(futex2)          \
	X(getrandom)       \
	X(inotify)         \
	X(ipcget)          \
	X(memfd)           \
	X(mlock2)          \
	X(mlockall)        \
	X(mmap)            \
	X(mount)           \
	X(mremap)          \
	X(msg)             \
	X(msync)           \
	X(open)            \
	X(personality)     \
	X(poll)            \
	X(prot)            \
	X(rename)          \
	X(resolve)         \
	X(rseq)            \
	X(rwf)             \
	X(sa)              \
	X(shmat)           \
	X(sockflags)       \
	X(socktype)        \
	X(splice)          \
	X(ss)              \
	X(statx)           \
	X(sync_file_range) \
	X(tfd)             \
	X(timer)           \
	X(umount)          \
	X(unlinkat)        \
	X(wait)            \
	X(xattr)

enum arg_flagset {
	FS_none,
#define X(name) FS_##name,
	ARG_FLAGSETS(X)
#undef X
};

/* Sets of names for values, for IENUM UENUM. */
#define ARG_ENUMS(X)   \
	X(af)          \
	X(arch_prctl)  \
	X(clockid)     \
	X(epoll_ctl)   \
	X(fadvise)     \
	X(fcntl)       \
	X(futexop)     \
	X(idtype)      \
	X(ioctl)       \
	X(ipcctl)      \
	X(itimer)      \
	X(kcmp)        \
	X(madvise)     \
	X(membarrier)  \
	X(mpol)        \
	X(prctl)       \
	X(prio)        \
	X(ptrace)      \
	X(rlimit)      \
	X(rusage)      \
	X(sched)       \
	X(seccomp)     \
	X(shutdown)    \
	X(sigprocmask) \
	X(socktype)    \
	X(sol)         \
	X(so)          \
	X(whence)

enum arg_enum {
	EN_none,
#define X(name) EN_##name,
	ARG_ENUMS(X)
#undef X
};

struct argdesc {
	uint8_t kind;  /* enum arg_kind */
	uint8_t dir;   /* enum arg_dir */
	uint8_t bytes; /* enum arg_size */
	uint8_t link;  /* index of the argument that @kind or @bytes refers to */
	uint8_t set;   /* enum arg_flagset, arg_enum or arg_struct, by @kind */
	uint16_t size;
};

/* clang-format off */

/* Numbers. */
#define C_INT int
#define D_INT .kind = AK_INT
#define C_UINT unsigned
#define D_UINT .kind = AK_UINT
#define C_LONG long
#define D_LONG .kind = AK_LONG
#define C_ULONG uint64_t
#define D_ULONG .kind = AK_ULONG
#define C_SIZE uint64_t
#define D_SIZE .kind = AK_ULONG
#define C_OFF int64_t
#define D_OFF .kind = AK_LONG
#define C_HEX uint64_t
#define D_HEX .kind = AK_HEX
#define C_HEX32 uint32_t
#define D_HEX32 .kind = AK_HEX32
/* An address that the kernel computes with and never reads or writes. */
#define C_ADDR uint64_t
#define D_ADDR .kind = AK_PTR
#define C_MODE uint32_t
#define D_MODE .kind = AK_MODE
#define C_OMODE(flags_arg) uint32_t
#define D_OMODE(flags_arg) .kind = AK_OMODE, .link = (flags_arg)
#define C_FMODE uint32_t
#define D_FMODE .kind = AK_FMODE
#define C_FD int
#define D_FD .kind = AK_FD
#define C_DIRFD int
#define D_DIRFD .kind = AK_DIRFD
#define C_PID int
#define D_PID .kind = AK_PID
#define C_SIG int
#define D_SIG .kind = AK_SIG
#define C_UID uint32_t
#define D_UID .kind = AK_UID
#define C_DEV uint32_t
#define D_DEV .kind = AK_DEV
#define C_CLOCKID int
#define D_CLOCKID .kind = AK_CLOCKID
#define C_IPCKEY int
#define D_IPCKEY .kind = AK_IPCKEY
#define C_CLONEFLAGS uint64_t
#define D_CLONEFLAGS .kind = AK_CLONEFLAGS
#define C_IOCTL unsigned
#define D_IOCTL .kind = AK_IOCTL
#define C_FUTEXOP int
#define D_FUTEXOP .kind = AK_FUTEXOP
#define C_SOCKOPT(level_arg) int
#define D_SOCKOPT(level_arg) .kind = AK_SOCKOPT, .link = (level_arg)

/* Flags and names, by width: int, unsigned, unsigned long. */
#define C_IFLAGS(set_) int
#define D_IFLAGS(set_) .kind = AK_FLAGS, .set = FS_##set_
#define C_UFLAGS(set_) unsigned
#define D_UFLAGS(set_) .kind = AK_FLAGS, .set = FS_##set_
#define C_LFLAGS(set_) uint64_t
#define D_LFLAGS(set_) .kind = AK_FLAGS, .set = FS_##set_, .size = 8
#define C_IENUM(set_) int
#define D_IENUM(set_) .kind = AK_ENUM, .set = EN_##set_
#define C_UENUM(set_) unsigned
#define D_UENUM(set_) .kind = AK_ENUM, .set = EN_##set_

/* Values that may be pointers, by another argument. */
#define C_IOCTLARG(cmd_arg) uint64_t
#define D_IOCTLARG(cmd_arg) .kind = AK_IOCTLARG, .link = (cmd_arg)
#define C_FCNTLARG(cmd_arg) uint64_t
#define D_FCNTLARG(cmd_arg) .kind = AK_FCNTLARG, .link = (cmd_arg)
#define C_FUTEXTIME(op_arg) gaddr_t
#define D_FUTEXTIME(op_arg) .kind = AK_FUTEXTIME, .link = (op_arg)

/* Pointers. */
#define C_PTR gaddr_t
#define D_PTR .kind = AK_PTR, .dir = DIR_INOUT, .bytes = SZ_NONE
#define C_PATH gaddr_t
#define D_PATH .kind = AK_PATH, .dir = DIR_IN, .bytes = SZ_STRING
#define C_STR gaddr_t
#define D_STR .kind = AK_STR, .dir = DIR_IN, .bytes = SZ_STRING
#define C_STRV gaddr_t
#define D_STRV .kind = AK_STRV, .dir = DIR_IN, .bytes = SZ_DEEP, .size = 8
#define C_ENVV gaddr_t
#define D_ENVV .kind = AK_ENVV, .dir = DIR_IN, .bytes = SZ_DEEP, .size = 8
/* Bytes in; the length is argument @len_arg. */
#define C_IBUF(len_arg) gaddr_t
#define D_IBUF(len_arg) .kind = AK_BUF, .dir = DIR_IN, .bytes = SZ_ARG, .link = (len_arg), .size = 1
/* Bytes out: room for argument @len_arg, used as many as the result says. */
#define C_OBUF_RET(len_arg) gaddr_t
#define D_OBUF_RET(len_arg) .kind = AK_BUF, .dir = DIR_OUT, .bytes = SZ_RET, .link = (len_arg), .size = 1
/* Bytes out; the length is a value-result int behind the pointer in @len_arg. */
#define C_OBUF_PTR(len_arg) gaddr_t
#define D_OBUF_PTR(len_arg) .kind = AK_BUF, .dir = DIR_OUT, .bytes = SZ_PTR, .link = (len_arg), .size = 1
#define C_SIN(st) gaddr_t
#define D_SIN(st) .kind = AK_STRUCT, .dir = DIR_IN, .bytes = SZ_FIXED, .set = ST_##st, .size = ST_SIZE_##st
#define C_SOUT(st) gaddr_t
#define D_SOUT(st) .kind = AK_STRUCT, .dir = DIR_OUT, .bytes = SZ_FIXED, .set = ST_##st, .size = ST_SIZE_##st
#define C_SIO(st) gaddr_t
#define D_SIO(st) .kind = AK_STRUCT, .dir = DIR_INOUT, .bytes = SZ_FIXED, .set = ST_##st, .size = ST_SIZE_##st
/* Arrays of structs; the count is argument @n_arg, or (AOUT_RET) the result. */
#define C_AIN(st, n_arg) gaddr_t
#define D_AIN(st, n_arg) .kind = AK_ARRAY, .dir = DIR_IN, .bytes = SZ_ARG, .link = (n_arg), .set = ST_##st, .size = ST_SIZE_##st
#define C_AIO(st, n_arg) gaddr_t
#define D_AIO(st, n_arg) .kind = AK_ARRAY, .dir = DIR_INOUT, .bytes = SZ_ARG, .link = (n_arg), .set = ST_##st, .size = ST_SIZE_##st
#define C_AOUT_RET(st, n_arg) gaddr_t
#define D_AOUT_RET(st, n_arg) .kind = AK_ARRAY, .dir = DIR_OUT, .bytes = SZ_RET, .link = (n_arg), .set = ST_##st, .size = ST_SIZE_##st
/* struct iovec arrays of argument @n_arg elements, whose buffers are read (IN) or written (OUT). */
#define C_IOV_IN(n_arg) gaddr_t
#define D_IOV_IN(n_arg) .kind = AK_IOV, .dir = DIR_IN, .bytes = SZ_DEEP, .link = (n_arg), .size = 16
#define C_IOV_OUT(n_arg) gaddr_t
#define D_IOV_OUT(n_arg) .kind = AK_IOV, .dir = DIR_OUT, .bytes = SZ_DEEP, .link = (n_arg), .size = 16
#define C_IOV_REMOTE(n_arg) gaddr_t
#define D_IOV_REMOTE(n_arg) .kind = AK_IOV_REMOTE, .dir = DIR_IN, .bytes = SZ_ARG, .link = (n_arg), .size = 16
#define C_SOCKADDR_IN(len_arg) gaddr_t
#define D_SOCKADDR_IN(len_arg) .kind = AK_SOCKADDR, .dir = DIR_IN, .bytes = SZ_ARG, .link = (len_arg), .size = 1
#define C_SOCKADDR_OUT(len_arg) gaddr_t
#define D_SOCKADDR_OUT(len_arg) .kind = AK_SOCKADDR, .dir = DIR_OUT, .bytes = SZ_PTR, .link = (len_arg), .size = 1
#define C_MSGHDR_IN gaddr_t
#define D_MSGHDR_IN .kind = AK_MSGHDR, .dir = DIR_IN, .bytes = SZ_DEEP, .size = 56
#define C_MSGHDR_OUT gaddr_t
#define D_MSGHDR_OUT .kind = AK_MSGHDR, .dir = DIR_INOUT, .bytes = SZ_DEEP, .size = 56
#define C_FDSET(n_arg) gaddr_t
#define D_FDSET(n_arg) .kind = AK_FDSET, .dir = DIR_INOUT, .bytes = SZ_BITS, .link = (n_arg), .size = 8
#define C_DIRENTS(len_arg) gaddr_t
#define D_DIRENTS(len_arg) .kind = AK_DIRENTS, .dir = DIR_OUT, .bytes = SZ_RET, .link = (len_arg), .size = 1
#define C_CPUMASK_IN(len_arg) gaddr_t
#define D_CPUMASK_IN(len_arg) .kind = AK_CPUMASK, .dir = DIR_IN, .bytes = SZ_ARG, .link = (len_arg), .size = 1
#define C_CPUMASK_OUT(len_arg) gaddr_t
#define D_CPUMASK_OUT(len_arg) .kind = AK_CPUMASK, .dir = DIR_OUT, .bytes = SZ_RET, .link = (len_arg), .size = 1
#define C_WSTATUS gaddr_t
#define D_WSTATUS .kind = AK_WSTATUS, .dir = DIR_OUT, .bytes = SZ_FIXED, .size = 4
#define C_CLONEARGS(len_arg) gaddr_t
#define D_CLONEARGS(len_arg) .kind = AK_CLONEARGS, .dir = DIR_IN, .bytes = SZ_ARG, .link = (len_arg), .size = 1
#define C_OPENHOW(len_arg) gaddr_t
#define D_OPENHOW(len_arg) .kind = AK_OPENHOW, .dir = DIR_IN, .bytes = SZ_ARG, .link = (len_arg), .size = 1

/* clang-format on */

enum ret_kind {
	RET_INT,
	RET_FD,
	RET_PID,
	RET_BYTES,
	RET_ADDR,
	RET_OFF,
	RET_MODE,
	RET_UID,
	RET_TIME,
	RET_HEX,
	RET_NONE,
};

enum wait_kind { WT_NB, WT_T0, WT_DISK, WT_WAIT, WT_WAITI };

enum sys_status { SYS_NONE, SYS_FULL, SYS_PARTIAL, SYS_NOSYS, SYS_REFUSED, SYS_TODO };

#endif
