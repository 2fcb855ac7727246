"""Compares recordings of a scenario in a guest with its replays over several seeds, and with the noise among recordings."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.guest.boot import Options
from wastedcores.guest.jobs import scenario_work
from wastedcores.guest.kernels import Kernel
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.places import GuestError, tell
from wastedcores.guest.record import record_all
from wastedcores.invariant import check
from wastedcores.kernels import KernelModel, recorded_balancer, recorded_kernel
from wastedcores.shown import Shown
from wastedcores.simulator import replay_scenario
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header
from wastedcores.trace.trace import Trace
from wastedcores.units import number
from wastedcores.workload.scenarios import SCENARIOS

#: what is measured in the window of each run: the name of a quantity -> its name for people
QUANTITIES = {
    "window_s": "window, s",
    "busy_cpus": "busy CPUs",
    "wasted_cpus": "wasted CPUs",
    "idle_while_overloaded_percent": "time in which a CPU idles while threads wait, %",
    "longest_episode_s": "longest episode, s",
    "switches_per_s": "context switches per s",
    "wakeups_per_s": "wakeups per s",
    "migrations_per_s": "migrations per s",
}


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """Recordings of a scenario beside its replays."""

    #: what ran, and on which machine
    scenario: str
    machine: str
    #: the kernel that was booted, and the model that was replayed
    kernel: str
    model: str
    seeds: tuple[int, ...]  #: the seeds of the runs, which recordings and replays share
    #: the values of each run, by the names in :data:`QUANTITIES`; a prediction has fewer values
    recorded: tuple[dict[str, float], ...]
    replayed: tuple[dict[str, float], ...]
    notes: tuple[str, ...] = ()  #: how the recorded runs differ from the replayed ones

    def _facts(self) -> dict[str, str]:
        rows = self.rows()
        said = {
            "scenario": self.scenario,
            "kernel": self.kernel,
            "replay": self.model,
            "machine": self.machine,
        }
        within = sum(row["within_noise"] for row in rows)
        return said | {"within the noise": f"{within} of {len(rows)} quantities"}

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each quantity.

        ``recorded`` and ``replayed`` are means over the seeds, and ``difference`` is the difference of these means. ``noise`` is
        the mean difference of two recordings with different seeds. ``within_noise`` tells whether the means differ by no more
        than the noise.
        """
        return [
            _row(
                name,
                *(sorted(run[name] for run in runs) for runs in (self.recorded, self.replayed)),
            )
            for name in QUANTITIES
            if name in self.replayed[0]
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``wastedcores guest compare --json`` prints."""
        return {
            "schema": "wastedcores.guest_compare/1",
            "scenario": self.scenario,
            "machine": self.machine,
            "kernel": self.kernel,
            "model": self.model,
            "seeds": list(self.seeds),
            "rows": self.rows(),
            "recorded": list(self.recorded),
            "replayed": list(self.replayed),
            "notes": list(self.notes),
        }

    @property
    def text(self) -> str:
        """The comparison as a table for people."""
        lines = [f"{self.scenario} on {self.machine}, seeds {', '.join(map(str, self.seeds))}"]
        lines += [f"  recorded: {self.kernel}; replayed: {self.model}", ""]
        lines.append(
            f"  {'':48} {'recorded':>12} {'replayed':>12} {'difference':>12} {'noise':>12}"
        )
        for row in self.rows():
            cells = (number(row[k]) for k in ("recorded", "replayed", "difference", "noise"))
            line = f"  {QUANTITIES[row['quantity']]:48} " + " ".join(
                f"{cell:>12}" for cell in cells
            )
            lines.append(line if row["within_noise"] else line + "  *")
        lines += [
            "",
            "  noise: mean distance of two recordings with different seeds; * the replay is farther off",
        ]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def _row(name: str, recorded: list[float], replayed: list[float]) -> dict[str, Any]:
    mean, other = statistics.fmean(recorded), statistics.fmean(replayed)
    noise = statistics.fmean(abs(a - b) for a, b in combinations(recorded, 2))
    return {
        "quantity": name,
        "recorded": mean,
        "replayed": other,
        "difference": other - mean,
        "noise": noise,
        "within_noise": abs(other - mean) <= noise,
    }


def compare(
    scenario: str,
    kernel: Kernel,
    machine: Machine,
    *,
    seeds: int = 3,
    given: dict[str, Any] | None = None,
    limit_ns: int | None = None,
    options: Options | None = None,
    kept: Callable[[int, Trace], None] = lambda seed, trace: None,
) -> Comparison:
    """Record a scenario in a guest with several seeds, replay it with the same seeds, and put both side by side.

    To know the noise, at least 2 seeds are needed. ``kept`` is called with the seed and the trace of each recording.
    """
    if seeds < 2:
        raise UsageError(
            f"--seeds {seeds}: expected 2 or more; one recording does not show how far recordings differ."
        )
    options = options or Options()
    on = guest_machine(machine)
    model, notes = _model(kernel, options.features)  # before anything is booted
    numbers = range(1, seeds + 1)
    works = [scenario_work(scenario, on, seed, given, limit_ns) for seed in numbers]
    traces = record_all(works, kernel, on, options)
    for seed, trace in zip(numbers, traces, strict=True):
        kept(seed, trace)
    # if a machine has "(guest)" in its name, the replay uses the costs that were measured in guests
    place = replace(
        on.machine if scenario in SCENARIOS else machine, name=f"{on.machine.name} (guest)"
    )
    replayed = []
    for seed in numbers:
        tell(f"replaying {scenario} under {model}, seed {seed} ...")
        replayed.append(
            measured(replay_scenario(scenario, model, place, seed, given, limit_ns).trace)
        )
    return Comparison(
        scenario, on.machine.name, traces[0].header.kernel_release or kernel.name, model, tuple(numbers),
        tuple(measured(t) for t in traces), tuple(replayed), (*notes, *works[0].notes),
    )  # fmt: skip


def _model(kernel: Kernel, features: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the model that is replayed, and notes on how it differs from the kernel."""
    if not kernel.release:
        raise GuestError(
            f"{kernel.name}: nothing says which release this image is, so no replay can stand beside it. Take a kernel by name, "
            "or record and replay by themselves."
        )
    found = recorded_balancer(kernel.release)
    base = found.nearest if found.replayed else found.stand_in
    if base is None:
        raise GuestError(f"{kernel.name}: no replay may stand beside it: {found.reason}.")
    own, _ = recorded_kernel(kernel.release)
    name = "+".join((own.name if own.is_replayed else base, *features))
    model = KernelModel.named(name)
    if not model.is_replayed:
        raise GuestError(f"{kernel.name}: the replay does not have {name}.")
    said = [] if found.replayed else [found.reason]
    return name, said + ([model.replay_warning] if model.replay_warning else [])


def measured(trace: Trace) -> dict[str, float]:
    """Return the values of one run, for the window that its workload measures or, if there is none, for the whole run."""
    header: Header = trace.header
    window = header.window
    found = check(trace, between=(window.start_ns, window.end_ns) if window else None)
    start, end = (
        (window.start_ns, window.end_ns) if window else (header.start_ns or 0, header.end_ns or 0)
    )
    seconds = (end - start) / 1e9
    inside = trace.events.filter(pl.col("ts_ns").is_between(start, end, closed="left"))
    kinds = dict(inside.group_by(pl.col("kind").cast(pl.String)).len().collect().iter_rows())
    rate = {k: kinds.get(k, 0) / seconds for k in ("switch", "wakeup", "migrate")}
    return {
        "window_s": seconds,
        "busy_cpus": found.mean(found.busy_ns),
        "wasted_cpus": found.mean(found.thread_ns),
        "idle_while_overloaded_percent": 100 * found.mean(found.wall_ns),
        "longest_episode_s": found.longest_ns / 1e9,
        "switches_per_s": rate["switch"],
        "wakeups_per_s": rate["wakeup"],
        "migrations_per_s": rate["migrate"],
    }
