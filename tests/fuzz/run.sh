#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Replays the corpora: each word of $MOAT_FUZZ is a fuzzer that was built to replay; that of fuzz_NAME.c is in
# tests/fuzz/corpus/NAME. To fuzz: make fuzz-short, or make fuzz FUZZ_SECONDS=3600.
set -u
cd "$(dirname "$0")/../.."
passed=0 failed=0
for bin in ${MOAT_FUZZ:-}; do
	name=${bin##*/fuzz_}
	# Suspended fibers hold memory that the leak check cannot see.
	case $name in
	elf | tmpfs | site | policy) leaks=1 ;;
	*) leaks=0 ;;
	esac
	if out=$(ASAN_OPTIONS="detect_leaks=$leaks:allocator_may_return_null=1:${ASAN_OPTIONS:-}" timeout -k 10 600 "$bin" "tests/fuzz/corpus/$name" 2>&1); then
		passed=$((passed + 1))
		echo "$name: $out"
	else
		failed=$((failed + 1))
		echo "$name: FAILED"
		tail -n 60 <<<"$out"
	fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
