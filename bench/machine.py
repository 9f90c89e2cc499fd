# SPDX-License-Identifier: Apache-2.0
"""What the figures depend on: the machine, its kernel, its load, what was measured."""
import glob
import os
import re
import subprocess


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError:
        return None


def load():
    return list(os.getloadavg())


def _cpu():
    text = _read("/proc/cpuinfo") or ""
    model = re.search(r"model name\s*:\s*(.*)", text)
    flags = re.search(r"^flags\s*:\s*(.*)", text, re.M)
    words = flags[1].split() if flags else []
    return {"model": model[1] if model else None, "virtual": "hypervisor" in words,
            "cores": os.cpu_count(), "usable": len(os.sched_getaffinity(0))}


def tracing(root="/sys/kernel/tracing"):
    """Where the kernel traces: a system call takes twice as long while its events are on, whoever
    reads them. A list of directories; None: this user may not look."""
    if not os.access(os.path.join(root, "current_tracer"), os.R_OK):
        return None
    return [d for d in [root, *sorted(glob.glob(os.path.join(root, "instances/*")))]
            if _read(os.path.join(d, "events/enable")) not in ("0", None)
            or _read(os.path.join(d, "current_tracer")) not in ("nop", None)]


def revision(root):
    def git(*args):
        try:
            done = subprocess.run(["git", "-C", root, *args], capture_output=True, text=True,
                                  check=False)
            return done.stdout.strip() if done.returncode == 0 else None
        except OSError:
            return None

    return {"revision": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain", "--untracked-files=no"))}


def describe(root):
    total = re.search(r"MemTotal:\s*(\d+)", _read("/proc/meminfo") or "")
    return {
        "cpu": _cpu(),
        "memory_bytes": int(total[1]) * 1024 if total else None,
        "kernel": " ".join(os.uname()[i] for i in (0, 2, 3, 4)),
        "clock_source": _read(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "tracing": tracing(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "mitigations": {os.path.basename(p): _read(p) for p in sorted(
            glob.glob("/sys/devices/system/cpu/vulnerabilities/*"))},
        "git": revision(root),
    }
