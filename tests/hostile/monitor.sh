#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The sentry taken over against the monitor (tests/hostile/monitor_calls.c, in a debug build): it cannot write in the
# monitor's name, fill the log beyond its limit, have an archive written elsewhere, nor make the monitor outlive the
# sandbox or its time.
# From run-hostile.sh: MOAT, PLATFORM, WORK, TESTBIN. MOAT_DBG: the debug build (default: build/dbg/moat).
root=$(cd "$(dirname "$0")/../.." && pwd)
program=$TESTBIN/hostile_monitor_calls
status=0
fail() {
	echo "$*"
	status=1
}
# shellcheck source=tests/taken-over.sh
. "$root/tests/taken-over.sh"
find_debug_build none
cd "$WORK" || exit 1
# over STATUS MODE [OPTIONS]: a monitor that hangs is killed, which is another status.
over() {
	local want=$1 mode=$2 s
	shift 2
	timeout -k 5 100 "$moat" run --platform "$PLATFORM" --hostname moat-hostile --cwd / --ro "$TESTBIN" "$@" \
		-- "$program" "$mode" 2>err </dev/null | cat >out
	s=${PIPESTATUS[0]}
	[ $s = "$want" ] || fail "$mode: status $s instead of $want: $(tail -n 2 out err)"
	grep -q 'did [1-9]' out err || fail "$mode: no descriptor took part: $(cat out err)"
}

# The log: whole lines, none in the monitor's name but its last, no more than is allowed.
limit=1000000
over 0 log --audit=log --limit log_bytes=$limit
last=$(tail -n 1 log)
[ $(($(stat -c %s log) - ${#last} - 1)) -le $limit ] || fail "log: $(stat -c %s log) bytes"
[ "$(grep -c '"by" *:"monitor"\|\\u0062y' log)" = 1 ] || fail "log: lines in the monitor's name: $(grep -c '"by" *:"monitor"' log)"
[ "$(grep -vc '^{"by":"sentry",' log)" = 1 ] || fail "log: lines that are not the sentry's: $(grep -v '^{"by":"sentry",' log | cut -c 1-100)"
grep -q '^{"by":"monitor","event":"end",' <<<"$last" || fail "log: its end is $last"
# Five lines of one kind and another, and the half MiB; what is over; that the sentry's own may follow the half line.
for n in lines_refused lines_over_limit; do
	v=$(sed -n "s/.*\"$n\":\([0-9]*\).*/\1/p" <<<"$last")
	[ "${v:-0}" -ge 5 ] || fail "log: $n is ${v:-not told}"
done

# Where the pipe cannot be opened again, nobody steals from it.
over "$("$moat" run --platform "$PLATFORM" --hostname moat-hostile --cwd / --ro "$TESTBIN" --audit=log -- "$program" steal >out 2>&1 </dev/null; echo $?)" \
	steal --audit=log >steal.out
grep -v 'no descriptor took part' steal.out && status=1
tail -n 1 log | grep -q '^{"by":"monitor","event":"end",' || fail "steal: the log has no end"

# The archive: in its place, whatever is in it, with the mode of any file, and nothing beside it.
mkdir archive beside
echo before >archive/kept.tar
umask 022
for mode in saved archive; do
	over 0 $mode --save archive/kept.tar
	[ "$(ls archive beside)" = "$(printf 'archive:\nkept.tar\n\nbeside:')" ] || fail "$mode: there are $(ls archive beside)"
	[ "$(stat -c %a archive/kept.tar)" = 644 ] || fail "$mode: mode $(stat -c %a archive/kept.tar)"
done

# A sentry that does not hear has its time, and no more.
over 137 close --limit wall_time=5s

# A terminal that was stopped: the monitor gives it back, and it goes on.
if command -v python3 >/dev/null; then
	timeout -k 5 100 python3 - "$moat" run --platform "$PLATFORM" --hostname moat-hostile --cwd / --ro "$TESTBIN" --tty on -- \
		"$program" stop >out 2>&1 <<-'END' || fail "stop: $(tail -n 3 out)"
		import os, pty, select, subprocess, sys, termios, time
		master, slave = pty.openpty()
		before = termios.tcgetattr(slave)
		p = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=slave, stderr=subprocess.PIPE)
		end = time.monotonic() + 60
		while p.poll() is None and time.monotonic() < end:
		    if select.select([master], [], [], 0.05)[0]:
		        os.read(master, 4096)
		if p.poll() is None:
		    p.kill()
		    sys.exit("the monitor does not end")
		if p.returncode != 0:
		    sys.exit("status %d: %s" % (p.returncode, p.stderr.read()))
		if termios.tcgetattr(slave) != before:
		    sys.exit("the terminal is not as it was")
		os.set_blocking(slave, False)
		if not select.select([], [slave], [], 10)[1] or os.write(slave, b"x") != 1 or not select.select([master], [], [], 10)[0]:
		    sys.exit("its output is still stopped")
	END
else
	echo "no python3: a terminal that is stopped is not tried"
fi
exit $status
