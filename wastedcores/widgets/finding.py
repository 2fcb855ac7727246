"""The parts of the explorer that find tasks, and the line of code that opens a view again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as w
import polars as pl

from wastedcores.analysis.examined import Examined, examine
from wastedcores.errors import WastedCoresError
from wastedcores.figures.found_tasks import mark_found, matching
from wastedcores.figures.kinds import Look
from wastedcores.units import human_ns
from wastedcores.words.rich_text import count

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from wastedcores.widgets.explore import Explorer

#: at most this many names are offered as completions: those of the tasks that ran longest
NAMES = 300


class TaskFinder(w.HBox):
    """A box for the name of a task, steps from stay to stay, and a sentence about what was found."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.text = w.Combobox(
            description="task:", placeholder="name, pid or name:pid", continuous_update=False
        )
        self.says = w.HTML()
        self.found: pl.DataFrame | None = None
        steps = []
        for by, icon, tooltip in (
            (-1, "angle-left", "previous run"),
            (1, "angle-right", "next run"),
        ):
            button = w.Button(
                description=tooltip, icon=icon, tooltip=tooltip, layout=w.Layout(width="auto")
            )
            button.on_click(lambda _, by=by: self.step(by))
            steps.append(button)
        self.previous_button, self.next_button = steps
        self.text.observe(self._changed, names="value")
        super().__init__([self.text, *steps, self.says], layout=w.Layout(flex_flow="row wrap"))

    def _changed(self, _: Any) -> None:
        text = self.text.value.strip()
        self.found, self.says.value = None, ""
        if text:
            try:
                stays = self.explorer.subject.stays
                self.found = matching(stays, text)
                self.says.value = self._said()
                if not self.text.options:
                    self.text.options = _names(stays)
            except WastedCoresError as e:
                self.says.value = str(e)
        self.explorer.draw()

    def _said(self) -> str:
        found = self.found
        if found is None or found.is_empty():
            return "No task of this name or pid ran."
        ran = human_ns(int((found["end_ns"] - found["start_ns"]).sum()))
        tasks = count(found["pid"].n_unique(), "task")
        return f"{tasks}, {count(found.height, 'run')} of {ran} in all; marked yellow"

    def step(self, by: int) -> None:
        """Go to the next stay of the found tasks after the middle of the window (before it if ``by`` is negative)."""
        if self.found is None or self.found.is_empty():
            return
        if not self.explorer.go_beside(self.found, by):
            self.says.value = f"There is no {'later' if by > 0 else 'earlier'} run."

    def mark(self, fig: go.Figure) -> None:
        """Draw over a figure of the explorer where the found tasks ran."""
        if self.found is not None:
            events, e = self.explorer.show.value == "events", self.explorer
            missing = mark_found(fig, e.scene, self.found, e.window, numbers=events)
            rest = f" except at {count(missing, 'place')} on the last CPUs; zoom in to see them"
            self.says.value = self._said() + (rest if missing else "")


def _names(stays: pl.DataFrame) -> list[str]:
    """Return the names and pids of the tasks that ran longest."""
    ran = (
        stays.filter(pl.col("pid") != 0)
        .group_by("pid")
        .agg(pl.col("comm").last(), ran=(pl.col("end_ns") - pl.col("start_ns")).sum())
        .sort("ran", "pid", descending=[True, False])
        .head(NAMES)
    )
    return [f"{comm or '?'}:{pid}" for pid, comm, _ in ran.iter_rows()]


def cell_of(run: Examined, look: Look, task: str) -> str:
    """Return a line of code that opens a view in another notebook; empty if the trace has no file, such as a replay in memory."""
    if run.trace.path is None:
        return ""
    zero = run.scene.window[0]
    options = {"show": look.show, "reduce": look.reduce, "palette_name": look.palette_name}
    usual = {"show": "runqueues", "reduce": "share", "palette_name": "safe"}
    given: dict[str, Any] = {k: v for k, v in options.items() if v != usual[k]}
    if task:
        given["task"] = task
    if look.shown != run.scene.window:
        given["at"] = tuple(round((t - zero) / 1e9, 9) for t in look.shown)
    arguments = "".join(f", {k}={v!r}" for k, v in given.items())
    name, extra = repr(str(run.trace.path)), _question(run)
    imports = "from wastedcores.widgets import explorer; "
    if not extra:
        return f"{imports}explorer({name}{arguments})"
    return f"from wastedcores.analysis.examined import examine; {imports}explorer(examine({name}{extra}){arguments})"


def _question(run: Examined) -> str:
    """Return the arguments with which :func:`wastedcores.analysis.examined.examine` asks the same question."""
    usual = examine(run.trace)
    given: dict[str, Any] = {
        name: getattr(run, name)
        for name in ("persist_ns", "chronic_share", "ignore_affinity", "silent")
        if getattr(run, name) != getattr(usual, name)
    }
    if run.window is None and run.cpus is None and (usual.window or usual.cpus):
        given["whole"] = True
    else:
        if run.window and run.window != usual.window:
            given["between"] = [run.window.start_ns, run.window.end_ns]
        if run.cpus != usual.cpus:
            given["cpus"] = run.cpus
    return "".join(f", {k}={v!r}" for k, v in given.items())
