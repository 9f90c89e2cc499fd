#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What a user is told when a program fails in the sandbox: at its end, on standard error, what it looked for and is not
# granted, what it was refused, which limits; what would allow it, and that it does. And that nothing of what the
# host has can be learnt inside. MOAT, PLATFORMS, TESTBIN: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
. tests/suite.sh
MOAT=$(realpath "${MOAT:-build/moat}")
PLATFORMS=${PLATFORMS:-ptrace trap}
export LC_ALL=C
mkdir -p "${TESTBIN:-build/testbin}"
dir=$(realpath "$(mktemp -d -p "${TESTBIN:-build/testbin}")")
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/work" "$dir/data" "$dir/data/in"
echo text >"$dir/data/file"
cp /bin/true "$dir/data/program"
ln -s "$dir/data/file" "$dir/work/link"
mkfifo "$dir/data/fifo"
mkdir "$dir/far"
ln -s data "$dir/way"
chmod -R go+rX "$dir"
cd "$dir/work" || exit 2
run() {
	timeout -k 5 100 "$MOAT" run --platform "$p" "$@" >"$dir/out" 2>"$dir/err" </dev/null
	status=$?
}
# run_mounted TYPE FILE: of a file system of that type at far, with a file.
run_mounted() {
	# shellcheck disable=SC2016
	timeout -k 5 100 unshare -m sh -c 'mount -t "$1" moat "$2" && : >"$3" && shift 3 && exec "$@"' sh "$1" "$dir/far" "$2" \
		"$MOAT" run --platform "$p" -- /bin/cat "$2" >"$dir/out" 2>"$dir/err" </dev/null
	status=$?
}
# What cannot be written whole: is it said, and is that no success? The program's own failure is not hidden.
lost_reports() {
	local o to
	[ -c /dev/full ] || { skip "$p: reports on a full disk: there is no /dev/full"; return; }
	for o in strace stats diff profile-calls; do
		run --$o=/dev/full -- /bin/sh -c 'echo x >/tmp/new'
		is "$p: --$o on a full disk: status" 125 $status
		is "$p: --$o on a full disk" "moat run: --$o=/dev/full: No space left on device; it is not whole: make room, or name another file" \
			"$(cat "$dir/err")"
		[ $o = profile-calls ] && continue
		for to in '>/dev/full' '>&-'; do
			# Closed, it is /dev/null.
			eval "timeout -k 5 100 \"$MOAT\" run --platform $p --$o -- /bin/sh -c 'echo x >/tmp/new' </dev/null 2$to"
			status=$?
			is "$p: --$o with 2$to: status" "$([ "$to" = '>&-' ] && echo 0 || echo 125)" $status
		done
	done
	run --strace=/dev/full -- /bin/sh -c 'exit 3'
	is "$p: a failure without a trace" 3 $status
}
# No option takes an empty value, or the "--" behind it; no program has an empty name.
empty_words() {
	local o
	for o in root rw ro env cwd hostname user policy preset limit clock seed platform strace stats profile-calls diff save keep-on-fail load \
		audit tty workers; do
		run "--$o=" -- /bin/echo ran
		is "$p: --$o=" "2 moat run: --$o: its value is missing; say --$o=…" \
			"$status $(sed "s/say --$o=[A-Za-z].*/say --$o=…/" "$dir/err" "$dir/out")"
		case $o in strace | stats | diff) continue ;; esac
		run "--$o" -- /bin/echo ran
		is "$p: --$o --" "2 1 0" "$status $(grep -c ": its value is missing; say " "$dir/err") $(grep -c ran "$dir/out")"
	done
	run -- '' ran
	is "$p: an empty program" "2 moat run: '': a program's name is missing: moat run [OPTION…] -- PROG [ARG…]" \
		"$status $(cat "$dir/err" "$dir/out")"
	[ ! -e -- ] && [ ! -e "$dir/work/--" ] || bad "$p: a file is named --"
	"$MOAT" diff '' >"$dir/out" 2>&1
	is "an archive without a name" "2 moat diff: name one archive: moat diff [--root DIR] FILE.tar" "$? $(cat "$dir/out")"
	"$MOAT" policy check '' >"$dir/out" 2>&1
	is "a policy without a name" "2 moat policy: '': No such file or directory; name a policy file" "$? $(cat "$dir/out")"
}
# says WHAT LINE...: these are moat's lines on standard error, and no others.
says() {
	local what=$1 line
	shift
	printf '%s\n' "$@" >"$dir/want"
	[ $# = 0 ] && : >"$dir/want"
	grep '^moat: ' "$dir/err" >"$dir/got"
	if cmp -s "$dir/want" "$dir/got"; then ok; else
		bad "$p: $what: status $status, and instead of"
		sed 's/^/    /' "$dir/want"
		echo "  this was said:"
		sed 's/^/    /' "$dir/err"
	fi
}
missing() { # PATH CALL ADVICE [WARNING]
	echo "moat: not granted: $1 ($2); ${4:-}allow it with: $3"
}

for p in $PLATFORMS; do
	empty_words
	lost_reports
	# ---- what is not granted ----
	run -- /bin/cat "$dir/data/file"
	want "$p: status of what finds no file" $status 1
	says "a file" "$(missing "$dir/data/file" openat "--ro $dir/data/file")"
	run --ro "$dir/data/file" -- /bin/cat "$dir/data/file"
	want "$p: what was advised" "$status $(cat "$dir/out")" "0 text"
	says "nothing is said of success"
	run -- /bin/sh -c "/bin/cat $dir/data/file; :"
	says "nor if the program does not mind"
	run --verbose -- /bin/sh -c "/bin/cat $dir/data/file; :"
	says "but with --verbose" "$(missing "$dir/data/file" openat "--ro $dir/data/file")"
	run -- /bin/cat "$dir/data/nothing" "$dir/data/fifo" /nowhere
	says "what the host has not, or could not be granted"
	run -- /bin/cat link
	says "a link that leads out" "$(missing "$dir/data/file" openat "--ro $dir/data/file")"
	# To ask the host for a name can have effects: nothing is asked for behind a symlink of the host's, or where
	# a server or a program may be behind the file system.
	run -- /bin/cat "$dir/way/file"
	says "a path through a symlink of the host's"
	run -- /bin/cat "$dir/../..//${dir#/}/way/../way/./file"
	says "that and dots"
	for kind in tmpfs mqueue; do
		if ! unshare -m mount -t $kind moat "$dir/far" 2>/dev/null; then
			skip "$p: $kind cannot be mounted here"
			continue
		fi
		run_mounted $kind "$dir/far/file"
		want "$p: status on $kind" "$status" 1
		if [ $kind = tmpfs ]; then
			says "a path on $kind" "$(missing "$dir/far/file" openat "--ro $dir/far/file")"
		else
			says "a path on $kind"
		fi
	done
	run -- /bin/cat "/../$dir//data/./file"
	says "a path with dots" "$(missing "$dir/data/./file" openat "--ro $dir/data/./file")"
	run -- /bin/sh -c "echo >$dir/data/new"
	says "a new file" "$(missing "$dir/data/new" openat "--rw $dir/data")"
	run --rw "$dir/data" -- /bin/sh -c "echo >$dir/data/new"
	want "$p: what was advised for it" $status 0
	rm -f "$dir/data/new"
	run -- /bin/sh -c "echo >>$dir/data/file"
	says "a file to be written" "$(missing "$dir/data/file" openat "--rw $dir/data/file")"
	run -- /bin/mkdir "$dir/data/in/new"
	says "a new directory" "$(missing "$dir/data/in/new" mkdir "--rw $dir/data/in")"
	run -- "$dir/data/program"
	want "$p: status of a program that is not granted" $status 127
	says "the program itself" "$(missing "$dir/data/program" execve "--ro $dir/data/program")"
	mkdir -p "$dir/data/a b"
	run -- /bin/ls "$dir/data/a b"
	want "$p: a name that needs quoting" "$(sed -n 's/.*allow it with: //p' "$dir/err")" "--ro \$'$dir/data/a b'"
	# Many: the last ones.
	mkdir -p "$dir/data/many"
	touch "$dir/data/many/"{1..9}
	run -- /bin/sh -c "for i in 1 2 3 4 5 6 7 8 9 1; do cat $dir/data/many/\$i; done; exit 3"
	says "many" "moat: not granted: 4 more before these" \
		"$(missing "$dir/data/many/6" openat "--ro $dir/data/many/6")" \
		"$(missing "$dir/data/many/7" openat "--ro $dir/data/many/7")" \
		"$(missing "$dir/data/many/8" openat "--ro $dir/data/many/8")" \
		"$(missing "$dir/data/many/9" openat "--ro $dir/data/many/9")" \
		"$(missing "$dir/data/many/1" openat "--ro $dir/data/many/1")"
	# A flood is bounded, and what comes after it is told all the same.
	run -- python3 -c "
import os, time
for i in range(20000):
    try: os.stat('/none/%d' % i)
    except OSError: pass
time.sleep(1)
os.stat('$dir/data/file')"
	want "$p: after a flood" "$(grep -c "^moat: not granted: $dir/data/file (newfstatat); allow it with: --ro $dir/data/file$" "$dir/err")" 1
	want "$p: the flood" "$(grep -c '^moat: not granted: [0-9]* more lookups were too many to look into$' "$dir/err")" 1

	# The guest's answer is the same, whatever the host has; and the log's event is there only if it has it.
	run --audit="$dir/log" -- python3 -c "
import os
def ask(path):
    try: os.stat(path)
    except OSError as e: return e.errno, e.strerror
print(ask('$dir/data/file') == ask('$dir/data/nothing') == (2, 'No such file or directory'))"
	want "$p: the answers" "$(cat "$dir/out")" True
	want "$p: events of what the host has" "$(grep -c "\"why\":\"not-granted\",\"reason\":\"not granted\",\"path\":\"$dir/data/file\".*\"allow\":\"--ro $dir/data/file\",\"allow_policy\":\"path .*access = ro }\"}\$" "$dir/log")" 1
	want "$p: and of what it has not" "$(grep -c "\"not-granted\".*data/nothing" "$dir/log")" 0
	"$root/tests/audit/check.py" "$dir/log" whole 0 >"$dir/got" 2>&1
	want "$p: the log" "$? $(cat "$dir/got")" "0 "

	# What a rule hides.
	printf 'version = 1\npath "/usr" { access = ro exec = true }\npath "/bin" { access = ro exec = true }\npath "/lib" { access = ro exec = true }\npath "/lib64" { access = ro exec = true optional = true }\npath "%s" { access = ro }\npath "%s" { access = hidden }\n' \
		"$dir/data" "$dir/data/in" >"$dir/hiding.policy"
	touch "$dir/data/in/x"
	run --policy "$dir/hiding.policy" --cwd / -- /bin/cat "$dir/data/in/x"
	says "what a rule hides" "moat: not granted: $dir/data/in/x (openat); it is hidden by $dir/hiding.policy:7:6"
	# The same of a directory that is shown under another name.
	sed "s|^path \"$dir/data\" {|path \"/shown\" { host = \"$dir/data\"|; s|^path \"$dir/data/in\"|path \"/shown/in\"|" \
		"$dir/hiding.policy" >"$dir/elsewhere.policy"
	run --policy "$dir/elsewhere.policy" --cwd / -- /bin/cat /shown/in/x
	says "what a rule hides elsewhere" "moat: not granted: /shown/in/x (openat); it is hidden by $dir/elsewhere.policy:7:6"
	run --policy "$dir/elsewhere.policy" --cwd / -- /bin/cat /shown/in/none
	says "and what the host has not there"
	mkdir -p "$dir/data/.ssh"
	touch "$dir/data/.ssh/key"
	HOME=$dir/data run --ro "$dir/data:/shown" -- /bin/cat /shown/.ssh/key
	says "a secret elsewhere" "$(missing /shown/.ssh/key openat "--ro $dir/data/.ssh/key:/shown/.ssh/key" "it may be a secret; ")"
	HOME=$dir/data run --ro "$dir/data:/shown" --ro "$dir/data/.ssh/key:/shown/.ssh/key" -- /bin/cat /shown/.ssh/key
	want "$p: what was advised for it" $status 0
	rm -r "$dir/data/.ssh"
	# A first program that may not be executed.
	run --policy "$dir/hiding.policy" --cwd / -- "$dir/data/program"
	want "$p: a program below a rule without exec" "$status $(cat "$dir/err")" \
		"126 moat run: $dir/data/program: may not be executed: $dir/hiding.policy:6:6 lacks exec = true"
	run --policy "$dir/hiding.policy" --cwd / -- /bin/cat "$dir/work/link"
	says "a path, with a policy" "$(missing "$dir/work/link" openat "--ro $dir/work/link"), or in the policy: path \"$dir/work/link\" { access = ro }"
	# The directory that moat was started in.
	touch "$dir/work/some_file"
	run --policy "$dir/hiding.policy" -- /bin/cat some_file
	says "the directory moat was started in" "moat: not granted: $dir/work/some_file (openat, in the directory that moat was started in); allow it with: --ro $dir/work, or in the policy: path \"$dir/work\" { access = ro }"
	run --policy "$dir/hiding.policy" --ro "$dir/work" -- /bin/cat some_file
	want "$p: what was advised for it" $status 0

	# ---- devices ----
	run --policy "$dir/hiding.policy" --cwd / -- python3 -c 'open("/dev/null")'
	says "a device" "moat: not granted: /dev/null (openat); allow it with, in the policy: devices = { null }"
	run --policy "$dir/hiding.policy" --cwd / --user 1000:1000 -- /bin/sh -c 'echo x >/dev/null'
	says "a device that is written to" "moat: not granted: /dev/null (openat); allow it with, in the policy: devices = { null }"
	{ cat "$dir/hiding.policy"; echo 'devices = { null }'; } >"$dir/null.policy"
	run --policy "$dir/null.policy" --cwd / --user 1000:1000 -- /bin/sh -c 'echo x >/dev/null'
	want "$p: what was advised for a device" $status 0
	run --policy "$dir/null.policy" --cwd / -- python3 -c 'open("/dev/zero")'
	says "another device" "moat: not granted: /dev/zero (openat); allow it with, in the policy: devices = { null, zero }"
	run -- python3 -c 'open("/dev/sda")'
	says "no device of ours"

	# ---- other denials, limits, calls ----
	# What moat run by root could show: to grant it is no mend for who may not read it himself.
	run --cwd / --user 0 -- /bin/cat /etc/shadow
	if [ "$(id -u)" = 0 ]; then
		says "not everybody's" "moat: denied: openat /etc/shadow (not every user of the host may read it; built in); allow it with: --ro /etc/shadow"
		(cd / && timeout -k 5 100 setpriv --reuid 1000 --regid 1000 --clear-groups "$MOAT" run --platform "$p" --user 0 -- /bin/cat /etc/shadow) >"$dir/out" 2>"$dir/err" </dev/null
		status=$?
	fi
	says "not the caller's" "moat: denied: openat /etc/shadow (not every user of the host may read it; built in)"
	run --user 0 -- python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).mount(b"x", b"/mnt", b"ext4", 0, None) != 0)'
	says "a kind of file system" "moat: denied: mount /mnt (file systems of that kind cannot be mounted; built in)"
	run --user 1000:1000 -- python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).mount(b"x", b"/mnt", b"tmpfs", 0, None) != 0)'
	says "what Linux refuses, too"
	run -- /bin/sh -c 'echo x >new; exit 4'
	says "what may only be read" "moat: denied: openat $dir/work/new (may only be read; preset default); allow it with: --rw $dir/work"
	run --limit open_files=20 -- python3 -c 'x = [open("/etc/passwd") for i in range(100)]'
	says "open files" "moat: limit: open_files (open file descriptions of the sandbox): 20 allowed, more refused 1 time; allow more with: --limit open_files=N"
	run --limit processes=3 -- python3 -c '
import os, time
n = 0
for i in range(8):
    try:
        if os.fork() == 0: time.sleep(100)
    except OSError: n += 1
os._exit(n)'
	want "$p: forks that failed" $status 6
	says "processes" "moat: limit: processes (processes of the guest at once): 3 allowed, more refused 6 times; allow more with: --limit processes=N"
	run --limit file_bytes=1M -- /bin/sh -c 'exec head -c 3000000 /dev/zero >/tmp/x'
	want "$p: bytes in memory" "$(grep -c '^moat: limit: file_bytes (.*): 1 MiB allowed, more refused [0-9]* times\?; allow more with: --limit file_bytes=SIZE$' "$dir/err")" 1
	# Files have half of the memory, so that is the limit to raise; for all of them, and for one instance.
	for make in 'head -c 50M /dev/zero >/dev/shm/x; exec head -c 50M /dev/zero >x' 'exec head -c 80M /dev/zero >/tmp/x'; do
		run --limit memory=128M -- /bin/sh -c "cd /tmp; $make"
		want "$p: half of the memory" "$(grep -c '^moat: limit: memory (.*): 128 MiB allowed, more refused [0-9]* times\?; allow more with: --limit memory=SIZE$' "$dir/err")" 1
	done
	# What is left of it all tell alike who tell of memory, in KiB; the host has more.
	run --limit memory=128M -- python3 -c '
import os, re
def left():
    number = lambda path, name: int(re.search(name + r"\D*(\d+)", open(path).read())[1])
    return (number("/proc/meminfo", "MemFree"), number("/proc/meminfo", "MemAvailable"),
            number("/sys/devices/system/node/node0/meminfo", "MemFree"),
            number("/proc/vmstat", "nr_free_pages") * 4, os.sysconf("SC_AVPHYS_PAGES") * 4)
before = left()
open("/dev/shm/x", "wb").write(bytes(32 << 20))
after = left()
print(all(b < 131072 and b - a >= 32768 for a, b in zip(after, before)))'
	want "$p: memory that is left" "$(cat "$dir/out")" True
	run --limit cpu_time=1s -- /bin/sh -c 'while :; do :; done'
	want "$p: cpu_time" "$status $(sed 's/[0-9]* ms/N ms/' "$dir/err")" "137 moat: limit: cpu_time: the sandbox has used N ms of processor time and was killed; allow more with: --limit cpu_time=TIME"
	run --limit wall_time=1s -- /bin/sleep 100
	says "wall_time" "moat: limit: wall_time: the sandbox has had its time and was killed; allow more with: --limit wall_time=TIME"
	other="asked for it, and may have failed for another reason"
	# AF_INET, AF_INET6, AF_NETLINK for routes, AF_PACKET; both.
	for family in 2,1 10,2 16,3,0 17,2 '16,3,4); socket.socket(2,1'; do
		run -- python3 -c "import socket; socket.socket($family)"
		says "a socket of family $family" "moat: denied: socket (the sandbox has no network); python3 $other"
	done
	# Who ends well has not missed it; others fail on their own.
	well='try: socket.socket(2, 1)
except OSError: pass'
	# shellcheck disable=SC2016
	run -- /bin/sh -c 'python3 -c "import socket
$1"; exit 3' sh "$well"
	says "a program that goes on without a socket"
	# shellcheck disable=SC2016
	run -- /bin/sh -c 'python3 -c "import socket
$1"; python3 -c "import socket; socket.socket(2, 1)"' sh "$well"
	says "and one that does not" "moat: denied: socket (the sandbox has no network); python3 $other"
	run -- /bin/sh -c 'python3 -c "import socket
try: socket.socket(2, 1)
except OSError: pass
open(\"x\", \"w\")" || exit 4'
	says "one that was refused another thing, too" \
		"moat: denied: socket (the sandbox has no network); python3 $other" \
		"moat: denied: openat $dir/work/x (may only be read; preset default); allow it with: --rw $dir/work"
	# Who is killed at the sandbox's end has not ended well.
	run -- python3 -c 'import os, socket, signal
try: socket.socket(2, 1)
except OSError: pass
os.kill(os.getpid(), signal.SIGKILL)'
	says "a program that is killed" "moat: denied: socket (the sandbox has no network); python3 $other"
	# AF_ALG, AF_VSOCK, and AF_NETLINK for the audit, for devices.
	for family in 38,5 40,1 16,3,9 16,3,15; do
		run -- python3 -c "import socket; socket.socket($family)"
		says "a socket of family $family"
	done
	# CLONE_NEWUSER, and CLONE_NEWNS, which Linux gives to root only.
	run --user 1000 -- python3 -c 'import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x10000000) != 0)'
	says "a new user name space" "moat: denied: unshare (the sandbox has no new name spaces); python3 $other"
	run --user 1000 -- python3 -c 'import ctypes; raise SystemExit(ctypes.CDLL(None).syscall(56, 0x10000011, 0, 0, 0, 0) != 0)'
	says "a child in a new user name space" "moat: denied: clone (the sandbox has no new name spaces); python3 $other"
	run --user 0 -- python3 -c 'import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x20000) != 0)'
	says "a new mount name space" "moat: denied: unshare (the sandbox has no new name spaces); python3 $other"
	run --user 1000 -- python3 -c 'import ctypes; raise SystemExit(ctypes.CDLL(None).unshare(0x20000) != 0)'
	says "a new mount name space, to whom Linux would not give one"
	run -- python3 -c 'import ctypes; ctypes.CDLL(None).syscall(425, 1, 0); raise SystemExit(1)'
	says "what libraries try and need not have"
	run -- python3 -c 'import ctypes; ctypes.CDLL(None).syscall(300, 0, 0); raise SystemExit(1)'
	says "a call that moat does not have" "moat: not served: fanotify_init (moat does not have it; see docs/SYSCALLS.md)"
	run -- python3 -c 'import ctypes; ctypes.CDLL(None).syscall(101, 0, 0, 0, 0); raise SystemExit(1)'
	says "ptrace" "moat: not served: ptrace (moat does not have it; see docs/SYSCALLS.md)" \
		"moat: not served: ptrace is for debuggers and tracers, and for the search for leaks at the end of what -fsanitize=address built, which need not be: --env ASAN_OPTIONS=detect_leaks=0"
	echo 'int main(void) { return 0; }' >"$dir/data/end.c"
	if gcc -fsanitize=address -o "$dir/data/end" "$dir/data/end.c" 2>/dev/null; then
		run --ro "$dir/data" -- "$dir/data/end"
		want "$p: a program with AddressSanitizer, and its advice" "$((status != 0)) $(grep -c 'detect_leaks=0$' "$dir/err")" "1 1"
		run --ro "$dir/data" --env ASAN_OPTIONS=detect_leaks=0 -- "$dir/data/end"
		want "$p: what was advised for it" $status 0
	else
		skip "$p: no AddressSanitizer here"
	fi

	# ---- processor time ----
	run -- /bin/sh -c 'ulimit -t 1; while :; do :; done'
	says "a limit of the program's own" "moat: a process was killed, as it had used the 1 s of processor time that it was allowed (ulimit -t)"
	(ulimit -S -t 7; run -- /bin/sh -c 'ulimit -S -t'; cat "$dir/out") >"$dir/limit"
	want "$p: the caller's limit is the program's" "$(cat "$dir/limit")" 7
	(ulimit -t 1; run -- /bin/sh -c 'while :; do :; done'; cat "$dir/err") >"$dir/limit"
	want "$p: the caller's hard limit" "$(cat "$dir/limit")" "moat: a process was killed, as it had used the 1 s of processor time that it was allowed (ulimit -t)"

	# ---- the caller's directory is a secret ----
	mkdir -p "$dir/home/.aws/in" "$dir/home/.awsx"
	for s in .aws .aws/in; do
		cd "$dir/home/$s" || exit 2
		run -- /bin/true
		says "a caller's directory $s" "moat: warning: the program can read the caller's directory $dir/home/$s, which usually holds secrets; start moat in another, or say --cwd / if it shall not, or --ro $dir/home/$s if it shall"
		run --ro "$dir/home/$s" -- /bin/true
		says "a caller's directory $s that is granted"
		run --cwd / -- /bin/true
		says "a caller's directory $s that is not shown"
	done
	cd "$dir/home/.awsx" || exit 2
	run -- /bin/true
	says "a caller's directory like any other"
	cd "$dir/work" || exit 2

	# ---- no noise ----
	for preset in default agent-python agent-node build; do
		run --preset $preset -- python3 -c 'import json, ssl, subprocess, asyncio; subprocess.run(["/bin/true"]); raise SystemExit(3)'
		says "python that fails on its own under $preset"
	done
done
end
