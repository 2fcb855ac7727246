"""A snapshot decides where waiting threads might have run, and one of another machine or boot is refused."""

from __future__ import annotations

import json
import os
import time

import pytest
from support import perf_file
from support.builders import switch, trace_of
from support.typed import typed

from wastedcores.capture import snapshot as snapshot_of
from wastedcores.capture import system
from wastedcores.capture.snapshot import SCHEMA, Snapshot, with_snapshot
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.topology.machine import Machine

MS = 1_000_000
S = 1000 * MS
BOOT_ID = "5b8de140-d944-4185-84d6-1a0cd81b6a01"
#: the recording begins so long after boot
START = 3000 * S


def recording(host: bytes = b"here", release: bytes = b"6.12.0-test") -> bytes:
    """Two tasks of CPU 0 take turns for 300 ms while CPU 1 is idle; the task that left it is 12."""

    def switch(at, cpu, before, state, after):
        names = [b"swapper" if p == 0 else b"task-%d" % p for p in (before, after)]
        values = (names[0], before, 120, state, names[1], after, 120)
        return perf_file.sample(START + at, cpu, before, "sched_switch", *values)

    data = switch(0, 1, 12, 1, 0) + switch(0, 0, 0, 0, 10)
    data += perf_file.sample(START + 1, 0, 10, "sched_waking", b"task-11", 11, 120, 0)
    for i, at in enumerate(range(4, 300, 4)):
        data += switch(at * MS, 0, 10 + i % 2, 0, 11 - i % 2)
    woken = (b"task-12", 12, 120, 1)
    data += perf_file.sample(START + 300 * MS - 1, 1, 0, "sched_wakeup", *woken)
    data += switch(300 * MS, 1, 0, 0, 12)
    return perf_file.file_of(data, 2, release, host)


def task(pid, allowed="0-1", **more):
    return {
        "pid": pid,
        "tgid": pid,
        "comm": f"task-{pid}",
        "kthread": False,
        "allowed": allowed,
    } | more


def taken(**changes):
    """A snapshot of the machine, taken while the recording ran, which ended now."""
    return {
        "schema": SCHEMA,
        "kernel": "6.12.0-test",
        "host": "here",
        "machine": {"name": "here", "cpus": 2, "online": [0, 1]},
        "boottime_ns": START,
        "unix_ns": time.time_ns(),
        "boot_id": BOOT_ID,
        "quotas": {},
        "isolated_cpus": [],
        "tasks": [task(10), task(11), task(12)],
    } | changes


@pytest.fixture
def files(tmp_path):
    """Write the recording and a snapshot; return their names."""

    def make(snapshot=None, host=b"here"):
        (tmp_path / "perf.data").write_bytes(recording(host))
        (tmp_path / "tasks.json").write_text(json.dumps(snapshot or taken()))
        return tmp_path / "perf.data", tmp_path / "tasks.json"

    return make


PINNED = [task(10, "0"), task(11, "0"), task(12)]


@pytest.mark.parametrize(
    ("tasks", "verdict", "code"),
    [(None, "unknown", 3), (PINNED, "clean", 0), (taken()["tasks"], "violations", 1)],
)
def test_a_snapshot_decides(files, tasks, verdict, code):
    perf, snapshot = files(taken(tasks=tasks or []))
    options = [] if tasks is None else ["--snapshot", snapshot]
    done = typed("check", perf, "--json", *options)
    assert (json.loads(done.out)["verdict"], done.code) == (verdict, code)
    to = perf.with_suffix(".parquet")
    assert typed("import", perf, "-o", to, *options).code == 0
    done = typed("check", to, "--json")
    assert (json.loads(done.out)["verdict"], done.code) == (verdict, code)
    assert sorted(p.name for p in perf.parent.iterdir()) == [
        "perf.data",
        "perf.parquet",
        "tasks.json",
    ]


def test_the_line_of_the_verdict_says_what_is_unknown(files):
    perf, snapshot = files()
    first = typed("check", perf).out.splitlines()[0]
    assert first == "perf.data: UNKNOWN (occasional, affinity of 3 threads unknown)"
    assert typed("check", perf, "--snapshot", snapshot).out.startswith(
        "perf.data: VIOLATIONS (persistent)\n"
    )


def test_the_facts_of_the_snapshot_are_in_the_header(files):
    perf, snapshot = files(taken(isolated_cpus=[1], quotas={"/a": 4000}, boot_parameters="quiet"))
    done = typed(
        "import", perf, "--snapshot", snapshot, "-o", perf.with_suffix(".parquet"), "--json"
    )
    header = json.loads(done.out)["header"]
    assert [t["pid"] for t in header["tasks"]] == [10, 11, 12]
    assert (header["isolated_cpus"], header["quotas"]) == ([1], {"/a": 4000})
    assert (header["boot_id"], header["boot_parameters"]) == (BOOT_ID, "quiet")
    assert header["machine"]["cpus"] == 2
    assert header["provenance"]["snapshot"].startswith(f"{snapshot}, taken at ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"kernel": "6.12.1"},
            "the kernel of the trace is 6.12.0-test, that of the snapshot 6.12.1",
        ),
        ({"host": "there"}, "the host of the trace is here, that of the snapshot there"),
        ({"machine": {"cpus": 1}}, "the trace has CPU 1, the snapshot's machine has 1 CPUs"),
        ({"machine": {"cpus": 64}}, "2 CPUs were online in the trace, 64 in the snapshot"),
        # in the snapshot's boot the recording would end in the future
        ({"boottime_ns": 60 * S}, "was written at"),
        (
            {"tasks": [task(10, comm="a"), task(11, comm="b"), task(12)]},
            "of 3 tasks with the same number, 2",
        ),
    ],
)
def test_a_snapshot_of_another_machine_or_boot_is_refused(files, changes, says):
    perf, snapshot = files(taken(**changes))
    written = [
        ["import", "-o", perf.with_suffix(".parquet")],
        ["recover", "-o", perf.with_name("work.json")],
    ]
    for verb in (["check"], *written, ["explain"], ["whatif"]):
        done = typed(verb[0], perf, *verb[1:], "--snapshot", snapshot)
        assert done.code == 2
        assert says in done.err
        assert done.err.count("\n") == 1
    assert sorted(p.name for p in perf.parent.iterdir()) == ["perf.data", "tasks.json"]


def test_offline_cpus_do_not_make_it_another_machine(files):
    """With SMT switched off, the machine has four CPUs, of which two are online, and perf counts only these."""
    machine = Machine.from_dict({"name": "here", "cpus": 4, "online": [0, 1]}).to_dict()
    perf, snapshot = files(taken(machine=machine))
    done = typed("check", perf, "--json", "--snapshot", snapshot)
    assert (done.code, json.loads(done.out)["verdict"]) == (1, "violations")


def test_another_number_of_online_cpus_is_another_machine(files):
    machine = Machine.from_dict({"name": "here", "cpus": 4, "online": [0, 1, 2]}).to_dict()
    perf, snapshot = files(taken(machine=machine))
    done = typed("check", perf, "--snapshot", snapshot)
    assert done.code == 2
    assert "2 CPUs were online in the trace, 3 in the snapshot" in done.err


def test_a_task_with_another_name_is_unknown(files):
    # 10 is another one than in the snapshot, so nobody knows where it may run
    pinned = [task(10, "0", comm="old"), task(11, "0"), task(12)]
    perf, snapshot = files(taken(tasks=pinned))
    done = typed("check", perf, "--snapshot", snapshot, "--json")
    assert json.loads(done.out)["affinity_unknown"] == 1


def test_a_trace_without_a_host_needs_a_task_in_common(files):
    perf, snapshot = files(taken(tasks=[task(10, kthread=True), task(99)]), host=b"")
    done = typed("check", perf, "--snapshot", snapshot)
    assert (done.code, "no task is in both" in done.err) == (2, True)
    perf, snapshot = files(host=b"")
    assert typed("check", perf, "--snapshot", snapshot).code == 1


def test_a_snapshot_of_now_is_for_traces_of_this_host(files, monkeypatch):
    monkeypatch.setattr(system, "in_first_namespace", lambda kind: True)
    # this machine may be up for less time than the recording's
    monkeypatch.setattr(snapshot_of, "another_time", lambda *_: None)
    monkeypatch.setattr(snapshot_of, "this_machine", lambda: {"cpus": 2})
    perf, _ = files(host=b"")
    done = typed("check", perf, "--snapshot", "live")
    assert done.code == 2
    assert "the kernel of the trace is 6.12.0-test" in done.err
    perf.write_bytes(recording(b"", os.uname().release.encode()))
    done = typed("check", perf, "--snapshot", "live")
    assert done.code == 2
    assert "does not name its host" in done.err


def test_a_trace_with_facts_of_its_own_keeps_them(files):
    perf, snapshot = files()
    to = perf.with_suffix(".parquet")
    typed("import", perf, "--snapshot", snapshot, "-o", to)
    done = typed("check", to, "--snapshot", snapshot)
    assert done.code == 2
    assert "has facts about its tasks already" in done.err


@pytest.mark.parametrize("name", ["absent.json", "perf.data"])
def test_a_wrong_file_is_refused_before_the_trace_is_read(files, name):
    perf, _ = files()
    done = typed("check", perf.with_name("no-such-trace"), "--snapshot", perf.with_name(name))
    assert done.code == 2
    assert name in done.err
    assert "no-such-trace" not in done.err


@pytest.mark.parametrize(
    ("last", "cpus"), [([0], 2), ([0, 1, 2], 3)], ids=["one went offline", "one came online"]
)
def test_two_snapshots_tell_how_many_cpus_there_were(last, cpus):
    """The trace has events of CPUs 0 and 1, so without snapshots there may have been one more, which was idle."""
    rows = [switch(1, 0, 0, "R", 10), switch(2, 1, 0, "R", 11), switch(10**9, 0, 10, "S", 0)]
    trace = trace_of(rows, cpus=2, online=False, known=False)
    assert runqueues(trace).another_cpu is not None

    def seen(online):
        counts = {c: {"ran_ns": c, "slices": 1, "busy_ns": 0, "idle_ns": 0} for c in online}
        facts = {"machine": None, "tasks": [task(10) | {"comm": "t10"}], "cpu_counts": counts}
        return Snapshot.model_validate(taken(**facts))

    both = seen([0, 1]).model_copy(update={"last": seen(last)})
    attached = with_snapshot(trace, both, "both.json")
    assert attached.header.cpus == cpus
    assert runqueues(attached).another_cpu is None
