"""Replay a workload on a machine under a Linux scheduler.

Interface::

    r = replay(workload, "bd-paper-64", "v4.1", seed=1)      Replay
    r.trace                  Trace: every figure, check and reader works on it
    r.makespan_ns, r.summary.result, r.result_name           the workload's own measure
    r.busy_cpus, r.busy_per_node, r.summary.idle_while_overloaded
    r.tasks, r.balance_calls polars tables
    replay_scenario("group-imbalance", kernel="v4.1", given={"jobs": 500})
    replay(..., modules=[YourModule()]), replay(..., policies={"select_idle_sibling": f})      docs/design-mode.md
    simulate(program, machine, kernel, ...)                  RawReplay, for a Program (workload/program.py)
    raw.of(log_kind.SWITCH)[:, log_column.TS]                the raw log; log_op names its operations
"""

from wastedcores.simulator.engine.codes import log_kind, log_op
from wastedcores.simulator.engine.world import log_column
from wastedcores.simulator.measure import RawReplay, Summary, marks, summarize
from wastedcores.simulator.plain.modules import REST, Module
from wastedcores.simulator.replay import Replay, replay, replay_scenario
from wastedcores.simulator.simulate import simulate, with_steps
from wastedcores.simulator.to_trace import to_trace
from wastedcores.workload.program import costs_of

__all__ = [
    "REST", "Module", "RawReplay", "Replay", "Summary", "costs_of", "log_column", "log_kind", "log_op", "marks", "replay",
    "replay_scenario", "simulate", "summarize", "to_trace", "with_steps",
]  # fmt: skip
