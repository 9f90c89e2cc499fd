#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The sentry taken over: a debug build makes any host call that its guest asks for (sentry/takeover.h), after its
# lock-down. What that reaches must be the grant, the sentry's own stubs, and nothing else. Walls that this host or this moat
# lacks are named with what goes through there.
# From run-hostile.sh: MOAT, PLATFORM, WORK, TESTBIN. MOAT_DBG: the debug build (default: build/dbg/moat).
root=$(cd "$(dirname "$0")/../.." && pwd)
program=$TESTBIN/hostile_takeover_calls
status=0
fail() {
	echo "$*"
	status=1
}
# shellcheck source=tests/taken-over.sh
. "$root/tests/taken-over.sh"
# shellcheck source=tests/host-state.sh
. "$root/tests/host-state.sh"
host_state_begin
find_debug_build memory
# over MODE [ARGS]: what the taken-over sentry reached with it, in $WORK/out.
over() {
	timeout -k 5 100 "$moat" run --platform "$PLATFORM" --hostname moat-hostile --ro "$TESTBIN" \
		${rw:+--rw "$rw"} -- "$program" "$@" >"$WORK/out" 2>&1 </dev/null
	local s=$?
	# A victim's end is no fault of the run.
	if [ $s != 0 ] || [ "$(tail -n 1 "$WORK/out")" != "done" ]; then
		tail -n 3 "$WORK/out"
		fail "$1: status $s, not finished"
	fi
}
none() { # WHAT: nothing was reached
	if grep -E '^(reached|opened)' "$WORK/out" | sort | uniq -c | head -n 20 | grep .; then
		fail "$1: reached"
	fi
}

# Numbers: what is not refused stands in the page's list for this platform.
listed() {
	awk -v p="$PLATFORM" -v rw="$1" -F ' [|] ' '
		/^### / { in_list = /^### The sentry, after its lock-down/; answered = /answered/; next }
		!in_list || !/^[|] [a-z]/ || /^[|] call/ { next }
		{ name = substr($1, 3); n = NF; where = answered ? "" : $(n - 1)
		  if (where == "" || index(where, p) || where ~ /debugging/ || (rw && where == "with --rw")) print name }
	' "$root/docs/SECURITY.md" | sort -u
}
{
	echo '#include <asm/unistd.h>' | ${CC:-gcc} -E -dM - |
		sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$/\2 \1/p'
	echo 452 fchmodat2
} >"$WORK/names"
for rw in "" "$WORK/rw"; do
	mkdir -p "$WORK/rw"
	over sweep
	grep '^reached' "$WORK/out" && fail "sweep: x32 calls pass"
	awk 'NR == FNR { name[$1] = $2; next } $1 == "allowed" { print name[$2] ? name[$2] : "number " $2 }' \
		"$WORK/names" "$WORK/out" | sort -u >"$WORK/reached"
	listed "$rw" >"$WORK/listed"
	[ "$(wc -l <"$WORK/reached")" -ge 30 ] || fail "sweep: only $(wc -l <"$WORK/reached") calls pass: it tries too little"
	comm -23 "$WORK/reached" "$WORK/listed" | grep . && fail "sweep${rw:+ with --rw}: these pass and are not listed"
done
rw=
over refused
none "calls that never may pass"
over memory
none "memory"

# From outside: whom the sentry belongs to, and what it holds.
mkfifo "$WORK/go"
"$moat" run --platform "$PLATFORM" --hostname moat-hostile --ro "$TESTBIN" -- "$program" wait \
	<"$WORK/go" >"$WORK/waits" 2>&1 &
mon=$!
exec 9>"$WORK/go"
for _ in $(seq 200); do
	grep -q waits "$WORK/waits" && break
	sleep 0.05
done
sentry=$mon
while :; do
	next=
	for c in $(ps -o pid= --ppid "$sentry"); do
		[ "$(cat "/proc/$c/comm" 2>/dev/null)" = moat-sentry ] && next=$c
		# A process between the monitor and the sentry.
		[ -z "$next" ] && [ "$(cat "/proc/$c/comm" 2>/dev/null)" = moat ] && next=$c
	done
	[ -n "$next" ] || break
	sentry=$next
done
[ "$(cat "/proc/$sentry/comm")" = moat-sentry ] || fail "the sentry is not found"
own_root=1 own_pids=1
[ "$(stat -Lc %d:%i "/proc/$sentry/root")" = "$(stat -Lc %d:%i /)" ] && own_root=
[ "$(readlink "/proc/$sentry/ns/pid")" = "$(readlink /proc/self/ns/pid)" ] && own_pids=
grep -q '^Seccomp:.*2' "/proc/$sentry/status" || fail "the sentry has no filter"
grep -q '^NoNewPrivs:.*1' "/proc/$sentry/status" || fail "the sentry may get privileges"
for task in /proc/"$sentry"/task/*; do
	grep -q '^Seccomp:.*2' "$task/status" || fail "a thread of the sentry has no filter: $(cat "$task/comm")"
done
for fd in /proc/"$sentry"/fd/*; do
	to=$(readlink "$fd") || continue
	case $to in
	/memfd:* | pipe:* | socket:* | anon_inode:* | /dev/null | "$WORK"/waits | "$WORK"/go) ;;
	"$TESTBIN" | "$TESTBIN"/* | "$PWD") ;; # the caller's directory is granted
	/meminfo | /proc/meminfo) ;; # how much memory is free
	/grants | /grants/*) ;; # where the grants lie in a root of the sentry's own
	/ | /proc | /bin | /etc | /lib* | /opt | /sbin | /usr*) ;; # the guest's root, and the stubs' texts
	*)
		# What the test's own caller has left open is that one's.
		[ -e "/proc/$$/fd/${fd##*/}" ] && [ "$(readlink "/proc/$$/fd/${fd##*/}")" = "$to" ] && continue
		if [ -n "$own_root" ]; then fail "the sentry holds $to"; else echo "holds $to"; fi
		;;
	esac
done
echo >&9
exec 9>&-
wait "$mon"

# Files that are not granted, by any name.
secret=$(mktemp -p "$(dirname "$WORK")")
echo secret >"$secret"
chmod 666 "$secret"
over open /etc/shadow "$secret" /proc/1/environ /proc/self/exe /proc/self/mem "/proc/$$/mem" "/proc/$$/root/etc/passwd" \
	/dev/mem /dev/kmsg /dev/tty /dev/fuse /dev/kvm /dev/net/tun /sys/kernel/security /sys/fs/cgroup /root/.bashrc \
	/run /tmp /home
if [ -n "$own_root" ]; then
	none "files that are not granted"
else
	echo "no root of its own: $(grep -c ^opened "$WORK/out") ways to $(awk '$1 == "opened" { print $2 }' "$WORK/out" | sort -u | wc -l) of these files"
fi
rm -f "$secret"

# Another process.
sleep 1000 &
victim=$!
disown
stack=$(sed -n 's/^\([0-9a-f]*\)-.*\[stack\]$/\1/p' "/proc/$victim/maps")
over process "$victim" "$stack"
if [ -n "$own_pids" ]; then
	none "another process"
	kill -0 "$victim" || fail "another process is gone"
else
	echo "no pids of its own: $(sed -n 's/^reached \(.*\): .*/\1;/p' "$WORK/out" | tr '\n' ' ')"
fi
kill "$victim" 2>/dev/null
host_state_same || status=1
exit $status
