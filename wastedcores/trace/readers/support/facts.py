"""What a reader learns on the way and only knows at the end of the file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Facts:
    """Collected while a file is read; becomes its :class:`~wastedcores.trace.header.Header`.

    Attributes
    ----------
    source_format, kernel_release, clock, cpus
        As in the header; ``cpus`` as the file states it.
    lost, overwritten
        Events per CPU; -1: the file does not say which.
    skipped
        Events of kinds the schema has no place for, by their name in the file.
    every_switch
        A sched_switch was seen, so the recording has them all.
    waking
        Take sched_waking for sched_wakeup, because the recording has no sched_wakeup (perf sched record since 6.6);
        None as long as neither was seen.
    notes
        Anything else worth keeping; goes to the header's provenance.
    """

    source_format: str
    kernel_release: str | None = None
    clock: str | None = None
    cpus: int | None = None
    lost: Counter[int] = field(default_factory=Counter)
    overwritten: Counter[int] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    notes: dict[str, str] = field(default_factory=dict)
    every_switch: bool = False
    waking: bool | None = None

    def add_lost(self, cpu: int, n: int) -> None:
        """Count a loss of ``n`` events (-1: unknown number) on ``cpu`` (-1: unknown CPU)."""
        if n < 0 or self.lost[cpu] < 0:
            self.lost[cpu] = -1
        else:
            self.lost[cpu] += n
