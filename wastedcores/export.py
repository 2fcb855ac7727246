"""A trace for the Perfetto UI: who ran where, threads per runqueue as counters, violations as one track.

Switches and wakeups go as ``compact_sched`` bundles, columns of packed numbers instead of a message per event. The
messages are written by hand; field numbers are those of protos/perfetto/trace/perfetto_trace.proto (perfetto 0.59), and
tests decode the result with that package's own classes where it is installed. Nothing of perfetto is needed here.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import WastedCoresError
from wastedcores.trace.runqueues import runqueues as find_runqueues
from wastedcores.trace.trace import Trace

if TYPE_CHECKING:
    from wastedcores.invariant import CheckResult

I64 = NDArray[np.int64]

#: The packets' sequence; any number but 0
_SEQUENCE = 1
_VIOLATIONS, _FIRST_COUNTER = 1, 1000
#: prev_state's letters -> bits, include/trace/events/sched.h since 4.14
_STATES = {"S": 1, "D": 2, "T": 4, "t": 8, "X": 16, "x": 16, "Z": 32, "P": 64, "I": 128}
_PREEMPTED = 256

_COLUMNS = ("ts_ns", "kind", "cpu", "src_cpu", "pid", "prio", "comm", "prev_state")


def export_perfetto(trace: Trace, path: Path, result: CheckResult | None = None) -> Path:
    """Write a trace that https://ui.perfetto.dev opens.

    Parameters
    ----------
    trace
        Any trace; switches and wakeups become thread tracks, runqueue sizes counters.
    path
        File to write; appears only when complete.
    result
        Its episodes become a track of their own.

    Raises
    ------
    WastedCoresError
        The file cannot be written.
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as e:
        raise WastedCoresError(
            f"{path}: cannot write there ({e.strerror}). Choose another place with -o."
        ) from e
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            _write(trace, result, out)
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        part.replace(path)
    except OSError as e:
        part.unlink(missing_ok=True)
        raise WastedCoresError(
            f"{path}: writing failed ({e.strerror or e}). Nothing was left behind; is the disk full?"
        ) from e
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path


def _write(trace: Trace, result: CheckResult | None, out: IO[bytes]) -> None:
    release = trace.header.kernel_release or ""
    utsname = _bytes(1, b"Linux") + (_bytes(3, release.encode()) if release else b"")
    out.write(_packet(_number(13, 1) + _bytes(45, _bytes(1, utsname))))
    for batch in trace.batches(_COLUMNS, "switch", "wakeup", "wakeup_new"):
        for bundle in _bundles(batch):
            out.write(bundle)
    runqueues = find_runqueues(trace)
    for cpu in range(runqueues.cpus):
        name = f"threads on the runqueue of CPU {cpu}"
        out.write(_track(_FIRST_COUNTER + cpu, name, counter=True))
    for change in runqueues.batches():
        ts, cpus, nr = change.runqueues()
        known = nr >= 0
        out.write(_counters(ts[known], cpus[known], nr[known]))
    if result is not None:
        out.write(_track(_VIOLATIONS, "idle CPUs beside waiting threads", counter=False))
        for packet in _episodes(result):
            out.write(packet)


def _bundles(batch: pl.DataFrame) -> Iterator[bytes]:
    """One FtraceEventBundle per CPU: events belong to the CPU on which they happened."""
    where = (
        pl.when(pl.col("kind") == "switch")
        .then("cpu")
        .otherwise(pl.col("src_cpu").fill_null(pl.col("cpu")))
    )
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
        body = b"".join(_bytes(5, s.encode()) for s in strings)
        switch = events.filter(pl.col("kind") == "switch")
        if switch.height:
            body += _packed(1, _deltas(switch)) + _packed(2, _states(switch["prev_state"]))
            body += _packed(3, _ints(switch["pid"])) + _packed(4, _ints(switch["prio"]))
            body += _packed(6, _ints(switch["index"]))
        wake = events.filter(pl.col("kind") != "switch")
        if wake.height:
            body += _packed(7, _deltas(wake)) + _packed(8, _ints(wake["pid"]))
            body += _packed(9, _ints(wake["cpu"])) + _packed(10, _ints(wake["prio"]))
            body += _packed(11, _ints(wake["index"])) + _packed(12, np.zeros(wake.height, np.int64))
        yield _packet(_bytes(1, _number(1, int(str(cpu))) + _bytes(4, body)))


def _ints(column: pl.Series) -> I64:
    return column.cast(pl.Int64).to_numpy()


def _deltas(events: pl.DataFrame) -> I64:
    """Stamps as compact_sched has them: the first in full, then differences."""
    return np.diff(_ints(events["ts_ns"]), prepend=0)


def _states(column: pl.Series) -> I64:
    text = column.cast(pl.String).fill_null("R")
    names = text.unique()
    bits = [
        sum(_STATES.get(letter, 0) for letter in name.replace("+", "").split("|"))
        | (_PREEMPTED if "+" in name else 0)
        for name in names
    ]
    return _ints(text.replace_strict(names, bits, return_dtype=pl.Int64))


def _counters(ts: I64, cpu: NDArray[np.int32], value: NDArray[np.int32]) -> bytes:
    """A TrackEvent of type COUNTER per row. Numbers are written in fixed widths, which protobuf allows."""
    head = bytes([0x0A, 9 + 1 + 2 + 2 + 13])  # Trace.packet
    event = bytes([0x48, 4, 0x58])  # type = TYPE_COUNTER, track_uuid
    parts: list[bytes | NDArray[np.uint8]] = [
        head,
        b"\x40",  # timestamp
        _fixed(ts, 9),
        bytes([0x50, _SEQUENCE, 0x5A, 13]),  # trusted_packet_sequence_id, track_event
        event,
        _fixed(cpu.astype(np.int64) + _FIRST_COUNTER, 5),
        b"\xf0\x01",  # counter_value
        _fixed(value.astype(np.int64), 3),
    ]
    columns = [
        np.broadcast_to(np.frombuffer(p, np.uint8), (len(ts), len(p)))
        if isinstance(p, bytes)
        else p
        for p in parts
    ]
    return np.concatenate(columns, axis=1).tobytes()


def _fixed(values: I64, width: int) -> NDArray[np.uint8]:
    """Varints of exactly ``width`` bytes: shape (values, width)."""
    shifts = 7 * np.arange(width)
    out = ((values[:, None] >> shifts) & 0x7F).astype(np.uint8)
    out[:, :-1] |= 0x80
    return out


def _episodes(result: CheckResult) -> Iterator[bytes]:
    from wastedcores.topology.cpulist import format_cpulist

    for row in result.episodes.iter_rows(named=True):
        idle, busy = format_cpulist(row["idle_cpus"]), format_cpulist(row["overloaded_cpus"])
        name = f"{'PERSISTENT: ' if row['persistent'] else ''}idle {idle} beside {busy}"
        wasted = _bytes(10, b"wasted_ns") + _number(4, int(row["wasted_ns"]))
        track = _number(11, _VIOLATIONS)
        begin = _number(9, 1) + track + _bytes(23, name.encode()) + _bytes(4, wasted)
        for ts, event in ((row["start_ns"], begin), (row["end_ns"], _number(9, 2) + track)):
            yield _packet(_number(8, int(ts)) + _number(10, _SEQUENCE) + _bytes(11, event))


def _track(uuid: int, name: str, *, counter: bool) -> bytes:
    descriptor = _number(1, uuid) + _bytes(2, name.encode()) + (_bytes(8, b"") if counter else b"")
    return _packet(_bytes(60, descriptor) + _number(10, _SEQUENCE))


def _packet(body: bytes) -> bytes:
    return _bytes(1, body)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _packed(field: int, values: I64) -> bytes:
    """A packed repeated field of varints, encoded without a loop over the values."""
    left = values.astype(np.uint64)
    sizes = np.ones(len(left), np.int64)
    for n in range(1, 10):
        sizes += left >= np.uint64(1) << np.uint64(7 * n)
    ends = np.cumsum(sizes)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    starts = ends - sizes
    for n in range(int(sizes.max(initial=0))):
        here = sizes > n
        byte = ((left[here] >> np.uint64(7 * n)) & np.uint64(0x7F)).astype(np.uint8)
        byte[sizes[here] > n + 1] |= 0x80
        out[starts[here] + n] = byte
    return _bytes(field, out.tobytes())
