"""Executes every run once and writes one table."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.sweep.cluster import on_cluster
from wastedcores.sweep.processes import on_processes
from wastedcores.sweep.run import Run
from wastedcores.sweep.store import Store, table_of


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
    """Execute every run once and write one Parquet table.

    Parameters
    ----------
    runs
        The runs; no two may be equal.
    out
        The table. If it exists, its runs are not executed again, nor are those in ``OUT.runs/``.
    workers
        Number of processes on this machine; by default one per CPU.
    scheduler
        Address of a Dask scheduler (``tcp://host:8786``) whose workers can import this package.
    progress
        Show a progress bar on stderr.
    note
        Called with remarks, such as how many runs were kept; by default they are printed to stderr.
    keep
        Whether other runs of an earlier table stay in the file if the same code made them.
    first
        What the progress bar says until the first run ends.

    Returns
    -------
    polars.DataFrame
        One row per run: ``run`` (the key), ``code`` (digest of the sources), the arguments, the task's values, ``error``.

    Raises
    ------
    UsageError
        There is no run, two runs are equal, no scheduler answers at the address, or the cluster has another version.
    """
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
    if scheduler:
        finished = on_cluster(left, scheduler)
    else:
        finished = on_processes(left, workers or os.cpu_count() or 1)
    try:
        with _bar(len(todo), len(done), progress) as bar:
            if left:
                bar.set_description(first)
            for run, row in finished:
                bar.set_description(refresh=False)
                # a run may come twice if its worker was wrongly taken for dead; it counts once
                if run.key not in done:
                    store.keep(run.key, row)
                    done[run.key] = row
                    bar.update()
    except KeyboardInterrupt:
        kept = len(store.finished(set(keys)))  # the interrupt may have come while one was kept
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
