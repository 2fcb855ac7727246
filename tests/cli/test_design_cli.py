"""Scheduler designs on the command line: replay and compare take them, domains refuses them."""

from __future__ import annotations

import json

import pytest
from support.typed import typed

SMALL = ["--machine", "bd-paper-16", "--set", "iterations=10"]


def test_replay_says_what_the_core_refused():
    done = typed("replay", "overload-on-wakeup", "--kernel", "core+cache_affinity", *SMALL)
    assert done.code == 0
    assert "under core+cache_affinity" in done.out
    assert "cache_affinity: wakeup," in done.out
    assert "refused" in done.out


def test_replay_json():
    done = typed(
        "replay", "overload-on-wakeup", "--kernel", "core+waker_locality", "--json", *SMALL
    )
    assert done.code == 0
    data = json.loads(done.out)
    assert data["kernel"] == "core+waker_locality"
    asked = {s["moment"]: s for s in data["suggestions"]}
    assert asked["wakeup"]["asked"] == asked["wakeup"]["taken"] + asked["wakeup"]["refused"]
    assert asked["wakeup"]["refused"] > 0


def test_compare_a_linux_with_designs():
    kernels = [w for k in ("v4.1", "v4.1+all_fixes", "core+power") for w in ("--kernel", k)]
    done = typed("compare", "overload-on-wakeup", *kernels, "--json", *SMALL)
    assert done.code == 0
    runs = json.loads(done.out)["runs"]
    assert [r["run"] for r in runs] == ["v4.1", "v4.1+all_fixes", "core+power"]
    assert runs[0]["suggestions"] == []
    assert {s["module"] for s in runs[2]["suggestions"]} == {"power"}
    refused = sum(s["refused"] for s in runs[2]["suggestions"])
    assert runs[2]["refused_suggestions"] == refused
    done = typed("compare", "overload-on-wakeup", *kernels, *SMALL)
    assert done.code == 0
    assert "refused suggestions" in done.out
    assert "(2) power: wakeup" in done.out


def test_domains_refuses_a_design():
    done = typed("domains", "--machine", "bd-paper-16", "--kernel", "core+power")
    assert done.code == 2
    assert "has no sched_domains" in done.err


@pytest.mark.parametrize("name", ["core+", "core+nobody", "core+power+power", "v4.1+power"])
def test_impossible_names_are_refused(name):
    done = typed("replay", "group-imbalance", "--kernel", name)
    assert done.code == 2
    assert f"kernel {name!r}" in done.err
