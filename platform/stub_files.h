/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper, and the descriptors that it holds for all stubs: for the platforms that have stub
 * processes. See ptrace_files.c.
 */
#ifndef MOAT_PLATFORM_STUB_FILES_H
#define MOAT_PLATFORM_STUB_FILES_H

#include "base/err.h"
#include "base/types.h"

struct map_op;

/* Starts the keeper from the image @stub (an ELF file) with the descriptors @orders and @config,
 * which are borrowed, and lets @space bytes be mapped in it and its children (UINT64_MAX: any); and
 * waits until it stands, which must come before all else that is asked of it. @listener: NULL, or
 * gets the descriptor of notifications that it sends. 0 or -errno. */
int stub_keeper_spawn(const uint8_t *stub, size_t stub_size, int orders, int config, uint64_t space,
		      struct err *e) MUST_USE;
int stub_keeper_wait(int *listener, struct err *e) MUST_USE;
pid_t stub_keeper_pid(void);
void stub_keeper_kill(void); /* what pt_keeper_stop waits for, begun earlier */
void pt_keeper_stop(void);
pid_t pt_keeper_zygote(void); /* a new child of the keeper, parked; pid or -errno */
/* The same on trap, with these slots (less than 65536) for its order page and first area: an
 * address space with a guest thread, or a zygote. */
pid_t pt_keeper_fork(bool program, uint32_t orders_slot, uint32_t area_slot);
/* Maps the clock page from @fd into all stubs to come (trap). 0 or -errno. */
int pt_keeper_time(int fd) MUST_USE;
struct pt_file;
/* The number of @host_fd in the stubs' table, held until pt_file_put; or of a description of the
 * same file that is open for reading only. -errno. */
int pt_file_get(int host_fd, uint64_t key, bool read_only, struct pt_file **file) MUST_USE;
/* The files of @ops that the keeper has not yet are brought to it all at once, so that none of the
 * pt_file_get that follow has to wait. What fails will fail there again. */
void pt_files_bring(const struct map_op *ops, size_t count);
/* @count descriptors without a key, at once; @count <= PT_FILES_BATCH. 0 or -errno: then none. */
#define PT_FILES_BATCH 16u
int pt_files_get(const int *host_fds, size_t count, struct pt_file **files) MUST_USE;
int pt_file_number(const struct pt_file *file);
void pt_file_put(struct pt_file *file);
void pt_forget_file(uint64_t key);

#endif
