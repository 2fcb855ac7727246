"""The outcomes of the states of one kind of machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from wastedcores_studies.proofs.choices import Choices, every
from wastedcores_studies.proofs.still import Found


@dataclass
class Tally:
    """What became of the states of one kind of machine."""

    #: how many runs were made, and how many states they stand for
    runs: int = 0
    states: int = 0
    #: for each outcome the number of states
    outcomes: Counter[str] = field(default_factory=Counter)
    #: for each outcome the smallest state that had it: the number of its threads, and the state as text
    smallest: dict[str, tuple[int, str]] = field(default_factory=dict)

    def count(self, run: Callable[[Choices], Found | None]) -> None:
        """Make a run for each combination of its choices, and count the outcomes; a run without an outcome is not counted."""
        for found in every(run):
            if found is None:
                continue
            outcome, stands_for, seen = found
            self.runs += 1
            self.states += stands_for
            self.outcomes[outcome] += stands_for
            known = self.smallest.get(outcome)
            if known is None or seen[0] < known[0]:
                self.smallest[outcome] = seen
