"""The names in the log of a replay. The engine's codes are indices of these tuples."""

from __future__ import annotations

from types import ModuleType

from wastedcores.simulator.engine.codes import group_type_v4_1, lb_result, log_kind, log_op


def _names(codes: ModuleType) -> tuple[str, ...]:
    return tuple(name.lower() for name in vars(codes) if name.isupper())


#: the kinds of log records; a module's refused suggestion has a code of its own, but the name of a balance event
KINDS = tuple("balance" if name == "refused" else name for name in _names(log_kind))

#: why a task moved, at which moment a CPU balanced, or which kernel function examined CPUs
OPERATIONS = _names(log_op)

#: the state in which a CPU balances (enum cpu_idle_type)
IDLE_TYPES = ("idle", "busy", "newidle")

#: the results of a load_balance() call
BALANCE_RESULTS = _names(lb_result)
#: the results of a logged decision; "hot" is a call that failed only because threads were cache-hot
DECISION_RESULTS = (*BALANCE_RESULTS, "hot")

#: the types of a scheduling group (enum group_type)
GROUP_TYPES = _names(group_type_v4_1)
#: the types of a scheduling group since v5.5
GROUP_TYPES_V6_12 = (
    "has_spare", "fully_busy", "misfit_task", "smt_balance", "asym_packing", "imbalanced", "overloaded",
)  # fmt: skip

#: since v5.5: what is to move (enum migration_type), and the comparisons that may find a domain balanced
MIGRATIONS = ("load", "util", "task")
BALANCED = (
    "not balanced", "no task", "local type", "local load", "above average", "margin", "busy", "idle CPUs", "single task",
    "no imbalance",
)  # fmt: skip

#: the outcomes of asking a module of a design for a suggestion, and the reasons for refusing a suggestion
ANSWERS = ("silent", "taken", "refused")
REFUSALS = ("a core would stay idle", "not possible")
