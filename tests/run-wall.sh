#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The second wall around the sentry, seen from the host while a guest runs: name spaces, mounts, capabilities,
# descriptors, the file that it runs from; as root and as an ordinary user (MOAT_WALL_USER, default 1000). What a
# host lacks is said in one line (tests/platform/deny.c plays such hosts). And kill -9 of the monitor, the sentry and
# the stubs at random moments (MOAT_WALL_KILLS for each user, default 12): nothing is left, and the status is right.
# Ends with "N passed, N failed, N skipped".
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 2
build=$(realpath "${MOAT_BUILD:-build/rel}")
moat=$(realpath "${MOAT:-$build/moat}")
kills=${MOAT_WALL_KILLS:-12}
user=${MOAT_WALL_USER:-1000}
. tests/suite.sh
if [ "$(id -u)" != 0 ]; then
	skip "wall: only root can look into the sentry"
	end
fi
if "$moat" doctor | grep -A 6 "^second wall" | grep -q "does not work here"; then
	echo "skip wall: this host or build does not allow all of it:"
	"$moat" doctor | grep -A 6 "^second wall" | sed 's/^/    /'
	skipped=1
	end
fi

work=$(mktemp -d /var/tmp/moat-wall.XXXXXX)
trap 'rm -rf "$work"' EXIT
printf 'version = 1\nstrict = true\n' >"$work/policy"
mkdir "$work/rw" "$work/ro" "$work/below" "$work/home"
echo secret >"$work/secret"
echo one >"$work/one"
echo beside >"$work/beside"
cp /bin/true "$work/ro/prog"
cp "$moat" "$work/moat"
chown -R "$user:$user" "$work/rw" "$work/home"
chmod 755 "$work"
moat=$work/moat
# As words, so that what is started in the background is moat itself.
as_root="env --"
as_user="setpriv --reuid $user --regid $user --clear-groups --"

sentry_of() { # MONITOR: waits until it is there and locked down
	local i pid
	for ((i = 0; i < 600; i++)); do
		pid=$(pgrep -P "$1" | head -n 1)
		[ -n "$pid" ] && [ "$(sed -n 's/^Seccomp:\t//p' "/proc/$pid/status" 2>/dev/null)" = 2 ] && break
		sleep 0.05
	done
	echo "$pid"
}
field() { sed -n "s/^$1:\t//p" "/proc/$sentry/status"; }

# look WHO CAPS: a guest waits while we look through the host's eyes.
look() {
	local who=$1 caps=$2 as=as_$1 n fd monitor
	cd "$work/home" || return
	mkfifo "$work/go.$who"
	# shellcheck disable=SC2086
	${!as} "$moat" run --tty off --rw "$work/rw" --ro "$work/ro" --ro "$work/one" --cwd / -- \
		/bin/cat <>"$work/go.$who" 7<"$work/secret" 200<"$work" >"$work/out" 2>"$work/err" &
	monitor=$!
	sentry=$(sentry_of $monitor)
	for n in user mnt pid net ipc uts cgroup; do
		if [ "$(readlink "/proc/$sentry/ns/$n")" != "$(readlink "/proc/$monitor/ns/$n")" ]; then ok; else
			bad "$who: the same $n name space"
		fi
	done
	for n in CapInh CapAmb; do want "$who: $n" "$(field $n)" 0000000000000000; done
	for n in CapEff CapPrm CapBnd; do want "$who: $n" "$(field $n)" "$caps"; done
	want "$who: NoNewPrivs" "$(field NoNewPrivs)" 1
	# The monitor, which is outside.
	for n in CapInh CapPrm CapEff; do want "$who: the monitor's $n" "$(sed -n "s/^$n:\t//p" "/proc/$monitor/status")" 0000000000000000; done
	want "$who: the monitor's filter" "$(sed -n 's/^\(NoNewPrivs\|Seccomp\):\t//p' "/proc/$monitor/status" | tr -d '\n')" 12
	want "$who: core limit" "$(awk '/^Max core/{print $5, $6}' "/proc/$sentry/limits")" "1 1"
	# Through a mount of its own: nothing can be changed of the file by way of it, not even by the host's root.
	want "$who: exe" "$(readlink "/proc/$sentry/exe")" /
	want "$who: the file" "$(stat -Lc %d:%i "/proc/$sentry/exe")" "$(stat -c %d:%i "$moat")"
	for n in "chmod u+s" "chown 0:0" "setfattr -n user.x -v 1"; do
		command -v "${n%% *}" >/dev/null || continue
		out=$($n "/proc/$sentry/exe" 2>&1)
		want "$who: $n: $out" "$(grep -c "Read-only file system" <<<"$out")" 1
	done
	want "$who: maps" "$(grep -c " $moat\$" "/proc/$sentry/maps")" 0
	want "$who: dumpable" "$(stat -c %u "/proc/$sentry/maps")" 0
	# The mounts: where, and with which flags.
	# Grants are numbered as they are sorted.
	awk '{print $5, $6}' "/proc/$sentry/mountinfo" | sed 's,^/grants/[0-9]*,/grants/N,; s/,relatime$//; s/,noatime$//; s/,nodiratime$//' |
		grep -vE '^/(bin|sbin|lib|lib32|lib64|libx32|usr|etc)(/[^ ]*)? ro,nosuid,nodev(,noexec)?$' >"$work/mounts"
	cat >"$work/wanted" <<-END
		/ ro,nosuid,nodev,noexec
		/grants/N rw,nosuid,nodev
		/grants/N ro,nosuid,nodev
		/grants/N/one ro,nosuid,nodev
	END
	if sort "$work/mounts" | cmp -s - <(sort "$work/wanted"); then ok; else
		bad "$who: mounts: $(tr '\n' ';' <"$work/mounts")"
	fi
	# What lies over secrets is empty.
	want "$who: the root" "$(ls "/proc/$sentry/root" | grep -vxE "bin|sbin|lib|lib32|lib64|libx32|usr|etc|secrets?")" grants
	want "$who: nothing in the covers" "$(find "/proc/$sentry/root/secrets" -mindepth 1 2>/dev/null; cat "/proc/$sentry/root/secret" 2>/dev/null)" ""
	want "$who: beside a granted file" "$(cd "/proc/$sentry/root/grants" && ls -d ./*/one && ls ./*/beside 2>/dev/null)" ./2/one
	# What was inherited, and what leads to the host's tree, is not there.
	for fd in "/proc/$sentry/fd"/*; do
		n=$(readlink "$fd")
		case $n in
		"$work/secret" | "$work" | "$work/moat") bad "$who: descriptor $n is open" ;;
		esac
	done
	ok
	for n in $(pgrep -P "${sentry:-0}"); do
		want "$who: a stub's net name space" "$(readlink "/proc/$n/ns/net")" "$(readlink "/proc/$sentry/ns/net")"
		want "$who: a stub's CapEff" "$(sed -n 's/^CapEff:\t//p' "/proc/$n/status")" 0000000000000000
	done
	kill -TERM $monitor
	wait $monitor
	want "$who: status" $? 143
	want "$who: said" "$(cat "$work/err")" ""
	rm -f "$work/go.$who"
	cd - >/dev/null || return
}
look root 000000000000001f
look user 0000000000000000

# strict: a sealed copy, which shares no page with any file.
mkfifo "$work/go.strict"
(cd / && exec "$moat" run --tty off --policy "$work/policy" --cwd / -- /bin/cat <>"$work/go.strict" 2>"$work/err") &
monitor=$!
sentry=$(sentry_of $monitor)
want "strict: exe" "$(readlink "/proc/$sentry/exe")" "/memfd:moat (deleted)"
want "strict: it cannot be written to" "$( (: >>"/proc/$sentry/exe") 2>&1 | grep -cE "Text file busy|Operation not permitted|Permission denied")" 1
kill -TERM $monitor
wait $monitor

# What the caller's environment says to the C library moat's own processes do not follow; the program has what is
# passed on.
from_caller() {
	exec env GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0 MALLOC_TOP_PAD_=99999 LD_PRELOAD=libm.so.6 \
		"$moat" run --tty off --policy "$work/policy" --cwd / "$@"
}
mkfifo "$work/go.library"
(cd / && from_caller -- /bin/cat <>"$work/go.library" >"$work/err" 2>&1) &
monitor=$!
sentry=$(sentry_of $monitor)
want "LD_PRELOAD: loaded by moat" "$(cat "/proc/$monitor/maps" "/proc/$sentry/maps" | grep -c libm)" 0
want "LD_PRELOAD: the sentry is there" "$(grep -c libc "/proc/$sentry/maps" | grep -vx 0 | wc -l)" 1
want "the environment's: its name" "$(cat "/proc/$monitor/comm")" moat
kill -TERM $monitor
wait $monitor
want "the environment's: status, said" "$? $(cat "$work/err")" "143 "
# shellcheck disable=SC2016
out=$(cd / && from_caller --env MALLOC_TOP_PAD_ --env LD_PRELOAD --env GLIBC_TUNABLES -- \
	/bin/sh -c 'echo "$GLIBC_TUNABLES $MALLOC_TOP_PAD_ $LD_PRELOAD"; env | grep -c MOAT_; tar cf - /usr/include 2>&1 | wc -c >/tmp/size' 2>&1)
want "the environment's, passed on" "$? $(tr '\n' ' ' <<<"$out")" "0 glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0 99999 libm.so.6 0 "
out=$(cd / && env GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "$moat" run --tty off --policy "$work/policy" --cwd / -- /bin/echo ran 2>&1)
want "GLIBC_TUNABLES alone, strict" "$out" ran
# Executed by a descriptor that goes with it: its name leads nowhere.
if command -v python3 >/dev/null; then
	out=$(cd / && python3 -c 'import os, sys; os.execve(os.open(sys.argv[1], os.O_RDONLY | os.O_CLOEXEC), sys.argv[1:], {"LD_BIND_NOW": "1"})' \
		"$moat" run --tty off --policy "$work/policy" --cwd / -- /bin/echo ran 2>&1)
	want "without a name of its own" "$out" ran
fi

# Root over the system directories alone needs nothing.
mkfifo "$work/go"
"$moat" run --tty off --cwd / -- /bin/cat <>"$work/go" >/dev/null 2>&1 &
monitor=$!
sentry=$(sentry_of $monitor)
for n in CapEff CapPrm CapBnd; do want "root, no grants: $n" "$(field $n)" 0000000000000000; done
kill -9 "$monitor"
wait $monitor 2>/dev/null
for ((i = 0; i < 100; i++)); do [ -d "/proc/$sentry" ] || break; sleep 0.05; done
if [ -d "/proc/$sentry" ]; then bad "the sentry outlives the monitor"; else ok; fi

# From within: what is granted works, as root and as the user.
for who in root user; do
	as=as_$who
	# shellcheck disable=SC2086,SC2016
	out=$(cd / && ${!as} "$moat" run --tty off --rw "$work/rw" --ro "$work/ro" --ro "$work/one" --cwd / -- /bin/sh -c '
		d=$1; echo hi >$d/rw/f && cat $d/rw/f; mv $d/rw/f $d/rw/g; mkdir $d/rw/d; ln $d/rw/g $d/rw/d/h; rm -r $d/rw/d $d/rw/g
		cat $d/one; cat $d/beside $d/secret 2>/dev/null; (echo x >$d/one) 2>/dev/null; $d/ro/prog && echo ran
		stat -c %u /etc /usr /bin; ls / | grep -c .' sh "$work" 2>&1 | tr '\n' ' ')
	[[ $out =~ ^"hi one ran 0 0 0 "[0-9]+" "$ ]] && ok || bad "$who: a guest sees: $out"
done

# Started where the caller may not look: which directory, and what to do, in one line.
mkdir -m 700 "$work/shut"; mkdir "$work/shut/in"
out=$(cd "$work/shut/in" && $as_user "$moat" run --tty off -- /bin/echo ran 2>&1)
want "the status where the caller's directory is shut" $? 2
[[ $out == "moat run: cannot show the caller's directory $work/shut/in: Permission denied; "*--cwd ]] && ok || bad "shut: $out"
want "--cwd elsewhere" "$(cd "$work/shut/in" && $as_user "$moat" run --tty off --cwd / -- /bin/echo ran 2>&1)" ran

# --wall=off says so.
out=$("$moat" run --wall=off --tty off --cwd / -- /bin/echo ran 2>&1 >/dev/null)
[[ $out == *"--wall=off"* && $(wc -l <<<"$out") = 1 ]] && ok || bad "--wall=off: $out"

# ---- what hosts lack ----
# tried NAME COMMAND…: leaves out, err and status of a sandbox that COMMAND starts; false: it cannot be played here.
tried() {
	local name=$1
	shift
	if ! "$@" true 2>/dev/null; then
		skip "$name: it cannot be played here"
		return 1
	fi
	out=$(cd / && timeout 60 "$@" "$moat" run --tty off --cwd / -- /bin/echo ran 2>"$work/err" </dev/null)
	status=$?
}
# lacking NAME PATTERN COMMAND…: the guest runs, and one line says what is missing.
lacking() {
	local name=$1 pattern=$2
	shift 2
	tried "$name" "$@" || return
	if [ "$out" = ran ] && [ "$(grep -c . "$work/err")" = 1 ] && grep -qE "$pattern" "$work/err"; then ok; else
		bad "$name: $out: $(cat "$work/err")"
	fi
	# strict: refused, with the same reason.
	out=$(cd / && timeout 60 "$@" "$moat" run --tty off --policy "$work/policy" --cwd / -- /bin/echo ran 2>"$work/err" </dev/null)
	if [ $? = 125 ] && [ -z "$out" ] && [ "$(grep -c . "$work/err")" = 1 ] && grep -q "strict: this host does not allow" "$work/err"; then ok; else
		bad "$name, strict: $out: $(cat "$work/err")"
	fi
}
deny="$build/deny"
mirror=$work/deny
[ -x "$deny" ] && cp "$deny" "$mirror"
lacking "no user name spaces, a user" 'without name spaces \(Operation not permitted' $as_user "$mirror" clone-user=EPERM --
lacking "no mounts, a user" 'without root of its own' $as_user "$mirror" move_mount=EPERM --
lacking "no mount_setattr" 'without root of its own .*5\.12' $as_root "$mirror" mount_setattr=ENOSYS --
lacking "no Landlock" 'without Landlock \(it is not built' $as_root "$mirror" landlock=ENOSYS --
lacking "no PR_SET_MM" 'without file of its own' $as_root "$mirror" prctl-mm=EPERM --
lacking "no fsopen" 'without root of its own .*, /proc of its own' $as_root "$mirror" fsopen=EPERM --
# shellcheck disable=SC2016
# Hosts before Linux 6.6 and 5.6, whose sentry makes other calls: its own filter lets it. Without openat2 there is
# ptrace only.
for who in root user; do
	as=as_$who
	for lack in fchmodat2=ENOSYS fchmodat2=EPERM "fchmodat2=ENOSYS openat2=ENOSYS"; do
		how=
		[[ $lack = *openat2* ]] && how=--platform=ptrace
		# shellcheck disable=SC2086,SC2016
		want "without $lack, $who" "$(cd "$work/home" && ${!as} "$mirror" $lack -- "$moat" run $how --tty off --rw "$work/rw" -- \
			/bin/sh -c 'cd "$0" && echo text >f && chmod 604 f && mkdir d && chmod 711 d && stat -c %a f d && rm -r f d' \
			"$work/rw" 2>&1 | paste -sd" ")" "604 711"
	done
done
lacking "max_user_namespaces is 0" 'name spaces .*user.max_user_namespaces' $as_user unshare -Ur \
	sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"' sh
lacking "an outer sandbox without a full /proc" 'without /proc of its own' $as_user bwrap --unshare-all --ro-bind / / \
	--proc /proc --tmpfs /proc/sys
lacking "a user name space without ids" 'name spaces .*knows no ids' $as_user unshare -U
lacking "root without capabilities" 'name spaces .*CAP_SETUID' $as_root setpriv --bounding-set=-all --inh-caps=-all
lacking "another pid name space's /proc" "name spaces \\(/proc is another pid name space's" $as_root unshare -p -f
lacking "children in another pid name space" 'name spaces .*in another pid name space than moat' $as_root unshare -p
# refused NAME PATTERN COMMAND…: no sandbox starts there; one line says why.
refused() {
	local name=$1 pattern=$2
	shift 2
	tried "$name" "$@" || return
	if [ $status = 125 ] && [ -z "$out" ] && [ "$(grep -c . "$work/err")" = 1 ] && grep -qE "$pattern" "$work/err"; then ok; else
		bad "$name: $out: $(cat "$work/err")"
	fi
}
for how in KILL TRAP; do
	for call in setns unshare clone3 landlock; do
		refused "a filter that has a $how for $call" '^moat run: a seccomp filter that moat was started under' \
			$as_root "$mirror" $call=$how --
	done
done
refused "a filter that forbids threads" 'cannot start a thread: .*: a seccomp filter around moat forbids clone3' $as_root "$mirror" clone3=EPERM --
refused "few descriptors" 'only 16 descriptors \(ulimit -Hn\)' $as_user bash -c 'ulimit -n 16; exec "$@"' bash
refused "descriptors for a start and no more" 'only 26 descriptors \(ulimit -Hn\)' $as_user bash -c 'ulimit -n 26; exec "$@"' bash
refused "few processes" 'ulimit -u' $as_user bash -c 'ulimit -u 4; exec "$@"' bash
refused "little data" 'only 4000 KiB of address space or data' $as_user bash -c 'ulimit -d 4000; exec "$@"' bash
refused "little address space" 'only 50000 KiB of address space' $as_user bash -c 'ulimit -v 50000; exec "$@"' bash
out=$(cd / && timeout 60 setpriv --no-new-privs "$moat" run --tty off --cwd / -- /bin/echo ran 2>&1)
want "no_new_privs before" "$out" ran

# ---- the monitor outlives its pipes ----
# A signal to pass on, and the sentry has ended meanwhile: its status and its archive count.
(cd / && exec "$moat" run --tty off --save "$work/kept.tar" --cwd / -- /bin/sh -c 'echo x >/tmp/x; read -r line; exit 3') \
	<"$work/go" >/dev/null 2>&1 &
monitor=$!
exec 9>"$work/go"
sentry=$(sentry_of $monitor)
kill -STOP $monitor
echo line >&9
for ((i = 0; i < 200; i++)); do grep -q '^State:.Z' "/proc/$sentry/status" && break; sleep 0.05; done
kill -TERM $monitor
kill -CONT $monitor
wait $monitor
want "a signal for a sentry that has ended" "$?, $(ls "$work" | grep -c '^kept.tar')$(tar -tf "$work/kept.tar" | grep -c '^tmp/x$')" "3, 11"
exec 9>&-
out=$(ulimit -f 1 && cd / && "$moat" run --tty off --cwd / -- /bin/true 2>&1)
want "files may not grow" "$?, $(grep -c 'ulimit -f' <<<"$out")" "125, 1"

# ---- kill -9 ----
# What a run leaves: processes of it (its copy's exe), mounts and name spaces with them.
left() { pgrep -f "^$work/moat" | wc -l; }
mounts_before=$(wc -l </proc/self/mountinfo)
seed=${MOAT_WALL_SEED:-$RANDOM}
RANDOM=$seed
one_kill() { # WHO
	local who=$1 as=as_$1 monitor victim pids role status i
	# shellcheck disable=SC2086
	(cd "$work/home" && exec ${!as} "$moat" run --tty off --cwd / -- /bin/sh -c \
		'while :; do /bin/true; (sleep 0.01); done') </dev/null >/dev/null 2>"$work/kill.err" &
	monitor=$!
	sleep "0.$(printf %03d $((RANDOM % 200)))"
	role=$((RANDOM % 3))
	victim=$monitor
	pids=$(pgrep -P $monitor 2>/dev/null)
	if [ $role = 1 ] && [ -n "$pids" ]; then victim=$(head -n 1 <<<"$pids"); fi
	if [ $role = 2 ] && [ -n "$pids" ]; then
		pids=$(pgrep -P "$(head -n 1 <<<"$pids")" | shuf -n 1 --random-source=<(yes $RANDOM))
		[ -n "$pids" ] && victim=$pids
	fi
	kill -9 "$victim" 2>/dev/null
	# A guest process may have been killed, which the shell survives or not; the rest is ended by the monitor.
	if [ "$victim" != $monitor ]; then
		for ((i = 0; i < 40; i++)); do kill -0 $monitor 2>/dev/null || break; sleep 0.05; done
		kill -TERM $monitor 2>/dev/null
	fi
	wait $monitor 2>/dev/null
	status=$?
	case $role in
	1) [ "$victim" = $monitor ] || [ $status = 125 ] || bad "seed $seed, $who: the sentry killed: status $status: $(cat "$work/kill.err")" ;;
	0) [ $status = 137 ] || bad "seed $seed, $who: the monitor killed: status $status: $(cat "$work/kill.err")" ;;
	# The guest's own then: its shell was killed (while it execed: SIGSEGV), could not load or fork, or was told to end.
	*) case $status in 125 | 126 | 127 | 137 | 139 | 143 | 1 | 2) ;; *) bad "seed $seed, $who: a stub killed: status $status: $(cat "$work/kill.err")" ;; esac ;;
	esac
}
for who in root user; do
	before=$failed
	for ((k = 0; k < kills; k++)); do one_kill $who; done
	for ((i = 0; i < 100; i++)); do [ "$(left)" = 0 ] && break; sleep 0.05; done
	[ "$failed" = "$before" ] && ok
	want "$who: processes left after $kills kills" "$(left)" 0
done
want "mounts left" "$(wc -l </proc/self/mountinfo)" "$mounts_before"
end
