"""What a trace's header tells of tasks and configuration, in words."""

from __future__ import annotations

from wastedcores.trace.header import Header
from wastedcores.words.recorded_facts import recorded_facts


def facts(kinds=None, **header):
    return recorded_facts(Header(source_format="schedtrace", cpus=4, **header), kinds or {})


def test_a_trace_without_facts_says_what_is_not_known():
    assert facts() == {
        "affinity": "not told, except by the names of bound kernel threads",
        "CPU time": "not known whether a control group has a limit",
    }


def test_limits_and_throttling():
    found = facts({"throttle": 3}, quotas={"/a": 4000, "/b/c": 100_000})
    assert found["CPU time"] == "limited per period: /a 4 ms and /b/c 100 ms"
    assert found["throttling"].startswith("a task was throttled 3 times;")
    assert facts({"throttle": 1})["throttling"].startswith("a task was throttled 1 time;")
    none = facts(quotas={})
    assert none["CPU time"] == "no control group has a limit"
    assert "throttling" not in none
    many = facts(quotas={f"/{k}": 1000 for k in range(9)})["CPU time"]
    assert many.endswith("/5 1 ms and 3 more")


def test_tasks():
    tasks = [
        {"pid": 1, "allowed": "0-3", "policy": "other", "nice": 0, "cgroup": "/"},
        {"pid": 2, "allowed": "0", "policy": "fifo", "cgroup": "/x", "autogroup": "/autogroup-7"},
        {"pid": 3, "allowed": "1-2", "policy": "other", "nice": 5, "cgroup": "/x"},
    ]
    found = facts({"affinity": 2}, tasks=tasks)
    assert found["affinity"] == "a snapshot tells it for 3 tasks (2 bound) and 2 events tell it"
    assert (
        found["policies"]
        == "1 fifo, 1 with a nice value, tasks in 1 control group and tasks in 1 autogroup"
    )


def test_configuration():
    found = facts(
        isolated_cpus=[2, 3],
        nohz_full_cpus=[3],
        cpusets=[
            {"path": "/", "cpus": "0-3", "load_balance": False},
            {"path": "/a", "cpus": "0-1", "load_balance": True},
        ],
        core_scheduling=True,
        autogroups=False,
        sched_domains=[{"cpus": "0-1", "level": 0}],
        boot_parameters="isolcpus=2-3",
        changed=["quotas"],
        scheduler="mine",
    )
    assert found["scheduler"] == "mine (sched_ext), not the kernel's own"
    assert found["isolated CPUs"] == "2-3"
    assert found["tickless CPUs"] == "3"
    assert found["cpusets"] == "/ (CPUs 0-3, not balanced) and /a (CPUs 0-1)"
    assert found["autogroups"] == "switched off"
    assert found["core scheduling"].startswith("some tasks had a cookie")
    assert found["domains"] == "the kernel's scheduling domains are recorded for CPUs 0-1"
    assert found["kernel command line"] == "isolcpus=2-3"
    assert found["changed"] == "quotas changed while the trace was recorded"
    assert (
        facts(isolated_cpus=[], sched_domains=[], core_scheduling=False, cpusets=[]).items()
        >= {
            "isolated CPUs": "no CPU is isolated",
            "domains": "the kernel's scheduling domains are recorded for no CPU: none had any",
            "core scheduling": "not in use",
            "cpusets": "none has CPUs of its own",
        }.items()
    )
