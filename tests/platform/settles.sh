#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# settles.sh PLATFORM: a program that computes, and has made few calls, soon may use all processors that moat
# may, as may all of moat's own: what its start has bound (platform/lease.h) is bound for milliseconds.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/suite.sh

family() {
	local pid

	echo "$1"
	for pid in $(pgrep -P "$1"); do
		family "$pid"
	done
}

# Of all threads of process $1 and of its children, as the host sees them; but for the one that receives notifications,
# which stays where calls came from and does nothing else.
masks() {
	local pid

	for pid in $(family "$1"); do
		cat "/proc/$pid/task/"*/status 2>/dev/null
	done | awk '/^Name:/ { name = $2 } /^Cpus_allowed_list:/ && name != "moat-notify"' | sort -u
}

if [ "$(nproc)" = 1 ]; then
	skip "$1: one processor"
	end
fi
mine=$(grep ^Cpus_allowed_list: /proc/self/status)
coproc GUEST { exec "${MOAT:-build/moat}" run --platform "$1" -- /bin/sh -c 'echo; while :; do :; done'; }
moat=$GUEST_PID
trap 'kill "$moat"' EXIT
# It runs when it says so.
read -r _ <&"${GUEST[0]}"
for _ in $(seq 200); do
	seen=$(masks "$moat")
	[ "$seen" = "$mine" ] && break
	sleep 0.05
done
if [ "$seen" = "$mine" ]; then ok "$1: nobody is bound"; else bad "$1: bound to $seen of $mine"; fi
end
