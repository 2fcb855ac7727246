"""Reads the text of ``perf script``."""

from __future__ import annotations

from pathlib import Path

from wastedcores.trace.readers.text.lines import Dialect, LineReading
from wastedcores.trace.recognisers import PERF_SCRIPT_LINE

DIALECT = Dialect(
    perf=True,
    envelopes=(PERF_SCRIPT_LINE,),
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
