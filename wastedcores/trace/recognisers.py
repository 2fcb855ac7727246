"""How each foreign format is recognised, without importing its reader.

The regular expressions for lines are run by polars, whose engine needs time in proportion to the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wastedcores.errors import TraceFormatError

#: tools/perf/util/header.c: __perf_magic2
PERF_DATA = b"PERFILE2"
#: trace-cmd.dat(5): the first ten bytes
TRACE_DAT = b"\x17\x08\x44tracing"
#: The head of the collectors' file.
SCHEDTRACE = b'{"format": "wastedcores.schedtrace"'
#: Common Trace Format 1.8, section 6.1: the magic numbers of packets of events and of metadata, and how metadata in text begins
CTF_METADATA = (b"\xc1\x1f\xfc\xc1", b"\x57\x1d\xd1\x75", b"\x75\xd1\x1d\x57", b"/* CTF 1.8")
#: Common Trace Format 2: the record separator, which comes before each JSON text of the metadata
CTF2_METADATA = b"\x1e"

#: kernel/trace/trace_output.c:trace_print_context and trace_print_lat_fmt (4.1 ... 6.18): "%16s-%-7d ", an optional
#: "(%7d) " with record-tgid, "[%03d] ", 4 or 5 flag characters (7 with the patches of
#: PREEMPT_RT: need-resched-lazy and preempt-lazy-depth), the time; trace-cmd report leaves the flags out.
FTRACE_LINE = (
    r"^ *(?P<comm>.*?)-(?P<pid>\d{1,9}) +(?:\( *[\d-]+\) +)?\[(?P<cpu>\d{1,9})\] +(?:(?P<flags>[^\s]{4,7}) +)?"
    r"(?P<sec>\d{1,10})\.(?P<frac>\d{1,9}): +(?P<name>[\w.-]+)(?:: ?| <-)(?P<payload>.*)$"
)
#: The latency format (trace_print_lat_fmt; "%8.8s-%-7d %3d", flags, "%4lldus%c: ", in us since the beginning). There is one more
#: flag since 6.5, and there are three more with PREEMPT_RT. `trace-cmd report -l` prints the same format with seconds.
FTRACE_LATENCY_LINE = (
    r"^ *(?P<comm>.*?)-(?P<pid>\d{1,9}) +(?P<cpu>\d{1,4})(?P<flags>[dDXbB.][^\s]{3,6}) +"
    r"(?:(?P<us>\d{1,15})us.?|(?P<sec>\d{1,10})\.(?P<frac>\d{1,9})): +(?P<name>[\w.-]+)(?:: ?| <-)(?P<payload>.*)$"
)
#: tools/perf/builtin-script.c:perf_sample__fprintf_start (6.1): "%16s " comm, "%7d " tid or "%7d/%-7d " pid/tid, "[%03d] " cpu,
#: the letters of misc, "%5lu.%06lu: " time (%09lu with --ns), an optional period, "%*s: " event; -F leaves parts out. The address
#: and the symbol of the instruction follow the fields of the event.
_PERF_TIME = r"(?:[KUHGgEDSC]+ +)?(?P<sec>\d{1,10})\.(?P<frac>\d{1,9}): +(?:\d+ +)?"
_PERF_FIELDS = r": ?(?P<payload>.*?)(?: +[0-9a-f]{12,16} (?:\[unknown\]|[\w.$@+]+)(?: \(.*\))?)? *$"
PERF_SCRIPT_LINE = (
    r"^ *(?P<comm>.*?) +(?:\d+/)?(?P<pid>-?\d{1,9}) +\[(?P<cpu>\d{1,9})\] +"
    rf"{_PERF_TIME}(?P<name>[\w.-]+:[\w.:-]+|[\w./,=-]+){_PERF_FIELDS}"
)
#: The same line without the thread's number, or without its number and its name.
PERF_SCRIPT_NO_PID = (
    r"^ *(?P<comm>.*?)(?P<pid>) *\[(?P<cpu>\d{1,9})\] +"
    rf"{_PERF_TIME}(?P<name>[\w.-]+:[\w.:-]+){_PERF_FIELDS}"
)
#: A line without the [cpu] column. It is recognised so that the message can say what is missing.
PERF_SCRIPT_NO_CPU = r"^ *\S.*? +(?:\d+/)?-?\d+ +\d+\.\d{6,9}: +(?:\d+ +)?[\w-]+:[\w-]+: "
#: In lines with the states of CPUs, and in all lines of the fork, a tab and sometimes a space come before the time. "# " begins
#: the lines in which the authors' profiler tells the considered cores.
SCHED_PROFILER_LINE = (
    r"^(?P<state>[-\d ]*?)(?P<mark># |\t ?|  *)(?P<ts>\d+) nsecs (?P<kind>[A-Z_]+)"
    r"(?P<args>(?: +[0-9a-f-]+)*) *$"
)
#: dicksites/KUtrace, postproc/eventtospan3.cc: WriteSpanJson2
KUTRACE_SPAN = (
    r"^\s*(?:\{.*\"events\"\s*:\s*\[)?\s*\[\s*(?P<sec>\d+)\.(?P<frac>\d{1,9}), +(?P<dsec>\d+)\.(?P<dfrac>\d{1,9}), "
    r"(?P<cpu>-?\d+), (?P<pid>-?\d+), (?P<rpc>-?\d+), (?P<event>-?\d+), (?P<arg>-?\d+), (?P<ret>-?\d+), "
    r"(?P<ipc>-?\d+), \"(?P<name>[^\"]*)\"\],?\s*$"
)


class Candidate(NamedTuple):
    """What a recogniser looks at: a path, and the first 64 kB of the file there, unpacked (empty for a folder)."""

    path: Path
    start: bytes = b""


FTRACE = rf"^# tracer:|^cpus=\d+\s*$|{FTRACE_LINE}|{FTRACE_LATENCY_LINE.replace('?P<', '?P<l')}"
PERF_SCRIPT = rf"^# captured on\s*:|{PERF_SCRIPT_NO_CPU}|{PERF_SCRIPT_LINE}|{PERF_SCRIPT_NO_PID.replace('?P<', '?P<n')}"
KUTRACE = rf"{KUTRACE_SPAN}|\"axisLabelX\"\s*:\s*\"Time \(sec\)\""

#: What stands before the events in a page of systrace, and in a page of KUtrace (postproc/makeself.cc). The texts for old pages
#: of systrace end with a newline, because the scripts of newer pages contain a pattern that searches for the rest of these texts.
SYSTRACE_BLOCKS = (
    rb'<script class="trace-data" type="application/text">',
    b'linuxPerfData = "\\\n',
    b'linuxPerfData = "\\\r\n',
)
KUTRACE_BLOCK = rb"var myString = '"
_HTML = re.compile(rb"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
#: The scripts of a page have a few MB, and the data come after them. The data are searched for in this many bytes.
_MOST_SCRIPTS = 64 << 20
#: The beginning of what atrace writes (frameworks/native/cmds/atrace). After this line comes the text or, with -z, a zlib stream.
ATRACE = re.compile(rb"(?:[^\n]{0,200}\n){0,3}?TRACE:\r?\n(?=\x78[\x01\x5e\x9c\xda])")


def is_page(start: bytes) -> bool:
    """Tell whether this is HTML."""
    return bool(_HTML.match(start))


def is_systrace(file: Candidate) -> bool:
    """Tell whether this is a page that systrace wrote."""
    return is_page(file.start) and page_block(file.path) in SYSTRACE_BLOCKS


def is_kutrace_page(file: Candidate) -> bool:
    """Tell whether this is a page that KUtrace's makeself wrote."""
    return is_page(file.start) and page_block(file.path) == KUTRACE_BLOCK


def page_block(path: Path) -> bytes | None:
    """Return the known text that stands before the events in a page; None if the page has no such text."""
    from wastedcores.trace.readers.support.text_reading import unpacked

    words = (*SYSTRACE_BLOCKS, KUTRACE_BLOCK)
    longest = max(map(len, words))
    before, seen = b"", 0
    with unpacked(path) as stream:
        while seen < _MOST_SCRIPTS and (chunk := stream.read(1 << 20)):
            seen += len(chunk)
            text = before + chunk
            found = [(at, word) for word in words if (at := text.find(word)) >= 0]
            if found:
                return min(found)[1]
            before = text[-longest:]
    return None


def is_atrace(file: Candidate) -> bool:
    """Tell whether this is what ``atrace -z`` wrote."""
    return bool(ATRACE.match(file.start))


#: Numbers of the TracePacket fields with which files begin (protos/perfetto/trace/trace_packet.proto): clock_snapshot,
#: ftrace_events, trusted_uid, process_tree, timestamp, trusted_packet_sequence_id, track_event, sequence_flags, trace_config,
#: system_info, synchronization_marker, compressed_packets, track_descriptor, and others that services write.
_PACKET_FIELDS = {
    *range(1, 4), 5, 6, *range(8, 15), *range(33, 37), 41, 42, 45, 50, *range(56, 61), 72, 79, 87, 89, 92, 97, 109, 133,
}  # fmt: skip
#: The field of the packets that carry the recording in a file of ``wastedcores export`` (wastedcores/trace/carried.py).
OWN = 2998


def is_perfetto(file: Candidate) -> bool:
    """Tell whether this is a Trace of Perfetto, that is, a sequence of packets of which one has a known field."""
    at, whole, known = 0, 0, False
    while at < len(file.start) and whole < 4:
        if file.start[at] != 0x0A:
            return False
        size, begin = _varint(file.start, at + 1)
        if begin < 0:
            break
        fields = list(_fields(file.start[begin : begin + size]))
        if (size and not fields) or (None in fields and begin + size <= len(file.start)):
            return False
        if not all(f is None or f < 1000 or f == OWN for f in fields):
            return False
        known = known or bool(_PACKET_FIELDS & set(fields))
        at, whole = begin + size, whole + 1
    return known


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a variable-length number: (value, place after it); the place is -1 if the number is cut."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    return 0, -1


def _fields(message: bytes) -> Iterator[int | None]:
    """Yield the numbers of a message's fields, and then None if the bytes are not a message or the message is cut."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind, number = tag & 7, tag >> 3
        if at < 0 or kind not in (0, 1, 2, 5) or not number:
            yield None
            return
        if kind == 0:
            _, at = _varint(message, at)
        elif kind == 2:
            size, at = _varint(message, at)
            at = at + size if at >= 0 else at
        else:
            at += 8 if kind == 1 else 4
        if at < 0 or at > len(message):
            yield number
            yield None
            return
        yield number


def is_systing(file: Candidate) -> bool:
    """Tell whether this is a ``sched_slice.parquet`` of systing, or a folder with one."""
    if file.path.is_dir():
        return any(file.path.glob("*sched_slice.parquet"))
    if not file.start.startswith(b"PAR1"):
        return False
    from wastedcores.trace.parquet import check_decodes
    from wastedcores.trace.seal import has_seal

    try:
        return (
            not has_seal(file.path) and set(check_decodes(file.path, rows=False)) >= SYSTING_SLICE
        )
    except OSError:
        return False


#: The columns of systing's sched_slice that its reader needs.
SYSTING_SLICE = {"ts", "dur", "cpu", "utid", "end_state"}


def ctf_folders(path: Path) -> list[Path]:
    """Return the folders with a ``metadata`` file of the Common Trace Format; they are at most four levels below ``path``."""
    found = [m.parent for depth in range(5) for m in path.glob("*/" * depth + "metadata")]
    return [folder for folder in found if _is_ctf_metadata(folder / "metadata")]


def _is_ctf_metadata(file: Path) -> bool:
    try:
        with file.open("rb") as f:
            start = f.read(16)
    except OSError:
        return False
    return start.startswith(CTF_METADATA) or (start[:1] == CTF2_METADATA and b"{" in start)


def is_ctf(file: Candidate) -> bool:
    """Tell whether this is a folder of the Common Trace Format."""
    return file.path.is_dir() and bool(ctf_folders(file.path))


def is_tar(file: Candidate) -> bool:
    """Tell whether this is a tar archive, as SchedViz's collectors write one."""
    return file.start[257:262] == b"ustar"


#: google/schedviz, ebpf/sched.bt: the first line that it prints
BPFTRACE_START = re.compile(rb"^ST:0:[0-9a-f]{1,16}\r?$", re.MULTILINE)


def is_schedviz(file: Candidate) -> bool:
    """Tell whether this is an archive of SchedViz's collectors, or the text of its bpftrace script."""
    return is_tar(file) or bool(BPFTRACE_START.search(file.start[: 1 << 12]))


def is_perf_folder(file: Candidate) -> bool:
    """Tell whether this is the folder that `perf record --threads` writes: it has a ``data`` file of perf."""
    if not file.path.is_dir():
        return False
    try:
        with (file.path / "data").open("rb") as f:
            return f.read(8) == PERF_DATA
    except OSError:
        return False


def is_schedlog(file: Candidate) -> bool:
    """Tell whether this is a ring of SchedLog or a folder of rings; this runs a part of the reader, so it is asked last."""
    from wastedcores.trace.readers.schedlog import looks_like

    return looks_like(file.path)


#: Texts that were made from a trace but are not traces: for each, the line that shows this, and what the text tells.
NOT_TRACES = {
    "perf sched map": (
        r"^ +(?:\*|[A-Z.-]).{0,400} +\d+\.\d{6} secs(?: +[A-Z]\S* => .*)?\s*$",
        "it shows which thread runs on which CPU, and no waiting",
    ),
    "perf sched timehist": (
        r"^ +time +(?:cpu|CPU) +task name +"
        r"|^ *\d+\.\d{6} +\[\d+\] +.*?(?:\[\d+(?:/\d+)?\]|<idle>) +\d+\.\d{3} +\d+\.\d{3} +\d+\.\d{3}",
        "it shows where threads ran and how long they had waited, but not on which runqueue, nor who woke them",
    ),
    "perf sched latency": (
        r"^ +Task +\| +Runtime ms +\| +(?:Switches|Count)",
        "it has sums per thread",
    ),
    "perf script without the names of events": (
        r"\[\d+\] +\d+\.\d{6,9}: +(?:prev_comm|comm)=\S",
        "a line does not say which event it is, so print them with -F +event,+cpu,+trace",
    ),
    "/proc/schedstat": (
        r"^version 1[4-9]$",
        "it has the scheduler's counters since boot, of which two samples tell how often CPUs balanced and how long threads "
        "waited in all, but not whether a CPU was idle meanwhile",
    ),
}


def refuse_summary(path: Path, lines: list[str]) -> None:
    """Refuse a text that a tool made from a trace, and say how to get the trace itself."""
    for name, (pattern, why) in NOT_TRACES.items():
        hits = sum(bool(re.search(pattern, line)) for line in lines)
        if hits and (name != "perf sched map" or hits > len(lines) // 2):
            way = (
                "Name the perf.data from which it was made, or record one"
                if name.startswith("perf")
                else f"`wastedcores schedstat {path.name}` prints them; for a verdict record a trace"
            )
            raise TraceFormatError(
                f"{path}: this is the text of {name}: {why}. {way}: perf sched record -o perf.data sleep 10."
            )
