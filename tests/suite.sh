# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What suites that look from the host share; to be sourced in the root of the repository: counting, the last line, and
# where they work.
passed=0 failed=0 skipped=0
ok() { passed=$((passed + 1)); }
bad() {
	echo "FAIL $*"
	failed=$((failed + 1))
}
skip() { # WHAT: why not
	echo "skip $*"
	skipped=$((skipped + 1))
}
want() { # WHAT GOT WANTED
	if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: '$2' instead of '$3'"; fi
}
is() { want "$1" "$3" "$2"; } # WHAT WANTED GOT
# STATUS-OF-THE-TEST WHAT: the status first, since a $(...) in what is said would leave its own.
check() {
	if [ "$1" = 0 ]; then ok "$2"; else bad "$2"; fi
}
end() {
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed = 0 ]
	exit
}
needs_python3() { # SUITE
	command -v python3 >/dev/null && return
	skip "$1: no python3"
	end
}
# begin_on PLATFORM…: leaves MOAT; PLATFORMS, these unless it is set; $bin, where programs are built; $dir, a new folder
# in there, which goes at the end.
begin_on() {
	MOAT=$(realpath "${MOAT:-build/moat}")
	PLATFORMS=${PLATFORMS:-$*}
	bin=${TESTBIN:-$PWD/build/testbin}
	mkdir -p "$bin"
	bin=$(realpath "$bin")
	dir=$(mktemp -d -p "$bin") || exit 2
	trap 'rm -rf "$dir"' EXIT
}
# begin_in NAME: leaves MOAT; $platform, the first of PLATFORMS; $dir, a new folder outside of /tmp, which goes at the
# end, and is the working directory from here on. Any user may search it: what the guest's may do is not what is tested.
begin_in() {
	MOAT=$(realpath "${MOAT:-build/moat}")
	platform=${PLATFORMS:-trap}
	platform=${platform%% *}
	export LC_ALL=C
	dir=$(mktemp -d "${TESTBIN:-/var/tmp}/moat-$1-XXXXXX") || exit 2
	trap 'rm -rf "$dir"' EXIT
	chmod 755 "$dir"
	cd "$dir" || exit 2
}
