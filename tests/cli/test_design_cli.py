"""Designs on the command line: replay, compare, and what has no answer for them."""

from __future__ import annotations

import json
import sys

import pytest

SMALL = ["--machine", "bd-paper-16", "--set", "iterations=10"]


def run(capsys, *words):
    """The command in this process: exit code, what it printed."""
    from wastedcores.cli import main

    before, sys.argv = sys.argv, ["wastedcores", *words]
    try:
        with pytest.raises(SystemExit) as end:
            main()
    finally:
        sys.argv = before
    out = capsys.readouterr()
    return end.value.code or 0, out.out, out.err


def test_replay_says_what_the_core_refused(capsys):
    code, out, _ = run(
        capsys, "replay", "overload-on-wakeup", "--kernel", "core+cache_affinity", *SMALL
    )
    assert code == 0
    assert "under core+cache_affinity" in out
    assert "cache_affinity: wakeup," in out
    assert "refused" in out


def test_replay_json(capsys):
    code, out, _ = run(
        capsys, "replay", "overload-on-wakeup", "--kernel", "core+waker_locality", "--json", *SMALL
    )
    assert code == 0
    data = json.loads(out)
    assert data["kernel"] == "core+waker_locality"
    asked = {s["moment"]: s for s in data["suggestions"]}
    assert asked["wakeup"]["asked"] == asked["wakeup"]["taken"] + asked["wakeup"]["refused"]
    assert asked["wakeup"]["refused"] > 0


def test_compare_a_linux_with_designs(capsys):
    kernels = [w for k in ("v4.1", "v4.1+all_fixes", "core+power") for w in ("--kernel", k)]
    code, out, _ = run(capsys, "compare", "overload-on-wakeup", *kernels, "--json", *SMALL)
    assert code == 0
    runs = json.loads(out)["runs"]
    assert [r["run"] for r in runs] == ["v4.1", "v4.1+all_fixes", "core+power"]
    assert runs[0]["suggestions"] == []
    assert {s["module"] for s in runs[2]["suggestions"]} == {"power"}
    told = sum(s["refused"] for s in runs[2]["suggestions"])
    assert runs[2]["refused_suggestions"] == told
    code, out, _ = run(capsys, "compare", "overload-on-wakeup", *kernels, *SMALL)
    assert code == 0
    assert "refused suggestions" in out
    assert "(2) power: wakeup" in out


def test_a_design_has_no_domains(capsys):
    code, _, err = run(capsys, "domains", "--machine", "bd-paper-16", "--kernel", "core+power")
    assert code == 2
    assert "has no sched_domains" in err


@pytest.mark.parametrize("name", ["core+", "core+nobody", "core+power+power", "v4.1+power"])
def test_names_that_cannot_be(capsys, name):
    code, _, err = run(capsys, "replay", "group-imbalance", "--kernel", name)
    assert code == 2
    assert f"kernel {name!r}" in err
