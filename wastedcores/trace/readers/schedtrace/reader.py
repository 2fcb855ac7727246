"""Reads the collectors' file: one JSON line, then blocks of 16-byte records (collectors/wastedcores.h).

The constants here must agree with those of the collectors; tests/collectors/test_contract.py compares them with the C header.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.trace.readers.schedtrace.decisions import decided_rows, probes_note
from wastedcores.trace.readers.schedtrace.hidden import HiddenSwitches
from wastedcores.trace.readers.schedtrace.records import (
    I64,
    KINDS,
    PLACES,
    TASK_STATES,
    U64,
    Around,
    TaskNames,
    bits,
    columns_of,
    entry_names,
)
from wastedcores.trace.readers.support.reading import FactsBuilder, Reading
from wastedcores.trace.schema import KIND_DTYPE

FORMAT = "wastedcores.schedtrace"
VERSION = 1
BLOCK_MAGIC = 0x31424357
BLOCK = np.dtype(
    [
        ("magic", "<u4"),
        ("type", "<u2"),
        ("cpu", "<u2"),
        ("bytes", "<u4"),
        ("round", "<u4"),
        ("now", "<u8"),
        ("seq", "<u8"),
        ("lost", "<u8"),
    ]
)
RECORD = np.dtype([("w0", "<u8"), ("w1", "<u8")])
TASK = np.dtype(
    [
        ("ts", "<u8"),
        ("pid", "<u4"),
        ("tgid", "<u4"),
        ("cpu", "<u4"),
        ("rq_nr", "<u4"),
        ("state", "<u2"),
        ("prio", "<u2"),
        ("allowed", "<u4"),
        ("comm", "S16"),
    ]
)
COUNTERS = np.dtype([("seen", "<u8"), ("written", "<u8"), ("lost", "<u8"), ("overwritten", "<u8")])
EVENTS_BLOCK, TASKS_BLOCK, COUNTERS_BLOCK, END_BLOCK, DECISIONS_BLOCK = 1, 2, 3, 4, 5
#: the note of a capture whose ticks have no frequency
NO_FREQUENCY = "unknown, because this machine has no source (wastedcores doctor tells more)"
#: Reasons why the end of a capture is missing: the one that the collector writes (schedtrace.py), and one of this reader.
DISK_FULL, DAMAGED = "disk full", "its last block is damaged"
#: Number of records that are decoded at a time.
BATCH_RECORDS = 1 << 19


class SchedTraceReading(Reading):
    """One pass over a capture. A "line" is a block."""

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "schedtrace")
        self.meta: dict[str, Any] = {}
        try:
            self._file = self.resources.enter_context(path.open("rb"))
        except OSError as e:
            raise WastedCoresError(f"{path}: cannot be read ({e.strerror}).") from e

    def blocks(self) -> Iterator[tuple[np.void, bytes]]:
        """Yield the blocks that are whole, and read the first line of the file into ``meta``."""
        digest = hashlib.sha256()
        try:
            line = self._file.readline(1 << 20)
            digest.update(line)
            self.meta = _header(line, self.path)
            yield from self._rest(self._file, digest)
        except OSError as e:
            raise WastedCoresError(f"{self.path}: cannot be read ({e.strerror}).") from e
        self.found.sha256 = digest.hexdigest()

    def _rest(self, f: IO[bytes], digest: Any) -> Iterator[tuple[np.void, bytes]]:
        while raw := f.read(BLOCK.itemsize):
            digest.update(raw)
            if len(raw) < BLOCK.itemsize:
                return
            block = np.frombuffer(raw, BLOCK)[0]
            at = f.tell() - BLOCK.itemsize
            if block["magic"] != BLOCK_MAGIC:
                raise TraceFormatError(
                    f"{self.path}, byte {at}: expected the beginning of a block, found {raw[:4].hex()}. The file is "
                    "damaged from here on; cut it there (truncate -s) to read what comes before."
                )
            left = os.fstat(f.fileno()).st_size - f.tell()
            # no more is read than the file has, because a damaged size would allocate 4 GB for a file of a kilobyte
            payload = f.read(min(int(block["bytes"]), left))
            digest.update(payload)
            if len(payload) < block["bytes"]:
                return
            self._require_possible(block, payload, at)
            self.found.lines += 1
            yield block, payload

    def _require_possible(self, block: np.void, payload: bytes, at: int) -> None:
        counts = [block["now"], block["lost"]]
        if block["type"] == COUNTERS_BLOCK:
            counters = np.frombuffer(payload, COUNTERS, len(payload) // COUNTERS.itemsize)
            counts += counters["lost"].tolist()
        if max(map(int, counts)) >> 62:
            raise TraceFormatError(
                f"{self.path}, byte {at}: a block states a time or a number of lost events of {max(map(int, counts))}; "
                "expected less than 2 to the power of 62. The file is damaged from here on; cut it there (truncate -s) to "
                "read what comes before."
            )

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables, each in order of time. Neighbouring tables overlap by the time for which all CPUs are drained."""
        run: _Decoder | None = None
        held: list[tuple[int, bytes]] = []
        size, round_ = 0, 0
        decided: tuple[pl.DataFrame, str] | None = None
        for block, payload in self.blocks():
            run = run or self._decoder()
            kind = int(block["type"])
            if kind == EVENTS_BLOCK:
                # cut between rounds only, because only then all older events of all CPUs have been read
                if int(block["round"]) != round_ and size >= BATCH_RECORDS * RECORD.itemsize:
                    yield from run.slices(held)
                    held, size = [], 0
                round_ = int(block["round"])
                held.append((int(block["cpu"]), payload))
                size += len(payload)
                run.lost[int(block["cpu"])] = int(block["lost"])
                run.now = int(block["now"])
            elif kind == TASKS_BLOCK and run.flight:
                run.restricted = payload
            elif kind == TASKS_BLOCK:
                yield run.tasks(payload)
            elif kind == COUNTERS_BLOCK:
                counters = np.frombuffer(payload, COUNTERS, len(payload) // COUNTERS.itemsize)
                for cpu, row in enumerate(counters):
                    run.lost[cpu] = int(row["lost"])
            elif kind == DECISIONS_BLOCK:
                decided = (decided_rows(payload, self.path), probes_note(payload))
            elif kind == END_BLOCK:
                run.end = _end(payload)
        run = run or self._decoder()
        if held:
            yield from run.slices(held)
        if decided is not None:
            run.facts.notes["decisions"] = decided[1]
            yield _finish([decided[0]])
        yield run.finish()

    def _decoder(self) -> _Decoder:
        try:
            return _Decoder(self.meta, self.found)
        except (KeyError, TypeError, ValueError, OverflowError) as e:
            raise TraceFormatError(
                f"{self.path}, line 1: the header of a capture lacks a field or has a wrong one ({e!r}). The file is "
                "damaged."
            ) from e


def _header(line: bytes, path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise TraceFormatError(
            f"{path}, line 1: the header of a capture is cut short or damaged ({e})."
        ) from e
    if meta.get("version") != VERSION or meta.get("record_bytes") != RECORD.itemsize:
        raise TraceFormatError(
            f"{path}: a capture of version {meta.get('version')} with {meta.get('record_bytes')}-byte records; this "
            f"wastedcores reads version {VERSION} with {RECORD.itemsize}. Upgrade: pip install -U wastedcores."
        )
    return meta


def _end(payload: bytes) -> dict[str, Any]:
    try:
        end = json.loads(payload)
    except (ValueError, RecursionError):
        end = None
    return end if isinstance(end, dict) else {"why": DAMAGED}


class _Decoder:
    """Decodes blocks, and remembers names and losses."""

    def __init__(self, meta: dict[str, Any], facts: FactsBuilder) -> None:
        self.meta, self.facts = meta, facts
        self.t0 = int(meta["t0_ns"])
        self.words = int(meta["mask_words"])
        self.flight = meta.get("flight_s") is not None
        self.names = TaskNames()
        self.lost: dict[int, int] = {}
        self.stated: dict[int, int] = {}
        self.hidden, self.unseen = HiddenSwitches(), 0
        self.now = 0
        self.line = 0
        self.restricted = (
            b""  # of a flight recording: the tasks and their masks when it was written
        )
        self.rebound = np.zeros(0, np.int64)  # tasks that got another affinity during a recording
        self.end: dict[str, Any] | None = None
        facts.kernel_release = meta.get("kernel")
        facts.clock = meta.get("clock")
        facts.cpus = cpus = int(meta["cpus"])
        self.kinds = frozenset(meta["events"])
        facts.online = tuple(int(c) for c in meta["cpus_online"])
        if not all(0 <= c < cpus for c in facts.online):
            raise ValueError("cpus_online")
        self.online = len(facts.online)
        facts.every_switch = "switch" in self.kinds
        facts.follows_affinity = "affinity" in self.kinds

    def tasks(self, payload: bytes) -> pl.DataFrame:
        """Return the state at the start: one task_state per task, one nr_running per runqueue."""
        rows, mask = self._task_rows(payload)
        ts = rows["ts"].astype(np.int64) + self.t0
        comm = [c.decode(errors="replace") for c in rows["comm"].tolist()]
        self.names.start(rows["pid"], comm)
        words = np.array(TASK_STATES)
        tasks = pl.DataFrame(
            {
                "ts_ns": ts,
                "kind": pl.repeat("task_state", rows.size, eager=True),
                "cpu": rows["cpu"].astype(np.int32),
                "pid": rows["pid"].astype(np.int32),
                "prev_state": words[np.minimum(rows["state"], 2)].tolist(),
                "comm": comm,
                "prio": rows["prio"].astype(np.int16),
                "cpu_mask": mask,
            }
        )
        known = rows["rq_nr"] != 0xFFFFFFFF
        _, one = np.unique(rows["cpu"][known], return_index=True)
        queues = pl.DataFrame(
            {
                "ts_ns": ts[known][one],
                "kind": pl.repeat("nr_running", one.size, eager=True),
                "cpu": rows["cpu"][known][one].astype(np.int32),
                "nr_running": rows["rq_nr"][known][one].astype(np.int32),
            }
        )
        if "nr_running" not in self.kinds:
            queues = queues.clear()
        return _finish([tasks, queues])

    def masks(self, payload: bytes, at_ns: int) -> pl.DataFrame:
        """Return the affinity that tasks had at the beginning of a flight recording, for tasks that may not run everywhere.

        The affinity was read at the end. If a task got another affinity during the recording, its affinity at the beginning is
        not known, so the task is left out.
        """
        rows, mask = self._task_rows(payload)
        self.names.start(rows["pid"], [c.decode(errors="replace") for c in rows["comm"].tolist()])
        same = ~np.isin(rows["pid"].astype(np.int64), self.rebound)
        keep = np.flatnonzero((rows["allowed"] < self.online) & same)
        table = pl.DataFrame(
            {
                "ts_ns": np.full(keep.size, at_ns, np.int64),
                "kind": pl.repeat("affinity", keep.size, eager=True),
                "pid": rows["pid"][keep].astype(np.int32),
                "comm": [rows["comm"][i].decode(errors="replace") for i in keep],
                "cpu_mask": [mask[i] for i in keep],
            }
        )
        return _finish([table])

    def _task_rows(self, payload: bytes) -> tuple[np.ndarray, list[bytes]]:
        dtype = np.dtype([("task", TASK), ("mask", f"V{8 * self.words}")])
        whole = np.frombuffer(payload, dtype, count=len(payload) // dtype.itemsize)
        return whole["task"], [m.tobytes() for m in whole["mask"]]

    def slices(self, held: list[tuple[int, bytes]]) -> Iterator[pl.DataFrame]:
        """Yield the events of several blocks in order of time, about :data:`BATCH_RECORDS` at a time."""
        blocks = [(c, np.frombuffer(p, RECORD, len(p) // RECORD.itemsize)) for c, p in held]
        blocks = [(c, r) for c, r in blocks if r.size]
        if not blocks:
            return
        if self.restricted:
            told = [
                r["w1"][(r["w0"] >> np.uint64(48) & np.uint64(31)) == KINDS["affinity"]]
                for _, r in blocks
            ]
            self.rebound = bits(np.concatenate(told), 0, 22)
        stamps = [r["w0"] & np.uint64(0xFFFFFFFFFFFF) for _, r in blocks]
        low, high = min(int(t.min()) for t in stamps), max(int(t.max()) for t in stamps) + 1
        parts = max(1, sum(r.size for _, r in blocks) // BATCH_RECORDS)
        edges = np.linspace(low, high, parts + 1).astype(np.uint64)
        edges[-1] = high
        # names and masks have the time of the record to which they belong, so no edge separates them from it
        cuts = [np.maximum.accumulate(np.searchsorted(t, edges)) for t in stamps]
        for k, t in zip(cuts, stamps, strict=True):
            k[0], k[-1] = 0, t.size
        for i in range(parts):
            pieces = [(c, r[k[i] : k[i + 1]]) for (c, r), k in zip(blocks, cuts, strict=True)]
            pieces = [(c, r) for c, r in pieces if r.size]
            if pieces:
                yield self.events(pieces, self.line)
                self.line += sum(r.size for _, r in pieces)

    def events(self, held: list[tuple[int, np.ndarray]], line: int) -> pl.DataFrame:
        """Return the events of several CPUs, in order of time."""
        records = np.concatenate([r for _, r in held])
        cpu = np.repeat(np.array([c for c, _ in held], np.int32), [r.size for _, r in held])
        w0, w1 = records["w0"], records["w1"]
        ts = (w0 & np.uint64(0xFFFFFFFFFFFF)).astype(np.int64) + self.t0
        kind = (w0 >> np.uint64(48) & np.uint64(31)).astype(np.int8)
        x = (w0 >> np.uint64(53)).astype(np.int64)
        self.names.learn(ts, kind, w1, KINDS)
        frames = [self._unseen(ts, kind, w1, cpu, line)]
        if self.restricted:
            frames.append(self.masks(self.restricted, int(ts.min())))
            self.restricted = b""
        for name in PLACES:
            at = np.flatnonzero(kind == KINDS[name])
            if at.size:
                columns = columns_of(name, w1[at], x[at], cpu[at], Around(kind, w1, at))
                columns["ts_ns"], columns["kind"] = ts[at], pl.repeat(name, at.size, eager=True)
                columns["line"] = at + line
                self.names.fill(columns, cpu[at])
                if name == "kernel_entry" and self.meta.get("machine") == "x86_64":
                    columns["text"] = entry_names(columns["op"], columns["value"])
                frames.append(pl.DataFrame(columns))
        self.names.settle()
        at = np.flatnonzero(kind == KINDS["lost"])
        for c, n in zip(cpu[at].tolist(), w1[at].tolist(), strict=True):
            self.stated[c] = self.stated.get(c, 0) + n
        return _finish(frames)

    def _unseen(
        self, ts: I64, kind: NDArray[np.int8], w1: U64, cpu: NDArray[np.int32], line: int
    ) -> pl.DataFrame:
        """Return the switches that were not recorded, so that the threads do not seem to wait forever.

        The reader assumes that the task that stops falls asleep. Only the kernel's own counts show where this is wrong, so
        without counts the hidden switch is stated as a loss of events. The count that belongs to the switch is hidden as well, so
        the length of the runqueue is unknown until the next count, unless there was a count after the task was started.
        """
        table = self.hidden.found(ts, kind, w1, cpu)
        lossy = [c for c, n in self.lost.items() if n]
        table = table.filter(~pl.col("cpu").is_in(lossy)).with_columns(line=pl.col("row") + line)
        if "nr_running" not in self.kinds:
            self.facts.lost.update(table["cpu"].to_list())
            one = pl.lit(1, pl.Int64)
            return table.select("ts_ns", "cpu", "line", kind=pl.lit("lost"), value=one)
        self.unseen += table.height
        switches = table.select(
            "ts_ns", "cpu", "prev_pid", "pid", "line", kind=pl.lit("switch"), prev_state=pl.lit("S")
        )
        unknown = table.filter("uncounted").select(
            "ts_ns", "cpu", "line", kind=pl.lit("nr_running"), nr_running=pl.lit(None, pl.Int32)
        )
        return pl.concat([switches, unknown], how="diagonal")

    def finish(self) -> pl.DataFrame:
        """Note how the capture ended, and return the losses that no record states."""
        facts, meta = self.facts, self.meta
        for cpu, n in self.lost.items():
            if n:
                facts.lost[cpu] = n
        notes = facts.notes
        if self.end is None:
            facts.truncated = notes["cut"] = (
                "the capture was cut: its end is missing (the collector was killed, or the machine went down)"
            )
        else:
            notes["ended"] = str(self.end.get("why", ""))
            if notes["ended"] in (DISK_FULL, DAMAGED):
                facts.truncated = f"the end of the capture is missing ({notes['ended']})"
        notes["snapshot"] = str(meta.get("snapshot", ""))
        if meta.get("missing"):
            notes["missing"] = ", ".join(meta["missing"])
        if meta.get("frequency_source") is not None:
            notes["frequency"] = meta["frequency_source"] or NO_FREQUENCY
        if self.unseen:
            notes["unseen_switches"] = (
                f"{self.unseen} switches happened but were not recorded (this kernel hides some); they were inserted"
            )
        if meta.get("delayed_dequeue"):
            notes["nr_running"] = (
                "counts sleeping tasks that delayed dequeue leaves on the runqueue for a while (Linux 6.12 and later); "
                "switch and wakeup events tell who really waits"
            )
        if self.flight:
            notes["flight_recorder"] = f"the last {meta['flight_s']} s before it was written"
        open_loss = {c: n - self.stated.get(c, 0) for c, n in self.lost.items()}
        unstated = {c: n for c, n in open_loss.items() if n > 0}
        table = pl.DataFrame(
            {
                "ts_ns": [self.t0 + self.now] * len(unstated),
                "kind": ["lost"] * len(unstated),
                "cpu": list(unstated),
                "value": list(unstated.values()),
            },
            schema={"ts_ns": pl.Int64, "kind": pl.String, "cpu": pl.Int32, "value": pl.Int64},
        )
        return _finish([table])


def _finish(frames: list[pl.DataFrame]) -> pl.DataFrame:
    if not frames:
        return pl.DataFrame(schema={"ts_ns": pl.Int64, "kind": KIND_DTYPE, "line": pl.Int64})
    whole = []
    for frame in frames:
        number = [] if "line" in frame.columns else [pl.lit(0, pl.Int64).alias("line")]
        table = frame.with_columns(pl.col("kind").cast(KIND_DTYPE), *number)
        if "cpu_mask" in frame.columns:  # null: words of the mask were overwritten
            table = table.filter(pl.col("cpu_mask").is_not_null())
        whole.append(table)
    table = pl.concat(whole, how="diagonal_relaxed")
    return table.sort("ts_ns", "line", maintain_order=True)
