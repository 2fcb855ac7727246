"""How much longer work takes under another kernel: recorded in guests, and predicted from the trace of the first kernel alone.

    PYTHONPATH=.:tests python -m support.predicted_changes [--seeds N] [--only NAME]

prints what a fork costs under both kernels, and the table of docs/what-if.md, with the part of a change that the forks explain.
Wanted are the emulator, debian:6.1.192 and debian:6.12.107 (``wastedcores guest``).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import polars as pl

import wastedcores
from wastedcores.guest import find_kernel
from wastedcores.guest.boot import Options
from wastedcores.guest.jobs import scenario_work
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.record import record_all
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.trace.trace import Trace
from wastedcores.workload import Script, Workload
from wastedcores.workload.file import write_workload

US, MS = 1_000, 1_000_000
OLD, NEW = "6.1.192", "6.12.107"
#: what Debian's packages boot: the older one without autogroups
MODELS = {OLD: f"v{OLD}+noautogroup", NEW: f"v{NEW}"}


def barrier(parties: int) -> Workload:
    """Return threads that meet at a barrier 300 times."""
    w = Workload(f"barrier-{parties}")
    body = (
        Script().loop(300).compute(1800 * US, 2200 * US).barrier(w.barrier(parties), "block").end()
    )
    shell = Script().session(w.session()).sleep(200 * MS).mark("begin").loop(parties)
    w.task("shell", shell.fork(w.template("b", body)).end().wait_children(0).mark("end"))
    return w


def storm(jobs: int, at_once: int, costs_us: tuple[float, float] = (0, 0)) -> Workload:
    """Return a parent with many short children, as make has them.

    A replay charges nothing for a fork, so ``costs_us`` has what it costs the parent and the child in a guest.
    """
    w = Workload(f"storm-{jobs}")
    fork_ns, child_ns = (int(us * US) for us in costs_us)
    body = Script().compute(child_ns) if child_ns else Script()
    job = w.template("cc1", body.compute(1 * MS, 5 * MS))
    shell = Script().session(w.session()).sleep(200 * MS).mark("begin").loop(jobs)
    shell = shell.compute(fork_ns) if fork_ns else shell
    shell.fork(job).wait_children(at_once - 1).end()
    w.task("shell", shell.wait_children(0).mark("end"))
    return w


#: name -> what makes the work, with what, and the machine on which it was recorded
WORK: dict[str, tuple[Callable[..., Workload], tuple[int, ...], str]] = {
    "barrier of 8 threads, 8 CPUs": (barrier, (8,), "uma8"),
    "barrier of 16 threads, 16 CPUs": (barrier, (16,), "bd-paper-16"),
    "fork storm, 8 CPUs": (storm, (900, 16), "uma8"),
    "fork storm, 16 CPUs": (storm, (1200, 32), "bd-paper-16"),
}


class Change(NamedTuple):
    """The change of the time from one kernel to another, as a share of it."""

    work: str
    since: str
    to: str
    recorded: float
    noise: float  #: half of the recordings' range, of both kernels together, as a share of the time
    predicted: float  #: the mean of what the traces of the first kernel tell
    by_forks: float  #: what the costs of a fork change, in replays of the second kernel; no scheduler can predict it


def window(trace: Trace) -> tuple[int, int]:
    """Return the times of the two marks."""
    begin, end = trace.only("mark").collect()["ts_ns"].to_list()
    return begin, end


def recorded(
    work: Workload, package: str, machine: Machine, seeds: Iterable[int], boot: int = 0
) -> list[Trace]:
    """Record the work with each seed, one after the other in one boot of a guest.

    A guest always boots in the same way. The kernel ignores the parameter that ``boot`` sets, but another number changes the
    timing of the boot, so the scheduler's state after the boot is another one.
    """
    on = guest_machine(machine)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.json"
        write_workload(work, file)
        works = [scenario_work(str(file), on, seed, None, None) for seed in seeds]
        return record_all(
            works,
            find_kernel(f"debian:{package}"),
            on,
            Options(parameters=f"boot={boot}" if boot else ""),
        )


def fork_costs(package: str, machine: Machine) -> tuple[float, float]:
    """Return the CPU time in us that a short process costs its parent and itself in a guest, beyond what it costs in a replay.

    Twice as many children as CPUs live at once. So the CPUs are busy, and the parent copies the pages to which it writes.
    """
    w = Workload("forks")
    child = w.template("child", Script().compute(3 * MS))
    parent = Script().sleep(200 * MS).mark("begin").loop(400).fork(child)
    w.task("parent", parent.wait_children(2 * machine.cpus - 1).end().wait_children(0).mark("end"))
    in_guest = _each_us(recorded(w, package, machine, [1])[0])
    in_replay = _each_us(replay(w, machine, MODELS[package], 1, load=False).trace)
    return in_guest[0] - in_replay[0], in_guest[1] - in_replay[1]


def _each_us(trace: Trace) -> tuple[float, float]:
    """Return the CPU time per fork of those who fork, and of their children."""
    begin, end = window(trace)
    clipped = pl.col("ts_ns").clip(begin, end)
    ran = trace.only("switch").collect().with_columns(ns=clipped.diff().shift(-1).over("cpu"))
    forks = trace.only("fork").filter(pl.col("ts_ns").is_between(begin, end)).collect()
    parents, children = (
        ran.filter(pl.col("pid").is_in(forks[column].implode()))["ns"].sum()
        for column in ("by_pid", "pid")
    )
    return parents / forks.height / US, children / forks.height / US


def by_forks(name: str, costs_us: dict[str, tuple[float, float]], since: str, to: str) -> float:
    """Return the change of the time from one kernel to another if only the costs of a fork were other ones; 0 without forks."""
    make, sizes, preset = WORK[name]
    if make is not storm:
        return 0.0
    took = {k: [] for k in (since, to)}
    for kernel, seed in product(took, range(1, 41)):  # with five seeds, chance is a whole per cent
        work = storm(*sizes, costs_us[kernel])
        run = replay(work, Machine.preset(preset), MODELS[to], seed, load=False)
        begin, end = window(run.trace)
        took[kernel].append(end - begin)
    return statistics.mean(took[to]) / statistics.mean(took[since]) - 1


def changes(name: str, seeds: range) -> Iterator[Change]:
    """Yield by how much the time changes from the older kernel to the newer one, and from the newer to the older."""
    make, sizes, preset = WORK[name]
    work, machine = make(*sizes), Machine.preset(preset)
    costs_us = {k: fork_costs(k, machine) for k in (OLD, NEW)} if make is storm else {}
    traces = {k: [recorded(work, k, machine, [s], s)[0] for s in seeds] for k in (OLD, NEW)}
    took = {k: [end - begin for begin, end in map(window, found)] for k, found in traces.items()}
    mean = {k: statistics.mean(times) for k, times in took.items()}
    noise = sum((max(t) - min(t)) / 2 for t in took.values()) / mean[OLD]
    for since, to in ((OLD, NEW), (NEW, OLD)):
        told = [
            wastedcores.whatif(trace, to=[f"v{to}"], between=window(trace))
            for trace in traces[since]
        ]
        predicted = [t.variants[0].window_ns.median / t.itself.window_ns.median - 1 for t in told]
        change, by_cost = mean[to] / mean[since] - 1, by_forks(name, costs_us, since, to)
        yield Change(name, since, to, change, noise, statistics.mean(predicted), by_cost)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="only the work whose name contains this")
    asked = parser.parse_args()
    for package in (OLD, NEW):
        print(
            "{}: a fork costs {:.0f} us, and the child {:.0f} us".format(
                package, *fork_costs(package, Machine.preset("uma8"))
            )
        )
    print("| work | from | to | recorded (noise) | by the costs of forks | predicted |")
    print("|---|---|---|---|---|---|")
    for each in (name for name in WORK if asked.only in name):
        for c in changes(each, range(1, 1 + asked.seeds)):
            print(
                f"| {c.work} | {c.since} | {c.to} | {c.recorded:+.1%} ({c.noise:.1%}) | {c.by_forks:+.1%} "
                f"| {c.predicted:+.1%} |",
                flush=True,
            )
