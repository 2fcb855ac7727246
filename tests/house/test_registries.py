"""Adding a figure, a study or a format needs one row: everything else is made from the registries."""

from __future__ import annotations

import sys
import types

import plotly.graph_objects as go
import pytest
from support import ROOT
from typer.testing import CliRunner

import wastedcores as wc
from wastedcores.cli import register_verbs
from wastedcores.cli._app import app
from wastedcores.errors import NotRecoverableError, UnknownKernelError
from wastedcores.figures.kinds import KINDS, Kind, Look, described
from wastedcores.kernels import KernelModel, generations, recorded_balancer
from wastedcores.kernels.generations import replayed_listed
from wastedcores.prediction.place import check_modelled
from wastedcores.simulator.generations import check_generation
from wastedcores.widgets.explore import explorer_static
from wastedcores.widgets.layers import layers_of


def test_every_list_of_replayed_kernels_is_the_registry():
    listed = replayed_listed()
    for name in ("README.md", "docs/how-to/replay.md", "docs/kernels.md"):
        assert listed in " ".join((ROOT / name).read_text().split()), name


def test_a_kernel_that_is_not_replayed_is_refused_with_all_that_are(monkeypatch):
    monkeypatch.setattr(generations, "REPLAYED", generations.REPLAYED | {(6, 99, 1)})
    with pytest.raises(UnknownKernelError, match=r"v6\.12\.107 and v6\.99\.1"):
        check_generation(KernelModel.named("v6.6"))
    balancer = recorded_balancer("6.6.0")
    with pytest.raises(
        NotRecoverableError, match=r"v4\.1, v4\.4, .*v6\.12\.107 and v6\.99\.1, with"
    ):
        check_modelled(wc.open("lu-pinned-fixed"), balancer, "v6.6")


def run(*words):
    register_verbs()
    return CliRunner().invoke(app, [str(w) for w in words])


@pytest.fixture
def dummy_figure(monkeypatch):
    """A module of figures with one function, and its row."""
    module = types.ModuleType("wastedcores.figures.dummy")

    def stripes(traced, window=None, *, palette_name="safe"):
        return go.Figure(layout={"title": {"text": f"stripes of {traced.label} in {palette_name}"}})

    module.stripes = stripes
    monkeypatch.setitem(sys.modules, "wastedcores.figures.dummy", module)
    row = Kind("stripes", ("dummy", "stripes"), "window palette_name", button="stripes")
    monkeypatch.setitem(KINDS, "stripes", row)


def test_a_figure_is_drawn_by_the_command_line_and_the_explorer(dummy_figure, tmp_path):
    done = run(
        "figure",
        "lu-pinned-fixed",
        "--kind",
        "stripes",
        "--palette",
        "paper",
        "-o",
        tmp_path / "x.json",
    )
    assert done.exit_code == 0, done.output
    assert "stripes of lu-pinned-fixed in paper" in (tmp_path / "x.json").read_text()
    examined = wc.examine("lu-pinned-fixed")
    assert layers_of(examined)[-1] == "stripes"
    shown = explorer_static(examined, show="stripes")
    assert shown.layout.title.text == "stripes of lu-pinned-fixed in safe"
    assert described().splitlines()[-1].split() == ["stripes", "stripes"]
    refused = run("figure", "lu-pinned-fixed", "--kind", "nothing", "-o", tmp_path / "y.json")
    assert "stripes" in str(refused.exception)


@pytest.mark.parametrize("name", KINDS)
def test_every_row_names_a_function_that_takes_what_it_says(name):
    kind = KINDS[name]
    module = __import__(f"wastedcores.figures.{kind.draw[0]}", fromlist=["x"])
    code = getattr(module, kind.draw[1]).__code__
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    assert set(kind.takes.split()) <= set(taken)
    assert set(kind.takes.split()) <= set(Look.__annotations__)
