#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `moat policy learn': under what it writes the same run passes, and with any rule less it does not; what it refuses to learn.
# Inputs: MOAT, PLATFORMS (the first is used; default: trap), TESTBIN (a folder outside of /tmp; default: /var/tmp).
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
begin_in learn
learn() { timeout -k 5 120 "$MOAT" policy learn -o "$dir/$1" --platform "$platform" "${@:2}" </dev/null; }

# Each run begins with the same tree at the same place.
fresh() {
	rm -rf "$dir/work"
	cp -a "$dir/pristine" "$dir/work"
}
# What a run made of it: its status, its output, which files there are, and was the index of git's written anew?
result() {
	echo "status $1"
	cat out
	(cd "$dir/work" && find . | sort)
	[ ! -e work/.git/index ] || cmp -s work/.git/index pristine/.git/index || echo "index written"
}
run_under() { # POLICY COMMAND…
	local policy=$1
	shift
	fresh
	(cd work && timeout -k 5 120 "$MOAT" run --platform "$platform" --policy "$dir/$policy" -- "$@" </dev/null) >out 2>err
	result $?
}
# example NAME OPTIONS… -- COMMAND…: in work, which is as pristine is.
example() {
	local name=$1 options=() want got rule cut=0
	shift
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	fresh
	(cd work && learn "$name.policy" "${options[@]}" -- "$@") >out 2>err
	local status=$?
	want=$(result $status)
	check $status "$name: the run that is learnt from ends with $status: $(tail -n 3 err)"
	"$MOAT" policy check "$name.policy" >check.out 2>&1
	check $? "$name: what is learnt is no good policy: $(cat check.out)"
	got=$(run_under "$name.policy" "$@")
	[ "$got" = "$want" ]
	check $? "$name: other than learnt: $(diff <(echo "$want") <(echo "$got"); cat err "$name.policy")"
	# Without any one of its rules it fails or does something else.
	while read -r rule; do
		grep -vxF "$rule" "$name.policy" >cut.policy
		got=$(run_under cut.policy "$@")
		cut=$((cut + 1))
		[ "$got" != "$want" ]
		check $? "$name: nothing is different without $rule"
	done < <(grep '^path ' "$name.policy")
	for rule in $(sed -n 's/^devices = {\(.*\)}$/\1/p' "$name.policy" | tr -d ' ' | tr , ' '); do
		sed -E "/^devices/{s/ $rule,?//; s/, *\}/ }/; s/\{ *\}/{ }/}" "$name.policy" >cut.policy
		got=$(run_under cut.policy "$@")
		cut=$((cut + 1))
		[ "$got" != "$want" ]
		check $? "$name: nothing is different without the device $rule"
	done
	echo "$name: $cut rules"
}

if command -v git >/dev/null; then
	git init -q pristine
	(cd pristine && mkdir -p src/deep && echo a >a && echo b >src/b && echo c >src/deep/c && git add . &&
		git -c user.name=x -c user.email=x@example.org commit -qm x && echo more >>src/b && echo n >new)
	example git --rw . -- git status
	rm -rf pristine
else
	skip "git: there is none"
fi
if [ -x /usr/bin/python3 ] && mkdir pristine && /usr/bin/python3 -m venv --without-pip pristine/v 2>venv.err; then
	echo 'x = 42' >"$(echo pristine/v/lib/python*/site-packages)/learnt_module.py"
	echo 'import sys, learnt_module; print(learnt_module.x, sys.prefix != sys.base_prefix)' >pristine/main.py
	example python --ro . -- v/bin/python -B main.py
else
	skip "python: no /usr/bin/python3 that makes a venv"
fi
rm -rf pristine
if command -v gcc >/dev/null; then
	mkdir pristine pristine/include
	echo '#define TEXT "made"' >pristine/include/text.h
	printf '#include <stdio.h>\n#include "text.h"\nint main(void)\n{\n\treturn puts(TEXT) < 0;\n}\n' >pristine/a.c
	example gcc --rw . -- sh -c 'gcc -Iinclude -o prog a.c && ./prog'
	rm -rf pristine
else
	skip "gcc: there is none"
fi
if [ -x /usr/bin/node ]; then
	mkdir -p pristine/lib
	echo 'module.exports = 42' >pristine/lib/x.js
	echo 'console.log(require("./lib/x.js"), require("fs").readFileSync("data", "utf8"))' >pristine/main.js
	echo data >pristine/data
	echo 'not used' >pristine/other
	example node --ro . -- /usr/bin/node main.js
	grep -q "^path.*other" node.policy
	check $((! $?)) "node: a file that was not used is learnt"
	rm -rf pristine
else
	skip "node: there is no /usr/bin/node"
fi
mkdir -p pristine/d/e pristine/beside
echo 1 >pristine/d/1
echo 2 >pristine/d/e/2
ln -s 1 pristine/d/link
chmod 600 pristine/d/1
example tar --ro . -- sh -c 'tar cf - d | sha256sum'
grep -q 'beside\|work"' <(grep ^path tar.policy)
check $((! $?)) "tar: more than d is learnt"
example device --ro . -- sh -c 'cat d/1 /dev/null && head -c 3 /dev/zero | od -c'

# Many files of a directory are one rule; few are one each.
rm -rf pristine && mkdir -p pristine/many pristine/few
for i in 1 2 3 4 5 6 7 8 9; do echo $i >pristine/many/$i; done
for i in 1 2 3; do echo $i >pristine/few/$i; done
example few --ro . -- cat few/1 few/3
[ "$(grep -c ^path few.policy)" = 2 ]
check $? "two files are two rules"
example many --ro . -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do cat many/$i; done'
[ "$(grep -c ^path many.policy)" = 1 ]
check $? "nine files are one rule"

# What is not learnt.
mkdir -p pristine/.ssh && echo key >pristine/.ssh/id && fresh
(cd work && learn secret.policy --ro . --ro .ssh -- cat .ssh/id few/1) >out 2>err
grep -q '^key' out && ! grep -q '^path.*ssh' secret.policy && grep -q '^# not learnt: .*ssh.*secret' secret.policy
check $? "a secret is learnt, or nothing is said of it: $(cat secret.policy)"
(cd work && HOME=$PWD learn hidden.policy --ro . -- sh -c 'cat .ssh/id; cat few/1; true') >out 2>err
! grep -q key out && ! grep -q '^path.*ssh' hidden.policy && grep -q '^# not learnt: .*ssh.*hidden' hidden.policy
check $? "a secret that is hidden is learnt, or nothing is said of it: $(cat hidden.policy)"
if [ -x /usr/bin/python3 ]; then
	learn net.policy -- /usr/bin/python3 -c 'import socket
try: socket.create_connection(("169.254.169.254", 80), 1)
except OSError: pass' >out 2>err
	grep -q '^# not learnt: .*metadata' net.policy && ! grep -q egress net.policy
	check $? "nothing is said of the network: $(cat net.policy)"
	# As root in the sandbox, to whom Linux would not refuse it.
	learn spaces.policy --user 0 -- /usr/bin/python3 -c 'import ctypes
libc = ctypes.CDLL(None)
libc.unshare(0x10000000)
libc.unshare(0x20000)
libc.mount(b"x", b"/mnt", b"ext4", 0, None)' >out 2>err
	[ "$(grep -c '^# not learnt: new name spaces, which no policy allows' spaces.policy)" = 1 ] &&
		grep -q '^# not learnt: /mnt: was to be mounted' spaces.policy && "$MOAT" policy check spaces.policy >check.out 2>&1
	check $? "nothing is said of name spaces and mounts: $(cat spaces.policy)"
fi
# Never wider than what the run had.
(cd work && learn ro.policy --ro . -- sh -c 'echo x >few/1; cat few/1') >out 2>err
! grep -q 'access = rw' ro.policy && grep -q '^# not learnt: .*--rw' ro.policy
check $? "what was refused is learnt: $(cat ro.policy)"
(cd work && learn nested.policy --rw . --ro few -- sh -c 'cat few/1; echo x >new; ls') >out 2>err
grep -q 'work" .*rw' nested.policy && grep -q 'work/few" .*ro' nested.policy
check $? "a rule that narrows is not kept: $(cat nested.policy)"
(cd work && learn equal.policy --rw . --ro few -- sh -c 'ls; ls few; cat few/1') >out 2>err
check $? "what was granted twice and only read: $(cat err equal.policy)"
# A value of the caller's does not get into the file.
TOKEN=hunter2 learn env.policy --env TOKEN --env CI=1 -- true >out 2>err
grep -q '"TOKEN"' env.policy && grep -q '"CI=1"' env.policy && ! grep -q hunter2 env.policy
check $? "variables: $(cat env.policy)"
# Limits as people write them, and exact.
learn limits.policy --limit log_bytes=1536K --limit write_bytes=1000001 --limit buffers=3G -- true >out 2>err
grep -qx '	log_bytes = 1536K' limits.policy && grep -qx '	write_bytes = 1000001' limits.policy &&
	grep -qx '	buffers = 3G' limits.policy && grep -qx '	memory = [0-9]*[MGT]' limits.policy
check $? "limits: $(grep -A30 ^limits limits.policy)"
# Nobody who is watched writes his own policy.
(cd work && learn work/own.policy --rw . -- true) >out 2>err
[ $? = 2 ] && [ ! -e work/own.policy ] && grep -q 'name a file elsewhere' err
check $? "a policy is written where the program may write"
# No end, no policy.
rm -f late.policy
learn late.policy --limit wall_time=1s -- sleep 100 >out 2>err
[ $? = 137 ] && grep -q 'did not come to an end that can be learnt from; no policy is written$' err &&
	! "$MOAT" policy check late.policy >check.out 2>&1
check $? "a policy is made of a run that was killed: $(cat err)"
# To a pipe or a device: written as it is.
"$MOAT" policy learn -o /dev/stdout --platform "$platform" --rw "$dir/work" -- true 2>err </dev/null | cat >piped.policy
[ "${PIPESTATUS[0]}" = 0 ] && [ ! -s err ] && "$MOAT" policy check piped.policy >check.out
check $? "a policy to a pipe: $(cat err check.out)"
"$MOAT" policy learn -o /dev/full --platform "$platform" -- true 2>err </dev/null
[ $? = 125 ] && grep -qx 'moat policy: learn: /dev/full: cannot be written' err
check $? "a policy to a full device: $(cat err)"
learn fails.policy -- sh -c 'exit 7' >out 2>err
[ $? = 7 ] && grep -q '^# It ended with status 7' fails.policy
check $? "the status of the program is not passed on"
"$MOAT" policy learn -- true >out 2>&1
[ $? = 2 ] && [ "$(wc -l <out)" = 1 ]
check $? "policy learn without -o"

end
