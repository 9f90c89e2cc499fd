#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# moat on Debian 12's own kernel (Linux 6.1, cgroup v2, systemd): boots it in QEMU and runs suites there.
#
#   tests/full-debian-kernel.sh make DIR        makes the machine's images in DIR, once, as root: some 1 GB, by
#                                               mmdebstrap from its own mirror or from MIRROR
#   MOAT_VM=DIR tests/full-debian-kernel.sh [SUITE…]
#                                               starts it (its disk stays as it was made), copies the tree as it is
#                                               built (make test-build) in, and runs SUITEs as root in a login session,
#                                               and what differs for an ordinary user
#
# Without MOAT_VM it is skipped. Needs qemu-system-x86 and ssh; installs nothing. The processor is emulated, 10 to 20
# times slower, unless MOAT_VM_ACCEL=kvm: LIMIT (seconds, default 1200) is each suite's. What runs out of time is told apart.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
skip() {
	echo "skip debian-kernel: $*"
	skipped=1
	end
}

make_images() { # DIR
	local packages
	mkdir -p "$1" && cd "$1" || exit 2
	packages=$(awk -F'\t' '$1 == "build" || $1 == "unit" { print $2 }' "$OLDPWD/packages.txt" | sort -u | paste -sd,)
	mmdebstrap --variant=important --include="linux-image-cloud-amd64,systemd-sysv,libpam-systemd,dbus-user-session,\
openssh-server,python3,git,busybox-static,strace,procps,perl,sqlite3,bsdextrautils,bsdutils,xz-utils,bzip2,$packages" \
		bookworm root ${MIRROR:+"$MIRROR"} || exit 1
	rm -f key key.pub
	ssh-keygen -q -t ed25519 -N '' -f key || exit 1
	chroot root useradd -m -u 1000 -s /bin/bash ord
	install -d -m 700 root/root/.ssh && install -d -m 700 -o 1000 -g 1000 root/home/ord/.ssh
	install -m 600 key.pub root/root/.ssh/authorized_keys
	install -m 600 -o 1000 -g 1000 key.pub root/home/ord/.ssh/authorized_keys
	echo '/dev/vda / ext4 rw 0 1' >root/etc/fstab
	printf '[Match]\nName=e*\n[Network]\nDHCP=yes\n' >root/etc/systemd/network/all.network
	chroot root systemctl -q enable systemd-networkd ssh
	cp root/boot/vmlinuz-* vmlinuz && cp root/boot/initrd.img-* initrd || exit 1
	truncate -s 5G root.img && /sbin/mke2fs -q -F -t ext4 -d root root.img && rm -rf root
	exit
}
[ "${1:-}" = make ] && [ $# = 2 ] && make_images "$2"

vm=${MOAT_VM:-}
[ -n "$vm" ] || skip "MOAT_VM names no machine (see this file's head)"
vm=$(realpath "$vm")
[ -f "$vm/root.img" ] || skip "$vm has no root.img: tests/full-debian-kernel.sh make $vm"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64 (Debian: qemu-system-x86)"
for f in moat unit platform_smoke; do [ -x build/rel/$f ] || skip "build/rel lacks $f: make test-build"; done
accel=${MOAT_VM_ACCEL:-tcg,thread=multi}
port=${MOAT_VM_PORT:-22061}
work=$(mktemp -d /var/tmp/moat-vm.XXXXXX)
qemu=
trap '[ -n "$qemu" ] && kill $qemu 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
TMPDIR=$work nice qemu-system-x86_64 -accel "$accel" -cpu max -smp 2 -m 4G -nodefaults -display none -no-reboot -snapshot \
	-kernel "$vm/vmlinuz" -initrd "$vm/initrd" -append "root=/dev/vda rw console=ttyS0 panic=-1" \
	-drive "file=$vm/root.img,if=virtio,format=raw" -device virtio-net-pci,netdev=n \
	-netdev "user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-rng-pci \
	-serial "file:$work/console" >"$work/qemu" 2>&1 &
qemu=$!
as() { # USER COMMAND
	ssh -q -i "$vm/key" -p "$port" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectTimeout=10 \
		"$1@127.0.0.1" "$2"
}
for ((i = 0; i < 60; i++)); do
	as root true && break
	kill -0 $qemu 2>/dev/null || break
	sleep 5
done
if ! as root true; then
	bad "the machine does not start: $(tail -n 3 "$work/qemu" "$work/console")"
	end
fi
echo "machine: $(as root 'uname -srv'), $accel"
tar -cf - --exclude=./.git --exclude='*.o' --exclude='*.d' --exclude=./build/rel/fuzz --exclude=./build/rel/log . |
	as root 'mkdir -p /var/tmp/moat && tar -xf - -C /var/tmp/moat --no-same-owner --touch && chmod 755 /var/tmp/moat' || exit 1

suites=("$@")
[ $# -gt 0 ] || suites=(unit/run run-wall run-cgroup run-platform run-guest run-programs run-hostile run-audit
	run-ephemeral run-determinism run-sentry-calls)
for s in "${suites[@]}"; do
	echo "== $s"
	as root "cd /var/tmp/moat && export MOAT_BUILD=build/rel MOAT=\$PWD/build/rel/moat TIMEOUT=600 PLATFORMS='${PLATFORMS:-trap}' &&
		exec timeout -k 10 ${LIMIT:-1200} tests/$s.sh" >"$work/out" 2>&1 </dev/null
	status=$?
	grep -aE '^(FAIL|skip)' "$work/out"
	sum=$(grep -aE '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$work/out" | tail -n 1)
	if [ $status = 124 ]; then
		echo "skip the rest of $s: out of time; its last line: $(tail -n 1 "$work/out")"
		skipped=$((skipped + 1))
	elif [ -z "$sum" ]; then
		bad "$s: status $status, $(tail -n 1 "$work/out")"
	else
		echo "$sum"
		read -r p f k < <(sed -E 's/ passed, / /; s/ failed,?/ /; s/ skipped//' <<<"$sum")
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${k:-0}))
	fi
done

echo "== an ordinary user"
run="/var/tmp/moat/build/rel/moat run --tty off"
for p in trap ptrace notify; do want "$p" "$(as ord "$run --platform $p -- /bin/echo ran" 2>&1)" ran; done
want "limits in a session, which has no cgroup to give" "$(as ord "$run --limit memory=64M --limit threads=90 -- /bin/echo ran" 2>&1)" ran
want "part of a processor by systemd" \
	"$(as ord "systemd-run --user --scope -q $run --limit cpu_share=50% -- /bin/echo ran" 2>&1)" ran
if as ord "$run --limit cpu_share=50% -- /bin/true" 2>&1 | grep -q "systemd-run --user --scope"; then ok; else
	bad "part of a processor without it: the mend is not named"
fi
end
