#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, shown: real programs in the sandbox. Run by `make demo`; needs build/moat.
set -u
MOAT=${MOAT:-build/moat}
failed=0

say() { printf '\n== %s\n' "$*"; }
# The command as one would type it.
show() {
	local word text='$ moat run'

	for word in "$@"; do
		[[ $word =~ ^[A-Za-z0-9_./=-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
		text+=" $word"
	done
	printf '%s\n' "$text"
}
run() {
	show -- "$@"
	"$MOAT" run -- "$@" || failed=1
}

say "A shell, pipes and the usual tools; the root is the host's system directories under memory"
run bash -c 'echo "hello from $(uname -srm), user $(id -un), $(nproc) processors"; seq 1 1000 | sort -rn | head -3 | tr "\n" " "; echo'
run sh -c 'ls / | tr "\n" " "; echo; du -sh /usr/bin/ | cut -f1'

say "All writes work, and vanish with the sandbox"
run sh -c 'echo changed > /etc/hostname && cat /etc/hostname && rm -rf /usr/share/doc && ls /usr/share | wc -l'
printf 'on the host: %s, and /usr/share/doc is %s\n' "$(cat /etc/hostname)" \
	"$([ -d /usr/share/doc ] && echo there || echo absent)"

say "What is not granted does not exist"
run sh -c 'ls /root /home /var/log; cat /etc/shadow 2>&1 | head -1; mount | head -3'

if command -v python3 >/dev/null; then
	say "Python: threads, a subprocess, a database"
	run /usr/bin/python3 -c '
import sqlite3, subprocess, threading
out = []
ts = [threading.Thread(target=lambda i=i: out.append(i * i)) for i in range(8)]
[t.start() for t in ts]; [t.join() for t in ts]
db = sqlite3.connect("/tmp/demo.db")
db.execute("create table t(x)"); db.executemany("insert into t values(?)", [(x,) for x in out])
print("sum of squares", db.execute("select sum(x) from t").fetchone()[0])
print(subprocess.run(["uname", "-n"], capture_output=True, text=True).stdout.strip())'
fi

if command -v gcc >/dev/null; then
	say "A compiler, and what it made"
	run sh -c 'cd /tmp && printf "#include <stdio.h>\nint main(void){puts(\"built and run inside\");return 0;}\n" > a.c && gcc -O2 a.c -o a && ./a'
fi

say "Exit statuses pass through: 7, 143 (killed by SIGTERM), 127 (not found)"
status() {
	show -- "$@"
	"$MOAT" run -- "$@"
}
status sh -c 'exit 7'; a=$?
status sh -c 'kill -TERM $$'; b=$?
status no-such-program; c=$?
echo "$a $b $c"
[ "$a $b $c" = "7 143 127" ] || failed=1

say "Each system call, seen from the kernel that answered it"
show --strace -- /bin/echo hi
"$MOAT" run --strace -- /bin/echo hi 2>&1 | tail -5

[ "$failed" = 0 ] && echo && echo "demo: all of it ran" || echo "demo: something failed"
exit "$failed"
