"""Reads ftrace text: the kernel's ``trace`` file of any version, and ``trace-cmd report``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wastedcores.trace.readers.text.lines import Dialect, LineReading

#: kernel/trace/trace_output.c:trace_print_context and trace_print_lat_fmt (4.1 ... 6.18): "%16s-%-7d ", an optional
#: "(%7d) " with record-tgid, "[%03d] ", 4 or 5 flag characters, the time; trace-cmd report leaves the flags out.
ENVELOPE = (
    r"^ *(?P<comm>.*?)-(?P<pid>\d{1,9}) +(?:\( *[\d-]+\) +)?\[(?P<cpu>\d{1,9})\] +(?:[^\s]{4,6} +)?"
    r"(?P<sec>\d{1,10})\.(?P<frac>\d{1,9}): +(?P<name>[\w.-]+)(?:: ?| <-)(?P<payload>.*)$"
)

#: The same without the name of an event, as other tracers write: "sys_ioctl -> 0x0", "sys_ioctl(fd: ff)".
_BARE = ENVELOPE.replace(r"(?:: ?| <-)(?P<payload>.*)$", r"(?P<payload>\W.*)?$")

#: The latency format (trace_print_lat_fmt; "%8.8s-%-7d %3d", flags, "%4lldus%c: ", in us since the beginning; since 6.5 with one
#: more flag), also as `trace-cmd report -l` prints it, with seconds.
_LATENCY = (
    r"^ *(?P<comm>.*?)-(?P<pid>\d{1,9}) +(?P<cpu>\d{1,4})[dDXbB.][^\s]{3,5} +"
    r"(?:(?P<us>\d{1,15})us.?|(?P<sec>\d{1,10})\.(?P<frac>\d{1,9})): +(?P<name>[\w.-]+)(?:: ?| <-)(?P<payload>.*)$"
)

DIALECT = Dialect(
    perf=False,
    envelopes=(ENVELOPE, _BARE, _LATENCY),
    noise=r"^(?: => |cpus=\d+$|version = |CPU \d+ is empty$|trace-cmd|\s*#)",
    lost=(
        r"^(?:CPU:(?P<cpu>\d{1,4}) \[(?:LOST )?(?P<n>\d{1,12})? ?(?:EVENTS DROPPED|EVENTS)\]"
        r"|##### CPU (?P<cpu2>\d{1,4}) buffer started ####)"
    ),
    hint=(
        "Expected '<task>-<pid> [cpu] flags seconds.fraction: event: fields'. For the kernel's own file turn "
        "raw, hex and bin off in trace_options and use a clock that counts seconds."
    ),
)


#: A line of ftrace text or of a trace-cmd report.
LOOKS_LIKE = rf"^# tracer:|^cpus=\d+\s*$|{ENVELOPE}"


class FtraceReading(LineReading):
    """One pass over ftrace text.

    Parameters
    ----------
    path
        The file.
    hashed
        Compute its SHA-256.
    overwritten
        Events per CPU that are known to be overwritten, if another source states them.
    """

    def __init__(
        self, path: Path, *, hashed: bool = False, overwritten: Mapping[int, int] | None = None
    ) -> None:
        super().__init__(path, "ftrace", DIALECT, hashed=hashed)
        self.found.overwritten.update(overwritten or {})
