"""The online checker without BPF: it records through tracefs and samples the kernel's own counts meanwhile."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

from wastedcores.capture.backends import Backend, command
from wastedcores.capture.collector import Collector
from wastedcores.capture.live_messages import add_message, messages, read_messages
from wastedcores.capture.live_result import LiveCheck
from wastedcores.capture.record import capture
from wastedcores.invariant import check

Report = Callable[[str], None]


class _Counts:
    """The checker of the kernel's own counts, which looks beside a recording that cannot count.

    ftrace has no event for the length of a runqueue, and some kernels hide tasks from it. The collector ``debugfs.py``
    samples the lengths instead. What it finds is certain, while its silence proves nothing.
    """

    def __init__(self, result: LiveCheck, backend: Backend, file: Path) -> None:
        own = ["--until-eof", "--own", str(os.getpid()), *result.options.times()]
        self.collector = Collector(command("debugfs.py", own, backend), PIPE)
        self.result, self.file = result, file
        assert self.collector.process.stdout is not None
        self.received: queue.Queue[Any] = queue.Queue()
        stream = self.collector.process.stdout
        threading.Thread(target=read_messages, args=(stream, self.received), daemon=True).start()

    def end(self, report: Report) -> bool:
        """End it, add what it found to the result, and return whether it looked."""
        assert self.collector.process.stdin is not None
        with suppress(OSError):
            self.collector.process.stdin.close()
        try:
            for message, _ in messages(self.received):
                if message["event"] != "ready":
                    add_message(self.result, message, None, report)
        finally:
            code = self.collector.stop()
        for violation in self.result.violations:
            violation["evidence"] = str(self.file)
        if code not in (0, 1):
            said = " ".join(self.collector.messages[-1:]) or f"debugfs.py ended with code {code}"
            self.result.notes.append(f"the kernel's own counts were not sampled ({said})")
        return code in (0, 1)


def record_and_check(
    result: LiveCheck, folder: Path, seconds: float | None, backend: Backend, report: Report
) -> None:
    """Record all the time, check the recording, and add what the kernel's own counts showed."""
    file = folder / "recording.parquet"
    persist_ns = result.options.persist_ns
    counts = _Counts(result, backend, file)

    def forward(line: str) -> None:
        report("looking" if line == "recording" else line)

    try:
        trace = capture(file, seconds=seconds, backend=backend.name, progress=forward)
    finally:
        looked = counts.end(report)
    found = check(trace, persist_ns=persist_ns, chronic_share=result.options.chronic_share)
    result.worst = found
    result.seconds = found.duration_ns / 1e9
    if result.confirmed:
        if found.verdict != "violations":
            result.notes.append(
                "the verdict rests on the kernel's own counts, which were sampled; the recording alone would not decide"
            )
        return
    certain = found.episodes.filter(found.episodes["certain"])
    result.checks += not looked
    result.suspected = max(result.suspected, found.episodes.height)
    result.confirmed = certain.height
    for row in certain.head(100).iter_rows(named=True):
        result.violations.append(
            {
                "idle_cpu": row["idle_cpus"][0],
                "busy_cpu": row["overloaded_cpus"][0],
                "began_ns": row["start_ns"],
                "confirmed_ns": row["start_ns"] + persist_ns,
                "lasted_ms": round((row["end_ns"] - row["start_ns"]) / 1e6),
                "evidence": str(file),
            }
        )
