#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One attack for each meter (meter_attack.c), with small limits: it ends with Linux's errno or by a kill, the
# sentry's own memory stays below a bound, a neighbour sandbox goes on meanwhile, and the sandbox ends.
# From run-hostile.sh: MOAT, PLATFORM, TESTBIN, WORK (an empty directory).
cd "$WORK" || exit 1
program=$TESTBIN/hostile_meter_attack
[ -x "$program" ] || { echo "hostile_meter_attack was not built"; exit 1; }
mkdir rw
status=0
fail() { echo "$*"; status=1; }
# What the sentry may have of its own, in KiB: its Pss while the attacker holds all that it got.
bound=65536

sentry_pss() {
	local p c
	for p in $1 $(pgrep -P "$1"); do
		for c in $p $(pgrep -P "$p"); do
			[ "$(cat "/proc/$c/comm" 2>/dev/null)" = moat-sentry ] &&
				awk '/^Pss:/ { print $2 }' "/proc/$c/smaps_rollup" 2>/dev/null && return
		done
	done
}
# attack NAME WANT LOW HIGH LIMIT...: the errno, and how many there were.
attack() {
	local name=$1 want=$2 low=$3 high=$4 limits=() l line pss moat
	shift 4
	for l; do limits+=(--limit "$l"); done
	coproc M { exec timeout -k 5 100 "$MOAT" run --platform "$PLATFORM" --hostname moat-hostile --ro "$TESTBIN" \
		--rw "$WORK/rw:/rw" "${limits[@]}" -- "$program" "$name" 2>"$WORK/err"; }
	moat=$M_PID
	# Copies: bash forgets its own when the process ends.
	exec 7<&"${M[0]}" 8>&"${M[1]}"
	eval "exec ${M[0]}<&- ${M[1]}>&-"
	line=
	read -r -t 90 line <&7
	pss=$(sentry_pss "$moat" | head -n 1)
	exec 7<&- 8>&-
	wait "$moat" 2>/dev/null
	set -- $line
	# What was touched since the last look may be too much already: then it is a kill, and no error.
	if [ "$want" = ENOMEM ] && [ -z "$line" ] && [[ ${limits[*]} == *memory=64M* ]] &&
		grep -q 'memory: .* was killed' "$WORK/err"; then
		return
	fi
	if [ "$1" != "$want" ] || [ "${2:-0}" -lt "$low" ] || [ "${2:-0}" -gt "$high" ]; then
		fail "$name: '$line' instead of $want $low to $high"
		head -n 3 "$WORK/err"
	fi
	if [ -n "$pss" ] && [ "$pss" -gt "$bound" ]; then fail "$name: the sentry has $pss KiB"; fi
}
# ended NAME STATUS LIMIT...
ended() {
	local name=$1 want=$2 limits=() l
	shift 2
	for l; do limits+=(--limit "$l"); done
	timeout -k 5 100 "$MOAT" run --platform "$PLATFORM" --hostname moat-hostile --ro "$TESTBIN" \
		"${limits[@]}" -- "$program" "$name" </dev/null >"$WORK/out" 2>"$WORK/err"
	l=$?
	[ $l = "$want" ] || { fail "$name: status $l instead of $want"; head -n 3 "$WORK/err"; }
}

# The neighbour counts while others attack; it must never stop.
mkfifo stop
"$MOAT" run --platform "$PLATFORM" --limit wall_time=20m -- /bin/sh -c '
	while read -r word; do echo "$word"; [ "$word" = end ] && exit 7; done' <stop >neighbour 2>&1 &
neighbour=$!
exec 9>stop
echo begin >&9

attack fork EAGAIN 20 40 processes=40
attack thread EAGAIN 20 40 threads=40
attack futexes EAGAIN 20 40 threads=40
attack mmap ENOMEM 20 128 memory=64M
attack brk ENOMEM 20 128 memory=64M
attack mlock ENOMEM 1 64 memory=64M
attack populate ENOMEM 0 0 memory=96M
attack huge ENOMEM 0 0 memory=64M
attack touch 0 9 9 memory=64M
attack touch_shared 0 9 9 memory=64M
attack own_maps 0 9 9 memory=64M
attack hidden_maps 0 9 9 memory=256M
attack scattered_maps 0 9 9 memory=256M
attack view_holes 0 9 9 memory=128M
attack stack 0 9 11 memory=64M
attack tables 0 9 9 memory=64M
attack shm ENOMEM 20 128 memory=64M
attack memfd ENOSPC 1000 4096 file_bytes=16M
attack tmpfs ENOSPC 1000 4096 file_bytes=16M
attack disk EDQUOT 256 256 write_bytes=1M
for how in hole_truncate hole_write mapped_truncate mapped_write mapped_fallocate; do
	rm "$WORK/rw/a"
	attack $how EDQUOT 0 1 write_bytes=1M
done
for how in hole_bytes hole_far_bytes hole_appends hole_fallocate; do
	rm "$WORK/rw/a"
	attack $how EDQUOT 200 257 write_bytes=1M
done
rm "$WORK/rw/a"
attack holes 0 1 1 write_bytes=1M
# What an earlier sandbox has left.
attack old_store EDQUOT 0 0 write_bytes=1M
attack old_bytes EDQUOT 200 257 write_bytes=1M
attack maps ENOMEM 50 200 maps=200
attack files ENFILE 20 100 open_files=100
attack epoll ENFILE 20 100 open_files=100
attack watches ENOSPC 100 200 watches=200
attack inotify ENOSPC 100 200 watches=200
attack inodes ENOSPC 20 200 file_inodes=200
attack deep ENOSPC 20 200 file_inodes=200
attack xattrs ENOMEM 10 440 sentry_memory=24M
attack pipes ENOMEM 8 16 buffers=1M
attack pipe_size EPERM 1 4 buffers=4M
attack sockets ENOBUFS 1 20 buffers=1M
attack flight ETOOMANYREFS 50 200 in_flight=100
attack messages ENOMEM 50 140 buffers=1M
attack timers EAGAIN 100 100 timers=100
attack timerfds ENOMEM 100 100 timers=100
attack signals EAGAIN 90 100 signals=100
attack locks ENOLCK 100 100 locks=100
attack unlocks ENOLCK 99 99 locks=100
attack argv 0 0 0 sentry_memory=24M
attack semaphores ENOMEM 1 120 sentry_memory=24M
ended spin 137 cpu_time=1s
ended spin 137 wall_time=1s

timeout -k 5 100 "$MOAT" run --platform "$PLATFORM" --hostname moat-hostile --ro "$TESTBIN" --audit="$WORK/log" \
	--limit log_bytes=64K -- "$program" log </dev/null >"$WORK/out" 2>"$WORK/err" || fail "log: $?"
[ "$(stat -c %s "$WORK/log")" -le 80000 ] || fail "the audit log has $(stat -c %s "$WORK/log") bytes"

echo end >&9
exec 9>&-
wait $neighbour
[ $? = 7 ] || fail "the neighbour did not live to the end: $(cat neighbour)"
[ "$(tail -n 1 neighbour)" = end ] || fail "the neighbour did not see the end"
exit $status
