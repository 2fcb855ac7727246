"""New threads: phones record task_newtask and neither sched_process_fork nor sched_wakeup_new."""

from __future__ import annotations

import pytest

from wastedcores.invariant import check
from wastedcores.trace.io import import_trace, open_trace


def line(t: float, cpu: int, who: str, event: str) -> str:
    return f"{who:>16} [{cpu:03}] d..2. {t:.6f}: {event}"


def newtask(t, cpu, who, pid):
    said = f"task_newtask: pid={pid} comm=my (old) name clone_flags=4000 oom_score_adj=-800"
    return line(t, cpu, who, said)


def fork(t, cpu, who, pid):
    comm, by = who.rsplit("-", 1)
    said = f"sched_process_fork: comm={comm} pid={by} child_comm=my (old) name child_pid={pid}"
    return line(t, cpu, who, said)


def switch(t, cpu, prev, state, to):
    (comm, pid), (next_comm, next_pid) = prev.rsplit("-", 1), to.rsplit("-", 1)
    said = f"prev_comm={comm} prev_pid={pid} prev_prio=120 prev_state={state}"
    said += f" ==> next_comm={next_comm} next_pid={next_pid} next_prio=120"
    return line(t, cpu, prev, f"sched_switch: {said}")


def opened(tmp_path, *lines):
    (tmp_path / "t.txt").write_text("# tracer: nop\n#\n" + "\n".join(lines) + "\n")
    return open_trace(tmp_path / "t.txt")


RUNS = switch(9, 0, "<idle>-0", "R", "sh-7")


def test_either_event_tells_of_a_birth_and_both_tell_of_one(tmp_path):
    trace = opened(
        tmp_path,
        newtask(1.0, 0, "sh-7", 20),
        # two CPUs at once
        newtask(2.0, 0, "sh-7", 21),
        newtask(2.1, 1, "bash-8", 22),
        fork(2.2, 0, "sh-7", 21),
        fork(2.3, 1, "bash-8", 22),
        fork(3.0, 1, "bash-8", 23),
        # its number is given to another thread
        newtask(4.0, 1, "bash-8", 21),
        fork(4.1, 1, "bash-8", 21),
        RUNS,
    )
    births = trace.only("fork").collect()
    rows = births.select("ts_ns", "cpu", "pid", "comm", "by_pid", "by_comm").rows()
    name = "my (old) name"
    assert [(t / 1e9, *rest) for t, *rest in rows] == [
        (1.0, 0, 20, name, 7, "sh"),
        (2.0, 0, 21, name, 7, "sh"),
        (2.1, 1, 22, name, 8, "bash"),
        (3.0, 1, 23, name, 8, "bash"),
        (4.0, 1, 21, name, 8, "bash"),
    ]
    assert not trace.header.provenance.get("skipped")


def test_a_birth_is_told_once_where_a_block_of_text_ends_between_its_events(tmp_path, monkeypatch):
    monkeypatch.setattr("wastedcores.trace.readers.support.text_reading.BLOCK_BYTES", 100)
    lines = [f(1 + i, 0, "sh-7", 20 + i) for i in range(9) for f in (newtask, fork)]
    (tmp_path / "t.txt").write_text("\n".join(["# tracer: nop", *lines, RUNS]) + "\n")
    assert import_trace(tmp_path / "t.txt", tmp_path / "t.parquet").kinds()["fork"] == 9


@pytest.mark.parametrize(("born", "verdict"), [(False, "unknown"), (True, "clean")])
def test_a_thread_whose_birth_is_told_did_not_wait_before_it(tmp_path, born, verdict):
    """CPU 1 idles while thread 7 runs on CPU 0 for a second, after which thread 20 runs there, without a wakeup."""
    trace = opened(
        tmp_path,
        switch(1.0, 0, "<idle>-0", "R", "sh-7"),
        switch(1.0, 1, "bash-8", "S", "<idle>-0"),
        *([newtask(2.0, 0, "sh-7", 20)] if born else []),
        switch(2.00001, 0, "sh-7", "S", "sh-20"),
        switch(2.1, 0, "sh-20", "S", "<idle>-0"),
    )
    found = check(trace)
    assert found.verdict == verdict
    told = [note for note in found.notes if "began to run without a wakeup" in note]
    assert len(told) == (not born)
    assert not told or told[0].startswith("2 of the threads")
