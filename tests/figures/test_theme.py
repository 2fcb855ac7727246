"""The colours of the default palette can be distinguished with any common colour blindness."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import numpy as np
import plotly.graph_objects as go
import pytest
from support import ROOT

from wastedcores.errors import UsageError
from wastedcores.figures.dark import PAPER, SAFE, dark_colours
from wastedcores.figures.panels import _faint
from wastedcores.figures.theme import PALETTES, palette, style, task_scale

#: Machado, Oliveira, Fernandes 2009, table 1, severity 1.0 (linear RGB)
MACHADO = {
    "normal": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def lab(colour, sight):
    """Return CIE L*a*b* (D65) of a colour as a person with this sight sees it."""
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(MACHADO[sight] @ linear, 0, 1)
    xyz = (
        np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
        @ linear
    )
    f = np.cbrt(xyz / np.array([0.95047, 1, 1.08883]))
    f = np.where(
        xyz / np.array([0.95047, 1, 1.08883]) > 0.008856,
        f,
        7.787 * xyz / np.array([0.95047, 1, 1.08883]) + 16 / 116,
    )
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", list(MACHADO))
@pytest.mark.parametrize("colours", [palette("safe"), SAFE], ids=["light", "dark"])
def test_safe_palette__every_two_lengths_differ(sight, colours):
    # 20 in CIE76 is about ten times the difference that is just noticeable
    for a, b in combinations(colours.tasks, 2):
        assert np.linalg.norm(lab(a, sight) - lab(b, sight)) > 20, (a, b)


@pytest.mark.parametrize("sight", list(MACHADO))
def test_safe_palette__more_tasks_are_darker(sight):
    lightness = [lab(c, sight)[0] for c in palette("safe").tasks[1:]]
    assert all(a - b > 8 for a, b in pairwise(lightness))


@pytest.mark.parametrize("sight", list(MACHADO))
def test_dark_palette__more_tasks_are_brighter_and_curves_are_seen(sight):
    lightness = [lab(c, sight)[0] for c in SAFE.tasks[1:]]
    assert all(b - a > 8 for a, b in pairwise(lightness))
    for colour in (SAFE.idle, SAFE.waiting, SAFE.violation, SAFE.considered):
        assert lab(colour, sight)[0] - lab(PAPER, sight)[0] > 40


def test_dark_page__every_colour_of_the_figures_is_seen():
    files = [p for p in (ROOT / "wastedcores" / "figures").glob("*.py") if p.name != "dark.py"]
    used = {c for p in files for c in re.findall(r"#[0-9a-f]{6}", p.read_text())}
    assert len(used) > 40
    for colour in used - set(dark_colours()):
        assert lab(colour, "normal")[0] - lab(PAPER, "normal")[0] > 40, colour


def test_dark_page__a_colour_with_an_opacity_is_replaced_like_its_legend():
    dark = dark_colours()
    for colour in (palette().violation, palette().short, palette("paper").violation):
        drawn = re.match(r"rgba?\(\d+,\d+,\d+", _faint(colour, 1))[0]
        wanted = ",".join(str(int(dark[colour][i : i + 2], 16)) for i in (1, 3, 5))
        assert dark[drawn] == f"rgba({wanted}"
        assert dark[drawn.replace("rgba", "rgb")] == f"rgb({wanted}"
    for script in ("reports/figure.js", "widgets/live_figure.js"):
        assert r"|rgba?\(\d+,\d+,\d+/g" in (ROOT / "wastedcores" / script).read_text()


@pytest.mark.parametrize("name", list(PALETTES))
def test_one_colour_one_meaning(name):
    p = palette(name)
    used = [*p.tasks, p.violation, p.short, p.considered]
    assert len(set(used)) == len(used)


def test_paper_palette__is_the_authors():
    # string_to_color.php: 0 white, 1 green, 2 orange, 3 red, 4 (255,0,128), 5 and more magenta
    assert palette("paper").tasks == (
        "#ffffff",
        "#00ff00",
        "#ff8000",
        "#ff0000",
        "#ff0080",
        "#ff00ff",
    )
    assert len(task_scale(palette("paper"))) == 14


def test_palette__unknown_name():
    with pytest.raises(UsageError, match="safe and paper"):
        palette("rainbow")


def test_a_figure_has_no_button_that_does_nothing():
    """Plotly's own bar, which a notebook shows, has buttons to select points; no figure here has points to select."""
    removed = style(go.Figure(), "title").layout.modebar.remove
    assert {"select2d", "lasso2d"} <= set(removed)
    assert not {"zoom2d", "pan2d", "toImage", "resetScale2d"} & set(removed)
