"""The decisions of the engine that a function of the user can replace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from wastedcores.errors import UsageError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.plain.answers import DECISIONS, checked_policy
from wastedcores.simulator.plain.engine import PlainEngine


def functions_of(kernel: KernelModel) -> dict[str, Any]:
    """Return the engine's functions that make the decisions under a kernel, by the names of the decisions."""
    if kernel.is_modern:
        from wastedcores.simulator.engine.balance import find_src_group_v6_12_jit as group
        from wastedcores.simulator.engine.balance import (
            idle_sibling_v6_12_jit,
            load_balance_v6_12_jit,
            placement_v6_12_jit,
        )

        return {
            "select_task_rq": placement_v6_12_jit.select_task_rq_fair,
            "select_idle_sibling": idle_sibling_v6_12_jit.select_idle_sibling,
            "load_balance": load_balance_v6_12_jit.load_balance,
            "should_we_balance": load_balance_v6_12_jit.should_we_balance,
            "find_busiest_group": group.find_src_group,
            "balanced": group.balanced,
            "calculate_imbalance": group.calculate_imbalance,
            "find_busiest_queue": group.find_src_rq,
        }
    from wastedcores.simulator.engine.balance import (
        group_stats_jit,
        load_balance_v4_1_jit,
        select_task_rq_v4_1_jit,
    )

    return {
        "select_task_rq": select_task_rq_v4_1_jit.select_task_rq_fair,
        "select_idle_sibling": select_task_rq_v4_1_jit.select_idle_sibling,
        "longest_idle_cpu": select_task_rq_v4_1_jit.longest_idle_cpu,
        "load_balance": load_balance_v4_1_jit.load_balance,
        "should_we_balance": load_balance_v4_1_jit.should_we_balance,
        "find_busiest_group": group_stats_jit.find_busiest_group,
        "balanced": group_stats_jit.balanced,
        "calculate_imbalance": group_stats_jit.calculate_imbalance,
        "find_busiest_queue": load_balance_v4_1_jit.find_busiest_queue,
    }


def replace_decisions(
    plain: PlainEngine, kernel: KernelModel, policies: Mapping[str, Callable[..., Any]]
) -> None:
    """Replace decisions of the engine by functions of the user.

    Raises
    ------
    UsageError
        There is no such decision under this kernel, or the given object is no function.
    """
    functions = functions_of(kernel)
    for name, own in policies.items():
        if name not in functions:
            under = f" under {kernel.name}" if name in DECISIONS else ""
            raise UsageError(
                f"policies.{name}: there is no such decision{under}; there are {', '.join(functions)}."
            )
        if not callable(own):
            raise UsageError(f"policies.{name} = {own!r}: expected a function.")
        plain.replace(functions[name], checked_policy(name, own))
