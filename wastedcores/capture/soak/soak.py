"""Runs the online checker, the loads, the provocations and the witness, and keeps the result on disk all the time."""

from __future__ import annotations

import json
import os
import platform
import random
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from wastedcores.capture.live import live_check
from wastedcores.capture.live_result import LiveOptions
from wastedcores.capture.own_tasks import threads_of
from wastedcores.capture.soak.loads import provoke, running, turns
from wastedcores.capture.soak.witness import Witness, explain
from wastedcores.errors import CollectorError, UsageError
from wastedcores.files import written_whole


def markdown(found: dict[str, Any]) -> str:
    """Return the summary of a soak.

    Returns
    -------
    str
        Markdown.
    """
    alarms, provoked, cost = found["alarms"], found["provocations"], found["cost"]
    minutes = found["seconds"] / 60
    state = "complete" if found["complete"] else "not complete"
    rows = [
        ("Length", f"{minutes:.0f} minutes of {found['planned_seconds'] / 60:.0f} ({state})"),
        ("Machine", f"{found['cpus']} x {found['machine']}, Linux {found['kernel']}"),
        ("Alarms", f"{alarms['all']}, of which {alarms['unprovoked']} were not provoked"),
        ("True alarms", f"{alarms['true']}"),
        ("False alarms", f"{alarms['false']}"),
        ("Unexplained alarms", f"{alarms['unexplained'] + alarms['pending']}"),
        (
            "Provoked violations",
            f"{provoked['all']}, of which {provoked['established']} were established",
        ),
        ("Found", f"{provoked['found']}"),
        ("Established and missed", f"{provoked['missed']}"),
        *_cost(cost),
    ]
    lines = ["# Soak of the online checker", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows]
    lines += ["", "| load | seconds |", "|---|---|"]
    lines += [f"| {name} | {seconds:.0f} |" for name, seconds in found["load_seconds"].items()]
    odd = [a for a in found["each_alarm"] if a.get("answer") != "true"]
    if odd:
        lines += ["", "| alarm | idle CPU | answer | why |", "|---|---|---|---|"]
        lines += [
            f"| {a['number']} | {a['idle_cpu']} | {a.get('answer', 'pending')} | {a.get('why', '')} |"
            for a in odd
        ]
    return "\n".join(lines) + "\n"


def _cost(cost: list[dict[str, Any]]) -> list[tuple[str, str]]:
    if not cost:
        return []
    shares = [c["collector_cpu"] for c in cost]
    first, last = cost[0], cost[-1]
    return [
        (
            "CPU time of the collector",
            f"{median(shares):.2%} of one CPU (median), {max(shares):.2%} at most",
        ),
        *[
            (
                f"Memory of the {name}",
                f"{first[key] / 1024:.1f} MiB at first, {last[key] / 1024:.1f} MiB at last, "
                f"{max(c[key] for c in cost) / 1024:.1f} MiB at most",
            )
            for name, key in (("collector", "collector_rss_kib"), ("soak", "soak_rss_kib"))
        ],
    ]


SOAK_SCHEMA = "wastedcores.soak/1"
#: at most this many recordings of true alarms are kept, and all of the others
TRUE_KEPT = 3
_WRITE_S = 10.0
#: chronic waste is measured in recordings, so there is nothing for the witness to judge
_LIVE = LiveOptions(before_s=1.0, most_recordings=1_000_000, chronic_share=None)


@dataclass(frozen=True)
class SoakOptions:
    """How the soak is run.

    Attributes
    ----------
    seconds
        Its length.
    provoke_every_s
        Seconds from one provoked violation to the next.
    live
        How the checker looks.
    seed
        Of the order and lengths of the loads.
    """

    seconds: float = 7200.0
    provoke_every_s: float = 240.0
    live: LiveOptions = _LIVE
    seed: int = 0


@dataclass
class _Result:
    """What was found so far; it is written to the folder again and again."""

    options: SoakOptions
    folder: Path
    started_ns: int = field(default_factory=time.monotonic_ns)
    started_unix: float = field(default_factory=time.time)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    provocations: list[dict[str, Any]] = field(default_factory=list)
    cost: list[dict[str, Any]] = field(default_factory=list)
    loads: dict[str, float] = field(default_factory=dict)
    checker: dict[str, Any] = field(default_factory=dict)
    complete: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def to_json(self) -> dict[str, Any]:
        answers = [a.get("answer", "pending") for a in self.alarms]
        established = [p for p in self.provocations if p["established"]]
        return {
            "schema": SOAK_SCHEMA,
            "kernel": platform.release(),
            "machine": _model(),
            "cpus": os.cpu_count(),
            "started_unix": self.started_unix,
            "seconds": round((time.monotonic_ns() - self.started_ns) / 1e9, 1),
            "planned_seconds": self.options.seconds,
            "complete": self.complete,
            "seed": self.options.seed,
            "s_ns": self.options.live.period_ns,
            "m_ns": self.options.live.persist_ns,
            "alarms": {
                "all": len(answers),
                **{a: answers.count(a) for a in ("true", "false", "unexplained", "pending")},
                "unprovoked": sum(not a["provoked"] for a in self.alarms),
            },
            "provocations": {
                "all": len(self.provocations),
                "established": len(established),
                "found": sum(p["found"] for p in self.provocations),
                "missed": sum(not p["found"] for p in established),
            },
            "checker": self.checker,
            "load_seconds": {k: round(v, 1) for k, v in sorted(self.loads.items())},
            "each_alarm": self.alarms,
            "each_provocation": self.provocations,
            "cost": self.cost,
        }

    def write(self) -> None:
        """Write ``soak.json`` and ``soak.md``; readers never see half a file."""
        with self.lock:
            found = self.to_json()
        for name, text in (
            ("soak.json", json.dumps(found, indent=1)),
            ("soak.md", markdown(found)),
        ):
            with written_whole(self.folder / name) as part:
                part.write_text(text)


def soak(
    output: str | Path,
    options: SoakOptions = SoakOptions(),
    *,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run the online checker (BPF) for long while loads take turns, and judge every alarm by an independent reading.

    Parameters
    ----------
    output
        Folder for ``soak.json``, ``soak.md`` and the recordings of alarms. Partial results are there all the time.
    options
        How the soak is run.
    progress
        Called with a line of text now and then.

    Returns
    -------
    dict
        The object of ``soak.json``.

    Raises
    ------
    CollectorError
        This process is not root, or the collector failed.
    UsageError
        The folder cannot be made.
    """
    folder, say = Path(output), progress or (lambda _: None)
    if os.geteuid() != 0:
        raise CollectorError("a soak provokes violations, which needs root. Run it with sudo.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(f"{folder}: {e.strerror}. Choose another folder with -o.") from e
    result = _Result(options, folder)
    own = _OwnTime()
    witness, end, looking = Witness(own), threading.Event(), threading.Event()

    def heard(line: str) -> None:
        if line == "looking":
            own.find_collector()
            looking.set()
        if not line.endswith("confirmed"):  # the line of every second
            say(line)

    def alarm(found: dict[str, Any], raw: Path | None) -> None:
        with result.lock:
            result.alarms.append(
                {**found, "evidence": str(raw) if raw else None, "provoked": False}
            )

    helpers = [
        threading.Thread(target=_direct, args=(result, witness, end, looking, say)),
        threading.Thread(target=_keep_books, args=(result, witness, own, end, looking, say)),
    ]
    witness.start()
    for helper in helpers:
        helper.start()
    try:
        checked = live_check(
            options.live,
            seconds=options.seconds,
            output=folder,
            backend="bpf",
            progress=heard,
            on_violation=alarm,
        )
    finally:
        end.set()
        looking.set()
        for helper in helpers:
            helper.join()
        witness.stop()
        result.write()
    result.checker = {
        "checks": checked.checks,
        "suspected": checked.suspected,
        "confirmed": checked.confirmed,
        **checked.other,
    }
    for found in result.alarms:
        if found["evidence"] is not None:
            found["evidence"] = str(Path(found["evidence"]).with_suffix(".parquet"))
    result.complete = checked.seconds >= options.seconds - 1
    result.write()
    return result.to_json()


class _OwnTime:
    """The CPU time of this process and of the collector, which the checker does not count."""

    def __init__(self) -> None:
        self.collector: int | None = None

    def find_collector(self) -> None:
        """Find the collector among this process's children."""
        for tid in sorted(threads_of(os.getpid())):
            with suppress(OSError):
                for child in Path(f"/proc/self/task/{tid}/children").read_text().split():
                    if b"unclaimed.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                        self.collector = int(child)

    def of_collector(self) -> int:
        """Return the collector's CPU time so far in ns."""
        if self.collector is None:
            return 0
        try:
            fields = Path(f"/proc/{self.collector}/task/{self.collector}/schedstat").read_bytes()
            return int(fields.split()[0])
        except (OSError, IndexError):
            return 0

    def __call__(self) -> int:
        return time.process_time_ns() + self.of_collector()


def _direct(
    result: _Result,
    witness: Witness,
    end: threading.Event,
    looking: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Let the loads take turns and provoke a violation now and then."""
    looking.wait()
    options = result.options
    needed_s = 2 * (options.live.period_ns + options.live.persist_ns) / 1e9
    next_provocation = time.monotonic() + min(20.0, options.provoke_every_s)
    for loads, seconds in turns(random.Random(options.seed)):
        if end.is_set():
            return
        began = time.monotonic()
        stop = min(began + seconds, max(next_provocation, began + 1))
        with ExitStack() as stack:
            for load in loads:
                stack.enter_context(running(load, seconds))
            end.wait(max(0.0, stop - time.monotonic()))
        for load in loads:
            result.loads[load] = result.loads.get(load, 0.0) + time.monotonic() - began
        if time.monotonic() < next_provocation or end.is_set():
            continue
        next_provocation = time.monotonic() + options.provoke_every_s
        try:
            done = provoke(witness, needed_s, end, lambda since: bool(_alarms(result, since)))
        except CollectorError as e:
            say(f"no violation can be provoked here: {e}")
            next_provocation = float("inf")
            continue
        end.wait(1.0)  # an alarm may still be on its way
        _match(result, done)
        say(f"provoked: established {done['established']}, found {done['found']}")


def _alarms(result: _Result, since_ns: int) -> list[dict[str, Any]]:
    return [a for a in result.alarms if a["confirmed_ns"] >= since_ns]


def _match(result: _Result, done: dict[str, Any]) -> None:
    """Note which alarms belong to a provocation."""
    with result.lock:
        until_ns = done["end_ns"] + 500_000_000
        alarms = [a for a in _alarms(result, done["start_ns"]) if a["confirmed_ns"] <= until_ns]
        for a in alarms:
            a["provoked"] = True
        result.provocations.append({**done, "found": bool(alarms)})
        done["found"] = bool(alarms)


def _keep_books(
    result: _Result,
    witness: Witness,
    own: _OwnTime,
    end: threading.Event,
    looking: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Judge the alarms, measure what the checker costs, and write everything down."""
    looking.wait()
    last_ns, last_used = time.monotonic_ns(), own.of_collector()
    while True:
        last = end.wait(_WRITE_S)
        _judge(result, witness, say)
        now_ns, used = time.monotonic_ns(), own.of_collector()
        if used and not last:
            result.cost.append(
                {
                    "at_s": round((now_ns - result.started_ns) / 1e9, 1),
                    "collector_cpu": round((used - last_used) / (now_ns - last_ns), 5),
                    "collector_rss_kib": _rss_kib(own.collector),
                    "soak_rss_kib": _rss_kib(os.getpid()),
                    "load": round(os.getloadavg()[0], 2),
                }
            )
        last_ns, last_used = now_ns, used
        if last:
            return
        result.write()


def _judge(result: _Result, witness: Witness, say: Callable[[str], None]) -> None:
    with result.lock:
        pending = [a for a in result.alarms if "answer" not in a]
    for alarm in pending:
        found = explain(alarm, witness)
        if found is None:
            continue
        alarm.update(found)
        say(f"alarm {alarm['number']}: {found['answer']}, {found['why']}")
        kept = sum(a.get("answer") == "true" and a["evidence"] is not None for a in result.alarms)
        if found["answer"] == "true" and alarm["evidence"] and kept > TRUE_KEPT:
            Path(alarm["evidence"]).unlink(missing_ok=True)
            alarm["evidence"] = None


def _rss_kib(pid: int | None) -> int:
    """Return the resident memory of a process; 0 if it is gone."""
    with suppress(OSError, IndexError, ValueError):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0])
    return 0


def _model() -> str:
    """Return the model name of the first CPU."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
