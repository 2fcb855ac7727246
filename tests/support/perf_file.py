"""Builds a small perf.data file byte by byte, so that tests damage the same places of it in every run.

Layout: tools/perf/Documentation/perf.data-file-format.txt; formats as of a 6.12 kernel.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import NamedTuple

_COMMON = """	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

"""
_STATES = (
    'print fmt: "prev_state=%s", __print_flags(REC->prev_state, "|", { 0x00000001, "S" }, { 0x00000002, "D" }, '
    '{ 0x00000080, "I" })'
)
#: name -> (number, fields as (declaration, bytes), print format)
FORMATS = {
    "sched_switch": (
        101,
        (
            ("char prev_comm[16]", 16),
            ("pid_t prev_pid", 4),
            ("int prev_prio", 4),
            ("long prev_state", 8),
            ("char next_comm[16]", 16),
            ("pid_t next_pid", 4),
            ("int next_prio", 4),
        ),
    ),
    "sched_waking": (
        102,
        (("char comm[16]", 16), ("pid_t pid", 4), ("int prio", 4), ("int target_cpu", 4)),
    ),
    "sched_migrate_task": (
        103,
        (
            ("char comm[16]", 16),
            ("pid_t pid", 4),
            ("int prio", 4),
            ("int orig_cpu", 4),
            ("int dest_cpu", 4),
        ),
    ),
    "sched_process_fork": (
        104,
        (
            ("__data_loc char[] parent_comm", 4),
            ("pid_t parent_pid", 4),
            ("__data_loc char[] child_comm", 4),
            ("pid_t child_pid", 4),
        ),
    ),
    "sched_process_exec": (
        105,
        (("__data_loc char[] filename", 4), ("pid_t pid", 4), ("pid_t old_pid", 4)),
    ),
    "sched_process_exit": (106, (("char comm[16]", 16), ("pid_t pid", 4), ("int prio", 4))),
    "cpu_idle": (107, (("u32 state", 4), ("u32 cpu_id", 4))),
    "print": (108, (("unsigned long ip", 8), ("char buf[]", 0))),
    "sched_stat_runtime": (109, (("char comm[16]", 16), ("pid_t pid", 4), ("u64 runtime", 8))),
    "sched_wakeup": (
        110,
        (("char comm[16]", 16), ("pid_t pid", 4), ("int prio", 4), ("int target_cpu", 4)),
    ),
    "cpu_frequency": (111, (("u32 state", 4), ("u32 cpu_id", 4))),
}
#: IDENTIFIER, TID, TIME, CPU, PERIOD, RAW
SAMPLE_TYPE = 1 << 16 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 10


def format_of(name: str) -> str:
    """Return the kernel's ``format`` file of an event."""
    number, fields = FORMATS[name]
    text = f"name: {name}\nID: {number}\nformat:\n{_COMMON}"
    at = 8
    for declared, size in fields:
        text += f"\tfield:{declared};\toffset:{at};\tsize:{size};\tsigned:1;\n"
        at += size
    return text + "\n" + (_STATES if name == "sched_switch" else 'print fmt: "..."') + "\n\n"


def payload(name: str, *values: bytes | int, by: int = 1, flags: int = 0) -> bytes:
    """Return the raw data of an event; ``by`` is the pid of the task that it happened to, ``flags`` its common_flags."""
    number, fields = FORMATS[name]
    fixed, strings = struct.pack("<HBBi", number, flags, 0, by), b""
    tail = 8 + sum(size for _, size in fields)
    for (declared, size), value in zip(fields, values, strict=True):
        if declared.startswith("__data_loc"):
            assert isinstance(value, bytes)
            fixed += struct.pack("<HH", tail + len(strings), len(value) + 1)
            strings += value + b"\0"
        elif isinstance(value, bytes):
            fixed += value.ljust(size, b"\0")
        else:
            fixed += struct.pack({4: "<I", 8: "<Q"}[size], value & (1 << 8 * size) - 1)
    return fixed + strings


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    """Return a record of any kind."""
    body += bytes(-len(body) % 8)
    return struct.pack("<IHH", kind, misc, len(body) + 8) + body


def _sample(ts: int, cpu: int, tid: int, raw: bytes) -> bytes:
    head = struct.pack("<QIIQIIQ", 7, tid, tid, ts, cpu, 0, 1)
    return record(9, head + struct.pack("<I", len(raw)) + raw)


#: Ends a round of perf's buffers.
ROUND = record(68, b"")


def sample(ts: int, cpu: int, tid: int, name: str, *values: bytes | int, flags: int = 0) -> bytes:
    """Return a record of one event with the values of its fields."""
    return _sample(ts, cpu, tid, payload(name, *values, by=tid, flags=flags))


def _trailer(ts: int, cpu: int, tid: int) -> bytes:
    return struct.pack("<IIQIIQ", tid, tid, ts, cpu, 0, 7)


def lost_samples(n: int, misc: int = 0) -> bytes:
    """Return a PERF_RECORD_LOST_SAMPLES as perf record writes it at the end: its time and CPU are 0."""
    return record(13, struct.pack("<Q", n) + _trailer(0, 0, 0), misc)


def build(
    rounds: int = 6, cpus: int = 3, seed: int = 1, lost: int = 5, at_the_end: bytes = b""
) -> bytes:
    """Return a recording with every kind of event, losses, and names that change.

    Parameters
    ----------
    rounds
        Rounds of perf's buffers.
    cpus
        Number of CPUs.
    seed
        Of all random choices.
    lost
        Events that the PERF_RECORD_LOST of each round states; 0: there is no such record.
    at_the_end
        Records to append.
    """
    rng = random.Random(seed)
    ts = 10**12
    data = b""
    for _ in range(rounds):
        start = ts
        for cpu in range(cpus):
            ts = start + rng.randrange(50)
            for step in range(12):
                ts += rng.randrange(1, 400)
                pid, other = rng.randrange(100, 120), rng.randrange(100, 120)
                comm, name = b"task-%d" % pid, b"a-longer-name-%d" % (other % 10)
                events = [
                    payload(
                        "sched_switch", comm, pid, 120, rng.choice((0, 1, 2, 256)), name, other, 19
                    ),
                    payload("sched_waking", name, other, 120, rng.randrange(cpus)),
                    payload("sched_stat_runtime", comm, pid, 7),
                    payload("cpu_idle", rng.choice((0, 3, -1)), cpu),
                    payload("sched_process_fork", comm, pid, comm, 200 + step),
                    payload("sched_process_exec", b"/bin/true", pid, pid),
                    payload("sched_process_exit", comm, pid, 120),
                    payload("print", 0, b"") + b"a mark\n\0",
                ]
                data += _sample(ts, cpu, pid, rng.choice(events))
                if step % 4 == 0:  # woken here, and placed on another CPU
                    data += _sample(ts + 1, cpu, pid, events[1])
                    data += _sample(
                        ts + 2,
                        cpu,
                        pid,
                        payload("sched_migrate_task", name, other, 120, cpu, (cpu + 1) % cpus),
                    )
                    ts += 2
            body = struct.pack("<II", pid, pid) + b"renamed".ljust(16, b"\0")
            data += record(3, body + _trailer(ts + 1, cpu, pid))
            body = struct.pack("<IIIIQ", 300, pid, 300, pid, ts + 2)
            data += record(7, body + _trailer(ts + 2, cpu, pid))
        if lost:
            data += record(2, struct.pack("<QQ", 7, lost) + _trailer(ts + 3, cpu, pid))
        data += ROUND
        ts += 1000
    return file_of(data + at_the_end, cpus)


class Attribute(NamedTuple):
    """An event that perf recorded: its type and number, what its samples have, its flags, and its identifier."""

    kind: int = 2
    config: int = 101
    sample_type: int = SAMPLE_TYPE
    flags: int = 1 << 18  # sample_id_all
    id: int = 7


def file_of(
    data: bytes,
    cpus: int,
    release: bytes = b"6.12.0",
    host: bytes = b"",
    attributes: Sequence[Attribute] = (Attribute(),),
    command: Sequence[bytes] = (),
    online: int | None = None,
) -> bytes:
    """Return the file with these records. Without ``host`` it names none, and without ``command`` it has no command line.

    ``online`` is the number of CPUs that were online; default: all.
    """
    attributes_at = 104 + 8 * len(attributes)
    described = b"".join(
        struct.pack("<IIQQQQQ", a.kind, 128, a.config, 1, a.sample_type, 0, a.flags).ljust(
            128, b"\0"
        )
        + struct.pack("<QQ", 104 + 8 * i, 8)
        for i, a in enumerate(attributes)
    )
    begin = attributes_at + len(described)
    sections = [
        b"".join(format_of(name).encode() for name in FORMATS),
        *([struct.pack("<I", len(host) + 1) + host + b"\0"] if host else []),
        struct.pack("<I", len(release) + 1) + release + b"\0",
        struct.pack("<II", cpus, cpus if online is None else online),
        *([_strings(command)] if command else []),
    ]
    at = begin + len(data)
    table, body = b"", b""
    for section in sections:
        table += struct.pack("<QQ", at + 16 * len(sections) + len(body), len(section))
        body += section
    head = b"PERFILE2" + struct.pack(
        "<8Q", 104, 128 + 16, attributes_at, len(described), begin, len(data), 0, 0
    )
    features = 1 << 1 | (1 << 3 if host else 0) | 1 << 4 | 1 << 7 | (1 << 11 if command else 0)
    head += struct.pack("<4Q", features, 0, 0, 0)
    ids = b"".join(struct.pack("<Q", a.id) for a in attributes)
    return head + ids + described + data + table + body


def _strings(words: Sequence[bytes]) -> bytes:
    each = (struct.pack("<I", len(word) + 1) + word + b"\0" for word in words)
    return struct.pack("<I", len(words)) + b"".join(each)
