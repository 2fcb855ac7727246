"""Each bug against the invariant, over 20 seeds: with its flag off episodes persist, with the fix no more than on real kernels.

What real kernels did is in the recordings (shared/traces/guest: their README, and ``wastedcores check`` of each over the
measured window): longest episode in ms, and how many lasted 100 ms, the paper's M. Three things they show and a replay has
to show as well, so that "the fix leaves none" is not what is asked of it:

* the group imbalance patch alone leaves one episode of nearly the whole run (``gi-gi``); with all fixes none is left;
* the published group construction patch lets up to 136 ms pass until every thread has a CPU (``lu10ms-sgclit``);
* missing domains cured alone leaves one of 282 ms (``ms-msd``).

Overload on wakeup makes many short episodes, none of 100 ms on real kernels either: there the share of the time counts.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import pytest

from wastedcores.invariant import check
from wastedcores.replay import replay_scenario
from wastedcores.scenarios import scenario
from wastedcores.studies.agreement import agrees

MACHINE = "bd-paper-64"
SEEDS = range(1, 21)
ALL = "v4.1+group_imbalance:patch+group_construction+overload_on_wakeup:patch+missing_domains:patch"


class Real(NamedTuple):
    """What a recording shows: persistent episodes, longest episode in ms, share of the time with one."""

    persistent: int
    longest_ms: float
    share: float


#: scenario, kernel -> the recording
REAL = {
    ("recorded-gi", "v4.1"): Real(1, 3159.9, 0.983),
    ("recorded-gi", "v4.1+group_imbalance:patch"): Real(1, 2972.6, 0.985),
    ("recorded-gi", ALL): Real(0, 5.4, 0.124),
    ("recorded-gc", "v4.1"): Real(1, 3000.4, 1.0),
    ("recorded-gc", "v4.1+group_construction:patch"): Real(0, 55.9, 0.021),
    ("recorded-ms", "v4.1"): Real(1, 3002.4, 1.0),
    ("recorded-ms", "v4.1+missing_domains:patch"): Real(1, 282.3, 0.118),
    ("recorded-db", "v4.1"): Real(0, 3.3, 0.430),
    ("recorded-db", "v4.1+overload_on_wakeup:patch"): Real(0, 2.3, 0.177),
}
#: the cure of each bug, as recorded, and most episodes of 100 ms that a recording of it has
CURES = [
    ("recorded-gi", ALL, 0),
    ("recorded-gc", "v4.1+group_construction:patch", 1),
    ("recorded-ms", "v4.1+missing_domains:patch", 1),
]
#: longest episode that a recording of the group construction patch has (lu10ms-sgclit), ms
LONGEST_OF_PATCH = 135.9

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@functools.cache
def replayed(name: str, kernel: str) -> list[Real]:
    out = []
    for seed in SEEDS:
        r = replay_scenario(name, kernel, MACHINE, seed)
        measure = scenario(name).workload(r.machine, seed).measure
        assert measure is not None
        c = check(r.trace, between=(measure.start, measure.end))
        persistent = int(c.episodes["persistent"].sum() or 0)
        out.append(Real(persistent, c.longest_ns / 1e6, c.wall_ns / c.duration_ns))
    return out


@pytest.mark.parametrize(("name", "cure", "most"), CURES)
def test_persistent_with_the_bug__and_no_more_than_recorded_with_the_fix(name, cure, most):
    assert all(r.persistent >= 1 for r in replayed(name, "v4.1"))
    fixed = replayed(name, cure)
    assert all(r.persistent <= most for r in fixed)
    bug = min(r.longest_ms for r in replayed(name, "v4.1"))
    assert max(r.longest_ms for r in fixed) < bug / 5


def test_group_construction_patch__most_runs_have_no_persistent_episode():
    fixed = replayed("recorded-gc", "v4.1+group_construction:patch")
    assert sum(r.persistent for r in fixed) < len(fixed) / 2
    assert max(r.longest_ms for r in fixed) < 1.1 * LONGEST_OF_PATCH


@pytest.mark.parametrize(("name", "kernel"), REAL)
def test_longest_episode_is_the_recorded_one(name, kernel):
    found = [r.longest_ms for r in replayed(name, kernel)]
    assert agrees(REAL[name, kernel].longest_ms, found), sorted(found)


def test_overload_on_wakeup__share_of_the_time_with_the_fix():
    kernel = "v4.1+overload_on_wakeup:patch"
    found = [r.share for r in replayed("recorded-db", kernel)]
    assert agrees(REAL["recorded-db", kernel].share, found), sorted(found)


def test_overload_on_wakeup__less_with_the_fix_at_every_seed():
    bug, fixed = (replayed("recorded-db", k) for k in ("v4.1", "v4.1+overload_on_wakeup:patch"))
    assert all(b.share > f.share for b, f in zip(bug, fixed, strict=True))
