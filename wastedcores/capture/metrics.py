"""The state of the online checker as metrics; Prometheus reads them from a page, or node_exporter reads them from a file."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    make_wsgi_app,
    start_http_server,
    write_to_textfile,
)
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    StateSetMetricFamily,
)
from prometheus_client.registry import Collector

from wastedcores import __version__
from wastedcores.capture.group_rows import GroupRows, Row
from wastedcores.capture.system import stolen
from wastedcores.errors import UsageError

#: the page and the file are made again only after this time
EVERY_S = 5.0
#: an older page is not served, because the collector may have stopped reporting
_STALE_S = 10.0
#: a page is no longer prepared if nobody requested it in this time; and the most pages that are prepared
_FORGET_S, _MOST = 120.0, 8
#: the headers of a request that choose the format of the page and its compression
_CHOICE = ("HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING")

_Choice = tuple[str, ...]


class _Made(NamedTuple):
    status: str
    headers: list[tuple[str, str]]
    body: bytes
    when: float


class Page:
    """The page of a registry, as a WSGI application. It is made in advance, because a page with 1,000 groups takes 40 ms."""

    def __init__(
        self, registry: CollectorRegistry, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._now = make_wsgi_app(registry), now
        self._lock = threading.Lock()
        self._made: dict[_Choice, _Made] = {}
        self._asked: dict[_Choice, float] = {}

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer a request with the page that was prepared last."""
        plain = environ["REQUEST_METHOD"] == "GET" and not environ.get("QUERY_STRING")
        if not plain or environ["PATH_INFO"] != "/metrics":
            return self._app(environ, start_response)  # type: ignore[no-any-return]
        choice = tuple(environ.get(name, "") for name in _CHOICE)
        self._asked[choice] = self._now()
        page = self._made.get(choice)
        if page is None or self._now() - page.when > _STALE_S:
            page = self._make(choice, _STALE_S)
        start_response(page.status, page.headers)
        return [page.body]

    def update(self, at_once: bool = False) -> None:
        """Prepare the pages that were requested lately, if they are old enough or ``at_once`` is true."""
        now = self._now()
        asked = sorted(self._asked.items(), key=lambda item: -item[1])
        for n, (choice, when) in enumerate(asked):
            if n < _MOST and now - when < _FORGET_S:
                self._make(choice, 0.0 if at_once else EVERY_S)
            else:
                self._asked.pop(choice, None)
                self._made.pop(choice, None)

    def _make(self, choice: _Choice, oldest_s: float) -> _Made:
        """Return a page that is younger than ``oldest_s``; threads that ask at the same time wait for the same page."""
        with self._lock:
            page = self._made.get(choice)
            if page is not None and self._now() - page.when < oldest_s:
                return page
            told: list[Any] = []  # the status and the headers
            request = dict(zip(_CHOICE, choice, strict=True))
            when = self._now()
            body = self._app(
                {"REQUEST_METHOD": "GET", "PATH_INFO": "/metrics", **request},
                lambda *answer: told.extend(answer),
            )
            self._made[choice] = page = _Made(told[0], told[1], b"".join(body), when)
            return page


def host_and_port(address: str) -> tuple[str, int]:
    """Return host and port of an address. Quotes and backslashes are refused, because unit.py writes addresses into a file."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535 or {'"', "\\"} & {*host}:
        raise UsageError(f"--serve {address}: expected :PORT or HOST:PORT, such as :9969.")
    return host.strip("[]") or "127.0.0.1", int(port)


def serve(registry: CollectorRegistry, address: str) -> tuple[str, int, Page]:
    """Serve a registry at ``HOST:PORT``, or at ``:PORT`` for this machine only; return host, port and the page to update."""
    host, port = host_and_port(address)
    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as e:
        raise UsageError(
            f"--serve {address}: cannot listen there ({e.strerror}). Choose another port or another address of this machine."
        ) from e
    page = Page(registry)
    server.set_app(page)
    return host, server.server_port, page


class TextFile:
    """A file for node_exporter's textfile collector, written again every few seconds at most; readers never see half a file."""

    def __init__(self, path: Path, registry: CollectorRegistry, every_s: float = EVERY_S) -> None:
        if path.suffix != ".prom":
            raise UsageError(
                f"--textfile {path}: node_exporter reads files whose names end with .prom only."
            )
        self._path, self._registry, self._every_s = path, registry, every_s
        self._written = -every_s
        self.write()

    def write(self) -> None:
        """Write the file if it is old enough."""
        now = time.monotonic()
        if now - self._written < self._every_s:
            return
        self._written = now
        # node_exporter does not read a file whose name ends in a number. It runs as another user, so all may read the file
        part = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            write_to_textfile(str(part), self._registry)
            part.chmod(0o644)
            part.replace(self._path)
        except OSError as e:
            raise UsageError(
                f"--textfile {self._path}: cannot be written ({e.strerror}). Name a file in node_exporter's folder."
            ) from e


#: the verdict covers this time before now
VERDICT_S = 300.0
#: the mean number of wasted CPUs covers this time before now
MEAN_S = 60.0
#: if no new sample comes for this long, nothing is known about the machine; the time between two looks may be longer
_SILENT_S = 10.0
#: the verdict is unknown if more than this share of the samples left out tasks
_CUT = 0.1
VERDICTS = ("clean", "violations", "unknown")
EVIDENCE = ("told", "seen", "inherited", "assumed")

#: counters of messages: name in the message, name of the metric, what it counts
_COUNTS = (
    ("checks", "looks", "Looks at the invariant."),
    ("suspected", "suspicions", "Looks that began a suspicion: a CPU was idle beside a waiting thread."),
    ("recovered", "recoveries", "Suspicions that a migration, a fork or an exit ended."),
    ("moves", "balance_moves", "Migrations by the load balancer."),
    ("useless", "useless_moves", "Migrations by the load balancer to a queue that was at least as loaded."),
    ("deficits", "deficits", "Times at which the threads of some CPUs had waited too long."),
    ("events", "events", "Events that the flight recorder has seen."),
    ("lost", "events_lost", "Events that the flight recorder has lost."),
    ("truncated", "looks_cut", "Looks that ended before all waiting threads were looked at."),
)  # fmt: skip


class Metrics(Collector):
    """The metrics of what the online checker has told so far."""

    def __init__(self, groups: GroupRows, now: Callable[[], float] = time.monotonic) -> None:
        self._groups, self._now = groups, now
        self._lock = threading.Lock()
        self._last: dict[str, Any] = {}
        #: when the last message with new samples came, and when the last message with new looks came
        self._told = self._looked = -_SILENT_S
        self._looks_s = _SILENT_S
        #: (time of the message, ns of wasted CPUs, number of samples, number of samples that left out tasks)
        self._history: deque[tuple[float, int, int, int]] = deque()
        self._found: Counter[str] = Counter()
        self._found_at = -VERDICT_S
        self._recordings: Counter[str] = Counter()
        self._recorded_ns: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self._server_s = sum(os.times()[:4])

    def message(self, message: dict[str, Any]) -> None:
        """Take a message of the collector."""
        now = self._now()
        with self._lock:
            if message["event"] == "violation":
                self._note("persistent", now)
            if message["event"] == "ready" and "s_ns" in message:
                self._looks_s = max(_SILENT_S, 2 * (message["s_ns"] + message["m_ns"]) / 1e9)
            if "sample" not in message:
                return
            sample, old = message["sample"], self._last.get("sample", {})
            if sample["samples"] != old.get("samples"):
                self._told = now
            if message["checks"] != self._last.get("checks"):
                self._looked = now
            self._last = message
            self._groups.add(message["groups"])
            self._history.append((now, sample["wasted_ns"], sample["samples"], sample["cut"]))
            while len(self._history) > 2 and self._history[1][0] <= now - VERDICT_S:
                self._history.popleft()

    def chronic(self) -> None:
        """Note that a recording has shown chronic waste."""
        with self._lock:
            self._note("chronic", self._now())

    def recording(self, result: str, found: dict[str, Any] | None = None) -> None:
        """Count a recording by what became of it; add up its avoidable waiting, by evidence of affinity, and its refusals."""
        with self._lock:
            self._recordings[result] += 1
            for name, ns in (found or {}).get("evidence", {}).items():
                self._recorded_ns[name.removesuffix("_ns")] += ns
            self._refusals.update((found or {}).get("refusals", {}))

    def _note(self, kind: str, now: float) -> None:
        self._found[kind] += 1
        self._found_at = now

    @property
    def verdict(self) -> str:
        """The verdict on the last minutes."""
        now = self._now()
        if now - self._found_at < VERDICT_S:
            return "violations"
        if now - self._told >= _SILENT_S or now - self._looked >= self._looks_s:
            return "unknown"
        if not self._last.get("checks") or not self._history:
            return "unknown"
        _, _, first, first_cut = self._history[0]
        _, _, last, last_cut = self._history[-1]
        if last_cut - first_cut > _CUT * max(1, last - first):
            return "unknown"
        return "clean"

    def _mean_wasted(self) -> float | None:
        """Return how many CPUs were wasted on average in the last minute; None if there are no samples."""
        now = self._now()
        recent = [h for h in self._history if h[0] >= now - MEAN_S]
        if len(recent) < 2 or now - self._told >= _SILENT_S:
            return None
        return (recent[-1][1] - recent[0][1]) / 1e9 / (recent[-1][0] - recent[0][0])

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; a metric that is not known has no value."""
        with self._lock:
            rows = list(self._groups.rows())
            yield from self._of_machine(max((row.longest_s for _, row in rows), default=0.0))
            yield from self._of_groups(rows)
            yield from self._of_checker()

    def _of_machine(self, longest_s: float) -> Iterator[Metric]:
        verdict = self.verdict
        yield StateSetMetricFamily(
            "wastedcores_verdict",
            "Whether CPUs were idle beside waiting threads in the last five minutes.",
            value={v: v == verdict for v in VERDICTS},
        )
        yield _gauge("cpus_wasted", "CPUs idle beside threads that they could have run, on average over a minute.",
                     self._mean_wasted())  # fmt: skip
        sample = self._last.get("sample")
        yield _counter("wasted_cpu_seconds", "Time of CPUs that were idle beside threads that they could have run, sampled.",
                       sample and sample["wasted_ns"] / 1e9)  # fmt: skip
        beside = CounterMetricFamily(
            "wastedcores_idle_beside_waiting_seconds",
            "Time in which at least one CPU was idle beside a thread that it could have run, sampled. "
            "The kernel's own affinity masks tell where a thread may run.",
            labels=["evidence"],
        )
        if sample:
            beside.add_metric(["told"], sample["beside_ns"] / 1e9)
        yield beside
        yield _gauge("longest_wait_seconds", "The longest wait beside an idle CPU that a sample of the last minute met.",
                     longest_s if sample else None)  # fmt: skip
        found = CounterMetricFamily(
            "wastedcores_violations", "Violations, by kind.", labels=["kind"]
        )
        for kind in ("persistent", "chronic"):
            found.add_metric([kind], self._found[kind])
        yield found
        lost = stolen()
        yield _counter("stolen_seconds", "Time for which the hypervisor ran something else, since this machine booted.",
                       None if lost is None else sum(lost.values()) / 1e9)  # fmt: skip

    def _of_groups(self, rows: list[tuple[str, Row]]) -> Iterator[Metric]:
        seconds = CounterMetricFamily(
            "wastedcores_cgroup_seconds",
            "Time of the tasks of a control group: they ran, waited while no CPU that they may use was idle, waited beside an "
            "idle one (wasted), or the group was throttled by its own limit (the kernel's count).",
            labels=["cgroup", "state"],
        )
        longest = GaugeMetricFamily(
            "wastedcores_cgroup_longest_wait_seconds",
            "The longest wait beside an idle CPU that a sample of the last minute met; absent if none did.",
            labels=["cgroup"],
        )
        for label, row in rows:
            for state in ("ran", "waited", "wasted", "throttled"):
                value = getattr(row, f"{state}_s")
                if value is not None:
                    seconds.add_metric([label, state], value)
            if row.longest_s:
                longest.add_metric([label], row.longest_s)
        yield seconds
        yield longest

    def _of_checker(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "wastedcores_machine",
            "The kernel and the number of CPUs of this machine, and the version of the checker.",
            value={
                "kernel": platform.release(),
                "cpus": str(os.cpu_count()),
                "version": __version__,
            },
        )
        for name, metric, what in _COUNTS:
            yield _counter(metric, what, self._last.get(name))
        sample = self._last.get("sample") or {}
        yield _counter("samples", "Samples of all runqueues.", sample.get("samples"))
        yield _counter(
            "samples_cut", "Samples that left out some waiting threads.", sample.get("cut")
        )
        cost = CounterMetricFamily(
            "wastedcores_cost_cpu_seconds",
            "CPU time of the checker: in the kernel's timer, in the collector, and in the process that serves this.",
            labels=["part"],
        )
        if sample:
            cost.add_metric(["kernel"], sample["kernel_ns"] / 1e9)
            cost.add_metric(["collector"], sample["cpu_s"])
        cost.add_metric(["server"], sum(os.times()[:4]) - self._server_s)
        yield cost
        memory = GaugeMetricFamily(
            "wastedcores_resident_bytes", "Memory of the checker.", labels=["part"]
        )
        if sample:
            memory.add_metric(["collector"], sample["resident"])
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory.add_metric(["server"], pages * os.sysconf("SC_PAGE_SIZE"))
        yield memory
        kept = CounterMetricFamily(
            "wastedcores_recordings", "Recordings of violations, by what became of them.", labels=["result"]
        )  # fmt: skip
        for result in ("kept", "clean", "too_often", "no_room", "failed"):
            kept.add_metric([result], self._recordings[result])
        yield kept
        recorded = CounterMetricFamily(
            "wastedcores_recorded_avoidable_seconds",
            "Waiting beside an idle CPU in the recordings, by what says that the thread could have run there.",
            labels=["evidence"],
        )
        for name in EVIDENCE:
            recorded.add_metric([name], self._recorded_ns[name] / 1e9)
        yield recorded
        refused = CounterMetricFamily(
            "wastedcores_recorded_refusals",
            "Calls of the load balancer after which no thread moved, in the 20 ms after each recorded violation.",
            labels=["reason"],
        )
        for reason, calls in sorted(self._refusals.items()):
            refused.add_metric([reason], calls)
        yield refused


def _counter(name: str, what: str, value: float | None) -> Metric:
    return _with(CounterMetricFamily(f"wastedcores_{name}", what, labels=[]), value)


def _gauge(name: str, what: str, value: float | None) -> Metric:
    return _with(GaugeMetricFamily(f"wastedcores_{name}", what, labels=[]), value)


def _with(family: Any, value: float | None) -> Metric:
    if value is not None:
        family.add_metric([], value)
    return family  # type: ignore[no-any-return]
