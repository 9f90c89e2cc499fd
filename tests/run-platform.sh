#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The platform on a real host: tests/platform/smoke_*.c as root and as an ordinary user, and what its stub
# processes do as the host sees it.
set -u
cd "$(dirname "$0")/.."
passed=0 failed=0 skipped=0

count() { # OUTPUT STATUS
	local p f k
	read -r p f k < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' \
		"$1" | tail -n 1)
	if [ -z "${p:-}" ]; then
		echo "no result (exit status $2)"
		p=0 f=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${k:-0}))
}

out=$(mktemp)
trap 'rm -f "$out"' EXIT
suite() {
	echo "-- $*"
	timeout -k 10 300 "$@" >"$out" 2>&1
	local status=$?
	cat "$out"
	count "$out" $status
}

suite "$MOAT_BUILD/ptrace_smoke"
suite "$MOAT_BUILD/ptrace_smoke" --keeper
[ "$(id -u)" = 0 ] && suite "$MOAT_BUILD/ptrace_smoke" --user
[ -x tests/platform/watch_stub.sh ] && suite tests/platform/watch_stub.sh
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
