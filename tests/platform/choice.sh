#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Which platform moat takes on a host that forbids some of what they need (deny.c plays that host): a platform that
# is named fails closed, with one line; in the default mode the next one is taken, and that is said; an unknown name
# lists those that exist and what each lacks. Ends with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/../.."
moat=${MOAT:-$MOAT_BUILD/moat}
deny=$MOAT_BUILD/deny
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

end() { echo "$passed passed, $failed failed, $1 skipped"; [ $failed = 0 ]; exit; }
"$deny" ptrace=EPERM -- true
if [ $? = 77 ]; then
	echo "skipped: no seccomp filter can be set here"
	end 1
fi

# run DENIALS OPTION…: $status, and what was written in $work/out and $work/err.
run() {
	# shellcheck disable=SC2086
	timeout -k 5 60 "$deny" $1 -- "$moat" run "${@:2}" -- /bin/echo ran </dev/null >"$work/out" 2>"$work/err"
	status=$?
}
lines() { wc -l <"$work/err"; }
says() { grep -qF -- "$1" "$work/err"; }
ran() { [ $status = 0 ] && [ "$(cat "$work/out")" = ran ]; }
check() { # WHAT, after the condition
	if [ $? = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED $1: status $status"
		sed 's/^/    /' "$work/out" "$work/err" | head -n 20
	fi
}

# Named: forbidden.
while read -r platform denials; do
	run "$denials" --platform "$platform"
	[ $status = 125 ] && [ "$(lines)" = 1 ] && [ ! -s "$work/out" ] &&
		says "moat run: --platform $platform: this host does not allow it: "
	check "--platform $platform, $denials"
done <<END
trap futex_waitv=ENOSYS
trap futex_waitv=EPERM
trap openat2=ENOSYS
trap process_vm_readv=EPERM
trap process_vm_readv=ENOSYS
trap seccomp=ENOSYS
trap seccomp-filter=EPERM
ptrace ptrace=EPERM
ptrace ptrace=ENOSYS
ptrace process_vm_readv=EPERM
ptrace seccomp=ENOSYS
ptrace seccomp-filter=EPERM
notify futex_waitv=ENOSYS
notify openat2=ENOSYS
notify process_vm_readv=EPERM
notify seccomp-listener=EPERM
notify seccomp-filter=EPERM
END

# Named: what no platform can do without, and what is found out while it starts.
for platform in trap ptrace notify; do
	for denials in execveat=EPERM memfd_create=ENOSYS; do
		run $denials --platform $platform
		[ $status = 125 ] && [ "$(lines)" = 1 ] && [ ! -s "$work/out" ]
		check "--platform $platform, $denials"
	done
done

# Named: what others need is not asked for.
while read -r platform denials; do
	run "$denials" --platform "$platform"
	ran && [ "$(lines)" = 0 ]
	check "--platform $platform, $denials"
done <<END
trap ptrace=EPERM seccomp-listener=EPERM
ptrace futex_waitv=ENOSYS openat2=ENOSYS seccomp-listener=EPERM
notify ptrace=EPERM
END

# Not named: falls back, and says so; or says that none works.
run "ptrace=EPERM"
ran && [ "$(lines)" = 0 ]
check "default, without ptrace"
for denials in futex_waitv=ENOSYS futex_waitv=EPERM; do
	run $denials
	ran && [ "$(lines)" = 1 ] &&
		says "using the platform ptrace; this host does not allow trap (" && says futex_waitv
	check "default, $denials"
done
for denials in "futex_waitv=ENOSYS ptrace=EPERM" process_vm_readv=EPERM seccomp-filter=EPERM seccomp=ENOSYS; do
	run "$denials"
	[ $status = 125 ] && [ "$(lines)" = 1 ] && [ ! -s "$work/out" ] &&
		says "no platform works on this host: trap (" && says "ptrace (" && says "notify ("
	check "default, $denials"
done
for denials in execveat=EPERM memfd_create=ENOSYS; do
	run $denials
	[ $status = 125 ] && [ "$(lines)" = 1 ] && [ ! -s "$work/out" ] && says "moat run: "
	check "default, $denials"
done

# A name that does not exist: which do, and what they lack here.
for name in bogus mock; do
	run "" --platform "$name"
	[ $status = 2 ] && [ ! -s "$work/out" ] && says "--platform $name: no such platform; there are:" &&
		[ "$(grep -cE '^  (trap|ptrace|notify) +(works|does not work here): ' "$work/err")" = 3 ]
	check "--platform '$name'"
done
run "" --platform ""
[ $status = 2 ] && [ ! -s "$work/out" ] && says "--platform: its value is missing"
check "--platform ''"
run "futex_waitv=ENOSYS ptrace=EPERM" --platform bogus
[ $status = 2 ] && [ "$(grep -cE '^  (trap|notify) +does not work here: futex_waitv is missing' "$work/err")" = 2 ] &&
	grep -qE '^  ptrace +does not work here: a child cannot be traced: ' "$work/err"
check "--platform bogus, where none works"
end 0
