"""Tests of the parallel map that keeps the order: its order, its errors, and the end of its threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import perf_file

from wastedcores.errors import WastedCoresError
from wastedcores.trace.io import import_trace
from wastedcores.trace.readers.support.reading import ordered_map

SWITCH = (
    "  a-1  [000] d... {sec}.000000: sched_switch: "
    "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n"
)
#: The second event is a day before the first one.
BACK = SWITCH.format(sec=90_000) + SWITCH.format(sec=1)


def alive() -> set[threading.Thread]:
    """Return Python's threads. Threads of polars are "Dummy" threads as soon as they have run Python code."""
    return {t for t in threading.enumerate() if not t.name.startswith("Dummy")}


@pytest.fixture(autouse=True)
def threads() -> Iterator[set[threading.Thread]]:
    before = alive()
    yield before
    assert alive() <= before


def test_results_come_in_order() -> None:
    assert list(ordered_map(lambda i: i * i, iter(range(100)))) == [i * i for i in range(100)]
    assert list(ordered_map(str, iter([]))) == []


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_few_items_are_taken_in_advance(workers: int) -> None:
    taken = itertools.count()
    last = [0]

    def items() -> Iterator[int]:
        for i in range(50):
            last[0] = next(taken)
            yield i

    for i in ordered_map(lambda i: i, items(), workers):
        assert last[0] <= i + workers + 2


def test_a_result_does_not_wait_for_the_next_item() -> None:
    seen = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        assert seen.wait(30), "the first result waited for the second item"
        yield 2

    results = ordered_map(lambda i: i, items())
    assert next(results) == 1
    seen.set()
    assert list(results) == [2]


def test_an_error_of_the_work_is_raised_in_its_place() -> None:
    results = ordered_map(lambda i: 60 // (3 - i), iter(range(10)))
    assert [next(results) for _ in range(3)] == [20, 30, 60]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_an_error_of_the_items_is_raised_after_the_results_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("gone")

    got = []
    with pytest.raises(OSError, match="gone"):
        got.extend(ordered_map(lambda i: i, items()))
    results = ordered_map(lambda i: i, items())
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(OSError, match="gone"):
        next(results)


def test_closing_it_early_ends_the_threads(threads: set[threading.Thread]) -> None:
    results = ordered_map(lambda i: i, itertools.count())
    assert next(results) == 0
    assert alive() > threads
    results.close()
    results.close()
    assert alive() <= threads


@pytest.mark.parametrize(
    ("data", "cpus"), [(BACK.encode(), None), (perf_file.build(), [999])], ids=["text", "perf.data"]
)
def test_no_thread_is_left_when_a_trace_is_refused(
    tmp_path: Path, threads: set[threading.Thread], data: bytes, cpus: list[int] | None
) -> None:
    file = tmp_path / "trace"
    file.write_bytes(data)
    with pytest.raises(WastedCoresError) as held:
        import_trace(file, tmp_path / "o.parquet", cpus=cpus)
    assert held.value.__traceback__ is not None
    assert alive() <= threads
