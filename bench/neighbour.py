#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox notices of an attack in another one: latencies of a call before and during it.

Usage: bench/neighbour.py MOAT ATTACKER [SECONDS]; ATTACKER is the built tests/hostile/meter_attack.c.
The attacks, with their limits, are those of tests/hostile/meters.sh. Prints a table: attack, median
and 99th percentile before and during, in microseconds. A report, no test: on a host with few
processors an attacker that spins takes its share of them, and that shows.
"""
import os
import re
import subprocess
import sys
import tempfile

METERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "hostile",
                      "meters.sh")


def attacks():
    """(name, limits) of each attack."""
    with open(METERS, encoding="ascii") as f:
        for line in f:
            found = re.match(r"attack (\S+) \S+ \d+ \d+ (.*)", line)
            if found:
                yield found[1], found[2].split()
    yield "spin", ["wall_time=10m"]


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
    for name, limits in attacks():
        rw = tempfile.TemporaryDirectory(dir="/var/tmp")
        before = neighbour(moat, seconds)
        options = [word for limit in limits for word in ("--limit", limit)]
        with subprocess.Popen([moat, "run", "--hostname", "moat-hostile", "--ro", place,
                               "--rw", f"{rw.name}:/rw", *options,
                               "--", os.path.abspath(attacker), name], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
            during = neighbour(moat, seconds)
            p.stdin.close()
            p.kill()  # one of them blocks every signal
        rw.cleanup()
        print(name, *(f"{v:.1f}" for v in before + during), sep="\t", flush=True)


if __name__ == "__main__":
    main()
