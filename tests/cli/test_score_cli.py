"""``wastedcores score``: lost core-seconds of recordings in the repository and of schedules computed by hand."""

from __future__ import annotations

import json

import pytest
from support.builders import nr, switch, trace_of, wakeup
from support.typed import typed

from wastedcores import check
from wastedcores.analysis.explain import explain
from wastedcores.invariant import score
from wastedcores.trace.parquet import write_parquet
from wastedcores.words.checked import describe

MS = 1_000_000


def scored(*words) -> tuple[int, dict]:
    done = typed("score", *words)
    assert done.err == ""
    return done.code, json.loads(done.out)


def test_a_schedule_computed_by_hand(tmp_path):
    """For 150 ms two threads wait on CPU 1 and CPU 0 is idle, so one of them loses that time; then both CPUs are busy."""
    rows = [nr(0, 0, 0), nr(0, 1, 3), nr(150 * MS, 0, 1), nr(200 * MS, 0, 1)]
    code, found = scored(write_parquet(trace_of(rows, cpus=2), tmp_path / "t.parquet"))
    assert code == 1
    assert (found["verdict"], found["confidence"]) == ("violations", "exact")
    assert found["lost_core_s"] == found["at_least_core_s"] == found["at_most_core_s"] == 0.15
    assert found["busy_core_s"] == 0.2 + 0.05
    assert found["lost_share"] == 0.15 / 0.25
    assert found["longest_episode_s"] == 0.15


def test_a_recording_of_a_bug_loses_what_its_idle_cpus_could_have_done():
    """No thread leaves node 0, whose 8 CPUs have 64 threads: the other 56 CPUs of 64 are lost all the time."""
    code, found = scored("missing-domains-buggy")
    assert code == 1
    assert found["lost_core_s"] == pytest.approx(56 * found["window_s"], rel=0.001)
    assert found["at_most_core_s"] == found["lost_core_s"]
    # the 64 threads were born in the trace, so those that waited for 100 ms may be in a group with a limit (161.7 of 168.1 s)
    assert 0.95 < found["at_least_core_s"] / found["lost_core_s"] < 1
    assert found["confidence"] == "bounded"


def test_several_traces_are_one_number_and_the_worst_verdict():
    code, found = scored("group-imbalance-buggy", "group-imbalance-fixed")
    bug, fix = found["traces"]
    assert (code, found["verdict"], fix["verdict"]) == (1, "violations", "clean")
    assert found["confidence"] == "bounded"
    assert found["lost_core_s"] == pytest.approx(bug["lost_core_s"] + fix["lost_core_s"])
    assert found["lost_share"] == pytest.approx(
        found["lost_core_s"] / found["busy_core_s"], abs=1e-6
    )
    assert found["spread"]["low"] == fix["lost_core_s"] < 0.01 * bug["lost_core_s"]
    assert found["spread"]["high"] == bug["lost_core_s"]


def test_a_clean_recording_exits_with_0_and_agrees_with_check():
    code, found = scored("group-imbalance-fixed")
    bound = check("group-imbalance-fixed").bound
    assert code == 0
    assert found["at_least_core_s"] == bound.waste_at_least_ns / 1e9
    assert found["at_most_core_s"] == bound.waste_at_most_ns / 1e9
    assert found["confidence"] == "bounded"


def test_what_has_no_upper_limit_is_not_given_one():
    """CPU 0 lost events, nobody knows when, and only the lengths of the queues are known."""
    rows = [nr(0, 0, 1), nr(0, 1, 1), nr(100 * MS, 0, 2), nr(100 * MS, 1, 0), nr(110 * MS, 1, 1)]
    trace = trace_of([*rows, nr(1000 * MS, 0, 1)], cpus=2, lost={0: 5})
    result = check(trace)
    assert result.verdict == "unknown"
    assert not result.bounded
    assert result.to_json()["bounded"] is False
    assert result.bound.waste_at_least_ns == 0
    assert not result.episodes["certain"].any()
    assert score([result])["at_most_core_s"] is None
    said = describe(result)
    assert (
        "certain        nothing; the trace does not tell how much CPU time was wasted at most"
        in said
    )
    assert "at most 10 ms" not in said
    evidence = " ".join(explain(result).evidence)
    assert "The trace does not tell how much CPU time was wasted at most." in evidence
    assert check("group-imbalance-fixed").bounded


def test_a_gap_at_a_known_place_widens_the_bounds(tmp_path):
    """11 waits for 10 from 50 to 600 ms beside the idle CPU 1, of which some events before 10 ms were lost."""
    rows = [
        switch(0, 0, 0, "R", 10),
        switch(1, 1, 0, "R", 9),
        {"ts_ns": 10 * MS, "kind": "lost", "cpu": 1, "value": 7},
        switch(10 * MS, 1, 9, "S", 0),
        wakeup(50 * MS, 0, 11),
        switch(600 * MS, 0, 10, "S", 11),
        switch(601 * MS, 0, 11, "S", 0),
    ]
    trace = trace_of(rows, cpus=2, follows_affinity=False, lost={1: 7})
    code, found = scored(write_parquet(trace, tmp_path / "gap.parquet"))
    assert (code, found["confidence"]) == (1, "bounded")
    assert 0.54 < found["at_least_core_s"] <= found["lost_core_s"] == 0.55
    # threads that were woken in the gap may have waited unseen from its beginning until CPU 0 was idle, at 601 ms, and CPU 1 was
    # or may have been idle all that time; it is the only one, so nothing is counted twice
    assert found["at_most_core_s"] == pytest.approx(0.601, abs=1e-6)


def test_what_was_lost_nobody_knows_where_leaves_no_upper_bound(tmp_path):
    rows = [switch(0, 0, 0, "S", 5), switch(0, 1, 0, "S", 6), switch(400 * MS, 1, 6, "S", 7)]
    lossy = write_parquet(trace_of(rows, cpus=2, lost={0: 9}), tmp_path / "lossy.parquet")
    code, found = scored(lossy, "group-imbalance-fixed")
    assert (code, found["verdict"], found["confidence"]) == (3, "unknown", "unknown")
    assert found["at_most_core_s"] is None
    assert [row["at_most_core_s"] is None for row in found["traces"]] == [True, False]


def test_options_are_those_of_check(tmp_path):
    rows = [nr(0, 0, 0), nr(0, 1, 3), nr(50 * MS, 0, 1), nr(2000 * MS, 0, 1)]
    trace = write_parquet(trace_of(rows, cpus=2), tmp_path / "t.parquet")
    assert scored(trace)[0] == 0
    assert scored(trace, "--persist", "40ms")[0] == 1
    assert scored(trace, "--between", "0.05", "2")[1]["lost_core_s"] == 0


def test_bad_use_says_what_is_wrong(tmp_path):
    assert typed("score").code == 2
    done = typed("score", "group-imbalance-fixed", tmp_path / "absent.parquet")
    assert (done.code, done.out) == (2, "")
    assert "absent.parquet" in done.err
