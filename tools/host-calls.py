#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the host calls of moat's own processes to base/hostcall.def. Arguments: object files.

Fails on
 - an import of an object that tools/host-functions.txt does not know: nobody said what host calls it makes;
 - a call of a function that makes host calls outside of HOST(tag, ...), or with the tag of another call;
 - a system call instruction that is not the C library's, outside of the stubs and of the named places;
 - a tag that nothing uses, a class of the C library's without a row, or a row of a class that nothing uses.

Prints one line for each, and "N passed, N failed".
"""
import os
import re
import subprocess
import sys

FOLDERS = ("base", "platform", "vfs", "netstack", "loader", "sentry", "runtime")
# System call instructions of our own, each counted where it is called (see tools/host-functions.txt).
OWN_SYSCALLS = {"platform/host_wait.S": 1, "runtime/wall_net.c": 2, "sentry/takeover.c": 1}
# Linked into moat, but not part of its processes: the stub's and the guest's code.
NOT_OURS = ("platform/stub/", "platform/stub_trap/", "loader/vdso/")

bad = []
good = 0


def fail(text):
    bad.append(text)
    print("FAIL", text)


def check(ok, text):
    global good
    if ok:
        good += 1
    else:
        fail(text)


def without_comments(text):
    """Comments and the contents of strings become blanks; positions and lines stay."""
    def blank(m):
        s = m.group(0)
        if s[0] == '"':
            return '"' + re.sub(r"[^\n]", " ", s[1:-1]) + '"'
        if s[0] == "'":
            return s
        return re.sub(r"[^\n]", " ", s)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def closing(text, at):
    """The position after the parenthesis that closes the one at @at."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    return len(text)


def read_functions():
    calls, classes = {}, {}
    for line in open("tools/host-functions.txt"):
        words = line.split("#")[0].split()
        if not words:
            continue
        calls[words[0]] = set() if words[1] == "-" else set(words[1].split(","))
        if len(words) > 2:
            classes[words[0]] = words[2]
    return calls, classes


def read_rows():
    text = re.sub(r"/\*.*?\*/", "", open("base/hostcall.def").read(), flags=re.S)
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    tags = {m[1]: m[2] for m in re.finditer(r"^HOST_TAG\((\w+), (\w+), (?:SENTRY|MONITOR|START),", text, re.M)}
    tags |= {m[1]: m[2] for m in re.finditer(r"^HOST_(?:RUN|MON)\((\w+), (\w+), [A-Z_]+,", text, re.M)}
    libc = re.findall(r'^HOST_LIBC\("[^"]*", (?:SENTRY|MONITOR|START), (\w+),', text, re.M)
    libc += re.findall(r"^HOST_LIBC_(?:RUN|MON)\(\w+, [A-Z_]+, (\w+),", text, re.M)
    rows = len(re.findall(r"^HOST_(?:TAG|RUN|MON|LIBC|LIBC_RUN|LIBC_MON)\(", text, re.M))
    check(rows == len(tags) + len(libc), f"base/hostcall.def: {rows} rows, of which {len(tags) + len(libc)} can be read")
    return tags, set(libc)


def check_imports(objects, calls, classes):
    """Returns the classes that are used."""
    ours, imports = set(), {}
    # Not nm: it reads what is there for the optimiser of the whole, which imports more.
    symbols = subprocess.run(["readelf", "--symbols", "--wide", *objects], capture_output=True, text=True, check=True)
    o = objects[0]
    for line in symbols.stdout.splitlines():
        if line.startswith("File: "):
            o = line[len("File: "):]
        words = line.split()
        # Num: Value Size Type Bind Vis Ndx Name
        if len(words) < 8 or words[4] not in ("GLOBAL", "WEAK"):
            continue
        if words[6] != "UND":
            ours.add(words[7].split("@")[0])
        elif not any(n in o for n in NOT_OURS):
            imports.setdefault(words[7].split("@")[0], o)
    for name in sorted(set(imports) - ours):
        # Instrumentation of sanitizers and of coverage is no part of what is shipped.
        if re.match(r"__(a|t|ub|l)san_|__sanitizer_|__gcov_|_ITM_|__gmon", name):
            continue
        check(name in calls, f"{imports[name]} uses {name}, which tools/host-functions.txt does not know: "
                             "say there what host calls it makes")
    # The start of a program is imported by none of its objects.
    # Nor is the end of a signal's handler.
    return {classes[name] for name in imports if name in classes} | {"start", "signals"}


def check_source(path, calls, classes, tags, used):
    text = without_comments(open(path).read())
    spans = []  # (begin, end, tag) of the arguments of HOST()
    for m in re.finditer(r"\bHOST(?:_CALL|_CALL_SIGHT)?\((\w+),", text):
        # The definitions of the macros are no uses.
        if text[:m.start()].rsplit("\n", 1)[-1].lstrip().startswith("#define") or m[1] == "tag":
            continue
        used.add(m[1])
        if m[1] not in tags:
            fail(f"{path}: HOST({m[1]}, ...): no such tag in base/hostcall.def")
        spans.append((m.end(), closing(text, text.index("(", m.start())), m[1]))
    names = "|".join(sorted((f for f in calls if calls[f]), key=len, reverse=True))
    for m in re.finditer(r"(?<![\w.>])(" + names + r")\(", text):
        name, line = m[1], text.count("\n", 0, m.start()) + 1
        before = text[:m.start()].rsplit("\n", 1)[-1]
        if before.lstrip().startswith("#define"):
            continue
        # "long pf_host_wait_window(": a declaration.
        if re.match(r"^(static |extern )?(const )?[a-z_]+[ *]+$", before) and not before.startswith("return"):
            continue
        inside = [s for s in spans if s[0] <= m.start() < s[1]]
        if not inside:
            check(name in classes, f"{path}:{line}: {name}() is a host call without HOST(tag, ...)")
            continue
        tag = max(inside)[2]
        may = calls[name]
        if may == {"NR"}:
            nr = re.match(r"\s*SYS_(\w+)", text[m.end():])
            may = {nr[1]} if nr else set()
        if tag not in tags:
            continue
        check(tags[tag] in may, f"{path}:{line}: {name}() is counted as {tags[tag]}, by the tag {tag}")
    return len(re.findall(r'\b(?:syscall|sysenter|int \$0x80)\b', text)) if path.endswith(".S") else \
        len(re.findall(r'asm[^;]*?"[^"]*\bsyscall\b', open(path).read()))


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    calls, classes = read_functions()
    tags, rows = read_rows()
    if len(sys.argv) < 2:
        sys.exit("host-calls.py: no object files were given")
    used_classes = check_imports(sys.argv[1:], calls, classes)
    used = set()
    for folder in FOLDERS:
        for name in sorted(os.listdir(folder)):
            path = f"{folder}/{name}"
            if not name.endswith((".c", ".h", ".S")):
                continue
            own = check_source(path, calls, classes, tags, used)
            check(own == OWN_SYSCALLS.get(path, 0), f"{path}: {own} system call instructions of its own")
    for tag in tags:
        check(tag in used, f"base/hostcall.def: nothing uses the tag {tag}")
    for c in sorted(rows | used_classes):
        check(c in rows, f"base/hostcall.def: no HOST_LIBC row of the class {c}")
        check(c in used_classes, f"base/hostcall.def: no function of the class {c} is used")
    print(f"{good} passed, {len(bad)} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
