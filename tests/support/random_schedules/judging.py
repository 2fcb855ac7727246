"""A verdict of ``wastedcores.check`` compared with the truth."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import wastedcores
from support.random_schedules.decidable import extremes
from support.random_schedules.drawing import Schedule, schedule
from support.random_schedules.truth import Limits
from wastedcores.capture.snapshot import Snapshot, with_snapshot
from wastedcores.errors import WastedCoresError
from wastedcores.invariant import CheckResult

#: what the verdict was made from: nothing more, snapshots from before and after the recording, or only the one from before;
#: and where these do not show all changes of affinity, so that they can mislead
KNOWLEDGE = ALONE, SNAPSHOT, ONE_SNAPSHOT, BLIND_SNAPSHOTS, OLD_SNAPSHOT = (
    "trace alone",
    "with snapshots",
    "with one snapshot",
    "with snapshots that miss a change",
    "with an old snapshot",
)
MISLEADING = (BLIND_SNAPSHOTS, OLD_SNAPSHOT)
#: what became of a verdict
RIGHT, UNKNOWN, REFUSED, NOT_JUDGED = "right", "unknown", "refused", "not judged"
FALSE_ALARM, MISSED, WRONG_KIND, ERROR = "false alarm", "missed", "wrong kind", "error"
OUTCOMES = (RIGHT, UNKNOWN, REFUSED, NOT_JUDGED, FALSE_ALARM, MISSED, WRONG_KIND, ERROR)
#: those that must not occur
FAILURES = (FALSE_ALARM, MISSED, WRONG_KIND, ERROR)
#: why a verdict is unknown, by words of the notes; the first that fits
REASONS = {
    "the window is shorter than M": "a verdict needs",
    "a CPU has no event": "a CPU has no event",
    "threads got another affinity": "got another affinity",
    "nothing says where threads may run": "of which nothing says",
    "events were lost": "events were lost",
    "threads may have been throttled": "control groups have limits",
    "the trace contradicts itself, or threads may have been throttled": "in doubt for so long",
    "too short to say whether waste goes on": "it is too short to say",
    "episodes rest on contradictions, or on threads that may have been throttled": "in which the trace contradicts itself",
    "the number of CPUs is not told": "how many CPUs there were",
    "no runqueue is known": "no runqueue is known",
}
TRUTHS = ("clean", "persistent", "chronic", "both", "between")


@dataclass
class Judged:
    """One schedule and its verdicts; seed and features make it again."""

    seed: int
    features: tuple[str, ...]
    truth: str
    persist_us: int
    #: whether a thread's affinity was another one at some time than the snapshot says
    stale: bool
    events: int
    outcomes: dict[str, str]
    verdicts: dict[str, str]
    #: one of REASONS for each verdict that is unknown
    reasons: dict[str, str]
    #: for each verdict that is unknown, whether another machine with another truth fits the evidence; the knowledge that misleads
    #: and truths that are too close to call are left out
    undecidable: dict[str, bool]
    made_ms: float
    checked_ms: float

    @property
    def failed(self) -> bool:
        """Whether any verdict is wrong that no misleading snapshot excuses."""
        return any(o in FAILURES for k, o in self.outcomes.items() if k not in MISLEADING)

    def to_json(self) -> dict[str, Any]:
        """Return what is kept of it."""
        return asdict(self)


def truth_word(made: Schedule, limits: Limits) -> str:
    """Say in a word what the truth is: clean, persistent, chronic, both, or between (too close to call)."""
    persistent, chronic = made.truth.verdicts(made.persist_us, limits)
    if persistent and chronic:
        return "both"
    if persistent or chronic:
        return "persistent" if persistent else "chronic"
    return "clean" if persistent is False and chronic is False else "between"


def outcome(made: Schedule, verdict: str, kind: str, limits: Limits) -> str:
    """Compare a verdict with the truth."""
    persistent, chronic = made.truth.verdicts(made.persist_us, limits)
    truth = made.truth
    if verdict == "unknown":
        return UNKNOWN
    if truth.end_us - truth.start_us < made.persist_us and made.cpus > 1:
        if verdict != "clean":
            return FALSE_ALARM
        # nobody knows how long an episode went on that the trace does not end
        if truth.goes_on(truth.certain, limits.slack_us):
            return MISSED
    if verdict == "clean":
        if persistent or chronic:
            return MISSED
        return RIGHT if persistent is False and chronic is False else NOT_JUDGED
    claimed = persistent if kind == "persistent" else chronic
    other = chronic if kind == "persistent" else persistent
    if claimed is None:
        return NOT_JUDGED
    if claimed:
        return RIGHT
    if other is False:
        return FALSE_ALARM
    return WRONG_KIND if other else NOT_JUDGED


def judge(
    seed: int, folder: Path, features: tuple[str, ...] | None = None, limits: Limits = Limits()
) -> Judged:
    """Make a schedule and judge the verdicts about it."""
    began = time.perf_counter()
    made = schedule(seed, features)
    file = folder / f"random-{seed}.txt"
    file.write_text(made.text)
    between = time.perf_counter()
    outcomes: dict[str, str] = {}
    verdicts: dict[str, str] = {}
    reasons: dict[str, str] = {}
    trace = None
    try:
        # every second seed is judged with one snapshot, too, and all of which it may be misleading
        one = [OLD_SNAPSHOT] if made.stale else [ONE_SNAPSHOT] if seed % 2 else []
        both = BLIND_SNAPSHOTS if made.hidden else SNAPSHOT
        for knowledge in (ALONE, both, *one):
            try:
                trace = trace or wastedcores.open(file)
                found = _checked(trace, made, knowledge)
            except WastedCoresError as e:
                outcomes[knowledge], verdicts[knowledge] = REFUSED, str(e)
                continue
            except Exception as e:  # whatever it is: it would have been a traceback
                outcomes[knowledge], verdicts[knowledge] = ERROR, repr(e)
                continue
            outcomes[knowledge] = outcome(made, found.verdict, found.kind, limits)
            verdicts[knowledge] = f"{found.verdict} ({found.kind})"
            if found.verdict == "unknown":
                said = "; ".join(found.notes)
                reasons[knowledge] = next(
                    (r for r, words in REASONS.items() if words in said), said
                )
    finally:
        file.unlink()
    truth, checked = truth_word(made, limits), time.perf_counter()
    undecidable = {}
    for snapshots, knowledge in enumerate((ALONE, ONE_SNAPSHOT, SNAPSHOT)):
        if outcomes.get(knowledge) == UNKNOWN and truth != "between":
            most, least = extremes(made, snapshots)
            undecidable[knowledge] = most if truth == "clean" else not least
    return Judged(
        seed,
        made.features,
        truth,
        made.persist_us,
        made.stale,
        len(made.events),
        outcomes,
        verdicts,
        reasons,
        undecidable,
        round(1000 * (between - began), 2),
        round(1000 * (checked - between), 2),
    )


def _checked(trace: wastedcores.Trace, made: Schedule, knowledge: str) -> CheckResult:
    if knowledge != ALONE:
        last = {"last": made.last_snapshot} if knowledge in (SNAPSHOT, BLIND_SNAPSHOTS) else {}
        taken = Snapshot.model_validate(made.snapshot | last)
        trace = with_snapshot(trace, taken, "snapshot.json")
    return wastedcores.check(trace, persist_ns=1000 * made.persist_us)


def write(seed: int, folder: Path, features: tuple[str, ...] | None = None) -> Path:
    """Write the trace and the snapshot of a schedule, for somebody who wants to look at a failure."""
    made = schedule(seed, features)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"random-{seed}.txt"
    file.write_text(made.text)
    both = made.snapshot | {"last": made.last_snapshot}
    file.with_suffix(".json").write_text(json.dumps(both, indent=1) + "\n")
    return file
