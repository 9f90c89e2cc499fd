#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Names the frames in a sanitizer's report, which a sentry that has locked itself down cannot do: in standard input
# "(…/moat+0x1234)" becomes function, file and line. Argument: the launcher that made the report.
set -eu
[ $# = 1 ] || { echo "usage: $0 MOAT <REPORT" >&2; exit 2; }
report=$(cat)
base=$(basename "$1")
mapfile -t at < <(grep -oE "$base\+0x[0-9a-f]+" <<<"$report" | sed 's/.*+//' | sort -u)
if [ ${#at[@]} = 0 ]; then
	printf '%s\n' "$report"
	exit
fi
root=$(cd "$(dirname "$0")/.." && pwd -P)/
sed -E -f <(paste <(printf '%s\n' "${at[@]}") <(addr2line -fpe "$1" "${at[@]}" | sed "s#$root##g") |
	sed -E 's/[@&\\]/./g; s/^([^\t]*)\t(.*)$/s@\\([^()]*\\+\1\\)@\2@/') <<<"$report"
