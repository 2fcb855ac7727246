"""Future events in the order (time, sequence), in three queues by what is known of them.

- Ticks lie in a **ring**: each CPU's next one is a tick away, so what is put in last comes last.
- The ends of stretches, one a CPU, play a **tournament**: each node of a binary tree has the earlier of its two children, so
  a new time is a walk from the CPU's leaf to the root that asks nothing that a processor would have to guess.
- All else, and a tick that is out of turn, is in a **heap** of four children a node (``heap_jit``).

An event is named by where its two words lie, ``row << SHIFT | column``: time and sequence, 0 if it is not pending. The queues
are lazy: an event that was cancelled or moved leaves its old entry behind, which is noticed when it comes to the front.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner
from wastedcores.jit.units import NOTHING, apart
from wastedcores.simulator.engine.codes import cpu_event
from wastedcores.simulator.engine.events.heap_jit import HEAP_ROOT, fill_hole, heap_push
from wastedcores.simulator.engine.world import rq, sim, table

TICK_AT = rq.EVENTS + 2 * cpu_event.TICK
RUN_AT = rq.EVENTS + 2 * cpu_event.RUN
# a place of the ring has four words (time, sequence, CPU, none), 32 places a row; behind the last is one at INFINITE
TICK_SHIFT = 5
TICK_LOW = 31
# a node of the tournament is one word, time << CPU_BITS | CPU, 128 nodes a row; the root is node 1, the leaves are the last
# half. No time before the end of a replay needs more bits (limits.LONGEST_NS), no CPU either (simulator/limits.MOST_CPUS).
CPU_BITS = 12
CPU_LOW = 4095
LAST_NS = (1 << 50) - 1
# where the next event is
FROM_HEAP, FROM_RUNS, FROM_TICKS, FROM_NOWHERE = range(4)


@inner
def event_of(kind, cpu):
    """The event of this kind of a CPU."""
    return (cpu << table.SHIFT) + rq.EVENTS + 2 * kind


@inner
def pending(m, event):
    """Whether the event is planned."""
    return m[event >> table.SHIFT, (event & table.LOW) + 1] != 0


@inner
def cancel(m, event):
    """Take an event out; nothing if it is not pending."""
    m[event >> table.SHIFT, (event & table.LOW) + 1] = 0


@inner
def number(m):
    """The next sequence number."""
    seq = m[0, sim.SEQ] + 1
    m[0, sim.SEQ] = seq
    return seq


@apart(NOTHING)
def push(m, event, time_ns):
    """Make ``event``, neither a tick nor the end of a stretch, happen at ``time_ns``, instead of when it was to before."""
    seq = number(m)
    m[event >> table.SHIFT, event & table.LOW] = time_ns
    m[event >> table.SHIFT, (event & table.LOW) + 1] = seq
    heap_push(m, time_ns, seq, event)


# --- ticks ----------------------------------------------------------------------------------------------------------------


@inner
def push_tick(m, cpu, time_ns):
    """CPU ``cpu`` ticks at ``time_ns``."""
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
    """The tournament with this key of a CPU."""
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
            step &= step >> 63  # the lesser of the two, without a jump that nobody could predict
        key += step
        node >>= 1
    m[tree, 1] = key


@inner
def push_run(m, cpu, time_ns):
    """The stretch that CPU ``cpu`` runs ends at ``time_ns``."""
    m[cpu, RUN_AT] = time_ns
    m[cpu, RUN_AT + 1] = number(m)
    settle(m, cpu, (min(time_ns, LAST_NS) << CPU_BITS) + cpu)


@apart(NOTHING)
def forget_run(m, cpu):
    """The CPU's entry, which its event has left behind, goes to the end, where no two keys have the same time."""
    settle(m, cpu, table.INFINITE + (cpu << CPU_BITS))


# --- the next event -------------------------------------------------------------------------------------------------------


@inner
def first(m):
    """Where the next event is: FROM_*; entries that events have left behind are dropped."""
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
    """When the next event is to happen, which :func:`first` found at ``source``."""
    if source == FROM_TICKS:
        place = m[0, sim.TICKS_HEAD] & m[0, sim.TICKS_LOW]
        return m[m[0, sim.TICKS0] + (place >> TICK_SHIFT), (place & TICK_LOW) << 2]
    if source == FROM_RUNS:
        return m[m[0, sim.RUNS0], 1] >> CPU_BITS
    return m[m[0, sim.HEAP0], HEAP_ROOT]


@inner
def take_tick(m):
    """Take the next event, a tick, out of the ring; its CPU."""
    head = m[0, sim.TICKS_HEAD]
    m[0, sim.TICKS_HEAD] = head + 1
    place = head & m[0, sim.TICKS_LOW]
    cpu = m[m[0, sim.TICKS0] + (place >> TICK_SHIFT), ((place & TICK_LOW) << 2) + 2]
    m[cpu, TICK_AT + 1] = 0
    return cpu


@inner
def take_run(m):
    """Take the next event, the end of a stretch; its CPU. The entry stays: mostly the next stretch begins at once."""
    cpu = m[m[0, sim.RUNS0], 1] & CPU_LOW
    m[cpu, RUN_AT + 1] = 0
    return cpu


@inner
def take(m):
    """Take the next event out of the heap."""
    m[0, sim.HEAP_HOLE] = 1
    event = m[m[0, sim.HEAP0], HEAP_ROOT + 2]
    cancel(m, event)
    return event
