/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_UNIX, for netstack's own files.
 *
 *   unix_sock.c  life, connections, poll, options
 *   unix_name.c  addresses: binding and finding
 *   unix_msg.c   sending and receiving
 *   unix_gc.c    descriptors in flight, and the collection of those that nobody can receive any
 * more scm.c        control messages of a sender
 *
 * Theory of operation: a sender puts messages (struct unix_msg) into the queue of the receiving
 * socket and is charged for them until they are consumed; its SO_SNDBUF limits what it has under
 * way. A stream's message is a piece of it: small writes are joined in the last one. A connection
 * is two sockets that name each other as peer; the side that a listener will accept waits in its
 * list until then (an *embryo*). The peer of a stream or seqpacket socket never changes until its
 * own release, so senders read it without a lock; that of a datagram socket is read under g_unix.
 *
 * A socket whose file went is *dead*: it refuses new messages; the struct stays while peers and
 * messages name it. It lets go of its own peer then, so that dead ones make no chains.
 *
 * Lock order (outer first):
 *   u->iolock (fmutex): one reader at a time; held while data goes to user memory
 *   g_unix (RANK_SOCKET): names, states, peers, lists of embryos, counts of what is in flight
 *   u->rq_lock (RANK_SOCKET + 1): the queue of messages, and that nothing enters it after death
 *   u->peer_wait.lock (below RANK_WAITQ: its wake-up relays to a socket's wq), s->wq.lock
 * Messages, sockets and files are freed with none of the short ones held.
 */
#ifndef MOAT_NETSTACK_UNIX_H
#define MOAT_NETSTACK_UNIX_H

#include "netstack/scm.h"
#include "netstack/socket.h"

/* net.unix.max_dgram_qlen: datagrams in the queue of a socket that is not the sender's peer. */
#define UNIX_QUEUE_MAX 512u

#define UNIX_IN (LX_POLLIN | LX_POLLRDNORM)
#define UNIX_OUT (LX_POLLOUT | LX_POLLWRNORM | LX_POLLWRBAND)
#define UNIX_END (UNIX_IN | UNIX_OUT | LX_POLLHUP | LX_POLLRDHUP | LX_POLLERR)

#define UNIX_SHUT_RECV 1u
#define UNIX_SHUT_SEND 2u
#define UNIX_SHUT_BOTH 3u

enum unix_state { UNIX_CLOSE, UNIX_LISTEN, UNIX_CONNECTED };

struct unix_addr {
	struct ref ref;
	int type;      /* of the socket: an abstract name is one per type */
	uint16_t size; /* of un, as getsockname tells */
	bool in_table; /* [g_unix] abstract */
	struct lx_sockaddr_un un;
	char nul; /* ends a path that fills sun_path */
};

struct unix_sock;

struct unix_msg {
	TAILQ_ENTRY(unix_msg) link;
	struct unix_sock *from;  /* a reference to its socket; who is charged */
	struct unix_addr *addr;  /* datagrams: the sender's name, a reference, or NULL */
	struct scm_files *files; /* [rq_lock] taken out by the first read */
	struct lx_ucred cred;
	int64_t time_ns;  /* real time of sending, if the receiver wants time stamps */
	size_t charge;    /* [rq_lock] */
	size_t off, size; /* [rq_lock] unread data is data[off … size) */
	size_t room;      /* of data */
	char data[];
};
TAILQ_HEAD(unix_queue, unix_msg);
TAILQ_HEAD(unix_list, unix_sock);

struct unix_sock {
	struct socket *s;                 /* it has us: one life */
	enum unix_state state;            /* [g_unix] */
	_Atomic(struct unix_sock *) peer; /* [g_unix] a reference to its socket */
	struct unix_addr *addr;           /* [g_unix] a reference */
	struct path path;                 /* where it is bound; set once, put at release */
	bool binding;                     /* [g_unix] */
	_Atomic bool dead;                /* set under g_unix */
	_Atomic uint32_t shut;            /* UNIX_SHUT_* */
	unsigned backlog;                 /* [g_unix] */
	unsigned embryo_count;            /* [g_unix] */
	struct unix_list embryos;         /* [g_unix] each a reference */
	TAILQ_ENTRY(unix_sock) embryo;    /* [g_unix] in a listener's embryos */
	bool is_embryo;                   /* [g_unix] */
	struct lx_ucred peer_cred;        /* [g_unix] */
	struct cred_groups *peer_groups;  /* [g_unix] a reference */

	struct fmutex iolock;
	struct mutex rq_lock;
	struct unix_queue rq;      /* [rq_lock] */
	_Atomic unsigned rq_count; /* [rq_lock], read without */
	size_t rq_bytes;           /* [rq_lock] */
	_Atomic uint64_t charged;  /* for what this one sent */

	struct waitq peer_wait; /* those who wait for room in our queue or backlog */
	struct waiter relay;    /* [g_unix] on the peer's peer_wait, for poll */

	/* unix_gc.c, all [g_unix] */
	unsigned inflight; /* references by messages to our file */
	unsigned gc_count;
	enum { GC_NONE, GC_CANDIDATE, GC_LIVE, GC_GARBAGE } gc_state;
	TAILQ_ENTRY(unix_sock) inflight_link, gc_link;
};

extern struct mutex g_unix;
extern const struct sock_family g_unix_family;

static inline struct unix_sock *unix_of(const struct socket *s)
{
	return s->priv;
}

static inline bool unix_is_connection(const struct unix_sock *u)
{
	return u->s->type != LX_SOCK_DGRAM;
}

static inline unsigned unix_queue_length(struct unix_sock *u)
{
	return atomic_load(&u->rq_count);
}

/* ---- unix_sock.c ---- */

/* The peer with a reference to its socket, or NULL. */
struct unix_sock *unix_get_peer(struct unix_sock *u);
/* A datagram socket loses the peer it has if that is @peer. */
void unix_disconnect(struct unix_sock *u, struct unix_sock *peer);
/* May one that is not connected to @to otherwise send to it? */
bool unix_may_send_locked(const struct unix_sock *u, const struct unix_sock *to) REQUIRES(g_unix);
bool unix_writable(struct unix_sock *u);
struct lx_ucred unix_own_cred(const struct vfs_ctx *c);

/* ---- unix_name.c ---- */

int unix_bind(struct vfs_ctx *c, struct socket *s, const void *addr, size_t size) MUST_USE;
/* A name of the kernel's choice, if it has none. */
int unix_autobind(struct unix_sock *u) MUST_USE;
/* The socket of @type bound to @addr; *out with a reference to its socket. -EINVAL for a bad
 * address, -ECONNREFUSED, -EPROTOTYPE, and what the path walk says. */
int unix_find(struct vfs_ctx *c, const void *addr, size_t size, int type,
	      struct unix_sock **out) MUST_USE;
int unix_check_addr(const void *addr, size_t size) MUST_USE;
void unix_unname_locked(struct unix_sock *u) REQUIRES(g_unix);
struct unix_addr *unix_addr_get(struct unix_addr *a); /* NULL in, NULL out */
void unix_addr_put(struct unix_addr *a);

/* ---- unix_msg.c ---- */

ssize_t unix_sendmsg(struct vfs_ctx *c, struct socket *s, struct sock_msg *m);
ssize_t unix_recvmsg(struct vfs_ctx *c, struct socket *s, struct sock_msg *m);
void unix_msg_free(struct unix_msg *m);
/* Empties the queue. True if there was anything. */
bool unix_queue_drop(struct unix_sock *u);

/* ---- unix_gc.c ---- */

/* Files go into a message: accounts for them. -ETOOMANYREFS. */
int unix_count_files(struct vfs_ctx *c, struct scm_files *fp) MUST_USE;
/* They leave it, to a receiver: the caller owns the references from here on. */
void unix_uncount_files(struct scm_files *fp);
/* A copy for a peeking receiver; not accounted for. NULL: no memory. */
struct scm_files *unix_dup_files(const struct scm_files *fp) MUST_USE;
/* Nobody gets them: drops the references, perhaps a little later, never deeper than one level. */
void unix_drop_files(struct scm_files *fp);
/* Looks for sockets that only each other's queues refer to, and empties those. */
void unix_collect(void);

#endif
