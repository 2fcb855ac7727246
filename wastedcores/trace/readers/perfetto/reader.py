"""Reads Perfetto's traces (``.pftrace``, ``.perfetto-trace``): the scheduling events that traced_probes took from ftrace.

The packets of a file are in the order in which buffers were emptied, so times step back by seconds. Therefore the bundles of
events are first found (a row of 80 bytes each), sorted by their first times, and then decoded in this order. An event is handed
out when no later bundle can have an earlier event.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
import zstandard

from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.files import file_digest
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.carried import varint
from wastedcores.trace.readers.perfetto import bundle_jit as bj
from wastedcores.trace.readers.perfetto import wire_jit as wj
from wastedcores.trace.readers.perfetto.statistics import stated
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.support.event_columns import CategoryCodes, NameTable, with_letters
from wastedcores.trace.readers.support.reading import Reading
from wastedcores.trace.readers.support.sched_waking import WakingEvents
from wastedcores.trace.readers.support.text_reading import UNPACK_MEMORY, unpacked
from wastedcores.trace.readers.support.tracepoints import WAKING
from wastedcores.trace.schema import COLUMNS, KIND_DTYPE

#: The numbers of packets that are found at a time, of bytes of bundles that are decoded at a time, and of events in a table.
_PACKETS, _DECODED, _ROWS = 1 << 14, 4 << 20, 1 << 20
#: protos/perfetto/trace/ftrace/ftrace_event_bundle.proto: FtraceClock
_CLOCKS = {0: "boot", 2: "global", 3: "local", 4: "mono_raw"}
#: Code -> kind.
_KINDS = pl.Series(
    [
        "switch", "wakeup", "wakeup_new", "migrate", "fork", "exit", "cpu_idle", "wakeup", "mark", "frequency", "lost",
    ],
    dtype=KIND_DTYPE,
)  # fmt: skip
_NAMES = ("comm", "prev_comm", "by_comm")
_NUMBERS = ("pid", "prio", "prev_pid", "prev_prio", "src_cpu", "by_pid", "value", "state")
#: Numbers of FtraceEvent's fields that become events.
_READ = {
    bj.E_SWITCH, bj.E_FREQUENCY, bj.E_IDLE, bj.E_WAKEUP, bj.E_WAKING, bj.E_WAKEUP_NEW, bj.E_NEWTASK, bj.E_EXIT, bj.E_FORK,
    bj.E_MIGRATE,
}  # fmt: skip


class PerfettoReading(Reading):
    """One pass over a trace of Perfetto."""

    kernel_states = True

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "perfetto")
        self._hashed = hashed
        self._names = NameTable(CategoryCodes())
        # the empty name makes sure that there is a code for events without a name, even if no event has a name
        self._no_name = self._names.number(b"")
        self._known = np.full((MAX_CPUS, bj.N_KNOWN), bj.NONE, np.int64)
        self._counts = np.zeros(bj.N_EVENTS, np.int64)
        self._out = np.empty((len(bj.FIELDS), 0), np.int64)
        self._end_ns = 0
        #: CPUs that lost events after their last bundle; -1: events are missing at an unknown place
        self._open: set[int] = set()

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in order of time."""
        data, size = self._map()
        table = self._find(data, size)
        if (table[:, wj.WHAT] & wj.PACKED).any():
            data, size = self._unpack(data, table)
            table = self._find(data, size)
        if (table[:, wj.WHAT] & wj.FOREIGN).any():
            self.found.notes["other machines"] = "what was recorded on them was left out"
        self._learn(data, table[(table[:, wj.WHAT] & wj.FACTS) > 0])
        bundles = self._ordered(table)
        self._note_statistics(data, table, bundles)
        yield from WakingEvents(self.found).settled(self._tables(data, bundles))
        yield from self._lost_at_the_end()
        self._count()
        self.found.sha256 = file_digest(self.path) if self._hashed else None

    def _map(self) -> tuple[np.ndarray, int]:
        """Return the bytes of the file and their number; compressed bytes are unpacked into a temporary file."""
        with self.path.open("rb") as file:
            plain = file.read(1) == b"\n"
        if plain:
            try:
                mapped = np.memmap(self.path, np.uint8, "r")
            except (OSError, ValueError) as e:
                raise WastedCoresError(f"{self.path}: cannot be mapped ({e}).") from e
            return _padded(mapped)
        into = self._temporary()
        with unpacked(self.path) as stream:
            while chunk := stream.read(1 << 20):
                into.write(chunk)
        return self._mapped(into)

    def _temporary(self) -> IO[bytes]:
        made: IO[bytes] = self.resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        return made

    def _mapped(self, file: IO[bytes]) -> tuple[np.ndarray, int]:
        size = file.tell()
        file.write(bytes(PADDING))
        file.flush()
        mapped = np.memmap(file, np.uint8, "r")  # type: ignore[call-overload]
        return np.asarray(mapped), size

    def _find(self, data: np.ndarray, size: int) -> np.ndarray:
        """Return the table of all packets."""
        parts, at, problem = [], 0, wj.FULL
        while problem == wj.FULL:
            part = np.empty((_PACKETS, wj.N_COLUMNS), np.int64)
            n, at, problem = wj.packets(data, at, size, part)
            parts.append(part[:n])
        self.found.lines = sum(map(len, parts))
        if problem == wj.CUT:
            self.found.truncated = f"the last packet, at byte {at} of {size}, is cut short"
        elif problem == wj.BAD:
            raise TraceContentError(
                f"{self.path}: byte {at}, packet {self.found.lines + 1}: not a packet of Perfetto. The file is damaged: copy or "
                "record it again."
            )
        return np.concatenate(parts)

    def _unpack(self, data: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, int]:
        """Write all packets into a temporary file, and unpack the packed ones (compression_type in the configuration)."""
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

        into = self._temporary()
        for at, size, what in table[:, : wj.WHAT + 1].tolist():
            content = data[at : at + size].tobytes()
            if not what & wj.PACKED:
                into.write(b"\n" + varint(size) + content)
                continue
            packet = TracePacket.FromString(content)
            try:
                if packet.compressed_packets:
                    unpacker = zlib.decompressobj()
                    plain = unpacker.decompress(packet.compressed_packets, UNPACK_MEMORY)
                    whole = unpacker.eof
                else:
                    plain = zstandard.ZstdDecompressor().decompress(
                        packet.zstd_compressed_packets, max_output_size=UNPACK_MEMORY
                    )
                    whole = True
                if not whole:
                    raise zlib.error("it is cut short, or larger than any")
            except (zlib.error, zstandard.ZstdError) as e:
                raise TraceFormatError(
                    f"{self.path}: byte {at}: packed packets cannot be unpacked ({e}). The file is damaged: copy or record it "
                    f"again."
                ) from e
            into.write(plain)
        return self._mapped(into)

    def _learn(self, data: np.ndarray, table: np.ndarray) -> None:
        """Learn from the packets that state facts."""
        from google.protobuf.message import DecodeError
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

        for at, size in table[:1000, : wj.SIZE + 1].tolist():
            try:
                packet = TracePacket.FromString(data[at : at + size].tobytes())
            except DecodeError:
                continue  # this fact cannot be read
            self._learn_from(packet)

    def _note_statistics(self, data: np.ndarray, table: np.ndarray, bundles: np.ndarray) -> None:
        """Note the losses that only the statistics state."""
        rows = table[(table[:, wj.WHAT] & wj.STATS) > 0][-1000:, : wj.SIZE + 1].tolist()
        said = stated(
            (data[at : at + size].tobytes() for at, size in rows),
            set(bundles[:, wj.SEQUENCE].tolist()),
        )
        if said.read_errors:
            self.found.notes["read errors"] = (
                f"a part of the kernel's buffers could not be read while it was recorded ({', '.join(sorted(said.read_errors))})"
            )
            self.found.add_lost(-1, -1)
            self._open.add(-1)
        if said.at_the_end:
            self.found.notes["missing at the end"] = said.at_the_end
            for cpu in self._cpus(bundles):
                self.found.add_lost(cpu, -1)
                self._open.add(cpu)
        if said.overwritten and len(bundles) and not table[:, wj.BEFORE_NS].any():
            first = bundles[np.unique(bundles[:, wj.CPU], return_index=True)[1]]
            self._note_begin(first[first[:, wj.FIRST_NS] > first[:, wj.FIRST_NS].min()])

    def _cpus(self, bundles: np.ndarray) -> list[int]:
        return [c for c in np.unique(bundles[:, wj.CPU]).tolist() if 0 <= c < MAX_CPUS]

    def _note_begin(self, bundles: np.ndarray) -> None:
        """Note that older bundles of these bundles' CPUs were overwritten, although other CPUs have bundles from that time."""
        for cpu in self._cpus(bundles):
            self.found.overwritten[cpu] = -1
            self.found.add_lost(cpu, -1)

    def _learn_from(self, packet: Any) -> None:
        found = self.found
        if packet.HasField("system_info"):
            system = packet.system_info
            found.kernel_release = _plain(system.utsname.release) or found.kernel_release
            if system.num_cpus:
                found.cpus = min(system.num_cpus, MAX_CPUS)
            for key, value in (
                ("architecture", system.utsname.machine),
                ("android_build", system.android_build_fingerprint),
            ):
                if value:
                    found.notes[key] = _plain(value)[:200]
        if packet.HasField("trace_config"):
            events = {
                _plain(event)
                for source in packet.trace_config.data_sources
                for event in source.config.ftrace_config.ftrace_events
            }
            if events:
                found.notes["ftrace_events"] = ", ".join(sorted(events))[:1000]

    def _ordered(self, table: np.ndarray) -> np.ndarray:
        """Return the bundles in order of their first times, and note where a sequence dropped packets before a bundle."""
        dropped = (table[:, wj.WHAT] & wj.DROPPED) > 0
        first = np.zeros(len(table), np.bool_)
        first[np.unique(table[:, wj.SEQUENCE], return_index=True)[1]] = True
        # the first packet of a sequence always has this mark (trace_packet.proto: previous_packet_dropped)
        losing = set(table[dropped & ~first, wj.SEQUENCE].tolist())
        table = table[(table[:, wj.WHAT] & wj.EVENTS) > 0]
        if not len(table):
            return table
        self.found.clock = _CLOCKS.get(int(table[0, wj.CLOCK]))
        dropping = losing & set(table[:, wj.SEQUENCE].tolist())
        if dropping:
            self.found.notes["dropped packets"] = (
                "the service dropped packets of ftrace, because its buffer was full: make buffers.size_kb larger"
            )
            self.found.add_lost(-1, -1)
            self._open.add(-1)
        self._carry_losses(table)
        self._note_overwritten(table)
        timed = table[table[:, wj.FIRST_NS] >= 0]
        return timed[np.argsort(timed[:, wj.FIRST_NS], kind="stable")]

    def _note_overwritten(self, table: np.ndarray) -> None:
        """Note the CPUs whose overwritten bundles were younger than the oldest bundle that the service's buffer kept.

        The first bundle of a CPU tells when the bundle before it ended (Perfetto 44 and later). ftrace_event_bundle.proto,
        previous_bundle_end_timestamp: because the oldest bundles are overwritten, the first valid times of the CPUs can differ.
        """
        times = table[table[:, wj.FIRST_NS] >= 0, wj.FIRST_NS]
        if not len(times):
            return
        first = table[np.unique(table[:, wj.CPU], return_index=True)[1]]
        self._note_begin(first[first[:, wj.BEFORE_NS] > times.min()])

    def _carry_losses(self, table: np.ndarray) -> None:
        """Move losses that bundles without events state, and losses of skipped pages, before the next events of their CPU.

        If a page is not as traced_probes expects, it skips the rest of this page (src/traced/probes/ftrace/cpu_reader.cc). Events
        of the following pages may be in the same bundle.
        """
        skipped = (table[:, wj.WHAT] & wj.SKIPPED) > 0
        timed = table[:, wj.FIRST_NS] >= 0
        carried = skipped | ((table[:, wj.WHAT] & wj.LOST) > 0) & ~timed
        if skipped.any():
            self.found.notes["skipped pages"] = (
                f"{int(skipped.sum())} bundles say that the rest of a page of the kernel's buffer could not be read"
            )
            self._open.add(-1)
        if not carried.any():
            return
        row = pl.col("row")
        rows = pl.DataFrame(
            {"sequence": table[:, wj.SEQUENCE], "cpu": table[:, wj.CPU], "timed": timed}
        ).with_row_index("row")
        later = pl.when("timed").then(row).backward_fill().shift(-1).over("sequence", "cpu")
        rows = rows.with_columns(later=later).filter(pl.Series(carried))
        table[rows["later"].drop_nulls().to_numpy(), wj.WHAT] |= wj.LOST
        last = rows.filter(pl.col("later").is_null())["cpu"].unique().to_list()
        for cpu in (c if 0 <= c < MAX_CPUS else -1 for c in last):
            self.found.add_lost(cpu, -1)
            self._open.add(cpu)

    def _lost_at_the_end(self) -> Iterator[pl.DataFrame]:
        """Yield a loss at the end for each CPU that lost events after its last event, and one for losses that may be anywhere."""
        if self._open:
            cpus = [c if c >= 0 else None for c in sorted(self._open, reverse=True)]
            events = pl.DataFrame({"cpu": cpus}, schema={"cpu": pl.Int32})
            yield events.select(
                "cpu",
                ts_ns=pl.lit(self._end_ns),
                kind=pl.lit("lost").cast(KIND_DTYPE),
                value=pl.lit(-1, pl.Int64),
            )

    def _tables(self, data: np.ndarray, bundles: np.ndarray) -> Iterator[pl.DataFrame]:
        sizes = np.cumsum(bundles[:, wj.BUNDLE_SIZE])
        held: list[pl.DataFrame] = []
        i, rows = 0, 0
        while i < len(bundles):
            before = int(sizes[i - 1]) if i else 0
            n = max(int(np.searchsorted(sizes, before + _DECODED)), i + 1)
            lost = self._losses(bundles[i:n])
            frame = self._decode(data, bundles, i, n, int(sizes[n - 1]) - before)
            held += [lost, frame] if lost.height else [frame]
            rows += frame.height
            i = n
            if rows < _ROWS and i < len(bundles):
                continue
            table = pl.concat(held, how="diagonal").sort("ts_ns", maintain_order=True)
            safe = table.height
            if i < len(bundles):
                safe = int(table["ts_ns"].search_sorted(int(bundles[i, wj.FIRST_NS]), side="left"))
            if safe:
                self._end_ns = int(table["ts_ns"][safe - 1])
                yield table.head(safe)
            held, rows = [table.tail(table.height - safe)], 0

    def _losses(self, bundles: np.ndarray) -> pl.DataFrame:
        """Return an event for each bundle before which its CPU lost events."""
        lost = bundles[(bundles[:, wj.WHAT] & wj.LOST) > 0]
        for cpu in lost[:, wj.CPU].tolist():
            self.found.add_lost(cpu, -1)
        columns = {"ts_ns": lost[:, wj.FIRST_NS], "cpu": lost[:, wj.CPU].astype(np.int32)}
        return pl.DataFrame(columns).with_columns(
            kind=pl.lit("lost").cast(KIND_DTYPE),
            value=pl.lit(-1, pl.Int64),
            waking=pl.lit(False),
        )

    def _decode(
        self, data: np.ndarray, bundles: np.ndarray, i: int, n: int, size: int
    ) -> pl.DataFrame:
        # on machines where page faults are expensive, fresh memory for each part costs more time than the decoding
        if self._out.shape[1] <= size // 3:
            self._out = np.empty((len(bj.FIELDS), size // 3 + 1), np.int64)
        out = self._out
        scratch = bj.new_scratch(int(bundles[i:n, wj.BUNDLE_SIZE].max()))
        while True:
            known, counts = self._known.copy(), self._counts.copy()
            rows, problem, row = bj.bundles(
                data, bundles, i, n, out, self._names.table, known, counts, WAKING, scratch
            )
            if problem != wj.FULL:
                break
            self._names.grow()
        if problem != wj.OK:
            raise TraceContentError(
                f"{self.path}: byte {bundles[row, wj.AT]}: the events of CPU {bundles[row, wj.CPU]} there are not as Perfetto "
                "writes them. The file is damaged: copy or record it again."
            )
        self._known, self._counts = known, counts
        return self._frame(out, rows)

    def _frame(self, out: np.ndarray, rows: int) -> pl.DataFrame:
        columns = dict(zip(bj.FIELDS, out[:, :rows], strict=True))
        # this column is copied, because its memory is used again; the other columns are computed into new memory
        columns["ts_ns"] = columns["ts_ns"].copy()
        raw = pl.DataFrame(columns)
        codes = self._names.codes()
        names = {}
        for column in _NAMES:
            number = columns[column]
            series = pl.Series(codes[np.where(number < 0, self._no_name, number)]).cat.to(
                pl.Categorical()
            )
            names[column] = pl.select(
                pl.when(pl.lit(pl.Series(number >= 0))).then(series)
            ).to_series()
        frame = raw.select(
            "ts_ns",
            pl.col("ctx_cpu").cast(pl.Int32),
            pl.col("cpu").cast(pl.Int32),
            *(
                pl.when(pl.col(c) != bj.NONE).then(c).cast(_dtype(c), strict=False).alias(c)
                for c in _NUMBERS
            ),
            kind=pl.lit(_KINDS).gather(pl.col("code").cast(pl.UInt32)),
            waking=pl.col("code") == WAKING,
            in_irq=pl.when(pl.col("in_irq") >= 0).then(pl.col("in_irq") == 1),
        ).with_columns(**names)
        frame = with_letters(frame, "state")
        return frame.with_columns(pl.col("prev_state").cast(COLUMNS["prev_state"].dtype))

    def _count(self) -> None:
        """Note which events were seen, and which of them were left out."""
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import FtraceEvent

        names = {f.number: f.name for f in FtraceEvent.DESCRIPTOR.fields}
        self.found.every_switch = bool(self._counts[bj.E_SWITCH])
        for number in np.flatnonzero(self._counts).tolist():
            if number not in _READ:
                name = names.get(number, f"event {number}")
                self.found.skipped[name] += int(self._counts[number])


def _plain(text: str | bytes) -> str:
    """Return a text of a message; protobuf hands out bytes if they are not valid text."""
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def _dtype(column: str) -> pl.DataType:
    return COLUMNS[column].dtype if column in COLUMNS else pl.Int64()


def _padded(mapped: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the bytes with room after them for loads of whole words; a mapped file has room if its last page is not full."""
    size = len(mapped)
    if -size % 4096 >= PADDING:
        return np.asarray(mapped), size
    return np.concatenate([mapped, np.zeros(PADDING, np.uint8)]), size
