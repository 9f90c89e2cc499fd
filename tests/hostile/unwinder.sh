#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unwind information that wants to harm who reads it (unwind_attack.c): the program dies of its own signal and is
# reported, the sentry lives, which runs another program afterwards.
# From run-hostile.sh: MOAT, PLATFORM, TESTBIN, WORK (an empty directory).
cd "$WORK" || exit 1
program=$TESTBIN/hostile_unwind_attack
[ -x "$program" ] || { echo "hostile_unwind_attack was not built"; exit 1; }
status=0
box() {
	timeout -k 5 170 "$MOAT" run --platform "$PLATFORM" --hostname moat-hostile --ro "$TESTBIN" "$@" </dev/null
}
list=$(box -- "$program" --list)
[ "$(wc -l <<<"$list")" -ge 15 ] || { echo "no list: $list"; exit 1; }
for name in $list; do
	# shellcheck disable=SC2016
	box --verbose --audit=log -- /bin/sh -c '"$1" "$2"; echo "ended with $?"' sh "$program" "$name" >out 2>err
	rc=$?
	if [ $rc != 0 ] || [ "$(cat out)" != 'ended with 132' ] || ! grep -q 'died of SIGILL' err; then
		echo "$name: status $rc, $(cat out)"
		tail -n 3 err
		status=1
	fi
done
# The honest one has its caller.
box --verbose -- "$program" honest >out 2>err
grep -q '#1 .*main' err || grep -q 'no stacks of programs' err || {
	echo "no caller in an honest stack:"
	cat err
	status=1
}
exit $status
