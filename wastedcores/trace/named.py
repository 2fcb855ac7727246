"""Opens whatever a person names as a trace: a Trace, a file of any format, or a data set by its name."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from wastedcores.errors import DatasetError, WastedCoresError
from wastedcores.files import datasets as folder
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import Moment

#: environment variable that overrides the user's cache folder
CACHE_VARIABLE = "WASTEDCORES_DATA_DIR"
SUFFIX = ".parquet"


@dataclass(frozen=True)
class Entry:
    """A line of the registry: the file's name, its SHA-256, and the address from which it is fetched (None: it is bundled)."""

    file: str
    sha256: str
    url: str | None = None

    @property
    def name(self) -> str:
        """The name of the data set."""
        return self.file.removesuffix(SUFFIX)


def registry(path: Path | None = None) -> dict[str, Entry]:
    """Read the registry of data sets."""
    path = path or folder() / "registry.txt"
    entries: dict[str, Entry] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        digest = words[1].removeprefix("sha256:") if len(words) > 1 else ""
        if (
            len(words) not in (2, 3)
            or len(digest) != 64
            or not set(digest) <= set("0123456789abcdef")
        ):
            raise DatasetError(
                f"{path.name}, line {number}: expected `file sha256:<64 hex digits> [url]`, got {line.strip()!r}."
            )
        entry = Entry(words[0], digest, words[2] if len(words) == 3 else None)
        entries[entry.name] = entry
    return entries


def fetch(name: str | Path) -> Path:
    """Find a trace: the file of this name if it exists, else the data set of this name, fetched if necessary and checked."""
    given = Path(name)
    if given.exists():
        return given
    entries = registry()
    entry = entries.get(str(name).removesuffix(SUFFIX))
    if entry is None:
        near = [e for e in entries if str(name) and e.startswith(str(name))][:4]
        near = near or difflib.get_close_matches(str(name), list(entries), n=1, cutoff=0.5)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise DatasetError(
            f"{name}: there is no such file, and no data set of that name.{hint} `wastedcores data` lists the data sets."
        )
    try:
        bundled = folder() / "small" / entry.file
    except WastedCoresError:
        bundled = given
    if bundled.exists():
        with bundled.open("rb") as file:  # importing pooch takes longer
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != entry.sha256:
            raise DatasetError(
                f"{bundled}: does not match the SHA-256 {entry.sha256[:12]}… of the registry; the file was changed. "
                "Reinstall the package, or give the file's own path to use it as it is."
            )
        return bundled
    return _download(entry)


def cache() -> Path:
    """Return the folder of fetched data sets."""
    import pooch

    return Path(os.environ.get(CACHE_VARIABLE) or pooch.os_cache("wastedcores"))


def _download(entry: Entry) -> Path:
    import pooch

    if entry.url is None:
        raise DatasetError(
            f"{entry.name}: is a bundled data set, but the installation lacks it. Reinstall wastedcores."
        )
    try:
        return Path(
            pooch.retrieve(
                entry.url,
                f"sha256:{entry.sha256}",
                fname=entry.file,
                path=cache(),
                progressbar=False,
            )
        )
    except (ValueError, OSError) as e:
        # requests' errors are OSErrors; a wrong hash is a ValueError
        reason = str(e).splitlines()[0]
        raise DatasetError(
            f"{entry.name}: could not be fetched from {entry.url} into {cache()} ({reason}). Is the network there? "
            f"{CACHE_VARIABLE} chooses another folder."
        ) from e


#: what functions accept wherever they need a trace
TraceLike: TypeAlias = Trace | str | Path


def open(
    trace: TraceLike, *, format: str | None = None, between: Sequence[Moment] | None = None
) -> Trace:
    """Open a trace file or a data set; a trace that is open already is returned as it is.

    Parameters
    ----------
    trace
        Path of a file or folder of any format, ``-`` for the standard input, or the name of a data set.
    format
        Name of the format; default: detected from the content.
    between
        The start and the end of the window to which the trace is cut. Each is a time in ns, the beginning of a mark's text, or
        a time in seconds as text. Only the part around the window is read of a long Parquet file
        (:func:`~wastedcores.trace.window.cut`).

    Returns
    -------
    Trace
        The trace.

    Raises
    ------
    DatasetError
        The name is neither a file nor a data set.
    TraceFormatError
        The file is not a trace of a known format.
    UsageError
        The window is unknown or lies outside of the trace.
    """
    if between is not None:
        from wastedcores.trace.window import cut

        return cut(open(trace, format=format), between)
    if isinstance(trace, Trace):
        return trace
    from wastedcores.trace.io import open_trace

    path = Path(trace)
    if path.exists() or len(path.parts) > 1 or "." in path.name or str(trace) == "-":
        return open_trace(path) if format is None else open_trace(path, format=format)

    # fetch() has compared the file with its registered checksum
    return open_trace(fetch(str(trace))).with_header(unproven=None)
