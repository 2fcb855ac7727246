"""The schedulers of Linux in plain Python: the oracle of the compiled engine, and the code to read and to extend.

It is slow and simple. It was written from docs/scheduler-model.md and docs/replay-semantics.md, not from the engine, and
imports nothing of it, so a mistake in one of the two is unlikely to be in the other. Tests replay random machines and
programs with both and compare every event.

Where to begin: ``schedule.py`` chooses and switches tasks, ``fair.py`` is CFS on one CPU, ``placement.py`` chooses the CPU
of a waking task, ``nohz.py`` decides when a CPU balances, ``stats.py`` which group and queue it pulls from, and
``balance.py`` moves the tasks. ``pelt.py`` and ``load.py`` compute the loads that these compare. ``kernel.py`` holds the
machine's state and its log; ``simulation.py`` handles the events and runs the programs of the tasks.

Under v6.12, ``eevdf.py``, ``eevdf_class.py``, ``tasks_v6_12.py`` and ``pelt_v6_12.py`` take the place of ``fair.py`` and
``pelt.py``, ``placement_v6_12.py``, ``idle_sibling_v6_12.py``, ``slow_path_v6_12.py`` and ``signals_v6_12.py`` that of
``placement.py`` and ``load.py``, and ``nohz_v6_12.py``, ``newidle_v6_12.py``, ``stats_v6_12.py`` and ``balance_v6_12.py`` that
of ``nohz.py``, ``stats.py`` and ``balance.py``.

v6.1 has most of ``fair.py`` in ``cfs_v6_1.py``, and everything else of v6.12. Where the two differ, functions ask
``k.model.rules``.

Functions have the names of the kernel functions that they model, and their docstrings name the file and the version.
Their parameters have the kernel's names and are not explained again at each function:

======== ============================================================================================================
k        the :class:`Kernel`: run queues, clock, tunables and log
rq       the run queue of one CPU (``struct rq``)
cfs_rq   a queue of entities: the root queue of a CPU, or the queue of a task group on a CPU (``struct cfs_rq``)
se       a scheduling entity: a task, or a task group on one CPU (``struct sched_entity``)
p        a task (``struct task_struct``)
tg       a task group: the root group or an autogroup (``struct task_group``)
sd       a scheduling domain of one CPU (``struct sched_domain``)
env      one attempt to balance (``struct lb_env``)
sim      the :class:`Simulation`
======== ============================================================================================================

Times are integer ns of simulated time, jiffies are ticks since the machine's time 0, and loads are the kernel's integers
(1024 for one task of nice 0 that always runs).

Every decision is a plain function in :class:`Policies`. Replace one and run::

    from wastedcores.kernels import KernelModel
    from wastedcores.simulator.reference import Kernel, Module, Simulation, replay_design
    from wastedcores.topology.domains import domain_events
    from wastedcores.topology.machine import Machine
    from wastedcores.workload import Script, Workload

    workload = Workload("two threads")
    for name in ("one", "two"):
        workload.task(name, Script().loop(3).compute(1_000_000).sleep(1_000_000).end(), cpu=0)
    machine, model = Machine.preset("bd-paper-16"), KernelModel.named("v4.1")
    k = Kernel(machine, model, domain_events(machine, model))
    k.policies.select_idle_sibling = lambda k, p, target: target
    Simulation(k, workload.program(), seed=1).run(until_ns=1_000_000_000)
    k.log

You can also write an optimisation module for the core module of section 5 of the paper (docs/design-mode.md)::

    class Sticky(Module):
        name = "sticky"

        def suggest_cpu(self, k, p, waker_cpu, why):
            return p.cpu

    replay_design(workload, "bd-paper-16", [Sticky(), "load_balance"])
"""

from wastedcores.simulator.reference.core import REST, Core, Module
from wastedcores.simulator.reference.kernel import EPOCH_NS, Event, Kernel
from wastedcores.simulator.reference.modules import SHIPPED
from wastedcores.simulator.reference.policies import Policies
from wastedcores.simulator.reference.simulation import Simulation
from wastedcores.simulator.reference.trace import replay_design, replay_reference, to_trace
from wastedcores.workload.program import Costs, Program, TaskSpec

__all__ = [
    "EPOCH_NS",
    "REST",
    "SHIPPED",
    "Core",
    "Costs",
    "Event",
    "Kernel",
    "Module",
    "Policies",
    "Program",
    "Simulation",
    "TaskSpec",
    "replay_design",
    "replay_reference",
    "to_trace",
]
