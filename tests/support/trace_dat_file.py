"""Writes a run as a small trace.dat of version 6 (man trace-cmd.dat.v6), without symbols and with the events that occur."""

from __future__ import annotations

import struct

from support import perf_file
from support.encoders import KHZ, comm, tracepoints
from support.recorders import Run

PAGE = 4096
_HEADER_PAGE = """	field: u64 timestamp;	offset:0;	size:8;	signed:0;
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
_PRINT = {
    "sched_switch": (
        '"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, '
        'REC->prev_pid, REC->prev_prio, REC->prev_state ? __print_flags(REC->prev_state, "|", { 0x0001, "S" }, '
        '{ 0x0002, "D" }) : "R", REC->next_comm, REC->next_pid, REC->next_prio'
    ),
    "sched_wakeup": (
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
        out += _sized("<Q", f"{head}print fmt: {_PRINT[name]}\n".encode())
    return out


def _pages(events: list[tuple[int, bytes]]) -> bytes:
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


def as_trace_dat(run: Run) -> bytes:
    """Return the file."""
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
    out = b"\x17\x08\x44tracing6\0\0\x08" + struct.pack("<I", PAGE)
    out += b"header_page\0" + _sized("<Q", _HEADER_PAGE.encode())
    out += b"header_event\0" + _sized("<Q", _HEADER_EVENT.encode())
    out += struct.pack("<I", 0)  # formats of ftrace's own events
    out += struct.pack("<I", 2) + _events("power", ["cpu_frequency"])
    out += _events("sched", ["sched_switch", "sched_wakeup", "sched_migrate_task"])
    out += struct.pack("<II", 0, 0)  # symbols, formats of trace_printk
    out += _sized("<Q", "".join(f"{p} {n}\n" for p, n in names.items()).encode())
    out += struct.pack("<I", run.cpus) + b"options  \0" + struct.pack("<H", 0) + b"flyrecord\0"
    data = [_pages(b) for b in buffers]
    at = -(-(len(out) + 16 * run.cpus) // PAGE) * PAGE
    start = at
    for pages in data:
        out += struct.pack("<QQ", at, len(pages))
        at += len(pages)
    return out.ljust(start, b"\0") + b"".join(data)
