"""Writes a random run (:mod:`support.recorders`) as the kernel's text, as perf's text and data, and as a capture.

Every file ends with a frequency event, which is the end of the run in all of them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from support import perf_file
from support.recorders import Run
from wastedcores.trace.readers.schedtrace import reader
from wastedcores.trace.readers.schedtrace.records import STATES

KHZ = 2_200_000


def tracepoints(run: Run) -> Iterator[tuple[int, int, int, str, dict[str, int | str]]]:
    """Yield (ns, CPU on which it happened, pid that ran there, event, its fields)."""
    running = [900 + c for c in range(run.cpus)]
    for ts, what, cpu, pid, more in run.happened:
        if what == "wakeup":
            fields: dict[str, int | str] = {"pid": pid, "cpu": cpu}
            yield ts, cpu, running[cpu], "sched_wakeup", fields
        elif what == "migrate":
            yield ts, 0, running[0], "sched_migrate_task", {"pid": pid, "src": more, "cpu": cpu}
        else:
            fields = {"prev_pid": pid, "state": what[-1], "pid": more}
            yield ts, cpu, running[cpu], "sched_switch", fields
            running[cpu] = more
    yield run.end_ns, 0, running[0], "cpu_frequency", {}


def _payload(event: str, f: dict[str, int | str]) -> str:
    if event == "sched_wakeup":
        return f"comm={comm(f['pid'])} pid={f['pid']} prio=120 target_cpu={f['cpu']:03d}"
    if event == "sched_migrate_task":
        return (
            f"comm={comm(f['pid'])} pid={f['pid']} prio=120 orig_cpu={f['src']} dest_cpu={f['cpu']}"
        )
    if event == "cpu_frequency":
        return f"state={KHZ} cpu_id=0"
    return (
        f"prev_comm={comm(f['prev_pid'])} prev_pid={f['prev_pid']} prev_prio=120 prev_state={f['state']} ==> "
        f"next_comm={comm(f['pid'])} next_pid={f['pid']} next_prio=120"
    )


def comm(pid: int | str) -> str:
    """Return the name of a task."""
    return f"t{pid}" if pid else "swapper"


def as_ftrace(run: Run) -> bytes:
    """Return what the kernel prints (kernel/trace/trace_output.c: trace_print_context)."""
    lines = [f"# tracer: nop\n#\n# entries-in-buffer/entries-written: 9/9   #P:{run.cpus}\n#\n"]
    for ts, cpu, pid, event, fields in tracepoints(run):
        stamp = f"{ts // 10**9:5d}.{ts // 1000 % 10**6:06d}"
        lines.append(
            f"{comm(pid):>16}-{pid:<7d} [{cpu:03d}] d..2. {stamp}: {event}: {_payload(event, fields)}\n"
        )
    return "".join(lines).encode()


def as_trace_cmd(run: Run) -> bytes:
    """Return a report of trace-cmd, with its own way to print switches and wakeups (plugin_sched_switch.c)."""
    lines = [f"cpus={run.cpus}\n"]
    for ts, cpu, pid, event, f in tracepoints(run):
        text = _payload(event, f)
        if event == "sched_switch":
            text = f"{comm(f['prev_pid'])}:{f['prev_pid']} [120] {f['state']} ==> {comm(f['pid'])}:{f['pid']} [120]"
        elif event == "sched_wakeup":
            text = f"{comm(f['pid'])}:{f['pid']} [120] CPU:{f['cpu']:03d}"
        stamp = f"{ts // 10**9:5d}.{ts // 1000 % 10**6:06d}"
        lines.append(f"{comm(pid):>16}-{pid:<5d} [{cpu:03d}] {stamp}: {event + ':':<21} {text}\n")
    return "".join(lines).encode()


def as_perf_script(run: Run) -> bytes:
    """Return the text of `perf script --ns` (tools/perf/builtin-script.c: perf_sample__fprintf_start)."""
    lines = [f"# captured on    : today\n# nrcpus online : {run.cpus}\n"]
    for ts, cpu, pid, event, fields in tracepoints(run):
        group = "power" if event.startswith("cpu_") else "sched"
        stamp = f"{ts // 10**9:5d}.{ts % 10**9:09d}"
        lines.append(
            f"{comm(pid):>16} {pid:7d} [{cpu:03d}] {stamp}: {group}:{event}: {_payload(event, fields)}\n"
        )
    return "".join(lines).encode()


def as_perf_data(run: Run) -> bytes:
    """Return a perf.data with all samples in one round."""
    data = b""
    for ts, cpu, pid, event, f in tracepoints(run):
        who = comm(f.get("pid", 0)).encode()
        values: tuple[bytes | int | str, ...]
        if event == "sched_wakeup":
            values = (who, f["pid"], 120, f["cpu"])
        elif event == "sched_migrate_task":
            values = (who, f["pid"], 120, f["src"], f["cpu"])
        elif event == "cpu_frequency":
            values = (KHZ, 0)
        else:
            before = comm(f["prev_pid"]).encode()
            values = (before, f["prev_pid"], 120, int(f["state"] == "S"), who, f["pid"], 120)
        data += perf_file.sample(ts, cpu, pid, event, *values)
    return perf_file.file_of(data + perf_file.ROUND, run.cpus)


def as_schedtrace(run: Run) -> bytes:
    """Return a capture of this project's collector (collectors/wastedcores.h)."""
    meta = {
        "format": reader.FORMAT, "version": reader.VERSION, "record_bytes": 16, "t0_ns": 500_000, "clock": "mono",
        "kernel": "6.1.0-test", "cpus": run.cpus, "cpus_online": list(range(run.cpus)), "mask_words": 1,
        "events": ["switch", "wakeup", "migrate", "frequency"], "snapshot": "none",
    }  # fmt: skip
    records = [b""] * run.cpus
    for ts, cpu, by, event, f in tracepoints(run):
        pid, x = int(f.get("pid", 0)), 0
        if event == "sched_wakeup":
            kind, w = "wakeup", pid | by << 22 | int(f["cpu"]) << 44 | cpu << 57
        elif event == "sched_migrate_task":
            kind, w = "migrate", pid | int(f["src"]) << 22 | int(f["cpu"]) << 35 | by << 48
        elif event == "cpu_frequency":
            kind, w = "frequency", KHZ << 16
        else:
            kind, w = "switch", int(f["prev_pid"]) | pid << 22 | 120 << 44 | 120 << 52
            x = STATES.index(str(f["state"]))
        records[cpu] += struct.pack("<QQ", ts - 500_000 | reader.KINDS[kind] << 48 | x << 53, w)
    out = (json.dumps(meta) + "\n").encode()
    for cpu, payload in enumerate(records):
        out += _block(reader.EVENTS_BLOCK, payload, cpu)
    return out + _block(reader.END_BLOCK, b'{"why": "time is up"}', 0)


def _block(kind: int, payload: bytes, cpu: int) -> bytes:
    head = (reader.BLOCK_MAGIC, kind, cpu, len(payload), 1, 10**9, 0, 0)
    return struct.pack("<IHHIIQQQ", *head) + payload


def write(run: Run, folder: Path) -> dict[str, Path]:
    """Write the run in each of these formats, and return the files by the name of the format."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, encode in ENCODERS.items():
        files[name] = folder / name
        files[name].write_bytes(encode(run))
    return files


ENCODERS = {
    "ftrace": as_ftrace,
    "trace-cmd": as_trace_cmd,
    "perf-script": as_perf_script,
    "perf.data": as_perf_data,
    "schedtrace": as_schedtrace,
}
