"""The tables of ten years: cells come from recordings where there are any, and the page shows what the table has."""

from __future__ import annotations

from types import SimpleNamespace

import decade_table
import pytest
from decade_table import KERNELS, decade_markdown
from support import ROOT

from wastedcores.kernels import KernelModel
from wastedcores_studies.recordings.decade import read_decade
from wastedcores_studies.recordings.kernels import read_kernels


def test_the_page_shows_the_table():
    assert decade_markdown(read_decade()) in (ROOT / "docs" / "ten-years-later.md").read_text()


def test_recorded_cells_are_those_of_the_recordings():
    table = read_decade()
    recorded = {
        (r["workload"], r["kernel"]): r
        for r in read_kernels().iter_rows(named=True)
        if r["cpus"] == 64
    }
    names = {"4.1": "4.1.3"}
    cells = [r for r in table.iter_rows(named=True) if not r["replayed"]]
    assert len(cells) > 20
    for cell in cells:
        other = recorded[cell["workload"], names.get(cell["kernel"], cell["kernel"])]
        assert abs(cell["result"] - other["result"]) < 1e-6
        assert abs(cell["wasted_cpus"] - other["wasted_cpus"]) < 1e-5


def test_replayed_cells_name_a_kernel_that_the_replay_has():
    replayed = [r for r in read_decade().iter_rows(named=True) if r["replayed"]]
    assert {r["kernel"] for r in replayed} == {"4.4", "6.1", "6.18"}
    for row in replayed:
        assert KernelModel.named(row["replayed"]).is_replayed
        assert row["replayed"].startswith(KERNELS[row["kernel"]][1])


def test_a_replay_that_did_not_finish_has_no_time(monkeypatch):
    run = SimpleNamespace(summary=SimpleNamespace(result=None, start_ns=0, end_ns=1))
    monkeypatch.setattr(decade_table, "replay_scenario", lambda *_: run)
    pattern = SimpleNamespace(
        meta={"results_measured_in_guest": {}}, parameters={}, kind="make-r", machine=None
    )
    with pytest.raises(SystemExit, match="did not finish with seed 1"):
        decade_table._replayed("make", "6.18", "v6.18.15", pattern, [1])
