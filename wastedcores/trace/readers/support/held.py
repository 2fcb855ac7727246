"""Files and threads that end when the reading that needs them ends, however it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar


class Closable(Protocol):
    """What can be closed, more than once without harm."""

    def close(self) -> None:
        """End it."""


T = TypeVar("T", bound=Closable)


@dataclass
class Held:
    """What keeps files open and threads waiting between the blocks it hands out.

    A generator that an error left suspended ends when the error is forgotten, at some collection of garbage: until then
    its file would stay open, and its end must not wait for a thread, as whoever collects may hold the very lock that the
    thread ends with (threading._shutdown_locks_lock). Whoever began the reading calls :meth:`close`.
    """

    _held: list[Closable] = field(default_factory=list, init=False, repr=False)

    def hold(self, what: T) -> T:
        """Remember what is to be closed: threads that read before what they read."""
        self._held.append(what)
        return what

    def close(self) -> None:
        """Close everything, first what was held first; twice does no harm."""
        while self._held:
            self._held.pop(0).close()
