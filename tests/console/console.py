# SPDX-License-Identifier: Apache-2.0
"""`moat run` on a terminal: a pty of the host's plays the user's.

Usage: console.py MOAT [TEST...]. Prints "ok NAME" or "FAIL NAME: why" for each test, and the sum.
"""

import fcntl
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

MOAT = sys.argv[1]
PATIENCE = int(os.environ.get("PATIENCE", "60"))
ENV = {"PATH": "/usr/bin:/bin", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
SHELL = ["bash", "--norc", "--noprofile", "--noediting", "-i"]


class Screen:
    """A program that runs on a terminal of its own, as its session's leader."""

    def __init__(self, argv, rows=24, cols=80):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, ENV)
        self.resize(rows, cols)

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, timeout):
        if not select.select([self.fd], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return None
        self.text += data.decode(errors="replace")
        return True if data else None

    def expect(self, pattern):
        """Waits for a pattern in what was shown since the last one."""
        end = time.monotonic() + PATIENCE
        while True:
            m = re.search(pattern, self.text)
            if m:
                self.text = self.text[m.end():]
                return m
            left = end - time.monotonic()
            if left <= 0 or self.read(left) is None:
                raise AssertionError(f"no {pattern!r} in {self.text[-300:]!r}")

    def ask(self, command, pattern):
        self.type(command + "\n")
        return self.expect(pattern)

    def end(self):
        """Waits for the end; all that was shown since the last pattern, and the exit status."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.read(0.2) is not None:
            pass
        if time.monotonic() >= end:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return self.text, os.waitstatus_to_exitcode(status)


def moat(*argv, options=()):
    return [MOAT, "run", *options, "--", *argv]


def shell(**kw):
    s = Screen(moat(*SHELL), **kw)
    s.type("PS1='$''> '; stty -echo\n")
    s.expect(r"\$> ")
    return s


def check(what, got, want):
    if got != want:
        raise AssertionError(f"{what}: {got!r}, not {want!r}")


def test_terminal():
    s = shell(rows=31, cols=99)
    s.ask("tty", "/dev/console")
    s.ask("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all-three", "all-three")
    s.ask("stty size", "31 99")
    s.ask("cat /proc/self/stat | cut -d' ' -f7", "1281")
    s.ask("echo to-tty >/dev/tty", "to-tty")
    s.type("exit 7\n")
    check("status", s.end()[1], 7)


def test_resize():
    s = shell()
    s.ask("trap 'seen=$(stty size); echo resized $seen' WINCH; echo ready", "ready")
    s.resize(40, 120)
    # bash runs the trap at its next command.
    s.ask("until [ \"$seen\" = '40 120' ]; do sleep 0.1; done", "resized 40 120")
    s.type("exit\n")
    s.end()


def test_interrupt():
    s = shell()
    # It is in the foreground when it says so; sooner the shell may still be, and is not ended.
    s.ask("sh -c 'echo beg''un; exec sleep 100'", "begun")
    s.type("\003")
    s.ask("echo status $?", "status 130")
    s.ask("sh -c 'echo beg''un; exec cat'", "begun")
    s.type("\034")
    # Not before: what is typed while cat still waits for a line may be cat's, as natively.
    s.expect("Quit")
    s.ask("echo status $?", "status 131")
    s.type("exit\n")
    s.end()


def test_job_control():
    s = shell()
    s.ask("sh -c 'echo begun; exec sleep 100'", "begun")
    s.type("\032")
    s.expect("Stopped")
    s.ask("jobs", r"\[1\]\+ +Stopped +sh -c .*sleep 100")
    s.ask("bg; jobs", "Running")
    s.type("fg\n")
    time.sleep(1)
    s.type("\003")
    s.ask("jobs; echo none-left", r"none-left")
    s.ask("cat & wait", "Stopped|stopped")
    s.ask("kill %%; echo killed", "killed")
    s.type("exit\nexit\n")
    s.end()


def test_line_editing():
    s = Screen(moat("cat"))
    # Sooner the host's terminal would edit it.
    wait_raw(s)
    s.type("abx\177c wrong\027right\n")
    s.expect("right\r\n")
    s.expect("abc right\r\n")
    s.type("h\u00e9\177\177allo\n")
    s.expect("allo\r\n.*allo\r\n|allo\r\nallo\r\n")
    s.type("\004")
    check("status", s.end()[1], 0)


def test_signal_status():
    # As natively, with the signal.
    for key, sig in ("\003", signal.SIGINT), ("\034", signal.SIGQUIT):
        s = Screen(moat("sh", "-c", "echo begun; exec sleep 100"))
        s.expect("begun")
        s.type(key)
        check("status", s.end()[1], -sig)


def test_interrupt_ends_a_loop():
    s = outer_shell()
    for loop in ("while true; do {0}; done", "sh -c 'while true; do {0}; done'", "bash -c 'while true; do {0}; done'",
                 "bash -c 'while true; do {0} | cat; done'", "sh -c 'yes | xargs -n1 {0}'"):
        s.type(loop.format(f"{MOAT} run -- sh -c \"echo beg''un; exec sleep 100\" sh") + "\n")
        s.expect("begun")
        s.type("\003")
        s.expect(r"\$> ")
        s.ask("echo st''atus $?", "status (130|124|125)")
    s.type("exit\n")
    s.end()


def test_program_that_is_not_interrupted():
    # Who catches it, and ends as it likes, ends no script.
    s = outer_shell()
    s.type(f"bash -c '{MOAT} run -- sh -c \"trap : INT; sh -c \\\"echo begun; exec sleep 100\\\"; echo ended\"; "
           "echo script goes on'\n")
    s.expect("begun")
    s.type("\003")
    s.expect("ended\r\nscript goes on")
    s.type("exit\n")
    s.end()


def test_dies_of_the_programs_signal():
    def status(sig, code="kill -$0 $$", **kw):
        return subprocess.run(moat("sh", "-c", code, str(int(sig))), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=ENV, timeout=PATIENCE, **kw).returncode

    for sig in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGSEGV,
                signal.SIGABRT, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGRTMAX):
        check(sig.name, status(sig), -sig)
    # That moat has been killed itself is another matter.
    check("SIGKILL", status(signal.SIGKILL), 137)
    # Who ends with the number only has not died of it.
    check("a number", status(2, "exit 130"), 130)
    # What the caller ignores or blocks.
    check("blocked", status(signal.SIGTERM, "exec env --block-signal=USR1 --default-signal=TERM sh -c 'kill -TERM $$'",
                            restore_signals=False,
                            preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)), -signal.SIGTERM)
    # The shell that runs it has a word for a crash.
    r = subprocess.run(["bash", "-c", f"{MOAT} run -- sh -c 'kill -SEGV $$'; true"], stdin=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, env=ENV, timeout=PATIENCE)
    check("its word", b"Segmentation fault" in r.stderr, True)
    # No core of moat's own.
    with tempfile.TemporaryDirectory() as d:
        status(signal.SIGABRT, cwd=d, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (
            resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2))
        check("cores", os.listdir(d), [])


def test_signal_while_it_starts():
    # Whenever it comes, from the keyboard: by the host's terminal or, as soon as that is raw, by the guest's.
    for i in range(16):
        s = Screen(["sh", "-c", 'echo begun; exec "$@"', "sh", *moat("sleep", "100")])
        s.expect("begun")
        time.sleep(i * 0.001)
        s.type("\003")
        status = s.end()[1]
        check(f"status after {i} ms", status, -signal.SIGINT)


def test_all_output_is_shown():
    s = Screen(moat("seq", "1", "60000"))
    text, status = s.end()
    check("status", status, 0)
    check("text", text == "".join(f"{i}\r\n" for i in range(1, 60001)), True)


def test_state_is_restored():
    s = Screen(["bash", "--norc", "--noprofile", "-c",
                f"a=$(stty -g); {MOAT} run -- stty raw -echo; {MOAT} run -- sh -c 'kill -9 $$'; "
                "b=$(stty -g); [ \"$a\" = \"$b\" ] && echo same || echo differ $a $b"])
    text, _ = s.end()
    check("state", "same" in text, True)


def test_redirected_output_is_plain():
    s = Screen(["bash", "-c", f"{MOAT} run -- seq 1 3 | od -c; {MOAT} run -- sh -c "
                "'echo out; echo err >&2; tty' 2>/dev/null"])
    text, _ = s.end()
    check("no returns", r"\r" in text, False)
    check("stderr went elsewhere", "err" in text, False)
    check("stdout", "out\r\n/dev/console" in text, True)


def test_pipeline_leaves_the_terminal_alone():
    s = Screen(["bash", "-c", f"{MOAT} run -- cat | cat"])
    s.type("one\n")
    s.expect("one\r\n")
    s.expect("one\r\n")
    s.type("\004")
    check("status", s.end()[1], 0)


def test_background_is_not_stopped():
    s = Screen(["bash", "--norc", "--noprofile", "--noediting", "-i"])
    s.ask(f"{MOAT} run -- sh -c 'echo from behind' & wait; echo 'status '$?", "from behind")
    s.expect("status 0")
    s.type("exit\n")
    s.end()


def outer_shell():
    """A shell of the host's, which is to control moat as a job."""
    s = Screen(SHELL)
    s.type("PS1='$''> '; stty -echo\n")
    s.expect(r"\$> ")
    return s


def wait_raw(s):
    """Until moat has the terminal again: what is typed sooner is for the one that the shell leaves behind."""
    end = time.monotonic() + PATIENCE
    while termios.tcgetattr(s.fd)[3] & termios.ICANON and time.monotonic() < end:
        time.sleep(0.05)


def test_stop_and_go_on():
    s = outer_shell()
    s.ask("stty -g >/dev/null; a=$(stty -g); echo noted", "noted")
    s.type(f"{MOAT} run -- cat\n")
    s.ask("one", "one\r\none\r\n")
    s.type("\032")
    s.expect("Stopped")
    s.ask('[ "$a" = "$(stty -g)" ] && echo as it was', "as it was")
    s.ask("jobs", "Stopped")
    s.type("fg\n")
    wait_raw(s)
    s.ask("two", "two\r\ntwo\r\n")
    # And again.
    s.type("\032")
    s.expect("Stopped")
    s.type("fg\n")
    wait_raw(s)
    s.ask("three", "three\r\nthree\r\n")
    s.type("\004")
    s.expect(r"\$> ")
    s.ask("echo status $?", "status 0")
    s.ask('[ "$a" = "$(stty -g)" ] && echo as it was', "as it was")
    s.type("exit\n")
    s.end()


def test_stop_between_vfork_and_exec():
    # Where dash is for a moment before each command, its own signals blocked: the child's stop alone
    # would hang both.
    with tempfile.TemporaryDirectory() as d:
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_vfork.c")
        subprocess.run([os.environ.get("CC", "gcc"), "-O1", "-o", f"{d}/slow", source], check=True)
        s = outer_shell()
        s.type(f"{MOAT} run --ro {d}:/slow -- /slow/slow\n")
        s.expect("begun")
        s.type("\032")
        s.ask("go", "Stopped")
        s.expect(r"\$> ")
        s.ask("fg", "over")
        s.expect(r"\$> ")
        s.type("exit\n")
        s.end()


def test_stop_and_go_on_behind():
    s = outer_shell()
    s.type(f"{MOAT} run -- sh -c 'echo begun; sleep 3; echo done'\n")
    s.expect("begun")
    s.type("\032")
    s.expect("Stopped")
    s.ask("bg", "done")
    s.ask("wait; echo over", "over")
    s.type("exit\n")
    s.end()


def test_from_behind_to_the_front():
    # The terminal is raw again, so that its control characters are the guest's: control-D ends a
    # file, and does not hang up.
    s = outer_shell()
    s.type(f"{MOAT} run -- sh -c 'cat; echo ended'\n")
    s.ask("one", "one\r\none\r\n")
    s.type("\032")
    s.expect("Stopped")
    s.ask("bg", "run.*&\r\n")
    s.ask("fg", "run.*\r\n")
    wait_raw(s)
    s.ask("two", "two\r\ntwo\r\n")
    s.type("\004")
    s.expect("ended")
    s.expect(r"\$> ")
    s.ask("echo status $?", "status 0")
    s.type("exit\n")
    s.end()


def test_stop_is_the_programs():
    # Who catches it tidies up first, stops itself, and is told when it goes on.
    s = outer_shell()
    s.type(f"{MOAT} run -- python3 -c '\nimport signal, os, sys\ndef stop(*a):\n os.write(1, b\"ti\" + b\"dy!\")\n "
           "signal.signal(signal.SIGTSTP, signal.SIG_DFL)\n os.kill(os.getpid(), signal.SIGTSTP)\n"
           " os.write(1, b\"ba\" + b\"ck!\")\nsignal.signal(signal.SIGTSTP, stop)\nprint(\"ready\", flush=True)\n"
           "sys.stdin.readline()'\n")
    s.expect("ready")
    s.type("\032")
    s.expect("tidy!")
    s.expect("Stopped")
    s.type("fg\n")
    s.expect("back!")
    s.ask("", r"\$> ")
    # Who ignores it is not stopped; neither is a shell inside, which stops its own job.
    s.type(f"{MOAT} run -- sh -c 'trap \"\" TSTP; cat'\n")
    s.ask("one", "one\r\none\r\n")
    s.type("\032")
    s.ask("two", "two\r\ntwo\r\n")
    s.type("\004")
    s.expect(r"\$> ")
    s.ask("echo status $?", "status 0")
    s.type("exit\n")
    s.end()


def test_stop_of_a_pipeline():
    s = outer_shell()
    s.type(f"{MOAT} run -- sh -c 'echo begun >&2; sleep 2; echo done' | cat; echo over\n")
    s.expect("begun")
    s.type("\032")
    s.expect("Stopped")
    s.type("fg\n")
    s.expect("done")
    s.type("exit\n")
    s.end()


def test_stop_of_its_own():
    # By whichever signal, and whether the terminal is the guest's or not.
    s = outer_shell()
    for sig in "STOP", "TSTP", "TTIN", "TTOU":
        for where in "", " </dev/null", " | cat":
            s.type(f"{MOAT} run -- sh -c 'kill -{sig} $$; echo went on'{where}\n")
            s.expect("Stopped")
            s.expect(r"\$> ")
            s.ask("fg", "went on")
            s.expect(r"\$> ")
    s.type("exit\n")
    s.end()


def test_stop_in_a_script():
    # Which waits for moat, and does not watch for stops: it is stopped with it.
    s = outer_shell()
    s.type(f"sh -c \"{MOAT} run -- sh -c 'kill -STOP \\$\\$; echo went on'; echo script too\"\n")
    s.expect("Stopped")
    s.expect(r"\$> ")
    s.ask("fg", "went on\r\nscript too")
    s.type("exit\n")
    s.end()


def test_stop_without_a_terminal():
    # Nobody is there to see it: moat is not stopped, and what it watches goes on.
    p = subprocess.Popen(moat("sh", "-c", "echo begun; kill -STOP $$; echo went on"), stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV, start_new_session=True)
    check("begun", p.stdout.readline(), b"begun\n")
    time.sleep(0.5)
    check("moat", os.waitpid(p.pid, os.WNOHANG | os.WUNTRACED)[0], 0)
    p.send_signal(signal.SIGCONT)
    check("output", p.stdout.readline(), b"went on\n")
    check("status", p.wait(PATIENCE), 0)


def test_reading_behind_stops():
    s = outer_shell()
    s.ask("set -b; echo told at once", "told at once")
    s.type(f"{MOAT} run -- cat &\n")
    s.expect("Stopped")
    s.ask("fg", "run -- cat\r\n")
    s.ask("one", "one\r\n")
    s.type("\032")
    s.expect("Stopped")
    s.expect(r"\$> ")
    s.type("bg\n")
    s.expect("Stopped")
    s.ask("fg", "run -- cat\r\n")
    s.ask("two", "two\r\n")
    s.type("\004")
    s.expect(r"\$> ")
    s.ask("echo status $?", "status 0")
    # A job that runs when it is brought to the foreground, of which nothing tells, may read.
    s.type(f"{MOAT} run -- sh -c 'sleep 2; read a; echo got $a' &\n")
    s.expect(r"\$> ")
    s.ask("fg", "sleep 2.*\r\n")
    s.ask("three", "got three")
    s.expect(r"\$> ")
    s.ask("echo status $?", "status 0")
    # Who ignores the signal is told of an error, as natively.
    s.ask(f"{MOAT} run -- sh -c 'trap \"\" TTIN; cat; echo sta''tus $?' & wait", "Input/output error")
    s.expect("status 1")
    s.type("exit\n")
    s.end()


def test_stop_where_nobody_could_continue():
    s = Screen(moat("cat"))
    s.ask("one", "one\r\none\r\n")
    s.type("\032")
    s.ask("two", "two\r\ntwo\r\n")
    s.type("\004")
    check("status", s.end()[1], 0)


def test_ignored_and_blocked_are_inherited():
    # Of those that are ignored only 1 to 31: the C library's own, 32 and 33, nobody can reset.
    show = ["python3", "-c", "s = dict(l.split()[:2] for l in open('/proc/self/status') if l[:3] == 'Sig')\n"
                             "print(s['SigBlk:'], int(s['SigIgn:'], 16) & 0x7fffffff)"]

    def prepare():
        for sig in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGTSTP, signal.SIGCHLD, signal.SIGXFSZ, signal.SIGTTOU):
            signal.signal(sig, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR1, signal.SIGTERM, signal.SIGRTMAX})

    def run(argv):
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENV, timeout=PATIENCE,
                              restore_signals=False, preexec_fn=prepare).stdout

    check("what the program has", run(moat(*show)), run(show))
    # What was ignored and is caught now comes through.
    p = subprocess.Popen(moat("python3", "-c", "import os, signal, time\n"
                              "got = []\nsignal.signal(signal.SIGHUP, lambda *a: got.append(1))\n"
                              "print('ready', flush=True)\nwhile not got: time.sleep(0.01)\nprint('hup')"),
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENV, preexec_fn=prepare)
    check("ready", p.stdout.readline(), b"ready\n")
    p.send_signal(signal.SIGHUP)
    check("caught", p.stdout.readline(), b"hup\n")
    check("status", p.wait(PATIENCE), 0)


def test_hangup_ends_a_shell():
    s = shell()
    os.close(s.fd)
    end = time.monotonic() + PATIENCE
    while os.waitpid(s.pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(s.pid, signal.SIGKILL)
            raise AssertionError("the shell lives on without a terminal")
        time.sleep(0.05)


def test_terminal_without_one():
    r = subprocess.run(moat("sh", "-c", "read a; echo got $a; read b || echo end; tty",
                            options=("--tty", "on")),
                       input=b"line\n", stdout=subprocess.PIPE, env=ENV, timeout=PATIENCE)
    check("status", r.returncode, 0)
    out = r.stdout.decode()
    for part in ("got line\r\n", "end\r\n", "/dev/console\r\n"):
        check(part, part in out, True)


def test_off():
    s = Screen(moat("sh", "-c", "tty; cat /proc/self/stat | cut -d' ' -f7", options=("--tty", "off")))
    text, _ = s.end()
    check("no controlling terminal", "\n0\r\n" in text, True)


def main():
    tests = {k[5:]: v for k, v in globals().items() if k.startswith("test_")}
    passed = failed = 0
    for name in sys.argv[2:] or tests:
        try:
            tests[name]()
            print(f"ok {name}", flush=True)
            passed += 1
        except (AssertionError, subprocess.TimeoutExpired) as e:
            print(f"FAIL {name}: {e}", flush=True)
            failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
