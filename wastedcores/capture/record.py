"""Record the scheduler for a while, or while a command runs, into a Parquet file."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wastedcores.capture.backends import Backend, choose, command
from wastedcores.capture.collector import Collector, Terminated, terminable
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.topology.sysfs import live
from wastedcores.trace.io import import_trace
from wastedcores.trace.trace import Trace

#: the kinds that schedtrace records when none is named
DEFAULT_EVENTS = (
    "nr_running",
    "switch",
    "wakeup",
    "wakeup_new",
    "migrate",
    "fork",
    "exec",
    "exit",
    "frequency",
    "affinity",
)
ALL_EVENTS = (*DEFAULT_EVENTS, "cpu_idle", "load")
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
        How long; None: while ``run`` runs, or until Ctrl-C or SIGTERM.
    run
        Command to run meanwhile, as a list of arguments (no shell). Its exit code is ignored.
    events
        Some of :data:`ALL_EVENTS`; None: :data:`DEFAULT_EVENTS`. Only the BPF backend can choose.
    flight
        Flight recorder: keep only the last so many seconds. Only with the BPF backend.
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
        Capture is not possible here, or failed.
    UsageError
        An unknown kind, a time that is not above 0, or no folder to write in.
    """
    output = Path(output)
    _check(output, seconds, events)
    chosen = choose(backend)
    report = progress or (lambda _: None)
    report(f"capturing with {chosen.name} ({chosen.why})")
    handle, name = tempfile.mkstemp(prefix=f".{output.name}.", suffix=".raw", dir=output.parent)
    raw = Path(name)
    try:
        with os.fdopen(handle, "wb") as f:
            arguments = _arguments(chosen, events, flight, buffer_mib)
            collector = Collector(command(_SCRIPT[chosen.name], arguments, chosen), f)
            _record(collector, seconds, run, report)
        if collector.process.returncode != 0:
            if not raw.stat().st_size:
                raise collector.failure()
            report(f"{collector.failure()} What it wrote until then is kept.")
        report("writing Parquet")
        around = f", around: {shlex.join(run)}" if run else ""
        source = f"captured here with {_SCRIPT[chosen.name]} ({chosen.name}){around}"
        return import_trace(raw, output, machine=this_machine(), source=source)
    finally:
        raw.unlink(missing_ok=True)


def _check(output: Path, seconds: float | None, events: Sequence[str] | None) -> None:
    if seconds is not None and seconds <= 0:
        raise UsageError(f"seconds {seconds}: expected more than 0.")
    for event in events or ():
        if event not in ALL_EVENTS:
            raise UsageError(f"event {event!r} is none of {', '.join(ALL_EVENTS)}.")
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
    return out


def _record(
    collector: Collector,
    seconds: float | None,
    run: Sequence[str] | None,
    report: Callable[[str], None],
) -> None:
    child: subprocess.Popen[bytes] | None = None
    try:
        with terminable():
            collector.wait_ready()
            if run:
                try:
                    child = subprocess.Popen(list(run), stdout=sys.stderr)
                except OSError as e:
                    raise UsageError(f"cannot run {run[0]!r}: {e.strerror}.") from e
            _wait(collector, seconds, child, report)
    except (KeyboardInterrupt, Terminated):
        report("ending")
    finally:
        if child is not None and child.poll() is None:
            child.terminate()
            child.wait()
        collector.stop()
    if collector.messages:
        report(collector.messages[-1])


def _wait(
    collector: Collector,
    seconds: float | None,
    child: subprocess.Popen[bytes] | None,
    report: Callable[[str], None],
) -> None:
    """Return when the time is up, the child has ended or the collector has; pass on the collector's messages."""
    until = None if seconds is None else time.monotonic() + seconds
    reported = ""
    while until is None or time.monotonic() < until:
        if child is not None and child.poll() is not None:
            return
        if collector.process.poll() is not None:
            if child is not None:
                child.wait()  # the user's command is not ended because the collector was
            return
        if collector.messages and collector.messages[-1] != reported:
            reported = collector.messages[-1]
            report(reported)
        left = 0.2 if until is None else min(0.2, max(0.0, until - time.monotonic()))
        time.sleep(left)


def this_machine() -> dict[str, Any] | None:
    """Return this machine for a trace's header, or None if it cannot be read: a trace without it is still a trace."""
    try:
        return live().to_dict()
    except (WastedCoresError, OSError):
        return None
