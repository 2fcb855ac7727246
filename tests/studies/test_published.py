"""The published tables, and their copies without the predicted cells."""

from __future__ import annotations

import pytest

from wastedcores.errors import DatasetError
from wastedcores_studies import published


def test_the_tables_hold_the_published_numbers():
    ours = published.load()
    assert ours.number("lozi2016_table3", "lu", "bug_s") == 2196
    assert ours.number("walcher2019_tpch", "4 overload_on_wakeup", "full_change_pct") == -7


def test_table3_speedups_are_the_quotients_of_their_seconds():
    tables = published.load()
    for table in ("lozi2016_table1", "lozi2016_table3"):
        assert len(tables.rows(table)) == 9
        for app in tables.rows(table):
            bug, fixed, speedup = (
                tables.number(table, app, c) for c in ("bug_s", "fixed_s", "speedup")
            )
            # both are printed with two or three digits
            assert bug / fixed == pytest.approx(speedup, rel=0.035), (table, app)


def test_blanked_hides_every_predicted_cell_and_nothing_else():
    tables = published.load()
    hidden = published.blanked(tables)
    for app in tables.rows("lozi2016_table3"):
        with pytest.raises(DatasetError, match="blank"):
            hidden.number("lozi2016_table3", app, "bug_s")
        assert hidden.number("lozi2016_table3", app, "fixed_s") == tables.number(
            "lozi2016_table3", app, "fixed_s"
        )
        assert hidden.number("lozi2016_table1", app, "bug_s") > 0
    assert hidden.number("lozi2016_table2", "none", "q18_s") == 55.9
    with pytest.raises(DatasetError, match="blank"):
        hidden.number("lozi2016_table2", "overload_on_wakeup", "q18_s")
    with pytest.raises(DatasetError, match="blank"):
        hidden.number("lozi2016_claims", "lu_r_speedup", "value")


def test_load__says_what_is_wrong(tmp_path):
    with pytest.raises(DatasetError, match="no such file"):
        published.load(tmp_path)
    for path in published.find("datasets", "published").glob("*.csv"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "lozi2016_table1.csv").write_text("app,bug_s\nbt,1\n")
    with pytest.raises(DatasetError, match="column 'fixed_s' is missing"):
        published.load(tmp_path)
    (tmp_path / "lozi2016_table1.csv").write_text("app,bug_s,fixed_s,speedup\nbt,1,2,3\nbt,1,2,3\n")
    with pytest.raises(DatasetError, match="two rows"):
        published.load(tmp_path)


def test_number__of_a_text_or_of_no_cell():
    tables = published.load()
    with pytest.raises(DatasetError, match="expected a number"):
        tables.number("lozi2016_claims", "wakeup_idle_long", "value")
    with pytest.raises(DatasetError, match="no cell"):
        tables.number("lozi2016_table1", "dc", "bug_s")
