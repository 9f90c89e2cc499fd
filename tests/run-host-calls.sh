#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every host call of moat's own processes has its tag, and every tag its call: tools/host-calls.py over the
# objects of this build; and that it finds what is wrong (a call without a tag, a wrong tag, an unknown
# import, an unused tag) in a copy of the sources. Where strace is installed and works, also what the host sees
# of a run: tests/stats/trace.py.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
needs_python3 host-calls
build=$(realpath "${MOAT_BUILD:-build/rel}")
objects() {
	find "$build"/{base,platform,vfs,netstack,loader,sentry,runtime} -name '*.o' ! -path '*/gen/*'
}
mapfile -t objs < <(objects)
if out=$(tools/host-calls.py "${objs[@]}"); then ok; else
	echo "$out"
	bad "host-calls.py finds something wrong"
	end
fi

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# mistake NAME FILE SED EXPECT: with FILE changed by SED the script says EXPECT, and nothing else.
mistake() {
	rm -rf "$copy"/*
	cp -r base platform vfs netstack loader sentry runtime tools "$copy"
	sed -i "$3" "$copy/$2"
	if cmp -s "$2" "$copy/$2"; then
		bad "$1: the change does not apply"
		return
	fi
	out=$("$copy/tools/host-calls.py" "${objs[@]}")
	if [ "$(grep -c '^FAIL' <<<"$out")" = 1 ] && grep -q "^FAIL.*$4" <<<"$out"; then ok; else
		echo "$out" | tail -n 5
		bad "$1"
	fi
}
mistake untagged platform/host_file.c 's/HOST(newfstatat_file, fstat(fd, &st))/fstat(fd, \&st)/' \
	'fstat() is a host call without HOST'
mistake wrong-tag vfs/host_calls.c 's/HOST(close_fd, close(fd))/HOST(getrandom_seed, close(fd))/' 'close() is counted as getrandom'
mistake wrong-number platform/host_ptrace.c 's/SYS_tgkill/SYS_tkill/' 'syscall() is counted as tgkill'
mistake no-such-tag vfs/host_calls.c 's/HOST(close_fd, close(fd))/HOST(close_fdd, close(fd))/' 'no such tag'
mistake unused-tag base/hostcall.def '/HOST_RUN(statx_file/a HOST_TAG(statx_other, statx, SENTRY, "", "")' 'nothing uses the tag statx_other'
mistake unknown-import tools/host-functions.txt '/^strtoul /d' 'uses strtoul,'
mistake own-syscall base/fiber_switch.S '$a syscall' 'system call instructions of its own'

moat=$(realpath "${MOAT:-build/moat}")
rm -rf "${copy:?}"/*
# shellcheck disable=SC2016
work='mkdir d; echo hi >d/f; mv d/f d/g; ls -l d; cat d/g | wc; ln -s x d/l; chmod 600 d/g; rm -r d; exec 3<>t
(kill -9 $BASHPID); /bin/true; sleep 0.01; sync t; rm t'
if strace -qq -f -o /dev/null true 2>/dev/null && "$moat" run --platform trap -- /bin/true; then
	out=$(tests/stats/trace.py "$moat" "$copy" /bin/bash -c "$work")
	if [[ $(tail -n 1 <<<"$out") =~ ^[1-9][0-9]*" passed, 0 failed"$ ]]; then ok; else
		echo "$out"
		bad "what strace sees"
	fi
else
	skip "what strace sees: no strace, or it may not trace, or no trap platform"
fi
end
