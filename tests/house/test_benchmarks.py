"""The program that runs the benchmarks keeps what it cannot measure, and names the commit that it measured."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

from support import ROOT


def test_rows_of_a_benchmark_that_cannot_run_stay(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import __main__ as program

    monkeypatch.setattr(program, "STORE", tmp_path / "results.json")
    monkeypatch.setattr(program, "RESULTS", tmp_path / "RESULTS.md")
    commits = iter(["1234567", "1234567-dirty", "1234567-dirty"])
    monkeypatch.setattr(program, "commit", lambda: next(commits))
    row = {"id": "a", "name": "a", "value": 1, "unit": "s"}
    old = {"date": "2026-01-01", "commit": "1", "load": "0", "machine": "m", "rows": [row]}
    program.STORE.write_text(json.dumps({"import": old}))
    rows = {"import": [], "seal": [row], "start": [row]}
    modules = {f"benchmarks.bench_{n}": SimpleNamespace(run=lambda n=n: rows[n]) for n in rows}
    monkeypatch.setattr(program, "import_module", modules.__getitem__)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "import", "seal", "start"])
    assert program.main() == 0
    found = json.loads(program.STORE.read_text())
    assert found["import"] == old
    assert [found[name]["commit"] for name in ("seal", "start")] == ["1234567"] * 2
