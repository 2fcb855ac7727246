"""Several runs are compared: the table, the load_balance() calls, and the command."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest
from support.builders import nr, trace_of

from wastedcores.analysis.compare import REFUSALS, compare
from wastedcores.errors import DatasetError, UsageError
from wastedcores.simulator import replay_scenario

KERNELS = ("v4.1", "v4.1+missing_domains")


@pytest.fixture(scope="module")
def runs():
    given = {"n": 4, "limit_s": 0.4}
    return {k: replay_scenario("missing-domains", k, "bd-paper-16", 1, given) for k in KERNELS}


@pytest.fixture(scope="module")
def found(runs):
    return compare(runs)


def test_the_bug_costs_core_time_and_waits(found):
    bug, fix = found.table.to_dicts()
    assert bug["run"] == "v4.1"
    assert bug["verdict"] == "violations"
    assert fix["verdict"] == "clean"
    # four threads on two CPUs for 0.4 s: the time of two more CPUs could have been used
    assert 0.7 < bug["wasted_core_s"] < 0.9
    assert fix["wasted_core_s"] < 0.1
    assert bug["wait_max_ms"] > 12
    assert found.waits["v4.1"].sum() > 10 * found.waits[KERNELS[1]].sum()


def test_waits_are_what_the_switches_say(found, runs):
    # the time of a thread from its wakeup, fork or preemption to its next run, taken from the raw events one by one
    trace = runs["v4.1"].trace
    check = found.checks["v4.1"]
    ready: dict[int, int] = {}
    lengths = []
    for row in trace.only("switch", "wakeup", "wakeup_new").collect().iter_rows(named=True):
        if row["kind"] != "switch":
            ready.setdefault(row["pid"], row["ts_ns"])
            continue
        if row["pid"] in ready:
            lengths.append((ready.pop(row["pid"]), row["ts_ns"]))
        if row["prev_pid"] and row["prev_state"] == "R":
            ready[row["prev_pid"]] = row["ts_ns"]
    # a thread that still waits when the trace ends has waited until then
    lengths += [(a, trace.header.end_ns) for a in ready.values()]
    inside = [b - a for a, b in lengths if b > check.start_ns and a < check.end_ns]
    mine = found.waits["v4.1"]
    mine = mine[mine > 0]
    long = sorted(n for n in inside if n > 1_000_000)
    assert sorted(mine[mine > 1_000_000].tolist()) == pytest.approx(long, abs=0)
    assert len(long) > 20


def test_migrations_by_reason_add_up(found):
    for row in found.table.to_dicts():
        assert row["migrations"] == sum(n for k, n in row.items() if k.startswith("migrations_"))


def test_balance_calls__refusals_and_levels(found, runs):
    table = found.balance
    lost = table.filter(table["run"] == "v4.1")
    kept = table.filter(table["run"] != "v4.1")
    # before the hotplug, CPUs balance at every level; after it, while the threads run, only the SMT pair is left, so the
    # number of calls at higher levels no longer grows
    above = pl.col("level") > 0
    before = replay_scenario(
        "missing-domains", "v4.1", "bd-paper-16", 1, {"n": 4, "limit_s": 0.4}, until_ns=600_000_000
    )
    asked = before.balance_calls.filter(above)["calls"].sum()
    assert asked > 0
    assert lost.filter(above)["calls"].sum() == asked
    assert lost.filter(above)["moved"].sum() == 0
    assert set(kept.filter(above)["idle"]) == {"busy", "idle", "newidle"}
    assert kept.filter(above)["moved"].sum() > 0
    assert lost.filter(above)["calls"].sum() < kept.filter(above)["calls"].sum()
    assert (table["refusals"] == table.select(REFUSALS).sum_horizontal()).all()
    assert table["calls"].sum() == sum(r.balance_calls["calls"].sum() for r in runs.values())


def test_traces_compare_without_a_replay(runs):
    found = compare({k: r.trace for k, r in runs.items()})
    assert found.balance.height == 0
    assert found.table["result"].to_list() == [None, None]
    assert found.table["wasted_core_s"][0] > 10 * found.table["wasted_core_s"][1]


def test_gain(found):
    gain = found.gain("wasted_core_s")
    assert gain["v4.1"] == 0
    assert 0.9 < gain[KERNELS[1]] <= 1
    with pytest.raises(UsageError, match="no column 'wasted'"):
        found.gain("wasted")


def test_nothing_to_compare():
    with pytest.raises(UsageError, match="no run given"):
        compare({})


def test_command():
    from support.typed import typed

    import wastedcores.cli as cli

    assert "compare" in cli.VERBS
    small = ["--machine", "bd-paper-16", "--set", "n=4", "--set", "limit_s=0.2"]
    small += [word for kernel in KERNELS for word in ("--kernel", kernel)]
    data = json.loads(typed("compare", "missing-domains", *small, "--json").out)
    assert data["schema"] == "wastedcores.compare/1"
    assert [r["run"] for r in data["runs"]] == list(KERNELS)
    assert all(
        {"level", "idle", "calls", "refusals"} <= set(row) for row in data["runs"][1]["balance"]
    )
    text = typed("compare", "missing-domains", *small).out
    assert max(map(len, text.splitlines()[:-1])) < 80  # the last line is a command to copy
    assert "CPUs of work" in text
    alone = typed("compare", "missing-domains", "--kernel", "v4.1", "--machine", "bd-paper-16")
    assert (alone.code, "at least two" in alone.err) == (2, True)


def test_figures_of_a_comparison(found):
    from wastedcores import figures as fg

    bars = fg.costs(found).data
    assert bars[0].x[0] == found.table["result"][0]
    assert bars[1].text[0].endswith("s")
    stacked = {t.name: np.array(t.y).sum() for t in fg.balance_calls(found).data}
    assert stacked["balanced"] == found.balance["balanced"].sum()
    dots = fg.spread({"x": [1.0, 2.0]}, {"x": 1.5}).data
    assert list(dots[0].x) == [1.0, 2.0]
    assert list(dots[1].x) == [1.5]


def test_figure_of_a_comparison_in_which_a_waste_is_unknown():
    from wastedcores import figures as fg

    rows = [nr(0, 0, 2), nr(0, 1, 0), nr(200_000_000, 1, 1), nr(600_000_000, 0, 2)]
    known, lossy = trace_of(rows, cpus=2), trace_of(rows, cpus=2, lost={0: 3})
    bars = fg.costs(compare({"known": known, "lossy": lossy})).data
    (wasted,) = [bar for bar in bars if "unknown" in bar.text]
    assert list(wasted.text) == ["200 ms", "unknown"]
    assert list(wasted.x) == [0.2, 0]


def test_figure_of_a_comparison_whose_runs_last_equally_long():
    """The makespan says nothing then: the first panel is the work that was done."""
    from wastedcores import figures as fg

    runs = {
        k: replay_scenario("missing-domains", k, "bd-paper-16", 1, {"n": 4, "limit_s": 0.2})
        for k in ("v4.1", "v4.1+missing_domains")
    }
    fig = fg.costs(compare(runs))
    assert fig.layout.annotations[0].text == "CPUs of work"
    assert list(fig.data[0].x) == [r.summary.result for r in runs.values()]
    assert fig.data[0].x[0] < fig.data[0].x[1]


def test_command_says_what_a_fix_gains_even_if_both_violate():
    from support.typed import typed

    small = ("--machine", "bd-paper-16", "--set", "n=4", "--set", "limit_s=0.5")
    first, second, *_ = typed("compare", "missing-domains", *small).out.splitlines()
    assert first.startswith("(0) v4.1: violations, ")
    assert first.endswith(" CPUs wasted")
    assert re.search(r" CPUs wasted, [1-9]\d% less than \(0\)$", second)


def test_names_of_data_sets_and_files_stand_for_traces(tmp_path):
    import wastedcores as wc

    path = wc.fetch("live-balancing-on")
    assert wc.open(path).name == wc.open("live-balancing-on").name == wc.open(wc.open(path)).name
    assert wc.check("live-balancing-on").verdict == wc.check(path).verdict == "clean"
    assert wc.examine(str(path)).result.verdict == "clean"
    assert wc.explain("live-balancing-off").looks_like == "balancing_off"
    assert wc.compare({"a": "live-balancing-on", "b": path}).table.height == 2
    assert wc.recover("live-balancing-on").tasks == wc.recover(wc.open(path)).tasks
    with pytest.raises(DatasetError, match="no such file"):
        wc.check("absent-trace")


def test_gain_over_nothing_is_not_known():
    ms = 1_000_000
    calm = trace_of([nr(0, 0, 1), nr(0, 1, 1), nr(900 * ms, 0, 1)], cpus=2)
    bad = trace_of([nr(0, 0, 2), nr(0, 1, 0), nr(900 * ms, 0, 2)], cpus=2)
    gain = compare({"calm": calm, "bad": bad}).gain("wasted_core_s")
    assert gain == {"calm": 0.0, "bad": None}


def test_moves_that_were_not_recorded_are_not_known(runs):
    trace = trace_of([nr(0, 0, 1), nr(0, 1, 1), nr(9, 0, 1)], cpus=2)
    alone = compare({"a": trace})
    assert alone.table["migrations"].to_list() == [None]
    assert alone.gain("migrations") == {"a": None}
    recorded, replayed = compare({"a": trace, "b": runs["v4.1"]}).table.to_dicts()
    told = [k for k in replayed if k.startswith("migrations")]
    assert [recorded[k] for k in told] == [None] * len(told)
    assert replayed["migrations"] > 0
