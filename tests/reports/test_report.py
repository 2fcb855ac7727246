"""Reports check parameters first, leave a complete folder or none, and give the same numbers for the same input."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys

import nbformat
import plotly.graph_objects as go
import polars as pl
import pytest

from wastedcores.errors import DatasetError, ReportError, UsageError, WastedCoresError
from wastedcores.reports.html import MIME, write_figure
from wastedcores.reports.notebook import checked, find_notebook, parameters_of, report
from wastedcores.trace.header import Header
from wastedcores.trace.named import fetch
from wastedcores.trace.parquet import write_parquet
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace

NOTEBOOK = find_notebook("01")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "deep" / "r"
    parameters = {"persist": "50ms", "seeds": 1}
    return report(
        "live-balancing-off",
        against="live-balancing-on",
        out=out,
        parameters=parameters,
        progress=False,
    )


def numbers(html):
    """Return the data of the figures as the notebook stores them."""
    nb = nbformat.read(html, as_version=4)
    return [
        json.dumps(o["data"][MIME]["data"], sort_keys=True)
        for c in nb.cells
        for o in c.get("outputs", ())
        if MIME in o.get("data", {})
    ]


@pytest.mark.slow
def test_report__three_files_and_nothing_else(made):
    assert {p.name for p in made.html.parent.iterdir()} == {
        "report.html",
        "report.ipynb",
        "manifest.json",
    }
    assert {p.name for p in made.html.parent.parent.iterdir()} == {"r"}


@pytest.mark.slow
def test_report__page_carries_everything_once(made):
    page = made.html.read_text()
    assert page.count('<script>wcDraw("figure') == len(numbers(made.notebook))
    assert page.count("plotly.js v") == 1
    body = page[page.index("<body>") :]
    for wanted in ("0.9", "violations", "clean", "live-balancing-off", "show code", "overview"):
        assert wanted in body
    for forbidden in (
        '<link rel="stylesheet"',
        "cdn",
        "MathJax",
        "requirejs",
        "<iframe",
        '<img src="http',
    ):
        assert forbidden not in body


@pytest.mark.slow
def test_report__manifest(made):
    m = json.loads(made.manifest.read_text())
    path = fetch("live-balancing-off")
    assert m["inputs"]["trace"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert m["inputs"]["against"]["name"] == "live-balancing-on"
    assert m["parameters"]["persist"] == "50ms"
    assert m["parameters"]["zoom_ms"] == 200.0
    assert m["results"]["trace"]["verdict"] == "violations"
    assert m["results"]["against"]["verdict"] == "clean"
    assert m["results"]["trace"]["trace"]["lost"] == 0
    assert m["duration_s"] > 0
    assert {"python", "numba", "polars", "wastedcores"} <= set(m["versions"])


@pytest.mark.slow
def test_report__again_the_same_numbers(made):
    before, results = numbers(made.notebook), json.loads(made.manifest.read_text())["results"]
    again = report(
        "live-balancing-off",
        against="live-balancing-on",
        out=made.html.parent,  # an earlier report is replaced
        parameters={"persist": "50ms", "seeds": 1},
        progress=False,
    )
    assert numbers(again.notebook) == before
    assert len(before) >= 5
    assert json.loads(again.manifest.read_text())["results"] == results


def test_parameters__a_misspelt_one_is_refused_with_the_closest():
    with pytest.raises(UsageError, match=r"'persit'.*'persist'"):
        checked(NOTEBOOK, {"persit": "3ms"})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("zoom_ms", "3", 3.0),
        ("zoom_ms", 3, 3.0),
        ("persist", "50", "50"),
        ("between", "a,b", ["a", "b"]),
        ("between", '["a, b", "c"]', ["a, b", "c"]),
        ("ignore_affinity", "true", True),
        ("ignore_affinity", "False", False),
        ("cpus", "8", "8"),
    ],
)
def test_parameters__text_becomes_the_declared_type(name, value, wanted):
    got = checked(NOTEBOOK, {name: value})[name]
    assert got == wanted
    assert type(got) is type(wanted)


@pytest.mark.parametrize(
    ("name", "value"),
    [("persist", "abc"), ("persist", 50), ("zoom_ms", True), ("ignore_affinity", "7"), ("cpus", 8)],
)
def test_parameters__another_type_is_refused(name, value):
    with pytest.raises(UsageError, match=name):
        checked(NOTEBOOK, {name: value})


@pytest.mark.parametrize(
    ("notebook", "name", "value", "wanted"),
    [
        ("02", "pin_nodes", "1, 2", [1, 2]),
        ("02", "pin_nodes", "3", [3]),
        ("02", "pin_nodes", "[3]", [3]),
        ("12", "zoom_ms", "0.5,80", [0.5, 80]),
        ("06", "switches", "NO_SIS_UTIL,7", ["NO_SIS_UTIL", "7"]),
    ],
)
def test_parameters__a_list_of_numbers_stays_one_of_numbers(notebook, name, value, wanted):
    assert checked(find_notebook(notebook), {name: value}) == {name: wanted}


def test_parameters__each_has_type_and_help():
    for name, p in parameters_of(NOTEBOOK).items():
        assert p["type"] != "None", name
        assert p["help"], name


def test_report__refuses_a_folder_with_other_files(tmp_path):
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(UsageError, match=r"thesis\.txt"):
        report("live-balancing-on", out=tmp_path, progress=False)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_report__absent_trace_leaves_nothing(tmp_path):
    with pytest.raises(DatasetError):
        report("no-such-thing", out=tmp_path / "r", progress=False)
    assert not list(tmp_path.iterdir())


def test_report__a_second_trace_without_a_first_one_is_not_ignored(tmp_path):
    with pytest.raises(WastedCoresError, match="no-such-trace"):
        report(None, against="no-such-trace.parquet", out=tmp_path / "r", progress=False)
    assert not list(tmp_path.iterdir())


def test_a_picture_without_a_browser_is_refused_by_its_own_name(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WastedCoresError, match=r"/figure\.png: a \.png needs Chromium"):
        write_figure(go.Figure(), tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []


def test_find_notebook__unknown():
    with pytest.raises(UsageError, match="01_is_my"):
        find_notebook("99")


@pytest.mark.parametrize("text", ["", "hello", "[]", "{}"])
def test_a_file_that_is_no_notebook_is_refused(tmp_path, text):
    (tmp_path / "no.ipynb").write_text(text)
    with pytest.raises(UsageError, match=r"no\.ipynb: expected a Jupyter notebook"):
        report(out=tmp_path / "r", notebook=str(tmp_path / "no.ipynb"), progress=False)


@pytest.mark.slow
def test_report__of_a_notebook_whose_first_text_is_empty(tmp_path):
    path = broken(tmp_path, "1 + 1")
    nb = nbformat.read(path, as_version=4)
    nb.cells[:0] = [nbformat.v4.new_markdown_cell(text) for text in ("", "\n# My page")]
    nbformat.write(nb, path)
    made = report(out=tmp_path / "r", notebook=str(path), progress=False)
    assert "<title>My page</title>" in made.html.read_text()


def broken(tmp_path, source):
    nb = nbformat.v4.new_notebook()
    nb.cells = [
        nbformat.v4.new_code_cell("x: int = 1  # a number"),
        nbformat.v4.new_code_cell(source),
    ]
    nb.cells[0].metadata["tags"] = ["parameters"]
    nb.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    path = tmp_path / "broken.ipynb"
    nbformat.write(nb, path)
    return path


@pytest.mark.slow
def test_report__one_trace_that_names_no_tasks(tmp_path):
    rows = {"ts_ns": [0, 0, 10**9, 2 * 10**9], "cpu": [0, 1, 0, 1], "nr_running": [3, 0, 1, 1]}
    frame = conform(pl.DataFrame(rows).with_columns(kind=pl.lit("nr_running")), "test")
    header = Header(
        source_format="test", cpus=2, events=4, start_ns=0, end_ns=2 * 10**9, lost={1: 7}
    )
    path = write_parquet(Trace(frame.lazy(), header), tmp_path / "plain.parquet")
    made = report(str(path), out=tmp_path / "r", progress=False)
    found = json.loads(made.manifest.read_text())["results"]
    assert list(found) == ["trace"]
    assert found["trace"]["thread_ns"] == 10**9
    assert found["trace"]["verdict"] == "unknown"  # events were lost
    text = made.html.read_text()
    for said in (
        "LOSSY TRACE: 7 events lost (CPU 1)",
        "names no tasks",
        "How much core time plain wasted is not known.",
    ):
        assert said in text, said


@pytest.mark.slow
def test_report__a_failing_cell_keeps_the_notebook_up_to_it(tmp_path):
    path = broken(tmp_path, "raise ValueError(f'no {x} like that')")
    with pytest.raises(ReportError, match="ValueError: no 2 like that") as caught:
        report(out=tmp_path / "r", notebook=str(path), parameters={"x": "2"}, progress=False)
    assert isinstance(caught.value, WastedCoresError)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert {p.name for p in tmp_path.iterdir()} == {"broken.ipynb", "r.failed.ipynb"}
    half = nbformat.read(tmp_path / "r.failed.ipynb", as_version=4)
    assert "x = 2" in "".join(c.source for c in half.cells)


@pytest.mark.slow
def test_report__a_notebook_whose_process_is_killed(tmp_path):
    path = broken(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(ReportError, match=r"broken\.ipynb: the process .* too little memory"):
        report(out=tmp_path / "r", notebook=str(path), progress=False)
    assert {p.name for p in tmp_path.iterdir()} == {"broken.ipynb", "r.failed.ipynb"}


@pytest.mark.slow
def test_an_interrupt_of_the_command_alone_shows_nothing_of_its_kernel(tmp_path):
    command = [
        sys.executable,
        "-m",
        "wastedcores",
        "report",
        "lu-pinned-fixed",
        "-o",
        tmp_path / "r",
    ]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, cwd=tmp_path)
    said = b""
    while not re.search(rb" [1-9]\d*/\d+ ", said):  # the kernel is in the middle of the notebook
        piece = os.read(run.stderr.fileno(), 4096)
        assert piece, said
        said += piece
    run.send_signal(signal.SIGINT)
    said += run.communicate(timeout=120)[1]
    assert run.returncode == 130
    assert b"Traceback" not in said
    assert b"ERROR" not in said
    assert not list(tmp_path.iterdir())
