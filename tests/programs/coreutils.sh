#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# coreutils: files, attributes, text, arithmetic, errors.
# needs: stat sha256sum shuf numfmt

cd "$TMPDIR" || exit 1
mkdir -p d/e/f && touch d/x d/e/y && ln -s x d/link && ln d/x d/hard
ls -1 d; ls -1R d | wc -l
stat -c '%n %F %a %h %s' d/x d/link
readlink d/link; readlink -f d/e/../link | sed 's/.*\///'
chmod 640 d/x; stat -c %a d/x; chmod u+s,g-r d/x; stat -c %A d/x
cp -a d d2 && diff -r d d2 && echo same
mv d2 d3; rmdir d3 2>&1 | sed 's/.*: //'; rm -r d3; ls
touch -d '2001-02-03 04:05:06.789 UTC' d/x; TZ=UTC stat -c %y d/x
date -u -d @1000000000 +%FT%TZ
seq 1 100000 >n; wc n; split -l 30000 n part.; ls part.*; cat part.* | cmp - n && echo joined
sha256sum n; md5sum n; sha1sum n; b2sum n; cksum n; sum n
sort -rn n | head -n 3; sort -R --random-source=n n | sort -n | cmp - n && echo sorted
sort -S 100K --parallel=2 -T . -r n | md5sum
head -n 3 n; tail -n 3 n; tail -c 10 n; tac n | head -n 2; nl n | tail -n 1
cut -c 1-3 n | uniq -c | sort -rn | head -n 2
paste <(seq 3) <(seq 4 6); join <(echo a 1) <(echo a 2); comm <(seq 3) <(seq 2 4)
tr -dc 1 <n | wc -c; fold -w 7 <<<abcdefghijklmnop; fmt -w 20 <<<'a b c d e f g h i j k l m n o p'
od -An -tx1 <<<moat; base64 <<<moat; base32 <<<moat; printf '%05d %x %q\n' 42 255 'a b'
expr 6 \* 7; factor 1234567890; numfmt --to=iec 1048576; seq -w 8 11
dd if=/dev/zero of=z bs=64K count=16 status=none; stat -c %s z; truncate -s 5M z; stat -c %s z
dd if=n of=z2 bs=1000 skip=3 count=2 seek=1 conv=notrunc status=none; md5sum z2
dd if=/dev/zero of=/dev/full bs=1 count=1 status=none; echo "full $?"
shred -n 1 -u z && ls z 2>&1
ln -s loop1 loop2; ln -s loop2 loop1; cat loop1
mktemp -u abcXXXX | wc -c; mkfifo p; stat -c %F p; mknod q p && test -p q && echo fifo
test -r /etc/passwd -a ! -d /etc/passwd && echo test; [ n -nt d/x ] && echo newer
install -D -m 750 n in/st/all && stat -c '%a %s' in/st/all
echo a >>app; echo b >>app; cat app; tee t1 t2 <app >/dev/null; cmp t1 t2 && echo tee
env -i A=1 env; env - B=2 sh -c 'echo $B'; nice -n 5 nice; nohup echo nohup 2>/dev/null
timeout 0.2 sleep 5; echo "timeout $?"; (timeout -s KILL 0.2 sleep 5; echo "timeout $?") 2>/dev/null
basename /a/b.c .c; dirname /a/b; realpath -m /a/../b; pathchk -p ok && echo ok
id -u; id -un; whoami; groups; uname -s; uname -m; nproc | grep -c '[0-9]'
echo x | xargs -n 1 echo arg; seq 1 1000 | xargs -n 10 | wc -l; seq 1 40 | xargs -P 4 -n 1 | sort -n | tail -n 1
du --apparent-size -b n | cut -f 1; df . >/dev/null; echo "df $?"; sync n; echo "sync $?"
touch -- -dash; rm -- -dash; rm missing; rm -f missing; echo $?; cat < missing; mkdir d; cp d/x d/x
ls -la --time-style=+ d | awk 'NR > 1 { print $1, $2, $6, $7, $8 }' | grep -v '^d'
chown 12:34 n && stat -c %u:%g n; chgrp 5 n && stat -c %u:%g n
tty; echo "tty $?"; stty 2>&1; yes | head -n 100000 | md5sum; od -N 4 -tx4 /dev/zero
printf '%s\n' *.c; shuf -i 1-50 | sort -n | md5sum; csplit -s n 10 20; ls xx*; unlink xx00; pr -l 12 -h T -t xx01
vdir --time-style=+ t1 | awk '{ print $1, $5, $6 }'; dir -1 in; chmod 000 t1; cat t1 >/dev/null; echo $?
