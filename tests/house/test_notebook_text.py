"""Notebooks with other parameters than their own: another data set, another machine, another kernel. The text follows them."""

from __future__ import annotations

import html
import json
import re

import nbformat
import pytest
from support import ROOT

from wastedcores.files import notebooks
from wastedcores.reports.notebook import checked

SMALL = json.loads((ROOT / "docs" / "gallery.json").read_text())
#: notebook, parameters, what its results must say, and what they must not say
CASES = [
    ("01", {"trace": "overload-on-wakeup-buggy", "against": "", "persist": "1ms", "seeds": 1}, ["Overload-on-Wakeup"], []),
    ("04", {"kernel": "v4.4", "fixed": "v4.4+group_imbalance"}, ["You chose kernel = 'v4.4'"], ["7 of 8 CPUs"]),
    ("04", {"machine": "bulldozer8x8", "jobs": 200}, [], ["You chose"]),
    ("05", {"work_us": 1000}, ["machine = 'bd-paper-16'"], ["29.57", "11.61"]),
    ("05", {"machine": "bd-paper-64", "iterations": 60, "work_us": 10000, "seeds": 2}, ["29.57", "11.61"], ["You chose"]),
    ("06", {"kernel": "v4.4", "fixed": "v4.4+overload_on_wakeup", "modern": ""}, ["You chose kernel = 'v4.4'", "every 1 s"], []),
    ("06", {"modern": "v6.1.192", "switches": []}, ["The database under v6.1.192", "every 40 ms"], ["You chose"]),
    ("07", {"kernel": "v4.4", "fixed": "v4.4+missing_domains"}, ["You chose kernel = 'v4.4'"], []),
    ("12", {"jobs": 8}, ["You chose jobs = 8", "recipes"], []),
    ("14", {"trace": "kernel-build"}, ["never sleep"], []),
    ("16", {"kernel": "v6.12.107", "fixed": "v4.1"}, ["as many idle CPUs in the busiest group", "threads of the group"], []),
    ("16", {"kernel": "v6.1.192", "fixed": "v6.12.107"}, ["moving a thread would gain nothing"], []),
    ("16", {"kernel": "v4.4", "fixed": "v4.4+group_imbalance"}, ["busiest ≤ local"], []),
]  # fmt: skip


def results(path, values, tmp_path):
    """Everything that the cells of an executed notebook show, as text."""
    import papermill
    from traitlets.config import Config

    out = tmp_path / "out.ipynb"
    papermill.execute_notebook(
        str(path),
        str(out),
        parameters=checked(path, values),
        kernel_name="python3",
        progress_bar=False,
        cwd=str(tmp_path),
        config=Config({"KernelManager": {"transport": "ipc"}}),
    )
    shown = [
        json.dumps(output.get("data", {}).get(kind, output.get("text", "")), ensure_ascii=False)
        for cell in nbformat.read(out, as_version=4).cells
        for output in cell.get("outputs", ())
        for kind in (*output.get("data", {}), "none")
    ]
    text = html.unescape(" ".join(shown)).replace("\u2009", " ").replace("\u00a0", " ")
    # figures carry minus signs and symbols as escapes
    return re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), text)


@pytest.mark.long
@pytest.mark.parametrize(("number", "given", "says", "never"), CASES)
def test_the_text_of_a_notebook_follows_its_parameters(number, given, says, never, tmp_path):
    (path,) = notebooks().glob(f"{number}_*.ipynb")
    text = results(path, SMALL.get(path.stem, {}) | given, tmp_path)
    for words in says:
        assert words in text, words
    for words in never:
        assert words not in text, words
