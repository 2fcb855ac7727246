"""The online sanity checker (paper, section 4.1): run it, keep its recordings, and report what it found."""

from __future__ import annotations

import json
import math
import os
import queue
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any

from wastedcores.capture.backends import Backend, choose, command, probe
from wastedcores.capture.collector import Collector, Terminated, terminable
from wastedcores.capture.live_result import LiveCheck, LiveOptions
from wastedcores.capture.snapshot import header_facts, take
from wastedcores.capture.system import this_machine, throttled, throttled_since
from wastedcores.errors import CollectorError, UsageError
from wastedcores.files import written_whole

if TYPE_CHECKING:
    from wastedcores.capture.evidence import Evidence
    from wastedcores.invariant import CheckResult

Report = Callable[[str], None]
#: a function that takes a message of the collector, or of the code that judges its recordings
Hear = Callable[[dict[str, Any]], None]


class _Counts:
    """A checker that samples the kernel's own counts while a recording without runqueue lengths is made.

    ftrace has no event for the length of a runqueue, and some kernels hide tasks from ftrace. So the collector ``debugfs.py``
    samples the lengths. A violation that it finds is certain; that it finds none proves nothing.
    """

    def __init__(self, result: LiveCheck, backend: Backend, file: Path, report: Report) -> None:
        own = ["--until-eof", "--own", str(os.getpid()), *result.options.times()]
        self.collector = Collector(command("debugfs.py", own, backend), PIPE)
        self.result, self.file, self.report = result, file, report
        self.failure: CollectorError | None = None
        assert self.collector.process.stdout is not None
        self.received: queue.Queue[Any] = queue.Queue()
        self.ended = threading.Event()
        reading = (self.collector.process.stdout, self.received, self.ended)
        threading.Thread(target=read_messages, args=reading, daemon=True).start()
        self.teller = threading.Thread(target=self._tell, daemon=True)
        self.teller.start()

    def _tell(self) -> None:
        try:
            for message, _ in messages(self.received):
                if message["event"] != "ready":
                    add_message(self.result, message, None, self.report)
        except CollectorError as e:
            self.failure = e

    def end(self) -> bool:
        """End the collector, wait until everything it found is in the result, and return whether it sampled to the end."""
        assert self.collector.process.stdin is not None
        with suppress(OSError):
            self.collector.process.stdin.close()
        self.teller.join()
        code = self.collector.stop()
        if self.failure is not None:
            raise self.failure
        for violation in self.result.violations:
            violation["evidence"] = str(self.file)
        if not self.ended.is_set():
            said = " ".join(self.collector.messages[-1:]) or f"debugfs.py ended with code {code}"
            how = "not sampled to the end" if self.result.checks else "not sampled"
            self.result.notes.append(f"the kernel's own counts were {how} ({said})")
        return self.ended.is_set()


def record_and_check(
    result: LiveCheck, folder: Path, seconds: float | None, backend: Backend, report: Report
) -> None:
    """Record during the whole check, check the recording, and add what the kernel's own counts showed."""
    from wastedcores.capture.record import capture
    from wastedcores.invariant import check

    file = folder / "recording.parquet"
    persist_ns = result.options.persist_ns
    counts = _Counts(result, backend, file, report)

    def forward(line: str) -> None:
        report("looking" if line == "recording" else line)

    try:
        trace = capture(file, seconds=seconds, backend=backend.name, progress=forward)
    finally:
        looked = counts.end()
    found = check(trace, persist_ns=persist_ns, chronic_share=result.options.chronic_share)
    result.worst = found
    result.seconds = found.duration_ns / 1e9
    if found.verdict == "violations" and found.chronic is not None:
        result.chronic.append({**found.chronic._asdict(), "evidence": str(file)})
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


def read_messages(stream: IO[bytes], received: queue.Queue[Any], ended: threading.Event) -> None:
    """Put (message, recording) pairs into the queue, and None at the end; ``ended`` is set when the message ``end`` comes.

    Each message is a line of JSON, followed by a recording of as many bytes as the line says. This function runs on a separate
    thread, so that no signal can cut a message in two.
    """
    try:
        while line := stream.readline():
            message = json.loads(line)
            size = int(message["bytes"])
            if message["event"] == "end":
                ended.set()
            received.put((message, stream.read(size) if size else b""))
    except (ValueError, KeyError, TypeError):
        received.put(CollectorError(f"the collector sent an unexpected line: {line[:80]!r}."))
    received.put(None)


def messages(received: queue.Queue[Any]) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yield the collector's messages, each with its recording, until it has ended."""
    while True:
        try:
            item = received.get(timeout=0.2)  # a timeout, so that signals are handled
        except queue.Empty:
            continue
        if item is None:
            return
        if isinstance(item, CollectorError):
            raise item
        yield item


def add_message(
    result: LiveCheck,
    message: dict[str, Any],
    raw: Path | None,
    report: Callable[[str], None],
) -> None:
    """Add a message to the result; ``raw`` is the file with its recording, if it has one."""
    event = message.pop("event")
    message.pop("bytes")
    for key in ("checks", "suspected", "confirmed"):
        if key in message:
            setattr(result, key, int(message[key]))
    if event == "violation":
        result.confirmed = max(result.confirmed, int(message["number"]))
        message["evidence"] = None if raw is None else str(raw.with_suffix(".parquet"))
        result.violations.append(message)
        del result.violations[: -result.options.most_listed]
        report(
            f"VIOLATION {message['number']}: CPU {message['idle_cpu']} was idle for {message['lasted_ms']} ms while "
            f"pid {message['pid']} waited on CPU {message['busy_cpu']}"
        )
    elif event == "chronic":
        report("violations come and go; the last moments were recorded")
    elif event == "progress":
        report(
            f"{result.checks} checks, {result.suspected} suspected, {result.confirmed} confirmed"
        )
    elif event == "ready":
        report("looking")
    elif event == "end":
        result.seconds = float(message["seconds"])
        keys = ["cleared", "recovered", "by_move", "by_fork", "by_exit"]
        keys += ["moves", "useless", "deficits", "truncated"]
        result.other = {k: message[k] for k in keys if k in message}
    elif event == "deficit":
        report(f"run-delay deficit on CPUs {message['cpus']}")


class Recordings:
    """The recordings of one live check."""

    def __init__(self, result: LiveCheck, folder: Path, report: Report, hear: Hear) -> None:
        self.result, self.folder, self.report, self.hear = result, folder, report, hear
        #: the files with what the collector recorded; each file exists until it is judged
        self._raw: list[Path] = []
        #: how many recordings of ten slices were kept, by verdict
        self._kept: Counter[str] = Counter()
        self._throttled, self._first = throttled(), take()

    def write(self, kind: str, number: int, blob: bytes) -> Path | None:
        """Write what the collector sent to a file, under a higher number if an earlier watch left a file with this number."""
        while any((self.folder / f"{kind}-{number}{end}").exists() for end in (".wct", ".parquet")):
            number += 1
        raw = self.folder / f"{kind}-{number}.wct"
        try:
            with written_whole(raw) as part:
                part.write_bytes(blob)
        except OSError as e:
            raise UsageError(f"{raw}: {e.strerror}. Choose another folder with -o.") from e
        return raw

    def add(self, raw: Path) -> None:
        """Take a recording of the collector. Possible chronic waste is judged at once, and a violation in :meth:`finish`."""
        self._raw.append(raw)
        if raw.stem.startswith("chronic"):
            self._judge(raw)

    def finish(self) -> None:
        """Check the recordings that are not judged yet, perhaps because of Ctrl-C; the worst result becomes ``result.worst``."""
        for raw in filter(Path.exists, self._raw):
            if raw.stem.startswith("chronic"):
                self._judge(raw)
            else:
                self._keep_the_worse(self._check(raw))
        _explain_clean_recording(self.result)

    def _judge(self, raw: Path) -> None:
        """Check a recording of ten slices, because only samples caused it; keep it if its waste is chronic or not known."""
        found = self._check(raw)
        enough = self._kept[found.verdict] >= self.result.options.most_recordings
        if found.verdict == "violations" and found.chronic is not None:
            kept = None if enough else str(found.trace.path)
            self.result.chronic.append({**found.chronic._asdict(), "evidence": kept})
            del self.result.chronic[: -self.result.options.most_listed]
            self.hear({"event": "chronic waste"})
            self.report(f"CHRONIC: five of ten slices waste {found.chronic.share:.1%} or more")
        if found.verdict == "clean" or enough:
            raw.with_suffix(".parquet").unlink()
            return
        self._kept[found.verdict] += 1
        self._keep_the_worse(found)

    def _check(self, raw: Path) -> CheckResult:
        # a watch that finds nothing does not need these modules
        from wastedcores.invariant import check
        from wastedcores.trace.io import import_trace

        facts, options = header_facts(self._first, take()), self.result.options
        facts["provenance"] = {"throttled": throttled_since(self._throttled, throttled())}
        trace = import_trace(
            raw,
            raw.with_suffix(".parquet"),
            machine=this_machine(),
            source="recorded here by unclaimed.py (bpf)",
            facts=facts,
        )
        self.report(f"{trace.name}: {trace.header.events} events")
        found = check(trace, persist_ns=options.persist_ns, chronic_share=options.chronic_share)
        raw.unlink()
        return found

    def _keep_the_worse(self, found: CheckResult) -> None:
        worst = self.result.worst
        if worst is None or (found.verdict == "violations", found.thread_ns) > (
            worst.verdict == "violations",
            worst.thread_ns,
        ):
            self.result.worst = found


def _explain_clean_recording(result: LiveCheck) -> None:
    """Say why the worst recording is clean although a violation was raised."""
    if result.worst is None or result.worst.verdict == "violations":
        return
    if result.worst.duration_ns < result.options.persist_ns:
        result.notes.append(
            "only the moment after a violation was raised was recorded (before 0). It is shorter than M, so no episode "
            "of the recording is persistent"
        )
    elif result.worst.verdict == "clean":
        result.notes.append(
            "in the recording, the violation that the checker raised is interrupted by tasks that ran on the idle CPU "
            "for a moment; each of its episodes is shorter than M"
        )


def live_check(
    options: LiveOptions = LiveOptions(),
    *,
    seconds: float | None = None,
    output: str | Path | None = None,
    backend: str = "auto",
    progress: Report | None = None,
    on_message: Hear = lambda _: None,
    evidence: Evidence | None = None,
) -> LiveCheck:
    """Check the invariant on this machine as it runs.

    Parameters
    ----------
    options
        How the checker looks.
    seconds
        For how long to check; None: until Ctrl-C or SIGTERM.
    output
        Folder for the recording of each confirmed violation (made if absent); None: keep only the counts.
    backend
        ``auto``, ``bpf`` or ``tracefs``. The tracefs backend records all the time and checks the recording afterwards. While it
        records, it samples the kernel's own counts.
    progress
        Called with a line of text now and then; the line ``looking`` says that the checker has started.
    on_message
        Called with each message of the collector, and with the event ``chronic waste`` when a recording shows chronic waste. Only
        with the BPF backend.
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
    chosen = choose(backend, checker=True)
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
            asked = {"metrics": options.tally, "evidence within limits": evidence is not None}
            asked |= {"--event-driven": options.event_driven, "--deficit": options.deficit}
            asked |= {"--useless": options.useless}
            if any(asked.values()):
                bpf = probe(checker=True)[0]
                why = (
                    "Leave --backend out."
                    if bpf.works
                    else f"BPF: {bpf.why}. See: wastedcores doctor."
                )
                raise UsageError(
                    f"{' and '.join(what for what in asked if asked[what])}: only the BPF backend has this, and tracefs was "
                    f"chosen. {why}"
                )
            record_and_check(result, folder, seconds, chosen, report)
        else:
            recordings = evidence or Recordings(result, folder, report, on_message)
            _check_in_kernel(result, recordings, seconds, chosen, report, on_message)
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
    on_message: Hear,
) -> None:
    duration = [] if seconds is None else ["--seconds", f"{seconds:g}"]
    own = ["--own", str(os.getpid())]
    arguments = ["--framed", "--until-eof", *own, *result.options.arguments(), *duration]
    collector = Collector(command("unclaimed.py", arguments, backend), PIPE)
    assert collector.process.stdout is not None
    assert collector.process.stdin is not None
    received: queue.Queue[Any] = queue.Queue()
    ended = threading.Event()
    reading = (collector.process.stdout, received, ended)
    threading.Thread(target=read_messages, args=reading, daemon=True).start()

    def receive() -> None:
        for message, recording in messages(received):
            event, raw = message["event"], None
            on_message(message)
            if recording:
                raw = recordings.write(event, message["number"], recording)
            add_message(result, message, raw, report)
            if raw is not None:
                recordings.add(raw)

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
    # the collector exits with 0 or 1. Python also exits with 1 after an uncaught exception, so the last message must have come
    failed = code not in (0, 1) or not ended.is_set()
    try:
        recordings.finish()  # what was recorded before a failure is evidence, too
    finally:
        if failed:
            raise collector.failure()
