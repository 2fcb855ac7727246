"""The verdict about recordings of guests is what their loads make true, never the opposite (guest/README.md)."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from wastedcores.analysis.explain import explain
from wastedcores.analysis.price import RIGHTLY_IDLE
from wastedcores.capture.snapshot import read_snapshot, with_snapshot
from wastedcores.errors import WastedCoresError
from wastedcores.invariant import check
from wastedcores.trace.named import open as open_named

FOLDER = Path(__file__).parent / "guest"
FACTS = {f.stem: f for f in sorted(FOLDER.glob("*.json"))}


def unpacked(name: str, tmp_path: Path) -> tuple[Path, Path]:
    """Unpack a recording and its snapshot."""
    snapshot = tmp_path / f"{name}.snapshot.json"
    (packed,) = (f for f in FOLDER.glob(f"{name}.*.xz") if not f.name.startswith(snapshot.name))
    trace = tmp_path / packed.stem
    for file in (snapshot, trace):
        file.write_bytes(lzma.decompress((FOLDER / f"{file.name}.xz").read_bytes()))
    return trace, snapshot


@pytest.mark.slow
@pytest.mark.parametrize("told", ["alone", "with_snapshot"])
@pytest.mark.parametrize("name", FACTS)
def test_the_verdict_is_what_the_load_makes_true(name, told, tmp_path):
    facts = json.loads(FACTS[name].read_text())
    file, snapshot = unpacked(name, tmp_path)
    try:
        trace = open_named(file)
        if told == "with_snapshot":
            trace = with_snapshot(trace, read_snapshot(snapshot), str(snapshot))
        result = check(trace)
        found = {result.verdict, f"{result.verdict} ({result.kind})"}
    except WastedCoresError:
        found = {"refused"}
    assert found & set(facts["verdict"][told]), facts["because"]


@pytest.mark.parametrize(
    "name",
    [
        "idle-6.1-2cpu", "idle-6.12-4cpu", "pipe-1000hz-6.12-2cpu", "pipes-30hz-6.1-2cpu", "futex-1000hz-6.1-2cpu",
        "futexes-60hz-6.12-2cpu", "web-1-6.1-4cpu", "web-5-6.12-2cpu", "httpd-6.1-2cpu",
    ],
)  # fmt: skip
def test_cpus_beside_pairs_that_wake_each_other_are_rightly_idle(name, tmp_path):
    file, snapshot = unpacked(name, tmp_path)
    result = check(with_snapshot(open_named(file), read_snapshot(snapshot), str(snapshot)))
    price = explain(result, kernel=json.loads(FACTS[name].read_text())["kernel"]).price
    assert price.judgement == RIGHTLY_IDLE
    assert price.waking_ns > 0.5 * price.waited_ns


@pytest.mark.parametrize("name", FACTS)
def test_the_facts_agree_with_what_the_kernel_counted(name):
    """A load that was to waste a CPU did: its CPUs were as idle, and its threads waited as long, as that takes."""
    facts = json.loads(FACTS[name].read_text())
    counted = facts["counted"]
    assert facts["events_lost"] == 0
    if facts["truth"] == "violations":
        spinners = [t for t in counted["tasks"] if t["comm"].startswith("spin-")]
        assert len(spinners) == 3
        apart = (
            {c for c in counted["cpus"] if c in ("cpu2", "cpu3")}
            if "v1" not in name
            else counted["cpus"]
        )
        least = min(counted["cpus"][c]["busy_ns"] for c in apart)
        assert least < 0.5e9 * counted["seconds"]
        assert all(t["waited_ns"] > 0.5e9 * counted["seconds"] for t in spinners)
    if name.startswith("quota"):
        assert any(g["nr_throttled"] > 0 for g in counted["throttled"].values())
    allowed = {"cpuset": "0-1", "taskset": "0-1", "unrecorded": "0-1", "repinned": "0"}.get(
        name.split("-")[0]
    )
    if allowed:
        tasks = [t for t in counted["tasks"] if t["comm"].startswith(("spin-", "loop-", "work-"))]
        assert tasks
        assert {t["allowed"] for t in tasks} == {allowed}
