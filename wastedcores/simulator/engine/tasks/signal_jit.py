"""Conditions, which do not store signals, and periodic timers, for rt-app (docs/replay-semantics.md, sections 2 and 4)."""

from __future__ import annotations

from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.codes import waits_for
from wastedcores.simulator.engine.tasks.lifecycle_jit import sleep
from wastedcores.simulator.engine.tasks.sync_jit import begin_wait, grant
from wastedcores.simulator.engine.world import sim, task, wait
from wastedcores.simulator.engine.world.wait_lists_jit import unlink
from wastedcores.workload import ops


@apart(VALUE)
def signal_op(m, p, op):
    """Do SIGNAL, CATCH, WAIT_SIGNAL or TIMER; return whether the program continues at once."""
    code = m[op, 0]
    y = m[0, sim.WAIT0] + m[op, 1]
    if code == ops.OP_SIGNAL:
        m[y, wait.GENERATION] += 1
        while m[y, wait.HEAD] >= 0:
            first = m[y, wait.HEAD]
            unlink(m, y, first, -1)
            grant(m, first, p)
            if m[op, 2] == 0:
                break
        return True
    if code == ops.OP_CATCH:
        m[p, task.SIGNALS_SEEN] = m[y, wait.GENERATION]
        return True
    now = m[0, sim.NOW]
    if code == ops.OP_TIMER:
        if m[y, wait.GENERATION] == 0:
            m[y, wait.GENERATION] = now
        m[y, wait.GENERATION] += m[op, 2]
        if now < m[y, wait.GENERATION]:
            sleep(m, p, m[y, wait.GENERATION] - now)
            return False
        if m[op, 3] == 0:
            m[y, wait.GENERATION] = now
        return True
    # WAIT_SIGNAL: a signal that came after CATCH counts
    if m[y, wait.GENERATION] != m[p, task.SIGNALS_SEEN]:
        return True
    begin_wait(m, p, waits_for.SEM, y, m[op, 2], m[op, 3])
    return False
