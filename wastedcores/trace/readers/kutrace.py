"""Reads KUtrace's JSON of time spans, which ``eventtospan3`` writes and ``show_cpu.html`` draws, and the page that has both.

Format: dicksites/KUtrace, postproc/eventtospan3.cc @01e5bd54 (InitialJson, WriteSpanJson2, FinalJson); numbers of events:
postproc/kutrace_lib.h @16e9e0bc. A span is one line,

    [ ts, duration, cpu, pid, rpcid, event, arg, retval, ipc, "name"],

in seconds of a minute, to 10 ns. Spans of executing code cover all time of every CPU. Between two spans of different
threads is a context switch. KUtrace knows no runqueues. It states that a thread waits for a CPU (``wait_cpu``) from its
wakeup, or from its preemption, until it runs. It does not state on which runqueue the thread waits. The reader assumes:

* A preempted thread waits on the CPU on which it was stopped.
* A woken thread waits on the CPU on which it runs next, unless that CPU had been idle for more than :data:`IDLE_NS` of
  the wait. An idle CPU would have started a thread on its own runqueue sooner, so it took this thread from another runqueue.
  This is taken to be the runqueue of the CPU on which the thread ran last.

A pid has 16 bits here (PidToEventnum). A trace is never larger than what a browser can draw, so it is held in memory.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.errors import TraceFormatError
from wastedcores.trace.readers.support.embedded import kutrace_json
from wastedcores.trace.readers.support.reading import FactsBuilder
from wastedcores.trace.readers.support.text_reading import Block, TextReading, split_lines
from wastedcores.trace.recognisers import KUTRACE_SPAN, is_page

_HEAD_ENDS = r"\"events\"\s*:\s*\["
_BEGINS = r"^\s*(?:\{.*\"events\"\s*:\s*\[)?\s*\[\s*\d"

# kutrace_lib.h: KUTRACE_*
RUNNABLE, MWAIT, PSTATE, PSTATE2 = 0x206, 0x208, 0x209, 0x21C
MARK_A, MARK_D = 0x20A, 0x20D
WAIT_CPU = 0x300 + ord("c") - ord("a")
IRQ, AFTER_IRQ, SYSCALL, SCHED = 0x500, 0x600, 0x800, 0x9FF
TRAP = 0x400  # code that a CPU executes has this event number or a higher one
IDLE = 0x10000  # this number plus the pid is the event number of user code
#: eventtospan3.cc ends the file with a dummy span at this second.
END_S = 999
#: eventtospan3.cc lets a wait begin 10 ns late, and a wakeup itself takes 10 ns.
STEP_NS = 10
#: eventtospan3.cc leaves out waits that are shorter than this (kMIN_WAIT_DURATION).
SHORT_NS = 100
#: Four times the longest exit latency of a sleep state that KUtrace knows (kLatencyTable).
IDLE_NS = 1_000_000

#: The most spans that are held in memory, where each needs about 500 bytes.
MAX_SPANS = 4_000_000

_SCHEMA = {
    "ts_ns": pl.Int64, "dur_ns": pl.Int64, "cpu": pl.Int32, "pid": pl.Int32, "event": pl.Int32, "arg": pl.Int64,
    "name": pl.String, "line": pl.Int64,
}  # fmt: skip


def complete(line: str) -> bool:
    """Return whether a last line without a newline is whole."""
    return line.rstrip().endswith(("]}", "],", "]"))


class KUtraceReading(TextReading):
    """One pass over KUtrace's JSON."""

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "kutrace", complete, hashed=hashed)

    def _text_in(self, stream: IO[bytes]) -> IO[bytes]:
        start = cast(io.BufferedReader, stream).peek(1 << 10)
        return kutrace_json(stream) if is_page(start) else stream

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield one event table, in order of time."""
        parts: list[pl.DataFrame] = []
        head = ""
        first: int | None = None
        ended = False
        for block in self.blocks():
            if not parts:
                head += block.text(1 << 16)
            if not ended:
                spans, ended = _spans(self.path, block)
                first = spans["line"][0] if first is None and spans.height else first
                _require_head_before(self.path, block, first)
                parts.append(spans)
                if sum(p.height for p in parts) > MAX_SPANS:
                    raise TraceFormatError(
                        f"{self.path}, line {self.found.lines}: more than {MAX_SPANS} spans, which no browser can draw and "
                        "which are held in memory here. Cut the trace, for instance with KUtrace's spantotrim."
                    )
        _facts(head, self.found)
        spans = pl.concat(parts) if parts else pl.DataFrame(schema=_SCHEMA)
        if not ended and spans.height:
            self.found.truncated = self.found.truncated or (
                f"the spans stop at line {spans['line'][-1]} without KUtrace's end mark ({END_S}.0)"
            )
        if spans.height:
            yield _events(spans, self.found)


def _require_head_before(path: Path, block: Block, first: int | None) -> None:
    """Refuse a file whose head ends after its first span, because its lines are out of order and some may be missing."""
    ends = split_lines(block).filter(pl.col("text").str.contains(_HEAD_ENDS))["line"]
    if first is not None and ends.len() and ends[-1] > first:
        raise TraceFormatError(
            f"{path}, line {ends[-1]}: the head ends here, but line {first} is a span already. Expected all spans after "
            '"events" : [, as eventtospan3 and sort write them. The file is damaged: make it again.'
        )


def _spans(path: Path, block: Block) -> tuple[pl.DataFrame, bool]:
    """Return the spans of a block of lines, and whether the last span is among them."""
    lines = split_lines(block).filter(pl.col("text").str.contains(_BEGINS))
    fields = lines.select(
        "line", "text", pl.col("text").str.extract_groups(KUTRACE_SPAN).alias("f")
    ).unnest("f")
    last = (pl.col("sec").cast(pl.Int64, strict=False) >= END_S) & (pl.col("name") == "")
    over = fields.select(at=last.arg_max(), any=last.any()).row(0)
    if over[1]:  # other data such as savedview follow
        fields = fields.head(over[0])
    bad = fields.filter(pl.col("name").is_null())
    if bad.height:
        raise TraceFormatError(
            f"{path}, line {bad['line'][0]}: not a span of KUtrace: {bad['text'][0][-120:]!r}. Expected "
            '[ts, duration, cpu, pid, rpcid, event, arg, retval, ipc, "name"], with numbers, as eventtospan3 writes it.'
        )

    def nanoseconds(whole: str, fraction: str) -> pl.Expr:
        digits = pl.col(fraction).str.pad_end(9, "0").cast(pl.Int64)
        return pl.col(whole).cast(pl.Int64) * 1_000_000_000 + digits

    big = fields.filter(pl.any_horizontal(pl.col("sec", "dsec").str.len_bytes() > 9))
    if big.height:
        raise TraceFormatError(
            f"{path}, line {big['line'][0]}: a time of {big['sec'][0]} s; KUtrace counts the seconds of a minute."
        )
    table = fields.select(
        "line",
        "name",
        ts_ns=nanoseconds("sec", "frac"),
        dur_ns=nanoseconds("dsec", "dfrac"),
        **{c: pl.col(c).cast(pl.Int64, strict=False) for c in ("cpu", "pid", "event", "arg")},
    )
    return table.select(pl.col(c).cast(t, strict=False) for c, t in _SCHEMA.items()), bool(over[1])


def _facts(head: str, facts: FactsBuilder) -> None:
    """Note the facts that come before the spans."""
    text, found, _ = head.partition('"events"')
    try:
        about = json.loads(text.rstrip().rstrip(",") + "}") if found else {}
    except (ValueError, RecursionError):
        about = {}
    facts.kernel_release = str(about["kernelVersion"]) if about.get("kernelVersion") else None
    minute = about.get("tracebase")
    facts.clock = f"seconds since {minute}" if minute else "seconds of a minute"
    for key in ("title", "cpuModelName", "hostName"):
        if about.get(key):
            facts.notes[key] = str(about[key])
    facts.notes["placement"] = (
        "KUtrace knows no runqueues: a woken thread is taken to wait where it ran next (where it ran before, if the "
        f"next CPU idled for {IDLE_NS / 1e6:.0f} ms of the wait), a preempted one where it was stopped"
    )
    facts.notes["pids"] = "KUtrace keeps the last 16 bits of a pid"


def _events(spans: pl.DataFrame, facts: FactsBuilder) -> pl.DataFrame:
    runs = _runs(spans)
    if not runs.height:
        return pl.DataFrame(schema={"ts_ns": pl.Int64, "kind": pl.String, "line": pl.Int64})
    runs = _waits(_neighbours(runs), spans)
    facts.every_switch = True
    wakeups = _wakeups(spans, runs)
    unplaced = wakeups.filter(pl.col("cpu").is_null()).height
    if unplaced:
        facts.skipped["runnable (of a thread that is never seen to run)"] += unplaced
    end = runs["end"].max()
    entries, exits = _transitions(spans)
    frames = [
        exits,
        _first(runs),
        _idle_states(spans),
        wakeups.filter(pl.col("cpu").is_not_null()),
        _moves(runs),
        _switches(runs),
        _frequencies(spans),
        _marks(spans),
        pl.DataFrame({"ts_ns": [end], "kind": ["mark"], "text": ["KUtrace: end of the trace"]}),
        entries,
    ]
    table = pl.concat(
        [f.with_columns(rank=pl.lit(i, pl.Int8)) for i, f in enumerate(frames)],
        how="diagonal_relaxed",
    )
    return table.sort("ts_ns", "rank", maintain_order=True).drop("rank")


def _runs(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the stays of threads on CPUs: cpu, pid, start, end (ns), comm, line. Pid 0 means that the CPU is idle."""
    executing = spans.filter(pl.col("event") >= TRAP, pl.col("cpu") >= 0).sort(
        "cpu", "ts_ns", maintain_order=True
    )
    user = (pl.col("event") > IDLE) & (pl.col("event") < 2 * IDLE)
    changes = (pl.col("pid") != pl.col("pid").shift(1)) | (pl.col("cpu") != pl.col("cpu").shift(1))
    runs = (
        executing.with_columns(
            run=changes.fill_null(True).cum_sum(),
            comm=pl.when(user).then(pl.col("name").str.replace(r"\.\d+$", "")),
        )
        .group_by("run", maintain_order=True)
        .agg(
            pl.col("cpu", "pid").first(),
            pl.col("comm").drop_nulls().first(),
            start=pl.col("ts_ns").first(),
            end=(pl.col("ts_ns") + pl.col("dur_ns")).max(),
            line=pl.col("line").first(),
        )
    )
    # spans of kernel code do not name their thread; its spans of user code in other stays do
    named = pl.col("comm").forward_fill().backward_fill().over("pid")
    return runs.sort("start", maintain_order=True).with_columns(
        comm=pl.when(pl.col("pid") > 0).then(named)
    )


def _neighbours(runs: pl.DataFrame) -> pl.DataFrame:
    """Add to each stay the CPU and the end of the thread's previous stay (``was_*``) and the start of its next stay."""
    before = [pl.col(c).shift(1).over("pid").alias(f"was_{c}") for c in ("cpu", "end")]
    return runs.with_columns(*before, next_start=pl.col("start").shift(-1).over("pid"))


def _waits(runs: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Add the wait that ended when each stay began: its start (null: no wait), whether it began by preemption, and its CPU."""
    waits = (
        spans.filter(pl.col("event") == WAIT_CPU)
        .select("pid", start=pl.col("ts_ns") + pl.col("dur_ns"), wait_start="ts_ns")
        .unique(["pid", "start"], keep="first")
    )
    runs = runs.join(waits, on=["pid", "start"], how="left", maintain_order="left")
    since = pl.col("wait_start") - pl.col("was_end")
    runs = runs.with_columns(preempted=(since <= STEP_NS).fill_null(False))
    idle = pl.Series(_idle_in(runs))
    elsewhere = pl.col("preempted") | (idle > IDLE_NS)
    return runs.with_columns(
        wait_cpu=pl.when(elsewhere).then(pl.coalesce("was_cpu", "cpu")).otherwise(pl.col("cpu"))
    )


def _idle_in(runs: pl.DataFrame) -> NDArray[np.int64]:
    """Return for how long each stay's CPU was idle while the thread waited: (stays,) ns."""
    out = np.zeros(runs.height, np.int64)
    start, end = runs["start"].to_numpy(), runs["end"].to_numpy()
    cpu, pid = runs["cpu"].to_numpy(), runs["pid"].to_numpy()
    since = runs.select(pl.coalesce("wait_start", "start")).to_series().to_numpy()
    for c in np.unique(cpu):
        mine = np.flatnonzero(cpu == c)  # in order of time
        idle = mine[pid[mine] == 0]
        if not idle.size:
            continue
        total = np.concatenate([[0], np.cumsum(end[idle] - start[idle])])

        def until(
            t: NDArray[np.int64], idle: NDArray[np.intp] = idle, total: NDArray[np.int64] = total
        ) -> NDArray[np.int64]:
            k = np.searchsorted(start[idle], t, side="right")
            last = np.maximum(k - 1, 0)
            # the rest of the idle stay that contains t
            spare = np.maximum(end[idle][last] - t, 0)
            return np.where(k > 0, total[k] - np.where(k > 0, spare, 0), 0)

        out[mine] = until(start[mine]) - until(since[mine])
    return out


def _wakeups(spans: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return the wakeups (``runnable``) of sleeping threads; ``cpu`` is null for a thread that is never seen to run."""
    woken = spans.filter(pl.col("event") == RUNNABLE).select(
        "ts_ns", "line", src_cpu="cpu", by_pid="pid", pid=pl.col("arg").cast(pl.Int32, strict=False)
    )
    stays = runs.filter(pl.col("pid") > 0).sort("start")
    woken = woken.filter(pl.col("pid") > 0).sort("ts_ns", maintain_order=True)
    last = stays.select("pid", "comm", ran_from="start", ran_until="end", ran_on="cpu")
    woken = woken.join_asof(
        last, left_on="ts_ns", right_on="ran_from", by="pid", check_sortedness=False
    )
    coming = stays.select("pid", runs_at="start", waits_on="wait_cpu", will_be=pl.col("comm"))
    woken = woken.join_asof(
        coming,
        left_on="ts_ns",
        right_on="runs_at",
        by="pid",
        strategy="forward",
        check_sortedness=False,
    )
    asleep = (pl.col("ran_until") <= pl.col("ts_ns")).fill_null(True)
    return woken.filter(asleep).select(
        "ts_ns",
        "line",
        "pid",
        "src_cpu",
        "by_pid",
        kind=pl.lit("wakeup"),
        comm=pl.coalesce("comm", "will_be"),
        cpu=pl.coalesce("waits_on", "ran_on"),
    )


def _moves(runs: pl.DataFrame) -> pl.DataFrame:
    """Return a migration, at the latest possible time, for each thread that waited on one CPU and then ran on another."""
    moved = runs.filter(
        pl.col("wait_start").is_not_null(), pl.col("pid") > 0, pl.col("wait_cpu") != pl.col("cpu")
    )
    return moved.select(
        "line", "pid", "comm", "cpu", ts_ns="start", kind=pl.lit("migrate"), src_cpu="wait_cpu"
    )


def _switches(runs: pl.DataFrame) -> pl.DataFrame:
    """Return a switch between each two stays on a CPU; the thread that it stops is still runnable if its wait begins then."""
    runs = runs.with_columns(
        next_preempted=pl.col("preempted").shift(-1).over("pid"),
        next_waits=pl.col("wait_start").is_not_null().shift(-1).over("pid"),
    )
    # waits shorter than 100 ns are not in the file
    at_once = ~pl.col("next_waits") & (pl.col("next_start") - pl.col("end") < SHORT_NS)
    stays = (pl.col("pid") == 0) | pl.col("next_preempted") | at_once
    runs = runs.with_columns(
        left_in=pl.when(stays.fill_null(False)).then(pl.lit("R")).otherwise(pl.lit("S"))
    )
    earlier = {"prev_pid": "pid", "prev_comm": "comm", "prev_state": "left_in"}
    runs = runs.sort("cpu", "start", maintain_order=True).with_columns(
        pl.col(c).shift(1).over("cpu").alias(name) for name, c in earlier.items()
    )
    return runs.filter(pl.col("prev_pid").is_not_null()).select(
        "line", "cpu", "pid", "comm", *earlier, ts_ns="start", kind=pl.lit("switch")
    )


def _first(runs: pl.DataFrame) -> pl.DataFrame:
    """Return events that state what each CPU runs in its first stay, because a CPU may have no switch at all."""
    first = (
        runs.sort("cpu", "start", maintain_order=True).group_by("cpu", maintain_order=True).first()
    )
    idle = pl.col("pid") == 0
    return first.select(
        "line",
        "cpu",
        ts_ns="start",
        kind=pl.when(idle).then(pl.lit("cpu_idle")).otherwise(pl.lit("task_state")),
        pid=pl.when(~idle).then("pid"),
        comm=pl.when(~idle).then("comm"),
        prev_state=pl.when(~idle).then(pl.lit("running")),
        value=pl.when(idle).then(pl.lit(0, pl.Int64)),
    )


def _idle_states(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the times at which CPUs enter idle states (mwait, with its hint) and at which they leave low power."""
    enter = spans.filter(pl.col("event") == MWAIT).select(
        "line", "ts_ns", "cpu", value="arg", kind=pl.lit("cpu_idle")
    )
    leave = spans.filter(pl.col("event") == IDLE, pl.col("arg") == 1).select(
        "line",
        "cpu",
        ts_ns=pl.col("ts_ns") + pl.col("dur_ns"),
        value=pl.lit(-1, pl.Int64),
        kind=pl.lit("cpu_idle"),
    )
    return pl.concat([leave.select(enter.columns), enter])


def _frequencies(spans: pl.DataFrame) -> pl.DataFrame:
    """Return the samples of frequencies, which are in MHz."""
    return spans.filter(pl.col("event").is_in([PSTATE, PSTATE2]), pl.col("cpu") >= 0).select(
        "line", "ts_ns", "cpu", value=pl.col("arg") * 1000, kind=pl.lit("frequency")
    )


def _marks(spans: pl.DataFrame) -> pl.DataFrame:
    """Return mark_a to mark_d, with the name that rawtoevent gave them."""
    return spans.filter(pl.col("event").is_between(MARK_A, MARK_D)).select(
        "line", "ts_ns", "cpu", "pid", text="name", kind=pl.lit("mark")
    )


def _transitions(spans: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the entries into the kernel and the returns from it.

    A system call that is interrupted, or that sleeps, has several spans, but only one entry and one return.
    """
    kernel = pl.col("event").is_between(TRAP, IDLE - 1)
    irq = pl.col("event").is_between(IRQ, AFTER_IRQ - 1)
    code = spans.filter(pl.col("event") >= TRAP, pl.col("cpu") >= 0)
    code = code.sort("ts_ns", maintain_order=True).with_columns(
        end_ns=pl.col("ts_ns") + pl.col("dur_ns")
    )
    alone = code.filter(irq | (pl.col("event") == SCHED)).with_columns(last_cpu="cpu")
    rest = code.filter(~irq, pl.col("event") != SCHED)
    changes = pl.col("event") != pl.col("event").shift(1).over("pid")
    rest = rest.with_columns(stay=changes.fill_null(True).cum_sum().over("pid")).filter(kernel)
    merged = rest.group_by("pid", "stay", maintain_order=True).agg(
        pl.col("ts_ns", "cpu", "event", "name", "line").first(),
        pl.col("end_ns").last(),
        last_cpu=pl.col("cpu").last(),
    )
    op = (
        pl.when(pl.col("event") == SCHED)
        .then(pl.lit("sched"))
        .when(irq)
        .then(pl.lit("irq"))
        .when(pl.col("event") >= SYSCALL)
        .then(pl.lit("syscall"))
        .otherwise(pl.lit("fault"))
    )
    number = pl.col("event") - pl.when(pl.col("event") >= SYSCALL).then(SYSCALL).when(irq).then(IRQ).otherwise(TRAP)  # fmt: skip
    both = pl.concat([alone.select(merged.drop("stay").columns), merged.drop("stay")])
    both = both.with_columns(op=op, value=number.cast(pl.Int64))
    entries = both.select(
        "line", "ts_ns", "cpu", "pid", "op", "value", kind=pl.lit("kernel_entry"), text="name"
    )
    exits = both.select(
        "line", "pid", "op", ts_ns="end_ns", cpu="last_cpu", kind=pl.lit("kernel_exit")
    )
    return entries.sort("ts_ns", maintain_order=True), exits.sort("ts_ns", maintain_order=True)
