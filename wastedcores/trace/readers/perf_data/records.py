"""Where the records of ``perf.data`` are, in order of time; and what they tell of threads' names."""

from __future__ import annotations

import numpy as np

from wastedcores.limits import PID_MAX_LIMIT
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.order_jit import sort_runs
from wastedcores.trace.readers.support.columns import arrays
from wastedcores.trace.readers.support.crew import Crew, Job
from wastedcores.trace.readers.support.memory import sparse
from wastedcores.trace.readers.support.vocabulary import NameTable


class _Room:
    """Memory for records, and who still looks at what is no longer needed here."""

    def __init__(self, size: int) -> None:
        self.size = size
        flat, spare, self.bounds = arrays(
            [(np.int64, 2 * size), (np.int64, 2 * size), (np.int64, size + 1)]
        )
        self.all, self.spare = flat.reshape(2, size), spare.reshape(2, size)
        self.readers: list[Job] = []


class Records:
    """When records are, and where: those in order that may come before later ones, then the new ones."""

    def __init__(self) -> None:
        self._room, self._other = _Room(0), _Room(0)
        self._first = self._last = 0
        self._sorted_until = -1
        self.clock = np.full(3, -1, np.int64)

    @property
    def ts(self) -> np.ndarray:
        """Times of the records there are, and of the room after them."""
        return self._room.all[0, self._first :]

    @property
    def ref(self) -> np.ndarray:
        """As ``ts``: where they are."""
        return self._room.all[1, self._first :]

    @property
    def n(self) -> int:
        """How many there are."""
        return self._last - self._first

    def room(self, more: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Times and places with room for exactly ``more`` records, and how many are to stay before them."""
        n = self.n
        if self._last + more > self._room.size:
            self._move(n, more)
        limit = self._last + more
        return self._room.all[0, :limit], self._room.all[1, :limit], self._last

    def _move(self, n: int, more: int) -> None:
        fresh, old = self._other, self._room
        if 2 * (n + more) > fresh.size:
            fresh = _Room(4 * (n + more))
        Crew.finish(fresh.readers)
        fresh.readers = []
        fresh.all[:, :n] = old.all[:, self._first : self._last]
        self._room, self._other, self._first, self._last = fresh, old, 0, n

    def looked_at(self, reader: Job) -> None:
        """Somebody looks at records that will be dropped, as long as this runs."""
        self._room.readers.append(reader)

    def found(self, last: int) -> None:
        """Up to here there are records now, in what :meth:`room` gave."""
        self._last = last

    def ready(self, safe: int, all_: bool) -> int:
        """How many, from the first on, nothing to come is older than; they are in order if that is not none.

        ``safe`` is what the clock said when the last of them was found.
        """
        if not all_ and safe <= self._sorted_until:
            return 0
        self._sorted_until = safe
        sort_runs(self.ts, self.ref, self.n, self._room.bounds, self._room.spare)
        return self.n if all_ else int(self.ts[: self.n].searchsorted(safe, side="right"))

    def drop(self, n: int) -> None:
        """The first ``n`` are done."""
        self._first += n


class ThreadNames:
    """What threads are called by the records that tell it."""

    def __init__(self, table: NameTable) -> None:
        self.table = table
        self.now, self._before, self._latest = arrays(
            [
                (np.uint32, PID_MAX_LIMIT + 1),
                (np.uint32, PID_MAX_LIMIT + 1),
                (np.int32, PID_MAX_LIMIT + 1),
            ],
            sparse,
        )
        swapper = table.number(b"swapper")
        self.now[0] = swapper + 1
        self._before[0] = table.numbers()[swapper] + 1

    def learn(self, data: np.ndarray, ref: np.ndarray) -> pj.Comms:
        """What threads are called at these records, a batch."""
        n = ref.size
        changes = pj.comm_records(ref, 0, n)
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
                data, ref, i, n, self.now, self.table.table, found, comms
            )
            if not problem:
                return self._settled(comms, found)
            self.table.grow()
        return comms

    def _settled(self, comms: pj.Comms, found: int) -> pj.Comms:
        """The changes with polars' numbers."""
        name = comms.name[:found]
        told = name > 0
        name[told] = self.table.numbers()[name[told] - 1] + 1
        return comms._replace(
            since=comms.since[:found],
            tid=comms.tid[:found],
            name=name,
            earlier=comms.earlier[:found],
        )
