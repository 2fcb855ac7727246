"""The process of a running collector: it is started, watched, and ended cleanly whatever happens to this process.

This module also finds a copy of the collectors that only root can change, because sudo runs the collectors as root.

If wastedcores is installed in a user's home or virtual environment, any program of this user could change the collectors, and
the changed collectors would run as root at the next capture. So a copy that users other than root can change is not run as root.
"""

from __future__ import annotations

import shlex
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from wastedcores.errors import CollectorError
from wastedcores.files import collectors

#: where :func:`install_command` puts a copy
INSTALLED = Path("/usr/local/libexec/wastedcores")
_ENDINGS = ("*.py", "*.c", "*.h", "*.o")


def changeable(path: Path) -> str | None:
    """Return how a user other than root could change what a path names; None if only root can.

    All folders above the path and everything below it are examined; if the path is a symbolic link, its target is examined in the
    same way. A sticky folder such as /tmp may be writable for all, because only root can replace root's files in it.
    """
    for name in dict.fromkeys((path.absolute(), path.resolve())):
        below = sorted(name.rglob("*")) if name.is_dir() else []
        for part in (*reversed(name.parents), name, *below):
            about = part.lstat()
            if about.st_uid != 0:
                return f"{part} belongs to user {about.st_uid}"
            mode = about.st_mode
            sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
            if mode & 0o022 and not sticky and not stat.S_ISLNK(mode):
                return f"{part} can be written by others (mode {stat.S_IMODE(mode):o})"
    return None


def collectors_for_root() -> Path:
    """Return the folder from which root may run the collectors: the package's own, or the copy in :data:`INSTALLED`."""
    own = collectors()
    why = changeable(own)
    if why is None:
        return own
    if not INSTALLED.is_dir():
        problem = f"there is no copy in {INSTALLED}"
    elif (others := changeable(INSTALLED)) is not None:
        problem = f"the copy in {INSTALLED} is no safer ({others})"
    elif (differing := _differing(own, INSTALLED)) is not None:
        problem = f"the copy in {INSTALLED} is of another version ({differing} differs)"
    else:
        return INSTALLED
    raise CollectorError(
        f"the collectors in {own} will not be run as root, because others than root can change them: {why}; and {problem}. "
        f"Make a copy that only root can change: {install_command()}"
    )


def install_command() -> str:
    """Return the command that copies the collectors to a folder that only root can change."""
    own = collectors()
    files = " ".join(
        f"{shlex.quote(str(own))}/{ending}" for ending in _ENDINGS if any(own.glob(ending))
    )
    return f"sudo install -D -o root -g root -m 644 -t {INSTALLED} {files}"


def _differing(own: Path, copy: Path) -> str | None:
    """Return the name of the first file that the copy lacks or in which it differs; None if all files are equal."""
    for file in sorted(f for ending in _ENDINGS for f in own.glob(ending)):
        twin = copy / file.name
        if not twin.is_file() or twin.read_bytes() != file.read_bytes():
            return file.name
    return None


#: bcc compiles for half a second on an idle machine, and for many times as long on a loaded machine.
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
        The list of arguments that runs the collector.
    stdout
        Where its standard output goes, as for :class:`subprocess.Popen`.

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
        """Return the error that describes why the collector failed."""
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
