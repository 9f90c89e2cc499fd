#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A call that is denied or fails changes nothing: tests/hostile/side_effect/no_side_effect.sh on each of PLATFORMS
# (trap alone, for time; tests/full-no-side-effect.sh: all).
# Environment: MOAT, PLATFORMS, TESTBIN, ROWS (only these rows of the syscall table), PARTS.
root=$(cd "$(dirname "$0")/.." && pwd -P)
MOAT=$(realpath "${MOAT:-$root/build/moat}") || exit 2
TESTBIN=${TESTBIN:-$root/build/testbin}
mkdir -p "$TESTBIN"
export MOAT TESTBIN
work=$(mktemp -d /var/tmp/moat-effect.XXXXXX) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
for PLATFORM in ${PLATFORMS:-trap}; do
	mkdir "$work/$PLATFORM"
	PLATFORM=$PLATFORM WORK=$work/$PLATFORM bash "$root/tests/hostile/side_effect/no_side_effect.sh" </dev/null >"$work/out" 2>&1
	case $? in
	0) echo "ok no_side_effect $PLATFORM"; passed=$((passed + 1)) ;;
	77) echo "skip no_side_effect $PLATFORM: $(tail -n 1 "$work/out")"; skipped=$((skipped + 1)) ;;
	*) echo "FAIL no_side_effect $PLATFORM"; failed=$((failed + 1)) ;;
	esac
	sed 's/^/    /' "$work/out" | tail -n 60
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
