"""Generations of Linux's balancer, and the releases whose balancer has been read.

Stable releases change the balancer, too: 6.12.107 places, counts and balances differently from 6.12. So a replay models exact
releases. For any other kernel, this module finds the nearest release. docs/scheduler-model.md describes v4.1.
"""

from __future__ import annotations

from typing import NamedTuple

#: the names of the fixes for the four bugs, in the paper's order, and the short names that recordings use for them
FIXES = ("group_imbalance", "group_construction", "overload_on_wakeup", "missing_domains")
SHORT = {
    "gi": "group_imbalance",
    "sgc": "group_construction",
    "oow": "overload_on_wakeup",
    "msd": "missing_domains",
}
#: the oldest and the newest release whose domains are modelled
OLDEST, NEWEST = (3, 19), (7, 2)

#: name of the core module; and the optimisation modules that it can ask, each with what it suggests (paper, section 5)
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
#: the boot parameter that keeps sessions from being task groups, as it is written in kernel names: ``v6.12.107+noautogroup``
NO_AUTOGROUP = "noautogroup"

#: the release since which mainline needs no fix for a bug. The commits are 0b0695f2b34a (group_imbalance: it balances the number
#: of tasks instead of the average load), 0372dd2736e0 (group_construction) and 8f37961cf223 (missing_domains).
#: overload_on_wakeup is not listed, because mainline still confines wakeups to the LLC
MAINLINE = {"group_imbalance": (5, 5), "group_construction": (4, 13), "missing_domains": (4, 9)}

#: the kernels that menus offer; ``named`` accepts any version and combination
PRESETS = (
    "v4.1", "v4.1+group_imbalance", "v4.1+group_imbalance:patch", "v4.1+group_construction", "v4.1+group_construction:patch",
    "v4.1+overload_on_wakeup", "v4.1+overload_on_wakeup:patch", "v4.1+missing_domains", "v4.1+missing_domains:patch",
    "v4.1+all_fixes", "v4.1+all_fixes:patch", "v4.4", "v4.12", "v4.13", "v4.19", "v5.4", "v5.15", "v6.1", "v6.1.192",
    "v6.6", "v6.12", "v6.12.107", "v6.12.107+overload_on_wakeup", "v6.18", "v7.2",
)  # fmt: skip

#: names in oracle cases that stand for more than a version -> the kernels that they mean
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


class Generation(NamedTuple):
    """Releases with the same structure of balancing and of picking the next task."""

    name: str  #: the first release, ``v5.5``
    since: tuple[int, int]  #: the first release as numbers
    rules: str  #: what distinguishes the generation, in words


#: the commits are 0b0695f2b34a (balancing by kind of imbalance), 147f3efaa241 (EEVDF) and 152e11f6df29 (delayed dequeue)
GENERATIONS = (
    Generation("v4.1", (3, 19), "CFS, balancing by average load"),
    Generation("v5.5", (5, 5), "CFS, balancing by kind of imbalance"),
    Generation("v6.6", (6, 6), "EEVDF, balancing by kind of imbalance"),
    Generation("v6.12", (6, 12), "EEVDF with delayed dequeue, balancing by kind of imbalance"),
)

#: the releases whose balancer has been read from its source; v6.1 and v6.12 are 6.1.0 and 6.12.0
READ = (
    (4, 1), (6, 1), (6, 1, 166), (6, 1, 192), (6, 6), (6, 12), (6, 12, 107), (6, 18), (6, 18, 15), (7, 2, 13),
)  # fmt: skip

#: the exact releases after v4.1's generation that the replay models
REPLAYED: frozenset[tuple[int, ...]] = frozenset(
    {(6, 1, 166), (6, 1, 192), (6, 12, 107), (6, 18, 15), (7, 2, 13)}
)

#: the releases of v4.1's generation that the replay models; of the others it models parts (``KernelModel.replay_warning``)
ORIGINAL = ((4, 1), (4, 4))

#: from this release on, a replay of the nearest modelled release may stand for a kernel that is not modelled
STAND_IN_SINCE = (5, 15)
#: the first release with EEVDF (147f3efaa241); a release cannot stand for one with another fair class
EEVDF_SINCE = (6, 6)


def replayed() -> list[str]:
    """The names of the releases that the replay models, the oldest first, for sentences that list them."""
    return [f"v{'.'.join(map(str, version))}" for version in sorted({*ORIGINAL, *REPLAYED})]


def replayed_listed() -> str:
    """The names of :func:`replayed` as a part of a sentence: ``v4.1, v4.4, ... and v6.12.107``."""
    *names, last = replayed()
    return f"{', '.join(names)} and {last}"


def generation(version: tuple[int, ...]) -> Generation:
    """Return the generation of a release."""
    return next(g for g in reversed(GENERATIONS) if version[:2] >= g.since)


def nearest(version: tuple[int, ...]) -> tuple[int, ...]:
    """Return the release nearest to this one, of the same generation, whose balancer has been read."""
    same = generation(version)
    return min((r for r in READ if generation(r) == same), key=lambda r: _distance(r, version))


def stand_in(version: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the release nearest to this one that the replay models and whose fair class is the same; None if there is none."""
    if version < STAND_IN_SINCE:
        return None
    alike = (r for r in REPLAYED if (r >= EEVDF_SINCE) == (version >= EEVDF_SINCE))
    # a version without a stable release's number is usually a distributor's kernel, which is based on a late stable release
    late = len(version) == 2

    def far(read: tuple[int, ...]) -> tuple[int, int]:
        series, stable = _distance(read, version)
        return series, -_point(read) if late else stable

    return min(alike, key=far, default=None)


def _distance(read: tuple[int, ...], version: tuple[int, ...]) -> tuple[int, int]:
    """Return how far a release is from another one: in series, then in stable releases."""
    own = _point(version) if read[:2] == version[:2] else 0
    return abs(_position(read) - _position(version)), abs(_point(read) - own)


def _position(version: tuple[int, ...]) -> int:
    """Number the releases in order; since 3.x, a major version has 20 minor versions."""
    return 20 * version[0] + version[1]


def _point(version: tuple[int, ...]) -> int:
    return version[2] if len(version) > 2 else 0
