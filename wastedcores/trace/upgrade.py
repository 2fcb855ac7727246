"""Headers of earlier schema versions, brought to the present one."""

from __future__ import annotations

from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import UsageError
from wastedcores.trace.header import SCHEMA_VERSION
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import find_window

#: the entries of version 1's ``provenance`` that became fields of their own with the same text
_SAME = ("kernel_model", "recording", "truncated_last_line")


def upgraded(trace: Trace) -> Trace:
    """Bring the header of a trace to the present schema version.

    Version 1 kept the measured window ("first mark | last mark"), the counted CPUs in list format, the kernel model, the
    recording's name and the truncated last line as text in ``provenance``. Text that cannot be read as such (a mark that
    the trace does not have) stays there.
    """
    header = trace.header
    if header.schema_version >= SCHEMA_VERSION:
        return trace
    text = dict(header.provenance)
    fields: dict[str, object] = {name: text.pop(name) for name in _SAME if name in text}
    try:
        if "window" in text:
            fields["window"] = find_window(trace, text["window"].split(" | "))
            del text["window"]
        if "counted_cpus" in text:
            fields["counted_cpus"] = parse_cpulist(text["counted_cpus"])
            del text["counted_cpus"]
    except UsageError:
        pass
    return trace.with_header(schema_version=SCHEMA_VERSION, provenance=text, **fields)
