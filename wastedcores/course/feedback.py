"""The judgement of an answer, in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from wastedcores.errors import WastedCoresError


@dataclass(frozen=True)
class Feedback:
    """The judgement of one answer."""

    task: str  #: name of the task
    passed: bool  #: true if the answer is right
    #: the points that the answer gets, and those that a right answer gets
    points: float
    most: float
    message: str  #: one to three sentences in the terms of the lab
    hint: str = ""  #: a hint for a common mistake; empty if the answer is not one

    def __str__(self) -> str:
        text = f"task {self.task}: {self.message}"
        return f"{text}\nHint: {self.hint}" if self.hint else text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = "#2e7d32" if self.passed else "#b3261e"
        hint = f"<br><b>Hint.</b> {escape(self.hint)}" if self.hint else ""
        return (
            f"<div style='border-left:4px solid {colour};padding:4px 10px'><b>Task {escape(self.task)}:</b> "
            f"{escape(self.message)}{hint}</div>"
        )


class WrongAnswerError(WastedCoresError):
    """An answer is not right; the message is the feedback. A notebook shows it without a traceback."""

    def __init__(self, feedback: Feedback) -> None:
        super().__init__(str(feedback))
        self.feedback = feedback

    def _render_traceback_(self) -> list[str]:
        """Return what IPython prints instead of a traceback."""
        return [str(self)]
