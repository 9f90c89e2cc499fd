#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What somebody on the host changes in a granted directory between two calls of a guest is seen by the
# second: 3,000 changes, in lock-step over pipes (foreign_peer.c); and some over memory that both have mapped.
# From run-hostile.sh: MOAT, PLATFORM, TESTBIN, WORK (an empty directory).
cd "$WORK" || exit 1
status=0
for grant in ro rw; do
	rm -rf tree questions answers
	mkdir tree
	mkfifo questions answers
	timeout 150 "$MOAT" run --platform "$PLATFORM" "--$grant" "$WORK/tree:/tree" --ro "$TESTBIN:/bin-of-test" \
		--cwd /tree -- /bin-of-test/hostile_foreign_peer guest <questions >answers &
	if ! timeout 150 "$TESTBIN/hostile_foreign_peer" host tree 3000 >questions <answers; then
		echo "with --$grant"
		status=1
	fi
	wait $! || status=1
done
rm -rf tree channel
mkdir tree channel
truncate -s 4096 channel/page
timeout 150 "$MOAT" run --platform "$PLATFORM" --ro "$WORK/tree:/tree" --rw "$WORK/channel:/channel" \
	--ro "$TESTBIN:/bin-of-test" --cwd /tree -- /bin-of-test/hostile_foreign_peer guest /channel/page &
if ! timeout 150 "$TESTBIN/hostile_foreign_peer" host tree 1000 "$WORK/channel/page"; then
	echo "over mapped memory"
	kill $!
	status=1
fi
wait $! || status=1
# Two changes one after the other, of which nobody tells: between two calls, and in the middle of one.
for way in "order 2000" "within 300000"; do
	read -r what steps <<<"$way"
	rm -rf tree questions answers
	mkdir tree
	mkfifo questions answers
	timeout 150 "$MOAT" run --platform "$PLATFORM" --ro "$WORK/tree:/tree" --ro "$TESTBIN:/bin-of-test" --cwd /tree \
		-- /bin-of-test/hostile_foreign_peer "$what" "$steps" <questions >answers &
	if ! timeout 150 "$TESTBIN/hostile_foreign_peer" "$what" tree "$steps" >questions <answers; then
		echo "$what: of two changes the second was seen, not the first"
		status=1
	fi
	wait $! || status=1
done
# What a guest has written and closed is no longer open for writing.
rm -rf tree questions answers
mkdir tree
mkfifo questions answers
# shellcheck disable=SC2016
timeout 150 "$MOAT" run --platform "$PLATFORM" --rw "$WORK/tree:/tree" -- /bin/sh -c \
	'for n in 1 2 3 4 5; do cp /bin/true /tree/program$n; echo $n; read -r go; done' <questions >answers &
exec 8>questions 9<answers
for n in 1 2 3 4 5; do
	read -r -t 100 _ <&9
	tree/program$n || status=1
	echo go >&8
done
exec 8>&- 9<&-
wait $! || status=1
# And where nothing changes the host is not asked by each call, if it can be asked to watch. Each look at one of two
# files ends what is known of the other otherwise.
rm -rf tree
mkdir -p tree/a/b
touch tree/a/b/f0 tree/a/b/f1
timeout 150 "$MOAT" run --platform "$PLATFORM" --stats --ro "$WORK/tree:/tree" --ro "$TESTBIN:/bin-of-test" \
	--cwd /tree -- /bin-of-test/hostile_foreign_peer again a/b/f0 a/b/f1 2>stats || status=1
asked=$(sed -n '/^all host calls/,$s/.*statx \([0-9]*\).*/\1/p' stats | head -n 1)
case $(stat -f -c %T tree):$(uname -r) in
ext2/ext3:6.* | xfs:6.* | btrfs:6.* | tmpfs:6.*)
	if [ "${asked:-99999}" -gt 60000 ]; then
		echo "asked $asked times for what has not changed"
		status=1
	fi
	;;
*) echo "how often the host is asked: not looked at, this file system or kernel is not watched" ;;
esac
exit $status
