"""Generators of workloads: their parts, and that a replay does all of their work and nothing else."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from wastedcores.errors import UsageError, WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import log_kind, replay, simulate
from wastedcores.simulator.engine.world.structs import TaskStruct
from wastedcores.topology.machine import Machine
from wastedcores.workload import Costs, Script, Workload
from wastedcores.workload.background import add_hogs, add_kworkers, add_transients
from wastedcores.workload.database import tpch
from wastedcores.workload.idle_causes import left_out
from wastedcores.workload.scenarios import scenario
from wastedcores.workload.services import hackbench
from wastedcores.workload.spmd import Spmd, spmd, workload

MS = 1_000_000
V41 = KernelModel.named("v4.1")
#: all time is the programs' own
BARE = Costs(switch_ns=0, wake_ns=0, spin_ns=0)


@pytest.fixture(scope="module")
def machine():
    return Machine.preset("bd-paper-16")


def cpu_time(w: Workload, machine: Machine, **how) -> dict[str, list[int]]:
    """Return the CPU time in ns of each task that ended, by name."""
    program = w.program()
    raw = simulate(program, machine, V41, costs=BARE, **how)
    ran: dict[int, int] = defaultdict(int)
    since: dict[int, int] = {}
    for ts, _, _, pid, prev, *_ in raw.of(log_kind.SWITCH).tolist():
        if prev:
            ran[prev] += ts - since[prev]
        since[pid] = ts
    out = defaultdict(list)
    for pid, comm, row in zip(raw.pids.tolist(), raw.comms(program), raw.tasks, strict=True):
        if row[TaskStruct.exited] >= 0:
            out[comm].append(ran[pid])
    return out


@pytest.mark.slow
def test_hackbench__every_sender_writes_to_every_receiver(machine):
    w = hackbench(machine, 1, groups=3, fds=4, loops=7, write_ns=900, read_ns=1100)
    program = w.program()
    assert Counter(t.comm for t in program.templates) == {"receiver": 12, "sender": 3}
    assert len(program.semaphores) == 2 + 3 * 4 * 2
    ran = cpu_time(w, machine)
    assert ran["sender"] == [4 * 7 * 900] * 12
    assert ran["receiver"] == [4 * 7 * 1100] * 12
    # main forks 24 tasks
    assert ran["hackbench"] == [24 * 48_000]


def test_hackbench__a_full_pipe_holds_the_writer(machine):
    # with room for one message neither end can be ahead, so the writer waits as often as the reader
    tight = replay(hackbench(machine, 1, groups=1, fds=1, loops=50, pipe=1), machine)
    wide = replay(hackbench(machine, 1, groups=1, fds=1, loops=50), machine)
    wakeups = [r.trace.only("wakeup").collect().height for r in (tight, wide)]
    assert wakeups[0] > wakeups[1]


def test_hogs_and_kernel_threads__run_beside_and_do_not_hold_the_end_back(machine):
    w = Workload("beside", random_phase=False)
    add_hogs(w, 2, cpu=5, apart_ns=2 * MS)
    add_kworkers(w, machine, 1, parked=3)
    add_transients(w, machine, 5 * MS, 100_000, 200_000)
    w.task("work", Script().compute(30 * MS), session=w.session())
    program = w.program()
    assert Counter(t.comm.split("/")[0] for t in program.tasks) == {
        "R-0": 1,
        "R-1": 1,
        "kworker": 15,
        "noise": 16,
        "work": 1,
    }
    assert [t.group for t in program.tasks if t.comm.startswith("R-")] == [1, 2]
    assert all(t.daemon for t in program.tasks if t.comm != "work")
    assert all(t.allowed == {t.start_cpu} for t in program.tasks if "/" in t.comm)
    r = replay(w, machine)
    assert 30 * MS <= r.tasks.filter(comm="work")["completed_ns"][0] < 40 * MS
    assert r.tasks.filter(comm="R-0")["completed_ns"][0] is None


def test_spmd__rows_are_dealt_out_as_schedule_static_does(machine):
    spec = Spmd(16, "pipeline", MS, planes=3, rows=34, start_node=0, intervals=2)
    assert [round(spec.grain_of(i) * 34 / 16 / MS) for i in range(16)] == [3, 3] + 14 * [2]
    assert sum(spec.grain_of(i) for i in range(16)) == pytest.approx(16 * MS)
    ran = cpu_time(workload(spec, machine, 1), machine)
    assert len(ran["nas"]) == 16


def test_spmd__threads_without_a_row_wait_for_the_others(machine):
    spec = Spmd(16, "pipeline", MS, planes=4, rows=5, start_node=0, intervals=3)
    assert [spec.grain_of(i) > 0 for i in range(16)] == 5 * [True] + 11 * [False]
    ran = cpu_time(workload(spec, machine, 1), machine)
    working = [t for t in ran["nas"] if t > 0.9 * 3 * 2 * 4 * 16 * MS / 5]
    assert len(working) == 5


def test_spmd__only_the_nodes_that_it_is_pinned_to_count():
    wide = Machine.preset("bulldozer8x8")
    assert spmd(wide, 1, pinned=True).counted_nodes == (1, 2)
    assert spmd(wide, 1).counted_nodes is None
    # three threads per CPU: none of the 16 CPUs is idle for long (25 % of the time; 80 % if the 48 others counted)
    given = {"intervals": 5, "threads": 48, "grain_us": 5000}
    r = replay(scenario("spmd").workload(wide, 1, given), wide, "v4.1+group_construction")
    assert r.summary.idle_while_overloaded < 0.5


def test_kworkers__run_once_a_period(machine):
    w = Workload("quiet", random_phase=False)
    add_kworkers(w, machine, 1, period_ns=100 * MS)
    w.task("work", Script().sleep(1_000 * MS))
    switches = replay(w, machine).trace.only("switch").collect()
    began = switches.filter(switches["comm"].cast(str).str.starts_with("kworker/").fill_null(False))
    assert 16 * 9 <= began.height <= 16 * 11


def test_tpch__all_pools_work_and_only_a_pool_waits_for_itself(machine):
    given = {"pools": (5, 3, 2), "stages": 20, "noise_period_ms": 2.0}
    ran = cpu_time(tpch(machine, 2, **given), machine, seed=2)
    assert len(ran["worker"]) == 10
    assert all(20 * 1.8 * MS <= t <= 20 * 2.2 * MS for t in ran["worker"])
    apart = tpch(machine, 2, together=False, **given).program()
    assert apart.barriers == (5, 3, 2)
    assert len(apart.shares) == 4
    assert tpch(machine, 2, together=True, autogroups=False, **given).program().shares == (1024,)


def test_tpch__kernel_threads_wake_on_busy_cpus(machine):
    r = replay(tpch(machine, 1, pools=(16,), stages=60, noise_period_ms=4.0), machine)
    switches = r.trace.only("switch").collect()
    onto = switches.filter(switches["comm"].cast(str).str.starts_with("noise/").fill_null(False))
    pushed_aside = (onto["prev_comm"] == "worker").sum()
    assert pushed_aside > 20


@pytest.mark.parametrize("kind", ["none", "barrier", "lock", "pipeline"])
def test_spmd__every_thread_does_every_interval(machine, kind):
    spec = Spmd(6, kind, 400_000, planes=4, spread=0.0, spin_ns=0, intervals=5, start_node=0)
    w = workload(spec, machine)
    r = replay(w, machine)
    done = r.tasks.filter(comm="nas")
    assert done.height == 6
    assert done["completed_ns"].null_count() == 0
    assert done["units"].to_list() == [0 if kind == "none" else 5] * 6
    marks = r.trace.only("mark").collect()["text"].to_list()
    assert marks.count("interval") == (1 if kind == "none" else 5)
    if kind in (
        "barrier",
        "lock",
    ):  # asleep at the barrier, so that all CPU time is work, and being created
        work = 5 * (400_000 if kind == "barrier" else 401_000)
        master, *others = cpu_time(w, machine)["nas"]
        assert work + 5 * 14_000 <= master <= work + 5 * 26_000
        assert all(work + 19_000 <= t <= work + 61_000 for t in others)


def test_spmd__a_pipeline_takes_as_long_as_its_fill_and_its_planes(machine):
    spec = Spmd(4, "pipeline", 1 * MS, planes=10, spread=0.0, intervals=30, start_node=0)
    r = replay(workload(spec, machine), machine)
    # two sweeps of 10 planes, each with 3 more to fill the pipeline; in the first interval the threads find their CPUs
    assert r.summary.result == pytest.approx(2 * 13e-3, rel=0.03)


@pytest.mark.parametrize("name", ["hackbench", "tpch", "spmd"])
def test_same_seed_same_bytes_and_another_seed_differs(name, machine):
    given = {
        "hackbench": {"groups": "2", "fds": "3", "loops": "4"},
        "tpch": {"pools": "6+4", "stages": "8"},
        "spmd": {"intervals": "10"},
    }[name]

    def log(seed: int) -> bytes:
        w = scenario(name).workload(machine, seed, given)
        return simulate(w.program(), machine, V41, seed=seed).log.tobytes()

    assert log(1) == log(1)
    assert log(1) != log(2)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda m: hackbench(m, 1, groups=0), "groups=0; expected 1 or more"),
        (lambda m: hackbench(m, 1, read_ns=-4), "read_ns=-4; expected 1 or more"),
        (lambda m: tpch(m, 1, pools=()), "got pools none and 300 stages"),
        (lambda m: tpch(m, 1, pools=(3, 0)), r"got pools 3\+0"),
        (lambda m: tpch(m, 1, lo_us=-5), "-5000; expected a whole number of nanoseconds"),
        (lambda m: tpch(m, 1, lo_us=9, hi_us=8), "the second must not be smaller"),
        (lambda m: tpch(m, 1, noise_period_ms=-1), "expected a whole number of nanoseconds"),
        (lambda m: spmd(m, 1, kind="tree"), "there are none, barrier, lock, pipeline"),
        (lambda m: spmd(m, 1, intervals=0), "0 intervals; expected 1 or more"),
        (lambda m: spmd(m, 1, threads=-2), "expected at least one thread"),
        (lambda m: left_out(m, 1, pinned=0), "pinned=0; expected 1 or more"),
    ],
)
def test_what_cannot_be_is_refused(make, says, machine):
    with pytest.raises(WorkloadError, match=says):
        make(machine)


def test_pools_are_given_with_a_plus(machine):
    w = scenario("tpch").workload(machine, 1, {"pools": "3+2"})
    assert w.program().barriers == (5,)
    with pytest.raises(UsageError, match=r"pools=3,2; expected .* such as 28\+20\+16"):
        scenario("tpch").workload(machine, 1, {"pools": "3,2"})


def test_a_single_nice_value_may_be_given_as_a_number():
    w = scenario("recorded-nice").workload(Machine.preset("guest-2"), 1, {"nice": 5})
    assert [t.comm for t in w.program().templates] == ["n5-0"]
