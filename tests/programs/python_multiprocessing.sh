#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# python3: multiprocessing with every start method, queues, shared memory, locks.
# needs: /usr/bin/python3

cat >"$TMPDIR/mp.py" <<'EOF'
import multiprocessing as mp, os, sys
from multiprocessing import shared_memory

def square(x): return x * x
def add(v, n):
    for _ in range(n):
        with v.get_lock(): v.value += 1
def pump(q, r):
    for x in iter(q.get, None): r.put(x + 1)
def die(code): sys.exit(code)
def shm_write(name):
    s = shared_memory.SharedMemory(name); s.buf[:5] = b"hello"; s.close()
def talk(c):
    while (m := c.recv()) is not None: c.send(m * 2)
def meet(b, q): b.wait(); q.put(1)

def main(method):
    ctx = mp.get_context(method)
    with ctx.Pool(4) as p:
        print(method, "pool", sum(p.map(square, range(1000))))
        print(method, "imap", sorted(p.imap_unordered(square, range(10))))
        try: p.apply(divmod, (1, 0))
        except ZeroDivisionError as e: print(method, e)
    v = ctx.Value("i", 0)
    ps = [ctx.Process(target=add, args=(v, 300)) for _ in range(4)]
    [p.start() for p in ps]; [p.join() for p in ps]
    print(method, "value", v.value, [p.exitcode for p in ps])
    q, r = ctx.Queue(), ctx.Queue()
    p = ctx.Process(target=pump, args=(q, r)); p.start()
    for i in range(200): q.put(i)
    q.put(None); print(method, "queue", sum(r.get() for _ in range(200))); p.join()
    p = ctx.Process(target=die, args=(7,)); p.start(); p.join(); print(method, "exit", p.exitcode)
    p = ctx.Process(target=talk, args=((c := ctx.Pipe())[1],)); p.start()
    c[0].send([1, 2]); print(method, "pipe", c[0].recv()); p.terminate(); p.join(); print(p.exitcode)
    s = shared_memory.SharedMemory(create=True, size=4096)
    p = ctx.Process(target=shm_write, args=(s.name,)); p.start(); p.join()
    print(method, "shm", bytes(s.buf[:5])); s.close(); s.unlink()
    b, q = ctx.Barrier(3), ctx.Queue()
    ps = [ctx.Process(target=meet, args=(b, q)) for _ in range(3)]
    [p.start() for p in ps]; [p.join() for p in ps]; print(method, "barrier", [q.get() for _ in ps])
    with ctx.Manager() as m:
        d = m.dict(); d["k"] = 1; print(method, "manager", dict(d))

if __name__ == "__main__":
    main(sys.argv[1])
EOF
for method in fork spawn forkserver; do /usr/bin/python3 "$TMPDIR/mp.py" $method 2>&1; done
