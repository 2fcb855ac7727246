"""What to do next with a trace, depending on what was found: each step is a command."""

from __future__ import annotations

import shlex
from html import escape
from typing import TYPE_CHECKING

from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.invariant.result import CheckResult
from wastedcores.units import human_ns
from wastedcores.words.rich_text import RichText

if TYPE_CHECKING:
    from wastedcores.analysis.examined import Examined
    from wastedcores.analysis.explain import Explanation


def next_steps(run: Examined, name: str, machine: str = "", kernel: str = "") -> RichText:
    """Say what to do next, the most useful step first.

    Parameters
    ----------
    run
        The examined trace.
    name
        The trace as the user named it, for the commands.
    machine, kernel
        The machine and the kernel, if the user named them because the trace does not.

    Returns
    -------
    RichText
        A list of steps, each with a command.
    """
    r, said = run.result, shlex.quote(name)
    placed = "".join(
        f" --{option} {shlex.quote(value)}"
        for option, value in (("machine", machine), ("kernel", kernel))
        if value
    )
    steps = [*_unknown(r, said), *_gain(run, f"{said}{placed}")]
    if run.worst is not None:
        lo, hi = run.worst_window()
        steps.append(
            (
                "See who ran where in the worst part:",
                f"wastedcores figure {said} --kind tasks --from {lo / 1e9:.6f} --to {hi / 1e9:.6f} -o worst.html",
            )
        )
    if r.verdict == "clean" and r.episodes.height:
        steps.append(
            (
                f"A CPU was idle while a thread waited for {human_ns(r.longest_ns)} at most. To count such short "
                "episodes as well:",
                f"wastedcores check {said} --persist {max(r.longest_ns / 1e6 * 0.9, 0.001):.3g}ms",
            )
        )
    steps.append(("Get the same numbers for a script:", f"wastedcores check {said} --json"))
    items = "".join(
        f"<li>{escape(step)}<br><code>{escape(command)}</code></li>" for step, command in steps
    )
    return RichText(
        "\n".join(f"- {step}\n    {command}" for step, command in steps),
        f'<ul class="wc-steps">{items}</ul>',
    )


def _unknown(r: CheckResult, name: str) -> list[tuple[str, str]]:
    """Return the step that can turn an unknown verdict into another one."""
    if r.verdict != "unknown":
        return []
    if r.rests_on_affinity:
        return [
            (
                "The trace does not tell where the waiting threads may run. See what the verdict is if they may run anywhere:",
                f"wastedcores check {name} --ignore-affinity",
            )
        ]
    return [
        (
            "Events were lost or contradict each other, or they say too little. Record again with larger buffers:",
            "wastedcores doctor",
        )
    ]


def _gain(run: Examined, name: str) -> list[tuple[str, str]]:
    """Return the step from violations to their cause and to the fix."""
    if run.result.verdict != "violations":
        return []
    try:
        fix = run.explanation.fix
    except (TopologyError, UnknownKernelError):
        return [
            (
                "Find the cause. The trace does not name its machine and kernel; if it was recorded here:",
                f"wastedcores explain {name} --machine live",
            )
        ]
    if fix and run.explanation.replayed:
        return [
            (
                f"The paper's fix is to {fix}. Replay the recorded work with it, and see what it gains:",
                f"wastedcores whatif {name}",
            )
        ]
    return [("See the evidence for the cause, and what would help:", f"wastedcores explain {name}")]


def next_after_explaining(found: Explanation, name: str, placed: str = "") -> tuple[str, str]:
    """Return the command that helps most after an explanation, and its purpose.

    Parameters
    ----------
    found
        The explanation.
    name
        The trace as the user named it.
    placed
        The options that name its machine and kernel, as the user gave them.

    Returns
    -------
    str, str
        The command and its purpose.
    """
    said = f"{shlex.quote(name)}{placed}"
    if found.looks_like in ("nothing", "transient"):
        return f"wastedcores path {shlex.quote(name)}", "where the time of the work went instead"
    if found.fix and found.replayed:
        return f"wastedcores whatif {said}", "each fix, with its gain and its spread"
    return (
        f"wastedcores report {said} -o report",
        "a page with the figures, to look closer or to send",
    )


def next_command(r: CheckResult, name: str) -> str:
    """Return the command that helps most after a check, with its purpose behind it.

    Parameters
    ----------
    r
        The result of the check.
    name
        The trace as the user named it.

    Returns
    -------
    str
        One line.
    """
    said, header = shlex.quote(name), r.trace.header
    if steps := _unknown(r, said):
        purpose = (
            "record again"
            if steps[0][1].endswith("doctor")
            else "treat every waiting thread as movable"
        )
        return f"{steps[0][1]}   ({purpose})"
    if r.verdict == "clean":
        return f"wastedcores report {said}   (a page with figures)"
    if header.machine is None:
        return (
            f"wastedcores explain {said} --machine live   (why, if it was recorded on this machine)"
        )
    return f"wastedcores explain {said}   (why, and which fix would help)"
