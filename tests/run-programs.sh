#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Real programs: run each tests/programs/NAME.sh natively and on moat, and
# compare. Usage: tests/run-programs.sh [NAME...] (default: all).
# See run-compare.sh for the variables and for what is compared.
#
# A script describes itself in two kinds of comment lines:
#   # needs: PROG...   programs without which it is skipped
#   # build: COMMAND   run outside the sandbox first; sees $SRC and $TESTBIN

# All that the host can have; a quick check looks at the default only.
[ "${MOAT_CHECK:-}" = quick ] || PLATFORMS=${PLATFORMS:-ptrace trap notify}
. "$(dirname "$0")/run-compare.sh"
compare_init
programs=$compare_root/tests/programs
export SRC=$programs/src TESTBIN

# program_build NAME SCRIPT: run its build lines.
program_build() {
	local line
	while IFS= read -r line; do
		if ! PATH=$compare_path HOME=$compare_dir bash -c "$line" >"$compare_dir/build.log" 2>&1; then
			compare_fail "$1" build
			tail -n 20 "$compare_dir/build.log" | sed 's/^/    /'
			return 1
		fi
	done < <(sed -n 's/^# build: //p' "$2")
}

# A script may list its $TMPDIR, and /tmp is not empty where a grant or the caller's directory lies below it: so each
# makes a directory of its own.
# shellcheck disable=SC2016
own_tmp='TMPDIR=$(mktemp -d) && HOME=$TMPDIR && exec /bin/bash "$1"'

if [ $# -eq 0 ]; then
	for script in "$programs"/*.sh; do
		set -- "$@" "$(basename "$script" .sh)"
	done
fi
for name; do
	script=$programs/${name%.sh}.sh
	if [ ! -f "$script" ]; then
		echo "$0: no test $name" >&2
		compare_fail "$name" missing
		continue
	fi
	# shellcheck disable=SC2046
	compare_needs "$name" $(sed -n 's/^# needs: //p' "$script") || continue
	program_build "$name" "$script" || continue
	compare_case "$name" "$programs" /bin/bash -c "$own_tmp" "$script" "$script"
done
compare_end
