"""Future events in the order of time and then of sequence number, in three queues.

- Ticks are in a **ring**. The next tick of each CPU is one period away, so the tick that was put in last is also due last.
- The ends of stretches, one per CPU, are in a **tournament**: a binary tree in which each node holds the earlier of its two
  children. To enter a new time, the code walks from the CPU's leaf to the root without unpredictable branches.
- All other events, and ticks that are out of turn, are in a **heap** with four children per node.
  The heap holds copies of an event's time and sequence number, so that a comparison touches only the heap.

An event has two words: its time, and its sequence number, which is 0 if the event is not pending. The place of the two words,
``row << SHIFT | column``, names the event. The queues are lazy: an event that was cancelled or moved leaves its old entry in the
queue, and the entry is dropped when it comes to the front. A popped root of the heap leaves a hole, which the next push fills.
"""

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, VALUE, apart
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.world import table
from wastedcores.simulator.engine.world.structs import Kernel, Rq

# An entry has four words (time, sequence number, event, unused), and a row has 32 entries. The four children of a node are
# adjacent. Places after the last entry have the time INFINITE.
SKIP = 3
PER_ROW_SHIFT = 5
PER_ROW_LOW = 31
#: the column of the root in the first row
HEAP_ROOT = SKIP << 2


@inner
def put(k: Kernel, i: int, time_ns: int, seq: int, event: int) -> None:
    """Write an entry at place ``i`` of the heap."""
    row = k.heap0 + ((i + SKIP) >> PER_ROW_SHIFT)
    column = ((i + SKIP) & PER_ROW_LOW) << 2
    k[row, column] = time_ns
    k[row, column + 1] = seq
    k[row, column + 2] = event


@inner
def sift_up(k: Kernel, i: int, time_ns: int, seq: int, event: int) -> None:
    """Write an entry at place ``i`` of the heap or, if it is earlier than its parents, at a place above."""
    heap = k.heap0
    while i > 0:
        parent = (i - 1) >> 2
        row = heap + ((parent + SKIP) >> PER_ROW_SHIFT)
        column = ((parent + SKIP) & PER_ROW_LOW) << 2
        other = k[row, column]
        if other < time_ns or (other == time_ns and k[row, column + 1] < seq):
            break
        put(k, i, other, k[row, column + 1], k[row, column + 2])
        i = parent
    put(k, i, time_ns, seq, event)


@apart(VALUE)
def first_of_equals(k: Kernel, row: int, column: int, best: int) -> int:
    """Return which of four children comes first among those whose time is ``best``."""
    least = -1
    for nth in range(4):
        if k[row, column + 4 * nth] == best and (
            least < 0 or k[row, column + 4 * nth + 1] < k[row, column + 4 * least + 1]
        ):
            least = nth
    return least


@inner
def sift_down(k: Kernel, i: int, n: int, time_ns: int, seq: int, event: int) -> None:
    """Write an entry at place ``i`` of the heap of ``n`` entries or, if it is later than its children, at a place below."""
    heap = k.heap0
    while True:
        child = 4 * i + 1
        if child >= n:
            break
        row = heap + ((child + SKIP) >> PER_ROW_SHIFT)
        column = ((child + SKIP) & PER_ROW_LOW) << 2
        # this code compiles to conditional moves, because branches would be unpredictable
        t0 = k[row, column]
        t1 = k[row, column + 4]
        t2 = k[row, column + 8]
        t3 = k[row, column + 12]
        ta = t1 if t1 < t0 else t0
        a = 1 if t1 < t0 else 0
        tb = t3 if t3 < t2 else t2
        b = 3 if t3 < t2 else 2
        best = tb if tb < ta else ta
        least = b if tb < ta else a
        if time_ns < best:
            break
        if (
            np.int64(t0 == best)
            + np.int64(t1 == best)
            + np.int64(t2 == best)
            + np.int64(t3 == best)
            > 1
        ):
            least = first_of_equals(k, row, column, best)
        if time_ns == best and seq < k[row, column + 4 * least + 1]:
            break
        put(k, i, best, k[row, column + 4 * least + 1], k[row, column + 4 * least + 2])
        i = child + least
    put(k, i, time_ns, seq, event)


@inner
def fill_hole(k: Kernel) -> None:
    """Move the last entry to the place of the root that was popped."""
    k.heap_hole = 0
    n = k.heap_n - 1
    k.heap_n = n
    row = k.heap0 + ((n + SKIP) >> PER_ROW_SHIFT)
    column = ((n + SKIP) & PER_ROW_LOW) << 2
    last = k[row, column]
    k[row, column] = table.INFINITE
    if n > 0:
        sift_down(k, 0, n, last, k[row, column + 1], k[row, column + 2])


@apart(NOTHING)
def sweep(k: Kernel) -> None:
    """Drop the entries that cancelled and moved events have left behind."""
    if k.heap_hole != 0:
        fill_hole(k)
    heap = k.heap0
    n = k.heap_n
    kept = 0
    for i in range(n):
        row = heap + ((i + SKIP) >> PER_ROW_SHIFT)
        column = ((i + SKIP) & PER_ROW_LOW) << 2
        event = k[row, column + 2]
        time_ns = k[row, column]
        k[row, column] = table.INFINITE
        if k[event >> table.SHIFT, (event & table.LOW) + 1] == k[row, column + 1]:
            # the places before this one are free, except for the entries kept so far, which form a heap of their own
            sift_up(k, kept, time_ns, k[row, column + 1], event)
            kept += 1
    k.heap_n = kept


@inner
def heap_push(k: Kernel, time_ns: int, seq: int, event: int) -> None:
    """Add an entry."""
    n = k.heap_n
    if k.heap_hole != 0:
        k.heap_hole = 0
        sift_down(k, 0, n, time_ns, seq, event)
        return
    if n >= k.heap_room:
        sweep(k)
        n = k.heap_n
    k.heap_n = n + 1
    sift_up(k, n, time_ns, seq, event)


TICK_AT = Rq.events + 2 * cpu_event.TICK
RUN_AT = Rq.events + 2 * cpu_event.RUN
# A place of the ring has four words (time, sequence number, CPU, unused), and a row has 32 places. The place after the last
# tick has the time INFINITE.
TICK_SHIFT = 5
TICK_LOW = 31
# A node of the tournament is one word, time << CPU_BITS | CPU, and a row has 128 nodes. The root is node 1, and the leaves are
# the second half. Neither the time of an event before the end of a replay (limits.LONGEST_NS) nor a CPU number
# (simulator/limits.MOST_CPUS) needs more bits.
CPU_BITS = 12
CPU_LOW = 4095
LAST_NS = (1 << 50) - 1
# the queue that holds the next event
FROM_HEAP, FROM_RUNS, FROM_TICKS, FROM_NOWHERE = range(4)


@inner
def event_of(kind, cpu):
    """Return the event of this kind (codes/cpu_event.py) of a CPU."""
    return (cpu << table.SHIFT) + Rq.events + 2 * kind


@inner
def pending(k: Kernel, event: int) -> bool:
    """Return whether the event is pending."""
    return k[event >> table.SHIFT, (event & table.LOW) + 1] != 0


@inner
def cancel(k: Kernel, event: int) -> None:
    """Cancel an event; nothing happens if it is not pending."""
    k[event >> table.SHIFT, (event & table.LOW) + 1] = 0


@inner
def number(k: Kernel) -> int:
    """Return the next sequence number."""
    seq = k.seq + 1
    k.seq = seq
    return seq


@apart(NOTHING)
def push(k: Kernel, event: int, time_ns: int) -> None:
    """Plan ``event``, neither a tick nor the end of a stretch, for ``time_ns``. An earlier plan for the event is dropped."""
    seq = number(k)
    k[event >> table.SHIFT, event & table.LOW] = time_ns
    k[event >> table.SHIFT, (event & table.LOW) + 1] = seq
    heap_push(k, time_ns, seq, event)


# --- ticks ----------------------------------------------------------------------------------------------------------------


@inner
def push_tick(k: Kernel, cpu: int, time_ns: int) -> None:
    """Plan the next tick of a CPU for ``time_ns``."""
    seq = number(k)
    k[cpu, TICK_AT] = time_ns
    k[cpu, TICK_AT + 1] = seq
    tail = k.ticks_tail
    low = k.ticks_low
    last = (tail - 1) & low
    if (
        tail - k.ticks_head >= low
        or k[k.ticks0 + (last >> TICK_SHIFT), (last & TICK_LOW) << 2] > time_ns
    ):
        heap_push(k, time_ns, seq, (cpu << table.SHIFT) + TICK_AT)
        return
    k.ticks_tail = tail + 1
    place = tail & low
    row = k.ticks0 + (place >> TICK_SHIFT)
    column = (place & TICK_LOW) << 2
    k[row, column] = time_ns
    k[row, column + 1] = seq
    k[row, column + 2] = cpu
    place = (tail + 1) & low
    k[k.ticks0 + (place >> TICK_SHIFT), (place & TICK_LOW) << 2] = table.INFINITE


# --- ends of stretches ----------------------------------------------------------------------------------------------------


@inner
def settle(k: Kernel, cpu: int, key: int) -> None:
    """Store a CPU's key in the tournament, and update the nodes above it."""
    tree = k.runs0
    node = k.runs + cpu
    while node > 1:
        row = tree + (node >> table.SHIFT)
        k[row, node & table.LOW] = key
        other = k[row, (node & table.LOW) ^ 1]
        step = other - key
        if (other ^ key) >> CPU_BITS == 0:
            if k[other & CPU_LOW, RUN_AT + 1] > k[key & CPU_LOW, RUN_AT + 1]:
                step = 0
        else:
            step &= step >> 63  # the lesser of the two, without an unpredictable branch
        key += step
        node >>= 1
    k[tree, 1] = key


@inner
def push_run(k: Kernel, cpu: int, time_ns: int) -> None:
    """Plan the end of a CPU's present stretch for ``time_ns``."""
    k[cpu, RUN_AT] = time_ns
    k[cpu, RUN_AT + 1] = number(k)
    settle(k, cpu, (min(time_ns, LAST_NS) << CPU_BITS) + cpu)


@apart(NOTHING)
def forget_run(k: Kernel, cpu: int) -> None:
    """Move a CPU's old entry, whose event is no longer pending, to the end. There, no two keys have the same time."""
    settle(k, cpu, table.INFINITE + (cpu << CPU_BITS))


# --- the next event -------------------------------------------------------------------------------------------------------


@inner
def first(k: Kernel) -> int:
    """Find the next event; return which queue it is in (FROM_*). Old entries of cancelled and moved events are dropped."""
    heap = k.heap0
    while True:
        if k.heap_hole != 0:
            fill_hole(k)
        place = k.ticks_head & k.ticks_low
        tick_row = k.ticks0 + (place >> TICK_SHIFT)
        tick_column = (place & TICK_LOW) << 2
        tick_ns = k[tick_row, tick_column]
        key = k[k.runs0, 1]
        run_ns = key >> CPU_BITS if key < table.INFINITE else table.INFINITE
        run_cpu = key & CPU_LOW
        source = FROM_HEAP
        first_ns = k[heap, HEAP_ROOT]
        earlier = run_ns < first_ns
        if run_ns == first_ns:
            earlier = k[run_cpu, RUN_AT + 1] < k[heap, HEAP_ROOT + 1]
        first_ns = run_ns if earlier else first_ns
        source = FROM_RUNS if earlier else source
        earlier = tick_ns < first_ns
        if tick_ns == first_ns:
            if first_ns >= table.INFINITE:
                return FROM_NOWHERE
            seq = k[heap, HEAP_ROOT + 1] if source == FROM_HEAP else k[run_cpu, RUN_AT + 1]
            earlier = k[tick_row, tick_column + 1] < seq
        source = FROM_TICKS if earlier else source
        if source == FROM_TICKS:
            if k[k[tick_row, tick_column + 2], TICK_AT + 1] == k[tick_row, tick_column + 1]:
                return source
            k.ticks_head += 1
        elif source == FROM_RUNS:
            if k[run_cpu, RUN_AT + 1] != 0:
                return source
            forget_run(k, run_cpu)
        else:
            event = k[heap, HEAP_ROOT + 2]
            if k[event >> table.SHIFT, (event & table.LOW) + 1] == k[heap, HEAP_ROOT + 1]:
                return source
            k.heap_hole = 1


@inner
def time_of(k: Kernel, source: int) -> int:
    """Return the time of the next event, which :func:`first` found in queue ``source``."""
    if source == FROM_TICKS:
        place = k.ticks_head & k.ticks_low
        return k[k.ticks0 + (place >> TICK_SHIFT), (place & TICK_LOW) << 2]
    if source == FROM_RUNS:
        return k[k.runs0, 1] >> CPU_BITS
    return k[k.heap0, HEAP_ROOT]


@inner
def take_tick(k: Kernel) -> int:
    """Take the next event, a tick, out of the ring and return its CPU."""
    head = k.ticks_head
    k.ticks_head = head + 1
    place = head & k.ticks_low
    cpu = k[k.ticks0 + (place >> TICK_SHIFT), ((place & TICK_LOW) << 2) + 2]
    k[cpu, TICK_AT + 1] = 0
    return cpu


@inner
def take_run(k: Kernel) -> int:
    """Take the next event, the end of a stretch; return its CPU. The entry stays; mostly the next stretch begins at once."""
    cpu = k[k.runs0, 1] & CPU_LOW
    k[cpu, RUN_AT + 1] = 0
    return cpu


@inner
def take(k: Kernel) -> int:
    """Take the next event out of the heap and return it."""
    k.heap_hole = 1
    event = k[k.heap0, HEAP_ROOT + 2]
    cancel(k, event)
    return event
