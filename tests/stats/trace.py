#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What strace sees of moat's own processes against what docs/SECURITY.md lists and --stats reports.

Arguments: the launcher, a folder to write in, a command for the guest. Runs it on trap (where nobody traces, so
that strace can). Each process and thread is told by how it began: the monitor, the sentry's threads, stubs between
fork and exec, stubs. All calls must be in the lists, and those of which the C library makes none by itself must have
been reported as often as they were made. Prints failures and "N passed, N failed".
"""
import collections
import glob
import os
import re
import subprocess
import sys

moat, folder, command = sys.argv[1], sys.argv[2], sys.argv[3:]
bad = good = 0


def check(ok, text):
    global good, bad
    good, bad = good + bool(ok), bad + (not ok)
    if not ok:
        print("FAIL", text)


def lists():
    """{title of the section: ({calls}, {calls that the C library makes})}"""
    found, title = {}, None
    for line in open("docs/SECURITY.md"):
        if line.startswith("### "):
            title = line[4:].strip()
            found[title] = (set(), set())
        elif line.startswith("## "):
            title = None
        elif title and line.startswith("| ") and not line.startswith("| call "):
            cells = line.split(" | ")
            calls = set(cells[0][2:].split(", "))
            found[title][0].update(calls)
            if "C library" in cells[1] or "answered with an error" in title:
                found[title][1].update(calls)
    return found


def section(found, begin):
    """All whose titles begin so."""
    some = [v for k, v in found.items() if k.startswith(begin)]
    return set.union(*(v[0] for v in some)), set.union(*(v[1] for v in some))


# Newer than this strace.
NEW = {"syscall_0x1c4": "fchmodat2", "syscall_0x1ce": "mseal"}


def calls_of(lines):
    names = (m[1] for m in (re.match(r"(\w+)\(", x) for x in lines) if m)
    return collections.Counter(NEW.get(name, name) for name in names)


def main():
    prefix = folder + "/trace"
    run = subprocess.run(["strace", "-qq", "-ff", "--pidns-translation", "-s", "16", "-o", prefix, moat, "run", "--platform", "trap", "--stats",
                          "--tty", "off", "--rw", folder, "--cwd", folder, "--", *command],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400)
    traces = {int(f.rsplit(".", 1)[1]): open(f, errors="replace").read().splitlines() for f in glob.glob(prefix + ".*")}
    if not traces or run.returncode != 0:
        print(run.stderr[-2000:])
        check(False, f"the guest ended with {run.returncode}")
        return
    parent, is_thread = {}, set()
    for pid, lines in traces.items():
        for line in lines:
            # In the sentry's pid name space they have other numbers: "= 7 /* 4711 in strace's PID NS */".
            m = re.match(r"(?:<\.\.\. )?(?:clone3?|fork|vfork)\b.* = (?:\d+ /\* )?(\d+)(?: in .* \*/)?$", line)
            if m:
                parent[int(m[1])] = pid
                if "CLONE_THREAD" in line:
                    is_thread.add(int(m[1]))
    def process(pid):
        while pid in is_thread:
            pid = parent[pid]
        return pid

    sentry = next(p for p, t in traces.items() if any('PR_SET_NAME, "moat-sentry"' in x for x in t))
    found = lists()
    seen = collections.Counter()
    stub = section(found, "trap and notify: a guest thread")[0] | section(found, "trap and notify: the agent")[0]
    keeper = section(found, "trap and notify: the keeper")[0]
    early = section(found, "A stub between exec")[0]
    for pid, lines in sorted(traces.items()):
        if process(pid) == sentry:
            seen += calls_of(lines)
            who, may = "the sentry", section(found, "The sentry,")[0]
        elif pid == parent.get(sentry):
            who, may = "the monitor", section(found, "The monitor")[0]
        elif process(parent.get(pid)) == sentry:
            # What it does after the exec is the keeper's; a probe's child makes none.
            at = next((i for i, x in enumerate(lines) if x.startswith("execveat(")), len(lines))
            last = max((i for i, x in enumerate(lines) if x.startswith("seccomp(")), default=at)
            first, rest = set(calls_of(lines[at + 1:last + 1])), set(calls_of(lines[last + 1:]))
            check(first <= early, f"the keeper ({pid}) makes {sorted(first - early)} before its filter")
            check(rest <= keeper, f"the keeper ({pid}) makes {sorted(rest - keeper)}")
            lines, who, may = lines[:at + 1], "a child before its exec", section(found, "A stub between fork")[0]
        else:
            # Calls that the filter traps are the guest's own: SIGSYS follows.
            own = [x for i, x in enumerate(lines)
                   if not any("SIGSYS" in y for y in lines[i + 1:i + 2])]
            lines, who, may = own, "a stub", stub
        made = set(calls_of(lines))
        check(made <= may, f"{who} ({pid}) makes {sorted(made - may)}, which docs/SECURITY.md does not list")
    report, here = {}, False
    for line in run.stderr.splitlines():
        here = line.startswith("all host calls") or here and line.startswith(" ")
        if here:
            report |= {k: int(v) for k, v in re.findall(r"([a-z]\w*) (\d+)(?:,|$)", line)}
    check(len(report) > 20, "no report")
    # Once before the counting begins, or after its end.
    edge = {"close", "getppid", "prctl", "exit_group"}
    for call in sorted(set(seen) | set(report)):
        if call not in edge and call not in section(found, "The sentry,")[1]:
            check(report.get(call, 0) == seen[call], f"{call}: reported {report.get(call, 0)}, made {seen[call]} times")


main()
print(f"{good} passed, {bad} failed")
sys.exit(bad != 0)
