"""What the command line of perf says about the tasks that it recorded."""

from __future__ import annotations

import pytest

from wastedcores.trace.readers.support.perf_command import every_cpu, overwrites, some_tasks_only


@pytest.mark.parametrize(
    ("command", "some"),
    [
        ("/usr/bin/perf sched record -- make -j2", False),
        ("perf sched record -p 5", True),
        ("perf record -e sched:sched_switch -a -- sleep 1", False),
        ("perf record -e sched:sched_switch -ag sleep 1", False),
        ("perf record -qae sched:sched_switch sleep 1", False),
        ("perf record --all-cpus -e x -o a.data", False),
        ("perf record -C 1-3 -e x -- sleep 1", False),
        ("perf record --cpu=0 -e x -- sleep 1", False),
        ("perf record -e x ls -a", True),
        ("perf record -e -a -- ls", True),
        ("perf record -e x -- ls -a", True),
        ("perf record -a -p 7 -e x", True),
        ("perf record --per-thread -e x ls", True),
        ("perf record -a -e sched:sched_switch -G group", True),
        ("perf record --cgroup=group -a -e sched:sched_switch", True),
        ("perf record -e sched:sched_switch --exclude-perf -a", True),
        ("perf record -a -e sched:sched_switch --filter prev_pid != 0 -C 0", True),
        ("perf record --call-graph dwarf --max-size 1G -a -e x ls", False),
        ("perf stat -e x ls", False),
        ("", False),
    ],
)
def test_which_tasks_perf_recorded(command, some):
    assert some_tasks_only(command) == some


@pytest.mark.parametrize(
    ("command", "every"),
    [
        ("perf sched record", True),
        ("perf record -a -e sched:sched_switch sleep 1", True),
        ("perf record -e sched:sched_switch -a", True),
        ("perf sched record -- -C 1", True),
        ("perf record -e sched:sched_switch -a -C 0-2", False),
        ("perf record -aC 1 -e sched:sched_switch", False),
        ("perf record --cpu=0 -e sched:sched_switch", False),
        ("perf record -e sched:sched_switch make -a", False),
        ("perf record -a -p 7", False),
        ("perf record -a --call-graph dwarf -C 0-3", False),
        ("perf record -a --max-size=1G sleep 1", True),
        ("perf record -a -k mono -m 16M -g sleep 1", True),
        # the name of the file has a space, and quotation marks are lost
        ("perf record -a -o my file -C 0-3", False),
        ("perf record -a --new-option x -e sched:sched_switch", False),
        ("perf stat -a", False),
        ("", False),
    ],
)
def test_it_is_known_that_all_cpus_were_recorded(command, every):
    assert every_cpu(command) == every


def test_whether_perf_kept_only_the_newest_events():
    assert overwrites("perf record --overwrite -a -e sched:*")
    assert not overwrites("perf record -a -e sched:* -- tool --overwrite")
