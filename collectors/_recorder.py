# SPDX-License-Identifier: GPL-2.0-only
"""The recorder behind schedtrace and unclaimed: its rings, the state at the start, and the file (see wastedcores.h)."""

import json
import os
import platform
import struct
import time
from pathlib import Path

import _bpf
import _object

FORMAT = "wastedcores.schedtrace"
VERSION = 1
BLOCK = struct.Struct("<IHHIIQQQ")
MAGIC = 0x31424357
EVENTS, TASKS, COUNTERS, END, DECISIONS = 1, 2, 3, 4, 5
IRQ_RECORDS = 2048
RECORD = 16
CPU_STATE = struct.Struct("<7QIIQQQ5Q")  # struct wc_cpu
ON_AT, T0_AT = 11, 12  # in units of 8 bytes
CUR_AT = 60
assert CPU_STATE.size == 128

#: event -> raw tracepoints and the functions on them
PROBES = {
    "nr_running": [("sched_update_nr_running_tp", "on_nr_running")],
    "switch": [("sched_switch", "on_switch")],
    "wakeup": [("sched_wakeup", "on_wakeup")],  # and one of WAKERS
    "wakeup_new": [("sched_wakeup_new", "on_wakeup_new")],
    "migrate": [("sched_migrate_task", "on_migrate")],
    "fork": [("sched_process_fork", "on_fork")],
    "exec": [("sched_process_exec", "on_exec"), ("task_rename", "on_rename")],
    "exit": [("sched_process_exit", "on_exit")],
    "cpu_idle": [("cpu_idle", "on_cpu_idle")],
    "frequency": [("cpu_frequency", "on_frequency")],
    "load": [("pelt_cfs_tp", "on_load")],
    "cpu_online": [("cpuhp_enter", "on_cpu_leaves"), ("cpuhp_exit", "on_cpu_joins")],
    "affinity": [],  # noticed by on_switch and on_fork
    "throttle": [],  # noticed by on_switch and on_nr_running
    "tick": [("hrtimer_expire_entry", "on_hrtimer")],
    "transitions": [
        ("sys_enter", "on_syscall"),
        ("sys_exit", "on_syscall_done"),
        ("irq_handler_entry", "on_irq"),
        ("irq_handler_exit", "on_irq_done"),
        ("softirq_entry", "on_softirq"),
        ("softirq_exit", "on_softirq_done"),
        ("page_fault_user", "on_fault_user"),
        ("page_fault_kernel", "on_fault_kernel"),
        *(
            ("%s_%s" % (vector, moment), "on_vector" + done)
            for vector in (
                "local_timer",
                "reschedule",
                "call_function",
                "call_function_single",
                "irq_work",
            )
            for moment, done in (("entry", ""), ("exit", "_done"))
        ),
    ],
}
#: PERF_COUNT_SW_PAGE_FAULTS_MIN and _MAJ: a fault has been handled
FAULT_DONE = (5, 6)
#: where the waker of a queued wakeup is noted: at csd_queue_cpu where the kernel has it
WAKERS = {True: ("csd_queue_cpu", "on_queued"), False: ("sched_waking", "on_waking")}
#: the files with which every collector's program begins
SOURCES = (
    "ring.c",
    "runqueue.c",
    "schedtrace.c",
    "transitions.c",
    "ticks.c",
    "cpu.c",
    "snapshot.c",
)
DEFAULT = (
    "nr_running",
    "switch",
    "wakeup",
    "wakeup_new",
    "migrate",
    "fork",
    "exec",
    "exit",
    "frequency",
    "cpu_online",
    "affinity",
    "throttle",
)


def text(*sources):
    """Return a collector's BPF program as it is compiled."""
    return "\n".join((_bpf.HERE / s).read_text() for s in (*SOURCES, *sources))


def power_of_two(n):
    """Return the largest power of two that is not above n."""
    return 1 << max(0, int(n).bit_length() - 1)


class Recorder:
    """The loaded programs and their rings. After start() all descriptors are open, so capabilities can be dropped."""

    def __init__(
        self,
        events=DEFAULT,
        buffer_mib=8.0,
        overwrite=False,
        sources=(),
        defines=(),
        typed=True,
        irq_records=IRQ_RECORDS,
        frequencies=None,
        functions=None,
    ):
        self.no_object = []
        self.events = tuple(e for e in PROBES if e in events)
        self.cpus = _bpf.possible()
        self.records = max(1024, power_of_two(buffer_mib * (1 << 20) / RECORD))
        self.irq_records = irq_records
        self.overwrite = overwrite
        pid_max = int(Path("/proc/sys/kernel/pid_max").read_text())
        self.mask_words = (self.cpus + 63) // 64
        follows = {"throttle", "switch", "nr_running"} <= set(self.events)
        throttles = follows and _bpf.has("OFF_THROTTLED")
        settings = {
            "RECORDS": self.records,
            "MASK_WORDS": self.mask_words,
            "PIDS": (min(pid_max, 1 << 22) + 1023) // 1024 * 1024,
            "NONLINE": len(_bpf.online()),
            "WANT_NR_RUNNING": "nr_running" in self.events,
            "WANT_AFFINITY": "affinity" in self.events,
            "WANT_THROTTLE": throttles,
            # e1f078f50478, 6.1: the load of a task has left the queue when sched_migrate_task tells of it
            "DETACHED_LOAD": [int(x) for x in platform.release().split("-")[0].split(".")[:2]]
            >= [6, 1],
        }
        self.frequencies = frequencies if "tick" in self.events else None
        ticks = self.frequencies.defines() if self.frequencies else []
        flags = ["-D%s=%d" % setting for setting in settings.items()] + [*ticks, *defines]
        flags += ["-DIRQ_RECORDS=%d" % self.irq_records, *(["-DOVERWRITE=1"] if overwrite else [])]
        self.programs = self._loaded(functions, settings) if functions else None
        if not self.programs:
            try:
                self.programs = _bpf.Programs((*SOURCES, *sources), flags, self.mask_words, typed)
            except _bpf.CannotLoad as e:
                raise _bpf.CannotLoad("; ".join([*self.no_object, str(e)])) from e
        self.programs.missing += ["throttle"] if follows and not throttles else []
        if "tick" in self.events and not ticks:
            self.programs.missing.append("tick")
            self.events = tuple(e for e in self.events if e != "tick")
        p = self.programs
        # whether the recorded nr_running counts tasks that delayed dequeue leaves on the runqueue
        self.counts_sleeping_tasks = _bpf.has("OFF_DELAYED") and not (
            _bpf.has("OFF_CFS_QUEUED") and _bpf.has("OFF_CFS_RUNNABLE")
        )
        self.cpu_state = p.mmap("cpus", self.cpus * 128, write=True)
        self.tails = memoryview(p.mmap("tails", self.cpus * 64, write=True)).cast("Q")
        self.config = memoryview(p.mmap("config", 64, write=True)).cast("Q")
        self.rings = {
            False: memoryview(p.mmap("ring", self.cpus * self.records * RECORD)),
            True: memoryview(p.mmap("irq_ring", self.cpus * self.irq_records * RECORD)),
        }
        self.rounds = self.resumed = 0
        self.prepared, self.links = [], []
        self.t0 = time.monotonic_ns()
        self.config[0] = self.t0
        for cpu in range(self.cpus):
            struct.pack_into("<Q", self.cpu_state, cpu * 128 + 8 * T0_AT, self.t0)
        self.tasks = b""
        self.tasks_from = None

    def _loaded(self, functions, settings):
        """Return the programs with these names from the object, or None if it cannot be used here; no_object says why."""
        try:
            return _object.Object({*functions, *self._functions()}, {"NCPU": self.cpus, **settings})
        except (_bpf.CannotLoad, OSError) as e:
            self.no_object = [str(e)]
            return None

    def _functions(self):
        probes = [WAKERS[True], WAKERS[False], *(p for event in self.events for p in PROBES[event])]
        return {"snapshot", *(function for _, function in probes)}

    def start(self, extra=(), attach=True):
        """Attach everything (or only load it), record from now on, and take the state of every task."""
        probes = [WAKERS[self.programs.by_csd]] if "wakeup" in self.events else []
        probes += [probe for event in self.events for probe in PROBES[event]]
        self.prepared = [p for p in (self.programs.prepare(*probe) for probe in probes) if p]
        if "transitions" in self.events:
            for cpu in _bpf.online():
                for event in FAULT_DONE:
                    self.programs.software_event("on_fault_done", event, 1, cpu)
        if "tick" in self.events:
            self.frequencies.start(self.programs, self.cpus)
        for tracepoint, func in extra:
            self.programs.raw_tracepoint(tracepoint, func)
        if attach:
            self.attach()
        self.take_snapshot()

    def attach(self):
        """Attach the programs that start() only loaded, and record."""
        links = [self.programs.attach(p) for p in self.prepared]
        self.links = [fd for fd in links if fd is not None]
        self.record(True)

    def detach(self):
        """Stop recording; attach() can start it again. Extra programs stay attached."""
        self.record(False)
        for fd in self.links:
            os.close(fd)
        self.links = []

    def close(self):
        """Close every program and attachment; the rings stay readable."""
        self.detach()
        self.programs.detach()

    def record(self, on):
        """Let the BPF programs write records, or make them return at once."""
        for cpu in range(self.cpus):
            if on:  # the task that ran when recording stopped may be gone
                struct.pack_into("<I", self.cpu_state, cpu * 128 + CUR_AT, 0)
            struct.pack_into("<Q", self.cpu_state, cpu * 128 + 8 * ON_AT, int(on))
        if on:  # what happened before is not in the rings
            self.resumed = time.monotonic_ns() - self.t0

    def take_snapshot(self):
        """Read the state of every task and runqueue, and every runqueue's address, into memory."""
        self.tasks = self.programs.iterate("task", "snapshot") or b""
        self.tasks_from = "bpf_iter"
        if not self.tasks:
            self.tasks, self.tasks_from = self._tasks_from_proc(), "proc"

    def _tasks_from_proc(self):
        """Read the tasks from /proc (before 5.8), without affinity and runqueue lengths; a task may change meanwhile."""
        out = []
        for path in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
            try:
                now = time.monotonic_ns() - self.t0
                head, _, rest = path.read_bytes().rpartition(b") ")
                f = rest.split()
            except (OSError, ValueError):
                continue
            pid, _, comm = head.partition(b" (")
            out.append(
                struct.pack(
                    "<QIIIIHHI16s",
                    max(now, 0),
                    int(pid),
                    int(path.parts[2]),
                    int(f[36]),
                    0xFFFFFFFF,
                    1 if f[0] == b"R" else 0,
                    int(f[15]) + 100,
                    self.cpus,
                    comm[:15],
                )
                + b"\xff" * (8 * self.mask_words)
            )
        return b"".join(out)

    # ------------------------------------------------------------------------------------- the file
    def header(self, **more):
        """Return the first line of a file."""
        return (
            json.dumps(
                {
                    "format": FORMAT,
                    "version": VERSION,
                    "record_bytes": RECORD,
                    "t0_ns": self.t0,
                    "clock": "mono",
                    "kernel": platform.release(),
                    "machine": platform.machine(),
                    "cpus": self.cpus,
                    "cpus_online": _bpf.online(),
                    "events": list(self.events),
                    "missing": self.programs.missing,
                    "frequency_source": self.frequencies.source if "tick" in self.events else None,
                    "mask_words": self.mask_words,
                    "records_per_cpu": self.records,
                    "overwrite": self.overwrite,
                    "typed": self.programs.typed,
                    "snapshot": self.tasks_from,
                    "delayed_dequeue": self.counts_sleeping_tasks,
                    "started_unix": time.time(),
                    **more,
                }
            )
            + "\n"
        ).encode()

    def state(self, cpu):
        """Return (head, lost, seen, irq_head, extra) of one CPU."""
        v = CPU_STATE.unpack_from(self.cpu_state, cpu * 128)
        return v[0], v[2], v[4], v[5], v[11]

    def totals(self):
        """Return the number of events that all CPUs have seen, and of those lost."""
        states = [self.state(c) for c in range(self.cpus)]
        return sum(s[2] for s in states), sum(s[1] for s in states)

    def block(self, kind, payload_bytes, cpu=0, seq=0, lost=0, now=None):
        """Return the header of a block."""
        now = time.monotonic_ns() - self.t0 if now is None else now
        return BLOCK.pack(
            MAGIC, kind, cpu, payload_bytes, self.rounds & 0xFFFFFFFF, max(0, now), seq, lost
        )

    def snapshot_block(self):
        """Return the block with the state at the start."""
        return [self.block(TASKS, len(self.tasks)), self.tasks]

    def counters_block(self):
        """Return the block with the numbers of events that every CPU has seen, written and lost so far."""
        rows = []
        for cpu in range(self.cpus):
            head, lost, seen, irq_head, extra = self.state(cpu)
            over = (
                max(0, head - self.records) + max(0, irq_head - self.irq_records)
                if self.overwrite
                else 0
            )
            rows.append(struct.pack("<4Q", seen, head + irq_head - extra, lost, over))
        payload = b"".join(rows)
        return [self.block(COUNTERS, len(payload)), payload]

    def end_block(self, **why):
        """Return the block that says how the capture ended."""
        payload = json.dumps(why).encode()
        return [self.block(END, len(payload)), payload]

    def _slices(self, irq, cpu, first, last):
        """Return views of the records first..last-1 of a ring, without copying them."""
        size = self.irq_records if irq else self.records
        ring, base = self.rings[irq], cpu * size
        a, b = first % size, last % size
        if first == last:
            return []
        if a < b:
            return [ring[(base + a) * RECORD : (base + b) * RECORD]]
        return [
            ring[(base + a) * RECORD : (base + size) * RECORD],
            ring[base * RECORD : (base + b) * RECORD],
        ]

    def drain(self, write):
        """Hand every new record to write(list of buffers) and let the kernel reuse its space; return how full a ring was."""
        now = time.monotonic_ns() - self.t0
        fullest = 0.0
        self.rounds += 1
        # all positions are read at one moment: however long the writing takes, the next round has nothing older
        states = [self.state(cpu) for cpu in range(self.cpus)]
        for cpu, (head, lost, _, irq_head, _) in enumerate(states):
            for irq, last in ((False, head), (True, irq_head)):
                at = cpu * 8 + irq
                first = self.tails[at]
                if first == last:
                    continue
                size = self.irq_records if irq else self.records
                fullest = max(fullest, (last - first) / size)
                views = self._slices(irq, cpu, first, last)
                write([self.block(EVENTS, (last - first) * RECORD, cpu, first, lost, now), *views])
                self.tails[at] = last
        return fullest

    def dump(self, write, seconds=None):
        """Write a flight recorder's content: the last seconds, as far back as every CPU still has them.

        Recording stops meanwhile, and the next call reaches back to the end of this pause at most. Returns the time in ns from
        which on the content is complete.
        """
        recording = bool(self.links)
        self.record(False)
        time.sleep(0.002)  # let programs that have begun finish
        now = time.monotonic_ns() - self.t0
        self.rounds += 1
        since = max(self.resumed, now - int(seconds * 1e9) if seconds else 0)
        parts = []
        for cpu in range(self.cpus):
            head, lost, _, irq_head, _ = self.state(cpu)
            for irq, last in ((False, head), (True, irq_head)):
                first = max(0, last - (self.irq_records if irq else self.records))
                if first:  # everything before this ring's oldest record is gone
                    since = max(since, self._time_of(irq, cpu, first) + 1)
                parts.append((cpu, irq, first, last, lost))
        for cpu, irq, first, last, lost in parts:
            start = self._first_since(irq, cpu, first, last, since)
            if start != last:
                views = self._slices(irq, cpu, start, last)
                write([self.block(EVENTS, (last - start) * RECORD, cpu, start, lost, now), *views])
        self.record(recording)
        return since

    def _time_of(self, irq, cpu, n):
        size = self.irq_records if irq else self.records
        return (
            struct.unpack_from("<Q", self.rings[irq], (cpu * size + n % size) * RECORD)[0]
            & 0xFFFFFFFFFFFF
        )

    def _first_since(self, irq, cpu, low, high, since):
        while low < high:
            mid = (low + high) // 2
            if self._time_of(irq, cpu, mid) < since:
                low = mid + 1
            else:
                high = mid
        return low
