"""Which fix would pay on this trace: the proposals of ``wastedcores explain``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wastedcores.analysis.explain import Explanation
from wastedcores.errors import NotRecoverableError, TopologyError, TraceContentError
from wastedcores.kernels import CORE, FIXES, Balancer, KernelModel
from wastedcores.prediction.machines_and_kernels import balancer_on
from wastedcores.prediction.predict import whatif
from wastedcores.prediction.result import Range, Variant, WhatIf
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import TaskFacts
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import Moment

#: replays of each kernel: enough to tell a gain from chance, few enough to wait for
SEEDS = 5
#: a smaller gain is not worth a patch; this is also the least share of waste that the check calls chronic
LEAST_GAIN = 0.01


@dataclass(frozen=True)
class Proposal:
    """A fix that would have gained time."""

    #: ``group_imbalance``, ``group_construction``, ``overload_on_wakeup``, ``missing_domains`` or ``all_fixes``
    fix: str
    #: the share of the window's time that the fix saves; for work that never ends, the share by which more CPUs are busy
    gain: Range


@dataclass(frozen=True)
class Advice:
    """What would have helped, as far as replays tell."""

    #: the fixes that pay (see :func:`advise`), the greatest gain first
    proposals: tuple[Proposal, ...]
    found: WhatIf | None  #: the prediction on which the proposals rest; None if there is none
    #: The gain of a scheduler that never lets a CPU idle while a thread waits; no scheduler can gain much more. None if it is
    #: not known.
    bound: Range | None
    #: sentences that say how far to trust the answer, or why there is none, without full stops
    reasons: tuple[str, ...]
    #: whether gains are shares of the window's time, and not of the number of busy CPUs
    in_time: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the part of ``wastedcores explain --json`` that is about proposals."""
        return {
            "proposals": [
                {
                    "fix": p.fix,
                    "gain": p.gain.median,
                    "gain_low": p.gain.low,
                    "gain_high": p.gain.high,
                }
                for p in self.proposals
            ],
            "prediction": {
                "trust": self.found.trust if self.found else None,
                "reasons": list(self.reasons),
                "upper_bound": self.bound and self.bound.to_dict(),
            },
        }


def advise(
    trace: Trace,
    *,
    machine: Machine | str | None = None,
    kernel: KernelModel | str | None = None,
    between: Sequence[Moment] | None = None,
    cpus: str | Sequence[int] | None = None,
    tasks: Sequence[TaskFacts | Mapping[str, Any]] | None = None,
    sessions: Iterable[str] = (),
    seeds: int = SEEDS,
    progress: bool = False,
) -> Advice:
    """Find out which fixes would have gained time on a trace.

    Parameters
    ----------
    trace, machine, kernel, between, cpus, tasks, sessions, seeds, progress
        As for :func:`wastedcores.prediction.whatif`.

    Returns
    -------
    Advice
        The fixes that pay: their gain is more than 1 % and more than the width of its range, both against the replay of the
        recorded kernel and against the recording itself. A fix that the recorded kernel already has is never proposed, and no fix
        is proposed if the replay does not show what was recorded. If the replay does not have the recorded kernel, and no other
        kernel may stand for it, only the upper bound is given.
    """
    ask: dict[str, Any] = {
        "machine": machine,
        "between": between,
        "cpus": cpus,
        "tasks": tasks,
        "sessions": tuple(sessions),
        "seeds": seeds,
        "progress": progress,
    }
    try:
        balancer = balancer_on(trace, kernel)
        # if no kernel is named, whatif() assumes one
        if balancer is None or balancer.replayed or balancer.stand_in:
            found = whatif(trace, kernel=kernel, **ask)
            return _from(found)
        return _bound_only(whatif(trace, kernel=CORE, to=[CORE], **ask), balancer)
    except (NotRecoverableError, TopologyError, TraceContentError) as e:
        return Advice((), None, None, (str(e).rstrip("."),))


def _from(found: WhatIf) -> Advice:
    variants = {fix: v for v in found.variants if (fix := _fix(found.kernel, v.kernel))}
    in_time = found.itself.window_ns is not None
    bound = next((v.gain for v in found.variants if v.kernel == CORE), None)
    if found.trust == "low":
        reason = (
            "the machine or the kernel is not known, so no fix is proposed"
            if found.assumed
            else "the replay does not show what was recorded, so no fix is proposed"
        )
        return Advice((), found, None, (reason, *found.reasons), in_time)
    paying = [Proposal(fix, v.gain) for fix, v in variants.items() if _pays(found, v)]
    paying.sort(key=lambda p: -p.gain.median)
    return Advice(tuple(paying), found, bound, tuple(found.reasons), in_time)


def _pays(found: WhatIf, variant: Variant) -> bool:
    """Tell whether a variant gains enough, also against the recording: if all replays are too slow, a gain proves nothing."""
    gain = variant.gain
    if (window := variant.window_ns) is not None:
        over_recorded = 1 - window.median / max(found.window_ns, 1)
    else:
        over_recorded = variant.busy_cpus.median / max(found.busy_cpus, 1e-9) - 1
    least = max(LEAST_GAIN, gain.high - gain.low)
    return gain.low > 0 and min(gain.median, over_recorded) > least


def weigh(found: Explanation, advice: Advice) -> Explanation:
    """Compare the bug that an explanation names with the replays.

    Returns ``found`` unchanged, with one exception. If the replay of the recorded kernel can be trusted, and the replays with the
    bug's fix gain no more than chance or less than 1 %, the result is ``undecided``.
    """
    bug, told = found.looks_like, advice.found
    if bug not in FIXES or told is None or told.trust != "high":
        return found
    fixed = next((v for v in told.variants if _fix(told.kernel, v.kernel) == bug), None)
    if fixed is None or (fixed.gain.low > 0 and fixed.gain.median >= LEAST_GAIN):
        return found
    gain = f"{100 * fixed.gain.median:.0f} % ({100 * fixed.gain.low:.0f} to {100 * fixed.gain.high:.0f})"
    evidence = (
        f"This looks like {bug.replace('_', ' ')}, but replays of the same work with the fix for it gain {gain}, so this bug is "
        "not the cause."
    )
    return replace(
        found, looks_like="undecided", cured_share=None, evidence=[*found.evidence, evidence]
    )


def _fix(recorded: str, variant: str) -> str | None:
    """Return the fix that a variant has and the recorded kernel lacks; ``all_fixes`` for several fixes, None for a design."""
    model = KernelModel.named(variant)
    if model.is_design:
        return None
    added = [f for f in FIXES if f in model.fixes and f not in KernelModel.named(recorded).fixes]
    return added[0] if len(added) == 1 else "all_fixes" if added else None


def _bound_only(core: WhatIf, balancer: Balancer) -> Advice:
    """Return the upper bound: what the design ``core`` gains against the recorded time or number of busy CPUs."""
    window, busy = core.itself.window_ns, core.itself.busy_cpus
    if window is not None:
        low, median, high = (
            1 - t / core.window_ns for t in (window.high, window.median, window.low)
        )
    else:
        low, median, high = (
            b / max(core.busy_cpus, 1e-9) - 1 for b in (busy.low, busy.median, busy.high)
        )
    reasons = (
        f"no fix is proposed, because there is no model of this kernel's balancer: {balancer.reason}",
        "the upper bound compares the recording with a replay of the same work under a scheduler that never lets a CPU idle "
        "while a thread waits",
        *core.recovered.notes,
    )
    return Advice((), None, Range(median, low, high), reasons, window is not None)
