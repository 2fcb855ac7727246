"""A figure in a notebook that is replaced in place. However often a view changes, it needs one widget and one connection.

The page gets the compressed plotting library once, and after that only the arrays that a figure shows. ``live_figure.js`` reacts
to keys and the mouse, and draws the map of the whole trace.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets as w
import numpy as np
import traitlets

from wastedcores.figures.dark import dark_colours
from wastedcores.reports.html import CONFIG, plotly_js

if TYPE_CHECKING:
    import plotly.graph_objects as go

_HERE = Path(__file__).parent
#: a table with at most this many different texts is sent as 16-bit codes
_MOST_NAMES = 1 << 16


class Contents(w.Widget):
    """The contents of a figure, and the messages from the browser that shows it.

    Both are in a model of ipywidgets and not in a model of anywidget. If the page is busy for two seconds while a model of
    anywidget starts, anywidget gives up, and every later message is lost, so that the cell would stay empty. A model of
    ipywidgets has no such limit.
    """

    figure = traitlets.Dict().tag(sync=True)
    dark = traitlets.Dict(dark_colours()).tag(sync=True)
    overview = traitlets.Dict().tag(sync=True)


class LiveFigure(anywidget.AnyWidget):
    """One figure that is replaced in place; see :meth:`show`.

    Attributes
    ----------
    contents
        Everything that the kernel sends to the browser after it has made the widget.
    drawn
        The figure that is shown.
    """

    _esm = _HERE / "live_figure.js"
    _css = _HERE / "live_figure.css"
    contents = traitlets.Instance(Contents).tag(sync=True, **w.widget_serialization)

    def __init__(self, on: Callable[[dict[str, Any]], None] | None = None) -> None:
        super().__init__(layout=w.Layout(width="100%"), contents=Contents())
        self.drawn: go.Figure | None = None
        self._on = on
        self._answers: dict[str, Any] = {}
        self.contents.on_msg(self._received)

    def show(self, fig: go.Figure, view: dict[str, Any] | None = None) -> None:
        """Replace the figure."""
        self.drawn = fig
        self.contents.figure = {
            "figure": {**packed(fig.to_dict()), "config": CONFIG},
            "view": view or {},
            "answers": self._answers,
        }

    def hide(self) -> None:
        """Show nothing until the next figure."""
        self.drawn = None
        self.contents.figure = {"figure": None, "view": {}, "answers": self._answers}

    def close(self) -> None:
        """Close the figure and its contents."""
        self.contents.close()
        super().close()

    def _received(self, _: Any, message: dict[str, Any], __: Any) -> None:
        if message.get("kind") == "library":
            self.contents.send({"kind": "library"}, [_library()])
            return
        # tell the browser at once that its message arrived, because the answer may take long and need not change the figure
        self.contents.send({"kind": "heard"})
        if message.get("kind") == "look":
            self._answers = {k: message[k] for k in ("by", "number")}
        if self._on is not None:
            self._on(message)


def packed(value: Any) -> Any:
    """Return a part of a figure in which arrays are bytes, and a table of texts is a list of texts and codes into this list."""
    if isinstance(value, dict):
        if "bdata" in value:
            return {**value, "bdata": memoryview(base64.b64decode(value["bdata"]))}
        return {k: _texts(v) if k == "text" else packed(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [packed(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _texts(value: Any) -> Any:
    """Pack a table of texts; anything else stays as it is."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], list | tuple):
        return packed(value)
    code: dict[str, int] = {}
    codes = [code.setdefault(text, len(code)) for row in value for text in row]
    if len(code) > _MOST_NAMES or len({len(row) for row in value}) != 1:
        return value
    return {
        "codes": memoryview(np.array(codes, np.uint16).tobytes()),
        "names": list(code),
        "rows": len(value),
        "cols": len(value[0]),
    }


@cache
def _library() -> bytes:
    return gzip.compress(plotly_js().encode(), 9)
