"""A folder with recordings of violations; its size, the recordings' age, and their number per hour and kind are limited."""

from __future__ import annotations

import calendar
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wastedcores.capture.live_result import LiveOptions
from wastedcores.capture.snapshot import header_facts, take
from wastedcores.capture.system import this_machine, throttled, throttled_since
from wastedcores.errors import UsageError
from wastedcores.files import leftovers, written_whole
from wastedcores.trace.pseudonyms import Pseudonyms

#: the endings of the files that belong to one recording; the first file is what the collector sent
_ENDINGS = (".wct", ".parquet", ".txt", ".json")
#: the kinds of the collector's messages that come with a recording
_KINDS = ("violation", "chronic")
_HOUR_S = 3600


@dataclass(frozen=True)
class Limits:
    """How much evidence is kept."""

    #: The oldest files are deleted when all files together exceed this size; a file is also deleted when it exceeds this age.
    most_bytes: int = 1_000_000_000
    most_s: float = 7 * 86_400.0
    free_share: float = (
        0.05  #: Nothing is written when less than this share of the file system is free.
    )


class Evidence:
    """The recordings of a checker that runs for days or weeks.

    Each recording is judged at once, at the lowest priority, in a separate process, whose memory is free again when it ends. A
    clean recording is deleted. For any other, what ``check`` says about it is stored beside the trace, as text and as JSON. A
    file gets its name only when it is complete and on the disk, so no crash leaves half a file. Only the user can read the files.
    Other files in the folder, whose names this store would not give, are left alone.
    """

    def __init__(
        self,
        folder: Path,
        options: LiveOptions,
        limits: Limits = Limits(),
        key: Path | None = None,
        told: Callable[[str, dict[str, Any] | None], None] = lambda result, found: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self._options, self._limits = folder, options, limits
        self._key, self._told, self._now = key, told, now
        try:
            if not folder.is_dir():
                folder.mkdir(parents=True, mode=0o700)
            os.chmod(folder, 0o700)
        except OSError as e:
            raise UsageError(f"{folder}: {e.strerror}. Choose another folder with -o.") from e
        if key is not None:
            Pseudonyms.of_file(key)
        for left in leftovers(folder):
            if left.name.startswith(".") and _parts(left.name.lstrip(".").split(".")[0]):
                left.unlink()
        self._throttled = throttled()
        self._pool = _judges()
        for raw in sorted(folder.glob("*.wct")):
            # an earlier process was killed before it judged this recording. Facts read now may not have been true then, so none
            # are given
            if _parts(raw.stem):
                self._submit(raw, {})
        self.prune()

    def write(self, kind: str, number: int, blob: bytes) -> Path | None:
        """Keep what the collector sent, unless there is already a recording of this kind from this hour or no room is left."""
        now = self._now()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        hour = int(now // _HOUR_S)
        if (kind, hour) in (_parts(path.stem) for path in self.folder.iterdir()):
            self._told("too_often", None)
            return None
        if len(blob) > self._limits.most_bytes:
            self._told("no_room", None)
            return None
        self.prune(len(blob))
        at = os.statvfs(self.folder)
        left = at.f_bavail * at.f_frsize - len(blob)
        if left < self._limits.free_share * at.f_blocks * at.f_frsize:
            self._told("no_room", None)
            return None
        raw = self.folder / f"{kind}-{stamp}.wct"
        try:
            with written_whole(raw) as part:
                part.chmod(0o600)
                part.write_bytes(blob)
                _to_disk(part)
            _to_disk(self.folder)
        except OSError:
            self._told("no_room", None)
            return None
        return raw

    def add(self, raw: Path) -> None:
        """Judge a recording in a separate process."""
        facts, before, self._throttled = header_facts(take()), self._throttled, throttled()
        facts["provenance"] = {"throttled": throttled_since(before, self._throttled)}
        self._submit(raw, facts)

    def _submit(self, raw: Path, facts: dict[str, Any]) -> None:
        options = self._options
        work = partial(judge, raw, facts, options.persist_ns, options.chronic_share, self._key)
        try:
            future = self._pool.submit(work)
        except BrokenProcessPool:  # the last judge was killed, perhaps for its memory
            self._pool = _judges()
            future = self._pool.submit(work)
        future.add_done_callback(self._judged)

    def _judged(self, future: Future[dict[str, Any]]) -> None:
        if future.cancelled():
            return
        if future.exception() is not None:
            self._told("failed", None)
            return
        found = future.result()
        self._told("clean" if found["verdict"] == "clean" else "kept", found)
        self.prune()

    def finish(self) -> None:
        """Wait until all recordings are judged."""
        self._pool.shutdown(wait=True)

    def prune(self, more: int = 0) -> None:
        """Delete the oldest recordings until the rest, together with ``more`` bytes, is within the limits."""
        sizes: dict[str, int] = {}
        ages: dict[str, float] = {}
        for path in self.folder.iterdir():
            if path.suffix not in _ENDINGS or _parts(path.stem) is None:
                continue
            try:
                about = path.stat()
            except FileNotFoundError:
                continue
            sizes[path.stem] = sizes.get(path.stem, 0) + about.st_size
            ages[path.stem] = min(ages.get(path.stem, about.st_mtime), about.st_mtime)
        total = sum(sizes.values()) + more
        for stem in sorted(sizes, key=lambda s: (ages[s], s)):
            if total <= self._limits.most_bytes and self._now() - ages[stem] <= self._limits.most_s:
                return
            for ending in _ENDINGS:
                (self.folder / f"{stem}{ending}").unlink(missing_ok=True)
            total -= sizes[stem]


def _judges() -> ProcessPoolExecutor:
    """Return a pool with one process at a time. Each process judges one recording, at the lowest priority."""
    return ProcessPoolExecutor(
        1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=os.nice,
        initargs=(19,),
        max_tasks_per_child=1,
    )


def _parts(stem: str) -> tuple[str, int] | None:
    """Return the kind and the hour since 1970 that the name of a recording tells; None if this store would not give that name."""
    kind, _, stamp = stem.partition("-")
    try:
        moment = time.strptime(stamp + "+0000", "%Y%m%dT%H%M%SZ%z")
    except ValueError:
        return None
    return (kind, calendar.timegm(moment) // _HOUR_S) if kind in _KINDS else None


def judge(
    raw: Path,
    facts: dict[str, Any],
    persist_ns: int,
    chronic_share: float | None,
    key: Path | None,
) -> dict[str, Any]:
    """Turn a recording into a trace, and write beside it what ``check`` says about it; if it is clean, keep no file.

    Return what ``check`` says, the path of the trace, and whether an earlier process left the recording (if ``facts`` is empty).
    Only the process that judges imports the modules that read and check traces, because they take 90 MB.
    """
    from wastedcores.analysis.decisions import refused
    from wastedcores.invariant import check
    from wastedcores.trace.io import import_trace
    from wastedcores.trace.pseudonyms import written_again
    from wastedcores.words.checked import describe

    os.umask(0o077)
    output = raw.with_suffix(".parquet")
    source = "recorded here by unclaimed.py (bpf)"
    trace = written_again(
        lambda part: import_trace(raw, part, machine=this_machine(), source=source, facts=facts),
        output,
        None if key is None else Pseudonyms.of_file(key),
    )
    found = check(trace, persist_ns=persist_ns, chronic_share=chronic_share)
    told = found.to_json() | {"refusals": refused(trace)}
    _to_disk(output)
    if found.verdict == "clean":
        output.unlink()
    else:
        for ending, text in (
            (".txt", describe(found)),
            (".json", json.dumps(told, indent=2, default=str)),
        ):
            with written_whole(raw.with_suffix(ending)) as part:
                part.write_text(text + "\n")
                _to_disk(part)
    _to_disk(raw.parent)
    raw.unlink()
    return told | {"recording": str(output), "left_by_another": not facts}


def _to_disk(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
