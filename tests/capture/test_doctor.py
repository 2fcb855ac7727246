"""The doctor names what is missing and the command of this distribution that installs it."""

from __future__ import annotations

import subprocess

import pytest

from wastedcores.capture import doctor
from wastedcores.capture.backends import distribution
from wastedcores.errors import CollectorError


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ID=debian\n", "debian"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "debian"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "fedora"),
        ("ID=arch\n", "arch"),
        ("ID=void\n", "any"),
    ],
)
def test_distribution(tmp_path, text, wanted):
    (tmp_path / "os-release").write_text(text)
    assert distribution(tmp_path / "os-release") == wanted


def test_distribution__no_file(tmp_path):
    assert distribution(tmp_path / "absent") == "any"


@pytest.mark.slow
def test_every_check_answers_here():
    found = doctor.examine()
    assert len(found) == len(doctor.CHECKS)
    for f in found:
        assert f.state in ("ok", "missing", "limited"), f
        assert f.says
        assert f.state != "missing" or f.fix, f"{f.name}: no command mends it"


@pytest.mark.parametrize("check", [doctor.check_browser, doctor.check_perf, doctor.check_bcc])
def test_missing_programs_come_with_three_commands(monkeypatch, tmp_path, check):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "SYSTEM_PYTHON", str(tmp_path / "python3"))
    found = check()
    assert found.state == "missing"
    assert "apt-get install" in found.command("debian")
    assert "dnf install" in found.command("fedora")
    assert "pacman -S" in found.command("arch")
    assert "pip install bcc" not in str(found.fix)


def test_why_the_online_checker_cannot_be_loaded_is_told_and_points_to_no_doctor(monkeypatch):
    """A finding of the doctor does not tell its reader to run the doctor."""
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 0)
    refused = subprocess.CompletedProcess([], 2, "", "unclaimed: the kernel refuses\nits log")
    monkeypatch.setattr(doctor, "choose", lambda *_, **__: None)
    monkeypatch.setattr(doctor, "command", lambda *_: [])
    monkeypatch.setattr(doctor, "_run", lambda _: refused)
    doctor._checker_says.cache_clear()
    found = doctor.check_checker()
    assert (found.state, found.fix) == ("limited", {})
    assert found.says == "it cannot be loaded (unclaimed: the kernel refuses)"
    assert doctor.check_decisions().says == f"the online checker: {found.says}"

    def nothing(*_, **__):
        raise CollectorError("nothing can capture here. bpf: no BTF. See also: wastedcores doctor.")

    monkeypatch.setattr(doctor, "choose", nothing)
    doctor._checker_says.cache_clear()
    assert doctor.check_checker().says == "nothing can capture here. bpf: no BTF."
    doctor._checker_says.cache_clear()


def test_an_installed_package_has_no_makefile(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "__file__", str(tmp_path / "wastedcores" / "capture" / "doctor.py"))

    def absent(name):
        raise doctor.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", absent)
    assert doctor.check_libraries().command("any") == "pip install 'wastedcores[lab]'"


def test_a_check_that_fails_is_a_finding(monkeypatch):
    def check_broken():
        raise PermissionError("no")

    monkeypatch.setattr(doctor, "CHECKS", [check_broken])
    assert doctor.examine()[0].state == "limited"
