"""The core neither imports nor needs what the extras bring, and a verb whose extra is missing says which to install."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import pytest
from support import ROOT

from wastedcores.cli import _extra_with

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
#: modules of the extra that bring figures, reports and notebooks
LAB = (
    "plotly",
    "jupyterlab",
    "ipywidgets",
    "anywidget",
    "papermill",
    "nbconvert",
    "nbformat",
    "IPython",
)

#: runs the command line with an interpreter in which the modules of the extra cannot be imported
WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LAB:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from wastedcores.cli import main
main()
"""


def without_lab(words: str, folder) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.replace("LAB", repr(LAB))
    call = [sys.executable, "-c", code, *words.split()]
    return subprocess.run(
        call, cwd=folder, env=os.environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("check live-balancing-off", 1),
        ("explain live-balancing-off", 0),
        ("domains --machine bd-paper-16 --kernel v4.1", 0),
        ("info live-balancing-off", 0),
        ("replay missing-domains --machine bd-paper-16 --set n=4 --set limit_s=0.1", 1),
        pytest.param("whatif lu-pinned-fixed --to core --seeds 1", 0, marks=pytest.mark.slow),
        ("report --help", 0),
    ],
)
def test_the_core_works_without_the_lab(words, code, tmp_path):
    done = without_lab(words, tmp_path)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    "words", ["figure live-balancing-off -o x.html", "report live-balancing-off", "lab x"]
)
def test_a_verb_without_its_extra_says_which_to_install(words, tmp_path):
    done = without_lab(words, tmp_path)
    assert done.returncode == 2
    assert "Install it: pip install 'wastedcores[lab]'" in done.stderr


def test_every_package_of_an_extra_is_found_in_it():
    for extra in ("lab", "course", "dask", "docs"):
        for line in (p for p in EXTRAS[extra] if not p.startswith("wastedcores[")):
            package = re.match(r"[\w-]+", line).group()
            module = {"otter-grader": "otter"}.get(package, package.replace("-", "_"))
            assert _extra_with(module) == extra
    assert _extra_with("numpy") == ""
