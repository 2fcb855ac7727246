"""Colours, fonts and margins of all figures. A colour has the same meaning in every figure.

The default palette, ``safe``, can be read without colour vision: idle is blue, one task is a light grey, and more tasks
go from orange to nearly black. Blue and orange differ for all common kinds of colour blindness, and every step differs
in lightness; ``tests/figures/test_theme.py`` measures both. The palette ``paper`` has the colours of the paper's
authors (plots/string_to_color.php and parse_rows_sched_profiler.php of their visualisation tools).
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import plotly.graph_objects as go

from wastedcores.errors import UsageError

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
INK = "#22262b"
MUTED = "#5c6670"
GRID = "#e3e6e9"


@dataclass(frozen=True)
class Palette:
    """Colours by meaning."""

    name: str
    tasks: tuple[str, ...]  #: runqueue lengths 0, 1, 2, 3, 4, and 5 or more
    #: curves of idle CPUs, and of threads that are queued behind another thread
    idle: str
    waiting: str
    #: persistent episodes, and shorter ones
    violation: str
    short: str
    considered: str  #: CPUs that a balancing or wakeup decision looked at


PALETTES = {
    p.name: p
    for p in (
        Palette(
            "safe",
            ("#2f7fc1", "#ebe8e1", "#f2a33a", "#d1561b", "#8c2a12", "#3a0d0a"),
            idle="#2f7fc1",
            waiting="#d1561b",
            violation="#a0287d",
            short="#e3b5d5",
            considered="#00795c",
        ),
        Palette(
            "paper",
            ("#ffffff", "#00ff00", "#ff8000", "#ff0000", "#ff0080", "#ff00ff"),
            idle="#7f8c99",
            waiting="#ff0000",
            violation="#000000",
            short="#a9a9a9",
            considered="#0000ff",
        ),
    )
}

TASK_NAMES = ("idle", "1 task", "2 tasks", "3 tasks", "4 tasks", "5 or more")
#: colours of the classes of tasks in the timeline; no other figure uses them with another meaning
CLASS_COLOURS = (
    "#5aae61", "#7b5ea7", "#c9a227", "#35978f", "#b07d62", "#7f7f7f", "#9c6ade", "#4d6b2f",
)  # fmt: skip
OTHER_CLASS = "#c4bfb6"
CLEAR = "rgba(0,0,0,0)"
#: the most characters in a line of the title, which leaves room for the tool bar in a figure of 720 px, and in a line of the
#: subtitle
TITLE_CHARS, SUBTITLE_CHARS = 60, 110
#: the legend fits into a figure of this width in pixels; a narrower figure is scrolled
NARROW = 720
#: pixels below the axes, with one line of the legend
BELOW = 78
#: pixels between the legend and the bottom edge of the figure. If this were a share of the height, the legend of a tall figure
#: would cover the axis title
LEGEND_Y = 4
#: buttons of plotly's bar that select points or do the same as other buttons
USELESS_BUTTONS = (
    "select2d",
    "lasso2d",
    "autoScale2d",
    "toggleSpikelines",
    "hoverClosestCartesian",
    "hoverCompareCartesian",
    "sendChartToCloud",  # one click would upload the names of processes to plotly's cloud
)
IN_LEGEND = ("scatter", "bar", "box")


def palette(name: str = "safe") -> Palette:
    """Return the palette of that name."""
    if name not in PALETTES:
        raise UsageError(f"palette {name!r} is unknown; there are {' and '.join(PALETTES)}.")
    return PALETTES[name]


def task_scale(colours: Palette) -> list[tuple[float, str]]:
    """Return a stepped colour scale for the values -1 (unknown, transparent) to 5; it needs zmin=-1.5 and zmax=5.5."""
    steps = (CLEAR, *colours.tasks)
    n = len(steps)
    return [(e, c) for i, c in enumerate(steps) for e in (i / n, (i + 1) / n)]


def task_bar(x: float = 1.01, title: str = "threads per<br>runqueue") -> dict:
    """Return a colour bar that names all steps of :func:`task_scale` but the unknown one."""
    return {
        "title": {"text": title, "font": {"size": 11}},
        "tickvals": list(range(6)),
        "ticktext": list(TASK_NAMES),
        "ticks": "",
        "len": 1.0,
        "thickness": 14,
        "outlinewidth": 0,
        "x": x,
        "xpad": 4,
        "tickfont": {"size": 11},
    }


def hatch() -> str:
    """Return a diagonal hatching as an SVG data URI; it is visible where the state of a CPU is unknown."""
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg' width='3000' height='1500'>"
        "<defs><pattern id='h' width='7' height='7' patternUnits='userSpaceOnUse' patternTransform='rotate(45)'>"
        "<rect width='7' height='7' fill='#f4f4f4'/><rect width='1.6' height='7' fill='#9aa0a6'/></pattern></defs>"
        "<rect width='3000' height='1500' fill='url(#h)'/></svg>"
    )
    return "data:image/svg+xml," + quote(svg)


def add_hatch(fig: go.Figure, xaxis: str, yaxis: str) -> None:
    """Put the hatching under one panel."""
    fig.add_layout_image(
        source=hatch(),
        layer="below",
        sizing="stretch",
        opacity=1,
        xref=f"{xaxis} domain",
        yref=f"{yaxis} domain",
        x=0,
        y=1,
        sizex=1,
        sizey=1,
    )


def style(fig: go.Figure, title: str, subtitle: str = "", height: int = 520) -> go.Figure:
    """Set fonts, margins, title and subtitle, the same for all figures."""
    title, subtitle = _folded(title, TITLE_CHARS), _folded(subtitle, SUBTITLE_CHARS)
    lines = subtitle.count("<br>") + 1 if subtitle else 0
    below_title = 22 * title.count("<br>")
    fig.update_layout(
        template="none",
        title={
            # plotly's own subtitle would overlap the title of a widget that is drawn before it is shown
            "text": f"{title}<br><span style='font-size:12px;color:{MUTED}'>{subtitle}</span>",
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "pad": {"l": 12, "t": 24},
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "automargin": False,
            "font": {"size": 17, "color": INK},
        },
        font={"family": FONT, "size": 12, "color": INK},
        paper_bgcolor="white",
        plot_bgcolor="white",
        height=height + below_title,
        margin={
            "l": fig.layout.margin.l or 72,
            "r": 24,
            "t": 51 + 22 * lines + below_title,
            "b": BELOW,
        },
        hoverlabel={"font": {"family": FONT}},
        legend={
            "orientation": "h",
            "yref": "container",
            "y": LEGEND_Y / (height + below_title),
            "yanchor": "bottom",
            "x": 0,
            "font": {"size": 11},
        },
        dragmode="zoom",
        # if a notebook shows a figure outside of a widget, plotly adds its own bar, with buttons that are of no use here
        modebar={"remove": list(USELESS_BUTTONS)},
    )
    fig.update_xaxes(
        showgrid=False, zeroline=False, ticks="outside", tickcolor=GRID, linecolor=GRID
    )
    fig.update_yaxes(showgrid=False, zeroline=False, linecolor=GRID)
    return fig


def _folded(text: str, width: int) -> str:
    """Break the lines of a title at words, so that it fits a narrow figure."""
    return "<br>".join(
        "<br>".join(textwrap.wrap(t, width, break_long_words=False)) for t in text.split("<br>")
    )


def literal(text: str) -> str:
    """Return text of a trace so that Plotly finds no markup in it: names of tasks and marks may have any characters."""
    return text.replace("<", "&lt;")


def folded_name(name: str) -> str:
    """Return the name of a run with a line break before each fix or module of its kernel, because names on an axis are long."""
    return re.sub(r"(?<=.)\+", "<br>+", name)


def legend_entry(fig: go.Figure, name: str, look: dict[str, Any], **where: int) -> None:
    """Add to the legend a square that belongs to none of the figure's plotly traces; ``look`` has its colour and edge."""
    marker = {"symbol": "square", "size": 10, **look}
    fig.add_scatter(
        x=[None], y=[None], mode="markers", name=name, hoverinfo="skip", marker=marker, **where
    )


def fit_legend(fig: go.Figure) -> go.Figure:
    """Leave room below the figure for the lines that its legend takes in a figure of :data:`NARROW` pixels."""
    shown = [t for t in fig.data if t.name and t.showlegend is not False and t.type in IN_LEGEND]
    # plotly fills one line after the other; each is as wide as the plot and 29 px high. A letter takes about 6 px.
    room = NARROW - fig.layout.margin.l - fig.layout.margin.r
    widths = [44 + 6 * len(t.name) for t in shown]
    if sum(widths) > room and not any(t.legendgroup for t in shown):
        # plotly aligns the entries of several lines in columns, unless they are in groups
        widths = [max(widths)] * len(widths)
    lines, used = 1, 0
    for width in widths:
        lines, used = (lines + 1, width) if used and used + width > room else (lines, used + width)
    bottom = BELOW + 29 * (lines - 1)
    height = fig.layout.height + bottom - fig.layout.margin.b
    return fig.update_layout(height=height, margin_b=bottom, legend_y=LEGEND_Y / height)
