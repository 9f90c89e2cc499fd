#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Something on the host kills stub processes that run no guest code: the zygote, a spare. New processes start all the same.
# From run-hostile.sh: MOAT, PLATFORM, WORK.
cd "$WORK" || exit 1
rm -f fifo
mkfifo fifo || exit 1
# The guest makes a process for each line that it is sent.
"$MOAT" run --platform "$PLATFORM" -- /bin/sh -c 'echo $$; while read -r l; do /bin/echo "$l" || exit 1; done; exit 6' \
	<fifo >out 2>err &
moat=$!
exec 3>fifo
wait_for() { # LINES
	for _ in $(seq 300); do
		[ "$(wc -l <out)" -ge "$1" ] && return 0
		sleep 0.1
	done
	return 1
}
stubs() { # all stub processes below $moat, the oldest first
	local p c
	for p in "$@"; do
		for c in $(ps -o pid= --ppid "$p" --sort=start_time,pid); do
			[ "$(ps -o comm= -p "$c")" = moat-stub ] && echo "$c"
			stubs "$c"
		done
	done
}
status=0
wait_for 1 || { echo "no start"; exit 1; }
echo one >&3
wait_for 2 || { echo "no process at all"; exit 1; }
# The oldest is the keeper. Of the others the zygote has one thread: the shell and the spare have two, and what the shell
# has forked ends.
lone() {
	local p
	for p in $(stubs "$moat" | tail -n +2); do
		[ "$(ls "/proc/$p/task" 2>/dev/null | wc -l)" = 1 ] && echo "$p"
	done
}
for _ in $(seq 300); do
	zygote=$(lone)
	[ "$(echo "$zygote" | wc -w)" = 1 ] && break
	sleep 0.1
done
[ -n "$zygote" ] || { echo "no zygote found"; exit 1; }
kill -9 "$zygote"
for _ in $(seq 100); do kill -0 "$zygote" 2>/dev/null || break; sleep 0.1; done
echo two >&3
echo three >&3
wait_for 4 || { echo "no process after the zygote was killed: $(cat err)"; status=1; }
exec 3>&-
wait "$moat"
[ $? = 6 ] || { echo "the guest did not end as it should"; status=1; }
rm -f fifo out err
exit $status
