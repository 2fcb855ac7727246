"""Reads ftrace's text, and the pages and files that contain this text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO

from wastedcores.trace.readers.support.embedded import atrace_text, systrace_text
from wastedcores.trace.readers.text.lines import Dialect, LineReading
from wastedcores.trace.recognisers import FTRACE_LATENCY_LINE, FTRACE_LINE

#: The same line without the name of an event, as other tracers write it: "sys_ioctl -> 0x0", "sys_ioctl(fd: ff)".
_BARE = FTRACE_LINE.replace(r"(?:: ?| <-)(?P<payload>.*)$", r"(?P<payload>\W.*)?$")

FTRACE = Dialect(
    perf=False,
    envelopes=(FTRACE_LINE, _BARE, FTRACE_LATENCY_LINE),
    # "capturing trace... done" and "TRACE:" are from atrace
    noise=r"^(?:[ \t]?=> |cpus=\d+$|version = |CPU \d+ is empty$|trace-cmd|capturing trace\.\.\.|TRACE:$|\s*#)",
    lost=(
        r"^(?:CPU:(?P<cpu>\d{1,4}) \[(?:LOST )?(?P<n>\d{1,12})? ?(?:EVENTS DROPPED|EVENTS)\]"
        r"|##### CPU (?P<cpu2>\d{1,4}) buffer started ####)"
    ),
    hint=(
        "Expected '<task>-<pid> [cpu] flags seconds.fraction: event: fields'. For the kernel's own file turn "
        "raw, hex and bin off in trace_options and use a clock that counts seconds."
    ),
)


class FtraceReading(LineReading):
    """One pass over ftrace text."""

    def __init__(
        self, path: Path, *, hashed: bool = False, overwritten: Mapping[int, int] | None = None
    ) -> None:
        super().__init__(path, "ftrace", FTRACE, hashed=hashed)
        self.found.overwritten.update(overwritten or {})


class SystraceReading(FtraceReading):
    """One pass over a page of systrace, which has ftrace text."""

    def _text_in(self, stream: IO[bytes]) -> IO[bytes]:
        return systrace_text(stream)


class AtraceReading(FtraceReading):
    """One pass over the ftrace text that ``atrace -z`` packed."""

    def _text_in(self, stream: IO[bytes]) -> IO[bytes]:
        return atrace_text(stream)
