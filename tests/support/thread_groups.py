"""Recordings of groups of threads under one policy, compared with their replays (workload/thread_groups.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import permutations

import polars as pl

from wastedcores.trace.trace import Trace

_START = re.compile(r"group (\d+) start")


@dataclass
class Group:
    """One group of a recording or of a replay."""

    cpu: int  #: the CPU on which the main program was when it started the group
    #: the first and the last completion, in seconds from the start of the group
    first_s: float = 0.0
    last_s: float = 0.0
    #: for each CPU its threads in the order in which they came, numbered by their first arrival on that CPU
    switches: dict[int, list[int]] = field(default_factory=dict)


def groups_of(trace: Trace) -> dict[int, Group]:
    """Read the groups of a recording or of a replay.

    The threads of a group are equal, and which of two that end within microseconds ends first is chance. Therefore threads
    are numbered anew on each CPU. The main program, which runs for microseconds after each completion, and tasks that do not
    belong to the program are left out.
    """
    events = (
        trace.events.filter(pl.col("kind").is_in(["mark", "fork", "exit", "switch"]))
        .select("ts_ns", "kind", "cpu", "pid", "by_pid", "text")
        .collect()
    )
    out: dict[int, Group] = {}
    threads: set[int] = set()
    came: dict[int, list[int]] = {}
    begin, main, group = 0, -1, Group(-1)
    for ts, kind, cpu, pid, by, text in events.iter_rows():
        if kind == "mark" and (found := _START.search(text or "")):
            begin, main, threads, came = ts, pid, set(), {}
            group = out[int(found[1])] = Group(cpu)
        elif kind == "fork" and by == main:
            threads.add(pid)
        elif kind == "exit" and pid in threads:
            group.last_s = (ts - begin) / 1e9
            group.first_s = group.first_s or group.last_s
        elif kind == "switch" and pid in threads:
            row, here = group.switches.setdefault(cpu, []), came.setdefault(cpu, [])
            if pid not in here:
                here.append(pid)
            if not row or row[-1] != here.index(pid):
                row.append(here.index(pid))
    return out


def in_order(recorded: dict[int, Group], replayed: dict[int, Group]) -> dict[int, float]:
    """Return, for each recorded CPU, the share of the switches that the replay has in the same order.

    The CPUs of a group are assigned to each other as they agree best, because threads that end together make CPUs take the
    waiting ones in an order that is chance.
    """
    cpus = sorted({c for g in (*recorded.values(), *replayed.values()) for c in g.switches})
    same, total = dict.fromkeys(cpus, 0), dict.fromkeys(cpus, 0)
    for n, group in recorded.items():
        mine = [group.switches.get(c, []) for c in cpus]
        other = [replayed[n].switches.get(c, []) for c in cpus]
        common = [[_common(a, b) for b in other] for a in mine]
        best = max(
            permutations(range(len(cpus))), key=lambda p: sum(common[i][j] for i, j in enumerate(p))
        )
        for i, j in enumerate(best):
            same[cpus[i]] += common[i][j]
            total[cpus[i]] += max(len(mine[i]), len(other[j]))
    return {c: same[c] / max(total[c], 1) for c in cpus}


def _common(a: list[int], b: list[int]) -> int:
    """Return how many switches both have in the same order."""
    return sum(m.size for m in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())
