"""The controls for events in the explorer: a query with completion, its style, and the layers that the reader has kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl

from wastedcores.errors import WastedCoresError
from wastedcores.figures.event_layers import EventLayer, styled, write_layers
from wastedcores.queries.completion import complete
from wastedcores.queries.language import parse
from wastedcores.words.rich_text import sentence

if TYPE_CHECKING:
    from wastedcores.widgets.layers import Subject

#: at most this many completions are offered at a time, and at most this many names of tasks are searched for completions
OFFERED, NAMES = 30, 200
_HINT = "Enter shows the query as a layer; without one you see who ran and how tasks moved."


class EventQueries(w.VBox):
    """A query, its style, and the kept layers. The explorer draws the layers that the subject has in the end."""

    def __init__(self, subject: Subject, draw: Callable[[], None]) -> None:
        """Make the controls."""
        self.subject, self.redraw = subject, draw
        self.kept: list[tuple[EventLayer, w.Checkbox]] = []
        wide = w.Layout(width="52%")
        self.query = w.Combobox(description="query:", placeholder='kind == "switch" and cpu < 8', layout=wide,
                                continuous_update=True)  # fmt: skip
        self.style_text = w.Text(description="style:", placeholder="draw=spans:run_ns colour=by:comm",
                                 layout=w.Layout(width="46%"))  # fmt: skip
        self.says = w.HTML(_HINT)
        self.says.add_class("wc-query-says")
        self.rows = w.VBox()
        self.file = w.Text(value="layers.toml", description="file:")
        buttons = {"show": self.show, "keep": self.keep, "save": self.save}
        made = []
        for name, do in buttons.items():
            button = w.Button(description=name, layout=w.Layout(width="70px"))
            button.on_click(lambda _, do=do: do())
            made.append(button)
        self.query.observe(self._typed, names="value")
        for text in (self.query, self.style_text):
            text.on_msg(self._entered)
        texts = w.HBox([self.query, self.style_text], layout=w.Layout(flex_flow="row wrap"))
        bar = w.HBox([*made, self.file], layout=w.Layout(flex_flow="row wrap"))
        super().__init__([texts, self.says, bar, self.rows])
        self._typed()

    def _names(self) -> list[str]:
        """Return the names of tasks, the commonest first; they are read from the trace once."""
        if self.subject.names is None:
            counted = (
                self.subject.run.trace.events.group_by("comm").len().sort("len", descending=True)
            )
            texts = (
                counted.select(pl.col("comm").cast(pl.String)).drop_nulls().head(NAMES).collect()
            )
            self.subject.names = texts["comm"].to_list()
        return self.subject.names

    def _typed(self, _: Any = None) -> None:
        """Offer completions of what was typed, or say what is wrong with it."""
        text = self.query.value
        offered = complete(text, values={"comm": self._names()} if "comm" in text else {})
        self.query.options = tuple(offered[:OFFERED])
        try:
            if text.strip():
                parse(text)
            self.says.value = _HINT
        except WastedCoresError as e:
            self.says.value = sentence(str(e)).html

    def _entered(self, _: Any, content: dict[str, Any], __: Any) -> None:
        if content.get("event") == "submit":
            self.show()

    def show(self) -> None:
        """Draw the checked layers, and the query as the uppermost layer; if the query is wrong, a sentence says why."""
        try:
            drafted = (
                [styled(self.query.value, self.style_text.value)]
                if self.query.value.strip()
                else []
            )
            self.subject.choose([layer for layer, box in self.kept if box.value] + drafted)
        except WastedCoresError as e:
            self.says.value = sentence(str(e)).html
            return
        self.says.value = _HINT
        self.redraw()

    def keep(self) -> None:
        """Keep the query as a layer that can be switched on and off, and begin another query."""
        if not self.query.value.strip():
            return
        try:
            layer = styled(self.query.value, self.style_text.value)
            self.subject.choose([kept for kept, box in self.kept if box.value] + [layer])
        except WastedCoresError as e:
            self.says.value = sentence(str(e)).html
            return
        box = w.Checkbox(
            value=True, description=layer.name, indent=False, layout=w.Layout(width="95%")
        )
        box.observe(lambda _: self.show(), names="value")
        self.kept.append((layer, box))
        self.rows.children = tuple(b for _, b in self.kept)
        self.query.value = self.style_text.value = ""
        self.redraw()

    def save(self) -> None:
        """Write the checked layers to a file that ``wastedcores figure --layers`` reads."""
        try:
            layers = [layer for layer, box in self.kept if box.value]
            write_layers(layers, Path(self.file.value))
        except WastedCoresError as e:
            self.says.value = sentence(str(e)).html
            return
        name = self.file.value
        self.says.value = sentence(
            f"The checked layers are in {name}; figure --kind events --layers {name} draws them."
        ).html
