"""Damaged recordings whose truth is known: no verdict is wrong where the trace contradicts itself.

``python tests/adversary/test_semantic.py`` makes the table ``semantic.md`` beside this file: 48 runs of each kind of damage,
on all recordings in turn. A test makes the first runs of each kind, and a long one (``WASTEDCORES_SLOW=1``) all of them.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import RECORDINGS
from support.mutants import MUTANTS, tried

RUNS = 48
#: of each kind in every run of the tests
FEW = 4
TABLE = Path(__file__).with_name("semantic.md")
OUTCOMES = ("same", "unknown", "refused", "flip, invisible", "flip, visible")
NAMES = sorted(p.name for p in RECORDINGS.iterdir() if p.is_dir())


def outcomes(kind: str, folder: Path, runs: int = RUNS) -> list[tuple[str, str, str]]:
    """The recording, the one it is mixed with, and what became of the verdict, for each run."""
    first = list(MUTANTS).index(kind)
    found = []
    for run in range(runs):
        # steps without a common divisor with the number of recordings, so that all of them and many pairs occur
        name = NAMES[(run + 7 * first) % len(NAMES)]
        other = NAMES[(5 * run + 3) % len(NAMES)]
        found.append((name, other, tried(kind, name, other, 1000 * first + run, folder)))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


@pytest.mark.slow
@pytest.mark.parametrize("kind", MUTANTS)
def test_no_verdict_is_wrong_where_a_contradiction_shows(kind, folder):
    assert not [f for f in outcomes(kind, folder, FEW) if f[2] == "flip, visible"]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", MUTANTS)
def test_no_verdict_is_wrong_in_any_of_the_runs(kind, folder):
    assert not [f for f in outcomes(kind, folder) if f[2] == "flip, visible"]


def main() -> int:
    """Write the table; returns 1 if a verdict was wrong where a contradiction shows."""
    lines = [
        "# Damaged recordings: what becomes of the verdict",
        "",
        f"Written by `python tests/adversary/test_semantic.py`: {RUNS} runs of each kind of damage on the "
        f"{len(NAMES)} recordings of `datasets/recordings`, checked with `--whole`. A flip is another verdict than that of the "
        "whole recording, and not `unknown`. It is visible if the trace contradicts itself anywhere.",
        "",
        "| damage | " + " | ".join(OUTCOMES) + " |",
        "|---|" + "---|" * len(OUTCOMES),
    ]
    flips = []
    with tempfile.TemporaryDirectory() as name:
        for kind in MUTANTS:
            found = outcomes(kind, Path(name))
            count = Counter(outcome for *_, outcome in found)
            lines.append(f"| {kind} | " + " | ".join(str(count[o]) for o in OUTCOMES) + " |")
            print(lines[-1], flush=True)
            flips += [(kind, *f) for f in found if f[2].startswith("flip")]
    lines += ["", "Flips:", ""]
    lines += [f"- {kind}: {name} ({o})" for kind, name, _, o in flips] or ["- none"]
    TABLE.write_text("\n".join(lines) + "\n")
    return int(any(o == "flip, visible" for *_, o in flips))


if __name__ == "__main__":
    sys.exit(main())
