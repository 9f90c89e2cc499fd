/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest ABI of sockets: families, types, flags, options, messages and control messages.
 *
 * Source: socket(2), socket(7), unix(7), send(2), recv(2), cmsg(3).
 */
#ifndef MOAT_BASE_LX_SOCK_H
#define MOAT_BASE_LX_SOCK_H

#include "base/lx.h"

#define LX_AF_UNSPEC 0
#define LX_AF_UNIX 1
#define LX_AF_INET 2
#define LX_AF_INET6 10
#define LX_AF_NETLINK 16
#define LX_AF_PACKET 17
#define LX_AF_MAX 46
#define LX_NETLINK_SELINUX 7
#define LX_NETLINK_AUDIT 9
#define LX_NETLINK_KOBJECT_UEVENT 15

#define LX_SOCK_STREAM 1
#define LX_SOCK_DGRAM 2
#define LX_SOCK_RAW 3
#define LX_SOCK_RDM 4
#define LX_SOCK_SEQPACKET 5
#define LX_SOCK_DCCP 6
#define LX_SOCK_PACKET 10
#define LX_SOCK_MAX 11
#define LX_SOCK_TYPE_MASK 0xf
#define LX_SOCK_NONBLOCK LX_O_NONBLOCK
#define LX_SOCK_CLOEXEC LX_O_CLOEXEC

#define LX_SOL_SOCKET 1

#define LX_SO_DEBUG 1
#define LX_SO_REUSEADDR 2
#define LX_SO_TYPE 3
#define LX_SO_ERROR 4
#define LX_SO_DONTROUTE 5
#define LX_SO_BROADCAST 6
#define LX_SO_SNDBUF 7
#define LX_SO_RCVBUF 8
#define LX_SO_KEEPALIVE 9
#define LX_SO_OOBINLINE 10
#define LX_SO_NO_CHECK 11
#define LX_SO_PRIORITY 12
#define LX_SO_LINGER 13
#define LX_SO_BSDCOMPAT 14
#define LX_SO_REUSEPORT 15
#define LX_SO_PASSCRED 16
#define LX_SO_PEERCRED 17
#define LX_SO_RCVLOWAT 18
#define LX_SO_SNDLOWAT 19
#define LX_SO_RCVTIMEO 20
#define LX_SO_SNDTIMEO 21
#define LX_SO_BINDTODEVICE 25
#define LX_SO_ATTACH_FILTER 26
#define LX_SO_DETACH_FILTER 27
#define LX_SO_PEERNAME 28
#define LX_SO_TIMESTAMP 29
#define LX_SO_ACCEPTCONN 30
#define LX_SO_PEERSEC 31
#define LX_SO_SNDBUFFORCE 32
#define LX_SO_RCVBUFFORCE 33
#define LX_SO_PASSSEC 34
#define LX_SO_TIMESTAMPNS 35
#define LX_SO_MARK 36
#define LX_SO_TIMESTAMPING 37
#define LX_SO_PROTOCOL 38
#define LX_SO_DOMAIN 39
#define LX_SO_RXQ_OVFL 40
#define LX_SO_PEEK_OFF 42
#define LX_SO_NOFCS 43
#define LX_SO_LOCK_FILTER 44
#define LX_SO_SELECT_ERR_QUEUE 45
#define LX_SO_BUSY_POLL 46
#define LX_SO_MAX_PACING_RATE 47
#define LX_SO_MEMINFO 55
#define LX_SO_INCOMING_NAPI_ID 56
#define LX_SO_COOKIE 57
#define LX_SO_PEERGROUPS 59
#define LX_SO_ZEROCOPY 60
#define LX_SO_RCVTIMEO_NEW 66
#define LX_SO_SNDTIMEO_NEW 67
#define LX_SO_PASSPIDFD 76
#define LX_SO_PEERPIDFD 77

#define LX_MSG_OOB 0x1u
#define LX_MSG_PEEK 0x2u
#define LX_MSG_DONTROUTE 0x4u
#define LX_MSG_CTRUNC 0x8u
#define LX_MSG_TRUNC 0x20u
#define LX_MSG_DONTWAIT 0x40u
#define LX_MSG_EOR 0x80u
#define LX_MSG_WAITALL 0x100u
#define LX_MSG_CONFIRM 0x800u
#define LX_MSG_ERRQUEUE 0x2000u
#define LX_MSG_NOSIGNAL 0x4000u
#define LX_MSG_MORE 0x8000u
#define LX_MSG_WAITFORONE 0x10000u
#define LX_MSG_CMSG_CLOEXEC 0x40000000u

#define LX_SHUT_RD 0
#define LX_SHUT_WR 1
#define LX_SHUT_RDWR 2

#define LX_SCM_RIGHTS 1
#define LX_SCM_CREDENTIALS 2
#define LX_SCM_MAX_FD 253

#define LX_SOMAXCONN 4096

#define LX_SIOCINQ 0x541bu
#define LX_SIOCOUTQ 0x5411u
#define LX_SIOCATMARK 0x8905u
#define LX_SIOCSPGRP 0x8902u
#define LX_SIOCGPGRP 0x8904u
#define LX_FIOSETOWN 0x8901u
#define LX_FIOGETOWN 0x8903u

struct lx_sockaddr {
	uint16_t sa_family;
	uint8_t sa_data[14];
};

/* The largest address any family has. */
#define LX_SOCKADDR_MAX 128

struct lx_sockaddr_un {
	uint16_t sun_family;
	char sun_path[108];
};
_Static_assert(sizeof(struct lx_sockaddr_un) == 110, "sockaddr_un");

struct lx_ucred {
	int32_t pid;
	uint32_t uid;
	uint32_t gid;
};
_Static_assert(sizeof(struct lx_ucred) == 12, "ucred");

struct lx_linger {
	int32_t l_onoff;
	int32_t l_linger;
};

struct lx_iovec {
	uint64_t iov_base;
	uint64_t iov_len;
};

struct lx_msghdr {
	uint64_t msg_name;
	int32_t msg_namelen;
	uint32_t pad0;
	uint64_t msg_iov;
	uint64_t msg_iovlen;
	uint64_t msg_control;
	uint64_t msg_controllen;
	uint32_t msg_flags;
	uint32_t pad1;
};
_Static_assert(sizeof(struct lx_msghdr) == 56, "msghdr of x86-64");

struct lx_mmsghdr {
	struct lx_msghdr msg_hdr;
	uint32_t msg_len;
	uint32_t pad0;
};
_Static_assert(sizeof(struct lx_mmsghdr) == 64, "mmsghdr of x86-64");

/* Control messages: a header, the data, padding to 8 bytes. cmsg_len counts header and data. */
struct lx_cmsghdr {
	uint64_t cmsg_len;
	int32_t cmsg_level;
	int32_t cmsg_type;
};
_Static_assert(sizeof(struct lx_cmsghdr) == 16, "cmsghdr of x86-64");
#define LX_CMSG_ALIGN(n) (((uint64_t)(n) + 7) & ~(uint64_t)7)
#define LX_CMSG_LEN(n) (sizeof(struct lx_cmsghdr) + (uint64_t)(n))
#define LX_CMSG_SPACE(n) LX_CMSG_ALIGN(LX_CMSG_LEN(n))

#endif
