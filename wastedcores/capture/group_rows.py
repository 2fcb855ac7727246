"""Rows that add up what the tasks of control groups did: a limited number of groups have rows, and the others share one row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from wastedcores.capture.system import cpu_groups

#: the row of all groups that have no row of their own
OTHER = "other"
#: a row may be given to another group when no task of its group has run or waited for this long
_QUIET_S = 300.0
#: the folders of the groups are listed at most this often
_LIST_EVERY_S = 10.0
#: after each message of the collector, the kernel's own counts are read again for this many groups
_READ = 50


class Row(NamedTuple):
    """What a group's tasks did, in seconds summed over tasks, and their longest wait beside an idle CPU in the last minute."""

    ran_s: float
    waited_s: float
    wasted_s: float
    throttled_s: float | None
    longest_s: float


class _Sums:
    def __init__(self) -> None:
        self.ns = [0, 0, 0]
        self.waits: list[tuple[float, int]] = []  # (when the collector reported it, ns waited)
        self.changed = 0.0
        self.stat: str | None = None  # the file with the kernel's own count
        self.throttled_s: float | None = None


class GroupRows:
    """The rows of the control groups.

    The numbers of a row never decrease. When a row is given to another group, its seconds are dropped: Prometheus has read them
    already, so they must not be added to the row of all other groups. If the old group comes back, its new row begins at 0, which
    Prometheus takes for a reset.
    """

    def __init__(
        self,
        most: int = 100,
        renamed: Callable[[str], str] = str,
        root: Path = Path("/"),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._renamed, self._root, self._now = most, renamed, root, now
        self._rows: dict[str, _Sums] = {OTHER: _Sums()}
        self._paths: dict[int, tuple[str, Path]] = {}
        self._to_read: list[str] = []
        self._listed = -_LIST_EVERY_S

    def add(self, changes: list[list[int]]) -> None:
        """Add what the collector told of each group: id; ns run; ns waited; ns waited beside an idle CPU; longest such wait."""
        now = self._now()
        for key, ran, waited, beside, longest in changes:
            row = self._rows[self._label(key, now)]
            row.ns = [row.ns[0] + ran, row.ns[1] + waited - beside, row.ns[2] + beside]
            row.changed = now
            row.waits = [w for w in row.waits if w[0] > now - 60]
            if longest:
                row.waits.append((now, longest))
        self._read_some()

    def _label(self, key: int, now: float) -> str:
        """Return the label of a group's row; the group gets a row of its own if there is room."""
        if key and key not in self._paths and now - self._listed >= _LIST_EVERY_S:
            self._listed = now
            self._paths = cpu_groups(self._root)
        path, folder = self._paths.get(key, ("/" if key == 0 else OTHER, None))
        if path in self._rows:
            return path
        if len(self._rows) > self._most:
            quiet = [p for p, r in self._rows.items() if p != OTHER and now - r.changed > _QUIET_S]
            if not quiet:
                return OTHER
            del self._rows[min(quiet, key=lambda p: self._rows[p].changed)]
        row = self._rows[path] = _Sums()
        if folder is not None:
            row.stat = str(folder / "cpu.stat")
            row.throttled_s = _throttled(row.stat)
        return path

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield every row with its label."""
        now = self._now()
        for path, sums in sorted(self._rows.items()):
            ran, waited, wasted = (ns / 1e9 for ns in sums.ns)
            longest = max((ns for when, ns in sums.waits if when > now - 60), default=0) / 1e9
            label = path if path in (OTHER, "/") else self._renamed(path)
            yield label, Row(ran, waited, wasted, sums.throttled_s, longest)

    def _read_some(self) -> None:
        """Read the kernel's own counts of some groups, which take turns, so that no request waits for a thousand files."""
        for _ in range(min(_READ, len(self._rows))):
            self._to_read = self._to_read or list(self._rows)
            row = self._rows.get(self._to_read.pop())
            if row is not None and row.stat is not None:
                row.throttled_s = _throttled(row.stat)


def _throttled(stat: str) -> float | None:
    """Return for how long a group was throttled; None if the kernel does not count this, or if the group has ended."""
    try:
        with open(stat) as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    counts = {line.split()[0]: int(line.split()[1]) for line in lines if "throttled_" in line}
    if "throttled_usec" in counts:
        return counts["throttled_usec"] / 1e6
    return counts["throttled_time"] / 1e9 if "throttled_time" in counts else None
