#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `moat run --stats` and `--profile-calls`: programs that make known numbers of calls, and reports that must say so
# and add up.
# MOAT, PLATFORMS, TESTBIN: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
begin_on ptrace trap
bad() {
	echo "FAIL $p: $*"
	[ -f "$dir/err" ] && head -n 60 "$dir/err" | cut -c 1-200
	failed=$((failed + 1))
}
# field ROW N: of the guest call ROW; 2 calls, 3 errors, 4 to 6 tiers, 7 host calls.
field() {
	awk -v row="$1" -v n="$2" '$1 == row { print $n }' "$dir/err"
}
# names ROW: "pwrite64 50, futex 1"
names() {
	awk -v row="$1" '$1 == row { sub(/^([^ ]+ +){7}[^ ]+ */, ""); print }' "$dir/err"
}
run() {
	timeout 60 "$MOAT" run --platform "$p" --ro "$bin" --rw "$dir" --cwd / "$@" 2>"$dir/told" >"$dir/out"
	status=$?
	# Host calls that are many go on in lines of their own.
	sed -E ':a;N;$!ba;s/,\n {94}/, /g' "$dir/told" >"$dir/err"
}
# Rows add up to their sums, tiers to calls, names to host calls.
adds_up() {
	awk '
	function named(text,   n, part, word, i, sum) {
		n = split(text, part, ", ")
		for (i = 1; i <= n; i++) {
			split(part[i], word, " ")
			sum += word[2]
		}
		return sum + 0
	}
	function wrong(what) {
		print what ": " $0
		bad = 1
	}
	# A row: a name of 24 characters and seven numbers, or one of 72 and one; then the names.
	function row(width, numbers,   i) {
		rest = substr($0, width + 1)
		for (i = 1; i <= numbers; i++) {
			sub(/^ +/, "", rest)
			f[i] = rest
			sub(/ .*/, "", f[i])
			sub(/^[^ ]+/, "", rest)
		}
		if (named(rest) != f[numbers == 1 ? 1 : 6]) wrong("names")
		if (numbers > 1 && (f[3] == "-" ? 0 : f[3]) + f[4] + f[5] != f[1]) wrong("tiers")
	}
	NR == 1 {
		if ($0 !~ /^guest call +calls +errors +tier 0 +tier 1 +tier 2 +host +per call$/) wrong("head")
		next
	}
	# The meters.
	ended {
		if (!meters++ && $0 !~ /^meter +at the end +peak +limit +refused$/) wrong("meters")
		next
	}
	/^all host calls/ {
		row(72, 1)
		if (f[1] != host) wrong("sum")
		ended = 1
		next
	}
	/^all guest calls/ {
		row(24, 7)
		if (f[1] != calls || f[2] != errors || f[6] != host) wrong("sum")
		guest = 1
		next
	}
	guest {
		row(72, 1)
		host += f[1]
		next
	}
	{
		row(24, 7)
		calls += f[1]
		errors += f[2]
		host += f[6]
	}
	END { exit bad || !ended || !meters }
	' "$dir/err"
	is "the report adds up" 0 $?
}

${CC:-gcc} -O1 -Wall -static -o "$bin/stats-calls" tests/stats/calls.c || exit 1
for p in $PLATFORMS; do
	run --stats -- "$bin/stats-calls" count
	is status 3 $status
	is "lines that are too long" "" "$(awk 'length > 150' "$dir/told")"
	is getppid "1000 0" "$(field getppid 2) $(field getppid 3)"
	is "getppid's host calls" 0 "$(field getppid 7)"
	is close "7 7" "$(field close 2) $(field close 3)"
	is exit_group 1 "$(field exit_group 2)"
	is "unknown numbers" "1 1" "$(sed -n 's/^no such number *\([0-9]*\) *\([0-9]*\) .*/\1 \2/p' "$dir/err")"
	is "a number without a row" "1 1" "$(sed -n 's/^number 511 *\([0-9]*\) *\([0-9]*\) .*/\1 \2/p' "$dir/err")"
	adds_up

	run --stats -- "$bin/stats-calls" sleeps
	is "sleeping calls" "5 0 5" "$(field clock_nanosleep 2) $(field clock_nanosleep 5) $(field clock_nanosleep 6)"
	adds_up

	# Where the stub answers, it does so before a child has been to the sentry.
	run --stats -- "$bin/stats-calls" children
	is status 0 $status
	is "children's getpid" 20 "$(field getpid 2)"
	[ "$p" = trap ] && is "that the stub answers" 20 "$(field getpid 4)"
	adds_up

	# One worker, so that the sleeping fiber and the busy one share a host thread.
	run --stats --workers 1 -- "$bin/stats-calls" files "$dir/file"
	is status 0 $status
	is pwrite64 50 "$(field pwrite64 2)"
	is "pwrite64's host calls" 50 "$(names pwrite64 | sed -n 's/.*\bpwritev2 \([0-9]*\).*/\1/p')"
	is "fsync's host calls, on a helper thread" 3 "$(names fsync | sed -n 's/.*\bfsync \([0-9]*\).*/\1/p')"
	is "what a sleeping read is charged" "" "$(names read | grep -E 'pwritev2|fsync')"
	is "the sleeping read's tier" 1 "$(field read 6)"
	adds_up

	# For programs: the same figures between tabs, and nothing on standard error.
	run --stats="$dir/table" -- "$bin/stats-calls" count
	is status 3 $status
	is "nothing on standard error" "" "$(cat "$dir/err")"
	is "names" "row calls errors tier0 tier1 tier2 host names" "$(head -n 1 "$dir/table" | tr '\t' ' ')"
	is "getppid in the table" "1000 0 0" "$(awk -F '\t' '$1 == "getppid" { print $2, $3, $7 }' "$dir/table")"
	is "the table adds up" "" "$(awk -F '\t' '
		NR == 1 { next }
		$1 == "all host calls" { if ($7 != host) print "host", $7, host; ended = 1; next }
		$2 == "-" { host += $7; next }
		$1 == "all guest calls" { host += $7; if ($2 != calls) print "calls", $2, calls; next }
		$1 == "meter" { exit }
		{ calls += $2; if (($4 == "-" ? 0 : $4) + $5 + $6 != $2) print "tiers", $0 }
		END { if (!ended) print "no end" }' "$dir/table")"

	# Where the time went: each call but one that had its site rewritten, and the last.
	run --profile-calls="$dir/profile" -- "$bin/stats-calls" count
	is status 3 $status
	is "fields" 11 "$(awk -F '\t' '{ print NF }' "$dir/profile" | sort -u)"
	is "close" 7 "$(cut -f 1 "$dir/profile" | grep -cx close)"
	is "the handler's time" 7 "$(awk -F '\t' '$1 == "close" && $7 > 0' "$dir/profile" | wc -l)"
	case $p in
	trap) want="rewritten numbers" ;;
	*) want="host -" ;;
	esac
	is "the stub's time" "$want" "$(awk -F '\t' '$1 == "close" {
		if ($4 $5 $9 $10 ~ /^[0-9]+$/) $4 = "numbers"
		print $2, $4 }' "$dir/profile" | sort -u)"

	# What is known of a site from one process holds for the next that executes the file, from its third call on: but
	# for those of the same user only, who are open to each other. (200 calls are enough for a rewrite. The call that brings it about is not told.)
	if [ "$p" = trap ] && [ "$(id -u)" != 0 ]; then
		skip "known sites: the guest's root is needed, which is the host's"
	elif [ "$p" = trap ]; then
		cat >"$dir/again" <<-'END'
			"$1" calls 200
			"$1" calls 9
			"$1" calls 9
			"$1" calls 9 hidden
			setpriv --reuid 1234 --clear-groups "$1" calls 9
		END
		run --profile-calls="$dir/profile" -- sh "$dir/again" "$bin/stats-calls"
		is "status of what is executed again" 0 $status
		cut -f 1,2 "$dir/profile" | uniq -c | awk '$2 == "close" && $1 >= 5 && $1 <= 8 { print $3 }' >"$dir/ways"
		is "the ways of calls from known sites" "rewritten rewritten signal signal" "$(paste -s -d ' ' "$dir/ways")"
	fi
	for option in stats profile-calls; do
		run --$option=/nowhere/file -- "$bin/stats-calls" count
		is "status with a file that cannot be written" 2 $status
		is "what --$option says of it" "moat run: --$option=/nowhere/file: No such file or directory; name a file that can be written" "$(cat "$dir/err")"
	done

	run -- "$bin/stats-calls" count
	is "no report without --stats" "" "$(cat "$dir/err")"
	run --stats -- /nowhere
	is "status of a program that is not there" 127 $status
done
end
