"""Recorded and replayed runs: marks over ranges in the figure, and how the text names what disagrees."""

from __future__ import annotations

import polars as pl
import pytest

from wastedcores import figures as fg
from wastedcores import words
from wastedcores.errors import UsageError
from wastedcores_studies.recordings.agreement import SCHEMA, read_agreement


def row(run, figure, unit, recorded, median, low, high, agrees):
    return (
        run,
        figure,
        unit,
        recorded,
        median,
        low,
        high,
        agrees,
        1.0,
        "v4.1",
        20,
        "2026-01-01",
        "1",
    )


TABLE = pl.DataFrame(
    [
        row("a", "make_s", "make_s", 1.1, 1.0, 0.9, 1.05, True),
        row("a", "busy CPUs", "busy CPUs", 8.0, 10.0, 9.0, 11.0, False),
        row("b", "busy CPUs", "busy CPUs", 0.05, 0.0, 0.0, 0.5, True),
        row("b", "threads, fullest node", "threads", 100.0, 1.0, 1.0, 1.0, False),
    ],
    schema=SCHEMA,
    orient="row",
)


def marks(fig, name):
    """Return (panel, x, y) of every mark with this name."""
    return [
        (trace.xaxis, x, y)
        for trace in fig.data
        if trace.name == name and trace.mode == "markers"
        for x, y in zip(trace.x, trace.y, strict=True)
        if x is not None
    ]


def test_marks_are_in_tolerances_from_the_median_and_end_at_the_edge():
    fig = fg.recorded_dots(TABLE)
    assert marks(fig, "recorded, agrees") == [
        ("x", pytest.approx(1.0), pytest.approx(0)),
        ("x2", pytest.approx(1.0), pytest.approx(1)),
    ]
    assert marks(fig, "recorded, does not agree") == [
        ("x2", pytest.approx(-2.0), pytest.approx(0)),
        ("x3", 7.0, pytest.approx(1)),
    ]
    (line,) = [t for t in fig.data if t.mode == "lines" and t.xaxis == "x2"]
    assert list(line.x) == [pytest.approx(-1), pytest.approx(1), None, 0, 7, None]


def test_what_disagrees_has_another_colour_and_shape_and_both_are_in_the_legend():
    fig = fg.recorded_dots(TABLE)
    looks = {t.name: (t.marker.symbol, t.marker.color) for t in fig.data if t.mode == "markers"}
    (a, b) = looks["recorded, agrees"], looks["recorded, does not agree"]
    assert a[0] != b[0]
    assert a[1] != b[1]
    shown = [t.name for t in fig.data if t.showlegend is not False]
    assert shown.count("recorded, does not agree") == shown.count("recorded, agrees") == 1
    assert fig.layout.title.text.startswith("2 of 4 recorded quantities")


@pytest.mark.slow
def test_committed_table_has_a_mark_for_every_row():
    table = read_agreement()
    fig = fg.recorded_dots(table)
    drawn = marks(fig, "recorded, agrees") + marks(fig, "recorded, does not agree")
    assert len(drawn) == table.height
    assert list(fig.layout.yaxis.ticktext) == table["run"].unique(maintain_order=True).to_list()


def test_words_name_what_does_not_agree():
    said = words.recorded_verdict(TABLE).text
    assert "2 of 4 quantities of 2 recorded runs agree with 20 replays each" in said
    assert "These do not agree: a (busy CPUs), b (threads, fullest node)." in said
    assert "The table was made on 2026-01-01 with wastedcores 1." in said
    assert "not agree" not in words.recorded_verdict(TABLE.filter("agrees")).text
    with pytest.raises(UsageError, match="Name quantities that it has, such as 'busy CPUs'"):
        words.recorded_verdict(TABLE.clear())


def test_table_in_numbers():
    text = words.recorded_table(TABLE).text
    assert "b  threads, fullest node  100  1  1 to 1  no" in text


def test_no_row_is_refused():
    with pytest.raises(UsageError, match="no row"):
        fg.recorded_dots(TABLE.clear())
