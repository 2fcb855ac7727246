"""The checker of the kernel's own counts reads what kernels of all generations print, and insists on the same CPUs."""

from __future__ import annotations

import errno
import importlib
import os
import sys

import pytest

from wastedcores.files import collectors

#: print_cpu() and print_task() of kernel/sched/debug.c: Linux 4.1 lists queued tasks only, 6.18 lists all with their states
LINUX_4_1 = b"""Sched Debug Version: v0.11, 4.1.3 #1
cpu#0, 2596.128 MHz
  .nr_running                    : 3
  .load                          : 3072
  .curr->pid                     : 100

cfs_rq[0]:/autogroup-12
  .nr_running                    : 2
rt_rq[0]:
  .rt_nr_running                 : 0

runnable tasks:
            task   PID         tree-key  switches  prio     wait-time             sum-exec        sum-sleep
----------------------------------------------------------------------------------------------------------
R            cat   100       312.123456         4   120         0.000000         1.000000         0.000000 /
       web server   101       313.123456         4   120         0.000000         1.000000         0.000000 /
             hog   102       -14.123456         4   120         0.000000         1.000000         0.000000 /

cpu#1, 2596.128 MHz
  .nr_running                    : 0
  .curr->pid                     : 0

runnable tasks:
            task   PID         tree-key  switches  prio     wait-time             sum-exec        sum-sleep
----------------------------------------------------------------------------------------------------------

"""
LINUX_6_18 = b"""Sched Debug Version: v0.11, 6.18.44 #1
cpu#0, 2596.128 MHz
  .nr_running                    : 3
  .curr->pid                     : 100

cfs_rq[0]:/
  .nr_queued                     : 3

runnable tasks:
 S            task   PID       vruntime   eligible    deadline             slice          sum-exec      switches  prio
----------------------------------------------------------------------------------------------------------------------
 S         spawner    60  16829978.638616   E    16829978.769708           1.400000       326.463399      1078     110
>R             cat   100  16829978.638616   E    16829978.769708           1.400000       326.463399      1078     110
 R      web server   101  16829978.638616   N    16829978.769708           1.400000       326.463399      1078     110
 R             hog   102  16829978.638616   N    16829978.769708           1.400000       326.463399      1078     110

cpu#1, 2596.128 MHz
  .nr_running                    : 0
  .curr->pid                     : 0

runnable tasks:
 S            task   PID       vruntime   eligible    deadline             slice          sum-exec      switches  prio
----------------------------------------------------------------------------------------------------------------------
 I     rcu_preempt    15  16829978.638616   E    16829978.769708           1.400000       326.463399      1078     120

"""


@pytest.fixture(scope="module")
def debugfs():
    sys.path.insert(0, str(collectors()))
    try:
        yield importlib.import_module("debugfs")
    finally:
        sys.path.remove(str(collectors()))


def anywhere(tid, cpu):
    """Every thread may run on CPUs 0 to 3."""
    return {0, 1, 2, 3}


@pytest.mark.parametrize("text", [LINUX_4_1, LINUX_6_18])
def test_runqueues_are_read(debugfs, text):
    cpus = debugfs.parse(text)
    assert (cpus[0].nr_running, cpus[0].current, cpus[0].runnable) == (3, 100, [100, 101, 102])
    assert (cpus[1].nr_running, cpus[1].current, cpus[1].runnable) == (0, 0, [])
    look = debugfs.Look(cpus, own=set())
    assert look.pair({1}, {0}, anywhere) == (1, 0, 101)


def test_this_kernel_is_read(debugfs):
    name = next((f for f in debugfs.FILES if os.access(f, os.R_OK)), None)
    if name is None:
        pytest.skip("needs root and debugfs")
    with open(name, "rb") as f:
        cpus = debugfs.parse(f.read())
    assert cpus.keys() == os.sched_getaffinity(0) | cpus.keys()
    assert any(os.getpid() in c.runnable and c.nr_running >= 1 for c in cpus.values())


def look(debugfs, own=(), **runqueues):
    """Return a look at CPUs cN=(nr_running, current, runnable)."""
    cpus = {}
    for name, (nr, current, runnable) in runqueues.items():
        cpu = cpus[int(name[1:])] = debugfs.Cpu()
        cpu.nr_running, cpu.current, cpu.runnable = nr, current, runnable
    return debugfs.Look(cpus, set(own))


def test_threads_that_may_not_run_on_the_idle_cpu_are_no_pair(debugfs):
    seen = look(debugfs, c0=(2, 5, [5, 6]), c1=(0, 0, []))
    assert seen.pair({1}, {0}, lambda tid, cpu: {0}) is None
    # the thread that runs may go elsewhere, but it does not wait
    assert seen.pair({1}, {0}, lambda tid, cpu: {0, 1} if tid == 5 else {0}) is None


def test_the_checker_itself_neither_waits_nor_keeps_a_cpu_busy(debugfs):
    assert look(debugfs, own=[6], c0=(2, 5, [5, 6]), c1=(0, 0, [])).busy == {}
    seen = look(debugfs, own=[7], c0=(2, 5, [5, 6]), c1=(1, 7, [7]))
    assert seen.idle == {1}
    assert seen.asleep == set()
    assert seen.pair({1}, {0}, anywhere) == (1, 0, 6)


def test_a_cpu_that_lists_more_threads_than_it_counts_is_left_out(debugfs):
    assert look(debugfs, c0=(2, 5, [5, 6, 7]), c1=(0, 0, [])).busy == {}


def confirmed(debugfs, looks):
    """Return whether a suspicion that starts with the first look is confirmed by the others, and when."""
    first = looks[0]
    pair = first.pair(first.idle, first.busy.keys(), anywhere)
    suspicion = debugfs.Suspicion(first, pair, 0)
    for k, seen in enumerate(looks[1:], 1):
        if not suspicion.add(seen, anywhere):
            return None
        if suspicion.confirmed(5_000_000 * k, 100_000_000):
            return k
    return None


def test_a_pair_that_lasts_is_confirmed_and_two_looks_may_miss_it(debugfs):
    wasted = look(debugfs, c0=(2, 5, [5, 6]), c1=(0, 0, []))
    busy = look(debugfs, c0=(2, 5, [5, 6]), c1=(1, 9, [9]))
    assert confirmed(debugfs, [wasted] * 21) == 20
    assert confirmed(debugfs, [*[wasted] * 5, busy, busy, *[wasted] * 14]) == 20
    assert confirmed(debugfs, [*[wasted] * 5, busy, busy, busy, *[wasted] * 30]) is None


def test_pairs_of_other_cpus_at_every_look_are_no_violation(debugfs):
    """Balancing that fills each idle CPU at once leaves a pair somewhere at every look of a large machine."""
    here = look(debugfs, c0=(2, 5, [5, 6]), c1=(0, 0, []), c2=(1, 7, [7]))
    there = look(debugfs, c0=(2, 5, [5, 6]), c1=(1, 8, [8]), c2=(0, 0, []))
    assert confirmed(debugfs, [here, there] * 20) is None


def test_looks_at_which_only_the_checker_ran_on_the_idle_cpu_do_not_count(debugfs):
    wasted = look(debugfs, own=[7], c0=(2, 5, [5, 6]), c1=(0, 0, []))
    own = look(debugfs, own=[7], c0=(2, 5, [5, 6]), c1=(1, 7, [7]))
    assert confirmed(debugfs, [wasted, *[own] * 40]) is None
    assert confirmed(debugfs, [wasted, *[own] * 40, *[wasted] * 18]) == 58


def test_a_checker_whose_cpuset_lacks_the_busy_cpu_looks_from_where_it_is(debugfs, monkeypatch):
    def refused(pid, cpus):
        raise OSError(errno.EINVAL, "Invalid argument")

    seen, pair = look(debugfs, c0=(2, 5, [5, 6]), c1=(0, 0, [])), debugfs.Look.pair
    monkeypatch.setattr(debugfs.Checker, "look", lambda self: seen)
    monkeypatch.setattr(debugfs.Look, "pair", lambda *a: pair(*a[:3], anywhere))
    monkeypatch.setattr(debugfs.os, "sched_setaffinity", refused)
    found = debugfs.Checker(-1, 20_000_000, set()).check()
    assert (found["idle_cpu"], found["busy_cpu"], found["pid"]) == (1, 0, 6)


def test_only_fair_threads_that_wait_there_may_move(debugfs):
    assert debugfs.may_run(2**22, 0) == set()  # no such thread
    assert debugfs.may_run(os.getppid() or 1, 10_000) == set()  # not on that CPU


def test_a_dropped_suspicion_is_looked_at_again_after_m_three_times(debugfs, monkeypatch, tmp_path):
    """A made-up clock: each check ends at once, and every suspicion is dropped."""
    clock, looked = [0.0], []

    def refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    class Dropping(debugfs.Checker):
        def check(self):
            looked.append(round(clock[0], 3))
            self.counts["cleared"] += 1

    (tmp_path / "debug").write_bytes(LINUX_4_1)
    monkeypatch.setattr(debugfs, "FILES", (str(tmp_path / "debug"),))
    monkeypatch.setattr(debugfs, "Checker", Dropping)
    monkeypatch.setattr(debugfs._privilege, "drop_all", lambda: None)
    for name in ("sched_setscheduler", "nice"):  # as in a container
        monkeypatch.setattr(debugfs.os, name, refused)
    monkeypatch.setattr(debugfs.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(debugfs.time, "sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    assert debugfs.main(["-S", "1s", "-M", "100ms", "--seconds", "2.5"]) == 0
    assert looked == [0.0, 0.1, 0.2, 0.3, 1.3, 1.4, 1.5, 1.6]


def test_it_tells_why_the_kernels_counts_cannot_be_found(debugfs, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(debugfs, "ROOT", str(tmp_path))
    monkeypatch.setattr(debugfs, "FILES", (str(tmp_path / "a"), str(tmp_path / "b")))
    monkeypatch.setattr(debugfs._mount, "mount", lambda kind, folder: "Operation not permitted")
    assert debugfs.main([]) == 2
    said = f"neither {tmp_path}/a nor {tmp_path}/b, and debugfs cannot be mounted at {tmp_path}: Operation not permitted\n"
    assert capsys.readouterr().err == f"debugfs: there is {said}"
