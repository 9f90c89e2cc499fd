#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox notices of an attack in another one: latencies of a call before and during it.

Usage: bench/neighbour.py MOAT ATTACKER [SECONDS]; ATTACKER is the built tests/hostile/meter_attack.c.
Prints a table: attack, median and 99th percentile before and during, in microseconds. A report, no
test: on a host with few processors an attacker that spins takes its share of them, and that shows.
"""
import os
import signal
import subprocess
import sys

ATTACKS = {
    "fork": ["processes=40"],
    "thread": ["threads=40"],
    "mmap": ["memory=64M"],
    "touch": ["memory=64M"],
    "tmpfs": ["file_bytes=16M"],
    "pipes": ["buffers=1M"],
    "inodes": ["file_inodes=2000"],
    "locks": ["locks=1000"],
    "spin": ["wall_time=60s"],
}
NEIGHBOUR = """
import os, time
r, w = os.pipe()
end = time.monotonic() + %f
t = []
while time.monotonic() < end:
    a = time.perf_counter_ns()
    os.write(w, b'a')
    os.read(r, 1)
    os.stat('/tmp')
    t.append(time.perf_counter_ns() - a)
    time.sleep(0.0005)
t.sort()
print(t[len(t) // 2] / 1000, t[len(t) * 99 // 100] / 1000)
"""


def neighbour(moat, seconds):
    out = subprocess.run([moat, "run", "--", "python3", "-c", NEIGHBOUR % seconds],
                         stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    return float(out[0]), float(out[1])


def main():
    moat, attacker = sys.argv[1:3]
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 3
    place = os.path.dirname(os.path.abspath(attacker))
    print("attack\tp50_before\tp99_before\tp50_during\tp99_during")
    for name, limits in ATTACKS.items():
        before = neighbour(moat, seconds)
        options = [word for limit in limits for word in ("--limit", limit)]
        with subprocess.Popen([moat, "run", "--hostname", "moat-hostile", "--ro", place, *options,
                               "--", os.path.abspath(attacker), name], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
            during = neighbour(moat, seconds)
            p.stdin.close()
            if name == "spin":
                p.send_signal(signal.SIGTERM)
                p.kill()
        print(name, *(f"{v:.1f}" for v in before + during), sep="\t", flush=True)


if __name__ == "__main__":
    main()
