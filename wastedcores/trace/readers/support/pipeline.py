"""Work a few blocks ahead in threads: reading and compiled code do not hold Python's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_END = object()


class OrderedMap(Iterator[R], Generic[T, R]):
    """``map(work, items)``, in order, with the next items and results made ahead in threads.

    An error in ``items`` or ``work`` comes out after the results before it. At most ``workers`` + 1 items are in flight,
    so memory stays bounded. Whoever leaves early calls :meth:`close`. No generator: one that is forgotten would wait for
    its threads wherever garbage happens to be collected (_held.py); these threads would just end.
    """

    def __init__(self, work: Callable[[T], R], items: Iterable[T], workers: int = 2) -> None:
        self._work, self._items, self._workers = work, iter(items), workers
        self._reader, self._pool = ThreadPoolExecutor(1), ThreadPoolExecutor(workers)
        self._coming: Future[T | object] | None = None
        self._running: deque[Future[R]] = deque()
        self._begun = False
        self._error: Exception | None = None

    def __next__(self) -> R:
        try:
            if not self._begun:
                self._begun = True
                self._fetch()
            while self._coming is not None and len(self._running) <= self._workers:
                self._start(self._coming)
            if self._running:
                return self._running.popleft().result()
            if self._error is not None:
                raise self._error
            raise StopIteration
        except BaseException:
            self.close()
            raise

    def _fetch(self) -> None:
        self._coming = self._reader.submit(next, self._items, _END)  # type: ignore[arg-type]

    def _start(self, coming: Future[T | object]) -> None:
        """Have the item worked on that comes next, and the one after it read."""
        self._coming = None
        try:
            item = coming.result()
        except Exception as e:
            self._error = e
            return
        if item is not _END:
            self._fetch()
            self._running.append(self._pool.submit(self._work, item))  # type: ignore[arg-type]

    def close(self) -> None:
        """End the threads, after what they are at."""
        self._reader.shutdown(cancel_futures=True)
        self._pool.shutdown(cancel_futures=True)
        self._coming = None
        self._running.clear()
        self._error = None
