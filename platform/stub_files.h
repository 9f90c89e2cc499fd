/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper, and the descriptors that it holds for all stubs: for the platforms that have stub
 * processes. See ptrace_files.c.
 */
#ifndef MOAT_PLATFORM_STUB_FILES_H
#define MOAT_PLATFORM_STUB_FILES_H

#include "base/err.h"
#include "base/types.h"

/* Starts the keeper from the image @stub (an ELF file) with the descriptors @orders and @config,
 * which are borrowed. @listener: NULL, or gets the descriptor that the keeper sends with its first
 * word. 0 or -errno. */
int stub_keeper_start(const uint8_t *stub, size_t stub_size, int orders, int config, int *listener,
		      struct err *e) MUST_USE;
void pt_keeper_stop(void);
pid_t pt_keeper_zygote(void); /* a new child of the keeper, parked; pid or -errno */
/* Maps the clock page from @stub_fd, a number in the stubs' table, into all stubs to come (trap). 0
 * or -errno. */
int pt_keeper_time(int stub_fd) MUST_USE;
struct pt_file;
/* The number of @host_fd in the stubs' table, held until pt_file_put. -errno. */
int pt_file_get(int host_fd, uint64_t key, struct pt_file **file) MUST_USE;
void pt_file_put(struct pt_file *file);
void pt_forget_file(uint64_t key);

#endif
