"""The verbs that recover the work of a trace and predict what a fix would have gained."""

from __future__ import annotations

import json

import pytest
from support.typed import typed

TRACE = "group-construction-buggy"


@pytest.fixture(scope="module")
def answer():
    run = typed("whatif", TRACE, "--session", "shell", "--seeds", "2", "--json")
    assert run.code == 0, run.err
    return json.loads(run.out)


def test_the_answer_has_the_documented_form(answer):
    assert answer["schema"] == "wastedcores.whatif/1"
    assert set(answer["recorded"]) == {"kernel", "machine", "window_ns", "busy_cpus"}
    assert {"tasks", "sleeps", "recognised", "guessed", "unknown"} <= set(answer["recovered"])
    assert set(answer["itself"]) == {"window_ns", "busy_cpus", "error"}
    assert answer["trust"] in ("high", "medium", "low")
    assert all(isinstance(r, str) for r in answer["reasons"])
    for v in answer["variants"]:
        assert {"kernel", "window_ns", "busy_cpus", "gain", "thread_ns"} <= set(v)
        assert set(v["busy_cpus"]) == {"median", "low", "high"}


def test_work_that_never_ends_is_judged_by_busy_cpus(answer):
    assert answer["itself"]["window_ns"] is None
    assert all(v["window_ns"] is None for v in answer["variants"])
    assert answer["recorded"]["window_ns"] == 3_000_448_000


def test_the_whole_trace_is_more_than_the_window_that_the_recording_names(answer):
    run = typed(
        "whatif", TRACE, "--whole", "--seeds", "1", "--to", "core", "--session", "shell", "--json"
    )
    assert run.code == 0, run.err
    whole = json.loads(run.out)["recorded"]
    assert whole["window_ns"] > answer["recorded"]["window_ns"]


def test_the_text_names_every_variant_and_the_trust():
    run = typed("whatif", TRACE, "--seeds", "1", "--to", "core", "--session", "shell")
    assert run.code == 0, run.err
    assert "  core  " in run.out
    assert "trust" in run.out


@pytest.mark.parametrize("option", ["--kernel", "--to"])
def test_a_kernel_that_the_replay_does_not_have_is_unknown(option):
    run = typed("whatif", TRACE, option, "v6.1")
    assert run.code == 3
    assert "balances by Linux 5.5's rules" in run.err
    assert not run.out


def test_a_recovered_workload_can_be_replayed(tmp_path):
    file = tmp_path / "workload.json"
    run = typed("recover", TRACE, "--session", "shell", "-o", str(file), "--json")
    assert run.code == 0, run.err
    told = json.loads(run.out)
    assert told["recognised"] + told["guessed"] + told["unknown"] == pytest.approx(1)
    again = typed("replay", str(file), "--machine", "bd-paper-64", "--until", "0.4", "--json")
    assert again.code in (0, 1), again.err
    assert json.loads(again.out)["events"] > 100
