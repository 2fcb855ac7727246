"""The metrics of the service: they never count backwards, say nothing where nothing is known, and promtool accepts them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict

from wastedcores.capture import system
from wastedcores.capture.group_rows import OTHER, GroupRows
from wastedcores.capture.metrics import VERDICTS, Metrics
from wastedcores.capture.system import stolen
from wastedcores.trace.pseudonyms import Pseudonyms

TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
MOUNT = "36 35 0:30 / /cg rw - cgroup2 cgroup2 rw\n"


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def machine(folder: Path, groups=(), stat="cpu 1 2 3 4 5 6 7 0 0 0\n", virtual=True) -> Path:
    """Make a /proc and control groups; the inodes of their folders are real."""
    files = {
        "proc/self/mountinfo": MOUNT,
        "proc/stat": stat,
        "proc/cpuinfo": "flags : fpu hypervisor\n" if virtual else "flags : fpu\n",
        "cg/cgroup.controllers": "cpu memory\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for path in groups:
        (folder / "cg" / path).mkdir(parents=True)
        (folder / "cg" / path / "cpu.stat").write_text("usage_usec 5\nthrottled_usec 2500000\n")
    return folder


def inode(root: Path, path: str) -> int:
    return (root / "cg" / path).stat().st_ino


def sample(n: int, *, wasted_ns=0, cut=0, groups=(), **more) -> dict:
    told = {"samples": 20 * n, "cut": cut, "beside_ns": wasted_ns, "wasted_ns": wasted_ns}
    told |= {"kernel_ns": 1000 * n, "cpu_s": 0.5, "resident": 1 << 20}
    counts = {"checks": n, "suspected": 0, "recovered": 0, "moves": 0, "useless": 0}
    counts |= {"truncated": 0, "events": 10, "lost": 0}
    return {"event": "progress", "sample": told, "groups": list(groups), **counts, **more}


def values(metrics: Metrics) -> dict[str, float]:
    """Return every sample of the OpenMetrics page, which prometheus-client's own strict parser has read."""
    registry = CollectorRegistry()
    registry.register(metrics)
    text = openmetrics(registry).decode()
    return {
        s.name + "".join(f" {k}={v}" for k, v in sorted(s.labels.items())): s.value
        for family in strict(text)
        for s in family.samples
    }


def verdict(metrics: Metrics) -> str:
    told = values(metrics)
    (said,) = [v for v in VERDICTS if told[f"wastedcores_verdict wastedcores_verdict={v}"]]
    return said


def test_what_is_not_known_has_no_value(tmp_path):
    metrics = Metrics(GroupRows(root=machine(tmp_path)), Clock())
    told = values(metrics)
    assert verdict(metrics) == "unknown"
    assert not [n for n in told if n.startswith(("wastedcores_cpus_wasted", "wastedcores_looks"))]
    assert not [n for n in told if "throttled" in n]


def test_the_verdict_is_of_the_last_five_minutes(tmp_path):
    clock = Clock()
    metrics = Metrics(GroupRows(root=machine(tmp_path)), clock)
    for n in range(1, 4):
        clock.now += 1
        metrics.message(sample(n))
    assert verdict(metrics) == "clean"
    metrics.message({"event": "violation", "number": 1})
    assert verdict(metrics) == "violations"
    clock.now += 11
    assert verdict(metrics) == "violations"
    clock.now += 300
    assert verdict(metrics) == "unknown"  # nothing was heard
    metrics.message(sample(400))
    assert verdict(metrics) == "clean"
    clock.now += 1
    metrics.message(sample(401, cut=900))  # of about 8,000 samples, so many left threads out
    assert verdict(metrics) == "unknown"
    assert values(metrics)["wastedcores_violations_total kind=persistent"] == 1


@pytest.mark.parametrize(
    ("samples", "looks", "ready", "says"),
    [
        (1, 1, {}, "clean"),
        (0, 1, {}, "unknown"),
        (1, 0, {}, "unknown"),
        # with a period of 60 s, ten seconds without a look prove nothing
        (1, 0, {"event": "ready", "s_ns": 60 * 10**9, "m_ns": 10**8}, "clean"),
        (0, 0, {"event": "ready", "s_ns": 60 * 10**9, "m_ns": 10**8}, "unknown"),
    ],
)
def test_counts_that_stand_still_tell_nothing(tmp_path, samples, looks, ready, says):
    """A timer may be lost while the collector goes on telling what it counted."""
    clock = Clock()
    metrics = Metrics(GroupRows(root=machine(tmp_path)), clock)
    if ready:
        metrics.message(ready)
    metrics.message(sample(1))
    for n in range(1, 12):
        clock.now += 1
        told = sample(1 + n * samples)
        metrics.message(told | {"checks": 1 + n * looks})
    assert verdict(metrics) == says
    assert ("wastedcores_cpus_wasted" in values(metrics)) == bool(samples)


def test_the_mean_is_of_the_last_minute(tmp_path):
    clock = Clock()
    metrics = Metrics(GroupRows(root=machine(tmp_path)), clock)
    for n in range(200):
        clock.now += 1
        metrics.message(sample(n + 1, wasted_ns=max(0, n - 100) * 500_000_000))
    assert values(metrics)["wastedcores_cpus_wasted"] == pytest.approx(0.5)
    clock.now += 60
    assert "wastedcores_cpus_wasted" not in values(metrics)


def test_a_group_has_four_states_and_the_root_has_no_limit(tmp_path):
    root = machine(tmp_path, ["web", "web/a"])
    clock = Clock()
    metrics = Metrics(GroupRows(root=root), clock)
    rows = [[inode(root, "web/a"), 3_000_000_000, 2_000_000_000, 500_000_000, 70_000_000]]
    metrics.message(sample(1, groups=[*rows, [0, 1_000_000_000, 0, 0, 0]]))
    told = values(metrics)
    group = "wastedcores_cgroup_seconds_total cgroup=/web/a state="
    assert [told[group + s] for s in ("ran", "waited", "wasted", "throttled")] == [3, 1.5, 0.5, 2.5]
    assert told["wastedcores_longest_wait_seconds"] == 0.07
    assert "wastedcores_cgroup_seconds_total cgroup=/ state=throttled" not in told
    clock.now += 61  # the rows have a clock of their own
    assert values(metrics)["wastedcores_cgroup_longest_wait_seconds cgroup=/web/a"] == 0.07


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5), st.integers(0, 400)),
        max_size=40,
    ),
    st.integers(0, 4),
)
def test_rows_never_count_backwards_and_nothing_is_counted_twice_or_never(
    tmp_path_factory, steps, most
):
    """Prometheus adds up what each row has more than at the scrape before; a row that is new began at 0."""
    root = machine(tmp_path_factory.mktemp("m"), [f"g{k}" for k in range(8)])
    inodes = [inode(root, f"g{k}") for k in range(8)] + [0, -1]
    clock = Clock()
    rows = GroupRows(most, root=root, now=clock)
    before: dict[str, tuple[float, ...]] = {}
    total, seen = 0, 0.0
    for who, ran, waited, passed in steps:
        clock.now += passed
        rows.add([[inodes[who], ran, waited + ran, waited, 1]])
        total += ran + waited + ran
        now = {label: (r.ran_s, r.waited_s, r.wasted_s) for label, r in rows.rows()}
        assert len(now) <= most + 1
        for label in before.keys() & now.keys():
            assert all(a <= b + 1e-12 for a, b in zip(before[label], now[label], strict=True))
        seen += sum(sum(row) - sum(before.get(label, ())) for label, row in now.items())
        assert seen == pytest.approx(total / 1e9)
        before = now
    assert OTHER in dict(rows.rows())


def test_recordings_add_up_what_they_show_and_what_refused_the_balancer(tmp_path):
    metrics = Metrics(GroupRows(root=machine(tmp_path)), Clock())
    metrics.recording("kept", {"evidence": {"told_ns": 10**9}, "refusals": {"pinned": 3}})
    metrics.recording("kept", {"evidence": {"told_ns": 10**9}, "refusals": {"pinned": 1, "hot": 2}})
    metrics.recording("too_often")
    told = values(metrics)
    assert told["wastedcores_recorded_refusals_total reason=pinned"] == 4
    assert told["wastedcores_recorded_refusals_total reason=hot"] == 2
    assert told["wastedcores_recorded_avoidable_seconds_total evidence=told"] == 2
    assert told["wastedcores_recordings_total result=too_often"] == 1


def test_names_of_groups_can_be_pseudonyms(tmp_path):
    root = machine(tmp_path, ["payroll"])
    rows = GroupRows(renamed=Pseudonyms(b"k" * 32).group, root=root)
    rows.add([[inode(root, "payroll"), 1, 0, 0, 0]])
    labels = [label for label, _ in rows.rows()]
    assert "payroll" not in str(labels)
    assert any(re.fullmatch("/group-[0-9a-f]{10}", label) for label in labels)


@pytest.mark.parametrize(
    ("file", "text", "read"),
    [
        ("cpu.max", "5000 100000\n", system.quotas),
        ("cpu.stat", "nr_throttled 3\nthrottled_usec 9\n", system.throttled),
        (
            "cpu.stat",
            "",
            lambda root: {p for p, _ in system.cpu_groups(root).values() if p != "/"},
        ),
        ("cpuset.cpus", "0-1\n", lambda root: {c.path for c in system._cpusets(root / "cg")}),
    ],
)
def test_groups_that_end_while_they_are_listed_do_not_end_the_service(
    tmp_path, monkeypatch, file, text, read
):
    root = machine(tmp_path, ["gone/below", "stays"])
    for group in ("gone/below", "stays"):
        (root / "cg" / group / file).write_text(text)
    scandir, ended = os.scandir, []

    def ending(path):
        if not ended and Path(path).name == "gone":
            ended.append(path)
            with monkeypatch.context() as patched:
                patched.setattr(os, "scandir", scandir)
                shutil.rmtree(path)
        return scandir(path)

    monkeypatch.setattr(system, "in_first_namespace", lambda kind: True)
    monkeypatch.setattr(os, "scandir", ending)
    assert "/stays" in read(root)
    monkeypatch.undo()
    assert ended


def test_a_group_whose_name_is_no_text_has_a_label(tmp_path):
    root = machine(tmp_path, [os.fsdecode(b"x\xff")])
    rows = GroupRows(root=root)
    rows.add([[inode(root, os.fsdecode(b"x\xff")), 10**9, 0, 0, 0]])
    registry = CollectorRegistry()
    registry.register(Metrics(rows))
    assert rb'cgroup="/x\\xff",state="ran"} 1.0' in generate_latest(registry)


@pytest.mark.parametrize(
    ("stat", "virtual", "says"),
    [
        ("cpu 1\ncpu0 1 2 3 4 5 6 7 0 0 0\n", True, None),  # a hypervisor need not tell
        ("cpu0 1 2 3 4 5 6 7 0 0 0\n", False, {0: 0}),
        (
            "cpu0 1 2 3 4 5 6 7 250 0 0\ncpu1 1 2 3 4 5 6 7 0 0\nintr 5\n",
            True,
            {0: 250 * TICK_NS, 1: 0},
        ),
        ("cpu0 1 2 3\n", False, None),
    ],
)
def test_time_stolen_by_a_hypervisor_is_unknown_where_it_may_not_tell(
    tmp_path, stat, virtual, says
):
    assert stolen(machine(tmp_path, stat=stat, virtual=virtual)) == says


def full(root: Path, groups: int) -> CollectorRegistry:
    """Return the metrics of a machine in which so many groups ran and waited."""
    metrics = Metrics(GroupRows(groups, root=root))
    ids = [inode(root, f"pods/pod-{k:032x}") for k in range(groups)]
    metrics.message(sample(1, groups=[[i, 10**12 + i, 10**11, 10**10, 10**8] for i in ids]))
    registry = CollectorRegistry()
    registry.register(metrics)
    return registry


def test_a_page_with_a_thousand_groups_is_below_a_megabyte(tmp_path):
    root = machine(tmp_path, [f"pods/pod-{k:032x}" for k in range(1000)])
    page = generate_latest(full(root, 1000))
    assert page.count(b'state="wasted"') == 1001
    assert page.count(b'state="throttled"') == 1000
    assert len(page) < 1_000_000


def test_promtool_accepts_the_page(tmp_path):
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    root = machine(tmp_path, [f"pods/pod-{k:032x}" for k in range(3)])
    page = generate_latest(full(root, 3))
    run = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
