/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting call sites: a jump to a trampoline in place of the trap.
 *
 * Theory of operation. Only an address at which a trap has just proved that a syscall instruction
 * is executed is looked at. Two patterns, of which each replaces five bytes:
 *
 * BEFORE: "mov $nr, %eax; syscall": the jump stands on the mov, and the syscall instruction stays,
 * for whoever enters there. That these five bytes are an instruction is not proved by what follows
 * them (they might be the tail of a longer one), so it is done only if no decoding that starts in
 * the bytes before can step over their start and yet arrive at the syscall instruction, unless it
 * had to fault on its way.
 *
 * AFTER: the syscall instruction and the next instruction, which has at least three bytes and
 * depends on no address: execution proves both, if the call is one that returns. The instruction
 * runs displaced, in the trampoline. Somebody may jump to it: there is the second byte of the
 * jump's displacement then, and the trampoline is chosen so that this is no instruction at all in
 * 64-bit mode. The fault leads to the trampoline's copy (tr_site_fault), and if it comes often (a
 * loop that begins there), the site is put back.
 *
 * Where there is doubt the site is left alone: the trap still works.
 *
 * Other threads of the address space must not run while text changes. They are interrupted and held
 * in tr_run (as->holder) until it is done; if one does not come soon, the change is not made. A
 * thread that waits for a reply meanwhile goes on through rt_sigreturn, which serializes
 * (as->text_seq).
 *
 * Text is written through /proc/PID/mem, so that it may be read-only, and a private mapping of a
 * file gets a page of its own. The sentry has checked that the mapping is private and not writable.
 * A mapping that is made writable, moved, replaced, removed or emptied gets its bytes back first;
 * so does what another process writes to, but whose threads those are is known to their own worker
 * only, and so they are not held then (the writer does not stop them either).
 *
 * References: Intel SDM vol. 3, 9.1.3 (cross-modifying code); vol. 2, appendix A (opcode map).
 */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "base/clock.h"
#include "platform/host_spawn.h"
#include "platform/host_proc.h"
#include "platform/host_ptrace.h"
#include "platform/trap_site.h"

/* The longest x86 instruction. */
#define INSN_MAX 15
/* How long the other threads have to come: for a rewrite, which can wait; for putting back, which
 * cannot. */
#define HOLD_NS UINT64_C(20000000)
#define RESTORE_HOLD_NS UINT64_C(1000000000)

/* The memory of @as, to write to its text; then writer_end. -1: it is dead, or the host has no
 * descriptor for us. */
static int writer_begin(struct pf_as *as)
{
	int mem;

	if (!tr_as_enter(as))
		return -1;
	mem = pf_host_mem_open(as->pid);
	if (mem >= 0)
		return mem;
	tr_as_leave(as);
	return -1;
}

static void writer_end(struct pf_as *as, int mem)
{
	pf_host_close(mem);
	tr_as_leave(as);
}

/* --- Decoding --- */

struct insn {
	ZydisDecodedInstruction i;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode(const uint8_t *p, size_t size, struct insn *insn)
{
	ZydisDecoder decoder;

	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					     ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, p, size, &insn->i, insn->op));
}

static bool is_rax(ZydisRegister r)
{
	return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r) ==
	       ZYDIS_REGISTER_RAX;
}

static bool writes_rax(const struct insn *x)
{
	/* What runs elsewhere meanwhile may write any register. */
	if (x->i.meta.category == ZYDIS_CATEGORY_CALL ||
	    x->i.meta.category == ZYDIS_CATEGORY_SYSCALL ||
	    x->i.meta.category == ZYDIS_CATEGORY_INTERRUPT)
		return true;
	for (unsigned k = 0; k < x->i.operand_count; k++) {
		if (x->op[k].type == ZYDIS_OPERAND_TYPE_REGISTER && is_rax(x->op[k].reg.value) &&
		    (x->op[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			return true;
	}
	return false;
}

/* Does it fault if rax is the number of a system call? Nothing is mapped that low. */
static bool faults_with_nr(const struct insn *x)
{
	for (unsigned k = 0; k < x->i.operand_count; k++) {
		const ZydisDecodedOperand *op = &x->op[k];

		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.type == ZYDIS_MEMOP_TYPE_MEM &&
		    is_rax(op->mem.base) && op->mem.index == ZYDIS_REGISTER_NONE &&
		    op->mem.segment != ZYDIS_REGISTER_FS && op->mem.segment != ZYDIS_REGISTER_GS &&
		    op->mem.disp.value >= 0 && op->mem.disp.value < (int64_t)PF_GUEST_MIN / 2)
			return true;
	}
	return false;
}

static bool ends_flow(const struct insn *x)
{
	return x->i.meta.category == ZYDIS_CATEGORY_RET ||
	       x->i.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
	       (x->i.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED);
}

/* Can the code that begins at offset @at be there, and the call be reached, without an instruction
 * at
 * @mov? rax is the number of the call in the end, which rules many of the accidental decodings out.
 */
static bool passes_by(const struct tr_text *x, size_t at, size_t mov)
{
	bool faults = false;

	while (at < x->call && at != mov) {
		struct insn insn;

		if (!decode(&x->bytes[at], x->size - at, &insn))
			return false;
		/* The call may be a jump's target, so that the flow need not come from here; but
		 * what lies here is no mov then. */
		if (ends_flow(&insn))
			return insn.i.meta.category == ZYDIS_CATEGORY_UNCOND_BR &&
			       at + insn.i.length > mov;
		if (writes_rax(&insn))
			faults = false;
		else if (faults_with_nr(&insn))
			faults = true;
		at += insn.i.length;
	}
	return at == x->call && !faults;
}

bool tr_text_has_mov(const struct tr_text *x, uint32_t nr)
{
	const size_t mov = x->call - TR_PATCH_SIZE;
	uint32_t imm;

	if (x->call < TR_PATCH_SIZE || x->bytes[mov] != 0xb8)
		return false;
	memcpy(&imm, &x->bytes[mov + 1], sizeof(imm));
	if (imm != nr)
		return false;
	for (size_t start = mov > INSN_MAX ? mov - INSN_MAX : 0; start < mov; start++) {
		if (passes_by(x, start, mov))
			return false;
	}
	return true;
}

size_t tr_text_displaceable(const struct tr_text *x)
{
	const size_t at = x->call + TR_SYSCALL_SIZE;
	struct insn insn;

	if (at >= x->size || !decode(&x->bytes[at], x->size - at, &insn))
		return 0;
	if (insn.i.length < TR_PATCH_SIZE - TR_SYSCALL_SIZE)
		return 0;
	if (insn.i.attributes & (ZYDIS_ATTRIB_IS_RELATIVE | ZYDIS_ATTRIB_IS_PRIVILEGED))
		return 0;
	switch (insn.i.meta.category) {
	case ZYDIS_CATEGORY_BINARY:
	case ZYDIS_CATEGORY_DATAXFER:
	case ZYDIS_CATEGORY_LOGICAL:
	case ZYDIS_CATEGORY_BITBYTE:
	case ZYDIS_CATEGORY_SHIFT:
	case ZYDIS_CATEGORY_CMOV:
	case ZYDIS_CATEGORY_CONVERT:
	case ZYDIS_CATEGORY_MISC:
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
		return insn.i.length;
	default:
		return 0;
	}
}

/* --- Trampolines --- */

static bool any_slot(uint32_t rel UNUSED)
{
	return true;
}

/* The second byte of the displacement is what somebody would execute who jumps to the second
 * instruction of the site. */
static bool faults(uint32_t rel)
{
	static const uint8_t undefined[] = {0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f,
					    0x37, 0x3f, 0x60, 0x61, 0x82, 0x9a, 0xce, 0xd4, 0xea};

	return memchr(undefined, (uint8_t)(rel >> 8), sizeof(undefined)) != NULL;
}

static void put32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void put_jump(uint8_t *p, uint64_t at, uint64_t to)
{
	p[0] = 0xe9;
	put32(p + 1, (uint32_t)(to - at - TR_PATCH_SIZE));
}

/* The place in the stub of a call that has one of its own, or 0. */
static uint64_t word_place(uint32_t nr)
{
	static const uint16_t words[] = {
#define X(name, number, field, offset, index) number,
		TS_WORDS(X)
#undef X
	};
	_Static_assert(sizeof(words) / sizeof(words[0]) == TS_WORD_COUNT, "the stub has so many");

	for (unsigned i = 0; i < TS_WORD_COUNT; i++) {
		if (words[i] == nr)
			return TS_TEXT + TS_WORD + i * TS_WORD_SIZE;
	}
	return 0;
}

static void build_slot(uint8_t *p, const struct tr_site *site, const struct tr_text *x)
{
	static const uint8_t lea[] = {0x4c, 0x8d, 0x1d}, movabs[] = {0x48, 0xb9};
	static const uint8_t jmp_rcx[] = {0xff, 0xe1}, syscall_insn[] = {0x0f, 0x05};
	static const uint8_t nop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
	const uint64_t after = site->call + TR_SYSCALL_SIZE;
	const uint64_t word = site->pattern == TR_PATTERN_BEFORE ? word_place(site->nr) : 0;
	uint64_t resume = after;

	memset(p, 0xcc, TS_SLOT_SIZE);
	if (site->pattern == TR_PATTERN_BEFORE) {
		p[0] = 0xb8; /* mov $nr, %eax */
		put32(p + 1, site->nr);
	} else {
		memcpy(p, nop, sizeof(nop));
	}
	memcpy(p + 5, lea, sizeof(lea)); /* lea slot(%rip), %r11 */
	put32(p + 8, (uint32_t)-12);
	memcpy(p + 12, movabs, sizeof(movabs)); /* movabs $place, %rcx */
	put64(p + 14, word ? word : TS_TEXT + TS_FAST);
	memcpy(p + 22, jmp_rcx, sizeof(jmp_rcx)); /* jmp *%rcx */
	if (site->pattern == TR_PATTERN_BEFORE) {
		put_jump(p + TS_SLOT_SLOW, site->slot + TS_SLOT_SLOW, site->call);
	} else {
		const size_t n = site->displaced;

		memcpy(p + TS_SLOT_SLOW, syscall_insn, sizeof(syscall_insn));
		memcpy(p + TS_SLOT_TAIL, &x->bytes[x->call + TR_SYSCALL_SIZE], n);
		put_jump(p + TS_SLOT_TAIL + n, site->slot + TS_SLOT_TAIL + n, after + n);
		resume = site->slot + TS_SLOT_TAIL;
	}
	put64(p + TS_SLOT_AFTER, after);
	put64(p + TS_SLOT_RESUME, resume);
}
_Static_assert(TS_SLOT_TAIL + INSN_MAX + TR_PATCH_SIZE <= TS_SLOT_AFTER, "a trampoline is full");

/* --- The other threads --- */

static void release(struct pf_as *as)
{
	as->holder = NULL;
	waitq_wake_all(&as->held, 0);
}

/* Until release() no thread of @as runs guest code. 0; -EAGAIN: one did not come in time; -EXDEV:
 * who runs is known to @as->home only, and we are elsewhere. */
static int hold(struct pf_as *as, uint64_t patience_ns) REQUIRES(as->orders_lock)
{
	const uint64_t deadline = clock_mono_ns() + patience_ns;
	struct pf_thread *t;

	if (worker_self() != as->home)
		return -EXDEV;
	as->holder = fiber_self();
	if (as->running == 0)
		return 0;
	mutex_lock(&as->threads_lock);
	LIST_FOREACH (t, &as->thread_list, link) {
		if (atomic_load(&t->state) == TR_RUNNING)
			tr_signal_thread(t);
	}
	mutex_unlock(&as->threads_lock);
	while (as->running != 0) {
		if (fiber_wait(deadline, WAIT_UNINTR) == -ETIMEDOUT && as->running != 0) {
			release(as);
			return -EAGAIN;
		}
	}
	return 0;
}

/* --- Rewriting --- */

static int read_text(struct pf_as *as, uint64_t call, uint64_t low, uint64_t high,
		     struct tr_text *x)
{
	const uint64_t start = MAX(low, call - INSN_MAX - TR_PATCH_SIZE);
	const uint64_t end = MIN(high, call + TR_SYSCALL_SIZE + INSN_MAX);

	if (call < low || call >= high || end - start > sizeof(x->bytes))
		return -ENOTSUP;
	x->call = call - start;
	x->size = end - start;
	if (tr_copy_in(as, x->bytes, GADDR(start), x->size) != (ssize_t)x->size)
		return -ENOTSUP;
	/* It might have been something else that trapped (int 0x80, a prefix). */
	if (x->size < x->call + TR_SYSCALL_SIZE || x->bytes[x->call] != 0x0f ||
	    x->bytes[x->call + 1] != 0x05)
		return -ENOTSUP;
	return 0;
}

/* Calls that never return, or only by a signal frame, or that need one (whoever is to be copied),
 * gain nothing; and what lies behind them need not be an instruction. Unwinders know rt_sigreturn's
 * site by its bytes. */
static bool is_worth_it(uint32_t nr)
{
	return nr != SYS_rt_sigreturn && nr != SYS_exit && nr != SYS_exit_group &&
	       nr != SYS_execve && nr != SYS_execveat && nr != SYS_fork && nr != SYS_vfork &&
	       nr != SYS_clone && nr != SYS_clone3;
}

/* How the site of a call @nr at @x can be rewritten: sets what it is known by but for where its
 * trampoline is. 0 or -ENOTSUP. */
static int judge(const struct tr_text *x, uint64_t call, uint32_t nr, struct tr_site *site)
{
	*site = (struct tr_site){.call = call, .nr = nr};
	if (!is_worth_it(nr))
		return -ENOTSUP;
	if (tr_text_has_mov(x, nr)) {
		site->pattern = TR_PATTERN_BEFORE;
		site->start = call - TR_PATCH_SIZE;
		return 0;
	}
	site->displaced = (uint8_t)tr_text_displaceable(x);
	site->pattern = TR_PATTERN_AFTER;
	site->start = call;
	return site->displaced ? 0 : -ENOTSUP;
}

/* @site is patched once its trampoline, @slot, is written. @mem: the memory of @as. */
static int patch_text(struct pf_as *as, int mem, const struct tr_site *site, const uint8_t *slot)
	REQUIRES(as->orders_lock)
{
	uint8_t jump[TR_PATCH_SIZE];
	int r = pf_host_mem_write(mem, site->slot, slot, TS_SLOT_SIZE);

	if (r == 0)
		r = hold(as, HOLD_NS);
	if (r < 0)
		return r;
	/* Nothing here sleeps: nobody runs until release(). */
	put_jump(jump, site->start, site->slot);
	r = pf_host_mem_write(mem, site->start, jump, TR_PATCH_SIZE);
	if (r == 0)
		tr_site_patched(as->sites, site);
	else /* a part of it may have been, if it lies in two pages */
		(void)!pf_host_mem_write(mem, site->start, site->orig, TR_PATCH_SIZE);
	as->text_seq++;
	release(as);
	return r;
}

static int patch(struct pf_as *as, struct tr_site *site, const struct tr_text *x)
	REQUIRES(as->orders_lock)
{
	uint8_t slot[TS_SLOT_SIZE];
	struct tr_site other;
	int mem, r;

	/* The instruction behind one call may be the mov before the next. */
	if (tr_site_next_in(as->sites, site->start, site->call + TR_SYSCALL_SIZE + site->displaced,
			    &other))
		return -ENOTSUP;
	memcpy(site->orig, &x->bytes[site->start - site->call + x->call], TR_PATCH_SIZE);
	site->slot = tr_room_find_slot(as->sites, site->start + TR_PATCH_SIZE,
				       site->pattern == TR_PATTERN_BEFORE ? any_slot : faults);
	if (site->slot == 0)
		return tr_rooms_full(as->sites) ? -ENOTSUP : -ENOSPC;
	build_slot(slot, site, x);
	mem = writer_begin(as);
	if (mem < 0)
		return -EAGAIN;
	r = patch_text(as, mem, site, slot);
	writer_end(as, mem);
	return r;
}

static int rewrite_locked(struct pf_as *as, uint64_t call, const struct pf_text *text, uint32_t nr)
	REQUIRES(as->orders_lock)
{
	struct tr_known known = {.offset = text->offset + (call - text->low), .nr = nr};
	struct tr_site site;
	int r = read_text(as, call, text->low, text->high, &known.text);

	if (r == 0)
		r = judge(&known.text, call, nr, &site);
	if (r == 0)
		r = patch(as, &site, &known.text);
	if (r == 0) {
		known.pattern = site.pattern;
		known.displaced = site.displaced;
		tr_known_add(text, &known);
	}
	return r;
}

/* What is known of the site, if it is what it was when it was judged. 0 or -errno. */
static int rewrite_known(struct pf_as *as, uint64_t call, const struct pf_text *text,
			 const struct tr_known *k) REQUIRES(as->orders_lock)
{
	struct tr_site site = {
		.call = call,
		.start = call - (k->pattern == TR_PATTERN_BEFORE ? TR_PATCH_SIZE : 0),
		.nr = k->nr,
		.pattern = k->pattern,
		.displaced = k->displaced,
	};
	struct tr_text x;
	int r = read_text(as, call, text->low, text->high, &x);

	if (r < 0)
		return r;
	if (x.size != k->text.size || x.call != k->text.call ||
	    memcmp(x.bytes, k->text.bytes, x.size) != 0)
		return -ENOTSUP;
	return patch(as, &site, &x);
}

int tr_rewrite(struct pf_thread *t, uint64_t call, const struct pf_text *text)
{
	struct pf_as *as = t->as;
	struct tr_known k;
	int r = -ENOTSUP;

	if (!as->sites)
		return r;
	fmutex_lock(&as->orders_lock);
	if (tr_site_hot(as->sites, call)) {
		r = rewrite_locked(as, call, text, t->last_nr);
		if (r != -ENOSPC && r != -EAGAIN && r != -EXDEV && r != 0)
			tr_site_refuse(as->sites, call);
	} else if (tr_known_find(text, call, &k) &&
		   tr_site_state(as->sites, call) == TR_SITE_COUNTED) {
		r = rewrite_known(as, call, text, &k);
	}
	fmutex_unlock(&as->orders_lock);
	return r;
}

int tr_rewrite_room(struct pf_thread *t, uint64_t addr)
{
	int r = -ENOMEM;

	fmutex_lock(&t->as->orders_lock);
	/* It is written to at once: let the order that maps it be carried out. */
	if (t->as->sites && tr_orders_begin_locked(t->as) == 0 && tr_room_add(t->as->sites, addr))
		r = 0;
	fmutex_unlock(&t->as->orders_lock);
	return r;
}

/* --- Putting back --- */

static void restore(struct pf_as *as, uint64_t start, uint64_t end) REQUIRES(as->orders_lock)
{
	struct tr_site site;
	bool held;
	int mem;

	if (likely(!tr_sites_near(as->sites, start, end)) ||
	    !tr_site_next_in(as->sites, start, end, &site))
		return;
	/* A thread that does not stop runs hostile code, or the host is beyond use: what it finds
	 * then is its own affair. So is what a thread finds whose text is written by another
	 * process. */
	held = hold(as, RESTORE_HOLD_NS) == 0;
	mem = writer_begin(as);
	do {
		if (mem >= 0)
			(void)!pf_host_mem_write(mem, site.start, site.orig, TR_PATCH_SIZE);
		tr_site_restored(as->sites, site.call);
	} while (tr_site_next_in(as->sites, start, end, &site));
	if (mem >= 0)
		writer_end(as, mem);
	as->text_seq++;
	if (held)
		release(as);
}

/* Does @advice make pages lose what they hold? */
static bool discards(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE ||
	       advice == 24 /* MADV_DONTNEED_LOCKED */;
}

static void change(struct pf_as *as, uint64_t start, uint64_t end) REQUIRES(as->orders_lock)
{
	uint64_t from = start, to = end;

	if (likely(!tr_sites_near(as->sites, start, end)))
		return;
	/* A room is whole, or none. */
	if (tr_rooms_in(as->sites, &from, &to))
		restore(as, from, to);
	restore(as, start, end);
	tr_site_forget(as->sites, start, end);
}

void tr_rewrite_before_op_locked(struct pf_as *as, const struct map_op *op)
{
	const uint64_t start = op->addr, end = op->addr + op->size;
	uint64_t from = start, to = end;

	if (likely(!as->sites))
		return;
	switch (op->kind) {
	case MAP_OP_PROTECT:
		if (!(op->prot & PROT_WRITE) && !tr_rooms_in(as->sites, &from, &to))
			return;
		break;
	case MAP_OP_ADVISE:
		if (!discards(op->advice))
			return;
		break;
	case MAP_OP_SYNC:
		return;
	case MAP_OP_REMAP:
		change(as, op->new_addr, op->new_addr + op->new_size);
		break;
	default:
		break;
	}
	if (start < end)
		change(as, start, end);
}

void tr_rewrite_before_write(struct pf_as *as, uint64_t addr, size_t size)
{
	if (likely(!as->sites || !tr_sites_near(as->sites, addr, addr + size)))
		return;
	fmutex_lock(&as->orders_lock);
	restore(as, addr, addr + size);
	fmutex_unlock(&as->orders_lock);
}

void tr_rewrite_undo(struct pf_as *as, uint64_t next)
{
	fmutex_lock(&as->orders_lock);
	restore(as, next - TR_SYSCALL_SIZE, next);
	fmutex_unlock(&as->orders_lock);
}
