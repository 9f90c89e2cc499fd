#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a log of moat run --audit: check.py LOG CHECK [ARG...]; prints what is wrong, and exits 1."""
import json
import os
import re
import sys


def twice(pairs):
    keys = [k for k, _ in pairs]
    assert len(keys) == len(set(keys)), "a member twice"
    return dict(pairs)


def refuse(name):
    raise ValueError(name)


def load(path):
    with open(path, "rb") as f:
        data = f.read()
    assert data.endswith(b"\n"), "the last line has no end"
    # Nothing that a terminal obeys, and UTF-8 throughout.
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", data), "a control character"
    text = data.decode("utf-8")
    assert not re.search("[\x80-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]", text), "a character that is obeyed"
    return [json.loads(line, object_pairs_hook=twice, parse_constant=refuse) for line in text.splitlines()]


def unquote(s):
    """The bytes that a quoted name stands for."""
    out, i = b"", 0
    while i < len(s):
        if s[i] != "\\":
            out += s[i].encode()
            i += 1
        elif s[i + 1] == "x":
            out += bytes([int(s[i + 2 : i + 4], 16)])
            i += 4
        else:
            out += {"\\": b"\\", "n": b"\n", "t": b"\t"}[s[i + 1]]
            i += 2
    return out


KEYS = {
    "start": ("version", "argv", "cwd", "platform", "walls", "limits"),
    "end": ("status", "sentry", "sentry_status", "lines", "lines_over_limit", "lines_refused", "cut"),
    "fork": ("pid", "tid", "comm", "child"),
    "exec": ("pid", "tid", "comm", "parent", "path", "argv", "argc"),
    "exit": ("pid", "tid", "comm", "parent", "lived", "user", "system", "memory_peak"),
    "open": ("pid", "tid", "comm", "path", "for", "on"),
    "change": ("pid", "tid", "comm", "path", "what"),
    "denied": ("pid", "tid", "comm", "why", "reason", "rule", "call", "stack"),
    "limit": ("limit", "what", "used"),
    "meters": ("used",),
    "dropped": ("kind", "count"),
}


def keys(events):
    grants = set()
    for e in events:
        for key in ("by", "event", "time", "at", "grant") + KEYS.get(e["event"], ()):
            assert key in e, f"no {key} in {e}"
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", e["time"]), e["time"]
        assert re.fullmatch("[0-9a-f]{64}", e["grant"]), e["grant"]
        assert (e["by"] == "monitor") == (e["event"] == "end"), e
        assert e["event"] != "exit" or ("status" in e) != ("signal" in e), e
        grants.add(e["grant"])
    assert len(grants) == 1, "more than one grant"


def whole(events, status):
    assert events[0]["event"] == "start" and events[-1]["event"] == "end", "start or end is missing"
    end = events[-1]
    assert end["status"] == int(status), end
    assert end["lines"] == len(events) - 1 and not end["cut"] and not end["lines_refused"], end
    started = {e["child"] for e in events if e["event"] == "fork"} | {2}
    ended = {e["pid"] for e in events if e["event"] == "exit"}
    assert started == ended, f"began {started}, ended {ended}"


def denied(events, why, path=None, allow=None, policy=None):
    found = [e for e in events if e["event"] == "denied" and e["why"] == why and path in (None, e.get("path"))]
    assert found, [e for e in events if e["event"] == "denied"]
    assert allow is None or found[0].get("allow") == allow, found[0]
    assert policy is None or found[0].get("allow_policy") == policy, found[0]


def stack(events, path, *names):
    e = next(e for e in events if e["event"] == "denied" and e.get("path") == path)
    got = [f.get("symbol") for f in e["stack"]]
    at = [got.index(n) for n in names if n in got]
    assert len(at) == len(names) and at == sorted(at), f"{got} instead of {names}"


def modules(events, path, module, least):
    e = next(e for e in events if e["event"] == "denied" and e.get("path") == path)
    got = [f.get("module") for f in e["stack"]]
    assert got.count(module) >= int(least), got


def adds_up(events, kind, total):
    seen = sum(e["event"] == kind and e.get("why") != "not-served" for e in events)
    dropped = sum(e["count"] for e in events if e["event"] == "dropped" and e["kind"] == kind)
    assert dropped > 0 and seen > 0 and seen + dropped == int(total), f"{seen} and {dropped}"


def killed(events, sig):
    end = events[-1]
    assert end["event"] == "end" and end["sentry"] == "killed" and end["sentry_status"] == int(sig), end
    assert end["status"] == 125, end


def opened(events, path, way):
    assert any(e["event"] == "open" and e["path"] == path and e["for"] == way for e in events), "not opened"


def changed(events, path, *what):
    got = [e["what"] for e in events if e["event"] == "change" and e["path"] == path]
    assert got == list(what), got


def limited(events, name):
    assert any(e["event"] == "limit" and e["limit"] == name for e in events), "no such limit"


def nothing_made_up(events):
    bad = [e["path"] for e in events if e["event"] == "open" and re.match("/(proc|sys|dev)/", e["path"])]
    assert not bad, bad


def names(events, folder):
    """The paths of the denials, unquoted, are those that the program used."""
    got = {unquote(e["path"]) for e in events if e["event"] == "denied" and "path" in e}
    want = [
        b"\x1b[31m\x9b]0;x\x07", b"\xff\xfe\xc3\x28\xed\xa0\x80\xf8\x88",
        b"\xe2\x80\xae\xef\xbb\xbfcod.exe", b"a\\x41\"',}]\n{\"by\":\"monitor\",\"event\":\"end\"}",
        b"\xc2\x9b31m", "ä€😀".encode(),
    ]
    for w in want:
        assert os.fsencode(folder) + b"/" + w in got, (w, got)


def over(events, limit):
    end = events[-1]
    assert end["lines_over_limit"] > 0, end
    size = os.path.getsize(sys.argv[1])
    assert size <= int(limit) + 1024, size


def main():
    events = load(sys.argv[1])
    keys(events)
    if sys.argv[2] != "keys":
        globals()[sys.argv[2]](events, *sys.argv[3:])


try:
    main()
except AssertionError as e:
    print(f"{sys.argv[2:]}: {e}"[:1500])
    sys.exit(1)
