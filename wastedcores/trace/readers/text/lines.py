"""Reads the text that ftrace, trace-cmd and perf script print: on each line, an envelope and the fields of one event."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from wastedcores.errors import TraceFormatError
from wastedcores.limits import MAX_CPUS, MAX_SECONDS
from wastedcores.trace.readers.support.reading import FactsBuilder, ordered_map
from wastedcores.trace.readers.support.sched_waking import WakingEvents
from wastedcores.trace.readers.support.text_reading import TextReading
from wastedcores.trace.readers.text import scan_jit
from wastedcores.trace.readers.text.births import Births
from wastedcores.trace.readers.text.payload import KIND_OF, clean_comm, parse_payloads
from wastedcores.trace.readers.text.scan import Scanner, count, merge

#: key of the note that perf ran in a pid namespace, so that the pid before the CPU may be that of another thread
NAMESPACE = "pid namespace"


@dataclass(frozen=True)
class Dialect:
    """The way in which one tool prints lines."""

    perf: bool  #: whether the compiled code looks for perf's envelope; otherwise it looks for ftrace's
    #: regular expressions with groups comm, pid, cpu, sec, frac (or us), name, payload, and flags if the tool
    #: prints them. The first expression that matches a line counts.
    envelopes: tuple[str, ...]
    noise: str  #: regular expression of lines without an event, which can be anywhere
    lost: str  #: regular expression with groups cpu (optional), n (optional)
    hint: str  #: what to say about a line that fits none of these


class LineReading(TextReading):
    """One pass over a text with one event per line.

    Compiled code decodes the frequent events in their common spelling. Everything else goes through the patterns of the
    dialect and of payload.py. Both give the same events (tests/trace/readers/text/test_readers_two_ways.py).
    """

    kernel_states = True

    def __init__(self, path: Path, source_format: str, dialect: Dialect, *, hashed: bool) -> None:
        super().__init__(path, source_format, complete, hashed=hashed)
        self._dialect = dialect
        self._last_event = _LastEvent()
        self._births = Births()

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in the order of the file, one per block of text."""
        yield from WakingEvents(self.found).settled(self._tables())

    def _tables(self) -> Iterator[pl.DataFrame]:
        scanner = Scanner(scan_jit.scan, self._dialect.perf)
        scanning = ordered_map(scanner.scan, self.blocks())
        last_fast = 0
        for scanned in self.resources.enter_context(closing(scanning)):
            fast, rest = scanned.events, scanned.rest
            if self._last_event.damaged:
                # other lines follow the damaged one, so the file was not cut there
                raise self._last_event.damaged
            count(scanned, self.found)
            self._last_event.some |= fast.height > 0
            if rest.height:
                first = pl.col("before") == 0
                rest = rest.with_columns(before=pl.when(first).then(last_fast).otherwise("before"))
                slow = _read_rest(self.path, rest, self.found, self._dialect, self._last_event)
            if fast.height:
                last_fast = int(fast["line"][-1])
            yield self._births.once(merge(fast, slow) if rest.height else fast)
        if self._last_event.damaged:
            self.found.truncated = self._last_event.text
        # if the lines about losses account for all events that the head calls missing, no oldest events were overwritten
        lost, over = self.found.lost, self.found.overwritten
        told = [n for cpu, n in lost.items() if cpu >= 0]
        if min(told, default=0) > 0 and sum(told) == over[-1] == lost[-1]:
            del over[-1]
            del lost[-1]


@dataclass
class _LastEvent:
    """The last event that went through the patterns; kept from one block to the next."""

    line: int = 0
    name: str = ""
    #: whether there are other events before it
    some: bool = False
    #: the error of the last line so far, if this line is damaged: if no further line follows, the file was cut in this line
    damaged: TraceFormatError | None = None
    text: str = ""

    def refuse(self, lines: pl.DataFrame, column: str, found: FactsBuilder, error: str) -> None:
        """Refuse damaged lines; but refuse a single line that lacks its end, after other events, only if a line follows it."""
        damaged, line = TraceFormatError(error), int(lines["line"][0])
        several = lines.height > 1 or found.truncated or self.damaged
        cut = (self.some or self.line) and not complete(lines[column][0])
        if several or line != found.lines or not cut:
            raise damaged
        self.damaged = damaged
        self.text = f"line {line} is cut and was left out: {_short(lines[column][0])!r}"


def complete(line: str) -> bool:
    """Return whether a last line without a newline is whole.

    It is whole if its last number has three digits: priorities have at most three (139 is nice 19), and CPUs are printed with at
    least three.
    """
    return bool(re.search(r"(?:[ _]prio=|target_cpu=|CPU:)\d{3}$|\[\d{3}\]$", line))


def _read_rest(
    path: Path, lines: pl.DataFrame, found: FactsBuilder, dialect: Dialect, last: _LastEvent
) -> pl.DataFrame:
    """Read the lines that the compiled code left alone; ``found`` and ``last`` are kept up to date."""
    # in text that is embedded in a page's script, line ends and quotation marks are escaped
    escaped = pl.col("text").str.ends_with("\\n\\")
    plain = pl.col("text").str.slice(0, pl.col("text").str.len_chars() - 3)
    plain = plain.str.replace_all(r"\\(.)", "$1")
    lines = lines.with_columns(text=pl.when(escaped).then(plain).otherwise("text"))
    comments = lines.filter(pl.col("text").str.contains(r"^(?:#|cpus=\d+$)"))
    for text in comments["text"].head(200):
        learn(found, text)
    lines = lines.filter(
        ~pl.col("text").str.starts_with("#") & (pl.col("text").str.strip_chars() != "")
        | pl.col("text").str.starts_with("##### CPU")
    )
    events, other = _split(lines, dialect)
    last.some |= events.height > 1
    if events["us"].is_not_null().any():
        found.clock = found.clock or "microseconds since the recording began"
    if not dialect.perf:
        _refuse_buffers(path, events)
    events = _stamped(events)
    lost = _lost(other, events, found, dialect)
    other = other.filter(~pl.col("line").is_in(lost["line"].implode()))
    unknown = other.filter(~pl.col("text").str.contains(dialect.noise))
    if unknown.height:
        unknown = _marker_lines(unknown, events, last)
        _skip(path, unknown.filter(~pl.col("marker")), found, dialect, last)
        if further := int(unknown["marker"].sum()):
            found.skipped["(further lines of a marker)"] += further
    frames = [lost]
    bare_name = pl.col("name").str.split(":").list.last()
    # a user-defined probe may have the name of an event
    is_probe = bare_name.str.starts_with("sched_") & pl.col("payload").str.contains(_PROBE)
    is_known = bare_name.is_in(list(KIND_OF)) & ~is_probe
    others = events.filter(~is_known).group_by(bare_name, maintain_order=True).len()
    for name, n in others.iter_rows():
        found.skipped[name] += n
    for (name,), group in events.filter(is_known).group_by(bare_name, maintain_order=True):
        bare = str(name)
        kind = KIND_OF[bare]
        parsed, bad = parse_payloads(group.with_columns(name=pl.lit(bare)), kind)
        told = bad.filter(pl.col("payload").str.strip_chars() != "")
        if bad.height and kind == "cpu_online":  # other spellings do not name the step
            found.skipped[bare] += bad.height
        elif bad.height and not told.height:
            raise TraceFormatError(
                f"{path}, line {bad['line'][0]}: {bare} has no fields. If this is the text of perf script -F, print it with "
                "them: perf script -F +trace,+cpu --show-lost-events."
            )
        elif bad.height:
            error = (
                f"{path}, line {told['line'][0]}: the fields of {bare} are not in any spelling this reader knows: "
                f"{_short(told['payload'][0])!r}. If your tool prints it so, please report it with that line."
            )
            last.refuse(bad, "payload", found, error)
        found.every_switch |= kind == "switch" and parsed.height > 0
        if dialect.perf and kind == "switch" and parsed.height:
            both = group.select("line", "ctx_pid").join(parsed, on="line")
            if both.select(((pl.col("ctx_pid") == 0) & (pl.col("prev_pid") > 0)).any()).item():
                found.notes[NAMESPACE] = "to perf in a container, the threads of others were 0"
        frames.append(parsed)
    if events.height:
        last.line, last.name = events["line"][-1], str(events["name"][-1])
    return pl.concat(frames, how="diagonal_relaxed").sort("line", maintain_order=True)


#: the address of a probe, which stands before its fields (kernel/trace/trace_kprobe.c:print_kprobe_event)
_PROBE = r"^\s*\([\w.]+(?:\+0x[0-9a-f]+/0x[0-9a-f]+)?(?: <- [^)]*)?\)"


def _split(lines: pl.DataFrame, dialect: Dialect) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Split lines into their parts; return the lines that have the parts of an event, and the other lines."""
    parts, rest = [], lines
    for envelope in dialect.envelopes:
        fields = rest.with_columns(pl.col("text").str.extract_groups(envelope).struct.unnest())
        absent = [c for c in ("us", "flags") if c not in fields.columns]
        fields = fields.with_columns(pl.lit(None, pl.String).alias(c) for c in absent)
        fields = fields.with_columns(
            pl.col("payload").fill_null("")
        )  # nothing follows the name of the event
        # a number of seconds that does not fit is not a time
        seconds = pl.col("sec").cast(pl.Int64).is_between(0, MAX_SECONDS)
        good = fields.select((seconds | pl.col("us").is_not_null()).fill_null(False)).to_series()
        parts.append(fields.filter(good))
        rest = fields.filter(~good).select(lines.columns)
        if not rest.height:
            break
    return pl.concat(parts, how="diagonal").sort("line", maintain_order=True), rest


def _skip(
    path: Path, lines: pl.DataFrame, found: FactsBuilder, dialect: Dialect, last: _LastEvent
) -> None:
    """Count lines that are not events; refuse lines with an event that is damaged or printed in an unknown way."""
    if not lines.height:
        return
    bad = lines.filter(pl.col("text").str.contains(_BROKEN))
    if bad.height:
        error = (
            f"{path}, line {bad['line'][0]}: not a line of {found.source_format} output: "
            f"{_short(bad['text'][0])!r}. {dialect.hint}"
        )
        last.refuse(bad, "text", found, error)
        lines = lines.filter(pl.col("line") != bad["line"][0])
        if not lines.height:
            return
    found.skipped["(lines of another form)"] += lines.height
    found.notes.setdefault(
        "lines of another form",
        f"they were left out; the first is line {lines['line'][0]}: {_short(lines['text'][0])!r}. {dialect.hint}",
    )


#: Matches a line that names an event of the scheduler, or has bytes that no text has.
_BROKEN = r"sched_(?:switch|wakeup|waking|migrate_task)|[\x00-\x08\x0e-\x1f\x{fffd}]"


def _refuse_buffers(path: Path, events: pl.DataFrame) -> None:
    """Refuse task names that begin with the name of a buffer, because then the same event may come once per buffer.

    A task's name without that of a buffer has 15 bytes at most.
    """
    named = events.filter(
        (pl.col("comm").str.len_bytes() > 16) & pl.col("comm").str.contains(r"^\S.*: ")
    )
    if named.height:
        raise TraceFormatError(
            f"{path}, line {named['line'][0]}: {_short(named['comm'][0])!r} is a task with the name of a buffer before "
            "it. This is the report of a trace.dat with several buffers, in which an event can come once per buffer. "
            "Name the trace.dat itself: the buffer with the most scheduler events is read."
        )


def _stamped(events: pl.DataFrame) -> pl.DataFrame:
    return events.select(
        "line",
        ts_ns=pl.coalesce(
            pl.col("us").cast(pl.Int64) * 1000,
            pl.col("sec").cast(pl.Int64) * 1_000_000_000
            + pl.col("frac").str.slice(0, 9).str.pad_end(9, "0").cast(pl.Int64),
        ),
        ctx_cpu=pl.col("cpu").cast(pl.Int64),
        # perf script leaves out what -F does not name
        ctx_pid=pl.when(pl.col("pid") != "").then("pid").cast(pl.Int64),
        ctx_comm=pl.when(pl.col("comm") != "").then(clean_comm("comm")),
        in_irq=pl.col("flags").str.contains("[hHzZ]"),
        name="name",
        payload="payload",
    )


def _lost(
    other: pl.DataFrame, events: pl.DataFrame, found: FactsBuilder, dialect: Dialect
) -> pl.DataFrame:
    """Make events of the lines that state lost events. Each gets the time of the next event, or else that of the last event."""
    rows = []
    for line, text, next_ts in (
        other.filter(pl.col("text").str.contains(dialect.lost))
        .select("line", "text", "next_ts")
        .iter_rows()
    ):
        match = re.search(dialect.lost, text)
        assert match is not None
        parts = match.groupdict()
        cpu = int(parts["cpu"] or parts.get("cpu2") or -1)
        n = int(parts["n"]) if parts.get("n") else -1
        if "buffer started" in text:
            # earlier events of this CPU were overwritten. Only the file's head says how many in all, and an excerpt has no head
            if not found.overwritten:
                found.overwritten[-1] = -1
                found.add_lost(-1, -1)
        else:
            found.add_lost(cpu, n)
        at = int(events["line"].search_sorted(line))
        near = [
            t
            for t in (next_ts, events["ts_ns"][at] if at < events.height else None)
            if t is not None
        ]
        if parts.get("sec"):
            near = [int(parts["sec"]) * 10**9 + int(parts["frac"][:9].ljust(9, "0"))]
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


def _marker_lines(unknown: pl.DataFrame, events: pl.DataFrame, last: _LastEvent) -> pl.DataFrame:
    """Add the column ``marker``: whether the line continues the text of a marker, because that text can contain line ends."""
    known = pl.DataFrame(
        {
            "event_line": [last.line, *events["line"].to_list()],
            "event_name": [last.name, *events["name"].to_list()],
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
        r"entries-in-buffer/entries-written: (?P<kept>\d{1,18})/(?P<written>\d{1,18})\s+#P:(?P<cpus>\d{1,9})"
    ),
    re.compile(
        r"^# latency: .{0,40}#(?P<kept>\d{1,18})/(?P<written>\d{1,18}), .{0,80}#P:(?P<cpus>\d{1,9})\)"
    ),
    re.compile(r"^cpus=(?P<cpus>\d{1,9})$"),
    re.compile(r"^# os release : (?P<kernel>\S+)"),
    re.compile(r"^# nrcpus online : (?P<cpus>\d{1,9})\b"),
    re.compile(r"^# nrcpus avail : (?P<present>\d{1,9})\b"),
    re.compile(r"^# clockid: (?P<clock>\S+)"),
    re.compile(r"^# (?P<note>hostname|cmdline|captured on|perf version)\s*: (?P<text>.*)"),
)


def learn(facts: FactsBuilder, comment: str) -> None:
    """Note the facts that a comment in the head of the file states."""
    for pattern in _LEARN:
        match = pattern.search(comment)
        if not match:
            continue
        found = match.groupdict()
        if found.get("cpus"):
            facts.cpus = min(int(found["cpus"]), MAX_CPUS)
            if comment.startswith("cpus="):
                facts.source_format = "trace-cmd"
        if found.get("present") and int(found["present"]) > (facts.cpus or MAX_CPUS):
            facts.cpus, facts.online = min(int(found["present"]), MAX_CPUS), ()
        if found.get("written") and int(found["written"]) > int(found["kept"]):
            over = int(found["written"]) - int(found["kept"])
            facts.overwritten[-1] = over
            facts.add_lost(-1, over)
        facts.kernel_release = found.get("kernel") or facts.kernel_release
        facts.clock = found.get("clock") or facts.clock
        if found.get("note"):
            facts.notes[f"source {found['note'].strip()}"] = found["text"].strip()
