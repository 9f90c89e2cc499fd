# SPDX-License-Identifier: Apache-2.0
#
# What suites that look from the host share; to be sourced: counting, and the last line.
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
bad() {
	echo "FAILED $*"
	failed=$((failed + 1))
}
skip() { # WHAT: why not
	echo "skipped $*"
	skipped=$((skipped + 1))
}
want() { # WHAT GOT WANTED
	if [ "$2" = "$3" ]; then ok; else bad "$1: $2 instead of $3"; fi
}
end() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed = 0 ]
	exit
}
