#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what may differ from run to run: times, chance, numbers, order."""
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import uuid


def show(name, *values):
    print(name, *values)


def times():
    show("time", time.time(), time.time_ns())
    show("monotonic", time.monotonic(), time.perf_counter_ns(), time.process_time_ns())
    for c in ("BOOTTIME", "MONOTONIC_RAW", "TAI", "THREAD_CPUTIME_ID", "PROCESS_CPUTIME_ID"):
        show(c, time.clock_gettime_ns(getattr(time, "CLOCK_" + c)))
    show("local", time.strftime("%Y-%m-%d %H:%M:%S %Z"))
    show("times", tuple(os.times()))


def chance():
    show("random", random.random(), random.SystemRandom().random())
    show("urandom", os.urandom(16).hex(), uuid.uuid4(), uuid.uuid1())
    for name in ("/dev/urandom", "/dev/random"):
        with open(name, "rb") as f:
            show(name, f.read(8).hex())
    for name in ("boot_id", "uuid"):
        with open("/proc/sys/kernel/random/" + name) as f:
            show(name, f.read().strip())
    words = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"}
    show("set", list(words), hash("moat"))
    show("id", id(words), id(object()))


def numbers():
    show("ids", os.getpid(), os.getppid(), threading.get_ident(), threading.get_native_id())
    with tempfile.TemporaryDirectory() as d:
        show("temp", d)
        for i in range(30):
            with open(os.path.join(d, "f%d" % (i * 7 % 30)), "w") as f:
                f.write("x" * i)
        show("listdir", os.listdir(d))
        s = os.stat(os.path.join(d, "f3"))
        show("stat", s.st_ino, s.st_dev, s.st_mtime_ns, s.st_ctime_ns)
    show("etc", os.listdir("/etc")[:20])
    show("dev", os.listdir("/dev"))
    with open("/proc/self/maps") as f:
        show("maps", f.read())
    with open("/proc/self/stat") as f:
        fields = f.read().split()
        # Not the host's: page faults (10 to 13), what is resident (24), what waits.
        show("proc stat", *fields[:9], *fields[13:23])
    for name in ("/proc/uptime", "/proc/stat", "/proc/loadavg"):
        with open(name) as f:
            show(name, f.read())
    show("cpus", os.cpu_count(), os.sched_getaffinity(0))


def threads():
    order = []
    lock = threading.Lock()

    def work(n):
        for i in range(40):
            with lock:
                order.append(n)
            if i % 5 == n % 5:
                time.sleep(0.001 * n)
            else:
                os.getppid()
                sum(range(500))

    all_threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in all_threads:
        t.start()
    for t in all_threads:
        t.join()
    show("threads", "".join(map(str, order)))


def processes():
    parts = [subprocess.Popen([sys.executable, "-c",
                               "import os, time, random\n"
                               "for i in range(3):\n"
                               "    print(%d, os.getpid(), i, time.monotonic(),"
                               " random.random(), hash('a'), flush=True)\n"
                               "    time.sleep(0.01 * %d)" % (n, n)],
                              stdout=subprocess.PIPE) for n in range(4)]
    for p in parts:
        show("child", p.communicate()[0].decode())
    r, w = os.pipe()
    for n in range(5):
        if os.fork() == 0:
            os.close(r)
            for i in range(20):
                os.write(w, b"%d" % n)
                if i % 3 == 0:
                    os.sched_yield()
            os._exit(0)
    os.close(w)
    got = b""
    while True:
        b = os.read(r, 1000)
        if not b:
            break
        got += b
    show("forks", got.decode(), [os.wait() for _ in range(5)])


async def sleeper(n, log):
    for i in range(5):
        await asyncio.sleep(0.1 + n * 0.01)
        log.append((n, i, asyncio.get_running_loop().time()))


async def loops():
    log = []
    await asyncio.gather(*(sleeper(n, log) for n in range(5)))
    try:
        await asyncio.wait_for(asyncio.sleep(1e6), 1000)
    except asyncio.TimeoutError:
        log.append("timeout")
    p = await asyncio.create_subprocess_exec("sleep", "77", stdout=asyncio.subprocess.PIPE)
    await p.wait()
    show("asyncio", log, asyncio.get_running_loop().time())


def main():
    times()
    chance()
    numbers()
    threads()
    processes()
    asyncio.run(loops())
    time.sleep(86400)
    times()


main()
