"""What newidle balancing costs and gains: changes of throughput published for Linux 5.16 to 7.0, and what replays predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from wastedcores.simulator import replay
from wastedcores.sweep import Run
from wastedcores.topology.machine import Machine
from wastedcores.workload import services
from wastedcores.workload.builder import Workload
from wastedcores_studies.attempts import Attempt, Reading, change, column_of, quotient
from wastedcores_studies.published import Tables

#: the release whose newidle balancing is changed
KERNEL = "v6.12.107"


def _machine(name: str, packages: int, cores: int, smt: int) -> Machine:
    """Return a machine with one node and one last-level cache per package; CPUs are numbered as on Intel's machines."""
    each = packages * cores
    cpus = range(each * smt)
    return Machine.from_dict(
        {
            "name": name,
            "cpus": len(cpus),
            "node_of_cpu": [c % each // cores for c in cpus],
            "core_of_cpu": [c % each for c in cpus],
            "distance": [[10 if a == b else 21 for b in range(packages)] for a in range(packages)],
        }
    )


#: the database in a run of 500 ms, which is so long that the last requests do not matter
_DATABASE = partial(services.database, ms=500)
#: workload -> its machine, and the function that makes it; the machine is that of the report or, if the report describes none, a
#: machine of today
CASES: dict[str, tuple[Machine, Any]] = {
    "schbench": (_machine("one socket of 26 cores", 1, 26, 2), services.schbench),
    "specjbb": (_machine("AmpereOne, 192 cores", 1, 192, 1), _DATABASE),
    "specjbb-l2": (
        replace(
            _machine("AmpereOne, 192 cores", 1, 192, 1), llc_of_cpu=np.arange(192, dtype=np.int32)
        ),
        _DATABASE,
    ),
    "unixbench": (_machine("2 Xeon Gold 6346", 2, 16, 2), services.shell16),
    "apache": (_machine("Xeon 8167M", 1, 8, 2), services.webserver),
}


def throughput(kernel: str, seed: int, case: str) -> dict[str, Any]:
    """Replay one workload under one kernel."""
    machine, make = CASES[case]
    workload: Workload = make(machine, seed)
    done = replay(workload, machine, kernel, seed=seed, load=False)
    calls = done.balance_calls.filter(pl.col("idle") == "newidle")["calls"].sum()
    return {
        "per_s": done.summary.result,
        "attempts_per_s": int(calls) / (done.summary.end_ns / 1e9),
        "busy": float(done.summary.busy_per_cpu.mean()),
        "wall_s": done.raw.wall_s,
    }


TABLE = "newidle_claims"
#: claim -> why no row compares it
WHY_NOT = {
    "hackbench_accounting": "the accounting of avg_idle of 7.1 is not modelled",
}
#: the claims that have a row in this part of the scorecard
COMPARED = (
    *("schbench_old", "schbench_attempts", "schbench_revert", "schbench_random"),
    *(
        "specjbb_bump",
        "specjbb_random",
        "specjbb_set",
        "specjbb_off",
        "unixbench_bump",
        "apache_bump",
    ),
)
_TASK = "wastedcores_studies.newidle:throughput"


def attempts(tables: Tables, seeds: Sequence[int]) -> list[Attempt]:
    """Return the rows that replays attempt. Each row compares two rules; the published change starts from the first rule."""

    def runs(case: str, rule: str) -> list[Run]:
        return [Run.of(_TASK, kernel=f"{KERNEL}+newidle:{rule}", seed=s, case=case) for s in seeds]

    def row(name: str, base: str, changed: str, reason: str) -> Attempt:
        case = name.split("_", maxsplit=1)[0]
        roles = {"bug": runs(case, base), "fixed": runs(case, changed)}
        busy = Reading({"bug": roles["bug"]}, column_of("bug", "busy"))
        value = change("per_s")
        if name == "schbench_attempts":
            value = quotient("bug", "fixed", "attempts_per_s")
        others = {"share of the CPUs' time that is used": busy}
        if case == "specjbb":
            own = {
                role: runs("specjbb-l2", rule) for role, rule in (("bug", base), ("fixed", changed))
            }
            others["with a cache per core"] = Reading(own, change("per_s"))
        place, quantity, unit, published = tables.statement(TABLE, name)
        return Attempt(
            id=f"newidle.{name}", group="newidle", short=name.replace("_", ": "), source="newidle", place=place,
            quantity=quantity, unit=unit, published=published, kind="predicted", reading=Reading(roles, value), reason=reason,
            others=others,
        )  # fmt: skip

    return [
        row("schbench_old", "cost", "migration_cost", _SCHBENCH),
        row("schbench_attempts", "cost", "migration_cost", _ATTEMPTS),
        row("schbench_revert", "bump", "cost", _SCHBENCH),
        row("schbench_random", "bump", "random", _SCHBENCH),
        row("specjbb_bump", "cost", "bump", _JBB),
        row("specjbb_random", "cost", "random", _JBB),
        row("specjbb_set", "bump", "random", _JBB),
        row("specjbb_off", "bump", "cost", _JBB),
        row("unixbench_bump", "cost", "bump", _SHELL),
        row("apache_bump", "cost", "bump", _APACHE),
    ]


_SCHBENCH = (
    "The report does not describe the machine; the replay has one socket of 26 cores with two threads each. Its message "
    "threads are busy all the time and limit the throughput, whatever the workers do while they have nothing to do. What slowed "
    "the real machine down is that newidle balancing reads the runqueues that the message threads write. The replay has no "
    "caches, so it cannot show this; the number of attempts, which it can show, is the row beside."
)
_ATTEMPTS = "A number without digits on a machine that is not described: the direction and the order of magnitude count."
_JBB = (
    "SpecJBB is not replayed itself. Three terminals per CPU send requests of 0.4 ms on average and think for 0.8 ms on average, "
    "both exponentially distributed; these numbers were chosen before the first replay and not fitted. The machine has 192 CPUs "
    "that share a cache. If Linux does not know its system-level cache, each core has a cache of its own, which stands beside."
)
_SHELL = (
    "The replay's processes compute and wait for each other and for nothing else, so 1,024 scripts keep 64 CPUs busy, and there "
    "is no idle time for newidle balancing to use. The real ones also wait for locks of the kernel and of the file system."
)
_APACHE = (
    "A hundred connections keep the replay's 16 CPUs busy, because its threads wait for each other only; there is no idle time "
    "for newidle balancing to use."
)
