"""The changes of a trace's runqueues as a stream, whose memory does not grow with the number of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.limits import EVENTS_KEPT_BY_CHECK, KEPT_CHANGES
from wastedcores.runqueues import cpu_row, start_jit, task_row, tasks_jit
from wastedcores.runqueues import state as st
from wastedcores.runqueues.affinity import (
    Affinity,
    moves_unseen,
    not_exec,
    once,
    outdated,
    repinned,
)
from wastedcores.runqueues.batch import Batch, batch_of
from wastedcores.runqueues.doubts import (
    NO_DOUBTS,
    REASONS,
    doubt_table,
    header_doubts,
    limited,
    widened,
)
from wastedcores.runqueues.events import events, require_inside, require_times, tables
from wastedcores.runqueues.facts import offline_spans
from wastedcores.runqueues.late_jit import delayed
from wastedcores.runqueues.task_rows import TaskRows
from wastedcores.trace.formats import late_moves
from wastedcores.trace.trace import BATCH_ROWS, Trace

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
Part = TypeVar("Part")

#: by the code of an event: True if such an event is always recorded on the CPU that it names
_ON_ITS_CPU = np.ones(14, np.bool_)
_ON_ITS_CPU[
    [st.WAKEUP, st.WAKEUP_NEW, st.MIGRATE, st.AFFINITY, st.FORGET, st.HOTPLUG, st.UNTHROTTLE]
] = False

#: one event can cause about this many doubts
_DOUBTS_OF_ONE = 16


@dataclass
class Runqueues:
    """The source of a trace's runqueues, and the stream of their changes."""

    trace: Trace
    #: ``tasks`` (task events say who waits) or ``nr_running`` (only the lengths are known)
    source: str
    cpus: int  #: CPU numbers are below this
    tasks: TaskRows  #: the row of each task in all tables about tasks
    #: times of the first and last event
    start_ns: int
    end_ns: int
    #: online CPUs on which nothing happened and to which nothing was sent, if the trace records every switch; known after
    #: streaming. A CPU from which a sleeping task was moved away can still be silent.
    silent_cpus: list[int]
    silent: str  #: ``idle`` or ``unknown``: the assumed state of the silent CPUs
    affinity: Affinity  #: the CPUs on which each task may run
    #: (start_ns, end_ns, cpu) in which events of ``cpu`` (-1: some CPU) were lost
    lost_spans: list[tuple[int, int, int]]
    #: keep the events and the changes in memory once they were streamed, unless they are too many (limits.py)
    keep: bool = False
    #: the trace has the kernel's nr_running: it is the length of the runqueues, whatever the tasks say
    counted: bool = False
    is_strict: bool = False  #: a thread counts as waiting only if something says where it may run
    #: threads that were preempted before the part of the trace in which no ring buffer overwrote events, and that have no event
    #: in that part; an overwritten event may have ended their wait
    preempted: list[int] = field(default_factory=list)
    #: how many other threads were preempted before that time and may have waited somewhere since
    left: int = 0
    #: if nothing tells how many CPUs there were: the trace as if there had been one more CPU, which was idle
    another_cpu: Trace | None = None
    #: how many threads were runnable at a snapshot or are counted in ``left``, and have no event, so that they may have waited
    #: all the time; known after pass 1
    hidden: int = 0
    #: CPUs of which only the waiting threads are of interest; such a CPU is called unknown while no thread waits there
    isolated: list[int] = field(default_factory=list)
    late_ns: int = 0  #: a woken thread joins a queue only this much later, see late_jit.py
    #: number of events that contradict the state before them, counted while streaming
    oddities: dict[str, int] = field(default_factory=dict)
    #: sentences that a reader of the verdict should know
    notes: list[str] = field(default_factory=list)
    #: spans in which the rebuilt state may be wrong: cpu (-1: all), start_ns, end_ns, reason. Before streaming, only the spans
    #: that follow from the header.
    doubts: pl.DataFrame = field(default_factory=lambda: NO_DOUBTS)
    #: (tasks,) whether a task ran, what says which CPUs it may use (a grade of :mod:`wastedcores.runqueues.task_row`), and its
    #: mask id at the end; known after streaming
    ran: NDArray[np.bool_] | None = None
    evidence: NDArray[np.int32] | None = None
    mask_of_task: NDArray[np.int32] | None = None
    _kept: list[Batch] = field(default_factory=list, init=False, repr=False)
    _kept_events: list[st.Events] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Begin with the doubts that follow from the header."""
        self.doubts = self._header_doubts()

    def _header_doubts(self) -> pl.DataFrame:
        kinds = self.trace.kinds()
        wakeups = "wakeup" in kinds and not self.wakes_at_fork
        return header_doubts(
            self.trace.header,
            self.start_ns,
            self.end_ns,
            wakeups=wakeups or self.counted or self.source != "tasks",
            hidden=self.hidden,
        )

    @property
    def wakes_at_fork(self) -> bool:
        """Whether forks were recorded, but not the wakeups of the new threads, which follow at once."""
        kinds = self.trace.kinds()
        return "fork" in kinds and "wakeup_new" not in kinds

    @property
    def kept(self) -> bool:
        """Whether the changes are in memory already."""
        return bool(self._kept)

    def batches(self, *, waits: bool = False, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Stream the changes."""
        if self._kept:
            yield from self._kept
            return
        stream = (
            self._nr_batches(rows)
            if self.source == "nr_running"
            else self._task_batches(rows, waits or self.keep)
        )
        if self.keep:
            stream = _keeping(stream, self._kept, lambda batch: batch.ts_ns.size, KEPT_CHANGES)
        yield from stream

    def _nr_batches(self, rows: int) -> Iterator[Batch]:
        frame = self.trace.only("nr_running").select("ts_ns", "cpu", "nr_running")
        offline = offline_spans(self.trace, self.start_ns, self.end_ns)
        off = list(offline.iter_rows())
        located = [s for s in self.lost_spans if s[2] >= 0]
        if located or off:
            # a CPU also records the lengths of other CPUs' runqueues when it changes them, so a loss makes the lengths of all
            # runqueues unknown; a length that is recorded just when the loss ends is known
            began, ended = (self._unknown({s[k] for s in located}) for k in (0, 1))
            leaves = offline.lazy().select("cpu", ts_ns="start_ns").pipe(_forgotten)
            frame = pl.concat([ended, frame, began, leaves]).sort("ts_ns", maintain_order=True)
        zero, unknown = np.zeros(0, np.int32), np.zeros(0, np.int8)
        for table in tables(frame, rows, self.trace.header.events):
            n = table.height
            if n > zero.size:
                # these two columns are the same in all batches, so they are made once
                zero, unknown = np.zeros(n, np.int32), np.full(n, -1, np.int8)
            require_times(self.trace.name, table["ts_ns"])
            ts_ns = np.ascontiguousarray(table["ts_ns"].to_numpy())
            cpu, nr = (
                np.ascontiguousarray(table[name].fill_null(-1).to_numpy())
                for name in ("cpu", "nr_running")
            )
            require_inside(self.trace.name, [cpu], self.cpus, "CPU", low=0)
            for c, start_ns, end_ns in off:
                if n and start_ns <= ts_ns[-1] and end_ns > ts_ns[0]:
                    nr = np.where((cpu == c) & (ts_ns >= start_ns) & (ts_ns < end_ns), -1, nr)
            yield Batch(ts_ns, cpu, nr, zero[:n], zero[:n], unknown[:n])

    def _unknown(self, times_ns: set[int]) -> pl.LazyFrame:
        """Return rows that make the lengths of all runqueues unknown from each of these times on."""
        times = pl.LazyFrame({"ts_ns": sorted(times_ns)}, {"ts_ns": pl.Int64})
        cpus = pl.LazyFrame({"cpu": range(self.cpus)}, {"cpu": pl.Int32})
        return times.join(cpus, how="cross").pipe(_forgotten)

    def task_events(self, rows: int = BATCH_ROWS) -> Iterator[st.Events]:
        """Stream the events that say anything about tasks, in order of time."""
        if self._kept_events:
            stream = iter(self._kept_events)
        else:
            stream = events(
                self.tasks.trace, self.affinity.mask_ids, self.cpus, self.tasks.count, rows
            )
        if self.late_ns:
            return delayed(
                stream, self.late_ns, self.start.task[:, task_row.STATE] == task_row.RUNNING
            )
        if self._kept_events or not self.keep:
            return stream
        return _keeping(stream, self._kept_events, lambda e: e.code.size, EVENTS_KEPT_BY_CHECK)

    @cached_property
    def start(self) -> st.State:
        """The state before the first event, inferred in one pass over the trace. Copy it before changing it."""
        header = self.tasks.trace.header
        state = st.new_state(self.tasks.count, self.cpus, self.affinity.masks.shape[0])
        state.task[:, task_row.MASK] = self.affinity.of_task
        state.task[:, task_row.EVIDENCE] = self.affinity.known
        for column, told in zip(
            (task_row.REPINNED, task_row.CHILD_REPINNED), repinned(header), strict=True
        ):
            state.task[[task for task in told if task < self.tasks.count], column] = 1
        for role, tasks in self.affinity.roles.items():
            state.task[tasks, task_row.ROLE] = role
        state.cpu[self.isolated, cpu_row.ISOLATED] = 1
        state.task[self.affinity.recorders, task_row.RECORDER] = 1
        state.task[:, task_row.LIMITED] = limited(self.tasks.trace, self.tasks.count)
        state.numbers[st.PARKS] = not late_moves(header.source_format)
        state.numbers[st.INHERITS] = self.affinity.follows
        state.numbers[st.WAKINGS] = header.wakings
        state.numbers[st.LOOKS_LATE] = header.source_format == "schedtrace"
        seen = np.zeros(self.cpus + 1, np.bool_)  # the last one stands for no CPU
        recorded = seen.copy()  # an event happened on the CPU itself
        masks, outside = self.affinity.of_task.copy(), np.zeros(self.tasks.count, np.bool_)
        for batch in self.task_events(BATCH_ROWS):
            asleep = (batch.code == st.SNAPSHOT) & (batch.aux == task_row.ASLEEP)
            if asleep.any() and state.numbers[st.LISTED_NS] < 0:
                state.numbers[st.LISTED_NS] = batch.ts_ns[asleep][-1]
            start_jit.infer_start(batch, state)
            if not self.affinity.follows:
                outside[self._off_mask(batch, masks)] = True
            seen[batch.cpu] = True
            recorded[batch.cpu[_ON_ITS_CPU[batch.code]]] = True
            recorded[batch.src_cpu[batch.code != st.MIGRATE]] = True
        seen |= recorded
        self.hidden = self._hidden(state) + self.left
        self._doubt_affinity(state, outside)
        start_jit.settle_start(state, self.start_ns)
        self._doubt_waits(state)
        # a task that waited on a CPU proves that the CPU was busy
        seen[:-1] |= state.cpu[:, cpu_row.NR] > 0
        for c, busy in (header.unswitched or {}).items():
            if c < self.cpus and not seen[c]:
                state.cpu[c, cpu_row.CURR] = cpu_row.CURR_SOMEBODY if busy else 0
                state.cpu[c, cpu_row.NR] = busy
                seen[c] = True
        self.silent_cpus = [c for c in self.silent_cpus if not seen[c]]
        if self.silent == "idle":
            state.cpu[self.silent_cpus, cpu_row.CURR] = 0
        elif state.numbers[st.LISTED_NS] < 0 and not header.every_cpu:
            online = header.cpus_online or range(self.cpus)
            if any(not recorded[c] for c in online):
                # a thread that seems to wait since the start may have been woken later, by a CPU that was not recorded
                waits = state.task[:, task_row.STATE] == task_row.WAITING
                state.task[waits, task_row.DOUBTED] = task_row.LOST_MEANWHILE
            # a CPU that may have switched without a record may have run any thread that seems to wait
            taken = [not recorded[c] and state.cpu[c, cpu_row.CURR] < 0 for c in online]
            state.numbers[st.UNRECORDED] = any(taken)
        return state

    def _doubt_waits(self, state: st.State) -> None:
        """Doubt a wait that seems to begin with the trace if its thread may just as well have been woken or born later."""
        kinds, header = self.trace.kinds(), self.tasks.trace.header
        waits = (state.task[:, task_row.STATE] == task_row.WAITING) & (state.began >= 0)
        if "wakeup" in kinds and not {"fork", "wakeup_new"} & set(kinds):
            waits[[t.pid for t in header.tasks or [] if t.pid < waits.size]] = False
        elif "wakeup" in kinds:
            return
        if state.numbers[st.LISTED_NS] < 0:
            state.task[waits, task_row.DOUBTED] = task_row.PERHAPS_ASLEEP

    def _hidden(self, state: st.State) -> int:
        header = self.tasks.trace.header
        told = np.array([t.pid for t in header.tasks or [] if t.runnable], np.int64)
        listed = state.numbers[st.LISTED_NS] >= 0  # a list of all tasks says which of them wait
        if listed or not told.size:
            return 0
        task = state.task[told[told < self.tasks.count]]
        named = (task[:, task_row.STATE] != task_row.UNKNOWN) | (task[:, task_row.MOVED_FROM] >= 0)
        # a thread that runs alone all the time is runnable, and may have an event all the same
        alone = [c for c, busy in (header.unswitched or {}).items() if busy and c < self.cpus]
        running = int((state.cpu[alone, cpu_row.CURR] < 0).sum())
        return max(told.size - int((named | (task[:, task_row.RECORDER] != 0)).sum()) - running, 0)

    def _off_mask(self, batch: st.Events, masks: I32) -> I32:
        """Return the threads that ran where their affinity at the start, or the one inherited from their parent, forbids it."""
        forks = batch.code == st.FORK
        for p, by in zip(batch.pid[forks].tolist(), batch.by_pid[forks].tolist(), strict=True):
            if p > 0 and not self.affinity.known[p]:
                masks[p] = masks[max(by, 0)]
        switch = (batch.code == st.SWITCH) & (batch.pid > 0)
        pid, cpu = batch.pid[switch], batch.cpu[switch].astype(np.uint64)
        bound = masks[pid] > 0
        pid, cpu = pid[bound], cpu[bound]
        words = self.affinity.masks[masks[pid], (cpu >> np.uint64(6)).astype(np.int64)]
        return pid[words >> (cpu & np.uint64(63)) & np.uint64(1) == 0]

    def _doubt_affinity(self, state: st.State, outside: NDArray[np.bool_]) -> None:
        """Discard what snapshots tell of threads that may have got another affinity; some ran ``outside`` of their affinity."""
        trace, affinity = self.tasks.trace, self.affinity
        repinned, forked = (state.task[:, k] for k in (task_row.REPINNED, task_row.CHILD_REPINNED))
        repinned[outside] = np.maximum(repinned[outside], task_row.BY_SOMEBODY)
        forked[state.task[outside, task_row.PARENT]] = 1
        if trace.names.filter(pid=2, comm="kthreadd").height:
            forked[2] = task_row.ALL_REPINNED
        if affinity.follows:
            return
        by_itself = np.flatnonzero(repinned == task_row.BY_ITSELF)
        unexplained = not_exec(trace, affinity, by_itself.tolist())
        if once(trace.header, affinity.follows):
            elsewhere = (outside & (affinity.known > 0)).any()
            self._doubt_snapshot(state, bool(elsewhere or unexplained))
        else:  # a thread that was moved may have got another affinity, and later the old one again
            again = repinned > 0
            again[np.setdiff1d(by_itself, unexplained)] = False
            self._take_back(state, again)

    def _doubt_snapshot(self, state: st.State, elsewhere: bool) -> None:
        """Discard the perhaps outdated facts of the only snapshot; ``elsewhere``: a thread ran where the snapshot forbids it."""
        task, roles, trace = state.task, self.affinity.roles, self.tasks.trace
        stoppers = roles.get(task_row.STOPPER, np.zeros(0, np.int64))
        # without moves in the trace, a stopper that ran may have moved anybody
        unseen = (task[stoppers, task_row.RAN] >= 0).any() and moves_unseen(trace)
        by_another = (task[:, task_row.REPINNED] == task_row.BY_ANOTHER).any()
        everybody = bool(elsewhere or unseen or by_another)
        doubtful = outdated(trace.header, task[:, task_row.REPINNED], everybody=everybody)
        doubtful |= task[:, task_row.REUSED] != 0
        if self._take_back(state, doubtful) and everybody and trace.header.tasks:
            self.notes.append(
                "somebody seems to have changed where threads may run while the trace was recorded, so the snapshot, which was "
                "taken once, is not believed about them"
            )

    @staticmethod
    def _take_back(state: st.State, doubtful: NDArray[np.bool_]) -> bool:
        """Discard the known affinity of these tasks; return whether any was known."""
        back = doubtful & (state.task[:, task_row.EVIDENCE] == task_row.TOLD)
        state.task[back, task_row.EVIDENCE] = task_row.ASSUMED
        state.task[back, task_row.MASK] = task_row.FREE
        return bool(back.any())

    def late(self, late_ns: int) -> Runqueues:
        """Return the same runqueues, on which a woken thread begins to wait this much after its waking."""
        late = replace(self, keep=False, late_ns=late_ns)
        late._kept_events = self._kept_events
        late.start = self.start
        return late

    def strict(self, *, throttling: bool = False) -> Runqueues:
        """Return the same runqueues, on which a thread counts as waiting only if its affinity is known."""
        strict = replace(self, keep=False, is_strict=True)
        strict._kept_events = self._kept_events
        start = deepcopy(self.start)
        if throttling:
            perhaps = start.task[:, task_row.LIMITED] == task_row.PERHAPS
            start.task[perhaps, task_row.LIMITED] = task_row.LIMITED_FOR_SURE
        start.numbers[st.STRICT] = 1
        state, cpu, mask, evidence = start.task[
            :, [task_row.STATE, task_row.CPU, task_row.MASK, task_row.EVIDENCE]
        ].T
        out = (state == task_row.WAITING) & (evidence == task_row.ASSUMED)
        free = out & (mask == task_row.FREE)
        np.subtract.at(start.cpu[:, cpu_row.FREE_WAITING], cpu[free], 1)
        bound = out & (mask > 0)
        np.subtract.at(start.restricted, (cpu[bound], mask[bound]), 1)
        strict.start = start
        return strict

    def _first_batch(self, state: st.State) -> Batch:
        """Return the known runqueues of the first moment as changes."""
        known = state.cpu[:, cpu_row.CURR] != cpu_row.CURR_UNKNOWN
        known[self.silent_cpus] = self.silent == "idle"
        cpus = np.flatnonzero(known).astype(np.int32)
        where, mask = np.nonzero(state.restricted[:, 1:])
        n = where.size
        nr, free = (state.cpu[cpus, column] for column in (cpu_row.NR, cpu_row.FREE_WAITING))
        return Batch(
            np.full(n + cpus.size, self.start_ns, np.int64),
            np.concatenate([where, cpus]).astype(np.int32),
            np.concatenate([np.zeros(n, np.int32), nr]).astype(np.int32),
            np.concatenate([state.restricted[where, mask + 1], free]).astype(np.int32),
            np.concatenate([mask + 1, np.zeros(cpus.size, np.int64)]).astype(np.int32),
            np.full(n + cpus.size, -1, np.int8),
        )

    def _task_batches(self, rows: int, waits: bool) -> Iterator[Batch]:
        state = deepcopy(self.start)
        yield self._first_batch(state)
        out = st.new_output(0, 0, 0)
        doubts: list[pl.DataFrame] = []
        for batch in self.task_events(rows):
            size = batch.code.size
            room = 10 * size + 2 * int(state.cpu[:, cpu_row.WAITING].sum())
            if out.change_ns.size < room or out.doubt.shape[1] < size + _DOUBTS_OF_ONE:
                out = st.new_output(room, size if waits else 0, size + _DOUBTS_OF_ONE)
            tasks_jit.run(batch, state, out)
            doubts.append(doubt_table(out, int(state.numbers[st.N_DOUBTS])))
            yield batch_of(out, state, waits, int(batch.ts_ns[-1]) if size else 0)
        task = state.task[:, task_row.STATE]
        waiting = int((task == task_row.WAITING).sum())
        doubted = state.task[:, task_row.DOUBTED] == task_row.PERHAPS_WAITS
        left = int((((task == task_row.UNKNOWN) & (state.since >= 0)) | doubted).sum())
        out = st.new_output(0, waiting if waits else 0, 4 * waiting + 2 * left + 3 * self.cpus)
        state.numbers[st.N_CHANGES] = 0
        unseen = state.cpu[:, cpu_row.CURR] == cpu_row.CURR_UNKNOWN
        if (unseen & (state.cpu[:, cpu_row.SWITCHES] == 0)).any():
            # whoever waits to the end may have run on a CPU that was not recorded
            state.task[task == task_row.WAITING, task_row.DOUBTED] = task_row.LOST_MEANWHILE
        state.task[self.tasks.rows(np.array(self.preempted, np.int64)), task_row.DOUBTED] = (
            task_row.LOST_MEANWHILE
        )
        tasks_jit.finish(state, out, self.end_ns)
        if state.numbers[st.N_WAITS]:
            yield batch_of(out, state, waits, self.end_ns)
        doubts.append(doubt_table(out, int(state.numbers[st.N_DOUBTS])))
        self._conclude(state, pl.concat(doubts))

    def _conclude(self, state: st.State, doubts: pl.DataFrame) -> None:
        """Keep what is known after streaming."""
        self.oddities = {name: int(n) for name, n in zip(REASONS, state.odd, strict=True) if n}
        switches = state.cpu[:, cpu_row.SWITCHES]
        found = widened(doubts, switches, self.start_ns, self.end_ns)
        self.doubts = pl.concat([self._header_doubts(), found])
        self.ran = state.task[:, task_row.RAN] != -1
        self.evidence = state.task[:, task_row.EVIDENCE].copy()
        self.mask_of_task = state.task[:, task_row.MASK].copy()


def _forgotten(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.select("ts_ns", "cpu", nr_running=pl.lit(-1, pl.Int32))


def _keeping(
    stream: Iterator[Part], kept: list[Part], size: Callable[[Part], int], most: int
) -> Iterator[Part]:
    """Pass a stream on, and keep it in ``kept`` when it has ended, unless its parts together are larger than ``most``."""
    parts: list[Part] | None = []
    total = 0
    for part in stream:
        total += size(part)
        if parts is not None:
            parts.append(part)
        if total > most:  # too many for the memory, so they are streamed anew each time
            parts = None
        yield part
    kept[:] = parts or []
