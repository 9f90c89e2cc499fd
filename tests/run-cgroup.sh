#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The cgroup behind the meters (runtime/cgroup.h), seen from the host: what is set and who is in it; that the guest's
# largest process goes when the host's kernel finds no more memory in it, and the sandbox lives; that nothing is left
# after any end, and that a monitor's remains go with the next. Ends with "N passed, N failed, N skipped".
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 2
build=$(realpath "${MOAT_BUILD:-build/rel}")
moat=$(realpath "${MOAT:-$build/moat}")
user=${MOAT_WALL_USER:-1000}
. tests/suite.sh
lacks=$("$moat" doctor | sed -n '/^cgroup/,$p' | grep "does not work here")
if [ "$(id -u)" != 0 ] || [ -n "$lacks" ]; then
	skip "cgroup: no controller that can be written: ${lacks:-only root can look}"
	end
fi

work=$(mktemp -d /var/tmp/moat-cgroup.XXXXXX)
monitor=
trap '[ -n "$monitor" ] && kill -9 $monitor 2>/dev/null; rm -rf "$work"' EXIT
chmod 755 "$work"
cp "$moat" "$work/moat"
moat=$work/moat
cd "$work" || exit 2
mapfile -t mounts < <(awk '/ - cgroup2? / { print $5 }' /proc/self/mountinfo)
dirs() { find "${mounts[@]}" -xdev -type d -name "moat-$1-*" 2>/dev/null; }
# file MONITOR NAME…: the first file of those names
file() {
	local d n
	for d in $(dirs "$1"); do
		for n in "${@:2}"; do [ -f "$d/$n" ] && echo "$d/$n" && return; done
	done
}
count() { dirs "$1" | wc -l; }
# held DIR PID: is it in there, or one further down (v2)?
held() { grep -qsx "$2" "$1/cgroup.procs" "$1/box/cgroup.procs"; }
# begin LIMIT…: a guest that does what is written to fd 8, and says when it has begun.
begin() {
	local limits=() l
	for l; do limits+=(--limit "$l"); done
	rm -f go said
	mkfifo go said
	exec 8<>go 9<>said
	# shellcheck disable=SC2016
	"$moat" run --tty off --cwd / "${limits[@]}" -- /bin/sh -c 'echo begun; while read -r l; do eval "$l"; done' \
		<&8 >&9 2>"$work/err" 8>&- 9>&- &
	monitor=$!
	hear
	[ "$heard" = begun ] || bad "$*: the guest does not begin: $heard $(cat "$work/err")"
	sentry=$(pgrep -P $monitor | head -n 1)
}
tell() { echo "$*" >&8; }
hear() { heard= && read -r -t 60 heard <&9; }
finish() { # WHAT STATUS
	local status
	wait $monitor 2>/dev/null
	status=$?
	want "$1: status" $status "$2"
	monitor=
	exec 8>&- 9>&-
}

# ---- what is set, and who is in it ----
begin memory=64M sentry_memory=32M threads=100 cpu_share=50%
want "memory" "$(cat "$(file $monitor memory.max memory.limit_in_bytes)")" $(((64 + 32 + 64 + 256) << 20))
swap=$(file $monitor memory.swap.max memory.memsw.limit_in_bytes)
case $swap in
*.max) want "swap" "$(cat "$swap")" 0 ;;
?*) want "memory and swap" "$(cat "$swap")" "$(cat "$(file $monitor memory.limit_in_bytes)")" ;;
esac
want "threads" "$(cat "$(file $monitor pids.max)")" 456
quota=$(cat "$(file $monitor cpu.max cpu.cfs_quota_us)")
want "cpu_share" "${quota%% *}" 50000
for d in $(dirs $monitor); do
	for p in $sentry $(pgrep -P "$sentry"); do
		if held "$d" "$p"; then ok; else bad "$d: without $p, $(cat "/proc/$p/comm")"; fi
	done
	if held "$d" "$monitor"; then bad "$d: the monitor is in it"; else ok; fi
done
want "the sentry's oom_score_adj" "$(cat "/proc/$sentry/oom_score_adj")" 500
for p in $(pgrep -P "$sentry"); do want "a stub's oom_score_adj" "$(cat "/proc/$p/oom_score_adj")" 1000; done
# Another run leaves it alone, though it looks for remains.
before=$(count $monitor)
"$moat" run --tty off --cwd / --limit memory=64M --limit threads=50 --limit cpu_share=50% -- /bin/true || bad "beside it: $?"
want "beside another run" "$(count $monitor)" "$before"
m=$monitor
tell 'nproc'
hear
want "processors of 50%" "$heard" 1
tell 'exit 7'
finish "normal end" 7
want "left after a normal end" "$(count "$m")" 0

# ---- the sentry's meter is first ----
# Three guests use up to 96 MiB each, of 64 for all, until they are killed; moat's own kernel writes them. It is to kill,
# and the host nobody: however late it looks, that is less than the cgroup holds.
if command -v python3 >/dev/null; then
	begin memory=64M sentry_memory=64M
	tell 'hog="import mmap, itertools; m = [mmap.mmap(-1, 24 << 20, 34) for i in range(4)]; f = open(\"/dev/zero\", \"rb\", 0); [f.readinto(x) for x in itertools.cycle(m)]"'
	tell 'for i in 1 2 3; do python3 -c "$hog" & done; wait; echo alive; exit 5'
	hear
	want "the sandbox after the meter has killed" "$heard" alive
	m=$monitor
	finish "after the meter has killed" 5
	want "processes that the host has killed" "$(sed -n 's/.*host killed \([0-9]*\).*/\1/p' "$work/err")" ""
	# Who came late may have got no memory at all.
	if grep -q "^moat: limit: memory: .* was killed" "$work/err"; then ok; else bad "the meter has killed nobody: $(cat "$work/err")"; fi
	want "left after the meter has killed" "$(count "$m")" 0
fi

# ---- no more memory ----
# The meter allows this; it is as if it had not looked.
begin memory=512M
f=$(file $monitor memory.max memory.limit_in_bytes)
echo $((48 << 20)) >"$f" || bad "$f cannot be set"
# The guest's own code touches it: what the sentry writes into a process that is being killed may cost another one.
tell '/usr/bin/awk "BEGIN { s = \"x\"; while (length(s) < 134217728) s = s s }" 2>/dev/null; echo $?'
hear
want "the process that touches too much" "$heard" 137
tell 'echo alive; exit 5'
hear
want "the sandbox after it" "$heard" alive
m=$monitor
finish "after it" 5
if [ "$(grep -c . "$work/err")" = 1 ] && grep -q "^moat: limit: memory: .* killed 1 of its processes" "$work/err"; then ok; else
	bad "told of it: $(cat "$work/err")"
fi
want "left after it" "$(count "$m")" 0

# ---- no more pids ----
# The meter allows this, too; the shell gets its error and ends by it.
begin threads=100
m=$monitor
echo 1 >"$(file $monitor pids.max)" || bad "pids.max cannot be set"
tell '(/bin/true)'
finish "no more pids" 2
if grep -q "Cannot fork" "$work/err"; then ok; else bad "no more pids: $(cat "$work/err")"; fi
want "left after it" "$(count "$m")" 0

# ---- ends ----
begin threads=100 memory=64M
m=$monitor
kill -9 "$sentry"
finish "the sentry killed" 125
want "left after the sentry was killed" "$(count "$m")" 0

begin threads=100 memory=64M
m=$monitor
before=$(count "$m")
kill -9 "$monitor"
finish "the monitor killed" 137
for ((i = 0; i < 200; i++)); do [ -d "/proc/$sentry" ] || break; sleep 0.05; done
# Any other run of this machine may have tidied up by now.
if [ "$(count "$m")" -le "$before" ]; then ok; else bad "remains of a monitor: $(count "$m") of $before"; fi
"$moat" run --tty off --cwd / --limit memory=64M --limit threads=50 -- /bin/true || bad "the next run: $?"
want "remains after the next run" "$(count "$m")" 0

# ---- who has none ----
begin
want "without a named limit" "$(count $monitor)" 0
tell exit
finish "without a named limit" 0
out=$(cd / && setpriv --reuid "$user" --regid "$user" --clear-groups "$moat" run --tty off --limit memory=64M \
	--limit threads=100 -- /bin/echo ran 2>&1)
want "a user without delegation" "$out" ran
out=$(cd / && setpriv --reuid "$user" --regid "$user" --clear-groups "$moat" run --tty off --limit cpu_share=50% \
	-- /bin/echo ran 2>&1)
want "a user's part of a processor: status" $? 125
if [[ $out == "moat run: cpu_share: "*"multiple of 100%" && $(wc -l <<<"$out") = 1 ]]; then ok; else bad "it: $out"; fi

# ---- at any moment ----
seed=${MOAT_WALL_SEED:-$RANDOM}
RANDOM=$seed
for ((k = 0; k < 8; k++)); do
	"$moat" run --tty off --cwd / --limit threads=100 --limit memory=64M -- /bin/sleep 1 2>/dev/null &
	monitor=$!
	echo $monitor >>killed
	sleep "0.$(printf %03d $((RANDOM % 100)))"
	kill -9 $monitor
	wait $monitor 2>/dev/null
done 2>/dev/null
monitor=
# The sentries die with their monitors; who is in a cgroup until then keeps it.
for ((i = 0; i < 200; i++)); do
	"$moat" run --tty off --cwd / --limit memory=64M --limit threads=50 -- /bin/true || bad "after kills: $?"
	n=0
	while read -r m; do n=$((n + $(count "$m"))); done <killed
	[ $n = 0 ] && break
	sleep 0.05
done
want "remains of monitors killed at random (seed $seed)" "$n" 0

# ---- delegated to a user ----
# as_user DIR: the user's run with a part of a processor, started in there.
as_user() {
	# shellcheck disable=SC2016
	out=$(cd / && sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$1" setpriv --reuid "$user" \
		--regid "$user" --clear-groups "$moat" run --tty off --limit cpu_share=50% -- /bin/echo ran 2>&1)
}
# v2: the nearest cgroup from ours on that gives cpu on.
v2=$(awk '/ - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
top=$v2$(sed -n 's/^0:://p' /proc/self/cgroup)
while [ "$top" != "$v2" ] && ! grep -qsw cpu "$top/cgroup.subtree_control"; do top=${top%/*}; done
d=$(awk '/ - cgroup / && $NF ~ /(^|,)cpu(,|$)/ { print $5; exit }' /proc/self/mountinfo)
own=$(awk -F: '$2 ~ /(^|,)cpu(,|$)/ { print $3 }' /proc/self/cgroup)
if [ -n "$d" ] && [ -n "$own" ] && mkdir "$d$own/delegated-$$" 2>/dev/null; then
	d=$d$own/delegated-$$
	chown "$user" "$d" "$d/cgroup.procs"
	as_user "$d"
	want "a user with delegation" "$out" ran
	if rmdir "$d"; then ok; else bad "$d has remains"; fi
elif [ -n "$v2" ] && grep -qw cpu "$top/cgroup.subtree_control" && mkdir -p "$top/delegated-$$/inner"; then
	d=$top/delegated-$$
	as_user "$d/inner"
	if [[ $out == "moat run: cpu_share: "*"Permission denied"*"systemd-run --user --scope"* ]]; then ok; else
		bad "a user without delegation: $out"
	fi
	chown "$user" "$d" "$d"/cgroup.{procs,subtree_control}
	as_user "$d/inner"
	want "a user with delegation" "$out" ran
	want "left in the user's cgroup" "$(find "$d" -name 'moat-*')" ""
	# What our cgroup is limited to holds the sandbox, too, though that stands beside it.
	grep -qw pids "$d/cgroup.subtree_control" || echo +pids >"$d/cgroup.subtree_control"
	echo 300 >"$d/inner/pids.max"
	echo '12500 50000' >"$d/inner/cpu.max"
	rm -f go said
	mkfifo go said
	exec 8<>go 9<>said
	# shellcheck disable=SC2016
	sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh "$d/inner" "$moat" run --tty off --cwd / \
		--limit threads=1000 --limit cpu_share=50% -- /bin/sh -c 'echo begun; read -r l' <&8 >&9 2>"$work/err" 8>&- 9>&- &
	monitor=$!
	hear
	want "beside a limited cgroup" "$heard" begun
	want "threads beside it" "$(cat "$(file $monitor pids.max)")" 300
	want "cpu_share beside it" "$(cat "$(file $monitor cpu.max)")" "25000 100000"
	case $(file $monitor cpu.max) in "$d"/moat-*) ok ;; *) bad "it stands elsewhere: $(file $monitor cpu.max)" ;; esac
	# Nobody takes a controller back meanwhile.
	if echo -cpu 2>/dev/null >"$d/cgroup.subtree_control"; then bad "cpu can be taken back"; else ok; fi
	tell end
	finish "beside a limited cgroup" 0
	if rmdir "$d/inner" "$d"; then ok; else bad "$d has remains"; fi
else
	skip "a user with delegation: no hierarchy with cpu that can be divided"
fi
end
