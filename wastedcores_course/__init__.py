"""The graded labs of the course: their questions, the variation of each student, and checks that explain.

A lab has three parts. ``notebooks/course/`` has its source notebook, a complete solution. ``labs/`` has its module: how a
student's numbers are drawn, what a check measures of an answer, and how it explains a wrong answer. ``answers/`` has the right
answers and the common mistakes. Where students' code runs, a check only measures, and the answers are judged elsewhere. So a
grader can leave ``answers/`` out there.

docs/teaching.md explains the course to lecturers. A module is imported when one of its names is first used.
"""

from __future__ import annotations

from wastedcores.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "task": "Answer Feedback Manual Mistake Task WrongAnswerError",
        "lab": "LABS Lab judge variation",
    },
)
