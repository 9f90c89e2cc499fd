#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Nothing stands in the sentry's filter that no run needs: each row with RUN of base/hostcall.def is used after
# the lock-down by some program below (moat run --stats=FILE counts by row), on one of the platforms that it is for.
# And nothing in the monitor's: the same for the rows with MON, on any platform.
# MOAT, PLATFORMS, TESTBIN, CC: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
begin_on ptrace trap notify
mkdir "$dir/w"
n=0
# run ARGS: counted; one after the other, all of them with a time limit.
run() {
	n=$((n + 1))
	timeout -k 5 60 "$MOAT" run --platform "$p" --stats="$dir/stats.$n" --cwd "$dir/w" --rw "$dir/w" "$@"
}
${CC:-gcc} -std=gnu17 -O1 -w -pthread -static -o "$dir/w/sentry-calls" tests/stats/sentry_calls.c || exit 1
works=
for p in $PLATFORMS; do
	"$MOAT" run --platform "$p" -- /bin/true 2>/dev/null || continue
	works="$works $p"
	# Files of the caller's, from all sides.
	run --tty off -- ./sentry-calls files >"$dir/out" 2>&1 </dev/null || { tail -n 3 "$dir/out"; failed=$((failed + 1)); }
	run --tty off -- ./sentry-calls watched >/dev/null 2>&1 </dev/null
	# A lock of the host's, with virtual time.
	if command -v flock >/dev/null; then
		rm -f "$dir/w/go"
		# shellcheck disable=SC2016
		flock "$dir/w/held" /bin/sh -c 'until [ -e "$0" ]; do sleep 0.1; done' "$dir/w/go" &
		run --clock=virtual --tty off -- ./sentry-calls waited_for >/dev/null 2>&1 </dev/null
		touch "$dir/w/go"
		wait $!
	fi
	# Standard files: pipes, a socket, a file to append to.
	(sleep 0.5; echo text) | run --tty off -- ./sentry-calls stdio 2>/dev/null | cat >/dev/null
	run --tty off -- ./sentry-calls stdio </dev/null >>"$dir/appended" 2>/dev/null
	command -v perl >/dev/null && perl -e 'use Socket; socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0); syswrite $a, "text\n";
		open STDIN, "<&", $b; open STDOUT, ">&", $b; $^F = 2; exec @ARGV' "$MOAT" run --platform "$p" \
		--stats="$dir/stats.socket.$p" --tty off --cwd "$dir/w" --rw "$dir/w" -- ./sentry-calls stdio 2>/dev/null
	# The same by root; a signal for the guest.
	run --user 0:0 --tty off -- ./sentry-calls files >/dev/null 2>&1 </dev/null
	n=$((n + 1))
	"$MOAT" run --platform "$p" --stats="$dir/stats.$n" --tty off -- /bin/sleep 5 &
	sleep 1
	kill -USR1 $!
	wait $! 2>/dev/null
	# A terminal, which is the guest's console, and one that is not.
	command -v script >/dev/null && for tty in on off; do
		n=$((n + 1))
		# Stopped from the keyboard, where nobody is to continue it.
		(sleep 1; printf '\32'; sleep 1; echo text; sleep 1; printf '\4') | timeout 60 script -qec "stty rows 9; '$MOAT' run --platform $p --stats=$dir/stats.$n \
			--tty $tty --cwd $dir/w --rw $dir/w -- ./sentry-calls terminal" /dev/null >/dev/null 2>&1
	done
	# The audit, an archive of what changed, signals, a process that is killed, threads, a deadline.
	run --audit "$dir/audit" --save "$dir/saved.tar" --diff="$dir/diff" --tty off -- ./sentry-calls processes >/dev/null 2>&1 </dev/null
	run --strace="$dir/strace" --tty off -- ./sentry-calls processes >/dev/null 2>&1 </dev/null
done
# The monitor's: a policy that is learnt (of a tree of its own, so that all kinds of rules are written and read
# again), a cgroup, a terminal that is stopped and goes on, a limit on time, an archive that is not completed.
# "cgroup": as far as this host gives one.
has_cgroup=1
"$MOAT" doctor | sed -n '/^cgroup/,$p' | grep -q "memory.* works" || has_cgroup=
p=${works# }
p=${p%% *}
if [ -n "$p" ]; then
	"$MOAT" policy learn -o "$dir/policy" --platform "$p" --stats="$dir/stats.learn" --tty off --cwd "$dir/w" --rw "$dir/w" \
		--ro /home -- /bin/sh -c 'ls /home; echo x >new; cat sentry-calls | wc -c' >/dev/null 2>&1 </dev/null
	mkdir "$dir/h" "$dir/h/hidden"
	printf 'version = 1\npath "%s" { access = rw }\npath "%s/hidden" { access = hidden }\n' "$dir/h" "$dir/h" >"$dir/hides"
	"$MOAT" policy learn -o "$dir/policy" --platform "$p" --stats="$dir/stats.learn2" --tty off --policy "$dir/hides" \
		-- /bin/sh -c 'ls "$1"; echo x >"$1/new"' sh "$dir/h" >/dev/null 2>&1 </dev/null
	# A run that fails is told what it was not granted.
	(cd "$dir/h" && "$MOAT" run --platform "$p" --stats="$dir/stats.fails" --tty off -- /bin/cat "$dir/hides" >/dev/null 2>&1 </dev/null)
	run --limit memory=256M --limit threads=100 --tty off -- /bin/true >/dev/null 2>&1 </dev/null
	run --limit wall_time=1s --tty off -- /bin/sleep 30 >/dev/null 2>&1 </dev/null
	run --keep-on-fail "$dir/never.tar" --tty off -- /bin/true >/dev/null 2>&1 </dev/null
fi
[ -n "$works" ] || { skip "sentry-calls: no platform works here"; end; }

cat "$dir"/stats.* | sed -n 's/^after the lock-down: \([a-z0-9_]*\)\t.*/\1/p' | sort -u >"$dir/used"
cat "$dir"/stats.* | sed -n 's/^the monitor, after its lock-down: \([a-z0-9_]*\)\t.*/\1/p' | sort -u >"$dir/monitor"
while read -r tag on; do
	[ "$on" = DEBUG ] && continue
	if [ "$on" = CGROUP ] && [ -z "$has_cgroup" ]; then
		skip "$tag: this host gives no cgroup"
		continue
	fi
	case $tag in
	# Until the last of a cgroup has gone; a count that is written is not in it, nor is the end by a signal;
	# directories of tests need not be such that these are asked of them.
	poll_monitor | write_monitor_stats | kill_self | kill_key | rt_sigaction_end) continue ;;
	esac
	grep -qx "$tag" "$dir/monitor"
	check $? "$tag: no run's monitor uses it after its lock-down; does it need it?"
done < <(sed -n 's/^HOST_MON(\([a-z0-9_]*\), [a-z0-9_]*, \([A-Z_]*\),.*/\1 \2/p' base/hostcall.def)
while read -r tag on; do
	case $on in
	OLD* | DEBUG | SAN) continue ;; # of other hosts, of other builds
	esac
	case $tag in
	# The end after a broken invariant; the end itself, when the counts have been written; a monitor that is slow to
	# take the last events; the end of a standard file that nothing refers to any more.
	exit_group_panic | exit_group_end | poll_audit | epoll_ctl_poll) continue ;;
	esac
	# Where the host can be asked to watch (vfs/hostfs_watch.c).
	case $tag:$(stat -f -c %T "$dir") in
	*_watch:ext2/ext3 | *_watch:xfs | *_watch:btrfs | *_watch:f2fs | *_watch:tmpfs) ;;
	*_watch:*)
		skip "$tag: this file system is not watched"
		continue
		;;
	esac
	case " $works " in
	*" $(tr '[:upper:]' '[:lower:]' <<<"$on") "*) ;;
	*) [ "$on" = PTRACE ] || [ "$on" = NOTIFY ] && continue ;;
	esac
	grep -qx "$tag" "$dir/used"
	check $? "$tag: no run uses it after the lock-down; does the sentry need it?"
done < <(sed -n 's/^HOST_RUN(\([a-z0-9_]*\), [a-z0-9_]*, \([A-Z_]*\),.*/\1 \2/p' base/hostcall.def)
end
