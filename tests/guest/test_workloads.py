"""Everything that `guest record` takes, run in a guest: recovered workloads, rt-app files, images; and `whatif --confirm`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import polars as pl
import pytest
from support import ROOT
from support.schemas import fits
from support.typed import typed

from wastedcores import open as opened
from wastedcores.guest import Kernel
from wastedcores.guest.boot import Options
from wastedcores.guest.jobs import scenario_work
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.places import GuestError
from wastedcores.guest.record import record_all
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload
from wastedcores.workload.file import write_workload

pytestmark = pytest.mark.slow

US, MS = 1_000, 1_000_000
#: two threads on other CPUs of one machine wake each other; the guest numbers this machine's CPUs otherwise
PING = {
    "tasks": {
        "ping": {"loop": 20, "cpus": [1], "run": 1000, "resume": "pong", "suspend": "ping"},
        "pong": {"loop": 20, "cpus": [3], "suspend": "pong", "run": 3000, "resume": "ping"},
    }
}


def ran_ns(trace, comm: str) -> int:
    """Return the CPU time of the tasks of a name."""
    switches = trace.only("switch").sort("ts_ns").collect()
    total, since = 0, {}
    for ts, cpu, name, before in switches.select(
        "ts_ns", "cpu", pl.col("comm").cast(str), pl.col("prev_comm").cast(str)
    ).iter_rows():
        if before == comm and cpu in since:
            total += ts - since.pop(cpu)
        if name == comm:
            since[cpu] = ts
    return total


@pytest.fixture
def ping(tmp_path):
    file = tmp_path / "ping.json"
    file.write_text(json.dumps(PING))
    return file


def test_an_rtapp_file_runs_for_the_times_that_it_gives(kernel, ping):
    on = guest_machine(Machine.preset("guest-4"))
    trace = record_all([scenario_work(str(ping), on)], kernel, on, Options())[0]
    wakeups = trace.only("wakeup").with_columns(pl.col("comm").cast(str)).collect()
    for comm, run_ns in (("ping-0", 20 * 1000 * US), ("pong-1", 20 * 3000 * US)):
        # what the kernel does for the thread comes on top: a wakeup and a sleep in each round, and the thread's birth
        assert run_ns * 0.999 <= ran_ns(trace, comm) <= run_ns + 20 * 60 * US + 2 * MS
        assert 19 <= wakeups.filter(comm=comm).height <= 22


def test_cpus_that_a_file_names_are_those_of_the_description(kernel, ping):
    """On this machine of two cores with two threads each, the CPUs 1 and 3 are the two threads of one core."""
    on = guest_machine(Machine.preset("i3-7100"))
    assert on.numbers == (0, 2, 1, 3)
    trace = record_all([scenario_work(str(ping), on)], kernel, on, Options())[0]
    ran = trace.only("switch").with_columns(pl.col("comm").cast(str)).collect()
    window = ran.filter(pl.col("comm").is_in(["ping-0", "pong-1"]))
    last = window.group_by("comm").agg(pl.col("cpu").last())
    assert dict(last.iter_rows()) == {"ping-0": 2, "pong-1": 3}


def test_threads_that_are_daemons_end_with_their_process(kernel):
    """The shell's threads compute for ever, and a parent waits for the shell, which sleeps for 0.3 s."""
    on = guest_machine(Machine.preset("bd-paper-16"))
    work = scenario_work("group-construction", on, 1, {"limit_s": 0.3})
    trace = record_all([work], kernel, on, Options(timeout_s=200))[0]
    window = trace.header.window
    assert 0.3 <= (window.end_ns - window.start_ns) / 1e9 <= 0.32
    assert trace.header.end_ns - window.end_ns < 10 * MS


def test_an_image_in_a_file_gives_the_events_of_the_same_kernel_by_name(kernel, ping, tmp_path):
    shutil.copy(kernel.image, tmp_path / "bzImage")
    on = guest_machine(Machine.preset("guest-4"))
    work = scenario_work(str(ping), on)
    by_name, by_file = (
        record_all([work], k, on, Options())[0]
        for k in (kernel, Kernel.of_image(tmp_path / "bzImage"))
    )
    assert by_name.events.collect().equals(by_file.events.collect())
    assert by_file.header.provenance["kernel_sha256"] == kernel.sha256


def test_a_damaged_image_ends_with_the_decompressors_words(kernel, tmp_path):
    image = bytearray(kernel.image.read_bytes())
    middle = len(image) // 2
    image[middle : middle + 1000] = bytes(b ^ 0x5A for b in image[middle : middle + 1000])
    (tmp_path / "bzImage").write_bytes(image)
    done = typed("guest", "boot", "--bzimage", tmp_path / "bzImage", "--timeout", "60")
    assert done.code == 2
    assert "could not be started, because its image is damaged" in done.err
    assert "data is corrupt" in done.err


def test_half_an_image_resets_the_machine(kernel, tmp_path):
    (tmp_path / "bzImage").write_bytes(kernel.image.read_bytes()[: 6 << 20])
    done = typed("guest", "boot", "--bzimage", tmp_path / "bzImage", "--timeout", "60")
    assert done.code == 2
    assert "bzImage: the guest reset the machine or switched it off" in done.err


@pytest.mark.parametrize(
    ("script", "seconds", "words"),
    [
        ("echo last words\necho c > /proc/sysrq-trigger\n", "120", "the guest panicked (Kernel panic - not syncing: sysrq"),
        ("echo last words\nwhile :; do :; done\n", "25", "was stopped after 25 s"),
        ("echo last words\nreboot -f\n", "120", "reset the machine or switched it off"),
    ],
)  # fmt: skip
def test_a_workload_that_ends_the_guest_shows_its_console(kernel, tmp_path, script, seconds, words):
    (tmp_path / "job.sh").write_text(script)
    given = ("--machine", "guest-2", "--timeout", seconds, "--console", tmp_path / "console")
    done = typed("guest", "record", tmp_path / "job.sh", *given, "-o", tmp_path / "out.parquet")
    assert done.code == 2
    assert words in done.err
    assert "The last lines of its console:\n  | " in done.err
    assert "last words" in (tmp_path / "console").read_text()
    assert not (tmp_path / "out.parquet").exists()


def test_a_full_disk_is_told(kernel, tmp_path, monkeypatch):
    """The emulator drops what it cannot write, so the free space is looked at when the guest has ended."""
    import os
    import tempfile

    small = tmp_path / "small"
    small.mkdir()
    if (
        os.geteuid()
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2200k", "none", small], check=False
        ).returncode
    ):
        pytest.skip("only root can make a small file system")
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        on = guest_machine(Machine.preset("bd-paper-16"))
        work = scenario_work("recorded-db", on, 1, {"iterations": 20})
        with pytest.raises(GuestError, match="no space left for what the guest sends"):
            record_all([work], kernel, on, Options())
        assert not list(small.iterdir())
    finally:
        monkeypatch.undo()
        subprocess.run(["umount", small], check=True)


@pytest.fixture(scope="module")
def database(kernel, tmp_path_factory):
    """A recording of a database with barriers, made in a guest."""
    file = tmp_path_factory.mktemp("database") / "db.parquet"
    done = typed(
        "guest",
        "record",
        "recorded-db",
        "--machine",
        "bd-paper-16",
        "--set",
        "iterations=60",
        "-o",
        file,
    )
    assert done.code == 0, done.err
    return file


def test_a_recovered_workload_does_the_recorded_work(database, tmp_path):
    """Its threads compute for what they computed in the recording, and meet at as many barriers."""
    work, again = tmp_path / "workload.json", tmp_path / "again.parquet"
    assert typed("recover", database, "-o", work).code == 0
    done = typed("guest", "record", work, "--machine", "bd-paper-16", "-o", again)
    assert done.code == 0, done.err
    busy = [found.busy_ns for found in (opened_check(database), opened_check(again))]
    assert busy[1] == pytest.approx(busy[0], rel=0.1)
    marks = [
        t.only("mark").filter(pl.col("text").cast(str) == "db end").collect().height
        for t in map(opened, (database, again))
    ]
    assert marks == [1, 1]


def opened_check(file):
    from wastedcores import check

    return check(opened(file), between=("db start", "db end"))


def test_a_prediction_stands_beside_the_truth(database):
    done = typed(
        "whatif",
        database,
        "--to",
        "v6.12.107+NO_NI_RANDOM",
        "--to",
        "core",
        "--seeds",
        "3",
        "--confirm",
        "--confirm-seeds",
        "2",
        "--json",
    )
    assert done.code == 0, done.err
    fits("whatif", json.loads(done.out))
    found = json.loads(done.out)["confirmed"]
    itself, changed = found["kernels"]
    assert (itself["model"], changed["model"]) == ("v6.12.107", "v6.12.107+NO_NI_RANDOM")
    # the recovered work writes the marks of the recorded window, so that the gain is one of time
    # (how near the times are is judged elsewhere: runs of so few iterations differ by a fifth)
    assert json.loads(done.out)["itself"]["window_ns"] is not None
    times = [[run["window_s"] for run in k["recorded"]] for k in (itself, changed)]
    (row,) = found["gains"]
    assert row["booted"] == pytest.approx(sum(1 - b / a for a, b in zip(*times, strict=True)) / 2)
    assert row["noise"] == pytest.approx(abs(1 - times[0][0] / times[0][1]))
    # the same work ran, whatever the kernel
    recorded = opened_check(database)
    for kernel in (itself, changed):
        for run in kernel["recorded"]:
            assert run["busy_cpus"] * run["window_s"] == pytest.approx(
                recorded.busy_ns / 1e9, rel=0.1
            )
    assert "core was not booted: it has a design that no Linux has" in found["notes"][0]


def test_a_bundled_recording_is_made_again_with_the_same_events(kernel):
    """Another host, load and day: the events are the same, because no clock of the host has a part in them."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "remake_recordings.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "group-construction-modern: the same events as in datasets/small" in done.stdout


def test_the_notebook_records_where_the_emulator_is(kernel, tmp_path):
    import nbformat
    import papermill
    from traitlets.config import Config

    values = {"machine": "bd-paper-16", "scenario": "recorded-db", "given": {"iterations": 20}}
    notebook, out = ROOT / "notebooks" / "18_your_kernel_on_64_cpus.ipynb", tmp_path / "out.ipynb"
    how = {"kernel_name": "python3", "progress_bar": False, "cwd": str(tmp_path)}
    how["config"] = Config({"KernelManager": {"transport": "ipc"}})
    papermill.execute_notebook(str(notebook), str(out), parameters=values, **how)
    shown = nbformat.read(out, as_version=4).cells[-1].outputs
    assert "recorded-db" in str(shown)
    assert "v6.12.107" in str(shown)


@pytest.mark.parametrize("synchronous", [False, True])
def test_posts_wake_synchronously_where_the_workload_says_so(kernel, tmp_path, synchronous):
    """A write to a pipe tells the kernel that the waker is about to sleep, so the woken task often gets the waker's CPU."""
    w = Workload("ring")
    tokens = [w.semaphore(int(i < 3)) for i in range(6)]
    for i, token in enumerate(tokens):
        body = Script().loop(100).wait(token).compute(200 * US)
        w.task(f"stage{i}", body.post(tokens[(i + 1) % 6], sync=synchronous).end(), cpu=2 * i)
    write_workload(w, tmp_path / "ring.json")
    on = guest_machine(Machine.preset("bd-paper-16"))
    work = scenario_work(str(tmp_path / "ring.json"), on)
    trace = record_all([work], kernel, on, Options())[0]
    woken = trace.only("waking", "wakeup").collect().sort("ts_ns", maintain_order=True)
    woken = woken.filter(pl.col("comm").cast(str).str.starts_with("stage"))
    wakers = pl.col("src_cpu").shift(1).over("pid")
    placed = woken.with_columns(waker=wakers).filter(kind="wakeup")
    share = (placed["cpu"] == placed["waker"]).mean()
    print(placed.height, share)
    assert placed.height > 100
    assert share > 0.5 if synchronous else share < 0.25
