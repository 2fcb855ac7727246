"""Work a few blocks ahead in threads: reading and compiled code do not hold Python's lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_END = object()


def ordered_map(work: Callable[[T], R], items: Iterable[T], workers: int = 2) -> Iterator[R]:
    """``map(work, items)``, in order, with the next items and results made ahead in threads.

    An error in ``items`` or ``work`` comes out here, after the results before it. At most ``workers`` + 1 items are in
    flight, so memory stays bounded. Leaving early stops the threads.
    """
    source = iter(items)

    def fetch() -> T | object:
        return next(source, _END)

    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(workers) as pool:
        running: deque[Future[R]] = deque()
        coming = reader.submit(fetch)
        try:
            while True:
                try:
                    item = coming.result()
                except Exception:
                    while running:
                        yield running.popleft().result()
                    raise
                if item is _END:
                    break
                coming = reader.submit(fetch)
                running.append(pool.submit(work, item))  # type: ignore[arg-type]
                if len(running) > workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            coming.cancel()
            for future in running:
                future.cancel()
