"""What the head of a recording of perf says about the machine and the buffers, in perf.data and in text."""

from __future__ import annotations

import pytest
from support import perf_file as pf

from wastedcores.capture.snapshot import Snapshot, with_snapshot
from wastedcores.trace.io import open_trace

TEXT = """\
# nrcpus online : {online}
# nrcpus avail : {cpus}
# cmdline : /usr/bin/perf {command}
"""
LINE = """\
               a    10 [000] {t}: sched:sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=R ==> next_comm=b \
next_pid=12 next_prio=120
"""


def text(tmp_path, cpus=4, online=4, command="sched record -- sleep 1"):
    path = tmp_path / "trace.txt"
    head = TEXT.format(online=online, cpus=cpus, command=command)
    path.write_text(head + LINE.format(t="1.000000") + LINE.format(t="1.500000"))
    return open_trace(path)


def binary(tmp_path, cpus=4, online=4):
    path = tmp_path / "perf.data"
    values = b"a", 10, 120, 0, b"b", 12, 120
    data = pf._sample(10**9, 0, 10, pf.payload("sched_switch", *values, by=10))
    command = b"perf", b"sched", b"record"
    path.write_bytes(pf.file_of(data, cpus, command=command, online=online))
    return open_trace(path)


@pytest.mark.parametrize("opened", [text, binary])
def test_where_some_cpus_were_offline_nobody_knows_which(tmp_path, opened):
    """perf writes how many CPUs there are and how many were online; CPUs 0, 1 and 3 are three, too."""
    header = opened(tmp_path, online=3).header
    assert (header.cpus, header.cpus_online) == (4, None)
    header = opened(tmp_path).header
    assert (header.cpus, header.cpus_online) == (4, [0, 1, 2, 3])


@pytest.mark.parametrize("later", ["0-1,3", "0-2"])
def test_a_snapshot_says_which_cpus_were_online(tmp_path, later):
    """It does not say it if others were online in the snapshot at the end."""
    trace = text(tmp_path, online=3)
    taken = {"kernel": "6.1", "boottime_ns": 10**9, "unix_ns": 10**18, "tasks": []}
    taken["tasks"] = [{"pid": 10, "comm": "a"}]
    first, last = (taken | {"machine": {"cpus": 4, "boot_online": o}} for o in ("0-1,3", later))
    header = with_snapshot(trace, Snapshot(**first, last=Snapshot(**last)), "tasks.json").header
    assert header.cpus_online == ([0, 1, 3] if later == "0-1,3" else None)


def test_snapshots_of_a_kernel_that_counts_say_which_cpus_there_were(tmp_path):
    """Text without a head tells nothing of CPU 1, on which no event happened."""
    path = tmp_path / "trace.txt"
    path.write_text(LINE.format(t="1.000000") + LINE.format(t="1.500000"))
    taken = {"kernel": "6.1", "boottime_ns": 10**9, "unix_ns": 10**18}
    taken["tasks"] = [{"pid": 10, "comm": "a"}]
    zero = {"ran_ns": 0, "slices": 0, "busy_ns": 0, "idle_ns": 0}
    taken["cpu_counts"] = {0: zero, 1: zero}
    snapshot = Snapshot(**taken, last=Snapshot(**taken))
    header = with_snapshot(open_trace(path), snapshot, "tasks.json").header
    assert (header.cpus, header.cpus_online) == (2, [0, 1])


def test_only_perf_data_says_that_all_cpus_were_recorded(tmp_path):
    """perf script -C 0 prints the head of a recording of all CPUs, and the events of one."""
    assert binary(tmp_path).header.every_cpu
    assert not text(tmp_path).header.every_cpu


def test_the_text_of_a_recording_that_overwrites_its_oldest_events(tmp_path):
    header = text(tmp_path, command="record --overwrite -a -e sched:*").header
    assert (header.overwritten, header.lost) == ({-1: -1}, {-1: -1})
    assert not text(tmp_path).header.overwritten


def test_the_threads_of_others_have_no_number_to_perf_in_a_container(tmp_path):
    """Thread 10 wakes another one from a busy CPU; perf says that thread 0 did, as of the idle task, the kernel knows better."""
    wakeup = "{comm:>16} {pid:5d} [000] 1.{n}: sched:sched_wakeup: comm=c pid=13 prio=120 target_cpu=001\n"
    (tmp_path / "trace.txt").write_text(
        wakeup.format(comm="swapper", pid=0, n="100000")
        + LINE.format(t="1.200000").replace("a    10 ", "swapper     0 ", 1)
        + wakeup.format(comm="perf", pid=5, n="300000")
    )
    woken = open_trace(tmp_path / "trace.txt").only("wakeup").collect()
    assert woken["by_pid"].to_list() == [None, None]
    data = pf._sample(10**9, 0, 0, pf.payload("sched_wakeup", b"c", 13, 120, 1, by=10))
    (tmp_path / "perf.data").write_bytes(pf.file_of(data, 2))
    woken = open_trace(tmp_path / "perf.data").only("wakeup").collect()
    assert woken["by_pid"].to_list() == [10]
