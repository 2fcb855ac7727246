"""Each place of docs/linux-6.12.md where a CPU can stay idle beside a waiting thread, alone: with the cause and without it.

The page's table is the expectation: what is lost is the exact integral of the invariant. "Without it" is another kernel, machine
or number of threads, and everything else is the same. The decisions of the balancer then show that it was this cause.
"""

from __future__ import annotations

import re
import shlex
from statistics import median

import polars as pl
import pytest
from support import ROOT

from wastedcores.analysis.decisions import decisions
from wastedcores.invariant import check
from wastedcores.simulator import replay_scenario
from wastedcores.workload.scenarios import SCENARIOS

MS = 1_000_000
PAGE = (ROOT / "docs" / "linux-6.12.md").read_text()
_CELLS = r" \| ".join(
    [r"`(idle-[^`]+)`", r"([^|]+)", r"`([^`]+)`", r"([^|]+)", r"([^|]+)", r"([^|]+)"]
)
ROWS = re.findall(rf"^\| {_CELLS} \|$", PAGE, re.MULTILINE)


def lost(words, kernel=None, seeds=20):
    """Return for how long a waiting thread could have had an idle CPU, in ms, over some seeds, as the page writes it."""
    name, *options = shlex.split(words)
    given, machine = {}, None
    for option in options:
        if option.startswith("+"):
            kernel = f"{SCENARIOS[name].kernel}{option}"
        elif "=" in option:
            given.update([option.split("=")])
        elif not option.startswith("--"):
            machine = option
    runs = (replay_scenario(name, kernel, machine, seed, given) for seed in range(1, seeds + 1))
    found = [check(r.trace).thread_ns / MS for r in runs]
    middle, least, most = (
        f"{x:.1f}".removesuffix(".0") if x < 10 else f"{x:.0f}"
        for x in (median(found), min(found), max(found))
    )
    return middle if len(set(found)) == 1 else f"{middle} [{least}, {most}]"


def test_the_page_has_every_scenario():
    assert {words.split()[0] for words, *_ in ROWS} == {n for n in SCENARIOS if n[:5] == "idle-"}
    assert len(ROWS) == 13


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_a_cause_costs_and_what_is_left_without_it(row):
    words, with_it, without, rest, *_ = row
    for what, says in ((words, with_it), (f"{words} {without}", rest)):
        assert lost(what, seeds=20 if "[" in says else 2) == says
    assert float(with_it.split()[0]) > 2 * float(rest.split()[0])


@pytest.mark.long
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_whole_table(row):
    words, with_it, without, rest, old, oldest = row
    assert lost(words) == with_it
    assert lost(f"{words} {without}") == rest
    assert lost(words, "v6.1.192") == old
    assert lost(words, "v4.1") == oldest


def calls(name, cpu, **given):
    """Return what the balancer decided for one CPU after the threads began."""
    log = decisions(replay_scenario(name, given=given, decisions=True).trace)
    return log.filter(pl.col("dst_cpu") == cpu, pl.col("ts_ns") > 12 * MS)


def groups(call, *columns):
    return [call["groups"][c] for c in columns]


def test_far_away__one_idle_cpu_more_is_balanced():
    far = calls("idle-far-away", 4).filter(level="NUMA<=30")
    assert far["result"].to_list() == ["balanced"] * 25
    assert groups(far.row(-1, named=True), "nr_running", "idle_cpus") == [[5, 7], [1, 0]]


def test_allowance__a_difference_of_two_is_no_imbalance():
    log = calls("idle-allowance", 1)
    assert set(log["result"]) == {"balanced"}
    assert set(log["imbalance"]) == {0}
    assert groups(log.row(-1, named=True), "nr_running") == [[0, 2]]


def test_confined__cpus_that_nobody_may_use_count_as_idle():
    far = calls("idle-confined", 8).filter(level="NUMA<=30", result="balanced")
    assert groups(far.row(-1, named=True), "nr_running", "idle_cpus") == [[0, 2], [12, 10]]


def test_sleeper__a_sleeping_thread_counts_as_running():
    refused = calls("idle-sleeper", 7).filter(level="PKG", result="balanced")
    seen = [groups(r, "nr_running", "idle_cpus") for r in refused.iter_rows(named=True)]
    assert seen.count([[4, 5], [1, 0]]) > 20
    pulled = calls("idle-sleeper", 7, pinned=False).filter(level="MC", result="moved")
    # once: from then on the sleeper's timer wakes it elsewhere than where the other threads leave it in the queue
    assert pulled.height >= 1


def test_pinned__passes_find_only_pinned_threads_and_the_interval_grows():
    log = calls("idle-pinned", 1)
    assert log.filter(result="pinned").height > 10
    assert log["interval_ms"].max() == 512


def test_left_out__without_the_pinned_cpu_a_difference_of_two_is_left():
    log = calls("idle-left-out", 0).filter(level="NUMA<=20", tries=2)
    assert log.height > 5
    assert set(log["reason"]) == {"no imbalance"}
    assert groups(log.row(-1, named=True), "nr_running") == [[0, 2]]


def test_hidden__a_single_thread_is_the_busiest_group():
    log = calls("idle-hidden", 0).filter(pl.col("ts_ns") > 1000 * MS, result="balanced")
    assert log["reason"].to_list().count("single task") > 10
    assert log.filter(reason="single task")["busiest"].unique().len() == 1
