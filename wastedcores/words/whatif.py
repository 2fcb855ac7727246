"""What a fix would have gained, in sentences and a table."""

from __future__ import annotations

import polars as pl

from wastedcores.kernels import CORE, KernelModel
from wastedcores.prediction import Advice, Range, Variant, WhatIf
from wastedcores.units import human_ns, number
from wastedcores.words.rich_text import RichText, enumerated, sentence, table


def prediction(found: WhatIf) -> RichText:
    """Say in a few sentences what would have gained most, and whether a replay shows what was recorded."""
    if found.trust == "low":
        return sentence(f"{_replayed(found)} {_unknown(found)}")
    others = [v for v in found.variants if not KernelModel.named(v.kernel).is_design]
    best = next((v for v in others if v.gain.low > 0), None)
    if not others:
        most = "No other kernel was asked for."
    elif best is None:
        most = "No kernel would have gained more than chance."
    else:
        most = f"Under {best.kernel} it would have been {amount(best)}: a gain of {percent(best.gain)}."
    return sentence(f"{_replayed(found)} {most} {_bound_and_trust(found)}")


def _replayed(found: WhatIf) -> str:
    """Say what was recorded, and what the replay of the recorded kernel shows."""
    took = (
        f"The recorded work took {human_ns(found.window_ns)} under {found.recorded_kernel}"
        if found.itself.window_ns
        else f"The recorded work kept {found.busy_cpus:.1f} CPUs busy under {found.recorded_kernel}"
    )
    return f"{took}, and its replay {amount(found.itself)}."


def _bound_and_trust(found: WhatIf) -> str:
    """Say how much the best possible scheduler would gain, and how far to trust the replays."""
    core = next((v for v in found.variants if v.kernel == CORE), None)
    trust = f"The trust in this is {found.trust}."
    if core is None:
        return trust
    return (
        f"A scheduler that never lets a CPU idle while a thread waits would have gained {percent(core.gain)}; none could gain "
        f"much more. {trust}"
    )


def _unknown(found: WhatIf) -> str:
    """Say why the replays do not tell what a fix would have gained."""
    if found.assumed:
        why = "The machine or the kernel is not known"
    elif found.agrees:
        why = "Too much of the CPU time was used before sleeps whose cause is guessed or not known"
    elif not found.shows_result:
        why = f"The replay is {found.error:.0%} away from what was recorded"
    else:
        wasted = found.itself.wasted_cpus(found.window_ns).median
        why = (
            f"The replay wastes {number(wasted)} CPUs and the recording {number(found.wasted_cpus)}"
        )
    return f"{why}, so it is not known what a fix would have gained."


def gains(advice: Advice | None) -> RichText:
    """Say which fixes would have paid, or why that is not known; ``advice`` is None if no replays were made."""
    if advice is None:
        return sentence(
            "No replays were made here, because none were asked for or because the trace has more than a million events. "
            "The command wastedcores whatif tells what a fix would have gained."
        )
    if advice.found is None and advice.bound is None:
        reasons = " ".join(_whole(r) for r in advice.reasons)
        return sentence(f"It is not known what a fix would have gained. {reasons}")
    unit = "of the time" if advice.in_time else "more busy CPUs"
    if advice.found is None and advice.bound is not None:
        most = (
            f"A scheduler that never lets a CPU idle while a thread waits would have gained {percent(advice.bound)} {unit}; none "
            "could have gained much more."
            if advice.bound.median >= 0.01
            else "No scheduler could have gained 1%."
        )
        return sentence(" ".join([most, *(_whole(r) for r in advice.reasons)]))
    assert advice.found is not None
    if advice.found.trust == "low":
        return prediction(advice.found)
    listed = [f"{p.fix.replace('_', ' ')} {percent(p.gain)}" for p in advice.proposals]
    paid = (
        f"These fixes would have paid, with the share {unit} that each gains: {enumerated(listed)}."
        if listed
        else "None of the fixes that the recorded kernel lacks would have paid."
    )
    if _overlap(advice):
        paid += " The ranges of several of them overlap, so the replays do not tell which of those gains most."
    return sentence(f"{paid} {_replayed(advice.found)} {_bound_and_trust(advice.found)}")


def _overlap(advice: Advice) -> bool:
    """Tell whether the range of some proposal contains the median of another one."""
    gains = [p.gain for p in advice.proposals]
    return any(a is not b and a.low <= b.median <= a.high for a in gains for b in gains)


def _whole(reason: str) -> str:
    """Return a reason as a sentence; the name of a file at its beginning stays as it is."""
    if reason.partition(" ")[0].endswith(":"):
        return f"{reason}."
    return f"{reason[:1].upper()}{reason[1:]}."


def prediction_table(found: WhatIf) -> RichText:
    """List the recorded kernel and all variants, those that gain most first."""
    rows = [
        (
            "recorded: " + found.recorded_kernel,
            _recorded(found),
            "",
            human_ns(found.wasted_cpus * found.window_ns),
            "",
        ),
        (
            "replayed: " + found.kernel,
            amount(found.itself),
            "",
            _wasted(found.itself),
            _moved(found.itself),
        ),
        *((v.kernel, amount(v), percent(v.gain), _wasted(v), _moved(v)) for v in found.variants),
    ]
    columns = [
        "kernel",
        "result (5th to 95th percentile of the seeds)",
        "gain",
        "CPU time wasted",
        "moves a second (to another cache, to another node)",
    ]
    return table(pl.DataFrame(rows, schema=columns, orient="row"))


def trust(found: WhatIf) -> RichText:
    """Say how far a prediction can be trusted, and why."""
    reasons = " ".join(_whole(r) for r in found.reasons)
    return sentence(f"The trust is {found.trust}. {reasons}")


def amount(v: Variant) -> str:
    """Write the result of a variant: the time of the window, or the number of busy CPUs if that time is not known."""
    if (window := v.window_ns) is not None:
        return f"{human_ns(window.median)} ({human_ns(window.low)} to {human_ns(window.high)})"
    busy = v.busy_cpus
    return f"{busy.median:.1f} busy CPUs ({busy.low:.1f} to {busy.high:.1f})"


def percent(gain: Range) -> str:
    """Write a gain with its range."""
    return f"{gain.median:.0%} ({gain.low:.0%} to {gain.high:.0%})"


def _recorded(found: WhatIf) -> str:
    return (
        human_ns(found.window_ns) if found.itself.window_ns else f"{found.busy_cpus:.1f} busy CPUs"
    )


def _moved(v: Variant) -> str:
    """Write how many threads move per second in a variant: ``1,040 (300, 246)``, that is all, across caches, across nodes."""
    if v.moves is None or v.moves["per_s"] is None:
        return ""
    caches, nodes = v.moves["across_caches_per_s"], v.moves["across_nodes_per_s"]
    return f"{v.moves['per_s']:,.0f}" + ("" if nodes is None else f" ({caches:,.0f}, {nodes:,.0f})")


def _wasted(v: Variant) -> str:
    return human_ns(float(pl.Series(v.wasted_ns).median() or 0))  # type: ignore[arg-type]
