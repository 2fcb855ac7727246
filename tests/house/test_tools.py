"""What the tools and the benchmarks import from the package is there; nothing else runs all of them."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from types import ModuleType

import pytest
from support import ROOT

FILES = [*sorted((ROOT / "tools").glob("*.py")), *sorted((ROOT / "benchmarks").glob("bench_*.py"))]


@pytest.mark.parametrize("file", FILES, ids=[f.name for f in FILES])
def test_imported_names_exist(file):
    for node in ast.walk(ast.parse(file.read_text())):
        module = getattr(node, "module", None) or ""
        if isinstance(node, ast.ImportFrom) and module.startswith("wastedcores"):
            for name in node.names:
                there = hasattr(import_module(module), name.name)
                assert there or find_spec(f"{module}.{name.name}"), f"{module} has no {name.name}"


def tool(name: str) -> ModuleType:
    """Import a script from the folder ``tools`` as a module."""
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_writer_of_task_files_knows_all_kinds_of_recordings():
    from wastedcores_studies.recordings.kernels import all_recordings

    assert {found.kind for found in all_recordings()} <= tool("write_task_files").LEADERS.keys()


@pytest.mark.parametrize(
    "name",
    ["chronic_table", "compare_kernels", "make_proofs", "make_scorecard", "make_table_4", "write_task_files"],
)  # fmt: skip
def test_a_tool_that_writes_results_refuses_what_it_does_not_know(name, monkeypatch, capsys):
    """Otherwise a misspelt option, or ``--help``, would measure and write everything anew."""
    monkeypatch.setattr(sys, "argv", [name, "--pages"])
    with pytest.raises(SystemExit) as refused:
        tool(name).main()
    assert refused.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_folder_without_a_scorecard_leaves_the_documents_as_they_are(
    tmp_path, monkeypatch, capsys
):
    made = tool("make_scorecard")
    monkeypatch.setattr(made, "RESULT", tmp_path / "scorecard.json")
    monkeypatch.setattr(sys, "argv", ["make_scorecard", str(tmp_path / "empty")])
    with pytest.raises(SystemExit):
        made.main()
    assert "empty has no scorecard.json; write it with" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_trace_shorter_than_a_slice_leaves_the_rule_of_chronic_waste_as_it_is(tmp_path):
    from wastedcores.invariant import brief

    rule = brief.FLOOR_NS
    (tmp_path / "short.txt").write_text(
        "<idle>-0 [000] d... 1.000001: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000\n"
        "<idle>-0 [000] d... 1.000002: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> "
        "next_comm=a next_pid=7 next_prio=120\n"
    )
    table = tool("chronic_table")
    line, _, times = table.row(tmp_path / "short.txt")
    assert "shorter than a slice" in line
    assert line.count("|") == len(table.FLOORS_NS) + 5
    assert times == 0.0
    assert rule == brief.FLOOR_NS
