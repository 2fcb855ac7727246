"""Executes every run once and writes one table."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import polars as pl
from loky import get_reusable_executor

from wastedcores.errors import UsageError
from wastedcores.sweep.run import LIVE, Run, Value, digest, execute, live_machine
from wastedcores.sweep.store import Store, table_of

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
#: wait at most this many seconds for a scheduler to answer
CONNECT_S = 10


def _end_with(parent: int) -> None:
    """Make this worker end when its parent process ends or is killed; otherwise it would wait for work forever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has ended already
        os._exit(1)


def on_cluster(
    runs: list[Run], address: str
) -> Generator[tuple[Run, dict[str, Value]], None, None]:
    """Execute runs on a cluster, whose scheduler gives the runs of a lost worker to another worker."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise UsageError(
            "--scheduler needs Dask. Install it with pip install 'wastedcores[dask]'."
        ) from None
    if any(("machine", LIVE) in r.arguments for r in runs):
        raise UsageError(
            "--scheduler: live would be another machine on each worker. Name a preset, or a file that all of them can read."
        )
    try:
        # without this, if there is no scheduler, the client would also print errors from a thread of its own
        _try_to_connect(address)
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as e:
        raise UsageError(
            f"No Dask scheduler answers at {address} ({type(e).__name__}). Start one with `dask scheduler` and give "
            "the address that it prints."
        ) from None
    try:
        modules = sorted({r.task.partition(":")[0] for r in runs if r.code})
        here = _installed(modules)
        there = {str(v) for v in client.run(_installed, modules, on_error="return").values()}
        if there - {here}:
            raise UsageError(
                f"The workers at {address} must have the same code as this machine, wastedcores {here}; they have "
                f"{', '.join(sorted(there - {here}))}. Install the same version there, and start them again."
            )
        named = {f"wastedcores-{r.key}-{os.urandom(4).hex()}": r for r in runs}
        futures = [
            client.submit(execute, r.task, r.arguments, r.code, key=key, pure=False)
            for key, r in named.items()
        ]
        arriving = as_completed(futures, loop=client.loop, with_results=True, raise_errors=False)
        for future, result in arriving:
            run = named[future.key]
            if future.status == "finished":
                yield run, result
            else:
                why = result[1] if isinstance(result, tuple) else result
                yield run, {"error": f"lost on the cluster: {type(why).__name__}: {why}"}
            future.release()
    finally:
        client.close()


def _try_to_connect(address: str) -> None:
    """Raise OSError if nobody listens at a ``tcp`` or ``tls`` address; the client itself checks addresses of other kinds."""
    at = urlsplit(address)
    if at.scheme not in ("tcp", "tls") and "://" in address:
        return
    if not at.hostname or not at.port:
        raise ValueError(address)
    socket.create_connection((at.hostname, at.port), timeout=CONNECT_S).close()


def _installed(modules: list[str]) -> str:
    """Return the version and the digests of the tasks' code on the machine where this is called."""
    from wastedcores import __version__ as version

    return " ".join([version, *(digest(module) for module in modules)])


#: a run is given up when its worker process has died this many times
LIVES = 3


def on_processes(
    runs: list[Run], workers: int
) -> Generator[tuple[Run, dict[str, Value]], None, None]:
    """Execute runs in processes of this machine.

    Each run has :data:`LIVES` lives. When a process dies, all runs that were under way lose one life and are started again in new
    processes. A run with only one life left is executed alone, so that no run is given up because of another run. At most as many
    runs as there are workers are handed out at a time. So it is known which runs were under way, and Ctrl-C need not wait for
    queued runs.
    """
    lives = {run.key: LIVES for run in runs}
    waiting = list(reversed(runs))
    under_way: dict[Future, Run] = {}
    processes = min(workers, len(runs))
    pool = None
    # the first run is executed alone, because it compiles the engine; later runs find the compiled code in the cache
    allowed = 1

    def most() -> int:
        """Return how many runs may be under way, including the next one."""
        together = (*under_way.values(), *waiting[-1:])
        return 1 if any(lives[run.key] == 1 for run in together) else allowed

    try:
        while waiting or under_way:
            while waiting and len(under_way) < most():
                with _no_ctrl_c():  # submitting also starts processes
                    # a new pool is made if the last one broke
                    pool = get_reusable_executor(
                        processes, timeout=None, initializer=_end_with, initargs=(os.getpid(),)
                    )
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
        if pool is not None:  # the next sweep executes the lost runs again
            pool.shutdown(kill_workers=True)


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C while processes are started, so that these processes never receive it.

    A terminal sends Ctrl-C to the whole process group, but only the parent process must react to it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def sweep(
    runs: Iterable[Run],
    out: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
    note: Callable[[str], None] | None = None,
    keep: bool = False,
    first: str = "the first run compiles the engine",
) -> pl.DataFrame:
    """Execute every run once and write one Parquet table with a row per run.

    A row has ``run`` (the key), ``code`` (digest of the sources), the arguments, the task's values, and ``error``. Runs that are
    in an earlier ``out`` or in ``OUT.runs/`` are not executed again. With ``keep``, the rows that an earlier ``out`` has of other
    runs stay in the table if the same code made them. ``scheduler`` is the address of a Dask scheduler whose workers can import
    this package. ``note`` is called with remarks, such as how many runs were kept. The progress bar shows ``first`` until
    the first run ends.
    """
    # a module may have been edited since the last sweep of this process, and a CPU may have gone offline
    digest.cache_clear()
    live_machine.cache_clear()
    todo = list(runs)
    keys = [r.key for r in todo]
    if not todo or len(set(keys)) != len(keys):
        raise UsageError(
            "sweep: "
            + ("two runs are equal; leave one of them out." if todo else "there is no run.")
        )
    say = note or (lambda text: print(text, file=sys.stderr))
    store = Store(Path(out))
    done = store.finished(set(keys))
    if done:
        say(f"{len(done)} of {len(todo)} runs were done earlier")
    left = [r for r in todo if r.key not in done]
    if scheduler and left:
        finished = on_cluster(left, scheduler)
    else:
        finished = on_processes(left, workers or os.cpu_count() or 1)
    try:
        with _bar(len(todo), len(done), progress) as bar:
            if left:
                bar.set_description(first)
            for run, row in finished:
                bar.set_description(refresh=False)
                # a run comes twice if a living worker was taken for dead; only its first row is kept
                if run.key not in done:
                    store.keep(run.key, row)
                    done[run.key] = row
                    bar.update()
    except KeyboardInterrupt:
        # count again, because the interrupt may have come while a run was being written
        kept = len(store.finished(set(keys)))
        say(f"{kept} of {len(todo)} runs are kept in {store.folder}; the same command continues")
        raise
    finally:
        finished.close()
    table = table_of([(r, done[r.key]) for r in todo])
    store.publish(table, others=store.others(todo) if keep else [])
    return table


def _bar(total: int, done: int, show: bool) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=total, initial=done, unit="run", file=sys.stderr, disable=not show, dynamic_ncols=True
    )
