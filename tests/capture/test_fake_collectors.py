"""Capture and the online checker with collectors that only pretend: no root, and no change to this machine."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.builders import nr, trace_of
from support.schemas import fits
from support.typed import typed

import wastedcores
from wastedcores.capture import (
    LiveOptions,
    balancing_off,
    capture,
    demonstration,
    doctor,
    live,
    record,
    service,
    system,
)
from wastedcores.capture import live_check as check_live
from wastedcores.capture.backends import Backend
from wastedcores.cli.watch import _describe
from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import CollectorError, UsageError
from wastedcores.trace import io
from wastedcores.trace.parquet import write_parquet

#: two tasks share CPU 0 for 200 ms while CPU 1 is idle, as the kernel's tracefs prints it
#: two tasks that ran on CPU 1 share CPU 0 for 300 ms
TRACE = """# tracer: nop
#
# entries-in-buffer/entries-written: 0/0   #P:2
#
          <idle>-0       [001] d..2.     0.900000: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=6 next_prio=120
               b-6       [001] d..2.     0.910000: sched_switch: prev_comm=b prev_pid=6 prev_prio=120 prev_state=S ==> next_comm=c next_pid=7 next_prio=120
               c-7       [001] d..2.     0.920000: sched_switch: prev_comm=c prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
          <idle>-0       [000] d..2.     1.000000: sched_wakeup: comm=b pid=6 prio=120 target_cpu=000
          <idle>-0       [000] d..2.     1.000000: sched_wakeup: comm=c pid=7 prio=120 target_cpu=000
          <idle>-0       [000] d..2.     1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=6 next_prio=120
               b-6       [000] d..2.     1.050000: sched_switch: prev_comm=b prev_pid=6 prev_prio=120 prev_state=R ==> next_comm=c next_pid=7 next_prio=120
               c-7       [000] d..2.     1.100000: sched_switch: prev_comm=c prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b next_pid=6 next_prio=120
               b-6       [000] d..2.     1.150000: sched_switch: prev_comm=b prev_pid=6 prev_prio=120 prev_state=R ==> next_comm=c next_pid=7 next_prio=120
               c-7       [000] d..2.     1.200000: sched_switch: prev_comm=c prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b next_pid=6 next_prio=120
               b-6       [000] d..2.     1.250000: sched_switch: prev_comm=b prev_pid=6 prev_prio=120 prev_state=R ==> next_comm=c next_pid=7 next_prio=120
               c-7       [000] d..2.     1.300000: sched_switch: prev_comm=c prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=6 next_prio=120
"""  # noqa: E501
VIOLATION = {"event": "violation", "bytes": 0, "number": 1, "idle_cpu": 1, "busy_cpu": 0, "pid": 6}
MESSAGES = [
    {"event": "ready", "bytes": 0},
    {"event": "progress", "bytes": 0, "checks": 2, "suspected": 1, "confirmed": 0},
    VIOLATION
    | {
        "busy_nr": 2,
        "cleared_ns": 0,
        "late_ns": 9,
        "lasted_ms": 100,
        "began_ns": 1,
        "confirmed_ns": 100_000_001,
    },
    {"event": "end", "bytes": 0, "checks": 3, "confirmed": 1, "seconds": 3.5, "moves": 7},
]


@pytest.fixture
def fake(monkeypatch):
    """Make every collector a program that prints a text and ends with a code; return the commands that were asked for."""
    asked = []

    def pretend(text: str, backend: str, code: int = 0, counts: str = "", counts_code: int = 0):
        # a collector that records runs until its input is closed; a checker ends by itself
        wait = "sys.stdin.read()" if backend == "tracefs" else ""
        program = (
            f"import os, sys\nprint('ready', file=sys.stderr, flush=True)\n"
            f"sys.stdout.write({text!r}.replace('OWN', str(os.getpid())))\nsys.stdout.flush()\n"
            f"{wait}\nsys.exit({code})"
        )
        looks = (
            f"import sys\nsys.stdout.write({counts!r})\nprint('pretended', file=sys.stderr)\n"
            f"sys.exit({counts_code})"
        )

        def command(script, arguments, _):
            asked.append([script, *arguments])
            return [sys.executable, "-c", looks if script == "debugfs.py" else program]

        for module in (live, record):
            monkeypatch.setattr(
                module, "choose", lambda *_, **__: Backend(backend, True, "pretended")
            )
        for module in (live, record):
            monkeypatch.setattr(module, "command", command)
        return asked

    return pretend


def lines(messages) -> str:
    return "".join(json.dumps(m) + "\n" for m in messages)


def test_messages_of_the_checker_become_its_result(fake):
    asked = fake(lines(MESSAGES), "bpf", code=1)
    reported = []
    options = LiveOptions(period_ns=500_000_000, persist_ns=50_000_000, useless=True)
    result = check_live(options, seconds=3, progress=reported.append)
    assert result.verdict == "violations"
    assert (result.checks, result.suspected, result.confirmed, result.seconds) == (3, 1, 1, 3.5)
    assert result.other == {"moves": 7}
    assert "looking" in reported
    assert any(line.startswith("VIOLATION 1: CPU 1 was idle for 100 ms") for line in reported)
    out = result.to_json()
    assert out["persist_ns"] == out["checker"]["m_ns"] == 50_000_000
    assert out["checker"]["violations"][0]["evidence"] is None
    script, *arguments = asked[0]
    assert script == "unclaimed.py"
    text = " ".join(arguments)
    assert "-S 0.500000000s -M 0.050000000s --before 2 --evidence 5 --useless" in text
    assert text.endswith("--seconds 3")


def test_watch_prints_what_was_found(fake):
    fake(lines(MESSAGES), "bpf", code=1)
    done = typed("watch", "--seconds", 3, "-M", "50ms", "--useless")
    assert done.code == 1
    assert done.out.startswith("this machine: VIOLATIONS\n")
    assert "confirmed      1 (lasted 50 ms or more)" in done.out
    assert "balancing      7 moves, 0 of them to a queue" in done.out
    assert "CPU 1 was idle beside CPU 0 for at least 100 ms" in done.out
    out = json.loads(typed("watch", "--json").out)
    assert out["report"] is None
    assert out["verdict"] == "violations"
    fits("watch", out)


def test_a_checker_that_fails_is_an_error_in_its_own_words(fake):
    fake("", "bpf", code=3)
    with pytest.raises(CollectorError, match="ended with code 3: it printed nothing"):
        check_live(seconds=1)
    fake("not JSON\n", "bpf")
    with pytest.raises(CollectorError, match="sent an unexpected line: b'not JSON"):
        check_live(seconds=1)


@pytest.mark.parametrize("code", [0, 1])
def test_a_checker_that_dies_before_it_told_the_end_is_no_clean_one(fake, code):
    """Python's own exit code after an uncaught exception is 1, which the collector ends with after a violation, too."""
    fake(lines(MESSAGES[:2]), "bpf", code=code)
    with pytest.raises(CollectorError, match=f"ended with code {code}: it printed nothing"):
        check_live(seconds=1)


def test_tracefs_records_and_checks_afterwards(fake, tmp_path):
    fake(TRACE, "tracefs")
    result = check_live(LiveOptions(persist_ns=100_000_000), seconds=0.1, output=tmp_path)
    assert result.backend == "tracefs"
    assert result.verdict == "violations"
    (found,) = result.violations
    assert (found["idle_cpu"], found["busy_cpu"], found["lasted_ms"]) == (1, 0, 300)
    assert found["evidence"] == str(tmp_path / "recording.parquet")
    fits("watch", result.to_json() | {"report": None})


def cut(text: str, *dropped: str) -> str:
    """Return a recording without the lines that have one of these words."""
    return "".join(line for line in text.splitlines(True) if not any(d in line for d in dropped))


#: the first recording without most switches into a thread, as some kernels hide them from ftrace
HIDDEN = cut(TRACE, "==> next_comm=b")


def test_counts_decide_where_the_recording_contradicts_itself(fake, tmp_path):
    options = LiveOptions(persist_ns=100_000_000)
    quiet = [{"event": "ready", "bytes": 0}, MESSAGES[-1] | {"confirmed": 0}]
    fake(HIDDEN, "tracefs", counts=lines(quiet))
    alone = check_live(options, seconds=0.1, output=tmp_path)
    # looks that found nothing prove nothing
    assert alone.worst.verdict == alone.verdict == "unknown"
    asked = fake(HIDDEN, "tracefs", counts=lines(MESSAGES), counts_code=1)
    result = check_live(options, seconds=0.1, output=tmp_path)
    assert result.worst.verdict == "unknown"
    assert (result.verdict, result.checks, result.confirmed) == ("violations", 3, 1)
    assert result.violations[0]["evidence"] == str(tmp_path / "recording.parquet")
    assert any("the kernel's own counts" in note for note in result.notes)
    assert result.to_json()["kind"] == "persistent"
    script, *arguments = asked[0]
    assert script == "debugfs.py"
    assert arguments[-4:] == ["-S", "1.000000000s", "-M", "0.100000000s"]


def test_without_counts_the_recording_alone_decides(fake, tmp_path):
    fake(HIDDEN, "tracefs", counts_code=2)
    result = check_live(LiveOptions(persist_ns=100_000_000), seconds=0.1, output=tmp_path)
    assert result.verdict == "unknown"
    assert "the kernel's own counts were not sampled (pretended)" in result.notes


def test_counts_that_end_early_are_told(fake, tmp_path):
    fake(HIDDEN, "tracefs", counts=lines(MESSAGES[:2]), counts_code=1)
    result = check_live(LiveOptions(persist_ns=100_000_000), seconds=0.1, output=tmp_path)
    assert "the kernel's own counts were not sampled to the end (pretended)" in result.notes


def written_trace(path, wasted_ms: int):
    """Write 1.1 s of runqueues in which one CPU is idle beside an overloaded one for a few ms of each 100 ms."""
    rows = [nr(0, 0, 1), nr(0, 1, 1)]
    for k in range(11):
        at = 100_000_000 * k + 50_000_000
        if wasted_ms:
            rows += [nr(at, 1, 0), nr(at, 0, 2)]
            rows += [nr(at + 1_000_000 * wasted_ms, 1, 1), nr(at + 1_000_000 * wasted_ms, 0, 1)]
    rows.append(nr(1_100_000_000, 0, 1))
    write_parquet(trace_of(rows, cpus=2), path)
    return wastedcores.open_trace(path)


def test_ten_recorded_slices_are_kept_only_if_the_waste_in_them_may_be_chronic(
    fake, tmp_path, monkeypatch
):
    """The looks say when to record; the check of the recording decides."""
    messages = [
        {"event": "ready", "bytes": 0},
        *({"event": "chronic", "bytes": 3, "number": k} for k in (1, 2)),
        {"event": "end", "bytes": 0, "checks": 3, "confirmed": 0, "seconds": 3.5},
    ]
    sent = "".join(json.dumps(m) + "\n" + ("raw" if m["bytes"] else "") for m in messages)
    given = {}

    def imported(raw, output, **more):
        given.update(more["facts"])
        return written_trace(output, wasted_ms=4 if Path(raw).stem == "chronic-2" else 0)

    monkeypatch.setattr(io, "import_trace", imported)
    fake(sent, "bpf")
    result = check_live(seconds=1, output=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["chronic-2.parquet"]
    (found,) = result.chronic
    assert found["share"] == pytest.approx(4 / 196)
    assert (result.verdict, result.confirmed) == ("violations", 0)
    out = result.to_json()
    assert (out["kind"], out["checker"]["chronic"]) == ("chronic", [found])
    assert {"tasks", "quotas", "provenance"} <= given.keys()
    fake(sent, "bpf")
    off = check_live(LiveOptions(chronic_share=None), seconds=1, output=tmp_path)
    assert off.verdict == "clean"
    (tmp_path / "chronic-2.parquet").unlink(missing_ok=True)
    bare = check_live(LiveOptions(most_recordings=0), seconds=1, output=tmp_path)
    assert (bare.verdict, bare.to_json()["kind"]) == ("violations", "chronic")
    assert [c["evidence"] for c in bare.chronic] == [None]
    assert list(tmp_path.iterdir()) == []
    many = replace(bare, chronic=bare.chronic * 12)
    assert "and so in 2 more recordings" in _describe(many, None)
    noted = []
    monkeypatch.setattr(service.Metrics, "chronic", lambda _: noted.append("chronic"))
    served = service.run_service(
        service.ServiceOptions(), LiveOptions(), seconds=1, progress=lambda _: None
    )
    assert (served.verdict, noted) == ("violations", ["chronic"])


def test_ctrl_c_while_a_recording_is_judged_does_not_lose_it(fake, tmp_path, monkeypatch):
    """Without it, the machine would be called clean."""
    messages = [
        {"event": "ready", "bytes": 0},
        {"event": "chronic", "bytes": 3, "number": 1},
        {"event": "end", "bytes": 0, "checks": 3, "confirmed": 0, "seconds": 3.5},
    ]
    imported = iter([KeyboardInterrupt, 4, 4])

    def import_trace(_, output, **more):
        if (wasted_ms := next(imported)) is KeyboardInterrupt:
            raise KeyboardInterrupt
        return written_trace(output, wasted_ms)

    monkeypatch.setattr(io, "import_trace", import_trace)
    sent = "".join(json.dumps(m) + "\n" + ("raw" if m["bytes"] else "") for m in messages)
    fake(sent, "bpf")
    result = check_live(seconds=1, output=tmp_path)
    assert (result.verdict, len(result.chronic)) == ("violations", 1)
    assert [p.name for p in tmp_path.iterdir()] == ["chronic-1.parquet"]
    fake(sent, "bpf")
    check_live(seconds=1, output=tmp_path)  # a second one keeps the recording of the first
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chronic-1.parquet", "chronic-2.parquet"]


def test_a_recording_for_which_there_is_no_room_leaves_no_half_a_file(fake, tmp_path, monkeypatch):
    sent = [{"event": "ready", "bytes": 0}, {"event": "chronic", "bytes": 3, "number": 1}]
    fake("".join(json.dumps(m) + "\n" + ("raw" if m["bytes"] else "") for m in sent), "bpf")

    def full(path, blob):
        path.write_text("h")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match=f"{tmp_path}/chronic-1.wct: No space left on device"):
        check_live(seconds=1, output=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("left", "verdict"), [(False, "violations"), (True, "clean")])
def test_a_service_that_keeps_evidence_answers_with_the_chronic_waste_in_it(
    fake, tmp_path, monkeypatch, left, verdict
):
    """Waste that an earlier process recorded before it was killed does not belong to this watch."""
    waste = {"start_ns": 0, "window_ns": 1_000_000_000, "share": 0.02}
    found = {"kind": "chronic", "chronic": waste, "recording": "c.parquet", "left_by_another": left}

    class Judging:
        def __init__(self, *_, told):
            self.told = told

        def write(self, *_):
            return Path("c.wct")

        def add(self, _):
            self.told("kept", found)

        def finish(self):
            pass

    monkeypatch.setattr(service, "Evidence", Judging)
    chronic = {"event": "chronic", "bytes": 3, "number": 1}
    fake(f"{lines([MESSAGES[0], chronic])}raw{lines([MESSAGES[-1] | {'confirmed': 0}])}", "bpf")
    kept = service.ServiceOptions(output=tmp_path)
    served = service.run_service(kept, LiveOptions(), seconds=1, progress=lambda _: None)
    assert served.verdict == verdict
    assert served.chronic == ([] if left else [{**waste, "evidence": "c.parquet"}])


def test_chronic_waste_in_a_recording_of_tracefs_is_told(fake, tmp_path, monkeypatch):
    """The verdict rests on it, so the answer and the report must not leave it out."""
    fake(TRACE, "tracefs")
    wasting = written_trace(tmp_path / "recording.parquet", wasted_ms=4)
    monkeypatch.setattr(record, "capture", lambda *_, **__: wasting)
    result = check_live(seconds=0.1, output=tmp_path)
    assert (result.verdict, result.worst.kind) == ("violations", "chronic")
    (found,) = result.chronic
    assert found["evidence"] == str(tmp_path / "recording.parquet")
    assert "chronic: in five of ten slices of 100 ms" in _describe(result, None)


def test_recordings_that_decide_nothing_are_limited_too(fake, tmp_path, monkeypatch):
    messages = [
        {"event": "ready", "bytes": 0},
        *({"event": "chronic", "bytes": 3, "number": k} for k in range(8)),
        {"event": "end", "bytes": 0, "checks": 3, "confirmed": 0, "seconds": 3.5},
    ]
    sent = "".join(json.dumps(m) + "\n" + ("raw" if m["bytes"] else "") for m in messages)

    def imported(raw, output, **_):
        if Path(raw).stem == "chronic-7":  # those before it are no reason to lose it
            return written_trace(output, wasted_ms=4)
        rows = [nr(0, 0, 1), nr(0, 1, 1), nr(1_100_000_000, 0, 1)]
        # with a loss of which nobody knows when it was
        write_parquet(trace_of(rows, cpus=2).with_header(lost={0: 5}), output)
        return wastedcores.open_trace(output)

    monkeypatch.setattr(io, "import_trace", imported)
    fake(sent, "bpf")
    result = check_live(LiveOptions(most_recordings=3), seconds=1, output=tmp_path)
    kept = sorted(p.name for p in tmp_path.iterdir())
    assert kept == [f"chronic-{k}.parquet" for k in (0, 1, 2, 7)]
    assert (result.verdict, result.to_json()["kind"]) == ("violations", "chronic")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"persist_ns": 999_999}, "must be at least 1 ms"),
        ({"period_ns": 0}, "must be at least 1 ms"),
        ({"before_s": 601}, "expected 0 to 600"),
    ],
)
def test_live_options_out_of_range(options, says):
    with pytest.raises(UsageError, match=says):
        LiveOptions(**options)


def test_capture_writes_parquet_and_nothing_else(fake, tmp_path):
    asked = fake(TRACE, "tracefs")
    trace = capture(tmp_path / "t.parquet", run=[sys.executable, "-c", "pass"])
    assert trace.header.events
    assert (trace.header.kernel_release, trace.header.clock) == (platform.release(), "mono")
    assert asked == [["tracefs.py", "--until-eof", "--buffer", "8"]]
    assert list(tmp_path.iterdir()) == [tmp_path / "t.parquet"]
    fake(TRACE, "tracefs", code=2)
    reported = []
    capture(tmp_path / "u.parquet", seconds=0.1, progress=reported.append)
    assert any("What it wrote until then is kept." in line for line in reported)


def test_balancing_is_restored_after_an_error(monkeypatch, tmp_path):
    setting = tmp_path / "sched_load_balance"
    monkeypatch.setattr(demonstration, "SETTING", setting)
    with pytest.raises(CollectorError, match="needs root and a cgroup v1 cpuset"), balancing_off():
        pass
    setting.write_text("1\n")

    def fail():
        with balancing_off():
            assert setting.read_text() == "0"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert setting.read_text() == "1"


def test_wakeups_of_the_recorder_do_not_hide_a_violation(fake, tmp_path):
    def switch(s, cpu, before, state, after):
        (name, pid), (next_name, next_pid) = before, after
        return (
            f"  {name}-{pid} [00{cpu}] d..2. {s:.6f}: sched_switch: prev_comm={name} prev_pid={pid} prev_prio=120 "
            f"prev_state={state} ==> next_comm={next_name} next_pid={next_pid} next_prio=120\n"
        )

    idle, recorder, task = ("swapper/1", 0), ("python3", "OWN"), ("b", 6)
    lines = TRACE.splitlines(keepends=True)
    # every 20 ms the recorder runs for 1 ms on the idle CPU, and once it interrupts the task on the other one
    for ms in range(1020, 1300, 20):
        woken = f"  <idle>-0 [001] d..2. {ms / 1000:.6f}: sched_wakeup: comm=python3 pid=OWN prio=120 target_cpu=001\n"
        lines += [woken, switch(ms / 1000, 1, idle, "R", recorder)]
        lines += [switch(ms / 1000 + 0.001, 1, recorder, "S", idle)]
    lines += [switch(1.2055, 0, task, "R+", recorder), switch(1.2065, 0, recorder, "S", task)]
    events = sorted(lines[4:], key=lambda line: float(line.split(": ")[0].split()[-1]))
    fake("".join(lines[:4] + events), "tracefs")
    result = check_live(LiveOptions(persist_ns=100_000_000), seconds=0.1, output=tmp_path)
    assert [v["lasted_ms"] for v in result.violations] == [300]
    table = result.worst.trace.events.collect()
    assert table.height == TRACE.count("sched_")  # exactly the events of the others
    assert {*table["pid"], *table["prev_pid"].drop_nulls()} == {0, 6, 7}


def test_a_killed_collector_makes_the_capture_incomplete(fake, tmp_path):
    fake(TRACE, "tracefs", code=137)
    done = typed("capture", "--seconds", 0.1, "-o", tmp_path / "t.parquet")
    assert done.code == 3
    assert "INCOMPLETE: the collector ended with code 137" in done.out
    assert wastedcores.open_trace(tmp_path / "t.parquet").header.truncated_last_line
    assert list(tmp_path.iterdir()) == [tmp_path / "t.parquet"]


def test_the_raw_recording_is_kept_when_the_parquet_file_cannot_be_written(
    fake, tmp_path, monkeypatch
):
    fake(TRACE, "tracefs")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(record, "import_trace", full)
    kept = "No space left.* The raw recording is kept in"
    with pytest.raises(CollectorError, match=kept) as told:
        capture(tmp_path / "t.parquet", seconds=0.1)
    (raw,) = tmp_path.iterdir()
    assert str(raw) in str(told.value)
    assert raw.read_text() == TRACE


def test_files_of_a_killed_capture_are_named_by_the_next_one_and_by_doctor(
    fake, tmp_path, monkeypatch
):
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / f"old.parquet.{ended.pid}.raw"
    left.write_text(TRACE)
    (tmp_path / f"other.parquet.{os.getpid()}.raw").write_text("still being written")
    fake(TRACE, "tracefs")
    reported = []
    capture(tmp_path / "t.parquet", seconds=0.1, progress=reported.append)
    said = [line for line in reported if "was left by a process that was killed" in line]
    assert [line.split()[0] for line in said] == [str(left)]
    monkeypatch.chdir(tmp_path)
    found = doctor.check_leftovers()
    assert (found.state, found.says) == ("limited", f"unfinished: {left.name}")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_a_duration_must_be_finite(tmp_path, seconds):
    with pytest.raises(UsageError, match="expected a number above 0"):
        capture(tmp_path / "t.parquet", seconds=seconds)
    with pytest.raises(UsageError, match="expected a number above 0"):
        check_live(seconds=seconds)


def test_a_capture_tells_where_each_task_may_run_and_which_groups_are_limited(
    fake, tmp_path, monkeypatch
):
    fake(TRACE, "tracefs")
    counts = iter([{"/a": (2, 9000), "/b": (1, 500)}, {"/a": (5, 20_000), "/b": (1, 500)}])
    monkeypatch.setattr(system, "in_first_namespace", lambda kind: True)
    monkeypatch.setattr(system, "quotas", lambda _: {"/a": 4000})
    monkeypatch.setattr(record, "throttled", lambda: next(counts))
    header = capture(tmp_path / "t.parquet", seconds=0.1).header
    assert header.quotas == {"/a": 4000}
    assert header.provenance["throttled"] == "/a 3 times, 11 ms"
    (mine,) = [t for t in header.tasks if t.pid == os.getpid()]
    assert parse_cpulist(mine.allowed) == sorted(os.sched_getaffinity(0))
    assert mine.kthread is False


def test_a_capture_tells_whose_affinity_changed_and_who_began_meanwhile(
    fake, tmp_path, monkeypatch
):
    fake(TRACE, "tracefs")
    monkeypatch.setattr(system, "in_first_namespace", lambda kind: True)
    cpu = min(os.sched_getaffinity(0))
    code = f"import os, subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid); os.sched_setaffinity(%d, {{{cpu}}})"
    with subprocess.Popen(["sleep", "60"]) as sleeper, (tmp_path / "said").open("w") as said:
        run = [sys.executable, "-c", f"{code % sleeper.pid}; sys.stdout.flush()"]
        monkeypatch.setattr(record.sys, "stderr", said)
        header = capture(tmp_path / "t.parquet", run=run).header
        sleeper.kill()
    began = int((tmp_path / "said").read_text())
    os.kill(began, signal.SIGKILL)
    assert [t.pid for t in header.tasks if "allowed" in t.changed] == [sleeper.pid]
    assert began in [t.pid for t in header.later_tasks]
    assert began not in [t.pid for t in header.tasks]
    assert header.boot_id
    assert header.boot_parameters


def test_a_second_ctrl_c_keeps_the_recording(fake, tmp_path, monkeypatch):
    fake(TRACE, "tracefs")
    stop = record.Collector.stop

    def interrupted(collector):
        stop(collector)
        raise KeyboardInterrupt

    monkeypatch.setattr(record.Collector, "stop", interrupted)
    reported = []
    with pytest.raises(KeyboardInterrupt):
        capture(tmp_path / "t.parquet", seconds=0.1, progress=reported.append)
    (raw,) = tmp_path.iterdir()
    assert raw.read_text() == TRACE
    assert reported[-1] == f"the raw recording is kept in {raw}"
