#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tar, gzip and xz over /usr/share: pack, compress, list, unpack, compare.
# needs: tar gzip xz bzip2

pack() { tar --sort=name --numeric-owner -C /usr/share "$@"; }
# What not everybody of the host may read is not shown in the sandbox, not even to its root.
pack --exclude=./polkit-1 -cf - . | sha256sum
dirs='perl zoneinfo misc bash-completion'
have=
for d in $dirs; do [ -d "/usr/share/$d" ] && have="$have $d"; done
# shellcheck disable=SC2086
pack -cf "$TMPDIR/a.tar" $have
cd "$TMPDIR" || exit 1
sha256sum a.tar
gzip -nk a.tar; xz -k -1 -T 2 a.tar; bzip2 -k -1 a.tar
sha256sum a.tar.gz a.tar.xz a.tar.bz2
gzip -t a.tar.gz && xz -t a.tar.xz && bzip2 -t a.tar.bz2 && echo intact
tar -tvf a.tar.gz | wc -l
mkdir x y
tar -xpf a.tar.xz -C x && tar -xpf a.tar.gz -C y && diff -r x y && echo same
for d in $have; do diff -r --no-dereference "/usr/share/$d" "x/$d" && echo "$d same"; done
find x -type f -printf '%P %m %U %G %s %T+\n' | sort | sha256sum
tar -df a.tar -C /usr/share && echo 'tar -d agrees'
tar --delete -f a.tar perl 2>/dev/null; tar -tf a.tar | grep -c '^perl'
truncate -s -100 a.tar.gz; gzip -t a.tar.gz; echo "truncated $?"
dd if=/dev/zero bs=1M count=4 seek=60 of=sparse status=none
tar -Scf s.tar sparse && rm sparse && tar -xf s.tar && stat -c %s sparse && sha256sum sparse
zcat <(echo compressed | gzip) ; xz -9 <<<moat | xzcat
tar -cf - nothing-here | wc -c
