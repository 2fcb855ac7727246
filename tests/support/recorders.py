"""Random runs of a scheduler, written in the formats of several recorders.

The encoders follow the recorders' published definitions, not the readers: SchedLog's struct and hooks
(carverdamien/SchedLog, kernel/sched/log.h @0a82429c, core.c @1161be65, sched.h @a6c25b92), systing's tables
(josefbacik/systing, src/trace/schema.rs @0749c755), KUtrace's JSON (dicksites/KUtrace, postproc/eventtospan3.cc @01e5bd54).
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from support.builders import migrate, switch, wakeup

#: kernel/sched/log.h @0a82429c: enum sched_log_traced_event
SCHEDLOG = (
    *(
        "EXEC",
        "EXIT",
        "WAKEUP",
        "WAKEUP_NEW",
        "BLOCK",
        "BLOCK_IO",
        "FORK",
        "WAIT_PID",
        "TICK",
        "CTX_SWITCH",
    ),
    *(
        "MIGRATE",
        "RQ_SIZE",
        "IDL_BLN_FAIR_BEG",
        "IDL_BLN_FAIR_END",
        "PER_BLN_FAIR_BEG",
        "PER_BLN_FAIR_END",
    ),
    *("WAIT_FUTEX", "WAKE_FUTEX", "WAKER_FUTEX"),
)


@dataclass
class Run:
    """What happened, in order of time: (ns, what, cpu, pid, more); and who waited: (pid, from, until)."""

    cpus: int
    happened: list[tuple[int, str, int, int, int]] = field(default_factory=list)
    waits: list[tuple[int, int, int]] = field(default_factory=list)
    end_ns: int = 0


def random_run(
    seed: int, cpus: int = 3, tasks: int = 6, steps: int = 120, *, placed: bool = False
) -> Run:
    """Return a run in which tasks wake up, are preempted, moved and block at random. All CPUs go idle at its start.

    With ``placed``, every task runs where it waited: waiting tasks are not moved, and all of them run before the end.
    """
    chance = random.Random(seed)
    run = Run(cpus)
    now = 1_000_000
    running = [0] * cpus
    queues: list[list[int]] = [[] for _ in range(cpus)]
    since: dict[int, int] = {}
    asleep = [100 + i for i in range(tasks)]
    for cpu in range(cpus):
        run.happened.append((now, "switch S", cpu, 900 + cpu, 0))

    def start_next(cpu: int, left_in: str) -> None:
        old = running[cpu]
        new = queues[cpu].pop(0) if queues[cpu] else 0
        if new:
            run.waits.append((new, since.pop(new), now))
        if old and left_in == "R":
            queues[cpu].append(old)
            since[old] = now
        elif old:
            asleep.append(old)
        run.happened.append((now, f"switch {left_in if old else 'R'}", cpu, old, new))
        running[cpu] = new

    for _ in range(steps):
        now += 1000 * chance.randint(1, 60)
        cpu = chance.randrange(cpus)
        act = chance.random()
        if act < 0.4 and asleep:
            pid = asleep.pop(chance.randrange(len(asleep)))
            run.happened.append((now, "wakeup", cpu, pid, 0))
            queues[cpu].append(pid)
            since[pid] = now
        elif act < 0.55 and any(queues) and not placed:
            src = chance.choice([c for c in range(cpus) if queues[c]])
            dst = chance.choice([c for c in range(cpus) if c != src])
            pid = queues[src].pop()
            run.happened.append((now, "migrate", dst, pid, src))
            queues[dst].append(pid)
        elif act < 0.75 and running[cpu] and queues[cpu]:
            start_next(cpu, "R")
        elif act < 0.9 and running[cpu]:
            start_next(cpu, "S")
        elif queues[cpu] and not running[cpu]:
            start_next(cpu, "R")
    for cpu in range(cpus) if placed else ():
        while queues[cpu]:
            now += 1000
            start_next(cpu, "S")
    run.end_ns = now + 5000
    return run


def as_events(run: Run) -> list[dict]:
    """Return the run as events of the trace schema."""
    rows = []
    for ts, what, cpu, pid, more in run.happened:
        if what == "wakeup":
            rows.append(wakeup(ts, cpu, pid))
        elif what == "migrate":
            rows.append(migrate(ts, more, cpu, pid))
        else:
            rows.append(switch(ts, cpu, pid, what[-1], more))
    rows.append({"ts_ns": run.end_ns, "kind": "mark", "text": "end"})
    return rows


def as_schedlog(run: Run, folder: Path, names: tuple[str, ...] = SCHEDLOG) -> Path:
    """Write one ring per CPU, as ``sched_log dump-raw`` does."""
    rings = [b""] * run.cpus
    size = [1] * run.cpus

    def log(cpu: int, ts: int, event: str, pid: int, arg0: int = 0, arg1: int = 0) -> None:
        rings[cpu] += struct.pack("<Qiiii", ts, pid, names.index(event), arg0, arg1)

    def resize(cpu: int, ts: int, by: int) -> None:
        size[cpu] += by
        log(cpu, ts, "RQ_SIZE", 1, size[cpu], by)

    for ts, what, cpu, pid, more in run.happened:
        if what == "wakeup":
            resize(cpu, ts, 1)
            log(cpu, ts, "WAKEUP", pid)
        elif what == "migrate":
            resize(more, ts, -1)
            log(0, ts, "MIGRATE", pid, more, cpu)
            resize(cpu, ts, 1)
        else:
            if pid and what == "switch S":
                resize(cpu, ts, -1)
                log(cpu, ts, "BLOCK", pid)
            log(cpu, ts, "CTX_SWITCH", pid, more)
    log(0, run.end_ns, "TICK", 0, 0, 2_200_000)
    folder.mkdir(parents=True, exist_ok=True)
    for cpu, ring in enumerate(rings):
        (folder / str(cpu)).write_bytes(ring)
    return folder


def as_sched_profiler(run: Run, file: Path) -> Path:
    """Write a line for each change of a runqueue, which begins with the sizes of all runqueues, and a last line for the end.

    The format is that of the fork (Tingjia980311/wastedcores, tools/visualizations_4.1/sched_profiler).
    """
    size = [-1] * run.cpus
    lines = []

    def resize(cpu: int, ts: int, to: int) -> None:
        size[cpu] = to
        lines.append("".join(f"{n:4d}" for n in size) + f"\t {ts} nsecs RQ {cpu:4d} {to:4d}\n")

    for ts, what, cpu, _, more in run.happened:
        if what == "wakeup":
            resize(cpu, ts, size[cpu] + 1)
        elif what == "migrate":
            resize(more, ts, size[more] - 1)
            resize(cpu, ts, size[cpu] + 1)
        elif what == "switch S":
            resize(cpu, ts, max(size[cpu], 1) - 1)
    file.write_text("".join(lines) + f"\t {run.end_ns} nsecs WF\n")
    return file


#: src/trace/schema.rs: sched_slice_schema, thread_state_schema, thread_schema, sched_migrate_schema, ...
SYSTING = {
    "sched_slice": {
        "ts": pl.Int64, "dur": pl.Int64, "cpu": pl.Int32, "utid": pl.Int64, "end_state": pl.Int32, "priority": pl.Int32,
    },
    "thread_state": {"ts": pl.Int64, "dur": pl.Int64, "utid": pl.Int64, "state": pl.Int32, "cpu": pl.Int32},
    "thread": {"utid": pl.Int64, "tid": pl.Int32, "name": pl.String, "upid": pl.Int64},
    "sched_migrate": {"ts": pl.Int64, "utid": pl.Int64, "orig_cpu": pl.Int32, "dest_cpu": pl.Int32},
    "wakeup_new": {"ts": pl.Int64, "cpu": pl.Int32, "utid": pl.Int64, "target_cpu": pl.Int32},
    "process_exit": {"ts": pl.Int64, "cpu": pl.Int32, "utid": pl.Int64},
    "counter": {"ts": pl.Int64, "track_id": pl.Int64, "value": pl.Float64},
    "counter_track": {"id": pl.Int64, "name": pl.String, "unit": pl.String},
}  # fmt: skip


def write_systing(folder: Path, tables: dict[str, list[tuple]], prefix: str = "") -> Path:
    """Write tables of the given rows, with the types of systing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        frame = pl.DataFrame(rows, schema=SYSTING[name], orient="row")
        frame.write_parquet(folder / f"{prefix}{name}.parquet", compression="zstd")
    return folder


def as_systing(run: Run, folder: Path) -> Path:
    """Write the slices in the order of their ends, as systing does; a wakeup names the CPU on which the thread last ran."""
    slices, states, moves = [], [], []
    open_slice: dict[int, tuple[int, int]] = {}
    last_cpu: dict[int, int] = {}
    pids = {0: "swapper"}
    for ts, what, cpu, pid, more in run.happened:
        who = (pid,) if what == "migrate" else (pid, more)
        pids |= {p: f"t{p}" for p in who if p}
        if what == "wakeup":
            before = last_cpu.get(pid, cpu)
            states.append((ts, 0, 5000 + pid, 0, before))
            if before != cpu:
                moves.append((ts, 5000 + pid, before, cpu))
            last_cpu[pid] = cpu
        elif what == "migrate":
            moves.append((ts, 5000 + pid, more, cpu))
            last_cpu[pid] = cpu
        else:
            if cpu in open_slice:
                begun, who = open_slice[cpu]
                slices.append(
                    (
                        begun,
                        ts - begun,
                        cpu,
                        5000 + who,
                        1 if what == "switch S" and who else None,
                        120,
                    )
                )
            open_slice[cpu] = (ts, more)
            last_cpu[more] = cpu
    for cpu, (begun, who) in open_slice.items():
        slices.append((begun, run.end_ns - begun, cpu, 5000 + who, None, 120))
    return write_systing(
        folder,
        {
            "sched_slice": slices,
            "thread_state": states,
            "sched_migrate": moves,
            "thread": [(5000 + p, p, name, None) for p, name in pids.items()],
        },
    )


def span(ts: int, dur: int, cpu: int, pid: int, event: int, name: str, arg: int = 0) -> str:
    """Return a span as eventtospan3.cc writes it (WriteSpanJson2); times in ns."""
    return (
        f'[{ts / 1e9:12.8f}, {dur / 1e9:10.8f}, {cpu}, {pid}, 0, {event}, {arg}, 0, 0, "{name}"],\n'
    )


def kutrace_json(spans: list[str], *, end: bool = True) -> str:
    """Return a file as eventtospan3.cc writes it (InitialJson, FinalJson), sorted as postproc3.sh does."""
    head = (
        '  {\n "Comment" : "V2 with IPC field",\n "axisLabelX" : "Time (sec)",\n "axisLabelY" : "CPU Number",\n'
        ' "flags" : 0,\n "kernelVersion" : "5.10.66#8SMP",\n "shortUnitsX" : "s",\n "title" : "made up",\n'
        ' "tracebase" : "2026-11-21_05:00:00",\n "version" : 3,\n"events" : [\n'
    )
    return (
        head
        + "".join(sorted(spans))
        + ('[999.0, 0.0, 0, 0, 0, 0, 0, 0, 0, ""]\n]}\n' if end else "")
    )


def as_kutrace(run: Run, file: Path) -> Path:
    """Write the execution spans of every CPU, wakeups, and wait_cpu spans, which do not say where a thread waits."""
    spans = []
    now: dict[int, tuple[int, int]] = {}

    def executed(cpu: int, until: int) -> None:
        begun, pid = now[cpu]
        event = 0x10000 + pid
        spans.append(
            span(begun, until - begun, cpu, pid, event, f"t{pid}.{pid}" if pid else "-idle-")
        )

    woken = {}
    for ts, what, cpu, pid, more in run.happened:
        if what == "wakeup":
            spans.append(span(ts, 10, cpu, now[cpu][1], 518, f"runnable.{pid}", pid))
            woken[pid] = ts
        elif what != "migrate":
            if cpu in now:
                executed(cpu, ts)
            now[cpu] = (ts, more)
    for cpu in now:
        executed(cpu, run.end_ns)
    for pid, start, until in run.waits:
        late = 20 if woken.get(pid) is not None and (pid, start) in _wakes(run) else 10
        spans.append(span(start + late, until - start - late, -1, pid, 770, "wait_cpu"))
    file.write_text(kutrace_json(spans))
    return file


def _wakes(run: Run) -> set[tuple[int, int]]:
    return {(pid, ts) for ts, what, _, pid, _ in run.happened if what == "wakeup"}
