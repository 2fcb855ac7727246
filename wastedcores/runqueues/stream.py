"""The changes of a trace's runqueues as a stream. Memory depends on the number of tasks and CPUs, not of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import TraceContentError
from wastedcores.runqueues import tasks_jit as tj
from wastedcores.runqueues.affinity import Affinity
from wastedcores.trace.schema import KINDS
from wastedcores.trace.trace import BATCH_ROWS, Trace

#: kind of event -> its code in the compiled state machine
CODES = {
    "switch": tj.SWITCH,
    "wakeup": tj.WAKEUP,
    "wakeup_new": tj.WAKEUP_NEW,
    "migrate": tj.MIGRATE,
    "fork": tj.FORK,
    "exit": tj.EXIT,
    "affinity": tj.AFFINITY,
    "task_state": tj.STATE,
    "lost": tj.FORGET,
    "nr_running": tj.COUNT,
    "cpu_online": tj.HOTPLUG,
    "mark": tj.CONTEXT,
    "exec": tj.CONTEXT,
    "cpu_idle": tj.CONTEXT,  # in the context of the idle task
}
_LUT = np.full(len(KINDS), -1, np.int8)
for _kind, _code in CODES.items():
    _LUT[KINDS.index(_kind)] = _code

#: by reason of :mod:`wastedcores.runqueues.tasks_jit`
REASONS = (
    "wakeup_of_queued",
    "in_without_wakeup",
    "out_without_in",
    "ran_elsewhere",
    "left_unseen",
    "idle_beside_waiting",
    "starved",
    "count_differs",
    "bound_by_name",
)
_NO_DOUBTS = pl.DataFrame(
    schema={"cpu": pl.Int32, "start_ns": pl.Int64, "end_ns": pl.Int64, "reason": pl.String}
)

#: where more than this share of a CPU's switches contradicts the state, nothing between them is believed either: such a
#: trace mixes two recordings, or lost events all along
_OFTEN = 0.05

#: formats that tell of a task's move only when it runs again
_LATE_MOVES = ("kutrace",)

_STATE_WORDS = {"running": tj.T_RUNNING, "waiting": tj.T_WAITING, "sleeping": tj.T_ASLEEP}

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@dataclass
class Batch:
    """Changes of runqueues, ordered by time; all arrays have the shape (changes,).

    Attributes
    ----------
    ts_ns, cpu
        When and where the runqueue changed.
    nr
        Tasks on the runqueue afterwards; -1 is unknown.
    free
        Waiting tasks that may run anywhere; in a row with ``mask`` > 0, waiting tasks of that mask id.
    mask
        0, or a mask id: such a row is about affinity only.
    code
        The event behind the row, one of :mod:`wastedcores.runqueues.tasks_jit`; -1 is unknown.
    waits
        Waits that ended in this batch, if asked for: pid, cpu, start_ns, end_ns. A wait of a thread that is moved to
        another runqueue ends there and a new one begins.
    """

    ts_ns: I64
    cpu: I32
    nr: I32
    free: I32
    mask: I32
    code: NDArray[np.int8]
    waits: pl.DataFrame | None = None

    def runqueues(self) -> tuple[I64, I32, I32]:
        """Return (ts_ns, cpu, nr) of the rows that are about runqueues."""
        return self.with_causes()[:3]

    def with_causes(self) -> tuple[I64, I32, I32, NDArray[np.int8]]:
        """Return (ts_ns, cpu, nr, code) of the rows that are about runqueues."""
        if not self.mask.any():
            return self.ts_ns, self.cpu, self.nr, self.code
        keep = self.mask == 0
        return self.ts_ns[keep], self.cpu[keep], self.nr[keep], self.code[keep]


@dataclass
class Runqueues:
    """The source of a trace's runqueues, and the stream of their changes.

    Attributes
    ----------
    trace
        The trace.
    source
        ``tasks`` (task events say who waits) or ``nr_running`` (only the lengths are known).
    cpus, pids
        CPU numbers and pids are below these.
    start_ns, end_ns
        Times of the first and last event.
    silent_cpus
        Online CPUs without one event.
    silent
        ``idle`` or ``unknown``: the assumed state of the silent CPUs.
    affinity
        The CPUs on which each task may run.
    lost_spans
        (start_ns, end_ns, cpu) in which events of ``cpu`` (-1: some CPU) were lost.
    keep
        Keep the changes in memory once they were streamed.
    counted
        The trace has the kernel's nr_running: it is the length of the runqueues, whatever the tasks say.
    oddities
        Number of events that contradict the state before them, counted while streaming.
    doubts
        Spans in which the rebuilt state may be wrong, known after streaming: cpu (-1: all), start_ns, end_ns, reason.
    ran, moved
        (pids,) whether a task ran, and whether on more than one CPU; known after streaming.
    affinity_known, mask_of_pid
        (pids,) whether a task's affinity is known, and its mask id at the end; known after streaming.
    notes
        Sentences that a reader of the verdict should know.
    """

    trace: Trace
    source: str
    cpus: int
    pids: int
    start_ns: int
    end_ns: int
    silent_cpus: list[int]
    silent: str
    affinity: Affinity
    lost_spans: list[tuple[int, int, int]]
    keep: bool = False
    counted: bool = False
    oddities: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubts: pl.DataFrame = field(default_factory=lambda: _NO_DOUBTS)
    ran: NDArray[np.bool_] | None = None
    affinity_known: NDArray[np.bool_] | None = None
    mask_of_pid: NDArray[np.int32] | None = None
    moved: NDArray[np.bool_] | None = None
    _kept: list[Batch] = field(default_factory=list, init=False, repr=False)

    def batches(self, *, waits: bool = False, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the changes.

        Parameters
        ----------
        waits
            Each batch also has the waits that ended in it (only where the runqueues are rebuilt from tasks).
        rows
            Events that are in memory at a time.

        Yields
        ------
        Batch
            Changes in order of time.
        """
        if self._kept:
            yield from self._kept
            return
        stream = (
            self._nr_batches(rows)
            if self.source == "nr_running"
            else self._task_batches(rows, waits or self.keep)
        )
        if not self.keep:
            yield from stream
            return
        self._kept = list(stream)
        yield from self._kept

    def _nr_batches(self, rows: int) -> Iterator[Batch]:
        forget = pl.DataFrame(
            {
                "ts_ns": [s for s, _, c in self.lost_spans if c >= 0],
                "cpu": [c for _, _, c in self.lost_spans if c >= 0],
            },
            schema={"ts_ns": pl.Int64, "cpu": pl.Int32},
        )
        frame = self.trace.only("nr_running").select("ts_ns", "cpu", "nr_running")
        if forget.height:
            gaps = forget.lazy().with_columns(nr_running=pl.lit(-1, pl.Int32))
            frame = pl.concat([frame, gaps]).sort("ts_ns", maintain_order=True)
        for table in frame.collect_batches(chunk_size=rows, maintain_order=True):
            n = table.height
            zero = np.zeros(n, np.int32)
            cpu = table["cpu"].fill_null(-1).to_numpy().astype(np.int32)
            _inside(self.trace.name, [cpu], self.cpus, "CPU", low=0)
            yield Batch(
                table["ts_ns"].to_numpy().astype(np.int64),
                cpu,
                table["nr_running"].to_numpy().astype(np.int32),
                zero,
                zero,
                np.full(n, -1, np.int8),
            )

    def _events(self, rows: int) -> Iterator[dict[str, NDArray]]:
        state_code = (
            pl.col("prev_state")
            .cast(pl.String)
            .replace_strict(_STATE_WORDS, default=0, return_dtype=pl.Int32)
        )
        stays = pl.col("prev_state").cast(pl.String)
        stays = (stays.str.starts_with("R") | stays.str.ends_with("+")).cast(pl.Int32)
        frame = self.trace.only(*CODES).select(
            "ts_ns",
            kind=pl.col("kind").to_physical().cast(pl.Int32),
            cpu=pl.col("cpu").fill_null(-1),
            src_cpu=pl.col("src_cpu").fill_null(-1),
            pid=pl.col("pid").fill_null(-1),
            prev_pid=pl.col("prev_pid").fill_null(-1),
            by_pid=pl.col("by_pid").fill_null(-1),
            aux=pl.when(pl.col("kind") == "switch")
            .then(stays)
            .when(pl.col("kind") == "task_state")
            .then(state_code)
            .when(pl.col("kind") == "nr_running")
            .then(pl.col("nr_running"))
            .when(pl.col("kind") == "cpu_online")
            .then(pl.col("value").cast(pl.Int32))
            .when(pl.col("kind") == "affinity")
            .then(
                pl.col("cpu_mask").replace_strict(
                    self.affinity.mask_ids, default=0, return_dtype=pl.Int32
                )
                if self.affinity.mask_ids
                else pl.lit(0, pl.Int32)
            )
            .otherwise(0),
        )
        for table in frame.collect_batches(chunk_size=rows, maintain_order=True):
            arrays = {
                c: table[c].to_numpy().astype(np.int32) for c in table.columns if c != "ts_ns"
            }
            arrays["ts_ns"] = table["ts_ns"].to_numpy().astype(np.int64)
            kind = arrays.pop("kind")
            arrays["code"] = _LUT[kind]
            fork = arrays["code"] == tj.FORK
            # a child inherits its parent's affinity; that it still has it is known only if changes are events
            parent = arrays["by_pid"] if self.affinity.follows else -1
            arrays["src_cpu"] = np.where(fork, parent, arrays["src_cpu"]).astype(np.int32)
            context = (arrays["code"] == tj.CONTEXT) | (arrays["code"] == tj.EXIT)
            arrays["by_pid"] = np.where(context, arrays["pid"], arrays["by_pid"]).astype(np.int32)
            arrays["by_pid"][kind == KINDS.index("cpu_idle")] = 0
            lost_somewhere = (arrays["code"] == tj.FORGET) & (arrays["cpu"] < 0)
            if lost_somewhere.any():
                arrays = {k: v[~lost_somewhere] for k, v in arrays.items()}
            moves = np.isin(
                arrays["code"],
                (tj.SWITCH, tj.WAKEUP, tj.WAKEUP_NEW, tj.MIGRATE, tj.STATE, tj.COUNT, tj.HOTPLUG),
            )
            if (arrays["cpu"][moves] < 0).any():
                raise TraceContentError(
                    f"{self.trace.name}: an event that changes a runqueue names no CPU; the file is damaged."
                )
            src_cpu = arrays["src_cpu"][arrays["code"] != tj.FORK]
            _inside(self.trace.name, [arrays["cpu"], src_cpu], self.cpus, "CPU")
            pids = [arrays[p] for p in ("pid", "prev_pid", "by_pid")]
            _inside(self.trace.name, pids, self.pids, "pid")
            yield arrays

    @cached_property
    def start(self) -> tj.TaskState:
        """The state before the first event, inferred in one pass over the trace. Copy it before changing it."""
        state = tj.new_state(self.pids, self.cpus, self.affinity.masks.shape[0])
        state.mask[:] = self.affinity.of_pid
        state.known[:] = self.affinity.known
        state.parks[0] = self.trace.header.source_format not in _LATE_MOVES
        header = self.trace.header
        no_limits = header.quotas == {} and "quotas" not in header.changed
        state.starved_ns[0] = 0 if no_limits else tj.STARVED_NS
        moved_from = np.full(self.pids, -1, np.int32)
        for a in self._events(BATCH_ROWS):
            tj.infer_start(
                a["code"],
                a["cpu"],
                a["src_cpu"],
                a["pid"],
                a["prev_pid"],
                a["by_pid"],
                state,
                moved_from,
            )
        tj.settle_start(state, moved_from, self.start_ns)
        # a task that waited there proves that a silent CPU was busy
        self.silent_cpus = [c for c in self.silent_cpus if state.nr[c] == 0]
        if self.silent == "idle":
            state.cur[self.silent_cpus] = 0
        return state

    def _first_batch(self, state: tj.TaskState) -> Batch:
        """Return the known runqueues of the first moment as changes."""
        known = state.cur != tj.CUR_UNKNOWN
        known[self.silent_cpus] = self.silent == "idle"
        cpus = np.flatnonzero(known).astype(np.int32)
        where, mask = np.nonzero(state.restricted[:, 1:])
        n = where.size
        return Batch(
            np.full(n + cpus.size, self.start_ns, np.int64),
            np.concatenate([where, cpus]).astype(np.int32),
            np.concatenate([np.zeros(n, np.int32), state.nr[cpus]]).astype(np.int32),
            np.concatenate([state.restricted[where, mask + 1], state.free[cpus]]).astype(np.int32),
            np.concatenate([mask + 1, np.zeros(cpus.size, np.int64)]).astype(np.int32),
            np.full(n + cpus.size, -1, np.int8),
        )

    def _task_batches(self, rows: int, waits: bool) -> Iterator[Batch]:
        state = deepcopy(self.start)
        yield self._first_batch(state)
        out = _change_room(1)
        done = wait_room(1 if waits else 0)
        doubtful = tj.new_doubts(1)
        doubts: list[pl.DataFrame] = []
        for a in self._events(rows):
            size = a["code"].size
            room = 10 * size + 2 * int(state.waiting.sum())
            if out.ts_ns.size < room:
                out = _change_room(room)
                done = wait_room(size if waits else 0)
                doubtful = tj.new_doubts(size)
            n, w = tj.run(
                a["code"],
                a["ts_ns"],
                a["cpu"],
                a["src_cpu"],
                a["pid"],
                a["prev_pid"],
                a["aux"],
                state,
                out,
                done,
                doubtful,
            )
            doubts.append(_doubt_table(doubtful))
            yield Batch(
                out.ts_ns[:n].copy(),
                out.cpu[:n].copy(),
                out.nr[:n].copy(),
                out.free[:n].copy(),
                out.mask[:n].copy(),
                out.code[:n].copy(),
                wait_table(done, w) if waits else None,
            )
        done = wait_room(int((state.state == tj.T_WAITING).sum()) if waits else 0)
        doubtful = tj.new_doubts(self.pids + self.cpus)
        w = tj.finish(state, self.end_ns, done, doubtful)
        if w:
            none = np.zeros(0, np.int32)
            yield Batch(
                np.zeros(0, np.int64),
                none,
                none,
                none,
                none,
                none.astype(np.int8),
                waits=wait_table(done, w),
            )
        self.oddities = {name: int(n) for name, n in zip(REASONS, state.odd, strict=True) if n}
        self.doubts = _widened(pl.concat([*doubts, _doubt_table(doubtful)]), state.switches)
        self.ran = state.ran != -1
        self.affinity_known = state.known == 1
        self.mask_of_pid = state.mask
        self.moved = state.ran == tj.SEVERAL


def _widened(doubts: pl.DataFrame, switches: NDArray[np.int64]) -> pl.DataFrame:
    """Add a doubt about all the time between the first and the last contradiction of a CPU that has many of them."""
    by_cpu = doubts.filter(pl.col("reason").is_in(REASONS[: tj.ODD_PARKED]), pl.col("cpu") >= 0)
    many = (
        by_cpu.group_by("cpu")
        .agg(pl.len(), pl.col("start_ns").min(), pl.col("end_ns").max())
        .filter(pl.col("len") >= 10)
        .sort("cpu")
    )
    often = many["len"].to_numpy() > _OFTEN * switches[many["cpu"].to_numpy()]
    return pl.concat(
        [
            doubts,
            many.filter(often).select(
                "cpu", "start_ns", "end_ns", reason=pl.lit("contradicted_often")
            ),
        ]
    )


def _doubt_table(d: tj.Doubts) -> pl.DataFrame:
    n = int(d.n[0])
    reasons = pl.Series([REASONS[r] for r in d.reason[:n]], dtype=pl.String)
    return pl.DataFrame(
        {
            "cpu": d.cpu[:n].copy(),
            "start_ns": d.start_ns[:n].copy(),
            "end_ns": d.end_ns[:n].copy(),
            "reason": reasons,
        },
        schema=_NO_DOUBTS.schema,
    )


def _change_room(n: int) -> tj.Changes:
    small = [np.zeros(n, np.int32) for _ in range(4)]
    return tj.Changes(
        np.zeros(n, np.int64), small[0], small[1], small[2], small[3], np.zeros(n, np.int8)
    )


def wait_room(n: int) -> tj.Waits:
    """Return empty arrays for ``n`` finished waits."""
    return tj.Waits(
        np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int64), np.zeros(n, np.int64)
    )


def wait_table(waits: tj.Waits, n: int) -> pl.DataFrame:
    """Return the first finished waits as a table.

    Parameters
    ----------
    waits
        Arrays that the compiled state machine filled.
    n
        How many of them are valid.

    Returns
    -------
    polars.DataFrame
        Columns pid, cpu, start_ns, end_ns.
    """
    return pl.DataFrame(
        {name: getattr(waits, name)[:n].copy() for name in ("pid", "cpu", "start_ns", "end_ns")}
    )


def _inside(
    name: str, arrays: Iterable[NDArray[np.int32]], limit: int, what: str, low: int = -1
) -> None:
    """Refuse CPUs or pids outside of the announced range, because compiled code does not check its indices."""
    for a in arrays:
        if a.size and (int(a.min()) < low or int(a.max()) >= limit):
            bad = int(a.max()) if int(a.max()) >= limit else int(a.min())
            raise TraceContentError(
                f"{name}: {what} {bad} is outside of the range that the header announces (below {limit}); the file is damaged."
            )
