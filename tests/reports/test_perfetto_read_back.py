"""An export gives the answers of its trace, two runs stand side by side, and the recipes in SQL count right."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path

import perfetto.protos.perfetto.trace.perfetto_trace_pb2 as pb
import pytest
from support import ROOT
from support.builders import nr, switch, trace_of, wakeup
from typer.testing import CliRunner

import wastedcores
from wastedcores.analysis.alignment import align
from wastedcores.analysis.examined import examine
from wastedcores.cli import register_verbs
from wastedcores.cli._app import app
from wastedcores.errors import WastedCoresError
from wastedcores.invariant import check
from wastedcores.limits import PID_MAX_LIMIT
from wastedcores.reports.perfetto import RECIPES, export_pair, export_perfetto
from wastedcores.trace.io import import_trace, open_trace, sniff

RECORDINGS = (
    "group-imbalance-buggy",
    "group-construction-buggy",
    "lu-pinned-buggy",
    "missing-domains-fixed",
    "live-balancing-off",
    "live-balancing-on-tracefs",
)


def answer(trace) -> dict:
    said = check(trace).to_json(limit=None)
    return {k: v for k, v in said.items() if k not in ("trace", "path", "name")}


@pytest.mark.parametrize("name", RECORDINGS)
def test_an_export_gives_the_answer_of_its_trace(name, tmp_path):
    run = examine(name)
    path = export_perfetto(run.runqueues, tmp_path / "t.pftrace", run.result)
    assert sniff(path) == "perfetto"
    back = open_trace(path)
    assert back.events.collect().equals(run.trace.events.collect())
    assert answer(back) == answer(run.trace)
    assert back.name == "t.pftrace"


def test_an_export_is_read_back_when_packed_and_kept_as_parquet(tmp_path):
    run = examine("live-balancing-off")
    path = export_perfetto(run.runqueues, tmp_path / "t.pftrace", run.result)
    packed = tmp_path / "t.pftrace.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert answer(open_trace(packed)) == answer(run.trace)
    assert answer(import_trace(path, tmp_path / "t.parquet")) == answer(run.trace)


def test_a_part_that_an_export_carries_must_be_whole(tmp_path):
    run = examine("live-balancing-off")
    whole = export_perfetto(run.runqueues, tmp_path / "t.pftrace", run.result).read_bytes()
    at = whole.index(b"PAR1")
    cut, damaged = tmp_path / "cut.pftrace", tmp_path / "damaged.pftrace"
    cut.write_bytes(whole[: at + 9000])
    damaged.write_bytes(whole[: at + 900] + bytes([whole[at + 900] ^ 1]) + whole[at + 901 :])
    for path in (cut, damaged):
        with pytest.raises(WastedCoresError, match=path.name) as caught:
            open_trace(path)
        assert str(path) in str(caught.value)


def test_without_what_it_carries_an_export_is_a_trace_of_perfetto(tmp_path):
    """As if Perfetto had written the file anew: switches and wakeups are still read."""
    run = examine("live-balancing-off")
    path = export_perfetto(run.runqueues, tmp_path / "t.pftrace", run.result)
    trace = pb.Trace.FromString(path.read_bytes())
    for packet in trace.packet:
        packet.DiscardUnknownFields()
    path.write_bytes(trace.SerializeToString())
    kinds, own = open_trace(path).kinds(), run.trace.kinds()
    assert kinds["switch"] == own["switch"]
    assert kinds["wakeup"] == own["wakeup"] + own.get("wakeup_new", 0)


def test_two_runs_stand_side_by_side(tmp_path):
    pair = align(examine("live-balancing-off"), examine("live-balancing-on"))
    path = export_pair(pair, tmp_path / "pair.pftrace")
    cpus = pair.runs[0].runqueues.cpus
    tables = database(path)
    shift = pair.zeros[0] - pair.zeros[1]
    for letter, run, by in zip("AB", pair.runs, (0, shift), strict=True):
        (uuid,) = tables.execute(
            "SELECT id FROM track WHERE name = ?", [f"{letter}: {run.label}"]
        ).fetchone()
        got = tables.execute(
            "SELECT ts, dur FROM slice JOIN track ON track_id = track.id WHERE parent_id = ? AND track.name = "
            "'idle CPUs while threads wait' ORDER BY ts",
            [uuid],
        ).fetchall()
        table = run.result.episodes
        want = [(a + by, b - a) for a, b in zip(table["start_ns"], table["end_ns"], strict=True)]
        assert got == want
    bundles = [
        p.ftrace_events
        for p in pb.Trace.FromString(path.read_bytes()).packet
        if p.HasField("ftrace_events")
    ]
    first = {p for b in bundles if b.cpu < cpus for p in b.compact_sched.switch_next_pid}
    second = {p for b in bundles if b.cpu >= cpus for p in b.compact_sched.switch_next_pid}
    assert {b.cpu for b in bundles} == set(range(cpus + pair.runs[1].runqueues.cpus))
    assert first & second == {0}
    assert min(second - {0}) > PID_MAX_LIMIT
    with pytest.raises(WastedCoresError, match="live-balancing-off and live-balancing-on"):
        open_trace(path)


def database(path: Path) -> sqlite3.Connection:
    """Tables of an export's messages, as Perfetto's documentation of slice, track, counter and args describes them."""
    made = sqlite3.connect(":memory:")
    made.executescript(
        "CREATE TABLE track(id, name, parent_id); CREATE TABLE counter(id INTEGER PRIMARY KEY, ts, track_id, value);"
        "CREATE TABLE slice(ts, dur, track_id, name, arg_set_id);"
    )
    notes: list[dict] = []
    made.create_function("EXTRACT_ARG", 2, lambda i, key: notes[i].get(key.removeprefix("debug.")))
    open_: dict[int, tuple] = {}
    for packet in pb.Trace.FromString(path.read_bytes()).packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            made.execute(
                "INSERT INTO track VALUES (?, ?, ?)", (track.uuid, track.name, track.parent_uuid)
            )
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        if event.type == pb.TrackEvent.TYPE_COUNTER:
            row = (packet.timestamp, event.track_uuid, float(event.counter_value))
            made.execute("INSERT INTO counter(ts, track_id, value) VALUES (?, ?, ?)", row)
        elif event.type == pb.TrackEvent.TYPE_SLICE_END:
            begin, uuid, name, number = open_.pop(event.track_uuid)
            row = (begin, packet.timestamp - begin, uuid, name, number)
            made.execute("INSERT INTO slice VALUES (?, ?, ?, ?, ?)", row)
        else:
            assert event.track_uuid not in open_, "slices of a track may not overlap"
            notes.append(
                {n.name: getattr(n, n.WhichOneof("value")) for n in event.debug_annotations}
            )
            row = (packet.timestamp, event.track_uuid, event.name, len(notes) - 1)
            if event.type == pb.TrackEvent.TYPE_INSTANT:
                made.execute("INSERT INTO slice VALUES (?, 0, ?, ?, ?)", row)
            else:
                open_[event.track_uuid] = row
    assert not open_
    return made


def test_the_recipes_count_what_the_check_counts(tmp_path):
    trace = trace_of(
        [
            nr(0, 0, 1), nr(0, 1, 0), switch(0, 0, 0, "R", 5), wakeup(1_000_000, 0, 6), nr(1_000_000, 0, 2),
            {"ts_ns": 2_000_000, "kind": "decision", "cpu": 1, "src_cpu": 0, "op": "hot", "value": 0,
             "text": json.dumps({"level": "MC", "moment": "idle"})},
            switch(4_000_000, 0, 5, "S", 6), nr(4_000_000, 0, 1), nr(6_000_000, 0, 0), nr(6_000_000, 1, 0),
        ],
        cpus=2,
    )  # fmt: skip
    run = examine(trace, "small")
    assert run.result.thread_ns == 3_000_000
    tables = database(export_perfetto(run.runqueues, tmp_path / "t.pftrace", run.result))
    worst, threads, said, queues, _ = (tables.execute(q).fetchall() for q in RECIPES.values())
    assert worst == [(1_000_000, 3_000_000, "idle 1 beside 0", 3_000_000)]
    assert threads == [("t6", 6, 1, 3_000_000, 3_000_000)]
    assert said == [("hot", "MC", 1, 0)]
    mean = (1 * 1e6 + 2 * 3e6 + 1 * 2e6) / 6e6
    assert dict(queues)["threads on the runqueue of CPU 0"] == pytest.approx(mean)
    pair = align(run, run, "start of the traces")
    both = database(export_pair(pair, tmp_path / "pair.pftrace"))
    assert both.execute(list(RECIPES.values())[-1]).fetchall() == [
        ("A: small", 1, 3_000_000),
        ("B: small", 1, 3_000_000),
    ]
    # the CPUs and pids of the second run are others, so that nothing of both is counted as one
    worst, threads, said, queues, _ = (both.execute(q).fetchall() for q in RECIPES.values())
    assert {row[2] for row in worst} == {"idle 1 beside 0", "idle 3 beside 2"}
    other = 6 + PID_MAX_LIMIT
    assert threads == [("t6", 6, 1, 3_000_000, 3_000_000), ("t6", other, 1, 3_000_000, 3_000_000)]
    assert said == [("hot", "MC", 2, 0)]
    assert [dict(queues)[f"threads on the runqueue of CPU {c}"] for c in (0, 2)] == [mean, mean]
    names = {name for (name,) in both.execute("SELECT name FROM slice WHERE dur = 0")}
    assert names == {"CPU 1: hot", "CPU 3: hot"}


def test_the_mean_of_a_runqueue_has_its_last_stretch_and_no_unknown_time(tmp_path):
    """CPU 0 has a thread from 1 ms on. From the last event before the loss on, 5 ms, no length is known until it is told."""
    rows = [nr(0, 0, 0), nr(0, 1, 2), nr(1_000_000, 0, 1), nr(5_000_000, 1, 2)]
    rows += [{"ts_ns": 8_000_000, "kind": "lost", "cpu": 1, "value": 3}, nr(10_000_000, 1, 0)]
    trace = trace_of(rows, cpus=2, lost={1: 3})
    tables = database(export_perfetto(examine(trace, "t").runqueues, tmp_path / "t.pftrace"))
    mean = dict(tables.execute(RECIPES["The mean number of threads on each runqueue"]).fetchall())
    assert mean["threads on the runqueue of CPU 0"] == pytest.approx(0.8)
    assert mean["threads on the runqueue of CPU 1"] == pytest.approx(2)


def test_waits_beside_idle_cpus_are_those_of_the_trace(tmp_path):
    run = examine("group-construction-buggy")
    tables = database(export_perfetto(run.runqueues, tmp_path / "t.pftrace", run.result))
    found = tables.execute(
        "SELECT slice.ts, dur, EXTRACT_ARG(arg_set_id, 'debug.pid'), EXTRACT_ARG(arg_set_id, 'debug.beside_idle_ns') "
        "FROM slice JOIN track ON track_id = track.id WHERE track.name = 'waits beside an idle CPU'"
    ).fetchall()
    spans = run.result.episodes.select("start_ns", "end_ns").rows()
    want = []
    for pid, _, start, end in run.waits.iter_rows():
        beside = sum(max(0, min(end, b) - max(start, a)) for a, b in spans)
        if beside:
            want.append((start, end - start, pid, beside))
    assert sorted(found) == sorted(want)
    assert found


def test_the_page_about_sql_has_the_recipes_and_export_writes_them(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "how-to" / "perfetto-sql.md").read_text()
    for title, query in RECIPES.items():
        assert f"{title}:\n\n```sql\n{query}```" in page
    monkeypatch.chdir(tmp_path)
    register_verbs()
    done = CliRunner().invoke(app, ["export", "live-balancing-off", "-o", "t.pftrace", "--sql"])
    assert done.exit_code == 0, done.output
    assert all(query in Path("t.sql").read_text() for query in RECIPES.values())
    assert wastedcores.check("t.pftrace").verdict == wastedcores.check("live-balancing-off").verdict


def test_compare_writes_both_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    register_verbs()
    words = ["compare", "live-balancing-off", "live-balancing-on", "-o", "pair.pftrace"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert database(Path("pair.pftrace")).execute("SELECT COUNT(*) FROM slice").fetchone()[0] > 0
