"""Executes many runs and collects their results in one table, on this machine's CPUs or on a Dask cluster.

A *run* is the name of a task (``"package.module:function"``) and its keyword arguments. The task returns a flat dict of
plain values, which becomes one row of the table. Each finished run is kept in a file in ``OUT.runs/`` until the whole
table is written, so an interrupted sweep continues where it stopped. If an earlier table has a run, the run is not executed
again either. A run is identified by its task, its arguments and the code that it executes (``run.py``),
so results of other code are not reused. Every run is in the table exactly once, in the given order, even if a worker died
while executing it. A failed run is a row with its ``error``, and the next sweep tries it again.
"""

from wastedcores.sweep.driver import sweep
from wastedcores.sweep.run import SCENARIO_TASK, Run, Value, execute, grid, replay_once

__all__ = ["SCENARIO_TASK", "Run", "Value", "execute", "grid", "replay_once", "sweep"]
