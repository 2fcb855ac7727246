"""Reads SchedLog's rings: one file of 24-byte records per CPU, as ``sched_log dump-raw`` copies them from debugfs.

No real recording was ever read. The tests make rings from the kernel patch.

A record is ``u64 timestamp; s32 pid; s32 event; s32 arg0, arg1``, little-endian (carverdamien/SchedLog,
kernel/sched/log.h @0a82429c: struct sched_log_tracer_entry). A file holds the ring of one CPU and nothing else, with the oldest
record first, and its name is the CPU's number (log.c @04d55281: shed_log_tracer_seq_show_raw;
tools/sched_log/sched_log @eb6382b4). The fields of each event are in log.c: sched_log_traced_event_str; they are
recorded in core.c @1161be65 and sched.h @a6c25b92. Runqueue sizes are recorded as they change (add_nr_running, sub_nr_running).

Event numbers differ from version to version. A copy of ``/proc/sched_log_traced_events`` near the rings states them
(carverdamien/RecordSchedLog, monitoring/SchedLog/start, keeps one). Without a copy, the reader chooses the known numbering
under which successive context switches and runqueue sizes are consistent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import TraceContentError, TraceFormatError, WastedCoresError
from wastedcores.files import digest_of_files
from wastedcores.limits import PID_MAX_LIMIT
from wastedcores.trace.readers.support.reading import FactsBuilder, Reading

#: struct sched_log_tracer_entry, kernel/sched/log.h
RECORD = np.dtype(
    [("ts", "<u8"), ("pid", "<i4"), ("event", "<i4"), ("arg0", "<i4"), ("arg1", "<i4")]
)
#: Number of records that are decoded at a time.
BATCH_RECORDS = 1 << 19
#: No version of SchedLog has more kinds of events.
_EVENTS = 64
#: Places of the rings below the folder to which a recording was written.
_BELOW = ("", "raw", "tracer", "sched_log/tracer", "tracer-raw", "sched_monitor/tracer-raw")
_TABLE = "sched_log_traced_events"

_TASKS = ("EXEC", "EXIT", "WAKEUP", "WAKEUP_NEW", "BLOCK", "BLOCK_IO")
_FUTEX = ("WAIT_FUTEX", "WAKE_FUTEX", "WAKER_FUTEX")
_BALANCING = ("IDL_BLN_FAIR_BEG", "IDL_BLN_FAIR_END", "PER_BLN_FAIR_BEG", "PER_BLN_FAIR_END")
#: Version -> names of its events by number.
NUMBERINGS: dict[str, tuple[str, ...]] = {
    "kernel/sched/log.h @0a82429c": (
        *_TASKS, "FORK", "WAIT_PID", "TICK", "CTX_SWITCH", "MIGRATE", "RQ_SIZE", *_BALANCING, *_FUTEX,
    ),
    "kernel/sched/log.h, before WAIT_PID": (
        *_TASKS, "FORK", "TICK", "CTX_SWITCH", "MIGRATE", "RQ_SIZE", *_FUTEX,
    ),
    "carverdamien/SchedDisplay's defaults": (
        *_TASKS, *_FUTEX, "FORK", "TICK", "CTX_SWITCH", "MIGRATE", "RQ_SIZE", *_BALANCING,
    ),
}  # fmt: skip


class Ring(NamedTuple):
    """The records of one CPU's file, mapped."""

    cpu: int
    path: Path
    records: NDArray[np.void]


class SchedLogReading(Reading):
    """One pass over the rings of a folder. If one ring is given, all rings beside it are read, too. A "line" is a record."""

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "schedlog")

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in order of time."""
        rings, facts = self._open(), self.found
        online = {r.cpu for r in rings}
        rings = [r for r in rings if r.records.size]
        version, names = _numbering(self.path, rings)
        facts.notes["event_numbers"] = version
        facts.clock = "local_clock"
        # dump-raw copies the rings of the CPUs 0 to nproc - 1
        if online == set(range(len(online))):
            facts.cpus = len(online)
        _losses(rings, facts)
        _gaps(rings, names, facts)
        run = _Decoder(names, rings, facts)
        for pieces in _slices(rings):
            yield run.events(pieces)
        facts.every_switch = run.blocks and "CTX_SWITCH" in run.seen and not facts.overwritten

    def _open(self) -> list[Ring]:
        """Map all rings."""
        files = ring_files(self.path)
        if not files:
            raise TraceFormatError(
                f"{self.path}: this is a ring of SchedLog, but its name is not the number of its CPU, and nothing in "
                "it says which CPU that is. Keep the names that `sched_log dump-raw` gives (0, 1, 2, ...)."
            )
        rings = [
            Ring(int(f.name), f, self._map(f)) for f in sorted(files, key=lambda f: int(f.name))
        ]
        self.found.lines = sum(r.records.size for r in rings)
        self.found.sha256 = digest_of_files(files)
        return rings

    def _map(self, file: Path) -> NDArray[np.void]:
        try:
            size = file.stat().st_size
            whole = size // RECORD.itemsize
            if size % RECORD.itemsize:
                rest = f"{size % RECORD.itemsize} bytes at the end of {file.name}"
                self.found.truncated = f"line {whole + 1} has no end and was left out: {rest!r}"
                if file.name.isdecimal():  # events of this CPU after the end of its ring are lost
                    self.found.add_lost(int(file.name), -1)
            if not whole:
                return np.zeros(0, RECORD)
            records: NDArray[np.void] = np.memmap(file, RECORD, "r", shape=(whole,))
        except (OSError, ValueError) as e:
            raise WastedCoresError(f"{file}: cannot be mapped ({e}).") from e
        if not _sane(records[: 1 << 12]):
            raise TraceFormatError(
                f"{file}: not a ring of SchedLog; expected {RECORD.itemsize}-byte records of time, pid, event and two "
                "arguments. Where the kernel offers no raw rings, `sched_log dump-raw` copies text: record with a "
                "kernel that has debugfs sched_log/tracer/raw."
            )
        return records


def looks_like(path: Path) -> bool:
    """Return whether this is a ring of SchedLog or a folder of rings; the folder above ``sched_log/tracer`` is one, too."""
    try:
        if not path.is_dir():
            return _ring_begins(path)
        return any(_ring_begins(f) for f in ring_files(path))
    except OSError:
        return False


def ring_files(path: Path) -> list[Path]:
    """Return the files whose name is a number: those in the folder or in a known place below it, or those next to the file."""
    places = [path / below for below in _BELOW] if path.is_dir() else [path.parent]
    if not path.is_dir() and not path.name.isdecimal():
        return []
    for place in places:
        if place.is_dir():
            files = [f for f in place.iterdir() if f.name.isdecimal() and f.is_file()]
            if files:
                return files
    return []


def _ring_begins(file: Path) -> bool:
    with file.open("rb") as f:
        raw = f.read(RECORD.itemsize << 10)
    records = np.frombuffer(raw, RECORD, len(raw) // RECORD.itemsize)
    return records.size > 1 and bool(records["ts"][-1] > records["ts"][0]) and _sane(records)


def _sane(records: NDArray[np.void]) -> bool:
    """Return whether these bytes can be records: possible numbers, in the order of time."""
    ts = records["ts"].astype(np.int64)
    return bool(
        (ts > 0).all()
        and (records["event"] >= 0).all()
        and (records["event"] < _EVENTS).all()
        and (records["pid"] >= 0).all()
        and (records["pid"] < PID_MAX_LIMIT).all()
        and (np.diff(ts) > -1_000_000_000).all()
    )


def _numbering(path: Path, rings: list[Ring]) -> tuple[str, tuple[str, ...]]:
    """Return where the meaning of the event numbers comes from, and the name of each event."""
    here = path if path.is_dir() else path.parent
    for place in (here, *list(here.absolute().parents)[:2]):
        for file in sorted(place.glob(f"{_TABLE}*")):
            return f"from {file.name}", _read_table(file)
    fits = {version: _fits(names, rings) for version, names in NUMBERINGS.items()}
    version = max(fits, key=fits.__getitem__)
    if not fits[version]:
        ids = sorted(set().union(*(np.unique(r.records["event"]).tolist() for r in rings)))
        raise TraceFormatError(
            f"{path}: the event numbers in these rings ({', '.join(map(str, ids))}) mean different things in different "
            "versions of SchedLog and fit none that is known here. Put that kernel's /proc/sched_log_traced_events "
            f"next to the rings as {_TABLE}."
        )
    return f"those of {version} (they fit; there is no {_TABLE} next to the rings)", NUMBERINGS[
        version
    ]


def _read_table(file: Path) -> tuple[str, ...]:
    """Read the kernel's own table: lines of "number NAME" (log.c: sched_log_traced_events_proc_show)."""
    names: dict[int, str] = {}
    for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) < 2 or not words[0].isdecimal() or int(words[0]) >= _EVENTS:
            raise TraceFormatError(
                f"{file}, line {number}: expected the number of an event and its name, got {line[:60]!r}. It should "
                "be a copy of /proc/sched_log_traced_events."
            )
        names[int(words[0])] = words[1]
    return tuple(names.get(i, f"event {i}") for i in range(max(names, default=-1) + 1))


def _fits(names: tuple[str, ...], rings: list[Ring]) -> int:
    """Count the records that fit their predecessors under a numbering; return 0 if more than a tenth do not fit."""
    good, of = [0, 0], [0, 0]
    for ring in rings:
        r = ring.records
        if int(r["event"].max()) >= len(names):
            return 0
        for i, broken in enumerate(_breaks(ring, names)):
            good[i] += int((~broken).sum())
            of[i] += broken.size
    return sum(good) if all(10 * g >= 9 * n for g, n in zip(good, of, strict=True)) else 0


def _losses(rings: list[Ring], facts: FactsBuilder) -> None:
    """Find rings that were overwritten: the kernel fills a buffer except for one record (log.h: __sched_log_trace).

    The buffer has a whole number of MiB (CONFIG_SCHED_LOG_TRACER_BUFFER_SIZE), so the size of a ring shows whether it is full.
    Only the text logs say how many records a ring lost.
    """
    for ring in rings:
        used = (ring.records.size + 1) * RECORD.itemsize
        mib = -(-used >> 20)
        if mib and ring.records.size + 1 == (mib << 20) // RECORD.itemsize:
            facts.overwritten[ring.cpu] = -1
            facts.add_lost(ring.cpu, -1)
    if facts.overwritten:
        facts.notes["full_rings"] = (
            f"{len(facts.overwritten)} of {len(rings)} rings are full: their oldest events were overwritten, and only "
            "the text logs say how many"
        )


def _gaps(rings: list[Ring], names: tuple[str, ...], facts: FactsBuilder) -> None:
    """Count a loss wherever a record does not fit the previous record on its CPU, because something in between is missing."""
    for ring in rings:
        switches, sizes = _breaks(ring, names)
        n = int(switches.sum() + sizes.sum())
        if n:
            facts.add_lost(ring.cpu, n)
            facts.notes["gaps"] = (
                "records do not follow from one another: some between them are missing or damaged"
            )


def _breaks(ring: Ring, names: tuple[str, ...]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which switches, and which records of a runqueue's size, contradict the previous record of the same kind.

    A switch must stop the task that the previous switch started. A record of a size must begin from the size that the previous
    record of the same runqueue states.
    """
    r = ring.records
    number = {name: i for i, name in enumerate(names)}
    s = r[r["event"] == number.get("CTX_SWITCH", -1)]
    q = r[r["event"] == number.get("RQ_SIZE", -1)]
    was = q["arg0"].astype(np.int64) - q["arg1"]
    return s["arg0"][:-1] != s["pid"][1:], (was[1:] != q["arg0"][:-1]) | (q["arg1"][1:] == 0)


def _slices(rings: list[Ring]) -> Iterator[list[tuple[Ring, slice]]]:
    """Cut all rings at the same times; the pieces between two cuts have about :data:`BATCH_RECORDS` records together."""
    if not rings:
        return
    low = min(int(r.records["ts"].min()) for r in rings)
    high = max(int(r.records["ts"].max()) for r in rings) + 1
    if high >= 1 << 63:
        raise TraceContentError(
            f"{rings[0].path.parent}: a time of {high - 1} ns does not fit 63 bits; a ring is damaged."
        )
    parts = max(1, sum(r.records.size for r in rings) // BATCH_RECORDS)
    edges = np.linspace(low, high, parts + 1).astype(np.uint64)
    edges[-1] = high
    # other CPUs write wakeups into a ring with the time of their own clock, so time can step back a little within a ring
    cuts = [np.searchsorted(np.maximum.accumulate(r.records["ts"]), edges) for r in rings]
    for cut in cuts:
        cut[0] = 0
    for i in range(parts):
        yield [(r, slice(int(c[i]), int(c[i + 1]))) for r, c in zip(rings, cuts, strict=True)]


class _Decoder:
    """Decodes pieces of rings, and remembers the names of tasks and which tasks blocked."""

    def __init__(self, names: tuple[str, ...], rings: list[Ring], facts: FactsBuilder) -> None:
        self.names, self.facts = names, facts
        self.number = {name: i for i, name in enumerate(names)}
        self.blocking = [self.number[n] for n in ("BLOCK", "BLOCK_IO") if n in self.number]
        self.seen: Counter[str] = Counter()
        self.pending: dict[int, tuple[int, int]] = {}
        execs = []
        self.blocks = False
        for ring in rings:
            event = ring.records["event"]
            execs.append(ring.records[event == self.number.get("EXEC", -1)])
            self.blocks |= bool(np.isin(event, self.blocking).any())
        self.execs = (
            _exec_names(np.concatenate(execs)) if execs else _exec_names(np.zeros(0, RECORD))
        )

    def events(self, pieces: list[tuple[Ring, slice]]) -> pl.DataFrame:
        """Return the events of one slice of time, in order."""
        records = np.concatenate([r.records[s] for r, s in pieces])
        cpu = np.repeat([r.cpu for r, _ in pieces], [s.stop - s.start for _, s in pieces])
        line = np.concatenate([np.arange(s.start, s.stop) + 1 for _, s in pieces])
        state = np.concatenate([self._left_in(r.cpu, r.records[s]) for r, s in pieces])
        frames = []
        for number in np.unique(records["event"]).tolist():
            name = self.names[number] if number < len(self.names) else f"event {number}"
            at = np.flatnonzero(records["event"] == number)
            self.seen[name] += at.size
            columns = self._columns(name, records[at], cpu[at].astype(np.int32), state[at])
            if columns is None:
                self.facts.skipped[name] += at.size
                continue
            kept = columns.with_columns(
                ts_ns=pl.Series(records["ts"][at].astype(np.int64)), line=pl.Series(line[at])
            )
            # a tick has no frequency if the CPU cannot count cycles
            frames.append(kept.filter(pl.col("value") > 0) if name == "TICK" else kept)
        if not frames:
            return pl.DataFrame(schema={"ts_ns": pl.Int64, "kind": pl.String, "line": pl.Int64})
        table = pl.concat(frames, how="diagonal_relaxed").sort("ts_ns", "line", maintain_order=True)
        return self._named(table)

    def _left_in(self, cpu: int, piece: NDArray[np.void]) -> NDArray[np.str_]:
        """Return the state in which each switch leaves its task: S or D if the task blocked since the last switch, else R."""
        event, pid = piece["event"], piece["pid"]
        state = np.full(piece.size, "R")
        switches = np.flatnonzero(event == self.number.get("CTX_SWITCH", -1))
        blocks = np.flatnonzero(np.isin(event, self.blocking))
        last = np.searchsorted(blocks, switches) - 1
        before = np.concatenate([[-1], switches[:-1]]) if switches.size else switches
        if blocks.size:
            block = blocks[np.maximum(last, 0)]
            hit = (last >= 0) & (block > before) & (pid[block] == pid[switches])
            in_io = event[block] == self.number.get("BLOCK_IO", -1)
            state[switches[hit]] = np.where(in_io[hit], "D", "S")
        held = self.pending.pop(cpu, None)
        if held and switches.size and held[0] == pid[switches[0]] and state[switches[0]] == "R":
            state[switches[0]] = "D" if held[1] == self.number.get("BLOCK_IO", -1) else "S"
        if blocks.size and (not switches.size or blocks[-1] > switches[-1]):
            self.pending[cpu] = (int(pid[blocks[-1]]), int(event[blocks[-1]]))
        elif held and not switches.size:
            self.pending[cpu] = held
        return state

    def _columns(
        self, name: str, r: NDArray[np.void], cpu: NDArray[np.int32], state: NDArray[np.str_]
    ) -> pl.DataFrame | None:
        """Return the columns of one kind of event (log.c: sched_log_traced_event_str); None: the schema has no place for it."""
        pid, arg0, arg1 = r["pid"], r["arg0"], r["arg1"]
        if name == "RQ_SIZE":
            return _table("nr_running", cpu=cpu, nr_running=arg0)
        if name == "CTX_SWITCH":
            if not self.blocks:
                self.facts.notes["switches"] = (
                    "left out: BLOCK events were not recorded, so who waits and who sleeps is not known"
                )
                return None
            return _table("switch", cpu=cpu, pid=arg0, prev_pid=pid, prev_state=state.tolist())
        if name in ("WAKEUP", "WAKEUP_NEW"):
            return _table(name.lower(), cpu=cpu, pid=pid)
        if name == "MIGRATE":
            return _table("migrate", cpu=arg1, src_cpu=arg0, pid=pid)
        if name == "FORK":
            return _table("fork", cpu=cpu, pid=pid, by_pid=arg0)
        if name in ("EXEC", "EXIT"):
            return _table(name.lower(), cpu=cpu, pid=pid)
        if name == "TICK":  # core.c: my_aperfmperf_get_khz
            return _table("frequency", cpu=cpu, value=arg1.astype(np.int64))
        if "_BLN_" in name:
            return _table("balance", cpu=cpu, pid=pid, op=[name.lower()] * r.size)
        return None

    def _named(self, table: pl.DataFrame) -> pl.DataFrame:
        """Add the names of tasks that an earlier exec states."""
        for who, comm in (("pid", "comm"), ("prev_pid", "prev_comm"), ("by_pid", "by_comm")):
            if who in table.columns and self.execs.height:
                table = table.join_asof(
                    self.execs.rename({"pid": who, "comm": comm}),
                    on="ts_ns",
                    by=who,
                    check_sortedness=False,
                )
        return table


def _table(kind: str, **columns: object) -> pl.DataFrame:
    return pl.DataFrame(columns).with_columns(kind=pl.lit(kind))


def _exec_names(execs: NDArray[np.void]) -> pl.DataFrame:
    """Return (ts_ns, pid, comm), by time. A name has eight letters: four in arg1, then four in arg0 (core.c: sched_exec)."""
    letters = np.stack([execs["arg1"], execs["arg0"]], axis=1).astype("<i4").tobytes()
    comm = [
        letters[i : i + 8].split(b"\0")[0].decode("utf-8", "replace")
        for i in range(0, len(letters), 8)
    ]
    return pl.DataFrame(
        {"ts_ns": execs["ts"].astype(np.int64), "pid": execs["pid"], "comm": comm},
        schema={"ts_ns": pl.Int64, "pid": pl.Int32, "comm": pl.String},
    ).sort("ts_ns", maintain_order=True)
