"""Executes runs in processes of this machine."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager

from loky import get_reusable_executor

from wastedcores.sweep.run import Run, Value, execute

#: how often a run is started before it is given up because its process dies
LIVES = 3


def on_processes(
    runs: list[Run], workers: int
) -> Generator[tuple[Run, dict[str, Value]], None, None]:
    """Execute runs in processes of this machine.

    When a process dies, all runs that were under way lose one life and are started again in new processes. Only as many
    runs as workers are handed out at a time, so that these runs are known and Ctrl-C has nothing queued to wait for.
    """
    lives = {run.key: LIVES for run in runs}
    waiting = list(reversed(runs))
    under_way: dict[Future, Run] = {}
    processes = min(workers, len(runs))
    pool = None
    # the first run is executed alone: it compiles the engine, and the other processes find that in the cache
    allowed = 1
    try:
        while waiting or under_way:
            while waiting and len(under_way) < allowed:
                with _no_ctrl_c():  # submitting also starts processes
                    pool = get_reusable_executor(
                        processes, timeout=None
                    )  # a new one if the last one broke
                    try:
                        future = pool.submit(execute, waiting[-1].task, waiting[-1].arguments)
                    except BrokenExecutor:
                        continue
                under_way[future] = waiting.pop()
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                run = under_way.pop(future)
                allowed = workers
                try:
                    yield run, future.result()
                except BrokenExecutor:
                    lives[run.key] -= 1
                    if lives[run.key]:
                        waiting.append(run)
                    else:
                        yield (
                            run,
                            {"error": f"its worker process died {LIVES} times (out of memory?)"},
                        )
    finally:
        if pool is not None:  # what the processes were doing is done again
            pool.shutdown(kill_workers=True)


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C; processes that are started meanwhile never see it, from their first instruction on.

    A terminal sends it to the whole process group, and the parent decides what happens then.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
