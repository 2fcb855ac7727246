"""Who ran while a thread waited, compared with a count of every ns; memory must not grow with the waits times the stays."""

from __future__ import annotations

import resource

import numpy as np
import polars as pl

from wastedcores.analysis.selection import _behind


def table(rows: list[tuple], *names: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["cpu", "start_ns", "end_ns", "pid", *names], orient="row")


def test_each_nanosecond_of_a_wait_counts_for_who_ran_there():
    chance = np.random.default_rng(2)
    stays, waits, ran = [], [], dict.fromkeys(range(5), 0)
    for cpu in range(3):
        who = np.repeat(chance.integers(0, 5, 100), 10)
        waiting = np.repeat(chance.random(100) < 0.5, 10)
        stays += [
            (cpu, 10 * i, 10 * i + 10, int(who[10 * i]), f"t{who[10 * i]}") for i in range(100)
        ]
        edges = np.flatnonzero(np.diff(np.pad(np.roll(waiting, 3), 1).astype(int)))
        waits += [(cpu, int(a), int(b), 9) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        for pid in ran:
            ran[pid] += int((np.roll(waiting, 3) & (who == pid)).sum())
    longest = sorted(ran, key=lambda pid: (-ran[pid], pid))[:3]
    told = _behind(table(waits), table(stays, "comm"), 9)
    assert told == [f"{f't{p}:{p}' if p else 'no task'} ({ran[p]} ns)" for p in longest]
    assert _behind(table([(7, 0, 5, 9)]), table(stays, "comm"), 9) == []


def test_many_waits_on_one_cpu_do_not_need_gigabytes():
    many = 6000
    stays = table([(0, i, i + 1, i % 2 + 1, "ab"[i % 2]) for i in range(2 * many)], "comm")
    waits = table([(0, 2 * i, 2 * i + 1, 2) for i in range(many)])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert _behind(waits, stays, 2) == ["a:1 (6 us)"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
