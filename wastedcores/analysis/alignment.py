"""Two recorded traces on one time axis: which moment of the one is compared with which moment of the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.states import Bins, States
from wastedcores.errors import UsageError


def differences(run: Examined, against: Examined) -> list[str]:
    """Return what differs between two traces besides the scheduler, as far as the traces tell."""
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
    ran = [_command(r) for r in (run, against)]
    if all(ran) and ran[0] != ran[1]:
        out.append(f"{run.label} recorded the command {ran[0]} and {against.label} {ran[1]}")
    return out


def _command(run: Examined) -> str:
    """Return the command that ran while perf recorded, as far as the trace tells it."""
    return run.trace.header.provenance.get("source cmdline", "").partition(" -- ")[2]


def not_known_same(run: Examined, against: Examined) -> list[str]:
    """Return what two traces do not tell about their machines and workloads, so that these may differ."""
    runs = (run, against)
    out = [f"{r.label} does not describe its machine" for r in runs if r.machine is None]
    ran = [_command(r) for r in runs]
    if not all(r.window and r.window.names for r in runs) and not all(ran):
        silent = [
            r.label
            for r, command in zip(runs, ran, strict=True)
            if not command and not (r.window and r.window.names)
        ]
        who = " and ".join(silent) or "a trace"
        out.append(f"{who} {'do' if len(silent) > 1 else 'does'} not say which work was done")
    return out


#: the ways to align that do not name a mark
START, ACTIVITY = "start of the traces", "first activity"


@dataclass(frozen=True)
class Pair:
    """Two examined traces and the moments that coincide."""

    runs: tuple[Examined, Examined]  #: the traces
    zeros: tuple[int, int]  #: for each trace, its time in ns at which the common axis has its 0
    how: str  #: how the moments were found, as words for the axis

    @property
    def window(self) -> tuple[int, int]:
        """The first and last ns of the common axis at which at least one of the traces exists."""
        ends = [
            (r.scene.window[0] - z, r.scene.window[1] - z)
            for r, z in zip(self.runs, self.zeros, strict=True)
        ]
        return min(a for a, _ in ends), max(b for _, b in ends)

    def shifted(self, by_ns: int) -> Pair:
        """Return the pair with the second trace moved later on the axis by some ns."""
        if not by_ns:
            return self
        first, second = self.zeros
        return Pair(self.runs, (first, second - by_ns), f"{self.how}, moved by {by_ns / 1e6:g} ms")

    def bins(self, window: tuple[int, int], cols: int = 900) -> list[Bins]:
        """Reduce a window of the common time axis to pixels, for each of the two traces. Pixels outside a trace are unknown."""
        out = []
        for run, zero in zip(self.runs, self.zeros, strict=True):
            start, end = (t + zero for t in window)
            found = run.scene.states.bin(start, end, cols, run.scene.cpus, wasted=True)
            out.append(_cut(found, run.scene.states, zero))
        return out


def _cut(found: Bins, states: States, zero: int) -> Bins:
    """Return pixels on the common axis, unknown where the trace has not begun or has ended."""
    outside = (found.edges[:-1] < states.start_ns) | (found.edges[1:] > states.end_ns)
    tables = {n: getattr(found, n).copy() for n in ("share", "longest", "last", "peak")}
    for values in tables.values():
        values[:, outside] = -1
    mean = found.mean.copy()
    mean[:, outside] = np.nan
    curves = {
        n: np.where(outside, np.nan, getattr(found, n)) for n in ("idle", "waiting", "wasted")
    }
    known = np.where(outside, 0.0, found.known)
    return Bins(found.edges - zero, found.cpus, mean=mean, known=known, **tables, **curves)


def common_marks(run: Examined, against: Examined) -> list[str]:
    """Return the texts of the marks that both traces have, in the order of the first trace."""
    theirs = {text for _, text in against.marks}
    return list(dict.fromkeys(text for _, text in run.marks if text in theirs))


def first_activity(run: Examined) -> int:
    """Return the first ns at which some CPU that is drawn is known to have a thread on its runqueue."""
    states = run.scene.states
    busy = np.flatnonzero(states.values > 0)
    cpu = np.searchsorted(states.offsets, busy, side="right") - 1
    times = states.ts[busy[np.isin(cpu, run.scene.cpus)]]
    if not times.size:
        raise UsageError(f"{run.label}: no CPU ever had a thread, so there is no first activity.")
    return max(int(times.min()), run.scene.window[0])


def align(run: Examined, against: Examined, by: str = "") -> Pair:
    """Find the moments of two traces that coincide."""
    marks = common_marks(run, against)
    by = by or (marks[0] if marks else ACTIVITY)
    if by == START:
        return Pair((run, against), (run.scene.window[0], against.scene.window[0]), by)
    if by == ACTIVITY:
        return Pair((run, against), (first_activity(run), first_activity(against)), by)
    # if both traces have a mark with exactly this text, no mark that only begins with it is meant
    whole = by in marks
    zeros = []
    for r in (run, against):
        at = [t for t, text in r.marks if (text == by if whole else text.startswith(by))]
        if not at:
            known = ", ".join(repr(m) for m in marks[:8]) or "none"
            raise UsageError(
                f"{r.label}: no mark begins with {by!r}. Marks that both traces have: {known}. Or align by "
                f"{ACTIVITY!r} or {START!r}."
            )
        zeros.append(at[0])
    return Pair((run, against), (zeros[0], zeros[1]), f'mark "{by}"')
