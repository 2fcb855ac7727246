"""What distinguishes the schedulers of the releases since 6.1 that the replay models: one value per difference and release.

The functions of the simulator test these values instead of the version. The differences were read from kernel/sched/fair.c,
kernel/sched/features.h and kernel/time/tick-sched.c of each release.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Rules(NamedTuple):
    """The differences between modern releases."""

    #: The functions of which the fair class and the balancer consist, one of ``STRUCTURES`` in
    #: ``wastedcores/simulator/engine/classes.py``: EEVDF (147f3efaa241), or CFS before that.
    structure: str
    #: The feature DELAY_DEQUEUE: a thread that sleeps stays queued until its lag is used up (152e11f6df29).
    delayed_dequeue: bool
    #: update_tg_load_avg() runs at most once per ms and queue, and not on an inactive CPU. When a CPU goes offline, its load is
    #: subtracted from its groups.
    tg_load_avg_limited: bool
    #: The expected use of a new thread is computed with its weight in full resolution (post_init_entity_util_avg(), before
    #: 72bffbf57c52). It is then nearly always half of the unused part of the CPU.
    raw_initial_util: bool
    #: The estimate of a thread's use has two numbers, an average and the last value (struct util_est), which are updated after
    #: the thread has left the queue. Otherwise it is one number, which is updated before the thread leaves.
    util_est_ewma: bool
    #: If utilization is to be moved (migrate_util), the choice of the source queue also counts the time for which its threads
    #: wait (cpu_util_cfs_boost()).
    waiting_is_use: bool
    newidle: str  #: When newidle balancing tries a level, one of :data:`NEWIDLE`.
    #: Without a cpuidle governor, an idle CPU stops its tick after this many ticks.
    idle_ticks_before_stop: int
    whole_cores_balance: bool  #: should_we_balance() prefers an idle CPU whose core is idle.
    #: Groups that consist of the threads of a core have a type of their own (smt_balance), and differences between groups count
    #: per core (sibling_imbalance()). Otherwise the difference of the numbers of tasks counts, and it also counts for busy CPUs.
    siblings_counted: bool
    #: The flag PREFER_SIBLING is taken from the domain below; otherwise from the busiest group.
    prefer_sibling_of_child: bool
    #: Of several fully busy groups, the last one counts as the busiest. Otherwise the first one does.
    last_fully_busy: bool
    placement_masked: bool  #: The statistics of groups for fork and exec cover only the CPUs that the thread may use.
    clusters_scanned: bool  #: select_idle_cpu() scans the cluster of the target first.
    #: The feature SIS_UTIL: the more the last-level cache's CPUs are used, the fewer CPUs select_idle_cpu() examines.
    scan_limited: bool
    #: A sleeper that is still queued counts as a thread of its group in update_sg_lb_stats(), update_sg_wakeup_stats() and
    #: sched_balance_find_src_rq() (h_nr_queued; before h_nr_runnable, 6.14).
    sleepers_counted: bool = True
    #: can_migrate_task() always allows to move a sleeper that is still queued. Otherwise it allows this only to move load (6.14).
    sleepers_pulled: bool = True
    #: can_migrate_task() does not move a thread that had more than its share until one attempt has failed, unless the other queue
    #: is empty (task_is_ineligible_on_dst_cpu(), 6.13).
    ineligible_wait: bool = False
    #: set_protect_slice() stores how long a chosen thread is protected: at most for the shortest slice on its queue. A thread
    #: without protection gives way at each accounting (update_curr(), 6.17). Otherwise a thread is protected until its deadline
    #: changes, and then gives way if it is not eligible.
    slice_end_stored: bool = False
    #: What reweight_entity() keeps when the weight of a queued entity changes, one of :data:`REWEIGHTS`: the lag; the part of the
    #: lag that placing the entity anew keeps (``place``, 6.14); or the lag and the end of its protection (``average``, 7.0).
    reweight: str = "lag"
    #: Virtual times are divided exactly (__calc_delta()), and average virtual times use weights in full resolution (7.0).
    exact_averages: bool = False
    #: update_entity_lag() lets the lag of a sleeper that is still queued only shrink, entity_lag() limits lags by the longest
    #: slice on the queue, and a woken sleeper is placed anew if its lag was changed (7.0).
    sleepers_lag_kept: bool = False
    #: wakeup_preempt_fair() does not let new threads preempt, and chooses as schedule() does: a next buddy counts, and sleepers
    #: that would be chosen leave the queue (7.0).
    wakeup_picks: bool = False
    #: The estimate of a thread's use is updated when the thread leaves the queue or stays there asleep, after its averages were
    #: brought up to date (UPDATE_UTIL_EST, 7.1). Otherwise the estimate is updated before the averages.
    util_est_at_dequeue: bool = False
    #: The mean idle time is updated whenever an idle period ends (put_prev_task_idle(), 7.1). Otherwise it is updated at wakeups.
    idle_time_at_exit: bool = False
    #: The feature HRTICK: a timer of high resolution ends slices (on by default with CONFIG_HRTIMER_REARM_DEFERRED, 7.1).
    slice_timer: bool = False
    #: CONFIG_PREEMPT_LAZY, as Debian builds kernels since 6.18: a CPU whose wakeup preempts a thread on another CPU of its cache
    #: sends no interrupt. The thread gives way at its CPU's next interrupt, tick or system call (resched_curr_lazy()).
    lazy_preemption: bool = False

    @property
    def eevdf(self) -> bool:
        """Whether the fair class is EEVDF."""
        return self.structure != "CFS"


#: the rules of each release, by its version
RULES: dict[tuple[int, ...], Rules] = {
    (6, 1, 166): Rules(
        structure="CFS",
        delayed_dequeue=False,
        tg_load_avg_limited=False,
        raw_initial_util=True,
        util_est_ewma=True,
        waiting_is_use=False,
        newidle="random",
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
        structure="EEVDF",
        delayed_dequeue=True,
        tg_load_avg_limited=True,
        raw_initial_util=False,
        util_est_ewma=False,
        waiting_is_use=True,
        newidle="random",
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
# the release of the 6.18 series that is in Debian's backports
RULES[6, 18, 15] = RULES[6, 12, 107]._replace(
    placement_masked=False,
    sleepers_counted=False,
    sleepers_pulled=False,
    ineligible_wait=True,
    slice_end_stored=True,
    reweight="place",
    lazy_preemption=True,
)
# Debian's 7.2.13+deb14, of which there are recordings
RULES[7, 2, 13] = RULES[6, 18, 15]._replace(
    placement_masked=True,
    newidle="rate",
    reweight="average",
    exact_averages=True,
    sleepers_lag_kept=True,
    wakeup_picks=True,
    util_est_at_dequeue=True,
    idle_time_at_exit=True,
    slice_timer=True,
)

#: releases with cache-aware scheduling (CONFIG_SCHED_CACHE, account_mm_sched()), which the replay does not have
CACHE_AWARE = frozenset({(7, 2, 13)})

#: scheduler features that a kernel's name may switch off (``v6.12.107+NO_NI_RANDOM``): the rule that each feature changes, and
#: the rule's value without the feature
FEATURES: dict[str, tuple[str, Any]] = {
    "NI_RANDOM": ("newidle", "cost"),
    "DELAY_DEQUEUE": ("delayed_dequeue", False),
    "SIS_UTIL": ("scan_limited", False),
    "HRTICK": ("slice_timer", False),
}

#: what reweight_entity() keeps; the engine uses the place of a word in this tuple as its number
REWEIGHTS = ("lag", "place", "average")

#: the rules that decide when a CPU that runs out of tasks tries to pull one, beginning with the oldest. A kernel's name may
#: choose a rule (``v6.12.107+newidle:bump``). All rules skip a level whose greatest cost so far exceeds the mean idle time.
NEWIDLE = {
    "migration_cost": "not if the mean idle time is below sysctl_sched_migration_cost, 0.5 ms (before 5.16, c5b0a7eefc70)",
    "cost": "the greatest cost decides alone (5.16; NO_NI_RANDOM)",
    "bump": "an attempt that fails raises the greatest cost by half (6.17 and 6.12.43, 155213a2aed4; reverted by d206fbad9328)",
    "random": "at random, more often the more attempts succeed (NI_RANDOM: 6.19, 6.18.5, 6.12.y, 33cf66d88306)",
    "rate": "likewise, and more often where attempts are rare (NI_RATE: 7.0, 9fe89f022c05)",
}

#: the shortest and the longest slice that a kernel's name may set (``v6.12.107+base_slice_ns:3000000``), in ns. These are the
#: kernel's limits for the slice of a thread (__setparam_fair(), v6.12); the file base_slice_ns itself has no limits
BASE_SLICES_NS = (100_000, 100_000_000)


def without(rules: Rules, features: Iterable[str]) -> Rules:
    """Return rules with some features switched off."""
    return rules._replace(**dict(FEATURES[name] for name in features))
