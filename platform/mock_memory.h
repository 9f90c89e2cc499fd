/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guest memory of the mock platform: areas and pages in software.
 *
 * Theory of operation: an address space is a sorted array of areas (range, protection, what is
 * behind it) and a table of private pages. A private area reads from its file, or zeroes, until a
 * page is written; then it has a page. A shared area has no pages: it is read and written through
 * its file's descriptor (a memfd for anonymous ones), so that all who have it see the same. A copy
 * (fork) shares pages until one side writes.
 *
 * Beyond the end of a file is a fault, as on the host.
 *
 * Locking: one mutex per address space (mock_mem.lock, RANK_LEAF) and one for all atomics on words
 * of shared areas (rank above it). Host reads and writes of files happen under it: they are of
 * memory or short.
 */
#ifndef MOAT_PLATFORM_MOCK_MEMORY_H
#define MOAT_PLATFORM_MOCK_MEMORY_H

#include "base/hash.h"
#include "base/lock.h"
#include "platform/platform.h"

struct mock_file;

struct mock_area {
	uint64_t start, end;
	uint32_t prot;
	bool shared;
	struct mock_file *file; /* a reference; NULL: anonymous and private */
	uint64_t offset;        /* of start in the file */
};

struct mock_mem {
	struct mutex lock;
	struct mock_area *areas; /* sorted. [lock] */
	size_t area_count, area_room;
	struct htable pages; /* of struct mock_page by number. [lock] */
	uint64_t peak_pages; /* [lock] */
};

/* Why an access failed, as the host would say: 0 or a signal and its code. */
struct mock_memfault {
	int signo, code;
	uint64_t addr;
};

enum mock_access { MOCK_READ = 1, MOCK_WRITE = 2, MOCK_EXEC = 4, MOCK_FORCE = 8 };

void mock_mem_init(struct mock_mem *m);
void mock_mem_fini(struct mock_mem *m);
/* Makes @to, which is empty, a copy of @from. 0 or -ENOMEM (then @to is empty again). */
int mock_mem_copy(struct mock_mem *from, struct mock_mem *to) MUST_USE;
/* Runs one op. 0 or -errno. */
int mock_mem_op(struct mock_mem *m, const struct map_op *op);
/* Moves bytes; how many before the first fault, which *fault (may be NULL) tells. */
size_t mock_mem_access(struct mock_mem *m, uint64_t addr, void *buf, size_t size,
		       enum mock_access how, struct mock_memfault *fault);
/* 0 or -EFAULT, with *fault. */
int mock_mem_atomic32(struct mock_mem *m, uint64_t addr, enum atomic_op op, uint32_t arg,
		      uint32_t cmp, uint32_t *old, struct mock_memfault *fault);
void mock_mem_resident(struct mock_mem *m, uint64_t addr, size_t pages, uint8_t *vec);
void mock_mem_stats(struct mock_mem *m, struct pf_mem_stats *out);

#endif
