"""Why CPUs stayed idle, in words."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.explain import Explanation
from wastedcores.analysis.price import (
    CANNOT_TELL,
    LEAST,
    MOST,
    PAYS,
    RIGHTLY_IDLE,
    USUAL,
    Price,
)
from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.units import US, human_ns
from wastedcores.words.rich_text import RichText, sentence

if TYPE_CHECKING:
    from wastedcores.prediction import Advice


#: the meaning of each reason in :mod:`wastedcores.runqueues.doubts`
MEANING = {
    "contradicted_often": "so many events contradict each other that nothing between them is believed",
    "wakeup_of_queued": "a thread was woken that was already awake (an event is missing)",
    "in_without_wakeup": "a thread that slept ran without a wakeup",
    "out_without_in": "a thread stopped on a CPU on which it had not begun to run",
    "ran_elsewhere": "a thread ran on a CPU to which it had not been moved",
    "left_unseen": "a CPU changed to another thread without a sched_switch event",
    "idle_beside_waiting": "a CPU went idle although a thread was queued on it (which was throttled, or had moved unseen)",
    "starved": "a thread waited for so long that a limit of its CPU time may be the reason",
    "count_differs": "the kernel counted other threads on a CPU than the events tell",
    "queue_differs": "the kernel counted more or fewer waiting threads on a busy CPU than the events tell",
    "bound_by_name": "a thread waited that has the name of a kernel thread bound to its CPU",
    "affinity_told_late": "a thread got another affinity before it ran, and nothing tells whether it had waited with it",
    "silence_before_contradiction": "there was no event at all for a while before two events contradicted each other",
    "events_lost": "events were lost while a thread waited",
    "offline_or_idle": "nothing tells what a CPU did until its first switch, so it had been busy, idle or offline",
    "woken_early": "a thread was woken right before it stopped, as if the clocks of two CPUs differ, and may have waited since",
    "perhaps_asleep": "a thread seemed to wait that may have slept: it was born, woken or moved without an event, or too late",
    "perhaps_elsewhere": "a thread that could run was left on the queue of a CPU that went idle, so it may wait on another CPU",
    "no_wakeups": "wakeups were not recorded, or not those of new threads, so nobody knows since when they waited",
    "recorder_waiting": "the program that recorded the trace is woken without an event, so it may have waited unseen",
    "unseen_waiting": "a thread was runnable when the snapshot was taken and has no event, so it may have waited all the time",
    "core_scheduling": "core scheduling was in use",
    "some_tasks": "perf recorded the events of some tasks only, so nobody knows what the others did",
    "isolation_changed": "other CPUs were isolated when the trace ended",
}


def doubts_by_reason(doubts: pl.DataFrame, most: int = 3) -> list[str]:
    """Return the most frequent reasons for doubts, each with the number of spans that it caused."""
    counts = doubts.group_by("reason").len().sort(["len", "reason"], descending=[True, False])
    said = [
        MEANING[reason] if reason == "contradicted_often" else f"{_times(n)} {MEANING[reason]}"
        for reason, n in counts.iter_rows()
    ]
    left = counts["len"][most:].sum()
    return said[:most] + ([f"{_times(int(left))} for other reasons"] if left else [])


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n:,} times"


#: finding of :func:`wastedcores.analysis.explain.explain` -> its name in a sentence
NAMES = {
    "group_imbalance": "the Group Imbalance bug (paper 3.1)",
    "group_construction": "the Scheduling Group Construction bug (paper 3.2)",
    "overload_on_wakeup": "the Overload-on-Wakeup bug (paper 3.3)",
    "missing_domains": "the Missing Scheduling Domains bug (paper 3.4)",
    "isolated": "isolated CPUs, which the load balancer leaves out as it was asked to",
    "balancing_off": "load balancing that is switched off between the idle and the overloaded CPUs",
    "isolation": "isolation: no scheduling domain spans the idle and the overloaded CPUs, and nothing recorded explains it",
    "transient": "short imbalances that ended by themselves",
    "undecided": "none of the known bugs",
    "unknown": "something that is not known, because there is no model of this kernel's balancer",
    "nothing": "no CPU was idle while threads waited on another",
    "in_doubt": "something that the trace cannot tell: its verdict is unknown",
}


def why(run: Examined, advice: Advice | None = None) -> RichText:
    """Say which bug kept the CPUs idle, with the evidence, or why that cannot be determined.

    Parameters
    ----------
    run
        The examined trace.
    advice
        What replays of the recorded work showed; None if there were no replays. A bug is not named if its fix gains nothing in
        the replays.

    Returns
    -------
    RichText
        A sentence and a list.
    """
    try:
        found = run.explanation
    except (TopologyError, UnknownKernelError) as e:
        return sentence(f"The cause cannot be determined: {e}")
    if advice is not None:
        # imported here, because it imports the replay, which most explanations do not need
        from wastedcores.prediction import weigh

        found = weigh(found, advice)
    name = found.machine.name
    where = (
        f"on {'an unknown machine' if name == 'unknown' else name} under Linux {found.kernel.name}"
    )
    verb = "" if found.looks_like == "nothing" else "this looks like "
    head = f"{run.label}: {where} {verb}{NAMES[found.looks_like]}."
    # if nothing kept CPUs idle, the evidence would only repeat the first sentence
    points = (
        []
        if found.looks_like == "nothing"
        else [*found.evidence, *price_sentences(found.price), *fix_sentences(found)]
    )
    items = "".join(f"<li>{escape(p)}</li>" for p in points)
    return RichText("\n- ".join([head, *points]), f"<p>{escape(head)}</p><ul>{items}</ul>")


def fix_sentences(found: Explanation) -> list[str]:
    """Return sentences about the paper's fix, and about how much it would have changed, if that is known."""
    out = [f"The paper's fix is to {found.fix}."] if found.fix else []
    if found.cured_share is not None:
        out.append(
            f"With this fix the idle CPU could have pulled a thread for {100 * found.cured_share:.0f} % of that time."
        )
    return out


#: judgement of :class:`wastedcores.analysis.price.Price` -> its words in a sentence
JUDGEMENTS = {
    PAYS: "moving a thread to the idle CPU would have paid",
    RIGHTLY_IDLE: "idle, and rightly so",
    CANNOT_TELL: "it cannot be told whether moving a thread to the idle CPU would have paid",
}


def price_sentences(price: Price | None) -> list[str]:
    """Return sentences that weigh the waits beside an idle CPU against the price of a move; empty if there were no such waits."""
    if price is None:
        return []
    parts = (
        (price.cache_ns, "behind the same last-level cache"),
        (price.node_ns, "behind another one on the same node"),
        (price.far_ns, "on another node"),
    )
    total = price.waited_ns
    where = [f"{100 * ns / total:.0f} % with one {place}" for ns, place in parts if ns]
    if not price.topology_known:
        where = []
    waking = f"{100 * price.waking_ns / total:.0f} % while only their own CPU had to wake up"
    out = [
        f"Threads waited {human_ns(total)} in all beside an idle CPU that they may use: "
        f"{', '.join([*where, waking])}.",
        f"{JUDGEMENTS[price.judgement][0].upper()}{JUDGEMENTS[price.judgement][1:]}: {_longer(price)}.",
    ]
    if price.judgement == CANNOT_TELL:
        out.append(_what_would_tell(price))
    elif price.turns_at_ns:
        out.append(
            f"The advice turns if a move costs {human_ns(price.turns_at_ns)}, whatever the distance."
        )
    return out


def _longer(price: Price) -> str:
    """Say what share of the waiting time was in waits that lasted longer than a move costs."""

    def costs(of: tuple[int, int]) -> str:
        near = human_ns(of[0]) if of[0] else "nothing"
        return f"{near} behind the same cache and {human_ns(of[1])} behind another one"

    low, usual, high = (
        f"{100 * share:.0f} %" for share in (price.share_least, price.share, price.share_most)
    )
    time = "this time" if price.judged_ns == price.waited_ns else "the rest"
    if price.judgement == PAYS:
        return (
            f"even if a move costs {costs(MOST)}, {low} of {time} was in waits that lasted longer"
        )
    if price.judgement == RIGHTLY_IDLE:
        return (
            f"even if a move costs {costs(LEAST)}, only {high} of {time} was in waits that lasted longer, and {low} if it costs "
            f"{costs(MOST)}"
        )
    return (
        f"{usual} of {time} was in waits that lasted longer than a move costs by the kernel's own estimate ({costs(USUAL)}), "
        f"{low} if it costs {costs(MOST)}, and {high} if it costs {costs(LEAST)}"
    )


def _what_would_tell(price: Price) -> str:
    """Say what must be known for a judgement, and how to find it out."""
    if not price.verdict_known:
        return "The check says why its verdict is unknown, and what to record."
    if not price.topology_known:
        return "The trace does not say which CPUs share a cache; --machine NAME, FILE or live does."
    at = max(1, round(price.turns_at_ns / US))
    turn = (
        f"The advice turns if a move costs {human_ns(price.turns_at_ns)}, whatever the distance. "
        if price.turns_at_ns
        else ""
    )
    return (
        f"{turn}How long this work needs to fill a cache again is not in the trace. `perf stat -e cache-misses` tells how "
        f"often it misses, and `whatif --refill-us {at}` replays the work at that price."
    )
