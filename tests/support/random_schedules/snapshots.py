"""What ``wastedcores snapshot`` would have written about the machine when the recording began."""

from __future__ import annotations

from typing import Any

from support.random_schedules.machine import Machine
from support.random_schedules.recording import HOST, KERNEL
from support.random_schedules.tasks import STOP, cpus_of


def taken(m: Machine) -> dict[str, Any]:
    """Return the JSON object of a snapshot taken now."""
    online = cpus_of(m.online)
    return {
        "schema": "wastedcores.tasks/1",
        "kernel": KERNEL,
        "host": HOST,
        "boottime_ns": m.now * 1000,
        "unix_ns": 1_700_000_000_000_000_000,
        "tasks": [
            {
                "pid": t.pid,
                "tgid": t.tgid,
                "ppid": 2 if t.kthread else 1,
                "start_ticks": 100 + t.uid,
                "comm": t.comm,
                "kthread": t.kthread,
                "allowed": ",".join(map(str, cpus_of(t.mask))),
                "policy": t.policy,
                "nice": 0,
                "rt_prio": 99
                if t.rank == STOP
                else 99 - t.rank
                if t.policy in ("fifo", "rr")
                else 0,
                "cgroup": t.group.path if t.group else "/",
                "cpuset": t.cpuset,
                "core_cookie": 0,
                "runnable": t.state in ("running", "queued"),
            }
            for t in m.tasks.values()
        ],
        "quotas": {g.path: g.quota for g in m.groups},
        "isolated_cpus": cpus_of(m.isolated),
        "nohz_full_cpus": [],
        "cpusets": [
            {"path": "/", "cpus": ",".join(map(str, online))},
            *({"path": p, "cpus": ",".join(map(str, cpus_of(k)))} for p, k in m.cpusets.items()),
        ],
        "core_scheduling": False,
        "cpu_counts": _counts(m),
    }


def _counts(m: Machine) -> dict[int, dict[str, int]]:
    """Return what /proc/schedstat and /proc/stat have of the CPUs that are online; the latter counts whole ticks of 10 ms."""
    m.note()
    times = [[0, 0] for _ in range(m.cpus)]
    for (began, cells), ended in zip(m.log, [*(t for t, _ in m.log[1:]), m.now], strict=True):
        for cpu, (online, current, *_) in enumerate(cells):
            if online:
                times[cpu][current == 0] += ended - began
    return {
        c: {
            "ran_ns": 1000 * m.ran_us[c],
            "slices": m.slices[c],
            "busy_ns": times[c][0] // 10_000 * 10_000_000,
            "idle_ns": times[c][1] // 10_000 * 10_000_000,
        }
        for c in cpus_of(m.online)
    }
