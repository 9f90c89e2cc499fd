#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Clocks and chance: with --clock=virtual and --seed a run gives the same bytes twice, whatever it asks for; another
# seed gives others; the other clocks are what they say; wrong ones are told.
# MOAT, PLATFORMS, TESTBIN: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
begin_on trap ptrace notify
ok() {
	echo "ok $*"
	passed=$((passed + 1))
}
run() {
	timeout 120 "$MOAT" run --ro "$dir" --cwd / "$@" </dev/null
}
cp tests/determinism/all.* "$dir" || exit 2
${CC:-gcc} -std=gnu17 -O2 -Wall -Wextra -pthread -o "$dir/all" tests/determinism/all.c || exit 2

# twice NAME PROG...: the same on each platform; without the seed, or with another, not.
twice() {
	local name=$1 p
	shift
	for p in $PLATFORMS; do
		for i in 1 2; do
			run --platform "$p" --clock=virtual --seed=7 -- "$@" >"$dir/out.$i" 2>&1
			echo "status $?" >>"$dir/out.$i"
		done
		if ! grep -q '^status 0$' "$dir/out.1" || ! [ "$(wc -l <"$dir/out.1")" -gt 5 ]; then
			bad "$name $p: $(tail -n 3 "$dir/out.1")"
		elif cmp -s "$dir/out.1" "$dir/out.2"; then
			ok "$name $p"
		else
			bad "$name $p: differs"
			diff "$dir/out.1" "$dir/out.2" | cut -c 1-200 | head -n 20
		fi
	done
	run --platform "$p" --clock=virtual --seed=8 -- "$@" >"$dir/out.2" 2>&1
	if cmp -s "$dir/out.1" "$dir/out.2"; then bad "$name: another seed, the same"; else ok "$name: another seed"; fi
	run --platform "$p" --clock=virtual -- "$@" >"$dir/out.1" 2>&1
	run --platform "$p" --clock=virtual -- "$@" >"$dir/out.2" 2>&1
	if cmp -s "$dir/out.1" "$dir/out.2"; then bad "$name: no seed, the same"; else ok "$name: no seed"; fi
}
# have PROG
have() {
	command -v "$1" >/dev/null && return 0
	skip "$1: it is not installed"
	return 1
}

twice c "$dir/all"
twice bash bash "$dir/all.sh"
have python3 && twice python python3 "$dir/all.py"
have perl && twice perl perl "$dir/all.pl"
have node && twice node node "$dir/all.mjs"

# What a seed alone fixes is what does not depend on time.
layout='cat /proc/self/maps; od -An -x -N 32 /dev/urandom; cat /proc/sys/kernel/random/boot_id; mktemp -u XXXXXXXX'
is "seed, host's clock" "$(run --seed=3 -- sh -c "$layout")" "$(run --seed=3 -- sh -c "$layout")"
# All of it is the guest's: see also the unit test random/the_seed_is_the_guests.

for p in $PLATFORMS; do
	# Hours in no time; when nothing waits for the clock, it stands.
	is "sleep $p" "1767225600 1767229200 1767229200" \
		"$(run --platform "$p" --clock=virtual -- sh -c 'a=$(date +%s); sleep 3600; b=$(date +%s); echo $a $b $(date +%s)')"
	is "virtual:WHEN $p" 2000-02-29 "$(run --platform "$p" --clock=virtual:2000-02-29T23:00:00Z -- date -u +%F)"
	is "fixed $p" "1000000000.500000000 1000000000.500000000" \
		"$(run --platform "$p" --clock=fixed:@1000000000.5 -- sh -c 'a=$(date +%s.%N); sleep 0.01; echo $a $(date +%s.%N)')"
	# Sleeps are the host's.
	is "fixed, monotonic $p" grown \
		"$(run --platform "$p" --clock=fixed:7 -- sh -c 'read a b </proc/uptime; sleep 0.1; read c d </proc/uptime; [ $a != $c ] && echo grown')"
	a=$(date +%s)
	b=$(run --platform "$p" --clock=offset:-2d -- date +%s)
	c=$(date +%s)
	if [ "$b" -ge $((a - 172800)) ] && [ "$b" -le $((c - 172800)) ]; then ok "offset $p"; else bad "offset $p: $b"; fi
done

# What waits for the host waits for it; time is not spent on that.
is "input" "1767225600 late 1767225600" \
	"$( (sleep 0.3; echo late) | timeout 120 "$MOAT" run --clock=virtual --cwd / -- sh -c 'a=$(date +%s); read -r x; echo $a $x $(date +%s)')"
slow='(sleep 3; echo slept) & i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i + 1)); done; wait'
is "output that is taken late" "$(run --clock=virtual --seed=7 -- sh -c "$slow" | md5sum)" \
	"$(run --clock=virtual --seed=7 -- sh -c "$slow" | (sleep 0.5 && md5sum))"
# What still runs when the program ends is stopped at the same moment.
left='(while :; do echo left; done) & sleep 0.0005; echo end'
is "what is left" "$(run --clock=virtual --seed=7 -- sh -c "$left" | md5sum)" \
	"$(run --clock=virtual --seed=7 -- sh -c "$left" | md5sum)"
# A loop on memory that another thread ends: it does end, and a line says that this was chance.
cat >"$dir/spin.c" <<'END'
#include <pthread.h>
#include <stdio.h>
static volatile int done;
static void *set(void *arg)
{
	(void)arg;
	done = 1;
	return NULL;
}
int main(void)
{
	pthread_t t;

	pthread_create(&t, NULL, set, NULL);
	while (!done)
		continue;
	pthread_join(t, NULL);
	puts("done");
	return 0;
}
END
${CC:-gcc} -O1 -pthread -o "$dir/spin" "$dir/spin.c" || exit 2
is "spin" "done 1" "$(run --clock=virtual -- "$dir/spin" 2>"$dir/err") $(grep -c 'need not repeat' "$dir/err")"

# told WANT ARG...: exit status 2 and one line with WANT.
told() {
	local want=$1 text
	shift
	text=$("$MOAT" run "$@" -- true 2>&1)
	if [ $? = 2 ] && [ "$(wc -l <<<"$text")" = 1 ] && [[ $text == *"$want"* ]]; then
		ok "$*"
	else
		bad "$*: $text"
	fi
}
for wrong in lunar fixed fixed: fixed:yesterday fixed:2026-02-30T00:00:00Z fixed:2026-01-01T00:00:00 fixed:-1 \
	virtual: virtual:@-1 virtual:99999999999 offset: offset:3x offset:99999999d; do
	told "it is one of host, offset:" "--clock=$wrong"
done
told "its value is missing" --clock=
told "before 1970" --clock=offset:-30000d
told "it is a number" --seed=x
told "it is a number" --seed=-1
told "it is a number" --seed=99999999999999999999
told "one thing runs at a time" --clock=virtual --workers=2
told "cannot tell where time went" --clock=virtual --profile-calls="$dir/profile"

end
