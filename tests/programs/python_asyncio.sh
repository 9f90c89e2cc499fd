#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# python3: asyncio with timers, subprocesses, streams over unix sockets, signals.
# needs: /usr/bin/python3

exec /usr/bin/python3 - <<'EOF'
import asyncio, os, signal, sys, tempfile

async def timers():
    out = []
    async def at(d, x):
        await asyncio.sleep(d); out.append(x)
    await asyncio.gather(at(0.15, 3), at(0.05, 1), at(0.1, 2))
    print("timers", out)
    try: await asyncio.wait_for(asyncio.sleep(9), 0.05)
    except asyncio.TimeoutError: print("timeout")

async def procs():
    async def one(i):
        p = await asyncio.create_subprocess_exec("sh", "-c", f"read x; echo $x-{i}; exit {i}",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        o, _ = await p.communicate(b"in\n")
        return o, p.returncode
    print("procs", await asyncio.gather(*[one(i) for i in range(8)]))
    p = await asyncio.create_subprocess_exec("sleep", "99")
    p.terminate(); print("terminated", await p.wait())

async def unix():
    path = tempfile.mkdtemp() + "/sock"
    async def serve(r, w):
        while line := await r.readline():
            w.write(line.upper()); await w.drain()
        w.close()
    srv = await asyncio.start_unix_server(serve, path, limit=1 << 20)
    async def client(i):
        r, w = await asyncio.open_unix_connection(path)
        got = []
        for k in range(20):
            w.write(f"c{i}-{k}\n".encode()); await w.drain(); got.append(await r.readline())
        w.close(); return got[-1]
    print("unix", await asyncio.gather(*[client(i) for i in range(20)]))
    r, w = await asyncio.open_unix_connection(path, limit=1 << 20)
    w.write(b"y" * 300000 + b"\n")
    print("long line", len(await r.readline()))
    w.close(); srv.close()

async def signals():
    loop, ev = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, ev.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(ev.wait(), 10); print("signal")

async def pipes():
    r, w = os.pipe()
    loop = asyncio.get_running_loop()
    rd = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(rd), os.fdopen(r, "rb"))
    await loop.run_in_executor(None, os.write, w, b"from a thread\n")
    print("pipe", await rd.readline()); os.close(w)

async def sync():
    sem, n, most = asyncio.Semaphore(3), 0, 0
    async def job():
        nonlocal n, most
        async with sem:
            n += 1; most = max(most, n); await asyncio.sleep(0.005); n -= 1
    await asyncio.gather(*[job() for _ in range(30)]); print("sem", most)
    q = asyncio.Queue(5)
    async def prod():
        for i in range(100): await q.put(i)
        await q.put(None)
    async def cons():
        s = 0
        while (x := await q.get()) is not None: s += x
        return s
    print("queue", (await asyncio.gather(prod(), cons()))[1])

async def main():
    for f in timers, procs, unix, signals, pipes, sync: await f()
asyncio.run(main())
EOF
