#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A guest that dumps core writes its own memory into its own directory, with its own rights; nothing of the sentry's is
# in there, nothing is written where it may not write, and the host's kernel dumps none of moat's processes (core_attack.c).
# From run-hostile.sh: MOAT, PLATFORM, TESTBIN, WORK (an empty directory).
cd "$WORK" || exit 1
program=$TESTBIN/hostile_core_attack
[ -x "$program" ] || { echo "hostile_core_attack was not built"; exit 1; }
status=0
fail() { echo "$*"; status=1; }
mkdir rw ro out
secret=secret-$RANDOM$RANDOM$RANDOM
echo victim >out/core
# In the monitor's and the sentry's memory, in their environment, and on their descriptors.
export MOAT_HOST_SECRET=$secret
echo "$secret" >out/secret
box() {
	timeout -k 5 170 "$MOAT" run --platform "$PLATFORM" --hostname moat-hostile --ro "$TESTBIN" --ro "$WORK/ro" --rw "$WORK/rw" \
		"$@" </dev/null 7<out/secret
}
tree() { find . -path ./rw -prune -o -printf '%p %y %m %s %T@\n' | sort; cat out/core; }
before=$(tree)

box --cwd "$WORK/rw" -- "$program" dump >/dev/null 2>&1
rc=$?
[ $rc = 139 ] || fail "dump: status $rc"
[ "$(head -c 4 rw/core | tr -d '\177')" = ELF ] || fail "no core of the guest's"
grep -qa 'what the guest knows' rw/core || fail "the guest's memory is not in its core"
grep -qa "$secret" rw/core && fail "the host's secret is in the guest's core"
grep -qaE 'moat-sentry|/proc/sys/kernel' rw/core && fail "something of the sentry's is in the guest's core"
[ "$(stat -c %a rw/core)" = 600 ] || fail "the core's mode is $(stat -c %a rw/core)"
rm -f rw/core
# The guest says which mappings go into it; that outlives an exec.
box --cwd "$WORK/rw" -- /bin/sh -c 'echo 0 >/proc/self/coredump_filter; exec "$0" dump' "$program" >/dev/null 2>&1
[ "$(head -c 4 rw/core | tr -d '\177')" = ELF ] || fail "no core without mappings"
grep -qa 'what the guest knows' rw/core && fail "a mapping that was not wanted is in the core"
# By links out of it, and where nothing may be written.
rm -f rw/core
ln -s ../out/core rw/core
box --cwd "$WORK/rw" -- "$program" dump >/dev/null 2>&1
[ -L rw/core ] || fail "the link in the core's place is gone"
rm -f rw/core
box --cwd "$WORK/ro" -- "$program" dump >/dev/null 2>&1
box --cwd / -- "$program" dump >/dev/null 2>&1
# A FIFO and a directory are not written to, and nobody waits.
mkfifo rw/core
box --cwd "$WORK/rw" -- "$program" dump >/dev/null 2>&1
[ $? = 139 ] || fail "with a FIFO in the core's place: $?"
rm -f rw/core

# The host's kernel: the stub really dies of a signal.
box --cwd "$WORK/rw" -- "$program" host >/dev/null 2>&1
rc=$?
[ $rc -ge 128 ] || fail "host: status $rc"
after=$(tree)
[ "$before" = "$after" ] || fail "something was written outside: $(diff <(echo "$before") <(echo "$after"))"
# Nor is a program behind a pipe in core_pattern run, for which the kernel asks RLIMIT_CORE, and only whether it is 1.
want="1 1"
(ulimit -c 1) 2>/dev/null || want="0 0"
"$MOAT" run --platform "$PLATFORM" -- /bin/sleep 1000 </dev/null >/dev/null 2>&1 &
monitor=$!
limits=
for _ in $(seq 400); do
	sentry=$(pgrep -P $monitor | head -n 1)
	limits=$(for p in $sentry $(pgrep -P "${sentry:-0}"); do
		awk -v who="$(cat "/proc/$p/comm")" '/^Max core/ { print who, $5, $6 }' "/proc/$p/limits"
	done 2>/dev/null | sort -u)
	[ "$limits" = "$(printf 'moat-%s\n' "sentry $want" "stub $want")" ] && break
	sleep 0.05
done
[ "$limits" = "$(printf 'moat-%s\n' "sentry $want" "stub $want")" ] || fail "RLIMIT_CORE is not $want: $limits"
disown; kill -9 $monitor
wait $monitor 2>/dev/null
exit $status
