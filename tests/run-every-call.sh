#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# No call is missed: a program counts the calls that it makes from call sites of every kind (libc's, static,
# opened at run time, made at run time, bare instructions, from threads, children, handlers, the vsyscall page),
# hot enough to be rewritten where a platform does that, and `moat run --stats` and --strace must say the same.
# MOAT, PLATFORMS, TESTBIN, CC: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
begin_on ptrace trap
CC=${CC:-gcc}

source=tests/stats/every_call.c
flags="-std=gnu17 -O1 -Wall -Wextra -pthread"
# shellcheck disable=SC2086
$CC $flags -o "$bin/every-call" $source -ldl &&
	$CC $flags -DSTATIC -static -o "$bin/every-call-static" $source &&
	$CC $flags -DPART -shared -fPIC -o "$bin/every-call-part.so" $source || exit 1
echo '#include <asm/unistd.h>' | $CC -E -dM - | sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$/\2 \1/p' \
	>"$dir/names"

# served HOW: "name calls errors" of what the run in $dir/err served.
served() {
	case $1 in
	stats) awk 'NR > 1 && $2 ~ /^[0-9]+$/ && $3 ~ /^[0-9]+$/ { print $1, $2, $3 }' "$dir/err" ;;
	strace) awk 'match($0, /^[0-9]+ +[a-z0-9_]+\(/) {
			name = $2
			sub(/\(.*/, "", name)
			calls[name]++
			errors[name] += $0 ~ /= -1 E[A-Z0-9]+ \([^()]*\)$/
		}
		END { for (n in calls) print n, calls[n], errors[n] }' "$dir/err" ;;
	esac
}

counts() { # PLATFORM HOW PROGRAM ARG...
	local p=$1 how=$2
	shift 2
	if ! timeout 100 "$MOAT" run --platform "$p" "--$how" --ro "$bin" --cwd / -- "$@" >"$dir/out" 2>"$dir/err"; then
		bad "$p $how $(basename "$1"): it did not end well"
		tail -n 3 "$dir/err" | cut -c 1-200
		return
	fi
	served "$how" >"$dir/served"
	if awk '
		FILENAME == ARGV[1] { name[$1] = $2; next }
		FILENAME == ARGV[2] { calls[$1] = $2; errors[$1] = $3; next }
		{
			n = name[$1]
			checked++
			if ($2 == $3 ? errors[n] != $3 : calls[n] != $2 || errors[n] != $3) {
				printf "    %s: %d made, %d of them in vain; served %d, %d\n", n, $2, $3, calls[n], errors[n]
				bad = 1
			}
		}
		END { exit bad || checked < 20 }' "$dir/names" "$dir/served" "$dir/out"; then ok; else bad "$p $how $(basename "$1")"; fi
}

for p in $PLATFORMS; do
	for how in stats strace; do
		counts "$p" $how "$bin/every-call" "$bin/every-call-part.so"
		counts "$p" $how "$bin/every-call-static"
	done
done
end
