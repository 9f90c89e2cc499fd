#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Policies, as a user has them: what `moat policy' says, that a run obeys them, and that both agree. Inputs: MOAT,
# PLATFORMS (the first is used; default: trap), TESTBIN (a folder outside of /tmp; default: /var/tmp).
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
begin_in policy
run() { timeout -k 5 60 "$MOAT" run --platform "$platform" "$@" </dev/null; }
# refused WHAT TEXT COMMAND…: status 2, nothing run, one line that has TEXT.
refused() {
	local what=$1 text=$2 out status
	shift 2
	out=$("$@" 2>&1 </dev/null)
	status=$?
	if [ $status = 2 ] && [ "$(wc -l <<<"$out")" = 1 ] && [[ $out == *"$text"* ]]; then ok; else
		bad "$what: status $status: $out"
	fi
}

mkdir -p work/sub/deep work/hid workshop home/.ssh home/.config/gcloud home/proj tree/a/b
echo x >work/file; echo x >work/sub/file; echo x >work/hid/secret; echo x >workshop/file
ln work/hid/secret work/again
ln -s hid/secret work/to_hidden
ln -s sub/file work/to_file
ln -s ../workshop/file work/out
ln -s /etc/hostname work/absolute
ln -s loop work/loop
cp /bin/true work/prog; cp /bin/true work/sub/prog
echo key >home/.ssh/id; echo n >home/.netrc; echo c >home/.config/gcloud/c; ln home/.netrc home/proj/netrc

# ---- what is printed is what is meant ----
for p in strict default agent-python agent-node build; do
	"$MOAT" policy show $p >$p.policy 2>err
	check $? "policy show $p: $(cat err)"
	a=$("$MOAT" policy check $p | sed -n 's/.*good; grant //p')
	b=$("$MOAT" policy check $p.policy | sed -n 's/.*good; grant //p')
	[ ${#a} = 64 ] && [ "$a" = "$b" ]
	check $? "$p and what is shown of it are two grants: $a $b"
done
mkdir -p started
for p in default agent-python agent-node build strict; do
	out=$(cd started && run --preset $p -- /bin/sh -c 'pwd; : >made && echo writes; rm -f made' 2>&1)
	case $p in
	# What a host lacks of the second wall is named, and refused.
	strict) [[ $out == /* || $out == *strict* ]] && [[ $out != *started* ]] ;;
	build) [[ $out == "$dir/started"*writes ]] ;;
	*) [[ $out == "$dir/started"* && $out != *writes ]] ;;
	esac
	check $? "preset $p: $out"
done
refused "an unknown preset" "no such preset; there are strict" run --preset nope -- /bin/true
refused "show of what there is not" "there are the presets" "$MOAT" policy show nope
# What is granted on the command line, and what names a file, once.
refused "a target that is relative" "--rw work:there: what the guest calls it begins with /: work:/there" run --rw work:there -- /bin/true
refused "a colon, and no such file" "--ro none:there: No such file" run --ro none:there -- /bin/true
mkdir work/a:b
out=$(run --ro work/a:b -- /bin/ls -d "$dir/work/a:b" 2>&1)
[ "$out" = "$dir/work/a:b" ]
check $? "a colon that is of the name: $out"
for option in root audit strace stats profile-calls diff load; do
	refused "two --$option" "--$option: it can be said once" run "--$option=$dir/none1" "--$option=$dir/none2" -- /bin/true
done
[ ! -e none1 ] && [ ! -e none2 ]
check $? "an option said twice made a file"
out=$(run --debug --workers 2 --rw "$dir/work:/there" --cwd /there --user 12:34 --limit processes=77 -- /bin/true 2>&1)
for line in "platform $platform, 2 worker threads" "walls around moat's kernel: ..*" "root: the host's system directories" \
	"rw: $dir/work as /there (--rw)" "user 12, group 34, in /there" "limit processes: 77"; do
	grep -qx "moat: $line" <<<"$out"
	check $? "--debug says $line: $out"
done
out=$(umask 027 && run --rw "$dir/work" --cwd "$dir/work" -- /bin/sh -c 'umask; : >masked' 2>&1)
[ "$out $(stat -c %a work/masked)" = "0027 640" ]
check $? "the caller's umask: $out $(stat -c %a work/masked)"
rm -f work/masked
for command in "help" "version" "doctor" "policy check good.policy" "policy show strict" "policy explain default -- open /etc/passwd"; do
	printf 'version = 1\n' >good.policy
	# shellcheck disable=SC2086
	out=$("$MOAT" $command 2>&1 >/dev/full)
	[ $? = 125 ] && [ "$(wc -l <<<"$out")" = 1 ] && [[ $out = *"No space left on device"* ]]
	check $? "$command to a full device: $out"
done
refused "two policies" "one policy rules" run --preset default --preset strict -- /bin/true
refused "no such file" "No such file" run --policy none.policy -- /bin/true
refused "a directory" "Is a directory" "$MOAT" policy check .
mkfifo fifo
refused "a FIFO" "version: it comes first" timeout 5 "$MOAT" policy check fifo
printf 'version = 1\nhostname = box\n  pth "/x" { }\n' >bad.policy
refused "a mistake" "bad.policy:3:3: 'pth': no such key" run --policy bad.policy -- /bin/true
refused "a mistake, checked" "bad.policy:3:3: 'pth': no such key" "$MOAT" policy check bad.policy
head -c 1100000 /dev/zero | tr '\0' '#' >big.policy
refused "too big" "that is no policy" "$MOAT" policy check big.policy
printf 'version = 1\negress = { "example.org:443" }\n' >net.policy
refused "a policy with egress" "net.policy:2:12: example.org:443: moat has no network yet" \
	run --policy net.policy -- /bin/true
"$MOAT" policy check net.policy | grep -q 'cannot run yet'
check $? "policy check of egress"
"$MOAT" policy explain net.policy -- connect example.org:443 | grep -q '^allowed: .*net.policy:2:12'
check $? "explain connect"
"$MOAT" policy explain net.policy -- connect example.org:80 | grep -q '^denied: '
check $? "explain connect to another port"
"$MOAT" policy explain default -- connect example.org:80 | grep -q '^denied: .*there is no network yet.*a run with it is refused$'
check $? "explain connect says that there is no network"
printf 'version = 1\n' >good.policy
"$MOAT" policy check good.policy bad.policy good.policy >checked 2>&1
[ "$(cut -d: -f1 checked | tr '\n' ' ')" = "good.policy moat policy good.policy " ]
check $? "policy check of three: $(cat checked)"
printf 'version = 1\ncwd = "/none/such"\n' >cwd.policy
refused "a cwd that is not there" "moat run: cwd.policy:2:7: cwd: /none/such: No such file" run --policy cwd.policy -- /bin/true
refused "--cwd over it" "moat run: --cwd /none: No such file" run --policy cwd.policy --cwd /none -- /bin/true
refused "a root that is a file" "moat run: cannot open the root $dir/cwd.policy: Not a directory; name" \
	run --root cwd.policy -- /bin/true
refused "a target /" "the root is no grant; --root DIR" run --ro "$dir/work:/" -- /bin/true
out=$(run --limit file_inodes=1 -- /bin/true 2>&1)
[ $? = 125 ] && [[ $out = *"its limits are too low for an empty one"* ]]
check $? "no room for the root: $out"
for command in run doctor policy diff report; do
	[ "$("$MOAT" help $command)" = "$("$MOAT" $command --help)" ]
	check $? "moat help $command"
done
[ "$("$MOAT" run -h)" = "$("$MOAT" run --help)" ]
check $? "moat run -h"

# ---- what is never granted ----
for g in / /proc /sys /dev /dev/null /proc/self; do
	refused "--ro $g" "never granted" run --ro $g:/mnt -- /bin/true
done
refused "--root /" "never granted" run --root / -- /bin/true
refused "a target in /proc" "of its own" run --ro "$dir/work:/proc/x" -- /bin/true
refused "two rights" "choose one" run --ro "$dir/work:/a" --rw "$dir/work:/b" -- /bin/true
refused "said twice" "grants that already" run --ro "$dir/work" --ro "$dir/work/sub" -- /bin/true
refused "moat itself" "moat itself is there" run --rw "$(dirname "$MOAT"):/m" -- /bin/true

# ---- a run obeys, and explain says the same ----
cat >table.policy <<-END
	version = 1
	path "/work" { host = "$dir/work" access = rw }
	path "/work/sub" { host = "$dir/work/sub" access = ro exec = true }
	path "/work/hid" { access = hidden }
	path "/none" { access = ro optional = true }
	devices = { null, zero }
	env = { "A=1" }
	cwd = "/work"
END
cat >table <<-END
	open /work/file
	open /work/file write
	open /work/new1 write
	open /work/nodir/new write
	open /work/sub/file
	open /work/sub/file write
	open /work/sub/new2 write
	open /work/hid
	open /work/hid write
	open /work/hid/secret
	open /work/hid/secret write
	open /work/again
	open /work/to_hidden
	open /work/to_hidden write
	open /work/to_file
	open /work/to_file write
	open /work/out
	open /work/absolute
	open /work/loop
	open /work/../work/file
	open /work/sub/../file write
	open /work/sub/../hid/secret
	open /work/./hid/../file
	open /work/file/..
	open /work/file/x
	open /work
	open /work write
	open /workshop
	open /workshop/file
	open /none
	open /none/x
	open $dir/work/file
	open $dir/workshop/file
	open /etc/hostname
	open /etc/new3 write
	open /etc/shadow
	open /tmp/new4 write
	open /dev/null
	open /dev/null write
	open /dev/urandom
	open /dev/tty
	open /usr/bin/env
	open /proc/version
	open /proc/version write
	exec /bin/true
	exec /bin/../bin/true
	exec /etc/passwd
	exec /work/prog
	exec /work/file
	exec /work/sub/prog
	exec /work/sub/../sub/prog
	exec /work/sub/file
	exec /work/hid/prog
	exec /work
END
# The guest opens and executes; files that it makes are new ones.
cat >try.sh <<-'END'
	while read -r verb path how; do
		case $verb$how in
		open) ( : <"$path" ) 2>/dev/null ;;
		openwrite) ( : >>"$path" ) 2>/dev/null ;;
		exec) "$path" >/dev/null 2>&1; [ $? -lt 126 ] ;;
		esac && echo "allowed $verb $path $how" || echo "denied $verb $path $how"
	done
END
timeout -k 5 60 "$MOAT" run --platform "$platform" --policy table.policy --ro "$dir/try.sh:/try.sh" -- \
	/bin/sh /try.sh <table >tried 2>err
check $? "the table does not run: $(cat err)"
rm -f work/new1
while read -r verb path how; do
	# shellcheck disable=SC2086
	said=$(timeout -k 5 60 "$MOAT" policy explain table.policy -- $verb "$path" $how 2>&1 </dev/null)
	grep -qxF "${said%%:*} $verb $path $how" tried
	check $? "$verb $path $how: $said; but a run: $(grep -F " $verb $path $how" tried)"
done <table
[ "$(grep -c '^allowed' tried)" -ge 15 ] && [ "$(grep -c '^denied' tried)" -ge 20 ]
check $? "the table has both"
for e in "open /work/hid:table.policy:4:6: path \"/work/hid\" is hidden" \
	"open /work/sub/x write:table.policy:3:6: path \"/work/sub\" is ro" \
	"exec /work/prog:table.policy:2:6: path \"/work\" has no exec" \
	"open /none/x:table.policy:5:6: it is optional" "open /workshop:no rule shows it; path \"/workshop\" {"; do
	# shellcheck disable=SC2086
	"$MOAT" policy explain table.policy -- ${e%%:*} 2>&1 </dev/null | grep -qF "${e#*:}"
	check $? "explain: ${e#*:}"
done

# What root may read on the host and not everybody is not shown, and explain knows.
if [ "$(id -u)" = 0 ] && [ -e /etc/shadow ] && [ -z "$(find /etc/shadow -perm -o=r)" ]; then
	! run -- cat /etc/shadow >/dev/null 2>&1 &&
		"$MOAT" policy explain default -- open /etc/shadow | grep -q '^denied: .*not every user of the host' &&
		"$MOAT" policy explain default -- open /etc/passwd | grep -q '^allowed: '
	check $? "explain of what not everybody may read"
else
	skipped=$((skipped + 1))
fi
refused "granted twice" "--rw grants it already" "$MOAT" run --rw "$dir/work" --ro "$dir/work" -- /bin/true
refused "granted twice alike" "--ro grants it already" "$MOAT" run --ro "$dir/work" --ro "$dir/work" -- /bin/true

# ---- no exec is no exec, devices that are not granted serve nobody ----
out=$(run --policy table.policy --user 0 -- /bin/sh -c '
	/lib64/ld-linux-x86-64.so.2 /work/prog && echo loaded
	mv /work/prog /work/sub/p2; mv /work/sub /work/s2; rmdir /work/sub
	mknod /var/full c 1 7; mknod /var/random c 1 8; cat /var/full /var/random | head -c 1 | wc -c
	mknod /var/null c 1 3; echo x >/var/null && echo null
	env | grep -c "^\(TERM\|LANG\)="; echo "$A"' 2>/dev/null)
[ "$out" = "0
null
0
1" ]
check $? "exec, devices, environment: $out"
[ "$(ls work/sub)" = "deep
file
prog" ]
check $? "what is above a rule was moved"

# ---- secrets ----
cat >secrets.sh <<-'END'
	cat .ssh/id .netrc proj/netrc .config/gcloud/c
	ls -A . proj .config; ls -A ../home/.ssh
	echo x >.ssh/authorized_keys; mkdir .ssh .kube; echo x >.bash_history; ln -s proj .ssh
	mv .config c; rmdir .config; mv proj .ssh; mv .config/gcloud g; rm -rf .ssh .netrc
END
cp -a home home.before
out=$(HOME=$dir/home run --rw "$dir/home" --cwd "$dir/home" --ro "$dir/secrets.sh:/secrets.sh" -- /bin/sh /secrets.sh 2>/dev/null)
[ "$out" = ".:
.config
proj

.config:

proj:" ]
check $? "secrets are hidden: $out"
diff -r home home.before >diff.out
check $? "secrets were changed: $(cat diff.out)"
# Nor does the sentry have them, should somebody take it over.
mkfifo hold
HOME=$dir/home "$MOAT" run --platform "$platform" --rw "$dir/home" --cwd / -- /bin/cat <hold >held &
monitor=$!
exec 9>hold
echo ready >&9
for _ in $(seq 200); do
	[ -s held ] && break
	sleep 0.05
done
sentry=$(pgrep -P $monitor | head -n 1)
if ls "/proc/$sentry/root/grants/0" >seen 2>/dev/null; then
	seen=$(cd "/proc/$sentry/root/grants/0" && ls -A .ssh .config/gcloud; cat .netrc)
	[ "$seen" = ".config/gcloud:

.ssh:" ]
	check $? "the sentry has secrets: $seen"
else
	skip "the sentry's root cannot be looked at (not root, or no root of its own)"
fi
exec 9>&-
wait $monitor
out=$(cd home && HOME=$dir/home run -- /bin/cat .netrc 2>&1)
[[ $out == *"No such file"* ]]
check $? "secrets in the caller's directory: $out"
out=$(HOME=$dir/home run --ro "$dir/home/.ssh" -- /bin/cat "$dir/home/.ssh/id" 2>&1)
[ "$out" = key ]
check $? "a secret that is named is shown: $out"
out=$(cd home && HOME=$dir/home run --preset default -- /bin/cat .ssh/id 2>&1)
[[ $out == *"No such file"* ]]
check $? "secrets with a preset: $out"

# ---- the policy cannot be changed by whom it rules ----
mkdir -p own/conf
printf 'version = 1\npath "%s/own" { access = rw }\ncwd = "%s/own"\n' "$dir" "$dir" >own/conf/p.policy
cp own/conf/p.policy before
run --policy own/conf/p.policy -- /bin/sh -c 'echo "user = 0" >>conf/p.policy; rm -f conf/p.policy; mv conf c2
	mkdir conf; echo x >conf/p.policy; echo fine >conf/other' 2>/dev/null
cmp -s before own/conf/p.policy && [ -f own/conf/other ]
check $? "the guest changed its policy"

# ---- options beside a policy ----
out=$(run --policy table.policy --ro "$dir/work:/work" --env A=2 --hostname other -- /bin/sh -c \
	'echo x >/work/file; echo "$A"; cat /proc/sys/kernel/hostname' 2>/dev/null)
[ "$out" = "2
other" ]
check $? "options beside a policy: $out"
refused "an option shows what is hidden" "table.policy:4:6 hides it" \
	run --policy table.policy --ro "$dir/tree:/work/hid" -- /bin/true
refused "below what is hidden" "is hidden by table.policy:4:6" \
	run --policy table.policy --ro "$dir/tree:/work/hid/x" -- /bin/true

end
