"""The snapshot of all tasks: it says of a real task what the kernel was told about it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.builders import switch, trace_of
from support.typed import typed

from wastedcores.capture import own_tasks, system
from wastedcores.capture import snapshot as module
from wastedcores.errors import CollectorError, TraceFormatError
from wastedcores.trace.header import TaskFacts


@pytest.fixture
def here(monkeypatch):
    """Let the test pass in a container too."""
    monkeypatch.setattr(system, "in_first_namespace", lambda kind: True)


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
    by_pid = {t.pid: t for t in taken.tasks}
    assert done.out.splitlines()[0] == f"{tmp_path / 'tasks.json'}: {len(by_pid):,} tasks"
    mine = by_pid[child.pid]
    assert mine.comm == "kworker/0:7) ("
    assert (mine.tgid, mine.ppid) == (child.pid, os.getpid())
    assert (mine.kthread, mine.policy, mine.rt_prio) == (False, "batch", 0)
    assert mine.nice == os.nice(0) + 3
    assert mine.allowed == str(cpu)
    told = {k: Path(f"/proc/self/{k}") for k in ("cpuset", "autogroup")}
    for name, path in told.items():
        words = path.read_text().split() if path.exists() else []
        # the child inherited both; the file of a task in no autogroup is empty
        assert getattr(mine, name) == (words[0] if words else None)
    since_boot = mine.start_ticks / os.sysconf("SC_CLK_TCK")
    assert 0 <= time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot < 600
    if 2 in by_pid and by_pid[2].comm == "kthreadd":
        assert by_pid[2].kthread
    assert taken.kernel == os.uname().release
    assert taken.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def refuse(path):
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


def test_processes_that_end_while_they_are_listed_are_left_out(tmp_path, monkeypatch):
    def ended(path):
        raise ProcessLookupError(errno.ESRCH, "No such process")

    (tmp_path / "proc/7/task/7").mkdir(parents=True)
    listing = {name: getattr(os, name) for name in ("scandir", "listdir")}
    for name, lists in listing.items():
        monkeypatch.setattr(
            os, name, lambda p=".", f=lists: ended(p) if Path(p).name == "task" else f(p)
        )
    assert list(system.tasks_below(tmp_path)) == []
    assert own_tasks.threads_of(os.getpid()) == set()


def test_groups_that_share_cpu_time(here, tmp_path, monkeypatch):
    """A group of version 2 without the cpu controller has no file cpu.weight; of version 1, each group has cpu.shares."""
    monkeypatch.setattr(system, "hierarchy", lambda *_: tmp_path)
    for file in ("cpu.weight", "cpu.shares", "b/cpu.weight", "b/c/pids.max", "d/cpu.shares"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("100\n")
    assert system.task_groups(tmp_path) == ["/b", "/d"]
    monkeypatch.setattr(system, "in_first_namespace", lambda kind: kind != "cgroup")
    assert system.task_groups(tmp_path) is None


def test_quotas_of_both_versions(here, tmp_path, monkeypatch):
    monkeypatch.setattr(system, "hierarchy", lambda *_: tmp_path)
    assert system.quotas(tmp_path) == {}
    for group, name, text in (
        ("a/b", "cpu.max", "4000 1000000\n"),
        ("a", "cpu.max", "max 100000\n"),
        ("c", "cpu.cfs_quota_us", "-1\n"),
        ("d", "cpu.cfs_quota_us", "2500\n"),
    ):
        (tmp_path / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / group / name).write_text(text)
    assert system.quotas(tmp_path) == {"/a/b": 4000, "/d": 2500}
    real = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda p, **_: refuse(p) if p.parent.name == "d" else real(p)
    )
    assert system.quotas(tmp_path) is None  # a limit that may not be read may exist
    monkeypatch.setattr(Path, "read_text", real)
    monkeypatch.setattr(system, "in_first_namespace", lambda kind: kind != "cgroup")
    assert system.quotas(tmp_path) is None
    assert system.cpusets() is None


CGROUPS = """#subsys_name	hierarchy	num_cgroups	enabled
cpuset	{0}	7	1
cpu	{0}	{1}	1
cpuacct	0	1	1"""


@pytest.mark.parametrize(("groups", "known"), [(1, {}), (2, None)])
@pytest.mark.parametrize("hierarchy", [0, 3])
def test_without_a_mounted_hierarchy_the_number_of_groups_tells_that_nothing_has_a_limit(
    here, tmp_path, hierarchy, groups, known
):
    write(tmp_path, {"proc/cgroups": CGROUPS.format(hierarchy, groups)})
    assert system.quotas(tmp_path) == known


def test_without_a_list_of_controllers_limits_are_unknown(here, tmp_path):
    assert system.quotas(tmp_path) is None
    write(tmp_path, {"proc/cgroups": "cpuset\t0\t1\t1"})
    assert system.quotas(tmp_path) is None


def test_a_container_does_not_know_the_pids_of_a_trace(monkeypatch):
    monkeypatch.setattr(system, "in_first_namespace", lambda kind: False)
    assert module.take().tasks is None
    for taking in (module.take_with_tasks, lambda: module.read_snapshot("live")):
        with pytest.raises(CollectorError, match="Take the snapshot on the host"):
            taking()


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"schema": "wastedcores.check/2"})])
def test_other_files_are_refused(tmp_path: Path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(TraceFormatError, match="not a snapshot of tasks"):
        module.read_snapshot(tmp_path / "x.json")


def test_a_group_of_each_version():
    assert system._cpu_group("4:memory:/m\n2:cpu,cpuacct:/limited\n0::/u\n") == "/limited"
    assert system._cpu_group("0::/user.slice/a:b\n") == "/user.slice/a:b"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tasks": [{"pid": 7, "allowed": "0-"}]}, "'0-' is not a CPU"),
        ({"tasks": [{"pid": "seven"}]}, "tasks.0.pid"),
        ({"boottime_ns": None}, "boottime_ns"),
    ],
)
def test_damaged_snapshots_are_refused(tmp_path, change, says):
    whole = {"schema": module.SCHEMA, "kernel": "6.1", "boottime_ns": 1, "unix_ns": 2}
    (tmp_path / "x.json").write_text(json.dumps(whole))
    assert module.read_snapshot(tmp_path / "x.json").tasks is None
    (tmp_path / "x.json").write_text(json.dumps(whole | change))
    with pytest.raises(TraceFormatError, match="a damaged snapshot") as told:
        module.read_snapshot(tmp_path / "x.json")
    assert says in str(told.value)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")


V1 = "30 23 0:26 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset"
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw"


def test_cpusets_of_version_1(here, tmp_path):
    top = "sys/fs/cgroup/cpuset"
    write(
        tmp_path,
        {
            "proc/self/mountinfo": V1,
            f"{top}/cpuset.cpus": "0-7",
            f"{top}/cpuset.effective_cpus": "0-6",
            f"{top}/cpuset.sched_load_balance": "0",
            f"{top}/a/b/cpuset.cpus": "2-3",
            f"{top}/a/b/cpuset.sched_load_balance": "1",
            f"{top}/empty/cpuset.cpus": "",
            f"{top}/empty/cpuset.sched_load_balance": "1",
        },
    )
    found = [(c.path, c.cpus, c.load_balance, c.partition) for c in system.cpusets(tmp_path)]
    assert found == [("/", "0-6", False, None), ("/a/b", "2-3", True, None)]


def test_a_mount_without_a_source_is_passed(here, tmp_path):
    write(tmp_path, {"proc/self/mountinfo": f"29 23 0:25 / /x rw - tmpfs  rw\n{V1}"})
    assert system.hierarchy("cpuset", tmp_path) == tmp_path / "sys/fs/cgroup/cpuset"


def test_cpusets_of_version_2(here, tmp_path):
    top = "sys/fs/cgroup"
    write(
        tmp_path,
        {
            "proc/self/mountinfo": V2,
            f"{top}/cgroup.controllers": "cpuset cpu io",
            f"{top}/cpuset.cpus.effective": "0-5",
            f"{top}/rt/cpuset.cpus": "6-7",
            f"{top}/rt/cpuset.cpus.effective": "6-7",
            f"{top}/rt/cpuset.cpus.partition": "isolated",
            f"{top}/bad/cpuset.cpus": "1",
            f"{top}/bad/cpuset.cpus.effective": "1",
            f"{top}/bad/cpuset.cpus.partition": "isolated invalid (Cpu list not exclusive)",
            f"{top}/member/cpuset.cpus": "",
            f"{top}/member/cpuset.cpus.partition": "member",
        },
    )
    found = {c.path: (c.cpus, c.load_balance, c.partition) for c in system.cpusets(tmp_path)}
    assert found == {
        "/": ("0-5", True, "root"),
        "/bad": ("1", True, "isolated invalid (Cpu list not exclusive)"),
        "/rt": ("6-7", False, "isolated"),
    }
    write(tmp_path, {f"{top}/cgroup.controllers": "io"})
    assert system.cpusets(tmp_path) is None


def test_what_the_kernel_says_about_the_whole_machine(here, tmp_path):
    assert set(system.system_facts(tmp_path).values()) == {None}
    cpu, domains = "sys/devices/system/cpu", "sys/kernel/debug/sched/domains"
    write(
        tmp_path,
        {
            "proc/cmdline": "quiet isolcpus=3",
            "proc/sys/kernel/random/boot_id": "5b8de140",
            "proc/sys/kernel/sched_autogroup_enabled": "0\n",
            f"{cpu}/isolated": "3",
            "proc/schedstat": "version 17\ncpu0 0\ndomain0 MC 7 0\ncpu1 0\ndomain0 MC 7 0\ncpu2 0\ndomain0 MC 7 0\ncpu3 0",
            "sys/kernel/debug/sched/features": "PLACE_LAG NO_HRTICK",
            **{f"{domains}/cpu{c}/domain0/name": "MC" for c in range(3)},
            f"{domains}/cpu0/domain0/flags": "SD_BALANCE_NEWIDLE SD_SHARE_LLC",
            f"{domains}/cpu1/domain0/flags": "SD_BALANCE_NEWIDLE SD_SHARE_LLC",
            f"{domains}/cpu2/domain0/flags": "4143",
        },
    )
    facts = system.system_facts(tmp_path)
    assert facts["boot_parameters"] == "quiet isolcpus=3"
    assert facts["boot_id"] == "5b8de140"
    assert facts["autogroups"] is False
    assert (facts["isolated_cpus"], facts["nohz_full_cpus"]) == ([3], [])
    assert facts["sched_features"] == ["PLACE_LAG", "NO_HRTICK"]
    both = {"level": 0, "name": "MC", "span": "0-2"}
    assert [d.model_dump() for d in facts["sched_domains"]] == [
        both | {"cpus": "0-1", "flags": ("SD_BALANCE_NEWIDLE", "SD_SHARE_LLC")},
        both | {"cpus": "2", "flags": None},
    ]


def task(pid, start=1, **more):
    return TaskFacts(pid=pid, start_ticks=start, allowed="0-1", **more)


@pytest.mark.parametrize(
    ("cookies", "answer"), [((0, 0), False), ((0, 7), True), ((0, None), None), ((), None)]
)
def test_core_scheduling_is_known_only_if_every_cookie_is(cookies, answer):
    assert system.core_scheduling([task(1, core_cookie=c) for c in cookies]) is answer


def test_what_changed_between_two_snapshots_is_named():
    common = {"kernel": "6.1", "boottime_ns": 1, "unix_ns": 2}
    first = module.Snapshot(
        **common, quotas={}, tasks=[task(1), task(2), task(3), task(4), task(5, nice=0)]
    )
    changed = task(2).model_copy(update={"allowed": "0"})
    last = module.Snapshot(
        **common,
        quotas={"/a": 4000},
        tasks=[task(1), changed, task(4, start=9), task(5, nice=3), task(6)],
    )
    facts = module.header_facts(first, last)
    assert facts["changed"] == ["quotas"]
    assert facts["quotas"] == {}
    named = {t.pid: t.changed for t in facts["tasks"]}
    assert named == {1: (), 2: ("allowed",), 3: (), 4: (), 5: ("nice",)}
    assert [(t.pid, t.start_ticks) for t in facts["later_tasks"]] == [(4, 9), (6, 1)]
    assert "changed" not in module.header_facts(first)


def test_what_changed_reaches_the_header_of_a_trace_that_states_nothing_of_it():
    """The fields of a header that are never None are taken over, too; what the trace itself says stays."""
    common = {"kernel": "6.1", "host": "here", "boottime_ns": 1, "unix_ns": 2}
    last = module.Snapshot(**common, quotas={"/a": 4000}, isolated_cpus=[1])
    first = module.Snapshot(**common, quotas={}, isolated_cpus=[], silent_is_idle=True, last=last)
    rows = [switch(1, 0, 0, "R", 10)]
    trace = trace_of(rows, cpus=2, known=False, host="here", kernel_release="6.1")
    header = module.with_snapshot(trace, first, "tasks.json").header
    assert header.changed == ["isolated_cpus", "quotas"]
    assert header.silent_is_idle
    alone = first.model_copy(update={"last": None, "silent_is_idle": None})
    header = module.with_snapshot(trace.with_header(changed=["cpusets"]), alone, "x").header
    assert header.changed == ["cpusets"]
    assert not header.silent_is_idle


def test_a_command_is_run_between_two_snapshots(here, tmp_path):
    """Of the second one only the process that the command leaves behind is new."""
    file = tmp_path / "tasks.json"
    its = tmp_path / "pid"
    code = f"import subprocess,sys;print(subprocess.Popen(['sleep','60']).pid,file=open({str(its)!r},'w'));sys.exit(3)"
    done = typed("snapshot", "-o", file, "--", sys.executable, "-c", code)
    os.kill(int(its.read_text()), 9)
    assert done.code == 3
    taken = module.read_snapshot(file)
    (left,) = [t for t in taken.last.tasks if t.pid == int(its.read_text())]
    facts = module.header_facts(taken)
    assert left.pid in {t.pid for t in facts["later_tasks"]}
    assert left.pid not in {t.pid for t in taken.tasks}
    assert typed("snapshot", "-o", file, "--", tmp_path / "absent").code == 2


def test_cpus_on_which_no_task_began_or_ceased_to_run(tmp_path):
    """Their counts are the same in both snapshots; a CPU that was offline at one of them is not known."""

    def counted(name, slices, ticks):
        proc = tmp_path / name / "proc"
        proc.mkdir(parents=True)
        lines = [f"cpu{c} {b} 0 0 {i} 0 0 0 0 0 0" for c, (b, i) in enumerate(ticks)]
        (proc / "stat").write_text("\n".join(["cpu 1 1 1 1 1 1 1 1 1 1", *lines, "intr 1"]) + "\n")
        lines = [f"cpu{c} 0 0 0 0 0 0 {r} 9 {n}" for c, (r, n) in enumerate(slices)]
        text = ["version 17", "timestamp 1", *(x for line in lines for x in (line, "domain0 3 1"))]
        (proc / "schedstat").write_text("\n".join(text) + "\n")
        return taken.model_copy(update={"cpu_counts": system.cpu_counts(tmp_path / name)})

    taken = module.Snapshot(kernel="6.1", boottime_ns=0, unix_ns=0, tasks=[])
    ran = [(5_000, 1), (5_000, 1), (5_000, 1), (5_000, 1), (5_000, 1)]
    first = counted("first", ran, [(10, 90)] * 5)
    ran = [(5_000, 1), (5_000, 1), (6_000, 1), (5_000, 2)]
    last = counted("last", ran, [(10, 290), (210, 90), (210, 90), (210, 90)])
    assert first.cpu_counts[0].idle_ns == 900_000_000
    assert module.header_facts(first, last)["unswitched"] == {0: False, 1: True}
    (tmp_path / "last/proc/schedstat").unlink()
    assert system.cpu_counts(tmp_path / "last") is None
    real = system.cpu_counts()
    assert real is None or all(c.busy_ns > 0 for c in real.values())
