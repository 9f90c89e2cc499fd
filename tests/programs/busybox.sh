#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# busybox-static: a shell and its applets in one static program, no libc of the host's.
# needs: busybox

cd "$TMPDIR" || exit 1
mkdir bin && busybox --install -s bin && ls bin | wc -l
exec env -i PATH="$TMPDIR/bin" TMPDIR="$TMPDIR" busybox sh <<'EOF'
uname -s; id -u; echo $((1 + 2)); pwd | grep -c .
seq 1 1000 | awk '{ s += $1 } END { print s }' | sed 's/0/o/g'
mkdir -p a/b; echo x >a/b/f; find a | sort; tar cf a.tar a; tar tf a.tar; gzip a.tar; zcat a.tar.gz | tar x -C . -f -; cat a/b/f
ls -l a/b | awk '{ print $1, $2, $5 }'; stat -c '%a %s' a/b/f; md5sum a/b/f; sha256sum a/b/f; wc a/b/f
dd if=/dev/zero bs=1k count=64 2>/dev/null | md5sum; head -c 5 /dev/zero | od -x
echo one two | xargs -n 1 echo; echo abc | rev; printf '%s-%s\n' a b; expr 3 + 4; test -d a && echo dir
sleep 0.1 & wait; echo "waited $?"; (exit 5); echo $?; sh -c 'kill -9 $$'; echo $?
cat <<X | sort -r | uniq -c
b
a
b
X
echo 'BEGIN { for (i = 0; i < 3; i++) print i }' >p.awk; awk -f p.awk; vi --help 2>&1 | head -n 1 | cut -c 1-10
mkfifo p; echo fifo >p & cat p; wait; ln -s f a/b/l; readlink a/b/l; readlink -f a/b/l | grep -c a/b/f
cp -a a c; diff -r a c && echo same; rm -r a; ls a; time true 2>&1 | wc -l; timeout 1 sleep 9; echo $?; mktemp -u | wc -l
ps >/dev/null; echo "ps $?"; free >/dev/null; echo "free $?"; df / >/dev/null; echo "df $?"; cat /proc/self/comm; nproc >/dev/null; echo $?
trap 'echo trapped' USR1; kill -USR1 $$; exec 3<c/b/f; read l <&3; echo $l; exec 3<&-; ash -c 'echo ash'; nosuch; echo $?
EOF
