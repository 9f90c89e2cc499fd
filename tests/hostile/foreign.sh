#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What somebody on the host changes in a granted directory between two calls of a guest is seen by the
# second: 3,000 changes, in lock-step over pipes (foreign_peer.c).
# From run-hostile.sh: MOAT, PLATFORM, TESTBIN, WORK (an empty directory).
cd "$WORK" || exit 1
status=0
for grant in ro rw; do
	rm -rf tree questions answers
	mkdir tree
	mkfifo questions answers
	timeout 150 "$MOAT" run --platform "$PLATFORM" "--$grant" "$WORK/tree:/tree" --ro "$TESTBIN:/bin-of-test" \
		--cwd /tree -- /bin-of-test/hostile_foreign_peer guest <questions >answers &
	if ! timeout 150 "$TESTBIN/hostile_foreign_peer" host tree 3000 >questions <answers; then
		echo "with --$grant"
		status=1
	fi
	wait $! || status=1
done
exit $status
