"""Counts verdicts about many schedules, and shows them as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from support.random_schedules.drawing import FEATURES
from support.random_schedules.judging import (
    ALONE,
    FAILURES,
    KNOWLEDGE,
    MISLEADING,
    OUTCOMES,
    REASONS,
    TRUTHS,
    UNKNOWN,
    Judged,
)

#: separates the parts of a key, so that a tally is a plain JSON object
_BAR = "|"
SINGLE, COMBINED, ALL = "alone", "combined", "all"
#: begins the keys that count reasons, and those that count unknown verdicts of which it is shown that nobody could know
WHY, OPEN = "why", "open"
#: rows of the summary
TOTAL, EVERY, COMPLETE = "total", "all schedules", "complete recordings"
VIOLATING = ("persistent", "chronic", "both")
STEADY = "complete, and no affinity changed"
#: classes of which a recording is not complete
_INCOMPLETE = {"unrecorded", "lost", "overwritten", "short"}


def rows_of(judged: Judged) -> list[tuple[str, str]]:
    """Return the rows of the tables in which a schedule counts: the totals, its class alone, or each of its classes combined."""
    totals = [(TOTAL, EVERY)]
    if _INCOMPLETE.isdisjoint(judged.features):
        totals.append((TOTAL, COMPLETE))
        if not judged.stale:
            totals.append((TOTAL, STEADY))
    if len(judged.features) == 1:
        return [*totals, (SINGLE, judged.features[0])]
    return [*totals, (COMBINED, ALL), *((COMBINED, f) for f in judged.features)]


def tally(schedules: Iterable[Judged]) -> Counter[str]:
    """Count schedules by row, knowledge, truth and outcome."""
    counts: Counter[str] = Counter()
    for judged in schedules:
        for row in rows_of(judged):
            for knowledge, outcome in judged.outcomes.items():
                counts[_BAR.join((*row, knowledge, judged.truth, outcome))] += 1
                if row[0] == TOTAL and outcome == UNKNOWN and judged.truth != "between":
                    counts[_BAR.join((WHY, *row, knowledge, judged.reasons[knowledge]))] += 1
                if judged.undecidable.get(knowledge):
                    counts[_BAR.join((OPEN, *row, knowledge, judged.truth))] += 1
    return counts


def why(counts: Counter[str]) -> list[dict[str, Any]]:
    """Return how often each reason was given for an unknown verdict about a schedule whose truth is beyond doubt."""
    found: Counter[tuple[str, ...]] = Counter()
    for key, n in counts.items():
        if key.startswith(WHY + _BAR):
            _, _, row, knowledge, said = key.split(_BAR)
            named = said if said in REASONS else ""
            named = named or next((r for r, words in REASONS.items() if words in said), said)
            found[row, knowledge, named] += n
    order = sorted(found.items(), key=lambda item: (item[0][:2], -item[1]))
    return [
        {"knowledge": knowledge, "class": row, "reason": reason, "schedules": n}
        for (row, knowledge, reason), n in order
    ]


def failures(counts: Counter[str]) -> Counter[str]:
    """Return how often each failure occurred; a schedule counts once for each kind of knowledge."""
    found: Counter[str] = Counter()
    for key, n in counts.items():
        place, row, knowledge, _, outcome = key.split(_BAR)
        if (
            place not in (WHY, OPEN)
            and outcome in FAILURES
            and knowledge not in MISLEADING
            and (place == SINGLE or row == ALL)
        ):
            found[f"{knowledge}: {outcome}"] += n
    return found


def as_rows(counts: Counter[str]) -> list[dict[str, Any]]:
    """Return one object per row and knowledge."""
    found = []
    order = [(TOTAL, name) for name in (EVERY, COMPLETE, STEADY)]
    order += [(SINGLE, f) for f in FEATURES] + [(COMBINED, ALL)] + [(COMBINED, f) for f in FEATURES]
    for knowledge in KNOWLEDGE:
        for place, name in order:
            of = {
                (t, o): counts[_BAR.join((place, name, knowledge, t, o))]
                for t in TRUTHS
                for o in OUTCOMES
            }
            total = sum(of.values())
            if not total:
                continue
            nobody = {t: counts[_BAR.join((OPEN, place, name, knowledge, t))] for t in TRUTHS}
            found.append(
                {
                    "knowledge": knowledge,
                    "classes": place,
                    "class": name,
                    "schedules": total,
                    "truth": {t: sum(of[t, o] for o in OUTCOMES) for t in TRUTHS},
                    "answered_of_clean": of["clean", "right"],
                    "answered_of_violating": sum(of[t, "right"] for t in VIOLATING),
                    "undecidable_of_clean": nobody["clean"],
                    "undecidable_of_violating": sum(nobody[t] for t in VIOLATING),
                    "outcomes": {o: sum(of[t, o] for t in TRUTHS) for o in OUTCOMES},
                }
            )
    return found


def markdown(run: dict[str, Any]) -> str:
    """Return the tables of a run for people."""
    lines = [
        "# Random schedules: the verdict against a known truth",
        "",
        f"Written by `python tests/adversary/random_schedules.py --schedules {run['schedules']} --first {run['first']}` at "
        f"commit `{run['commit']}` ({run['date']}, {run['machine']}). A schedule takes {run['made_ms']} ms to make, and its "
        f"verdicts together take {run['checked_ms']} ms.",
        "",
        "The schedules and the truth come from `tests/support/random_schedules/`. *Clean* and *violating* are those whose truth "
        "is beyond doubt; the others are too close to call and judge nothing, and so do windows shorter than M with waste at one "
        "of their ends, of which nobody knows for how long it went on. *Answered* is the share of the clean and of the violating "
        "schedules that got the right verdict. *At most* is the share that could be answered by anybody, as far as is known: for "
        "each unknown verdict, the machine is changed in what its recording and its snapshots do not show, and where this makes "
        "a clean one waste, or takes the waste from a violating one, nobody can know which of the two was recorded "
        "(`decidable.py`). That is not asked about hotplug and about snapshots that mislead. *Refused* are traces "
        "about which `check` makes no statement, with a message: those without any switch, or without a task of the snapshot. A "
        "*false alarm* is `violations` about a clean schedule, *missed* is `clean` about a violating one, and *wrong kind* is "
        "`persistent` where only chronic waste is, or the other way round. *Snapshots* are from before and after the recording "
        "(`wastedcores snapshot -- COMMAND`), and *one snapshot* is only the first of them. An *old snapshot* is one before a "
        "change of affinity, and snapshots *miss a change* if it was undone or its thread ended before the second; what they "
        "make `check` say is shown, and is not among the failures. A recording is *complete* if all CPUs were recorded, no event "
        "was lost or overwritten, and it is at least M long.",
        "",
        *([run["note"], ""] if run.get("note") else []),
        "## Summary",
        "",
        "| verdicts from | " + _HEAD[0][2:],
        "|---" + _HEAD[1],
    ]
    for row in run["rows"]:
        if row["classes"] == TOTAL:
            lines.append(f"| {_said(row['knowledge'])} {_line(row)}")
    if run["why"]:
        lines += [
            "",
            "## Why verdicts are unknown",
            "",
            "Schedules whose truth is beyond doubt; the first reason that `check` gives counts.",
            "",
            "| verdicts from | class | reason | schedules |",
            "|---|---|---|---|",
        ]
        lines += [
            f"| {_said(w['knowledge'])} | {w['class']} | {w['reason']} | {w['schedules']} |"
            for w in run["why"]
        ]
    for knowledge in KNOWLEDGE:
        for place in (SINGLE, COMBINED):
            some = [r for r in run["rows"] if r["knowledge"] == knowledge and r["classes"] == place]
            if some:
                lines += ["", f"## Verdicts from {_said(knowledge)}, classes {place}", "", *_HEAD]
                lines += [_line(r) for r in some]
    lines += ["", "## Failures", ""]
    if not run["failures"]:
        lines.append("None.")
    lines += [f"- {words}: {n}" for words, n in sorted(run["failures"].items())]
    return "\n".join(lines) + "\n"


_HEAD = (
    "| class | schedules | clean | answered | at most | violating | answered | at most | unknown | refused | false alarm "
    "| missed | wrong kind | error |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
)


def _said(knowledge: str) -> str:
    return f"the {knowledge}" if knowledge == ALONE else f"the trace {knowledge}"


def _line(row: dict[str, Any]) -> str:
    clean = row["truth"]["clean"]
    violating = sum(row["truth"][t] for t in VIOLATING)
    asked = row["knowledge"] not in MISLEADING
    cells = [
        row["class"],
        row["schedules"],
        clean,
        _share(row["answered_of_clean"], clean),
        _share(clean - row["undecidable_of_clean"], clean * asked),
        violating,
        _share(row["answered_of_violating"], violating),
        _share(violating - row["undecidable_of_violating"], violating * asked),
        *(row["outcomes"][o] for o in OUTCOMES if o not in ("right", "not judged")),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"
