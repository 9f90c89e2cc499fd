# SPDX-License-Identifier: Apache-2.0
"""Samples, what is computed of them, and the tables.

The median stands for a series, the nearest-rank 99th percentile for its tail (with few rounds: the
worst). Intervals hold 95 % of bootstrap resamples of the median; a ratio's resamples take the same
rounds of both sides, as they were measured one after the other.
"""
import csv
import math
import random
import statistics

import callparts

RESAMPLES = 1000
NATIVE = "native"


def median_of_sorted(values):
    n = len(values)
    return values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2


def _interval(values):
    values.sort()
    return values[int(0.025 * len(values))], values[min(len(values) - 1, int(0.975 * len(values)))]


class Samples:
    """All values, by (kind, operation, target), with their rounds; and what failed, with why.

    Each is in the CSV file as soon as it is known, so that nothing is lost if all this is killed.
    """

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8", newline="", buffering=1)
        self.csv = csv.writer(self.file)
        self.csv.writerow(["kind", "operation", "target", "round", "value"])
        self.values = {}
        self.failed = {}
        self.operations = {}  # kind -> names in order of appearance
        self.targets = []

    def _know(self, kind, op):
        names = self.operations.setdefault(kind, [])
        if op not in names:
            names.append(op)

    def add(self, kind, op, target, turn, value):
        self._know(kind, op)
        self.csv.writerow([kind, op, target, turn, f"{value:.2f}"])
        self.values.setdefault((kind, op, target), {})[turn] = value

    def fail(self, kind, op, target, why):
        self._know(kind, op)
        self.csv.writerow([kind, op, target, "failed", why])
        self.failed[(kind, op, target)] = why

    def of(self, kind, op, target):
        return self.values.get((kind, op, target), {})


class Summary:
    """median, low and high of its interval, p99, count; ratio, ratio_low, ratio_high or None."""

    def __init__(self, values, native, rng):
        series = sorted(values.values())
        turns = sorted(values)
        self.count = len(series)
        self.median = statistics.median(series)
        self.p99 = series[max(0, math.ceil(0.99 * len(series)) - 1)]
        self.low, self.high = _interval(
            [median_of_sorted(sorted(rng.choices(series, k=len(series))))
             for _ in range(RESAMPLES)])
        self.ratio = self.ratio_low = self.ratio_high = None
        if not native:
            return
        base = statistics.median(native.values())
        if base <= 0:
            return
        self.ratio = self.median / base
        both = [t for t in turns if t in native]
        if not both:
            self.ratio_low = self.ratio_high = self.ratio
            return
        ratios = []
        for _ in range(RESAMPLES):
            picked = rng.choices(both, k=len(both))
            below = median_of_sorted(sorted(native[t] for t in picked))
            if below > 0:
                ratios.append(median_of_sorted(sorted(values[t] for t in picked)) / below)
        self.ratio_low, self.ratio_high = _interval(ratios) if ratios else (self.ratio, self.ratio)


def summarise(samples, seed):
    rng = random.Random(seed)
    return {(kind, op, target): Summary(values, samples.of(kind, op, NATIVE), rng)
            for (kind, op, target), values in samples.values.items()}


def geometric_mean(summaries, kind, ops, target):
    """Of the ratios to native; and of how many operations."""
    ratios = [s.ratio for op in ops
              if (s := summaries.get((kind, op, target))) and s.ratio]
    if not ratios:
        return None, 0
    return math.exp(sum(map(math.log, ratios)) / len(ratios)), len(ratios)


def show_time(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.3g} ns"


def show_size(size):
    return f"{size / 1e6:.2f} MB"


def show_seconds(seconds):
    return f"{seconds:.2f} s"


def show_count(count):
    return f"{count:.2f}"


def show_ratio(ratio):
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


# kind, heading, how a value is shown, whether a geometric mean says anything
KINDS = [
    ("micro", "Operations", show_time, True),
    ("programs", "Real programs, without the sandbox's start", show_time, True),
    ("calls", "Host calls of one operation, of all processes of the target", show_count, False),
    ("sentry_calls", "Host calls of one operation that moat's sentry made", show_count, False),
    ("whole", "Single calls, by their own time stamps: CALL/SITE", show_time, False),
    ("cold", "Cold start: wall time of a whole run", show_time, False),
    ("memory", "PSS of the whole process tree of a sleeping sandbox", show_size, False),
    ("idle", "Processor time that a sleeping sandbox used", show_seconds, False),
    ("sweep", "Cost as something grows: SWEEP/COUNT/OPERATION", show_time, False),
]


def _cell(samples, summaries, kind, op, target, show):
    s = summaries.get((kind, op, target))
    if s:
        calls = summaries.get(("calls", op, target)) if kind == "micro" else None
        behind = f"; {show_count(calls.median)}" if calls else ""
        if target == NATIVE or s.ratio is None or show is show_count:
            return show(s.median) + behind
        return f"{show(s.median)} ({show_ratio(s.ratio)}){behind}"
    why = samples.failed.get((kind, op, target))
    return f"failed: {why}" if why else "–"


def overview(samples, summaries):
    """Markdown: one table for each kind, a column for each target: median, ratio to native."""
    lines = []
    for kind, heading, show, mean in KINDS:
        ops = samples.operations.get(kind)
        if not ops:
            continue
        targets = [t for t in samples.targets if any(
            (kind, op, t) in samples.values or (kind, op, t) in samples.failed for op in ops)]
        lines += [f"### {heading}", "", "| | " + " | ".join(targets) + " |",
                  "|---|" + "---:|" * len(targets)]
        for op in ops:
            cells = [_cell(samples, summaries, kind, op, t, show) for t in targets]
            lines.append(f"| {op} | " + " | ".join(cells) + " |")
        if mean:
            cells = []
            for t in targets:
                value, count = geometric_mean(summaries, kind, ops, t)
                cells.append(f"**{show_ratio(value)}** ({count})" if value else "–")
            lines.append("| **geometric mean** (of how many) | " + " | ".join(cells) + " |")
        lines.append("")
    return lines + _parts(samples, summaries)


def parts_of(samples, summaries):
    """{call: {(target, way): {part: median ns}}}, targets in their order."""
    calls = {}
    for name in samples.operations.get("parts", []):
        call, way, part = name.split("/")
        for target in samples.targets:
            s = summaries.get(("parts", name, target))
            if s:
                calls.setdefault(call, {}).setdefault((target, way), {})[part] = s.median
    return {call: dict(sorted(rows.items(), key=lambda row: (
        samples.targets.index(row[0][0]), row[0][1]))) for call, rows in calls.items()}


def _parts(samples, summaries):
    lines = []
    for call, rows in parts_of(samples, summaries).items():
        if not lines:
            lines = ["### Where the time of one call goes", "",
                     "Medians of each part; the last column is the median of the whole, which is "
                     "not their sum. \"rewritten\" and \"signal\" are how the call reached the "
                     "stub; \"host\" is a platform without a stub on the way: there, trap and "
                     "return lead from the guest to the sentry's thread and back.", "",
                     "| | target | way | " + " | ".join(callparts.PARTS) + " | whole |",
                     "|---|---|---|" + "---:|" * (len(callparts.PARTS) + 1)]
        for (target, way), parts in rows.items():
            cells = [show_time(parts[p]) if p in parts else "–"
                     for p in (*callparts.PARTS, callparts.WHOLE)]
            lines.append(f"| {call} | {target} | {way} | " + " | ".join(cells) + " |")
    return lines + [""] if lines else []


def details(samples, summaries):
    """Markdown: every figure of every series."""
    lines = []
    for kind, heading, show, _ in KINDS:
        ops = samples.operations.get(kind, [])
        rows = []
        for op in ops:
            for t in samples.targets:
                s = summaries.get((kind, op, t))
                if not s:
                    continue
                ratio = "" if s.ratio is None else (
                    f"{show_ratio(s.ratio)} | {show_ratio(s.ratio_low)} – "
                    f"{show_ratio(s.ratio_high)}")
                row = (f"| {op} | {t} | {s.count} | {show(s.median)} | {show(s.low)} – "
                       f"{show(s.high)} | {show(s.p99)} | {ratio or ' | '} |")
                if kind == "micro":
                    host = [summaries.get((k, op, t)) for k in ("calls", "sentry_calls")]
                    row += "".join(f" {show_count(h.median) if h else '–'} |" for h in host)
                rows.append(row)
        if rows:
            more = kind == "micro"
            lines += [f"### {heading}: all figures", "",
                      "| | target | rounds | median | 95 % interval | p99 | ratio | its interval |"
                      + (" host calls | of the sentry |" if more else ""),
                      "|---|---|---:|---:|---:|---:|---:|---:|" + ("---:|---:|" if more else ""),
                      *rows, ""]
    return lines
