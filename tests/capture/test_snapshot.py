"""The snapshot of all tasks: it says of a real task what the kernel was told about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.typed import typed

from wastedcores.capture import snapshot as module
from wastedcores.errors import CollectorError, TraceFormatError


@pytest.fixture
def here(monkeypatch):
    """Let the test pass in a container too."""
    monkeypatch.setattr(module, "_in_first_namespace", lambda kind: True)


def test_a_pinned_thread_and_a_kernel_thread_named_alike(here, tmp_path):
    cpu = max(os.sched_getaffinity(0))
    code = (
        f"import os,sys,time\nos.sched_setaffinity(0, {{{cpu}}})\nos.nice(3)\n"
        "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))\n"
        "open('/proc/self/comm', 'w').write('kworker/0:7) (')\nprint(flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        done = typed("snapshot", "-o", tmp_path / "tasks.json")
        child.communicate()
    assert done.code == 0
    taken = module.read_snapshot(tmp_path / "tasks.json")
    tasks = {t["pid"]: t for t in taken["tasks"]}
    assert done.out == f"{tmp_path / 'tasks.json'}: {len(tasks):,} tasks\n"
    mine = tasks[child.pid]
    assert mine["comm"] == "kworker/0:7) ("
    assert (mine["tgid"], mine["ppid"]) == (child.pid, os.getpid())
    assert (mine["kthread"], mine["policy"], mine["rt_prio"]) == (False, "batch", 0)
    assert mine["nice"] == os.nice(0) + 3
    assert mine["allowed"] == str(cpu)
    if 2 in tasks and tasks[2]["comm"] == "kthreadd":
        assert tasks[2]["kthread"]
    assert taken["kernel"] == os.uname().release


def test_quotas_of_both_versions(here, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_cpu_hierarchy", lambda: tmp_path)
    assert module.quotas() == {}
    for group, name, text in (
        ("a/b", "cpu.max", "4000 1000000\n"),
        ("a", "cpu.max", "max 100000\n"),
        ("c", "cpu.cfs_quota_us", "-1\n"),
        ("d", "cpu.cfs_quota_us", "2500\n"),
    ):
        (tmp_path / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / group / name).write_text(text)
    assert module.quotas() == {"/a/b": 4000, "/d": 2500}
    monkeypatch.setattr(module, "_in_first_namespace", lambda kind: kind != "cgroup")
    assert module.quotas() is None


def test_a_container_does_not_know_the_pids_of_a_trace(monkeypatch):
    monkeypatch.setattr(module, "_in_first_namespace", lambda kind: False)
    with pytest.raises(CollectorError, match="Take the snapshot on the host"):
        module.snapshot()


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"schema": "wastedcores.check/1"})])
def test_other_files_are_refused(tmp_path: Path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(TraceFormatError, match="not a snapshot of tasks"):
        module.read_snapshot(tmp_path / "x.json")


def test_a_group_of_each_version():
    assert module._cpu_group("4:memory:/m\n2:cpu,cpuacct:/limited\n0::/u\n") == "/limited"
    assert module._cpu_group("0::/user.slice/a:b\n") == "/user.slice/a:b"
