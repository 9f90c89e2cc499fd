#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# LTP's syscall tests on moat, by the runner and list in $CONFORMANCE (a folder
# with ltp_run.py, ltp_report.py and ltp_subset.txt; default: shared/conformance
# beside the repository), with LTP installed at $LTPROOT.
# Usage: tests/conformance/run-ltp.sh [--only REGEX]
#
#   LTPROOT      where LTP is installed; without it the suite is skipped
#   LTP_RATE     per cent that must pass (default 77)
#   LTP_JOBS     tests at a time (default 2)
#   LTP_OUT      where the results go (default: build/ltp of this tree)
#   MOAT, PLATFORMS as for the other runners

root=$(cd "$(dirname "$0")/../.." && pwd -P)
MOAT=${MOAT:-$root/build/moat}
PLATFORMS=${PLATFORMS:-ptrace}
CONFORMANCE=${CONFORMANCE:-$root/../shared/conformance}
LTP_OUT=${LTP_OUT:-$root/build/ltp}
rate=${LTP_RATE:-77}

skip() {
	echo "skip ltp: $1"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
}

[ -n "${LTPROOT:-}" ] || skip "LTPROOT does not say where LTP is installed"
[ -d "$LTPROOT/testcases/bin" ] || skip "no LTP at $LTPROOT"
[ -f "$CONFORMANCE/ltp_run.py" ] || skip "no runner at $CONFORMANCE (set CONFORMANCE)"
if [ ! -x "$MOAT" ]; then
	echo "$0: no launcher at $MOAT: build it with 'make', or set MOAT" >&2
	exit 2
fi
mkdir -p "$LTP_OUT" || exit 2

passed=0 failed=0
run() {
	python3 "$CONFORMANCE/ltp_run.py" --list "$CONFORMANCE/ltp_subset.txt" --ltproot "$LTPROOT" \
		--jobs "${LTP_JOBS:-2}" "$@"
}

# A native run made once serves every platform.
native=$LTP_OUT/native.tsv
if [ ! -s "$native" ] || [ $# -gt 0 ]; then
	[ $# -eq 0 ] || native=$LTP_OUT/native-part.tsv
	run --out "$native" "$@" >"$LTP_OUT/native.log" 2>&1 || true
fi
for platform in $PLATFORMS; do
	out=$LTP_OUT/$platform.tsv
	run --out "$out" --guest-tmp /tmp --timeout 20 \
		--prefix "$MOAT run --platform $platform --ro $LTPROOT --" "$@" >"$LTP_OUT/$platform.log" 2>&1 || true
	# A pass is one with as many TPASS lines as natively, of a test that passes natively.
	counts=$(awk -F '\t' '
		/^#/ { next }
		FNR == NR { if ($2 == "PASS") { native[$1] = $5 + 0; of++ } next }
		($1 in native) && $2 == "PASS" && $5 + 0 >= native[$1] { pass++ }
		($1 in native) && $2 == "PASS" && $5 + 0 < native[$1] { print $1, "fewer passes than natively" >"/dev/stderr" }
		($1 in native) && $2 != "PASS" { print $1, $2 >"/dev/stderr" }
		END { print pass + 0, of + 0 }' "$native" "$out" 2>"$LTP_OUT/$platform.failed")
	pass=${counts% *} of=${counts#* }
	percent=$(awk -v p="$pass" -v o="$of" 'BEGIN { printf "%.1f", o ? 100 * p / o : 0 }')
	if [ -f "$CONFORMANCE/ltp_report.py" ]; then
		python3 "$CONFORMANCE/ltp_report.py" "$out" "$native" 2>&1 | head -n 60
	fi
	echo "ltp $platform: $pass of $of that pass natively, $percent % (asked for: $rate %); the rest is in $LTP_OUT/$platform.failed"
	if awk -v p="$percent" -v r="$rate" 'BEGIN { exit !(p >= r) }'; then
		echo "ok ltp $platform"
		passed=$((passed + 1))
	else
		echo "FAIL ltp $platform"
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
