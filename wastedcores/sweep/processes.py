"""Runs on processes of this machine."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context

from wastedcores.sweep.run import Run, Value, execute

#: how often a run is given to a new worker when its worker died
LIVES = 3


def on_processes(
    runs: list[Run], workers: int
) -> Generator[tuple[Run, dict[str, Value]], None, None]:
    """On processes of this machine; a worker that died costs its run one life.

    Only as many runs as workers are handed out at a time: so the runs that were under way when a process died are
    known, and Ctrl-C has nothing queued to wait for.
    """
    lives = {run.key: LIVES for run in runs}
    waiting = list(reversed(runs))
    pool: ProcessPoolExecutor | None = None
    under_way: dict[Future, Run] = {}
    ever = False
    try:
        while waiting or under_way:
            if pool is None:
                pool = ProcessPoolExecutor(
                    max_workers=min(workers, len(runs)), mp_context=get_context("spawn")
                )
            broken = False
            # the first run alone: it compiles the engine, the other processes find that in the cache
            most = workers if ever else 1
            try:
                while waiting and len(under_way) < most:
                    run = waiting.pop()
                    try:
                        with _no_ctrl_c():  # what submits also starts processes
                            under_way[pool.submit(execute, run.task, run.arguments)] = run
                    except BrokenExecutor:
                        waiting.append(run)
                        raise
            except BrokenExecutor:
                broken = True
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                run = under_way.pop(future)
                ever = True
                try:
                    yield run, future.result()
                except BrokenExecutor:
                    broken = True
                    lives[run.key] -= 1
                    if lives[run.key]:
                        waiting.append(run)
                    else:
                        yield (
                            run,
                            {"error": f"its worker process died {LIVES} times (out of memory?)"},
                        )
            if broken:
                _end(pool)
                pool = None
    finally:
        _end(pool)


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Hold Ctrl-C back; processes started meanwhile never see it, from their first instruction on.

    It goes to the whole process group, and the parent decides what happens then.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(pool: ProcessPoolExecutor | None) -> None:
    """Stop the processes at once: what they were doing is done again."""
    if pool is None:
        return
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()
