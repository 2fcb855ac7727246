"""Where a recording was made and where its work is to run: the machines and kernels, and which of them are refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wastedcores.analysis.stated_machine import place
from wastedcores.cpulist import format_cpulist
from wastedcores.errors import NotRecoverableError, UnknownKernelError, UsageError
from wastedcores.kernels import (
    FIXES,
    Balancer,
    KernelModel,
    balancer_of,
    recorded_balancer,
    recorded_kernel,
)
from wastedcores.kernels.generations import NO_AUTOGROUP, replayed, replayed_listed
from wastedcores.prediction.one_replay import Task
from wastedcores.recovery import Recovered
from wastedcores.recovery.facts import in_task_groups
from wastedcores.topology.machine import Machine
from wastedcores.topology.source import find_machine
from wastedcores.trace.trace import Trace
from wastedcores.workload.program import Program, costs_of

#: a recording shorter than this shows too little of how its tasks wait for each other
SHORTEST_NS = 50_000_000


def variants_of(kernel: KernelModel) -> list[str]:
    """Return the kernels to compare with: this kernel with each fix that it lacks, with all these fixes, and the core."""
    if kernel.is_modern:
        changes = [] if kernel.overload_on_wakeup else ["overload_on_wakeup"]
        changes += ["NO_NI_RANDOM"] if kernel.rules.newidle == "random" else []
        return [*(KernelModel.named(f"{kernel.name}+{change}").name for change in changes), "core"]
    missing = [f"{f}:patch" for f in FIXES if not (kernel.is_design or kernel.has(f))]
    names = [KernelModel.named(f"{kernel.name}+{f}").name for f in missing]
    if len(missing) > 1:
        names.append(KernelModel.named("+".join([kernel.name, *missing])).name)
    return [*names, "core"]


def check_recoverable(trace: Trace, recovered: Recovered) -> None:
    """Refuse a trace whose work cannot be recovered."""
    start, end = recovered.window_ns
    if end - start < SHORTEST_NS:
        raise NotRecoverableError(
            f"{trace.name}: its window has {(end - start) / 1e6:.1f} ms, too little to see how tasks wait for each other; "
            f"record at least {SHORTEST_NS / 1e6:.0f} ms of the work, better a second."
        )
    if trace.header.lost_total:
        raise NotRecoverableError(
            f"{trace.name}: {trace.header.lost_total} events were lost, so some work and some wakeups are missing. Record "
            "again with larger buffers (trace-cmd record -b, perf record -m), or for a shorter time."
        )


def place_of(
    trace: Trace, machine: Machine | str | None, kernel: KernelModel | str | None
) -> tuple[Machine, KernelModel, tuple[str, ...]]:
    """Return the machine and the kernel of a recording. The kernel has no autogroups if the trace tells that they were off."""
    if isinstance(machine, str):
        machine = find_machine(machine).machine
    where = place(trace, machine, kernel)
    name = where.kernel
    if isinstance(name, KernelModel):
        return where.machine, name, where.assumed
    stand_in = recorded_balancer(name).stand_in
    model = KernelModel.named(stand_in) if stand_in else recorded_kernel(name)[0]
    header = trace.header
    # a model without autogroups has no control groups either
    off = header.autogroups is False and not in_task_groups(header.tasks, header.task_groups)
    if off and not model.noautogroup:
        model = KernelModel.named(f"{model.name}+{NO_AUTOGROUP}")
    return where.machine, model, where.assumed


def balancer_on(trace: Trace, kernel: KernelModel | str | None) -> Balancer | None:
    """Find out whether the replay may stand for the kernel of a recording; None if neither trace nor user names a release."""
    if isinstance(kernel, KernelModel):
        return balancer_of(kernel)
    name = kernel or trace.header.kernel_model or trace.header.kernel_release
    try:
        return recorded_balancer(name) if name else None
    except UnknownKernelError:
        if kernel:
            raise
        return None


def check_modelled(trace: Trace, balancer: Balancer | None, asked: str = "") -> None:
    """Refuse a kernel for which the replay may not stand."""
    if balancer is None or balancer.replayed or (balancer.stand_in and not asked):
        return
    if asked:
        raise NotRecoverableError(
            f"{trace.name}: a prediction for {asked} was asked for, but {balancer.reason}. The replay has "
            f"{replayed_listed()}, with their fixes, and designs such as core."
        )
    raise NotRecoverableError(
        f"{trace.name}: unknown: no model of this kernel's balancer. {balancer.reason[0].upper()}{balancer.reason[1:]}. So "
        "nothing is predicted. What can be said without a model (the pattern of the waste, pinned threads, cpusets and quotas) "
        f"is in `wastedcores explain`. If a kernel that the replay has is near enough, name it: --kernel {replayed()[-1]}."
    )


def task_of(
    recovered: Recovered, machine: Machine, cpus: list[int] | None, refill_ns: int = 0
) -> Task:
    """Return what the replays of a recovered workload share."""
    start, end = recovered.window_ns
    return Task(
        _online(_widened(recovered.workload.program(), recovered.cpus, machine.cpus), machine),
        machine,
        replace(costs_of(machine), refill_ns=refill_ns),
        recovered.marks,
        recovered.lead_ns,
        start,
        end,
        recovered.finite,
        None if cpus is None else tuple(cpus),
    )


def elsewhere(here: Task, machine: Machine | str | None, pin: Iterable[int] | None) -> Task:
    """Return the same work on another machine, or bound to some CPUs."""
    if machine is None and pin is None:
        return here
    on = find_machine(machine).machine if isinstance(machine, str) else machine or here.machine
    if pin is not None and not (pin := frozenset(pin)) <= set(on.online_cpus):
        raise UsageError(
            f"pin {format_cpulist(pin)}: the machine has CPUs {format_cpulist(on.online_cpus)}."
        )
    if on.cpus < here.machine.cpus:
        raise UsageError(
            f"machine {on.name!r} has {on.cpus} CPUs and the recorded one {here.machine.cpus}; tasks that are bound to a CPU "
            "would have no place. Choose a machine with at least as many."
        )
    program = _widened(here.program, here.machine.cpus, on.cpus)
    program = _online(program if pin is None else _pinned(program, frozenset(pin)), on)
    costs = replace(costs_of(on), refill_ns=here.costs.refill_ns)
    return replace(here, program=program, machine=on, costs=costs)


def _widened(program: Program, before: int, cpus: int) -> Program:
    """Return a program in which a task that could use all CPUs can use all CPUs of a larger machine."""
    all_before, every = frozenset(range(before)), frozenset(range(cpus))
    masks = tuple(every if m == all_before else m for m in program.masks)
    templates = tuple(
        replace(t, allowed=every) if t.allowed == all_before else t for t in program.templates
    )
    return replace(program, masks=masks, templates=templates)


def _online(program: Program, machine: Machine) -> Program:
    """Return a program in which every task may run on some online CPU.

    As in the kernel (select_fallback_rq()), a task whose CPUs are all offline may run anywhere. A task whose first CPU is offline
    begins on another CPU, because it slept when its CPU went offline.
    """
    online = frozenset(machine.online_cpus)

    def somewhere(cpus: frozenset[int]) -> frozenset[int]:
        return cpus if cpus & online else online

    tasks = tuple(
        t if t.start_cpu in online else replace(t, start_cpu=min(online), allowed=online)
        for t in program.tasks
    )
    templates = tuple(
        t if t.allowed is None else replace(t, allowed=somewhere(t.allowed))
        for t in program.templates
    )
    masks = tuple(map(somewhere, program.masks))
    return replace(program, tasks=tasks, templates=templates, masks=masks)


def _pinned(program: Program, cpus: frozenset[int]) -> Program:
    """Return a program in which every task that may move is bound to some CPUs."""

    def bound(m: frozenset[int]) -> frozenset[int]:
        return m & cpus if len(m) > 1 and m & cpus else m

    # a template without CPUs of its own has the CPUs of its parent
    templates = tuple(
        t if t.allowed is None else replace(t, allowed=bound(t.allowed)) for t in program.templates
    )
    return replace(program, masks=tuple(map(bound, program.masks)), templates=templates)
