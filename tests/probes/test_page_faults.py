"""What page faults cost on this machine: counts and orders that hold on every Linux, no times."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from wastedcores import figures
from wastedcores.errors import UsageError
from wastedcores.figures.anomalies import grouped_cost_us
from wastedcores_studies.probes.page_faults import _ways, faults_over_time, measure


@pytest.fixture(scope="module")
def table():
    return measure(runs=3)


def of(table, way, column):
    return table.filter(pl.col("way") == way)[column][0]


def test_every_page_faults_once_and_after_a_read_twice(table):
    assert of(table, "touch", "faults") == 245
    assert of(table, "read first", "faults") in range(245, 491)
    assert of(table, "populate all", "faults") < 10


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="needs huge pages"
)
def test_only_huge_pages_may_be_huge():
    """On a machine whose THP is ``always``, the pages of a long mapping were huge before they were told not to be."""
    for way, allocate in _ways(8 << 20).items():
        memory, offset = allocate()
        at = np.frombuffer(memory, np.uint8, offset=offset).ctypes.data
        flags = next(f for begin, end, f in mappings() if begin <= at < end)
        assert ("nh" in flags) == (way != "huge pages"), way


def mappings():
    """Yield the first and the last address of each mapping of this process, and its flags."""
    begin = end = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match("([0-9a-f]+)-([0-9a-f]+) ", line):
            begin, end = (int(x, 16) for x in found.groups())
        if line.startswith("VmFlags:"):
            yield begin, end, line.split()[1:]


def test_a_kernel_without_huge_pages_has_the_other_ways(monkeypatch):
    for advice in ("MADV_NOHUGEPAGE", "MADV_HUGEPAGE"):
        monkeypatch.setattr(mmap, advice, 9999)
    assert {"touch", "populate all"} <= set(measure(4096, 1)["way"]) < set(_ways(4096))


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
