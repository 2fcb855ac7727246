"""Makes the next part of a stream in a thread while the present one is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import polars as pl

Part = TypeVar("Part")


def ahead(stream: Iterable[Part]) -> Iterator[Part]:
    """Yield the parts of a stream, one of which is made ahead in a thread.

    Decoding and compiled code do not hold Python's lock, so both run at once. One more part is in memory.
    """
    coming = iter(stream)
    end = object()
    with ThreadPoolExecutor(1) as pool:
        part = pool.submit(next, coming, end)
        while (present := part.result()) is not end:
            part = pool.submit(next, coming, end)
            yield present  # type: ignore[misc]  # it is not the end


def tables(frame: pl.LazyFrame, rows: int, most: int | None) -> Iterator[pl.DataFrame]:
    """Yield a table of at most ``most`` rows (None: nobody knows) in parts of ``rows``; a single part needs no thread."""
    if most is not None and most <= rows:
        yield frame.collect()
    else:
        yield from ahead(frame.collect_batches(chunk_size=rows, maintain_order=True))
