/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procfs: what ps, top, lsof, libcs and run times read, in Linux's formats. Source: proc(5).
 *
 *   proc_root.c  the root: system-wide files
 *   proc_pid.c   /proc/PID and /proc/PID/task/TID: status and its kin
 *   proc_maps.c  what shows memory: maps, smaps, statm, mem, cmdline, environ
 *   proc_fd.c    fd and fdinfo
 *   proc_sys.c   /proc/sys
 *
 * The object behind a process's files is its struct pid, so that a file that is kept open neither
 * keeps a dead process nor ever shows another one that took its number.
 *
 * Deviations: there is no clear_refs. What it resets is the host's to know: which pages were
 * referenced (smaps says of all that are there that they are), which were written (pagemap has no
 * soft-dirty bit), and the peak of what was resident.
 */
#ifndef MOAT_SENTRY_PROC_H
#define MOAT_SENTRY_PROC_H

#include "sentry/process.h"
#include "vfs/pseudofs.h"

#define DIR_NODE(n, m, o, c)                                                       \
	{                                                                          \
		.name = (n), .mode = LX_S_IFDIR | (m), .ops = (o), .children = (c) \
	}
#define FILE_NODE(n, m, o)                                        \
	{                                                         \
		.name = (n), .mode = LX_S_IFREG | (m), .ops = (o) \
	}
#define LINK_NODE(n, o)                                            \
	{                                                          \
		.name = (n), .mode = LX_S_IFLNK | 0777, .ops = (o) \
	}

/* Registers "proc" with the VFS. At start. */
void proc_register(void);

/* The nodes of a process and of a thread (proc_pid.c), of /proc/sys (proc_sys.c). */
extern const struct pnode g_proc_pid_node, g_proc_tid_node;
extern const struct pnode g_proc_sys_children[];
/* Of the descriptor directories (proc_fd.c). */
extern const struct pnode_ops g_proc_fd_ops, g_proc_fdinfo_ops;
/* Of the memory files (proc_maps.c). */
extern const struct pnode_ops g_proc_maps_ops, g_proc_smaps_ops, g_proc_smaps_rollup_ops,
	g_proc_statm_ops, g_proc_cmdline_ops, g_proc_environ_ops, g_proc_auxv_ops, g_proc_mem_ops,
	g_proc_pagemap_ops, g_proc_coredump_filter_ops;

/* The live (or zombie) thread of a pid object: a reference, NULL if it is gone. */
struct task *proc_task(void *obj);
/* What was written to a file that takes a number; a NUL stands behind @data. 0, -EINVAL, -ERANGE.
 */
int proc_parse_number(const char *data, int base, uint64_t *v) MUST_USE;
/* The same, for what only an equal may see: *r = -EACCES if the caller may not look. */
struct task *proc_task_access(void *obj, int *r);
/* The pid of a directory /proc/PID; borrowed from the inode. NULL: it is something else. */
struct pid *proc_dir_pid(const struct inode *i);
bool proc_pid_alive(void *obj);
void proc_pid_attr(struct inode *i, void *obj, struct kstat *st);
void *proc_pid_get(void *obj);
void proc_pid_put(void *obj);
#define PROC_PID_OBJ                                                             \
	.alive = proc_pid_alive, .attr = proc_pid_attr, .get_obj = proc_pid_get, \
	.put_obj = proc_pid_put

struct mem_counts {
	uint64_t size, rss, shared, text, data, stack, locked, exec, lib, peak_rss; /* bytes */
};
void proc_mem_counts(struct mm *mm, struct mem_counts *out);

#endif
