"""Names the CPUs that can never help each other."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from wastedcores.cpulist import format_cpulist
from wastedcores.topology.domains import Domains
from wastedcores.topology.lint import lint
from wastedcores.words.rich_text import RichText


def help_sentence(domains: Domains, pin: Sequence[int] | None = None) -> RichText:
    """Say which CPUs can never help each other, as :func:`wastedcores.topology.lint.lint` finds them.

    Parameters
    ----------
    domains
        From :func:`wastedcores.topology.domains.build_domains`.
    pin
        CPUs on which the tasks may run; default: all.

    Returns
    -------
    RichText
        A sentence, and one row per pair of CPU sets between which no load can move.
    """
    result = lint(domains, None if pin is None else list(pin))
    state = f"Kernel {domains.kernel.name} on {domains.machine.name}"
    state += "" if domains.when == "boot" else f", {domains.when}"
    where = "" if pin is None else f" among CPUs {format_cpulist(result.pin)}"
    if not result.blocked:
        text = f"{state}: load can get from every CPU to every other{where}."
        return RichText(text, f"<p>{text}</p>")
    rows = [
        (format_cpulist(b.source), format_cpulist(b.target), b.reason, b.detail)
        for b in result.blocked
    ]
    head = f"{state}: load can never move{where}"
    text = "\n".join(
        [head + ":", *(f"  from {a} to {b}: {why}; {detail}" for a, b, why, detail in rows)]
    )
    cells = "".join(
        f"<tr><td>{a}</td><td>{b}</td><td>{why}: {escape(detail.replace('<=', ' ≤ '))}</td></tr>"
        for a, b, why, detail in rows
    )
    table = f"<table><tr><th>from CPUs</th><th>to CPUs</th><th>why</th></tr>{cells}</table>"
    return RichText(text, f"<p>{head}:</p>{table}")
