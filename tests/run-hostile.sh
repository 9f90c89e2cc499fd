#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Hostile programs and surroundings: whatever they do, the sentry must live, the
# run must end, and nothing may get out or stay. Usage: tests/run-hostile.sh
# [NAME...] (default: all of tests/hostile).
#
#   NAME.c   runs in a sandbox, never natively (hostile_begin()); passes with
#            status 0. Its output is shown when it fails; if there is a
#            NAME.expect, it must be that.
#   NAME.sh  runs on the host and starts sandboxes itself, with MOAT, PLATFORM,
#            TESTBIN and an empty directory WORK in its environment; 0 passes,
#            77 skips.
#
# A source with "hostile-part-of:" is built only. Inputs as of run-compare.sh:
# MOAT, PLATFORMS (default: ptrace trap notify), TESTBIN, TIMEOUT, CC.

PLATFORMS=${PLATFORMS:-ptrace trap notify}
# A hang is one on a busy machine, too.
TIMEOUT=${TIMEOUT:-180}
export LC_ALL=C
. "$(dirname "$0")/run-compare.sh"
compare_init
hostile=$compare_root/tests/hostile
quiet="-Wno-nonnull -Wno-unused-result -Wno-overflow"

# build NAME: leaves $TESTBIN/hostile_NAME.
build() {
	local source=$hostile/$1.c program=$TESTBIN/hostile_$1 newest
	# What the trap stub and the sentry agree on is what these attack.
	newest=$(ls -t "$source" "$hostile"/*.h "$compare_root/platform/stub_trap/layout.h" | head -n 1)
	[ "$program" -nt "$newest" ] && return 0
	# shellcheck disable=SC2086
	if ! "$CC" -std=gnu17 -O1 -g -w $quiet -pthread -static -I "$compare_root" -o "$program.new" "$source" \
		>"$compare_dir/build.log" 2>&1; then
		compare_fail "$1" build
		tail -n 20 "$compare_dir/build.log" | sed 's/^/    /'
		return 1
	fi
	mv "$program.new" "$program"
}

# one NAME PLATFORM: its status in $status; its output in $compare_dir/out.
one() {
	local work=$compare_dir/work
	rm -rf "$work"
	mkdir -p "$work"
	if [ -f "$hostile/$1.c" ]; then
		(
			# A file that grows for good must not take the host's memory.
			ulimit -f 4500000
			cd "$work" && exec timeout -k 5 "$TIMEOUT" "$MOAT" run --platform "$2" \
				--hostname moat-hostile --ro "$TESTBIN" -- "$TESTBIN/hostile_$1"
		) </dev/null >"$compare_dir/out" 2>&1
		status=$?
		if [ $status -eq 0 ] && [ -f "$hostile/$1.expect" ] &&
			! diff "$hostile/$1.expect" "$compare_dir/out" >"$compare_dir/diff"; then
			mv "$compare_dir/diff" "$compare_dir/out"
			status=1
		fi
	else
		MOAT=$MOAT PLATFORM=$2 TESTBIN=$TESTBIN WORK=$work \
			timeout -k 5 "$((TIMEOUT * 2))" bash "$hostile/$1.sh" >"$compare_dir/out" 2>&1
		status=$?
	fi
}

if [ $# -eq 0 ]; then
	for source in "$hostile"/*.c "$hostile"/*.sh; do
		name=$(basename "$source")
		set -- "$@" "${name%.*}"
	done
fi
for source in "$hostile"/*.c; do
	build "$(basename "$source" .c)"
done
for name; do
	name=${name%.*}
	if grep -qs 'hostile-part-of:' "$hostile/$name.c"; then
		continue
	fi
	for platform in $PLATFORMS; do
		one "$name" "$platform"
		case $status in
		0)
			echo "ok $name $platform"
			n_passed=$((n_passed + 1))
			;;
		77) compare_skip "$name $platform" "$(tail -n 1 "$compare_dir/out")" ;;
		*)
			compare_fail "$name" "$platform"
			echo "    status $status"
			tail -n 20 "$compare_dir/out" | tr -d '\000' | cut -c 1-200 | sed 's/^/    /'
			;;
		esac
	done
done
compare_end
