"""Reads the text of the paper authors' ``sched_profiler`` and of a fork of it that is still in use.

Formats: docs/scheduler-model.md, sections 11.1 (jplozi/wastedcores, tools/visualizations_4.1/sched_profiler) and 11.3
(Tingjia980311/wastedcores). Each state line repeats the state of all CPUs in columns. So the columns show the state of a CPU
even if the profiler was started after this state began and therefore has no record of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from wastedcores.errors import TraceContentError, TraceFormatError
from wastedcores.trace.readers.support.reading import FactsBuilder
from wastedcores.trace.readers.support.text_reading import Block, TextReading, split_lines
from wastedcores.trace.recognisers import SCHED_PROFILER_LINE

#: The authors' BA events (sched_profiler.h) -> the kernel function that considered the CPUs.
CONSIDERED = {
    200: "select_idle_sibling",
    201: "update_sg_lb_stats",
    202: "find_busiest_queue",
    203: "find_idlest_group",
    204: "find_idlest_cpu",
}

#: The numbers of the authors' SC events. To a number, 10 is added if a task was moved, and 20 for an active balance.
BALANCE = {
    0: "sched_exec",
    1: "try_to_wake_up",
    2: "wake_up_new_task",
    13: "idle_balance",
    14: "rebalance_domains",
    23: "active_load_balance idle_balance",
    24: "active_load_balance rebalance_domains",
}

#: The fork's records -> meaning of their numbers.
FORK_ARGS: dict[str, tuple[str, ...]] = {
    "LB": ("src_cpu", "cpu", "value"),
    "START_M": ("src_cpu", "cpu"),
    "END_M": ("src_cpu", "cpu", "value"),
    "RB": ("cpu", "level", "value"),
    "HOTCACHE": ("src_cpu", "cpu"),
    "IDLE_BALANCE": ("cpu", "value"),
    "FLAG": ("cpu", "level", "value"),
    "INTERVAL": ("cpu", "level", "value"),
    "CPUMASK": ("cpu",),
    "BS": ("flag", "cpu"),
    "CC": ("cpu",),
    "DETACH_STAT": ("cpu", "loop", "loop_max", "loop_break", "value"),
}

#: The fork's records that belong to no CPU. The number in DOMAIN_RB is no CPU: it goes up to 151 on a machine with 40 CPUs.
MARKS = ("WF", "DETACH_LOAD", "DOMAIN_RB")


def complete(line: str) -> bool:
    """Return whether a last line without a newline is whole, because its last number fills the width of its field."""
    return bool(
        re.search(r" nsecs (?:RQ [ \d]{4} [ \d]{3}\d|SC(?: [ \d-]{4}){2} [ \d-]{3}\d|WF)$", line)
    )


@dataclass
class _State:
    """The state that is kept from one block of text to the next."""

    #: runqueue sizes in the columns of the last state line; None until one was seen
    sizes: npt.NDArray[np.int64] | None = None
    usable: bool = True  #: whether the columns agree with the records
    found: int = 0  #: number of runqueue sizes that only the columns have
    #: whether records of the fork, and records of the authors' profiler, were seen
    fork: bool = False
    authors: bool = False


class SchedProfilerReading(TextReading):
    """One pass over the text of sched_profiler or its fork."""

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "sched_profiler", complete, hashed=hashed)

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in the order of the file."""
        state = _State()
        for block in self.blocks():
            yield _read_block(self.path, block, self.found, state)
            if state.fork and not state.authors:
                self.found.source_format = "sched_profiler-fork"
            if state.found:
                self.found.notes["state columns"] = (
                    f"{state.found} runqueue sizes were taken from the state columns; they have no record of their own"
                )


def _read_block(path: Path, block: Block, facts: FactsBuilder, state: _State) -> pl.DataFrame:
    lines = split_lines(block)
    fields = lines.with_columns(
        pl.col("text").str.extract_groups(SCHED_PROFILER_LINE).struct.unnest()
    )
    bad = fields.filter(pl.col("ts").is_null() & (pl.col("text").str.strip_chars() != ""))
    if bad.height:
        raise TraceFormatError(
            f"{path}, line {bad['line'][0]}: not a line of sched_profiler output: "
            f"{bad['text'][0][-120:]!r}. Expected a state (columns of numbers), a tab, 'TIME nsecs KIND numbers', or "
            "'# TIME nsecs BA ...'."
        )
    fields = fields.filter(pl.col("ts").is_not_null()).with_columns(
        ts_ns=pl.col("ts").cast(pl.Int64, strict=False),
        args=pl.col("args").str.strip_chars().str.replace_all(r" +", " "),
    )
    late = fields.filter(pl.col("ts_ns").is_null())
    if late.height:
        raise TraceContentError(
            f"{path}, line {late['line'][0]}: the time {late['ts'][0]} does not fit 63 bits of nanoseconds."
        )
    frames = [_from_columns(fields, facts, state)]
    for (kind,), group in fields.group_by("kind", maintain_order=True):
        frames.append(_records(path, str(kind), group, facts, state))
    return pl.concat(frames, how="diagonal_relaxed").sort("line", maintain_order=True)


def _records(
    path: Path, kind: str, group: pl.DataFrame, facts: FactsBuilder, state: _State
) -> pl.DataFrame:
    if kind in MARKS:
        state.fork = True
        text = pl.concat_str(pl.lit(kind), "args", separator=" ").str.strip_chars()
        return group.select("line", "ts_ns", kind=pl.lit("mark"), text=text)
    if kind == "EX":
        facts.skipped["EX"] += group.height
        return group.select("line", "ts_ns").clear()
    if kind == "BA":
        return _considered(path, group)
    names: tuple[str, ...] | None = {
        "RQ": ("cpu", "nr_running"),
        "LD": ("flag", "cpu", "value") if _words(group) == 3 else ("cpu", "value"),
        "SC": ("event", "src_cpu", "cpu"),
        **FORK_ARGS,
    }.get(kind)
    if names is None:
        raise TraceFormatError(
            f"{path}, line {group['line'][0]}: record kind {kind!r} is not one of sched_profiler's "
            f"(RQ, LD, SC, BA, EX, {', '.join((*FORK_ARGS, *MARKS))})."
        )
    out = _numbers(path, kind, group, names)
    if kind == "RQ":
        return out.with_columns(kind=pl.lit("nr_running"))
    if kind == "LD":
        if "flag" in out.columns:
            state.fork = True
            # flag 1 is the average load of the fair queue, which is not the same quantity as the runqueue's load
            facts.skipped["LD 1 (average load)"] += out.filter(pl.col("flag") == 1).height
            out = out.filter(pl.col("flag") == 0).drop("flag")
        return out.with_columns(kind=pl.lit("load"))
    out = out.with_columns(kind=pl.lit("balance"))
    if kind == "SC":
        state.authors = True
        op = pl.col("event").replace_strict(
            BALANCE, default="event " + pl.col("event").cast(pl.String), return_dtype=pl.String
        )
        # 255 is "from nowhere" (a fork), printed as -1
        return out.with_columns(
            op=op, src_cpu=pl.when(~pl.col("src_cpu").is_in([-1, 255])).then("src_cpu")
        ).drop("event")
    state.fork = True
    extra = [c for c in names if c not in ("cpu", "src_cpu", "value")]
    text = pl.concat_str(
        [pl.concat_str(pl.lit(f"{c}="), pl.col(c).cast(pl.String)) for c in extra], separator=" "
    )
    return out.with_columns(
        op=pl.lit(kind), text=text if extra else pl.lit(None, dtype=pl.String)
    ).drop(extra)


def _words(group: pl.DataFrame) -> int:
    return len(str(group["args"][0]).split())


def _numbers(path: Path, kind: str, group: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Split ``args`` into columns; every line of one kind has the same number of arguments."""
    pattern = "^" + " ".join(rf"(?P<{n}>-?\d+)" for n in names) + "$"
    out = group.select(
        "line", "ts_ns", "args", pl.col("args").str.extract_groups(pattern).struct.unnest()
    )
    out = out.with_columns([pl.col(n).cast(pl.Int64, strict=False) for n in names])
    bad = out.filter(pl.any_horizontal(pl.col(n).is_null() for n in names))
    if bad.height:
        raise TraceFormatError(
            f"{path}, line {bad['line'][0]}: a {kind} record has {bad['args'][0]!r}; expected "
            f"{len(names)} numbers: {', '.join(names)}."
        )
    return out.drop("args")


def _considered(path: Path, group: pl.DataFrame) -> pl.DataFrame:
    """Read BA lines: event and cpu; events from 200 on also have the current CPU and a hexadecimal mask of 64 CPUs."""
    fields = group.with_columns(
        pl.col("args")
        .str.extract_groups(
            r"^(?P<event>\d{1,9}) (?P<cpu>\d{1,9})(?: (?P<src_cpu>\d{1,9}) (?P<mask>[0-9a-f]{16}))?$"
        )
        .struct.unnest()
    )
    bad = fields.filter(pl.col("event").is_null())
    if bad.height:
        raise TraceFormatError(
            f"{path}, line {bad['line'][0]}: a BA record has {bad['args'][0]!r}; expected event, cpu, current "
            "cpu and 16 hexadecimal digits."
        )
    event = pl.col("event").cast(pl.Int64)
    op = event.replace_strict(
        CONSIDERED, default="event " + pl.col("event"), return_dtype=pl.String
    )
    # the mask is printed with the most significant digit first; the first byte of the schema's mask has CPUs 0 to 7
    mask = pl.concat_str([pl.col("mask").str.slice(i, 2) for i in range(14, -1, -2)])
    return fields.select(
        "line",
        "ts_ns",
        kind=pl.when(pl.col("mask").is_null())
        .then(pl.lit("balance"))
        .otherwise(pl.lit("considered")),
        cpu=pl.col("cpu").cast(pl.Int64),
        src_cpu=pl.col("src_cpu").cast(pl.Int64),
        op=op,
        cpu_mask=mask.str.decode("hex"),
    )


def _from_columns(fields: pl.DataFrame, facts: FactsBuilder, state: _State) -> pl.DataFrame:
    """Return the runqueue sizes that only the state columns have, as nr_running events before the record of their line."""
    empty = pl.DataFrame(
        schema={
            "line": pl.Int64,
            "ts_ns": pl.Int64,
            "kind": pl.String,
            "cpu": pl.Int64,
            "nr_running": pl.Int64,
        }
    )
    # the state columns of the fork's LD lines have loads; those of the authors' lines always begin with the runqueue size
    rows = fields.filter((pl.col("state").str.len_bytes() > 0) & (pl.col("mark") != "# "))
    sized = rows.filter(pl.col("kind") == "RQ")
    if not sized.height or not state.usable:
        return empty
    text = sized["state"][0]
    width = 20 if _is_wide(text) else 4
    if width == 20:
        state.authors, sized = True, rows
    cpus, odd = divmod(len(text), width)
    sized = sized.filter(pl.col("state").str.len_bytes() == len(text))
    is_rq = (sized["kind"] == "RQ").to_numpy()
    args = pl.col("args").str
    record = sized.select(
        cpu=args.extract(r"^(\d+) ", 1).cast(pl.Int64, strict=False).fill_null(-1),
        nr=args.extract(r" (\d+)$", 1).cast(pl.Int64, strict=False).fill_null(-1),
    )
    cpu, nr = record["cpu"].to_numpy(), record["nr"].to_numpy()
    inside = is_rq & (cpu >= 0) & (cpu < cpus)
    usable = not odd and cpus > 0 and not (is_rq & ~inside).any()
    if usable:
        table = _columns(sized["state"], cpus, width)
        # the columns are those of the online CPUs in order: if a CPU is offline, a column's place is not its CPU's number
        usable = bool((table[np.flatnonzero(inside), cpu[inside]] == nr[inside]).all())
    if not usable:
        state.usable = False
        facts.notes["state columns"] = (
            "not used: they disagree with the records (a CPU offline, or a number too wide for its column)"
        )
        return empty
    facts.cpus = max(facts.cpus or 0, cpus)
    before = np.full(cpus, -1, np.int64) if state.sizes is None else state.sizes
    if len(before) != cpus:
        state.usable = False
        return empty
    previous = np.vstack([before[None, :], table[:-1]])
    changed = (table != previous) & (table >= 0)
    changed[np.flatnonzero(inside), cpu[inside]] = False
    state.sizes = table[-1].copy()
    row, column = np.nonzero(changed)
    state.found += len(row)
    if not len(row):
        return empty
    return pl.DataFrame(
        {
            "line": sized["line"].to_numpy()[row],
            "ts_ns": sized["ts_ns"].to_numpy()[row],
            "kind": pl.Series(["nr_running"] * len(row), dtype=pl.String),
            "cpu": column.astype(np.int64),
            "nr_running": table[row, column],
        }
    )


def _is_wide(text: str) -> bool:
    """Return whether these are the authors' full columns, "%4d%4d%12ld" per CPU; with RQ_SIZES_ONLY they are "%4d" per CPU."""
    cells = (text[i : i + 20] for i in range(0, len(text), 20))
    return all(
        re.fullmatch(r"[ \d-]{3}\d[ \d-]{3}\d *-?\d+", cell) and len(cell) == 20 for cell in cells
    )


def _columns(states: pl.Series, cpus: int, width: int) -> npt.NDArray[np.int64]:
    """Return the numbers in the first four characters of every column, which has ``width`` characters: (lines, cpus)."""
    raw = np.frombuffer("".join(states.to_list()).encode("ascii"), np.uint8)
    cells = raw.reshape(len(states), cpus, width)[:, :, :4]
    digits = np.where((cells >= ord("0")) & (cells <= ord("9")), cells - ord("0"), 0).astype(
        np.int64
    )
    value = digits @ np.array([1000, 100, 10, 1], np.int64)
    return np.where((cells == ord("-")).any(axis=2), -value, value)
