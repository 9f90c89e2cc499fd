/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper's side that the sentry sees: starting it, and the cache of descriptors that it holds.
 *
 * Theory of operation: stubs map files by descriptors of a table that they share with the keeper
 * and not with the sentry. To get one there costs two switches of process, so those with a key
 * stay, least recently used ones going first. A file that is in use by a map operation (pins) is
 * never closed.
 *
 * Locking: one mutex for the cache and for the conversation with the keeper, which answers at once.
 */
#include <errno.h>
#include <sys/wait.h>
#include "base/alloc.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/queue.h"
#include "platform/host_proc.h"
#include "platform/host_spawn.h"
#include "platform/ptrace.h"
#include "platform/stub_filter.h"

#define CACHE_MAX 1024u
/* Descriptors left free for operations without a key that are under way, and for the fixed ones. */
#define CACHE_SPARE 64u

struct pt_file {
	uint64_t key; /* see cache_key. 0: not cached, goes with the last pin */
	int fd;       /* in the stubs' table */
	unsigned pins;
	TAILQ_ENTRY(pt_file) link; /* most recently used first; cached ones only */
};

static struct {
	struct mutex lock;
	int socket;
	pid_t pid;
	bool dead; /* [lock] */
	bool killed;
	struct htable by_key;
	TAILQ_HEAD(pt_file_list, pt_file) lru;
	unsigned count, max;
} g_keeper = {.lock = MUTEX_INIT(RANK_LEAF), .socket = -1};

extern const uint8_t g_stub_image[], g_stub_image_end[];

static bool key_eq(const void *entry, const void *key)
{
	return ((const struct pt_file *)entry)->key == *(const uint64_t *)key;
}

/* Of a file that has two descriptions, one is for reading only. */
static uint64_t cache_key(uint64_t key, bool read_only)
{
	return key ? key << 1 | read_only : 0;
}

static int make_config(struct err *e)
{
	struct stub_config *config = mem_zalloc(sizeof(*config));
	int r;

	if (!config)
		return err_set(e, ENOMEM, "no memory for the stub's filter");
	r = stub_filter_build(config, e);
	config->trap_tsc = g_pf_trap_tsc;
	if (r == 0) {
		r = pf_host_memfd("moat-config", config, sizeof(*config), true);
		if (r < 0)
			(void)err_set(e, -r, "cannot make the stub's configuration: %s",
				      err_text(-r));
	}
	mem_free(config);
	return r;
}

static int died_locked(void)
{
	g_keeper.dead = true;
	if (!g_keeper.killed)
		atomic_store(&g_pf_killed, true);
	return -EIO;
}

/* The answer. All stubs hold the keeper's end of the socket open, so that its death (from outside)
 * does not close it. @fd: NULL, or gets a descriptor that came with it. */
static int64_t answer_locked(int *fd)
{
	struct keeper_reply reply;
	ssize_t n;

	do {
		n = pf_host_recv_fd(g_keeper.socket, &reply, sizeof(reply), fd);
	} while (n == -EAGAIN && !pf_host_has_ended(g_keeper.pid));
	return n == sizeof(reply) ? reply.value : died_locked();
}

/* 0 or -errno. */
static int send_locked(const struct keeper_request *req, int fd)
{
	const int r =
		g_keeper.dead ? -EIO : pf_host_send_fd(g_keeper.socket, req, sizeof(*req), fd);

	/* It was the only one that held its end open. */
	return r == -EPIPE || r == -ECONNRESET ? died_locked() : r;
}

/* One question, one answer. A value >= 0, or -errno. */
static int64_t ask_locked(uint32_t op, int arg, int fd)
{
	const struct keeper_request req = {.op = op, .arg = arg};
	int r = send_locked(&req, fd);
	int64_t value;

	if (r < 0)
		return r;
	value = answer_locked(NULL);
	if (g_keeper.dead)
		log_error("ptrace: the keeper of descriptors is gone: no file can be mapped any "
			  "more");
	return value;
}

int stub_keeper_spawn(const uint8_t *stub, size_t stub_size, int orders, int config, uint64_t space,
		      struct err *e)
{
	int image = -1, pair[2] = {-1, -1};
	const uint64_t limit = pf_host_nofile_limit();
	int r;

	htable_init(&g_keeper.by_key);
	TAILQ_INIT(&g_keeper.lru);
	g_keeper.max =
		(unsigned)(limit > 2 * CACHE_SPARE ? MIN(limit - CACHE_SPARE, (uint64_t)CACHE_MAX)
						   : CACHE_SPARE);
	r = image = pf_host_memfd("moat-stub", stub, stub_size, true);
	if (r >= 0)
		r = pf_host_socketpair(pair);
	if (r >= 0)
		r = g_keeper.pid = pf_host_spawn_stub(image, pair[1], orders, config, space);
	if (r < 0)
		(void)err_set(e, -r, "cannot start the stub: %s", err_text(-r));
	if (pair[1] >= 0)
		pf_host_close(pair[1]);
	if (image >= 0)
		pf_host_close(image);
	if (r < 0) {
		if (pair[0] >= 0)
			pf_host_close(pair[0]);
		return r;
	}
	g_keeper.socket = pair[0];
	g_keeper.dead = g_keeper.killed = false;
	return 0;
}

int stub_keeper_wait(int *listener, struct err *e)
{
	/* Its first word says that it stands. */
	if (listener)
		*listener = -1;
	if (answer_locked(listener) == 0 && (!listener || *listener >= 0))
		return 0;

	const int r = g_keeper.dead ? pf_host_no_start(g_keeper.pid, e)
				    : err_set(e, ENOEXEC, "%s", PF_HOST_NO_START);

	pt_keeper_stop();
	return r;
}

int pt_keeper_spawn(struct err *e)
{
	const int config = make_config(e);
	int r;

	if (config < 0)
		return config;
	r = stub_keeper_spawn(g_stub_image, (size_t)(g_stub_image_end - g_stub_image),
			      pt_orders_fd(), config, UINT64_MAX, e);
	pf_host_close(config);
	return r;
}

void stub_keeper_kill(void)
{
	/* Once: others may reap it, and then the number is a stranger's. */
	const bool killed = g_keeper.killed;

	/* First: else who finds it dead meanwhile takes it for killed by others. */
	g_keeper.killed = true;
	if (g_keeper.pid > 0 && !killed)
		(void)pf_host_kill(g_keeper.pid, SIGKILL);
}

void pt_keeper_stop(void)
{
	struct pt_file *f;

	while ((f = TAILQ_FIRST(&g_keeper.lru)) != NULL) {
		TAILQ_REMOVE(&g_keeper.lru, f, link);
		mem_free(f);
	}
	htable_fini(&g_keeper.by_key);
	g_keeper.count = 0;
	if (g_keeper.socket >= 0)
		pf_host_close(g_keeper.socket);
	g_keeper.socket = -1;
	stub_keeper_kill();
	if (g_keeper.pid > 0)
		pf_host_reap(g_keeper.pid);
	g_keeper.pid = 0;
}

static void close_locked(int fd)
{
	const struct keeper_request req = {.op = KEEPER_CLOSE, .arg = fd};

	/* If the keeper is gone, no descriptor can be closed any more, nor a new one be had. */
	if (!g_keeper.dead)
		(void)pf_host_send_fd(g_keeper.socket, &req, sizeof(req), -1);
}

pid_t stub_keeper_pid(void)
{
	return g_keeper.pid;
}

static pid_t fork_keeper(uint32_t op, int arg)
{
	int64_t r;

	mutex_lock(&g_keeper.lock);
	r = ask_locked(op, arg, -1);
	mutex_unlock(&g_keeper.lock);
	return (pid_t)r;
}

pid_t pt_keeper_zygote(void)
{
	return fork_keeper(KEEPER_ZYGOTE, 0);
}

pid_t pt_keeper_fork(bool program, uint32_t orders_slot, uint32_t area_slot)
{
	return fork_keeper(program ? KEEPER_PROGRAM : KEEPER_ZYGOTE,
			   (int)KEEPER_SLOTS(orders_slot, area_slot));
}

int pt_keeper_time(int fd)
{
	int64_t r;

	mutex_lock(&g_keeper.lock);
	r = ask_locked(KEEPER_TIME, 0, fd);
	mutex_unlock(&g_keeper.lock);
	return (int)r;
}

/* Takes @f out of the cache; closes and frees it unless pinned. */
static void uncache_locked(struct pt_file *f)
{
	TAILQ_REMOVE(&g_keeper.lru, f, link);
	(void)htable_remove(&g_keeper.by_key, hash_u64(f->key), f);
	g_keeper.count--;
	f->key = 0;
	if (f->pins == 0) {
		close_locked(f->fd);
		mem_free(f);
	}
}

static void make_room_locked(void)
{
	struct pt_file *f = TAILQ_LAST(&g_keeper.lru, pt_file_list);

	while (f && g_keeper.count >= g_keeper.max) {
		struct pt_file *prev = TAILQ_PREV(f, pt_file_list, link);

		if (f->pins == 0)
			uncache_locked(f);
		f = prev;
	}
}

static void cache_locked(struct pt_file *f, uint64_t key)
{
	make_room_locked();
	f->key = key;
	if (htable_insert(&g_keeper.by_key, hash_u64(key), f) < 0) {
		f->key = 0; /* then it is not cached */
		return;
	}
	TAILQ_INSERT_HEAD(&g_keeper.lru, f, link);
	g_keeper.count++;
}

static int64_t store_one_locked(int host_fd, bool read_only)
{
	const int own = read_only ? pf_host_reopen_read(host_fd) : host_fd;
	int64_t fd;

	if (own < 0)
		return own;
	fd = ask_locked(KEEPER_STORE, 0, own);
	if (own != host_fd)
		pf_host_close(own);
	return fd;
}

static int get_locked(int host_fd, uint64_t key, bool read_only, struct pt_file **file)
{
	struct pt_file *f = key ? htable_find(&g_keeper.by_key, hash_u64(key), key_eq, &key) : NULL;
	int64_t fd;

	if (f) {
		TAILQ_REMOVE(&g_keeper.lru, f, link);
		TAILQ_INSERT_HEAD(&g_keeper.lru, f, link);
	} else {
		f = mem_zalloc(sizeof(*f));
		if (!f)
			return -ENOMEM;
		fd = store_one_locked(host_fd, read_only);
		if (fd < 0) {
			mem_free(f);
			/* Nothing that a guest's mmap could say but these. */
			return fd == -EBADF || fd == -EACCES ? (int)fd : -ENOMEM;
		}
		f->fd = (int)fd;
		if (key)
			cache_locked(f, key);
	}
	f->pins++;
	*file = f;
	return f->fd;
}

/* Sends @count descriptors, then takes the answers: so the keeper is woken once. Their numbers or
 * errors in @numbers. */
static void store_locked(const int *host_fds, size_t count, int64_t *numbers)
{
	const struct keeper_request req = {.op = KEEPER_STORE};
	size_t sent = 0;
	int r = 0;

	while (r == 0 && sent < count) {
		r = send_locked(&req, host_fds[sent]);
		sent += r == 0;
	}
	for (size_t i = 0; i < count; i++)
		numbers[i] = i < sent && !g_keeper.dead ? answer_locked(NULL) : -EIO;
}

void pt_files_bring(const struct map_op *ops, size_t count)
{
	struct pt_file *files[PT_FILES_BATCH];
	uint64_t keys[PT_FILES_BATCH];
	int64_t numbers[PT_FILES_BATCH];
	int fds[PT_FILES_BATCH];
	size_t n = 0;

	mutex_lock(&g_keeper.lock);
	for (size_t i = 0; i < count && n < PT_FILES_BATCH; i++) {
		const bool plain = ops[i].kind == MAP_OP_FILE && ops[i].host_fd >= 0 &&
				   !(ops[i].flags & MAP_OPF_NEVER_WRITTEN);
		const uint64_t key = plain ? cache_key(ops[i].file_key, false) : 0;
		bool have = key == 0 || htable_find(&g_keeper.by_key, hash_u64(key), key_eq, &key);

		for (size_t j = 0; j < n && !have; j++)
			have = keys[j] == key;
		if (have)
			continue;
		files[n] = mem_zalloc(sizeof(*files[n]));
		if (!files[n])
			break;
		keys[n] = key;
		fds[n++] = ops[i].host_fd;
	}
	/* One alone is asked for when it is needed. */
	if (n >= 2)
		store_locked(fds, n, numbers);
	for (size_t i = 0; i < n; i++) {
		if (n >= 2 && numbers[i] >= 0) {
			files[i]->fd = (int)numbers[i];
			cache_locked(files[i], keys[i]);
			if (files[i]->key != 0)
				continue;
			close_locked(files[i]->fd);
		}
		mem_free(files[i]);
	}
	mutex_unlock(&g_keeper.lock);
}

int pt_files_get(const int *host_fds, size_t count, struct pt_file **files)
{
	int64_t numbers[PT_FILES_BATCH];
	int r = 0;

	BUG_ON(count > PT_FILES_BATCH);
	for (size_t i = 0; i < count; i++) {
		files[i] = mem_zalloc(sizeof(*files[i]));
		if (!files[i])
			r = -ENOMEM;
	}
	mutex_lock(&g_keeper.lock);
	if (r == 0)
		store_locked(host_fds, count, numbers);
	for (size_t i = 0; i < count && r == 0; i++) {
		files[i]->fd = (int)numbers[i];
		files[i]->pins = 1;
	}
	for (size_t i = 0; i < count && r == 0; i++) {
		if (numbers[i] < 0)
			r = (int)numbers[i];
	}
	for (size_t i = 0; i < count && r < 0; i++) {
		if (files[i] && files[i]->pins && files[i]->fd >= 0)
			close_locked(files[i]->fd);
		mem_free(files[i]);
		files[i] = NULL;
	}
	mutex_unlock(&g_keeper.lock);
	return r;
}

int pt_file_number(const struct pt_file *f)
{
	return f->fd;
}

int pt_file_get(int host_fd, uint64_t key, bool read_only, struct pt_file **file)
{
	int r;

	if (host_fd < 0)
		return -EBADF;
	mutex_lock(&g_keeper.lock);
	r = get_locked(host_fd, cache_key(key, read_only), read_only, file);
	mutex_unlock(&g_keeper.lock);
	return r;
}

void pt_file_put(struct pt_file *f)
{
	mutex_lock(&g_keeper.lock);
	if (--f->pins == 0 && f->key == 0) {
		close_locked(f->fd);
		mem_free(f);
	}
	mutex_unlock(&g_keeper.lock);
}

void pt_forget_file(uint64_t key)
{
	const uint64_t keys[2] = {cache_key(key, false), cache_key(key, true)};

	mutex_lock(&g_keeper.lock);
	for (unsigned i = 0; i < 2 && key != 0; i++) {
		struct pt_file *f =
			htable_find(&g_keeper.by_key, hash_u64(keys[i]), key_eq, &keys[i]);

		if (f)
			uncache_locked(f);
	}
	mutex_unlock(&g_keeper.lock);
}
