"""The online sanity checker (paper, section 4.1): run it, keep its recordings, and report what it found."""

from __future__ import annotations

import math
import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

from wastedcores.capture.backends import Backend, choose, command
from wastedcores.capture.collector import Collector, Terminated, terminable
from wastedcores.capture.live_messages import add_message, messages, read_messages
from wastedcores.capture.live_recordings import Recordings
from wastedcores.capture.live_result import LiveCheck, LiveOptions
from wastedcores.errors import UsageError

if TYPE_CHECKING:
    from wastedcores.capture.evidence import Evidence

Report = Callable[[str], None]
OnViolation = Callable[[dict[str, Any], Path | None], None]


def live_check(
    options: LiveOptions = LiveOptions(),
    *,
    seconds: float | None = None,
    output: str | Path | None = None,
    backend: str = "auto",
    progress: Report | None = None,
    on_violation: OnViolation | None = None,
    on_message: Callable[[dict[str, Any]], None] | None = None,
    evidence: Evidence | None = None,
) -> LiveCheck:
    """Check the invariant on this machine as it runs.

    Parameters
    ----------
    options
        How the checker looks.
    seconds
        How long; None: until Ctrl-C or SIGTERM.
    output
        Folder for the recording of each confirmed violation (made if absent); None: keep only the counts.
    backend
        ``auto``, ``bpf`` or ``tracefs``. The tracefs backend records all the time and checks afterwards, and it samples the
        kernel's own counts meanwhile.
    progress
        Called with a line of text now and then; the line ``looking`` says that the checker has started.
    on_violation
        Called at once with each violation and the file of its recording (None if there is none). Recordings that it deletes
        are not imported. Only with the BPF backend.
    on_message
        Called with each message of the collector. Only with the BPF backend.
    evidence
        Keeps the recordings within limits and judges them at once, instead of ``output``. Only with the BPF backend.

    Returns
    -------
    LiveCheck
        What the checker saw.

    Raises
    ------
    CollectorError
        No backend works here, or the collector failed.
    UsageError
        ``seconds`` is not above 0, or the folder cannot be made.
    """
    if seconds is not None and not 0 < seconds < math.inf:
        raise UsageError(f"seconds {seconds}: expected a number above 0.")
    chosen = choose(backend)
    report = progress or (lambda _: None)
    report(f"checking with {chosen.name} ({chosen.why})")
    result = LiveCheck(options, chosen.name, started_ns=time.monotonic_ns())
    with tempfile.TemporaryDirectory(prefix="wastedcores-") as scratch:
        folder = Path(output) if output is not None else Path(scratch)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise UsageError(f"{folder}: {e.strerror}. Choose another folder with -o.") from e
        if chosen.name == "tracefs":
            if options.tally or evidence is not None:
                raise UsageError(
                    "metrics and evidence within limits need the BPF backend, and this machine has only tracefs. "
                    "`wastedcores doctor` says what is missing."
                )
            from wastedcores.capture.live_tracefs import record_and_check

            record_and_check(result, folder, seconds, chosen, report)
        else:
            recordings = evidence or Recordings(result, folder, report)
            _check_in_kernel(result, recordings, seconds, chosen, report, on_violation, on_message)
        if output is None and evidence is None:  # the recordings go away with the scratch folder
            for found in (*result.violations, *result.chronic):
                found["evidence"] = None
    return result


def _check_in_kernel(
    result: LiveCheck,
    recordings: Recordings | Evidence,
    seconds: float | None,
    backend: Backend,
    report: Report,
    on_violation: OnViolation | None,
    on_message: Callable[[dict[str, Any]], None] | None,
) -> None:
    duration = [] if seconds is None else ["--seconds", f"{seconds:g}"]
    own = ["--own", str(os.getpid())]
    arguments = ["--framed", "--until-eof", *own, *result.options.arguments(), *duration]
    collector = Collector(command("unclaimed.py", arguments, backend), PIPE)
    assert collector.process.stdout is not None
    assert collector.process.stdin is not None
    received: queue.Queue[Any] = queue.Queue()
    threading.Thread(
        target=read_messages, args=(collector.process.stdout, received), daemon=True
    ).start()

    def receive() -> None:
        for message, recording in messages(received):
            event, raw = message["event"], None
            if on_message is not None:
                on_message(message)
            if recording:
                raw = recordings.write(event, message["number"], recording)
            add_message(result, message, raw, report)
            if raw is not None:
                recordings.add(raw)
            if on_violation is not None and event == "violation":
                on_violation(result.violations[-1], raw)

    try:
        try:
            with terminable():
                receive()
        except (KeyboardInterrupt, Terminated):
            report("ending")
            collector.process.stdin.close()
            receive()
    finally:
        code = collector.stop()
    if code not in (0, 1):
        raise collector.failure()
    recordings.finish()
