"""The names of kernels: fixes, modules of designs, presets, and which release of mainline cured which bug."""

from __future__ import annotations

#: the four bugs of the paper, by the names of their fixes and in the paper's order, and the short names in recordings
FIXES = ("group_imbalance", "group_construction", "overload_on_wakeup", "missing_domains")
SHORT = {
    "gi": "group_imbalance",
    "sgc": "group_construction",
    "oow": "overload_on_wakeup",
    "msd": "missing_domains",
}
#: the oldest and the newest release whose domains are modelled
OLDEST, NEWEST = (3, 19), (7, 2)

#: name of the core module, and the optimisation modules that it can ask with their suggestions (paper, section 5)
CORE = "core"
MODULES = {
    "cache_affinity": "wake a thread on the CPU where it ran last",
    "waker_locality": "wake a thread on its waker's node, on the waker's CPU if nothing there is idle",
    "load_balance": "at ticks, take a thread from the longest queue",
    "numa": "keep a thread on the node where it started, where its memory is",
    "contention": "spread threads over the last-level caches",
    "power": "fill the nodes that are awake and let the others sleep",
    "wakeup_v4_1": "place as Linux v4.1 does, with the Overload-on-Wakeup bug",
    "balance_v4_1": "balance newly idle CPUs as Linux v4.1 does, with its Group Imbalance and domain bugs",
    "fork_flag": "start the child of a fork that is followed at once by a wait on its parent's CPU",
    "fast_core": "wake and start a thread on the idle CPU whose core has the highest frequency",
}
#: name of the fork/wait paper's strategies in kernel names, as in ``v4.19+fork_wait:1``
FORK_WAIT = "fork_wait"
#: the boot parameter that leaves sessions without groups of their own, in kernel names, as in ``v6.12.107+noautogroup``
NO_AUTOGROUP = "noautogroup"

#: the release from which mainline does not need a fix: 0372dd2736e0 for groups, 8f37961cf223 for domains, 0b0695f2b34a
#: for balancing by the number of tasks instead of the average load; wakeups are still confined to the LLC
MAINLINE = {"group_imbalance": (5, 5), "group_construction": (4, 13), "missing_domains": (4, 9)}

#: the kernels that menus offer; ``named`` accepts any version and combination
PRESETS = (
    "v4.1",
    "v4.1+group_imbalance",
    "v4.1+group_imbalance:patch",
    "v4.1+group_construction",
    "v4.1+group_construction:patch",
    "v4.1+overload_on_wakeup",
    "v4.1+overload_on_wakeup:patch",
    "v4.1+missing_domains",
    "v4.1+missing_domains:patch",
    "v4.1+all_fixes",
    "v4.1+all_fixes:patch",
    "v4.4",
    "v4.12",
    "v4.13",
    "v4.19",
    "v5.4",
    "v5.15",
    "v6.1",
    "v6.1.192",
    "v6.6",
    "v6.12",
    "v6.12.107",
    "v6.12.107+overload_on_wakeup",
    "v6.18",
    "v7.2",
)

#: kernel names in oracle cases that say more than a version
LITERAL = {
    "4.1.3-patched": "v4.1+group_construction:patch+missing_domains:patch",
    "4.1.3-nodebug": "v4.1",
}

#: variants of the guest recordings (datasets/recordings/README.md)
GUEST = {
    "buggy": "v4.1",
    "gi": "v4.1+group_imbalance:patch",
    "sgc": "v4.1+group_construction",
    "sgclit": "v4.1+group_construction:patch",
    "oow": "v4.1+overload_on_wakeup:patch",
    "msd": "v4.1+missing_domains:patch",
    "all": "v4.1+group_imbalance:patch+group_construction+overload_on_wakeup:patch+missing_domains:patch",
    "alllit": "v4.1+all_fixes:patch",
    "6.1": "v6.1.192",
    "6.12": "v6.12.107",
    "7.2": "v7.2.13",
}
