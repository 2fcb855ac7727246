"""Provokes a violation and proves from /proc that it was there, so that silence of the checker can be called a miss."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wastedcores.capture.demonstration import balancing_off, pile_up, push_work_away
from wastedcores.capture.soak.witness import Witness, run_delay_ns

#: one attempt holds for so long; attempts are repeated until one is established, at most for REPEAT_S
HOLD_S, REPEAT_S = 6.0, 60.0
STEP_S = 0.1
#: the share of each step for which the CPU must be idle, and the others wait, to count as established
IDLE_SHARE, WAIT_SHARE = 0.9, 0.8
#: the share of the whole time for which the CPU must be idle. The checker drops a suspicion if three of its 21 looks find no
#: idle CPU. Other work on the CPU for a tenth of the time makes it do so in one of three cases, for 2 % in one of a hundred
IDLE_IN_ALL = 0.98
BUSY_CPU, IDLE_CPU = 0, 1


def provoke(
    witness: Witness, needed_s: float, end: threading.Event, raised: Callable[[int], bool]
) -> dict[str, Any]:
    """Turn load balancing off while three processes pile up on one CPU, until the witness has seen the violation.

    A busy machine may leave no CPU idle for so long. Then it is tried again, unless the checker has raised an alarm already.
    """
    start_ns, attempts, held = time.monotonic_ns(), 0, 0.0
    until = time.monotonic() + REPEAT_S
    while not attempts or (held < needed_s and time.monotonic() < until and not raised(start_ns)):
        if end.is_set():
            break
        attempts += 1
        with balancing_off():
            push_work_away(IDLE_CPU)
            with pile_up(3, HOLD_S + 1, BUSY_CPU) as forker:
                held = max(held, longest_hold(witness, forker, needed_s, end))
    return {
        "start_ns": start_ns,
        "end_ns": time.monotonic_ns(),
        "established": held >= needed_s,
        "attempts": attempts,
        "held_s": round(held, 1),
    }


def longest_hold(witness: Witness, forker: int, needed_s: float, end: threading.Event) -> float:
    """Return for how long the CPU was idle beside the waiting processes; stop as soon as it is long enough."""
    longest = 0.0
    until = time.monotonic() + HOLD_S
    before_ns, waited_ns = time.monotonic_ns(), children_waited_ns(forker)
    began_ns = before_ns
    while time.monotonic() < until and longest < needed_s and not end.is_set():
        time.sleep(STEP_S)
        now_ns, now_waited_ns = time.monotonic_ns(), children_waited_ns(forker)
        waiting = (now_waited_ns - waited_ns) / (now_ns - before_ns)
        idle = _idle(witness, before_ns - 30_000_000, now_ns)
        if (
            waiting >= WAIT_SHARE
            and idle >= IDLE_SHARE
            and _idle(witness, began_ns, now_ns) >= IDLE_IN_ALL
        ):
            longest = max(longest, (now_ns - began_ns) / 1e9)
        else:
            began_ns = now_ns
        before_ns, waited_ns = now_ns, now_waited_ns
    return longest


def _idle(witness: Witness, start_ns: int, end_ns: int) -> float:
    """Return the share of a span for which the CPU was idle or had only work of the checker, at most; idle time has ticks."""
    reading = witness.between(start_ns, end_ns)
    if reading is None:
        return 0.0
    return reading.idle.get(IDLE_CPU, 0.0) + reading.own + 0.01 / reading.seconds


def children_waited_ns(forker: int) -> int:
    """Return for how long the forker's children have waited so far."""
    try:
        children = Path(f"/proc/{forker}/task/{forker}/children").read_text().split()
    except OSError:
        return 0
    return sum(run_delay_ns(int(c), int(c)) for c in children)
