#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Replays the corpora: each word of $MOAT_FUZZ is a fuzzer that was built to replay; that of fuzz_NAME.c is in
# tests/fuzz/corpus/NAME. To fuzz: make m=fuzz fuzz, then build/fuzz/fuzz/fuzz_NAME tests/fuzz/corpus/NAME.
set -u
cd "$(dirname "$0")/../.."
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
passed=0 failed=0
for bin in ${MOAT_FUZZ:-}; do
	name=${bin##*/fuzz_}
	if out=$(timeout -k 10 600 "$bin" "tests/fuzz/corpus/$name" 2>&1); then
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
