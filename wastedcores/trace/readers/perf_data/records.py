"""The records of ``perf.data`` that wait for earlier ones, and the names of threads that records have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wastedcores.limits import PID_MAX_LIMIT
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.order_jit import sort_runs
from wastedcores.trace.readers.support.event_columns import NameTable
from wastedcores.trace.readers.support.names_jit import COMM_MAX


class Waiting:
    """The records that were found and that a later one may still come before.

    perf writes what each CPU's buffer holds in rounds. What is older than the round before last can be used.
    """

    def __init__(self) -> None:
        self._found: list[pj.Records] = []
        self._safe = -1

    def add(self, records: pj.Records) -> None:
        """Add records in file order."""
        self._found.append(records)

    def take(self, safe: int, last: bool) -> pj.Records:
        """Remove the records that nothing to come is older than."""
        if not last and safe <= self._safe:
            return pj.Records(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._safe = safe
        ts = np.concatenate([r.ts for r in self._found])
        ref = np.concatenate([r.ref for r in self._found])
        n = ts.size
        sort_runs(ts, ref, n, np.empty(n + 1, np.int64), np.empty((2, n), np.int64))
        ready = n if last else int(ts.searchsorted(safe, side="right"))
        self._found = [pj.Records(ts[ready:], ref[ready:])]
        return pj.Records(ts[:ready], ref[:ready])

    def put_back(self, records: pj.Records) -> None:
        """Undo the removal of the last ones that :meth:`take` returned."""
        self._found.insert(0, records)


class ThreadNames:
    """The names of threads, as the records of forks and changes of names state them."""

    def __init__(self, table: NameTable) -> None:
        self.table = table
        self._now, self._before = np.zeros((2, PID_MAX_LIMIT + 1), np.uint32)
        self._latest = np.zeros(PID_MAX_LIMIT + 1, np.int32)
        swapper = table.number(b"swapper")
        self._now[0] = swapper + 1
        self._before[0] = table.codes()[swapper] + 1

    def know(self, comms: Mapping[int, bytes]) -> None:
        """Take the names that a trace.dat states; they hold for all of it."""
        known = {
            tid: name
            for tid, name in {**comms, 0: b"<idle>"}.items()
            if tid <= PID_MAX_LIMIT
            and name != b"<...>"  # what the kernel says where it forgot the name
        }
        numbers = {n: self.table.number(n[:COMM_MAX]) for n in dict.fromkeys(known.values())}
        codes = self.table.codes()
        self._before[list(known)] = codes[[numbers[n] for n in known.values()]] + 1

    def learn(self, data: np.ndarray, ref: np.ndarray) -> pj.Comms:
        """Return the names of threads at the records of a batch."""
        changes = pj.comm_records(ref, 0, ref.size)
        comms = pj.Comms(
            self._before,
            self._latest,
            np.empty(changes, np.int64),
            np.empty(changes, np.int32),
            np.empty(changes, np.uint32),
            np.empty(changes, np.int32),
        )
        i = found = 0
        while changes:
            i, found, problem = pj.learn_comms(
                data, ref, i, self._now, self.table.table, found, comms
            )
            if problem == pj.OK:
                break
            self.table.grow()
        name = comms.name[:found]
        name[name > 0] = self.table.codes()[name[name > 0] - 1] + 1
        return comms._replace(
            since=comms.since[:found],
            tid=comms.tid[:found],
            name=name,
            earlier=comms.earlier[:found],
        )
