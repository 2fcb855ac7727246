"""Segments with colours, made from the events that layers choose."""

from __future__ import annotations

import colorsys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.colors import sample_colorscale, unlabel_rgb

from wastedcores.analysis.scene import TimeAxis
from wastedcores.analysis.segments import Segments
from wastedcores.cpulist import format_cpulist
from wastedcores.errors import UsageError
from wastedcores.figures.event_layers import EventLayer
from wastedcores.figures.masks import unpack_masks
from wastedcores.figures.theme import CLASS_COLOURS, OTHER_CLASS, literal
from wastedcores.figures.timelines import task_class
from wastedcores.queries.decorate import EventTable, condition
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
    """Add the points at which a segment shows its hover text; only the ends of arrows are visible."""
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
    """Return a text for each of these events, by its number, with everything that is known about the event."""
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
            parts.append(f"{name}: {literal(said[:80])}")
        if masks is not None and row["cpu_mask"] is not None:
            parts.append(f"cpu_mask: {format_cpulist(np.flatnonzero(masks[i]).tolist())[:80]}")
        texts[int(numbers[i])] = "<br>".join(parts)
    return texts


SCALE = "Cividis"
_STEPS = 64
#: a mask becomes one stroke per CPU; more strokes than this do not fit into memory
MOST_STROKES = 50_000_000
#: colours of the commonest values: of a first column, and of a second one
CATEGORIES = (CLASS_COLOURS, ("#d1561b", "#2f7fc1", "#a0287d", "#00795c", "#8c2a12", "#22262b"))
_COMMS = ("comm", "prev_comm", "by_comm")


@dataclass(frozen=True)
class Colours:
    """The colours of a layer."""

    rgb: np.ndarray  #: float64 (colours, 3), 0 to 255
    legend: tuple[tuple[str, str], ...]  #: names of colours, and the colours as text
    #: the values at both ends of a continuous scale; None: the layer has no such scale
    low: float | None = None
    high: float | None = None
    column: str = ""  #: the column that decides about the colour; empty: the colour is fixed


@dataclass(frozen=True)
class Drawn:
    """A layer with its segments and colours."""

    layer: EventLayer
    segments: Segments
    colours: Colours


def segments_of(
    table: EventTable, layers: Sequence[EventLayer], cpus: Sequence[int]
) -> list[Drawn]:
    """Choose the events of each layer and give the events places and colours."""
    columns = dict.fromkeys(
        layer.coloured_by[1] for layer in layers if layer.coloured_by[0] == "by"
    )
    palettes = {column: i for i, column in enumerate(columns)}
    conditions = [condition(table, layer.query) for layer in layers]
    needed = {c for layer in layers for c in _columns(layer)}
    needed |= {c for _, used in conditions for c in used}
    events = table.with_columns(sorted(needed))
    return [
        _drawn(events, layer, where, cpus, CATEGORIES[palettes.get(layer.coloured_by[1], 0) % 2])
        for layer, (where, _) in zip(layers, conditions, strict=True)
    ]


def _columns(layer: EventLayer) -> set[str]:
    """Return the columns that the style of a layer needs."""
    shape = {"spans": {layer.length}, "arrows": {"src_cpu"}, "mask": {"cpu_mask"}}
    by = layer.coloured_by[1]
    return shape.get(layer.shape, set()) | ({by} if by else set())


def _drawn(
    events: pl.DataFrame,
    layer: EventLayer,
    where: pl.Expr,
    cpus: Sequence[int],
    categories: Sequence[str],
) -> Drawn:
    try:
        chosen = (
            events.lazy()
            .with_row_index("_event")
            .filter(where, pl.col("cpu").is_not_null())
            .select("_event", "ts_ns", "cpu", *sorted(_columns(layer) - {"cpu", "ts_ns"}))
            .collect()
        )
    except pl.exceptions.PolarsError as e:
        raise UsageError(
            f"layer {layer.name!r} cannot be computed: {str(e).splitlines()[0]}."
        ) from e
    top = max((*cpus, int(chosen["cpu"].max() or 0))) + 1  # type: ignore[arg-type]
    rows = np.full(top + 1, -1, np.int32)
    rows[list(cpus)] = np.arange(len(cpus))
    row = rows[chosen["cpu"].to_numpy()]
    start = chosen["ts_ns"].to_numpy()
    end, to = start, row
    keep = row >= 0
    if layer.shape == "spans":
        length = chosen[layer.length]
        if not length.dtype.is_numeric():
            raise UsageError(f"draw={layer.draw!r}: the column {layer.length!r} has no lengths.")
        end = start + length.fill_null(0).cast(pl.Int64).to_numpy()
        keep &= end > start
    elif layer.shape == "arrows":
        source = chosen["src_cpu"].fill_null(-1).to_numpy()
        row, to = rows[np.where((source >= 0) & (source < top), source, top)], row
        keep &= row >= 0
    colours, code = _coloured(layer, chosen, keep, categories)
    event = chosen["_event"].to_numpy().astype(np.int64)
    if layer.shape == "mask":
        seen = _seen(chosen, cpus, top)
        at, row = np.nonzero(seen & keep[:, None])
        row = to = row.astype(np.int32)
        start, end, code, event = start[at], start[at], code[at], event[at]
        keep = np.ones(row.size, bool)
    segments = Segments(
        start,
        end,
        row,
        to,
        code,
        event,
        colours.rgb,
        layer.shape == "spans",
        layer.shape == "arrows",
    )
    return Drawn(layer, segments.part(keep), colours)


def _seen(chosen: pl.DataFrame, cpus: Sequence[int], n_cpus: int) -> np.ndarray:
    if chosen.height * len(cpus) > MOST_STROKES:
        raise UsageError(
            f"draw=mask: {chosen.height:,} events for {len(cpus)} CPUs are too many strokes; choose fewer with the query."
        )
    return unpack_masks(chosen["cpu_mask"], n_cpus)[:, list(cpus)]


def _coloured(
    layer: EventLayer, chosen: pl.DataFrame, keep: np.ndarray, categories: Sequence[str]
) -> tuple[Colours, np.ndarray]:
    """Return the colours of a layer, and the code of each event's colour."""
    how, column = layer.coloured_by
    if not how:
        colour = layer.fixed_colour()
        rgb = np.array([_rgb(colour)])
        return Colours(rgb, ((layer.name, colour),)), np.zeros(chosen.height, np.int32)
    values = chosen[column]
    if how == "scale":
        return _continuous(layer, values, keep)
    if isinstance(values.dtype, pl.Binary):
        raise UsageError(f"colour={layer.colour!r}: the column {column!r} cannot be a colour.")
    texts = values if isinstance(values.dtype, pl.Categorical | pl.Enum) else values.cast(pl.String)
    return _by_category(column, texts.cast(pl.Categorical()), keep, categories)


def _by_category(
    column: str, texts: pl.Series, keep: np.ndarray, categories: Sequence[str]
) -> tuple[Colours, np.ndarray]:
    """Give the commonest values the colours of a palette, and every other value a colour that depends on its name."""
    counted = texts.filter(pl.Series(keep)).drop_nulls().alias("value").value_counts()
    class_of = {v: task_class(v) if column in _COMMS else v for v in counted["value"]}
    classes: dict[str, int] = {}
    for value, number in counted.iter_rows():
        classes[class_of[value]] = classes.get(class_of[value], 0) + number
    order = sorted(classes, key=lambda c: (-classes[c], c))
    colours = [*categories[: len(order)], *(_hashed(name) for name in order[len(categories) :])]
    place = {name: i for i, name in enumerate(order)}
    # polars' number of a text -> the number of the text's colour; the last entry is for rows without a text
    kept = counted["value"].to_physical().to_numpy()
    code_of = np.full(2 + int(texts.to_physical().max() or 0), len(order), np.int32)  # type: ignore[arg-type]
    code_of[kept] = [place[class_of[v]] for v in counted["value"]]
    code = code_of[texts.to_physical().fill_null(code_of.size - 1).to_numpy()]
    legend = list(zip(order, colours, strict=True))[: len(categories)]
    if (code[keep] == len(order)).any():
        legend.append((f"{column} unknown", OTHER_CLASS))
    rgb = np.array([_rgb(c) for c in (*colours, OTHER_CLASS)])
    return Colours(rgb, tuple(legend), column=column), code


def _continuous(
    layer: EventLayer, values: pl.Series, keep: np.ndarray
) -> tuple[Colours, np.ndarray]:
    column = layer.coloured_by[1]
    if not values.dtype.is_numeric():
        raise UsageError(f"colour={layer.colour!r}: the column {column!r} has no numbers.")
    known = values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    finite = known[keep & np.isfinite(known)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    share = (known - low) / ((high - low) or 1.0)
    with np.errstate(invalid="ignore"):
        code = np.where(np.isfinite(share), np.clip(share * (_STEPS - 1), 0, _STEPS - 1), _STEPS)
    steps = sample_colorscale(SCALE, [i / (_STEPS - 1) for i in range(_STEPS)])
    rgb = np.array([unlabel_rgb(s) for s in steps] + [_rgb(OTHER_CLASS)], dtype=float)
    legend = ((f"{column} unknown", OTHER_CLASS),) if not np.isfinite(known[keep]).all() else ()
    return Colours(rgb, legend, low, high, column), code.astype(np.int32)


def _rgb(colour: str) -> tuple[float, float, float]:
    r, g, b = (float(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    return r, g, b


def _hashed(name: str) -> str:
    """Return a colour that depends on a name only, so that it is the same in every trace."""
    hue = (zlib.crc32(name.encode()) % 1000) / 1000
    r, g, b = (round(255 * c) for c in colorsys.hls_to_rgb(hue, 0.55, 0.35))
    return f"#{r:02x}{g:02x}{b:02x}"
