"""The process of a running collector: it is started, watched, and ended cleanly whatever happens to this process."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from wastedcores.errors import CollectorError

#: bcc compiles for half a second on a quiet machine and many times as long on a loaded one.
READY_S = 120.0
_END_S = 60.0


class Terminated(Exception):  # noqa: N818 - a request to stop is not an error
    """SIGTERM arrived."""


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM raise :class:`Terminated` inside the block, so that a capture ends with a complete file."""

    def stop(*_: Any) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Collector:
    """A collector's process. When its standard input is closed, it stops and completes its file.

    Parameters
    ----------
    command
        The argument list that runs it.
    stdout
        Its standard output, as for :class:`subprocess.Popen`.

    Attributes
    ----------
    process
        The process.
    ready
        Set when the collector is recording, or when it has ended.
    messages
        The last 50 lines of its standard error.

    Raises
    ------
    CollectorError
        The command cannot be run.
    """

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
        self.messages: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for raw in self.process.stderr:
            line = raw.decode(errors="replace").rstrip()
            if line == "ready":
                self.ready.set()
            elif line:
                self.messages.append(line)
                del self.messages[:-50]
        self.ready.set()

    def wait_ready(self) -> None:
        """Wait until events are being recorded."""
        if not self.ready.wait(READY_S):
            self.stop()
            raise CollectorError(
                f"the collector was not ready after {READY_S:.0f} s: {self._last_words()}."
            )
        if self.process.poll() is not None:
            raise self.failure()

    def _last_words(self) -> str:
        return " ".join(self.messages[-6:]).rstrip(".") or "it printed nothing"

    def failure(self) -> CollectorError:
        """Return the error that describes a collector which ended badly."""
        self._reader.join(5)
        return CollectorError(
            f"the collector ended with code {self.process.returncode}: {self._last_words()}."
        )

    def stop(self) -> int:
        """End the process cleanly and return its exit code: close its input, then terminate it, then kill it."""
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
