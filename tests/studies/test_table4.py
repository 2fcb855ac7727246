"""Table 4: the published columns are those of the paper, the replayed ones those of a scorecard, and the page has the table."""

from __future__ import annotations

import pytest
from support import ROOT

from wastedcores import words
from wastedcores.files import read_table
from wastedcores.kernels import FIXES, KernelModel
from wastedcores_studies.table4 import FILE, SCHEMA, kernels_modelled, table_4


def row(id_, ours, low, high):
    return {"id": id_, "ours": ours, "low": low, "high": high, "kind": "predicted"}


SCORECARD = {
    "seeds": 3,
    "rows": [
        row("claims.lu_r_speedup", 8.5, 6.6, 10.6),
        row("table1.lu.speedup", 25.0, 24.0, 26.0),
        row("table2.q18.overload_on_wakeup.change", -20.0, -18.0, -22.0),
    ],
}


def test_the_rows_of_a_scorecard_stand_beside_the_published_ones():
    table = table_4(SCORECARD)
    assert table["bug"].to_list() == list(FIXES)
    assert table["published"].to_list() == [13, 27, 22, 138]
    assert table.select("ours", "low", "high").rows() == [
        (8.5, 6.6, 10.6),
        (25, 24, 26),
        (20, 18, 22),
        (None, None, None),
    ]
    said = words.bugs_table(table).text
    assert "22 %  query 18 of TPC-H  20 % [18 %, 22 %], predicted" in said
    assert "138x  lu after CPU hotplug  not replayed" in said


def test_a_row_whose_replays_failed_has_no_number():
    failed = {"rows": [row("table3.lu.speedup", None, None, None)]}
    assert table_4(failed)["ours"].to_list() == [None] * 4


@pytest.mark.parametrize("bug", FIXES)
def test_the_kernels_of_a_bug_are_those_whose_model_has_it(bug):
    first, _, last = kernels_modelled(bug).split()
    assert not KernelModel.named(first).has(bug)
    assert not KernelModel.named(last).has(bug)
    major, minor = map(int, last[1:].split("."))
    if last != "v7.2":
        after = f"v{major}.{minor + 1}"
        assert KernelModel.named("v5.0" if after == "v4.21" else after).has(bug)


def test_the_page_has_the_repositorys_table():
    table = read_table(FILE, SCHEMA, "tools/make_table_4.py")
    assert words.bugs_markdown(table) in (ROOT / "docs" / "table-4.md").read_text()
    # the published columns cannot drift from the published numbers
    assert table.drop("ours", "low", "high", "kind", "seeds").equals(
        table_4(SCORECARD).drop("ours", "low", "high", "kind", "seeds")
    )
    assert table["seeds"].to_list() == [20] * 4
