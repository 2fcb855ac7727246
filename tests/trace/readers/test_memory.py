"""Memory that is used again, and threads whose owner works with them."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from wastedcores.trace.readers.support import memory
from wastedcores.trace.readers.support.crew import Crew


@pytest.fixture(autouse=True)
def empty(monkeypatch: pytest.MonkeyPatch) -> memory._Shelf:
    shelf = memory._Shelf()
    monkeypatch.setattr(memory, "_shelf", shelf)
    return shelf


def where(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_memory_comes_back_when_nothing_looks_at_it() -> None:
    first = memory.used(1 << 20)
    at, part = where(first), first[100:200].view(np.int32)
    del first
    second = memory.used(1 << 20)
    assert where(second) != at, "a part of it is still looked at"
    del part
    assert where(memory.used(1 << 20)) == at


def test_much_larger_memory_is_not_given_for_little() -> None:
    at = where(memory.used(1 << 22))
    assert where(memory.used(1 << 20)) != at
    assert where(memory.used((1 << 21) + 1)) == at


def test_no_more_than_so_much_is_kept(
    empty: memory._Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_KEPT_BYTES", 3 << 20)
    several = [memory.used(1 << 20) for _ in range(5)]
    del several
    assert sum(map(len, empty._kept)) == 3 << 20


def test_populated_memory_keeps_what_is_in_it() -> None:
    array = memory.used(1 << 20)
    array[:] = 7
    memory.populate(array[5000:90000])
    assert (array == 7).all()


def test_sparse_memory_is_zero() -> None:
    assert not memory.sparse(1 << 20).any()


def test_the_owner_of_a_crew_does_what_nobody_began() -> None:
    begun, free = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert free.wait(60)
        return threading.current_thread().name

    with Crew() as crew:
        held = [
            crew.submit(slow) for _ in range(len(os.sched_getaffinity(0)))
        ]  # more than it has threads
        assert begun.wait(60)
        waiting = [crew.submit(lambda: threading.current_thread().name) for _ in range(3)]
        last = waiting.pop()
        assert last.result() == threading.current_thread().name
        free.set()
        crew.finish([*held, *waiting])


def test_an_error_of_a_job_comes_out_at_its_place() -> None:
    def fail(what: str) -> None:
        raise ValueError(what)

    with Crew() as crew:
        jobs = [crew.submit(int), crew.submit(fail, "first"), crew.submit(fail, "second")]
        with pytest.raises(ValueError, match="first"):
            crew.finish(jobs)
