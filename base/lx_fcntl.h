/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest ABI of file calls: fcntl, lseek, fallocate, locks, splice, pipes.
 *
 * Source: fcntl(2), lseek(2), fallocate(2), flock(2), splice(2).
 */
#ifndef MOAT_BASE_LX_FCNTL_H
#define MOAT_BASE_LX_FCNTL_H

#include "base/lx.h"

#define LX_SEEK_SET 0
#define LX_SEEK_CUR 1
#define LX_SEEK_END 2
#define LX_SEEK_DATA 3
#define LX_SEEK_HOLE 4

#define LX_F_DUPFD 0
#define LX_F_GETFD 1
#define LX_F_SETFD 2
#define LX_F_GETFL 3
#define LX_F_SETFL 4
#define LX_F_GETLK 5
#define LX_F_SETLK 6
#define LX_F_SETLKW 7
#define LX_F_SETOWN 8
#define LX_F_GETOWN 9
#define LX_F_SETSIG 10
#define LX_F_GETSIG 11
#define LX_F_SETOWN_EX 15
#define LX_F_GETOWN_EX 16
#define LX_F_GETOWNER_UIDS 17
#define LX_F_OFD_GETLK 36
#define LX_F_OFD_SETLK 37
#define LX_F_OFD_SETLKW 38
#define LX_F_SETLEASE 1024
#define LX_F_GETLEASE 1025
#define LX_F_NOTIFY 1026
#define LX_F_DUPFD_QUERY 1027
#define LX_F_CANCELLK 1029
#define LX_F_DUPFD_CLOEXEC 1030
#define LX_F_SETPIPE_SZ 1031
#define LX_F_GETPIPE_SZ 1032
#define LX_F_ADD_SEALS 1033
#define LX_F_GET_SEALS 1034
#define LX_F_GET_RW_HINT 1035
#define LX_F_SET_RW_HINT 1036
#define LX_F_GET_FILE_RW_HINT 1037
#define LX_F_SET_FILE_RW_HINT 1038

#define LX_FD_CLOEXEC 1

#define LX_F_RDLCK 0
#define LX_F_WRLCK 1
#define LX_F_UNLCK 2

/* flock(2) operations */
#define LX_LOCK_SH 1
#define LX_LOCK_EX 2
#define LX_LOCK_NB 4
#define LX_LOCK_UN 8
#define LX_LOCK_MAND 32

struct lx_flock {
	int16_t l_type;
	int16_t l_whence;
	int32_t pad0;
	int64_t l_start;
	int64_t l_len;
	int32_t l_pid;
	int32_t pad1;
};
_Static_assert(sizeof(struct lx_flock) == 32, "struct flock of x86-64");

#define LX_FALLOC_FL_KEEP_SIZE 0x01
#define LX_FALLOC_FL_PUNCH_HOLE 0x02
#define LX_FALLOC_FL_NO_HIDE_STALE 0x04
#define LX_FALLOC_FL_COLLAPSE_RANGE 0x08
#define LX_FALLOC_FL_ZERO_RANGE 0x10
#define LX_FALLOC_FL_INSERT_RANGE 0x20
#define LX_FALLOC_FL_UNSHARE_RANGE 0x40

#define LX_SPLICE_F_MOVE 1u
#define LX_SPLICE_F_NONBLOCK 2u
#define LX_SPLICE_F_MORE 4u
#define LX_SPLICE_F_GIFT 8u

#define LX_FIONREAD 0x541bu
#define LX_FIONBIO 0x5421u
#define LX_FIOASYNC 0x5452u
#define LX_FIOQSIZE 0x5460u
#define LX_FIONCLEX 0x5450u
#define LX_FIOCLEX 0x5451u

#endif
