"""The digest of a task's code: it changes with what the task runs, and with nothing else."""

from __future__ import annotations

import pytest

from wastedcores import sources


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A package ``toy`` on the path; call with file -> text to change it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "toy" / "deep").mkdir(parents=True)

    def change(**files):
        for name, text in files.items():
            (tmp_path / "toy" / (name.replace("__", "/") + ".py")).write_text(text)
        sources.digest.cache_clear()
        return sources.digest("toy.task")

    for name in ("toy/__init__.py", "toy/deep/__init__.py"):
        (tmp_path / name).write_text("")
    change(
        task="from toy.helper import (\n    one,  # a comment\n)\n\ndef f():\n    import toy.deep.far\n",
        helper="import json\nfrom toy import near\n",
        near="x = 1\n",
        deep__far="y = 1\n",
        stranger="z = 1\n",
    )
    yield change
    sources.digest.cache_clear()


@pytest.mark.parametrize("file", ["task", "helper", "near", "deep__far"])
def test_digest__follows_imports_wherever_they_stand(write, file):
    before = write()
    assert len(before) == 16
    assert write() == before
    assert write(**{file: "import json\nchanged = True\n"}) != before


def test_digest__does_not_care_for_what_is_not_imported(write):
    before = write()
    assert write(stranger="z = 2\n") == before


def test_digest__of_a_module_that_is_not_there_is_empty():
    assert sources.digest("no_such_module_anywhere") == ""


def test_digest__of_the_studies_sees_the_engine_and_no_figures(monkeypatch):
    read = []
    plain = sources.Path.read_bytes
    monkeypatch.setattr(sources.Path, "read_bytes", lambda p: read.append(p) or plain(p))
    sources.digest.cache_clear()
    sources.digest("wastedcores.studies.runs")
    names = {"/".join(p.parts[-2:]) for p in read}
    sources.digest.cache_clear()
    assert {
        "engine/run_jit.py",
        "engine/cfs_jit.py",
        "balance/v4_1_jit.py",
        "workload/spmd.py",
        "topology/domains.py",
        "studies/databases.py",
    } <= names
    assert not {n for n in names if n.startswith(("figures/", "cli/", "capture/"))}
    assert "studies/scorecard.py" not in names  # a reason that is worded anew replays nothing
