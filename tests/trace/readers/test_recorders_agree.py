"""The same run, written in the format of each recorder, gives the same result."""

from __future__ import annotations

import random

import polars as pl
import pytest
from support import encoders, more_encoders, recorders
from support.builders import trace_of

from wastedcores.analysis.examined import examine
from wastedcores.errors import WastedCoresError
from wastedcores.invariant import check
from wastedcores.trace.io import import_trace, open_trace
from wastedcores.trace.readers import schedlog, systing

SEEDS = range(6)


def found(trace) -> dict:
    result = check(trace)
    return {
        "wall": result.wall_ns,
        "cpu": result.cpu_ns,
        "thread": result.thread_ns,
        "busy": result.busy_ns,
        "idle": result.idle_ns,
        "waiting": result.waiting_ns,
        "interval": (result.start_ns, result.end_ns),
        "episodes": result.episodes.to_dicts(),
    }


@pytest.fixture(params=SEEDS, ids=lambda s: f"seed{s}")
def run(request) -> recorders.Run:
    return recorders.random_run(request.param)


@pytest.fixture
def truth(run):
    return trace_of(recorders.as_events(run), cpus=run.cpus)


def test_schedlog(run, truth, tmp_path, monkeypatch):
    folder = recorders.as_schedlog(run, tmp_path / "tracer")
    expected = found(truth)
    assert expected["wall"] > 0
    whole = open_trace(folder)
    assert check(whole).source == "nr_running"
    # an nr_running trace knows a CPU from its first change on, which here is that first moment's
    assert found(whole) == expected
    assert examine(whole).waits.equals(examine(truth).waits)
    monkeypatch.setattr(schedlog, "BATCH_RECORDS", 17)
    sliced = open_trace(folder)
    assert sliced.events.collect().equals(whole.events.collect())


@pytest.mark.slow
def test_systing(run, truth, tmp_path, monkeypatch):
    folder = recorders.as_systing(run, tmp_path / "systing")
    whole = open_trace(folder)
    assert found(whole) == found(truth)
    monkeypatch.setattr(systing, "BATCH_ROWS", 13)
    windowed = open_trace(folder)
    assert windowed.events.collect().equals(whole.events.collect())
    written = import_trace(folder, tmp_path / "out.parquet")
    assert found(written) == found(truth)


def test_kutrace(run, truth, tmp_path):
    trace = open_trace(recorders.as_kutrace(run, tmp_path / "run.json"))

    def who_ran(t) -> pl.DataFrame:
        return t.only("switch").select("ts_ns", "cpu", "pid").collect().sort("ts_ns", "cpu")

    def who_waited(t) -> list[tuple[int, int, int]]:
        return examine(t).waits.select("pid", "start_ns", "end_ns").rows()

    mine, theirs = who_ran(trace), who_ran(truth)
    # the first stay on each CPU has no switch before it in KUtrace's file
    assert mine.equals(theirs.filter(pl.col("ts_ns") > 1_000_000))
    ended = [w for w in who_waited(truth) if w in run.waits]
    assert ended
    assert [w for w in who_waited(trace) if w in run.waits] == ended


@pytest.mark.parametrize("name", more_encoders.MORE)
def test_formats_of_ftrace_events_say_what_ftrace_text_says(run, tmp_path, name):
    """Text has microseconds, so that times are compared in these."""
    text, other = tmp_path / "text", tmp_path / "other"
    text.write_bytes(encoders.as_ftrace(run))
    other.write_bytes(more_encoders.MORE[name](run))
    columns = ["ts_ns", "kind", "cpu", "src_cpu", "pid", "comm", "prev_state"]

    def said(path) -> pl.DataFrame:
        events = open_trace(path).only("switch", "wakeup", "migrate").select(columns).collect()
        columns_of_text = [pl.col(c).cast(pl.String) for c in ("kind", "comm", "prev_state")]
        events = events.with_columns(pl.col("ts_ns") // 1000, *columns_of_text)
        return events.sort(events.columns)

    assert said(other).height > 20
    assert said(other).equals(said(text))


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_reported_or_harmless(seed, tmp_path):
    """Files with changed, removed and inserted bytes give events, or a message of one paragraph that names the file."""
    chance = random.Random(seed)
    run = recorders.random_run(seed, steps=40)
    recorders.as_schedlog(run, tmp_path / "rings")
    recorders.as_systing(run, tmp_path / "systing")
    recorders.as_kutrace(run, tmp_path / "run.json")
    (tmp_path / "json").mkdir()
    (tmp_path / "run.json").rename(tmp_path / "json" / "run.json")
    for folder in ("rings", "systing", "json"):
        files = sorted((tmp_path / folder).iterdir())
        victim = chance.choice(files)
        data = bytearray(victim.read_bytes())
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            act = chance.randrange(3)
            if act == 0:
                data[at] = chance.randrange(256)
            elif act == 1:
                del data[at : at + chance.randint(1, 40)]
            else:
                data[at:at] = chance.randbytes(chance.randint(1, 40))
            data = data or bytearray(b"\0")
        victim.write_bytes(bytes(data))
        trace = victim if folder == "json" else tmp_path / folder
        message = ""
        try:
            opened = open_trace(trace)
            assert opened.events.collect()["ts_ns"].is_sorted()
            check(opened)
        except WastedCoresError as e:
            message = str(e)
        assert "\n" not in message
        assert not message or victim.name in message or trace.name in message
