# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Run one command natively and on moat, and compare what can be seen of it.
# Sourced by the run-*.sh runners, never run by itself.
#
# Theory of operation: a *case* is a name and a command line. It runs once
# natively and once on each platform of $PLATFORMS, each time with a clean
# environment, an empty standard input, no controlling terminal, a fresh empty
# working directory and a fresh $TMPDIR (a directory on a tmpfs natively, the
# sandbox's private /tmp on moat). Its standard output, standard error and exit
# status must be the same byte for byte. A case prints one line:
#
#   ok NAME PLATFORM | FAIL NAME PLATFORM (and a short diff) | skip NAME: REASON
#
# Inputs, all from the environment:
#   MOAT       the launcher (default: build/moat of this tree)
#   PLATFORMS  the platforms to run on (default: ptrace)
#   TESTBIN    where programs are built (default: build/testbin of this tree)
#   TIMEOUT    seconds after which a run counts as hung (default: 300)
#   KEEP       when set, the directory in which all outputs are kept
#   MOAT_MODE  how the launcher was built: with asan or tsan its reports make a
#              case fail, since they are on standard error, and are shown

compare_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
MOAT=${MOAT:-$compare_root/build/moat}
PLATFORMS=${PLATFORMS:-ptrace}
TESTBIN=${TESTBIN:-$compare_root/build/testbin}
TIMEOUT=${TIMEOUT:-300}
CC=${CC:-gcc}
compare_path=/usr/bin:/bin:/usr/sbin:/sbin

# shellcheck source=tests/host-state.sh
. "$compare_root/tests/host-state.sh"

n_passed=0
n_failed=0
n_skipped=0

# A line of output may be known to differ; the runner sets this to a file of
# extended regular expressions, one a line, and matching lines are not compared.
compare_ignore=

# Set to 1, root's native run is below tests/confine.c, where no call reaches the host: for programs (static ones,
# the last word of their command) that make odd calls.
compare_confined=

# confine_build: leaves $TESTBIN/confine.
confine_build() {
	[ "$TESTBIN/confine" -nt "$compare_root/tests/confine.c" ] && return
	"$CC" -std=gnu17 -O1 -g -w -static -o "$TESTBIN/confine.$$" "$compare_root/tests/confine.c" &&
		mv "$TESTBIN/confine.$$" "$TESTBIN/confine"
}

compare_init() {
	if [ ! -x "$MOAT" ]; then
		echo "$0: no launcher at $MOAT: build it with 'make', or set MOAT" >&2
		exit 2
	fi
	MOAT=$(realpath "$MOAT")
	mkdir -p "$TESTBIN" || exit 2
	TESTBIN=$(realpath "$TESTBIN")
	if [ -d /dev/shm ] && [ -w /dev/shm ]; then
		compare_dir=$(mktemp -d /dev/shm/moat-test.XXXXXX) || exit 2
	else
		compare_dir=$(mktemp -d) || exit 2
	fi
	if [ -n "${KEEP:-}" ]; then
		mkdir -p "$KEEP" || exit 2
	fi
	# Memory is limited on purpose; leaks a sentry cannot look for, with its filter in place.
	compare_san=()
	case ${MOAT_MODE:-} in
	asan) compare_san=("ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0:${ASAN_OPTIONS:-}" UBSAN_OPTIONS=print_stacktrace=1) ;;
	tsan) compare_san=("TSAN_OPTIONS=halt_on_error=0:exitcode=66:${TSAN_OPTIONS:-}") ;;
	esac
	trap 'chmod -R u+rwx "$compare_dir" 2>/dev/null; rm -rf "$compare_dir"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	umask 022
	ulimit -c 0
	# Below nice(1) a native program may not set what a guest's root may.
	renice -n 0 -p "$$" >/dev/null 2>&1
}

# compare_end: print the count, and succeed only if nothing failed.
compare_end() {
	echo "$n_passed passed, $n_failed failed, $n_skipped skipped"
	[ "$n_failed" -eq 0 ]
}

compare_skip() {
	echo "skip $1: $2"
	n_skipped=$((n_skipped + 1))
}

compare_fail() {
	echo "FAIL $1 $2"
	n_failed=$((n_failed + 1))
}

# compare_needs NAME PROG...: true if all are installed, else says skip.
compare_needs() {
	local name=$1 prog
	shift
	for prog; do
		case $prog in
		/*) [ -e "$prog" ] && continue ;;
		*) PATH=$compare_path command -v "$prog" >/dev/null && continue ;;
		esac
		compare_skip "$name" "$prog is not installed"
		return 1
	done
}

# run_native OUT ARG...: leaves OUT.out, OUT.err and OUT.rc.
run_native() {
	local out=$1
	shift
	mkdir -p "$out.tmp" "$out.cwd"
	[ -z "$compare_confined" ] || [ "$(id -u)" != 0 ] || set -- "$TESTBIN/confine" "${@: -1}"
	(
		cd "$out.cwd" || exit 126
		env -i PATH=$compare_path HOME="$out.tmp" TMPDIR="$out.tmp" LANG=C.UTF-8 \
			TERM=dumb TESTBIN="$TESTBIN" \
			setsid -w timeout -k 5 "$TIMEOUT" "$@"
	) </dev/null >"$out.out" 2>"$out.err"
	echo $? >"$out.rc"
	chmod -R u+rwx "$out.tmp" 2>/dev/null
	rm -rf "$out.tmp" "$out.cwd"
}

# run_moat OUT PLATFORM RO-DIR ARG...: the same on moat; RO-DIR is where the test lives.
run_moat() {
	local out=$1 platform=$2 ro=$3 grants
	shift 3
	grants=(--ro "$ro")
	[ "$ro" = "$TESTBIN" ] || grants+=(--ro "$TESTBIN")
	mkdir -p "$out.cwd"
	(
		cd "$out.cwd" || exit 126
		env -i PATH=$compare_path HOME=/tmp TMPDIR=/tmp LANG=C.UTF-8 TERM=dumb \
			TESTBIN="$TESTBIN" "${compare_san[@]}" \
			setsid -w timeout -k 5 "$TIMEOUT" "$MOAT" run --platform "$platform" \
			"${grants[@]}" --env PATH=$compare_path --env HOME=/tmp \
			--env TMPDIR=/tmp --env LANG=C.UTF-8 --env TERM=dumb \
			--env TESTBIN="$TESTBIN" -- "$@"
	) </dev/null >"$out.out" 2>"$out.err"
	echo $? >"$out.rc"
	rm -rf "$out.cwd"
}

# What is compared of a run, as one text.
compare_render() {
	local status
	read -r status <"$1.rc"
	if [ -n "$compare_ignore" ]; then
		grep -avEf "$compare_ignore" "$1.out"
	else
		cat "$1.out"
	fi
	sed 's/^/stderr: /' "$1.err"
	case $status in
	124 | 137) echo "exit status: $status (killed, perhaps for taking over $TIMEOUT s)" ;;
	*) echo "exit status: $status" ;;
	esac
}

# What a sanitizer reported, if it did.
compare_report() {
	grep -qE 'Sanitizer:|runtime error:' "$1" || return 0
	sed -n '/Sanitizer:\|runtime error:/,$p' "$1" | "$compare_root/tools/name-frames.sh" "$MOAT" |
		grep -avE '^  0x|^=>0x' | head -n 60 | cut -c 1-200 | sed 's/^/    /'
}

# compare_case NAME RO-DIR ARG...
compare_case() {
	local name=$1 ro=$2 platform
	local dir=$compare_dir/$name
	shift 2
	rm -rf "$dir"
	mkdir -p "$dir"
	if [ -n "$compare_confined" ]; then
		confine_build || { compare_fail "$name" build; return; }
		host_state_begin
	fi
	run_native "$dir/native" "$@"
	if [ -n "$compare_confined" ]; then
		host_state_same || { compare_fail "$name" native; return; }
		[ "$(cat "$dir/native.rc")" = 77 ] && { compare_skip "$name" "$(tail -n 1 "$dir/native.out" | cut -c 1-200)"; return; }
	fi
	compare_render "$dir/native" >"$dir/native.txt"
	# A test that does not work natively proves nothing about moat.
	if grep -qxE 'exit status: (12[4-7]|13[4-9]).*' "$dir/native.txt"; then
		compare_fail "$name" native
		tail -n 10 "$dir/native.txt" | sed 's/^/    /'
		return
	fi
	for platform in $PLATFORMS; do
		run_moat "$dir/$platform" "$platform" "$ro" "$@"
		compare_render "$dir/$platform" >"$dir/$platform.txt"
		if cmp -s "$dir/native.txt" "$dir/$platform.txt"; then
			echo "ok $name $platform"
			n_passed=$((n_passed + 1))
		else
			compare_fail "$name" "$platform"
			diff -a -U1 --label native --label "$platform" "$dir/native.txt" \
				"$dir/$platform.txt" | head -n 40 | cut -c 1-200 | sed 's/^/    /'
			compare_report "$dir/$platform.err"
		fi
	done
	if [ -n "${KEEP:-}" ]; then
		rm -rf "${KEEP:?}/$name"
		mkdir -p "$KEEP/$name"
		cp "$dir"/*.txt "$KEEP/$name/"
	fi
	rm -rf "$dir"
}
