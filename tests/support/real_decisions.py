"""Compare each decision of a kernel in a guest with what the engine decides in the same state of the machine.

    PYTHONPATH=.:tests python -m support.real_decisions [--json FILE]

Each wakeup of an existing task is a decision about its CPU. All else is taken from the recording (support/recorded_machine.py),
so one deviation does not change later ones. Wanted are the emulator and the kernels (``wastedcores guest``).
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.recorded_machine import RecordedMachine
from wastedcores.guest import find_emulator, find_kernel
from wastedcores.guest.boot import EVENTS, Options, booted, setup_script
from wastedcores.guest.jobs import numbered, scenario_work
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.record import TRACE, unpack
from wastedcores.kernels import KernelModel
from wastedcores.topology.machine import Machine

#: the name of the kernel's package, the engine's model of it, the machine, the scenario, its parameters, and the seeds
JUDGED = [
    (package, model, machine, scenario, given, range(1, 1 + seeds))
    for package, model in (("debian:6.1.192", "v6.1.192"), ("debian:6.12.107", "v6.12.107"))
    for machine, scenario, given, seeds in (
        ("bd-paper-16", "recorded-db", {"iterations": 300}, 24),
        ("bd-paper-64", "group-imbalance", {"jobs": 2000}, 2),
    )
]


def recordings(package: str, machine: str, scenario: str, given: dict, seeds) -> Iterator[Path]:
    """Boot once, record the scenario with each seed, and yield the files of ftrace text, packed with xz."""
    on = guest_machine(Machine.preset(machine))
    options = Options(buffer_kb=16_384)
    events = ",".join(f"sched/{name}" for name in EVENTS)
    jobs = numbered(scenario_work(scenario, on, seed, given) for seed in seeds)
    jobs |= {
        "setup": setup_script(on, options).encode(),
        "list": "".join(f"{i} {events} {options.buffer_kb}\n" for i in range(len(seeds))).encode(),
    }
    with (
        booted(find_emulator(), find_kernel(package), on, jobs, options) as sent,
        tempfile.TemporaryDirectory() as folder,
    ):
        for got in unpack(sent, Path(folder)):
            assert got.lost() == ({}, {})
            packed = got.root / "trace.xz"
            packed.write_bytes(lzma.compress((got.root / TRACE).read_bytes(), preset=0))
            yield packed


def judged(package: str, model: str, machine: str, scenario: str, given: dict, seeds) -> dict:
    """Return how many decisions there were and how many the engine made as the kernel did, by kind."""
    made, same = Counter(), Counter()
    on = guest_machine(Machine.preset(machine)).machine
    for path in recordings(package, machine, scenario, given, seeds):
        for x in RecordedMachine(path, on, KernelModel.named(model)).placed:
            kinds = [x.kind, *(["moved"] if x.kind != "fork" and x.recorded != x.before else [])]
            made.update(kinds)
            same.update(kinds if x.chosen == x.recorded else [])
    return {
        "kernel": model,
        "workload": f"{scenario} on {machine}",
        "recordings": len(seeds),
        "made": dict(made),
        "same": dict(same),
    }


def row(found: dict) -> str:
    """Return a row of a table."""

    def share(*kinds: str) -> str:
        n, k = (sum(found[which].get(kind, 0) for kind in kinds) for which in ("made", "same"))
        return f"{k:,} of {n:,} ({k / n:.1%})" if n else "none"

    about = [found["kernel"], found["workload"], str(found["recordings"])]
    return f"| {' | '.join([*about, share('wakeup', 'delayed'), share('moved'), share('fork')])} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    print(
        "| kernel | work | recordings | the CPU of a wakeup | of these, on another CPU | the CPU of a fork |"
    )
    print("|---|---|---|---|---|---|")
    for case in JUDGED:
        rows.append(judged(*case))
        print(row(rows[-1]), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n")
