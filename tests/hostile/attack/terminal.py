#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command on a terminal and passes its output on; 99 if it leaves something in the terminal's input, where
the shell that comes after it would read it, else the command's status."""
import fcntl, os, pty, select, sys, termios, tty

master, slave = pty.openpty()
tty.setraw(slave)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.closerange(3, 100)
    os.execvp(sys.argv[1], sys.argv[1:])
status = None
while status is None or select.select([master], [], [], 0.2)[0]:
    if select.select([master], [], [], 0.1)[0]:
        os.write(1, os.read(master, 65536))
    if status is None:
        done, s = os.waitpid(pid, os.WNOHANG)
        if done:
            status = os.waitstatus_to_exitcode(s)
os.set_blocking(slave, False)
# Moat gives the terminal back as it was: raw.
try:
    left = os.read(slave, 100)
except BlockingIOError:
    left = b""
if left:
    print("left in the terminal:", left)
    sys.exit(99)
sys.exit(status if status >= 0 else 128 - status)
