"""The structs of scheduling domains, and of an attempt to balance one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.jit.structs import Struct, array, integer, pointer

if TYPE_CHECKING:
    from wastedcores.jit.structs import Pointer
    from wastedcores.simulator.engine.world.queue_structs import TaskStruct


class SchedDomain(Struct):
    """``struct sched_domain``. Every CPU has its own domains."""

    flags = integer(0)
    last_balance = integer(1)  # jiffies
    balance_interval = integer(2)  # ms
    busy_factor = integer(3)
    max_newidle_lb_cost = integer(4)
    next_decay_max_lb_cost = integer(5)
    parent: Pointer[SchedDomain] = pointer("SchedDomain", 6)
    # row of the first group; the rows of the ring are contiguous
    groups: Pointer[SchedGroup] = pointer("SchedGroup", 7)
    span_weight = integer(8)
    level = integer(9)
    child: Pointer[SchedDomain] = pointer("SchedDomain", 10)
    nr_groups = integer(11)
    span = integer(12)  # row of the CPU set
    min_interval = integer(13)
    max_interval = integer(14)
    imbalance_pct = integer(15)
    cache_nice_tries = integer(16)
    busy_idx = integer(17)
    idle_idx = integer(18)
    newidle_idx = integer(19)
    wake_idx = integer(20)
    forkexec_idx = integer(21)
    nr_balance_failed = integer(22)
    index = integer(23)  # entry of the level table
    # for a new task, groups whose loads differ by at most this value are equally loaded (v4.10); 0 before v4.10
    fork_margin = integer(24)
    # whether a new task leaves the local group only for a group whose load is lower by more than ``fork_margin`` (v4.17, SD_NUMA)
    stays_on_node = integer(25)
    lb_count = array(26, 21)  # 3 x 7 counts of load_balance() calls, by idle type and result
    newidle_call = integer(48)
    newidle_success = integer(49)
    newidle_ratio = integer(50)
    last_decay_max_lb_cost = integer(51)  # jiffies
    nohz_idle = integer(52)
    imb_numa_nr = integer(53)
    # the row that the CPUs of an LLC have in common, -1 for none
    shared: Pointer[SchedDomainShared] = pointer("SchedDomainShared", 54)
    span_cpus = integer(55)  # place of its CPUs in the lists
    newidle_stamp = integer(56)  # when the ratio was computed last, ns since boot


class SchedDomainShared(Struct):
    """``struct sched_domain_shared``: what the CPUs of a last-level cache have in common (v6.12)."""

    nr_busy_cpus = integer(0)
    has_idle_cores = integer(1)
    nr_idle_scan = integer(2)  # the number of CPUs that a wakeup may examine


class SchedGroup(Struct):
    """``struct sched_group``."""

    cpus = integer(0)  # place of its CPUs in the lists
    group_weight = integer(1)  # the number of its CPUs
    span = integer(2)  # row of the CPU set
    sgc: Pointer[SchedGroupCapacity] = pointer("SchedGroupCapacity", 3)  # row of its capacity
    balance_cpu = integer(4)  # group_balance_cpu()
    balance_cpus = integer(5)  # where the list of the CPUs in its balance mask begins
    nr_balance_cpus = integer(6)
    flags = integer(7)  # flags of the domain below (v6.12)
    cores = integer(8)  # the number of its cores


class SchedGroupCapacity(Struct):
    """``struct sched_group_capacity``."""

    capacity = integer(0)
    imbalance = integer(1)
    nr_busy_cpus = integer(2)
    next_update = integer(3)


class LbEnv(Struct):
    """``struct lb_env``: an attempt to balance."""

    sd: Pointer[SchedDomain] = pointer("SchedDomain", 0)
    dst_cpu = integer(1)
    idle = integer(2)
    src_cpu = integer(3)
    flags = integer(4)
    loop = integer(5)
    loop_max = integer(6)
    loop_break = integer(7)
    imbalance = integer(8)
    new_dst_cpu = integer(9)
    # the detached tasks, linked by TaskStruct.cfs_tasks_next
    tasks: Pointer[TaskStruct] = pointer("TaskStruct", 10)
    why = integer(11)  # codes/log_op.py
    # the group whose CPUs are dst_grpmask, -1 for none
    dst_group: Pointer[SchedGroup] = pointer("SchedGroup", 12)
    this_cpu = integer(13)  # the CPU for which load_balance() was called
    moved = integer(14)  # the number of tasks that it moved
    # for the log of decisions: the numbers of examined tasks that stayed, for four reasons: affinity and the three fields below
    held_back = array(15, 4)
    running = integer(16)  # they were running
    hot = integer(17)  # they were cache-hot
    heavy = integer(18)  # tasks whose load was more than twice the imbalance
    migration = integer(19)  # what is to move (v6.12)
    reason = integer(20)  # the comparison that found the domain balanced (codes/balanced.py, v6.12)
    # 1 + what the last calculate_imbalance() decided to move, 0 if it was not called (v6.12)
    moves = integer(21)


class SdLbStats(Struct):
    """``struct sd_lb_stats``: what find_busiest_group() found."""

    # row of the busiest group, -1 if there is none
    busiest: Pointer[SchedGroup] = pointer("SchedGroup", 0)
    imbalance = integer(1)
    total_load = integer(2)
    total_capacity = integer(3)
    avg_load = integer(4)
    prefer_sibling = integer(5)  # (v6.12)


class SgLbStats(Struct):
    """``struct sg_lb_stats`` of modern kernels: the statistics of a scheduling group."""

    group: Pointer[SchedGroup] = pointer("SchedGroup", 20)  # row of the group, -1 for none
    avg_load = integer(21)
    load = integer(22)
    util = integer(23)
    runnable = integer(24)
    capacity = integer(25)
    sum_nr = integer(26)  # rq->nr_running
    sum_h_nr = integer(27)  # fair tasks
    idle_cpus = integer(28)
    weight = integer(29)
    type = integer(30)
    smt_balance = integer(31)


class SgLbStatsV4(Struct):
    """``struct sg_lb_stats`` of v4.1. It lies in the same rows as SgLbStats, in the columns before it."""

    group_load = integer(0)
    group_usage = integer(1)
    sum_nr_running = integer(2)
    sum_weighted_load = integer(3)
    idle_cpus = integer(4)
    group_capacity = integer(5)
    avg_load = integer(6)
    load_per_task = integer(7)
    group_weight = integer(8)
    group_no_capacity = integer(9)
    group_type = integer(10)
    min_load = integer(11)
    max_load = integer(12)


class Decision(Struct):
    """The values of the present call of load_balance(), if decisions are logged."""

    # the CPU that executed the call; the idle load balancer executes calls on behalf of other CPUs
    by_cpu = integer(0)
    idle = integer(1)  # codes/idle_type.py
    designated = integer(2)  # the CPU that may balance for the local group
    # the CPU that pulled in the end; if tasks may not run on the first CPU, this is another CPU of the group
    dst_cpu = integer(3)
    busiest = integer(4)  # place of the busiest group in the ring, -1 if there is none
    imbalance = integer(5)  # load to move
    average = integer(6)  # average load of the domain
    imbalance_pct = integer(7)
    # the number of searches for a busiest group: one more after each queue that has only pinned tasks
    tries = integer(8)
    failed = integer(9)  # nr_balance_failed before the call
    interval = integer(10)  # balance_interval before the call, ms
    held_back = array(11, 4)  # number of examined tasks that did not move, by reason
    running = integer(12)
    hot = integer(13)
    heavy = integer(14)
    src_nr_running = integer(15)  # nr_running of the source before the call took anything
    nr_groups = integer(16)
    # 1: the level below prefers to spread tasks over its siblings; under v6.12, the higher bits hold two more values
    prefer_sibling = integer(17)


class DecisionGroup(Struct):
    """A scheduling group in the present call of load_balance(), if decisions are logged."""

    span = integer(0)  # row of the CPU set
    local = integer(1)
    type = integer(2)  # codes/group_type_v4_1.py
    load = integer(3)
    avg_load = integer(4)
    min_load = integer(5)  # -1 if no CPU was considered
    max_load = integer(6)
    nr_running = integer(7)
    idle_cpus = integer(8)
    capacity = integer(9)
    usage = integer(10)
    load_per_task = integer(11)
