#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# House rules that no other tool knows: an SPDX line first, files of one subject below 1,200 lines, no
# file named after a lack of subject.
set -u
cd "$(dirname "$0")/.."
bad=0
say() {
	echo "$*"
	bad=1
}
for f in $(find base platform vfs netstack loader sentry runtime tests bench tools -name '*.[chS]' -o \
	-name '*.sh' -o -name '*.mk' -o -name '*.def') Makefile .ci/run; do
	head -n 3 "$f" | grep -q 'SPDX-License-Identifier: Apache-2.0' || say "$f: no SPDX line at the top"
	case $f in
	# Written elsewhere, or data.
	tests/programs/*) continue ;;
	esac
	lines=$(wc -l <"$f")
	[ "$lines" -le 1200 ] || say "$f: $lines lines: more than one subject?"
	case ${f##*/} in
	*util* | *misc* | *common* | *helper*) say "$f: name the subject" ;;
	esac
done
exit $bad
