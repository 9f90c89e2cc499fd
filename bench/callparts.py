# SPDX-License-Identifier: Apache-2.0
"""Where the time of one call goes: what `moat run --profile-calls` has written."""
import csv
import statistics

PARTS = ("trap", "copy in", "over", "dispatch", "handler", "reply", "back", "copy out", "return")
WHOLE = "whole"
# Those in which the agent changes the guest's memory: an order of magnitude above the others.
BY_AGENT = ("mprotect",)
# What the program calls them (bench/micro_profile.c).
NAMES = {"lseek": "lseek", "fstat": "fstat", "stat": "stat", "read": "read_4k",
         "write": "write_4k", "mprotect": "mprotect"}


def read(path, least):
    """{(call, way): {part: median cycles}} of those with @least calls that tell all they can."""
    found = {}
    with open(path, encoding="ascii", newline="") as f:
        for row in csv.DictReader(f, delimiter="\t"):
            # Only those that are made to be measured say when they began.
            if row["call"] in NAMES and row["trap"] != "-" and row["return"] != "-":
                found.setdefault((NAMES[row["call"]], row["way"]), []).append(
                    {p: int(row[p]) for p in PARTS if row[p] != "-"})
    result = {}
    for key, calls in found.items():
        if len(calls) < least:
            continue
        calls = calls[len(calls) // 10:]  # The first warm up.
        result[key] = {p: statistics.median(c[p] for c in calls) for p in PARTS if p in calls[0]}
        result[key][WHOLE] = statistics.median(sum(c.values()) for c in calls)
    return result
