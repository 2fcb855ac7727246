"""Work done ahead in threads: its order, its errors, and how it ends."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import perf_file

from wastedcores.errors import WastedCoresError
from wastedcores.trace.io import import_trace
from wastedcores.trace.readers.support.pipeline import OrderedMap

SWITCH = (
    "  a-1  [000] d... {sec}.000000: sched_switch: "
    "prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n"
)
#: time goes back
BACK = SWITCH.format(sec=90_000) + SWITCH.format(sec=1)


def alive() -> set[threading.Thread]:
    """Python's threads; polars' are known to it from when they first run some of it."""
    return {t for t in threading.enumerate() if not t.name.startswith("Dummy")}


@pytest.fixture(autouse=True)
def threads() -> Iterator[set[threading.Thread]]:
    before = alive()
    yield before
    assert alive() <= before


def test_results_come_in_order() -> None:
    assert list(OrderedMap(lambda i: i * i, range(100))) == [i * i for i in range(100)]
    assert list(OrderedMap(str, [])) == []


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_few_are_in_flight(workers: int) -> None:
    taken = itertools.count()
    last = [0]

    def items() -> Iterator[int]:
        for i in range(50):
            last[0] = next(taken)
            yield i

    for i in OrderedMap(lambda i: i, items(), workers):
        assert (
            last[0] <= i + workers + 2
        )  # those worked on, one that is read, and what follows this one


def test_an_error_of_the_work_comes_in_its_place() -> None:
    results = OrderedMap(lambda i: 60 // (3 - i), range(10))
    assert [next(results) for _ in range(3)] == [20, 30, 60]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_an_error_of_the_items_comes_after_the_results_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError("gone")

    got = []
    with pytest.raises(OSError, match="gone"):
        got.extend(OrderedMap(lambda i: i, items()))
    results = OrderedMap(lambda i: i, items())
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(OSError, match="gone"):
        next(results)


def test_closed_early_the_threads_are_gone(threads: set[threading.Thread]) -> None:
    results = OrderedMap(lambda i: i, itertools.count())
    assert next(results) == 0
    assert alive() > threads
    results.close()
    results.close()
    assert alive() <= threads


def test_forgotten_nobody_waits_for_it(threads: set[threading.Thread]) -> None:
    # garbage may be collected by a thread with a lock that the end of a thread needs
    go_on = threading.Event()
    waited: list[bool] = []
    results = OrderedMap(lambda i: waited.append(i == 0 or go_on.wait(20)), itertools.count())
    next(results)
    results.itself = results  # type: ignore[attr-defined]
    del results
    gc.collect()
    go_on.set()
    for thread in alive() - threads:
        thread.join()
    assert waited
    assert all(waited), "collected only after the work had ended"


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
