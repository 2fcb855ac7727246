"""The doctor names what is missing and the command of this distribution that installs it."""

from __future__ import annotations

import pytest

from wastedcores.capture import doctor
from wastedcores.capture.backends import distribution


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


def test_a_check_that_fails_is_a_finding(monkeypatch):
    def check_broken():
        raise PermissionError("no")

    monkeypatch.setattr(doctor, "CHECKS", [check_broken])
    assert doctor.examine()[0].state == "limited"
