#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the race tests: each argument (or each word of $MOAT_RACE) is a program that exits 0 when it
# passes, 77 when it cannot run here. A report of TSan or ASan is a non-zero exit too.
set -u
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- ${MOAT_RACE:-}
export TSAN_OPTIONS="halt_on_error=1:exitcode=66:second_deadlock_stack=1:${TSAN_OPTIONS:-}"
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
wrap=()
[ "${MOAT_MODE:-rel}" = tsan ] && wrap=(setarch -R)
passed=0 failed=0 skipped=0
for bin in "$@"; do
	timeout -k 10 600 "${wrap[@]}" "$bin"
	status=$?
	case $status in
	0) passed=$((passed + 1)) result=ok ;;
	77) skipped=$((skipped + 1)) result=skipped ;;
	*) failed=$((failed + 1)) result="FAILED, status $status" ;;
	esac
	echo "${bin##*/}: $result"
done
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed = 0 ]
