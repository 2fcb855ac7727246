"""Recordings with lines taken out, moved or changed, as damage and mistakes would: the truth is the verdict of the whole one."""

from __future__ import annotations

import lzma
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from wastedcores.errors import WastedCoresError
from wastedcores.invariant import CheckResult, check
from wastedcores.trace.io import open_trace

from . import RECORDINGS

_STAMP = re.compile(r"\s(\d+\.\d+):")
_CPU = re.compile(r"\[(\d+)\]")
_PID = re.compile(r"(next_pid=|prev_pid=| pid=)(\d+)")

Lines = list[str]


@cache
def recording(name: str) -> tuple[Lines, Lines]:
    """The comment lines and the event lines of a recording."""
    lines = lzma.decompress((RECORDINGS / name / "trace.txt.xz").read_bytes()).decode().splitlines()
    comments = [line for line in lines if line.startswith("#")]
    return comments, [line for line in lines if not line.startswith("#")]


def _time(line: str) -> float:
    return float(_STAMP.search(line)[1])  # type: ignore[index]


def _drop(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    return [line for line in lines if rng.random() > 0.1]


def _one_line(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    k = rng.randrange(len(lines))
    return lines[:k] + lines[k + 1 :]


def _without_cpu(lines: Lines, rng: random.Random, share: float) -> Lines:
    cpu = _CPU.search(rng.choice(lines))[1]  # type: ignore[index]
    there = [i for i, line in enumerate(lines) if _CPU.search(line)[1] == cpu]  # type: ignore[index]
    first = rng.randrange(len(there) - int(share * len(there)) + 1)
    gone = set(there[first : first + int(share * len(there))])
    return [line for i, line in enumerate(lines) if i not in gone]


def _cpu(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    return _without_cpu(lines, rng, 1.0)


def _third_of_a_cpu(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    return _without_cpu(lines, rng, 1 / 3)


def _block(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    first = rng.randrange(len(lines) * 95 // 100)
    return lines[:first] + lines[first + len(lines) // 20 :]


def _pids(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    lines = list(lines)
    for _ in range(20):
        i, by = rng.randrange(len(lines)), rng.choice([-1, 1, 7])
        lines[i] = _PID.sub(lambda m: f"{m[1]}{max(1, int(m[2]) + by)}", lines[i], count=1)  # noqa: B023
    return lines


def _states(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    lines = list(lines)
    sleeps = [i for i, line in enumerate(lines) if "prev_state=S" in line]
    for i in rng.sample(sleeps, min(20, len(sleeps))):
        lines[i] = lines[i].replace("prev_state=S", "prev_state=R")
    return lines


def _stamps(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    lines = list(lines)
    for _ in range(20):
        i = rng.randrange(len(lines) - 1)
        a, b = (_STAMP.search(line)[1] for line in lines[i : i + 2])  # type: ignore[index]
        lines[i], lines[i + 1] = lines[i + 1].replace(b, a, 1), lines[i].replace(a, b, 1)
    return lines


def _twice(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    k = rng.randrange(1, len(lines))
    return lines[:k] + lines[k - 1 :]


def _interleaved(lines: Lines, rng: random.Random, other: Lines) -> Lines:
    later = _time(lines[0]) - _time(other[0])
    moved = [_STAMP.sub(lambda m: f" {float(m[1]) + later:.6f}:", line, count=1) for line in other]
    return sorted(lines + moved, key=_time)


MUTANTS: dict[str, Callable[[Lines, random.Random, Lines], Lines]] = {
    "one line missing": _one_line,
    "a tenth of the lines missing": _drop,
    "a CPU missing": _cpu,
    "a third of a CPU missing": _third_of_a_cpu,
    "a block of 5 % missing": _block,
    "20 pids changed": _pids,
    "20 states S made R": _states,
    "20 stamps swapped": _stamps,
    "a line twice": _twice,
    "two recordings interleaved": _interleaved,
}


@cache
def true_verdict(name: str, folder: Path) -> str:
    """The verdict of the whole recording, in all of its time; it has all CPUs, which its text does not say."""
    result = _checked(name, recording(name)[1], folder, silent="idle")
    assert result is not None
    return result.verdict


def _checked(
    name: str, events: Lines, folder: Path, silent: str | None = None
) -> CheckResult | None:
    """Check events with the recording's comments; None if they are refused."""
    path = folder / "trace.txt"
    path.write_text("\n".join(recording(name)[0] + events) + "\n")
    try:
        return check(open_trace(path), whole=True, silent=silent)
    except WastedCoresError:
        return None


def tried(kind: str, name: str, other: str, seed: int, folder: Path) -> str:
    """Damage a recording: ``same`` or ``unknown`` verdict, ``refused``, or a flip that the trace shows or does not show."""
    events = MUTANTS[kind](recording(name)[1], random.Random(seed), recording(other)[1])
    result = _checked(name, events, folder)
    if result is None:
        return "refused"
    if result.verdict == true_verdict(name, folder):
        return "same"
    if result.verdict == "unknown":
        return "unknown"
    return "flip, visible" if result.oddities or result.doubts.height else "flip, invisible"
