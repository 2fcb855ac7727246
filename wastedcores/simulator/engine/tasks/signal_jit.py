"""Conditions that forget, and periodic timers (docs/replay-semantics.md, sections 2 and 4): what rt-app's events need."""

from __future__ import annotations

from wastedcores.jit.units import VALUE, apart
from wastedcores.simulator.engine.tasks.lifecycle_jit import sleep
from wastedcores.simulator.engine.tasks.sync_jit import begin_wait, grant
from wastedcores.simulator.engine.world.codes import W_SEM
from wastedcores.simulator.engine.world.state import G_NOW, G_Y0, T_SEEN, Y_GEN, Y_HEAD
from wastedcores.simulator.engine.world.wait_lists_jit import unlink
from wastedcores.workload.ops import OP_CATCH, OP_SIGNAL, OP_TIMER


@apart(VALUE)
def signal_op(m, p, op):
    """SIGNAL, CATCH, WAIT_SIGNAL, TIMER; whether the program goes on at once."""
    code = m[op, 0]
    y = m[0, G_Y0] + m[op, 1]
    if code == OP_SIGNAL:
        m[y, Y_GEN] += 1
        while m[y, Y_HEAD] >= 0:
            first = m[y, Y_HEAD]
            unlink(m, y, first, -1)
            grant(m, first, p)
            if m[op, 2] == 0:
                break
        return True
    if code == OP_CATCH:
        m[p, T_SEEN] = m[y, Y_GEN]
        return True
    now = m[0, G_NOW]
    if code == OP_TIMER:
        if m[y, Y_GEN] == 0:
            m[y, Y_GEN] = now
        m[y, Y_GEN] += m[op, 2]
        if now < m[y, Y_GEN]:
            sleep(m, p, m[y, Y_GEN] - now)
            return False
        if m[op, 3] == 0:
            m[y, Y_GEN] = now
        return True
    # WAIT_SIGNAL: a signal since CATCH has been seen already
    if m[y, Y_GEN] != m[p, T_SEEN]:
        return True
    begin_wait(m, p, W_SEM, y, m[op, 2], m[op, 3])
    return False
