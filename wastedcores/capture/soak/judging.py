"""Explains an alarm of the online checker from the witness's reading: was there an idle CPU beside a waiting task?"""

from __future__ import annotations

from typing import Any

from wastedcores.capture.soak.witness import Between, Waited, Witness

#: the CPU was idle for at least this share of the alarm's time, apart from the checker's own work
IDLE_SHARE = 0.8
#: a task waited for at least this share of it
WAIT_SHARE = 0.5
#: a sample may come so late
AROUND_NS = 60_000_000
#: below this share, nothing of the kind was there
NOTHING = 0.1


def explain(alarm: dict[str, Any], witness: Witness) -> dict[str, Any] | None:
    """Judge one alarm."""
    start, end = alarm["began_ns"], alarm["confirmed_ns"]
    waited = witness.waited(start, end)
    if waited is None:
        return None
    reading = witness.between(start, end)
    if reading is None or reading.seconds * 1e9 < (end - start) / 2:
        # on a busy CPU the witness has to wait, too: look at the samples around the alarm
        reading = witness.between(start - AROUND_NS, end + AROUND_NS)
    answer, why = _answer(alarm, reading, waited)
    longest = [[w.comm, w.tid, round(w.delay_ns / 1e6), sorted(w.allowed)] for w in waited[:5]]
    return {
        "answer": answer,
        "why": why,
        "idle_share": round(reading.idle.get(alarm["idle_cpu"], 0.0), 3) if reading else None,
        "own_share": round(reading.own, 3) if reading else None,
        "pressure_share": None
        if reading is None or reading.pressure is None
        else round(reading.pressure, 3),
        "waited_ms": longest,
    }


def _answer(
    alarm: dict[str, Any], reading: Between | None, waited: list[Waited]
) -> tuple[str, str]:
    cpu, lasted_ns = alarm["idle_cpu"], alarm["confirmed_ns"] - alarm["began_ns"]
    if reading is None or reading.seconds * 1e9 < lasted_ns / 3:
        return "unexplained", "the witness did not come to read in time"
    idle = reading.idle.get(cpu)
    if idle is None:
        return "unexplained", f"CPU {cpu} was offline for the witness"
    # the kernel averages this over the CPUs, weighted by how busy they are (kernel/sched/psi.c, collect_percpu_times), so one
    # CPU with a waiting task may count for as little as its share of the CPUs
    pressure = 1.0 if reading.pressure is None else reading.pressure * len(reading.idle)
    could = max((w.delay_ns for w in waited if cpu in w.allowed), default=0) / lasted_ns
    any_task = max((w.delay_ns for w in waited), default=0) / lasted_ns
    tick = 0.01 / reading.seconds  # idle time is told in ticks of 10 ms
    if idle + reading.own + tick >= IDLE_SHARE and idle + tick >= WAIT_SHARE:
        if could >= WAIT_SHARE and pressure >= WAIT_SHARE:
            return "true", f"CPU {cpu} was idle while a task that may run there waited"
        if any_task < NOTHING or pressure < NOTHING:
            return "false", "no task waited"
        if could < NOTHING:
            return "false", f"no task that waited may run on CPU {cpu}"
        return "unexplained", "the tasks waited for a part of the time only"
    if idle + reading.own + tick < NOTHING:
        return "false", f"CPU {cpu} was busy"
    return "unexplained", f"CPU {cpu} was idle for {idle:.0%} of the time"
