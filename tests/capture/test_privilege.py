"""Root runs nothing that somebody else can change."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from wastedcores.capture import backends, collector, doctor
from wastedcores.capture.backends import Backend
from wastedcores.errors import CollectorError
from wastedcores.files import collectors

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
NOBODY = 65534
TRACEFS = Backend("tracefs", True, "pretended")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The package's own collectors, which belong to a user, and the place of root's copy."""
    own, copy = tmp_path / "own", tmp_path / "libexec"
    shutil.copytree(collectors(), own, ignore=shutil.ignore_patterns("__pycache__"))
    os.chown(own / "tracefs.py", NOBODY, NOBODY)
    monkeypatch.setattr(collector, "collectors", lambda: own)
    monkeypatch.setattr(collector, "INSTALLED", copy)
    return own, copy


def install() -> None:
    command = collector.install_command().removeprefix("sudo ")
    subprocess.run(["sh", "-c", command], check=True)


def test_files_of_a_user_are_not_run_as_root(places):
    own, copy = places
    with pytest.raises(CollectorError, match="belongs to user 65534") as told:
        backends.command("tracefs.py", [], TRACEFS)
    assert f"there is no copy in {copy}" in str(told.value)
    assert str(told.value).endswith(collector.install_command())
    found = doctor.check_collectors()
    assert (found.state, found.command("debian")) == ("missing", collector.install_command())
    install()
    assert backends.command("tracefs.py", ["--x"], TRACEFS)[-2:] == [f"{copy}/tracefs.py", "--x"]
    assert doctor.check_collectors().says == f"only root can change {copy}"
    assert {f.name for f in copy.iterdir()} == {
        f.name for f in own.iterdir() if f.suffix in (".py", ".c", ".h", ".o")
    }


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda copy: os.chown(copy / "_bpf.py", NOBODY, -1), "_bpf.py belongs to user 65534"),
        (lambda copy: (copy / "ring.c").chmod(0o666), "ring.c can be written by others"),
        (lambda copy: copy.chmod(0o775), "libexec can be written by others"),
        (lambda copy: copy.parent.chmod(0o777), "can be written by others"),
        (lambda copy: os.chown(copy.parent, NOBODY, -1), "belongs to user 65534"),
        (lambda copy: (copy / "ring.c").write_text("other"), "ring.c differs"),
        (lambda copy: (copy / "_btf.py").unlink(), "_btf.py differs"),
    ],
)
def test_a_copy_that_others_can_change_or_of_another_version_is_not_run(places, spoil, says):
    _, copy = places
    install()
    assert collector.collectors_for_root() == copy
    spoil(copy)
    with pytest.raises(CollectorError, match="will not be run as root") as told:
        collector.collectors_for_root()
    assert says in str(told.value)


def test_a_link_of_a_user_is_no_way_to_a_file_of_root(tmp_path):
    (tmp_path / "file").write_text("x")
    assert collector.changeable(tmp_path / "file") is None
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert collector.changeable(tmp_path / "link") is None
    os.lchown(tmp_path / "link", NOBODY, NOBODY)
    assert "link belongs to user" in collector.changeable(tmp_path / "link")


def test_files_of_root_in_a_sticky_folder_are_roots(tmp_path):
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    (sticky / "file").write_text("x")
    assert collector.changeable(sticky / "file") is None
    sticky.chmod(0o777)
    assert "sticky can be written by others" in collector.changeable(sticky / "file")


def test_a_python_of_a_user_is_not_run_as_root(tmp_path, monkeypatch):
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\ntouch $(dirname $0)/ran\n")
    python.chmod(0o755)
    os.chown(python, NOBODY, NOBODY)
    monkeypatch.setenv("WASTEDCORES_BCC_PYTHON", str(python))
    backends.bcc_python.cache_clear()
    try:
        assert backends.bcc_python() is None
    finally:
        backends.bcc_python.cache_clear()
    assert not (tmp_path / "ran").exists()
    monkeypatch.setattr(backends, "SYSTEM_PYTHON", str(python))
    with pytest.raises(CollectorError, match="will not be run as root"):
        backends.command("tracefs.py", [], TRACEFS)


def test_a_user_whose_package_is_theirs_gets_no_sudo(tmp_path):
    """The whole command as another user, with a sudo that would tell that it was asked."""
    site, bin_ = tmp_path / "site", tmp_path / "bin"
    root = Path(backends.__file__).resolve().parents[2]
    ignored = shutil.ignore_patterns("__pycache__", "_bundled")
    shutil.copytree(root / "wastedcores", site / "wastedcores", ignore=ignored)
    shutil.copytree(collectors(), site / "wastedcores/_bundled/collectors", ignore=ignored)
    bin_.mkdir()
    (bin_ / "sudo").write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    (bin_ / "sudo").chmod(0o755)
    (tmp_path / "out").mkdir()
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", tmp_path], check=True)
    for folder in tmp_path.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    environment = {
        "PATH": f"{bin_}:/usr/bin:/bin",
        "PYTHONPATH": f"{site}:{':'.join(p for p in sys.path if 'site-packages' in p)}",
        "HOME": str(tmp_path / "out"),
    }
    code = "from wastedcores.cli import main; main()"
    done = subprocess.run(
        ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "/usr/bin/python3",
         "-B", "-c", code, "capture", "--seconds", "0.1", "-o", tmp_path / "out/t.parquet"],
        env=environment, capture_output=True, text=True, check=False, timeout=120, cwd="/",
    )  # fmt: skip
    assert done.returncode == 2, done
    assert "will not be run as root" in done.stderr
    assert "sudo install -D" in done.stderr
    assert not (tmp_path / "asked").exists()
    assert list((tmp_path / "out").glob("t.*")) == []


@pytest.mark.parametrize(("folder_of", "code"), [(NOBODY, 0), (0, 2)])
def test_a_collector_writes_with_the_rights_of_the_user_who_called_sudo(tmp_path, folder_of, code):
    target = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        os.chown(target, folder_of, 0)
        target.chmod(0o775)  # root's group may write, and root is in it
        program = f"import _output, os; os.write(_output.open_output('{target}/out'), b'x'); print(os.geteuid(), os.getegid())"
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=collectors(),
            env=os.environ | {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done
        if code:
            assert done.stderr == f"{target}/out: cannot write: Permission denied\n"
            assert not (target / "out").exists()
        else:
            assert done.stdout == "0 0\n"
            assert (target / "out").stat().st_uid == NOBODY
    finally:
        shutil.rmtree(target)
