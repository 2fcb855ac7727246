"""The grades of one submission, and the file that keeps them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from wastedcores.files import written_whole


@dataclass
class Row:
    """The grades of one submission."""

    student: str  #: the name of the submission's folder or file
    #: of the submission, the lab and the settings; a row with the same digest need not be made again
    digest: str
    #: task -> points; tasks that a person grades are not in it
    points: dict[str, float] = field(default_factory=dict)
    feedback: dict[str, str] = field(default_factory=dict)  #: task -> what the student gets to read
    hints: dict[str, str] = field(default_factory=dict)  #: task -> the hint for a common mistake
    note: str = ""  #: a sentence for the lecturer, or an empty text
    #: it ran into a limit of time, which may be the fault of other programs on the machine
    timed_out: bool = False
    #: what the submission took: time, CPU time of all its processes, and bytes
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
    """Read the grades of a submission that were kept."""
    try:
        row = Row(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return row if row.digest == digest else None
