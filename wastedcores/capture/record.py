"""Record the scheduler for a while, or while a command runs, into a Parquet file."""

from __future__ import annotations

import math
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wastedcores.capture.backends import Backend, choose, command
from wastedcores.capture.collector import Collector, Terminated, terminable
from wastedcores.capture.own_tasks import threads_of, written_without
from wastedcores.capture.snapshot import Snapshot, header_facts, take
from wastedcores.capture.system import stolen, this_machine, throttled, throttled_since
from wastedcores.errors import CollectorError, UsageError, WastedCoresError
from wastedcores.files import is_special, leftovers, part_prefix, what_to_do
from wastedcores.trace.io import import_trace
from wastedcores.trace.trace import Trace

#: the kinds that schedtrace records when none is named
DEFAULT_EVENTS = (
    "nr_running", "switch", "wakeup", "wakeup_new", "migrate", "fork", "exec", "exit", "frequency", "cpu_online", "affinity",
    "throttle",
)  # fmt: skip
#: all kinds that can be named; ``transitions`` stands for the kinds kernel_entry and kernel_exit
ALL_EVENTS = (*DEFAULT_EVENTS, "cpu_idle", "load", "transitions", "tick")
_SCRIPT = {"bpf": "schedtrace.py", "tracefs": "tracefs.py"}


def capture(
    output: str | Path,
    *,
    seconds: float | None = None,
    run: Sequence[str] | None = None,
    events: Sequence[str] | None = None,
    flight: float | None = None,
    buffer_mib: float = 8.0,
    backend: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> Trace:
    """Record the scheduler of this machine into a Parquet file.

    Parameters
    ----------
    output
        Parquet file to write; its folder must exist.
    seconds
        For how long to record; None: while ``run`` runs, or until Ctrl-C or SIGTERM.
    run
        Command to run during the recording, as a list of arguments (no shell). If it fails, its exit code is in the header's
        provenance.
    events
        Some of :data:`ALL_EVENTS`; None: :data:`DEFAULT_EVENTS`. Only the BPF backend can choose.
    flight
        Flight recorder: keep only the last seconds of the recording, this many. Only with the BPF backend.
    buffer_mib
        Size of each CPU's ring in MiB.
    backend
        ``auto``, ``bpf`` or ``tracefs``.
    progress
        Called with a line of text now and then.

    Returns
    -------
    Trace
        The written file, opened.

    Raises
    ------
    CollectorError
        Capture is not possible here, or it failed. If anything was recorded, the message names the file that holds it.
    UsageError
        An unknown kind, a time that is not above 0, or no folder to write in.
    """
    output = Path(output)
    _check(output, seconds, events)
    chosen = choose(backend)
    report = progress or (lambda _: None)
    report(f"capturing with {chosen.name} ({chosen.why})")
    for left in leftovers(output.parent):
        report(f"{left} was left by a process that was killed: {what_to_do(left)}")
    # the process id tells later runs whether this file is still being written
    raw = output.with_name(f"{output.name}.{os.getpid()}.raw")
    own: set[int] = set()
    facts: dict[str, Any] = {}
    try:
        with raw.open("wb") as f:
            arguments = _arguments(chosen, events, flight, buffer_mib)
            collector = Collector(command(_SCRIPT[chosen.name], arguments, chosen), f)
            _record(collector, seconds, run, report, own, facts)
        if collector.process.returncode != 0 and not raw.stat().st_size:
            raise collector.failure()
    except (UsageError, CollectorError):
        raw.unlink(missing_ok=True)  # the recording did not begin
        raise
    except BaseException:
        if facts and raw.stat().st_size:
            report(f"the raw recording is kept in {raw}")
        else:
            raw.unlink(missing_ok=True)
        raise
    broken = None
    if collector.process.returncode != 0:
        broken = str(collector.failure())
        report(f"{broken} What it wrote until then is kept.")
    try:
        report("writing Parquet")
        around = f", around: {shlex.join(run)}" if run else ""
        source = f"captured here with {_SCRIPT[chosen.name]} ({chosen.name}){around}"
        if chosen.name == "bpf":
            trace = import_trace(raw, output, machine=this_machine(), source=source, facts=facts)
        else:
            trace = _import_without_own(raw, output, source, own, broken, facts)
    except (WastedCoresError, OSError) as e:
        raise CollectorError(
            f"{str(e).rstrip('.')}. The raw recording is kept in {raw}. When the cause is mended, run: wastedcores import "
            f"{shlex.quote(str(raw))} -o {shlex.quote(str(output))}"
        ) from e
    except KeyboardInterrupt:
        report(f"the raw recording is kept in {raw}")
        raise
    raw.unlink()
    return trace


def _import_without_own(
    raw: Path,
    output: Path,
    source: str,
    own: set[int],
    broken: str | None,
    facts: dict[str, Any],
) -> Trace:
    """Import a recording of tracefs without the tasks of the recorder."""
    facts = {"kernel_release": platform.release(), "clock": "mono"} | facts
    part = raw.with_name(f"{part_prefix(output.name)}pages.part.parquet")
    try:
        import_trace(raw, part, machine=this_machine(), source=source, facts=facts)
        return written_without(part, own, output, broken)
    finally:
        part.unlink(missing_ok=True)


def _check(output: Path, seconds: float | None, events: Sequence[str] | None) -> None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise UsageError(f"seconds {seconds}: expected a number above 0.")
    for event in events or ():
        if event not in ALL_EVENTS:
            raise UsageError(f"event {event!r} is none of {', '.join(ALL_EVENTS)}.")
    if is_special(output):
        raise UsageError(f"{output}: this is a device or a pipe; expected the name of a file.")
    if output.is_dir():
        raise UsageError(f"{output}: this is a directory; expected the name of a file.")
    if not output.parent.is_dir() or not os.access(output.parent, os.W_OK):
        raise UsageError(
            f"{output}: cannot write into {output.parent}. Choose another place with -o."
        )


def _arguments(
    backend: Backend, events: Sequence[str] | None, flight: float | None, buffer_mib: float
) -> list[str]:
    out = ["--until-eof", "--buffer", f"{buffer_mib:g}"]
    if backend.name == "bpf":
        out += ["--progress", "--events", ",".join(events or DEFAULT_EVENTS)]
        out += [] if flight is None else ["--flight", f"{flight:g}"]
    elif flight is not None:
        raise UsageError("the flight recorder needs the bpf backend; see wastedcores doctor.")
    elif events is not None:
        raise UsageError(
            f"the kinds {', '.join(events)} need the bpf backend, because tracefs records the same kinds always; "
            "see wastedcores doctor."
        )
    return out


def _record(
    collector: Collector,
    seconds: float | None,
    run: Sequence[str] | None,
    report: Callable[[str], None],
    own: set[int],
    facts: dict[str, Any],
) -> None:
    """Let the collector run; add to ``own`` the threads that only record, and to ``facts`` what the file does not tell."""
    child: subprocess.Popen[bytes] | None = None
    before: dict[str, tuple[int, int]] = {}
    stolen_before: dict[int, int] | None = None
    first: Snapshot | None = None
    try:
        with terminable():
            collector.wait_ready()
            own |= threads_of(collector.process.pid)
            before, stolen_before = throttled(), stolen()
            first = take()
            report("recording")
            if run:
                try:
                    child = subprocess.Popen(list(run), stdout=sys.stderr)
                except OSError as e:
                    raise UsageError(f"cannot run {run[0]!r}: {e.strerror}.") from e
            _wait(collector, seconds, child, report)
    except (KeyboardInterrupt, Terminated):
        report("ending")
    finally:
        code = child.poll() if child is not None else 0
        if child is not None and code is None:
            child.terminate()
            child.wait()
        own |= threads_of(collector.process.pid)
        if first is not None:
            facts |= header_facts(first)
            facts["provenance"] = {"throttled": throttled_since(before, throttled())}
            if code:
                facts["provenance"]["exit code"] = str(code if code > 0 else 128 - code)
                report(f"the command ended with exit code {facts['provenance']['exit code']}")
            if (now := stolen()) is not None and stolen_before is not None:
                facts["stolen_ns"] = {c: ns - stolen_before.get(c, ns) for c, ns in now.items()}
        collector.stop()
        if first is not None:  # what changes while the collector ends counts as a change, too
            facts |= header_facts(first, take())
    if collector.messages:
        report(collector.messages[-1])


def _wait(
    collector: Collector,
    seconds: float | None,
    child: subprocess.Popen[bytes] | None,
    report: Callable[[str], None],
) -> None:
    """Pass on the collector's messages until the time is up, or until the child or the collector has ended."""
    until = None if seconds is None else time.monotonic() + seconds
    reported = ""
    while until is None or time.monotonic() < until:
        if child is not None and child.poll() is not None:
            return
        if collector.process.poll() is not None:
            if child is not None:
                child.wait()  # the user's command goes on although the collector has ended
            return
        if collector.messages and collector.messages[-1] != reported:
            reported = collector.messages[-1]
            report(reported)
        # if no command is waited for, look rarely, because each look may wake an idle CPU
        longest = 0.2 if child is not None else 1.0
        left = longest if until is None else min(longest, max(0.0, until - time.monotonic()))
        time.sleep(left)
