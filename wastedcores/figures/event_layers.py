"""Layers of an events figure: which events are drawn, and how. Layers are written as text, in a TOML file, or in Python."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from wastedcores.errors import UsageError
from wastedcores.files import written_whole
from wastedcores.queries.spans import Span
from wastedcores.trace.trace import Trace

#: how the chosen events can be drawn
SHAPES = ("strokes", "spans", "arrows", "mask")
_NAMED = {
    "black": "#000000", "grey": "#808080", "gray": "#808080", "red": "#d62728", "orange": "#f2a33a", "yellow": "#e6c700",
    "green": "#2ca02c", "blue": "#2f7fc1", "purple": "#7b5ea7", "brown": "#8c564b", "pink": "#e377c2", "cyan": "#17becf",
}  # fmt: skip
_STYLE = "draw, colour, width and label"


@dataclass(frozen=True)
class EventLayer:
    """Events that a query chooses, and how they are drawn."""

    query: str | pl.Expr  #: a query as text, or a polars expression
    #: ``strokes``: a vertical stroke on the row of ``cpu``. ``spans:COLUMN``: a horizontal line whose length is in COLUMN, for
    #: example ``run_ns``. ``arrows``: from the row of ``src_cpu`` to the row of ``cpu``. ``mask``: a stroke on the row of each
    #: CPU in ``cpu_mask``.
    draw: str = "strokes"
    #: ``#rrggbb`` or the name of a colour: this colour. ``by:COLUMN``: one colour per value of the column. ``scale:COLUMN``: from
    #: dark to bright by the number in the column. Empty: a colour that no other layer has.
    colour: str = ""
    #: width of the lines in pixels if events are drawn one by one; 0 stands for 5 in spans and for 1.5 in other shapes
    width: float = 0.0
    label: str = ""  #: its name in the legend; default: the query

    def __post_init__(self) -> None:
        shape, _, column = self.draw.partition(":")
        if shape not in SHAPES or bool(column) != (shape == "spans"):
            raise UsageError(
                f"draw={self.draw!r}: expected strokes, spans:COLUMN (for example spans:run_ns), arrows or mask."
            )
        if not 0 <= self.width <= 50:
            raise UsageError(f"width={self.width:g}: expected up to 50 pixels.")
        if self.colour and not self.coloured_by[0]:
            self.fixed_colour()

    @property
    def shape(self) -> str:
        """``strokes``, ``spans``, ``arrows`` or ``mask``."""
        return self.draw.partition(":")[0]

    @property
    def length(self) -> str:
        """The column with the lengths of spans; empty for other shapes."""
        return self.draw.partition(":")[2]

    @property
    def coloured_by(self) -> tuple[str, str]:
        """Two texts: ``by`` or ``scale``, and the column; both are empty if the colour is fixed."""
        how, _, column = self.colour.partition(":")
        return (how, column) if how in ("by", "scale") and column else ("", "")

    def fixed_colour(self) -> str:
        """Return the colour as ``#rrggbb``."""
        found = _NAMED.get(self.colour, self.colour)
        if not re.fullmatch(r"#[0-9a-fA-F]{6}", found):
            raise UsageError(
                f"colour={self.colour!r}: expected #rrggbb, by:COLUMN, scale:COLUMN, or one of {', '.join(_NAMED)}."
            )
        return found

    @property
    def pixels(self) -> float:
        """The width of its lines in pixels."""
        return self.width or (5.0 if self.shape == "spans" else 1.5)

    @property
    def name(self) -> str:
        """Its name in the legend."""
        return self.label or (self.query if isinstance(self.query, str) else str(self.query))


def styled(query: str | pl.Expr, style: str = "") -> EventLayer:
    """Return a layer whose style is written as text."""
    try:
        words = shlex.split(style)
    except ValueError as e:
        raise UsageError(f"style {style!r}: {e}.") from None
    given = {}
    for word in words:
        name, equals, value = word.partition("=")
        given[name if equals else "colour"] = value if equals else word
    return _layer({"query": query, **given}, f"style {style!r}")


def _layer(given: dict[str, Any], where: str) -> EventLayer:
    if "color" in given:
        given = {"colour": given.pop("color"), **given}
    unknown = sorted(given.keys() - {f.name for f in fields(EventLayer)})
    if unknown:
        raise UsageError(f"{where}: {unknown[0]!r} is unknown; a style has {_STYLE}.")
    if "query" not in given:
        raise UsageError(f"{where}: the query is missing; write query = 'kind == \"switch\"'.")
    try:
        given["width"] = float(given.get("width", EventLayer.width))
    except (TypeError, ValueError):
        raise UsageError(f"{where}: width={given['width']!r} is no number of pixels.") from None
    for name, value in given.items():
        if name not in ("width", "query") and not isinstance(value, str):
            raise UsageError(f"{where}: {name}={value!r} must be a text.")
    return EventLayer(**given)


def read_layers(path: Path) -> tuple[list[EventLayer], list[Span]]:
    """Read a TOML file: tables ``[[layer]]`` with query and style, and ``[[span]]`` with name, begin and end."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"{path}: cannot be read ({getattr(e, 'strerror', e)}).") from e
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise UsageError(f"{path}: this is no TOML: {e}.") from e
    unknown = sorted(data.keys() - {"layer", "span"})
    if unknown or not data.get("layer"):
        found = f"{unknown[0]!r} is unknown" if unknown else "there is no [[layer]]"
        raise UsageError(f"{path}: {found}; expected tables [[layer]] and [[span]].")
    for name, tables in data.items():
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            raise UsageError(f"{path}: write [[{name}]], with two brackets.")
    layers = []
    for i, given in enumerate(data["layer"], 1):
        if not isinstance(given.get("query", ""), str):
            raise UsageError(f"{path}, layer {i}: the query must be a text in quotes.")
        layers.append(_layer(given, f"{path}, layer {i}"))
    return layers, [_span(t, f"{path}, span {i}") for i, t in enumerate(data.get("span", []), 1)]


def write_layers(layers: Sequence[EventLayer], path: Path) -> None:
    """Write layers to a TOML file that :func:`read_layers` reads."""
    if not layers or not all(isinstance(layer.query, str) for layer in layers):
        raise UsageError(f"{path}: there must be a layer, and all queries must be texts.")
    if path.is_dir():
        raise UsageError(f"{path}: cannot be written (it is a directory).")
    lines = []
    for layer in layers:
        given = ((f.name, getattr(layer, f.name)) for f in fields(layer))
        lines += [
            "[[layer]]",
            *(f"{name} = {_toml(value)}" for name, value in given if value),
            "",
        ]
    try:
        with written_whole(path) as part:
            part.write_text("\n".join(lines), "utf-8")
    except OSError as e:
        raise UsageError(f"{path}: cannot be written ({e.strerror}).") from e


def _toml(value: str | float) -> str:
    """Write a value for TOML; a JSON string is also a TOML string, unless it has escaped surrogates or a DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _span(given: dict[str, Any], where: str) -> Span:
    texts = all(isinstance(given.get(n), str) for n in ("name", "begin", "end"))
    columns = {n: _columns(given[n], where, n) for n in ("by", "same") if n in given}
    if not texts or given.keys() - {"name", "begin", "end", "by", "same"}:
        raise UsageError(
            f"{where}: expected the texts name, begin and end, and perhaps by and same."
        )
    if not re.fullmatch(r"[A-Za-z_]\w{0,40}", given["name"]):
        raise UsageError(f"{where}: the name {given['name']!r} must be a word.")
    by, same = columns.get("by", ("cpu", "cpu")), columns.get("same")
    return Span(given["name"], given["begin"], given["end"], by, same)


def _columns(value: Any, where: str, name: str) -> tuple[str, str]:
    if isinstance(value, str):
        return value, value
    if isinstance(value, list) and len(value) == 2 and all(isinstance(c, str) for c in value):
        return value[0], value[1]
    raise UsageError(f"{where}: {name} must be one column, or a list of two.")


_RUNS = EventLayer(
    'kind == "switch" and pid != 0', "spans:run_ns", "by:comm", 5.0, "running"
)  # fmt: skip
_BUSY = EventLayer(
    'kind == "nr_running" and nr_running >= 1', "spans:busy_ns", "grey", 5.0, "RQSIZE >= 1"
)
_MOVES = EventLayer(
    'kind in ("wakeup", "wakeup_new", "migrate") and src_cpu is not None and src_cpu != cpu',
    "arrows", "by:cause", 1.2, "moves",
)  # fmt: skip
_MARKS = EventLayer('kind in ("lost", "cpu_online")', "strokes", "red", 2.0, "lost or hotplug")


def default_layers(trace: Trace) -> list[EventLayer]:
    """Return the layers that are drawn if nothing else is asked for: who ran, and arrows for tasks that change CPUs."""
    kinds = set(trace.kinds())
    layers = [_RUNS] if "switch" in kinds else [_BUSY] if "nr_running" in kinds else []
    layers += [_MOVES] if kinds & {"wakeup", "wakeup_new", "migrate"} else []
    layers += [_MARKS] if kinds & {"lost", "cpu_online"} else []
    return layers or [EventLayer("True", label="all events", colour="by:kind")]


def with_own_colours(layers: Sequence[EventLayer], colours: tuple[str, ...]) -> list[EventLayer]:
    """Give each layer that names no colour a colour of its own."""
    own = iter(colours * len(layers))
    return [layer if layer.colour else replace(layer, colour=next(own)) for layer in layers]
