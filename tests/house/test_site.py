"""The documentation's site builds without a warning, and no link inside it leads nowhere."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest
from support import ROOT

spec = importlib.util.spec_from_file_location("build_docs", ROOT / "tools" / "build_docs.py")
build_docs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build_docs)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    """The notebooks are executed by test_notebooks.py, with the parameters of the gallery; here they are only shown."""
    import wastedcores

    start = build_docs.build(tmp_path, notebooks=False)
    site = start.parents[1]
    assert "Your own trace in five minutes" in start.read_text()
    listed = (site / "docs" / "api.html").read_text()
    for name in set(wastedcores.__all__) - {"__version__"}:
        # a link to its docstring, and not only its name
        assert re.search(
            rf'<a class="reference internal" href="api/[^"]*"[^>]*>(<[^>]*>)*wastedcores\.{name}\b',
            listed,
        ), name
    for number in range(12):
        assert list((site / "notebooks").glob(f"{number:02}_*.html"))


@pytest.mark.slow
def test_the_page_of_commands_has_the_verbs_below_a_verb(tmp_path):
    build_docs._commands(tmp_path / "commands.md")
    sections = (tmp_path / "commands.md").read_text().split("\n## ")
    helps = dict(section.split("\n", 1) for section in sections[1:])
    assert "--persist" in helps["check"]
    assert "--bzimage" in helps["guest record"]
    assert "--no-sandbox" in helps["course grade"]


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">b</a> <a href="#here">a</a> <a href="c.html">c</a>'
    )
    (tmp_path / "b.html").write_text(
        '<a href="a.html#here">a</a> <a href="https://example.org/x">elsewhere</a>'
    )
    assert build_docs.broken_links(tmp_path) == ["a.html: b.html#there", "a.html: c.html"]


def test_a_notebook_is_executed_anew_after_its_data_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(build_docs, "ROOT", tmp_path)
    names = ("benchmarks/results.json", "datasets/decade.csv", "wastedcores/files.py")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("old")
    digests = {build_docs._sources.__wrapped__()}
    for name in names:
        (tmp_path / name).write_text("new")
        digests.add(build_docs._sources.__wrapped__())
    assert len(digests) == 4


def test_the_gallery_names_notebooks_that_exist():
    for name in json.loads((ROOT / "docs" / "gallery.json").read_text()):
        assert (ROOT / "notebooks" / f"{name}.ipynb").exists()
