"""Why CPUs stayed idle, in words."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.explain import Explanation
from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.words.rich_text import RichText, sentence

if TYPE_CHECKING:
    from wastedcores.prediction import Advice

#: what a finding of :func:`wastedcores.analysis.explain.explain` is called in a sentence
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
        What replays of its work tell, if they were made; a bug whose fix gains nothing is not named.

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
        # it imports the replay, which most explanations do without
        from wastedcores.prediction import weigh

        found = weigh(found, advice)
    head = (
        f"{run.label}: on {found.machine.name} under Linux {found.kernel.name} this looks like "
        f"{NAMES[found.looks_like]}."
    )
    # no bug: the evidence would only repeat the head
    points = [] if found.looks_like == "nothing" else [*found.evidence, *fix_sentences(found)]
    items = "".join(f"<li>{escape(p)}</li>" for p in points)
    return RichText("\n- ".join([head, *points]), f"<p>{escape(head)}</p><ul>{items}</ul>")


def fix_sentences(found: Explanation) -> list[str]:
    """Return sentences about the paper's fix, and about how much it would have changed where that is known."""
    out = [f"The paper's fix is to {found.fix}."] if found.fix else []
    if found.cured_share is not None:
        out.append(
            f"With this fix the idle CPU could have pulled a thread for {100 * found.cured_share:.0f} % of that time."
        )
    return out
