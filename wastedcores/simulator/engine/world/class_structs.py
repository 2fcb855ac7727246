"""The functions that kernels and machines have of their own, as structs of addresses.

``wastedcores/simulator/engine/classes.py`` says which functions they are. A replay compiles and loads only those of its kernel.
Each struct lies in a row that has something else, too.
"""
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from wastedcores.jit.structs import Struct, method

if TYPE_CHECKING:
    from wastedcores.simulator.engine.world.kernel_structs import Kernel
    from wastedcores.simulator.engine.world.task_structs import SchedEntity, TaskStruct


class FairClass(Struct):
    """The fair class of a modern kernel (``fair_sched_class``), in the row of Modern. v4.1's functions are called directly."""

    @method(60)
    def enqueue_task(self, k: Kernel, p: TaskStruct, how: int) -> None:
        """enqueue_task_fair(); ``how`` is one of codes/arrival.py."""

    @method(61)
    def dequeue_task(self, k: Kernel, p: TaskStruct, sleep: int) -> None:
        """dequeue_task_fair()."""

    @method(62)
    def pick_next_task(self, k: Kernel, cpu: int, prev: TaskStruct) -> TaskStruct:
        """pick_next_task_fair(), with newidle balancing; NULL for none."""

    @method(63)
    def put_prev_task(self, k: Kernel, p: TaskStruct) -> None:
        """put_prev_task_fair()."""

    @method(64)
    def task_tick(self, k: Kernel, p: TaskStruct) -> None:
        """task_tick_fair()."""

    @method(65)
    def wakeup_preempt(self, k: Kernel, cpu: int, p: TaskStruct) -> None:
        """check_preempt_wakeup(), wakeup_preempt_fair() by a task that woke."""

    @method(66)
    def wakeup_preempt_new(self, k: Kernel, cpu: int, p: TaskStruct) -> None:
        """The same by a new task."""

    @method(67)
    def task_fork(self, k: Kernel, p: TaskStruct) -> None:
        """task_fork_fair()."""

    @method(68)
    def post_init_entity_util_avg(self, k: Kernel, p: TaskStruct) -> None:
        """post_init_entity_util_avg()."""

    @method(69)
    def set_user_nice(self, k: Kernel, p: TaskStruct, nice: int) -> None:
        """set_user_nice(), reweight_task(), prio_changed_fair()."""

    @method(70)
    def yield_task(self, k: Kernel, p: TaskStruct) -> None:
        """yield_task_fair()."""

    @method(71)
    def task_change_group(self, k: Kernel, p: TaskStruct, group: int) -> None:
        """task_change_group_fair()."""

    @method(72)
    def wake_delayed(self, k: Kernel, p: TaskStruct) -> None:
        """ttwu_runnable() of a task that is asleep and still queued; CFS has no such tasks."""

    @method(73)
    def migrate_task_rq(self, k: Kernel, p: TaskStruct) -> None:
        """migrate_task_rq_fair()."""

    @method(74)
    def pick_task(self, k: Kernel, cpu: int) -> TaskStruct:
        """Choose a task of a CPU that goes offline."""

    @method(75)
    def set_picked(self, k: Kernel, p: TaskStruct, prev: TaskStruct) -> None:
        """Put back the task that ran, and set the one that was chosen."""

    @method(76)
    def rq_offline(self, k: Kernel, cpu: int) -> None:
        """rq_offline_fair()."""

    @method(77)
    def task_dead(self, k: Kernel, p: TaskStruct) -> None:
        """task_dead_fair()."""

    @method(78)
    def online_sched_group(self, k: Kernel, se: SchedEntity) -> None:
        """online_fair_sched_group() for one CPU."""


class Balancer(Struct):
    """Placement and balancing of a modern kernel, in the row of Modern."""

    @method(40)
    def booted(self, k: Kernel) -> None:
        """Let the LLCs know what balancing of the idle machine has found out since boot."""

    @method(41)
    def attached(self, k: Kernel, now: int) -> None:
        """Let the domains that every CPU got just now begin; ``now`` is the jiffy of their last balancing."""

    @method(42)
    def select_task_rq(self, k: Kernel, p: TaskStruct, flag: int, sync: int) -> int:
        """select_task_rq_fair()."""

    @method(43)
    def newidle_balance(self, k: Kernel, cpu: int) -> int:
        """newidle_balance(): return whether tasks came."""

    @method(44)
    def trigger_load_balance(self, k: Kernel, cpu: int) -> None:
        """trigger_load_balance(), sched_balance_trigger(), at a tick."""

    @method(45)
    def run_rebalance_domains(self, k: Kernel, cpu: int) -> None:
        """run_rebalance_domains(), sched_balance_softirq()."""

    @method(46)
    def kick_arrives(self, k: Kernel, cpu: int) -> None:
        """nohz_csd_func()."""

    @method(47)
    def active_load_balance(self, k: Kernel, cpu: int) -> None:
        """active_load_balance_cpu_stop(), in the stopper's thread."""

    @method(48)
    def enters_idle(self, k: Kernel, cpu: int) -> None:
        """do_idle(): update averages of idle CPUs, and stop the tick."""

    @method(49)
    def update_idle_core(self, k: Kernel, cpu: int) -> None:
        """update_idle_core()."""

    @method(50)
    def nohz_balance_enter_idle(self, k: Kernel, cpu: int) -> None:
        """nohz_balance_enter_idle()."""

    @method(51)
    def idle_cpu_woken(self, k: Kernel, cpu: int) -> None:
        """Update avg_idle of a CPU that a wakeup ends the idling of."""

    @method(52)
    def leaves(self, k: Kernel, cpu: int) -> None:
        """Drop the kicks of a CPU that goes offline."""


class RtClass(Struct):
    """The real-time class (``rt_sched_class``), in the row of RtShared. Only programs with policies have it."""

    @method(10)
    def enqueue_task(self, k: Kernel, p: TaskStruct, head: int) -> None:
        """enqueue_task_rt()."""

    @method(11)
    def dequeue_task(self, k: Kernel, p: TaskStruct) -> None:
        """dequeue_task_rt()."""

    @method(12)
    def pick_next_task(self, k: Kernel, cpu: int, prev: TaskStruct, before: int) -> TaskStruct:
        """pick_next_task_rt(), NULL for none; ``before`` is the priority of what ran."""

    @method(13)
    def put_prev_task(self, k: Kernel, cpu: int, p: TaskStruct) -> None:
        """put_prev_task_rt()."""

    @method(14)
    def task_tick(self, k: Kernel, cpu: int, p: TaskStruct) -> None:
        """task_tick_rt()."""

    @method(15)
    def select_task_rq(self, k: Kernel, p: TaskStruct, flag: int) -> int:
        """select_task_rq_rt()."""

    @method(16)
    def check_preempt_curr(self, k: Kernel, cpu: int, p: TaskStruct) -> None:
        """check_preempt_curr_rt()."""

    @method(17)
    def task_woken(self, k: Kernel, cpu: int, p: TaskStruct) -> None:
        """task_woken_rt()."""

    @method(18)
    def yield_task(self, k: Kernel, cpu: int, p: TaskStruct) -> None:
        """yield_task_rt()."""

    @method(19)
    def post_schedule(self, k: Kernel, cpu: int) -> None:
        """post_schedule_rt()."""

    @method(20)
    def period_timer(self, k: Kernel) -> None:
        """sched_rt_period_timer()."""

    @method(21)
    def set_policy(self, k: Kernel, p: TaskStruct, policy: int, priority: int) -> None:
        """sched_setscheduler()."""

    @method(22)
    def task_born(self, k: Kernel, p: TaskStruct) -> None:
        """Give a new task its quantum."""

    @method(23)
    def rq_offline(self, k: Kernel, cpu: int) -> TaskStruct:
        """rq_offline_rt(): let the tasks of a CPU run, so that they can be moved; return the most urgent one or NULL."""


class CoreModule(Struct):
    """What a design decides instead of Linux (docs/design-mode.md), in the row of Design."""

    @method(100)
    def select_cpu(self, k: Kernel, p: TaskStruct, flag: int, sync: int) -> int:
        """Choose a CPU for a thread that becomes runnable."""

    @method(101)
    def pull(self, k: Kernel, cpu: int) -> int:
        """Return whether a CPU that ran out of work got some."""

    @method(102)
    def task_tick(self, k: Kernel, cpu: int) -> None:
        """Decide at a tick."""

    @method(103)
    def settle(self, k: Kernel) -> None:
        """Hand over, after an event, every thread that waits although a CPU is free for it."""


class ClockFunctions(Struct):
    """What follows the speeds of CPUs, in the row of ClockConstants. Only machines with clocks have it."""

    @method(120)
    def switched(self, k: Kernel, cpu: int) -> int:
        """A CPU switched between two tasks or between a task and idle; return the exit latency of the idle state that it left."""

    @method(121)
    def ticked(self, k: Kernel, cpu: int) -> None:
        """A busy CPU ticks."""
