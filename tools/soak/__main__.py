"""Tries the checker for hours as an operator runs it, and judges every alarm: see docs/soak.md.

sudo .venv/bin/python tools/soak -o soak             # two hours, then half an hour idle; needs a machine of its own
sudo .venv/bin/python tools/soak -o soak --short     # seven minutes, to try it
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak.loads import IDLE, LIMITS, LOADS, provoke, running
from soak.summary import SCHEMA, markdown, summary
from soak.systemd import UNTIL_KILLED, absent, booted
from soak.watchers import KEEP_MB, Recorder, Service, Watcher, follow, install
from soak.witness import Witness, ahead, explain
from wastedcores.capture.live_result import LiveOptions
from wastedcores.files import written_whole

#: the watchers are sampled so often, and everything is written again after so many samples
_SAMPLE_S, _WRITE_EVERY = 10.0, 6
#: the defaults of `watch`
_LIVE = LiveOptions()


@dataclass(frozen=True)
class Plan:
    """How long what is done."""

    idle_s: float = 1800.0
    load_s: float = 1800.0  #: for each of the four
    violations: int = 10
    kill_s: float = 300.0
    turn_s: float = 120.0

    @property
    def seconds(self) -> float:
        """The length of all."""
        return self.idle_s + len(LOADS) * self.load_s

    def segments(self) -> Iterator[tuple[tuple[str, ...], float, bool]]:
        """Yield the loads that run next, for how many seconds, and whether a violation is provoked afterwards."""
        part, total = self.load_s / len(LIMITS), len(LOADS) * self.load_s
        provoked = {round(total * (n + 0.5) / self.violations, 1) for n in range(self.violations)}
        turns = {round(n * part, 1) for n in range(len(LOADS) * len(LIMITS) + 1)}
        for start, end in pairwise(sorted(provoked | turns)):
            turn = int((start + end) / 2 // part)
            load, limit = LOADS[turn // len(LIMITS)], LIMITS[turn % len(LIMITS)]
            yield (load, *([limit] if limit else [])), end - start, end in provoked
        yield (IDLE,), self.idle_s, False


SHORT = Plan(idle_s=60, load_s=80, violations=4, kill_s=70, turn_s=45)


@dataclass
class Found:
    """What was found so far; it is written to the folder again and again."""

    plan: Plan
    folder: Path
    watchers: list[Watcher] = field(default_factory=list)
    started_ns: int = field(default_factory=time.monotonic_ns)
    started_unix: float = field(default_factory=time.time)
    load_before: float = field(default_factory=lambda: round(os.getloadavg()[0], 1))
    provocations: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    loads: dict[str, float] = field(default_factory=dict)
    complete: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def to_json(self) -> dict[str, Any]:
        raw = {
            "schema": SCHEMA,
            "kernel": platform.release(),
            "machine": _model(),
            "cpus": os.cpu_count(),
            "started_unix": self.started_unix,
            "load_before": self.load_before,
            "start_ns": self.started_ns,
            "end_ns": time.monotonic_ns(),
            "plan": asdict(self.plan) | {"seconds": self.plan.seconds},
            "complete": self.complete,
            "s_ns": _LIVE.period_ns,
            "m_ns": _LIVE.persist_ns,
            "keep_mb": KEEP_MB,
            "load_seconds": {k: round(v, 1) for k, v in sorted(self.loads.items())},
            "watchers": {
                w.name: {
                    "how": w.how,
                    "spans": w.spans,
                    "kills": getattr(w, "kills", []),
                    "turns": getattr(w, "turns", []),
                    "chronic": w.chronic() if isinstance(w, Service) else [],
                    "alarms": w.alarms,
                    "samples": [{"at_s": s["at_s"], **s[w.name]} for s in self.samples],
                }
                for w in self.watchers
            },
            "provocations": self.provocations,
            "scrapes": _scrapes(self.folder / "scrapes.txt"),
        }
        return raw | {"summary": summary(raw)}

    def write(self) -> dict[str, Any]:
        """Write ``soak.json`` and ``soak.md``; readers never see half a file."""
        with self.lock:
            found = self.to_json()
        for name, text in (("soak.json", json.dumps(found)), ("soak.md", markdown(found))):
            with written_whole(self.folder / name) as part:
                part.write_text(text)
        return found


def soak(
    folder: Path, plan: Plan, ports: tuple[int, int], say: Callable[[str], None]
) -> dict[str, Any]:
    """Run all of it and return what ``soak.json`` has."""
    found, end, busy = Found(plan, folder), threading.Event(), threading.Lock()
    witness = Witness(_Own(found.watchers))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    root = folder / "machine"
    root.mkdir()
    with ExitStack() as stack:
        followers: list[threading.Thread] = []
        stack.callback(lambda: [thread.join(10) for thread in followers])
        systemd = stack.enter_context(booted(root))
        services = install(systemd, ports)
        followers.append(follow(services, systemd))
        recorder = Recorder(folder / "tracefs", plan.turn_s, busy)
        found.watchers += [*services, recorder]
        stack.callback(recorder.stop)
        witness.start()
        stack.callback(witness.stop)
        url = f"http://127.0.0.1:{services[0].port}/metrics"
        argv = [sys.executable, "-S", str(Path(__file__).with_name("scraper.py")), url]
        if not _until(lambda: all(w.looks() for w in found.watchers), end, 120):
            raise RuntimeError(
                f"not all watchers look: {systemd.run('journalctl', '-n', '20').stdout}"
            )
        scraper = subprocess.Popen([*UNTIL_KILLED, *argv, str(folder / "scrapes.txt")])
        stack.callback(scraper.wait)
        stack.callback(scraper.kill)
        helpers = [
            threading.Thread(target=_keep_books, args=(found, witness, end, say)),
            threading.Thread(target=_kill, args=(services[1], plan.kill_s, busy, end)),
        ]
        for helper in helpers:
            helper.start()
        try:
            _direct(found, witness, busy, end, say)
            found.complete = not end.is_set()
            recorder.stop()
            time.sleep(1)  # the last scan of the witness
        finally:
            end.set()
            for helper in helpers:
                helper.join()
            for service in services:
                service.stop()
    return found.write()


class _Own:
    """The CPU time of each watcher so far, as the witness asks for it 40 times a second."""

    def __init__(self, watchers: list[Watcher]) -> None:
        self.watchers, self.asked = watchers, 0

    def __call__(self) -> dict[str, int]:
        self.asked += 1
        for watcher in self.watchers if self.asked % 20 == 1 else []:
            watcher.find()
        return {w.name: w.own_ns() for w in self.watchers}


def _until(condition: Callable[[], bool], end: threading.Event, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition() and not end.wait(0.2):
        if time.monotonic() > until:
            return False
    return not end.is_set()


def _direct(
    found: Found,
    witness: Witness,
    busy: threading.Lock,
    end: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Let the loads take turns and provoke violations."""
    needed_s = 2 * (_LIVE.period_ns + _LIVE.persist_ns) / 1e9
    for loads, seconds, then in found.plan.segments():
        if end.is_set():
            return
        say(f"{(time.monotonic_ns() - found.started_ns) / 6e10:.1f} min: {', '.join(loads)}")
        began = time.monotonic()
        with ExitStack() as stack:
            for load in loads:
                stack.enter_context(running(load, seconds + 5))
            end.wait(seconds)
        for load in loads:
            found.loads[load] = found.loads.get(load, 0.0) + time.monotonic() - began
        if not then or end.is_set():
            continue
        with _all_looking(found.watchers, busy, end):
            looking = [w for w in found.watchers if w.looks() and isinstance(w, Service)]
            done = provoke(
                witness,
                needed_s,
                end,
                lambda since, who=looking: all(
                    any(a["confirmed_ns"] >= since for a in w.alarms) for w in who
                ),
            )
            end.wait(1.0)  # an alarm may still be on its way
        found.provocations.append(done)
        say(f"provoked: established {done['established']} after {done['attempts']} attempts")


@contextmanager
def _all_looking(
    watchers: list[Watcher], busy: threading.Lock, end: threading.Event
) -> Iterator[None]:
    """Hold the lock while all watchers look; after a minute also if they do not."""
    until = time.monotonic() + 60
    while True:
        _until(lambda: all(w.looks() for w in watchers), end, until - time.monotonic())
        with busy:
            if all(w.looks() for w in watchers) or time.monotonic() > until or end.is_set():
                yield
                return


def _kill(service: Service, every_s: float, busy: threading.Lock, end: threading.Event) -> None:
    while not end.wait(every_s):
        with busy:
            service.kill()


def _keep_books(
    found: Found, witness: Witness, end: threading.Event, say: Callable[[str], None]
) -> None:
    """Judge the alarms, measure what the watchers cost, and write everything down."""
    ahead()
    while True:
        last = end.wait(_SAMPLE_S)
        for alarm in [a for w in found.watchers for a in list(w.alarms) if "answer" not in a]:
            if (answer := explain(alarm, witness)) is not None:
                alarm.update(answer)
                say(f"alarm of {alarm['watcher']}: {answer['answer']}, {answer['why']}")
        at_s = round((time.monotonic_ns() - found.started_ns) / 1e9, 1)
        found.samples.append({"at_s": at_s, **{w.name: w.sample() for w in found.watchers}})
        if last or len(found.samples) % _WRITE_EVERY == 1:
            found.write()
        if last:
            return


def _scrapes(file: Path) -> list[list[float]]:
    """Return when each scrape began, how many ms it took, and the size of the page; 0 if there was none."""
    if not file.exists():
        return []
    lines = file.read_text().rpartition("\n")[0].splitlines()
    return [[float(number) for number in line.split()] for line in lines]


def _model() -> str:
    """Return the model name of the first CPU."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def main() -> int:
    """Run a soak; 3: an alarm was false, a violation was missed, or a watcher ended by itself."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("soak"))
    parser.add_argument("--short", action="store_true", help="seven minutes, to try it")
    parser.add_argument("--idle-minutes", type=float, default=30.0, help="after the loads")
    parser.add_argument("--ports", type=int, nargs=2, default=(19969, 19970), metavar="PORT")
    asked = parser.parse_args()
    if why := absent():
        parser.error(why)
    folder = asked.output.resolve()
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        parser.error(f"{folder} exists; expected a folder that the soak makes. Name another one.")
    plan = SHORT if asked.short else replace(Plan(), idle_s=asked.idle_minutes * 60)
    found = soak(
        folder, plan, tuple(asked.ports), lambda line: print(line, file=sys.stderr, flush=True)
    )
    print(markdown(found), end="")
    bad = ("false", "missed", "crashes")
    return 3 if any(w[k] for w in found["summary"]["watchers"].values() for k in bad) else 0


if __name__ == "__main__":
    sys.exit(main())
