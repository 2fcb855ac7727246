"""The tiers of the Makefile: ``make test`` and ``make test-all`` run every test once, and ``make quick`` a part of the first."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from support import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
#: the markers that the tiers speak of
MARKERS = ("slow", "live")


def expressions(target: str) -> list[str]:
    """What the calls of pytest under a target choose, as the text after ``-m``; only one names a folder."""
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]
    calls = [line for line in recipe.splitlines() if "$(PYTEST)" in line]
    assert calls
    chosen = [re.search(r'-m "([^"]*)"', call)[1] for call in calls]
    paths = [re.findall(r"tests/\S*", call) for call in calls]
    assert paths == [["tests/live"] if e == "not slow and live" else [] for e in chosen]
    return chosen


def chosen(expression: str, markers: dict[str, bool]) -> bool:
    assert set(re.findall(r"\w+", expression)) - {"not", "and", "or"} <= set(MARKERS)
    return eval(expression, {}, markers)


@pytest.mark.parametrize("values", list(itertools.product([False, True], repeat=2)))
def test_every_test_is_run_once_by_test_and_test_all(values):
    markers = dict(zip(MARKERS, values, strict=True))
    calls = expressions("test") + expressions("test-all")
    assert sum(chosen(e, markers) for e in calls) == 1


def test_live_tests_that_are_not_slow_are_in_their_folder():
    """The call that runs them collects nothing else, because that takes longer than many of them."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.parent.name != "live" and path != Path(__file__):
            marks = re.findall(r"^@pytest\.mark\.live\n(?:@.*\n)*", path.read_text(), re.MULTILINE)
            both = re.findall(
                r"^(?:@.*\n)*@pytest\.mark\.slow\n(?:@.*\n)*", path.read_text(), re.MULTILINE
            )
            assert len(marks) == sum("mark.live" in m for m in both), path


def test_test_all_runs_test_first_and_ci_runs_both():
    assert re.search(r"^test-all: test\b", MAKEFILE, re.MULTILINE)
    assert "make test test-all\n" in (ROOT / ".ci" / "run").read_text()


def test_quick_leaves_out_what_test_leaves_out_and_folders_that_exist():
    recipe = re.search(r"^quick:.*\n\t(.*)\n", MAKEFILE, re.MULTILINE)[1]
    assert expressions("test")[0] == re.search(r'-m "([^"]*)"', recipe)[1]
    later = re.search(r"^LATER := (.*)$", MAKEFILE, re.MULTILINE)[1].split()
    assert all((ROOT / "tests" / folder).is_dir() for folder in later)
