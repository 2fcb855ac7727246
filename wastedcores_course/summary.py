"""The table of a graded class, and a page about it for the lecturer."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path

from wastedcores.files import written_whole
from wastedcores_course.source import Source
from wastedcores_course.task import Manual


@dataclass
class Row:
    """The grades of one submission."""

    student: str  #: the name of the submission's folder or file
    #: a digest of the submission, the lab and the settings; while it is the same, the submission need not be graded again
    digest: str
    #: task -> points; tasks that a person grades are not in it
    points: dict[str, float] = field(default_factory=dict)
    feedback: dict[str, str] = field(default_factory=dict)  #: task -> what the student gets to read
    hints: dict[str, str] = field(default_factory=dict)  #: task -> the hint for a common mistake
    note: str = ""  #: a sentence for the lecturer, or an empty text
    #: the submission ran out of time, perhaps because of other programs on the machine
    timed_out: bool = False
    #: what the submission needed: time, CPU time of all its processes, and memory in bytes
    seconds: float = 0.0
    cpu_s: float = 0.0
    memory: int = 0

    @property
    def total(self) -> float:
        """The sum of the points."""
        return sum(self.points.values())


def save_row(row: Row, path: Path) -> None:
    """Write the grades of a submission."""
    with written_whole(path) as part:
        part.write_text(json.dumps(asdict(row), indent=1, ensure_ascii=False))


def saved_row(path: Path, digest: str) -> Row | None:
    """Read the kept grades of a submission; None if there are none with this digest."""
    try:
        row = Row(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return row if row.digest == digest else None


#: bars of the distribution
_BARS = 10
_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #ddd;
vertical-align:top}.n{text-align:right;white-space:nowrap}.bar{background:#3b6ea5;height:1rem}
.t{white-space:nowrap}td.wide{width:60%}"""


def points_of(source: Source) -> float:
    """Return the points that the grader can give, without the points of reflection questions."""
    return sum(t.points for t in source.tasks.values() if not isinstance(t, Manual))


def points_by_hand(source: Source) -> float:
    """Return the points of reflection questions, which a person gives."""
    return sum(t.points for t in source.tasks.values() if isinstance(t, Manual))


def write_table(rows: Sequence[Row], source: Source, path: Path) -> None:
    """Write the grades as CSV: one line per student, one column per task."""
    with written_whole(path) as part, part.open("w", newline="") as file:
        table = csv.writer(file)
        names = [f"task {n}" for n in source.tasks]
        table.writerow(["student", "points", "of", "by hand", *names, "seconds", "note"])
        for row in rows:
            points = [f"{row.points[n]:g}" if n in row.points else "" for n in source.tasks]
            table.writerow(
                [
                    _inert(row.student),
                    f"{row.total:g}",
                    f"{points_of(source):g}",
                    f"{points_by_hand(source):g}",
                    *points,
                    f"{row.seconds:.0f}",
                    _inert(row.note),
                ]
            )


def _inert(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula, because students choose the names of their files."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text


def write_feedback(rows: Sequence[Row], source: Source, folder: Path) -> None:
    """Write a text for each student with the feedback of each task."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        lines = [f"Lab {source.lab}: {row.total:g} of {points_of(source):g} points", ""]
        if more := points_by_hand(source):
            lines.insert(1, f"{more:g} more points are given by a person, who reads your answers.")
        for name, points in row.points.items():
            lines.append(
                f"Task {name} ({points:g} of {source.tasks[name].points:g}): {row.feedback[name]}"
            )
            if name in row.hints:
                lines.append(f"  Hint: {row.hints[name]}")
        with written_whole(folder / f"{row.student}.txt") as part:
            part.write_text("\n".join(lines) + "\n")


def hardest(rows: Sequence[Row], source: Source) -> tuple[str, int] | None:
    """Return the task that the fewest students solved, and their number; None if all solved it, or there is no row."""
    solved = _solved(rows, source)
    if not rows or not solved or min(solved.values()) == len(rows):
        return None
    name = min(solved, key=lambda n: solved[n])
    return name, solved[name]


def _solved(rows: Sequence[Row], source: Source) -> dict[str, int]:
    names = [n for n, t in source.tasks.items() if not isinstance(t, Manual)]
    return {n: sum(row.points[n] > 0 for row in rows) for n in names}


def write_page(rows: Sequence[Row], source: Source, path: Path) -> None:
    """Write a page with the distribution, the tasks (the hardest first), the common mistakes and the notes."""
    most = points_of(source)
    totals = sorted(row.total for row in rows)
    middle = totals[len(totals) // 2] if totals else 0
    worst = hardest(rows, source)
    lead = (
        f"{len(rows)} submission{'s' * (len(rows) != 1)}, at most {most:g} points. Half of the students have at least "
        f"{middle:g} points."
    )
    if worst:
        name, n = worst
        lead += f" The hardest task is task {name} ({source.tasks[name].title}): {n} of {len(rows)} solved it."
    parts = [
        f"<h1>Lab {source.lab}: grades</h1><p>{escape(lead)}</p>",
        "<h2>Distribution of points</h2>",
        _bars(_histogram(totals, most)),
        "<h2>Students who solved each task, the hardest first</h2>",
        _bars(_tasks(rows, source), len(rows)),
        "<h2>Common mistakes</h2>",
        _mistakes(rows),
        "<h2>Notes</h2>",
        _notes(rows),
    ]
    page = (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Lab {source.lab}: grades</title><style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )
    with written_whole(path) as part:
        part.write_text(page)


def _histogram(totals: Sequence[float], most: float) -> list[tuple[str, int]]:
    """Return for each tenth of the points a label and the number of students; full marks are in the last tenth."""
    found = [0] * _BARS
    for total in totals:
        found[min(int(total / most * _BARS), _BARS - 1)] += 1
    step = most / _BARS
    last = f"{step * (_BARS - 1):g} to {most:g}"
    labels = [f"{step * i:g} to below {step * (i + 1):g}" for i in range(_BARS - 1)] + [last]
    return list(zip(labels, found, strict=True))


def _tasks(rows: Sequence[Row], source: Source) -> list[tuple[str, int]]:
    solved = _solved(rows, source)
    return [
        (f"task {n}: {source.tasks[n].title}", solved[n])
        for n in sorted(solved, key=lambda n: solved[n])
    ]


def _bars(rows: Sequence[tuple[str, int]], whole: int = 0) -> str:
    """Return a table with bars; a bar of full length stands for ``whole`` or, without it, for the largest number."""
    longest = whole or max([n for _, n in rows] or [0]) or 1
    lines = [
        f"<tr><td>{escape(label)}</td><td class=n>{n}</td><td class=wide>"
        f"<div class=bar style='width:{100 * n / longest:.1f}%'></div></td></tr>"
        for label, n in rows
    ]
    return f"<table>{''.join(lines)}</table>"


def _mistakes(rows: Sequence[Row]) -> str:
    found = Counter((task, hint) for row in rows for task, hint in row.hints.items())
    if not found:
        return "<p>No answer was one of the common mistakes.</p>"
    lines = [
        f"<tr><td class=n>{n}</td><td class=t>task {escape(task)}</td><td>{escape(hint)}</td></tr>"
        for (task, hint), n in found.most_common()
    ]
    return f"<table><tr><th>students<th>task<th>the hint that they got</tr>{''.join(lines)}</table>"


def _notes(rows: Sequence[Row]) -> str:
    lines = [
        f"<tr><td>{escape(r.student)}</td><td>{escape(r.note)}</td></tr>" for r in rows if r.note
    ]
    return f"<table>{''.join(lines)}</table>" if lines else "<p>None.</p>"
