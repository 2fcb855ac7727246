"""A parallel map that keeps the order: reading files and compiled code release Python's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_END = object()


def ordered_map(
    work: Callable[[T], R], items: Iterator[T], workers: int = 2
) -> Generator[R, None, None]:
    """Yield ``work(item)`` for every item, in order, while threads compute the next results.

    An error in ``items`` or ``work`` is raised after the results before it. Closing the generator ends the threads.
    """
    reader, pool = ThreadPoolExecutor(1), ThreadPoolExecutor(workers)
    running: deque[Future[R]] = deque()
    error: Exception | None = None
    try:
        coming: Future[Any] | None = reader.submit(next, items, _END)
        while coming or running:
            while coming and len(running) <= workers:
                try:
                    item = coming.result()
                except Exception as e:
                    item, error = _END, e
                coming = None
                if item is not _END:
                    coming = reader.submit(next, items, _END)
                    running.append(pool.submit(work, item))
            if running:
                yield running.popleft().result()
        if error is not None:
            raise error
    finally:
        reader.shutdown(cancel_futures=True)
        pool.shutdown(cancel_futures=True)
