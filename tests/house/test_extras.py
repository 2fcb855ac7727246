"""The core neither imports nor needs what the extras bring, and a verb whose extra is missing says which to install."""

from __future__ import annotations

import json
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
import json
from support.typed import typed
print(json.dumps({words: vars(typed(*words.split())) for words in sys.argv[1:]}))
"""
FAST = {
    "check live-balancing-off": 1,
    "explain live-balancing-off": 0,
    "domains --machine bd-paper-16 --kernel v4.1": 0,
    "info live-balancing-off": 0,
    "replay missing-domains --machine bd-paper-16 --set n=4 --set limit_s=0.1": 1,
    "report --help": 0,
}
REFUSED = ["figure live-balancing-off -o x.html", "report live-balancing-off", "lab x"]


def without_lab(folder, *commands: str) -> dict[str, dict]:
    """Return the exit code and the output of each command."""
    code = WITHOUT.replace("LAB", repr(LAB))
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, *commands], cwd=folder, env=os.environ | {"PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """What a command answers; all but the slow one run in one process."""
    folder, done = tmp_path_factory.mktemp("core"), {}

    def answer(words: str) -> dict:
        if words not in done:
            fast = [*FAST, *REFUSED]
            done.update(without_lab(folder, *(fast if words in fast else [words])))
        return done[words]

    return answer


@pytest.mark.parametrize(
    ("words", "code"),
    [
        *FAST.items(),
        pytest.param("whatif lu-pinned-fixed --to core --seeds 1", 0, marks=pytest.mark.slow),
    ],
)
def test_the_core_works_without_the_lab(words, code, core):
    assert core(words)["code"] == code, core(words)["err"]


@pytest.mark.parametrize("words", REFUSED)
def test_a_verb_without_its_extra_says_which_to_install(words, core):
    assert core(words)["code"] == 2
    assert "Install it: pip install 'wastedcores[lab]'" in core(words)["err"]


def test_every_package_of_an_extra_is_found_in_it():
    for extra in ("lab", "course", "dask", "docs"):
        for line in (p for p in EXTRAS[extra] if not p.startswith("wastedcores[")):
            package = re.match(r"[\w-]+", line).group()
            module = {"otter-grader": "otter"}.get(package, package.replace("-", "_"))
            assert _extra_with(module) == extra
    assert _extra_with("numpy") == ""
