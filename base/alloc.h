/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that can be made to fail in tests (MOAT_FAIL=alloc:n makes the n-th one fail), and
 * saturating reference counts.
 */
#ifndef MOAT_BASE_ALLOC_H
#define MOAT_BASE_ALLOC_H

#include "base/types.h"

/* Zeroed memory, or NULL. Free with mem_free. */
void *mem_zalloc(size_t size) MUST_USE;
/* @count * @size zeroed bytes, NULL on overflow too. */
void *mem_calloc(size_t count, size_t size) MUST_USE;
/* The same without a limit, for what must be had: it counts, but is not refused by the meter. */
void *mem_calloc_sure(size_t count, size_t size) MUST_USE;
/* As realloc; the old block stays on failure. The grown part is not zeroed. */
void *mem_realloc(void *p, size_t size) MUST_USE;
/* A page-aligned zeroed block of whole pages. */
void *mem_pages(size_t size) MUST_USE;
char *mem_strdup(const char *s) MUST_USE;
char *mem_strndup(const char *s, size_t size) MUST_USE;
void *mem_dup(const void *p, size_t size) MUST_USE;
void mem_free(void *p);

/* The fault injector: true when step @kind ("alloc", "host", "copy") shall fail now. */
enum fail_kind { FAIL_ALLOC, FAIL_HOST, FAIL_COPY };
bool fail_now(enum fail_kind kind);
/* Sets the countdown: the @n-th step of that kind from now fails, once. 0 switches it off. */
void fail_set(enum fail_kind kind, unsigned n);

/* A reference count that saturates: an overflow leaks the object instead of freeing it early. */
struct ref {
	_Atomic uint32_t count;
};

void ref_init(struct ref *r); /* to 1 */
void ref_get(struct ref *r);
bool ref_get_unless_zero(struct ref *r) MUST_USE; /* false if the object is already dying */
bool ref_put(struct ref *r) MUST_USE;             /* true: that was the last one, free the object */
uint32_t ref_read(const struct ref *r);

#endif
