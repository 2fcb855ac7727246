"""Capture for a while, or while a command runs, into our Parquet."""

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
from wastedcores.capture.process import Collector, Ended, terminable
from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.topology.sysfs import live
from wastedcores.trace.io import import_trace
from wastedcores.trace.trace import Trace

#: Kinds that schedtrace records when none is named; cpu_idle and load are the others.
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
        Command to run meanwhile, as a list of arguments (no shell); its own exit code is not looked at.
    events
        Some of :data:`ALL_EVENTS`; default :data:`DEFAULT_EVENTS`. BPF only.
    flight
        Flight recorder: keep the last so many seconds only. BPF only.
    buffer_mib
        Ring per CPU.
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
        An unknown kind, a negative time, no folder to write in.
    """
    output = Path(output)
    _check(output, seconds, events)
    chosen = choose(backend)
    say = progress or (lambda _: None)
    say(f"capturing with {chosen.name} ({chosen.why})")
    handle, name = tempfile.mkstemp(prefix=f".{output.name}.", suffix=".raw", dir=output.parent)
    raw = Path(name)
    try:
        with os.fdopen(handle, "wb") as f:
            how = _arguments(chosen, events, flight, buffer_mib)
            collector = Collector(command(_SCRIPT[chosen.name], how, chosen), f)
            _record(collector, seconds, run, say)
        if collector.process.returncode != 0:
            if not raw.stat().st_size:
                raise collector.failure()
            say(f"{collector.failure()} What it wrote until then is kept.")
        say("writing Parquet")
        around = f", around: {shlex.join(run)}" if run else ""
        source = f"captured here with {_SCRIPT[chosen.name]} ({chosen.name}){around}"
        return import_trace(raw, output, machine=this_machine(), source=source)
    finally:
        raw.unlink(missing_ok=True)


_SCRIPT = {"bpf": "schedtrace.py", "tracefs": "tracefs.py"}


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
    say: Callable[[str], None],
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
            _wait(collector, seconds, child, say)
    except (KeyboardInterrupt, Ended):
        say("ending")
    finally:
        if child is not None and child.poll() is None:
            child.terminate()
            child.wait()
        collector.stop()
    if collector.said:
        say(collector.said[-1])


def _wait(
    collector: Collector,
    seconds: float | None,
    child: subprocess.Popen[bytes] | None,
    say: Callable[[str], None],
) -> None:
    until = None if seconds is None else time.monotonic() + seconds
    told = ""
    while until is None or time.monotonic() < until:
        if child is not None and child.poll() is not None:
            return
        if collector.process.poll() is not None:
            if child is not None:
                child.wait()  # not ours to end
            return
        if collector.said and collector.said[-1] != told:
            told = collector.said[-1]
            say(told)
        left = 0.2 if until is None else min(0.2, max(0.0, until - time.monotonic()))
        time.sleep(left)


def this_machine() -> dict[str, Any] | None:
    """The machine for the header; a trace without it is still a trace."""
    try:
        return live().to_dict()
    except (WastedCoresError, OSError):
        return None
