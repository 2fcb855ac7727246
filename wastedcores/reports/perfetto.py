"""Writes traces for the Perfetto UI: who ran where, threads per runqueue as counters, and tracks of episodes, of waits beside an
idle CPU, and of the balancer's decisions, with debug annotations.

Switches and wakeups are written as ``compact_sched`` bundles, that is, as columns of packed numbers instead of one
message per event (protos/perfetto/trace/ftrace/ftrace_event_bundle.proto). This module uses only the generated message
classes of the ``perfetto`` package, because the trace processor in that package downloads a program. A file with a single trace
also carries the recording itself (:mod:`wastedcores.trace.carried`), so that it can be checked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import perfetto.protos.perfetto.trace.perfetto_trace_pb2 as pb
import polars as pl
from numpy.typing import NDArray

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import WastedCoresError
from wastedcores.files import written_whole
from wastedcores.limits import PID_MAX_LIMIT
from wastedcores.runqueues.runqueues import Runqueues, comms
from wastedcores.runqueues.waits import waits
from wastedcores.trace.carried import packets, two_runs

if TYPE_CHECKING:
    from wastedcores.analysis.alignment import Pair
    from wastedcores.invariant import CheckResult

#: A question -> the query that answers it. The tables are those of Perfetto's PerfettoSQL prelude (slice, track, counter, args).
RECIPES = {
    "The ten episodes that wasted most CPU time": """\
SELECT slice.ts, slice.dur, slice.name, EXTRACT_ARG(slice.arg_set_id, 'debug.wasted_ns') AS wasted_ns
FROM slice JOIN track ON slice.track_id = track.id
WHERE track.name = 'idle CPUs while threads wait'
ORDER BY wasted_ns DESC LIMIT 10;
""",
    "The threads that waited longest beside an idle CPU": """\
SELECT EXTRACT_ARG(slice.arg_set_id, 'debug.comm') AS comm, EXTRACT_ARG(slice.arg_set_id, 'debug.pid') AS pid,
  COUNT(*) AS waits, SUM(slice.dur) AS waited_ns, SUM(EXTRACT_ARG(slice.arg_set_id, 'debug.beside_idle_ns')) AS beside_idle_ns
FROM slice JOIN track ON slice.track_id = track.id
WHERE track.name = 'waits beside an idle CPU'
GROUP BY comm, pid ORDER BY beside_idle_ns DESC LIMIT 20;
""",
    "What the balancer answered, if its decisions were recorded": """\
SELECT EXTRACT_ARG(slice.arg_set_id, 'debug.result') AS result, EXTRACT_ARG(slice.arg_set_id, 'debug.level') AS level,
  COUNT(*) AS calls, SUM(EXTRACT_ARG(slice.arg_set_id, 'debug.moved')) AS moved
FROM slice JOIN track ON slice.track_id = track.id
WHERE track.name = 'decisions of the balancer'
GROUP BY result, level ORDER BY calls DESC;
""",
    "The mean number of threads on each runqueue": """\
SELECT name, SUM(value * dur) / SUM(dur) AS threads FROM (
  SELECT track.name AS name, counter.value AS value,
    LEAD(counter.ts) OVER (PARTITION BY counter.track_id ORDER BY counter.ts, counter.id) - counter.ts AS dur
  FROM counter JOIN track ON counter.track_id = track.id
  WHERE track.name LIKE 'threads on the runqueue of CPU %')
WHERE dur IS NOT NULL AND value >= 0 GROUP BY name ORDER BY threads DESC;
""",
    "Two runs in one file: the CPU time that each of them wasted": """\
SELECT run.name AS run, COUNT(*) AS episodes, SUM(EXTRACT_ARG(slice.arg_set_id, 'debug.wasted_ns')) AS wasted_ns
FROM slice JOIN track ON slice.track_id = track.id JOIN track AS run ON track.parent_id = run.id
WHERE track.name = 'idle CPUs while threads wait'
GROUP BY run.name ORDER BY run.name;
""",
}


def recipes() -> str:
    """Return a file of all queries, for ``trace_processor_shell -q``."""
    return "\n".join(f"-- {title}\n{query}" for title, query in RECIPES.items())


I64 = NDArray[np.int64]

#: the sequence number of all packets, which may be any number but 0
_SEQUENCE = 1
#: numbers of tracks: episodes, the parent of waits, decisions, the run itself, counters of CPUs, waits of threads
_VIOLATIONS, _WAITS, _DECISIONS, _RUN, _FIRST_COUNTER, _FIRST_THREAD = 1, 2, 3, 4, 1000, 1 << 32
#: names of tracks, which the recipes in docs/how-to/perfetto-sql.md use
EPISODES, WAITS, DECISIONS = (
    "idle CPUs while threads wait",
    "waits beside an idle CPU",
    "decisions of the balancer",
)
#: this many messages are built at a time; they take about 30 MB
_MESSAGES = 100_000
#: stands for the length of a runqueue for which no value was written yet; an unknown length is -1
_NOTHING = -2
#: letter of prev_state -> its bit (include/trace/events/sched.h since 4.14)
_STATES = {"S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "x": 16, "Z": 32, "P": 64, "I": 128}
_PREEMPTED = 256

_COLUMNS = ("ts_ns", "kind", "cpu", "src_cpu", "pid", "prio", "comm", "prev_state")


@dataclass(frozen=True)
class _Run:
    """A trace to write. A second run numbers its CPUs, threads and tracks differently, so that the UI shows both side by side."""

    runqueues: Runqueues
    result: CheckResult | None
    label: str = ""
    shift_ns: int = 0
    first_cpu: int = 0
    second: bool = False

    def track(self, number: int) -> int:
        return number + (self.second << 40)

    def pid(self, name: str) -> pl.Expr:
        """The number of a thread; it is 0 for the idle threads of both runs."""
        pid = pl.col(name).fill_null(0)
        return pl.when(pid > 0).then(pid + PID_MAX_LIMIT * self.second).otherwise(0)


def export_perfetto(runqueues: Runqueues, path: Path, result: CheckResult | None = None) -> Path:
    """Write a trace that both https://ui.perfetto.dev and wastedcores open."""
    carrying = packets(runqueues.trace)
    return _written(path, [_Run(runqueues, result)], carrying)


def export_pair(pair: Pair, path: Path) -> Path:
    """Write two recordings on one time axis: the CPUs of the second one are numbered after the CPUs of the first one."""
    first, second = pair.runs
    shift = pair.zeros[0] - pair.zeros[1]
    # Perfetto has no times before 0
    later = max(0, -min(first.runqueues.start_ns, second.runqueues.start_ns + shift))
    cpus = first.runqueues.cpus
    labels = [f"{letter}: {run.label}" for letter, run in zip("AB", (first, second), strict=True)]
    runs = [
        _Run(first.runqueues, first.result, labels[0], later),
        _Run(second.runqueues, second.result, labels[1], later + shift, cpus, second=True),
    ]
    return _written(path, runs, [two_runs((first.label, second.label))])


def _written(path: Path, runs: Sequence[_Run], carried: Iterator[bytes] | list[bytes]) -> Path:
    path = Path(path)
    try:
        with written_whole(path) as part, part.open("wb") as out:
            out.write(_system(runs).SerializeToString())
            out.writelines(carried)
            for run in runs:
                out.writelines(piece.SerializeToString() for piece in _pieces(run))
    except OSError as e:
        raise WastedCoresError(
            f"{path}: cannot write there ({e.strerror or e}); nothing was left behind. Is the disk full? Or choose "
            "another place with -o."
        ) from e
    return path


def _system(runs: Sequence[_Run]) -> pb.Trace:
    trace = pb.Trace()
    packet = trace.packet.add()
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.system_info.utsname.sysname = "Linux"
    packet.system_info.utsname.release = runs[0].runqueues.trace.header.kernel_release or ""
    packet.sequence_flags = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    return trace


def _pieces(run: _Run) -> Iterator[pb.Trace]:
    for batch in run.runqueues.trace.batches(_COLUMNS, "switch", "wakeup", "wakeup_new"):
        yield _bundles(run, batch)
    yield _tracks(run)
    last = np.full(run.runqueues.cpus, _NOTHING, np.int32)
    for change in run.runqueues.batches():
        ts, cpus, nr = change.runqueues()
        last[cpus] = nr
        for at in range(0, len(ts), _MESSAGES):
            part = slice(at, at + _MESSAGES)
            yield _counters(run, ts[part], cpus[part], nr[part])
    told = np.flatnonzero(last != _NOTHING).astype(np.int32)
    # the UI draws each value of a counter until the next value, so the last one is written again at the end
    yield _counters(run, np.full(told.size, run.runqueues.end_ns, np.int64), told, last[told])
    if run.result is not None:
        yield from _episodes(run, run.result)
        yield from _waits(run, run.result)
    yield from _decisions(run)


def _bundles(run: _Run, batch: pl.DataFrame) -> pb.Trace:
    """Return one FtraceEventBundle per CPU; an event belongs to the CPU on which it happened."""
    where = (
        pl.when(pl.col("kind") == "switch")
        .then("cpu")
        .otherwise(pl.col("src_cpu").fill_null(pl.col("cpu")))
    )
    trace = pb.Trace()
    for (cpu,), group in batch.with_columns(where=where).group_by("where", maintain_order=True):
        if cpu is None:
            continue
        comms = group["comm"].cast(pl.String).fill_null("")
        strings = comms.unique(maintain_order=True)
        index = comms.replace_strict(
            strings, pl.int_range(len(strings), eager=True), return_dtype=pl.Int64
        )
        events = group.with_columns(
            pl.col("ts_ns") + run.shift_ns,
            index=index,
            pid=run.pid("pid"),
            prio=pl.col("prio").fill_null(120),
        )
        bundle = trace.packet.add().ftrace_events
        bundle.cpu = int(str(cpu)) + run.first_cpu
        compact = bundle.compact_sched
        compact.intern_table.extend(strings)
        switch = events.filter(pl.col("kind") == "switch")
        compact.switch_timestamp.extend(_deltas(switch))
        compact.switch_prev_state.extend(_states(switch["prev_state"]))
        compact.switch_next_pid.extend(switch["pid"])
        compact.switch_next_prio.extend(switch["prio"])
        compact.switch_next_comm_index.extend(switch["index"])
        wake = events.filter(pl.col("kind") != "switch")
        compact.waking_timestamp.extend(_deltas(wake))
        compact.waking_pid.extend(wake["pid"])
        compact.waking_target_cpu.extend(wake["cpu"] + run.first_cpu)
        compact.waking_prio.extend(wake["prio"])
        compact.waking_comm_index.extend(wake["index"])
        compact.waking_common_flags.extend([0] * wake.height)
    return trace


def _deltas(events: pl.DataFrame) -> list[int]:
    """Return the timestamps in the form of compact_sched: the first timestamp, then differences from one to the next."""
    deltas: list[int] = np.diff(events["ts_ns"].to_numpy(), prepend=0).tolist()
    return deltas


def _states(column: pl.Series) -> pl.Series:
    text = column.cast(pl.String).fill_null("R")
    names = text.unique()
    bits = [
        sum(_STATES.get(letter, 0) for letter in name.replace("+", "").split("|"))
        | (_PREEMPTED if "+" in name else 0)
        for name in names
    ]
    return text.replace_strict(names, bits, return_dtype=pl.Int64)


def _tracks(run: _Run) -> pb.Trace:
    """Return the descriptors of the tracks; if there are two runs, the tracks of each run have the run as their parent."""
    trace = pb.Trace()
    if run.label:
        _track(trace, run, _RUN, run.label)
    for cpu in range(run.runqueues.cpus):
        name = f"threads on the runqueue of CPU {run.first_cpu + cpu}"
        _track(trace, run, _FIRST_COUNTER + cpu, name).counter.SetInParent()
    if run.result is not None:
        _track(trace, run, _VIOLATIONS, EPISODES)
        _track(trace, run, _WAITS, WAITS)
    return trace


def _counters(run: _Run, ts: I64, cpu: NDArray[np.int32], value: NDArray[np.int32]) -> pb.Trace:
    """Return one TrackEvent of type COUNTER per row. A counter keeps its value, so -1 must be written where it is unknown."""
    trace = pb.Trace()
    for t, c, n in zip(ts.tolist(), cpu.tolist(), value.tolist(), strict=True):
        event = _event(trace, run, t, pb.TrackEvent.TYPE_COUNTER, _FIRST_COUNTER + c)
        event.counter_value = n
    return trace


def _episodes(run: _Run, result: CheckResult) -> Iterator[pb.Trace]:
    for table in result.episodes.iter_slices(_MESSAGES):
        trace = pb.Trace()
        for row in table.iter_rows(named=True):
            idle, busy = (
                format_cpulist([run.first_cpu + cpu for cpu in row[column]])
                for column in ("idle_cpus", "overloaded_cpus")
            )
            name = f"{'PERSISTENT: ' if row['persistent'] else ''}idle {idle} beside {busy}"
            about = {
                "wasted_ns": row["wasted_ns"],
                "idle_cpus": idle,
                "overloaded_cpus": busy,
                "persistent": row["persistent"],
                "certain": row["certain"],
            }
            _slice(trace, run, row, _VIOLATIONS, name, about)
        yield trace


def _waits(run: _Run, result: CheckResult) -> Iterator[pb.Trace]:
    """Yield a track of each thread that waited while some CPU was idle; the UI shows tracks with the same name as one."""
    table = waits(run.runqueues, result.start_ns, result.end_ns, result.counted_cpus)
    starts, ends = (result.episodes[c].to_numpy() for c in ("start_ns", "end_ns"))
    if not table.height or not starts.size:
        return
    # episodes do not overlap, so the sum of those before a moment is the time until then in which some CPU was idle beside a
    # waiting thread
    lengths = np.r_[0, np.cumsum(ends - starts)]

    def idle_before(moment: I64) -> I64:
        n = np.searchsorted(starts, moment, side="right")
        over = np.where(n > 0, np.maximum(ends[n - 1] - moment, 0), 0)
        before: I64 = lengths[n] - over
        return before

    begin, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    table = table.with_columns(
        pl.Series("beside_idle_ns", idle_before(end) - idle_before(begin))
    ).filter(pl.col("beside_idle_ns") > 0)
    named = table.join(comms(run.runqueues.trace), on="pid", how="left", maintain_order="left")
    named = named.with_columns(pl.col("cpu") + run.first_cpu, pid=run.pid("pid"))
    known: set[int] = set()
    for part in named.iter_slices(_MESSAGES):
        trace = pb.Trace()
        for row in part.iter_rows(named=True):
            track = _FIRST_THREAD + row["pid"]
            if track not in known:
                known.add(track)
                _track(trace, run, track, WAITS, _WAITS)
            comm = row["comm"] or "?"
            about = {
                "pid": row["pid"],
                "comm": comm,
                "cpu": row["cpu"],
                "waited_ns": row["end_ns"] - row["start_ns"],
                "beside_idle_ns": row["beside_idle_ns"],
            }
            _slice(trace, run, row, track, f"{comm} {row['pid']}", about)
        yield trace


def _decisions(run: _Run) -> Iterator[pb.Trace]:
    if "decision" not in run.runqueues.trace.kinds():
        return
    from wastedcores.analysis.decisions import RESULTS, decisions

    found = decisions(run.runqueues.trace)
    found = found.with_columns(pl.col("cpu", "src_cpu") + run.first_cpu)
    for number, table in enumerate(found.iter_slices(_MESSAGES)):
        trace = pb.Trace()
        if not number:
            _track(trace, run, _DECISIONS, DECISIONS)
        for row in table.iter_rows(named=True):
            event = _event(trace, run, row["ts_ns"], pb.TrackEvent.TYPE_INSTANT, _DECISIONS)
            event.name = f"CPU {row['cpu']}: {row['result']}"
            about = {name: row[name] for name in _ABOUT_DECISIONS if row.get(name) is not None}
            about["said"] = RESULTS.get(row["result"], row["result"])
            _annotate(event, about)
        yield trace


#: the annotations of a decision (docs/events.md)
_ABOUT_DECISIONS = (
    "cpu", "src_cpu", "result", "moved", "level", "moment", "why", "local_load", "busiest_load", "imbalance",
)  # fmt: skip


def _slice(
    trace: pb.Trace, run: _Run, row: dict[str, int], track: int, name: str, about: dict[str, object]
) -> None:
    begin = _event(trace, run, row["start_ns"], pb.TrackEvent.TYPE_SLICE_BEGIN, track)
    begin.name = name
    _annotate(begin, about)
    _event(trace, run, row["end_ns"], pb.TrackEvent.TYPE_SLICE_END, track)


def _annotate(event: pb.TrackEvent, about: dict[str, object]) -> None:
    for name, value in about.items():
        note = event.debug_annotations.add()
        note.name = name
        if isinstance(value, bool):
            note.bool_value = value
        elif isinstance(value, int):
            note.int_value = value
        elif isinstance(value, float):
            note.double_value = value
        else:
            note.string_value = str(value)


def _track(
    trace: pb.Trace, run: _Run, number: int, name: str, parent: int = 0
) -> pb.TrackDescriptor:
    packet = trace.packet.add()
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.track_descriptor.uuid = run.track(number)
    packet.track_descriptor.name = name
    parent = parent or (_RUN if run.label and number != _RUN else 0)
    if parent:
        packet.track_descriptor.parent_uuid = run.track(parent)
    return packet.track_descriptor


def _event(trace: pb.Trace, run: _Run, ts_ns: int, kind: int, track: int) -> pb.TrackEvent:
    packet = trace.packet.add()
    packet.timestamp = ts_ns + run.shift_ns
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.track_event.type = kind
    packet.track_event.track_uuid = run.track(track)
    return packet.track_event
