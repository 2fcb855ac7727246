"""Each bug against the invariant, over 20 seeds: episodes persist with the bug, and with the fix no more than on real kernels.

The behaviour of real kernels is in the recordings (datasets/recordings, and ``wastedcores check`` of each over the measured
window): the length of the longest episode in ms, and the number of episodes that lasted 100 ms, the paper's M. The recordings
show three things that a replay has to show as well, so the test does not demand that a fix leaves no episode:

* the group imbalance patch alone leaves one episode of nearly the whole run (``gi-gi``); with all fixes none is left;
* the published group construction patch lets up to 136 ms pass until every thread has a CPU, if they begin on node 1
  (``lu10ms-sgclit``), and up to 56 ms if they begin on node 2 (``gc-sgclit``, ``lu1ms-sgclit``);
* curing only the missing domains leaves one of 282 ms (``ms-msd``).

Overload on wakeup makes many short episodes, none of 100 ms, also on real kernels. There the test compares the share of the
time, and how many episodes are longer than 2 ms, which is one round of work. The longest of a thousand episodes is one event:
2.3 ms as recorded with the fix (and 2.4 with all fixes), 2.2 to 3.9 in 30 replays.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import polars as pl
import pytest

from wastedcores.invariant import check
from wastedcores.simulator import replay_scenario
from wastedcores.workload.scenarios import scenario
from wastedcores_studies.recordings.agreement import agrees

MACHINE = "bd-paper-64"
SEEDS = range(1, 21)
ALL = "v4.1+group_imbalance:patch+group_construction+overload_on_wakeup:patch+missing_domains:patch"
OOW = "v4.1+overload_on_wakeup:patch"
GC = "v4.1+group_construction:patch"


class Real(NamedTuple):
    """The facts of a recording: persistent episodes, the longest episode in ms, the share of the time with an episode.

    For a database also the number of episodes longer than a round of work, for pinned threads the number of those on node 2
    after three jiffies.
    """

    persistent: int
    longest_ms: float
    share: float
    rounds: int | None = None
    on_node_2: int | None = None


#: scenario, kernel -> the recording
REAL = {
    ("recorded-gi", "v4.1"): Real(1, 3159.9, 0.983),
    ("recorded-gi", "v4.1+group_imbalance:patch"): Real(1, 2972.6, 0.985),
    ("recorded-gi", ALL): Real(0, 5.4, 0.124),
    ("recorded-gc", "v4.1"): Real(1, 3000.4, 1.0),
    ("recorded-gc", GC): Real(0, 55.9, 0.021),
    ("recorded-ms", "v4.1"): Real(1, 3002.4, 1.0),
    ("recorded-ms", "v4.1+missing_domains:patch"): Real(1, 282.3, 0.118),
    ("recorded-db", "v4.1"): Real(0, 3.3, 0.430, rounds=75),
    ("recorded-db", OOW): Real(0, 2.3, 0.177, rounds=11),
    ("recorded-db", ALL): Real(0, 2.4, 0.162, rounds=11),
}
#: the cure of each bug, as recorded, and the largest number of 100 ms episodes in a recording with it
CURES = [
    ("recorded-gi", ALL, 0),
    ("recorded-gc", GC, 1),
    ("recorded-ms", "v4.1+missing_domains:patch", 1),
]
#: the recordings of the group construction patch on 64 CPUs: lu10ms-sgclit, gc-sgclit, lu1ms-sgclit
PATCHED = [
    Real(1, 135.8, 0.195, on_node_2=2),
    Real(0, 55.9, 0.021, on_node_2=11),
    Real(0, 39.8, 0.120, on_node_2=10),
]

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
        lengths = c.episodes["end_ns"] - c.episodes["start_ns"]
        out.append(
            Real(
                persistent,
                c.longest_ns / 1e6,
                c.wall_ns / c.duration_ns,
                int((lengths > 2_000_000).sum()),
                on_node_2(r.trace, c.start_ns + 12_500_000) if name == "recorded-gc" else None,
            )
        )
    return out


def on_node_2(trace, until_ns):
    """Count the threads on CPUs 16 to 23 at a moment: each one is where it was last enqueued or moved to."""
    events = trace.only("wakeup_new", "wakeup", "migrate").collect()
    events = events.filter((pl.col("comm") == "ep") & (pl.col("ts_ns") <= until_ns))
    return int(events.group_by("pid").last()["cpu"].is_between(16, 23).sum())


@pytest.mark.parametrize(("name", "cure", "most"), CURES)
def test_persistent_with_the_bug__and_no_more_than_recorded_with_the_fix(name, cure, most):
    assert all(r.persistent >= 1 for r in replayed(name, "v4.1"))
    fixed = replayed(name, cure)
    assert all(r.persistent <= most for r in fixed)
    bug = min(r.longest_ms for r in replayed(name, "v4.1"))
    assert max(r.longest_ms for r in fixed) < bug / 5


def test_group_construction_patch__as_long_as_recorded_from_where_the_threads_begin():
    fixed = replayed("recorded-gc", GC)
    sides = [[r for r in fixed if (r.on_node_2 >= 8) == there] for there in (False, True)]
    assert min(map(len, sides)) >= 5
    for real in PATCHED:
        found = [r.longest_ms for r in sides[real.on_node_2 >= 8]]
        assert agrees(real.longest_ms, found), (real, sorted(found))
    # episodes persist where the threads begin on node 1: only the widest level, every 64 ms or more, leads to node 2
    assert sum(r.persistent for r in sides[0]) > sum(r.persistent for r in sides[1])
    assert sum(r.persistent for r in fixed) < len(fixed) / 2


@pytest.mark.parametrize(
    ("name", "kernel"), [c for c in REAL if c not in (("recorded-db", OOW), ("recorded-db", ALL))]
)
def test_longest_episode_is_the_recorded_one(name, kernel):
    found = [r.longest_ms for r in replayed(name, kernel)]
    assert agrees(REAL[name, kernel].longest_ms, found), sorted(found)


@pytest.mark.parametrize("kernel", ["v4.1", OOW, ALL])
def test_overload_on_wakeup__share_of_the_time_and_long_episodes(kernel):
    real, found = REAL["recorded-db", kernel], replayed("recorded-db", kernel)
    assert agrees(real.share, [r.share for r in found]), sorted(r.share for r in found)
    assert agrees(real.rounds, [r.rounds for r in found]), sorted(r.rounds for r in found)


def test_overload_on_wakeup__less_with_the_fix_at_every_seed():
    bug, fixed = (replayed("recorded-db", k) for k in ("v4.1", OOW))
    assert all(b.share > f.share for b, f in zip(bug, fixed, strict=True))
