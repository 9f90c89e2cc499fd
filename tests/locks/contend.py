#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# File locks between a sandbox, the host and a second sandbox: agents (agent.c) here and there do what they are told.
# Usage: contend.py MOAT PLATFORM AGENT DIRECTORY. The last line counts.
import os
import select
import signal
import sqlite3
import subprocess
import sys

moat, platform, agent, top = sys.argv[1:]
passed = failed = 0
LIMIT = 60  # s, for an answer that is certain to come


def check(what, got, wanted):
    global passed, failed
    if got == wanted:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {platform}: {what}: {got!r} instead of {wanted!r}", flush=True)


class Agent:
    def __init__(self, command):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.left = b""
        if self.answer() != "here":
            raise SystemExit(f"{command} does not start")

    def answer(self):
        while b"\n" not in self.left:
            if not select.select([self.p.stdout], [], [], LIMIT)[0]:
                return "no answer"
            more = os.read(self.p.stdout.fileno(), 4096)
            if not more:
                return "gone"
            self.left += more
        line, self.left = self.left.split(b"\n", 1)
        return line.decode()

    def tell(self, line):
        self.p.stdin.write(line.encode() + b"\n")

    def ask(self, line):
        self.tell(line)
        return self.answer()

    # Has it said something that nobody asked for yet?
    def silent(self):
        return not self.left and not select.select([self.p.stdout], [], [], 0)[0]

    def end(self):
        self.p.stdin.close()
        self.p.wait()


def sandbox(*options, access="--rw"):
    return Agent([moat, "run", "--platform", platform, "--tty", "off", "--cwd", "/", "--ro", os.path.dirname(agent),
                  access, share, *options, "--", agent])


def fresh(name):
    path = os.path.join(share, name)
    with open(path, "w", encoding="ascii") as f:
        f.write("0123456789")
    return path


# The two of them, with a file open as 0 for reading and writing and as 1 for reading.
def opened(path, *agents):
    for a in agents:
        check("open", (a.ask(f"open 0 rw {path}"), a.ask(f"open 1 r {path}")), ("ok", "ok"))


def records(here, there, kind, pid):
    """Record locks of @here against @there: kind "" or "o", and whose number the others see."""
    get = "oget" if kind else "get_lock"

    def told(words):
        return f"{words} pid {pid}"

    path = fresh(f"records{kind}")
    opened(path, here, there)
    check("set", here.ask(f"{kind}set 0 w 10 10"), "ok")
    check("in the way", there.ask(f"{kind}set 0 w 19 1"), "EAGAIN")
    check("readers too", there.ask(f"{kind}set 0 r 0 0"), "EAGAIN")
    check("beside it", there.ask(f"{kind}set 0 w 20 5"), "ok")
    check("asked", there.ask(f"{get} 0 w 0 0"), told("write 10+10"))
    check("in the middle", here.ask(f"{kind}set 0 u 14 2"), "ok")
    check("the hole", there.ask(f"{kind}set 0 w 14 2"), "ok")
    check("not more", there.ask(f"{kind}set 0 w 13 1"), "EAGAIN")
    check("nor that", there.ask(f"{kind}set 0 w 16 1"), "EAGAIN")
    check("for readers", here.ask(f"{kind}set 0 r 10 4"), "ok")
    check("who read", there.ask(f"{kind}set 0 r 10 4"), "ok")
    check("and do not write", there.ask(f"{kind}set 0 w 10 4"), "EAGAIN")
    check("nor there", here.ask(f"{kind}set 0 w 10 4"), "EAGAIN")
    check("which asks", there.ask(f"{get} 0 w 10 4"), told("read 10+4"))
    # What is at the very end of the numbers.
    check("to the end", here.ask(f"{kind}set 0 w 9223372036854775807 0"), "ok")
    check("there", there.ask(f"{kind}set 0 w 9223372036854775807 1"), "EAGAIN")
    check("up to there", there.ask(f"{kind}set 0 w 9223372036854775806 1"), "ok")
    check("all", here.ask(f"{kind}set 0 u 0 0"), "ok")
    check("free", there.ask(f"{kind}set 0 w 0 0"), "ok")
    check("not for", here.ask(f"{kind}set 0 r 5 1"), "EAGAIN")
    check("unlocked", there.ask(f"{kind}set 0 u 0 0"), "ok")


def ends(here, there):
    path = fresh("ends")
    opened(path, here, there)
    check("POSIX", here.ask("set 0 w 0 0"), "ok")
    check("held", there.ask("set 0 r 0 1"), "EAGAIN")
    check("any close", here.ask("close 1"), "ok")
    check("ends it", there.ask("set 0 w 0 0"), "ok")
    check("there too", (there.ask("close 1"), here.ask("set 0 w 0 0")), ("ok", "ok"))
    check("OFD", (here.ask("set 0 u 0 0"), here.ask("oset 0 w 0 0"), here.ask(f"open 1 r {path}"), here.ask("close 1")),
          ("ok", "ok", "ok", "ok"))
    check("held on", there.ask("oset 0 r 0 1"), "EAGAIN")
    check("its own close", here.ask("close 0"), "ok")
    check("ends it", there.ask("oset 0 w 0 0"), "ok")
    check("flock", (there.ask("close 0"), there.ask(f"open 0 rw {path}"), there.ask("flock 0 ex_nb"), here.ask(f"open 0 r {path}"),
                    here.ask("flock 0 sh_nb"), there.ask("close 0"), here.ask("flock 0 ex_nb"), here.ask("close 0")),
          ("ok", "ok", "ok", "ok", "EAGAIN", "ok", "ok", "ok"))


def flocks(here, there):
    path = fresh("flock")
    opened(path, here, there)
    check("shared", (here.ask("flock 1 sh_nb"), there.ask("flock 1 sh_nb"), here.ask("flock 0 sh_nb")), ("ok", "ok", "ok"))
    check("not alone", here.ask("flock 0 ex_nb"), "EAGAIN")
    check("the first stays", (there.ask("flock 1 un"), there.ask("flock 0 ex_nb")), ("ok", "EAGAIN"))
    check("it goes", (here.ask("flock 1 un"), there.ask("flock 0 ex_nb")), ("ok", "ok"))
    check("there it is", (here.ask("flock 0 sh_nb"), here.ask("flock 1 ex_nb")), ("EAGAIN", "EAGAIN"))
    check("changed", (there.ask("flock 0 sh_nb"), here.ask("flock 0 sh_nb")), ("ok", "ok"))
    check("up in vain", here.ask("flock 0 ex_nb"), "EAGAIN")
    check("which lost it", there.ask("flock 0 ex_nb"), "ok")
    check("by a reader", (there.ask("flock 0 un"), here.ask("flock 1 ex_nb"), there.ask("flock 0 sh_nb")), ("ok", "ok", "EAGAIN"))
    # The two kinds do not see each other.
    check("apart", (there.ask("set 0 w 0 0"), here.ask("flock 1 un"), here.ask("flock 0 ex_nb"), there.ask("set 0 u 0 0")),
          ("ok", "ok", "ok", "ok"))
    check("end", here.ask("flock 0 un"), "ok")


def waits(here, there):
    path = fresh("waits")
    opened(path, here, there)
    for name, take, wait, let in (
            ("F_SETLKW", "set 0 w 0 1", "setw 0 w 0 1", "set 0 u 0 1"),
            ("F_OFD_SETLKW", "oset 0 w 0 1", "osetw 0 r 0 1", "oset 0 u 0 1"),
            ("flock", "flock 0 ex", "flock 1 ex", "flock 0 un")):
        check(f"{name}: taken", there.ask(take), "ok")
        check(f"{name}: waits", here.ask(f"bg {wait}"), "asleep")
        check(f"{name}: SA_RESTART", here.ask(f"signal {signal.SIGUSR2:d}"), "ok")
        check(f"{name}: nothing yet", here.silent(), True)
        check(f"{name}: another, asked meanwhile", here.ask(wait.replace("setw", "set").replace("ex", "ex_nb")), "EAGAIN")
        check(f"{name}: let go", there.ask(let), "ok")
        check(f"{name}: got", here.answer(), "ok")
        check(f"{name}: over", here.ask("wait"), "gone 0")
        # What the child held went with it: OFD and flock are of the description, which it shares with us.
        check(f"{name}: unlocked", here.ask(wait.replace("setw", "set").replace("ex", "un").replace(" w ", " u ").replace(" r ", " u ")),
              "ok")
        check(f"{name}: again", there.ask(take), "ok")
        check(f"{name}: waits again", here.ask(f"bg {wait}"), "asleep")
        check(f"{name}: interrupted", (here.ask("interrupt"), here.answer()), ("EINTR", "gone 0"))
        check(f"{name}: waits a third time", here.ask(f"bg {wait}"), "asleep")
        check(f"{name}: killed", here.ask(f"signal {signal.SIGKILL:d}"), "ok")
        check(f"{name}: dead", here.ask("wait"), "gone 9")
        check(f"{name}: let go again", there.ask(let), "ok")
        check(f"{name}: no dead one took it", there.ask(take), "ok")
        check(f"{name}: end", there.ask(let), "ok")


def names(here, there):
    path = fresh("named")
    opened(path, here, there)
    check("a lock", here.ask("set 0 w 0 0"), "ok")
    check("renamed", (here.ask(f"rename {path} {path}.2"), there.ask("set 0 w 0 0")), ("ok", "EAGAIN"))
    check("the other name", (there.ask(f"open 2 rw {path}.2"), there.ask("set 2 w 0 0")), ("ok", "EAGAIN"))
    check("renamed by the host", (os.rename(f"{path}.2", f"{path}.3"), here.ask("set 0 u 0 5"), there.ask("set 2 w 0 5"),
                                  there.ask("set 2 w 5 1"))[1:], ("ok", "ok", "EAGAIN"))
    check("without one", (here.ask(f"unlink {path}.3"), here.ask("set 0 w 5 5"), there.ask("set 2 w 5 1"),
                          here.ask("set 0 u 0 0"), there.ask("set 2 w 0 0")), ("ok", "ok", "EAGAIN", "ok", "ok"))
    check("the other way", (here.ask("flock 0 ex_nb"), there.ask("flock 2 sh_nb"), there.ask("close 2")), ("ok", "EAGAIN", "ok"))


def descriptions(here, there):
    """Read locks come first, by who only reads; then one who writes."""
    path = fresh("moves")
    check("open", (here.ask(f"open 2 r {path}"), there.ask(f"open 0 rw {path}")), ("ok", "ok"))
    check("readers", (here.ask("oset 2 r 0 10"), here.ask("oset 2 r 20 10")), ("ok", "ok"))
    check("a writer", (here.ask(f"open 0 rw {path}"), here.ask("oset 0 w 10 10")), ("ok", "ok"))
    check("all of it", [there.ask(f"oset 0 w {n} 1") for n in (0, 9, 10, 19, 20, 29)], ["EAGAIN"] * 6)
    check("no more", there.ask("oset 0 w 30 1"), "ok")
    check("as they were", [there.ask(f"oset 0 r {n} 1") for n in (0, 29, 15)], ["ok", "ok", "EAGAIN"])
    check("the writer goes", (here.ask("close 0"), there.ask("oset 0 w 10 10")), ("ok", "ok"))
    check("the reader stays", (there.ask("oset 0 w 5 1"), there.ask("oset 0 w 25 1")), ("EAGAIN", "EAGAIN"))
    check("and goes", (here.ask("close 2"), there.ask("oset 0 w 0 0")), ("ok", "ok"))
    check("who writes only", (there.ask("close 0"), here.ask(f"open 0 w {path}"), here.ask("set 0 w 3 1"),
                              there.ask(f"open 0 rw {path}"), there.ask("set 0 r 3 1"), here.ask("close 0")),
          ("ok", "ok", "ok", "ok", "EAGAIN", "ok"))
    # A union of two guests' locks: what one gives back another may still hold.
    opened(path, here)
    check("two", (here.ask(f"open 2 r {path}"), here.ask("oset 1 r 0 20"), here.ask("oset 2 r 5 5"), here.ask("oset 1 u 0 0")),
          ("ok", "ok", "ok", "ok"))
    check("what is left", [there.ask(f"oset 0 w {n} 1") for n in (4, 5, 9, 10)], ["ok", "EAGAIN", "EAGAIN", "ok"])
    check("nothing", (here.ask("oset 2 u 0 0"), there.ask("oset 0 w 0 0"), there.ask("oset 0 u 0 0")), ("ok", "ok", "ok"))


def contents(here, there):
    """Who has the lock sees what was written under it."""
    path = fresh("contents")
    opened(path, here, there)
    for n in range(20):
        for a, b in ((here, there), (there, here)):
            check("theirs", (a.ask("set 0 w 0 0"), a.ask(f"put 0 {'x' * (n + 1)}"), a.ask("set 0 u 0 0")), ("ok", "ok", "ok"))
            check("seen", (b.ask("set 0 r 0 0"), b.ask("get 0"), b.ask("set 0 u 0 0")), ("ok", f"{n + 1} {'x' * (n + 1)}", "ok"))


def bounded(here, there):
    path = fresh("many")
    opened(path, here, there)
    check("a bound", here.ask("many 0 100000"), "4096 ENOLCK")
    check("no more of flock", here.ask("flock 0 sh_nb"), "ENOLCK")
    check("all of them", (there.ask("oset 0 w 0 1"), there.ask("oset 0 w 8190 1"), there.ask("oset 0 w 8191 1")),
          ("EAGAIN", "EAGAIN", "ok"))
    check("gone", (here.ask("close 0"), there.ask("oset 0 w 0 0"), there.ask("oset 0 u 0 0")), ("ok", "ok", "ok"))
    check("room", (here.ask("flock 1 sh_nb"), here.ask("flock 1 un")), ("ok", "ok"))


def killed(there):
    path = fresh("killed")
    here = sandbox()
    opened(path, here, there)
    check("held", (here.ask("set 0 w 0 1"), here.ask("oset 0 w 5 1"), here.ask("flock 1 ex")), ("ok", "ok", "ok"))
    check("by it", (there.ask("set 0 w 0 1"), there.ask("set 0 w 5 1"), there.ask("flock 0 sh_nb")), ("EAGAIN", "EAGAIN", "EAGAIN"))
    here.p.kill()
    here.p.wait()
    # Its other processes end with it, soon.
    check("let go", (there.ask("setw 0 w 0 0"), there.ask("flock 0 ex")), ("ok", "ok"))
    check("end", (there.ask("set 0 u 0 0"), there.ask("flock 0 un")), ("ok", "ok"))


def read_only(there):
    path = fresh("read_only")
    here = sandbox(access="--ro")
    check("open", (here.ask(f"open 0 rw {path}"), here.ask(f"open 1 r {path}"), there.ask(f"open 0 rw {path}")),
          ("EROFS", "ok", "ok"))
    check("reading", (here.ask("set 1 r 0 1"), there.ask("set 0 w 0 1"), there.ask("set 0 r 0 1")), ("ok", "EAGAIN", "ok"))
    check("no writing", here.ask("set 1 w 5 1"), "EBADF")
    check("theirs", (there.ask("set 0 w 5 1"), here.ask("set 1 r 5 1")), ("ok", "EAGAIN"))
    check("whose", here.ask("get_lock 1 r 5 1"), "write 5+1 pid 0")
    check("flock", (here.ask("flock 1 ex_nb"), there.ask("flock 0 sh_nb")), ("ok", "EAGAIN"))
    here.end()
    check("end", (there.ask("set 0 w 0 1"), there.ask("flock 0 ex_nb"), there.ask("close 0")), ("ok", "ok", "ok"))


def virtual(there):
    """Where time is virtual."""
    path = fresh("virtual")
    here = sandbox("--clock=virtual")
    opened(path, here, there)
    check("taken", there.ask("flock 0 ex"), "ok")
    check("waits", here.ask("bg flock 0 ex"), "asleep")
    check("interrupted", (here.ask("interrupt"), here.answer()), ("EINTR", "gone 0"))
    check("waits again", here.ask("bg flock 0 ex"), "asleep")
    check("let go", (there.ask("flock 0 un"), here.answer(), here.ask("wait")), ("ok", "ok", "gone 0"))
    here.end()


def inside():
    """The lower half of an overlay: the sandbox's own. Others may do this at the same time."""
    path = "/etc/passwd"
    here = sandbox()
    host = Agent([agent])
    check("open", (here.ask(f"open 0 r {path}"), host.ask(f"open 0 r {path}")), ("ok", "ok"))
    check("apart", (here.ask("flock 0 ex_nb"), host.ask("flock 0 sh_nb")), ("ok", "ok"))
    host.end()
    here.end()


COUNT = 40
SQL = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=100, isolation_level=None)
for i in range(int(sys.argv[2])):
    db.execute("begin immediate")
    (n,) = db.execute("select total from t").fetchone()
    db.execute("insert into log values (?, ?)", (sys.argv[3], n))
    db.execute("update t set total = ?", (n + 1,))
    db.execute("commit")
"""


def databases(mode):
    """sqlite of the host's and of two sandboxes at once: nothing is lost."""
    path = os.path.join(share, f"db.{mode}")
    db = sqlite3.connect(path)
    db.executescript(f"pragma journal_mode={mode}; create table t(total); insert into t values (0); create table log(who, n);")
    db.close()
    python = ["/usr/bin/python3", "-c", SQL, path, str(COUNT)]
    box = [moat, "run", "--platform", platform, "--tty", "off", "--cwd", "/", "--rw", share, "--"]
    all_of_them = [subprocess.Popen(c) for c in (python + ["host"], box + python + ["a"], box + python + ["b"])]
    check(f"{mode}: statuses", [p.wait() for p in all_of_them], [0, 0, 0])
    db = sqlite3.connect(path)
    check(f"{mode}: whole", db.execute("pragma integrity_check").fetchone()[0], "ok")
    check(f"{mode}: all", db.execute("select total, (select count(distinct n) from log) from t").fetchone(), (3 * COUNT, 3 * COUNT))
    db.close()


share = os.path.join(top, f"share.{platform}")
os.mkdir(share)
host = Agent([agent])
box = sandbox()
second = sandbox()
# The host's own rule first: it is what all the others are measured by.
other = Agent([agent])
records(other, host, "", "known")
for kind, pid in (("", "0"), ("o", "-1")):
    # The guest's stand on the host as those of a description, whatever they are inside.
    records(box, host, kind, "-1")
    records(host, box, kind, pid)
    records(box, second, kind, "-1")
for a, b in ((other, host), (box, host), (host, box), (box, second)):
    ends(a, b)
    flocks(a, b)
    names(a, b)
    descriptions(a, b)
    waits(a, b)
for a, b in ((box, host), (second, box)):
    contents(a, b)
    bounded(a, b)
killed(host)
read_only(host)
virtual(host)
inside()
for a in (box, second, other, host):
    a.end()
if os.path.exists("/usr/bin/python3"):
    databases("delete")
    databases("wal")
print(f"{passed} passed, {failed} failed")
