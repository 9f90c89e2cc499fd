#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Differential tests: build each tests/guest/NAME.c, run it natively and on
# moat, and compare. Usage: tests/run-guest.sh [NAME...] (default: all).
# See run-compare.sh for the variables and for what is compared.
#
# A source may say "guest-flags: FLAGS" in a comment (for example -static), "guest-native: confined" if it
# makes odd calls (static ones only; run-compare.sh), and
# tests/guest/NAME.expect-diff may list lines that are known to differ, each as
# an extended regular expression followed by a tab and the reason.

# All that the host can have; a quick check looks at the default only.
[ "${MOAT_CHECK:-}" = quick ] || PLATFORMS=${PLATFORMS:-ptrace trap notify}
. "$(dirname "$0")/run-compare.sh"
compare_init
# They pass bad arguments on purpose.
quiet="-Wno-nonnull -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds \
-Wno-format-truncation -Wno-unused-result -Wno-overflow"
guest=$compare_root/tests/guest

# guest_build NAME: leaves $TESTBIN/guest_NAME.
guest_build() {
	local source=$guest/$1.c program=$TESTBIN/guest_$1 flags newest
	newest=$(ls -t "$source" "$guest"/*.h | head -n 1)
	[ "$program" -nt "$newest" ] && return 0
	flags=$(sed -n 's/.*guest-flags: \([^*]*\).*/\1/p' "$source")
	# shellcheck disable=SC2086
	if ! "$CC" -std=gnu17 -O1 -g -Wall -Wextra $quiet -pthread $flags -o "$program.new" "$source" \
		>"$compare_dir/build.log" 2>&1; then
		compare_fail "$1" build
		tail -n 20 "$compare_dir/build.log" | sed 's/^/    /'
		return 1
	fi
	mv "$program.new" "$program"
}

if [ $# -eq 0 ]; then
	for source in "$guest"/*.c; do
		set -- "$@" "$(basename "$source" .c)"
	done
fi
for name; do
	name=${name%.c}
	if [ ! -f "$guest/$name.c" ]; then
		echo "$0: no test $name" >&2
		compare_fail "$name" missing
		continue
	fi
	guest_build "$name" || continue
	compare_confined=
	grep -q 'guest-native: confined' "$guest/$name.c" && compare_confined=1
	compare_ignore=
	if [ -f "$guest/$name.expect-diff" ]; then
		compare_ignore=$compare_dir/$name.ignore
		grep -v -e '^#' -e '^$' "$guest/$name.expect-diff" | cut -f 1 >"$compare_ignore"
	fi
	# Below a shell, so that no program is the first of its pid name space, which has rules of its own.
	# shellcheck disable=SC2016
	compare_case "$name" "$TESTBIN" /bin/sh -c '"$0"; exit $?' "$TESTBIN/guest_$name"
done
compare_end
