#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Nothing of the sentry's memory comes out by padding or by what was never set: moat is built with every variable
# without a value full of 0xfe, each call of the syscall table is made with memory that holds none (side_effect.c,
# "padding"), and so are signal frames and the stack of a new program; none may be in it afterwards.
# Environment: PLATFORMS, CC.
PLATFORMS=${PLATFORMS:-trap ptrace notify}
root=$(cd "$(dirname "$0")/.." && pwd -P)
work=$(mktemp -d /var/tmp/moat-padding.XXXXXX) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
mkdir "$work/src" "$work/ro"
echo public >"$work/ro/public"
tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/src" -xf - || exit 2
if ! make -C "$work/src" -j"$(nproc)" OPT="-O2 -g -ftrivial-auto-var-init=pattern" >"$work/log" 2>&1 ||
	! ${CC:-gcc} -std=gnu17 -O1 -g -w -static -I"$root" -o "$work/side_effect" "$root"/tests/hostile/side_effect/*.c; then
	tail -n 20 "$work/log"
	echo "0 passed, 1 failed"
	exit 1
fi
for platform in $PLATFORMS; do
	rm -rf "$work/rw"
	mkdir "$work/rw"
	(cd / && timeout -k 5 1800 "$work/src/build/moat" run --platform "$platform" --rw "$work/rw" --ro "$work/ro" \
		--ro "$work/side_effect" --env RO="$work/ro" --env SIDE_EFFECT_DIR="$work/rw" -- "$work/side_effect" padding) \
		</dev/null >"$work/out" 2>&1
	if [ $? = 0 ] && grep -q '^# ' "$work/out" && ! grep -q poison "$work/out"; then
		echo "ok padding $platform: $(grep '^# ' "$work/out")"
		passed=$((passed + 1))
	else
		echo "FAIL padding $platform"
		grep -v '^# ' "$work/out" | head -n 30
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
