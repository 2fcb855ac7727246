"""ftrace text: the kernel's ``trace`` file of any version, and ``trace-cmd report``."""

from __future__ import annotations

import re
from collections.abc import Generator

import polars as pl

from wastedcores.trace.readers.support.blocks import TextSource
from wastedcores.trace.readers.support.facts import Facts
from wastedcores.trace.readers.text.lines import Dialect, read_lines

#: kernel/trace/trace_output.c:trace_print_context and trace_print_lat_fmt (4.1 ... 6.18): "%16s-%-7d ", an optional
#: "(%7d) " with record-tgid, "[%03d] ", 4 or 5 flag characters, the time; trace-cmd report leaves the flags out.
ENVELOPE = (
    r"^ *(?P<comm>.*?)-(?P<pid>\d{1,9}) +(?:\( *[\d-]+\) +)?\[(?P<cpu>\d{1,9})\] +(?:[^\s]{4,6} +)?"
    r"(?P<sec>\d{1,10})\.(?P<frac>\d{1,9}): +(?P<name>[\w.-]+)(?:: ?| <-)(?P<payload>.*)$"
)

DIALECT = Dialect(
    perf=False,
    envelope=ENVELOPE,
    noise=r"^(?: => |cpus=\d+$|version = |CPU \d+ is empty$|trace-cmd|\s*#)",
    lost=(
        r"^(?:CPU:(?P<cpu>\d{1,4}) \[(?:LOST )?(?P<n>\d{1,12})? ?(?:EVENTS DROPPED|EVENTS)\]"
        r"|##### CPU (?P<cpu2>\d{1,4}) buffer started ####)"
    ),
    hint=(
        "Expected '<task>-<pid> [cpu] flags seconds.fraction: event: fields'. For the kernel's own file turn "
        "latency-format, raw, hex and bin off in trace_options and use a clock that counts seconds."
    ),
)


def looks_like(line: str) -> bool:
    """True if this is a line of ftrace text or of a trace-cmd report."""
    return bool(re.match(rf"# tracer:|cpus=\d+\s*$|{ENVELOPE}", line))


def read(source: TextSource, facts: Facts) -> Generator[pl.DataFrame, None, None]:
    """Yield event tables (schema columns and ``line``) in file order."""
    yield from read_lines(source, facts, DIALECT)
