"""Reads the text of ``perf script``."""

from __future__ import annotations

from pathlib import Path

from wastedcores.trace.readers.text.lines import Dialect, LineReading

#: tools/perf/builtin-script.c:perf_sample__fprintf_start (6.1): "%16s " comm, "%7d " tid or "%7d/%-7d " pid/tid,
#: "[%03d] " cpu, "%5lu.%06lu: " time (%09lu with --ns), an optional period, "%*s: " event.
ENVELOPE = (
    r"^ *(?P<comm>.*?) +(?:\d+/)?(?P<pid>-?\d{1,9}) +\[(?P<cpu>\d{1,9})\] +"
    r"(?P<sec>\d{1,10})\.(?P<frac>\d{1,9}): +(?:\d+ +)?(?P<name>[\w.-]+:[\w.:-]+|[\w./,=-]+): ?(?P<payload>.*)$"
)

DIALECT = Dialect(
    perf=True,
    envelopes=(ENVELOPE,),
    # call chains (indented addresses), side-band records
    noise=r"^(?:\t\s*[0-9a-f]+ |.*: PERF_RECORD_|PERF_RECORD_|\s+[0-9a-f]{8,} )",
    lost=(
        r"\[(?P<cpu>\d{1,4})\] +(?P<sec>\d{1,9})\.(?P<frac>\d{1,9}): PERF_RECORD_LOST(?:_SAMPLES)? lost (?P<n>\d{1,12})"
    ),
    hint=(
        "Expected 'comm pid [cpu] seconds.fraction: event: fields'. If the [cpu] column is missing, print it: "
        "perf script -F +cpu --show-lost-events."
    ),
)

#: A line without the [cpu] column. It is recognised so that the message can say what is missing.
NO_CPU = r"^ *\S.*? +(?:\d+/)?-?\d+ +\d+\.\d{6,9}: +(?:\d+ +)?[\w-]+:[\w-]+: "
#: A line of perf script's output.
LOOKS_LIKE = rf"^# captured on\s*:|{NO_CPU}|{ENVELOPE}"


class PerfScriptReading(LineReading):
    """One pass over the text of perf script.

    Parameters
    ----------
    path
        The file.
    hashed
        Compute its SHA-256.
    """

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "perf-script", DIALECT, hashed=hashed)
