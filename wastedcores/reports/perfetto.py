"""Writes a trace for the Perfetto UI: who ran where, threads per runqueue as counters, and violations as one track.

Switches and wakeups are written as ``compact_sched`` bundles, that is, as columns of packed numbers instead of one
message per event (protos/perfetto/trace/ftrace/ftrace_event_bundle.proto). Of the ``perfetto`` package only the
generated message classes are used, because its trace processor downloads a program.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import perfetto.protos.perfetto.trace.perfetto_trace_pb2 as pb
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import WastedCoresError
from wastedcores.files import written_whole
from wastedcores.runqueues.runqueues import Runqueues
from wastedcores.topology.cpulist import format_cpulist

if TYPE_CHECKING:
    from wastedcores.invariant import CheckResult

I64 = NDArray[np.int64]

#: the sequence of all packets; any number but 0
_SEQUENCE = 1
_VIOLATIONS, _FIRST_COUNTER = 1, 1000
#: counter messages that are built at a time; they take about 30 MB
_COUNTERS = 100_000
#: letter of prev_state -> its bit (include/trace/events/sched.h since 4.14)
_STATES = {"S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "x": 16, "Z": 32, "P": 64, "I": 128}
_PREEMPTED = 256

_COLUMNS = ("ts_ns", "kind", "cpu", "src_cpu", "pid", "prio", "comm", "prev_state")


def export_perfetto(runqueues: Runqueues, path: Path, result: CheckResult | None = None) -> Path:
    """Write a trace that https://ui.perfetto.dev opens."""
    path = Path(path)
    try:
        with written_whole(path) as part, part.open("wb") as out:
            _write(runqueues, result, out)
    except OSError as e:
        raise WastedCoresError(
            f"{path}: cannot write there ({e.strerror or e}); nothing was left behind. Is the disk full? Or choose "
            "another place with -o."
        ) from e
    return path


def _write(runqueues: Runqueues, result: CheckResult | None, out: IO[bytes]) -> None:
    trace = runqueues.trace
    with_system = pb.Trace()
    packet = with_system.packet.add()
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.system_info.utsname.sysname = "Linux"
    packet.system_info.utsname.release = trace.header.kernel_release or ""
    packet.sequence_flags = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    out.write(with_system.SerializeToString())
    for batch in trace.batches(_COLUMNS, "switch", "wakeup", "wakeup_new"):
        out.write(_bundles(batch).SerializeToString())
    tracks = pb.Trace()
    for cpu in range(runqueues.cpus):
        track = _track(tracks, _FIRST_COUNTER + cpu, f"threads on the runqueue of CPU {cpu}")
        track.counter.SetInParent()
    out.write(tracks.SerializeToString())
    for change in runqueues.batches():
        ts, cpus, nr = change.runqueues()
        for at in range(0, len(ts), _COUNTERS):
            part = slice(at, at + _COUNTERS)
            out.write(_counters(ts[part], cpus[part], nr[part]).SerializeToString())
    if result is not None:
        out.write(_episodes(result).SerializeToString())


def _bundles(batch: pl.DataFrame) -> pb.Trace:
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
            index=index, pid=pl.col("pid").fill_null(0), prio=pl.col("prio").fill_null(120)
        )
        bundle = trace.packet.add().ftrace_events
        bundle.cpu = int(str(cpu))
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
        compact.waking_target_cpu.extend(wake["cpu"])
        compact.waking_prio.extend(wake["prio"])
        compact.waking_comm_index.extend(wake["index"])
        compact.waking_common_flags.extend([0] * wake.height)
    return trace


def _deltas(events: pl.DataFrame) -> list[int]:
    """Return the timestamps as compact_sched has them: the first in full, then differences."""
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


def _counters(ts: I64, cpu: NDArray[np.int32], value: NDArray[np.int32]) -> pb.Trace:
    """Return one TrackEvent of type COUNTER per row whose value is known."""
    trace = pb.Trace()
    for t, c, n in zip(ts.tolist(), cpu.tolist(), value.tolist(), strict=True):
        if n >= 0:
            _event(trace, t, pb.TrackEvent.TYPE_COUNTER, _FIRST_COUNTER + c).counter_value = n
    return trace


def _episodes(result: CheckResult) -> pb.Trace:
    trace = pb.Trace()
    _track(trace, _VIOLATIONS, "idle CPUs while threads wait")
    for row in result.episodes.iter_rows(named=True):
        idle, busy = format_cpulist(row["idle_cpus"]), format_cpulist(row["overloaded_cpus"])
        begin = _event(trace, row["start_ns"], pb.TrackEvent.TYPE_SLICE_BEGIN, _VIOLATIONS)
        begin.name = f"{'PERSISTENT: ' if row['persistent'] else ''}idle {idle} beside {busy}"
        wasted = begin.debug_annotations.add()
        wasted.name, wasted.int_value = "wasted_ns", row["wasted_ns"]
        _event(trace, row["end_ns"], pb.TrackEvent.TYPE_SLICE_END, _VIOLATIONS)
    return trace


def _track(trace: pb.Trace, uuid: int, name: str) -> pb.TrackDescriptor:
    packet = trace.packet.add()
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.name = name
    return packet.track_descriptor


def _event(trace: pb.Trace, ts_ns: int, kind: int, track: int) -> pb.TrackEvent:
    packet = trace.packet.add()
    packet.timestamp = ts_ns
    packet.trusted_packet_sequence_id = _SEQUENCE
    packet.track_event.type = kind
    packet.track_event.track_uuid = track
    return packet.track_event
