"""``figure``, ``data``, ``report`` and ``doctor`` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.typed import typed

from wastedcores.reports.html import browser


def test_data__lists_and_finds():
    listed = typed("data")
    assert listed.code == 0
    assert "group-imbalance-buggy" in listed.out
    rows = json.loads(typed("data", "--json").out)["datasets"]
    assert {r["name"] for r in rows} >= {"live-balancing-on", "missing-domains-fixed"}
    assert typed("data", "live-balancing-on").out.strip() == next(
        r["path"] for r in rows if r["name"] == "live-balancing-on"
    )


@pytest.mark.parametrize("kind", ["heatmap", "tasks", "waits", "worst"])
def test_figure__json(tmp_path, kind):
    done = typed("figure", "live-balancing-off", "--kind", kind, "-o", tmp_path / "f.json")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "f.json").read_text())["data"]
    assert done.out.strip() == str(tmp_path / "f.json")


def test_figure__page_carries_its_library(tmp_path):
    assert typed("figure", "live-balancing-off", "-o", tmp_path / "f.html").code == 0
    page = (tmp_path / "f.html").read_text()
    assert "<script src" not in page
    assert "plotly.js v" in page


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(browser() is None, reason="needs chromium")
def test_figure__picture(tmp_path):
    done = typed("figure", "live-balancing-off", "-o", tmp_path / "f.png", "--width", 900)
    assert done.code == 0, done.err
    picture = (tmp_path / "f.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20]) == 900


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("figure", "live-balancing-off", "-o", "f.bmp"), ".html, .json or .png"),
        (("figure", "live-balancing-off", "--kind", "load", "-o", "f.html"), "no 'load' events"),
        (("figure", "live-balancing-off", "--palette", "x", "-o", "f.html"), "safe and paper"),
        (
            ("figure", "live-balancing-off", "--from", "9", "--to", "8", "-o", "f.html"),
            "end after it starts",
        ),
        (("figure", "live-balancing-off", "-o", "no/such/f.html"), "cannot write there"),
        (("report", "live-balancing-of", "-o", "r"), "'live-balancing-off'"),
        (("report", "live-balancing-off", "-o", "r", "--set", "persist"), "NAME=VALUE"),
        (("report", "live-balancing-off", "-o", "r", "--set", "zoom=1"), "'zoom_ms'"),
        (("data", "nothing"), "no data set of that name"),
    ],
)
def test_bad_use__one_paragraph_exit_2_nothing_left(tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    done = typed(*arguments)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_report__lists_its_parameters():
    listed = typed("report", "--parameters")
    assert listed.code == 0
    assert 'persist: str = "100ms"' in listed.out


@pytest.mark.slow
def test_doctor():
    done = typed("doctor")
    assert done.code == 0
    assert "python" in done.out
    findings = json.loads(typed("doctor", "--json").out)["findings"]
    assert "python" in {f["name"] for f in findings}


def test_export__refuses_an_ending_that_promises_text(tmp_path):
    done = typed("export", "live-balancing-on", "-o", tmp_path / "gi.json")
    assert done.code == 2
    assert "binary file for Perfetto" in done.err
    assert not list(tmp_path.iterdir())


def test_figure__has_a_name_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = typed("figure", "live-balancing-off", "--kind", "waits")
    assert done.out.strip() == "live-balancing-off-waits.html"
    assert (tmp_path / "live-balancing-off-waits.html").exists()


def test_data__names_that_begin_alike_are_all_offered():
    said = typed("check", "group-imbalance").err
    assert "Did you mean 'group-imbalance-buggy' or 'group-imbalance-fixed'?" in said


def test_report__between_bounds_the_window(monkeypatch):
    """The notebook gets the two moments as a list, as its parameter wants them."""
    from wastedcores.reports import notebook

    asked = {}

    def made(trace, **options):
        run = notebook.find_notebook(options["notebook"])
        asked.update(notebook.checked(run, options["parameters"]))
        return notebook.Report(Path("p.html"), Path("p.ipynb"), Path("manifest.json"))

    monkeypatch.setattr(notebook, "report", made)
    assert typed("report", "live-balancing-off", "--between", "0.1", "0.2").code == 0
    assert asked == {"between": ["0.1", "0.2"]}
