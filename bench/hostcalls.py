# SPDX-License-Identifier: Apache-2.0
"""How many system calls of the host a run makes: all of its processes', and moat's sentry's.

All are counted by the host's tracepoint, through perf, which slows nobody down; calls that a filter
traps and does not let through, and those that a tracer takes over, are none. The sentry's are those
of `moat run --stats`, which are also in the first.
"""
import csv
import shutil

import child

EVENT = "raw_syscalls:sys_enter"


def counted(argv, path):
    return ["perf", "stat", "-x", ",", "-e", EVENT, "-o", path, "--", *argv]


def works():
    if not shutil.which("perf"):
        return False
    result = child.run(["perf", "stat", "-x", ",", "-e", EVENT, "--", "/bin/true"], 20)
    return result.status == 0 and _number(result.error.splitlines()) is not None


def _number(lines):
    for line in lines:
        words = line.split(",")
        if EVENT in words and words[0].isdigit():
            return int(words[0])
    return None


def of_perf(path):
    with open(path, encoding="utf-8") as f:
        return _number(f)


def of_sentry(path):
    with open(path, encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f, delimiter="\t"):
            if row["row"] == "all host calls":
                return int(row["host"])
    return None
