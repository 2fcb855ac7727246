"""The digest of a task's code: it changes with what the task runs, and with nothing else."""

from __future__ import annotations

import pytest

from wastedcores.sweep import run


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return a function that writes files of a package ``toy`` and returns the digest of its task."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "toy" / "deep").mkdir(parents=True)

    def change(**files):
        for name, text in files.items():
            (tmp_path / "toy" / (name.replace("__", "/") + ".py")).write_text(text)
        run.digest.cache_clear()
        return run.digest("toy.task")

    for name in ("toy/__init__.py", "toy/deep/__init__.py"):
        (tmp_path / name).write_text("")
    change(
        task="def f():\n    return 1\n",
        deep__far="y = 1\n",
    )
    yield change
    run.digest.cache_clear()


@pytest.mark.parametrize("file", ["task", "deep__far", "added"])
def test_digest__covers_every_file_of_the_package_of_the_task(write, file):
    before = write()
    assert len(before) == 16
    assert write() == before
    assert write(**{file: "import json\nchanged = True\n"}) != before


def test_digest__of_a_module_that_is_not_there_is_empty():
    assert run.digest("no_such_module_anywhere") == ""


def test_digest__covers_the_rooms_of_replays_and_not_those_of_presentation():
    files = {"/".join(p.parts[-2:]) for p in run._files("wastedcores")}
    assert {
        "engine/run_jit.py",
        "fair/cfs_jit.py",
        "workload/spmd.py",
        "studies/replays.py",
    } <= files
    assert not {f for f in files if f.startswith(("figures/", "words/", "cli/", "capture/"))}
