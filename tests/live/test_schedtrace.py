"""The recorder on this kernel: its files are complete, losses are counted, and files are readable whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import wastedcores
from wastedcores.analysis.transitions import modes
from wastedcores.capture import capture
from wastedcores.capture.demonstration import online_again
from wastedcores.trace.readers.schedtrace import reader
from wastedcores.trace.schema import TRANSITIONS
from wastedcores.trace.trace import Trace

SLEEPS = 23  # a prime, so that the count cannot match by accident (bcc, CONTRIBUTING-SCRIPTS.md)


def churn(seconds: float, trips: int = 0) -> None:
    """Run two processes that wake each other as fast as they can, for a time and for at least a number of trips."""
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", CHURN, str(seconds), str(trips)],
        check=True,
        stdout=subprocess.DEVNULL,
    )


CHURN = """
import os, sys, time
a, b = os.pipe(), os.pipe()
end, trips = time.monotonic() + float(sys.argv[1]), int(sys.argv[2])
if os.fork():
    n = 0
    while time.monotonic() < end or n < trips:
        os.write(a[1], b'x'); os.read(b[0], 1); n += 1
    os.write(a[1], b'q')
    os.wait()
else:
    while os.read(a[0], 1) == b'x':
        os.write(b[1], b'x')
"""


def counters(file: Path) -> np.ndarray:
    """Return the last counters of a capture, one row per CPU."""
    last = None
    with reader.SchedTraceReading(file) as reading:
        for block, payload in reading.blocks():
            if block["type"] == reader.COUNTERS_BLOCK:
                last = np.frombuffer(payload, reader.COUNTERS)
    return last


@pytest.mark.parametrize("typed", [True, False], ids=["typed", "untyped"])
def test_every_event_of_a_known_workload_is_there(tracer, sleeper, typed):
    t = tracer(*([] if typed else ["--untyped"]))
    pid = sleeper(SLEEPS)
    assert t.end() == 0
    trace = wastedcores.open_trace(t.file)
    assert trace.header.lost == {}
    events = trace.events.collect()
    mine = events.filter(pl.col("pid") == pid)
    kinds = dict(mine.group_by("kind").len().iter_rows())
    assert kinds["fork"] == kinds["wakeup_new"] == kinds["exec"] == kinds["exit"] == 1
    named = mine.filter(pl.col("comm") == "wc-sleeper")
    # each sleep is a switch away in state S, a wakeup and a switch back; it may also wait for pages or be preempted
    out = events.filter((pl.col("prev_pid") == pid) & (pl.col("prev_comm") == "wc-sleeper"))
    slept = out.filter(pl.col("prev_state") == "S").height
    assert slept == SLEEPS
    woken = named.filter(pl.col("kind") == "wakeup").height
    assert woken == out.filter(pl.col("prev_state").is_in(["S", "D"])).height
    assert named.filter(pl.col("kind") == "switch").height >= SLEEPS


def test_transitions_of_a_known_program(tracer):
    t = tracer(
        "--events",
        "nr_running,switch,wakeup,wakeup_new,migrate,fork,exec,exit,affinity,transitions",
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", CALLS], capture_output=True, text=True, check=True
    )
    assert t.end() == 0
    trace = wastedcores.open_trace(t.file)
    assert trace.header.lost == {}
    pid, before, faults, after = (int(x) for x in done.stdout.split())
    mine = trace.only("kernel_entry", "kernel_exit").filter(pl.col("pid") == pid).collect()
    entries = mine.filter(pl.col("kind") == "kernel_entry")
    assert entries.filter(pl.col("text") == "getppid").height == 1000
    inside = mine.filter(pl.col("ts_ns").is_between(before, after), pl.col("op") == "fault")
    counted = inside.group_by("kind").len().sort("kind")["len"].to_list()
    assert faults >= 500
    assert counted == [faults, faults]
    # the recording alone tells all of the time of the program between the two readings of the clock
    table = modes(trace, before, after).filter(pl.col("pid") == pid)
    assert set(table["mode"]) == {"user", "kernel"}
    without = Trace(trace.without(*TRANSITIONS), trace.header)
    assert wastedcores.check(trace).to_json() == wastedcores.check(without).to_json()


#: a thousand system calls, and faults that the kernel counts between two readings of the clock
CALLS = """
import mmap, os, resource, time
for _ in range(1000):
    os.getppid()
area = mmap.mmap(-1, 500 * 4096)
count = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[6:8])
first, begin = count(), time.monotonic_ns()
for at in range(0, 500 * 4096, 4096):
    area[at] = 1
end, last = time.monotonic_ns(), count()
print(os.getpid(), begin, last - first, end)
"""


def test_the_waker_is_known_across_cpus(tracer):
    if os.cpu_count() < 2:
        pytest.skip("needs two CPUs")
    t = tracer()
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", APART], capture_output=True, text=True, check=True
    )
    assert t.end() == 0
    one, two = (int(x) for x in done.stdout.split())
    wakeups = wastedcores.open_trace(t.file).events.filter(pl.col("kind") == "wakeup").collect()
    for pid, cpu, other, from_cpu in ((one, 0, two, 1), (two, 1, one, 0)):
        mine = wakeups.filter(pl.col("pid") == pid, pl.col("cpu") == cpu)
        by_other = mine.filter(pl.col("by_pid") == other)
        assert by_other.height > 100
        # all other wakeups end one of the thousand sleeps, or a wait for a page at the start
        assert mine.height - by_other.height <= 1020
        assert by_other.filter(pl.col("src_cpu") == from_cpu).height >= by_other.height - 2


#: two processes on two CPUs that answer each other a thousand times and sleep in between
APART = """
import os, time
a, b = os.pipe(), os.pipe()
child = os.fork()
os.sched_setaffinity(0, {0 if child else 1})
for _ in range(1000):
    if child:
        time.sleep(0.0002); os.write(a[1], b'x'); os.read(b[0], 1)
    else:
        os.read(a[0], 1); time.sleep(0.0002); os.write(b[1], b'x')
if child:
    os.wait(); print(os.getpid(), child)
"""


def threads() -> set[int]:
    """Return all thread ids except those of PID 1, which a sandbox may hide from BPF iterators (seen on 6.18)."""
    return {
        int(p.name)
        for p in Path("/proc").glob("[0-9]*/task/[0-9]*")
        if p.parts[2] not in ("1", str(os.getpid()))
    } | {os.getpid()}


def test_start_state_names_every_task_and_runqueue(tracer):
    before = threads()
    t = tracer("--seconds", "0.3")
    assert t.process.wait(30) == 0
    tids = before & threads()
    events = wastedcores.open_trace(t.file).events.collect()
    found = events.filter(pl.col("kind") == "task_state")
    assert len(set(found["pid"]) & tids) > 0.9 * len(tids)
    assert (
        found.filter(pl.col("pid") == os.getpid())["comm"][0]
        == Path("/proc/self/comm").read_text().strip()
    )
    first = events.filter(pl.col("kind") == "nr_running").group_by("cpu").first()
    assert set(first["cpu"]) == set(range(os.cpu_count()))


def test_agrees_with_the_kernels_own_tracefs(tracer, root):
    folder = Path("/sys/kernel/tracing")
    if not (folder / "instances").is_dir():
        pytest.skip("tracefs is not mounted")
    own = folder / "instances" / f"wc-test-{os.getpid()}"
    own.mkdir()
    switches = [own / "events/sched" / e / "enable" for e in ("sched_wakeup", "sched_wakeup_new")]
    try:
        (own / "trace_clock").write_text("mono")
        (own / "buffer_size_kb").write_text("16384")
        for s in switches:
            s.write_text("1")
        t = tracer()
        churn(0.5, trips=3000)
        assert t.end() == 0
        for s in switches:
            s.write_text("0")
        text = t.file.with_suffix(".txt")
        text.write_text((own / "trace").read_text())
    finally:
        for s in switches:
            s.write_text("0")
        own.rmdir()
    ours = (
        wastedcores.open_trace(t.file)
        .events.filter(pl.col("kind").is_in(["wakeup", "wakeup_new"]))
        .collect()
    )
    low, high = ours["ts_ns"].min() + 1_000_000, ours["ts_ns"].max() - 1_000_000
    theirs = wastedcores.open_trace(text).events.collect()
    inside = pl.col("ts_ns").is_between(low, high)
    # compare the two busy tasks, and only in this direction: on some virtual machines the kernel's own tracefs misses
    # remote wakeups (it had 7,599 of 8,000 round trips of `perf bench sched pipe` on 6.18, the collector 8,002)
    pair = ours.filter(inside).group_by("pid").len().top_k(2, by="len")
    assert pair["len"].sum() > 1000
    seen = ours.filter(inside, pl.col("pid").is_in(pair["pid"].to_list()))["ts_ns"]
    kernel = theirs.filter(
        pl.col("ts_ns").is_between(seen.quantile(0.01), seen.quantile(0.99)),
        pl.col("pid").is_in(pair["pid"].to_list()),
    ).sort("ts_ns")
    assert kernel.height > 1000
    near = kernel.select("ts_ns", "pid").join_asof(
        ours.select("ts_ns", "pid", found="ts_ns").sort("ts_ns"),
        on="ts_ns",
        by="pid",
        strategy="nearest",
        tolerance=10_000,
        check_sortedness=False,
    )
    # if a virtual CPU is stopped between the two probes of one wakeup, their times differ by more
    assert near["found"].null_count() <= kernel.height // 1000
    counts = kernel.group_by("pid").len(name="kernel")
    between = pl.col("ts_ns").is_between(seen.quantile(0.01), seen.quantile(0.99))
    both = counts.join(ours.filter(between).group_by("pid").len(), on="pid")
    assert (
        both["kernel"] - both["len"].cast(pl.Int64)
    ).max() <= 1  # one may lie at the window's edge


def test_loss_is_counted_to_the_event(tracer):
    t = tracer("--buffer", "0.0625")
    t.process.send_signal(
        signal.SIGSTOP
    )  # the reader stops while the kernel fills two rings of 4096 records
    churn(0, trips=10_000)
    t.process.send_signal(signal.SIGCONT)
    time.sleep(0.3)
    churn(0.2)
    assert t.end() == 0
    c = counters(t.file)
    assert c["lost"].sum() > 1000
    assert (c["seen"] == c["written"] + c["lost"]).all()
    trace = wastedcores.open_trace(t.file)
    assert trace.header.lost == {i: int(n) for i, n in enumerate(c["lost"]) if n}
    events = trace.events.collect()
    lost = events.filter(pl.col("kind") == "lost")
    assert lost["value"].sum() == c["lost"].sum()
    kept = event_records(t.file)
    assert kept.sum() == c["written"].sum()
    # the reader shows every record except names; for switches it may add some that the kernel hid
    kinds = dict(events.group_by("kind").len().iter_rows())
    for name in ("wakeup", "wakeup_new", "migrate", "fork", "exec", "exit"):
        assert kinds.get(name, 0) == kept[reader.KINDS[name]], name
    assert wastedcores.check(trace).verdict == "unknown"


def event_records(file: Path) -> np.ndarray:
    """Count the records in the file by kind, without names, masks and reports of losses, which belong to other records."""
    count = np.zeros(32, np.int64)
    with reader.SchedTraceReading(file) as reading:
        for block, payload in reading.blocks():
            if block["type"] == reader.EVENTS_BLOCK:
                w0 = np.frombuffer(payload, reader.RECORD)["w0"]
                kind = (w0 >> np.uint64(48) & np.uint64(31)).astype(np.int64)
                count += np.bincount(kind, minlength=32)
    count[[reader.KINDS[k] for k in ("name", "mask", "lost")]] = 0
    return count


@pytest.mark.slow
def test_killed_collector_leaves_all_but_the_last_second(tracer):
    t = tracer()
    churn(1.5)
    killed = time.monotonic_ns()
    t.process.kill()
    t.process.wait()
    trace = wastedcores.open_trace(t.file)
    assert "cut" in trace.header.provenance
    assert killed - trace.header.end_ns < 1_000_000_000
    assert trace.header.events > 1000
    assert trace.header.lost == {}


def test_half_a_block_at_the_end_is_left_out(tracer):
    t = tracer()
    churn(0.3)
    assert t.end() == 0
    whole = wastedcores.open_trace(t.file).header
    data = t.file.read_bytes()
    for cut in (len(data) - 7, len(data) // 2, len(data) // 3 + 1):
        t.file.write_bytes(data[:cut])
        part = wastedcores.open_trace(t.file).header
        assert "cut" in part.provenance
        assert part.events <= whole.events
    assert "cut" not in whole.provenance


def test_a_full_disk_is_reported_and_the_file_opens(tracer, tmp_path, bpf, root):
    disk = tmp_path / "disk"
    disk.mkdir()
    # this has room for the state at the start, whose size depends on the number of tasks, and for several blocks
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=True)
    try:
        t = tracer(name="disk/t.wct")
        end = time.monotonic() + 60
        while t.process.poll() is None and time.monotonic() < end:
            churn(0.5)
        assert t.process.wait(1) == 2
        assert "disk full" in t.process.stderr.read()
        trace = wastedcores.open_trace(t.file)
        assert trace.header.events > 100
        assert "disk full" in trace.header.provenance.get("ended", "cut")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_cpu_goes_offline_and_comes_back(tracer, root):
    cpu = os.cpu_count() - 1
    switch = Path(f"/sys/devices/system/cpu/cpu{cpu}/online")
    if not switch.exists() or cpu == 0:
        pytest.skip("no CPU can be taken offline here")
    t = tracer()
    with online_again(cpu):
        churn(0.2)
        switch.write_text("0")
        churn(0.3)
        gone = time.monotonic_ns()
        switch.write_text("1")
        back = time.monotonic_ns()
    churn(0.3)
    assert t.end() == 0
    trace = wastedcores.open_trace(t.file)
    assert trace.header.lost == {}
    online = trace.events.filter(pl.col("kind") == "cpu_online").collect()
    assert online.select("cpu", "value").rows() == [(cpu, 0), (cpu, 1)]
    down, up = online["ts_ns"]
    assert down < gone < up <= back
    on_it = trace.events.filter((pl.col("kind") == "switch") & (pl.col("cpu") == cpu)).collect()[
        "ts_ns"
    ]
    assert on_it.filter(on_it < gone).len()
    assert on_it.filter(on_it > back).len()


def test_a_thousand_forks_a_second(tracer):
    t = tracer()
    code = (
        "import os,time\nend=time.monotonic()+1\nn=0\n"
        "while time.monotonic()<end:\n"
        " p=os.fork()\n"
        " if not p: os._exit(0)\n"
        " os.waitpid(p,0); n+=1\n"
        "print(n)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert t.end() == 0
    n = int(done.stdout)
    trace = wastedcores.open_trace(t.file)
    assert trace.header.lost == {}
    forks = trace.events.filter(pl.col("kind") == "fork").collect()
    parent = forks["by_pid"].mode()[0]
    mine = forks.filter(pl.col("by_pid") == parent)
    assert mine.height == n
    ended = trace.events.filter(pl.col("kind") == "exit").collect()
    assert set(mine["pid"]) <= set(ended["pid"])
    assert set(mine["comm"].cast(pl.String)) == set(mine["by_comm"].cast(pl.String))


@pytest.mark.slow
def test_two_captures_at_once_see_the_same(tracer):
    one = tracer(name="one.wct")
    two = tracer(name="two.wct")
    churn(0.5, trips=3000)
    assert two.end() == 0
    assert one.end() == 0
    a, b = wastedcores.open_trace(one.file), wastedcores.open_trace(two.file)
    assert a.header.lost == b.header.lost == {}
    low, high = b.header.start_ns + 50_000_000, b.header.end_ns - 50_000_000
    inside = (pl.col("kind") == "wakeup") & pl.col("ts_ns").is_between(low, high)
    na, nb = (x.events.filter(inside).select(pl.len()).collect().item() for x in (a, b))
    assert nb > 1000
    assert abs(na - nb) <= 2  # an event at the edge of the window may be in only one of them


@pytest.mark.slow
def test_flight_recorder_keeps_the_last_seconds(tracer):
    t = tracer("--flight", "0.5")
    churn(1.5)
    assert t.end() == 0
    header = wastedcores.open_trace(t.file).header
    assert 300_000_000 < header.end_ns - header.start_ns < 800_000_000
    assert header.lost == {}


def test_flight_recorder_too_small_for_the_time_is_complete_from_where_it_starts(tracer):
    t = tracer("--flight", "30", "--buffer", "0.0625")
    churn(0, trips=10_000)
    assert t.end() == 0
    trace = wastedcores.open_trace(t.file)
    events = trace.events.filter(pl.col("kind") == "switch").collect()
    assert events.height > 500
    busy = events.filter(pl.col("cpu") == events["cpu"].mode()[0])
    chain = (busy["prev_pid"] == busy["pid"].shift(1)).slice(1)
    assert chain.mean() > 0.99


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_capture_command_ends_cleanly(bpf, tmp_path, number):
    out = tmp_path / "c.parquet"
    argv = [sys.executable, "-m", "wastedcores.cli", "capture", "-o", str(out)]
    argv[1:3] = ["-c", "from wastedcores.cli import main; main()"]
    run = subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in run.stderr:
        if "events" in line:
            break
    run.send_signal(number)
    stdout, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    assert "events" in stdout
    trace = wastedcores.open_trace(out)
    assert "cut" not in trace.header.provenance
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_capture_keeps_what_a_killed_collector_wrote(bpf, tmp_path):
    out, lines = tmp_path / "c.parquet", []

    def kill_it():
        time.sleep(1.0)
        for status_file in Path("/proc").glob("[0-9]*/cmdline"):
            argv = status_file.read_bytes().split(b"\0")
            mine = status_file.with_name("stat").read_text().rpartition(") ")[2].split()[1]
            if b"schedtrace.py" in b" ".join(argv) and int(mine) == os.getpid():
                os.kill(int(status_file.parent.name), signal.SIGKILL)

    def progress(line):
        lines.append(line)
        if line.startswith("1 s"):
            threading.Thread(target=kill_it).start()

    trace = capture(out, seconds=30, progress=progress)
    assert "cut" in trace.header.provenance
    assert any("kept" in line for line in lines)
    assert trace.header.end_ns - trace.header.start_ns > 1_000_000_000
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_capture_with_pseudonyms_leaves_no_name_of_a_program(bpf, tmp_path):
    out = tmp_path / "c.parquet"
    argv = ["-m", "wastedcores", "capture", "-o", str(out), "--pseudonyms", str(tmp_path / "k")]
    command = ["--", sys.executable, "-c", "import time; time.sleep(0.3)"]
    subprocess.run([sys.executable, *argv, *command], check=True, capture_output=True)
    trace = wastedcores.open(out)
    assert trace.header.host.startswith("host-")
    names = set(trace.events.select(pl.col("comm").cast(pl.String).unique()).collect()["comm"])
    assert any(n.startswith("task-") for n in names - {None})
    assert not [n for n in names - {None} if n.startswith(("python", "sh", "bash", "systemd"))]
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".part"] == []


def test_capture_runs_a_command(bpf, tmp_path):
    trace = capture(
        tmp_path / "c.parquet", run=[sys.executable, "-c", "import time; time.sleep(0.3)"]
    )
    assert trace.header.machine is not None
    assert trace.header.end_ns - trace.header.start_ns > 300_000_000
    # the source is the command, not the name and hash of the temporary file
    assert "time.sleep(0.3)" in trace.header.provenance["source"]
    assert "source_sha256" not in trace.header.provenance
    assert wastedcores.check(trace).verdict in ("clean", "violations")


def test_tracefs_backend_records_and_leaves_nothing_behind(root, tmp_path):
    before = sorted(Path("/sys/kernel/tracing/instances").iterdir())
    run = [sys.executable, "-I", "-S", "-c", CHURN, "0", "3000"]
    trace = capture(tmp_path / "t.parquet", run=run, backend="tracefs")
    kinds = trace.kinds()
    assert kinds["switch"] > 1000
    assert kinds["wakeup"] > 500
    assert sorted(Path("/sys/kernel/tracing/instances").iterdir()) == before


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def test_collector_gives_up_its_privileges_and_opens_no_port(tracer):
    env = {**os.environ, "SUDO_UID": "65534", "SUDO_GID": "65534"}
    own = (
        tempfile.mkdtemp()
    )  # the file is opened with the caller's rights, so its folder is the caller's
    os.chown(own, 65534, 65534)
    t = tracer(name=f"{own}/t.wct", env=env)
    s = status(t.process.pid)
    assert int(s["CapEff"], 16) == int(s["CapPrm"], 16) == 0
    assert set(s["Uid"].split()) == {"65534"}
    assert s["NoNewPrivs"].strip() == "1"
    links = [os.readlink(p) for p in Path(f"/proc/{t.process.pid}/fd").iterdir()]
    assert not [x for x in links if x.startswith("socket:")]
    assert t.end() == 0
    assert (t.file.stat().st_uid, t.file.stat().st_gid) == (65534, 65534)
    assert wastedcores.open_trace(t.file).header.events
    shutil.rmtree(own)
