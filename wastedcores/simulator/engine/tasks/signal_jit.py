"""Conditions, which do not store signals, and periodic timers, for rt-app (docs/replay-semantics.md, sections 2 and 4)."""

from __future__ import annotations

from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.codes import waits_for
from wastedcores.simulator.engine.tasks.lifecycle_jit import sleep
from wastedcores.simulator.engine.tasks.sync_jit import begin_wait, grant
from wastedcores.simulator.engine.world.structs import NO_TASK, Kernel, Op, TaskStruct, WaitObject
from wastedcores.simulator.engine.world.wait_lists_jit import unlink
from wastedcores.workload import ops


@apart(VALUE)
def signal_op(k: Kernel, p: TaskStruct, op: Op) -> bool:
    """Do SIGNAL, CATCH, WAIT_SIGNAL or TIMER; return whether the program continues at once."""
    code = op.code
    y = WaitObject(k, k.wait0 + op.arg1)
    if code == ops.OP_SIGNAL:
        y.generation += 1
        while y.head != NO_TASK:
            first = y.head
            unlink(k, y, first, NO_TASK)
            grant(k, first, p)
            if op.arg2 == 0:
                break
        return True
    if code == ops.OP_CATCH:
        p.signals_seen = y.generation
        return True
    now = k.now_ns
    if code == ops.OP_TIMER:
        if y.generation == 0:
            y.generation = now
        y.generation += op.arg2
        if now < y.generation:
            sleep(k, p, y.generation - now)
            return False
        if op.arg3 == 0:
            y.generation = now
        return True
    # WAIT_SIGNAL: a signal that came after CATCH counts
    if y.generation != p.signals_seen:
        return True
    begin_wait(k, p, waits_for.SEM, y, op.arg2, op.arg3)
    return False
