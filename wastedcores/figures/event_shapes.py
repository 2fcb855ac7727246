"""Single events in a figure: lines with exact ends, and a hover text with everything that is known about the event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go

from wastedcores.analysis.scene import TimeAxis
from wastedcores.cpulist import format_cpulist
from wastedcores.figures.event_segments import Drawn
from wastedcores.figures.masks import unpack_masks
from wastedcores.units import human_ns

if TYPE_CHECKING:
    from wastedcores.figures.event_views import EventView

#: half the height of a stroke, in rows
_HALF = 0.42


def add_shapes(
    fig: go.Figure,
    view: EventView,
    inside: list[np.ndarray],
    window: tuple[int, int],
    axis: TimeAxis,
) -> None:
    """Draw segments one by one."""
    numbers = [d.segments.event[i] for d, i in zip(view.drawn, inside, strict=True)]
    texts = _texts(view, np.unique(np.concatenate(numbers)), axis)
    for drawn, chosen in zip(view.drawn, inside, strict=True):
        part = drawn.segments.part(chosen)
        start, end = (axis.at(np.clip(t, *window)) for t in (part.start, part.end))
        if part.spans:
            middle, height = (start + end) / 2, part.row.astype(float)
            lines = (start, end, part.row, part.row)
        elif drawn.layer.shape == "arrows":
            middle, height = start, part.to.astype(float)
            lines = (start, start, part.row, part.to)
        else:
            middle, height = start, part.row.astype(float)
            lines = (start, start, part.row - _HALF, part.row + _HALF)
        for code in np.unique(part.colour):
            mine = part.colour == code
            colour = "rgb({},{},{})".format(*(round(c) for c in part.rgb[code]))
            x, y = _broken(lines, mine)
            line = {"color": colour, "width": drawn.layer.pixels, "simplify": False}
            fig.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)
        said = [texts[int(e)] for e in part.event]
        _add_markers(fig, drawn, middle, height, said, np.sign(part.to - part.row), part)


def _broken(lines: tuple[np.ndarray, ...], mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of lines as one curve with gaps."""
    x0, x1, y0, y1 = (np.asarray(a, float)[mine] for a in lines)
    gap = np.full(x0.size, np.nan)
    return np.c_[x0, x1, gap].ravel(), np.c_[y0, y1, gap].ravel()


def _add_markers(
    fig: go.Figure, drawn: Drawn, x: np.ndarray, y: np.ndarray, said: list[str], up: np.ndarray, part: Any
) -> None:  # fmt: skip
    """Add the points over which the mouse finds a segment; the ends of arrows can be seen."""
    arrows = drawn.layer.shape == "arrows"
    symbols = np.where(up > 0, "triangle-down", "triangle-up") if arrows else "square"
    colours = ["rgb({},{},{})".format(*(round(c) for c in part.rgb[code])) for code in part.colour]
    fig.add_scatter(
        x=x,
        y=y,
        mode="markers",
        text=said,
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
        marker={
            "symbol": symbols,
            "size": 7 if arrows else 11,
            "color": colours,
            "opacity": 1 if arrows else 0,
        },
        name=drawn.layer.name,
    )


def _texts(view: EventView, numbers: np.ndarray, axis: TimeAxis) -> dict[int, str]:
    """Return everything that is known about some events, by their numbers."""
    if not numbers.size:
        return {}
    table = view.table.rows(numbers)
    masks = unpack_masks(table["cpu_mask"], 1 << 14) if "cpu_mask" in table.columns else None
    texts = {}
    for i, row in enumerate(table.iter_rows(named=True)):
        time = f"{float(axis.at(row['ts_ns'])):,.6g} {axis.unit}"
        parts = [f"<b>{row['kind']}</b> at {time}"]
        for name, value in row.items():
            if value is None or name in ("ts_ns", "kind", "cpu_mask"):
                continue
            said = (
                human_ns(value) if name.endswith("_ns") and isinstance(value, int) else str(value)
            )
            parts.append(f"{name}: {said[:80].replace('<', '&lt;')}")
        if masks is not None and row["cpu_mask"] is not None:
            parts.append(f"cpu_mask: {format_cpulist(np.flatnonzero(masks[i]).tolist())[:80]}")
        texts[int(numbers[i])] = "<br>".join(parts)
    return texts
