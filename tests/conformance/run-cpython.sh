#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Modules of CPython's own test suite (package libpython3.11-testsuite), run
# natively and on moat; the sets of tests that fail or err must be the same.
# Usage: tests/conformance/run-cpython.sh [MODULE...] (default: those below).
#
#   MOAT, PLATFORMS as for the other runners
#   CPYTHON_TIMEOUT seconds a module may take on moat (default 1200)
#   CPYTHON_OUT     where the logs go (default: build/cpython of this tree)
#
# Tests that need a network are left out ("-u none" switches resources off);
# cpython.expect-diff beside this file lists, one a line, tests that may fail on
# moat only, each followed by a tab and the reason.

root=$(cd "$(dirname "$0")/../.." && pwd -P)
MOAT=${MOAT:-$root/build/moat}
PLATFORMS=${PLATFORMS:-ptrace}
CPYTHON_OUT=${CPYTHON_OUT:-$root/build/cpython}
CPYTHON_TIMEOUT=${CPYTHON_TIMEOUT:-1200}
python=/usr/bin/python3
path=/usr/bin:/bin:/usr/sbin:/sbin
accepted=$(dirname "$0")/cpython.expect-diff

modules=(test_os test_posix test_subprocess test_signal test_threading test_select test_mmap
	test_fcntl test_pty test_tempfile test_shutil test_pathlib test_io test_asyncio
	test_multiprocessing_fork test_sqlite3 test_epoll test_eintr test_time test_unicode_file
	test_zipfile)
[ $# -eq 0 ] || modules=("$@")

if ! "$python" -c 'import sys, test.test_os; assert sys.version_info[:2] == (3, 11)' 2>/dev/null; then
	echo "skip cpython: $python 3.11 with libpython3.11-testsuite is not installed"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
if [ ! -x "$MOAT" ]; then
	echo "$0: no launcher at $MOAT: build it with 'make', or set MOAT" >&2
	exit 2
fi
mkdir -p "$CPYTHON_OUT" || exit 2
cwd=$(mktemp -d) || exit 2
trap 'rm -rf "$cwd"' EXIT

# cpython_failures LOG: the tests that failed or erred, and whether it ended at all.
cpython_failures() {
	# Only the headings of the reports at a run's end; a "name ... FAIL" line may be torn by output.
	grep -aE '^(FAIL|ERROR): ' "$1" | sed -E 's/^(FAIL|ERROR): //; s/ \[.*//; s/ \((i|msg)=.*//' | sort -u
	grep -aqE '^Ran [0-9]+ test|^test_[a-z0-9_]+ skipped|^(Result|Tests result): ' "$1" || echo 'the run did not end'
}

# cpython_command MODULE: sets $command. The suite runs single tests in a directory of their own.
cpython_command() {
	# Without TCP these wait for ever: for a peer that could not start, or because they leave a child
	# behind that keeps the fork server alive.
	command=("$python" -m test -v -u none --tempdir /tmp -i '*test_drain_raises*' -i '*TestTimeouts*'
		-i '*TestPicklingConnections.test_pickling' "$1")
}

passed=0 failed=0 skipped=0
for module in "${modules[@]}"; do
	if ! "$python" -c "import importlib.util as u, sys; sys.exit(not u.find_spec('test.$module'))"; then
		echo "skip $module: not in the installed libpython3.11-testsuite"
		skipped=$((skipped + 1))
		continue
	fi
	cpython_command "$module"
	log=$CPYTHON_OUT/$module.native.log
	if [ ! -s "$log" ]; then
		(cd "$cwd" && env -i PATH=$path HOME=/tmp TMPDIR=/tmp LANG=C.UTF-8 TERM=dumb \
			setsid -w timeout -k 10 "$CPYTHON_TIMEOUT" "${command[@]}") </dev/null >"$log" 2>&1
	fi
	cpython_failures "$log" >"$CPYTHON_OUT/$module.native"
	for platform in $PLATFORMS; do
		log=$CPYTHON_OUT/$module.$platform.log
		start=$SECONDS
		(cd "$cwd" && env -i PATH=$path HOME=/tmp TMPDIR=/tmp LANG=C.UTF-8 TERM=dumb \
			setsid -w timeout -k 10 "$CPYTHON_TIMEOUT" "$MOAT" run --platform "$platform" \
			--env PATH=$path --env HOME=/tmp --env TMPDIR=/tmp --env LANG=C.UTF-8 \
			--env TERM=dumb -- "${command[@]}") </dev/null >"$log" 2>&1
		cpython_failures "$log" >"$CPYTHON_OUT/$module.$platform"
		new=$(comm -13 "$CPYTHON_OUT/$module.native" "$CPYTHON_OUT/$module.$platform")
		gone=$(comm -23 "$CPYTHON_OUT/$module.native" "$CPYTHON_OUT/$module.$platform")
		if [ -f "$accepted" ] && [ -n "$new" ]; then
			new=$(grep -vxFf <(grep -v '^#' "$accepted" | cut -f 1) <<<"$new")
		fi
		ran=$(grep -aoE '^Ran [0-9]+ tests?' "$log" | awk '{ s += $2 } END { print s + 0 }')
		if [ -z "$new" ]; then
			echo "ok $module $platform ($ran tests, $((SECONDS - start)) s)"
			passed=$((passed + 1))
		else
			echo "FAIL $module $platform ($ran tests, $((SECONDS - start)) s), only on moat:"
			head -n 60 <<<"$new" | sed 's/^/    /'
			failed=$((failed + 1))
		fi
		[ -z "$gone" ] || sed 's/^/    fails natively only: /' <<<"$gone"
	done
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
