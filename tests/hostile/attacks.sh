#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Attacks on what is around a grant (attack/attack.c): each must succeed natively, in a tree and mounts of its own
# with the rest of the host read-only (attack/wall.sh), else it proves nothing; and must fail on the platform. From
# run-hostile.sh: MOAT, PLATFORM, TESTBIN, WORK. ROUNDS: of each race (default 300). ATTACKS: only these.
here=$(cd "$(dirname "$0")" && pwd -P)
status=0
program=$TESTBIN/attack
ROUNDS=${ROUNDS:-300}
export ROUNDS
root_dir=$here/../..
if [ ! -x "$program" ] || [ -n "$(find "$here/attack" "$root_dir"/sentry/{syscalls.def,syscall_rows.h,argkinds.h} -newer "$program" \
	\( -name '*.[ch]' -o -name '*.def' \))" ]; then
	${CC:-gcc} -std=gnu17 -O1 -g -w -pthread -static -I"$root_dir" -o "$program.$$" "$here"/attack/*.c || exit 1
	mv "$program.$$" "$program"
fi
ln -f "$program" "$WORK/attack" 2>/dev/null || cp "$program" "$WORK/attack"
cd "$WORK" || exit 1
root=0
[ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null && root=1

# A tree as attack.c wants it, for one run.
scene() {
	rm -rf case
	[ ! -e case ] || exit 1
	mkdir -p case/work/sub/deep case/ro case/workshop case/out
	chmod 777 case/work case/work/sub case/work/sub/deep
	CASE=$WORK/case
	secret="secret-$RANDOM$RANDOM$RANDOM"
	export CASE
	echo "$secret" | tee case/out/secret >case/workshop/secret
	echo public >case/ro/public
	echo inside >case/work/inside
	chmod 666 case/work/inside
	ln -s sub case/work/link_to_sub
	"$program" --scene "$1"
}
# All but the contents of what is granted for writing.
snapshot() {
	(
		cd case || exit
		find . \( -path './work/*' -o -path './away*' \) -prune -o -printf '%p %y %m %U %G %s %T@ %l\n' | grep -v '^./work ' | sort
		find ro workshop out -type f -print0 | sort -z | xargs -0 sha256sum
		find ro workshop out -exec getfattr -d {} + 2>/dev/null
		find ro workshop out \( -type f -o -type d \) -exec lsattr -d {} + 2>/dev/null
	)
}
# run HOW NAME FLAGS: 0 if the attack succeeded; what was seen is in the file out.
run() {
	local how=$1 name=$2 flags=,$3, ally before rc stdin=/dev/null
	scene "$name"
	before=$(snapshot)
	[[ $flags = *,stdin-file,* ]] && stdin=case/out/secret2 && cp case/out/secret $stdin && before=$(snapshot)
	[[ $flags = *,stdin-dir,* ]] && stdin=case/out
	"$program" --ally "$name" </dev/null >/dev/null 2>&1 &
	ally=$!
	local grants=(--rw "$CASE/work" --ro "$CASE/ro" --ro "$WORK/attack" --env CASE="$CASE")
	local path=$WORK/attack cd=$CASE/work words=$secret named=()
	if [[ $flags = *,identity,* ]]; then
		# All under other names; nothing of the host's name, place or boot may be seen.
		words=$(printf '%s\n' "$secret" "$(cat /proc/sys/kernel/random/boot_id)" "$(uname -r)" "$(uname -v)" \
			"$WORK" $(cat /sys/class/net/*/address | grep -v '^00:00:00:00:00:00$'))
		grants=(--rw "$CASE/work:/work" --ro "$CASE/ro:/ro" --ro "$WORK/attack:/attack" --env CASE= --cwd /)
		cd=/
		[ "$how" = moat ] && path=/attack
		[ $root = 1 ] && named=(unshare -u sh -c "hostname $secret"' && exec "$@"' sh)
	fi
	if [[ $flags = *,hides,* ]]; then
		for path in hidden hidden_dir; do echo "path \"$CASE/ro/$path\" { access = hidden }"; done >"$WORK/policy"
		sed -i '1i version = 1' "$WORK/policy"
		grants+=(--policy "$WORK/policy")
		path=$WORK/attack
	fi
	[[ $flags = *,controls,* ]] && words=$'\e\n\a\n\b\n\x9b'
	[[ $flags = *,moat=* ]] && grants+=("$(sed 's/.*,moat=//; s/,.*//' <<<"$flags")")
	local pty=()
	[[ $flags = *,pty,* ]] && pty=(python3 "$here/attack/terminal.py")
	(
		exec <$stdin
		[[ $flags = *,inherit,* ]] && exec 7<case/out/secret 8<case/out
		cd "$cd" || exit 1
		if [ "$how" = native ]; then
			exec timeout -k 5 $((60 + ROUNDS / 20)) "${pty[@]}" "${unshare[@]}" "${named[@]:2}" "$program" "$name"
		else
			exec timeout -k 5 $((120 + ROUNDS / 10)) "${pty[@]}" "${named[@]}" "$MOAT" run --platform "$PLATFORM" "${grants[@]}" \
				--env BOXED=1 --env ROUNDS="$ROUNDS" -- "$path" "$name"
		fi
	) >out 2>&1
	rc=$?
	kill -9 "$ally" 2>/dev/null
	wait "$ally" 2>/dev/null
	[ $rc = 99 ] && return 0
	grep -aqF "$words" out && {
		grep -aF "$words" out | cut -c 1-200 >out.found
		mv out.found out
		return 0
	}
	[ "$(snapshot)" != "$before" ] && {
		diff <(echo "$before") <(snapshot) >>out
		return 0
	}
	[[ $flags = *,refused,* ]] && [ $rc = 125 ] && return 1
	[[ $flags = *,dies,* ]] && [ $rc = 139 ] && return 1
	[ $rc = 0 ] || [ "$how" = native ] || {
		echo "the attacker ended with $rc"
		return 2
	}
	return 1
}

unshare=()
[ $root = 1 ] && unshare=(unshare -m -i -u --propagation private bash "$here/attack/wall.sh" "$WORK")
# shellcheck source=tests/host-state.sh
. "$here/../host-state.sh"
host_state_begin
while read -r name class flags; do
	[ -z "${ATTACKS:-}" ] || [[ " $ATTACKS " = *" $name "* ]] || continue
	[[ ,$flags, = *,root,* ]] && [ $root = 0 ] && {
		echo "$name ($class): skipped, natively it needs root"
		continue
	}
	native=
	if [[ $flags = *unnative:* ]]; then
		native=${flags##*unnative:}
	elif [[ ,$flags, = *,attributes,* ]] && ! lsattr -d . >/dev/null 2>&1; then
		native="the file system here has no attributes to change natively"
	# A race may be lost.
	elif run native "$name" "$flags" || run native "$name" "$flags" || run native "$name" "$flags"; then
		native="succeeds natively"
	else
		echo "$name ($class): does not succeed natively, so it proves nothing"
		tail -n 30 out
		status=1
	fi
	run moat "$name" "$flags"
	case $? in
	0)
		echo "$name ($class): got through on $PLATFORM"
		tail -n 30 out
		status=1
		;;
	1) echo "$name ($class): ${native//_/ }, fails on $PLATFORM; $(grep -ac '^  tried' out) things tried" ;;
	*)
		echo "$name ($class): on $PLATFORM:"
		tail -n 30 out
		status=1
		;;
	esac
done < <("$program" --list)
host_state_same || status=1
rm -rf case attack out policy
exit $status
