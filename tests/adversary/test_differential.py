"""The same run in every format that can hold it gives the same verdict, the same times and the same episodes."""

from __future__ import annotations

import pytest
from support import encoders, recorders, trace_dat_file
from support.builders import trace_of

from wastedcores.errors import WastedCoresError
from wastedcores.invariant import brief, check
from wastedcores.trace.io import import_trace, open_trace

PERSIST_NS = 20_000


@pytest.fixture(autouse=True)
def _overloads_of_all_lengths_count(monkeypatch):
    """The runs last for a few milliseconds, so the floor of a verdict would leave nothing to compare."""
    monkeypatch.setattr(brief, "FLOOR_NS", 0)


def found(trace, facts: dict, persist_ns: int) -> dict:
    """Return everything that a verdict consists of. No format but a capture knows affinities, so all are told them."""
    result = check(trace.with_header(**facts), persist_ns=persist_ns)
    return {
        "verdict": result.verdict,
        "interval": (result.start_ns, result.end_ns),
        "wall": result.wall_ns,
        "cpu": result.cpu_ns,
        "thread": result.thread_ns,
        "busy": result.busy_ns,
        "idle": result.idle_ns,
        "waiting": result.waiting_ns,
        "oddities": result.oddities,
        "episodes": result.episodes.to_dicts(),
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("persist_ns", [PERSIST_NS, 10**9])
def test_all_formats_give_the_same_result(seed, persist_ns, tmp_path):
    run = recorders.random_run(seed)
    truth = trace_of(recorders.as_events(run), cpus=run.cpus)
    facts = {"tasks": truth.header.tasks, "quotas": {}, "follows_affinity": True}
    expected = found(truth, facts, persist_ns)
    assert expected["verdict"] == ("violations" if persist_ns == PERSIST_NS else "unknown")
    assert sum(e["wasted_ns"] for e in expected["episodes"]) == expected["thread"]
    files = encoders.write(run, tmp_path / "files")
    for version in (6, 7):
        files[f"trace.dat {version}"] = tmp_path / f"trace{version}.dat"
        files[f"trace.dat {version}"].write_bytes(trace_dat_file.as_trace_dat(run, version))
    files["systing"] = recorders.as_systing(run, tmp_path / "systing")
    for name, file in files.items():
        assert found(open_trace(file), facts, persist_ns) == expected, name
        kept = import_trace(file, tmp_path / f"{name}.parquet")
        assert found(kept, facts, persist_ns) == expected, f"{name} as Parquet"
    # SchedLog and sched_profiler have the sizes of the runqueues themselves, so they are certain of more
    expected.pop("oddities")
    for episode in expected["episodes"]:
        episode.pop("certain")
    for path in (
        recorders.as_schedlog(run, tmp_path / "rings"),
        recorders.as_sched_profiler(run, tmp_path / "sizes"),
    ):
        sizes = found(open_trace(path), facts, persist_ns)
        sizes.pop("oddities")
        for episode in sizes["episodes"]:
            episode.pop("certain")
        assert sizes == expected, path.name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("persist_ns", [PERSIST_NS, 10**9])
def test_kutrace_gives_the_same_result_where_it_can_hold_the_run(seed, persist_ns, tmp_path):
    """KUtrace does not tell where a thread waits, so the threads of these runs wait where they run."""
    run = recorders.random_run(seed, placed=True)
    truth = trace_of(recorders.as_events(run), cpus=run.cpus)
    facts = {"tasks": truth.header.tasks, "quotas": {}, "follows_affinity": True}
    expected = found(truth, facts, persist_ns)
    assert expected["verdict"] == ("violations" if persist_ns == PERSIST_NS else "unknown")
    file = recorders.as_kutrace(run, tmp_path / "run.json")
    assert found(open_trace(file), facts, persist_ns) == expected
    kept = import_trace(file, tmp_path / "kept.parquet")
    assert found(kept, facts, persist_ns) == expected


def test_a_run_that_differs_is_seen(tmp_path):
    """The comparison above can fail."""
    run = recorders.random_run(1)
    truth = trace_of(recorders.as_events(run), cpus=run.cpus)
    facts = {"tasks": truth.header.tasks, "quotas": {}, "follows_affinity": True}
    lines = encoders.as_ftrace(run).splitlines(keepends=True)
    path = tmp_path / "cut"
    path.write_bytes(b"".join(lines[:40] + lines[44:]))
    try:
        assert found(open_trace(path), facts, PERSIST_NS) != found(truth, facts, PERSIST_NS)
    except WastedCoresError as e:
        pytest.fail(str(e))
