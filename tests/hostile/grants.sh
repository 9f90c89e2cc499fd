#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What lies outside of the grants stays outside: links, "..", devices, FIFOs, hard links to be made,
# descriptors and variables of the caller's, a tree that the host changes under the guest's feet.
# From run-hostile.sh: MOAT, PLATFORM, WORK (an empty directory).
cd "$WORK" || exit 1
mkdir -p ro rw out empty
echo topsecret >out/secret
echo public >ro/public
ln -s ../out/secret ro/relative
ln -s "$WORK/out/secret" ro/absolute
ln -s ../../../../../../../../../../../../etc/shadow rw/shadow
ln -s "$WORK/out" rw/outdir
mkfifo ro/fifo rw/fifo
status=0
fail() { echo "$*"; status=1; }

cd empty || exit 1
HOSTILE_SECRET=topsecret timeout 170 "$MOAT" run --platform "$PLATFORM" --ro "$WORK/ro:/ro" \
	--rw "$WORK/rw:/rw" -- /bin/sh -c '
	exec 2>&1
	cat /ro/relative /ro/absolute /rw/shadow /rw/outdir/secret /ro/../out/secret /rw/../out/secret
	cat '"$WORK"'/out/secret /proc/self/cwd/../out/secret /proc/self/fd/7 /proc/1/environ
	cat /etc/shadow /etc/gshadow
	env; cat <&7; echo written >&8
	echo x >/ro/new; echo x >>/ro/public; rm -f /ro/public; mv /ro/public /ro/p
	ln /ro/public /rw/hard && cat /rw/hard
	ln -s ../out/secret /rw/mine; cat /rw/mine; echo x >>/rw/mine
	timeout 2 cat /ro/fifo; timeout 2 sh -c "echo x >/rw/fifo"
	mknod /rw/mem c 1 1; mknod /rw/disk b 254 0; head -c 1 /rw/disk
	cp /bin/true /rw/suid; chmod 6755 /rw/suid' \
	7<"$WORK/out/secret" 8>"$WORK/out/written" >"$WORK/seen" </dev/null
grep -q topsecret "$WORK/seen" && fail "the guest saw the secret" && grep topsecret "$WORK/seen"
grep -q '^root:[^ ]*:' "$WORK/seen" && fail "the guest saw the passwords"
[ "$(cat "$WORK/out/secret")" = topsecret ] || fail "the secret was changed"
[ "$(ls "$WORK/out")" = "secret
written" ] || fail "something was made outside"
[ -s "$WORK/out/written" ] && fail "an inherited descriptor was written to"
[ "$(cat "$WORK/ro/public")" = public ] || fail "a read-only file was changed"
[ "$(ls "$WORK/ro")" = "absolute
fifo
public
relative" ] || fail "a read-only directory was changed"
[ -e "$WORK/rw/mem" ] || [ -e "$WORK/rw/disk" ] && fail "a device was made"
[ -u "$WORK/rw/suid" ] && fail "a set-user-id file was made"

# The host swaps names between directory, links, FIFO and file while the guest walks over them.
swap() {
	cd "$WORK/rw" || exit
	while :; do
		mkdir d; echo fine >d/secret; rm -rf d
		ln -s "$WORK/out" d; rm -f d
		ln -s ../out d; rm -f d
		mkfifo g; rm -f g
		ln -s ../out/secret g; rm -f g
		mkdir e; mv e ../out/e; mv ../out/e e; rmdir e
	done 2>/dev/null
}
swap &
swapper=$!
timeout 170 "$MOAT" run --platform "$PLATFORM" --rw "$WORK/rw:/rw" --ro "$TESTBIN:/bin-of-test" -- \
	/bin-of-test/hostile_walker >"$WORK/seen" 2>&1 </dev/null || fail "the walker failed: $(head -c 300 "$WORK/seen")"
kill "$swapper"
wait "$swapper" 2>/dev/null
[ "$(cat "$WORK/out/secret")" = topsecret ] || fail "the secret was changed in a race"

# What shows the host's processes or kernel is never shown, however it is named or come upon: the files of a process
# there would be the sentry's.
ln -s /proc link_to_proc
for g in "--ro /proc" "--rw /proc" "--ro /proc/self" "--ro /proc/cpuinfo" "--ro $PWD/link_to_proc:/mnt" "--rw /sys:/mnt" \
	"--root /proc" "--ro $PWD:/"; do
	# shellcheck disable=SC2086
	"$MOAT" run --platform "$PLATFORM" $g -- /bin/true >/dev/null 2>err && {
		echo "$g is granted"
		status=1
	}
	[ "$(wc -l <err)" = 1 ] || {
		echo "$g: not one line: $(cat err)"
		status=1
	}
done
for d in /proc /proc/self /proc/1/fd /sys /sys/kernel /dev /dev/shm; do
	out=$(cd "$d" 2>/dev/null && "$MOAT" run --platform "$PLATFORM" -- /bin/sh -c \
		'pwd; cat /proc/self/comm; echo x >/dev/null && echo null' 2>&1 | tr '\n' ' ')
	[ "$out" = "/ cat null " ] || {
		echo "started in $d: $out"
		status=1
	}
done
rm -f link_to_proc err
exit $status
