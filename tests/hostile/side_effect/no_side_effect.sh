#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A call that is denied or fails changes nothing, for every row of the syscall table (side_effect.c, which
# includes it): natively the same calls show what Linux itself leaves behind, and no more may be left on the platform.
# From full-no-side-effect.sh: MOAT, PLATFORM, TESTBIN, WORK. ROWS: only these.
here=$(cd "$(dirname "$0")" && pwd -P)
program=$TESTBIN/side_effect
native=$TESTBIN/side_effect.native${ROWS:+.some}
status=0
if [ ! -x "$program" ] || [ -n "$(find "$here" "$here/../../../sentry" -newer "$program" \
	\( -name 'side_effect.c' -o -name 'syscall*.def' -o -name 'syscall_rows.h' -o -name 'argkinds.h' \))" ]; then
	${CC:-gcc} -std=gnu17 -O1 -g -w -static -I"$here/../../.." -o "$program.$$" "$here/side_effect.c" || exit 1
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
mkdir ro rw out
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
before=$(snapshot)
# shellcheck disable=SC2086
(cd / && exec timeout -k 5 900 "$MOAT" run --platform "$PLATFORM" --rw "$WORK/rw" --ro "$WORK/ro" --ro "$program" --env RO="$WORK/ro" \
	--env SIDE_EFFECT_DIR="$WORK/rw" --env VERBOSE="${VERBOSE:-}" -- "$program" moat ${ROWS:-} </dev/null) >out.moat 2>err.moat || {
	echo "the run ended with $?"
	tail -n 5 out.moat err.moat
	status=1
}
host_state_same || status=1
[ "$(snapshot)" = "$before" ] || {
	echo "something that was not granted for writing has changed:"
	diff <(echo "$before") <(snapshot)
	status=1
}
grep -q '^# ' out.moat || {
	echo "the program did not come to its end"
	status=1
}
# What is left on the platform and not natively. A mode of its own (user, nofile, fsize) is in the line.
grep -v '^#' out.moat | sort >left
grep -v '^#' "$native" | sort >allowed
if comm -23 left allowed | grep .; then
	echo "the calls above failed, and left something that Linux does not leave"
	status=1
fi
grep '^#' "$native" | sed 's/^#/natively:/'
grep '^#' out.moat | sed "s/^#/$PLATFORM:/"
exit $status
