/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the syscall table: define ROW, include this, and ROW is expanded once for each syscall.
 *
 *   ROW(nr, name, has, status, ret, waits, nargs, params, descs, passed, note)
 *
 * nr      number                              name    as a bare word (paste it or make it a string)
 * has     1 if there is a handler, else 0     status  enum sys_status, errno: two initialisers
 * ret     enum ret_kind                       waits   enum wait_kind
 * params  (struct task *t, int fd, …)         descs   {{…}, {…}} for struct argdesc[]
 * passed  (t, ARG(int, 0), ARG(gaddr_t, 1))   note    a string
 *
 * Both ROW and the table's own macros are undefined again at the end. No include guard: include it
 * as often as needed, sentry/argkinds.h before.
 */
/* clang-format off */
#define HAS_FULL 1
#define HAS_PARTIAL 1
#define HAS_NOSYS 0
#define HAS_REFUSED(e) 0
#define HAS_TODO 0
#define STATUS_FULL SYS_FULL, 0
#define STATUS_PARTIAL SYS_PARTIAL, 0
#define STATUS_NOSYS SYS_NOSYS, 0
#define STATUS_REFUSED(e) SYS_REFUSED, e
#define STATUS_TODO SYS_TODO, 0

/* Keeps a list with commas in one argument. */
#define ROW_LIST(...) {__VA_ARGS__}
#define ROW_ONE(n, ...) {__VA_ARGS__}

#define SYSCALL0(nr, name, st, ret, wt, note) \
	ROW(nr, name, HAS_##st, (STATUS_##st), RET_##ret, WT_##wt, 0, (struct task *t), (ROW_LIST(ROW_ONE(none, .kind = AK_INT))), (t), note)
#define SYSCALL1(nr, name, st, ret, wt, k1, n1, note) \
	ROW(nr, name, HAS_##st, (STATUS_##st), RET_##ret, WT_##wt, 1, (struct task *t, C_##k1 n1), \
	    (ROW_LIST(ROW_ONE(n1, D_##k1))), (t, ARG(C_##k1, 0)), note)
#define SYSCALL2(nr, name, st, ret, wt, k1, n1, k2, n2, note) \
	ROW(nr, name, HAS_##st, (STATUS_##st), RET_##ret, WT_##wt, 2, (struct task *t, C_##k1 n1, C_##k2 n2), \
	    (ROW_LIST(ROW_ONE(n1, D_##k1), ROW_ONE(n2, D_##k2))), (t, ARG(C_##k1, 0), ARG(C_##k2, 1)), note)
#define SYSCALL3(nr, name, st, ret, wt, k1, n1, k2, n2, k3, n3, note) \
	ROW(nr, name, HAS_##st, (STATUS_##st), RET_##ret, WT_##wt, 3, \
	    (struct task *t, C_##k1 n1, C_##k2 n2, C_##k3 n3), \
	    (ROW_LIST(ROW_ONE(n1, D_##k1), ROW_ONE(n2, D_##k2), ROW_ONE(n3, D_##k3))), \
	    (t, ARG(C_##k1, 0), ARG(C_##k2, 1), ARG(C_##k3, 2)), note)
#define SYSCALL4(nr, name, st, ret, wt, k1, n1, k2, n2, k3, n3, k4, n4, note) \
	ROW(nr, name, HAS_##st, (STATUS_##st), RET_##ret, WT_##wt, 4, \
	    (struct task *t, C_##k1 n1, C_##k2 n2, C_##k3 n3, C_##k4 n4), \
	    (ROW_LIST(ROW_ONE(n1, D_##k1), ROW_ONE(n2, D_##k2), ROW_ONE(n3, D_##k3), ROW_ONE(n4, D_##k4))), \
	    (t, ARG(C_##k1, 0), ARG(C_##k2, 1), ARG(C_##k3, 2), ARG(C_##k4, 3)), note)
#define SYSCALL5(nr, name, st, ret, wt, k1, n1, k2, n2, k3, n3, k4, n4, k5, n5, note) \
	ROW(nr, name, HAS_##st, (STATUS_##st), RET_##ret, WT_##wt, 5, \
	    (struct task *t, C_##k1 n1, C_##k2 n2, C_##k3 n3, C_##k4 n4, C_##k5 n5), \
	    (ROW_LIST(ROW_ONE(n1, D_##k1), ROW_ONE(n2, D_##k2), ROW_ONE(n3, D_##k3), ROW_ONE(n4, D_##k4), ROW_ONE(n5, D_##k5))), \
	    (t, ARG(C_##k1, 0), ARG(C_##k2, 1), ARG(C_##k3, 2), ARG(C_##k4, 3), ARG(C_##k5, 4)), note)
#define SYSCALL6(nr, name, st, ret, wt, k1, n1, k2, n2, k3, n3, k4, n4, k5, n5, k6, n6, note) \
	ROW(nr, name, HAS_##st, (STATUS_##st), RET_##ret, WT_##wt, 6, \
	    (struct task *t, C_##k1 n1, C_##k2 n2, C_##k3 n3, C_##k4 n4, C_##k5 n5, C_##k6 n6), \
	    (ROW_LIST(ROW_ONE(n1, D_##k1), ROW_ONE(n2, D_##k2), ROW_ONE(n3, D_##k3), ROW_ONE(n4, D_##k4), ROW_ONE(n5, D_##k5), ROW_ONE(n6, D_##k6))), \
	    (t, ARG(C_##k1, 0), ARG(C_##k2, 1), ARG(C_##k3, 2), ARG(C_##k4, 3), ARG(C_##k5, 4), ARG(C_##k6, 5)), note)

#include "sentry/syscalls.def"

#undef SYSCALL0
#undef SYSCALL1
#undef SYSCALL2
#undef SYSCALL3
#undef SYSCALL4
#undef SYSCALL5
#undef SYSCALL6
#undef ROW_LIST
#undef ROW_ONE
#undef HAS_FULL
#undef HAS_PARTIAL
#undef HAS_NOSYS
#undef HAS_REFUSED
#undef HAS_TODO
#undef STATUS_FULL
#undef STATUS_PARTIAL
#undef STATUS_NOSYS
#undef STATUS_REFUSED
#undef STATUS_TODO
#undef ROW
/* clang-format on */
