#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What is left of a run: nothing, unless it was asked for. --diff, --save, --keep-on-fail, --load, `moat diff`, archives
# that are damaged or hostile, and what a run leaves on the host.
# MOAT, PLATFORMS, TESTBIN: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
begin_on trap ptrace
bad() {
	echo "FAIL $p: $*"
	head -n 20 "$dir/err" | cut -c 1-200
	failed=$((failed + 1))
}
run() {
	timeout 60 "$MOAT" run --platform "$p" --user 0 --cwd / "$@" </dev/null >"$dir/out" 2>"$dir/err"
	status=$?
}
fails() { # WHAT STATUS PATTERN: one line on stderr
	is "$1: status" "$2" "$status"
	if grep -qE "$3" "$dir/err" && [ "$(wc -l <"$dir/err")" = 1 ]; then ok; else bad "$1: message"; fi
}
cat >"$dir/change.sh" <<-'EOF'
	set -e
	echo hi >/tmp/a
	mkdir -p /home/someone/d/e /var/lib/x
	echo z >/var/lib/x/f
	ln /var/lib/x/f /var/lib/x/g
	ln -s ../f /var/lib/x/s
	echo "# changed" >>/etc/hosts
	rm /etc/passwd
	rm -r /etc/alternatives
	mkdir /etc/alternatives
	echo k >/etc/alternatives/k
	chmod 700 /etc/init.d
	mkfifo /tmp/pipe
	mv /etc/debian_version /etc/moved
	touch -d @1000000000 /tmp/old
	echo x >"/tmp/ü ü"
	truncate -s 3M /tmp/sparse
	chown 7:8 /tmp/a
	chmod 4751 /tmp/a
	rm /tmp/gone 2>/dev/null || :
EOF
cat >"$dir/look.sh" <<-'EOF'
	cat /var/lib/x/g /etc/alternatives/* /etc/moved
	tail -n 1 /etc/hosts
	ls /etc/passwd /etc/debian_version 2>&1 | wc -l
	stat -c '%n %F %a %u:%g %s %h' /etc/init.d /tmp/* /var/lib/x/* /home/someone/d/e
	stat -c %Y /tmp/old
	readlink /var/lib/x/s
EOF
want='A /etc/alternatives/k
A /etc/moved
A /home/someone
A /home/someone/d
A /home/someone/d/e
A /tmp/a
A /tmp/old
A /tmp/pipe
A /tmp/sparse
A /tmp/ü ü
A /var/lib/x
A /var/lib/x/f
A /var/lib/x/g
A /var/lib/x/s
C /etc/alternatives
C /etc/hosts
C /etc/init.d
D /etc/debian_version
D /etc/passwd'
sorted() {
	LC_ALL=C sort "$1"
}
before=$(ls -A "$dir")

for p in $PLATFORMS; do
	# A run that does nothing changes nothing, whatever set-up has made.
	run --diff --ro "$dir:/mnt/deep/er" -- true
	is "nothing: status" 0 $status
	is "nothing: diff" "" "$(cat "$dir/err")"

	run --diff="$dir/diff" --save "$dir/one.tar" --ro "$dir:/mnt/in" -- \
		sh -c 'sh /mnt/in/change.sh && sh /mnt/in/look.sh'
	is "save: status" 0 $status
	cp "$dir/out" "$dir/look"
	is "diff" "$want" "$(sorted "$dir/diff")"
	"$MOAT" diff "$dir/one.tar" >"$dir/told" 2>"$dir/err"
	is "moat diff" "$want" "$(sorted "$dir/told")"
	is "tar reads it" 0 "$(tar tf "$dir/one.tar" >"$dir/out" 2>"$dir/err"; echo $?)"
	is "nothing else is left" "change.sh diff err look look.sh one.tar out told" "$(ls -A "$dir" | LC_ALL=C sort | xargs)"

	run --load "$dir/one.tar" --ro "$dir:/mnt/in" -- sh /mnt/in/look.sh
	is "load: status" 0 $status
	is "load: the same" "$(cat "$dir/look")" "$(cat "$dir/out")"
	# What was loaded is kept again, with what came on top.
	run --load "$dir/one.tar" --save "$dir/one.tar" -- sh -c 'rm /tmp/a; echo new >/etc/new; mkdir /srv/m'
	is "again: status" 0 $status
	"$MOAT" diff "$dir/one.tar" 2>"$dir/err" | grep -v '^D /etc/alternatives/' >"$dir/told"
	is "again: diff" "$({ grep -v '^A /tmp/a$' <<<"$want"; echo 'A /etc/new'; echo 'A /srv/m'; } | LC_ALL=C sort)" "$(sorted "$dir/told")"

	# Of names that an archive cannot tell from its marks, nothing; said so. Attributes; long names.
	run --save "$dir/two.tar" -- sh -c '
		touch /tmp/x /tmp/.wh.x && setfattr -n user.a -v b /tmp/x
		n=$(printf %0200d 1) && mkdir -p /tmp/$n/$n/$n && echo deep >/tmp/$n/$n/$n/f'
	is "names: status" 0 $status
	is "names: said" 1 "$(grep -c '1 names are left out' "$dir/err")"
	run --load "$dir/two.tar" -- sh -c 'getfattr --only-values -n user.a --absolute-names /tmp/x && find /tmp -name f -exec cat {} +'
	is "names: loaded" "bdeep" "$(cat "$dir/out")"

	# Kept only if it fails.
	run --keep-on-fail "$dir/kept.tar" -- sh -c 'echo x >/tmp/x'
	is "success: status" 0 $status
	is "success: not kept" no "$([ -e "$dir/kept.tar" ] && echo yes || echo no)"
	run --keep-on-fail "$dir/kept.tar" -- sh -c 'echo x >/tmp/x; exit 3'
	is "failure: status" 3 $status
	is "failure: kept" "A /tmp/x" "$("$MOAT" diff "$dir/kept.tar")"
	run --keep-on-fail "$dir/kept.tar" -- sh -c 'echo y >/tmp/y; kill -9 $$'
	is "killed: status" 137 $status
	is "killed: kept" "A /tmp/y" "$("$MOAT" diff "$dir/kept.tar")"
	rm -f "$dir/kept.tar"
	run --keep-on-fail "$dir/kept.tar" --limit cpu_time=100ms -- sh -c 'echo y >/tmp/y; while :; do :; done'
	is "out of processor time: kept" "A /tmp/y" "$("$MOAT" diff "$dir/kept.tar")"
	rm -f "$dir/kept.tar"
	# Out of time: the program is killed, whatever it blocks or ignores, and what it made is kept.
	for option in --save --keep-on-fail; do
		run "$option" "$dir/kept.tar" --diff="$dir/differs" --limit wall_time=2s -- \
			sh -c 'trap "" INT TERM HUP; echo y >/tmp/y; while :; do :; done'
		is "out of time, $option" "137 A /tmp/y A /tmp/y" \
			"$status $("$MOAT" diff "$dir/kept.tar") $(cat "$dir/differs")"
		is "out of time: said, $option" 1 "$(grep -c '^moat: limit: wall_time: the sandbox has had its time' "$dir/err")"
		rm -f "$dir/kept.tar"
	done
	# The sandbox is killed as a whole: there is nothing left to write it. That is said. So of a sentry that does not
	# answer when the time is up.
	"$MOAT" run --platform "$p" --cwd / --keep-on-fail "$dir/late.tar" --limit wall_time=2s -- sh -c 'echo up; sleep 60' \
		</dev/null >"$dir/late.out" 2>"$dir/late.err" &
	late=$!
	for _ in $(seq 20); do [ -s "$dir/late.out" ] && break || sleep 0.1; done
	kill -STOP "$(pgrep -P $late)"
	"$MOAT" run --platform "$p" --cwd / --save "$dir/kept.tar" -- sh -c 'echo up; sleep 60' </dev/null >"$dir/out" 2>"$dir/err" &
	for _ in $(seq 300); do [ -s "$dir/out" ] && break || sleep 0.1; done
	kill -9 "$(pgrep -P $!)"
	wait $! 2>/dev/null
	is "killed from outside" "125 no" "$? $([ -e "$dir/kept.tar" ] && echo yes || echo no)"
	is "killed from outside: said" "1 1" \
		"$(grep -c '^moat run: --save .*: nothing is kept' "$dir/err") $(grep -c '^moat: the sandbox was killed from outside' "$dir/err")"

	# An archive that cannot be completed is none; the one before it stays.
	mkdir "$dir/small"
	if unshare -m true 2>/dev/null; then
		unshare -m bash -c '
			mount -t tmpfs -o size=64k none "$1/small" && cp "$1/two.tar" "$1/small/full.tar" && shift &&
				timeout 60 "$@" </dev/null; echo $?; cmp "$0/two.tar" "$0/small/full.tar" && ls "$0/small"' \
			"$dir" "$dir" "$MOAT" run --platform "$p" --save "$dir/small/full.tar" -- \
			sh -c 'head -c 1000000 /dev/urandom >/tmp/big' >"$dir/out" 2>"$dir/err"
		is "full" "125 full.tar" "$(xargs <"$dir/out")"
		is "full: said" 1 "$(grep -c -- '--save .*full.tar: No space left on device; nothing is kept' "$dir/err")"
	else
		skip "a full disk: no mount name space may be made here"
	fi
	rmdir "$dir/small"

	wait $late
	is "out of time without an answer" "137 no 1" "$? $([ -e "$dir/late.tar" ] && echo yes || echo no) $(
		grep -c '^moat run: --keep-on-fail .*: nothing is kept, for the sandbox was killed' "$dir/late.err")"
	rm -f "$dir"/late.* "$dir/differs"

	# A granted directory is no part of it.
	mkdir "$dir/rw"
	run --save "$dir/three.tar" --rw "$dir/rw:/mnt/rw" -- sh -c 'echo real >/mnt/rw/f; echo vanishing >/mnt/g'
	is "granted: status" 0 $status
	is "granted: diff" "A /mnt/g" "$("$MOAT" diff "$dir/three.tar")"
	is "granted: real" real "$(cat "$dir/rw/f")"
	rm -r "$dir/rw"

	# Bad input: one line each, and nothing happens.
	run --load "$dir/none" -- true
	fails "no such archive" 2 '^moat run: --load .*No such file.*; name an archive'
	run --load "$dir/change.sh" -- true
	fails "no archive" 2 '^moat run: --load .*not a tar archive'
	run --load "$dir" -- true
	fails "a directory" 2 '^moat run: --load .*directory'
	head -c 3000 "$dir/two.tar" >"$dir/cut.tar"
	run --load "$dir/cut.tar" -- true
	fails "cut" 2 '^moat run: --load .*damaged'
	run --save "$dir/none/x" -- true
	fails "nowhere to save" 2 '^moat run: --save .*; name a file in a directory that can be written'
	run --save "$dir" -- true
	fails "a directory to save to" 2 '^moat run: --save .*: it is a directory; name a file in it$'
	mkfifo "$dir/pipe"
	run --save "$dir/pipe" -- true
	fails "no file to save to" 2 '^moat run: --save .*: it is no regular file; name one, or a new one$'
	[ -p "$dir/pipe" ] && ok || bad "a pipe was replaced by an archive"
	rm -f "$dir/pipe"
	run --save "$dir/a" --keep-on-fail "$dir/b" -- true
	fails "two archives" 2 'name it once'

	# Hostile archives: through a link, above the root, over what will be mounted.
	mkdir "$dir/h"
	(
		cd "$dir/h" || exit
		ln -s "$dir" l && tar cf ../h1.tar l && rm l && mkdir l && echo bad >l/through && tar rf ../h1.tar l/through
		tar cPf ../h2.tar --transform 's,^l,../../..'"$dir"',' l/through
		mkdir tmp && ln -s /mnt/rw tmp/l && tar cf ../h3.tar tmp && rm tmp/l && mkdir tmp/l && echo bad >tmp/l/through &&
			tar rf ../h3.tar tmp/l/through
	)
	run --load "$dir/h1.tar" --rw "$dir:$dir" -- true
	fails "through a link" 2 "entry 'l/through': Not a directory"
	run --load "$dir/h2.tar" --rw "$dir:$dir" -- true
	fails "above the root" 2 'no name or kind that can be loaded'
	run --load "$dir/h3.tar" --rw "$dir/h:/mnt/rw" -- true
	fails "through a link to a grant" 2 "entry 'tmp/l/through': Not a directory"
	is "none came through" "" "$(find "$dir" -name through -not -path '*/h/*')"
	rm -r "$dir/h" "$dir"/*.tar "$dir/diff" "$dir/look" "$dir/told"
	is "nothing left" "$(echo "$before"; printf 'err\nout')" "$(ls -A "$dir" | grep -v '^\(err\|out\)$'; printf 'err\nout')"
done

end
