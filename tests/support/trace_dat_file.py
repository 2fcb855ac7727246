"""Writes a run as a small trace.dat (man trace-cmd.dat.v6 and v7), without symbols and with the events that occur."""

from __future__ import annotations

import struct

import zstandard

from support import perf_file
from support.encoders import KHZ, comm, tracepoints
from support.recorders import Run

PAGE = 4096
#: a version of `as_trace_dat`: what collectors/tracefs.py writes
COLLECTOR = 0
HEADER_PAGE = """	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
"""
_HEADER_EVENT = """# compressed entry header
	type_len    :    5 bits
	time_delta  :   27 bits
	array       :   32 bits

	padding     : type == 29
	time_extend : type == 30
	time_stamp : type == 31
	data max type_len  == 28
"""
#: print format of each event that a file has
PRINT = {
    "sched_switch": (
        '"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, '
        'REC->prev_pid, REC->prev_prio, REC->prev_state ? __print_flags(REC->prev_state, "|", { 0x0001, "S" }, '
        '{ 0x0002, "D" }) : "R", REC->next_comm, REC->next_pid, REC->next_prio'
    ),
    "sched_wakeup": (
        '"comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu'
    ),
    "sched_waking": (
        '"comm=%s pid=%d prio=%d target_cpu=%03d", REC->comm, REC->pid, REC->prio, REC->target_cpu'
    ),
    "sched_migrate_task": (
        '"comm=%s pid=%d prio=%d orig_cpu=%d dest_cpu=%d", REC->comm, REC->pid, REC->prio, REC->orig_cpu, REC->dest_cpu'
    ),
    "cpu_frequency": '"state=%lu cpu_id=%lu", (unsigned long)REC->state, (unsigned long)REC->cpu_id',
}


def _sized(bits: str, content: bytes) -> bytes:
    return struct.pack(bits, len(content)) + content


def _events(system: str, names: list[str]) -> bytes:
    out = system.encode() + b"\0" + struct.pack("<I", len(names))
    for name in names:
        head = perf_file.format_of(name).partition("print fmt:")[0]
        out += _sized("<Q", f"{head}print fmt: {PRINT[name]}\n".encode())
    return out


def pages_of(events: list[tuple[int, bytes]]) -> bytes:
    """Return the pages of one CPU's ring buffer (kernel/trace/ring_buffer.c)."""
    out, data, first, last = b"", b"", 0, 0
    for ts, payload in [*events, (0, b"")]:
        if data and (not payload or len(data) + len(payload) + 4 > PAGE - 16):
            out += (struct.pack("<QQ", first, len(data)) + data).ljust(PAGE, b"\0")
            data = b""
        if payload:
            first = first if data else ts
            delta = ts - last if data else 0
            words = -(-len(payload) // 4)
            data += struct.pack("<I", words | delta << 5) + payload.ljust(4 * words, b"\0")
            last = ts
    return out or struct.pack("<QQ", 0, 0).ljust(PAGE, b"\0")


def as_trace_dat(run: Run, version: int = 6) -> bytes:
    """Return the file of version 6, of version 7 with everything compressed, or of the collector."""
    buffers: list[list[tuple[int, bytes]]] = [[] for _ in range(run.cpus)]
    names = {0: "swapper"}
    for ts, cpu, by, event, f in tracepoints(run):
        pid = int(f.get("pid", 0))
        who = comm(pid).encode()
        if event == "sched_wakeup":
            values: tuple[bytes | int, ...] = (who, pid, 120, int(f["cpu"]))
        elif event == "sched_migrate_task":
            values = (who, pid, 120, int(f["src"]), int(f["cpu"]))
        elif event == "cpu_frequency":
            values = (KHZ, 0)
        else:
            before = int(f["prev_pid"])
            values = (comm(before).encode(), before, 120, int(f["state"] == "S"), who, pid, 120)
        buffers[cpu].append((ts, perf_file.payload(event, *values, by=by)))
        names[by] = comm(by)
    comms = "".join(f"{p} {n}\n" for p, n in names.items()).encode()
    data = [pages_of(b) for b in buffers]
    return {6: version_6, 7: version_7, COLLECTOR: collectors_file}[version](comms, data)


def _heads() -> tuple[bytes, bytes, bytes]:
    """Return the formats of pages, of ftrace's own events (none) and of all systems' events."""
    pages = b"header_page\0" + _sized("<Q", HEADER_PAGE.encode())
    pages += b"header_event\0" + _sized("<Q", _HEADER_EVENT.encode())
    events = struct.pack("<I", 2) + _events("power", ["cpu_frequency"])
    events += _events("sched", [name for name in PRINT if name.startswith("sched_")])
    return pages, struct.pack("<I", 0), events


def version_6(comms: bytes, data: list[bytes]) -> bytes:
    out = b"\x17\x08\x44tracing6\0\0\x08" + struct.pack("<I", PAGE) + b"".join(_heads())
    out += struct.pack("<II", 0, 0)  # symbols, formats of trace_printk
    out += _sized("<Q", comms)
    out += struct.pack("<I", len(data)) + b"options  \0" + struct.pack("<H", 0) + b"flyrecord\0"
    at = -(-(len(out) + 16 * len(data)) // PAGE) * PAGE
    start = at
    for pages in data:
        out += struct.pack("<QQ", at, len(pages))
        at += len(pages)
    return out.ljust(start, b"\0") + b"".join(data)


def collectors_file(comms: bytes, data: list[bytes], counts: str = "") -> bytes:
    """Return the file of collectors/tracefs.py: in turn a page of each CPU."""
    out = version_6(comms, data).partition(b"flyrecord\0")[0] + b"pages    \0"
    for at in range(0, max(map(len, data)), PAGE):
        for cpu, pages in enumerate(data):
            if page := pages[at : at + PAGE]:
                out += struct.pack("<II", cpu, len(page)) + page
    return out + struct.pack("<I", 0xFFFFFFFF) + _sized("<I", counts.encode())


def packed(content: bytes) -> bytes:
    """Return what trace-cmd writes for a compressed part: its two sizes, and what zstd made of it."""
    small = zstandard.ZstdCompressor().compress(content)
    return struct.pack("<II", len(small), len(content)) + small


def option(number: int, content: bytes) -> bytes:
    """Return an option."""
    return struct.pack("<HI", number, len(content)) + content


def version_7(
    comms: bytes, data: list[bytes], *, clock: bytes = b"mono", options: bytes = b""
) -> bytes:
    """Return a file with these names of tasks and these pages of each CPU; ``options`` come after the usual ones."""
    more = options
    out = b"\x17\x08\x44tracing7\0\0\x08" + struct.pack("<I", PAGE) + b"zstd\x001.5.4\0"
    pointer = len(out)
    out += bytes(8)
    places = {}
    for number, content in zip((16, 17, 18, 21), (*_heads(), _sized("<Q", comms)), strict=True):
        places[number] = len(out)
        small = packed(content)
        out += struct.pack("<HHIQ", number, 1, 0, len(small)) + small
    buffer = len(out)
    out += struct.pack("<HHIQ", 3, 1, 0, 0)
    rows = b""
    for cpu, pages in enumerate(data):
        chunks = [packed(pages[i : i + 2 * PAGE]) for i in range(0, len(pages), 2 * PAGE)]
        content = b"".join(chunks)
        rows += struct.pack("<IQQ", cpu, len(out), len(content))
        out += struct.pack("<I", len(chunks)) + content
    options = b"".join(option(n, struct.pack("<Q", at)) for n, at in places.items())
    options += option(4, b"local [" + clock + b"] boot\0") + option(8, struct.pack("<I", len(data)))
    options += option(5, b"Linux host 6.1.0 x86_64\0")
    options += option(
        3,
        struct.pack("<Q", buffer)
        + b"\0"
        + clock
        + b"\0"
        + struct.pack("<II", PAGE, len(data))
        + rows,
    )
    options += more + option(0, struct.pack("<Q", 0))
    at = len(out)
    out += struct.pack("<HHIQ", 0, 0, 0, len(options)) + options
    return out[:pointer] + struct.pack("<Q", at) + out[pointer + 8 :]
