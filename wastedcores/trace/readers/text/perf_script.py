"""Reads the text of perf script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from wastedcores.errors import TraceFormatError
from wastedcores.trace.readers.support.perf_command import overwrites
from wastedcores.trace.readers.text.lines import NAMESPACE, Dialect, LineReading
from wastedcores.trace.recognisers import PERF_SCRIPT_LINE, PERF_SCRIPT_NO_PID

PERF_SCRIPT = Dialect(
    perf=True,
    envelopes=(PERF_SCRIPT_LINE, PERF_SCRIPT_NO_PID),
    # lines of call chains (indented addresses) and side-band records
    noise=r"^(?:\t\s*[0-9a-f]+ |.*: PERF_RECORD_|PERF_RECORD_|\s+[0-9a-f]{8,} )",
    lost=(
        r"\[(?P<cpu>\d{1,4})\] +(?P<sec>\d{1,9})\.(?P<frac>\d{1,9}): PERF_RECORD_LOST(?:_SAMPLES)? lost (?P<n>\d{1,12})"
    ),
    hint=(
        "Expected 'comm pid [cpu] seconds.fraction: event: fields'. If the [cpu] column is missing, print it: "
        "perf script -F +cpu --show-lost-events."
    ),
)

#: perf script sorts events by time. Of at least this many events, times that are differences step back at more than this share.
_ENOUGH, _MOST_BACK = 20, 0.1


class PerfScriptReading(LineReading):
    """One pass over the text of perf script."""

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "perf-script", PERF_SCRIPT, hashed=hashed)

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in the order of the file, which is that of time."""
        first = True
        for frame in super().frames():
            if first and frame.height >= _ENOUGH:
                first = False
                back = (frame["ts_ns"].diff() < 0).mean()
                if isinstance(back, float) and back > _MOST_BACK:
                    raise TraceFormatError(
                        f"{self.path}: time steps back at {back:.0%} of its events, as if the text had been printed with "
                        "--deltatime, that is, with the differences of times. Print it again without: perf script -F +cpu "
                        "--show-lost-events."
                    )
            # if perf ran in a pid namespace, only the pids in the fields of the events are those of the kernel
            by_perf = pl.col("kind").is_in(["wakeup", "wakeup_new", "migrate"])
            by = pl.when(~by_perf).then("by_pid")
            yield frame.with_columns(by_pid=by) if NAMESPACE in self.found.notes else frame
        if overwrites(self.found.notes.get("source cmdline", "")):  # nothing says how many events
            self.found.overwritten[-1] = -1
            self.found.add_lost(-1, -1)
