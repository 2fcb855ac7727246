"""What ``wastedcores.whatif`` makes of each recording: itself, and the other kernel of which the same work was recorded.

``PYTHONPATH=.:tests python -m support.kept_back.predicting [--seeds N] [--only NAME]`` prints the table of docs/what-if.md.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import wastedcores as wc
from wastedcores.cpulist import format_cpulist
from wastedcores.errors import WastedCoresError
from wastedcores.prediction.predict import SEEDS

from .judging import recordings
from .measuring import measure, worker
from .reading import Run, meta_of, recorded
from .work import first_cpus, machine_of, model_of

OTHER = {"6.1": "6.12", "6.12": "6.1"}


class Prediction(NamedTuple):
    """One recording: the errors of the replay under its own kernel and under the other one (None: refused), and the trust."""

    run: str
    itself: float | None
    other: float | None
    trust: str


def facts(run: Run, meta: dict) -> list[dict]:
    """Return what a snapshot tells of the tasks: where they may run at first, their nice values, and their sessions.

    The kernel names autogroups also while they are switched off (``proc_sched_autogroup_show_task()``, kernel/sched/autogroup.c,
    v6.1; seen in a guest of Debian's 6.1.0-56).
    """
    online, bound = list(machine_of(meta).online_cpus), first_cpus(meta)
    shell = next(pid for pid, name in run.names.items() if name == "shell")
    groups = {"A": shell + 1, "B": shell + 2}  # grp2 begins with the leaders of its two sessions
    out = []
    for pid, name in run.names.items():
        kind = worker(name)
        if not kind and name != "shell":
            continue
        mask = bound.get(kind)
        allowed = [c for c in online if mask is None or mask >> c & 1]
        fact: dict = {"pid": pid, "comm": name, "allowed": format_cpulist(allowed)}
        if meta["scenario"] == "nicemix" and kind[:1] == "n":
            fact["nice"] = int(kind[1:])
        fact["autogroup"] = f"/autogroup-{groups.get(kind, shell)}"
        out.append(fact)
    return out


def predict(folder: Path, seeds: int = SEEDS) -> Prediction:
    """Predict from one recording."""
    meta = meta_of(folder)
    run, machine = recorded(folder), machine_of(meta)
    beside = folder.with_name(folder.name.removesuffix(meta["variant"]) + OTHER[meta["variant"]])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = wc.whatif(
                folder / "trace.txt.xz",
                machine=machine,
                kernel=model_of(meta),
                to=[model_of(meta_of(beside))],
                between=[f"{ts / 1e9:.6f}" for ts in run.window],
                tasks=facts(run, meta),
                seeds=seeds,
                workers=1,
            )
    except WastedCoresError as refusal:
        return Prediction(folder.name, None, None, f"refused: {refusal}")
    name = "seconds" if found.itself.window_ns is not None else "busy CPUs"
    errors = []
    for of, answer in ((folder, found.itself), (beside, found.variants[0])):
        truth = measure(recorded(of), list(machine.online_cpus), first_cpus(meta_of(of)))[name]
        value = answer.window_ns.median / 1e9 if name == "seconds" else answer.busy_cpus.median
        errors.append(value / truth - 1)
    return Prediction(folder.name, errors[0], errors[1], found.trust)


def report(found: list[Prediction]) -> str:
    """Return the table and the shares as Markdown."""
    answered = [p for p in found if p.itself is not None]
    near = sum(abs(p.itself) <= 0.05 for p in answered)
    other = sum(abs(p.other) <= 0.10 for p in answered)
    rows = [
        f"| {p.run} | {p.itself:+.1%} | {p.other:+.1%} | {p.trust} |"
        if p.itself is not None
        else f"| {p.run} | | | {p.trust} |"
        for p in found
    ]
    return "\n".join(
        [
            f"{len(answered)} of {len(found)} are answered, {near} are within 5 % under their own kernel, and {other} are within "
            "10 % of the recording of the other kernel.",
            "",
            "| recording | itself | the other kernel | trust |",
            "|---|---|---|---|",
            *rows,
        ]
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    found = []
    for folder in recordings():
        if args.only in folder.name:
            found.append(predict(folder, args.seeds))
            print(found[-1], file=sys.stderr, flush=True)
    print(report(found))


if __name__ == "__main__":
    main()
