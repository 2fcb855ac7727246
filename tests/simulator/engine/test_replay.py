"""replay() and simulate(): facts of Linux v4.1 as they show in a replay, determinism, bad input."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from wastedcores.analysis.explain import explain
from wastedcores.errors import UnknownKernelError, UsageError, WorkloadError
from wastedcores.invariant import check
from wastedcores.kernels import KernelModel
from wastedcores.simulator import log_column, log_kind, replay, replay_scenario, simulate
from wastedcores.simulator.engine.world.structs import CfsRq, Kernel, SchedEntity, TaskStruct
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import grid
from wastedcores.trace.schema import check_required
from wastedcores.workload import Costs, Script, Workload
from wastedcores.workload.scenarios import SCENARIOS, scenario

MS = 1_000_000
V41 = KernelModel.named("v4.1")


def busy(n: int, cpu: int = 0, ms: int = 400) -> Workload:
    """Return ``n`` tasks in one session that compete for one CPU."""
    w = Workload("busy", random_phase=False)
    group = w.session()
    for i in range(n):
        w.task(f"t{i}", Script().compute(ms * MS), session=group, allowed=[cpu], cpu=cpu)
    return w


def quanta(machine: str, tasks: int, costs: Costs) -> list[int]:
    raw = simulate(busy(tasks).program(), Machine.preset(machine), V41, costs=costs)
    switches = raw.of(log_kind.SWITCH)
    times = switches[switches[:, log_column.CPU] == 0, log_column.TS]
    return np.diff(times[2:12]).tolist()


@pytest.mark.parametrize(("tasks", "ms"), [(2, 12), (3, 8), (6, 4)])
def test_quantum_is_whole_ticks(tasks, ms):
    # slices of 12, 8 and 4 ms (latency 24 ms from 8 CPUs on) are checked only every 4 ms, and schedule() runs at the tick
    at_once = Costs(irq_ns=0, skew_ns=0, switch_ns=0)
    got = quanta("bulldozer8x8", tasks, at_once)
    assert min(got) >= ms * MS, got
    assert set(got) <= {ms * MS, (ms + 4) * MS}


def test_quantum_of_two_is_16_ms_when_schedule_is_later_than_the_tick():
    # as recorded: schedule() runs some us after the tick, so 12 ms are not yet over at the third tick
    got = quanta("bulldozer8x8", 2, Costs(irq_ns=4_000))
    assert {round(q / MS) for q in got[2:]} == {16}


def test_a_wake_up_looks_before_the_one_just_woken_has_arrived():
    # With the overload_on_wakeup patch CPU 4 counts as idle while the IPI for q is under way. So p, whose CPU is busy, is
    # sent there, too. It is enqueued wake_ns later, when q already runs.
    w = Workload("two wake-ups", random_phase=False)
    meet = w.barrier(3)
    for cpu in (1, 2, 3, 6, 7):
        w.task(f"hog/{cpu}", Script().compute(20 * MS), allowed=[cpu], cpu=cpu)
    w.task("noise", Script().compute(10 * MS), allowed=[5], cpu=5, start_ns=3 * MS)
    for name, cpu, ms in (("q", 4, 1), ("p", 5, 2)):
        w.task(name, Script().compute(ms * MS).barrier(meet, "block").compute(MS), cpu=cpu)
    w.task("waker", Script().compute(5 * MS).barrier(meet, "block"), allowed=[0], cpu=0)
    costs = Costs(wake_ns=800, ipi_ns=700, switch_ns=0)
    machine = grid("two nodes", packages=2, cores_per_llc=4)
    r = replay(w, machine, "v4.1+overload_on_wakeup:patch", costs=costs)
    woken = r.trace.only("wakeup").collect().filter(pl.col("comm").is_in(["p", "q"]))
    assert woken.select("ts_ns", "cpu", "comm").rows() == [
        (5_001_500, 4, "q"),
        (5_002_300, 4, "p"),
    ]


@pytest.mark.parametrize(("tasks", "contribution"), [(2, 511), (8, 127), (60, 17)])
def test_group_contribution_to_a_cpu(tasks, contribution):
    # docs/scheduler-model.md, section 2.5: threads of one autogroup share its 1024 shares
    w = Workload("spread", random_phase=False)
    group = w.session()
    for i in range(tasks):
        w.task(f"t{i}", Script().compute(2_000 * MS), session=group, allowed=[i], cpu=i)
    m = Machine.preset("bulldozer8x8")
    raw = simulate(w.program(), m, V41, until_ns=1_900 * MS)
    row = int(raw.masks[0, Kernel.entity0]) + group * m.cpus
    assert raw.masks[row, SchedEntity.load_avg_contrib] == contribution


def test_same_seed_same_bytes_and_another_seed_differs():
    m = Machine.preset("bd-paper-16")
    w = scenario("recorded-gi").workload(m, 3, {"jobs": 60})
    a, b = (simulate(w.program(), m, V41, seed=3).log for _ in range(2))
    assert a.tobytes() == b.tobytes()
    assert simulate(w.program(), m, V41, seed=4).log.tobytes() != a.tobytes()


@pytest.mark.parametrize("fixes", ["", "+all_fixes:patch"])
def test_every_task_is_on_one_runqueue_and_work_is_conserved(fixes):
    m = Machine.preset("bd-paper-16")
    w = scenario("recorded-gi").workload(m, 1, {"jobs": 80})
    raw = simulate(w.program(), m, KernelModel.named("v4.1" + fixes), costs=Costs(switch_ns=0))
    assert (np.diff(raw.log[:, log_column.TS]) >= 0).all()
    running: dict[int, int] = {}
    ran: dict[int, int] = {}
    since: dict[int, int] = {}
    for ts, _, cpu, pid, prev, *_ in raw.of(log_kind.SWITCH).tolist():
        assert running.get(cpu, 0) == prev, "a CPU switches away from what it ran"
        if prev > m.cpus:
            ran[prev] = ran.get(prev, 0) + ts - since[prev]
        assert pid == 0 or pid not in running.values(), "a task runs on one CPU at a time"
        running[cpu] = pid
        since[pid] = ts
    # every compiler used exactly the time its program drew: 20 to 60 ms and the 60 us of its exit
    named = zip(raw.pids.tolist(), raw.comms(w.program()), strict=True)
    times = [ran[pid] for pid, comm in named if comm == "cc1"]
    assert len(times) == 80
    assert 20 * MS + 60_000 <= min(times) <= max(times) <= 60 * MS + 60_000


def test_room_for_tasks_grows():
    # one template is forked more often than the table has rows at first
    w = Workload("many")
    child = w.template("child", Script().compute(10_000))
    w.task("parent", Script().loop(1500).compute(5_000).fork(child).end().wait_children())
    r = replay(w, "bd-paper-16", "v4.1")
    assert r.tasks.height == 1501
    assert r.tasks["completed_ns"].null_count() == 0


def test_trace_is_in_the_trace_model():
    r = replay_scenario("missing-domains", given={"limit_s": 0.05})
    frame = r.trace.events.collect()
    check_required(frame, "replay")
    assert {"fork", "exit", "switch", "considered", "nr_running", "load"} <= set(r.trace.kinds())
    assert r.to_json()["schema"] == "wastedcores.replay/1"


def test_a_replay_begins_after_the_steps_of_its_machine_and_its_trace_has_all_of_them():
    less = Machine.preset("bd-paper-16").offline(5)
    used = replay_scenario("hackbench", machine=less, given={"groups": 1}).trace
    assert 5 not in used.events.select("cpu").unique().collect()["cpu"].to_list()
    machine, given = less.online(5), {"n": 4, "limit_s": 0.2, "hotplug": "9"}
    steps = [["offline", 5], ["online", 5], ["offline", 9], ["online", 9]]
    whole = replay_scenario("missing-domains", machine=machine, given=given).trace
    cut = replay_scenario("missing-domains", machine=machine, given=given, until_ns=MS).trace
    assert whole.header.machine["hotplug"] == steps
    assert cut.header.machine["hotplug"] == steps[:2]


def test_explain_knows_the_steps_of_a_replay():
    r = replay_scenario("missing-domains", machine="bd-paper-16", given={"n": 4, "limit_s": 0.2})
    assert explain(check(r.trace)).looks_like == "missing_domains"


def test_threads_stay_on_node_1_and_spread_with_the_published_fix():
    given = {"limit_s": 1.0}
    buggy = replay_scenario("recorded-gc", "v4.1", given=given)
    fixed = replay_scenario("recorded-gc", "v4.1+group_construction:patch", given=given)
    assert buggy.busy_per_node[2] == pytest.approx(0, abs=0.1)
    assert fixed.busy_per_node[2] > 7


# --- bad input ---------------------------------------------------------------------------------------------


def test_deadlock_names_task_and_time():
    w = Workload("stuck", random_phase=False)
    first, second = w.lock(), w.lock()
    for name, a, b in (("ab", first, second), ("ba", second, first)):
        script = Script().lock(a, "block").compute(5 * MS).lock(b, "block")
        w.task(name, script, cpu=int(name == "ba"), allowed=[int(name == "ba")])
    with pytest.raises(WorkloadError, match=r"deadlock at 0\.\d+ s: task 'ab' .* waits for lock 1"):
        replay(w, "bd-paper-16")


def test_spinning_deadlock_is_found_too():
    w = Workload("stuck")
    w.task("alone", Script().barrier(w.barrier(2), "spin"))
    with pytest.raises(WorkloadError, match=r"deadlock .* barrier 0"):
        replay(w, "bd-paper-16")


def test_affinity_to_an_offline_cpu():
    w = Workload("pinned")
    w.hotplug(0, 3, False)
    w.task("late", Script().compute(MS), allowed=[3], cpu=0, start_ns=MS)
    with pytest.raises(WorkloadError, match=r"'late' .* no online CPU at 0\.001"):
        replay(w, "bd-paper-16")


@pytest.mark.parametrize(
    ("kernel", "cpus"),
    [("v4.1", [2, 2, 2]), ("v6.1.192", [2, 9, 2]), ("v6.12.107", [2, 9, 2])],
)
def test_affinity_distributes_tasks_since_v5_7(kernel, cpus):
    """CPU 0 goes on behind its last choice. The second task may stay, but a choice is made."""
    w = Workload("bound")
    for i, script in enumerate(
        (
            Script().affinity([2, 3, 9]),
            Script().affinity([0, 2, 3, 9]),
            Script().affinity([0]).affinity([2, 3, 9]),
            Script().affinity([2, 3, 9]),
        )
    ):
        w.task(f"t{i}", script.compute(MS), cpu=0, allowed=[0], start_ns=(1 + 20 * i) * MS)
    moves = replay(w, "bd-paper-64", kernel).trace.only("migrate").collect()
    assert moves.filter(op="affinity")["cpu"].to_list() == cpus


def test_program_without_time():
    # this one, in addition, writes more records in its single event than the log has room for
    w = Workload("spin")
    script = Script().loop()
    for _ in range(8):
        script = script.nice(0)
    w.task("loop", script.end())
    with pytest.raises(WorkloadError, match=r"'loop' .* loops without time"):
        replay(w, "bd-paper-16")


@pytest.mark.parametrize(
    "make",
    [
        lambda w: Script().compute(-1),
        lambda w: Script().compute(5, 4),
        lambda w: Script().sleep(1.5),
        lambda w: Script().loop(0),
        lambda w: Script().loop(3).end(),
        lambda w: Script().end(),
        lambda w: w.task("t", Script(), start_ns=-1),
        lambda w: w.task("t", Script().barrier(0, "spin")) or w.program(),
        lambda w: w.task("t", Script().affinity([])) or w.program(),
        lambda w: w.program(),
    ],
)
def test_workload_that_cannot_be(make):
    with pytest.raises(WorkloadError):
        make(Workload("bad"))


def test_a_machine_with_more_cpus_than_the_engines_sets():
    large = grid("large", packages=4097)
    with pytest.raises(UsageError, match=r"'large' has 4097 CPUs; a replay has at most 4096"):
        replay(busy(1), large)


@pytest.mark.parametrize("name", ["recorded-lu", "recorded-gc", "recorded-ms"])
def test_a_rate_of_nothing_is_no_result(name):
    # the replay ends after the mark that begins the measured window, and before any task in it has worked
    m = Machine.preset("bd-paper-16")
    start = replay_scenario(name, machine=m, given={"limit_s": 0.01}).summary.start_ns
    w = scenario(name).workload(m, 1, {"limit_s": 0.01})
    phase = simulate(w.program(), m, V41, until_ns=1).phase_ns
    for later in (0, 1_000, 30_000):
        r = replay(w, m, until_ns=start - phase + later)
        assert r.summary.start_ns == start
        assert r.summary.result is None


def test_names_that_do_not_exist():
    with pytest.raises(UsageError, match="Did you mean recorded-gc"):
        scenario("recorded-gcc")
    with pytest.raises(UsageError, match=r"no parameter 'job'; did you mean jobs"):
        replay_scenario("recorded-gi", given={"job": "3"})
    with pytest.raises(UsageError, match="a whole number"):
        replay_scenario("recorded-gi", given={"jobs": "many"})
    with pytest.raises(UnknownKernelError, match=r"before v5\.5"):
        replay_scenario("recorded-gc", "v6.1")


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_makes_a_program(name):
    found = scenario(name)
    assert found.workload(Machine.preset(found.machine), 1).program().tasks


def test_a_task_that_is_woken_before_its_cpu_schedules_is_queued_once():
    """A receiver of hackbench blocks while its CPU balances for others, and is woken before that CPU schedules."""
    raw = replay_scenario("hackbench", "v4.1", "bd-paper-64", seed=1, until_ns=100 * MS).raw
    first = int(raw.masks[0, Kernel.cfs_rq0])
    queued = raw.tasks[raw.tasks[:, SchedEntity.on_rq] != 0, TaskStruct.cpu]
    counted = raw.masks[first : first + 64, CfsRq.h_nr_running]
    assert counted.tolist() == np.bincount(queued, minlength=64).tolist()
