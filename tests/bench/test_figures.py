#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the benchmark computes from samples, held against samples with known answers. Prints "N passed, N failed"."""
import os
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, "bench")

import callparts  # noqa: E402
import figures  # noqa: E402
import hostcalls  # noqa: E402
import machine  # noqa: E402
import plots  # noqa: E402

good = bad = 0


def check(what, want, got):
    global good, bad
    if want == got:
        good += 1
    else:
        bad += 1
        print(f"FAIL {what}: {got!r} instead of {want!r}")


def samples():
    s = figures.Samples(os.devnull)
    s.targets = ["native", "moat-a", "moat-b"]
    for turn, value in enumerate((100, 300, 200)):
        s.add("micro", "one", "native", turn, value)
        s.add("micro", "two", "native", turn, 1000)
        s.add("micro", "one", "moat-a", turn, 2 * value)
        s.add("micro", "two", "moat-a", turn, 8000)
    s.add("micro", "one", "moat-b", 0, 50)
    s.fail("micro", "two", "moat-b", "hangs")
    s.add("calls", "one", "moat-a", 0, 1.5)
    s.add("sentry_calls", "one", "moat-a", 0, 0.25)
    for way, scale in (("signal", 10), ("rewritten", 1)):
        for i, part in enumerate(callparts.PARTS):
            s.add("parts", f"lseek/{way}/{part}", "moat-a", 0, (i + 1) * scale)
        s.add("parts", f"lseek/{way}/whole", "moat-a", 0, 46 * scale)
    s.add("parts", "lseek/host/trap", "moat-b", 0, 7)
    return s


def test_figures():
    s = samples()
    sums = figures.summarise(s, 1)
    one = sums["micro", "one", "moat-a"]
    check("median", 400, one.median)
    check("ratio", 2, one.ratio)
    # Rounds are resampled in pairs, and each pair is 2.
    check("its interval", (2, 2), (one.ratio_low, one.ratio_high))
    check("interval", (200, 600), (one.low, one.high))
    check("p99 of few rounds", 600, one.p99)
    check("geometric mean", (4.0, 2), figures.geometric_mean(sums, "micro", ["one", "two"], "moat-a"))
    check("geometric mean of what there is", (0.25, 1),
          figures.geometric_mean(sums, "micro", ["one", "two"], "moat-b"))
    table = figures.overview(s, sums)
    check("host calls in the table", True,
          "| one | 200 ns | 400 ns (2.00×); 1.50 | 50 ns (0.25×) |" in table)
    check("what failed in the table", True, "| two | 1 µs | 8 µs (8.00×) | failed: hangs |" in table)
    check("means in the table", True, "| **geometric mean** (of how many) | **1.00×** (2) | **4.00×** (2) | "
          "**0.25×** (1) |" in table)
    check("parts in the table", True, "| lseek | moat-a | rewritten | 1 ns | 2 ns | 3 ns | 4 ns | 5 ns | 6 ns | 7 ns | "
          "8 ns | 9 ns | 46 ns |" in table)
    check("parts that there are not", True, "| lseek | moat-b | host | 7 ns |" + " – |" * 9 in table)
    rows = figures.details(s, sums)
    check("host calls of all, and of the sentry", True, any(
        row.startswith("| one | moat-a |") and row.endswith("| 1.50 | 0.25 |") for row in rows))


def test_plots(folder):
    s = samples()
    path = os.environ["PATH"]
    os.environ["PATH"] = folder
    drawn, wrong = plots.draw(s, figures.summarise(s, 1), folder)
    os.environ["PATH"] = path
    check("without gnuplot", ([], True), (drawn, "not installed" in (wrong or "")))
    drawn, wrong = plots.draw(s, figures.summarise(s, 1), folder)
    if wrong and "not installed" in wrong:
        return
    check("gnuplot", None, wrong)
    check("pictures", ["micro-cost", "micro-ratio", "parts-lseek", "parts-rewritten"], drawn)
    with open(os.path.join(folder, "parts-lseek.svg"), encoding="utf-8") as f:
        text = f.read()
    check("bars", True, all(b in text for b in ("moat-a rewritten", "moat-a signal", "moat-b host")))


def test_reports(folder):
    path = os.path.join(folder, "report")
    with open(path, "w", encoding="ascii") as f:
        f.write("call\tway\t" + "\t".join(callparts.PARTS) + "\n")
        for i in range(10):
            f.write("lseek\trewritten\t" + "\t".join(str(10 * i + p) for p in range(9)) + "\n")
        f.write("lseek\trewritten\t-" + "\t5" * 8 + "\n")  # no time stamp of the guest's
        f.write("lseek\thost\t1\t-\t-\t2\t3\t4\t-\t-\t5\n")
        f.write("openat\trewritten\t" + "\t".join("123456789") + "\n")
    parts = callparts.read(path, 2)
    check("calls with parts", [("lseek", "rewritten")], list(parts))
    check("a part", 50 + 3, parts["lseek", "rewritten"]["dispatch"])
    check("the whole", 9 * 50 + 36, parts["lseek", "rewritten"]["whole"])
    check("parts without a stub", {"trap": 1, "dispatch": 2, "handler": 3, "reply": 4, "return": 5, "whole": 15},
          callparts.read(path, 1)["lseek", "host"])
    with open(path, "w", encoding="ascii") as f:
        f.write("row\tcalls\terrors\ttier0\ttier1\ttier2\thost\tnames\nlseek\t3\t0\t-\t3\t0\t2\tfutex 2\n"
                "all host calls\t-\t-\t-\t-\t-\t77\tfutex 70, read 7\n")
    check("the sentry's host calls", 77, hostcalls.of_sentry(path))
    with open(path, "w", encoding="ascii") as f:
        f.write("# started on\n\n1234,,raw_syscalls:sys_enter,484301,100.00,,\n")
    check("all host calls", 1234, hostcalls.of_perf(path))
    with open(path, "w", encoding="ascii") as f:
        f.write("<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n")
    check("host calls that were not counted", None, hostcalls.of_perf(path))


def test_tracing(tmp):
    root = os.path.join(tmp, "tracing")
    there = {"": ("0", "nop"), "instances/events": ("X", "nop"), "instances/off": ("0", "nop"),
             "instances/tracer": ("0", "function")}
    check("a host without tracefs", None, machine.tracing(root))
    for place, (events, tracer) in there.items():
        os.makedirs(os.path.join(root, place, "events"))
        for name, text in ("events/enable", events), ("current_tracer", tracer):
            with open(os.path.join(root, place, name), "w", encoding="ascii") as f:
                f.write(text + "\n")
    check("who traces", [os.path.join(root, "instances", n) for n in ("events", "tracer")], machine.tracing(root))


test_figures()
with tempfile.TemporaryDirectory() as tmp:
    test_plots(tmp)
    test_reports(tmp)
    test_tracing(tmp)
print(f"{good} passed, {bad} failed")
sys.exit(bad != 0)
