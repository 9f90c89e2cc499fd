#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Scale: run each tests/scale/NAME.c on moat, check its results against a native
# run, and look at the sandbox's memory before, after one round and after two.
# Usage: tests/run-scale.sh [NAME...] (default: all).
# See run-compare.sh for the variables; TIMEOUT defaults to 600 here. A test
# fails when its output differs or when the second round leaves the sandbox's
# processes more than $SCALE_GROWTH KiB (default 8192) larger than the first.

TIMEOUT=${TIMEOUT:-600}
. "$(dirname "$0")/run-compare.sh"
compare_init
scale=$compare_root/tests/scale
SCALE_GROWTH=${SCALE_GROWTH:-8192}

# tree_rss PID: KiB resident in a process and all that descend from it, less
# what stubs hold of the guest's memory being counted once (proportional sizes).
tree_rss() {
	local pid=$1 sum=0 child size
	size=$(awk '/^Pss:/ { s += $2 } END { print s + 0 }' "/proc/$pid/smaps_rollup" 2>/dev/null)
	sum=${size:-0}
	for child in $(cat /proc/"$pid"/task/*/children 2>/dev/null); do
		sum=$((sum + $(tree_rss "$child")))
	done
	echo "$sum"
}

# scale_run OUT ARG...: drive one program; leaves OUT.out, OUT.rc and OUT.rss.
scale_run() {
	local out=$1 line seconds=$SECONDS
	shift
	: >"$out.rss"
	: >"$out.out"
	mkfifo "$out.in" "$out.from"
	# No job of its own: the pid is the launcher's, whose tree is measured.
	env -i PATH=$compare_path HOME=/tmp TMPDIR="${SCALE_TMP:-/tmp}" TESTBIN="$TESTBIN" "$@" \
		<"$out.in" >"$out.from" 2>"$out.err" &
	local pid=$!
	exec 7>"$out.in" 8<"$out.from"
	while IFS= read -r -t $((TIMEOUT - (SECONDS - seconds) > 0 ? TIMEOUT - (SECONDS - seconds) : 1)) line <&8; do
		if [ "$line" = ready ]; then
			sleep 0.3
			tree_rss $pid >>"$out.rss"
			echo go >&7 2>/dev/null
		else
			echo "$line" >>"$out.out"
		fi
	done
	if [ $((SECONDS - seconds)) -ge "$TIMEOUT" ]; then
		kill -KILL $pid
		echo "not done after $TIMEOUT s" >>"$out.out"
	fi
	exec 7>&- 8<&-
	wait $pid
	echo $? >"$out.rc"
	rm -f "$out.in" "$out.from"
}

scale_case() {
	local name=$1 program=$TESTBIN/scale_$1 dir=$compare_dir/$1 platform start
	local before first second
	if ! "$CC" -std=gnu17 -O1 -g -Wall -Wextra -pthread -o "$program" "$scale/$name.c" \
		2>"$compare_dir/build.log"; then
		compare_fail "$name" build
		tail -n 20 "$compare_dir/build.log"
		return
	fi
	mkdir -p "$dir/tmp"
	SCALE_TMP=$dir/tmp scale_run "$dir/native" "$program"
	if [ "$(cat "$dir/native.rc")" != 0 ]; then
		compare_fail "$name" native
		tail -n 5 "$dir/native.out" "$dir/native.err" | sed 's/^/    /'
		return
	fi
	for platform in $PLATFORMS; do
		start=$SECONDS
		scale_run "$dir/$platform" "$MOAT" run --platform "$platform" --ro "$TESTBIN" \
			--env TMPDIR=/tmp -- "$program"
		{ read -r before; read -r first; read -r second; } <"$dir/$platform.rss"
		if ! cmp -s "$dir/native.out" "$dir/$platform.out" || [ "$(cat "$dir/$platform.rc")" != 0 ]; then
			compare_fail "$name" "$platform"
			diff -U1 --label native --label "$platform" "$dir/native.out" "$dir/$platform.out" |
				head -n 20 | sed 's/^/    /'
			head -n 5 "$dir/$platform.err" | sed 's/^/    /'
		elif [ $((${second:-0} - ${first:-0})) -gt "$SCALE_GROWTH" ]; then
			compare_fail "$name" "$platform"
			echo "    grows: $before KiB before, $first after one round, $second after two"
		else
			echo "ok $name $platform ($((SECONDS - start)) s; KiB before $before, after one round $first, after two $second)"
			n_passed=$((n_passed + 1))
		fi
	done
	rm -rf "$dir"
}

if [ $# -eq 0 ]; then
	set -- forks threads files bigdir deepdir
fi
for name; do
	if [ -f "$scale/$name.c" ]; then
		scale_case "$name"
	else
		compare_fail "$name" missing
	fi
done
compare_end
