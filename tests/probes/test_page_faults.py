"""What page faults cost on this machine: counts and orders that hold on every Linux, no times."""

from __future__ import annotations

import polars as pl
import pytest

from wastedcores import figures
from wastedcores.errors import UsageError
from wastedcores.probes.page_faults import faults_over_time, grouped_cost_us, measure


@pytest.fixture(scope="module")
def table():
    return measure(runs=3)


def of(table, way, column):
    return table.filter(pl.col("way") == way)[column][0]


def test_every_page_faults_once_and_after_a_read_twice(table):
    assert of(table, "touch", "faults") == 245
    assert of(table, "read first", "faults") in range(245, 491)
    assert of(table, "populate all", "faults") < 10


def test_the_second_touch_takes_no_fault(table):
    assert of(table, "touch", "again_us") < of(table, "touch", "touch_us")


def test_a_fault_of_one_page_and_one_of_all_are_the_ends_of_the_prediction():
    made = pl.DataFrame({"way": ["touch", "populate all"], "page_us": [3.0, 1.0]})
    assert grouped_cost_us(made, 1) == 3
    assert grouped_cost_us(made, 4) == 1.5
    assert grouped_cost_us(made, 10**9) == pytest.approx(1)


def test_impossible_lengths_are_refused():
    with pytest.raises(UsageError, match="1 B to 1 GiB"):
        measure(0)
    with pytest.raises(UsageError, match="at least 1 run"):
        measure(4096, 0)


def test_the_figures_have_every_page_and_every_way(table):
    touches = faults_over_time(100_000)
    assert touches["page"].to_list() == list(range(-1, 25))
    drawn = figures.page_faults(touches)
    assert "25 pages" in drawn.layout.title.text
    assert len(drawn.data[1].x) == 3 * 25
    assert list(figures.page_costs(table).data[0].y) == table["way"].to_list()
