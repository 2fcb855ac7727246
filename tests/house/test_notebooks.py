"""Notebooks are thin, have no outputs, and run to the end in a fresh kernel."""

from __future__ import annotations

import ast
import json
import re

import nbformat
import pytest
from support import ROOT

from wastedcores.files import notebooks
from wastedcores.reports.notebook import checked, parameters_of

NOTEBOOKS = sorted(p for p in notebooks().rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
#: tests/course runs the labs
LECTURES = [p for p in NOTEBOOKS if p.parent.name != "course"]

#: notebook -> parameters that make it quick, as in the gallery of the documentation's site; a notebook that is not
#: named runs with its defaults
SMALL = json.loads((ROOT / "docs" / "gallery.json").read_text())


def ids(path):
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_notebook_is_stripped_and_has_one_parameters_cell(path):
    nb = nbformat.read(path, as_version=4)
    nbformat.validate(nb)
    for cell in nb.cells:
        assert not cell.get("outputs"), "strip the outputs"
        assert cell.get("execution_count") is None
    tagged = [c for c in nb.cells if "parameters" in c.metadata.get("tags", [])]
    assert len(tagged) == 1
    for line in tagged[0].source.splitlines():
        assert re.match(r"\w+: \w[\w\[\], ]* = .*  # \S", line), f"typed and commented: {line}"
    assert nb.cells[0].cell_type == "markdown"
    assert nb.cells[0].source.startswith("# ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids)
def test_notebook_is_thin(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        # an answer to a lab's task is what students write, so it may be longer
        tags = cell.metadata.get("tags", [])
        answer = "solution" in tags
        longest = 25 if answer else 15 if "parameters" in tags else 12
        assert len(cell.source.splitlines()) <= longest, cell.source
        assert not re.search(r"^\s*[!%]|/(home|root|tmp|work)/", cell.source, re.MULTILINE), (
            cell.source
        )
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.FunctionDef) and not answer:
                assert node.end_lineno - node.lineno < 3, f"def {node.name} is longer than 3 lines"
            private = isinstance(node, ast.Attribute) and node.attr.startswith("_")
            assert not private, f"{node.attr}: public names only"


@pytest.mark.slow
@pytest.mark.parametrize("path", LECTURES, ids=ids)
def test_notebook_runs_in_a_fresh_kernel(path, tmp_path):
    import papermill
    from traitlets.config import Config

    values = checked(path, SMALL.get(path.stem, {}))
    out = tmp_path / "out.ipynb"
    papermill.execute_notebook(
        str(path),
        str(out),
        parameters=values,
        kernel_name="python3",
        progress_bar=False,
        cwd=str(tmp_path),
        config=Config({"KernelManager": {"transport": "ipc"}}),
    )
    kinds = {
        kind
        for cell in nbformat.read(out, as_version=4).cells
        for output in cell.get("outputs", ())
        for kind in output.get("data", {})
    }
    assert "application/vnd.plotly.v1+json" in kinds
    if "interactive" in parameters_of(path):
        assert "application/vnd.jupyter.widget-view+json" in kinds


def test_a_cell_with_a_widget_says_what_to_do_when_its_kernel_is_gone():
    cells = [
        cell.source
        for path in NOTEBOOKS
        for cell in nbformat.read(path, as_version=4).cells
        if cell.cell_type == "code" and "from wastedcores.widgets import" in cell.source
    ]
    assert len(cells) >= 6
    assert all(
        source.startswith("# Run this cell again if the view below is gone") for source in cells
    )
