"""A trace may be a folder, which the verbs take like a file."""

from __future__ import annotations

import json
import shutil
import struct

import pytest
from support.typed import typed

from wastedcores.reports.notebook import _inputs
from wastedcores.sweep.traces import check_once, find_traces, runs_of
from wastedcores.trace.io import open_trace


@pytest.fixture
def rings(tmp_path):
    """Two rings of SchedLog: two tasks on CPU 0 for 200 ms, CPU 1 idle."""
    folder = tmp_path / "tracer"
    folder.mkdir()
    size, ms = 11, 1_000_000
    records = {0: [(ms, 2, 1), (201 * ms, 1, -1)], 1: [(ms, 1, 1), (ms, 0, -1)]}
    for cpu, changes in records.items():
        data = b"".join(struct.pack("<Qiiii", ts, 7, size, nr, by) for ts, nr, by in changes)
        (folder / str(cpu)).write_bytes(data)
    (folder / "sched_log_traced_events").write_text(
        "".join(f"{i} EVENT{i}\n" for i in range(size)) + f"{size} RQ_SIZE\n"
    )
    return folder


def test_check_info_import(rings, tmp_path):
    done = typed("check", rings, "--json")
    assert done.code == 1
    assert json.loads(done.out)["wall_ns"] == 200_000_000
    done = typed("info", rings, "--json")
    assert done.code == 0
    assert json.loads(done.out)["header"]["source_format"] == "schedlog"
    done = typed("import", rings, "-o", tmp_path / "run.parquet")
    assert done.code == 0
    assert typed("check", tmp_path / "run.parquet").code == 1


def test_format_by_name(rings):
    assert typed("info", rings, "--format", "schedlog").code == 0
    done = typed("info", rings, "--format", "systing")
    assert done.code == 2
    assert "its content looks like schedlog" in done.err


def test_another_folder_is_refused(tmp_path):
    done = typed("check", tmp_path)
    assert done.code == 2
    assert "is a folder" in done.err


def test_a_report_names_what_it_was_made_from(rings):
    facts = _inputs({"trace": str(rings)}, {"trace": {"default": "None"}})["trace"]
    assert facts["bytes"] == sum(f.stat().st_size for f in rings.iterdir())
    assert len(facts["sha256"]) == 64
    assert (
        facts["sha256"] != open_trace(rings).header.provenance["source_sha256"]
    )  # that of the rings


def test_a_gate_takes_it_as_one_recording(rings, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nquantity = "wasted_cpus"\nworse_by = 0.1\n')
    junit = tmp_path / "junit.xml"
    done = typed("compare", rings, rings, "--gate", rules, "--junit", junit, "--json")
    assert done.code in (0, 3), done.err
    (rule,) = json.loads(done.out)["rules"]
    assert rule["n"] == [1, 1]
    assert 'name="wasted_cpus"' in junit.read_text()


def test_a_gate_takes_every_recording_of_a_folder_also_one_that_is_a_folder(rings, tmp_path):
    before = tmp_path / "before"
    shutil.copytree(rings, before / "first")
    (before / "notes").mkdir()
    assert typed("import", rings, "-o", before / "second.parquet").code == 0
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nquantity = "wasted_cpus"\nworse_by = 0.1\n')
    done = typed("compare", before, rings, "--gate", rules, "--json")
    assert done.code in (0, 3), done.err
    assert json.loads(done.out)["rules"][0]["n"] == [2, 1]


def test_fleet_takes_it_as_one_trace(rings, tmp_path):
    hidden = tmp_path / ".traces"
    shutil.copytree(rings, hidden / "one" / "tracer")
    (hidden / "one" / "note.txt").write_text("a file beside it")
    found = find_traces(str(hidden))
    assert [f.name for f in found] == [f"{hidden}/one/note.txt", f"{hidden}/one/tracer"]
    (itself,) = find_traces(str(rings))
    assert itself.bytes == found[1].bytes == sum(f.stat().st_size for f in rings.iterdir())
    row = check_once(**dict(runs_of([itself])[0].arguments))
    assert (row["format"], row["verdict"]) == ("schedlog", "violations")
