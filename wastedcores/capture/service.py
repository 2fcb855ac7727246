"""The online checker as a service: it serves metrics, keeps evidence within limits, and writes lines for systemd's journal."""

from __future__ import annotations

import os
import socket
import sys
import tomllib
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wastedcores.capture.evidence import Evidence, Limits
from wastedcores.capture.group_rows import GroupRows
from wastedcores.capture.live import live_check
from wastedcores.capture.live_result import LiveCheck, LiveOptions
from wastedcores.capture.metrics import Metrics, TextFile, serve
from wastedcores.errors import UsageError
from wastedcores.trace.pseudonyms import Pseudonyms

JOURNAL = "/run/systemd/journal/socket"
#: at most one recording of each kind is kept in this time
_RECORD_EVERY_S = 3600.0
#: the answer at the end lists only the last violations, at most this many, and at most as many recordings with chronic waste
_MOST_LISTED = 100


class ServiceOptions(BaseModel):
    """What a service does with the checker's messages; each field is also an option of ``wastedcores watch``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    serve: str | None = (
        None  #: Where Prometheus reads the metrics: ``:PORT`` of the loopback or ``HOST:PORT``.
    )
    textfile: Path | None = None  #: A file for node_exporter's textfile collector.
    output: Path | None = None  #: The folder of the evidence; None: no evidence is kept.
    #: How much evidence is kept, in 10^6 bytes, and for how long.
    keep_mb: float = Field(1000.0, gt=0)
    keep_days: float = Field(7.0, gt=0)
    #: At most this many control groups have rows of their own.
    cgroups: int = Field(100, ge=0, le=100_000)
    #: A file with a key; with it, the names of groups, tasks and hosts are replaced.
    pseudonyms: Path | None = None


class WatchConfig(ServiceOptions):
    """The options of ``wastedcores watch`` that a file may give. Times are text with a unit, as on the command line."""

    period: str = "1s"
    persist: str = "100ms"
    chronic: str = "0.75%"
    before: float = Field(2.0, ge=0, le=600)
    event_driven: bool = False
    deficit: bool = False
    useless: bool = False


def read_config(path: Path) -> dict[str, Any]:
    """Return the options that a TOML file gives, by their names."""
    try:
        config = WatchConfig.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as e:
        raise UsageError(f"--config {path}: cannot be read ({e.strerror}).") from e
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UsageError(
            f'--config {path}: this is no TOML ({e}). Expected lines such as serve = ":9969".'
        ) from e
    except ValidationError as e:
        first = e.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        known = ", ".join(WatchConfig.model_fields)
        raise UsageError(
            f"--config {path}: {name}: {first['msg'].lower()}. The options that a file may give are {known}."
        ) from e
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in config.model_dump(exclude_unset=True).items()
    }


def run_service(
    service: ServiceOptions,
    options: LiveOptions,
    *,
    seconds: float | None = None,
    progress: Callable[[str], None],
) -> LiveCheck:
    """Check this machine as :func:`live_check` does, serve metrics of what it tells, and keep evidence within limits."""
    names = None if service.pseudonyms is None else Pseudonyms.of_file(service.pseudonyms)
    registry = CollectorRegistry()
    metrics = Metrics(GroupRows(service.cgroups, names.group if names else str))
    registry.register(metrics)
    page = None
    if service.serve is not None:
        host, port, page = serve(registry, service.serve)
        progress(f"metrics at http://{host}:{port}/metrics")
    file = TextFile(service.textfile, registry) if service.textfile is not None else None
    evidence = None
    chronic: deque[dict[str, Any]] = deque(maxlen=_MOST_LISTED)
    if service.output is not None:
        evidence = Evidence(
            service.output,
            options,
            Limits(int(service.keep_mb * 1e6), service.keep_days * 86_400),
            service.pseudonyms,
            told=_telling(metrics, chronic),
        )

    def heard(message: dict[str, Any]) -> None:
        metrics.message(message)
        if message["event"] == "violation":
            log(message)
        # this event comes only if no evidence is kept; otherwise _telling() counts the recordings
        elif message["event"] == "chronic waste":
            metrics.chronic()
        elif message["event"] == "ready":
            notify("READY=1")
        elif message["event"] == "progress":
            notify("WATCHDOG=1")
        if page is not None:
            page.update(at_once=message["event"] == "violation")
        if file is not None:
            file.write()

    def say(line: str) -> None:
        in_journal = "JOURNAL_STREAM" in os.environ and line.startswith("VIOLATION ")
        if " checks, " not in line and not in_journal:  # log() writes violations with their fields
            progress(line)

    result = live_check(
        replace(
            options,
            tally=True,
            record_every_s=_RECORD_EVERY_S,
            most_recordings=10**9 if evidence else 0,
            most_listed=_MOST_LISTED,
        ),
        seconds=seconds,
        progress=say,
        on_message=heard,
        evidence=evidence,
    )
    result.chronic += chronic
    return result


def _telling(
    metrics: Metrics, chronic: deque[dict[str, Any]]
) -> Callable[[str, dict[str, Any] | None], None]:
    """Return a function that counts what becomes of recordings, and collects the chronic waste of this process's recordings."""

    def told(result: str, found: dict[str, Any] | None) -> None:
        metrics.recording(result, found)
        if found and found["kind"] == "chronic":
            metrics.chronic()
            if not found["left_by_another"]:
                chronic.append({**found["chronic"], "evidence": found["recording"]})

    return told


def log(violation: dict[str, Any], journal: str = JOURNAL) -> None:
    """Write a violation into systemd's journal, with a field for each number, if this process's output goes to the journal."""
    if "JOURNAL_STREAM" not in os.environ and journal == JOURNAL:
        return
    fields = {
        "MESSAGE": f"CPU {violation['idle_cpu']} was idle for {violation['lasted_ms']} ms while pid {violation['pid']} "
        f"waited on CPU {violation['busy_cpu']}",
        "PRIORITY": 4,
        "SYSLOG_IDENTIFIER": "wastedcores",
        **{
            f"WASTEDCORES_{name.upper()}": violation[name]
            for name in (
                "idle_cpu",
                "busy_cpu",
                "pid",
                "lasted_ms",
                "number",
                "began_ns",
                "confirmed_ns",
            )
        },
    }
    text = "".join(f"{name}={value}\n" for name, value in fields.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(text.encode(), journal)
    except OSError as e:
        print(f"the journal cannot be written ({e.strerror})", file=sys.stderr)


def notify(state: str) -> None:
    """Tell systemd a state, if it started this process and wants to know."""
    where = os.environ.get("NOTIFY_SOCKET")
    if not where:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(state.encode(), "\0" + where[1:] if where[0] == "@" else where)
    except OSError as e:
        print(f"systemd cannot be told ({e.strerror})", file=sys.stderr)
