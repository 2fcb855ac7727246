"""What distinguishes the schedulers of the releases since 6.1 that the replay models: one value per difference and release.

The functions of the simulator ask these values instead of the version. The differences were read from kernel/sched/fair.c,
kernel/sched/features.h and kernel/time/tick-sched.c of each release.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Rules(NamedTuple):
    """The differences between one modern release and another."""

    eevdf: bool  #: the fair class is EEVDF (147f3efaa241); otherwise CFS
    #: the feature DELAY_DEQUEUE: a thread that sleeps stays queued until its lag is used up (152e11f6df29)
    delayed_dequeue: bool
    #: update_tg_load_avg() runs at most once per ms and queue, and not on an inactive CPU. A CPU that goes offline takes its
    #: load off its groups.
    tg_load_avg_limited: bool
    #: the use that is expected of a new thread is computed with its weight in full resolution (post_init_entity_util_avg(),
    #: before 72bffbf57c52). It is then nearly always half of what is left of the CPU.
    raw_initial_util: bool
    #: the estimate of a thread's use is an average and the last value (struct util_est), updated after the thread left the
    #: queue. Otherwise it is one number, updated before.
    util_est_ewma: bool
    #: a queue from which use is to move is chosen by the time for which threads wait, too (cpu_util_cfs_boost())
    waiting_is_use: bool
    newidle_random: bool  #: the feature NI_RANDOM: newidle balancing skips a level at random
    #: how many ticks an idle CPU takes before it stops its tick, without a cpuidle governor
    idle_ticks_before_stop: int
    whole_cores_balance: bool  #: should_we_balance() prefers an idle CPU whose core is idle
    #: groups of the threads of a core have a type of their own (smt_balance), and differences between groups count per core
    #: (sibling_imbalance()). Otherwise the difference of the numbers of tasks counts, for busy CPUs too.
    siblings_counted: bool
    #: the flag PREFER_SIBLING is that of the domain below; otherwise that of the busiest group
    prefer_sibling_of_child: bool
    #: of several fully busy groups the last one is the busiest; otherwise the first one
    last_fully_busy: bool
    #: the statistics of groups for fork and exec cover only the CPUs that the thread may use
    placement_masked: bool
    clusters_scanned: bool  #: select_idle_cpu() scans the cluster of the target first
    #: the feature SIS_UTIL: select_idle_cpu() examines fewer CPUs the more the last-level cache's CPUs are used
    scan_limited: bool


#: the rules of each release, by its version
RULES: dict[tuple[int, ...], Rules] = {
    (6, 1, 166): Rules(
        eevdf=False,
        delayed_dequeue=False,
        tg_load_avg_limited=False,
        raw_initial_util=True,
        util_est_ewma=True,
        waiting_is_use=False,
        newidle_random=True,
        idle_ticks_before_stop=0,
        whole_cores_balance=False,
        siblings_counted=False,
        prefer_sibling_of_child=True,
        last_fully_busy=False,
        placement_masked=False,
        clusters_scanned=False,
        scan_limited=True,
    ),
    (6, 12, 107): Rules(
        eevdf=True,
        delayed_dequeue=True,
        tg_load_avg_limited=True,
        raw_initial_util=False,
        util_est_ewma=False,
        waiting_is_use=True,
        newidle_random=True,
        idle_ticks_before_stop=1,
        whole_cores_balance=True,
        siblings_counted=True,
        prefer_sibling_of_child=False,
        last_fully_busy=True,
        placement_masked=True,
        clusters_scanned=True,
        scan_limited=True,
    ),
}
# Debian's 6.1.0-56, of which there are recordings
RULES[6, 1, 192] = RULES[6, 1, 166]._replace(placement_masked=True)

#: scheduler features that a kernel's name may switch off (``v6.12.107+NO_NI_RANDOM``), and the rule that each one is
FEATURES = {
    "NI_RANDOM": "newidle_random",
    "DELAY_DEQUEUE": "delayed_dequeue",
    "SIS_UTIL": "scan_limited",
}

#: the shortest and the longest slice that a kernel's name may set (``v6.12.107+base_slice_ns:3000000``), in ns: the limits that
#: the kernel has for the slice of one thread (__setparam_fair(), v6.12); the file base_slice_ns itself has none
BASE_SLICES_NS = (100_000, 100_000_000)


def without(rules: Rules, features: Iterable[str]) -> Rules:
    """Return rules with some features switched off."""
    return rules._replace(**{FEATURES[name]: False for name in features})
