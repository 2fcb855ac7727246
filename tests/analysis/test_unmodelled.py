"""Wherever a kernel is chosen for a trace, a kernel whose balancer is not modelled gets no verdict about 4.1's bugs."""

from __future__ import annotations

import json

import pytest
from support import TESTS

import wastedcores as wc
from wastedcores.errors import NotRecoverableError
from wastedcores.kernels import FIXES
from wastedcores.topology.source import find_machine
from wastedcores.words.answer import headline
from wastedcores.words.cause import why

FOLDER = TESTS / "analysis" / "recordings"
#: recording -> its kernel, and what is said of its cause
RECORDED = {
    "lu10ms-6.12-64cpu": ("v6.12.107", "unknown"),
    "gc-6.12-16cpu": ("v6.12.107", "transient"),
    "lu10ms-7.2-64cpu": ("v7.2.13", "transient"),
    "ms-7.2-16cpu": ("v7.2.13", "nothing"),
}


@pytest.fixture(scope="module", params=RECORDED)
def recording(request):
    """The name, the trace as its user states it, and what was recorded about it."""
    folder = FOLDER / request.param
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


def test_nothing_is_predicted_for_them(recording):
    _, trace, meta = recording
    with pytest.raises(NotRecoverableError, match="no model of this kernel's balancer") as refused:
        wc.whatif(trace, seeds=1)
    assert meta["kernel"] in str(refused.value)


def test_the_machine_file_of_a_recording_names_its_kernel(recording):
    name, _, _ = recording
    source = find_machine(str(FOLDER / name))
    assert source.model().name == RECORDED[name][0]


def test_the_words_of_reports_say_that_the_cause_is_not_known():
    folder = FOLDER / "lu10ms-6.12-64cpu"
    run = wc.examine(
        wc.recorded_on(folder / "trace.txt.xz", folder / "meta.json", "6.12.107+deb13-amd64")
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
        assert wc.explain(trace).looks_like == "unknown"
