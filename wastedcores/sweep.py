"""Many runs into one table: on this machine's CPUs, or on a Dask cluster by its address.

A *run* is a task by name (``"package.module:function"``) and its keyword arguments; the task returns a flat dict of
plain values, one row of the table. Finished runs are kept one file each in ``OUT.runs/`` until the table is written in
one go, so a sweep that was interrupted goes on where it was; runs that an earlier table holds are not run again either.
A run is known by its task, its arguments and the code that it runs (``sources.py``): what other code made is done again.
Every run is in the table exactly once, in the order given, also when a worker died under it. A run that failed is a
row with its ``error``, and is tried again next time.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from stat import S_ISREG
from typing import Any
from urllib.parse import urlsplit

import polars as pl

from wastedcores.errors import ModelWarning, UsageError, WastedCoresError
from wastedcores.sources import digest

#: how often a run is given to a new worker when its worker died
LIVES = 3
#: seconds to wait for a scheduler
CONNECT_S = 10

Value = str | int | float | bool | None
#: the task of a scenario's replay
SCENARIO_TASK = "wastedcores.sweep:replay_once"


#: arguments that may name a file (an rt-app workload, a machine)
_FILES = ("scenario", "machine")


def _content(name: str) -> str:
    """Digest of a file; empty if there is none of that name."""
    try:
        facts = os.stat(name)
        return _content_of(name, facts.st_mtime_ns, facts.st_size) if S_ISREG(facts.st_mode) else ""
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=64)
def _content_of(name: str, *version: int) -> str:
    del version  # reads the file again when it has changed
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


@dataclass(frozen=True)
class Run:
    """One call of a task.

    Attributes
    ----------
    task
        ``"package.module:function"``; importable wherever it runs.
    arguments
        Keyword arguments; plain values (str, int, float, bool, None, or lists of them).
    """

    task: str
    arguments: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, task: str, **arguments: Any) -> Run:
        """Make a run from keyword arguments."""
        return cls(task, tuple(arguments.items()))

    @property
    def key(self) -> str:
        """Name of this run: a hash of task, arguments, code, and the content of files that are arguments."""
        files = [_content(str(v)) for name, v in self.arguments if name in _FILES]
        text = json.dumps([self.code, self.task, sorted(self.arguments), files], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def code(self) -> str:
        """Digest of the code that it runs."""
        return digest(self.task.partition(":")[0])


def grid(
    task: str, axes: Mapping[str, Sequence[Any]], *, fixed: dict[str, Any] | None = None
) -> list[Run]:
    """All combinations of the axes' values, the last axis running fastest.

    Raises
    ------
    UsageError
        An axis without a value.
    """
    for name, values in axes.items():
        if not values:
            raise UsageError(f"sweep: {name} has no value; give at least one.")
    names = list(axes)
    return [
        Run.of(task, **dict(zip(names, values, strict=True)), **(fixed or {}))
        for values in product(*axes.values())
    ]


def replay_once(
    scenario: str, kernel: str, machine: str, seed: int, **given: Any
) -> dict[str, Value]:
    """One replay of a scenario as a row; an empty ``machine`` is the scenario's own.

    Returns
    -------
    dict
        ``machine_name``, ``warning`` (what the replay does not model of this kernel, see ``replay_warning``),
        ``result`` and its ``result_name``, ``makespan_ns``, ``busy_cpus``, ``idle_while_overloaded`` (share of the
        window), ``events``, ``wall_s``.
    """
    from wastedcores.replay import replay_scenario

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # in the row instead of once a process
        r = replay_scenario(scenario, kernel, machine or None, seed, given)
    return {
        "machine_name": r.machine.name,
        "warning": r.kernel.replay_warning,
        "result_name": r.result_name,
        "result": r.summary.result,
        "makespan_ns": r.makespan_ns,
        "busy_cpus": r.busy_cpus,
        "idle_while_overloaded": r.summary.idle_while_overloaded,
        "events": r.raw.events,
        "wall_s": r.raw.wall_s,
    }


def execute(task: str, arguments: tuple[tuple[str, Any], ...]) -> dict[str, Value]:
    """Do one run here; what workers call.

    An error of ours, or any other, becomes the row's ``error``: the other runs go on.
    """
    module, _, function = task.partition(":")
    try:
        found: Callable[..., dict[str, Value]] = getattr(import_module(module), function)
        return {**found(**dict(arguments)), "error": None}
    except WastedCoresError as e:
        return {"error": str(e)}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


def sweep(
    runs: Iterable[Run],
    out: str | Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: bool = True,
    note: Callable[[str], None] | None = None,
    keep: bool = False,
) -> pl.DataFrame:
    """Do every run once and write one Parquet table.

    Parameters
    ----------
    runs
        What to do, without two equal ones.
    out
        The table. Its runs are not done again if it exists, nor those in ``OUT.runs/``.
    workers
        Processes on this machine; default one a CPU.
    scheduler
        Address of a Dask scheduler (``tcp://host:8786``) whose workers can import this package.
    progress
        Show a bar on stderr.
    note
        Called with remarks, such as how many runs were kept; default prints to stderr.
    keep
        Whether other runs of an earlier table stay in the file, if the code of these runs made them.

    Returns
    -------
    polars.DataFrame
        ``run`` (the key), ``code`` (digest of the sources), the arguments, the task's values, ``error``; one row a run.

    Raises
    ------
    UsageError
        Two equal runs, no run, no scheduler at the address, or a cluster with another version.
    """
    todo = list(runs)
    keys = [r.key for r in todo]
    if not todo or len(set(keys)) != len(keys):
        raise UsageError(
            "sweep: " + ("two runs are equal; leave one out." if todo else "there is no run.")
        )
    say = note or (lambda text: print(text, file=sys.stderr))
    store = _Store(Path(out))
    done = store.finished(set(keys))
    if done:
        say(f"{len(done)} of {len(todo)} runs were done earlier")
    left = [r for r in todo if r.key not in done]
    engine = _dask(left, scheduler) if scheduler else _here(left, workers or os.cpu_count() or 1)
    try:
        with _bar(len(todo), len(done), progress) as bar:
            if left:
                bar.set_description("the first run compiles the engine")
            for run, row in engine:
                bar.set_description(refresh=False)
                # a run that comes twice, because its worker was only thought dead, counts once
                if run.key not in done:
                    done[run.key] = row
                    store.keep(run.key, row)
                    bar.update()
    except KeyboardInterrupt:
        say(f"{len(done)} of {len(todo)} runs are kept in {store.folder}; the same command goes on")
        raise
    finally:
        engine.close()
    table = _table([(r, done[r.key]) for r in todo])
    store.publish(table, others=store.others(todo) if keep else [])
    return table


class _Store:
    """Finished runs, one file each; the table when all are there."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out.with_name(out.name + ".runs")

    def _earlier(self) -> list[dict[str, Value]]:
        """Rows of the table as it is, without failed ones."""
        if not self.out.exists():
            return []
        try:
            table = pl.read_parquet(self.out)
        except (pl.exceptions.PolarsError, OSError) as e:
            raise UsageError(
                f"{self.out}: expected the table of an earlier sweep, got a file that does not read as Parquet "
                f"({str(e).splitlines()[0]}). Name another file or remove it."
            ) from None
        if not {"run", "error"} <= set(table.columns):
            raise UsageError(
                f"{self.out}: expected the table of an earlier sweep (columns run, error), got columns "
                f"{', '.join(table.columns[:6])}. Name another file."
            )
        return table.filter(pl.col("error").is_null()).to_dicts()

    def others(self, runs: Sequence[Run]) -> list[dict[str, Value]]:
        """Rows of the table that are of other runs, but of the same code."""
        keys, codes = {r.key for r in runs}, {r.code for r in runs}
        return [
            row for row in self._earlier() if row["run"] not in keys and row.get("code") in codes
        ]

    def finished(self, keys: set[str]) -> dict[str, dict[str, Value]]:
        done = {str(row["run"]): row for row in self._earlier() if row["run"] in keys}
        for path in self.folder.glob("*.json"):
            if path.stem in keys:
                try:
                    row = json.loads(path.read_text())
                except ValueError:  # cut off by a full disk: do it again
                    continue
                if row.get("error") is None:
                    done[path.stem] = row
        return done

    def keep(self, key: str, row: dict[str, Value]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{key}.part"
        part.write_text(json.dumps(row))
        part.replace(self.folder / f"{key}.json")

    def publish(self, table: pl.DataFrame, others: list[dict[str, Value]]) -> None:
        self.out.parent.mkdir(parents=True, exist_ok=True)
        part = self.out.with_name(self.out.name + ".part")
        (_frame([*table.to_dicts(), *others]) if others else table).write_parquet(part)
        part.replace(self.out)
        for path in self.folder.glob("*"):
            if path.suffix in (".json", ".part"):
                path.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


#: columns that are not the task's
_OURS = ("run", "code", "error")


def _table(results: list[tuple[Run, dict[str, Value]]]) -> pl.DataFrame:
    """One row a run; columns in the order of first appearance, ``error`` last."""
    rows = []
    for run, row in results:
        given = {k: v for k, v in run.arguments if not isinstance(v, list | tuple | dict)}
        rest = {k: v for k, v in row.items() if k not in given and k not in _OURS}
        rows.append({"run": run.key, "code": run.code, **given, **rest, "error": row.get("error")})
    return _frame(rows)


def _frame(rows: list[dict[str, Value]]) -> pl.DataFrame:
    names = dict.fromkeys(k for row in rows for k in row if k != "error")
    return pl.DataFrame(
        [{n: row.get(n) for n in (*names, "error")} for row in rows],
        infer_schema_length=None,
        strict=False,
    ).with_columns(pl.col("error").cast(pl.String))


def _here(runs: list[Run], workers: int) -> Generator[tuple[Run, dict[str, Value]], None, None]:
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


def _dask(runs: list[Run], address: str) -> Generator[tuple[Run, dict[str, Value]], None, None]:
    """On a cluster: its scheduler gives a lost worker's runs to another one."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise UsageError(
            "--scheduler needs Dask; install it with pip install 'wastedcores[dask]'."
        ) from None
    try:
        # the client of a scheduler that is not there would complain in a thread of its own, too
        _knock(address)
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as e:
        raise UsageError(
            f"no Dask scheduler answers at {address} ({type(e).__name__}); start one with `dask scheduler` and give "
            "the address that it prints."
        ) from None
    try:
        modules = sorted({r.task.partition(":")[0] for r in runs if r.code})
        here = _installed(modules)
        there = {str(v) for v in client.run(_installed, modules, on_error="return").values()}
        if there - {here}:
            raise UsageError(
                f"the workers at {address} must have the code of here, wastedcores {here}, got "
                f"{', '.join(sorted(there - {here}))}; install the same there."
            )
        named = {f"wastedcores-{r.key}-{os.urandom(4).hex()}": r for r in runs}
        futures = [
            client.submit(execute, r.task, r.arguments, key=key, pure=False)
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


def _knock(address: str) -> None:
    """Try whether anybody listens at ``tcp://host:port`` or ``tls://host:port``; others are the client's business."""
    at = urlsplit(address)
    if at.scheme not in ("tcp", "tls") and "://" in address:
        return
    if not at.hostname or not at.port:
        raise ValueError(address)
    socket.create_connection((at.hostname, at.port), timeout=CONNECT_S).close()


def _installed(modules: list[str]) -> str:
    """Version and code of the tasks, where it is called."""
    from wastedcores import __version__ as version

    return " ".join([version, *(digest(module) for module in modules)])


def _bar(total: int, done: int, show: bool) -> Any:
    from tqdm import tqdm

    return tqdm(
        total=total, initial=done, unit="run", file=sys.stderr, disable=not show, dynamic_ncols=True
    )
