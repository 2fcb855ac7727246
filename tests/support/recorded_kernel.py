"""A kernel that stands still, to which the events of a recording are told: :class:`RecordedKernel`."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wastedcores.kernels import KernelModel
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.world import log_jit, rows_jit
from wastedcores.simulator.engine.world.structs import CfsRq, TaskStruct
from wastedcores.simulator.plain.still import Still
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import TaskSpec

V6_12 = KernelModel.named("v6.12.107")
_LINE = re.compile(r"\s*(.+)-(\d+)\s+\[(\d+)\]\s+\S+\s+([\d.]+): (\w+): (.*)")
_FIELD = re.compile(r"(\w+)=(\S+)")


@dataclass
class Event:
    """A recorded event, or a tick; ``fields`` are those of the tracepoint."""

    ts_us: int
    pid: int
    cpu: int
    kind: str
    fields: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int:
        return int(self.fields[name])


def read(path: Path) -> list[Event]:
    """Read the events of an ftrace text."""
    out = []
    with lzma.open(path, "rt") as lines:
        for line in lines:
            if m := _LINE.match(line):
                ts_us = round(float(m[4]) * 1e6)
                out.append(Event(ts_us, int(m[2]), int(m[3]), m[5], dict(_FIELD.findall(m[6]))))
    return out


class RecordedKernel:
    """The engine as plain Python, with a task for each recorded one; nothing happens in it by itself, and it logs nothing."""

    def __init__(
        self,
        machine: Machine,
        kernel: KernelModel,
        events: list[Event],
        allowed: frozenset[int] | None = None,
        policies: dict[str, Callable[..., Any]] | None = None,
    ) -> None:
        pids = {e.number(name) for e in events for name in ("pid", "prev_pid") if name in e.fields}
        forks = sum(e.kind == "sched_wakeup_new" for e in events)  # which may use a pid again
        specs = [TaskSpec("", (), allowed=allowed)] * (len(pids) + forks)
        self.still = Still(machine, kernel, specs, shares=(1024, 1024), policies=policies)
        for function in (queue_jit.push, log_jit.record):
            self.still.replace(function, lambda *_: None)
        self.model, self.k, self.call = kernel, self.still.k, self.still.call
        self.fair = self.call(rows_jit.fair_class)
        self.unborn = iter(self.still.tasks)

    def at(self, now_ns: int) -> None:
        """Let time pass, without ticks."""
        self.k.now_ns, self.k.jiffies = now_ns, now_ns // self.k.tick_ns

    def new(self, comm: str, cpu: int, state: int, group: int = 0) -> TaskStruct:
        """Begin the life of a task."""
        p = next(self.unborn)
        self.still.comms[p.template] = comm
        p.state, p.group = state, group
        self.call(entity_jit.set_task_rq, p, cpu)
        self.fair.task_fork(self.k, p)
        return p

    def cfs(self, cpu: int) -> CfsRq:
        """Return the root queue of a CPU."""
        return self.call(rows_jit.cpu_cfs_rq, cpu)
