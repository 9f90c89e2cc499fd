/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of the preset default: far above what a program wants, and below what would trouble
 * the host. X(name, value as in a policy file).
 */
#ifndef MOAT_RUNTIME_DEFAULT_LIMITS_H
#define MOAT_RUNTIME_DEFAULT_LIMITS_H

#define DEFAULT_LIMITS(X)         \
	X(processes, "8192")      \
	X(threads, "16384")       \
	X(memory, "75%")          \
	X(sentry_memory, "50%")   \
	X(open_files, "1048576")  \
	X(file_bytes, "50%")      \
	X(file_inodes, "2097152") \
	X(write_bytes, "64G")     \
	X(buffers, "10%")         \
	X(in_flight, "65536")     \
	X(timers, "65536")        \
	X(signals, "262144")      \
	X(maps, "65536")          \
	X(locks, "262144")        \
	X(watches, "2097152")     \
	X(log_bytes, "1G")

#endif
