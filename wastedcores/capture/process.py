"""A running collector: started, watched, ended cleanly whatever happens to us."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from wastedcores.errors import CollectorError

#: bcc compiles for half a second on a quiet machine; a loaded one may take many times as long.
READY_S = 120.0
_END_S = 60.0


class Ended(Exception):  # noqa: N818 - not an error: somebody wants us to stop
    """SIGTERM arrived."""


@contextmanager
def terminable() -> Iterator[None]:
    """Within: SIGTERM raises :class:`Ended`, so a capture ends with a complete file."""

    def stop(*_: Any) -> None:
        raise Ended

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Collector:
    """A collector's process. Its standard input is its lifeline: closed, it stops and completes its file."""

    def __init__(self, command: list[str], stdout: int | IO[bytes]) -> None:
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=stdout, stderr=subprocess.PIPE
            )
        except OSError as e:
            raise CollectorError(
                f"cannot run the collector {command[0]}: {e.strerror}. See: wastedcores doctor."
            ) from e
        self.ready = threading.Event()
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            line = raw.decode(errors="replace").rstrip()
            if line == "ready":
                self.ready.set()
            elif line:
                self.said.append(line)
                del self.said[:-50]
        self.ready.set()

    def wait_ready(self) -> None:
        """Return once events are being recorded.

        Raises
        ------
        CollectorError
            The collector gave up; with its own words.
        """
        if not self.ready.wait(READY_S):
            self.stop()
            raise CollectorError(
                f"the collector was not ready after {READY_S:.0f} s: {self.words()}"
            )
        if self.process.poll() is not None:
            raise self.failure()

    def words(self) -> str:
        """What it last said."""
        return " ".join(self.said[-6:]) or "it said nothing"

    def failure(self) -> CollectorError:
        """The error of a collector that ended badly."""
        self._reader.join(5)
        return CollectorError(
            f"the collector ended with code {self.process.returncode}: {self.words()}"
        )

    def stop(self) -> int:
        """End it cleanly: close its input, then terminate, then kill; its exit code."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        for act in (self.process.terminate, self.process.kill):
            try:
                code = self.process.wait(_END_S)
                break
            except subprocess.TimeoutExpired:
                act()
        else:
            code = self.process.wait()
        self._reader.join(5)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code
