"""The outcomes of a gate's rules as text, as TAP, as Markdown and as JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from wastedcores.analysis.gate import Outcome


def rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the outcomes for ``--json``."""
    return [
        {"quantity": o.rule.quantity}
        | {k: getattr(o, k) for k in ("state", "why", "before", "after", "n", "p", "effect")}
        for o in outcomes
    ]


def text(outcomes: Sequence[Outcome]) -> str:
    """Return one line per rule."""
    return "\n".join(f"{o.state.upper():<8} {o.rule.quantity:<13} {o.why}" for o in outcomes)


def markdown(outcomes: Sequence[Outcome], before: str, after: str) -> str:
    """Return a table for the summary of a CI job."""
    lines = [
        f"### Wasted cores: {after} compared with {before}",
        "",
        "| rule | result | before | after | effect | n | p |",
        "|---|---|---|---|---|---|---|",
    ]
    for o in outcomes:
        effect = "unknown" if o.effect is None else f"{o.effect:+.1%}"
        lines.append(
            f"| {o.rule.quantity} | **{o.state}**: {o.why} | {o.before:.4g} | {o.after:.4g} | {effect} | "
            f"{o.n[0]} and {o.n[1]} | {o.p:.2g} |"
        )
    return "\n".join(lines) + "\n"


def tap(outcomes: Sequence[Outcome]) -> str:
    """Return lines of the Test Anything Protocol, version 13, as kselftest prints them; an unknown outcome is a skip."""
    lines = ["TAP version 13", f"1..{len(outcomes)}"]
    for number, o in enumerate(outcomes, 1):
        ok = "not ok" if o.state == "fail" else "ok"
        skip = f" # SKIP {o.why}" if o.state == "unknown" else ""
        lines.append(f"{ok} {number} {o.rule.quantity}{skip}")
        if not skip:
            lines.append(f"# {o.why}")
    return "\n".join(lines)


def junit(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as JUnit's XML; an unknown one is an error, so that it is not mistaken for a pass."""
    states = [o.state for o in outcomes]
    suite = ElementTree.Element(
        "testsuite",
        name="wastedcores",
        tests=str(len(states)),
        failures=str(states.count("fail")),
        errors=str(states.count("unknown")),
    )
    for o in outcomes:
        case = ElementTree.SubElement(
            suite, "testcase", classname="wastedcores compare", name=o.rule.quantity
        )
        if o.state != "pass":
            tag = "failure" if o.state == "fail" else "error"
            ElementTree.SubElement(case, tag, message=o.why)
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
