"""Guests that are booted: the same events each time, clocks within a round, computed barriers, and failures."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import polars as pl
import pytest

from wastedcores import check
from wastedcores.guest import find_emulator, machines
from wastedcores.guest.boot import ROUND_NS, Options, boot_parameters, initramfs
from wastedcores.guest.jobs import Work, file_work, job_text
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.places import GuestError
from wastedcores.guest.record import record, record_all
from wastedcores.guest.saved import MOST_KEPT, saved_guest, saved_guests
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

pytestmark = pytest.mark.slow

MACHINE = Machine.preset("guest-4")
#: intervals of the barrier, and the work between two of them
INTERVALS, WORK_NS = 40, 1_000_000
#: two threads on each pair of CPUs pass a reading of the clock on, and the other one compares it with its own
CLOCKS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
static volatile long turn, told;
static long earliest = 1L << 60, seen, late;
static long tsc(void){ unsigned a, d; asm volatile("rdtsc" : "=a"(a), "=d"(d)); return (long)d << 32 | a; }
static void bind(int cpu){ cpu_set_t s; CPU_ZERO(&s); CPU_SET(cpu, &s); sched_setaffinity(0, sizeof s, &s); }
static void *other(void *cpu){ bind((long)cpu);
  for (int i = 0; i < 200; i++) { while (turn != 2 * i + 1) asm volatile("pause");
    long later = tsc() - told; /* before the first one this thread was created */
    if (i) { seen++; late += later > 8000; if (later < earliest) earliest = later; }
    turn = 2 * i + 2; } return 0; }
int main(void){ for (long a = 0; a < 4; a++) for (long b = 0; b < 4; b++) if (a != b) { pthread_t t;
  turn = 0; bind(a); pthread_create(&t, 0, other, (void *)b);
  for (int i = 0; i < 200; i++) { told = tsc(); turn = 2 * i + 1; while (turn != 2 * i + 2) asm volatile("pause"); }
  pthread_join(t, 0); }
  printf("@@CLOCKS %ld %ld %ld\n", earliest, late, seen); return 0; }
"""


def barrier_work() -> Work:
    """Four threads that compute for 1 ms and spin at a barrier, each bound to a CPU."""
    w = Workload("barrier")
    meet = w.barrier(4)
    for cpu in range(4):
        script = Script().barrier(meet, "spin")
        if cpu == 0:
            script.mark("begin")
        script.loop(INTERVALS).compute(WORK_NS).barrier(meet, "spin").end()
        w.task(f"spin-{cpu}", script.mark("end") if cpu == 0 else script, allowed=[cpu], cpu=cpu)
    return Work("barrier", {"JOB": job_text(w.program(), 1).encode()}, window=("begin", "end"))


@pytest.fixture(scope="module")
def boots(kernel, tmp_path_factory):
    """The same two works in two boots, and what the console of the first one said."""
    folder = tmp_path_factory.mktemp("guest")
    (folder / "clocks.c").write_text(CLOCKS)
    program = folder / "clocks"
    subprocess.run(
        ["gcc", "-O2", "-static", "-pthread", "-o", program, folder / "clocks.c"], check=True
    )
    works = [barrier_work(), file_work(program)]
    options = Options(console=folder / "console")
    return [
        record_all(works, kernel, guest_machine(MACHINE), options) for _ in range(2)
    ], folder / "console"


def test_the_same_command_gives_the_same_events(boots):
    for first, second in zip(*boots[0], strict=True):
        assert first.events.collect().equals(second.events.collect())
    assert boots[0][0][0].events.collect().height > 50


def test_no_clock_is_further_ahead_than_a_round(boots):
    """A reading that arrives from another CPU is never of the future, and seldom older than two rounds."""
    found = re.search(r"@@CLOCKS (-?\d+) (\d+) (\d+)", boots[1].read_text()).groups()
    earliest, late, seen = map(int, found)
    assert 0 < earliest < ROUND_NS
    assert seen == 12 * 199
    assert late < seen / 50


def test_events_are_in_causal_order(boots):
    """A thread runs only after it was forked or woken, in the order of the file as in that of time."""
    events = boots[0][0][1].events.collect()
    assert events["ts_ns"].is_sorted()
    born = events.filter(pl.col("kind") == "fork")["pid"].to_list()
    for pid in born:
        mine = events.with_row_index().filter(
            pl.col("pid") == pid, pl.col("kind").is_in(["fork", "wakeup_new", "switch"])
        )
        assert mine["kind"].cast(pl.String).to_list()[:3] == ["fork", "wakeup_new", "switch"]


def test_a_spin_barrier_takes_the_computed_time(boots):
    """Between two meetings each thread executes a million instructions, and the last one's arrival is seen within two rounds."""
    window = boots[0][0][0].header.window
    each = (window.end_ns - window.start_ns) / INTERVALS
    # a tick of each CPU comes every 4 intervals; its interrupt executes less than 30,000 instructions
    assert WORK_NS - 32 <= each <= WORK_NS + 2 * ROUND_NS + 30_000 / 4


def test_the_header_says_what_ran(boots, kernel):
    header = boots[0][0][0].header
    assert header.kernel_release == "6.12.107+deb13-amd64"
    assert header.kernel_model == "v6.12.107"
    assert header.lost_total == 0
    assert {d.name for d in header.sched_domains} == {"SMT", "MC"}
    assert "nokaslr" in header.boot_parameters
    assert header.provenance["kernel_sha256"] == kernel.sha256
    assert any(t.comm == "ksoftirqd/3" and t.allowed == "3" for t in header.tasks)
    assert Machine.from_dict(header.machine) == MACHINE
    assert "PLACE_LAG" in header.sched_features


def test_nothing_about_the_tasks_is_in_doubt(boots):
    """The window is shorter than a verdict needs; but the threads, each bound to its CPU, never waited beside an idle one."""
    found = check(boots[0][0][0])
    assert (found.thread_ns, found.affinity_unknown, found.doubts.height) == (0, 0, 0)
    assert found.affinity == "names of kernel threads, snapshot, events"


def test_features_offline_cpus_and_sysctls(kernel):
    machine = Machine.preset("uma8").offline(5)
    options = Options(("NO_PLACE_LAG",), {"kernel.sched_autogroup_enabled": "0"})
    header = record(
        "spmd",
        kernel,
        machine,
        given={"threads": 2, "intervals": 2, "pinned": False},
        options=options,
    ).header
    assert header.cpus_online == [0, 1, 2, 3, 4, 6, 7]
    assert "NO_PLACE_LAG" in header.sched_features
    assert header.provenance["autogroup"] == "0"
    assert {d.span for d in header.sched_domains} == {"0-4,6-7"}


def test_a_work_that_leaves_a_cpu_offline_does_not_change_the_machine_of_the_next(kernel):
    w = Workload("leaves CPU 2 offline")
    w.task("t", Script().compute(20_000_000), allowed=[0], cpu=0)
    for at_ms, online in ((5, False), (8, True), (11, False)):
        w.hotplug(at_ms * 1_000_000, 2, online)
    work = Work("left", {"JOB": job_text(w.program(), 1).encode()})
    made = record_all([work, work], kernel, guest_machine(MACHINE), Options())
    assert [trace.header.cpus_online for trace in made] == [[0, 1, 2, 3]] * 2


def test_a_step_of_hotplug_behind_the_limit_is_not_made(kernel):
    w = Workload("ends before its step")
    w.task("t", Script().compute(200_000_000), allowed=[0], cpu=0)
    w.hotplug(100_000_000, 2, False)
    work = Work("early", {"JOB": job_text(w.program(), 1, limit_ns=20_000_000).encode()})
    (trace,) = record_all([work], kernel, guest_machine(MACHINE), Options())
    names = trace.events.select(pl.col("comm").cast(pl.String)).collect()["comm"]
    assert "cpuhp/2" not in names.to_list()
    # 100 ms before the start, and the 20
    assert trace.header.end_ns - trace.header.start_ns < 150_000_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(("NO_SUCH_THING",)), "takes no NO_SUCH_THING"),
        (Options(parameters="rdinit=/nothing root=/dev/nothing"), "the guest panicked"),
        # with these parameters no guest boots in time, so none was saved that could go on at once
        (Options(timeout_s=2, parameters="test.of=late"), "was stopped after 2 s"),
    ],
)
def test_a_guest_that_fails_shows_its_console(kernel, options, words):
    with pytest.raises(GuestError, match=words) as e:
        record_all([barrier_work()], kernel, guest_machine(MACHINE), options)
    assert "last lines of its console" in str(e.value)


def ended(kernel, folder, number: int) -> int:
    """Send a signal to a boot, and return its exit code."""
    command = [sys.executable, "-m", "wastedcores", "guest", "boot", "--kernel", kernel.name]
    environment = os.environ | {"TMPDIR": str(folder)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        for line in process.stderr:
            if "booting" in line:
                break
        while not running(folder):
            assert process.poll() is None
        process.send_signal(number)
        return process.wait(30)


def running(folder) -> str:
    """Return the processes that name a folder: the emulator's words have that of the initramfs."""
    done = subprocess.run(
        ["pgrep", "-f", "--", f"-initrd {folder}"], capture_output=True, text=True, check=False
    )
    return done.stdout


def test_ctrl_c_leaves_nothing_behind(kernel, tmp_path):
    assert ended(kernel, tmp_path, signal.SIGINT) == 130
    assert not list(tmp_path.iterdir())
    assert not running(tmp_path)


def test_the_emulator_ends_with_the_process_that_started_it(kernel, tmp_path):
    assert ended(kernel, tmp_path, signal.SIGKILL) == -signal.SIGKILL
    for _ in range(50):
        if not running(tmp_path):
            return
        time.sleep(0.1)
    raise AssertionError(running(tmp_path))


def test_a_guest_needs_a_compiler_only_once(kernel, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    from wastedcores.guest.emulator import runner

    assert runner().exists()


@pytest.fixture
def unsaved(kernel):
    """Options of a guest that was never booted, and the file that it will be saved in, which is removed afterwards."""
    options = Options(parameters=f"test.of={os.getpid()}.{time.monotonic_ns()}")
    emulator, on = find_emulator(), guest_machine(MACHINE)
    file = saved_guest(
        emulator, kernel, on.options(), boot_parameters(on, options), initramfs(emulator)
    )
    assert not file.exists()
    yield options, file
    file.unlink(missing_ok=True)


def barrier_events(kernel, options) -> pl.DataFrame:
    return record_all([barrier_work()], kernel, guest_machine(MACHINE), options)[0].events.collect()


def test_a_guest_that_was_saved_goes_on_with_the_same_events(kernel, unsaved, tmp_path, capfd):
    options, file = unsaved
    booted = barrier_events(kernel, options)
    assert file in saved_guests()
    os.utime(file, (1, 1))
    assert barrier_events(kernel, options).equals(booted)
    assert file.stat().st_mtime > 1  # used just now, so it is not the one that is forgotten next
    # a console that keeps everything has the kernel's boot, so that guest is not the saved one
    console = tmp_path / "console"
    assert barrier_events(kernel, replace(options, console=console)).equals(booted)
    assert "Linux version 6.12.107" in console.read_text()


def test_settings_are_made_after_a_guest_has_gone_on(kernel, unsaved):
    options, file = unsaved
    barrier_events(kernel, options)
    saved = file.read_bytes()
    header = record_all(
        [barrier_work()], kernel, guest_machine(MACHINE), replace(options, features=("NO_PLACE_LAG",))
    )[0].header  # fmt: skip
    assert "NO_PLACE_LAG" in header.sched_features
    assert file.read_bytes() == saved


def test_a_damaged_saved_guest_is_made_again(kernel, unsaved):
    options, file = unsaved
    booted, size = barrier_events(kernel, options), file.stat().st_size
    with file.open("r+b") as saved:
        saved.truncate(size // 2)
    assert barrier_events(kernel, options).equals(booted)
    assert file.stat().st_size > size * 0.9


def test_a_guest_that_is_stopped_while_it_boots_is_not_saved(kernel, unsaved):
    options, file = unsaved
    with pytest.raises(GuestError, match="was stopped after 2 s"):
        barrier_events(kernel, replace(options, timeout_s=2))
    assert not list(file.parent.glob(f"{file.name}*"))


def test_the_least_recently_used_saved_guests_are_forgotten(kernel, unsaved):
    options, file = unsaved
    file.parent.mkdir(exist_ok=True)
    old = [file.with_name(f"{n}-{file.name}") for n in range(MOST_KEPT)]
    for n, other in enumerate(old):
        other.touch()
        os.utime(other, (n, n))
    try:
        barrier_events(kernel, options)
        assert file.exists()
        assert len(saved_guests()) == MOST_KEPT
        assert not old[0].exists()
    finally:
        for other in old:
            other.unlink(missing_ok=True)


def test_interrupt_controllers_with_numbers_of_32_bits(kernel, monkeypatch, tmp_path):
    """More than 255 CPUs have them; here the limit is moved, so that four CPUs show that they work."""
    monkeypatch.setattr(machines, "MOST_XAPIC_ID", 2)
    (tmp_path / "job.sh").write_text("dmesg | grep x2apic > /dev/ttyS0\n")
    options = Options(console=tmp_path / "console")
    on = guest_machine(MACHINE)
    work = [file_work(tmp_path / "job.sh"), barrier_work()]
    _, found = record_all(work, kernel, on, options)
    assert "Switched APIC routing to: physical x2apic" in options.console.read_text()
    window = found.header.window
    each = (window.end_ns - window.start_ns) / INTERVALS
    assert WORK_NS - 32 <= each <= WORK_NS + 2 * ROUND_NS + 30_000 / 4
