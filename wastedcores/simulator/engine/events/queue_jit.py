"""Future events in the order of time and then of sequence number, in three queues.

- Ticks are in a **ring**. The next tick of each CPU is one period away, so a tick that is put in last is also the last one due.
- The ends of stretches, one per CPU, are in a **tournament**: a binary tree in which each node holds the earlier of its two
  children. A new time is a walk from the CPU's leaf to the root without unpredictable branches.
- All other events, and a tick that is out of turn, are in a **heap** with four children per node (``heap_jit``).

An event is named by the place of its two words, ``row << SHIFT | column``: its time, and its sequence number, which is 0 if the
event is not pending. The queues are lazy: an event that was cancelled or moved leaves its old entry behind, which is dropped
when it comes to the front.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events.heap_jit import HEAP_ROOT, fill_hole, heap_push
from wastedcores.simulator.engine.world import rq, sim, table

TICK_AT = rq.EVENTS + 2 * cpu_event.TICK
RUN_AT = rq.EVENTS + 2 * cpu_event.RUN
# A place of the ring has four words (time, sequence number, CPU, unused), and a row has 32 places. The place behind the last
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
    return (cpu << table.SHIFT) + rq.EVENTS + 2 * kind


@inner
def pending(m, event):
    """Return whether the event is pending."""
    return m[event >> table.SHIFT, (event & table.LOW) + 1] != 0


@inner
def cancel(m, event):
    """Cancel an event; nothing happens if it is not pending."""
    m[event >> table.SHIFT, (event & table.LOW) + 1] = 0


@inner
def number(m):
    """Return the next sequence number."""
    seq = m[0, sim.SEQ] + 1
    m[0, sim.SEQ] = seq
    return seq


@apart(NOTHING)
def push(m, event, time_ns):
    """Plan ``event`` for ``time_ns``, also if it was planned for another time. It is neither a tick nor the end of a stretch."""
    seq = number(m)
    m[event >> table.SHIFT, event & table.LOW] = time_ns
    m[event >> table.SHIFT, (event & table.LOW) + 1] = seq
    heap_push(m, time_ns, seq, event)


# --- ticks ----------------------------------------------------------------------------------------------------------------


@inner
def push_tick(m, cpu, time_ns):
    """Plan the next tick of a CPU for ``time_ns``."""
    seq = number(m)
    m[cpu, TICK_AT] = time_ns
    m[cpu, TICK_AT + 1] = seq
    tail = m[0, sim.TICKS_TAIL]
    low = m[0, sim.TICKS_LOW]
    last = (tail - 1) & low
    if (
        tail - m[0, sim.TICKS_HEAD] >= low
        or m[m[0, sim.TICKS0] + (last >> TICK_SHIFT), (last & TICK_LOW) << 2] > time_ns
    ):
        heap_push(m, time_ns, seq, (cpu << table.SHIFT) + TICK_AT)
        return
    m[0, sim.TICKS_TAIL] = tail + 1
    place = tail & low
    row = m[0, sim.TICKS0] + (place >> TICK_SHIFT)
    column = (place & TICK_LOW) << 2
    m[row, column] = time_ns
    m[row, column + 1] = seq
    m[row, column + 2] = cpu
    place = (tail + 1) & low
    m[m[0, sim.TICKS0] + (place >> TICK_SHIFT), (place & TICK_LOW) << 2] = table.INFINITE


# --- ends of stretches ----------------------------------------------------------------------------------------------------


@inner
def settle(m, cpu, key):
    """Store a CPU's key in the tournament and update its ancestors."""
    tree = m[0, sim.RUNS0]
    node = m[0, sim.RUNS] + cpu
    while node > 1:
        row = tree + (node >> table.SHIFT)
        m[row, node & table.LOW] = key
        other = m[row, (node & table.LOW) ^ 1]
        step = other - key
        if (other ^ key) >> CPU_BITS == 0:
            if m[other & CPU_LOW, RUN_AT + 1] > m[key & CPU_LOW, RUN_AT + 1]:
                step = 0
        else:
            step &= step >> 63  # the lesser of the two, without an unpredictable branch
        key += step
        node >>= 1
    m[tree, 1] = key


@inner
def push_run(m, cpu, time_ns):
    """Plan the end of the stretch that runs on a CPU for ``time_ns``."""
    m[cpu, RUN_AT] = time_ns
    m[cpu, RUN_AT + 1] = number(m)
    settle(m, cpu, (min(time_ns, LAST_NS) << CPU_BITS) + cpu)


@apart(NOTHING)
def forget_run(m, cpu):
    """Move the entry that a CPU's event has left behind to the end, where no two keys have the same time."""
    settle(m, cpu, table.INFINITE + (cpu << CPU_BITS))


# --- the next event -------------------------------------------------------------------------------------------------------


@inner
def first(m):
    """Find the next event; return which queue it is in (FROM_*). Entries that events have left behind are dropped."""
    heap = m[0, sim.HEAP0]
    while True:
        if m[0, sim.HEAP_HOLE] != 0:
            fill_hole(m)
        place = m[0, sim.TICKS_HEAD] & m[0, sim.TICKS_LOW]
        tick_row = m[0, sim.TICKS0] + (place >> TICK_SHIFT)
        tick_column = (place & TICK_LOW) << 2
        tick_ns = m[tick_row, tick_column]
        key = m[m[0, sim.RUNS0], 1]
        run_ns = key >> CPU_BITS if key < table.INFINITE else table.INFINITE
        run_cpu = key & CPU_LOW
        source = FROM_HEAP
        first_ns = m[heap, HEAP_ROOT]
        earlier = run_ns < first_ns
        if run_ns == first_ns:
            earlier = m[run_cpu, RUN_AT + 1] < m[heap, HEAP_ROOT + 1]
        first_ns = run_ns if earlier else first_ns
        source = FROM_RUNS if earlier else source
        earlier = tick_ns < first_ns
        if tick_ns == first_ns:
            if first_ns >= table.INFINITE:
                return FROM_NOWHERE
            seq = m[heap, HEAP_ROOT + 1] if source == FROM_HEAP else m[run_cpu, RUN_AT + 1]
            earlier = m[tick_row, tick_column + 1] < seq
        source = FROM_TICKS if earlier else source
        if source == FROM_TICKS:
            if m[m[tick_row, tick_column + 2], TICK_AT + 1] == m[tick_row, tick_column + 1]:
                return source
            m[0, sim.TICKS_HEAD] += 1
        elif source == FROM_RUNS:
            if m[run_cpu, RUN_AT + 1] != 0:
                return source
            forget_run(m, run_cpu)
        else:
            event = m[heap, HEAP_ROOT + 2]
            if m[event >> table.SHIFT, (event & table.LOW) + 1] == m[heap, HEAP_ROOT + 1]:
                return source
            m[0, sim.HEAP_HOLE] = 1


@inner
def time_of(m, source):
    """Return the time of the next event, which :func:`first` found in queue ``source``."""
    if source == FROM_TICKS:
        place = m[0, sim.TICKS_HEAD] & m[0, sim.TICKS_LOW]
        return m[m[0, sim.TICKS0] + (place >> TICK_SHIFT), (place & TICK_LOW) << 2]
    if source == FROM_RUNS:
        return m[m[0, sim.RUNS0], 1] >> CPU_BITS
    return m[m[0, sim.HEAP0], HEAP_ROOT]


@inner
def take_tick(m):
    """Take the next event, a tick, out of the ring and return its CPU."""
    head = m[0, sim.TICKS_HEAD]
    m[0, sim.TICKS_HEAD] = head + 1
    place = head & m[0, sim.TICKS_LOW]
    cpu = m[m[0, sim.TICKS0] + (place >> TICK_SHIFT), ((place & TICK_LOW) << 2) + 2]
    m[cpu, TICK_AT + 1] = 0
    return cpu


@inner
def take_run(m):
    """Take the next event, the end of a stretch; return its CPU. Its entry stays, as the next stretch mostly begins at once."""
    cpu = m[m[0, sim.RUNS0], 1] & CPU_LOW
    m[cpu, RUN_AT + 1] = 0
    return cpu


@inner
def take(m):
    """Take the next event out of the heap and return it."""
    m[0, sim.HEAP_HOLE] = 1
    event = m[m[0, sim.HEAP0], HEAP_ROOT + 2]
    cancel(m, event)
    return event
