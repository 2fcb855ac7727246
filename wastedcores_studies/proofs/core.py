"""The rule of section 5's core, checked as an invariant of every event.

The rule: no CPU is idle while a thread that may run there waits on another CPU. The check begins in every state in which the rule
holds. In each of them, every kind of event happens once, with every answer that an optimisation module could give, and the rule
must hold afterwards. So, beginning with an empty machine, it holds after any number of events.
"""

from __future__ import annotations

from collections.abc import Callable

from wastedcores.simulator.engine.codes import task_state
from wastedcores.simulator.engine.core import schedule_jit, wakeup_jit
from wastedcores.simulator.engine.world import cpuset, cpusets_jit, rows_jit
from wastedcores.simulator.engine.world.structs import NO_TASK
from wastedcores_studies.proofs.choices import Choices
from wastedcores_studies.proofs.still import CORE, Found, Still, kernel, lengths
from wastedcores_studies.proofs.tally import Tally

#: what can happen: a thread wakes, is forked, sleeps or is preempted; a CPU has a tick; a CPU comes online
EVENTS = ("wakeup", "fork", "sleep", "preempt", "tick", "online")


def obey(s: Still) -> None:
    """Restrict the affinities so that the rule holds in the state, that is, no waiting thread may run on an idle CPU."""
    idle = [c for c in s.online() if s.is_idle(c)]
    for allowed in s.waiting():
        allowed.known.update(dict.fromkeys(idle, False))


def is_broken(s: Still) -> bool:
    """Tell whether a CPU is idle although a waiting thread may run there."""
    idle = [c for c in s.online() if s.is_idle(c)]
    return any(c in allowed for allowed in s.waiting() for c in idle)


def happen(s: Still, event: str, cpu: int) -> None:
    """Let an event happen on a CPU, as the engine's loop does."""
    k, rq = s.k, s.rqs[cpu]
    k.this_cpu = cpu
    if event == "wakeup":
        p = s.sleeper(s.choose(len(s.rqs)))
        if s.decide(p):
            s.call(wakeup_jit.try_to_wake_up, p, False)
    elif event == "fork":
        p = s.sleeper(cpu)
        if s.decide(p):
            s.call(wakeup_jit.fork_task, p, cpu, NO_TASK)
    elif event == "sleep":
        rq.curr.state = task_state.SLEEPING
        s.call(schedule_jit.schedule, cpu)
    elif event == "preempt":
        rq.curr.se.vruntime += 1 << 40
        rq.need_resched = 1
    elif event == "tick":
        s.call(rows_jit.core_module).task_tick(k, cpu)
    else:
        s.call(cpusets_jit.include, cpuset.ACTIVE, cpu)


def applies(event: str, cpu: int, queues: tuple[int, ...]) -> bool:
    """Tell whether an event can happen on a CPU with this number of threads."""
    least = {"sleep": 1, "tick": 1, "preempt": 2}.get(event, 0)
    return queues[cpu] >= least and (event != "online" or queues[cpu] == 0)


def one_event(
    kind: str, queues: tuple[int, ...], event: str, cpu: int
) -> Callable[[Choices], Found]:
    """Return the run of one event."""

    def run(choose: Choices) -> Found:
        s = kernel(kind, len(queues), CORE).begin(choose, queues)
        if event == "online":
            s.call(cpusets_jit.exclude, cpuset.ACTIVE, cpu)
        obey(s)
        before = s.queues()
        happen(s, event, cpu)
        _reschedule(s, cpu)
        broken = is_broken(s)
        while not broken and (due := s.take()):
            # other CPUs reschedule when interrupts ask them to
            s.k.this_cpu = due[1]
            _reschedule(s, due[1])
            broken = is_broken(s)
        return s.found("broken" if broken else "holds", before)

    return run


def _reschedule(s: Still, cpu: int) -> None:
    """Do what the engine's loop does after each event."""
    for _ in range(2):
        if s.rqs[cpu].need_resched:
            s.call(schedule_jit.schedule, cpu)
        s.call(rows_jit.core_module).settle(s.k)


def check_event(event: str, kind: str, cpus: int, threads: int) -> Tally:
    """Check the rule after an event of one kind, in every state."""
    tally = Tally()
    new = event in ("wakeup", "fork")
    for queues in lengths(cpus, threads - new):
        for cpu in range(cpus):
            if applies(event, cpu, queues):
                tally.count(one_event(kind, queues, event, cpu))
    return tally
