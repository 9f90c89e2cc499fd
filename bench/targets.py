# SPDX-License-Identifier: Apache-2.0
"""What the benchmark runs on: the host itself, moat on each platform, and the peers on PATH.

A target turns a command into the command line that runs it there. All show the host's system
directories and one shared directory read-only, and offer a tmpfs to write to.
"""
import functools
import json
import os
import re
import shutil
import subprocess

import child

PROBE_SECONDS = 20


class Target:
    def __init__(self, name, wrap, work, version="", mount_here=False, follows_exec=True,
                 wrap_with=None, on_demand=False):
        self.name = name
        self.on_demand = on_demand  # only if it is asked for by name
        self.wrap_with = wrap_with  # moat: (options of `moat run`, command) -> argv
        self.wrap = wrap  # command -> argv
        self.work = work  # a directory on a tmpfs, as the program sees it
        self.version = version
        self.mount_here = mount_here  # may mount in the name space it is in
        self.follows_exec = follows_exec  # what a program executes runs under the target, too


def _output(*argv):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _version(*argv):
    """The first line with a digit in it."""
    for line in _output(*argv).splitlines():
        if re.search(r"\d\.\d", line):
            return line.strip(" _|/\\")
    return "unknown"


def _limits(path):
    """The names of all limits that moat knows."""
    text = _output(path, "policy", "show", "default")
    block = re.search(r"limits\s*\{(.*?)\}", text, re.S)
    return re.findall(r"^\s*#?\s*([a-z_]+)\s*=", block[1], re.M) if block else []


def _moat(path, share, left_out):
    if not os.access(path, os.X_OK):
        left_out["moat"] = f"{path} is not there"
        return []
    found = []
    platforms = False
    for line in _output(path, "doctor").splitlines():
        if not line.startswith(" "):
            platforms = line.startswith("platforms:")
            continue
        m = re.match(r"\s+([a-z][a-z0-9-]*)\s+(.*)", line)
        if not platforms or not m:
            continue
        name = f"moat-{m[1]}"
        if not m[2].startswith("works"):
            left_out[name] = m[2]
            continue

        def with_options(opts, cmd, p=m[1]):
            return [path, "run", "--platform", p, *opts, "--ro", share, "--cwd", "/", "--", *cmd]
        found.append(Target(name, functools.partial(with_options, []), "/tmp", m[2],
                            mount_here=True, wrap_with=with_options))
        # What containment costs: without any, and with all there is.
        bare = ["--wall=off", *[f"--limit={n}=none" for n in _limits(path)]]
        for suffix, opts, what in (
                ("-bare", bare, "without the second wall and without limits"),
                ("-audit", ["--audit=/dev/null"], "with the walls, the default limits and an audit")):
            found.append(Target(name + suffix, functools.partial(with_options, opts), "/tmp", what,
                                mount_here=True, on_demand=True))
    if not found and not any(k.startswith("moat") for k in left_out):
        left_out["moat"] = "`moat doctor` names no platform"
    return found


def _oci_config(share):
    """A container like the others: the host's system directories, a tmpfs, no network."""
    def bind(path):
        return {"destination": path, "source": path, "type": "bind",
                "options": ["rbind", "ro"]}

    system = [p for p in ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64") if os.path.exists(p)]
    spaces = ["pid", "mount", "ipc", "uts", "network"]
    linux = {}
    if os.getuid() != 0:
        spaces.append("user")
        linux = {"uidMappings": [{"containerID": 0, "hostID": os.getuid(), "size": 1}],
                 "gidMappings": [{"containerID": 0, "hostID": os.getgid(), "size": 1}]}
    return {
        "ociVersion": "1.0.0",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": ["/bin/true"],
                    "env": ["PATH=/usr/bin:/bin"], "cwd": "/", "noNewPrivileges": True},
        "root": {"path": "rootfs", "readonly": False},
        "hostname": "bench",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
             "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
            *[bind(p) for p in system], bind(share)],
        "linux": {"namespaces": [{"type": t} for t in spaces], **linux},
    }


class _Bundle:
    """Writes the command into the bundle's configuration and names a new container each time."""

    def __init__(self, runtime, options, share, scratch):
        self.runtime, self.options, self.before = runtime, options, []
        self.config = _oci_config(share)
        self.dir = os.path.join(scratch, os.path.basename(runtime))
        self.count = 0
        os.makedirs(os.path.join(self.dir, "rootfs"))
        os.makedirs(os.path.join(self.dir, "state"))

    def wrap(self, cmd):
        self.config["process"]["args"] = cmd
        with open(os.path.join(self.dir, "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.config, f)
        self.count += 1
        return [*self.before, self.runtime, "--root", os.path.join(self.dir, "state"),
                *self.options, "run", "--bundle", self.dir,
                f"bench-{os.getpid()}-{self.count}"]


def _peers(share, scratch, left_out):
    found = []
    memory = os.path.join(scratch, "work")

    def peer(name, program, make):
        path = shutil.which(program)
        if path:
            found.extend(make(path))
        else:
            left_out[name] = f"{program} is not installed"

    def runsc(path):
        version = _version(path, "--version")
        rootless = [] if os.getuid() == 0 else ["--rootless"]
        for platform in ("systrap", "ptrace"):
            state = os.path.join(scratch, f"runsc-{platform}")
            yield Target(
                f"runsc-{platform}",
                lambda cmd, p=platform, s=state: [path, "--root", s, *rootless, "--network=none",
                                                  f"--platform={p}", "do", *cmd],
                "/dev/shm", version, mount_here=True)

    def oci(options):
        def make(path):
            bundle = _Bundle(path, options, share, scratch)
            version = _version(path, "--version")
            probe = child.run(bundle.wrap(["/bin/true"]), PROBE_SECONDS)
            if "hybrid mode" in probe.error and os.getuid() == 0:
                # It wants one kind of cgroup even where it is told to use none: show it that.
                bundle.before = ["unshare", "-m", "sh", "-c",
                                 'mount -t cgroup2 none /sys/fs/cgroup && exec "$0" "$@"']
                version += ", in a mount name space with cgroup2 alone"
            yield Target(os.path.basename(path), bundle.wrap, "/tmp", version)
        return make

    peer("runsc", "runsc", runsc)
    peer("bwrap", "bwrap", lambda path: [Target(
        "bwrap",
        lambda cmd: [path, "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev",
                     "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--ro-bind", share, share,
                     *cmd],
        "/tmp", _version(path, "--version"))])
    peer("crun", "crun", oci(["--cgroup-manager=disabled"]))
    peer("runc", "runc", oci([]))
    peer("proot", "proot", lambda path: [Target(
        "proot", lambda cmd: [path, *cmd], memory, _version(path, "--version"))])
    peer("qemu-user", "qemu-x86_64-static", lambda path: [Target(
        "qemu-user", lambda cmd: [path, *cmd], memory, _version(path, "--version"),
        follows_exec=False)])
    peer("strace", "strace", lambda path: [Target(
        "strace", lambda cmd: [path, "-f", "-o", "/dev/null", *cmd], memory,
        _version(path, "--version"))])
    return found


def find(moat, share, scratch, wanted):
    """All targets that run /bin/true here; and why others do not, by name."""
    left_out = {}
    memory = os.path.join(scratch, "work")
    os.makedirs(memory)
    native = Target("native", list, memory, os.uname().release)
    targets = [native]
    for t in _moat(moat, share, left_out) + _peers(share, scratch, left_out):
        if t.on_demand and t.name not in wanted:
            continue
        result = child.run(t.wrap(["/bin/true"]), PROBE_SECONDS)
        if result.status == 0:
            targets.append(t)
        else:
            words = result.error.splitlines()[-1:] or [""]
            left_out[t.name] = (f"/bin/true does not run: {child.reason(result)} "
                                f"{words[0][:200]}").strip()
    return targets, left_out
