# SPDX-License-Identifier: Apache-2.0
"""Runs one command with limits on its time, and leaves nothing of it behind.

A sandbox is a tree of processes, some of which detach themselves. This process is made the reaper
of its orphans, so whatever a run has started is found below it, and killed when the run is over.
"""
import ctypes
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections import namedtuple

PR_SET_CHILD_SUBREAPER = 36

# status: exit status, or None where it was killed for @why ("" where it ended by itself).
# partial: what follows the last line break.
Result = namedtuple("Result", "status why seconds lines partial error")


def reason(result):
    """Why a run failed, in a few words."""
    if result.why:
        return result.why
    if result.status < 0:
        return f"signal {-result.status}"
    return f"status {result.status}"


def become_reaper():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _parents():
    parents = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                parents[int(name)] = int(f.read().rsplit(b")", 1)[1].split()[1])
        except OSError:
            pass
    return parents


def descendants():
    """Process ids of everything that this process has started, directly or not."""
    parents, found, me = _parents(), set(), os.getpid()
    grown = True
    while grown:
        more = {p for p, q in parents.items() if (q == me or q in found) and p not in found}
        found |= more
        grown = bool(more)
    return sorted(found)


def kill_all():
    """Kills and reaps every descendant."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        pids = descendants()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            pass
        time.sleep(0.01)


def tree_memory():
    """Sum of PSS in bytes over all descendants, or None where it may not be read."""
    total = 0
    for pid in descendants():
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:")) * 1024
        except PermissionError:
            return None
        except OSError:
            pass  # It has just ended, or has no memory (a zombie).
    return total


def tree_seconds():
    """Processor time in seconds that all descendants have used."""
    ticks = 0
    for pid in descendants():
        try:
            with open(f"/proc/{pid}/stat", "rb") as f:
                fields = f.read().rsplit(b")", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


class Running:
    """A command that runs; its output is read by lines."""

    def __init__(self, argv, env=None):
        self.error_file = tempfile.TemporaryFile()
        self.lines, self.partial = [], b""
        self.start = time.perf_counter()
        self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=self.error_file, start_new_session=True, env=env,
                                     bufsize=0)
        self.pidfd = os.pidfd_open(self.proc.pid)
        self.poll = selectors.DefaultSelector()
        self.poll.register(self.pidfd, selectors.EVENT_READ)
        self.poll.register(self.proc.stdout, selectors.EVENT_READ)
        os.set_blocking(self.proc.stdout.fileno(), False)

    def _read(self):
        """True if there was output."""
        any_output = False
        while True:
            data = self.proc.stdout.read(65536)
            if data is None:
                return any_output
            if data == b"":
                try:
                    self.poll.unregister(self.proc.stdout)
                except KeyError:
                    pass
                return any_output
            any_output = True
            *lines, self.partial = (self.partial + data).split(b"\n")
            self.lines += [line.decode("utf-8", "replace") for line in lines]

    def wait(self, timeout, stall=None, until_line=False):
        """Why it must not go on, "" if it ended by itself, None if it has said a line."""
        deadline = time.perf_counter() + timeout
        quiet_since = time.perf_counter()
        while True:
            now = time.perf_counter()
            limit = deadline if stall is None else min(deadline, quiet_since + stall)
            if now >= limit:
                return "time limit" if now >= deadline else "hangs"
            ready = [key.fileobj for key, _ in self.poll.select(limit - now)]
            if self.pidfd in ready:
                self.seconds = time.perf_counter() - self.start
                self._read()
                return ""
            if ready and self._read():
                quiet_since = time.perf_counter()
                if until_line and self.lines:
                    return None

    def finish(self, why=""):
        """Ends it if it still runs, with all that it has started."""
        if why:
            self.seconds = time.perf_counter() - self.start
            self.proc.kill()
        status = self.proc.wait()
        self.proc.stdout.close()
        self.poll.close()
        os.close(self.pidfd)
        kill_all()
        self.error_file.seek(0)
        error = self.error_file.read(100000).decode("utf-8", "replace").strip()
        self.error_file.close()
        return Result(None if why else status, why, self.seconds, self.lines,
                      self.partial.decode("utf-8", "replace"), error)


def run(argv, timeout, stall=None):
    try:
        running = Running(argv)
    except OSError as e:
        return Result(127, e.strerror, 0.0, [], "", str(e))
    return running.finish(running.wait(timeout, stall))
