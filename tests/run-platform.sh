#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The platforms on a real host: tests/platform/smoke_*.c as root and as an ordinary user, what their stub
# processes do as the host sees it, and which platform moat chooses on a host that forbids some. PLATFORMS:
# which (default: ptrace trap notify).
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

for platform in ${PLATFORMS:-ptrace trap notify}; do
	suite "$MOAT_BUILD/platform_smoke" "$platform"
	suite "$MOAT_BUILD/platform_smoke" "$platform" --keeper
	# What depends on privileges: starting, reaching memory, signals, ends.
	[ "$(id -u)" = 0 ] && suite "$MOAT_BUILD/platform_smoke" "$platform" --user \
		syscall interrupt xstate map copies atomics statistics layout fork sentry-killed \
		$([ "$platform" = ptrace ] || echo no-thread)
	suite tests/platform/watch_stub.sh "$platform"
	suite tests/platform/settles.sh "$platform"
done
suite tests/platform/choice.sh
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
