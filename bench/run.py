#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark natively, on each platform of moat, under the peers found.

docs/BENCHMARKS.md says how to use it.

Interleaved: each round of a phase runs every target once, in an order drawn anew, so that what else
happens on the machine meets all alike. A run has a time limit; what hangs or fails is a word in the
table, and never ends the benchmark.
"""
import argparse
import datetime
import json
import os
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # The tree is for sources.

import callparts  # noqa: E402
import child  # noqa: E402
import figures  # noqa: E402
import hostcalls  # noqa: E402
import machine  # noqa: E402
import plots  # noqa: E402
import targets  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ("python", "bash", "gcc", "sqlite", "tar", "git")
SWEEPS = ("threads", "busy", "files", "mounts", "processes")
# How many of its runs may fail before a target is left alone.
STRIKES = 2
# Where the time of a quick run goes.
QUICK_SECONDS = 95
QUICK_SHARES = {"cold": 10, "memory": 15, "micro": 32, "calls": 12, "parts": 5, "programs": 14,
                "sweeps": 12}
# Whose host calls a quick run counts.
QUICK_CALLS = ("getpid", "lseek", "pread_tmpfs_4k", "open_close_rootfs", "stat_rootfs",
               "create_unlink", "mmap_touch_4k", "pipe_processes", "futex_threads",
               "epoll_eventfd", "fork_wait")
# Host calls of so many operations are taken off, for start and warming up; how long to count.
CALLS_BEFORE = 40
CALLS_NS = 20e6
PARTS_COUNT = 1000
PHASES = tuple(QUICK_SHARES)


def say(text):
    print(text, flush=True)


class Bench:
    def __init__(self, args, share, found, scratch):
        self.args = args
        self.share = share
        self.report = os.path.join(scratch, "report")
        self.perf = hostcalls.works()
        self.targets = found
        self.samples = figures.Samples(os.path.join(args.out, "samples.csv"))
        self.samples.targets = [t.name for t in found]
        self.rng = random.Random(args.seed)
        self.rounds_done = {}
        self.micro = os.path.join(share, "micro")
        self.broken_ops = {t.name: set() for t in found}
        self.start = time.monotonic()
        self.ends = {}
        self.deadline = None

    def time_left(self):
        return 1e9 if self.deadline is None else self.deadline - time.monotonic()

    def micro_argv(self, target, *options):
        argv = [self.micro, "--dir", target.work, "--self", self.micro, *options]
        return target.wrap(argv + (["--mount-here"] if target.mount_here else []))

    def moat_argv(self, target, opts, *options):
        """micro under a moat with options of its own."""
        return target.wrap_with(opts, [self.micro, "--dir", target.work, "--self", self.micro,
                                       *options])

    def rounds(self, phase, count, one_run, jobs):
        """count rounds of one_run(job, turn) over all jobs (target, …).

        What it returns is good or not: False is a strike for the job, None (it had to be killed)
        for all jobs of the target.
        """
        strikes = {}
        done = 0
        for turn in range(count):
            # The first round may take some of the next phase's time, and goes by importance: with
            # little time there is still something to compare, and with what.
            if self.args.seconds:
                part = self.ends[phase] if turn else min(1, self.ends[phase] + 0.08)
                self.deadline = self.start + self.args.seconds * part
            order = list(jobs)
            self.rng.shuffle(order)
            if turn == 0:
                order.sort(key=importance)
            for job in order:
                if self.time_left() < 1:
                    break
                if max(strikes.get(job, 0), strikes.get(job[0], 0)) >= STRIKES:
                    continue
                good = one_run(job, turn)
                if not good:
                    who = job[0] if good is None else job
                    strikes[who] = strikes.get(who, 0) + 1
            else:
                done += 1
                if sys.stdout.isatty():
                    print(f"\r{phase}: round {done} of {count} ", end="", flush=True)
                continue
            break
        say(f"\r{phase}: {done} of {count} rounds" + (", out of time" if done < count else ""))
        self.rounds_done[phase] = done

    def limit(self, seconds):
        return max(1.0, min(seconds, self.time_left() + 3))

    # --- Phases -------------------------------------------------------------------------------

    def cold(self, count):
        def one(job, turn):
            t = job[0]
            result = child.run(t.wrap(["/bin/true"]), self.limit(20))
            if result.status != 0:
                self.samples.fail("cold", "true", t.name, child.reason(result))
                return False
            self.samples.add("cold", "true", t.name, turn, result.seconds * 1e9)
            return True
        self.rounds("cold", count, one, [(t,) for t in self.targets])

    def memory(self, count):
        idle = 1.0 if self.args.quick else 5.0

        def one(job, turn):
            t = job[0]
            running = child.Running(t.wrap([self.micro, "--sleep"]))
            why = running.wait(self.limit(20), until_line=True)
            if why is not None:
                result = running.finish(why)
                self.samples.fail("memory", "sleep", t.name, child.reason(result))
                return False
            time.sleep(0.5)
            before, began = child.tree_seconds(), time.monotonic()
            most = 0
            for _ in range(3):
                size = child.tree_memory()
                if size is None:
                    break
                most = max(most, size)
                time.sleep(idle / 3)
            used, took = child.tree_seconds() - before, time.monotonic() - began
            running.finish("measured")
            if size is None:
                self.samples.fail("memory", "sleep", t.name, "smaps_rollup may not be read")
            else:
                self.samples.add("memory", "sleep", t.name, turn, most)
            self.samples.add("idle", f"in {idle:.0f} s", t.name, turn, used * idle / took)
            return True
        self.rounds("memory", count, one, [(t,) for t in self.targets])

    def operations(self, count):
        for t in self.targets:
            if not t.follows_exec:
                self.broken_ops[t.name].add("fork_exec_wait")
                self.samples.fail("micro", "fork_exec_wait", t.name, "exec leaves it")
        self.rounds("micro", count, self.operations_once, [(t,) for t in self.targets])

    def operations_once(self, job, turn):
        """One run of all operations; what hangs or kills the program is left out from then on."""
        t = job[0]
        done, good = set(), True
        for _ in range(4):
            skip = self.broken_ops[t.name] | done
            options = ["--scale", str(self.args.scale)]
            if self.args.ops:
                options += ["--only", self.args.ops]
            if skip:
                options += ["--skip", ",".join(sorted(skip))]
            result = child.run(self.micro_argv(t, *options), self.limit(120), stall=self.stall())
            for name, value, why in parse(result.lines):
                done.add(name)
                if value is None:
                    self.samples.fail("micro", name, t.name, why)
                    self.broken_ops[t.name].add(name)
                else:
                    self.samples.add("micro", name, t.name, turn, value)
            if result.status == 0:
                return good
            if self.time_left() < 0:
                return True
            good = False
            culprit = result.partial.strip()
            if not culprit:
                self.samples.fail("micro", "the whole program", t.name, child.reason(result))
                return False
            self.samples.fail("micro", culprit, t.name, child.reason(result))
            self.broken_ops[t.name].add(culprit)
        return good

    def stall(self):
        return 5.0 if self.args.quick else 20.0

    def listed(self):
        """The operations, in the order of micro's tables."""
        return subprocess.run([self.micro, "--list"] + (
            ["--only", self.args.ops] if self.args.ops else []), capture_output=True, text=True,
            check=True).stdout.split()

    def calls(self, count):
        """Host calls of one operation: many are made, then few; the difference is theirs."""
        ops = [op for op in self.listed() if not self.args.quick or self.args.ops
               or op in QUICK_CALLS]
        counted = [t for t in self.targets if self.perf and t.follows_exec or t.wrap_with]
        if self.args.quick:
            counted = [t for t in counted if t.wrap_with or t.name == figures.NATIVE]

        def once(t, op, times):
            """(all host calls, the sentry's) of a run, or the reason why not."""
            options = ("--only", op, "--repeat", str(times))
            if t.wrap_with:
                argv = self.moat_argv(t, [f"--stats={self.report}.stats"], *options)
            else:
                argv = self.micro_argv(t, *options)
            if self.perf:
                argv = hostcalls.counted(argv, self.report + ".perf")
            result = child.run(argv, self.limit(30), stall=self.stall())
            said = list(parse(result.lines))
            if result.status != 0 or not said or said[0][1] is None:
                return said[0][2] if said and said[0][1] is None else child.reason(result)
            return (hostcalls.of_perf(self.report + ".perf") if self.perf else None,
                    hostcalls.of_sentry(self.report + ".stats") if t.wrap_with else None)

        def one(job, turn):
            t, op = job
            if op in self.broken_ops[t.name]:
                return True
            cost = self.samples.of("micro", op, t.name)
            cost = statistics.median(cost.values()) if cost else 20000.0
            more = int(min(2000, max(20, CALLS_NS / cost)))
            few = once(t, op, CALLS_BEFORE)
            many = once(t, op, CALLS_BEFORE + more) if isinstance(few, tuple) else few
            if not isinstance(many, tuple):
                self.samples.fail("calls", op, t.name, many)
                return False
            for kind, a, b in zip(("calls", "sentry_calls"), few, many):
                if a is not None and b is not None:
                    self.samples.add(kind, op, t.name, turn, max(0.0, (b - a) / more))
            return True
        self.rounds("calls", count, one, [(t, op) for op in ops for t in counted])

    def parts(self, count):
        """Where the time of a call goes: the whole everywhere, its parts where moat tells."""
        def one(job, turn):
            t = job[0]
            options = ("--profile", str(PARTS_COUNT))
            path = self.report + ".profile"
            if t.wrap_with:
                argv = self.moat_argv(t, [f"--profile-calls={path}"], *options)
            else:
                argv = self.micro_argv(t, *options)
            result = child.run(argv, self.limit(30), stall=self.stall())
            said = list(parse(result.lines))
            per_us = dict((n, v) for n, v, _ in said).get("cycles_per_us")
            if result.status != 0 or not per_us:
                self.samples.fail("whole", "lseek/libc", t.name, child.reason(result))
                return False
            for name, value, why in said:
                if value is None:
                    self.samples.fail("whole", name, t.name, why)
                elif name != "cycles_per_us":
                    self.samples.add("whole", name, t.name, turn, value)
            if t.wrap_with:
                for (name, way), parts in callparts.read(path, PARTS_COUNT // 2).items():
                    for part, cycles in parts.items():
                        self.samples.add("parts", f"{name}/{way}/{part}", t.name, turn,
                                         cycles * 1000 / per_us)
            return True
        mine = [(t,) for t in self.targets if t.wrap_with or t.name == figures.NATIVE]
        self.rounds("parts", count, one, mine)

    def run_programs(self, count):
        scale = "10" if self.args.quick else "100"
        jobs = [(t, p) for p in PROGRAMS for t in self.targets if t.follows_exec]

        def argv(t, program):
            return t.wrap([self.micro, "--time", "--", "/bin/sh",
                           os.path.join(self.share, "programs", program + ".sh"),
                           os.path.join(self.share, data_name(self.args.quick)), t.work, scale])

        # Whoever is first would pay for reading the files from the disk.
        for program in PROGRAMS:
            child.run(argv(self.targets[0], program), 20)

        def one(job, turn):
            t, program = job
            result = child.run(argv(t, program), self.limit(20 if self.args.quick else 120))
            for name, value, why in parse(result.lines):
                if name == "time" and value is not None:
                    self.samples.add("programs", program, t.name, turn, value)
                    return True
                if name == "time":
                    self.samples.fail("programs", program, t.name, why)
                    return False
            self.samples.fail("programs", program, t.name, child.reason(result))
            return None if result.why else False
        self.rounds("programs", count, one, jobs)

    def sweeps(self, count):
        most = "100" if self.args.quick else "10000"
        jobs = [(t, s) for s in SWEEPS for t in self.targets]

        def one(job, turn):
            t, sweep = job
            result = child.run(
                self.micro_argv(t, "--scale", str(self.args.scale / 2), "--sweep", sweep,
                                "--max", most),
                self.limit(20 if self.args.quick else 180), stall=2 * self.stall())
            for name, value, why in parse(result.lines):
                if value is None:
                    self.samples.fail("sweep", name, t.name, why)
                else:
                    self.samples.add("sweep", name, t.name, turn, value)
            if result.status == 0 or self.time_left() < 0:
                return True
            self.samples.fail("sweep", result.partial.strip() or f"{sweep}/0/all", t.name,
                              child.reason(result))
            return None if result.why else False
        self.rounds("sweeps", count, one, jobs)


def importance(job):
    """0 for what the comparison is about, 1 for the rest."""
    return job[0].name.partition("-")[0] not in (figures.NATIVE, "moat", "runsc")


def ends_of(phases):
    """Which part of the time is over when a phase ends."""
    total, sum_ = sum(QUICK_SHARES[p] for p in phases), 0
    ends = {}
    for p in phases:
        sum_ += QUICK_SHARES[p]
        ends[p] = sum_ / total
    return ends


def parse(lines):
    """(name, ns or None, reason) of each line that is one of micro's."""
    for line in lines:
        words = line.split(" ", 2)
        if len(words) == 2:
            try:
                yield words[0], float(words[1]), None
            except ValueError:
                pass
        elif len(words) == 3 and words[1] == "-":
            yield words[0], None, words[2]


# --- What the programs work on --------------------------------------------------------------------


def data_name(quick):
    return "data-1000" if quick else "data-10000"


def make_data(share, quick):
    """A tree of files under git, and a C file. Made once; the last step is to give it its name."""
    final = os.path.join(share, data_name(quick))
    if os.path.isdir(final):
        return
    folder = final + ".new"
    shutil.rmtree(folder, ignore_errors=True)
    count = 1000 if quick else 10000
    rng = random.Random(1)
    words = [f"w{rng.randrange(100000)}" for _ in range(1000)]
    for i in range(count):
        path = os.path.join(folder, "tree", f"d{i // 100:03d}")
        if i % 100 == 0:
            os.makedirs(path)
        with open(os.path.join(path, f"file{i:05d}.txt"), "w", encoding="ascii") as f:
            f.write(" ".join(rng.choices(words, k=rng.randrange(20, 400))) + "\n")
    os.makedirs(os.path.join(folder, "c", "bench"))
    for name in ("micro_file.c", "micro.h"):
        shutil.copy(os.path.join(ROOT, "bench", name), os.path.join(folder, "c", "bench"))
    if shutil.which("git"):
        tree = os.path.join(folder, "tree")
        git = ["git", "-C", tree, "-c", "user.name=bench", "-c", "user.email=bench@localhost",
               "-c", "gc.auto=0"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "files"]):
            subprocess.run(git + command, check=True)
    os.rename(folder, final)


def make_share(out, micro, quick):
    """The one directory that all targets show read-only at its own path."""
    share = os.path.join(out, "share")
    os.makedirs(share, exist_ok=True)
    shutil.copy(micro, os.path.join(share, "micro"))
    shutil.rmtree(os.path.join(share, "programs"), ignore_errors=True)
    shutil.copytree(os.path.join(ROOT, "bench", "programs"), os.path.join(share, "programs"))
    make_data(share, quick)
    return share


# --- Results --------------------------------------------------------------------------------------


def put_in_order(bench):
    """Rows in the order of this file and of micro's tables; runs come in a drawn order."""
    ops = bench.samples.operations
    listed = bench.listed()
    for kind in ("micro", "calls", "sentry_calls"):
        ops.get(kind, []).sort(key=lambda n: listed.index(n) if n in listed else len(listed))
    if "programs" in ops:
        ops["programs"].sort(key=PROGRAMS.index)

    def sweep_key(name):
        sweep, _, rest = name.partition("/")
        count, _, op = rest.partition("/")
        return (SWEEPS.index(sweep) if sweep in SWEEPS else len(SWEEPS), op,
                int(count) if count.isdigit() else 0)
    ops.get("sweep", []).sort(key=sweep_key)


def write_results(bench, manifest, left_out):
    out = bench.args.out
    samples = bench.samples
    put_in_order(bench)
    summaries = figures.summarise(samples, bench.args.seed)
    drawn, wrong = plots.draw(samples, summaries, os.path.join(out, "plots"))
    if wrong:
        left_out["pictures"] = wrong
    manifest["left_out"] = left_out
    with open(os.path.join(out, "manifest.json"), "w", encoding="utf-8") as f:
        json.dump(manifest, f, indent=1)
        f.write("\n")
    cpu = manifest["cpu"]
    lines = ["# Benchmark of moat", "",
             f"`{manifest['command']}`, {manifest['started']}; moat at "
             f"{(manifest['git']['revision'] or 'no revision')[:12]}"
             f"{' with changes' if manifest['git']['changed'] else ''}.", "",
             f"{cpu['model']}, {cpu['usable']} cores{', virtual' if cpu['virtual'] else ''}; "
             f"{manifest['kernel']}. Load average before "
             f"{manifest['load_before'][0]:.1f}, after {manifest['load_after'][0]:.1f}. Rounds: "
             + ", ".join(f"{k} {v}" for k, v in bench.rounds_done.items()) + ".", "",
             "A cell is the median of all rounds, and in brackets its ratio to the native median; "
             "behind a semicolon, system calls that the host saw of the whole target for one "
             "operation. A geometric mean is over the ratios that there are: how many, and so of "
             "what, may differ between targets. An interval of the median is by bootstrap of the "
             "rounds above: with few rounds it shows their spread and no more. p99 is by nearest "
             "rank, so that with fewer than 100 rounds it is the worst one.", "",
             *figures.overview(samples, summaries)]
    if left_out:
        lines += ["### Left out", ""]
        lines += [f"- {name}: {why}" for name, why in sorted(left_out.items())] + [""]
    if drawn:
        lines += ["### Pictures", ""]
        lines += [f"- [{name}](plots/{name}.svg)" for name in drawn] + [""]
    lines += ["### Versions", ""]
    lines += [f"- {name}: {text}" for name, text in manifest["targets"].items()] + [""]
    lines += figures.details(samples, summaries)
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
    return summaries


def say_means(samples, summaries):
    for kind, what in (("micro", "operations"), ("programs", "programs")):
        means = []
        for t in samples.targets[1:]:
            mean, count = figures.geometric_mean(
                summaries, kind, samples.operations.get(kind, []), t)
            if mean:
                means.append(f"{t} {figures.show_ratio(mean)} ({count})")
        if means:
            say(f"geometric mean of {what} by native (of how many): " + ", ".join(means))


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--moat", required=True, help="the moat to measure")
    p.add_argument("--micro", required=True, help="the static program of micro-operations")
    p.add_argument("--out", required=True, help="where results go")
    p.add_argument("--quick", action="store_true", help="few rounds, within two minutes")
    p.add_argument("--rounds", type=int, help="of the operations and cold starts (30; quick: 3)")
    p.add_argument("--few", type=int, help="rounds of all else (5; quick: 1)")
    p.add_argument("--seconds", type=float, help="stop when these are over (quick: 95)")
    p.add_argument("--scale", type=float, default=1.0, help="time for each operation (x 4 ms)")
    p.add_argument("--targets", help="only these, comma-separated; native is always one")
    p.add_argument("--phases", default=",".join(PHASES), help="of " + ", ".join(PHASES))
    p.add_argument("--ops", help="only these operations, comma-separated; NAME* is a prefix")
    p.add_argument("--seed", type=int, default=1, help="of resampling and of the order of runs")
    args = p.parse_args()
    for phase in args.phases.split(","):
        if phase not in PHASES:
            p.error(f"--phases: no {phase}; there are {', '.join(PHASES)}")
    args.rounds = args.rounds or (3 if args.quick else 30)
    args.few = args.few or (1 if args.quick else 5)
    args.seconds = args.seconds or (QUICK_SECONDS if args.quick else None)
    args.moat, args.micro, args.out = map(os.path.abspath, (args.moat, args.micro, args.out))
    return args


def main():
    args = options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    child.become_reaper()
    os.makedirs(args.out, exist_ok=True)
    began = time.monotonic()
    share = make_share(args.out, args.micro, args.quick)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    scratch = tempfile.mkdtemp(prefix="moat-bench-", dir=memory)
    manifest = machine.describe(ROOT)
    for place in manifest["tracing"] or []:
        say(f"the kernel traces ({place}), and each system call takes longer: switch it off by "
            f"echo 0 >{place}/events/enable; echo nop >{place}/current_tracer")
    manifest["command"] = os.environ.get("BENCH_COMMAND") or shlex.join(sys.argv)
    manifest["started"] = datetime.datetime.now(datetime.timezone.utc).strftime(
        "%Y-%m-%d %H:%M UTC")
    manifest["load_before"] = machine.load()
    manifest["seed"] = args.seed
    try:
        found, left_out = targets.find(args.moat, share, scratch,
                                       (args.targets or "").split(","))
        if args.targets:
            wanted = args.targets.split(",")
            found = [t for t in found if t.name in wanted or t.name == figures.NATIVE]
            left_out = {k: v for k, v in left_out.items() if k in wanted}
        say("targets: " + ", ".join(t.name for t in found))
        manifest["targets"] = {t.name: t.version for t in found}
        bench = Bench(args, share, found, scratch)
        phases = [p for p in PHASES if p in args.phases.split(",")]
        if "calls" in phases and not bench.perf:
            left_out["host calls of others than the sentry"] = (
                "perf is not installed, or may not count the tracepoint raw_syscalls:sys_enter")
        if "programs" in phases:
            left_out["redis, nginx"] = "they need TCP, which moat does not have yet"
        if not shutil.which("gnuplot"):
            left_out["pictures"] = "gnuplot is not installed: no pictures, but their scripts"
        for name, why in left_out.items():
            say(f"left out: {name}: {why}")
        bench.start = began
        work = {"cold": lambda: bench.cold(args.rounds),
                "memory": lambda: bench.memory(args.few),
                "micro": lambda: bench.operations(args.rounds),
                "calls": lambda: bench.calls(min(3, args.few)),
                "parts": lambda: bench.parts(args.few),
                "programs": lambda: bench.run_programs(args.few),
                "sweeps": lambda: bench.sweeps(args.few)}
        bench.ends = ends_of(phases)
        try:
            for phase in phases:
                work[phase]()
        except KeyboardInterrupt:
            say("\ninterrupted: results are of what was measured")
    finally:
        child.kill_all()
        shutil.rmtree(scratch, ignore_errors=True)
    manifest["load_after"] = machine.load()
    manifest["rounds"] = bench.rounds_done
    manifest["seconds"] = round(time.monotonic() - began, 1)
    summaries = write_results(bench, manifest, left_out)
    say_means(bench.samples, summaries)
    say(f"results: {os.path.join(args.out, 'table.md')}, samples.csv, manifest.json, plots/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
