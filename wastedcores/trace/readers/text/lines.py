"""ftrace text, trace-cmd report and perf script: lines of one event each, an envelope and the event's own fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from wastedcores.errors import TraceFormatError
from wastedcores.limits import MAX_CPUS, MAX_SECONDS
from wastedcores.trace.readers.support.blocks import TextSource
from wastedcores.trace.readers.support.facts import Facts
from wastedcores.trace.readers.support.pipeline import OrderedMap
from wastedcores.trace.readers.support.wakings import settle_wakings
from wastedcores.trace.readers.text.payload import KIND_OF, clean_comm, parse_payloads
from wastedcores.trace.readers.text.scan import Scanner, count, merge


@dataclass(frozen=True)
class Dialect:
    """How one tool prints a line.

    Attributes
    ----------
    perf
        perf's envelope, for the compiled code; else ftrace's.
    envelope
        Regular expression with groups comm, pid, cpu, sec, frac, name, payload.
    noise
        Lines that carry no event and may be anywhere.
    lost
        Regular expression with groups cpu (optional), n (optional).
    hint
        What to say about a line that fits none.
    """

    perf: bool
    envelope: str
    noise: str
    lost: str
    hint: str


def read_lines(source: TextSource, facts: Facts, dialect: Dialect) -> Iterator[pl.DataFrame]:
    """Yield event tables (schema columns and ``line``), a block of text each, in file order.

    The frequent events in their common spelling are taken apart by compiled code, everything else by the patterns of
    the dialect and of _payload.py. Both give the same (tests/trace/readers/text/test_readers_two_ways.py).
    """
    state = _State()
    scanner = Scanner(perf=dialect.perf, waking=lambda: facts.waking is not False)
    last_fast = 0
    for scanned in source.hold(OrderedMap(scanner.scan, source.blocks())):
        fast, rest = scanned.events, scanned.rest
        count(scanned, facts)
        if rest.height:
            rest = rest.with_columns(
                before=pl.when(pl.col("before") == 0).then(last_fast).otherwise("before")
            )
            slow = _read_rest(source.path, rest, facts, dialect, state)
            frame = merge(fast, slow)
        else:
            frame = fast
        if fast.height:
            last_fast = int(fast["line"][-1])
        yield settle_wakings(frame, facts)


@dataclass
class _State:
    """The last event that went through the patterns; carries over from one block to the next."""

    event_line: int = 0
    event_name: str = ""


def complete(line: str) -> bool:
    """True if a last line without a newline shows that nothing is missing.

    Priorities have three digits at most (139 is the idle task's nice 19) and CPUs are printed with three at least.
    """
    return bool(re.search(r"(?:[ _]prio=|target_cpu=|CPU:)\d{3}$|\[\d{3}\]$", line))


def _read_rest(
    path: Path, lines: pl.DataFrame, facts: Facts, dialect: Dialect, state: _State
) -> pl.DataFrame:
    comments = lines.filter(pl.col("text").str.contains(r"^(?:#|cpus=\d+$)"))
    for text in comments["text"].head(200):
        learn(facts, text)
    lines = lines.filter(
        ~pl.col("text").str.starts_with("#") & (pl.col("text").str.strip_chars() != "")
        | pl.col("text").str.starts_with("##### CPU")
    )
    fields = lines.with_columns(pl.col("text").str.extract_groups(dialect.envelope).struct.unnest())
    # more seconds than 63 bits of nanoseconds hold: no stamp
    good = pl.col("sec").cast(pl.Int64).is_between(0, MAX_SECONDS).fill_null(False)
    events, other = fields.filter(good), fields.filter(~good)
    if not dialect.perf:
        _refuse_buffers(path, events)
    events = _stamped(events)
    lost = _lost(other, events, facts, dialect)
    other = other.filter(~pl.col("line").is_in(lost["line"].implode()))
    unknown = other.filter(~pl.col("text").str.contains(dialect.noise))
    if unknown.height:
        unknown = _marker_lines(unknown, events, state)
        facts.skipped["(further lines of a marker)"] += unknown.height
        bad = unknown.filter(~pl.col("marker"))
        if bad.height:
            raise TraceFormatError(
                f"{path}, line {bad['line'][0]}: not a line of {facts.source_format} output: "
                f"{_short(bad['text'][0])!r}. {dialect.hint}"
            )
    frames = [lost]
    for (name,), group in events.group_by("name", maintain_order=True):
        bare = str(name).rpartition(":")[2]
        kind = KIND_OF.get(bare)
        if kind is None:
            facts.skipped[bare] += group.height
            continue
        parsed, bad = parse_payloads(group.with_columns(name=pl.lit(bare)), kind)
        if bad.height:
            raise TraceFormatError(
                f"{path}, line {bad['line'][0]}: the fields of {bare} are not in any spelling this reader knows: "
                f"{_short(bad['payload'][0])!r}. If your tool prints it so, please report it with that line."
            )
        facts.every_switch |= kind == "switch" and parsed.height > 0
        frames.append(parsed)
    if events.height:
        state.event_line, state.event_name = events["line"][-1], str(events["name"][-1])
    return pl.concat(frames, how="diagonal_relaxed").sort("line", maintain_order=True)


def _refuse_buffers(path: Path, events: pl.DataFrame) -> None:
    """The name of a buffer before a task's, which has 15 bytes at most: the same event may come once a buffer."""
    named = events.filter(
        (pl.col("comm").str.len_bytes() > 16) & pl.col("comm").str.contains(r"^\S.*: ")
    )
    if named.height:
        raise TraceFormatError(
            f"{path}, line {named['line'][0]}: {_short(named['comm'][0])!r} is a task with the name of a buffer before "
            "it: the report of a trace.dat with several buffers, in which an event may come once a buffer. Name the "
            "trace.dat itself, of which one buffer is read if trace-cmd knows `dump`."
        )


def _stamped(events: pl.DataFrame) -> pl.DataFrame:
    return events.select(
        "line",
        ts_ns=pl.col("sec").cast(pl.Int64) * 1_000_000_000
        + pl.col("frac").str.slice(0, 9).str.pad_end(9, "0").cast(pl.Int64),
        ctx_cpu=pl.col("cpu").cast(pl.Int64),
        ctx_pid=pl.col("pid").cast(pl.Int64),
        ctx_comm=clean_comm("comm"),
        name="name",
        payload="payload",
    )


def _lost(
    other: pl.DataFrame, events: pl.DataFrame, facts: Facts, dialect: Dialect
) -> pl.DataFrame:
    """Lines that tell of lost events, stamped with the next event's time, else the last one's."""
    rows = []
    for line, text, next_ts in (
        other.filter(pl.col("text").str.contains(dialect.lost))
        .select("line", "text", "next_ts")
        .iter_rows()
    ):
        match = re.search(dialect.lost, text)
        assert match is not None
        found = match.groupdict()
        cpu = int(found["cpu"] or found.get("cpu2") or -1)
        n = int(found["n"]) if found.get("n") else -1
        if "buffer started" in text:
            # what came before on this CPU was overwritten; how much is in the header's total only
            if not facts.overwritten:
                continue
        else:
            facts.add_lost(cpu, n)
        at = int(events["line"].search_sorted(line))
        near = [
            t
            for t in (next_ts, events["ts_ns"][at] if at < events.height else None)
            if t is not None
        ]
        if found.get("sec"):
            near = [int(found["sec"]) * 10**9 + int(found["frac"][:9].ljust(9, "0"))]
        elif not near and events.height:
            near = [int(events["ts_ns"][-1])]
        if near:
            rows.append((line, min(near), "lost", cpu if cpu >= 0 else None, n))
    types = {
        "line": pl.Int64,
        "ts_ns": pl.Int64,
        "kind": pl.String,
        "cpu": pl.Int64,
        "value": pl.Int64,
    }
    return pl.DataFrame(rows, schema=types, orient="row")


def _marker_lines(unknown: pl.DataFrame, events: pl.DataFrame, state: _State) -> pl.DataFrame:
    """Add ``marker``: the line continues the text of a marker, which may hold line ends."""
    known = pl.DataFrame(
        {
            "event_line": [state.event_line, *events["line"].to_list()],
            "event_name": [state.event_name, *events["name"].to_list()],
        },
        schema={"event_line": pl.Int64, "event_name": pl.String},
    )
    marks = [name for name, kind in KIND_OF.items() if kind == "mark"]
    return (
        unknown.sort("line")
        .join_asof(known.sort("event_line"), left_on="line", right_on="event_line")
        .with_columns(
            marker=pl.col("event_name").str.split(":").list.last().is_in(marks)
            & (pl.col("before") < pl.col("event_line"))
        )
    )


def _short(text: str, width: int = 120) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


_LEARN = (
    re.compile(
        r"entries-in-buffer/entries-written: (?P<kept>\d+)/(?P<written>\d+)\s+#P:(?P<cpus>\d+)"
    ),
    re.compile(r"^cpus=(?P<cpus>\d+)$"),
    re.compile(r"^# os release : (?P<kernel>\S+)"),
    re.compile(r"^# nrcpus online : (?P<cpus>\d+)"),
    re.compile(r"^# clockid: (?P<clock>\S+)"),
    re.compile(r"^# (?P<note>hostname|cmdline|captured on|perf version)\s*: (?P<text>.*)"),
)


def learn(facts: Facts, comment: str) -> None:
    """Take what a header comment states."""
    for pattern in _LEARN:
        match = pattern.search(comment)
        if not match:
            continue
        found = match.groupdict()
        if found.get("cpus"):
            facts.cpus = min(int(found["cpus"]), MAX_CPUS)
            if comment.startswith("cpus="):
                facts.source_format = "trace-cmd"
        if found.get("written") and int(found["written"]) > int(found["kept"]):
            over = int(found["written"]) - int(found["kept"])
            facts.overwritten[-1] = over
            facts.add_lost(-1, over)
        facts.kernel_release = found.get("kernel") or facts.kernel_release
        facts.clock = found.get("clock") or facts.clock
        if found.get("note"):
            facts.notes[f"source {found['note'].strip()}"] = found["text"].strip()
