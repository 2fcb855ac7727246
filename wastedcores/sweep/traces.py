"""Makes one table of many traces: finds the traces in a folder, in a list or at a URL, and checks each of them in a run.

fsspec, which is part of ``wastedcores[dask]``, reads URLs (``s3://``, ``gs://``, ``https://``, ...). For some kinds of URLs it
needs one more package, which the error message names. The task of a run first copies a trace from a URL to a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import polars as pl

from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.sweep.run import Run, Value

#: the task that checks a trace
CHECK_TASK = "wastedcores.sweep.traces:check_once"
#: endings of files that people keep beside traces and that are not traces
NOT_TRACES = (
    ".csv", ".html", ".ipynb", ".json", ".log", ".md", ".png", ".prom", ".py", ".sh", ".sql", ".svg", ".toml", ".yaml", ".yml",
)  # fmt: skip
#: ending of a text file that names a trace in each line
LIST = ".list"


class Found(NamedTuple):
    """A trace that was found: its path or URL, its size, and when it was last changed (s since 1970; 0: unknown)."""

    name: str
    bytes: int
    changed: float


def is_url(name: str) -> bool:
    """Return whether a name is a URL rather than a path."""
    return "://" in name


def find_traces(where: str, table: Path | None = None, lists: tuple[str, ...] = ()) -> list[Found]:
    """Find all traces in a folder, in a list, or at the URL of a folder.

    ``table`` is the table about the traces, which is not taken for a trace. ``lists`` are the lists that led to this place. A
    list that names itself, directly or through other lists, is refused.
    """
    if is_url(where):
        found = list(_behind(where))
    elif where.endswith(LIST) and Path(where).is_file():
        text = Path(where).read_text(errors="surrogateescape")  # a file name need not be valid text
        lines = [line.strip() for line in text.splitlines()]
        named = [line for line in lines if line and not line.startswith("#")]
        if where in lists:
            raise UsageError(f"{where}: the list names itself; take that line out of it.")
        inner = (*lists, where)
        # several lines may lead to the same trace, for example a folder and a file in this folder
        every = (find_traces(line, table, inner) for line in dict.fromkeys(named))
        found = list(dict.fromkeys(f for some in every for f in some))
    elif (path := Path(where)).is_dir():
        files = {"/".join(p.relative_to(path).parts): p for p in _below(path)}
        found = [
            _local(p)
            for name, p in files.items()
            if _may_be_a_trace(name, files)
            and not (table is not None and p.resolve() == table.resolve())
        ]
    elif path.exists():
        found = [_local(path)]
    else:
        raise UsageError(f"{where}: there is no such folder, list or trace.")
    if not found:
        raise UsageError(
            f"{where}: no trace is in it. Files with the endings {', '.join(NOT_TRACES)} and hidden ones are left out."
        )
    return found


def _below(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder; if a folder is itself a trace, yield the folder instead of its files."""
    entries = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    folders = [p for p in entries if p.is_dir() and not p.is_symlink()]
    # _is_trace() is also true for a folder that contains the folder of a trace, but other traces may be in there, too
    if _is_trace(folder) and not any(map(_is_trace, folders)):
        yield folder
        return
    for path in entries:
        if path in folders:
            yield from _below(path)
        elif path.is_file():
            yield path


def _is_trace(folder: Path) -> bool:
    from wastedcores.trace.io import sniff

    with suppress(WastedCoresError):
        return bool(sniff(folder))
    return False


def _may_be_a_trace(name: str, names: Container[str]) -> bool:
    """Tell whether a file may be a trace; ``names`` are the names of all files that were found."""
    hidden = any(part.startswith(".") for part in name.split("/"))
    # beside each recording, `watch` writes a text about what it found
    about = name.endswith(".txt") and f"{name.removesuffix('.txt')}.parquet" in names
    return not hidden and not about and not name.lower().endswith(NOT_TRACES)


def _local(path: Path) -> Found:
    files = [p.stat() for p in (path.rglob("*") if path.is_dir() else [path])]
    size, changed = sum(f.st_size for f in files), max(f.st_mtime for f in files)
    return Found(str(path.resolve()), size, changed)


def _files_of(url: str) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the name that the URL has in this file system."""
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            f"{url}: reading URLs needs fsspec. Install it with pip install 'wastedcores[dask]'."
        ) from None
    try:
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except (ImportError, ValueError) as e:
        raise UsageError(f"{url}: {e}.") from None


def _behind(url: str) -> Iterator[Found]:
    """Find the traces at the URL of a folder or of one file."""
    access, name = _files_of(url)
    try:
        files = access.find(name, detail=True) if access.isdir(name) else {name: access.info(name)}
    except Exception as e:  # each kind of URL raises exceptions of its own
        raise UsageError(f"{url}: cannot be read ({type(e).__name__}: {e}).") from None
    below = {p: p[len(name) :].lstrip("/") if p.startswith(name) else p for p in files}
    names = set(below.values())
    for path, facts in sorted(files.items()):
        if not below[path] or _may_be_a_trace(below[path], names):
            yield Found(access.unstrip_protocol(path), int(facts.get("size") or 0), _changed(facts))


def _changed(facts: dict[str, Any]) -> float:
    """Return when a file was last changed; the name of this fact depends on the kind of URL."""
    for name in ("mtime", "LastModified", "last_modified", "updated"):
        value = facts.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return 0.0


@contextmanager
def _on_disk(name: str) -> Iterator[str]:
    """Provide the path of a file with the content of a URL; if the name is a path, provide this path."""
    if not is_url(name):
        yield name
        return
    access, there = _files_of(name)
    with tempfile.TemporaryDirectory(prefix="wastedcores-") as folder:
        here = Path(folder) / (Path(urlsplit(name).path).name or "trace")
        access.get_file(there, str(here))
        yield str(here)


def runs_of(found: list[Found], **options: Value) -> list[Run]:
    """Return one run per trace; if a trace changes, it gets another run."""
    return [
        Run.of(CHECK_TASK, trace=f.name, bytes=f.bytes, changed=f.changed, **options) for f in found
    ]


def check_once(trace: str, bytes: int, changed: float, **options: Any) -> dict[str, Value]:
    """Check a trace and return the result as a row."""
    from wastedcores.invariant import check
    from wastedcores.trace.io import open_trace

    with _on_disk(trace) as path:
        result = check(open_trace(path), **options)
    header = result.trace.header
    began, source = _began(header.clock, result.start_ns, result.duration_ns, changed)
    place = urlsplit(trace).path if is_url(trace) else trace
    return {
        "host": header.host or Path(place).parent.name or "unknown",
        "kernel": header.kernel_release,
        "format": header.source_format,
        "cpus": len(result.counted_cpus),
        "events": header.events,
        "lost": header.lost_total,
        "began": began,
        "began_from": source,
        "seconds": result.duration_ns / 1e9,
        "verdict": result.verdict,
        "kind": result.kind,
        "wasted_cpus": result.mean(result.thread_ns),
        "busy_cpus": result.mean(result.busy_ns),
        "wasted_cpu_s": result.thread_ns / 1e9,
        "idle_while_overloaded": result.mean(result.wall_ns),
        "longest_s": result.longest_ns / 1e9,
        "episodes": result.episodes.height + result.episodes_dropped,
        "note": result.notes[-1] if result.notes else None,
    }


def _began(
    clock: str | None, start_ns: int, duration_ns: int, changed: float
) -> tuple[str | None, str | None]:
    if clock in ("realtime", "tai"):
        seconds, source = start_ns / 1e9, "clock"
    elif changed:
        seconds, source = changed - duration_ns / 1e9, "file"
    else:
        return None, None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds"), source


def ranked(table: pl.DataFrame, by: str) -> pl.DataFrame:
    """Rank machines (``host``), hours (``hour``) or kernels (``kernel``) by the CPUs that they wasted.

    ``wasted_cpus`` is the mean over the traces whose verdict is known, and null if there is no such trace.
    """
    good = table.filter(pl.col("error").is_null())
    if not good.height:
        return pl.DataFrame()
    return (
        good.with_columns(hour=pl.col("began").cast(pl.String).str.slice(0, 13))
        .group_by(by)
        .agg(
            traces=pl.len(),
            seconds=pl.col("seconds").sum(),
            wasted_cpu_s=pl.col("wasted_cpu_s").sum(),
            wasted_cpus=wasted_on_average(),
            violations=(pl.col("verdict") == "violations").sum(),
            unknown=(pl.col("verdict") == "unknown").sum(),
            longest_s=pl.col("longest_s").max(),
            machines=pl.col("host").n_unique(),
            since=pl.col("began").min(),
        )
        .sort("wasted_cpus", by, descending=[True, False], nulls_last=True)
    )


def wasted_on_average() -> pl.Expr:
    """Return the mean number of wasted CPUs of the rows whose verdict is known; null if there is no such row."""
    known = pl.col("verdict") != "unknown"
    seconds = pl.col("seconds").filter(known).sum()
    return pl.col("wasted_cpu_s").filter(known).sum() / pl.when(seconds > 0).then(seconds)
