"""The messages of the collector ``unclaimed.py``: they are received, and become parts of the result."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from wastedcores.capture.live_result import LiveCheck
from wastedcores.errors import CollectorError


def read_messages(stream: IO[bytes], received: queue.Queue[Any]) -> None:
    """Put (message, recording) pairs into the queue, and None at the end.

    Each message is a line of JSON, followed by as many bytes as it says. This runs on a thread of its own, so that no
    signal can cut a message in two.
    """
    try:
        while line := stream.readline():
            message = json.loads(line)
            size = int(message["bytes"])
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
    """Add a message, whose recording is in a file if it has one, to the result."""
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
