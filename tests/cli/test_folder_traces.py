"""A trace may be a folder: the verbs take it as they take a file."""

from __future__ import annotations

import json
import struct
import sys

import pytest

from wastedcores.cli import main
from wastedcores.reports.notebook import _inputs
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


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*args: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["wastedcores", *map(str, args)])
        with pytest.raises(SystemExit) as stop:
            main()
        out = capsys.readouterr()
        return int(stop.value.code or 0), out.out, out.err

    return call


def test_check_info_import(run, rings, tmp_path):
    code, out, _ = run("check", rings, "--json")
    assert code == 1
    assert json.loads(out)["wall_ns"] == 200_000_000
    code, out, _ = run("info", rings, "--json")
    assert code == 0
    assert json.loads(out)["header"]["source_format"] == "schedlog"
    code, out, _ = run("import", rings, "-o", tmp_path / "run.parquet")
    assert code == 0
    assert run("check", tmp_path / "run.parquet")[0] == 1


def test_format_by_name(run, rings):
    assert run("info", rings, "--format", "schedlog")[0] == 0
    code, _, err = run("info", rings, "--format", "systing")
    assert code == 2
    assert "its content is schedlog" in err


def test_another_folder_is_refused(run, tmp_path):
    code, _, err = run("check", tmp_path)
    assert code == 2
    assert "is a folder" in err


def test_a_report_names_what_it_was_made_from(rings):
    facts = _inputs({"trace": str(rings)}, {"trace": {"default": "None"}})["trace"]
    assert facts["bytes"] == sum(f.stat().st_size for f in rings.iterdir())
    assert len(facts["sha256"]) == 64
    assert (
        facts["sha256"] != open_trace(rings).header.provenance["source_sha256"]
    )  # that of the rings
