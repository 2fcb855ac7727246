"""The event loop: it handles events in order of time and runs the programs of the tasks in between."""

from __future__ import annotations

from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.simulator.generations import check_generation
from wastedcores.simulator.realtime import check_policies
from wastedcores.simulator.reference import (
    classes,
    operations,
    pelt_v6_12,
    realtime,
    schedule,
    tasks_v6_12,
    waiting,
)
from wastedcores.simulator.reference.kernel import EPOCH_NS, Kernel
from wastedcores.simulator.reference.load import update_cpu_load, weighted_cpuload
from wastedcores.simulator.reference.preemption import enter_kernel
from wastedcores.simulator.reference.programs import (
    FOREVER,
    Barrier,
    Lock,
    Progress,
    Random,
    Semaphore,
)
from wastedcores.simulator.reference.state import Rq, Task, TaskGroup
from wastedcores.workload import ops
from wastedcores.workload.program import Program, TaskSpec

#: a program that executes this many operations without time passing counts as stuck
ZERO_TIME_OPS = 100_000


class Simulation:
    """One run of a program on a kernel; :meth:`run` executes it.

    Parameters
    ----------
    k
        A fresh kernel.
    program
        The tasks to run.
    seed
        Seed of all random numbers.

    Raises
    ------
    UnknownKernelError, WorkloadError
        The kernel is not modelled, or too little of it for this program.
    """

    def __init__(self, k: Kernel, program: Program, seed: int) -> None:
        check_generation(k.model)
        check_policies(program, k.model)
        self.k, self.program, self.seed = k, program, seed
        self.tasks: list[Task] = []
        self.barriers = [Barrier(n) for n in program.barriers]
        self.locks = [Lock() for _ in range(program.locks)]
        self.semaphores = [Semaphore(v) for v in program.semaphores]
        for i, shares in enumerate(program.shares[1:], 1):
            k.add_group(f"autogroup-{i}", shares)
        k.on_switch = self._switched
        self.start_ns = EPOCH_NS
        self._zero_time = 0
        self._hotplug_done = 0
        self._starts_open = len(program.tasks)
        self._everyone = frozenset(range(k.machine.cpus))
        self._initial_state()

    # --- start --------------------------------------------------------------------------------------------------------

    def _initial_state(self) -> None:
        """Build the state in which a replay begins (docs/replay-semantics.md, section 7)."""
        k = self.k
        k.attach_domains(k.trees[0], 0)
        k.base_slice_ns = k.model.base_slice_ns or k.base_slice_ns
        for rq in k.rqs:
            for sd in rq.sd:
                # each CPU has balanced since boot; the CPU that built the groups knew only some of their capacities
                k.update_group_capacity(sd, rq.cpu)
                sd.groups[0].sgc.next_update = 0
        rng = Random(self.seed, -1)
        for rq in k.rqs:
            rq.idle_stamp = 1 + rng.draw() % (EPOCH_NS - 1)
            rq.tick_stopped = True
            k.nohz.nohz_balance_enter_idle(k, rq)
        if k.model.is_modern:
            self._initial_state_v6_12()
        if self.program.random_phase:
            self.start_ns += rng.draw() % k.tick_ns
        for spec in self.program.tasks:
            task = self._new_task(spec, None, k.groups[spec.group], spec.nice, spec.allowed)
            task.cpu = spec.start_cpu
            k.push(self.start_ns + spec.start_ns, "START", task)
        for step, (time_ns, _, _) in enumerate(self.program.hotplug):
            k.push(self.start_ns + time_ns, "HOTPLUG", step)

    def _initial_state_v6_12(self) -> None:
        """Let the LLCs know what balancing of the idle machine has found out since boot, and seed newidle balancing.

        A new group's entities count in the root queues from the beginning (online_fair_sched_group(), v6.12.107).
        """
        k = self.k
        for tg in k.groups[1:]:
            for se in tg.se:
                assert se is not None
                pelt_v6_12.attach_task(k.now_ns, se)
        k.newidle_rng = [Random(self.seed, -2 - rq.cpu) for rq in k.rqs]
        for rq in k.rqs:
            for sd in rq.sd:
                if sd.shared is not None:
                    sd.shared.nr_idle_scan = len(sd.span)
                    sd.shared.has_idle_cores = k.caches.smt_active

    def _new_task(
        self,
        spec: TaskSpec,
        parent: Task | None,
        tg: TaskGroup,
        nice: int,
        allowed: frozenset[int] | None,
    ) -> Task:
        number = len(self.tasks)
        pid = number + 1 + self.k.machine.cpus
        p = Task(pid, spec.comm, tg, self._everyone if allowed is None else allowed, nice)
        p.progress = Progress(spec, Random(self.seed, number), parent, spec.daemon)
        if parent is not None:
            classes.sched_fork(self.k, p, parent)
        else:
            p.time_slice = realtime.rr_timeslice(self.k)
        self.tasks.append(p)
        return p

    # --- the loop -----------------------------------------------------------------------------------------------------

    def run(self, until_ns: int) -> None:
        """Replay until every task that is not a daemon has exited, or until ``until_ns`` ns have passed.

        Raises
        ------
        WorkloadError
            A task may run on no online CPU, all tasks wait for each other, a loop takes no time, or a task releases a
            lock that it does not hold.
        """
        k = self.k
        while not self._finished():
            event = k.pop()
            if event is None:
                self._check_deadlock()
                return
            time_ns, kind, subject = event
            if time_ns > self.start_ns + until_ns:
                return
            if time_ns != k.now_ns:
                self._zero_time = 0
            k.now_ns = time_ns
            k.cpu = self._cpu_of(kind, subject)
            getattr(self, f"_on_{kind.lower()}")(subject)
            self._after(kind)
            if k.core:
                k.core.settle(k)
                self._after(kind)

    def _after(self, kind: str) -> None:
        """Let the CPU whose event was handled reschedule if it has to."""
        k, rq = self.k, self.k.rqs[self.k.cpu]
        enter_kernel(rq)
        if kind == "TICK" and k.costs.irq_ns:
            if rq.need_resched:
                # schedule() runs when the interrupt returns: its clock is later than the tick's
                k.push(k.now_ns + k.costs.irq_ns, "RESCHED", rq.cpu)
        else:
            self._reschedule(rq)

    def _cpu_of(self, kind: str, subject: Any) -> int:
        """Return the CPU on which an event is handled."""
        if kind in ("TIMER", "START"):
            # a timer fires on the CPU that armed it; the balancer may have moved the sleeper
            cpu = subject.cpu if kind == "START" else subject.progress.waits_for[1]
            return cpu if cpu in self.k.active else self.k.fallback_cpu(subject)
        if kind == "PERIOD":
            cpu = self.k.rt_period_cpu
            return cpu if cpu in self.k.active else min(self.k.active)
        return self.program.hotplug[subject][1] if kind == "HOTPLUG" else int(subject)

    def _finished(self) -> bool:
        return all(t.state == "X" for t in self.tasks if not t.progress.daemon)

    def _reschedule(self, rq: Rq) -> None:
        """Call schedule(), except in a section without preemption; the softirq of an idle balancer comes first."""
        while rq.need_resched and rq.ilb_next is None and not self._in_section(rq.curr):
            schedule.schedule(self.k, rq)

    @staticmethod
    def _in_section(task: Task) -> bool:
        """Tell whether the task is waking others, during which it is not preempted."""
        return task.progress is not None and bool(task.progress.wake_queue)

    def is_running(self, p: Task) -> bool:
        """Tell whether ``p`` is on a CPU at this moment."""
        return self.k.rqs[p.cpu].curr is p

    # --- events -------------------------------------------------------------------------------------------------------

    def _on_start(self, p: Task) -> None:
        self._starts_open -= 1
        schedule.wake_up_new_task(self.k, p, self.k.cpu, 0)

    def _on_timer(self, p: Task) -> None:
        rq = self.k.rqs[self.k.cpu]
        if p.progress.waits_for[0] == "wheel" and rq.tick_stopped:
            # a timer of the wheel brings a whole tick with it: tick_sched_timer(), v4.1
            rq.tick_stopped = False
            self._tick(rq)
        p.progress.waits_for = None
        self.k.in_interrupt = True
        schedule.try_to_wake_up(self.k, p, self.k.cpu, sync=False)
        self.k.in_interrupt = False

    def _on_resched(self, cpu: int) -> None:
        """Handle a rescheduling IPI: the loop calls schedule() afterwards."""

    def _on_ttwu(self, cpu: int) -> None:
        schedule.sched_ttwu_pending(self.k, self.k.rqs[cpu])

    def _on_period(self, _: int) -> None:
        realtime.sched_rt_period_timer(self.k)

    def _on_kick(self, cpu: int) -> None:
        self.k.nohz.kick_arrives(self.k, self.k.rqs[cpu])

    def _on_softirq(self, cpu: int) -> None:
        self.k.nohz.run_rebalance_domains(self.k, self.k.rqs[cpu])

    def _on_stop(self, cpu: int) -> None:
        k, rq = self.k, self.k.rqs[cpu]
        if self._in_section(rq.curr):
            k.push(k.now_ns + max(k.costs.wake_ns, 1), "STOP", cpu)
        else:
            schedule.active_balance(k, rq)

    def _on_hrtick(self, cpu: int) -> None:
        """End the slice of the running task (hrtick(), core.c, and entity_tick(), v7.2.13)."""
        k, rq = self.k, self.k.rqs[cpu]
        rq.clock_ns = k.now_ns
        if rq.curr is not rq.idle_task and not rq.curr.rt_priority:
            k.fair.task_tick(k, rq, rq.curr)
            k.log_weight(rq)
            k.resched(rq)

    def _on_tick(self, cpu: int) -> None:
        self._check_deadlock()
        self._tick(self.k.rqs[cpu])

    def _tick(self, rq: Rq) -> None:
        """Charge the running task, update the load averages and start balancing (scheduler_tick(), v4.1)."""
        k = self.k
        k.push(k.now_ns + k.tick_ns, "TICK", rq.cpu)
        rq.clock_ns = k.now_ns
        enter_kernel(rq)
        if rq.curr is not rq.idle_task:
            (realtime if rq.curr.rt_priority else k.fair).task_tick(k, rq, rq.curr)
            k.log_weight(rq)
        rq.last_load_update_tick = k.jiffies
        update_cpu_load(rq, weighted_cpuload(rq), 1)
        if k.clocks and rq.curr is not rq.idle_task:
            k.clocks.tick(rq)
        if k.core is None:
            k.nohz.scheduler_tick_balance(k, rq)
        elif rq.curr is not rq.idle_task:
            k.core.tick(k, rq)
        if rq.curr is rq.idle_task:
            schedule.stop_tick(k, rq)

    def _on_run(self, cpu: int) -> None:
        p = self.k.rqs[cpu].curr
        run = p.progress
        run.left = 0
        if run.spinning:
            run.spinning = False
            self.block(p)
        else:
            if run.wake_queue:
                schedule.queue_woken(self.k, run.wake_queue.pop(0), cpu)
            self._go_on(p, 0)

    def _on_hotplug(self, step: int) -> None:
        """Take a CPU offline or online (docs/scheduler-model.md, section 4.1; docs/replay-semantics.md, section 8)."""
        k = self.k
        _, cpu, online = self.program.hotplug[step]
        rq = k.rqs[cpu]
        self._hotplug_done += 1
        rq.online = online
        (k.active.add if online else k.active.discard)(cpu)
        if k.model.is_modern and not online:
            tasks_v6_12.leave_groups(k, rq)
        # the domains change at CPU_DOWN_PREPARE and CPU_ONLINE: from then on a leaving CPU pulls nothing
        k.attach_domains(k.trees[self._hotplug_done], k.jiffies)
        k.overload = False
        if online:
            if rq.tick_stopped:
                k.nohz.nohz_balance_enter_idle(k, rq)
        else:
            schedule.sched_ttwu_pending(k, rq)
            realtime.rq_offline(k, rq)
            if rq.nr_running:
                schedule.run_stopper(k, rq, lambda: self._empty(rq))
            k.cancel("TICK", cpu)
            rq.tick_stopped = True
            k.cancel("KICK", cpu)
            k.cancel("SOFTIRQ", cpu)
            k.cancel("HRTICK", cpu)
            rq.nohz_balance_kick = False
            rq.ilb_next = None
            rq.nohz_flags = rq.nohz_idle_balance = 0
            k.nohz_idle_cpus.discard(cpu)

    def _empty(self, rq: Rq) -> None:
        """Move every task of a dying CPU elsewhere (migrate_tasks(), v4.1)."""
        if self.k.model.is_modern:
            tasks_v6_12.push_all(self.k, rq)
            return
        while rq.rt.queue or rq.cfs_tasks:
            p = (rq.rt.queue or rq.cfs_tasks)[0]
            schedule.move_task(self.k, p, self.k.fallback_cpu(p), "hotplug")

    # --- running a task -----------------------------------------------------------------------------------------------

    def start_stretch(self, p: Task, extra: int) -> None:
        """Let ``p`` do the work that it has left, beginning ``extra`` ns from now."""
        k, run = self.k, p.progress
        run.since = k.now_ns + extra
        if run.left == FOREVER:
            k.cancel("RUN", p.cpu)
        else:
            length = k.clocks.needed_ns(p.cpu, run.left) if k.clocks else run.left
            k.push(run.since + length, "RUN", p.cpu)

    def _switched(self, rq: Rq, prev: Task, task: Task) -> None:
        """Follow a context switch: ``prev`` keeps the work that it has left, and ``task`` continues."""
        clocks = self.k.clocks
        if prev is not task:
            run = prev.progress
            if run is not None and run.since is not None:
                if run.left != FOREVER:
                    ran = max(self.k.now_ns - run.since, 0)
                    ran = clocks.done(rq.cpu, ran) if clocks else ran
                    run.left -= min(ran, run.left)
                run.since = None
            exit_ns = clocks.switched(rq) if clocks and task is not self.k.stoppers[rq.cpu] else 0
            if task.progress is None:
                self.k.cancel("RUN", rq.cpu)
                return
            waiting.spinner_switched_in(self, task)
            newidle_ns = max(rq.newidle_until_ns - self.k.now_ns, 0)
            delay = self.k.costs.switch_ns + exit_ns + newidle_ns + self._refill(rq, task)
            self._go_on(task, delay)
        elif task.progress is not None and task.progress.left == 0:
            self._go_on(task, 0)

    def _refill(self, rq: Rq, task: Task) -> int:
        """Return what a task pays that runs behind another last-level cache than before, in ns (docs/replay-semantics.md)."""
        before, task.progress.ran_llc = task.progress.ran_llc, self.k.llc_id[rq.cpu]
        moved = before not in (-1, task.progress.ran_llc)
        return self.k.costs.refill_ns if moved else 0

    def _go_on(self, p: Task, extra: int) -> None:
        """Execute rows of the program until one takes time or the task leaves its CPU."""
        run = p.progress
        rq = self.k.rqs[p.cpu]
        if run.started is None:
            run.started = self.k.now_ns
        while rq.curr is p and p.state == "R" and not run.left:
            if run.wake_queue:
                self._wake_some(p)
                continue
            self._zero_time += 1
            if self._zero_time > ZERO_TIME_OPS:
                raise WorkloadError(
                    f"task {p.comm!r} (pid {p.pid}): program loops without time at "
                    f"{(self.k.now_ns - EPOCH_NS) / 1e9:.6f} s; give its loop something to compute or to wait for."
                )
            row = run.spec.rows[run.pc]
            moves_on = operations.HANDLERS[row[0]](self, p, row)
            if moves_on is None:
                return
            run.pc += moves_on
            if rq.need_resched and row[0] == ops.OP_YIELD:
                return
        if rq.curr is p and p.state == "R" and run.left:
            self.start_stretch(p, extra)

    def _wake_some(self, p: Task) -> None:
        """Wake the next task of the wake queue: choose its CPU now; it reaches the runqueue ``wake_ns`` later."""
        run = p.progress
        op = run.spec.rows[run.pc - 1]
        sync = op[0] == ops.OP_POST and op[3] != 0  # WF_SYNC of pipe_write(), fs/pipe.c
        if self.k.costs.wake_ns:
            schedule.choose_cpu(self.k, run.wake_queue[0], p.cpu, sync)
            run.left = self.k.costs.wake_ns
        else:
            schedule.try_to_wake_up(self.k, run.wake_queue.pop(0), p.cpu, sync)

    def block(self, p: Task) -> None:
        """Put ``p`` to sleep; its CPU schedules at once."""
        p.state = "S"
        self.k.rqs[p.cpu].need_resched = True

    # --- endings ------------------------------------------------------------------------------------------------------

    def _check_deadlock(self) -> None:
        """Raise an error if every task waits for another one and no event can end a wait."""
        if self._starts_open or self._hotplug_done < len(self.program.hotplug):
            return
        stuck = None
        for t in self.tasks:
            run = t.progress
            if t.state == "X":
                continue
            if run.wake_queue or t.state == "waking" or (t.state == "S" and run.waits_for is None):
                return
            if t.state == "S" and run.waits_for[0] in ("timer", "wheel"):
                return
            if t.state == "R" and not run.spinning:
                return
            if run.spinning and run.left != FOREVER:
                return
            if not run.daemon and stuck is None:
                stuck = t
        if stuck is not None:
            what, number = stuck.progress.waits_for
            raise WorkloadError(
                f"deadlock at {(self.k.now_ns - EPOCH_NS) / 1e9:.6f} s: task {stuck.comm!r} (pid {stuck.pid}) waits "
                f"for {what} {number} and no task is left that could end a wait; check who should signal it."
            )
