"""Workloads as jobs for the guest's runner, and what a guest sends back."""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import polars as pl
import pytest

from tools.remake_recordings import RECORDINGS
from wastedcores import open as opened
from wastedcores.errors import UsageError
from wastedcores.guest.boot import Options, archive, check_options, given, setup_script
from wastedcores.guest.compare import _model
from wastedcores.guest.emulator import PATCH, inside_sha256
from wastedcores.guest.jobs import (
    file_work,
    job_text,
    numbered,
    program_work,
    renumbered,
    scenario_work,
    without_kernel,
)
from wastedcores.guest.kernels import Kernel
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.places import GuestError
from wastedcores.guest.record import unpack, with_affinity
from wastedcores.topology.machine import Machine
from wastedcores.trace.schema import conform
from wastedcores.workload import ops
from wastedcores.workload.builder import Creation, Workload
from wastedcores.workload.script import Script

US = 1_000


def test_a_fork_costs_what_the_guests_kernel_takes_and_draws_what_the_replay_draws():
    w = Workload("w")
    child = w.template("child", Script().compute(5))
    script = Script().compute(300 * US).compute(40 * US, 50 * US).touch().fork(child).compute(7)
    w.task("t", script)
    rows = without_kernel(w.program().tasks[0].rows, set())
    computed = [row for row in rows if row[0] == ops.OP_COMPUTE]
    assert [row[4] for row in computed] == [0, 1, 0]
    assert len(rows) == len(w.program().tasks[0].rows)  # jumps go where they went


def test_long_work_before_a_fork_stays_work():
    w = Workload("w")
    w.task("t", Script().compute(1_000 * US).fork(w.template("child", Script().compute(5))))
    assert all(row[4] == 0 for row in without_kernel(w.program().tasks[0].rows, set()))


def test_the_semaphore_of_the_memory_map_is_the_kernels_own():
    w = Workload("w")
    creation = Creation(w)
    lock = w.lock()
    body = Script().lock(lock, "block").compute(9).unlock(lock).compute(11)
    template = creation.template("thread", body)
    w.task("t", creation.create(Script(), template))
    program = w.program()
    shared = {0}
    thread = without_kernel(program.templates[0].rows, shared)
    skipped = [row for row in thread if row[0] in (ops.OP_LOCK, ops.OP_UNLOCK) and row[1] == 0]
    assert [row[4] for row in skipped] == [1] * 4
    kept = [row for row in thread if row[0] in (ops.OP_LOCK, ops.OP_UNLOCK) and row[1] == lock]
    assert [row[4] for row in kept] == [0, 0]
    assert [row[4] for row in thread if row[0] == ops.OP_COMPUTE][-2:] == [0, 0]


def test_kernel_threads_are_left_out_and_numbers_stay():
    on = Machine.preset("bd-paper-16")
    text = job_text(scenario_work_program(on), 1)
    assert "kworker/" not in text
    assert "rcu_sched" not in text
    assert " noise/3\n" in text  # a thread of the recorded program
    tops = int(text.split()[2])
    assert tops == len(
        scenario_work_program(on).tasks
    )  # forked tasks are numbered after all of them


def scenario_work_program(on):
    from wastedcores.workload.scenarios import scenario

    return scenario("recorded-db").workload(on, 1).program()


def test_sleeps_in_ticks_that_the_guest_does_not_have_are_told():
    bundled = program_work("db", scenario_work_program(Machine.preset("bd-paper-16")), 1)
    assert not any("sleep_jiffies" in note for note in bundled.notes)  # only kernel threads do
    w = Workload("w")
    w.task("t", Script().sleep_jiffies(25).compute(5))
    (note,) = program_work("w", w.program(), 1).notes
    assert "(sleep_jiffies)" in note


def test_a_script_gets_its_arguments(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("echo $1\n")
    files = numbered([file_work(script, ["two words"])])
    assert files == {"0.sh": b"set -- 'two words'\necho $1\n"}


def test_programs_that_need_libraries_are_refused():
    with pytest.raises(UsageError, match="needs shared libraries"):
        file_work(Path(shutil.which("ls") or "/bin/ls"))


def test_the_archive_is_one_that_cpio_reads(tmp_path):
    cpio = shutil.which("cpio") or shutil.which("busybox")
    if not cpio:
        pytest.skip("apt install cpio")
    command = [cpio, *([] if cpio.endswith("cpio") else ["cpio"]), "-it"]
    names = subprocess.run(
        command,
        input=gzip.decompress(archive({"init": b"abc", "job/0": b"x"})),
        capture_output=True,
        check=True,
    ).stdout.split()
    assert {b"init", b"job/0", b"dev/console", b"bin"} <= set(names)


def test_a_guest_is_given_a_size_and_an_archive_that_depends_on_nothing_else():
    """The guest reads four bytes at a time."""
    bytes_given = given({"setup": b"echo\n", "0": b"x" * 1001})
    assert len(bytes_given) % 4 == 0
    size = int.from_bytes(bytes_given[:4], "little")
    with tarfile.open(fileobj=io.BytesIO(bytes_given[4 : 4 + size])) as tar:
        assert tar.getnames() == ["job/setup", "job/0"]
        assert tar.extractfile("job/0").read() == b"x" * 1001
        assert {(m.mtime, m.mode) for m in tar} == {(0, 0o755)}
    assert given({"setup": b"echo\n", "0": b"x" * 1001}) == bytes_given


def test_what_was_sent_is_unpacked(tmp_path):
    sent = tmp_path / "sent"
    sent.write_bytes(
        b"@@JOB 0\n@@FILE /proc/cmdline\n@@PIECE 6\na\nb\nc\n@@PIECE 1\n!@@END\n"
        b"@@FILE /sys/kernel/tracing/per_cpu/cpu3/stats\n@@PIECE 40\nentries: 5\noverrun: 2\ndropped events: 4\n"
        b"@@END\n@@DONE 0\n"
    )  # fmt: skip
    (got,) = unpack(sent, tmp_path / "out")
    assert got.text("proc/cmdline") == "a\nb\nc\n!"
    assert got.lost() == ({3: 6}, {3: 2})


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"@@JOB 0\n@@FILE /a\n@@PIECE 9\nxx", "damaged"),
        (b"@@JOB 0\n@@FILE /a\n@@PIECE 2\nxx@@END\n", "0 of 1 recordings whole"),
        (b"@@JOB 0\n@@FILE /../../evil\n@@PIECE 0\n@@END\n", "damaged"),
        (b"rubbish", "damaged"),
    ],
)
def test_damage_is_noticed(tmp_path, sent, words):
    (tmp_path / "sent").write_bytes(sent)
    with pytest.raises(GuestError, match=words):
        unpack(tmp_path / "sent", tmp_path / "out")
    assert not (tmp_path.parent / "evil").exists()


def test_marks_of_affinity_become_events():
    raw = pl.DataFrame(
        {
            "ts_ns": [1, 2, 3],
            "kind": ["mark"] * 3,
            "cpu": [0, 1, 2],
            "pid": [7, 8, 9],
            "text": ["wastedcores affinity 1,65", "start", "wastedcores affinity all"],
        }
    )
    out = with_affinity(conform(raw, "test"), 66)
    assert out["kind"].cast(pl.String).to_list() == ["affinity", "mark", "affinity"]
    assert out["text"].to_list() == [None, "start", None]
    masks = [None if m is None else int.from_bytes(m, "little") for m in out["cpu_mask"]]
    assert masks == [1 << 1 | 1 << 65, None, (1 << 66) - 1]
    assert len(out["cpu_mask"][0]) == 16


def test_a_file_that_is_no_kernel(tmp_path):
    (tmp_path / "vmlinux").write_bytes(b"\x7fELF" + bytes(2000))
    with pytest.raises(GuestError, match="not a compressed kernel image"):
        Kernel.of_image(tmp_path / "vmlinux")


def test_an_old_kernel_is_replayed_with_its_own_domains(tmp_path):
    name, (note,) = _model(Kernel("source:4.19.0", tmp_path / "x", "0", "4.19.0"), ())
    assert name == "v4.19"
    assert "do not read its numbers as those of a real v4.19" in note
    modern = Kernel("debian:6.12.107+deb13-amd64", tmp_path / "x", "0", "6.12.107-1")
    assert _model(modern, ("NO_NI_RANDOM",)) == ("v6.12.107+NO_NI_RANDOM", [])


def test_settings_are_put_in_place_before_the_workload():
    from dataclasses import replace

    on = guest_machine(replace(Machine.preset("guest-4"), boot_online=(0, 1, 3)))
    script = setup_script(on, Options(("NO_NI_RANDOM",), {"kernel.sched_autogroup_enabled": "0"}))
    assert "echo 0 > /sys/devices/system/cpu/cpu2/online" in script
    assert "echo 0 > /proc/sys/kernel/sched_autogroup_enabled" in script
    assert "echo NO_NI_RANDOM > /sys/kernel/debug/sched/features" in script
    with pytest.raises(UsageError, match="expected a name as the kernel prints it"):
        check_options(Options(("ni random; reboot",)))


def test_a_work_knows_its_window():
    on = guest_machine(Machine.preset("bd-paper-16"))
    work = scenario_work("recorded-db", on, 3, {"iterations": 5})
    assert work.window == ("db start", "db end")
    assert work.seed == 3


def test_cpus_of_a_workload_get_the_numbers_of_the_guest():
    """The description numbers the two cores first, and the guest the threads of a core one after the other."""
    on = guest_machine(Machine.preset("i3-7100"))
    assert on.numbers == (0, 2, 1, 3)
    w = Workload("w")
    w.template("child", Script().compute(5), frozenset({1}))
    w.task("t", Script().affinity({0, 2}).compute(5), allowed=[2], cpu=2)
    w.hotplug(5, 3, False)
    found = renumbered(w.program(), on)
    assert found.templates[0].allowed == {2}
    assert (found.tasks[0].allowed, found.tasks[0].start_cpu) == ({1}, 1)
    assert found.masks == (frozenset({0, 1}),)
    assert found.hotplug == ((5, 3, False),)


def test_a_workload_of_a_larger_machine_is_refused():
    w = Workload("w")
    w.task("t", Script().compute(5), allowed=[7], cpu=7)
    with pytest.raises(UsageError, match=r"names CPU 7, and the machine 'guest-4' has CPUs 0 to 3"):
        renumbered(w.program(), guest_machine(Machine.preset("guest-4")))


def test_a_guest_in_which_some_of_the_work_did_not_end_has_no_window():
    from support.builders import trace_of

    from wastedcores.guest.confirm import _counted
    from wastedcores.prediction.one_replay import Task
    from wastedcores.recovery.build import END_MARK
    from wastedcores.workload.program import Costs

    w = Workload("w")
    for name in ("soon", "late"):
        w.task(name, Script().compute(5).mark(END_MARK))
    task = Task(w.program(), Machine.preset("guest-4"), Costs(), None, 0, 0, 90, finite=True)
    texts = ("window begins", END_MARK)
    events = [
        {"ts_ns": ts, "kind": "mark", "cpu": 0, "text": text}
        for ts, text in zip((10, 20, 30), (texts[0], END_MARK, END_MARK), strict=True)
    ]
    on = guest_machine(task.machine)
    window = _counted(trace_of(events, cpus=4), task, on, texts).header.window
    assert (window.start_ns, window.end_ns) == (10, 30)
    with pytest.raises(GuestError, match="did not come to the mark 'recorded work ends'"):
        _counted(trace_of(events[:2], cpus=4), task, on, texts)


def test_work_without_marks_gets_a_task_that_marks_its_window():
    from wastedcores.guest.confirm import with_window
    from wastedcores.prediction.one_replay import Task
    from wastedcores.workload.program import Costs

    w = Workload("w")
    w.task("t", Script().mark("mine").compute(5))
    task = Task(w.program(), Machine.preset("guest-4"), Costs(), None, 200, 30, 90, finite=False)
    program, texts = with_window(task)
    clock = program.tasks[-1]
    assert clock.daemon
    assert [row[:2] for row in clock.rows[:-1]] == [
        (ops.OP_SLEEP, 230), (ops.OP_MARK, 1), (ops.OP_SLEEP, 60), (ops.OP_MARK, 2)
    ]  # fmt: skip
    assert tuple(program.texts[1:]) == texts


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_bundled_recording_was_made_with_the_programs_that_guests_have_now(name):
    """Other programs inside of the guest, or another emulator, would give other events to those who make it again."""
    made = opened(name).header.provenance
    again = (
        "make it again: tools/remake_recordings.py --keep, then tools/make_datasets.py --describe"
    )
    assert made["inside_sha256"] == inside_sha256(), again
    assert hashlib.sha256(PATCH.read_bytes()).hexdigest()[:12] in made["emulator"], again
