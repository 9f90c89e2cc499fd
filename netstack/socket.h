/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets: the table of protocol families, and what the syscall layer calls.
 *
 * Theory of operation: a socket is a file whose priv is a struct socket. The generic part
 * (netstack/socket.c, sockopt.c) checks what all families share, keeps the SOL_SOCKET options,
 * parses control messages, and calls the family through struct sock_ops. A family registers itself
 * once with sock_family_register. AF_UNIX is netstack/unix*.c.
 *
 * All functions take the struct file that a descriptor names; one that is no socket gives
 * -ENOTSOCK. Addresses, messages and options are kernel copies; only message data goes through a
 * struct uio. -EPIPE is returned plain: the syscall layer sends SIGPIPE unless MSG_NOSIGNAL.
 *
 * Lock order: see netstack/unix.h. Across folders, netstack's locks (RANK_SOCKET …) are inside all
 * of vfs's long locks and file->lock.
 */
#ifndef MOAT_NETSTACK_SOCKET_H
#define MOAT_NETSTACK_SOCKET_H

#include "base/lx_sock.h"
#include "vfs/vfs.h"

struct socket;

struct sock_addr {
	uint32_t size; /* bytes used; 0: none */
	uint8_t bytes[LX_SOCKADDR_MAX];
};

/* A message, both ways. Unused parts are zero. */
struct sock_msg {
	struct uio *uio; /* data */
	uint32_t flags;  /* LX_MSG_*, in */

	/* The other's address. send: in, size 0: none. recv: out, size 0: none. The caller of recv
	 * zeroes it. */
	struct sock_addr addr;

	/* send: raw control messages (SCM_RIGHTS' descriptors are looked up in c->files).
	 * recv: room for control messages other than SCM_RIGHTS; control_size in: the room that the
	 * guest gave; control_used out. */
	void *control;
	size_t control_size;
	size_t control_used;

	/* recv, out: LX_MSG_TRUNC, CTRUNC, EOR, CMSG_CLOEXEC (as given, with files). */
	uint32_t out_flags;
	/* recv, out: files of SCM_RIGHTS, references. The caller turns them into descriptors
	 * (sock_rights_room says how many fit behind control_used) and drops all references with
	 * sock_msg_fini, also of those it installed. */
	struct file **files;
	unsigned file_count;
	bool has_control; /* recv, in: the guest gave a control buffer (else SCM_RIGHTS are dropped
			     with CTRUNC) */
};
/* Drops the files and the array. Idempotent. */
void sock_msg_fini(struct sock_msg *m);
/* How many descriptors of an SCM_RIGHTS message fit into the @room bytes left of the control
 * buffer. */
unsigned sock_rights_room(size_t room);

/* socket(2). @type with LX_SOCK_NONBLOCK and LX_SOCK_CLOEXEC (the latter the caller's to act on).
 * -EINVAL, -EAFNOSUPPORT, -EPROTONOSUPPORT, -ESOCKTNOSUPPORT, -EACCES, -ENOMEM. */
int sock_create(struct vfs_ctx *c, int family, int type, int protocol, struct file **out) MUST_USE;
/* socketpair(2). -EOPNOTSUPP for families without. */
int sock_create_pair(struct vfs_ctx *c, int family, int type, int protocol,
		     struct file *out[2]) MUST_USE;

struct socket *sock_of_file(const struct file *f); /* borrowed; NULL: no socket */

/* Addresses of @size bytes. @size over LX_SOCKADDR_MAX must have been refused with -EINVAL. */
int sock_bind(struct vfs_ctx *c, struct file *f, const void *addr, size_t size) MUST_USE;
int sock_connect(struct vfs_ctx *c, struct file *f, const void *addr, size_t size) MUST_USE;
int sock_listen(struct vfs_ctx *c, struct file *f, int backlog) MUST_USE;
/* accept4(2). @flags: LX_SOCK_NONBLOCK|CLOEXEC, else -EINVAL. @peer may be NULL. */
int sock_accept(struct vfs_ctx *c, struct file *f, int flags, struct file **out,
		struct sock_addr *peer) MUST_USE;
int sock_getname(struct vfs_ctx *c, struct file *f, bool peer, struct sock_addr *out) MUST_USE;
int sock_shutdown(struct vfs_ctx *c, struct file *f, int how) MUST_USE;
ssize_t sock_sendmsg(struct vfs_ctx *c, struct file *f, struct sock_msg *m) MUST_USE;
ssize_t sock_recvmsg(struct vfs_ctx *c, struct file *f, struct sock_msg *m) MUST_USE;
/* @size: of @val; for get in: the room, out: the bytes written (at most the room). */
int sock_setsockopt(struct vfs_ctx *c, struct file *f, int level, int name, const void *val,
		    size_t size) MUST_USE;
int sock_getsockopt(struct vfs_ctx *c, struct file *f, int level, int name, void *val,
		    size_t *size) MUST_USE;

/* ---- for families ---- */

/* What a family does. The generic layer has checked the file and nothing else of it. All but the
 * ones marked may be NULL: -EOPNOTSUPP. */
struct sock_ops {
	int (*bind)(struct vfs_ctx *c, struct socket *s, const void *addr, size_t size);
	int (*connect)(struct vfs_ctx *c, struct socket *s, const void *addr, size_t size,
		       bool nonblock);
	int (*listen)(struct vfs_ctx *c, struct socket *s, int backlog);
	/* Waits for a connection, makes its socket with sock_alloc. */
	int (*accept)(struct vfs_ctx *c, struct socket *s, bool nonblock, struct socket **out);
	int (*getname)(struct socket *s, bool peer, struct sock_addr *out);
	int (*shutdown)(struct socket *s, int how);
	/* LX_MSG_DONTWAIT is set in m->flags for a descriptor with O_NONBLOCK. */
	ssize_t (*sendmsg)(struct vfs_ctx *c, struct socket *s, struct sock_msg *m);
	ssize_t (*recvmsg)(struct vfs_ctx *c, struct socket *s, struct sock_msg *m);
	/* For what the generic layer does not know. -ENOPROTOOPT. */
	int (*setsockopt)(struct vfs_ctx *c, struct socket *s, int level, int name, const void *val,
			  size_t size);
	int (*getsockopt)(struct vfs_ctx *c, struct socket *s, int level, int name, void *val,
			  size_t *size);
	long (*ioctl)(struct vfs_ctx *c, struct socket *s, unsigned cmd, uint64_t arg,
		      const struct umem *um);
	uint32_t (*poll)(struct socket *s, struct poll_table *pt);
	/* The file went, or the socket never got one: end all that it does. Others may still hold
	 * references to the struct. Never NULL. */
	void (*release)(struct socket *s);
	/* The last reference went, after release: free s->priv. Never NULL. */
	void (*destroy)(struct socket *s);
};

struct sock_family {
	int family;
	/* Sets s->ops, s->type (may change it: SOCK_RAW of AF_UNIX is SOCK_DGRAM), s->priv. */
	int (*create)(struct vfs_ctx *c, struct socket *s, int type, int protocol);
	/* Of the protocol, as the attribute system.sockprotoname tells it. */
	const char *(*name)(int type);
	/* Connects two fresh sockets to each other; NULL: -EOPNOTSUPP. */
	int (*pair)(struct vfs_ctx *c, struct socket *a, struct socket *b);
};
/* At start only; the table is read without a lock. */
void sock_family_register(const struct sock_family *f);

enum sock_flag {
	SKF_PASSCRED = 1u,
	SKF_PASSPIDFD = 2u,
	SKF_PASSSEC = 4u,
	SKF_REUSEADDR = 8u,
	SKF_REUSEPORT = 16u,
	SKF_KEEPALIVE = 32u,
	SKF_BROADCAST = 64u,
	SKF_OOBINLINE = 128u,
	SKF_TIMESTAMP = 256u,
	SKF_TIMESTAMPNS = 512u,
	SKF_DONTROUTE = 1024u,
	SKF_LINGER = 2048u,
	SKF_ACCEPTCONN = 4096u, /* it listens */
	SKF_DEBUG = 8192u,
	SKF_ZEROCOPY = 16384u,
	SKF_RXQ_OVFL = 32768u,
};

struct socket {
	struct ref ref; /* the file, and whoever else needs the struct */
	const struct sock_family *family;
	const struct sock_ops *ops;
	int type, protocol;
	struct file *file; /* borrowed: the file has the socket; NULL before it is made */
	void *priv;
	struct waitq wq;                     /* all that its poll waits for */
	_Atomic uint32_t flags;              /* enum sock_flag */
	_Atomic uint32_t sndbuf, rcvbuf;     /* as getsockopt shows them (doubled) */
	_Atomic uint64_t rcvtimeo, sndtimeo; /* in ticks, LX_TICK_NS; 0: none */
	_Atomic int32_t rcvlowat, priority, linger, mark, peek_off;
	_Atomic int32_t err; /* SO_ERROR: a positive errno, taken by sock_error */
	uint64_t cookie;
};

/* A socket without a file, all defaults. NULL: no memory. */
struct socket *sock_alloc(const struct sock_family *fam, int type, int protocol) MUST_USE;
/* Gives @s its file. On failure @s stays the caller's. */
int sock_make_file(struct vfs_ctx *c, struct socket *s, uint32_t flags, struct file **out) MUST_USE;
/* Ends one that has no file: releases the family's part if ops is set, and drops the reference. */
void sock_discard(struct socket *s);
struct socket *socket_get(struct socket *s);
void socket_put(struct socket *s);
/* -err and forgets it; 0: none. */
int sock_error(struct socket *s);
/* A timeout that is over at once: less than zero was asked. */
#define SOCK_TIMEO_NOW UINT64_MAX
/* The deadline for a blocking step: @timeo ticks from now; 0 at once if @nonblock. */
uint64_t sock_deadline(uint64_t timeo, bool nonblock);
/* What an interrupted wait returns: restartable only without a timeout. */
int sock_interrupted(uint64_t timeo);
/* SOL_SOCKET; -ENOPROTOOPT if it is none that all families share (netstack/sockopt.c). */
int sock_set_common(struct vfs_ctx *c, struct socket *s, int name, const void *val,
		    size_t size) MUST_USE;
int sock_get_common(struct socket *s, int name, void *val, size_t *size) MUST_USE;
/* Appends a control message for the receiver; sets LX_MSG_CTRUNC if there is no room for all of it.
 */
void sock_put_cmsg(struct sock_msg *m, int level, int type, const void *data, size_t size);

void netstack_init(void); /* registers the families */

#endif
