#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the unit tests in $MOAT_BUILD/unit; arguments go to the test runner. Ends with
# "N passed, N failed" (and "N skipped").
#
# Under ASan a leak found at the exit of a test's process would go unseen, since Criterion has its
# result by then: so the reports go to files, and each file is a failure. Time limits are timeout(1)'s,
# since Criterion's own can deadlock under load.
set -u
cd "$(dirname "$0")/../.."
bin=$MOAT_BUILD/unit
logs=$MOAT_BUILD/log
mkdir -p "$logs"
rm -f "$logs"/san.*
abs=$(cd "$logs" && pwd)
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:detect_stack_use_after_return=0:log_path=$abs/san.asan:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$abs/san.ubsan:${UBSAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=0:exitcode=66:log_path=$abs/san.tsan:${TSAN_OPTIONS:-}"

run=(timeout -k 10 900 "$bin")
case ${MOAT_MODE:-rel} in
# TSan's shadow memory does not fit every randomised layout.
tsan) run=(timeout -k 10 1700 setarch -R "$bin") ;;
*) set -- --jobs 2 --verbose "$@" ;;
esac
out=$logs/unit.out
"${run[@]}" "$@" >"$out" 2>&1
status=$?
sed -i -E 's/\x1b\[[0-9;]*m//g' "$out"
# What an assertion says stands before its test's [FAIL].
grep -avE '^\[(RUN |PASS)\]|^\[====\] Running|^\[----\] ( *$|Criterion )' "$out"
if [ $status = 124 ] || [ $status = 137 ]; then
	echo "out of time; these tests had begun and not ended:"
	awk '/^\[RUN \]/ { open[$3] } /^\[(PASS|FAIL|SKIP)\]/ { sub(/:$/, "", $2); delete open[$2] }
		END { for (t in open) print "  " t }' "$out"
fi

reports=0
for r in "$logs"/san.*; do
	[ -s "$r" ] || continue
	reports=$((reports + 1))
	[ $reports -le 5 ] && { echo "--- $r"; head -n 120 "$r"; }
done

# Criterion: "[====] Synthesis: Tested: 5 | Passing: 4 | Failing: 1 | Crashing: 0"; skipped tests
# are in none of the three.
sum=$(grep -a 'Synthesis:' "$out" | tail -n 1)
if [ -z "$sum" ]; then
	echo "the test runner died: status $status"
	echo "0 passed, $((1 + reports)) failed"
	exit 1
fi
field() { sed -E "s/.*$1: ([0-9]+).*/\1/" <<<"$sum"; }
tested=$(field Tested) passed=$(field Passing)
failed=$(($(field Failing) + $(field Crashing)))
skipped=$((tested - passed - failed))
[ $skipped -ge 0 ] || skipped=0
[ $reports -gt 0 ] && [ $failed = 0 ] && failed=$reports
[ $status != 0 ] && [ $failed = 0 ] && failed=1
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed = 0 ]
