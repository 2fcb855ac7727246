"""Why the CPUs stayed idle, in words: the explanation of a run, computed from its trace, topology and kernel."""

from __future__ import annotations

from html import escape

from wastedcores.analysis.examined import Examined
from wastedcores.analysis.explain import Explanation, explain
from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.words.rich_text import RichText, sentence

#: what a finding is called in a sentence
NAMES = {
    "group_imbalance": "the Group Imbalance bug (paper 3.1)",
    "group_construction": "the Scheduling Group Construction bug (paper 3.2)",
    "overload_on_wakeup": "the Overload-on-Wakeup bug (paper 3.3)",
    "missing_domains": "the Missing Scheduling Domains bug (paper 3.4)",
    "isolation": "isolation: no domain spans both, and no hotplug explains it",
    "transient": "what a balancer needs a while to repair, and did repair",
    "undecided": "none of the known bugs",
    "nothing": "nothing: no CPU was idle beside an overloaded one",
}


def why(run: Examined) -> RichText:
    """What kept the CPUs idle: the bug it looks like, and the evidence."""
    try:
        found = explain(run.result)
    except (TopologyError, UnknownKernelError) as e:
        return sentence(f"Why cannot be told: {e}")
    head = (
        f"{run.label}: on {found.machine.name} under Linux {found.kernel.name} this looks like "
        f"{NAMES[found.looks_like]}."
    )
    points = [_capital(p) + "." for p in (*found.evidence, *_gain(found))]
    html = f"<p>{escape(head)}</p><ul>{''.join(f'<li>{escape(p)}</li>' for p in points)}</ul>"
    return RichText("\n- ".join([head, *points]), html, None)


def _gain(found: Explanation) -> list[str]:
    out = [f"the paper's fix: {found.fix}"] if found.fix else []
    if found.cured_share is not None:
        out.append(
            f"with it the idle CPU could have pulled in {100 * found.cured_share:.0f} % of that time"
        )
    return out


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
