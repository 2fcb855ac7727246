"""What to do next with a trace, depending on what was found: each step is a command."""

from __future__ import annotations

import shlex
from html import escape
from typing import TYPE_CHECKING

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.invariant.checking import PERSIST_NS
from wastedcores.invariant.result import CheckResult
from wastedcores.kernels import recorded_balancer
from wastedcores.limits import CHRONIC_SHARE
from wastedcores.units import UNITS, human_ns
from wastedcores.words.rich_text import RichText

if TYPE_CHECKING:
    from wastedcores.analysis.examined import Examined
    from wastedcores.analysis.explain import Explanation
    from wastedcores.trace.trace import Trace

#: format of the trace -> how to record with larger buffers
_LARGER = {
    "perf.data": "perf sched record -m 8192 -o perf.data -- sleep 10",
    "perf-script": "perf sched record -m 8192 -o perf.data -- sleep 10",
    "trace.dat": "trace-cmd record -b 20000 -e sched -o trace.dat sleep 10",
    "trace-cmd": "trace-cmd record -b 20000 -e sched -o trace.dat sleep 10",
    "": "wastedcores capture --buffer 64 --seconds 10 -o trace.parquet",
}


_PART = {"--whole", "--between", "--cpus"}
#: command -> those of its options that say which part of a trace counts, and what counts as waste
_TAKEN = {
    "check": {*_PART, "--persist", "--chronic", "--ignore-affinity", "--silent"},
    "explain": {*_PART, "--persist", "--ignore-affinity"},
    "figure": {*_PART, "--persist"},
    "path": {"--whole", "--between"},
    "whatif": _PART,
}


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
    again = _asked(run, "check")
    steps = [*_unknown(r, f"{said}{again}"), *_gain(run, said, placed)]
    if run.worst is not None:
        lo, hi = (f"{(t - run.scene.window[0]) / 1e6:.3f}ms" for t in run.worst_window())
        figure = f"wastedcores figure {said}{_asked(run, 'figure')}"
        what, kind = "the worst part closely", ""
        if "switch" in run.trace.kinds():  # only context switches tell who ran
            what, kind = "who ran where in the worst part", " --kind tasks"
        steps.append((f"See {what}:", f"{figure}{kind} --from {lo} --to {hi} -o worst.html"))
    if r.verdict == "clean" and r.episodes.height:
        shorter = f"--persist {max(r.longest_ns * 9 // 10_000, 1)}us"
        steps.append(
            (
                f"A CPU was idle while a thread waited for {human_ns(r.longest_ns)} at most. To count such short "
                "episodes as well:",
                f"wastedcores check {said} {shorter}{_asked(run, 'check', but='--persist')}",
            )
        )
    if r.verdict == "clean" and r.names_tasks and _shows_wakeups(r.trace):
        steps.append(
            (
                "The scheduler did not keep CPUs idle beside waiting threads. See where the time of the work went instead:",
                f"wastedcores path {said}{_asked(run, 'path')}",
            )
        )
    steps.append(("Get the same numbers for a script:", f"wastedcores check {said}{again} --json"))
    items = "".join(
        f"<li>{escape(step)}<br><code>{escape(command)}</code></li>" for step, command in steps
    )
    return RichText(
        "\n".join(f"- {step}\n    {command}" for step, command in steps),
        f'<ul class="wc-steps">{items}</ul>',
    )


def _asked(run: Examined, verb: str, but: str = "") -> str:
    """Return the options that make a command ask the same question about the same part of the trace, if it has such options."""
    header = run.trace.header
    window, cpus = header.window, header.counted_cpus
    whole = (window and not run.window) or (cpus and not run.cpus)
    asked: dict[str, list[str]] = {}
    if run.persist_ns != PERSIST_NS:
        unit = next(u for u in ("s", "ms", "us", "ns") if run.persist_ns % UNITS[u] == 0)
        asked["--persist"] = [f"{run.persist_ns // UNITS[unit]}{unit}"]
    if whole:
        asked["--whole"] = []
    if run.window and (whole or run.window != window):
        asked["--between"] = list(run.window.ends)
    if run.cpus and (whole or run.cpus != cpus):
        asked["--cpus"] = [format_cpulist(run.cpus)]
    if run.chronic_share != CHRONIC_SHARE:
        share = "off" if run.chronic_share is None else f"{run.chronic_share:.9f}"
        asked["--chronic"] = [share]
    if run.ignore_affinity:
        asked["--ignore-affinity"] = []
    if run.silent:
        asked["--silent"] = [run.silent]
    taken = _TAKEN[verb] - {but}
    words = [w for option, values in asked.items() if option in taken for w in (option, *values)]
    return "".join(f" {shlex.quote(word)}" for word in words)


def _unknown(r: CheckResult, name: str) -> list[tuple[str, str]]:
    """Return the step that can turn an unknown verdict into another one."""
    if r.verdict != "unknown":
        return []
    if r.rests_on_affinity:
        return [
            (
                "The trace does not tell where the waiting threads may run. Record again with a snapshot of the tasks beside it, "
                "or see what the verdict is if they may run anywhere:",
                f"wastedcores check {name} --ignore-affinity",
            )
        ]
    return [_record_again(r)]


def _record_again(r: CheckResult) -> tuple[str, str]:
    """Return how to record so that the verdict can be decided."""
    header = r.trace.header
    if header.lost_total:
        command = _LARGER.get(header.source_format, _LARGER[""])
        return "Events were lost. Record again with larger buffers:", command
    if r.doubts.height and header.source_format != "schedtrace":
        return (
            "The events contradict each other or leave something open, although no loss is known. wastedcores can also record "
            "the kernel's own counts of threads, which decide:",
            "wastedcores capture --seconds 10 -o trace.parquet",
        )
    return "The trace says too little. See what this machine can record:", "wastedcores doctor"


def _gain(run: Examined, said: str, placed: str) -> list[tuple[str, str]]:
    """Return the step that leads from violations to their cause and fix; ``placed`` has --machine and --kernel."""
    if run.result.verdict != "violations":
        return []
    explain = f"wastedcores explain {said}{placed}{_asked(run, 'explain')}"
    try:
        fix = run.explanation.fix
    except (TopologyError, UnknownKernelError):
        return [
            (
                "Find the cause. The trace does not name its machine and kernel; if it was recorded here:",
                f"{explain} --machine live",
            )
        ]
    if fix and run.explanation.replayed:
        return [
            (
                f"The paper's fix is to {fix}. Replay the recorded work with it, and see what it gains:",
                f"wastedcores whatif {said}{placed}{_asked(run, 'whatif')}",
            )
        ]
    return [("See the evidence for the cause, and what would help:", explain)]


def _shows_wakeups(trace: Trace) -> bool:
    """Tell whether a critical path and the work of the tasks can be found in a trace."""
    return bool({"wakeup", "wakeup_new"} & trace.kinds().keys())


def next_after_explaining(found: Explanation, trace: Trace, name: str) -> tuple[str, str]:
    """Return the command that helps most after an explanation, and its purpose."""
    said = shlex.quote(name)
    woken = _shows_wakeups(trace)
    if found.looks_like == "in_doubt":
        return (
            f"wastedcores check {said}",
            "why the verdict is unknown, and how to record again",
        )
    if found.looks_like in ("nothing", "transient") and woken:
        return f"wastedcores path {said}", "where the time of the work went instead"
    if found.fix and found.replayed and woken:
        return f"wastedcores whatif {said}", "each fix, with its gain and its spread"
    return (
        f"wastedcores report {said} -o report",
        "a page with the figures, to look closer or to send",
    )


def next_command(r: CheckResult, name: str) -> tuple[str, str]:
    """Return the command that helps most after a check, and its purpose."""
    said = shlex.quote(name)
    if steps := _unknown(r, said):
        purpose = "treat every waiting thread as movable" if r.rests_on_affinity else "record again"
        return steps[0][1], purpose
    if r.verdict == "clean":
        return f"wastedcores report {said}", "a page with figures"
    return f"wastedcores explain {said}", "why, and which fix would help"


def next_after_path(trace: Trace, name: str) -> tuple[str, str]:
    """Return the command that helps most after a critical path, and its purpose.

    It is ``whatif`` if replays can tell what a fix would have gained, else ``report``.
    """
    from wastedcores.analysis.stated_machine import place
    from wastedcores.prediction.machines_and_kernels import SHORTEST_NS

    said, header = shlex.quote(name), trace.header
    where = place(trace, None, None)
    balancer = recorded_balancer(str(where.kernel))
    window = (header.window.end_ns - header.window.start_ns) if header.window else None
    length = window if window is not None else (header.end_ns or 0) - (header.start_ns or 0)
    if header.lost_total or length < SHORTEST_NS or not (balancer.replayed or balancer.stand_in):
        return f"wastedcores report {said} -o report", "a page with the figures"
    return f"wastedcores whatif {said}", "what a fix would have gained"
