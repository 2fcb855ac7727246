"""The online checker is loaded from its object, else bcc compiles it, and what is missing is told."""

from __future__ import annotations

import pytest

from wastedcores.capture import LiveOptions, backends, live, live_check
from wastedcores.errors import UsageError


@pytest.fixture
def no_bcc(monkeypatch):
    monkeypatch.setattr(backends, "bcc_python", lambda: None)
    monkeypatch.setattr(backends.os, "geteuid", lambda: 0)


@pytest.mark.skipif(not backends.Path("/sys/kernel/btf/vmlinux").exists(), reason="no BTF here")
def test_the_object_needs_no_compiler_and_a_recording_does(monkeypatch, no_bcc):
    monkeypatch.setattr(backends, "object_problem", lambda: None)
    found = backends.probe(checker=True)[0]
    assert (found.works, found.compiles) == (True, False)
    assert "checker.bpf.o" in found.why
    found = backends.probe()[0]
    assert (found.works, found.why) == (False, "no Python here has the bcc module")


@pytest.mark.skipif(not backends.Path("/sys/kernel/btf/vmlinux").exists(), reason="no BTF here")
def test_without_both_ways_both_reasons_are_told(monkeypatch, no_bcc):
    monkeypatch.setattr(backends, "LIBBPF", "libabsent.so.1")
    monkeypatch.setattr(backends, "OBJECT", "README.md")  # a file that is there
    found = backends.probe(checker=True)[0]
    assert not found.works
    assert "there is no libabsent.so.1" in found.why
    assert "no Python here has the bcc module" in found.why


def test_a_service_on_a_kernel_without_type_information_says_so(monkeypatch):
    lacks = "this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"
    pretended = [backends.Backend("bpf", False, lacks), backends.Backend("tracefs", True, "here")]
    monkeypatch.setattr(backends, "probe", lambda checker=False: pretended)
    monkeypatch.setattr(live, "probe", lambda checker=False: pretended)
    with pytest.raises(
        UsageError, match=r"metrics: only the BPF backend .*: this kernel has no .*BTF"
    ):
        live_check(LiveOptions(tally=True), seconds=1)


@pytest.mark.parametrize("option", ["event_driven", "deficit", "useless"])
def test_what_tracefs_cannot_look_for_is_refused(monkeypatch, option):
    """A count of 0 would say that it was looked for."""
    tracefs = backends.Backend("tracefs", True, "here")
    monkeypatch.setattr(live, "choose", lambda *_, **__: tracefs)
    with pytest.raises(UsageError, match=f"--{option.replace('_', '-')}: only the BPF backend"):
        live_check(LiveOptions(**{option: True}), seconds=1)
