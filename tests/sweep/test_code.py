"""The digest of a task's code: it changes with what the task runs, and with nothing else."""

from __future__ import annotations

import os
import sys

import pytest

from wastedcores.sweep import Run, run
from wastedcores.sweep import sweep as run_all


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
    for name in [name for name in sys.modules if name.partition(".")[0] == "toy"]:
        del sys.modules[name]


@pytest.mark.parametrize("file", ["task", "deep__far", "added"])
def test_digest__covers_every_file_of_the_package_of_the_task(write, file):
    before = write()
    assert len(before) == 16
    assert write() == before
    assert write(**{file: "import json\nchanged = True\n"}) != before


def test_sweep__the_code_is_read_anew_each_time(write, tmp_path, monkeypatch):
    """A module is edited and swept again in the same process, as in a notebook."""
    monkeypatch.setenv("PYTHONPATH", f"{os.environ.get('PYTHONPATH', '')}:{tmp_path}")
    task = tmp_path / "toy/task.py"
    for n in (1, 22):  # of different lengths, because Python's own cache goes by size and seconds
        task.write_text(f"def f():\n    return {{'n': {n}}}\n")
        table = run_all(
            [Run.of("toy.task:f")], tmp_path / "t.parquet", workers=1, progress=False, keep=True
        )
        assert table["n"].to_list() == [n]


def test_execute__refuses_other_code_than_that_of_the_sweep(write):
    """A worker that joins a cluster later was not among those that were asked when the sweep began."""
    code = write(task="def f():\n    return {'n': 1}\n")
    assert (
        run.execute("toy.task:f", (), code)
        == run.execute("toy.task:f", ())
        == {"n": 1, "error": None}
    )
    assert "has other code than the sweep" in run.execute("toy.task:f", (), "other")["error"]


def test_digest__of_a_module_that_is_not_there_is_empty():
    assert run.digest("no_such_module_anywhere") == ""


def test_digest__covers_the_rooms_of_replays_and_not_those_of_presentation():
    files = {"/".join(p.parts[-2:]) for p in run._files("wastedcores")}
    assert {
        "engine/run_jit.py",
        "fair/cfs_jit.py",
        "workload/spmd.py",
    } <= files
    assert any(p.name == "replays.py" for p in run._files("wastedcores_studies"))
    assert not {f for f in files if f.startswith(("figures/", "words/", "cli/", "capture/"))}
