"""A window is given in the times that the axis shows; one outside of the trace is refused, whatever is drawn."""

from __future__ import annotations

import json

import pytest
from support.typed import typed
from typer.testing import CliRunner

from wastedcores.cli import register_verbs
from wastedcores.cli._app import app
from wastedcores.cli.figure import _axis_ns, _within
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures.kinds import KINDS

MS = 10**6


@pytest.mark.parametrize(
    ("start", "end"), [(3000 * MS, None), (None, 0), (3000 * MS, 2000 * MS), (9000 * MS, 10**10)]
)
def test_a_window_outside_of_the_trace_is_refused(start, end):
    with pytest.raises(UsageError, match=r"from 0 to 3,000\.000 ms"):
        _within((10**9, 4 * 10**9), start, end)


def test_a_window_that_overlaps_is_cut():
    assert _within((10**9, 4 * 10**9), 0, 10**9) == (10**9, 2 * 10**9)
    assert _within((10**9, 4 * 10**9), 2 * 10**9, 10**10) == (3 * 10**9, 4 * 10**9)


@pytest.mark.parametrize(
    ("text", "ns"), [("4.5", 4500 * MS), ("20us", 20_000), ("651ms", 651 * MS)]
)
def test_a_place_has_a_unit_of_the_axis(text, ns):
    assert _axis_ns("--from", text) == ns


@pytest.mark.parametrize(
    "kind", [name for name, kind in KINDS.items() if "window" in kind.takes.split()]
)
def test_the_axis_begins_and_ends_where_the_options_say(kind, tmp_path, monkeypatch):
    """Whatever is drawn: the numbers and the unit of the options are those of the axis."""
    monkeypatch.chdir(tmp_path)
    register_verbs()
    words = [
        "figure",
        "live-balancing-off",
        "--kind",
        kind,
        "--from",
        "100ms",
        "--to",
        "350ms",
        "-o",
        "f.json",
    ]
    done = CliRunner().invoke(app, words)
    if done.exit_code:  # the recording has no such events
        assert isinstance(done.exception, MissingEventsError) or "no" in done.output
        return
    axis = json.loads((tmp_path / "f.json").read_text())["layout"]
    bottom = max(
        (name for name in axis if name.startswith("xaxis") and "title" in axis[name]), key=len
    )
    assert axis[bottom]["title"]["text"] == "time (ms)"
    assert axis["xaxis"]["range"] == pytest.approx([100, 350])


@pytest.mark.parametrize("option", ["--from", "--to"])
@pytest.mark.parametrize(
    "more",
    [["--kind", "waits"], ["--kind", "avoidable"], ["--kind", "worst"], ["--against", "live-balancing-on"]],
)  # fmt: skip
def test_a_window_that_would_be_ignored_is_refused(more, option, tmp_path):
    done = typed("figure", "live-balancing-off", *more, option, "100ms", "-o", tmp_path / "f.json")
    assert done.code == 2
    assert f"{option} is not for" in done.err
    assert "--between" in done.err
    assert not (tmp_path / "f.json").exists()


@pytest.mark.parametrize(("kind", "said"), [("events", True), ("heatmap", False)])
def test_colours_that_change_nothing_are_named(kind, said, tmp_path):
    words = ("figure", "live-balancing-off", "--kind", kind, "--palette", "paper")
    done = typed(*words, "-o", tmp_path / "f.json")
    assert done.code == 0, done.err
    assert ("--palette paper changes nothing" in done.err) == said
