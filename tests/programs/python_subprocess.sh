#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# python3: subprocess, pipes, signals to children, pass_fds, sessions, os.fork.
# needs: /usr/bin/python3

exec /usr/bin/python3 -u - <<'EOF'
import os, select, signal, subprocess, sys, time
from subprocess import PIPE, STDOUT, run, Popen

print(run(["echo", "hello"], capture_output=True))
print(run("echo out; echo err >&2; exit 3", shell=True, stdout=PIPE, stderr=STDOUT))
print(run(["cat"], input=b"x" * 300000, stdout=PIPE).stdout.count(b"x"))
try: run(["/nonexistent"])
except FileNotFoundError as e: print(e)
try: run(["/etc/passwd"])
except PermissionError as e: print(e)
try: run(["true"], cwd="/nonexistent")
except FileNotFoundError as e: print(e)
try: run(["sleep", "9"], timeout=0.1)
except subprocess.TimeoutExpired as e: print(type(e).__name__)
p = Popen(["sleep", "100"]); p.terminate(); print(p.wait())
p = Popen(["sleep", "100"]); p.send_signal(signal.SIGKILL); print(p.wait())
p = Popen(["sleep", "100"]); print(p.poll()); p.kill(); p.wait(); print(p.poll())
ps = [Popen([sys.executable, "-Sc", f"print({i})"], stdout=PIPE) for i in range(10)]
print([p.communicate()[0] for p in ps])
r, w = os.pipe()
print(run(["sh", "-c", f"echo by fd >&{w}"], pass_fds=[w]).returncode)
os.close(w); print(os.read(r, 100)); os.close(r)
r, w = os.pipe()
print(run(["sh", "-c", f"echo x >&{w}"], stderr=subprocess.DEVNULL).returncode); os.close(r); os.close(w)
print(run(["env"], env={"A": "1", "B": "2"}, stdout=PIPE).stdout)
print(run([sys.executable, "-Sc", "import os; print(os.getsid(0) == os.getpid())"], start_new_session=True, stdout=PIPE).stdout)
print(run([sys.executable, "-Sc", "import os; print(os.getpgid(0) == os.getpid())"], process_group=0, stdout=PIPE).stdout)
print(run(["sh", "-c", "umask"], umask=0o77, stdout=PIPE).stdout)
print(run(["sh", "-c", "pwd"], cwd="/usr", stdout=PIPE).stdout)
print(run(["true"], preexec_fn=lambda: os.nice(1)).returncode)
a = Popen(["seq", "1", "100000"], stdout=PIPE)
b = Popen(["sort", "-rn"], stdin=a.stdout, stdout=PIPE); a.stdout.close()
c = Popen(["head", "-n", "2"], stdin=b.stdout, stdout=PIPE); b.stdout.close()
print(c.communicate()[0], a.wait() in (0, -13), b.wait() in (0, 2, -13))
pid = os.fork()
if pid == 0:
    os._exit(42)
_, st = os.waitpid(pid, 0); print(os.waitstatus_to_exitcode(st))
pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 6"], os.environ)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
pid = os.fork()
if pid == 0:
    signal.pause()
fd = os.pidfd_open(pid)
print(select.select([fd], [], [], 0)[0]); signal.pidfd_send_signal(fd, signal.SIGTERM)
print(select.select([fd], [], [], 10)[0] == [fd], os.waitid(os.P_PIDFD, fd, os.WEXITED).si_status)
print(subprocess.getstatusoutput("exit 5"), subprocess.check_output("echo ok", shell=True))
signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 0.05)
print(run(["sleep", "0.3"]).returncode)
pid, fd = os.forkpty()
if pid == 0:
    print("isatty", os.isatty(0), os.tcgetpgrp(0) == os.getpid()); sys.stdout.flush(); os._exit(0)
d = b""
try:
    while x := os.read(fd, 1000): d += x
except OSError as e: print(e.errno == 5)
print(d); os.waitpid(pid, 0)
EOF
