"""What happens at the end of a system call: preemption, what the call costs, and whom an unlock wakes."""

from __future__ import annotations

import pytest

from wastedcores.simulator import replay
from wastedcores.workload import Script, Workload
from wastedcores.workload.program import Costs

MS, US = 1_000_000, 1_000
MACHINE = "uma8"
KERNELS = ["v4.1", "v6.1.192", "v6.12.107", "v7.2.13"]


def marks(w: Workload, kernel: str, **given: int) -> dict[str, int]:
    """Replay a workload and return its marks in their order and when they were made, in ns."""
    rows = (
        replay(w, MACHINE, kernel, costs=Costs(switch_ns=0, **given)).trace.only("mark").collect()
    )
    return dict(zip(rows["text"], rows["ts_ns"], strict=True))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_waker_is_preempted_before_its_next_operation(kernel):
    """A hog and a heavier thread share one CPU. The hog wakes the thread, and the thread runs before the hog reaches its mark."""
    w = Workload("preempted", random_phase=False)
    go = w.semaphore()
    w.task("sleeper", Script().nice(-15).wait(go).mark("woken"), cpu=0, allowed={0})
    w.task("hog", Script().compute(50 * MS).post(go).mark("went on"), cpu=0, allowed={0})
    assert list(marks(w, kernel)) == ["woken", "went on"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_system_call_costs_the_woken_and_the_waker_once_each(kernel):
    times = []
    for syscall_ns in (0, 300 * US):
        w = Workload("call", random_phase=False)
        go = w.semaphore()
        sleeper = Script().wait(go).mark("woken")
        w.task("sleeper", sleeper, cpu=1, allowed={1})
        waker = Script().compute(MS).post(go).mark("posted")
        w.task("waker", waker, cpu=0, allowed={0})
        times.append(marks(w, kernel, syscall_ns=syscall_ns))
    for text in ("woken", "posted"):
        assert times[1][text] - times[0][text] == 300 * US


@pytest.mark.parametrize(("shared_before", "second_wakes"), [(False, False), (True, True)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_an_unlock_wakes_no_second_sleeper_while_the_first_has_yet_to_try(
    kernel, shared_before, second_wakes
):
    """Two threads sleep on CPU 1 until they get a lock. CPU 1 is busy, so the owner unlocks twice before the one it woke can run.

    Between the two unlocks nobody begins to wait. So the second unlock of a mutex wakes nobody. If the lock was shared before, it
    wakes the second sleeper.
    """
    w = Workload("mutex", random_phase=False)
    lock = w.lock()
    owner = Script()
    if shared_before:
        owner.lock(lock, "block", shared=True).unlock(lock, shared=True)
    owner.lock(lock, "block").compute(10 * MS).unlock(lock)
    owner.lock(lock, "block").compute(10 * US).unlock(lock).compute(50 * MS)
    w.task("owner", owner, cpu=0, allowed={0})
    for name in ("first", "second"):
        sleeper = Script().sleep(MS).lock(lock, "block").compute(US).unlock(lock)
        w.task(name, sleeper, cpu=1, allowed={1})
    busy = Script().policy("fifo", 1) if kernel == "v4.1" else Script().nice(-20)
    busy.compute(30 * MS)
    w.task("busy", busy, cpu=1, allowed={1}, start_ns=2 * MS)
    trace = replay(w, MACHINE, kernel).trace
    woken = trace.only("wakeup").collect().select("ts_ns", "comm").rows()
    early = [comm for ts, comm in woken if 5 * MS < ts < 10 * MS + 200 * US]
    assert early == (["first", "second"] if second_wakes else ["first"])
