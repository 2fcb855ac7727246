"""The compiled scanner of babeltrace2's text and the patterns give the same events, or refuse the same line."""

from __future__ import annotations

import random
import re
from pathlib import Path

import polars as pl
import pytest

from wastedcores.errors import TraceFormatError
from wastedcores.trace.readers import ctf_jit
from wastedcores.trace.readers.ctf import CtfReading
from wastedcores.trace.readers.text import scan

TASK = 'comm = "{0}", {1}id = {2}, prio = {3}'
PERF = (
    "perf_ip = 0xFFFFFFFF821FACD8, perf_tid = 7, perf_pid = 7, common_flags = {4}, common_pid = 7, "
)
SWITCH = (
    'prev_comm = "{0}", prev_{1}id = {2}, prev_prio = {3}, prev_state = {5}, next_comm = "b", '
    "next_{1}id = 9, next_prio = 120"
)
#: what follows the names of events, as perf (p) and LTTng (t) write them
EVENTS = {
    "sched_switch": SWITCH,
    "sched_wakeup": TASK + ", success = 1, target_cpu = {6}",
    "sched_wakeup_new": TASK + ", target_cpu = {6}",
    "sched_waking": TASK + ", target_cpu = {6}",
    "sched_migrate_task": TASK + ", orig_cpu = {6}, dest_cpu = 3",
    "sched_process_exit": TASK,
    "sched_process_fork": 'parent_comm = "{0}", parent_{1}id = {2}, child_comm = "new", child_{1}id = 99',
    "sched_stat_runtime": 'comm = "{0}", {1}id = {2}, runtime = 5',
    "cpu_idle": "state = {5}, cpu_id = {6}",
    "power_cpu_idle": "state = {5}, cpu_id = {6}",
    "syscall_entry_read": 'fd = 3, buf = 0x7FFC, path = "{0}"',
}
NAMES = (
    "a",
    "kworker/0:1H",
    "mig/12",
    "a b = 3, c",
    "x} {",
    "fifteen-letters",
    "sixteen--letters",
    "",
    r"a\"b",
    r"\\",
    "é",
)
NUMBERS = (
    "0", "1", "120", "007", "-1", "0x1f", "0x1F", "2147483647", "2147483648", "4294967295", "9" * 19,
    '( "X" : container = 2 )', "1.5", "z",
)  # fmt: skip
USUAL = ("0", "1", "2", "3", "20", "-101")


def line(rng: random.Random, lttng: bool) -> str:
    """Return a line; one value in about six is unusual."""
    event, fields = rng.choice(list(EVENTS.items()))
    numbers = [rng.choice(NUMBERS if rng.random() < 0.16 else USUAL) for _ in range(5)]
    states = ("0", "1", "2", "64", "128", "256", "512", "1026", "4294967295")
    state = rng.choice(states) if rng.random() < 0.9 else numbers[4]
    payload = (fields if lttng else PERF + fields).format(
        rng.choice(NAMES), "t" if lttng else "p", numbers[0], numbers[1], numbers[2], state, numbers[3]
    )  # fmt: skip
    context = rng.choice(("{ cpu_id = 1 }, ", "{ cpu_id = 2 }, ", "{ cpu_id = -1 }, "))
    if lttng and rng.random() < 0.3:
        context += '{ vtid = 5, procname = "w" }, '
    host = rng.choice(("host ", "h.o:st ", "")) if lttng else ""
    name = f"{host}{'' if lttng else 'sched:'}{event}"
    made = f"[{rng.randrange(10**6)}.{rng.randrange(10**9):09d}] {name}: {context}{{ {payload} }}"
    if rng.random() < 0.15:
        at, n = rng.randrange(len(made)), rng.randrange(1, 9)
        made = made[:at] + made[at + n :]
    return re.sub("success = 1", f"success = {rng.randrange(2)}", made)


def read(text: str, lttng: bool, monkeypatch: pytest.MonkeyPatch, fast: bool) -> tuple:
    """Return the events of a text, and how many lines were left to the patterns; or why it is refused."""
    monkeypatch.setattr(scan, "WORTHWHILE_BYTES", 0 if fast else 1 << 40)
    reading = CtfReading(Path("lines"))
    reading._lttng = lttng
    scanned = scan.Scanner(ctf_jit.scan, lttng).scan(reading._block(text.encode(), 1))
    try:
        table = scan.merge(scanned.events, reading._events(scanned.rest))
    except TraceFormatError as e:
        return str(e), scanned.rest.height
    scan.count(scanned, reading.found)
    filled = [c for c in table.columns if table[c].is_not_null().any()]
    rows = table.select(pl.col(sorted(filled)).cast(pl.String)).rows(named=True)
    return rows, scanned.rest.height, dict(reading.found.skipped), reading.found.every_switch


@pytest.mark.slow
@pytest.mark.parametrize("lttng", [False, True])
def test_lines_are_read_in_the_same_way(lttng, monkeypatch):
    rng = random.Random(f"lines {lttng}")
    read_fast = refused = 0
    for _ in range(250):
        text = line(rng, lttng) + "\n"
        patterns, compiled = (read(text, lttng, monkeypatch, fast) for fast in (False, True))
        assert compiled[0] == patterns[0], text
        assert compiled[2:] == patterns[2:], text
        read_fast += compiled[1] == 0
        refused += isinstance(compiled[0], str)
    assert read_fast > 50
    assert refused > 8


def test_the_usual_lines_are_read_by_the_compiled_code(monkeypatch):
    fields = [
        f"[5.{n:09d}] sched:{event}: {{{{ cpu_id = 1 }}}}, {{{{ {PERF}{f} }}}}\n"
        for n, (event, f) in enumerate(EVENTS.items())
    ]
    usual = "".join(fields).format("a", "p", 3, 120, 1, 1, 2)
    rows, left, skipped, _ = read(usual, False, monkeypatch, fast=True)
    assert len(rows) == 9
    assert left == 2  # the fork and the system call
    assert skipped == {"sched_stat_runtime": 1, "syscall_entry_read": 1}
