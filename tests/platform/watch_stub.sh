#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the host sees of stubs: tests/platform/watch_stub.sh PLATFORM. Every host call that a process named
# moat-stub makes while the smoke tests, ordinary programs and hostile ones run, by the raw_syscalls
# tracepoint in a tracefs instance of its own. watch_check (watch_check.c) holds each against the rules from
# which the filters and the lists of docs/SECURITY.md are made. Whether the programs pass is not asked here
# but for the smoke tests: time may cut the hostile ones short. Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.."
platform=$1
smoke=$MOAT_BUILD/platform_smoke
moat=${MOAT:-$MOAT_BUILD/moat}
# The others have nothing of the stub's that a guest could reach but by its signals and calls.
case $platform in
trap) hostile="signal_frames stub_ways stub_areas syscall_fuzz stub_text" ;;
notify) hostile="stub_ways syscall_fuzz" ;;
*) hostile="syscall_fuzz" ;;
esac

skip() {
	echo "skipped: $*"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

[ "$(id -u)" = 0 ] || skip "tracefs needs root"
tracing=/sys/kernel/tracing
if [ ! -d $tracing/instances ]; then
	mount -t tracefs tracefs $tracing 2>/dev/null || skip "tracefs cannot be mounted"
fi
[ -d $tracing/events/raw_syscalls ] || skip "this kernel has no raw_syscalls tracepoints"
[ -d $tracing/events/task/task_newtask ] || skip "this kernel has no task_newtask tracepoint"
instance=$tracing/instances/moat-$$
mkdir $instance 2>/dev/null || skip "no tracefs instance can be made"
# A guest sees no /tmp of the host's.
work=$(mktemp -d "$(realpath "$MOAT_BUILD")/watch.XXXXXX")
cleanup() {
	echo 0 >$instance/events/enable
	echo >$instance/set_event_pid
	rmdir $instance
	rm -rf "$work"
}
trap cleanup EXIT

built=
for name in $hostile; do
	"${CC:-gcc}" -std=gnu17 -O1 -w -pthread -static -o "$work/$name" "tests/hostile/$name.c" 2>/dev/null &&
		built+=" $name"
done
[ -n "$built" ] || echo "no static program can be built: without hostile programs"

echo 65536 >$instance/buffer_size_kb
# The first events of a process that goes on and on are as good as the last.
echo 0 >$instance/options/overwrite
# Our own processes and their children only: somebody else may run a moat.
echo 1 >$instance/options/event-fork
echo $$ >$instance/set_event_pid
# Between exec and prctl a stub is named for its memfd.
echo 'comm == "moat-stub" || comm ~ "memfd:*"' >$instance/events/raw_syscalls/sys_enter/filter
echo 1 >$instance/events/task/task_newtask/enable
echo 1 >$instance/events/raw_syscalls/sys_enter/enable

# Whatever was traced since the last call, judged. What finds no room is not in the trace, and with it births may be
# missing: so only what came before the first such loss on any processor counts.
verdict=0
judge() { # WHAT
	local until=inf last stats
	echo 0 >$instance/tracing_on
	for stats in $instance/per_cpu/cpu*/stats; do
		[ "$(awk '/^overrun|^dropped/ { n += $NF } END { print n + 0 }' "$stats")" = 0 ] && continue
		last=$(tail -n 1 "${stats%stats}trace" | sed -nE 's/.*\] +[^ ]+ +([0-9.]+):.*/\1/p')
		until=$(printf '%s\n' "${last:-0}" "$until" | sort -g | head -n 1)
	done
	echo "$1$([ "$until" = inf ] || echo ": the first part, for which there was room")"
	"$MOAT_BUILD/watch_check" "$platform" "$until" <$instance/trace || verdict=1
	echo >$instance/trace
	echo 1 >$instance/tracing_on
}

timeout -k 10 120 "$smoke" "$platform" syscall faults int80 vsyscall interrupt-each jump-to-stub filter map copies \
	atomics fork threads sentry-killed >"$work/out" 2>&1
status=$?
judge "smoke tests: $(tail -n 1 "$work/out")"
guest() { # SECONDS COMMAND…
	local seconds=$1
	shift
	timeout -k 5 "$seconds" "$moat" run --platform "$platform" --hostname moat-hostile --ro "$work" -- "$@" \
		</dev/null >>"$work/guests" 2>&1
}
guest 60 /bin/sh -c 'i=0; while [ $i -lt 40 ]; do /bin/true & i=$((i+1)); done; wait
	ls -lR /usr/include >/tmp/x; sort /tmp/x | tail -n 1'
judge "programs"
for name in $built; do
	guest 3 "$work/$name" 2>/dev/null
	judge "$name"
done

if [ $verdict = 0 ] && [ $status = 0 ]; then
	echo "1 passed, 0 failed, 0 skipped"
else
	[ $status = 0 ] || cat "$work/out"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
