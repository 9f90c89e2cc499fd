#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# File locks that reach out of the sandbox: record locks and flock of guests against those of the host's programs and
# of a second sandbox (tests/locks/contend.py).
# MOAT, PLATFORMS, TESTBIN, CC: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
needs_python3 locks
begin_on ptrace trap notify
mkdir "$dir/bin"
${CC:-gcc} -std=gnu17 -O1 -Wall -Wextra -static -o "$dir/bin/agent" tests/locks/agent.c || exit 1
for p in $PLATFORMS; do
	"$MOAT" run --platform "$p" -- /bin/true 2>/dev/null || { skip "locks: no platform $p"; continue; }
	out=$(timeout -k 5 600 tests/locks/contend.py "$MOAT" "$p" "$dir/bin/agent" "$dir" 2>&1)
	last=$(tail -n 1 <<<"$out")
	if [[ $last =~ ^([1-9][0-9]*)" passed, "([0-9]+)" failed"$ ]]; then
		head -n -1 <<<"$out"
		passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
	else
		echo "$out"
		bad "$p: it did not come to its end"
	fi
done
end
