#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the suites of `make check` and sums them up. MOAT_CHECK says how much:
#   quick     unit, race and guest tests (which see MOAT_CHECK and may run fewer), side by side and
#             on the default platform
#   check     every tests/run-*.sh as well
#   full      and every tests/full-*.sh
#   sanitize  unit, race, the fuzzers' corpora, and guest tests on trap and ptrace
#   coverage  as check, but not stopped by the time limit
# A suite is a program whose output ends with a line "N passed, N failed" (", N skipped" may
# follow). One that ends without such a line, or exits non-zero while it reports no failure, counts
# as one failure. Before the sum stands again what failed, since a long log may be shown without its
# middle. The last line is the sum in the same form.
set -u
cd "$(dirname "$0")/.."
level=${MOAT_CHECK:-check}
logs=$MOAT_BUILD/log
mkdir -p "$logs"

suites=(tests/unit/run.sh tests/race/run.sh)
[ -x tests/fuzz/run.sh ] && suites+=(tests/fuzz/run.sh)
case $level in
quick)
	export PLATFORMS=${PLATFORMS:-trap}
	suites+=(tests/run-guest.sh)
	;;
sanitize)
	export PLATFORMS=${PLATFORMS:-trap ptrace}
	suites+=(tests/run-guest.sh)
	;;
*)
	for s in tests/run-*.sh; do [ -x "$s" ] && suites+=("$s"); done
	if [ "$level" = full ]; then
		for s in tests/full-*.sh; do [ -x "$s" ] && suites+=("$s"); done
	fi
	;;
esac

# A hung suite is a failure, not a hang. The bound is for a slow machine.
limit=1800
case $level in full | coverage | sanitize) limit=14400 ;; esac

# suite_run SUITE LOG: its output to the log.
suite_run() {
	local start=$SECONDS
	timeout -k 30 $limit "$1" </dev/null >"$2" 2>&1
	echo $? $((SECONDS - start)) >"$2.end"
}

name_of() {
	name=${1#tests/} name=${name%.sh} name=${name%/run}
	log=$logs/${name//\//-}.log
}

passed=0 failed=0 skipped=0
declare -a lines broken
if [ "$level" = quick ]; then
	echo "== ${#suites[@]} suites side by side: what they say comes when all are done"
	for s in "${suites[@]}"; do
		name_of "$s"
		suite_run "$s" "$log" &
	done
	wait
fi
for s in "${suites[@]}"; do
	name_of "$s"
	echo "== $name"
	if [ "$level" = quick ]; then
		cat "$log"
		read -r status seconds <"$log.end"
	else
		start=$SECONDS
		timeout -k 30 $limit "$s" </dev/null 2>&1 | tee "$log"
		status=${PIPESTATUS[0]} seconds=$((SECONDS - start))
	fi
	sum=$(grep -aE '^([^ ]+: )?[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' \
		"$log" | tail -n 1)
	p=0 f=0 k=0
	if [ -n "$sum" ]; then
		read -r p f k < <(sed -E 's/^[^ ]+: //; s/ passed, / /; s/ failed,?/ /; s/ skipped//' <<<"$sum")
		k=${k:-0}
	fi
	if { [ -z "$sum" ] || [ "$status" != 0 ]; } && [ "$f" = 0 ]; then
		echo "$name: exit status $status and no failure reported: counted as one failure"
		f=1
	fi
	lines+=("$(printf '%-24s %5d passed %4d failed %4d skipped %5d s' "$name" "$p" "$f" "$k" "$seconds")")
	[ "$f" = 0 ] || broken+=("$name")
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + k))
done

# what_failed NAME LINES: what a suite said of its failures, or the end of what it said.
what_failed() {
	local log=$logs/${1//\//-}.log text
	text=$(grep -aE -B 3 -A 6 '(^|[^A-Za-z])FAIL[A-Z]*([^A-Za-z]|$)|^ *NOT |\.[ch]:[0-9]+: |ERROR: |^out of time|^no result|passed, [1-9][0-9]* failed' "$log" |
		grep -avE '^(ok |--$|\[(PASS|RUN )\])' | head -n "$2")
	[ -n "$text" ] || text=$(tail -n "$2" "$log")
	echo "-- $1, in $log:"
	tr -d '\000' <<<"$text" | cut -c 1-300 | sed 's/^/    /'
}

echo "== $level"
printf '%s\n' "${lines[@]}"
for s in "${broken[@]}"; do
	what_failed "$s" $((${#broken[@]} > 3 ? 8 : 24 / ${#broken[@]}))
done
if [ $skipped -gt 0 ]; then
	echo "$skipped skipped, each with its reason above"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
