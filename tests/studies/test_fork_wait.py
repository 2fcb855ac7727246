"""The study of the fork/wait paper: its rows, its measures, and what they depend on."""

from __future__ import annotations

import numpy as np
import pytest

from wastedcores.errors import UsageError
from wastedcores.simulator import log_column, log_kind
from wastedcores.simulator.measure import RawReplay
from wastedcores_studies import fork_wait, scorecard
from wastedcores_studies.fork_wait_replays import (
    CORE_W,
    DYNAMIC_W,
    PACKAGE_W,
    build,
    energy_j,
    machine,
    most_busy,
    recorded,
)
from wastedcores_studies.published import load


@pytest.fixture(scope="module")
def results():
    """The replays of kernel/sched with one seed; they stand for those of the whole kernel, which take too long here."""
    rows = {}
    for attempt in fork_wait.attempts(load(), [1]):
        for run in attempt.runs():
            how = dict(run.arguments)
            made = (
                recorded(**how)
                if "tree" not in how
                else build(**how | {"tree": "sched", "jobs": 32})
            )
            rows.setdefault(run.key, {"error": None} | made)
    return rows


@pytest.mark.slow
def test_every_row_has_the_published_direction(results):
    rows = {a.id: a.row(results) for a in fork_wait.attempts(load(), [1])}
    assert not [name for name, row in rows.items() if row["verdict"] == "opposite"]
    assert rows["carver.s2_frequency"]["ours"] == "higher"
    assert rows["carver.s2_parallel_cpus"]["ours"] == "fewer"
    assert rows["carver.s2_parallel_cpus"]["beside"]["the most at once"] == "fewer"
    assert rows["carver.kbuild_sched_gain"]["beside"]["recorded build"] < 0
    assert rows["carver.s1_initial_cpus"]["ours"] <= 5
    assert all(row["kind"] in ("predicted", "assumed") and row["reason"] for row in rows.values())


def test_every_number_of_the_paper_is_a_row_or_has_a_reason():
    tables = load()
    tried = {a.id.partition(".")[2] for a in fork_wait.attempts(tables, [1])}
    named = set(scorecard.WHY_NOT[fork_wait.TABLE])
    assert set(tables.rows(fork_wait.TABLE)) == tried | named


def log(*records):
    """A replay with these records of time, kind, CPU, pid and value."""
    rows = np.full((len(records), log_column.WIDTH), -1, dtype=np.int64)
    rows[:, [log_column.TS, log_column.KIND, log_column.CPU, log_column.PID, log_column.VALUE]] = (
        records
    )
    return RawReplay(rows, rows, rows, rows[:, 0], rows, 0, 0, True, 0.0, 0)


def test_most_busy_counts_the_cpus_that_run_tasks_at_the_same_moment():
    s = log_kind.SWITCH
    raw = log(
        (0, s, 0, 9, 0),
        (5, s, 1, 8, 0),
        (6, s, 1, 7, 0),
        (9, s, 0, 0, 0),
        (9, s, 2, 6, 0),
        (12, s, 3, 5, 0),
    )
    assert most_busy(raw, 4, 0, 20) == 3
    assert most_busy(raw, 4, 0, 12) == 2
    assert most_busy(raw, 4, 0, 5) == 1


def test_energy_counts_a_core_once_per_tick():
    """CPUs 0 and 80 share a core. At the nominal frequency it uses both its powers, and four packages theirs."""
    tick = log_kind.TICK
    raw = log(
        (0, tick, 0, 9, 2_100_000), (10, tick, 80, 8, 2_100_000), (4_000_000, tick, 0, 9, 4_200_000)
    )
    cores = 0.004 * (CORE_W + DYNAMIC_W) + 0.004 * (CORE_W + 8 * DYNAMIC_W)
    assert energy_j(raw.log, machine(), 8_000_000) == pytest.approx(4 * PACKAGE_W * 0.008 + cores)


@pytest.mark.slow
def test_a_shorter_delay_leaves_less_to_gain():
    points = {(p["parameter"], p["value"]): p for p in fork_wait.tornado([1])}
    assert points["ramp_ticks", 1]["s1"] < points["as assumed", 0]["s1"]
    assert {p for p, _ in points} == {"as assumed", *fork_wait.ASSUMED}
    # the gain follows from a number that the paper does not give: how much of the build is sequential
    gains = [points[p]["s1"] for p in (("recipes", 0.25), ("as assumed", 0), ("recipes", 2.0))]
    assert gains[0] < 0.75 * gains[1] < gains[2]


def test_what_follows_from_the_assumed_number_of_recipes_is_no_prediction():
    kinds = {a.id: a.kind for a in fork_wait.attempts(load(), [1])}
    assert kinds["carver.kbuild_sched_gain"] == kinds["carver.s1_energy"] == "assumed"
    assert kinds["carver.kbuild_full_gain"] == "predicted"


def test_an_unknown_part_names_all_parts():
    with pytest.raises(UsageError, match="walcher, carver, sites, newidle, proofs and all"):
        scorecard.attempts(["nonsense"], load(), scorecard.read_calibration(), [1])
