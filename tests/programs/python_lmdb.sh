#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# LMDB: a database in one shared mapping of 10 GiB, of which the file has little; read-only and written through.
# needs: /usr/bin/python3 /usr/lib/python3/dist-packages/lmdb/__init__.py

cat >"$TMPDIR/l.py" <<'EOF'
import lmdb, multiprocessing, os, sys

where, through = sys.argv[1], sys.argv[2] == "through"

def env(**more):
    return lmdb.open(where, map_size=10 << 30, writemap=through, **more)

def look(key):
    with env(readonly=True) as e, e.begin() as t:
        return t.get(key)

def add(key):
    with env() as e, e.begin(write=True) as t:
        t.put(key, key)

if __name__ == "__main__":
    with env() as e:
        with e.begin(write=True) as t:
            for i in range(10000):
                t.put(b"k%06d" % i, b"v%d" % i * 10)
        e.sync()
        with e.begin() as t:
            print(all(t.get(b"k%06d" % i) == b"v%d" % i * 10 for i in range(10000)))
            print(t.stat()["entries"], t.cursor().first(), e.info()["map_size"])
        with e.begin(write=True) as t:
            print(t.delete(b"k000007"), t.get(b"k000007"))
        try:
            with e.begin() as t:
                t.put(b"a", b"b")
        except lmdb.Error as x:
            print(type(x).__name__)
    ctx = multiprocessing.get_context("spawn")
    with ctx.Pool(3) as pool:
        pool.map(add, [b"p%d" % i for i in range(30)])
        print(pool.map(look, [b"k000007", b"k009999", b"p29", b"none"]))
    with env() as e, e.begin() as t:
        print(t.stat()["entries"])
    st = os.stat(where + "/data.mdb")
    print(st.st_size if through else st.st_size < 4 << 20, st.st_blocks * 512 < 4 << 20)
EOF
for how in plain through; do
	echo "$how"
	/usr/bin/python3 "$TMPDIR/l.py" "$TMPDIR/$how" $how
done
