"""The speeds of the CPUs: frequencies, shared cores and idle states (docs/replay-semantics.md, section 12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wastedcores.simulator.reference.programs import FOREVER
from wastedcores.topology.clocks import UNIT

if TYPE_CHECKING:
    from wastedcores.simulator.reference.kernel import Kernel
    from wastedcores.simulator.reference.state import Rq


@dataclass(eq=False, repr=False)
class CoreClock:
    """The clock of one core, which its CPUs share."""

    cpus: list[int]
    package: int
    khz: int
    #: busy ticks counted, and the jiffy of the last one
    busy_ticks: int = 0
    last_tick: int = -1
    #: how many of its CPUs run a task, and since when none does
    running: int = 0
    idle_since: int = 0


class Clocks:
    """The clocks of a machine whose CPUs do not all run at one constant speed.

    Parameters
    ----------
    k
        The kernel; its machine says which frequencies and idle states there are.
    """

    def __init__(self, k: Kernel) -> None:
        m = k.machine
        self.k, self.frequency, self.idle_states = k, m.frequency, m.idle_states
        self.shared_speed = round(m.smt_speed * UNIT)
        lowest = 0 if self.frequency is None else self.frequency.min_khz
        cores: dict[int, CoreClock] = {}
        for cpu in range(m.cpus):
            core = cores.setdefault(
                int(m.core_of_cpu[cpu]), CoreClock([], int(m.package_of_cpu[cpu]), lowest)
            )
            core.cpus.append(cpu)
        self.core_of = [cores[int(m.core_of_cpu[cpu])] for cpu in range(m.cpus)]
        #: active cores of each package
        self.active = dict.fromkeys(m.package_of_cpu.tolist(), 0)
        self.busy = [False] * m.cpus
        self.idle_since = [0] * m.cpus
        self.speed = [UNIT] * m.cpus
        for core in cores.values():
            self._update_speeds(core)

    def needed_ns(self, cpu: int, work: int) -> int:
        """Return the time that a CPU needs at its present speed for some work, in ns."""
        return -(-work * UNIT // self.speed[cpu])

    def done(self, cpu: int, elapsed_ns: int) -> int:
        """Return the work that a CPU does at its present speed in some time."""
        return elapsed_ns * self.speed[cpu] // UNIT

    def khz(self, cpu: int) -> int:
        """Return the frequency at which a CPU would begin to run a task now, in kHz."""
        core = self.core_of[cpu]
        return self._lowest_khz() if self._has_cooled_down(core) else core.khz

    def switched(self, rq: Rq) -> int:
        """Follow a switch between a task and the idle task; return the exit latency of the idle state that was left, in ns."""
        cpu, busy = rq.cpu, rq.curr is not rq.idle_task
        if busy == self.busy[cpu]:
            return 0
        self.busy[cpu] = busy
        core, exit_ns = self.core_of[cpu], 0
        if busy:
            idle_ns = self.k.now_ns - self.idle_since[cpu]
            exit_ns = max(
                (s.exit_ns for s in self.idle_states if s.residency_ns <= idle_ns), default=0
            )
            if self._has_cooled_down(core):
                core.busy_ticks = 0
                self._set_khz(core, cpu, self._lowest_khz())
            self.active[core.package] += core.running == 0
            core.running += 1
        else:
            self.idle_since[cpu] = self.k.now_ns
            core.running -= 1
            if core.running == 0:
                core.idle_since = self.k.now_ns
                self.active[core.package] -= 1
        self._update_speeds(core)
        return exit_ns

    def tick(self, rq: Rq) -> None:
        """Let the core of a busy CPU that ticks choose its frequency, and log the tick."""
        if self.frequency is None:
            return
        core = self.core_of[rq.cpu]
        if core.last_tick != self.k.jiffies:
            core.last_tick = self.k.jiffies
            core.busy_ticks += 1
        warm = core.busy_ticks >= self.frequency.ramp_ticks
        limit = self.frequency.limit_khz(self.active[core.package])
        self._set_khz(core, rq.cpu, limit if warm else self.frequency.min_khz)
        self._update_speeds(core)
        self.k.emit("tick", cpu=rq.cpu, pid=rq.curr.pid, value=core.khz)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _lowest_khz(self) -> int:
        return 0 if self.frequency is None else self.frequency.min_khz

    def _has_cooled_down(self, core: CoreClock) -> bool:
        """Tell whether a core has been idle for so long that it has fallen back to its lowest frequency."""
        if self.frequency is None or core.running:
            return False
        return self.k.now_ns - core.idle_since >= self.frequency.hold_ticks * self.k.tick_ns

    def _set_khz(self, core: CoreClock, cpu: int, khz: int) -> None:
        if khz != core.khz:
            core.khz = khz
            self.k.emit("frequency", cpu=cpu, value=khz)

    def _update_speeds(self, core: CoreClock) -> None:
        """Let each CPU of a core continue at the speed that it has now."""
        speed = UNIT if self.frequency is None else core.khz * UNIT // self.frequency.nominal_khz
        if core.running > 1:
            speed = max(speed * self.shared_speed // UNIT, 1)
        for cpu in core.cpus:
            if speed != self.speed[cpu]:
                self._rescale(cpu, speed)

    def _rescale(self, cpu: int, speed: int) -> None:
        """Change the speed of a CPU: what its task did so far was done at the old speed."""
        run: Any = self.k.rqs[cpu].curr.progress
        running = run is not None and run.since is not None and run.left != FOREVER
        elapsed = self.k.now_ns - run.since if running else 0
        if elapsed > 0:
            run.left = max(run.left - self.done(cpu, elapsed), 1)
            run.since = self.k.now_ns
        self.speed[cpu] = speed
        if running:
            self.k.push(run.since + self.needed_ns(cpu, run.left), "RUN", cpu)
