"""Fixtures every test folder uses."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]
# jsonschema, which nbformat imports, would compile the grammars of international addresses for more than a second
sys.modules.setdefault("rfc3987_syntax", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Golden files can be written anew."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the code gives now into the golden files, and show the difference",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a golden file; with ``--update-golden`` write it there and print the difference instead."""

    def check(path: Path, text: str) -> None:
        before = path.read_text() if path.exists() else ""
        if not request.config.getoption("--update-golden"):
            assert text == before, (
                f"{path.name} differs; if that is intended, run with --update-golden"
            )
            return
        if text != before:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            lines = unified_diff(before.splitlines(), text.splitlines(), "before", path.name, "now")
            with request.getfixturevalue("capsys").disabled():
                print("", *lines, sep="\n")

    return check


# same examples everywhere; no deadline, because the machines are small and noisy
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


#: what these tests look at is a whole running machine, which others use too; a real defect fails every time
REAL_MACHINE = ("live", "root", "browser", "cluster")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests of a real machine needed another try: a race hides behind reruns that nobody counts."""
    stats = terminalreporter.stats
    again = Counter(r.nodeid for r in stats.get("rerun", []))
    if again:
        ran = sum(len(stats.get(k, [])) for k in ("passed", "failed"))
        terminalreporter.section("tests that were run again")
        for name, times in again.most_common():
            terminalreporter.line(f"{times} x {name}")
        terminalreporter.line(f"{len(again)} of {ran} tests ({len(again) / max(ran, 1):.1%})")


@pytest.hookimpl(trylast=True)  # tests/live marks its own first
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave tests of many minutes out unless they are asked for; give those of a real machine two more tries."""
    for item in items:
        if any(item.get_closest_marker(m) for m in REAL_MACHINE):
            item.add_marker(pytest.mark.flaky(reruns=2))
    if os.environ.get("WASTEDCORES_SLOW") == "1":
        return
    skip = pytest.mark.skip(reason="takes many minutes; set WASTEDCORES_SLOW=1")
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(skip)
