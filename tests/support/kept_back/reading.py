"""A recording (ftrace text) or a replay as one list of events."""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import polars as pl

SWITCH, WAKE, NEW, MIGRATE, BIND = range(5)


class Event(NamedTuple):
    """One event: of a switch, ``task`` comes and ``other`` goes (runnable or not); of BIND, ``other`` is a set of CPUs."""

    ts_ns: int
    kind: int
    cpu: int
    task: int
    other: int
    runnable: bool


@dataclass(frozen=True)
class Run:
    """Events in order of time, names of tasks, and the measured window in ns."""

    events: list[Event]
    names: dict[int, str]
    window: tuple[int, int]


class Aside(NamedTuple):
    """A kernel thread that ran when the measured window began: its name, its CPU, and how long it ran inside the window."""

    comm: str
    cpu: int
    ns: int


_LINE = re.compile(r" *.+-(\d+) +\[(\d+)\] \S+ +(\d+)\.(\d{6}): (\w+): ?(.*)")
_SWITCH = re.compile(
    r"prev_comm=(.*) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) "
)
_WAKE = re.compile(r"comm=(.*) pid=(\d+) prio=-?\d+ (?:success=\d+ )?target_cpu=(\d+)")
_MOVE = re.compile(r"comm=(.*) pid=(\d+) prio=-?\d+ orig_cpu=(\d+) dest_cpu=(\d+)")


def cpus(text: str) -> list[int]:
    """Return the CPUs of a list such as 0-3,8."""
    out = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        out += range(int(first), int(last or first) + 1)
    return out


def bits(numbers: list[int]) -> int:
    """Return a set of CPUs as a number with one bit per CPU."""
    return sum(1 << n for n in numbers)


def meta_of(folder: Path) -> dict:
    """Return what is known of a recording."""
    return json.loads((folder / "meta.json").read_text())


def recorded(folder: Path) -> Run:
    """Read a recording."""
    events, names, marks = [], {}, []
    with lzma.open(folder / "trace.txt.xz", "rt", errors="replace") as lines:
        for line in lines:
            found = _LINE.match(line)
            if not found:
                continue
            pid, cpu, seconds, micros, kind, rest = found.groups()
            ts = int(seconds) * 10**9 + int(micros) * 1000
            if kind == "sched_switch" and (m := _SWITCH.match(rest)):
                gone, came = int(m[2]), int(m[5])
                names[gone], names[came] = m[1], m[4]
                events.append(Event(ts, SWITCH, int(cpu), came, gone, m[3].startswith("R")))
            elif kind in ("sched_wakeup", "sched_wakeup_new") and (m := _WAKE.match(rest)):
                names.setdefault(int(m[2]), m[1])
                which = NEW if kind.endswith("new") else WAKE
                events.append(Event(ts, which, int(m[3]), int(m[2]), 0, False))
            elif kind == "sched_migrate_task" and (m := _MOVE.match(rest)):
                names.setdefault(int(m[2]), m[1])
                events.append(Event(ts, MIGRATE, int(m[4]), int(m[2]), int(m[3]), False))
            elif kind == "tracing_mark_write":
                _mark(rest.removeprefix("rec: "), ts, int(cpu), int(pid), events, marks)
    return Run(events, names, _window(marks, events[-1].ts_ns))


def replayed(replay) -> Run:
    """Read the trace of a replay."""
    names = {0: "swapper"} | dict(replay.tasks.select("pid", "comm").iter_rows())
    return of_trace(replay.trace, names, replay.raw.end_ns)


def of_trace(trace, names: dict[int, str], last: int) -> Run:
    """Read a trace whose tasks have these names, and which ends at ``last``."""
    kinds = {"switch": SWITCH, "wakeup": WAKE, "wakeup_new": NEW, "migrate": MIGRATE, "mark": -1}
    columns = ("ts_ns", "kind", "cpu", "pid", "prev_pid", "prev_state", "src_cpu", "op", "text")
    words = [pl.col(c).cast(pl.String) for c in ("kind", "prev_state", "op", "text")]
    rows = trace.only(*kinds).select(columns).with_columns(words).collect()
    events, marks = [], []
    for ts, kind, cpu, pid, gone, state, source, op, text in rows.iter_rows():
        which = kinds[kind]
        if which == SWITCH:
            events.append(Event(ts, SWITCH, cpu, pid, gone or 0, (state or "").startswith("R")))
        elif which == -1:
            _mark(text, ts, cpu or 0, pid or 0, events, marks)
        elif which != MIGRATE:
            events.append(Event(ts, which, cpu, pid, 0, False))
        elif op != "fork":
            events.append(Event(ts, MIGRATE, cpu, pid, source or 0, False))
    return Run(events, names, _window(marks, last))


def _mark(text: str, ts: int, cpu: int, pid: int, events: list[Event], marks: list) -> None:
    bound = re.match(r"aff ([\d,-]+)", text)
    if bound:
        events.append(Event(ts, BIND, cpu, pid, bits(cpus(bound[1])), False))
    else:
        marks.append((ts, text.strip()))


def _window(marks: list[tuple[int, str]], last: int) -> tuple[int, int]:
    start = next(ts for ts, text in marks if text.endswith(" start"))
    return start, next((ts for ts, text in marks if text.endswith(" end")), last)


def running_aside(
    run: Run, known: Callable[[str], object], least_ns: int = 1_000_000
) -> list[Aside]:
    """Return the tasks that ran when the window began, that are not ``known``, and that ran for ``least_ns`` of it or more."""
    start, end = run.window
    began: dict[int, int] = {}
    first: dict[int, int] = {}
    total: Counter[int] = Counter()
    for e in sorted(run.events, key=lambda e: e.ts_ns):
        if e.kind == SWITCH:
            if e.ts_ns > start and began.get(e.cpu, start) <= start:
                first.setdefault(e.other, e.cpu)
            total[e.other] += max(0, min(e.ts_ns, end) - max(began.get(e.cpu, start), start))
            began[e.cpu] = e.ts_ns
    aside = (Aside(run.names[pid], cpu, total[pid]) for pid, cpu in first.items() if pid)
    return [a for a in aside if a.ns >= least_ns and not known(a.comm)]
