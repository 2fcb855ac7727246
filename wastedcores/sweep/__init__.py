"""Many runs into one table: on this machine's CPUs, or on a Dask cluster by its address.

A *run* is a task by name (``"package.module:function"``) and its keyword arguments; the task returns a flat dict of
plain values, one row of the table. Finished runs are kept one file each in ``OUT.runs/`` until the table is written in
one go, so a sweep that was interrupted goes on where it was; runs that an earlier table holds are not run again either.
A run is known by its task, its arguments and the code that it runs (``sources.py``): what other code made is done again.
Every run is in the table exactly once, in the order given, also when a worker died under it. A run that failed is a
row with its ``error``, and is tried again next time.
"""

from wastedcores.sweep.driver import sweep
from wastedcores.sweep.run import SCENARIO_TASK, Run, Value, execute, grid, replay_once

__all__ = ["SCENARIO_TASK", "Run", "Value", "execute", "grid", "replay_once", "sweep"]
