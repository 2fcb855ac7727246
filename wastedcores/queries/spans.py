"""Spans: lengths of time between pairs of events, for example from the switch to a task to the next switch on that CPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A pair of queries: one event begins a span and a later one ends it.

    Attributes
    ----------
    name
        Its name; the length is in the column ``NAME_ns``.
    begin, end
        Queries, as :func:`wastedcores.queries.language.parse` reads them. An event can be both: it ends one span and begins
        another. An event that begins a span while a span is open is passed over.
    by
        The column that both events share, for example ``cpu``; two columns, if the ending event has the number in another column.
    same
        A column of the beginning event and one of the ending event that must agree. Where they do not agree, an event in
        between was not recorded, and the length is unknown.
    doc
        A sentence about the column.
    broken, broken_by
        A query and a column: after an event that the query chooses, the open span of the task in that column has no length. For
        example, a running task that is woken does not wait, and the next switch from it shows that it ran. A task that runs again
        without a wakeup did not sleep, its wakeup was lost, or it is a new task with the number of one that has ended.
    """

    name: str
    begin: str
    end: str
    by: str | tuple[str, str] = "cpu"
    same: tuple[str, str] | None = None
    doc: str = "Added by a decoration."
    broken: str = ""
    broken_by: str = ""

    @property
    def column(self) -> str:
        """The name of the column with the length."""
        return f"{self.name}_ns"

    @property
    def keys(self) -> tuple[str, str]:
        """The columns that pair the events: of the beginning one, and of the ending one."""
        return (self.by, self.by) if isinstance(self.by, str) else self.by


_LEFT = (
    'kind == "switch" and prev_pid > 0 and prev_state is not None and not prev_state in ("R", "R+")'
)

SPANS = {
    s.name: s
    for s in (
        Span("run", 'kind == "switch" and pid != 0', 'kind == "switch"', same=("pid", "prev_pid"),
             doc="For a switch to a task: how long it ran."),
        Span("idle", 'kind == "switch" and pid == 0', 'kind == "switch"', same=("pid", "prev_pid"),
             doc="For a switch to the idle task: how long the CPU was idle."),
        Span("busy", 'kind == "nr_running" and nr_running >= 1', 'kind == "nr_running" and nr_running == 0',
             doc="For the event that makes a runqueue non-empty: how long it was not empty (RQSIZE >= 1)."),
        Span("wait", 'kind in ("wakeup", "wakeup_new")', 'kind == "switch" and pid != 0', "pid",
             doc="For a wakeup of a task that does not run: how long until it ran.",
             broken='kind == "switch"', broken_by="prev_pid"),
        Span("blocked", _LEFT, 'kind == "wakeup"', ("prev_pid", "pid"),
             doc="For a switch from a task that sleeps: how long until its wakeup.",
             broken='kind == "switch"', broken_by="pid"),
        Span("life", 'kind == "fork"', 'kind == "exit"', "pid",
             doc="For a fork: how long until the new task ended."),
        Span("sleep", 'kind == "cpu_idle" and value >= 0', 'kind == "cpu_idle" and value == -1',
             doc="For the entry of an idle state: how long until the CPU left it."),
    )
}  # fmt: skip
