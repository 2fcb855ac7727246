"""Whether two traces can be compared: numbers of another machine or workload say nothing about a fix."""

from __future__ import annotations

from wastedcores.analysis.examined import Examined


def differences(run: Examined, against: Examined) -> list[str]:
    """Return what differs between two traces besides the scheduler, as far as they tell."""
    out = []
    mine, theirs = len(run.result.counted_cpus), len(against.result.counted_cpus)
    if mine != theirs:
        out.append(f"{mine} CPUs count in {run.label} and {theirs} in {against.label}")
    elif run.machine and against.machine and run.machine.nodes != against.machine.nodes:
        out.append(f"the machines have {run.machine.nodes} and {against.machine.nodes} NUMA nodes")
    marks = [r.window.names if r.window else None for r in (run, against)]
    if all(marks) and marks[0] != marks[1]:
        (a, _), (b, _) = marks  # type: ignore[misc]
        out.append(f'the work begins at "{a}" in {run.label} and at "{b}" in {against.label}')
    ran = [r.trace.header.provenance.get("command") for r in (run, against)]
    if all(ran) and ran[0] != ran[1]:
        out.append(f"{run.label} recorded the command {ran[0]} and {against.label} {ran[1]}")
    return out


def not_known_same(run: Examined, against: Examined) -> list[str]:
    """Return what two traces do not tell of each other's machine and workload, so that they may differ in it."""
    runs = (run, against)
    out = [f"{r.label} does not describe its machine" for r in runs if r.machine is None]
    ran = [r.trace.header.provenance.get("command") for r in runs]
    if not all(r.window and r.window.names for r in runs) and not all(ran):
        silent = [
            r.label
            for r, command in zip(runs, ran, strict=True)
            if not command and not (r.window and r.window.names)
        ]
        who = " and ".join(silent) or "a trace"
        out.append(f"{who} {'do' if len(silent) > 1 else 'does'} not say which work was done")
    return out
