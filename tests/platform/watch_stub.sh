#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the host sees of the stub: every host call that a process named moat-stub makes while the smoke
# tests run, by the raw_syscalls tracepoint in a tracefs instance of its own. Calls in processes that run
# guest code must be in the list that the platform documents (ptrace_smoke --calls); those of the keeper and
# of zygotes, which run none, in its second part. Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.."
smoke=$MOAT_BUILD/ptrace_smoke

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
instance=$tracing/instances/moat-$$
mkdir $instance 2>/dev/null || skip "no tracefs instance can be made"
work=$(mktemp -d)
cleanup() {
	echo 0 >$instance/events/enable
	rmdir $instance
	rm -rf "$work"
}
trap cleanup EXIT

echo 32768 >$instance/buffer_size_kb
# Our own processes and their children only: somebody else may run a moat.
echo 1 >$instance/options/event-fork
echo $$ >$instance/set_event_pid
echo 'comm == "moat-stub"' >$instance/events/raw_syscalls/sys_enter/filter
echo 1 >$instance/events/raw_syscalls/sys_enter/enable
timeout -k 10 120 "$smoke" syscall faults int80 vsyscall interrupt jump-to-stub map copies atomics \
	fork threads churn stray killed >"$work/out" 2>&1
status=$?
cat $instance/trace >"$work/trace"
lost=$(cat $instance/per_cpu/cpu*/stats | awk '/^overrun|^dropped/ { n += $NF } END { print n + 0 }')
"$smoke" --calls >"$work/calls"

tail -n 1 "$work/out"
# The keeper receives messages; a zygote takes its filter. All others run guest code.
awk '
	FILENAME == ARGV[1] { name[$1] = $2; guest[$1] = guest[$1] || $3 == "guest"; next }
	match($0, /^ *[^ ]+-[0-9]+ /) {
		pid = substr($0, RSTART, RLENGTH)
		gsub(/.*-| *$/, "", pid)
		if (!match($0, /NR -?[0-9]+/))
			next
		nr = substr($0, RSTART + 3, RLENGTH - 3)
		seen[pid, nr]++
		pids[pid] = 1
		nrs[nr] = 1
		if (nr == 47 || nr == 34 || nr == 317)
			infra[pid] = 1
	}
	END {
		for (pid in pids)
			infra[pid] ? keepers++ : guests++
		for (key in seen) {
			split(key, k, SUBSEP)
			if (!(k[2] in name))
				bad[k[2] " (not listed)"] += seen[key]
			else if (!infra[k[1]] && !guest[k[2]])
				bad[k[2] " (" name[k[2]] ", not for guests)"] += seen[key]
			if (!infra[k[1]])
				total[k[2]] += seen[key]
		}
		printf "processes with guest code: %d; keeper and zygotes: %d\n", guests, keepers
		for (nr in total)
			printf "  %-10s %d\n", name[nr], total[nr]
		for (b in bad)
			printf "NOT ALLOWED: host call %s, %d times\n", b, bad[b]
		for (b in bad)
			exit 1
		# The watch must have seen something.
		exit !(guests > 50 && keepers >= 2 && (9 in total) && (56 in total))
	}' "$work/calls" "$work/trace"
verdict=$?
[ "$lost" = 0 ] || echo "$lost events were lost: the verdict covers the others"
if [ $verdict = 0 ] && [ $status = 0 ]; then
	echo "1 passed, 0 failed, 0 skipped"
else
	[ $status = 0 ] || cat "$work/out"
	echo "0 passed, 1 failed, 0 skipped"
	exit 1
fi
