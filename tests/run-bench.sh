#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The benchmark itself: that it computes what it says, measures each platform, counts their host calls, tells the
# parts of calls, and names what it leaves out. No figure of this machine is looked at.
# MOAT, PLATFORMS, TESTBIN: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
needs_python3 bench
begin_on ptrace trap notify
python=$(python3 -c 'import sys; print(sys.executable)')

out=$("$python" tests/bench/test_figures.py)
echo "$out"
if [[ $(tail -n 1 <<<"$out") =~ ^[1-9][0-9]*" passed, 0 failed"$ ]]; then ok; else bad "test_figures.py"; fi

micro=$dir/micro
${CC:-gcc} -static -pthread -std=gnu17 -O2 -D_GNU_SOURCE -I. -o "$micro" bench/micro*.c || exit 1
# Each operation works natively, and so often as it should.
ops=$("$micro" --list)
is "operations" "$(wc -l <<<"$ops")" "$("$micro" --repeat 3 --dir "$dir" --self "$micro" | grep -c ' 3\.00$')"
is "--only" "lseek 5.00" "$("$micro" --only lseek --repeat 5 --dir "$dir")"
is "--profile" 13 "$("$micro" --profile 10 --dir "$dir" | grep -cE '^[a-z0-9_/]+ [0-9.]+$')"
is "nothing left" "micro" "$(ls "$dir")"

# Without peers and without gnuplot; of moat what works here.
mkdir "$dir/path"
works=
for p in $PLATFORMS; do
	if "$MOAT" run --platform "$p" -- /bin/true 2>/dev/null; then
		works+=" moat-$p"
	else
		skipped=$((skipped + 1))
	fi
done
targets=native${works// /,}
timeout 120 env PATH="$dir/path" "$python" bench/run.py --moat "$MOAT" --micro "$micro" --out "$dir/out" --quick --rounds 1 \
	--few 1 --ops lseek --phases cold,memory,micro,calls,parts --targets "$targets" >"$dir/said" 2>&1
is "status" 0 $?
for what in pictures 'host calls of others than the sentry'; do
	is "$what is left out" 1 "$(grep -c "^left out: $what: " "$dir/said")"
done
samples() {
	awk -F , -v kind="$1" -v target="$2" '$1 == kind && $3 == target && $4 != "failed"' "$dir/out/samples.csv" | wc -l
}
for t in native$works; do
	for kind in cold micro memory idle; do
		is "$kind of $t" 1 "$(samples $kind "$t")"
	done
	is "single calls of $t" 12 "$(samples whole "$t")"
	[ "$t" = native ] && continue
	is "host calls of $t's sentry" 1 "$(samples sentry_calls "$t")"
	# Six calls: five parts and the whole, or with a stub nine and the whole in both ways.
	case $t in
	moat-trap) is "parts of $t's calls" 120 "$(samples parts "$t")" ;;
	*) is "parts of $t's calls" 36 "$(samples parts "$t")" ;;
	esac
done
is "failures" "" "$(grep ,failed, "$dir/out/samples.csv")"
timeout 60 "$python" bench/run.py --moat /nowhere/moat --micro "$micro" --out "$dir/out" --quick --rounds 1 --phases cold \
	--targets moat >"$dir/said" 2>&1
is "status without a moat" 0 $?
is "what it says of it" "left out: moat: /nowhere/moat is not there" "$(grep 'left out: moat' "$dir/said")"
timeout 60 "$python" bench/run.py --moat "$MOAT" --micro "$micro" --out "$dir/out" --phases nothing >"$dir/said" 2>&1
is "status of an unknown phase" 2 $?
end
