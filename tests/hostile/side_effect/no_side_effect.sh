#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A call that is denied or fails changes nothing, for every row of the syscall table (side_effect.c, which
# includes it): natively the same calls show what Linux itself leaves behind, and no more may be left on the platform.
# The rows are dealt out to PARTS sandboxes that run at the same time, since most of their time is waiting for each other.
# From run-no-side-effect.sh: MOAT, PLATFORM, TESTBIN, WORK. ROWS: only these. PARTS: how many.
here=$(cd "$(dirname "$0")" && pwd -P)
program=$TESTBIN/side_effect
native=$TESTBIN/side_effect.native${ROWS:+.some}
parts=${PARTS:-$(($(nproc) * 2))}
[ -z "${ROWS:-}" ] || parts=1
status=0
if [ ! -x "$program" ] || [ -n "$(find "$here" "$here/../../../sentry" -newer "$program" \
	\( -path "$here/*" -type f -o -name 'syscall*.def' -o -name 'syscall_rows.h' -o -name 'argkinds.h' \))" ]; then
	${CC:-gcc} -std=gnu17 -O1 -g -w -static -I"$here/../../.." -o "$program.$$" "$here"/*.c || exit 1
	mv "$program.$$" "$program"
fi
confine=$TESTBIN/confine
if [ ! -x "$confine" ] || [ "$here/../../confine.c" -nt "$confine" ]; then
	${CC:-gcc} -std=gnu17 -O1 -g -w -static -o "$confine.$$" "$here/../../confine.c" || exit 1
	mv "$confine.$$" "$confine"
fi
# shellcheck source=tests/host-state.sh
. "$here/../../host-state.sh"
host_state_begin
cd "$WORK" || exit 1
mkdir ro out
echo public >ro/public
echo secret >out/secret
snapshot() { find ro out -printf '%p %y %m %U %G %s %T@ %C@ %n\n' | sort; cat ro/public out/secret; }
if [ -n "${ROWS:-}" ] || [ ! -s "$native" ] || [ "$program" -nt "$native" ]; then
	# shellcheck disable=SC2086
	timeout -k 5 900 "$confine" "$program" native ${ROWS:-} >native.out 2>&1
	rc=$?
	host_state_same || exit 1
	[ $rc = 77 ] && tail -n 1 native.out && exit 77
	if [ $rc != 0 ] || ! grep -q '^# ' native.out; then
		echo "the native run ended with $rc"
		tail -n 5 native.out
		exit 1
	fi
	mv native.out "$native"
fi

# sandbox NAME ROWS...: its output in NAME.out; what it may write to is empty again at its end.
sandbox() {
	local name=$1 rc
	shift
	mkdir "rw.$name"
	(cd / && exec timeout -k 5 900 "$MOAT" run --platform "$PLATFORM" --rw "$WORK/rw.$name" --ro "$WORK/ro" --ro "$program" \
		--env RO="$WORK/ro" --env SIDE_EFFECT_DIR="$WORK/rw.$name" --env VERBOSE="${VERBOSE:-}" -- "$program" moat "$@" \
		</dev/null) >"$name.out" 2>"$name.err"
	rc=$?
	[ $rc = 0 ] || { echo "run $name ended with $rc"; tail -n 5 "$name.out" "$name.err"; } >"$name.bad"
	grep -q '^# ' "$name.out" || echo "run $name did not come to its end" >>"$name.bad"
	rmdir "rw.$name" 2>/dev/null || { echo "run $name left:"; find "rw.$name" | head -n 5; } >>"$name.bad"
}
before=$(snapshot)
for ((i = 0; i < parts; i++)); do
	# shellcheck disable=SC2086
	sandbox "part$i" ${ROWS:-$i/$parts} &
done
wait
cat part*.bad 2>/dev/null && status=1
host_state_same || status=1
if [ "$(snapshot)" != "$before" ]; then
	echo "something that was not granted for writing has changed:"
	diff <(echo "$before") <(snapshot)
	status=1
	# Which row was it?
	for row in ${ROWS:-$("$program" rows)}; do
		now=$(snapshot)
		sandbox "$row" "$row"
		[ "$(snapshot)" = "$now" ] || echo "by calls of $row"
	done
fi
# What is left on the platform and not natively. A mode of its own (user, nofile, fsize, limits) is in the line.
cat part*.out | grep -v '^#' | sort -u >left
grep -v '^#' "$native" | sort -u >allowed
if grep '^demand' left; then
	echo "demands.c says what must have been seen"
	status=1
fi
if comm -23 left allowed | grep -v '^demand'; then
	echo "the calls above failed, or moved bytes in part, and left something that Linux does not leave"
	status=1
fi
grep '^#' "$native" | sed 's/^#/natively:/'
cat part*.out | awk -v p="$PLATFORM" '/^#/ { r += $2; f += $4; c += $7; s += $12; k += $14; w += $17 }
	END { print p ": " r " rows: " f " calls failed, " c " of them changed something; " s " succeeded, " k " were killed, " w " woken" }'
exit $status
