"""explain() points to the right bug on real recordings and on hand-made cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import RECORDINGS
from support.builders import nr, switch, trace_of, wakeup

from wastedcores.analysis.explain import explain
from wastedcores.analysis.pairs import (
    COULD_PULL,
    EVERY_GROUP_LOCAL,
    NO_DOMAIN,
    related,
    relation,
)
from wastedcores.analysis.pattern import BALANCING_OFF, REASONS, kept_apart
from wastedcores.errors import TopologyError
from wastedcores.invariant import check
from wastedcores.kernels import KernelModel
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header, TaskFacts
from wastedcores.trace.io import open_trace
from wastedcores.trace.named import fetch


def cpuset(path, cpus, **facts):
    return {"path": path, "cpus": cpus, **facts}


PINNED = list(range(8, 24))  # nodes 1 and 2 of the 64-CPU machine
RECORDED = {
    "gc-buggy-64cpu": ("group_construction", PINNED),
    "lu1ms-buggy-64cpu": ("group_construction", PINNED),
    "ms-buggy-64cpu": ("missing_domains", None),
    "ms-buggy-16cpu": ("missing_domains", None),
    "gi-buggy-64cpu": ("group_imbalance", None),
    "gi-buggy-16cpu": ("group_imbalance", None),
    "db64-buggy-64cpu": ("overload_on_wakeup", None),
    "gi-all-64cpu": ("transient", None),
    "gc-6.1-64cpu": ("nothing", PINNED),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_explain__recordings_of_each_bug(name):
    import json

    folder = RECORDINGS / name
    meta = json.loads((folder / "meta.json").read_text())
    machine = Machine.from_dict(meta)
    bug, cpus = RECORDED[name]
    if name.startswith("ms") and not machine.hotplug:
        cpu = 20 if meta["cpus"] == 64 else 5
        machine = machine.offline(cpu).online(cpu)
    start, end = meta["sanity"]["window"]
    between = (f"{start}", f"{end}")
    result = check(open_trace(folder / "trace.txt.xz"), cpus=cpus, between=between, silent="idle")
    found = explain(result, machine, KernelModel.of_guest_variant(meta["variant"]))
    assert found.looks_like == bug, found.evidence
    assert [
        p for p in found.evidence if not (p[0].isupper() or p[0].isdigit()) or p[-1] != "."
    ] == []
    if bug == "group_construction":
        assert found.cured_share == pytest.approx(1, abs=0.01)
    if bug == "missing_domains":
        # tasks are on node 2; of the seven other nodes, node 1 still suffers from the group construction bug
        assert found.cured_share == pytest.approx(6 / 7, abs=0.01)


def test_relation__group_construction_on_the_papers_machine():
    machine = Machine.preset("bulldozer8x8")
    buggy = build_domains(machine, "v4.1")
    fixed = build_domains(machine, "v4.1+group_construction")
    assert relation(buggy, 16, 8)[0] == EVERY_GROUP_LOCAL  # node 2 never pulls from node 1
    assert relation(fixed, 16, 8)[0] == COULD_PULL
    assert relation(buggy, 16, 17) == (COULD_PULL, "SMT")
    lost = build_domains(machine.offline(3).online(3), "v4.1")
    assert relation(lost, 0, 63)[0] == NO_DOMAIN


def test_explain__wakeups_onto_busy_cpus_are_named():
    ms = 1_000_000
    rows = [switch(0, c, 0, "R", 10 + c) for c in (0, 1)] + [
        switch(0, c, 0, "R", 0) for c in (2, 3)
    ]
    for k in range(50):  # task 99 wakes on CPU 0 although 2 and 3 are idle, again and again
        rows += [
            wakeup(k * ms, 0, 99),
            switch(k * ms + 600_000, 0, 10, "R", 99),
            switch(k * ms + 700_000, 0, 99, "S", 10),
        ]
    result = check(trace_of(rows, cpus=4, kernel_release="4.1.3"))
    found = explain(result, Machine.preset("i5-4670k"))
    assert found.looks_like == "overload_on_wakeup"
    assert found.causes.row(0) == ("wakeup", pytest.approx(1))


@pytest.mark.slow
def test_explain__says_what_stands_for_a_machine_or_a_kernel_that_nobody_names():
    result = check(trace_of([nr(0, 0, 0), nr(0, 1, 2), nr(9, 0, 1)], cpus=2))
    assert "on which machine" in " ".join(explain(result).evidence)
    evidence = " ".join(explain(result, Machine.preset("i5-4670k")).evidence)
    assert "on which machine" not in evidence
    assert "which kernel" in evidence
    big = check(trace_of([nr(0, 0, 0), nr(0, 199, 2)], cpus=200))
    with pytest.raises(TopologyError, match="has CPUs 0-199"):
        explain(big, Machine.preset("i5-4670k"), "v4.1")


def test_explain__a_newer_kernel_is_marked():
    result = check(
        trace_of([nr(0, 0, 0), nr(0, 1, 2), nr(9, 0, 1)], cpus=2, kernel_release="7.3.1-arch1-1")
    )
    found = explain(result, Machine.preset("i5-4670k"))
    assert found.kernel.name == "v7.2"
    assert "7.3.1-arch1-1 is newer than v7.2" in found.evidence[0]
    plain = check(
        trace_of(
            [nr(0, 0, 0), nr(0, 1, 2), nr(9, 0, 1)], cpus=2, kernel_release="6.12.107+deb13-amd64"
        )
    )
    assert explain(plain, Machine.preset("i5-4670k")).kernel.name == "v6.12.107"


#: what the header of a recording says of its kernel -> what is said of a wakeup bug, and of an imbalance that lasts
MODERN = ["5.10.0-33-amd64", "6.1.0-56-rt-cachyos"]
VENDORS = ["4.18.0-553.el8_10.x86_64", "5.14.0-503.el9.x86_64", "4.12.14-122.37-default"]


@pytest.fixture(scope="module")
def wakeups():
    """The check of a recording whose pattern is that of the Overload-on-Wakeup bug."""
    return check(open_trace(RECORDINGS / "db64-6.1-64cpu" / "trace.txt.xz"))


@pytest.mark.parametrize("release", [*MODERN, *VENDORS])
@pytest.mark.parametrize("stated", [True, False])
def test_explain__no_verdict_of_2016_for_a_kernel_that_is_not_modelled(wakeups, release, stated):
    machine = Machine.preset("bd-paper-64")
    if stated:
        found = explain(wakeups, machine, release)
    else:
        named = wakeups.trace.with_header(kernel_release=release)
        found = explain(replace(wakeups, trace=named), machine)
    assert found.looks_like == "unknown"
    assert found.fix is found.cured_share is None
    said = " ".join(found.evidence)
    assert "no model of this kernel's balancer" in said
    assert release in said
    assert "% on different nodes" in said
    assert "does not tell whether the threads that waited were pinned" in said


@pytest.mark.parametrize(
    ("release", "other"),
    [
        ("6.12.107+deb13-amd64", ""),
        ("7.2.13+deb14-amd64", ""),
        ("7.1.13+deb14-amd64", "v7.2.13"),
        ("6.1.0-56-amd64", "v6.1.192"),
        ("5.15.0-119-generic", "v6.1.192"),
    ],
)
def test_explain__another_release_may_stand_for_the_recorded_one(wakeups, release, other):
    found = explain(wakeups, Machine.preset("bd-paper-64"), release)
    assert (found.looks_like, found.replayed) == ("overload_on_wakeup", True)
    said = " ".join(found.evidence)
    assert (f"Here {other} stands for it" in said) == bool(other)
    assert "% on different nodes" in said


def test_explain__the_same_pattern_is_a_bug_where_the_balancer_is_modelled(wakeups):
    assert (
        explain(wakeups, Machine.preset("bd-paper-64"), "v4.19").looks_like == "overload_on_wakeup"
    )


def test_explain__without_a_model_pinned_threads_cpusets_and_quotas_are_named():
    tasks = [TaskFacts(pid=2, allowed="0-1"), TaskFacts(pid=3, allowed="0-63")]
    rows = [
        wakeup(0, 0, 2),
        wakeup(0, 0, 3),
        wakeup(0, 0, 4),
        switch(1, 0, 0, "R", 2),
        switch(300_000_000, 0, 2, "R", 3),
    ]
    trace = trace_of(
        rows,
        cpus=4,
        kernel_release="6.12.0-55.el10.x86_64",
        tasks=tasks,
        quotas={"/a": 10_000},
        cpusets=[cpuset("/", "0-3", partition="root"), cpuset("/b", "3", partition="root")],
    )
    found = explain(check(trace, ignore_affinity=True, silent="idle"), Machine.preset("i5-4670k"))
    assert found.looks_like == "unknown"
    said = " ".join(found.evidence)
    assert "1 of the 2 threads" in said
    assert "(partitions: /b)" in said
    assert "had a quota of CPU time: /a" in said


def test_explain__does_not_depend_on_the_order_of_equal_rows():
    trace = open_trace(fetch("group-imbalance-fixed"))
    result = check(trace)
    assert explain(trace).to_json() == explain(result).to_json()
    for seed in range(3):
        shuffled = {
            name: getattr(result, name).sample(fraction=1, shuffle=True, seed=seed)
            for name in ("details", "causes")
        }
        assert explain(replace(result, **shuffled)).to_json() == explain(result).to_json()


def on_this(rows, **header):
    """The explanation of a trace of a machine with two CPUs under v6.12."""
    trace = trace_of(rows, cpus=2, **header)
    return explain(check(trace), Machine.preset("uma8"), "v6.12")


BESIDE = [nr(0, 0, 3), nr(0, 1, 0), nr(300_000_000, 0, 3)]


@pytest.mark.parametrize(
    ("header", "looks_like"),
    [
        ({"isolated_cpus": [1]}, "nothing"),  # it does not count
        ({"isolated_cpus": [1], "changed": ["isolated_cpus"]}, "nothing"),
        ({"isolated_cpus": [3]}, "undecided"),
        ({"cpusets": [cpuset("/", "0-1", load_balance=False)]}, "balancing_off"),
        ({"cpusets": [cpuset("/", "0-1", load_balance=True)]}, "undecided"),
        (
            {
                "cpusets": [
                    cpuset("/", "0-1", load_balance=False),
                    cpuset("/a", "0-1", load_balance=True),
                ]
            },
            "undecided",
        ),
        (
            {
                "cpusets": [
                    cpuset("/", "0-1", load_balance=False),
                    cpuset("/a", "0", load_balance=True),
                    cpuset("/b", "1", load_balance=True),
                ]
            },
            "balancing_off",
        ),
        (
            {
                "cpusets": [
                    cpuset("/", "0-1", partition="root"),
                    cpuset("/a", "1", partition="root"),
                ]
            },
            "balancing_off",
        ),
        (
            {
                "cpusets": [
                    cpuset("/", "0-1", partition="root"),
                    cpuset("/a", "1", partition="isolated"),
                ]
            },
            "isolated",
        ),
        (
            {
                "cpusets": [
                    cpuset("/", "0-1", partition="root"),
                    cpuset("/a", "1", partition="member"),
                ]
            },
            "undecided",
        ),
    ],
)
def test_explain__a_configuration_that_keeps_cpus_apart_is_no_bug(header, looks_like):
    assert on_this(BESIDE, **header).looks_like == looks_like


def test_explain__isolated_cpus_are_named_where_affinity_is_ignored():
    trace = trace_of(BESIDE, cpus=2, isolated_cpus=[1])
    found = explain(check(trace, ignore_affinity=True), Machine.preset("uma8"), "v6.12")
    assert found.looks_like == "isolated"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "looks_like"),
    [("v4.1", "overload_on_wakeup"), ("v4.1+overload_on_wakeup:patch", "undecided")],
)
def test_explain__a_bug_that_the_kernel_has_fixed_is_not_named(kernel, looks_like):
    found = check(open_trace(RECORDINGS / "db64-buggy-64cpu" / "trace.txt.xz"))
    answer = explain(found, Machine.preset("bd-paper-64"), kernel)
    assert answer.looks_like == looks_like


@pytest.mark.parametrize("kernel", ["v4.1", "v4.1+group_construction", "v6.1"])
@pytest.mark.parametrize("preset", ["bulldozer8x8", "bd-paper-16", "uma8"])
def test_relations__equal_the_rule_for_each_pair(preset, kernel):
    domains = build_domains(Machine.preset(preset).offline(3).online(3), kernel)

    def plain(idle, busy):
        spans = [d for d in domains.of(idle) if d.span >> busy & 1]
        names = [f"{d.level} <= {d.distance}" if d.level == "NUMA" else d.level for d in spans]
        for d, name in zip(spans, names, strict=True):
            if any(g.span >> busy & 1 and not g.span >> idle & 1 for g in d.groups):
                return COULD_PULL, name
        return (EVERY_GROUP_LOCAL, names[0]) if names else (NO_DOMAIN, "")

    cpus = domains.machine.cpus
    every = [(i, o) for i in range(cpus) for o in range(cpus) if i != o]
    table = pl.DataFrame(every, schema=["idle_cpu", "overloaded_cpu"], orient="row")
    found = related(table, domains)
    assert found["relation", "level"].rows() == [plain(i, o) for i, o in every]
    assert relation(domains, 0, 1) == plain(0, 1)


def test_explain__a_cpu_that_no_waiting_thread_may_use_does_not_count():
    """Thread 12 waits on CPU 0 and may use CPUs 0 and 1; CPUs 2 and 3 are idle all the time, CPU 1 for a tenth of it."""
    ms = 1_000_000
    rows = [switch(0, c, 0, "R", 10 if c == 0 else 20 if c == 1 else 0) for c in range(4)]
    rows += [wakeup(ms, 0, 12), switch(270 * ms, 1, 20, "S", 0), switch(300 * ms, 0, 10, "S", 12)]
    found = check(trace_of(rows, cpus=4))
    tasks = [TaskFacts(pid=12, allowed="0-1"), TaskFacts(pid=10, allowed="0-3")]
    told = explain(found, Machine.preset("uma8"), "v4.1", tasks)
    free = explain(found, Machine.preset("uma8"), "v4.1")
    assert set(free.pairs["idle_cpu"]) == {1, 2, 3}
    assert told.pairs["idle_cpu", "met_ns"].rows() == [(1, 30 * ms)]
    changed = [TaskFacts(pid=12, allowed="0-1", changed=("allowed",))]
    assert set(explain(found, Machine.preset("uma8"), "v4.1", changed).pairs["idle_cpu"]) == {
        1,
        2,
        3,
    }


cpu_lists = st.sets(st.integers(0, 7), min_size=1).map(lambda s: ",".join(map(str, sorted(s))))


@given(st.lists(st.tuples(cpu_lists, st.booleans()), min_size=1, max_size=5))
def test_cpusets_of_version_1__connect_cpus_directly_or_through_others(sets):
    told = [cpuset(f"/{i}", cpus, load_balance=on) for i, (cpus, on) in enumerate(sets)]
    header = Header(source_format="test", cpus=8, cpusets=told)
    reached = np.eye(8, dtype=bool)
    for cpus, on in sets:
        members = [int(c) for c in cpus.split(",")]
        if on:
            reached[np.ix_(members, members)] = True
    for _ in range(8):
        reached = reached @ reached
    idle, busy = np.nonzero(np.ones((8, 8)))
    apart = kept_apart(header, idle, busy)
    assert (apart == np.where(reached[idle, busy], 0, REASONS.index(BALANCING_OFF))).all()


def test_explain__no_bug_is_named_if_no_waiting_thread_may_use_an_idle_cpu():
    ms = 1_000_000
    rows = [switch(0, c, 0, "R", 10 if c == 0 else 0) for c in range(4)]
    rows += [wakeup(ms, 0, 12), switch(300 * ms, 0, 10, "S", 12)]
    tasks = [TaskFacts(pid=12, allowed="0"), TaskFacts(pid=10, allowed="0-3")]
    found = explain(check(trace_of(rows, cpus=4)), Machine.preset("uma8"), "v4.1", tasks)
    assert (found.looks_like, found.fix) == ("undecided", None)


def test_explain__no_median_is_told_of_episodes_that_are_not_all_listed():
    found = check(trace_of(BESIDE, cpus=2))
    machine = Machine.preset("uma8")
    assert "median length" in " ".join(explain(found, machine, "v6.12").evidence)
    some = explain(replace(found, episodes_dropped=3), machine, "v6.12").evidence
    assert "1 of 4 episodes was persistent." in some


@pytest.mark.parametrize(
    ("what", "wrong"),
    [("cpusets", "No recorded cpuset"), ("quotas", "No control group had a quota")],
)
def test_explain__what_changed_meanwhile_is_not_known(what, wrong):
    found = on_this(BESIDE, changed=[what], cpusets=[cpuset("/", "0-1", partition="root")])
    said = " ".join(found.evidence)
    assert wrong not in said
    assert "changed while the trace was recorded" in said
