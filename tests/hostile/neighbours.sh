#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two sandboxes that run at once, with one granted directory between them, attack each other (neighbour.c). First the two
# programs run natively, in name spaces of their own but together: there each attack must succeed, else it proves nothing.
# From run-hostile.sh: MOAT, PLATFORM, TESTBIN, WORK (an empty directory).
cd "$WORK" || exit 1
program=$TESTBIN/hostile_neighbour
[ -x "$program" ] || { echo "hostile_neighbour was not built"; exit 1; }
status=0
fail() { echo "$*"; status=1; }
export NEIGHBOUR=1
names=$("$program" --list | sort)
unshare=(unshare -p -f --kill-child -m --mount-proc -i -u -n --propagation private)
[ "$(id -u)" = 0 ] || unshare=(unshare -Ur -p -f --kill-child -m --mount-proc -i -u -n)
"${unshare[@]}" true 2>/dev/null || { echo "no name spaces for the native run"; exit 77; }

mkdir native
# The host is out of reach of what is sent to all, being in another pid name space.
# shellcheck disable=SC2016
timeout -k 5 120 "${unshare[@]}" sh -c 'trap "" URG
	"$0" "$1" a >"$1.a" 2>&1 & a=$!
	"$0" "$1" b >"$1.b" 2>&1 & b=$!
	wait $a; ra=$?; wait $b; rb=$?
	[ $ra = 0 ] && [ $rb = 0 ]' "$program" "$WORK/native" || fail "the native run failed: $(cat native.a native.b)"
rm -f /dev/shm/moat-neighbour-[ab]
# Some are for one direction only.
seen=$(cat native.a native.b | sed -n 's/^got //p' | sort -u)
[ "$seen" = "$names" ] || fail "does not succeed natively, so it proves nothing: $(comm -13 <(echo "$seen") <(echo "$names") | tr '\n' ' ')"

mkdir shared
stub=()
[ "$PLATFORM" = ptrace ] || stub=(--env STUB=1)
for who in a b; do
	timeout -k 5 150 "$MOAT" run --platform "$PLATFORM" --ro "$TESTBIN" --rw "$WORK/shared" --env NEIGHBOUR=1 \
		"${stub[@]}" -- \
		"$program" "$WORK/shared" $who </dev/null >shared.$who 2>&1 &
	eval "$who=$!"
done
# shellcheck disable=SC2154
wait "$a" || fail "a: status $?"
# shellcheck disable=SC2154
wait "$b" || fail "b: status $?"
for who in a b; do
	[ "$(tail -n 1 shared.$who)" = "end $who" ] || fail "$who did not come to its end: $(tail -n 3 shared.$who)"
	grep -q '^got ' shared.$who && fail "got through to the neighbour: $(sed -n 's/^got //p' shared.$who | tr '\n' ' ')"
done
exit $status
