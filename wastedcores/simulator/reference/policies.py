"""The decisions of a simulated kernel that a function of yours can replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wastedcores.errors import UsageError
from wastedcores.kernels import KernelModel
from wastedcores.simulator.reference import (
    balance,
    balance_v6_12,
    placement,
    placement_v6_12,
    stats,
    stats_v6_12,
)
from wastedcores.simulator.reference.answers import checked_policy
from wastedcores.simulator.reference.state import Rq


@dataclass
class Policies:
    """The decisions that can be replaced: assign a function of your own with the same signature.

    Each function takes the kernel first. The defaults are those of Linux v4.1; :meth:`of` returns those of another one.
    """

    select_task_rq: Callable[..., int] = placement.select_task_rq_fair
    select_idle_sibling: Callable[..., int] = placement.select_idle_sibling
    longest_idle_cpu: Callable[..., int] = placement.longest_idle_cpu
    load_balance: Callable[..., tuple[int, bool]] = balance.load_balance
    should_we_balance: Callable[..., bool] = balance.should_we_balance
    find_busiest_group: Callable[..., Any] = stats.find_busiest_group
    balanced: Callable[..., Any] = stats.balanced
    calculate_imbalance: Callable[..., Any] = stats.calculate_imbalance
    find_busiest_queue: Callable[..., Rq | None] = stats.find_busiest_queue

    @classmethod
    def of(cls, model: KernelModel) -> Policies:
        """Return the decisions of a kernel."""
        if not model.is_modern:
            return cls()
        return cls(
            select_task_rq=placement_v6_12.select_task_rq_fair,
            load_balance=balance_v6_12.load_balance,
            should_we_balance=balance_v6_12.should_we_balance,
            find_busiest_group=stats_v6_12.find_src_group,
            balanced=stats_v6_12.balanced,
            calculate_imbalance=stats_v6_12.calculate_imbalance,
            find_busiest_queue=stats_v6_12.find_src_rq,
        )

    def __setattr__(self, name: str, value: object) -> None:
        """Replace a decision; a misspelt name would otherwise change nothing without a word."""
        if name not in self.__dataclass_fields__:
            raise UsageError(
                f"policies.{name}: there is no such decision; there are {', '.join(self.__dataclass_fields__)}."
            )
        if not callable(value):
            raise UsageError(f"policies.{name} = {value!r}: expected a function.")
        super().__setattr__(name, checked_policy(name, value))
