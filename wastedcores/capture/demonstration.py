"""The whole story on this machine: provoke a violation, let the checker find it, keep its recording."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from wastedcores.capture.live import LiveCheck, live_check
from wastedcores.capture.provoke import SETTING, balancing_off, pile_up, push_work_away
from wastedcores.errors import CollectorError


def demonstrate(
    output: str | Path,
    *,
    seconds: float = 4.0,
    tasks: int = 3,
    s_ns: int = 1_000_000_000,
    persist_ns: int = 100_000_000,
    alone: bool = False,
    progress: Callable[[str], None] | None = None,
) -> LiveCheck:
    """Turn load balancing off for ``seconds`` while the online checker looks; put it back whatever happens.

    Parameters
    ----------
    output
        Folder for the recordings.
    seconds
        How long balancing is off.
    tasks
        Busy processes that pile up on CPU 0 meanwhile.
    s_ns, persist_ns
        As in :func:`~wastedcores.capture.live.live_check`.
    alone
        Push what else runs on CPU 1 off it first, by taking it offline for a moment: a busy machine has no idle CPU.

    Raises
    ------
    CollectorError
        No root, no cgroup v1 cpuset, or no backend.
    """
    if not SETTING.exists():
        raise CollectorError(
            f"{SETTING} is absent: provoking a violation needs a cgroup v1 cpuset hierarchy. Use a recorded trace."
        )
    looking = threading.Event()
    failures: list[Exception] = []
    say = progress or (lambda _: None)

    def provoke() -> None:
        looking.wait()
        try:
            with balancing_off():
                if alone:
                    push_work_away()
                with pile_up(tasks, seconds + 1):
                    over.wait(seconds)
        except Exception as e:  # to be raised where the caller can see it
            failures.append(e)

    def told(line: str) -> None:
        if line == "looking":
            looking.set()
        say(line)

    over = threading.Event()
    worker = threading.Thread(target=provoke)
    worker.start()
    try:
        result = live_check(
            seconds=seconds + 2,
            s_ns=s_ns,
            persist_ns=persist_ns,
            output=output,
            before_s=seconds,
            progress=told,
        )
    finally:
        over.set()
        looking.set()
        worker.join()
    if failures:
        raise failures[0]
    return result
