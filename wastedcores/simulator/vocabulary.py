"""The names in the log of a replay. The engine's codes are indices of these tuples."""

from __future__ import annotations

#: kinds of records; a refused suggestion of a module has a code of its own and is a balance event
KINDS = (
    "nr_running", "load", "switch", "wakeup", "wakeup_new", "migrate", "fork", "exit", "mark", "balance", "considered",
    "balance", "frequency", "tick", "decision", "decision_part", "affinity", "considered_part",
)  # fmt: skip

#: why a task moved, at which moment a CPU balanced, or which kernel function examined CPUs
OPERATIONS = (
    "wakeup", "fork", "exec", "newidle", "periodic", "nohz", "active", "affinity", "hotplug",
    "select_idle_sibling", "update_sg_lb_stats", "find_busiest_queue", "find_idlest_group", "find_idlest_cpu",
    "handover", "refused", "push", "pull",
)  # fmt: skip

#: the state in which a CPU balances (enum cpu_idle_type)
IDLE_TYPES = ("idle", "busy", "newidle")

#: the results of a load_balance() call
BALANCE_RESULTS = (
    "not_designated", "balanced", "no_queue", "pinned", "failed", "active", "moved",
)  # fmt: skip
#: the results of a logged decision: a call that failed only because threads were cache-hot is distinguished
DECISION_RESULTS = (*BALANCE_RESULTS, "hot")

#: the types of a scheduling group (enum group_type)
GROUP_TYPES = ("other", "imbalanced", "overloaded")
#: the same since v5.5
GROUP_TYPES_V6_12 = (
    "has_spare", "fully_busy", "misfit_task", "smt_balance", "asym_packing", "imbalanced", "overloaded",
)  # fmt: skip

#: what is to move (enum migration_type) and the comparisons that find a domain balanced, since v5.5
MIGRATIONS = ("load", "util", "task")
BALANCED = (
    "not balanced", "no task", "local type", "local load", "above average", "margin", "busy", "idle CPUs", "single task",
    "no imbalance",
)  # fmt: skip

#: the outcomes of asking a module of a design for a suggestion, and the reasons for refusing one
ANSWERS = ("silent", "taken", "refused")
REFUSALS = ("a core would stay idle", "not possible")
