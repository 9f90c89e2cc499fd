#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bash: background jobs, wait, traps, stop and continue, job control in a
# shell with -m and in an interactive one on a pty.
# needs: bash script

cat >"$TMPDIR/jobs" <<'EOF'
set -m
sleep 100 &
kill -STOP %1
sleep 0.2
jobs | sed 's/  */ /g'
kill -CONT %1
sleep 0.2
jobs | sed 's/  */ /g'
pid=$!
kill %1
wait "$pid"
echo "killed: $?"
(exit 7) &
wait $!
echo "status: $?"
sleep 0.1 &
fg %% >/dev/null
echo "fg: $?"
sleep 100 &
a=$!
sleep 0.1 &
wait -n
echo "wait -n: $?"
kill -9 $a
wait $a
echo "kill -9: $?"
p=$(sh -c 'ps -o pgid= -p $$ 2>/dev/null || cut -d" " -f5 /proc/$$/stat')
[ -n "$p" ] && echo pgid read
EOF
bash "$TMPDIR/jobs" 2>/dev/null

trap 'echo got USR1' USR1
kill -USR1 $$
trap 'echo got CHLD' CHLD
/bin/true
trap - CHLD
(trap 'echo child TERM; exit 5' TERM; kill -TERM $BASHPID; echo not reached)
echo "trap exit: $?"
trap '' INT
kill -INT $$
echo "INT ignored"
trap - INT
(kill -INT $BASHPID; echo not reached)
echo "INT: $?"
trap 'echo bye' EXIT

# An interactive shell: Ctrl-Z, bg, fg, Ctrl-C go through the line discipline.
cat >"$TMPDIR/rc" <<'EOF'
PS1='$ '
set +o history
bind 'set enable-bracketed-paste off' 2>/dev/null
EOF
{
	sleep 1
	printf 'stty -echo; PS1=\n'
	sleep 0.3
	printf 'sleep 50\n'
	sleep 1
	printf '\032'
	sleep 0.3
	printf 'bg >/dev/null; echo "bg $?"\n'
	sleep 0.2
	printf 'fg >/dev/null\n'
	sleep 0.3
	printf '\003'
	sleep 0.3
	printf 'echo "after int $?"\n'
	printf 'exit 9\n'
	sleep 0.3
} | script -qec "bash --noprofile --noediting --rcfile $TMPDIR/rc -i" /dev/null |
	tr -d '\r' | grep -aoE '(bg [0-9]+|after int [0-9]+|Stopped)$|Stopped'
echo "script ${PIPESTATUS[1]}"
