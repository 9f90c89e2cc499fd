# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by those of tests/hostile that take the sentry over. What it calls then is made by the host's kernel: without
# the name spaces and a root of its own, an odd call would be one on the host's files and processes, by whoever runs
# this. So it is skipped there, with the reason.
for wall in 'name spaces' 'root of its own'; do
	if ! "$MOAT" doctor | grep -q "^ *$wall  *works"; then
		echo "moat doctor does not say that \"$wall\" works here: a sentry taken over could change the host"
		exit 77
	fi
done
# find_debug_build MODE: leaves in $moat the one in which $program, with that mode, can take the sentry over.
find_debug_build() {
	for moat in "${MOAT_DBG:-$root/build/dbg/moat}" "$MOAT"; do
		[ -x "$moat" ] || continue
		"$moat" run --platform "$PLATFORM" --hostname moat-hostile --ro "$TESTBIN" -- "$program" "$1" >/dev/null 2>&1
		[ $? = 77 ] || return 0
	done
	echo "no debug build (make m=dbg): only there can the sentry be taken over"
	exit 77
}
