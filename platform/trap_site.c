/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of call sites of an address space: which were counted, rewritten, refused.
 *
 * Theory of operation: a site is known by the address of its syscall instruction. The table lives
 * beside the address space, in the sentry's own memory: what the guest does to its text or to the
 * trampolines deceives nobody but itself. A rewritten site has a slot (a trampoline) in one of the
 * rooms, regions of guest memory that the sentry has set aside near the code.
 *
 * To the sentry the guest looks as if nothing had been rewritten: addresses in trampolines are
 * turned into those of the site before it sees them (tr_site_canon), and back when the guest goes
 * on (tr_site_resume); what it reads of rewritten text is the original (tr_site_show_original).
 *
 * Locking: sites->lock (leaf). Entries are added and changed under as->orders_lock.
 */
#include <string.h>
#include "platform/trap.h"
#include "platform/trap_site.h"

#define TABLE_MIN 64u
/* Behind the start of a call, the text that a site may depend on. */
#define TR_TEXT_MAX 17u

static struct tr_site *table_find(const struct tr_sites *s, uint64_t call)
{
	if (s->size == 0)
		return NULL;
	for (uint32_t i = (uint32_t)hash_u64(call);; i++) {
		struct tr_site *e = &s->table[i & (s->size - 1)];

		if (e->call == call)
			return e;
		if (e->call == 0)
			return NULL;
	}
}

static bool table_grow(struct tr_sites *s)
{
	const uint32_t old_size = s->size;
	struct tr_site *old = s->table, *e;

	s->table = mem_calloc(MAX(old_size * 2, TABLE_MIN), sizeof(*s->table));
	if (!s->table) {
		s->table = old;
		return false;
	}
	s->size = MAX(old_size * 2, TABLE_MIN);
	for (uint32_t i = 0; i < old_size; i++) {
		uint32_t k = (uint32_t)hash_u64(old[i].call);

		if (old[i].call == 0)
			continue;
		for (;; k++) {
			e = &s->table[k & (s->size - 1)];
			if (e->call == 0)
				break;
		}
		*e = old[i];
	}
	mem_free(old);
	return true;
}

static void page_bits_add(struct tr_sites *s, uint64_t call)
{
	const uint64_t low = call - TR_PATCH_SIZE, high = call + TR_TEXT_MAX;

	for (uint64_t page = low / MOAT_PAGE_SIZE; page <= (high - 1) / MOAT_PAGE_SIZE; page++)
		s->page_bits[page % TR_PAGE_BITS / 64] |= UINT64_C(1) << page % 64;
	s->low = s->count == 0 ? low : MIN(s->low, low);
	s->high = MAX(s->high, high);
}

/* Do sites lie near [start, end)? */
static bool text_near(const struct tr_sites *s, uint64_t start, uint64_t end)
{
	uint64_t page = start / MOAT_PAGE_SIZE;
	const uint64_t last = (end - 1) / MOAT_PAGE_SIZE;

	if (likely(s->count == 0 || start >= s->high || end <= s->low))
		return false;
	if (last - page >= 64)
		return true;
	for (; page <= last; page++) {
		if (s->page_bits[page % TR_PAGE_BITS / 64] >> page % 64 & 1)
			return true;
	}
	return false;
}

bool tr_sites_near(const struct tr_sites *s, uint64_t start, uint64_t end)
{
	for (unsigned i = 0; i < s->room_count; i++) {
		if (s->rooms[i].addr < end && s->rooms[i].addr + TR_ROOM_SIZE > start)
			return true;
	}
	return text_near(s, start, end);
}

/* The entry of @call, made if need be. NULL: the table is full, or no memory. */
static struct tr_site *table_get(struct tr_sites *s, uint64_t call)
{
	struct tr_site *e = table_find(s, call);

	if (e)
		return e;
	if (s->count >= TR_SITES_MAX || (s->count * 2 >= s->size && !table_grow(s)))
		return NULL;
	for (uint32_t i = (uint32_t)hash_u64(call);; i++) {
		e = &s->table[i & (s->size - 1)];
		if (e->call == 0)
			break;
	}
	*e = (struct tr_site){.call = call, .state = TR_SITE_COUNTED};
	page_bits_add(s, call);
	s->count++;
	return e;
}

/* Behind the text that @e depends on: the jump, and what is displaced. */
static uint64_t text_end(const struct tr_site *e)
{
	return MAX(e->start + TR_PATCH_SIZE, e->call + TR_SYSCALL_SIZE + e->displaced);
}

static const struct tr_room *room_of(const struct tr_sites *s, uint64_t addr)
{
	for (unsigned i = 0; i < s->room_count; i++) {
		if (addr - s->rooms[i].addr < TR_ROOM_SIZE)
			return &s->rooms[i];
	}
	return NULL;
}

bool tr_site_hit(struct pf_as *as, uint64_t call)
{
	struct tr_sites *s = as->sites;
	struct tr_site *e;
	bool hot = false;

	if (unlikely(!s)) {
		s = mem_zalloc(sizeof(*s));
		if (!s)
			return false;
		mutex_init(&s->lock, RANK_LEAF);
		as->sites = s;
	}
	mutex_lock(&s->lock);
	e = table_get(s, call);
	if (e && e->state == TR_SITE_COUNTED && ++e->hits >= e->wanted + TR_HOT) {
		/* If it cannot be done now, then perhaps later. */
		e->wanted = e->hits > UINT16_MAX / 4 ? UINT16_MAX : (uint16_t)(e->hits * 2);
		hot = e->wanted != UINT16_MAX;
	} else if (e && e->state == TR_SITE_COUNTED && e->hits == TR_KNOWN_HOT) {
		hot = tr_known_any();
	}
	mutex_unlock(&s->lock);
	return hot;
}

bool tr_sites_have_rooms(const struct tr_sites *s)
{
	return s && s->room_count != 0;
}

void tr_sites_free(struct tr_sites *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->room_count; i++)
		mem_free(s->rooms[i].calls);
	mem_free(s->table);
	mem_free(s);
}

struct tr_sites *tr_sites_copy(struct tr_sites *from)
{
	struct tr_sites *s;
	bool ok = true;

	if (!from)
		return NULL;
	s = mem_zalloc(sizeof(*s));
	if (!s)
		return NULL;
	mutex_init(&s->lock, RANK_LEAF);
	mutex_lock(&from->lock);
	s->table = mem_dup(from->table, from->size * sizeof(*from->table));
	s->size = from->size;
	s->count = from->count;
	s->patched = from->patched;
	s->low = from->low;
	s->high = from->high;
	memcpy(s->page_bits, from->page_bits, sizeof(s->page_bits));
	for (unsigned i = 0; i < from->room_count; i++) {
		s->rooms[i] = from->rooms[i];
		s->rooms[i].calls = mem_dup(from->rooms[i].calls,
					    TR_ROOM_SLOTS * sizeof(*from->rooms[i].calls));
		ok = ok && s->rooms[i].calls;
		s->room_count++;
	}
	mutex_unlock(&from->lock);
	if (s->table && ok)
		return s;
	tr_sites_free(s);
	return NULL;
}

/* --- Addresses --- */

uint64_t tr_site_resume(struct pf_as *as, uint64_t ip)
{
	struct tr_sites *s = as->sites;
	const struct tr_site *e;

	if (likely(!s || s->patched == 0))
		return ip;
	mutex_lock(&s->lock);
	e = table_find(s, ip - TR_SYSCALL_SIZE);
	if (e && e->state == TR_SITE_PATCHED && e->pattern == TR_PATTERN_AFTER)
		ip = e->slot + TS_SLOT_TAIL;
	mutex_unlock(&s->lock);
	return ip;
}

/* Where the guest is at offset @off of the trampoline of @e. */
static uint64_t canon(const struct tr_site *e, uint64_t off)
{
	if (e->pattern == TR_PATTERN_BEFORE)
		return off < TS_SLOT_SLOW ? e->start : e->call;
	if (off < TS_SLOT_TAIL)
		return e->call;
	/* The displaced instruction, or the jump behind it. */
	return e->call + TR_SYSCALL_SIZE + (off == TS_SLOT_TAIL ? 0u : e->displaced);
}

uint64_t tr_site_canon(struct pf_as *as, uint64_t ip)
{
	struct tr_sites *s = as->sites;
	const struct tr_room *room;
	const struct tr_site *e;

	if (likely(!s || s->room_count == 0))
		return ip;
	mutex_lock(&s->lock);
	room = room_of(s, ip);
	if (room) {
		e = table_find(s, room->calls[(ip - room->addr) / TS_SLOT_SIZE]);
		if (e && e->state == TR_SITE_PATCHED)
			ip = canon(e, (ip - room->addr) % TS_SLOT_SIZE);
	}
	mutex_unlock(&s->lock);
	return ip;
}

bool tr_site_stepped(struct pf_as *as, uint64_t ip, struct pf_regs *regs)
{
	struct tr_sites *s = as->sites;
	const struct tr_room *room;
	const struct tr_site *e;
	bool silent = false;

	if (likely(!s || s->room_count == 0))
		return false;
	mutex_lock(&s->lock);
	room = room_of(s, ip);
	e = room ? table_find(s, room->calls[(ip - room->addr) / TS_SLOT_SIZE]) : NULL;
	if (e && e->state == TR_SITE_PATCHED) {
		const uint64_t off = (ip - room->addr) % TS_SLOT_SIZE;

		if (off == 0 && e->pattern == TR_PATTERN_BEFORE) {
			/* The guest has stepped over the mov that the jump replaced. */
			regs->rip = e->call;
			regs->rax = e->nr;
		} else if (off <= TS_SLOT_SLOW) {
			/* Over nothing yet. */
			regs->rip = e->slot + TS_SLOT_SLOW;
			silent = true;
		} else {
			/* Over the displaced instruction. */
			regs->rip = canon(e, off);
		}
	}
	mutex_unlock(&s->lock);
	return silent;
}

bool tr_site_fault(struct pf_as *as, uint64_t ip, int signo, bool *often)
{
	struct tr_sites *s = as->sites;
	struct tr_site *e;
	bool ours = false;

	*often = false;

	if (likely(!s || s->patched == 0) || signo == LX_SIGTRAP)
		return false;
	mutex_lock(&s->lock);
	e = table_find(s, ip - TR_SYSCALL_SIZE);
	if (e && e->state == TR_SITE_PATCHED && e->pattern == TR_PATTERN_AFTER) {
		*often = ++e->hits >= TR_FAULTS_MAX;
		ours = true;
	}
	mutex_unlock(&s->lock);
	return ours;
}

void tr_site_show_original(struct pf_as *as, uint64_t addr, void *buf, size_t size)
{
	struct tr_sites *s = as->sites;

	if (likely(!s || s->patched == 0 || !text_near(s, addr, addr + size)))
		return;
	mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->size; i++) {
		const struct tr_site *e = &s->table[i];

		if (e->call == 0 || e->state != TR_SITE_PATCHED)
			continue;
		for (unsigned k = 0; k < TR_PATCH_SIZE; k++) {
			if (e->start + k - addr < size)
				((uint8_t *)buf)[e->start + k - addr] = e->orig[k];
		}
	}
	mutex_unlock(&s->lock);
}

/* --- Changes; as->orders_lock held --- */

enum tr_site_state tr_site_state(struct tr_sites *s, uint64_t call)
{
	enum tr_site_state state;
	const struct tr_site *e;

	mutex_lock(&s->lock);
	e = table_find(s, call);
	state = e ? e->state : TR_SITE_REFUSED;
	mutex_unlock(&s->lock);
	return state;
}

bool tr_site_hot(struct tr_sites *s, uint64_t call)
{
	const struct tr_site *e;
	bool hot;

	mutex_lock(&s->lock);
	e = table_find(s, call);
	hot = e && e->state == TR_SITE_COUNTED && e->hits >= TR_HOT;
	mutex_unlock(&s->lock);
	return hot;
}

void tr_site_refuse(struct tr_sites *s, uint64_t call)
{
	struct tr_site *e;

	mutex_lock(&s->lock);
	e = table_find(s, call);
	if (e && e->state == TR_SITE_COUNTED)
		e->state = TR_SITE_REFUSED;
	mutex_unlock(&s->lock);
}

bool tr_room_add(struct tr_sites *s, uint64_t addr)
{
	uint64_t *calls = mem_calloc(TR_ROOM_SLOTS, sizeof(*calls));
	bool ok = false;

	mutex_lock(&s->lock);
	if (calls && s->room_count < TR_ROOMS_MAX) {
		s->rooms[s->room_count++] = (struct tr_room){.addr = addr, .calls = calls};
		ok = true;
	}
	mutex_unlock(&s->lock);
	if (!ok)
		mem_free(calls);
	return ok;
}

bool tr_rooms_full(const struct tr_sites *s)
{
	return s->room_count == TR_ROOMS_MAX;
}

bool tr_rooms_in(struct tr_sites *s, uint64_t *start, uint64_t *end)
{
	const uint64_t from = *start, to = *end;
	bool any = false;

	for (unsigned i = 0; i < s->room_count; i++) {
		const uint64_t room = s->rooms[i].addr;

		if (room >= to || room + TR_ROOM_SIZE <= from)
			continue;
		*start = MIN(*start, room);
		*end = MAX(*end, room + TR_ROOM_SIZE);
		any = true;
	}
	return any;
}

uint64_t tr_room_find_slot(struct tr_sites *s, uint64_t next_ip, bool (*fits)(uint32_t rel))
{
	for (unsigned i = 0; i < s->room_count; i++) {
		const struct tr_room *room = &s->rooms[i];

		for (unsigned k = 0; k < TR_ROOM_SLOTS; k++) {
			const uint64_t slot = room->addr + (uint64_t)k * TS_SLOT_SIZE;
			const int64_t rel = (int64_t)(slot - next_ip);

			if (rel != (int32_t)rel)
				break;
			if (room->calls[k] == 0 && fits((uint32_t)rel))
				return slot;
		}
	}
	return 0;
}

void tr_site_patched(struct tr_sites *s, const struct tr_site *site)
{
	struct tr_room *room;
	struct tr_site *e;

	mutex_lock(&s->lock);
	e = table_find(s, site->call);
	room = (struct tr_room *)(uintptr_t)room_of(s, site->slot);
	BUG_ON(!e || !room);
	*e = *site;
	e->state = TR_SITE_PATCHED;
	room->calls[(site->slot - room->addr) / TS_SLOT_SIZE] = site->call;
	s->patched++;
	mutex_unlock(&s->lock);
}

bool tr_site_next_in(struct tr_sites *s, uint64_t start, uint64_t end, struct tr_site *out)
{
	bool found = false;

	mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->size && !found; i++) {
		const struct tr_site *e = &s->table[i];

		if (e->call == 0 || e->state != TR_SITE_PATCHED)
			continue;
		if ((e->start < end && text_end(e) > start) ||
		    (e->slot < end && e->slot + TS_SLOT_SIZE > start)) {
			*out = *e;
			found = true;
		}
	}
	mutex_unlock(&s->lock);
	return found;
}

void tr_site_restored(struct tr_sites *s, uint64_t call)
{
	struct tr_room *room;
	struct tr_site *e;

	mutex_lock(&s->lock);
	e = table_find(s, call);
	BUG_ON(!e || e->state != TR_SITE_PATCHED);
	/* The slot is not given out again: a thread may still be on its way through it. */
	room = (struct tr_room *)(uintptr_t)room_of(s, e->slot);
	if (room)
		room->calls[(e->slot - room->addr) / TS_SLOT_SIZE] = TR_SLOT_DEAD;
	e->state = TR_SITE_REFUSED;
	s->patched--;
	mutex_unlock(&s->lock);
}

static bool forgettable(const struct tr_site *e, uint64_t start, uint64_t end)
{
	return e->call != 0 && e->state != TR_SITE_PATCHED && e->call < end &&
	       e->call + TR_TEXT_MAX > start;
}

/* The table without what is forgettable. False: no memory. */
static bool table_without(struct tr_sites *s, uint64_t start, uint64_t end)
{
	const uint32_t size = s->size;
	struct tr_site *old = s->table, *e;

	s->table = mem_calloc(size, sizeof(*s->table));
	if (!s->table) {
		s->table = old;
		return false;
	}
	s->count = 0;
	s->low = s->high = 0;
	memset(s->page_bits, 0, sizeof(s->page_bits));
	for (uint32_t i = 0; i < size; i++) {
		if (old[i].call == 0 || forgettable(&old[i], start, end))
			continue;
		e = table_get(s, old[i].call);
		BUG_ON(!e);
		*e = old[i];
	}
	mem_free(old);
	return true;
}

/* Different code may come to [start, end). */
void tr_site_forget(struct tr_sites *s, uint64_t start, uint64_t end)
{
	bool any = false;

	mutex_lock(&s->lock);
	if (text_near(s, start, end)) {
		for (uint32_t i = 0; i < s->size; i++)
			any = any || forgettable(&s->table[i], start, end);
	}
	if (any && !table_without(s, start, end)) {
		for (uint32_t i = 0; i < s->size; i++) {
			struct tr_site *e = &s->table[i];

			if (forgettable(e, start, end))
				*e = (struct tr_site){.call = e->call};
		}
	}
	for (unsigned i = 0; i < s->room_count;) {
		struct tr_room *room = &s->rooms[i];

		if (room->addr < end && room->addr + TR_ROOM_SIZE > start) {
			mem_free(room->calls);
			*room = s->rooms[--s->room_count];
		} else {
			i++;
		}
	}
	mutex_unlock(&s->lock);
}
