"""A collector keeps no capability once its programs are attached, but where the kernel asks for one at every call of bpf()."""

from __future__ import annotations

import importlib
import sys

import pytest
from support import ROOT


@pytest.fixture
def privilege(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "collectors"))
    yield importlib.import_module("_privilege")
    sys.modules.pop("_privilege", None)


@pytest.mark.parametrize(
    ("release", "disabled", "kept"),
    [
        ("5.10.0-28-amd64", "2", ["CAP_BPF"]),
        ("5.18.19", "1", ["CAP_BPF"]),
        ("5.10.0-28-amd64", "0", []),
        ("5.10.0-28-amd64", None, []),
        ("5.19.0", "2", []),
        ("6.18.44", "2", []),
    ],
)
def test_before_5_19_every_call_of_bpf_needs_a_capability_if_users_have_none(
    privilege, monkeypatch, tmp_path, release, disabled, kept
):
    """__sys_bpf(), kernel/bpf/syscall.c; c8644cd0efe7 limited this to creating maps and loading programs."""
    if disabled is not None:
        (tmp_path / "disabled").write_text(f"{disabled}\n")
    left = []
    monkeypatch.setattr(privilege, "DISABLED", tmp_path / "disabled")
    monkeypatch.setattr(privilege.platform, "release", lambda: release)
    monkeypatch.setattr(privilege, "_capset", lambda caps: left.append(list(caps)))
    monkeypatch.setenv("SUDO_UID", "1000")
    privilege.drop_all(calls_bpf=True)
    privilege.drop_all()
    assert left == [[getattr(privilege, name) for name in kept], []]
