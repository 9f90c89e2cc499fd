# SPDX-License-Identifier: Apache-2.0
"""Pictures, by gnuplot: a script for each is kept beside it, so that it can be drawn again."""
import os
import subprocess

import callparts
import figures

COLOURS = ["#000000", "#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b",
           "#e377c2", "#7f7f7f", "#17becf", "#bcbd22"]
SIZE = {"wide": "1500,700", "small": "900,500"}


def _quote(text):
    return "'" + text.replace("'", "''") + "'"


def _head(name, title, size):
    return [f"set terminal svg size {SIZE[size]} font 'sans,12' background 'white'",
            f"set output {_quote(name + '.svg')}", f"set title {_quote(title)} noenhanced",
            "set grid ytics", "set key outside right top noenhanced", "set border 3",
            "set tics nomirror"]


def _block(name, rows):
    return [f"${name} << END", *rows, "END"]


def _points(name, title, label, ops, targets, value, colour, one=False):
    """A point with its interval for each operation and target, on a logarithmic axis."""
    script = _head(name, title, "wide")
    step = 0.7 / max(1, len(targets))
    drawn = []
    for i, target in enumerate(targets):
        rows = []
        for x, op in enumerate(ops):
            figure = value(op, target)
            if figure and min(figure) > 0:
                rows.append(f"{x + (i - (len(targets) - 1) / 2) * step:.3f} "
                            + " ".join(f"{v:.6g}" for v in figure))
        if rows:
            script += _block(f"d{i}", rows)
            drawn.append(f"$d{i} using 1:2:3:4 with yerrorbars pt {i + 4} ps 0.6 "
                         f"lc rgb '{colour[target]}' title {_quote(target)}")
    if not drawn:
        return None
    tics = ", ".join(f"{_quote(op)} {x}" for x, op in enumerate(ops))
    script += ["set logscale y", f"set ylabel {_quote(label)}",
               f"set xrange [-0.6:{len(ops) - 0.4}]",
               f"set xtics ({tics}) rotate by 60 right noenhanced font ',10'"]
    if one:
        drawn.append("1 with lines lc 'black' dt 2 notitle")
    return script + ["plot " + ", ".join(drawn)]


def _bars(name, title, label, targets, value):
    """One bar for each target, with its interval."""
    rows = [f"{_quote(t).replace(chr(39), chr(34))} " + " ".join(f"{v:.6g}" for v in figure)
            for t in targets if (figure := value(t))]
    if not rows:
        return None
    return [*_head(name, title, "small"), *_block("d", rows), "set nokey",
            f"set ylabel {_quote(label)}", "set yrange [0:*]", "set boxwidth 0.6",
            "set style fill solid 0.5", "set xtics rotate by 45 right noenhanced",
            "plot $d using 0:2:xtic(1) with boxes lc 1, "
            "$d using 0:2:3:4 with yerrorbars lc 'black' pt 0, "
            "$d using 0:4:(sprintf('%.3g', $2)) with labels offset 0,0.7"]


def _stacked(name, title, rows):
    """rows: [(label, {part: ns})]: a bar each, of its parts."""
    parts = callparts.PARTS
    table = ["bar " + " ".join(f'"{p}"' for p in parts)]
    table += [f'"{label}" ' + " ".join(f"{of.get(p, 0):.6g}" for p in parts) for label, of in rows]
    return [*_head(name, title, "small"), *_block("d", table),
            "set style data histograms", "set style histogram rowstacked", "set boxwidth 0.6",
            "set style fill solid 0.9 noborder", "set ylabel 'ns'", "set yrange [0:*]",
            "set xtics rotate by 30 right noenhanced", "set key invert",
            "plot " + ", ".join(f"$d using {i + 2}:xtic(1) lc rgb '{COLOURS[i + 1]}' "
                                f"title {_quote(p)}" for i, p in enumerate(parts))]


def _lines(name, title, label, series, colour):
    """series: name -> [(x, y)]."""
    script = _head(name, title, "small")
    drawn = []
    for i, (target, points) in enumerate(series.items()):
        script += _block(f"d{i}", [f"{x} {y:.6g}" for x, y in sorted(points)])
        drawn.append(f"$d{i} using 1:2 with linespoints pt {i + 4} ps 0.6 "
                     f"lc rgb '{colour[target]}' title {_quote(target)}")
    return script + ["set logscale xy", f"set xlabel {_quote(label)}",
                     "set ylabel 'ns per operation'", "plot " + ", ".join(drawn)]


def _scripts(samples, summaries):
    def value(kind, unit=1.0):
        def of(op, target):
            s = summaries.get((kind, op, target))
            return s and (s.median / unit, s.low / unit, s.high / unit)
        return of

    def ratio(kind):
        def of(op, target):
            s = summaries.get((kind, op, target))
            return s and s.ratio and (s.ratio, s.ratio_low, s.ratio_high)
        return of

    ops, targets = samples.operations, samples.targets
    colour = {t: COLOURS[i % len(COLOURS)] for i, t in enumerate(targets)}
    others = [t for t in targets if t != figures.NATIVE]
    for kind, what in (("micro", "operation"), ("programs", "program")):
        names = ops.get(kind, [])
        yield f"{kind}-cost", _points(f"{kind}-cost", f"Cost of one {what}", "ns", names,
                                      targets, value(kind), colour)
        yield f"{kind}-ratio", _points(f"{kind}-ratio", f"Cost of one {what}, by the native one",
                                       "ratio", names, others, ratio(kind), colour, one=True)
    for kind, op, title, label, unit in (
            ("cold", "true", "Cold start of /bin/true", "ms", 1e6),
            ("memory", "sleep", "Memory of a sleeping sandbox (PSS of all processes)", "MB", 1e6)):
        of = value(kind, unit)
        yield kind, _bars(kind, title, label, targets, lambda t, of=of, op=op: of(op, t))
    rewritten = []
    for call, rows in figures.parts_of(samples, summaries).items():
        name = f"parts-{call}"
        yield name, _stacked(name, f"Where the time of one {call} goes",
                             [(f"{t} {w}", of) for (t, w), of in rows.items()])
        rewritten += [(call, of) for (_, way), of in rows.items()
                      if way == "rewritten" and call not in callparts.BY_AGENT]
    if rewritten:
        name = "parts-rewritten"
        yield name, _stacked(name, "Where the time of one call from a rewritten site goes",
                             rewritten)
    charts = {}
    for name in ops.get("sweep", []):
        sweep, count, op = name.split("/")
        for target in targets:
            s = summaries.get(("sweep", name, target))
            if s and s.median > 0:
                charts.setdefault((sweep, op), {}).setdefault(target, []).append(
                    (int(count), s.median))
    for (sweep, op), series in charts.items():
        name = f"sweep-{sweep}-{op}"
        yield name, _lines(name, f"{op} against the number of {sweep}", sweep, series,
                           colour)


def draw(samples, summaries, folder):
    """Writes folder/NAME.gp and NAME.svg; returns the names drawn, and what went wrong or None."""
    os.makedirs(folder, exist_ok=True)
    drawn, wrong = [], None
    for name, script in _scripts(samples, summaries):
        if not script:
            continue
        path = os.path.join(folder, name + ".gp")
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(script) + "\n")
        try:
            done = subprocess.run(["gnuplot", name + ".gp"], cwd=folder, capture_output=True,
                                  text=True, timeout=60, check=False)
        except FileNotFoundError:
            return drawn, "gnuplot is not installed: no pictures, but their scripts are there"
        except subprocess.TimeoutExpired:
            wrong = f"gnuplot hangs on {name}.gp"
            continue
        if done.returncode == 0:
            drawn.append(name)
        else:
            wrong = f"gnuplot fails on {name}.gp: {done.stderr.strip()[:200]}"
    return drawn, wrong
