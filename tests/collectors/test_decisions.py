"""The decisions that the online checker reads from the kernel, as the package reads them, without a kernel."""

from __future__ import annotations

import errno
import importlib
import itertools
import json
import struct
import sys

import pytest
from support import ROOT

from wastedcores import open_trace
from wastedcores.analysis.decisions import asked, decisions
from wastedcores.errors import TraceFormatError
from wastedcores.trace.readers.schedtrace import reader
from wastedcores.words import call_steps, refusals

HEADER = {
    "format": "wastedcores.schedtrace", "version": 1, "record_bytes": 16, "t0_ns": 1000, "clock": "mono", "kernel": "6.18",
    "cpus": 4, "cpus_online": [0, 1, 2, 3], "events": ["switch"], "missing": [], "mask_words": 1, "overwrite": False,
}  # fmt: skip


@pytest.fixture
def collector(monkeypatch):
    """The collector's module, which imports its neighbours."""
    monkeypatch.syspath_prepend(str(ROOT / "collectors"))
    yield importlib.import_module("_decisions")
    for name in ("_decisions", "_probes", "_bpf", "_compiler", "_btf"):
        sys.modules.pop(name, None)


def view(module, cpu, nr=1, load=0, last=0, failed=0, pulled=0, groups=(), domain=True):
    """One domain of one CPU, as decisions.c writes it."""
    capacity = [1024 * len(g) for g in groups] + [0] * (16 - len(groups))
    spans = [sum(1 << c for c in g) for g in groups] + [0] * (16 - len(groups))
    head = (cpu, 0, nr, domain, load, last, 4, failed, 0, len(groups), pulled, 0)
    layout = struct.Struct("<4I2Q6I16s16Q16Q")
    return module.View(layout.unpack(layout.pack(*head, b"MC", *capacity, *spans)), 1)


def recording(path, **block):
    """A recording with this block of decisions and nothing else."""
    blocks = (
        (reader.DECISIONS_BLOCK, json.dumps(block).encode()),
        (reader.END_BLOCK, b'{"why": "violation"}'),
    )
    parts = [json.dumps(HEADER).encode() + b"\n"]
    for kind, body in blocks:
        head = (reader.BLOCK_MAGIC, kind, 0, len(body), 1, 10, 0, 0)
        parts += [struct.pack("<IHHIIQQQ", *head), body]
    path.write_bytes(b"".join(parts))
    return path


def samples(module):
    """CPU 0 asks and pulls, CPU 1 asks and fails, CPU 2 asks in vain, CPU 3 has no domain."""
    pairs = [(0, 1), (2, 3)]
    none = {"domain": False, "nr": 0, "groups": ()}
    first = ({}, {}, {}, none)
    later = ({"last": 5, "pulled": 2}, {"last": 5, "failed": 1}, {"last": 5}, none)
    return [
        (
            ts,
            {
                cpu: [
                    view(
                        module,
                        cpu,
                        **{"load": 100 * cpu, "groups": pairs[:: 1 if cpu < 2 else -1], **more},
                    )
                ]
                for cpu, more in enumerate(now)
            },
        )
        for ts, now in ((2_000, first), (1_002_000, later))
    ]


def test_marks_of_balancing_become_decisions(collector, tmp_path):
    taken = samples(collector)
    rows = collector.without_domain(taken) + collector.sampled(taken)
    refused = {"load_balance": "fentry: Operation not permitted"}
    file = recording(tmp_path / "d.wct", how={}, refused=refused, sampled=True, lost=0, rows=rows)
    trace = open_trace(file)
    note = trace.header.provenance["decisions"]
    assert "load_balance() was refused (fentry: Operation not permitted)" in note
    table = decisions(trace)
    assert dict(table.filter(ts_ns=1_002_000).select("cpu", "result").iter_rows()) == {
        0: "moved", 1: "failed", 2: "nothing_moved", 3: "no_domain"
    }  # fmt: skip
    row = table.filter(cpu=0).row(0, named=True)
    assert row["moved"] == 2
    assert (row["local_load"], row["busiest_load"]) == (50, 250)
    assert row["groups"]["min_load"] == [None, None]
    for call in table.iter_rows(named=True):
        assert "None" not in " ".join(s.text for s in call_steps(call))
    (vain,) = asked(table, 2)
    assert "nothing moved, and no probe could tell why" in vain
    (none,) = asked(table, 3)
    assert none == (
        "In these 1 ms CPU 3 had no scheduling domain, so there was no level at which it could ask."
    )
    assert "1 CPU has no scheduling domain" in str(refusals(table))


def test_without_a_probe_no_line_of_the_algorithm_is_blamed(collector, tmp_path):
    rows = collector.sampled(samples(collector))
    file = recording(tmp_path / "d.wct", how={}, refused={}, sampled=True, rows=rows)
    vain = decisions(file).filter(result="nothing_moved").row(0, named=True)
    assert vain["why"] is None
    steps = call_steps(vain)
    assert "not known which line" in steps[-1].text
    assert not {8, 16, 18, 21} & {s.line for s in steps}


@pytest.fixture
def watching(collector, monkeypatch):
    """Decisions of a kernel whose probe was loaded but is refused when it is to be attached."""

    def refused(cmd, attr):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(collector._bpf, "bpf", refused)
    found = collector.Decisions.__new__(collector.Decisions)
    found.ready, found.how, found.refused = [("fentry", 5)], {"load_balance": "fentry"}, {}
    found.count, found.sampled = bytearray(8), True
    return found


def test_every_violation_has_room_for_its_calls(collector, watching, monkeypatch):
    """A service watches for weeks, and its violations together have more calls than there is room for."""
    watching.sampled, watching.idle = False, {0: "idle"}
    watching.asks = bytearray(collector.ASKS * collector.ASK.size)

    def attach():
        (number,) = struct.unpack_from("<Q", watching.count)
        for i in range(number, min(number + 5_000, collector.ASKS)):
            collector.ASK.pack_into(watching.asks, i * collector.ASK.size, i, 0, *[1] * 10)
        struct.pack_into("<Q", watching.count, 0, number + 5_000)
        return []

    monkeypatch.setattr(watching, "_attach", attach, raising=False)
    for _ in range(3):
        told = json.loads(watching.profile(0.001))
        assert (len(told["rows"]), told["lost"]) == (5_000, 0)


def test_a_probe_that_is_refused_when_it_is_attached_leaves_the_samples(
    collector, watching, monkeypatch
):
    looks = itertools.cycle([views for _, views in samples(collector)])
    monkeypatch.setattr(watching, "_views", lambda: next(looks), raising=False)
    for _ in range(2):
        told = json.loads(watching.profile(0.003))
        assert (told["how"], told["sampled"]) == ({}, True)
        assert told["refused"] == {"load_balance": "Operation not permitted"}
        assert "failed" in {row[3] for row in told["rows"]}


def test_domains_that_can_no_longer_be_read_are_told_as_refused(watching, monkeypatch):
    monkeypatch.setattr(watching, "_views", lambda: None, raising=False)
    told = json.loads(watching.profile(0.003))
    assert (told["sampled"], told["rows"]) == (False, [])
    assert "domains" in told["refused"]


@pytest.mark.parametrize(
    "block",
    [
        {},
        {"rows": 7},
        {"rows": [[1, 2, None, None, 0, {}]]},
        {"rows": [["x", 0, None, "moved", 0, {}]]},
        {"rows": [[1 << 70, 0, None, "moved", 0, {}]]},
    ],
)
def test_a_damaged_block_is_refused(tmp_path, block):
    with pytest.raises(TraceFormatError, match="block of decisions is damaged"):
        open_trace(recording(tmp_path / "d.wct", **block)).events.collect()
