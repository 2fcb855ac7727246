"""Functions over structs that tests run both compiled and as plain Python.

Run as a program it reads pickled tables from its input, and answers each with the results of all functions and the table.
"""

from __future__ import annotations

import pickle
import sys

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.structs import Array, Struct, array, embedded, integer, null, pointer
from wastedcores.jit.units import NOTHING, VALUE, apart


class SchedAvg(Struct):
    load_sum: int = integer(40)
    owner: TaskStruct = pointer("TaskStruct", 41)


class SchedEntity(Struct):
    weight: int = integer(0)
    cfs_rq: CfsRq = pointer("CfsRq", 1)
    avg: SchedAvg = embedded("SchedAvg")
    task: TaskStruct = embedded("TaskStruct")


class CfsRq(Struct):
    curr: SchedEntity = pointer("SchedEntity", 2)
    nr_running: int = integer(3)


class TaskStruct(Struct):
    se: SchedEntity = embedded("SchedEntity")
    cpu: int = integer(21)
    next: TaskStruct = pointer("TaskStruct", 22)
    timer: int = integer(23)
    wait_object: int = integer(23)
    slot: Array = array(33, 4)


class Kernel(Struct):
    curr: TaskStruct = pointer("TaskStruct", 5)
    now: int = integer(6)
    counts: Array = array(7, 3)
    stop: SchedEntity = embedded("SchedEntity")


NO_TASK = null(TaskStruct)


@inner
def ordered(p: TaskStruct, q: TaskStruct) -> tuple[TaskStruct, TaskStruct]:
    return (p, q) if p.cpu <= q.cpu else (q, p)


@inner
def with_count(p: TaskStruct, count: int) -> tuple[TaskStruct, int]:
    return p, count + 1


@apart(VALUE)
def last_of(p: TaskStruct, most: int) -> TaskStruct:
    """Follow the list of a task."""
    steps = 0
    while p.next and steps < most:
        p = p.next
        steps += 1
    return p


@apart(VALUE)
def busiest(k: Kernel, other_than: TaskStruct) -> TaskStruct:
    best = NO_TASK
    for row in range(1, 12):
        p = TaskStruct(k, row)
        if p != other_than and (best == NO_TASK or p.se.weight > best.se.weight):
            best = p
    return best


@apart(NOTHING)
def move(k: Kernel, p: TaskStruct, to_front: bool) -> None:
    if to_front:
        p.next = k.curr
        k.curr = p
    elif not k.curr:
        p.next = NO_TASK


@apart(VALUE, entry=True)
def integers(k: Kernel, a: int, b: int) -> int:
    p = TaskStruct(k, a)
    q = TaskStruct(p, b)
    p.cpu = q.cpu + k.now
    q.se.weight -= p.se.avg.load_sum
    p.timer = a > b
    q.wait_object += 7
    p.se.avg.load_sum = int(np.uint64(np.int64(q.cpu)) >> np.uint64(0))
    k.now = k[a, 21] ^ p[40]
    k[b, 50] = q.timer
    q[51] = p.row * 100 + q.se.row
    k.stop.weight = k.row - 3
    return p.cpu


@apart(VALUE, entry=True)
def arrays(k: Kernel, a: int, b: int) -> int:
    p = TaskStruct(k, a)
    total = 0
    for i in range(4):
        p.slot[i] = TaskStruct(k, b).slot[3 - i] + i
        total += p.slot[i] & 255
    k.counts[a % 3] += total
    k.counts[0] = b
    return total


@apart(VALUE, entry=True)
def pointers(k: Kernel, a: int, b: int) -> int:
    p = TaskStruct(k, a)
    found = 0
    if p.se.cfs_rq and p.se.cfs_rq.curr:
        found = p.se.cfs_rq.curr.task.cpu & 1023
        p.se.cfs_rq.nr_running += 1
    end = last_of(p, b)
    end.se.avg.owner = p
    p.se.cfs_rq = CfsRq(p, b)
    low, high = ordered(p, end)
    high, found = with_count(high, found)
    best = busiest(k, low)
    move(k, best, a > b)
    if best == high or not k.curr:
        k.curr = NO_TASK
    else:
        k.curr = high
    return found * 10000 + low.row * 100 + best.row


if __name__ == "__main__":
    while True:
        table, a, b = pickle.load(sys.stdin.buffer)
        results = [f(table, a, b) for f in (integers, arrays, pointers)]
        pickle.dump((results, table), sys.stdout.buffer)
        sys.stdout.buffer.flush()
