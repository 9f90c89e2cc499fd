#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# moat run --audit and moat report: what programs are refused and do is in the log, with the place in the
# program; whoever is killed, the log is valid; the page is made of any log.
# MOAT, PLATFORMS, TESTBIN: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
needs_python3 audit
begin_on ptrace trap
mkdir "$dir/ro" "$dir/rw"
echo text >"$dir/ro/file"
log=$dir/log
bad() {
	echo "FAIL $p: $*"
	[ -s "$dir/err" ] && head -n 20 "$dir/err" | cut -c 1-300
	failed=$((failed + 1))
}
run() {
	timeout 100 "$MOAT" run --platform "$p" --ro "$bin" --rw "$dir/rw" --cwd / "$@" \
		>"$dir/out" 2>"$dir/err" </dev/null
	status=$?
}
logged() {
	local out
	if out=$(tests/audit/check.py "$log" "$@" 2>&1); then ok; else bad "$out"; fi
}
report() {
	"$MOAT" report "$1" -o "$dir/page.html" >"$dir/out" 2>"$dir/err"
	status=$?
}

cc=${CC:-gcc} flags="-O1 -g -fno-optimize-sibling-calls -Wall"
src=tests/audit/denied.c
$cc $flags -static -o "$bin/audit-static" $src || exit 1
$cc $flags -fPIE -pie -o "$bin/audit-pie" $src || exit 1
$cc $flags -fno-pie -no-pie -o "$bin/audit-nopie" $src || exit 1
$cc $flags -fPIE -static-pie -o "$bin/audit-staticpie" $src || exit 1
$cc $flags -fPIE -pie -s -o "$bin/audit-stripped" $src || exit 1

for p in $PLATFORMS; do
	# The stack, whatever the program is made like.
	for form in static pie nopie staticpie; do
		run --audit="$log" -- "$bin/audit-$form" stack "$dir/ro/file"
		is "status of $form" 0 $status
		logged whole 0
		logged stack "$dir/ro/file" audit_inner audit_outer main
	done
	run --audit="$log" -- "$bin/audit-stripped" stack "$dir/ro/file"
	logged modules "$dir/ro/file" "$bin/audit-stripped" 3
	logged denied read-only "$dir/ro/file" "--rw $dir/ro/file" "path \"$dir/ro/file\" { access = rw }"
	is "the line for people" "moat: denied: openat $dir/ro/file (may only be read; --ro); allow it with: --rw $dir/ro/file" \
		"$(cat "$dir/err")"
	# What it says would allow it does.
	run --rw "$dir/ro/file" -- "$bin/audit-static" stack "$dir/ro/file"
	is "status with what was advised" 1 $status
	# Without being asked moat says nothing.
	run -- "$bin/audit-static" stack "$dir/ro/file"
	is "standard error without --audit" "" "$(cat "$dir/err")"

	# A program's files, names and processes.
	run --audit="$log" -- /bin/bash -c "cd $dir/rw; cat /proc/self/stat $dir/ro/file >a | cat; mv a b; rm b; (exit 3); kill -9 \$\$"
	is "status of bash" 137 $status
	logged whole 137
	logged opened "$dir/ro/file" read
	logged opened "$dir/rw/a" write
	logged opened /usr/bin/cat exec
	logged changed "$dir/rw/a" create rename-from
	logged changed "$dir/rw/b" rename-to delete
	logged nothing_made_up
	cp "$log" "$dir/bash.log"

	# Other denials.
	run --audit="$log" -- python3 -c 'import socket, os
try: socket.socket()
except OSError: pass
try: open("/sys/new", "w")
except OSError: pass'
	logged denied no-network
	logged denied read-only /sys/new

	# Hostile names, and more denials than are told.
	run --audit="$log" -- "$bin/audit-static" names "$dir/ro"
	is "status of names" 0 $status
	logged names "$dir/ro"
	is "control characters on standard error" "" "$(LC_ALL=C grep -a '[^ -~]' "$dir/err" | LC_ALL=C grep -av 'ä\|😀')"
	cp "$log" "$dir/names.log"
	run --audit="$log" -- "$bin/audit-static" flood "$dir/ro" 3000
	is "status of the flood" 0 $status
	logged whole 0
	logged adds_up denied 3000
	is "lines of the flood on standard error" 1 "$(wc -l <"$dir/err")"
	run --audit="$log" --limit log_bytes=20000 -- "$bin/audit-static" flood "$dir/ro" 300
	logged over 20000
	if grep -q '^moat: limit: log_bytes: [0-9]* events are not in the log; allow more with: --limit log_bytes=SIZE$' "$dir/err"; then ok; else bad "what does not fit into the log is not told"; fi

	# Limits.
	run --audit="$log" --limit processes=4 -- "$bin/audit-static" forks 8
	if grep -q 'does not enforce this limit yet' "$dir/err"; then
		echo "skip limits $p: $(cat "$dir/err")"
		skipped=$((skipped + 1))
	else
		is "status of forks" 7 $status
		logged limited processes
	fi

	# The sentry is killed, and the monitor.
	for who in sentry monitor; do
		rm -f "$log"
		"$MOAT" run --platform "$p" --audit="$log" -- /bin/sleep 60 >/dev/null 2>&1 &
		monitor=$!
		for ((i = 0; i < 600; i++)); do
			grep -qs '"exec".*sleep' "$log" && break
			sleep 0.05
		done
		victim=$monitor
		# The one that has guests: the newest of that name below the monitor.
		[ $who = sentry ] && victim=$(ps -e -o pid=,ppid=,comm= | awk -v top=$monitor '
			{ up[$1] = $2; name[$1] = $3 }
			END { for (p in name) if (name[p] ~ /^moat-sentry/) for (q = p; q > 1; q = up[q]) if (q == top) print p }' | sort -n | tail -n 1)
		kill -9 "$victim"
		wait $monitor 2>/dev/null
		status=$?
		if [ $who = sentry ]; then
			is "status when the sentry is killed" 125 $status
			logged killed 9
		else
			logged keys
		fi
	done

	# A log that cannot be written to its end.
	if [ -c /dev/full ]; then
		run --audit=/dev/full -- /bin/true
		is "status with a full log" 0 $status
		if grep -q '^moat: --audit=/dev/full: No space left on device: [0-9]* events and the end are not in the log; make room, or name a file elsewhere$' "$dir/err"; then ok; else bad "a full log is not told of"; fi
	fi
	# A log that cannot be.
	run --audit=/nowhere/log -- /bin/true
	is "status with a log that cannot be written" 2 $status
	is "what it says of it" "moat run: --audit=/nowhere/log: No such file or directory; name a file that can be written" "$(cat "$dir/err")"
	run --audit="$dir/rw/log" -- /bin/true
	is "status with a log that the program could write" 2 $status
	[ -e "$dir/rw/log" ] && bad "the log is there"
done

# The page: of each log, whole, cut short anywhere, damaged.
p=report
for l in bash names; do
	report "$dir/$l.log"
	is "status of the report of $l" 0 $status
	is "scripts in it" 1 "$(grep -o '<script' "$dir/page.html" | wc -l)"
	is "foreign markup in it" 0 "$(grep -c '<img\|onerror=alert(1)>' "$dir/page.html")"
	is "addresses in it" 0 "$(grep -c 'https\?://\|url(\|@import' "$dir/page.html")"
	grep -q 'The log is cut off' "$dir/page.html" && bad "a whole log is called cut off"
	size=$(stat -c %s "$dir/$l.log")
	for ((i = 1; i < 12; i++)); do
		head -c $((size * i / 12)) "$dir/$l.log" >"$dir/cut"
		report "$dir/cut"
		if [ $status = 0 ] && grep -q 'The log is cut off' "$dir/page.html"; then ok; else bad "cut at $i/12"; fi
	done
	{
		head -c 3000 /dev/urandom
		printf '\n[1,2]\n{"by":"sentry"}\n{"event":5}\nnull\n'
		cat "$dir/$l.log"
	} >"$dir/cut"
	report "$dir/cut"
	is "status with a damaged log" 0 $status
	if grep -q 'are damaged and left out' "$dir/page.html"; then ok; else bad "damage is not told"; fi
done
# What is in use is looked at, also while it is far from its limit.
p=${PLATFORMS%% *}
rm -f "$log" "$dir/wait"
mkfifo "$dir/wait"
timeout 100 "$MOAT" run --platform "$p" --cwd / --audit="$log" -- \
	/usr/bin/python3 -c 'x = b"x" * (64 << 20); input()' <"$dir/wait" >"$dir/out" 2>"$dir/err" &
exec 8>"$dir/wait"
for ((i = 0; i < 300; i++)); do
	seen=$(grep -o '"memory":[0-9]*' "$log" 2>/dev/null | cut -d: -f2 | sort -n | tail -n 1)
	[ "${seen:-0}" -ge $((64 << 20)) ] && break
	sleep 0.1
done
echo >&8
exec 8>&-
wait $!
is "memory in the log" yes "$([ "${seen:-0}" -ge $((64 << 20)) ] && echo yes || echo "$seen")"
: >"$dir/empty"
report "$dir/empty"
is "status with an empty log" 1 $status
report /nowhere
is "status without a log" 2 $status
end
