#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The launcher in odd surroundings, killed in all ways: it must say what is right, and leave nothing.
# From run-hostile.sh: MOAT, PLATFORM, WORK.
cd "$WORK" || exit 1
status=0
fail() { echo "$*"; status=1; }
moat() { timeout -k 5 120 "$MOAT" run --platform "$PLATFORM" "$@"; }
expect() { # WHAT STATUS, after the command
	[ "$3" = "$2" ] || fail "$1: status $3, not $2"
}

moat -- /bin/sh -c 'exit 7' <&-;             expect "stdin closed" 7 $?
moat -- /bin/sh -c '[ ! -e /proc/$$/fd/0 ] && exit 8' <&-; expect "stdin closed for the guest" 8 $?
moat -- /bin/sh -c 'exit 9' <&- >&- 2>&-;    expect "all closed" 9 $?
(trap '' HUP INT TERM PIPE USR1; moat -- /bin/sh -c 'exit 4') </dev/null; expect "signals ignored" 4 $?
timeout -k 1 120 perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV' "$MOAT" run --platform "$PLATFORM" \
	-- /bin/sh -c 'exit 3' </dev/null;   expect "SIGCHLD ignored" 3 $?
(ulimit -f 4500000; moat -- /bin/sh -c 'dd if=/dev/zero of=/tmp/x bs=1M count=2 2>/dev/null; exit 5') \
	</dev/null;                          expect "limited file size" 5 $?
# ptrace's page of orders for each thread that there can be is one file.
[ "$PLATFORM" = ptrace ] || {
	(ulimit -f 100000; moat -- /bin/sh -c '/bin/true && exit 5') </dev/null
	expect "small files" 5 $?
}
(ulimit -S -f 1; moat -- /bin/sh -c 'dd if=/dev/zero of=/tmp/x bs=1M count=2 2>/dev/null; exit 5') \
	</dev/null;                          expect "soft limit of file size" 5 $?

# What a read into nowhere has taken from the caller's pipe is still there for the next one.
out=$(printf 'hello' | moat -- perl -e '$r = syscall(0, 0, 16, 5); print defined $r ? $r : "none"; sysread(STDIN, $x, 5); print " $x"')
[ "$out" = "-1 hello" ] || fail "a read that faults: $out"

# What the caller ignores, as under nohup, is not passed on.
mkfifo nohup.in nohup.out
(trap '' HUP; exec "$MOAT" run --platform "$PLATFORM" -- /bin/sh -c 'echo up; read -r x; exit 6') <nohup.in >nohup.out &
mon=$!
exec 8>nohup.in 9<nohup.out
read -r -t 30 out <&9
kill -HUP $mon
sleep 0.2
echo >&8
wait $mon; expect "a signal that is ignored" 6 $?
exec 8>&- 9<&-

# Stopped and continued while it starts, it is not stopped.
for i in 0 1 2 3 4 5 6 7 8 9; do
	"$MOAT" run --platform "$PLATFORM" -- /bin/sh -c '/bin/true; exit 5' </dev/null &
	mon=$!
	sleep "0.00$i"
	kill -TSTP $mon
	sleep 0.003
	kill -CONT $mon
	for _ in $(seq 300); do
		kill -0 $mon 2>/dev/null || break
		sleep 0.1
	done
	kill -9 $mon 2>/dev/null
	wait $mon; expect "stopped and continued at its start" 5 $?
done

# descendants PID: all below it.
descendants() {
	local c
	for c in $(ps -o pid= --ppid "$1"); do
		echo "$c"
		descendants "$c"
	done
}
# A busy sandbox of its own session: $mon, $sentry, $all.
start() {
	setsid "$MOAT" run --platform "$PLATFORM" -- /bin/sh -c \
		'for i in 1 2 3; do while :; do /bin/true; done & done; trap "" TERM; while :; do sleep 1; done' \
		</dev/null >/dev/null 2>&1 &
	mon=$!
	for _ in $(seq 100); do
		sentry=$(pgrep -P "$mon" -x moat-sentry | head -n 1)
		sentry=${sentry// /}
		[ -n "$sentry" ] && all=$(descendants "$sentry") && [ "$(echo "$all" | wc -l)" -ge 5 ] && return
		sleep 0.05
	done
	fail "no sandbox came up"
}
# All are gone, or at least dead.
gone() {
	local pid state
	for _ in $(seq 100); do
		state=
		for pid in $sentry $all; do
			[ -r "/proc/$pid/stat" ] || continue
			grep -q '^Name:.moat' "/proc/$pid/status" 2>/dev/null || continue
			state=$(sed -n 's/^State:.\(.\).*/\1/p' "/proc/$pid/status" 2>/dev/null)
			[ "$state" = Z ] || [ -z "$state" ] && { state=; continue; }
			break
		done
		[ -z "$state" ] && return 0
		sleep 0.1
	done
	fail "$1: process $pid is left, state $state"
	kill -9 "$pid" 2>/dev/null
}

start; kill -9 "$mon"; wait "$mon" 2>/dev/null; gone "monitor killed"
start; kill -9 "$sentry"; wait "$mon" 2>/dev/null; expect "sentry killed" 125 $?; gone "sentry killed"
# A stub that dies is a guest process that dies; the sandbox must still end.
start
stub=$(for pid in $all; do grep -q '^Name:.moat-stub' "/proc/$pid/status" 2>/dev/null && echo "$pid"; done | shuf -n 1)
[ -n "$stub" ] || fail "no stub is to be seen"
kill -9 "$stub" 2>/dev/null; sleep 0.2; kill -9 "$mon"; wait "$mon" 2>/dev/null; gone "stub killed"
# Signals that are sent to the whole group of processes are not for the sentry.
start
for sig in ALRM USR1 USR2 RTMIN IO TTIN; do kill -s $sig "$sentry"; done
sleep 0.2
kill -0 "$sentry" 2>/dev/null || fail "the sentry died of a signal to the group"
kill -9 "$mon"; wait "$mon" 2>/dev/null; gone "after signals"

# What the guest closes is closed: who reads from a pipe sees its end while the program goes on, until it is told so.
mkfifo "$WORK/went_on"
perl -e '
	pipe(my $r, my $w) or die;
	my ($fifo, @cmd) = @ARGV;
	my $pid = fork // die;
	if (!$pid) { open(STDOUT, ">&", $w); close $w; close $r; exec @cmd; }
	close $w;
	alarm 60;
	read($r, my $c, 1) == 0 or exit 2;	# its end, or the alarm
	open(my $f, ">", $fifo); print $f "go\n"; close $f;
	waitpid($pid, 0);
	exit($? >> 8);
' "$WORK/went_on" "$MOAT" run --platform "$PLATFORM" -- /bin/sh -c 'exec >&-; read -r word; [ "$word" = go ] && exit 7' \
	<>"$WORK/went_on" 2>/dev/null
[ $? = 7 ] || fail "a pipe that the guest has closed stays open"

# When moat has returned there is nothing left, even if nobody reaps.
perl -e '
	syscall(157, 36, 1, 0, 0, 0); # prctl(PR_SET_CHILD_SUBREAPER)
	system(@ARGV);
	open(my $c, "<", "/proc/$$/task/$$/children") or exit 0;
	my $left = <$c> // "";
	exit($left =~ /\d/ ? 1 : 0);
' "$MOAT" run --platform "$PLATFORM" -- /bin/sh -c '/bin/true; sleep 100 & exit 0' </dev/null ||
	fail "dead stubs are left to the host's init"
exit $status
