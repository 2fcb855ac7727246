"""Fills the structs of addresses (``world/kernel_structs.py``) with the functions of a kernel, of a design or of clocks.

The functions of v4.1 are called directly. All others are imported here when a replay needs them, so that a replay of v4.1 neither
compiles nor loads them. A function has the same name as its field, unless a keyword names the field.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from wastedcores.jit.plain import Plain
from wastedcores.jit.structs import Struct, fields
from wastedcores.jit.units import install
from wastedcores.simulator.engine.world.structs import (
    Balancer,
    ClockFunctions,
    CoreModule,
    FairClass,
    RtClass,
)

Functions = dict[str, Callable[..., Any]]


def _functions(struct: type[Struct], *modules: ModuleType, **own: Callable[..., Any]) -> Functions:
    """Return the function of each field of a struct: from ``own`` if it has the field's name, else from one of the modules."""
    names = {n for n, f in fields(struct.__name__).items() if f.kind == "function"} - own.keys()
    return own | {
        name: f
        for module in modules
        for name, f in vars(module).items()
        if name in names and getattr(f, "__wrapped__", f).__module__ == module.__name__
    }


def _eevdf() -> Functions:
    from wastedcores.simulator.engine.fair import (
        eevdf_class_jit,
        eevdf_jit,
        modern_task_jit,
        pelt_v6_12_jit,
    )

    return _functions(
        FairClass,
        eevdf_class_jit,
        eevdf_jit,
        modern_task_jit,
        pelt_v6_12_jit,
        migrate_task_rq=modern_task_jit.migrate_task,
        task_dead=modern_task_jit.remove_entity_load_avg,
    )


def _cfs_v6_1() -> Functions:
    from wastedcores.simulator.engine.fair import (
        cfs_jit,
        cfs_v6_1_class_jit,
        modern_task_jit,
        pelt_v6_12_jit,
    )

    return _functions(
        FairClass,
        cfs_v6_1_class_jit,
        modern_task_jit,
        pelt_v6_12_jit,
        wakeup_preempt=cfs_jit.check_preempt_wakeup,
        task_dead=modern_task_jit.remove_entity_load_avg,
    )


def _balancer() -> Functions:
    from wastedcores.simulator.engine.balance import (
        idle_sibling_v6_12_jit,
        load_balance_v6_12_jit,
        nohz_v6_12_jit,
        placement_v6_12_jit,
        rebalance_domains_v6_12_jit,
    )

    return _functions(
        Balancer,
        nohz_v6_12_jit,
        rebalance_domains_v6_12_jit,
        idle_sibling_v6_12_jit,
        load_balance_v6_12_jit,
        select_task_rq=placement_v6_12_jit.select_task_rq_fair,
    )


#: for each ``Rules.structure`` (wastedcores/kernels/rules.py), the functions of the fair class and of the balancer
STRUCTURES: dict[str, tuple[Callable[[], Functions], Callable[[], Functions]]] = {
    "CFS": (_cfs_v6_1, _balancer),
    "EEVDF": (_eevdf, _balancer),
}


def modern(row: np.ndarray, structure: str, plain: Plain | None) -> None:
    """Write the functions of a modern kernel into the row of its globals."""
    fair, balancer = STRUCTURES[structure]
    install(row, FairClass, fair(), plain)
    install(row, Balancer, balancer(), plain)


def realtime(row: np.ndarray, plain: Plain | None) -> None:
    """Write the functions of the real-time class (v4.1) into the row that its queues share."""
    from wastedcores.simulator.engine.realtime import class_jit, queue_jit

    functions = _functions(
        RtClass,
        class_jit,
        queue_jit,
        enqueue_task=queue_jit.enqueue_rt,
        dequeue_task=queue_jit.dequeue_rt,
        put_prev_task=queue_jit.put_prev,
    )
    install(row, RtClass, functions, plain)


def design(row: np.ndarray, plain: Plain | None) -> None:
    """Write the functions of the core module into its row."""
    from wastedcores.simulator.engine.design import core_jit

    install(row, CoreModule, _functions(CoreModule, core_jit), plain)


def clocks(row: np.ndarray, plain: Plain | None) -> None:
    """Write the functions of the clocks into the row of their constants."""
    from wastedcores.simulator.engine.clocks import clocks_jit

    install(row, ClockFunctions, _functions(ClockFunctions, clocks_jit), plain)
