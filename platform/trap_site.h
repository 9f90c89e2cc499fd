/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewritten call sites of the trap platform: the table (trap_site.c) and who writes
 * (trap_rewrite.c).
 */
#ifndef MOAT_PLATFORM_TRAP_SITE_H
#define MOAT_PLATFORM_TRAP_SITE_H

#include "base/lx_signal.h"
#include "platform/trap.h"

#define TR_SYSCALL_SIZE 2u /* of the syscall instruction */
#define TR_PATCH_SIZE 5u   /* of the jump that replaces */
#define TR_ROOM_SIZE ((uint64_t)0x10000)
#define TR_ROOM_SLOTS (TR_ROOM_SIZE / TS_SLOT_SIZE)
#define TR_ROOMS_MAX 16u
#define TR_SITES_MAX 4096u
/* After so many traps a site is rewritten: that costs about as much as these. */
#define TR_HOT 12u
/* After so many, if it was worth it for another process: who calls it again is likely to go on. */
#define TR_KNOWN_HOT 3u
#define TR_SLOT_DEAD 1u /* in tr_room.calls: never again */
/* A site whose displaced instruction is entered by itself so often is put back: it faults each
 * time. */
#define TR_FAULTS_MAX 64u
#define TR_PAGE_BITS 4096u

enum tr_site_state { TR_SITE_COUNTED, TR_SITE_PATCHED, TR_SITE_REFUSED };

/* What the jump stands on. */
enum tr_pattern {
	TR_PATTERN_BEFORE, /* "mov $nr, %eax" before the syscall instruction, which stays */
	TR_PATTERN_AFTER,  /* the syscall instruction and (part of) the one behind it */
};

struct tr_site {
	uint64_t call;  /* of the syscall instruction; 0: no entry */
	uint64_t start; /* of the patch */
	uint64_t slot;
	uint32_t nr;           /* BEFORE: what mov loads */
	uint16_t hits, wanted; /* PATCHED: hits counts entries at the displaced instruction */
	uint8_t state;         /* enum tr_site_state */
	uint8_t pattern;       /* enum tr_pattern */
	uint8_t displaced;     /* AFTER: bytes of the displaced instruction */
	uint8_t orig[TR_PATCH_SIZE];
};

/* Text around a syscall instruction. */
struct tr_text {
	uint8_t bytes[64];
	size_t size;
	size_t call; /* offset of the syscall instruction */
};

/* A site of a file. */
struct tr_known {
	uint64_t offset; /* of the syscall instruction */
	uint32_t nr;
	uint8_t pattern, displaced; /* as struct tr_site's */
	struct tr_text text;        /* by which it was judged */
};

struct tr_room {
	uint64_t addr;
	uint64_t *calls; /* by slot: whose it is; 0: free */
};

struct tr_sites {
	struct mutex lock;
	struct tr_site *table; /* open addressing; a power of two */
	uint32_t size, count, patched;
	uint64_t low, high; /* all sites lie within */
	/* Pages of sites, hashed: most of what is mapped or copied has to do with none. */
	uint64_t page_bits[TR_PAGE_BITS / 64];
	struct tr_room rooms[TR_ROOMS_MAX];
	unsigned room_count;
};

/* Counts a trap at @call. True: it is worth a rewrite, or would be if it were known. */
bool tr_site_hit(struct pf_as *as, uint64_t call);
/* Can calls come from rewritten sites? @s may be NULL. */
bool tr_sites_have_rooms(const struct tr_sites *s);
void tr_sites_free(struct tr_sites *s);
/* For a fork. NULL: no memory, or nothing to copy. */
struct tr_sites *tr_sites_copy(struct tr_sites *from);

/* Where a guest goes on that shall go on at @ip. */
uint64_t tr_site_resume(struct pf_as *as, uint64_t ip);
/* What the guest believes to be at when it is at @ip. */
uint64_t tr_site_canon(struct pf_as *as, uint64_t ip);
/* A single step has ended at @ip: sets rip (and rax) to what the guest would see. True: it would
 * see nothing. */
bool tr_site_stepped(struct pf_as *as, uint64_t ip, struct pf_regs *regs);
/* Was the fault at @ip only because the instruction there is displaced (tr_site_resume knows
 * where)? *often says that the site had better be put back (tr_rewrite_undo). */
bool tr_site_fault(struct pf_as *as, uint64_t ip, int signo, bool *often);
/* Puts the original bytes into what was read from [addr, addr + size). */
void tr_site_show_original(struct pf_as *as, uint64_t addr, void *buf, size_t size);

/* For trap_rewrite.c, with as->orders_lock held. */
enum tr_site_state tr_site_state(struct tr_sites *s, uint64_t call);
/* Has it trapped so often that a rewrite pays? */
bool tr_site_hot(struct tr_sites *s, uint64_t call);
void tr_site_refuse(struct tr_sites *s, uint64_t call);
bool tr_room_add(struct tr_sites *s, uint64_t addr) MUST_USE;
bool tr_rooms_full(const struct tr_sites *s);
/* Widens [*start, *end) to all of the rooms that it touches. False: it touches none. */
bool tr_rooms_in(struct tr_sites *s, uint64_t *start, uint64_t *end);
/* A free slot to which a jump that ends at @next_ip reaches, and whose displacement @fits. 0: none.
 */
uint64_t tr_room_find_slot(struct tr_sites *s, uint64_t next_ip, bool (*fits)(uint32_t rel));
void tr_site_patched(struct tr_sites *s, const struct tr_site *site);
/* A rewritten site whose text or trampoline lies in [start, end). */
bool tr_site_next_in(struct tr_sites *s, uint64_t start, uint64_t end,
		     struct tr_site *out) MUST_USE;
/* Has any site, or a room, to do with [start, end)? May be wrong in saying that it has. */
bool tr_sites_near(const struct tr_sites *s, uint64_t start, uint64_t end);
void tr_site_restored(struct tr_sites *s, uint64_t call);
void tr_site_forget(struct tr_sites *s, uint64_t start, uint64_t end);

/* --- trap_known.c --- */
void tr_known_start(void);
void tr_known_stop(void); /* nobody else runs any more */
bool tr_known_any(void);
/* Notes a site of the file of @text, if it has one, for others. */
void tr_known_add(const struct pf_text *text, const struct tr_known *site);
/* What is known of the site of @call in @text. False: nothing. */
bool tr_known_find(const struct pf_text *text, uint64_t call, struct tr_known *out) MUST_USE;
/* The key is no file's any more. */
void tr_known_forget(uint64_t key);

/* --- trap_rewrite.c --- */
/* Rewrites the site of @call, if it has trapped often or is known. 0; -ENOSPC: tr_rewrite_room
 * first; -EAGAIN: perhaps later; -ENOTSUP: never. */
int tr_rewrite(struct pf_thread *t, uint64_t call, const struct pf_text *text) MUST_USE;
int tr_rewrite_room(struct pf_thread *t, uint64_t addr) MUST_USE;
/* The host is about to run @op: puts back what it touches. */
void tr_rewrite_before_op_locked(struct pf_as *as, const struct map_op *op)
	REQUIRES(as->orders_lock);
/* [addr, addr + size) is about to be written from outside. */
void tr_rewrite_before_write(struct pf_as *as, uint64_t addr, size_t size);
/* Puts the site whose second instruction is at @next back. */
void tr_rewrite_undo(struct pf_as *as, uint64_t next);

/* Is there, without doubt, a "mov $nr, %eax" before the call? */
bool tr_text_has_mov(const struct tr_text *x, uint32_t nr);
/* Length of the instruction behind the call if it can run elsewhere; 0: it cannot. */
size_t tr_text_displaceable(const struct tr_text *x);

#endif
