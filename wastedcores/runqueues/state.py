"""What the compiled state machine of :mod:`wastedcores.runqueues.tasks_jit` reads, carries along and writes.

Rows of tasks and CPUs are described in :mod:`wastedcores.runqueues.task_row` and :mod:`wastedcores.runqueues.cpu_row`. Code for a
few wide tables compiles in a third of the time that code for one array per field takes, and the facts of a task lie in one cache
line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wastedcores.runqueues import cpu_row, task_row

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
I8 = NDArray[np.int8]

# codes of events, which events.py makes from the kinds of events in a trace
(
    SWITCH, WAKEUP, WAKEUP_NEW, MIGRATE, FORK, EXIT, AFFINITY, SNAPSHOT, FORGET, CONTEXT, COUNT, HOTPLUG, THROTTLE,
    UNTHROTTLE,
) = range(14)  # fmt: skip

# what a switch tells of the thread that it stops: the thread stays on the runqueue (R, R+), or parks (P), as the threads of a CPU
# that goes offline do
STAYS, PARKED = 1, 2

# reasons of doubts; State.odd counts the oddities by the same numbers
(
    ODD_WAKEUP_OF_QUEUED, ODD_IN_WITHOUT_WAKEUP, ODD_OUT_WITHOUT_IN, ODD_MIGRATE_ELSEWHERE, ODD_LEFT_UNSEEN, ODD_PARKED,
    ODD_STARVED, ODD_COUNT, PRESUMED, ODD_QUEUE, ODD_SILENCE, LOSS, OFFLINE_OR_IDLE, OWN_WAIT, WOKEN_EARLY, MAYBE_SLEPT,
    ELSEWHERE, MASK_TOLD_LATE,
) = range(18)  # fmt: skip
N_ODD = 18

# State.numbers
(
    PARKS,  # 1: moves are told when they happen, so a CPU that goes idle proves something about who waits there
    WAKINGS,  # 1: the wakeups are sched_waking events, which can come while the task still runs
    INHERITS,  # 1: the affinity of a child is its parent's until an event tells otherwise
    LOSSY,  # 1 after pass 1 has met a loss: a task that is first seen later says nothing about the start
    LISTED_NS,  # end of a snapshot of all tasks: a task that is first seen later was not in it; -1: no snapshot
    N_CHANGES,  # rows written in this call
    N_WAITS,
    N_DOUBTS,
    BEFORE_NS,  # time of the event before the present one; -1: there is none
    STRICT,  # 1: a thread counts only if something says where it may run
    UNRECORDED,  # 1: a CPU was perhaps not recorded, so any waiting thread may have been moved there and have run unseen
    LOOKS_LATE,  # 1: a change of affinity is told only when its thread takes or leaves a CPU
    N_REPINS,  # found in pass 1: how many moves may come from a change of affinity by another thread
) = range(13)
N_NUMBERS = 13
#: events of two CPUs that are less than this time apart may be told in the wrong order: the clocks of CPUs differ by less than
#: this
SKEW_NS = 1_000_000
#: the times of at most this many of the moves that N_REPINS counts are kept
MOST_REPINS = 4096

# rows of Output.change; in a change with a mask id, FREE is the number of tasks of that mask that now wait on the CPU
CPU, NR, FREE, MASK, CODE = range(5)
# rows of Output.wait, Output.wait_ns and Output.doubt
TASK = 1
WAIT_MASK = 2
WAIT_EVIDENCE = 3
START, END = 0, 1
DOUBT_CPU, REASON = 2, 3


class Events(NamedTuple):
    """A batch of events in order of time; all arrays have the shape (events,), and -1 stands for null.

    The meaning of ``aux`` depends on the code. SWITCH: 0, STAYS or PARKED. AFFINITY: the new mask id. SNAPSHOT: the task's state.
    COUNT: nr_running. HOTPLUG: 1 if the CPU came online, else 0.
    """

    code: I8
    ts_ns: I64
    cpu: I32
    src_cpu: I32
    pid: I32
    prev_pid: I32
    by_pid: I32
    aux: I32


class State(NamedTuple):
    """The state that is carried from batch to batch."""

    task: I32  # (tasks, task_row.WIDTH)
    since: I64  # (tasks,) ns, start of the current wait or sleep; -1 unknown
    began: I64  # (tasks,) ns, when it last began to run
    early: I64  # (tasks,) ns, when it was last woken or moved while it ran
    cpu: I64  # (cpus, cpu_row.WIDTH)
    restricted: I32  # (cpus, masks) waiting tasks by mask id
    odd: I64  # (N_ODD,)
    numbers: I64  # (N_NUMBERS,)
    repin_ns: I64  # (MOST_REPINS,) the times of the moves that N_REPINS counts, in order


class Output(NamedTuple):
    """Room for the rows that one call writes."""

    change_ns: I64  # (room,)
    change: I32  # (5, room): CPU, NR (-1 unknown), FREE, MASK, CODE (the event that caused it)
    wait: I32  # (4, room): CPU, TASK, WAIT_MASK (mask id) and WAIT_EVIDENCE of a wait that ended
    wait_ns: I64  # (2, room): START, END
    doubt: I64  # (4, room): START, END, DOUBT_CPU (-1: all), REASON of a span in which the state of a CPU may be wrong


def new_state(tasks: int, cpus: int, masks: int) -> State:
    """Return a state in which nothing is known."""
    task = np.zeros((tasks, task_row.WIDTH), np.int32)
    task[:, [task_row.CPU, task_row.RAN, task_row.MOVED_FROM, task_row.WAKER]] = -1
    cpu = np.zeros((cpus, cpu_row.WIDTH), np.int64)
    cpu[:, [cpu_row.CURR, cpu_row.KERNEL_NR, cpu_row.DIFFERS, cpu_row.MAYBE_IDLE]] = -1
    numbers = np.zeros(N_NUMBERS, np.int64)
    numbers[PARKS] = 1
    numbers[[LISTED_NS, BEFORE_NS]] = -1
    return State(
        task,
        np.full(tasks, -1, np.int64),
        np.full(tasks, -1, np.int64),
        np.full(tasks, -1, np.int64),
        cpu,
        np.zeros((cpus, masks), np.int32),
        np.zeros(N_ODD, np.int64),
        numbers,
        np.zeros(MOST_REPINS, np.int64),
    )


def new_output(changes: int, waits: int, doubts: int) -> Output:
    """Return empty arrays."""
    return Output(
        np.zeros(changes, np.int64),
        np.zeros((5, changes), np.int32),
        np.zeros((4, waits), np.int32),
        np.zeros((2, waits), np.int64),
        np.zeros((4, doubts), np.int64),
    )
