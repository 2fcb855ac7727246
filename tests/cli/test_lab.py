"""``wastedcores lab`` copies the notebooks and opens JupyterLab on them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from wastedcores.cli.lab import copy_notebooks
from wastedcores.errors import UsageError
from wastedcores.files import notebooks


def test_lab__copies_all_notebooks_and_keeps_those_of_the_user(tmp_path):
    folder = tmp_path / "new" / "lab"
    there = {p.name for p in notebooks().glob("*.ipynb")}
    assert copy_notebooks(folder) == len(there) > 10
    assert {p.name for p in folder.iterdir()} == there
    mine = folder / sorted(there)[0]
    mine.write_text("changed")
    (folder / sorted(there)[1]).unlink()
    assert copy_notebooks(folder) == 1
    assert mine.read_text() == "changed"


def test_lab__copies_have_no_link_that_leads_nowhere(tmp_path):
    copy_notebooks(tmp_path)
    texts = {p.name: p.read_text() for p in tmp_path.glob("*.ipynb")}
    assert not [name for name, text in texts.items() if "](../" in text]
    assert "section 13 (`docs/replay-semantics.md` of the project)" in "".join(texts.values())
    # everything else is as it was
    assert (
        texts["01_is_my_machine_wasting.ipynb"]
        == (notebooks() / "01_is_my_machine_wasting.ipynb").read_text()
    )


def test_lab__a_file_is_no_folder(tmp_path):
    (tmp_path / "f").write_text("")
    with pytest.raises(UsageError, match="Name another folder"):
        copy_notebooks(tmp_path / "f")


def test_lab__a_copy_that_a_full_disk_cut_short_is_made_again(tmp_path, monkeypatch):
    write = Path.write_text

    def full(self, text, **how):
        write(self, text[:100], **how)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(UsageError, match="No space left"):
            copy_notebooks(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert copy_notebooks(tmp_path) == len(list(notebooks().glob("*.ipynb")))


@pytest.mark.slow
def test_lab__serves_the_notebooks(tmp_path):
    """Also as root, which JupyterLab alone refuses."""
    with subprocess.Popen(
        [sys.executable, "-m", "wastedcores", "lab", "work", "--no-browser", "--port", "18988"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            address = next(
                w for line in program.stderr for w in line.split() if "/lab" in w and "token=" in w
            )
            token = address.partition("token=")[2]
            place, _, _ = address.partition("/lab")
            for _ in range(50):
                try:
                    url = f"{place}/api/contents?token={token}"
                    with urllib.request.urlopen(url, timeout=10) as answer:
                        assert b"01_is_my_machine_wasting.ipynb" in answer.read()
                    break
                except OSError:
                    time.sleep(0.2)
            else:
                pytest.fail("the server does not answer")
        finally:
            program.terminate()
            program.wait(20)
