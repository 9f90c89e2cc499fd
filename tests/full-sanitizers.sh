#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The guest tests, and attacks on limits, on launchers that are built with sanitizers: a stale pointer, a race or
# undefined behaviour of the sentry's makes a case fail that would pass otherwise. Part of `make check-full`: each build takes minutes.
# Arguments: names of guest tests. MODES, PLATFORMS: what to run on.
cd "$(dirname "$0")/.." || exit 2
passed=0 failed=0 skipped=0
# count VARIABLE=VALUE... SUITE...: runs it, and adds up what its last line says.
count() {
	local p f k
	read -r p f k < <(env "$@" | tee /dev/stderr | tail -n 1 | sed -E 's/ passed, / /; s/ failed, / /; s/ skipped//')
	passed=$((passed + ${p:-0})) failed=$((failed + ${f:-1})) skipped=$((skipped + ${k:-0}))
}
for mode in ${MODES:-asan tsan}; do
	echo "-- $mode"
	# Not as part of the make that may have started us: another mode.
	if ! env -u MAKEFLAGS -u MAKELEVEL make -s -j"$(nproc)" m="$mode" all >"build/full-sanitizers-$mode.log" 2>&1; then
		echo "FAIL $mode build"
		tail -n 20 "build/full-sanitizers-$mode.log"
		failed=$((failed + 1))
		continue
	fi
	count MOAT_MODE=$mode MOAT=build/$mode/moat PLATFORMS="${PLATFORMS:-trap ptrace}" tests/run-guest.sh "$@"
	# Past a limit the sentry does what it does at no other time.
	[ "$mode" = asan ] && count MOAT_MODE=$mode MOAT=build/$mode/moat PLATFORMS=trap tests/run-hostile.sh meters
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
