#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every fuzzer for FUZZ_SECONDS (60), from its corpus and a fixed seed, as many at once as there are processors. What
# one finds is kept in $FUZZ_KEEP (build/fuzz-found) and is a failure; corpora that grow are kept in build/fuzz-corpus.
#   make fuzz-short               60 s each
#   make fuzz FUZZ_SECONDS=3600   longer, each time with another seed
# FUZZ_ONLY: names; FUZZ_SEED: another seed.
set -u
cd "$(dirname "$0")/.." || exit 2
O=${MOAT_BUILD:-build/rel} O=${O%/*}
seconds=${FUZZ_SECONDS:-60}
keep=${FUZZ_KEEP:-$O/fuzz-found}
if ! command -v clang >/dev/null || ! echo 'int main(void){return 0;}' | clang -fsanitize=fuzzer-no-link -x c - -o /dev/null 2>/dev/null; then
	echo "skipped: no clang with libFuzzer here (apt-get install clang libclang-rt-14-dev)"
	echo "0 passed, 0 failed, 1 skipped"
	exit 0
fi
make -j"$(nproc)" --no-print-directory m=fuzz "O=$O" fuzz-build || exit 1
mkdir -p "$keep" "$O/fuzz-corpus"
# Suspended fibers hold memory that the leak check cannot see.
export ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:${ASAN_OPTIONS:-}"
one() {
	local name=$1 len=4096
	case $name in
	site) len=66 ;;
	syscall) len=1024 ;;
	archive | elf) len=16384 ;;
	esac
	mkdir -p "$O/fuzz-corpus/$name"
	# The limits on time and memory of one input are for hangs and leaks, not for a slow machine.
	if "$O/fuzz/fuzz/fuzz_$name" -seed="${FUZZ_SEED:-1}" -max_total_time="$seconds" -max_len=$len -timeout=300 \
		-rss_limit_mb=6000 -artifact_prefix="$keep/$name-" -print_final_stats=1 \
		"$O/fuzz-corpus/$name" "tests/fuzz/corpus/$name" >"$keep/$name.log" 2>&1; then
		echo "ok $name: $(sed -n 's/^stat::number_of_executed_units: //p' "$keep/$name.log") inputs in $seconds s," \
			"$(grep -o 'cov: [0-9]*' "$keep/$name.log" | tail -n 1)"
	else
		echo "FAIL $name: see $keep/$name.log and $keep/$name-*"
		grep -aE '^moat: error|ERROR|runtime error|^ +#[0-9]+ ' "$keep/$name.log" | head -n 20
	fi
}
names=()
for src in tests/fuzz/fuzz_*.c; do
	name=${src##*/fuzz_} name=${name%.c}
	[ -n "${FUZZ_ONLY:-}" ] && [[ " $FUZZ_ONLY " != *" $name "* ]] && continue
	mkdir -p "tests/fuzz/corpus/$name"
	names+=("$name")
done
out=$(mktemp)
export -f one
export O keep seconds
printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I{} bash -c 'one {}' | tee "$out"
passed=$(grep -c '^ok ' "$out")
failed=$((${#names[@]} - passed))
rm -f "$out"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
