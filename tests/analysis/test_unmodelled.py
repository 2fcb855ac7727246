"""Wherever a kernel is chosen for a trace, a kernel of today gets no verdict about bugs that it does not have."""

from __future__ import annotations

import json

import pytest
from support import MODERN, ROOT

import wastedcores as wc
from wastedcores.errors import NotRecoverableError
from wastedcores.kernels import FIXES
from wastedcores.topology.source import find_machine
from wastedcores.words.cause import why
from wastedcores.words.findings import headline

#: recording -> its kernel, and what is said of its cause
RECORDED = {
    "lu10ms-6.12-64cpu": ("v6.12.107", "undecided"),
    "db16-6.12-16cpu": ("v6.12.107", "transient"),
    "gc-6.12-16cpu": ("v6.12.107", "transient"),
    "lu10ms-7.2-64cpu": ("v7.2.13", "transient"),
    "ms-7.2-16cpu": ("v7.2.13", "nothing"),
}


@pytest.fixture(scope="module", params=RECORDED)
def recording(request):
    """The name, the trace as its user states it, and what was recorded about it."""
    folder = MODERN / request.param
    meta = json.loads((folder / "meta.json").read_text())
    trace = wc.recorded_on(folder / "trace.txt.xz", folder / "meta.json", meta["kernel"])
    return request.param, trace, meta


def test_recordings_of_kernels_of_today_get_no_verdict_of_2016(recording):
    name, trace, meta = recording
    kernel, looks_like = RECORDED[name]
    assert trace.header.kernel_release == meta["kernel"]
    found = wc.explain(trace)
    assert (found.kernel.name, found.looks_like) == (kernel, looks_like)
    assert found.looks_like not in FIXES
    assert found.fix is None


def test_nothing_is_predicted_for_a_kernel_whose_vendor_changes_the_scheduler(recording):
    _, trace, _ = recording
    changed = trace.with_header(kernel_release="6.12.0-55.el10.x86_64")
    with pytest.raises(NotRecoverableError, match="no model of this kernel's balancer") as refused:
        wc.whatif(changed, seeds=1)
    assert "6.12.0-55.el10.x86_64" in str(refused.value)


def test_the_machine_file_of_a_recording_names_its_kernel(recording):
    name, _, _ = recording
    source = find_machine(str(MODERN / name))
    assert source.model().name == RECORDED[name][0]


def test_the_words_of_reports_say_that_the_cause_is_not_known():
    folder = MODERN / "lu10ms-6.12-64cpu"
    run = wc.examine(
        wc.recorded_on(folder / "trace.txt.xz", folder / "meta.json", "6.12.0-55.el10.x86_64")
    )
    assert run.explanation.looks_like == "unknown"
    said = headline(run) + why(run).text
    assert said.count("no model of this kernel's balancer") >= 2
    assert "looks like" not in headline(run)
    for bug in (
        "Group Imbalance",
        "Group Construction",
        "Overload-on-Wakeup",
        "Missing Scheduling",
    ):
        assert bug not in said


@pytest.mark.parametrize(
    ("stated", "release", "model"),
    [
        ("4.18.0-553.el8_10.x86_64", "4.18.0-553.el8_10.x86_64", None),
        ("6.12.107+deb13-amd64", "6.12.107+deb13-amd64", None),
        ("v4.1", "v4.1", "v4.1"),
    ],
)
def test_stating_a_release_keeps_what_its_vendor_appended(stated, release, model):
    trace = wc.recorded_on("group-imbalance-buggy", kernel=stated)
    assert trace.header.kernel_model == model
    if model is None:
        assert trace.header.kernel_release == release
        assert wc.explain(trace).looks_like == ("unknown" if ".el8" in release else "undecided")


@pytest.mark.parametrize(
    ("name", "cpus", "idle_beside_ms", "of_wakeups"),
    [("lu10ms-6.12-64cpu", range(8, 24), 202, 0.04), ("db16-6.12-16cpu", range(16), 110, 0.99)],
)
def test_the_figures_of_the_page_about_6_12(name, cpus, idle_beside_ms, of_wakeups):
    folder = MODERN / name
    result = wc.check(folder / "trace.txt.xz", cpus=list(cpus))
    assert round(result.wall_ns / 1e6) == idle_beside_ms
    found = wc.explain(
        result, wc.Machine.from_dict(json.loads((folder / "meta.json").read_text())), "v6.12.107"
    )
    shares = dict(found.causes.select("cause", "share").iter_rows())
    assert shares["wakeup"] == pytest.approx(of_wakeups, abs=0.005)
    assert found.relations.row(0)[0] == "could pull"
    page = (ROOT / "docs" / "linux-6.12.md").read_text()
    assert f"idle beside overloaded CPUs for {idle_beside_ms} ms" in page
    assert f"{100 * of_wakeups:.0f} % of the overload began with a wakeup" in page


def test_one_idle_cpu_on_another_node_was_left_idle_under_6_12():
    folder = MODERN / "lu10ms-6.12-64cpu"
    result = wc.check(folder / "trace.txt.xz", cpus=list(range(8, 24)))
    machine = wc.Machine.from_dict(json.loads((folder / "meta.json").read_text()))
    found = wc.explain(result, machine, "6.12.107+deb13-amd64")
    assert round(result.longest_ns / 1e6) == 194
    assert found.pairs.rows()[0][:2] == (21, 8)
    assert found.pairs.rows()[1][:2] == (21, 9)
    assert found.relations.row(0) == ("could pull", "NUMA <= 22", pytest.approx(0.98, abs=0.005))
    shares = dict(found.causes.select("cause", "share").iter_rows())
    assert shares["wakeup_new"] == pytest.approx(0.71, abs=0.005)
    assert shares["migrate"] == pytest.approx(0.25, abs=0.005)
